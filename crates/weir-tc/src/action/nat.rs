// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nat`: stateless translation of IPv4 addresses.
//!
//! Mirrors net/sched/act_nat.c.
//!
//! Parameters: the direction (`ingress` translates destinations, `egress` sources), the old prefix
//! and the new one. An address within the old prefix gets the new prefix; the IPv4, TCP and UDP
//! checksums are adjusted. In ICMP errors the other address of the embedded packet is translated
//! too, and the ICMP checksum adjusted, but no checksum inside the embedded packet.
//!
//! Every packet is treated as IPv4: the filter must select suitable packets. A packet that is too
//! short is dropped and counts as a drop. If the control action is drop, every packet is dropped
//! unchanged and counts as a drop. In later fragments only the addresses are translated.

use weir_netlink::tca::nat as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, TcNat, Writer, policy};
use weir_packet::Packet;
use weir_packet::checksum::replace_u32;
use weir_sync::rcu::Published;

use super::init::required;
use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_LEN: usize = 20;
const ICMP_LEN: usize = 8;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcNat::LEN as u16),
};

/// The kind's part of an action.
pub struct Nat {
    params: Published<Params>,
}

/// The parameters of an action.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    old: u32,
    new: u32,
    mask: u32,
    flags: u32,
}

/// The packet is too short.
struct Short;

fn load(bytes: &[u8], at: usize) -> Result<u32, Short> {
    let octets = bytes.get(at..).and_then(|rest| rest.first_chunk());
    octets
        .map(|octets| u32::from_be_bytes(*octets))
        .ok_or(Short)
}

fn store(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(to) = bytes.get_mut(at..at + 4) {
        to.copy_from_slice(&value.to_be_bytes());
    }
}

/// Adjusts the checksum at offset `at` to a changed address and returns it.
fn correct(bytes: &mut [u8], at: usize, old: u32, new: u32) -> u16 {
    let Some(place) = bytes
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<2>())
    else {
        return 0;
    };
    let check = replace_u32(u16::from_be_bytes(*place), old, new);
    *place = check.to_be_bytes();
    check
}

impl Params {
    fn egress(&self) -> bool {
        self.flags & u32::from(attr::FLAG_EGRESS) != 0
    }

    /// Returns the translated address, if `address` is within the old prefix.
    fn translate(&self, address: u32) -> Option<u32> {
        let within = (self.old ^ address) & self.mask == 0;
        within.then_some(self.new & self.mask | address & !self.mask)
    }

    /// Translates a packet that begins at its network header.
    fn apply(&self, packet: &mut [u8]) -> Result<(), Short> {
        let head: [u8; IPV4_LEN] = *packet.first_chunk().ok_or(Short)?;
        let (outer, inner) = if self.egress() {
            (SOURCE, DESTINATION)
        } else {
            (DESTINATION, SOURCE)
        };
        let old = load(packet, outer)?;
        let later = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
        let protocol = if later { None } else { Some(head[9]) };
        let translated = self.translate(old);
        match translated {
            Some(new) => {
                store(packet, outer, new);
                correct(packet, 10, old, new);
            }
            None if protocol != Some(ICMP) => return Ok(()),
            None => {}
        }
        let start = usize::from(head[0] & 0xf) * 4;
        // If a short header length lets the address overlap the segment, the header is read again
        // below, as in Linux.
        let segment = packet.get_mut(start..).ok_or(Short);
        match (protocol, translated) {
            (Some(TCP), Some(new)) => {
                let segment = segment?;
                segment.get(..20).ok_or(Short)?;
                correct(segment, 16, old, new);
            }
            (Some(UDP), Some(new)) => {
                let segment = segment?;
                segment.get(..8).ok_or(Short)?;
                if segment.get(6..8) != Some(&[0, 0]) && correct(segment, 6, old, new) == 0 {
                    segment.get_mut(6..8).ok_or(Short)?.fill(0xff);
                }
            }
            (Some(ICMP), _) => self.apply_icmp(segment?, inner)?,
            _ => {}
        }
        Ok(())
    }

    /// Translates the packet embedded in an ICMP error.
    fn apply_icmp(&self, icmp: &mut [u8], place: usize) -> Result<(), Short> {
        icmp.get(..ICMP_LEN).ok_or(Short)?;
        // As in `icmp_is_err`.
        if !matches!(icmp.first(), Some(3 | 4 | 5 | 11 | 12)) {
            return Ok(());
        }
        icmp.get(..ICMP_LEN + IPV4_LEN).ok_or(Short)?;
        let old = load(icmp, ICMP_LEN + place)?;
        if let Some(new) = self.translate(old) {
            store(icmp, ICMP_LEN + place, new);
            correct(icmp, 2, old, new);
        }
        Ok(())
    }
}

impl Kind for Nat {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let params = *self.params.load(cx.guard);
        let place = Place::of(packet, cx);
        let network = packet.mac_mut().get_mut(place.network..);
        if control == code::SHOT || params.apply(network.unwrap_or_default()).is_err() {
            common.counters.count_drop(cx.cpu);
            return code::SHOT;
        }
        cx.packet_changed();
        control
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        let parms = TcNat {
            common: start,
            old_addr: params.old.to_be_bytes(),
            new_addr: params.new.to_be_bytes(),
            mask: params.mask.to_be_bytes(),
            flags: params.flags,
        };
        w.put_fixed(attr::PARMS, &parms);
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

impl Spec for Nat {
    const KIND: &'static str = "nat";
    type Request = TcNat;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, TcNat), Error> {
        let mut tb = Table::empty();
        let parms: TcNat = required(options, &POLICY, attr::PARMS, &mut tb)?;
        Ok((parms.common.index, parms))
    }

    fn control(request: &TcNat) -> Code {
        request.common.action
    }

    fn prepare(request: TcNat, _host: &dyn Host) -> Result<Params, Error> {
        Ok(Params {
            old: u32::from_be_bytes(request.old_addr),
            new: u32::from_be_bytes(request.new_addr),
            mask: u32::from_be_bytes(request.mask),
            flags: request.flags,
        })
    }

    published!(params: Published);
}

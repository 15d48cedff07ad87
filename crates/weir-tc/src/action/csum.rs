// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `csum`: recomputes checksums after other actions changed a packet.
//!
//! Mirrors net/sched/act_csum.c.
//!
//! Parameters: the checksums to recompute: ip4h (the IPv4 header's), icmp (ICMPv6 too), igmp, tcp,
//! udp, udplite, sctp.
//!
//! Packets of other protocols pass unchanged, and so do IPv6 fragments. In later IPv4 fragments
//! only the header checksum is recomputed. UDP over IPv4 without a checksum stays without one; UDP
//! whose length differs from that of the packet is left without a checksum. A packet shorter than
//! its header says is dropped and counts as a drop. If the control action is drop, every packet is
//! dropped unchanged and counts as a drop.
//!
//! At egress Linux looks for a tag in the frame's data at the wrong offset: such a frame passes
//! unchanged, and its offsets count from the MAC header afterwards. This code does the same.

use weir_netlink::tca::csum as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcCsum, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_packet::checksum::{Sum, crc32c};
use weir_packet::header::ethernet::is_vlan;
use weir_sync::rcu::Published;

use super::init::required;
use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const IPV6_LEN: usize = 40;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;
const HOP: u8 = 0;
const ROUTING: u8 = 43;
const DEST: u8 = 60;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcCsum::LEN as u16),
};

/// The kind's part of an action.
pub struct Csum {
    /// `TCA_CSUM_UPDATE_FLAG_*`
    flags: Published<u32>,
}

/// The packet is shorter than its headers say and must be dropped.
struct Short;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let octets = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*octets))
}

fn store(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(to) = bytes.get_mut(at..at + 2) {
        to.copy_from_slice(&value.to_be_bytes());
    }
}

/// Recomputes the checksum of the segment from offset `header` up to `end`, if `flags` ask for
/// it: TCP, UDP, UDP-Lite, ICMP, ICMPv6, IGMP or SCTP.
fn transport(
    packet: &mut [u8],
    proto: u8,
    header: usize,
    end: usize,
    flags: u32,
    ipv6: bool,
) -> Result<(), Short> {
    let (flag, least, at) = match proto {
        ICMP if !ipv6 => (attr::UPDATE_FLAG_ICMP, 8, 2),
        ICMPV6 if ipv6 => (attr::UPDATE_FLAG_ICMP, 8, 2),
        IGMP if !ipv6 => (attr::UPDATE_FLAG_IGMP, 8, 2),
        TCP => (attr::UPDATE_FLAG_TCP, 20, 16),
        UDP => (attr::UPDATE_FLAG_UDP, 8, 6),
        UDPLITE => (attr::UPDATE_FLAG_UDPLITE, 8, 6),
        SCTP => (attr::UPDATE_FLAG_SCTP, 12, 8),
        _ => return Ok(()),
    };
    if flags & flag == 0 {
        return Ok(());
    }
    // As in `tcf_csum_skb_nextlayer`.
    if end < header + least || end > packet.len() {
        return Err(Short);
    }
    let len = end - header;
    let mut sum = Sum::new();
    if !matches!(proto, ICMP | IGMP) {
        let addresses = if ipv6 { 8..40 } else { 12..20 };
        sum.add(packet.get(addresses).unwrap_or_default());
        sum.add_u16(u16::from(proto));
    }
    let rest = packet.get_mut(header..).ok_or(Short)?;
    if proto == SCTP {
        // The CRC covers everything up to the end of the packet, whatever the header says.
        if let Some(check) = rest.get_mut(at..at + 4) {
            check.fill(0);
        }
        let crc = crc32c(rest);
        if let Some(check) = rest.get_mut(at..at + 4) {
            check.copy_from_slice(&crc.to_le_bytes());
        }
        return Ok(());
    }
    let old = word(rest, at).unwrap_or_default();
    let mut covered = len;
    let mut stated = len;
    if matches!(proto, UDP | UDPLITE) {
        if proto == UDP && !ipv6 && old == 0 {
            return Ok(());
        }
        store(rest, at, 0);
        stated = usize::from(word(rest, 4).unwrap_or_default());
        covered = match proto {
            UDPLITE if stated == 0 => len,
            UDPLITE if (8..=len).contains(&stated) => stated,
            UDP if stated == len => len,
            _ => return Ok(()),
        };
    }
    store(rest, at, 0);
    if !matches!(proto, ICMP | IGMP) {
        sum.add_u32(stated as u32);
    }
    sum.add(rest.get(..covered).unwrap_or_default());
    let check = match proto {
        UDP | UDPLITE => sum.finish_udp(),
        _ => sum.finish(),
    };
    store(rest, at, check);
    Ok(())
}

/// Recomputes the checksums of a packet that begins at its IPv4 header (`tcf_csum_ipv4`).
fn ipv4(packet: &mut [u8], flags: u32) -> Result<(), Short> {
    let head: [u8; 20] = *packet.first_chunk().ok_or(Short)?;
    let header = usize::from(head[0] & 0xf) * 4;
    let end = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let later = u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0;
    if !later {
        transport(packet, head[9], header, end, flags, false)?;
    }
    if flags & attr::UPDATE_FLAG_IPV4HDR != 0 {
        store(packet, 10, 0);
        let header = packet.get(..header).unwrap_or(packet);
        // For an impossible header length, x86's `ip_fast_csum` returns the first two bytes.
        let check = match header.len() {
            ..20 => u16::from_be_bytes([head[0], head[1]]),
            _ => Sum::new().add(header).finish(),
        };
        store(packet, 10, check);
    }
    Ok(())
}

/// Returns the length of a jumbogram from hop-by-hop options, if it is there
/// (`tcf_csum_ipv6_hopopts`). Fails if the options are malformed.
fn jumbo(options: &[u8]) -> Result<Option<u32>, Short> {
    let mut at = 2;
    while let Some(&[kind, len]) = options.get(at..).and_then(|rest| rest.first_chunk()) {
        let left = options.len() - at;
        let len = usize::from(len) + 2;
        match kind {
            0 => at += 1,
            0xc2 => {
                if len != 6 || left < 6 || at & 3 != 2 {
                    return Err(Short);
                }
                let value = options.get(at + 2..).and_then(|b| b.first_chunk());
                return Ok(value.map(|octets| u32::from_be_bytes(*octets)));
            }
            _ if len > left => break,
            _ => at += len,
        }
    }
    Ok(None)
}

/// Recomputes the checksums of a packet that begins at its IPv6 header (`tcf_csum_ipv6`).
fn ipv6(packet: &mut [u8], flags: u32) -> Result<(), Short> {
    let mut payload = u32::from(word(packet, 4).unwrap_or_default());
    let mut next = *packet.get(6).ok_or(Short)?;
    let mut at = IPV6_LEN;
    if packet.len() < at {
        return Err(Short);
    }
    loop {
        match next {
            HOP | ROUTING | DEST => {
                let [following, len] = *packet
                    .get(at..)
                    .and_then(|b| b.first_chunk())
                    .ok_or(Short)?;
                let len = (usize::from(len) + 1) * 8;
                let header = packet.get(at..at + len).ok_or(Short)?;
                if next == HOP {
                    payload = jumbo(header)?.unwrap_or(payload);
                }
                next = following;
                at += len;
                if packet.len() <= at {
                    return Ok(());
                }
            }
            _ => {
                let end = payload.wrapping_add(IPV6_LEN as u32) as usize;
                return transport(packet, next, at, end, flags, true);
            }
        }
    }
}

/// Recomputes the checksums of a packet. Fails if the packet must be dropped.
fn update(packet: &mut Packet, place: Place, flags: u32) -> Result<(), Short> {
    let mut place = place;
    let mut seen = packet.vlan().is_none();
    let mut protocol = packet.vlan().map_or(packet.protocol, |tag| tag.proto);
    let origin = place.data;
    let result = loop {
        let network = |packet: &mut Packet, work: fn(&mut [u8], u32) -> Result<(), Short>| {
            let bytes = packet.mac_mut().get_mut(place.network..);
            work(bytes.unwrap_or_default(), flags)
        };
        match protocol {
            ETH_P_IP => break network(packet, ipv4),
            ETH_P_IPV6 => break network(packet, ipv6),
            kind if !is_vlan(kind) => break Ok(()),
            _ if !seen => {
                seen = true;
                protocol = packet.protocol;
            }
            _ => {
                let tag = packet.mac().get(place.data..).and_then(|b| b.first_chunk());
                let Some([_, _, a, b]) = tag else {
                    break Err(Short);
                };
                protocol = u16::from_be_bytes([*a, *b]);
                place.data += 4;
                place.network = place.data;
            }
        }
    };
    if place.data != origin {
        // Linux resets the network header to where the data began.
        let pulled = packet.pulled_from_mac().unwrap_or_default();
        packet.set_network(origin.saturating_sub(pulled));
    }
    result
}

impl Kind for Csum {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let flags = *self.flags.load(cx.guard);
        let place = Place::of(packet, cx);
        let dropped = control == code::SHOT || update(packet, place, flags).is_err();
        cx.packet_changed();
        if dropped {
            common.counters.count_drop(cx.cpu);
            return code::SHOT;
        }
        control
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let parms = TcCsum {
            common: start,
            update_flags: *self.flags.load(env.guard),
        };
        w.put_fixed(attr::PARMS, &parms);
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

impl Spec for Csum {
    const KIND: &'static str = "csum";
    type Request = TcCsum;
    type Params = u32;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, TcCsum), Error> {
        let mut tb = Table::empty();
        let parms: TcCsum = required(options, &POLICY, attr::PARMS, &mut tb)?;
        Ok((parms.common.index, parms))
    }

    fn control(request: &TcCsum) -> Code {
        request.common.action
    }

    fn prepare(request: TcCsum, _host: &dyn Host) -> Result<u32, Error> {
        Ok(request.update_flags)
    }

    published!(flags: Published);
}

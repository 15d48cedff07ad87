// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `skbmod`: changes the Ethernet header, or marks congestion.
//!
//! Mirrors net/sched/act_skbmod.c.
//!
//! Parameters, one of: any of `dmac`, `smac` (addresses) and `etype` (Ethertype) to set; `swap mac`
//! (swap source and destination); `ecn` (an ECN-capable IP packet gets the mark "congestion
//! experienced").
//!
//! A packet that is too short is dropped and counts as an overlimit. If the control action is drop,
//! every packet is dropped unchanged and counts as an overlimit. At ingress Linux requires 14 bytes
//! after the Ethernet header, and so does this code. Setting the Ethertype changes only the frame:
//! later filters use the one the packet arrived with.

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::skbmod as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, TcSkbMod, Writer, policy};
use weir_packet::{Packet, edit};
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
const ETH_HLEN: usize = 14;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcSkbMod::LEN as u16),
    attr::DMAC => Rule::unspec(6),
    attr::SMAC => Rule::unspec(6),
    attr::ETYPE => Rule::u16(),
};

/// The parameters of an action.
#[derive(Debug, Clone, Copy)]
pub enum Params {
    /// Sets destination, source, Ethertype.
    Set(Option<[u8; 6]>, Option<[u8; 6]>, Option<u16>),
    /// Swaps source and destination.
    Swap,
    /// Marks congestion.
    Ecn,
}

/// The kind's part of an action.
pub struct Skbmod {
    params: Published<Params>,
}

/// The packet is too short.
struct Short;

fn mark(packet: &mut Packet, place: Place) -> Result<(), Short> {
    let (set, len): (fn(&mut [u8]) -> bool, _) = match place.protocol(packet) {
        ETH_P_IP => (edit::ipv4_set_ce, 20),
        ETH_P_IPV6 => (edit::ipv6_set_ce, 40),
        _ => return Ok(()),
    };
    if !place.has_network(len) {
        return Err(Short);
    }
    set(packet
        .mac_mut()
        .get_mut(place.network..)
        .unwrap_or_default());
    Ok(())
}

fn modify(params: Params, packet: &mut Packet, place: Place, ethernet: bool) -> Result<(), Short> {
    if let Params::Ecn = params {
        return mark(packet, place);
    }
    if !ethernet {
        return Ok(());
    }
    if place.data + ETH_HLEN > place.end {
        return Err(Short);
    }
    let Some(header) = packet.mac_mut().first_chunk_mut::<ETH_HLEN>() else {
        return Err(Short);
    };
    rewrite(params, header);
    Ok(())
}

fn rewrite(params: Params, header: &mut [u8; ETH_HLEN]) {
    match params {
        Params::Set(dst, src, ethertype) => {
            if let Some(dst) = dst {
                header[..6].copy_from_slice(&dst);
            }
            if let Some(src) = src {
                header[6..12].copy_from_slice(&src);
            }
            if let Some(ethertype) = ethertype {
                header[12..].copy_from_slice(&ethertype.to_be_bytes());
            }
        }
        _ => header[..12].rotate_left(6),
    }
}

impl Kind for Skbmod {
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
        if control == code::SHOT || modify(params, packet, place, cx.ethernet).is_err() {
            common.counters.count_overlimit(cx.cpu);
            return code::SHOT;
        }
        cx.packet_changed();
        control
    }

    fn plan(&self, common: &Common, cx: &Context<'_, '_>, packets: &[Packet]) -> Option<Code> {
        let control = common.control();
        let addresses = !matches!(self.params.load(cx.guard), Params::Ecn);
        let long = |packet: &Packet| {
            let place = Place::of(packet, cx);
            (place.data + ETH_HLEN <= place.end) & (place.end >= ETH_HLEN)
        };
        let plain = control != code::SHOT && addresses && cx.ethernet;
        // At ingress the data are the network header.
        let needed = if cx.ingress { 2 * ETH_HLEN } else { ETH_HLEN };
        if cx
            .received
            .is_some_and(|received| received.shortest as usize >= needed)
        {
            return plain.then_some(control);
        }
        let all = |packets: &[Packet]| packets.iter().fold(true, |all, packet| all & long(packet));
        (plain && all(packets)).then_some(control)
    }

    fn run_planned<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        (packets, bytes): (&mut [Packet], u64),
        _out: &mut Outcome<'g>,
    ) {
        common.hit_many(cx, packets.len() as u64, bytes, false);
        let params = *self.params.load(cx.guard);
        // The plan has made sure that the packets are long enough. The data of unaltered ones begin at their header.
        if let Params::Set(Some(dst), Some(src), None) = params
            && cx.received.is_some()
        {
            let [d0, d1, d2, d3, d4, d5] = dst;
            let [s0, s1, s2, s3, s4, s5] = src;
            let both = [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5];
            for packet in packets {
                if let Some(addresses) = packet.head_mut() {
                    *addresses = both;
                }
            }
            return;
        }
        for packet in packets {
            if let Some(header) = packet.mac_mut().first_chunk_mut() {
                rewrite(params, header);
            }
        }
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = *self.params.load(env.guard);
        let flags = match params {
            Params::Set(dst, src, ethertype) => {
                let flag = |set: bool, flag| if set { flag } else { 0 };
                flag(dst.is_some(), attr::SKBMOD_F_DMAC)
                    | flag(src.is_some(), attr::SKBMOD_F_SMAC)
                    | flag(ethertype.is_some(), attr::SKBMOD_F_ETYPE)
            }
            Params::Swap => attr::SKBMOD_F_SWAPMAC,
            Params::Ecn => attr::SKBMOD_F_ECN,
        };
        let parms = TcSkbMod {
            common: start,
            pad: 0,
            flags,
        };
        w.put_fixed(attr::PARMS, &parms);
        if let Params::Set(dst, src, ethertype) = params {
            if let Some(dst) = dst {
                w.put(attr::DMAC, &dst);
            }
            if let Some(src) = src {
                w.put(attr::SMAC, &src);
            }
            if let Some(ethertype) = ethertype {
                w.put_u16(attr::ETYPE, ethertype);
            }
        }
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

impl Spec for Skbmod {
    const KIND: &'static str = "skbmod";
    type Request = (Code, Params);
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Self::Request), Error> {
        let mut tb = Table::empty();
        let parms: TcSkbMod = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let address = |ty| {
            tb.get(ty)
                .and_then(|a| a.payload.first_chunk::<6>().copied())
        };
        let ethertype = tb.get(attr::ETYPE).and_then(|a| a.payload.first_chunk());
        let params = if parms.flags & attr::SKBMOD_F_ECN != 0 {
            Params::Ecn
        } else if parms.flags & attr::SKBMOD_F_SWAPMAC != 0 {
            Params::Swap
        } else {
            let ethertype = ethertype.map(|octets| u16::from_ne_bytes(*octets));
            Params::Set(address(attr::DMAC), address(attr::SMAC), ethertype)
        };
        Ok((parms.common.index, (parms.common.action, params)))
    }

    fn validate((_, params): &Self::Request, _exists: bool) -> Result<(), Error> {
        match params {
            Params::Set(None, None, None) => Err(Error::new(EINVAL)),
            _ => Ok(()),
        }
    }

    fn control((control, _): &Self::Request) -> Code {
        *control
    }

    fn prepare((_, params): Self::Request, _host: &dyn Host) -> Result<Params, Error> {
        Ok(params)
    }

    published!(params: Published);
}

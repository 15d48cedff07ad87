// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `skbedit`: changes the metadata of a packet: priority, mark, queue, packet type.
//!
//! Mirrors net/sched/act_skbedit.c.
//!
//! Parameters: `priority` (a class or number), or `inheritdsfield` (the priority is the packet's
//! DSCP); `mark` with a mask of the bits it sets (default: all); `queue_mapping` (a transmit queue
//! that the device has, or with `skbhash` a range from which the packet's flow hash chooses);
//! `ptype` (host, broadcast, multicast, otherhost).
//!
//! A packet too short to have a DSCP is dropped and counts as a drop. A queue that the device does
//! not have is not set.
//!
//! Unlike in Linux, the flow hash has no random key, so that runs are reproducible.

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::skbedit as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, Writer, policy};
use weir_packet::{Packet, PacketType};
use weir_sync::rcu::Published;

use super::init::required;
use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::qdisc::packet_hash;
use crate::verdict::{Code, Outcome, code};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcGen::LEN as u16),
    attr::PRIORITY => Rule::unspec(4),
    attr::QUEUE_MAPPING => Rule::unspec(2),
    attr::MARK => Rule::unspec(4),
    attr::PTYPE => Rule::unspec(2),
    attr::MASK => Rule::unspec(4),
    attr::FLAGS => Rule::unspec(8),
    attr::QUEUE_MAPPING_MAX => Rule::unspec(2),
};

/// The parameters of an action; `None` leaves a field unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    priority: Option<u32>,
    /// The lowest queue, and the highest if the hash chooses.
    queue: Option<(u16, Option<u16>)>,
    mark: Option<u32>,
    mask: Option<u32>,
    ptype: Option<PacketType>,
    inherit: bool,
}

impl Params {
    /// Returns whether the request asks for nothing (no `SKBEDIT_F_*`).
    fn is_empty(&self) -> bool {
        let numbers = self.priority.or(self.mark).or(self.mask);
        numbers.is_none() && self.queue.is_none() && self.ptype.is_none() && !self.inherit
    }

    /// Returns the queue for a packet, if the device has `queues` of them (`tcf_skbedit_hash`).
    fn queue(&self, queues: u32, packet: &mut Packet) -> Option<u16> {
        let (low, high) = self.queue.filter(|(low, _)| u32::from(*low) < queues)?;
        let mut queue = low;
        if let Some(high) = high {
            let range = u32::from(high - low) + 1;
            queue = queue.wrapping_add((packet_hash(packet) % range) as u16);
        }
        Some(if u32::from(queue) < queues { queue } else { 0 })
    }
}

/// The kind's part of an action.
pub struct Skbedit {
    params: Published<Params>,
}

/// Returns the packet's DSCP if it is IP. Fails if the header is truncated.
fn dscp(packet: &Packet, place: Place) -> Result<Option<u32>, ()> {
    let network = packet.mac().get(place.network..).unwrap_or_default();
    let field = match place.protocol(packet) {
        ETH_P_IP => network.first_chunk::<20>().map(|h| h[1]),
        ETH_P_IPV6 => network.first_chunk::<40>().map(|h| h[0] << 4 | h[1] >> 4),
        _ => return Ok(None),
    };
    field.map(|field| Some(u32::from(field >> 2))).ok_or(())
}

impl Kind for Skbedit {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let params = *self.params.load(cx.guard);
        if let Some(priority) = params.priority {
            packet.priority = priority;
        }
        if params.inherit {
            match dscp(packet, Place::of(packet, cx)) {
                Ok(Some(dscp)) => packet.priority = dscp,
                Ok(None) => {}
                Err(()) => {
                    common.counters.count_drop(cx.cpu);
                    return code::SHOT;
                }
            }
        }
        if let Some(queue) = params.queue(cx.tx_queues, packet) {
            packet.queue = queue;
            cx.queue_chosen = true;
        }
        if let Some(mark) = params.mark {
            let mask = params.mask.unwrap_or(u32::MAX);
            packet.mark = packet.mark & !mask | mark & mask;
        }
        if let Some(ptype) = params.ptype {
            packet.set_pkt_type(ptype);
        }
        common.control()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        w.put_fixed(attr::PARMS, &start);
        if let Some(priority) = params.priority {
            w.put_u32(attr::PRIORITY, priority);
        }
        if let Some((low, _)) = params.queue {
            w.put_u16(attr::QUEUE_MAPPING, low);
        }
        if let Some(mark) = params.mark {
            w.put_u32(attr::MARK, mark);
        }
        if let Some(ptype) = params.ptype {
            w.put_u16(attr::PTYPE, ptype as u16);
        }
        if let Some(mask) = params.mask {
            w.put_u32(attr::MASK, mask);
        }
        let mut flags = 0;
        if params.inherit {
            flags |= u64::from(attr::SKBEDIT_F_INHERITDSFIELD);
        }
        if let Some((_, Some(high))) = params.queue {
            w.put_u16(attr::QUEUE_MAPPING_MAX, high);
            flags |= u64::from(attr::SKBEDIT_F_TXQ_SKBHASH);
        }
        if flags != 0 {
            w.put_u64(attr::FLAGS, flags);
        }
        w.put_fixed(attr::TM, &common.ages(env));
    }

    /// Hardware could do exactly one change, of mark, type or priority, and nothing else.
    fn offload(&self, _common: &Common, env: &Env<'_>) -> Result<(), Option<&'static str>> {
        let params = self.params.load(env.guard);
        let others = params.queue.is_some() || params.mask.is_some() || params.inherit;
        let changes = [
            params.priority.is_some(),
            params.mark.is_some(),
            params.ptype.is_some(),
        ];
        let could = !others && changes.into_iter().filter(|&there| there).count() == 1;
        could.then_some(()).ok_or(None)
    }
}

/// Checks the queues and returns the lowest one, and the highest if the hash chooses.
fn queues(low: Option<u16>, high: Option<u16>) -> Result<(u16, Option<u16>), Error> {
    let text = |text: &'static str| Error::msg(EINVAL, text);
    let (Some(low), Some(high)) = (low, high) else {
        return Err(text(
            "act_skbedit: Missing required range of queue_mapping.",
        ));
    };
    if high < low {
        return Err(text(
            "act_skbedit: The range of queue_mapping is invalid, max < min.",
        ));
    }
    if high - low == u16::MAX {
        return Err(text("act_skbedit: The range of queue_mapping is invalid."));
    }
    Ok((low, Some(high)))
}

impl Spec for Skbedit {
    const KIND: &'static str = "skbedit";
    type Request = (Code, Params);
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Self::Request), Error> {
        let invalid = || Error::new(EINVAL);
        let mut tb = Table::empty();
        let parms: TcGen = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let short = |ty| {
            let octets = tb.get(ty)?.payload.first_chunk()?;
            Some(u16::from_ne_bytes(*octets))
        };
        let long = |ty| {
            let octets = tb.get(ty)?.payload.first_chunk()?;
            Some(u32::from_ne_bytes(*octets))
        };
        let ptype = short(attr::PTYPE).map(|ptype| match ptype {
            0 => Ok(PacketType::Host),
            1 => Ok(PacketType::Broadcast),
            2 => Ok(PacketType::Multicast),
            3 => Ok(PacketType::OtherHost),
            _ => Err(invalid()),
        });
        let mut params = Params {
            priority: long(attr::PRIORITY),
            queue: short(attr::QUEUE_MAPPING).map(|queue| (queue, None)),
            mark: long(attr::MARK),
            mask: long(attr::MASK),
            ptype: ptype.transpose()?,
            inherit: false,
        };
        let flags = tb.get(attr::FLAGS).and_then(|f| f.payload.first_chunk());
        let flags = flags.map_or(0, |octets| u64::from_ne_bytes(*octets));
        if flags & u64::from(attr::SKBEDIT_F_TXQ_SKBHASH) != 0 {
            let low = params.queue.map(|(low, _)| low);
            params.queue = Some(queues(low, short(attr::QUEUE_MAPPING_MAX))?);
        }
        params.inherit = flags & u64::from(attr::SKBEDIT_F_INHERITDSFIELD) != 0;
        Ok((parms.index, (parms.action, params)))
    }

    fn validate((_, params): &Self::Request, _exists: bool) -> Result<(), Error> {
        if params.is_empty() {
            return Err(Error::new(EINVAL));
        }
        Ok(())
    }

    fn control((control, _): &Self::Request) -> Code {
        *control
    }

    fn prepare((_, params): Self::Request, _host: &dyn Host) -> Result<Params, Error> {
        Ok(params)
    }

    published!(params: Published);
}

#[cfg(test)]
mod tests {
    use weir_packet::PacketType;

    use super::Params;
    use crate::action::recorded::{received, stack_of};
    use crate::testing::{Stack, ipv4};

    #[test]
    fn priority_and_type_are_set() {
        let stack = stack_of(
            "skbedit",
            "ingress ip4-udp: skbedit priority 1:2 ptype otherhost pipe",
        );
        let packet = received(&stack, "ip4-udp");
        assert_eq!(packet.priority, 0x1_0002);
        assert_eq!(packet.pkt_type(), PacketType::OtherHost);
    }

    #[test]
    fn the_dscp_becomes_the_priority() {
        let stack = stack_of("skbedit", "ingress: skbedit inheritdsfield pipe");
        let priority = |frame| received(&stack, frame).priority;
        assert_eq!(priority("ip4-udp-tos"), 0xb9 >> 2);
        assert_eq!(priority("ip6-tcp-wrong"), 0xb9 >> 2);
        assert_eq!(priority("ip4-tcp-ce"), 0, "ECN is no part of it");
        assert_eq!(priority("eth-arp"), 0);
    }

    #[test]
    fn the_hash_chooses_a_queue() {
        let stack = Stack::default();
        let params = |low, high| Params {
            queue: Some((low, high)),
            ..Params::default()
        };
        let mut seen = [0; 8];
        for port in 0..200 {
            let mut packet = stack.packet(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], port, 53));
            let queue = params(2, Some(4)).queue(8, &mut packet).unwrap();
            seen[usize::from(queue)] += 1;
            assert_eq!(params(3, Some(3)).queue(8, &mut packet), Some(3));
            assert_eq!(params(8, None).queue(8, &mut packet), None, "not there");
            let beyond = params(7, Some(9)).queue(8, &mut packet).unwrap();
            assert!(matches!(beyond, 0 | 7), "missing queues become 0");
        }
        assert_eq!((seen[0], seen[1], seen[5]), (0, 0, 0));
        assert!(seen[2..5].iter().all(|&n| n > 20), "{seen:?}");
    }
}

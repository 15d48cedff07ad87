// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 receive: header checks, routing, and the hand-over to forwarding or local delivery
//! (`ip_rcv_core`, `ip_rcv_finish_core`, `ip_rcv_options`).
//!
//! All packets of a batch pass the checks and the routing before any of them goes on. Forwarded
//! packets are grouped by next hop. This path allocates nothing, and a packet costs at most one
//! lookup in the tables plus one in the local table for its source.
//!
//! Options: record route and time stamp are filled in. A packet with a source route is dropped, as
//! in Linux when `conf/all/accept_source_route` is 0.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::errno;
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_HOST_UNREACH, ICMP_NET_UNREACH, ICMP_PARAMETERPROB, ICMP_PKT_FILTERED,
};
use weir_packet::header::ipv4::fill_check;
use weir_packet::header::{Ipv4, ipv4_options};
use weir_packet::{Batch, DropReason, List, Packet, PacketType, checksum};

use super::output::Groups;
use super::route::{self, Input, To, Verdict};
use super::straight::{self, Pair};
use super::{forward, icmp, local, multicast, on_either};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::host::WithRoutes;
use crate::ipv4::WithIpv4;
use crate::l3mdev;
use crate::mib::Count;
use crate::mib::{Ext, Ip, Received};
use crate::namespace::Namespace;
use crate::settings::HasIp;
use crate::settings::Ipv4Conf;
use crate::stages::Stage;
use crate::trace::Step;

/// The number of packets from which prefetching for their lookups pays off.
const WORTH_A_PREFETCH: usize = 4;

/// Receives IPv4 packets, all from one device. Their network offset is set.
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    let count = batch.len();
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let mut input = Input::new(ns, device, guard);
    let strict_multicast = on_either(ns, device, Ipv4Conf::DropUnicastInL2Multicast);
    let vrf = l3mdev::of_port(cx, device);
    if let Some(vrf) = vrf {
        l3mdev::observe(cx, vrf, batch);
    }
    let mut received = Received::default();
    // Consecutive packets to one destination share a look-ahead.
    let mut destinations = List::new();
    let (mut sound, mut simple) = (true, true);
    let mut checked = List::new();
    checked.extend(batch.iter_mut().map(|packet| {
        let seen = match check_plain(packet, &mut received) {
            Some(pair) => Ok(Seen { pair, simple: true }),
            None => check(packet, &mut received),
        };
        let (pair, refused) = match seen {
            Ok(seen) => {
                simple &= seen.simple;
                if destinations.last() != Some(&seen.pair.dst) {
                    destinations.push(seen.pair.dst);
                }
                (seen.pair, None)
            }
            Err(reason) => {
                sound = false;
                (Pair::default(), Some(reason))
            }
        };
        Checked {
            pair,
            refused,
            which: destinations.len().saturating_sub(1) as u8,
        }
    }));
    if let Some(vrf) = vrf {
        let sound = batch
            .iter()
            .zip(checked.iter())
            .filter(|(_, checked)| checked.refused.is_none());
        let group = |packet: &Packet| packet.data().get(16).is_some_and(|first| first >> 4 == 14);
        let own = sound.filter(|(packet, _)| !group(packet));
        l3mdev::count(cx, vrf, own.map(|(packet, _)| packet.len()));
    }
    let mib = cx.mib(ns);
    received.flush(|counter, by| mib.ip.add(counter, by));
    // What the look-ahead found.
    let mut hints = List::new();
    let ahead = destinations.len() >= WORTH_A_PREFETCH;
    if ahead {
        hints.extend(destinations.iter().map(|_| None));
        ns.fib().v4.look_ahead(&destinations, guard, &mut hints);
    }
    // A device that cannot carry 68 bytes has no IPv4, so its packets are not routed.
    let routes = device.has_ipv4();
    if sound && simple && routes && !cx.stack.trace.follows() {
        let hint = |n: usize, dst| match ahead {
            true => *hints.get(usize::from(checked.get(n)?.which))?,
            false => ns.fib().v4.look_ahead_one(dst, guard),
        };
        let pairs = checked.iter().map(|checked| checked.pair);
        if let Some(plan) = straight::plan(&input, ns, (batch, pairs), guard, hint) {
            return straight::forward(cx, ns, batch, &plan);
        }
    }
    let mut verdicts = List::new();
    verdicts.extend(batch.iter().zip(checked.iter()).map(|(packet, checked)| {
        if let Some(reason) = checked.refused {
            return Verdict::Drop(reason);
        }
        let header = Ipv4::new(packet.data()).filter(|_| routes);
        let Some(header) = header else {
            return Verdict::Drop(DropReason::NOT_SPECIFIED);
        };
        let verdict = input.route(
            &header,
            packet.data(),
            packet.mark,
            || crate::fib::rule::tunnel_of(packet),
            hints.get(usize::from(checked.which)).copied().flatten(),
        );
        if packet.pkt_type() != PacketType::Host
            && strict_multicast
            && !matches!(
                verdict,
                Verdict::Local(To::All | To::Group) | Verdict::Multicast(_)
            )
        {
            return Verdict::Drop(DropReason::UNICAST_IN_L2_MULTICAST);
        }
        verdict
    }));
    cx.state.stages.end(Stage::Ipv4In, count);
    let mut groups = Groups::default();
    let mut ours = Batch::new();
    let mut whom = List::new();
    let (mut forwarded, mut passed, mut octets) = (0, 0, 0);
    for (mut packet, verdict) in batch.drain().zip(verdicts.iter()) {
        // Headers with options are rare.
        let mut options = None;
        if packet.data().first().is_some_and(|first| first & 0xf > 5)
            && !matches!(verdict, Verdict::Drop(_))
        {
            match read_options(cx, device, ns, &mut packet, verdict) {
                Ok(compiled) => options = Some(compiled),
                Err(reason) => {
                    cx.drop(device, Place::Ipv4In, reason, packet);
                    continue;
                }
            }
        }
        match *verdict {
            Verdict::Forward(hop) => {
                forwarded += 1;
                let step = Step::Forward(hop.next_hop, hop.device);
                cx.stack.trace.step(device, cx.now, &packet, step);
                let sent =
                    forward::forward(cx, device, ns, packet, &hop, options.as_ref(), &mut groups);
                passed += u64::from(sent > 0);
                octets += sent as u64;
            }
            Verdict::Local(to) => {
                cx.stack.trace.step(device, cx.now, &packet, Step::Local);
                let counters = match to {
                    To::Us => None,
                    To::All => Some((Ip::InBcastPkts, Ip::InBcastOctets)),
                    To::Group => Some((Ip::InMcastPkts, Ip::InMcastOctets)),
                };
                if let Some((packets, octets)) = counters {
                    mib.ip.add(packets, 1);
                    mib.ip.add(octets, packet.len() as u64);
                }
                whom.push(to);
                // There is room: the part is no larger than the batch it is taken from.
                let _ = ours.push(packet);
            }
            Verdict::Multicast(local) => {
                mib.ip.add(Ip::InMcastPkts, 1);
                mib.ip.add(Ip::InMcastOctets, packet.len() as u64);
                let options = options.as_ref();
                let site = (device, ns);
                forwarded += 1;
                if let Some(packet) =
                    multicast::input(cx, site, packet, local, options, &mut groups)
                {
                    cx.stack.trace.step(device, cx.now, &packet, Step::Local);
                    whom.push(To::Group);
                    // There is room, as above.
                    let _ = ours.push(packet);
                }
            }
            Verdict::Refuse(errno) => refuse(cx, device, ns, packet, errno, input.forwards()),
            Verdict::Drop(reason) => {
                if reason == DropReason::IP_RPFILTER {
                    mib.ext.add(Ext::IPReversePathFilter, 1);
                }
                cx.drop(device, Place::Ipv4In, reason, packet);
            }
        }
    }
    if passed > 0 {
        mib.ip.add(Ip::OutForwDatagrams, passed);
        mib.ip.add(Ip::OutRequests, passed);
        mib.ip.add(Ip::OutOctets, 2 * octets);
    }
    if forwarded > 0 {
        cx.state.stages.end(Stage::Forward, forwarded);
        groups.flush(cx);
    }
    if !ours.is_empty() {
        let count = ours.len();
        for (packet, to) in ours.drain().zip(whom.iter()) {
            local::deliver(cx, device, ns, packet, *to);
        }
        cx.state.stages.end(Stage::Local, count);
    }
}

/// What is known of a packet after the checks.
#[derive(Clone, Copy)]
struct Checked {
    /// The addresses of one that is not refused.
    pair: Pair,
    refused: Option<DropReason>,
    /// The place of its destination among those of the look-ahead.
    which: u8,
}

/// What the checks have seen of a header.
struct Seen {
    pair: Pair,
    /// The packet is addressed to this host on the link, has no options, and may be forwarded by its TTL.
    simple: bool,
}

/// Does what [`check`] does for a packet that is simple and sound, as most are. Returns `None` for another one, which it
/// leaves as it is.
#[inline(always)]
fn check_plain(packet: &mut Packet, received: &mut Received) -> Option<Pair> {
    if packet.pkt_type() != PacketType::Host {
        return None;
    }
    packet.begin_at_network(|bytes: &[u8; Ipv4::LEN], whole| {
        /// Version 4, and five words of header.
        const PLAIN: u8 = 0x45;
        let header = Ipv4::new(bytes)?;
        let total = u32::from(header.total_len());
        let plain = bytes[0] == PLAIN && header.ttl() > 1;
        if !plain || !(Ipv4::LEN as u32..=whole).contains(&total) || !checksum::verify_plain(bytes)
        {
            return None;
        }
        received.packets += 1;
        received.octets += u64::from(whole);
        received.ecn[usize::from(header.tos() & 3)] += 1;
        let pair = Pair {
            src: u32::from_be_bytes(header.src()),
            dst: u32::from_be_bytes(header.dst()),
        };
        Some((total, pair))
    })
}

/// Checks the header and trims the packet to its total length (`ip_rcv_core`). Afterwards the data
/// begins with the header.
// As a call it leaves the registers to packets that are plain.
#[inline(never)]
fn check(packet: &mut Packet, received: &mut Received) -> Result<Seen, DropReason> {
    if packet.pkt_type() == PacketType::OtherHost {
        return Err(DropReason::OTHERHOST);
    }
    let whole = packet.data_to_network();
    received.packets += 1;
    received.octets += packet.len() as u64;
    match whole {
        true => check_header(packet, received),
        false => Err(DropReason::IP_INHDR),
    }
    .inspect_err(|reason| match reason {
        DropReason::PKT_TOO_SMALL => received.truncated += 1,
        _ => received.header_errors += 1,
    })
}

#[inline]
fn check_header(packet: &mut Packet, received: &mut Received) -> Result<Seen, DropReason> {
    let data = packet.data();
    let plain = data.first_chunk::<{ Ipv4::LEN }>();
    let plain = plain.ok_or(DropReason::IP_INHDR)?;
    let header = Ipv4::new(plain).ok_or(DropReason::IP_INHDR)?;
    let header_len = header.header_len();
    if header.version() != 4 || header_len < Ipv4::LEN {
        return Err(DropReason::IP_INHDR);
    }
    received.ecn[usize::from(header.tos() & 3)] += 1;
    let sound = match header_len {
        Ipv4::LEN => checksum::verify_plain(plain),
        _ => checksum::verify(data.get(..header_len).ok_or(DropReason::IP_INHDR)?),
    };
    if !sound {
        received.checksum_errors += 1;
        return Err(DropReason::IP_CSUM);
    }
    let seen = Seen {
        pair: Pair {
            src: u32::from_be_bytes(header.src()),
            dst: u32::from_be_bytes(header.dst()),
        },
        simple: packet.pkt_type() == PacketType::Host
            && header_len == Ipv4::LEN
            && header.ttl() > 1,
    };
    let total = usize::from(header.total_len());
    if packet.len() < total {
        return Err(DropReason::PKT_TOO_SMALL);
    }
    if total < header_len {
        return Err(DropReason::IP_INHDR);
    }
    packet.trim(total);
    packet.set_network(0);
    packet.set_transport(header_len);
    Ok(seen)
}

/// Parses a packet's options and fills in the requested data (`ip_rcv_options`).
fn read_options(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: &mut Packet,
    verdict: &Verdict<'_>,
) -> Result<ipv4_options::Compiled, DropReason> {
    let guard = cx.guard;
    let to = match verdict {
        Verdict::Local(to) => Some(*to),
        _ => None,
    };
    let address = route::specific_destination(ns, device, packet, to, guard);
    let here = ipv4_options::Here {
        address: address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets(),
        time: cx.stack.clock.day_time(cx.now),
        elsewhere: &|address| route::is_elsewhere(ns, address, guard),
    };
    let len = packet
        .data()
        .first()
        .map_or(0, |first| usize::from(first & 0xf) * 4);
    let header = packet
        .data_mut()
        .get_mut(..len)
        .ok_or(DropReason::IP_INHDR)?;
    match ipv4_options::compile(header, &here) {
        Ok(compiled) => {
            if compiled.changed {
                fill_check(header);
            }
            if compiled.source_route.is_some() {
                return Err(DropReason::IP_INHDR);
            }
            Ok(compiled)
        }
        Err(pointer) => {
            cx.mib(ns).ip.add(Ip::InHdrErrors, 1);
            let local = to == Some(To::Us);
            if matches!(verdict, Verdict::Local(To::Us) | Verdict::Forward(_)) {
                let rest = u32::from(pointer) << 24;
                icmp::error(cx, device, packet, ICMP_PARAMETERPROB, 0, rest, local);
            }
            Err(DropReason::IP_INHDR)
        }
    }
}

/// Drops a packet that has no route and, if we are a router, sends its sender an error
/// (`ip_error`).
fn refuse(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: Packet,
    errno: i32,
    forwards: bool,
) {
    let (code, reason) = match errno {
        errno::EHOSTUNREACH => (Some(ICMP_HOST_UNREACH), DropReason::IP_INADDRERRORS),
        errno::ENETUNREACH => (Some(ICMP_NET_UNREACH), DropReason::IP_INNOROUTES),
        errno::EACCES => (Some(ICMP_PKT_FILTERED), DropReason::IP_INNOROUTES),
        // A blackhole route.
        _ => (None, DropReason::IP_INNOROUTES),
    };
    match errno {
        errno::EHOSTUNREACH if !forwards => cx.mib(ns).ip.add(Ip::InAddrErrors, 1),
        errno::ENETUNREACH => cx.mib(ns).ip.add(Ip::InNoRoutes, 1),
        _ => {}
    }
    if let Some(code) = code.filter(|_| forwards)
        && let Some(header) = Ipv4::new(packet.data())
        && ns.ipv4().peers.may_report(header.src().into(), cx.now)
    {
        icmp::error(cx, device, &packet, ICMP_DEST_UNREACH, code, 0, false);
    }
    cx.drop(device, Place::Ipv4In, reason, packet);
}

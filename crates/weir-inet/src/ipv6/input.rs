// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 receive: checks, hop-by-hop options, routing (`ip6_rcv_core`, `ipv6_parse_hopopts`,
//! `ip6_route_input`).
//!
//! The packets of a batch are checked and routed one by one, with one lookup for each run of
//! packets of the same flow. After that, consecutive packets to one next hop leave as one batch.
//!
//! Options: router alert counts only where multicast packets are routed ([`super::multicast`]). A
//! jumbo payload length is checked, although no packet here can be that long. Unknown options are
//! handled according to their two highest bits. At most `max_hbh_opts_number` options are accepted.
//! Not implemented: early demultiplexing, per-packet limits on header lengths (`max_hbh_length`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::ifla::arphrd;
use weir_netlink::{errno, rta};
use weir_packet::header::icmp::{
    ICMPV6_ADM_PROHIBITED, ICMPV6_DEST_UNREACH, ICMPV6_HDR_FIELD, ICMPV6_NOROUTE, ICMPV6_PARAMPROB,
    is_error_v6,
};
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, NEXTHDR_HOP, upper_layer};
use weir_packet::header::ipv6_ext::{IPV6_TLV_JUMBO, OptionError, check_options, tlvs};
use weir_packet::header::{Icmp, Ipv6};
use weir_packet::{Batch, DropReason, List, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::forward::{self, Hop, Run};
use super::icmp::{is_loopback, send_error};
use super::output::{MIN_MTU, metric, mtu_of};
use super::select::needs_device;
use super::{local, multicast, select, straight};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::encap::Encap;
use crate::fib::host::WithRoutes;
use crate::fib::lookup::{Flow, HashPolicy, LookupFlags};
use crate::l3mdev;
use crate::mib::Count;
use crate::mib::{Ip, Received};
use crate::namespace::Namespace;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::settings::{Ipv6 as Slot, Ipv6Conf};
use crate::stages::Stage;
use crate::trace::Step;

/// The routing decision for a packet.
#[derive(Clone, Copy)]
pub(super) enum Way<'g> {
    /// Deliver it to one of our addresses, which this device has.
    Local(&'g Arc<Device>),
    /// Deliver it to a group.
    Group,
    /// Forward it to another host.
    Forward(Hop<'g>),
    /// Reject it because of its route, or because it has none. The value is a positive errno.
    Refused(i32),
}

/// Receives IPv6 packets, all from one device (`ipv6_rcv`). Their network offset is set.
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let count = batch.len();
    // A link that cannot carry 1280 bytes has no IPv6.
    let off = device.conf().ipv6.on(Ipv6Conf::DisableIpv6) || !device.has_ipv6();
    let vrf = l3mdev::of_port(cx, device);
    if let Some(vrf) = vrf {
        l3mdev::observe(cx, vrf, batch);
    } else if !off && let Some(plan) = straight::plan(cx, ns, device, batch, guard) {
        return straight::forward(cx, device, batch, &plan);
    }
    let mut ways = List::new();
    let mut received = Received::default();
    let mib = cx.mib6(device);
    let mut routed = Batch::new();
    let mut last = None;
    for packet in batch.drain() {
        let Some(packet) = check(cx, ns, device, off, packet, &mut received) else {
            continue;
        };
        ways.push(route(ns, device, &packet, packet.data(), &mut last, guard));
        // There is room: the part is no larger than the batch it is taken from.
        let _ = routed.push(packet);
    }
    if let Some(vrf) = vrf {
        let wide = |packet: &&Packet| {
            let header = Ipv6::new(packet.data());
            header.is_some_and(|header| !needs_device(header.dst().into()))
                && !l3mdev::is_discovery(packet)
        };
        l3mdev::count(cx, vrf, routed.iter().filter(wide).map(Packet::len));
    }
    received.flush(|counter, by| mib.ip(counter, by));
    cx.state.stages.end(Stage::Ipv6In, count);
    let mut run = Run::default();
    let mut delivered = 0;
    for (packet, &way) in routed.drain().zip(ways.iter()) {
        if let Way::Forward(hop) = way {
            if delivered > 0 {
                cx.state.stages.end(Stage::Local, delivered);
                delivered = 0;
            }
            let step = Step::Forward(hop.next_hop.into(), hop.device);
            cx.stack.trace.step(device, cx.now, &packet, step);
            if let Some(packet) = forward::forward(cx, ns, device, &hop, packet) {
                if packet.network_len() > hop.mtu as usize {
                    run.flush(cx);
                    forward::fragments(cx, ns, &hop, packet);
                } else {
                    run.push(cx, hop, packet);
                }
            }
            continue;
        }
        run.flush(cx);
        let packet = match way {
            Way::Group => match group(cx, (device, ns), packet) {
                Some(packet) => packet,
                None => continue,
            },
            _ => packet,
        };
        match way {
            Way::Refused(errno) => refuse(cx, device, errno, packet),
            _ => {
                let owner = match way {
                    Way::Local(owner) => owner,
                    _ => device,
                };
                cx.stack.trace.step(device, cx.now, &packet, Step::Local);
                local::deliver(cx, device, owner, packet);
                delivered += 1;
            }
        }
    }
    if delivered > 0 {
        cx.state.stages.end(Stage::Local, delivered);
    }
    run.flush(cx);
}

/// Counts a packet to a group, and has it routed to others. Returns it if it is for this host (`ip6_mc_input`).
fn group<'g, 'c: 'g>(
    cx: &mut Cx<'c>,
    (device, ns): (&Arc<Device>, &'g Arc<Namespace>),
    packet: Packet,
) -> Option<Packet> {
    let mib = cx.mib6(device);
    mib.ip(Ip::InMcastPkts, 1);
    mib.ip(Ip::InMcastOctets, packet.len() as u64);
    let heard = is_heard(device, &packet, cx.guard);
    if multicast::is_on(ns) {
        return multicast::input(cx, (device, ns), packet, heard);
    }
    if heard {
        return Some(packet);
    }
    let reason = DropReason::IP_INADDRERRORS;
    cx.drop(device, Place::Ipv6In, reason, packet);
    None
}

/// Returns whether the device is a member of the packet's destination group.
fn is_heard(device: &Device, packet: &Packet, guard: &Guard) -> bool {
    let header = Ipv6::new(packet.data());
    header.is_some_and(|header| select::is_member(device, header.dst().into(), guard))
}

/// Checks a packet and moves its start to the IPv6 header. Returns `None` if it was dropped
/// (`ip6_rcv_core`).
#[inline]
fn check(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    device: &Arc<Device>,
    off: bool,
    mut packet: Packet,
    received: &mut Received,
) -> Option<Packet> {
    match judge(device, off, &mut packet, received) {
        Ok(false) => Some(packet),
        Ok(true) => {
            let passed = options(cx, ns, device, packet);
            received.header_errors += u64::from(passed.is_none());
            passed
        }
        Err(reason) => {
            cx.drop(device, Place::Ipv6In, reason, packet);
            None
        }
    }
}

/// Validates the header. Returns whether hop-by-hop options follow.
#[inline]
fn judge(
    device: &Device,
    off: bool,
    packet: &mut Packet,
    received: &mut Received,
) -> Result<bool, DropReason> {
    if packet.pkt_type() == PacketType::OtherHost {
        return Err(DropReason::OTHERHOST);
    }
    let whole = packet.data_to_network();
    received.packets += 1;
    received.octets += packet.len() as u64;
    if off {
        received.discards += 1;
        return Err(DropReason::IPV6DISABLED);
    }
    if !whole {
        received.header_errors += 1;
        return Err(DropReason::PKT_TOO_SMALL);
    }
    let truncated = received.truncated;
    judge_header(device, packet, received)
        .inspect_err(|_| received.header_errors += u64::from(received.truncated == truncated))
}

#[inline]
fn judge_header(
    device: &Device,
    packet: &mut Packet,
    received: &mut Received,
) -> Result<bool, DropReason> {
    let header = Ipv6::new(packet.data()).ok_or(DropReason::PKT_TOO_SMALL)?;
    if header.version() != 6 {
        return Err(DropReason::UNHANDLED_PROTO);
    }
    received.ecn[usize::from(header.traffic_class() & 3)] += 1;
    let (src, dst) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    // RFC 4291, 2.5.3: these must not appear outside a host.
    if (src.is_loopback() || dst.is_loopback()) && !is_loopback(device) && !device.is_l3_master() {
        return Err(DropReason::IP_INHDR);
    }
    if dst.is_multicast() {
        let scope = dst.octets()[1] & 0xf;
        // Interface-local scope, and the reserved scope.
        if scope == 0 || (scope == 1 && !is_loopback(device)) {
            return Err(DropReason::IP_INHDR);
        }
    } else if matches!(
        packet.pkt_type(),
        PacketType::Broadcast | PacketType::Multicast
    ) && device.conf().ipv6.on(Ipv6Conf::DropUnicastInL2Multicast)
    {
        return Err(DropReason::UNICAST_IN_L2_MULTICAST);
    }
    if src.is_multicast() {
        return Err(DropReason::IP_INHDR);
    }
    let payload = usize::from(header.payload_len());
    let options = header.next_header() == NEXTHDR_HOP;
    // With a jumbo payload, the length is in an option.
    if payload != 0 || !options {
        if Ipv6::LEN + payload > packet.len() {
            received.truncated += 1;
            return Err(DropReason::PKT_TOO_SMALL);
        }
        packet.trim(Ipv6::LEN + payload);
    }
    packet.set_transport(Ipv6::LEN);
    Ok(options)
}

/// Processes the hop-by-hop options (`ipv6_parse_hopopts`).
fn options(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    device: &Arc<Device>,
    packet: Packet,
) -> Option<Packet> {
    let max = ns.conf().ipv6.get(Slot::MaxHbhOptsNumber).unsigned_abs() as usize;
    match judge_options(packet.data(), max) {
        Ok(()) => Some(packet),
        Err(refusal) => {
            refuse_options(cx, device, Place::Ipv6In, refusal, packet);
            None
        }
    }
}

/// The reason why a packet is dropped because of its options, and the code and pointer of the
/// parameter problem to send.
pub(super) type Refusal = (DropReason, Option<(u8, u32)>);

/// Returns the consequence of an error in the options header at offset `at`.
pub(super) fn refusal(error: OptionError, at: usize, to_group: bool) -> Refusal {
    match error {
        OptionError::Malformed => (DropReason::IP_INHDR, None),
        OptionError::Discard => (DropReason::UNHANDLED_PROTO, None),
        OptionError::Problem {
            code,
            at: inside,
            not_multicast,
        } => {
            let reason = if code == ICMPV6_HDR_FIELD {
                DropReason::IP_INHDR
            } else {
                DropReason::UNHANDLED_PROTO
            };
            let told = !(not_multicast && to_group);
            (reason, told.then_some((code, (at + inside) as u32)))
        }
    }
}

/// Drops a packet and sends its parameter problem, if there is one (`icmpv6_param_prob_reason`).
pub(super) fn refuse_options(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    place: Place,
    (reason, problem): Refusal,
    packet: Packet,
) {
    if let Some((code, pointer)) = problem {
        send_error(cx, device, &packet, ICMPV6_PARAMPROB, code, pointer);
    }
    cx.drop(device, place, reason, packet);
}

/// Checks the hop-by-hop header that follows the IPv6 header.
fn judge_options(data: &[u8], max: usize) -> Result<(), Refusal> {
    let malformed = (DropReason::IP_INHDR, None);
    let header = Ipv6::new(data).ok_or(malformed)?;
    let rest = data.get(Ipv6::LEN..).unwrap_or_default();
    let [_, len] = *rest.first_chunk::<2>().ok_or(malformed)?;
    let options = rest.get(..(usize::from(len) + 1) * 8).ok_or(malformed)?;
    let to_group = Ipv6Addr::from(header.dst()).is_multicast();
    let summary =
        check_options(options, true, max).map_err(|error| refusal(error, Ipv6::LEN, to_group))?;
    let Some(jumbo) = summary.jumbo else {
        return Ok(());
    };
    if header.payload_len() != 0 {
        let option = tlvs(options)
            .filter_map(Result::ok)
            .find(|tlv| tlv.kind == IPV6_TLV_JUMBO);
        let at = option.map_or(0, |tlv| tlv.at) + Ipv6::LEN;
        return Err((DropReason::IP_INHDR, Some((ICMPV6_HDR_FIELD, at as u32))));
    }
    if jumbo as usize > data.len() - Ipv6::LEN {
        return Err((DropReason::PKT_TOO_SMALL, None));
    }
    Ok(())
}

/// Routes a packet; `data` begins with its header (`ip6_route_input`). `last` caches the previous flow and its decision,
/// if that is the same for all packets of the flow.
#[inline]
pub(super) fn route<'g>(
    ns: &'g Namespace,
    device: &'g Arc<Device>,
    packet: &Packet,
    data: &[u8],
    last: &mut Option<(Flow<u128>, Way<'g>)>,
    guard: &'g Guard,
) -> Way<'g> {
    let Some(header) = Ipv6::new(data) else {
        return Way::Refused(errno::EINVAL);
    };
    let dst = Ipv6Addr::from(header.dst());
    let mut flow = Flow {
        dst: u128::from_be_bytes(header.dst()),
        src: u128::from_be_bytes(header.src()),
        // A packet for more than its link counts as received by the VRF (`vrf_ip6_rcv`).
        iif: match device.l3_master_index(guard) {
            0 => device.ifindex(),
            _ if needs_device(dst) => device.ifindex(),
            master => master,
        },
        l3_table: device.l3_table(),
        mark: packet.mark,
        tos: header.traffic_class(),
        proto: header.next_header(),
        ..Flow::default()
    };
    if ns.fib().v6.rules().are_changed(guard) {
        with_ports(&mut flow, data);
        flow.tunnel = crate::fib::rule::tunnel_of(packet);
    }
    if let Some((before, way)) = last
        && *before == flow
    {
        return *way;
    }
    // What a register device receives came by another, whose route to groups will do (`ip6_route_input_lookup`).
    let registers = || device.link.hardware_type() == arphrd::PIMREG;
    let flags = LookupFlags {
        iface: needs_device(dst) && !registers(),
        input: true,
        ..LookupFlags::default()
    };
    let mut found = match ns.fib().v6.lookup(&flow, flags, guard) {
        Ok(found) => found,
        Err(errno) => return Way::Refused(errno),
    };
    match found.info.spec.kind {
        rta::rtn::LOCAL | rta::rtn::ANYCAST => {
            return Way::Local(found.hop.device.as_ref().unwrap_or(device));
        }
        _ if dst.is_multicast() => return Way::Group,
        _ => {}
    }
    let multipath = found.is_multipath();
    if multipath {
        found = found.select(multipath_hash(ns, &flow, Some(data)));
    }
    let Some(out) = found.hop.device.as_ref() else {
        return Way::Refused(errno::ENETUNREACH);
    };
    let exception = ns.fib().v6.exceptions.find(flow.dst, &found, guard);
    let (next_hop, gateway) = match exception.map_or(found.hop.gateway, |one| one.gateway) {
        Some(IpAddr::V6(gateway)) => (gateway, true),
        _ => (dst, false),
    };
    // For forwarded packets, a route's own MTU counts only if it is locked.
    let locked = metric(found.info, rta::ax::LOCK) >> rta::ax::MTU & 1 == 1;
    let mtu = match metric(found.info, rta::ax::MTU) {
        mtu if mtu != 0 && locked => mtu.max(MIN_MTU),
        _ => mtu_of(out),
    };
    let encap = found.info.encap_of(found.hop);
    let way = Way::Forward(Hop {
        device: out,
        next_hop,
        gateway,
        mtu: mtu.saturating_sub(Encap::headroom(encap)),
        encap,
    });
    if !multipath {
        *last = Some((flow, way));
    }
    way
}

/// Fills in the upper protocol and its ports, if it has any.
fn with_ports(flow: &mut Flow<u128>, data: &[u8]) {
    let Some(upper) = upper_layer(data) else {
        return;
    };
    flow.proto = upper.protocol;
    if upper.fragment.is_some() || !matches!(upper.protocol, 6 | 17 | 132 | 136) {
        return;
    }
    let ports = data.get(upper.offset..).and_then(|rest| rest.first_chunk());
    if let Some([a, b, c, d]) = ports {
        flow.sport = u16::from_be_bytes([*a, *b]);
        flow.dport = u16::from_be_bytes([*c, *d]);
    }
}

/// Computes the hash that selects a multipath hop (`rt6_multipath_hash`). An ICMPv6 error takes the
/// path of the packet it quotes.
pub(super) fn multipath_hash(ns: &Namespace, flow: &Flow<u128>, data: Option<&[u8]>) -> u32 {
    let policy = HashPolicy::new(
        ns.conf().ipv6.get(Slot::FibMultipathHashPolicy),
        ns.conf().ipv6.get(Slot::FibMultipathHashFields),
    );
    let mut flow = *flow;
    if let Some(data) = data {
        if policy == HashPolicy::Layer3 {
            if let Some(inner) = quoted(data) {
                flow.src = u128::from_be_bytes(inner.src());
                flow.dst = u128::from_be_bytes(inner.dst());
            }
        } else {
            with_ports(&mut flow, data);
        }
    }
    policy.hash(&flow)
}

/// Returns the header of the packet that an ICMPv6 error quotes.
fn quoted(data: &[u8]) -> Option<Ipv6<'_>> {
    let upper = upper_layer(data).filter(|upper| upper.protocol == IPPROTO_ICMPV6)?;
    let message = data.get(upper.offset..)?;
    Icmp::new(message).filter(|icmp| is_error_v6(icmp.icmp_type()))?;
    Ipv6::new(message.get(Icmp::LEN..)?)
}

/// Drops a packet that has no route or whose route rejects it (`ip6_pkt_discard`,
/// `ip6_pkt_prohibit`, `dst_discard`).
fn refuse(cx: &mut Cx<'_>, device: &Arc<Device>, errno: i32, packet: Packet) {
    let reason = match errno {
        errno::EINVAL => DropReason::NOT_SPECIFIED,
        _ => {
            let code = if errno == errno::EACCES {
                ICMPV6_ADM_PROHIBITED
            } else {
                ICMPV6_NOROUTE
            };
            send_error(cx, device, &packet, ICMPV6_DEST_UNREACH, code, 0);
            let header = Ipv6::new(packet.data());
            if header.is_some_and(|header| header.dst() == [0; 16]) {
                cx.mib6(device).ip(Ip::InAddrErrors, 1);
                DropReason::IP_INADDRERRORS
            } else {
                cx.mib6(device).ip(Ip::InNoRoutes, 1);
                DropReason::IP_INNOROUTES
            }
        }
    };
    cx.drop(device, Place::Ipv6In, reason, packet);
}

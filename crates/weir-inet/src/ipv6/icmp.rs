// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMPv6 (RFC 4443, `net/ipv6/icmp.c`): errors about packets, and received messages.
//!
//! No error is sent if the packet is itself an ICMPv6 error, if it was sent to a group (except for
//! "packet too big" and unknown options), or if its source is not a single host. An error quotes as
//! much of the packet as fits into 1280 bytes. Rate limits: `icmp/ratelimit` milliseconds between
//! errors to one address, divided by 2 for each full 32 bits by which the route's prefix is shorter
//! than 128, plus the limit of [`crate::icmp_limit`]. They apply to all errors except "packet too
//! big", as in the default `icmp/ratemask`; other masks are stored but have no effect.
//!
//! Errors and echo replies go to the sockets of programs ([`crate::sockets`]).
//!
//! Not implemented: learning path MTUs. Extended echo
//! (RFC 8335), node information and multicast listener messages are accepted and ignored.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::errno::ENETUNREACH;
use weir_netlink::rta;
use weir_packet::checksum::verify_v6;
use weir_packet::header::icmp::{
    ICMPV6_ECHO_REPLY, ICMPV6_ECHO_REQUEST, ICMPV6_PARAMPROB, ICMPV6_PKT_TOOBIG, ICMPV6_UNK_OPTION,
    QUOTE_V6, fill_check_v6, icmp, is_error_v6,
};
use weir_packet::header::ipv4::{IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE};
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, upper_layer};
use weir_packet::header::{Icmp, IcmpMut, Ipv6, Udp, ndisc};
use weir_packet::{DropReason, Packet, PacketType};

use super::mld;
use super::output::{self, Head, Route};
use super::select::{needs_device, own_kind, select_address};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::mib::Count;
use crate::mib::{self, Ip, Way};
use crate::namespace::Namespace;
use crate::protocols::{Protocol, protocols};
use crate::settings::Ipv6 as Slot;
use crate::settings::WithSettings;
use crate::sockets::{Arrived, Report, interest, sockets};
use crate::udp::Port;

/// The protocol number that raw sockets only send with.
const IPPROTO_RAW: u8 = 255;

/// Returns whether a type is rate-limited (`icmpv6_mask_allow`).
fn is_limited(icmp_type: u8) -> bool {
    is_error_v6(icmp_type) && icmp_type != ICMPV6_PKT_TOOBIG
}

pub(super) fn is_loopback(device: &Device) -> bool {
    device.flags() & weir_netlink::ifla::iff::LOOPBACK != 0
}

/// Checks the namespace's rate limit (`icmpv6_global_allow`).
fn all_allow(cx: &Cx<'_>, ns: &Namespace, device: &Device, icmp_type: u8) -> bool {
    !is_limited(icmp_type) || is_loopback(device) || ns.ipv4().icmp.take(&ns.conf().ipv4, cx.now)
}

/// Checks the rate limit of the destination (`icmpv6_xrlim_allow`).
fn peer_allows(
    cx: &Cx<'_>,
    ns: &Namespace,
    route: &Route<'_>,
    icmp_type: u8,
    to: Ipv6Addr,
) -> bool {
    if !is_limited(icmp_type) || is_loopback(route.device) {
        return true;
    }
    let limit = ns.conf().ipv6.get(Slot::IcmpRateLimit).max(0) as u64;
    let timeout = limit >> ((128 - route.dst_len.min(128)) >> 5);
    ns.ipv4().peers.may_send(to.into(), timeout, cx.now)
}

/// Returns whether a packet is an ICMPv6 error, which must not cause another error
/// (`is_ineligible`).
fn is_error(packet: &[u8]) -> bool {
    let Some(upper) = upper_layer(packet) else {
        return false;
    };
    if upper.protocol != IPPROTO_ICMPV6 || upper.later_fragment {
        return false;
    }
    packet.get(upper.offset).is_none_or(|ty| is_error_v6(*ty))
}

/// Sends an error about `packet` (`icmp6_send`). `device` is the packet's current device. `info` is
/// the pointer of a parameter problem or the MTU of "packet too big".
pub fn send_error(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    packet: &Packet,
    icmp_type: u8,
    code: u8,
    info: u32,
) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let about = packet.network();
    let Some(header) = Ipv6::new(about) else {
        return;
    };
    let (to, was_to) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    let mut source = own_kind(ns, device, was_to, guard).map(|_| was_to);
    if was_to.is_multicast() || packet.pkt_type() != PacketType::Host {
        let unknown_option = icmp_type == ICMPV6_PARAMPROB && code == ICMPV6_UNK_OPTION;
        if icmp_type != ICMPV6_PKT_TOOBIG && !unknown_option {
            return;
        }
        source = None;
    }
    if to.is_unspecified() || to.is_multicast() || is_error(about) {
        return;
    }
    if !all_allow(cx, ns, device, icmp_type) {
        // Linux uses ICMP's counter for both families.
        cx.mib(ns).icmp.add(mib::Icmp::OutRateLimitGlobal, 1);
        return;
    }
    let oif = if needs_device(to) {
        device.ifindex()
    } else {
        device.l3_master_index(guard)
    };
    let any = Ipv6Addr::UNSPECIFIED;
    let route = match output::route(ns, source.unwrap_or(any), to, oif, guard) {
        Ok(route) => route,
        Err(errno) => return count_no_route(cx, ns, device, icmp_type, errno),
    };
    if source.is_none() && route.info.spec.prefsrc.is_none() {
        // An address of the incoming device is more informative than one of the outgoing device.
        let came_by = ns.device(packet.iif, guard);
        source = came_by.and_then(|device| select_address(ns, Some(device), to, guard));
    }
    let Some(src) = source.or_else(|| route.source(ns, to, guard)) else {
        return;
    };
    if route.kind == rta::rtn::ANYCAST {
        return;
    }
    if !peer_allows(cx, ns, &route, icmp_type, to) {
        return cx.mib6(route.named).icmp(mib::Icmp::OutRateLimitHost);
    }
    let quote = about.get(..QUOTE_V6).unwrap_or(about);
    let Some(mut answer) = cx.stack.pool.alloc(Icmp::LEN + quote.len()) else {
        return cx.mib6(device).icmp(mib::Icmp::OutErrors);
    };
    if let Some((head, rest)) = answer.data_mut().split_at_mut_checked(Icmp::LEN) {
        head.copy_from_slice(&icmp(icmp_type, code, info));
        rest.copy_from_slice(quote);
    }
    fill_check_v6(src.octets(), to.octets(), answer.data_mut());
    let head = Head {
        src,
        dst: to,
        protocol: IPPROTO_ICMPV6,
        hop_limit: route.hop_limit(),
        class: 0,
        label: output::flow_label(ns, src, to, IPPROTO_ICMPV6),
    };
    output::send(cx, ns, &route, &head, answer);
}

/// Counts an error that is not sent because its destination has no route (`icmpv6_xrlim_allow`, `ip6_dst_lookup_tail`).
fn count_no_route(cx: &Cx<'_>, ns: &Namespace, device: &Device, icmp_type: u8, errno: i32) {
    if is_limited(icmp_type)
        && !is_loopback(device)
        && let Some(loopback) = ns.device(output::LOOPBACK, cx.guard)
    {
        let mib = cx.mib6(loopback);
        mib.ip(Ip::OutNoRoutes, 1);
        mib.icmp(mib::Icmp::OutRateLimitHost);
    } else if errno == ENETUNREACH {
        cx.mib6_all(ns).ip(Ip::OutNoRoutes, 1);
    }
}

/// Returns whether a received error is valid and has a recipient (`icmpv6_notify`). Errors about TCP and UDP have none
/// without a socket, except those about a tunnel's datagrams. Tells tunnels and sockets.
fn is_taken(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet, message: &[u8]) -> bool {
    let ns = device.namespace(cx.guard);
    let quoted = message.get(Icmp::LEN..).unwrap_or_default();
    let Some(upper) = upper_layer(quoted) else {
        return false;
    };
    let Some(rest) = quoted.get(upper.offset..).filter(|rest| rest.len() >= 8) else {
        return false;
    };
    let (Some(head), Some(ip)) = (Icmp::new(message), Ipv6::new(packet.data())) else {
        return false;
    };
    let report = Report {
        device,
        ns,
        ipv6: true,
        from: Ipv6Addr::from(ip.src()).into(),
        ttl: ip.hop_limit(),
        tos: ip.traffic_class(),
        ty: head.icmp_type(),
        code: head.code(),
        info: head.rest(),
        quoted,
        protocol: upper.protocol,
        at: upper.offset,
    };
    let protocol = Protocol {
        ipv6: true,
        number: upper.protocol,
    };
    if let Some(failed) = protocols(ns).failed(protocol, cx.guard) {
        failed(cx, &report);
    }
    let hooks = sockets(ns).hooks(interest::ANY);
    let told = hooks.is_some_and(|hooks| (hooks.error)(cx, &report));
    match upper.protocol {
        _ if told => true,
        IPPROTO_UDP => Udp::new(rest).is_some_and(|udp| {
            let port = Port {
                ipv6: true,
                port: udp.dst_port(),
            };
            crate::udp::ports(ns).socket(port, cx.guard).is_some()
        }),
        IPPROTO_TCP | IPPROTO_UDPLITE | IPPROTO_RAW => false,
        _ => true,
    }
}

/// Receives an ICMPv6 message addressed to us. The packet begins with its IPv6 header, and the
/// message starts `at` bytes into it (`icmpv6_rcv`).
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, at: usize, packet: Packet) {
    let ended = |cx: &mut Cx<'_>, reason, packet| cx.drop(device, Place::Ipv6Local, reason, packet);
    let mib = cx.mib6(device);
    mib.icmp(mib::Icmp::InMsgs);
    let data = packet.data();
    let message = data.get(at..).unwrap_or_default();
    let sums =
        Ipv6::new(data).is_some_and(|ip| verify_v6(ip.src(), ip.dst(), IPPROTO_ICMPV6, message));
    if !sums {
        mib.icmp(mib::Icmp::InCsumErrors);
        mib.icmp(mib::Icmp::InErrors);
        return ended(cx, DropReason::ICMP_CSUM, packet);
    }
    let Some(icmp) = Icmp::new(message) else {
        mib.icmp(mib::Icmp::InErrors);
        return ended(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let ty = icmp.icmp_type();
    mib.message(Way::In, ty);
    if is_error_v6(ty) && !is_taken(cx, device, &packet, message) {
        mib.icmp(mib::Icmp::InErrors);
    }
    match ty {
        ICMPV6_ECHO_REQUEST => echo(cx, device, at, packet),
        ICMPV6_ECHO_REPLY => {
            let ns = device.namespace(cx.guard);
            let taken = sockets(ns).hooks(interest::PING).is_some_and(|hooks| {
                let group = Ipv6::new(packet.data()).is_some_and(|ip| ip.dst()[0] == 0xff);
                let arrived = Arrived {
                    device,
                    ns,
                    ipv6: true,
                    at,
                    group,
                };
                (hooks.echo_reply)(cx, &arrived, &packet)
            });
            match taken {
                true => cx.consume(packet),
                false => ended(cx, DropReason::NO_SOCKET, packet),
            }
        }
        ndisc::NDISC_ROUTER_SOLICITATION..=ndisc::NDISC_REDIRECT => {
            super::nd::receive(cx, device, at, packet);
        }
        mld::QUERY | mld::REPORT => {
            mld::receive(cx, device, at, &packet);
            cx.consume(packet);
        }
        _ => cx.consume(packet),
    }
}

/// Answers an echo request (`icmpv6_echo_reply`).
fn echo(cx: &mut Cx<'_>, device: &Arc<Device>, at: usize, mut packet: Packet) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let Some(header) = Ipv6::new(packet.data()) else {
        return cx.consume(packet);
    };
    let (from, to) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    let class = header.traffic_class();
    let kind = own_kind(ns, device, to, guard);
    let anycast = kind == Some(rta::rtn::ANYCAST);
    let ignored = ns.conf().ipv6.on(Slot::IcmpEchoIgnoreAll)
        || (to.is_multicast() && ns.conf().ipv6.on(Slot::IcmpEchoIgnoreMulticast))
        || (anycast && ns.conf().ipv6.on(Slot::IcmpEchoIgnoreAnycast));
    if ignored {
        return cx.drop(device, Place::Ipv6Local, DropReason::NOT_SPECIFIED, packet);
    }
    let own = (kind == Some(rta::rtn::LOCAL)).then_some(to);
    let any = Ipv6Addr::UNSPECIFIED;
    let route = output::route(ns, own.unwrap_or(any), from, device.ifindex(), guard);
    let route = match route {
        Ok(route) => route,
        Err(errno) => {
            if errno == ENETUNREACH {
                cx.mib6_all(ns).ip(Ip::OutNoRoutes, 1);
            }
            return cx.consume(packet);
        }
    };
    let Some(src) = own.or_else(|| route.source(ns, from, guard)) else {
        return cx.consume(packet);
    };
    // The reply reuses the message in place and only changes its type.
    if !packet.pull(at) {
        return cx.consume(packet);
    }
    output::renew(cx, &mut packet);
    if let Some(mut icmp) = IcmpMut::new(packet.data_mut()) {
        icmp.set_icmp_type(ICMPV6_ECHO_REPLY);
    }
    fill_check_v6(src.octets(), from.octets(), packet.data_mut());
    let head = Head {
        src,
        dst: from,
        protocol: IPPROTO_ICMPV6,
        hop_limit: route.hop_limit(),
        class,
        label: output::flow_label(ns, src, from, IPPROTO_ICMPV6),
    };
    output::send(cx, ns, &route, &head, packet);
}

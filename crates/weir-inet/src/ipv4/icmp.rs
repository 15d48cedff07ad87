// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP: the errors we send, with their rate limits, and the messages we receive
//! (`net/ipv4/icmp.c`).
//!
//! An error is sent only for the first fragment of a unicast packet that is not itself an ICMP
//! error. It quotes as much of the packet as fits into 576 bytes. The types in `icmp_ratemask` are
//! limited per destination (`icmp_ratelimit`) and, except for "fragmentation needed", per namespace
//! ([`crate::icmp_limit`]).
//!
//! Not implemented: RFC 8335 probes, address masks, path
//! MTU learned from "fragmentation needed". Errors and echo replies go to the sockets of programs
//! ([`crate::sockets`]).

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::{ifla::iff, rta};
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_ECHO, ICMP_ECHOREPLY, ICMP_EXC_FRAGTIME, ICMP_FRAG_NEEDED,
    ICMP_PARAMETERPROB, ICMP_REDIRECT, ICMP_TIME_EXCEEDED, ICMP_TIMESTAMP, ICMP_TIMESTAMPREPLY,
    icmp, is_error_v4,
};
use weir_packet::header::ipv4::{IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE};
use weir_packet::header::ipv4_options::{self, Chosen};
use weir_packet::header::{Icmp, Ipv4, Udp};
use weir_packet::{DropReason, Packet, PacketType, checksum};

use super::route::{self, To, Wanted};
use super::{output, select};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::mib::Count;
use crate::mib::{self, Way};
use crate::namespace::Namespace;
use crate::settings::Ipv4 as Conf;
use crate::settings::WithSettings;
use crate::sockets::{Arrived, Report, interest, sockets};
use crate::udp::Port;

/// The highest known type (`NR_ICMP_TYPES`).
const HIGHEST: u8 = 18;
/// The maximum length of an error in bytes, including the IP header.
const ERROR_LEN: u32 = 576;
/// The highest code of "destination unreachable" (`NR_ICMP_UNREACH`).
const HIGHEST_CODE: u8 = 15;
/// The extended echo request and reply of RFC 8335.
const ICMP_EXT_ECHO: u8 = 42;
const ICMP_EXT_ECHOREPLY: u8 = 43;
/// The protocol number that raw sockets only send with.
const IPPROTO_RAW: u8 = 255;
/// The source of an error when we have no address (RFC 7600).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Returns whether a type is rate-limited at all (`icmpv4_mask_allow`).
fn is_limited(ns: &Namespace, ty: u8, code: u8) -> bool {
    ty <= HIGHEST
        && (ty, code) != (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED)
        && ns.conf().ipv4.get(Conf::IcmpRateMask) >> ty & 1 == 1
}

/// Sends an ICMP error for a packet that begins with its IPv4 header (`icmp_send`). `device` is the
/// incoming device, `rest` the second word of the message. `local` means that the packet was
/// addressed to us, so that the error is sent from that address.
pub fn error(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    packet: &Packet,
    ty: u8,
    code: u8,
    rest: u32,
    local: bool,
) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    // Options behind the one with the problem have not been looked at.
    let seen = match (ty, code) {
        (ICMP_PARAMETERPROB, 0) => (rest >> 24) as usize,
        _ => usize::MAX,
    };
    let Some((header, options)) = answered(packet, seen) else {
        return;
    };
    // A packet that we send is as good as one for us (in Linux it has PACKET_HOST).
    let is_ours = matches!(packet.pkt_type(), PacketType::Host | PacketType::Outgoing);
    if !is_ours || header.fragment_offset() != 0 {
        return;
    }
    if header.protocol() == IPPROTO_ICMP {
        let inner = packet.data().get(header.header_len());
        if inner.is_none_or(|ty| *ty > HIGHEST || is_error_v4(*ty)) {
            return;
        }
    }
    let limited = is_limited(ns, ty, code);
    if limited
        && device.flags() & iff::LOOPBACK == 0
        && !ns.ipv4().icmp.take(&ns.conf().ipv4, cx.now)
    {
        cx.mib(ns).icmp.add(mib::Icmp::OutRateLimitGlobal, 1);
        return;
    }
    let src = Ipv4Addr::from(header.src());
    let from = if local {
        Some(header.dst().into())
    } else if ns.conf().ipv4.on(Conf::IcmpErrorsUseInboundIfaddr) {
        select::select_address(ns, device, src, rta::scope::LINK, guard)
    } else {
        None
    };
    let wanted = Wanted {
        dst: src,
        src: from,
        // Internetwork control precedence, with the type of service of the packet.
        tos: (header.tos() & 0x1e) | 0xc0,
        mark: 0,
        proto: IPPROTO_ICMP,
    };
    let Ok(mut route) = route::output_by(ns, &wanted, device.l3_master_index(guard), guard) else {
        return;
    };
    let limit = ns.conf().ipv4.get(Conf::IcmpRateLimit).max(0) as u64;
    if limited
        && route.hop.device.flags() & iff::LOOPBACK == 0
        && !ns.ipv4().peers.may_send(src.into(), limit, cx.now)
    {
        cx.mib(ns).icmp.add(mib::Icmp::OutRateLimitHost, 1);
        return;
    }
    if route.src.is_unspecified() {
        route.src = DUMMY;
    }
    let room = route.hop.mtu.min(ERROR_LEN) as usize;
    let Some(room) = room
        .checked_sub(Ipv4::LEN + options.bytes().len() + Icmp::LEN)
        .filter(|room| *room > Ipv4::LEN)
    else {
        return;
    };
    let data = packet.data();
    let quote = data.get(..room).unwrap_or(data);
    let message = (icmp(ty, code, rest), quote);
    send(cx, device, ns, &route, &wanted, &options, message);
}

/// Returns a packet's header and the options of an answer to it, of which those up to `seen` bytes from the start of the header
/// are known to be right. `None` if there is no answer.
pub(super) fn answered(packet: &Packet, seen: usize) -> Option<(Ipv4<'_>, Chosen)> {
    let header = Ipv4::new(packet.data())?;
    let whole = packet.data().get(..header.header_len().min(seen));
    let options = ipv4_options::echo(whole.unwrap_or_default()).ok()?;
    Some((header, options))
}

/// Sends a message with its checksum.
fn send(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    route: &route::Output<'_>,
    wanted: &Wanted,
    options: &Chosen,
    (mut head, payload): ([u8; 8], &[u8]),
) {
    let counters = cx.mib(ns);
    counters.icmp.add(mib::Icmp::OutMsgs, 1);
    counters.message(Way::Out, head[0]);
    let mut sum = checksum::Sum::new();
    let check = sum.add(&head).add(payload).finish().to_be_bytes();
    [head[2], head[3]] = check;
    let header = output::Header {
        protocol: IPPROTO_ICMP,
        tos: wanted.tos,
        frag_off: 0,
        dst: wanted.dst.octets(),
        mark: wanted.mark,
    };
    let parts = [&head, payload];
    output::send_own(cx, device, ns, route, &header, options.bytes(), &parts);
}

/// Receives a message addressed to us (`icmp_rcv`). `at` is the offset of the message.
pub fn receive(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: Packet,
    at: usize,
    to: To,
) {
    let counters = cx.mib(ns);
    counters.icmp.add(mib::Icmp::InMsgs, 1);
    let drop = |cx: &Cx<'_>, reason, packet| {
        counters.icmp.add(mib::Icmp::InErrors, 1);
        cx.drop(device, Place::Ipv4Local, reason, packet);
    };
    let message = packet.data().get(at..).unwrap_or_default();
    if !checksum::verify(message) {
        counters.icmp.add(mib::Icmp::InCsumErrors, 1);
        return drop(cx, DropReason::ICMP_CSUM, packet);
    }
    let Some(head) = Icmp::new(message) else {
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let ty = head.icmp_type();
    counters.message(Way::In, ty);
    if matches!(ty, ICMP_EXT_ECHO | ICMP_EXT_ECHOREPLY) {
        return cx.drop(
            device,
            Place::Ipv4Local,
            DropReason::UNHANDLED_PROTO,
            packet,
        );
    }
    if ty > HIGHEST {
        return drop(cx, DropReason::UNHANDLED_PROTO, packet);
    }
    let question = matches!(ty, ICMP_ECHO | ICMP_TIMESTAMP);
    if to != To::Us {
        // Address mask messages (17, 18) may be broadcast as well.
        let ignored = question && ns.conf().ipv4.on(Conf::IcmpEchoIgnoreBroadcasts);
        if ignored || !(question || matches!(ty, 17 | 18)) {
            return drop(cx, DropReason::INVALID_PROTO, packet);
        }
    }
    match ty {
        ICMP_ECHO if !ns.conf().ipv4.on(Conf::IcmpEchoIgnoreAll) => {
            let head = icmp(ICMP_ECHOREPLY, 0, head.rest());
            let payload = message.get(Icmp::LEN..).unwrap_or_default();
            reply(cx, device, ns, &packet, to, head, payload);
        }
        ICMP_TIMESTAMP => {
            if let Some(original) = message.get(8..12) {
                let now = cx.stack.clock.day_time(cx.now).to_be_bytes();
                let times = [original, &now, &now].concat();
                let head = icmp(ICMP_TIMESTAMPREPLY, 0, head.rest());
                reply(cx, device, ns, &packet, to, head, &times);
            } else {
                counters.icmp.add(mib::Icmp::InErrors, 1);
            }
        }
        ICMP_ECHOREPLY => {
            if let Some(hooks) = sockets(ns).hooks(interest::PING) {
                let arrived = Arrived {
                    device,
                    ns,
                    ipv6: false,
                    at,
                    group: to != To::Us,
                };
                (hooks.echo_reply)(cx, &arrived, &packet);
            }
        }
        _ if is_error_v4(ty) => match judge(cx, device, ns, &packet, message) {
            Taken::Never => counters.icmp.add(mib::Icmp::InErrors, 1),
            taken if ty == ICMP_REDIRECT => redirected(cx, device, &packet, message, taken),
            _ => {}
        },
        // Other replies, for which nobody waits.
        _ => {}
    }
    cx.consume(packet);
}

/// Who has taken a received error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Nobody: it is invalid or has no recipient.
    Never,
    /// No socket.
    Quietly,
    /// A socket.
    Told,
}

/// Passes a redirect on. One about an echo reply of the kernel needs no socket (`icmp_err`).
fn redirected(cx: &Cx<'_>, device: &Arc<Device>, packet: &Packet, message: &[u8], taken: Taken) {
    let quoted = message.get(Icmp::LEN..).unwrap_or_default();
    let (Some(outer), Some(inner)) = (Ipv4::new(packet.data()), Ipv4::new(quoted)) else {
        return;
    };
    let ty = quoted.get(inner.header_len()).copied();
    let reply = inner.protocol() == IPPROTO_ICMP && ty == Some(ICMP_ECHOREPLY);
    if reply || taken == Taken::Told {
        let oif = device.l3_master_index(cx.guard);
        super::redirected::received(cx, device, outer.src().into(), message, oif);
    }
}

/// Judges whether a received error is valid and has a recipient (`icmp_unreach`, `icmp_socket_deliver`). Errors about TCP
/// and UDP have none without a socket, except those about a tunnel's datagrams. Tells sockets.
fn judge(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: &Packet,
    message: &[u8],
) -> Taken {
    let quoted = message.get(Icmp::LEN..).unwrap_or_default();
    let (Some(head), Some(ip)) = (Icmp::new(message), Ipv4::new(quoted)) else {
        return Taken::Never;
    };
    let len = ip.header_len();
    if len < Ipv4::LEN {
        return Taken::Never;
    }
    let ignored = match (head.icmp_type(), head.code()) {
        (ICMP_DEST_UNREACH, code) => code > HIGHEST_CODE,
        (ICMP_TIME_EXCEEDED, code) => code == ICMP_EXC_FRAGTIME,
        _ => false,
    };
    if ignored {
        return Taken::Quietly;
    }
    let Some(upper) = quoted.get(len..).filter(|upper| upper.len() >= 8) else {
        return Taken::Never;
    };
    let told = sockets(ns).hooks(interest::ANY).is_some_and(|hooks| {
        let Some(outer) = Ipv4::new(packet.data()) else {
            return false;
        };
        let info = match (head.icmp_type(), head.code()) {
            (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED) => head.rest() & 0xffff,
            (ICMP_PARAMETERPROB, _) => head.rest() >> 24,
            _ => 0,
        };
        let report = Report {
            device,
            ns,
            ipv6: false,
            from: Ipv4Addr::from(outer.src()).into(),
            ttl: outer.ttl(),
            tos: outer.tos(),
            ty: head.icmp_type(),
            code: head.code(),
            info,
            quoted,
            protocol: ip.protocol(),
            at: len,
        };
        (hooks.error)(cx, &report)
    });
    let quiet = match ip.protocol() {
        _ if told => return Taken::Told,
        IPPROTO_UDP => Udp::new(upper).is_some_and(|udp| {
            let port = Port {
                ipv6: false,
                port: udp.dst_port(),
            };
            crate::udp::ports(ns).socket(port, cx.guard).is_some()
        }),
        IPPROTO_TCP | IPPROTO_UDPLITE | IPPROTO_RAW => false,
        _ => true,
    };
    match quiet {
        true => Taken::Quietly,
        false => Taken::Never,
    }
}

/// Replies to a request (`icmp_reply`).
fn reply(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: &Packet,
    to: To,
    head: [u8; 8],
    payload: &[u8],
) {
    let guard = cx.guard;
    let Some((header, options)) = answered(packet, usize::MAX) else {
        return;
    };
    let wanted = Wanted {
        dst: header.src().into(),
        src: route::specific_destination(ns, device, packet, Some(to), guard),
        tos: header.tos(),
        mark: 0,
        proto: IPPROTO_ICMP,
    };
    if let Ok(route) = route::output_by(ns, &wanted, device.l3_master_index(guard), guard) {
        send(cx, device, ns, &route, &wanted, &options, (head, payload));
    }
}

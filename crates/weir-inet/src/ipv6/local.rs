// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivery to the local host (`ip6_input_finish`, `net/ipv6/exthdrs.c`): the extension headers one
//! by one, then the upper layer.
//!
//! | next header | action |
//! |---|---|
//! | destination options | handled by their highest bits; at most `max_dst_opts_number` |
//! | routing | skipped if no segments are left; types 2, 3 and 4 dropped; others: parameter problem |
//! | fragment | [`super::reassembly`] |
//! | ICMPv6 | [`super::icmp`] |
//! | UDP, UDP-Lite | a tunnel's or a program's socket; without one, port unreachable, except for groups |
//! | TCP | a program's socket; without one, reset |
//! | PIM | [`super::multicast`], while it has a register device |
//! | none | dropped |
//! | any other, including hop-by-hop options | parameter problem, unknown next header |
//!
//! Raw sockets get copies of the packets of their protocol, and UDP and TCP go to the sockets of programs first
//! ([`crate::sockets`]). Not implemented: mobility (type 2 routing headers),
//! segment routing (`seg6_enabled`, `rpl_seg_enabled`), IPsec.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::rta;
use weir_packet::checksum::verify_v6;
use weir_packet::header::icmp::{
    ICMPV6_DEST_UNREACH, ICMPV6_HDR_FIELD, ICMPV6_PARAMPROB, ICMPV6_PORT_UNREACH,
    ICMPV6_UNK_NEXTHDR,
};
use weir_packet::header::ipv4::IPPROTO_PIM;
use weir_packet::header::ipv6::{
    IPPROTO_ICMPV6, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_NONE, NEXTHDR_ROUTING,
};
use weir_packet::header::ipv6_ext::check_options;
use weir_packet::header::transport::{
    TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN, TcpMut, fill_check_v6, tcp,
};
use weir_packet::header::{Ipv6, Tcp, Udp};
use weir_packet::{DropReason, Flags, Packet, PacketType};

use super::icmp::send_error;
use super::input::{Refusal, refusal, refuse_options};
use super::output::{self, Head};
use super::select::{needs_device, own_kind};
use super::{icmp, reassembly};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::mib::Count;
use crate::mib::{self, Ip};
use crate::namespace::Namespace;
use crate::protocols::{Protocol, Receive, protocols};
use crate::settings::Ipv6 as Slot;
use crate::settings::WithSettings;
use crate::sockets::{Arrived, interest, sockets};
use crate::udp::{self, Datagram, Outer, Port};

const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_UDPLITE: u8 = 136;

/// The position of the walk over the headers, in bytes from the IPv6 header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// The offset of the byte that holds the next header's type.
    pub(super) name: usize,
    /// The offset of the next header.
    pub(super) at: usize,
}

/// Delivers a packet that begins with its IPv6 header (`ip6_input`). `owner` is the device that has the address.
pub fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, owner: &Arc<Device>, packet: Packet) {
    let ns = device.namespace(cx.guard);
    let mut packet = packet;
    // Hop-by-hop options were processed on receive.
    let mut cursor = Cursor {
        name: 6,
        at: Ipv6::LEN,
    };
    if packet.data().get(cursor.name) == Some(&0) {
        let [name, len] = match packet.data().get(Ipv6::LEN..).and_then(|d| d.first_chunk()) {
            Some(start) => *start,
            None => return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet),
        };
        let _ = name;
        cursor = Cursor {
            name: Ipv6::LEN,
            at: Ipv6::LEN + (usize::from(len) + 1) * 8,
        };
    }
    // A header takes at least eight bytes, so this terminates.
    loop {
        let Some(next) = packet.data().get(cursor.name).copied() else {
            return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet);
        };
        if matches!(
            next,
            NEXTHDR_NONE | IPPROTO_ICMPV6 | IPPROTO_UDP | IPPROTO_UDPLITE | IPPROTO_TCP
        ) {
            cx.mib6(owner).ip(Ip::InDelivers, 1);
        }
        let protocol = Protocol {
            ipv6: true,
            number: next,
        };
        let raw = sockets(ns).hooks(interest::RAW).is_some_and(|hooks| {
            let arrived = arrived(device, ns, cursor.at, &packet);
            (hooks.raw)(cx, &arrived, next, &packet)
        });
        if let Some(receive) = protocols(ns).receiver(protocol, cx.guard) {
            cx.mib6(owner).ip(Ip::InDelivers, 1);
            return tunnelled(cx, device, receive, cursor.at, packet);
        }
        let judged = match next {
            NEXTHDR_ROUTING => routing(&packet, cursor),
            NEXTHDR_DEST => {
                let max = ns.conf().ipv6.get(Slot::MaxDstOptsNumber).unsigned_abs() as usize;
                destination_options(&packet, cursor, max)
            }
            NEXTHDR_FRAGMENT => match reassembly::receive(cx, device, owner, cursor, packet) {
                Some((whole, after)) => {
                    (packet, cursor) = (whole, after);
                    continue;
                }
                None => return,
            },
            NEXTHDR_NONE => return drop_local(cx, device, DropReason::NOT_SPECIFIED, packet),
            IPPROTO_ICMPV6 => return icmp::receive(cx, device, cursor.at, packet),
            IPPROTO_UDP | IPPROTO_UDPLITE => return udp(cx, device, next, cursor.at, packet),
            IPPROTO_TCP => return tcp_reset(cx, device, cursor.at, packet),
            // Multicast routing takes none (`pim6_rcv`).
            IPPROTO_PIM => {
                cx.mib6(owner).ip(Ip::InDelivers, 1);
                return drop_local(cx, device, DropReason::NOT_SPECIFIED, packet);
            }
            _ if raw => {
                cx.mib6(owner).ip(Ip::InDelivers, 1);
                return cx.consume(packet);
            }
            _ => Err((
                DropReason::IP_NOPROTO,
                Some((ICMPV6_UNK_NEXTHDR, cursor.name as u32)),
            )),
        };
        match judged {
            Ok(after) => cursor = after,
            Err(refusal) => {
                match refusal.0 {
                    DropReason::IP_NOPROTO => cx.mib6(owner).ip(Ip::InUnknownProtos, 1),
                    DropReason::IP_INADDRERRORS => cx.mib6(device).ip(Ip::InAddrErrors, 1),
                    _ => cx.mib6(device).ip(Ip::InHdrErrors, 1),
                }
                return refuse_options(cx, device, Place::Ipv6Local, refusal, packet);
            }
        }
    }
}

/// Marks and counts the copy of a packet that comes back from the device it leaves by (`ip6_dev_loopback_xmit`).
pub(super) fn come_back(cx: &Cx<'_>, device: &Device, copy: &mut Packet) {
    copy.set_pkt_type(PacketType::Loopback);
    copy.iif = device.ifindex();
    copy.dev = device.key.0;
    let mib = cx.mib6(device);
    mib.ip(Ip::InReceives, 1);
    mib.ip(Ip::InOctets, copy.len() as u64);
    mib.ip(Ip::InMcastPkts, 1);
    mib.ip(Ip::InMcastOctets, copy.len() as u64);
}

fn arrived<'a>(
    device: &'a Arc<Device>,
    ns: &'a Namespace,
    at: usize,
    packet: &Packet,
) -> Arrived<'a> {
    let group = Ipv6::new(packet.data()).is_some_and(|ip| ip.dst()[0] == 0xff);
    Arrived {
        device,
        ns,
        ipv6: true,
        at,
        group,
    }
}

/// Passes a packet to the receiver of its protocol.
fn tunnelled(cx: &mut Cx<'_>, device: &Arc<Device>, receive: Receive, at: usize, packet: Packet) {
    let Some(header) = Ipv6::new(packet.data()) else {
        return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet);
    };
    let outer = Outer {
        src: Ipv6Addr::from(header.src()).into(),
        dst: Ipv6Addr::from(header.dst()).into(),
        tos: header.traffic_class(),
        ttl: header.hop_limit(),
    };
    if let Some(packet) = receive(cx, device, &outer, at, packet) {
        let (ty, code) = (ICMPV6_DEST_UNREACH, ICMPV6_PORT_UNREACH);
        send_error(cx, device, &packet, ty, code, 0);
        drop_local(cx, device, DropReason::IP_NOPROTO, packet);
    }
}

fn drop_local(cx: &mut Cx<'_>, device: &Arc<Device>, reason: DropReason, packet: Packet) {
    cx.drop(device, Place::Ipv6Local, reason, packet);
}

const BAD: Refusal = (DropReason::IPV6_BAD_EXTHDR, None);

/// Returns a header whose second byte holds its length in units of eight bytes, and the position
/// behind it.
fn extension(packet: &Packet, cursor: Cursor) -> Result<(&[u8], Cursor), Refusal> {
    let rest = packet.data().get(cursor.at..).ok_or(BAD)?;
    let [_, len] = *rest.first_chunk::<2>().ok_or(BAD)?;
    let octets = (usize::from(len) + 1) * 8;
    let header = rest.get(..octets).ok_or(BAD)?;
    let after = Cursor {
        name: cursor.at,
        at: cursor.at + octets,
    };
    Ok((header, after))
}

/// Processes a routing header (`ipv6_rthdr_rcv`).
fn routing(packet: &Packet, cursor: Cursor) -> Result<Cursor, Refusal> {
    let (header, after) = extension(packet, cursor)?;
    let [_, _, kind, left] = *header.first_chunk().ok_or(BAD)?;
    let dst = Ipv6::new(packet.data()).map(|header| Ipv6Addr::from(header.dst()));
    if dst.is_none_or(|dst| dst.is_multicast()) || packet.pkt_type() != PacketType::Host {
        return Err((DropReason::IP_INADDRERRORS, None));
    }
    match (kind, left) {
        // Mobility, RPL and segment routing are off.
        (2..=4, _) => Err(BAD),
        (_, 0) => Ok(after),
        _ => Err((
            DropReason::IP_INHDR,
            Some((ICMPV6_HDR_FIELD, (cursor.at + 2) as u32)),
        )),
    }
}

/// Processes destination options (`ipv6_destopt_rcv`).
fn destination_options(packet: &Packet, cursor: Cursor, max: usize) -> Result<Cursor, Refusal> {
    let (header, after) = extension(packet, cursor)?;
    let dst = Ipv6::new(packet.data()).map(|header| Ipv6Addr::from(header.dst()));
    let to_group = dst.is_none_or(|dst| dst.is_multicast());
    check_options(header, false, max).map_err(|error| refusal(error, cursor.at, to_group))?;
    Ok(after)
}

/// Sends a parameter problem and drops the packet (`icmpv6_param_prob_reason`).
pub(super) fn problem(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    code: u8,
    pointer: usize,
    reason: DropReason,
    packet: Packet,
) {
    send_error(cx, device, &packet, ICMPV6_PARAMPROB, code, pointer as u32);
    drop_local(cx, device, reason, packet);
}

/// Delivers a UDP datagram to a tunnel's socket or a program's, or answers that no socket has the port
/// (`__udp6_lib_rcv`).
fn udp(cx: &mut Cx<'_>, device: &Arc<Device>, protocol: u8, at: usize, mut packet: Packet) {
    if packet.segments().is_some() {
        // Sockets get datagrams of the wire (`udp_rcv_segment`).
        return crate::segments::each(cx, device, Place::Ipv6Local, packet, |cx, packet| {
            udp(cx, device, protocol, at, packet);
        });
    }
    let counters = cx
        .mib(device.namespace(cx.guard))
        .datagrams(match protocol {
            IPPROTO_UDPLITE => mib::Datagram::UdpLite6,
            _ => mib::Datagram::Udp6,
        });
    let bad = |cx: &mut Cx<'_>, reason, packet| {
        counters.add(mib::Udp::InErrors, 1);
        drop_local(cx, device, reason, packet);
    };
    let data = packet.data();
    let segment = data.get(at..).unwrap_or_default();
    let (Some(ip), Some(header)) = (Ipv6::new(data), Udp::new(segment)) else {
        return bad(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let covered = match usize::from(header.length()) {
        // UDP-Lite: the checksum covers everything. UDP: a jumbo datagram.
        0 => segment,
        len => match segment.get(..len).filter(|_| len >= Udp::LEN) {
            Some(covered) => covered,
            None => return bad(cx, DropReason::PKT_TOO_SMALL, packet),
        },
    };
    let port = Port {
        ipv6: true,
        port: header.dst_port(),
    };
    let ns = device.namespace(cx.guard);
    let unicast = !Ipv6Addr::from(ip.dst()).is_multicast();
    let socket = (protocol == IPPROTO_UDP)
        .then(|| udp::ports(ns).socket(port, cx.guard))
        .flatten();
    // Over IPv6 a checksum is mandatory, unless a tunnel works without one. That of UDP-Lite is not
    // checked.
    let sums = protocol == IPPROTO_UDPLITE
        || match header.check() {
            0 => socket.is_some_and(|socket| socket.zero_csum6),
            _ => verify_v6(ip.src(), ip.dst(), protocol, covered),
        };
    if !sums {
        counters.add(mib::Udp::InCsumErrors, 1);
        return bad(cx, DropReason::UDP_CSUM, packet);
    }
    if let Some(socket) = socket {
        let outer = Outer {
            src: Ipv6Addr::from(ip.src()).into(),
            dst: Ipv6Addr::from(ip.dst()).into(),
            tos: ip.traffic_class(),
            ttl: ip.hop_limit(),
        };
        let whole = at + covered.len();
        packet.trim(whole);
        counters.add(mib::Udp::InDatagrams, 1);
        let outer = &outer;
        let datagram = Datagram {
            port,
            socket,
            outer,
            at,
        };
        return (socket.receive)(cx, device, &datagram, packet);
    }
    if protocol == IPPROTO_UDP
        && let Some(hooks) = sockets(ns).hooks(interest::UDP)
    {
        let whole = at + covered.len();
        packet.trim(whole);
        let arrived = arrived(device, ns, at, &packet);
        packet = match (hooks.datagram)(cx, &arrived, packet) {
            Some(packet) => packet,
            None => return,
        };
    }
    let counter = match unicast {
        true => mib::Udp::NoPorts,
        false => mib::Udp::IgnoredMulti,
    };
    counters.add(counter, 1);
    if unicast {
        let code = ICMPV6_PORT_UNREACH;
        send_error(cx, device, &packet, ICMPV6_DEST_UNREACH, code, 0);
    }
    drop_local(cx, device, DropReason::NO_SOCKET, packet);
}

/// Delivers a TCP segment to a program's socket, or answers with a reset that no socket wants it (`tcp_v6_rcv`,
/// `tcp_v6_send_reset`).
fn tcp_reset(cx: &mut Cx<'_>, device: &Arc<Device>, at: usize, mut packet: Packet) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let data = packet.data();
    let segment = data.get(at..).unwrap_or_default();
    let counters = &cx.mib(ns).tcp;
    if packet.pkt_type() == PacketType::Host {
        counters.add(mib::Tcp::InSegs, 1);
    }
    let (Some(ip), Some(header)) = (Ipv6::new(data), Tcp::new(segment)) else {
        return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet);
    };
    if packet.pkt_type() != PacketType::Host {
        return drop_local(cx, device, DropReason::NOT_SPECIFIED, packet);
    }
    if header.header_len() < Tcp::LEN || header.header_len() > segment.len() {
        if header.header_len() < Tcp::LEN {
            counters.add(mib::Tcp::InErrs, 1);
        }
        return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet);
    }
    if !packet.flags.contains(Flags::CSUM_GOOD)
        && !verify_v6(ip.src(), ip.dst(), IPPROTO_TCP, segment)
    {
        counters.add(mib::Tcp::InCsumErrors, 1);
        counters.add(mib::Tcp::InErrs, 1);
        return drop_local(cx, device, DropReason::TCP_CSUM, packet);
    }
    let (from, to) = (Ipv6Addr::from(ip.src()), Ipv6Addr::from(ip.dst()));
    if !to.is_multicast()
        && let Some(hooks) = sockets(ns).hooks(interest::TCP)
    {
        let arrived = arrived(device, ns, at, &packet);
        packet = match (hooks.segment)(cx, &arrived, packet) {
            Some(packet) => packet,
            None => return,
        };
    }
    let segment = packet.data().get(at..).unwrap_or_default();
    let Some(header) = Tcp::new(segment) else {
        return drop_local(cx, device, DropReason::PKT_TOO_SMALL, packet);
    };
    let flags = header.flags();
    let ours = own_kind(ns, device, to, guard) == Some(rta::rtn::LOCAL);
    if flags & TCP_RST != 0 || !ours || from.is_multicast() || from.is_unspecified() {
        return drop_local(cx, device, DropReason::NO_SOCKET, packet);
    }
    let mut answer = if flags & TCP_ACK != 0 {
        tcp(
            header.dst_port(),
            header.src_port(),
            header.ack(),
            0,
            TCP_RST,
        )
    } else {
        let taken = u32::from(flags & TCP_SYN != 0)
            + u32::from(flags & TCP_FIN != 0)
            + (segment.len() - header.header_len()) as u32;
        let ack = header.seq().wrapping_add(taken);
        tcp(
            header.dst_port(),
            header.src_port(),
            0,
            ack,
            TCP_RST | TCP_ACK,
        )
    };
    if let Some(mut header) = TcpMut::new(&mut answer) {
        header.set_window(0);
    }
    fill_check_v6(to.octets(), from.octets(), IPPROTO_TCP, &mut answer);
    let oif = if needs_device(from) {
        device.ifindex()
    } else {
        device.l3_master_index(guard)
    };
    if let Ok(route) = output::route(ns, to, from, oif, guard)
        && let Some(answer) = cx.stack.pool.packet(&answer)
    {
        counters.add(mib::Tcp::OutSegs, 1);
        counters.add(mib::Tcp::OutRsts, 1);
        let head = Head {
            src: to,
            dst: from,
            protocol: IPPROTO_TCP,
            hop_limit: route.hop_limit(),
            class: 0,
            label: output::flow_label(ns, to, from, IPPROTO_TCP),
        };
        output::send(cx, ns, &route, &head, answer);
    }
    drop_local(cx, device, DropReason::NO_SOCKET, packet);
}

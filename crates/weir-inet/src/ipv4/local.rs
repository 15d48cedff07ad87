// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivery to the local host (`ip_local_deliver`, `ip_protocol_deliver_rcu`).
//!
//! Raw sockets get copies of every packet. A datagram for a tunnel's port goes to the tunnel, and others to the sockets
//! of programs ([`crate::sockets`]). Without a socket a UDP datagram is answered with "port unreachable", a TCP segment
//! with a reset, any other protocol with "protocol unreachable". Echo requests and IGMP queries are answered
//! ([`super::igmp`]).

use std::sync::Arc;

use weir_packet::header::icmp::{ICMP_DEST_UNREACH, ICMP_PORT_UNREACH, ICMP_PROT_UNREACH};
use weir_packet::header::ipv4::{
    IP_DF, IPPROTO_ICMP, IPPROTO_IGMP, IPPROTO_PIM, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE,
};
use weir_packet::header::transport::{TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN, fill_check_v4, tcp};
use weir_packet::header::{Ipv4, Tcp, TcpMut, Udp};
use weir_packet::{DropReason, Flags, Packet, PacketType, checksum};

use super::route::{self, To, Wanted};
use super::{icmp, output};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::mib::Count;
use crate::mib::{self, Ip};
use crate::namespace::Namespace;
use crate::protocols::{Protocol, protocols};
use crate::sockets::{Arrived, interest, sockets};
use crate::udp::{self, Datagram, Outer, Port};

/// Delivers a packet that begins with its validated header.
pub fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: Packet, to: To) {
    let fragment = Ipv4::new(packet.data()).is_some_and(|header| header.is_fragment());
    let packet = if fragment {
        match super::reassembly::add(cx, device, ns, packet, to) {
            Some(whole) => whole,
            None => return,
        }
    } else {
        packet
    };
    let Some(header) = Ipv4::new(packet.data()) else {
        return cx.drop(device, Place::Ipv4Local, DropReason::IP_INHDR, packet);
    };
    let at = header.header_len();
    let protocol = header.protocol();
    let taken = Protocol {
        ipv6: false,
        number: protocol,
    };
    let receive = protocols(ns).receiver(taken, cx.guard);
    let raw = sockets(ns).hooks(interest::RAW).is_some_and(|hooks| {
        let arrived = arrived(device, ns, at, to);
        (hooks.raw)(cx, &arrived, protocol, &packet)
    });
    let counter = match protocol {
        _ if raw || receive.is_some() => Ip::InDelivers,
        IPPROTO_ICMP | IPPROTO_UDP | IPPROTO_UDPLITE | IPPROTO_TCP | IPPROTO_IGMP | IPPROTO_PIM => {
            Ip::InDelivers
        }
        _ => Ip::InUnknownProtos,
    };
    cx.mib(ns).ip.add(counter, 1);
    match protocol {
        IPPROTO_ICMP => icmp::receive(cx, device, ns, packet, at, to),
        IPPROTO_UDP | IPPROTO_UDPLITE => udp(cx, device, ns, packet, at, to),
        IPPROTO_TCP => reset(cx, device, ns, packet, at, to),
        IPPROTO_IGMP => match super::igmp::receive(cx, device, &packet, at) {
            Ok(()) if super::igmp::is_pim(&packet, at) => pim(cx, device, ns, packet, at),
            Ok(()) => cx.consume(packet),
            Err(reason) => cx.drop(device, Place::Ipv4Local, reason, packet),
        },
        IPPROTO_PIM => pim(cx, device, ns, packet, at),
        _ => {
            let mut packet = packet;
            let mut code = ICMP_PROT_UNREACH;
            if let (Some(receive), Some(header)) = (receive, Ipv4::new(packet.data())) {
                let outer = outer(&header);
                packet = match receive(cx, device, &outer, at, packet) {
                    Some(packet) => packet,
                    None => return,
                };
                code = ICMP_PORT_UNREACH;
            }
            if raw && receive.is_none() {
                return cx.consume(packet);
            }
            if to == To::Us {
                icmp::error(cx, device, &packet, ICMP_DEST_UNREACH, code, 0, true);
            }
            cx.drop(device, Place::Ipv4Local, DropReason::IP_NOPROTO, packet);
        }
    }
}

/// Passes a message of PIM to multicast routing. Nobody is told if that takes none (`pim_rcv`, `pim_rcv_v1`).
fn pim(cx: &mut Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: Packet, at: usize) {
    let protocol = Protocol {
        ipv6: false,
        number: IPPROTO_PIM,
    };
    let receive = protocols(ns).receiver(protocol, cx.guard);
    let left = match (
        receive,
        Ipv4::new(packet.data()).map(|header| outer(&header)),
    ) {
        (Some(receive), Some(outer)) => receive(cx, device, &outer, at, packet),
        _ => Some(packet),
    };
    if let Some(packet) = left {
        cx.drop(device, Place::Ipv4Local, DropReason::NOT_SPECIFIED, packet);
    }
}

fn outer(header: &Ipv4<'_>) -> Outer {
    Outer {
        src: header.src().into(),
        dst: header.dst().into(),
        tos: header.tos(),
        ttl: header.ttl(),
    }
}

fn arrived<'a>(device: &'a Arc<Device>, ns: &'a Namespace, at: usize, to: To) -> Arrived<'a> {
    Arrived {
        device,
        ns,
        ipv6: false,
        at,
        group: to != To::Us,
    }
}

/// Delivers a UDP datagram to a tunnel's socket or a program's, or answers that no socket has the port
/// (`__udp4_lib_rcv`).
fn udp(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    mut packet: Packet,
    at: usize,
    to: To,
) {
    if packet.segments().is_some() {
        // Sockets get datagrams of the wire (`udp_rcv_segment`).
        return crate::segments::each(cx, device, Place::Ipv4Local, packet, |cx, packet| {
            udp(cx, device, ns, packet, at, to);
        });
    }
    let data = packet.data();
    let segment = data.get(at..).unwrap_or_default();
    let lite = Ipv4::new(data).is_some_and(|ip| ip.protocol() == IPPROTO_UDPLITE);
    let counters = cx.mib(ns).datagrams(match lite {
        true => mib::Datagram::UdpLite,
        false => mib::Datagram::Udp,
    });
    let drop = |cx: &Cx<'_>, reason, packet| {
        counters.add(mib::Udp::InErrors, 1);
        cx.drop(device, Place::Ipv4Local, reason, packet);
    };
    let (Some(header), Some(ip)) = (Udp::new(segment), Ipv4::new(data)) else {
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let len = match usize::from(header.length()) {
        _ if lite => segment.len(),
        len if len > segment.len() || len < Udp::LEN => {
            return drop(cx, DropReason::PKT_TOO_SMALL, packet);
        }
        len => len,
    };
    let hooks = sockets(ns).hooks(interest::UDP).filter(|_| !lite);
    let port = Port {
        ipv6: false,
        port: header.dst_port(),
    };
    let socket = (!lite)
        .then(|| udp::ports(ns).socket(port, cx.guard))
        .flatten();
    if to != To::Us && hooks.is_none() && socket.is_none() {
        // Nobody listens to the group.
        counters.add(mib::Udp::IgnoredMulti, 1);
        return cx.consume(packet);
    }
    let (src, dst) = (ip.src(), ip.dst());
    let segment = segment.get(..len).unwrap_or(segment);
    if !lite && !checksum::verify_v4(src, dst, IPPROTO_UDP, segment) {
        counters.add(mib::Udp::InCsumErrors, 1);
        return drop(cx, DropReason::UDP_CSUM, packet);
    }
    let outer = Outer {
        src: src.into(),
        dst: dst.into(),
        tos: ip.tos(),
        ttl: ip.ttl(),
    };
    packet.trim(at + len);
    if let Some(socket) = socket {
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
    if let Some(hooks) = hooks {
        let arrived = arrived(device, ns, at, to);
        packet = match (hooks.datagram)(cx, &arrived, packet) {
            Some(packet) => packet,
            None => return,
        };
        if to != To::Us {
            counters.add(mib::Udp::IgnoredMulti, 1);
            return cx.consume(packet);
        }
    }
    counters.add(mib::Udp::NoPorts, 1);
    icmp::error(
        cx,
        device,
        &packet,
        ICMP_DEST_UNREACH,
        ICMP_PORT_UNREACH,
        0,
        true,
    );
    cx.drop(device, Place::Ipv4Local, DropReason::NO_SOCKET, packet);
}

/// Delivers a TCP segment to a program's socket, or answers with a reset that no socket wants it (`tcp_v4_rcv`,
/// `tcp_v4_send_reset`).
fn reset(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    mut packet: Packet,
    at: usize,
    to: To,
) {
    let drop = |cx: &Cx<'_>, reason, packet| cx.drop(device, Place::Ipv4Local, reason, packet);
    if packet.pkt_type() != PacketType::Host {
        return drop(cx, DropReason::NOT_SPECIFIED, packet);
    }
    let guard = cx.guard;
    let counters = &cx.mib(ns).tcp;
    counters.add(mib::Tcp::InSegs, 1);
    let data = packet.data();
    let segment = data.get(at..).unwrap_or_default();
    let (Some(header), Some(ip)) = (Tcp::new(segment), Ipv4::new(data)) else {
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    if header.header_len() < Tcp::LEN || header.header_len() > segment.len() {
        if header.header_len() < Tcp::LEN {
            counters.add(mib::Tcp::InErrs, 1);
        }
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    let (src, dst) = (ip.src(), ip.dst());
    if !packet.flags.contains(Flags::CSUM_GOOD)
        && !checksum::verify_v4(src, dst, IPPROTO_TCP, segment)
    {
        counters.add(mib::Tcp::InCsumErrors, 1);
        counters.add(mib::Tcp::InErrs, 1);
        return drop(cx, DropReason::TCP_CSUM, packet);
    }
    if to == To::Us
        && let Some(hooks) = sockets(ns).hooks(interest::TCP)
    {
        let arrived = arrived(device, ns, at, to);
        packet = match (hooks.segment)(cx, &arrived, packet) {
            Some(packet) => packet,
            None => return,
        };
    }
    let data = packet.data();
    let segment = data.get(at..).unwrap_or_default();
    let (Some(header), Some(ip)) = (Tcp::new(segment), Ipv4::new(data)) else {
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    if header.flags() & TCP_RST != 0 || to != To::Us {
        return drop(cx, DropReason::NO_SOCKET, packet);
    }
    let flags = header.flags();
    let taken = u32::from(flags & TCP_SYN != 0)
        + u32::from(flags & TCP_FIN != 0)
        + (segment.len() - header.header_len()) as u32;
    let (seq, ack, flags) = if flags & TCP_ACK != 0 {
        (header.ack(), 0, TCP_RST)
    } else {
        (0, header.seq().wrapping_add(taken), TCP_RST | TCP_ACK)
    };
    let mut answer = tcp(header.dst_port(), header.src_port(), seq, ack, flags);
    if let Some(mut head) = TcpMut::new(&mut answer) {
        head.set_window(0);
    }
    fill_check_v4(dst, src, IPPROTO_TCP, &mut answer);
    let wanted = Wanted {
        dst: src.into(),
        src: Some(dst.into()),
        tos: ip.tos(),
        mark: 0,
        proto: IPPROTO_TCP,
    };
    counters.add(mib::Tcp::OutSegs, 1);
    counters.add(mib::Tcp::OutRsts, 1);
    if let Ok(route) = route::output_by(ns, &wanted, device.l3_master_index(guard), guard)
        && let Some((_, options)) = icmp::answered(&packet, usize::MAX)
    {
        let head = output::Header {
            protocol: IPPROTO_TCP,
            // Without the ECN bits (`INET_ECN_MASK`).
            tos: wanted.tos & !3,
            frag_off: IP_DF,
            dst: src,
            mark: 0,
        };
        output::send_own(cx, device, ns, &route, &head, options.bytes(), &[&answer]);
    }
    drop(cx, DropReason::NO_SOCKET, packet);
}

/// Makes a sent packet one that is received by the device that sent it, and counts it (`dev_loopback_xmit`).
pub(super) fn come_back(
    cx: &mut Cx<'_>,
    device: &Device,
    ns: &Namespace,
    packet: &mut Packet,
    to: To,
) {
    packet.set_pkt_type(PacketType::Loopback);
    packet.iif = device.ifindex();
    let mib = cx.mib(ns);
    let (counter, octets) = match to {
        To::Group => (Ip::InMcastPkts, Ip::InMcastOctets),
        _ => (Ip::InBcastPkts, Ip::InBcastOctets),
    };
    mib.ip.add(Ip::InReceives, 1);
    mib.ip.add(Ip::InOctets, packet.len() as u64);
    mib.ip.add(counter, 1);
    mib.ip.add(octets, packet.len() as u64);
}

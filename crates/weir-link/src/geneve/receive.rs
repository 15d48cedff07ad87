// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decapsulation (`geneve_udp_encap_recv`, `geneve_rx`).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6, Udp};
use weir_packet::tunnel::{Ends, OptionKind, Options, Tunnel};
use weir_packet::{Batch, DropReason, Packet};

use super::socket::tunnels;
use super::{ETH_P_TEB, HEADER_LEN};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::tunnel::inner::{decapsulate_ecn, scrub};
use crate::udp::Datagram;

/// The bit for options that the receiver must understand.
const CRITICAL: u8 = 0x40;

/// Takes a datagram for a port of Geneve.
pub fn receive(cx: &mut Cx<'_>, underlay: &Arc<Device>, datagram: &Datagram<'_>, packet: Packet) {
    let (guard, port, outer, at) = (cx.guard, datagram.port, datagram.outer, datagram.at);
    let external = datagram.socket.data & 1 != 0;
    let place = match port.ipv6 {
        true => Place::Ipv6Local,
        false => Place::Ipv4Local,
    };
    let refuse = |cx: &Cx<'_>, reason, packet| cx.drop(underlay, place, reason, packet);
    let ns = underlay.namespace(guard);
    let segment = packet.data().get(at..).unwrap_or_default();
    let header = segment.get(Udp::LEN..).and_then(|rest| rest.first_chunk());
    let (Some(udp), Some(&[first, bits, p0, p1, v0, v1, v2, _])) = (Udp::new(segment), header)
    else {
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    if first >> 6 != 0 {
        return refuse(cx, DropReason::NOT_SPECIFIED, packet);
    }
    let vni = u32::from_be_bytes([0, v0, v1, v2]);
    let to = tunnels(ns).and_then(|all| all.receiver(port, external, (vni, outer.src), guard));
    let to = to.and_then(|to| Some((cx.device(to.key)?, &to.geneve)));
    let Some((device, geneve)) = to else {
        return refuse(cx, DropReason::NOT_SPECIFIED, packet);
    };
    let stats = device.stats(cx.state.id);
    let options = usize::from(first & 0x3f) * 4;
    let head = at + Udp::LEN + HEADER_LEN;
    let whole = packet.data().len() >= head + options + Ethernet::LEN;
    if u16::from_be_bytes([p0, p1]) != ETH_P_TEB || !whole {
        stats.rx_dropped.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::UNHANDLED_PROTO, packet);
    }
    if !external && bits & CRITICAL != 0 {
        geneve.errors.rx_frame.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::NOT_SPECIFIED, packet);
    }
    let metadata = external.then(|| {
        let octets = packet.data().get(head..head + options);
        let octets = octets.filter(|octets| !octets.is_empty());
        let tunnel = Tunnel {
            ends: match (outer.src, outer.dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => Ends::V4(src.octets(), dst.octets()),
                (src, dst) => Ends::new(src, dst).unwrap_or(Ends::V4([0; 4], [0; 4])),
            },
            options: octets.map(|octets| {
                Box::new(Options {
                    kind: OptionKind::Geneve,
                    octets: octets.into(),
                })
            }),
            id: vni,
            has_id: true,
            src_port: udp.src_port(),
            dst_port: udp.dst_port(),
            tos: outer.tos,
            ttl: outer.ttl,
            checksum: udp.check() != 0,
            dont_fragment: false,
            transmit: false,
        };
        geneve.remembered().share(tunnel, guard)
    });
    let elsewhere = !Arc::ptr_eq(ns, device.namespace(guard));
    let mut packet = packet;
    scrub(cx, &mut packet, elsewhere);
    let pulled = packet.pull(head + options);
    debug_assert!(pulled, "the length was checked");
    if metadata.is_some() {
        packet.set_tunnel(metadata);
    }
    let Some((from, protocol)) =
        Ethernet::new(packet.data()).map(|eth| (eth.src(), eth.ethertype()))
    else {
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    if from == device.address() {
        stats.rx_errors.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::LOCAL_MAC, packet);
    }
    let least = match protocol {
        ETH_P_IP => Ipv4::LEN,
        ETH_P_IPV6 => Ipv6::LEN,
        _ => 0,
    };
    if packet.len() < Ethernet::LEN + least {
        geneve.errors.rx_length.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    if least != 0 {
        let network = packet.data_mut().get_mut(Ethernet::LEN..);
        if !network.is_none_or(|network| decapsulate_ecn(outer.tos, protocol, network)) {
            geneve.errors.rx_frame.fetch_add(1, Relaxed);
            stats.rx_errors.fetch_add(1, Relaxed);
            return refuse(cx, DropReason::IP_TUNNEL_ECN, packet);
        }
    }
    if !device.is_up() {
        stats.rx_dropped.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::DEV_READY, packet);
    }
    stats.rx_packets.fetch_add(1, Relaxed);
    let octets = packet.len().saturating_sub(Ethernet::LEN);
    stats.rx_bytes.fetch_add(octets as u64, Relaxed);
    cx.receive_later(device, Batch::from(packet));
}

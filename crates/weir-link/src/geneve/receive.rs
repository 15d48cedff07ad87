// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decapsulation (`geneve_udp_encap_recv`, `geneve_rx`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::ethernet::ETH_P_TEB;
use weir_packet::header::{Ethernet, Udp};
use weir_packet::tunnel::{OptionKind, Options};
use weir_packet::{DropReason, Packet};

use super::socket::tunnels;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::protocols::scrub;
use crate::tunnel::udp::{HEADER_LEN, deliver, metadata};
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
    let address = (!external).then_some((vni, outer.src));
    let to = tunnels(ns).and_then(|all| all.receiver(port, address, guard));
    let to = to.and_then(|to| Some((cx.device(to.key)?, &to.tunnel)));
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
        let options = octets.map(|octets| {
            Box::new(Options {
                kind: OptionKind::Geneve,
                octets: octets.into(),
            })
        });
        let tunnel = metadata(outer, &udp, vni, options);
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
    if Ethernet::new(packet.data()).is_some_and(|eth| eth.src() == device.address()) {
        stats.rx_errors.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::LOCAL_MAC, packet);
    }
    if let Err((reason, packet)) = deliver(cx, device, &geneve.errors, outer.tos, packet) {
        refuse(cx, reason, packet);
    }
}

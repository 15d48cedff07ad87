// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decapsulation (`vxlan_rcv`) of a UDP datagram for a port on which VXLAN devices listen.
//!
//! Difference from Linux: the ECN bits of an inner packet with a VLAN tag are neither checked nor
//! changed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6, Udp};
use weir_packet::tunnel::{Ends, OptionKind, Options, Tunnel};
use weir_packet::{Batch, DropReason, Packet};

use super::Vxlan;
use super::fdb::Site;
use super::socket::{Socket, tunnels};
use super::{GBP_FLAG, GBP_USED, HEADER_LEN, VNI_FLAG};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::tunnel::inner::{decapsulate_ecn, scrub};
use crate::udp::{Datagram, Outer};

/// Takes a datagram for a port of VXLAN.
pub fn receive(cx: &mut Cx<'_>, underlay: &Arc<Device>, datagram: &Datagram<'_>, packet: Packet) {
    let (guard, port, outer, at) = (cx.guard, datagram.port, datagram.outer, datagram.at);
    let socket = Socket::of(&datagram.socket);
    let place = if port.ipv6 {
        Place::Ipv6Local
    } else {
        Place::Ipv4Local
    };
    let refuse = |cx: &Cx<'_>, reason, packet| cx.drop(underlay, place, reason, packet);
    let ns = underlay.namespace(guard);
    let segment = packet.data().get(at..).unwrap_or_default();
    let header = segment.get(Udp::LEN..).and_then(|rest| rest.first_chunk());
    let (Some(udp), Some(&[f0, f1, f2, f3, v0, v1, v2, v3])) = (Udp::new(segment), header) else {
        return refuse(cx, DropReason::VXLAN_INVALID_HDR, packet);
    };
    let flags = u32::from_be_bytes([f0, f1, f2, f3]);
    let vni = u32::from_be_bytes([0, v0, v1, v2]);
    if flags & VNI_FLAG == 0 {
        return refuse(cx, DropReason::VXLAN_INVALID_HDR, packet);
    }
    let receiver = tunnels(ns).and_then(|tunnels| tunnels.receiver(port, socket, vni, guard));
    let receiver = receiver.and_then(|to| Some((cx.device(to.key)?, &to.vxlan)));
    let Some((device, vxlan)) = receiver else {
        return refuse(cx, DropReason::VXLAN_VNI_NOT_FOUND, packet);
    };
    let mut unread = flags & !VNI_FLAG;
    let mut gbp = 0;
    if socket.gbp {
        if flags & GBP_FLAG != 0 {
            gbp = flags & super::GBP_MASK;
        }
        unread &= !GBP_USED;
    }
    if unread != 0 || v3 != 0 {
        return refuse(cx, DropReason::VXLAN_INVALID_HDR, packet);
    }
    let tunnel = socket.external.then(|| {
        let tunnel = Tunnel {
            ends: match (outer.src, outer.dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => Ends::V4(src.octets(), dst.octets()),
                (src, dst) => Ends::new(src, dst).unwrap_or(Ends::V4([0; 4], [0; 4])),
            },
            options: (flags & GBP_FLAG != 0 && socket.gbp).then(|| {
                Box::new(Options {
                    kind: OptionKind::Vxlan,
                    octets: gbp.to_ne_bytes().into(),
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
        vxlan.remembered().share(tunnel, guard)
    });
    let elsewhere = !Arc::ptr_eq(ns, device.namespace(guard));
    let mut packet = packet;
    scrub(cx, &mut packet, elsewhere);
    let whole = packet.pull(at + Udp::LEN + HEADER_LEN) && packet.data().len() >= Ethernet::LEN;
    if !whole {
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    if let Some(tunnel) = tunnel {
        packet.set_tunnel(Some(tunnel));
    } else if gbp != 0 {
        packet.mark = gbp;
    }
    if let Err((reason, packet)) = inner(cx, vxlan, device, underlay.ifindex(), outer, vni, packet)
    {
        refuse(cx, reason, packet);
    }
}

/// Processes the inner frame.
fn inner(
    cx: &mut Cx<'_>,
    vxlan: &Arc<Vxlan>,
    device: &Arc<Device>,
    ifindex: u32,
    outer: &Outer,
    vni: u32,
    mut packet: Packet,
) -> Result<(), (DropReason, Packet)> {
    let Some(eth) = Ethernet::new(packet.data()) else {
        return Err((DropReason::PKT_TOO_SMALL, packet));
    };
    let (from, protocol) = (eth.src(), eth.ethertype());
    if from == device.address() {
        return Err((DropReason::LOCAL_MAC, packet));
    }
    let site = Site {
        stack: cx.stack,
        guard: cx.guard,
        device,
        vxlan,
    };
    if vxlan.config.load(cx.guard).learning
        && let Err(reason) = super::fdb::snoop(&site, cx.now, outer.src, from, ifindex, vni)
    {
        return Err((reason, packet));
    }
    let stats = device.stats(cx.state.id);
    let least = match protocol {
        ETH_P_IP => Ipv4::LEN,
        ETH_P_IPV6 => Ipv6::LEN,
        _ => 0,
    };
    if packet.len() < Ethernet::LEN + least {
        vxlan.errors.rx_length.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return Err((DropReason::PKT_TOO_SMALL, packet));
    }
    let network = packet.data_mut().get_mut(Ethernet::LEN..);
    if !network.is_none_or(|network| decapsulate_ecn(outer.tos, protocol, network)) {
        vxlan.errors.rx_frame.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return Err((DropReason::IP_TUNNEL_ECN, packet));
    }
    if !device.is_up() {
        stats.rx_dropped.fetch_add(1, Relaxed);
        return Err((DropReason::DEV_READY, packet));
    }
    let octets = packet.len().saturating_sub(Ethernet::LEN);
    deliver(cx, device, octets, packet);
    Ok(())
}

/// Counts a frame and passes it to the device.
pub(super) fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, octets: usize, packet: Packet) {
    let stats = device.stats(cx.state.id);
    stats.rx_packets.fetch_add(1, Relaxed);
    stats.rx_bytes.fetch_add(octets as u64, Relaxed);
    cx.receive_later(device, Batch::from(packet));
}

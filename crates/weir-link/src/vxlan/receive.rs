// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decapsulation (`vxlan_rcv`) of a UDP datagram for a port on which VXLAN devices listen.
//!
//! Difference from Linux: the ECN bits of an inner packet with a VLAN tag are neither checked nor
//! changed.

use std::sync::Arc;

use weir_packet::checksum::{self, Sum};
use weir_packet::header::{Ethernet, Udp};
use weir_packet::tunnel::{OptionKind, Options};
use weir_packet::{DropReason, Flags, Packet};

use super::Vxlan;
use super::fdb::Site;
use super::socket::{Socket, tunnels};
use super::vnis::Count;
use super::{
    GBP_FLAG, GBP_USED, GPE_NEXT, GPE_OAM, GPE_USED, GPE_VERSION, NEXT_PROTOCOLS, RCO_FLAG,
    RCO_TCP_CHECK, RCO_UDP, RCO_UDP_CHECK, VNI_FLAG,
};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::protocols::scrub;
use crate::tunnel::udp::{HEADER_LEN, deliver, deliver_packet, metadata};
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
    let address = socket.address(vni);
    let receiver = tunnels(ns).and_then(|tunnels| tunnels.receiver(port, address, guard));
    let receiver = receiver.and_then(|to| Some((cx.device(to.key)?, &to.tunnel)));
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
    let mut protocol = None;
    if socket.gpe {
        protocol = next_protocol(flags);
        if protocol.is_none() {
            return refuse(cx, DropReason::VXLAN_INVALID_HDR, packet);
        }
        unread &= !GPE_USED;
    }
    // Without the extension, its bits are reserved.
    let left = (socket.remcsum && flags & RCO_FLAG != 0).then_some(v3);
    let reserved = if socket.remcsum { 0 } else { v3 };
    if socket.remcsum {
        unread &= !RCO_FLAG;
    }
    if unread != 0 || reserved != 0 {
        return refuse(cx, DropReason::VXLAN_INVALID_HDR, packet);
    }
    let tunnel = socket.external.then(|| {
        let options = (flags & GBP_FLAG != 0 && socket.gbp).then(|| {
            Box::new(Options {
                kind: OptionKind::Vxlan,
                octets: gbp.to_ne_bytes().into(),
            })
        });
        let tunnel = metadata(outer, &udp, vni, options);
        vxlan.remembered().share(tunnel, guard)
    });
    let elsewhere = !Arc::ptr_eq(ns, device.namespace(guard));
    let mut packet = packet;
    scrub(cx, &mut packet, elsewhere);
    let least = if socket.gpe { 0 } else { Ethernet::LEN };
    let whole = packet.pull(at + Udp::LEN + HEADER_LEN) && packet.len() >= least;
    if !whole {
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    if let Some(low) = left
        && !complete_checksum(&mut packet, low, socket.nopartial)
    {
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    if let Some(tunnel) = tunnel {
        packet.set_tunnel(Some(tunnel));
    } else if gbp != 0 {
        packet.mark = gbp;
    }
    let done = match protocol {
        Some(protocol) => bare(cx, vxlan, device, outer, (vni, protocol), packet),
        None => frame(cx, vxlan, device, underlay.ifindex(), outer, vni, packet),
    };
    if let Err((reason, packet)) = done {
        refuse(cx, reason, packet);
    }
}

/// Computes the checksum of an inner packet that the sender has left (`vxlan_remcsum`). Returns false if its place is
/// outside the packet.
fn complete_checksum(packet: &mut Packet, low: u8, nopartial: bool) -> bool {
    let start = usize::from(low & !RCO_UDP) << 1;
    let check = match low & RCO_UDP {
        0 => RCO_TCP_CHECK,
        _ => RCO_UDP_CHECK,
    };
    let frame = packet.data_mut();
    // A checksum of the Ethernet header ends with it (`skb_postpull_rcsum`).
    if !nopartial && start < Ethernet::LEN {
        return start + check + 2 <= frame.len();
    }
    // A device completes a checksum of 0 to 0xffff (`skb_checksum_help`).
    let finish = match nopartial {
        true => Sum::finish,
        false => Sum::finish_udp,
    };
    let done = checksum::complete(frame, start, check, finish);
    if done && !nopartial {
        packet.flags.insert(Flags::CSUM_GOOD);
    }
    done
}

/// Returns the EtherType that the generic protocol extension gives the payload. Returns `None` for packets that must be
/// dropped (`vxlan_parse_gpe_proto`).
fn next_protocol(flags: u32) -> Option<u16> {
    if flags & (GPE_NEXT | GPE_VERSION | GPE_OAM) != GPE_NEXT {
        return None;
    }
    let mut all = NEXT_PROTOCOLS.iter();
    let (_, protocol) = all.find(|(next, _)| flags & 0xff == u32::from(*next))?;
    Some(*protocol)
}

/// Processes the inner packet of a device without link-layer address.
fn bare(
    cx: &mut Cx<'_>,
    vxlan: &Vxlan,
    device: &Arc<Device>,
    outer: &Outer,
    (vni, protocol): (u32, u16),
    mut packet: Packet,
) -> Result<(), (DropReason, Packet)> {
    let octets = packet.len();
    packet.protocol = protocol;
    let done = deliver_packet(cx, device, &vxlan.errors, outer.tos, (protocol, 0), packet);
    vxlan.count(vni, counted(&done, octets), cx.guard);
    done
}

fn counted(done: &Result<(), (DropReason, Packet)>, octets: usize) -> Count {
    match done {
        Ok(()) => Count::Received(octets),
        Err((DropReason::DEV_READY, _)) => Count::ReceiveDropped,
        Err(_) => Count::ReceiveError,
    }
}

/// Processes the inner frame.
fn frame(
    cx: &mut Cx<'_>,
    vxlan: &Arc<Vxlan>,
    device: &Arc<Device>,
    ifindex: u32,
    outer: &Outer,
    vni: u32,
    packet: Packet,
) -> Result<(), (DropReason, Packet)> {
    let Some(eth) = Ethernet::new(packet.data()) else {
        return Err((DropReason::PKT_TOO_SMALL, packet));
    };
    let from = eth.src();
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
    let octets = packet.len().saturating_sub(Ethernet::LEN);
    let done = deliver(cx, device, &vxlan.errors, outer.tos, packet);
    vxlan.count(vni, counted(&done, octets), cx.guard);
    done
}

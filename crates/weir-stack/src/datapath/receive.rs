// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive path, from a device's frames to layer 3 (`eth_type_trans`,
//! `__netif_receive_skb_core`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::{BROADCAST, is_multicast, is_vlan};
use weir_packet::{Batch, DropReason, Packet, PacketType, VlanTag};

use crate::cpu::Cx;
use crate::device::{Device, Direction, Taps};
use crate::drops::Place;
use crate::layers::{self, PROTOCOLS};
use crate::stages::Stage;
use crate::steer::{self, Point};
use crate::trace::Step;

use super::offload::is_tcp;

/// Receives frames from outside the stack, which begin with an Ethernet header whatever the device is.
pub fn receive_frames(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    if device.is_bare() {
        let mut short = 0_u64;
        for (n, packet) in batch.iter_mut().enumerate() {
            short |= u64::from(!crate::raw::strip(packet)) << n;
        }
        if short != 0 {
            let part = batch.split_off(short);
            let stats = device.stats(cx.state.id);
            stats.rx_errors.fetch_add(part.len() as u64, Relaxed);
            cx.drop_batch(device, Place::Receive, DropReason::PKT_TOO_SMALL, part);
        }
    }
    receive(cx, device, batch);
}

/// Receives frames that begin with an Ethernet header, or with their network header if the device is bare, all from
/// one device. The protocol of the latter is set.
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    cx.state.stages.start();
    if !device.is_up() {
        return cx.drop_batch(device, Place::Receive, DropReason::DEV_READY, batch);
    }
    let (count, full) = (batch.len(), batch.is_full());
    let arrival = (cx.now, device.key.0, device.ifindex());
    let address = word_of(&device.address());
    let (mut octets, mut whole) = (0, true);
    let mut seen = Seen::default();
    if device.is_bare() {
        for packet in batch.iter_mut() {
            octets += packet.len() as u64;
            packet.set_received(arrival, (PacketType::Host, packet.protocol), 0);
            seen.segments += usize::from(is_tcp(packet.protocol, packet.data()));
        }
    } else {
        for packet in batch.iter_mut() {
            octets += packet.len() as u64;
            whole &= classify_frame(packet, arrival, address, &mut seen);
        }
    }
    let stats = device.stats(cx.state.id);
    if !device.link.counts_itself() {
        stats.rx_packets.fetch_add(count as u64, Relaxed);
        stats.rx_bytes.fetch_add(octets, Relaxed);
        if seen.multicast > 0 {
            stats.multicast.fetch_add(seen.multicast, Relaxed);
        }
    }
    if !whole {
        let short = batch.iter().enumerate();
        let short = short.fold(0, |all, (n, packet)| all | u64::from(is_short(packet)) << n);
        let part = batch.split_off(short);
        stats.rx_errors.fetch_add(part.len() as u64, Relaxed);
        cx.drop_batch(device, Place::Receive, DropReason::PKT_TOO_SMALL, part);
    }
    super::offload::merge(cx, device, &mut batch, seen.segments);
    if device.steering.is_on() {
        // The packets are counted behind the steering.
        cx.state.stages.end(Stage::Receive, 0);
        let before = batch.len();
        batch = steer::steer(cx, device, Point::Arrived, batch);
        if batch.is_empty() {
            return;
        }
        // A port that had so many frames has more.
        let more = full && batch.len() < before;
        if more || cx.state.holds() {
            return cx.hold(device, batch, more);
        }
    } else if cx.state.holds() {
        return cx.hold(device, batch, false);
    }
    steered(cx, device, batch);
}

/// Continues behind the steering, on the CPU that works on the packets.
#[inline]
pub fn steered(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    let count = batch.len();
    let processed = cx.stack.received.get(cx.state.id);
    processed.store(processed.load(Relaxed) + count as u64, Relaxed);
    let trace = &cx.stack.trace;
    trace.steps(device, cx.now, batch.iter_mut(), Step::Received);
    observe(cx, device, Direction::Rx, &batch);
    cx.state.stages.end(Stage::Receive, count);
    receive_classified(cx, device, batch);
}

/// Passes frames to the observers of the device and of all devices.
pub(super) fn observe(cx: &Cx<'_>, device: &Device, direction: Direction, frames: &[Packet]) {
    let (own, all) = (device.observers(cx.guard), cx.stack.observers(cx.guard));
    if own.is_empty() && all.is_empty() {
        return;
    }
    let taps = Taps {
        device,
        direction,
        time: cx.now,
        packets: frames,
        trace: &cx.stack.trace,
        cpu: cx.state.id,
        guard: cx.guard,
    };
    own.iter().chain(all).for_each(|one| one.frames(&taps));
}

/// Returns an Ethernet address as a number, which is faster to compare.
#[inline(always)]
fn word_of([a, b, c, d, e, f]: &[u8; 6]) -> u64 {
    u64::from_ne_bytes([*a, *b, *c, *d, *e, *f, 0, 0])
}

/// What the receive path sees of the frames of a batch.
#[derive(Default)]
struct Seen {
    /// Frames to group addresses.
    multicast: u64,
    /// Frames that may be TCP segments.
    segments: usize,
}

/// Sets the packet type, the protocol, the offsets and the place of arrival. Returns `false` for a frame
/// without a complete header.
#[inline(always)]
fn classify_frame(
    packet: &mut Packet,
    arrival: (u64, u32, u32),
    address: u64,
    seen: &mut Seen,
) -> bool {
    let frame = packet.data();
    let Some(&[d0, d1, d2, d3, d4, d5, _, _, _, _, _, _, t0, t1]) = frame.first_chunk() else {
        packet.set_departure(None);
        (packet.time, packet.dev, packet.iif) = arrival;
        return false;
    };
    let destination = [d0, d1, d2, d3, d4, d5];
    let protocol = u16::from_be_bytes([t0, t1]);
    let ty = if word_of(&destination) == address {
        PacketType::Host
    } else {
        not_to_us(destination, &mut seen.multicast)
    };
    if !is_vlan(protocol) {
        seen.segments += usize::from(is_tcp(protocol, frame));
        packet.set_received(arrival, (ty, protocol), Ethernet::LEN);
        return true;
    }
    packet.set_received(arrival, (ty, protocol), Ethernet::LEN);
    let whole = untag_frame(packet);
    seen.segments += usize::from(whole && is_tcp(packet.protocol, packet.data()));
    whole
}

/// Returns the packet type of a frame to another address than the device's, and counts frames to groups.
// As a call it leaves the registers to the loop over the frames, most of which go to the device.
#[inline(never)]
fn not_to_us(destination: [u8; 6], multicast: &mut u64) -> PacketType {
    if !is_multicast(destination) {
        return PacketType::OtherHost;
    }
    *multicast += 1;
    match destination {
        BROADCAST => PacketType::Broadcast,
        _ => PacketType::Multicast,
    }
}

/// Returns whether [`classify_frame`] has found a frame without a complete header.
fn is_short(packet: &Packet) -> bool {
    packet.len() < Ethernet::LEN || is_vlan(packet.protocol) && packet.vlan().is_none()
}

/// Moves the outer VLAN tag into the metadata (`skb_vlan_untag`), unless there is one already. Returns `false`
/// if the tag is truncated.
#[cold]
fn untag_frame(packet: &mut Packet) -> bool {
    if packet.vlan().is_some() {
        return true;
    }
    let Some(inner) = weir_packet::edit::untag(packet) else {
        return false;
    };
    packet.protocol = inner;
    packet.set_network(Ethernet::LEN);
    true
}

/// Continues from the ingress filters on. Frames redirected to a device's ingress enter here.
#[inline]
pub fn receive_classified(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    super::filter::ingress(cx, device, &mut batch);
    if batch.is_empty() {
        return;
    }
    deliver(cx, device, batch);
}

/// Continues after the ingress filters, with frames that come back from a detour through an ifb.
pub fn resume(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    deliver(cx, device, batch);
}

/// Returns the protocol of a batch if all of its packets go there as they are: untagged and without
/// tunnel metadata. Most batches do.
#[inline]
fn alone<'t>(types: &'t [layers::PacketType], batch: &Batch) -> Option<&'t layers::PacketType> {
    let protocol = batch.first()?.protocol;
    let plain = |packet: &Packet| {
        packet.protocol == protocol && packet.vlan().is_none() && packet.tunnel().is_none()
    };
    if !batch.iter().all(plain) {
        return None;
    }
    types.iter().find(|ty| ty.protocol == protocol)
}

/// Passes frames to VLAN devices, and the others to the device's handler or, by protocol, to layer 3.
#[inline]
fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    let (types, handler) = (&*cx.stack.packet_types, device.rx_handler(cx.guard));
    if handler.is_none()
        && let Some(ty) = alone(types, &batch)
    {
        return (ty.receive)(cx, device, batch);
    }
    let batch = untag(cx, device, batch);
    if batch.is_empty() {
        return;
    }
    if let Some(handler) = handler {
        let taken = handler.long_packets();
        return super::offload::split_all(cx, device, batch, taken, |cx, device, batch| {
            handler.receive(cx, device, batch);
        });
    }
    unhandled(cx, device, batch);
}

/// Continues behind the handler of received frames: passes frames by protocol to layer 3.
pub fn unhandled(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    let types = &*cx.stack.packet_types;
    let mut parts: [Batch; PROTOCOLS] = std::array::from_fn(|_| Batch::new());
    // Packets of one protocol follow each other.
    let (mut at, mut protocol) = (PROTOCOLS, 0);
    for mut packet in batch {
        match packet.vlan() {
            // Priority-tagged frames belong to the device itself.
            Some(tag) if tag.vid() == 0 => packet.set_vlan(None),
            Some(_) => packet.set_pkt_type(PacketType::OtherHost),
            None => {}
        }
        // Routing replaces the tunnel metadata.
        if packet.tunnel().is_some() {
            packet.set_tunnel(None);
        }
        if packet.protocol != protocol || at == PROTOCOLS {
            protocol = packet.protocol;
            let found = types.iter().position(|ty| ty.protocol == protocol);
            at = found.unwrap_or(PROTOCOLS);
        }
        let Some(to) = parts.get_mut(at) else {
            unknown(cx, device, packet);
            continue;
        };
        // There is room: the part is no larger than the batch it is taken from.
        let _ = to.push(packet);
    }
    for (part, ty) in parts.iter_mut().zip(types) {
        if !part.is_empty() {
            (ty.receive)(cx, device, part.take());
        }
    }
}

/// Ends a frame of a protocol that nothing receives. A packet socket may have taken it; otherwise the device counts it
/// (the end of `__netif_receive_skb_core`).
fn unknown(cx: &mut Cx<'_>, device: &Arc<Device>, packet: Packet) {
    let (ns, protocol) = (device.namespace(cx.guard).id, packet.protocol);
    let observers = device.observers(cx.guard).iter();
    let mut observers = observers.chain(cx.stack.observers(cx.guard));
    if observers.any(|observer| observer.receives(ns, protocol)) {
        return cx.consume(packet);
    }
    device.stats(cx.state.id).rx_dropped.fetch_add(1, Relaxed);
    cx.drop(device, Place::Receive, DropReason::UNHANDLED_PROTO, packet);
}

/// Passes the frames of VLANs that have a device to it, and returns the others, tags untouched.
fn untag(cx: &mut Cx<'_>, device: &Device, batch: Batch) -> Batch {
    if batch.iter().all(|packet| packet.vlan().is_none()) {
        return batch;
    }
    let mut tagged = Tagged::default();
    let mut rest = Batch::new();
    for packet in batch {
        let tag = packet.vlan();
        let upper = tag.and_then(|tag| Some((device.vlan(tag.proto, tag.vid(), cx.guard)?, tag)));
        match upper {
            Some((upper, tag)) => tagged.push(cx, upper, tag, packet),
            None => {
                // There is room: the part is no larger than the batch it is taken from.
                let _ = rest.push(packet);
            }
        }
    }
    tagged.flush(cx);
    rest
}

/// Collects consecutive tagged frames of one VLAN device and passes them up together
/// (`vlan_do_receive`).
#[derive(Default)]
struct Tagged<'g> {
    upper: Option<&'g Arc<Device>>,
    batch: Batch,
}

impl<'g> Tagged<'g> {
    fn push(&mut self, cx: &mut Cx<'_>, upper: &'g Arc<Device>, tag: VlanTag, mut packet: Packet) {
        packet.set_vlan(None);
        packet.priority = upper.link.ingress_priority(tag.priority());
        if self.upper.is_some_and(|before| !Arc::ptr_eq(before, upper)) {
            self.flush(cx);
        }
        self.upper = Some(upper);
        // There is room: the part is no larger than the batch it is taken from.
        let _ = self.batch.push(packet);
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some(upper) = self.upper.take() {
            cx.receive_later(upper, self.batch.take());
        }
    }
}

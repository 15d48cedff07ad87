// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive path, from a device's frames to layer 3 (`eth_type_trans`,
//! `__netif_receive_skb_core`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::{BROADCAST, is_multicast, is_vlan};
use weir_packet::{Arrival, Batch, DropReason, Packet, PacketType, VlanTag};
use weir_tc::Received;

use crate::cpu::Cx;
use crate::device::{Device, Direction, Taps};
use crate::drops::Place;
use crate::layers::PROTOCOLS;
use crate::stages::Stage;
use crate::steer::{self, Point};
use crate::trace::Step;

use super::offload::{TCP, is_tcp, tcp_at};

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
    receive_all(cx, device, &mut batch);
}

/// Receives frames that begin with an Ethernet header, or with their network header if the device is bare, all from
/// one device. The protocol of the latter is set.
pub fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    receive_all(cx, device, &mut batch);
}

/// Does the same and leaves the batch empty.
pub fn receive_all(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    cx.state.stages.start();
    if !device.is_up() {
        return cx.drop_all(device, Place::Receive, DropReason::DEV_READY, batch);
    }
    let (count, full) = (batch.len(), batch.is_full());
    let arrival = Arrival::new(cx.now, device.key.0, device.ifindex());
    let address = word_of(&device.address());
    let seen = if device.is_bare() {
        classify_bare(batch, arrival)
    } else {
        let plain = classify_plain(batch, arrival, address);
        plain.unwrap_or_else(|| classify_each(batch, arrival, address))
    };
    let stats = device.stats(cx.state.id);
    if !device.link.counts_itself() {
        stats.rx_packets.fetch_add(count as u64, Relaxed);
        stats.rx_bytes.fetch_add(seen.octets, Relaxed);
        if seen.multicast > 0 {
            stats.multicast.fetch_add(seen.multicast, Relaxed);
        }
    }
    if seen.short {
        let short = batch.iter().enumerate();
        let short = short.fold(0, |all, (n, packet)| all | u64::from(is_short(packet)) << n);
        let part = batch.split_off(short);
        stats.rx_errors.fetch_add(part.len() as u64, Relaxed);
        cx.drop_batch(device, Place::Receive, DropReason::PKT_TOO_SMALL, part);
    }
    let merged = super::offload::merge(cx, device, batch, seen.segments);
    if device.steering.is_on() {
        // The packets are counted behind the steering.
        cx.state.stages.end(Stage::Receive, 0);
        let before = batch.len();
        *batch = steer::steer(cx, device, Point::Arrived, batch.take());
        if batch.is_empty() {
            return;
        }
        // A port that had so many frames has more.
        let more = full && batch.len() < before;
        if more || cx.state.holds() {
            return cx.hold(device, batch.take(), more);
        }
    } else if cx.state.holds() {
        return cx.hold(device, batch.take(), false);
    }
    continues(cx, device, batch, seen.received.filter(|_| !merged));
}

/// Continues behind the steering, on the CPU that works on the packets.
pub fn steered(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    continues(cx, device, batch, None);
}

/// Does the same with what is known of the batch.
#[inline]
fn continues(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, received: Option<Received>) {
    let count = batch.len();
    let processed = cx.stack.received.get(cx.state.id);
    processed.store(processed.load(Relaxed) + count as u64, Relaxed);
    let trace = &cx.stack.trace;
    trace.steps(device, cx.now, batch.iter_mut(), Step::Received);
    observe(cx, device, Direction::Rx, batch);
    cx.state.stages.end(Stage::Receive, count);
    let protocol = received.as_ref().and_then(|received| received.protocol);
    let filtered = super::filter::ingress(cx, device, batch, received);
    if !batch.is_empty() {
        deliver(cx, device, batch, protocol.filter(|_| !filtered));
    }
}

/// Passes frames to the observers of the device and of all devices.
pub(super) fn observe(cx: &Cx<'_>, device: &Device, direction: Direction, frames: &[Packet]) {
    let (own, all) = (device.observers(cx.guard), cx.stack.observers(cx.guard));
    if own.is_empty() && all.is_empty() {
        return;
    }
    // What a VRF receives it has sent to itself, and the observers saw that (`PACKET_LOOPBACK`).
    if direction == Direction::Rx && device.is_l3_master() {
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
    /// The sum of their lengths in bytes.
    octets: u64,
    /// A frame has no complete header.
    short: bool,
    /// What the filters need not look at again.
    received: Option<Received>,
}

/// The bytes of a frame that [`classify_plain`] reads, which leaves shorter frames to others.
const PLAIN: usize = 32;

/// Classifies frames to the device's address, without tags and with nothing from before, as those of most batches are.
/// Returns `None` at another frame; all of them are then left to [`classify_frame`].
// As a call it has all registers to itself.
#[inline(never)]
fn classify_plain(batch: &mut Batch, arrival: Arrival, address: u64) -> Option<Seen> {
    let (mut octets, mut shortest, mut segments) = (0, u32::MAX, 0);
    let first = batch.first()?.data().get(12..)?.first_chunk()?;
    let mut ty = u16::from_be_bytes(*first);
    let (mut at, mut differ) = (tcp_at(ty)?, false);
    let first = ty;
    for packet in batch.iter_mut() {
        let frame = packet.unladen()?;
        let head: &[u8; PLAIN] = frame.first_chunk()?;
        let &[w0, w1, w2, w3, w4, w5, w6, w7, _, _, _, _, t0, t1, ..] = head;
        // One load has the address and two bytes more.
        let word = u64::from_ne_bytes([w0, w1, w2, w3, w4, w5, w6, w7]);
        if (word ^ address) & word_of(&BROADCAST) != 0 {
            return None;
        }
        let protocol = u16::from_be_bytes([t0, t1]);
        if protocol != ty {
            (ty, at, differ) = (protocol, tcp_at(protocol)?, true);
        }
        segments += usize::from(head[at % PLAIN] == TCP);
        octets += frame.len() as u64;
        shortest = shortest.min(frame.len() as u32);
        packet.set_received_unladen(arrival, protocol, Ethernet::LEN as u16);
    }
    Some(Seen {
        segments,
        octets,
        received: Some(Received {
            protocol: (!differ).then_some(first),
            shortest,
            bytes: octets,
        }),
        ..Seen::default()
    })
}

/// Classifies packets of a device without a link-layer header.
fn classify_bare(batch: &mut Batch, arrival: Arrival) -> Seen {
    let mut seen = Seen::default();
    for packet in batch.iter_mut() {
        seen.octets += packet.len() as u64;
        packet.set_received(arrival, (PacketType::Host, packet.protocol), 0);
        seen.segments += usize::from(is_tcp(packet.protocol, packet.data()));
    }
    seen
}

/// Classifies frames one by one.
fn classify_each(batch: &mut Batch, arrival: Arrival, address: u64) -> Seen {
    let mut seen = Seen::default();
    for packet in batch.iter_mut() {
        seen.octets += packet.len() as u64;
        seen.short |= !classify_frame(packet, arrival, address, &mut seen);
    }
    seen
}

/// Sets the packet type, the protocol, the offsets and the place of arrival. Returns `false` for a frame
/// without a complete header.
#[inline(always)]
fn classify_frame(packet: &mut Packet, arrival: Arrival, address: u64, seen: &mut Seen) -> bool {
    let frame = packet.data();
    let Some(&[d0, d1, d2, d3, d4, d5, _, _, _, _, _, _, t0, t1]) = frame.first_chunk() else {
        packet.set_departure(None);
        packet.set_arrival(arrival);
        return false;
    };
    let destination = [d0, d1, d2, d3, d4, d5];
    let protocol = u16::from_be_bytes([t0, t1]);
    let ty = if word_of(&destination) == address {
        PacketType::Host
    } else {
        let ty = not_to_us(destination);
        seen.multicast += u64::from(ty != PacketType::OtherHost);
        ty
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

/// Returns the packet type of a frame to another address than the device's.
// As a call it leaves the registers to the loop over the frames, most of which go to the device.
#[inline(never)]
fn not_to_us(destination: [u8; 6]) -> PacketType {
    match destination {
        BROADCAST => PacketType::Broadcast,
        group if is_multicast(group) => PacketType::Multicast,
        _ => PacketType::OtherHost,
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
pub fn receive_classified(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    super::filter::ingress(cx, device, batch, None);
    if !batch.is_empty() {
        deliver(cx, device, batch, None);
    }
}

/// Continues after the ingress filters, with frames that come back from a detour through an ifb.
pub fn resume(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    deliver(cx, device, batch, None);
}

/// Returns the protocol of a batch if all of its packets go there as they are: untagged and without
/// tunnel metadata. Most batches do.
#[inline]
fn alone(batch: &Batch) -> Option<u16> {
    let protocol = batch.first()?.protocol;
    let plain = |packet: &Packet| {
        packet.protocol == protocol && packet.vlan().is_none() && packet.tunnel().is_none()
    };
    batch.iter().all(plain).then_some(protocol)
}

/// Passes frames to VLAN devices, and the others to the device's handler or, by protocol, to layer 3. With the frames
/// comes the protocol of all of them, if they are known to be untagged, without tunnel metadata and of one protocol.
#[inline]
fn deliver(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, protocol: Option<u16>) {
    let (types, handler) = (&*cx.stack.packet_types, device.rx_handler(cx.guard));
    if handler.is_none()
        && let Some(protocol) = protocol.or_else(|| alone(batch))
        && let Some(ty) = types.iter().find(|ty| ty.protocol == protocol)
    {
        return (ty.receive)(cx, device, batch);
    }
    untag(cx, device, batch);
    if batch.is_empty() {
        return;
    }
    if let Some(handler) = handler {
        let taken = handler.long_packets();
        return super::offload::split_all(cx, device, batch.take(), taken, |cx, device, batch| {
            handler.receive(cx, device, batch);
        });
    }
    unhandled(cx, device, batch);
}

/// Continues behind the handler of received frames: passes frames by protocol to layer 3.
pub fn unhandled(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    let types = &*cx.stack.packet_types;
    // A bit for each type that a packet has, and one for each packet that has none.
    let (mut seen, mut others) = (0_u64, 0_u64);
    // Packets of one protocol follow each other.
    let (mut at, mut protocol) = (PROTOCOLS, 0);
    for (n, packet) in batch.iter_mut().enumerate() {
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
        match at {
            PROTOCOLS => others |= 1 << n,
            at => seen |= 1 << at,
        }
    }
    if others != 0 {
        for packet in batch.split_off(others) {
            unknown(cx, device, packet);
        }
    }
    for (at, ty) in types.iter().enumerate() {
        if seen >> at & 1 == 0 {
            continue;
        }
        seen ^= 1 << at;
        if seen == 0 {
            return (ty.receive)(cx, device, batch);
        }
        let mut part = Batch::new();
        batch.split(
            |packet| packet.protocol != ty.protocol,
            |packet| {
                // There is room: the part is no larger than the batch it is taken from.
                let _ = part.push(packet);
            },
        );
        (ty.receive)(cx, device, &mut part);
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

/// Passes the frames of VLANs that have a device to it, and leaves the others in the batch, tags untouched.
fn untag(cx: &mut Cx<'_>, device: &Device, batch: &mut Batch) {
    if batch.iter().all(|packet| packet.vlan().is_none()) {
        return;
    }
    let mut tagged = Tagged::default();
    let mut rest = Batch::new();
    for packet in batch.drain() {
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
    *batch = rest;
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

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use weir_packet::{Pool, PoolConfig};

    use super::*;

    const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// Frames to the device, and some that are not plain.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let protocols = select(vec![0x0800_u16, 0x0800, 0x0800, 0x86dd, 0x0806]);
        let other = prop_oneof![99 => Just(0), 1 => 1..4_u8];
        (protocols, other, select(vec![6_u8, 17]), 20..80_usize).prop_map(
            |(protocol, other, above, len)| {
                let mut frame = [&HERE[..], &[2, 0, 0, 0, 0, 2]].concat();
                match other {
                    1 => frame[5] = 7,
                    2 => frame[..6].copy_from_slice(&BROADCAST),
                    3 => frame.extend([0x81, 0, 0, 5]),
                    _ => {}
                }
                frame.extend(protocol.to_be_bytes());
                frame.resize(len, above);
                frame
            },
        )
    }

    proptest! {
        #[test]
        fn plain_frames_are_classified_as_others(frames in vec(frame(), 1..=64)) {
            let pool = Pool::new(PoolConfig::default());
            let batch = || {
                let mut batch = Batch::new();
                let packets = frames.iter().map(|frame| pool.packet(frame).unwrap());
                packets.for_each(|packet| batch.push(packet).unwrap());
                batch
            };
            let (mut plain, mut each) = (batch(), batch());
            let (arrival, address) = (Arrival::new(9, 5, 3), word_of(&HERE));
            let one = classify_each(&mut each, arrival, address);
            let Some(all) = classify_plain(&mut plain, arrival, address) else {
                // What has been written to the first ones changes nothing.
                let seen = classify_each(&mut plain, arrival, address);
                prop_assert_eq!((seen.segments, seen.multicast), (one.segments, one.multicast));
                return Ok(());
            };
            prop_assert_eq!((all.segments, all.octets), (one.segments, one.octets));
            prop_assert_eq!((all.multicast, one.multicast, one.short), (0, 0, false));
            let received = all.received.unwrap();
            prop_assert_eq!(received.bytes, plain.bytes());
            let of = |packet: &Packet| (packet.time, packet.dev, packet.iif, packet.protocol);
            for (a, b) in plain.iter().zip(&each) {
                prop_assert_eq!((of(a), a.altered(Ethernet::LEN)), (of(b), 0));
                prop_assert_eq!(a.pkt_type(), b.pkt_type());
                prop_assert!(received.shortest as usize <= a.len());
                prop_assert!(received.protocol.is_none_or(|protocol| protocol == a.protocol));
            }
        }
    }
}

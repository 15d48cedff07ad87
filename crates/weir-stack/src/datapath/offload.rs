// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long packets: merged from the segments that a device receives (GRO), and split before a device that does
//! not take them (GSO).
//!
//! [`merge`] works on a batch, which stands for a NAPI poll, after the counters and before the observers, as
//! `napi_gro_receive` and `napi_gro_flush` do. It works only on devices for which a request asked for it
//! (`ethtool -K DEV gro on`), whatever the feature's default: a run shows each packet, and a port that takes
//! only frames of the wire does not pay for merging and splitting.
//!
//! [`split`] mirrors `validate_xmit_skb`. Unlike Linux, it runs before the qdisc, and also in front of every qdisc
//! but plain queues: all others see packets of the wire, and their times and counters are exact. Plain queues
//! count a long packet as the packets of the wire that it stands for (`qdisc_pkt_len_init`).

use std::sync::Arc;

use weir_packet::offload::segment_packet;
use weir_packet::{Batch, DropReason, Packet, SegmentKind, gro};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::features::bit;

/// Merges received frames.
#[inline]
pub(super) fn merge(cx: &Cx<'_>, device: &Device, batch: Batch) -> Batch {
    if device.features.active() & bit::GRO == 0 || batch.len() < 2 {
        return batch;
    }
    merge_now(cx, device, batch)
}

fn merge_now(cx: &Cx<'_>, device: &Device, batch: Batch) -> Batch {
    // The handler takes frames of the wire.
    if !device.features.gro_asked() || !device.link.polls() || device.rx_handler(cx.guard).is_some()
    {
        return batch;
    }
    let limits = gro::Limits {
        max_size: device.offload().gro_max_size as usize,
        udp: device.features.active() & bit::GRO_UDP_FWD != 0,
    };
    let mut merged = Batch::new();
    let batch = {
        let mut cache = cx.state.cache.borrow_mut();
        gro::merge(batch, limits, &mut cache, |packet| {
            // There is room: no more packets are merged than there were.
            let _ = merged.push(packet);
        })
    };
    if !merged.is_empty() {
        cx.consume_batch(merged);
    }
    batch
}

/// Returns a test for packets that must be split before the device (`netif_skb_features`,
/// `netif_needs_gso`).
fn must_be_split(device: &Device, guard: &Guard) -> impl Fn(&Packet) -> bool {
    let (active, in_vlan) = (device.features.active(), device.features.vlan());
    let limits = device.offload();
    let none_may_pass = device.has_wire()
        || !device.link.takes_long_packets()
        || !device.tc.takes_long_packets(guard);
    move |packet| {
        let Some(segments) = packet.segments() else {
            return false;
        };
        let features = match packet.vlan() {
            Some(_) => active & in_vlan,
            None => active,
        };
        let needed = match (segments.kind, segments.fixed_id) {
            (SegmentKind::TcpV4, false) => bit::TSO,
            (SegmentKind::TcpV4, true) => bit::TSO | bit::TSO_MANGLEID,
            (SegmentKind::TcpV6, _) => bit::TSO6,
            (SegmentKind::Udp, _) => bit::GSO_UDP_L4,
        };
        none_may_pass
            || features & needed != needed
            || u32::from(segments.count) > limits.gso_max_segs
            || packet.len() as u64 >= u64::from(limits.gso_max_size)
    }
}

/// Splits the packets of a batch that `device` does not take as they are, and passes all packets on in order.
/// Bit n of `chosen` belongs to packet n and to its segments.
pub(super) fn split(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: Batch,
    chosen: u64,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, Batch, u64),
) {
    if !batch.iter().any(|packet| packet.segments().is_some()) {
        return next(cx, device, batch, chosen);
    }
    let must = must_be_split(device, cx.guard);
    split_those(cx, device, batch, chosen, must, next);
}

/// Does the same for all long packets, before a receiver of frames of the wire.
pub(super) fn split_all(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: Batch,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, Batch),
) {
    let long = |packet: &Packet| packet.segments().is_some();
    if !batch.iter().any(long) {
        return next(cx, device, batch);
    }
    let next = |cx: &mut Cx<'_>, device: &Arc<Device>, batch, _| next(cx, device, batch);
    split_those(cx, device, batch, 0, long, next);
}

fn split_those(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    mut batch: Batch,
    chosen: u64,
    must: impl Fn(&Packet) -> bool,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, Batch, u64),
) {
    let (mut out, mut bits) = (Batch::new(), 0_u64);
    let mut push = |cx: &mut Cx<'_>, packet: Packet, bit: u64| {
        if out.is_full() {
            next(cx, device, out.take(), std::mem::take(&mut bits));
        }
        bits |= bit << out.len();
        // There is room: a full batch has just been passed on.
        let _ = out.push(packet);
        if out.is_full() {
            next(cx, device, out.take(), std::mem::take(&mut bits));
        }
    };
    let mut segments = std::mem::take(&mut cx.state.segments);
    for (n, packet) in batch.drain().enumerate() {
        let bit = chosen >> n & 1;
        if !must(&packet) {
            push(cx, packet, bit);
            continue;
        }
        let whole = {
            let mut cache = cx.state.cache.borrow_mut();
            segment_packet(&packet, &mut cache, |segment| segments.push(segment))
        };
        if !whole {
            segments.clear();
            cx.drop(device, Place::Transmit, DropReason::SKB_GSO_SEG, packet);
            continue;
        }
        for mut segment in segments.drain(..) {
            cx.stack.trace.copied(&mut segment);
            push(cx, segment, bit);
        }
        cx.consume(packet);
    }
    cx.state.segments = segments;
    if !out.is_empty() {
        next(cx, device, out, bits);
    }
}

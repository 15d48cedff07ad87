// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long packets: merged from the segments that a device receives (GRO), and split before a device that does
//! not take them (GSO).
//!
//! [`merge`] works on a batch, which stands for a NAPI poll, after the counters and before the observers, as
//! `napi_gro_receive` and `napi_gro_flush` do. Under virtual time it works only on devices for which a request asked
//! for it (`ethtool -K DEV gro on`), whatever the feature's default: a run shows each packet.
//!
//! [`split`] mirrors `validate_xmit_skb`. Unlike Linux, it runs before the qdisc. A qdisc gets long packets only in
//! front of a device that takes them. It counts a long packet as the packets of the wire that it stands for
//! (`qdisc_pkt_len_init`).

use std::sync::Arc;

use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6, is_vlan};
use weir_packet::offload::segment_packet;

use weir_packet::{Batch, DropReason, LongPackets, Packet, SegmentKind, gro};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::features::bit;

/// Merges received frames, of which `segments` may be TCP segments ([`is_tcp`]). Returns `false` if there is
/// nothing to be merged.
#[inline]
pub(super) fn merge(cx: &Cx<'_>, device: &Device, batch: &mut Batch, segments: usize) -> bool {
    let active = device.features.active();
    if active & bit::GRO == 0 || batch.len() < 2 {
        return false;
    }
    // A list of datagrams (`rx-gro-list`) is one packet here too.
    let udp = active & (bit::GRO_UDP_FWD | bit::GRO_FRAGLIST) != 0;
    // Batches without segments are the common case where nothing is to be gained.
    (udp || segments >= 2) && merge_now(cx, device, batch, udp)
}

fn merge_now(cx: &Cx<'_>, device: &Device, batch: &mut Batch, udp: bool) -> bool {
    if cx.stack.config.virtual_time && !device.features.gro_asked() || !device.link.polls() {
        return false;
    }
    let handler = device.rx_handler(cx.guard);
    if handler.is_some_and(|handler| handler.long_packets() == LongPackets::NONE) {
        return false;
    }
    let limits = gro::Limits {
        max_size: device.offload().gro_max_size as usize,
        udp,
    };
    let mut merged = Batch::new();
    *batch = {
        let mut cache = cx.state.cache.borrow_mut();
        gro::merge(batch.take(), limits, &mut cache, |packet| {
            // There is room: no more packets are merged than there were.
            let _ = merged.push(packet);
        })
    };
    if !merged.is_empty() {
        cx.consume_batch(merged);
    }
    true
}

/// The protocol number of TCP.
pub(super) const TCP: u8 = 6;

/// Returns the offset in a received frame of the byte that equals [`TCP`] if the frame may be a TCP segment; `None` if
/// another tag follows.
#[inline(always)]
pub(super) fn tcp_at(protocol: u16) -> Option<usize> {
    match protocol {
        ETH_P_IP => Some(Ethernet::LEN + 9),
        ETH_P_IPV6 => Some(Ethernet::LEN + 6),
        protocol if is_vlan(protocol) => None,
        // The first byte of the EtherType, which has this value for no protocol in use.
        _ => Some(Ethernet::LEN - 2),
    }
}

/// Returns whether a received frame of a protocol may be a TCP segment, by its first protocol number alone.
#[inline(always)]
pub(super) fn is_tcp(protocol: u16, frame: &[u8]) -> bool {
    tcp_at(protocol).is_none_or(|at| frame.get(at) == Some(&TCP))
}

/// Returns a test for packets that must be split before the device (`netif_skb_features`,
/// `netif_needs_gso`).
fn must_be_split(device: &Device, guard: &Guard) -> impl Fn(&Packet) -> bool {
    let (active, in_vlan) = (device.features.active(), device.features.vlan());
    let limits = device.offload();
    let wire = device.wire(guard).map(|wire| wire.long_packets());
    let kind_takes = device.link.takes_long_packets();
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
        !wire.map_or(kind_takes, |wire| wire.takes(packet.len(), segments))
            || features & needed != needed
            || u32::from(segments.count) > limits.gso_max_segs
            || packet.len() as u64 >= u64::from(limits.gso_max_size)
    }
}

/// Splits the packets of a batch that `device` does not take as they are, and passes all packets on in order to `next`,
/// which takes them out of the batch it gets. Bit n of `chosen` belongs to packet n and to its segments.
#[inline]
pub(super) fn split(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: &mut Batch,
    chosen: u64,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, &mut Batch, u64),
) {
    if !Packet::any_is_long(batch) {
        return next(cx, device, batch, chosen);
    }
    let must = must_be_split(device, cx.guard);
    split_those(cx, device, batch, chosen, must, next);
}

/// Does the same for the long packets that a receiver of frames does not take.
pub fn split_all(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    mut batch: Batch,
    taken: LongPackets,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, Batch),
) {
    let long = |packet: &Packet| {
        let segments = packet.segments();
        segments.is_some_and(|segments| !taken.takes(packet.len(), segments))
    };
    if !batch.iter().any(long) {
        return next(cx, device, batch);
    }
    let next = |cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, _| {
        next(cx, device, batch.take());
    };
    split_those(cx, device, &mut batch, 0, long, next);
}

fn split_those(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: &mut Batch,
    chosen: u64,
    must: impl Fn(&Packet) -> bool,
    next: impl Fn(&mut Cx<'_>, &Arc<Device>, &mut Batch, u64),
) {
    let (mut out, mut bits) = (Batch::new(), 0_u64);
    let mut push = |cx: &mut Cx<'_>, packet: Packet, bit: u64| {
        if out.is_full() {
            next(cx, device, &mut out, std::mem::take(&mut bits));
        }
        bits |= bit << out.len();
        // There is room: a full batch has just been passed on.
        let _ = out.push(packet);
        if out.is_full() {
            next(cx, device, &mut out, std::mem::take(&mut bits));
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
        next(cx, device, &mut out, bits);
    }
}

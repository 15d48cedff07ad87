// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Early drop: runs the leading filters of an ingress hook on received frames before packets are
//! made of them, as far as these filters do nothing but drop.
//!
//! A frame is dropped early if the first filter that matches it, in chain 0, is one of a leading
//! `flower` or `matchall` instance, and its only action is an unconditional drop. Counters of the
//! filter, its action and the qdisc change as they do for a packet. All other frames are left alone:
//! they become packets, and the hook counts and classifies them from the start.
//!
//! A frame stands for the packet that `eth_type_trans` and `skb_vlan_untag` make of it. Frames that
//! are too short for that are left alone.

use weir_packet::batch::BATCH;
use weir_packet::dissect::dissect_network;
use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::protocol;
use weir_packet::{FlowKeys, Packet, Used, VlanTag, dissect};
use weir_sync::bits::set_bits;
use weir_sync::rcu::Guard;

use crate::chain::ETH_P_ALL;
use crate::classifier::{Hit, Hits, Lookup};
use crate::device::{DeviceTc, Hook};

const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// The length of a VLAN tag in bytes.
const TAG: usize = 4;

/// Packets, or frames that are not packets yet, from the point of view of a batched lookup.
pub(crate) trait Source {
    /// Dissects number `n` into the groups `used` of `keys`.
    fn keys(&self, n: usize, used: Used, keys: &mut FlowKeys);
}

impl Source for [Packet] {
    #[inline(always)]
    fn keys(&self, n: usize, used: Used, keys: &mut FlowKeys) {
        if let Some(packet) = self.get(n) {
            dissect(packet, used, keys);
        }
    }
}

/// Received frames that are not packets yet, each with a complete Ethernet header and VLAN tag if
/// its bit is in the number of wanted frames.
#[derive(Clone, Copy)]
pub struct Frames<'a>(&'a [&'a [u8]]);

/// The ethertype of a frame's outermost header, the tag that a packet of the frame has in its
/// metadata, and the offset of the frame's network header.
#[inline]
fn outermost(frame: &[u8]) -> Option<(u16, Option<VlanTag>, usize)> {
    let proto = Ethernet::new(frame)?.ethertype();
    if !matches!(proto, ETH_P_8021Q | ETH_P_8021AD) {
        return Some((proto, None, Ethernet::LEN));
    }
    let &[t0, t1, _, _] = frame.get(Ethernet::LEN..)?.first_chunk::<TAG>()?;
    let tci = u16::from_be_bytes([t0, t1]);
    Some((proto, Some(VlanTag { proto, tci }), Ethernet::LEN + TAG))
}

impl Source for Frames<'_> {
    /// Dissects as [`dissect`] does the packet of the frame. Groups from metadata are not set.
    #[inline(always)]
    fn keys(&self, n: usize, used: Used, keys: &mut FlowKeys) {
        let Some(frame) = self.0.get(n) else {
            return;
        };
        let Some((proto, tag, at)) = outermost(frame) else {
            return;
        };
        if used.has(Used::ETH)
            && let Some(header) = Ethernet::new(frame)
        {
            (keys.eth_dst, keys.eth_src) = (header.dst(), header.src());
        }
        let payload = frame.get(at..).unwrap_or_default();
        let proto = match tag {
            None => proto,
            Some(_) => inner(frame, payload),
        };
        dissect_network(payload, proto, tag, used, keys);
    }
}

/// Returns the protocol of a frame behind its VLAN tag (`vlan_set_encap_proto`).
fn inner(frame: &[u8], payload: &[u8]) -> u16 {
    let at = Ethernet::LEN + TAG - 2;
    let ty = frame.get(at..).and_then(|rest| rest.first_chunk());
    protocol(ty.map_or(0, |ty| u16::from_be_bytes(*ty)), payload)
}

/// The circumstances in which frames are received.
#[derive(Clone, Copy)]
pub struct Early<'g> {
    /// The RCU guard that keeps filters and actions alive.
    pub guard: &'g Guard,
    /// The stack CPU.
    pub cpu: usize,
    /// The time of the stack's clock in nanoseconds.
    pub now: u64,
}

impl DeviceTc {
    /// Returns whether chain 0 of the ingress hook begins with an instance that
    /// [`drop_early`](Self::drop_early) can run.
    pub fn may_drop_early(&self, guard: &Guard) -> bool {
        let hook = self.ingress_hook(guard);
        let chain = hook.and_then(|hook| hook.block.find(0, guard));
        let first = chain.and_then(|chain| chain.published(guard).first());
        first.is_some_and(|proto| proto.classifier.takes_frames(guard))
    }

    /// Runs the leading drop filters of the ingress hook on up to 64 frames, which begin at their
    /// Ethernet header. Returns a bit for each frame that was dropped and counted.
    pub fn drop_early(&self, cx: Early<'_>, frames: &[&[u8]], lookup: &mut Lookup) -> u64 {
        self.ingress_hook(cx.guard)
            .map_or(0, |hook| hook.drop_early(cx, frames, lookup))
    }
}

impl Hook {
    fn drop_early(&self, cx: Early<'_>, frames: &[&[u8]], lookup: &mut Lookup) -> u64 {
        let frames = frames.get(..frames.len().min(BATCH)).unwrap_or_default();
        let Some(chain) = self.block.find(0, cx.guard) else {
            return 0;
        };
        let (mut lens, mut types) = ([0_u32; BATCH], [0_u16; BATCH]);
        let mut wanted = 0_u64;
        let slots = lens.iter_mut().zip(&mut types).enumerate();
        for ((n, (len, ty)), frame) in slots.zip(frames) {
            if let Some((proto, _, at)) = outermost(frame) {
                (*ty, *len) = (proto, (frame.len() - at) as u32);
                wanted |= 1 << n;
            }
        }
        let mut dropped = 0;
        let mut hits: Hits<'_> = [None; BATCH];
        for proto in chain.published(cx.guard) {
            let fits = match proto.protocol {
                ETH_P_ALL => wanted,
                protocol => {
                    let fits = set_bits(wanted).filter(|&n| types.get(n) == Some(&protocol));
                    fits.fold(0, |all, n| all | 1 << n)
                }
            };
            if fits == 0 {
                continue;
            }
            let classifier = &proto.classifier;
            let Some(found) =
                classifier.find_frames(Frames(frames), fits, lookup, cx.guard, &mut hits)
            else {
                break;
            };
            let mut counts = Run::default();
            let mut by_this = 0_u64;
            for n in set_bits(found) {
                let Some(hit) = hits.get(n).copied().flatten() else {
                    continue;
                };
                if !counts.of.is_some_and(|of| std::ptr::eq(of.exts, hit.exts)) {
                    counts.count(cx);
                    counts = Run::default();
                    if !hit.exts.only_drops(cx.guard) {
                        continue;
                    }
                    counts.of = Some(hit);
                }
                counts.packets += 1;
                counts.bytes += u64::from(lens[n % BATCH]);
                by_this |= 1 << n;
            }
            counts.count(cx);
            dropped |= by_this;
            wanted &= !found;
            if wanted == 0 {
                break;
            }
        }
        if dropped != 0 {
            let bytes = set_bits(dropped).map(|n| u64::from(lens[n % BATCH])).sum();
            let packets = dropped.count_ones();
            let counters = &self.node.hook_counters;
            counters.count(cx.cpu, packets.into(), bytes);
            counters.count_drops(cx.cpu, packets);
        }
        dropped
    }
}

/// Consecutive frames that the same filter drops.
#[derive(Default)]
struct Run<'g> {
    of: Option<Hit<'g>>,
    packets: u64,
    bytes: u64,
}

impl Run<'_> {
    fn count(&self, cx: Early<'_>) {
        let Some(hit) = self.of else {
            return;
        };
        hit.count(cx.cpu, self.packets);
        if let Some(action) = hit.exts.actions().first() {
            action.common.drop_many(cx, self.packets, self.bytes);
        }
    }
}

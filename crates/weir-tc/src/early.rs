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
use weir_packet::header::ethernet::{ETH_P_IP, is_multicast, is_vlan, protocol};
use weir_packet::header::ipv4::{IP_MF, IP_OFFSET, IPPROTO_TCP, IPPROTO_UDP};
use weir_packet::header::{Ethernet, Ipv4, Tcp};
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

    /// Returns the first bytes of number `n` if they alone say whether it is plain: for a packet, if its metadata
    /// is that of a plain one and its frame is not a jumbo one.
    fn head(&self, n: usize) -> Option<&Plain>;

    /// Returns the headers of number `n` if it is plain.
    #[inline(always)]
    fn plain(&self, n: usize) -> Option<&Plain> {
        self.head(n).filter(|head| is_plain(head))
    }
}

/// The headers of a plain frame: Ethernet without tags, IPv4 without options and fragments, TCP or the first 20
/// bytes of UDP. Its keys lie at fixed places.
pub(crate) type Plain = [u8; PLAIN];
const PLAIN: usize = Ethernet::LEN + Ipv4::LEN + Tcp::LEN;

/// The bits that say whether headers are plain, by their offset.
pub(crate) const PLAIN_BITS: [(usize, &[u8]); 3] = [
    (12, &[0xff; 3]),
    (20, &(IP_MF | IP_OFFSET).to_be_bytes()),
    (23, &[0xff]),
];
/// The values that those of Ethernet and IPv4 have in plain headers.
pub(crate) const PLAIN_VALUES: [&[u8]; 2] = [&[0x08, 0x00, 0x45], &[0, 0]];

/// Returns whether headers are plain.
#[inline(always)]
pub(crate) fn is_plain(head: &Plain) -> bool {
    /// The bits of the type and of the first byte behind it, and their values in plain headers.
    const KIND: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]);
    const PLAIN: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
    /// The bits that fragments have.
    const FRAGMENT: u16 = (IP_MF | IP_OFFSET).to_be();
    let kind = u32::from_ne_bytes([head[12], head[13], head[14], head[15]]);
    let fragment = u16::from_ne_bytes([head[20], head[21]]);
    // Packets that follow each other are mostly all plain, so branches cost little.
    kind & KIND == PLAIN
        && fragment & FRAGMENT == 0
        && matches!(head[23], IPPROTO_TCP | IPPROTO_UDP)
}

/// The packets of a batch.
#[derive(Clone, Copy)]
pub struct Packets<'a> {
    /// The packets.
    pub all: &'a [Packet],
    /// All are as their reception left them ([`Packet::altered`]), with an Ethernet header in front.
    pub unaltered: bool,
}

impl Source for Packets<'_> {
    #[inline(always)]
    fn keys(&self, n: usize, used: Used, keys: &mut FlowKeys) {
        if let Some(packet) = self.all.get(n) {
            dissect(packet, used, keys);
        }
    }

    #[inline(always)]
    fn head(&self, n: usize) -> Option<&Plain> {
        let packet = self.all.get(n)?;
        if self.unaltered {
            let ip = packet.protocol == ETH_P_IP;
            return packet.short_head().filter(|_| ip);
        }
        let untagged = packet.protocol == ETH_P_IP && packet.vlan().is_none();
        if !untagged || packet.mac_len() != Ethernet::LEN {
            return None;
        }
        packet.mac().first_chunk()
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

    #[inline(always)]
    fn head(&self, n: usize) -> Option<&Plain> {
        self.0.get(n)?.first_chunk()
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
    /// Ethernet header. Counts and returns those that it drops.
    pub fn drop_early(&self, cx: Early<'_>, frames: &[&[u8]], lookup: &mut Lookup) -> Dropped {
        match self.ingress_hook(cx.guard) {
            Some(hook) => hook.drop_early(cx, frames, lookup),
            None => Dropped::default(),
        }
    }
}

/// Frames that were dropped early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// A bit for each of them.
    pub which: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// The number of them whose destination is a group address.
    pub multicast: u32,
}

/// The headers of frames that are judged together.
struct Heads<'f> {
    frames: &'f [&'f [u8]],
    /// A bit for each frame with complete headers.
    whole: u64,
    tagged: u64,
    multicast: u64,
    /// The sum of the lengths of those from the network header on, in bytes.
    sum: u64,
    /// The type of their outermost header, if it is the same.
    ty: Option<u16>,
}

/// Returns a bit for each frame whose destination is a group address.
fn groups(frames: &[&[u8]]) -> u64 {
    let is_group =
        |frame: &[u8]| Ethernet::new(frame).is_some_and(|header| is_multicast(header.dst()));
    let frames = frames.iter().enumerate();
    frames.fold(0, |all, (n, frame)| all | u64::from(is_group(frame)) << n)
}

impl<'f> Heads<'f> {
    #[inline]
    fn of(frames: &'f [&'f [u8]]) -> Self {
        Self::alike(frames).unwrap_or_else(|| Self::mixed(frames))
    }

    /// Returns the headers if they are complete, untagged and of one type, as they mostly are.
    #[inline]
    fn alike(frames: &'f [&'f [u8]]) -> Option<Self> {
        let ty = Ethernet::new(frames.first()?)?.ethertype();
        let (mut differ, mut firsts, mut sum) = (0, 0, 0);
        for frame in frames {
            let header = frame.first_chunk::<{ Ethernet::LEN }>()?;
            differ |= u16::from_ne_bytes([header[12], header[13]]) ^ ty.to_be();
            firsts |= header[0];
            sum += frame.len() as u64;
        }
        (differ == 0 && !is_vlan(ty)).then(|| Self {
            frames,
            whole: u64::MAX >> (BATCH - frames.len()),
            tagged: 0,
            multicast: if firsts & 1 == 0 { 0 } else { groups(frames) },
            sum: sum - (frames.len() * Ethernet::LEN) as u64,
            ty: Some(ty),
        })
    }

    fn mixed(frames: &'f [&'f [u8]]) -> Self {
        let mut heads = Self {
            frames,
            whole: 0,
            tagged: 0,
            multicast: groups(frames),
            sum: 0,
            ty: None,
        };
        for (n, frame) in frames.iter().enumerate() {
            let Some(header) = Ethernet::new(frame) else {
                continue;
            };
            let tag = if is_vlan(header.ethertype()) { TAG } else { 0 };
            let Some(len) = frame.len().checked_sub(Ethernet::LEN + tag) else {
                continue;
            };
            heads.whole |= 1 << n;
            heads.tagged |= u64::from(tag != 0) << n;
            heads.sum += len as u64;
        }
        heads
    }

    /// Returns a bit for each of `wanted` whose outermost header is of a protocol.
    fn of_protocol(&self, protocol: u16, wanted: u64) -> u64 {
        if protocol == ETH_P_ALL {
            return wanted;
        }
        if let Some(ty) = self.ty {
            return if ty == protocol { wanted } else { 0 };
        }
        let is_of = |frame: &[u8]| {
            Ethernet::new(frame).is_some_and(|header| header.ethertype() == protocol)
        };
        let frames = self.frames.iter().enumerate();
        let fits = frames.fold(0, |all, (n, frame)| all | u64::from(is_of(frame)) << n);
        wanted & fits
    }

    /// Returns the length of a frame from its network header on, in bytes.
    fn len(&self, n: usize) -> u64 {
        let tag = (self.tagged >> (n % BATCH) & 1) as usize * TAG;
        let frame = self.frames.get(n).map_or(0, |frame| frame.len());
        frame.saturating_sub(Ethernet::LEN + tag) as u64
    }

    /// Returns the sum of the lengths of frames from their network header on, in bytes.
    fn bytes(&self, those: u64) -> u64 {
        if those == self.whole {
            return self.sum;
        }
        set_bits(those).map(|n| self.len(n)).sum()
    }
}

impl Hook {
    fn drop_early(&self, cx: Early<'_>, frames: &[&[u8]], lookup: &mut Lookup) -> Dropped {
        let frames = frames.get(..frames.len().min(BATCH)).unwrap_or_default();
        let Some(chain) = self.block.find(0, cx.guard) else {
            return Dropped::default();
        };
        let heads = Heads::of(frames);
        let (mut wanted, mut dropped) = (heads.whole, 0);
        for proto in chain.published(cx.guard) {
            let fits = heads.of_protocol(proto.protocol, wanted);
            if fits == 0 {
                continue;
            }
            let classifier = &proto.classifier;
            if let Some(hit) = classifier.every(cx.guard) {
                dropped |= drop_all(cx, hit, fits, &heads);
                wanted &= !fits;
            } else {
                let mut hits: Hits<'_> = [None; BATCH];
                let frames = Frames(frames);
                let found = classifier.find_frames(frames, fits, lookup, cx.guard, &mut hits);
                let Some(found) = found else {
                    break;
                };
                dropped |= match found.one {
                    Some(hit) => drop_all(cx, hit, found.which, &heads),
                    None => drop_runs(cx, &hits, found.which, &heads),
                };
                wanted &= !found.which;
            }
            if wanted == 0 {
                break;
            }
        }
        if dropped == 0 {
            return Dropped::default();
        }
        let (packets, bytes) = (dropped.count_ones(), heads.bytes(dropped));
        let counters = &self.node.hook_counters;
        counters.count(cx.cpu, packets.into(), bytes);
        counters.count_drops(cx.cpu, packets);
        let tags = (heads.tagged & dropped).count_ones() as usize * TAG;
        let headers = packets as usize * Ethernet::LEN + tags;
        Dropped {
            which: dropped,
            bytes: bytes + headers as u64,
            multicast: (heads.multicast & dropped).count_ones(),
        }
    }
}

/// Drops all frames with a bit in `those` if the filter that they match only drops. Returns the bits of those
/// that it dropped.
fn drop_all(cx: Early<'_>, hit: Hit<'_>, those: u64, heads: &Heads<'_>) -> u64 {
    if !hit.exts.only_drops(cx.guard) {
        return 0;
    }
    let run = Run {
        of: Some(hit),
        packets: those.count_ones().into(),
        bytes: heads.bytes(those),
    };
    run.count(cx);
    those
}

/// Drops the frames with a bit in `found` whose filter only drops. Returns their bits.
fn drop_runs(cx: Early<'_>, hits: &Hits<'_>, found: u64, heads: &Heads<'_>) -> u64 {
    let mut first = None;
    let mut same = true;
    for n in set_bits(found) {
        let exts = hits[n % BATCH].map(|hit| std::ptr::from_ref(hit.exts));
        same &= *first.get_or_insert(exts) == exts;
    }
    let hit = set_bits(found).next().and_then(|first| hits[first % BATCH]);
    if let Some(hit) = hit.filter(|_| same) {
        return drop_all(cx, hit, found, heads);
    }
    let (mut run, mut dropped) = (Run::default(), 0);
    for n in set_bits(found) {
        let Some(hit) = hits[n % BATCH] else {
            continue;
        };
        if !run.of.is_some_and(|of| std::ptr::eq(of.exts, hit.exts)) {
            run.count(cx);
            run = Run::default();
            if !hit.exts.only_drops(cx.guard) {
                continue;
            }
            run.of = Some(hit);
        }
        run.packets += 1;
        run.bytes += heads.len(n);
        dropped |= 1 << n;
    }
    run.count(cx);
    dropped
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

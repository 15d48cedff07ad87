// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sfb`: stochastic fair blue, which finds unresponsive flows by a Bloom filter of marking
//! probabilities.
//!
//! Mirrors net/sched/sch_sfb.c (Feng, Kandlur, Saha and Shin, 2001). Parameters: `rehash`
//! (milliseconds after which flows are hashed anew, default 600 s), `db` (milliseconds before that
//! during which the next filter is warmed up, default 60 s), `limit` (packets, default txqueuelen),
//! `max` (packets of a flow, default 25), `target` (packets of a bin above which its probability
//! grows, default 20), `increment` and `decrement` (of 65535, default 66 and 11), `penalty_rate`
//! and `penalty_burst` (rate in packets per second and burst of unresponsive flows, default 10 and
//! 20).
//!
//! A packet is marked if its sender supports ECN, else dropped. Drops over the limits have the
//! reason QDISC_OVERLIMIT; early and penalty drops have QDISC_CONGESTED. A change drops all waiting
//! packets. There is one class, `:1`, with a `pfifo` of the limit.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, ENOSYS};
use weir_netlink::tca::{self, h, sfb as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Table, TcMsg, TcSfbQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::{
    Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Peek, Qdisc, QueueCx, classify, ecn,
    packet_hash, table, words,
};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    filters: true,
    ..Ops::new("sfb", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcSfbQopt::LEN as u16),
};

/// Probability 1 (`SFB_MAX_PROB`).
const MAX_PROB: u32 = 0xffff;
/// Levels of a filter (`SFB_LEVELS`).
const LEVELS: usize = 8;
/// Bits of a packet's mark that name the filters that count it. The other bits are its flow.
const SLOTS: u32 = 3;
/// Bins per level (`SFB_NUMBUCKETS`).
const BINS: usize = 16;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

const DEFAULT: TcSfbQopt = TcSfbQopt {
    rehash_interval: 600_000,
    warmup_time: 60_000,
    max: 25,
    bin_size: 20,
    increment: (MAX_PROB + 500) / 1000,
    decrement: (MAX_PROB + 3000) / 6000,
    limit: 0,
    penalty_rate: 10,
    penalty_burst: 20,
};

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    len: u16,
    mark: u16,
}

/// One of the two filters. Its seed is drawn when it gets its first flow.
#[derive(Debug, Clone, Default)]
struct Filter {
    seed: Option<u32>,
    /// Whether it needs a new seed. Waiting packets are still counted under the old one.
    stale: bool,
    bins: [[Bin; BINS]; LEVELS],
}

/// Indices of the statistics.
const EARLY: usize = 0;
const PENALTY: usize = 1;
const BUCKET: usize = 2;
const QUEUE: usize = 3;
const CHILD: usize = 4;
const MARKED: usize = 5;

/// The state of the qdisc.
struct Sfb {
    block: Arc<Block>,
    qopt: TcSfbQopt,
    child: Leaf,
    total: Load,
    filters: [Filter; 2],
    slot: usize,
    double_buffering: bool,
    rehash_at: u64,
    tokens: u32,
    tokens_at: u64,
    stats: [u32; 6],
}

fn parse(create: &Create<'_>) -> Result<TcSfbQopt, Error> {
    let mut qopt = DEFAULT;
    if create.options.is_some() {
        let tb = table(create.options, &POLICY).map_err(|_| Error::new(EINVAL))?;
        let parms = tb
            .get(attr::PARMS)
            .and_then(|parms| TcSfbQopt::from_bytes(parms.payload));
        qopt = parms.ok_or(Error::new(EINVAL))?;
    }
    if qopt.limit == 0 {
        qopt.limit = create.device.tx_queue_len();
    }
    Ok(qopt)
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let qopt = parse(create)?;
    let mut sfb = Sfb {
        block: create.block(),
        qopt,
        child: Leaf::default(),
        total: Load::default(),
        filters: Default::default(),
        slot: 0,
        double_buffering: false,
        rehash_at: 0,
        tokens: 0,
        tokens_at: 0,
        stats: [0; 6],
    };
    sfb.set(qopt, create, &mut Gone::default());
    Ok(Box::new(sfb))
}

/// Returns the bins of a hash, level by level.
fn places(hash: u32) -> impl Iterator<Item = usize> {
    (0..LEVELS).map(move |level| (hash >> (4 * level)) as usize & (BINS - 1))
}

impl Filter {
    /// Returns the hash of an arriving flow. Draws a new seed if needed.
    fn hash(&mut self, of: u32, q: &mut QueueCx<'_, '_, '_>) -> u32 {
        if std::mem::take(&mut self.stale) || self.seed.is_none() {
            self.seed = Some(q.random());
        }
        self.old_hash(of)
    }

    /// Returns the hash of a flow under the present seed.
    fn old_hash(&self, of: u32) -> u32 {
        let seed = self.seed.unwrap_or(0);
        let mixed = u64::from(of ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as u32).max(1)
    }

    /// Adapts the probabilities of a flow's bins. Returns the smallest of their lengths and
    /// probabilities.
    fn adapt(&mut self, hash: u32, qopt: &TcSfbQopt) -> (u32, u32) {
        let mut least = (u32::MAX, u32::MAX);
        for (level, place) in self.bins.iter_mut().zip(places(hash)) {
            let bin = &mut level[place];
            let mark = u32::from(bin.mark);
            if bin.len == 0 {
                bin.mark = mark.saturating_sub(qopt.decrement) as u16;
            } else if u32::from(bin.len) >= qopt.bin_size {
                bin.mark = mark.wrapping_add(qopt.increment).min(MAX_PROB) as u16;
            }
            least.0 = least.0.min(u32::from(bin.len));
            least.1 = least.1.min(u32::from(bin.mark));
        }
        least
    }

    /// Counts a packet of a flow in or out.
    fn count(&mut self, hash: u32, change: impl Fn(u16) -> u16) {
        for (level, place) in self.bins.iter_mut().zip(places(hash)) {
            level[place].len = change(level[place].len);
        }
    }
}

impl Sfb {
    fn set(&mut self, qopt: TcSfbQopt, create: &Create<'_>, gone: &mut Gone) {
        let old = self
            .child
            .replace(create.pfifo_of(qopt.limit, 1), &mut self.total, gone);
        gone.nodes.extend(old);
        self.qopt = qopt;
        self.rehash_at = create.now();
        (self.tokens, self.tokens_at) = (qopt.penalty_burst, create.now());
        (self.slot, self.double_buffering) = (0, false);
        self.filters = Default::default();
    }

    /// Returns whether the penalty rate drops a packet of an unresponsive flow (`sfb_rate_limit`).
    fn limited(&mut self, now: u64) -> bool {
        let (rate, burst) = (self.qopt.penalty_rate, self.qopt.penalty_burst);
        if rate == 0 || burst == 0 {
            return true;
        }
        if self.tokens < 1 {
            let age = (now - self.tokens_at).min(10 * SECOND);
            let tokens = u128::from(age) * u128::from(rate) / u128::from(SECOND);
            self.tokens = tokens.min(u128::from(burst)) as u32;
            self.tokens_at = now;
            if self.tokens < 1 {
                return true;
            }
        }
        self.tokens -= 1;
        false
    }

    /// Counts a packet in or out. `mark` has its flow and the filters that count it.
    fn count(&mut self, mark: u32, change: impl Fn(u16) -> u16) {
        for (slot, filter) in self.filters.iter_mut().enumerate() {
            if mark & (1 << slot) != 0 {
                let hash = filter.old_hash(mark & !SLOTS);
                filter.count(hash, &change);
            }
        }
    }

    fn rehash(&mut self, now: u64) {
        let interval = u64::from(self.qopt.rehash_interval) * MILLI;
        let warmup = u64::from(self.qopt.warmup_time) * MILLI;
        if interval == 0 {
            return;
        }
        let limit = self.rehash_at + interval;
        if now > limit {
            self.filters[self.slot].stale = true;
            self.slot ^= 1;
            self.double_buffering = false;
            self.rehash_at = now;
        } else if !self.double_buffering && warmup > 0 && now > limit.saturating_sub(warmup) {
            self.double_buffering = true;
        }
    }

    fn drop(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
        why: usize,
        reason: DropReason,
    ) -> Enqueued {
        q.note().overlimits += u32::from(why != EARLY);
        self.stats[why] += 1;
        q.drop(packet, reason);
        Enqueued::Congested
    }
}

impl Qdisc for Sfb {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let now = q.now();
        if q.waiting(self.total).len >= self.qopt.limit {
            return self.drop(q, packet, QUEUE, DropReason::QDISC_OVERLIMIT);
        }
        self.rehash(now);
        let (mut packet, flow) = if self.block.is_empty(q.cx) {
            let mut packet = packet;
            let flow = packet_hash(&mut packet) & !SLOTS;
            (packet, flow)
        } else {
            match classify(&self.block, q, packet) {
                Ok((packet, Some(class))) => (packet, (class & h::MIN_MASK) << 2),
                Ok((packet, None)) => return q.drop(packet, DropReason::QDISC_DROP),
                Err(ended) => return ended,
            }
        };
        let slot = self.slot;
        let mut slots = 1 << slot;
        let hash = self.filters[slot].hash(flow, q);
        let (least, p_min) = self.filters[slot].adapt(hash, &self.qopt);
        if least >= self.qopt.max {
            return self.drop(q, packet, BUCKET, DropReason::QDISC_OVERLIMIT);
        }
        if p_min >= MAX_PROB {
            if self.double_buffering {
                let other = &mut self.filters[slot ^ 1];
                let hash = other.hash(flow, q);
                other.adapt(hash, &self.qopt);
                slots = SLOTS;
            }
            if self.limited(now) {
                return self.drop(q, packet, PENALTY, DropReason::QDISC_CONGESTED);
            }
        } else {
            let drawn = q.random() & MAX_PROB;
            if drawn < p_min {
                let half = MAX_PROB / 2;
                let much = p_min > half && drawn < (p_min - half) * 2;
                if much || !ecn::set_ce(&mut packet) {
                    return self.drop(q, packet, EARLY, DropReason::QDISC_CONGESTED);
                }
                self.stats[MARKED] += 1;
            }
        }
        // The packet keeps its flow and the filters that count it until it leaves.
        packet.chain = flow | slots;
        let (result, _) = self.child.enqueue(q, packet, &mut self.total);
        match result {
            Enqueued::Queued => self.count(flow | slots, |len| len.saturating_add(1)),
            Enqueued::Dropped | Enqueued::Congested => self.stats[CHILD] += 1,
            Enqueued::Stolen => {}
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let mut packet = self.child.dequeue(q, &mut self.total).0?;
        let mark = std::mem::take(&mut packet.chain);
        self.count(mark, |len| len.saturating_sub(1));
        Some(packet)
    }

    fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.child.front(q, &mut self.total))
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.child.purge(&mut self.total, out);
        (self.slot, self.double_buffering) = (0, false);
        self.filters = Default::default();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.set(parse(create)?, create, gone);
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_fixed(attr::PARMS, &self.qopt);
        w.end(nest);
    }

    /// Returns `struct tc_sfb_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let bins = self.filters[self.slot].bins.iter().flatten();
        let (mut longest, mut most, mut sum) = (0, 0, 0);
        for bin in bins {
            longest = longest.max(u32::from(bin.len));
            most = most.max(u32::from(bin.mark));
            sum += u32::from(bin.mark);
        }
        let mut app = words(&self.stats);
        app.extend(words(&[longest, most, sum / (LEVELS * BINS) as u32]));
        Some(app)
    }

    fn slot(&self, _class: u32) -> Option<&Leaf> {
        Some(&self.child)
    }

    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        Some((&mut self.child, &mut self.total))
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn children(&self) -> Vec<Arc<Node>> {
        self.child.node().into_iter().collect()
    }

    /// Returns no class, because Linux cannot show the class (ENOSYS) and omits it from dumps.
    fn classes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn dump_class(&self, _class: u32, _tcm: &mut TcMsg, _w: &mut Writer) {}

    fn change_class(
        &mut self,
        _class: u32,
        _ids: (u32, u32),
        _tca: &Table<'_>,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<u32, Error> {
        Err(Error::new(ENOSYS))
    }

    /// Fails, because the class cannot be shown in the notification (`tclass_del_notify`).
    fn delete_class(
        &mut self,
        _class: u32,
        _in_use: bool,
        _create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<(), Error> {
        Err(Error::new(EINVAL))
    }
}

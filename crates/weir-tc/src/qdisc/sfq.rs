// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sfq`: stochastic fair queueing, which distinguishes flows by hash and serves them in turn.
//!
//! Mirrors net/sched/sch_sfq.c (McKenney, 1991). Parameters: `limit` (packets, default 127),
//! `depth` (packets of a flow, default and at most 127), `flows` (default 128), `divisor` (buckets
//! of the hash, a power of two, default 1024), `quantum` (bytes per turn, at least 256, default the
//! largest frame), `perturb` (seconds after which flows are hashed anew, default never), `headdrop`
//! (drop the oldest packet of a flow instead of the newest), and `min`, `max`, `burst`,
//! `probability`, `ecn`, `harddrop` (RED in each flow).
//!
//! A packet's flow is named by its priority if that has the qdisc's handle, else by a filter, else
//! by its hash, which is perturbed by the device's generator. The options cannot be changed later.
//! Over the limit the longest flow loses a packet (QDISC_OVERLIMIT). Over the limit of a flow, that
//! flow loses a packet (QDISC_OVERLIMIT). RED drops with QDISC_CONGESTED.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Fixed, TcMsg, TcRedQopt, TcSfqQopt, TcSfqQoptV1, Writer};
use weir_packet::{DropReason, Packet};

use super::idle;
use super::red::{self, Action};
use super::store::{Chain, Store};
use super::{
    ClassStats, Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx, classify, ecn, packet_hash,
    pkt_len, words,
};
use crate::block::Block;
use crate::counters::Queue;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    filters: true,
    ..Ops::new("sfq", create)
};

/// Largest number of packets of a flow (`SFQ_MAX_DEPTH`).
const MAX_DEPTH: u32 = 127;
/// Largest number of flows (`SFQ_MAX_FLOWS`).
const MAX_FLOWS: u32 = 65536 - MAX_DEPTH - 1;
const NONE: u16 = u16::MAX;
const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Clone)]
struct Slot {
    queue: Chain,
    backlog: u32,
    bucket: u32,
    allot: i32,
    vars: red::Vars,
    /// The slot with the next turn.
    next: u16,
    /// Neighbours in the list of slots with the same length. Slots of length 0 are free.
    deeper: (u16, u16),
}

#[derive(Debug, Clone)]
struct Params {
    limit: u32,
    divisor: u32,
    flows: u32,
    depth: u32,
    quantum: u32,
    headdrop: bool,
    flags: u8,
    perturb: u32,
    red: Option<red::Params>,
}

/// The state of the qdisc.
struct Sfq {
    block: Arc<Block>,
    handle: u32,
    params: Params,
    /// Slot numbers by bucket.
    buckets: Vec<u16>,
    slots: Vec<Slot>,
    /// First slot of each length.
    depths: Vec<u16>,
    /// Length of the longest slot.
    deepest: usize,
    /// The slot that had its turn last.
    tail: Option<u16>,
    store: Store,
    load: Load,
    seed: Option<u32>,
    /// Time of the next rehash, in ns.
    perturb_at: Option<u64>,
    /// Counters of RED (`struct tc_sfqred_stats`).
    stats: [u32; 6],
}

/// Indices of the statistics.
const PROB_DROP: usize = 0;
const FORCED_DROP: usize = 1;
const PROB_MARK: usize = 2;
const FORCED_MARK: usize = 3;
const PROB_MARK_HEAD: usize = 4;
const FORCED_MARK_HEAD: usize = 5;

fn wrong(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

impl Params {
    /// Applies the parameters of a request.
    fn with(mut self, create: &Create<'_>) -> Result<Self, Error> {
        let Some(options) = create.options else {
            return Ok(self);
        };
        let ctl = TcSfqQopt::from_bytes(options.payload).ok_or(Error::new(EINVAL))?;
        let v1 = TcSfqQoptV1::from_bytes(options.payload);
        if ctl.divisor != 0 && (!ctl.divisor.is_power_of_two() || ctl.divisor > 65536) {
            return Err(Error::new(EINVAL));
        }
        if (ctl.quantum as i32) < 0 {
            return Err(wrong("sch_sfq: invalid quantum"));
        }
        if ctl.quantum > 1 << 20 {
            return Err(wrong("sch_sfq: quantum too large"));
        }
        if !(0..=i32::MAX / 250).contains(&ctl.perturb_period) {
            return Err(wrong("sch_sfq: invalid perturb period"));
        }
        if let Some(v1) = &v1 {
            if !red::check(v1.qth_min, v1.qth_max, v1.wlog, v1.scell_log, None) {
                return Err(Error::new(EINVAL));
            }
            if v1.depth != 0 {
                self.depth = v1.depth.min(MAX_DEPTH);
            }
            if v1.qth_min != 0 {
                let qopt = TcRedQopt {
                    limit: 0,
                    qth_min: v1.qth_min,
                    qth_max: v1.qth_max,
                    wlog: v1.wlog,
                    plog: v1.plog,
                    scell_log: v1.scell_log,
                    flags: 0,
                };
                self.red = Some(red::Params::new(&qopt, None, v1.max_p));
            }
            self.flags = v1.flags;
            self.headdrop = v1.headdrop != 0;
        }
        if ctl.quantum != 0 {
            self.quantum = ctl.quantum.max(256);
        }
        if ctl.flows != 0 {
            self.flows = ctl.flows.min(MAX_FLOWS);
        }
        if ctl.divisor != 0 {
            self.divisor = ctl.divisor;
            self.flows = self.flows.min(self.divisor);
        }
        if ctl.limit != 0 {
            self.limit = ctl.limit.min(self.depth * self.flows);
            self.flows = self.flows.min(self.limit);
        }
        if self.limit == 1 {
            return Err(wrong("sch_sfq: invalid limit"));
        }
        self.perturb = ctl.perturb_period as u32;
        Ok(self)
    }
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let params = Params {
        limit: MAX_DEPTH,
        divisor: 1024,
        flows: 128,
        depth: MAX_DEPTH,
        quantum: create.psched_mtu().clamp(256, 1 << 20),
        headdrop: false,
        flags: 0,
        perturb: 0,
        red: None,
    };
    let params = params.with(create)?;
    let mut sfq = Sfq {
        block: create.block(),
        handle: create.handle,
        buckets: vec![NONE; params.divisor as usize],
        slots: Vec::new(),
        depths: vec![NONE; MAX_DEPTH as usize + 1],
        deepest: 0,
        tail: None,
        store: Store::default(),
        load: Load::default(),
        seed: None,
        perturb_at: None,
        stats: [0; 6],
        params,
    };
    for number in 0..sfq.params.flows {
        sfq.slots.push(Slot {
            queue: Chain::default(),
            backlog: 0,
            bucket: 0,
            allot: 0,
            vars: red::Vars::new(),
            next: NONE,
            deeper: (NONE, NONE),
        });
        sfq.link(number as u16);
    }
    sfq.arm(create.now());
    Ok(Box::new(sfq))
}

impl Sfq {
    fn arm(&mut self, now: u64) {
        let period = u64::from(self.params.perturb) * SECOND;
        self.perturb_at = (period > 0).then_some(now + period);
    }

    fn slot(&mut self, number: u16) -> &mut Slot {
        &mut self.slots[usize::from(number)]
    }

    /// Inserts a slot at the front of the list of its length.
    fn link(&mut self, number: u16) {
        let depth = self.slot(number).queue.len() as usize;
        let next = std::mem::replace(&mut self.depths[depth], number);
        self.slot(number).deeper = (NONE, next);
        if next != NONE {
            self.slot(next).deeper.0 = number;
        }
    }

    /// Removes a slot from the list of length `depth`.
    fn unlink(&mut self, number: u16, depth: usize) {
        let (before, next) = self.slot(number).deeper;
        match before {
            NONE => self.depths[depth] = next,
            before => self.slot(before).deeper.1 = next,
        }
        if next != NONE {
            self.slot(next).deeper.0 = before;
        }
    }

    fn push(&mut self, number: u16, packet: Packet) {
        let depth = self.slot(number).queue.len() as usize;
        self.unlink(number, depth);
        let len = pkt_len(&packet);
        let slot = &mut self.slots[usize::from(number)];
        slot.backlog = slot.backlog.wrapping_add(len);
        slot.queue.push(&mut self.store, packet, 0);
        self.load.add(len);
        self.deepest = self.deepest.max(depth + 1);
        self.link(number);
    }

    fn pop(&mut self, number: u16, newest: bool) -> Option<Packet> {
        let depth = self.slot(number).queue.len() as usize;
        self.unlink(number, depth);
        let slot = &mut self.slots[usize::from(number)];
        let popped = match newest {
            true => slot.queue.pop_last(&mut self.store),
            false => slot.queue.pop(&mut self.store),
        };
        let packet = popped.map(|(packet, _)| packet);
        if let Some(packet) = &packet {
            slot.backlog = slot.backlog.wrapping_sub(pkt_len(packet));
            self.load.sub(pkt_len(packet));
        }
        if self.depths[depth] == NONE && self.deepest == depth {
            self.deepest = depth.saturating_sub(1);
        }
        self.link(number);
        packet
    }

    /// Gives a slot with its first packet the last turn.
    fn enlist(&mut self, number: u16) {
        match self.tail {
            None => self.slot(number).next = number,
            Some(tail) => {
                let first = std::mem::replace(&mut self.slot(tail).next, number);
                self.slot(number).next = first;
            }
        }
        self.tail = Some(number);
        self.slot(number).allot = self.params.quantum as i32;
    }

    /// Ends the turns of the slot after `tail`, which has no packets left.
    fn delist(&mut self, tail: u16, number: u16) {
        let next = self.slot(number).next;
        let bucket = self.slot(number).bucket as usize;
        self.buckets[bucket] = NONE;
        if next == number {
            self.tail = None;
        } else {
            self.slot(tail).next = next;
        }
    }

    /// Removes a packet from the longest slot and returns it with the slot (`sfq_drop`).
    fn drop_longest(&mut self) -> Option<(u16, Packet)> {
        let number = match self.deepest {
            0 => return None,
            1 => {
                let tail = self.tail?;
                let number = self.slot(tail).next;
                self.delist(tail, number);
                number
            }
            depth => self.depths[depth],
        };
        let packet = self.pop(number, !self.params.headdrop)?;
        Some((number, packet))
    }

    fn bucket_of(&mut self, packet: &mut Packet, q: &mut QueueCx<'_, '_, '_>) -> u32 {
        let seed = match self.seed {
            Some(seed) => seed,
            None => *self.seed.insert(q.random()),
        };
        let mixed = u64::from(packet_hash(packet) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as u32 & (self.params.divisor - 1)
    }

    /// Returns the slot of a bucket and whether it was newly taken. Returns `None` if no slot is
    /// free.
    fn slot_of(&mut self, bucket: u32) -> Option<(u16, bool)> {
        let number = self.buckets[bucket as usize];
        if number != NONE {
            return Some((number, false));
        }
        let number = self.depths[0];
        if number == NONE {
            return None;
        }
        self.buckets[bucket as usize] = number;
        let slot = self.slot(number);
        (slot.bucket, slot.backlog, slot.vars) = (bucket, 0, red::Vars::new());
        Some((number, true))
    }

    /// Rehashes all flows if that is due (`sfq_perturbation`).
    fn perturb(&mut self, q: &mut QueueCx<'_, '_, '_>) {
        let now = q.now();
        let Some(due) = self.perturb_at.filter(|due| *due <= now) else {
            return;
        };
        let period = u64::from(self.params.perturb) * SECOND;
        self.perturb_at = Some(now - (now - due) % period + period);
        self.seed = Some(q.random());
        if self.tail.is_none() || !self.block.is_empty(q.cx) {
            return;
        }
        let mut all = Vec::new();
        for number in 0..self.slots.len() as u16 {
            let before = all.len();
            while let Some(packet) = self.pop(number, false).filter(|_| true) {
                all.push(packet);
            }
            if all.len() > before {
                let bucket = self.slot(number).bucket as usize;
                self.buckets[bucket] = NONE;
            }
        }
        self.tail = None;
        for mut packet in all {
            let bucket = self.bucket_of(&mut packet, q);
            let slot = self.slot_of(bucket);
            let depth = self.params.depth;
            match slot.filter(|(number, _)| self.slot(*number).queue.len() < depth) {
                Some((number, _)) => {
                    self.push(number, packet);
                    if self.slot(number).queue.len() == 1 {
                        self.enlist(number);
                    }
                }
                None => {
                    q.drop(packet, DropReason::QDISC_OVERLIMIT);
                }
            }
        }
    }

    /// Applies RED to a flow. Returns whether to drop the packet.
    fn congested(&mut self, number: u16, packet: &mut Packet, q: &mut QueueCx<'_, '_, '_>) -> bool {
        let Some(params) = &self.params.red else {
            return false;
        };
        let slot = &mut self.slots[usize::from(number)];
        slot.vars.update_busy(params, slot.backlog);
        let (may_mark, head, mark, drop) = match slot.vars.action(params, q) {
            Action::Pass => return false,
            Action::Chance => (red::ECN, PROB_MARK_HEAD, PROB_MARK, PROB_DROP),
            Action::Forced => {
                let only = self.params.flags & red::HARDDROP == 0;
                let may = if only { red::ECN } else { 0 };
                (may, FORCED_MARK_HEAD, FORCED_MARK, FORCED_DROP)
            }
        };
        q.note().overlimits += 1;
        if self.params.flags & may_mark != 0 {
            let oldest = slot.queue.peek_mut(&mut self.store);
            if self.params.headdrop && oldest.is_some_and(ecn::set_ce) {
                self.stats[head] += 1;
                return false;
            }
            if ecn::set_ce(packet) {
                self.stats[mark] += 1;
                return false;
            }
        }
        self.stats[drop] += 1;
        true
    }
}

impl Sfq {
    /// Skips the rounds in which no slot may send. `first` is one of the slots that take turns.
    #[cold]
    fn skip_idle(&mut self, first: u16) {
        let quantum = self.params.quantum as i32;
        let (mut ring, mut number) = (Vec::new(), first);
        loop {
            ring.push(number);
            number = self.slot(number).next;
            if number == first {
                break;
            }
        }
        let turns = ring.iter().map(|&at| self.slots[usize::from(at)].allot);
        let rounds = idle::rounds(turns.map(|allot| idle::of_deficit(allot, quantum)));
        for at in ring {
            let allot = &mut self.slot(at).allot;
            *allot = idle::after(*allot, quantum, rounds);
        }
    }
}

impl Qdisc for Sfq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        self.perturb(q);
        let divisor = self.params.divisor;
        let minor = packet.priority & h::MIN_MASK;
        let own = packet.priority & h::MAJ_MASK == self.handle && (1..=divisor).contains(&minor);
        let (mut packet, bucket) = if own {
            (packet, minor - 1)
        } else if self.block.is_empty(q.cx) {
            let mut packet = packet;
            let bucket = self.bucket_of(&mut packet, q);
            (packet, bucket)
        } else {
            match classify(&self.block, q, packet) {
                Ok((packet, Some(class))) if (1..=divisor).contains(&(class & h::MIN_MASK)) => {
                    (packet, (class & h::MIN_MASK) - 1)
                }
                Ok((packet, _)) => return q.drop(packet, DropReason::QDISC_DROP),
                Err(ended) => return ended,
            }
        };
        let Some((number, is_new)) = self.slot_of(bucket) else {
            return q.drop(packet, DropReason::QDISC_OVERLIMIT);
        };
        if !is_new {
            let early = self.congested(number, &mut packet, q);
            if early || self.slot(number).queue.len() >= self.params.depth {
                let reason = match early {
                    true => DropReason::QDISC_CONGESTED,
                    false => DropReason::QDISC_OVERLIMIT,
                };
                if !self.params.headdrop {
                    return q.drop(packet, reason);
                }
                if let Some(oldest) = self.pop(number, false) {
                    q.drop(oldest, reason);
                }
                self.push(number, packet);
                return Enqueued::Congested;
            }
        }
        self.push(number, packet);
        if self.slot(number).queue.len() == 1 {
            self.enlist(number);
        }
        if q.waiting(self.load).len <= self.params.limit {
            return Enqueued::Queued;
        }
        match self.drop_longest() {
            Some((from, dropped)) => {
                q.drop(dropped, DropReason::QDISC_OVERLIMIT);
                match from == number {
                    true => Enqueued::Congested,
                    false => Enqueued::Queued,
                }
            }
            None => Enqueued::Queued,
        }
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.perturb(q);
        let (mut refilled, mut first) = (0, None);
        loop {
            let tail = self.tail?;
            let number = self.slot(tail).next;
            let quantum = self.params.quantum as i32;
            let slot = self.slot(number);
            if slot.allot <= 0 {
                slot.allot = slot.allot.wrapping_add(quantum);
                self.tail = Some(number);
                refilled += 1;
                if *first.get_or_insert(number) == number && refilled > 1 {
                    self.skip_idle(number);
                }
                continue;
            }
            let packet = self.pop(number, false)?;
            if self.slot(number).queue.is_empty() {
                self.delist(tail, number);
            } else {
                self.slot(number).allot = self
                    .slot(number)
                    .allot
                    .wrapping_sub(pkt_len(&packet) as i32);
            }
            return Some(packet);
        }
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        while let Some((_, packet)) = self.drop_longest() {
            out.push((packet, DropReason::QDISC_DROP));
        }
        self.buckets.fill(NONE);
        self.tail = None;
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let red = params
            .red
            .as_ref()
            .map(|red| red.qopt(0, 0))
            .unwrap_or_default();
        let qopt = TcSfqQoptV1 {
            v0: TcSfqQopt {
                quantum: params.quantum,
                perturb_period: params.perturb as i32,
                limit: params.limit,
                divisor: params.divisor,
                flows: params.flows,
            },
            depth: params.depth,
            headdrop: u32::from(params.headdrop),
            limit: 0,
            qth_min: red.qth_min,
            qth_max: red.qth_max,
            wlog: red.wlog,
            plog: red.plog,
            scell_log: red.scell_log,
            flags: params.flags,
            max_p: params.red.as_ref().map_or(0, |red| red.max_p),
            prob_drop: self.stats[PROB_DROP],
            forced_drop: self.stats[FORCED_DROP],
            prob_mark: self.stats[PROB_MARK],
            forced_mark: self.stats[FORCED_MARK],
            prob_mark_head: self.stats[PROB_MARK_HEAD],
            forced_mark_head: self.stats[FORCED_MARK_HEAD],
        };
        w.put_fixed(tca::OPTIONS, &qopt);
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn classes(&self) -> Vec<u32> {
        let buckets = (1..).zip(&self.buckets);
        buckets
            .filter(|(_, slot)| **slot != NONE)
            .map(|(class, _)| class)
            .collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.handle |= class & h::MIN_MASK;
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let number = *self.buckets.get(class as usize - 1)?;
        let slot = self.slots.get(usize::from(number));
        let queue = slot.map_or_else(Queue::default, |slot| Queue {
            qlen: slot.queue.len(),
            backlog: slot.backlog,
            ..Queue::default()
        });
        Some(ClassStats {
            queue,
            app: Some(words(&[slot.map_or(0, |slot| slot.allot as u32)])),
            queue_only: true,
            ..ClassStats::default()
        })
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fq`: a queue per flow, served in turn, with each flow paced to a rate.
//!
//! Mirrors net/sched/sch_fq.c. Parameters:
//!
//! - `limit`: packets, default 10000.
//! - `flow_limit`: packets per flow, default 100.
//! - `quantum`, `initial_quantum`: bytes, default 2 and 10 largest frames.
//! - `maxrate`: bytes per second of a flow, default none.
//! - `pacing`: default on.
//! - `low_rate_threshold`: bytes per second, default 68750. Flows up to this rate are paced packet
//!   by packet, faster ones by quantum.
//! - `refill_delay`: microseconds without packets after which a flow gets a new quantum, default 40
//!   ms.
//! - `orphan_mask`: bits of the flow hash that distinguish flows, default 1023.
//! - `buckets`: default 1024; determines when idle flows are forgotten.
//! - `ce_threshold`: microseconds past its time after which a packet is marked, default none.
//! - `timer_slack`: shown and not used, because a packet leaves at exactly the nanosecond it is
//!   due.
//! - `horizon`: microseconds. A packet that is to leave later than that is dropped with
//!   `horizon_drop`, else it leaves at the horizon.
//!
//! Flows are distinguished by hash only, because no packet has a socket. A packet leaves no sooner
//! than the time its sender set ([`Packet::departure`]), and before packets of its flow that are to
//! leave later. Packets of priority 7 go first and unpaced. Drops have the reason QDISC_DROP. The
//! oldest idle flows are forgotten first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, fq as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::heap::Heap;
use super::store::{Chain, Store};
use super::{
    Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, packet_hash, pkt_len, prefetch, table,
};
use super::{ecn, idle};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("fq", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PLIMIT => Rule::u32(),
    attr::FLOW_PLIMIT => Rule::u32(),
    attr::QUANTUM => Rule::u32(),
    attr::INITIAL_QUANTUM => Rule::u32().max(i32::MAX as u64),
    attr::RATE_ENABLE => Rule::u32(),
    attr::FLOW_DEFAULT_RATE => Rule::u32(),
    attr::FLOW_MAX_RATE => Rule::u32(),
    attr::BUCKETS_LOG => Rule::u32(),
    attr::FLOW_REFILL_DELAY => Rule::u32(),
    attr::ORPHAN_MASK => Rule::u32(),
    attr::LOW_RATE_THRESHOLD => Rule::u32(),
    attr::CE_THRESHOLD => Rule::u32(),
    attr::TIMER_SLACK => Rule::u32(),
    attr::HORIZON => Rule::u32(),
    attr::HORIZON_DROP => Rule::u8(),
};

const SECOND: u64 = 1_000_000_000;
/// Idle time in ns after which a flow may be forgotten (`FQ_GC_AGE`).
const GC_AGE: u64 = 3 * SECOND;
/// Priority of packets that are not paced (`TC_PRIO_CONTROL`).
const CONTROL: u32 = 7;
/// Number of flows above which their state no longer fits the near caches.
const FAR: usize = 4096;
/// The time when no flow waits for its time.
const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// In no list since the time in `emptied`.
    #[default]
    Idle,
    /// Forgotten; the entry is free.
    Gone,
    /// In the list of new or old flows.
    Listed,
    /// Waiting for its time.
    Throttled,
}

/// A flow, one cache line long.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flow {
    key: u32,
    queue: Chain,
    credit: i32,
    place: Place,
    emptied: u64,
    /// Departure time of the last packet in `queue`.
    latest: u64,
    next_packet: u64,
    /// Packets by time that arrived after the last packet in `queue` and leave before it.
    #[allow(
        clippy::box_collection,
        reason = "one word per flow, with up to a million flows"
    )]
    sooner: Option<Box<BTreeMap<(u64, u64), Packet>>>,
}

impl Flow {
    fn len(&self) -> u32 {
        self.queue.len() + self.sooner.as_ref().map_or(0, |sooner| sooner.len() as u32)
    }

    /// Appends a packet (`flow_queue_add`).
    fn push(&mut self, store: &mut Store, packet: Packet, time: u64, seq: u64) {
        if time < self.latest && !self.queue.is_empty() {
            self.sooner
                .get_or_insert_default()
                .insert((time, seq), packet);
        } else {
            self.latest = time;
            self.queue.push(store, packet, time);
        }
    }

    /// Returns the departure time of the next packet, and whether it is in `sooner` (`fq_peek`).
    fn next(&self, store: &Store) -> Option<(u64, bool)> {
        let queue = self.queue.peek(store).map(|(_, time)| (time, false));
        let Some(sooner) = &self.sooner else {
            return queue;
        };
        match (queue, sooner.first_key_value()) {
            (Some(first), Some(((time, _), _))) if *time >= first.0 => Some(first),
            (_, Some(((time, _), _))) => Some((*time, true)),
            (first, None) => first,
        }
    }

    /// Removes the packet found by [`next`](Self::next).
    #[inline]
    fn take(&mut self, store: &mut Store, sooner: bool) -> Option<Packet> {
        match &mut self.sooner {
            Some(packets) if sooner => packets.pop_first().map(|(_, packet)| packet),
            _ => self.queue.pop(store).map(|(packet, _)| packet),
        }
    }

    fn pop(&mut self, store: &mut Store) -> Option<Packet> {
        let (_, sooner) = self.next(store)?;
        self.take(store, sooner)
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Flow>() == 64);

/// A hasher that only multiplies, because the keys are hashes already.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug, Clone)]
struct Params {
    limit: u32,
    flow_limit: u32,
    quantum: u32,
    initial_quantum: u32,
    refill_delay: u32,
    max_rate: Option<u32>,
    low_rate: u32,
    orphan_mask: u32,
    pacing: bool,
    buckets_log: u32,
    ce_threshold: u32,
    timer_slack: u32,
    horizon: u32,
    horizon_drop: u8,
}

#[derive(Debug, Default)]
struct Stats {
    gc_flows: u64,
    internal: u64,
    throttled: u64,
    flow_limit: u64,
    too_long: u64,
    ce_mark: u64,
    horizon_drops: u64,
    horizon_caps: u64,
}

/// The state of the qdisc.
struct Fq {
    params: Params,
    flows: Vec<Flow>,
    free: Vec<u32>,
    by_key: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// The flow of the last packet, which is often that of the next one too.
    last: u32,
    /// The flow that was last checked for a long idle time.
    cursor: usize,
    inactive: u32,
    store: Store,
    /// Packets of the highest priority.
    internal: Flow,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    delayed: Heap<u64>,
    throttled: u32,
    /// Time at which the first delayed flow is due.
    next_delayed: u64,
    latency: u64,
    /// Number of packets with a departure time so far.
    seq: u64,
    load: Load,
    stats: Stats,
    now: u64,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mtu = create.psched_mtu().clamp(1, 1 << 20);
    let params = Params {
        limit: 10_000,
        flow_limit: 100,
        quantum: (2 * mtu).min(1 << 20),
        initial_quantum: (10 * mtu).min(1 << 20),
        refill_delay: 40_000,
        max_rate: None,
        low_rate: 550_000 / 8,
        orphan_mask: 1023,
        pacing: true,
        buckets_log: 10,
        ce_threshold: u32::MAX,
        timer_slack: 10_000,
        horizon: 10_000_000,
        horizon_drop: 1,
    };
    Ok(Box::new(Fq {
        params: params.with(create)?,
        flows: Vec::new(),
        free: Vec::new(),
        by_key: HashMap::default(),
        last: 0,
        cursor: 0,
        inactive: 0,
        store: Store::default(),
        internal: Flow::default(),
        new: VecDeque::new(),
        old: VecDeque::new(),
        delayed: Heap::default(),
        throttled: 0,
        next_delayed: NEVER,
        latency: 0,
        seq: 0,
        load: Load::default(),
        stats: Stats::default(),
        now: create.now(),
    }))
}

impl Params {
    /// Applies the parameters of a request.
    fn with(mut self, create: &Create<'_>) -> Result<Self, Error> {
        let tb = table(create.options, &POLICY)?;
        if let Some(log) = tb.u32(attr::BUCKETS_LOG)? {
            if !(1..=18).contains(&log) {
                return Err(Error::new(EINVAL));
            }
            self.buckets_log = log;
        }
        if let Some(quantum) = tb.u32(attr::QUANTUM)? {
            if !(1..=1 << 20).contains(&quantum) {
                return Err(Error::msg(EINVAL, "sch_fq: invalid quantum"));
            }
            self.quantum = quantum;
        }
        if let Some(rate) = tb.u32(attr::FLOW_MAX_RATE)? {
            self.max_rate = (rate != u32::MAX).then_some(rate);
        }
        if let Some(enable) = tb.u32(attr::RATE_ENABLE)? {
            if enable > 1 {
                return Err(Error::new(EINVAL));
            }
            self.pacing = enable == 1;
        }
        let words = [
            (attr::PLIMIT, &mut self.limit),
            (attr::FLOW_PLIMIT, &mut self.flow_limit),
            (attr::INITIAL_QUANTUM, &mut self.initial_quantum),
            (attr::LOW_RATE_THRESHOLD, &mut self.low_rate),
            (attr::FLOW_REFILL_DELAY, &mut self.refill_delay),
            (attr::ORPHAN_MASK, &mut self.orphan_mask),
            (attr::CE_THRESHOLD, &mut self.ce_threshold),
            (attr::TIMER_SLACK, &mut self.timer_slack),
            (attr::HORIZON, &mut self.horizon),
        ];
        for (ty, word) in words {
            if let Some(value) = tb.u32(ty)? {
                *word = value;
            }
        }
        if let Some(drop) = tb.u8(attr::HORIZON_DROP)? {
            self.horizon_drop = drop;
        }
        Ok(self)
    }
}

impl Fq {
    /// Checks whether the next flow has been idle for long, and forgets it then (`fq_gc`). One flow
    /// is checked per packet, because a packet makes at most one flow. Linux checks up to eight
    /// flows on the way to the packet's own.
    fn forget(&mut self, now: u64) {
        self.cursor = match self.cursor + 1 {
            next if next < self.flows.len() => next,
            _ => 0,
        };
        let Some(flow) = self.flows.get_mut(self.cursor) else {
            return;
        };
        if flow.place == Place::Idle && now > flow.emptied + GC_AGE {
            flow.place = Place::Gone;
            self.by_key.remove(&flow.key);
            self.free.push(self.cursor as u32);
            self.inactive -= 1;
            self.stats.gc_flows += 1;
        }
    }

    /// Returns the flow of a packet (`fq_classify`).
    fn flow_of(&mut self, packet: &mut Packet, hint: u32, now: u64) -> u32 {
        let key = packet_hash(packet) & self.params.orphan_mask;
        let flows = self.by_key.len() as u32;
        if flows >= 2 << self.params.buckets_log && self.inactive > flows / 2 {
            self.forget(now);
        }
        // A flow that exists is the only one with its key, so a guess with that key is right.
        for guess in [self.last, hint] {
            let flow = self.flows.get(guess as usize);
            if flow.is_some_and(|flow| flow.key == key && flow.place != Place::Gone) {
                self.last = guess;
                return guess;
            }
        }
        if let Some(&number) = self.by_key.get(&key) {
            self.last = number;
            return number;
        }
        let flow = Flow {
            key,
            credit: self.params.initial_quantum as i32,
            emptied: now,
            ..Flow::default()
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.flows[number as usize] = flow;
                number
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        self.by_key.insert(key, number);
        self.last = number;
        self.inactive += 1;
        number
    }

    /// Moves flows whose time has come to the old flows (`fq_check_throttled`).
    fn release(&mut self, now: u64) {
        if self.next_delayed > now {
            return;
        }
        let late = now - self.next_delayed;
        self.latency = self.latency - (self.latency >> 3) + (late >> 3);
        self.next_delayed = NEVER;
        while let Some((time, number)) = self.delayed.first() {
            if time > now {
                self.next_delayed = time;
                return;
            }
            self.delayed.remove(number);
            self.throttled -= 1;
            self.flows[number as usize].place = Place::Listed;
            self.old.push_back(number);
        }
    }

    /// Sets the time of the flow's next packet after a packet has left.
    fn pace(&mut self, number: u32, len: u32, now: u64, timed: bool) {
        let (params, flow) = (&self.params, &mut self.flows[number as usize]);
        if !params.pacing {
            return;
        }
        let mut len = len;
        let slow = params.max_rate.is_some_and(|rate| rate <= params.low_rate);
        if timed {
            // Only a rate that the qdisc enforces itself delays the next packet.
        } else if slow {
            flow.credit = 0;
        } else {
            len = len.max(params.quantum);
            if flow.credit > 0 {
                return;
            }
        }
        let Some(rate) = params.max_rate else { return };
        let time = u64::from(len) * SECOND;
        let mut time = time.checked_div(u64::from(rate)).unwrap_or(time);
        if time > SECOND {
            time = SECOND;
            self.stats.too_long += 1;
        }
        if flow.next_packet != 0 {
            time -= (time / 2).min(now.wrapping_sub(flow.next_packet));
        }
        flow.next_packet = now + time;
    }

    /// Dequeues a packet (`fq_dequeue`). The caller sets the watchdog.
    fn take(&mut self, now: u64) -> Option<Packet> {
        if self.load.len == 0 {
            return None;
        }
        if let Some(packet) = self.internal.pop(&mut self.store) {
            self.load.sub(pkt_len(&packet));
            return Some(packet);
        }
        self.release(now);
        let mut refilled = 0;
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let &number = list.front()?;
            let flow = &mut self.flows[number as usize];
            if flow.credit <= 0 {
                flow.credit = flow.credit.wrapping_add(self.params.quantum as i32);
                list.pop_front();
                self.old.push_back(number);
                refilled += 1;
                if refilled > self.old.len() && self.new.is_empty() {
                    refilled = 0;
                    let quantum = self.params.quantum as i32;
                    let flow = |&number: &u32| number as usize;
                    let turns = self.old.iter().map(flow);
                    let turns = turns.map(|at| idle::of_deficit(self.flows[at].credit, quantum));
                    let rounds = idle::rounds(turns);
                    for at in self.old.iter().map(flow) {
                        let credit = &mut self.flows[at].credit;
                        *credit = idle::after(*credit, quantum, rounds);
                    }
                }
                continue;
            }
            let Some((wanted, sooner)) = flow.next(&self.store) else {
                list.pop_front();
                // A new flow passes once through the old flows, so that it cannot starve them.
                if is_new && !self.old.is_empty() {
                    self.old.push_back(number);
                } else {
                    flow.place = Place::Idle;
                    flow.emptied = now;
                    self.inactive += 1;
                }
                continue;
            };
            let due = wanted.max(flow.next_packet);
            if now < due {
                list.pop_front();
                flow.next_packet = due;
                flow.place = Place::Throttled;
                self.delayed.insert(number, due);
                self.throttled += 1;
                self.stats.throttled += 1;
                self.next_delayed = self.next_delayed.min(due);
                continue;
            }
            let mut packet = flow.take(&mut self.store, sooner)?;
            if now - due > u64::from(self.params.ce_threshold) * 1000 {
                ecn::set_ce(&mut packet);
                self.stats.ce_mark += 1;
            }
            let len = pkt_len(&packet);
            self.load.sub(len);
            flow.credit = flow.credit.wrapping_sub(len as i32);
            self.pace(number, len, now, packet.departure().is_some());
            return Some(packet);
        }
    }
}

impl Qdisc for Fq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if q.waiting(self.load).len >= self.params.limit {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        let (mut packet, now) = (packet, q.now());
        let len = pkt_len(&packet);
        let mut time = now;
        if let Some(wanted) = packet.departure() {
            time = wanted;
            let horizon = now + u64::from(self.params.horizon) * 1000;
            if wanted > horizon {
                if self.params.horizon_drop != 0 {
                    self.stats.horizon_drops += 1;
                    return q.drop(packet, DropReason::QDISC_DROP);
                }
                self.stats.horizon_caps += 1;
                packet.set_departure(Some(horizon));
                time = horizon;
            }
            self.seq += 1;
        }
        if packet.priority & 15 == CONTROL {
            self.internal.push(&mut self.store, packet, time, self.seq);
            self.stats.internal += 1;
            self.load.add(len);
            return Enqueued::Queued;
        }
        let number = self.flow_of(&mut packet, q.hint, now);
        let flow = &mut self.flows[number as usize];
        if flow.len() >= self.params.flow_limit {
            self.stats.flow_limit += 1;
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        self.load.add(len);
        if flow.place == Place::Idle {
            flow.place = Place::Listed;
            self.new.push_back(number);
            if now > flow.emptied + u64::from(self.params.refill_delay) * 1000 {
                flow.credit = flow.credit.max(self.params.quantum as i32);
            }
            self.inactive -= 1;
        }
        flow.push(&mut self.store, packet, time, self.seq);
        Enqueued::Queued
    }

    fn looks_ahead(&self) -> u32 {
        u32::from(self.by_key.len() > FAR)
    }

    fn prefetch(&self, packet: &Packet, _step: u32, hint: u32) -> u32 {
        let key = packet.hash & self.params.orphan_mask;
        if packet.hash == 0 {
            return hint;
        }
        let Some(&number) = self.by_key.get(&key) else {
            return hint;
        };
        if let Some(flow) = self.flows.get(number as usize) {
            prefetch(flow);
        }
        number
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let packet = self.take(q.now());
        if packet.is_none() && self.load.len > 0 && self.next_delayed != NEVER {
            q.watchdog(self.next_delayed);
        }
        packet
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for flow in self.flows.iter_mut().chain([&mut self.internal]) {
            while let Some(packet) = flow.pop(&mut self.store) {
                out.push((packet, DropReason::QDISC_DROP));
            }
        }
        self.flows.clear();
        self.free.clear();
        self.by_key.clear();
        self.cursor = 0;
        self.new.clear();
        self.old.clear();
        self.delayed.clear();
        (self.inactive, self.throttled, self.load) = (0, 0, Load::default());
        self.next_delayed = NEVER;
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.params = self.params.clone().with(create)?;
        gone.cut(self.load.len, self.params.limit);
        // Drops the packets that would leave next. Packets that wait for their time stay.
        while self.load.len > self.params.limit {
            let Some(packet) = self.take(create.now()) else {
                gone.wake = true;
                break;
            };
            gone.drop_sent(packet);
        }
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.now = now;
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let nest = w.nest_noflag(tca::OPTIONS);
        for (ty, word) in [
            (attr::PLIMIT, params.limit),
            (attr::FLOW_PLIMIT, params.flow_limit),
            (attr::QUANTUM, params.quantum),
            (attr::INITIAL_QUANTUM, params.initial_quantum),
            (attr::RATE_ENABLE, u32::from(params.pacing)),
            (attr::FLOW_MAX_RATE, params.max_rate.unwrap_or(u32::MAX)),
            (attr::FLOW_REFILL_DELAY, params.refill_delay),
            (attr::ORPHAN_MASK, params.orphan_mask),
            (attr::LOW_RATE_THRESHOLD, params.low_rate),
            (attr::CE_THRESHOLD, params.ce_threshold),
            (attr::BUCKETS_LOG, params.buckets_log),
            (attr::TIMER_SLACK, params.timer_slack),
            (attr::HORIZON, params.horizon),
        ] {
            w.put_u32(ty, word);
        }
        w.put_u8(attr::HORIZON_DROP, params.horizon_drop);
        w.end(nest);
    }

    /// Returns `struct tc_fq_qd_stats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let stats = &self.stats;
        let slack = u64::from(self.params.timer_slack);
        let next = match self.next_delayed {
            NEVER => u64::MAX,
            next => next.wrapping_add(slack).wrapping_sub(self.now),
        };
        let flows = self.by_key.len() as u64;
        let pair = |low: u64, high: u64| low | high << 32;
        let latency = self.latency.min(u64::from(u32::MAX));
        let (retransmissions, allocation_errors) = (0, 0);
        let all = [
            stats.gc_flows,
            stats.internal,
            retransmissions,
            stats.throttled,
            stats.flow_limit,
            stats.too_long,
            allocation_errors,
            next,
            pair(flows, u64::from(self.inactive)),
            pair(u64::from(self.throttled), latency),
            stats.ce_mark,
            stats.horizon_drops,
            stats.horizon_caps,
        ];
        Some(all.iter().flat_map(|long| long.to_le_bytes()).collect())
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hhf`: heavy-hitter filter, which detects flows that send much and gives them a smaller share.
//!
//! Mirrors net/sched/sch_hhf.c (Estan and Varghese, 2002). Parameters: `limit` (packets, default
//! 1000), `quantum` (bytes, at least 256, default the largest frame), `hh_limit` (largest number of
//! heavy hitters, default and at most 2048), `reset_timeout` (microseconds after which the counters
//! restart, default 40 ms), `admit_bytes` (bytes in that time from which on a flow is heavy,
//! default 131072), `evict_timeout` (microseconds without packets after which a heavy flow is
//! evicted, default 1 s), `non_hh_weight` (weight of the other flows relative to the heavy ones,
//! default 2). Over the limit, the oldest packet of the heavy flows is dropped (QDISC_OVERLIMIT).
//!
//! Flows are hashed with a seed from the device's generator.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, hhf as attr};
use weir_netlink::{Error, Policy, Rule, Strictness, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::idle;
use super::{
    Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, packet_hash, pkt_len, words,
};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("hhf", create)
};

/// Number of lists of heavy flows (`HH_FLOWS_CNT`).
const FLOWS: usize = 1024;
/// Number of counter arrays (`HHF_ARRAYS_CNT`).
const ARRAYS: usize = 4;
/// Counters per array (`HHF_ARRAYS_LEN`).
const LEN: usize = 1024;
const MASK: u32 = 0x3ff;

static POLICY: Policy = policy! { max attr::MAX;
    attr::BACKLOG_LIMIT => Rule::u32(),
    attr::QUANTUM => Rule::u32(),
    attr::HH_FLOWS_LIMIT => Rule::u32().max(2 * FLOWS as u64),
    attr::RESET_TIMEOUT => Rule::u32(),
    attr::ADMIT_BYTES => Rule::u32(),
    attr::EVICT_TIMEOUT => Rule::u32(),
    attr::NON_HH_WEIGHT => Rule::u32(),
};

/// Numbers of the two buckets.
const HEAVY: usize = 0;
const OTHERS: usize = 1;

#[derive(Debug, Clone)]
struct Params {
    limit: u32,
    quantum: u32,
    flows_limit: u32,
    reset_timeout: u32,
    admit: u32,
    evict_timeout: u32,
    weight: u32,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    hash: u32,
    seen: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    queue: VecDeque<Packet>,
    deficit: i32,
    listed: bool,
}

/// The state of the qdisc.
struct Hhf {
    params: Params,
    buckets: [Bucket; 2],
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// Heavy flows by the last bits of their hash.
    flows: Vec<Vec<Flow>>,
    current: u32,
    total: u32,
    flows_over: u32,
    counters: Vec<[u32; ARRAYS]>,
    reset_at: u64,
    seed: Option<u32>,
    load: Load,
    over_limit: u32,
}

impl Params {
    /// Applies the parameters of a request.
    fn with(mut self, create: &Create<'_>) -> Result<Self, Error> {
        let Some(options) = create.options else {
            return Ok(self);
        };
        let tb = options.parse(&POLICY, Strictness::Liberal)?;
        for (ty, word) in [
            (attr::BACKLOG_LIMIT, &mut self.limit),
            (attr::QUANTUM, &mut self.quantum),
            (attr::HH_FLOWS_LIMIT, &mut self.flows_limit),
            (attr::RESET_TIMEOUT, &mut self.reset_timeout),
            (attr::ADMIT_BYTES, &mut self.admit),
            (attr::EVICT_TIMEOUT, &mut self.evict_timeout),
            (attr::NON_HH_WEIGHT, &mut self.weight),
        ] {
            if let Some(value) = tb.u32(ty)? {
                *word = value;
            }
        }
        self.quantum = self.quantum.max(256);
        let most = u64::from(self.quantum) * u64::from(self.weight);
        if most == 0 || most > i32::MAX as u64 {
            return Err(Error::new(EINVAL));
        }
        Ok(self)
    }
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let params = Params {
        limit: 1000,
        quantum: create.psched_mtu(),
        flows_limit: 2 * FLOWS as u32,
        reset_timeout: 40_000,
        admit: 131_072,
        evict_timeout: 1_000_000,
        weight: 2,
    };
    Ok(Box::new(Hhf {
        params: params.with(create)?,
        buckets: Default::default(),
        new: VecDeque::new(),
        old: VecDeque::new(),
        flows: vec![Vec::new(); FLOWS],
        current: 0,
        total: 0,
        flows_over: 0,
        counters: vec![[0; ARRAYS]; LEN],
        reset_at: create.now(),
        seed: None,
        load: Load::default(),
        over_limit: 0,
    }))
}

impl Hhf {
    fn weight(&self, bucket: usize) -> i32 {
        let weight = if bucket == HEAVY {
            1
        } else {
            self.params.weight
        };
        weight.wrapping_mul(self.params.quantum) as i32
    }

    /// Returns whether a flow is known as heavy. Evicts expired flows of its list, except the last
    /// of the list (`seek_list`).
    fn is_heavy(&mut self, hash: u32, now: u64) -> bool {
        let list = &mut self.flows[(hash & MASK) as usize];
        let evict = u64::from(self.params.evict_timeout) * 1000;
        let mut at = 0;
        while at < list.len() {
            if list[at].seen + evict < now {
                if at + 1 == list.len() {
                    return false;
                }
                list.remove(at);
                self.current -= 1;
            } else if list[at].hash == hash {
                list[at].seen = now;
                return true;
            } else {
                at += 1;
            }
        }
        false
    }

    /// Records a flow as heavy. Returns false if there are too many (`alloc_new_hh`).
    fn admit(&mut self, hash: u32, now: u64) -> bool {
        let list = &mut self.flows[(hash & MASK) as usize];
        let evict = u64::from(self.params.evict_timeout) * 1000;
        let flow = Flow { hash, seen: now };
        if let Some(old) = list.iter_mut().find(|old| old.seen + evict < now) {
            *old = flow;
        } else if self.current >= self.params.flows_limit {
            self.flows_over += 1;
            return false;
        } else {
            list.push(flow);
            self.current += 1;
        }
        self.total += 1;
        true
    }

    /// Returns the bucket of a packet (`hhf_classify`).
    fn bucket_of(&mut self, packet: &mut Packet, q: &mut QueueCx<'_, '_, '_>) -> usize {
        let now = q.now();
        if self.reset_at + u64::from(self.params.reset_timeout) * 1000 < now {
            self.counters.fill([0; ARRAYS]);
            self.reset_at = now;
        }
        let seed = match self.seed {
            Some(seed) => seed,
            None => *self.seed.insert(q.random()),
        };
        let mixed = u64::from(packet_hash(packet) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed >> 32) as u32;
        if self.is_heavy(hash, now) {
            return HEAVY;
        }
        let [a, b, c] = [hash & MASK, (hash >> 10) & MASK, (hash >> 20) & MASK];
        let places = [a, b, c, (a ^ b ^ c) ^ (hash >> 30)].map(|place| place as usize);
        let counters = places.iter().enumerate();
        let least = counters
            .map(|(array, place)| self.counters[*place][array])
            .min();
        let least = least.unwrap_or(0).wrapping_add(pkt_len(packet));
        if least > self.params.admit {
            return if self.admit(hash, now) { HEAVY } else { OTHERS };
        }
        for (array, place) in places.iter().enumerate() {
            let counter = &mut self.counters[*place][array];
            *counter = least.max(*counter);
        }
        OTHERS
    }

    /// Removes the packet to drop and returns it with its bucket (`hhf_drop`).
    fn drop_first(&mut self) -> Option<(usize, Packet)> {
        let from = usize::from(self.buckets[HEAVY].queue.is_empty());
        let packet = self.buckets[from].queue.pop_front()?;
        self.load.sub(pkt_len(&packet));
        Some((from, packet))
    }

    /// Skips the rounds in which no bucket may send.
    #[cold]
    fn skip_idle(&mut self) {
        let turns = self.old.iter();
        let rounds =
            idle::rounds(turns.map(|&number| {
                idle::of_deficit(self.buckets[number].deficit, self.weight(number))
            }));
        for &number in &self.old {
            let (deficit, weight) = (self.buckets[number].deficit, self.weight(number));
            self.buckets[number].deficit = idle::after(deficit, weight, rounds);
        }
    }

    /// Dequeues a packet (`hhf_dequeue`).
    fn take(&mut self) -> Option<Packet> {
        let mut refilled = 0;
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            if self.buckets[number].deficit <= 0 {
                list.pop_front();
                self.old.push_back(number);
                self.buckets[number].deficit = self.buckets[number]
                    .deficit
                    .wrapping_add(self.weight(number));
                refilled += 1;
                if refilled > self.old.len() && self.new.is_empty() {
                    self.skip_idle();
                    refilled = 0;
                }
                continue;
            }
            let bucket = &mut self.buckets[number];
            let Some(packet) = bucket.queue.pop_front() else {
                list.pop_front();
                if is_new && !self.old.is_empty() {
                    self.old.push_back(number);
                } else {
                    bucket.listed = false;
                }
                continue;
            };
            bucket.deficit = bucket.deficit.wrapping_sub(pkt_len(&packet) as i32);
            self.load.sub(pkt_len(&packet));
            return Some(packet);
        }
    }
}

impl Qdisc for Hhf {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let mut packet = packet;
        let number = self.bucket_of(&mut packet, q);
        let weight = self.weight(number);
        self.load.add(pkt_len(&packet));
        let bucket = &mut self.buckets[number];
        bucket.queue.push_back(packet);
        if !std::mem::replace(&mut bucket.listed, true) {
            bucket.deficit = weight;
            match number {
                HEAVY => self.old.push_back(number),
                _ => self.new.push_back(number),
            }
        }
        if q.waiting(self.load).len <= self.params.limit {
            return Enqueued::Queued;
        }
        self.over_limit += 1;
        let Some((from, dropped)) = self.drop_first() else {
            return Enqueued::Queued;
        };
        q.drop(dropped, DropReason::QDISC_OVERLIMIT);
        match from == number {
            true => Enqueued::Congested,
            false => Enqueued::Queued,
        }
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.take()
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for bucket in &mut self.buckets {
            let all = std::mem::take(bucket).queue.into_iter();
            out.extend(all.map(|packet| (packet, DropReason::QDISC_DROP)));
        }
        self.new.clear();
        self.old.clear();
        self.load = Load::default();
        self.flows.iter_mut().for_each(Vec::clear);
        self.current = 0;
        self.counters.fill([0; ARRAYS]);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.params = self.params.clone().with(create)?;
        gone.cut(self.load.len, self.params.limit);
        while self.load.len > self.params.limit
            && let Some(packet) = self.take()
        {
            gone.drop_sent(packet);
        }
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let nest = w.nest_noflag(tca::OPTIONS);
        for (ty, word) in [
            (attr::BACKLOG_LIMIT, params.limit),
            (attr::QUANTUM, params.quantum),
            (attr::HH_FLOWS_LIMIT, params.flows_limit),
            (attr::RESET_TIMEOUT, params.reset_timeout),
            (attr::ADMIT_BYTES, params.admit),
            (attr::EVICT_TIMEOUT, params.evict_timeout),
            (attr::NON_HH_WEIGHT, params.weight),
        ] {
            w.put_u32(ty, word);
        }
        w.end(nest);
    }

    /// Returns `struct tc_hhf_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        Some(words(&[
            self.over_limit,
            self.flows_over,
            self.total,
            self.current,
        ]))
    }
}

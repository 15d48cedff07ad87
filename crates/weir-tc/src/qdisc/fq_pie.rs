// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fq_pie`: a queue per flow, each with a PIE controller, served by deficit round robin, new flows
//! first.
//!
//! Mirrors net/sched/sch_fq_pie.c. Parameters: those of `pie`, with a default `limit` of 10240;
//! `flows` (queues, 1 to 65536, default 1024, fixed at creation), `quantum` (bytes, 256 to 1048576,
//! default the largest frame), `memory_limit` (bytes, default 32 MiB; packets above it are counted,
//! not dropped), `ecn_prob` (percent up to which packets are marked, default 10).
//!
//! A packet's queue is named by its priority if that has the qdisc's handle, else by a filter, else
//! by its flow hash. A controller runs at exact times; the runs of a flow are made up for when a
//! packet of the flow is enqueued or dequeued. The qdisc has no classes.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, fq_pie as attr};
use weir_netlink::{Error, Policy, Rule, Strictness, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::idle;
use super::pie::{MAX_PROB, Params, Stats, Vars};
use super::store::{Chain, Store};
use super::{
    Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, ecn, flow_of, pkt_len, truesize,
    words,
};
use crate::block::Block;
use crate::rate::ns_to_ticks;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("fq_pie", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::LIMIT => Rule::u32(),
    attr::FLOWS => Rule::u32(),
    attr::TARGET => Rule::u32(),
    attr::TUPDATE => Rule::u32(),
    attr::ALPHA => Rule::u32(),
    attr::BETA => Rule::u32(),
    attr::QUANTUM => Rule::u32().range(1, 1 << 20),
    attr::MEMORY_LIMIT => Rule::u32(),
    attr::ECN_PROB => Rule::u32(),
    attr::ECN => Rule::u32(),
    attr::BYTEMODE => Rule::u32(),
    attr::DQ_RATE_ESTIMATOR => Rule::u32(),
};

#[derive(Debug, Clone, Default)]
struct Flow {
    vars: Vars,
    queue: Chain,
    backlog: u32,
    deficit: i32,
    listed: bool,
    /// Number of runs of its controller.
    runs: u64,
}

/// The state of the qdisc.
struct FqPie {
    block: Arc<Block>,
    handle: u32,
    params: Params,
    quantum: u32,
    memory_limit: u32,
    ecn_prob: u32,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    store: Store,
    load: Load,
    memory: u32,
    over_memory: u32,
    new_flows: u32,
    stats: Stats,
    /// Time in ns of the first run of the controllers with the current period.
    first: u64,
    /// Number of runs before that.
    before: u64,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mtu = create.psched_mtu();
    let mut qdisc = FqPie {
        block: create.block(),
        handle: create.handle,
        params: Params {
            limit: 10 * 1024,
            ..Params::new(mtu)
        },
        quantum: mtu.clamp(256, 1 << 20),
        memory_limit: 32 << 20,
        ecn_prob: 10,
        flows: Vec::new(),
        new: VecDeque::new(),
        old: VecDeque::new(),
        store: Store::default(),
        load: Load::default(),
        memory: 0,
        over_memory: 0,
        new_flows: 0,
        stats: Stats::default(),
        first: create.now() + 500_000_000,
        before: 0,
    };
    let flows = qdisc.set(create, &mut Gone::default())?;
    qdisc.flows = vec![Flow::default(); flows.unwrap_or(1024) as usize];
    Ok(Box::new(qdisc))
}

impl Flow {
    /// Makes up for the runs of the controller that are due.
    fn catch_up(&mut self, params: &Params, runs: u64) {
        while self.runs < runs {
            self.vars.adapt(params, self.backlog);
            self.runs += 1;
            if self.backlog == 0 && self.vars.is_settled() {
                self.runs = runs;
            }
        }
    }
}

impl FqPie {
    /// Returns the number of runs that are due by `now`.
    fn runs(&self, now: u64) -> u64 {
        let Some(since) = now.checked_sub(self.first) else {
            return self.before;
        };
        self.before + 1 + since.checked_div(self.period()).unwrap_or(0)
    }

    /// Returns the period of the controllers in ns; 0 if they do not run.
    fn period(&self) -> u64 {
        u64::from(self.params.tupdate) * 1000
    }

    /// Changes the options. Returns the requested number of flows.
    fn set(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<Option<u32>, Error> {
        let Some(options) = create.options else {
            return Ok(None);
        };
        let tb = options.parse(&POLICY, Strictness::Strict)?;
        let flows = tb.u32(attr::FLOWS)?;
        if let Some(flows) = flows {
            if !self.flows.is_empty() {
                let message = "sch_fq_pie: Number of flows cannot be changed";
                return Err(Error::msg(EINVAL, message));
            }
            if !(1..=65536).contains(&flows) {
                let message = "sch_fq_pie: Number of flows must range in [1..65536]";
                return Err(Error::msg(EINVAL, message));
            }
        }
        let (now, runs) = (create.now(), self.runs(create.now()));
        for flow in &mut self.flows {
            flow.catch_up(&self.params, runs);
        }
        // A new period starts at the next run.
        if let Some(since) = now.checked_sub(self.first) {
            let passed = since.checked_div(self.period());
            let more = passed.map(|passed| (passed + 1) * self.period());
            self.first = more.map_or(u64::MAX, |more| self.first.saturating_add(more));
            self.before = runs;
        }
        if let Some(us) = tb.u32(attr::TARGET)? {
            self.params.target = ns_to_ticks(u64::from(us) * 1000);
        }
        for (ty, word) in [
            (attr::LIMIT, &mut self.params.limit),
            (attr::TUPDATE, &mut self.params.tupdate),
            (attr::ALPHA, &mut self.params.alpha),
            (attr::BETA, &mut self.params.beta),
            (attr::QUANTUM, &mut self.quantum),
            (attr::MEMORY_LIMIT, &mut self.memory_limit),
            (attr::ECN_PROB, &mut self.ecn_prob),
            (attr::ECN, &mut self.params.ecn),
            (attr::BYTEMODE, &mut self.params.bytemode),
            (attr::DQ_RATE_ESTIMATOR, &mut self.params.dq_rate),
        ] {
            if let Some(value) = tb.u32(ty)? {
                *word = value;
            }
        }
        self.quantum = self.quantum.max(256);
        self.params.ecn &= 0xff;
        self.params.bytemode &= 0xff;
        self.params.dq_rate &= 0xff;
        gone.cut(self.load.len, self.params.limit);
        while self.load.len > self.params.limit
            && let Some(packet) = self.pop(now)
        {
            gone.drop_sent(packet);
        }
        Ok(flows)
    }

    /// Skips the rounds in which no flow may send.
    #[cold]
    fn skip_idle(&mut self) {
        let (quantum, flows) = (self.quantum as i32, &mut self.flows);
        let turns = self.old.iter().map(|&at| flows[at as usize].deficit);
        let rounds = idle::rounds(turns.map(|deficit| idle::of_deficit(deficit, quantum)));
        for &at in &self.old {
            let deficit = &mut flows[at as usize].deficit;
            *deficit = idle::after(*deficit, quantum, rounds);
        }
    }

    /// Removes the next packet at `now`, in ns.
    fn pop(&mut self, now: u64) -> Option<Packet> {
        let runs = self.runs(now);
        let mut refilled = 0;
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = &mut self.flows[number as usize];
            if flow.deficit <= 0 {
                flow.deficit = flow.deficit.wrapping_add(self.quantum as i32);
                list.pop_front();
                self.old.push_back(number);
                refilled += 1;
                if refilled > self.old.len() && self.new.is_empty() {
                    self.skip_idle();
                    refilled = 0;
                }
                continue;
            }
            let Some((packet, arrived)) = flow.queue.pop(&mut self.store) else {
                list.pop_front();
                // A new flow passes once through the old flows, so that it cannot starve them.
                if is_new && !self.old.is_empty() {
                    self.old.push_back(number);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            let len = pkt_len(&packet);
            // The runs that are due saw the queue with this packet in it.
            flow.catch_up(&self.params, runs);
            flow.deficit = flow.deficit.wrapping_sub(len as i32);
            flow.backlog = flow.backlog.wrapping_sub(len);
            self.load.sub(len);
            self.memory = self.memory.wrapping_sub(truesize(&packet));
            flow.vars
                .departed(&self.params, flow.backlog, len, arrived, ns_to_ticks(now));
            return Some(packet);
        }
    }
}

impl Qdisc for FqPie {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let flows = (&*self.block, self.handle, self.flows.len() as u32);
        let (mut packet, number) = match flow_of(flows, q, packet) {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let (len, size) = (pkt_len(&packet), truesize(&packet));
        let runs = self.runs(q.now());
        let flow = &mut self.flows[number as usize];
        flow.catch_up(&self.params, runs);
        let reason = if q.waiting(self.load).len >= self.params.limit {
            self.stats.overlimit += 1;
            Some(DropReason::QDISC_OVERLIMIT)
        } else {
            self.over_memory += u32::from(self.memory > self.memory_limit.wrapping_add(size));
            let few = (MAX_PROB / 100).wrapping_mul(u64::from(self.ecn_prob));
            if !flow.vars.drop_early(&self.params, flow.backlog, len, q) {
                None
            } else if self.params.ecn != 0 && flow.vars.prob <= few && ecn::set_ce(&mut packet) {
                self.stats.ecn_mark += 1;
                None
            } else {
                Some(DropReason::QDISC_CONGESTED)
            }
        };
        if let Some(reason) = reason {
            self.stats.dropped += 1;
            flow.vars.accu_prob = 0;
            q.drop(packet, reason);
            return Enqueued::Congested;
        }
        self.stats.packets_in += 1;
        self.memory = self.memory.wrapping_add(size);
        self.load.add(len);
        flow.backlog = flow.backlog.wrapping_add(len);
        flow.queue
            .push(&mut self.store, packet, ns_to_ticks(q.now()));
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum as i32;
            self.new.push_back(number);
            self.new_flows += 1;
        }
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.pop(q.now())
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for flow in &mut self.flows {
            while let Some((packet, _)) = flow.queue.pop(&mut self.store) {
                out.push((packet, DropReason::QDISC_DROP));
            }
            // The learnt state of the controller stays (`pie_vars_init`).
            flow.vars.restart();
            (flow.backlog, flow.listed) = (0, false);
        }
        self.new.clear();
        self.old.clear();
        (self.load, self.memory) = (Load::default(), 0);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.set(create, gone)?;
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let nest = w.nest(tca::OPTIONS);
        for (ty, word) in [
            (attr::LIMIT, params.limit),
            (attr::FLOWS, self.flows.len() as u32),
            (attr::TARGET, params.target_us()),
            (attr::TUPDATE, params.tupdate),
            (attr::ALPHA, params.alpha),
            (attr::BETA, params.beta),
            (attr::QUANTUM, self.quantum),
            (attr::MEMORY_LIMIT, self.memory_limit),
            (attr::ECN_PROB, self.ecn_prob),
            (attr::ECN, params.ecn),
            (attr::BYTEMODE, params.bytemode),
            (attr::DQ_RATE_ESTIMATOR, params.dq_rate),
        ] {
            w.put_u32(ty, word);
        }
        w.end(nest);
    }

    /// Returns `struct tc_fq_pie_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let stats = &self.stats;
        Some(words(&[
            stats.packets_in,
            stats.dropped,
            stats.overlimit,
            self.over_memory,
            stats.ecn_mark,
            self.new_flows,
            self.new.len() as u32,
            self.old.len() as u32,
            self.memory,
        ]))
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fq_codel`: a queue per flow, each under CoDel's control law, served by deficit round robin, new
//! flows first.
//!
//! Mirrors net/sched/sch_fq_codel.c; RFC 8290. Parameters: `limit` (packets, default 10240),
//! `flows` (queues, 1 to 65536, default 1024, fixed at creation), `target`, `interval`,
//! `ce_threshold` (microseconds, as in `codel`; `ce_threshold` with a mask and a value of the DS
//! field), `quantum` (bytes, 256 to 1048576, default the largest frame), `ecn` (default on),
//! `memory_limit` (bytes, default 32 MiB), `drop_batch` (packets dropped at once from the fullest
//! queue over a limit, default 64).
//!
//! A packet's queue is named by its priority if that has the qdisc's handle, else by a filter, else
//! by its flow hash. The control law drops with QDISC_CONGESTED, the limits with QDISC_OVERLIMIT. A
//! packet counts as much memory as its buffer has capacity.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, fq_codel as attr, h};
use weir_netlink::{Error, Policy, Rule, TcMsg, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::codel::{self, Params, Source, Stats, Vars};
use super::idle;
use super::store::{Chain, Store};
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, flow_of, pkt_len, table,
    truesize, words,
};
use crate::block::Block;
use crate::counters::Queue;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    filters: true,
    ..Ops::new("fq_codel", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::TARGET => Rule::u32(),
    attr::LIMIT => Rule::u32(),
    attr::INTERVAL => Rule::u32(),
    attr::ECN => Rule::u32(),
    attr::FLOWS => Rule::u32(),
    attr::QUANTUM => Rule::u32(),
    attr::CE_THRESHOLD => Rule::u32(),
    attr::DROP_BATCH_SIZE => Rule::u32(),
    attr::MEMORY_LIMIT => Rule::u32(),
    attr::CE_THRESHOLD_SELECTOR => Rule::u8(),
    attr::CE_THRESHOLD_MASK => Rule::u8(),
};

/// Largest quantum (`FQ_CODEL_QUANTUM_MAX`).
const QUANTUM_MAX: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    queue: Chain,
    deficit: i32,
    vars: Vars,
    /// Whether the flow is in a list.
    listed: bool,
}

/// The state of the qdisc.
struct FqCodel {
    block: Arc<Block>,
    handle: u32,
    flows: Vec<Flow>,
    /// Backlog of each flow, in bytes.
    backlogs: Vec<u32>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    store: Store,
    load: Load,
    limit: u32,
    quantum: u32,
    drop_batch: u32,
    memory_limit: u32,
    memory: u32,
    params: Params,
    stats: Stats,
    over_limit: u32,
    over_memory: u32,
    new_flows: u32,
    now: u64,
}

struct Waiting<'a, F> {
    queue: &'a mut Chain,
    backlog: &'a mut u32,
    store: &'a mut Store,
    load: &'a mut Load,
    memory: &'a mut u32,
    drop: &'a mut F,
}

impl<F: FnMut(Packet)> Source for Waiting<'_, F> {
    fn next(&mut self) -> Option<(Packet, u32)> {
        let (packet, time) = self.queue.pop(self.store)?;
        let len = pkt_len(&packet);
        *self.backlog = self.backlog.wrapping_sub(len);
        self.load.sub(len);
        *self.memory = self.memory.wrapping_sub(truesize(&packet));
        Some((packet, time as u32))
    }

    fn backlog(&self) -> u32 {
        self.load.backlog
    }

    fn drop(&mut self, packet: Packet) {
        (self.drop)(packet);
    }
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mtu = create.psched_mtu().min(QUANTUM_MAX);
    let mut qdisc = FqCodel {
        block: create.block(),
        handle: create.handle,
        flows: Vec::new(),
        backlogs: Vec::new(),
        new: VecDeque::new(),
        old: VecDeque::new(),
        store: Store::default(),
        load: Load::default(),
        limit: 10 * 1024,
        quantum: mtu.clamp(256, QUANTUM_MAX),
        drop_batch: 64,
        memory_limit: 32 << 20,
        memory: 0,
        params: Params {
            ecn: true,
            ..Params::new(mtu)
        },
        stats: Stats::default(),
        over_limit: 0,
        over_memory: 0,
        new_flows: 0,
        now: create.now(),
    };
    let flows = table(create.options, &POLICY)?.u32(attr::FLOWS)?;
    if create.options.is_some() {
        qdisc.change(create, &mut Gone::default())?;
    }
    let flows = flows.unwrap_or(1024) as usize;
    qdisc.flows = vec![Flow::default(); flows];
    qdisc.backlogs = vec![0; flows];
    Ok(Box::new(qdisc))
}

impl FqCodel {
    /// Drops packets from the fullest queue and returns its index (`fq_codel_drop`).
    fn drop_from_fullest(&mut self, q: &mut QueueCx<'_, '_, '_>) -> usize {
        let (mut fullest, mut most) = (0, 0);
        for (at, &backlog) in self.backlogs.iter().enumerate() {
            if backlog > most {
                (fullest, most) = (at, backlog);
            }
        }
        let flow = &mut self.flows[fullest];
        let (mut octets, mut count) = (0, 0);
        while count < self.drop_batch
            && (count == 0 || octets < most / 2)
            && let Some((packet, _)) = flow.queue.pop(&mut self.store)
        {
            let len = pkt_len(&packet);
            octets = octets.wrapping_add(len);
            count += 1;
            self.memory = self.memory.wrapping_sub(truesize(&packet));
            self.load.sub(len);
            q.drop(packet, DropReason::QDISC_OVERLIMIT);
        }
        flow.vars.count = flow.vars.count.wrapping_add(count);
        self.backlogs[fullest] = self.backlogs[fullest].wrapping_sub(octets);
        fullest
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

    /// Dequeues a packet (`fq_codel_dequeue`). `drop` gets the packets dropped by the control law.
    fn take(&mut self, now: u64, mut drop: impl FnMut(Packet)) -> Option<Packet> {
        let mut refilled = 0;
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit = flow.deficit.wrapping_add(self.quantum as i32);
                list.pop_front();
                self.old.push_back(at);
                refilled += 1;
                if refilled > self.old.len() && self.new.is_empty() {
                    self.skip_idle();
                    refilled = 0;
                }
                continue;
            }
            let mut waiting = Waiting {
                queue: &mut flow.queue,
                backlog: &mut self.backlogs[at as usize],
                store: &mut self.store,
                load: &mut self.load,
                memory: &mut self.memory,
                drop: &mut drop,
            };
            let (vars, stats) = (&mut flow.vars, &mut self.stats);
            let packet = codel::dequeue(&self.params, vars, stats, now, &mut waiting);
            let Some(packet) = packet else {
                list.pop_front();
                // A new flow passes once through the old flows, so that it cannot starve them.
                if is_new && !self.old.is_empty() {
                    self.old.push_back(at);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            flow.deficit = flow.deficit.wrapping_sub(pkt_len(&packet) as i32);
            return Some(packet);
        }
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let flows = (&*self.block, self.handle, self.flows.len() as u32);
        let (packet, at) = match flow_of(flows, q, packet) {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let len = pkt_len(&packet);
        self.memory = self.memory.wrapping_add(truesize(&packet));
        let flow = &mut self.flows[at as usize];
        let time = u64::from(codel::units(q.now()));
        flow.queue.push(&mut self.store, packet, time);
        self.backlogs[at as usize] = self.backlogs[at as usize].wrapping_add(len);
        self.load.add(len);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum as i32;
            self.new.push_back(at);
            self.new_flows = self.new_flows.wrapping_add(1);
        }
        let over_memory = self.memory > self.memory_limit;
        if q.waiting(self.load).len <= self.limit && !over_memory {
            return Enqueued::Queued;
        }
        let before = self.load.len;
        let fullest = self.drop_from_fullest(q);
        let dropped = before - self.load.len;
        self.over_limit = self.over_limit.wrapping_add(dropped);
        if over_memory {
            self.over_memory = self.over_memory.wrapping_add(dropped);
        }
        match fullest == at as usize {
            true => Enqueued::Congested,
            false => Enqueued::Queued,
        }
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.take(q.now(), |packet| {
            q.drop(packet, DropReason::QDISC_CONGESTED);
        })
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for flow in &mut self.flows {
            while let Some((packet, _)) = flow.queue.pop(&mut self.store) {
                out.push((packet, DropReason::QDISC_DROP));
            }
            *flow = Flow::default();
        }
        self.backlogs.fill(0);
        (self.load, self.memory) = (Load::default(), 0);
        self.new.clear();
        self.old.clear();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let tb = table(create.options, &POLICY)?;
        if let Some(flows) = tb.u32(attr::FLOWS)?
            && (!self.flows.is_empty() || !(1..=65536).contains(&flows))
        {
            return Err(Error::new(EINVAL));
        }
        if let Some(quantum) = tb.u32(attr::QUANTUM)? {
            let quantum = quantum.max(256);
            if quantum > QUANTUM_MAX {
                return Err(Error::msg(EINVAL, "Invalid quantum"));
            }
            self.quantum = quantum;
        }
        let params = &mut self.params;
        if let Some(us) = tb.u32(attr::TARGET)? {
            params.target = codel::from_us(us);
        }
        if let Some(us) = tb.u32(attr::CE_THRESHOLD)? {
            params.ce_threshold = codel::from_us(us);
        }
        if let Some(selector) = tb.u8(attr::CE_THRESHOLD_SELECTOR)? {
            params.ce_selector = selector;
        }
        if let Some(mask) = tb.u8(attr::CE_THRESHOLD_MASK)? {
            params.ce_mask = mask;
        }
        if let Some(us) = tb.u32(attr::INTERVAL)? {
            params.interval = codel::from_us(us);
        }
        if let Some(limit) = tb.u32(attr::LIMIT)? {
            self.limit = limit;
        }
        if let Some(ecn) = tb.u32(attr::ECN)? {
            params.ecn = ecn != 0;
        }
        if let Some(batch) = tb.u32(attr::DROP_BATCH_SIZE)? {
            self.drop_batch = batch.max(1);
        }
        if let Some(limit) = tb.u32(attr::MEMORY_LIMIT)? {
            self.memory_limit = limit.min(1 << 31);
        }
        let limit = match self.memory > self.memory_limit {
            true => 0,
            false => self.limit,
        };
        gone.cut(self.load.len, limit);
        while self.load.len > self.limit || self.memory > self.memory_limit {
            let drops = &mut gone.drops;
            let drop = |packet| drops.push((packet, DropReason::QDISC_CONGESTED));
            let Some(packet) = self.take(create.now(), drop) else {
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
        w.put_u32(attr::TARGET, codel::to_us(params.target));
        w.put_u32(attr::LIMIT, self.limit);
        w.put_u32(attr::INTERVAL, codel::to_us(params.interval));
        w.put_u32(attr::ECN, u32::from(params.ecn));
        w.put_u32(attr::QUANTUM, self.quantum);
        w.put_u32(attr::DROP_BATCH_SIZE, self.drop_batch);
        w.put_u32(attr::MEMORY_LIMIT, self.memory_limit);
        w.put_u32(attr::FLOWS, self.flows.len() as u32);
        if params.ce_threshold != codel::NO_THRESHOLD {
            w.put_u32(attr::CE_THRESHOLD, codel::to_us(params.ce_threshold));
            w.put_u8(attr::CE_THRESHOLD_SELECTOR, params.ce_selector);
            w.put_u8(attr::CE_THRESHOLD_MASK, params.ce_mask);
        }
        w.end(nest);
    }

    /// Returns `struct tc_fq_codel_xstats` of the qdisc.
    fn app_stats(&self) -> Option<Vec<u8>> {
        Some(words(&[
            u32::from(attr::XSTATS_QDISC),
            self.stats.maxpacket,
            self.over_limit,
            self.stats.ecn_mark,
            self.new_flows,
            self.new.len() as u32,
            self.old.len() as u32,
            self.stats.ce_mark,
            self.memory,
            self.over_memory,
        ]))
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn classes(&self) -> Vec<u32> {
        let flows = (1..).zip(&self.flows);
        flows
            .filter(|(_, flow)| flow.listed)
            .map(|(class, _)| class)
            .collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.handle |= class & h::MIN_MASK;
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let at = class as usize - 1;
        let flow = self.flows.get(at)?;
        let mut app = words(&[
            u32::from(attr::XSTATS_CLASS),
            flow.deficit as u32,
            codel::to_us(flow.vars.ldelay),
            flow.vars.count,
            flow.vars.lastcount,
            u32::from(flow.vars.dropping),
            flow.vars.drop_next_us(self.now) as u32,
        ]);
        // The union has the length of the qdisc's statistics.
        app.resize(40, 0);
        Some(ClassStats {
            queue: Queue {
                qlen: flow.queue.len(),
                backlog: self.backlogs[at],
                ..Queue::default()
            },
            app: Some(app),
            queue_only: true,
            ..ClassStats::default()
        })
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `codel`: a queue that drops packets when its sojourn time stays above a target. Its control law
//! is also used by qdiscs with many such queues.
//!
//! Mirrors net/sched/sch_codel.c and include/net/codel_impl.h; RFC 8289. Times are counted in units
//! of 1024 ns, in 32 bits. Parameters: `target` (microseconds, default 5 ms), `interval`
//! (microseconds, default 100 ms), `limit` (packets, default 1000), `ecn` (mark instead of
//! dropping; default off), `ce_threshold` (microseconds; mark every packet that has waited longer;
//! default none).
//!
//! The control law drops with QDISC_CONGESTED, the limit with QDISC_OVERLIMIT.

use std::collections::VecDeque;

use weir_netlink::tca::{self, codel as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::ecn;
use super::{Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, pkt_len, table};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("codel", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::TARGET => Rule::u32(),
    attr::LIMIT => Rule::u32(),
    attr::INTERVAL => Rule::u32(),
    attr::ECN => Rule::u32(),
    attr::CE_THRESHOLD => Rule::u32(),
};

/// A `ce_threshold` that never marks (`CODEL_DISABLED_THRESHOLD`).
pub const NO_THRESHOLD: u32 = i32::MAX as u32;

/// Converts a time of the stack's clock to units of the control law (`codel_get_time`).
#[inline]
pub const fn units(ns: u64) -> u32 {
    (ns >> 10) as u32
}

/// Converts microseconds to units.
pub const fn from_us(us: u32) -> u32 {
    ((us as u64 * 1000) >> 10) as u32
}

/// Converts units to microseconds (`codel_time_to_us`).
pub const fn to_us(units: u32) -> u32 {
    (((units as u64) << 10) / 1000) as u32
}

/// Returns whether time `a` is after time `b`.
#[inline]
const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Parameters of the control law (`struct codel_params`).
#[derive(Debug, Clone, Copy)]
pub struct Params {
    /// Target for the sojourn time, in units.
    pub target: u32,
    /// Interval, in units.
    pub interval: u32,
    /// Threshold for marking every packet, in units.
    pub ce_threshold: u32,
    /// Length of the largest frame, in bytes. Nothing is dropped while the backlog is at most this.
    pub mtu: u32,
    /// Whether to mark instead of dropping.
    pub ecn: bool,
    /// Value of the DS field under `ce_mask` that is required for marking over the threshold.
    pub ce_selector: u8,
    /// Mask for `ce_selector`.
    pub ce_mask: u8,
}

impl Params {
    /// Returns the defaults.
    pub fn new(mtu: u32) -> Self {
        Self {
            target: units(5_000_000),
            interval: units(100_000_000),
            ce_threshold: NO_THRESHOLD,
            mtu,
            ecn: false,
            ce_selector: 0,
            ce_mask: 0,
        }
    }
}

/// The state of one queue (`struct codel_vars`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Vars {
    /// Drops since the dropping state began.
    pub count: u32,
    /// Value of `count` when the dropping state last began.
    pub lastcount: u32,
    /// Whether it is in the dropping state.
    pub dropping: bool,
    rec_inv_sqrt: u16,
    first_above: u32,
    /// Time of the next drop.
    pub drop_next: u32,
    /// Sojourn time of the last packet.
    pub ldelay: u32,
}

impl Vars {
    /// Makes one step of Newton's iteration for 1 / sqrt(count).
    fn newton_step(&mut self) {
        let invsqrt = u64::from(self.rec_inv_sqrt) << 16;
        let invsqrt2 = (invsqrt * invsqrt) >> 32;
        let value = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(invsqrt2));
        let value = (value >> 2).wrapping_mul(invsqrt) >> 31;
        self.rec_inv_sqrt = (value >> 16) as u16;
    }

    /// Returns the time interval / sqrt(count) after `time`.
    fn control_law(&self, time: u32, interval: u32) -> u32 {
        time.wrapping_add(super::scale(interval, u32::from(self.rec_inv_sqrt) << 16))
    }

    /// Returns the microseconds until the next drop, as shown.
    pub fn drop_next_us(&self, now: u64) -> i32 {
        if !self.dropping {
            return 0;
        }
        let delta = self.drop_next.wrapping_sub(units(now)) as i32;
        to_us(delta.unsigned_abs()) as i32 * delta.signum()
    }
}

/// Counters that a qdisc keeps for all its queues (`struct codel_stats`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Length of the largest packet, in bytes.
    pub maxpacket: u32,
    /// Packets marked instead of dropped.
    pub ecn_mark: u32,
    /// Packets marked over the threshold.
    pub ce_mark: u32,
}

/// A queue under the control law.
pub trait Source {
    /// Removes the first packet and returns it with its time of arrival, in units.
    fn next(&mut self) -> Option<(Packet, u32)>;
    /// Returns the backlog of the whole qdisc, in bytes.
    fn backlog(&self) -> u32;
    /// Drops a packet.
    fn drop(&mut self, packet: Packet);
}

/// One run of the control law over a queue.
struct Law<'a, S> {
    params: &'a Params,
    vars: &'a mut Vars,
    stats: &'a mut Stats,
    now: u32,
    source: &'a mut S,
}

impl<S: Source> Law<'_, S> {
    /// Removes the next packet and returns whether it may be dropped (`codel_should_drop`).
    fn next(&mut self) -> (Option<Packet>, bool) {
        let Some((packet, arrived)) = self.source.next() else {
            self.vars.first_above = 0;
            return (None, false);
        };
        let (vars, now) = (&mut *self.vars, self.now);
        vars.ldelay = now.wrapping_sub(arrived);
        self.stats.maxpacket = self.stats.maxpacket.max(pkt_len(&packet));
        if after(self.params.target, vars.ldelay) || self.source.backlog() <= self.params.mtu {
            vars.first_above = 0;
            return (Some(packet), false);
        }
        if vars.first_above == 0 {
            vars.first_above = now.wrapping_add(self.params.interval);
            return (Some(packet), false);
        }
        let drop = after(now, vars.first_above);
        (Some(packet), drop)
    }

    /// Marks the packet if ECN is on and its sender supports it.
    fn mark(&mut self, packet: &mut Option<Packet>) -> bool {
        let marked = self.params.ecn && packet.as_mut().is_some_and(ecn::set_ce);
        self.stats.ecn_mark = self.stats.ecn_mark.wrapping_add(u32::from(marked));
        marked
    }

    fn drop(&mut self, packet: Option<Packet>) {
        if let Some(packet) = packet {
            self.source.drop(packet);
        }
    }

    fn run(&mut self) -> Option<Packet> {
        let (now, interval) = (self.now, self.params.interval);
        let (mut packet, mut drop) = self.next();
        if packet.is_none() {
            self.vars.dropping = false;
            return None;
        }
        if self.vars.dropping {
            if !drop {
                self.vars.dropping = false;
            }
            while self.vars.dropping && !after(self.vars.drop_next, now) {
                self.vars.count = self.vars.count.wrapping_add(1);
                self.vars.newton_step();
                if self.mark(&mut packet) {
                    self.vars.drop_next = self.vars.control_law(self.vars.drop_next, interval);
                    break;
                }
                self.drop(packet.take());
                (packet, drop) = self.next();
                if drop {
                    self.vars.drop_next = self.vars.control_law(self.vars.drop_next, interval);
                } else {
                    self.vars.dropping = false;
                }
            }
        } else if drop {
            if !self.mark(&mut packet) {
                self.drop(packet.take());
                packet = self.next().0;
            }
            let vars = &mut *self.vars;
            vars.dropping = true;
            let delta = vars.count.wrapping_sub(vars.lastcount);
            let since = now.wrapping_sub(vars.drop_next);
            if delta > 1 && after(interval.wrapping_mul(16), since) {
                vars.count = delta;
                vars.newton_step();
            } else {
                vars.count = 1;
                vars.rec_inv_sqrt = u16::MAX;
            }
            vars.lastcount = vars.count;
            vars.drop_next = vars.control_law(now, interval);
        }
        if let Some(packet) = &mut packet
            && after(self.vars.ldelay, self.params.ce_threshold)
        {
            let wanted = self.params.ce_mask == 0
                || ecn::ds_field(packet)
                    .is_some_and(|ds| ds & self.params.ce_mask == self.params.ce_selector);
            if wanted && ecn::set_ce(packet) {
                self.stats.ce_mark = self.stats.ce_mark.wrapping_add(1);
            }
        }
        packet
    }
}

/// Dequeues a packet under the control law (`codel_dequeue`).
pub fn dequeue<S: Source>(
    params: &Params,
    vars: &mut Vars,
    stats: &mut Stats,
    now: u64,
    source: &mut S,
) -> Option<Packet> {
    Law {
        params,
        vars,
        stats,
        now: units(now),
        source,
    }
    .run()
}

/// The state of the qdisc.
struct Codel {
    queue: VecDeque<(Packet, u32)>,
    backlog: u32,
    limit: u32,
    params: Params,
    vars: Vars,
    stats: Stats,
    over_limit: u32,
    /// Time of the last request for statistics.
    now: u64,
}

struct Waiting<'a, 'b, 'c, 'g> {
    queue: &'a mut VecDeque<(Packet, u32)>,
    backlog: &'a mut u32,
    q: &'a mut QueueCx<'b, 'c, 'g>,
}

impl Source for Waiting<'_, '_, '_, '_> {
    fn next(&mut self) -> Option<(Packet, u32)> {
        let next = self.queue.pop_front()?;
        *self.backlog = self.backlog.wrapping_sub(pkt_len(&next.0));
        Some(next)
    }

    fn backlog(&self) -> u32 {
        *self.backlog
    }

    fn drop(&mut self, packet: Packet) {
        self.q.drop(packet, DropReason::QDISC_CONGESTED);
    }
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mut codel = Codel {
        queue: VecDeque::new(),
        backlog: 0,
        limit: 1000,
        params: Params::new(create.psched_mtu().min(1 << 20)),
        vars: Vars::default(),
        stats: Stats::default(),
        over_limit: 0,
        now: create.now(),
    };
    if create.options.is_some() {
        codel.change(create, &mut Gone::default())?;
    }
    Ok(Box::new(codel))
}

impl Qdisc for Codel {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if q.waiting(self.load()).len >= self.limit {
            self.over_limit += 1;
            return q.drop(packet, DropReason::QDISC_OVERLIMIT);
        }
        self.backlog = self.backlog.wrapping_add(pkt_len(&packet));
        self.queue.push_back((packet, units(q.now())));
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now();
        let mut waiting = Waiting {
            queue: &mut self.queue,
            backlog: &mut self.backlog,
            q,
        };
        let (vars, stats) = (&mut self.vars, &mut self.stats);
        dequeue(&self.params, vars, stats, now, &mut waiting)
    }

    fn load(&self) -> Load {
        Load {
            len: self.queue.len() as u32,
            backlog: self.backlog,
        }
    }

    fn reset(&mut self, out: &mut Drops) {
        let all = self.queue.drain(..);
        out.extend(all.map(|(packet, _)| (packet, DropReason::QDISC_DROP)));
        self.backlog = 0;
        self.vars = Vars::default();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let tb = table(create.options, &POLICY)?;
        let params = &mut self.params;
        if let Some(us) = tb.u32(attr::TARGET)? {
            params.target = from_us(us);
        }
        if let Some(us) = tb.u32(attr::CE_THRESHOLD)? {
            params.ce_threshold = from_us(us);
        }
        if let Some(us) = tb.u32(attr::INTERVAL)? {
            params.interval = from_us(us);
        }
        if let Some(limit) = tb.u32(attr::LIMIT)? {
            self.limit = limit;
        }
        if let Some(ecn) = tb.u32(attr::ECN)? {
            params.ecn = ecn != 0;
        }
        gone.counted += u32::from(gone.cut(self.queue.len() as u32, self.limit));
        while self.queue.len() > self.limit as usize
            && let Some((packet, _)) = self.queue.pop_front()
        {
            self.backlog = self.backlog.wrapping_sub(pkt_len(&packet));
            gone.drops.push((packet, DropReason::QDISC_OVERLIMIT));
            gone.counted += 1;
        }
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.now = now;
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_u32(attr::TARGET, to_us(self.params.target));
        w.put_u32(attr::LIMIT, self.limit);
        w.put_u32(attr::INTERVAL, to_us(self.params.interval));
        w.put_u32(attr::ECN, u32::from(self.params.ecn));
        if self.params.ce_threshold != NO_THRESHOLD {
            w.put_u32(attr::CE_THRESHOLD, to_us(self.params.ce_threshold));
        }
        w.end(nest);
    }

    /// Returns `struct tc_codel_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        Some(super::words(&[
            self.stats.maxpacket,
            self.vars.count,
            self.vars.lastcount,
            to_us(self.vars.ldelay),
            self.vars.drop_next_us(self.now) as u32,
            self.over_limit,
            self.stats.ecn_mark,
            u32::from(self.vars.dropping),
            self.stats.ce_mark,
        ]))
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pie`: drops packets with a probability that a controller adapts to the delay. The controller is
//! also used by `fq_pie`.
//!
//! Mirrors net/sched/sch_pie.c; RFC 8033. Parameters: `target` (microseconds, default 15 ms),
//! `limit` (packets, default 1000), `tupdate` (microseconds between two adaptations, default 15
//! ms), `alpha` and `beta` (sixteenths, default 2 and 20), `ecn` (mark while the probability is
//! below a tenth), `bytemode` (drop small packets less often), `dq_rate_estimator` (compute the
//! delay from the departure rate instead of the packets' times).
//!
//! Time is in ticks of 64 ns. Adaptations happen at exact times and are made up for at the next
//! packet or request. Early drops have the reason QDISC_CONGESTED, drops over the limit
//! QDISC_OVERLIMIT.

use std::collections::VecDeque;

use weir_netlink::tca::{self, pie as attr};
use weir_netlink::{Error, Policy, Rule, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::ecn;
use super::{Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, pkt_len, table};
use crate::rate::{ns_to_ticks, ticks_to_ns};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("pie", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::TARGET => Rule::u32(),
    attr::LIMIT => Rule::u32(),
    attr::TUPDATE => Rule::u32(),
    attr::ALPHA => Rule::u32(),
    attr::BETA => Rule::u32(),
    attr::ECN => Rule::u32(),
    attr::BYTEMODE => Rule::u32(),
    attr::DQ_RATE_ESTIMATOR => Rule::u32(),
};

/// Probability 1 (`MAX_PROB`).
pub const MAX_PROB: u64 = u64::MAX >> 8;
/// Backlog in bytes from which on the departure rate is measured (`QUEUE_THRESHOLD`).
const THRESHOLD: u32 = 16384;
/// Binary scale of the departure rate (`PIE_SCALE`).
const SCALE: u32 = 8;
/// Ticks per second (`PSCHED_TICKS_PER_SEC`).
const TICKS: u64 = 15_625_000;

/// Parameters of the controller (`struct pie_params`).
#[derive(Debug, Clone)]
pub struct Params {
    /// Target delay, in ticks.
    pub target: u64,
    /// Period of adaptations, in microseconds.
    pub tupdate: u32,
    /// Limit, in packets.
    pub limit: u32,
    /// Weight of the distance from the target, in sixteenths.
    pub alpha: u32,
    /// Weight of the change of the delay, in sixteenths.
    pub beta: u32,
    /// Whether to mark instead of dropping.
    pub ecn: u32,
    /// Whether small packets are dropped less often.
    pub bytemode: u32,
    /// Whether the delay is computed from the departure rate.
    pub dq_rate: u32,
    /// Length of the largest frame, in bytes.
    pub mtu: u32,
}

impl Params {
    /// Returns the defaults.
    pub fn new(mtu: u32) -> Self {
        Self {
            target: ns_to_ticks(15_000_000),
            tupdate: 15_000,
            limit: 1000,
            alpha: 2,
            beta: 20,
            ecn: 0,
            bytemode: 0,
            dq_rate: 0,
            mtu: mtu.clamp(1, 1 << 20),
        }
    }

    /// Returns the target in microseconds, as shown.
    pub fn target_us(&self) -> u32 {
        ticks_to_ns(self.target) as u32 / 1000
    }
}

/// The state of one queue (`struct pie_vars`).
#[derive(Debug, Clone)]
pub struct Vars {
    /// Delay, in ticks.
    pub qdelay: u64,
    qdelay_old: u64,
    burst_time: u64,
    dq_at: Option<u64>,
    /// Drop probability; [`MAX_PROB`] is 1.
    pub prob: u64,
    /// Sum of the probabilities since the last drop.
    pub accu_prob: u64,
    dq_count: Option<u64>,
    /// Departure rate in bytes per tick, scaled.
    pub dq_rate: u32,
}

impl Default for Vars {
    fn default() -> Self {
        let mut vars = Self {
            qdelay: 0,
            qdelay_old: 0,
            burst_time: 0,
            dq_at: None,
            prob: 0,
            accu_prob: 0,
            dq_count: None,
            dq_rate: 0,
        };
        vars.restart();
        vars
    }
}

impl Vars {
    /// Restarts the controller (`pie_vars_init`). The probability is kept.
    pub fn restart(&mut self) {
        self.burst_time = ns_to_ticks(150_000_000);
        self.dq_at = None;
        self.accu_prob = 0;
        self.dq_count = None;
        self.dq_rate = 0;
    }

    /// Returns whether to drop a packet that arrives while `backlog` bytes wait (`pie_drop_early`).
    pub fn drop_early(
        &mut self,
        params: &Params,
        backlog: u32,
        len: u32,
        q: &mut QueueCx<'_, '_, '_>,
    ) -> bool {
        let low = self.qdelay < params.target / 2 && self.prob < MAX_PROB / 5;
        if self.burst_time > 0 || low || backlog < 2 * params.mtu {
            return false;
        }
        let prob = match params.bytemode != 0 && len <= params.mtu {
            true => u64::from(len) * (self.prob / u64::from(params.mtu)),
            false => self.prob,
        };
        self.accu_prob = match prob {
            0 => 0,
            prob => self.accu_prob.wrapping_add(prob),
        };
        if self.accu_prob < MAX_PROB / 100 * 85 {
            return false;
        }
        if self.accu_prob >= MAX_PROB / 2 * 17 {
            return true;
        }
        let drawn = u64::from(q.random()) << 32 | u64::from(q.random());
        let drop = drawn >> 8 < prob;
        if drop {
            self.accu_prob = 0;
        }
        drop
    }

    /// Updates the delay when a packet that arrived at `arrived` leaves and `backlog` bytes stay
    /// (`pie_process_dequeue`).
    pub fn departed(&mut self, params: &Params, backlog: u32, len: u32, arrived: u64, now: u64) {
        let mut passed = 0;
        if params.dq_rate == 0 {
            self.qdelay = if backlog > 0 {
                now.wrapping_sub(arrived)
            } else {
                0
            };
            if let Some(at) = self.dq_at {
                passed = (now - at) as u32;
            }
            self.dq_at = Some(now);
            if passed == 0 {
                return;
            }
        } else {
            if backlog >= THRESHOLD && self.dq_count.is_none() {
                (self.dq_at, self.dq_count) = (Some(now), Some(0));
            }
            let Some(count) = &mut self.dq_count else {
                return;
            };
            *count += u64::from(len);
            if *count < u64::from(THRESHOLD) {
                return;
            }
            let octets = (*count << SCALE) as u32;
            passed = (now - self.dq_at.unwrap_or(now)) as u32;
            if passed == 0 {
                return;
            }
            let rate = octets / passed;
            self.dq_rate = match self.dq_rate {
                0 => rate,
                old => old - (old >> 3) + (rate >> 3),
            };
            if backlog < THRESHOLD {
                self.dq_count = None;
            } else {
                (self.dq_count, self.dq_at) = (Some(0), Some(now));
            }
        }
        self.burst_time = self.burst_time.saturating_sub(u64::from(passed));
    }

    /// Adapts the probability (`pie_calculate_probability`).
    pub fn adapt(&mut self, params: &Params, backlog: u32) {
        let (qdelay, qdelay_old) = if params.dq_rate != 0 {
            let old = self.qdelay;
            self.qdelay_old = old;
            let octets = backlog.wrapping_shl(SCALE);
            (
                u64::from(octets.checked_div(self.dq_rate).unwrap_or(0)),
                old,
            )
        } else {
            (self.qdelay, self.qdelay_old)
        };
        let mut update = !(qdelay == 0 && backlog != 0);
        let mut alpha = u64::from(params.alpha).wrapping_mul(MAX_PROB / TICKS) >> 4;
        let mut beta = u64::from(params.beta).wrapping_mul(MAX_PROB / TICKS) >> 4;
        if self.prob < MAX_PROB / 10 {
            (alpha, beta) = (alpha >> 1, beta >> 1);
            let mut power = 100;
            while self.prob < MAX_PROB / power && power <= 1_000_000 {
                (alpha, beta) = (alpha >> 2, beta >> 2);
                power *= 10;
            }
        }
        let mut delta = alpha.wrapping_mul(qdelay.wrapping_sub(params.target)) as i64;
        delta = delta.wrapping_add(beta.wrapping_mul(qdelay.wrapping_sub(qdelay_old)) as i64);
        let old = self.prob;
        if delta > (MAX_PROB / 50) as i64 && self.prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100 * 2) as i64;
        }
        if qdelay > ns_to_ticks(250_000_000) {
            delta = delta.wrapping_add((MAX_PROB / 50) as i64);
        }
        self.prob = self.prob.wrapping_add(delta as u64);
        if delta > 0 {
            if self.prob < old {
                self.prob = MAX_PROB;
                update = false;
            }
        } else if self.prob > old {
            self.prob = 0;
        }
        if qdelay == 0 && qdelay_old == 0 && update {
            self.prob -= self.prob / 64;
        }
        self.qdelay = qdelay;
        let low = params.target / 2;
        if self.qdelay < low
            && self.qdelay_old < low
            && self.prob == 0
            && (params.dq_rate == 0 || self.dq_rate > 0)
        {
            self.restart();
        }
        if params.dq_rate == 0 {
            self.qdelay_old = qdelay;
        }
    }

    /// Returns whether further adaptations of an empty queue would change nothing.
    pub fn is_settled(&self) -> bool {
        self.prob == 0 && self.qdelay == 0 && self.qdelay_old == 0
    }
}

/// The counters of the qdisc (`struct pie_stats`).
#[derive(Debug, Default)]
pub struct Stats {
    /// Packets enqueued.
    pub packets_in: u32,
    /// Packets dropped for either reason.
    pub dropped: u32,
    /// Packets dropped over the limit.
    pub overlimit: u32,
    /// Packets marked.
    pub ecn_mark: u32,
    /// Largest number of waiting packets.
    pub maxq: u32,
}

/// The state of the qdisc.
struct Pie {
    queue: VecDeque<(Packet, u64)>,
    backlog: u32,
    params: Params,
    vars: Vars,
    stats: Stats,
    /// Time of the next adaptation, in ns; none with a `tupdate` of 0.
    adapt: Option<u64>,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mut pie = Pie {
        queue: VecDeque::new(),
        backlog: 0,
        params: Params::new(create.psched_mtu()),
        vars: Vars::default(),
        stats: Stats::default(),
        adapt: Some(create.now() + 500_000_000),
    };
    pie.change(create, &mut Gone::default())?;
    Ok(Box::new(pie))
}

impl Pie {
    /// Makes the adaptations that are due by now. Their inputs have not changed since they were
    /// due.
    fn catch_up(&mut self, now: u64) {
        while let Some(due) = self.adapt.filter(|due| *due <= now) {
            self.vars.adapt(&self.params, self.backlog);
            let period = u64::from(self.params.tupdate) * 1000;
            self.adapt = (period > 0).then_some(due + period);
            if period > 0 && self.backlog == 0 && self.vars.is_settled() {
                self.adapt = Some(now - (now - due) % period + period);
            }
        }
    }
}

impl Qdisc for Pie {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (mut packet, now) = (packet, q.now());
        self.catch_up(now);
        let len = pkt_len(&packet);
        let waiting = q.waiting(self.load());
        let reason = if waiting.len >= self.params.limit {
            self.stats.overlimit += 1;
            Some(DropReason::QDISC_OVERLIMIT)
        } else if !self.vars.drop_early(&self.params, waiting.backlog, len, q) {
            None
        } else if self.params.ecn != 0
            && self.vars.prob <= MAX_PROB / 10
            && ecn::set_ce(&mut packet)
        {
            self.stats.ecn_mark += 1;
            None
        } else {
            Some(DropReason::QDISC_CONGESTED)
        };
        if let Some(reason) = reason {
            self.stats.dropped += 1;
            self.vars.accu_prob = 0;
            return q.drop(packet, reason);
        }
        self.stats.packets_in += 1;
        self.stats.maxq = self.stats.maxq.max(waiting.len);
        self.backlog = self.backlog.wrapping_add(len);
        self.queue.push_back((packet, ns_to_ticks(now)));
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now();
        self.catch_up(now);
        let (packet, arrived) = self.queue.pop_front()?;
        let len = pkt_len(&packet);
        self.backlog = self.backlog.wrapping_sub(len);
        self.vars
            .departed(&self.params, self.backlog, len, arrived, ns_to_ticks(now));
        Some(packet)
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
        self.vars.restart();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.catch_up(create.now());
        let tb = table(create.options, &POLICY)?;
        let params = &mut self.params;
        if let Some(us) = tb.u32(attr::TARGET)? {
            params.target = ns_to_ticks(u64::from(us) * 1000);
        }
        for (ty, word) in [
            (attr::TUPDATE, &mut params.tupdate),
            (attr::LIMIT, &mut params.limit),
            (attr::ALPHA, &mut params.alpha),
            (attr::BETA, &mut params.beta),
            (attr::ECN, &mut params.ecn),
            (attr::BYTEMODE, &mut params.bytemode),
            (attr::DQ_RATE_ESTIMATOR, &mut params.dq_rate),
        ] {
            if let Some(value) = tb.u32(ty)? {
                *word = value;
            }
        }
        // The kernel keeps one byte.
        params.ecn &= 0xff;
        params.bytemode &= 0xff;
        params.dq_rate &= 0xff;
        gone.counted += u32::from(gone.cut(self.queue.len() as u32, params.limit));
        while self.queue.len() > params.limit as usize
            && let Some((packet, _)) = self.queue.pop_front()
        {
            self.backlog = self.backlog.wrapping_sub(pkt_len(&packet));
            gone.drops.push((packet, DropReason::QDISC_OVERLIMIT));
            gone.counted += 1;
        }
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.catch_up(now);
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let nest = w.nest_noflag(tca::OPTIONS);
        for (ty, word) in [
            (attr::TARGET, params.target_us()),
            (attr::LIMIT, params.limit),
            (attr::TUPDATE, params.tupdate),
            (attr::ALPHA, params.alpha),
            (attr::BETA, params.beta),
            (attr::ECN, params.ecn),
            (attr::BYTEMODE, params.bytemode),
            (attr::DQ_RATE_ESTIMATOR, params.dq_rate),
        ] {
            w.put_u32(ty, word);
        }
        w.end(nest);
    }

    /// Returns `struct tc_pie_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let (vars, stats) = (&self.vars, &self.stats);
        let estimates = self.params.dq_rate != 0;
        let rate = match estimates {
            true => ((u64::from(vars.dq_rate) * TICKS) >> SCALE) as u32,
            false => 0,
        };
        let mut app = (vars.prob << 8).to_ne_bytes().to_vec();
        app.extend(super::words(&[
            ticks_to_ns(vars.qdelay) as u32 / 1000,
            rate,
            u32::from(estimates),
            stats.packets_in,
            stats.dropped,
            stats.overlimit,
            stats.maxq,
            stats.ecn_mark,
        ]));
        Some(app)
    }
}

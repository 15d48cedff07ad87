// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `red`: random early detection. Its average and decision are also used by other kinds.
//!
//! Mirrors net/sched/sch_red.c and include/net/red.h (Floyd and Jacobson, 1993). Parameters:
//! `limit` (bytes), `min` and `max` (bytes of the average queue), `avpkt`, `burst` and `bandwidth`
//! (tc computes the weight and the table of idle times from them), `probability` (at max), `ecn`
//! (mark instead of dropping), `harddrop` (drop above max even with `ecn`), `nodrop` (enqueue
//! packets that cannot be marked), `adaptive` (adapt the probability every half second). Early
//! drops have the reason QDISC_CONGESTED.
//!
//! Packets about to be dropped early and packets that were marked each pass the filters of a shared
//! block (`qevent early_drop block`, `qevent mark block`), which may drop, steal or copy them.
//!
//! It has one class, `:1`, with a `bfifo` of the limit under it. Offload is not supported.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, red as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Strictness, Table, TcRedQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::qevent::{self, Event};
use super::{Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Peek, Qdisc, QueueCx, ecn, words};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    ..Ops::new("red", create)
};

/// Length of the table of idle times (`RED_STAB_SIZE`).
pub const STAB: usize = 256;

/// Flag: mark instead of dropping; flags are `TC_RED_*`.
pub const ECN: u8 = 1;
/// Flag: drop above the maximum even with [`ECN`].
pub const HARDDROP: u8 = 2;
const ADAPTIVE: u8 = 4;
const NODROP: u8 = 8;
const HISTORIC: u8 = ECN | HARDDROP | ADAPTIVE;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcRedQopt::LEN as u16),
    attr::STAB => Rule::unspec(STAB as u16),
    attr::MAX_P => Rule::u32(),
    attr::FLAGS => Rule::bitfield32((HISTORIC | NODROP) as u32),
    attr::EARLY_DROP_BLOCK => Rule::u32(),
    attr::MARK_BLOCK => Rule::u32(),
};

/// Period of adaptations, in ns.
const ADAPT: u64 = 500_000_000;
/// One hundredth of 2^32.
const PERCENT: u32 = 42_949_673;

/// The two thresholds and related parameters (`struct red_parms`).
#[derive(Debug, Clone)]
pub struct Params {
    /// Lower threshold in bytes, scaled by the weight.
    pub min: u32,
    /// Upper threshold in bytes, scaled by the weight.
    pub max: u32,
    /// Probability at `max`, in units of 2^-32.
    pub max_p: u32,
    /// Logarithm of the weight.
    pub wlog: u8,
    /// Logarithm of the probability, as configured.
    pub plog: u8,
    /// Logarithm of a cell of idle time, in microseconds.
    pub cell_log: u8,
    stab: [u8; STAB],
    delta: u32,
    /// `max_p / delta`, by which random numbers are divided.
    slope: u32,
    target: (u32, u32),
}

/// The average queue length (`struct red_vars`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Vars {
    count: i32,
    drawn: u32,
    /// Average in bytes, scaled by the weight.
    pub average: u64,
    /// Time at which the queue became empty; 0 if it is not empty.
    idle_since: u64,
}

/// The decision on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Enqueue it.
    Pass,
    /// Mark or drop it, by chance.
    Chance,
    /// Mark or drop it, because the average is above the maximum.
    Forced,
}

/// Returns the number of bits up to the highest one that is set (`fls`).
const fn bits(value: u32) -> u32 {
    32 - value.leading_zeros()
}

/// Checks parameters of a request (`red_check_params`).
pub fn check(min: u32, max: u32, wlog: u8, cell_log: u8, stab: Option<&[u8]>) -> bool {
    bits(min) + u32::from(wlog) < 32
        && bits(max) + u32::from(wlog) < 32
        && cell_log < 32
        && max >= min
        && stab.is_none_or(|stab| stab.iter().take(STAB).all(|&shift| shift < 32))
}

impl Params {
    /// Makes parameters that [`check`] has accepted (`red_set_parms`).
    pub fn new(qopt: &TcRedQopt, stab: Option<&[u8]>, max_p: u32) -> Self {
        let delta = (qopt.qth_max - qopt.qth_min).max(1);
        let max_p = match max_p {
            0 => u32::MAX
                .checked_shr(u32::from(qopt.plog))
                .unwrap_or(u32::MAX)
                .wrapping_mul(delta),
            max_p => max_p,
        };
        let mut table = [0; STAB];
        for (to, from) in table.iter_mut().zip(stab.unwrap_or_default()) {
            *to = *from;
        }
        let fifth = delta / 5;
        Self {
            min: qopt.qth_min << qopt.wlog,
            max: qopt.qth_max << qopt.wlog,
            max_p,
            wlog: qopt.wlog,
            plog: qopt.plog,
            cell_log: qopt.scell_log,
            stab: table,
            delta,
            slope: (max_p / delta).max(1),
            target: (qopt.qth_min + 2 * fifth, qopt.qth_min + 3 * fifth),
        }
    }

    /// Returns the parameters in the form in which they are shown.
    pub fn qopt(&self, limit: u32, flags: u8) -> TcRedQopt {
        TcRedQopt {
            limit,
            qth_min: self.min >> self.wlog,
            qth_max: self.max >> self.wlog,
            wlog: self.wlog,
            plog: self.plog,
            scell_log: self.cell_log,
            flags,
        }
    }

    /// Draws a uniform number below 2^32 divided by `slope` (`red_random`).
    fn draw(&self, q: &mut QueueCx<'_, '_, '_>) -> u32 {
        q.random() / self.slope
    }
}

impl Vars {
    /// Makes the initial state (`red_set_vars`).
    pub fn new() -> Self {
        Self {
            count: -1,
            ..Self::default()
        }
    }

    /// Returns the average reduced by the idle time (`red_calc_qavg_from_idle_time`).
    fn idle_average(&self, params: &Params, now: u64) -> u64 {
        let most = 255_u64 << params.cell_log;
        let idle = ((now - self.idle_since) / 1000).min(most);
        let shift = params.stab[(idle >> params.cell_log) as usize & (STAB - 1)];
        if shift > 0 {
            return self.average >> shift;
        }
        let less = self.average.wrapping_mul(idle) >> params.cell_log;
        let half = self.average >> 1;
        if less < half {
            self.average - less
        } else {
            half
        }
    }

    /// Updates the average when a packet arrives while `backlog` bytes wait (`red_calc_qavg`).
    pub fn update(&mut self, params: &Params, backlog: u32, now: u64) {
        if self.idle_since != 0 {
            self.average = self.idle_average(params, now);
        } else {
            self.update_busy(params, backlog);
        }
    }

    /// Updates the average of a queue that is not idle (`red_calc_qavg_no_idle_time`).
    pub fn update_busy(&mut self, params: &Params, backlog: u32) {
        let less = self.average >> params.wlog;
        self.average = self
            .average
            .wrapping_add(u64::from(backlog))
            .wrapping_sub(less);
    }

    /// Resets the average (`red_set_vars`).
    pub fn restart(&mut self) {
        (self.average, self.count) = (0, -1);
    }

    /// Copies the average and the idle time from a state that is shared.
    pub fn share(&mut self, other: &Self) {
        (self.average, self.idle_since) = (other.average, other.idle_since);
    }

    /// Restarts the count of packets, because the average is below the minimum.
    pub fn pass(&mut self) {
        self.count = -1;
    }

    /// Returns whether the queue is idle.
    pub fn is_idle(&self) -> bool {
        self.idle_since != 0
    }

    /// Records that the queue became empty.
    pub fn start_idle(&mut self, now: u64) {
        self.idle_since = now;
    }

    /// Records that the queue is no longer empty.
    pub fn end_idle(&mut self) {
        self.idle_since = 0;
    }

    /// Decides on a packet by the average (`red_action`).
    pub fn action(&mut self, params: &Params, q: &mut QueueCx<'_, '_, '_>) -> Action {
        self.action_at(self.average, params, q)
    }

    /// Decides on a packet by another average than its own.
    pub fn action_at(
        &mut self,
        average: u64,
        params: &Params,
        q: &mut QueueCx<'_, '_, '_>,
    ) -> Action {
        if average < u64::from(params.min) {
            self.count = -1;
            return Action::Pass;
        }
        if average >= u64::from(params.max) {
            self.count = -1;
            return Action::Forced;
        }
        self.count += 1;
        if self.count == 0 {
            self.drawn = params.draw(q);
            return Action::Pass;
        }
        let above = (average - u64::from(params.min)) >> params.wlog;
        if above.wrapping_mul(self.count as u64) < u64::from(self.drawn) {
            return Action::Pass;
        }
        self.count = 0;
        self.drawn = params.draw(q);
        Action::Chance
    }

    /// Adapts the probability (`red_adaptative_algo`).
    fn adapt(&self, params: &mut Params, now: u64) {
        let average = match self.idle_since {
            0 => self.average,
            _ => self.idle_average(params, now),
        };
        let average = average >> params.wlog;
        let max_p = params.max_p;
        if average > u64::from(params.target.1) && max_p <= 50 * PERCENT {
            params.max_p += PERCENT.min(max_p / 4);
        } else if average < u64::from(params.target.0) && max_p >= PERCENT {
            params.max_p = max_p / 10 * 9;
        }
        // The quotient is rounded here and truncated where it is first set, as in Linux.
        let rounded = params.max_p.saturating_add(params.delta / 2) / params.delta;
        params.slope = rounded.max(1);
    }
}

/// Counts of marked and dropped packets (`struct red_stats`).
#[derive(Debug, Default)]
struct Stats {
    dropped: u32,
    marked: u32,
    limit: u32,
}

/// The state of the qdisc.
struct Red {
    limit: u32,
    flags: u8,
    user_bits: u8,
    params: Params,
    vars: Vars,
    stats: Stats,
    /// Time of the next adaptation, in ns.
    adapt: Option<u64>,
    early_drop: Event,
    mark: Event,
    child: Leaf,
    total: Load,
}

/// The effect of congestion on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    Marked,
    Dropped,
}

struct Options {
    qopt: TcRedQopt,
    params: Params,
    /// Value and selector of the flags.
    flags: (u8, u8),
}

fn attributes<'a>(create: &Create<'a>) -> Result<Table<'a>, Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    options.parse(&POLICY, Strictness::Liberal)
}

fn parse(tb: &Table<'_>) -> Result<Options, Error> {
    let parms = tb
        .get(attr::PARMS)
        .and_then(|parms| TcRedQopt::from_bytes(parms.payload));
    let stab = tb.get(attr::STAB).map(|stab| stab.payload);
    let (Some(qopt), Some(stab)) = (parms, stab) else {
        return Err(Error::new(EINVAL));
    };
    let TcRedQopt {
        qth_min,
        qth_max,
        wlog,
        scell_log,
        ..
    } = qopt;
    if !check(qth_min, qth_max, wlog, scell_log, Some(stab)) {
        return Err(Error::new(EINVAL));
    }
    let flags = match tb.get(attr::FLAGS) {
        Some(_) if qopt.flags != 0 => {
            let message = "sch_red: flags should be passed either through qopt, or through a dedicated attribute";
            return Err(Error::msg(EINVAL, message));
        }
        Some(flags) => {
            let (value, selector) = flags.bitfield32()?;
            (value as u8, selector as u8)
        }
        None => (qopt.flags & HISTORIC, HISTORIC),
    };
    let max_p = tb.u32(attr::MAX_P)?.unwrap_or(0);
    Ok(Options {
        params: Params::new(&qopt, Some(stab), max_p),
        qopt,
        flags,
    })
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let tb = attributes(create)?;
    let options = parse(&tb)?;
    let mut red = Red {
        limit: 0,
        flags: 0,
        user_bits: 0,
        params: options.params.clone(),
        vars: Vars::new(),
        stats: Stats::default(),
        adapt: None,
        early_drop: Event::default(),
        mark: Event::default(),
        child: Leaf::default(),
        total: Load::default(),
    };
    red.set(options, create, &mut Gone::default())?;
    let early_drop = qevent::index(&tb, attr::EARLY_DROP_BLOCK)?;
    let mark = qevent::index(&tb, attr::MARK_BLOCK)?;
    (red.early_drop, red.mark) = (Event::new(early_drop, create), Event::new(mark, create));
    Ok(Box::new(red))
}

impl Red {
    fn set(&mut self, options: Options, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let (value, selector) = options.flags;
        let flags = (self.flags & !selector) | value;
        if flags & NODROP != 0 && flags & ECN == 0 {
            let message = "sch_red: nodrop mode is only meaningful with ECN";
            return Err(Error::msg(EINVAL, message));
        }
        let qopt = options.qopt;
        self.flags = flags;
        self.user_bits = qopt.flags & !HISTORIC;
        self.limit = qopt.limit;
        if qopt.limit > 0 {
            let old = self
                .child
                .replace(create.bfifo(qopt.limit), &mut self.total, gone);
            gone.nodes.extend(old);
        }
        self.params = options.params;
        self.vars.restart();
        let now = create.now();
        self.adapt = (qopt.flags & ADAPTIVE != 0).then_some(now + ADAPT);
        if self.total.len == 0 {
            self.vars.start_idle(now);
        }
        Ok(())
    }

    /// Makes the adaptations that are due by now.
    fn catch_up(&mut self, now: u64) {
        while let Some(due) = self.adapt.filter(|due| *due <= now) {
            let before = self.params.max_p;
            self.vars.adapt(&mut self.params, due);
            self.adapt = Some(due + ADAPT);
            if self.params.max_p == before && now - due > 1000 * ADAPT {
                // The probability will not change any more. Skip to the last adaptation that is
                // due.
                self.adapt = Some(now - (now - due) % ADAPT + ADAPT);
            }
        }
    }

    /// Marks a packet or decides to drop it.
    fn congested(&mut self, action: Action, packet: &mut Packet) -> Fate {
        let marks =
            self.flags & ECN != 0 && (action == Action::Chance || self.flags & HARDDROP == 0);
        if marks && ecn::set_ce(packet) {
            self.stats.marked = self.stats.marked.wrapping_add(1);
            return Fate::Marked;
        }
        if marks && self.flags & NODROP != 0 {
            return Fate::Passed;
        }
        self.stats.dropped = self.stats.dropped.wrapping_add(1);
        Fate::Dropped
    }
}

impl Qdisc for Red {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (mut packet, now) = (packet, q.now());
        self.catch_up(now);
        self.vars.update(&self.params, self.total.backlog, now);
        self.vars.end_idle();
        let action = self.vars.action(&self.params, q);
        if action != Action::Pass {
            q.note().overlimits += 1;
            let fate = self.congested(action, &mut packet);
            let handled = match fate {
                Fate::Passed => Ok(packet),
                Fate::Marked => self.mark.handle(q, packet),
                Fate::Dropped => self.early_drop.handle(q, packet),
            };
            packet = match handled {
                Ok(packet) => packet,
                Err(ended) => return ended,
            };
            if fate == Fate::Dropped {
                q.drop(packet, DropReason::QDISC_CONGESTED);
                return Enqueued::Congested;
            }
        }
        let (result, _) = self.child.enqueue(q, packet, &mut self.total);
        if matches!(result, Enqueued::Dropped | Enqueued::Congested) {
            self.stats.limit = self.stats.limit.wrapping_add(1);
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now();
        self.catch_up(now);
        let (packet, _) = self.child.dequeue(q, &mut self.total);
        if packet.is_none() && !self.vars.is_idle() {
            self.vars.start_idle(now);
        }
        packet
    }

    fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.child.front(q, &mut self.total))
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.child.purge(&mut self.total, out);
        self.vars = Vars::new();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let tb = attributes(create)?;
        self.early_drop.validate(&tb, attr::EARLY_DROP_BLOCK)?;
        self.mark.validate(&tb, attr::MARK_BLOCK)?;
        self.set(parse(&tb)?, create, gone)
    }

    fn settle(&mut self, now: u64) {
        self.catch_up(now);
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        let flags = (self.flags & HISTORIC) | self.user_bits;
        w.put_fixed(attr::PARMS, &self.params.qopt(self.limit, flags));
        w.put_u32(attr::MAX_P, self.params.max_p);
        w.put_bitfield32(
            attr::FLAGS,
            u32::from(self.flags),
            u32::from(HISTORIC | NODROP),
        );
        self.mark.dump(attr::MARK_BLOCK, w);
        self.early_drop.dump(attr::EARLY_DROP_BLOCK, w);
        w.end(nest);
    }

    /// Returns `struct tc_red_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let other = 0;
        let stats = &self.stats;
        Some(words(&[stats.dropped, stats.limit, other, stats.marked]))
    }

    fn slot(&self, _class: u32) -> Option<&Leaf> {
        Some(&self.child)
    }

    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        Some((&mut self.child, &mut self.total))
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        let events = [&self.early_drop, &self.mark].into_iter();
        events.filter_map(Event::block).cloned().collect()
    }
}

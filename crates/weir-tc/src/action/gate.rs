// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gate`: passes packets at certain times and drops them at others, according to a cyclic list
//! (IEEE 802.1Qci).
//!
//! Mirrors net/sched/act_gate.c.
//!
//! Parameters:
//! - the control action of packets that pass (default of tc: pipe);
//! - `sched-entry STATE INTERVAL [PRIORITY [OCTETS]]`, in order: open or closed, nanoseconds (from
//!   1), a priority that is only stored and shown, and how many bytes pass during the entry
//!   (default -1: no limit);
//! - `base-time` (nanoseconds of the clock, default 0) and `cycle-time` (nanoseconds, default: the
//!   sum of the intervals): the first entry begins at the base time, or if that is past, at the
//!   next whole cycle after it;
//! - `clockid`: TAI (the default) and REALTIME are the wall-clock time of the stack's clock;
//!   MONOTONIC and BOOTTIME are the stack's clock, which starts at 0;
//! - `cycle-time-ext`, `priority` and `flags`, which are only stored and shown.
//!
//! A replace keeps the parameters it does not give.
//!
//! Before the first entry begins, all packets pass. A packet that arrives at the instant at which
//! an entry begins gets that entry. As in Linux, the entries then follow each other by their
//! intervals alone, whatever the cycle time. A packet at a closed gate counts as a drop, one beyond
//! the byte limit as a drop and an overlimit.
//!
//! Linux advances the entries with a timer. This code computes the current entry when a packet
//! arrives, with the same result. There are two differences from Linux: the gate stops changing at
//! times beyond 2^63 ns, where Linux's timer fires endlessly; and attributes in the list that are
//! no entries are skipped without Linux's warning.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::gate as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_sync::rcu::{Domain, Published};
use weir_sync::spin::SpinLock;

use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

#[cfg(test)]
mod tests;

/// `CLOCK_*`
mod clock {
    pub const REALTIME: i32 = 0;
    pub const MONOTONIC: i32 = 1;
    pub const BOOTTIME: i32 = 7;
    pub const TAI: i32 = 11;
}

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::exact(TcGen::LEN as u16),
    attr::PRIORITY => Rule::s32(),
    attr::ENTRY_LIST => Rule::nested_any(),
    attr::BASE_TIME => Rule::u64(),
    attr::CYCLE_TIME => Rule::u64(),
    attr::CYCLE_TIME_EXT => Rule::u64(),
    attr::FLAGS => Rule::u32(),
    attr::CLOCKID => Rule::s32(),
};

static ENTRY: Policy = policy! { max attr::ENTRY_MAX;
    attr::ENTRY_INDEX => Rule::u32(),
    attr::ENTRY_GATE => Rule::flag(),
    attr::ENTRY_INTERVAL => Rule::u32(),
    attr::ENTRY_IPV => Rule::s32(),
    attr::ENTRY_MAX_OCTETS => Rule::s32(),
};

/// An entry of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    open: bool,
    interval: u32,
    ipv: i32,
    max_octets: i32,
}

/// The parameters of a gate.
#[derive(Debug, Clone)]
struct Schedule {
    base: u64,
    cycle: u64,
    cycle_ext: u64,
    clockid: i32,
    flags: u32,
    priority: i32,
    /// The entries, at least one.
    entries: Arc<[Entry]>,
}

/// The current state of a gate.
#[derive(Debug)]
struct State {
    /// The first entry has not begun, so packets pass.
    pending: bool,
    open: bool,
    /// Bytes since the current entry began, and their limit; a negative value means no limit.
    octets: u32,
    max_octets: i32,
    /// The end of the current entry in nanoseconds of the gate's clock (`current_close_time`).
    close: i64,
    /// The beginning of the next entry.
    expires: i64,
    next: usize,
}

impl State {
    /// Returns the state that waits for the first entry (`gate_get_start_time`,
    /// `gate_start_timer`). `armed` is when the running timer would have fired.
    fn start(schedule: &Schedule, now: i64, armed: Option<i64>) -> Self {
        let base = schedule.base as i64;
        let start = if base > now {
            base
        } else {
            next_cycle(schedule, now)
        };
        // A timer for the past fires at once. A start in the past results from a cycle beyond all
        // times.
        let expires = start.min(armed.unwrap_or(i64::MAX)).max(now);
        Self {
            pending: true,
            open: true,
            octets: 0,
            max_octets: -1,
            close: start,
            expires,
            next: 0,
        }
    }

    /// Advances the state to `now`, as the timer would have done.
    fn advance(&mut self, schedule: &Schedule, now: i64) {
        while self.expires <= now {
            if !self.pending && self.expires == self.close {
                // Skips whole rounds of the list, which change only the time.
                let intervals = schedule
                    .entries
                    .iter()
                    .map(|entry| i64::from(entry.interval));
                let round = intervals.sum::<i64>().max(1);
                self.expires += (now - self.expires) / round * round;
                self.close = self.expires;
            }
            self.begin(schedule);
        }
    }

    /// Begins the next entry at the time the timer expires (`gate_timer_func`).
    fn begin(&mut self, schedule: &Schedule) {
        let Some(entry) = schedule.entries.get(self.next) else {
            self.expires = i64::MAX;
            return;
        };
        let now = self.expires;
        self.pending = false;
        self.open = entry.open;
        self.octets = 0;
        self.max_octets = entry.max_octets;
        self.close = self.close.wrapping_add(i64::from(entry.interval));
        self.next = (self.next + 1) % schedule.entries.len();
        self.expires = if now > self.close {
            next_cycle(schedule, now)
        } else {
            self.close
        };
        if self.expires <= now {
            self.expires = i64::MAX;
        }
    }
}

/// Returns the start of the next whole cycle after `now`.
fn next_cycle(schedule: &Schedule, now: i64) -> i64 {
    let (base, cycle) = (schedule.base as i64, schedule.cycle);
    let passed = now.wrapping_sub(base) as u64 / cycle.max(1);
    base.wrapping_add(passed.wrapping_add(1).wrapping_mul(cycle) as i64)
}

/// The kind's part of an action.
pub struct Gate {
    domain: Domain,
    schedule: Published<Schedule>,
    /// Guards the current state and changes of the schedule. It is held only for some arithmetic.
    state: SpinLock<State>,
    /// The start of the stack's clock, in nanoseconds since 1970.
    epoch: u64,
}

impl Gate {
    /// Returns the stack's time on a gate's clock.
    fn time(&self, clockid: i32, now: u64) -> i64 {
        time_on(clockid, self.epoch, now)
    }
}

fn time_on(clockid: i32, epoch: u64, now: u64) -> i64 {
    match clockid {
        clock::MONOTONIC | clock::BOOTTIME => now as i64,
        _ => epoch.wrapping_add(now) as i64,
    }
}

impl Kind for Gate {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        _packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let mut state = self.state.lock();
        let schedule = self.schedule.load(cx.guard);
        state.advance(schedule, self.time(schedule.clockid, cx.now));
        if state.pending {
            return common.control();
        }
        if state.open && state.max_octets >= 0 {
            state.octets = state.octets.wrapping_add(cx.packet_len() as u32);
            if state.octets > state.max_octets as u32 {
                common.counters.count_overlimit(cx.cpu);
                common.counters.count_drop(cx.cpu);
                return code::SHOT;
            }
        }
        if state.open {
            return common.control();
        }
        common.counters.count_drop(cx.cpu);
        code::SHOT
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let schedule = self.schedule.load(env.guard);
        w.put_fixed(attr::PARMS, &start);
        w.put_u64(attr::BASE_TIME, schedule.base);
        w.put_u64(attr::CYCLE_TIME, schedule.cycle);
        w.put_u64(attr::CYCLE_TIME_EXT, schedule.cycle_ext);
        w.put_i32(attr::CLOCKID, schedule.clockid);
        w.put_u32(attr::FLAGS, schedule.flags);
        w.put_i32(attr::PRIORITY, schedule.priority);
        let list = w.nest_noflag(attr::ENTRY_LIST);
        for (index, entry) in (0..).zip(schedule.entries.iter()) {
            let nest = w.nest_noflag(attr::ONE_ENTRY);
            w.put_u32(attr::ENTRY_INDEX, index);
            if entry.open {
                w.put_flag(attr::ENTRY_GATE);
            }
            w.put_u32(attr::ENTRY_INTERVAL, entry.interval);
            w.put_i32(attr::ENTRY_MAX_OCTETS, entry.max_octets);
            w.put_i32(attr::ENTRY_IPV, entry.ipv);
            w.end(nest);
        }
        w.end(list);
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// Options whose syntax has been checked. A change may leave options out.
#[derive(Debug, Default)]
pub struct Request {
    control: Code,
    exists: bool,
    clockid: Option<i32>,
    base: Option<u64>,
    cycle: Option<u64>,
    cycle_ext: Option<u64>,
    flags: Option<u32>,
    priority: Option<i32>,
    /// An error in the list is reported only after the control action has been checked.
    entries: Option<Result<Vec<Entry>, Error>>,
}

/// The parameters of a gate.
#[derive(Debug)]
pub struct Params {
    request: Request,
    entries: Arc<[Entry]>,
    /// The time of the request on the stack's clock.
    now: u64,
}

impl Params {
    /// Returns the schedule. Options the request leaves out keep their values from the `old` one.
    fn schedule(self, old: Option<&Schedule>) -> Schedule {
        let request = self.request;
        let kept = self.entries.is_empty();
        let entries = match old {
            Some(old) if kept => old.entries.clone(),
            _ => self.entries,
        };
        let mut cycle = request.cycle.unwrap_or(0);
        if let (Some(old), true, None) = (old, kept, request.cycle) {
            cycle = old.cycle;
        }
        if cycle == 0 {
            cycle = entries.iter().map(|entry| u64::from(entry.interval)).sum();
        }
        let clockid = request.clockid.or(old.map(|old| old.clockid));
        let flags = request.flags.or(old.map(|old| old.flags));
        let priority = request.priority.or(old.map(|old| old.priority));
        let base = request.base.or(old.map(|old| old.base));
        let cycle_ext = request.cycle_ext.or(old.map(|old| old.cycle_ext));
        Schedule {
            base: base.unwrap_or(0),
            cycle,
            cycle_ext: cycle_ext.unwrap_or(0),
            clockid: clockid.unwrap_or(clock::TAI),
            flags: flags.unwrap_or(0),
            priority: priority.unwrap_or(-1),
            entries,
        }
    }
}

/// Parses an entry of the list (`parse_gate_entry`).
fn entry(attr: &Attr<'_>) -> Result<Entry, Error> {
    let tb = attr
        .parse(&ENTRY, Strictness::Strict)
        .map_err(|error| Error {
            message: Some("Could not parse nested entry".into()),
            errno: EINVAL,
            ..error
        })?;
    let interval = match tb.get(attr::ENTRY_INTERVAL) {
        Some(interval) => interval.u32()?,
        None => 0,
    };
    if interval == 0 {
        return Err(Error::msg(EINVAL, "Invalid interval for schedule entry"));
    }
    let number = |ty| tb.get(ty).map_or(Ok(-1), |attr| attr.i32());
    Ok(Entry {
        open: tb.has(attr::ENTRY_GATE),
        interval,
        ipv: number(attr::ENTRY_IPV)?,
        max_octets: number(attr::ENTRY_MAX_OCTETS)?,
    })
}

impl Spec for Gate {
    const KIND: &'static str = "gate";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let options = options.ok_or(Error::new(EINVAL))?;
        let tb = options.parse(&POLICY, Strictness::Strict)?;
        let parms = tb.get(attr::PARMS).ok_or(Error::new(EINVAL))?;
        let parms = TcGen::from_bytes(parms.payload).ok_or(Error::new(EINVAL))?;
        let long = |ty| tb.get(ty).map(|attr| attr.u64()).transpose();
        let signed = |ty| tb.get(ty).map(|attr| attr.i32()).transpose();
        // Attributes that are no entries are skipped.
        let entries = tb.get(attr::ENTRY_LIST).map(|list| {
            let entries = list.attrs().filter(|attr| attr.ty == attr::ONE_ENTRY);
            entries.map(|attr| entry(&attr)).collect()
        });
        let request = Request {
            control: parms.action,
            exists: false,
            clockid: signed(attr::CLOCKID)?,
            base: long(attr::BASE_TIME)?,
            cycle: long(attr::CYCLE_TIME)?,
            cycle_ext: long(attr::CYCLE_TIME_EXT)?,
            flags: tb.get(attr::FLAGS).map(|attr| attr.u32()).transpose()?,
            priority: signed(attr::PRIORITY)?,
            entries,
        };
        Ok((parms.index, request))
    }

    fn verify(request: &mut Request, exists: bool) -> Result<(), Error> {
        request.exists = exists;
        Ok(())
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(mut request: Request, host: &dyn Host) -> Result<Params, Error> {
        let entries = request.entries.take().transpose()?.unwrap_or_default();
        if entries.is_empty() && !request.exists {
            return Err(Error::msg(EINVAL, "The entry list is empty"));
        }
        match request.clockid {
            None | Some(clock::REALTIME | clock::MONOTONIC | clock::BOOTTIME | clock::TAI) => {}
            Some(_) => return Err(Error::msg(EINVAL, "Invalid 'clockid'")),
        }
        Ok(Params {
            request,
            entries: entries.into(),
            now: host.now(),
        })
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        let (now, epoch) = (params.now, env.host.epoch());
        let schedule = params.schedule(None);
        let state = State::start(&schedule, time_on(schedule.clockid, epoch, now), None);
        Self {
            domain: env.net.domain().clone(),
            schedule: Published::new(env.net.domain(), schedule),
            state: SpinLock::new(state),
            epoch,
        }
    }

    fn change(&self, params: Params) {
        let guard = self.domain.pin();
        let asked = params.now;
        let mut state = self.state.lock();
        let old = self.schedule.load(&guard);
        let new = params.schedule(Some(old));
        let now = self.time(new.clockid, asked);
        // With the same clock and base time the timer keeps running.
        let armed = (new.base == old.base && new.clockid == old.clockid).then(|| {
            state.advance(old, now);
            state.expires
        });
        *state = State::start(&new, now, armed);
        self.schedule.replace(new);
    }
}

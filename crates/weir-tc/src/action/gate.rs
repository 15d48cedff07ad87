// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gate`: lets packets through at some times and drops them at others, by a cyclic list (IEEE 802.1Qci).
//!
//! Mirrors net/sched/act_gate.c.
//!
//! Parameters: the control action of packets that pass (default of tc: pipe); `sched-entry STATE
//! INTERVAL [PRIORITY [OCTETS]]`, in order: open or closed, nanoseconds (from 1), a priority that is
//! kept and shown, and how many octets pass while it lasts (default -1: no bound); `base-time`
//! (nanoseconds of the clock, default 0) and `cycle-time` (nanoseconds, default: the sum of the
//! intervals), which say when the first entry begins: at the base time, or if that is past, at the next
//! whole cycle after it; `clockid` (TAI, the default, and REALTIME: the wall-clock time of the stack's
//! clock; MONOTONIC and BOOTTIME: the stack's clock, which starts at 0); `cycle-time-ext`, `priority` and
//! `flags`, kept and shown. A replace keeps what it does not name.
//!
//! Until the first entry begins, all packets pass. A packet that comes when an entry begins meets that
//! entry. As in Linux, once begun the entries follow each other by their intervals alone, whatever the
//! cycle time. A packet at a closed gate counts as a drop, one beyond the octets as a drop and an overlimit.
//!
//! Linux moves on by a timer; here the entry is computed when a packet comes, which nobody can tell apart.
//! Not as Linux: times beyond 2^63 ns, with which its timer never rests, leave the gate as it stands; what is
//! no entry in the list is passed over without its sentence beside the success.

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

/// A line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    open: bool,
    interval: u32,
    ipv: i32,
    max_octets: i32,
}

/// What a gate does.
#[derive(Debug, Clone)]
struct Schedule {
    base: u64,
    cycle: u64,
    cycle_ext: u64,
    clockid: i32,
    flags: u32,
    priority: i32,
    /// At least one.
    entries: Arc<[Entry]>,
}

/// Where a gate stands.
#[derive(Debug)]
struct State {
    /// The first entry has not begun: packets pass.
    pending: bool,
    open: bool,
    /// Octets since the entry at hand began, and their bound; none if negative.
    octets: u32,
    max_octets: i32,
    /// When the entry at hand ends (`current_close_time`), nanoseconds of the gate's clock.
    close: i64,
    /// When the next one begins.
    expires: i64,
    next: usize,
}

impl State {
    /// `gate_get_start_time`, `gate_start_timer`: waits for the first entry. `armed` is when the timer
    /// would have fired, if it runs.
    fn start(schedule: &Schedule, now: i64, armed: Option<i64>) -> Self {
        let base = schedule.base as i64;
        let start = if base > now {
            base
        } else {
            next_cycle(schedule, now)
        };
        // A timer for the past, which takes a cycle beyond all times, fires at once.
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

    /// Goes on to `now`, as the timer would have.
    fn advance(&mut self, schedule: &Schedule, now: i64) {
        while self.expires <= now {
            if !self.pending && self.expires == self.close {
                // Whole rounds over the list leave everything as it is but for the time.
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

    /// `gate_timer_func`, at the time it expires.
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

/// The next whole cycle after `now`.
fn next_cycle(schedule: &Schedule, now: i64) -> i64 {
    let (base, cycle) = (schedule.base as i64, schedule.cycle);
    let passed = now.wrapping_sub(base) as u64 / cycle.max(1);
    base.wrapping_add(passed.wrapping_add(1).wrapping_mul(cycle) as i64)
}

/// The kind's part of an action.
pub struct Gate {
    domain: Domain,
    schedule: Published<Schedule>,
    /// Guards where the gate stands, and changes of the schedule; held for some arithmetic.
    state: SpinLock<State>,
    /// Nanoseconds since 1970 at the start of the stack's clock.
    epoch: u64,
}

impl Gate {
    /// The stack's time on a gate's clock.
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

/// Options that are well-formed; of a change, those that are named.
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
    /// What is wrong with the list counts when the control action is right.
    entries: Option<Result<Vec<Entry>, Error>>,
}

/// What a gate gets.
#[derive(Debug)]
pub struct Params {
    request: Request,
    entries: Arc<[Entry]>,
    /// When it was asked, of the stack's clock.
    now: u64,
}

impl Params {
    /// The schedule, with what is not named from the `old` one.
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

/// `parse_gate_entry`
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
        // What is no entry is passed over.
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
        // Of the same clock and base time the timer goes on running.
        let armed = (new.base == old.base && new.clockid == old.clockid).then(|| {
            state.advance(old, now);
            state.expires
        });
        *state = State::start(&new, now, armed);
        self.schedule.replace(new);
    }
}

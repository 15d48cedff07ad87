// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules of gates, and where in them the clock stands (`advance_sched`).

/// All gates are open (`TAPRIO_ALL_GATES_OPEN`).
const OPEN: u32 = u32::MAX;

/// A time in which some gates are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `TCA_TAPRIO_SCHED_ENTRY_CMD`, kept.
    pub command: u8,
    /// A bit a traffic class whose gate is open.
    pub mask: u32,
    /// Nanoseconds, at least 1.
    pub interval: u32,
    /// When it ends, or ended last.
    end: i64,
    /// Octets that may still leave in it.
    budget: i64,
    /// Of txtime-assist: the end of what has been given a time in it (`next_txtime`).
    pub(super) free: i64,
}

impl Entry {
    pub fn new(command: u8, mask: u32, interval: u32) -> Self {
        Self {
            command,
            mask,
            interval,
            end: 0,
            budget: 0,
            free: 0,
        }
    }
}

/// `struct sched_gate_list`; times are nanoseconds of the schedule's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub base: i64,
    /// At least 1.
    pub cycle: i64,
    pub extension: i64,
    /// At least one.
    pub entries: Vec<Entry>,
    cycle_end: i64,
}

impl Schedule {
    pub fn new(base: i64, cycle: i64, extension: i64, entries: Vec<Entry>) -> Self {
        Self {
            base,
            cycle,
            extension,
            entries,
            cycle_end: 0,
        }
    }

    /// `taprio_get_start_time`: its base time, or the next beginning of a cycle.
    fn start(&self, now: i64) -> i64 {
        if self.base > now {
            return self.base;
        }
        let (base, cycle) = (i128::from(self.base), i128::from(self.cycle));
        let cycles = (i128::from(now) - base) / cycle + 1;
        i64::try_from(base + cycles * cycle).unwrap_or(i64::MAX)
    }
}

/// The gates.
#[derive(Debug, Default)]
pub struct Gates {
    /// What the clock shows at the start of the stack's.
    pub(super) offset: i64,
    /// Picoseconds an octet takes on the link.
    pub picos: i64,
    /// The schedule at work, and the one to follow it.
    pub oper: Option<Schedule>,
    pub admin: Option<Schedule>,
    /// The entry of `oper` at work; none: all gates are open.
    current: Option<usize>,
    /// When the timer runs out.
    expires: Option<i64>,
}

impl Gates {
    /// Without a schedule.
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            ..Self::default()
        }
    }

    pub(super) fn clock(&self, now: u64) -> i64 {
        self.offset.wrapping_add(now as i64)
    }

    /// `length_to_duration`
    pub(super) fn duration(&self, octets: u32) -> i64 {
        i64::from(octets) * self.picos / 1000
    }

    /// `taprio_set_budget`: octets an entry carries.
    fn budget(picos: i64, interval: u32) -> i64 {
        i64::from(interval) * 1000 / picos.max(1)
    }

    /// Takes a schedule: by a timer to its start or, without timers, at once if there is none.
    pub fn submit(&mut self, mut new: Schedule, now: u64, timed: bool) {
        let start = new.start(self.clock(now));
        if !timed {
            // `setup_txtime`
            let mut free = start;
            for entry in &mut new.entries {
                entry.free = free;
                free = free.saturating_add(entry.interval.into());
            }
            let place = match self.oper {
                None => &mut self.oper,
                Some(_) => &mut self.admin,
            };
            *place = Some(new);
            return;
        }
        new.cycle_end = start.saturating_add(new.cycle);
        if let Some(first) = new.entries.first_mut() {
            first.end = start.saturating_add(first.interval.into());
            first.budget = Self::budget(self.picos, first.interval);
        }
        self.current = None;
        self.expires = Some(self.expires.map_or(start, |expires| expires.min(start)));
        self.admin = Some(new);
    }

    /// Brings the schedules to the present.
    pub fn settle(&mut self, now: u64) {
        let now = self.clock(now);
        while self.expires.is_some_and(|expires| expires <= now) {
            self.skip(now);
            self.advance();
        }
        if self.expires.is_none()
            && self.oper.is_some()
            && self.admin.as_ref().is_some_and(|admin| now > admin.base)
        {
            // Without timers (`get_packet_txtime`).
            self.oper = self.admin.take();
        }
    }

    /// Passes over cycles that are alike.
    fn skip(&mut self, now: i64) {
        let (Some(oper), Some(0)) = (&mut self.oper, self.current) else {
            return;
        };
        let admin = self.admin.as_ref();
        let until = admin.map_or(i64::MAX, |admin| {
            admin.base.saturating_sub(oper.extension.max(0))
        });
        let intervals = oper.entries.iter().map(|entry| i64::from(entry.interval));
        let period = intervals.sum::<i64>().min(oper.cycle);
        let first = oper.entries[0].end;
        if first > oper.cycle_end || self.expires != Some(first) {
            return;
        }
        let cycles = now.min(until).saturating_sub(first) / period - 1;
        if cycles > 0 {
            oper.entries[0].end += cycles * period;
            oper.cycle_end = oper
                .cycle_end
                .saturating_add(cycles.saturating_mul(oper.cycle));
            self.expires = Some(oper.entries[0].end);
        }
    }

    /// `advance_sched`: the timer has run out.
    fn advance(&mut self) {
        if self.oper.is_none() {
            self.oper = self.admin.take();
        }
        let Some(oper) = &mut self.oper else {
            self.expires = None;
            return;
        };
        let entry = self
            .current
            .and_then(|at| Some((at, oper.entries.get(at)?.end)));
        let (next, end) = match entry.filter(|(_, end)| *end != oper.base) {
            None => (0, oper.entries[0].end),
            Some((at, from)) => {
                let mut next = at + 1;
                if next == oper.entries.len() || from == oper.cycle_end {
                    next = 0;
                    oper.cycle_end = oper.cycle_end.saturating_add(oper.cycle);
                }
                let end = from.saturating_add(oper.entries[next].interval.into());
                let mut end = end.min(oper.cycle_end);
                // `should_change_schedules`
                let stretched = end.saturating_add(oper.extension);
                let change = |admin: &mut Schedule| admin.base <= end || admin.base <= stretched;
                if let Some(admin) = self.admin.take_if(change) {
                    *oper = admin;
                    next = 0;
                    end = oper.entries[0].end;
                }
                let entry = &mut oper.entries[next];
                (entry.end, entry.budget) = (end, Self::budget(self.picos, entry.interval));
                (next, end)
            }
        };
        (self.current, self.expires) = (Some(next), Some(end));
    }

    /// The gates that are open.
    pub fn mask(&self) -> u32 {
        let entry = self.oper.as_ref().zip(self.current);
        let entry = entry.and_then(|(oper, at)| oper.entries.get(at));
        entry.map_or(OPEN, |entry| entry.mask)
    }

    /// Whether a packet of a class may leave now; its octets are taken off those the entry carries
    /// (`taprio_dequeue_from_txq`).
    pub fn admit(&mut self, class: u8, octets: u32, now: u64) -> bool {
        let over = self.clock(now).saturating_add(self.duration(octets));
        let (Some(oper), Some(at)) = (&mut self.oper, self.current) else {
            return true;
        };
        let Some(entry) = oper.entries.get_mut(at) else {
            return true;
        };
        if entry.mask & 1 << class == 0 {
            return false;
        }
        if entry.mask == OPEN {
            return true;
        }
        if over > entry.end {
            return false;
        }
        entry.budget -= i64::from(octets);
        entry.budget >= 0
    }

    /// Whether any entry can let a packet of a class leave, in what the cycle leaves of it.
    pub fn could(&self, class: u8, octets: u32) -> bool {
        let (duration, octets) = (self.duration(octets), i64::from(octets));
        self.oper.iter().chain(&self.admin).any(|schedule| {
            let mut left = schedule.cycle;
            schedule.entries.iter().any(|entry| {
                let room = left.min(entry.interval.into());
                left -= room;
                let lets = entry.mask & 1 << class != 0
                    && duration <= room
                    && octets <= Self::budget(self.picos, entry.interval);
                room > 0 && (entry.mask == OPEN || lets)
            })
        })
    }

    /// When the gates change next, ns of the stack's clock.
    pub fn next(&self, now: u64) -> Option<u64> {
        let expires = self.expires?.wrapping_sub(self.offset);
        u64::try_from(expires).ok().map(|time| time.max(now))
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules of gates and their progress with the clock (`advance_sched`).

/// The mask with all gates open (`TAPRIO_ALL_GATES_OPEN`).
const OPEN: u32 = u32::MAX;

/// An interval in which some gates are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The command (`TCA_TAPRIO_SCHED_ENTRY_CMD`); it is kept and has no effect.
    pub command: u8,
    /// Bit mask of the traffic classes whose gates are open.
    pub mask: u32,
    /// Length in ns, at least 1.
    pub interval: u32,
    /// Its next end, or its last one, in ns of the schedule's clock.
    end: i64,
    /// Bytes that may still leave in it.
    budget: i64,
    /// With txtime-assist, the end of the transmissions already assigned to it (`next_txtime`).
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

/// A schedule (`struct sched_gate_list`). Times are in ns of the schedule's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    pub base: i64,
    /// Cycle time, at least 1.
    pub cycle: i64,
    pub extension: i64,
    /// Entries, at least one.
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

    /// Returns its base time, or the next start of a cycle if that has passed
    /// (`taprio_get_start_time`).
    fn start(&self, now: i64) -> i64 {
        if self.base > now {
            return self.base;
        }
        let (base, cycle) = (i128::from(self.base), i128::from(self.cycle));
        let cycles = (i128::from(now) - base) / cycle + 1;
        i64::try_from(base + cycles * cycle).unwrap_or(i64::MAX)
    }
}

/// The gates with their current and next schedule.
#[derive(Debug, Default)]
pub struct Gates {
    /// Time of the schedule's clock at the start of the stack's clock.
    pub(super) offset: i64,
    /// Picoseconds per byte on the link.
    pub picos: i64,
    /// The schedule in effect. `admin` is the one that follows it.
    pub oper: Option<Schedule>,
    pub admin: Option<Schedule>,
    /// The current entry of `oper`; `None` if all gates are open.
    current: Option<usize>,
    /// Expiry of the timer.
    expires: Option<i64>,
}

impl Gates {
    /// Makes gates without a schedule.
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            ..Self::default()
        }
    }

    pub(super) fn clock(&self, now: u64) -> i64 {
        self.offset.wrapping_add(now as i64)
    }

    /// Returns the transmission time of `octets` bytes, in ns (`length_to_duration`).
    pub(super) fn duration(&self, octets: u32) -> i64 {
        i64::from(octets) * self.picos / 1000
    }

    /// Returns the number of bytes that an entry carries (`taprio_set_budget`).
    fn budget(picos: i64, interval: u32) -> i64 {
        i64::from(interval) * 1000 / picos.max(1)
    }

    /// Submits a schedule. With timers it takes effect at its start; without, it takes effect at
    /// once if there is no other.
    pub fn submit(&mut self, mut new: Schedule, now: u64, timed: bool) {
        let start = new.start(self.clock(now));
        if !timed {
            // As in `setup_txtime`.
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

    /// Advances the schedules to the present.
    pub fn settle(&mut self, now: u64) {
        let now = self.clock(now);
        while self.expires.is_some_and(|expires| expires <= now) {
            self.skip_cycles(now);
            self.advance();
        }
        if self.expires.is_none()
            && self.oper.is_some()
            && self.admin.as_ref().is_some_and(|admin| now > admin.base)
        {
            // Without timers the admin schedule replaces the other at its base time
            // (`get_packet_txtime`).
            self.oper = self.admin.take();
        }
    }

    /// Skips cycles in which nothing changes.
    fn skip_cycles(&mut self, now: i64) {
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

    /// Advances to the next entry after the timer has expired (`advance_sched`).
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
                // As in `should_change_schedules`.
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

    /// Returns the mask of open gates.
    pub fn mask(&self) -> u32 {
        let entry = self.oper.as_ref().zip(self.current);
        let entry = entry.and_then(|(oper, at)| oper.entries.get(at));
        entry.map_or(OPEN, |entry| entry.mask)
    }

    /// Returns whether a packet of a class may leave now, and charges its bytes to the entry
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

    /// Returns whether any entry, cut short by the end of the cycle, can let a packet of a class
    /// leave.
    pub fn ever_admits(&self, class: u8, octets: u32) -> bool {
        let (duration, octets) = (self.duration(octets), i64::from(octets));
        self.oper.iter().chain(&self.admin).any(|schedule| {
            let mut left = schedule.cycle;
            schedule.entries.iter().any(|entry| {
                let room = left.min(entry.interval.into());
                left -= room;
                let admits = entry.mask & 1 << class != 0
                    && duration <= room
                    && octets <= Self::budget(self.picos, entry.interval);
                room > 0 && (entry.mask == OPEN || admits)
            })
        })
    }

    /// Returns the time of the next change of gates, in ns of the stack's clock.
    pub fn next(&self, now: u64) -> Option<u64> {
        let expires = self.expires?.wrapping_sub(self.offset);
        u64::try_from(expires).ok().map(|time| time.max(now))
    }
}

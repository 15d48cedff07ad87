// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Txtime-assist: no packet waits for its gate; each gets the time at which it is to leave, one behind the
//! other in the intervals of its class, and an `etf` below lets it go then.
//!
//! Mirrors `get_packet_txtime` and `find_entry_to_transmit`. Not as Linux: a packet for which an interval cut
//! short by the cycle's end has never room is dropped, where Linux looks for one for ever.

use super::schedule::{Gates, Schedule};

/// Where an entry's gates are open.
struct Window {
    entry: usize,
    start: i64,
    end: i64,
}

impl Schedule {
    /// `get_cycle_time_elapsed`
    fn elapsed(&self, time: i64) -> i64 {
        time.saturating_sub(self.base) % self.cycle
    }

    /// `get_interval_end_time`: where an interval that begins at `start` ends; `next` is when another schedule
    /// takes over.
    fn interval_end(&self, next: Option<i64>, interval: u32, start: i64) -> i64 {
        let cycle_end = start.saturating_add(self.cycle - self.elapsed(start));
        let end = start.saturating_add(interval.into());
        if end < cycle_end {
            return end;
        }
        let extended = cycle_end.saturating_add(self.extension);
        let within = |base: &i64| cycle_end < *base && *base < extended;
        next.filter(within).unwrap_or(cycle_end)
    }

    /// `find_entry_to_transmit`: where a class may send for `duration` from `time` on, as far as can be told
    /// without a look at what the entry found has sent.
    fn window(&self, next: Option<i64>, class: u8, duration: i64, time: i64) -> Option<Window> {
        let mut end = time.saturating_sub(self.elapsed(time));
        let cycle_end = end.saturating_add(self.cycle);
        let (mut found, mut next_cycle, mut earliest) = (None, false, i64::MAX);
        for (entry, sends) in self.entries.iter().enumerate() {
            let start = end;
            end = self.interval_end(next, sends.interval, start);
            if start > cycle_end {
                break;
            }
            let longest = end.saturating_sub(start).min(sends.interval.into());
            if sends.mask & 1 << class == 0 || duration > longest {
                continue;
            }
            let in_cycle = |cycles: i64| {
                let later = cycles.saturating_mul(self.cycle);
                Some(Window {
                    entry,
                    start: start.saturating_add(later),
                    end: end.saturating_add(later),
                })
            };
            if sends.free < time {
                if start > time || start < time && time.saturating_add(duration) < end {
                    return in_cycle(0);
                }
                if !next_cycle {
                    (found, next_cycle) = (in_cycle(1), true);
                }
            } else if sends.free < earliest && !next_cycle {
                earliest = sends.free;
                found = in_cycle(sends.free.saturating_sub(start) / self.cycle);
            }
        }
        found
    }
}

impl Gates {
    /// When a packet may leave that comes at `now` and takes `delay` to get to the device, ns of the stack's
    /// clock; none: never.
    pub fn transmit_time(&mut self, class: u8, octets: u32, now: u64, delay: u32) -> Option<u64> {
        let now = now.saturating_add(delay.into());
        self.settle(now);
        let (offset, duration, mut least) = (self.offset, self.duration(octets), self.clock(now));
        let shown = |time: i64| u64::try_from(time.wrapping_sub(offset)).ok();
        let Some(oper) = &self.oper else {
            return Some(now);
        };
        if least < oper.base {
            return Some(now);
        }
        let mut next = self.admin.as_ref().map(|admin| admin.base);
        // Each attempt finds an interval full, and an empty one has room.
        let schedules = self.oper.iter().chain(&self.admin);
        let most = 4 * schedules
            .map(|schedule| schedule.entries.len())
            .sum::<usize>();
        let mut switched = false;
        for _ in 0..most {
            let schedule = if switched {
                &mut self.admin
            } else {
                &mut self.oper
            };
            let schedule = schedule.as_mut()?;
            let window = schedule.window(next, class, duration, least)?;
            let cycle = schedule.cycle;
            let sends = &mut schedule.entries[window.entry];
            let time = sends.free.max(least).max(window.start);
            if next.is_some_and(|base| time > base) {
                (switched, next) = (true, None);
                continue;
            }
            least = time.saturating_add(duration);
            if least <= window.end {
                sends.free = least;
                return shown(time);
            }
            sends.free = window.start.saturating_add(cycle);
        }
        None
    }
}

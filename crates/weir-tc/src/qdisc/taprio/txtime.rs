// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Txtime-assist: packets do not wait for their gates. Each packet gets a departure time, one after
//! the other in the intervals of its class, and an `etf` below releases it then.
//!
//! Mirrors `get_packet_txtime` and `find_entry_to_transmit`. One difference from Linux: a packet
//! that never fits into an interval cut short by the end of the cycle is dropped; Linux searches
//! forever.

use super::schedule::{Gates, Schedule};

/// An interval in which the gates of an entry are open.
struct Window {
    entry: usize,
    start: i64,
    end: i64,
}

impl Schedule {
    /// Returns the time since the start of the cycle (`get_cycle_time_elapsed`).
    fn elapsed(&self, time: i64) -> i64 {
        time.saturating_sub(self.base) % self.cycle
    }

    /// Returns the end of an interval that starts at `start` (`get_interval_end_time`). `next` is
    /// the base time of the next schedule.
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

    /// Returns a window in which a class may send for `duration` from `time` on
    /// (`find_entry_to_transmit`). The caller must check whether the transmissions already assigned
    /// to the entry leave room.
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
    /// Returns the time at which a packet may leave that arrives at `now` and takes `delay` to
    /// reach the device, in ns of the stack's clock. Returns `None` if it can never leave.
    pub fn transmit_time(&mut self, class: u8, octets: u32, now: u64, delay: u32) -> Option<u64> {
        let now = now.saturating_add(delay.into());
        self.settle(now);
        let (offset, duration, mut least) = (self.offset, self.duration(octets), self.clock(now));
        let to_stack_clock = |time: i64| u64::try_from(time.wrapping_sub(offset)).ok();
        let Some(oper) = &self.oper else {
            return Some(now);
        };
        if least < oper.base {
            return Some(now);
        }
        let mut next = self.admin.as_ref().map(|admin| admin.base);
        // Each attempt may find a full interval; an empty interval has room. This bounds the number
        // of attempts.
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
                return to_stack_clock(time);
            }
            sends.free = window.start.saturating_add(cycle);
        }
        None
    }
}

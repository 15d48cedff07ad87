// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Until when CPUs sleep, so that a new timer seldom wakes one.
//!
//! One CPU sleeps until the next timer. The others are there for the time when that CPU is awake and in a long turn: they
//! look [`LATE`] after the timer is due, and find none unless that is so. A new timer wakes the CPUs if none looks in time
//! for it. No timer wakes a CPU while all of them are awake: each looks for timers before it sleeps.
//!
//! A timer that was cancelled still ends a sleep. So of the timers of connections, nearly all of which are cancelled soon,
//! only one in the time that they are armed for wakes a CPU.

use super::MILLISECOND;

/// How late a CPU looks for a timer that another CPU is expected to run, in ns: a jiffy at 250 Hz.
pub(super) const LATE: u64 = 4 * MILLISECOND;
/// The entry of a CPU that is awake. No timer is due then: it counts as a time before all others nowhere.
const AWAKE: Option<u64> = None;

/// See the module. The lock of the timers guards it.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    /// Until when each CPU sleeps. A CPU that has never slept has no entry.
    until: Vec<Option<u64>>,
    /// A time at which a sleep ends, also after the timer of that time was cancelled.
    told: u64,
}

impl Sleepers {
    /// Notes that a CPU sleeps from `now` on for at most `longest` ns. Returns until when. `next` is the time of the next
    /// timer.
    pub fn sleep(&mut self, cpu: usize, now: u64, next: Option<u64>, longest: u64) -> u64 {
        if self.until.len() <= cpu {
            self.until.resize(cpu + 1, AWAKE);
        }
        let told = Some(self.told).filter(|&told| told > now);
        let limit = now.saturating_add(longest);
        let until = match next.into_iter().chain(told).min() {
            None => limit,
            Some(first) => {
                self.told = first;
                let mut others = self.until.iter().enumerate().filter(|(id, _)| *id != cpu);
                let expected = others.any(|(_, until)| until.is_none_or(|until| until <= first));
                limit.min(first.saturating_add(if expected { LATE } else { 0 }))
            }
        };
        self.until[cpu] = Some(until);
        until
    }

    /// Notes that a CPU is awake, for whatever reason.
    pub fn awake(&mut self, cpu: usize) {
        if let Some(until) = self.until.get_mut(cpu) {
            *until = AWAKE;
        }
    }

    /// Returns whether the CPUs have to be woken because of a timer of this time. If so, they count as awake: each of them
    /// looks, and calls [`sleep`](Self::sleep) again.
    pub fn wakes(&mut self, time: u64) -> bool {
        let late = match self.until.contains(&AWAKE) {
            true => LATE,
            false => 0,
        };
        let first = self.until.iter().flatten().min();
        let wakes = first.is_some_and(|&first| first > time.saturating_add(late));
        if wakes {
            self.told = time;
            self.until.fill(AWAKE);
        }
        wakes
    }
}

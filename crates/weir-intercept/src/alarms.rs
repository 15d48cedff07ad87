// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers of programs under a clock that is not the machine's: `alarm`, `setitimer(ITIMER_REAL)`, `timer_settime` and
//! `timerfd_settime`.
//!
//! The supervisor records them here instead of letting the kernel arm them. When the stack's clock gets to the time, a
//! signal is sent to the process, or the kernel's own timer behind a descriptor is armed with the shortest time.
use crate::rank::Rank;
use crate::sys;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

/// A timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// `ITIMER_REAL`, which `alarm` sets too.
    Real,
    /// A timer of `timer_create`.
    Posix(i32),
    /// A timer behind this descriptor.
    Descriptor(i32),
}

/// What happens when a timer expires.
#[derive(Debug)]
pub(crate) enum Expiry {
    /// The process gets a signal.
    Signal(i32),
    /// The descriptor, of which this is a duplicate, becomes readable.
    Descriptor(OwnedFd),
}

/// An armed timer.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// The interval at which it repeats in ns; 0 if it does not.
    pub(crate) interval: u64,
    pub(crate) expiry: Expiry,
}

#[derive(Debug)]
struct Armed {
    time: u64,
    rank: Rank,
    alarm: Alarm,
}

/// The armed timers of a launch, by process.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    armed: BTreeMap<(u32, Timer), Armed>,
    /// By time; timers of one time expire in the order of their processes' ranks.
    due: BTreeSet<(u64, Rank, u32, Timer)>,
}

impl Alarms {
    /// Arms a timer of a process with a rank for a time of the stack's clock, or disarms it. Returns the time for which it was armed, and its
    /// interval.
    pub(crate) fn set(
        &mut self,
        process: u32,
        timer: Timer,
        rank: Rank,
        alarm: Option<(u64, Alarm)>,
    ) -> Option<(u64, u64)> {
        let old = self.armed.remove(&(process, timer));
        let old = old.map(|old| {
            self.due.remove(&(old.time, old.rank, process, timer));
            (old.time, old.alarm.interval)
        });
        if let Some((time, alarm)) = alarm {
            // One at the end of time never expires.
            if time < u64::MAX {
                self.due.insert((time, rank.clone(), process, timer));
            }
            let armed = Armed { time, rank, alarm };
            self.armed.insert((process, timer), armed);
        }
        old
    }

    /// Returns the time for which a timer is armed, and its interval.
    pub(crate) fn get(&self, process: u32, timer: Timer) -> Option<(u64, u64)> {
        let armed = self.armed.get(&(process, timer))?;
        Some((armed.time, armed.alarm.interval))
    }

    /// Returns the time of the first timer.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.due.first().map(|(time, ..)| *time)
    }

    /// Lets the first timer expire if it is due. Returns whether it was.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        if self.earliest().is_none_or(|time| time > now) {
            return false;
        }
        let Some((time, rank, process, timer)) = self.due.pop_first() else {
            return false;
        };
        let Some(Armed { alarm, .. }) = self.armed.remove(&(process, timer)) else {
            return true;
        };
        let alive = match &alarm.expiry {
            Expiry::Signal(signal) => sys::send_signal(process, *signal).is_ok(),
            Expiry::Descriptor(duplicate) => {
                let Timer::Descriptor(fd) = timer else {
                    return true;
                };
                let same = sys::is_same_file(process, fd, duplicate.as_fd());
                if same {
                    sys::expire_timer(duplicate.as_fd());
                }
                same
            }
        };
        if alive && alarm.interval > 0 {
            self.set(
                process,
                timer,
                rank,
                Some((time.saturating_add(alarm.interval), alarm)),
            );
        }
        true
    }

    /// Forgets the timers of processes that are gone. `processes` is sorted.
    pub(crate) fn keep(&mut self, processes: &[u32]) {
        self.armed
            .retain(|(process, _), _| processes.binary_search(process).is_ok());
        self.due
            .retain(|(.., process, _)| processes.binary_search(process).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_in_order_and_repeat() {
        let mut alarms = Alarms::default();
        let me = std::process::id();
        let signal = |interval| Alarm {
            interval,
            expiry: Expiry::Signal(0), // only checks that the process is there
        };
        assert_eq!(
            alarms.set(me, Timer::Real, Rank::default(), Some((50, signal(20)))),
            None
        );
        assert_eq!(
            alarms.set(me, Timer::Posix(0), Rank::default(), Some((60, signal(0)))),
            None
        );
        assert_eq!(alarms.get(me, Timer::Real), Some((50, 20)));
        assert!(!alarms.expire(49));
        assert!(alarms.expire(50));
        assert_eq!(alarms.earliest(), Some(60));
        assert!(alarms.expire(65));
        assert_eq!(alarms.earliest(), Some(70));
        assert_eq!(
            alarms.set(me, Timer::Real, Rank::default(), None),
            Some((70, 20))
        );
        assert_eq!(alarms.earliest(), None);
        alarms.set(me, Timer::Real, Rank::default(), Some((5, signal(0))));
        alarms.keep(&[]);
        assert!(!alarms.expire(9));
        // A time or an interval beyond the end of time.
        alarms.set(
            me,
            Timer::Real,
            Rank::default(),
            Some((u64::MAX, signal(1))),
        );
        assert_eq!(alarms.earliest(), None);
        alarms.set(
            me,
            Timer::Real,
            Rank::default(),
            Some((5, signal(u64::MAX))),
        );
        assert!(alarms.expire(5) && !alarms.expire(u64::MAX));
    }
}

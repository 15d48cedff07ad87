// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one clock of a stack, and its timers.
//!
//! Times are nanoseconds since the clock's start (`u64`). A **virtual** clock stands still until the
//! event loop moves it to the next event; events fire in the order (time, sequence of arming), so
//! that one script has one answer. A **real** clock reads the monotonic time of the machine.
//!
//! Wall-clock time (needed for capture time stamps) is `epoch_ns + now`; under a virtual clock the
//! epoch is set once from the first captured packet, and is zero without one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// `USER_HZ`: ticks a second in ages and times shown to users by netlink.
pub const USER_HZ: u64 = 100;

/// Where time comes from.
#[derive(Debug)]
enum Source {
    Virtual(AtomicU64),
    Real(Instant),
}

/// The clock of a stack; see the module's head.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    epoch_ns: AtomicU64,
}

impl Clock {
    /// A virtual clock at time 0.
    pub fn new_virtual() -> Self {
        Self {
            source: Source::Virtual(AtomicU64::new(0)),
            epoch_ns: AtomicU64::new(0),
        }
    }

    /// A real clock starting at 0 now.
    pub fn new_real() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        Self {
            source: Source::Real(Instant::now()),
            epoch_ns: AtomicU64::new(wall),
        }
    }

    /// Whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Virtual(_))
    }

    /// Nanoseconds since the clock's start.
    pub fn now(&self) -> u64 {
        match &self.source {
            Source::Virtual(now) => now.load(Ordering::Acquire),
            Source::Real(start) => start.elapsed().as_nanos() as u64,
        }
    }

    /// Nanoseconds since 1970 at the clock's start.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns.load(Ordering::Relaxed)
    }

    /// Sets the wall-clock time of the clock's start.
    pub fn set_epoch_ns(&self, ns: u64) {
        self.epoch_ns.store(ns, Ordering::Relaxed);
    }

    /// Moves a virtual clock forward to `time`; earlier times and real clocks are left alone.
    pub fn advance(&self, time: u64) {
        if let Source::Virtual(now) = &self.source {
            now.fetch_max(time, Ordering::AcqRel);
        }
    }

    /// The time in `USER_HZ` ticks.
    pub fn ticks(&self) -> u64 {
        self.now() / (SECOND / USER_HZ)
    }
}

/// Names an armed timer, for cancelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    time: u64,
    seq: u64,
}

impl TimerId {
    /// When the timer fires, in ns of the stack's clock.
    pub fn time(&self) -> u64 {
        self.time
    }
}

/// Whether a timer keeps a run alive that waits for all packets to have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A packet waits for this timer (a queue's watchdog, an unresolved neighbour, a capture).
    Packet,
    /// House-keeping only: ages, lifetimes.
    Nothing,
}

struct Armed<T> {
    holds: Holds,
    what: T,
}

struct Queue<T> {
    armed: BTreeMap<TimerId, Armed<T>>,
    next_seq: u64,
    packets: usize,
}

/// Timers ordered by (time, sequence). One lock, held for one map operation; it is the last in the
/// lock order, so that any code may arm or cancel.
pub struct Timers<T> {
    queue: Mutex<Queue<T>>,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                armed: BTreeMap::new(),
                next_seq: 0,
                packets: 0,
            }),
        }
    }
}

impl<T> Timers<T> {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arms a timer for `time`; timers of one time fire in the order they were armed.
    pub fn arm(&self, time: u64, holds: Holds, what: T) -> TimerId {
        let mut queue = self.queue();
        let id = TimerId {
            time,
            seq: queue.next_seq,
        };
        queue.next_seq += 1;
        queue.packets += usize::from(holds == Holds::Packet);
        queue.armed.insert(id, Armed { holds, what });
        id
    }

    /// Disarms; answers what the timer held, or `None` when it has fired or was cancelled.
    pub fn cancel(&self, id: TimerId) -> Option<T> {
        let mut queue = self.queue();
        let armed = queue.armed.remove(&id)?;
        queue.packets -= usize::from(armed.holds == Holds::Packet);
        Some(armed.what)
    }

    /// The time of the next timer.
    pub fn next_time(&self) -> Option<u64> {
        self.queue().armed.keys().next().map(|id| id.time)
    }

    /// Takes the next timer due at or before `now`.
    pub fn take_due(&self, now: u64) -> Option<(u64, T)> {
        let mut queue = self.queue();
        let id = *queue.armed.keys().next()?;
        if id.time > now {
            return None;
        }
        let armed = queue.armed.remove(&id)?;
        queue.packets -= usize::from(armed.holds == Holds::Packet);
        Some((id.time, armed.what))
    }

    /// Whether any armed timer holds a packet.
    pub fn packets_wait(&self) -> bool {
        self.queue().packets > 0
    }
}

impl<T> std::fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = self.queue();
        f.debug_struct("Timers")
            .field("armed", &queue.armed.len())
            .field("packets", &queue.packets)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_of_time_then_arming() {
        let timers = Timers::default();
        timers.arm(20, Holds::Nothing, 'c');
        timers.arm(10, Holds::Packet, 'a');
        let gone = timers.arm(10, Holds::Packet, 'x');
        timers.arm(10, Holds::Nothing, 'b');
        assert_eq!(timers.cancel(gone), Some('x'));
        assert_eq!(timers.cancel(gone), None);
        assert!(timers.packets_wait());
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(10), Some((10, 'a')));
        assert!(!timers.packets_wait());
        assert_eq!(timers.take_due(10), Some((10, 'b')));
        assert_eq!(timers.next_time(), Some(20));
    }

    #[test]
    fn a_virtual_clock_only_goes_forward() {
        let clock = Clock::new_virtual();
        clock.advance(5 * SECOND);
        clock.advance(SECOND);
        assert_eq!(clock.now(), 5 * SECOND);
        assert_eq!(clock.ticks(), 500);
    }
}

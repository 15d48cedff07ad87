// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of a stack, and its timers.
//!
//! Times are nanoseconds since the clock's start (`u64`). A **virtual** clock stands still until
//! the event loop advances it to the next event. Events fire in the order (time, sequence of
//! arming), so that the same script gives the same output. A **real** clock reads the machine's
//! monotonic time.
//!
//! Wall-clock time, which capture time stamps need, is `epoch_ns + now`. Under a virtual clock, the
//! epoch is set once from the first captured packet and is zero if there is none.

#[cfg(all(test, loom))]
mod loom_models;
mod sleepers;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::{AtomicU64, Ordering};

use sleepers::Sleepers;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// `USER_HZ`: the tick rate of ages and times that netlink reports to users.
pub const USER_HZ: u64 = 100;

/// The time source.
#[derive(Debug)]
enum Source {
    Virtual(AtomicU64),
    Real(Instant),
}

/// Reads two clocks until they were read at once, or a few times, and returns the best of these. Between two reads the thread
/// may have to wait for a processor; the clocks of a stack would differ by that for its life. `read` also says how long it took.
fn quickest<T>(mut read: impl FnMut() -> (Duration, T)) -> T {
    const AT_ONCE: Duration = Duration::from_micros(5);
    const TRIES: usize = 20;
    let mut best = read();
    for _ in 1..TRIES {
        if best.0 <= AT_ONCE {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

/// The clock of a stack; see the module documentation.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    epoch_ns: AtomicU64,
}

impl Clock {
    /// Creates a virtual clock at time 0.
    pub fn new_virtual() -> Self {
        Self {
            source: Source::Virtual(AtomicU64::new(0)),
            epoch_ns: AtomicU64::new(0),
        }
    }

    /// Creates a real clock that starts at 0 now.
    pub fn new_real() -> Self {
        let (start, wall) = quickest(|| {
            let start = Instant::now();
            let wall = SystemTime::now();
            (start.elapsed(), (start, wall))
        });
        let wall = wall.duration_since(UNIX_EPOCH);
        Self {
            source: Source::Real(start),
            epoch_ns: AtomicU64::new(wall.map_or(0, |wall| wall.as_nanos() as u64)),
        }
    }

    /// Returns whether time is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Virtual(_))
    }

    /// Returns the nanoseconds since the clock's start.
    pub fn now(&self) -> u64 {
        match &self.source {
            Source::Virtual(now) => now.load(Ordering::Acquire),
            Source::Real(start) => start.elapsed().as_nanos() as u64,
        }
    }

    /// Returns the wall-clock time of the clock's start, in ns since 1970.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns.load(Ordering::Relaxed)
    }

    /// Returns the milliseconds since midnight UT at a time of the clock (`inet_current_timestamp`).
    pub fn day_time(&self, now: u64) -> u32 {
        ((self.epoch_ns() + now) / MILLISECOND % 86_400_000) as u32
    }

    /// Returns the wall-clock time that programs see, in ns since 1970. A virtual clock without an epoch begins in the
    /// year 2000 for them: many take a time of 0 for none.
    pub fn wall_ns(&self) -> u64 {
        const YEAR_2000: u64 = 946_684_800_000_000_000;
        let epoch = match self.epoch_ns() {
            0 => YEAR_2000,
            epoch => epoch,
        };
        epoch + self.now()
    }

    /// Sets the wall-clock time of the clock's start, in ns since 1970.
    pub fn set_epoch_ns(&self, ns: u64) {
        self.epoch_ns.store(ns, Ordering::Relaxed);
    }

    /// Advances a virtual clock to `time`. Does nothing if `time` is in the past or the clock is
    /// real.
    pub fn advance(&self, time: u64) {
        if let Source::Virtual(now) = &self.source {
            now.fetch_max(time, Ordering::AcqRel);
        }
    }

    /// Returns the time in `USER_HZ` ticks.
    pub fn ticks(&self) -> u64 {
        self.now() / (SECOND / USER_HZ)
    }
}

/// Identifies an armed timer, for cancelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    time: u64,
    /// Twice the number of timers armed before and with it, and one more if a packet waits for it. Not 0, so that no
    /// timer needs no further word.
    seq: NonZeroU64,
}

impl TimerId {
    fn new(time: u64, number: u64, holds: Holds) -> Self {
        let seq = number << 1 | u64::from(holds == Holds::Packet);
        let seq = NonZeroU64::new(seq).unwrap_or(NonZeroU64::MAX);
        Self { time, seq }
    }

    fn holds_packet(self) -> bool {
        self.seq.get() & 1 != 0
    }

    /// Returns when the timer fires, in ns of the stack's clock.
    pub fn time(&self) -> u64 {
        self.time
    }
}

/// Whether a timer keeps alive a run that waits for all packets to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A packet waits for this timer (a queue's watchdog, an unresolved neighbour, a capture).
    Packet,
    /// Only housekeeping waits for it: ages, lifetimes.
    Nothing,
}

struct Queue<T> {
    armed: BTreeMap<TimerId, T>,
    last_seq: u64,
    packets: usize,
    sleepers: Sleepers,
}

impl<T> Queue<T> {
    /// Returns the time of the next timer.
    fn next_time(&self) -> Option<u64> {
        self.armed.first_key_value().map(|(id, _)| id.time)
    }

    fn remove(&mut self, id: TimerId) -> Option<T> {
        let what = self.armed.remove(&id)?;
        self.packets -= usize::from(id.holds_packet());
        Some(what)
    }
}

/// Timers ordered by (time, sequence). They are guarded by one lock that is held for a single map
/// operation. It is the last in the lock order, so any code may arm or cancel timers.
///
/// The time of the first timer is beside them, so that a CPU without a timer to run takes no lock that others take.
pub struct Timers<T> {
    queue: Mutex<Queue<T>, order::Timers>,
    /// A time before which no timer is due, or `u64::MAX`. Changes under the lock.
    first: AtomicU64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                armed: BTreeMap::new(),
                last_seq: 0,
                packets: 0,
                sleepers: Sleepers::default(),
            }),
            first: AtomicU64::new(u64::MAX),
        }
    }
}

impl<T> Timers<T> {
    fn queue(&self) -> order::MutexGuard<'_, Queue<T>, order::Timers> {
        self.queue.lock()
    }

    /// Arms a timer for `time`. Timers with the same time fire in the order they were armed.
    pub fn arm(&self, time: u64, holds: Holds, what: T) -> TimerId {
        self.arm_next(time, holds, what).0
    }

    /// As [`arm`](Self::arm). Also returns whether sleeping CPUs have to be woken: none looks in time for this timer.
    pub fn arm_next(&self, time: u64, holds: Holds, what: T) -> (TimerId, bool) {
        let mut queue = self.queue();
        queue.last_seq += 1;
        let id = TimerId::new(time, queue.last_seq, holds);
        queue.packets += usize::from(id.holds_packet());
        queue.armed.insert(id, what);
        self.tell_first(&queue);
        (id, queue.sleepers.wakes(time))
    }

    /// Notes that a CPU is about to sleep at `now`, for at most `longest` ns. Returns until when: in time for the next
    /// timer, or a few milliseconds after it if another CPU is expected to run it. The CPU calls [`awake`](Self::awake)
    /// after its sleep, and looks for timers then and before it calls this again.
    pub fn sleep(&self, cpu: usize, now: u64, longest: u64) -> u64 {
        let mut queue = self.queue();
        let next = queue.next_time();
        queue.sleepers.sleep(cpu, now, next, longest)
    }

    /// Notes that a CPU is awake. Returns whether those that still sleep have to be woken, since they relied on it.
    pub fn awake(&self, cpu: usize) -> bool {
        let mut queue = self.queue();
        queue.sleepers.awake(cpu);
        let next = queue.next_time();
        next.is_some_and(|next| queue.sleepers.wakes(next))
    }

    /// Cancels a timer. Returns its payload, or `None` if it has fired or was already cancelled.
    pub fn cancel(&self, id: TimerId) -> Option<T> {
        let mut queue = self.queue();
        let what = queue.remove(id)?;
        self.tell_first(&queue);
        Some(what)
    }

    /// Returns the time of the next timer.
    pub fn next_time(&self) -> Option<u64> {
        self.queue().next_time()
    }

    /// Takes the next timer that is due at or before `now`.
    pub fn take_due(&self, now: u64) -> Option<(u64, T)> {
        if now < self.first.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.queue();
        let id = *queue.armed.keys().next()?;
        if id.time > now {
            return None;
        }
        let what = queue.remove(id)?;
        self.tell_first(&queue);
        Some((id.time, what))
    }

    /// Notes the time of the first timer.
    fn tell_first(&self, queue: &Queue<T>) {
        let first = queue.next_time().unwrap_or(u64::MAX);
        if self.first.load(Ordering::Relaxed) != first {
            self.first.store(first, Ordering::Release);
        }
    }

    /// Returns whether any armed timer holds a packet.
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

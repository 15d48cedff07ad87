// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flat combining: many producers, one of which at a time drains a lockless list on behalf of all.
//!
//! Linux's transmit path puts an `llist` in front of a qdisc's lock: the sender that finds the list
//! empty takes the lock for all others, and waits while the previous holder is still working. Here
//! a sender that pushes while another one is draining returns at once, because the drainer checks
//! the list again after it has released the role. No sender ever waits for the lock. (Flat
//! combining: Hendler et al., SPAA 2010; here with a queue instead of one slot per thread.) A
//! sender that finds no drainer need not push at all ([`Combiner::enter`]).
//!
//! ```
//! # use weir_sync::{combine::Combiner, list::{Entry, Taken}};
//! let (combiner, mut sum) = (Combiner::new(), 0);
//! let mut own: Taken<_> = [1, 2].map(Entry::new).into_iter().collect();
//! if combiner.enter() || combiner.push_all(own.by_ref()) {
//!     loop {
//!         let batch = combiner.take_all().chain(std::mem::take(&mut own));
//!         sum += batch.map(Entry::into_inner).sum::<i32>();
//!         if combiner.leave() {
//!             break;
//!         }
//!     }
//! }
//! assert_eq!(sum, 3);
//! ```
//!
//! The drainer's role is one word: idle, busy, or busy and asked to check again ([`Combiner::ask`],
//! for work that is not in the list, such as a timer or a change). A push is a compare-exchange of
//! the list's head, a full fence, and a load of that word. Leaving is a store to the word, a full
//! fence, and a load of the head. The two fences ensure that at least one side sees the other. Each
//! drainer sees all writes of the previous one.

use crate::list::{Linked, LocklessList, Taken};
use crate::primitive::atomic::{AtomicU32, Ordering};
use crate::primitive::{Backoff, full_fence};
use core::fmt;
#[cfg(not(loom))]
use std::{
    thread,
    time::{Duration, Instant},
};

/// No thread is draining.
const IDLE: u32 = 0;
/// A thread is draining.
const BUSY: u32 = 1;
/// A thread is draining and must check again before it leaves.
const ASKED: u32 = 2;

/// The batch size from which a transfer of cache lines between processors pays off.
const SMALL_BATCH: u32 = 64;
/// Rounds for which a sender waits without sleeping: it spins, then yields once. Further yields
/// would only add context switches, some 3 µs each, between senders that all find the list full.
const SPIN_ROUNDS: u32 = if cfg!(any(loom, miri)) { 1 } else { 8 };
/// The sleep added for each sender that sleeps already.
#[cfg(not(loom))]
const STEP: Duration = Duration::from_millis(1);
/// The longest sleep. No new sleep begins after this much waiting.
#[cfg(not(loom))]
const LONGEST: Duration = Duration::from_millis(10);
/// How long a leaving drainer waits for another push, in `pause` instructions: some 0.5 to 1 µs.
const HANDOVER: u32 = if cfg!(any(loom, miri)) { 1 } else { 50 };

/// A lockless list and the right to drain it. See the module documentation. The words that senders
/// and the drainer write share one cache line.
#[repr(align(64))]
pub struct Combiner<L: Linked> {
    list: LocklessList<L>,
    role: AtomicU32,
    /// The approximate number of elements pushed since the last take while a drainer was active.
    waiting: AtomicU32,
    /// The number of elements last taken. Written by the drainer only.
    taken: AtomicU32,
    /// The number of senders that sleep until there is room.
    #[cfg(not(loom))]
    asleep: AtomicU32,
}

impl<L: Linked> Combiner<L> {
    /// Creates an empty list without a drainer.
    pub fn new() -> Self {
        Self {
            list: LocklessList::new(),
            role: AtomicU32::new(IDLE),
            waiting: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            #[cfg(not(loom))]
            asleep: AtomicU32::new(0),
        }
    }

    /// Returns true if `count` more elements may wait where at most `most` are allowed, and counts
    /// them as waiting. Always returns true while there is no drainer, because the pushing thread
    /// then becomes the drainer. Concurrent callers may together exceed `most`.
    #[inline]
    pub fn admit(&self, count: u32, most: u32) -> bool {
        if self.role.load(Ordering::Relaxed) == IDLE {
            return true;
        }
        let room = self.waiting.load(Ordering::Relaxed).saturating_add(count) <= most;
        if room {
            self.waiting.fetch_add(count, Ordering::Relaxed);
        }
        room
    }

    /// Does the same as [`admit`](Self::admit), but waits for room before it returns false: for some
    /// 10 ms, at most 20 ms.
    ///
    /// With many senders on few processors, senders that spin only take the processor and the cache
    /// lines from the drainer. So they sleep, and wake one after the other by their own timers. The
    /// drainer does not wake them: a wakeup would cost it more than it gains, and without wakeups
    /// none can be missed.
    pub fn admit_later(&self, count: u32, most: u32) -> bool {
        let mut wait = Backoff::new();
        for _ in 0..SPIN_ROUNDS {
            if self.admit(count, most) {
                return true;
            }
            wait.spin();
        }
        self.sleep_for(count, most)
    }

    #[cfg(not(loom))]
    #[cold]
    fn sleep_for(&self, count: u32, most: u32) -> bool {
        let start = Instant::now();
        while start.elapsed() < LONGEST {
            let asleep = self.asleep.fetch_add(1, Ordering::Relaxed) + 1;
            thread::sleep(LONGEST.min(STEP * asleep));
            self.asleep.fetch_sub(1, Ordering::Relaxed);
            if self.admit(count, most) {
                return true;
            }
        }
        false
    }

    #[cfg(loom)]
    fn sleep_for(&self, count: u32, most: u32) -> bool {
        self.admit(count, most)
    }

    /// Pushes all elements, in order and together. Returns true if the caller is now the drainer:
    /// it must then call [`take_all`](Self::take_all) and [`leave`](Self::leave).
    #[inline]
    pub fn push_all(&self, elements: impl IntoIterator<Item = L>) -> bool {
        self.list.push_all(elements);
        full_fence();
        self.enter()
    }

    /// Takes the drainer's role if it is free. Returns true if the caller is now the drainer. It
    /// may then process its own elements without pushing them, after the older ones that
    /// [`take_all`](Self::take_all) returns.
    #[inline]
    pub fn enter(&self) -> bool {
        self.role.load(Ordering::Relaxed) == IDLE && self.begin()
    }

    #[inline]
    fn begin(&self) -> bool {
        self.role
            .compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Announces work that is not in the list. Returns true if the caller is now the drainer.
    /// Returns false if there is a drainer, which will check again.
    pub fn ask(&self) -> bool {
        loop {
            if self.begin() {
                return true;
            }
            let asked =
                self.role
                    .compare_exchange(BUSY, ASKED, Ordering::Release, Ordering::Relaxed);
            match asked {
                Err(IDLE) => {}
                _ => return false,
            }
        }
    }

    /// Takes all pushed elements, oldest first. Only the drainer may call it.
    #[inline]
    pub fn take_all(&self) -> Taken<L> {
        let taken = self.list.take_all();
        self.taken.store(taken.len(), Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
        taken
    }

    /// Returns true if the list has elements.
    #[cfg(test)]
    pub fn has_some(&self) -> bool {
        !self.list.is_empty()
    }

    /// Gives up the drainer's role. Returns false if new work has arrived that no other thread has
    /// taken over; the caller is then still the drainer.
    #[inline]
    pub fn leave(&self) -> bool {
        let idle = self
            .role
            .compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed);
        if idle.is_err() {
            // Acquires the writes of the thread that called `ask`.
            self.role.swap(BUSY, Ordering::Acquire);
            return false;
        }
        full_fence();
        self.list.is_empty() || !self.resume()
    }

    /// Takes the drainer's role back after a push that arrived during `leave`. Returns false if
    /// another thread has become the drainer.
    ///
    /// Other threads are pushing right now. Draining their elements one by one would cost each side
    /// a cache-line transfer per element. So after a small batch the leaving drainer pauses before
    /// it checks the list again: a sender that finds the role free in the meantime takes over, with
    /// its own batch already in its cache. The pause does not read the shared line, because that
    /// would pull the line away from the senders.
    #[cold]
    #[inline(never)]
    fn resume(&self) -> bool {
        if self.taken.load(Ordering::Relaxed) < SMALL_BATCH {
            for _ in 0..HANDOVER {
                core::hint::spin_loop();
            }
            if self.list.is_empty() {
                // Another thread has become the drainer and emptied the list.
                return false;
            }
        }
        self.begin()
    }

    /// Gives up the drainer's role even if elements remain; the caller must make sure that some
    /// thread calls [`ask`](Self::ask) later. Returns false if a thread has called it already; the
    /// caller is then still the drainer.
    pub fn abandon(&self) -> bool {
        let idle = self
            .role
            .compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed);
        if idle.is_err() {
            self.role.swap(BUSY, Ordering::Acquire);
        }
        idle.is_ok()
    }
}

impl<L: Linked> Default for Combiner<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Linked> fmt::Debug for Combiner<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combiner")
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

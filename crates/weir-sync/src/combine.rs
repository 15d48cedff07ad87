// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many producers, one of them at a time at work for all: a lockless list and the right to drain it.
//!
//! Linux's transmit path puts an `llist` in front of a qdisc's lock: who finds the list empty takes the
//! lock for all others; it still waits while the holder before it is at work. Here whoever pushes and
//! finds somebody at work goes away at once, since who is at work looks at the list again after it has
//! given the right back; so nobody ever waits (flat combining, Hendler et al., SPAA 2010, with a queue
//! in place of a slot a thread). Who finds nobody at work need not push at all ([`Combiner::enter`]).
//!
//! ```
//! # use weir_sync::{combine::Combiner, list::{Entry, Taken}};
//! let (combiner, mut sum) = (Combiner::new(), 0);
//! let mut own: Taken<_> = [1, 2].map(Entry::new).into_iter().collect();
//! if combiner.enter() || combiner.push_all(own.by_ref()) {
//!     loop {
//!         let come = combiner.take_all().chain(std::mem::take(&mut own));
//!         sum += come.map(Entry::into_inner).sum::<i32>();
//!         if combiner.leave() {
//!             break;
//!         }
//!     }
//! }
//! assert_eq!(sum, 3);
//! ```
//!
//! The right is one word: nobody, somebody, or somebody who was asked to look again ([`Combiner::ask`],
//! for work that is not in the list: a timer, a change). A push is a compare-exchange of the list's head,
//! a fence, and a load of that word; to leave is a store of it, a fence, and a load of the head. The
//! two fences forbid that both sides miss each other. What one holder has written is seen by the next.

use crate::list::{Linked, LocklessList, Taken};
use crate::primitive::atomic::{AtomicU32, Ordering};
use crate::primitive::{Backoff, full_fence};
use core::fmt;
#[cfg(not(loom))]
use std::{
    thread,
    time::{Duration, Instant},
};

/// Nobody is at work.
const IDLE: u32 = 0;
/// Somebody is.
const BUSY: u32 = 1;
/// Somebody is, and has to look again.
const ASKED: u32 = 2;

/// Elements taken at once that are worth another processor's cache lines.
const FEW: u32 = 64;
/// Rounds for which a sender waits awake: spins, then a yield. More yields would be more switches of threads,
/// some 3 µs each, of senders that all find no room.
const AWAKE: u32 = if cfg!(any(loom, miri)) { 1 } else { 8 };
/// Between two that get up, while there are few.
#[cfg(not(loom))]
const STEP: Duration = Duration::from_millis(1);
/// The longest sleep; and after as much no other is begun.
#[cfg(not(loom))]
const LONGEST: Duration = Duration::from_millis(10);
/// How long who leaves waits for another that is about to come, in pauses of the processor: some 0.5 to 1 µs.
const HANDOVER: u32 = if cfg!(any(loom, miri)) { 1 } else { 50 };

/// See the module. What senders and the one at work write lies on one line.
#[repr(align(64))]
pub struct Combiner<L: Linked> {
    list: LocklessList<L>,
    right: AtomicU32,
    /// Elements pushed while somebody was at work, since they were last taken; about right.
    waiting: AtomicU32,
    /// Elements last taken; of the one at work.
    taken: AtomicU32,
    /// Senders that sleep until there is room.
    #[cfg(not(loom))]
    asleep: AtomicU32,
}

impl<L: Linked> Combiner<L> {
    /// Empty, and nobody at work.
    pub fn new() -> Self {
        Self {
            list: LocklessList::new(),
            right: AtomicU32::new(IDLE),
            waiting: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            #[cfg(not(loom))]
            asleep: AtomicU32::new(0),
        }
    }

    /// Whether `count` more may wait where at most `most` do. Free while nobody is at work, as who pushes
    /// then is; of those that push at the same moment some may be let in beyond `most`.
    #[inline]
    pub fn admit(&self, count: u32, most: u32) -> bool {
        if self.right.load(Ordering::Relaxed) == IDLE {
            return true;
        }
        let room = self.waiting.load(Ordering::Relaxed).saturating_add(count) <= most;
        if room {
            self.waiting.fetch_add(count, Ordering::Relaxed);
        }
        room
    }

    /// As [`admit`](Self::admit), of a thread that may wait for room: some 10 ms, at most 20.
    ///
    /// Where many send on few processors, those that wait awake only take the processor from the one at
    /// work, and its cache lines. So they sleep, and get up one after the other. Nobody wakes them: that would
    /// cost who is at work more than it gains, and no sleep can be missed.
    pub fn admit_later(&self, count: u32, most: u32) -> bool {
        let mut wait = Backoff::new();
        for _ in 0..AWAKE {
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

    /// Adds all, in order and together. True: the caller is now the one at work, and has to take all
    /// and then [`leave`](Self::leave).
    #[inline]
    pub fn push_all(&self, elements: impl IntoIterator<Item = L>) -> bool {
        self.list.push_all(elements);
        full_fence();
        self.enter()
    }

    /// Comes with elements in hand. True: nobody is at work, and the caller now is: what
    /// [`take_all`](Self::take_all) gives has come before its own, which need not be pushed.
    #[inline]
    pub fn enter(&self) -> bool {
        self.right.load(Ordering::Relaxed) == IDLE && self.begin()
    }

    #[inline]
    fn begin(&self) -> bool {
        self.right
            .compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// There may be work that is not in the list. True: the caller is now the one at work. False: who
    /// is at work will look again.
    pub fn ask(&self) -> bool {
        loop {
            if self.begin() {
                return true;
            }
            let asked =
                self.right
                    .compare_exchange(BUSY, ASKED, Ordering::Release, Ordering::Relaxed);
            match asked {
                Err(IDLE) => {}
                _ => return false,
            }
        }
    }

    /// Takes all that has come, oldest first; by the one at work.
    #[inline]
    pub fn take_all(&self) -> Taken<L> {
        let taken = self.list.take_all();
        self.taken.store(taken.len(), Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
        taken
    }

    /// Whether something has come.
    #[cfg(test)]
    pub fn has_some(&self) -> bool {
        !self.list.is_empty()
    }

    /// Gives the right back. False: something has come meanwhile, nobody has taken the right for it, and
    /// the caller is at work still.
    #[inline]
    pub fn leave(&self) -> bool {
        let idle = self
            .right
            .compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed);
        if idle.is_err() {
            // Asked: what the asker has written is to be seen.
            self.right.swap(BUSY, Ordering::Acquire);
            return false;
        }
        full_fence();
        self.list.is_empty() || !self.come_back()
    }

    /// Others push at this moment. Taken one by one, their elements would cost each side the transfer of
    /// a line an element. So after few they have a moment to come again and to find the right free: who
    /// takes it has at hand what it has pushed itself. In that moment the line is left to them: one look
    /// at it would take it away.
    #[cold]
    #[inline(never)]
    fn come_back(&self) -> bool {
        if self.taken.load(Ordering::Relaxed) < FEW {
            for _ in 0..HANDOVER {
                core::hint::spin_loop();
            }
            if self.list.is_empty() {
                // Somebody has taken the right since, and all.
                return false;
            }
        }
        self.begin()
    }

    /// Gives the right back though something may have come; the caller sees to it that somebody asks for
    /// it. False: somebody has asked already, and the caller is at work still.
    pub fn abandon(&self) -> bool {
        let idle = self
            .right
            .compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed);
        if idle.is_err() {
            self.right.swap(BUSY, Ordering::Acquire);
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

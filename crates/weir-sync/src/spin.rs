// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A spinlock that counts: how often it was taken, how often that had to wait, and for how long.
//!
//! For sections well under a microsecond (Linux's `spin_lock` under `lockstat`). A waiter spins with
//! growing pauses and then yields the processor, since in user space the holder may have been
//! preempted; there is no queue, as a fair lock convoys when a thread in the queue loses its core.
//! Not reentrant. May be taken by any thread; never take it inside a signal handler.
//!
//! Ordering: taking it is an acquire, letting go a release. Cost uncontended: one locked instruction
//! and two plain stores. The wait is timed only when there is one (monotonic clock, nanoseconds; zero
//! under loom and Miri).
#![allow(unsafe_code)] // hands out references into the cell it guards

use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, UnsafeCell};
use core::fmt;
use core::ops::{Deref, DerefMut};

/// What a lock has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Times taken.
    pub acquisitions: u64,
    /// Times taken after waiting for another holder.
    pub contended: u64,
    /// Nanoseconds waited, all waiters together.
    pub wait_ns: u64,
    /// Nanoseconds of the longest wait.
    pub max_wait_ns: u64,
}

impl core::ops::AddAssign for LockStats {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.wait_ns += other.wait_ns;
        self.max_wait_ns = self.max_wait_ns.max(other.max_wait_ns);
    }
}

/// See the module. The value lies behind the lock: its first part on the same line.
#[repr(C)]
pub struct SpinLock<T> {
    locked: AtomicBool,
    /// The four counters are written by the holder only, so plain loads and stores do.
    acquisitions: AtomicU64,
    value: UnsafeCell<T>,
    contended: AtomicU64,
    wait_ns: AtomicU64,
    max_wait_ns: AtomicU64,
}

// SAFETY: the value is reached by one thread at a time, under the lock.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: the lock owns its value and nothing else.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// An open lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            max_wait_ns: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// An open lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            max_wait_ns: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Octets of the lock in front of the value.
    pub const AHEAD: usize = core::mem::offset_of!(Self, value);

    /// Takes the lock, waiting for it.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        if !self.take() {
            self.lock_slow();
        }
        count(&self.acquisitions, 1);
        SpinGuard { lock: self }
    }

    /// Takes the lock if it is open.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        if !self.take() {
            return None;
        }
        count(&self.acquisitions, 1);
        Some(SpinGuard { lock: self })
    }

    #[inline]
    fn take(&self) -> bool {
        self.locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn lock_slow(&self) {
        let start = now();
        let mut wait = Backoff::new();
        loop {
            wait.spin();
            if !self.locked.load(Ordering::Relaxed) && self.take() {
                break;
            }
        }
        count(&self.contended, 1);
        let waited = elapsed(start);
        count(&self.wait_ns, waited);
        if waited > self.max_wait_ns.load(Ordering::Relaxed) {
            self.max_wait_ns.store(waited, Ordering::Relaxed);
        }
    }

    /// What the lock has counted. Exact when no holder is active.
    pub fn stats(&self) -> LockStats {
        LockStats {
            acquisitions: self.acquisitions.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
            max_wait_ns: self.max_wait_ns.load(Ordering::Relaxed),
        }
    }

    /// The value, by exclusive borrow: no locking.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` proves that no guard exists.
        unsafe { &mut *self.value.with_mut(|value| value) }
    }

    /// The value, unwrapped.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Adds under the lock: a load and a store, as only the holder writes.
#[inline(always)]
fn count(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

#[cfg(not(any(loom, miri)))]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
#[cfg(not(any(loom, miri)))]
fn elapsed(start: std::time::Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
#[cfg(any(loom, miri))]
fn now() {}
#[cfg(any(loom, miri))]
fn elapsed((): ()) -> u64 {
    0
}

impl<T: Default> Default for SpinLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Holds a [`SpinLock`] until dropped.
#[must_use = "dropping the guard lets go of the lock"]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

// SAFETY: sharing the guard shares `&T` only.
unsafe impl<T: Sync> Sync for SpinGuard<'_, T> {}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other thread reaches the value.
        unsafe { &*self.lock.value.with(|value| value) }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.with_mut(|value| value) }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
    }
}

impl<T: fmt::Debug> fmt::Debug for SpinGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::{Tracked, check};
    use crate::primitive::Arc;

    #[test]
    fn one_at_a_time() {
        check(3, || {
            let lock = Arc::new(SpinLock::new(Tracked::new(0)));
            let add = |lock: &SpinLock<Tracked>| {
                let guard = lock.lock();
                guard.write(guard.read() + 1);
            };
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || add(&lock))
            };
            add(&lock);
            if let Some(guard) = lock.try_lock() {
                guard.read();
            }
            other.join().unwrap();
            assert_eq!(lock.lock().read(), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_what_happens() {
        let lock = SpinLock::new(5);
        assert_eq!(*lock.lock(), 5);
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        assert_eq!(
            lock.stats(),
            LockStats {
                acquisitions: 2,
                ..LockStats::default()
            }
        );
        assert_eq!(lock.into_inner(), 5);
    }

    #[test]
    fn stress_adds_up() {
        const ROUNDS: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let lock = SpinLock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..ROUNDS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4 * ROUNDS);
        let stats = lock.stats();
        assert_eq!(stats.acquisitions, 4 * ROUNDS + 1);
        assert!(stats.max_wait_ns <= stats.wait_ns);
    }
}

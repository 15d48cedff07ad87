// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A spinlock that counts acquisitions, contention and wait time.
//!
//! For critical sections well under a microsecond (Linux's `spin_lock` with `lockstat`). A waiter
//! spins with growing pauses and then yields the processor, because in user space the holder may
//! have been preempted. There is no queue: a fair lock convoys when a queued thread loses its core.
//! The lock is not reentrant. Any thread may take it, but never inside a signal handler.
//!
//! Ordering: locking is an acquire, unlocking a release. Uncontended cost: one locked instruction
//! and two plain stores. A wait is timed only when there is one (monotonic clock, nanoseconds; zero
//! under loom and Miri).
#![allow(unsafe_code)] // hands out references into the cell it guards

use crate::order::{Class, Held, Unranked};
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A lock's counters since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Acquisitions that waited for another holder.
    pub contended: u64,
    /// Total wait time of all waiters, in nanoseconds.
    pub wait_ns: u64,
    /// The longest wait, in nanoseconds.
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

/// A spinlock around a value. See the module documentation. The beginning of the value shares the
/// lock's cache line.
#[repr(C)]
pub struct SpinLock<T, C: Class = Unranked> {
    class: PhantomData<fn() -> C>,
    locked: AtomicBool,
    /// Only the holder writes the four counters, so plain loads and stores suffice.
    acquisitions: AtomicU64,
    value: UnsafeCell<T>,
    contended: AtomicU64,
    wait_ns: AtomicU64,
    max_wait_ns: AtomicU64,
}

// SAFETY: one thread at a time accesses the value, under the lock.
unsafe impl<T: Send, C: Class> Sync for SpinLock<T, C> {}
// SAFETY: the lock owns its value and nothing else.
unsafe impl<T: Send, C: Class> Send for SpinLock<T, C> {}

impl<T> SpinLock<T> {
    /// Creates an unlocked lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self::ranked(value)
    }

    /// Creates an unlocked lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self::ranked(value)
    }
}

impl<T, C: Class> SpinLock<T, C> {
    /// Creates an unlocked lock around `value`.
    #[cfg(not(loom))]
    pub const fn ranked(value: T) -> Self {
        Self {
            class: PhantomData,
            locked: AtomicBool::new(false),
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            max_wait_ns: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Creates an unlocked lock around `value`.
    #[cfg(loom)]
    pub fn ranked(value: T) -> Self {
        Self {
            class: PhantomData,
            locked: AtomicBool::new(false),
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            max_wait_ns: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The number of bytes of the lock in front of the value.
    pub const AHEAD: usize = core::mem::offset_of!(Self, value);

    /// Takes the lock, waiting for it if necessary.
    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T, C> {
        Held::<C>::check();
        if !self.take() {
            self.lock_slow();
        }
        count(&self.acquisitions, 1);
        SpinGuard {
            lock: self,
            held: Held::new(),
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T, C>> {
        if !self.take() {
            return None;
        }
        count(&self.acquisitions, 1);
        Some(SpinGuard {
            lock: self,
            held: Held::new(),
        })
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

    /// Returns the lock's counters. They are exact while no thread holds the lock.
    pub fn stats(&self) -> LockStats {
        LockStats {
            acquisitions: self.acquisitions.load(Ordering::Relaxed),
            contended: self.contended.load(Ordering::Relaxed),
            wait_ns: self.wait_ns.load(Ordering::Relaxed),
            max_wait_ns: self.max_wait_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns the value without locking, by exclusive borrow.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` proves that no guard exists.
        unsafe { &mut *self.value.with_mut(|value| value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Adds to a counter under the lock, with a load and a store: only the holder writes it.
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

impl<T: Default, C: Class> Default for SpinLock<T, C> {
    fn default() -> Self {
        Self::ranked(T::default())
    }
}

impl<T, C: Class> fmt::Debug for SpinLock<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Holds a [`SpinLock`] until it is dropped.
#[must_use = "dropping the guard releases the lock"]
pub struct SpinGuard<'a, T, C: Class = Unranked> {
    lock: &'a SpinLock<T, C>,
    #[allow(dead_code)] // dropped with the guard
    held: Held<C>,
}

// SAFETY: sharing the guard shares only `&T`.
unsafe impl<T: Sync, C: Class> Sync for SpinGuard<'_, T, C> {}

impl<T, C: Class> Deref for SpinGuard<'_, T, C> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so no other thread accesses the value.
        unsafe { &*self.lock.value.with(|value| value) }
    }
}

impl<T, C: Class> DerefMut for SpinGuard<'_, T, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.with_mut(|value| value) }
    }
}

impl<T, C: Class> Drop for SpinGuard<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
    }
}

impl<T: fmt::Debug, C: Class> fmt::Debug for SpinGuard<'_, T, C> {
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

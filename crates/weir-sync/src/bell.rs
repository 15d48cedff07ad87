// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bell that wakes idle workers, and costs a producer no system call while all workers are awake.
//!
//! A worker reads [`Bell::count`], looks for work, and if it finds none calls [`Bell::prepare`]; if
//! that returns `true` it sleeps, until a producer wakes it or its own time limit passes, and then
//! calls [`Bell::awake`]. A producer publishes its work and calls [`Bell::ring`], which wakes the
//! workers that sleep or are about to. How a worker sleeps is the caller's business (an eventfd in an
//! epoll set, a condition variable), but a wake-up must not be lost if it comes before the sleep.
//!
//! Both sides write first and read second, with a full fence between (Dekker): the worker says that it
//! sleeps and then reads the count, the producer increments the count and then reads who sleeps. So
//! one of the two sees the other.

use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{CachePadded, full_fence};

/// See the module.
#[derive(Debug)]
pub struct Bell {
    rung: AtomicU64,
    /// Whether each worker sleeps or is about to.
    asleep: Box<[CachePadded<AtomicBool>]>,
}

impl Bell {
    /// Makes a bell for workers 0 to `workers - 1`.
    pub fn new(workers: usize) -> Self {
        Self {
            rung: AtomicU64::new(0),
            asleep: (0..workers).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Returns how often the bell has rung. Read it before looking for work.
    #[inline]
    pub fn count(&self) -> u64 {
        self.rung.load(Ordering::Acquire)
    }

    /// Rings: calls `wake` for each worker that sleeps or is about to. Work published before is seen
    /// by all workers that look after they wake, or that read the count after.
    #[inline]
    pub fn ring(&self, mut wake: impl FnMut(usize)) {
        self.rung.fetch_add(1, Ordering::AcqRel);
        full_fence();
        for (worker, asleep) in self.asleep.iter().enumerate() {
            if asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::AcqRel) {
                wake(worker);
            }
        }
    }

    /// Calls `wake` if a worker sleeps or is about to, without a ring. The caller has published work for
    /// this worker with an atomic read-modify-write. A worker that gets such work looks for it once more
    /// after [`Bell::prepare`] has returned true, and does not sleep if it finds some.
    #[inline]
    pub fn wake(&self, worker: usize, wake: impl FnOnce()) {
        full_fence();
        let asleep = self.asleep.get(worker);
        let sleeps = |asleep: &CachePadded<AtomicBool>| {
            asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::AcqRel)
        };
        if asleep.is_some_and(sleeps) {
            wake();
        }
    }

    /// Announces that a worker is about to sleep, having found no work after it read `seen` from
    /// [`Bell::count`]. Returns `false` if the bell has rung since: the worker must look again.
    pub fn prepare(&self, worker: usize, seen: u64) -> bool {
        let Some(asleep) = self.asleep.get(worker) else {
            return false;
        };
        asleep.swap(true, Ordering::AcqRel);
        full_fence();
        if self.rung.load(Ordering::Acquire) == seen {
            return true;
        }
        asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Says that a worker is awake again, for whatever reason.
    pub fn awake(&self, worker: usize) {
        if let Some(asleep) = self.asleep.get(worker) {
            asleep.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;

    /// Work published before a ring is found by the worker, or the worker is woken.
    #[test]
    fn no_wake_up_is_lost() {
        check(3, || {
            let shared = Arc::new((Bell::new(1), AtomicBool::new(false), AtomicBool::new(false)));
            let producer = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let (bell, work, woken) = &*shared;
                    work.store(true, Ordering::Relaxed);
                    bell.ring(|_| woken.store(true, Ordering::Relaxed));
                })
            };
            let (bell, work, woken) = &*shared;
            let seen = bell.count();
            let found = work.load(Ordering::Relaxed);
            let sleeps = !found && bell.prepare(0, seen);
            producer.join().unwrap();
            assert!(!sleeps || woken.load(Ordering::Relaxed));
        });
    }

    /// A worker that does not sleep because the bell rang finds the work.
    #[test]
    fn work_is_seen_after_a_ring() {
        check(3, || {
            let shared = Arc::new((Bell::new(1), AtomicBool::new(false)));
            let producer = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.store(true, Ordering::Relaxed);
                    shared.0.ring(|_| ());
                })
            };
            if shared.0.count() == 1 {
                assert!(shared.1.load(Ordering::Relaxed));
            } else if !shared.0.prepare(0, 0) {
                assert!(shared.1.load(Ordering::Relaxed));
            }
            producer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn sleepers_alone_are_woken() {
        let bell = Bell::new(2);
        let mut woken = Vec::new();
        bell.ring(|worker| woken.push(worker));
        assert!(woken.is_empty());
        assert!(!bell.prepare(0, 0), "it has rung");
        assert!(bell.prepare(1, 1));
        bell.ring(|worker| woken.push(worker));
        bell.ring(|worker| woken.push(worker));
        assert_eq!(woken, [1]);
        assert!(bell.prepare(0, 3));
        bell.awake(0);
        bell.ring(|worker| woken.push(worker));
        assert_eq!(woken, [1]);
        assert!(!bell.prepare(2, 4), "there is no such worker");
    }

    /// Two workers sleep on channels while a producer adds work: all of it gets done, and no sleep
    /// lasts until its time limit.
    #[test]
    fn stress_work_gets_done() {
        let count = if cfg!(miri) { 20 } else { 20_000 };
        let bell = Bell::new(2);
        let (work, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let (wakers, sleepers): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::sync_channel(1)).unzip();
        std::thread::scope(|scope| {
            for (worker, sleeper) in sleepers.into_iter().enumerate() {
                let (bell, work, done) = (&bell, &work, &done);
                scope.spawn(move || {
                    while done.load(Ordering::Relaxed) < count {
                        let seen = bell.count();
                        let take = |waiting: u64| waiting.checked_sub(1);
                        let taken = work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
                        if taken.is_ok() {
                            if done.fetch_add(1, Ordering::Relaxed) + 1 == count {
                                return;
                            }
                        } else if bell.prepare(worker, seen) {
                            let slept = sleeper.recv_timeout(Duration::from_secs(20));
                            bell.awake(worker);
                            let over = done.load(Ordering::Relaxed) == count;
                            assert!(slept.is_ok() || over, "a wake-up was lost");
                        }
                    }
                });
            }
            for _ in 0..count {
                work.fetch_add(1, Ordering::Relaxed);
                bell.ring(|worker| {
                    let _ = wakers[worker].try_send(());
                });
            }
            while done.load(Ordering::Relaxed) < count {
                std::thread::yield_now();
            }
            bell.ring(|worker| {
                let _ = wakers[worker].try_send(());
            });
        });
        assert_eq!(done.load(Ordering::Relaxed), count);
    }
}

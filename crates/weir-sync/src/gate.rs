// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gate that admits any number of threads at a time until it is closed for good. The closer waits
//! for the threads inside.
//!
//! This mirrors a killed `percpu_ref` in Linux. Each entering thread increments a counter on the
//! cache line of its lane ([`lane`](crate::lane)), so that threads in different lanes do not
//! contend. An entering thread increments first and checks `shut` second; the closer sets `shut`
//! first and reads the counters second. Both sides issue a full fence in between, so at least one
//! of them sees the other.

use crate::lane::{LANES, lane};
use crate::primitive::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::primitive::{Backoff, CachePadded, Mutex, full_fence};
use std::sync::PoisonError;

/// A gate that is closed once. See the module documentation.
#[derive(Debug, Default)]
pub struct Gate {
    /// True once the gate has been closed for good.
    closed: Mutex<bool>,
    /// True if no thread may enter: the gate is closed or a close is in progress.
    shut: AtomicBool,
    /// The number of threads inside, per lane.
    inside: [CachePadded<AtomicU32>; LANES],
}

/// Holds the count of a thread that is inside.
struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    /// Runs `inside` and returns its result. Returns `None` without running it if the gate is
    /// closed or a [`close_if`](Self::close_if) is in progress. `inside` must not close the gate.
    #[inline]
    pub fn pass<R>(&self, inside: impl FnOnce() -> R) -> Option<R> {
        if self.shut.load(Ordering::Relaxed) {
            // This path does not touch the counters, so a rejected thread does not delay the
            // closer.
            return None;
        }
        let count = &*self.inside[lane() % LANES];
        count.fetch_add(1, Ordering::Relaxed);
        let _inside = Inside(count);
        full_fence();
        (!self.shut.load(Ordering::Acquire)).then(inside)
    }

    /// Waits until no thread is inside and closes the gate if `condition` then holds. Returns true
    /// if this call closed it. Returns false without evaluating `condition` if it was closed
    /// before.
    pub fn close_if(&self, condition: impl FnOnce() -> bool) -> bool {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return false;
        }
        self.shut.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for count in &self.inside {
            let mut backoff = Backoff::new();
            while count.load(Ordering::Acquire) != 0 {
                backoff.snooze();
            }
        }
        *closed = condition();
        if !*closed {
            self.shut.store(false, Ordering::Release);
        }
        *closed
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code)] // a cell that loom watches
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;
    use loom::cell::UnsafeCell;

    /// The closer and a thread inside never run at the same time, and the closer sees what was done
    /// inside.
    #[test]
    fn no_thread_is_inside_at_close() {
        check(3, || {
            let gate = Arc::new((Gate::default(), UnsafeCell::new(0)));
            let other = {
                let gate = gate.clone();
                loom::thread::spawn(move || {
                    // SAFETY: loom reports concurrent access.
                    gate.0.pass(|| gate.1.with_mut(|n| unsafe { *n += 1 }))
                })
            };
            let mut seen = 0;
            let closed = gate.0.close_if(|| {
                // SAFETY: as above.
                seen = gate.1.with(|n| unsafe { *n });
                true
            });
            assert!(closed);
            assert_eq!(other.join().unwrap().is_some(), seen == 1);
            assert_eq!(gate.0.pass(|| ()), None);
            assert!(!gate.0.close_if(|| true));
        });
    }

    /// A gate whose close was abandoned admits threads again, and a later closer sees their work.
    #[test]
    fn an_abandoned_close_reopens_the_gate() {
        check(2, || {
            let gate = Arc::new((Gate::default(), AtomicU32::new(0)));
            let other = {
                let gate = gate.clone();
                loom::thread::spawn(move || gate.0.close_if(|| gate.1.load(Ordering::Relaxed) == 0))
            };
            let inside = gate.0.pass(|| gate.1.store(1, Ordering::Relaxed));
            let closed = other.join().unwrap();
            if closed {
                assert_eq!(inside, None);
            } else {
                assert_eq!(gate.0.pass(|| ()), Some(()));
                assert_eq!(inside, Some(()));
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::lane::Lanes;

    /// Four threads count up while another tries to close repeatedly, and closes for good once the
    /// count is high enough. Nothing is counted after that, and no count is lost.
    #[test]
    fn stress_nothing_enters_after_close() {
        let rounds = if cfg!(miri) { 2 } else { 200 };
        let lanes = Lanes::default();
        for _ in 0..rounds {
            let (gate, total) = (Gate::default(), AtomicU32::new(0));
            let worker = || {
                let _lane = lanes.enter();
                let mut done = 0;
                for _ in 0..1000 {
                    let inside = gate.pass(|| total.fetch_add(1, Ordering::Relaxed));
                    done += u32::from(inside.is_some());
                }
                done
            };
            let mut at_close = None;
            let counted = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
                while !all.iter().all(|thread| thread.is_finished()) {
                    let enough = || {
                        let total = total.load(Ordering::Relaxed);
                        at_close = Some(total);
                        total > 500
                    };
                    if gate.close_if(enough) {
                        break;
                    }
                    at_close = None;
                }
                all.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(total.load(Ordering::Relaxed), counted);
            assert_eq!(at_close.unwrap_or(counted), counted);
        }
    }

    /// Threads enter and leave in lanes of their own; the closer finds no thread inside.
    #[test]
    fn stress_closer_is_alone() {
        let (gate, lanes) = (Gate::default(), Lanes::default());
        let (inside, passed, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _lane = lanes.enter();
                    while !done.load(Ordering::Relaxed) {
                        let out = gate.pass(|| {
                            inside.fetch_add(1, Ordering::Relaxed);
                            passed.fetch_add(1, Ordering::Relaxed);
                            std::hint::black_box((0..50).map(std::hint::black_box).sum::<u32>());
                            inside.fetch_sub(1, Ordering::Relaxed);
                        });
                        if out.is_none() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut alone = true;
            for _ in 0..if cfg!(miri) { 20 } else { 300 } {
                let before = passed.load(Ordering::Relaxed);
                while passed.load(Ordering::Relaxed) < before.wrapping_add(5) {
                    std::thread::yield_now();
                }
                assert!(!gate.close_if(|| {
                    alone &= (0..20).all(|_| inside.load(Ordering::Relaxed) == 0);
                    false
                }));
            }
            done.store(true, Ordering::Relaxed);
            assert!(alone);
        });
    }

    #[test]
    fn only_the_first_close_succeeds() {
        let gate = Gate::default();
        assert!(!gate.close_if(|| false));
        assert_eq!(gate.pass(|| 7), Some(7));
        assert!(gate.close_if(|| true));
        assert_eq!(gate.pass(|| 7), None);
        assert!(!gate.close_if(|| true));
    }
}

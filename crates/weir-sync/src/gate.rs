// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A gate: lets threads in, any number at a time, until it is closed for good; who closes it waits for
//! those inside.
//!
//! What Linux does with a `percpu_ref` that is killed. Those that come in count themselves, each on a line
//! of its lane ([`lane`](crate::lane)), so that they do not meet. They count first and then look whether it is
//! shut; who closes shuts first and then looks at the counts, with a full fence between on both sides: one
//! of the two sees the other.

use crate::lane::{LANES, lane};
use crate::primitive::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::primitive::{Backoff, CachePadded, Mutex, full_fence};
use std::sync::PoisonError;

/// See the module.
#[derive(Debug, Default)]
pub struct Gate {
    /// Somebody has closed it for good.
    closed: Mutex<bool>,
    /// Nobody comes in: it is closed, or about to be.
    shut: AtomicBool,
    /// Threads inside, by lane.
    inside: [CachePadded<AtomicU32>; LANES],
}

/// A thread that counts among those inside.
struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    /// Runs `inside`; `None` without it if the gate is closed, or somebody looks just now whether to close
    /// it. Must not close the gate inside.
    #[inline]
    pub fn pass<R>(&self, inside: impl FnOnce() -> R) -> Option<R> {
        if self.shut.load(Ordering::Relaxed) {
            // Nobody is kept waiting by who comes in vain.
            return None;
        }
        let count = &*self.inside[lane() % LANES];
        count.fetch_add(1, Ordering::Relaxed);
        let _inside = Inside(count);
        full_fence();
        (!self.shut.load(Ordering::Acquire)).then(inside)
    }

    /// Closes the gate if `condition` holds once nobody is inside; answers whether it does. A gate that is
    /// closed already is the business of who closed it: `false`.
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

    /// Who is inside and who closes never work at the same time, and what was done inside is seen.
    #[test]
    fn nobody_is_inside_when_it_closes() {
        check(3, || {
            let gate = Arc::new((Gate::default(), UnsafeCell::new(0)));
            let other = {
                let gate = gate.clone();
                loom::thread::spawn(move || {
                    // SAFETY: loom tells of two at a time.
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

    /// A gate that was not closed after all lets in again, and who closes it then sees all.
    #[test]
    fn it_opens_again() {
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

    /// Four threads put numbers in while one closes again and again, for good once enough are there: no
    /// number comes after that, and none is lost.
    #[test]
    fn stress_nothing_comes_after_it_is_closed() {
        let rounds = if cfg!(miri) { 2 } else { 200 };
        let lanes = Lanes::default();
        for _ in 0..rounds {
            let (gate, there) = (Gate::default(), AtomicU32::new(0));
            let come = || {
                let _lane = lanes.enter();
                let mut done = 0;
                for _ in 0..1000 {
                    let inside = gate.pass(|| there.fetch_add(1, Ordering::Relaxed));
                    done += u32::from(inside.is_some());
                }
                done
            };
            let mut at_close = None;
            let come = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(come)).collect();
                while !all.iter().all(|thread| thread.is_finished()) {
                    let enough = || {
                        let there = there.load(Ordering::Relaxed);
                        at_close = Some(there);
                        there > 500
                    };
                    if gate.close_if(enough) {
                        break;
                    }
                    at_close = None;
                }
                all.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(there.load(Ordering::Relaxed), come);
            assert_eq!(at_close.unwrap_or(come), come);
        }
    }

    /// Threads come and go in lanes of their own; who closes finds nobody inside.
    #[test]
    fn stress_who_closes_is_alone() {
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
    fn it_is_closed_once() {
        let gate = Gate::default();
        assert!(!gate.close_if(|| false));
        assert_eq!(gate.pass(|| 7), Some(7));
        assert!(gate.close_if(|| true));
        assert_eq!(gate.pass(|| 7), None);
        assert!(!gate.close_if(|| true));
    }
}

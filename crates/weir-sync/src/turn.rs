// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of several threads serves an object for all of them.
//!
//! Each thread that has changed something asks for service. The first becomes the server; the others return at once, and
//! the server serves again for them. No thread waits, and a call from within the service returns at once, too.
//!
//! The counter is the number of requests since the server began, so a request is never lost between the server's last look
//! and its leaving: it leaves by exchanging the number that it has served for 0.

use crate::primitive::atomic::{AtomicU32, Ordering};

/// The right to serve an object. See the module documentation.
#[derive(Debug, Default)]
pub struct Turn {
    /// Requests that are not known to be served; 0 while nobody serves.
    asked: AtomicU32,
}

/// Lets others serve after a panic of the server.
struct Leave<'a>(&'a AtomicU32);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Turn {
    /// Asks for service. If nobody serves, calls `serve` until no request has come since its last call began, and returns
    /// true. Otherwise the server calls its own `serve` again, and false is returned. What this thread did before is
    /// visible to the call that serves it. If `serve` panics, requests that came meanwhile may be lost.
    pub fn serve(&self, mut serve: impl FnMut()) -> bool {
        if self.asked.fetch_add(1, Ordering::AcqRel) != 0 {
            return false;
        }
        let leave = Leave(&self.asked);
        let mut served = 1;
        loop {
            serve();
            match self
                .asked
                .compare_exchange(served, 0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(asked) => served = asked,
            }
        }
        std::mem::forget(leave);
        true
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code)] // a cell that loom watches
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU32 as Word;

    /// Every change is served, and no two threads serve at once.
    #[test]
    fn every_change_is_served_by_one() {
        check(3, || {
            // The turn, what was asked for, and what was served.
            let object = Arc::new((Turn::default(), Word::new(0), UnsafeCell::new(0)));
            let ask = |object: &(Turn, Word, UnsafeCell<u32>), bit: u32| {
                object.1.fetch_or(bit, Ordering::Relaxed);
                object.0.serve(|| {
                    let asked = object.1.load(Ordering::Relaxed);
                    // SAFETY: loom reports concurrent access.
                    object.2.with_mut(|served| unsafe { *served = asked });
                });
            };
            let others = [1, 2].map(|bit| {
                let object = object.clone();
                loom::thread::spawn(move || ask(&object, bit))
            });
            ask(&object, 4);
            for other in others {
                other.join().unwrap();
            }
            // SAFETY: the other threads have ended.
            assert_eq!(object.2.with(|served| unsafe { *served }), 7);
            assert_eq!(object.0.asked.load(Ordering::Relaxed), 0);
        });
    }

    /// A request from within the service is served after it.
    #[test]
    fn a_server_asks_for_more() {
        check(3, || {
            let turn = Arc::new(Turn::default());
            let other = {
                let turn = turn.clone();
                loom::thread::spawn(move || turn.serve(|| ()))
            };
            let mut calls = 0;
            let mine = turn.serve(|| {
                calls += 1;
                if calls == 1 {
                    assert!(!turn.serve(|| unreachable!("another serves")));
                }
            });
            assert!(!mine || calls >= 2);
            assert!(mine || other.join().unwrap());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::Arc;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_leaves_the_turn_to_others() {
        let turn = Turn::default();
        let result = catch_unwind(AssertUnwindSafe(|| turn.serve(|| panic!("service"))));
        assert!(result.is_err());
        let mut calls = 0;
        assert!(turn.serve(|| calls += 1));
        assert_eq!(calls, 1);
    }

    #[test]
    fn threads_lose_no_request() {
        let object = Arc::new((Turn::default(), AtomicU32::new(0), AtomicU32::new(0)));
        let threads = [(); 4].map(|()| {
            let object = object.clone();
            std::thread::spawn(move || {
                for _ in 0..2000 {
                    object.1.fetch_add(1, Ordering::Relaxed);
                    object.0.serve(|| {
                        object
                            .2
                            .store(object.1.load(Ordering::Relaxed), Ordering::Relaxed);
                    });
                }
            })
        });
        for thread in threads {
            thread.join().expect("the thread ends");
        }
        assert_eq!(object.2.load(Ordering::Relaxed), 8000);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests in progress on many threads, for a watcher that has to know that none is left.
//!
//! A server calls [`Progress::begin`] before it looks for a request, and drops the result when it has answered. The watcher
//! calls [`Progress::idle`] with a function that looks whether a request waits. `idle` counts on each request being either
//! where that function sees it, or with a server that has begun.
//!
//! The watcher reads the count of begun work before and after its look. With one read a server could begin between the
//! read and the look, and take the request away that the look would have seen.

use crate::primitive::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

/// See the module.
#[derive(Debug)]
pub struct Progress {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }
}

/// Work that may be in progress, until it is dropped.
#[derive(Debug)]
pub struct Work<'a>(&'a Progress);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, AcqRel);
    }
}

/// A pause of work in progress, until it is dropped.
#[derive(Debug)]
pub struct Pause<'a>(&'a Progress);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.begun.fetch_add(1, AcqRel);
    }
}

impl Progress {
    /// Marks work as in progress. Call it before looking for a request.
    pub fn begin(&self) -> Work<'_> {
        self.begun.fetch_add(1, AcqRel);
        Work(self)
    }

    /// Marks the caller's own work, which has begun, as not in progress.
    pub fn pause(&self) -> Pause<'_> {
        self.ended.fetch_add(1, AcqRel);
        Pause(self)
    }

    /// Returns a number that changes with every work, or `None` if a request waits or work is in progress.
    ///
    /// If two calls return the same number, there was no work between them.
    pub fn idle(&self, waits: impl FnOnce() -> bool) -> Option<u64> {
        let begun = self.begun.load(Acquire);
        if self.ended.load(Acquire) != begun || waits() {
            return None;
        }
        (self.begun.load(Acquire) == begun).then_some(begun)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;
    use crate::primitive::atomic::{AtomicBool, AtomicUsize};
    use crate::primitive::thread;

    /// A client sends a request and sleeps. A watcher that finds the stack idle, the client asleep, and the stack idle still,
    /// with no work in between, knows that the request has its answer.
    #[test]
    fn an_idle_stack_owes_no_answer() {
        check(3, || {
            let shared = Arc::new((
                Progress::default(),
                AtomicUsize::new(0),
                AtomicBool::new(false),
                AtomicBool::new(false),
            ));
            let other = shared.clone();
            let client = thread::spawn(move || {
                let (_, requests, asleep, _) = &*other;
                requests.fetch_add(1, AcqRel);
                asleep.swap(true, AcqRel);
            });
            let other = shared.clone();
            let server = thread::spawn(move || {
                let (progress, requests, _, answered) = &*other;
                let _work = progress.begin();
                if requests.swap(0, AcqRel) == 1 {
                    answered.swap(true, AcqRel);
                }
            });
            let (progress, requests, asleep, answered) = &*shared;
            let idle = || progress.idle(|| requests.fetch_add(0, AcqRel) != 0);
            let before = idle();
            if before.is_some() && asleep.fetch_and(true, AcqRel) && idle() == before {
                assert!(answered.fetch_and(true, AcqRel));
            }
            client.join().unwrap();
            server.join().unwrap();
        });
    }

    /// Work of one server that ends does not hide that of another.
    #[test]
    fn all_work_counts() {
        check(3, || {
            let shared = Arc::new((Progress::default(), AtomicBool::new(false)));
            let other = shared.clone();
            let long = thread::spawn(move || {
                let _work = other.0.begin();
                other.1.swap(true, AcqRel);
                thread::yield_now();
                other.1.swap(false, AcqRel);
            });
            let other = shared.clone();
            let short = thread::spawn(move || drop(other.0.begin()));
            let (progress, works) = &*shared;
            let before = progress.idle(|| false);
            let at_work = works.fetch_or(false, AcqRel);
            assert!(!at_work || before.is_none() || progress.idle(|| false) != before);
            long.join().unwrap();
            short.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn work_and_requests_are_seen() {
        let progress = Progress::default();
        assert_eq!(progress.idle(|| false), Some(0));
        assert_eq!(progress.idle(|| true), None);
        let work = progress.begin();
        assert_eq!(progress.idle(|| false), None);
        let pause = progress.pause();
        assert_eq!(progress.idle(|| false), Some(1));
        drop(pause);
        assert_eq!(progress.idle(|| false), None);
        drop(work);
        assert_eq!(progress.idle(|| false), Some(2));
    }

    /// A server that takes the request while the watcher looks for it.
    #[test]
    fn work_that_begins_during_a_look_is_seen() {
        let progress = Progress::default();
        let mut work = None;
        assert_eq!(
            progress.idle(|| {
                work = Some(progress.begin());
                false
            }),
            None
        );
        drop(work);
        assert_eq!(progress.idle(|| false), Some(1));
    }
}

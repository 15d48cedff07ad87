// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that any thread posts for the CPUs, in the order of posting.
//!
//! Every CPU looks in each turn, and nearly always finds nothing: it reads one word then, and takes no lock that others
//! take. A thread that posts rings a bell afterwards. A CPU that has heard it finds the work, or another CPU has taken it.

use std::collections::VecDeque;

use weir_sync::order::{self, Mutex};
use weir_sync::primitive::CachePadded;
use weir_sync::primitive::atomic::AtomicBool;
use weir_sync::primitive::atomic::Ordering::{Acquire, Relaxed, Release};

/// See the module.
#[derive(Debug)]
pub(crate) struct Posted<T> {
    queue: Mutex<VecDeque<T>, order::Posted>,
    /// Whether the queue has an entry. Changes under its lock. All CPUs read it, so it is apart from what they write.
    any: CachePadded<AtomicBool>,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            any: CachePadded(AtomicBool::new(false)),
        }
    }
}

impl<T> Posted<T> {
    /// Adds an entry.
    pub fn push(&self, entry: T) {
        let mut queue = self.queue.lock();
        queue.push_back(entry);
        self.any.store(true, Release);
    }

    /// Takes the oldest entry.
    pub fn pop(&self) -> Option<T> {
        if !self.any.load(Acquire) {
            return None;
        }
        let mut queue = self.queue.lock();
        let entry = queue.pop_front();
        if queue.is_empty() {
            self.any.store(false, Relaxed);
        }
        entry
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::Arc;

    use super::*;
    use weir_sync::bell::Bell;
    use weir_sync::models::check;
    use weir_sync::primitive::thread;

    /// Work that a CPU has heard of is found, and what it has not heard of is there after a wake-up.
    #[test]
    fn posted_work_is_found() {
        check(3, || {
            let shared = Arc::new((Posted::default(), Bell::new(1), AtomicBool::new(false)));
            let other = shared.clone();
            let poster = thread::spawn(move || {
                let (posted, bell, woken) = &*other;
                posted.push(1);
                bell.ring(|_| woken.store(true, Relaxed));
            });
            let (posted, bell, woken) = &*shared;
            let seen = bell.count();
            let found = posted.pop();
            assert!(seen == 0 || found.is_some());
            let sleeps = found.is_none() && bell.prepare(0, seen);
            poster.join().unwrap();
            assert!(!sleeps || woken.load(Relaxed));
            assert!(found.or_else(|| posted.pop()) == Some(1));
            assert_eq!(posted.pop(), None);
        });
    }

    /// Two CPUs take what a thread posts: each entry once, and none stays.
    #[test]
    fn each_entry_is_taken_once() {
        check(2, || {
            let posted = Arc::new(Posted::default());
            let other = posted.clone();
            let poster = thread::spawn(move || {
                other.push(1);
                other.push(2);
            });
            let other = posted.clone();
            let taker = thread::spawn(move || other.pop());
            let mut taken = vec![posted.pop()];
            poster.join().unwrap();
            taken.push(taker.join().unwrap());
            while let Some(entry) = posted.pop() {
                taken.push(Some(entry));
            }
            let mut taken: Vec<i32> = taken.into_iter().flatten().collect();
            taken.sort_unstable();
            assert_eq!(taken, [1, 2]);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn entries_leave_in_the_order_of_posting() {
        let posted = Posted::default();
        assert_eq!(posted.pop(), None);
        posted.push('a');
        posted.push('b');
        assert_eq!(posted.pop(), Some('a'));
        posted.push('c');
        assert_eq!(
            [posted.pop(), posted.pop(), posted.pop()],
            [Some('b'), Some('c'), None]
        );
    }

    /// Each of many entries is taken once, and a thread's entries in their order.
    #[test]
    fn stress_entries_are_taken_once() {
        const THREADS: usize = 2;
        let each = if cfg!(miri) { 20 } else { 20_000 };
        let posted = Posted::default();
        let taken = AtomicUsize::new(0);
        let lists: Vec<Vec<(usize, usize)>> = std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let posted = &posted;
                scope.spawn(move || (0..each).for_each(|number| posted.push((thread, number))));
            }
            let takers: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (posted, taken) = (&posted, &taken);
                    scope.spawn(move || {
                        let mut list = Vec::new();
                        while taken.load(Relaxed) < THREADS * each {
                            match posted.pop() {
                                Some(entry) => {
                                    taken.fetch_add(1, Relaxed);
                                    list.push(entry);
                                }
                                None => std::thread::yield_now(),
                            }
                        }
                        list
                    })
                })
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap())
                .collect()
        });
        let mut all = Vec::new();
        for list in lists {
            for thread in 0..THREADS {
                let numbers = list.iter().filter(|(from, _)| *from == thread);
                assert!(numbers.is_sorted());
            }
            all.extend(list);
        }
        all.sort_unstable();
        let expected = (0..THREADS).flat_map(|thread| (0..each).map(move |n| (thread, n)));
        assert!(all.into_iter().eq(expected));
        assert_eq!(posted.pop(), None);
    }
}

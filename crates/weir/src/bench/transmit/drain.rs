// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Push and drain alone: threads push elements and take turns at working on the queue.
//!
//! An element has a cache line of its own and returns to its thread after it was dequeued. A thread
//! has at most [`CREDIT`] elements in flight, like a socket with its send budget. The working
//! thread counts the elements of each thread and checks their order. Every 64th push is timed.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use weir_sync::combine::Combiner;
use weir_sync::list::{Entry, LocklessList};
use weir_sync::spin::SpinLock;

/// The maximum number of a thread's elements in flight.
const CREDIT: u64 = 1024;
/// The number of elements that a locked queue dequeues at a time.
const BATCH: usize = 64;

/// The element: one cache line including its link, like a packet's metadata.
pub struct Item {
    thread: usize,
    number: u64,
    _rest: [u64; 5],
}

type Element = Entry<Item>;

/// The figures of a run.
pub struct Found {
    /// Millions of elements a second.
    pub millions: f64,
    /// The 99th percentile of a push, ns.
    pub p99: f64,
}

/// A queue design.
pub struct Way {
    /// Its name; Weir's own is "weir".
    pub name: &'static str,
    /// Runs it with a number of threads.
    pub run: fn(usize, Duration) -> Found,
}

/// All designs.
pub static WAYS: &[Way] = &[
    Way {
        name: "weir",
        run: measure::<Combiner<Element>>,
    },
    Way {
        name: "list + lock",
        run: measure::<ListAndLock>,
    },
    Way {
        name: "busylock",
        run: measure::<Busylock>,
    },
    Way {
        name: "parking_lot",
        run: measure::<ParkingLot>,
    },
    Way {
        name: "SegQueue",
        run: measure::<Crossbeam>,
    },
];

trait Queue: Default + Sync {
    /// Pushes an element, calls `pushed`, and, if no other thread works on the queue, passes all
    /// elements to `sink`. It is inlined for all designs, since one call more is a tenth of the
    /// measured time.
    fn submit(&self, element: Element, pushed: impl FnOnce(), sink: impl FnMut(Element));
}

impl Queue for Combiner<Element> {
    #[inline(always)]
    fn submit(&self, element: Element, pushed: impl FnOnce(), mut sink: impl FnMut(Element)) {
        let mut own = Some(element);
        let mine = self.enter() || self.push_all(own.take());
        pushed();
        if mine {
            loop {
                self.take_all().chain(own.take()).for_each(&mut sink);
                if self.leave() {
                    return;
                }
            }
        }
    }
}

/// Linux's design: the thread that finds the list empty takes the lock.
#[derive(Default)]
struct ListAndLock(LocklessList<Element>, SpinLock<()>);

impl Queue for ListAndLock {
    #[inline(always)]
    fn submit(&self, element: Element, pushed: impl FnOnce(), sink: impl FnMut(Element)) {
        let first = self.0.push(element);
        pushed();
        if first {
            let _root = self.1.lock();
            self.0.take_all().for_each(sink);
        }
    }
}

/// The state behind the lock of the locked designs.
#[derive(Default)]
struct Locked {
    queue: VecDeque<Element>,
    running: bool,
}

impl Locked {
    /// Pushes an element. Returns true if the caller must work on the queue now.
    fn push(&mut self, element: Element) -> bool {
        self.queue.push_back(element);
        !std::mem::replace(&mut self.running, true)
    }

    /// Takes elements. Returns false if there were none left.
    fn take(&mut self, into: &mut Vec<Element>) -> bool {
        let count = self.queue.len().min(BATCH);
        into.extend(self.queue.drain(..count));
        self.running = count > 0;
        self.running
    }
}

/// Linux's design before the list: a second lock in front of the first while a thread works.
#[derive(Default)]
struct Busylock {
    root: SpinLock<Locked>,
    busy: SpinLock<()>,
    contended: AtomicBool,
}

impl Queue for Busylock {
    #[inline(always)]
    fn submit(&self, element: Element, pushed: impl FnOnce(), sink: impl FnMut(Element)) {
        let enter = || {
            let mut root = self.root.lock();
            self.contended.store(true, Relaxed);
            root.push(element)
        };
        let mine = if self.contended.load(Relaxed) {
            let _busy = self.busy.lock();
            enter()
        } else {
            enter()
        };
        pushed();
        if mine {
            let take = |batch: &mut Vec<Element>| {
                let more = self.root.lock().take(batch);
                if !more {
                    self.contended.store(false, Relaxed);
                }
                more
            };
            work(take, sink);
        }
    }
}

#[derive(Default)]
struct ParkingLot(parking_lot::Mutex<Locked>);

impl Queue for ParkingLot {
    #[inline(always)]
    fn submit(&self, element: Element, pushed: impl FnOnce(), sink: impl FnMut(Element)) {
        let mine = self.0.lock().push(element);
        pushed();
        if mine {
            work(|batch| self.0.lock().take(batch), sink);
        }
    }
}

fn work(mut take: impl FnMut(&mut Vec<Element>) -> bool, mut sink: impl FnMut(Element)) {
    let mut batch = Vec::with_capacity(BATCH);
    while take(&mut batch) {
        batch.drain(..).for_each(&mut sink);
    }
}

/// A queue without locks, with Linux's RUNNING and MISSED bits around it.
#[derive(Default)]
struct Crossbeam(SegQueue<Element>, AtomicU32);

impl Queue for Crossbeam {
    #[inline(always)]
    fn submit(&self, element: Element, pushed: impl FnOnce(), mut sink: impl FnMut(Element)) {
        self.0.push(element);
        pushed();
        fence(SeqCst);
        loop {
            match self.1.load(SeqCst) {
                0 if self.1.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() => break,
                1 if self.1.compare_exchange(1, 3, SeqCst, SeqCst).is_ok() => return,
                3 => return,
                _ => {}
            }
        }
        loop {
            while let Some(element) = self.0.pop() {
                sink(element);
            }
            if self.1.compare_exchange(1, 0, SeqCst, SeqCst).is_ok() {
                return;
            }
            self.1.store(1, SeqCst);
            fence(SeqCst);
        }
    }
}

/// The elements that return to a thread.
#[derive(Default)]
#[repr(align(128))]
struct Home {
    back: LocklessList<Element>,
    taken: AtomicU64,
}

fn measure<Q: Queue>(threads: usize, length: Duration) -> Found {
    let queue = Q::default();
    let homes: Vec<Home> = (0..threads).map(|_| Home::default()).collect();
    let stop = AtomicBool::new(false);
    let ready = Barrier::new(threads + 1);
    let mut times = Vec::new();
    let mut millions = 0.0;
    std::thread::scope(|scope| {
        let (queue, homes, stop, ready) = (&queue, &homes, &stop, &ready);
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || push(queue, thread, homes, (ready, stop))))
            .collect();
        let total = || {
            homes
                .iter()
                .map(|home| home.taken.load(Relaxed))
                .sum::<u64>()
        };
        ready.wait();
        std::thread::sleep(super::warm_up(length));
        let (start, before) = (Instant::now(), total());
        std::thread::sleep(length);
        millions = (total() - before) as f64 / start.elapsed().as_secs_f64() / 1e6;
        stop.store(true, Relaxed);
        for worker in workers {
            times.extend(worker.join().unwrap_or_default());
        }
    });
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or(0);
    Found {
        millions,
        p99: p99 as f64,
    }
}

/// Pushes once all threads are ready, until stopped. Returns the times of some pushes, ns.
fn push<Q: Queue>(
    queue: &Q,
    thread: usize,
    homes: &[Home],
    (ready, stop): (&Barrier, &AtomicBool),
) -> Vec<u64> {
    let home = &homes[thread];
    let item = |number| {
        let _rest = [0; 5];
        Entry::new(Item {
            thread,
            number,
            _rest,
        })
    };
    let mut own: Vec<Element> = (0..CREDIT).map(item).collect();
    // Allocates its pages before the measurement begins.
    let mut times: Vec<_> = (0..1 << 16).collect();
    times.clear();
    let sink = |element: Element| {
        let home = &homes[element.thread];
        let number = home.taken.load(Relaxed);
        assert_eq!(
            element.number, number,
            "elements of one thread were reordered"
        );
        home.taken.store(number + 1, Relaxed);
        home.back.push(element);
    };
    ready.wait();
    let mut number = 0;
    while !stop.load(Relaxed) {
        let Some(mut element) = own.pop() else {
            own.extend(home.back.take_all());
            if own.is_empty() {
                std::thread::yield_now();
            }
            continue;
        };
        element.number = number;
        let timed = (number % 64 == 7).then(Instant::now);
        let pushed = || times.extend(timed.map(|start| start.elapsed().as_nanos() as u64));
        queue.submit(element, pushed, sink);
        number += 1;
    }
    times
}

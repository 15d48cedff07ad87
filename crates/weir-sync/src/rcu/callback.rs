// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of deferred callbacks, the code that runs them, and the offload thread.
//!
//! A queue is a deque of closures and a deque of runs (tag, count), so an entry costs four words.
//! Tags are read under the queue's lock, so a queue is sorted by tag. One thread at a time runs a
//! queue's callbacks, in order, in batches that it removes under the lock and runs without it.
//! `done` counts the callbacks that have returned; [`super::Domain::barrier`] waits on it.

use super::deferred::Deferred;
use super::domain::{CallbackMode, DomainStats, Inner};
use super::reader;
use crate::percpu::{self, PerCpu};
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Backoff, Weak, full_fence};
use crate::spin::SpinLock;
use core::cell::Cell;
use std::collections::VecDeque;

/// The maximum number of callbacks taken from the queue at a time.
const BATCH: usize = 32;
/// In place, a producer polls whenever the number of waiting callbacks reaches a multiple of this.
const POLL_EVERY: usize = if cfg!(loom) { 2 } else { 64 };
/// The number of queues for threads that are not stack CPUs.
const UNBOUND_QUEUES: usize = if cfg!(loom) { 1 } else { 8 };

#[cfg(not(loom))]
thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// Callbacks this thread has deferred under guards since it last settled.
    static OWED: Cell<usize> = const { Cell::new(0) };
}
#[cfg(loom)]
loom::thread_local! {
    static IN_CALLBACK: Cell<bool> = Cell::new(false);
    static OWED: Cell<usize> = Cell::new(0);
}

/// Returns true if the calling thread is running a callback.
pub(super) fn in_callback() -> bool {
    IN_CALLBACK.with(Cell::get)
}

/// Returns true if the calling thread has deferred so much under guards that it should settle.
#[inline]
pub(super) fn owes() -> bool {
    OWED.with(Cell::get) >= POLL_EVERY
}

#[derive(Default)]
struct Entries {
    callbacks: VecDeque<Deferred>,
    /// The tags of the callbacks, run-length encoded.
    tags: VecDeque<(u64, usize)>,
    /// The total number of callbacks queued so far.
    queued: u64,
}

impl Entries {
    fn push(&mut self, tag: u64, callback: Deferred) {
        match self.tags.back_mut() {
            Some((last, count)) if *last == tag => *count += 1,
            _ => self.tags.push_back((tag, 1)),
        }
        self.callbacks.push_back(callback);
        self.queued += 1;
    }

    /// Moves callbacks with tags below `completed` to `batch`, until it is full. Returns how many.
    fn take(&mut self, completed: u64, batch: &mut [Option<Deferred>; BATCH]) -> usize {
        let mut taken = 0;
        while let Some((tag, count)) = self.tags.front_mut() {
            if *tag >= completed || taken == BATCH {
                break;
            }
            let now = (*count).min(BATCH - taken);
            for (slot, callback) in batch[taken..].iter_mut().zip(self.callbacks.drain(..now)) {
                *slot = Some(callback);
            }
            taken += now;
            *count -= now;
            if *count == 0 {
                self.tags.pop_front();
            }
        }
        // Frees the memory of a burst once its callbacks have been taken.
        if self.callbacks.is_empty() && self.callbacks.capacity() > 1024 {
            self.callbacks = VecDeque::new();
            self.tags = VecDeque::new();
        }
        taken
    }
}

#[derive(Default)]
struct Queue {
    /// Locked to push, and to take out a batch.
    entries: SpinLock<Entries>,
    /// True while a thread runs callbacks of this queue.
    running: AtomicBool,
    /// The number of callbacks that have returned.
    done: AtomicU64,
    /// How often a producer was past the bound.
    helped: AtomicU64,
}

/// The right to run a queue's callbacks. Its drop ends the turn, also after a panic.
struct Turn<'a> {
    queue: &'a Queue,
    taken: u64,
}

impl<'a> Turn<'a> {
    /// Starts a turn. Returns `None` if another thread has one, or if this thread is running a
    /// callback.
    fn start(queue: &'a Queue) -> Option<Self> {
        if in_callback() {
            return None;
        }
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        queue
            .running
            .compare_exchange(false, true, acquire, relaxed)
            .ok()?;
        IN_CALLBACK.with(|flag| flag.set(true));
        Some(Self { queue, taken: 0 })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.queue.done.fetch_add(self.taken, Ordering::Release);
        IN_CALLBACK.with(|flag| flag.set(false));
        self.queue.running.store(false, Ordering::Release);
    }
}

impl Queue {
    /// Runs the callbacks with tags below `completed`. Returns how many ran.
    fn run(&self, completed: u64) -> usize {
        let mut total = 0;
        let Some(mut turn) = Turn::start(self) else {
            return 0;
        };
        let mut batch = [const { None }; BATCH];
        loop {
            let taken = self.entries.lock().take(completed, &mut batch);
            turn.taken = taken as u64;
            for callback in batch[..taken].iter_mut().filter_map(Option::take) {
                callback.call();
            }
            self.done.fetch_add(turn.taken, Ordering::Release);
            turn.taken = 0;
            total += taken;
            if taken < BATCH {
                return total;
            }
        }
    }

    /// Returns the oldest waiting tag and the number of waiting callbacks.
    fn front(&self) -> Option<(u64, usize)> {
        let entries = self.entries.lock();
        let (tag, _) = entries.tags.front()?;
        Some((*tag, entries.callbacks.len()))
    }
}

pub(super) struct Callbacks {
    bound: PerCpu<Queue>,
    unbound: PerCpu<Queue>,
}

impl Callbacks {
    pub(super) fn new() -> Self {
        Self {
            bound: PerCpu::new(),
            unbound: PerCpu::new(),
        }
    }

    /// Returns the calling thread's queue and the CPU it counts for.
    fn local(&self) -> (&Queue, usize) {
        match percpu::bound() {
            Some(cpu) => (self.bound.get(cpu), cpu),
            None => {
                let spread =
                    (percpu::thread_token() >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                (self.unbound.get(spread % UNBOUND_QUEUES), 0)
            }
        }
    }

    /// Returns all queues with the CPU they count for, in a fixed order.
    fn all(&self) -> impl Iterator<Item = (&Queue, usize)> {
        let unbound = self.unbound.iter().map(|(_, queue)| (queue, 0));
        self.bound
            .iter()
            .map(|(cpu, queue)| (queue, cpu))
            .chain(unbound)
    }

    pub(super) fn count(&self, stats: &mut DomainStats) {
        for (queue, _) in self.all() {
            stats.run += queue.done.load(Ordering::Acquire);
            stats.helped += queue.helped.load(Ordering::Relaxed);
            stats.locks += queue.entries.stats();
            stats.deferred += queue.entries.lock().queued;
        }
    }
}

impl Inner {
    pub(super) fn defer(&self, f: impl FnOnce() + Send + 'static) {
        let callback = Deferred::new(f);
        let (queue, cpu) = self.callbacks.local();
        let waiting = {
            let mut entries = queue.entries.lock();
            // The fence comes after the lock, and orders the unlinking before the load of the
            // epoch.
            full_fence();
            let tag = self.epoch.load(Ordering::SeqCst);
            entries.push(tag, callback);
            entries.callbacks.len()
        };
        let offload = self
            .offload
            .as_ref()
            .filter(|_| self.config.mode.offloads(cpu));
        if waiting == 1
            && let Some(offload) = offload
        {
            offload.wake();
        }
        if reader::guards_held() > 0 {
            // The drop of the last guard runs what is due.
            OWED.with(|owed| owed.set(owed.get() + 1));
        } else if waiting > self.config.bound {
            self.help(queue);
        } else if offload.is_none() && waiting.is_multiple_of(POLL_EVERY) {
            self.poll(queue);
        }
    }

    /// Runs callbacks for a thread that has deferred many under guards and has just dropped the
    /// last guard.
    #[cold]
    pub(super) fn settle(&self) {
        OWED.with(|owed| owed.set(0));
        let (queue, _) = self.callbacks.local();
        if queue
            .front()
            .is_some_and(|(_, waiting)| waiting > self.config.bound)
        {
            self.help(queue);
        } else {
            self.poll_local();
        }
    }

    /// Completes grace periods as far as possible for one queue and runs its ready callbacks.
    fn poll(&self, queue: &Queue) -> usize {
        match queue.front() {
            Some((tag, _)) => queue.run(self.complete(tag)),
            None => 0,
        }
    }

    /// Helps a queue past its bound; the caller holds no guard. See "Callbacks" in [`crate::rcu`].
    #[cold]
    fn help(&self, queue: &Queue) {
        queue.helped.fetch_add(1, Ordering::Relaxed);
        self.poll(queue);
        if self.config.patience.is_zero() || in_callback() {
            return;
        }
        let start = now();
        let mut wait = Backoff::new();
        while queue
            .front()
            .is_some_and(|(_, waiting)| waiting > self.config.bound)
            && elapsed(start) < self.config.patience
        {
            if self.poll(queue) == 0 {
                wait.snooze();
            }
        }
    }

    pub(super) fn poll_local(&self) -> usize {
        let (queue, cpu) = self.callbacks.local();
        if self.offload.is_some() && self.config.mode.offloads(cpu) {
            return 0;
        }
        self.poll(queue)
    }

    /// Runs the callbacks whose grace period other threads have completed.
    #[cfg(all(test, loom))]
    pub(super) fn poll_completed(&self) -> usize {
        self.callbacks.local().0.run(self.completed())
    }

    pub(super) fn poll_all(&self) -> usize {
        self.callbacks
            .all()
            .map(|(queue, _)| self.poll(queue))
            .sum()
    }

    pub(super) fn barrier(&self) {
        for (queue, cpu) in self.callbacks.all() {
            let target = queue.entries.lock().queued;
            let offloaded = self.offload.is_some() && self.config.mode.offloads(cpu);
            let mut wait = Backoff::new();
            if let Some(offload) = &self.offload {
                offload.wake();
            }
            while queue.done.load(Ordering::Acquire) < target {
                if offloaded || self.poll(queue) == 0 {
                    wait.snooze();
                }
            }
        }
    }

    /// Runs one round of the offload thread. Returns how many callbacks ran, and whether any still
    /// wait.
    #[cfg(not(loom))]
    fn run_offloaded(&self) -> (usize, bool) {
        let mut ran = 0;
        let mut waits = false;
        for (queue, cpu) in self.callbacks.all() {
            if self.config.mode.offloads(cpu) {
                ran += self.poll(queue);
                waits |= queue.front().is_some();
            }
        }
        (ran, waits)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(offload) = &mut self.offload {
            offload.stop();
        }
        // Each guard keeps the domain alive, so none is left and all waiting callbacks are ready.
        for (queue, _) in self.callbacks.all() {
            let callbacks = core::mem::take(&mut queue.entries.lock().callbacks);
            callbacks.into_iter().for_each(Deferred::call);
        }
    }
}

#[cfg(not(any(loom, miri)))]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
#[cfg(not(any(loom, miri)))]
fn elapsed(start: std::time::Instant) -> core::time::Duration {
    start.elapsed()
}
#[cfg(any(loom, miri))]
fn now() {}
/// Models have no clock, so patience runs out at once.
#[cfg(any(loom, miri))]
fn elapsed((): ()) -> core::time::Duration {
    core::time::Duration::MAX
}

pub(super) use offload::Offload;

#[cfg(not(loom))]
mod offload {
    //! The offload thread. It sleeps while no callback waits; a producer wakes it with the first
    //! callback of its queue. While a reader blocks a grace period, the thread checks again every
    //! 100 microseconds. It holds the domain only while it works, and exits with it.
    use super::{CallbackMode, Inner, Weak};
    use std::sync::{Arc, Condvar, Mutex, PoisonError};
    use std::thread::JoinHandle;
    use std::time::Duration;

    const RETRY: Duration = Duration::from_micros(100);

    #[derive(Default)]
    struct Signal {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        wake: bool,
        stop: bool,
    }

    pub(in crate::rcu) struct Offload {
        signal: Arc<Signal>,
        thread: Option<JoinHandle<()>>,
    }

    impl Offload {
        /// Starts the thread if the mode calls for one. If the system cannot create it, callbacks
        /// run in place.
        pub(in crate::rcu) fn start(mode: &CallbackMode, domain: &Weak<Inner>) -> Option<Self> {
            if *mode == CallbackMode::InPlace {
                return None;
            }
            let signal = Arc::new(Signal::default());
            let (domain, heard) = (domain.clone(), signal.clone());
            let thread = std::thread::Builder::new()
                .name("weir-rcu".to_owned())
                .spawn(move || work(&domain, &heard))
                .ok()?;
            Some(Self {
                signal,
                thread: Some(thread),
            })
        }

        pub(in crate::rcu) fn wake(&self) {
            let mut state = self
                .signal
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            state.wake = true;
            self.signal.changed.notify_one();
        }

        /// Stops the thread and waits for it, unless it is itself the thread that drops the domain.
        pub(in crate::rcu) fn stop(&mut self) {
            self.signal
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .stop = true;
            self.signal.changed.notify_one();
            if let Some(thread) = self.thread.take()
                && thread.thread().id() != std::thread::current().id()
            {
                let _ = thread.join();
            }
        }
    }

    fn work(domain: &Weak<Inner>, signal: &Signal) {
        let mut waits = false;
        loop {
            let mut state = signal.state.lock().unwrap_or_else(PoisonError::into_inner);
            if waits && !state.wake && !state.stop {
                let woken = signal.changed.wait_timeout(state, RETRY);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            while !waits && !state.wake && !state.stop {
                state = signal
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            state.wake = false;
            drop(state);
            // The upgrade fails before the domain is complete and while it is being dropped; both
            // signal again.
            let Some(inner) = domain.upgrade() else {
                continue;
            };
            loop {
                let (ran, left) = inner.run_offloaded();
                waits = left;
                if ran == 0 {
                    break;
                }
            }
        }
    }
}

#[cfg(loom)]
mod offload {
    //! The stand-in for models, which run callbacks in place.
    use super::{CallbackMode, Inner, Weak};

    pub(in crate::rcu) struct Offload;

    impl Offload {
        pub(in crate::rcu) fn start(_: &CallbackMode, _: &Weak<Inner>) -> Option<Self> {
            None
        }
        pub(in crate::rcu) fn wake(&self) {}
        pub(in crate::rcu) fn stop(&mut self) {}
    }
}

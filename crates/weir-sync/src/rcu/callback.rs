// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of deferred callbacks, and the code that runs them.
//!
//! A queue is a deque of closures and a deque of runs (tag, count), so an entry costs four words.
//! Tags are read under the queue's lock, so a queue is sorted by tag. One thread at a time runs a
//! queue's callbacks, in order, in batches that it removes under the lock and runs without it.
//! `done` counts the callbacks that have returned; [`super::Domain::barrier`] waits on it.

use super::deferred::Deferred;
use super::domain::Inner;
use super::offload::Left;
use super::reader;
use super::report::{CpuCallbacks, DomainStats, Runner};
use super::watch::{elapsed, now};
use crate::percpu::{self, PerCpu};
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::primitive::{Backoff, full_fence};
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

/// A queue tells the domain about its waiting bytes in steps of this.
const STEP: u64 = 64 << 10;

/// Callbacks of one tag.
struct Run {
    tag: u64,
    count: usize,
    /// The memory that waits with them, in bytes.
    bytes: u64,
}

#[derive(Default)]
struct Entries {
    callbacks: VecDeque<Deferred>,
    /// The tags of the callbacks, run-length encoded.
    tags: VecDeque<Run>,
    /// The total number of callbacks queued so far.
    queued: u64,
    /// The memory that waits, in bytes.
    bytes: u64,
    /// The part of it that the domain knows of.
    told: u64,
    /// Whether a callback waits that is not lazy, or lazy ones have waited long enough.
    urgent: bool,
}

impl Entries {
    fn push(&mut self, tag: u64, callback: Deferred, bytes: u64) {
        match self.tags.back_mut() {
            Some(run) if run.tag == tag => {
                run.count += 1;
                run.bytes += bytes;
            }
            _ => self.tags.push_back(Run {
                tag,
                count: 1,
                bytes,
            }),
        }
        self.callbacks.push_back(callback);
        self.queued += 1;
        self.bytes += bytes;
    }

    /// Tells the domain about a change of the waiting bytes once it is large enough.
    fn tell(&mut self, total: &AtomicU64) {
        if self.bytes.abs_diff(self.told) >= STEP || self.callbacks.is_empty() && self.told != 0 {
            total.fetch_add(self.bytes.wrapping_sub(self.told), Ordering::Relaxed);
            self.told = self.bytes;
        }
    }

    /// Moves callbacks with tags below `completed` to `batch`, until it is full. Returns how many.
    fn take(&mut self, completed: u64, batch: &mut [Option<Deferred>; BATCH]) -> usize {
        let mut taken = 0;
        while let Some(run) = self.tags.front_mut() {
            if run.tag >= completed || taken == BATCH {
                break;
            }
            let now = run.count.min(BATCH - taken);
            for (slot, callback) in batch[taken..].iter_mut().zip(self.callbacks.drain(..now)) {
                *slot = Some(callback);
            }
            taken += now;
            // The share of these callbacks is an average; the last ones of a run get the rest.
            let bytes = run.bytes / run.count as u64 * now as u64;
            let bytes = if now == run.count { run.bytes } else { bytes };
            self.bytes -= bytes;
            run.bytes -= bytes;
            run.count -= now;
            if run.count == 0 {
                self.tags.pop_front();
            }
        }
        self.urgent &= !self.callbacks.is_empty();
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
    /// The callbacks up to this number were handed to the offload thread by a change of the mode.
    handed: AtomicU64,
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
    fn run(&self, completed: u64, total_bytes: &AtomicU64) -> usize {
        let mut total = 0;
        let Some(mut turn) = Turn::start(self) else {
            return 0;
        };
        let mut batch = [const { None }; BATCH];
        loop {
            let taken = {
                let mut entries = self.entries.lock();
                let taken = entries.take(completed, &mut batch);
                entries.tell(total_bytes);
                taken
            };
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
        let run = entries.tags.front()?;
        Some((run.tag, entries.callbacks.len()))
    }

    /// Returns true while callbacks wait that a change of the mode handed to the offload thread.
    fn is_handed(&self) -> bool {
        self.done.load(Ordering::Acquire) < self.handed.load(Ordering::Acquire)
    }

    /// Lets lazy callbacks wait no longer. Returns true if there are any.
    fn hurry(&self) -> bool {
        let mut entries = self.entries.lock();
        let lazy = !entries.urgent && !entries.callbacks.is_empty();
        entries.urgent |= lazy;
        lazy
    }
}

pub(super) struct Callbacks {
    bound: PerCpu<Queue>,
    unbound: PerCpu<Queue>,
    /// The waiting bytes of all queues, short of at most [`STEP`] for each.
    bytes: AtomicU64,
    /// The callbacks that each stack CPU ran.
    ran: PerCpu<AtomicU64>,
    /// The callbacks that threads ran which are no stack CPUs.
    ran_unbound: AtomicU64,
    ran_offload: AtomicU64,
}

impl Callbacks {
    pub(super) fn new() -> Self {
        Self {
            bound: PerCpu::new(),
            unbound: PerCpu::new(),
            bytes: AtomicU64::new(0),
            ran: PerCpu::new(),
            ran_unbound: AtomicU64::new(0),
            ran_offload: AtomicU64::new(0),
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
            let entries = queue.entries.lock();
            stats.deferred += entries.queued;
            stats.bytes += entries.bytes;
        }
    }

    /// Returns the number of waiting callbacks, and their bytes.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn waiting(&self) -> (u64, u64) {
        let mut stats = DomainStats::default();
        self.count(&mut stats);
        (stats.waiting(), stats.bytes)
    }

    /// Returns the counters of each queue.
    pub(super) fn queues(&self, offloads: impl Fn(usize) -> bool) -> Vec<CpuCallbacks> {
        let bound = self.bound.iter().map(|(cpu, queue)| (Some(cpu), queue));
        let unbound = self.unbound.iter().map(|(_, queue)| (None, queue));
        let mut all: Vec<CpuCallbacks> = Vec::new();
        for (cpu, queue) in bound.chain(unbound) {
            // Before the number deferred, so that the difference is not negative.
            let run = queue.done.load(Ordering::Acquire);
            let (deferred, bytes) = {
                let entries = queue.entries.lock();
                (entries.queued, entries.bytes)
            };
            if deferred == 0 {
                continue;
            }
            let offloaded = offloads(cpu.unwrap_or(0));
            let past_bound = queue.helped.load(Ordering::Relaxed);
            match all
                .last_mut()
                .filter(|last| last.cpu.is_none() && cpu.is_none())
            {
                Some(last) => {
                    last.deferred += deferred;
                    last.run += run;
                    last.bytes += bytes;
                    last.past_bound += past_bound;
                }
                None => all.push(CpuCallbacks {
                    cpu,
                    offloaded,
                    deferred,
                    run,
                    bytes,
                    past_bound,
                }),
            }
        }
        all
    }

    /// Returns how many callbacks each thread or group of threads ran.
    pub(super) fn runners(&self) -> Vec<(Runner, u64)> {
        let cpus = self.ran.iter().map(|(cpu, ran)| (Runner::Cpu(cpu), ran));
        let others = [
            (Runner::Control, &self.ran_unbound),
            (Runner::Offload, &self.ran_offload),
        ];
        cpus.chain(others)
            .map(|(runner, ran)| (runner, ran.load(Ordering::Relaxed)))
            .filter(|(_, ran)| *ran != 0)
            .collect()
    }

    fn count_run(&self, by: By, ran: usize) {
        let counter = match (by, percpu::bound()) {
            (By::Offload, _) => &self.ran_offload,
            (By::Caller, Some(cpu)) => self.ran.get(cpu),
            (By::Caller, None) => &self.ran_unbound,
        };
        counter.fetch_add(ran as u64, Ordering::Relaxed);
    }

    /// Lets lazy callbacks wait no longer. Returns true if there are any.
    pub(super) fn hurry(&self) -> bool {
        self.all()
            .fold(false, |any, (queue, _)| queue.hurry() | any)
    }
}

/// The thread that runs callbacks: the offload thread, or the one that calls.
#[derive(Clone, Copy)]
enum By {
    Caller,
    Offload,
}

impl Inner {
    pub(super) fn defer(&self, f: impl FnOnce() + Send + 'static, bytes: usize, lazy: bool) {
        let callback = Deferred::new(f);
        let bytes = (bytes + size_of::<Deferred>()) as u64;
        let (queue, cpu) = self.callbacks.local();
        let (waiting, woke) = {
            let mut entries = queue.entries.lock();
            // The fence comes after the lock, and orders the unlinking before the load of the
            // epoch.
            full_fence();
            let tag = self.epoch.load(Ordering::SeqCst);
            entries.push(tag, callback, bytes);
            entries.tell(&self.callbacks.bytes);
            let waiting = entries.callbacks.len();
            let urgent = !lazy || waiting >= self.config.bound || self.is_pressed();
            // The first lazy callback starts the thread's clock.
            let woke = if urgent {
                !entries.urgent
            } else {
                waiting == 1
            };
            entries.urgent |= urgent;
            (waiting, woke)
        };
        let offloaded = self.switch.offloads(cpu);
        if woke && offloaded {
            self.offload.wake();
        }
        if reader::guards_held() > 0 {
            // The drop of the last guard runs what is due.
            OWED.with(|owed| owed.set(owed.get() + 1));
        } else if self.is_past_bound(waiting) {
            self.help(queue);
        } else if !offloaded && !lazy && waiting.is_multiple_of(POLL_EVERY) {
            self.poll(queue, By::Caller);
        }
    }

    /// Returns true if so many bytes wait that lazy callbacks should not.
    fn is_pressed(&self) -> bool {
        self.callbacks.bytes.load(Ordering::Relaxed) > self.config.bound_bytes / 2
    }

    /// Returns true if a producer should help whose queue has so many callbacks.
    fn is_past_bound(&self, waiting: usize) -> bool {
        waiting > self.config.bound
            || self.callbacks.bytes.load(Ordering::Relaxed) > self.config.bound_bytes
    }

    /// Runs callbacks for a thread that has deferred many under guards and has just dropped the
    /// last guard.
    #[cold]
    pub(super) fn settle(&self) {
        OWED.with(|owed| owed.set(0));
        let (queue, _) = self.callbacks.local();
        let waiting = queue.front().map_or(0, |(_, waiting)| waiting);
        if waiting > 0 && self.is_past_bound(waiting) {
            self.help(queue);
        } else {
            self.poll_local();
        }
    }

    /// Completes grace periods as far as possible for one queue and runs its ready callbacks.
    fn poll(&self, queue: &Queue, by: By) -> usize {
        match queue.front() {
            Some((tag, _)) => self.run(queue, self.complete(tag), by),
            None => 0,
        }
    }

    fn run(&self, queue: &Queue, completed: u64, by: By) -> usize {
        let ran = queue.run(completed, &self.callbacks.bytes);
        if ran > 0 {
            self.callbacks.count_run(by, ran);
        }
        ran
    }

    /// Helps a queue past its bound; the caller holds no guard. See "Callbacks" in [`crate::rcu`].
    #[cold]
    fn help(&self, queue: &Queue) {
        queue.helped.fetch_add(1, Ordering::Relaxed);
        self.help_once(queue);
        if self.config.patience.is_zero() || in_callback() {
            return;
        }
        let start = now();
        let mut wait = Backoff::new();
        while self.is_past_bound(queue.front().map_or(0, |(_, waiting)| waiting))
            && elapsed(start) < self.config.patience
        {
            if self.help_once(queue) == 0 {
                wait.snooze();
            }
        }
    }

    /// Runs the ready callbacks of a queue, or of all if it is not this one that is past its bound.
    fn help_once(&self, queue: &Queue) -> usize {
        match queue.front() {
            Some((_, waiting)) if waiting > self.config.bound => self.poll(queue, By::Caller),
            _ => self.poll_all(),
        }
    }

    pub(super) fn poll_local(&self) -> usize {
        let (queue, cpu) = self.callbacks.local();
        if self.switch.offloads(cpu) {
            return 0;
        }
        self.poll(queue, By::Caller)
    }

    /// Runs the callbacks whose grace period other threads have completed.
    #[cfg(all(test, loom))]
    pub(super) fn poll_completed(&self) -> usize {
        let queue = self.callbacks.local().0;
        self.run(queue, self.completed(), By::Caller)
    }

    pub(super) fn poll_all(&self) -> usize {
        let all = self.callbacks.all();
        all.map(|(queue, _)| self.poll(queue, By::Caller)).sum()
    }

    pub(super) fn poll_in_place(&self) -> usize {
        let all = self.callbacks.all();
        all.filter(|(_, cpu)| !self.switch.offloads(*cpu))
            .map(|(queue, _)| self.poll(queue, By::Caller))
            .sum()
    }

    pub(super) fn barrier(&self) {
        self.callbacks.hurry();
        for (queue, cpu) in self.callbacks.all() {
            let target = queue.entries.lock().queued;
            let mut wait = Backoff::new();
            let mut woken = false;
            while queue.done.load(Ordering::Acquire) < target {
                // The mode may change at any time.
                let offloaded = self.switch.offloads(cpu);
                if offloaded && !woken {
                    self.offload.wake();
                }
                woken = offloaded;
                if offloaded || self.poll(queue, By::Caller) == 0 {
                    wait.snooze();
                }
            }
        }
    }

    /// Hands the queues of CPUs that are no longer offloaded to the offload thread for the last
    /// time, and wakes it for those that are from now on. Called after the switch.
    pub(super) fn hand_over(&self) {
        // A queue that is made meanwhile is either found below, or its producer, which issues a
        // fence after it has made the queue, sees the new mode.
        fence(Ordering::SeqCst);
        for (queue, cpu) in self.callbacks.all() {
            if !self.switch.offloads(cpu) {
                let queued = queue.entries.lock().queued;
                queue.handed.store(queued, Ordering::Release);
            }
        }
        self.callbacks.hurry();
        self.offload.wake();
    }

    /// Runs one round of the offload thread. Returns how many callbacks ran, and what still waits.
    #[cfg_attr(loom, allow(dead_code))] // models without the thread
    pub(super) fn run_offloaded(&self) -> (usize, Left) {
        let mut ran = 0;
        let mut left = Left::Nothing;
        for (queue, cpu) in self.callbacks.all() {
            if !self.switch.offloads(cpu) && !queue.is_handed() {
                continue;
            }
            let (waits, urgent) = {
                let entries = queue.entries.lock();
                (!entries.callbacks.is_empty(), entries.urgent)
            };
            if urgent {
                ran += self.poll(queue, By::Offload);
                if queue.front().is_some() {
                    left = Left::Urgent;
                }
            } else if waits {
                left = left.max(Left::Lazy);
            }
        }
        (ran, left)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.offload.stop();
        // Each guard keeps the domain alive, so none is left and all waiting callbacks are ready.
        for (queue, _) in self.callbacks.all() {
            let callbacks = core::mem::take(&mut queue.entries.lock().callbacks);
            callbacks.into_iter().for_each(Deferred::call);
        }
    }
}

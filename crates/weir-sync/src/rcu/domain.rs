// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Domain`]: epochs and grace periods. [`crate::rcu`] explains the protocol.

#![allow(unsafe_code)] // owns retired boxes

use super::callback::{Callbacks, in_callback};
use super::mode::{CallbackMode, Switch};
use super::offload::Offload;
use super::reader::{Guard, Reader, Slots};
use super::report::{DomainStats, Report};
use super::watch::{Stall, Watch};
use crate::primitive::atomic::{AtomicU64, Ordering, fence};
use crate::primitive::{Arc, Backoff, CachePadded, Weak, full_fence};
use core::fmt;
use core::time::Duration;

/// The callback configuration of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The thread that runs callbacks, to begin with. Default: in place.
    pub mode: CallbackMode,
    /// How many callbacks may wait per CPU before producers help. Default: 10,000, as Linux's
    /// `qhimark`.
    pub bound: usize,
    /// How many bytes may wait in the whole domain before producers help. When half of them wait,
    /// lazy callbacks are treated as others. Default: 64 MiB.
    pub bound_bytes: u64,
    /// How long a producer past the bound that holds no guard waits for readers, for each object it
    /// defers. Default: 1 ms. Zero: never.
    pub patience: Duration,
    /// How long a reader may be in the way of a grace period before it is reported
    /// ([`Domain::on_stall`]). Default: 1 s.
    pub stall: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: CallbackMode::InPlace,
            bound: 10_000,
            bound_bytes: 64 << 20,
            patience: Duration::from_millis(1),
            stall: Duration::from_secs(1),
        }
    }
}

/// A set of readers and of the objects they may be reading. See [`crate::rcu`]. Cloning copies a
/// handle.
#[derive(Clone)]
pub struct Domain(Arc<Inner>);

pub(super) struct Inner {
    pub(super) epoch: CachePadded<AtomicU64>,
    /// All tags below this have completed.
    completed: CachePadded<AtomicU64>,
    grace_periods: AtomicU64,
    expedited: AtomicU64,
    pub(super) slots: Slots,
    pub(super) callbacks: Callbacks,
    pub(super) config: Config,
    /// The present mode.
    pub(super) switch: Switch,
    pub(super) watch: Watch,
    /// The offload thread, once a mode has needed it.
    pub(super) offload: Offload,
    myself: Weak<Inner>,
}

impl Domain {
    /// Creates a domain with its readers and queues. Starts a thread only in the offload modes. If
    /// the system cannot create it, callbacks run in place.
    pub fn new(config: Config) -> Self {
        let mode = config.mode.clone();
        let domain = Self(Arc::new_cyclic(|myself| Inner {
            epoch: CachePadded(AtomicU64::new(1)),
            completed: CachePadded(AtomicU64::new(1)),
            grace_periods: AtomicU64::new(0),
            expedited: AtomicU64::new(0),
            slots: Slots::new(),
            callbacks: Callbacks::new(),
            switch: Switch::new(),
            watch: Watch::default(),
            offload: Offload::new(),
            config,
            myself: myself.clone(),
        }));
        let _ = domain.set_mode(&mode);
        domain
    }

    /// Returns the present mode of callbacks.
    pub fn mode(&self) -> CallbackMode {
        self.0.switch.mode()
    }

    /// Changes the mode of callbacks. Any thread may call it at any time, and it does not wait.
    ///
    /// The callbacks that wait stay in their queues and in their order: for a CPU that is offloaded
    /// from now on, the offload thread runs them; for one that is not any more, the offload thread
    /// still runs those that wait now. A [`Domain::barrier`] that is under way waits for the same
    /// callbacks as before.
    ///
    /// # Errors
    /// The system's error if the offload thread cannot be created; the mode is then unchanged.
    pub fn set_mode(&self, mode: &CallbackMode) -> std::io::Result<()> {
        if *mode != CallbackMode::InPlace {
            let domain = self.0.myself.clone();
            self.0.offload.start(move |hurry| {
                let inner = domain.upgrade()?;
                if hurry {
                    inner.callbacks.hurry();
                }
                loop {
                    let (ran, left) = inner.run_offloaded();
                    if ran == 0 {
                        return Some(left);
                    }
                }
            })?;
        }
        if *mode != self.mode() {
            self.0.switch.set(mode);
            self.0.hand_over();
        }
        Ok(())
    }

    /// Has `hear` called for each reader that is in the way of a grace period for longer than
    /// [`Config::stall`], once, on the thread that finds it, in the middle of
    /// any call of this domain, so it must not call the domain itself. Only the first call counts.
    pub fn on_stall(&self, hear: impl Fn(&Stall) + Send + Sync + 'static) {
        self.0.watch.listen(Box::new(hear));
    }

    #[inline(always)]
    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Returns true if both handles belong to the same domain.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Registers a reader. Any thread may call it; create one per stack CPU or connection and keep
    /// it.
    pub fn reader(&self) -> Reader {
        Reader::new(self, None)
    }

    /// Registers a reader that reports name: `cpu 0`. Others go by the name of their thread.
    pub fn named_reader(&self, name: &str) -> Reader {
        Reader::new(self, Some(name))
    }

    /// Starts a read section without a reader, on any thread. It searches for a free slot first, so
    /// it costs a little more than [`Reader::pin`]. Nests; never waits.
    #[track_caller]
    pub fn pin(&self) -> Guard {
        Guard::new(self)
    }

    /// Calls `f` after a grace period, on the thread that the mode selects. Any thread may call it,
    /// pinned or not.
    ///
    /// A thread that holds no guard may run ready callbacks inside this call: on every 64th
    /// deferral in place, and past the bound in any mode. So if you hold a lock that a callback may
    /// take, hold a guard too, and drop the guard last: under a guard this function only queues,
    /// and the drop of the guard does the rest.
    ///
    /// Ordering: everything the caller did before happens before `f`, and everything readers did
    /// under guards older than this call happens before `f`.
    pub fn defer<F: FnOnce() + Send + 'static>(&self, f: F) {
        self.0.defer(f, 0, false);
    }

    /// Does the same as [`Domain::defer`] for a closure that frees `bytes` bytes, which count
    /// towards [`Config::bound_bytes`].
    pub fn defer_bytes<F: FnOnce() + Send + 'static>(&self, bytes: usize, f: F) {
        self.0.defer(f, bytes, false);
    }

    /// Does the same as [`Domain::defer_bytes`] for a callback that nobody waits for (Linux's
    /// `call_rcu` with `CONFIG_RCU_LAZY`). While only such callbacks wait in a queue, neither the
    /// offload thread nor the producer is bothered, until ten seconds have passed (with offloading),
    /// [`Config::bound`] of them wait, half of [`Config::bound_bytes`] wait in the domain, or
    /// someone calls [`Domain::flush_lazy`] or [`Domain::barrier`].
    pub fn defer_lazy<F: FnOnce() + Send + 'static>(&self, bytes: usize, f: F) {
        self.0.defer(f, bytes, true);
    }

    /// Has lazy callbacks treated as others from now on, because memory is short. Does not wait.
    pub fn flush_lazy(&self) {
        if self.0.callbacks.hurry() {
            self.0.offload.wake();
        }
    }

    /// Drops `value` after a grace period.
    pub fn defer_drop<T: Send + 'static>(&self, value: T) {
        self.defer_bytes(0, move || drop(value));
    }

    /// Frees the box behind `pointer` after a grace period.
    ///
    /// # Safety
    /// `pointer` came from `Box::into_raw`, no new reader can find it, and it is not freed
    /// elsewhere.
    pub(crate) unsafe fn retire<T: ?Sized + Send + 'static>(&self, pointer: *mut T) {
        // SAFETY: the box is still there.
        let bytes = unsafe { size_of_val(&*pointer) };
        let retired = Retired(pointer);
        self.defer_bytes(bytes, move || drop(retired));
    }

    /// Completes a grace period if no reader blocks it, and runs ready callbacks of the calling
    /// thread's CPU unless they are offloaded. Returns how many ran. Cheap when no callback waits:
    /// a stack CPU calls it once per turn. Never waits.
    pub fn poll(&self) -> usize {
        self.0.poll_local()
    }

    /// Does what the offload thread does if it has been woken, or if something was left before.
    /// Returns true if something is left.
    #[cfg(all(test, loom))]
    pub(super) fn offload_turn(&self, left: bool) -> bool {
        if !self.0.offload.take_woken() && !left {
            return false;
        }
        self.0.run_offloaded().1 != super::offload::Left::Nothing
    }

    #[cfg(all(test, loom))]
    pub(super) fn poll_completed(&self) -> usize {
        self.0.poll_completed()
    }

    /// Does the same as [`Domain::poll`] for the queues of all CPUs, offloaded or not: for an idle
    /// control loop, and for a stack that is driven from one thread.
    pub fn poll_all(&self) -> usize {
        self.0.poll_all()
    }

    /// Does the same as [`Domain::poll_all`] for the queues that are not offloaded: for the idle
    /// loop of a stack with several CPUs.
    pub fn poll_in_place(&self) -> usize {
        self.0.poll_in_place()
    }

    /// Waits for a grace period: when it returns, every guard that existed at the call is gone.
    /// Must not be called from a callback.
    ///
    /// Ordering: everything the holders of those guards did happens before the return.
    ///
    /// # Panics
    /// If the calling thread holds a guard of the domain or runs a callback, because it would wait
    /// for itself.
    pub fn synchronize(&self) {
        self.0.may_wait("synchronize");
        self.0.synchronize(Backoff::snooze);
    }

    /// Does the same as [`Domain::synchronize`] without ever sleeping: the caller looks at the
    /// readers again and again until they are gone (Linux's `synchronize_rcu_expedited`). It costs
    /// the caller's processor, and returns a few microseconds after the last reader instead of up
    /// to 50 later.
    ///
    /// # Panics
    /// In the same cases.
    pub fn synchronize_expedited(&self) {
        self.0.may_wait("synchronize");
        self.0.expedited.fetch_add(1, Ordering::Relaxed);
        self.0.synchronize(Backoff::spin);
    }

    /// Waits until every callback deferred before the call, by any thread, has run. Runs the
    /// callbacks that are not offloaded itself.
    ///
    /// # Panics
    /// In the same cases as [`Domain::synchronize`].
    pub fn barrier(&self) {
        self.0.may_wait("barrier");
        self.0.barrier();
    }

    /// Runs all waiting callbacks and the callbacks they defer in turn, until none is left. Use it
    /// when the domain's user shuts down. Waits for the guards of other threads. Where the calling
    /// thread would wait for itself (see [`Domain::synchronize`]), runs only the ready callbacks
    /// and returns false.
    pub fn drain(&self) -> bool {
        while self.stats().waiting() > 0 {
            if self.0.is_own_reader() {
                while self.poll_all() > 0 {}
                return self.stats().waiting() == 0;
            }
            self.0.barrier();
        }
        true
    }

    /// Returns the state of the domain in detail.
    pub fn report(&self) -> Report {
        let inner = self.inner();
        let oldest = inner.slots.oldest().map(|(epoch, mut reader)| {
            reader.age = inner.watch.age(epoch);
            reader
        });
        Report {
            mode: self.mode(),
            stats: self.stats(),
            cpus: inner.callbacks.queues(|cpu| inner.switch.offloads(cpu)),
            runners: inner.callbacks.runners(),
            oldest,
            slowest: inner.watch.slowest(),
        }
    }

    /// Returns the domain's counters.
    pub fn stats(&self) -> DomainStats {
        let (readers, guards, _) = self.0.slots.census();
        let mut stats = DomainStats {
            epoch: self.0.epoch.load(Ordering::Relaxed),
            readers,
            guards,
            grace_periods: self.0.grace_periods.load(Ordering::Relaxed),
            expedited: self.0.expedited.load(Ordering::Relaxed),
            stalls: self.0.watch.stalls(),
            ..DomainStats::default()
        };
        self.0.callbacks.count(&mut stats);
        stats
    }
}

/// A box that readers may still access. It is kept as a raw pointer because a `Box` claims unique
/// access.
struct Retired<T: ?Sized>(*mut T);

// SAFETY: created only by `retire`, for a `T: Send` whose ownership it took over.
unsafe impl<T: ?Sized + Send> Send for Retired<T> {}

impl<T: ?Sized> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `retire`, and the grace period (or the whole domain) is over.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Default for Domain {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Domain").field(&self.stats()).finish()
    }
}

impl Inner {
    pub(super) fn handle(&self) -> Domain {
        Domain(
            self.myself
                .upgrade()
                .expect("a borrower keeps the domain alive"),
        )
    }

    /// Returns an epoch such that all tags below it have completed.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Tries to complete `tag` and returns the completed epoch. [`crate::rcu`] explains the
    /// protocol.
    pub(super) fn complete(&self, tag: u64) -> u64 {
        let done = self.completed();
        if done > tag {
            return done;
        }
        let before = self.epoch.fetch_max(tag + 1, Ordering::SeqCst);
        full_fence();
        let least = self.slots.least(before.max(tag + 1));
        let done = self.completed.fetch_max(least, Ordering::AcqRel);
        if done < least {
            self.grace_periods.fetch_add(1, Ordering::Relaxed);
        }
        let done = done.max(least);
        if done <= tag {
            self.blocked(least);
        }
        done
    }

    /// Notes that a reader of epoch `least` is in the way of a grace period.
    #[cold]
    #[cfg(not(any(loom, miri)))]
    fn blocked(&self, least: u64) {
        let Some(blocked) = self.watch.blocked(least, self.config.stall) else {
            return;
        };
        let oldest = self.slots.oldest();
        // The reader may have gone in the meantime.
        let Some((_, mut reader)) = oldest.filter(|(epoch, _)| *epoch == least) else {
            return;
        };
        self.watch.found(&blocked, &mut reader);
        if blocked.stalled {
            let (waiting, bytes) = self.callbacks.waiting();
            self.watch.report(&Stall {
                reader,
                waiting,
                bytes,
            });
        }
    }

    #[cfg(any(loom, miri))]
    fn blocked(&self, _: u64) {}

    fn synchronize(&self, pause: impl Fn(&mut Backoff)) {
        fence(Ordering::SeqCst);
        let tag = self.epoch.load(Ordering::SeqCst);
        let mut wait = Backoff::new();
        while self.complete(tag) <= tag {
            pause(&mut wait);
        }
    }

    /// Returns true if the calling thread holds a guard or runs a callback, and would therefore
    /// wait for itself.
    fn is_own_reader(&self) -> bool {
        in_callback() || self.slots.held_here()
    }

    fn may_wait(&self, what: &str) {
        assert!(
            !in_callback(),
            "a callback never waits for callbacks or readers: {what}"
        );
        assert!(
            !self.slots.held_here(),
            "a thread never waits for its own guard: {what}"
        );
    }
}

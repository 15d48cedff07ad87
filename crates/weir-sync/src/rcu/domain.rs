// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Domain`]: epochs and grace periods. [`crate::rcu`] explains the protocol.

#![allow(unsafe_code)] // owns retired boxes

use super::callback::{Callbacks, Offload, in_callback};
use super::reader::{Guard, Reader, Slots};
use crate::primitive::atomic::{AtomicU64, Ordering, fence};
use crate::primitive::{Arc, Backoff, CachePadded, Weak, full_fence};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// The choice of the thread that runs callbacks. The text forms are those of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallbackMode {
    /// `in-place`: the thread that queued them.
    #[default]
    InPlace,
    /// `offload-all`: the domain's thread, for all CPUs.
    OffloadAll,
    /// `offload=LIST`: the domain's thread for the listed CPUs; in place for the others. Threads
    /// that are not stack CPUs count as CPU 0.
    Offload(Vec<usize>),
}

impl CallbackMode {
    /// Returns true if the callbacks of `cpu` are offloaded.
    pub fn offloads(&self, cpu: usize) -> bool {
        match self {
            Self::InPlace => false,
            Self::OffloadAll => true,
            Self::Offload(list) => list.contains(&cpu),
        }
    }
}

impl fmt::Display for CallbackMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPlace => f.write_str("in-place"),
            Self::OffloadAll => f.write_str("offload-all"),
            Self::Offload(list) => {
                f.write_str("offload=")?;
                for (nth, cpu) in list.iter().enumerate() {
                    write!(f, "{}{cpu}", if nth == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for CallbackMode {
    type Err = String;

    /// Parses `in-place`, `offload-all` or `offload=0,2-5`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "in-place" => return Ok(Self::InPlace),
            "offload-all" => return Ok(Self::OffloadAll),
            _ => {}
        }
        let Some(list) = text.strip_prefix("offload=") else {
            return Err(format!(
                "callback mode \"{text}\" is not in-place, offload-all or offload=LIST"
            ));
        };
        let mut cpus = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| {
                text.parse::<usize>()
                    .ok()
                    .filter(|&cpu| cpu < crate::percpu::MAX_CPUS)
            };
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(format!("\"{part}\" is not a CPU or a range of CPUs")),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self::Offload(cpus))
    }
}

/// The callback configuration of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The thread that runs callbacks. Default: in place.
    pub mode: CallbackMode,
    /// How many callbacks may wait per CPU before producers help. Default: 10,000, as Linux's
    /// `qhimark`.
    pub bound: usize,
    /// How long a producer past the bound that holds no guard waits for readers, for each object it
    /// defers. Default: 1 ms. Zero: never.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: CallbackMode::InPlace,
            bound: 10_000,
            patience: Duration::from_millis(1),
        }
    }
}

/// The counters of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainStats {
    /// The epoch: an upper bound on the number of grace periods begun.
    pub epoch: u64,
    /// Registered readers.
    pub readers: usize,
    /// Guards held now.
    pub guards: usize,
    /// Callbacks deferred.
    pub deferred: u64,
    /// Callbacks run.
    pub run: u64,
    /// How often a producer was past the bound.
    pub helped: u64,
    /// The counters of the queues' locks.
    pub locks: crate::spin::LockStats,
}

impl DomainStats {
    /// Returns the number of waiting callbacks.
    pub fn waiting(&self) -> u64 {
        self.deferred.saturating_sub(self.run)
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
    pub(super) slots: Slots,
    pub(super) callbacks: Callbacks,
    pub(super) config: Config,
    /// The offload thread, in the modes that have one. It is the last field because its drop joins
    /// the thread.
    pub(super) offload: Option<Offload>,
    myself: Weak<Inner>,
}

impl Domain {
    /// Creates a domain with its readers and queues. Starts a thread only in the offload modes.
    pub fn new(config: Config) -> Self {
        Self(Arc::new_cyclic(|myself| Inner {
            epoch: CachePadded(AtomicU64::new(1)),
            completed: CachePadded(AtomicU64::new(1)),
            slots: Slots::new(),
            callbacks: Callbacks::new(),
            offload: Offload::start(&config.mode, myself),
            config,
            myself: myself.clone(),
        }))
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
        Reader::new(self)
    }

    /// Starts a read section without a reader, on any thread. It searches for a free slot first, so
    /// it costs a little more than [`Reader::pin`]. Nests; never waits.
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
        self.0.defer(f);
    }

    /// Drops `value` after a grace period.
    pub fn defer_drop<T: Send + 'static>(&self, value: T) {
        self.defer(move || drop(value));
    }

    /// Frees the box behind `pointer` after a grace period.
    ///
    /// # Safety
    /// `pointer` came from `Box::into_raw`, no new reader can find it, and it is not freed
    /// elsewhere.
    pub(crate) unsafe fn retire<T: ?Sized + Send + 'static>(&self, pointer: *mut T) {
        let retired = Retired(pointer);
        self.defer(move || drop(retired));
    }

    /// Completes a grace period if no reader blocks it, and runs ready callbacks of the calling
    /// thread's CPU unless they are offloaded. Returns how many ran. Cheap when no callback waits:
    /// a stack CPU calls it once per turn. Never waits.
    pub fn poll(&self) -> usize {
        self.0.poll_local()
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
        fence(Ordering::SeqCst);
        let tag = self.0.epoch.load(Ordering::SeqCst);
        let mut wait = Backoff::new();
        while self.0.complete(tag) <= tag {
            wait.snooze();
        }
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

    /// Returns the domain's counters.
    pub fn stats(&self) -> DomainStats {
        let (readers, guards, _) = self.0.slots.census();
        let mut stats = DomainStats {
            epoch: self.0.epoch.load(Ordering::Relaxed),
            readers,
            guards,
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
        self.completed.fetch_max(least, Ordering::AcqRel).max(least)
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

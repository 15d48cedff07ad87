// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir stat rcu` shows.

use super::mode::CallbackMode;
use super::watch::SlowReader;
use core::fmt;

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
    /// The memory that waits with callbacks, in bytes.
    pub bytes: u64,
    /// How often a producer was past the bound.
    pub helped: u64,
    /// Grace periods completed. One may cover several epochs.
    pub grace_periods: u64,
    /// Calls of [`super::Domain::synchronize_expedited`].
    pub expedited: u64,
    /// Readers that were in the way for longer than [`super::Config::stall`].
    pub stalls: u64,
    /// The counters of the queues' locks.
    pub locks: crate::spin::LockStats,
}

impl DomainStats {
    /// Returns the number of waiting callbacks.
    pub fn waiting(&self) -> u64 {
        self.deferred.saturating_sub(self.run)
    }
}

/// The callbacks of one stack CPU, or of all threads that are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuCallbacks {
    /// The CPU; `None` stands for control threads, which count as CPU 0.
    pub cpu: Option<usize>,
    /// Whether the offload thread runs them.
    pub offloaded: bool,
    /// Callbacks deferred.
    pub deferred: u64,
    /// Callbacks run.
    pub run: u64,
    /// The memory that waits with callbacks, in bytes.
    pub bytes: u64,
    /// How often a producer was past the bound.
    pub past_bound: u64,
}

impl CpuCallbacks {
    /// Returns the number of waiting callbacks.
    pub fn waiting(&self) -> u64 {
        self.deferred.saturating_sub(self.run)
    }
}

/// A thread, or a group of threads, that runs callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// A stack CPU.
    Cpu(usize),
    /// Threads that are no stack CPUs.
    Control,
    /// The offload thread.
    Offload,
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "cpu {cpu}"),
            Self::Control => f.write_str("control threads"),
            Self::Offload => f.write_str("weir-rcu"),
        }
    }
}

/// The state of a domain in detail.
#[derive(Clone, Debug)]
pub struct Report {
    /// The mode of callbacks.
    pub mode: CallbackMode,
    /// The counters.
    pub stats: DomainStats,
    /// The callbacks by the CPU that deferred them. CPUs without any are left out.
    pub cpus: Vec<CpuCallbacks>,
    /// How many callbacks each thread or group of threads ran.
    pub runners: Vec<(Runner, u64)>,
    /// The reader that has been pinned longest, if any is pinned.
    pub oldest: Option<SlowReader>,
    /// The reader that was in the way of a grace period for longest.
    pub slowest: Option<SlowReader>,
}

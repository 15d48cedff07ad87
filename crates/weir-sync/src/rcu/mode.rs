// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`CallbackMode`], and the switch between modes at run time.

use crate::percpu::MAX_CPUS;
use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::spin::SpinLock;
use core::fmt;
use core::str::FromStr;

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
            let number = |text: &str| text.parse::<usize>().ok().filter(|&cpu| cpu < MAX_CPUS);
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

const WORDS: usize = MAX_CPUS / 64;

/// The present mode. One bit a CPU says whether its callbacks are offloaded.
///
/// A change stores the bits before it looks at the queues, under each queue's lock. So a producer
/// whose callback the change did not see pushes later, and reads the new bit after its push.
pub(super) struct Switch {
    offloaded: [AtomicU64; WORDS],
    mode: SpinLock<CallbackMode>,
}

impl Switch {
    pub(super) fn new() -> Self {
        Self {
            offloaded: core::array::from_fn(|_| AtomicU64::new(0)),
            mode: SpinLock::new(CallbackMode::InPlace),
        }
    }

    /// Returns true if the callbacks of `cpu` are offloaded.
    #[inline]
    pub(super) fn offloads(&self, cpu: usize) -> bool {
        let cpu = cpu % MAX_CPUS;
        self.offloaded[cpu / 64].load(Ordering::Relaxed) & (1 << (cpu % 64)) != 0
    }

    pub(super) fn mode(&self) -> CallbackMode {
        self.mode.lock().clone()
    }

    pub(super) fn set(&self, mode: &CallbackMode) {
        let mut present = self.mode.lock();
        for (nth, word) in self.offloaded.iter().enumerate() {
            let bits = (0..64).filter(|bit| mode.offloads(nth * 64 + bit));
            let bits = bits.fold(0, |bits, bit| bits | 1 << bit);
            if word.load(Ordering::Relaxed) != bits {
                word.store(bits, Ordering::SeqCst);
            }
        }
        present.clone_from(mode);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on the filters and actions of a stack, over all its namespaces (`--max-rules`,
//! `--max-memory`).
//!
//! Filters are counted. Memory is estimated, not measured, so that the same script gets the same
//! answer everywhere: [`FILTER`] bytes per filter, and per action a number of bytes that its kind
//! gives, including tables. A request that exceeds a limit is refused before anything is created,
//! with ENOSPC or ENOMEM and a message. Replacing a filter never exceeds a limit.

use std::sync::atomic::{AtomicU64, Ordering::*};

use weir_sync::rcu::Domain;

use weir_netlink::Error;
use weir_netlink::errno::{ENOMEM, ENOSPC};

/// Estimated bytes of a filter with its entries in tables.
pub const FILTER: u64 = 256;
/// Estimated bytes of an action, in addition to those its kind gives.
pub const ACTION: u64 = 64;

/// The limits and the current use. Without limits nothing is counted.
#[derive(Debug, Default)]
pub struct Budget {
    max_rules: Option<u64>,
    max_memory: Option<u64>,
    rules: AtomicU64,
    memory: AtomicU64,
    /// Where callbacks that free memory wait.
    domain: Option<Domain>,
}

impl Budget {
    /// Creates a budget with a limit on filters and one on memory in bytes.
    pub fn new(max_rules: Option<u64>, max_memory: Option<u64>) -> Self {
        Self {
            max_rules,
            max_memory,
            ..Self::default()
        }
    }

    /// Frees the memory that waits for no hurry in `domain` when a request has reached the limit on memory.
    #[must_use]
    pub fn freeing(self, domain: &Domain) -> Self {
        Self {
            domain: Some(domain.clone()),
            ..self
        }
    }

    /// Returns the number of filters and the bytes in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> (u64, u64) {
        (self.rules.load(Relaxed), self.memory.load(Relaxed))
    }

    fn take_memory(&self, octets: u64) -> Result<(), Error> {
        let Some(most) = self.max_memory else {
            return Ok(());
        };
        take(&self.memory, octets, most).map_err(|()| {
            if let Some(domain) = &self.domain {
                domain.flush_lazy();
            }
            let text = "Filters and actions have reached the limit set by --max-memory";
            Error::msg(ENOMEM, text)
        })
    }

    fn give_memory(&self, octets: u64) {
        if self.max_memory.is_some() {
            self.memory.fetch_sub(octets, Relaxed);
        }
    }

    /// Accounts for a new filter. A filter that replaces another one is always allowed.
    pub(crate) fn take_filter(&self, replaces: bool) -> Result<(), Error> {
        if replaces {
            if self.max_rules.is_some() {
                self.rules.fetch_add(1, Relaxed);
            }
            if self.max_memory.is_some() {
                self.memory.fetch_add(FILTER, Relaxed);
            }
            return Ok(());
        }
        self.take_memory(FILTER)?;
        let Some(most) = self.max_rules else {
            return Ok(());
        };
        take(&self.rules, 1, most).map_err(|()| {
            self.give_memory(FILTER);
            Error::msg(ENOSPC, "Filters have reached the limit set by --max-rules")
        })
    }

    /// Releases the share of a filter that was deleted or not created after all.
    pub(crate) fn give_filter(&self) {
        self.give_memory(FILTER);
        if self.max_rules.is_some() {
            self.rules.fetch_sub(1, Relaxed);
        }
    }

    /// Accounts for a new action whose kind takes `octets` bytes.
    pub(crate) fn take_action(&self, octets: usize) -> Result<(), Error> {
        self.take_memory(octets as u64 + ACTION)
    }

    /// Releases the share of an action that was deleted or not created after all.
    pub(crate) fn give_action(&self, octets: usize) {
        self.give_memory(octets as u64 + ACTION);
    }
}

fn take(used: &AtomicU64, more: u64, most: u64) -> Result<(), ()> {
    let fits = |used: u64| used.checked_add(more).filter(|&used| used <= most);
    used.fetch_update(Relaxed, Relaxed, fits)
        .map(drop)
        .map_err(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_object_takes_nothing() {
        let budget = Budget::new(Some(2), Some(3 * FILTER));
        budget.take_filter(false).unwrap();
        budget.take_filter(false).unwrap();
        assert_eq!(budget.take_filter(false).unwrap_err().errno, ENOSPC);
        budget.take_filter(true).unwrap();
        budget.give_filter();
        budget.take_action(100).unwrap();
        assert_eq!(budget.take_action(100).unwrap_err().errno, ENOMEM);
        budget.give_filter();
        budget.take_action(100).unwrap();
        budget.give_filter();
        budget.give_action(100);
        budget.give_action(100);
        assert_eq!(budget.used(), (0, 0));
    }

    #[test]
    fn a_request_at_the_limit_frees_what_waits_for_no_hurry() {
        use std::sync::Arc;
        use std::sync::atomic::AtomicBool;
        use std::time::{Duration, Instant};
        use weir_sync::rcu::Config;
        let domain = Domain::new(Config {
            mode: "offload-all".parse().unwrap(),
            ..Config::default()
        });
        let budget = Budget::new(None, Some(FILTER)).freeing(&domain);
        let freed = Arc::new(AtomicBool::new(false));
        let callback = freed.clone();
        domain.defer_lazy(100, move || callback.store(true, Relaxed));
        budget.take_filter(false).unwrap();
        // A lazy callback waits for ten seconds.
        let start = Instant::now();
        assert_eq!(budget.take_filter(false).unwrap_err().errno, ENOMEM);
        while !freed.load(Relaxed) {
            assert!(start.elapsed() < Duration::from_secs(8));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn without_limits_nothing_is_refused() {
        let budget = Budget::default();
        (0..10).for_each(|_| budget.take_filter(false).unwrap());
        budget.take_action(usize::MAX / 2).unwrap();
        (0..10).for_each(|_| budget.give_filter());
    }
}

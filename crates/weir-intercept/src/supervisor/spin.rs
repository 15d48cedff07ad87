// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long to look for the next event of sockets before the supervisor sleeps.
//!
//! A small request and its answer make two events some ten microseconds apart. To sleep in between costs two switches and
//! often the wake-up of an idle CPU, which takes longer than the work. As KVM does when a guest halts (`kvm_vcpu_halt`),
//! the supervisor polls for a while if the last event came soon after the one before, and gives way to other threads of
//! its CPU meanwhile. It does not with one CPU alone, nor when events come seldom.

use std::time::{Duration, Instant};

/// The longest time of polling, which is also how soon the last event has to have come.
const LONGEST: Duration = Duration::from_micros(50);

/// The state of polling.
#[derive(Debug)]
pub(super) struct Spin {
    /// Another CPU can run the programs.
    possible: bool,
    /// When the last event was served.
    since: Option<Instant>,
    /// The last event came soon.
    soon: bool,
}

impl Spin {
    pub(super) fn new() -> Self {
        let cpus = std::thread::available_parallelism();
        Self::with(cpus.is_ok_and(|cpus| cpus.get() > 1))
    }

    fn with(possible: bool) -> Self {
        Self {
            possible,
            since: None,
            soon: false,
        }
    }

    /// Returns whether to look again at `now` instead of going to sleep.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        self.soon = self.soon && self.is_near(now);
        self.soon
    }

    /// An event has come at `now`, and has been served by `after`.
    pub(super) fn came(&mut self, now: Instant, after: Instant) {
        self.soon = self.possible && self.is_near(now);
        self.since = Some(after);
    }

    fn is_near(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since < LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_follows_events_that_come_soon() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut spin = Spin::with(true);
        assert!(!spin.goes_on(at(0)));
        // The first event has none before it.
        spin.came(at(0), at(5));
        assert!(!spin.goes_on(at(5)));
        spin.came(at(40), at(45));
        assert!(spin.goes_on(at(46)) && spin.goes_on(at(94)));
        spin.came(at(94), at(99));
        assert!(spin.goes_on(at(100)));
        // In vain: it sleeps until the next event, and after that as well.
        assert!(!spin.goes_on(at(150)));
        assert!(!spin.goes_on(at(120)));
        spin.came(at(300), at(301));
        assert!(!spin.goes_on(at(302)));
        spin.came(at(320), at(321));
        assert!(spin.goes_on(at(322)));
    }

    #[test]
    fn one_cpu_never_polls() {
        let start = Instant::now();
        let mut spin = Spin::with(false);
        spin.came(start, start);
        spin.came(start, start);
        assert!(!spin.goes_on(start));
    }
}

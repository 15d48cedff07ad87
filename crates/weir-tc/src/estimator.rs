// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rate estimator: an exponentially weighted moving average of bytes and packets per second
//! (`TCA_RATE`, `tc ... estimator 1s 8s`; net/core/gen_estimator.c).
//!
//! Linux samples the counters with a timer, every 250 ms to 8 s. This code needs no timer: the
//! counters are constant between two changes, so the samples due in between are taken when the
//! counters change or are read. The results are the same.

use std::collections::BTreeMap;

use weir_netlink::errno::EINVAL;
use weir_netlink::{Attr, Error, Fixed, GnetEstimator};

/// The shortest interval: a quarter of a second, in nanoseconds.
const QUARTER: u64 = 250_000_000;

/// The highest number of samples taken at once for an interval without traffic. The rest of a
/// longer silence is skipped: by then an average over up to 2^12 samples has reached its final
/// value.
const MOST_STEPS: u64 = 1 << 16;

/// A moving average of bytes and packets per second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimator {
    /// The interval is a quarter of a second times 2 to the power of this.
    interval_log: u8,
    ewma_log: u8,
    /// The time of the next sample in nanoseconds.
    next: u64,
    /// The counters at the last sample: bytes and packets.
    last: (u64, u64),
    /// The averages per second, times 256.
    average: (u64, u64),
}

impl Estimator {
    /// Parses `TCA_RATE` and creates an estimator for counters whose current value is `counters`
    /// (`gen_new_estimator`).
    ///
    /// # Errors
    /// EINVAL for parameters out of range.
    pub fn parse(attr: &Attr<'_>, now: u64, counters: (u64, u64)) -> Result<Self, Error> {
        let invalid = || Error::new(EINVAL);
        let parm = GnetEstimator::from_bytes(attr.payload).ok_or_else(invalid)?;
        if !(-2..=3).contains(&parm.interval) || !(1..31).contains(&parm.ewma_log) {
            return Err(invalid());
        }
        let mut estimator = Self {
            interval_log: (parm.interval + 2) as u8,
            ewma_log: parm.ewma_log,
            next: now,
            last: counters,
            average: (0, 0),
        };
        estimator.next += estimator.interval();
        Ok(estimator)
    }

    /// Returns the estimator with other initial counters.
    #[must_use]
    pub fn starting_at(mut self, counters: (u64, u64)) -> Self {
        self.last = counters;
        self
    }

    /// Adopts the averages of the estimator it replaces (`gen_replace_estimator`).
    #[must_use]
    pub fn replacing(mut self, old: Option<&Self>) -> Self {
        if let Some(old) = old {
            self.average = old.average;
        }
        self
    }

    fn interval(&self) -> u64 {
        QUARTER << self.interval_log
    }

    /// Takes the samples due by `now`; the counters had the value `counters` at all of them
    /// (`est_timer`). Must be called before the counters change.
    #[inline]
    pub fn settle(&mut self, now: u64, counters: (u64, u64)) {
        if now >= self.next {
            self.sample(now, counters);
        }
    }

    #[cold]
    fn sample(&mut self, now: u64, counters: (u64, u64)) {
        let due = (now - self.next) / self.interval() + 1;
        for _ in 0..due.min(MOST_STEPS) {
            let step = |average: u64, now: u64, last: u64| {
                let rate = now.wrapping_sub(last) << (10 - self.interval_log);
                let change = (rate >> self.ewma_log).wrapping_sub(average >> self.ewma_log);
                average.wrapping_add(change)
            };
            let before = self.average;
            self.average = (
                step(before.0, counters.0, self.last.0),
                step(before.1, counters.1, self.last.1),
            );
            let silent = self.last == counters;
            self.last = counters;
            if silent && before == self.average {
                break;
            }
        }
        self.next += due * self.interval();
    }

    /// Returns bytes and packets per second (`gen_estimator_read`).
    pub fn rate(&self) -> (u64, u64) {
        (self.average.0 >> 8, self.average.1 >> 8)
    }
}

/// The estimators of a qdisc's classes, by class number.
#[derive(Debug)]
pub struct ClassRates {
    estimators: BTreeMap<u32, Estimator>,
    /// The time of the earliest next sample in nanoseconds.
    next: u64,
}

impl Default for ClassRates {
    fn default() -> Self {
        Self {
            estimators: BTreeMap::new(),
            next: u64::MAX,
        }
    }
}

impl ClassRates {
    /// Sets the estimator of a class, replacing any previous one.
    pub fn set(&mut self, class: u32, new: Estimator) {
        let new = new.replacing(self.estimators.get(&class));
        self.next = self.next.min(new.next);
        self.estimators.insert(class, new);
    }

    /// Removes the estimator of a deleted class.
    pub fn forget(&mut self, class: u32) {
        self.estimators.remove(&class);
    }

    /// Takes the samples due by `now`; the counters of each class had the value `counters` at all
    /// of them. Must be called before the counters change.
    #[inline]
    pub fn settle(&mut self, now: u64, counters: impl Fn(u32) -> (u64, u64)) {
        if now >= self.next {
            self.sample(now, counters);
        }
    }

    #[cold]
    fn sample(&mut self, now: u64, counters: impl Fn(u32) -> (u64, u64)) {
        self.next = u64::MAX;
        for (&class, estimator) in &mut self.estimators {
            estimator.settle(now, counters(class));
            self.next = self.next.min(estimator.next);
        }
    }

    /// Returns bytes and packets per second of a class.
    pub fn rate(&self, class: u32) -> Option<(u64, u64)> {
        self.estimators.get(&class).map(Estimator::rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the lazy estimator with one driven by a timer, as in Linux.
    #[test]
    fn equals_sampling_by_a_timer() {
        let parm = GnetEstimator {
            interval: -2,
            ewma_log: 3,
        };
        let bytes = parm.to_vec();
        let attr = Attr {
            ty: 5,
            nested: false,
            net_byteorder: false,
            payload: &bytes,
            offset: 0,
        };
        let mut lazy = Estimator::parse(&attr, 0, (0, 0)).unwrap();
        let (mut bytes, mut packets, mut average, mut last) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut random = 7_u64;
        let mut now = 0_u64;
        let mut timer = QUARTER;
        for _ in 0..2000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // From time to time there is a long gap without traffic.
            let gap = if random >> 60 == 0 {
                3_000_000_000
            } else {
                40_000_000
            };
            now += random % gap;
            while timer <= now {
                let rate = (bytes - last) << 10;
                average = average.wrapping_add((rate >> 3).wrapping_sub(average >> 3));
                last = bytes;
                timer += QUARTER;
            }
            lazy.settle(now, (bytes, packets));
            assert_eq!(lazy.rate().0, average >> 8, "at {now}");
            bytes += random >> 54;
            packets += 1;
        }
        assert!(average > 0);
        // A year of silence is handled at once; the averages decay to what integer arithmetic
        // leaves.
        lazy.settle(now + 31_536_000_000_000_000, (bytes, packets));
        assert_eq!(lazy.rate(), (0, 0));
    }
}

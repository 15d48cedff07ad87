// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rate estimator: an exponentially weighted moving average of octets and packets a second
//! (`TCA_RATE`, `tc ... estimator 1s 8s`; net/core/gen_estimator.c).
//!
//! Linux samples the counters by a timer, every 250 ms to 8 s. Between two changes of the counters the
//! samples are known, so they are taken when the counters change or are read, with the same outcome and
//! no timer.

use std::collections::BTreeMap;

use weir_netlink::errno::EINVAL;
use weir_netlink::{Attr, Error, Fixed, GnetEstimator};

/// A quarter of a second, ns: the shortest interval.
const QUARTER: u64 = 250_000_000;

/// Samples without traffic that are taken at once; of a longer silence the rest is not. An average over
/// up to 2^12 samples has come down to what it stays at by then.
const MOST_STEPS: u64 = 1 << 16;

/// One estimator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimator {
    /// The interval is a quarter of a second times two to this.
    interval_log: u8,
    ewma_log: u8,
    /// When the next sample is due, ns.
    next: u64,
    /// Counters at the last sample.
    last: (u64, u64),
    /// Averages a second, times 256.
    average: (u64, u64),
}

impl Estimator {
    /// The estimator of `TCA_RATE` for counters that stand at `counters` now (`gen_new_estimator`).
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

    /// From other counters on.
    #[must_use]
    pub fn starting_at(mut self, counters: (u64, u64)) -> Self {
        self.last = counters;
        self
    }

    /// Takes the averages of the estimator it replaces (`gen_replace_estimator`).
    #[must_use]
    pub fn instead_of(mut self, old: Option<&Self>) -> Self {
        if let Some(old) = old {
            self.average = old.average;
        }
        self
    }

    fn interval(&self) -> u64 {
        QUARTER << self.interval_log
    }

    /// Takes the samples due by `now`, through which the counters stood at `counters` (`est_timer`).
    /// To be called before they change.
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

    /// Octets and packets a second (`gen_estimator_read`).
    pub fn rate(&self) -> (u64, u64) {
        (self.average.0 >> 8, self.average.1 >> 8)
    }
}

/// The estimators of a qdisc's classes, by the class's number.
#[derive(Debug)]
pub struct ClassRates {
    estimators: BTreeMap<u32, Estimator>,
    /// When the next sample of any is due, ns.
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
    /// Gives a class an estimator in place of the one it had.
    pub fn set(&mut self, class: u32, new: Estimator) {
        let new = new.instead_of(self.estimators.get(&class));
        self.next = self.next.min(new.next);
        self.estimators.insert(class, new);
    }

    /// A class is gone.
    pub fn forget(&mut self, class: u32) {
        self.estimators.remove(&class);
    }

    /// Takes the samples due by `now`, through which the counters of a class stood at `counters`. To be
    /// called before they change.
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

    /// Octets and packets a second of a class.
    pub fn rate(&self, class: u32) -> Option<(u64, u64)> {
        self.estimators.get(&class).map(Estimator::rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timer, as Linux runs it.
    #[test]
    fn as_sampled_by_a_timer() {
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
            // Now and then nothing comes for long.
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
        // A year of silence is over at once, and leaves what integers cannot lose.
        lazy.settle(now + 31_536_000_000_000_000, (bytes, packets));
        assert_eq!(lazy.rate(), (0, 0));
    }
}

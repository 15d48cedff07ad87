// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The round-trip time and the retransmission time-out (RFC 6298, with Linux's variance: `tcp_rtt_estimator`).
//!
//! The variance is bounded below by `rto_min` and decays only once a round trip, so the time-out is never under
//! `srtt + rto_min`.

use crate::seq::after;
use crate::time::{MS, SECOND};

/// The time-out before there is a sample.
pub const RTO_INITIAL: u64 = SECOND;
/// The longest time-out.
pub const RTO_MAX: u64 = 120 * SECOND;
/// Over how long the minimum is taken (`tcp_min_rtt_wlen`).
const MIN_WINDOW: u64 = 300 * SECOND;

/// Estimates of the round-trip time, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Rtt {
    /// Eight times the smoothed round-trip time; 0 without a sample.
    pub srtt8: u32,
    /// Four times the mean deviation.
    pub mdev4: u32,
    /// The largest deviation of this round.
    mdev_max: u32,
    /// Four times the variance that the time-out uses.
    pub var4: u32,
    /// The sequence number whose acknowledgement ends the round.
    round: u32,
    /// The smallest recent sample; `u32::MAX` without one.
    pub min: u32,
    min_at: u64,
    /// The time-out without backoff, in ns.
    rto: u64,
    /// How often the time-out was doubled.
    pub backoff: u8,
}

impl Default for Rtt {
    fn default() -> Self {
        Self {
            srtt8: 0,
            mdev4: (RTO_INITIAL / 1000) as u32,
            mdev_max: 0,
            var4: 0,
            round: 0,
            min: u32::MAX,
            min_at: 0,
            rto: RTO_INITIAL,
            backoff: 0,
        }
    }
}

impl Rtt {
    /// Takes a sample of `us` microseconds. `una` and `nxt` are the first unacknowledged and the next sequence number,
    /// `rto_min` is in ns.
    pub fn sample(&mut self, us: u32, una: u32, nxt: u32, rto_min: u64) {
        let us = us.clamp(1, 1 << 27);
        let least = (rto_min / 1000) as u32;
        if self.srtt8 == 0 {
            self.srtt8 = us << 3;
            self.mdev4 = us << 1;
            self.var4 = self.mdev4.max(least);
            self.mdev_max = self.var4;
            self.round = nxt;
        } else {
            let mut m = us as i64 - i64::from(self.srtt8 >> 3);
            self.srtt8 = (i64::from(self.srtt8) + m).max(1) as u32;
            if m < 0 {
                m = -m - i64::from(self.mdev4 >> 2);
                // A fall of the round-trip time must not raise the time-out much (RFC 6298's known weakness).
                if m > 0 {
                    m >>= 3;
                }
            } else {
                m -= i64::from(self.mdev4 >> 2);
            }
            self.mdev4 = (i64::from(self.mdev4) + m).max(0) as u32;
            if self.mdev4 > self.mdev_max {
                self.mdev_max = self.mdev4;
                self.var4 = self.var4.max(self.mdev_max);
            }
            if after(una, self.round) {
                if self.mdev_max < self.var4 {
                    self.var4 -= (self.var4 - self.mdev_max) >> 2;
                }
                self.round = nxt;
                self.mdev_max = least;
            }
        }
        let rto = u64::from(self.srtt8 >> 3) + u64::from(self.var4);
        self.rto = (rto * 1000).min(RTO_MAX);
        self.backoff = 0;
    }

    /// Notes a sample for the minimum.
    pub fn sample_min(&mut self, us: u32, now: u64) {
        let us = us.max(1);
        if us <= self.min || now.saturating_sub(self.min_at) > MIN_WINDOW {
            self.min = us;
            self.min_at = now;
        }
    }

    /// The time-out with backoff, in ns.
    pub fn rto(&self) -> u64 {
        (self.rto << self.backoff.min(20)).min(RTO_MAX)
    }

    /// Doubles the time-out.
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Sets the time-out without backoff, in ns: after a SYN that was lost.
    pub fn set_rto(&mut self, rto: u64) {
        self.rto = rto.min(RTO_MAX);
    }

    /// The smoothed round-trip time in ns; 0 without a sample.
    pub fn srtt(&self) -> u64 {
        u64::from(self.srtt8 >> 3) * 1000
    }

    /// The mean of the deviation at the start, in ms: what `ss` shows before a sample.
    pub fn initial_variance_ms() -> u64 {
        RTO_INITIAL / MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_gives_three_times_itself_or_the_minimum() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(), SECOND);
        rtt.sample(100_000, 1, 10, 200 * MS);
        assert_eq!(rtt.rto(), 300 * MS);
        let mut rtt = Rtt::default();
        rtt.sample(1000, 1, 10, 200 * MS);
        assert_eq!(rtt.rto(), 201 * MS);
    }

    #[test]
    fn steady_samples_bring_the_time_out_to_the_minimum() {
        let mut rtt = Rtt::default();
        for seq in 0..100 {
            rtt.sample(100_000, seq * 10 + 1, seq * 10 + 10, 200 * MS);
        }
        assert_eq!(rtt.rto(), 300 * MS);
        rtt.back_off();
        assert_eq!(rtt.rto(), 600 * MS);
        for _ in 0..20 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), RTO_MAX);
        rtt.sample(100_000, 2001, 2010, 200 * MS);
        assert_eq!(rtt.rto(), 300 * MS);
    }
}

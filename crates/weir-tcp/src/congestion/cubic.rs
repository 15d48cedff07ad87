// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CUBIC (RFC 9438) with HyStart, with the constants of Linux's `tcp_cubic`: beta 717/1024, C 0.4, fast convergence,
//! friendliness to Reno, HyStart by ACK trains and by delay from 16 packets on.
//!
//! Times are in 1/1024 s in the cubic function, as there, so that the arithmetic stays in integers.

use super::{INFINITE, Sample, Window};
use crate::seq::after;
use crate::time::{MS, SECOND};

/// 1024 times beta.
const BETA: u32 = 717;
/// Below this window HyStart does not look for the end of slow start.
const LOW_WINDOW: u32 = 16;
/// Samples of the delay per round.
const SAMPLES: u8 = 8;
/// ACKs closer together than this are a train.
const TRAIN_GAP: u64 = 2 * MS;

/// The state of a flow.
#[derive(Debug, Clone, Default)]
pub struct Cubic {
    /// Packets acknowledged per increase.
    every: u32,
    last_max: u32,
    last_cwnd: u32,
    origin: u32,
    /// Packets acknowledged since the last estimate of Reno's window.
    acked: u32,
    reno_cwnd: u32,
    last_time: u64,
    /// The start of the epoch in ns; 0 for none.
    epoch: u64,
    /// From the start of the epoch to the plateau, in 1/1024 s.
    k: u32,
    /// The smallest round-trip time, in microseconds.
    delay_min: u32,
    round_start: u64,
    last_ack: u64,
    end_seq: u32,
    current_rtt: u32,
    samples: u8,
    found: bool,
    started: bool,
}

impl Cubic {
    /// Forgets everything but the end of slow start's search.
    pub fn reset(&mut self, now: u64, _una: u32, nxt: u32) {
        *self = Self::default();
        self.new_round(now, nxt);
    }

    fn new_round(&mut self, now: u64, nxt: u32) {
        self.round_start = now;
        self.last_ack = now;
        self.end_seq = nxt;
        self.current_rtt = u32::MAX;
        self.samples = 0;
        self.started = true;
    }

    /// The threshold after a loss; the epoch ends.
    pub fn after_loss(&mut self, window: &Window) -> u32 {
        self.epoch = 0;
        self.last_max = if window.cwnd < self.last_max {
            // Fast convergence: leave room for the flow that caused the loss.
            (u64::from(window.cwnd) * u64::from(1024 + BETA) / 2048) as u32
        } else {
            window.cwnd
        };
        ((u64::from(window.cwnd) * u64::from(BETA) / 1024) as u32).max(2)
    }

    /// A pause does not count as time of the epoch.
    pub fn resumed(&mut self, now: u64, since: u64) {
        if self.epoch != 0 && now > since {
            self.epoch = (self.epoch + (now - since)).min(now);
        }
    }

    /// Grows the window.
    pub fn acked(&mut self, window: &mut Window, mut acked: u32, now: u64, _una: u32, _nxt: u32) {
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(window.cwnd, acked, now);
        window.increase(self.every, acked);
    }

    fn update(&mut self, cwnd: u32, acked: u32, now: u64) {
        self.acked = self.acked.saturating_add(acked);
        if self.last_cwnd == cwnd && now.saturating_sub(self.last_time) <= SECOND / 32 {
            return;
        }
        if self.epoch == 0 || now / MS != self.last_time / MS {
            self.last_cwnd = cwnd;
            self.last_time = now;
            self.cubic(cwnd, acked, now);
        }
        self.friendliness(cwnd);
        self.every = self.every.max(2);
    }

    fn cubic(&mut self, cwnd: u32, acked: u32, now: u64) {
        if self.epoch == 0 {
            self.epoch = now.max(1);
            self.acked = acked;
            self.reno_cwnd = cwnd;
            if self.last_max <= cwnd {
                self.k = 0;
                self.origin = cwnd;
            } else {
                self.k = cube_root(u64::from(self.last_max - cwnd) * ((1 << 40) / 410));
                self.origin = self.last_max;
            }
        }
        let elapsed = now.saturating_sub(self.epoch) + u64::from(self.delay_min) * 1000;
        let t = (u128::from(elapsed) * 1024 / u128::from(SECOND)) as u64;
        let offset = t.abs_diff(u64::from(self.k)).min(1 << 17);
        let delta = ((410 * u128::from(offset).pow(3)) >> 40) as u32;
        let target = if t < u64::from(self.k) {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        };
        self.every = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.saturating_mul(100)
        };
        // Without a known maximum the window grows by 5% a round trip at least.
        if self.last_max == 0 && self.every > 20 {
            self.every = 20;
        }
    }

    fn friendliness(&mut self, cwnd: u32) {
        // 8 * (1 + beta) / 3 / (1 - beta), in eighths.
        let per = ((u64::from(cwnd) * 15) >> 3).clamp(1, u64::from(u32::MAX)) as u32;
        self.reno_cwnd = self.reno_cwnd.saturating_add(self.acked / per);
        self.acked %= per;
        if self.reno_cwnd > cwnd {
            self.every = self.every.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }

    /// Looks for the end of slow start (HyStart).
    pub fn rtt(&mut self, window: &mut Window, sample: &Sample) {
        // After a loss and its recovery the delay says nothing about the path.
        if self.epoch != 0 && sample.now.saturating_sub(self.epoch) < SECOND {
            return;
        }
        let delay = sample.rtt.max(1);
        if self.delay_min == 0 || delay < self.delay_min {
            self.delay_min = delay;
        }
        if !self.found && window.in_slow_start() && window.cwnd >= LOW_WINDOW {
            self.hystart(window, sample, delay);
        }
    }

    fn hystart(&mut self, window: &mut Window, sample: &Sample, delay: u32) {
        if !self.started || after(sample.una, self.end_seq) {
            self.new_round(sample.now, sample.nxt);
        }
        if sample.now.saturating_sub(self.last_ack) <= TRAIN_GAP {
            self.last_ack = sample.now;
            if sample.now.saturating_sub(self.round_start) > u64::from(self.delay_min) * 1000 / 2 {
                self.found = true;
            }
        }
        self.current_rtt = self.current_rtt.min(delay);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let tolerance = (self.delay_min / 8).clamp(4000, 16000);
            if self.current_rtt > self.delay_min.saturating_add(tolerance) {
                self.found = true;
            }
        }
        if self.found && window.ssthresh == INFINITE {
            window.ssthresh = window.cwnd;
        } else if self.found {
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }
}

/// The integer part of a cube root.
fn cube_root(value: u64) -> u32 {
    let mut root: u64 = 0;
    let mut bit: u64 = 1 << 21;
    while bit > 0 {
        let next = root | bit;
        if u128::from(next).pow(3) <= u128::from(value) {
            root = next;
        }
        bit >>= 1;
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for root in [0u64, 1, 2, 9, 1000, 123_456, 2_000_000] {
            assert_eq!(u64::from(cube_root(root.pow(3))), root);
            assert_eq!(u64::from(cube_root(root.pow(3) + 1)), root.max(1));
        }
    }

    /// After a loss at 100 packets the window is back there after K = cbrt(100 * 0.3 / 0.4) = 4.2 s.
    #[test]
    fn the_window_returns_to_its_maximum() {
        let mut window = Window {
            cwnd: 100,
            ssthresh: 50,
            count: 0,
            clamp: u32::MAX,
        };
        let mut cubic = Cubic::default();
        window.ssthresh = cubic.after_loss(&window);
        window.cwnd = window.ssthresh;
        assert_eq!(window.cwnd, 70);
        let mut now = SECOND;
        let mut reached = 0;
        for _ in 0..100 {
            now += 100 * MS;
            for _ in 0..window.cwnd {
                cubic.acked(&mut window, 1, now, 0, 0);
            }
            if reached == 0 && window.cwnd >= 99 {
                reached = now;
            }
        }
        assert!((3 * SECOND..7 * SECOND).contains(&reached), "{reached}");
        assert!(window.cwnd > 110);
    }

    #[test]
    fn a_growing_delay_ends_slow_start() {
        let mut window = Window {
            cwnd: 32,
            ssthresh: INFINITE,
            count: 0,
            clamp: u32::MAX,
        };
        let mut cubic = Cubic::default();
        let mut now = SECOND;
        for rtt in [20_000u32, 20_000, 40_000] {
            for n in 0..20u32 {
                now += 10 * MS;
                let una = rtt + n;
                cubic.rtt(
                    &mut window,
                    &Sample {
                        now,
                        rtt,
                        una,
                        nxt: rtt + 20,
                    },
                );
            }
        }
        assert_eq!(window.ssthresh, 32);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The timing of generated frames: constant or random gaps, with or without silent periods.

use super::{Gaps, Parameters, Rate};

const SECOND: u128 = 1_000_000_000;

/// Returns the next number of a seeded sequence (SplitMix64).
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns an exponentially distributed number with the given mean, by von Neumann's comparison
/// method (Various techniques used in connection with random digits, 1951). Unlike a logarithm, it
/// gives the same result on every machine.
fn exponential(state: &mut u64, mean: u128) -> u128 {
    let mut whole = 0;
    loop {
        let first = random(state);
        let (mut least, mut odd) = (first, true);
        loop {
            let next = random(state);
            if next >= least {
                break;
            }
            (least, odd) = (next, !odd);
        }
        if odd {
            return mean * whole + ((mean * u128::from(first)) >> 64);
        }
        whole += 1;
    }
}

/// The schedule. Apart from silent periods, a frame is due once the cost of the frames before it
/// has elapsed.
#[derive(Debug)]
pub struct Pace {
    /// The cost of all frames so far, in nanoseconds times the rate.
    spent: u128,
    /// The cost of all frames before the current burst.
    due: u128,
    /// The active time at which the next silence begins, and the total silence so far, in
    /// nanoseconds.
    on_until: u128,
    silent: u128,
}

impl Pace {
    pub fn new(p: &Parameters, state: &mut u64) -> Pace {
        let on_until = match p.on.min(p.off) {
            0 => u128::MAX,
            _ => exponential(state, p.on.into()),
        };
        Pace {
            spent: 0,
            due: 0,
            on_until,
            silent: 0,
        }
    }

    /// Returns the time stamp of frame `n` in nanoseconds, or `None` past the year 2554.
    pub fn stamp(&mut self, p: &Parameters, n: u64, state: &mut u64) -> Option<u64> {
        if n.is_multiple_of(p.burst) {
            self.due = self.spent;
        }
        let (Rate::Frames(rate) | Rate::Bits(rate)) = p.rate;
        let active = self.due / u128::from(rate);
        while active >= self.on_until {
            self.silent += exponential(state, p.off.into());
            self.on_until += exponential(state, p.on.into());
        }
        let time = active + self.silent + u128::from(p.start);
        u64::try_from(time).ok()
    }

    /// Accounts for a frame of `len` bytes.
    pub fn pay(&mut self, p: &Parameters, len: usize, state: &mut u64) {
        let cost = match p.rate {
            Rate::Frames(_) => SECOND,
            Rate::Bits(_) => len as u128 * 8 * SECOND,
        };
        self.spent += match p.gaps {
            Gaps::Constant => cost,
            Gaps::Poisson => exponential(state, cost),
        };
    }
}

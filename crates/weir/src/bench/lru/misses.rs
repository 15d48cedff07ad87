// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Misses of policies on traces of keys.

use std::collections::BinaryHeap;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`.
    #[inline(always)]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// The number of keys of a zipf trace.
pub const KEYS: u32 = 100_000;

/// Returns `count` ranks of [`KEYS`] keys, where rank `r`, from 0 on, has a probability proportional to
/// `(r + 1)^-exponent`.
pub fn zipf(exponent: f64, count: usize, seed: u64) -> Vec<u32> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=KEYS {
        sum += f64::from(rank).powf(-exponent);
        sums.push(sum);
    }
    let mut random = Random(seed);
    let draw = |_| {
        let at = (random.next() >> 11) as f64 * 2f64.powi(-53) * sum;
        (sums.partition_point(|&sum| sum < at) as u32).min(KEYS - 1)
    };
    (0..count).map(draw).collect()
}

/// Zipf 1.01, where 6 of 20 accesses belong to a scan of keys that never come again.
pub fn scan(count: usize) -> Vec<u32> {
    let mut trace = zipf(1.01, count, 7);
    let scanned = trace.iter_mut().enumerate().filter(|(at, _)| at % 20 < 6);
    for (key, (_, access)) in scanned.enumerate() {
        *access = KEYS + key as u32;
    }
    trace
}

/// The same keys again and again, a tenth more than the map has entries.
pub fn cycle(count: usize, entries: u32) -> Vec<u32> {
    (0..count as u32)
        .map(|at| at % (entries / 10 * 11))
        .collect()
}

/// Zipf 1.01, where other keys become popular after each `period` accesses.
pub fn shift(count: usize, period: u64) -> Vec<u32> {
    let mut trace = zipf(1.01, count, 7);
    for (at, key) in trace.iter_mut().enumerate() {
        *key = ((u64::from(*key) * 7919 + at as u64 / period * 12_345) % u64::from(KEYS)) as u32;
    }
    trace
}

/// Returns the misses of the optimum, which evicts the entry whose next use is farthest away (Belady).
pub fn optimum(trace: &[u32], entries: usize) -> u32 {
    let keys = trace.iter().max().map_or(0, |&key| key as usize + 1);
    let mut next_use = vec![u32::MAX; trace.len()];
    let mut last = vec![u32::MAX; keys];
    for (at, &key) in trace.iter().enumerate().rev() {
        next_use[at] = std::mem::replace(&mut last[key as usize], at as u32);
    }
    // The next use of each present key; heap entries that differ from it are out of date.
    let mut present = vec![None; keys];
    let mut farthest = BinaryHeap::new();
    let (mut len, mut misses) = (0, 0);
    for (&key, next) in trace.iter().zip(next_use) {
        if present[key as usize].is_none() {
            misses += 1;
            while len == entries {
                let Some((next, key)) = farthest.pop() else {
                    break;
                };
                if present[key as usize] == Some(next) {
                    present[key as usize] = None;
                    len -= 1;
                }
            }
            len += 1;
        }
        present[key as usize] = Some(next);
        farthest.push((next, key));
    }
    misses
}

/// Returns the misses of the best policy that does not know the future, on average: it keeps the keys
/// that are most probable, which are the lowest ranks.
pub fn bound(trace: &[u32], entries: u32) -> u32 {
    let mut seen = vec![false; KEYS as usize];
    let miss = |&&key: &&u32| key >= entries || !std::mem::replace(&mut seen[key as usize], true);
    trace.iter().filter(miss).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimum_evicts_what_is_used_last() {
        assert_eq!(optimum(&[1, 2, 3, 1, 2, 3], 2), 4);
        assert_eq!(optimum(&[1, 2, 1, 2], 2), 2);
        assert_eq!(optimum(&cycle(110, 10), 10), 11 + 9);
        assert_eq!(bound(&[0, 0, 5, 5], 2), 3);
    }
}

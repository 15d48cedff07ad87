// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deterministic traces of keys.

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Returns `count` ranks, the most popular 0, of `keys` keys, where rank `r` has a probability
/// proportional to `(r + 1)^-exponent`.
pub(super) fn ranks(exponent: f64, keys: u32, count: usize, seed: u64) -> Vec<u32> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += f64::from(rank).powf(-exponent);
        sums.push(sum);
    }
    let mut random = Random(seed);
    let draw = |_| {
        let at = (random.next() >> 11) as f64 * 2f64.powi(-53) * sum;
        (sums.partition_point(|&sum| sum < at) as u32).min(keys - 1)
    };
    (0..count).map(draw).collect()
}

/// The same as keys.
pub(super) fn zipf(exponent: f64, keys: u32, count: usize, seed: u64) -> Vec<u32> {
    let ranks = ranks(exponent, keys, count, seed);
    ranks
        .iter()
        .map(|rank| (rank + 1).wrapping_mul(2_654_435_761))
        .collect()
}

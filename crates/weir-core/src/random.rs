// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeded randomness. Each user has its own generator, named by a path, so that a change in one
//! device affects no other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Mixes all bits with the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), a bijection.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the seed of the generator named `path` under the stack's `seed`.
pub fn seed_of(seed: u64, path: &str) -> u64 {
    path.bytes()
        .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)))
}

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Generator(u64);

/// The increment of a [`Generator`]'s state for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A [`Generator`] that any thread may draw from without a lock.
#[derive(Debug)]
pub struct SharedGenerator(AtomicU64);

impl SharedGenerator {
    /// Creates the generator named `path`.
    pub fn new(seed: u64, path: &str) -> Self {
        Self(AtomicU64::new(seed_of(seed, path)))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&self) -> u64 {
        mix(self.0.fetch_add(STEP, Relaxed))
    }
}

impl Generator {
    /// Creates the generator named `path`.
    pub fn new(seed: u64, path: &str) -> Self {
        Self(seed_of(seed, path))
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        value
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_named_by_their_path() {
        let draw = |seed, path| Generator::new(seed, path).next_u64();
        assert_eq!(draw(1, "a/lan0"), draw(1, "a/lan0"));
        assert_ne!(draw(1, "a/lan0"), draw(1, "a/lan1"));
        assert_ne!(draw(1, "a/lan0"), draw(2, "a/lan0"));
        let (mut generator, shared) = (Generator::new(1, "x"), SharedGenerator::new(1, "x"));
        assert!((0..10).all(|_| generator.next_u64() == shared.next_u64()));
        assert!((0..1000).all(|_| generator.below(10) < 10));
        assert_eq!(generator.below(0), 0);
    }
}

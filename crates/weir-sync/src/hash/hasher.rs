// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash function of the tables. It gives the same result in every run, on every machine and in
//! every build.
//!
//! Words are mixed in by a 64 x 64 -> 128 bit multiplication whose halves are folded together (the
//! idea of wyhash); byte strings are hashed 16 bytes at a time. Both ends of the result are well
//! mixed: the tables use the high bits for the position and the low bits for the tag. The function
//! is not keyed: an adversary can choose colliding keys, which costs time but never memory or
//! correctness.

use core::hash::{Hash, Hasher};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP: u64 = 0xd6e8_feb8_6659_fd93;
const LAST: u64 = 0xa076_1d64_78bd_642f;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The state of the hash function. See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct FoldHasher {
    state: u64,
}

impl Default for FoldHasher {
    #[inline(always)]
    fn default() -> Self {
        Self { state: SEED }
    }
}

/// Returns the hash of `key`.
#[inline(always)]
pub fn hash_of<Q: Hash + ?Sized>(key: &Q) -> u64 {
    let mut hasher = FoldHasher::default();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Reads up to eight bytes, little-endian.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl Hasher for FoldHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(16);
        for chunk in &mut chunks {
            self.state = fold(word(&chunk[..8]) ^ self.state, word(&chunk[8..]) ^ STEP);
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let (low, high) = rest.split_at(rest.len().min(8));
            // Mixes in the number of bytes; otherwise strings that differ only in trailing zeros
            // would collide.
            self.state = fold(
                word(low) ^ self.state,
                word(high) ^ STEP ^ bytes.len() as u64,
            );
        }
    }

    #[inline(always)]
    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    #[inline(always)]
    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    #[inline(always)]
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    #[inline(always)]
    fn write_u64(&mut self, n: u64) {
        self.state = fold(n ^ self.state, STEP);
    }

    #[inline(always)]
    fn write_u128(&mut self, n: u128) {
        self.state = fold(n as u64 ^ self.state, (n >> 64) as u64 ^ STEP);
    }

    #[inline(always)]
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        fold(self.state, LAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_fixed_values() {
        assert_eq!(hash_of(&1u32), hash_of(&1u64));
        assert_eq!(hash_of(&7u32), 13_966_344_861_918_267_319);
        assert_eq!(hash_of(&[1u8, 2, 3][..]), 14023112077519059107);
    }

    #[test]
    fn spreads_counting_and_strided_keys() {
        for shift in [0, 4, 8, 16, 24, 32, 48] {
            let mut high = [0u32; 64];
            let mut low = [0u32; 64];
            for n in 0..65536u64 {
                let hash = hash_of(&(n << shift));
                high[(hash >> 58) as usize] += 1;
                low[(hash & 63) as usize] += 1;
            }
            for count in high.iter().chain(&low) {
                assert!(
                    (820..1230).contains(count),
                    "shift {shift}: {count} of 1024"
                );
            }
        }
    }
}

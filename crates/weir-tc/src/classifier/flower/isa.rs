// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lookups compiled for the instructions of the processor.
//!
//! If the processor has AVX2, which is detected at run time, one instruction computes or compares four packets' lanes.
//! The functions are the same.
#![allow(unsafe_code)] // calls functions compiled for AVX2

use weir_sync::rcu::Guard;

use super::Filter;
use super::few::{FEW, Few};
use super::lanes::product;
use super::mask::{FEW_RUNS, List, Scratch};
use super::plain::differ;
use crate::early::Source;

/// Runs [`List::find_group`] with the fastest instructions the processor has.
#[inline]
pub fn find_group<'g>(
    list: &'g List,
    packets: (&impl Source, u64),
    scratch: &mut Scratch,
    guard: &'g Guard,
    found: impl FnMut(usize, &'g Filter),
) {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_there() {
        // SAFETY: the processor has the features that the function requires.
        return unsafe { avx2::find_group(list, packets, scratch, guard, found) };
    }
    list.find_group(product, packets, scratch, guard, found);
}

/// Runs [`List::find_runs`] with the fastest instructions the processor has.
#[inline]
pub fn find_runs<'g>(
    (list, few): (&'g List, Option<&'g Few>),
    packets: (&impl Source, u64),
    runs: &mut [Option<(u64, &'g Filter)>; FEW_RUNS],
    guard: &'g Guard,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_there() {
        // SAFETY: the processor has the features that the function requires.
        return unsafe { avx2::find_runs((list, few), packets, runs, guard) };
    }
    list.find_runs(differ, few, packets, runs, guard)
}

/// Runs [`Few::find`] with the fastest instructions the processor has.
// Inlined into its large caller, the loop would be compiled worse.
#[inline(never)]
pub fn find_few(few: &Few, packets: &impl Source, wanted: u64) -> ([u64; FEW], u64) {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_there() {
        // SAFETY: the processor has the features that the function requires.
        return unsafe { avx2::find_few(few, packets, wanted) };
    }
    few.find(differ, packets, wanted)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::lanes::{Lanes, STRIDE};
    use super::*;
    use crate::early::Plain;
    use std::arch::{is_x86_feature_detected as has, x86_64::*};

    /// Whether the processor has the features that these functions require.
    #[inline]
    pub fn is_there() -> bool {
        has!("avx2") && has!("bmi1") && has!("bmi2")
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub fn find_group<'g>(
        list: &'g List,
        packets: (&impl Source, u64),
        scratch: &mut Scratch,
        guard: &'g Guard,
        found: impl FnMut(usize, &'g Filter),
    ) {
        let product = |lanes: &Lanes, factor: u32| product(lanes, factor);
        list.find_group(product, packets, scratch, guard, found)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub fn find_runs<'g>(
        (list, few): (&'g List, Option<&'g Few>),
        packets: (&impl Source, u64),
        runs: &mut [Option<(u64, &'g Filter)>; FEW_RUNS],
        guard: &'g Guard,
    ) -> bool {
        let differ = |a: &Plain, b: &Plain, bits: &Plain| differ(a, b, bits);
        list.find_runs(differ, few, packets, runs, guard)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub fn find_few(few: &Few, packets: &impl Source, wanted: u64) -> ([u64; FEW], u64) {
        let differ = |a: &Plain, b: &Plain, bits: &Plain| differ(a, b, bits);
        few.find(differ, packets, wanted)
    }

    /// Compares headers in two overlapping parts.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub fn differ(a: &Plain, b: &Plain, bits: &Plain) -> bool {
        const LAST: usize = size_of::<Plain>() - size_of::<__m256i>();
        const { assert!(LAST <= size_of::<__m256i>()) };
        let first = _mm256_xor_si256(part::<0>(a), part::<0>(b));
        let last = _mm256_xor_si256(part::<LAST>(a), part::<LAST>(b));
        let first = _mm256_and_si256(first, part::<0>(bits));
        let last = _mm256_and_si256(last, part::<LAST>(bits));
        let all = _mm256_or_si256(first, last);
        _mm256_testz_si256(all, all) == 0
    }

    /// Returns 32 bytes from an offset on.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn part<const AT: usize>(of: &Plain) -> __m256i {
        const { assert!(AT + size_of::<__m256i>() <= size_of::<Plain>()) };
        // SAFETY: the bytes lie inside the headers, and the instruction needs no alignment.
        unsafe { _mm256_loadu_si256(of.as_ptr().add(AT).cast()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn product(lanes: &Lanes, factor: u32) -> Lanes {
        let mut out = [0; STRIDE];
        let factor = _mm256_set1_epi64x(i64::from(factor));
        let mut at = 0;
        while at < STRIDE {
            // SAFETY: four 64-bit numbers follow, as their number is a multiple, and the instructions need no alignment.
            unsafe {
                let from = _mm256_loadu_si256(lanes.as_ptr().add(at).cast());
                let product = _mm256_mul_epu32(from, factor);
                _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), product);
            }
            at += 4;
        }
        out
    }
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::early::Plain;

    /// Headers that differ in one bit differ where that bit is read, in every comparison.
    #[test]
    fn every_bit_is_compared() {
        if !avx2::is_there() {
            eprintln!("SKIPPED every_bit_is_compared: the processor has no AVX2");
            return;
        }
        let one = Plain::from(std::array::from_fn(|n| (n * 37) as u8));
        for at in 0..8 * size_of::<Plain>() {
            let flip = |mut head: Plain| {
                head[at / 8] ^= 1 << (at % 8);
                head
            };
            let other = flip(one);
            let none = [0; size_of::<Plain>()];
            for (bits, read) in [
                (flip(none), true),
                (none.map(|_| 0xff), true),
                (flip(none.map(|_| 0xff)), false),
                (none, false),
            ] {
                assert_eq!(differ(&one, &other, &bits), read, "bit {at}");
                // SAFETY: the processor has the features.
                let fast = unsafe { avx2::differ(&one, &other, &bits) };
                assert_eq!(fast, read, "bit {at}, AVX2");
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inner loop of batched lookups: computes the hashes of a group of packets' keys under a mask
//! in parallel lanes, and tests which packets pass the mask's sieve.
//!
//! Keys are stored in columns; a column holds one half-word of all packets. Half-words in which the
//! mask has no bits are not read. The arithmetic is that of [`part`](super::key::part), so the hash
//! equals that of the key. If the processor has AVX2, which is detected at run time, one
//! instruction processes four packets; the loop is the same.
#![allow(unsafe_code)] // calls functions compiled for AVX2

use weir_packet::batch::BATCH;
use weir_sync::bits::set_bits;
use weir_sync::rcu::Guard;
use weir_sync::sieve::{MIX, View, fold, spot_of};

use super::Filter;
use super::few::{FEW, Few};
use super::key::{Mask, factor};
use super::mask::{FEW_RUNS, List, Scratch};
use super::plain::differ;
use crate::early::{Plain, Source};

/// The number of lanes: one for each packet of a batch.
pub const GROUP: usize = BATCH;

/// The number of lanes that are computed together, so that their sums stay in registers.
pub const STRIDE: usize = 16;
const _: () = assert!(GROUP.is_multiple_of(STRIDE));

/// One number for each of the packets that are computed together.
pub type Lanes = [u64; STRIDE];

/// The folded hash of each packet's key.
pub type Sums = [u32; GROUP];

/// One half-word of each packet's key.
pub type Column = [u32; GROUP];

/// One half-word of a mask.
#[derive(Debug, Clone, Copy)]
pub struct Half {
    column: u8,
    bits: u32,
    factor: u32,
}

impl Half {
    /// Returns the half-word with the column it is to be read from.
    pub fn in_column(self, column: usize) -> Self {
        Self {
            column: column as u8,
            ..self
        }
    }

    /// Returns the summand of a half-word of a key, under the mask, in the key's hash.
    #[inline(always)]
    pub fn part(self, masked: u32) -> u64 {
        u64::from(masked) * u64::from(self.factor)
    }

    /// Returns the half-word of the packet in a lane, under the mask.
    #[inline(always)]
    pub fn of(self, columns: &[Column], lane: usize) -> u32 {
        let column = columns.get(usize::from(self.column));
        column.map_or(0, |column| column[lane % GROUP] & self.bits)
    }
}

/// Iterates over the half-words of a mask with their positions in a key.
pub fn halves(mask: &Mask) -> impl Iterator<Item = (u8, Half)> {
    let halves = mask.halves().iter().enumerate();
    halves.map(|(i, &(place, bits))| {
        let (column, factor) = (0, factor(i));
        let half = Half {
            column,
            bits,
            factor,
        };
        (place, half)
    })
}

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
    list.find_group(plain, packets, scratch, guard, found);
}

/// Runs [`List::find_runs`] with the fastest instructions the processor has.
#[inline]
pub fn find_runs<'g>(
    list: &'g List,
    packets: (&impl Source, u64),
    runs: &mut [Option<(u64, &'g Filter)>; FEW_RUNS],
    guard: &'g Guard,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_there() {
        // SAFETY: the processor has the features that the function requires.
        return unsafe { avx2::find_runs(list, packets, runs, guard) };
    }
    list.find_runs(differ, packets, runs, guard)
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

/// Multiplies 32-bit numbers.
pub trait Product: Fn(&Lanes, u32) -> Lanes + Copy {}

impl<F: Fn(&Lanes, u32) -> Lanes + Copy> Product for F {}

#[inline(always)]
fn plain(lanes: &Lanes, factor: u32) -> Lanes {
    lanes.map(|lane| lane * u64::from(factor))
}

/// Returns whether a packet in the `STRIDE` lanes from a lane on has a bit in `wanted`.
#[inline(always)]
pub fn wants(wanted: u64, from: usize) -> bool {
    wanted >> from & ((1 << STRIDE) - 1) != 0
}

/// Computes the folded hashes, under the mask of these half-words, of the keys of packets with a bit in `wanted`. Other
/// lanes get any value.
#[inline(always)]
pub fn sums(
    product: impl Product,
    halves: &[Half],
    columns: &[Column],
    wanted: u64,
    out: &mut Sums,
) {
    for stride in 0..GROUP / STRIDE {
        let from = stride * STRIDE;
        if !wants(wanted, from) {
            continue;
        }
        let mut sums = [0_u64; STRIDE];
        for half in halves {
            let column = columns.get(usize::from(half.column));
            let Some(column) = column.and_then(|column| column[from..].first_chunk::<STRIDE>())
            else {
                continue;
            };
            // The loops are written without closures because the compiler vectorizes them even where it
            // does not inline closures.
            let mut masked = [0; STRIDE];
            for lane in 0..STRIDE {
                masked[lane] = u64::from(column[lane] & half.bits);
            }
            let parts = product(&masked, half.factor);
            for lane in 0..STRIDE {
                sums[lane] = sums[lane].wrapping_add(parts[lane]);
            }
        }
        for lane in 0..STRIDE {
            out[from + lane] = fold(sums[lane]) as u32;
        }
    }
}

/// Prefetches the words of a sieve that [`test`] will read for the packets with a bit in `wanted`,
/// if the sieve is too large for the near caches.
#[inline(always)]
pub fn prefetch(sums: &Sums, wanted: u64, view: View<'_>) {
    if view.is_far() {
        // The position of the word follows from the sum alone.
        set_bits(wanted).for_each(|lane| view.prefetch((sums[lane], 0)));
    }
}

/// Returns a bit for each packet that may have a filter under the mask of the sieve, of those with a bit in `wanted`.
#[inline(always)]
pub fn test(product: impl Product, sums: &Sums, wanted: u64, view: View<'_>) -> u64 {
    let mut pass = 0;
    for stride in 0..GROUP / STRIDE {
        let from = stride * STRIDE;
        if !wants(wanted, from) {
            continue;
        }
        let mut folded = [0; STRIDE];
        for lane in 0..STRIDE {
            folded[lane] = u64::from(sums[from + lane]);
        }
        let mixed = product(&folded, MIX);
        for lane in 0..STRIDE {
            pass |= view.test(spot_of(folded[lane], mixed[lane])) << (from + lane);
        }
    }
    pass & wanted
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
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
        list: &'g List,
        packets: (&impl Source, u64),
        runs: &mut [Option<(u64, &'g Filter)>; FEW_RUNS],
        guard: &'g Guard,
    ) -> bool {
        let differ = |a: &Plain, b: &Plain, bits: &Plain| differ(a, b, bits);
        list.find_runs(differ, packets, runs, guard)
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inner loop of look-ups in batches: the hashes of a group of packets' keys under a mask, side by
//! side, and which of the packets the mask's sieve lets through.
//!
//! Keys lie in columns, half a word of all packets each; a half in which the mask has no bit is not
//! read. The arithmetic is that of [`part`](super::key::part), so the hash is that of the key.
//! Where the processor has AVX2, which is found out when the program runs, four packets share an
//! instruction; the loop is the same.
#![allow(unsafe_code)] // calls functions made for processors with AVX2

use weir_sync::sieve::{MIX, View, fold, spot_of};

use super::key::{Mask, factor};

/// Packets looked up side by side.
pub const GROUP: usize = 32;

/// A number of each packet.
type Lanes = [u64; GROUP];

/// The hash of each packet's key, folded.
pub type Sums = [u32; GROUP];

/// Half a word of each packet's keys.
pub type Column = [u32; GROUP];

/// Half a word of a mask.
#[derive(Debug, Clone, Copy)]
pub struct Half {
    column: u8,
    bits: u32,
    factor: u32,
}

impl Half {
    /// The half, to be read from a column.
    pub fn in_column(self, column: usize) -> Self {
        Self {
            column: column as u8,
            ..self
        }
    }

    /// It of the packet in a lane, under the mask.
    #[inline(always)]
    pub fn of(self, columns: &[Column], lane: usize) -> u32 {
        let column = columns.get(usize::from(self.column));
        column.map_or(0, |column| column[lane % GROUP] & self.bits)
    }
}

/// The halves of a mask with their places in a key.
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

/// Calls a function made for processors with AVX2, or the same without.
macro_rules! by_processor {
    ($function:ident($($argument:expr),*), $plain:ident) => {{
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has what the function is made for.
            return unsafe { avx2::$function($($argument),*) };
        }
        $plain(plain, $($argument),*)
    }};
}

/// The hashes, folded, of the packets' keys under the mask of these halves. Where their sieve is
/// far, asks for what [`pass`] will read of it.
#[inline]
pub fn sums(halves: &[Half], columns: &[Column], view: Option<View<'_>>, sums: &mut Sums) {
    by_processor!(sums(halves, columns, view, sums), sums_by)
}

/// The packets, a bit each, that may have a filter under the mask whose sieve it is.
#[inline]
pub fn pass(sums: &Sums, view: View<'_>) -> u32 {
    by_processor!(pass(sums, view), pass_by)
}

/// Products of numbers of 32 bits.
#[inline(always)]
fn plain(lanes: &Lanes, factor: u32) -> Lanes {
    lanes.map(|lane| lane * u64::from(factor))
}

#[inline(always)]
fn sums_by(
    product: impl Fn(&Lanes, u32) -> Lanes + Copy,
    halves: &[Half],
    columns: &[Column],
    view: Option<View<'_>>,
    out: &mut Sums,
) {
    let mut sums = [0_u64; GROUP];
    for half in halves {
        let Some(column) = columns.get(usize::from(half.column)) else {
            continue;
        };
        // Plain loops: these become vector instructions also where closures are not inlined.
        let mut masked = [0; GROUP];
        for lane in 0..GROUP {
            masked[lane] = u64::from(column[lane] & half.bits);
        }
        let parts = product(&masked, half.factor);
        for lane in 0..GROUP {
            sums[lane] = sums[lane].wrapping_add(parts[lane]);
        }
    }
    for lane in 0..GROUP {
        out[lane] = fold(sums[lane]) as u32;
    }
    if let Some(view) = view.filter(View::is_far) {
        // The word's place is in the sum itself.
        out.iter().for_each(|&sum| view.prefetch((sum, 0)));
    }
}

#[inline(always)]
fn pass_by(product: impl Fn(&Lanes, u32) -> Lanes + Copy, sums: &Sums, view: View<'_>) -> u32 {
    let mut folded = [0; GROUP];
    for lane in 0..GROUP {
        folded[lane] = u64::from(sums[lane]);
    }
    let mixed = product(&folded, MIX);
    let mut pass = 0;
    for lane in 0..GROUP {
        pass |= (view.test(spot_of(folded[lane], mixed[lane])) as u32) << lane;
    }
    pass
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,bmi2")]
    pub fn sums(halves: &[Half], columns: &[Column], view: Option<View<'_>>, sums: &mut Sums) {
        sums_by(
            |lanes, factor| product(lanes, factor),
            halves,
            columns,
            view,
            sums,
        )
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub fn pass(sums: &Sums, view: View<'_>) -> u32 {
        pass_by(|lanes, factor| product(lanes, factor), sums, view)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn product(lanes: &Lanes, factor: u32) -> Lanes {
        let mut out = [0; GROUP];
        let factor = _mm256_set1_epi64x(i64::from(factor));
        for (to, from) in out.chunks_exact_mut(4).zip(lanes.chunks_exact(4)) {
            // SAFETY: both pieces are four numbers of 64 bits, which need not be aligned.
            unsafe {
                let from = _mm256_loadu_si256(from.as_ptr().cast());
                let product = _mm256_mul_epu32(from, factor);
                _mm256_storeu_si256(to.as_mut_ptr().cast(), product);
            }
        }
        out
    }
}

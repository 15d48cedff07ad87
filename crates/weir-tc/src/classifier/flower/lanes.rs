// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inner loop of batched lookups: computes the hashes of a group of packets' keys under a mask
//! in parallel lanes, and tests which packets pass the mask's sieve.
//!
//! Keys are stored in columns; a column holds one half-word of all packets. Half-words in which the
//! mask has no bits are not read. The arithmetic is that of [`part`](super::key::part), so the hash
//! equals that of the key. The caller says how lanes are multiplied.

use weir_packet::batch::BATCH;
use weir_sync::bits::set_bits;
use weir_sync::sieve::{MIX, View, fold, spot_of};

use super::key::{Mask, factor};

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

/// Multiplies 32-bit numbers.
pub trait Product: Fn(&Lanes, u32) -> Lanes + Copy {}

impl<F: Fn(&Lanes, u32) -> Lanes + Copy> Product for F {}

/// Multiplies each lane, with the instructions that every processor has.
#[inline(always)]
pub fn product(lanes: &Lanes, factor: u32) -> Lanes {
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

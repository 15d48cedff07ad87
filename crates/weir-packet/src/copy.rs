// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies received frames into buffers.
//!
//! Short frames, which are the most frequent, take one or two pairs of loads and stores of a fixed size. Long ones are
//! copied line by line while what follows them in memory is prefetched: in a ring or a capture that is the next frame,
//! which no cache holds yet.
#![allow(unsafe_code)] // raw targets, and functions compiled for AVX

use std::ptr::NonNull;

use weir_sync::primitive::prefetch;

/// The size of a line, in bytes.
const LINE: usize = 64;
/// How far ahead of a copied line another one is prefetched, in bytes. Half and twice as far cost as much.
const AHEAD: usize = 1024;

/// Copies a frame of any length.
///
/// # Safety
/// `to` is valid for writes of `frame.len()` bytes, and does not overlap the frame.
#[inline(always)]
pub(crate) unsafe fn copy(frame: &[u8], to: NonNull<u8>) {
    // SAFETY: by contract, and the lengths are those that the functions take.
    unsafe {
        match frame.len() {
            0..32 => std::ptr::copy_nonoverlapping(frame.as_ptr(), to.as_ptr(), frame.len()),
            32..=64 => copy_ends::<32>(frame, to),
            65..=128 => copy_ends::<64>(frame, to),
            _ => copy_long(frame, to),
        }
    }
}

/// Copies `N` bytes from the start and from the end. The two ranges may overlap.
///
/// # Safety
/// As for [`copy`]; there are `N` to `2 * N` bytes.
#[inline(always)]
pub(crate) unsafe fn copy_ends<const N: usize>(frame: &[u8], to: NonNull<u8>) {
    let (from, last) = (frame.as_ptr(), frame.len() - N);
    // SAFETY: both ranges lie inside the frame and the target.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to.as_ptr(), N);
        std::ptr::copy_nonoverlapping(from.add(last), to.add(last).as_ptr(), N);
    }
}

/// Copies a frame of at least a line.
///
/// # Safety
/// As for [`copy`]; there are at least 64 bytes.
#[inline(always)]
unsafe fn copy_long(frame: &[u8], to: NonNull<u8>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: by contract, and the processor has the feature.
        return unsafe { copy_long_avx(frame, to) };
    }
    // SAFETY: by contract.
    unsafe { copy_lines(frame, to) };
}

/// Runs [`copy_lines`] with registers of half a line.
///
/// # Safety
/// As for [`copy_long`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx")]
unsafe fn copy_long_avx(frame: &[u8], to: NonNull<u8>) {
    // SAFETY: by contract.
    unsafe { copy_lines(frame, to) };
}

/// Copies line by line. The last line may overlap the one before.
///
/// # Safety
/// As for [`copy_long`].
#[inline(always)]
unsafe fn copy_lines(frame: &[u8], to: NonNull<u8>) {
    let (from, last) = (frame.as_ptr(), frame.len() - LINE);
    let line = |at: usize| {
        // SAFETY: the line lies inside the frame and the target, as `at` is no greater than `last`.
        unsafe {
            let bytes = from.add(at).cast::<[u8; LINE]>().read_unaligned();
            to.add(at).cast().write_unaligned(bytes);
        }
    };
    for at in (0..last).step_by(LINE) {
        prefetch(from.wrapping_add(at + AHEAD));
        line(at);
    }
    line(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length from every alignment arrives whole, and nothing beside it is written.
    #[test]
    fn all_lengths_arrive_whole() {
        let bytes: Vec<u8> = (0..4096_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        type Function = unsafe fn(&[u8], NonNull<u8>);
        let check = |function: Function, len: usize, shift: usize| {
            let frame = &bytes[shift..shift + len];
            let mut target = vec![0xa5_u8; 8 + len + 8];
            let to = NonNull::from(&mut target[8..]).cast();
            // SAFETY: there is room for the frame, which is as long as the functions require.
            unsafe { function(frame, to) };
            assert_eq!(&target[8..8 + len], frame, "{len} bytes");
            assert!(
                target[..8]
                    .iter()
                    .chain(&target[8 + len..])
                    .all(|byte| *byte == 0xa5)
            );
        };
        let longest = if cfg!(miri) { 200 } else { 2000 };
        for len in 0..longest {
            for shift in [0, 1, 31] {
                check(copy, len, shift);
                if len >= LINE {
                    // The way of processors without AVX.
                    check(copy_lines, len, shift);
                }
            }
        }
    }
}

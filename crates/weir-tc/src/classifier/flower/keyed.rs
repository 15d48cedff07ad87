// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter's handle, mask and key in as little memory as possible. A filter with its actions fills
//! one cache line, so a matching packet reads one line of it. A filter also has the size of its
//! action, and the allocator usually places them next to each other.
//!
//! The mask determines the number of half-words of the key, so that number is not stored. Up to
//! three half-words are stored inline, more in a separate allocation.
#![allow(unsafe_code)] // a long key is stored behind a pointer in place of the inline half-words

use std::fmt;
use std::ptr;
use std::slice;
use std::sync::Arc;

use weir_sync::primitive::prefetch;

use super::key::Packed;
use super::mask::UnderMask;

/// The number of half-words of a key stored inline.
pub const WITHIN: usize = 3;

/// The half-words, or a pointer to them.
#[derive(Clone, Copy)]
#[repr(C)]
union Halves {
    within: [u32; WITHIN],
    beyond: Beyond,
}

/// A pointer with an alignment of four bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Beyond(*mut u32);

/// A filter's handle, mask and key; see the module's documentation.
pub struct Keyed {
    under: Arc<UnderMask>,
    /// The handle in the instance.
    pub handle: u32,
    halves: Halves,
}

const _: () = assert!(size_of::<Keyed>() <= 24);

// SAFETY: the pointer's target is owned and consists of integers.
unsafe impl Send for Keyed {}
// SAFETY: as above, and nobody writes to the target.
unsafe impl Sync for Keyed {}

impl Keyed {
    /// Creates a filter's key under a mask.
    ///
    /// # Panics
    /// If the key was packed under another mask, with another number of half-words.
    pub fn new(handle: u32, under: Arc<UnderMask>, packed: &Packed) -> Self {
        assert_eq!(
            packed.len(),
            under.mask.width,
            "the key was packed under another mask"
        );
        let halves = if packed.len() <= WITHIN {
            let mut within = [0; WITHIN];
            within[..packed.len()].copy_from_slice(packed);
            Halves { within }
        } else {
            let halves: Box<[u32]> = (**packed).into();
            Halves {
                beyond: Beyond(Box::into_raw(halves).cast()),
            }
        };
        Self {
            under,
            handle,
            halves,
        }
    }

    /// Returns the mask with its filters.
    #[inline]
    pub fn under(&self) -> &Arc<UnderMask> {
        &self.under
    }

    /// Returns the half-words stored inline, padded with zeros, or `None` if the key has more.
    #[inline(always)]
    pub fn within(&self) -> Option<[u32; WITHIN]> {
        if self.under.mask.width > WITHIN {
            return None;
        }
        // SAFETY: `new` initialized all of these, because the mask, which never changes, has at
        // most this width.
        Some(unsafe { self.halves.within })
    }

    /// Prefetches a key that is not stored inline.
    #[inline]
    pub fn prefetch(&self) {
        if self.under.mask.width > WITHIN {
            prefetch(self.packed().as_ptr());
        }
    }

    /// Returns the key under the mask.
    #[inline]
    pub fn packed(&self) -> &[u32] {
        let width = self.under.mask.width;
        if width <= WITHIN {
            // SAFETY: as in `within`.
            let within = unsafe { &self.halves.within };
            &within[..width]
        } else {
            // SAFETY: for a wider mask `new` set the pointer. It points to `width` integers that
            // live as long as `self`.
            unsafe { slice::from_raw_parts(self.halves.beyond.0, width) }
        }
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        let width = self.under.mask.width;
        if width > WITHIN {
            // SAFETY: `new` got the pointer from a box of `width` integers, and `self` is its only
            // owner.
            drop(unsafe {
                Box::from_raw(ptr::slice_from_raw_parts_mut(self.halves.beyond.0, width))
            });
        }
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flower handle {:#x}", self.handle)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter's handle, mask and key, as small as can be: with its actions a filter fills one cache line, so
//! a packet that matches reads one line of it, and it stands beside its action, which is as large.
//!
//! How many halves a key has its mask says, so none of that is kept with it; up to three lie here, more in
//! memory of their own.
#![allow(unsafe_code)] // a key that is not here is behind a pointer in the halves' place

use std::fmt;
use std::ptr;
use std::slice;
use std::sync::Arc;

use super::key::Packed;
use super::mask::UnderMask;

/// Halves of a key that lie in a filter.
pub const WITHIN: usize = 3;

/// Halves, or where they are.
#[derive(Clone, Copy)]
#[repr(C)]
union Halves {
    within: [u32; WITHIN],
    beyond: Beyond,
}

/// A pointer that is aligned to four octets.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Beyond(*mut u32);

/// See the module's head.
pub struct Keyed {
    under: Arc<UnderMask>,
    /// Handle in the instance.
    pub handle: u32,
    halves: Halves,
}

const _: () = assert!(size_of::<Keyed>() <= 24);

// SAFETY: what the pointer leads to is owned, and numbers.
unsafe impl Send for Keyed {}
// SAFETY: as above, and nobody writes to it.
unsafe impl Sync for Keyed {}

impl Keyed {
    /// A key under a mask.
    ///
    /// # Panics
    /// If it was packed under another, with another number of halves.
    pub fn new(handle: u32, under: Arc<UnderMask>, packed: &Packed) -> Self {
        assert_eq!(packed.len(), under.mask.width, "a key of another mask");
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

    /// The mask, with the filters under it.
    #[inline]
    pub fn under(&self) -> &Arc<UnderMask> {
        &self.under
    }

    /// The halves that lie here, zeros behind them, where the key has no more.
    #[inline(always)]
    pub fn within(&self) -> Option<[u32; WITHIN]> {
        if self.under.mask.width > WITHIN {
            return None;
        }
        // SAFETY: `new` wrote these, for the mask, which never changes, is as wide; all are written.
        Some(unsafe { self.halves.within })
    }

    /// The key under the mask.
    #[inline]
    pub fn packed(&self) -> &[u32] {
        let width = self.under.mask.width;
        if width <= WITHIN {
            // SAFETY: as above.
            let within = unsafe { &self.halves.within };
            &within[..width]
        } else {
            // SAFETY: for a wider mask `new` wrote this; it leads to as many numbers, which are there as long as this.
            unsafe { slice::from_raw_parts(self.halves.beyond.0, width) }
        }
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        let width = self.under.mask.width;
        if width > WITHIN {
            // SAFETY: made by `new` from a box of as many; nobody else has it.
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

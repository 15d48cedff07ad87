// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference bytes: how often a slot's entry was used, and whose node it has.
//!
//! The lower bits count uses up to the policy's largest count. The bits above them have the number of the slot's
//! owner if all owners fit: it lies in the entry's cache line then. An owner is written under the lock of the slot's bucket.
//! Uses are counted by anybody at any time, so they are changed by compare-and-swap where the byte has an owner;
//! elsewhere a lost count does not matter, and a store does.

use weir_sync::primitive::atomic::{AtomicU8, Ordering};

/// The layout of a map's reference bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    most: u8,
    shift: u32,
    has_owner: bool,
}

impl Marks {
    /// Returns the layout for uses up to `most`, and for `owners` owners.
    pub(crate) fn new(most: u8, owners: usize) -> Self {
        let shift = u8::BITS - most.leading_zeros();
        Self {
            most,
            shift,
            has_owner: owners > 1 && owners <= 1 << (u8::BITS - shift),
        }
    }

    /// Whether uses are counted: exact lists are not kept by them.
    #[inline(always)]
    pub(crate) fn counts(self) -> bool {
        self.most > 0
    }

    /// Whether the bytes have owners.
    #[inline(always)]
    pub(crate) fn has_owner(self) -> bool {
        self.has_owner
    }

    #[inline(always)]
    fn mask(self) -> u8 {
        ((1u32 << self.shift) - 1) as u8
    }

    /// Returns the number of uses.
    #[inline(always)]
    pub(crate) fn uses(self, byte: &AtomicU8) -> u8 {
        byte.load(Ordering::Relaxed) & self.mask()
    }

    /// Counts a use, unless there are as many as can be counted.
    #[inline(always)]
    pub(crate) fn mark(self, byte: &AtomicU8) {
        let old = byte.load(Ordering::Relaxed);
        if old & self.mask() < self.most {
            self.store(byte, old, old + 1);
        }
    }

    /// Sets the number of uses.
    #[inline(always)]
    pub(crate) fn set(self, byte: &AtomicU8, uses: u8) {
        let old = byte.load(Ordering::Relaxed);
        self.store(byte, old, old & !self.mask() | uses);
    }

    #[inline(always)]
    fn store(self, byte: &AtomicU8, old: u8, new: u8) {
        let relaxed = Ordering::Relaxed;
        if self.has_owner {
            // If another use comes first, or another entry, this one is not counted.
            let _ = byte.compare_exchange(old, new, relaxed, relaxed);
        } else {
            byte.store(new, relaxed);
        }
    }

    /// Returns the owner. The caller holds the lock of the slot's bucket or compares its version.
    #[inline(always)]
    pub(crate) fn owner(self, byte: &AtomicU8) -> usize {
        usize::from(byte.load(Ordering::Relaxed) >> self.shift)
    }

    /// Sets the owner. The caller holds the lock of the slot's bucket.
    #[inline(always)]
    pub(crate) fn set_owner(self, byte: &AtomicU8, owner: usize) {
        let uses = self.uses(byte);
        byte.store((owner << self.shift) as u8 | uses, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn uses_and_owners_do_not_touch_each_other() {
        for (most, owners) in [(1, 128), (31, 8), (1, 2), (31, 9), (1, 1)] {
            let marks = Marks::new(most, owners);
            assert_eq!(marks.has_owner(), owners > 1 && owners != 9);
            let byte = AtomicU8::new(0);
            for owner in (0..owners).filter(|_| marks.has_owner()) {
                marks.set(&byte, 0);
                marks.set_owner(&byte, owner);
                for used in 1..=most + 3 {
                    marks.mark(&byte);
                    assert_eq!(marks.uses(&byte), used.min(most));
                    assert_eq!(marks.owner(&byte), owner);
                }
                marks.set(&byte, most / 2);
                assert_eq!((marks.uses(&byte), marks.owner(&byte)), (most / 2, owner));
            }
        }
    }
}

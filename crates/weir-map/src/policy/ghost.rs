// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of the keys that were evicted last, as 16 bits of their hashes.
//!
//! A word has the fingerprint in its lower half and the time of eviction in its upper one, in steps
//! of a 64th of the set's size. Four words share a place. A key that finds its place full replaces
//! the oldest one, so the set forgets a few keys early. A fingerprint is wrong for one key in 16,000.

use crate::Error;
use crate::memory::Words;
use weir_sync::primitive::atomic::{AtomicU32, Ordering};
use weir_sync::primitive::prefetch_to_write;

const WAYS: usize = 4;
/// Steps after which a key is forgotten.
const AGE: u16 = 64;

pub(crate) struct Ghost {
    words: Words<AtomicU32>,
    places: u32,
    /// Evictions in a step.
    step: u32,
    count: u32,
    now: u16,
    /// Insertions that are left until the set was filled once.
    left: u32,
}

impl Ghost {
    /// Creates a set of the last `keys` keys.
    pub(super) fn new(keys: u32) -> Result<Self, Error> {
        let places = (keys as usize).div_ceil(WAYS).max(1);
        Ok(Self {
            words: Words::new(places * WAYS)?,
            places: places as u32,
            step: (keys / u32::from(AGE)).max(1),
            count: 0,
            now: AGE + 1,
            left: keys,
        })
    }

    /// Whether as many keys were inserted as the set may hold.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    pub(super) fn bytes(&self) -> usize {
        4 * self.words.len()
    }

    #[inline(always)]
    fn place(&self, id: u32) -> usize {
        let spread = u64::from(id.wrapping_mul(0x9e37_79b1));
        ((spread * u64::from(self.places)) >> 32) as usize * WAYS
    }

    #[inline(always)]
    fn print(id: u32) -> u32 {
        id & 0xffff | 1
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        prefetch_to_write(core::ptr::from_ref(self.words.at(self.place(id))));
    }

    /// Adds a key.
    #[inline(always)]
    pub(super) fn insert(&mut self, id: u32) {
        self.left = self.left.saturating_sub(1);
        self.count += 1;
        if self.count == self.step {
            self.count = 0;
            self.now = self.now.wrapping_add(1);
        }
        let (first, print) = (self.place(id), Self::print(id));
        let (mut at, mut oldest) = (first, 0);
        for way in first..first + WAYS {
            let word = self.words.at(way).load(Ordering::Relaxed);
            if word == 0 || word & 0xffff == print {
                at = way;
                break;
            }
            let age = self.now.wrapping_sub((word >> 16) as u16);
            if age >= oldest {
                (at, oldest) = (way, age);
            }
        }
        self.words
            .at(at)
            .store(u32::from(self.now) << 16 | print, Ordering::Relaxed);
    }

    /// Removes a key, and returns whether it was there.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let (first, print) = (self.place(id), Self::print(id));
        for way in first..first + WAYS {
            let word = self.words.at(way).load(Ordering::Relaxed);
            if word & 0xffff == print {
                self.words.at(way).store(0, Ordering::Relaxed);
                return self.now.wrapping_sub((word >> 16) as u16) <= AGE;
            }
        }
        false
    }
}

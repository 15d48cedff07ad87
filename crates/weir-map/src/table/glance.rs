// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Look-ups of keys that are where most are: at the first slot with their tag in their home bucket, or in the bucket
//! behind it. They find nothing wrong. What they miss, [`Table::search`] decides.

use super::buckets::Bucket;
use super::{LIVE, LOCK, LOW, Table, kind_of};
use crate::shape::{Shape, hash, set_word, word};
use weir_sync::primitive::atomic::{AtomicU8, Ordering, fence};
use weir_sync::primitive::prefetch;

/// A bucket and the tag of a key in each byte.
#[derive(Clone, Copy)]
pub(crate) struct Aim<'a> {
    bucket: Bucket<'a>,
    tags: u32,
}

impl<S: Shape> Table<S> {
    /// Returns the home bucket of a hash.
    #[inline(always)]
    pub(crate) fn aim(&self, hash: u64) -> Aim<'_> {
        self.aim_at(self.home(hash), hash)
    }

    #[inline(always)]
    fn aim_at(&self, bucket: usize, hash: u64) -> Aim<'_> {
        Aim {
            bucket: self.buckets.bucket(self.stride(), bucket),
            tags: LOW * (hash as u8 as u32),
        }
    }

    /// Looks for a key at the first slot with its tag in a bucket. Copies its value to `value`, whose bytes are of no use
    /// without a result, and returns the entry's reference byte.
    #[inline(always)]
    pub(crate) fn glance<'a>(
        &self,
        aim: Aim<'a>,
        key: &[u8],
        value: &mut [u8],
    ) -> Option<&'a AtomicU8> {
        let Aim { bucket, tags } = aim;
        let control = bucket.control().load(Ordering::Acquire);
        let differ = bucket.tags().load(Ordering::Relaxed) ^ tags;
        let candidates = differ.wrapping_sub(LOW) & !differ & control as u32 & LIVE;
        if candidates == 0 {
            return None;
        }
        let slot = (candidates.trailing_zeros() / 8) as usize;
        let words = self.key_words();
        for index in 0..words {
            let at = bucket.word(slot * words + index);
            if at.load(Ordering::Relaxed) != word(key, index) {
                return None;
            }
        }
        let first = self.value_word(slot);
        #[cfg(not(loom))]
        if self.doubles() {
            for index in 0..value.len().div_ceil(8) {
                let double = bucket.double(first + 2 * index).load(Ordering::Relaxed);
                let rest = &mut value[8 * index..];
                let len = rest.len().min(8);
                rest[..len].copy_from_slice(&double.to_ne_bytes()[..len]);
            }
        }
        if cfg!(loom) || !self.doubles() {
            for index in 0..value.len().div_ceil(4) {
                set_word(
                    value,
                    index,
                    bucket.word(first + index).load(Ordering::Relaxed),
                );
            }
        }
        fence(Ordering::Acquire);
        // The word has no lock bit, so one comparison tells a lock and a change.
        let same = bucket.control().load(Ordering::Relaxed) == control & !LOCK;
        same.then(|| bucket.reference(slot))
    }

    /// Looks for a key in the bucket behind its home bucket, if the home bucket knows of such keys.
    #[inline(always)]
    pub(crate) fn glance_beyond(&self, key: &[u8], value: &mut [u8]) -> Option<&AtomicU8> {
        let hash = hash(key);
        let home = self.home(hash);
        let control = self.control(home).load(Ordering::Relaxed);
        if control & kind_of(hash) == 0 {
            return None;
        }
        self.glance(self.aim_at(self.next(home), hash), key, value)
    }
}

impl Aim<'_> {
    /// Prefetches the bucket.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.bucket.address());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter in front of the local table: it tells for nearly every address of another host that the
//! table has no prefix for it, from two words that stay in the cache.
//!
//! Linux merges the local and the main table as long as no rule separates them, and so looks up a
//! forwarded packet once. Here the tables stay apart, and the filter saves the second look-up. It
//! knows an address in full by a bit of its hash, and any shorter prefix by the first octets it
//! covers. It may say "perhaps" for an address without a prefix, and never the opposite.

use super::lpm::Key;
use weir_sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of words for hashes of addresses.
const WORDS: usize = 16;

/// See the module documentation. The writers of the table change it under the table's lock.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Bit n stands for the prefixes that cover addresses with the first octet n and are shorter
    /// than an address.
    octets: [AtomicU64; 4],
    /// Bits of the hashes of addresses.
    addresses: [AtomicU64; WORDS],
    /// The number of prefixes removed since the last rebuild.
    removed: AtomicUsize,
}

/// The same as plain words, to build a filter from.
#[derive(Debug, Default)]
pub(super) struct Words {
    octets: [u64; 4],
    addresses: [u64; WORDS],
}

/// Returns the word and the bit of an address.
#[inline]
fn place<K: Key>(key: K) -> (usize, u64) {
    let hash = key.folded().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    ((hash >> 6) as usize % WORDS, 1 << (hash & 63))
}

impl Words {
    /// Adds a prefix.
    pub(super) fn add<K: Key>(&mut self, key: K, len: u8) {
        if len == K::BITS {
            let (word, bit) = place(key);
            self.addresses[word] |= bit;
            return;
        }
        let first = key.masked(len).leading(8);
        let last = key.filled(len).leading(8);
        for octet in first..=last {
            self.octets[octet >> 6] |= 1 << (octet & 63);
        }
    }
}

impl Filter {
    /// Returns whether the table may have a prefix for an address.
    #[inline]
    pub(super) fn may_cover<K: Key>(&self, key: K) -> bool {
        let octet = key.leading(8);
        let (word, bit) = place(key);
        let shorter = self.octets[octet >> 6 & 3].load(Relaxed) >> (octet & 63) & 1;
        shorter != 0 || self.addresses[word].load(Relaxed) & bit != 0
    }

    /// Adds a prefix, before the table gets it.
    pub(super) fn add<K: Key>(&self, key: K, len: u8) {
        let mut words = Words::default();
        words.add(key, len);
        for (word, bits) in self.words().zip(words.all()) {
            if bits != 0 {
                word.fetch_or(bits, Relaxed);
            }
        }
    }

    /// Counts a removed prefix. Returns whether the filter is to be rebuilt for a table of `len`
    /// prefixes.
    pub(super) fn removed(&self, len: usize) -> bool {
        self.removed.fetch_add(1, Relaxed) >= len / 2
    }

    /// Replaces the contents. The new words must have the bits of every prefix of the table.
    pub(super) fn rebuild(&self, words: &Words) {
        for (word, bits) in self.words().zip(words.all()) {
            word.store(bits, Relaxed);
        }
        self.removed.store(0, Relaxed);
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        self.octets.iter().chain(&self.addresses)
    }
}

impl Words {
    fn all(&self) -> impl Iterator<Item = u64> {
        self.octets.iter().chain(&self.addresses).copied()
    }
}

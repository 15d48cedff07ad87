// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter in front of the local table: it tells for nearly every address of another host that the
//! table has no prefix for it, from two words that stay in the cache. A table of few prefixes, which nearly every
//! namespace has, makes do with a few words.
//!
//! Linux merges the local and the main table as long as no rule separates them, and so looks up a
//! forwarded packet once. Here the tables stay apart, and the filter saves the second look-up. It
//! knows an address in full by a bit of its hash, and any shorter prefix by the first octets it
//! covers. It may say "perhaps" for an address without a prefix, and never the opposite.

use super::lpm::Key;
use weir_sync::once_box::OnceBox;
use weir_sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of words for hashes of addresses, and that of a table of few prefixes.
const WORDS: usize = 16;
const FEW_WORDS: usize = 2;

/// The number of prefixes from which on a table has all words.
const FEW: usize = 8;

/// See the module documentation. The writers of the table change it under the table's lock.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Bit n stands for the prefixes that cover addresses with the first octet n and are shorter
    /// than an address.
    octets: [AtomicU64; 4],
    /// Bits of the hashes of addresses, while there are few prefixes.
    few: [AtomicU64; FEW_WORDS],
    /// The same from then on.
    many: OnceBox<[AtomicU64; WORDS]>,
    /// The number of prefixes removed since the last rebuild.
    removed: AtomicUsize,
}

/// The same as plain words, to build a filter from.
#[derive(Debug, Default)]
pub(super) struct Words {
    octets: [u64; 4],
    addresses: [u64; WORDS],
}

/// Returns the word among so many, a power of two, and the bit of an address.
#[inline]
fn place<K: Key>(key: K, words: usize) -> (usize, u64) {
    let hash = key.folded().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    ((hash >> 6) as usize & (words - 1), 1 << (hash & 63))
}

/// Calls `add` with the word and the bit of each first octet that a prefix shorter than an address covers.
fn each_octet<K: Key>(key: K, len: u8, mut add: impl FnMut(usize, u64)) {
    let first = key.masked(len).leading(8);
    let last = key.filled(len).leading(8);
    for octet in first..=last {
        add(octet >> 6, 1 << (octet & 63));
    }
}

impl Words {
    /// Adds a prefix.
    pub(super) fn add<K: Key>(&mut self, key: K, len: u8) {
        if len == K::BITS {
            let (word, bit) = place(key, WORDS);
            self.addresses[word] |= bit;
        } else {
            each_octet(key, len, |word, bit| self.octets[word] |= bit);
        }
    }
}

impl Filter {
    /// Returns the words for hashes of addresses.
    #[inline]
    fn addresses(&self) -> &[AtomicU64] {
        match self.many.get() {
            Some(many) => many,
            None => &self.few,
        }
    }

    /// Returns whether the table may have a prefix for an address.
    #[inline]
    pub(super) fn may_cover<K: Key>(&self, key: K) -> bool {
        let octet = key.leading(8);
        let addresses = self.addresses();
        let (word, bit) = place(key, addresses.len());
        let shorter = self.octets[octet >> 6 & 3].load(Relaxed) >> (octet & 63) & 1;
        shorter != 0 || addresses[word].load(Relaxed) & bit != 0
    }

    /// Adds a prefix, before the table gets it.
    pub(super) fn add<K: Key>(&self, key: K, len: u8) {
        if len == K::BITS {
            let addresses = self.addresses();
            let (word, bit) = place(key, addresses.len());
            addresses[word].fetch_or(bit, Relaxed);
        } else {
            each_octet(key, len, |word, bit| {
                self.octets[word].fetch_or(bit, Relaxed);
            });
        }
    }

    /// Returns whether the filter has to [`grow`](Self::grow) for a table of `len` prefixes.
    pub(super) fn is_small_for(&self, len: usize) -> bool {
        len >= FEW && self.many.get().is_none()
    }

    /// Takes all words into use. `words` must have the bits of every prefix of the table.
    pub(super) fn grow(&self, words: &Words) {
        self.many
            .get_or_make(|| words.addresses.map(AtomicU64::new));
    }

    /// Counts a removed prefix. Returns whether the filter is to be rebuilt for a table of `len`
    /// prefixes.
    pub(super) fn removed(&self, len: usize) -> bool {
        self.removed.fetch_add(1, Relaxed) >= len / 2
    }

    /// Replaces the contents. The new words must have the bits of every prefix of the table.
    pub(super) fn rebuild(&self, words: &Words) {
        for (word, bits) in self.octets.iter().zip(words.octets) {
            word.store(bits, Relaxed);
        }
        let addresses = self.addresses();
        for (at, word) in addresses.iter().enumerate() {
            let folded = words.addresses.iter().skip(at).step_by(addresses.len());
            word.store(folded.fold(0, |all, bits| all | bits), Relaxed);
        }
        self.removed.store(0, Relaxed);
    }
}

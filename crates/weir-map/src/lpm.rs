// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lpm_trie`: the value of the longest prefix that matches.
//!
//! A key is a prefix length in bits (32 bits in the machine's byte order) and data in network order.
//! The prefixes lie in a hash map; a count for each length says which lengths to try, from the
//! longest down. So a look-up costs one search for each length in use, and takes no lock.
//! Keys that an iteration returns have zeroes after the prefix; Linux keeps what the update had there.

use crate::hash::Hash;
use crate::shape::{Sizes, word};
use crate::table::MAX_KEY;
use crate::{Error, Update};
use weir_sync::primitive::atomic::{AtomicU32, Ordering};

/// The bytes of the prefix length in front of a key's data.
const LEN: usize = 4;
/// The largest data of a key in bytes (`LPM_DATA_SIZE_MAX`).
const MAX_DATA: usize = 256;

/// A trie.
pub(crate) struct Lpm {
    prefixes: Hash<Sizes>,
    /// For each length the number of prefixes, and of insertions under way.
    lengths: Box<[AtomicU32]>,
}

impl Lpm {
    pub(crate) fn new(sizes: Sizes, max_entries: u32) -> Result<Self, Error> {
        if sizes.key <= LEN || sizes.key > LEN + MAX_DATA {
            return Err(Error::Inval);
        }
        let bits = 8 * (sizes.key - LEN);
        Ok(Self {
            prefixes: Hash::new(sizes, max_entries)?,
            lengths: (0..=bits).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// The prefixes, for iteration.
    pub(crate) fn prefixes(&self) -> &Hash<Sizes> {
        &self.prefixes
    }

    /// Returns a key's length, if it is not too long.
    fn length(&self, key: &[u8]) -> Option<usize> {
        let length = word(key, 0) as usize;
        (length < self.lengths.len()).then_some(length)
    }

    /// Returns the first `length` bits of a key as a prefix.
    fn prefix(key: &[u8], length: usize) -> ([u8; MAX_KEY], usize) {
        let mut prefix = [0; MAX_KEY];
        prefix[..LEN].copy_from_slice(&(length as u32).to_ne_bytes());
        let (whole, rest) = (length / 8, length % 8);
        prefix[LEN..LEN + whole].copy_from_slice(&key[LEN..LEN + whole]);
        if rest > 0 {
            prefix[LEN + whole] = key[LEN + whole] & !(0xff >> rest);
        }
        (prefix, key.len())
    }

    pub(crate) fn look_up(&self, key: &[u8], mut read: impl FnMut(u32)) -> bool {
        let Some(longest) = self.length(key) else {
            return false;
        };
        (0..=longest).rev().any(|length| {
            self.lengths[length].load(Ordering::Acquire) > 0 && {
                let (prefix, size) = Self::prefix(key, length);
                self.prefixes.look_up(&prefix[..size], &mut read)
            }
        })
    }

    pub(crate) fn update(&self, key: &[u8], value: &[u8], mode: Update) -> Result<(), Error> {
        let length = self.length(key).ok_or(Error::Inval)?;
        let (prefix, size) = Self::prefix(key, length);
        let prefix = &prefix[..size];
        if mode != Update::NoExist {
            let changed = self
                .prefixes
                .update(prefix, Update::Exist, |slot| slot.write(value));
            if changed.is_ok() || mode == Update::Exist {
                return changed;
            }
        }
        // Counted first, so that a look-up that could see the prefix searches its length.
        self.lengths[length].fetch_add(1, Ordering::AcqRel);
        let inserted = self
            .prefixes
            .update(prefix, Update::NoExist, |slot| slot.write(value));
        if inserted.is_err() {
            self.lengths[length].fetch_sub(1, Ordering::AcqRel);
        }
        match inserted {
            Err(Error::TooBig) => Err(Error::NoSpc),
            // Another thread inserted it meanwhile, so this update is the one that was replaced.
            Err(Error::Exist) if mode == Update::Any => Ok(()),
            other => other,
        }
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), Error> {
        let length = self.length(key).ok_or(Error::Inval)?;
        let (prefix, size) = Self::prefix(key, length);
        if !self.prefixes.remove(&prefix[..size], |_| ()) {
            return Err(Error::NoEnt);
        }
        self.lengths[length].fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }
}

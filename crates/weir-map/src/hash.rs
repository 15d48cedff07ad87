// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The map that does not evict: `hash`.

use crate::shape::{Shape, hash};
use crate::table::{Placed, Slot, Table};
use crate::{Error, Update};
use weir_sync::primitive::CachePadded;
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, Ordering};

/// The core of a hash map with at most `max_entries` entries.
pub(crate) struct Hash<S> {
    table: Table<S>,
    max_entries: u32,
    /// Entries, and insertions under way.
    len: CachePadded<AtomicU32>,
}

impl<S: Shape> Hash<S> {
    pub(crate) fn new(shape: S, max_entries: u32) -> Result<Self, Error> {
        Ok(Self {
            table: Table::new(shape, max_entries)?,
            max_entries,
            len: CachePadded(AtomicU32::new(0)),
        })
    }

    pub(crate) fn table(&self) -> &Table<S> {
        &self.table
    }

    pub(crate) fn max_entries(&self) -> u32 {
        self.max_entries
    }

    #[inline(always)]
    pub(crate) fn look_up(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        self.table.search(hash(key), key, read).is_some()
    }

    /// Whether a look-up need not do more than [`Hash::mark`].
    #[allow(clippy::unused_self, reason = "as of a map that evicts")]
    pub(crate) fn is_plain(&self) -> bool {
        true
    }

    /// Marks an entry as used.
    #[inline(always)]
    #[allow(clippy::unused_self, reason = "as of a map that evicts")]
    pub(crate) fn mark(&self, _: &AtomicU8) {}

    /// Whether an entry in a slot can be found.
    #[allow(clippy::unused_self, reason = "as of a map whose entries expire")]
    pub(crate) fn is_present(&self, _: u32) -> bool {
        true
    }

    #[inline(always)]
    pub(crate) fn update(
        &self,
        key: &[u8],
        mode: Update,
        value: impl Fn(Slot<'_, S>),
    ) -> Result<(), Error> {
        let hash = hash(key);
        if self.table.search(hash, key, |_| ()).is_some() || mode == Update::Exist {
            match self.table.upsert(hash, key, mode, false, &value)? {
                Placed::Changed(_) => return Ok(()),
                _ if mode == Update::Exist => return Err(Error::NoEnt),
                _ => {}
            }
        }
        if self.len.fetch_add(1, Ordering::Relaxed) >= self.max_entries {
            self.len.fetch_sub(1, Ordering::Relaxed);
            // Another thread may have inserted the key since the search.
            return match self.table.upsert(hash, key, mode, false, &value)? {
                Placed::Changed(_) => Ok(()),
                _ => Err(Error::TooBig),
            };
        }
        match self.table.upsert(hash, key, mode, true, &value) {
            Ok(Placed::New(_) | Placed::Revived(_)) => Ok(()),
            other => {
                self.len.fetch_sub(1, Ordering::Relaxed);
                match other {
                    Ok(Placed::Changed(_)) => Ok(()),
                    Ok(_) => Err(Error::NoMem),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Removes a key; `read` sees the slot under the lock.
    pub(crate) fn remove(&self, key: &[u8], read: impl FnMut(u32)) -> bool {
        let removed = self.table.remove(hash(key), key, false, read).is_some();
        if removed {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }
}

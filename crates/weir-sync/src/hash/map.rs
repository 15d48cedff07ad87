// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of [`RcuHash`]. [`crate::hash`] explains the design.
#![allow(unsafe_code)] // slots hold boxes

use super::hasher::hash_of;
use super::iter::{Cursor, Iter};
use super::raw::{Edit, Owner, Raw};
use crate::rcu::{Domain, Guard};
use crate::spin::LockStats;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

/// The number of keys whose cache misses [`RcuHash::get_many`] overlaps.
const STRIDE: usize = 16;

/// The change that [`RcuHash::compute`] makes to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<V> {
    /// Leaves the entry as it is, present or absent.
    Keep,
    /// Inserts this value, or replaces the present one.
    Put(V),
    /// Removes the entry.
    Remove,
}

/// A concurrent hash table. See [`crate::hash`].
pub struct RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(super) raw: Raw<Box<Node<K, V>>>,
}

/// An entry. Its alignment leaves the low bits of its address clear, as a slot requires, even if it
/// has no size.
#[repr(align(8))]
pub struct Node<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

// SAFETY: a box's content does not move.
unsafe impl<K, V> Owner for Box<Node<K, V>>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    type Node = Node<K, V>;

    fn into_raw(self) -> *mut Node<K, V> {
        Box::into_raw(self)
    }

    unsafe fn from_raw(node: *mut Node<K, V>) -> Self {
        // SAFETY: by contract.
        unsafe { Box::from_raw(node) }
    }
}

impl<K, V> RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Creates an empty table in `domain`, without allocating memory.
    pub fn new(domain: &Domain) -> Self {
        Self {
            raw: Raw::new(domain),
        }
    }

    /// Returns the domain whose guards protect the table.
    pub fn domain(&self) -> &Domain {
        self.raw.domain()
    }

    /// Returns the value for `key`.
    #[inline]
    pub fn get<'g, Q>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_it = |node: &Node<K, V>| node.key.borrow() == key;
        let node = self.raw.find(hash_of(key), is_it, guard)?;
        Some(&node.value)
    }

    /// Returns true if there is an entry for `key`.
    #[inline]
    pub fn contains<Q>(&self, key: &Q, guard: &Guard) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key, guard).is_some()
    }

    /// Looks up many keys as [`RcuHash::get`] does, with their cache misses overlapped. Fills
    /// `found` up to the shorter of the two lengths.
    pub fn get_many<'g, Q>(&'g self, keys: &[Q], guard: &'g Guard, found: &mut [Option<&'g V>])
    where
        K: Borrow<Q>,
        Q: Hash + Eq,
    {
        for (keys, found) in keys.chunks(STRIDE).zip(found.chunks_mut(STRIDE)) {
            let mut searches = [const { None }; STRIDE];
            for (search, key) in searches.iter_mut().zip(keys) {
                *search = self.raw.search(hash_of(key), guard);
            }
            let mut reached = [const { None }; STRIDE];
            for (reached, search) in reached.iter_mut().zip(searches) {
                *reached = search.and_then(|search| search.reach());
            }
            for ((reached, key), found) in reached.into_iter().zip(keys).zip(found) {
                let is_it = |node: &Node<K, V>| node.key.borrow() == key;
                let node = reached.and_then(|reached| reached.finish_by(is_it));
                *found = node.map(|node| &node.value);
            }
        }
    }

    /// Inserts or replaces an entry. Returns the previous value.
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g Guard) -> Option<&'g V> {
        self.compute(key, guard, |_| Change::Put(value)).0
    }

    /// Inserts an entry unless there is one. Returns `Ok` with the new value, or `Err` with the
    /// present one.
    pub fn insert_if_absent<'g>(
        &'g self,
        key: K,
        value: V,
        guard: &'g Guard,
    ) -> Result<&'g V, &'g V> {
        let change = |old: Option<&V>| old.map_or(Change::Put(value), |_| Change::Keep);
        match self.compute(key, guard, change) {
            (Some(present), _) => Err(present),
            (None, new) => Ok(new.expect("inserted because there was none")),
        }
    }

    /// Returns the value for `key`, inserting the result of `make` if there is none. `make` runs
    /// under the shard's lock.
    pub fn get_or_insert_with<'g>(
        &'g self,
        key: K,
        guard: &'g Guard,
        make: impl FnOnce() -> V,
    ) -> &'g V {
        let change = |old: Option<&V>| match old {
            Some(_) => Change::Keep,
            None => Change::Put(make()),
        };
        self.compute(key, guard, change)
            .1
            .expect("present or put just now")
    }

    /// Removes the entry and returns its value, which is dropped after a grace period.
    pub fn remove<'g, Q>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.remove_if(key, guard, |_| true)
    }

    /// Removes the entry if `condition` holds, which is evaluated under the shard's lock. To check
    /// that the entry is still the one seen before, use `|value| std::ptr::eq(value, seen)`.
    pub fn remove_if<'g, Q>(
        &'g self,
        key: &Q,
        guard: &'g Guard,
        condition: impl FnOnce(&V) -> bool,
    ) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_it = |node: &Node<K, V>| node.key.borrow() == key;
        let condition = |node: &Node<K, V>| condition(&node.value);
        let node = self.raw.remove_if(hash_of(key), is_it, condition, guard)?;
        Some(&node.value)
    }

    /// Passes the entry for `key` to `change` and applies the result, all under the shard's lock.
    /// Returns the values before and after. `change` must not access the table.
    pub fn compute<'g>(
        &'g self,
        key: K,
        guard: &'g Guard,
        change: impl FnOnce(Option<&V>) -> Change<V>,
    ) -> (Option<&'g V>, Option<&'g V>) {
        let hash = hash_of(&key);
        let change = |key, old: Option<&Node<K, V>>| match change(old.map(|node| &node.value)) {
            Change::Put(value) => Edit::Put(Box::new(Node { key, value })),
            Change::Remove => Edit::Remove,
            Change::Keep => Edit::Keep,
        };
        let (before, after) =
            self.raw
                .change(hash, key, |key, node| node.key == *key, change, guard);
        (
            before.map(|node| &node.value),
            after.map(|node| &node.value),
        )
    }

    /// Removes all entries, one shard at a time.
    pub fn clear(&self, guard: &Guard) {
        self.raw.clear(guard);
    }

    /// Keeps only the entries for which `keep` returns true. Entries inserted concurrently may or
    /// may not be tested.
    pub fn retain(&self, guard: &Guard, mut keep: impl FnMut(&K, &V) -> bool) {
        for (key, value) in self.iter(guard) {
            if !keep(key, value) {
                self.remove_if(key, guard, |now| core::ptr::eq(now, value));
            }
        }
    }

    /// Returns the number of entries. It is exact while no thread writes.
    pub fn len(&self, guard: &Guard) -> usize {
        self.raw.len(guard)
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self, guard: &Guard) -> bool {
        self.len(guard) == 0
    }

    /// Returns a number that grows with every insertion, replacement and removal. If two calls
    /// return the same number, nothing changed between them.
    pub fn generation(&self, guard: &Guard) -> u64 {
        self.raw.generation(guard)
    }

    /// Returns the counters of the shards' locks since the table was created or last split.
    pub fn lock_stats(&self, guard: &Guard) -> LockStats {
        self.raw.lock_stats(guard)
    }

    /// Iterates over all entries in the order of their keys' hashes.
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> Iter<'g, K, V> {
        self.iter_from(Cursor::default(), guard)
    }

    /// Iterates over the entries from a cursor on. See "Order" in [`crate::hash`].
    pub fn iter_from<'g>(&'g self, cursor: Cursor, guard: &'g Guard) -> Iter<'g, K, V> {
        Iter::new(self, cursor, guard)
    }

    /// Returns the number of bytes allocated for shards and slots, without nodes.
    pub fn memory(&self, guard: &Guard) -> usize {
        self.raw.memory(guard)
    }
}

impl<K, V> fmt::Debug for RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + fmt::Debug + 'static,
    V: Send + Sync + fmt::Debug + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter(&self.domain().pin()))
            .finish()
    }
}

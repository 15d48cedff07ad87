// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`RcuSet`]: a hash table of shared objects whose slots point to the objects themselves.
//! [`crate::hash`] explains the design.
#![allow(unsafe_code)] // slots hold references of shared objects

use super::raw::{Edit, Owner, Raw, Reached, Reader};
use crate::rcu::{Domain, Guard};
use core::fmt;
use std::sync::Arc;

// SAFETY: the object does not move until its last reference is dropped, and the slot holds one.
unsafe impl<T: Send + Sync + 'static> Owner for Arc<T> {
    type Node = T;

    fn into_raw(self) -> *mut T {
        Arc::into_raw(self).cast_mut()
    }

    unsafe fn from_raw(node: *mut T) -> Self {
        // SAFETY: by contract.
        unsafe { Arc::from_raw(node) }
    }
}

/// A set of objects with a hash supplied by the caller. The hash's upper 32 bits choose the
/// position and its lower 16 are the tag, so both should be well mixed. An object costs its slot
/// and four bytes, 15-22 bytes in all. A search reads slots and the object, and nothing in between.
pub struct RcuSet<T: Send + Sync + 'static>(Raw<Arc<T>>);

impl<T: Send + Sync + 'static> RcuSet<T> {
    /// Creates an empty set in `domain`, without allocating memory.
    pub fn new(domain: &Domain) -> Self {
        Self(Raw::new(domain))
    }

    /// Returns the object with `hash` for which `eq` holds.
    #[inline]
    pub fn find<'g>(
        &'g self,
        hash: u64,
        eq: impl Fn(&T) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g T> {
        self.0.find(hash, eq, guard)
    }

    /// Returns a reader for searches in steps, so that the cache misses of many searches can be
    /// overlapped. Returns `None` if no object was ever inserted.
    ///
    /// ```
    /// # use weir_sync::{hash::RcuSet, rcu::Domain};
    /// # let (domain, hash) = (Domain::default(), 7 << 32);
    /// # let set = RcuSet::new(&domain);
    /// # let guard = domain.pin();
    /// set.insert(hash, std::sync::Arc::new("seven"), |a, b| a == b, &guard);
    /// let search = set.reader(&guard).and_then(|reader| reader.search(hash));
    /// let reached = search.and_then(|search| search.reach());
    /// let found = reached.and_then(|reached| reached.finish(|object| *object == "seven"));
    /// assert_eq!(found, Some(&"seven"));
    /// ```
    ///
    /// A search that has not called `reach` cannot be finished:
    ///
    /// ```compile_fail,E0599
    /// # use weir_sync::{hash::RcuSet, rcu::Domain};
    /// # let (domain, hash) = (Domain::default(), 7 << 32);
    /// # let set = RcuSet::new(&domain);
    /// # let guard = domain.pin();
    /// # set.insert(hash, std::sync::Arc::new("seven"), |a, b| a == b, &guard);
    /// let search = set.reader(&guard).and_then(|reader| reader.search(hash));
    /// let found = search.and_then(|search| search.finish(|object| *object == "seven"));
    /// ```
    #[inline]
    pub fn reader<'g>(&'g self, guard: &'g Guard) -> Option<Reader<'g, T>> {
        self.0.root(guard).map(Reader)
    }

    /// Inserts an object unless an object with `hash` is equal to it by `eq`, which is then
    /// returned as the error.
    pub fn insert_if_absent<'g>(
        &'g self,
        hash: u64,
        object: Arc<T>,
        eq: impl Fn(&T, &T) -> bool,
        guard: &'g Guard,
    ) -> Result<(), &'g T> {
        let eq = |object: &Arc<T>, other: &T| eq(object, other);
        let change = |object, old: Option<&T>| old.map_or(Edit::Put(object), |_| Edit::Keep);
        match self.0.change(hash, object, eq, change, guard).0 {
            Some(present) => Err(present),
            None => Ok(()),
        }
    }

    /// Inserts an object, replacing one with `hash` that is equal to it by `eq`.
    pub fn insert(&self, hash: u64, object: Arc<T>, eq: impl Fn(&T, &T) -> bool, guard: &Guard) {
        let eq = |object: &Arc<T>, other: &T| eq(object, other);
        let change = |object, _: Option<&T>| Edit::Put(object);
        self.0.change(hash, object, eq, change, guard);
    }

    /// Removes an object that was inserted with `hash`. Returns false if it is not in the set. The
    /// set's reference is dropped after a grace period.
    pub fn remove(&self, hash: u64, object: &T, guard: &Guard) -> bool {
        let is_it = |other: &T| core::ptr::eq(other, object);
        let removed = self.0.remove_if(hash, is_it, |_| true, guard);
        removed.is_some()
    }

    /// Removes all objects, one shard at a time.
    pub fn clear(&self, guard: &Guard) {
        self.0.clear(guard);
    }

    /// Returns the number of objects. It is exact while no thread writes.
    pub fn len(&self, guard: &Guard) -> usize {
        self.0.len(guard)
    }

    /// Iterates over the objects in no particular order. An object that is present throughout is
    /// returned exactly once.
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = &'g T> {
        let nodes = self.0.tables(guard).flat_map(|table| table.nodes());
        // SAFETY: the node was in a table while the guard was held, so it lives as long as the
        // guard.
        nodes.map(|node| unsafe { &*node })
    }

    /// Iterates over the upper halves of the objects' hashes without reading the objects, otherwise
    /// like [`iter`](Self::iter). For an object inserted or removed concurrently, it may return
    /// another object's half.
    pub fn uppers<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = u32> {
        let filled = self.0.tables(guard).flat_map(|table| table.filled());
        filled.map(|(_, upper)| upper)
    }
}

impl<'g, T> Reached<'g, T>
where
    T: Send + Sync + 'static,
{
    /// Returns the object for which `eq` holds. The result is that of [`RcuSet::find`] at some time
    /// since the search began.
    #[inline(always)]
    pub fn finish(self, eq: impl Fn(&T) -> bool) -> Option<&'g T> {
        self.finish_by(eq)
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for RcuSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter(&self.0.domain().pin()))
            .finish()
    }
}

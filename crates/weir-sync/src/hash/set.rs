// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`RcuSet`]: shared objects in a table, whose slots lead to the objects themselves. The design is told
//! at the head of [`crate::hash`].
#![allow(unsafe_code)] // slots hold references of shared objects

use super::raw::{Edit, Owner, Raw, Reached, Reader};
use crate::rcu::{Domain, Guard};
use core::fmt;
use std::sync::Arc;

// SAFETY: the object stays where it is until the last reference, one of which the slot holds, is gone.
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

/// Objects by a hash that is the caller's: its upper 32 bits choose the place, and its lower 16 tell
/// entries apart, so both should be good. An object costs its slot and four octets, 15-22 bytes in all;
/// a search reads slots and the object, nothing between.
pub struct RcuSet<T: Send + Sync + 'static>(Raw<Arc<T>>);

impl<T: Send + Sync + 'static> RcuSet<T> {
    /// An empty set in `domain`. Allocates nothing.
    pub fn new(domain: &Domain) -> Self {
        Self(Raw::new(domain))
    }

    /// The object with `hash` for which `eq` holds.
    #[inline]
    pub fn find<'g>(
        &'g self,
        hash: u64,
        eq: impl Fn(&T) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g T> {
        self.0.find(hash, eq, guard)
    }

    /// For searches in steps, so that the cache misses of many can be overlapped. `None`: there never was
    /// an object.
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
    /// A search that has not reached its entry has no end:
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

    /// Puts an object in unless there is one with `hash` that is equal by `eq`: that is the error.
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

    /// Puts an object in, in place of one with `hash` that is equal by `eq`, if there is one.
    pub fn insert(&self, hash: u64, object: Arc<T>, eq: impl Fn(&T, &T) -> bool, guard: &Guard) {
        let eq = |object: &Arc<T>, other: &T| eq(object, other);
        let change = |object, _: Option<&T>| Edit::Put(object);
        self.0.change(hash, object, eq, change, guard);
    }

    /// Takes out an object that was put in with `hash`; `false`: it is not there. The set's reference is
    /// dropped after a grace period.
    pub fn remove(&self, hash: u64, object: &T, guard: &Guard) -> bool {
        let is_it = |other: &T| core::ptr::eq(other, object);
        let removed = self.0.remove_if(hash, is_it, |_| true, guard);
        removed.is_some()
    }

    /// Takes all out, shard by shard.
    pub fn clear(&self, guard: &Guard) {
        self.0.clear(guard);
    }

    /// The number of objects; exact when nobody writes.
    pub fn len(&self, guard: &Guard) -> usize {
        self.0.len(guard)
    }

    /// The objects, in no order; those that are there throughout are met, once.
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = &'g T> {
        let nodes = self.0.tables(guard).flat_map(|table| table.nodes());
        // SAFETY: in a table when the guard was held already, so it is there as long as the guard.
        nodes.map(|node| unsafe { &*node })
    }

    /// The upper halves of the objects' hashes, without a look at the objects, otherwise as
    /// [`iter`](Self::iter). Of an object that comes or goes meanwhile, another's may be met.
    pub fn uppers<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = u32> {
        let filled = self.0.tables(guard).flat_map(|table| table.filled());
        filled.map(|(_, upper)| upper)
    }
}

impl<'g, T> Reached<'g, T>
where
    T: Send + Sync + 'static,
{
    /// The object for which `eq` holds: what [`RcuSet::find`] would have answered when the search began,
    /// or later.
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

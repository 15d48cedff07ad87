// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hash table whose readers take no lock, for tables that are small in nearly every namespace.
//!
//! The smallest [`RcuHash`] takes some 200 bytes beside its entries. Up to eight entries, a [`SmallHash`] is one
//! published list, which each change copies; beyond that it is an [`RcuHash`], and stays one.
//!
//! # Growth
//! The thread that adds the ninth entry fills the hash table, publishes it, and then takes the list away. A reader looks
//! for the list first. The list it finds was whole at that moment; if it finds none, it sees the hash table.

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::hash::RcuHash;
use crate::once_box::OnceBox;
use crate::rcu::{Domain, Guard, PublishedOption};
use core::fmt;
use core::hash::Hash;

/// The number of entries up to which a table is a list.
const FEW: usize = if cfg!(loom) { 1 } else { 8 };

type List<K, V> = Box<[(K, V)]>;

/// A hash table whose readers take no lock; see the module documentation.
///
/// Any thread reads under a guard. Changes are made under a lock of the caller: one of two at once may be lost.
pub struct SmallHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// `None` if there is no entry, or if they are in `many`.
    few: PublishedOption<List<K, V>>,
    many: OnceBox<RcuHash<K, V>>,
}

impl<K, V> SmallHash<K, V>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Creates an empty table in `domain`, without allocating memory.
    pub fn new(domain: &Domain) -> Self {
        Self {
            few: PublishedOption::new(domain, None),
            many: OnceBox::default(),
        }
    }

    /// Returns the value for `key`. Panics on another domain's guard.
    #[inline]
    pub fn get<'g>(&'g self, key: &K, guard: &'g Guard) -> Option<&'g V> {
        if let Some(list) = self.few.load(guard) {
            let found = list.iter().find(|(other, _)| other == key);
            return found.map(|(_, value)| value);
        }
        self.many.get()?.get(key, guard)
    }

    /// Returns the entries beside that of `key`, with room for it.
    fn others(list: Option<&List<K, V>>, key: &K) -> Vec<(K, V)> {
        let list = list.map_or(&[][..], |list| list);
        let mut others = Vec::with_capacity(list.len() + 1);
        others.extend(list.iter().filter(|(other, _)| other != key).cloned());
        others
    }

    /// Inserts or replaces an entry. The previous value is dropped after a grace period.
    pub fn insert(&self, key: K, value: V, guard: &Guard) {
        if let Some(many) = self.many.get() {
            many.insert(key, value, guard);
            return;
        }
        let mut list = Self::others(self.few.load(guard), &key);
        list.push((key, value));
        if list.len() <= FEW {
            self.few.replace(Some(list.into()));
            return;
        }
        let many = RcuHash::new(self.few.domain());
        for (key, value) in list {
            many.insert(key, value, guard);
        }
        self.many.get_or_make(|| many);
        self.few.replace(None);
    }

    /// Removes an entry. Its value is dropped after a grace period.
    pub fn remove(&self, key: &K, guard: &Guard) {
        if let Some(many) = self.many.get() {
            many.remove(key, guard);
            return;
        }
        let old = self.few.load(guard);
        let list = Self::others(old, key);
        if old.is_some_and(|old| old.len() != list.len()) {
            let left = (!list.is_empty()).then(|| list.into());
            self.few.replace(left);
        }
    }
}

impl<K, V> fmt::Debug for SmallHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmallHash").finish_non_exhaustive()
    }
}

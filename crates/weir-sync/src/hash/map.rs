// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`RcuHash`]: the operations. The design is told at the head of [`crate::hash`].
#![allow(unsafe_code)] // owns nodes, tables and roots behind atomic pointers

use super::hasher::hash_of;
use super::iter::{Cursor, Iter};
use super::table::{Fill, Node, Place, Root, Shard, Slot, Table, Unlinked, table_box, untag};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::prefetch;
use crate::rcu::{Domain, Guard};
use crate::spin::LockStats;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::ptr::null_mut;

/// Entries from which on a table has more than one shard.
const SPLIT_AT: usize = if cfg!(loom) { 3 } else { 2048 };
/// Shards it has then: 2 to this power.
const SPLIT_BITS: u32 = if cfg!(loom) { 1 } else { 4 };
/// Keys whose cache misses [`RcuHash::get_many`] overlaps.
const STRIDE: usize = 16;

/// What [`RcuHash::compute`] is to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<V> {
    /// Leave it as it is, present or absent.
    Keep,
    /// Insert this value, or replace the present one by it.
    Put(V),
    /// Remove it.
    Remove,
}

/// See [`crate::hash`].
pub struct RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Null: nothing was ever inserted.
    root: AtomicPtr<Root<K, V>>,
    domain: Domain,
}

/// A search under way: the slots are asked for. Next: [`reach`](Self::reach).
pub struct Search<'g, K, V> {
    table: Table<'g, K, V>,
    hash: u64,
    /// The slot searched first.
    at: usize,
}

impl<'g, K, V> Search<'g, K, V> {
    /// Looks through the slots, and asks for the entry; `None`: there is none.
    #[inline(always)]
    pub fn reach(self) -> Option<Reached<'g, K, V>> {
        let candidate = self.table.candidate(self.hash, self.at);
        prefetch(untag(candidate.1));
        (!candidate.1.is_null()).then_some(Reached {
            table: self.table,
            hash: self.hash,
            candidate,
        })
    }
}

/// A search whose entry, if there is one, is asked for. Next: [`finish`](Self::finish).
pub struct Reached<'g, K, V> {
    table: Table<'g, K, V>,
    hash: u64,
    /// The first slot that may lead to it, and what is there.
    candidate: (usize, *mut Node<K, V>),
}

impl<'g, K, V> Reached<'g, K, V> {
    /// The key most likely found, for asking ahead for what it points to.
    #[inline(always)]
    pub fn likely(&self) -> Option<&'g K> {
        let node = self.table.node_at(self.candidate.1)?;
        Some(&node.key)
    }

    /// The entry for which `eq` holds: what [`RcuHash::find`] would have answered when the search began,
    /// or later.
    #[inline(always)]
    pub fn finish(self, eq: impl Fn(&K) -> bool) -> Option<(&'g K, &'g V)> {
        let node = self.table.get(self.hash, self.candidate, eq)?;
        Some((&node.key, &node.value))
    }
}

/// Nodes, tables and roots of a `Send + Sync` key and value on their way to a callback.
struct Retired<K, V> {
    unlinked: Unlinked<K, V>,
    /// The nodes in the table go with it.
    nodes: bool,
}

// SAFETY: owns keys and values that are `Send`, behind raw pointers; see the bounds of `RcuHash`.
unsafe impl<K: Send, V: Send> Send for Retired<K, V> {}

impl<K, V> Drop for Retired<K, V> {
    fn drop(&mut self) {
        let Unlinked { node, table } = self.unlinked;
        if !table.is_null() {
            // SAFETY: unlinked and retired; the grace period is over.
            unsafe { free_table(table, self.nodes) };
        }
        if !node.is_null() {
            // SAFETY: as above; nodes are made by `Box`.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}

/// # Safety
/// `table` came from a shard that has given it up, and no reader is left in it; `nodes` only if they
/// are in no other table.
unsafe fn free_table<K, V>(table: *mut Slot<K, V>, nodes: bool) {
    // SAFETY: by contract.
    unsafe {
        if nodes {
            for node in Table::from_raw(table).nodes() {
                drop(Box::from_raw(node));
            }
        }
        drop(Box::from_raw(table_box(table)));
    }
}

impl<K, V> RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// An empty table in `domain`. Allocates nothing.
    pub fn new(domain: &Domain) -> Self {
        Self {
            root: AtomicPtr::new(null_mut()),
            domain: domain.clone(),
        }
    }

    /// The domain whose guards read it.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    #[inline(always)]
    pub(super) fn root<'g>(&'g self, guard: &'g Guard) -> Option<&'g Root<K, V>> {
        guard.check(&self.domain);
        // SAFETY: a root is freed a grace period after it was replaced, or by our drop.
        unsafe { self.root.load(Ordering::Acquire).as_ref() }
    }

    fn root_or_new<'g>(&'g self, guard: &'g Guard) -> &'g Root<K, V> {
        if let Some(root) = self.root(guard) {
            return root;
        }
        let fresh = Box::into_raw(Box::new(Root::new(0)));
        match self
            .root
            .compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: published just now, see `root`.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: nobody saw `fresh`; the winner is not null.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    /// The entry for `key`.
    #[inline]
    pub fn get<'g, Q>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(hash_of(key), |k| k.borrow() == key, guard)
            .map(|(_, value)| value)
    }

    /// Is there an entry for `key`?
    #[inline]
    pub fn contains<Q>(&self, key: &Q, guard: &Guard) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key, guard).is_some()
    }

    /// The entry whose key has `hash` (of [`hash_of`]) and for which `eq` holds: for keys that are
    /// compared without being built.
    #[inline]
    pub fn find<'g>(
        &'g self,
        hash: u64,
        eq: impl Fn(&K) -> bool,
        guard: &'g Guard,
    ) -> Option<(&'g K, &'g V)> {
        self.search(hash, guard)?.reach()?.finish(eq)
    }

    /// A search for `hash` in steps, so that the cache misses of many can be overlapped. Asks for the
    /// slots; `None`: there is nothing in the table.
    ///
    /// ```
    /// # use weir_sync::{hash::{RcuHash, hash_of}, rcu::Domain};
    /// # let (domain, key) = (Domain::default(), 7);
    /// # let table = RcuHash::new(&domain);
    /// # let guard = domain.pin();
    /// table.insert(key, "seven", &guard);
    /// let search = table.search(hash_of(&key), &guard);
    /// let reached = search.and_then(|search| search.reach());
    /// let found = reached.and_then(|reached| reached.finish(|other| *other == key));
    /// assert_eq!(found, Some((&7, &"seven")));
    /// ```
    ///
    /// A search that has not reached its entry has no end:
    ///
    /// ```compile_fail,E0599
    /// # use weir_sync::{hash::{RcuHash, hash_of}, rcu::Domain};
    /// # let (domain, key) = (Domain::default(), 7);
    /// # let table = RcuHash::new(&domain);
    /// # let guard = domain.pin();
    /// # table.insert(key, "seven", &guard);
    /// let search = table.search(hash_of(&key), &guard);
    /// let found = search.and_then(|search| search.finish(|other| *other == key));
    /// ```
    #[inline]
    pub fn search<'g>(&'g self, hash: u64, guard: &'g Guard) -> Option<Search<'g, K, V>> {
        let root = self.root(guard)?;
        let table = root.shard(hash).table()?;
        let at = table.home(hash << root.bits);
        table.prefetch_slot(at);
        Some(Search { table, hash, at })
    }

    /// [`RcuHash::get`] for many keys, their cache misses overlapped; `found` is filled up to the
    /// shorter of the two lengths.
    pub fn get_many<'g, Q>(&'g self, keys: &[Q], guard: &'g Guard, found: &mut [Option<&'g V>])
    where
        K: Borrow<Q>,
        Q: Hash + Eq,
    {
        for (keys, found) in keys.chunks(STRIDE).zip(found.chunks_mut(STRIDE)) {
            let mut searches = [const { None }; STRIDE];
            for (search, key) in searches.iter_mut().zip(keys) {
                *search = self.search(hash_of(key), guard);
            }
            let reached = searches.map(|search| search.and_then(Search::reach));
            for ((reached, key), found) in reached.into_iter().zip(keys).zip(found) {
                let entry = reached.and_then(|reached| reached.finish(|k| k.borrow() == key));
                *found = entry.map(|(_, value)| value);
            }
        }
    }

    /// Inserts or replaces; returns the value that was there before.
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g Guard) -> Option<&'g V> {
        self.compute(key, guard, |_| Change::Put(value)).0
    }

    /// Inserts unless there is an entry: `Ok` with the new value, or `Err` with the present one.
    pub fn insert_if_absent<'g>(
        &'g self,
        key: K,
        value: V,
        guard: &'g Guard,
    ) -> Result<&'g V, &'g V> {
        let change = |old: Option<&V>| old.map_or(Change::Put(value), |_| Change::Keep);
        match self.compute(key, guard, change) {
            (Some(present), _) => Err(present),
            (None, new) => Ok(new.expect("put as there was none")),
        }
    }

    /// The value for `key`, made by `make` if there is none. `make` runs under the shard's lock.
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

    /// Removes the entry; returns its value, which is dropped after a grace period.
    pub fn remove<'g, Q>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.remove_if(key, guard, |_| true)
    }

    /// Removes the entry if `condition` holds, which is tested under the shard's lock. (That it is
    /// still the one seen before: `|value| std::ptr::eq(value, seen)`.)
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
        let hash = hash_of(key);
        self.root(guard)?;
        let mut removed = null_mut();
        self.locked(hash, guard, |shard, fill, bits| {
            let Some(table) = shard.table() else {
                return Unlinked::default();
            };
            let Place::Found(at) = table.search(hash, hash << bits, |k| k.borrow() == key) else {
                return Unlinked::default();
            };
            if !table
                .node(at)
                .ok()
                .flatten()
                .is_some_and(|node| condition(&node.value))
            {
                return Unlinked::default();
            }
            let unlinked = shard.remove(fill, at, bits);
            removed = unlinked.node;
            unlinked
        });
        // SAFETY: retired while the guard is held, so it is there as long as the guard.
        unsafe { removed.as_ref() }.map(|node| &node.value)
    }

    /// Looks at the entry for `key` and changes it, all under the shard's lock. Returns the values
    /// before and after. `change` must not touch the table.
    pub fn compute<'g>(
        &'g self,
        key: K,
        guard: &'g Guard,
        change: impl FnOnce(Option<&V>) -> Change<V>,
    ) -> (Option<&'g V>, Option<&'g V>) {
        let hash = hash_of(&key);
        let mut before: *const Node<K, V> = null_mut();
        let mut after: *const Node<K, V> = null_mut();
        self.root_or_new(guard);
        self.locked(hash, guard, |shard, fill, bits| {
            let place = shard
                .table()
                .map(|table| (table, table.search(hash, hash << bits, |k| *k == key)));
            let found = match &place {
                Some((table, Place::Found(at))) => {
                    table.node(*at).ok().flatten().map(|node| (*at, node))
                }
                _ => None,
            };
            before = found.map_or(null_mut(), |(_, node)| core::ptr::from_ref(node));
            match (change(found.map(|(_, node)| &node.value)), found) {
                (Change::Put(value), found) => {
                    let node = Box::into_raw(Box::new(Node { key, value }));
                    after = node;
                    match found {
                        Some((at, _)) => shard.replace(at, node, hash),
                        None => {
                            let free = match place {
                                Some((_, Place::Free(at))) => Some(at),
                                _ => None,
                            };
                            shard.add(fill, free, node, hash, bits)
                        }
                    }
                }
                (Change::Remove, Some((at, _))) => shard.remove(fill, at, bits),
                (Change::Keep | Change::Remove, _) => {
                    after = before;
                    Unlinked::default()
                }
            }
        });
        // SAFETY: what is in the table, and what was retired while the guard is held, is there as
        // long as the guard.
        unsafe {
            (
                before.as_ref().map(|node| &node.value),
                after.as_ref().map(|node| &node.value),
            )
        }
    }

    /// Runs `change` under the lock of the shard of `hash`, and retires what it unlinked. There is a
    /// root.
    fn locked(
        &self,
        hash: u64,
        guard: &Guard,
        change: impl FnOnce(&Shard<K, V>, &mut Fill, u32) -> Unlinked<K, V>,
    ) {
        let mut old_root = null_mut();
        let unlinked = loop {
            let root = self
                .root(guard)
                .expect("made before, and roots are only ever replaced");
            let shard = root.shard(hash);
            let mut fill = shard.fill.lock();
            if fill.dead {
                continue;
            }
            let unlinked = change(shard, &mut fill, root.bits);
            if root.bits == 0 && shard.live.load(Ordering::Relaxed) >= SPLIT_AT {
                let fresh = Box::into_raw(Box::new(Root::split(shard, SPLIT_BITS)));
                old_root = self.root.swap(fresh, Ordering::AcqRel);
                fill.dead = true;
            }
            break unlinked;
        };
        if !old_root.is_null() {
            // SAFETY: replaced just now, once; it owns its tables, not their nodes.
            unsafe { self.domain.retire(old_root) };
        }
        self.retire(unlinked, false);
    }

    fn retire(&self, unlinked: Unlinked<K, V>, nodes: bool) {
        if !unlinked.node.is_null() || !unlinked.table.is_null() {
            self.domain.defer_drop(Retired { unlinked, nodes });
        }
    }

    /// Removes all entries, shard by shard.
    pub fn clear(&self, guard: &Guard) {
        let mut shard = 0;
        while let Some(root) = self.root(guard) {
            let Some(this) = root.shards.get(shard) else {
                return;
            };
            let mut fill = this.fill.lock();
            if fill.dead {
                shard = 0;
                continue;
            }
            let table = this.clear(&mut fill);
            drop(fill);
            self.retire(
                Unlinked {
                    table,
                    ..Unlinked::default()
                },
                true,
            );
            shard += 1;
        }
    }

    /// Keeps the entries for which `keep` holds. Entries inserted meanwhile may or may not be asked
    /// for.
    pub fn retain(&self, guard: &Guard, mut keep: impl FnMut(&K, &V) -> bool) {
        for (key, value) in self.iter(guard) {
            if !keep(key, value) {
                self.remove_if(key, guard, |now| core::ptr::eq(now, value));
            }
        }
    }

    /// The number of entries; exact when nobody writes.
    pub fn len(&self, guard: &Guard) -> usize {
        self.sum(guard, |shard| shard.live.load(Ordering::Relaxed))
    }

    /// Are there no entries?
    pub fn is_empty(&self, guard: &Guard) -> bool {
        self.len(guard) == 0
    }

    /// A number that grows with every insertion, replacement and removal: equal at two looks, nothing
    /// changed between them.
    pub fn generation(&self, guard: &Guard) -> u64 {
        self.sum(guard, |shard| shard.changes.load(Ordering::Acquire))
    }

    fn sum<N: core::iter::Sum + Default>(
        &self,
        guard: &Guard,
        of: impl Fn(&Shard<K, V>) -> N,
    ) -> N {
        self.root(guard)
            .map_or_else(N::default, |root| root.shards.iter().map(|s| of(s)).sum())
    }

    /// What the shards' locks have counted since the table, or its last split, was made.
    pub fn lock_stats(&self, guard: &Guard) -> LockStats {
        let mut total = LockStats::default();
        for shard in self.root(guard).iter().flat_map(|root| root.shards.iter()) {
            total += shard.fill.stats();
        }
        total
    }

    /// All entries, in the order of their keys' hashes.
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> Iter<'g, K, V> {
        self.iter_from(Cursor::default(), guard)
    }

    /// The entries from a cursor on: see [`crate::hash`], "Order".
    pub fn iter_from<'g>(&'g self, cursor: Cursor, guard: &'g Guard) -> Iter<'g, K, V> {
        Iter::new(self, cursor, guard)
    }

    /// Bytes allocated for shards and slots, without nodes.
    pub fn memory(&self, guard: &Guard) -> usize {
        let Some(root) = self.root(guard) else {
            return 0;
        };
        let slots = |shard: &Shard<K, V>| shard.table().map_or(0, |table| table.len() + 1);
        size_of_val(root)
            + size_of_val(&*root.shards)
            + root
                .shards
                .iter()
                .map(|shard| slots(shard) * size_of::<usize>())
                .sum::<usize>()
    }
}

impl<K, V> Drop for RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    fn drop(&mut self) {
        let root = self.root.load(Ordering::Acquire);
        if root.is_null() {
            return;
        }
        // SAFETY: exclusive borrow: no reader is left, as each borrows the table. Roots replaced
        // before are retired on their own, without nodes.
        unsafe {
            let root = Box::from_raw(root);
            for table in root.shards.iter().filter_map(|shard| shard.table()) {
                for node in table.nodes() {
                    drop(Box::from_raw(node));
                }
            }
        }
    }
}

impl<K, V> fmt::Debug for RcuHash<K, V>
where
    K: Hash + Eq + Send + Sync + fmt::Debug + 'static,
    V: Send + Sync + fmt::Debug + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter(&self.domain.pin()))
            .finish()
    }
}

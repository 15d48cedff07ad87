// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part shared by [`RcuHash`](super::RcuHash) and [`RcuSet`](super::RcuSet): operations by hash
//! on nodes of any kind. [`crate::hash`] explains the design.
#![allow(unsafe_code)] // owns nodes, tables and roots behind atomic pointers

use super::table::{Fill, Place, Root, Shard, Table, Unlinked, rest, untag};
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::prefetch;
use crate::rcu::{Domain, Guard};
use crate::spin::LockStats;
use core::ptr::null_mut;

/// The number of entries from which a table has more than one shard.
const SPLIT_AT: usize = if cfg!(loom) { 3 } else { 2048 };
/// The number of shards after the split, as a power of two.
const SPLIT_BITS: u32 = if cfg!(loom) { 1 } else { 4 };

/// A pointer that owns a node, as a slot stores it.
///
/// # Safety
/// `into_raw` returns a user-space address that points to the node until `from_raw` takes it back.
pub unsafe trait Owner: Send + Sync + 'static {
    /// The type of the node.
    type Node: 'static;

    /// Gives up ownership of the node, until `from_raw`.
    fn into_raw(self) -> *mut Self::Node;

    /// Takes back ownership of a node from `into_raw`.
    ///
    /// # Safety
    /// Called once for each `into_raw`, when nothing accesses the node through the slot any more.
    unsafe fn from_raw(node: *mut Self::Node) -> Self;
}

/// A change to an entry.
pub(super) enum Edit<O> {
    Keep,
    Put(O),
    Remove,
}

/// A table as seen by searches that begin now.
pub struct Reader<'g, N>(pub(super) &'g Root<N>);

impl<'g, N> Reader<'g, N> {
    /// Begins a search for `hash` and prefetches the slots. Returns `None` if the shard is empty.
    #[inline(always)]
    pub fn search(&self, hash: u64) -> Option<Search<'g, N>> {
        let Self(root) = *self;
        let table = root.shard(hash).table()?;
        let home = table.home(rest(hash, root.bits));
        table.prefetch_slot(home);
        Some(Search { table, hash, home })
    }
}

/// A search whose slots have been prefetched.
#[must_use]
pub struct Search<'g, N> {
    table: &'g Table<N>,
    hash: u64,
    home: usize,
}

/// A search that has scanned the slots and prefetched its candidate entry.
#[must_use]
pub struct Reached<'g, N> {
    table: &'g Table<N>,
    hash: u64,
    /// The first slot with a matching tag, and its node.
    candidate: (usize, *mut N),
}

impl<N> Clone for Search<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Search<'_, N> {}

impl<N> Clone for Reached<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Reached<'_, N> {}

impl<'g, N> Search<'g, N> {
    /// Prefetches the memory beside the slots that an insertion writes.
    #[inline]
    pub fn before_insertion(self) {
        self.table.prefetch_upper(self.home);
    }

    /// Scans the slots and prefetches the entry. Returns `None` if there is no candidate.
    #[inline(always)]
    pub fn reach(self) -> Option<Reached<'g, N>> {
        let candidate = self.table.candidate(self.hash, self.home);
        if candidate.1.is_null() {
            return None;
        }
        prefetch(untag(candidate.1));
        Some(Reached {
            table: self.table,
            hash: self.hash,
            candidate,
        })
    }
}

impl<'g, N> Reached<'g, N> {
    /// Returns the entry for which `eq` holds. The result is that of a search at some time since
    /// this one began.
    #[inline(always)]
    pub(super) fn finish_by(self, eq: impl Fn(&N) -> bool) -> Option<&'g N> {
        self.table.get(self.hash, self.candidate, eq)
    }
}

/// Nodes and tables on their way to a callback.
struct Retired<O: Owner> {
    unlinked: Unlinked<O::Node>,
    /// True if the nodes in the table are to be freed with it.
    nodes: bool,
}

// SAFETY: it owns nodes through owners that are `Send`.
unsafe impl<O: Owner> Send for Retired<O> {}

impl<O: Owner> Drop for Retired<O> {
    fn drop(&mut self) {
        let Unlinked { node, table } = self.unlinked;
        if !table.is_null() {
            // SAFETY: created by `Box`, unlinked and retired, and the grace period is over.
            let table = unsafe { Box::from_raw(table) };
            for node in table.nodes().filter(|_| self.nodes) {
                // SAFETY: as above; these nodes are in no other table.
                drop(unsafe { O::from_raw(node) });
            }
        }
        if !node.is_null() {
            // SAFETY: as above.
            drop(unsafe { O::from_raw(node) });
        }
    }
}

/// A table of nodes by hash.
pub(super) struct Raw<O: Owner> {
    /// The root, or null before the first insertion.
    root: AtomicPtr<Root<O::Node>>,
    domain: Domain,
}

impl<O: Owner> Raw<O> {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            root: AtomicPtr::new(null_mut()),
            domain: domain.clone(),
        }
    }

    pub(super) fn domain(&self) -> &Domain {
        &self.domain
    }

    #[inline(always)]
    pub(super) fn root<'g>(&'g self, guard: &'g Guard) -> Option<&'g Root<O::Node>> {
        guard.check(&self.domain);
        // SAFETY: a root is freed a grace period after its replacement, or by the drop of `self`.
        unsafe { self.root.load(Ordering::Acquire).as_ref() }
    }

    fn root_or_new<'g>(&'g self, guard: &'g Guard) -> &'g Root<O::Node> {
        if let Some(root) = self.root(guard) {
            return root;
        }
        let fresh = Box::into_raw(Box::new(Root::new(0)));
        match self
            .root
            .compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: published just now; see `root`.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` was never published; the winner is not null.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn search<'g>(&'g self, hash: u64, guard: &'g Guard) -> Option<Search<'g, O::Node>> {
        Reader(self.root(guard)?).search(hash)
    }

    #[inline(always)]
    pub(super) fn find<'g>(
        &'g self,
        hash: u64,
        eq: impl Fn(&O::Node) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g O::Node> {
        self.search(hash, guard)?.reach()?.finish_by(eq)
    }

    /// Removes the entry for which `eq` holds, if `condition` also holds.
    pub(super) fn remove_if<'g>(
        &'g self,
        hash: u64,
        eq: impl Fn(&O::Node) -> bool,
        condition: impl FnOnce(&O::Node) -> bool,
        guard: &'g Guard,
    ) -> Option<&'g O::Node> {
        self.root(guard)?;
        let change = |(), old: Option<&O::Node>| match old {
            Some(old) if condition(old) => Edit::Remove,
            _ => Edit::Keep,
        };
        let (before, after) = self.change(hash, (), |(), node| eq(node), change, guard);
        before.filter(|_| after.is_none())
    }

    /// Calls `change` with `new` and the entry for which `eq` holds, and applies the resulting edit,
    /// all under the shard's lock. Returns the nodes before and after.
    pub(super) fn change<'g, T>(
        &'g self,
        hash: u64,
        new: T,
        eq: impl Fn(&T, &O::Node) -> bool,
        change: impl FnOnce(T, Option<&O::Node>) -> Edit<O>,
        guard: &'g Guard,
    ) -> (Option<&'g O::Node>, Option<&'g O::Node>) {
        let mut before: *const O::Node = null_mut();
        let mut after: *const O::Node = null_mut();
        self.root_or_new(guard);
        self.locked(hash, guard, |shard, fill, bits| {
            let place = shard
                .table()
                .map(|table| (table, table.search(hash, bits, |node| eq(&new, node))));
            let found = match &place {
                Some((table, Place::Found(at))) => {
                    table.node(*at).ok().flatten().map(|node| (*at, node))
                }
                _ => None,
            };
            before = found.map_or(null_mut(), |(_, node)| core::ptr::from_ref(node));
            match (change(new, found.map(|(_, node)| node)), found) {
                (Edit::Put(owner), found) => {
                    let node = owner.into_raw();
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
                (Edit::Remove, Some((at, _))) => shard.remove(fill, at, bits),
                (Edit::Keep | Edit::Remove, _) => {
                    after = before;
                    Unlinked::default()
                }
            }
        });
        // SAFETY: a node that is in the table, or that was retired while the guard is held, lives
        // as long as the guard.
        unsafe { (before.as_ref(), after.as_ref()) }
    }

    /// Runs `change` under the lock of the shard of `hash` and retires what it unlinked. The root
    /// exists.
    fn locked(
        &self,
        hash: u64,
        guard: &Guard,
        change: impl FnOnce(&Shard<O::Node>, &mut Fill, u32) -> Unlinked<O::Node>,
    ) {
        let mut old_root = null_mut();
        let unlinked = loop {
            let root = self
                .root(guard)
                .expect("created before, and roots are only ever replaced");
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
            // SAFETY: replaced just now, once; it owns its tables but not their nodes.
            unsafe { self.domain.retire(old_root) };
        }
        self.retire(unlinked, false);
    }

    fn retire(&self, unlinked: Unlinked<O::Node>, nodes: bool) {
        if !unlinked.node.is_null() || !unlinked.table.is_null() {
            self.domain.defer_drop(Retired::<O> { unlinked, nodes });
        }
    }

    /// Removes all entries, one shard at a time.
    pub(super) fn clear(&self, guard: &Guard) {
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

    pub(super) fn len(&self, guard: &Guard) -> usize {
        self.sum(guard, |shard| shard.live.load(Ordering::Relaxed))
    }

    pub(super) fn generation(&self, guard: &Guard) -> u64 {
        self.sum(guard, |shard| shard.changes.load(Ordering::Acquire))
    }

    fn sum<S: core::iter::Sum + Default>(
        &self,
        guard: &Guard,
        of: impl Fn(&Shard<O::Node>) -> S,
    ) -> S {
        self.root(guard)
            .map_or_else(S::default, |root| root.shards.iter().map(|s| of(s)).sum())
    }

    pub(super) fn lock_stats(&self, guard: &Guard) -> LockStats {
        let mut total = LockStats::default();
        for shard in self.root(guard).iter().flat_map(|root| root.shards.iter()) {
            total += shard.fill.stats();
        }
        total
    }

    /// Returns the current tables of all shards.
    pub(super) fn tables<'g>(
        &'g self,
        guard: &'g Guard,
    ) -> impl Iterator<Item = &'g Table<O::Node>> {
        let shards = self.root(guard).into_iter().flat_map(|root| &root.shards);
        shards.filter_map(|shard| shard.table())
    }

    pub(super) fn memory(&self, guard: &Guard) -> usize {
        let Some(root) = self.root(guard) else {
            return 0;
        };
        let tables: usize = self.tables(guard).map(Table::memory).sum();
        size_of_val(root) + size_of_val(&*root.shards) + tables
    }
}

impl<O: Owner> Drop for Raw<O> {
    fn drop(&mut self) {
        let root = self.root.load(Ordering::Acquire);
        if root.is_null() {
            return;
        }
        // SAFETY: exclusive borrow; no reader is left, because each borrows the table. Roots
        // replaced earlier are retired on their own, without nodes.
        unsafe {
            let root = Box::from_raw(root);
            for table in root.shards.iter().filter_map(|shard| shard.table()) {
                for node in table.nodes() {
                    drop(O::from_raw(node));
                }
            }
        }
    }
}

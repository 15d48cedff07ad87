// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The insides of [`super::RcuHash`]: nodes, slots, shards, roots. The design is told at the head of
//! [`crate::hash`]. Nothing here retires: what is unlinked is handed to the caller, who defers after
//! the shard's lock is open again.
#![allow(unsafe_code)] // raw nodes and slot arrays

use super::hasher::hash_of;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{CachePadded, prefetch};
use crate::spin::SpinLock;
use core::hash::Hash;
use core::ptr::{null_mut, without_provenance_mut};

/// An entry. Aligned so that no node's address is that of the tombstone, also if it has no size.
#[repr(align(8))]
pub(super) struct Node<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// A slot: null (empty), the tombstone, or a node's address with the tag in the upper 16 bits.
pub(super) type Slot<K, V> = AtomicPtr<Node<K, V>>;

const ADDRESS: usize = (1 << 48) - 1;
const TOMBSTONE: usize = 1;
/// The fewest slots of a table.
const SLOTS_MIN: usize = 4;

#[inline(always)]
fn tag_of(hash: u64) -> usize {
    (hash as usize) << 48
}

#[inline(always)]
pub(super) fn untag<T>(slot: *mut T) -> *mut T {
    slot.map_addr(|address| address & ADDRESS)
}

#[inline(always)]
fn is_node<T>(slot: *mut T) -> bool {
    !slot.is_null() && slot.addr() != TOMBSTONE
}

fn pack<K, V>(node: *mut Node<K, V>, hash: u64) -> *mut Node<K, V> {
    assert!(node.addr() <= ADDRESS, "user-space addresses have 48 bits");
    node.map_addr(|address| address | tag_of(hash))
}

/// The slots of a shard at one time. A box of one word more: the first holds the number of slots, so
/// that a thin pointer leads to both.
pub(super) struct Table<'a, K, V> {
    slots: &'a [Slot<K, V>],
}

impl<K, V> Clone for Table<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for Table<'_, K, V> {}

/// The box behind a table, from its thin pointer.
///
/// # Safety
/// `first` came from `Table::allocate` and has not been freed.
pub(super) unsafe fn table_box<K, V>(first: *mut Slot<K, V>) -> *mut [Slot<K, V>] {
    // SAFETY: by contract; the first word is the number of slots.
    let len = unsafe { &*first }.load(Ordering::Relaxed).addr();
    core::ptr::slice_from_raw_parts_mut(first, len + 1)
}

/// How many slots may be in use (by entries or tombstones) in a table of `len`.
fn limit(len: usize) -> usize {
    len - (len * 3 / 16).max(1)
}

/// The number of slots for `live` entries with room to grow by at least a quarter.
fn len_for(live: usize) -> usize {
    let mut len = SLOTS_MIN;
    while limit(len) < live + live / 4 + 1 {
        len = if len < 64 {
            len * 2
        } else {
            (len + len / 2).next_multiple_of(8)
        };
    }
    len
}

/// Where a search ended.
pub(super) enum Place {
    /// At the entry.
    Found(usize),
    /// There is none; it could go here.
    Free(usize),
}

impl<'a, K, V> Table<'a, K, V> {
    fn allocate(len: usize) -> *mut Slot<K, V> {
        let slots: Box<[Slot<K, V>]> = core::iter::once(without_provenance_mut(len))
            .chain(core::iter::repeat_n(null_mut(), len))
            .map(AtomicPtr::new)
            .collect();
        Box::into_raw(slots).cast()
    }

    /// # Safety
    /// `first` came from `allocate` and is not freed during `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_raw(first: *mut Slot<K, V>) -> Self {
        // SAFETY: by contract.
        unsafe {
            let len = (&*first).load(Ordering::Relaxed).addr();
            Self {
                slots: core::slice::from_raw_parts(first.add(1), len),
            }
        }
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.slots.len()
    }

    /// The slot at which the search for `rest` (a hash without the shard's bits) starts. Grows with
    /// `rest`, which is what iteration builds on.
    #[inline(always)]
    pub(super) fn home(self, rest: u64) -> usize {
        ((u128::from(rest) * self.slots.len() as u128) >> 64) as usize
    }

    /// The least `rest` whose home is `at` or later; `at` is below the number of slots.
    pub(super) fn first_of(self, at: usize) -> u64 {
        ((at as u128) << 64).div_ceil(self.slots.len() as u128) as u64
    }

    #[inline(always)]
    fn after(self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }

    /// The node at a slot. `None`: no entry there; `Err`: nor beyond.
    #[inline(always)]
    pub(super) fn node(self, at: usize) -> Result<Option<&'a Node<K, V>>, ()> {
        let slot = self.slots[at].load(Ordering::Acquire);
        if slot.is_null() {
            return Err(());
        }
        Ok(self.node_at(slot))
    }

    /// The node that `slot`, which was read in this table, leads to.
    #[inline(always)]
    pub(super) fn node_at(self, slot: *mut Node<K, V>) -> Option<&'a Node<K, V>> {
        // SAFETY: a node in a table is freed a grace period after it is unlinked from the table, or by
        // the drop of the hash; `'a` is within a guard's life and a borrow of the hash.
        is_node(slot).then(|| unsafe { &*untag(slot) })
    }

    /// The first slot from `at` on that is empty or carries the tag of `hash`, and what is in it.
    #[inline(always)]
    pub(super) fn candidate(self, hash: u64, mut at: usize) -> (usize, *mut Node<K, V>) {
        let tag = tag_of(hash);
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot.addr() & !ADDRESS == tag || slot.is_null() {
                return (at, slot);
            }
            at = self.after(at);
        }
    }

    /// Follows the candidates, of which the first was found before.
    #[inline(always)]
    pub(super) fn get(
        self,
        hash: u64,
        (mut at, mut slot): (usize, *mut Node<K, V>),
        eq: impl Fn(&K) -> bool,
    ) -> Option<&'a Node<K, V>> {
        loop {
            if slot.is_null() {
                return None;
            }
            if let Some(node) = self.node_at(slot)
                && eq(&node.key)
            {
                return Some(node);
            }
            (at, slot) = self.candidate(hash, self.after(at));
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_slot(self, at: usize) {
        prefetch(core::ptr::from_ref(&self.slots[at]));
    }

    /// Finds the entry or a place for it. The caller holds the shard's lock.
    pub(super) fn search(self, hash: u64, rest: u64, eq: impl Fn(&K) -> bool) -> Place {
        let tag = tag_of(hash);
        let mut at = self.home(rest);
        let mut free = None;
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot.is_null() {
                return Place::Free(free.unwrap_or(at));
            }
            if !is_node(slot) {
                free.get_or_insert(at);
            // SAFETY: nodes of the shard are unlinked under its lock, which the caller holds.
            } else if slot.addr() & !ADDRESS == tag && eq(unsafe { &(*untag(slot)).key }) {
                return Place::Found(at);
            }
            at = self.after(at);
        }
    }

    /// Puts `node` into an empty slot of a table nobody else sees.
    fn fill(self, node: *mut Node<K, V>, hash: u64, rest: u64) {
        let mut at = self.home(rest);
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = self.after(at);
        }
        self.slots[at].store(pack(node, hash), Ordering::Relaxed);
    }

    /// The nodes in the order of slots; the caller holds the shard's lock, or has the table alone.
    pub(super) fn nodes(self) -> impl Iterator<Item = *mut Node<K, V>> + 'a {
        let slots = self.slots;
        slots.iter().enumerate().filter_map(move |(at, slot)| {
            if let Some(ahead) = slots.get(at + 8).filter(|_| !cfg!(loom)) {
                prefetch(untag(ahead.load(Ordering::Relaxed)));
            }
            let slot = slot.load(Ordering::Acquire);
            is_node(slot).then(|| untag(slot))
        })
    }
}

/// What writers of a shard change under its lock.
#[derive(Default)]
pub(super) struct Fill {
    /// Slots in use: entries and tombstones.
    used: usize,
    /// A root with more shards has taken over; look again.
    pub(super) dead: bool,
}

impl Fill {
    /// May slot `at` be filled? If so it is counted.
    fn has_room<K, V>(&mut self, table: Table<'_, K, V>, at: usize) -> bool {
        let empty = table.slots[at].load(Ordering::Relaxed).is_null();
        let room = !empty || self.used < limit(table.len());
        self.used += usize::from(empty && room);
        room
    }
}

/// A part of the hash space with a lock and a table of its own.
pub(super) struct Shard<K, V> {
    /// Null: no entries yet. Changed under the lock.
    table: AtomicPtr<Slot<K, V>>,
    pub(super) fill: SpinLock<Fill>,
    /// Entries. Changed under the lock.
    pub(super) live: AtomicUsize,
    /// Changes to the contents ever made. Changed under the lock.
    pub(super) changes: AtomicU64,
}

/// Nodes and a table that were unlinked and are to be retired.
pub(super) struct Unlinked<K, V> {
    pub(super) node: *mut Node<K, V>,
    pub(super) table: *mut Slot<K, V>,
}

impl<K, V> Default for Unlinked<K, V> {
    fn default() -> Self {
        Self {
            node: null_mut(),
            table: null_mut(),
        }
    }
}

impl<K, V> Shard<K, V> {
    fn new() -> Self {
        Self {
            table: AtomicPtr::new(null_mut()),
            fill: SpinLock::new(Fill::default()),
            live: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// The table, if there is one. `'a` is within a guard's life.
    #[inline(always)]
    pub(super) fn table<'a>(&'a self) -> Option<Table<'a, K, V>> {
        let first = self.table.load(Ordering::Acquire);
        // SAFETY: a table is freed a grace period after it was replaced, or with its root.
        (!first.is_null()).then(|| unsafe { Table::from_raw(first) })
    }

    /// After a change, so that who sees the same generation twice has seen all changes but one that
    /// was going on.
    fn count(&self, live: usize) {
        self.live.store(live, Ordering::Relaxed);
        self.changes
            .store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Puts `node` in place of the entry at `at`. The caller holds the lock.
    pub(super) fn replace(&self, at: usize, node: *mut Node<K, V>, hash: u64) -> Unlinked<K, V> {
        let table = self.table().expect("an entry was found in it");
        let old = table.slots[at].swap(pack(node, hash), Ordering::AcqRel);
        self.count(self.live.load(Ordering::Relaxed));
        Unlinked {
            node: untag(old),
            ..Unlinked::default()
        }
    }
}

impl<K: Hash, V> Shard<K, V> {
    /// Puts a new entry in, at `free` if a search found that. The caller holds the lock and has found
    /// no equal key.
    pub(super) fn add(
        &self,
        fill: &mut Fill,
        free: Option<usize>,
        node: *mut Node<K, V>,
        hash: u64,
        bits: u32,
    ) -> Unlinked<K, V> {
        let live = self.live.load(Ordering::Relaxed) + 1;
        let mut unlinked = Unlinked::default();
        match (self.table(), free) {
            (Some(table), Some(at)) if fill.has_room(table, at) => {
                table.slots[at].store(pack(node, hash), Ordering::Release);
            }
            _ => unlinked.table = self.rebuild(fill, live, bits, Some((node, hash))),
        }
        self.count(live);
        unlinked
    }

    /// Takes the entry at `at` out. The caller holds the lock.
    pub(super) fn remove(&self, fill: &mut Fill, at: usize, bits: u32) -> Unlinked<K, V> {
        let table = self.table().expect("an entry was found in it");
        let next = table.slots[table.after(at)].load(Ordering::Relaxed);
        let old;
        if next.is_null() {
            // The end of a run: no search goes on from here, so this slot and the tombstones before it
            // become empty.
            old = table.slots[at].swap(null_mut(), Ordering::AcqRel);
            fill.used -= 1;
            let mut at = at;
            loop {
                at = if at == 0 { table.len() - 1 } else { at - 1 };
                if table.slots[at].load(Ordering::Relaxed).addr() != TOMBSTONE {
                    break;
                }
                table.slots[at].store(null_mut(), Ordering::Release);
                fill.used -= 1;
            }
        } else {
            old = table.slots[at].swap(without_provenance_mut(TOMBSTONE), Ordering::AcqRel);
        }
        let live = self.live.load(Ordering::Relaxed) - 1;
        self.count(live);
        let mut unlinked = Unlinked {
            node: untag(old),
            ..Unlinked::default()
        };
        if table.len() > 4 * SLOTS_MIN && live < table.len() / 8 {
            unlinked.table = self.rebuild(fill, live, bits, None);
        }
        unlinked
    }

    /// Moves all entries, and one more, to a table fit for `live`; returns the old one.
    fn rebuild(
        &self,
        fill: &mut Fill,
        live: usize,
        bits: u32,
        more: Option<(*mut Node<K, V>, u64)>,
    ) -> *mut Slot<K, V> {
        let first = Table::<K, V>::allocate(len_for(live));
        // SAFETY: allocated just now.
        let fresh = unsafe { Table::from_raw(first) };
        let mut used = 0;
        if let Some((node, hash)) = more {
            fresh.fill(node, hash, hash << bits);
            used += 1;
        }
        if let Some(table) = self.table() {
            for node in table.nodes() {
                // SAFETY: a node in the table, unlinked under the lock only.
                let hash = hash_of(unsafe { &(*node).key });
                fresh.fill(node, hash, hash << bits);
                used += 1;
            }
        }
        fill.used = used;
        self.table.swap(first, Ordering::AcqRel)
    }

    /// Forgets all entries: the table with the nodes in it is the caller's.
    pub(super) fn clear(&self, fill: &mut Fill) -> *mut Slot<K, V> {
        fill.used = 0;
        self.count(0);
        self.table.swap(null_mut(), Ordering::AcqRel)
    }
}

impl<K, V> Drop for Shard<K, V> {
    fn drop(&mut self) {
        let first = self.table.load(Ordering::Acquire);
        if !first.is_null() {
            // SAFETY: the shard owns its table (not the nodes), and is gone from all eyes.
            drop(unsafe { Box::from_raw(table_box(first)) });
        }
    }
}

/// All shards: the hash's upper `bits` choose one.
pub(super) struct Root<K, V> {
    pub(super) bits: u32,
    pub(super) shards: Box<[CachePadded<Shard<K, V>>]>,
}

impl<K, V> Root<K, V> {
    pub(super) fn new(bits: u32) -> Self {
        Self {
            bits,
            shards: (0..1 << bits).map(|_| CachePadded(Shard::new())).collect(),
        }
    }

    #[inline(always)]
    pub(super) fn index(&self, hash: u64) -> usize {
        // In two steps, for a shift by 64 is none.
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    #[inline(always)]
    pub(super) fn shard(&self, hash: u64) -> &Shard<K, V> {
        &self.shards[self.index(hash)]
    }
}

impl<K: Hash, V> Root<K, V> {
    /// A root with `bits` and the entries of `shard`, whose lock the caller holds.
    pub(super) fn split(shard: &Shard<K, V>, bits: u32) -> Self {
        let root = Self::new(bits);
        let Some(table) = shard.table() else {
            return root;
        };
        let mut counts = vec![0; 1 << bits];
        let hashed = || {
            table.nodes().map(|node| {
                // SAFETY: nodes are unlinked under the lock only.
                let hash = hash_of(unsafe { &(*node).key });
                (node, hash)
            })
        };
        hashed().for_each(|(_, hash)| counts[root.index(hash)] += 1);
        for (shard, count) in root.shards.iter().zip(&counts) {
            shard
                .table
                .store(Table::<K, V>::allocate(len_for(*count)), Ordering::Relaxed);
            shard.live.store(*count, Ordering::Relaxed);
            shard.fill.lock().used = *count;
        }
        for (node, hash) in hashed() {
            let table = root.shard(hash).table().expect("allocated just now");
            table.fill(node, hash, hash << bits);
        }
        // Sums of changes must not fall.
        root.shards[0]
            .changes
            .store(shard.changes.load(Ordering::Relaxed), Ordering::Relaxed);
        root
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The insides of [`super::RcuHash`]: nodes, slots, shards, roots. The design is told at the head of
//! [`crate::hash`]. Nothing here retires: what is unlinked is handed to the caller, who defers after
//! the shard's lock is open again.
#![allow(unsafe_code)] // raw nodes and slot arrays

use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{CachePadded, prefetch};
use crate::spin::SpinLock;
use core::ptr::{null_mut, without_provenance_mut};

/// A slot: null (empty), the tombstone, or a node's address with the tag in the upper 16 bits.
type Slot<N> = AtomicPtr<N>;

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

/// The address of a node, which is aligned to more than an octet, so that none is the tombstone's.
fn pack<N>(node: *mut N, hash: u64) -> *mut N {
    const { assert!(align_of::<N>() > TOMBSTONE) };
    assert!(node.addr() <= ADDRESS, "user-space addresses have 48 bits");
    node.map_addr(|address| address | tag_of(hash))
}

/// What of a hash, in a shard of a root with `bits`, chooses the home of its entry.
#[inline(always)]
pub(super) fn rest(hash: u64, bits: u32) -> u32 {
    ((hash >> 32) as u32) << bits
}

/// The slots of a shard at one time, and what only its writers look at.
pub(super) struct Table<N> {
    slots: Box<[Slot<N>]>,
    /// The upper half of each entry's hash, so that entries move to another table without a look at them.
    uppers: Box<[AtomicU32]>,
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

impl<N> Table<N> {
    fn new(len: usize) -> Self {
        Self {
            slots: (0..len).map(|_| AtomicPtr::new(null_mut())).collect(),
            uppers: (0..len).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot at which the search for `rest` starts. Grows with it, which is what iteration builds on.
    #[inline(always)]
    pub(super) fn home(&self, rest: u32) -> usize {
        ((u64::from(rest) * self.slots.len() as u64) >> 32) as usize
    }

    /// The least `rest` whose home is `at` or later; `at` is below the number of slots.
    pub(super) fn first_of(&self, at: usize) -> u32 {
        ((at as u64) << 32).div_ceil(self.slots.len() as u64) as u32
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }

    /// The node at a slot. `None`: no entry there; `Err`: nor beyond.
    #[inline(always)]
    pub(super) fn node(&self, at: usize) -> Result<Option<&N>, ()> {
        let slot = self.slots[at].load(Ordering::Acquire);
        if slot.is_null() {
            return Err(());
        }
        Ok(self.node_at(slot))
    }

    /// The node that `slot`, which was read in this table, leads to.
    #[inline(always)]
    pub(super) fn node_at(&self, slot: *mut N) -> Option<&N> {
        // SAFETY: a node in a table is freed a grace period after it is unlinked from the table, or by
        // the drop of the hash; the table is borrowed within a guard's life and a borrow of the hash.
        is_node(slot).then(|| unsafe { &*untag(slot) })
    }

    /// The first slot from `at` on that is empty or carries the tag of `hash`, and what is in it.
    #[inline(always)]
    pub(super) fn candidate(&self, hash: u64, mut at: usize) -> (usize, *mut N) {
        let tag = tag_of(hash);
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if (slot.addr() ^ tag) & !ADDRESS == 0 || slot.is_null() {
                return (at, slot);
            }
            at = self.after(at);
        }
    }

    /// Follows the candidates, of which the first was found before.
    #[inline(always)]
    pub(super) fn get(
        &self,
        hash: u64,
        (mut at, mut slot): (usize, *mut N),
        eq: impl Fn(&N) -> bool,
    ) -> Option<&N> {
        loop {
            if slot.is_null() {
                return None;
            }
            if let Some(node) = self.node_at(slot)
                && eq(node)
            {
                return Some(node);
            }
            (at, slot) = self.candidate(hash, self.after(at));
        }
    }

    #[inline(always)]
    pub(super) fn prefetch_slot(&self, at: usize) {
        prefetch(core::ptr::from_ref(&self.slots[at]));
    }

    /// What [`put`](Self::put) writes beside the slot.
    #[inline]
    pub(super) fn prefetch_upper(&self, at: usize) {
        prefetch(core::ptr::from_ref(&self.uppers[at]));
    }

    /// Finds the entry or a place for it. The caller holds the shard's lock.
    pub(super) fn search(&self, hash: u64, bits: u32, eq: impl Fn(&N) -> bool) -> Place {
        let tag = tag_of(hash);
        let mut at = self.home(rest(hash, bits));
        let mut free = None;
        loop {
            let slot = self.slots[at].load(Ordering::Acquire);
            if slot.is_null() {
                return Place::Free(free.unwrap_or(at));
            }
            if !is_node(slot) {
                free.get_or_insert(at);
            // SAFETY: nodes of the shard are unlinked under its lock, which the caller holds.
            } else if slot.addr() & !ADDRESS == tag && eq(unsafe { &*untag(slot) }) {
                return Place::Found(at);
            }
            at = self.after(at);
        }
    }

    /// Puts a node into a slot that has none. The caller holds the lock, or has the table alone.
    fn put(&self, at: usize, slot: *mut N, upper: u32) {
        self.uppers[at].store(upper, Ordering::Relaxed);
        // Who reads the node reads its half of a hash.
        self.slots[at].store(slot, Ordering::Release);
    }

    /// Puts what is to be in a slot into an empty one of a table nobody else sees.
    fn fill(&self, slot: *mut N, upper: u32, bits: u32) {
        let mut at = self.home(upper << bits);
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = self.after(at);
        }
        self.put(at, slot, upper);
    }

    /// Slots with a node, tags in them, and the upper halves of the hashes, in order. A slot that changes
    /// meanwhile is seen with its half of then or of now.
    pub(super) fn filled(&self) -> impl Iterator<Item = (*mut N, u32)> {
        let both = self.slots.iter().zip(&self.uppers);
        both.filter_map(|(slot, upper)| {
            let slot = slot.load(Ordering::Acquire);
            is_node(slot).then(|| (slot, upper.load(Ordering::Relaxed)))
        })
    }

    /// The nodes in the order of slots.
    pub(super) fn nodes(&self) -> impl Iterator<Item = *mut N> {
        self.slots.iter().enumerate().filter_map(move |(at, slot)| {
            if let Some(ahead) = self.slots.get(at + 8).filter(|_| !cfg!(loom)) {
                prefetch(untag(ahead.load(Ordering::Relaxed)));
            }
            let slot = slot.load(Ordering::Acquire);
            is_node(slot).then(|| untag(slot))
        })
    }

    /// Octets of the slots and what stands beside them.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.slots) + size_of_val(&*self.uppers)
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
    fn has_room<N>(&mut self, table: &Table<N>, at: usize) -> bool {
        let empty = table.slots[at].load(Ordering::Relaxed).is_null();
        let room = !empty || self.used < limit(table.len());
        self.used += usize::from(empty && room);
        room
    }
}

/// A part of the hash space with a lock and a table of its own.
pub(super) struct Shard<N> {
    /// Null: no entries yet. Changed under the lock.
    table: AtomicPtr<Table<N>>,
    pub(super) fill: SpinLock<Fill>,
    /// Entries. Changed under the lock.
    pub(super) live: AtomicUsize,
    /// Changes to the contents ever made. Changed under the lock.
    pub(super) changes: AtomicU64,
}

/// A node and a table that were unlinked and are to be retired.
pub(super) struct Unlinked<N> {
    pub(super) node: *mut N,
    pub(super) table: *mut Table<N>,
}

impl<N> Default for Unlinked<N> {
    fn default() -> Self {
        Self {
            node: null_mut(),
            table: null_mut(),
        }
    }
}

impl<N> Shard<N> {
    fn new() -> Self {
        Self {
            table: AtomicPtr::new(null_mut()),
            fill: SpinLock::new(Fill::default()),
            live: AtomicUsize::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// The table, if there is one. The borrow is within a guard's life.
    #[inline(always)]
    pub(super) fn table(&self) -> Option<&Table<N>> {
        // SAFETY: a table is freed a grace period after it was replaced, or with its root.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// After a change, so that who sees the same generation twice has seen all changes but one that
    /// was going on.
    fn count(&self, live: usize) {
        self.live.store(live, Ordering::Relaxed);
        self.changes
            .store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Puts `node` in place of the entry at `at`, which has the same hash. The caller holds the lock.
    pub(super) fn replace(&self, at: usize, node: *mut N, hash: u64) -> Unlinked<N> {
        let table = self.table().expect("an entry was found in it");
        let old = table.slots[at].swap(pack(node, hash), Ordering::AcqRel);
        self.count(self.live.load(Ordering::Relaxed));
        Unlinked {
            node: untag(old),
            ..Unlinked::default()
        }
    }

    /// Puts a new entry in, at `free` if a search found that. The caller holds the lock and has found
    /// no equal key.
    pub(super) fn add(
        &self,
        fill: &mut Fill,
        free: Option<usize>,
        node: *mut N,
        hash: u64,
        bits: u32,
    ) -> Unlinked<N> {
        let live = self.live.load(Ordering::Relaxed) + 1;
        let mut unlinked = Unlinked::default();
        let (slot, upper) = (pack(node, hash), (hash >> 32) as u32);
        match (self.table(), free) {
            (Some(table), Some(at)) if fill.has_room(table, at) => table.put(at, slot, upper),
            _ => unlinked.table = self.rebuild(fill, live, bits, Some((slot, upper))),
        }
        self.count(live);
        unlinked
    }

    /// Takes the entry at `at` out. The caller holds the lock.
    pub(super) fn remove(&self, fill: &mut Fill, at: usize, bits: u32) -> Unlinked<N> {
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
        more: Option<(*mut N, u32)>,
    ) -> *mut Table<N> {
        let fresh = Box::new(Table::new(len_for(live)));
        let old = self.table().into_iter().flat_map(Table::filled);
        fill.used = 0;
        for (slot, upper) in more.into_iter().chain(old) {
            fresh.fill(slot, upper, bits);
            fill.used += 1;
        }
        self.table.swap(Box::into_raw(fresh), Ordering::AcqRel)
    }

    /// Forgets all entries: the table with the nodes in it is the caller's.
    pub(super) fn clear(&self, fill: &mut Fill) -> *mut Table<N> {
        fill.used = 0;
        self.count(0);
        self.table.swap(null_mut(), Ordering::AcqRel)
    }
}

impl<N> Drop for Shard<N> {
    fn drop(&mut self) {
        let table = self.table.load(Ordering::Acquire);
        if !table.is_null() {
            // SAFETY: made by `Box`; the shard owns its table (not the nodes), and is gone from all eyes.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

/// All shards: the hash's upper `bits` choose one.
pub(super) struct Root<N> {
    pub(super) bits: u32,
    pub(super) shards: Box<[CachePadded<Shard<N>>]>,
}

impl<N> Root<N> {
    pub(super) fn new(bits: u32) -> Self {
        Self {
            bits,
            shards: (0..1 << bits).map(|_| CachePadded(Shard::new())).collect(),
        }
    }

    #[inline(always)]
    pub(super) fn index(&self, hash: u64) -> usize {
        // What `rest` shifts out of the upper half.
        (u64::from((hash >> 32) as u32) << self.bits >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn shard(&self, hash: u64) -> &Shard<N> {
        &self.shards[self.index(hash)]
    }

    /// A root with `bits` and the entries of `shard`, whose lock the caller holds.
    pub(super) fn split(shard: &Shard<N>, bits: u32) -> Self {
        let root = Self::new(bits);
        let Some(table) = shard.table() else {
            return root;
        };
        let mut counts = vec![0; 1 << bits];
        let index = |upper: u32| root.index(u64::from(upper) << 32);
        table
            .filled()
            .for_each(|(_, upper)| counts[index(upper)] += 1);
        for (shard, count) in root.shards.iter().zip(&counts) {
            let table = Box::into_raw(Box::new(Table::new(len_for(*count))));
            shard.table.store(table, Ordering::Relaxed);
            shard.live.store(*count, Ordering::Relaxed);
            shard.fill.lock().used = *count;
        }
        for (slot, upper) in table.filled() {
            let table = root.shards[index(upper)].table();
            table.expect("made just now").fill(slot, upper, bits);
        }
        // Sums of changes must not fall.
        root.shards[0]
            .changes
            .store(shard.changes.load(Ordering::Relaxed), Ordering::Relaxed);
        root
    }
}

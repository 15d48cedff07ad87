// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The internals of [`super::RcuHash`]: nodes, slots, shards, roots. [`crate::hash`] explains the
//! design. Nothing here retires memory: unlinked memory is returned to the caller, which defers it
//! after it has released the shard's lock.
#![allow(unsafe_code)] // raw nodes and slot arrays

use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::primitive::{CachePadded, prefetch};
use crate::spin::SpinLock;
use core::ptr::{null_mut, without_provenance_mut};

/// A slot: null (empty), the tombstone, or a node's address with the tag in the upper 16 bits.
type Slot<N> = AtomicPtr<N>;

const ADDRESS: usize = (1 << 48) - 1;
const TOMBSTONE: usize = 1;
/// The minimum number of slots of a table.
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

/// Packs a node's address with its tag. Nodes are aligned to more than one byte, so no node has the
/// tombstone's address.
fn pack<N>(node: *mut N, hash: u64) -> *mut N {
    const { assert!(align_of::<N>() > TOMBSTONE) };
    assert!(node.addr() <= ADDRESS, "user-space addresses have 48 bits");
    node.map_addr(|address| address | tag_of(hash))
}

/// Returns the part of a hash that chooses an entry's home slot within a shard of a root with
/// `bits`.
#[inline(always)]
pub(super) fn rest(hash: u64, bits: u32) -> u32 {
    ((hash >> 32) as u32) << bits
}

/// The slots of a shard, and data beside them that only the shard's writers read.
pub(super) struct Table<N> {
    slots: Box<[Slot<N>]>,
    /// The upper half of each entry's hash, so that entries move to another table without being
    /// read.
    uppers: Box<[AtomicU32]>,
}

/// Returns how many slots may be in use (by entries or tombstones) in a table of `len` slots.
fn limit(len: usize) -> usize {
    len - (len * 3 / 16).max(1)
}

/// Returns the number of slots for `live` entries with room to grow by at least a quarter.
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

/// The result of a search.
pub(super) enum Place {
    /// The entry was found at this slot.
    Found(usize),
    /// There is no such entry; it could be inserted at this slot.
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

    /// Returns the slot at which the search for `rest` starts. It is monotonic in `rest`, which
    /// iteration relies on.
    #[inline(always)]
    pub(super) fn home(&self, rest: u32) -> usize {
        ((u64::from(rest) * self.slots.len() as u64) >> 32) as usize
    }

    /// Returns the least `rest` whose home slot is at or after `at`, which is below the number of
    /// slots.
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

    /// Returns the node at a slot: `Ok(None)` for a tombstone, and `Err` for an empty slot, which
    /// ends a search.
    #[inline(always)]
    pub(super) fn node(&self, at: usize) -> Result<Option<&N>, ()> {
        let slot = self.slots[at].load(Ordering::Acquire);
        if slot.is_null() {
            return Err(());
        }
        Ok(self.node_at(slot))
    }

    /// Returns the node of `slot`, a value read from this table.
    #[inline(always)]
    pub(super) fn node_at(&self, slot: *mut N) -> Option<&N> {
        // SAFETY: a node in a table is freed a grace period after it is unlinked from the table, or
        // by the drop of the hash; the table is borrowed within the lifetime of a guard and of a
        // borrow of the hash.
        is_node(slot).then(|| unsafe { &*untag(slot) })
    }

    /// Returns the first slot at or after `at` that is empty or has the tag of `hash`, and its
    /// content.
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

    /// Checks the candidates, beginning with the one found before.
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

    /// Prefetches the memory beside the slot that [`put`](Self::put) writes.
    #[inline]
    pub(super) fn prefetch_upper(&self, at: usize) {
        prefetch(core::ptr::from_ref(&self.uppers[at]));
    }

    /// Finds the entry or a slot for it. The caller holds the shard's lock.
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

    /// Stores a node in a slot without one. The caller holds the lock, or the table is not
    /// published.
    fn put(&self, at: usize, slot: *mut N, upper: u32) {
        self.uppers[at].store(upper, Ordering::Relaxed);
        // A thread that reads the node also sees its half of the hash.
        self.slots[at].store(slot, Ordering::Release);
    }

    /// Stores `slot` in an empty slot of a table that is not published.
    fn fill(&self, slot: *mut N, upper: u32, bits: u32) {
        let mut at = self.home(upper << bits);
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = self.after(at);
        }
        self.put(at, slot, upper);
    }

    /// Iterates over the slots with a node, including the tags, and the upper halves of the hashes,
    /// in order. A slot that changes concurrently may be returned with the old or the new half.
    pub(super) fn filled(&self) -> impl Iterator<Item = (*mut N, u32)> {
        let both = self.slots.iter().zip(&self.uppers);
        both.filter_map(|(slot, upper)| {
            let slot = slot.load(Ordering::Acquire);
            is_node(slot).then(|| (slot, upper.load(Ordering::Relaxed)))
        })
    }

    /// Iterates over the nodes in the order of the slots.
    pub(super) fn nodes(&self) -> impl Iterator<Item = *mut N> {
        self.slots.iter().enumerate().filter_map(move |(at, slot)| {
            if let Some(ahead) = self.slots.get(at + 8).filter(|_| !cfg!(loom)) {
                prefetch(untag(ahead.load(Ordering::Relaxed)));
            }
            let slot = slot.load(Ordering::Acquire);
            is_node(slot).then(|| untag(slot))
        })
    }

    /// Returns the number of bytes of the slots and the data beside them.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.slots) + size_of_val(&*self.uppers)
    }
}

/// The state of a shard that writers change under its lock.
#[derive(Default)]
pub(super) struct Fill {
    /// Slots in use: entries and tombstones.
    used: usize,
    /// True once a root with more shards has replaced this one. The writer must look up its shard
    /// again.
    pub(super) dead: bool,
}

impl Fill {
    /// Returns true if slot `at` may be filled, and counts it as used.
    fn has_room<N>(&mut self, table: &Table<N>, at: usize) -> bool {
        let empty = table.slots[at].load(Ordering::Relaxed).is_null();
        let room = !empty || self.used < limit(table.len());
        self.used += usize::from(empty && room);
        room
    }
}

/// A part of the hash space with its own lock and table.
pub(super) struct Shard<N> {
    /// The table, or null before the first insertion. Changed under the lock.
    table: AtomicPtr<Table<N>>,
    pub(super) fill: SpinLock<Fill>,
    /// The number of entries. Changed under the lock.
    pub(super) live: AtomicUsize,
    /// The total number of changes to the contents. Changed under the lock.
    pub(super) changes: AtomicU64,
}

/// An unlinked node and an unlinked table that are to be retired.
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

    /// Returns the table, if there is one. The borrow is within the lifetime of a guard.
    #[inline(always)]
    pub(super) fn table(&self) -> Option<&Table<N>> {
        // SAFETY: a table is freed a grace period after its replacement, or with its root.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// Counts a change after it was made. A reader that sees the same generation twice has
    /// therefore seen all changes, except possibly one in progress.
    fn count(&self, live: usize) {
        self.live.store(live, Ordering::Relaxed);
        self.changes
            .store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Replaces the entry at `at` by `node`, which has the same hash. The caller holds the lock.
    pub(super) fn replace(&self, at: usize, node: *mut N, hash: u64) -> Unlinked<N> {
        let table = self.table().expect("an entry was found in it");
        let old = table.slots[at].swap(pack(node, hash), Ordering::AcqRel);
        self.count(self.live.load(Ordering::Relaxed));
        Unlinked {
            node: untag(old),
            ..Unlinked::default()
        }
    }

    /// Inserts a new entry, at `free` if a search returned that. The caller holds the lock and has
    /// found no equal key.
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

    /// Removes the entry at `at`. The caller holds the lock.
    pub(super) fn remove(&self, fill: &mut Fill, at: usize, bits: u32) -> Unlinked<N> {
        let table = self.table().expect("an entry was found in it");
        let next = table.slots[table.after(at)].load(Ordering::Relaxed);
        let old;
        if next.is_null() {
            // The end of a run: no search continues past this slot, so it and the tombstones before
            // it become empty.
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

    /// Moves all entries, and one more, to a table sized for `live` entries. Returns the old table.
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

    /// Removes all entries. The caller becomes the owner of the table and its nodes.
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
            // SAFETY: created by `Box`; the shard owns its table (not the nodes), and no thread can
            // access it any more.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

/// All shards. The upper `bits` of a hash choose one.
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
        // The bits that `rest` shifts out of the upper half.
        (u64::from((hash >> 32) as u32) << self.bits >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn shard(&self, hash: u64) -> &Shard<N> {
        &self.shards[self.index(hash)]
    }

    /// Creates a root with `bits` from the entries of `shard`, whose lock the caller holds.
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
            table.expect("just created").fill(slot, upper, bits);
        }
        // The sum of all shards' changes must not decrease.
        root.shards[0]
            .changes
            .store(shard.changes.load(Ordering::Relaxed), Ordering::Relaxed);
        root
    }
}

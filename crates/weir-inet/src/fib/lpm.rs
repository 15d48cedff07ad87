// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Longest-prefix match over 32-bit and 128-bit keys with lock-free readers and one writer at a
//! time.
//!
//! The table is a multibit trie. Each node consumes six bits of the key. Bitmaps say which slots
//! are present, and the pointers are packed behind them (the tree bitmap of Eatherton, Varghese and
//! Dittia; `node` describes the layout). As in a Patricia trie, bits that decide nothing are
//! skipped, and a single prefix needs no node of its own, so that the depth depends on the number
//! of prefixes and not on the width of the key. A table with many prefixes also has an *index*: an
//! array over the first 12 or 18 bits. An index slot points straight at the topmost child below its
//! bits and says whether any prefix no longer than that covers them. Most lookups therefore touch
//! only the array and one prefix.
//!
//! **Readers** hold a guard of the table's RCU domain. They load pointers with acquire ordering and
//! follow them. Nothing they reach is freed before they drop their guard.
//!
//! **Writers** take the table's lock. Changing the shape of a node means building a new node and
//! publishing it with one store to the parent's pointer; then the index is updated, and only then
//! is the old node retired. A reader therefore sees the table before or after each change, never in
//! between.
//!
//! Costs: an insert or delete copies one node (two if it branches). An empty table is one struct
//! and no allocation. A prefix costs its value, its key, a pointer or two, and its share of the
//! nodes.
//!
//! Order: [`Lpm::walk`] visits prefixes by (key, length), both ascending, from any starting point.
#![allow(unsafe_code)] // follows the node pointers; see the module documentation for the argument

mod many;
mod node;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use node::{COVERED, Child, Entry, Node, Plan, STRIDE, Slot, leaf};
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::{AtomicPtr, AtomicUsize, Ordering};
use weir_sync::rcu::{Domain, Guard};

/// A key of the table: an address as a number, most significant bit first.
pub trait Key: Copy + Ord + Send + Sync + std::fmt::Debug + 'static {
    /// The width of the key in bits.
    const BITS: u8;
    /// The key with all bits zero.
    const ZERO: Self;
    /// Returns the six bits starting at bit `pos`, which is below `BITS`. Bits past the end read as
    /// zero.
    fn chunk(self, pos: u8) -> u8;
    /// Returns the first `bits` bits, with the rest zero.
    fn masked(self, bits: u8) -> Self;
    /// Returns the first `bits` bits, with the rest one.
    fn filled(self, bits: u8) -> Self;
    /// Returns the next key, or `None` after the last.
    fn next(self) -> Option<Self>;
    /// Returns the number of leading bits two keys share.
    fn common(self, other: Self) -> u8;
    /// Returns the first `bits` bits (1..=18) as a number.
    fn leading(self, bits: u8) -> usize;
    /// Returns the first key whose first `bits` bits equal `number`.
    fn from_leading(number: usize, bits: u8) -> Self;
    /// Returns the first `pos` bits of the key followed by `low`, a number of `len` bits.
    fn with(self, pos: u8, len: u8, low: u8) -> Self;
    /// Folds the key to 64 bits, for a hash.
    fn folded(self) -> u64;
}

macro_rules! key {
    ($type:ty, $bits:literal, $fold:expr) => {
        impl Key for $type {
            const BITS: u8 = $bits;
            const ZERO: Self = 0;
            #[inline]
            fn chunk(self, pos: u8) -> u8 {
                (self << pos >> ($bits - 6)) as u8
            }
            #[inline]
            fn masked(self, bits: u8) -> Self {
                if bits == 0 {
                    0
                } else {
                    self & (<$type>::MAX << ($bits - bits))
                }
            }
            fn filled(self, bits: u8) -> Self {
                if bits == $bits {
                    self
                } else {
                    self | (<$type>::MAX >> bits)
                }
            }
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
            #[inline]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            #[inline]
            fn leading(self, bits: u8) -> usize {
                (self >> ($bits - bits)) as usize
            }
            fn from_leading(number: usize, bits: u8) -> Self {
                (number as $type) << ($bits - bits)
            }
            fn with(self, pos: u8, len: u8, low: u8) -> Self {
                self.masked(pos) | (<$type>::from(low) << ($bits - pos - len))
            }
            #[inline]
            fn folded(self) -> u64 {
                let fold: fn($type) -> u64 = $fold;
                fold(self)
            }
        }
    };
}
key!(u32, 32, u64::from);
key!(u128, 128, |key| {
    // The multiplier keeps equal halves from cancelling out.
    (key >> 64) as u64 ^ (key as u64).wrapping_mul(0xff51_afd7_ed55_8ccd)
});

/// The change that [`Lpm::update`] applies to a prefix.
#[derive(Debug)]
pub enum Change<V> {
    /// Leave the prefix as it is.
    Keep,
    /// Add the prefix, or replace its value.
    Set(V),
    /// Remove the prefix if it exists.
    Remove,
}

/// Pointers to the topmost children below bit `bits` (nodes at or past it, and longer prefixes),
/// indexed by their first `bits` bits. [`COVERED`] marks slots that a shorter prefix covers.
struct Index {
    bits: u8,
    slots: Box<[Slot]>,
}

/// The sizes of the index: bits, the number of prefixes from which it is created, and the number
/// below which it is dropped.
const INDEX: [(u8, usize, usize); 2] = [(18, 32_768, 8_192), (12, 1_024, 256)];

/// A concurrent table of prefixes; see the module documentation.
pub struct Lpm<K: Key, V: Send + Sync + 'static> {
    /// The root node, or the only prefix, or null.
    top: Slot,
    /// The entry of the prefix of length 0, or null.
    shortest: AtomicPtr<Entry<K, V>>,
    /// The index, or null while the table is small.
    index: AtomicPtr<Index>,
    len: AtomicUsize,
    domain: Domain,
    /// Guards every change of the fields above and of the nodes' slots.
    writer: Mutex<(), order::Routes>,
    key: std::marker::PhantomData<K>,
}

/// Memory that was unlinked from the table and is freed after a grace period.
struct Retired<K, V> {
    nodes: [Option<Node<K, V>>; 3],
    count: usize,
    entry: *mut Entry<K, V>,
    index: *mut Index,
}

// SAFETY: the pointers are the last references to their targets; freeing those from another thread
// requires only V: Send.
unsafe impl<K: Key, V: Send + Sync> Send for Retired<K, V> {}

/// An entry that was unlinked from the table and is freed after a grace period.
struct RetiredEntry<K, V>(*mut Entry<K, V>);

// SAFETY: as for `Retired`.
unsafe impl<K: Key, V: Send + Sync> Send for RetiredEntry<K, V> {}

impl<K, V> RetiredEntry<K, V> {
    /// # Safety
    /// The entry may not be reachable any more.
    unsafe fn free(self) {
        // SAFETY: made by `Box::into_raw`, and this is the last pointer to it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<K: Key, V: Send + Sync + 'static> Retired<K, V> {
    fn new() -> Self {
        Self {
            nodes: [None; 3],
            count: 0,
            entry: std::ptr::null_mut(),
            index: std::ptr::null_mut(),
        }
    }

    fn node(&mut self, node: Node<K, V>) {
        self.nodes[self.count] = Some(node);
        self.count += 1;
    }

    /// # Safety
    /// Nothing held here may be reachable any more.
    unsafe fn free(self) {
        for node in self.nodes.into_iter().flatten() {
            // SAFETY: guaranteed by the caller.
            unsafe { node.free() }
        }
        if !self.entry.is_null() {
            // SAFETY: made by `Box::into_raw`, and this is the last pointer to it.
            drop(unsafe { Box::from_raw(self.entry) });
        }
        if !self.index.is_null() {
            // SAFETY: made by `Box::into_raw`, and this is the last pointer to it.
            drop(unsafe { Box::from_raw(self.index) });
        }
    }

    fn retire(self, domain: &Domain) {
        if self.count == 0 && self.entry.is_null() && self.index.is_null() {
            return;
        }
        if self.count == 0 && self.index.is_null() {
            // One word, which needs no memory to wait in.
            let entry = RetiredEntry(self.entry);
            // SAFETY: as below.
            return domain.defer_bytes(0, move || unsafe { entry.free() });
        }
        let bytes = self.nodes.iter().flatten().map(|node| {
            // SAFETY: the node is freed below.
            unsafe { node.bytes() }
        });
        let bytes = bytes.sum();
        let alone = self.entry.is_null() && self.index.is_null();
        // SAFETY: all of it was unlinked before this call, and the domain runs the closure only
        // after every reader that could have seen it has finished.
        let free = move || unsafe { self.free() };
        match alone {
            // Nodes are memory and nothing else, which nobody waits for (`node_free`, `tnode_free`).
            true => domain.defer_lazy(bytes, free),
            false => domain.defer_bytes(bytes, free),
        }
    }
}

impl Index {
    /// Returns the numbers of the slots that a prefix of at most `bits` bits covers.
    fn covered_by<K: Key>(&self, key: K, len: u8) -> std::ops::Range<usize> {
        let first = key.masked(len).leading(self.bits);
        first..first + (1 << (self.bits - len))
    }

    fn cover<K: Key>(&self, key: K, len: u8) {
        self.covered_by(key, len)
            .for_each(|number| self.set_covered(number, true));
    }

    // Only the writer changes slots, so a separate load and store are safe.

    fn set(&self, number: usize, pointer: *mut u8) {
        let slot = &self.slots[number];
        let covered = slot.load(Ordering::Relaxed).addr() & COVERED;
        slot.store(
            pointer.map_addr(|address| address | covered),
            Ordering::Release,
        );
    }

    fn set_covered(&self, number: usize, covered: bool) {
        let slot = &self.slots[number];
        let flag = if covered { COVERED } else { 0 };
        let pointer = slot.load(Ordering::Relaxed);
        slot.store(
            pointer.map_addr(|address| address & !COVERED | flag),
            Ordering::Release,
        );
    }
}

/// The location of a prefix.
enum Place<'a> {
    Missing,
    /// The prefix of length 0.
    Default,
    /// A value slot of a node.
    Value(&'a Slot),
    /// A leaf in a child slot.
    Leaf(&'a Slot),
}

/// One of two members of a new node.
struct Member<K> {
    key: K,
    pos: u8,
    /// The pointer for a child slot.
    pointer: *mut u8,
    /// For an entry, its place in a node at its own position.
    place: Option<(u8, u8)>,
}

impl<K: Key> Member<K> {
    fn of<V>(entry: &Entry<K, V>, pointer: *mut u8) -> Self {
        Self {
            key: entry.key,
            pos: entry.pos(),
            pointer,
            place: Some(entry.place()),
        }
    }

    /// # Safety
    /// As for [`Node::header`].
    unsafe fn node<V>(node: Node<K, V>) -> Self {
        // SAFETY: guaranteed by the caller.
        let header = unsafe { node.header() };
        Self {
            key: header.key,
            pos: header.pos,
            pointer: node.into_raw(),
            place: None,
        }
    }

    fn join(self, plan: &mut Plan<K>) {
        match self.place {
            Some((rel, low)) if self.pos == plan.pos => {
                let entry = self.pointer.map_addr(|address| address & !node::LEAF);
                plan.values.push((rel, low, entry));
            }
            _ => plan.children.push((self.key.chunk(plan.pos), self.pointer)),
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> Lpm<K, V> {
    /// Creates an empty table whose readers pin `domain`.
    pub fn new(domain: &Domain) -> Self {
        Self {
            top: AtomicPtr::default(),
            shortest: AtomicPtr::default(),
            index: AtomicPtr::default(),
            len: AtomicUsize::new(0),
            domain: domain.clone(),
            writer: Mutex::new(()),
            key: std::marker::PhantomData,
        }
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the longest prefix of at most `limit` bits that covers `key`, with its length. To
    /// continue with the next shorter prefix, call it again with a limit of one less than that
    /// length.
    #[inline]
    pub fn longest<'g>(&'g self, key: K, limit: u8, guard: &'g Guard) -> Option<(u8, &'g V)> {
        guard.check(&self.domain);
        // SAFETY: published pointers are read under the guard.
        let entry = unsafe { self.entry(self.index.load(Ordering::Acquire).as_ref(), key, limit) }?;
        Some((entry.len, &entry.value))
    }

    /// Returns the entry of the longest prefix. Does not read an entry that a node points to.
    ///
    /// # Safety
    /// The caller holds a guard for `'g`.
    #[inline]
    unsafe fn entry<'g>(
        &'g self,
        index: Option<&'g Index>,
        key: K,
        limit: u8,
    ) -> Option<&'g Entry<K, V>> {
        // SAFETY: published pointers are read under the caller's guard.
        unsafe {
            match index {
                Some(index) if limit > index.bits => {
                    let slot = index.slots[key.leading(index.bits)].load(Ordering::Acquire);
                    match Self::search(Node::child_at(slot), key, limit) {
                        None if slot.addr() & COVERED != 0 => {
                            Self::search(Node::load(&self.top), key, index.bits)
                        }
                        found => found,
                    }
                }
                _ => Self::search(Node::load(&self.top), key, limit),
            }
            .or_else(|| self.shortest.load(Ordering::Acquire).as_ref())
        }
    }

    /// # Safety
    /// The caller holds a guard or the lock for `'g`.
    #[inline]
    unsafe fn search<'g>(mut child: Child<'g, K, V>, key: K, limit: u8) -> Option<&'g Entry<K, V>> {
        let mut best: Option<(Node<K, V>, u8, u8)> = None;
        let here = loop {
            let here = match child {
                Child::None => break best,
                Child::Leaf(entry) => {
                    if entry.len <= limit && key.common(entry.key) >= entry.len {
                        return Some(entry);
                    }
                    break best;
                }
                Child::Node(node) => node,
            };
            // SAFETY: reached through published pointers under the caller's guard or lock.
            let header = unsafe { here.header() };
            if header.pos >= limit || key.common(header.key) < header.pos {
                break best;
            }
            let chunk = key.chunk(header.pos);
            if let Some((len, low)) = header.longest(chunk, limit - header.pos) {
                best = Some((here, len, low));
            }
            // SAFETY: as above; a child slot holds a child.
            child = match unsafe { here.child(chunk) } {
                // SAFETY: as above.
                Some(slot) => unsafe { Node::load(slot) },
                None => break best,
            };
        };
        let (here, len, low) = here?;
        // SAFETY: as above; an entry's slot holds an entry and is never null.
        unsafe {
            Some(
                &*here
                    .value(len, low)?
                    .load(Ordering::Acquire)
                    .cast::<Entry<K, V>>(),
            )
        }
    }

    /// Returns the value of exactly this prefix.
    pub fn get<'g>(&'g self, key: K, len: u8, guard: &'g Guard) -> Option<&'g V> {
        match self.longest(key, len, guard) {
            Some((found, value)) if found == len => Some(value),
            _ => None,
        }
    }

    /// Adds a prefix or replaces its value. Returns whether the prefix is new. Bits of `key` past
    /// `len` are ignored.
    pub fn insert(&self, key: K, len: u8, value: V) -> bool {
        self.update(key, len, |old| (Change::Set(value), old.is_none()))
    }

    /// Removes a prefix. Returns whether it existed.
    pub fn remove(&self, key: K, len: u8) -> bool {
        self.update(key, len, |old| (Change::Remove, old.is_some()))
    }

    /// Reads and changes one prefix atomically: `change` sees its value under the writer's lock. It
    /// must not change this table itself.
    ///
    /// # Panics
    /// If `len` exceeds the width of the key.
    pub fn update<R>(
        &self,
        key: K,
        len: u8,
        change: impl FnOnce(Option<&V>) -> (Change<V>, R),
    ) -> R {
        assert!(len <= K::BITS, "a prefix is no longer than its key");
        let key = key.masked(len);
        // The closure runs before anything is changed, so the table stays consistent if it panics.
        let lock = self.writer.lock();
        let mut retired = Retired::new();
        // SAFETY: the lock is held throughout, so nothing reached here is retired meanwhile.
        let result = unsafe {
            let place = self.place(key, len);
            let old = match place {
                Place::Missing => std::ptr::null_mut(),
                Place::Default => self.shortest.load(Ordering::Relaxed),
                Place::Value(slot) => slot.load(Ordering::Relaxed).cast(),
                Place::Leaf(slot) => {
                    let raw = slot.load(Ordering::Relaxed);
                    raw.map_addr(|address| address & !node::LEAF).cast()
                }
            };
            let (change, result) = change(old.as_ref().map(|entry| &entry.value));
            match change {
                Change::Keep => return result,
                Change::Set(value) => {
                    let entry = Box::into_raw(Box::new(Entry { key, len, value }));
                    retired.entry = old;
                    match place {
                        Place::Default => self.shortest.store(entry, Ordering::Release),
                        Place::Value(slot) => slot.store(entry.cast(), Ordering::Release),
                        Place::Leaf(slot) => slot.store(leaf(entry), Ordering::Release),
                        Place::Missing => self.link(&*entry, entry, &mut retired),
                    }
                    if old.is_null() {
                        self.len.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Change::Remove if old.is_null() => return result,
                Change::Remove => {
                    retired.entry = old;
                    if len == 0 {
                        self.shortest.store(std::ptr::null_mut(), Ordering::Release);
                    } else {
                        self.unlink(&*old, &mut retired);
                    }
                    self.len.fetch_sub(1, Ordering::Relaxed);
                }
            }
            self.mend_index(key, len, &mut retired);
            result
        };
        retired.retire(&self.domain);
        drop(lock);
        result
    }

    /// Finds the location of a prefix.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn place(&self, key: K, len: u8) -> Place<'_> {
        let Some(pos) = len.checked_sub(1).map(|last| last / STRIDE * STRIDE) else {
            return Place::Default;
        };
        // SAFETY: the lock is held.
        unsafe {
            let mut link = &self.top;
            loop {
                let here = match Node::<K, V>::load(link) {
                    Child::Leaf(entry) if (entry.key, entry.len) == (key, len) => {
                        return Place::Leaf(link);
                    }
                    Child::Node(node) => node,
                    _ => return Place::Missing,
                };
                let header = here.header();
                if header.pos > pos || key.common(header.key) < header.pos {
                    return Place::Missing;
                }
                let chunk = key.chunk(header.pos);
                let slot = if header.pos == pos {
                    let rel = len - pos;
                    return here
                        .value(rel, chunk >> (STRIDE - rel))
                        .map_or(Place::Missing, Place::Value);
                } else {
                    here.child(chunk)
                };
                let Some(slot) = slot else {
                    return Place::Missing;
                };
                link = slot;
            }
        }
    }

    /// Adds an entry of length 1 or more that is not in the table yet.
    ///
    /// # Safety
    /// The lock is held; `raw` is the entry's own pointer.
    unsafe fn link(&self, entry: &Entry<K, V>, raw: *mut Entry<K, V>, retired: &mut Retired<K, V>) {
        let (key, pos) = (entry.key, entry.pos());
        // SAFETY: the lock is held; new nodes are complete before the release store publishes them.
        unsafe {
            let mut link = &self.top;
            let new = loop {
                let (other, other_pos, child) = match Node::<K, V>::load(link) {
                    Child::None => break leaf(raw),
                    Child::Leaf(there) => (
                        there.key,
                        there.pos(),
                        Member::of(there, link.load(Ordering::Relaxed)),
                    ),
                    Child::Node(node) => {
                        let header = node.header();
                        let common = key.common(header.key).min(header.pos).min(pos);
                        if common == header.pos {
                            let mut plan;
                            if header.pos == pos {
                                plan = node.plan();
                                let (rel, low) = entry.place();
                                plan.values.push((rel, low, raw.cast()));
                            } else {
                                let chunk = key.chunk(header.pos);
                                if let Some(slot) = node.child(chunk) {
                                    link = slot;
                                    continue;
                                }
                                plan = node.plan();
                                plan.children.push((chunk, leaf(raw)));
                            }
                            retired.node(node);
                            break Node::<K, V>::build(plan).into_raw();
                        }
                        (header.key, header.pos, Member::node(node))
                    }
                };
                // Both become members of a new node, at the position of the shorter one or where
                // they diverge.
                let common = key.common(other).min(other_pos).min(pos);
                let at = common / STRIDE * STRIDE;
                let mut plan = Plan {
                    key,
                    pos: at,
                    children: Vec::new(),
                    values: Vec::new(),
                };
                Member::of(entry, leaf(raw)).join(&mut plan);
                child.join(&mut plan);
                break Node::<K, V>::build(plan).into_raw();
            };
            link.store(new, Ordering::Release);
        }
    }

    /// Removes an entry of length 1 or more from its location.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn unlink(&self, entry: &Entry<K, V>, retired: &mut Retired<K, V>) {
        let (key, pos) = (entry.key, entry.pos());
        // SAFETY: the lock is held.
        unsafe {
            let mut parent: Option<(&Slot, Node<K, V>)> = None;
            let mut link = &self.top;
            loop {
                match Node::<K, V>::load(link) {
                    Child::None => return,
                    Child::Node(node) if node.header().pos < pos => {
                        let Some(slot) = node.child(key.chunk(node.header().pos)) else {
                            return;
                        };
                        parent = Some((link, node));
                        link = slot;
                    }
                    Child::Node(node) => {
                        let mut plan = node.plan();
                        let place = entry.place();
                        plan.values.retain(|value| (value.0, value.1) != place);
                        retired.node(node);
                        link.store(Self::shrunk(plan), Ordering::Release);
                        return;
                    }
                    Child::Leaf(_) => {
                        let Some((link, node)) = parent else {
                            link.store(std::ptr::null_mut(), Ordering::Release);
                            return;
                        };
                        let chunk = key.chunk(node.header().pos);
                        let mut plan = node.plan();
                        plan.children.retain(|child| child.0 != chunk);
                        retired.node(node);
                        link.store(Self::shrunk(plan), Ordering::Release);
                        return;
                    }
                }
            }
        }
    }

    /// Builds the node for a plan, or returns the plan's only member if it has just one.
    fn shrunk(plan: Plan<K>) -> *mut u8 {
        match (plan.values.as_slice(), plan.children.as_slice()) {
            ([], [(_, child)]) => *child,
            ([(_, _, entry)], []) => leaf(entry.cast::<Entry<K, V>>()),
            _ => Node::<K, V>::build(plan).into_raw(),
        }
    }

    /// Updates the index after a change of `key`/`len`, or changes its size.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn mend_index(&self, key: K, len: u8, retired: &mut Retired<K, V>) {
        let count = self.len();
        // SAFETY: the lock is held; index slots and the top slot hold nodes.
        unsafe {
            let old = self.index.load(Ordering::Relaxed);
            let bits = old.as_ref().map_or(0, |index| index.bits);
            let wanted = INDEX
                .iter()
                .find(|row| count >= if bits >= row.0 { row.2 } else { row.1 })
                .map_or(0, |row| row.0);
            if wanted != bits {
                retired.index = old;
                let new = if wanted == 0 {
                    std::ptr::null_mut()
                } else {
                    let slots = (0..1usize << wanted).map(|_| Slot::default()).collect();
                    let index = Index {
                        bits: wanted,
                        slots,
                    };
                    Self::fill(&self.top, &index);
                    Box::into_raw(Box::new(index))
                };
                self.index.store(new, Ordering::Release);
                return;
            }
            let Some(index) = old.as_ref().filter(|_| len > 0) else {
                return;
            };
            if len <= bits {
                // Such a prefix moves nothing below the index, but it may change which slots are
                // covered.
                for number in index.covered_by(key, len) {
                    let key = K::from_leading(number, bits);
                    let covers = Self::search(Node::load(&self.top), key, bits).is_some();
                    index.set_covered(number, covers);
                }
                return;
            }
            let mut link = &self.top;
            let pointer = loop {
                match Node::<K, V>::load(link) {
                    Child::Node(node) => {
                        let header = node.header();
                        let shared = key.common(header.key);
                        if header.pos >= bits {
                            let ours = shared >= bits;
                            break if ours {
                                node.into_raw()
                            } else {
                                std::ptr::null_mut()
                            };
                        }
                        let chunk = key.chunk(header.pos);
                        match node.child(chunk).filter(|_| shared >= header.pos) {
                            Some(slot) => link = slot,
                            None => break std::ptr::null_mut(),
                        }
                    }
                    Child::Leaf(entry) if entry.len > bits && key.common(entry.key) >= bits => {
                        break link.load(Ordering::Relaxed);
                    }
                    _ => break std::ptr::null_mut(),
                }
            };
            index.set(key.leading(bits), pointer);
        }
    }

    /// Enters everything below `link` into a new index.
    ///
    /// # Safety
    /// The lock is held.
    unsafe fn fill(link: &Slot, index: &Index) {
        // SAFETY: the lock is held.
        unsafe {
            match Node::<K, V>::load(link) {
                Child::None => {}
                Child::Leaf(entry) if entry.len <= index.bits => {
                    index.cover(entry.key, entry.len);
                }
                Child::Leaf(entry) => {
                    let number = entry.key.leading(index.bits);
                    index.set(number, link.load(Ordering::Relaxed));
                }
                Child::Node(node) if node.header().pos >= index.bits => {
                    index.set(node.header().key.leading(index.bits), node.into_raw());
                }
                Child::Node(node) => {
                    for slot in node.values() {
                        let entry = &*slot.load(Ordering::Relaxed).cast::<Entry<K, V>>();
                        index.cover(entry.key, entry.len);
                    }
                    for slot in node.children() {
                        Self::fill(slot, index);
                    }
                }
            }
        }
    }

    /// Calls `visit` for every prefix from `from` on (inclusive), ordered by key and then length,
    /// until it breaks. A prefix that is added or removed meanwhile may or may not be visited.
    pub fn walk<'g, B>(
        &'g self,
        from: (K, u8),
        guard: &'g Guard,
        mut visit: impl FnMut(K, u8, &'g V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        guard.check(&self.domain);
        // SAFETY: published pointers are read under the guard.
        unsafe {
            if from <= (K::ZERO, 0)
                && let Some(entry) = self.shortest.load(Ordering::Acquire).as_ref()
            {
                visit(K::ZERO, 0, &entry.value)?;
            }
            Self::walk_child(Node::load(&self.top), from, &mut visit)
        }
    }

    /// # Safety
    /// The caller holds a guard for `'g`.
    unsafe fn walk_child<'g, B>(
        child: Child<'g, K, V>,
        from: (K, u8),
        visit: &mut impl FnMut(K, u8, &'g V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let here = match child {
            Child::None => return ControlFlow::Continue(()),
            Child::Leaf(entry) if (entry.key, entry.len) < from => {
                return ControlFlow::Continue(());
            }
            Child::Leaf(entry) => return visit(entry.key, entry.len, &entry.value),
            Child::Node(node) => node,
        };
        // SAFETY: reached through published pointers under the guard.
        let header = unsafe { here.header() };
        let (key, pos) = (header.key, header.pos);
        if key.filled(pos) < from.0 {
            return ControlFlow::Continue(());
        }
        let first = if key == from.0.masked(pos) {
            from.0.chunk(pos)
        } else {
            0
        };
        for chunk in (first..64).filter(|&chunk| header.starts(chunk)) {
            // The prefixes whose own key has this chunk are those whose bits past their length are
            // zero.
            let shortest = STRIDE.saturating_sub(chunk.trailing_zeros() as u8).max(1);
            for len in shortest..=STRIDE.min(K::BITS - pos) {
                let low = chunk >> (STRIDE - len);
                let place = (key.with(pos, len, low), pos + len);
                if place < from {
                    continue;
                }
                // SAFETY: as above.
                if let Some(slot) = unsafe { here.value(len, low) } {
                    // SAFETY: an entry's slot holds an entry and is never null.
                    let entry = unsafe { &*slot.load(Ordering::Acquire).cast::<Entry<K, V>>() };
                    visit(entry.key, entry.len, &entry.value)?;
                }
            }
            // SAFETY: as above.
            if let Some(slot) = unsafe { here.child(chunk) } {
                // SAFETY: as above; a child slot holds a child.
                unsafe { Self::walk_child(Node::load(slot), from, visit)? };
            }
        }
        ControlFlow::Continue(())
    }

    /// # Safety
    /// Nothing below the slot may be reachable by anyone else.
    unsafe fn free_all(slot: &Slot) {
        // SAFETY: the caller guarantees sole ownership; each entry and node has exactly one slot.
        unsafe {
            match Node::<K, V>::load(slot) {
                Child::None => {}
                Child::Leaf(_) => {
                    let raw = slot.load(Ordering::Relaxed);
                    let raw = raw.map_addr(|address| address & !node::LEAF);
                    drop(Box::from_raw(raw.cast::<Entry<K, V>>()));
                }
                Child::Node(node) => {
                    for slot in node.children() {
                        Self::free_all(slot);
                    }
                    for slot in node.values() {
                        let entry = slot.load(Ordering::Relaxed);
                        drop(Box::from_raw(entry.cast::<Entry<K, V>>()));
                    }
                    node.free();
                }
            }
        }
    }
}

impl<K: Key, V: Send + Sync + 'static> Drop for Lpm<K, V> {
    fn drop(&mut self) {
        // SAFETY: no reader is left, because what readers hold borrows the table; retired memory is
        // not reachable from here.
        unsafe {
            Self::free_all(&self.top);
            let shortest = self.shortest.load(Ordering::Relaxed);
            if !shortest.is_null() {
                drop(Box::from_raw(shortest));
            }
            let index = self.index.load(Ordering::Relaxed);
            if !index.is_null() {
                drop(Box::from_raw(index));
            }
        }
    }
}

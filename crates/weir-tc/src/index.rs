// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of objects by a 32-bit number that clients see: action indices and filter handles
//! (Linux's `struct idr`).
//!
//! A number is reserved first, the lowest free one or the one asked for, and the object put there
//! when all that could fail has not. Objects lie in pages of neighbouring numbers, pages in shards, each
//! with a lock of its own that is held for one operation; the data path never looks here. Walks go up by
//! number and may be interrupted anywhere: the next call names the number to go on from.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sync::index::IndexAllocator;
use weir_sync::primitive::{CachePadded, prefetch};
use weir_sync::spin::SpinLock;

/// Shards of a table; a power of two. Neighbouring pages are in different ones.
const SHARDS: u32 = 8;
/// Numbers of a page, as a power of two.
const PAGE_BITS: u32 = 4;
/// Pages of a leaf, as a power of two.
const LEAF_BITS: u32 = 6;

/// The objects of neighbouring numbers; a page of none goes. No more than a power of two of octets,
/// which is what allocators give.
type Page<V> = [Option<Arc<V>>; 1 << PAGE_BITS];

/// Pages of a shard that are neighbours there.
struct Leaf<V: ?Sized> {
    /// How many are there; a leaf of none goes.
    used: u8,
    pages: [Option<Box<Page<V>>>; 1 << LEAF_BITS],
}

/// What falls to one lock: eight octets and a bit for each object where numbers are dense.
struct Shard<V: ?Sized> {
    leaves: BTreeMap<u32, Box<Leaf<V>>>,
    /// Objects.
    len: usize,
}

impl<V: ?Sized> Default for Shard<V> {
    fn default() -> Self {
        Self {
            leaves: BTreeMap::new(),
            len: 0,
        }
    }
}

/// Leaf, page in the leaf, and slot in the page.
fn place(index: u32) -> (u32, usize, usize) {
    let page = index >> PAGE_BITS;
    let local = page / SHARDS;
    let slot = index & ((1 << PAGE_BITS) - 1);
    let in_leaf = local & ((1 << LEAF_BITS) - 1);
    (local >> LEAF_BITS, in_leaf as usize, slot as usize)
}

impl<V: ?Sized> Shard<V> {
    fn page(&self, index: u32) -> Option<&Page<V>> {
        let (leaf, page, _) = place(index);
        self.leaves.get(&leaf)?.pages[page].as_deref()
    }

    fn get(&self, index: u32) -> Option<&Arc<V>> {
        let (_, _, slot) = place(index);
        self.page(index)?[slot].as_ref()
    }

    fn get_mut(&mut self, index: u32) -> Option<&mut Arc<V>> {
        let (leaf, page, slot) = place(index);
        self.leaves.get_mut(&leaf)?.pages[page].as_mut()?[slot].as_mut()
    }

    fn put(&mut self, index: u32, value: Arc<V>) {
        let (leaf, page, slot) = place(index);
        let leaf = self.leaves.entry(leaf).or_insert_with(|| {
            Box::new(Leaf {
                used: 0,
                pages: [const { None }; 1 << LEAF_BITS],
            })
        });
        let page = &mut leaf.pages[page];
        leaf.used += u8::from(page.is_none());
        let page = page.get_or_insert_with(|| Box::new([const { None }; 1 << PAGE_BITS]));
        page[slot] = Some(value);
        self.len += 1;
    }

    fn take(&mut self, index: u32, value: &Arc<V>) -> Option<Arc<V>> {
        let (at, page, slot) = place(index);
        let leaf = self.leaves.get_mut(&at)?;
        let here = leaf.pages[page].as_mut()?;
        let value = here[slot].take_if(|here| Arc::ptr_eq(here, value))?;
        self.len -= 1;
        // Numbers mostly go upwards.
        if here.iter().rev().all(Option::is_none) {
            leaf.pages[page] = None;
            leaf.used -= 1;
            if leaf.used == 0 {
                self.leaves.remove(&at);
            }
        }
        Some(value)
    }
}

/// Why a number could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The number asked for is taken.
    InUse,
    /// No number is free.
    Full,
}

/// A table; see the module's head. Number 0 is never given.
pub struct IndexTable<V: ?Sized> {
    /// The numbers taken, reserved ones included.
    ids: IndexAllocator,
    /// Guards the objects whose number falls here.
    shards: [CachePadded<SpinLock<Shard<V>>>; SHARDS as usize],
}

impl<V: ?Sized> std::fmt::Debug for IndexTable<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ids.fmt(f)
    }
}

impl<V: ?Sized> Default for IndexTable<V> {
    fn default() -> Self {
        Self {
            ids: IndexAllocator::new(1..=u32::MAX),
            shards: std::array::from_fn(|_| CachePadded(SpinLock::default())),
        }
    }
}

impl<V: ?Sized> IndexTable<V> {
    fn shard(&self, index: u32) -> &SpinLock<Shard<V>> {
        &self.shards[((index >> PAGE_BITS) % SHARDS) as usize]
    }

    /// Reserves `want`, or the lowest free number up to `max`. It is taken until
    /// [`publish`](Self::publish)ed and removed, or [`cancel`](Self::cancel)led.
    pub fn reserve(&self, want: Option<u32>, max: u32) -> Result<u32, Refused> {
        match want {
            Some(0) => Err(Refused::InUse),
            Some(index) if self.ids.reserve(index) => Ok(index),
            Some(_) => Err(Refused::InUse),
            None => self.ids.allocate_in(1..=max).ok_or(Refused::Full),
        }
    }

    /// Gives a reserved number back.
    pub fn cancel(&self, index: u32) {
        self.ids.free(index);
    }

    /// Puts an object at a number reserved for it.
    pub fn publish(&self, index: u32, value: Arc<V>) {
        self.shard(index).lock().put(index, value);
    }

    /// The object at a number.
    pub fn get(&self, index: u32) -> Option<Arc<V>> {
        if !self.ids.is_taken(index) {
            return None;
        }
        self.shard(index).lock().get(index).cloned()
    }

    /// Puts `new` where `old` is; `false`, and nothing done, if `old` is there no more.
    pub fn replace(&self, index: u32, old: &Arc<V>, new: Arc<V>) -> bool {
        let mut shard = self.shard(index).lock();
        let before = match shard.get_mut(index) {
            Some(place) if Arc::ptr_eq(place, old) => std::mem::replace(place, new),
            _ => return false,
        };
        drop(shard);
        drop(before);
        true
    }

    /// Takes `value` out and frees its number; `false` if it is there no more.
    pub fn remove(&self, index: u32, value: &Arc<V>) -> bool {
        let Some(gone) = self.shard(index).lock().take(index, value) else {
            return false;
        };
        drop(gone);
        self.ids.free(index);
        true
    }

    /// The first object at `from` or above.
    pub fn next(&self, mut from: u32) -> Option<(u32, Arc<V>)> {
        loop {
            let index = self.ids.next(from)?;
            // What is only reserved is passed over.
            if let Some(value) = self.get(index) {
                return Some((index, value));
            }
            from = index.checked_add(1)?;
        }
    }

    /// Adds to `all` the first objects at `from` or above, as many as are neighbours; none when there are
    /// none. What a caller reads of them first is asked for.
    pub fn next_few<T>(&self, from: u32, all: &mut Vec<T>, mut of: impl FnMut(u32, &Arc<V>) -> T) {
        let mut from = Some(from);
        while let Some(index) = from.and_then(|from| self.ids.next(from)) {
            let (_, _, slot) = place(index);
            let shard = self.shard(index).lock();
            let page = shard.page(index).map_or(&[][..], |page| &page[slot..]);
            for value in page.iter().flatten() {
                let start = Arc::as_ptr(value).cast::<[u8; 64]>();
                (0..2).for_each(|line| prefetch(start.wrapping_add(line)));
            }
            let before = all.len();
            let there = page.iter().enumerate();
            all.extend(
                there.filter_map(|(at, value)| Some(of(index + at as u32, value.as_ref()?))),
            );
            if all.len() > before {
                return;
            }
            // What is only reserved is passed over.
            from = (index | ((1 << PAGE_BITS) - 1)).checked_add(1);
        }
    }

    /// Objects in the table.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len).sum()
    }

    /// Whether no object is in the table.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_with_their_last_object() {
        let table = IndexTable::<u32>::default();
        let all: Vec<_> = (1..3000).map(|id| (id, Arc::new(id))).collect();
        for (id, value) in &all {
            table.reserve(Some(*id), *id).unwrap();
            table.publish(*id, value.clone());
        }
        assert!(
            all.iter()
                .all(|(id, value)| *table.get(*id).unwrap() == **value)
        );
        for (id, value) in all.iter().rev() {
            assert!(table.remove(*id, value));
            assert!(table.get(*id).is_none());
        }
        assert!(
            table
                .shards
                .iter()
                .all(|shard| shard.lock().leaves.is_empty())
        );
        assert!(table.is_empty() && table.next(0).is_none());
    }

    #[test]
    fn numbers_are_the_lowest_free_or_the_one_asked_for() {
        let table = IndexTable::<u32>::default();
        assert_eq!(table.reserve(None, u32::MAX), Ok(1));
        assert_eq!(table.reserve(Some(3), u32::MAX), Ok(3));
        assert_eq!(table.reserve(Some(3), u32::MAX), Err(Refused::InUse));
        assert_eq!(table.reserve(None, u32::MAX), Ok(2));
        assert_eq!(table.reserve(None, 3), Err(Refused::Full));
        assert_eq!(table.reserve(None, u32::MAX), Ok(4));
        assert_eq!(table.reserve(Some(u32::MAX), u32::MAX), Ok(u32::MAX));
        table.cancel(2);
        assert_eq!(table.reserve(None, u32::MAX), Ok(2));
        for id in 5..300 {
            assert_eq!(table.reserve(None, u32::MAX), Ok(id));
        }
        table.cancel(70);
        assert_eq!(table.reserve(None, u32::MAX), Ok(70));
    }

    #[test]
    fn a_walk_goes_up_and_survives_change() {
        let table = IndexTable::<u32>::default();
        for id in [7, 63, 64, 500, 65_536, u32::MAX] {
            table.reserve(Some(id), u32::MAX).unwrap();
            table.publish(id, Arc::new(id));
        }
        let mut few = vec![];
        table.next_few(8, &mut few, |id, value| (id, **value));
        assert_eq!(few, [(63, 63)]);
        table.reserve(Some(66), 66).unwrap();
        table.next_few(64, &mut few, |id, value| (id, **value));
        table.next_few(65, &mut few, |id, value| (id, **value));
        table.next_few(u32::MAX, &mut few, |id, value| (id, **value));
        assert_eq!(few, [(63, 63), (64, 64), (500, 500), (u32::MAX, u32::MAX)]);
        table.cancel(66);
        let mut seen = vec![];
        let mut from = Some(0);
        while let Some((id, value)) = from.and_then(|from| table.next(from)) {
            assert_eq!(*value, id);
            seen.push(id);
            if id == 63 {
                let value = table.get(500).unwrap();
                assert!(table.remove(500, &value) && !table.remove(500, &value));
            }
            from = id.checked_add(1);
        }
        assert_eq!(seen, [7, 63, 64, 65_536, u32::MAX]);
        assert_eq!(table.len(), 5);
    }
}

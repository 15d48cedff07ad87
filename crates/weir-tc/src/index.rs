// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of objects by a 32-bit number visible to clients: action indices and filter handles
//! (Linux's `struct idr`).
//!
//! A request first reserves a number, the lowest free one or a specific one. It publishes the
//! object at that number once nothing can fail any more. Objects are stored in pages of consecutive
//! numbers, and pages in shards. Each shard has its own lock, which is held for one operation; the
//! data path never uses these tables. Walks are in ascending order and may be interrupted anywhere:
//! the next call gives the number to continue from.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sync::index::IndexAllocator;
use weir_sync::primitive::{CachePadded, prefetch};
use weir_sync::spin::SpinLock;

/// The number of shards of a table, a power of two. Adjacent pages are in different shards.
const SHARDS: u32 = 8;
/// log2 of the numbers per page.
const PAGE_BITS: u32 = 4;
/// log2 of the pages per leaf.
const LEAF_BITS: u32 = 6;

/// The objects of consecutive numbers. An empty page is freed. The size is exactly a power of two,
/// which suits the size classes of allocators.
type Page<V> = [Option<Arc<V>>; 1 << PAGE_BITS];

/// Consecutive pages of one shard.
struct Leaf<V: ?Sized> {
    /// The number of pages present. A leaf without pages is freed.
    used: u8,
    pages: [Option<Box<Page<V>>>; 1 << LEAF_BITS],
}

/// The objects under one lock. The overhead is slightly more than eight bytes per object where
/// numbers are dense.
struct Shard<V: ?Sized> {
    leaves: BTreeMap<u32, Box<Leaf<V>>>,
    /// The number of objects.
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

/// Returns the leaf, the page in the leaf, and the slot in the page.
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
        // Numbers mostly grow, so the last slots are the most likely to be occupied.
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

/// The reason why a number could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The requested number is taken.
    InUse,
    /// No number is free.
    Full,
}

/// A table of objects by number; see the module's documentation. Number 0 is never used.
pub struct IndexTable<V: ?Sized> {
    /// The numbers in use, including reserved ones.
    ids: IndexAllocator,
    /// Each shard guards the objects whose numbers map to it.
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

    /// Reserves `want`, or the lowest free number up to `max`. The number stays in use until the
    /// object [`publish`](Self::publish)ed there is removed, or until the reservation is
    /// [`cancel`](Self::cancel)led.
    pub fn reserve(&self, want: Option<u32>, max: u32) -> Result<u32, Refused> {
        match want {
            Some(0) => Err(Refused::InUse),
            Some(index) if self.ids.reserve(index) => Ok(index),
            Some(_) => Err(Refused::InUse),
            None => self.ids.allocate_in(1..=max).ok_or(Refused::Full),
        }
    }

    /// Frees a reserved number.
    pub fn cancel(&self, index: u32) {
        self.ids.free(index);
    }

    /// Stores an object at the number reserved for it.
    pub fn publish(&self, index: u32, value: Arc<V>) {
        self.shard(index).lock().put(index, value);
    }

    /// Returns the object with a number.
    pub fn get(&self, index: u32) -> Option<Arc<V>> {
        if !self.ids.is_taken(index) {
            return None;
        }
        self.shard(index).lock().get(index).cloned()
    }

    /// Replaces `old` by `new`. Returns `false` and does nothing if `old` is no longer there.
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

    /// Removes `value` and frees its number. Returns `false` if it is no longer there.
    pub fn remove(&self, index: u32, value: &Arc<V>) -> bool {
        let Some(gone) = self.shard(index).lock().take(index, value) else {
            return false;
        };
        drop(gone);
        self.ids.free(index);
        true
    }

    /// Returns the first object with a number of at least `from`.
    pub fn next(&self, mut from: u32) -> Option<(u32, Arc<V>)> {
        loop {
            let index = self.ids.next(from)?;
            // Skips numbers that are only reserved.
            if let Some(value) = self.get(index) {
                return Some((index, value));
            }
            from = index.checked_add(1)?;
        }
    }

    /// Appends `of` the first objects with a number of at least `from`, up to the end of their
    /// page. Appends nothing if there are none. Prefetches the first two cache lines of each
    /// object.
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
            // Skips pages whose numbers are only reserved.
            from = (index | ((1 << PAGE_BITS) - 1)).checked_add(1);
        }
    }

    /// Returns the number of objects in the table.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len).sum()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_freed_with_their_last_object() {
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
    fn numbers_are_the_lowest_free_or_the_requested_one() {
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
    fn a_walk_is_ascending_and_survives_changes() {
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

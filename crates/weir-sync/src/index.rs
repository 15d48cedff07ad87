// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lock-free allocator of numbers: the lowest free one, the lowest free one in a range, or a
//! given one.
//!
//! Linux keeps the indices of actions, filters and devices in an IDR under a lock, and parallel
//! insertions end up waiting for that lock. Here each number is a bit in a bitmap. Allocating or
//! freeing a number is one atomic instruction on a word of 64 numbers.
//!
//! - [`IndexAllocator::allocate`] takes the lowest free number, as `idr_alloc_u32` does; a single
//!   thread gets exactly Linux's sequence. A thread that loses the race for a bit continues in the
//!   next word, so parallel callers spread out and get roughly the lowest numbers. A thread in lane
//!   `n` ([`lane`](crate::lane)) skips `n` cache lines first.
//! - [`IndexAllocator::allocate_in`] takes the lowest free number in a range. Ranges also implement
//!   Linux's cyclic allocation of interface indices.
//! - [`IndexAllocator::reserve`] takes a given number; [`IndexAllocator::free`] frees one.
//! - [`IndexAllocator::next`] iterates over the allocated numbers in ascending order, the order of
//!   Linux's dumps.
//!
//! Any thread may call these in any context; none of them waits. Ordering: allocating a number
//! acquires what its last freeing released, so data kept under the number may be reused.
//!
//! Memory: none before the first use; then 576 bytes for each group of 4,096 numbers of which at
//! least one was ever allocated, and two tables of 8 KiB once a number above 4,095 is. All of it is
//! kept until the allocator is dropped.
#![allow(unsafe_code)] // lazily made nodes behind atomic pointers

use crate::lane::lane;
use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};
use core::fmt;
use core::ops::RangeInclusive;
use core::ptr::null_mut;

/// Words in a leaf, and bits in a word.
const WORDS: usize = 64;
/// Numbers in a leaf, as a power of two.
const LEAF_BITS: u32 = 12;
/// Children of an inner node, as a power of two. Two levels of inner nodes and the leaves make up
/// 32 bits.
const NODE_BITS: u32 = 10;

/// Words in a cache line.
const LINE: u32 = 8;

/// A leaf of 4,096 numbers. A bit is set while its number is allocated or outside the allocator's
/// range.
#[repr(align(64))]
struct Leaf {
    words: [AtomicU64; WORDS],
    /// One bit for each word, set if the word is full. A bit may be clear while the last bit of a
    /// full word is being taken; it never stays set for a word that is not full.
    full: AtomicU64,
}

/// Masks off the bits of the lowest `lane` cache lines that have any, but keeps at least the bits
/// of the last such line.
fn beyond(mut bits: u64, lane: usize) -> u64 {
    for _ in 0..lane {
        let line = bits.trailing_zeros() / LINE;
        let above = bits & u64::MAX.checked_shl((line + 1) * LINE).unwrap_or(0);
        if above == 0 {
            break;
        }
        bits = above;
    }
    bits
}

/// Returns a mask of the bits `first..=last` of a word.
fn span(first: u32, last: u32) -> u64 {
    (u64::MAX << first) & (u64::MAX >> (63 - last))
}

impl Leaf {
    fn new(base: u32, range: &RangeInclusive<u32>) -> Self {
        let (start, end) = (u64::from(*range.start()), u64::from(*range.end()));
        let word = |word: usize| {
            let first = u64::from(base) + word as u64 * 64;
            let outside = |bit: &u64| !(start..=end).contains(&(first + bit));
            let bits = if start <= first && first + 63 <= end {
                0..0
            } else {
                0..64u64
            };
            AtomicU64::new(bits.filter(outside).fold(0, |set, bit| set | 1 << bit))
        };
        let leaf = Self {
            words: core::array::from_fn(word),
            full: AtomicU64::new(0),
        };
        (0..WORDS).for_each(|word| leaf.note_full(word));
        leaf
    }

    /// Sets the word's bit in `full` if the word is full. `free` clears a bit in the word and then
    /// the bit in `full`; this function sets the bit in `full` and then checks the word again. All
    /// of these are sequentially consistent, so whichever runs last sees the other.
    fn note_full(&self, word: usize) {
        if self.words[word].load(SeqCst) == u64::MAX {
            self.full.fetch_or(1 << word, SeqCst);
            if self.words[word].load(SeqCst) != u64::MAX {
                self.full.fetch_and(!(1 << word), SeqCst);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.full.load(SeqCst) == u64::MAX
    }

    /// Takes `bit`. Returns false if it is taken already.
    fn set(&self, bit: u32) -> bool {
        let (word, bit) = ((bit / 64) as usize, 1 << (bit % 64));
        let before = self.words[word].fetch_or(bit, SeqCst);
        if before | bit == u64::MAX && before & bit == 0 {
            self.note_full(word);
        }
        before & bit == 0
    }

    /// Takes the lowest free bit in `first..=last`, or roughly the lowest under contention: after
    /// losing the race for a bit it continues in the next word.
    fn claim(&self, first: u32, last: u32) -> Option<u32> {
        loop {
            let mut lost = false;
            let mut words = span(first / 64, last / 64) & !self.full.load(SeqCst);
            while words != 0 {
                let word = beyond(words, lane()).trailing_zeros();
                words &= !(1 << word);
                let low = if word == first / 64 { first % 64 } else { 0 };
                let high = if word == last / 64 { last % 64 } else { 63 };
                let free = !self.words[word as usize].load(SeqCst) & span(low, high);
                if free != 0 {
                    let bit = word * 64 + free.trailing_zeros();
                    if self.set(bit) {
                        return Some(bit);
                    }
                    lost = true;
                }
            }
            if !lost {
                return None;
            }
        }
    }

    fn clear(&self, bit: u32) -> bool {
        let (word, bit) = ((bit / 64) as usize, 1 << (bit % 64));
        let before = self.words[word].fetch_and(!bit, SeqCst);
        if before == u64::MAX {
            self.full.fetch_and(!(1 << word), SeqCst);
        }
        before & bit != 0
    }

    fn is_set(&self, bit: u32) -> bool {
        self.words[(bit / 64) as usize].load(SeqCst) & 1 << (bit % 64) != 0
    }

    /// Returns the first set bit at or after `first`.
    fn next(&self, first: u32) -> Option<u32> {
        (first / 64..WORDS as u32).find_map(|word| {
            let low = if word == first / 64 { first % 64 } else { 0 };
            let set = self.words[word as usize].load(SeqCst) & span(low, 63);
            (set != 0).then(|| word * 64 + set.trailing_zeros())
        })
    }
}

type Children<T> = [AtomicPtr<T>; 1 << NODE_BITS];

/// An inner node. Its children are allocated on first use and kept until the drop.
struct Node<T>(Box<Children<T>>);

impl<T> Node<T> {
    fn new() -> Self {
        let children: Box<[AtomicPtr<T>]> = (0..1 << NODE_BITS)
            .map(|_| AtomicPtr::new(null_mut()))
            .collect();
        Self(
            children
                .try_into()
                .unwrap_or_else(|_| unreachable!("it has as many")),
        )
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(free_child);
    }
}

fn child<T>(slot: &AtomicPtr<T>) -> Option<&T> {
    // SAFETY: a child stays allocated until the owner of the slot is dropped.
    unsafe { slot.load(SeqCst).as_ref() }
}

fn child_or_new<T>(slot: &AtomicPtr<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(child) = child(slot) {
        return child;
    }
    let fresh = Box::into_raw(Box::new(make()));
    let seen = match slot.compare_exchange(null_mut(), fresh, SeqCst, SeqCst) {
        Ok(_) => fresh,
        Err(winner) => {
            // SAFETY: `fresh` was never published.
            drop(unsafe { Box::from_raw(fresh) });
            winner
        }
    };
    // SAFETY: as in `child`; the pointer is not null in either case.
    unsafe { &*seen }
}

fn free_child<T>(slot: &AtomicPtr<T>) {
    let child = slot.load(SeqCst);
    if !child.is_null() {
        // SAFETY: the child was allocated by `child_or_new`; this is called from drops only.
        drop(unsafe { Box::from_raw(child) });
    }
}

/// A lock-free allocator of numbers. See the module documentation.
pub struct IndexAllocator {
    range: RangeInclusive<u32>,
    /// The first leaf that may have a free number. All leaves below it are full.
    hint: AtomicU32,
    /// The leaf of the numbers below 4,096.
    first: AtomicPtr<Leaf>,
    /// All other leaves.
    rest: AtomicPtr<Node<Node<Leaf>>>,
}

/// Returns the leaf of a number and its bit in that leaf.
fn place(index: u32) -> (u32, u32) {
    (index >> LEAF_BITS, index & ((1 << LEAF_BITS) - 1))
}

impl IndexAllocator {
    /// Creates an allocator of the numbers in `range`, without allocating memory. With an empty
    /// range every allocation fails.
    pub fn new(range: RangeInclusive<u32>) -> Self {
        Self {
            hint: AtomicU32::new(place(*range.start()).0),
            range,
            first: AtomicPtr::new(null_mut()),
            rest: AtomicPtr::new(null_mut()),
        }
    }

    fn leaf(&self, leaf: u32) -> Option<&Leaf> {
        if leaf == 0 {
            return child(&self.first);
        }
        let (high, low) = (leaf >> NODE_BITS, leaf & ((1 << NODE_BITS) - 1));
        child(&child(&child(&self.rest)?.0[high as usize])?.0[low as usize])
    }

    fn leaf_or_new(&self, leaf: u32) -> &Leaf {
        let make = || Leaf::new(leaf << LEAF_BITS, &self.range);
        if leaf == 0 {
            return child_or_new(&self.first, make);
        }
        let (high, low) = (leaf >> NODE_BITS, leaf & ((1 << NODE_BITS) - 1));
        let root = child_or_new(&self.rest, Node::new);
        let node = child_or_new(&root.0[high as usize], Node::new);
        child_or_new(&node.0[low as usize], make)
    }

    /// Allocates the lowest free number. Returns `None` if all are taken.
    pub fn allocate(&self) -> Option<u32> {
        loop {
            let hint = self.hint.load(SeqCst);
            let last = place(*self.range.end()).0;
            if self.range.is_empty() || hint > last {
                return None;
            }
            let leaf = self.leaf_or_new(hint);
            if let Some(bit) = leaf.claim(0, (1 << LEAF_BITS) - 1) {
                return Some((hint << LEAF_BITS) + bit);
            }
            self.pass(hint, leaf);
        }
    }

    /// Raises `hint` past a full leaf. A concurrent `free` in this leaf may lower the hint before
    /// it is raised here, so this checks the leaf again afterwards; a `free` that comes later
    /// lowers the hint itself.
    fn pass(&self, hint: u32, leaf: &Leaf) {
        let _ = self.hint.compare_exchange(hint, hint + 1, SeqCst, SeqCst);
        if !leaf.is_full() {
            self.hint.fetch_min(hint, SeqCst);
        }
    }

    /// Allocates the lowest free number in `range`. Returns `None` if none is free.
    ///
    /// Cyclic allocation is `allocate_in(last + 1..=max)`, then `allocate_in(min..=last)`.
    pub fn allocate_in(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let start = *range.start().max(self.range.start());
        let end = *range.end().min(self.range.end());
        if range.is_empty() || self.range.is_empty() || start > end {
            return None;
        }
        let ((first_leaf, first_bit), (last_leaf, last_bit)) = (place(start), place(end));
        const TOP: u32 = (1 << LEAF_BITS) - 1;
        // Leaves below the hint are full, wherever the range begins.
        let from = first_leaf.max(self.hint.load(SeqCst));
        (from..=last_leaf).find_map(|at| {
            let low = if at == first_leaf { first_bit } else { 0 };
            let high = if at == last_leaf { last_bit } else { TOP };
            let leaf = self.leaf_or_new(at);
            let bit = leaf.claim(low, high);
            if bit.is_none() && leaf.is_full() {
                self.pass(at, leaf);
            }
            Some((at << LEAF_BITS) + bit?)
        })
    }

    /// Allocates `index`. Returns false if it is taken or out of range.
    pub fn reserve(&self, index: u32) -> bool {
        let (leaf, bit) = place(index);
        self.range.contains(&index) && self.leaf_or_new(leaf).set(bit)
    }

    /// Frees `index`. Returns false if it was not taken.
    ///
    /// Unlink data that readers can find under the number before freeing it. If the number must not
    /// be reused within the grace period, free it in a callback of [`crate::rcu`].
    pub fn free(&self, index: u32) -> bool {
        let (leaf, bit) = place(index);
        let freed =
            self.range.contains(&index) && self.leaf(leaf).is_some_and(|leaf| leaf.clear(bit));
        if freed {
            self.hint.fetch_min(leaf, SeqCst);
        }
        freed
    }

    /// Returns true if `index` is taken.
    pub fn is_taken(&self, index: u32) -> bool {
        let (leaf, bit) = place(index);
        self.range.contains(&index) && self.leaf(leaf).is_some_and(|leaf| leaf.is_set(bit))
    }

    /// Returns the lowest taken number at or above `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        let from = from.max(*self.range.start());
        let (first_leaf, first_bit) = place(from);
        let last_leaf = place(*self.range.end()).0;
        let mut leaf = first_leaf;
        while leaf <= last_leaf {
            let low = if leaf == first_leaf { first_bit } else { 0 };
            match self.leaf(leaf) {
                Some(this) => {
                    if let Some(bit) = this.next(low) {
                        let index = (leaf << LEAF_BITS) + bit;
                        return self.range.contains(&index).then_some(index);
                    }
                }
                None if leaf != 0 => {
                    let root = child(&self.rest)?;
                    if child(&root.0[(leaf >> NODE_BITS) as usize]).is_none() {
                        // That node does not exist, so none of its leaves does.
                        leaf |= (1 << NODE_BITS) - 1;
                    }
                }
                None => {}
            }
            leaf += 1;
        }
        None
    }

    /// Iterates over the taken numbers in ascending order. Numbers taken or freed during the
    /// iteration may or may not be returned.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let after = |index: &u32| index.checked_add(1).and_then(|from| self.next(from));
        core::iter::successors(self.next(0), after)
    }
}

impl Drop for IndexAllocator {
    fn drop(&mut self) {
        free_child(&self.first);
        free_child(&self.rest);
    }
}

impl fmt::Debug for IndexAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;

    /// Like the test below, but with a part of the range.
    #[test]
    fn a_number_freed_in_a_range_is_found_again() {
        check(3, || {
            let indices = Arc::new(IndexAllocator::new(0..=5));
            (0..=3).for_each(|index| assert!(indices.reserve(index)));
            let other = {
                let indices = indices.clone();
                loom::thread::spawn(move || indices.allocate_in(0..=3))
            };
            assert!(indices.free(2));
            match other.join().unwrap() {
                Some(index) => assert_eq!(index, 2),
                None => assert_eq!(indices.allocate_in(0..=3), Some(2)),
            }
        });
    }

    #[test]
    fn no_number_is_given_twice() {
        check(2, || {
            let indices = Arc::new(IndexAllocator::new(1..=100));
            let first = indices.allocate();
            let other = {
                let indices = indices.clone();
                loom::thread::spawn(move || indices.allocate())
            };
            let second = indices.allocate();
            let other = other.join().unwrap();
            assert!(second != other && first != second && first != other);
        });
    }

    /// One thread frees the last number while another finds the leaf full and raises the hint.
    #[test]
    fn a_freed_number_is_found_again() {
        check(3, || {
            let indices = Arc::new(IndexAllocator::new(0..=1));
            let (Some(first), Some(_)) = (indices.allocate(), indices.allocate()) else {
                panic!("there are two");
            };
            let other = {
                let indices = indices.clone();
                loom::thread::spawn(move || indices.allocate())
            };
            assert!(indices.free(first));
            match other.join().unwrap() {
                Some(index) => assert_eq!(index, first),
                None => assert_eq!(indices.allocate(), Some(first)),
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

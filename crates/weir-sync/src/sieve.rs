// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A Bloom filter in front of a set: rejects most absent keys, at a few bytes of memory per key.
//!
//! Both bits of a key lie in one word, so a lookup reads one word, which stays in a near cache
//! where the set itself does not. The filter works on hashes. A key that is in the set always
//! passes. Removed keys leave their bits set until the next renewal, so a key that passes must
//! still be looked up in the set.
//!
//! # Use
//! Insert keys into the set through [`Sieve::add`], which sets the bits before it inserts the key.
//! Readers take a [`View`] under a guard and query it for any number of hashes. A key whose `add`
//! has returned passes every view taken afterwards; while `add` runs it may or may not pass.
//!
//! # Growth
//! Once more keys have been added since the last renewal than the filter has capacity for, the
//! adding thread builds a new filter from the hashes of all keys in the set, which the caller
//! lists. No other thread waits: the new filter is first announced as the old one's successor, and
//! concurrent adds set their bits in both. A key that is inserted during a renewal is never lost:
//! either its thread finds the successor when it checks *after* the insertion, or the listing,
//! which starts *after* the announcement, finds the key. Both sides issue a sequentially consistent
//! fence between their write and their read.
//!
//! Memory: 1 to 4 bytes per key from 128 keys on.
#![allow(unsafe_code)] // owns the bits behind atomic pointers

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::primitive::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::primitive::prefetch;
use crate::rcu::{Domain, Guard};
use core::fmt;
use core::ptr::null_mut;

/// Number of words of the smallest and the largest filter, as powers of two.
const LEAST: u32 = if cfg!(loom) { 1 } else { 4 };
const MOST: u32 = 24;
/// Keys per word at capacity.
const KEYS_PER_WORD: usize = if cfg!(loom) { 1 } else { 8 };
/// One key in this many is counted, and counts for this many. Concurrent adds therefore rarely
/// write the same counter.
const SAMPLE: u32 = if cfg!(loom) { 1 } else { 16 };

/// The position of a key's bits: a number whose upper bits select the word, and a mask of the two
/// bits in it.
pub type Spot = (u32, u32);

/// Returns the spot of a hash. The hash need not be strong: a sum of products with odd numbers
/// suffices.
#[inline(always)]
pub fn spot(hash: u64) -> Spot {
    let folded = fold(hash);
    spot_of(folded, folded * u64::from(MIX))
}

/// The multiplier of a folded hash.
pub const MIX: u32 = 0x9e37_79b1;

/// Folds a hash to 32 bits: the first step of [`spot`], for callers that process many hashes side
/// by side.
#[inline(always)]
pub fn fold(hash: u64) -> u64 {
    (hash ^ (hash >> 32)) & 0xffff_ffff
}

/// Returns the spot, from the folded hash and its product with [`MIX`]: the last step of [`spot`].
#[inline(always)]
pub fn spot_of(folded: u64, mixed: u64) -> Spot {
    (folded as u32, (mixed >> 26) as u32)
}

#[inline(always)]
fn bits_of((_, bits): Spot) -> u64 {
    1 << (bits & 63) | 1 << (bits >> 6 & 63)
}

/// One generation of the filter.
struct Bits {
    /// The next generation, from the moment its construction begins.
    next: AtomicPtr<Bits>,
    /// Approximate number of keys added, counted by sampling.
    added: AtomicUsize,
    /// A spot's number shifted right by this is the index of its word.
    shift: u32,
    words: Box<[AtomicU64]>,
}

impl Bits {
    fn new(keys: usize) -> Self {
        let log = (keys / KEYS_PER_WORD).max(1).ilog2();
        let log = log.clamp(LEAST, MOST);
        Self {
            next: AtomicPtr::new(null_mut()),
            added: AtomicUsize::new(0),
            shift: 32 - log,
            words: (0..1 << log).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn capacity(&self) -> usize {
        self.words.len() * KEYS_PER_WORD
    }

    fn set(&self, spot: Spot) {
        let word = &self.words[(spot.0 >> self.shift) as usize];
        let bits = bits_of(spot);
        // Most often other keys have set the bits already. Reading first avoids a write to a shared
        // word.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

/// A Bloom filter in front of a set. See the module documentation.
pub struct Sieve {
    current: AtomicPtr<Bits>,
    /// True while a thread builds a successor.
    renewing: AtomicBool,
    domain: Domain,
}

/// The filter as seen under a guard.
#[derive(Clone, Copy)]
pub struct View<'g> {
    words: &'g [AtomicU64],
    shift: u32,
}

impl View<'_> {
    /// Returns true if a key with this spot may be in the set. Returns false if no such key is.
    #[inline(always)]
    pub fn passes(&self, spot: Spot) -> bool {
        self.test(spot) != 0
    }

    /// Returns [`passes`](Self::passes) as 1 or 0, without a branch.
    #[inline(always)]
    pub fn test(&self, (place, bits): Spot) -> u64 {
        // SAFETY: there are 2 to the power of `32 - shift` words, so a 32-bit number shifted right
        // by `shift` is the index of one.
        let word = unsafe { self.words.get_unchecked((place >> self.shift) as usize) };
        let word = word.load(Ordering::Relaxed);
        word >> (bits & 63) & word >> (bits >> 6 & 63) & 1
    }

    /// Prefetches the word of a spot.
    #[inline(always)]
    pub fn prefetch(&self, spot: Spot) {
        if let Some(word) = self.words.get((spot.0 >> self.shift) as usize) {
            prefetch(core::ptr::from_ref(word));
        }
    }

    /// Returns true if the filter is large enough for prefetching to pay off.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.words.len() > 4096
    }
}

impl Sieve {
    /// Creates the filter of an empty set.
    pub fn new(domain: &Domain) -> Self {
        Self {
            current: AtomicPtr::new(Box::into_raw(Box::new(Bits::new(0)))),
            renewing: AtomicBool::new(false),
            domain: domain.clone(),
        }
    }

    #[inline(always)]
    fn current<'g>(&'g self, guard: &'g Guard) -> &'g Bits {
        guard.check(&self.domain);
        // SAFETY: never null; freed a grace period after its replacement, or by the drop of `self`.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Returns the current filter.
    #[inline(always)]
    pub fn view<'g>(&'g self, guard: &'g Guard) -> View<'g> {
        let bits = self.current(guard);
        View {
            words: &bits.words,
            shift: bits.shift,
        }
    }

    /// Inserts a key with `hash` into the set by calling `put`, after setting its bits. This
    /// occasionally builds a new filter. `list` is called in two ways: with a callback, it must
    /// call it with the hash of every key in the set; with `None`, it must return the approximate
    /// number of keys.
    ///
    /// It does no harm if `put` inserts nothing.
    pub fn add<R>(
        &self,
        hash: u64,
        guard: &Guard,
        put: impl FnOnce() -> R,
        list: impl Fn(Option<&mut dyn FnMut(u64)>) -> usize,
    ) -> R {
        let spot = spot(hash);
        let mut bits = self.current(guard);
        bits.set(spot);
        let result = put();
        fence(Ordering::SeqCst);
        // SAFETY: a successor becomes current after `bits`, which was current under `guard`. So it
        // is retired, if at all, after the guard was taken.
        while let Some(next) = unsafe { bits.next.load(Ordering::Acquire).as_ref() } {
            next.set(spot);
            bits = next;
        }
        // These bits are not among those that select the word.
        if (spot.1 >> 12).is_multiple_of(SAMPLE) {
            let sample = SAMPLE as usize;
            let added = bits.added.fetch_add(sample, Ordering::Relaxed) + sample;
            if added > bits.capacity() {
                self.renew(guard, list);
            }
        }
        result
    }

    /// Builds the next generation unless another thread is doing so.
    #[cold]
    fn renew(&self, guard: &Guard, list: impl Fn(Option<&mut dyn FnMut(u64)>) -> usize) {
        if self.renewing.swap(true, Ordering::Acquire) {
            return;
        }
        let old = self.current(guard);
        // Another thread may just have finished a renewal.
        if old.added.load(Ordering::Relaxed) > old.capacity() {
            // Has capacity for four times the keys: so each key is listed once for every three
            // added.
            let next = Box::into_raw(Box::new(Bits::new(list(None) * 4)));
            // SAFETY: just created; freed after its replacement at the earliest.
            let fresh = unsafe { &*next };
            old.next.store(next, Ordering::Release);
            fence(Ordering::SeqCst);
            let mut listed = 0;
            list(Some(&mut |hash| {
                fresh.set(spot(hash));
                listed += 1;
            }));
            fresh.added.fetch_add(listed, Ordering::Relaxed);
            let old = self.current.swap(next, Ordering::AcqRel);
            // SAFETY: it came from a box and was unlinked just now, by the only thread that renews.
            // Any thread that still follows its `next` holds a guard.
            unsafe { self.domain.retire(old) };
        }
        self.renewing.store(false, Ordering::Release);
    }

    /// Returns the number of bytes allocated.
    pub fn memory(&self, guard: &Guard) -> usize {
        let bits = self.current(guard);
        size_of_val(bits) + size_of_val(&*bits.words)
    }
}

impl Drop for Sieve {
    fn drop(&mut self) {
        // SAFETY: exclusive borrow; no reader is left, because each borrows the filter.
        drop(unsafe { Box::from_raw(self.current.load(Ordering::Acquire)) });
    }
}

impl fmt::Debug for Sieve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sieve").finish_non_exhaustive()
    }
}

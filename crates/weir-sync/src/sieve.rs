// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A filter in front of a set: says "not in there" of most keys that are not, from a few octets a key.
//!
//! A Bloom filter whose two bits of a key stand in one word, so that a look-up reads one word, which is
//! in a near cache where the set itself is not. It answers about hashes; that of a key in the set always
//! passes. Keys that are gone leave their bits behind until the next renewal, so what passes must be
//! looked up in the set.
//!
//! # Use
//! Whoever puts a key into the set does it through [`Sieve::add`]: the bits are there before the key is.
//! Readers take a [`View`] under a guard and ask it for any number of hashes. A key whose `add` has
//! returned passes every view taken after that; while `add` runs it may pass or not.
//!
//! # Growth
//! When more keys were added since the last renewal than the bits are good for, the adding thread makes
//! new ones from the hashes of all keys of the set, which the caller lists. Nobody waits for it: the
//! new bits are announced as the successor of the old ones first, and others that add meanwhile set
//! their bits in both. What makes that safe is that one of two things happens to a key that is put into
//! the set during a renewal: its thread finds the successor when it looks *after* putting it in, or the
//! listing, which starts *after* announcing the successor, finds the key. Both sides have a sequentially
//! consistent fence between their write and their read.
//!
//! Memory: 1 to 4 octets a key from 128 keys on.
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

/// Words of the smallest filter and of the largest, as powers of two.
const LEAST: u32 = if cfg!(loom) { 1 } else { 4 };
const MOST: u32 = 24;
/// Keys a word is good for.
const KEYS_PER_WORD: usize = if cfg!(loom) { 1 } else { 8 };
/// One key in so many is counted, as many times: keys that are added at once share no counter then.
const SAMPLE: u32 = if cfg!(loom) { 1 } else { 16 };

/// Where the bits of a hash are: a number whose upper bits choose the word, and the two bits in it.
pub type Spot = (u32, u32);

/// The spot of a hash. The hash need not be good: sums of products with odd numbers are enough.
#[inline(always)]
pub fn spot(hash: u64) -> Spot {
    let folded = fold(hash);
    spot_of(folded, folded * u64::from(MIX))
}

/// What a folded hash is multiplied with.
pub const MIX: u32 = 0x9e37_79b1;

/// First step of [`spot`], for callers that take many side by side: a number of 32 bits.
#[inline(always)]
pub fn fold(hash: u64) -> u64 {
    (hash ^ (hash >> 32)) & 0xffff_ffff
}

/// Last step: the spot, from the folded hash and its product with [`MIX`].
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
    /// The generation that takes over from this one, as soon as it is being made.
    next: AtomicPtr<Bits>,
    /// Keys added, counted by samples.
    added: AtomicUsize,
    /// What of a spot's number chooses the word: it, shifted right by this.
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
        // Most often the word is shared with other keys, whose adding need not wait for ours.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

/// See the module.
pub struct Sieve {
    current: AtomicPtr<Bits>,
    /// Somebody makes a successor.
    renewing: AtomicBool,
    domain: Domain,
}

/// A filter as it is while a guard is held.
#[derive(Clone, Copy)]
pub struct View<'g> {
    words: &'g [AtomicU64],
    shift: u32,
}

impl View<'_> {
    /// Whether a key with the hash of this spot may be in the set; if not, none is.
    #[inline(always)]
    pub fn passes(&self, spot: Spot) -> bool {
        self.test(spot) != 0
    }

    /// [`passes`](Self::passes) as a number, 1 or 0, without a branch.
    #[inline(always)]
    pub fn test(&self, (place, bits): Spot) -> u64 {
        // SAFETY: there are 2 to the power of `32 - shift` words, so a number of 32 bits, shifted, is the
        // place of one.
        let word = unsafe { self.words.get_unchecked((place >> self.shift) as usize) };
        let word = word.load(Ordering::Relaxed);
        word >> (bits & 63) & word >> (bits >> 6 & 63) & 1
    }

    /// Asks for the word of a spot ahead of time.
    #[inline(always)]
    pub fn prefetch(&self, spot: Spot) {
        if let Some(word) = self.words.get((spot.0 >> self.shift) as usize) {
            prefetch(core::ptr::from_ref(word));
        }
    }

    /// Whether the words are so many that asking ahead of time pays.
    #[inline]
    pub fn is_far(&self) -> bool {
        self.words.len() > 4096
    }
}

impl Sieve {
    /// The filter of an empty set.
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
        // SAFETY: never null; freed a grace period after it was replaced, or by our drop.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The filter as it is now.
    #[inline(always)]
    pub fn view<'g>(&'g self, guard: &'g Guard) -> View<'g> {
        let bits = self.current(guard);
        View {
            words: &bits.words,
            shift: bits.shift,
        }
    }

    /// Puts a key with `hash` into the set by `put`, its bits first. Now and then that makes a new
    /// filter: `list` is to call what it is given with the hashes of all keys of the set, the number of
    /// which, about, it answers if it is given none.
    ///
    /// When `put` turns out not to put anything in, no harm is done.
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
        // SAFETY: a successor becomes the current generation after `bits` did, which we found under
        // `guard`; so it is retired later than the guard was taken, if at all.
        while let Some(next) = unsafe { bits.next.load(Ordering::Acquire).as_ref() } {
            next.set(spot);
            bits = next;
        }
        // Other bits than those that choose the place.
        if (spot.1 >> 12).is_multiple_of(SAMPLE) {
            let sample = SAMPLE as usize;
            let added = bits.added.fetch_add(sample, Ordering::Relaxed) + sample;
            if added > bits.capacity() {
                self.renew(guard, list);
            }
        }
        result
    }

    /// Makes the next generation, unless somebody else does.
    #[cold]
    fn renew(&self, guard: &Guard, list: impl Fn(Option<&mut dyn FnMut(u64)>) -> usize) {
        if self.renewing.swap(true, Ordering::Acquire) {
            return;
        }
        let old = self.current(guard);
        // Who renewed just now may have been faster.
        if old.added.load(Ordering::Relaxed) > old.capacity() {
            // Room for four times the keys: each is listed once for every three that are added.
            let next = Box::into_raw(Box::new(Bits::new(list(None) * 4)));
            // SAFETY: made just now; freed when it is replaced, at the earliest.
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
            // SAFETY: came from a box, and was unlinked just now, by the only one who renews. Who still
            // follows its `next` holds a guard.
            unsafe { self.domain.retire(old) };
        }
        self.renewing.store(false, Ordering::Release);
    }

    /// Octets allocated.
    pub fn memory(&self, guard: &Guard) -> usize {
        let bits = self.current(guard);
        size_of_val(bits) + size_of_val(&*bits.words)
    }
}

impl Drop for Sieve {
    fn drop(&mut self) {
        // SAFETY: exclusive borrow: no reader is left, as each borrows the filter.
        drop(unsafe { Box::from_raw(self.current.load(Ordering::Acquire)) });
    }
}

impl fmt::Debug for Sieve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sieve").finish_non_exhaustive()
    }
}

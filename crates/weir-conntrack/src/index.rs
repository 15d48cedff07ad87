// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash table from keys to entries: which entry, and which of its directions.
//!
//! A bucket is a cache line with eleven slots: a tag of 8 bits and a number of 32 bits each. A number lies in the
//! first bucket with room from its key's home bucket on, and does not move. Each bucket counts the numbers that
//! passed it, so a search ends at the first bucket that none has passed. Four bits of a number are free, and refine the
//! tag: one search of a thousand looks at the number of another key.
//!
//! The control word is a sequence lock as in `weir-map`'s buckets: a writer sets its lowest bit, changes the bucket
//! and stores the next even value. A reader compares the word before and after, and writes nothing. The lock of a
//! key's home bucket also guards the key: two insertions of one key do not run at the same time. A thread that
//! holds home buckets, which it locks in the order of their positions, only tries to take others. If that fails it
//! gives up all of them and begins again. `levels.rs` lets the table grow.
#![allow(unsafe_code)] // a structure of atomics in zeroed memory

use weir_map::{Words, Zero};
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use weir_sync::primitive::{Backoff, prefetch};

const SLOTS: usize = 11;
const LOCK: u32 = 1;
/// The bits of a slot that are not the number's: more bits of the hash.
const FINE: u32 = 0xf << 27;

#[derive(Default)]
#[repr(C, align(64))]
struct Bucket {
    control: AtomicU32,
    /// The numbers that passed the bucket because it was full.
    over: AtomicU32,
    /// The tags of the first eight slots. A tag of 0 means an empty slot.
    low: AtomicU64,
    /// The tags of the other three. The fourth byte stays 0.
    high: AtomicU32,
    slots: [AtomicU32; SLOTS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == 64);

// SAFETY: a bucket consists of atomic integers, and zero is a value of each.
unsafe impl Zero for Bucket {}

/// The tags of a bucket, eight in the first word and four in the second.
type Tags = (u64, u32);

/// The slots whose tag is `tag`, as a bit mask.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn equal(tags: Tags, tag: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64.
    let same = unsafe {
        let tags = _mm_set_epi64x(i64::from(tags.1), tags.0 as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
    };
    same as u32 & 0xfff
}

/// The slots whose tag is `tag`, as a bit mask.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn equal(tags: Tags, tag: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let pattern = u64::from(tag) * 0x0101_0101_0101_0101;
    let of = |word: u64| {
        let other = word ^ pattern;
        // The highest bit of each byte that is 0.
        let zero = !(((other & LOW) + LOW) | other | LOW);
        // One bit each, side by side.
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    of(tags.0) | (of(u64::from(tags.1)) & 0xf) << 8
}

/// The bits of a slot that a hash has in [`FINE`].
#[inline(always)]
fn fine(hash: u64) -> u32 {
    (hash as u32) << 19 & FINE
}

/// The lowest free slot.
#[inline(always)]
fn free(tags: Tags) -> Option<usize> {
    let slot = (equal(tags, 0) & ((1 << SLOTS) - 1)).trailing_zeros() as usize;
    (slot < SLOTS).then_some(slot)
}

impl Bucket {
    #[inline(always)]
    fn tags(&self) -> Tags {
        (self.low.load(Relaxed), self.high.load(Relaxed))
    }

    /// Calls `matches` with each number whose tag is that of the hash, and returns the first result for a number.
    #[inline(always)]
    fn look_for<R>(&self, hash: u64, mut matches: impl FnMut(u32) -> Option<R>) -> Option<R> {
        let mut hits = equal(self.tags(), tag_of(hash));
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let number = self.slots[slot.min(SLOTS - 1)].load(Relaxed) ^ fine(hash);
            if number & FINE == 0
                && let found @ Some(_) = matches(number)
            {
                return found;
            }
        }
        None
    }

    /// Returns the first number of the hash's tag for which `matches` is true.
    #[inline(always)]
    fn look(&self, hash: u64, matches: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        self.look_for(hash, |number| matches(number).then_some(number))
    }

    /// Searches without the lock. Also returns whether the search ends here.
    #[inline(always)]
    fn search(&self, hash: u64, matches: &mut impl FnMut(u32) -> bool) -> (Option<u32>, bool) {
        let mut backoff = Backoff::new();
        loop {
            let before = self.control.load(Acquire);
            if before & LOCK == 0 {
                let found = self.look(hash, matches);
                let last = self.over.load(Relaxed) == 0;
                fence(Acquire);
                if self.control.load(Relaxed) == before {
                    return (found, last);
                }
            } else {
                backoff.spin();
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let now = self.control.load(Relaxed);
        let locked = now & LOCK == 0
            && (self.control)
                .compare_exchange(now, now | LOCK, Acquire, Relaxed)
                .is_ok();
        if locked {
            // The changes must not be seen before the lock.
            fence(Release);
        }
        locked
    }

    #[inline]
    fn lock(&self) {
        let mut backoff = Backoff::new();
        while !self.try_lock() {
            backoff.spin();
        }
    }

    /// Unlocks the bucket, which may have changed.
    #[inline]
    fn unlock(&self) {
        let now = self.control.load(Relaxed);
        self.control.store(now.wrapping_add(1), Release);
    }

    /// Puts a number into a free slot of the locked bucket.
    #[inline]
    fn put(&self, hash: u64, number: u32) -> bool {
        debug_assert_eq!(number & FINE, 0, "a number has 27 bits and the highest");
        let Some(slot) = free(self.tags()) else {
            return false;
        };
        self.slots[slot].store(number | fine(hash), Relaxed);
        self.tag(slot, tag_of(hash));
        true
    }

    #[inline]
    fn tag(&self, slot: usize, tag: u8) {
        let shift = 8 * (slot % 8);
        if slot < 8 {
            let others = self.low.load(Relaxed) & !(0xff << shift);
            self.low.store(others | u64::from(tag) << shift, Relaxed);
        } else {
            let others = self.high.load(Relaxed) & !(0xff << shift);
            self.high.store(others | u32::from(tag) << shift, Relaxed);
        }
    }

    /// Takes a number out of the locked bucket.
    fn take(&self, hash: u64, number: u32) -> bool {
        let mut hits = equal(self.tags(), tag_of(hash));
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            if self.slots[slot].load(Relaxed) == number | fine(hash) {
                self.tag(slot, 0);
                return true;
            }
        }
        false
    }
}

/// A key to be inserted: its hash, the number, and whether a number stands for an equal key.
pub(crate) struct Insertion<F> {
    pub(crate) hash: u64,
    pub(crate) number: u32,
    pub(crate) equal: F,
}

/// What has become of two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entered {
    /// Both are in the table.
    Both,
    /// Only the first is. The caller removes it and begins again.
    First,
    /// None is. The caller begins again.
    None,
    /// This number stands for an equal key.
    Equal(u32),
}

/// A bucket, and what a look at it without the lock has shown before anything was compared.
#[derive(Clone, Copy)]
pub(crate) struct Glance<'a> {
    bucket: &'a Bucket,
    control: u32,
    /// The first number of the key's tag, probably that of the key; 0 if there is none.
    pub(crate) number: u32,
}

impl Glance<'_> {
    /// Prefetches the bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self.bucket));
    }

    /// Looks for the numbers of a hash's tag. Calls `first` with the first of them, and `others` with the others.
    /// Returns whether there is one.
    #[inline(always)]
    pub(crate) fn look(
        &mut self,
        hash: u64,
        first: impl FnOnce(u32),
        others: impl Fn(u32),
    ) -> bool {
        // Under a writer's lock this is the word before the lock, which does not come back: the glance does not hold.
        self.control = self.bucket.control.load(Acquire) & !LOCK;
        let mut hits = equal(self.bucket.tags(), tag_of(hash));
        let number = |hits: u32| {
            let slot = hits.trailing_zeros() as usize;
            self.bucket.slots[slot.min(SLOTS - 1)].load(Relaxed) ^ fine(hash)
        };
        while hits != 0 {
            let found = number(hits);
            hits &= hits - 1;
            if found & FINE != 0 {
                continue;
            }
            self.number = found;
            first(found);
            while hits != 0 {
                let other = number(hits);
                hits &= hits - 1;
                if other & FINE == 0 {
                    others(other);
                }
            }
            return true;
        }
        false
    }

    /// Whether numbers have passed the bucket.
    #[inline(always)]
    pub(crate) fn is_passed(&self) -> bool {
        self.bucket.over.load(Relaxed) != 0
    }

    /// Whether the number has been in the bucket since the look, if there was one.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        fence(Acquire);
        self.bucket.control.load(Relaxed) == self.control
    }
}

/// The hash table; see the module documentation.
pub(crate) struct Index {
    buckets: Words<Bucket>,
}

#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

impl Index {
    /// Makes a table for `keys` keys. Returns `None` without memory.
    pub(crate) fn new(keys: usize) -> Option<Self> {
        // Four of five slots are taken when all keys are there.
        let buckets = (keys * 5).div_ceil(SLOTS * 4).max(4);
        let buckets = Words::new(buckets).ok()?;
        Some(Self { buckets })
    }

    /// Returns the number of buckets.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() {
            0
        } else {
            at + 1
        }
    }

    /// Prefetches the home bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(std::ptr::from_ref(self.buckets.at(self.home(hash))));
    }

    /// Returns a glance at the bucket `beyond` buckets behind the home bucket, with nothing looked at yet.
    #[inline(always)]
    pub(crate) fn glance(&self, hash: u64, beyond: usize) -> Glance<'_> {
        let mut at = self.home(hash);
        for _ in 0..beyond {
            at = self.after(at);
        }
        Glance {
            bucket: self.buckets.at(at),
            control: LOCK,
            number: 0,
        }
    }

    /// Searches a key's home bucket, and returns what `matches` returns for a number. Also returns whether the search
    /// ends there.
    #[inline(always)]
    pub(crate) fn search_home<R>(
        &self,
        hash: u64,
        matches: impl Fn(u32) -> Option<R>,
    ) -> (Option<R>, bool) {
        let bucket = self.buckets.at(self.home(hash));
        let before = bucket.control.load(Acquire);
        let found = bucket.look_for(hash, matches);
        let last = bucket.over.load(Relaxed) == 0;
        fence(Acquire);
        if before & LOCK == 0 && bucket.control.load(Relaxed) == before {
            return (found, last);
        }
        // A writer is at the bucket.
        (None, false)
    }

    /// Searches a key's home bucket. Returns the number for which `matches` is true, and whether there is none further on.
    /// When it returns a number, that was in the table during the last call of `matches` for it.
    #[inline(always)]
    pub(crate) fn find_home(
        &self,
        hash: u64,
        matches: &mut impl FnMut(u32) -> bool,
    ) -> (Option<u32>, bool) {
        let bucket = self.buckets.at(self.home(hash));
        bucket.search(hash, matches)
    }

    /// The same in all buckets.
    pub(crate) fn find(&self, hash: u64, matches: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let (found, last) = self.find_home(hash, &mut |number| matches(number));
        if found.is_some() || last {
            return found;
        }
        // The buckets of other threads are locked by them alone.
        self.find_beyond(hash, [usize::MAX; 2], matches)
    }

    /// As [`find`](Self::find), by a thread that holds the locks of the buckets `held`.
    #[inline]
    fn find_held(
        &self,
        hash: u64,
        held: [usize; 2],
        matches: &mut impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let bucket = self.buckets.at(self.home(hash));
        let found = bucket.look(hash, matches);
        if found.is_some() || bucket.over.load(Relaxed) == 0 {
            return found;
        }
        self.find_beyond(hash, held, matches)
    }

    /// Goes on behind the home bucket.
    fn find_beyond(
        &self,
        hash: u64,
        held: [usize; 2],
        matches: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        let mut matches = |number| matches(number);
        let mut at = self.after(self.home(hash));
        for _ in 1..self.buckets.len() {
            let bucket = self.buckets.at(at);
            let (found, last) = if held.contains(&at) {
                let found = bucket.look(hash, &mut matches);
                (found, bucket.over.load(Relaxed) == 0)
            } else {
                bucket.search(hash, &mut matches)
            };
            if found.is_some() || last {
                return found;
            }
            at = self.after(at);
        }
        None
    }

    /// Adds to the counts of the `passed` buckets from the hash's home on.
    fn pass(&self, hash: u64, passed: usize, by: u32) {
        let mut at = self.home(hash);
        for _ in 0..passed {
            self.buckets.at(at).over.fetch_add(by, Relaxed);
            at = self.after(at);
        }
    }

    /// Puts a number into the first bucket with room. The caller holds the home bucket. Fails if another thread holds a bucket, or all are full.
    #[inline]
    fn place(&self, hash: u64, number: u32, held: [usize; 2]) -> bool {
        self.buckets.at(self.home(hash)).put(hash, number) || self.place_beyond(hash, number, held)
    }

    /// The same if the home bucket is full.
    fn place_beyond(&self, hash: u64, number: u32, held: [usize; 2]) -> bool {
        let mut at = self.home(hash);
        for passed in 0..self.buckets.len() {
            let bucket = self.buckets.at(at);
            let ours = held.contains(&at);
            if !ours && !bucket.try_lock() {
                self.pass(hash, passed, u32::MAX);
                return false;
            }
            let put = bucket.put(hash, number);
            if !put {
                // Before the number can be found further on.
                bucket.over.fetch_add(1, Relaxed);
            }
            if !ours {
                bucket.unlock();
            }
            if put {
                return true;
            }
            at = self.after(at);
        }
        self.pass(hash, self.buckets.len(), u32::MAX);
        false
    }

    /// Locks the home buckets of two keys.
    #[inline]
    fn lock_homes(&self, hashes: [u64; 2]) -> [usize; 2] {
        let homes = hashes.map(|hash| self.home(hash));
        let (low, high) = (homes[0].min(homes[1]), homes[0].max(homes[1]));
        self.buckets.at(low).lock();
        if low != high {
            self.buckets.at(high).lock();
        }
        homes
    }

    #[inline]
    fn unlock_homes(&self, homes: [usize; 2]) {
        self.buckets.at(homes[0]).unlock();
        if homes[0] != homes[1] {
            self.buckets.at(homes[1]).unlock();
        }
    }

    /// Calls `then` while both keys are locked, if the table has neither.
    pub(crate) fn absent<F: FnMut(u32) -> bool, G: FnMut(u32) -> bool>(
        &self,
        first: &mut Insertion<F>,
        second: &mut Insertion<G>,
        then: impl FnOnce(&mut Insertion<F>, &mut Insertion<G>) -> Entered,
    ) -> Entered {
        let homes = self.lock_homes([first.hash, second.hash]);
        let clash = self
            .find_held(first.hash, homes, &mut first.equal)
            .or_else(|| self.find_held(second.hash, homes, &mut second.equal));
        let entered = match clash {
            Some(number) => Entered::Equal(number),
            None => then(first, second),
        };
        self.unlock_homes(homes);
        entered
    }

    /// Inserts two keys at once, if `current` is still true under their locks.
    #[inline]
    pub(crate) fn insert_pair(
        &self,
        first: &mut Insertion<impl FnMut(u32) -> bool>,
        second: &mut Insertion<impl FnMut(u32) -> bool>,
        current: impl Fn() -> bool,
    ) -> Entered {
        let homes = self.lock_homes([first.hash, second.hash]);
        let entered = if current() {
            self.enter(first, second, homes)
        } else {
            Entered::None
        };
        self.unlock_homes(homes);
        entered
    }

    #[inline]
    fn enter(
        &self,
        first: &mut Insertion<impl FnMut(u32) -> bool>,
        second: &mut Insertion<impl FnMut(u32) -> bool>,
        homes: [usize; 2],
    ) -> Entered {
        let clash = self
            .find_held(first.hash, homes, &mut first.equal)
            .or_else(|| self.find_held(second.hash, homes, &mut second.equal));
        if let Some(number) = clash {
            Entered::Equal(number)
        } else if !self.place(first.hash, first.number, homes) {
            Entered::None
        } else if !self.place(second.hash, second.number, homes) {
            Entered::First
        } else {
            Entered::Both
        }
    }

    /// Inserts a key that need not be the only one of its kind, if `current` is still true under its lock. Returns
    /// whether it did.
    pub(crate) fn insert(&self, hash: u64, number: u32, current: impl Fn() -> bool) -> bool {
        let home = self.home(hash);
        self.buckets.at(home).lock();
        let placed = current() && self.place(hash, number, [home; 2]);
        self.buckets.at(home).unlock();
        placed
    }

    /// Moves the numbers of a bucket to another table. `hash_of` returns the hash of a number's key.
    pub(crate) fn empty(&self, at: usize, to: &Self, hash_of: &impl Fn(u32) -> u64) {
        let bucket = self.buckets.at(at);
        bucket.lock();
        let full = !equal(bucket.tags(), 0) & ((1 << SLOTS) - 1);
        let mut moved = [None; SLOTS];
        for slot in (0..SLOTS).filter(|slot| full >> slot & 1 != 0) {
            let number = bucket.slots[slot].load(Relaxed) & !FINE;
            // Its owner has to lock this bucket before the number stands for another key.
            let hash = hash_of(number);
            let mut backoff = Backoff::new();
            while !to.insert(hash, number, || true) {
                backoff.snooze();
            }
            // A search that misses it here finds it there.
            bucket.tag(slot, 0);
            moved[slot] = Some(hash);
        }
        bucket.unlock();
        for hash in moved.into_iter().flatten() {
            let (home, count) = (self.home(hash), self.buckets.len());
            self.pass(hash, (at + count - home) % count, u32::MAX);
        }
    }

    /// Returns whether no bucket remembers anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        (0..self.buckets()).all(|at| {
            let bucket = self.buckets.at(at);
            bucket.over.load(Relaxed) == 0 && bucket.tags() == (0, 0)
        })
    }

    /// Removes a number. Returns false if it is not there.
    pub(crate) fn remove(&self, hash: u64, number: u32) -> bool {
        let mut at = self.home(hash);
        for passed in 0..self.buckets.len() {
            let bucket = self.buckets.at(at);
            bucket.lock();
            let taken = bucket.take(hash, number);
            let last = bucket.over.load(Relaxed) == 0;
            bucket.unlock();
            if taken {
                self.pass(hash, passed, u32::MAX);
                return true;
            }
            if last {
                return false;
            }
            at = self.after(at);
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::levels::Levels;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn equal_tags_are_found_by_their_slots() {
        let tags = (0x8001_0080_0180_ff00, 0x00ff_0101);
        let bytes = [&u64::to_le_bytes(tags.0)[..], &u32::to_le_bytes(tags.1)].concat();
        for tag in 0..=255 {
            let expected = bytes
                .iter()
                .enumerate()
                .map(|(at, byte)| u32::from(*byte == tag) << at)
                .sum::<u32>();
            assert_eq!(equal(tags, tag), expected, "{tag:#x}");
        }
    }

    #[test]
    fn a_full_table_finds_all_and_nothing_else() {
        let index = Levels::new(2000).unwrap();
        let limit = 1000;
        for key in 0..limit {
            let pair = |key: u32| Insertion {
                hash: hash(key),
                number: key,
                equal: move |other| other == key,
            };
            assert_eq!(index.insert_pair(pair(2 * key), pair(2 * key + 1)), Ok(()));
            assert_eq!(
                index.insert_pair(pair(2 * key), pair(1 << 30)),
                Err(2 * key)
            );
        }
        for key in 0..2 * limit {
            assert_eq!(index.find(hash(key), |n| n == key), Some(key));
        }
        assert_eq!(index.find(hash(2 * limit), |n| n == 2 * limit), None);
        for key in (0..2 * limit).step_by(2) {
            assert!(index.remove(hash(key), key) && !index.remove(hash(key), key));
        }
        for key in 0..2 * limit {
            let there = index.find(hash(key), |n| n == key).is_some();
            assert_eq!(there, key % 2 == 1, "{key}");
        }
        for key in (1..2 * limit).step_by(2) {
            assert!(index.remove(hash(key), key));
        }
        assert!(index.is_empty());
    }

    /// Threads insert and remove keys of few buckets. A key that stays is always found.
    #[test]
    fn concurrent_insertions_and_removals_leave_the_others_alone() {
        let index = Arc::new(Levels::new(80).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        for key in 1_000_000..1_000_020 {
            index.insert(hash(key), key);
        }
        let workers: Vec<_> = (0..3u32)
            .map(|worker| {
                let (index, stop) = (index.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut mine = BTreeMap::new();
                    let mut state = worker + 1;
                    let mut next = || {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        state >> 8
                    };
                    for _ in 0..30_000 {
                        let key = worker * 100 + next() % 7;
                        let other = key + 50;
                        if mine.remove(&key).is_some() {
                            assert!(index.remove(hash(key), key));
                            assert!(index.remove(hash(other), other));
                        } else {
                            let pair = |key: u32| Insertion {
                                hash: hash(key),
                                number: key,
                                equal: move |n| n == key,
                            };
                            assert_eq!(index.insert_pair(pair(key), pair(other)), Ok(()));
                            assert_eq!(index.insert_pair(pair(other), pair(key)), Err(other));
                            mine.insert(key, ());
                        }
                    }
                    stop.store(true, SeqCst);
                    mine.into_keys()
                        .flat_map(|key| [key, key + 50])
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        while !stop.load(SeqCst) {
            for key in 1_000_000..1_000_020 {
                assert_eq!(index.find(hash(key), |n| n == key), Some(key));
            }
        }
        let left: Vec<u32> = (workers.into_iter())
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        for key in 0..300 {
            let there = index.find(hash(key), |n| n == key).is_some();
            assert_eq!(there, left.contains(&key), "{key}");
        }
    }

    /// Of many threads that insert one key, one succeeds.
    #[test]
    fn one_of_many_equal_keys_is_inserted() {
        for round in 0..300u32 {
            let index = Levels::new(40).unwrap();
            let won: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3u32)
                    .map(|thread| {
                        let index = &index;
                        scope.spawn(move || {
                            let pair = |key: u32| Insertion {
                                hash: hash(key),
                                number: key << 8 | thread,
                                equal: move |n| n >> 8 == key,
                            };
                            let (a, b) = (pair(round), pair(round + 1000));
                            usize::from(index.insert_pair(a, b).is_ok())
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).sum()
            });
            assert_eq!(won, 1);
        }
    }
}

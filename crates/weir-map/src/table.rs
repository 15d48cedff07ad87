// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of buckets that hash and LRU maps keep their entries in.
//!
//! A bucket has room for four entries. It begins with a control word, the tags of the four keys and
//! their reference bytes (16 bytes together); then follow four keys and four values, in words of 32
//! bits. A bucket with keys of 4 and values of 8 bytes is one cache line.
//!
//! An entry lies in the first bucket with room, from the key's home bucket on, and does not move. Its
//! number (bucket times four plus position) names it in the lists of an LRU map. Each bucket counts
//! the entries that passed it (`OVER`), so a search ends at the first bucket that none has passed. A
//! home bucket also knows what kinds of hashes its entries beyond it have (`BEYOND`), so most searches
//! of absent keys end there.
//!
//! The control word is a sequence lock. A writer sets its lock bit, changes the bucket, and stores the
//! word with the next version. A reader compares the word before and after; it writes nothing. The
//! reader waits only while a writer changes the very bucket. All memory is atomic words, so a torn
//! read is discarded rather than undefined.
//!
//! The lock of a key's home bucket also guards the key itself: two insertions of one key cannot run
//! at the same time. A thread that holds a bucket's lock only tries to take another's. If that fails
//! it gives up both and begins again, so there is no order among buckets.

mod buckets;
mod glance;

use crate::shape::{Shape, hash, set_word, word};
use crate::{Error, Update};
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use weir_sync::primitive::{Backoff, prefetch_to_write};

/// Entries in a bucket.
pub(crate) const SLOTS: usize = 4;
/// The largest key in bytes.
pub(crate) const MAX_KEY: usize = 512;
/// The largest value in bytes.
const MAX_VALUE: usize = 4 << 20;
/// The bytes in front of a bucket's keys.
const HEAD: usize = 16;

// The control word. The lower half has a byte for each slot.
const LOCK: u64 = 1;
const LIVE: u32 = 0x8080_8080;
/// A slot without an entry that is still named in a list.
const DEAD: u32 = 0x4040_4040;
/// A bit for each slot whose entry has another home bucket, from bit 1 on.
const ASTRAY: u64 = 1 << 1;
/// The number of entries that passed the bucket; the largest value is never decremented.
const OVER: u64 = 0x3f00;
const OVER_ONE: u64 = 0x100;
/// A bit for each of eight kinds of hashes of which the bucket may be the home of an entry that lies
/// beyond it. All are zero while no entry has passed the bucket.
const BEYOND: u64 = 0x0f0f_0000;
const VERSION: u64 = 1 << 32;

const LOW: u32 = 0x0101_0101;

/// The result of a successful insertion or update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The entry is new in this slot, which no list names.
    New(u32),
    /// The entry is new in this slot, which a list still names.
    Revived(u32),
    /// The entry existed in this slot and has been changed.
    Changed(u32),
    /// The entry does not exist, and the caller did not allow an insertion.
    Absent,
    /// No slot is free.
    Full,
}

/// The result of an attempt to evict a slot's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The entry has been removed, and the slot is free.
    Entry,
    /// There was no entry; the slot, which a list named, is free now.
    Dead,
}

/// The home bucket of an entry that was evicted, and the bucket beyond it in which the entry lay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Astray {
    home: u32,
    bucket: u32,
}

/// The table. See the module documentation.
pub(crate) struct Table<S> {
    shape: S,
    buckets: buckets::Buckets,
    count: usize,
}

impl<S: Shape> Table<S> {
    /// Creates a table with room for `entries` entries. See [`slots`] for its size.
    pub(crate) fn new(shape: S, entries: u32) -> Result<Self, Error> {
        if shape.key_size() == 0 || shape.value_size() == 0 || entries == 0 {
            return Err(Error::Inval);
        }
        // The kernel bounds the size of an element in the same way (KMALLOC_MAX_SIZE).
        if shape.key_size() > MAX_KEY || shape.value_size() > MAX_VALUE {
            return Err(Error::TooBig);
        }
        let stride = Self::stride_of(&shape);
        let count = slots(entries, stride).div_ceil(SLOTS as u64);
        if count * SLOTS as u64 > u64::from(u32::MAX) {
            return Err(Error::TooBig);
        }
        let count = count as usize;
        Ok(Self {
            buckets: buckets::Buckets::new(count, stride)?,
            shape,
            count,
        })
    }

    pub(crate) fn shape(&self) -> S {
        self.shape
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> u32 {
        (self.count * SLOTS) as u32
    }

    /// The bytes of the table's mapping.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.stride()
    }

    #[inline(always)]
    fn stride_of(shape: &S) -> usize {
        let words = shape.key_size().div_ceil(4) + Self::value_words_of(shape);
        let bytes = HEAD + 4 * SLOTS * words;
        if bytes <= 64 {
            64
        } else {
            bytes.next_multiple_of(32)
        }
    }

    #[inline(always)]
    fn value_words_of(shape: &S) -> usize {
        shape.value_size().div_ceil(4)
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        Self::stride_of(&self.shape)
    }
    #[inline(always)]
    fn key_words(&self) -> usize {
        self.shape.key_size().div_ceil(4)
    }
    #[inline(always)]
    fn control(&self, bucket: usize) -> &AtomicU64 {
        debug_assert!(bucket < self.count);
        self.buckets.control(self.stride(), bucket)
    }
    #[inline(always)]
    fn tags(&self, bucket: usize) -> &AtomicU32 {
        self.buckets.tags(self.stride(), bucket)
    }
    #[inline(always)]
    fn key_word(&self, bucket: usize, slot: usize, index: usize) -> &AtomicU32 {
        let at = slot * self.key_words() + index;
        self.buckets.word(self.stride(), bucket, at)
    }
    #[inline(always)]
    fn value_word(&self, slot: usize) -> usize {
        SLOTS * self.key_words() + slot * Self::value_words_of(&self.shape)
    }

    /// Returns the reference byte of a slot.
    #[inline(always)]
    pub(crate) fn reference(&self, slot: u32) -> &AtomicU8 {
        debug_assert!(slot < self.slots());
        let (bucket, slot) = (slot as usize / SLOTS, slot as usize % SLOTS);
        self.buckets.reference(self.stride(), bucket, slot)
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.count as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.count {
            0
        } else {
            bucket + 1
        }
    }

    /// Prefetches the home bucket of a hash for writing.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, hash: u64) {
        prefetch_to_write(self.buckets.address(self.stride(), self.home(hash)));
    }

    /// Prefetches the bucket of a slot for writing.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, slot: u32) {
        let bucket = slot as usize / SLOTS;
        prefetch_to_write(self.buckets.address(self.stride(), bucket));
    }

    /// Whether pairs of value words are accessed as one.
    #[inline(always)]
    fn doubles(&self) -> bool {
        !cfg!(loom) && self.shape.value_size().is_multiple_of(8)
    }

    /// Copies `out.len()` bytes of a value from byte `from` on, a multiple of 8. The caller holds the
    /// lock or compares the version.
    #[inline(always)]
    pub(crate) fn read_value(&self, slot: u32, from: usize, out: &mut [u8]) {
        let (bucket, slot) = (slot as usize / SLOTS, slot as usize % SLOTS);
        let first = self.value_word(slot) + from / 4;
        #[cfg(not(loom))]
        if self.doubles() {
            for index in 0..out.len().div_ceil(8) {
                let at = self
                    .buckets
                    .double(self.stride(), bucket, first + 2 * index);
                let double = at.load(Ordering::Relaxed).to_ne_bytes();
                let rest = &mut out[8 * index..];
                let len = rest.len().min(8);
                rest[..len].copy_from_slice(&double[..len]);
            }
            return;
        }
        for index in 0..out.len().div_ceil(4) {
            let at = self.buckets.word(self.stride(), bucket, first + index);
            set_word(out, index, at.load(Ordering::Relaxed));
        }
    }

    /// Stores the bytes of a value from byte `from` on, a multiple of 8. The caller holds the lock.
    #[inline(always)]
    fn write_value(&self, bucket: usize, slot: usize, from: usize, value: &[u8]) {
        let first = self.value_word(slot) + from / 4;
        #[cfg(not(loom))]
        if self.doubles() {
            for index in 0..value.len().div_ceil(8) {
                let mut double = [0; 8];
                let rest = &value[8 * index..];
                let len = rest.len().min(8);
                double[..len].copy_from_slice(&rest[..len]);
                let at = self
                    .buckets
                    .double(self.stride(), bucket, first + 2 * index);
                at.store(u64::from_ne_bytes(double), Ordering::Relaxed);
            }
            return;
        }
        for index in 0..value.len().div_ceil(4) {
            let at = self.buckets.word(self.stride(), bucket, first + index);
            at.store(word(value, index), Ordering::Relaxed);
        }
    }

    /// Stores zeroes as a value.
    fn clear_value(&self, bucket: usize, slot: usize) {
        let first = self.value_word(slot);
        let words = Self::value_words_of(&self.shape);
        #[cfg(not(loom))]
        if self.doubles() {
            for index in 0..words / 2 {
                let at = self
                    .buckets
                    .double(self.stride(), bucket, first + 2 * index);
                at.store(0, Ordering::Relaxed);
            }
            return;
        }
        for index in 0..words {
            let at = self.buckets.word(self.stride(), bucket, first + index);
            at.store(0, Ordering::Relaxed);
        }
    }

    /// Copies the key of a slot. The caller holds the lock or compares the version.
    #[inline(always)]
    pub(crate) fn read_key(&self, slot: u32, out: &mut [u8]) {
        let (bucket, slot) = (slot as usize / SLOTS, slot as usize % SLOTS);
        for index in 0..self.key_words() {
            let at = self.key_word(bucket, slot, index);
            set_word(out, index, at.load(Ordering::Relaxed));
        }
    }

    /// Returns the live slots of a bucket whose tag is that of the hash, a bit in each slot's byte.
    /// A slot above a true match may be named by mistake; the comparison of the key decides.
    #[inline(always)]
    fn candidates(&self, bucket: usize, control: u64, hash: u64) -> u32 {
        let tags = self.tags(bucket).load(Ordering::Relaxed) ^ (LOW * (hash as u8 as u32));
        tags.wrapping_sub(LOW) & !tags & control as u32 & LIVE
    }

    #[inline(always)]
    fn key_is(&self, bucket: usize, slot: usize, key: &[u8]) -> bool {
        for index in 0..self.key_words() {
            let at = self.key_word(bucket, slot, index);
            if at.load(Ordering::Relaxed) != word(key, index) {
                return false;
            }
        }
        true
    }

    /// Returns the position of a key in a bucket.
    #[inline(always)]
    fn position(&self, bucket: usize, control: u64, hash: u64, key: &[u8]) -> Option<usize> {
        let mut candidates = self.candidates(bucket, control, hash);
        while candidates != 0 {
            let slot = (candidates.trailing_zeros() / 8) as usize;
            if self.key_is(bucket, slot, key) {
                return Some(slot);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Searches a key, and reads its slot with `read`, which may run several times. Returns the slot
    /// and the result of the run that saw a consistent entry.
    #[inline(always)]
    pub(crate) fn search<R>(
        &self,
        hash: u64,
        key: &[u8],
        mut read: impl FnMut(u32) -> R,
    ) -> Option<(u32, R)> {
        let home = self.home(hash);
        loop {
            let control = self.control(home).load(Ordering::Acquire);
            if control & LOCK != 0 {
                self.wait(home);
                continue;
            }
            let found = self.position(home, control, hash, key).map(|slot| {
                let slot = (home * SLOTS + slot) as u32;
                (slot, read(slot))
            });
            fence(Ordering::Acquire);
            if self.control(home).load(Ordering::Relaxed) != control {
                continue;
            }
            if found.is_some() {
                return found;
            }
            if control & OVER == 0 {
                return None;
            }
            return self.search_beyond(home, control, hash, key, read);
        }
    }

    /// Searches a key in the buckets after its home bucket, whose control word is given.
    #[inline(never)]
    fn search_beyond<R>(
        &self,
        home: usize,
        control: u64,
        hash: u64,
        key: &[u8],
        mut read: impl FnMut(u32) -> R,
    ) -> Option<(u32, R)> {
        if control & kind_of(hash) == 0 {
            return None;
        }
        let mut bucket = self.next(home);
        while bucket != home {
            let control = self.control(bucket).load(Ordering::Acquire);
            if control & LOCK != 0 {
                self.wait(bucket);
                continue;
            }
            let found = self.position(bucket, control, hash, key).map(|slot| {
                let slot = (bucket * SLOTS + slot) as u32;
                (slot, read(slot))
            });
            fence(Ordering::Acquire);
            if self.control(bucket).load(Ordering::Relaxed) != control {
                continue;
            }
            if found.is_some() || control & OVER == 0 {
                return found;
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Waits until a bucket is unlocked.
    #[cold]
    fn wait(&self, bucket: usize) {
        let mut backoff = Backoff::new();
        while self.control(bucket).load(Ordering::Relaxed) & LOCK != 0 {
            backoff.spin();
        }
    }

    #[inline(always)]
    fn try_lock(&self, bucket: usize) -> Option<u64> {
        let control = self.control(bucket).load(Ordering::Relaxed);
        if control & LOCK != 0 {
            return None;
        }
        self.control(bucket)
            .compare_exchange(
                control,
                control | LOCK,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        // The stores to the bucket stay behind the lock bit for every reader that sees one of them.
        fence(Ordering::Release);
        Some(control)
    }

    #[inline(always)]
    fn lock(&self, bucket: usize) -> u64 {
        match self.try_lock(bucket) {
            Some(control) => control,
            None => self.lock_slow(bucket),
        }
    }

    #[cold]
    fn lock_slow(&self, bucket: usize) -> u64 {
        let mut backoff = Backoff::new();
        loop {
            backoff.spin();
            if let Some(control) = self.try_lock(bucket) {
                return control;
            }
        }
    }

    /// Unlocks a bucket that was changed.
    #[inline(always)]
    fn unlock(&self, bucket: usize, control: u64) {
        let next = control.wrapping_add(VERSION);
        self.control(bucket).store(next, Ordering::Release);
    }

    /// Unlocks a bucket that was not changed.
    #[inline(always)]
    fn restore(&self, bucket: usize, control: u64) {
        self.control(bucket).store(control, Ordering::Release);
    }

    /// Counts an entry more that passed a bucket.
    fn passed(control: u64) -> u64 {
        if control & OVER == OVER {
            control
        } else {
            control + OVER_ONE
        }
    }

    /// Counts an entry less. The largest value stays: the true number is not known.
    fn passed_less(control: u64) -> u64 {
        if control & OVER == OVER || control & OVER == 0 {
            control
        } else if control & OVER == OVER_ONE {
            control & !OVER & !BEYOND
        } else {
            control - OVER_ONE
        }
    }

    /// Takes an entry's mark from the buckets between its home and the bucket that it lay in. No lock
    /// is held.
    #[cold]
    fn unmark(&self, from: usize, to: usize) {
        let mut bucket = from;
        while bucket != to {
            let control = self.lock(bucket);
            self.unlock(bucket, Self::passed_less(control));
            bucket = self.next(bucket);
        }
    }

    /// Returns the position for a new entry, and whether a list still names it.
    #[inline(always)]
    fn room(control: u64) -> Option<(usize, bool)> {
        let control = control as u32;
        let free = !(control & LIVE) & !((control & DEAD) << 1) & LIVE;
        if free != 0 {
            return Some(((free.trailing_zeros() / 8) as usize, false));
        }
        let dead = control & DEAD;
        (dead != 0).then(|| ((dead.trailing_zeros() / 8) as usize, true))
    }

    /// Fills a slot of a locked bucket, which is the key's home bucket unless it is `astray`, and unlocks
    /// it.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the state of one operation")]
    fn fill(
        &self,
        bucket: usize,
        control: u64,
        (slot, revived): (usize, bool),
        astray: bool,
        hash: u64,
        key: &[u8],
        value: impl FnOnce(Slot<'_, S>),
    ) -> Placed {
        let shift = 8 * slot as u32;
        let tags = self.tags(bucket);
        let kept = tags.load(Ordering::Relaxed) & !(0xff << shift);
        tags.store(kept | (hash as u8 as u32) << shift, Ordering::Relaxed);
        for index in 0..self.key_words() {
            let at = self.key_word(bucket, slot, index);
            at.store(word(key, index), Ordering::Relaxed);
        }
        let number = (bucket * SLOTS + slot) as u32;
        // A list that still names the slot may be about to evict it; the new entry gets a round.
        self.reference(number)
            .store(u8::from(revived), Ordering::Relaxed);
        value(Slot {
            table: self,
            bucket,
            slot,
            new: true,
        });
        let live = (1u64 << 7) << shift;
        let dead = (1u64 << 6) << shift;
        let astray = if astray { ASTRAY << slot } else { 0 };
        self.unlock(bucket, (control & !dead) | live | astray);
        if revived {
            Placed::Revived(number)
        } else {
            Placed::New(number)
        }
    }

    /// Changes the value of a key, or inserts the key if `insert` allows it. `value` writes the
    /// value, under the bucket's lock.
    #[inline(always)]
    pub(crate) fn upsert(
        &self,
        hash: u64,
        key: &[u8],
        mode: Update,
        insert: bool,
        value: impl Fn(Slot<'_, S>),
    ) -> Result<Placed, Error> {
        let home = self.home(hash);
        let control = self.lock(home);
        if let Some(slot) = self.position(home, control, hash, key) {
            if mode == Update::NoExist {
                self.restore(home, control);
                return Err(Error::Exist);
            }
            return Ok(self.change(home, control, slot, value));
        }
        if mode != Update::Exist
            && insert
            && let Some(room) = Self::room(control)
            && control & kind_of(hash) == 0
        {
            return Ok(self.fill(home, control, room, false, hash, key, value));
        }
        self.upsert_slow(home, control, hash, key, mode, insert, value)
    }

    #[inline(always)]
    fn change(
        &self,
        bucket: usize,
        control: u64,
        slot: usize,
        value: impl FnOnce(Slot<'_, S>),
    ) -> Placed {
        value(Slot {
            table: self,
            bucket,
            slot,
            new: false,
        });
        self.unlock(bucket, control);
        Placed::Changed((bucket * SLOTS + slot) as u32)
    }

    /// The rest of `upsert`, where the home bucket is locked and does not have the key.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "the state of one operation")]
    fn upsert_slow(
        &self,
        home: usize,
        mut control: u64,
        hash: u64,
        key: &[u8],
        mode: Update,
        insert: bool,
        value: impl Fn(Slot<'_, S>),
    ) -> Result<Placed, Error> {
        let mut backoff = Backoff::new();
        // The caller has looked at the home bucket under this lock.
        let mut seen = true;
        loop {
            if !core::mem::replace(&mut seen, false)
                && let Some(slot) = self.position(home, control, hash, key)
            {
                if mode == Update::NoExist {
                    self.restore(home, control);
                    return Err(Error::Exist);
                }
                return Ok(self.change(home, control, slot, value));
            }
            match self.beyond(home, control, hash, key) {
                Beyond::At(bucket, there, slot) => {
                    let result = if mode == Update::NoExist {
                        self.restore(bucket, there);
                        Err(Error::Exist)
                    } else {
                        Ok(self.change(bucket, there, slot, value))
                    };
                    self.restore(home, control);
                    return result;
                }
                Beyond::Absent if mode == Update::Exist || !insert => {
                    self.restore(home, control);
                    return if mode == Update::Exist {
                        Err(Error::NoEnt)
                    } else {
                        Ok(Placed::Absent)
                    };
                }
                Beyond::Absent => {
                    if let Some(room) = Self::room(control) {
                        return Ok(self.fill(home, control, room, false, hash, key, value));
                    }
                    // Marks the buckets on the way, and fills the first with room.
                    let mut bucket = self.next(home);
                    let placed = loop {
                        if bucket == home {
                            break Some(Placed::Full);
                        }
                        let Some(there) = self.try_lock(bucket) else {
                            break None;
                        };
                        if let Some(room) = Self::room(there) {
                            break Some(self.fill(bucket, there, room, true, hash, key, &value));
                        }
                        self.unlock(bucket, Self::passed(there));
                        bucket = self.next(bucket);
                    };
                    match placed {
                        Some(Placed::Full) => {
                            self.restore(home, control);
                            self.unmark(self.next(home), home);
                            return Ok(Placed::Full);
                        }
                        Some(placed) => {
                            self.unlock(home, Self::passed(control) | kind_of(hash));
                            return Ok(placed);
                        }
                        None => {
                            self.restore(home, control);
                            self.unmark(self.next(home), bucket);
                        }
                    }
                }
                Beyond::Contended => self.restore(home, control),
            }
            backoff.spin();
            control = self.lock(home);
        }
    }

    /// Searches the buckets after the home bucket, which is locked, and locks the one with the key.
    #[inline(always)]
    fn beyond(&self, home: usize, control: u64, hash: u64, key: &[u8]) -> Beyond {
        if control & kind_of(hash) == 0 {
            return Beyond::Absent;
        }
        let mut bucket = self.next(home);
        while bucket != home {
            let before = self.control(bucket).load(Ordering::Acquire);
            if before & LOCK != 0 {
                return Beyond::Contended;
            }
            if self.position(bucket, before, hash, key).is_some() {
                let Some(there) = self.try_lock(bucket) else {
                    return Beyond::Contended;
                };
                return match self.position(bucket, there, hash, key) {
                    Some(slot) => Beyond::At(bucket, there, slot),
                    None => {
                        self.restore(bucket, there);
                        Beyond::Contended
                    }
                };
            }
            fence(Ordering::Acquire);
            if self.control(bucket).load(Ordering::Relaxed) != before {
                continue;
            }
            if before & OVER == 0 {
                return Beyond::Absent;
            }
            bucket = self.next(bucket);
        }
        Beyond::Absent
    }

    /// Removes a key. `read` sees its slot under the lock. With `dead` the slot stays unavailable
    /// until [`Table::take`] frees it, because a list names it.
    pub(crate) fn remove(
        &self,
        hash: u64,
        key: &[u8],
        dead: bool,
        mut read: impl FnMut(u32),
    ) -> Option<u32> {
        let home = self.home(hash);
        let mut backoff = Backoff::new();
        loop {
            let control = self.lock(home);
            if let Some(slot) = self.position(home, control, hash, key) {
                let number = (home * SLOTS + slot) as u32;
                read(number);
                self.unlock(home, Self::without(control, slot, dead));
                return Some(number);
            }
            match self.beyond(home, control, hash, key) {
                Beyond::At(bucket, there, slot) => {
                    let number = (bucket * SLOTS + slot) as u32;
                    read(number);
                    self.unlock(bucket, Self::without(there, slot, dead));
                    self.unlock(home, Self::passed_less(control));
                    self.unmark(self.next(home), bucket);
                    return Some(number);
                }
                Beyond::Absent => {
                    self.restore(home, control);
                    return None;
                }
                Beyond::Contended => self.restore(home, control),
            }
            backoff.spin();
        }
    }

    #[inline(always)]
    fn without(control: u64, slot: usize, dead: bool) -> u64 {
        let shift = 8 * slot as u32;
        let control = control & !((1u64 << 7) << shift) & !(ASTRAY << slot);
        if dead {
            control | (1u64 << 6) << shift
        } else {
            control
        }
    }

    /// Frees a slot that a list named, and evicts its entry if there is one. `read` sees the entry
    /// under the lock.
    #[inline(always)]
    pub(crate) fn take(&self, number: u32, read: impl FnMut(u32)) -> Taken {
        let (taken, astray) = self.take_later(number, read);
        if let Some(astray) = astray {
            self.settle(astray);
        }
        taken
    }

    /// Does what [`Table::take`] does, but for the marks that an entry leaves in other buckets, which
    /// [`Table::settle`] takes away. Their first bucket is prefetched.
    #[inline(always)]
    pub(crate) fn take_later(
        &self,
        number: u32,
        mut read: impl FnMut(u32),
    ) -> (Taken, Option<Astray>) {
        let (bucket, slot) = (number as usize / SLOTS, number as usize % SLOTS);
        let control = self.lock(bucket);
        let (next, taken) = Self::freed(control, slot);
        if taken == Taken::Dead {
            self.unlock(bucket, next);
            return (Taken::Dead, None);
        }
        read(number);
        // The key stays readable, but only while the bucket is locked is it the one that was evicted.
        let astray = self.astray(number, control);
        self.unlock(bucket, next);
        (Taken::Entry, astray)
    }

    /// Does what [`Table::take_later`] does by one compare-and-swap. `read` may run several times, the last of them on
    /// the entry that is taken, and sees neither its key nor its value whole.
    #[inline(always)]
    pub(crate) fn take_unread(
        &self,
        number: u32,
        mut read: impl FnMut(u32),
    ) -> (Taken, Option<Astray>) {
        let (bucket, slot) = (number as usize / SLOTS, number as usize % SLOTS);
        loop {
            let word = self.control(bucket);
            let control = word.load(Ordering::Acquire);
            if control & LOCK != 0 {
                self.wait(bucket);
                continue;
            }
            let (next, taken) = Self::freed(control, slot);
            // If the swap succeeds, nothing has changed the entry since the word was loaded.
            let astray = match taken {
                Taken::Entry => {
                    read(number);
                    self.astray(number, control)
                }
                Taken::Dead => None,
            };
            let next = next.wrapping_add(VERSION);
            let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
            if word.compare_exchange(control, next, new, old).is_ok() {
                return (taken, astray);
            }
        }
    }

    /// Returns the control word without a slot's entry, and whether it had one.
    #[inline(always)]
    fn freed(control: u64, slot: usize) -> (u64, Taken) {
        let shift = 8 * slot as u32;
        if control & (1u64 << 7) << shift == 0 {
            (control & !((1u64 << 6) << shift), Taken::Dead)
        } else {
            (Self::without(control, slot, false), Taken::Entry)
        }
    }

    /// Returns what an entry leaves in other buckets.
    #[inline(always)]
    fn astray(&self, number: u32, control: u64) -> Option<Astray> {
        let (bucket, slot) = (number / SLOTS as u32, number as usize % SLOTS);
        (control & ASTRAY << slot != 0).then(|| {
            let home = self.home(self.hash_at(number));
            prefetch_to_write(self.buckets.address(self.stride(), home));
            Astray {
                home: home as u32,
                bucket,
            }
        })
    }

    /// Takes away the marks of an entry that is gone.
    #[inline(always)]
    pub(crate) fn settle(&self, astray: Astray) {
        self.unmark(astray.home as usize, astray.bucket as usize);
    }

    /// Returns the hash of the key in a slot. Unless the caller holds the lock, it may be wrong.
    #[inline(always)]
    pub(crate) fn hash_at(&self, number: u32) -> u64 {
        if self.shape.key_size() <= 16 {
            let mut key = [0; 16];
            let key = &mut key[..self.shape.key_size()];
            self.read_key(number, key);
            hash(key)
        } else {
            let mut key = [0; MAX_KEY];
            let key = &mut key[..self.shape.key_size().min(MAX_KEY)];
            self.read_key(number, key);
            hash(key)
        }
    }

    /// Returns whether a slot holds an entry.
    #[inline(always)]
    pub(crate) fn is_live(&self, number: u32) -> bool {
        let (bucket, slot) = (number as usize / SLOTS, number as usize % SLOTS);
        let control = self.control(bucket).load(Ordering::Relaxed);
        control & (1u64 << 7) << (8 * slot) != 0
    }

    /// Finds the first entry in slot `from` or later and reads it with `read`, which may run several
    /// times.
    pub(crate) fn next_live(&self, from: u32, mut read: impl FnMut(u32)) -> Option<u32> {
        let mut number = from;
        while number < self.slots() {
            let (bucket, slot) = (number as usize / SLOTS, number as usize % SLOTS);
            let control = self.control(bucket).load(Ordering::Acquire);
            if control & LOCK != 0 {
                self.wait(bucket);
                continue;
            }
            let ahead = (control as u32 & LIVE) & (u32::MAX << (8 * slot));
            if ahead == 0 {
                number = ((bucket + 1) * SLOTS) as u32;
                continue;
            }
            let found = (bucket * SLOTS) as u32 + ahead.trailing_zeros() / 8;
            read(found);
            fence(Ordering::Acquire);
            if self.control(bucket).load(Ordering::Relaxed) == control {
                return Some(found);
            }
        }
        None
    }
}

/// Returns the slots of a table with buckets of `stride` bytes: 13 for every 8 entries, and up to 4 for each while the
/// table fits a CPU's second cache. Few entries lie beyond their home buckets then, and threads seldom meet in one.
/// Tables of the first cache's size gain nothing.
fn slots(entries: u32, stride: usize) -> u64 {
    const FIRST: u64 = 512;
    const SECOND: u64 = 640 << 10;
    let entries = u64::from(entries);
    let least = entries + entries * 5 / 8 + 8;
    if entries <= FIRST {
        return least;
    }
    least.max((4 * entries).min(SECOND / stride as u64 * SLOTS as u64))
}

/// Returns the bit of [`BEYOND`] of a hash. Neither the tag nor the home bucket depends on its bits.
#[inline(always)]
fn kind_of(hash: u64) -> u64 {
    // Four in each of two bytes.
    (1 << 16) << ((hash >> 8 & 3) | (hash >> 7 & 8))
}

/// Where the search after the home bucket ended.
enum Beyond {
    /// The key's bucket, which is locked, its control word, and the position.
    At(usize, u64, usize),
    Absent,
    /// Another thread holds a lock that is needed.
    Contended,
}

/// A slot of a locked bucket, whose value is to be written.
pub(crate) struct Slot<'a, S> {
    table: &'a Table<S>,
    bucket: usize,
    slot: usize,
    new: bool,
}

impl<S: Shape> Slot<'_, S> {
    /// Returns the number of the slot if the entry is new.
    #[inline(always)]
    pub(crate) fn begins(&self) -> Option<u32> {
        self.new.then_some((self.bucket * SLOTS + self.slot) as u32)
    }

    /// Writes the whole value.
    #[inline(always)]
    pub(crate) fn write(&self, value: &[u8]) {
        self.table.write_value(self.bucket, self.slot, 0, value);
    }

    /// Returns the first 8 bytes of the value that is about to be replaced; zero if the entry is new.
    pub(crate) fn replaced(&self) -> u64 {
        let mut bytes = [0; 8];
        if !self.new {
            let number = (self.bucket * SLOTS + self.slot) as u32;
            self.table.read_value(number, 0, &mut bytes);
        }
        u64::from_ne_bytes(bytes)
    }

    /// Writes a part of the value from byte `from` on, a multiple of 8; the rest of a new entry's
    /// value is zero.
    pub(crate) fn write_part(&self, from: usize, part: &[u8]) {
        if self.new {
            self.table.clear_value(self.bucket, self.slot);
        }
        self.table.write_value(self.bucket, self.slot, from, part);
    }
}

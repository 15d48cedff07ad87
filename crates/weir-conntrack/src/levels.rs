// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash table as it grows.
//!
//! A [`Levels`] is one [`Index`] most of the time. Growth adds a larger one and moves the numbers there, a few buckets
//! at a time. Meanwhile both are searched, the old one first: a number enters the new one before it leaves the old
//! one. New keys enter the new one alone, under the locks of their home buckets in both. A thread that holds these and
//! still finds the state that it started from is seen by the move, which takes each bucket's lock after the state
//! has changed; any other thread begins again. The move goes over the old table twice, since a number may lie in
//! front of its home bucket, behind the table's end.
//!
//! An old table stays until the end, because a reader may still look at it. It is at most half as large as its successor.

use std::sync::OnceLock;

use weir_sync::primitive::Backoff;
use weir_sync::primitive::atomic::{AtomicU32, Ordering::*};
use weir_sync::spin::SpinLock;

use crate::index::{Entered, Index, Insertion};

/// The largest number of tables: each is twice as large as the last.
const LEVELS: usize = 28;

/// The bits of `state` with the number of the newest table.
const NEWEST: u32 = 0xff;

/// The hash table; see the module documentation.
pub(crate) struct Levels {
    levels: [OnceLock<Index>; LEVELS],
    /// The number of the newest table, and above [`NEWEST`] that of the oldest with numbers in it.
    state: AtomicU32,
    /// The keys for which the newest table was made.
    room: AtomicU32,
    /// Guards growth. The bucket that moves next; those of the second round are counted on.
    next: SpinLock<usize>,
}

impl Levels {
    /// Makes a table for `keys` keys. Returns `None` without memory.
    pub(crate) fn new(keys: usize) -> Option<Self> {
        let levels: [OnceLock<Index>; LEVELS] = Default::default();
        let _ = levels[0].set(Index::new(keys)?);
        Some(Self {
            levels,
            state: AtomicU32::new(0),
            room: AtomicU32::new(keys as u32),
            next: SpinLock::new(0),
        })
    }

    /// Returns the oldest table and the newest.
    #[inline(always)]
    fn ends(&self, state: u32) -> (&Index, &Index) {
        let level = |at: u32| {
            let level = self.levels.get(at as usize).and_then(OnceLock::get);
            level.expect("the state names tables that were made before")
        };
        let newest = level(state & NEWEST);
        if state & NEWEST == state >> 8 {
            return (newest, newest);
        }
        (level(state >> 8), newest)
    }

    #[inline(always)]
    fn state(&self) -> u32 {
        self.state.load(Acquire)
    }

    /// Returns the newest table, for prefetching.
    #[inline(always)]
    pub(crate) fn newest(&self) -> &Index {
        self.ends(self.state()).1
    }

    /// Returns for how many keys there is room.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.room.load(Relaxed) as usize
    }

    /// Returns the number of buckets.
    pub(crate) fn buckets(&self) -> usize {
        self.newest().buckets()
    }

    /// Searches a key's home bucket, and returns what `matches` returns for a number. `None` if the key may be elsewhere.
    #[inline(always)]
    pub(crate) fn find_home<R>(
        &self,
        hash: u64,
        matches: impl Fn(u32) -> Option<R>,
    ) -> Option<Option<R>> {
        let state = self.state();
        if state & NEWEST != state >> 8 {
            return None;
        }
        let (found, last) = self.ends(state).1.search_home(hash, matches);
        (found.is_some() || last && self.state() == state).then_some(found)
    }

    /// Returns the number for which `matches` is true. When it returns one, the number was in the table during the
    /// last call of `matches` for it.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        let state = self.state();
        let (oldest, newest) = self.ends(state);
        if std::ptr::eq(oldest, newest) {
            let (found, last) = newest.find_home(hash, &mut matches);
            if found.is_some() || last && self.state() == state {
                return found;
            }
        }
        self.find_beyond(hash, &mut matches)
    }

    /// The same in all buckets and tables.
    fn find_beyond(&self, hash: u64, matches: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let mut state = self.state();
        loop {
            let (oldest, newest) = self.ends(state);
            if !std::ptr::eq(oldest, newest)
                && let found @ Some(_) = oldest.find(hash, matches)
            {
                return found;
            }
            if let found @ Some(_) = newest.find(hash, matches) {
                return found;
            }
            // The number may have moved meanwhile.
            let now = self.state();
            if now == state {
                return None;
            }
            state = now;
        }
    }

    /// Inserts two keys at once. Returns the number of an equal key if there is one, that of the first key's if both
    /// have one.
    pub(crate) fn insert_pair(
        &self,
        mut first: Insertion<impl FnMut(u32) -> bool>,
        mut second: Insertion<impl FnMut(u32) -> bool>,
    ) -> Result<(), u32> {
        let mut backoff = Backoff::new();
        loop {
            let state = self.state();
            let current = || self.state() == state;
            let (oldest, newest) = self.ends(state);
            let entered = if std::ptr::eq(oldest, newest) {
                newest.insert_pair(&mut first, &mut second, current)
            } else {
                oldest.absent(&mut first, &mut second, |first, second| {
                    newest.insert_pair(first, second, current)
                })
            };
            match entered {
                Entered::Both => return Ok(()),
                // During growth the equal of the first key may have moved since the old table was searched for it.
                Entered::Equal(number) => {
                    return Err(self.find(first.hash, &mut first.equal).unwrap_or(number));
                }
                Entered::First => {
                    self.remove(first.hash, first.number);
                }
                Entered::None => {}
            }
            backoff.snooze();
        }
    }

    /// Inserts a key that need not be the only one of its kind.
    pub(crate) fn insert(&self, hash: u64, number: u32) {
        let mut backoff = Backoff::new();
        loop {
            let state = self.state();
            let current = || self.state() == state;
            if self.ends(state).1.insert(hash, number, current) {
                return;
            }
            backoff.snooze();
        }
    }

    /// Removes a number. Returns false if it is not there.
    pub(crate) fn remove(&self, hash: u64, number: u32) -> bool {
        let mut state = self.state();
        loop {
            let (oldest, newest) = self.ends(state);
            if !std::ptr::eq(oldest, newest) && oldest.remove(hash, number)
                || newest.remove(hash, number)
            {
                return true;
            }
            let now = self.state();
            if now == state {
                return false;
            }
            state = now;
        }
    }

    /// Makes room for `keys` keys, and for at least twice as many as there is room for. Returns false without memory.
    /// `hash_of` gives the hash of a number that is in the table.
    #[cold]
    pub(crate) fn grow(&self, keys: usize, hash_of: impl Fn(u32) -> u64) -> bool {
        let mut next = self.next.lock();
        if self.room() >= keys {
            return true;
        }
        while self.is_moving() {
            self.step(&mut next, usize::MAX, &hash_of);
        }
        let newest = self.state() & NEWEST;
        let keys = keys.max(2 * self.room());
        let Some(level) = self.levels.get(newest as usize + 1) else {
            return false;
        };
        let Some(index) = Index::new(keys) else {
            return false;
        };
        let _ = level.set(index);
        *next = 0;
        self.state.store((newest << 8) | (newest + 1), Release);
        self.room.store(keys as u32, Relaxed);
        true
    }

    /// Returns whether numbers are to be moved.
    #[inline(always)]
    pub(crate) fn is_moving(&self) -> bool {
        let state = self.state.load(Relaxed);
        state & NEWEST != state >> 8
    }

    /// Moves the numbers of `buckets` buckets, unless another thread does just that.
    #[cold]
    pub(crate) fn advance(&self, buckets: usize, hash_of: impl Fn(u32) -> u64) {
        if let Some(mut next) = self.next.try_lock() {
            self.step(&mut next, buckets, &hash_of);
        }
    }

    /// Returns whether nothing is left of any number.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        levels.into_iter().all(Index::is_empty)
    }

    fn step(&self, next: &mut usize, buckets: usize, hash_of: &impl Fn(u32) -> u64) {
        let state = self.state();
        let (oldest, newest) = self.ends(state);
        if std::ptr::eq(oldest, newest) {
            return;
        }
        let count = oldest.buckets();
        for _ in 0..buckets {
            if *next == 2 * count {
                let newest = state & NEWEST;
                return self.state.store(newest << 8 | newest, Release);
            }
            oldest.empty(*next % count, newest, hash_of);
            *next += 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn hash(key: u32) -> u64 {
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn pair(key: u32) -> Insertion<impl FnMut(u32) -> bool> {
        Insertion {
            hash: hash(key),
            number: key,
            equal: move |number| number == key,
        }
    }

    #[test]
    fn a_table_that_grows_keeps_its_numbers() {
        let levels = Levels::new(40).unwrap();
        let enter = |key: u32| levels.insert_pair(pair(key), pair(key + 1));
        for key in (0..40).step_by(2) {
            assert_eq!(enter(key), Ok(()));
        }
        for (room, keys) in [(80, 40), (1000, 80), (1001, 1000)] {
            assert!(levels.grow(room, hash) && levels.is_moving());
            // In the middle of the move all are found, may be removed, and are not inserted again.
            for key in 0..keys {
                levels.advance(1, hash);
                assert_eq!(levels.find(hash(key), |number| number == key), Some(key));
                assert_eq!(levels.insert_pair(pair(key), pair(1 << 30)), Err(key));
                assert_eq!(levels.insert_pair(pair(key), pair(key ^ 1)), Err(key));
                if key % 2 == 0 && key % 4 == 0 {
                    assert!(levels.remove(hash(key), key) && !levels.remove(hash(key), key));
                    assert!(levels.remove(hash(key + 1), key + 1));
                    assert_eq!(levels.find(hash(key), |number| number == key), None);
                    assert_eq!(enter(key), Ok(()));
                }
            }
            for key in (keys..room.min(1000) as u32).step_by(2) {
                assert_eq!(enter(key), Ok(()));
            }
        }
        assert_eq!(levels.room(), 2000);
        while levels.is_moving() {
            levels.advance(7, hash);
        }
        for key in 0..1000 {
            assert_eq!(levels.find(hash(key), |number| number == key), Some(key));
            assert!(levels.remove(hash(key), key));
        }
        assert!(levels.is_empty());
    }

    /// Threads insert and remove keys while the table grows again and again. A key that stays is always found.
    #[test]
    fn concurrent_insertions_and_removals_survive_growth() {
        let levels = &Levels::new(100).unwrap();
        let stop = &AtomicBool::new(false);
        let stays = 1_000_000..1_000_020u32;
        for key in stays.clone() {
            levels.insert(hash(key), key);
        }
        std::thread::scope(|scope| {
            for worker in 0..2u32 {
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let key = worker * 1000 + round % 20 * 2;
                        assert_eq!(levels.insert_pair(pair(key), pair(key + 1)), Ok(()));
                        assert_eq!(levels.insert_pair(pair(key + 1), pair(key)), Err(key + 1));
                        assert!(levels.remove(hash(key), key));
                        assert!(levels.remove(hash(key + 1), key + 1));
                        if levels.is_moving() {
                            levels.advance(1, hash);
                        }
                    }
                    stop.store(true, SeqCst);
                });
            }
            let mut room = 100;
            while !stop.load(SeqCst) {
                for key in stays.clone() {
                    assert_eq!(levels.find(hash(key), |number| number == key), Some(key));
                }
                if !levels.is_moving() && room < 100_000 {
                    room *= 2;
                    assert!(levels.grow(room, hash));
                }
            }
        });
        while levels.is_moving() {
            levels.advance(100, hash);
        }
        for key in stays {
            assert!(levels.remove(hash(key), key));
        }
        assert!(levels.is_empty());
    }
}

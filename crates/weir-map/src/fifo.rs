// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of slot numbers, in chunks from a common pool.
//!
//! A queue takes 4 bytes an entry and is read and written in order, so the next slots to be evicted
//! are known ahead and can be prefetched. A slot is in one queue or [`Bag`] at most, and holes are bounded, so
//! the pool, which has entries for all, never runs out.
//!
//! A queue is a list of full chunks and an open one that single entries go to. A thread that has filled a chunk
//! of its own appends it as it is, and takes the oldest chunk as a whole: both take as long as a single entry.

use crate::Error;
use crate::memory::Words;
use weir_sync::primitive::atomic::{AtomicU32, Ordering};
use weir_sync::primitive::prefetch_to_write;
use weir_sync::spin::SpinLock;

/// No chunk, and no entry.
pub(crate) const NONE: u32 = u32::MAX;
/// Entries in a cache line.
const LINE: usize = 16;
/// Holes are at most this part of the slots.
const HOLES: u32 = 16;

/// The chunks of all queues of a map.
pub(crate) struct Pool {
    /// The entries; guarded by the lock of the queue's shard, or of the lane whose bag has the chunk.
    entries: Words<AtomicU32>,
    /// For each chunk the next one of its queue, or of the free chunks, and the number of its holes.
    links: Words<AtomicU32>,
    /// The base-2 logarithm of the number of entries in a chunk.
    shift: u32,
    slots: u32,
    /// The first free chunk, and the number of chunks that were ever used.
    free: SpinLock<(u32, u32)>,
}

impl Pool {
    /// Creates a pool for `slots` entries in `queues` queues and `bags` bags. Chunks have up to `size` entries, an
    /// even part for each queue unless given.
    pub(crate) fn new(
        slots: u32,
        queues: usize,
        bags: usize,
        size: Option<u32>,
    ) -> Result<Self, Error> {
        let even = || (slots / (8 * queues as u32)).clamp(16, 1024);
        let shift = size.unwrap_or_else(even).max(1).ilog2();
        let holes = slots as usize / HOLES as usize;
        let chunks = ((slots as usize + holes) >> shift) + 2 * queues + bags + 2;
        Ok(Self {
            entries: Words::new(chunks << shift)?,
            links: Words::new(2 * chunks)?,
            shift,
            slots,
            free: SpinLock::new((NONE, 0)),
        })
    }

    /// The bytes of the pool's mappings.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.entries.len() + self.links.len())
    }

    /// The number of entries in a chunk.
    #[inline(always)]
    pub(crate) fn size(&self) -> u32 {
        1 << self.shift
    }

    #[inline(always)]
    fn entry(&self, chunk: u32, at: u32) -> &AtomicU32 {
        self.entries
            .at(((chunk as usize) << self.shift) + at as usize)
    }

    /// The entries of a chunk in front of place `end`.
    #[inline(always)]
    fn chunk(&self, chunk: u32, end: u32) -> &[AtomicU32] {
        self.entries
            .run((chunk as usize) << self.shift, end as usize)
    }

    fn link(&self, chunk: u32) -> &AtomicU32 {
        self.links.at(2 * chunk as usize)
    }

    fn holes(&self, chunk: u32) -> &AtomicU32 {
        self.links.at(2 * chunk as usize + 1)
    }

    /// Prefetches a chunk's link and number of holes.
    #[inline(always)]
    fn prefetch_link(&self, chunk: u32) {
        if chunk != NONE {
            prefetch_to_write(self.link(chunk));
        }
    }

    #[cold]
    fn alloc(&self) -> u32 {
        let mut free = self.free.lock();
        match free.0 {
            NONE => {
                free.1 += 1;
                free.1 - 1
            }
            chunk => {
                free.0 = self.link(chunk).load(Ordering::Relaxed);
                chunk
            }
        }
    }

    #[cold]
    fn release(&self, chunk: u32) {
        let mut free = self.free.lock();
        self.link(chunk).store(free.0, Ordering::Relaxed);
        free.0 = chunk;
    }
}

/// A chunk that one user fills or empties: a lane, or a queue whose newest entries it has. Its operations take the
/// pool that it was used with from the beginning.
#[derive(Debug)]
pub(crate) struct Bag {
    /// [`NONE`] until it is needed.
    chunk: u32,
    first: u32,
    end: u32,
}

impl Default for Bag {
    fn default() -> Self {
        Self {
            chunk: NONE,
            first: 0,
            end: 0,
        }
    }
}

impl Bag {
    /// Keeps the entries for which `f` returns true, and moves them to the beginning of the chunk.
    pub(crate) fn retain(&mut self, pool: &Pool, mut f: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for entry in self.entries(pool) {
            let slot = entry.load(Ordering::Relaxed);
            if f(slot) {
                pool.entry(self.chunk, kept).store(slot, Ordering::Relaxed);
                kept += 1;
            }
        }
        (self.first, self.end) = (0, kept);
    }

    /// Whether there are neither entries nor holes.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Whether the last place of the chunk is taken.
    #[inline(always)]
    pub(crate) fn is_full(&self, pool: &Pool) -> bool {
        self.end == pool.size()
    }

    /// Appends an entry to a bag that is not full.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &Pool, slot: u32) {
        if self.chunk == NONE {
            self.chunk = pool.alloc();
        }
        pool.entry(self.chunk, self.end)
            .store(slot, Ordering::Relaxed);
        self.end += 1;
    }

    /// The entries and holes ([`NONE`]).
    #[inline(always)]
    pub(crate) fn entries<'p>(&self, pool: &'p Pool) -> &'p [AtomicU32] {
        if self.is_empty() {
            return &[];
        }
        &pool.chunk(self.chunk, self.end)[self.first as usize..]
    }

    /// Prefetches the entries for writing: another thread may have put them in, and the chunk is filled anew later.
    #[inline(always)]
    pub(crate) fn prefetch(&self, pool: &Pool) {
        for line in self.entries(pool).chunks(LINE) {
            prefetch_to_write(line.as_ptr());
        }
    }

    /// Takes out the `count` oldest entries and holes.
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: u32) {
        self.first += count;
        debug_assert!(self.first <= self.end);
        if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<u32> {
        while let Some(oldest) = self.entries(pool).first() {
            let slot = oldest.load(Ordering::Relaxed);
            self.advance(1);
            if slot != NONE {
                return Some(slot);
            }
        }
        None
    }

    /// Gives the chunk of an empty bag to the first of `others` without one, or to the pool.
    pub(crate) fn pass_on<const N: usize>(&mut self, pool: &Pool, others: [&mut Bag; N]) {
        debug_assert!(self.is_empty());
        let chunk = core::mem::replace(&mut self.chunk, NONE);
        if chunk == NONE {
            return;
        }
        match others.into_iter().find(|other| other.chunk == NONE) {
            Some(other) => other.chunk = chunk,
            None => pool.release(chunk),
        }
    }
}

/// A queue. Its operations take the pool that it was used with from the beginning.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// The chunk, the position of the oldest entry, and the position after the last of the chunk. The chunks
    /// behind it are full.
    head: u32,
    first: u32,
    end: u32,
    tail: u32,
    /// The newest of the entries that were pushed one by one.
    open: Bag,
    /// Entries and holes, and those of them that are not in `open`.
    len: u32,
    closed: u32,
    /// Entries that were taken out before they were the oldest.
    holes: u32,
    /// The chunk and the position where the next scan begins.
    scan: (u32, u32),
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            head: NONE,
            first: 0,
            end: 0,
            tail: NONE,
            open: Bag::default(),
            len: 0,
            closed: 0,
            holes: 0,
            scan: (NONE, 0),
        }
    }
}

impl Fifo {
    /// The number of entries.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len - self.holes
    }

    /// Prefetches the links that [`Fifo::push_bag`] and [`Fifo::draw_bag`] use.
    #[inline(always)]
    pub(crate) fn prefetch(&self, pool: &Pool, bag: &Bag) {
        for chunk in [self.head, self.tail, bag.chunk] {
            pool.prefetch_link(chunk);
        }
    }

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &Pool, slot: u32) {
        self.open.push(pool, slot);
        self.len += 1;
        if self.open.is_full(pool) {
            self.close(pool);
        }
    }

    /// Appends the chunk of a full bag without holes, which has none then.
    pub(crate) fn push_bag(&mut self, pool: &Pool, bag: &mut Bag) {
        debug_assert!(bag.is_full(pool) && bag.first == 0);
        self.len += bag.end;
        self.append(pool, core::mem::take(bag));
    }

    /// Takes the oldest chunk into a bag without one. Returns whether there was any.
    pub(crate) fn draw_bag(&mut self, pool: &Pool, bag: &mut Bag) -> bool {
        debug_assert_eq!(bag.chunk, NONE);
        if !self.open_head(pool) {
            return false;
        }
        *bag = Bag {
            chunk: self.head,
            first: self.first,
            end: self.end,
        };
        let count = self.end - self.first;
        self.len -= count;
        self.closed -= count;
        self.holes -= pool.holes(self.head).load(Ordering::Relaxed);
        self.next_head(pool);
        true
    }

    /// Appends the open chunk to the others.
    #[cold]
    fn close(&mut self, pool: &Pool) {
        let open = core::mem::take(&mut self.open);
        self.append(pool, open);
    }

    /// Appends a bag's chunk, which is full unless it will be the only one.
    fn append(&mut self, pool: &Pool, bag: Bag) {
        pool.link(bag.chunk).store(NONE, Ordering::Relaxed);
        pool.holes(bag.chunk).store(0, Ordering::Relaxed);
        self.closed += bag.end - bag.first;
        if self.head == NONE {
            (self.head, self.first, self.end) = (bag.chunk, bag.first, bag.end);
            self.scan = (bag.chunk, bag.first);
        } else {
            pool.link(self.tail).store(bag.chunk, Ordering::Relaxed);
        }
        self.tail = bag.chunk;
    }

    /// Makes the open chunk the head if there is no other. Returns whether there is a head.
    #[inline(always)]
    fn open_head(&mut self, pool: &Pool) -> bool {
        if self.head == NONE {
            if self.open.is_empty() {
                return false;
            }
            self.close(pool);
        }
        true
    }

    /// Goes on to the next chunk. The head has another user or none.
    fn next_head(&mut self, pool: &Pool) {
        let next = pool.link(self.head).load(Ordering::Relaxed);
        if self.scan.0 == self.head {
            self.scan = (next, 0);
        }
        (self.head, self.first, self.end) = (next, 0, pool.size());
        if next == NONE {
            self.tail = NONE;
        }
    }

    /// Takes the oldest entry.
    #[inline(always)]
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<u32> {
        while self.open_head(pool) {
            let slot = pool.entry(self.head, self.first).load(Ordering::Relaxed);
            self.advance(pool, 1, u32::from(slot == NONE));
            if slot != NONE {
                return Some(slot);
            }
        }
        None
    }

    /// Shows the next `count` entries from where the last scan ended to `f`, from old to new and then
    /// from the oldest again, but none of the open chunk. Entries for which it returns true are taken out.
    #[inline(always)]
    pub(crate) fn scan(
        &mut self,
        pool: &Pool,
        count: u32,
        mut ahead: impl FnMut(u32),
        mut f: impl FnMut(u32) -> bool,
    ) {
        const AHEAD: usize = 12;
        let most_holes = pool.slots / HOLES;
        let mut left = count.min(self.closed - self.holes);
        // A round visits a chunk at least, and two rounds through the queue see all entries.
        for _ in 0..2 * self.closed {
            if self.scan.0 == NONE {
                self.scan = (self.head, self.first);
            }
            let (chunk, first) = self.scan;
            if left == 0 || chunk == NONE {
                return;
            }
            let end = self.end_of(pool, chunk);
            if first == end {
                self.scan = (pool.link(chunk).load(Ordering::Relaxed), 0);
                continue;
            }
            let entries = &pool.chunk(chunk, end)[first as usize..];
            for (at, entry) in entries.iter().enumerate() {
                if left == 0 || self.holes >= most_holes {
                    return;
                }
                self.scan.1 += 1;
                // The next scan may be another CPU's, so entries beyond this one are not prefetched.
                if left > AHEAD as u32
                    && let Some(next) = entries.get(at + AHEAD)
                {
                    let next = next.load(Ordering::Relaxed);
                    if next != NONE {
                        ahead(next);
                    }
                }
                let slot = entry.load(Ordering::Relaxed);
                if slot == NONE {
                    continue;
                }
                left -= 1;
                if f(slot) {
                    entry.store(NONE, Ordering::Relaxed);
                    self.holes += 1;
                    let holes = pool.holes(chunk);
                    holes.store(holes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The place after the last entry of a chunk.
    #[inline(always)]
    fn end_of(&self, pool: &Pool, chunk: u32) -> u32 {
        if chunk == self.head {
            self.end
        } else {
            pool.size()
        }
    }

    /// Shows the oldest entries to `f`, with the one that comes up a little later, and takes them out,
    /// until `f` returns false. The entry that it does so for stays.
    #[inline(always)]
    pub(crate) fn drain(&mut self, pool: &Pool, mut f: impl FnMut(u32, Option<u32>) -> bool) {
        const AHEAD: usize = 12;
        while self.open_head(pool) {
            let entries = &pool.chunk(self.head, self.end)[self.first as usize..];
            let (mut taken, mut holes, mut more) = (0, 0, true);
            for (at, entry) in entries.iter().enumerate() {
                let slot = entry.load(Ordering::Relaxed);
                if slot == NONE {
                    holes += 1;
                } else {
                    let next = entries.get(at + AHEAD);
                    let next = next.map(|next| next.load(Ordering::Relaxed));
                    if !f(slot, next.filter(|&next| next != NONE)) {
                        more = false;
                        break;
                    }
                }
                taken += 1;
            }
            self.advance(pool, taken, holes);
            if !more {
                return;
            }
        }
    }

    /// Takes out the `count` oldest entries, all of which are in the first chunk; `holes` of them are
    /// holes.
    #[inline(always)]
    fn advance(&mut self, pool: &Pool, count: u32, holes: u32) {
        self.first += count;
        self.len -= count;
        self.closed -= count;
        self.holes -= holes;
        if holes > 0 {
            let left = pool.holes(self.head);
            left.store(left.load(Ordering::Relaxed) - holes, Ordering::Relaxed);
        }
        if self.first == self.end {
            self.release_head(pool);
        } else if self.scan.0 == self.head {
            self.scan.1 = self.scan.1.max(self.first);
        }
    }

    #[cold]
    fn release_head(&mut self, pool: &Pool) {
        let mut empty = Bag {
            chunk: self.head,
            ..Bag::default()
        };
        self.next_head(pool);
        empty.pass_on(pool, [&mut self.open]);
    }

    /// Returns the entry `ahead` places after the oldest one, if it lies in the same full chunk.
    #[inline(always)]
    pub(crate) fn peek(&self, pool: &Pool, ahead: u32) -> Option<u32> {
        let at = self.first + ahead;
        if self.head == NONE || at >= self.end {
            return None;
        }
        let slot = pool.entry(self.head, at).load(Ordering::Relaxed);
        (slot != NONE).then_some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// The entries of a queue: of the full chunks, and of the open one.
    #[derive(Default)]
    struct Model {
        closed: VecDeque<u32>,
        open: VecDeque<u32>,
    }

    impl Model {
        fn push(&mut self, slot: u32, size: usize) {
            self.open.push_back(slot);
            if self.open.len() == size {
                self.closed.append(&mut self.open);
            }
        }

        fn oldest(&mut self) -> &mut VecDeque<u32> {
            if self.closed.is_empty() {
                core::mem::swap(&mut self.closed, &mut self.open);
            }
            &mut self.closed
        }
    }

    #[test]
    fn queues_keep_the_order_and_return_their_chunks() {
        let pool = Pool::new(300, 2, 2, Some(16)).unwrap();
        let size = pool.size() as usize;
        let mut queues = [Fifo::default(), Fifo::default()];
        let mut models = [Model::default(), Model::default()];
        let mut bag = Bag::default();
        let mut random = 1u64;
        let mut below = |end: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) as usize % end
        };
        let mut free: Vec<u32> = (0..300).collect();
        let mut drawn = 0;
        for _ in 0..100_000 {
            let which = below(2);
            let (queue, model) = (&mut queues[which], &mut models[which]);
            match below(32) {
                0..2 => queue.scan(
                    &pool,
                    5,
                    |_| (),
                    |slot| {
                        assert!(model.closed.contains(&slot));
                        let out = slot.is_multiple_of(3);
                        if out {
                            model.closed.retain(|&other| other != slot);
                            free.push(slot);
                        }
                        out
                    },
                ),
                2 => {
                    let mut left = below(40);
                    queue.drain(&pool, |slot, next| {
                        let model = model.oldest();
                        assert_eq!(Some(&slot), model.front());
                        assert!(next.is_none_or(|next| model.contains(&next)));
                        let more = left > 0;
                        if more {
                            left -= 1;
                            free.extend(model.pop_front());
                        }
                        more
                    });
                }
                3 if free.len() >= 2 * size => {
                    // A bag keeps the order and what it is told to, and fills up after it gave entries away.
                    for _ in 0..3 {
                        bag.push(&pool, free.pop().unwrap());
                    }
                    free.extend(bag.pop(&pool));
                    while !bag.is_full(&pool) {
                        bag.push(&pool, free.pop().unwrap());
                        if bag.is_full(&pool) {
                            bag.retain(&pool, |slot| {
                                let keep = !slot.is_multiple_of(7);
                                if !keep {
                                    free.insert(0, slot);
                                }
                                keep
                            });
                        }
                    }
                    let entries = bag.entries(&pool).iter();
                    let load = |entry: &AtomicU32| entry.load(Ordering::Relaxed);
                    model.closed.extend(entries.map(load));
                    queue.push_bag(&pool, &mut bag);
                    assert!(bag.is_empty());
                }
                4 => {
                    // Holes only may be left.
                    let any = queue.len > 0;
                    assert!(any || model.closed.is_empty() && model.open.is_empty());
                    assert_eq!(queue.draw_bag(&pool, &mut bag), any);
                    while let Some(slot) = bag.pop(&pool) {
                        assert_eq!(model.oldest().pop_front(), Some(slot));
                        free.push(slot);
                        drawn += 1;
                    }
                    let mut other = Bag::default();
                    bag.pass_on(&pool, [&mut other]);
                    other.pass_on(&pool, []);
                }
                5..19 => {
                    if let Some(slot) = free.pop() {
                        queue.push(&pool, slot);
                        model.push(slot, size);
                    }
                }
                _ => {
                    let slot = queue.pop(&pool);
                    assert_eq!(slot, model.oldest().pop_front());
                    free.extend(slot);
                }
            }
            let len = model.closed.len() + model.open.len();
            assert_eq!(queue.len() as usize, len);
            if queue.holes == 0 && !model.closed.is_empty() {
                assert_eq!(queue.peek(&pool, 0), model.closed.front().copied());
            }
        }
        assert!(drawn > 10_000, "{drawn}");
    }
}

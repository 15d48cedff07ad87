// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of slot numbers, in chunks from a common pool.
//!
//! A queue takes 4 bytes an entry and is read and written in order, so the next slots to be evicted
//! are known ahead and can be prefetched. A slot is in one queue at most, and holes are bounded, so
//! the pool, which has entries for both, never runs out.

use crate::Error;
use crate::memory::Words;
use weir_sync::primitive::atomic::{AtomicU32, Ordering};
use weir_sync::spin::SpinLock;

const NONE: u32 = u32::MAX;
/// Holes are at most this part of the slots.
const HOLES: u32 = 16;

/// The chunks of all queues of a map.
pub(crate) struct Pool {
    /// The entries; guarded by the lock of the queue's shard.
    entries: Words<AtomicU32>,
    /// For each chunk the next one of its queue, or of the free chunks.
    links: Words<AtomicU32>,
    /// The base-2 logarithm of the number of entries in a chunk.
    shift: u32,
    slots: u32,
    /// The first free chunk, and the number of chunks that were ever used.
    free: SpinLock<(u32, u32)>,
}

impl Pool {
    /// Creates a pool for `slots` entries in `queues` queues.
    pub(crate) fn new(slots: u32, queues: usize) -> Result<Self, Error> {
        let even = (slots as usize / (8 * queues)).clamp(16, 1024);
        let shift = even.ilog2();
        let holes = slots as usize / HOLES as usize;
        let chunks = ((slots as usize + holes) >> shift) + 2 * queues + 2;
        Ok(Self {
            entries: Words::new(chunks << shift)?,
            links: Words::new(chunks)?,
            shift,
            slots,
            free: SpinLock::new((NONE, 0)),
        })
    }

    /// The bytes of the pool's mappings.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.entries.len() + self.links.len())
    }

    fn size(&self) -> u32 {
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
        self.links.at(chunk as usize)
    }

    #[cold]
    fn alloc(&self) -> u32 {
        let mut free = self.free.lock();
        let chunk = match free.0 {
            NONE => {
                free.1 += 1;
                free.1 - 1
            }
            chunk => {
                free.0 = self.link(chunk).load(Ordering::Relaxed);
                chunk
            }
        };
        self.link(chunk).store(NONE, Ordering::Relaxed);
        chunk
    }

    #[cold]
    fn release(&self, chunk: u32) {
        let mut free = self.free.lock();
        self.link(chunk).store(free.0, Ordering::Relaxed);
        free.0 = chunk;
    }
}

/// A queue. Its operations take the pool that it was used with from the beginning.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// The chunk and the position of the oldest entry.
    head: u32,
    first: u32,
    /// The chunk and the position after the newest entry.
    tail: u32,
    end: u32,
    /// Entries and holes.
    len: u32,
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
            tail: NONE,
            end: 0,
            len: 0,
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

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &Pool, slot: u32) {
        if self.tail == NONE || self.end == pool.size() {
            let chunk = pool.alloc();
            if self.tail == NONE {
                (self.head, self.first) = (chunk, 0);
                self.scan = (chunk, 0);
            } else {
                pool.link(self.tail).store(chunk, Ordering::Relaxed);
            }
            (self.tail, self.end) = (chunk, 0);
        }
        pool.entry(self.tail, self.end)
            .store(slot, Ordering::Relaxed);
        self.end += 1;
        self.len += 1;
    }

    /// Takes the oldest entry.
    #[inline(always)]
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<u32> {
        while self.len > 0 {
            let slot = pool.entry(self.head, self.first).load(Ordering::Relaxed);
            self.advance(pool, 1, u32::from(slot == NONE));
            if slot != NONE {
                return Some(slot);
            }
        }
        None
    }

    /// Shows the next `count` entries from where the last scan ended to `f`, from old to new and then
    /// from the oldest again. Entries for which it returns true are taken out.
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
        let mut left = count.min(self.len());
        // A round visits a chunk at least, and two rounds through the queue see all entries.
        for _ in 0..2 * self.len {
            let (chunk, first) = self.scan;
            let end = self.end_of(pool, chunk);
            if left == 0 {
                return;
            }
            if first == end {
                self.scan = if chunk == self.tail {
                    (self.head, self.first)
                } else {
                    (pool.link(chunk).load(Ordering::Relaxed), 0)
                };
                continue;
            }
            let entries = &pool.chunk(chunk, end)[first as usize..];
            for (at, entry) in entries.iter().enumerate() {
                if left == 0 || self.holes >= most_holes {
                    return;
                }
                self.scan.1 += 1;
                if let Some(next) = entries.get(at + AHEAD) {
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
                }
            }
        }
    }

    /// The place after the last entry of a chunk.
    #[inline(always)]
    fn end_of(&self, pool: &Pool, chunk: u32) -> u32 {
        if chunk == self.tail {
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
        while self.len > 0 {
            let end = self.end_of(pool, self.head);
            let entries = &pool.chunk(self.head, end)[self.first as usize..];
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
    fn advance(&mut self, pool: &Pool, count: u32, holes: u32) {
        let first = self.first + count;
        self.len -= count;
        self.holes -= holes;
        if self.len == 0 {
            // The last chunk is kept.
            debug_assert_eq!(self.head, self.tail);
            (self.first, self.end) = (0, 0);
            self.scan = (self.head, 0);
        } else if first == pool.size() {
            let next = pool.link(self.head).load(Ordering::Relaxed);
            if self.scan.0 == self.head {
                self.scan = (next, 0);
            }
            pool.release(self.head);
            (self.head, self.first) = (next, 0);
        } else {
            if self.scan.0 == self.head {
                self.scan.1 = self.scan.1.max(first);
            }
            self.first = first;
        }
    }

    /// Returns the entry `ahead` places after the oldest one, if it lies in the same chunk.
    #[inline(always)]
    pub(crate) fn peek(&self, pool: &Pool, ahead: u32) -> Option<u32> {
        let at = self.first + ahead;
        if ahead >= self.len || at >= pool.size() {
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

    #[test]
    fn queues_keep_the_order_and_return_their_chunks() {
        let pool = Pool::new(300, 2).unwrap();
        let mut queues = [Fifo::default(), Fifo::default()];
        let mut models = [VecDeque::new(), VecDeque::new()];
        let mut state = 1u64;
        let mut free: Vec<u32> = (0..300).collect();
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let which = (state >> 40) as usize % 2;
            if (state >> 52).is_multiple_of(16) {
                let queue = &mut queues[which];
                queue.scan(
                    &pool,
                    5,
                    |_| (),
                    |slot| {
                        let out = slot.is_multiple_of(3);
                        if out {
                            models[which].retain(|&other| other != slot);
                            free.push(slot);
                        }
                        out
                    },
                );
            } else if (state >> 53).is_multiple_of(32) {
                let mut left = (state >> 58) as usize % 40;
                let (queue, model) = (&mut queues[which], &mut models[which]);
                queue.drain(&pool, |slot, next| {
                    assert_eq!(Some(&slot), model.front());
                    assert!(next.is_none_or(|next| model.iter().any(|&slot| slot == next)));
                    let more = left > 0;
                    if more {
                        left -= 1;
                        free.extend(model.pop_front());
                    }
                    more
                });
            } else if (state >> 50).is_multiple_of(2) {
                if let Some(slot) = free.pop() {
                    queues[which].push(&pool, slot);
                    models[which].push_back(slot);
                }
            } else {
                let slot = queues[which].pop(&pool);
                assert_eq!(slot, models[which].pop_front());
                free.extend(slot);
            }
            assert_eq!(queues[which].len() as usize, models[which].len());
            if queues[which].holes == 0 {
                let front = models[which].front().copied();
                assert_eq!(queues[which].peek(&pool, 0), front);
            }
        }
    }
}

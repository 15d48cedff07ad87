// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of slot numbers, in chunks from a common pool.
//!
//! A queue takes 4 bytes an entry and is read and written in order, so the next slots to be evicted
//! are known ahead and can be prefetched. A slot is in one queue at most, so the pool, which has an
//! entry for each slot, never runs out.

use crate::Error;
use crate::memory::Words;
use weir_sync::primitive::atomic::{AtomicU32, Ordering};
use weir_sync::spin::SpinLock;

const NONE: u32 = u32::MAX;

/// The chunks of all queues of a map.
pub(crate) struct Pool {
    /// The entries; guarded by the lock of the queue's shard.
    entries: Words<AtomicU32>,
    /// For each chunk the next one of its queue, or of the free chunks.
    links: Words<AtomicU32>,
    /// The base-2 logarithm of the number of entries in a chunk.
    shift: u32,
    /// The first free chunk, and the number of chunks that were ever used.
    free: SpinLock<(u32, u32)>,
}

impl Pool {
    /// Creates a pool for `slots` entries in `queues` queues.
    pub(crate) fn new(slots: u32, queues: usize) -> Result<Self, Error> {
        let even = (slots as usize / (8 * queues)).clamp(16, 1024);
        let shift = even.ilog2();
        let chunks = (slots as usize >> shift) + 2 * queues + 2;
        Ok(Self {
            entries: Words::new(chunks << shift)?,
            links: Words::new(chunks)?,
            shift,
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
    len: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            head: NONE,
            first: 0,
            tail: NONE,
            end: 0,
            len: 0,
        }
    }
}

impl Fifo {
    /// The number of entries.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, pool: &Pool, slot: u32) {
        if self.tail == NONE || self.end == pool.size() {
            let chunk = pool.alloc();
            if self.tail == NONE {
                (self.head, self.first) = (chunk, 0);
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
        if self.len == 0 {
            return None;
        }
        let slot = pool.entry(self.head, self.first).load(Ordering::Relaxed);
        self.first += 1;
        self.len -= 1;
        if self.len == 0 {
            // The last chunk is kept.
            (self.first, self.end) = (0, 0);
            debug_assert_eq!(self.head, self.tail);
        } else if self.first == pool.size() {
            let next = pool.link(self.head).load(Ordering::Relaxed);
            pool.release(self.head);
            (self.head, self.first) = (next, 0);
        }
        Some(slot)
    }

    /// Returns the entry `ahead` places after the oldest one, if it lies in the same chunk.
    #[inline(always)]
    pub(crate) fn peek(&self, pool: &Pool, ahead: u32) -> Option<u32> {
        let at = self.first + ahead;
        (ahead < self.len && at < pool.size())
            .then(|| pool.entry(self.head, at).load(Ordering::Relaxed))
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
            if (state >> 50).is_multiple_of(2) {
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
            assert_eq!(queues[which].peek(&pool, 0), models[which].front().copied());
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), with the
//! sizes that gave the fewest misses on the traces of `weir bench lru`.
//!
//! New entries go to a small queue. An entry that comes to its end leaves the map, and its key is
//! remembered, unless it was looked up: then it goes to the main queue. A remembered key that comes
//! again goes to the main queue at once. An entry at the end of the main queue leaves the map if it
//! was not looked up; otherwise it goes round again with one reference less.
//!
//! The paper has a small queue of 10%, as many remembered keys as the main queue has entries, and
//! frequencies up to 3. Here they are 2%, three eighths of the map's entries, and 31.

use super::ghost::Ghost;
use super::{AHEAD, Reason, Work};
use crate::Error;
use crate::fifo::{Fifo, Pool};
use crate::shape::Shape;
use crate::table::{Table, Taken};

pub(crate) struct S3Fifo {
    small: Fifo,
    main: Fifo,
    ghost: Ghost,
    /// The small queue gives victims while it is at least this long.
    small_len: u32,
}

impl S3Fifo {
    pub(super) fn new(entries: u32) -> Result<Self, Error> {
        Ok(Self {
            small: Fifo::default(),
            main: Fifo::default(),
            ghost: Ghost::new((u64::from(entries) * 3 / 8) as u32)?,
            small_len: (entries / 50).max(1),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.ghost.bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        self.ghost.prefetch(id);
    }

    #[inline(always)]
    pub(super) fn admit<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &Work<'_, S, F>,
        slot: u32,
        id: u32,
    ) {
        if self.ghost.remove(id) {
            self.main.push(work.pool, slot);
        } else {
            self.small.push(work.pool, slot);
        }
    }

    pub(super) fn evict<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &mut Work<'_, S, F>,
        want: u32,
    ) -> u32 {
        let mut got = 0;
        // Each round takes a reference from an entry or an entry from a queue. The bound is for the
        // case that lookups add references all the time.
        for _ in 0..want.saturating_mul(64) {
            if got == want {
                return got;
            }
            if self.small.len() >= self.small_len || self.main.len() == 0 {
                prefetch(&self.small, work.pool, work.table);
                let Some(slot) = self.small.pop(work.pool) else {
                    break;
                };
                let live = work.table.is_live(slot);
                if live && work.references(slot) > 0 {
                    work.set_references(slot, 0);
                    self.main.push(work.pool, slot);
                    continue;
                }
                let id = if live {
                    crate::shape::fold(work.table.hash_at(slot))
                } else {
                    0
                };
                if work.take(slot, Reason::Inactive) == Taken::Entry {
                    self.ghost.insert(id);
                    got += 1;
                }
            } else {
                prefetch(&self.main, work.pool, work.table);
                let Some(slot) = self.main.pop(work.pool) else {
                    break;
                };
                let references = work.references(slot);
                if references > 0 && work.table.is_live(slot) {
                    work.set_references(slot, references - 1);
                    self.main.push(work.pool, slot);
                } else if work.take(slot, Reason::Main) == Taken::Entry {
                    got += 1;
                }
            }
        }
        while got == 0 {
            let Some(slot) = self
                .small
                .pop(work.pool)
                .or_else(|| self.main.pop(work.pool))
            else {
                break;
            };
            if work.take(slot, Reason::Forced) == Taken::Entry {
                got += 1;
            }
        }
        got
    }
}

#[inline(always)]
fn prefetch<S: Shape>(queue: &Fifo, pool: &Pool, table: &Table<S>) {
    if let Some(next) = queue.peek(pool, AHEAD) {
        table.prefetch_slot(next);
    }
}

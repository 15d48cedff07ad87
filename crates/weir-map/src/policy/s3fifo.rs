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
//! frequencies up to 3. Here the small queue has 2% at least, a quarter of the map's entries is
//! remembered, frequencies go up to 31, and an entry that goes round again keeps half of its own.
//!
//! A small queue of 2% gives the fewest misses while popularity stays. When it moves, new popular keys
//! leave the small queue before they are looked up again, and come back soon. So the small queue
//! grows with each remembered key that comes again. It shrinks, by four times as much, with each key
//! that comes again after it left the main queue; a sixteenth of the map's entries is remembered of
//! those. It does not grow before the main queue has lost that many entries, so a map that is being
//! filled keeps its small queue small.

use super::ghost::Ghost;
use super::{AHEAD, Reason, Work};
use crate::Error;
use crate::fifo::Fifo;
use crate::shape::Shape;
use crate::table::{Table, Taken};

/// The entries by which the small queue grows and shrinks.
const GROWTH: u32 = 2;
const SHRINKAGE: u32 = 8;

pub(crate) struct S3Fifo {
    small: Fifo,
    main: Fifo,
    /// The keys that left the small queue, and those that left the main queue.
    ghost: Ghost,
    main_ghost: Ghost,
    /// The small queue gives victims while it is at least this long, and the bounds of this length.
    small_len: u32,
    least: u32,
    most: u32,
}

impl S3Fifo {
    pub(super) fn new(entries: u32) -> Result<Self, Error> {
        let least = (entries / 50).max(1);
        Ok(Self {
            small: Fifo::default(),
            main: Fifo::default(),
            ghost: Ghost::new(entries / 4)?,
            main_ghost: Ghost::new(entries / 16)?,
            small_len: least,
            least,
            most: (entries - entries / 10).max(least),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.ghost.bytes() + self.main_ghost.bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, id: u32) {
        self.ghost.prefetch(id);
        self.main_ghost.prefetch(id);
    }

    #[inline(always)]
    pub(super) fn admit<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &Work<'_, S, F>,
        slot: u32,
        id: u32,
    ) {
        if self.ghost.remove(id) {
            if self.main_ghost.is_full() {
                self.small_len = (self.small_len + GROWTH).min(self.most);
            }
            self.main.push(work.pool, slot);
        } else {
            if self.main_ghost.remove(id) {
                self.small_len = self.small_len.saturating_sub(SHRINKAGE).max(self.least);
            }
            self.small.push(work.pool, slot);
        }
    }

    pub(super) fn evict<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &mut Work<'_, S, F>,
        want: u32,
    ) -> u32 {
        let (mut got, pool, table) = (0, work.pool, work.table);
        // Each step takes a reference from an entry or an entry from a queue. The bound is for the case
        // that look-ups add references all the time.
        let mut steps = want.saturating_mul(64);
        while got < want && steps > 0 {
            let (main, ghost) = (&mut self.main, &mut self.ghost);
            if self.small.len() >= self.small_len || main.len() == 0 {
                // One more if the main queue is empty, which may get it.
                let mut most = (self.small.len() + 1).saturating_sub(self.small_len).max(1);
                let before = steps;
                self.small.drain(pool, |slot, next| {
                    if got == want || most == 0 || steps == 0 {
                        return false;
                    }
                    (most, steps) = (most - 1, steps - 1);
                    if let Some(next) = next {
                        table.prefetch_slot(next);
                    }
                    let live = table.is_live(slot);
                    if live && work.references(slot) > 0 {
                        work.set_references(slot, 0);
                        main.push(pool, slot);
                        return true;
                    }
                    let id = id_of(table, slot, live);
                    if work.take(slot, Reason::Inactive) == Taken::Entry {
                        ghost.insert(id);
                        got += 1;
                    }
                    true
                });
                if steps == before {
                    // Both queues are empty.
                    break;
                }
            } else {
                let Some(slot) = main.pop(pool) else {
                    break;
                };
                steps -= 1;
                if let Some(next) = main.peek(pool, AHEAD) {
                    table.prefetch_slot(next);
                }
                let references = work.references(slot);
                let live = table.is_live(slot);
                if references > 0 && live {
                    work.set_references(slot, references / 2);
                    main.push(pool, slot);
                    continue;
                }
                let id = id_of(table, slot, live);
                if work.take(slot, Reason::Main) == Taken::Entry {
                    self.main_ghost.insert(id);
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

/// Returns the folded hash of a slot's key.
#[inline(always)]
fn id_of<S: Shape>(table: &Table<S>, slot: u32, live: bool) -> u32 {
    if live {
        crate::shape::fold(table.hash_at(slot))
    } else {
        0
    }
}

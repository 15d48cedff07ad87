// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two lists of Linux's BPF LRU maps (`kernel/bpf/bpf_lru_list.c`).
//!
//! New entries go to the inactive list, or to the active one if they have been looked up already.
//! While the active list is longer, a rotation moves its oldest entries: those looked up since the
//! last time to its own front, the others to the inactive list. Victims come from the end of the
//! inactive list; an entry there that was looked up moves to the active list instead. If none of the
//! scanned entries can go, the oldest one goes by force.
//!
//! A second rotation walks through the inactive list, and moves entries that were looked up to the
//! active list before they come to the end. It looks at an eighth of the entries while the last searches
//! and rotations found none that was looked up: under a flood of new keys there is nothing to move, and
//! each look costs a cache line.

use super::{AHEAD, Reason, Work};
use crate::fifo::{Bag, Fifo, Pool};
use crate::shape::Shape;
use crate::table::Taken;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    active: Fifo,
    inactive: Fifo,
    /// The searches and rotations of the inactive list, up to [`CALM`], since one found an entry that had been looked up.
    calm: u8,
}

/// The searches and rotations in a row after which a rotation looks at fewer entries.
const CALM: u8 = 8;

impl Clock {
    #[inline(always)]
    pub(super) fn admit<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &Work<'_, S, F>,
        slot: u32,
    ) {
        if work.references(slot) > 0 {
            work.set_references(slot, 0);
            self.active.push(work.pool, slot);
        } else {
            self.inactive.push(work.pool, slot);
        }
    }

    pub(crate) fn rotate<S: Shape, F: FnMut(u32, Reason)>(&mut self, work: &Work<'_, S, F>) {
        self.rotate_active(work);
        let scans = match self.calm {
            CALM => (work.scans / 8).max(1),
            _ => work.scans,
        };
        self.calm = CALM.min(self.calm + 1);
        let (active, calm) = (&mut self.active, &mut self.calm);
        let prefetch = |slot| work.table.prefetch_slot(slot);
        self.inactive.scan(work.pool, scans, prefetch, |slot| {
            let referenced = work.references(slot) > 0;
            if referenced {
                *calm = 0;
                work.set_references(slot, 0);
                active.push(work.pool, slot);
            }
            referenced
        });
    }

    /// Takes entries that were used from a lane.
    pub(crate) fn promote(&mut self, pool: &Pool, slots: impl IntoIterator<Item = u32>) {
        for slot in slots {
            self.calm = 0;
            self.active.push(pool, slot);
        }
    }

    /// Prefetches what a lane uses that hands `bag` over and draws a chunk.
    pub(crate) fn prefetch(&self, pool: &Pool, bag: &Bag) {
        self.inactive.prefetch(pool, bag);
    }

    /// Takes new entries from a lane: a full chunk of them.
    pub(crate) fn admit_bag(&mut self, pool: &Pool, bag: &mut Bag) {
        self.inactive.push_bag(pool, bag);
    }

    /// Gives the oldest chunk of entries to a lane, which evicts those of them that were not used. Returns whether
    /// there was any.
    pub(crate) fn draw(&mut self, pool: &Pool, bag: &mut Bag) -> bool {
        self.calm = CALM.min(self.calm + 1);
        self.inactive.draw_bag(pool, bag)
    }

    /// Takes the oldest entry out.
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<u32> {
        self.inactive.pop(pool).or_else(|| self.active.pop(pool))
    }

    fn rotate_active<S: Shape, F: FnMut(u32, Reason)>(&mut self, work: &Work<'_, S, F>) {
        if self.inactive.len() >= self.active.len() {
            return;
        }
        for _ in 0..work.scans.min(self.active.len()) {
            if let Some(next) = self.active.peek(work.pool, AHEAD) {
                work.table.prefetch_slot(next);
            }
            let Some(slot) = self.active.pop(work.pool) else {
                return;
            };
            if work.references(slot) > 0 {
                work.set_references(slot, 0);
                self.active.push(work.pool, slot);
            } else {
                self.inactive.push(work.pool, slot);
            }
        }
    }

    pub(super) fn evict<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &mut Work<'_, S, F>,
        want: u32,
    ) -> u32 {
        let mut got = 0;
        for ahead in 0..AHEAD {
            if let Some(next) = self.inactive.peek(work.pool, ahead) {
                work.table.prefetch_slot(next);
            }
        }
        self.calm = CALM.min(self.calm + 1);
        let (mut scans, active, pool, table) = (0, &mut self.active, work.pool, work.table);
        let calm = &mut self.calm;
        self.inactive.drain(pool, |slot, next| {
            if got == want || scans == work.scans {
                return false;
            }
            scans += 1;
            if let Some(next) = next {
                table.prefetch_slot(next);
            }
            if work.references(slot) > 0 && table.is_live(slot) {
                *calm = 0;
                work.set_references(slot, 0);
                active.push(pool, slot);
            } else if work.take(slot, Reason::Inactive) == Taken::Entry {
                got += 1;
            }
            true
        });
        if got == want {
            return got;
        }
        while got == 0 {
            let Some(slot) = self.pop(work.pool) else {
                break;
            };
            if work.take(slot, Reason::Forced) == Taken::Entry {
                got += 1;
            }
        }
        got
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Eviction policies: the lists of a shard and the order in which they give up entries.

pub(crate) mod clock;
mod exact;
mod ghost;
mod s3fifo;

use crate::Error;
use crate::fifo::Pool;
use crate::marks::Marks;
use crate::shape::Shape;
use crate::table::{Table, Taken};

/// The policy of an LRU map, chosen at its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The two lists of Linux's BPF LRU maps: new entries begin on the inactive list; an entry that
    /// was looked up gets a second chance on the active one.
    #[default]
    Clock,
    /// S3-FIFO whose small queue begins at 2% and grows while popularity moves. The fewest misses.
    S3Fifo,
    /// Exact LRU, behind one lock that look-ups take, too: an oracle for the others.
    Exact,
}

impl Policy {
    /// The largest number of uses that is counted.
    pub(crate) fn most_references(self) -> u8 {
        match self {
            Self::Clock => 1,
            Self::S3Fifo => 31,
            Self::Exact => 0,
        }
    }

    /// The number of queues of a shard.
    pub(crate) fn queues(self) -> usize {
        2
    }
}

/// Why an entry was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was the oldest of the inactive list (`Clock`) or small queue (`S3Fifo`), unreferenced.
    Inactive,
    /// It was the oldest of the main queue (`S3Fifo`), unreferenced.
    Main,
    /// All scanned entries had been referenced, and one of them had to go.
    Forced,
    /// It had been idle for longer than the time to idle.
    Idle,
}

/// What a policy works on.
pub(crate) struct Work<'a, S, F> {
    pub(crate) table: &'a Table<S>,
    pub(crate) pool: &'a Pool,
    pub(crate) marks: Marks,
    /// The number of entries that a rotation, and a search for victims, looks at.
    pub(crate) scans: u32,
    /// Sees each victim's slot, with the entry still in it, and the reason.
    pub(crate) lost: F,
}

/// The number of entries that a policy prefetches ahead.
const AHEAD: u32 = 12;

impl<S: Shape, F: FnMut(u32, Reason)> Work<'_, S, F> {
    #[inline(always)]
    fn references(&self, slot: u32) -> u8 {
        self.marks.uses(self.table.reference(slot))
    }

    #[inline(always)]
    fn set_references(&self, slot: u32, references: u8) {
        self.marks.set(self.table.reference(slot), references);
    }

    #[inline(always)]
    fn take(&mut self, slot: u32, reason: Reason) -> Taken {
        let lost = &mut self.lost;
        self.table.take(slot, |slot| lost(slot, reason))
    }
}

/// The lists of a shard.
pub(crate) enum Lists {
    Clock(clock::Clock),
    S3Fifo(s3fifo::S3Fifo),
    Exact(exact::Exact),
}

impl Lists {
    /// Creates the lists of a shard that holds up to `entries` entries in any of `slots` slots.
    pub(crate) fn new(policy: Policy, entries: u32, slots: u32) -> Result<Self, Error> {
        Ok(match policy {
            Policy::Clock => Self::Clock(clock::Clock::default()),
            Policy::S3Fifo => Self::S3Fifo(s3fifo::S3Fifo::new(entries)?),
            Policy::Exact => Self::Exact(exact::Exact::new(slots)?),
        })
    }

    /// Adds new entries: their slots, and the folded hashes of their keys.
    #[inline(always)]
    pub(crate) fn admit<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &Work<'_, S, F>,
        entries: &[(u32, u32)],
    ) {
        match self {
            Self::Clock(lists) => {
                for &(slot, _) in entries {
                    lists.admit(work, slot);
                }
            }
            Self::S3Fifo(lists) => {
                for &(_, id) in entries {
                    lists.prefetch(id);
                }
                for &(slot, id) in entries {
                    lists.admit(work, slot, id);
                }
            }
            Self::Exact(list) => {
                for &(slot, _) in entries {
                    list.push(slot);
                }
            }
        }
    }

    /// The lists of the clock.
    #[inline(always)]
    pub(crate) fn clock(&mut self) -> &mut clock::Clock {
        match self {
            Self::Clock(lists) => lists,
            Self::S3Fifo(_) | Self::Exact(_) => unreachable!("only the clock's lanes have bags"),
        }
    }

    /// Evicts up to `want` entries; at least one unless the lists are empty.
    pub(crate) fn evict<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &mut Work<'_, S, F>,
        want: u32,
    ) -> u32 {
        match self {
            Self::Clock(lists) => lists.evict(work, want),
            Self::S3Fifo(lists) => lists.evict(work, want),
            Self::Exact(list) => list.evict(work, want),
        }
    }

    /// The bytes of the lists' own memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Clock(_) => 0,
            Self::S3Fifo(lists) => lists.bytes(),
            Self::Exact(list) => list.bytes(),
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exact LRU: a doubly linked list through all entries. Every look-up takes the lock of the list, so
//! this policy is an oracle for tests and comparisons.

use super::{Reason, Work};
use crate::Error;
use crate::memory::Words;
use crate::shape::Shape;
use crate::table::Taken;
use weir_sync::primitive::atomic::{AtomicU32, Ordering};

/// The list. Number `slots` is its head; a slot that is not in it links to itself by zeroes.
pub(crate) struct Exact {
    /// For each slot the newer and the older one, plus one.
    links: Words<AtomicU32>,
    head: u32,
}

impl Exact {
    pub(super) fn new(slots: u32) -> Result<Self, Error> {
        let list = Self {
            links: Words::new(2 * (slots as usize + 1))?,
            head: slots,
        };
        list.set(slots, 0, slots + 1);
        list.set(slots, 1, slots + 1);
        Ok(list)
    }

    pub(super) fn bytes(&self) -> usize {
        4 * self.links.len()
    }

    fn get(&self, slot: u32, side: usize) -> u32 {
        self.links
            .at(2 * slot as usize + side)
            .load(Ordering::Relaxed)
    }

    fn set(&self, slot: u32, side: usize, to: u32) {
        self.links
            .at(2 * slot as usize + side)
            .store(to, Ordering::Relaxed);
    }

    /// Takes a slot out of the list. Returns whether it was in it.
    pub(crate) fn unlink(&self, slot: u32) -> bool {
        let (newer, older) = (self.get(slot, 0), self.get(slot, 1));
        if newer == 0 {
            return false;
        }
        self.set(newer - 1, 1, older);
        self.set(older - 1, 0, newer);
        self.set(slot, 0, 0);
        self.set(slot, 1, 0);
        true
    }

    /// Makes a slot the newest.
    pub(crate) fn push(&self, slot: u32) {
        self.unlink(slot);
        let newest = self.get(self.head, 1);
        self.set(slot, 0, self.head + 1);
        self.set(slot, 1, newest);
        self.set(newest - 1, 0, slot + 1);
        self.set(self.head, 1, slot + 1);
    }

    /// Makes a slot the newest if it is in the list.
    pub(crate) fn touch(&self, slot: u32) {
        if self.get(slot, 0) != 0 {
            self.push(slot);
        }
    }

    pub(super) fn evict<S: Shape, F: FnMut(u32, Reason)>(
        &mut self,
        work: &mut Work<'_, S, F>,
        want: u32,
    ) -> u32 {
        let mut got = 0;
        while got < want {
            let oldest = self.get(self.head, 0) - 1;
            if oldest == self.head {
                break;
            }
            self.unlink(oldest);
            if work.take(oldest, Reason::Inactive) == Taken::Entry {
                got += 1;
            }
        }
        got
    }
}

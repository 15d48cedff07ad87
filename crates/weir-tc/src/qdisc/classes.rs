// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The classes of a qdisc by their id, in the order in which Linux shows them.
//!
//! Mirrors `struct Qdisc_class_hash` (net/sched/sch_api.c): a hash table that is iterated from the
//! first bucket on, the newest class of a bucket first. It doubles when it is three quarters full.

use weir_netlink::tca::h;
use weir_packet::Packet;

use super::{Enqueued, QueueCx, classify, prefetch};
use crate::block::Block;

/// Classes of type `T`. A class has a number from 1 up, which it keeps until it is removed.
#[derive(Debug)]
pub struct Classes<T> {
    slots: Vec<Option<T>>,
    /// Ids by number. They are kept apart from the classes so that a lookup by id touches no class.
    ids: Vec<Option<u32>>,
    free: Vec<u32>,
    /// Numbers by the hash of the id; the newest of a bucket is its last entry.
    buckets: Vec<Vec<u32>>,
    count: usize,
}

impl<T> Default for Classes<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            ids: Vec::new(),
            free: Vec::new(),
            buckets: vec![Vec::new(); 4],
            count: 0,
        }
    }
}

impl<T> Classes<T> {
    /// Returns the bucket of an id (`qdisc_class_hash`).
    fn bucket(&self, id: u32) -> usize {
        let id = id ^ (id >> 8);
        let id = id ^ (id >> 4);
        id as usize & (self.buckets.len() - 1)
    }

    /// Returns the number of the class with an id.
    #[inline]
    pub fn find(&self, id: u32) -> Option<u32> {
        let mut bucket = self.buckets[self.bucket(id)].iter();
        bucket.find(|&&number| self.id(number) == Some(id)).copied()
    }

    /// Returns the packet and the class that its priority names, or else the class that a filter
    /// names. Returns an error if the filters consumed or dropped the packet.
    pub fn of_packet(
        &self,
        handle: u32,
        block: &Block,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> Result<(Packet, Option<u32>), Enqueued> {
        if (packet.priority ^ handle) & h::MAJ_MASK == 0
            && let Some(class) = self.find(packet.priority)
        {
            return Ok((packet, Some(class)));
        }
        let (packet, class) = classify(block, q, packet)?;
        Ok((packet, class.and_then(|id| self.find(id))))
    }

    /// Returns the id of a class.
    #[inline]
    pub fn id(&self, number: u32) -> Option<u32> {
        *self.ids.get((number as usize).wrapping_sub(1))?
    }

    /// Returns a class by its number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let slot = self.slots.get((number as usize).wrapping_sub(1))?;
        slot.as_ref()
    }

    /// Returns a class by its number, mutably.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut((number as usize).wrapping_sub(1))?;
        slot.as_mut()
    }

    /// Prefetches a class that will be used soon.
    #[inline]
    pub fn prefetch(&self, number: u32) {
        if let Some(slot) = self.slots.get((number as usize).wrapping_sub(1)) {
            prefetch(slot);
        }
    }

    /// Inserts a class and returns its number (`qdisc_class_hash_insert`). Grows the table if
    /// needed (`qdisc_class_hash_grow`).
    pub fn insert(&mut self, id: u32, class: T) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.ids.push(None);
            self.slots.len() as u32
        });
        self.slots[number as usize - 1] = Some(class);
        self.ids[number as usize - 1] = Some(id);
        let bucket = self.bucket(id);
        self.buckets[bucket].push(number);
        self.count += 1;
        if self.count * 4 > self.buckets.len() * 3 {
            let old = std::mem::take(&mut self.buckets);
            self.buckets = vec![Vec::new(); old.len() * 2];
            // Rehashing starts with the newest class of each bucket, so the order within a bucket
            // is reversed.
            for number in old.iter().flat_map(|bucket| bucket.iter().rev()) {
                let id = self.id(*number).unwrap_or_default();
                let bucket = self.bucket(id);
                self.buckets[bucket].push(*number);
            }
        }
        number
    }

    /// Removes a class.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let at = (number as usize).wrapping_sub(1);
        let class = self.slots.get_mut(at)?.take()?;
        let id = self.ids[at].take()?;
        self.free.push(number);
        self.count -= 1;
        let bucket = self.bucket(id);
        self.buckets[bucket].retain(|&other| other != number);
        Some(class)
    }

    /// Returns the number of classes.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the numbers of all classes in Linux's order.
    pub fn numbers(&self) -> Vec<u32> {
        let buckets = self.buckets.iter();
        buckets.flat_map(|b| b.iter().rev()).copied().collect()
    }

    /// Iterates over all classes. The order is not Linux's and must not be shown.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// Iterates over all classes. The order is not Linux's and must not be shown.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_found_and_keep_the_order_of_linux() {
        let mut classes = Classes::default();
        let numbers: Vec<u32> = [0x10001, 0x10005, 0x10002]
            .map(|id| classes.insert(id, id))
            .into();
        assert_eq!(numbers, [1, 2, 3]);
        // Buckets 1, 1 and 2: the newest class of a bucket comes first.
        assert_eq!(classes.numbers(), [2, 1, 3]);
        let four = classes.insert(0x10009, 0);
        // There are eight buckets now. Bucket 1 holds classes 1 and 9, in reverse order.
        assert_eq!(classes.numbers(), [1, 4, 3, 2]);
        assert_eq!(classes.find(0x10009), Some(four));
        assert_eq!(classes.remove(four), Some(0));
        assert_eq!((classes.find(0x10009), classes.get(four)), (None, None));
        assert_eq!(classes.insert(0x10007, 7), four);
    }
}

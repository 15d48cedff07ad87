// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The child qdiscs under classes 1 to n: bands of `prio` and `multiq`, transmit queues of `mq`,
//! `mqprio` and `taprio`.

use std::sync::Arc;

use super::{ClassStats, Drops, Enqueued, Front, Gone, Leaf, Load, Node, QueueCx};
use crate::counters::Queue;
use weir_packet::Packet;

/// The children of a qdisc, one per band; see the module documentation.
#[derive(Default)]
pub struct Bands {
    leaves: Vec<Leaf>,
    /// Total load of all bands.
    pub total: Load,
}

impl Bands {
    /// Makes one child for each of the classes 1 to `count`.
    pub fn new(count: u32, make: impl FnMut(u32) -> Leaf) -> Self {
        Self {
            leaves: (1..=count).map(make).collect(),
            total: Load::default(),
        }
    }

    /// Returns the number of bands.
    pub fn count(&self) -> u32 {
        self.leaves.len() as u32
    }

    /// Changes the number of bands to `count`.
    pub fn resize(&mut self, count: u32, make: impl FnMut(u32) -> Leaf, gone: &mut Gone) {
        for leaf in self.leaves.drain((count.min(self.count())) as usize..) {
            leaf.flush(&mut self.total, gone);
            gone.nodes.extend(leaf.node());
        }
        self.leaves.extend((self.count() + 1..=count).map(make));
    }

    /// Gives each band without a qdisc a new one.
    pub fn fill(&mut self, mut make: impl FnMut(u32) -> Leaf) {
        for (leaf, class) in self.leaves.iter_mut().zip(1..) {
            if leaf.node().is_none() {
                *leaf = make(class);
            }
        }
    }

    /// Enqueues a packet to band `at`, counted from 0.
    #[inline]
    pub fn enqueue(&mut self, at: usize, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        self.leaves[at].enqueue(q, packet, &mut self.total).0
    }

    /// Dequeues a packet from band `at`.
    #[inline]
    pub fn dequeue(&mut self, at: usize, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.leaves[at].dequeue(q, &mut self.total).0
    }

    /// Returns the next packet of band `at`.
    #[inline]
    pub fn front(&mut self, at: usize, q: &mut QueueCx<'_, '_, '_>) -> Option<Front> {
        self.leaves[at].front(q, &mut self.total)
    }

    /// Removes all waiting packets.
    pub fn reset(&mut self, out: &mut Drops) {
        for leaf in &self.leaves {
            leaf.purge(&mut self.total, out);
        }
    }

    /// Returns the slot of a class.
    pub fn slot(&self, class: u32) -> Option<&Leaf> {
        self.leaves.get((class as usize).checked_sub(1)?)
    }

    /// Returns the slot of a class and the total load of all bands.
    pub fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let leaf = self.leaves.get_mut((class as usize).checked_sub(1)?)?;
        Some((leaf, &mut self.total))
    }

    /// Returns the qdisc under a class.
    pub fn leaf(&self, class: u32) -> Option<Arc<Node>> {
        self.slot(class)?.node()
    }

    /// Replaces the qdisc under an existing class and returns the old one. The packets in the old
    /// one are dropped and not counted.
    pub fn graft(&mut self, class: u32, new: Leaf, gone: &mut Gone) -> Option<Arc<Node>> {
        let (leaf, total) = self.slot_mut(class)?;
        leaf.purge(total, &mut gone.drops);
        std::mem::replace(leaf, new).node()
    }

    /// Returns the ids of all classes.
    pub fn classes(&self) -> Vec<u32> {
        (1..=self.count()).collect()
    }

    /// Returns the counters of a class, zeros if it has no qdisc.
    pub fn class_stats(&self, class: u32) -> ClassStats {
        let leaf = self.leaf(class);
        leaf.map_or_else(ClassStats::default, |leaf| leaf.stats().into())
    }

    /// Returns the sums of the counters (bytes, packets, queue) of `count` bands from band `first`
    /// on (`gnet_stats_add_basic`, `gnet_stats_add_queue`).
    pub fn sum(&self, first: usize, count: usize) -> (u64, u64, Queue) {
        let mut sum = (0, 0, Queue::default());
        for leaf in self.leaves.iter().skip(first).take(count) {
            let (bytes, packets, queue) = leaf.stats();
            sum.0 += bytes;
            sum.1 += packets;
            sum.2.qlen = sum.2.qlen.wrapping_add(queue.qlen);
            sum.2.backlog = sum.2.backlog.wrapping_add(queue.backlog);
            sum.2.drops = sum.2.drops.wrapping_add(queue.drops);
            sum.2.requeues = sum.2.requeues.wrapping_add(queue.requeues);
            sum.2.overlimits = sum.2.overlimits.wrapping_add(queue.overlimits);
        }
        sum
    }
}

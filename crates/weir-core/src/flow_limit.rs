// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of flows at the input queue of a CPU (`skb_flow_limit`, Documentation/networking/scaling.rst).
//!
//! Once half of `net.core.netdev_max_backlog` waits, a packet is dropped if its flow has more than half of the
//! last 128 packets. Flows are told apart by their hash, in `net.core.flow_limit_table_len` buckets. Several CPUs
//! may count at once, so the counts of a bucket may be off by as many packets.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The number of packets that a flow's share is taken of (`FLOW_LIMIT_HISTORY`).
const HISTORY: usize = 128;

/// The table of a CPU (`struct sd_flow_limit`).
pub struct FlowLimit {
    /// The number of packets counted so far.
    head: AtomicU32,
    /// The buckets of the last packets.
    history: [AtomicU32; HISTORY],
    buckets: Box<[AtomicU32]>,
    /// Packets beyond the limit.
    pub dropped: AtomicU64,
}

impl FlowLimit {
    /// Makes a table with a power of two of buckets.
    pub fn new(buckets: u32) -> Self {
        Self {
            head: AtomicU32::new(0),
            history: std::array::from_fn(|_| AtomicU32::new(0)),
            buckets: (0..buckets.max(1)).map(|_| AtomicU32::new(0)).collect(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Counts a packet. Returns true, and counts a drop, if its flow has too large a share.
    pub fn exceeds(&self, hash: u32) -> bool {
        let new = hash & (self.buckets.len() as u32 - 1);
        let at = self.head.fetch_add(1, Relaxed) as usize % HISTORY;
        let old = self.history[at].swap(new, Relaxed);
        if let Some(old) = self.buckets.get(old as usize) {
            // The history begins with packets that were never counted.
            let _ = old.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
        }
        let share = self.buckets.get(new as usize);
        let share = share.map_or(0, |share| share.fetch_add(1, Relaxed) + 1);
        let exceeds = share as usize > HISTORY / 2;
        self.dropped.fetch_add(u64::from(exceeds), Relaxed);
        exceeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_with_more_than_half_is_limited() {
        let limit = FlowLimit::new(4096);
        let dropped = (0..200).filter(|_| limit.exceeds(7)).count();
        assert_eq!(dropped, 200 - 64);
        // Other flows have room, and take the share of the large one.
        assert!((0..128).all(|hash| !limit.exceeds(1000 + hash)));
        assert!(!limit.exceeds(7));
        assert_eq!(limit.dropped.load(Relaxed), 136);
    }
}

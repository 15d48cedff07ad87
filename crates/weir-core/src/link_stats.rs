// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet counters of a device (`struct rtnl_link_stats64`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_netlink::LinkStats64;

/// Per-CPU packet counters (`struct rtnl_link_stats64`), in packets and bytes. They only grow.
#[derive(Debug, Default)]
#[allow(missing_docs)] // the names are Linux's
pub struct LinkStats {
    pub rx_packets: AtomicU64,
    pub rx_bytes: AtomicU64,
    pub rx_errors: AtomicU64,
    pub rx_dropped: AtomicU64,
    pub multicast: AtomicU64,
    pub tx_packets: AtomicU64,
    pub tx_bytes: AtomicU64,
    pub tx_errors: AtomicU64,
    pub tx_dropped: AtomicU64,
}

/// The sum of [`LinkStats`] over all CPUs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are Linux's
pub struct LinkTotals {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub multicast: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

impl LinkTotals {
    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rx_packets: combine(self.rx_packets, other.rx_packets),
            rx_bytes: combine(self.rx_bytes, other.rx_bytes),
            rx_errors: combine(self.rx_errors, other.rx_errors),
            rx_dropped: combine(self.rx_dropped, other.rx_dropped),
            multicast: combine(self.multicast, other.multicast),
            tx_packets: combine(self.tx_packets, other.tx_packets),
            tx_bytes: combine(self.tx_bytes, other.tx_bytes),
            tx_errors: combine(self.tx_errors, other.tx_errors),
            tx_dropped: combine(self.tx_dropped, other.tx_dropped),
        }
    }

    /// Returns the sums with other counters.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Returns what was counted since the counters had other values.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Adds the counters to those of a message.
    pub fn add_to(&self, stats: &mut LinkStats64) {
        stats.rx_packets += self.rx_packets;
        stats.rx_bytes += self.rx_bytes;
        stats.rx_errors += self.rx_errors;
        stats.rx_dropped += self.rx_dropped;
        stats.multicast += self.multicast;
        stats.tx_packets += self.tx_packets;
        stats.tx_bytes += self.tx_bytes;
        stats.tx_errors += self.tx_errors;
        stats.tx_dropped += self.tx_dropped;
    }
}

impl From<&LinkStats64> for LinkTotals {
    fn from(stats: &LinkStats64) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_errors: stats.rx_errors,
            rx_dropped: stats.rx_dropped,
            multicast: stats.multicast,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_errors: stats.tx_errors,
            tx_dropped: stats.tx_dropped,
        }
    }
}

impl LinkStats {
    /// Counts packets that were sent.
    #[inline]
    pub fn count_sent(&self, packets: u64, octets: u64) {
        self.tx_packets.fetch_add(packets, Relaxed);
        self.tx_bytes.fetch_add(octets, Relaxed);
    }
}

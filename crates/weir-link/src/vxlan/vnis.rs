// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a [filter](super::vnifilter): what packets and requests know of each identifier
//! (`struct vxlan_vni_group`, `struct vxlan_vni_node`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use super::Vxlan;
use crate::device::DeviceKey;

/// What happened to a frame of an identifier. Bytes are those of `struct vxlan_vni_stats`: with the Ethernet header if
/// sent, without it if received.
#[derive(Debug, Clone, Copy)]
pub enum Count {
    /// Received, with its bytes.
    Received(usize),
    /// Received by a device that is down.
    ReceiveDropped,
    /// Received and wrong.
    ReceiveError,
    /// Sent, with its bytes.
    Sent(usize),
    /// Without a remote.
    SendDropped,
    /// Without a route.
    SendError,
}

/// The counters of an identifier, in the order of `VNIFILTER_ENTRY_STATS_*`.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; 8]);

impl Counters {
    /// Returns the values.
    pub(super) fn values(&self) -> [u64; 8] {
        self.0.each_ref().map(|one| one.load(Relaxed))
    }

    fn count(&self, count: Count) {
        let [
            rx_bytes,
            rx,
            rx_drops,
            rx_errors,
            tx_bytes,
            tx,
            tx_drops,
            tx_errors,
        ] = &self.0;
        let (counter, bytes) = match count {
            Count::Received(bytes) => (rx, Some((rx_bytes, bytes))),
            Count::ReceiveDropped => (rx_drops, None),
            Count::ReceiveError => (rx_errors, None),
            Count::Sent(bytes) => (tx, Some((tx_bytes, bytes))),
            Count::SendDropped => (tx_drops, None),
            Count::SendError => (tx_errors, None),
        };
        counter.fetch_add(1, Relaxed);
        if let Some((sum, bytes)) = bytes {
            sum.fetch_add(bytes as u64, Relaxed);
        }
    }
}

/// The filter of a device, for packets.
pub struct Filter(pub(super) RcuHash<u32, Counters>);

impl Filter {
    /// Creates an empty filter.
    pub fn new(domain: &Domain) -> Self {
        Self(RcuHash::new(domain))
    }

    /// Returns whether the device receives an identifier.
    pub fn contains(&self, vni: u32, guard: &Guard) -> bool {
        self.0.contains(&vni, guard)
    }
}

/// The identifiers of a device, for requests.
#[derive(Debug, Default)]
pub struct Vnis {
    /// The remote of each.
    pub(super) remotes: BTreeMap<u32, Option<IpAddr>>,
    /// The device listens.
    pub(super) open: bool,
}

impl Vnis {
    /// Returns the remotes of the identifiers that have one.
    pub fn remotes(&self) -> impl Iterator<Item = IpAddr> {
        self.remotes.values().filter_map(|remote| given(*remote))
    }
}

/// The identifiers of the devices of an underlay namespace that filter.
pub type All = BTreeMap<DeviceKey, Vnis>;

/// Returns a remote unless it is unspecified.
pub(super) fn given(remote: Option<IpAddr>) -> Option<IpAddr> {
    remote.filter(|remote| !remote.is_unspecified())
}

impl Vxlan {
    /// Counts a frame of an identifier, if the device's filter has it (`vxlan_vnifilter_count`).
    #[inline]
    pub fn count(&self, vni: u32, count: Count, guard: &Guard) {
        if let Some(filter) = &self.filter
            && let Some(counters) = filter.0.get(&vni, guard)
        {
            counters.count(count);
        }
    }
}

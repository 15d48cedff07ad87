// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours of both families: the table, the state machine, and the last step of layer 3
//! ([`output`]): next hop to link-layer header.
//!
//! Mirrors `net/core/neighbour.c` with `arp_tbl` and `nd_tbl`: states and timers as there
//! (`NUD_*`), times from the device's `neigh` sysctls. What waits for an address is bounded by
//! `unres_qlen_bytes`, the oldest goes first. The random part of the reachable time comes from the
//! namespace's seed, so it is the same in every run.
//!
//! Not done: proxy entries (`NTF_PROXY` is refused), the periodic garbage collection below 1024 entries
//! (Linux does nothing below 128; above 1024 unused entries make room here as there).

mod entry;
mod output;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};

use weir_netlink::ifla::iff;
use weir_netlink::rta::rtn;
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

pub use entry::{Neighbour, Refused, Update, nud};
pub use output::output;

use crate::device::{Device, DeviceKey};
use crate::stack::Stack;

/// Entries a namespace may hold (`gc_thresh3`).
const MOST: usize = 1024;

/// Names an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The device.
    pub device: DeviceKey,
    /// The neighbour's address.
    pub address: IpAddr,
}

/// The entries of a namespace, both families; see the module's head.
pub struct Neighbours {
    table: RcuHash<Key, Arc<Neighbour>>,
    count: AtomicUsize,
    generation: AtomicU32,
}

impl Neighbours {
    /// An empty table.
    pub fn new(domain: &Domain) -> Self {
        Self {
            table: RcuHash::new(domain),
            count: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
        }
    }

    /// Counts changes, for `NLM_F_DUMP_INTR`.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The entry of an address.
    #[inline]
    pub fn get<'g>(
        &'g self,
        device: DeviceKey,
        address: IpAddr,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Neighbour>> {
        self.table.get(&Key { device, address }, guard)
    }

    /// The entry of an address, made if there is none; `None` when the table is full of entries in use.
    /// A device with one other end, or none, has one for all IPv4 addresses (`arp_constructor`).
    pub fn get_or_make(
        &self,
        stack: &Stack,
        device: &Device,
        address: IpAddr,
        guard: &Guard,
    ) -> Option<Arc<Neighbour>> {
        let one = device.flags() & (iff::LOOPBACK | iff::POINTOPOINT) != 0;
        let address = match address {
            IpAddr::V4(_) if one => Ipv4Addr::UNSPECIFIED.into(),
            address => address,
        };
        if let Some(entry) = self.get(device.key, address, guard) {
            return Some(entry.clone());
        }
        if self.count.load(Relaxed) >= MOST && !self.make_room(stack, guard) {
            return None;
        }
        let broadcast = match address {
            IpAddr::V4(address) => {
                let ns = device.namespace(guard);
                crate::ipv4::route::address_type(ns, address, guard) == rtn::BROADCAST
            }
            IpAddr::V6(_) => false,
        };
        let key = Key {
            device: device.key,
            address,
        };
        let entry = self.table.get_or_insert_with(key, guard, || {
            self.count.fetch_add(1, Relaxed);
            self.generation.fetch_add(1, Relaxed);
            Arc::new(Neighbour::new(key, device, broadcast, stack.clock.now()))
        });
        // Who takes the device, or the protocol, away says so before it looks for entries without a lock: it
        // finds this one, or is seen here.
        fence(SeqCst);
        let here = || std::ptr::eq(&device.namespace(guard).neighbours, self);
        if device.is_leaving() || !here() || !device.has_ip(address.is_ipv6()) {
            self.remove(stack, guard, entry);
            return None;
        }
        Some(entry.clone())
    }

    /// Removes an entry; packets that wait for it are dropped.
    pub fn remove(&self, stack: &Stack, guard: &Guard, entry: &Arc<Neighbour>) -> bool {
        if self
            .table
            .remove_if(&entry.key, guard, |present| Arc::ptr_eq(present, entry))
            .is_none()
        {
            return false;
        }
        self.count.fetch_sub(1, Relaxed);
        self.generation.fetch_add(1, Relaxed);
        entry.kill(stack, guard);
        true
    }

    /// All entries, in the order of device and address.
    pub fn all(&self, guard: &Guard) -> Vec<Arc<Neighbour>> {
        let mut all: Vec<_> = self
            .table
            .iter(guard)
            .map(|(_, entry)| entry.clone())
            .collect();
        all.sort_by_key(|entry| entry.key);
        all
    }

    /// Takes away what a device has here of one family: all (`neigh_ifdown`), or all but permanent
    /// entries (`neigh_carrier_down`).
    pub fn device_went(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: DeviceKey,
        ipv6: bool,
        keep_permanent: bool,
    ) {
        fence(SeqCst);
        if self.count.load(Relaxed) == 0 {
            return;
        }
        for entry in self.all(guard) {
            if entry.key.device == device
                && entry.key.address.is_ipv6() == ipv6
                && !(keep_permanent && entry.state() & nud::PERMANENT != 0)
            {
                self.remove(stack, guard, &entry);
            }
        }
    }

    /// `neigh_forced_gc`: the entry unused for longest that may go.
    fn make_room(&self, stack: &Stack, guard: &Guard) -> bool {
        let spare = |entry: &Arc<Neighbour>| {
            entry.state() & (nud::PERMANENT | nud::NOARP | nud::CONNECTED) == 0
        };
        let oldest = self
            .all(guard)
            .into_iter()
            .filter(spare)
            .min_by_key(|entry| (entry.used(), entry.key));
        oldest.is_some_and(|entry| self.remove(stack, guard, &entry))
    }
}

impl std::fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

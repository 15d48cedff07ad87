// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A next hop: a device, and a gateway unless the destination is on the link (`struct fib_nh_common`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::rta;
use weir_sync::primitive::atomic::{AtomicI32, AtomicU8, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard, PublishedArc};

use super::RouteDevice;
use crate::neigh::{Neighbour, nud};

/// `RTNH_F_*` bits as in the message header.
pub mod flag {
    use weir_netlink::rta::nh;
    /// The hop's device is down.
    pub const DEAD: u8 = nh::F_DEAD;
    /// The hop's device has no carrier.
    pub const LINKDOWN: u8 = nh::F_LINKDOWN;
    /// The gateway is on the link, whatever the tables say.
    pub const ONLINK: u8 = nh::F_ONLINK;
    /// Stored for display only.
    pub const PERVASIVE: u8 = nh::F_PERVASIVE;
}

/// A next hop.
#[derive(Debug)]
pub struct NextHop<D> {
    /// The index of the outgoing device, or 0 if there is none.
    pub oif: u32,
    /// The outgoing device.
    pub device: Option<D>,
    /// The gateway, or `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The weight, 1..=256; 1 for a single hop.
    pub weight: u32,
    /// The scope of the gateway (`fib_nh_scope`).
    pub scope: u8,
    flags: AtomicU8,
    /// The largest 31-bit hash that selects this hop, or -1 for none (`fib_nh_upper_bound`).
    upper_bound: AtomicI32,
    /// The gateway's entry that packets used last. It may have been removed since.
    neighbour: PublishedArc<Neighbour>,
}

impl<D: RouteDevice> NextHop<D> {
    /// Creates a hop. `flags` holds the given flags (onlink, pervasive) and the detected ones (link
    /// down). Packets read the hop under guards of `domain`.
    pub fn new(
        domain: &Domain,
        oif: u32,
        device: Option<D>,
        gateway: Option<IpAddr>,
        weight: u32,
        flags: u8,
    ) -> Self {
        Self {
            oif,
            device,
            gateway,
            weight,
            scope: rta::scope::NOWHERE,
            flags: AtomicU8::new(flags),
            upper_bound: AtomicI32::new(i32::MAX),
            neighbour: PublishedArc::new(domain, None),
        }
    }

    /// Returns a copy of the hop for another route.
    pub(super) fn copy(&self, domain: &Domain) -> Self {
        let device = self.device.clone();
        let mut copy = Self::new(
            domain,
            self.oif,
            device,
            self.gateway,
            self.weight,
            self.flags(),
        );
        copy.scope = self.scope;
        copy
    }

    /// Returns a copy of the hop for a group.
    pub(super) fn weighted(&self, domain: &Domain, weight: u32) -> Self {
        Self {
            weight,
            ..self.copy(domain)
        }
    }

    pub(super) fn set_upper_bound(&self, bound: i32) {
        self.upper_bound.store(bound, Relaxed);
    }

    /// Returns whether the gateway may be assumed to answer (`ipv4_good_nh`, `ipv6_good_nh`).
    #[inline]
    pub(super) fn answers(&self, guard: &Guard) -> bool {
        let entry = self.neighbour(guard);
        entry.is_none_or(|entry| entry.state() & nud::VALID != 0)
    }

    /// Returns `RTNH_F_*`.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags.load(Relaxed)
    }

    pub(super) fn set(&self, flags: u8) {
        self.flags.fetch_or(flags, Relaxed);
    }

    pub(super) fn clear(&self, flags: u8) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// Returns whether packets may use the hop: it is not dead, and its link is not down if that
    /// matters.
    #[inline]
    pub(super) fn is_usable(&self, ipv6: bool, ignore_linkstate: bool) -> bool {
        let flags = self.flags();
        if flags & (flag::DEAD | flag::LINKDOWN) == 0 {
            return true;
        }
        flags & flag::DEAD == 0
            && (ignore_linkstate
                || !self
                    .device
                    .as_ref()
                    .is_some_and(|d| d.ignores_linkdown(ipv6)))
    }

    pub(super) fn upper_bound(&self) -> i32 {
        self.upper_bound.load(Relaxed)
    }

    /// Prefetches the gateway's neighbour entry that packets used last.
    #[inline]
    pub(super) fn prefetch_neighbour(&self, guard: &Guard) {
        if let Some(entry) = self.neighbour.load(guard) {
            entry.prefetch();
        }
    }

    /// Returns the gateway's neighbour entry if packets have used it and it is still in the table.
    #[inline]
    pub fn neighbour<'g>(&'g self, guard: &'g Guard) -> Option<&'g Neighbour> {
        let entry = self.neighbour.load(guard)?;
        (!entry.is_dead()).then_some(entry)
    }

    /// Remembers the gateway's neighbour entry for the next packets.
    pub fn remember(&self, entry: &Arc<Neighbour>) {
        if self.gateway.is_some() {
            self.neighbour.replace(Some(entry.clone()));
        }
    }

    /// Returns whether two hops are equal for the purpose of sharing route infos (`nh_comp`).
    pub(super) fn same(&self, other: &Self) -> bool {
        self.oif == other.oif
            && self.gateway == other.gateway
            && self.weight == other.weight
            && self.scope == other.scope
            && (self.flags() ^ other.flags()) & !rta::nh::COMPARE_MASK == 0
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The forwarding cache (`struct mfc_cache`): entries by source and group, and where a packet goes by an entry.
//!
//! An entry without a source, `(*,G)`, or without both, `(*,*)`, may exist several times, with different parents. The
//! newest counts (`rhltable`).

use std::fmt::Debug;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use crate::clock::SECOND;

/// The number of VIFs of a table (`MAXVIFS`).
pub const MAX_VIFS: usize = 32;
/// The time in ns between two reports of one entry about the wrong VIF (`MFC_ASSERT_THRESH`).
const ASSERT_INTERVAL: u64 = 3 * SECOND;

/// An address of a source or a group.
pub trait Address: Copy + Debug + Ord + Hash + Send + Sync + 'static {
    /// The unspecified address, which stands for any.
    const ANY: Self;
    /// Returns whether this is the address of a group.
    fn is_group(self) -> bool;
}

impl Address for Ipv4Addr {
    const ANY: Self = Self::UNSPECIFIED;
    fn is_group(self) -> bool {
        self.is_multicast()
    }
}

impl Address for Ipv6Addr {
    const ANY: Self = Self::UNSPECIFIED;
    fn is_group(self) -> bool {
        self.is_multicast()
    }
}

/// A source and a group; unspecified addresses stand for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<A> {
    /// The source of packets.
    pub origin: A,
    /// Their group.
    pub group: A,
}

impl<A: Address> Key<A> {
    const ANY: Self = Self {
        origin: A::ANY,
        group: A::ANY,
    };
}

impl<A> From<(A, A)> for Key<A> {
    fn from((origin, group): (A, A)) -> Self {
        Self { origin, group }
    }
}

/// The packets that an entry has had. It outlives changes of the entry.
#[derive(Debug, Default)]
pub struct Uses {
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    /// Packets that came by another VIF than the parent.
    pub(super) wrong: AtomicU64,
    /// When the last packet came, or when the entry was changed, in ns of the stack's clock.
    pub(super) last: AtomicU64,
    /// The end of the interval after the last report about the wrong VIF, in ns.
    quiet: AtomicU64,
}

impl Uses {
    /// Counts a packet.
    pub(super) fn count(&self, bytes: usize, now: u64) {
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.last.store(now, Relaxed);
    }

    /// Returns whether the daemon may be told of the wrong VIF, which then counts as told.
    pub(super) fn may_report(&self, now: u64) -> bool {
        let until = self.quiet.load(Relaxed);
        let next = now + ASSERT_INTERVAL + 1;
        let claim = || self.quiet.compare_exchange(until, next, Relaxed, Relaxed);
        now >= until && claim().is_ok()
    }
}

/// An entry. A change replaces it.
#[derive(Debug)]
pub struct Entry<A> {
    /// What it is for.
    pub key: Key<A>,
    /// The VIF that packets have to come by.
    pub parent: u8,
    /// The packet's TTL has to be greater than this for it to leave by a VIF; 255 for never.
    pub thresholds: [u8; MAX_VIFS],
    /// Nobody's daemon has made it (`MFC_STATIC`).
    pub is_static: bool,
    /// Greater than that of every older entry.
    pub(super) number: u64,
    /// The packets it has had.
    pub uses: Arc<Uses>,
}

impl<A> Entry<A> {
    /// Returns whether packets may leave by a VIF.
    #[inline]
    pub fn leads_to(&self, vif: u8) -> bool {
        self.thresholds
            .get(usize::from(vif))
            .is_some_and(|ttl| *ttl < 255)
    }

    fn threshold(&self, vif: u8) -> u8 {
        self.thresholds
            .get(usize::from(vif))
            .copied()
            .unwrap_or(255)
    }
}

/// A packet whose entry is known.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The highest VIF of the device that it came by, if the device has one.
    pub vif: Option<u8>,
    /// That device is the one of the entry's parent.
    pub by_parent: bool,
    /// Its time to live.
    pub ttl: u8,
}

/// Entries of one key, the newest first.
type Entries<A> = Box<[Arc<Entry<A>>]>;

/// The entries of a table.
pub(super) struct Cache<A: Address> {
    entries: RcuHash<Key<A>, Entries<A>>,
}

impl<A: Address> Cache<A> {
    pub fn new(domain: &Domain) -> Self {
        Self {
            entries: RcuHash::new(domain),
        }
    }

    fn of<'g>(&'g self, key: Key<A>, guard: &'g Guard) -> &'g [Arc<Entry<A>>] {
        self.entries.get(&key, guard).map_or(&[], |list| list)
    }

    /// Returns the entry of exactly this key, with this parent if one is given (`mr_mfc_find_parent`).
    pub fn find<'g>(
        &'g self,
        key: Key<A>,
        parent: Option<u16>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Entry<A>>> {
        let fits = |entry: &&Arc<Entry<A>>| parent.is_none_or(|at| at == u16::from(entry.parent));
        self.of(key, guard).iter().find(fits)
    }

    /// Returns a `(*,*)` entry that leads to a VIF (`mr_mfc_find_any_parent`).
    fn upstream<'g>(&'g self, vif: u8, guard: &'g Guard) -> Option<&'g Arc<Entry<A>>> {
        let leads = |entry: &&Arc<Entry<A>>| entry.leads_to(vif);
        self.of(Key::ANY, guard).iter().find(leads)
    }

    /// Returns the entry that a packet goes by: the one of its key, or one for any source that its VIF is a part of.
    pub fn find_for<'g>(
        &'g self,
        key: Key<A>,
        vif: Option<u8>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Entry<A>>> {
        let exact = self.find(key, None, guard);
        exact.or_else(|| self.find_any(key.group, vif?, guard))
    }

    /// Returns the entry of a group for any source whose packets come by a VIF (`ipmr_cache_find_any`).
    fn find_any<'g>(&'g self, group: A, vif: u8, guard: &'g Guard) -> Option<&'g Arc<Entry<A>>> {
        let key = Key { group, ..Key::ANY };
        let fits =
            |entry: &&Arc<Entry<A>>| entry.leads_to(vif) || self.joins(entry.parent, vif, guard);
        let found = self.of(key, guard).iter().find(fits);
        found.or_else(|| self.upstream(vif, guard))
    }

    /// Returns whether a `(*,*)` entry leads to both VIFs, which are then of one static tree.
    fn joins(&self, parent: u8, vif: u8, guard: &Guard) -> bool {
        let proxy = self.upstream(parent, guard);
        proxy.is_some_and(|proxy| proxy.leads_to(vif))
    }

    /// Returns the VIFs that a packet leaves by, one bit each, or `None` if it came by the wrong one (`ip_mr_forward`).
    pub fn ways(&self, entry: &Entry<A>, arrival: Arrival, guard: &Guard) -> Option<u32> {
        let Arrival {
            vif,
            by_parent,
            ttl,
        } = arrival;
        let any_source = entry.key.origin == A::ANY;
        let of_tree = || vif.is_some_and(|vif| self.joins(entry.parent, vif, guard));
        if !(by_parent || any_source && of_tree()) {
            return None;
        }
        if entry.key == Key::ANY {
            // To the upstream alone, if the packet does not come from there.
            let up =
                vif.is_some_and(|vif| vif != entry.parent) && ttl > entry.threshold(entry.parent);
            return Some(u32::from(up) << entry.parent);
        }
        let mut ways = 0;
        for (at, threshold) in entry.thresholds.iter().enumerate() {
            let back = any_source && vif.is_some_and(|vif| usize::from(vif) == at);
            if !back && *threshold < 255 && ttl > *threshold {
                ways |= 1 << at;
            }
        }
        Some(ways)
    }

    /// Adds an entry, or replaces the one of its number.
    pub fn put(&self, entry: &Arc<Entry<A>>, guard: &Guard) {
        let old = self.of(entry.key, guard);
        let mut list = old.to_vec();
        match list.iter_mut().find(|one| one.number == entry.number) {
            Some(place) => *place = entry.clone(),
            None => list.insert(0, entry.clone()),
        }
        self.entries.insert(entry.key, list.into(), guard);
    }

    /// Removes an entry.
    pub fn remove(&self, entry: &Entry<A>, guard: &Guard) {
        let all = self.of(entry.key, guard).iter();
        let left = all.filter(|one| one.number != entry.number).cloned();
        let left: Entries<A> = left.collect();
        match left.is_empty() {
            true => self.entries.remove(&entry.key, guard),
            false => self.entries.insert(entry.key, left, guard),
        };
    }
}

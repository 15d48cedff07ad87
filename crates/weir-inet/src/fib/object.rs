// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A nexthop object as routes see it (`struct nexthop`): its current state, and the choice of a hop.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_netlink::{Error, af, errno, rta};
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard, PublishedArc};

use super::hop::{NextHop, flag};
use super::resilient::Resilient;
use super::{FibHost, RouteDevice};
use crate::device::{DeviceKey, Mac};

/// An object, as routes refer to it. It stays while a route or a reader has it.
#[derive(Debug)]
pub struct Object<D: RouteDevice> {
    /// `NHA_ID`
    pub id: u32,
    state: PublishedArc<State<D>>,
    gone: AtomicBool,
    /// The entries that name the object (`fdb_list`), which go with it.
    entries: Mutex<BTreeSet<TableEntry>, order::NexthopEntries>,
}

/// An entry of a device's forwarding table that names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    /// The device.
    pub device: DeviceKey,
    /// The address.
    pub mac: Mac,
    /// The identifier beside the address, in the table's own terms.
    pub vni: u32,
}

/// Returns the object that a route request names.
///
/// # Errors
/// EINVAL with Linux's text if there is none.
pub(super) fn find<D: RouteDevice>(
    id: u32,
    host: &impl FibHost<D>,
) -> Result<Arc<Object<D>>, Error> {
    let object = host.nexthop(id);
    object.ok_or_else(|| Error::msg(errno::EINVAL, "Nexthop id does not exist"))
}

impl<D: RouteDevice> Object<D> {
    pub(super) fn new(domain: &Domain, id: u32, state: Arc<State<D>>) -> Self {
        Self {
            id,
            state: PublishedArc::new(domain, Some(state)),
            gone: AtomicBool::new(false),
            entries: Mutex::new(BTreeSet::new()),
        }
    }

    /// Notes an entry that names the object. Returns whether the object is still there; otherwise nothing is noted.
    pub fn enter(&self, entry: TableEntry) -> bool {
        let mut entries = self.entries.lock();
        let here = !self.is_gone();
        if here {
            entries.insert(entry);
        }
        here
    }

    /// Forgets an entry.
    pub fn leave(&self, entry: &TableEntry) {
        self.entries.lock().remove(entry);
    }

    pub(super) fn publish(&self, state: Arc<State<D>>) {
        self.state.replace(Some(state));
    }

    /// Marks the object as deleted. Returns the entries that named it.
    pub(super) fn end(&self) -> BTreeSet<TableEntry> {
        let mut entries = self.entries.lock();
        self.gone.store(true, Relaxed);
        std::mem::take(&mut *entries)
    }

    /// Returns the current state.
    #[inline]
    pub fn state<'g>(&'g self, guard: &'g Guard) -> Option<&'g State<D>> {
        self.state.load(guard)
    }

    /// Returns the current hops.
    #[inline]
    pub fn hops<'g>(&'g self, guard: &'g Guard) -> &'g [NextHop<D>] {
        self.state(guard).map_or(&[], |state| &state.hops)
    }

    /// Returns whether the object has been deleted.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}

/// What an object is at one time.
#[derive(Debug)]
pub struct State<D: RouteDevice> {
    /// `nh_protocol`
    pub protocol: u8,
    /// A next hop or a group.
    pub kind: Kind,
    /// The only hop, or those of the members.
    pub hops: Box<[NextHop<D>]>,
}

/// The kind of an object.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A next hop.
    Single {
        /// `AF_INET` or `AF_INET6`
        family: u8,
        /// Packets are dropped (`NHA_BLACKHOLE`).
        blackhole: bool,
        /// The remote end of a tunnel, for entries of forwarding tables (`NHA_FDB`).
        fdb: bool,
    },
    /// A group.
    Group {
        /// The members in order.
        members: Vec<Member>,
        /// All members are remote ends of tunnels.
        fdb: bool,
        /// A member is of IPv4.
        has_v4: bool,
        /// The only member is a blackhole.
        blackhole: bool,
        /// The buckets of a resilient group (`NEXTHOP_GRP_TYPE_RES`).
        resilient: Option<Resilient>,
    },
}

/// A member of a group (`struct nexthop_grp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The id of the member.
    pub id: u32,
    /// The weight, 1..=256.
    pub weight: u32,
}

impl<D: RouteDevice> State<D> {
    /// Returns whether packets are dropped (`nexthop_is_blackhole`).
    #[inline]
    pub fn is_blackhole(&self) -> bool {
        match self.kind {
            Kind::Single { blackhole, .. } | Kind::Group { blackhole, .. } => blackhole,
        }
    }

    /// Returns whether this is a remote end of a tunnel or a group of those.
    pub fn is_fdb(&self) -> bool {
        match self.kind {
            Kind::Single { fdb, .. } | Kind::Group { fdb, .. } => fdb,
        }
    }

    /// Returns whether this is a group.
    pub fn is_group(&self) -> bool {
        matches!(self.kind, Kind::Group { .. })
    }

    /// Selects a hop by a 31-bit hash of the flow (`nexthop_select_path`). The hop of a group without
    /// buckets is skipped if its gateway does not answer, unless it is the last one.
    #[inline]
    pub fn select<'s>(&'s self, hash: u32, guard: &Guard) -> Option<&'s NextHop<D>> {
        if let Kind::Group {
            resilient: Some(buckets),
            ..
        } = &self.kind
        {
            return self.hops.get(buckets.select(hash)?);
        }
        let hash = (hash & 0x7fff_ffff) as i32;
        let mut reached = self.hops.iter().filter(|hop| hash <= hop.upper_bound());
        let first = reached.clone().next();
        reached.find(|hop| hop.answers(guard)).or(first)
    }

    /// Checks whether an entry of a forwarding table whose remotes are of IPv6 or of IPv4 may name the object
    /// (`vxlan_fdb_nh_update`).
    ///
    /// # Errors
    /// Linux's errno and text.
    pub fn check_entry(&self, ipv6: bool) -> Result<(), Error> {
        if !self.is_fdb() {
            return invalid("Nexthop is not a fdb nexthop");
        }
        match self.kind {
            Kind::Single { .. } => invalid("Nexthop is not a multipath group"),
            Kind::Group { has_v4, .. } if has_v4 == ipv6 => Err(Error::msg(
                errno::EAFNOSUPPORT,
                "Nexthop group family not supported",
            )),
            Kind::Group { .. } => Ok(()),
        }
    }

    /// Checks whether a route of IPv4 may use the object (`fib_check_nexthop`).
    ///
    /// # Errors
    /// Linux's errno and text.
    pub(super) fn check4(&self, scope: u8) -> Result<(), Error> {
        if self.is_fdb() {
            return invalid("Route cannot point to a fdb nexthop");
        }
        let host = scope == rta::scope::HOST;
        if host && self.is_group() {
            return invalid("Route with host scope can not have multiple nexthops");
        }
        let Some(hop) = self.hops.first() else {
            return Ok(());
        };
        if host && hop.gateway.is_some() {
            return invalid("Route with host scope can not have a gateway");
        }
        if hop.flags() & flag::ONLINK != 0 && scope >= rta::scope::LINK {
            return invalid("Scope mismatch with nexthop");
        }
        Ok(())
    }

    /// Checks whether a route of IPv6 may use the object (`fib6_check_nexthop`).
    ///
    /// # Errors
    /// Linux's errno and text.
    pub(super) fn check6(&self) -> Result<(), Error> {
        let v4 = match self.kind {
            Kind::Single { family, .. } => family == af::INET,
            Kind::Group { has_v4, .. } => has_v4,
        };
        if v4 {
            return invalid("IPv6 routes can not use an IPv4 nexthop");
        }
        if self.is_fdb() {
            return invalid("Route cannot point to a fdb nexthop");
        }
        Ok(())
    }
}

pub(super) fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

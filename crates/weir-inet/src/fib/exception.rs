// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exceptions of routes: the gateway that one destination has in place of that of its route
//! (`struct fib_nh_exception`, `struct rt6_exception`).
//!
//! Redirects make them. An exception belongs to a hop of a route and ends with the route, as in Linux. Packets
//! look for one after their route has been found; without exceptions that costs one load.
//!
//! IPv4 exceptions end at a time ([`LIFETIME`]), IPv6 ones when no packet has used them for 60 to 90 seconds
//! (`ip6_rt_gc_timeout`, `ip6_rt_gc_interval`).
//!
//! A family has at most [`MOST`] in a namespace; then the oldest makes way. (Linux: five times 2,048 for a hop.)
//!
//! Not implemented: path MTUs learned from errors.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use super::lookup::Found;
use super::route::{NextHop, RouteInfo};
use super::{Address, Family, RouteDevice};
use crate::clock::{SECOND, TimerId};

/// The maximum number of exceptions of a family.
pub const MOST: usize = 4096;
/// The time in ns after which IPv4 exceptions end (`ip_rt_gc_timeout`).
pub const LIFETIME: u64 = 300 * SECOND;
/// The time in ns between two looks for IPv6 exceptions that nobody uses (`ip6_rt_gc_interval`).
pub const INTERVAL: u64 = 30 * SECOND;
/// The number of such looks after which an unused exception goes.
const IDLE: u32 = 3;

/// An exception.
#[derive(Debug)]
pub struct Exception<K, D: RouteDevice> {
    /// The destination.
    pub dst: K,
    /// The table of its route.
    pub table: u32,
    /// The gateway; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// When it ends, in ns of the stack's clock.
    pub expires: Option<u64>,
    /// The index of the device of the route's hop, and that hop's gateway.
    hop: (u32, Option<IpAddr>),
    info: Weak<RouteInfo<D>>,
    made: u64,
    /// The number of looks since its last use.
    idle: AtomicU32,
    /// A packet or `ip route get` has used it. Dumps of IPv4 show no others.
    used: AtomicBool,
}

impl<K: Address, D: RouteDevice> Exception<K, D> {
    fn is_of(&self, info: &Arc<RouteInfo<D>>, hop: &NextHop<D>) -> bool {
        std::ptr::eq(self.info.as_ptr(), Arc::as_ptr(info)) && self.hop == (hop.oif, hop.gateway)
    }

    /// Returns the part of the route that its exceptions share, unless no table has the route any more.
    pub fn route(&self) -> Option<Arc<RouteInfo<D>>> {
        self.info.upgrade().filter(|info| info.is_used())
    }

    /// Returns the index of the outgoing device.
    pub fn oif(&self) -> u32 {
        self.hop.0
    }

    /// Returns whether anything has used it.
    pub fn is_used(&self) -> bool {
        self.used.load(Relaxed)
    }
}

/// The exceptions of a family, by destination.
type List<K, D> = Vec<Arc<Exception<K, D>>>;

/// The exceptions of a family.
#[derive(Debug)]
pub struct Exceptions<K: Address, D: RouteDevice> {
    list: PublishedOption<List<K, D>>,
    /// Serializes changes.
    changing: Mutex<(), order::Routes>,
    /// The timer of the next look.
    pub timer: Mutex<Option<TimerId>, order::ExceptionTimer>,
}

impl<K: Address, D: RouteDevice> Exceptions<K, D> {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            list: PublishedOption::new(domain, None),
            changing: Mutex::new(()),
            timer: Mutex::new(None),
        }
    }

    /// Returns whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.list.is_some()
    }

    /// Returns that of a destination whose route has been found, and marks it as used.
    #[inline]
    pub fn find<'g>(
        &'g self,
        dst: K,
        found: &Found<'_, K, D>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Exception<K, D>>> {
        if !self.any() {
            return None;
        }
        let exception = self.of(dst, found.info, found.hop, guard)?;
        exception.idle.store(0, Relaxed);
        exception.used.store(true, Relaxed);
        Some(exception)
    }

    /// Returns that of a destination at a hop of a route.
    pub(super) fn of<'g>(
        &'g self,
        dst: K,
        info: &Arc<RouteInfo<D>>,
        hop: &NextHop<D>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Exception<K, D>>> {
        let list = self.list.load(guard)?;
        let from = list.partition_point(|one| one.dst < dst);
        let those = list.iter().skip(from).take_while(|one| one.dst == dst);
        those.into_iter().find(|one| one.is_of(info, hop))
    }

    /// Returns all whose routes exist, by destination.
    pub fn all(&self, guard: &Guard) -> List<K, D> {
        let list = self.list.load(guard).into_iter().flatten();
        list.filter(|one| one.route().is_some()).cloned().collect()
    }

    /// Replaces the list by what `change` makes of a copy.
    fn change(&self, domain: &Domain, change: impl FnOnce(&mut List<K, D>)) {
        let _alone = self.changing.lock();
        let guard = domain.pin();
        let mut list = self.list.load(&guard).cloned().unwrap_or_default();
        change(&mut list);
        self.list.replace((!list.is_empty()).then_some(list));
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Gives a destination of a hop another gateway (`update_or_create_fnhe`, `rt6_insert_exception`). `made` is the
    /// time.
    pub fn set_exception(
        &self,
        dst: K,
        found: &Found<'_, K, D>,
        gateway: Option<IpAddr>,
        made: u64,
        expires: Option<u64>,
    ) {
        let (info, hop) = (found.info, found.hop);
        self.exceptions.change(&self.domain, |list| {
            let before = list
                .iter()
                .find(|one| one.dst == dst && one.is_of(info, hop));
            let used = before.is_some_and(|one| one.is_used());
            list.retain(|one| one.route().is_some() && !(one.dst == dst && one.is_of(info, hop)));
            if list.len() >= MOST
                && let Some(oldest) = list.iter().map(|one| one.made).min()
                && let Some(at) = list.iter().position(|one| one.made == oldest)
            {
                list.remove(at);
            }
            let at = list.partition_point(|one| one.dst <= dst);
            let new = Exception {
                dst,
                table: found.table,
                gateway,
                expires,
                hop: (hop.oif, hop.gateway),
                info: Arc::downgrade(info),
                made,
                idle: AtomicU32::new(0),
                used: AtomicBool::new(used),
            };
            list.insert(at, Arc::new(new));
        });
    }

    /// Removes exceptions. Returns how many.
    pub fn remove_exceptions(&self, which: impl Fn(&Exception<K, D>) -> bool) -> usize {
        let mut removed = 0;
        if self.exceptions.any() {
            self.exceptions.change(&self.domain, |list| {
                let before = list.len();
                list.retain(|one| !which(one));
                removed = before - list.len();
            });
        }
        removed
    }

    /// Removes exceptions that have expired, that nobody uses, or whose route has gone; those of the family that
    /// `which` names, too. Returns when to look again.
    pub fn look_after_exceptions(
        &self,
        now: u64,
        which: impl Fn(&Exception<K, D>) -> bool,
    ) -> Option<u64> {
        let mut next: Option<u64> = None;
        self.exceptions.change(&self.domain, |list| {
            list.retain(|one| {
                let ended = match one.expires {
                    Some(expires) => now > expires,
                    None => one.idle.fetch_add(1, Relaxed) + 1 >= IDLE,
                };
                !ended && one.route().is_some() && !which(one)
            });
            let due = |one: &Arc<Exception<K, D>>| match one.expires {
                Some(expires) => expires + 1,
                None => now + INTERVAL,
            };
            next = list.iter().map(due).min();
        });
        next
    }
}

impl<D: RouteDevice> Family<u32, D> {
    /// Returns whether a route has a gateway at a device (`ip_fib_check_default`).
    pub fn has_gateway(&self, ifindex: u32, gateway: IpAddr, guard: &Guard) -> bool {
        let mut found = false;
        self.infos.each(|info| {
            let through = |hop: &NextHop<D>| hop.oif == ifindex && hop.gateway == Some(gateway);
            found |= info.is_used() && info.paths(guard).iter().any(through);
        });
        found
    }
}

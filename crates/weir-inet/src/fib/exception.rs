// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exceptions of routes: the gateway or the path MTU that one destination has in place of those of its route
//! (`struct fib_nh_exception`, `struct rt6_exception`).
//!
//! Redirects make them, and errors about packets of tunnels over IPv6 that are too big for the path. An exception belongs
//! to a hop of a route and ends with the route, as in Linux. Packets
//! look for one after their route has been found; without exceptions that costs one load.
//!
//! IPv4 exceptions end at a time ([`LIFETIME`]), as path MTUs do. IPv6 gateways end when no packet has used them for 60 to
//! 90 seconds (`ip6_rt_gc_timeout`, `ip6_rt_gc_interval`).
//!
//! A family has at most [`MOST`] in a namespace; then the oldest makes way. (Linux: five times 2,048 for a hop.) A host on
//! the link can send as many redirects as the link carries, so the cost of one does not depend on how many there are.
//!
//! Not implemented: path MTUs over IPv4, and those that sockets learn, who keep their own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::primitive::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard};

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
    /// The path MTU in bytes, if one has been learned.
    pub mtu: Option<u32>,
    /// When it ends, in ns of the stack's clock.
    pub expires: Option<u64>,
    hop: HopId,
    info: Weak<RouteInfo<D>>,
    /// Greater than that of every older one.
    number: u64,
    /// The number of looks since its last use.
    idle: AtomicU32,
    /// A packet or `ip route get` has used it. Dumps of IPv4 show no others.
    used: AtomicBool,
}

/// The index of a hop's device, and the hop's gateway.
type HopId = (u32, Option<IpAddr>);

/// What distinguishes exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Id<K> {
    dst: K,
    /// The address of the part of the route that its exceptions share. It is not used again while there is an exception,
    /// which refers to it.
    info: usize,
    hop: HopId,
}

impl<K: Address, D: RouteDevice> Exception<K, D> {
    fn new(
        dst: K,
        found: &Found<'_, K, D>,
        gateway: Option<IpAddr>,
        mtu: Option<u32>,
        expires: Option<u64>,
    ) -> Self {
        Self {
            dst,
            table: found.table,
            gateway,
            mtu,
            expires,
            hop: (found.hop.oif, found.hop.gateway),
            info: Arc::downgrade(found.info),
            number: 0,
            idle: AtomicU32::new(0),
            used: AtomicBool::new(false),
        }
    }

    fn id(&self) -> Id<K> {
        Id {
            dst: self.dst,
            info: self.info.as_ptr() as usize,
            hop: self.hop,
        }
    }

    fn mark_used(&self) {
        // Most often it is marked already, and CPUs that use it together only read.
        if self.idle.load(Relaxed) != 0 {
            self.idle.store(0, Relaxed);
        }
        if !self.is_used() {
            self.used.store(true, Relaxed);
        }
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

/// The exceptions of a family. Few namespaces ever have any.
#[derive(Debug)]
pub struct Exceptions<K: Address, D: RouteDevice> {
    domain: Domain,
    /// Made with the first exception.
    made: OnceBox<Made<K, D>>,
}

/// The exceptions of a family that has had some.
#[derive(Debug)]
struct Made<K: Address, D: RouteDevice> {
    by_id: RcuHash<Id<K>, Arc<Exception<K, D>>>,
    /// The same ones by number. Changes of `by_id` hold the lock as well.
    by_age: Mutex<BTreeMap<u64, Arc<Exception<K, D>>>, order::Routes>,
    /// How many there are, for readers without the lock.
    count: AtomicUsize,
    /// The timer of the next look.
    timer: Mutex<Option<TimerId>, order::ExceptionTimer>,
}

impl<K: Address, D: RouteDevice> Exceptions<K, D> {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            domain: domain.clone(),
            made: OnceBox::default(),
        }
    }

    fn made(&self) -> &Made<K, D> {
        self.made.get_or_make(|| Made {
            by_id: RcuHash::new(&self.domain),
            by_age: Mutex::default(),
            count: AtomicUsize::new(0),
            timer: Mutex::new(None),
        })
    }

    /// Locks the timer of the next look.
    pub fn timer(&self) -> MutexGuard<'_, Option<TimerId>, order::ExceptionTimer> {
        self.made().timer.lock()
    }

    /// Returns whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        let made = self.made.get();
        made.is_some_and(|made| made.count.load(Relaxed) != 0)
    }

    /// Returns that of a destination whose route has been found, and marks it as used.
    #[inline]
    pub fn find<'g>(
        &'g self,
        dst: K,
        found: &Found<'_, K, D>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Exception<K, D>>> {
        let exception = self.of(dst, found.info, found.hop, guard)?;
        exception.mark_used();
        Some(exception)
    }

    /// Returns that of a destination at a hop of a route. Without exceptions, that is one load.
    #[inline]
    pub fn of<'g>(
        &'g self,
        dst: K,
        info: &RouteInfo<D>,
        hop: &NextHop<D>,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Exception<K, D>>> {
        let made = self.made.get()?;
        if made.count.load(Relaxed) == 0 {
            return None;
        }
        let id = Id {
            dst,
            info: std::ptr::from_ref(info) as usize,
            hop: (hop.oif, hop.gateway),
        };
        made.by_id.get(&id, guard)
    }

    /// Returns all whose routes exist, by destination.
    pub fn all(&self) -> Vec<Arc<Exception<K, D>>> {
        let Some(made) = self.made.get() else {
            return Vec::new();
        };
        let by_age = made.by_age.lock();
        let all = by_age.values().filter(|one| one.route().is_some());
        let mut all: Vec<_> = all.cloned().collect();
        drop(by_age);
        all.sort_by_key(|one| one.dst);
        all
    }

    /// Enters an exception in place of the one with its id. At [`MOST`], the oldest makes way.
    fn enter(&self, mut new: Exception<K, D>, guard: &Guard) {
        let id = new.id();
        let made = self.made();
        let mut by_age = made.by_age.lock();
        if let Some(before) = made.by_id.get(&id, guard) {
            by_age.remove(&before.number);
            *new.used.get_mut() = before.is_used();
        } else if by_age.len() >= MOST
            && let Some((_, oldest)) = by_age.pop_first()
        {
            made.by_id.remove(&oldest.id(), guard);
        }
        new.number = by_age.last_key_value().map_or(0, |(last, _)| last + 1);
        let new = Arc::new(new);
        by_age.insert(new.number, new.clone());
        made.by_id.insert(id, new, guard);
        made.count.store(by_age.len(), Relaxed);
    }

    /// Keeps only those for which `keep` returns true. Returns how many it has removed.
    fn retain(&self, guard: &Guard, mut keep: impl FnMut(&Exception<K, D>) -> bool) -> usize {
        let Some(made) = self.made.get() else {
            return 0;
        };
        let mut by_age = made.by_age.lock();
        let before = by_age.len();
        by_age.retain(|_, one| {
            let stays = keep(one);
            if !stays {
                made.by_id.remove(&one.id(), guard);
            }
            stays
        });
        made.count.store(by_age.len(), Relaxed);
        before - by_age.len()
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Gives a destination of a hop another gateway (`update_or_create_fnhe`, `rt6_insert_exception`).
    pub fn set_exception(
        &self,
        dst: K,
        found: &Found<'_, K, D>,
        gateway: Option<IpAddr>,
        expires: Option<u64>,
    ) {
        let new = Exception::new(dst, found, gateway, None, expires);
        self.exceptions.enter(new, found.guard);
    }

    /// Gives a destination of a hop a path MTU in bytes (`__ip6_rt_update_pmtu`). A gateway that a redirect gave it stays.
    pub fn set_path_mtu(&self, dst: K, found: &Found<'_, K, D>, mtu: u32, expires: u64) {
        let before = self.exceptions.of(dst, found.info, found.hop, found.guard);
        let gateway = before.map_or(found.hop.gateway, |one| one.gateway);
        let new = Exception::new(dst, found, gateway, Some(mtu), Some(expires));
        self.exceptions.enter(new, found.guard);
    }

    /// Removes exceptions. Returns how many.
    pub fn remove_exceptions(&self, which: impl Fn(&Exception<K, D>) -> bool) -> usize {
        let guard = self.domain.pin();
        self.exceptions.retain(&guard, |one| !which(one))
    }

    /// Removes exceptions that have expired, that nobody uses, or whose route has gone; those of the family that
    /// `which` names, too. Returns when to look again.
    pub fn look_after_exceptions(
        &self,
        now: u64,
        which: impl Fn(&Exception<K, D>) -> bool,
    ) -> Option<u64> {
        let mut next: Option<u64> = None;
        let guard = self.domain.pin();
        self.exceptions.retain(&guard, |one| {
            let (ended, due) = match one.expires {
                Some(expires) => (now > expires, expires + 1),
                None => {
                    let idle = one.idle.fetch_add(1, Relaxed) + 1;
                    (idle >= IDLE, now + INTERVAL)
                }
            };
            let stays = !ended && one.route().is_some() && !which(one);
            if stays {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            stays
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

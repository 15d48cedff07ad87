// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a route: its attributes, its next hops, and the list of routes of one prefix.
//!
//! As in Linux, the common part of equal routes is one shared object, [`RouteInfo`] (`struct
//! fib_info`): a hundred thousand prefixes through one gateway share a single one. State that
//! depends on devices (dead, link down, the shares of a multipath route) is stored in it as
//! atomics, so a device event touches no prefix. An IPv6 route has one next hop. As in Linux, an
//! IPv6 multipath route consists of several routes of the same prefix and metric (*siblings*).
//!
//! A route by a nexthop object (`RTA_NH_ID`) has the hops of the object ([`RouteInfo::paths`]).
//!
//! Not implemented: realms (`RTA_FLOW`), encapsulation other than `ip`, `ip6` and `mpls`, source-specific IPv6 routes.
//! The netlink handler rejects them by name.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::sync::{Arc, LazyLock};

use weir_netlink::{errno, rta};
use weir_sync::primitive::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use weir_sync::primitive::prefetch;
use weir_sync::rcu::{Domain, Guard};

use super::RouteDevice;
use super::encap::Encap;
use super::lpm::Key;
use super::object::Object;
use super::sequence::{Element, Sequence};

pub use super::hop::{NextHop, flag};

/// The number of metrics (`RTAX_MAX`).
pub const METRICS: usize = rta::ax::MAX as usize;

/// `RTA_METRICS`: the value of `RTAX_n` is at index `n - 1`, or 0 if it is not set.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Metrics {
    /// All metrics except the algorithm's name, by number.
    pub values: [u32; METRICS],
    /// `RTAX_CC_ALGO`
    pub congestion: Option<String>,
}

impl Metrics {
    /// Returns the value of `RTAX_*` number `metric`, or 0 if it is not set.
    pub fn get(&self, metric: u16) -> u32 {
        match usize::from(metric).checked_sub(1) {
            Some(index) => self.values.get(index).copied().unwrap_or(0),
            None => 0,
        }
    }

    /// Sets the value of `RTAX_*` number `metric`.
    pub fn set(&mut self, metric: u16, value: u32) {
        let slot = usize::from(metric).checked_sub(1);
        if let Some(slot) = slot.and_then(|index| self.values.get_mut(index)) {
            *slot = value;
        }
    }

    /// Returns whether no metric is set.
    pub fn is_empty(&self) -> bool {
        self.values == [0; METRICS] && self.congestion.is_none()
    }
}

/// The configured, immutable part of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// `RTN_*`
    pub kind: u8,
    /// `RTPROT_*`
    pub protocol: u8,
    /// `RT_SCOPE_*`; always universe for IPv6.
    pub scope: u8,
    /// `rtm_flags` as given in the request.
    pub flags: u32,
    /// `RTA_PRIORITY`. The smaller one wins.
    pub priority: u32,
    /// The number of the table.
    pub table: u32,
    /// `RTA_PREFSRC`
    pub prefsrc: Option<IpAddr>,
    /// `RTA_METRICS`
    pub metrics: Option<Box<Metrics>>,
    /// IPv6: the expiry time in nanoseconds of the stack's clock.
    pub expires: Option<NonZeroU64>,
    /// IPv6: router preference: 0 medium, 1 high, 3 low (`ICMPV6_ROUTER_PREF_*`).
    pub pref: u8,
    /// IPv6: the route rejects packets with its type's error, or as unreachable (`RTF_REJECT`).
    pub reject: bool,
    /// IPv6: the route was learned from a router or created by address configuration
    /// (`RTF_ADDRCONF`).
    pub addrconf: bool,
}

/// A flag of [`RouteInfo::routes`]: there were routes, and none is left.
const ENDED: u32 = 1 << 31;

/// The metric of routes that addresses create (`IP6_RT_PRIO_ADDRCONF`).
pub const METRIC_ADDRCONF: u32 = 256;

/// Returns a route's configured part. The parts of the routes that every device has for IPv6, and every loopback device
/// for IPv4, exist once.
fn shared(spec: RouteSpec) -> Arc<RouteSpec> {
    static ALL: LazyLock<[Arc<RouteSpec>; 5]> = LazyLock::new(|| {
        let spec = |kind, table, priority| RouteSpec {
            kind,
            protocol: rta::prot::KERNEL,
            scope: rta::scope::UNIVERSE,
            flags: 0,
            priority,
            table,
            prefsrc: None,
            metrics: None,
            expires: None,
            pref: 0,
            reject: false,
            addrconf: false,
        };
        let loopback = |kind, scope| RouteSpec {
            scope,
            prefsrc: Some(Ipv4Addr::LOCALHOST.into()),
            ..spec(kind, rta::table::LOCAL, 0)
        };
        [
            spec(rta::rtn::UNICAST, rta::table::MAIN, METRIC_ADDRCONF),
            spec(rta::rtn::MULTICAST, rta::table::LOCAL, METRIC_ADDRCONF),
            spec(rta::rtn::LOCAL, rta::table::LOCAL, 0),
            loopback(rta::rtn::LOCAL, rta::scope::HOST),
            loopback(rta::rtn::BROADCAST, rta::scope::LINK),
        ]
        .map(Arc::new)
    });
    let known = ALL.iter().find(|known| ***known == spec);
    known.cloned().unwrap_or_else(|| Arc::new(spec))
}

/// The next hops of a route. The only hop, which most routes have, lies inside the [`RouteInfo`].
#[derive(Debug)]
pub enum Hops<D: RouteDevice> {
    /// The only hop.
    One(NextHop<D>),
    /// Several hops, or none.
    Many(Box<[NextHop<D>]>),
    /// One or several, of which at least one encapsulates packets, and their encapsulations.
    Encap(Box<Encapsulating<D>>),
    /// Those of a nexthop object. As a slice, there are none.
    Object(Arc<Object<D>>),
}

/// Hops, and the encapsulation of each.
type Encapsulating<D> = (Box<[NextHop<D>]>, Box<[Option<Arc<Encap>>]>);

impl<D: RouteDevice> Hops<D> {
    /// Creates hops of which some encapsulate packets.
    pub(super) fn with_encaps(hops: Vec<NextHop<D>>, encaps: Vec<Option<Arc<Encap>>>) -> Self {
        match encaps.iter().any(Option::is_some) {
            true => Self::Encap(Box::new((hops.into(), encaps.into()))),
            false => hops.into(),
        }
    }

    /// Returns a copy for another route.
    pub(super) fn copy(&self, domain: &Domain) -> Self {
        let hops = || self.iter().map(|hop| hop.copy(domain)).collect::<Vec<_>>();
        match self {
            Self::Object(object) => Self::Object(object.clone()),
            Self::Encap(all) => Self::with_encaps(hops(), all.1.to_vec()),
            _ => hops().into(),
        }
    }

    /// Returns the encapsulations, or nothing if no hop has one.
    pub(super) fn encaps(&self) -> &[Option<Arc<Encap>>] {
        match self {
            Self::Encap(all) => &all.1,
            _ => &[],
        }
    }
}

impl<D: RouteDevice> From<Vec<NextHop<D>>> for Hops<D> {
    fn from(mut hops: Vec<NextHop<D>>) -> Self {
        match (hops.pop(), hops.is_empty()) {
            (Some(only), true) => Self::One(only),
            (last, _) => {
                hops.extend(last);
                Self::Many(hops.into())
            }
        }
    }
}

impl<D: RouteDevice> From<Arc<Object<D>>> for Hops<D> {
    fn from(object: Arc<Object<D>>) -> Self {
        Self::Object(object)
    }
}

impl<D: RouteDevice> std::ops::Deref for Hops<D> {
    type Target = [NextHop<D>];
    #[inline]
    fn deref(&self) -> &[NextHop<D>] {
        match self {
            Self::One(hop) => std::slice::from_ref(hop),
            Self::Many(hops) => hops,
            Self::Encap(all) => &all.0,
            Self::Object(_) => &[],
        }
    }
}

impl<'a, D: RouteDevice> IntoIterator for &'a Hops<D> {
    type Item = &'a NextHop<D>;
    type IntoIter = std::slice::Iter<'a, NextHop<D>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The shared part of routes with the same attributes and hops (`struct fib_info`, `struct
/// fib6_info`). The fields that a forwarded packet reads lie together, in two cache lines. Lines of its own would
/// cost each route 96 bytes more: the device routes of IPv6 are not shared.
#[derive(Debug)]
#[repr(C)]
pub struct RouteInfo<D: RouteDevice> {
    /// The route's own hops. IPv4 has any number, and one for types that reject packets; IPv6 has one.
    /// A route by a nexthop object has none ([`RouteInfo::paths`]).
    pub hops: Hops<D>,
    /// A copy of the metric `RTAX_MTU`.
    mtu: u32,
    /// Copies of the type and the scope.
    kind: u8,
    scope: u8,
    /// `RTNH_F_DEAD` if no hop is left or the preferred source address was deleted; likewise link
    /// down.
    flags: AtomicU8,
    /// The configured part. Every device has routes that differ in their hop alone.
    pub spec: Arc<RouteSpec>,
    /// The number of routes in tables that refer to this info (`fib_treeref`), and [`ENDED`]. An info with none
    /// may still be read, or wait to be announced, but no longer changes.
    routes: AtomicU32,
}

const _: () = assert!(std::mem::offset_of!(RouteInfo<Arc<crate::device::Device>>, spec) <= 64);

impl<D: RouteDevice> RouteInfo<D> {
    /// Prefetches the fields that a packet reads. With the reference counts in front of them they are in two lines.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&raw const *self);
        prefetch(&raw const self.spec);
    }

    /// Prefetches the neighbour entry of the only hop. Reads the info.
    #[inline]
    pub(super) fn prefetch_neighbour(&self, guard: &Guard) {
        match &self.hops {
            Hops::One(hop) => {
                hop.prefetch_neighbour(guard);
            }
            Hops::Many(hops) => prefetch(hops.as_ptr()),
            Hops::Encap(all) => prefetch(all.0.as_ptr()),
            Hops::Object(object) => prefetch(&raw const **object),
        }
    }

    /// Returns the hops, which are the route's own or those of its nexthop object.
    #[inline]
    pub fn paths<'g>(&'g self, guard: &'g Guard) -> &'g [NextHop<D>] {
        match &self.hops {
            Hops::Object(object) => object.hops(guard),
            own => own,
        }
    }

    /// Returns the encapsulation of one of the route's hops.
    #[inline]
    pub fn encap_of(&self, hop: &NextHop<D>) -> Option<&Arc<Encap>> {
        let Hops::Encap(all) = &self.hops else {
            return None;
        };
        let at = all.0.iter().position(|own| std::ptr::eq(own, hop))?;
        all.1.get(at)?.as_ref()
    }

    /// Returns the nexthop object of the route, if it has one.
    #[inline]
    pub fn object(&self) -> Option<&Arc<Object<D>>> {
        match &self.hops {
            Hops::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns whether this is a route by an object.
    pub(super) fn is_by(&self, object: &Arc<Object<D>>) -> bool {
        self.object().is_some_and(|own| Arc::ptr_eq(own, object))
    }

    /// Returns the type (`RTN_*`).
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the scope (`RT_SCOPE_*`).
    #[inline]
    pub fn scope(&self) -> u8 {
        self.scope
    }

    /// Returns the metric `RTAX_MTU`, or 0 if it is not set.
    #[inline]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }
}

impl<D: RouteDevice> RouteInfo<D> {
    pub(super) fn new(spec: RouteSpec, hops: impl Into<Hops<D>>) -> Self {
        let metrics = spec.metrics.as_ref();
        let info = Self {
            hops: hops.into(),
            mtu: metrics.map_or(0, |metrics| metrics.get(rta::ax::MTU)),
            kind: spec.kind,
            scope: spec.scope,
            flags: AtomicU8::new(0),
            spec: shared(spec),
            routes: AtomicU32::new(0),
        };
        let down = |hop: &NextHop<D>| hop.flags() & flag::LINKDOWN != 0;
        if info.hops.iter().all(down) && !info.hops.is_empty() {
            info.set(flag::LINKDOWN);
        }
        info
    }

    /// Returns whether any table has a route with this info.
    pub(super) fn is_used(&self) -> bool {
        self.routes.load(Relaxed) & !ENDED != 0
    }

    /// Returns whether the last route with this info is gone.
    pub(super) fn has_ended(&self) -> bool {
        self.routes.load(Relaxed) == ENDED
    }

    /// Returns whether a route got this info while the last one with it went. The family may have forgotten it.
    pub(super) fn has_returned(&self) -> bool {
        self.routes.load(Relaxed) & ENDED != 0
    }

    /// Notes that the family knows the info again.
    pub(super) fn note_known(&self) {
        self.routes.fetch_and(!ENDED, Relaxed);
    }

    /// Returns the number of routes with this info in tables.
    pub(super) fn users(&self) -> usize {
        (self.routes.load(Relaxed) & !ENDED) as usize
    }

    pub(super) fn entered(&self) {
        self.routes.fetch_add(1, Relaxed);
    }

    pub(super) fn left(&self) {
        if self.routes.fetch_sub(1, Relaxed) == 1 {
            self.routes.fetch_or(ENDED, Relaxed);
        }
    }

    /// Returns the `RTNH_F_*` flags of the route as a whole, including the configured ones.
    pub fn flags(&self) -> u32 {
        self.spec.flags | u32::from(self.flags.load(Relaxed))
    }

    /// Returns whether the route is unusable until a device comes back.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.flags.load(Relaxed) & flag::DEAD != 0
    }

    pub(super) fn set(&self, flags: u8) {
        self.flags.fetch_or(flags, Relaxed);
    }

    pub(super) fn clear(&self, flags: u8) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// Returns the value of `RTAX_*` number `metric`, or 0 if it is not set.
    pub fn metric(&self, metric: u16) -> u32 {
        self.spec
            .metrics
            .as_ref()
            .map_or(0, |metrics| metrics.get(metric))
    }

    /// Returns whether a metric is locked (`RTAX_LOCK`).
    pub fn is_locked(&self, metric: u16) -> bool {
        self.metric(rta::ax::LOCK) >> metric & 1 == 1
    }

    /// IPv6: returns whether this is the kernel's route to one of our own addresses, not one added
    /// by hand.
    pub fn is_own_address(&self) -> bool {
        self.spec.kind == rta::rtn::LOCAL
            && self.spec.protocol == rta::prot::KERNEL
            && self.spec.priority == 0
    }

    /// IPv6: returns whether the route may have siblings (`rt6_qualify_for_ecmp`).
    pub fn is_ecmp(&self) -> bool {
        !self.spec.addrconf && self.hops.first().is_some_and(|hop| hop.gateway.is_some())
    }

    /// Returns whether two infos can be shared as one object (`fib_find_info`).
    pub(super) fn same(&self, other: &Self) -> bool {
        let object = |info: &Self| info.object().map(Arc::as_ptr);
        self.spec == other.spec
            && object(self) == object(other)
            && self.hops.encaps() == other.hops.encaps()
            && self.hops.len() == other.hops.len()
            && self.hops.iter().zip(&other.hops).all(|(a, b)| a.same(b))
    }

    /// Divides the 31-bit hash space among the usable hops by weight (`fib_rebalance`).
    pub(super) fn rebalance(&self) {
        if self.hops.len() < 2 {
            return;
        }
        let bounds = shares(self.hops.iter().map(|hop| {
            if hop.is_usable(false, false) {
                hop.weight
            } else {
                0
            }
        }));
        for (hop, bound) in self.hops.iter().zip(bounds) {
            hop.set_upper_bound(bound);
        }
    }
}

/// Returns for each weight the largest hash it gets, or -1 for none. A weight of 0 means that the
/// hop is unusable.
pub(super) fn shares(weights: impl Iterator<Item = u32> + Clone) -> impl Iterator<Item = i32> {
    let total: u64 = weights.clone().map(u64::from).sum();
    let mut sum = 0;
    weights.map(move |weight| {
        if weight == 0 {
            return -1;
        }
        sum += u64::from(weight);
        // Rounded to the nearest integer, like DIV_ROUND_CLOSEST.
        i32::try_from(((sum << 31) + total / 2) / total - 1).unwrap_or(i32::MAX)
    })
}

/// Returns the error that a route type stands for, or 0 for types that deliver packets
/// (`fib_props`).
#[inline]
pub fn error_of(kind: u8) -> i32 {
    match kind {
        rta::rtn::BLACKHOLE | rta::rtn::NAT | rta::rtn::XRESOLVE => errno::EINVAL,
        rta::rtn::UNREACHABLE => errno::EHOSTUNREACH,
        rta::rtn::PROHIBIT => errno::EACCES,
        rta::rtn::THROW => errno::EAGAIN,
        _ => 0,
    }
}

/// Returns the widest scope a route type may have (`fib_props`).
pub(super) fn scope_of(kind: u8) -> u8 {
    match kind {
        rta::rtn::UNSPEC | rta::rtn::NAT | rta::rtn::XRESOLVE => rta::scope::NOWHERE,
        rta::rtn::LOCAL => rta::scope::HOST,
        rta::rtn::BROADCAST | rta::rtn::ANYCAST => rta::scope::LINK,
        _ => rta::scope::UNIVERSE,
    }
}

/// One route of a prefix (`struct fib_alias`).
#[derive(Debug)]
pub struct Alias<D: RouteDevice> {
    /// The shared part.
    pub info: Arc<RouteInfo<D>>,
    /// The index of the first hop's device.
    device: u32,
    /// IPv4: match only packets with this type of service (DSCP in the upper six bits); 0 matches
    /// all.
    pub tos: u8,
}

impl<D: RouteDevice> Alias<D> {
    pub(super) fn new(info: Arc<RouteInfo<D>>, tos: u8) -> Self {
        Self {
            device: info.hops.first().map_or(0, |hop| hop.oif),
            info,
            tos,
        }
    }
}

impl<D: RouteDevice> Element for Alias<D> {
    fn device(&self) -> u32 {
        self.device
    }

    fn is_ecmp(&self) -> bool {
        self.info.is_ecmp()
    }
}

impl<D: RouteDevice> Clone for Alias<D> {
    fn clone(&self) -> Self {
        Self {
            info: self.info.clone(),
            device: self.device,
            tos: self.tos,
        }
    }
}

/// The routes of one prefix in the order they are tried: IPv4 by descending type of service, then
/// ascending priority; IPv6 by ascending metric. There is nearly always just one.
#[derive(Debug)]
pub struct Leaf<D: RouteDevice> {
    first: Alias<D>,
    /// A single word if empty.
    rest: Option<Box<Sequence<Alias<D>>>>,
}

impl<D: RouteDevice> Leaf<D> {
    /// Creates a leaf, or returns `None` if there is no route left.
    pub(super) fn new(mut routes: Vec<Alias<D>>) -> Option<Self> {
        if routes.len() == 1 {
            let first = routes.pop()?;
            return Some(Self { first, rest: None });
        }
        let mut routes = routes.into_iter();
        let first = routes.next()?;
        Some(Self {
            first,
            rest: Sequence::new(routes.collect()).map(Box::new),
        })
    }

    /// Returns the routes after the first one if there are so many that a copy of them is to be
    /// avoided, and if none of them may be part of a multipath route.
    pub(super) fn many(&self) -> Option<Many<'_, D>> {
        let rest = self.rest.as_deref()?;
        let fits = rest.len() >= MANY && !rest.has_ecmp() && !self.first.info.is_ecmp();
        fits.then_some(Many { leaf: self, rest })
    }
}

/// A leaf of at least this many routes besides the first is edited without a copy.
const MANY: usize = 16;

/// A [`Leaf`] of many routes.
pub(super) struct Many<'a, D: RouteDevice> {
    leaf: &'a Leaf<D>,
    rest: &'a Sequence<Alias<D>>,
}

impl<D: RouteDevice> Many<'_, D> {
    /// Returns the route at a position.
    pub(super) fn get(&self, at: usize) -> Option<&Alias<D>> {
        match at.checked_sub(1) {
            None => Some(&self.leaf.first),
            Some(at) => self.rest.get(at),
        }
    }

    /// Returns the position of the first route through a device that is `wanted`.
    pub(super) fn find(&self, device: u32, wanted: impl Fn(&Alias<D>) -> bool) -> Option<usize> {
        if self.leaf.first.device == device && wanted(&self.leaf.first) {
            return Some(0);
        }
        self.rest.find(device, wanted).map(|at| at + 1)
    }

    /// Returns the position behind the routes up to this metric.
    pub(super) fn behind(&self, metric: u32) -> usize {
        let below = |alias: Option<&Alias<D>>| {
            alias.is_some_and(|alias| alias.info.spec.priority <= metric)
        };
        // Nearly always at the end.
        let (mut low, mut high) = (0, self.rest.len() + 1);
        if below(self.get(high - 1)) {
            return high;
        }
        while low < high {
            let middle = low.midpoint(high);
            if below(self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the leaf with a route before that at `at`, which is not the first.
    pub(super) fn with(&self, at: usize, alias: Alias<D>) -> Leaf<D> {
        Leaf {
            first: self.leaf.first.clone(),
            rest: Some(Box::new(self.rest.with(at - 1, alias))),
        }
    }

    /// Returns the leaf without the route at `at`.
    pub(super) fn without(&self, at: usize) -> Leaf<D> {
        match (at.checked_sub(1), self.rest.get(0)) {
            (None, Some(second)) => Leaf {
                first: second.clone(),
                rest: self.rest.without(0).map(Box::new),
            },
            (at, _) => Leaf {
                first: self.leaf.first.clone(),
                rest: self.rest.without(at.unwrap_or(0)).map(Box::new),
            },
        }
    }
}

impl<D: RouteDevice> Leaf<D> {
    /// Returns the first route.
    #[inline]
    pub fn first(&self) -> &Alias<D> {
        &self.first
    }

    /// Returns all routes in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Alias<D>> + Clone {
        let rest = self.rest.as_deref().map(Sequence::iter).unwrap_or_default();
        std::iter::once(&self.first).chain(rest)
    }

    /// Returns the hop that every IPv4 packet to the prefix takes, whatever its type of service, if
    /// there is just one route and one hop, and the hop is alive.
    #[inline]
    pub fn only_hop(&self) -> Option<(&RouteInfo<D>, &NextHop<D>)> {
        let info = &*self.first.info;
        match &info.hops {
            Hops::One(hop)
                if self.rest.is_none()
                    && self.first.tos == 0
                    && info.kind == rta::rtn::UNICAST
                    && info.flags.load(Relaxed) & flag::DEAD == 0
                    && hop.flags() & (flag::DEAD | flag::LINKDOWN) == 0 =>
            {
                Some((info, hop))
            }
            _ => None,
        }
    }

    /// Returns the routes as a list to edit.
    pub(super) fn to_vec(&self) -> Vec<Alias<D>> {
        let routes: Vec<_> = self.iter().cloned().collect();
        super::sequence::steps(routes.len());
        routes
    }
}

/// A route with its location, as used in dumps and notifications.
#[derive(Debug)]
pub struct Route<K, D: RouteDevice> {
    /// The number of the table.
    pub table: u32,
    /// The prefix.
    pub dst: K,
    /// The prefix length in bits.
    pub dst_len: u8,
    /// The IPv4 type of service.
    pub tos: u8,
    /// The shared part. For IPv6 siblings, that of the route listed first.
    pub info: Arc<RouteInfo<D>>,
    /// IPv6: the other hops of a multipath route, in order.
    pub siblings: Vec<Arc<RouteInfo<D>>>,
}

impl<K: Copy, D: RouteDevice> Clone for Route<K, D> {
    fn clone(&self) -> Self {
        Self {
            info: self.info.clone(),
            siblings: self.siblings.clone(),
            ..*self
        }
    }
}

/// A route change to be announced to the listeners of the route group.
#[derive(Debug)]
pub struct Event<K, D: RouteDevice> {
    /// True if the route was added or changed (`RTM_NEWROUTE`), false if it was removed
    /// (`RTM_DELROUTE`).
    pub new: bool,
    /// The `nlmsg_flags` of the notification.
    pub flags: u16,
    /// The route.
    pub route: Route<K, D>,
}

/// A next hop as requested.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct HopConfig {
    /// `RTA_OIF` or `rtnh_ifindex`; 0 means that the device is looked up.
    pub oif: u32,
    /// `RTA_GATEWAY` or `RTA_VIA`.
    pub gateway: Option<IpAddr>,
    /// `RTNH_F_*` of the hop.
    pub flags: u8,
    /// `rtnh_hops + 1`. 0 counts as 1.
    pub weight: u32,
    /// `RTA_ENCAP`
    pub encap: Option<Arc<Encap>>,
}

/// A route as requested (`struct fib_config`, `struct fib6_config`).
#[derive(Debug, Clone)]
pub struct RouteConfig<K> {
    /// The number of the table; 0 means main.
    pub table: u32,
    /// `RTA_DST`
    pub dst: K,
    /// The prefix length in bits.
    pub dst_len: u8,
    /// The IPv4 type of service.
    pub tos: u8,
    /// `RTPROT_*`
    pub protocol: u8,
    /// `RT_SCOPE_*`. When deleting, nowhere matches any scope.
    pub scope: u8,
    /// `RTN_*`. When deleting, unspecified matches any type.
    pub kind: u8,
    /// `rtm_flags`
    pub flags: u32,
    /// `RTA_PRIORITY`
    pub priority: u32,
    /// `RTA_PREFSRC`
    pub prefsrc: Option<IpAddr>,
    /// The hop. For a multipath route, the first hop must match it.
    pub hop: HopConfig,
    /// `RTA_MULTIPATH`
    pub multipath: Option<Vec<HopConfig>>,
    /// `RTA_NH_ID`, or 0 if there is none.
    pub nhid: u32,
    /// `RTA_METRICS`
    pub metrics: Option<Box<Metrics>>,
    /// IPv6: `RTA_EXPIRES` as a time of the stack's clock in nanoseconds.
    pub expires: Option<u64>,
    /// IPv6: `RTA_PREF`
    pub pref: u8,
    /// IPv6: the route is created by address configuration.
    pub addrconf: bool,
    /// IPv6: accept the device even if it is down (`fc_ignore_dev_down`).
    pub ignore_down: bool,
    /// `nlmsg_flags`: create, exclusive, replace, append.
    pub nlflags: u16,
}

impl<K: Key> Default for RouteConfig<K> {
    fn default() -> Self {
        Self {
            table: 0,
            dst: K::ZERO,
            dst_len: 0,
            tos: 0,
            protocol: rta::prot::UNSPEC,
            scope: rta::scope::UNIVERSE,
            kind: rta::rtn::UNICAST,
            flags: 0,
            priority: 0,
            prefsrc: None,
            hop: HopConfig::default(),
            multipath: None,
            nhid: 0,
            metrics: None,
            expires: None,
            pref: 0,
            addrconf: false,
            ignore_down: false,
            nlflags: 0,
        }
    }
}

/// The index of the loopback device, which is also the incoming device of locally generated
/// packets.
pub(super) const LOOPBACK: u32 = 1;

/// Returns the routes of a leaf that form a multipath route with `info`, or `info` alone if it is
/// not part of one.
pub(super) fn siblings<'g, D: RouteDevice>(
    leaf: &'g Leaf<D>,
    info: &'g Arc<RouteInfo<D>>,
) -> impl Iterator<Item = &'g Arc<RouteInfo<D>>> + Clone + use<'g, D> {
    let ecmp = info.is_ecmp();
    let metric = info.spec.priority;
    let aliases: &'g Leaf<D> = leaf;
    aliases
        .iter()
        .map(|alias| &alias.info)
        .filter(move |other| {
            Arc::ptr_eq(other, info) || (ecmp && other.is_ecmp() && other.spec.priority == metric)
        })
}

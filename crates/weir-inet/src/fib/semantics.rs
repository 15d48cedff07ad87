// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Validation of route requests: devices, gateways, scopes, source addresses (`fib_create_info`,
//! `fib_check_nh` of `fib_semantics.c`; `ip6_route_info_create`, `fib6_nh_init`, `ip6_validate_gw`
//! of `net/ipv6/route.c`), with Linux's errno and text.
//!
//! A route's gateway must be reachable through a narrower scope than the route's own. This is
//! checked by a lookup in the current tables. Equal routes share one object ([`Infos`]).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};

use weir_netlink::Error;
use weir_netlink::{errno, rta};
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::AtomicBool;
use weir_sync::primitive::atomic::Ordering::{Acquire, Release};
use weir_sync::rare::Rare;
use weir_sync::rcu::Guard;
use weir_sync::seen::Seen;
use weir_sync::small_map::SmallTable;

use super::lookup::{Flow, LookupFlags};
use super::object::{self, Object};
use super::route::{
    HopConfig, Hops, LOOPBACK, NextHop, RouteConfig, RouteInfo, RouteSpec, error_of, flag, scope_of,
};
use super::table::delivers;
use super::table6::is_ready;
use super::{Address, Family, FibHost, RouteDevice};

/// The route infos of a family that are in use, by device and content.
///
/// An info lives as long as a prefix refers to it or a reader still holds it. The tables hold weak
/// references. A list is swept when an info is added to it, and the map when it has doubled in size. An event
/// of a device visits the infos of that device alone (`fib_info_devhash`), unless there are only a few at all.
#[derive(Debug)]
pub(super) struct Infos<D: RouteDevice> {
    known: Mutex<Known<D>, order::Routes>,
    /// The devices that an event would find an info of, since the tables were made. Changes under the lock.
    pub(super) seen: Seen,
    /// Some hop was marked dead or without a link.
    marked: AtomicBool,
    /// Some info had a preferred source.
    sources: AtomicBool,
}

/// The infos of all places.
#[derive(Debug)]
enum Known<D: RouteDevice> {
    /// Those of a namespace with a few devices are one list.
    Few(Same<D>),
    /// It stays so when few are left.
    Many(Box<ByPlace<D>>),
}

/// The infos by their place.
#[derive(Debug)]
struct ByPlace<D: RouteDevice> {
    /// By the index of the only hop's device.
    devices: SmallTable<u32, OfDevice<D>>,
    /// Those with several hops.
    several: Rare<OfDevice<D>>,
    /// Those by nexthop objects, which do not follow devices by themselves.
    objects: Rare<OfDevice<D>>,
    /// The number of devices at which to sweep next.
    limit: usize,
}

/// The place of an info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Device(u32),
    Several,
    Objects,
}

impl Place {
    /// Returns whether an event of a device visits the infos here.
    fn follows(self, ifindex: u32) -> bool {
        self == Self::Device(ifindex) || self == Self::Several
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
type Same<D> = Vec<Weak<RouteInfo<D>>>;

/// The number of devices in the map at which to sweep first.
const FIRST_SWEEP: usize = 4;

/// The number of infos up to which those of a device are a list, and those of all places as well.
const FEW: usize = 16;

/// The infos of one device.
#[derive(Debug)]
enum OfDevice<D: RouteDevice> {
    Few(Same<D>),
    /// By a hash of the content, and the number of entries at which to sweep next.
    Many(Box<(Map<u64, Same<D>>, usize)>),
}

impl<D: RouteDevice> Default for OfDevice<D> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// Removes the infos that nothing refers to. Returns whether any is left.
fn sweep<D: RouteDevice>(list: &mut Same<D>) -> bool {
    list.retain(|weak| weak.strong_count() != 0);
    !list.is_empty()
}

/// Removes the infos whose routes are all gone. Returns whether any is left.
fn forget_ended<D: RouteDevice>(list: &mut Same<D>) -> bool {
    list.retain(|weak| weak.upgrade().is_some_and(|info| !info.has_ended()));
    !list.is_empty()
}

/// Calls `visit` for each info that a table has a route of.
fn each_in<D: RouteDevice>(list: &Same<D>, visit: &mut impl FnMut(&Arc<RouteInfo<D>>)) {
    let used = list.iter().filter_map(Weak::upgrade);
    used.filter(|info| info.is_used())
        .for_each(|info| visit(&info));
}

impl<D: RouteDevice> OfDevice<D> {
    /// Returns the infos among which one with the same content is, if there is one.
    fn candidates(&self, info: &RouteInfo<D>) -> &[Weak<RouteInfo<D>>] {
        match self {
            Self::Few(list) => list,
            Self::Many(many) => many.0.get(&content_of(info)).map_or(&[], Vec::as_slice),
        }
    }

    fn add(&mut self, info: &Arc<RouteInfo<D>>) {
        let list = match self {
            Self::Many(many) => {
                let (by, limit) = &mut **many;
                let list = by.entry(content_of(info)).or_default();
                sweep(list);
                list.push(Arc::downgrade(info));
                if by.len() >= *limit {
                    by.retain(|_, list| sweep(list));
                    *limit = (by.len() * 2).max(64);
                }
                return;
            }
            Self::Few(list) => list,
        };
        sweep(list);
        if list.len() < FEW {
            // A device that is up has three IPv6 routes.
            list.reserve_exact(if list.is_empty() { 3 } else { 1 });
            list.push(Arc::downgrade(info));
            return;
        }
        let mut by = Map::<u64, Same<D>>::default();
        let known = std::mem::take(list).into_iter().filter_map(|w| w.upgrade());
        for known in known {
            let same = by.entry(content_of(&known)).or_default();
            same.push(Arc::downgrade(&known));
        }
        let same = by.entry(content_of(info)).or_default();
        same.push(Arc::downgrade(info));
        *self = Self::Many(Box::new((by, 64)));
    }

    /// Removes the infos whose routes are all gone. Returns whether any is left.
    fn forget_ended(&mut self) -> bool {
        match self {
            Self::Few(list) => forget_ended(list),
            Self::Many(many) => {
                many.0.retain(|_, list| forget_ended(list));
                !many.0.is_empty()
            }
        }
    }

    /// Removes the infos that nothing refers to. Returns whether any is left.
    fn sweep(&mut self) -> bool {
        match self {
            Self::Few(list) => sweep(list),
            Self::Many(many) => {
                many.0.retain(|_, list| sweep(list));
                !many.0.is_empty()
            }
        }
    }

    /// Calls `visit` for each info that a table has a route of.
    fn each(&self, visit: &mut impl FnMut(&Arc<RouteInfo<D>>)) {
        match self {
            Self::Few(list) => each_in(list, visit),
            Self::Many(many) => many.0.values().for_each(|list| each_in(list, visit)),
        }
    }
}

/// Returns a hash of what two infos must have in common to be shared.
fn content_of<D: RouteDevice>(info: &RouteInfo<D>) -> u64 {
    let mut hasher = DefaultHasher::new();
    info.spec.hash(&mut hasher);
    info.object().map(|object| object.id).hash(&mut hasher);
    info.hops.encaps().hash(&mut hasher);
    for hop in &info.hops {
        (hop.oif, hop.gateway, hop.weight).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the place of an info.
fn place_of<D: RouteDevice>(info: &RouteInfo<D>) -> Place {
    match (info.object(), &info.hops[..]) {
        (Some(_), _) => Place::Objects,
        (None, [hop]) => Place::Device(hop.oif),
        _ => Place::Several,
    }
}

impl<D: RouteDevice> Default for ByPlace<D> {
    fn default() -> Self {
        Self {
            devices: SmallTable::default(),
            several: Rare::default(),
            objects: Rare::default(),
            limit: FIRST_SWEEP,
        }
    }
}

impl<D: RouteDevice> ByPlace<D> {
    /// Returns the infos of a place, to add one.
    fn at(&mut self, place: Place) -> &mut OfDevice<D> {
        let device = match place {
            Place::Several => return self.several.change(),
            Place::Objects => return self.objects.change(),
            Place::Device(device) => device,
        };
        if self.devices.len() >= self.limit && !self.devices.contains_key(&device) {
            self.devices.retain(|_, infos| infos.sweep());
            self.limit = (self.devices.len() * 2).max(FIRST_SWEEP);
        }
        self.devices.or_default(device)
    }
}

impl<D: RouteDevice> Default for Known<D> {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<D: RouteDevice> Known<D> {
    /// Returns the infos among which one with the same place and content is, if there is one.
    fn candidates(&self, info: &RouteInfo<D>) -> &[Weak<RouteInfo<D>>] {
        let by = match self {
            Self::Few(list) => return list,
            Self::Many(by) => by,
        };
        let infos = match place_of(info) {
            Place::Several => by.several.get(),
            Place::Objects => by.objects.get(),
            Place::Device(device) => by.devices.get(&device),
        };
        infos.map_or(&[], |infos| infos.candidates(info))
    }

    fn add(&mut self, info: &Arc<RouteInfo<D>>) {
        let list = match self {
            Self::Many(by) => return by.at(place_of(info)).add(info),
            Self::Few(list) => list,
        };
        if list.len() == list.capacity() {
            sweep(list);
        }
        if list.len() < FEW {
            // A device that is up has two IPv6 routes or more.
            if list.len() == list.capacity() {
                list.reserve_exact(2);
            }
            list.push(Arc::downgrade(info));
            return;
        }
        let mut by = Box::<ByPlace<D>>::default();
        let known = std::mem::take(list).into_iter().filter_map(|w| w.upgrade());
        for known in known {
            by.at(place_of(&known)).add(&known);
        }
        by.at(place_of(info)).add(info);
        *self = Self::Many(by);
    }
}

impl<D: RouteDevice> Default for Infos<D> {
    fn default() -> Self {
        Self {
            known: Mutex::new(Known::default()),
            seen: Seen::default(),
            marked: AtomicBool::new(false),
            sources: AtomicBool::new(false),
        }
    }
}

impl<D: RouteDevice> Infos<D> {
    /// Notes that events of devices find an info of this place. Under the lock.
    fn see(&self, place: Place) {
        match place {
            Place::Device(device) => self.seen.note(device),
            Place::Several => self.seen.note_all(),
            Place::Objects => {}
        }
    }

    /// Returns the shared object for this content.
    pub(super) fn share(&self, info: RouteInfo<D>) -> Arc<RouteInfo<D>> {
        let place = place_of(&info);
        let mut known = self.known.lock();
        self.see(place);
        if info.spec.prefsrc.is_some() {
            self.sources.store(true, Release);
        }
        let is_marked = |hop: &NextHop<D>| hop.flags() & (flag::DEAD | flag::LINKDOWN) != 0;
        if info.hops.iter().any(is_marked) {
            self.mark();
        }
        // Don't share a dead one: it is about to be removed, even if readers still see it.
        let candidates = known.candidates(&info).iter().filter_map(Weak::upgrade);
        let twin = candidates.into_iter().find(|other| {
            let dead = other.hops.iter().any(|hop| hop.flags() & flag::DEAD != 0);
            other.is_used() && !dead && !other.is_dead() && other.same(&info)
        });
        if let Some(twin) = twin {
            return twin;
        }
        let info = Arc::new(info);
        known.add(&info);
        info
    }

    /// Notes that hops are marked dead or without a link, before they are.
    pub(super) fn mark(&self) {
        self.marked.store(true, Release);
    }

    /// Returns whether any hop was ever marked.
    pub(super) fn are_marked(&self) -> bool {
        self.marked.load(Acquire)
    }

    /// Returns whether any info ever had a preferred source.
    pub(super) fn prefer_sources(&self) -> bool {
        self.sources.load(Acquire)
    }

    /// Forgets all infos, when the tables go.
    pub(super) fn forget(&self) {
        let mut known = self.known.lock();
        *known = Known::default();
        self.seen.clear();
    }

    /// Calls `visit` for each info that a table has a route of, in arbitrary order.
    pub(super) fn each(&self, mut visit: impl FnMut(&Arc<RouteInfo<D>>)) {
        match &*self.known.lock() {
            Known::Few(list) => each_in(list, &mut visit),
            Known::Many(by) => {
                let others = by.several.get().into_iter().chain(by.objects.get());
                for infos in by.devices.values().chain(others) {
                    infos.each(&mut visit);
                }
            }
        }
    }

    /// Calls `visit` for each info by a nexthop object.
    fn each_by(&self, object: &Arc<Object<D>>, mut visit: impl FnMut(&Arc<RouteInfo<D>>)) {
        let mut those = |info: &Arc<RouteInfo<D>>| {
            if info.is_by(object) {
                visit(info);
            }
        };
        match &*self.known.lock() {
            Known::Few(list) => each_in(list, &mut those),
            Known::Many(by) => {
                if let Some(infos) = by.objects.get() {
                    infos.each(&mut those);
                }
            }
        }
    }

    /// Sees to it that an info of a new route is known: it may be one that was shared and then forgotten.
    pub(super) fn keep(&self, info: &Arc<RouteInfo<D>>) {
        if !info.has_returned() {
            return;
        }
        let mut known = self.known.lock();
        info.note_known();
        let mut candidates = known.candidates(info).iter();
        if !candidates.any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(info))) {
            known.add(info);
        }
    }

    /// Forgets the infos of a device whose routes are all gone. If there are only a few, it forgets those of all devices.
    pub(super) fn forget_ended(&self, ifindex: u32) {
        match &mut *self.known.lock() {
            Known::Few(list) => {
                forget_ended(list);
            }
            Known::Many(by) => {
                let infos = by.devices.get_mut(&ifindex);
                if infos.is_some_and(|infos| !infos.forget_ended()) {
                    by.devices.remove(&ifindex);
                }
            }
        }
    }

    /// Calls `visit` for each info with a hop through a device, and for those with several hops.
    pub(super) fn each_of(&self, ifindex: u32, mut visit: impl FnMut(&Arc<RouteInfo<D>>)) {
        if !self.seen.may_have(ifindex) {
            return;
        }
        match &*self.known.lock() {
            Known::Few(list) => each_in(list, &mut |info: &Arc<RouteInfo<D>>| {
                if place_of(info).follows(ifindex) {
                    visit(info);
                }
            }),
            Known::Many(by) => {
                let places = [by.devices.get(&ifindex), by.several.get()];
                for infos in places.into_iter().flatten() {
                    infos.each(&mut visit);
                }
            }
        }
    }
}

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

impl<D: RouteDevice> Family<u32, D> {
    /// Creates a valid IPv4 route for a request (`fib_create_info`).
    pub(super) fn create_info(
        &self,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        v6: Option<&Family<u128, D>>,
        guard: &Guard,
    ) -> Result<Arc<RouteInfo<D>>, Error> {
        if config.kind > rta::rtn::MAX {
            return Err(Error::new(errno::EINVAL));
        }
        if scope_of(config.kind) > config.scope {
            return invalid("Invalid scope");
        }
        if config.flags & u32::from(flag::DEAD | flag::LINKDOWN) != 0 {
            return invalid("Invalid rtm_flags - can not contain DEAD or LINKDOWN");
        }
        let object = match config.nhid {
            0 => None,
            id => Some(object::find(id, host)?),
        };
        let asked = match &object {
            Some(_) => Vec::new(),
            None => self.asked_hops(config)?,
        };
        let spec = RouteSpec {
            kind: config.kind,
            protocol: config.protocol,
            scope: config.scope,
            flags: config.flags,
            priority: config.priority,
            table: if config.table == 0 {
                rta::table::MAIN
            } else {
                config.table
            },
            prefsrc: config.prefsrc,
            metrics: config.metrics.clone().filter(|metrics| !metrics.is_empty()),
            expires: None,
            pref: 0,
            reject: false,
            addrconf: false,
        };
        if error_of(config.kind) != 0 {
            if config.hop.gateway.is_some() || config.hop.oif != 0 || config.multipath.is_some() {
                return invalid(
                    "Gateway, device and multipath can not be specified for this route type",
                );
            }
            if let Some(object) = object {
                return Ok(self.infos.share(RouteInfo::new(spec, object)));
            }
            let hop = NextHop::new(&self.domain, 0, None, None, 1, config.flags as u8);
            return Ok(self.infos.share(RouteInfo::new(spec, Hops::One(hop))));
        }
        if !delivers(config.kind) || config.kind == rta::rtn::UNSPEC {
            return invalid("Invalid route type");
        }
        if config.scope > rta::scope::HOST {
            return invalid("Invalid scope");
        }
        if let Some(object) = &object
            && let Some(state) = object.state(guard)
        {
            state.check4(config.scope)?;
        }
        let hops = if object.is_some() {
            Vec::new()
        } else if config.scope == rta::scope::HOST {
            vec![self.host_hop(&asked, host)?]
        } else {
            asked
                .iter()
                .map(|hop| self.check_hop(hop, config, host, v6, guard))
                .collect::<Result<_, _>>()?
        };
        if let Some(prefsrc) = config.prefsrc
            && !self.is_valid_prefsrc(config, prefsrc, guard)
        {
            return invalid("Invalid prefsrc address");
        }
        if let Some(object) = object {
            return Ok(self.infos.share(RouteInfo::new(spec, object)));
        }
        let encaps = asked.iter().map(|hop| hop.encap.clone());
        let hops = match asked.iter().any(|hop| hop.encap.is_some()) {
            true => Hops::with_encaps(hops, encaps.collect()),
            false => hops.into(),
        };
        let info = RouteInfo::new(spec, hops);
        info.rebalance();
        Ok(self.infos.share(info))
    }

    /// Returns the requested hops with flags and weights filled in (`fib_get_nhs`).
    fn asked_hops(&self, config: &RouteConfig<u32>) -> Result<Vec<HopConfig>, Error> {
        let Some(multipath) = &config.multipath else {
            let mut hop = config.hop.clone();
            hop.flags = config.flags as u8;
            hop.weight = 1;
            return Ok(vec![hop]);
        };
        let Some(first) = multipath.first() else {
            return Err(Error::new(errno::EINVAL));
        };
        if multipath
            .iter()
            .any(|hop| hop.flags & (flag::DEAD | flag::LINKDOWN) != 0)
        {
            return invalid("Invalid flags for nexthop - can not contain DEAD or LINKDOWN");
        }
        if config.hop.oif != 0 && first.oif != config.hop.oif {
            return invalid("Nexthop device index does not match RTA_OIF");
        }
        if config.hop.gateway.is_some() && first.gateway != config.hop.gateway {
            return invalid("Nexthop gateway does not match RTA_GATEWAY or RTA_VIA");
        }
        Ok(multipath.clone())
    }

    /// Creates the hop of a route to one of our own addresses.
    fn host_hop(&self, asked: &[HopConfig], host: &impl FibHost<D>) -> Result<NextHop<D>, Error> {
        let [hop] = asked else {
            return invalid("Route with host scope can not have multiple nexthops");
        };
        if hop.gateway.is_some() {
            return invalid("Route with host scope can not have a gateway");
        }
        let device = host
            .device(hop.oif)
            .filter(|device| host.is_here(device, false))
            .ok_or_else(|| Error::new(errno::ENODEV))?;
        Ok(NextHop::new(
            &self.domain,
            hop.oif,
            Some(device),
            None,
            hop.weight.max(1),
            hop.flags,
        ))
    }

    /// Creates a hop after looking up its device and scope (`fib_check_nh`).
    pub(super) fn check_hop(
        &self,
        hop: &HopConfig,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        v6: Option<&Family<u128, D>>,
        guard: &Guard,
    ) -> Result<NextHop<D>, Error> {
        let (device, scope) = match hop.gateway {
            None => Self::check_direct(hop, host)?,
            Some(IpAddr::V4(gateway)) => self.check_gateway(hop, gateway, config, host, guard)?,
            Some(IpAddr::V6(gateway)) => {
                let Some(v6) = v6 else {
                    return invalid("Nexthop has invalid gateway");
                };
                let given = match hop.oif {
                    0 => None,
                    oif => Some(host.device(oif).ok_or_else(|| Error::new(errno::ENODEV))?),
                };
                let device = v6.check_hop(hop, gateway, config.table, given, guard)?;
                is_ready(&device, false)?;
                (device, rta::scope::LINK)
            }
        };
        let carrier = if host.has_carrier(&device) {
            0
        } else {
            flag::LINKDOWN
        };
        let mut new = NextHop::new(
            &self.domain,
            device.ifindex(),
            Some(device),
            hop.gateway,
            hop.weight.max(1),
            hop.flags | carrier,
        );
        new.scope = scope;
        Ok(new)
    }

    /// Checks a hop without a gateway, whose destination is on the device's link
    /// (`fib_check_nh_nongw`).
    fn check_direct(hop: &HopConfig, host: &impl FibHost<D>) -> Result<(D, u8), Error> {
        if hop.flags & (flag::PERVASIVE | flag::ONLINK) != 0 {
            return invalid("Invalid flags for nexthop - PERVASIVE and ONLINK can not be set");
        }
        let device = host
            .device(hop.oif)
            .filter(|device| host.is_here(device, false))
            .ok_or_else(|| Error::new(errno::ENODEV))?;
        if !device.is_up() {
            return Err(Error::msg(errno::ENETDOWN, "Device for nexthop is not up"));
        }
        Ok((device, rta::scope::HOST))
    }

    /// Checks an IPv4 gateway (`fib_check_nh_v4_gw`).
    fn check_gateway(
        &self,
        hop: &HopConfig,
        gateway: Ipv4Addr,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        guard: &Guard,
    ) -> Result<(D, u8), Error> {
        if hop.flags & flag::ONLINK != 0 {
            if config.scope >= rta::scope::LINK {
                return invalid("Nexthop has invalid scope");
            }
            let device = host
                .device(hop.oif)
                .ok_or_else(|| Error::msg(errno::ENODEV, "Nexthop device required for onlink"))?;
            if !device.is_up() {
                return Err(Error::msg(errno::ENETDOWN, "Nexthop device is not up"));
            }
            if self.address_type_on(&device, gateway, guard) != rta::rtn::UNICAST {
                return invalid("Nexthop has invalid gateway");
            }
            return Ok((device, rta::scope::LINK));
        }
        let own_flow = Flow {
            dst: gateway.into(),
            oif: hop.oif,
            iif: LOOPBACK,
            scope: config.scope.saturating_add(1).max(rta::scope::LINK),
            ..Flow::default()
        };
        let flags = LookupFlags {
            ignore_linkstate: true,
            ..LookupFlags::default()
        };
        let own = match config.table {
            0 | rta::table::MAIN => None,
            id => self.table(id, guard),
        };
        let found = match own.map(|table| table.lookup(&own_flow, flags, guard)) {
            Some(Ok(found)) => Ok(found),
            _ => {
                let (l3_table, oif) = match hop.oif {
                    0 => (0, 0),
                    oif => host
                        .device(oif)
                        .map_or((0, oif), |device| super::l3_output(Some(&device))),
                };
                let flow = Flow {
                    l3_table,
                    oif,
                    ..own_flow
                };
                self.lookup(&flow, flags, guard)
            }
        };
        let found = found.map_err(|errno| Error::msg(errno, "Nexthop has invalid gateway"))?;
        let info = found.info;
        if info.spec.kind != rta::rtn::UNICAST && info.spec.kind != rta::rtn::LOCAL {
            return invalid("Nexthop has invalid gateway");
        }
        let Some(device) = found.hop.device.clone() else {
            return invalid("No egress device for nexthop gateway");
        };
        if !device.is_up() {
            return Err(Error::new(errno::ENETDOWN));
        }
        Ok((device, info.spec.scope))
    }

    /// Returns the type of an address as seen from the table of a device's own addresses
    /// (`inet_addr_type_dev_table`).
    pub fn address_type_on(&self, device: &D, address: Ipv4Addr, guard: &Guard) -> u8 {
        let table = match device.l3_table() {
            0 => rta::table::LOCAL,
            own => own,
        };
        self.address_type(address, table, guard)
    }

    /// Returns the type of an address in this namespace, as seen from one table
    /// (`inet_addr_type_table`): `RTN_LOCAL`, unicast, broadcast or multicast.
    pub fn address_type(&self, address: Ipv4Addr, table: u32, guard: &Guard) -> u8 {
        // The unspecified address, the limited broadcast and multicast are not in the tables.
        if address.is_unspecified() || address == Ipv4Addr::BROADCAST {
            return rta::rtn::BROADCAST;
        }
        if address.is_multicast() {
            return rta::rtn::MULTICAST;
        }
        let Some(table) = self.table(table, guard) else {
            return rta::rtn::BROADCAST;
        };
        let flow = Flow {
            dst: address.into(),
            ..Flow::default()
        };
        match table.lookup(&flow, LookupFlags::default(), guard) {
            Ok(found) => found.info.spec.kind,
            Err(_) => rta::rtn::UNICAST,
        }
    }

    /// Checks a preferred source address (`fib_valid_prefsrc`).
    fn is_valid_prefsrc(&self, config: &RouteConfig<u32>, prefsrc: IpAddr, guard: &Guard) -> bool {
        let IpAddr::V4(source) = prefsrc else {
            return false;
        };
        if config.kind == rta::rtn::LOCAL && config.dst != 0 && u32::from(source) == config.dst {
            return true;
        }
        let local = |table| self.address_type(source, table, guard) == rta::rtn::LOCAL;
        match config.table {
            0 | rta::table::MAIN | rta::table::LOCAL => local(rta::table::LOCAL),
            own => local(own) || local(rta::table::LOCAL),
        }
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Visits each shared route info.
    pub(super) fn each_info(&self, visit: impl FnMut(&Arc<RouteInfo<D>>)) {
        self.infos.each(visit);
    }

    /// Visits each shared route info by a nexthop object.
    pub(super) fn each_info_by(
        &self,
        object: &Arc<Object<D>>,
        visit: impl FnMut(&Arc<RouteInfo<D>>),
    ) {
        self.infos.each_by(object, visit);
    }

    /// Visits each shared route info with a hop through a device, and those with several hops, for events of
    /// the device to mark, clear and rebalance.
    pub(super) fn each_info_of(&self, ifindex: u32, visit: impl FnMut(&Arc<RouteInfo<D>>)) {
        self.infos.each_of(ifindex, visit);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6-specific route handling: validating, adding, replacing and deleting routes
//! (`ip6_route_add`, `ip6_route_multipath_add`, `ip6_route_del` of `net/ipv6/route.c`;
//! `fib6_add_rt2node` of `ip6_fib.c`).
//!
//! A multipath route is a set of *siblings*: routes of the same prefix and metric that each have a
//! gateway. Adding a gateway route next to one of the same metric makes them siblings. A replace
//! replaces one route, or all siblings.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::{errno, nlm, rta};
use weir_sync::rcu::Guard;

use super::lookup::{Flow, LookupFlags};
use super::object::{self, State};
use super::route::{
    Alias, Event, HopConfig, Hops, LOOPBACK, Many, NextHop, Route, RouteConfig, RouteInfo,
    RouteSpec, error_of, flag, siblings,
};
use super::sequence::Element;
use super::sync::Loss;
use super::table::Table;
use super::{Family, FibHost, RouteDevice};

/// The metric of routes whose request gives none (`IP6_RT_PRIO_USER`).
pub const METRIC_USER: u32 = 1024;

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

impl<D: RouteDevice> Family<u128, D> {
    /// Adds, replaces or appends a route as `config.nlflags` says. If part of a multipath route
    /// fails, the parts already added are removed again, as in Linux.
    ///
    /// # Errors
    /// Linux's errno and text.
    pub fn add(
        &self,
        config: &RouteConfig<u128>,
        host: &impl FibHost<D>,
        guard: &Guard,
        events: &mut Vec<Event<u128, D>>,
    ) -> Result<(), Error> {
        let done = match &config.multipath {
            None => {
                let info = self.create_info(config, &config.hop, host, guard)?;
                let info = self.infos.share(info);
                self.make_table(config.table, guard)
                    .insert(config, &info, config.nlflags, guard)
                    .map(|event| {
                        events.push(event);
                        self.infos.keep(&info);
                        self.swept(config, &info, host, events);
                    })
            }
            Some(hops) => self.add_multipath(config, hops, host, guard, events),
        };
        self.changed();
        done
    }

    /// Sweeps a new route if its device went down or away after it was checked, as for IPv4.
    fn swept(
        &self,
        config: &RouteConfig<u128>,
        info: &RouteInfo<D>,
        host: &impl FibHost<D>,
        events: &mut Vec<Event<u128, D>>,
    ) {
        if let Some(object) = info.object()
            && object.is_gone()
        {
            self.remove_by(object, events);
        }
        self.infos.seen.added();
        let needs = !config.ignore_down && !info.spec.reject;
        for hop in &info.hops {
            let Some(device) = &hop.device else { continue };
            if !host.is_here(device, true) {
                self.device_lost(hop.oif, Loss::Gone, events);
            } else if needs && !device.is_up() {
                self.device_lost(hop.oif, Loss::Down, events);
            }
        }
    }

    fn add_multipath(
        &self,
        config: &RouteConfig<u128>,
        hops: &[HopConfig],
        host: &impl FibHost<D>,
        guard: &Guard,
        events: &mut Vec<Event<u128, D>>,
    ) -> Result<(), Error> {
        let replace = config.nlflags & nlm::F_REPLACE != 0;
        let mut parts: Vec<Arc<RouteInfo<D>>> = Vec::new();
        for hop in hops {
            let hop = merged(config, hop);
            let info = self.create_info(config, &hop, host, guard)?;
            if !info.is_ecmp() {
                return invalid(
                    "Device only routes can not be added for IPv6 using the multipath API.",
                );
            }
            if parts.iter().any(|other| is_duplicate(other, &info)) {
                return Err(Error::new(errno::EEXIST));
            }
            parts.push(self.infos.share(info));
        }
        let Some(first) = parts.first() else {
            return invalid("Invalid nexthop configuration - no valid nexthops");
        };
        let table = self.make_table(config.table, guard);
        let append = config.nlflags & nlm::F_APPEND;
        let flags = append
            | if replace {
                nlm::F_REPLACE
            } else {
                nlm::F_CREATE
            };
        let tell = |from: &Arc<RouteInfo<D>>, events: &mut Vec<Event<u128, D>>| {
            let leaf = table
                .lpm
                .get(config.dst.masked6(config.dst_len), config.dst_len, guard);
            if let Some(leaf) = leaf {
                let route = table.route6(config.dst, config.dst_len, &leaf.to_vec(), from);
                events.push(Event {
                    new: true,
                    flags,
                    route,
                });
            }
        };
        let mut nlflags = config.nlflags;
        for (count, info) in parts.iter().enumerate() {
            if let Err(error) = table.insert(config, info, nlflags, guard) {
                if count == 0 {
                    return Err(error);
                }
                // Announce the routes as added, so that the announcement of their removal makes
                // sense.
                tell(first, events);
                for info in &parts[..count] {
                    let is = |other: &Arc<RouteInfo<D>>| Arc::ptr_eq(other, info);
                    let gone = table.take(config, is, false, false, guard);
                    events.extend(gone);
                }
                return Err(match replace {
                    true => Error::msg(
                        error.errno,
                        "ipv6: multipath route replace failed (check consistency of installed routes)",
                    ),
                    false => error,
                });
            }
            // The first part either made room or was rejected; the rest join it.
            nlflags = nlflags & !(nlm::F_EXCL | nlm::F_REPLACE) | nlm::F_CREATE;
        }
        let leaf = table
            .lpm
            .get(config.dst.masked6(config.dst_len), config.dst_len, guard);
        let oldest = leaf.and_then(|leaf| siblings(leaf, first).next());
        tell(
            if append != 0 {
                oldest.unwrap_or(first)
            } else {
                first
            },
            events,
        );
        for info in &parts {
            self.infos.keep(info);
            self.swept(config, info, host, events);
        }
        Ok(())
    }

    /// Removes routes: one hop if a gateway is given, all hops of the first matching route if not,
    /// or each listed hop of a multipath request.
    ///
    /// # Errors
    /// ESRCH if there is no such route or table.
    pub fn delete(
        &self,
        config: &RouteConfig<u128>,
        guard: &Guard,
        events: &mut Vec<Event<u128, D>>,
    ) -> Result<(), Error> {
        let table = self
            .table(config.table, guard)
            .ok_or_else(|| Error::msg(errno::ESRCH, "FIB table does not exist"))?;
        let one = |hop: &HopConfig, whole: bool, events: &mut Vec<Event<u128, D>>| {
            let matches = |info: &Arc<RouteInfo<D>>| {
                let found = info.hops.first();
                let by = info.object().map(|object| object.id);
                (config.nhid == 0 || by == Some(config.nhid))
                    && (config.priority == 0 || config.priority == info.spec.priority)
                    && (config.protocol == 0 || config.protocol == info.spec.protocol)
                    // Of a route by an object, device and gateway are not compared.
                    && (by.is_some()
                        || (hop.oif == 0 || found.is_some_and(|found| found.oif == hop.oif))
                            && (hop.gateway.is_none()
                                || found.is_some_and(|found| found.gateway == hop.gateway)))
            };
            let prefix = (config.dst, config.dst_len);
            if hop.oif != 0
                && let Some((event, _)) = table.take_from_many(prefix, hop.oif, matches, guard)
            {
                events.push(event);
                return Ok(());
            }
            let whole = whole && hop.gateway.is_none();
            // `fib6_null_entry`, a kernel route without a device, stands in for a missing default
            // route.
            let null = hop.oif == 0
                && hop.gateway.is_none()
                && config.priority == 0
                && [0, rta::prot::KERNEL].contains(&config.protocol);
            events.push(table.take(config, matches, whole, null, guard)?);
            Ok(())
        };
        let done = match &config.multipath {
            None => one(&config.hop, true, events),
            Some(hops) => {
                // Try each hop and return the last error.
                let mut done = Ok(());
                for hop in hops {
                    if let Err(error) = one(&merged(config, hop), false, events) {
                        done = Err(error);
                    }
                }
                done
            }
        };
        self.changed();
        done
    }

    /// Clears the preferred source of the device's routes that prefer a deleted address, without
    /// notifications (`rt6_remove_prefsrc`).
    pub fn address_lost(&self, address: Ipv6Addr, ifindex: u32) {
        let prefers = |info: &RouteInfo<D>| {
            info.spec.prefsrc == Some(IpAddr::V6(address))
                && info.hops.iter().any(|hop| hop.oif == ifindex)
        };
        let mut found = false;
        if self.infos.prefer_sources() {
            self.each_info_of(ifindex, |info| found |= prefers(info));
        }
        if !found {
            return;
        }
        let guard = self.domain.pin();
        for table in self.tables(&guard) {
            let mut prefixes = Vec::new();
            let _ = table.dump(None, &guard, |key, len, leaf| {
                if leaf.iter().any(|alias| prefers(&alias.info)) {
                    prefixes.push((key, len));
                }
                std::ops::ControlFlow::<()>::Continue(())
            });
            for (key, len) in prefixes {
                self.exchange(
                    table,
                    key,
                    len,
                    &prefers,
                    &|spec| spec.prefsrc = None,
                    &guard,
                );
            }
        }
        self.changed();
    }

    /// Returns the first route of a prefix that is `wanted`.
    pub fn route_of(
        &self,
        (table, dst, dst_len): (u32, u128, u8),
        wanted: impl Fn(&RouteInfo<D>) -> bool,
        guard: &Guard,
    ) -> Option<Arc<RouteInfo<D>>> {
        let leaf = self.table(table, guard)?.lpm.get(dst, dst_len, guard)?;
        let mut infos = leaf.iter().map(|alias| &alias.info);
        infos.find(|info| wanted(info)).cloned()
    }

    /// Changes the configured part of the routes of a prefix that are `wanted`, without
    /// notifications (`fib6_set_expires`, `fib6_metric_set`).
    pub fn amend(
        &self,
        (table, dst, dst_len): (u32, u128, u8),
        wanted: impl Fn(&RouteInfo<D>) -> bool,
        change: impl Fn(&mut RouteSpec),
    ) {
        let guard = self.domain.pin();
        if let Some(table) = self.table(table, &guard) {
            self.exchange(table, dst, dst_len, &wanted, &change, &guard);
        }
        self.changed();
    }

    /// Exchanges the infos of a prefix that are `wanted` for changed ones.
    fn exchange(
        &self,
        table: &Table<u128, D>,
        dst: u128,
        dst_len: u8,
        wanted: &dyn Fn(&RouteInfo<D>) -> bool,
        change: &dyn Fn(&mut RouteSpec),
        guard: &Guard,
    ) {
        let changed = |info: &Arc<RouteInfo<D>>| {
            let mut spec = RouteSpec::clone(&info.spec);
            change(&mut spec);
            (spec != *info.spec).then(|| {
                let hops = info.hops.copy(&self.domain);
                self.infos.share(RouteInfo::new(spec, hops))
            })
        };
        // Sharing takes a lock, so it comes before the table's.
        let leaf = table.lpm.get(dst, dst_len, guard);
        let infos = leaf
            .into_iter()
            .flat_map(|leaf| leaf.iter())
            .map(|alias| &alias.info);
        let pairs: Vec<_> = infos
            .filter(|info| wanted(info))
            .filter_map(|info| Some((info.clone(), changed(info)?)))
            .collect();
        if pairs.is_empty() {
            return;
        }
        let _ = table.edit(dst, dst_len, guard, |routes| {
            let mut exchanged = false;
            for alias in routes.iter_mut() {
                let pair = pairs.iter().find(|(old, _)| Arc::ptr_eq(old, &alias.info));
                if let Some((_, new)) = pair {
                    alias.info = new.clone();
                    exchanged = true;
                }
            }
            Ok((exchanged, ()))
        });
        for (_, new) in &pairs {
            self.infos.keep(new);
        }
    }

    /// Removes the routes of a prefix in all tables that are `unwanted`, and adds an event for each.
    pub fn purge(
        &self,
        (dst, dst_len): (u128, u8),
        unwanted: impl Fn(&RouteInfo<D>) -> bool,
        events: &mut Vec<Event<u128, D>>,
    ) {
        let guard = self.domain.pin();
        let config = RouteConfig {
            dst,
            dst_len,
            ..RouteConfig::default()
        };
        for table in self.tables(&guard) {
            while let Ok(event) = table.take(&config, |info| unwanted(info), false, false, &guard) {
                events.push(event);
            }
        }
        self.changed();
    }

    /// Creates a valid IPv6 route for a request and one of its hops (`ip6_route_info_create`).
    fn create_info(
        &self,
        config: &RouteConfig<u128>,
        hop: &HopConfig,
        host: &impl FibHost<D>,
        guard: &Guard,
    ) -> Result<RouteInfo<D>, Error> {
        if config.kind > rta::rtn::MAX {
            return invalid("Invalid route type");
        }
        if config.dst_len > 128 {
            return invalid("Invalid prefix length");
        }
        let kind = if config.kind == rta::rtn::UNSPEC {
            rta::rtn::UNICAST
        } else {
            config.kind
        };
        let ours = kind == rta::rtn::LOCAL || kind == rta::rtn::ANYCAST;
        let refuses = error_of(kind) != 0;
        let object = match config.nhid {
            0 => None,
            id => Some(object::find(id, host)?),
        };
        if let Some(object) = object {
            let state = object.state(guard);
            state.map_or(Ok(()), State::check6)?;
            let device = object
                .hops(guard)
                .first()
                .and_then(|hop| hop.device.as_ref());
            if let Some(IpAddr::V6(source)) = config.prefsrc
                && device.is_none_or(|device| !self.is_ours(source, device, guard))
            {
                return invalid("Invalid source address");
            }
            let spec = spec_of(config, kind, refuses);
            return Ok(RouteInfo::new(spec, object));
        }
        let no_device = || Error::new(errno::ENODEV);
        let given = match hop.oif {
            0 => None,
            oif => {
                let device = host.device(oif);
                let device = device.filter(|device| host.is_here(device, true));
                Some(device.ok_or_else(no_device)?)
            }
        };
        check_onlink(hop, given.as_ref())?;
        // Ordinary routes through the loopback device would loop, so they reject packets instead.
        let loops = given.as_ref().is_some_and(|device| device.is_loopback())
            && Ipv6Addr::from(config.dst) != Ipv6Addr::LOCALHOST
            && !ours;
        let reject = refuses || loops;
        let mut gateway = None;
        let mut flags = hop.flags & flag::ONLINK;
        let device = if reject {
            host.device(LOOPBACK).ok_or_else(no_device)?
        } else {
            let device = match hop.gateway {
                Some(IpAddr::V6(router)) => {
                    gateway = hop.gateway;
                    self.check_hop(hop, router, config.table, given, guard)?
                }
                _ => given.ok_or_else(no_device)?,
            };
            is_ready(&device, config.ignore_down)?;
            if !ours && !host.has_carrier(&device) {
                flags |= flag::LINKDOWN;
            }
            device
        };
        if let Some(IpAddr::V6(source)) = config.prefsrc
            && !self.is_ours(source, &device, guard)
        {
            return invalid("Invalid source address");
        }
        let spec = spec_of(config, kind, reject);
        let encap = hop.encap.clone();
        let hop = NextHop::new(
            &self.domain,
            device.ifindex(),
            Some(device),
            gateway,
            hop.weight.max(1),
            flags,
        );
        Ok(match encap {
            None => RouteInfo::new(spec, Hops::One(hop)),
            encap => RouteInfo::new(spec, Hops::with_encaps(vec![hop], vec![encap])),
        })
    }

    /// Creates the hop of a nexthop object (`fib6_nh_init`).
    pub(super) fn nexthop(
        &self,
        hop: &HopConfig,
        host: &impl FibHost<D>,
        guard: &Guard,
    ) -> Result<NextHop<D>, Error> {
        let no_device = || Error::new(errno::ENODEV);
        let given = host.device(hop.oif);
        let given = given.filter(|device| host.is_here(device, true));
        let given = given.ok_or_else(no_device)?;
        check_onlink(hop, Some(&given))?;
        let mut flags = hop.flags & flag::ONLINK;
        let device = match hop.gateway {
            Some(IpAddr::V6(router)) => {
                self.check_hop(hop, router, given.l3_table(), Some(given), guard)?
            }
            _ => given,
        };
        is_ready(&device, false)?;
        if !host.has_carrier(&device) {
            flags |= flag::LINKDOWN;
        }
        let (oif, gateway) = (device.ifindex(), hop.gateway);
        Ok(NextHop::new(
            &self.domain,
            oif,
            Some(device),
            gateway,
            1,
            flags,
        ))
    }

    /// Returns whether an address is one of ours: a link-local one on this device, any other on any
    /// device (`ipv6_chk_addr`). Every address has a kernel route in the local table.
    pub fn is_ours(&self, address: Ipv6Addr, device: &D, guard: &Guard) -> bool {
        let own = match device.l3_table() {
            0 => rta::table::LOCAL,
            own => own,
        };
        let local = self.table(own, guard);
        let leaf = local.and_then(|table| table.lpm.get(address.into(), 128, guard));
        let scoped = address.is_unicast_link_local();
        leaf.into_iter().flat_map(|leaf| leaf.iter()).any(|alias| {
            let by = |hop: &NextHop<D>| !scoped || hop.oif == device.ifindex();
            alias.info.is_own_address() && alias.info.hops.iter().any(by)
        })
    }

    /// Finds the device of a hop through a gateway (`ip6_validate_gw`). `given` is the requested
    /// device.
    pub(super) fn check_hop(
        &self,
        hop: &HopConfig,
        gateway: Ipv6Addr,
        table: u32,
        given: Option<D>,
        guard: &Guard,
    ) -> Result<D, Error> {
        check_onlink(hop, given.as_ref())?;
        let named = given.is_some();
        if given
            .as_ref()
            .is_some_and(|device| self.is_ours(gateway, device, guard))
        {
            return invalid("Gateway can not be a local address");
        }
        let mut device = given;
        if !gateway.is_unicast_link_local() {
            if gateway.is_multicast() || gateway.is_unspecified() {
                return invalid("Invalid gateway address");
            }
            let found = self.resolve_gateway(table, hop, gateway, device.as_ref(), guard)?;
            device = device.or(found);
        }
        let Some(device) = device else {
            return invalid("Egress device not specified");
        };
        if device.is_loopback() {
            return invalid("Egress device can not be loopback device for this route");
        }
        if !named && self.is_ours(gateway, &device, guard) {
            return invalid("Gateway can not be a local address");
        }
        Ok(device)
    }

    /// Finds the device through which a gateway is reached (`ip6_route_check_nh` and its onlink
    /// variant). Returns `None` if the gateway is accepted without a lookup.
    fn resolve_gateway(
        &self,
        table: u32,
        hop: &HopConfig,
        gateway: Ipv6Addr,
        device: Option<&D>,
        guard: &Guard,
    ) -> Result<Option<D>, Error> {
        let flow = Flow {
            dst: u128::from(gateway),
            oif: hop.oif,
            ..Flow::default()
        };
        let flags = LookupFlags {
            ignore_linkstate: true,
            ..LookupFlags::default()
        };
        let by = |found: &NextHop<D>| device.is_none_or(|device| device.ifindex() == found.oif);
        if hop.flags & flag::ONLINK != 0 {
            let main = self
                .table(rta::table::MAIN, guard)
                .ok_or_else(|| Error::new(errno::EINVAL))?;
            if let Ok(found) = main.lookup(&flow, flags, guard)
                && found.dst_len != 0
                && (found.info.spec.kind != rta::rtn::UNICAST || !by(found.hop))
            {
                return invalid("Nexthop has invalid gateway or device mismatch");
            }
            return Ok(None);
        }
        let strict = LookupFlags {
            iface: true,
            ..flags
        };
        let direct = |found: &NextHop<D>| found.gateway.is_none() && by(found);
        if let Some(table) = self.table(table, guard)
            && let Ok(found) = table.lookup(&flow, strict, guard)
            && direct(found.hop)
        {
            return Ok(found.hop.device.clone());
        }
        let strict = LookupFlags {
            iface: true,
            ..LookupFlags::default()
        };
        let (l3_table, oif) = super::l3_output(device);
        let flow = Flow {
            l3_table,
            oif,
            ..flow
        };
        match self.lookup(&flow, strict, guard) {
            Ok(found) if direct(found.hop) => Ok(found.hop.device.clone()),
            _ => Err(Error::new(errno::EHOSTUNREACH)),
        }
    }
}

/// Returns the configured part of a route.
fn spec_of(config: &RouteConfig<u128>, kind: u8, reject: bool) -> RouteSpec {
    let protocol = match config.protocol {
        rta::prot::UNSPEC => rta::prot::BOOT,
        protocol => protocol,
    };
    RouteSpec {
        kind,
        protocol,
        scope: rta::scope::UNIVERSE,
        flags: 0,
        priority: config.priority,
        table: if config.table == 0 {
            rta::table::MAIN
        } else {
            config.table
        },
        prefsrc: config.prefsrc,
        metrics: config.metrics.clone().filter(|metrics| !metrics.is_empty()),
        // A route that expires at the start of the clock has expired a nanosecond later as well.
        expires: config
            .expires
            .map(|at| at.try_into().unwrap_or(NonZeroU64::MIN)),
        pref: if reject { 0 } else { config.pref },
        reject,
        addrconf: config.addrconf,
    }
}

/// Merges a hop of a multipath request with the attributes of the request as a whole.
fn merged(config: &RouteConfig<u128>, hop: &HopConfig) -> HopConfig {
    HopConfig {
        oif: if hop.oif == 0 {
            config.hop.oif
        } else {
            hop.oif
        },
        gateway: hop.gateway.or(config.hop.gateway),
        flags: hop.flags | config.hop.flags,
        weight: hop.weight,
        encap: hop.encap.clone().or_else(|| config.hop.encap.clone()),
    }
}

/// Checks the requirements of an onlink gateway (the start of `fib6_nh_init`).
fn check_onlink<D: RouteDevice>(hop: &HopConfig, device: Option<&D>) -> Result<(), Error> {
    if hop.flags & flag::ONLINK == 0 {
        return Ok(());
    }
    match device {
        None => Err(Error::msg(
            errno::ENODEV,
            "Nexthop device required for onlink",
        )),
        Some(device) if !device.is_up() => {
            Err(Error::msg(errno::ENETDOWN, "Nexthop device is not up"))
        }
        Some(_) => Ok(()),
    }
}

/// Checks whether IPv6 works on a device (the end of `fib6_nh_init`).
pub(super) fn is_ready<D: RouteDevice>(device: &D, ignore_down: bool) -> Result<(), Error> {
    if device.ipv6_disabled() {
        return Err(Error::msg(
            errno::EACCES,
            "IPv6 is disabled on nexthop device",
        ));
    }
    if !device.is_up() && !ignore_down {
        return Err(Error::msg(errno::ENETDOWN, "Nexthop device is not up"));
    }
    Ok(())
}

/// Returns whether two routes of one prefix and metric have the same hop (`rt6_duplicate_nexthop`).
fn is_duplicate<D: RouteDevice>(a: &RouteInfo<D>, b: &RouteInfo<D>) -> bool {
    if a.object().is_some() || b.object().is_some() {
        return a.object().map(Arc::as_ptr) == b.object().map(Arc::as_ptr);
    }
    match (a.hops.first(), b.hops.first()) {
        (Some(x), Some(y)) => {
            x.oif == y.oif && x.gateway == y.gateway && a.encap_of(x) == b.encap_of(y)
        }
        _ => false,
    }
}

trait Masked {
    fn masked6(self, len: u8) -> Self;
}
impl Masked for u128 {
    fn masked6(self, len: u8) -> Self {
        super::lpm::Key::masked(self, len.min(128))
    }
}

impl<D: RouteDevice> Table<u128, D> {
    /// Returns a route with its siblings in circular order, starting after it.
    pub(super) fn route6(
        &self,
        dst: u128,
        dst_len: u8,
        routes: &[Alias<D>],
        info: &Arc<RouteInfo<D>>,
    ) -> Route<u128, D> {
        let is_sibling = |other: &&Alias<D>| {
            Arc::ptr_eq(&other.info, info)
                || (other.info.is_ecmp() && other.info.spec.priority == info.spec.priority)
        };
        // A prefix may have a route by each of many devices.
        let candidates = if info.is_ecmp() { routes } else { &[] };
        let mut all: Vec<_> = candidates
            .iter()
            .filter(is_sibling)
            .map(|alias| alias.info.clone())
            .collect();
        if let Some(at) = all.iter().position(|other| Arc::ptr_eq(other, info)) {
            all.rotate_left(at);
            all.remove(0);
        }
        Route {
            table: self.id,
            dst: dst.masked6(dst_len),
            dst_len,
            tos: 0,
            info: info.clone(),
            siblings: all,
        }
    }

    /// Inserts a route among those of its prefix (`fib6_add_rt2node`).
    pub(super) fn insert(
        &self,
        config: &RouteConfig<u128>,
        info: &Arc<RouteInfo<D>>,
        nlflags: u16,
        guard: &Guard,
    ) -> Result<Event<u128, D>, Error> {
        let wants = |flag: u16| nlflags & flag != 0;
        let (create, replace) = (wants(nlm::F_CREATE), wants(nlm::F_REPLACE));
        let metric = info.spec.priority;
        let ecmp = info.is_ecmp();
        let mut flags = nlm::F_EXCL | (nlflags & nlm::F_APPEND);
        if !replace
            && !ecmp
            && let Some(done) = self.insert_among_many(config, info, nlflags, guard)
        {
            return done;
        }
        self.edit(config.dst, config.dst_len, guard, |routes| {
            // The default prefix always has a node.
            if routes.is_empty() && config.dst_len != 0 && replace && !create {
                return Err(Error::msg(
                    errno::ENOENT,
                    "Can not replace route - no match found",
                ));
            }
            let same = |alias: &Alias<D>| alias.info.spec.priority == metric;
            let first = routes.iter().position(same);
            if first.is_some() {
                if wants(nlm::F_EXCL) {
                    return Err(Error::new(errno::EEXIST));
                }
                flags &= !nlm::F_EXCL;
            }
            let alias = Alias::new(info.clone(), 0);
            if replace {
                // Prefer a route that agrees with the new one in whether it may have siblings.
                let like = routes
                    .iter()
                    .position(|old| same(old) && old.info.is_ecmp() == ecmp);
                if let Some(at) = like.or(first) {
                    let old = std::mem::replace(&mut routes[at], alias);
                    if old.info.is_ecmp() {
                        // All siblings of the replaced route are removed.
                        routes.retain(|other| {
                            !same(other) || !other.info.is_ecmp() || Arc::ptr_eq(&other.info, info)
                        });
                    }
                    let route = self.route6(config.dst, config.dst_len, routes, info);
                    return Ok((
                        true,
                        Ok(Event {
                            new: true,
                            flags: nlm::F_REPLACE,
                            route,
                        }),
                    ));
                }
                if !create {
                    return Err(Error::new(errno::ENOENT));
                }
            } else if let Some(twin) = routes
                .iter_mut()
                .find(|old| same(old) && is_duplicate(&old.info, info))
            {
                // A route with a lifetime takes over the new lifetime, but the request still fails.
                let renews = twin.info.spec.expires.is_some();
                if renews {
                    *twin = alias;
                }
                return Ok((renews, Err(Error::new(errno::EEXIST))));
            }
            let at = routes.partition_point(|other| other.info.spec.priority <= metric);
            routes.insert(at, alias);
            flags |= nlm::F_CREATE;
            let route = self.route6(config.dst, config.dst_len, routes, info);
            Ok((
                true,
                Ok(Event {
                    new: true,
                    flags,
                    route,
                }),
            ))
        })?
    }

    /// Inserts a route, which is not part of a multipath route, among many. Returns `None` if there
    /// are few, or if the whole list has to be edited.
    fn insert_among_many(
        &self,
        config: &RouteConfig<u128>,
        info: &Arc<RouteInfo<D>>,
        nlflags: u16,
        guard: &Guard,
    ) -> Option<Result<Event<u128, D>, Error>> {
        let metric = info.spec.priority;
        let device = info.hops.first().map_or(0, |hop| hop.oif);
        self.edit_many(config.dst, config.dst_len, guard, |many| {
            let mut flags = nlm::F_EXCL | nlm::F_CREATE | (nlflags & nlm::F_APPEND);
            let at = many.behind(metric);
            let last = many.get(at.checked_sub(1)?)?;
            if last.info.spec.priority == metric {
                if nlflags & nlm::F_EXCL != 0 {
                    return Some((None, Err(Error::new(errno::EEXIST))));
                }
                flags &= !nlm::F_EXCL;
            }
            let twin = many.find(device, |old| {
                old.info.spec.priority == metric && is_duplicate(&old.info, info)
            });
            if let Some(twin) = twin.and_then(|at| many.get(at)) {
                let renews = twin.info.spec.expires.is_some();
                return (!renews).then(|| (None, Err(Error::new(errno::EEXIST))));
            }
            let leaf = many.with(at, Alias::new(info.clone(), 0));
            info.entered();
            self.note(config.dst, config.dst_len, device, true);
            let route = self.route6(config.dst, config.dst_len, &[], info);
            let new = true;
            Some((Some(leaf), Ok(Event { new, flags, route })))
        })
    }

    /// Removes the first matching route through a device from among many. Returns it, and whether another route of
    /// the prefix through the device is left; or `None` if there are few, or if none matches.
    pub(super) fn take_from_many(
        &self,
        (dst, dst_len): (u128, u8),
        device: u32,
        matches: impl Fn(&Arc<RouteInfo<D>>) -> bool,
        guard: &Guard,
    ) -> Option<(Event<u128, D>, bool)> {
        let by = |device| move |alias: &Alias<D>| alias.device() == device;
        self.edit_many(dst, dst_len, guard, |many| {
            let at = many.find(device, |alias| matches(&alias.info))?;
            let info = many.get(at)?.info.clone();
            info.left();
            let route = self.route6(dst, dst_len, &[], &info);
            let (new, flags) = (false, 0);
            let leaf = many.without(at);
            let others = |many: Many<'_, D>| many.find(device, |_| true).is_some();
            let left = leaf
                .many()
                .map_or_else(|| leaf.iter().any(by(device)), others);
            if !left {
                self.note(dst, dst_len, device, false);
            }
            Some((Some(leaf), (Event { new, flags, route }, left)))
        })
    }

    /// Removes the first matching route from its prefix. With `whole`, its siblings are removed too
    /// and announced together with it.
    fn take(
        &self,
        config: &RouteConfig<u128>,
        matches: impl Fn(&Arc<RouteInfo<D>>) -> bool,
        whole: bool,
        null: bool,
        guard: &Guard,
    ) -> Result<Event<u128, D>, Error> {
        self.edit(config.dst, config.dst_len, guard, |routes| {
            let Some(at) = routes.iter().position(|alias| matches(&alias.info)) else {
                let null = null && routes.is_empty() && config.dst_len == 0;
                return Err(Error::new(if null { errno::ENOENT } else { errno::ESRCH }));
            };
            let info = routes[at].info.clone();
            let mut route = self.route6(config.dst, config.dst_len, routes, &info);
            if !whole {
                route.siblings.clear();
            }
            routes.retain(|alias| {
                let goes = |other: &Arc<RouteInfo<D>>| Arc::ptr_eq(other, &alias.info);
                !goes(&info) && !route.siblings.iter().any(goes)
            });
            let event = Event {
                new: false,
                flags: 0,
                route,
            };
            Ok((true, event))
        })
    }
}

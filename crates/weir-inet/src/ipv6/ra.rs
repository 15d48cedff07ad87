// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Router advertisements received (RFC 4861, 6.3.4, RFC 4191; `ndisc_router_discovery`,
//! `rt6_route_rcv`).
//!
//! A device accepts them if `accept_ra` is 1 and it does not forward, or if `accept_ra` is 2. It takes
//! over:
//!
//! | contents | setting | effect |
//! |---|---|---|
//! | router lifetime, preference | `accept_ra_defrtr`, `accept_ra_rtr_pref` | a default route (`proto ra`, metric `ra_defrtr_metric`) |
//! | hop limit | `accept_ra_min_hop_limit` | `hop_limit`, and that of the default route |
//! | reachable and retransmission time | | the device's neighbour settings |
//! | route information | `accept_ra_rt_info_min_plen`, `accept_ra_rt_info_max_plen` | a route (`proto ra`) |
//! | prefixes | `accept_ra_pinfo`, `autoconf` | a prefix route, an address ([`super::address`]) |
//! | MTU | `accept_ra_mtu` | `mtu`, and that of the default route |
//! | options for resolvers | | a message to listeners (`RTM_NEWNDUSEROPT`) |
//!
//! Lifetimes below `accept_ra_min_lft` are ignored, and routers that are this host itself unless
//! `accept_ra_from_local` is set. Tunnels of ISATAP say which senders are hosts, which are ignored, and which are no default
//! routers, of which only routes count.
//!
//! Not implemented: `IFLA_INET6_FLAGS` (managed and other configuration) and its notification,
//! `IFLA_INET6_RA_MTU`.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::{nlm, rta};
use weir_packet::header::ndisc::{
    ND_OPT_MTU, ND_OPT_PREFIX_INFO, ND_OPT_SOURCE_LL_ADDR, NdOption, RouterAdvertisement, options,
};
use weir_packet::{DropReason, NodeType};

use super::address::auto::Prefix;
use super::nd;
use crate::addresses::{Changes, FOREVER};
use crate::clock::SECOND;
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::address::table_of;
use crate::fib::host::WithRoutes;
use crate::fib::route::{Event, HopConfig, Metrics, Route, RouteConfig, RouteInfo, RouteSpec};
use crate::fib::table6::METRIC_USER;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::neigh::{Update, nud};
use crate::settings::{IPV6_MIN_MTU, Ipv6Conf, Neigh, WithSettings};

/// Option: route information (RFC 4191).
const ND_OPT_ROUTE_INFO: u8 = 24;
/// Options that are passed to listeners: prefixes, RDNSS, DNSSL, captive portal, PREF64
/// (`ndisc_is_useropt`).
const USER_OPTIONS: [u8; 5] = [ND_OPT_PREFIX_INFO, 25, 31, 37, 38];
/// The reserved router preference (`ICMPV6_ROUTER_PREF_INVALID`).
const PREF_INVALID: u8 = 2;
/// `ICMPV6_ROUTER_PREF_MEDIUM`
const PREF_MEDIUM: u8 = 0;
/// Seconds after which Linux's timers no longer count (`MAX_SCHEDULE_TIMEOUT / HZ`).
const MOST_SECONDS: u32 = i32::MAX as u32;

/// Returns whether a device accepts router advertisements (`ipv6_accept_ra`).
pub fn accepts(device: &Device) -> bool {
    let conf = &device.conf().ipv6;
    match conf.get(Ipv6Conf::AcceptRa) {
        2 => true,
        accepts => accepts != 0 && !conf.on(Ipv6Conf::Forwarding),
    }
}

/// A route that a router advertises.
struct Advertised {
    prefix: Ipv6Addr,
    len: u8,
    metric: u32,
    pref: u8,
    /// The lifetime in seconds.
    lifetime: u32,
}

/// Handles an advertisement from `src`.
///
/// # Errors
/// The reason for dropping it, if it is malformed.
pub(super) fn received(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    src: Ipv6Addr,
    message: &[u8],
    sender: NodeType,
) -> Result<(), DropReason> {
    let header = RouterAdvertisement::new(message).ok_or(DropReason::PKT_TOO_SMALL)?;
    let rest = message.get(RouterAdvertisement::LEN..).unwrap_or_default();
    if !src.is_unicast_link_local() {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let options: Result<Vec<NdOption<'_>>, _> = options(rest).collect();
    let options = options.map_err(|_| DropReason::IPV6_NDISC_BAD_OPTIONS)?;
    if sender == NodeType::Host {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let is_interior = sender == NodeType::NoDefault;
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let conf = &device.conf().ipv6;
    let accepted = accepts(device);
    let own = device.ipv6().addresses.get(src, cx.guard);
    let is_foreign = conf.on(Ipv6Conf::AcceptRaFromLocal) || own.is_none_or(|a| a.is_tentative());
    if accepted && !is_interior {
        device.ipv6().stop_solicitations(&site);
        let lifetime = u32::from(header.lifetime());
        if conf.on(Ipv6Conf::AcceptRaDefrtr) && is_foreign && !is_short(&site, lifetime) {
            let pref = header.flags() >> 3 & 3;
            if !default_router(&site, src, pref, lifetime) {
                return Ok(());
            }
            take_hop_limit(&site, src, header.hop_limit());
        }
        take_times(device, &header);
    }
    let source = options.iter().find(|o| o.kind == ND_OPT_SOURCE_LL_ADDR);
    if source.is_some_and(|option| option.body.len() != 6) {
        // It belongs to a different link layer.
        return Err(DropReason::NOT_SPECIFIED);
    }
    let router = Update {
        mac: source.and_then(NdOption::mac),
        state: nud::STALE,
        replace: true,
        weak: true,
        admin: false,
        router: Some(true),
        learned_elsewhere: None,
    };
    nd::update(cx, device, src, true, router);
    if !accepted {
        return Ok(());
    }
    let of_kind = |kind: u8| options.iter().filter(move |option| option.kind == kind);
    if is_foreign && conf.on(Ipv6Conf::AcceptRaRtrPref) {
        for option in of_kind(ND_OPT_ROUTE_INFO) {
            if !is_interior || option.body.first() != Some(&0) {
                route_information(&site, src, option.body);
            }
        }
    }
    if is_interior {
        return Ok(());
    }
    if conf.on(Ipv6Conf::AcceptRaPinfo) {
        for prefix in of_kind(ND_OPT_PREFIX_INFO).filter_map(|o| Prefix::read(o.body)) {
            device.ipv6().addresses.prefix_received(&site, &prefix);
        }
    }
    if conf.on(Ipv6Conf::AcceptRaMtu)
        && let Some(option) = of_kind(ND_OPT_MTU).next()
        && let Some(mtu) = word(option.body, 2)
    {
        take_mtu(&site, src, mtu);
    }
    for option in &options {
        if USER_OPTIONS.contains(&option.kind) {
            crate::listen::option6(&site, option, src);
        }
    }
    Ok(())
}

/// Returns the big-endian word that begins at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Returns whether a lifetime is too short to be accepted.
pub(super) fn is_short(site: &Site<'_>, lifetime: u32) -> bool {
    let least = site.device.conf().ipv6.get(Ipv6Conf::AcceptRaMinLft).max(0) as u32;
    lifetime != 0 && lifetime < least
}

/// Returns the time when a lifetime in seconds ends, or `None` if it does not.
pub(super) fn end_of(site: &Site<'_>, lifetime: u32) -> Option<u64> {
    let end = site.stack.clock.now() + u64::from(lifetime) * SECOND;
    (lifetime != FOREVER).then_some(end)
}

/// Returns whether a route was learned from a router's advertisement on a device (`RTF_ADDRCONF` and
/// a gateway).
fn is_by(info: &RouteInfo<Arc<Device>>, ifindex: u32, router: Ipv6Addr) -> bool {
    let through = |hop: &crate::fib::route::NextHop<Arc<Device>>| {
        hop.oif == ifindex && hop.gateway == Some(IpAddr::V6(router))
    };
    info.spec.addrconf && info.hops.iter().any(through)
}

/// Returns the table of advertised routes: the VRF's, or the main one.
fn table(site: &Site<'_>) -> u32 {
    table_of(site.device, rta::table::MAIN)
}

/// Changes the default route through a router in place.
fn amend_default(site: &Site<'_>, router: Ipv6Addr, change: impl Fn(&mut RouteSpec)) {
    let ifindex = site.device.ifindex();
    let by = |info: &RouteInfo<Arc<Device>>| is_by(info, ifindex, router);
    let place = (table(site), 0, 0);
    site.ns.fib().v6.amend(place, by, change);
}

/// Adds, renews or deletes the default route through a router (`rt6_add_dflt_router`). Returns false if
/// there cannot be one.
fn default_router(site: &Site<'_>, router: Ipv6Addr, pref: u8, lifetime: u32) -> bool {
    let conf = &site.device.conf().ipv6;
    let pref = match pref {
        pref if pref != PREF_INVALID && conf.on(Ipv6Conf::AcceptRaRtrPref) => pref,
        _ => PREF_MEDIUM,
    };
    let route = Advertised {
        prefix: Ipv6Addr::UNSPECIFIED,
        len: 0,
        metric: conf.get(Ipv6Conf::RaDefrtrMetric) as u32,
        pref,
        lifetime,
    };
    advertised(site, router, &route, true)
}

/// Adds, renews or deletes a route through a router. Of a default router, a route of another metric is
/// replaced, and listeners hear of another preference. Returns false if the route cannot be added.
fn advertised(site: &Site<'_>, router: Ipv6Addr, route: &Advertised, default: bool) -> bool {
    let fib = &site.ns.fib().v6;
    let ifindex = site.device.ifindex();
    let by = |info: &RouteInfo<Arc<Device>>| is_by(info, ifindex, router);
    let prefix = u128::from(route.prefix);
    let place = (table(site), prefix, route.len);
    let mut config = RouteConfig {
        table: place.0,
        dst: prefix,
        dst_len: route.len,
        protocol: rta::prot::RA,
        kind: rta::rtn::UNICAST,
        priority: route.metric,
        hop: HopConfig {
            oif: ifindex,
            gateway: Some(IpAddr::V6(router)),
            ..HopConfig::default()
        },
        nlflags: nlm::F_CREATE,
        pref: route.pref,
        addrconf: true,
        ..RouteConfig::default()
    };
    let mut events = Vec::new();
    let mut present = fib.route_of(place, by, site.guard);
    if let Some(old) = &present
        && (route.lifetime == 0 || default && old.spec.priority != route.metric)
    {
        config.priority = old.spec.priority;
        let _ = fib.delete(&config, site.guard, &mut events);
        config.priority = route.metric;
        present = None;
    }
    let mut added = true;
    if route.lifetime != 0 {
        // Linux sets the lifetime after it has told of the route.
        match present {
            None => {
                config.expires = default.then(|| site.stack.clock.now());
                let done = fib.add(&config, &site.host(), site.guard, &mut events);
                added = done.is_ok();
            }
            Some(old) if default && old.spec.pref != route.pref => {
                fib.amend(place, by, |spec| spec.pref = route.pref);
                let info = fib.route_of(place, by, site.guard);
                events.extend(info.map(|info| renewed(place, info)));
            }
            Some(_) => {}
        }
        let expires = end_of(site, route.lifetime);
        fib.amend(place, by, |spec| {
            spec.expires = expires.and_then(std::num::NonZero::new);
            spec.pref = route.pref;
        });
        if let Some(expires) = expires {
            super::expire_routes_at(site.stack, site.ns, expires);
        }
    }
    site.tell_routes(&events);
    added
}

/// Returns the announcement of a changed route.
fn renewed(
    (table, dst, dst_len): (u32, u128, u8),
    info: Arc<RouteInfo<Arc<Device>>>,
) -> Event<u128, Arc<Device>> {
    let route = Route {
        table,
        dst,
        dst_len,
        tos: 0,
        info,
        siblings: Vec::new(),
    };
    Event {
        new: true,
        flags: nlm::F_REPLACE,
        route,
    }
}

/// Takes over the hop limit of a default router.
fn take_hop_limit(site: &Site<'_>, router: Ipv6Addr, limit: u8) {
    let conf = &site.device.conf().ipv6;
    let least = conf.get(Ipv6Conf::AcceptRaMinHopLimit);
    if limit != 0 && least <= i32::from(limit) {
        conf.set(Ipv6Conf::HopLimit, i32::from(limit));
        let limit = u32::from(limit);
        amend_default(site, router, |spec| {
            set_metric(spec, rta::ax::HOPLIMIT, limit)
        });
    }
}

fn set_metric(spec: &mut RouteSpec, metric: u16, value: u32) {
    let metrics = spec.metrics.get_or_insert_with(Box::<Metrics>::default);
    if let Some(slot) = metrics.values.get_mut(usize::from(metric) - 1) {
        *slot = value;
    }
}

/// Takes over the times of neighbours.
fn take_times(device: &Device, header: &RouterAdvertisement<'_>) {
    let conf = &device.conf().neigh6;
    let retransmit = header.retransmit();
    if retransmit != 0 && retransmit / 1000 < MOST_SECONDS {
        let retransmit = retransmit.clamp(10, i32::MAX as u32);
        conf.set(Neigh::RetransTime, retransmit as i32);
    }
    let reachable = header.reachable();
    if reachable != 0 && reachable / 1000 < MOST_SECONDS / 3 {
        let reachable = reachable.clamp(100, i32::MAX as u32 / 3) as i32;
        if reachable != conf.get(Neigh::BaseReachableTime) {
            conf.set(Neigh::BaseReachableTime, reachable);
            conf.set(Neigh::GcStaleTime, 3 * reachable);
        }
    }
}

/// Takes over the MTU of the link.
fn take_mtu(site: &Site<'_>, router: Ipv6Addr, mtu: u32) {
    let conf = &site.device.conf().ipv6;
    if (IPV6_MIN_MTU..=site.device.mtu()).contains(&mtu) && conf.get(Ipv6Conf::Mtu) != mtu as i32 {
        conf.set(Ipv6Conf::Mtu, mtu as i32);
        amend_default(site, router, |spec| set_metric(spec, rta::ax::MTU, mtu));
    }
}

/// Handles a route information option (`rt6_route_rcv`).
fn route_information(site: &Site<'_>, router: Ipv6Addr, body: &[u8]) {
    let conf = &site.device.conf().ipv6;
    let (Some(&len), Some(&flags), Some(lifetime)) = (body.first(), body.get(1), word(body, 2))
    else {
        return;
    };
    let bytes = body.get(6..).unwrap_or_default();
    let pref = flags >> 3 & 3;
    let allowed =
        conf.get(Ipv6Conf::AcceptRaRtInfoMinPlen)..=conf.get(Ipv6Conf::AcceptRaRtInfoMaxPlen);
    if !allowed.contains(&i32::from(len))
        || (len == 0 && !conf.on(Ipv6Conf::AcceptRaDefrtr))
        || is_short(site, lifetime)
        || bytes.len() > 16
        || len > 128
        || usize::from(len).div_ceil(64) * 8 > bytes.len()
        || pref == PREF_INVALID
    {
        return;
    }
    let mut prefix = [0; 16];
    for (to, from) in prefix.iter_mut().zip(bytes) {
        *to = *from;
    }
    let route = Advertised {
        prefix: super::address::masked(prefix.into(), len),
        len,
        metric: METRIC_USER,
        pref,
        lifetime,
    };
    advertised(site, router, &route, false);
}

/// Forgets the default routers of a namespace, which now forwards itself, except those of devices that
/// accept advertisements nevertheless (`rt6_purge_dflt_routers`).
pub(super) fn purge_routers(site: &Site<'_>) {
    forget(site, |info| {
        let always = |hop: &crate::fib::route::NextHop<Arc<Device>>| {
            let conf = hop.device.as_ref().map(|device| &device.conf().ipv6);
            conf.is_some_and(|conf| conf.get(Ipv6Conf::AcceptRa) == 2)
        };
        !info.hops.iter().any(always)
    });
}

/// Forgets a default router, which no longer is one (`rt6_clean_tohost`).
pub(super) fn router_ended(site: &Site<'_>, router: Ipv6Addr) {
    let ifindex = site.device.ifindex();
    forget(site, |info| is_by(info, ifindex, router));
}

/// Deletes default routes that routers advertised.
fn forget(site: &Site<'_>, which: impl Fn(&RouteInfo<Arc<Device>>) -> bool) {
    let mut events = Vec::new();
    site.ns.fib().v6.purge(
        (0, 0),
        |info| info.spec.addrconf && info.spec.protocol == rta::prot::RA && which(info),
        &mut events,
    );
    site.tell_routes(&events);
}

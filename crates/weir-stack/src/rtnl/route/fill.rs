// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a route's attributes in Linux's order (`fib_dump_info`, `rt6_fill_node`,
//! `fib_nexthop_info`, `rtnetlink_put_metrics`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::rta::{self, ax, encap as kinds, encap_ip};
use weir_netlink::{Fixed, RtMsg, RtNextHop, RtaCacheInfo, Writer, af, rtm};
use weir_packet::tunnel::Ends;
use weir_sync::rcu::Guard;

use crate::clock::{SECOND, USER_HZ};
use crate::device::Device;
use crate::fib::encap::Encap;
use crate::fib::exception::Exception;
use crate::fib::object::State;
use crate::fib::route::{Metrics, NextHop, Route, RouteInfo, RouteSpec, flag};
use crate::fib::{Address, RouteDevice};
use crate::namespace::Namespace;
use crate::stack::Stack;

/// `RTCF_*`: the properties of a route, in the upper half of the answer's flags.
pub mod rtcf {
    /// `RTCF_NOTIFY`
    pub const NOTIFY: u32 = 0x0001_0000;
    /// `RTCF_REDIRECTED`
    pub const REDIRECTED: u32 = 0x0004_0000;
    /// `RTCF_DOREDIRECT`
    pub const DOREDIRECT: u32 = 0x0100_0000;
    /// `RTCF_BROADCAST`
    pub const BROADCAST: u32 = 0x1000_0000;
    /// `RTCF_MULTICAST`
    pub const MULTICAST: u32 = 0x2000_0000;
    /// `RTCF_LOCAL`
    pub const LOCAL: u32 = 0x8000_0000;
}

/// Returns the table number as it appears in the one-byte header field.
pub fn table_byte(table: u32) -> u8 {
    u8::try_from(table).unwrap_or(rta::table::COMPAT as u8)
}

/// What a route looks like depends on.
#[derive(Debug, Clone, Copy)]
pub struct Look<'g> {
    /// The stack clock's time, for lifetimes.
    pub now: u64,
    /// `net.ipv4.nexthop_compat_mode`: routes by nexthop objects show the hops, too.
    pub compat: bool,
    /// Keeps the hops of nexthop objects alive.
    pub guard: &'g Guard,
}

impl<'g> Look<'g> {
    /// Returns how routes of a namespace look now.
    pub fn new(stack: &Stack, ns: &Namespace, guard: &'g Guard) -> Self {
        Self {
            now: stack.clock.now(),
            compat: crate::fib::host::compat(ns),
            guard,
        }
    }
}

/// Writes a route.
pub fn route<K: Address, D: RouteDevice>(out: &mut Writer, route: &Route<K, D>, look: Look<'_>) {
    let shown = flag::DEAD | flag::LINKDOWN | flag::ONLINK;
    if K::IPV6 {
        route6(out, route, look, shown);
    } else {
        route4(out, route, look, shown);
    }
}

/// Writes a removed route. Linux sends the notification before the event that removed the route has
/// marked its hops.
pub fn gone<K: Address, D: RouteDevice>(out: &mut Writer, route: &Route<K, D>, look: Look<'_>) {
    if K::IPV6 {
        route6(out, route, look, flag::ONLINK);
    } else {
        route4(out, route, look, flag::ONLINK);
    }
}

fn header<K: Address, D: RouteDevice>(route: &Route<K, D>, look: Look<'_>) -> RtMsg {
    let spec = &route.info.spec;
    let state = route
        .info
        .object()
        .and_then(|object| object.state(look.guard));
    let drops = state.is_some_and(State::is_blackhole);
    RtMsg {
        family: K::FAMILY,
        dst_len: route.dst_len,
        tos: route.tos,
        table: table_byte(route.table),
        protocol: spec.protocol,
        scope: spec.scope,
        ty: if drops {
            rta::rtn::BLACKHOLE
        } else {
            spec.kind
        },
        ..RtMsg::default()
    }
}

/// Writes an IPv4 route (`fib_dump_info`).
fn route4<K: Address, D: RouteDevice>(
    out: &mut Writer,
    route: &Route<K, D>,
    look: Look<'_>,
    shown: u8,
) {
    let info = &route.info;
    let hops = info.paths(look.guard);
    let hidden = info.object().is_some() && !look.compat;
    let flags = match hops {
        _ if hidden => info.flags(),
        [hop] => u32::from(flags_of(hop, false) & shown),
        _ => info.flags(),
    };
    out.fixed(&RtMsg {
        flags,
        ..header(route, look)
    });
    out.put_u32(rta::TABLE, route.table);
    if route.dst_len != 0 {
        out.put_ip(rta::DST, route.dst.ip());
    }
    if info.spec.priority != 0 {
        out.put_u32(rta::PRIORITY, info.spec.priority);
    }
    metrics(out, info.spec.metrics.as_deref());
    if let Some(source) = info.spec.prefsrc {
        out.put_ip(rta::PREFSRC, source);
    }
    if let Some(object) = info.object() {
        out.put_u32(rta::NH_ID, object.id);
    }
    match hops {
        _ if hidden => {}
        [hop] => {
            gateway(out, hop, false);
            if hop.device.is_some() {
                out.put_u32(rta::OIF, hop.oif);
            }
            if let Some(own) = info.encap_of(hop) {
                encap(out, own);
            }
        }
        hops => multipath(out, hops.iter().map(|hop| (info, hop)), false),
    }
}

/// Writes an IPv6 route of a table (`rt6_fill_node`).
fn route6<K: Address, D: RouteDevice>(
    out: &mut Writer,
    route: &Route<K, D>,
    look: Look<'_>,
    shown: u8,
) {
    let info = &route.info;
    let object = info.object();
    let hidden = object.is_some() && !look.compat;
    // A group is shown as one even with a single member.
    let state = object.and_then(|object| object.state(look.guard));
    let group = state.is_some_and(State::is_group);
    let several = hidden || group || !route.siblings.is_empty();
    let single = info.paths(look.guard).first().filter(|_| !several);
    let flags = single.map_or(0, |hop| u32::from(flags_of(hop, true) & shown));
    out.fixed(&RtMsg {
        flags,
        ..header(route, look)
    });
    out.put_u32(rta::TABLE, route.table);
    if route.dst_len != 0 {
        out.put_ip(rta::DST, route.dst.ip());
    }
    if let Some(source) = info.spec.prefsrc {
        out.put_ip(rta::PREFSRC, source);
    }
    metrics(out, info.spec.metrics.as_deref());
    out.put_u32(rta::PRIORITY, info.spec.priority);
    if let Some(object) = object {
        out.put_u32(rta::NH_ID, object.id);
    }
    match single {
        _ if hidden => {}
        Some(hop) => {
            gateway(out, hop, true);
            out.put_u32(rta::OIF, hop.oif);
            if let Some(own) = info.encap_of(hop) {
                encap(out, own);
            }
        }
        None => {
            let all = std::iter::once(info).chain(&route.siblings);
            let hops =
                all.flat_map(|info| info.paths(look.guard).iter().map(move |hop| (info, hop)));
            multipath(out, hops, true);
        }
    }
    let expires = info
        .spec
        .expires
        .map_or(0, |expires| ticks(expires.get(), look.now));
    tail6(out, expires, 0, info.spec.pref);
}

/// Writes an exception of an IPv4 route (`fib_dump_info_fnhe`, `rt_fill_info`).
pub fn exception4(
    out: &mut Writer,
    exception: &Exception<u32, Arc<Device>>,
    info: &RouteInfo<Arc<Device>>,
    look: Look<'_>,
) {
    out.fixed(&RtMsg {
        family: af::INET,
        dst_len: 32,
        table: table_byte(exception.table),
        ty: info.spec.kind,
        flags: rtcf::REDIRECTED | rtm::f::CLONED,
        ..RtMsg::default()
    });
    out.put_u32(rta::TABLE, exception.table);
    out.put_ip(rta::DST, exception.dst.ip());
    out.put_u32(rta::OIF, exception.oif());
    if let Some(gateway) = exception.gateway {
        put_gateway(out, gateway, false);
    }
    metrics(out, info.spec.metrics.as_deref());
    let expires = exception.expires;
    let cache = RtaCacheInfo {
        expires: expires.map_or(0, |expires| ticks(expires, look.now)),
        ..RtaCacheInfo::default()
    };
    out.put_fixed(rta::CACHEINFO, &cache);
}

/// Writes an exception of an IPv6 route (`rt6_nh_dump_exceptions`, `rt6_fill_node`).
pub fn exception6(
    out: &mut Writer,
    exception: &Exception<u128, Arc<Device>>,
    info: &RouteInfo<Arc<Device>>,
    look: Look<'_>,
) {
    let spec = &info.spec;
    out.fixed(&RtMsg {
        family: af::INET6,
        dst_len: 128,
        table: table_byte(exception.table),
        protocol: spec.protocol,
        scope: spec.scope,
        ty: spec.kind,
        flags: rtm::f::CLONED,
        ..RtMsg::default()
    });
    out.put_u32(rta::TABLE, exception.table);
    out.put_ip(rta::DST, exception.dst.ip());
    if let Some(source) = spec.prefsrc {
        out.put_ip(rta::PREFSRC, source);
    }
    metrics6(out, spec, Some(exception));
    out.put_u32(rta::PRIORITY, spec.priority);
    if let Some(gateway) = exception.gateway {
        put_gateway(out, gateway, true);
    }
    out.put_u32(rta::OIF, exception.oif());
    let expires = exception.expires;
    let expires = expires.map_or(0, |expires| ticks(expires, look.now));
    tail6(out, expires, 0, spec.pref);
}

/// Writes the metrics of an IPv6 route with an exception, whose path MTU is one of them.
pub fn metrics6(
    out: &mut Writer,
    spec: &RouteSpec,
    exception: Option<&Exception<u128, Arc<Device>>>,
) {
    let own = spec.metrics.as_deref();
    match exception.and_then(|one| one.mtu) {
        Some(mtu) => {
            let mut all = own.cloned().unwrap_or_default();
            all.set(ax::MTU, mtu);
            metrics(out, Some(&all));
        }
        None => metrics(out, own),
    }
}

/// Returns a lifetime in hundredths of a second, negative if it has expired.
pub fn ticks(expires: u64, now: u64) -> i32 {
    let left = |later: u64, earlier: u64| {
        i32::try_from((later - earlier) / (SECOND / USER_HZ)).unwrap_or(i32::MAX)
    };
    if expires >= now {
        left(expires, now)
    } else {
        -left(now, expires)
    }
}

/// Writes the attributes that end every IPv6 route.
pub fn tail6(out: &mut Writer, expires: i32, error: u32, pref: u8) {
    out.put_fixed(
        rta::CACHEINFO,
        &RtaCacheInfo {
            expires,
            error,
            ..RtaCacheInfo::default()
        },
    );
    out.put_u8(rta::PREF, pref);
}

/// Returns the reported flags of a hop. A hop whose link is down and is therefore ignored is
/// reported as dead.
fn flags_of<D: RouteDevice>(hop: &NextHop<D>, ipv6: bool) -> u8 {
    let found = hop.flags();
    let mut flags = found & (flag::DEAD | flag::LINKDOWN | flag::ONLINK);
    let ignored = || {
        hop.device
            .as_ref()
            .is_some_and(|device| device.ignores_linkdown(ipv6))
    };
    if found & flag::LINKDOWN != 0 && ignored() {
        flags |= flag::DEAD;
    }
    flags
}

/// Writes `RTA_GATEWAY`, or `RTA_VIA` for a gateway of the other family.
fn gateway<D: RouteDevice>(out: &mut Writer, hop: &NextHop<D>, ipv6: bool) {
    if let Some(address) = hop.gateway {
        put_gateway(out, address, ipv6);
    }
}

/// Writes a gateway.
pub fn put_gateway(out: &mut Writer, address: IpAddr, ipv6: bool) {
    match address {
        IpAddr::V6(address) if !ipv6 => {
            let mut via = [0; 18];
            via[..2].copy_from_slice(&u16::from(af::INET6).to_ne_bytes());
            via[2..].copy_from_slice(&address.octets());
            out.put(rta::VIA, &via);
        }
        address => out.put_ip(rta::GATEWAY, address),
    }
}

/// Writes an encapsulation (`lwtunnel_fill_encap`, `ip_tun_fill_encap_info`,
/// `mpls_fill_encap_info`).
pub fn encap(out: &mut Writer, encap: &Encap) {
    let (tunnel, id, flags) = match encap {
        Encap::Mpls { labels, ttl } => return super::labels::fill_encap(out, labels, *ttl),
        Encap::Tunnel { tunnel, id, flags } => (&**tunnel, *id, *flags),
    };
    let nest = out.nest_noflag(rta::ENCAP);
    out.put_64bit(encap_ip::ID, &id.to_be_bytes(), encap_ip::PAD);
    out.put_ip(encap_ip::DST, tunnel.ends.dst());
    out.put_ip(encap_ip::SRC, tunnel.ends.src());
    out.put_u8(encap_ip::TOS, tunnel.tos);
    out.put_u8(encap_ip::TTL, tunnel.ttl);
    out.put_be16(encap_ip::FLAGS, flags);
    out.end(nest);
    let ty = match tunnel.ends {
        Ends::V4(..) => kinds::IP,
        Ends::V6(_) => kinds::IP6,
    };
    out.put_u16(rta::ENCAP_TYPE, ty);
}

fn multipath<'a, D: RouteDevice>(
    out: &mut Writer,
    hops: impl Iterator<Item = (&'a Arc<RouteInfo<D>>, &'a NextHop<D>)>,
    ipv6: bool,
) {
    let nest = out.nest_noflag(rta::MULTIPATH);
    for (info, hop) in hops {
        let mut own = Writer::new();
        gateway(&mut own, hop, ipv6);
        if let Some(put) = info.encap_of(hop) {
            encap(&mut own, put);
        }
        out.fixed(&RtNextHop {
            len: (RtNextHop::LEN + own.len()) as u16,
            flags: flags_of(hop, ipv6),
            hops: (hop.weight.max(1) - 1) as u8,
            ifindex: hop.oif as i32,
        });
        out.raw(own.bytes());
        out.pad();
    }
    out.end(nest);
}

/// Writes the metrics (`rtnetlink_put_metrics`).
pub fn metrics(out: &mut Writer, metrics: Option<&Metrics>) {
    let Some(metrics) = metrics.filter(|metrics| !metrics.is_empty()) else {
        return;
    };
    let nest = out.nest_noflag(rta::METRICS);
    for ty in 1..=ax::MAX {
        match (ty, metrics.get(ty)) {
            (ax::CC_ALGO, _) => {
                if let Some(name) = &metrics.congestion {
                    out.put_str(ty, name);
                }
            }
            (_, 0) => {}
            (_, value) => out.put_u32(ty, value),
        }
    }
    out.end(nest);
}

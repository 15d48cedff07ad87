// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ip route get`: routes one packet (`inet_rtm_getroute`, `ip_route_output_key_hash_rcu`,
//! `ip_route_input_slow`; `inet6_rtm_getroute`).
//!
//! `RTM_F_NOTIFY` is answered, but changes of the route are not announced, as in Linux.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::rta::{self, rtn, scope};
use weir_netlink::{Error, RtMsg, RtaCacheInfo, Strictness, Table, af, errno, rtm};
use weir_sync::rcu::Guard;

use super::fill::{self, rtcf};
use super::parse;
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::fib::lookup::{Flow, Found, HashPolicy, LookupFlags, SourceCheck};
use crate::fib::route::Route;
use crate::fib::{Address, RouteDevice};
use crate::ipv4::group::is_local;
use crate::ipv4::select::select_address;
use crate::namespace::Namespace;
use crate::rtnl::Ctl;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::sysctl::{Ipv4, Ipv4Conf, Ipv6};

const LOOPBACK: u32 = 1;

/// Serves a request for one route.
pub fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    match ctl.message.family() {
        Some(af::INET) => get4(ctl),
        Some(af::INET6) => get6(ctl),
        Some(af::MPLS) => super::mpls::get(ctl),
        Some(af::IPMR) => super::multicast::get4(ctl),
        Some(af::IP6MR) => super::multicast::get6(ctl),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

/// A parsed request.
struct Query<'a, K> {
    header: RtMsg,
    attrs: Table<'a>,
    flow: Flow<K>,
    /// `RTA_IIF`
    iif: u32,
}

/// Validates a request and parses the part that both families share (`inet_rtm_valid_getroute_req`,
/// `inet6_rtm_valid_getroute_req`). `words` holds the family's error texts.
fn query<'a, K: Address>(ctl: &Ctl<'a>, words: &Words) -> Result<Query<'a, K>, Error> {
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    let message = ctl.message;
    let Ok(header) = message.fixed::<RtMsg>() else {
        return invalid(words.header);
    };
    let policy = if K::IPV6 {
        &parse::POLICY6
    } else {
        &parse::POLICY4
    };
    if ctl.strict {
        let whole = |len: u8| len == 0 || len == K::BITS;
        let named = header.table | header.protocol | header.scope | header.ty;
        if !whole(header.src_len) || !whole(header.dst_len) || named != 0 {
            return invalid(words.values);
        }
        if header.flags & !words.allowed != 0 {
            return invalid(words.flags);
        }
    }
    let strictness = if ctl.strict {
        Strictness::DeprecatedStrict
    } else {
        Strictness::Liberal
    };
    let (header, attrs) = message.parse::<RtMsg>(policy, strictness)?;
    if ctl.strict {
        if (attrs.has(rta::SRC) && header.src_len == 0)
            || (attrs.has(rta::DST) && header.dst_len == 0)
        {
            return invalid(words.lengths);
        }
        let known = [
            rta::IIF,
            rta::OIF,
            rta::SRC,
            rta::DST,
            rta::UID,
            rta::MARK,
            rta::IP_PROTO,
            rta::SPORT,
            rta::DPORT,
        ];
        if attrs.types().any(|ty| !known.contains(&ty)) {
            return invalid(words.attribute);
        }
    }
    let address = |ty| -> Result<K, Error> {
        match attrs.get(ty) {
            None => Ok(K::ZERO),
            Some(attr) => {
                let ip = if K::IPV6 {
                    attr.ipv6().ok().map(IpAddr::from)
                } else {
                    attr.ipv4().ok().map(IpAddr::from)
                };
                ip.and_then(K::from_ip)
                    .ok_or_else(|| Error::new(errno::EINVAL))
            }
        }
    };
    let proto = attrs.u8(rta::IP_PROTO)?.unwrap_or(0);
    let icmp = if K::IPV6 { 58 } else { 1 };
    if attrs.has(rta::IP_PROTO) && ![6, 17, icmp].contains(&proto) {
        return invalid("Unsupported ip proto");
    }
    let iif = attrs.u32(rta::IIF)?.unwrap_or(0);
    let flow = Flow {
        dst: address(rta::DST)?,
        src: address(rta::SRC)?,
        iif: LOOPBACK,
        oif: attrs.u32(rta::OIF)?.unwrap_or(0),
        mark: attrs.u32(rta::MARK)?.unwrap_or(0),
        tos: header.tos & 0x1c,
        proto,
        sport: attrs.be16(rta::SPORT)?.unwrap_or(0),
        dport: attrs.be16(rta::DPORT)?.unwrap_or(0),
        // A received packet has no sending user.
        uid: match iif {
            0 => attrs.u32(rta::UID)?.unwrap_or(0),
            _ => 0,
        },
        now: ctl.stack.clock.now(),
        ..Flow::default()
    };
    Ok(Query {
        header,
        attrs,
        flow,
        iif,
    })
}

/// The error texts and flags of a family.
struct Words {
    header: &'static str,
    values: &'static str,
    flags: &'static str,
    lengths: &'static str,
    attribute: &'static str,
    allowed: u32,
}

const WORDS4: Words = Words {
    header: "ipv4: Invalid header for route get request",
    values: "ipv4: Invalid values in header for route get request",
    flags: "ipv4: Unsupported rtm_flags for route get request",
    lengths: "ipv4: rtm_src_len and rtm_dst_len must be 32 for IPv4",
    attribute: "ipv4: Unsupported attribute in route get request",
    allowed: rtm::f::NOTIFY | rtm::f::LOOKUP_TABLE | rtm::f::FIB_MATCH,
};

const WORDS6: Words = Words {
    header: "ipv6: Invalid header for get route request",
    values: "ipv6: Invalid values in header for get route request",
    flags: "ipv6: Invalid flags for get route request",
    lengths: "ipv6: rtm_src_len and rtm_dst_len must be 128 for IPv6",
    attribute: "ipv6: Unsupported attribute in get route request",
    allowed: rtm::f::FIB_MATCH,
};

type Route4<'g> = Found<'g, u32, Arc<Device>>;

/// The route of an IPv4 packet.
struct Way<'g> {
    found: Option<Route4<'g>>,
    kind: u8,
    flags: u32,
    /// The index of the outgoing device.
    oif: u32,
    src: u32,
}

fn fail<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

fn get4(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let query = query::<u32>(ctl, &WORDS4)?;
    let (ns, guard) = (ctl.ns.clone(), ctl.guard);
    let asked = query.flow;
    let way = if query.iif != 0 {
        let device = ns
            .device(query.iif, guard)
            .ok_or_else(|| Error::new(errno::ENODEV))?;
        input4(
            &ns,
            device,
            Flow {
                iif: query.iif,
                oif: 0,
                ..asked
            },
            guard,
        )?
    } else {
        output4(&ns, asked, guard)?
    };
    let table = match (query.header.flags & rtm::f::LOOKUP_TABLE != 0, way.found) {
        (false, _) => rta::table::MAIN,
        (true, Some(found)) => found.table,
        (true, None) => 0,
    };
    if query.header.flags & rtm::f::FIB_MATCH != 0 {
        let found = way.found.ok_or_else(|| Error::new(errno::EHOSTUNREACH))?;
        let route = Route {
            table: found.table,
            dst: found.dst,
            dst_len: found.dst_len,
            tos: found.tos,
            info: found.info.clone(),
            siblings: Vec::new(),
        };
        let look = fill::Look::new(ctl.stack, &ns, guard);
        return ctl.reply(rtm::NEWROUTE, 0, |out| fill::route(out, &route, look));
    }
    let uid = match query.attrs.u32(rta::UID)? {
        Some(uid) => Some(uid),
        None => (query.iif == 0).then_some(0),
    };
    let exception = way.found.as_ref().and_then(|found| {
        let exceptions = &ns.fib().v4.exceptions;
        exceptions.find(asked.dst, found, guard)
    });
    let redirected = exception.map_or(0, |_| rtcf::REDIRECTED);
    let notify = match query.header.flags & rtm::f::NOTIFY {
        0 => 0,
        flag => flag | rtcf::NOTIFY,
    };
    ctl.reply(rtm::NEWROUTE, 0, |out| {
        out.fixed(&RtMsg {
            family: af::INET,
            dst_len: 32,
            src_len: if asked.src == 0 { 0 } else { 32 },
            // That of the route, not the requested one.
            tos: way.found.map_or(0, |found| found.tos),
            table: fill::table_byte(table),
            ty: way.kind,
            flags: way.flags | redirected | rtm::f::CLONED | notify,
            ..RtMsg::default()
        });
        out.put_u32(rta::TABLE, table);
        out.put_ip(rta::DST, asked.dst.ip());
        if asked.src != 0 {
            out.put_ip(rta::SRC, asked.src.ip());
        }
        out.put_u32(rta::OIF, way.oif);
        if let Some(encap) = way.found.and_then(|found| found.info.encap_of(found.hop)) {
            fill::encap(out, encap);
        }
        if query.iif == 0 && way.src != asked.src {
            out.put_ip(rta::PREFSRC, way.src.ip());
        }
        let gateway = way.found.and_then(|found| found.hop.gateway);
        let gateway = exception.map_or(gateway, |one| one.gateway);
        if let Some(gateway) = gateway.filter(|_| way.flags & rtcf::LOCAL == 0) {
            fill::put_gateway(out, gateway, false);
        }
        let metrics = way
            .found
            .and_then(|found| found.info.spec.metrics.as_deref());
        fill::metrics(out, metrics);
        if asked.mark != 0 {
            out.put_u32(rta::MARK, asked.mark);
        }
        if let Some(uid) = uid {
            out.put_u32(rta::UID, uid);
        }
        if query.iif != 0 {
            out.put_u32(rta::IIF, query.iif);
        }
        let expires = exception.and_then(|one| one.expires);
        let expires = expires.map_or(0, |expires| fill::ticks(expires, asked.now));
        out.put_fixed(
            rta::CACHEINFO,
            &RtaCacheInfo {
                expires,
                ..RtaCacheInfo::default()
            },
        );
    })
}

fn hash_policy4(ns: &Namespace) -> HashPolicy {
    HashPolicy::new(
        ns.conf().ipv4.get(Ipv4::FibMultipathHashPolicy),
        ns.conf().ipv4.get(Ipv4::FibMultipathHashFields),
    )
}

/// Returns the flags for a multicast group. Every device is a member of the all-hosts group and of
/// no other.
fn multicast_flags(group: u32) -> u32 {
    let all_hosts = Ipv4Addr::new(224, 0, 0, 1);
    let member = if Ipv4Addr::from(group) == all_hosts {
        rtcf::LOCAL
    } else {
        0
    };
    rtcf::MULTICAST | member
}

/// Routes a locally generated packet (`ip_route_output_key_hash_rcu`, `__mkroute_output`).
fn output4<'g>(ns: &'g Namespace, asked: Flow<u32>, guard: &'g Guard) -> Result<Way<'g>, Error> {
    let fib = &ns.fib().v4;
    let mut flow = asked;
    let broadcast = flow.dst == u32::MAX;
    let multicast = Ipv4Addr::from(flow.dst).is_multicast();
    if flow.src != 0 {
        let source = Ipv4Addr::from(flow.src);
        if source.is_multicast() || source == Ipv4Addr::BROADCAST || source.octets()[0] == 0 {
            return fail(errno::EINVAL);
        }
        let (own, _) = crate::fib::host::l3_output(ns, flow.oif, guard);
        let ours = |table| fib.address_type(source, table, guard) == rtn::LOCAL;
        if !ours(rta::table::LOCAL) && (own == 0 || !ours(own)) {
            return fail(errno::ENETUNREACH);
        }
    }
    let named = match flow.oif {
        0 => None,
        oif => Some(
            ns.device(oif, guard)
                .ok_or_else(|| Error::new(errno::ENODEV))?,
        ),
    };
    if named.is_some_and(|device| !device.is_up() || !device.has_ipv4()) {
        return fail(errno::ENETUNREACH);
    }
    let on_link = |src: u32, oif: u32| {
        let (kind, flags) = match (broadcast, multicast) {
            (true, _) => (rtn::BROADCAST, rtcf::BROADCAST | rtcf::LOCAL),
            (_, true) => (rtn::MULTICAST, multicast_flags(flow.dst)),
            _ => (rtn::UNICAST, 0),
        };
        Way {
            found: None,
            kind,
            flags,
            oif,
            src,
        }
    };
    let select = |src: u32, oif: u32, towards: u32, scope: u8| match src {
        0 => source4(ns, oif, towards, scope, guard),
        src => src,
    };
    if flow.oif != 0 && (broadcast || is_local(flow.dst.into())) {
        return Ok(on_link(
            select(flow.src, flow.oif, 0, scope::LINK),
            flow.oif,
        ));
    }
    if flow.oif != 0 && multicast {
        flow.src = select(flow.src, flow.oif, 0, scope::UNIVERSE);
    }
    if flow.dst == 0 {
        let own = if flow.src == 0 {
            Ipv4Addr::LOCALHOST.into()
        } else {
            flow.src
        };
        return Ok(Way {
            found: None,
            kind: rtn::LOCAL,
            flags: rtcf::LOCAL,
            oif: LOOPBACK,
            src: own,
        });
    }
    let (l3_table, bound) = crate::fib::host::l3_output(ns, flow.oif, guard);
    (flow.l3_table, flow.oif) = (l3_table, bound);
    let found = match fib.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => found,
        // If a device is given, Linux assumes that the destination is on its link, outside of VRFs.
        Err(_) if flow.oif != 0 && (multicast || l3_table == 0) => {
            return Ok(on_link(
                select(flow.src, flow.oif, 0, scope::LINK),
                flow.oif,
            ));
        }
        Err(error) => return fail(error),
    };
    let spec = &found.info.spec;
    let prefsrc = match spec.prefsrc {
        Some(IpAddr::V4(source)) => Some(u32::from(source)),
        _ => None,
    };
    if spec.kind == rtn::LOCAL {
        let src = if flow.src == 0 {
            prefsrc.unwrap_or(flow.dst)
        } else {
            flow.src
        };
        let flags = rtcf::LOCAL;
        return Ok(Way {
            found: Some(found),
            kind: rtn::LOCAL,
            flags,
            oif: own_device4(&found, guard),
            src,
        });
    }
    let found = if flow.oif == 0 && found.is_multipath() {
        found.select(hash_policy4(ns).hash(&flow))
    } else {
        found
    };
    if flow.src == 0 {
        let towards = match found.hop.gateway {
            Some(IpAddr::V4(gateway)) => gateway.into(),
            _ => 0,
        };
        flow.src = prefsrc.unwrap_or_else(|| select(0, found.hop.oif, towards, spec.scope));
    }
    let (kind, flags) = match spec.kind {
        _ if broadcast || spec.kind == rtn::BROADCAST => {
            (rtn::BROADCAST, rtcf::BROADCAST | rtcf::LOCAL)
        }
        _ if multicast => (rtn::MULTICAST, multicast_flags(flow.dst)),
        kind => (kind, 0),
    };
    let of_table = kind == spec.kind && kind != rtn::BROADCAST;
    Ok(Way {
        found: Some(found).filter(|found| of_table || kind == rtn::BROADCAST || found.dst_len >= 4),
        kind,
        flags,
        oif: found.hop.oif,
        src: flow.src,
    })
}

/// Routes a received packet (`ip_route_input_slow`).
fn input4<'g>(
    ns: &'g Namespace,
    device: &Arc<Device>,
    flow: Flow<u32>,
    guard: &'g Guard,
) -> Result<Way<'g>, Error> {
    let fib = &ns.fib().v4;
    let (src, dst) = (Ipv4Addr::from(flow.src), Ipv4Addr::from(flow.dst));
    let flow = Flow {
        l3_table: device.l3_table(),
        ..flow
    };
    let conf = &device.conf().ipv4;
    let localnet = conf.on(Ipv4Conf::RouteLocalnet) || device.is_loopback();
    if !device.has_ipv4() || src.is_multicast() || src == Ipv4Addr::BROADCAST {
        return fail(errno::EINVAL);
    }
    let way = |found: Option<Route4<'g>>, kind, flags, oif| Way {
        found,
        kind,
        flags,
        oif,
        src: flow.src,
    };
    if dst == Ipv4Addr::BROADCAST || (flow.src == 0 && flow.dst == 0) {
        let flags = rtcf::BROADCAST | rtcf::LOCAL;
        return Ok(way(None, rtn::BROADCAST, flags, LOOPBACK));
    }
    if dst.is_multicast() {
        if multicast_flags(flow.dst) & rtcf::LOCAL == 0 {
            return fail(errno::EINVAL);
        }
        let flags = rtcf::MULTICAST | rtcf::LOCAL;
        return Ok(way(None, rtn::MULTICAST, flags, LOOPBACK));
    }
    let zeronet = |address: Ipv4Addr| address.octets()[0] == 0;
    if zeronet(src) || zeronet(dst) {
        return fail(errno::EINVAL);
    }
    if !localnet && (src.is_loopback() || dst.is_loopback()) {
        return fail(errno::EINVAL);
    }
    let forwards = conf.on(Ipv4Conf::Forwarding);
    let found = match fib.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => found,
        Err(_) if !forwards => return fail(errno::EHOSTUNREACH),
        Err(error) => return fail(error),
    };
    let kind = found.info.spec.kind;
    let check = SourceCheck {
        rp_filter: conf
            .get(Ipv4Conf::RpFilter)
            .max(ns.conf().all.ipv4.get(Ipv4Conf::RpFilter)),
        accept_local: conf.on(Ipv4Conf::AcceptLocal)
            || ns.conf().all.ipv4.on(Ipv4Conf::AcceptLocal),
        no_address: false,
        loopback: device.is_loopback(),
    };
    let validate = || match flow.src {
        0 => Ok(false),
        _ => fib.validate_source(&flow, check, guard).map_err(Error::new),
    };
    match kind {
        rtn::BROADCAST => {
            validate()?;
            let flags = rtcf::BROADCAST | rtcf::LOCAL;
            Ok(way(Some(found), kind, flags, own_device4(&found, guard)))
        }
        rtn::LOCAL => {
            validate()?;
            Ok(way(
                Some(found),
                kind,
                rtcf::LOCAL,
                own_device4(&found, guard),
            ))
        }
        _ if !forwards => fail(errno::EHOSTUNREACH),
        rtn::UNICAST => {
            let on_link = validate()?;
            let found = if found.is_multipath() {
                found.select(hash_policy4(ns).hash(&flow))
            } else {
                found
            };
            let redirects =
                conf.on(Ipv4Conf::SendRedirects) || ns.conf().all.ipv4.on(Ipv4Conf::SendRedirects);
            let back = on_link && found.hop.oif == flow.iif && redirects;
            let flags = if back { rtcf::DOREDIRECT } else { 0 };
            Ok(way(Some(found), kind, flags, found.hop.oif))
        }
        _ => fail(errno::EINVAL),
    }
}

/// Returns the index of the device of packets to our own addresses: the VRF of the route's device or, without one,
/// the loopback device.
fn own_device4(found: &Route4<'_>, guard: &Guard) -> u32 {
    let named = found.hop.device.as_ref();
    match named.map_or(0, |named| named.l3_master_index(guard)) {
        0 => LOOPBACK,
        master => master,
    }
}

/// Returns the source address for packets through a device.
fn source4(ns: &Namespace, oif: u32, towards: u32, scope: u8, guard: &Guard) -> u32 {
    let source = ns
        .device(oif, guard)
        .and_then(|device| select_address(ns, device, towards.into(), scope, guard));
    source.map_or(0, u32::from)
}

fn get6(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let query = query::<u128>(ctl, &WORDS6)?;
    let (ns, guard) = (ctl.ns.clone(), ctl.guard);
    let mut flow = query.flow;
    flow.tos = query.header.tos;
    let dst = Ipv6Addr::from(flow.dst);
    let strict = dst.is_multicast() || dst.is_unicast_link_local() || dst.is_loopback();
    let mut flags = LookupFlags {
        show_reject: true,
        ..LookupFlags::default()
    };
    if query.iif != 0 {
        let device = ns
            .device(query.iif, guard)
            .ok_or_else(|| Error::new(errno::ENODEV))?;
        flow.l3_table = device.l3_table();
        flow.iif = query.iif;
        flow.oif = 0;
        flags = LookupFlags {
            iface: strict,
            input: true,
            ..flags
        };
    } else {
        flags.iface = strict || (flow.oif != 0 && flow.src == 0);
        (flow.l3_table, flow.oif) = crate::fib::host::l3_output(&ns, flow.oif, guard);
    }
    let found = ns
        .fib()
        .v6
        .lookup(&flow, flags, guard)
        .map_err(Error::new)?;
    let found = if found.is_multipath_of(flow.oif) {
        let policy = HashPolicy::new(
            ns.conf().ipv6.get(Ipv6::FibMultipathHashPolicy),
            ns.conf().ipv6.get(Ipv6::FibMultipathHashFields),
        );
        found.select(policy.hash(&flow))
    } else {
        found
    };
    let info = found.info;
    if query.header.flags & rtm::f::FIB_MATCH != 0 {
        let mut all: Vec<_> = found.siblings().cloned().collect();
        let first = all.iter().position(|other| Arc::ptr_eq(other, info));
        all.rotate_left(first.unwrap_or(0));
        all.remove(0);
        let route = Route {
            table: found.table,
            dst: found.dst,
            dst_len: found.dst_len,
            tos: 0,
            info: info.clone(),
            siblings: all,
        };
        let look = fill::Look::new(ctl.stack, &ns, guard);
        return ctl.reply(rtm::NEWROUTE, 0, |out| fill::route(out, &route, look));
    }
    let spec = &info.spec;
    // A user's anycast route is not the kernel's (`RTF_ANYCAST`).
    let anycast = spec.kind == rtn::ANYCAST && spec.protocol == rta::prot::KERNEL;
    let ours = spec.kind == rtn::LOCAL || anycast;
    let oif = match found.hop.device.as_ref() {
        Some(named) if ours => crate::ipv6::output::own_device(&ns, named, dst, guard).ifindex(),
        _ => found.hop.oif,
    };
    let prefsrc = match spec.prefsrc {
        Some(IpAddr::V6(source)) => Some(source),
        _ => {
            let by = ns.device(found.hop.oif, guard);
            crate::ipv6::select::select_address(&ns, by.map(|device| &**device), dst, guard)
        }
    };
    let exception = ns.fib().v6.exceptions.find(flow.dst, &found, guard);
    let gateway = exception.map_or(found.hop.gateway, |one| one.gateway);
    let now = ctl.stack.clock.now();
    ctl.reply(rtm::NEWROUTE, 0, |out| {
        out.fixed(&RtMsg {
            flags: exception.map_or(0, |_| rtm::f::CLONED),
            family: af::INET6,
            dst_len: 128,
            src_len: 128,
            table: fill::table_byte(found.table),
            protocol: spec.protocol,
            scope: scope::UNIVERSE,
            ty: spec.kind,
            ..RtMsg::default()
        });
        out.put_u32(rta::TABLE, found.table);
        out.put_ipv6(rta::DST, dst);
        out.put_ipv6(rta::SRC, Ipv6Addr::from(flow.src));
        if query.iif != 0 {
            out.put_u32(rta::IIF, query.iif);
        } else if let Some(source) = prefsrc {
            out.put_ipv6(rta::PREFSRC, source);
        }
        fill::metrics6(out, spec, exception.map(|one| &**one));
        out.put_u32(rta::PRIORITY, spec.priority);
        if let Some(gateway) = gateway {
            fill::put_gateway(out, gateway, true);
        }
        out.put_u32(rta::OIF, oif);
        if let Some(encap) = info.encap_of(found.hop) {
            fill::encap(out, encap);
        }
        let expires = exception.and_then(|one| one.expires);
        let expires = expires.map_or(0, |expires| fill::ticks(expires, now));
        fill::tail6(out, expires, 0, spec.pref);
    })
}

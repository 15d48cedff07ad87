// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes of MPLS labels: RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE of AF_MPLS (`net/mpls/af_mpls.c`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::rta::{self, rtn, scope};
use weir_netlink::{
    Attr, Attrs, Error, Fixed, Policy, RtMsg, RtNextHop, Rule, Strictness, Writer, af, align,
    errno, nlm, policy, rtm,
};

use super::filter::{Filter, strict_filter};
use super::labels::{labels, put_labels};
use crate::device::Device;
use crate::fib::mpls::{
    self, Change, FIRST_UNRESERVED, Hop, HopConfig, MAX_LABELS, Payload, Route, Via,
};
use crate::ipv4::route::Wanted;
use crate::namespace::Namespace;
use crate::rtnl::{Collected, Ctl, Dump, announce_with};

/// `rtm_mpls_policy`
static POLICY: Policy = policy! {
    max rta::MAX;
    rta::DST => Rule::u32(),
    rta::OIF => Rule::u32(),
    rta::TTL_PROPAGATE => Rule::u8(),
};

/// The bits of a label in `rtm_dst_len`.
const LABEL_BITS: u8 = 20;
/// The longest address of a neighbour in bytes (`MAX_VIA_ALEN`).
const MAX_VIA: usize = 32;

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

/// Parses the neighbour (`nla_get_via`).
fn via(attr: &Attr<'_>) -> Result<Via, Error> {
    let refuse = |text| Err(Error::msg(errno::EINVAL, text).at(attr));
    let Some((family, address)) = attr.payload.split_first_chunk::<2>() else {
        return refuse("Invalid attribute length for RTA_VIA");
    };
    if address.len() > MAX_VIA {
        return refuse("Invalid address length for RTA_VIA");
    }
    let wrong = || Error::new(errno::EINVAL);
    Ok(match u16::from_ne_bytes(*family) {
        family if family == u16::from(af::PACKET) => Via::Link(address.into()),
        family if family == u16::from(af::INET) => {
            let octets: [u8; 4] = address.try_into().map_err(|_| wrong())?;
            Via::V4(Ipv4Addr::from(octets))
        }
        family if family == u16::from(af::INET6) => {
            let octets: [u8; 16] = address.try_into().map_err(|_| wrong())?;
            Via::V6(Ipv6Addr::from(octets))
        }
        _ => return Err(wrong()),
    })
}

/// A route as requested (`struct mpls_route_config`).
struct Config<'a> {
    label: Option<u32>,
    protocol: u8,
    propagate: Option<bool>,
    hop: HopConfig,
    multipath: Option<Attr<'a>>,
}

/// Parses a request (`rtm_to_route_config`).
fn config<'a>(ctl: &Ctl<'a>) -> Result<Config<'a>, Error> {
    let (header, attrs) = ctl.message.parse::<RtMsg>(&POLICY, Strictness::Liberal)?;
    if header.dst_len != LABEL_BITS {
        return invalid("rtm_dst_len must be 20 for MPLS");
    }
    if header.src_len != 0 {
        return invalid("rtm_src_len must be 0 for MPLS");
    }
    if header.tos != 0 {
        return invalid("rtm_tos must be 0 for MPLS");
    }
    if u32::from(header.table) != rta::table::MAIN {
        return invalid("MPLS only supports the main route table");
    }
    if header.scope != scope::UNIVERSE {
        return invalid("Invalid route scope  - MPLS only supports UNIVERSE");
    }
    if header.ty != rtn::UNICAST {
        return invalid("Invalid route type - MPLS only supports UNICAST");
    }
    if header.flags != 0 {
        return invalid("rtm_flags must be 0 for MPLS");
    }
    let mut config = Config {
        label: None,
        protocol: header.protocol,
        propagate: None,
        hop: HopConfig {
            oif: 0,
            via: Via::Device,
            labels: Vec::new(),
        },
        multipath: None,
    };
    for ty in attrs.types() {
        let Some(attr) = attrs.get(ty) else { continue };
        match ty {
            rta::OIF => config.hop.oif = attr.u32()?,
            rta::NEWDST => config.hop.labels = labels(&attr, MAX_LABELS)?,
            rta::DST => {
                config.label = labels(&attr, 1)?.first().copied();
                if let Some(label) = config.label {
                    mpls::check(label, limit(ctl.ns))?;
                }
            }
            rta::GATEWAY => return invalid("MPLS does not support RTA_GATEWAY attribute"),
            rta::VIA => config.hop.via = via(&attr)?,
            rta::MULTIPATH => config.multipath = Some(attr),
            rta::TTL_PROPAGATE => match attr.u8()? {
                value @ (0 | 1) => config.propagate = Some(value == 1),
                _ => {
                    let text = "RTA_TTL_PROPAGATE can only be 0 or 1";
                    return Err(Error::msg(errno::EINVAL, text).at(&attr));
                }
            },
            _ => return Err(Error::msg(errno::EINVAL, "Unknown attribute").at(&attr)),
        }
    }
    Ok(config)
}

fn limit(ns: &Namespace) -> u32 {
    mpls::of(ns).map_or(0, mpls::Mpls::limit)
}

/// Parses the hops of `RTA_MULTIPATH` (`mpls_count_nexthops`, `mpls_nh_build_multi`).
fn hops(attr: &Attr<'_>) -> Result<Vec<HopConfig>, Error> {
    const NONE: &str = "Route does not contain a nexthop";
    let mut found = Vec::new();
    let mut rest = attr.payload;
    let mut plain = true;
    while let Some(header) = RtNextHop::from_bytes(rest) {
        let len = usize::from(header.len);
        let Some(own) = rest.get(RtNextHop::LEN..len) else {
            break;
        };
        let base = attr.offset + 4 + (attr.payload.len() - rest.len() + RtNextHop::LEN) as u32;
        rest = rest.get(align(len).min(rest.len())..).unwrap_or_default();
        let inside = Attrs::new(own, base);
        plain &= header.hops == 0 && header.flags == 0;
        let pushed = inside.find_type(rta::NEWDST);
        let pushed = pushed.map(|attr| labels(&attr, MAX_LABELS)).transpose()?;
        let via = inside.find_type(rta::VIA).map(|attr| via(&attr));
        found.push(HopConfig {
            oif: header.ifindex as u32,
            via: via.transpose()?.unwrap_or(Via::Device),
            labels: pushed.unwrap_or_default(),
        });
    }
    if found.is_empty() || !rest.is_empty() {
        return invalid(NONE);
    }
    match plain {
        true => Ok(found),
        // Neither weights nor flags are known.
        false => Err(Error::new(errno::EINVAL)),
    }
}

/// Finds the device of a hop (`find_outdev`).
fn device(ctl: &Ctl<'_>, hop: &HopConfig) -> Result<Arc<Device>, Error> {
    let (ns, guard) = (ctl.ns, ctl.guard);
    let by_route = |errno| Error::new(errno);
    if hop.oif != 0 {
        let device = ns.device(hop.oif, guard).cloned();
        return device.ok_or_else(|| Error::new(errno::ENODEV));
    }
    match hop.via {
        Via::V4(dst) => {
            let wanted = Wanted {
                dst,
                src: None,
                tos: 0,
                mark: 0,
                proto: 0,
            };
            let found = crate::ipv4::route::output_by(ns, &wanted, 0, guard);
            found
                .map(|found| found.hop.device.clone())
                .map_err(by_route)
        }
        Via::V6(dst) => {
            let found = crate::ipv6::output::route(ns, Ipv6Addr::UNSPECIFIED, dst, 0, guard);
            found.map(|found| found.device.clone()).map_err(by_route)
        }
        _ => Err(Error::new(errno::ENODEV)),
    }
}

fn route(
    ctl: &Ctl<'_>,
    config: Config<'_>,
    devices: &mut Vec<Arc<Device>>,
) -> Result<Route, Error> {
    let configs = match &config.multipath {
        Some(attr) => hops(attr)?,
        None => vec![config.hop],
    };
    mpls::check_size(&configs)?;
    let hops = configs.into_iter().map(|hop| {
        let device = device(ctl, &hop)?;
        let hop = mpls::hop(ctl.stack, hop, &device)?;
        devices.push(device);
        Ok(hop)
    });
    Ok(Route {
        protocol: config.protocol,
        payload: Payload::Unspecified,
        propagate: config.propagate,
        hops: hops.collect::<Result<_, Error>>()?,
    })
}

/// Adds or replaces a route (`mpls_rtm_newroute`).
pub fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let config = config(ctl)?;
    let state = mpls::make(ctl.stack, ctl.ns);
    let (label, flags) = (config.label, ctl.message.header.flags);
    let mut devices = Vec::new();
    let add = || route(ctl, config, &mut devices);
    let change = state.add(label, add, flags, ctl.guard)?;
    // A device may have gone before the route was there.
    if !devices.iter().all(|device| device.is_in(ctl.ns, ctl.guard)) {
        // It may be gone already.
        let _ = state.delete(change.label, ctl.guard);
        return Err(Error::new(errno::ENODEV));
    }
    notify(ctl, &change);
    Ok(())
}

/// Deletes a route (`mpls_rtm_delroute`).
pub fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let config = config(ctl)?;
    let label = config.label.unwrap_or(u32::MAX);
    let Some(state) = mpls::of(ctl.ns) else {
        return mpls::check(label, 0);
    };
    let change = state.delete(label, ctl.guard)?;
    notify(ctl, &change);
    Ok(())
}

/// The message of a change (`mpls_notify_route`): type, flags, route.
fn message(change: &Change) -> Option<(u16, u16, &Arc<Route>)> {
    let (ty, flags) = match (&change.old, &change.new) {
        (Some(_), Some(_)) => (rtm::NEWROUTE, nlm::F_REPLACE),
        (None, Some(_)) => (rtm::NEWROUTE, 0),
        _ => (rtm::DELROUTE, 0),
    };
    let route = change.new.as_ref().or(change.old.as_ref())?;
    (change.label >= FIRST_UNRESERVED).then_some((ty, flags, route))
}

fn notify(ctl: &mut Ctl<'_>, change: &Change) {
    if let Some((ty, flags, route)) = message(change) {
        let ns = ctl.ns.clone();
        ctl.notify(&ns, rtm::grp::MPLS_ROUTE, ty, flags, |out| {
            fill(out, change.label, route);
        });
    }
}

/// Tells the listeners of a change that no request made.
pub fn hear(ns: &Namespace, change: &Change) {
    if let Some((ty, flags, route)) = message(change) {
        announce_with(ns, rtm::grp::MPLS_ROUTE, (ty, flags), |out| {
            fill(out, change.label, route);
        });
    }
}

fn header(route: &Route, flags: u32) -> RtMsg {
    RtMsg {
        family: af::MPLS,
        dst_len: LABEL_BITS,
        table: rta::table::MAIN as u8,
        protocol: route.protocol,
        scope: scope::UNIVERSE,
        ty: rtn::UNICAST,
        flags,
        ..RtMsg::default()
    }
}

/// Writes the labels and the neighbour of a hop.
fn fill_hop(out: &mut Writer, hop: &Hop) {
    if !hop.labels.is_empty() {
        put_labels(out, rta::NEWDST, &hop.labels);
    }
    let (family, address) = match &hop.via {
        Via::Device => return,
        Via::Link(address) => (af::PACKET, address.clone()),
        Via::V4(address) => (af::INET, address.octets().into()),
        Via::V6(address) => (af::INET6, address.octets().into()),
    };
    let family = u16::from(family).to_ne_bytes();
    out.put(rta::VIA, &[&family[..], &address[..]].concat());
}

/// Writes a route (`mpls_dump_route`).
fn fill(out: &mut Writer, label: u32, route: &Route) {
    // A hop whose device is gone counts only alone.
    let counts = |hop: &Hop| hop.device.is_some() || route.hops.len() == 1;
    let with = |flag: u8| {
        let mut hops = route.hops.iter();
        hops.all(|hop| counts(hop) && hop.flags() & flag != 0)
    };
    let flags = [rta::nh::F_DEAD, rta::nh::F_LINKDOWN].into_iter();
    let flags = flags
        .filter(|flag| with(*flag))
        .fold(0, |all, flag| all | u32::from(flag));
    out.fixed(&header(route, flags));
    put_labels(out, rta::DST, &[label]);
    if let Some(propagate) = route.propagate {
        out.put_u8(rta::TTL_PROPAGATE, u8::from(propagate));
    }
    if let [hop] = &route.hops[..] {
        fill_hop(out, hop);
        if let Some((_, ifindex)) = hop.device {
            out.put_u32(rta::OIF, ifindex);
        }
        return;
    }
    let nest = out.nest_noflag(rta::MULTIPATH);
    for hop in &route.hops {
        let Some((_, ifindex)) = hop.device else {
            continue;
        };
        let mut own = Writer::new();
        fill_hop(&mut own, hop);
        out.fixed(&RtNextHop {
            len: (RtNextHop::LEN + own.len()) as u16,
            flags: hop.flags(),
            hops: 0,
            ifindex: ifindex as i32,
        });
        out.raw(own.bytes());
    }
    out.end(nest);
}

/// Dumps the routes (`mpls_dump_routes`).
pub fn dump(ctl: &Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let filter = match ctl.strict {
        true => strict_filter(ctl)?,
        false => Filter::default(),
    };
    let other = |value: u32, own: u32| value != 0 && value != own;
    let none = other(filter.table, rta::table::MAIN)
        || other(filter.kind.into(), rtn::UNICAST.into())
        || filter.flags != 0;
    let all = mpls::of(ctl.ns).filter(|_| !none);
    let mut routes = all.map_or_else(Vec::new, |state| state.all(0));
    routes.retain(|(_, route)| {
        (filter.oif == 0 || route.uses(filter.oif))
            && (filter.protocol == 0 || filter.protocol == route.protocol)
    });
    Ok(Collected::boxed(
        routes,
        filter.is_set(),
        |ctl, (label, route), out| ctl.message(out, rtm::NEWROUTE, |out| fill(out, *label, route)),
    ))
}

/// Returns the route of a label, or the hop that a packet with further labels takes (`mpls_getroute`).
pub fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let Ok(asked) = ctl.message.fixed::<RtMsg>() else {
        return invalid("Invalid header for get route request");
    };
    if ctl.strict {
        let named = asked.src_len | asked.tos | asked.table | asked.protocol;
        if !matches!(asked.dst_len, 0 | LABEL_BITS) || (named | asked.scope | asked.ty) != 0 {
            return invalid("Invalid values in header for get route request");
        }
        if asked.flags & !rtm::f::FIB_MATCH != 0 {
            return invalid("Invalid flags for get route request");
        }
    }
    let strictness = ctl.get_strictness();
    let (_, attrs) = ctl.message.parse::<RtMsg>(&POLICY, strictness)?;
    if ctl.strict {
        if (attrs.has(rta::DST) || attrs.has(rta::NEWDST)) && asked.dst_len == 0 {
            return invalid("rtm_dst_len must be 20 for MPLS");
        }
        let known = [rta::DST, rta::NEWDST];
        if attrs.types().any(|ty| !known.contains(&ty)) {
            return invalid("Unsupported attribute in get route request");
        }
    }
    let label = attrs.get(rta::DST).map(|attr| labels(&attr, 1));
    let label = label
        .transpose()?
        .and_then(|labels| labels.first().copied());
    if let Some(label) = label {
        mpls::check(label, limit(ctl.ns))?;
    }
    let unreachable = || Error::new(errno::ENETUNREACH);
    let found = label.zip(mpls::of(ctl.ns));
    let found = found.and_then(|(label, state)| Some((label, state.route(label, ctl.guard)?)));
    let (label, route) = found.ok_or_else(unreachable)?;
    if asked.flags & rtm::f::FIB_MATCH != 0 {
        return ctl.reply(rtm::NEWROUTE, 0, |out| fill(out, label, route));
    }
    let pushed = attrs.get(rta::NEWDST);
    let pushed = pushed.map(|attr| labels(&attr, MAX_LABELS)).transpose()?;
    let pushed = pushed.unwrap_or_default();
    let hop = route.select(|| crate::mpls::hash_of(&pushed));
    let hop = hop.ok_or_else(unreachable)?;
    ctl.reply(rtm::NEWROUTE, 0, |out| {
        out.fixed(&header(route, 0));
        put_labels(out, rta::DST, &[label]);
        fill_hop(out, hop);
        if let Some((_, ifindex)) = hop.device {
            out.put_u32(rta::OIF, ifindex);
        }
    })
}

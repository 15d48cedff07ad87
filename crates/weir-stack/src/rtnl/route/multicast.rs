// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routes: requests, dumps and notifications of the families `RTNL_FAMILY_IPMR` and `RTNL_FAMILY_IP6MR`
//! (`ipmr_rtm_route`, `ipmr_rtm_getroute`, `ipmr_rtm_dumproute`, `ipmr_rtm_dumplink`, `igmpmsg_netlink_event`,
//! `ip6mr_rtm_getroute`, `ip6mr_rtm_dumproute`, `mrt6msg_netlink_event`).
//!
//! A table that nobody has used is empty, and exists if it is the one that every namespace has.
//! In IPv6, as in Linux, only the daemon's socket adds and removes entries, and there are no links of the family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_netlink::ipmra::{self, creport, vifa};
use weir_netlink::rta::rtn;
use weir_netlink::{
    Attr, Error, Fixed, IfInfoMsg, Policy, RtGenMsg, RtMsg, RtNextHop, Rule, Strictness, Table,
    Writer, af, align, errno, ifla, policy, rta, rtm,
};

use super::filter::Filter;
use super::{host, parse};
use crate::clock::{SECOND, USER_HZ};
use crate::ipv4::multicast::{Router, V4};
use crate::ipv6::multicast::V6;
use crate::multicast::{
    self, Address as _, Entry, Event, Family, Key, MAX_VIFS, NewEntry, Route, Vif, Vifs,
};
use crate::namespace::Namespace;
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl, Refused, announce};
use crate::stack::Stack;

/// A family as messages show it.
pub trait Told: Family<Address: Into<IpAddr>> {
    /// `RTNL_FAMILY_*`
    const FAMILY: u8;
    /// The length of addresses in bits.
    const BITS: u8;
    /// The group that hears of routes.
    const ROUTES: u32;
    /// The group that hears of reports.
    const REPORTS: u32;
    /// The text for a request that names a table which does not exist.
    const NO_TABLE: &'static str;
    /// Reads a report to the daemon.
    fn report(message: &[u8]) -> Option<Report<'_>>;
}

/// A report to a daemon.
pub struct Report<'a> {
    kind: u8,
    vif: u16,
    origin: &'a [u8],
    group: &'a [u8],
    /// What follows.
    rest: &'a [u8],
}

impl Told for V4 {
    const FAMILY: u8 = af::IPMR;
    const BITS: u8 = 32;
    const ROUTES: u32 = rtm::grp::IPV4_MROUTE;
    const REPORTS: u32 = rtm::grp::IPV4_MROUTE_R;
    const NO_TABLE: &'static str = "ipv4: MR table does not exist";

    /// `struct igmpmsg`
    fn report(message: &[u8]) -> Option<Report<'_>> {
        Some(Report {
            kind: *message.get(8)?,
            vif: u16::from_le_bytes(*message.get(10..)?.first_chunk()?),
            origin: message.get(12..16)?,
            group: message.get(16..20)?,
            rest: message.get(20..)?,
        })
    }
}

impl Told for V6 {
    const FAMILY: u8 = af::IP6MR;
    const BITS: u8 = 128;
    const ROUTES: u32 = rtm::grp::IPV6_MROUTE;
    const REPORTS: u32 = rtm::grp::IPV6_MROUTE_R;
    const NO_TABLE: &'static str = "ipv6: MR table does not exist";

    /// `struct mrt6msg`
    fn report(message: &[u8]) -> Option<Report<'_>> {
        Some(Report {
            kind: *message.get(1)?,
            vif: u16::from_ne_bytes(*message.get(2..)?.first_chunk()?),
            origin: message.get(8..24)?,
            group: message.get(24..40)?,
            rest: message.get(40..)?,
        })
    }
}

fn put(out: &mut Writer, attribute: u16, address: impl Into<IpAddr>) {
    match address.into() {
        IpAddr::V4(address) => out.put_ipv4(attribute, address),
        IpAddr::V6(address) => out.put_ipv6(attribute, address),
    };
}

/// `ip6mr_getroute_policy`
static POLICY6: Policy = policy! {
    max rta::MAX;
    rta::SRC => Rule::exact(16),
    rta::DST => Rule::exact(16),
    rta::TABLE => Rule::u32(),
};

/// `rtm_ipmr_policy`
static POLICY: Policy = policy! {
    max rta::MAX;
    rta::SRC => Rule::u32(),
    rta::DST => Rule::u32(),
    rta::IIF => Rule::u32(),
    rta::TABLE => Rule::u32(),
    rta::MULTIPATH => Rule::unspec(RtNextHop::LEN as u16),
};

/// Writes a route (`ipmr_fill_mroute`, `ip6mr_fill_mroute`).
fn fill<F: Told>(
    out: &mut Writer,
    route: &Route<F::Address>,
    (router, vifs): (&multicast::Router<F>, &Vifs<F>),
    now: u64,
) {
    let Key { origin, group } = route.key();
    let known = match route {
        Route::Known(entry) => Some(entry),
        Route::Unresolved(_) => None,
    };
    out.fixed(&RtMsg {
        family: F::FAMILY,
        dst_len: F::BITS,
        src_len: F::BITS,
        table: router.id() as u8,
        protocol: match known {
            Some(entry) if entry.is_static => rta::prot::STATIC,
            _ => rta::prot::MROUTED,
        },
        ty: rtn::MULTICAST,
        flags: match known {
            Some(_) => 0,
            None => rta::nh::F_UNRESOLVED.into(),
        },
        ..RtMsg::default()
    });
    out.put_u32(rta::TABLE, router.id());
    put(out, rta::SRC, origin);
    put(out, rta::DST, group);
    let Some(entry) = known else { return };
    let shown = entry.shown(vifs, now);
    if let Some(iif) = shown.iif {
        out.put_u32(rta::IIF, iif);
    }
    let nest = out.nest_noflag(rta::MULTIPATH);
    for (_, ifindex, hops) in shown.hops {
        out.fixed(&RtNextHop {
            len: RtNextHop::LEN as u16,
            flags: 0,
            hops,
            ifindex: ifindex as i32,
        });
    }
    out.end(nest);
    let stats: Vec<u8> = shown.counts.iter().flat_map(|n| n.to_ne_bytes()).collect();
    out.put(rta::MFC_STATS, &stats);
    out.put_u64(rta::EXPIRES, shown.idle / (SECOND / USER_HZ));
}

/// Tells the listeners of a table's routes and of reports to its daemon.
pub(in crate::rtnl) fn hear<F: Told>(
    stack: &Stack,
    ns: &Namespace,
    router: &multicast::Router<F>,
    event: &Event<'_, F::Address>,
) {
    match *event {
        Event::Route(route, is_new) => {
            let ty = if is_new { rtm::NEWROUTE } else { rtm::DELROUTE };
            let guard = stack.domain.pin();
            announce(ns, F::ROUTES, ty, |out| {
                let place = (router, router.vifs(&guard));
                fill(out, route, place, stack.clock.now());
            });
        }
        Event::Report(message) => {
            let Some(report) = <F as Told>::report(message) else {
                return;
            };
            announce(ns, F::REPORTS, rtm::NEWCACHEREPORT, |out| {
                out.fixed(&RtGenMsg { family: F::FAMILY });
                out.put_u8(creport::MSGTYPE, report.kind);
                out.put_u32(creport::VIF_ID, report.vif.into());
                out.put(creport::SRC_ADDR, report.origin);
                out.put(creport::DST_ADDR, report.group);
                if F::FAMILY == af::IPMR {
                    out.put_u32(creport::TABLE, router.id());
                }
                out.put(creport::PKT, report.rest);
            });
        }
    }
}

/// Starts a dump of routes. `alone` says that the request is for this family, and not for all.
pub fn dump<F: Told>(ctl: &Ctl<'_>, filter: &Filter, alone: bool) -> Box<dyn Dump> {
    let filtered = ctl.strict && filter.is_set();
    if alone && filter.table != 0 && !multicast::exists::<F>(ctl.ns, filter.table) {
        let error = Error::msg(errno::ENOENT, F::NO_TABLE);
        return Box::new(Refused(Some(error)));
    }
    let others = filter.table == 0
        && (filter.protocol != 0
            || filter.flags != 0
            || !matches!(filter.kind, 0 | rtn::MULTICAST));
    let mut routes = Vec::new();
    let tables = multicast::all::<F>(ctl.ns);
    for router in tables.filter(|router| filter.table == 0 || router.id() == filter.table) {
        if ctl.strict && others {
            break;
        }
        let wanted = |route: &Route<_>| filter.oif == 0 || leads_to(router, ctl, route, filter.oif);
        let found = router.routes().into_iter().filter(wanted);
        routes.extend(found.map(|route| (router.id(), route)));
    }
    let fill = |ctl: &DumpCtl<'_>, (table, route): &(u32, Route<F::Address>), out: &mut Writer| {
        multicast::of::<F>(ctl.ns, *table).is_none_or(|router| {
            let place = (router, router.vifs(ctl.guard));
            ctl.message(out, rtm::NEWROUTE, |out| {
                fill(out, route, place, ctl.stack.clock.now());
            })
        })
    };
    Collected::boxed(routes, filtered, fill)
}

/// Returns whether packets of a route leave by a device (`mr_mfc_uses_dev`), or whether it is not resolved.
fn leads_to<F: Told>(
    router: &multicast::Router<F>,
    ctl: &Ctl<'_>,
    route: &Route<F::Address>,
    ifindex: u32,
) -> bool {
    let by = |entry: &Entry<F::Address>| {
        let mut vifs = router.vifs(ctl.guard).iter();
        vifs.any(|vif| entry.leads_to(vif.number) && vif.device.ifindex() == ifindex)
    };
    match route {
        Route::Known(entry) => by(entry),
        Route::Unresolved(_) => true,
    }
}

/// Returns the entry of a source and a group of IPv4.
pub fn get4(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    let message = ctl.message;
    let Ok(header) = message.fixed::<RtMsg>() else {
        return invalid("ipv4: Invalid header for multicast route get request");
    };
    if ctl.strict {
        let whole = |len: u8| len == 0 || len == 32;
        let named = header.tos | header.table | header.protocol | header.scope | header.ty;
        if !whole(header.src_len) || !whole(header.dst_len) || named != 0 || header.flags != 0 {
            return invalid("ipv4: Invalid values in header for multicast route get request");
        }
    }
    let (_, attrs) = message.parse::<RtMsg>(&parse::POLICY4, ctl.get_strictness())?;
    if ctl.strict {
        if (attrs.has(rta::SRC) && header.src_len == 0)
            || (attrs.has(rta::DST) && header.dst_len == 0)
        {
            return invalid("ipv4: rtm_src_len and rtm_dst_len must be 32 for IPv4");
        }
        if attrs
            .types()
            .any(|ty| !matches!(ty, rta::SRC | rta::DST | rta::TABLE))
        {
            return invalid("ipv4: Unsupported attribute in multicast route get request");
        }
    }
    let table = asked(&attrs)?;
    answer::<V4>(ctl, table, key(&attrs)?).ok_or_else(|| Error::new(errno::ENOENT))?
}

/// Returns the entry of a source and a group of IPv6. Requests are always checked strictly
/// (`ip6mr_rtm_valid_getroute_req`).
pub fn get6(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    let (header, attrs) = ctl.message.parse::<RtMsg>(&POLICY6, Strictness::Strict)?;
    let whole = |len: u8| len == 0 || len == 128;
    let named = header.tos | header.table | header.protocol | header.scope | header.ty;
    if !whole(header.src_len) || !whole(header.dst_len) || named != 0 || header.flags != 0 {
        return invalid("ipv6: Invalid values in header for multicast route get request");
    }
    if (attrs.has(rta::SRC) && header.src_len == 0) || (attrs.has(rta::DST) && header.dst_len == 0)
    {
        return invalid("ipv6: rtm_src_len and rtm_dst_len must be 128 for IPv6");
    }
    let any = Ipv6Addr::ANY;
    let (origin, group) = (attrs.ipv6(rta::SRC)?, attrs.ipv6(rta::DST)?);
    let key = Key::from((origin.unwrap_or(any), group.unwrap_or(any)));
    let table = asked(&attrs)?;
    if !multicast::exists::<V6>(ctl.ns, table) {
        return Err(Error::msg(errno::ENOENT, V6::NO_TABLE));
    }
    let missing = || Error::msg(errno::ENOENT, "ipv6: MR cache entry not found");
    answer::<V6>(ctl, table, key).ok_or_else(missing)?
}

/// Returns the table that a request for an entry names. Without a name it is 253 in both families, as in Linux, though the table
/// that every namespace has is 254 in IPv6.
fn asked(attrs: &Table<'_>) -> Result<u32, Error> {
    let table = attrs.u32(rta::TABLE)?.filter(|table| *table != 0);
    Ok(table.unwrap_or(rta::table::DEFAULT))
}

/// Answers with the entry of a key in a table, if there is one.
fn answer<F: Told>(
    ctl: &mut Ctl<'_>,
    table: u32,
    key: Key<F::Address>,
) -> Option<Result<(), Error>> {
    let router = multicast::of::<F>(ctl.ns, table)?;
    let entry = router.entry(key, ctl.guard)?.clone();
    let (vifs, now) = (router.vifs(ctl.guard), ctl.stack.clock.now());
    Some(ctl.reply(rtm::NEWROUTE, 0, |out| {
        fill(out, &Route::Known(entry), (router, vifs), now);
    }))
}

/// Reads the source and the group; what is absent is any.
fn key(attrs: &Table<'_>) -> Result<Key<Ipv4Addr>, Error> {
    let any = Ipv4Addr::ANY;
    let (origin, group) = (attrs.ipv4(rta::SRC)?, attrs.ipv4(rta::DST)?);
    Ok(Key::from((origin.unwrap_or(any), group.unwrap_or(any))))
}

/// Reads the thresholds, the first of which is that of VIF 0 (`ipmr_nla_get_ttls`).
fn thresholds(attr: &Attr<'_>) -> Option<[u8; MAX_VIFS]> {
    let mut all = [0; MAX_VIFS];
    let mut rest = attr.payload;
    for place in &mut all {
        let Some(hop) = RtNextHop::from_bytes(rest) else {
            break;
        };
        let len = usize::from(hop.len);
        if len < RtNextHop::LEN || len > rest.len() {
            break;
        }
        *place = hop.hops;
        rest = rest.get(align(len)..).unwrap_or_default();
    }
    rest.is_empty().then_some(all)
}

/// Adds or removes an entry of IPv4 (`rtm_to_ipmr_mfcc`).
pub fn change(ctl: &mut Ctl<'_>, add: bool) -> Result<(), Error> {
    let invalid = || Error::new(errno::EINVAL);
    let (header, attrs) = ctl.message.parse::<RtMsg>(&POLICY, Strictness::Liberal)?;
    let protocol = header.protocol;
    if header.dst_len != 32
        || header.ty != rtn::MULTICAST
        || header.scope != rta::scope::UNIVERSE
        || !matches!(protocol, rta::prot::STATIC | rta::prot::MROUTED)
    {
        return Err(invalid());
    }
    let device = match attrs.u32(rta::IIF)? {
        None => None,
        Some(index) => {
            let device = ctl.ns.device(index, ctl.guard);
            Some(device.ok_or_else(|| Error::new(errno::ENODEV))?)
        }
    };
    let thresholds = match attrs.get(rta::MULTIPATH) {
        Some(attr) => thresholds(&attr).ok_or_else(invalid)?,
        None => [0; MAX_VIFS],
    };
    let table = attrs.u32(rta::TABLE)?.unwrap_or(V4::TABLE);
    if !multicast::exists::<V4>(ctl.ns, table) {
        return Err(Error::new(errno::ENOENT));
    }
    let router = multicast::make::<V4>(ctl.stack, ctl.ns, table);
    let vif = device.and_then(|device| router.vifs(ctl.guard).of(device));
    let entry = NewEntry {
        key: key(&attrs)?,
        parent: vif.map_or(u16::MAX, u16::from),
        thresholds,
        proxy: attrs.has(rta::PREFSRC),
    };
    let host = host(ctl);
    if !add {
        return router.delete(&host, &entry).map_err(Error::new);
    }
    let is_static = protocol != rta::prot::MROUTED;
    let now = ctl.stack.clock.now();
    let resolved = router
        .add(&host, &entry, is_static, now)
        .map_err(Error::new)?;
    if let Some(resolved) = resolved {
        multicast::resolve_later(&host, resolved);
    }
    Ok(())
}

/// Dumps the tables of IPv4 with their VIFs, as links of the family (`ipmr_rtm_dumplink`).
pub fn dump_tables(ctl: &Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let invalid = |text| Err(Error::msg(errno::EINVAL, text));
    if ctl.strict {
        let message = ctl.message;
        let Ok(header) = message.fixed::<IfInfoMsg>() else {
            return invalid("ipv4: Invalid header for ipmr link dump");
        };
        if message.payload().len() > IfInfoMsg::LEN {
            return invalid("Invalid data after header in ipmr link dump");
        }
        let IfInfoMsg {
            pad,
            ty,
            index,
            flags,
            change,
            ..
        } = header;
        if pad != 0 || ty != 0 || index != 0 || flags != 0 || change != 0 {
            return invalid("Invalid values in header for ipmr link dump request");
        }
    }
    let used = multicast::all::<V4>(ctl.ns).map(Router::id);
    let others = used.filter(|id| *id != V4::TABLE);
    let ids = std::iter::once(V4::TABLE).chain(others).collect();
    Ok(Collected::boxed(ids, false, |ctl, id: &u32, out| {
        let router = multicast::of::<V4>(ctl.ns, *id);
        let none = Vifs::default();
        let vifs = router.map_or(&none, |router| router.vifs(ctl.guard));
        ctl.message(out, rtm::NEWLINK, |out| table(out, *id, router, vifs))
    }))
}

fn table(out: &mut Writer, id: u32, router: Option<&Router>, vifs: &Vifs<V4>) {
    out.fixed(&IfInfoMsg {
        family: af::IPMR,
        ..IfInfoMsg::default()
    });
    let table = out.nest_noflag(ifla::AF_SPEC);
    out.put_u32(ipmra::table::ID, id);
    let waiting = router.map_or(0, Router::waiting);
    out.put_u32(ipmra::table::CACHE_RES_QUEUE_LEN, waiting as u32);
    let register = vifs.register().map_or(-1, |vif| vif.number.into());
    out.put_i32(ipmra::table::MROUTE_REG_VIF_NUM, register);
    let is = |get: fn(&Router) -> bool| u8::from(router.is_some_and(get));
    out.put_u8(ipmra::table::MROUTE_DO_ASSERT, is(Router::asserts));
    out.put_u8(ipmra::table::MROUTE_DO_PIM, is(Router::speaks_pim));
    let whole = is(Router::reports_wrong_whole);
    out.put_u8(ipmra::table::MROUTE_DO_WRVIFWHOLE, whole);
    let all = out.nest_noflag(ipmra::table::VIFS);
    for vif in vifs.iter() {
        fill_vif(out, vif);
    }
    out.end(all);
    out.end(table);
}

/// `ipmr_fill_vif`
fn fill_vif(out: &mut Writer, vif: &Vif<V4>) {
    let nest = out.nest_noflag(ipmra::VIF);
    let ((packets, bytes), (sent, sent_bytes)) = (vif.received(), vif.sent());
    out.put_u32(vifa::IFINDEX, vif.device.ifindex());
    out.put_u32(vifa::VIF_ID, vif.number.into());
    out.put_u16(vifa::FLAGS, vif.flags);
    out.put_u64(vifa::BYTES_IN, bytes);
    out.put_u64(vifa::BYTES_OUT, sent_bytes);
    out.put_u64(vifa::PACKETS_IN, packets);
    out.put_u64(vifa::PACKETS_OUT, sent);
    out.put(vifa::LOCAL_ADDR, &vif.ends.local);
    out.put(vifa::REMOTE_ADDR, &vif.ends.remote);
    out.end(nest);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nexthop objects: RTM_NEWNEXTHOP, RTM_DELNEXTHOP, RTM_GETNEXTHOP, RTM_GETNEXTHOPBUCKET (`ip nexthop`;
//! `net/ipv4/nexthop.c`). The objects are in [`crate::fib::nexthop`].
//!
//! Not implemented, and refused by name: encapsulation (`NHA_ENCAP`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::nexthop::{self as nha, res_bucket, res_group};
use weir_netlink::{
    Attr, Error, Fixed, NextHopGrp, NhMsg, Policy, Rule, Strictness, Table, Writer, af, errno,
    policy, rtm,
};

use crate::clock::{SECOND, USER_HZ};
use crate::device::Device;
use crate::fib::host::{WithRoutes, arm_nexthops, compat};
use crate::fib::nexthop::{Change, NexthopConfig, ResilientConfig};
use crate::fib::object::{Kind, Member, State};
use crate::fib::resilient::Resilient;
use crate::fib::route::flag;
use crate::namespace::Namespace;
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl, Handler, announce_with};
use crate::stack::Stack;

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWNEXTHOP,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELNEXTHOP,
        doit: Some(delete),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETNEXTHOP,
        doit: Some(get),
        dumpit: Some(dump),
    },
    Handler {
        ty: rtm::GETNEXTHOPBUCKET,
        doit: Some(get_bucket),
        dumpit: Some(dump_buckets),
    },
];

/// `rtm_nh_policy_new`
static NEW: Policy = policy! {
    max nha::RES_GROUP;
    nha::ID => Rule::u32(),
    nha::GROUP => Rule::binary(0),
    nha::GROUP_TYPE => Rule::u16(),
    nha::BLACKHOLE => Rule::flag(),
    nha::OIF => Rule::u32(),
    nha::GATEWAY => Rule::binary(0),
    nha::ENCAP_TYPE => Rule::u16(),
    nha::ENCAP => Rule::nested_any(),
    nha::FDB => Rule::flag(),
    nha::RES_GROUP => Rule::nested_any(),
};

/// `rtm_nh_res_policy_new`
static RESILIENT: Policy = policy! {
    max res_group::UNBALANCED_TIMER;
    res_group::BUCKETS => Rule::u16(),
    res_group::IDLE_TIMER => Rule::u32(),
    res_group::UNBALANCED_TIMER => Rule::u32(),
};

/// `rtm_nh_policy_get`
static GET: Policy = policy! { max nha::ID; nha::ID => Rule::u32(), };

/// `rtm_nh_policy_dump`
static DUMP: Policy = policy! {
    max nha::FDB;
    nha::OIF => Rule::u32(),
    nha::GROUPS => Rule::flag(),
    nha::MASTER => Rule::u32(),
    nha::FDB => Rule::flag(),
};

/// `rtm_nh_policy_get_bucket`
static GET_BUCKET: Policy = policy! {
    max nha::RES_BUCKET;
    nha::ID => Rule::u32(),
    nha::RES_BUCKET => Rule::nested_any(),
};

/// `rtm_nh_res_bucket_policy_get`
static BUCKET_INDEX: Policy = policy! {
    max res_bucket::INDEX;
    res_bucket::INDEX => Rule::u16(),
};

/// `rtm_nh_policy_dump_bucket`
static DUMP_BUCKETS: Policy = policy! {
    max nha::RES_BUCKET;
    nha::ID => Rule::u32(),
    nha::OIF => Rule::u32(),
    nha::MASTER => Rule::u32(),
    nha::RES_BUCKET => Rule::nested_any(),
};

/// `rtm_nh_res_bucket_policy_dump`
static BUCKET_MEMBER: Policy = policy! {
    max res_bucket::NH_ID;
    res_bucket::NH_ID => Rule::u32(),
};

/// The flags that a request may set (`NEXTHOP_VALID_USER_FLAGS`).
const USER_FLAGS: u32 = flag::ONLINK as u32;

type Known = State<Arc<Device>>;

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

/// Adds or replaces an object (`rtm_new_nexthop`).
fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let config = parse(ctl)?;
    let ns = ctl.ns.clone();
    let host = crate::fib::host::Host {
        stack: ctl.stack,
        ns: ctl.ns,
        guard: ctl.guard,
    };
    let mut changes = Vec::new();
    let (compat, clock) = (compat(&ns), &ctl.stack.clock);
    let done = ns
        .fib()
        .add_nexthop(config, &host, clock, compat, &mut changes);
    notify(ctl, &changes);
    arm_nexthops(ctl.stack, &ns);
    done
}

/// Deletes an object (`rtm_del_nexthop`).
fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let id = requested(ctl, &GET)?.0;
    let ns = ctl.ns.clone();
    let mut changes = Vec::new();
    let done = ns.fib().delete_nexthop(id, compat(&ns), &mut changes);
    notify(ctl, &changes);
    done
}

/// Parses the request for a new object (`rtm_to_nh_config`).
fn parse(ctl: &Ctl<'_>) -> Result<NexthopConfig, Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<NhMsg>(&NEW, Strictness::Strict)?;
    if header.resvd != 0 || header.scope != 0 {
        return invalid("Invalid values in ancillary header");
    }
    if header.flags & !USER_FLAGS != 0 {
        return invalid("Invalid nexthop flags in ancillary header");
    }
    let has = |ty| attrs.has(ty);
    match header.family {
        af::INET | af::INET6 => {}
        af::UNSPEC if has(nha::GROUP) => {}
        _ => return invalid("Invalid address family"),
    }
    let encap = has(nha::ENCAP) || has(nha::ENCAP_TYPE);
    let fdb = has(nha::FDB);
    if fdb {
        if has(nha::OIF) || has(nha::BLACKHOLE) || encap {
            return invalid("Fdb attribute can not be used with encap, oif or blackhole");
        }
        if header.flags != 0 {
            return invalid("Unsupported nexthop flags in ancillary header");
        }
    }
    let mut config = NexthopConfig {
        id: attrs.u32(nha::ID)?.unwrap_or(0),
        family: header.family,
        protocol: header.protocol,
        flags: header.flags as u8,
        nlflags: message.header.flags,
        fdb,
        ..NexthopConfig::default()
    };
    if let Some(group) = attrs.get(nha::GROUP) {
        if header.family != af::UNSPEC {
            return invalid("Invalid family for group");
        }
        parse_group(ctl, &attrs, &group, &mut config)?;
        return Ok(config);
    }
    if has(nha::BLACKHOLE) {
        if has(nha::GATEWAY) || has(nha::OIF) || encap {
            return invalid("Blackhole attribute can not be used with gateway, oif, encap or fdb");
        }
        config.blackhole = true;
        return Ok(config);
    }
    if !fdb {
        let Some(oif) = attrs.u32(nha::OIF)? else {
            return invalid("Device attribute required for non-blackhole and non-fdb nexthops");
        };
        let Some(device) = ctl.ns.device(oif, ctl.guard) else {
            return invalid("Invalid device index");
        };
        let down = |text| Err(Error::msg(errno::ENETDOWN, text));
        if !device.is_up() {
            return down("Nexthop device is not up");
        }
        if !device.link.carrier(ctl.stack, device) {
            return down("Carrier for nexthop device is down");
        }
        config.oif = oif;
    }
    if let Some(attr) = attrs.get(nha::GATEWAY) {
        let v4 = || {
            attr.payload
                .try_into()
                .ok()
                .map(<IpAddr as From<[u8; 4]>>::from)
        };
        let v6 = || {
            attr.payload
                .try_into()
                .ok()
                .map(<IpAddr as From<[u8; 16]>>::from)
        };
        config.gateway = match header.family {
            af::INET => v4(),
            _ => v6(),
        };
        if config.gateway.is_none() {
            return invalid("Invalid gateway");
        }
    } else if header.flags as u8 & flag::ONLINK != 0 {
        return invalid("ONLINK flag can not be set for nexthop without a gateway");
    }
    match (attrs.get(nha::ENCAP), has(nha::ENCAP_TYPE)) {
        (Some(_), false) => invalid("LWT encapsulation type is missing"),
        (None, true) => invalid("LWT encapsulation attribute is missing"),
        (Some(attr), true) => Err(Error::unsupported("Weir has no lightweight tunnels").at(&attr)),
        (None, false) => Ok(config),
    }
}

/// Parses a group (`nh_check_attr_group`, `rtm_to_nh_config_grp_res`).
fn parse_group(
    ctl: &Ctl<'_>,
    attrs: &Table<'_>,
    group: &Attr<'_>,
    config: &mut NexthopConfig,
) -> Result<(), Error> {
    let ty = attrs.u16(nha::GROUP_TYPE)?.unwrap_or(nha::GRP_TYPE_MPATH);
    if ty > nha::GRP_TYPE_MAX {
        return invalid("Invalid group type");
    }
    let (entries, rest) = group.payload.as_chunks::<{ NextHopGrp::LEN }>();
    if entries.is_empty() || !rest.is_empty() {
        return invalid("Invalid length for nexthop group attribute");
    }
    let entries: Vec<_> = entries
        .iter()
        .filter_map(|entry| NextHopGrp::from_bytes(entry))
        .collect();
    let mut seen = std::collections::HashMap::new();
    for entry in &entries {
        *seen.entry(entry.id).or_insert(0) += 1;
    }
    for entry in &entries {
        if entry.resvd1 != 0 || entry.resvd2 != 0 {
            return invalid("Reserved fields in nexthop_grp must be 0");
        }
        if entry.weight > 254 {
            return invalid("Invalid value for weight");
        }
        // Linux compares an entry with those after it.
        match seen.get_mut(&entry.id) {
            Some(left) if *left > 1 => {
                return invalid("Nexthop id can not be used twice in a group");
            }
            _ => {}
        }
    }
    let members: Vec<Member> = entries
        .iter()
        .map(|entry| Member {
            id: entry.id,
            weight: u32::from(entry.weight) + 1,
        })
        .collect();
    ctl.ns.fib().nexthops.check_group(&members, config.fdb)?;
    let resilient = ty == nha::GRP_TYPE_RES;
    for given in attrs.types().filter(|&given| given > nha::GROUP_TYPE) {
        if given != nha::FDB && !(given == nha::RES_GROUP && resilient) {
            return invalid("No other attributes can be set in nexthop groups");
        }
    }
    config.group = Some(members);
    if resilient {
        let mut given = ResilientConfig::default();
        if let Some(nest) = attrs.get(nha::RES_GROUP) {
            let inside = nest.parse(&RESILIENT, Strictness::Strict)?;
            let ticks = |ticks: u32| u64::from(ticks) * (SECOND / USER_HZ);
            given.buckets = inside.u16(res_group::BUCKETS)?;
            if given.buckets == Some(0) {
                return invalid("Number of buckets needs to be non-0");
            }
            given.idle_timer = inside.u32(res_group::IDLE_TIMER)?.map(ticks);
            given.unbalanced_timer = inside.u32(res_group::UNBALANCED_TIMER)?.map(ticks);
        }
        config.resilient = Some(given);
    }
    Ok(())
}

/// Notifies the listeners of changes that a request caused.
fn notify(ctl: &mut Ctl<'_>, changes: &[Change<Arc<Device>>]) {
    let ns = ctl.ns.clone();
    let flags = ctl.message.header.flags;
    for change in changes {
        match change {
            Change::Object { new, id, state } => {
                let ty = match new {
                    true => rtm::NEWNEXTHOP,
                    false => rtm::DELNEXTHOP,
                };
                ctl.notify(&ns, rtm::grp::NEXTHOP, ty, flags, |out| {
                    fill(out, *id, state);
                });
            }
            Change::Bucket { .. } => hear(ctl.stack, &ns, change),
            Change::Entries(entries) => {
                for entry in entries {
                    let device = ctl.stack.device(entry.device, ctl.guard);
                    if let Some((device, fdb)) = device.and_then(|d| Some((d, d.link.fdb()?))) {
                        fdb.lost_object(ctl.stack, ctl.guard, device, entry.mac, entry.vni);
                    }
                }
            }
            Change::V4(event) => super::route::notify(ctl, std::slice::from_ref(event)),
            Change::V6(event) => super::route::notify(ctl, std::slice::from_ref(event)),
        }
    }
}

/// Notifies the listeners of a bucket that moved (`nexthop_bucket_notify`).
pub fn hear(_stack: &Stack, ns: &Namespace, change: &Change<Arc<Device>>) {
    if let Change::Bucket { id, state, index } = change {
        let ty = (rtm::NEWNEXTHOPBUCKET, weir_netlink::nlm::F_REPLACE);
        announce_with(ns, rtm::grp::NEXTHOP, ty, |out| {
            fill_bucket(out, *id, state, *index);
        });
    }
}

/// Writes an object (`nh_fill_node`).
fn fill(out: &mut Writer, id: u32, state: &Known) {
    let first = state.hops.first();
    let mut header = NhMsg {
        protocol: state.protocol,
        ..NhMsg::default()
    };
    match &state.kind {
        Kind::Group {
            members,
            fdb,
            resilient,
            ..
        } => {
            out.fixed(&header);
            out.put_u32(nha::ID, id);
            if *fdb {
                out.put_flag(nha::FDB);
            }
            let ty = match resilient {
                Some(_) => nha::GRP_TYPE_RES,
                None => nha::GRP_TYPE_MPATH,
            };
            out.put_u16(nha::GROUP_TYPE, ty);
            let mut entries = Writer::new();
            for member in members {
                entries.fixed(&NextHopGrp {
                    id: member.id,
                    weight: (member.weight.max(1) - 1) as u8,
                    ..NextHopGrp::default()
                });
            }
            out.put(nha::GROUP, entries.bytes());
            if let Some(buckets) = resilient {
                fill_resilient(out, buckets);
            }
        }
        &Kind::Single {
            family,
            blackhole,
            fdb,
        } => {
            header.family = family;
            header.flags = first.map_or(0, |hop| u32::from(hop.flags()));
            if !blackhole {
                header.scope = first.map_or(0, |hop| hop.scope);
            }
            out.fixed(&header);
            out.put_u32(nha::ID, id);
            if blackhole {
                out.put_flag(nha::BLACKHOLE);
                return;
            }
            if fdb {
                out.put_flag(nha::FDB);
            } else if let Some(hop) = first {
                out.put_u32(nha::OIF, hop.oif);
            }
            if let Some(gateway) = first.and_then(|hop| hop.gateway) {
                out.put_ip(nha::GATEWAY, gateway);
            }
        }
    }
}

/// Returns a time in hundredths of a second.
fn ticks(time: u64) -> u64 {
    time / (SECOND / USER_HZ)
}

/// Writes the attributes of a resilient group (`nla_put_nh_group_res`).
fn fill_resilient(out: &mut Writer, buckets: &Resilient) {
    let nest = out.nest(nha::RES_GROUP);
    out.put_u16(res_group::BUCKETS, buckets.buckets());
    out.put_u32(res_group::IDLE_TIMER, ticks(buckets.idle_timer) as u32);
    let timer = ticks(buckets.unbalanced_timer) as u32;
    out.put_u32(res_group::UNBALANCED_TIMER, timer);
    let time = ticks(buckets.unbalanced());
    out.put_u64_pad(res_group::UNBALANCED_TIME, time, res_group::PAD);
    out.end(nest);
}

/// Returns the id of a bucket's member.
fn member_of(state: &Known, index: u16) -> Option<u32> {
    match &state.kind {
        Kind::Group {
            members,
            resilient: Some(buckets),
            ..
        } => Some(members.get(buckets.member(index)?)?.id),
        _ => None,
    }
}

/// Writes a bucket (`nh_fill_res_bucket`).
fn fill_bucket(out: &mut Writer, id: u32, state: &Known, index: u16) {
    let Kind::Group {
        resilient: Some(buckets),
        ..
    } = &state.kind
    else {
        return;
    };
    out.fixed(&NhMsg {
        protocol: state.protocol,
        ..NhMsg::default()
    });
    out.put_u32(nha::ID, id);
    let nest = out.nest(nha::RES_BUCKET);
    out.put_u16(res_bucket::INDEX, index);
    out.put_u32(res_bucket::NH_ID, member_of(state, index).unwrap_or(0));
    let idle = ticks(buckets.idle(index));
    out.put_u64_pad(res_bucket::IDLE_TIME, idle, res_bucket::PAD);
    out.end(nest);
}

/// Parses a request that names an object (`__nh_valid_get_del_req`).
fn requested<'a>(ctl: &Ctl<'a>, policy: &'static Policy) -> Result<(u32, Table<'a>), Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<NhMsg>(policy, Strictness::Strict)?;
    if header.protocol != 0 || header.resvd != 0 || header.scope != 0 || header.flags != 0 {
        return invalid("Invalid values in header");
    }
    match attrs.u32(nha::ID)? {
        None => invalid("Nexthop id is missing"),
        Some(0) => invalid("Invalid nexthop id"),
        Some(id) => Ok((id, attrs)),
    }
}

/// Answers with one object (`rtm_get_nexthop`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let id = requested(ctl, &GET)?.0;
    let state = ctl.ns.fib().nexthops.state(id);
    let state = state.ok_or_else(|| Error::new(errno::ENOENT))?;
    ctl.reply(rtm::NEWNEXTHOP, 0, |out| fill(out, id, &state))
}

/// Returns a resilient group and the number of its buckets (`nexthop_find_group_resilient`).
fn resilient(ctl: &Ctl<'_>, id: u32) -> Result<(Arc<Known>, u16), Error> {
    let state = ctl.ns.fib().nexthops.state(id);
    let state = state.ok_or_else(|| Error::new(errno::ENOENT))?;
    match &state.kind {
        Kind::Single { .. } => invalid("Not a nexthop group"),
        Kind::Group {
            resilient: None, ..
        } => invalid("Nexthop group not of type resilient"),
        Kind::Group {
            resilient: Some(buckets),
            ..
        } => {
            let count = buckets.buckets();
            Ok((state, count))
        }
    }
}

/// Answers with one bucket (`rtm_get_nexthop_bucket`).
fn get_bucket(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (id, attrs) = requested(ctl, &GET_BUCKET)?;
    let Some(nest) = attrs.get(nha::RES_BUCKET) else {
        return invalid("Bucket information is missing");
    };
    let inside = nest.parse(&BUCKET_INDEX, Strictness::Strict)?;
    let Some(index) = inside.u16(res_bucket::INDEX)? else {
        return invalid("Bucket index is missing");
    };
    let (state, count) = resilient(ctl, id)?;
    if index >= count {
        return Err(Error::msg(errno::ENOENT, "Bucket index out of bounds"));
    }
    ctl.reply(rtm::NEWNEXTHOPBUCKET, 0, |out| {
        fill_bucket(out, id, &state, index);
    })
}

/// The filter of a dump (`struct nh_dump_filter`).
#[derive(Debug, Clone, Copy)]
struct Filter {
    family: u8,
    oif: u32,
    master: u32,
    groups: bool,
    /// The member of buckets.
    member: u32,
}

impl Filter {
    /// Parses the part that both dumps share (`__nh_valid_dump_req`).
    fn new(header: &NhMsg, attrs: &Table<'_>) -> Result<Self, Error> {
        let index = |ty, text| match attrs.u32(ty)?.unwrap_or(0) {
            index if index > i32::MAX as u32 => invalid(text),
            index => Ok(index),
        };
        let filter = Self {
            family: header.family,
            oif: index(nha::OIF, "Invalid device index")?,
            master: index(nha::MASTER, "Invalid master device index")?,
            groups: attrs.has(nha::GROUPS),
            member: 0,
        };
        if header.protocol != 0 || header.resvd != 0 || header.scope != 0 || header.flags != 0 {
            return invalid("Invalid values in header for nexthop dump request");
        }
        Ok(filter)
    }

    /// Returns whether an object is shown (`nh_dump_filtered`).
    fn takes(&self, ctl: &DumpCtl<'_>, state: &Known) -> bool {
        if self.groups && !state.is_group() {
            return false;
        }
        if self.oif == 0 && self.master == 0 && self.family == 0 {
            return true;
        }
        let Kind::Single { family, .. } = state.kind else {
            return false;
        };
        let device = state.hops.first().and_then(|hop| hop.device.as_ref());
        let master = || device.and_then(|device| device.master(ctl.guard));
        (self.family == 0 || family == self.family)
            && (self.oif == 0 || device.is_some_and(|device| device.ifindex() == self.oif))
            && (self.master == 0 || master().is_some_and(|own| own.ifindex() == self.master))
    }
}

/// Objects that one lock of the table fetches.
const BATCH: usize = 64;

/// A dump of objects, which goes on behind the last id.
struct Objects {
    filter: Filter,
    next: Option<u32>,
}

impl Dump for Objects {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        while let Some(from) = self.next {
            let some = ctl.ns.fib().nexthops.list(from, BATCH);
            for (id, state) in &some {
                let shown = self.filter.takes(ctl, state);
                if shown && !ctl.message(out, rtm::NEWNEXTHOP, |out| fill(out, *id, state)) {
                    self.next = Some(*id);
                    return match out.is_empty() {
                        true => Err(Error::new(errno::EMSGSIZE)),
                        false => Ok(false),
                    };
                }
                self.next = id.checked_add(1);
            }
            if some.len() < BATCH {
                break;
            }
        }
        Ok(true)
    }

    fn fill_one(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        let Some(from) = self.next else {
            return Ok(true);
        };
        let fib = ctl.ns.fib();
        match fib.nexthops.list(from, 1).first() {
            Some((id, state)) => {
                self.next = id.checked_add(1);
                let shown = self.filter.takes(ctl, state);
                if shown && !ctl.message(out, rtm::NEWNEXTHOP, |out| fill(out, *id, state)) {
                    return Err(Error::new(errno::EMSGSIZE));
                }
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn generation(&self, ctl: &DumpCtl<'_>) -> u32 {
        ctl.ns.fib().nexthops.generation()
    }
}

/// Dumps the objects (`rtm_dump_nexthop`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let message = ctl.message;
    let (header, attrs) = message.parse::<NhMsg>(&DUMP, Strictness::Strict)?;
    let filter = Filter::new(&header, &attrs)?;
    Ok(Box::new(Objects {
        filter,
        next: Some(0),
    }))
}

/// Dumps the buckets of resilient groups (`rtm_dump_nexthop_bucket`).
fn dump_buckets(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let message = ctl.message;
    let parsed = message.parse::<NhMsg>(&DUMP_BUCKETS, Strictness::Strict);
    // Linux gives no text for these attributes.
    let (header, attrs) = parsed.map_err(|error| Error::new(error.errno))?;
    let id = |id: Option<u32>| match id {
        Some(0) => invalid("Invalid nexthop id"),
        id => Ok(id.unwrap_or(0)),
    };
    let group = id(attrs.u32(nha::ID)?)?;
    let member = match attrs.get(nha::RES_BUCKET) {
        None => 0,
        Some(nest) => {
            let inside = nest.parse(&BUCKET_MEMBER, Strictness::Strict)?;
            id(inside.u32(res_bucket::NH_ID)?)?
        }
    };
    let filter = Filter {
        member,
        ..Filter::new(&header, &attrs)?
    };
    let fib = ctl.ns.fib();
    let groups = match group {
        0 => fib.nexthops.list(0, usize::MAX),
        id => vec![(id, resilient(ctl, id)?.0)],
    };
    let mut buckets: Vec<(u32, Arc<Known>, u16)> = Vec::new();
    for (id, state) in groups {
        if let Kind::Group {
            resilient: Some(table),
            ..
        } = &state.kind
        {
            buckets.extend((0..table.buckets()).map(|index| (id, state.clone(), index)));
        }
    }
    Ok(Collected::boxed(
        buckets,
        false,
        move |ctl, (id, state, index), out| {
            let member = member_of(state, *index);
            let known = member.and_then(|member| ctl.ns.fib().nexthops.state(member));
            let shown = known.is_some_and(|known| filter.takes(ctl, &known))
                && (filter.member == 0 || member == Some(filter.member));
            !shown
                || ctl.message(out, rtm::NEWNEXTHOPBUCKET, |out| {
                    fill_bucket(out, *id, state, *index);
                })
        },
    ))
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bridge mdb`: RTM_NEWMDB, RTM_DELMDB and RTM_GETMDB (`br_mdb.c`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::mdb;
use weir_netlink::{
    Attr, BrPortMsg, Error, Policy, Rule, Strictness, Writer, af, attrs, errno, parse_at, policy,
};
use weir_packet::header::ethernet::BROADCAST;
use weir_packet::header::ndisc::ALL_NODES;
use weir_sync::rcu::Guard;

use super::context::Context;
use super::hosts::Mode;
use super::{Entry, Group, Key, Member, Snoop, Step};
use crate::bridge::Bridge;
use crate::bridge::port::{Port, state};
use crate::clock::{SECOND, USER_HZ};
use crate::device::Device;
use crate::request::Ctl;
use crate::stack::Stack;

/// The entries of a message of a dump, at most. Linux fills the reader's buffer.
const CHUNK: usize = 50;
/// `RTPROT_KERNEL`, `RTPROT_STATIC`
const PROTOCOLS: [u8; 2] = [2, 4];
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
/// The size of `struct br_mdb_entry` in octets.
const ENTRY: usize = 28;

static POLICY: Policy = policy! { max mdb::SET_ENTRY_MAX; };
static ATTRIBUTES: Policy = policy! { max mdb::ATTR_MAX; mdb::ATTR_SOURCE => Rule::binary(16) };

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

fn ticks(timer: Option<u64>, now: u64) -> u32 {
    timer.map_or(0, |time| {
        (time.saturating_sub(now) / (SECOND / USER_HZ)) as u32
    })
}

/// The time of a timer, and whether sources are shown.
type Shown = (Option<u64>, bool);

/// Writes `MDBA_MDB_ENTRY_INFO` of a member, or of the bridge's own host (`__mdb_fill_info`).
fn fill(
    own: u32,
    key: &Key,
    member: Option<&Member>,
    ((timer, sources), now): (Shown, u64),
    out: &mut Writer,
) {
    let permanent = member.is_some_and(|member| member.permanent);
    let (address, protocol) = match key.group {
        Group::V4(address) => (address.to_vec(), ETH_P_IP),
        Group::V6(address) => (address.to_vec(), ETH_P_IPV6),
        Group::Mac(address) => (address.to_vec(), 0),
    };
    let is_permanent = permanent || matches!(key.group, Group::Mac(_));
    let fast_leave = member.is_some_and(|member| member.fast_leave);
    let mut octets = Vec::with_capacity(ENTRY);
    octets.extend_from_slice(&member.map_or(own, |member| member.ifindex).to_ne_bytes());
    octets.push(u8::from(is_permanent));
    let by_group = member.is_some_and(|member| member.by_group);
    let blocked = member.is_some_and(|member| member.blocked);
    // `MDB_FLAGS_FAST_LEAVE`, `MDB_FLAGS_STAR_EXCL`, `MDB_FLAGS_BLOCKED`
    octets.push(u8::from(fast_leave) << 1 | u8::from(by_group) << 2 | u8::from(blocked) << 3);
    octets.extend_from_slice(&key.vid.to_ne_bytes());
    octets.extend_from_slice(&address);
    octets.resize(24, 0);
    octets.extend_from_slice(&protocol.to_be_bytes());
    octets.resize(ENTRY, 0);
    let nest = out.nest_noflag(mdb::ENTRY_INFO);
    out.raw(&octets);
    out.put_u32(mdb::EATTR_TIMER, ticks(timer, now));
    match key.source {
        Some(Group::V4(source)) => out.put(mdb::EATTR_SOURCE, &source),
        Some(Group::V6(source)) => out.put(mdb::EATTR_SOURCE, &source),
        _ => {}
    }
    if let Some(member) = member {
        out.put_u8(mdb::EATTR_RTPROT, PROTOCOLS[usize::from(member.by_user)]);
        if sources {
            fill_sources(member, now, out);
            out.put_u8(mdb::EATTR_GROUP_MODE, member.mode as u8);
        }
    }
    out.end(nest);
}

/// Writes `MDBA_MDB_EATTR_SRC_LIST` of a member that has sources (`__mdb_fill_srcs`).
fn fill_sources(member: &Member, now: u64, out: &mut Writer) {
    if member.sources().is_empty() {
        return;
    }
    let list = out.nest(mdb::EATTR_SRC_LIST);
    for source in member.sources() {
        let one = out.nest(mdb::SRCLIST_ENTRY);
        match source.address {
            Group::V4(address) => out.put(mdb::SRCATTR_ADDRESS, &address),
            Group::V6(address) => out.put(mdb::SRCATTR_ADDRESS, &address),
            Group::Mac(_) => {}
        }
        let timer = source.runs.then_some(source.expires);
        out.put_u32(mdb::SRCATTR_TIMER, ticks(timer, now));
        out.end(one);
    }
    out.end(list);
}

fn header(family: u8, ifindex: u32) -> Writer {
    let mut out = Writer::new();
    out.fixed(&BrPortMsg {
        family,
        ifindex,
        ..BrPortMsg::default()
    });
    out
}

/// Returns the notification of one member.
pub fn entry_body(own: u32, key: &Key, member: Option<&Member>, shown: Shown, now: u64) -> Vec<u8> {
    let mut out = header(af::BRIDGE, own);
    let (all, one) = (out.nest_noflag(mdb::MDB), out.nest_noflag(mdb::ENTRY));
    fill(own, key, member, (shown, now), &mut out);
    out.end(one);
    out.end(all);
    out.into_vec()
}

/// Returns the notification of a port that leads to routers.
pub fn router_body(own: u32, ifindex: u32, vid: u16) -> Vec<u8> {
    let mut out = header(af::BRIDGE, own);
    let (all, one) = (
        out.nest_noflag(mdb::ROUTER),
        out.nest_noflag(mdb::ROUTER_PORT),
    );
    out.raw(&ifindex.to_ne_bytes());
    if vid != 0 {
        out.put_u16(mdb::ROUTER_VID, vid);
    }
    out.end(one);
    out.end(all);
    out.into_vec()
}

/// Returns the bodies of RTM_GETMDB of a bridge. `None` means that the device is none.
pub fn messages(stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Option<Vec<Vec<u8>>> {
    let bridge = crate::bridge::bridge_in(device)?;
    let now = stack.clock.now();
    let own = device.ifindex();
    Some(bridge.snoop_step(stack, guard, |step| {
        let mut entries: Vec<(&Key, &Entry)> = step.snoop.entries.iter().collect();
        // The newest first.
        entries.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.made));
        let mut parts: Vec<&[(&Key, &Entry)]> = entries.chunks(CHUNK).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        let on = step.is_on();
        let body = |(at, part): (usize, &[(&Key, &Entry)])| {
            let mut out = header(0, own);
            if on {
                let nest = out.nest_noflag(mdb::MDB);
                for (key, entry) in part {
                    let one = out.nest_noflag(mdb::ENTRY);
                    let sources = step.snoop.shows_sources(key);
                    if entry.host {
                        let shown = (entry.host_timer, sources);
                        fill(own, key, None, (shown, now), &mut out);
                    }
                    for member in &entry.members {
                        let shown = (member.timer, sources);
                        fill(own, key, Some(member), (shown, now), &mut out);
                    }
                    out.end(one);
                }
                out.end(nest);
            }
            if at == last {
                fill_routers(step.snoop, step.context(), now, &mut out);
            }
            out.into_vec()
        };
        parts.into_iter().enumerate().map(body).collect()
    }))
}

/// Writes `MDBA_ROUTER` (`br_rports_fill_info`).
pub(super) fn fill_routers(snoop: &Snoop, context: &Context, now: u64, out: &mut Writer) {
    if context.reach.router.load(Relaxed) == 0 || !context.has_routers() {
        return;
    }
    let nest = out.nest_noflag(mdb::ROUTER);
    let ports = context.ports.iter();
    for one in ports.filter(|one| one.listed.contains(&true)) {
        let port = out.nest_noflag(mdb::ROUTER_PORT);
        out.raw(&one.port.device.ifindex().to_ne_bytes());
        let left = one.timers.map(|timer| ticks(timer, now));
        out.put_u32(mdb::ROUTER_TIMER, left[0].max(left[1]));
        // Linux shows the type that the port has for the bridge.
        out.put_u8(
            mdb::ROUTER_TYPE,
            snoop.contexts[0].router_of(one.port.number),
        );
        let types = [mdb::ROUTER_INET_TIMER, mdb::ROUTER_INET6_TIMER];
        for ((ty, listed), left) in types.into_iter().zip(one.listed).zip(left) {
            if listed {
                out.put_u32(ty, left);
            }
        }
        if context.vid != 0 {
            out.put_u16(mdb::ROUTER_VID, context.vid);
        }
        out.end(port);
    }
    out.end(nest);
}

/// `struct br_mdb_entry` of a request.
struct Wanted {
    ifindex: u32,
    permanent: bool,
    key: Key,
}

/// Reads and checks `MDBA_SET_ENTRY` (`is_valid_mdb_entry`).
fn wanted(attr: &Attr<'_>) -> Result<Wanted, Error> {
    let octets: &[u8; ENTRY] = attr
        .payload
        .try_into()
        .map_err(|_| text("bridge: Invalid MDBA_SET_ENTRY attribute length"))?;
    let ifindex = u32::from_ne_bytes([octets[0], octets[1], octets[2], octets[3]]);
    if ifindex == 0 {
        return Err(text("bridge: Zero entry ifindex is not allowed"));
    }
    let mut six = [0; 16];
    six.copy_from_slice(&octets[8..24]);
    let [a, b, c, d, e, f, ..] = six;
    let group = match u16::from_be_bytes([octets[24], octets[25]]) {
        ETH_P_IP if a & 0xf0 != 0xe0 => {
            return Err(text("bridge: IPv4 entry group address is not multicast"));
        }
        ETH_P_IP if [a, b, c] == [224, 0, 0] => {
            return Err(text("bridge: IPv4 entry group address is local multicast"));
        }
        ETH_P_IP => Group::V4([a, b, c, d]),
        ETH_P_IPV6 if six == ALL_NODES => {
            return Err(text(
                "bridge: IPv6 entry group address is link-local all nodes",
            ));
        }
        ETH_P_IPV6 => Group::V6(six),
        0 if a & 1 == 0 => return Err(text("bridge: L2 entry group is not multicast")),
        0 => Group::Mac([a, b, c, d, e, f]),
        _ => return Err(text("bridge: Unknown entry protocol")),
    };
    if octets[4] > 1 {
        return Err(text("bridge: Unknown entry state"));
    }
    let vid = u16::from_ne_bytes([octets[6], octets[7]]);
    if vid >= 4095 {
        return Err(text("bridge: Invalid entry VLAN id"));
    }
    let key = Key {
        vid,
        group,
        source: None,
    };
    Ok(Wanted {
        ifindex,
        permanent: octets[4] == 1,
        key,
    })
}

/// Reads and checks the source of `MDBA_SET_ENTRY_ATTRS` (`is_valid_mdb_source`).
fn source(attr: &Attr<'_>, group: Group) -> Result<Option<Group>, Error> {
    let inside = attr.attrs();
    let table = parse_at(
        inside.rest(),
        inside.offset(),
        &ATTRIBUTES,
        Strictness::Strict,
    )?;
    let Some(source) = table.get(mdb::ATTR_SOURCE) else {
        return Ok(None);
    };
    if !(4..=16).contains(&source.payload.len()) {
        return Err(Error::new(errno::ERANGE));
    }
    match group {
        Group::V4(_) => match <[u8; 4]>::try_from(source.payload) {
            Err(_) => Err(text("bridge: IPv4 invalid source address length")),
            Ok([first, ..]) if first & 0xf0 == 0xe0 => {
                Err(text("bridge: IPv4 multicast source address is not allowed"))
            }
            Ok([0, 0, 0, 0]) => Ok(None),
            Ok(source) => Ok(Some(Group::V4(source))),
        },
        Group::V6(_) => match <[u8; 16]>::try_from(source.payload) {
            Err(_) => Err(text("bridge: IPv6 invalid source address length")),
            Ok([0xff, ..]) => Err(text("bridge: IPv6 multicast source address is not allowed")),
            Ok(source) if source == [0; 16] => Ok(None),
            Ok(source) => Ok(Some(Group::V6(source))),
        },
        Group::Mac(_) => Err(text("bridge: Invalid protocol used with source address")),
    }
}

/// Adds or deletes entries as RTM_NEWMDB or RTM_DELMDB asks for it (`br_mdb_add`, `br_mdb_del`).
///
/// # Errors
/// Linux's.
pub fn change(ctl: &mut Ctl<'_>, delete: bool) -> Result<(), Error> {
    let (stack, guard) = (ctl.stack, ctl.guard);
    let (message, table) = ctl
        .message
        .parse::<BrPortMsg>(&POLICY, Strictness::Liberal)?;
    if message.ifindex == 0 {
        return Err(text("bridge: Invalid bridge ifindex"));
    }
    let missing = Error::msg(errno::ENODEV, "bridge: Bridge device doesn't exist");
    let device = ctl.ns.device(message.ifindex, guard).ok_or(missing)?;
    let other = Error::msg(errno::EOPNOTSUPP, "bridge: Device is not a bridge");
    let bridge = crate::bridge::bridge_in(device).ok_or(other)?;
    let entry = table.get(mdb::SET_ENTRY);
    let entry = entry.ok_or(text("bridge: Missing MDBA_SET_ENTRY attribute"))?;
    let mut wanted = wanted(&entry)?;
    if let Some(attr) = table.get(mdb::SET_ENTRY_ATTRS) {
        wanted.key.source = source(&attr, wanted.key.group)?;
    }
    if !delete {
        if !device.is_up() {
            return Err(text("bridge: Bridge device is not running"));
        }
        if !bridge.snooping.on.load(Relaxed) {
            return Err(text("bridge: Bridge's multicast processing is disabled"));
        }
    }
    let port = match wanted.ifindex == device.ifindex() {
        true => None,
        false => {
            let missing = match delete {
                true => Error::new(errno::ENODEV),
                false => Error::msg(errno::ENODEV, "bridge: Port net device doesn't exist"),
            };
            let port = ctl.ns.device(wanted.ifindex, guard).ok_or(missing)?;
            let Some((above, _)) = crate::bridge::bridge_of(port, guard) else {
                return Err(text("bridge: Net device is not a bridge port"));
            };
            let found = bridge.ports.load(guard).of(port);
            let found = found.filter(|_| Arc::ptr_eq(above, device));
            let port = found.ok_or(text("bridge: Port belongs to a different bridge device"))?;
            let disabled = port.state.load(Relaxed) == state::DISABLED;
            if !delete && disabled && !wanted.permanent {
                return Err(text(
                    "bridge: Port is in disabled state and entry is not permanent",
                ));
            }
            Some(port)
        }
    };
    let group = match port {
        Some(port) => port.vlans.load(guard),
        None => bridge.own_vlans.load(guard),
    };
    let all = bridge.settings.filters().is_some() && wanted.key.vid == 0;
    let vids: Vec<u16> = match all {
        true => group.all_usable().map(|vlan| vlan.vid).collect(),
        false => vec![wanted.key.vid],
    };
    let up = device.is_up();
    let mut done = match delete && vids.is_empty() {
        _ if !delete || all => Ok(()),
        _ => Err(Error::new(errno::EINVAL)),
    };
    for vid in vids {
        let key = Key { vid, ..wanted.key };
        done = bridge.snoop_step(stack, guard, |step| match delete {
            true => step.delete(&key, port.map(|port| &**port), up),
            false => {
                step.choose(&key)?;
                step.add(&key, port.map(|port| &**port), wanted.permanent)
            }
        });
        if done.is_err() && !delete {
            break;
        }
    }
    done
}

impl Step<'_> {
    /// Goes to the context of a new member (`__br_mdb_choose_context`).
    fn choose(&mut self, key: &Key) -> Result<(), Error> {
        if !self.shared.by_vlan.load(Relaxed) {
            return Ok(());
        }
        if key.vid == 0 {
            return Err(text(
                "bridge: Cannot add an entry without a vlan when vlan snooping is enabled",
            ));
        }
        match self.enter(key.vid) {
            true => Ok(()),
            false => Err(text("bridge: Vlan is not configured")),
        }
    }

    /// Adds a member (`br_mdb_add_group`).
    fn add(&mut self, key: &Key, port: Option<&Port>, permanent: bool) -> Result<(), Error> {
        let is_ethernet = matches!(key.group, Group::Mac(_));
        if port.is_none() && !is_ethernet {
            if permanent {
                return Err(text("bridge: Flags are not allowed for host groups"));
            }
            if key.source.is_some() {
                return Err(text(
                    "bridge: Groups with sources cannot be manually host joined",
                ));
            }
        }
        if is_ethernet && !permanent {
            return Err(text("bridge: Only permanent L2 entries allowed"));
        }
        let entry = self.snoop.entries.get(key);
        let Some(port) = port else {
            if entry.is_some_and(|entry| entry.host) {
                return Err(Error::msg(
                    errno::EEXIST,
                    "bridge: Group is already joined by host",
                ));
            }
            return self.host_join(key);
        };
        let mut members = entry.into_iter().flat_map(|entry| &entry.members);
        if members.any(|member| member.port == port.number) {
            return Err(Error::msg(
                errno::EEXIST,
                "bridge: Group is already joined by port",
            ));
        }
        let timer = self.now + self.context().options.membership();
        let timer = (!permanent).then_some(timer);
        let mode = match key.is_star() {
            true => Mode::Exclude,
            false => Mode::Include,
        };
        let member = Member {
            permanent,
            by_user: true,
            timer,
            mode,
            ..Member::new(port, BROADCAST)
        };
        let id = (*key, self.insert(key, member, timer)?);
        let options = &self.context().options;
        let family = key.group.family();
        if family.is_some_and(|family| options.has_sources(family)) {
            match mode {
                Mode::Exclude => self.follow_mode(&id, mode),
                Mode::Include => self.add_excluding(&id),
            }
        }
        Ok(())
    }

    /// Deletes a member (`__br_mdb_del`).
    fn delete(&mut self, key: &Key, port: Option<&Port>, up: bool) -> Result<(), Error> {
        let none = || Error::new(errno::EINVAL);
        if !up || !self.is_on() {
            return Err(none());
        }
        let found = match port {
            Some(port) => self.remove(key, port.number, None, false),
            None => {
                let host = self.snoop.entries.get(key).is_some_and(|entry| entry.host);
                self.host_leave(key);
                host
            }
        };
        if found { Ok(()) } else { Err(none()) }
    }
}

/// Returns whether a strict dump request is valid (`br_mdb_valid_dump_req`).
///
/// # Errors
/// EINVAL with Linux's text.
pub fn check_dump(message: &weir_netlink::Message<'_>) -> Result<(), Error> {
    let Ok(header) = message.fixed::<BrPortMsg>() else {
        return Err(text("bridge: Invalid header for mdb dump request"));
    };
    if header.ifindex != 0 {
        return Err(text(
            "bridge: Filtering by device index is not supported for mdb dump request",
        ));
    }
    if attrs(message.payload().get(8..).unwrap_or_default())
        .next()
        .is_some()
    {
        return Err(text("Invalid data after header in mdb dump request"));
    }
    Ok(())
}

impl Bridge {
    /// Returns the octets of `BRIDGE_XSTATS_MCAST`.
    pub fn multicast_octets(&self, port: Option<&Port>) -> Vec<u8> {
        match port {
            Some(port) => port.groups.octets(),
            None => self.snooping.own.octets(),
        }
    }
}

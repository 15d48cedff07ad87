// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours: RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH (`net/core/neighbour.c`).
//!
//! Not implemented: proxy entries, managed entries. Forwarding tables (`bridge fdb`) are in
//! [`super::fdb`].

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::nda::{self, ntf};
use weir_netlink::{
    Error, Message, NdMsg, NdaCacheInfo, Policy, Rule, Strictness, Table, Writer, af, errno, nlm,
    policy, rtm,
};
use weir_sync::rcu::Guard;

use crate::clock::{SECOND, USER_HZ};
use crate::device::{Device, DeviceKey};
use crate::neigh::WithNeighbours;
use crate::neigh::proxy::Proxy;
use crate::neigh::{Neighbour, Refused, Told, Update, nud};
use crate::rtnl::{Collected, Ctl, Dump, Handler};
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::stack::Stack;

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWNEIGH,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELNEIGH,
        doit: Some(delete),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETNEIGH,
        doit: Some(get),
        dumpit: Some(dump),
    },
];

/// `nda_policy`
static POLICY: Policy = policy! {
    max nda::MAX;
    nda::DST => Rule::binary(32),
    nda::LLADDR => Rule::binary(32),
    nda::CACHEINFO => Rule::unspec(16),
    nda::PROBES => Rule::u32(),
    nda::VLAN => Rule::u16().range(0, 4094),
    nda::PORT => Rule::u16(),
    nda::VNI => Rule::u32(),
    nda::IFINDEX => Rule::u32(),
    nda::MASTER => Rule::u32(),
    nda::PROTOCOL => Rule::u8(),
    nda::NH_ID => Rule::u32(),
    nda::FLAGS_EXT => Rule::u32().mask(nda::ntf_ext::MANAGED as u64),
    nda::FDB_EXT_ATTRS => Rule::nested_any(),
};

/// Tells the listeners of an entry's change, or asks them for its address (`neigh_app_ns`).
pub(super) fn hear(stack: &Stack, guard: &Guard, entry: &Neighbour, what: Told) {
    let head = match what {
        Told::Changed => (rtm::NEWNEIGH, 0),
        Told::Gone => (rtm::DELNEIGH, 0),
        Told::Wanted => (rtm::GETNEIGH, nlm::F_REQUEST),
    };
    tell(stack, guard, entry, head);
}

fn tell(stack: &Stack, guard: &Guard, entry: &Neighbour, head: (u16, u16)) {
    let Some(device) = stack.device(entry.key.device, guard) else {
        return;
    };
    let ns = device.namespace(guard);
    crate::rtnl::announce_with(ns, rtm::grp::NEIGH, head, |out| {
        fill(stack, device, entry, 0, out)
    });
}

/// Writes an entry (`neigh_fill_info`).
fn fill(stack: &Stack, device: &Device, entry: &Neighbour, held: u32, out: &mut Writer) {
    let (confirmed, updated, probes, protocol) = entry.facts();
    out.fixed(&NdMsg {
        family: family_of(entry.key.address),
        ifindex: device.ifindex() as i32,
        state: u16::from(entry.state()),
        flags: entry.flags(),
        ty: kind_of(entry.key.address),
        ..NdMsg::default()
    });
    out.put_ip(nda::DST, entry.key.address);
    if let Some(mac) = entry.mac() {
        out.put(nda::LLADDR, &mac);
    }
    let now = stack.clock.now();
    let ticks = |time: u64| (time / (SECOND / USER_HZ)) as u32;
    let age = |time: u64| ticks(now.saturating_sub(time));
    out.put_u32(nda::PROBES, probes);
    out.put_fixed(
        nda::CACHEINFO,
        &NdaCacheInfo {
            confirmed: ticks((now as i64).saturating_sub(confirmed).max(0) as u64),
            used: age(entry.used()),
            updated: age(updated),
            refcnt: held + u32::from(entry.has_timer()),
        },
    );
    if protocol != 0 {
        out.put_u8(nda::PROTOCOL, protocol);
    }
}

fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() {
        af::INET
    } else {
        af::INET6
    }
}

/// Returns the `RTN_*` type of the address, as Linux's constructors set it.
fn kind_of(address: IpAddr) -> u8 {
    if address.is_multicast() {
        weir_netlink::rta::rtn::MULTICAST
    } else {
        weir_netlink::rta::rtn::UNICAST
    }
}

/// Returns the destination of a request.
fn destination(message: &NdMsg, attrs: &Table<'_>) -> Result<IpAddr, Error> {
    let dst = attrs
        .get(nda::DST)
        .ok_or_else(|| Error::msg(errno::EINVAL, "Network address not specified"))?;
    let short = || Error::msg(errno::EINVAL, "Invalid network address");
    match message.family {
        af::INET => dst
            .payload
            .first_chunk::<4>()
            .map(|octets| IpAddr::from(*octets))
            .ok_or_else(short),
        af::INET6 => dst
            .payload
            .first_chunk::<16>()
            .map(|octets| IpAddr::from(*octets))
            .ok_or_else(short),
        _ => Err(Error::new(errno::EAFNOSUPPORT)),
    }
}

/// Returns the device of a request, or `None` if it names none.
fn device_of(ctl: &Ctl<'_>, message: &NdMsg) -> Result<Option<Arc<Device>>, Error> {
    match message.ifindex {
        0 => Ok(None),
        index if index < 0 => Err(Error::new(errno::ENODEV)),
        index => ctl
            .ns
            .device(index as u32, ctl.guard)
            .cloned()
            .map(Some)
            .ok_or_else(|| Error::new(errno::ENODEV)),
    }
}

/// Adds or changes a proxy entry.
fn new_proxy(ctl: &Ctl<'_>, message: &NdMsg, address: IpAddr, protocol: u8) -> Result<(), Error> {
    let device = device_of(ctl, message)?;
    // The protocol needs a device to join the group of the address (`pndisc_constructor`).
    if address.is_ipv6() && device.as_ref().is_none_or(|device| !device.has_ipv6()) {
        return Err(Error::new(errno::ENOBUFS));
    }
    let added = ctl.ns.neighbours().proxies.set(Proxy {
        address,
        device: device.as_ref().map(|device| device.key),
        flags: message.flags,
        protocol,
    });
    if let Some(device) = device.filter(|_| added) {
        crate::neigh::proxied(ctl.stack, ctl.guard, &device, address, true);
    }
    Ok(())
}

/// Deletes a proxy entry (`pneigh_delete`).
fn delete_proxy(ctl: &Ctl<'_>, device: Option<&Arc<Device>>, address: IpAddr) -> Result<(), Error> {
    let key = device.map(|device| device.key);
    if !ctl.ns.neighbours().proxies.remove(key, address) {
        return Err(Error::new(errno::ENOENT));
    }
    if let Some(device) = device {
        crate::neigh::proxied(ctl.stack, ctl.guard, device, address, false);
    }
    Ok(())
}

/// Writes a proxy entry (`pneigh_fill_info`).
fn fill_proxy(stack: &Stack, guard: &Guard, proxy: &Proxy, out: &mut Writer) {
    let device = proxy.device.and_then(|key| stack.device(key, guard));
    out.fixed(&NdMsg {
        family: family_of(proxy.address),
        ifindex: device.map_or(0, |device| device.ifindex() as i32),
        flags: proxy.flags | ntf::PROXY,
        ty: weir_netlink::rta::rtn::UNICAST,
        ..NdMsg::default()
    });
    out.put_ip(nda::DST, proxy.address);
    if proxy.protocol != 0 {
        out.put_u8(nda::PROTOCOL, proxy.protocol);
    }
}

/// Returns whether a request concerns a forwarding table.
fn is_bridge(request: &Message<'_>) -> bool {
    request.payload().first() == Some(&af::BRIDGE)
}

/// Adds or changes an entry (`neigh_add`).
fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    if is_bridge(&request) {
        return super::fdb::new(ctl);
    }
    let (message, attrs) = request.parse::<NdMsg>(&POLICY, Strictness::Liberal)?;
    let address = destination(&message, &attrs)?;
    if message.flags & ntf::PROXY != 0 {
        let protocol = attrs.u8(nda::PROTOCOL)?.unwrap_or(0);
        return new_proxy(ctl, &message, address, protocol);
    }
    if attrs.u32(nda::FLAGS_EXT)?.unwrap_or(0) != 0 {
        return Err(Error::unsupported("Managed entries are not supported"));
    }
    let Some(device) = device_of(ctl, &message)? else {
        return Err(Error::msg(errno::EINVAL, "Device not specified"));
    };
    let mac = match attrs.get(nda::LLADDR) {
        Some(attr) => Some(
            *attr
                .payload
                .first_chunk::<6>()
                .ok_or_else(|| Error::msg(errno::EINVAL, "Invalid link address"))?,
        ),
        None => None,
    };
    let state = message.state as u8;
    let present = ctl
        .ns
        .neighbours()
        .get(device.key, address, ctl.guard)
        .cloned();
    let replace = present.is_none() || ctl.has(nlm::F_REPLACE);
    let entry = match present {
        None => {
            if !ctl.has(nlm::F_CREATE) {
                return Err(Error::new(errno::ENOENT));
            }
            // IPv6 must be enabled on the device (`ndisc_allow_add`).
            let disabled = device.conf().ipv6.on(crate::sysctl::Ipv6Conf::DisableIpv6);
            if address.is_ipv6() && (disabled || !device.has_ipv6()) {
                return Err(Error::msg(errno::EINVAL, "IPv6 is disabled on this device"));
            }
            if address.is_ipv4() && !device.has_ipv4() {
                return Err(Error::new(errno::EINVAL));
            }
            let permanent = state & nud::PERMANENT != 0;
            ctl.ns
                .neighbours()
                .make(ctl.stack, &device, address, permanent, ctl.guard)
                .ok_or_else(|| Error::new(errno::ENOBUFS))?
        }
        Some(_) if ctl.has(nlm::F_EXCL) => return Err(Error::new(errno::EEXIST)),
        Some(entry) => entry,
    };
    if let Some(protocol) = attrs.u8(nda::PROTOCOL)? {
        entry.set_protocol(protocol);
    }
    let learned = message.flags & ntf::EXT_LEARNED != 0;
    if message.flags & ntf::USE != 0 {
        return entry
            .make_used(ctl.stack, ctl.guard, &device, learned)
            .map_err(told);
    }
    let update = Update {
        mac,
        state,
        // Without REPLACE, an existing address stays (`NEIGH_UPDATE_F_OVERRIDE`).
        replace,
        weak: false,
        admin: true,
        router: replace.then_some(message.flags & ntf::ROUTER != 0),
        learned_elsewhere: Some(learned),
    };
    entry
        .update(ctl.stack, ctl.guard, &device, update)
        .map_err(told)
}

/// Converts the reason of a rejected update to an error for the client.
fn told(refused: Refused) -> Error {
    match refused {
        Refused::NoAddress => Error::msg(errno::EINVAL, "No link layer address given"),
        Refused::Dead => Error::msg(errno::EPERM, "Neighbor entry is now dead"),
        Refused::NotAdmin => Error::new(errno::EPERM),
    }
}

/// Deletes an entry (`neigh_delete`).
fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    if is_bridge(&request) {
        return super::fdb::delete(ctl);
    }
    let (message, attrs) = request.parse::<NdMsg>(&POLICY, Strictness::Liberal)?;
    let address = destination(&message, &attrs)?;
    let device = device_of(ctl, &message)?;
    if message.flags & ntf::PROXY != 0 {
        return delete_proxy(ctl, device.as_ref(), address);
    }
    let Some(device) = device else {
        return Err(Error::new(errno::EINVAL));
    };
    let neighbours = &ctl.ns.neighbours();
    let entry = neighbours
        .get(device.key, address, ctl.guard)
        .cloned()
        .ok_or_else(|| Error::new(errno::ENOENT))?;
    let update = Update {
        mac: None,
        state: nud::FAILED,
        replace: true,
        weak: false,
        admin: true,
        router: None,
        learned_elsewhere: Some(false),
    };
    entry
        .update(ctl.stack, ctl.guard, &device, update)
        .map_err(|_| Error::new(errno::EINVAL))?;
    neighbours.remove(ctl.stack, ctl.guard, &entry);
    Ok(())
}

/// Returns an entry (`neigh_get`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    if is_bridge(&request) {
        return super::fdb::get(ctl);
    }
    let (message, attrs) = request
        .parse::<NdMsg>(&POLICY, ctl.get_strictness())
        .map_err(|error| error.or_msg("Invalid header for neighbor get request"))?;
    let address = destination(&message, &attrs)?;
    let device = device_of(ctl, &message)?;
    if message.flags & ntf::PROXY != 0 {
        let key = device.map(|device| device.key);
        let proxy = ctl.ns.neighbours().proxies.find(key, address);
        let proxy =
            proxy.ok_or_else(|| Error::msg(errno::ENOENT, "Proxy neighbour entry not found"))?;
        let (stack, guard) = (ctl.stack, ctl.guard);
        return ctl.reply(rtm::NEWNEIGH, 0, |out| {
            fill_proxy(stack, guard, &proxy, out)
        });
    }
    let Some(device) = device else {
        return Err(Error::msg(errno::EINVAL, "No device specified"));
    };
    let entry = ctl
        .ns
        .neighbours()
        .get(device.key, address, ctl.guard)
        .cloned()
        .ok_or_else(|| Error::msg(errno::ENOENT, "Neighbour entry not found"))?;
    let stack = ctl.stack;
    // The lookup itself holds a reference.
    ctl.reply(rtm::NEWNEIGH, 0, |out| fill(stack, &device, &entry, 1, out))
}

/// Dumps entries (`neigh_dump_info`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    if is_bridge(&request) {
        return super::fdb::dump(ctl);
    }
    let (message, attrs) = request
        .parse::<NdMsg>(&POLICY, ctl.get_strictness())
        .map_err(|error| error.or_msg("Invalid header for neighbor dump request"))?;
    if ctl.strict && (message.ifindex != 0 || message.state != 0 || message.ty != 0) {
        return Err(Error::msg(
            errno::EINVAL,
            "Invalid values in header for neighbor dump request",
        ));
    }
    let index = attrs.u32(nda::IFINDEX)?.filter(|index| *index != 0);
    let master = attrs.u32(nda::MASTER)?.filter(|index| *index != 0);
    let mut entries = ctl.ns.neighbours().all(ctl.guard);
    let family = message.family;
    // `u32::MAX` asks for entries of devices without a master (`neigh_master_filtered`).
    let (stack, guard) = (ctl.stack, ctl.guard);
    let is_below = |device: DeviceKey| {
        master.is_none_or(|wanted| {
            let device = stack.device(device, guard);
            let above = device.map(|device| {
                let master = device.master(guard);
                master.map_or(u32::MAX, |master| master.ifindex())
            });
            above == Some(wanted)
        })
    };
    if message.flags & ntf::PROXY != 0 {
        let mut proxies = ctl.ns.neighbours().proxies.all();
        proxies.retain(|proxy| {
            let device = proxy
                .device
                .and_then(|key| ctl.stack.device(key, ctl.guard));
            let here = index.is_none_or(|index| device.is_some_and(|d| d.ifindex() == index));
            let is_family = family == af::UNSPEC || family_of(proxy.address) == family;
            here && is_family && proxy.device.map_or(master.is_none(), is_below)
        });
        let filtered = index.is_some() || master.is_some();
        return Ok(Collected::boxed(
            proxies,
            filtered,
            |ctl, proxy: &Proxy, out| {
                ctl.message(out, rtm::NEWNEIGH, |out| {
                    fill_proxy(ctl.stack, ctl.guard, proxy, out)
                })
            },
        ));
    }
    entries.retain(|entry| is_below(entry.key.device));
    let wanted = match index {
        Some(index) => Some(ctl.ns.device(index, ctl.guard).map(|device| device.key)),
        None => None,
    };
    entries.retain(|entry| {
        (family == af::UNSPEC || family_of(entry.key.address) == family)
            && wanted.is_none_or(|key| key == Some(entry.key.device))
    });
    let filtered = index.is_some() || master.is_some();
    Ok(Collected::boxed(
        entries,
        filtered,
        |ctl, entry: &Arc<Neighbour>, out| {
            let Some(device) = ctl.stack.device(entry.key.device, ctl.guard) else {
                return true;
            };
            ctl.message(out, rtm::NEWNEIGH, |out| {
                fill(ctl.stack, device, entry, 0, out)
            })
        },
    ))
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses: RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR of IPv4 and IPv6 (`net/ipv4/devinet.c`,
//! `net/ipv6/addrconf.c`).
//!
//! | file | contents |
//! |---|---|
//! | `inet` | IPv4 requests |
//! | `inet6` | IPv6 requests |
//!
//! Not implemented: multicast and anycast addresses (RTM_GETMULTICAST, RTM_GETANYCAST).
//! `IFA_F_MANAGETEMPADDR` is stored but creates no temporary addresses.

mod inet;
mod inet6;

use std::sync::Arc;

use weir_netlink::{
    Error, Fixed, IfAddrMsg, IfaCacheInfo, Policy, Rule, Strictness, Writer, af, errno, ifa,
    policy, rtm,
};

use crate::clock::{SECOND, USER_HZ};
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::namespace::Namespace;
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl, Handler, announce};
use crate::{ipv4, ipv6};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWADDR,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELADDR,
        doit: Some(delete),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETADDR,
        doit: Some(get),
        dumpit: Some(dump),
    },
];

/// `ifa_ipv4_policy`
static POLICY4: Policy = policy! {
    max ifa::MAX;
    ifa::LOCAL => Rule::u32(),
    ifa::ADDRESS => Rule::u32(),
    ifa::BROADCAST => Rule::u32(),
    ifa::LABEL => Rule::string(15),
    ifa::CACHEINFO => Rule::unspec(16),
    ifa::FLAGS => Rule::u32(),
    ifa::RT_PRIORITY => Rule::u32(),
    ifa::TARGET_NETNSID => Rule::s32(),
    ifa::PROTO => Rule::u8(),
};

/// `ifa_ipv6_policy`
static POLICY6: Policy = policy! {
    max ifa::MAX;
    ifa::ADDRESS => Rule::unspec(16),
    ifa::LOCAL => Rule::unspec(16),
    ifa::CACHEINFO => Rule::unspec(16),
    ifa::FLAGS => Rule::u32(),
    ifa::RT_PRIORITY => Rule::u32(),
    ifa::TARGET_NETNSID => Rule::s32(),
    ifa::PROTO => Rule::u8(),
};

fn family(ctl: &Ctl<'_>) -> Result<u8, Error> {
    match ctl.message.family() {
        Some(family @ (af::INET | af::INET6)) => Ok(family),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    match family(ctl)? {
        af::INET => inet::new(ctl),
        _ => inet6::new(ctl),
    }
}

fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    match family(ctl)? {
        af::INET => inet::delete(ctl),
        _ => inet6::delete(ctl),
    }
}

fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    match family(ctl)? {
        // Linux has this lookup for IPv6 only.
        af::INET => Err(Error::new(errno::EOPNOTSUPP)),
        _ => inet6::get(ctl),
    }
}

/// Notifies the listeners of an IPv4 address.
pub fn announce4(site: &Site<'_>, address: &ipv4::address::Address, ty: u16) {
    announce(site.ns, rtm::grp::IPV4_IFADDR, ty, |out| {
        inet::fill(site.stack.clock.now(), site.device, address, None, out)
    });
}

/// Notifies the listeners of an IPv6 address.
pub fn announce6(site: &Site<'_>, address: &ipv6::address::Address, ty: u16) {
    announce(site.ns, rtm::grp::IPV6_IFADDR, ty, |out| {
        inet6::fill(site.stack.clock.now(), site.device, address, None, out)
    });
}

/// Writes the lifetimes and time stamps (`put_cacheinfo`).
fn put_cacheinfo(out: &mut Writer, created: u64, updated: u64, (preferred, valid): (u32, u32)) {
    let ticks = |time: u64| (time / (SECOND / USER_HZ)) as u32;
    let info = IfaCacheInfo {
        preferred,
        valid,
        cstamp: ticks(created),
        tstamp: ticks(updated),
    };
    out.put_fixed(ifa::CACHEINFO, &info);
}

/// Returns the device of a request.
fn device(ctl: &Ctl<'_>, message: &IfAddrMsg) -> Result<Arc<Device>, Error> {
    ctl.ns
        .device(message.index, ctl.guard)
        .cloned()
        .ok_or_else(|| Error::new(errno::ENODEV))
}

/// The filter of a dump request.
struct Filter {
    /// The index of the device, or 0 for all.
    ifindex: u32,
    /// A namespace other than the socket's, and its nsid.
    target: Option<(i32, Arc<Namespace>)>,
}

/// Validates a strict dump request (`inet_valid_dump_ifaddr_req`).
fn filter(ctl: &Ctl<'_>, policy: &'static Policy, name: &str) -> Result<Filter, Error> {
    let mut filter = Filter {
        ifindex: 0,
        target: None,
    };
    if !ctl.strict {
        return Ok(filter);
    }
    let invalid = |text: &str| Error::msg(errno::EINVAL, format!("{name}: {text}"));
    if ctl.message.payload().len() < IfAddrMsg::LEN {
        return Err(invalid("Invalid header for address dump request"));
    }
    let message = ctl.message;
    let (header, attrs) = message.parse::<IfAddrMsg>(policy, Strictness::DeprecatedStrict)?;
    if header.prefixlen != 0 || header.flags != 0 || header.scope != 0 {
        return Err(invalid("Invalid values in header for address dump request"));
    }
    filter.ifindex = header.index;
    for ty in attrs.types() {
        if ty != ifa::TARGET_NETNSID {
            return Err(invalid("Unsupported attribute in dump request"));
        }
    }
    if let Some(nsid) = attrs.i32(ifa::TARGET_NETNSID)? {
        let ns = ctl
            .namespace_by_nsid(nsid)
            .ok_or_else(|| invalid("Invalid target network namespace id"))?;
        filter.target = Some((nsid, ns));
    }
    Ok(filter)
}

/// An address in a dump.
enum Item {
    Inet(Arc<Device>, Arc<ipv4::address::Address>),
    Inet6(Arc<Device>, Arc<ipv6::address::Address>),
}

/// Dumps addresses (`inet_dump_ifaddr`, `inet6_dump_ifaddr`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let family = crate::rtnl::dumped_family(ctl);
    let mut items = Vec::new();
    let mut filtered = false;
    let mut nsid = None;
    let families = [(af::INET, "ipv4", &POLICY4), (af::INET6, "ipv6", &POLICY6)];
    for (this, name, policy) in families {
        if family != af::UNSPEC && family != this {
            continue;
        }
        let filter = filter(ctl, policy, name)?;
        let ns = match &filter.target {
            Some((id, ns)) => {
                nsid = Some(*id);
                ns.clone()
            }
            None => ctl.ns.clone(),
        };
        let mut devices = ns.all_devices();
        if filter.ifindex != 0 {
            filtered = true;
            devices.retain(|device| device.ifindex() == filter.ifindex);
            if devices.is_empty() {
                return Err(Error::new(errno::ENODEV));
            }
        }
        for device in devices {
            if this == af::INET {
                let list = device.ipv4().addresses.list(ctl.guard);
                let found = list.iter().map(|a| Item::Inet(device.clone(), a.clone()));
                items.extend(found);
            } else {
                let list = device.ipv6().addresses.list(ctl.guard);
                let found = list.iter().map(|a| Item::Inet6(device.clone(), a.clone()));
                items.extend(found);
            }
        }
    }
    let fill = move |ctl: &DumpCtl<'_>, item: &Item, out: &mut Writer| {
        let now = ctl.stack.clock.now();
        ctl.message(out, rtm::NEWADDR, |out| match item {
            Item::Inet(device, address) => inet::fill(now, device, address, nsid, out),
            Item::Inet6(device, address) => inet6::fill(now, device, address, nsid, out),
        })
    };
    Ok(Collected::boxed(items, filtered, fill))
}

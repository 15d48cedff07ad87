// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for IPv4 addresses (`rtm_to_ifaddr`, `inet_rtm_newaddr`, `inet_rtm_deladdr`,
//! `inet_fill_ifaddr`).

use std::sync::Arc;

use weir_netlink::{
    Error, Fixed, IfAddrMsg, IfaCacheInfo, Strictness, Writer, af, errno, ifa, nlm, rtm,
};

use super::POLICY4;
use crate::addresses::Changes;
use crate::addresses::FOREVER;
use crate::autojoin;
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::ipv4::address::{Address, News};
use crate::rtnl::Ctl;
use crate::settings::HasIp;

/// Writes an address.
pub(super) fn fill(
    now: u64,
    device: &Device,
    address: &Address,
    nsid: Option<i32>,
    out: &mut Writer,
) {
    out.fixed(&IfAddrMsg {
        family: af::INET,
        prefixlen: address.prefix_len,
        flags: address.flags as u8,
        scope: address.scope,
        index: device.ifindex(),
    });
    if let Some(nsid) = nsid {
        out.put_i32(ifa::TARGET_NETNSID, nsid);
    }
    if !address.address.is_unspecified() {
        out.put_ipv4(ifa::ADDRESS, address.address);
    }
    out.put_ipv4(ifa::LOCAL, address.local);
    if let Some(broadcast) = address.broadcast {
        out.put_ipv4(ifa::BROADCAST, broadcast);
    }
    if !address.label.is_empty() {
        out.put_str(ifa::LABEL, &address.label);
    }
    if address.protocol != 0 {
        out.put_u8(ifa::PROTO, address.protocol);
    }
    out.put_u32(ifa::FLAGS, address.flags);
    if address.metric != 0 {
        out.put_u32(ifa::RT_PRIORITY, address.metric);
    }
    let rest = address.rest(now);
    super::put_cacheinfo(out, address.created, address.updated, rest);
}

/// Parses a request (`rtm_to_ifaddr`).
fn parse(ctl: &Ctl<'_>) -> Result<(Arc<Device>, Address), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<IfAddrMsg>(&POLICY4, Strictness::Liberal)?;
    let local = attrs.ipv4(ifa::LOCAL)?;
    let (Some(local), 0..=32) = (local, message.prefixlen) else {
        return Err(Error::new(errno::EINVAL));
    };
    let device = super::device(ctl, &message)?;
    if !device.has_ipv4() {
        return Err(Error::new(errno::ENOBUFS));
    }
    let now = ctl.stack.clock.now();
    let (mut valid, mut preferred) = (FOREVER, FOREVER);
    if let Some(info) = attrs.get(ifa::CACHEINFO) {
        let info = IfaCacheInfo::from_bytes(info.payload)
            .ok_or_else(|| info.invalid("Attribute failed policy validation"))?;
        if info.valid == 0 || info.preferred > info.valid {
            return Err(Error::new(errno::EINVAL));
        }
        (valid, preferred) = (info.valid, info.preferred);
    }
    let label = match attrs.get(ifa::LABEL) {
        Some(label) => String::from_utf8_lossy(label.c_str()).into_owned(),
        None => device.name(),
    };
    let mut address = Address {
        local,
        address: attrs.ipv4(ifa::ADDRESS)?.unwrap_or(local),
        prefix_len: message.prefixlen,
        broadcast: attrs
            .ipv4(ifa::BROADCAST)?
            .filter(|address| !address.is_unspecified()),
        label,
        scope: message.scope,
        flags: attrs.u32(ifa::FLAGS)?.unwrap_or(u32::from(message.flags)),
        metric: attrs.u32(ifa::RT_PRIORITY)?.unwrap_or(0),
        protocol: attrs.u8(ifa::PROTO)?.unwrap_or(0),
        preferred,
        valid,
        created: now,
        updated: now,
    };
    address.set_lifetime(valid, preferred, now);
    Ok((device, address))
}

/// Notifies the listeners of the changes that a request made, and the requester if it asked for an
/// echo.
fn tell(ctl: &mut Ctl<'_>, device: &Arc<Device>, news: Vec<News>) {
    let now = ctl.stack.clock.now();
    for news in news {
        let (ty, address) = match news {
            News::Came(address) => (rtm::NEWADDR, address),
            News::Went(address) => (rtm::DELADDR, address),
            News::Routes(events) => {
                ctl.site(device).tell_routes(&events);
                continue;
            }
        };
        let ns = ctl.ns;
        ctl.notify(ns, rtm::grp::IPV4_IFADDR, ty, 0, |out| {
            fill(now, device, &address, None, out)
        });
    }
}

/// Adds or replaces an address (`inet_rtm_newaddr`).
pub(super) fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (device, address) = parse(ctl)?;
    if address.flags & ifa::f::MCAUTOJOIN != 0 {
        let twin = |other: &Arc<Address>| {
            other.prefix_len == address.prefix_len
                && other.contains(address.address)
                && other.local == address.local
        };
        // A group stays joined even if the address is refused afterwards.
        if !device.ipv4().addresses.list(ctl.guard).iter().any(twin) {
            autojoin::join(&ctl.site(&device), address.address.into())?;
        }
    }
    let replace = ctl.has(nlm::F_REPLACE) && !ctl.has(nlm::F_EXCL);
    let news = device
        .ipv4()
        .addresses
        .add(&ctl.site(&device), address, replace)?;
    tell(ctl, &device, news);
    Ok(())
}

/// Deletes an address (`inet_rtm_deladdr`).
pub(super) fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<IfAddrMsg>(&POLICY4, Strictness::Liberal)?;
    let device = super::device(ctl, &message)?;
    if !device.has_ipv4() {
        return Err(Error::new(errno::ENODEV));
    }
    let local = attrs.ipv4(ifa::LOCAL)?;
    let label = attrs.get(ifa::LABEL);
    let prefix = attrs.ipv4(ifa::ADDRESS)?;
    let news = device
        .ipv4()
        .addresses
        .remove(&ctl.site(&device), |address| {
            local.is_none_or(|local| address.local == local)
                && label.is_none_or(|label| label.c_str() == address.label.as_bytes())
                && prefix.is_none_or(|prefix| {
                    message.prefixlen == address.prefix_len && address.contains(prefix)
                })
        })?;
    if let Some(News::Went(gone)) = news.iter().find(|news| matches!(news, News::Went(_))) {
        autojoin::leave(&ctl.site(&device), gone.address.into());
    }
    tell(ctl, &device, news);
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests for IPv6 addresses (`inet6_rtm_newaddr`, `inet6_rtm_deladdr`, `inet6_rtm_getaddr`,
//! `inet6_fill_ifaddr`).

use std::net::Ipv6Addr;

use weir_netlink::{
    Error, Fixed, IfAddrMsg, IfaCacheInfo, Strictness, Table, Writer, af, errno, ifa, nlm, rtm,
};

use super::POLICY6;
use crate::addresses::Changes;
use crate::autojoin;
use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::ipv6::address::Address;
use crate::rtnl::Ctl;
use crate::settings::{HasIp, Ipv6Conf, WithSettings};

/// Writes an address.
pub(super) fn fill(
    now: u64,
    device: &Device,
    address: &Address,
    nsid: Option<i32>,
    out: &mut Writer,
) {
    out.fixed(&IfAddrMsg {
        family: af::INET6,
        prefixlen: address.prefix_len,
        flags: address.flags as u8,
        scope: address.scope(),
        index: device.ifindex(),
    });
    if let Some(nsid) = nsid {
        out.put_i32(ifa::TARGET_NETNSID, nsid);
    }
    match address.peer.as_deref() {
        Some(peer) => {
            out.put_ipv6(ifa::LOCAL, address.address);
            out.put_ipv6(ifa::ADDRESS, *peer);
        }
        None => out.put_ipv6(ifa::ADDRESS, address.address),
    }
    if address.metric != 0 {
        out.put_u32(ifa::RT_PRIORITY, address.metric);
    }
    let rest = address.rest(now);
    super::put_cacheinfo(out, address.created, address.updated, rest);
    out.put_u32(ifa::FLAGS, address.flags);
    if address.protocol != 0 {
        out.put_u8(ifa::PROTO, address.protocol);
    }
}

/// Returns our address and the peer's (`extract_addr`).
fn addresses(attrs: &Table<'_>) -> Result<(Ipv6Addr, Option<Ipv6Addr>), Error> {
    let address = attrs.ipv6(ifa::ADDRESS)?;
    let local = attrs.ipv6(ifa::LOCAL)?;
    match (address, local) {
        (Some(address), Some(local)) => Ok((local, Some(address).filter(|peer| *peer != local))),
        (Some(only), None) | (None, Some(only)) => Ok((only, None)),
        (None, None) => Err(Error::new(errno::EINVAL)),
    }
}

/// Adds or changes an address (`inet6_rtm_newaddr`).
pub(super) fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<IfAddrMsg>(&POLICY6, Strictness::Liberal)?;
    let (name, peer) = addresses(&attrs)?;
    let now = ctl.stack.clock.now();
    let mut address = Address::new(name, message.prefixlen, now);
    address.peer = peer.filter(|peer| !peer.is_unspecified()).map(Box::new);
    address.metric = attrs.u32(ifa::RT_PRIORITY)?.unwrap_or(0);
    address.protocol = attrs.u8(ifa::PROTO)?.unwrap_or(0);
    if let Some(info) = attrs.get(ifa::CACHEINFO) {
        let info = IfaCacheInfo::from_bytes(info.payload)
            .ok_or_else(|| info.invalid("Attribute failed policy validation"))?;
        (address.valid, address.preferred) = (info.valid, info.preferred);
    }
    let device = super::device(ctl, &message)?;
    let flags = attrs.u32(ifa::FLAGS)?.unwrap_or(u32::from(message.flags));
    // Linux ignores the other flags. Optimistic detection is off (`optimistic_dad`).
    address.flags = flags
        & (ifa::f::NODAD
            | ifa::f::HOMEADDRESS
            | ifa::f::MANAGETEMPADDR
            | ifa::f::NOPREFIXROUTE
            | ifa::f::MCAUTOJOIN);
    let site = ctl.site(&device);
    if !device.has_ipv6() {
        return Err(Error::new(errno::EINVAL));
    }
    device.ipv6().addresses.renew_groups(&site);
    let present = device.ipv6().addresses.get(name, ctl.guard).is_some();
    if present && (ctl.has(nlm::F_EXCL) || !ctl.has(nlm::F_REPLACE)) {
        return Err(Error::new(errno::EEXIST));
    }
    let valid_times = address.valid != 0 && address.preferred <= address.valid;
    if (!present && message.prefixlen > 128) || !valid_times {
        return Err(Error::new(errno::EINVAL));
    }
    if address.flags & ifa::f::MANAGETEMPADDR != 0 && address.prefix_len != 64 {
        return Err(Error::new(errno::EINVAL));
    }
    if present {
        site.tell(device.ipv6().addresses.modify(&site, address)?);
        return Ok(());
    }
    let disabled = device.conf().ipv6.on(Ipv6Conf::DisableIpv6);
    let joins = address.has(ifa::f::MCAUTOJOIN) && (!disabled || name.is_loopback());
    if joins {
        autojoin::join(&site, name.into())?;
    }
    let added = device.ipv6().addresses.add(&site, address);
    if added.is_err() && joins {
        autojoin::leave(&site, name.into());
    }
    site.tell(added?);
    Ok(())
}

/// Deletes an address (`inet6_rtm_deladdr`).
pub(super) fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<IfAddrMsg>(&POLICY6, Strictness::Liberal)?;
    let (name, _) = addresses(&attrs)?;
    if message.prefixlen > 128 {
        return Err(Error::new(errno::EINVAL));
    }
    let device = super::device(ctl, &message)?;
    if !device.has_ipv6() {
        return Err(Error::new(errno::ENXIO));
    }
    let site = ctl.site(&device);
    let news = device
        .ipv6()
        .addresses
        .remove(&site, name, message.prefixlen)?;
    site.tell(news);
    autojoin::leave(&site, name.into());
    Ok(())
}

/// Returns an address (`inet6_rtm_getaddr`).
pub(super) fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let strictness = ctl.get_strictness();
    let invalid = |text: &'static str| Error::msg(errno::EINVAL, text);
    if ctl.strict && request.payload().len() < IfAddrMsg::LEN {
        return Err(invalid("ipv6: Invalid header for get address request"));
    }
    let (message, attrs) = request.parse::<IfAddrMsg>(&POLICY6, strictness)?;
    if ctl.strict {
        if message.prefixlen != 0 || message.flags != 0 || message.scope != 0 {
            return Err(invalid(
                "ipv6: Invalid values in header for get address request",
            ));
        }
        let known = [ifa::TARGET_NETNSID, ifa::ADDRESS, ifa::LOCAL];
        if attrs.types().any(|ty| !known.contains(&ty)) {
            return Err(invalid(
                "ipv6: Unsupported attribute in get address request",
            ));
        }
    }
    let nsid = attrs.i32(ifa::TARGET_NETNSID)?;
    let ns = match nsid {
        Some(id) => ctl
            .namespace_by_nsid(id)
            .ok_or_else(|| Error::new(errno::EINVAL))?,
        None => ctl.ns.clone(),
    };
    let (name, _) = addresses(&attrs)?;
    let found = ns.all_devices().into_iter().find_map(|device| {
        let wanted = message.index == 0 || device.ifindex() == message.index;
        let address = device.ipv6().addresses.get(name, ctl.guard).cloned();
        address.filter(|_| wanted).map(|address| (device, address))
    });
    let (device, address) = found.ok_or_else(|| Error::new(errno::EADDRNOTAVAIL))?;
    let now = ctl.stack.clock.now();
    ctl.reply(rtm::NEWADDR, 0, |out| {
        fill(now, &device, &address, nsid, out)
    })
}

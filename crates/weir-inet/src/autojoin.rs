// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups that addresses with `autojoin` have joined (`mc_autojoin_sk`, `ip_mc_autojoin_config`,
//! `ipv6_mc_config`).
//!
//! Linux keeps them as memberships of one socket per family and namespace, whose number
//! `igmp_max_memberships` limits for IPv4.

use std::net::IpAddr;

use weir_netlink::{Error, errno};
use weir_sync::order::{self, Mutex};

use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::settings::{Ipv4, WithSettings};

/// The memberships of a namespace as (index of the device, group).
#[derive(Debug, Default)]
pub struct Autojoined(Mutex<Vec<(u32, IpAddr)>, order::Joined>);

/// Joins the group that an address names.
///
/// # Errors
/// EINVAL if the address is no group, EADDRINUSE if an address of the device has joined it,
/// ENOBUFS if the namespace's addresses have joined as many IPv4 groups as they may.
pub fn join(site: &Site<'_>, address: IpAddr) -> Result<(), Error> {
    if !address.is_multicast() {
        return Err(Error::new(errno::EINVAL));
    }
    {
        let mut joined = site.ns.ipv4().autojoined.0.lock();
        let new = (site.device.ifindex(), address);
        if joined.contains(&new) {
            return Err(Error::new(errno::EADDRINUSE));
        }
        let most = site.ns.conf().ipv4.get(Ipv4::IgmpMaxMemberships);
        let count = joined.iter().filter(|(_, group)| group.is_ipv4()).count();
        if address.is_ipv4() && i64::try_from(count).unwrap_or(i64::MAX) >= i64::from(most) {
            return Err(Error::new(errno::ENOBUFS));
        }
        joined.push(new);
    }
    match address {
        IpAddr::V4(address) => site.device.ipv4().groups.join(site, address),
        IpAddr::V6(address) => site.device.ipv6().groups.join(site, address),
    }
    Ok(())
}

/// Leaves the group that an address named, if it had joined it.
pub fn leave(site: &Site<'_>, address: IpAddr) {
    {
        let mut joined = site.ns.ipv4().autojoined.0.lock();
        let old = (site.device.ifindex(), address);
        let Some(at) = joined.iter().position(|one| *one == old) else {
            return;
        };
        joined.remove(at);
    }
    match address {
        IpAddr::V4(address) => site.device.ipv4().groups.leave(site, address),
        IpAddr::V6(address) => site.device.ipv6().groups.leave(site, address),
    }
}

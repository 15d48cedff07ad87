// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups that the sockets of VXLAN devices have joined (`vxlan_multicast_join`, `vxlan_multicast_leave`).
//!
//! A device whose remote is a group joins it at its underlay device while it is up. The membership is one of the port's
//! socket: devices that share a port and a group join it once, the last of them leaves it, and a port that is closed
//! leaves all.

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::{Error, errno};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::Guard;

use super::Vxlan;
use super::config::Config;
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::namespace::Namespace;
use crate::settings::{HasIp, Ipv4, WithSettings};
use crate::stack::Stack;
use crate::udp::{self, Port};

/// A socket's membership in a group at a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Membership {
    port: Port,
    ifindex: u32,
    group: IpAddr,
}

/// The memberships of a namespace's sockets.
#[derive(Debug, Default)]
pub struct Joined(Mutex<Vec<Membership>, order::Joined>);

/// Returns the membership that a device has while it is up, if its remote is a group.
fn wanted(conf: &Config) -> Option<Membership> {
    conf.remote.is_multicast().then_some(Membership {
        port: Port {
            ipv6: conf.is_ipv6(),
            port: conf.dst_port,
        },
        ifindex: conf.lower,
        group: conf.remote,
    })
}

/// Joins the group of a device that goes up or gets another one. Its ports are open.
///
/// # Errors
/// ENODEV without the underlay device, ENOBUFS if the socket is in as many IPv4 groups as it may, EINVAL if the device
/// has no IPv6.
pub fn join(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    conf: &Config,
) -> Result<(), Error> {
    let Some(new) = wanted(conf) else {
        return Ok(());
    };
    let lower = net.device(new.ifindex, guard);
    let lower = lower.ok_or(Error::new(errno::ENODEV))?;
    match new.group {
        IpAddr::V4(_) if !lower.has_ipv4() => return Err(Error::new(errno::ENODEV)),
        IpAddr::V6(_) if !lower.has_ipv6() => return Err(Error::new(errno::EINVAL)),
        _ => {}
    }
    {
        let mut list = joined.0.lock();
        if list.contains(&new) {
            return Ok(());
        }
        let most = net.conf().ipv4.get(Ipv4::IgmpMaxMemberships);
        let count = list.iter().filter(|one| one.port == new.port).count();
        if new.group.is_ipv4() && i64::try_from(count).unwrap_or(i64::MAX) >= i64::from(most) {
            return Err(Error::new(errno::ENOBUFS));
        }
        list.push(new);
    }
    let site = Site::new(stack, guard, net, lower);
    match new.group {
        IpAddr::V4(group) => lower.ipv4().groups.join(&site, group),
        IpAddr::V6(group) => lower.ipv6().groups.join(&site, group),
    }
    Ok(())
}

/// Leaves the group of a device that goes down or gets another one, unless one of the others has it too.
pub fn leave(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    (device, conf): (&Arc<Device>, &Config),
    others: impl FnOnce() -> Vec<(Arc<Device>, Arc<Vxlan>)>,
) {
    let Some(old) = wanted(conf) else {
        return;
    };
    let shared = others().iter().any(|(other, vxlan)| {
        !Arc::ptr_eq(other, device)
            && other.is_up()
            && wanted(vxlan.config.load(guard)) == Some(old)
    });
    if !shared {
        drop_all(joined, (stack, guard), net, |one| *one == old);
    }
}

/// Leaves the groups of those ports of a device that are closed.
pub fn closed(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    ports: &[(Port, u32)],
) {
    for (port, _) in ports {
        if udp::ports(net).socket(*port, guard).is_none() {
            drop_all(joined, (stack, guard), net, |one| one.port == *port);
        }
    }
}

fn drop_all(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    goes: impl Fn(&Membership) -> bool,
) {
    let gone: Vec<Membership> = {
        let mut list = joined.0.lock();
        list.extract_if(.., |one| goes(one)).collect()
    };
    for old in gone {
        // A device that is gone has left its groups.
        let Some(lower) = net.device(old.ifindex, guard) else {
            continue;
        };
        let site = Site::new(stack, guard, net, lower);
        match old.group {
            IpAddr::V4(group) => lower.ipv4().groups.leave(&site, group),
            IpAddr::V6(group) => lower.ipv6().groups.leave(&site, group),
        }
    }
}

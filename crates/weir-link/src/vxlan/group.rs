// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups that the sockets of VXLAN devices have joined (`vxlan_multicast_join`, `vxlan_multicast_leave`).
//!
//! A device whose remote is a group joins it at its underlay device while it is up, and so do the identifiers of a device
//! that filters by them. The membership is one of the port's socket. Devices that share a port and a group join it once,
//! and the last of them leaves it. A port that is closed leaves all.

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::{Error, errno};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::Guard;

use super::Vxlan;
use super::config::Config;
use super::vnis::{All, Vnis};
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::namespace::Namespace;
use crate::settings::{HasIp, Ipv4, WithSettings};
use crate::stack::Stack;
use crate::tunnel::ports::Tunnels;
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

/// The devices of an underlay namespace and the memberships of their sockets.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    /// The devices.
    pub tunnels: &'a Tunnels<u32, Vxlan>,
    /// The memberships.
    pub joined: &'a Joined,
}

/// Returns the membership that a device has in a group.
fn membership(conf: &Config, group: IpAddr) -> Option<Membership> {
    group.is_multicast().then_some(Membership {
        port: Port {
            ipv6: group.is_ipv6(),
            port: conf.dst_port,
        },
        ifindex: conf.lower,
        group,
    })
}

/// Joins the groups of a device that goes up or gets another remote: that of its own remote, then those of its
/// identifiers (`vxlan_multicast_join`). Its ports are open.
///
/// # Errors
/// Those of [`join`].
pub fn join_all(
    joined: &Joined,
    at: (&Stack, &Guard),
    net: &Arc<Namespace>,
    conf: &Config,
    vnis: Option<&Vnis>,
) -> Result<(), Error> {
    join(joined, at, net, conf, conf.remote)?;
    let groups = vnis.into_iter().flat_map(Vnis::remotes);
    let mut new: Vec<IpAddr> = Vec::new();
    for group in groups.filter(|group| *group != conf.remote) {
        if let Err(error) = join(joined, at, net, conf, group) {
            for group in new {
                let old = membership(conf, group);
                drop_all(joined, at, net, |one| Some(*one) == old);
            }
            return Err(error);
        }
        new.push(group);
    }
    Ok(())
}

/// Joins a remote of a device if it is a group that its socket is not in.
///
/// # Errors
/// ENODEV without the underlay device, ENOBUFS if the socket is in as many IPv4 groups as it may, EINVAL if the device
/// has no IPv6.
pub fn join(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    conf: &Config,
    group: IpAddr,
) -> Result<(), Error> {
    let Some(new) = membership(conf, group) else {
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

/// Leaves the groups of a device that goes down or gets another remote (`vxlan_multicast_leave`).
///
/// # Errors
/// That of [`leave`] for the device's own remote, which ends it, or the last one for an identifier's.
pub fn leave_all(
    of: Groups<'_>,
    at: (&Stack, &Guard),
    net: &Arc<Namespace>,
    own: (&Arc<Device>, &Config),
    all: &All,
) -> Result<(), Error> {
    leave(of, at, net, own, all, own.1.remote)?;
    let vnis = all.get(&own.0.key);
    let mut done = Ok(());
    for group in vnis.into_iter().flat_map(Vnis::remotes) {
        // Another identifier of the device may have had it.
        let left = leave(of, at, net, own, all, group);
        done = left.and(done);
    }
    done
}

/// Leaves a remote of a device if it is a group, unless another device with the same socket has it. As in Linux, it does
/// not matter whether another identifier of the device has it.
///
/// # Errors
/// EADDRNOTAVAIL if the socket is not in the group.
pub fn leave(
    of: Groups<'_>,
    at: (&Stack, &Guard),
    net: &Arc<Namespace>,
    (device, conf): (&Arc<Device>, &Config),
    all: &All,
    group: IpAddr,
) -> Result<(), Error> {
    let Some(old) = membership(conf, group) else {
        return Ok(());
    };
    let shared = of.tunnels.devices().iter().any(|(other, vxlan)| {
        let conf = vxlan.config.load(at.1);
        let has = |group| membership(conf, group) == Some(old);
        let vnis = all.get(&other.key);
        !Arc::ptr_eq(other, device)
            && other.is_up()
            && (has(conf.remote) || vnis.is_some_and(|vnis| vnis.remotes().any(has)))
    });
    if shared || drop_all(of.joined, at, net, |one| *one == old) {
        return Ok(());
    }
    Err(Error::new(errno::EADDRNOTAVAIL))
}

/// Leaves the groups of those ports of a device that are closed.
pub fn closed(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    ports: &[Port],
) {
    for port in ports {
        if udp::ports(net).socket(*port, guard).is_none() {
            drop_all(joined, (stack, guard), net, |one| one.port == *port);
        }
    }
}

/// Leaves the groups of the memberships that go. Returns whether there was one.
fn drop_all(
    joined: &Joined,
    (stack, guard): (&Stack, &Guard),
    net: &Arc<Namespace>,
    goes: impl Fn(&Membership) -> bool,
) -> bool {
    let gone: Vec<Membership> = {
        let mut list = joined.0.lock();
        list.extract_if(.., |one| goes(one)).collect()
    };
    let any = !gone.is_empty();
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
    any
}

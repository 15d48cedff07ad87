// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memberships of sockets in multicast groups (`ip_mc_join_group`, `ip_mc_source`, `ipv6_sock_mc_join`,
//! `ip6_mc_source`), and which packets to groups a socket takes (`ip_mc_sf_allow`, `inet6_mc_check`).
//!
//! A device joins a group for all sources. The sources that a program chooses are applied at the socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_core::layers::Site;
use weir_inet::ipv4::{WithIpv4, egress};
use weir_inet::ipv6::WithIpv6;
use weir_netlink::errno;
use weir_sync::rcu::Guard;

use crate::abi::{AF_INET, AF_INET6, mcast};
use crate::address::{family, read_v4, read_v6};
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::options::{ip::most_groups, word};
use crate::ports::Target;
use crate::socket::Socket;

/// The length of `struct group_req` and `struct group_source_req` of a 64-bit machine.
const REQUEST: (usize, usize) = (136, 264);
/// `net.ipv4.igmp_max_msf` and `net.ipv6.mld_max_msf` by default.
const MOST_SOURCES: usize = 10;

/// A membership of a socket.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The group.
    pub group: IpAddr,
    /// The index of the device.
    pub device: u32,
    /// Only these sources are taken, or all but these.
    pub include: bool,
    /// The sources.
    pub sources: Vec<IpAddr>,
}

/// Returns whether an index is that of a VRF (`netif_index_is_l3_master`).
pub fn is_vrf(ns: &Namespace, index: u32, guard: &Guard) -> bool {
    let device = ns.device(index, guard);
    device.is_some_and(|device| device.is_l3_master())
}

/// Returns whether a socket that is bound to a device, or to none (0), may send to groups by another: by a port of its VRF.
pub fn may_send_by(ns: &Namespace, bound: u32, index: u32, guard: &Guard) -> bool {
    let device = || ns.device(index, guard);
    bound == 0
        || bound == index
        || device().is_some_and(|device| device.l3_master_index(guard) == bound)
}

impl Membership {
    fn takes(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) == self.include
    }
}

/// A change of a socket's memberships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Join,
    Leave,
    Block,
    Unblock,
    JoinSource,
    LeaveSource,
}

/// Returns whether a socket takes a packet to a group, with its memberships and `IP_MULTICAST_ALL`. Those of IPv6 are not
/// asked for their device.
pub fn takes(groups: &[Membership], all: bool, target: &Target) -> bool {
    let is_here = |device| match target.local {
        IpAddr::V4(_) => target.has_device(device),
        IpAddr::V6(_) => true,
    };
    let mine = |one: &&Membership| one.group == target.local && is_here(one.device);
    match groups.iter().find(mine) {
        Some(membership) => membership.takes(target.remote),
        None => all,
    }
}

/// Returns the device that has an IPv4 address.
pub fn owner(ns: &Namespace, address: Ipv4Addr, guard: &Guard) -> Option<Arc<Device>> {
    egress::owner_of(ns, address, guard).cloned()
}

/// Reads a `struct group_req` or `group_source_req`: the change, the device, the group and the source.
///
/// # Errors
/// EINVAL if it is too short or the group is none, EADDRNOTAVAIL for another family.
pub fn request(name: i32, value: &[u8]) -> Result<(Change, u32, IpAddr, Option<IpAddr>), i32> {
    let change = match name {
        mcast::JOIN_GROUP => Change::Join,
        mcast::LEAVE_GROUP => Change::Leave,
        mcast::BLOCK_SOURCE => Change::Block,
        mcast::UNBLOCK_SOURCE => Change::Unblock,
        mcast::JOIN_SOURCE_GROUP => Change::JoinSource,
        _ => Change::LeaveSource,
    };
    let plain = matches!(change, Change::Join | Change::Leave);
    let least = if plain { REQUEST.0 } else { REQUEST.1 };
    if value.len() < least {
        return Err(errno::EINVAL);
    }
    let index = word(value, 0).unwrap_or(0);
    let address = |at: usize| {
        let bytes = value.get(at..).unwrap_or_default();
        match family(bytes) {
            Some(AF_INET) => read_v4(bytes).map(|address| address.ip),
            Some(AF_INET6) => read_v6(bytes).map(|address| address.ip),
            _ => None,
        }
        .ok_or(errno::EADDRNOTAVAIL)
    };
    let group = address(8)?;
    let source = if plain { None } else { Some(address(136)?) };
    Ok((change, index, group, source))
}

/// Changes a socket's IPv4 memberships. The device is given by its index or by its address, or follows from the route.
///
/// # Errors
/// EINVAL if the address is no group, ENODEV without a device, EADDRINUSE if the socket is a member, EADDRNOTAVAIL if it
/// is none, ENOBUFS if it has too many.
pub fn change_v4(
    socket: &Socket,
    cx: &mut Cx<'_>,
    change: Change,
    group: Ipv4Addr,
    own: Option<Ipv4Addr>,
    index: u32,
    source: Option<Ipv4Addr>,
) -> Result<(), i32> {
    if !group.is_multicast() {
        return Err(errno::EINVAL);
    }
    let ns = socket.ns();
    let guard = cx.guard;
    let device = match (index, own) {
        (0, Some(own)) => owner(ns, own, guard),
        (0, None) => {
            let wish = egress::Wish {
                dst: group,
                src: None,
                oif: 0,
                tos: 0,
                mark: 0,
                protocol: 0,
                ports: (0, 0),
                any_source: false,
                on_link: false,
            };
            egress::find(ns, &wish, guard)
                .ok()
                .map(|way| way.hop.device.clone())
        }
        (index, _) => ns.device(index, guard).cloned(),
    };
    let source = source.map(IpAddr::from);
    if device.is_none() && change == Change::Leave && (index != 0 || own.is_some()) {
        // The device may be gone; the membership is still there.
        return forget(socket, group.into(), index);
    }
    let device = device.ok_or(errno::ENODEV)?;
    let most = most_groups(socket);
    match apply(socket, change, group.into(), device.ifindex(), source, most)? {
        Effect::Nothing => {}
        Effect::Join => {
            let site = Site::new(cx.stack, guard, ns, &device);
            device.ipv4().groups.join(&site, group);
        }
        Effect::Leave => leave(cx, ns, &device, group.into()),
    }
    Ok(())
}

/// Changes a socket's IPv6 memberships.
///
/// # Errors
/// As [`change_v4`].
pub fn change_v6(
    socket: &Socket,
    cx: &mut Cx<'_>,
    change: Change,
    group: Ipv6Addr,
    index: u32,
    source: Option<Ipv6Addr>,
) -> Result<(), i32> {
    if !group.is_multicast() {
        return Err(errno::EINVAL);
    }
    let ns = socket.ns();
    let guard = cx.guard;
    let device = match index {
        0 => {
            let any = Ipv6Addr::UNSPECIFIED;
            let route = weir_inet::ipv6::output::route(ns, any, group, 0, guard);
            route.ok().map(|route| route.named.clone())
        }
        index => ns.device(index, guard).cloned(),
    };
    if device.is_none() && change == Change::Leave && index != 0 {
        return forget(socket, group.into(), index);
    }
    let device = device.ok_or(errno::ENODEV)?;
    let source = source.map(IpAddr::from);
    match apply(
        socket,
        change,
        group.into(),
        device.ifindex(),
        source,
        usize::MAX,
    )? {
        Effect::Nothing => {}
        Effect::Join => {
            let site = Site::new(cx.stack, guard, ns, &device);
            device.ipv6().groups.join(&site, group);
        }
        Effect::Leave => leave(cx, ns, &device, group.into()),
    }
    Ok(())
}

/// What a change means for the device.
enum Effect {
    Nothing,
    Join,
    Leave,
}

fn forget(socket: &Socket, group: IpAddr, device: u32) -> Result<(), i32> {
    let mut state = socket.state();
    let mine = |one: &Membership| one.group == group && one.device == device;
    let at = state.groups.iter().position(mine);
    state.groups.remove(at.ok_or(errno::EADDRNOTAVAIL)?);
    Ok(())
}

/// Applies a change to the socket's list.
fn apply(
    socket: &Socket,
    change: Change,
    group: IpAddr,
    device: u32,
    source: Option<IpAddr>,
    most: usize,
) -> Result<Effect, i32> {
    let mut state = socket.state();
    let at = state
        .groups
        .iter()
        .position(|one| one.group == group && one.device == device);
    let full = state.groups.len() >= most;
    let groups = &mut state.groups;
    let mut add = |include, sources| {
        if full {
            return Err(errno::ENOBUFS);
        }
        groups.push(Membership {
            group,
            device,
            include,
            sources,
        });
        Ok(Effect::Join)
    };
    let Some(at) = at else {
        return match (change, source) {
            (Change::Join, _) => add(false, Vec::new()),
            (Change::JoinSource, Some(source)) => add(true, vec![source]),
            (Change::Leave, _) => Err(errno::EADDRNOTAVAIL),
            _ => Err(errno::EINVAL),
        };
    };
    let membership = groups.get_mut(at).ok_or(errno::EADDRNOTAVAIL)?;
    let Some(source) = source else {
        if change == Change::Join {
            return Err(errno::EADDRINUSE);
        }
        groups.remove(at);
        return Ok(Effect::Leave);
    };
    let include = matches!(change, Change::JoinSource | Change::LeaveSource);
    if membership.include != include {
        return Err(errno::EINVAL);
    }
    let known = membership.sources.iter().position(|one| *one == source);
    match (change, known) {
        (Change::JoinSource | Change::Block, Some(_)) => return Err(errno::EADDRNOTAVAIL),
        (Change::JoinSource | Change::Block, None) => {
            if membership.sources.len() >= MOST_SOURCES {
                return Err(errno::ENOBUFS);
            }
            membership.sources.push(source);
        }
        (_, None) => return Err(errno::EADDRNOTAVAIL),
        (_, Some(at)) => {
            membership.sources.remove(at);
            if include && membership.sources.is_empty() {
                groups.retain(|one| !(one.group == group && one.device == device));
                return Ok(Effect::Leave);
            }
        }
    }
    Ok(Effect::Nothing)
}

fn leave(cx: &Cx<'_>, ns: &Arc<Namespace>, device: &Arc<Device>, group: IpAddr) {
    let site = Site::new(cx.stack, cx.guard, ns, device);
    match group {
        IpAddr::V4(group) => device.ipv4().groups.leave(&site, group),
        IpAddr::V6(group) => device.ipv6().groups.leave(&site, group),
    }
}

/// Leaves all groups of a socket that is closed.
pub fn leave_all(socket: &Socket, cx: &Cx<'_>) {
    let groups = std::mem::take(&mut socket.state().groups);
    for membership in groups {
        if let Some(device) = socket.ns().device(membership.device, cx.guard) {
            leave(cx, socket.ns(), device, membership.group);
        }
    }
}

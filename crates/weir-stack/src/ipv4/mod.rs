// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4: a device's addresses and settings, and the packet path through layer 3.
//!
//! ```text
//! receive: input (checks) -> route -> forward -> output (fragment) -> neigh
//!                                  \-> local (reassembly) -> icmp, ...  -> output
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`address`], [`select`] | a device's addresses; source address selection |
//! | [`arp`] | link-layer addresses of next hops |
//! | [`route`] | routing decisions |
//! | `input`, `forward`, `local` | the packet path |
//! | `output`, `fragment`, `reassembly` | sending, fragmenting, reassembling |
//! | [`icmp`], [`peer`] | messages and their rate limits |

pub mod address;
pub mod arp;
mod forward;
pub mod fragment;
pub mod icmp;
mod input;
mod local;
pub mod output;
pub mod peer;
pub mod reassembly;
pub mod route;
pub mod select;

pub use input::receive;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weir_netlink::ifla::iff;
use weir_packet::header::ethernet::multicast_v4;
use weir_packet::header::icmp::{ICMP_DEST_UNREACH, ICMP_HOST_UNREACH};
use weir_packet::{Flags, Packet};
use weir_sync::rcu::{Domain, Guard};

use crate::addresses::Site;
use address::Addresses;

use crate::cpu::Cx;
use crate::device::{Device, Joiner};
use crate::fib::sync::Loss;
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::sysctl::tree::Target;
use crate::sysctl::{Conf, Ipv4Conf, Neigh};

/// The IPv4 state of a namespace, apart from settings and tables.
#[derive(Debug, Default)]
pub struct Net {
    /// Per-host state, of both families.
    pub peers: peer::Peers,
    /// Packets in reassembly.
    pub fragments: reassembly::Table,
    /// The number of locally generated packets so far, for their identification field.
    ids: AtomicU32,
}

/// The smallest IPv4 MTU in bytes (`IPV4_MIN_MTU`).
pub const MIN_MTU: u32 = 68;

/// The IPv4 state of a device.
#[derive(Debug)]
pub struct Inet {
    /// `net.ipv4.conf.DEV`
    pub conf: Conf<Ipv4Conf>,
    /// `net.ipv4.neigh.DEV`
    pub neigh: Conf<Neigh>,
    /// The addresses.
    pub addresses: Addresses,
}

impl Inet {
    /// Creates the state with the namespace's `default` settings and no address.
    pub fn new(domain: &Domain, ns: &Namespace) -> Self {
        Self {
            conf: ns.default.ipv4.clone(),
            neigh: ns.default.neigh4.clone(),
            addresses: Addresses::new(domain),
        }
    }
}

/// Returns a setting that is on if it is set for the device or for `all` (`IN_DEV_ORCONF`).
#[inline]
pub(crate) fn on_either(ns: &Namespace, device: &Device, slot: Ipv4Conf) -> bool {
    device.ipv4.conf.on(slot) || ns.all.ipv4.on(slot)
}

/// Returns the larger value of the device and of `all` (`IN_DEV_MAXCONF`).
#[inline]
pub(crate) fn larger(ns: &Namespace, device: &Device, slot: Ipv4Conf) -> i32 {
    device.ipv4.conf.get(slot).max(ns.all.ipv4.get(slot))
}

/// Initializes a device that entered a namespace with the namespace's `default` settings
/// (`inetdev_init`).
pub fn device_entered(_stack: &Stack, _guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    device.ipv4.conf.copy(&ns.default.ipv4);
    if device.flags() & iff::LOOPBACK != 0 {
        device.ipv4.conf.set(Ipv4Conf::DisableXfrm, 1);
        device.ipv4.conf.set(Ipv4Conf::DisablePolicy, 1);
    }
    device.ipv4.neigh.copy(&ns.default.neigh4);
    if device.has_ipv4() {
        crate::rtnl::netconf::began4(ns, device);
    }
    join_all_hosts(device, device.is_up());
}

/// Joins or leaves the all-hosts group (`ip_mc_up`, `ip_mc_down`).
fn join_all_hosts(device: &Device, join: bool) {
    let group = multicast_v4(Ipv4Addr::new(224, 0, 0, 1).octets());
    let join = join && device.has_ipv4();
    let groups = join.then_some(group).into_iter().collect();
    device.taken().join(Joiner::Ipv4, groups);
}

/// Restores addresses and routes when a device comes up.
pub fn device_up(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    join_all_hosts(device, true);
    device
        .ipv4
        .addresses
        .device_up(&Site::new(stack, guard, ns, device));
    arp::notify(stack, guard, ns, device);
}

/// Flushes the neighbours of a device whose link-layer address changed (`neigh_changeaddr`).
pub fn address_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard);
    ns.neighbours
        .device_went(stack, guard, device.key, false, false);
    if device.is_up() {
        arp::notify(stack, guard, ns, device);
    }
}

/// Removes the routes of a device that went down. Its addresses stay (`fib_disable_ip`).
pub fn device_down(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    join_all_hosts(device, false);
    crate::fib::host::lost4(ns, device, Loss::Down, false);
    ns.neighbours
        .device_went(stack, guard, device.key, false, false);
}

/// Removes all addresses, routes and neighbours of a device that leaves its namespace.
pub fn device_gone(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    ended(stack, guard, ns, device, device.has_ipv4());
}

/// Shuts down IPv4 on a device. `had` says whether it was enabled.
fn ended(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>, had: bool) {
    join_all_hosts(device, false);
    device
        .ipv4
        .addresses
        .clear(&Site::new(stack, guard, ns, device));
    crate::fib::host::lost4(ns, device, Loss::Gone, true);
    ns.neighbours
        .device_went(stack, guard, device.key, false, false);
    if had {
        crate::rtnl::netconf::ended4(ns, device);
    }
}

/// Handles an MTU change: shuts IPv4 down if the MTU became too small, and starts it again if it is
/// large enough now (`NETDEV_CHANGEMTU`).
pub fn mtu_changed(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    device: &Arc<Device>,
    before: u32,
) {
    match (before >= MIN_MTU, device.has_ipv4()) {
        (true, false) => ended(stack, guard, ns, device, true),
        (false, true) => device_entered(stack, guard, ns, device),
        _ => {}
    }
}

/// Handles a renamed device.
pub fn device_renamed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    device
        .ipv4
        .addresses
        .device_renamed(&Site::new(stack, guard, ns, device));
}

/// Handles a gained or lost carrier.
pub fn carrier_changed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    if !device.is_up() {
        return;
    }
    if device.link.carrier(stack, device) {
        crate::fib::host::found4(stack, ns, device);
        return;
    }
    crate::fib::host::lost4(ns, device, Loss::Carrier, false);
    if device.ipv4.conf.on(Ipv4Conf::ArpEvictNocarrier)
        && ns.all.ipv4.on(Ipv4Conf::ArpEvictNocarrier)
    {
        ns.neighbours
            .device_went(stack, guard, device.key, false, true);
    }
}

/// Writes a setting of `all`, `default` or one device, with its side effects
/// (`devinet_sysctl_forward`, `inet_forward_change`).
pub fn set_conf(ns: &Namespace, target: Target, slot: Ipv4Conf, value: i32) {
    let set = |conf: &crate::sysctl::Conf<Ipv4Conf>, target: &Target| {
        if conf.get(slot) != value {
            conf.set(slot, value);
            crate::rtnl::netconf::changed4(ns, target, slot);
        }
    };
    match &target {
        Target::Device(device) => set(&device.ipv4.conf, &target),
        Target::Default => set(&ns.default.ipv4, &target),
        Target::All => {
            set(&ns.all.ipv4, &target);
            if matches!(slot, Ipv4Conf::Forwarding) {
                set(&ns.default.ipv4, &Target::Default);
                for device in ns.all_devices() {
                    let target = Target::Device(device.clone());
                    set(&device.ipv4.conf, &target);
                }
            }
        }
    }
}

/// Sends an ICMP error to the sender of a packet whose next hop does not answer
/// (`arp_error_report`). Locally generated packets have no sender to notify.
pub fn neighbour_failed(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet) {
    if packet.iif == 0 || packet.flags.contains(Flags::LOCAL) {
        return;
    }
    let ns = device.namespace(cx.guard);
    // Use the incoming device if it still exists.
    let input = ns.device(packet.iif, cx.guard).unwrap_or(device);
    icmp::error(
        cx,
        input,
        packet,
        ICMP_DEST_UNREACH,
        ICMP_HOST_UNREACH,
        0,
        false,
    );
}

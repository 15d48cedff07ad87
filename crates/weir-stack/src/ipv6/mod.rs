// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6: a device's addresses and settings, and the packet path through layer 3.

pub mod address;
pub mod forward;
pub mod icmp;
pub mod input;
pub mod label;
pub mod local;
pub mod nd;
pub mod output;
pub mod reassembly;
pub mod select;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_netlink::ifla::iff;
use weir_packet::Packet;
use weir_packet::header::icmp::{ICMPV6_ADDR_UNREACH, ICMPV6_DEST_UNREACH};
use weir_sync::rcu::{Domain, Guard};

use crate::addresses::Site;
use address::Addresses;

use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::sysctl::tree::Target;
use crate::sysctl::{Conf, Ipv6Conf, Neigh};

/// The IPv6 state of a device.
#[derive(Debug)]
pub struct Inet {
    /// `net.ipv6.conf.DEV`
    pub conf: Conf<Ipv6Conf>,
    /// `net.ipv6.neigh.DEV`
    pub neigh: Conf<Neigh>,
    /// The addresses.
    pub addresses: Addresses,
    /// The counters, from when IPv6 began on the device.
    pub mib: crate::mib::DeviceMib,
}

impl Inet {
    /// Creates the state with the namespace's `default` settings and no address.
    pub fn new(domain: &Domain, ns: &Namespace) -> Self {
        Self {
            conf: ns.default.ipv6.clone(),
            neigh: ns.default.neigh6.clone(),
            addresses: Addresses::new(domain),
            mib: crate::mib::DeviceMib::default(),
        }
    }
}

/// The IPv6 state of a namespace.
#[derive(Debug)]
pub struct Net {
    /// The fragments that wait for reassembly.
    pub fragments: reassembly::Fragments,
    /// The seed of flow labels and identifications.
    pub(crate) seed: u64,
    idents: AtomicU32,
    /// The label table for source address selection.
    pub labels: label::Labels,
}

impl Net {
    /// Creates the state of a new namespace.
    pub fn new(domain: &Domain, seed: u64) -> Self {
        Self {
            labels: label::Labels::new(domain),
            fragments: reassembly::Fragments::default(),
            seed: crate::random::seed_of(seed, "ipv6"),
            idents: AtomicU32::new(0),
        }
    }

    /// Returns the identification of the next fragmented datagram. It never repeats immediately and
    /// is hard to guess (`ipv6_select_ident`).
    pub(crate) fn next_ident(&self) -> u32 {
        let count = self.idents.fetch_add(1, Relaxed);
        crate::random::mix(self.seed ^ u64::from(count)) as u32
    }
}

/// Initializes a device that entered a namespace with the namespace's `default` settings
/// (`ipv6_add_dev`).
pub fn device_entered(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    device.ipv6.conf.copy(&ns.default.ipv6);
    device.ipv6.mib.clear();
    if device.flags() & (iff::NOARP | iff::LOOPBACK) != 0 {
        // Such devices do no duplicate address detection (`ipv6_add_dev`).
        device.ipv6.conf.set(Ipv6Conf::AcceptDad, -1);
    }
    if device.flags() & iff::LOOPBACK != 0 {
        device.ipv6.conf.set(Ipv6Conf::UseTempaddr, -1);
    }
    device.ipv6.neigh.copy(&ns.default.neigh6);
    set_mtu(device);
    if device.has_ipv6() {
        crate::rtnl::netconf::began6(ns, device);
    }
    let site = Site::new(stack, guard, ns, device);
    device.ipv6.addresses.device_entered(&site);
}

/// Restores addresses and routes when a device comes up.
pub fn device_up(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6.addresses.device_up(&site);
}

/// Handles a device that went down.
pub fn device_down(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6.addresses.device_down(&site, false);
}

/// Removes all addresses, routes and neighbours of a device that leaves its namespace.
pub fn device_gone(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6.addresses.device_down(&site, true);
    if device.has_ipv6() {
        crate::rtnl::netconf::ended6(ns, device);
    }
}

/// Handles a gained or lost carrier.
pub fn carrier_changed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6.addresses.carrier_changed(&site);
    if device.is_up() && !device.link.carrier(stack, device) {
        ns.neighbours
            .device_went(stack, guard, device.key, true, true);
    }
}

pub use input::receive;

/// Flushes the neighbours of a device whose link-layer address changed (`neigh_changeaddr`).
pub fn address_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    device
        .namespace(guard)
        .neighbours
        .device_went(stack, guard, device.key, true, false);
}

/// Writes a setting of `all`, `default` or one device, with its side effects
/// (`addrconf_fixup_forwarding`, `addrconf_disable_ipv6`).
pub fn set_conf(stack: &Stack, ns: &Namespace, target: Target, slot: Ipv6Conf, value: i32) {
    let set = |conf: &crate::sysctl::Conf<Ipv6Conf>, target: &Target| {
        if conf.get(slot) != value {
            conf.set(slot, value);
            crate::rtnl::netconf::changed6(ns, target, slot);
        }
    };
    match &target {
        Target::Device(device) => set_on_device(stack, ns, device, slot, value),
        Target::Default => set(&ns.default.ipv6, &target),
        Target::All => {
            set(&ns.all.ipv6, &target);
            if matches!(slot, Ipv6Conf::Forwarding | Ipv6Conf::DisableIpv6) {
                set(&ns.default.ipv6, &Target::Default);
                for device in ns.all_devices() {
                    set_on_device(stack, ns, &device, slot, value);
                }
            }
        }
    }
}

fn set_on_device(stack: &Stack, ns: &Namespace, device: &Arc<Device>, slot: Ipv6Conf, value: i32) {
    let before = device.ipv6.conf.get(slot);
    if before == value {
        return;
    }
    device.ipv6.conf.set(slot, value);
    crate::rtnl::netconf::changed6(ns, &Target::Device(device.clone()), slot);
    let before = before != 0;
    if before == (value != 0) {
        return;
    }
    let guard = stack.domain.pin();
    let ns = device.namespace(&guard);
    let site = Site::new(stack, &guard, ns, device);
    let addresses = &device.ipv6.addresses;
    match slot {
        Ipv6Conf::DisableIpv6 if before && !device.is_up() => {}
        Ipv6Conf::DisableIpv6 if before => addresses.device_up(&site),
        Ipv6Conf::DisableIpv6 => addresses.device_down(&site, false),
        Ipv6Conf::Forwarding => addresses.forwarding_changed(&site),
        _ => {}
    }
}

/// Sends an ICMP error to the sender of a packet whose next hop does not answer
/// (`ndisc_error_report`).
pub fn neighbour_failed(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet) {
    let code = ICMPV6_ADDR_UNREACH;
    icmp::send_error(cx, device, packet, ICMPV6_DEST_UNREACH, code, 0);
}

/// Handles an MTU change: shuts IPv6 down if the MTU became too small, and starts it again if it is
/// large enough now (`NETDEV_CHANGEMTU`).
pub fn mtu_changed(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    device: &Arc<Device>,
    before: u32,
) {
    set_mtu(device);
    let site = Site::new(stack, guard, ns, device);
    let (could, can) = (before >= output::MIN_MTU, site.is_able());
    // The loopback device keeps its settings, but not its addresses.
    if could && !can {
        let gone = !device.has_ipv6();
        device.ipv6.addresses.device_down(&site, gone);
        if gone {
            crate::rtnl::netconf::ended6(ns, device);
        }
    } else if can && !could && device.flags() & iff::LOOPBACK == 0 {
        device_entered(stack, guard, ns, device);
        if device.is_up() {
            device.ipv6.addresses.device_up(&site);
        }
    }
}

/// Sets `net.ipv6.conf.DEV.mtu` to the device's MTU.
fn set_mtu(device: &Device) {
    let mtu = i32::try_from(device.mtu()).unwrap_or(i32::MAX);
    device.ipv6.conf.set(Ipv6Conf::Mtu, mtu);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack's devices and namespaces as the forwarding tables see them, and what device events
//! mean to the tables of a namespace (`fib_netdev_event`, `fib6_ifdown`, `fib_rules_event`).

use std::sync::Arc;

use weir_sync::rcu::Guard;

use super::route::Event;
use super::sync::Loss;
use super::{FibHost, RouteDevice};
use crate::device::Device;
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::sysctl::{Ipv4Conf, Ipv6Conf};

impl RouteDevice for Arc<Device> {
    fn ifindex(&self) -> u32 {
        Device::ifindex(self)
    }
    fn is_up(&self) -> bool {
        Device::is_up(self)
    }
    fn is_loopback(&self) -> bool {
        self.flags() & weir_netlink::ifla::iff::LOOPBACK != 0
    }
    fn group(&self) -> u32 {
        Device::group(self)
    }
    fn ignores_linkdown(&self, ipv6: bool) -> bool {
        if ipv6 {
            self.ipv6.conf.on(Ipv6Conf::IgnoreRoutesWithLinkdown)
        } else {
            self.ipv4.conf.on(Ipv4Conf::IgnoreRoutesWithLinkdown)
        }
    }
    fn ipv6_disabled(&self) -> bool {
        self.ipv6.conf.on(Ipv6Conf::DisableIpv6)
    }
}

/// A namespace to ask.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The namespace.
    pub ns: &'a Arc<Namespace>,
    /// Keeps its devices alive.
    pub guard: &'a Guard,
}

impl FibHost<Arc<Device>> for Host<'_> {
    fn device(&self, ifindex: u32) -> Option<Arc<Device>> {
        self.ns.device(ifindex, self.guard).cloned()
    }
    fn is_here(&self, device: &Arc<Device>, ipv6: bool) -> bool {
        device.is_in(self.ns, self.guard) && device.has_ip(ipv6)
    }
    fn has_carrier(&self, device: &Arc<Device>) -> bool {
        device.link.carrier(self.stack, device)
    }
}

/// IPv4's part of a device going down, away, or losing its carrier. `last_address` says that it
/// lost its last IPv4 address instead.
pub fn lost4(ns: &Namespace, device: &Device, loss: Loss, last_address: bool) {
    ns.fib.v4.device_lost(device.ifindex(), loss, last_address);
}

/// IPv4's part of a device coming up or getting its carrier back; call it after the routes of its
/// addresses were added.
pub fn found4(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib
        .v4
        .device_found(device, device.link.carrier(stack, device));
}

/// IPv6's part of a device going down, away, or losing its carrier; answers what to tell with
/// [`crate::rtnl::route::announce`].
pub fn lost6(ns: &Namespace, device: &Device, loss: Loss) -> Vec<Event<u128, Arc<Device>>> {
    let mut events = Vec::new();
    ns.fib.v6.device_lost(device.ifindex(), loss, &mut events);
    events
}

/// IPv6's part of a device coming up or getting its carrier back.
pub fn found6(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib
        .v6
        .device_found(device, device.link.carrier(stack, device));
}

/// A device came under a name: rules that name it take effect.
pub fn rules_attach(ns: &Namespace, name: &str, ifindex: u32) {
    ns.fib.v4.rules().device_came(name, ifindex);
    ns.fib.v6.rules().device_came(name, ifindex);
}

/// A device went, or changed its name: rules that named it are detached.
pub fn rules_detach(ns: &Namespace, ifindex: u32) {
    ns.fib.v4.rules().device_went(ifindex);
    ns.fib.v6.rules().device_went(ifindex);
}

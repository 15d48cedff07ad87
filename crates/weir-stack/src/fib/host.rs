// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connects the forwarding tables to the stack's devices and namespaces, and applies device events
//! to the tables of a namespace (`fib_netdev_event`, `fib6_ifdown`, `fib_rules_event`).

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

/// A namespace as seen by route validation.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The namespace.
    pub ns: &'a Arc<Namespace>,
    /// The RCU guard that keeps its devices alive.
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

/// Handles an IPv4 device that goes down, is removed or loses its carrier. If `last_address` is
/// set, it has instead lost its last IPv4 address.
pub fn lost4(ns: &Namespace, device: &Device, loss: Loss, last_address: bool) {
    ns.fib.v4.device_lost(device.ifindex(), loss, last_address);
}

/// Handles an IPv4 device that comes up or regains its carrier. Call it after adding the routes of
/// its addresses.
pub fn found4(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib
        .v4
        .device_found(device, device.link.carrier(stack, device));
}

/// Handles an IPv6 device that goes down, is removed or loses its carrier. Returns the events to
/// pass to [`crate::rtnl::route::announce`].
pub fn lost6(ns: &Namespace, device: &Device, loss: Loss) -> Vec<Event<u128, Arc<Device>>> {
    let mut events = Vec::new();
    ns.fib.v6.device_lost(device.ifindex(), loss, &mut events);
    events
}

/// Handles an IPv6 device that comes up or regains its carrier.
pub fn found6(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib
        .v6
        .device_found(device, device.link.carrier(stack, device));
}

/// Activates the rules that name a device, after it appeared under that name.
pub fn rules_attach(ns: &Namespace, name: &str, ifindex: u32) {
    ns.fib.v4.rules().device_came(name, ifindex);
    ns.fib.v6.rules().device_came(name, ifindex);
}

/// Detaches the rules that name a device, after it was removed or renamed.
pub fn rules_detach(ns: &Namespace, ifindex: u32) {
    ns.fib.v4.rules().device_went(ifindex);
    ns.fib.v6.rules().device_went(ifindex);
}

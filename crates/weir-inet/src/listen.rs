// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who hears of addresses, of multicast routes and of protocols' settings (`inetaddr_chain`, `inet_netconf_notify_devconf`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_packet::header::ndisc::NdOption;

use crate::conf::Target;
use crate::device::Device;
use crate::ipv6::address::auto::Prefix;
use crate::layers::Site;
use crate::multicast;
use crate::namespace::Namespace;
use crate::parts::{Key, StackParts};
use crate::settings::{Ipv4Conf, Ipv6Conf};
use crate::stack::Stack;
use crate::{ipv4, ipv6};

/// What happens to a family's settings.
pub enum ConfEvent<'a, S> {
    /// The protocol is on a device.
    Began(&'a Arc<Device>),
    /// The protocol has left a device.
    Ended(&'a Device),
    /// A setting has another value.
    Changed(&'a Target, S),
}

/// Hears of addresses and settings that changed; `ty` is `RTM_NEWADDR` or `RTM_DELADDR`.
pub trait Listener: Send + Sync {
    /// An IPv4 address came, changed or went, and no request caused it.
    fn address4(&self, site: &Site<'_>, address: &ipv4::address::Address, ty: u16);
    /// An IPv6 address came, changed or went, and no request caused it.
    fn address6(&self, site: &Site<'_>, address: &ipv6::address::Address, ty: u16);
    /// A router has advertised a prefix (`RTM_NEWPREFIX`).
    fn prefix6(&self, site: &Site<'_>, prefix: &Prefix);
    /// A router has advertised an option for resolvers (`RTM_NEWNDUSEROPT`).
    fn option6(&self, site: &Site<'_>, option: &NdOption<'_>, router: Ipv6Addr);
    /// A multicast route of IPv4 changed, or its daemon got a report.
    fn multicast4(
        &self,
        stack: &Stack,
        ns: &Namespace,
        router: &ipv4::multicast::Router,
        event: &multicast::Event<'_, Ipv4Addr>,
    );
    /// A multicast route of IPv6 changed, or its daemon got a report.
    fn multicast6(
        &self,
        stack: &Stack,
        ns: &Namespace,
        router: &ipv6::multicast::Router,
        event: &multicast::Event<'_, Ipv6Addr>,
    );
    /// IPv4's settings changed.
    fn conf4(&self, ns: &Namespace, event: &ConfEvent<'_, Ipv4Conf>);
    /// IPv6's settings changed.
    fn conf6(&self, ns: &Namespace, event: &ConfEvent<'_, Ipv6Conf>);
}

static LISTENERS: Key<Vec<&'static dyn Listener>, 2> = Key::new();

/// Has a listener told from now on.
pub fn listen(parts: &mut StackParts, listener: &'static dyn Listener) {
    parts.get_mut(&LISTENERS).push(listener);
}

fn each(stack: &Stack, mut tell: impl FnMut(&dyn Listener)) {
    let listeners = stack.parts.find(&LISTENERS).into_iter().flatten();
    listeners.for_each(|listener| tell(*listener));
}

/// Tells of an IPv4 address.
pub fn address4(site: &Site<'_>, address: &ipv4::address::Address, ty: u16) {
    each(site.stack, |listener| listener.address4(site, address, ty));
}

/// Tells of an IPv6 address.
pub fn address6(site: &Site<'_>, address: &ipv6::address::Address, ty: u16) {
    each(site.stack, |listener| listener.address6(site, address, ty));
}

/// Tells of a prefix that a router has advertised.
pub fn prefix6(site: &Site<'_>, prefix: &Prefix) {
    each(site.stack, |listener| listener.prefix6(site, prefix));
}

/// Tells of an option for resolvers that a router has advertised.
pub fn option6(site: &Site<'_>, option: &NdOption<'_>, router: Ipv6Addr) {
    each(site.stack, |listener| {
        listener.option6(site, option, router);
    });
}

/// Tells of IPv4's multicast routes.
pub fn multicast4(
    stack: &Stack,
    ns: &Namespace,
    router: &ipv4::multicast::Router,
    event: &multicast::Event<'_, Ipv4Addr>,
) {
    each(stack, |listener| {
        listener.multicast4(stack, ns, router, event);
    });
}

/// Tells of IPv6's multicast routes.
pub fn multicast6(
    stack: &Stack,
    ns: &Namespace,
    router: &ipv6::multicast::Router,
    event: &multicast::Event<'_, Ipv6Addr>,
) {
    each(stack, |listener| {
        listener.multicast6(stack, ns, router, event);
    });
}

/// Tells of IPv4's settings.
pub fn conf4(stack: &Stack, ns: &Namespace, event: &ConfEvent<'_, Ipv4Conf>) {
    each(stack, |listener| listener.conf4(ns, event));
}

/// Tells of IPv6's settings.
pub fn conf6(stack: &Stack, ns: &Namespace, event: &ConfEvent<'_, Ipv6Conf>) {
    each(stack, |listener| listener.conf6(ns, event));
}

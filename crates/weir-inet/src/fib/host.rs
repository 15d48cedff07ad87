// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connects the forwarding tables to the stack's devices and namespaces, and applies device events
//! to the tables of a namespace (`fib_netdev_event`, `fib6_ifdown`, `fib_rules_event`).

use std::sync::Arc;

use weir_netlink::{Error, rtm};
use weir_sync::rcu::Guard;

use super::nexthop::Change;
use super::object::Object;
use super::route::Event;
use super::rule::{Entry, Rule};
use super::sync::Loss;
use super::{Address, Events, Family, Fib, FibHost, RouteDevice};
use crate::clock::Holds;
use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::{self, Hears, Module, NamespaceEvent, Site};
use crate::namespace::Namespace;
use crate::parts::{Key, StackParts};
use crate::settings::{HasIp, Ipv4, Ipv4Conf, Ipv6Conf, WithSettings};
use crate::stack::Stack;

/// Hears of routes that came or went.
pub type Hear = fn(&Stack, &Namespace, Events<'_, Arc<Device>>);

static LISTENERS: Key<Vec<Hear>, 0> = Key::new();
static FIB: Key<Fib<Arc<Device>>, 1> = Key::new();

/// Routes and rules in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, new| parts.fill(&FIB, Fib::new(new.domain))),
    device_event: Some(Hears::of(
        &[
            layers::Event::Entered,
            layers::Event::Detached,
            layers::Event::Down,
            layers::Event::L3Master,
            layers::Event::Carrier,
            layers::Event::Gone,
            layers::Event::Renamed,
        ],
        device_event,
    )),
    namespace_event: Some(namespace_event),
    ..Module::NONE
};

fn device_event(site: &Site<'_>, event: layers::Event) {
    let (ns, ifindex) = (site.ns, site.device.ifindex());
    match event {
        layers::Event::Entered => rules_attach(ns, site.device),
        layers::Event::Detached => rules_detach(ns, ifindex),
        // A device that joins or leaves a VRF goes down and up again in Linux (`cycle_netdev`).
        layers::Event::Down | layers::Event::L3Master => nexthops_lost(site, false),
        layers::Event::Carrier if !site.device.link.carrier(site.stack, site.device) => {
            nexthops_lost(site, false);
        }
        layers::Event::Gone => nexthops_lost(site, true),
        layers::Event::Renamed => {
            rules_detach(ns, ifindex);
            rules_attach(ns, site.device);
        }
        _ => {}
    }
}

/// Forgets the routes of a namespace that ends as a whole, unless one of its sockets hears of each.
fn namespace_event(_: &Stack, ns: &Arc<Namespace>, event: NamespaceEvent) {
    let heard = [rtm::grp::IPV4_ROUTE, rtm::grp::IPV6_ROUTE]
        .into_iter()
        .any(|group| ns.subscribers.anybody(group));
    if event == NamespaceEvent::Closing && !heard {
        ns.fib().v4.forget();
        ns.fib().v6.forget();
    }
    if event == NamespaceEvent::Emptied {
        ns.fib().clear_nexthops();
    }
}

/// A rule of any family.
#[derive(Clone, Copy)]
pub enum AnyRule<'a> {
    /// IPv4's
    V4(&'a Entry<u32>),
    /// IPv6's
    V6(&'a Entry<u128>),
    /// That of multicast routes of IPv4.
    Multicast4(&'a Entry<u32>),
    /// That of multicast routes of IPv6.
    Multicast6(&'a Entry<u128>),
}

/// Hears of a rule that came without a request.
pub type HearRule = fn(&Stack, &Namespace, AnyRule<'_>);

static RULE_LISTENERS: Key<Vec<HearRule>, 7> = Key::new();

/// Has `hear` called for rules that no request made.
pub fn listen_rules(parts: &mut StackParts, hear: HearRule) {
    parts.get_mut(&RULE_LISTENERS).push(hear);
}

/// Hears of a nexthop object's bucket that moved without a request.
pub type HearNexthop = fn(&Stack, &Namespace, &Change<Arc<Device>>);

static NEXTHOP_LISTENERS: Key<Vec<HearNexthop>, 8> = Key::new();

/// Has `hear` called for buckets that no request moved.
pub fn listen_nexthops(parts: &mut StackParts, hear: HearNexthop) {
    parts.get_mut(&NEXTHOP_LISTENERS).push(hear);
}

/// Returns `net.ipv4.nexthop_compat_mode`.
pub fn compat(ns: &Namespace) -> bool {
    ns.conf().ipv4.get(Ipv4::NexthopCompatMode) != 0
}

/// Removes the nexthop objects through a device that is lost.
fn nexthops_lost(site: &Site<'_>, gone: bool) {
    let (ns, mut changes) = (site.ns, Vec::new());
    if ns.fib().nexthops.is_empty() {
        return;
    }
    let ifindex = site.device.ifindex();
    ns.fib()
        .nexthops_lost(ifindex, gone, compat(ns), &mut changes);
    let v6 = changes.into_iter().filter_map(|change| match change {
        Change::V6(event) => Some(event),
        _ => None,
    });
    tell(site.stack, ns, &v6.collect::<Vec<_>>());
}

/// Looks after resilient groups when it is time.
pub fn arm_nexthops(stack: &Stack, ns: &Arc<Namespace>) {
    let Some(due) = ns.fib().nexthops.due() else {
        return;
    };
    let weak = Arc::downgrade(ns);
    let fire = move |cx: &mut Cx<'_>| {
        let Some(ns) = weak.upgrade() else { return };
        let mut changes = Vec::new();
        ns.fib().nexthops.upkeep(cx.stack.clock.now(), &mut changes);
        for change in &changes {
            let listeners = cx.stack.parts.find(&NEXTHOP_LISTENERS);
            for hear in listeners.into_iter().flatten() {
                hear(cx.stack, &ns, change);
            }
        }
        *ns.fib().nexthop_timer.lock() = None;
        arm_nexthops(cx.stack, &ns);
    };
    let mut timer = ns.fib().nexthop_timer.lock();
    if timer.as_ref().is_some_and(|timer| timer.time() <= due) {
        return;
    }
    if let Some(timer) = timer.take() {
        stack.timers.cancel(timer);
    }
    *timer = Some(stack.arm(due, Holds::Nothing, Box::new(fire)));
}

/// The priority of the rules that come with the first VRF (`VRF_FIB_RULE_PREF`).
const L3MDEV_PRIORITY: u32 = 1000;

/// Tells the listeners of a rule that no request made.
pub(crate) fn tell_rule(stack: &Stack, ns: &Namespace, rule: AnyRule<'_>) {
    for hear in stack.parts.find(&RULE_LISTENERS).into_iter().flatten() {
        hear(stack, ns, rule);
    }
}

/// Adds the rules of both families that look up packets of a VRF in its table (`vrf_add_fib_rules`).
pub fn add_l3mdev_rules(stack: &Stack, ns: &Namespace) {
    let fib = ns.fib();
    // A rule that exists already stays.
    if let Ok(entry) = add_l3mdev_rule(&fib.v4) {
        tell_rule(stack, ns, AnyRule::V4(&entry));
    }
    if let Ok(entry) = add_l3mdev_rule(&fib.v6) {
        tell_rule(stack, ns, AnyRule::V6(&entry));
    }
}

/// The rule that looks up packets of a VRF in its table.
pub(crate) fn l3mdev_rule<K: Address>() -> Rule<K> {
    Rule {
        l3mdev: true,
        protocol: weir_netlink::rta::prot::KERNEL,
        ..Rule::lookup(L3MDEV_PRIORITY, 0)
    }
}

fn add_l3mdev_rule<K: Address>(family: &Family<K, Arc<Device>>) -> Result<Entry<K>, Error> {
    let flags = weir_netlink::nlm::F_EXCL;
    let rule = l3mdev_rule();
    family
        .rules()
        .add(rule, Some(L3MDEV_PRIORITY), None, flags, |_| None)
}

/// Returns the table of the L3 domain of an outgoing device, given by its index (0: any), and the index that routes
/// must have (`l3mdev_update_flow`).
#[inline]
pub fn l3_output(ns: &Namespace, oif: u32, guard: &Guard) -> (u32, u32) {
    match oif {
        0 => (0, 0),
        oif => match ns.device(oif, guard) {
            None => (0, oif),
            device => super::l3_output(device),
        },
    }
}

/// Has `hear` called for changes of routes that no request caused.
pub fn listen(parts: &mut StackParts, hear: Hear) {
    parts.get_mut(&LISTENERS).push(hear);
}

/// Tells the listeners of routes that came or went.
pub fn tell<K: Address>(stack: &Stack, ns: &Namespace, events: &[Event<K, Arc<Device>>]) {
    if events.is_empty() {
        return;
    }
    for hear in stack.parts.find(&LISTENERS).into_iter().flatten() {
        hear(stack, ns, K::events(events));
    }
}

/// Has routes and rules: a namespace.
pub trait WithRoutes {
    /// Routes and rules of both families.
    fn fib(&self) -> &Fib<Arc<Device>>;
}

impl WithRoutes for Namespace {
    #[inline]
    fn fib(&self) -> &Fib<Arc<Device>> {
        self.parts.get(&FIB)
    }
}

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
            self.conf().ipv6.on(Ipv6Conf::IgnoreRoutesWithLinkdown)
        } else {
            self.conf().ipv4.on(Ipv4Conf::IgnoreRoutesWithLinkdown)
        }
    }
    fn ipv6_disabled(&self) -> bool {
        self.conf().ipv6.on(Ipv6Conf::DisableIpv6)
    }
    fn l3_table(&self) -> u32 {
        Device::l3_table(self)
    }
    fn is_l3_master(&self) -> bool {
        Device::is_l3_master(self)
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
    fn nexthop(&self, id: u32) -> Option<Arc<Object<Arc<Device>>>> {
        self.ns.fib().nexthops.find(id)
    }
    fn has_carrier(&self, device: &Arc<Device>) -> bool {
        device.link.carrier(self.stack, device)
    }
}

/// Handles an IPv4 device that goes down, is removed or loses its carrier. If `last_address` is
/// set, it has instead lost its last IPv4 address.
pub fn lost4(ns: &Namespace, device: &Device, loss: Loss, last_address: bool) {
    ns.fib()
        .v4
        .device_lost(device.ifindex(), loss, last_address);
}

/// Handles an IPv4 device that comes up or regains its carrier. Call it after adding the routes of
/// its addresses.
pub fn found4(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib()
        .v4
        .device_found(device, device.link.carrier(stack, device));
}

/// IPv6's part of a device going down, away, or losing its carrier; answers what to tell with
/// [`tell`].
pub fn lost6(ns: &Namespace, device: &Device, loss: Loss) -> Vec<Event<u128, Arc<Device>>> {
    let mut events = Vec::new();
    ns.fib().v6.device_lost(device.ifindex(), loss, &mut events);
    events
}

/// Handles an IPv6 device that comes up or regains its carrier.
pub fn found6(stack: &Stack, ns: &Namespace, device: &Arc<Device>) {
    ns.fib()
        .v6
        .device_found(device, device.link.carrier(stack, device));
}

/// Activates the rules that name a device, after it appeared under its name.
pub fn rules_attach(ns: &Namespace, device: &Device) {
    // A copy, unlike `Device::name`, takes no memory.
    let name = device.names().name.clone();
    let ifindex = device.ifindex();
    ns.fib().v4.rules().device_came(&name, ifindex);
    ns.fib().v6.rules().device_came(&name, ifindex);
}

/// Detaches the rules that name a device, after it was removed or renamed.
pub fn rules_detach(ns: &Namespace, ifindex: u32) {
    ns.fib().v4.rules().device_went(ifindex);
    ns.fib().v6.rules().device_went(ifindex);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The multicast routing tables of a namespace, and the rules that choose the table of a packet (`ipmr_rules_init`,
//! `ipmr_fib_lookup`, and those of `ip6mr.c`, with `CONFIG_IP_MROUTE_MULTIPLE_TABLES`).
//!
//! A namespace has one table in the beginning, and one rule (32767) that leads every packet there. A daemon makes another
//! table by naming it (`MRT_TABLE`, `MRT6_TABLE`); rules alone make none. Tables stay until the namespace ends. With the
//! first VRF comes a rule (1000) by which packets of its ports go by the table of the VRF's number, if there is one.
//!
//! As in Linux, rules look at devices and at the mark, and not at addresses, ports and protocols.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{Error, errno, rta};
use weir_packet::Packet;
use weir_sync::once_box::OnceBox;
use weir_sync::rcu::{Domain, Guard};

use super::{Family, Router, path};
use crate::device::Device;
use crate::fib;
use crate::fib::host::{Host, WithRoutes, l3mdev_rule, tell_rule};
use crate::fib::lookup::Flow;
use crate::fib::rule::{Entry, Initial, Rule, Rules};
use crate::layers::{self, Site};
use crate::namespace::Namespace;
use crate::stack::Stack;

/// The index of the loopback device.
const LOOPBACK: u32 = 1;
/// The priority of the rule that every namespace has.
const PRIORITY: u32 = 0x7fff;

/// The tables of a family in a namespace, and its rules.
#[derive(Debug)]
pub struct Routers<F: Family> {
    rules: Rules<F::Prefix>,
    /// The table that every namespace has, at which the list of all begins.
    first: OnceBox<Router<F>>,
}

impl<F: Family> Routers<F> {
    fn new(domain: &Domain) -> Self {
        Self {
            rules: Rules::new(domain),
            first: OnceBox::default(),
        }
    }
}

impl<F: Family> Drop for Router<F> {
    fn drop(&mut self) {
        // A list of any length is dropped without recursion.
        let mut next = self.next.take();
        while let Some(mut router) = next {
            next = router.next.take();
        }
    }
}

/// Returns the tables that somebody has used, the oldest first.
pub fn all<F: Family>(ns: &Namespace) -> impl Iterator<Item = &Router<F>> {
    let first = F::place(ns).get().and_then(|all| all.first.get());
    std::iter::successors(first, |router| router.next.get())
}

/// Returns the table of a number, if somebody has used it.
pub fn of<F: Family>(ns: &Namespace, id: u32) -> Option<&Router<F>> {
    all(ns).find(|router| router.id == id)
}

/// Returns whether there is a table of a number, used or not.
pub fn exists<F: Family>(ns: &Namespace, id: u32) -> bool {
    id == F::TABLE || of::<F>(ns, id).is_some()
}

/// Returns the table of a number, and makes it if there is none (`ipmr_new_table`).
pub fn make<'a, F: Family>(stack: &Stack, ns: &'a Namespace, id: u32) -> &'a Router<F> {
    let domain = &stack.domain;
    let mut router = routers::<F>(stack, ns)
        .first
        .get_or_make(|| Router::new(domain, F::TABLE));
    while router.id != id {
        router = router.next.get_or_make(|| Router::new(domain, id));
    }
    router
}

fn routers<'a, F: Family>(stack: &Stack, ns: &'a Namespace) -> &'a Routers<F> {
    F::place(ns).get_or_make(|| Routers::new(&stack.domain))
}

/// The rules that a namespace begins with, and those that a VRF has added to them.
fn initial<F: Family>(ns: &Namespace) -> Initial<F::Prefix> {
    let mut rules = Vec::new();
    if ns.fib().vrf.has_rules.load(Relaxed) {
        rules.push(l3mdev_rule());
    }
    let mut last = Rule::lookup(PRIORITY, F::TABLE);
    last.protocol = rta::prot::KERNEL;
    rules.push(last);
    rules
}

/// Returns the rules in order.
pub fn rules<F: Family>(ns: &Namespace, guard: &Guard) -> Vec<Entry<F::Prefix>> {
    match F::place(ns).get() {
        Some(all) => all.rules.entries_or(|| initial::<F>(ns), guard),
        None => Entry::all(initial::<F>(ns)),
    }
}

/// Adds a rule. Without a priority, it goes in front of the second one.
///
/// # Errors
/// Those of [`Rules::add`].
pub fn add_rule<F: Family>(
    host: &Host<'_>,
    rule: Rule<F::Prefix>,
    priority: Option<u32>,
    goto: Option<u32>,
    nlflags: u16,
) -> Result<Entry<F::Prefix>, Error> {
    let all = routers::<F>(host.stack, host.ns);
    let index = |name: &str| host.ns.device_by_name(name).map(|device| device.ifindex());
    let initial = || initial::<F>(host.ns);
    all.rules
        .add_to(initial, rule, priority, goto, nlflags, index)
}

/// Removes the first rule that fits a request.
///
/// # Errors
/// ENOENT if there is none.
pub fn delete_rule<F: Family>(
    host: &Host<'_>,
    request: &Rule<F::Prefix>,
    by_priority: bool,
) -> Result<Entry<F::Prefix>, Error> {
    let all = routers::<F>(host.stack, host.ns);
    let initial = || initial::<F>(host.ns);
    all.rules.delete_from(initial, request, by_priority)
}

/// Adds the rule of the first VRF of a namespace, which the listeners hear of (`vrf_add_fib_rules`). The namespace has
/// recorded that it has one.
pub fn add_l3mdev_rule<F: Family>(stack: &Stack, ns: &Namespace) {
    // A rule that exists already stays. Rules that were never changed have it as an initial one.
    let rules = &routers::<F>(stack, ns).rules;
    if let Ok(entry) = rules.add_unless_initial(l3mdev_rule()) {
        tell_rule(stack, ns, F::any_rule(&entry));
    }
}

/// The events of devices that rules depend on.
pub const EVENTS: &[layers::Event] = &[
    layers::Event::Entered,
    layers::Event::Detached,
    layers::Event::Renamed,
];

/// Attaches rules to a device that has come under its name, and detaches them from one that has left it
/// (`fib_rules_event`).
pub fn device_event<F: Family>(site: &Site<'_>, event: layers::Event) {
    let Some(all) = F::place(site.ns).get() else {
        return;
    };
    let (device, rules) = (site.device, &all.rules);
    if event != layers::Event::Entered {
        rules.device_went(device.ifindex());
    }
    if event != layers::Event::Detached {
        rules.device_came(&device.name(), device.ifindex());
    }
}

/// Returns the table of a packet that a device has received, or that comes back from the device that sent it. `None` stands
/// for a table that nobody has used (`ipmr_rt_fib_lookup`).
///
/// # Errors
/// That of the rule, or ENETUNREACH if no rule fits.
pub(crate) fn of_packet<'g, F: Family>(
    ns: &'g Namespace,
    device: &Arc<Device>,
    packet: &Packet,
    guard: &'g Guard,
) -> Result<Option<&'g Router<F>>, i32> {
    let flow = || {
        // A port's packets come by the VRF.
        let index = match device.l3_master_index(guard) {
            0 => device.ifindex(),
            vrf => vrf,
        };
        let own = F::OWN_BY_OUTPUT && path::is_own(packet);
        Flow {
            iif: if own { LOOPBACK } else { index },
            oif: if own && device.l3_table() == 0 {
                index
            } else {
                0
            },
            ..flow(device, packet)
        }
    };
    choose(ns, device, flow, guard)
}

/// Returns the table of a packet that leaves by a register device (`reg_vif_xmit`).
///
/// # Errors
/// As [`of_packet`].
pub(super) fn of_sent<'g, F: Family>(
    ns: &'g Namespace,
    device: &Arc<Device>,
    packet: &Packet,
    guard: &'g Guard,
) -> Result<Option<&'g Router<F>>, i32> {
    let flow = || Flow {
        iif: match packet.iif {
            0 => LOOPBACK,
            iif => iif,
        },
        oif: device.ifindex(),
        ..flow(device, packet)
    };
    choose(ns, device, flow, guard)
}

fn flow<K: fib::Address>(device: &Device, packet: &Packet) -> Flow<K> {
    Flow {
        mark: packet.mark,
        l3_table: device.l3_table(),
        ..Flow::default()
    }
}

fn choose<'g, F: Family>(
    ns: &'g Namespace,
    device: &Device,
    flow: impl FnOnce() -> Flow<F::Prefix>,
    guard: &'g Guard,
) -> Result<Option<&'g Router<F>>, i32> {
    let Some(all) = F::place(ns).get() else {
        return Ok(None);
    };
    let first = || all.first.get();
    if all.rules.are_default() {
        let own = match device.l3_table() {
            0 => None,
            table => of::<F>(ns, table),
        };
        return Ok(own.or_else(first));
    }
    all.rules.walk(&flow(), guard, |table| match table {
        id if id == F::TABLE => Ok(first()),
        id => of::<F>(ns, id).map(Some).ok_or(errno::EAGAIN),
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The label table of a namespace (`net/mpls/af_mpls.c`): routes by incoming label, the settings `net.mpls.*`, and
//! what happens to the routes when a device goes or comes.
//!
//! The state exists from the first use on: the first route, or the first write to a setting. Until then all settings
//! have their defaults (no labels, TTL propagated, default TTL 255, no device takes labelled packets).
//!
//! Labels below 16 are reserved. Those of the explicit nulls (0 for IPv4, 2 for IPv6) are there as soon as the table is
//! large enough: they pop the label and pass the packet to the loopback device.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering::Relaxed};

use weir_netlink::{Error, errno, nlm, rta};
use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use crate::device::{Device, DeviceKey};
use crate::layers::{Event, Hears, Module, Site};
use crate::namespace::Namespace;
use crate::parts::{Key, StackParts};
use crate::stack::Stack;

/// `MPLS_LABEL_IPV4NULL`
pub const IPV4_NULL: u32 = 0;
/// `MPLS_LABEL_IPV6NULL`
pub const IPV6_NULL: u32 = 2;
/// `MPLS_LABEL_IMPLNULL`: assigned, but never in a packet.
pub const IMPLICIT_NULL: u32 = 3;
/// `MPLS_LABEL_ENTROPY`: the label behind it is an entropy label (RFC 6790).
pub const ENTROPY: u32 = 7;
/// `MPLS_LABEL_FIRST_UNRESERVED`
pub const FIRST_UNRESERVED: u32 = 16;
/// The largest number of labels that a route pushes (`MAX_NEW_LABELS`).
pub const MAX_LABELS: usize = 30;
/// The largest number of incoming labels (`label_limit`).
pub const MAX_TABLE: i32 = (1 << 20) - 1;
/// The bytes of a label stack entry.
pub const SHIM: usize = 4;

/// The bytes of a route that Linux allows (`MAX_MPLS_ROUTE_MEM`), of a route and of a hop without labels.
const ROUTE_MEMORY: usize = 4096;
const ROUTE_BASE: usize = 32;
const HOP_BASE: usize = 16;

/// What a packet is when its last label is popped (`enum mpls_payload_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// What the first four bits say.
    Unspecified,
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// The neighbour of a hop (`RTA_VIA`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Via {
    /// None: frames go to the device's own address.
    Device,
    /// A link-layer address.
    Link(Vec<u8>),
    /// An IPv4 neighbour.
    V4(Ipv4Addr),
    /// An IPv6 neighbour.
    V6(Ipv6Addr),
}

impl Via {
    /// The length of the address in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Device => 0,
            Self::Link(address) => address.len(),
            Self::V4(_) => 4,
            Self::V6(_) => 16,
        }
    }

    /// Returns whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A hop as requested.
#[derive(Debug, Clone)]
pub struct HopConfig {
    /// The index of the device, or 0 to find it by a route to the neighbour.
    pub oif: u32,
    /// The neighbour.
    pub via: Via,
    /// The labels to push, outermost first.
    pub labels: Vec<u32>,
}

/// A hop (`struct mpls_nh`).
#[derive(Debug)]
pub struct Hop {
    /// The device's key and index, or nothing if it is gone.
    pub device: Option<(DeviceKey, u32)>,
    /// The neighbour.
    pub via: Via,
    /// The labels to push, outermost first.
    pub labels: Vec<u32>,
    /// `RTNH_F_DEAD` and `RTNH_F_LINKDOWN`
    flags: AtomicU8,
}

impl Hop {
    /// Returns `RTNH_F_DEAD` and `RTNH_F_LINKDOWN`.
    pub fn flags(&self) -> u8 {
        self.flags.load(Relaxed)
    }

    /// Returns whether packets may take the hop.
    pub fn is_alive(&self) -> bool {
        self.flags() == 0
    }

    fn uses(&self, key: DeviceKey) -> bool {
        self.device.is_some_and(|(own, _)| own == key)
    }
}

/// A route of a label (`struct mpls_route`).
#[derive(Debug)]
pub struct Route {
    /// `RTPROT_*`
    pub protocol: u8,
    /// What is below the last label.
    pub payload: Payload,
    /// Whether a popped packet takes the TTL of the label; nothing: as `net.mpls.ip_ttl_propagate` says.
    pub propagate: Option<bool>,
    /// The hops, at least one.
    pub hops: Vec<Hop>,
}

impl Route {
    /// Returns whether a hop uses the device of an index.
    pub fn uses(&self, ifindex: u32) -> bool {
        let by = |hop: &Hop| hop.device.is_some_and(|(_, own)| own == ifindex);
        self.hops.iter().any(by)
    }

    /// Returns the hop for a packet with a hash (`mpls_select_multipath`), which is only computed if needed.
    pub fn select(&self, hash: impl FnOnce() -> u32) -> Option<&Hop> {
        if let [only] = &self.hops[..] {
            return Some(only);
        }
        let alive = self.hops.iter().filter(|hop| hop.is_alive()).count();
        let at = hash().checked_rem(alive as u32)? as usize;
        self.hops.iter().filter(|hop| hop.is_alive()).nth(at)
    }
}

/// A route that came, went or was replaced.
#[derive(Debug, Clone)]
pub struct Change {
    /// The label.
    pub label: u32,
    /// The route before.
    pub old: Option<Arc<Route>>,
    /// The route now.
    pub new: Option<Arc<Route>>,
}

/// The places of a device's counters (`struct mpls_link_stats`).
pub mod counter {
    #![allow(missing_docs)] // The names are Linux's.
    pub const RX_PACKETS: usize = 0;
    pub const TX_PACKETS: usize = 1;
    pub const RX_BYTES: usize = 2;
    pub const TX_BYTES: usize = 3;
    pub const RX_ERRORS: usize = 4;
    pub const TX_ERRORS: usize = 5;
    pub const RX_DROPPED: usize = 6;
    pub const RX_NOROUTE: usize = 8;
}

/// The counters of a device, by [`counter`].
type Counters = [AtomicU64; 9];

/// The MPLS state of a namespace.
pub struct Mpls {
    routes: RcuHash<u32, Arc<Route>>,
    /// The number of labels and the routes in their order. Changes of `routes` hold the lock as well.
    table: Mutex<Table, order::MplsTable>,
    /// `net.mpls.conf.DEV.input` of the devices for which it was set.
    devices: RcuHash<DeviceKey, Arc<AtomicI32>>,
    /// The counters of the devices that have counted. The lock of `table` is held when a device gets some.
    counters: RcuHash<DeviceKey, Arc<Counters>>,
    /// `net.mpls.ip_ttl_propagate`
    pub propagate: AtomicBool,
    /// `net.mpls.default_ttl`
    pub default_ttl: AtomicU8,
}

#[derive(Debug, Default)]
struct Table {
    limit: u32,
    routes: BTreeMap<u32, Arc<Route>>,
}

static STATE: Key<OnceBox<Mpls>, 12> = Key::new();
static LISTENERS: Key<Vec<Listener>, 9> = Key::new();

/// Hears of what no request for a route caused.
#[derive(Clone, Copy)]
pub struct Listener {
    /// A route came or went.
    pub route: fn(&Namespace, &Change),
    /// A device has a setting of input, another one, or (`None`) none any more.
    pub input: fn(&Namespace, &Device, Option<i32>),
}

/// Has a listener called.
pub fn listen(parts: &mut StackParts, listener: Listener) {
    parts.get_mut(&LISTENERS).push(listener);
}

/// Tells the listeners of routes that came or went.
pub fn tell(stack: &Stack, ns: &Namespace, changes: &[Change]) {
    for listener in stack.parts.find(&LISTENERS).into_iter().flatten() {
        changes
            .iter()
            .for_each(|change| (listener.route)(ns, change));
    }
}

/// Tells the listeners of `net.mpls.conf.DEV.input`.
pub fn tell_input(stack: &Stack, ns: &Namespace, device: &Device, input: Option<i32>) {
    for listener in stack.parts.find(&LISTENERS).into_iter().flatten() {
        (listener.input)(ns, device, input);
    }
}

/// MPLS in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&STATE, OnceBox::default())),
    device_event: Some(Hears::of(
        &[
            Event::Entered,
            Event::Renamed,
            Event::Down,
            Event::Up,
            Event::Carrier,
            Event::Gone,
        ],
        device_event,
    )),
    ..Module::NONE
};

/// Returns the state of a namespace, if it has any.
#[inline]
pub fn of(ns: &Namespace) -> Option<&Mpls> {
    ns.parts.get(&STATE).get()
}

/// Returns the state of a namespace, made if it has none yet.
pub fn make<'n>(stack: &Stack, ns: &'n Namespace) -> &'n Mpls {
    let domain = &stack.domain;
    ns.parts.get(&STATE).get_or_make(|| Mpls::new(domain))
}

fn device_event(site: &Site<'_>, event: Event) {
    let Some(mpls) = of(site.ns) else { return };
    let (device, guard) = (site.device, site.guard);
    let carrier = || device.link.carrier(site.stack, device);
    let tell_input = |input| tell_input(site.stack, site.ns, device, input);
    match event {
        Event::Entered => tell_input(Some(mpls.input(device.key, guard))),
        Event::Renamed => {
            tell_input(None);
            tell_input(Some(mpls.input(device.key, guard)));
        }
        Event::Down => mpls.lost(device, rta::nh::F_DEAD | rta::nh::F_LINKDOWN),
        Event::Up | Event::Carrier if device.is_up() => match (carrier(), event) {
            (true, _) => mpls.found(device, rta::nh::F_DEAD | rta::nh::F_LINKDOWN),
            (false, Event::Up) => mpls.found(device, rta::nh::F_DEAD),
            (false, _) => mpls.lost(device, rta::nh::F_LINKDOWN),
        },
        Event::Gone => {
            let changes = mpls.gone(device, guard);
            mpls.devices.remove(&device.key, guard);
            mpls.counters.remove(&device.key, guard);
            tell(site.stack, site.ns, &changes);
            tell_input(None);
        }
        _ => {}
    }
}

fn invalid<T>(text: &'static str) -> Result<T, Error> {
    Err(Error::msg(errno::EINVAL, text))
}

impl Mpls {
    fn new(domain: &Domain) -> Self {
        Self {
            routes: RcuHash::new(domain),
            table: Mutex::default(),
            devices: RcuHash::new(domain),
            counters: RcuHash::new(domain),
            propagate: AtomicBool::new(true),
            default_ttl: AtomicU8::new(255),
        }
    }

    /// Returns the route of a label.
    #[inline]
    pub fn route<'g>(&'g self, label: u32, guard: &'g Guard) -> Option<&'g Arc<Route>> {
        self.routes.get(&label, guard)
    }

    /// Returns `net.mpls.platform_labels`.
    pub fn limit(&self) -> u32 {
        self.table.lock().limit
    }

    /// Returns the routes of unreserved labels, from `first` on, in their order.
    pub fn all(&self, first: u32) -> Vec<(u32, Arc<Route>)> {
        let table = self.table.lock();
        let range = table.routes.range(first.max(FIRST_UNRESERVED)..);
        range
            .map(|(label, route)| (*label, route.clone()))
            .collect()
    }

    /// Returns `net.mpls.conf.DEV.input`.
    #[inline]
    pub fn input(&self, key: DeviceKey, guard: &Guard) -> i32 {
        let own = self.devices.get(&key, guard);
        own.map_or(0, |own| own.load(Relaxed))
    }

    /// Returns `net.mpls.conf.DEV.input`, for a reader without a guard.
    pub fn known_input(&self, device: &Device) -> i32 {
        self.input(device.key, &self.devices.domain().pin())
    }

    /// Sets `net.mpls.conf.DEV.input`. Returns whether it is another value.
    pub fn set_input(&self, device: &Device, value: i32, guard: &Guard) -> bool {
        let own = match self.devices.get(&device.key, guard) {
            Some(own) => own.clone(),
            None => {
                let own = Arc::<AtomicI32>::default();
                self.devices.insert(device.key, own.clone(), guard);
                own
            }
        };
        own.swap(value, Relaxed) != value
    }

    /// Adds to counters of a device ([`counter`]).
    pub fn count(&self, key: DeviceKey, amounts: &[(usize, u64)], guard: &Guard) {
        let add = |own: &Counters| {
            for &(at, amount) in amounts {
                if let Some(counter) = own.get(at) {
                    counter.fetch_add(amount, Relaxed);
                }
            }
        };
        if let Some(own) = self.counters.get(&key, guard) {
            return add(own);
        }
        let _lock = self.table.lock();
        match self.counters.get(&key, guard) {
            Some(own) => add(own),
            None => {
                let own = Arc::<Counters>::default();
                add(&own);
                self.counters.insert(key, own, guard);
            }
        }
    }

    /// Returns the counters of a device, as on the wire.
    pub fn counters(&self, key: DeviceKey, guard: &Guard) -> Vec<u8> {
        let own = self.counters.get(&key, guard);
        let value = |at: usize| own.map_or(0, |own| own[at].load(Relaxed));
        (0..9).flat_map(|at| value(at).to_ne_bytes()).collect()
    }

    /// Refuses reserved labels and those beyond the table (`mpls_label_ok`).
    pub fn check(&self, label: u32) -> Result<(), Error> {
        check(label, self.limit())
    }

    /// Adds or replaces a route (`mpls_route_add`). Without a label, the first free one is taken.
    ///
    /// # Errors
    /// Linux's, with its texts.
    pub fn add(
        &self,
        label: Option<u32>,
        route: impl FnOnce() -> Result<Route, Error>,
        nlflags: u16,
        guard: &Guard,
    ) -> Result<Change, Error> {
        // Looking for the devices takes no lock of this table.
        let has = |flag| nlflags & flag != 0;
        let check = |table: &Table| {
            let free = || {
                let mut all = FIRST_UNRESERVED..table.limit;
                all.find(|label| !table.routes.contains_key(label))
            };
            let label = label.or_else(|| has(nlm::F_CREATE).then(free).flatten());
            let label = label.unwrap_or(u32::MAX);
            check(label, table.limit)?;
            if has(nlm::F_APPEND) {
                let text = "MPLS does not support route append";
                return Err(Error::msg(errno::EOPNOTSUPP, text));
            }
            let old = table.routes.get(&label);
            match old {
                Some(_) if has(nlm::F_EXCL) || !has(nlm::F_REPLACE) => {
                    Err(Error::new(errno::EEXIST))
                }
                None if !has(nlm::F_CREATE) => Err(Error::new(errno::ENOENT)),
                _ => Ok(label),
            }
        };
        check(&self.table.lock())?;
        let route = Arc::new(route()?);
        let mut table = self.table.lock();
        let label = check(&table)?;
        Ok(self.update(&mut table, label, Some(route), guard))
    }

    /// Removes a route, if there is one (`mpls_route_del`).
    ///
    /// # Errors
    /// EINVAL for a label that can have none.
    pub fn delete(&self, label: u32, guard: &Guard) -> Result<Change, Error> {
        let mut table = self.table.lock();
        check(label, table.limit)?;
        Ok(self.update(&mut table, label, None, guard))
    }

    fn update(
        &self,
        table: &mut Table,
        label: u32,
        new: Option<Arc<Route>>,
        guard: &Guard,
    ) -> Change {
        let old = match &new {
            Some(route) => {
                self.routes.insert(label, route.clone(), guard);
                table.routes.insert(label, route.clone())
            }
            None => {
                self.routes.remove(&label, guard);
                table.routes.remove(&label)
            }
        };
        Change { label, old, new }
    }

    /// Sets `net.mpls.platform_labels` (`resize_platform_label_table`). Routes beyond go.
    pub fn resize(&self, ns: &Namespace, limit: u32, guard: &Guard) -> Vec<Change> {
        let lo = ns.device(1, guard).map(|lo| (lo.key, 1));
        let mut table = self.table.lock();
        let beyond = table.routes.split_off(&limit);
        let changes = beyond.into_iter().map(|(label, old)| {
            self.routes.remove(&label, guard);
            let old = Some(old);
            Change {
                label,
                old,
                new: None,
            }
        });
        let changes = changes.collect();
        for (label, payload) in [(IPV4_NULL, Payload::V4), (IPV6_NULL, Payload::V6)] {
            if table.limit <= label && limit > label {
                let hop = Hop {
                    device: lo,
                    via: Via::Link(vec![0; 6]),
                    labels: Vec::new(),
                    flags: AtomicU8::new(0),
                };
                let route = Route {
                    protocol: rta::prot::KERNEL,
                    payload,
                    propagate: None,
                    hops: vec![hop],
                };
                self.update(&mut table, label, Some(Arc::new(route)), guard);
            }
        }
        table.limit = limit;
        changes
    }

    /// Passes the marks of each hop through a device to `change`, under the lock.
    fn each_mark(&self, device: &Device, change: impl Fn(&AtomicU8)) {
        let table = self.table.lock();
        let hops = table.routes.values().flat_map(|route| &route.hops);
        let ours = hops.filter(|hop| hop.uses(device.key));
        ours.for_each(|hop| change(&hop.flags));
    }

    /// Marks the hops of a device (`mpls_ifdown`).
    fn lost(&self, device: &Device, flags: u8) {
        self.each_mark(device, |marks| _ = marks.fetch_or(flags, Relaxed));
    }

    /// Clears marks of the hops of a device (`mpls_ifup`).
    fn found(&self, device: &Device, flags: u8) {
        self.each_mark(device, |marks| {
            // It may have gone down again. Its hops are marked under the lock after that.
            if device.is_up() {
                marks.fetch_and(!flags, Relaxed);
            }
        });
    }

    /// Takes a device that goes from all routes; those without another device go with it.
    fn gone(&self, device: &Device, guard: &Guard) -> Vec<Change> {
        let mut table = self.table.lock();
        let through = |route: &Route| route.hops.iter().any(|hop| hop.uses(device.key));
        let mine = table.routes.iter().filter(|(_, route)| through(route));
        let mine: Vec<_> = mine.map(|(label, route)| (*label, route.clone())).collect();
        let changes = mine.into_iter().map(|(label, old)| {
            let left = |hop: &Hop| hop.device.is_some() && !hop.uses(device.key);
            let new = old.hops.iter().any(left).then(|| {
                let without = |hop: &Hop| {
                    let lost = hop.uses(device.key);
                    let mark = rta::nh::F_DEAD | rta::nh::F_LINKDOWN;
                    Hop {
                        device: hop.device.filter(|_| !lost),
                        via: hop.via.clone(),
                        labels: hop.labels.clone(),
                        flags: AtomicU8::new(hop.flags() | if lost { mark } else { 0 }),
                    }
                };
                Arc::new(Route {
                    protocol: old.protocol,
                    payload: old.payload,
                    propagate: old.propagate,
                    hops: old.hops.iter().map(without).collect(),
                })
            });
            self.update(&mut table, label, new, guard)
        });
        changes.collect()
    }
}

impl std::fmt::Debug for Mpls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpls").finish_non_exhaustive()
    }
}

/// Refuses reserved labels and those beyond the table (`mpls_label_ok`).
pub fn check(label: u32, limit: u32) -> Result<(), Error> {
    match label {
        label if label < FIRST_UNRESERVED => {
            invalid("Invalid label - must be MPLS_LABEL_FIRST_UNRESERVED or higher")
        }
        label if label >= limit => invalid("Label >= configured maximum in platform_labels"),
        _ => Ok(()),
    }
}

/// Refuses a route that Linux would not find the memory for (`mpls_rt_alloc`).
pub fn check_size(hops: &[HopConfig]) -> Result<(), Error> {
    let labels = hops.iter().map(|hop| hop.labels.len()).max().unwrap_or(0);
    let address = hops.iter().map(|hop| hop.via.len()).max().unwrap_or(0);
    let hop = (HOP_BASE + labels * SHIM).next_multiple_of(8) + address.next_multiple_of(8);
    match ROUTE_BASE + hops.len() * hop <= ROUTE_MEMORY && hops.len() <= 255 {
        true => Ok(()),
        false => Err(Error::new(errno::EINVAL)),
    }
}

/// Makes a hop through a device (`mpls_nh_assign_dev`).
///
/// # Errors
/// EINVAL for a link-layer address of another length than the device's.
pub fn hop(stack: &Stack, config: HopConfig, device: &Device) -> Result<Hop, Error> {
    let length = if device.is_bare() { 4 } else { 6 };
    if matches!(&config.via, Via::Link(address) if address.len() != length) {
        return Err(Error::new(errno::EINVAL));
    }
    let flags = match (device.is_up(), device.link.carrier(stack, device)) {
        (false, _) => rta::nh::F_DEAD,
        (true, false) => rta::nh::F_LINKDOWN,
        (true, true) => 0,
    };
    Ok(Hop {
        device: Some((device.key, device.ifindex())),
        via: config.via,
        labels: config.labels,
        flags: AtomicU8::new(flags),
    })
}

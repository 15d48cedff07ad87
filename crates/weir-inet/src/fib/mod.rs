// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding tables of IPv4 and IPv6 (Linux's `net/ipv4/fib_*.c`, `net/ipv6/ip6_fib.c`, the route
//! part of `net/ipv6/route.c` and `net/core/fib_rules.c`).
//!
//! | module | contents |
//! |---|---|
//! | [`lpm`] | longest-prefix match: lock-free readers, incremental writers |
//! | `filter` | which addresses the local table certainly does not have |
//! | [`route`] | routes, next hops, shared route infos |
//! | `semantics` | validation of requests: gateways, devices, scopes (`fib_semantics.c`) |
//! | [`table`] | one table: adding, replacing, deleting, dumping (`fib_trie.c`) |
//! | [`table6`] | the same for IPv6, which has different semantics (`ip6_fib.c`) |
//! | [`rule`] | policy rules |
//! | [`lookup`] | route lookup for a packet's flow |
//! | [`hop`] | a next hop |
//! | [`encap`] | the encapsulation of packets that take a hop |
//! | [`exception`] | the gateways of single destinations, which redirects give |
//! | [`mpls`] | routes of MPLS labels |
//! | [`object`] | a nexthop object as routes see it |
//! | [`nexthop`] | the nexthop objects of a namespace |
//! | [`resilient`] | the buckets of resilient groups |
//! | [`sync`] | the effect of device and address changes on routes |
//! | [`address`] | the routes that an address creates |
//! | [`host`] | the connection to the stack's devices and namespaces |
//!
//! A namespace has one [`Fib`]. It knows devices only as handles `D` ([`RouteDevice`]) and queries
//! the rest of the stack through [`FibHost`], so that it can be tested by itself.
//!
//! Locks: one per prefix table (the writer's), one per family for the set of tables, one for the
//! shared route infos, one for the rules. None is taken under another, except under that of the nexthop
//! objects. Readers take none.

pub mod address;
pub mod encap;
pub mod exception;
mod filter;
pub mod hop;
pub mod host;
pub mod lookup;
pub mod lpm;
pub mod mpls;
pub mod nexthop;
pub mod object;
pub mod resilient;
pub mod route;
pub mod rule;
mod semantics;
mod sequence;
pub mod sync;
pub mod table;
pub mod table6;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::{Error, af};
use weir_netlink::{errno, rta};
use weir_sync::order::{self, Mutex};
use weir_sync::primitive::atomic::Ordering::Relaxed;
use weir_sync::primitive::atomic::{AtomicBool, AtomicU32};
use weir_sync::rcu::{Domain, Guard, Published};
use weir_sync::small_map::SmallMap;

use crate::clock::TimerId;
use lpm::Key;
use nexthop::Nexthops;
use object::Object;
use route::{Event, RouteConfig};
use rule::Rules;
use semantics::Infos;
use sync::Loss;
use table::Table;

/// A device as the tables see it: a cheap handle that reports its current state.
pub trait RouteDevice: Clone + Send + Sync + std::fmt::Debug + 'static {
    /// Returns the index in its namespace.
    fn ifindex(&self) -> u32;
    /// Returns `IFF_UP`.
    fn is_up(&self) -> bool;
    /// Returns `IFF_LOOPBACK`.
    fn is_loopback(&self) -> bool;
    /// Returns `IFLA_GROUP`.
    fn group(&self) -> u32;
    /// Returns `ignore_routes_with_linkdown` of the device or of `all`.
    fn ignores_linkdown(&self, ipv6: bool) -> bool;
    /// Returns `net.ipv6.conf.DEV.disable_ipv6`.
    fn ipv6_disabled(&self) -> bool;
    /// Returns the table of the device's L3 domain, or 0 (`l3mdev_fib_table`).
    fn l3_table(&self) -> u32 {
        0
    }
    /// Returns whether the device is a VRF (`netif_is_l3_master`).
    fn is_l3_master(&self) -> bool {
        false
    }
}

/// Returns the table of the L3 domain that a look-up for an outgoing device is made in (0: none), and the device
/// that routes must have (0: any). A VRF as the device only chooses its table (`l3mdev_update_flow`).
pub fn l3_output<D: RouteDevice>(device: Option<&D>) -> (u32, u32) {
    match device {
        None => (0, 0),
        Some(device) if device.is_l3_master() => (device.l3_table(), 0),
        Some(device) => (device.l3_table(), device.ifindex()),
    }
}

/// The queries that validation makes to the rest of the namespace.
pub trait FibHost<D: RouteDevice> {
    /// Returns the device with an index.
    fn device(&self, ifindex: u32) -> Option<D>;
    /// Returns whether the device has a carrier (`netif_carrier_ok`).
    fn has_carrier(&self, device: &D) -> bool;
    /// Returns the nexthop object with an id.
    fn nexthop(&self, id: u32) -> Option<Arc<Object<D>>> {
        let _ = id;
        None
    }
    /// Returns whether the device is in the namespace to stay, and the family is enabled on it.
    fn is_here(&self, device: &D, ipv6: bool) -> bool {
        let _ = (device, ipv6);
        true
    }
}

/// A key with its address family: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Key + std::hash::Hash {
    /// `AF_INET` or `AF_INET6`.
    const FAMILY: u8;
    /// Whether the family is IPv6.
    const IPV6: bool;
    /// Converts the key to an address.
    fn ip(self) -> IpAddr;
    /// Converts an address of this family to a key.
    fn from_ip(address: IpAddr) -> Option<Self>;
    /// Changes of this family's routes, for listeners of both.
    fn events<D: RouteDevice>(events: &[Event<Self, D>]) -> Events<'_, D>;
}

/// Changes of routes of one family.
#[derive(Debug, Clone, Copy)]
pub enum Events<'a, D: RouteDevice> {
    /// IPv4's
    V4(&'a [Event<u32, D>]),
    /// IPv6's
    V6(&'a [Event<u128, D>]),
}

impl Address for u32 {
    const FAMILY: u8 = af::INET;
    const IPV6: bool = false;
    fn ip(self) -> IpAddr {
        Ipv4Addr::from(self).into()
    }
    fn from_ip(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Some(address.into()),
            IpAddr::V6(_) => None,
        }
    }
    fn events<D: RouteDevice>(events: &[Event<Self, D>]) -> Events<'_, D> {
        Events::V4(events)
    }
}

impl Address for u128 {
    const FAMILY: u8 = af::INET6;
    const IPV6: bool = true;
    fn ip(self) -> IpAddr {
        Ipv6Addr::from(self).into()
    }
    fn from_ip(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V6(address) => Some(address.into()),
            IpAddr::V4(_) => None,
        }
    }
    fn events<D: RouteDevice>(events: &[Event<Self, D>]) -> Events<'_, D> {
        Events::V6(events)
    }
}

/// The tables of one family. Those that every packet needs have fields of their own.
#[derive(Debug)]
struct Tables<K: Address, D: RouteDevice> {
    local: Option<Arc<Table<K, D>>>,
    main: Option<Arc<Table<K, D>>>,
    default: Option<Arc<Table<K, D>>>,
    /// All tables. Linux walks its hash of 256 lists, indexed by the low eight bits of the table
    /// number, with the newest table of a list first. The key has that order.
    all: SmallMap<(u8, u32), Arc<Table<K, D>>>,
}

impl<K: Address, D: RouteDevice> Tables<K, D> {
    fn none() -> Self {
        Self {
            local: None,
            main: None,
            default: None,
            all: SmallMap::default(),
        }
    }

    /// Adds the `nth` table that was made.
    fn add(&mut self, table: Arc<Table<K, D>>, nth: u32) {
        let id = table.id;
        let field = match id {
            rta::table::LOCAL => Some(&mut self.local),
            rta::table::MAIN => Some(&mut self.main),
            rta::table::DEFAULT => Some(&mut self.default),
            _ => None,
        };
        if let Some(field) = field {
            *field = Some(table.clone());
        }
        self.all.insert((id as u8, u32::MAX - nth), table);
    }
}

/// One address family of a [`Fib`].
#[derive(Debug)]
pub struct Family<K: Address, D: RouteDevice> {
    tables: Published<Tables<K, D>>,
    /// Serializes the creation of tables and counts the tables created.
    making: Mutex<u32, order::Routes>,
    infos: Infos<D>,
    rules: Rules<K>,
    /// The gateways of single destinations.
    pub exceptions: exception::Exceptions<K, D>,
    /// The change counter of the routes, for `NLM_F_DUMP_INTR`.
    generation: AtomicU32,
    domain: Domain,
}

/// The forwarding tables and rules of a namespace.
#[derive(Debug)]
pub struct Fib<D: RouteDevice> {
    /// IPv4.
    pub v4: Family<u32, D>,
    /// IPv6.
    pub v6: Family<u128, D>,
    /// Nexthop objects.
    pub nexthops: Nexthops<D>,
    /// The timer of resilient groups.
    pub nexthop_timer: Mutex<Option<TimerId>, order::NexthopTimer>,
    /// What the namespace's VRFs have in common.
    pub vrf: VrfState,
}

/// The state that VRFs share in a namespace (`struct netns_vrf`).
#[derive(Debug, Default)]
pub struct VrfState {
    /// The first VRF has added the rules.
    pub has_rules: AtomicBool,
    /// `net.vrf.strict_mode`
    pub strict: AtomicBool,
}

impl<D: RouteDevice> Fib<D> {
    /// Creates empty tables and the default rules.
    pub fn new(domain: &Domain) -> Self {
        Self {
            v4: Family::new(domain, &[]),
            // IPv6 creates these two together with the namespace (`fib6_tables_init`).
            v6: Family::new(domain, &[rta::table::MAIN, rta::table::LOCAL]),
            nexthops: Nexthops::new(domain),
            nexthop_timer: Mutex::new(None),
            vrf: VrfState::default(),
        }
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Creates a family with these tables, in the order in which they were made.
    fn new(domain: &Domain, first: &[u32]) -> Self {
        let mut tables = Tables::none();
        let mut made = 0;
        for id in first {
            made += 1;
            tables.add(Arc::new(Table::new(*id, domain)), made);
        }
        Self {
            tables: Published::new(domain, tables),
            making: Mutex::new(made),
            infos: Infos::default(),
            rules: Rules::new(domain),
            exceptions: exception::Exceptions::new(domain),
            generation: AtomicU32::new(0),
            domain: domain.clone(),
        }
    }

    /// Returns the policy rules.
    pub fn rules(&self) -> &Rules<K> {
        &self.rules
    }

    /// Returns the change counter of the routes.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Relaxed);
    }

    /// Returns the table with a number, if it exists.
    pub fn table<'g>(&'g self, id: u32, guard: &'g Guard) -> Option<&'g Arc<Table<K, D>>> {
        let tables = self.tables.load(guard);
        match id {
            rta::table::LOCAL => tables.local.as_ref(),
            rta::table::MAIN | rta::table::UNSPEC => tables.main.as_ref(),
            rta::table::DEFAULT => tables.default.as_ref(),
            _ => {
                // No table has the position 0 in its list.
                let mut at = (id as u8, 0);
                loop {
                    let (key, table) = tables.all.above(&at)?;
                    match table.id == id {
                        true => return Some(table),
                        false if key.0 != id as u8 => return None,
                        false => at = *key,
                    }
                }
            }
        }
    }

    /// Returns all tables in the order of Linux's dumps.
    pub fn tables<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = &'g Arc<Table<K, D>>> {
        self.tables.load(guard).all.values()
    }

    /// Returns the table with a number, creating it if necessary (`fib_new_table`).
    pub fn make_table(&self, id: u32, guard: &Guard) -> Arc<Table<K, D>> {
        let id = if id == rta::table::UNSPEC {
            rta::table::MAIN
        } else {
            id
        };
        if let Some(table) = self.table(id, guard) {
            return table.clone();
        }
        let mut made = self.making.lock();
        // Another thread may have made it in the meantime.
        if let Some(table) = self.table(id, guard) {
            return table.clone();
        }
        *made += 1;
        let table = Arc::new(Table::new(id, &self.domain));
        let old = self.tables.load(guard);
        let mut new = Tables {
            local: old.local.clone(),
            main: old.main.clone(),
            default: old.default.clone(),
            all: old.all.clone(),
        };
        new.add(table.clone(), *made);
        self.tables.replace(new);
        table
    }

    /// Returns the lowest unused table number, starting from 1 (`fib_empty_table`).
    pub fn empty_table(&self, guard: &Guard) -> Option<u32> {
        (1..=rta::table::COMPAT).find(|&id| self.table(id, guard).is_none())
    }
}

impl<D: RouteDevice> Family<u32, D> {
    /// Adds, replaces or changes a route as `config.nlflags` says (`fib_table_insert`). `v6` holds
    /// the tables in which IPv6 gateways are looked up.
    ///
    /// # Errors
    /// Linux's errno and text. The tables are then unchanged.
    pub fn add(
        &self,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        v6: &Family<u128, D>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) -> Result<(), Error> {
        self.add_checked(config, host, Some(v6), guard, events)
    }

    /// Like [`Self::add`], for routes without an IPv6 gateway.
    fn add_direct(
        &self,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) -> Result<(), Error> {
        self.add_checked(config, host, None, guard, events)
    }

    fn add_checked(
        &self,
        config: &RouteConfig<u32>,
        host: &impl FibHost<D>,
        v6: Option<&Family<u128, D>>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) -> Result<(), Error> {
        // Linux creates the table first.
        let table = self.make_table(config.table, guard);
        let info = self.create_info(config, host, v6, guard)?;
        events.extend(table.insert(config, info.clone(), guard)?);
        self.changed();
        if let Some(object) = info.object()
            && object.is_gone()
        {
            self.remove_by(object);
        }
        // No lock keeps the devices up: one that went down after the check may have been swept
        // before this route was inserted.
        self.infos.seen.added();
        for hop in &info.hops {
            let down = hop.device.as_ref().is_some_and(|device| !device.is_up());
            if down && hop.scope != rta::scope::NOWHERE {
                self.device_lost(hop.oif, Loss::Down, false);
            }
            let gone = |device: &D| !host.is_here(device, false);
            if hop.device.as_ref().is_some_and(gone) {
                self.device_lost(hop.oif, Loss::Gone, true);
            }
        }
        Ok(())
    }

    /// Removes the first matching route (`fib_table_delete`).
    ///
    /// # Errors
    /// ESRCH if there is no such route or table.
    pub fn delete(
        &self,
        config: &RouteConfig<u32>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) -> Result<(), Error> {
        let table = self
            .table(config.table, guard)
            .ok_or_else(|| Error::msg(errno::ESRCH, "FIB table does not exist"))?;
        events.push(table.delete(config, guard)?);
        self.changed();
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours of both families: the table, the state machine, and the last step of layer 3, from
//! next hop to link-layer header ([`output()`]).
//!
//! Mirrors `net/core/neighbour.c` with `arp_tbl` and `nd_tbl`, including its states and timers
//! (`NUD_*`). Times come from the device's `neigh` sysctls. The packets that wait for an address
//! are limited by `unres_qlen_bytes`; the oldest is dropped first. The random part of the reachable
//! time is derived from the entry's key, so it is the same in every run.
//!
//! Not implemented: proxy entries (`NTF_PROXY` is rejected) and the periodic garbage collection
//! below 1024 entries. (Linux does nothing below 128. At 1024 entries, unused ones are evicted as
//! in Linux.)

mod entry;
mod output;
pub mod proxy;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize, fence};

use weir_netlink::ifla::iff;
use weir_netlink::rta::{rtn, table};
use weir_packet::Packet;
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

pub use entry::{Neighbour, Refused, Update, nud};
pub use output::{Run, output, output_all, output_runs, output_to, with_header};

use self::proxy::Proxies;
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey, Mac};
use crate::fib::host::WithRoutes;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::{Key as Place, StackParts};
use crate::settings::HasIp;
use crate::stack::Stack;

/// The maximum number of entries in a namespace, not counting permanent ones (`gc_thresh3`,
/// `exempt_from_gc`).
const MOST: usize = 1024;

/// How a protocol resolves its neighbours (`struct neigh_ops`).
pub struct Protocol {
    /// Asks who has an address: the neighbour with this link-layer address alone, or all. The packet waits
    /// for the answer.
    pub solicit: fn(&mut Cx<'_>, &Arc<Device>, IpAddr, Option<Mac>, Option<&Packet>),
    /// The neighbour a packet waited for does not answer (`error_report`).
    pub failed: fn(&mut Cx<'_>, &Arc<Device>, &Packet),
    /// A proxy entry came to a device, or went (`pconstructor`, `pdestructor`).
    pub proxied: fn(&Stack, &Guard, &Arc<Device>, IpAddr, bool),
}

/// Has a family's protocol know of a proxy entry that came to a device, or went.
pub fn proxied(stack: &Stack, guard: &Guard, device: &Arc<Device>, address: IpAddr, came: bool) {
    if let Some(protocol) = protocol(stack, address) {
        (protocol.proxied)(stack, guard, device, address, came);
    }
}

/// What listeners are told of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It came or changed (`RTM_NEWNEIGH`).
    Changed,
    /// It went (`RTM_DELNEIGH`).
    Gone,
    /// A listener is to resolve it (`RTM_GETNEIGH`).
    Wanted,
}

/// Hears of entries.
pub type Hear = fn(&Stack, &Guard, &Neighbour, Told);

/// What higher floors bring.
#[derive(Default)]
struct Hooks {
    ipv4: Option<&'static Protocol>,
    ipv6: Option<&'static Protocol>,
    listeners: Vec<Hear>,
}

static HOOKS: Place<Hooks, 1> = Place::new();
static NEIGHBOURS: Place<Neighbours, 2> = Place::new();

/// Neighbours in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, new| parts.fill(&NEIGHBOURS, Neighbours::new(new.domain))),
    ..Module::NONE
};

/// Has a family's neighbours resolved by a protocol.
pub fn resolve_by(parts: &mut StackParts, ipv6: bool, protocol: &'static Protocol) {
    let hooks = parts.get_mut(&HOOKS);
    let slot = match ipv6 {
        false => &mut hooks.ipv4,
        true => &mut hooks.ipv6,
    };
    *slot = Some(protocol);
}

/// Has `hear` called for changes of entries.
pub fn listen(parts: &mut StackParts, hear: Hear) {
    parts.get_mut(&HOOKS).listeners.push(hear);
}

/// The protocol that resolves an address.
fn protocol(stack: &Stack, address: IpAddr) -> Option<&'static Protocol> {
    let hooks = stack.parts.find(&HOOKS)?;
    match address {
        IpAddr::V4(_) => hooks.ipv4,
        IpAddr::V6(_) => hooks.ipv6,
    }
}

fn tell(stack: &Stack, guard: &Guard, entry: &Neighbour, what: Told) {
    if let Some(hooks) = stack.parts.find(&HOOKS) {
        for hear in &hooks.listeners {
            hear(stack, guard, entry, what);
        }
    }
}

/// Has neighbours: a namespace.
pub trait WithNeighbours {
    /// Neighbours of both families.
    fn neighbours(&self) -> &Neighbours;
}

impl WithNeighbours for Namespace {
    #[inline]
    fn neighbours(&self) -> &Neighbours {
        self.parts.get(&NEIGHBOURS)
    }
}

/// Returns the address of the entry that packets to a neighbour use: a loopback or point-to-point device has a single
/// entry for all IPv4 addresses (`arp_constructor`).
#[inline]
fn entry_address(device: &Device, neighbour: IpAddr) -> IpAddr {
    let one = device.flags() & (iff::LOOPBACK | iff::POINTOPOINT) != 0;
    match neighbour {
        IpAddr::V4(_) if one => Ipv4Addr::UNSPECIFIED.into(),
        neighbour => neighbour,
    }
}

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The device.
    pub device: DeviceKey,
    /// The neighbour's address.
    pub address: IpAddr,
}

/// The neighbour entries of a namespace, of both families; see the module documentation.
pub struct Neighbours {
    /// The proxy entries.
    pub proxies: Proxies,
    table: RcuHash<Key, Arc<Neighbour>>,
    count: AtomicUsize,
    generation: AtomicU32,
}

impl Neighbours {
    /// Creates an empty table.
    pub fn new(domain: &Domain) -> Self {
        Self {
            proxies: Proxies::default(),
            table: RcuHash::new(domain),
            count: AtomicUsize::new(0),
            generation: AtomicU32::new(0),
        }
    }

    /// Returns the change counter for `NLM_F_DUMP_INTR`.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Returns the entry of an address.
    #[inline]
    pub fn get<'g>(
        &'g self,
        device: DeviceKey,
        address: IpAddr,
        guard: &'g Guard,
    ) -> Option<&'g Arc<Neighbour>> {
        self.table.get(&Key { device, address }, guard)
    }

    /// Returns the entry of an address, creating it if necessary. Returns `None` if the table is
    /// full of entries in use.
    pub fn get_or_make(
        &self,
        stack: &Stack,
        device: &Device,
        address: IpAddr,
        guard: &Guard,
    ) -> Option<Arc<Neighbour>> {
        self.make(stack, device, address, false, guard)
    }

    /// Does the same as [`get_or_make`](Self::get_or_make). `permanent` says that the entry will be
    /// permanent, which the limit does not count.
    pub fn make(
        &self,
        stack: &Stack,
        device: &Device,
        address: IpAddr,
        permanent: bool,
        guard: &Guard,
    ) -> Option<Arc<Neighbour>> {
        let address = entry_address(device, address);
        if let Some(entry) = self.get(device.key, address, guard) {
            return Some(entry.clone());
        }
        let limited = !permanent && self.count.load(Relaxed) >= MOST;
        if limited && !self.make_room(stack, guard) {
            return None;
        }
        let broadcast = match address {
            IpAddr::V4(address) => {
                let routes = &device.namespace(guard).fib().v4;
                let own = match device.l3_table() {
                    0 => table::LOCAL,
                    own => own,
                };
                routes.address_type(address, own, guard) == rtn::BROADCAST
            }
            IpAddr::V6(_) => false,
        };
        let key = Key {
            device: device.key,
            address,
        };
        let entry = self.table.get_or_insert_with(key, guard, || {
            self.count.fetch_add(1, Relaxed);
            self.generation.fetch_add(1, Relaxed);
            Arc::new(Neighbour::new(key, device, broadcast, stack.clock.now()))
        });
        // Code that removes the device or the protocol sets its flag before it looks for entries
        // without a lock: either it finds this entry, or the checks below see the flag.
        fence(SeqCst);
        let here = || std::ptr::eq(device.namespace(guard).neighbours(), self);
        if device.is_leaving() || !here() || !device.has_ip(address.is_ipv6()) {
            self.remove(stack, guard, entry);
            return None;
        }
        Some(entry.clone())
    }

    /// Removes an entry. Packets that wait for it are dropped.
    pub fn remove(&self, stack: &Stack, guard: &Guard, entry: &Arc<Neighbour>) -> bool {
        if self
            .table
            .remove_if(&entry.key, guard, |present| Arc::ptr_eq(present, entry))
            .is_none()
        {
            return false;
        }
        self.count.fetch_sub(1, Relaxed);
        self.generation.fetch_add(1, Relaxed);
        entry.kill(stack, guard);
        true
    }

    /// Returns all entries, ordered by device and address.
    pub fn all(&self, guard: &Guard) -> Vec<Arc<Neighbour>> {
        let mut all: Vec<_> = self
            .table
            .iter(guard)
            .map(|(_, entry)| entry.clone())
            .collect();
        all.sort_by_key(|entry| entry.key);
        all
    }

    /// Removes a device's entries of one family: all of them (`neigh_ifdown`), or all but the
    /// permanent ones (`neigh_carrier_down`).
    pub fn device_went(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: DeviceKey,
        ipv6: bool,
        keep_permanent: bool,
    ) {
        fence(SeqCst);
        self.proxies_went(stack, guard, device, ipv6);
        if self.count.load(Relaxed) == 0 {
            return;
        }
        for entry in self.all(guard) {
            if entry.key.device == device
                && entry.key.address.is_ipv6() == ipv6
                && !(keep_permanent && entry.state() & nud::PERMANENT != 0)
            {
                self.remove(stack, guard, &entry);
            }
        }
    }

    /// Deletes a device's proxy entries of one family.
    fn proxies_went(&self, stack: &Stack, guard: &Guard, device: DeviceKey, ipv6: bool) {
        self.proxies.forget(ipv6);
        for proxy in self.proxies.device_went(device, ipv6) {
            if let (Some(device), Some(protocol)) =
                (stack.device(device, guard), protocol(stack, proxy.address))
            {
                (protocol.proxied)(stack, guard, device, proxy.address, false);
            }
        }
    }

    /// Evicts the least recently used entry that may be removed (`neigh_forced_gc`).
    fn make_room(&self, stack: &Stack, guard: &Guard) -> bool {
        let mut counted = self.all(guard);
        counted.retain(|entry| entry.state() & nud::PERMANENT == 0);
        if counted.len() < MOST {
            return true;
        }
        let spare = |entry: &Arc<Neighbour>| entry.state() & (nud::NOARP | nud::CONNECTED) == 0;
        let oldest = counted
            .into_iter()
            .filter(spare)
            .min_by_key(|entry| (entry.used(), entry.key));
        oldest.is_some_and(|entry| self.remove(stack, guard, &entry))
    }
}

impl std::fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

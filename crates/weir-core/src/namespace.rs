// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network namespace (Linux's `struct net`): devices by index and by name, tables, sysctls and
//! subscribed sockets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rare::Rare;
use weir_sync::rcu::{Domain, Guard};
use weir_sync::small_hash::SmallHash;
use weir_sync::small_map::{SmallMap, SmallTable};

use crate::conf::{Conf, Core};
use crate::device::{Device, Mac};
use crate::layers::{Inherited, Layers, NewNamespace};
use crate::name::Name;
use crate::notify::Subscribers;
use crate::nsid::{Holders, Ids};
use crate::parts::NamespaceParts;
use crate::steer::Softnet;

/// Identifies a namespace for the lifetime of the stack. Ids are never reused. The initial
/// namespace has id 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NsId(pub u64);

/// A namespace in the stack's table. It is empty until the namespace is first used, and holds `None` if it
/// was removed before that.
pub(crate) type Slot = OnceLock<Option<Arc<Namespace>>>;

/// The devices of a namespace, for control code. They are guarded by the namespace's link lock,
/// [`weir_sync::order::Links`].
#[derive(Debug, Default)]
pub struct Links {
    /// The devices by index, in the order dumps report them.
    pub by_index: SmallMap<u32, Arc<Device>>,
    /// The devices by name and by alternative name.
    pub by_name: SmallTable<Name, Arc<Device>>,
    /// The change counter for `NLM_F_DUMP_INTR`.
    pub generation: u32,
    last_index: u32,
}

impl Links {
    /// Returns the next free index (`dev_new_index`).
    pub fn new_index(&mut self) -> u32 {
        loop {
            self.last_index = self.last_index.wrapping_add(1) & 0x7fff_ffff;
            if self.last_index != 0 && !self.by_index.contains_key(&self.last_index) {
                return self.last_index;
            }
        }
    }

    /// Returns the device with this name or alternative name.
    pub fn find(&self, name: &str) -> Option<&Arc<Device>> {
        self.by_name.get(name)
    }
}

/// State that exists once per stack: sysctls, which only the initial namespace shows, and indices.
#[derive(Default)]
pub struct Global {
    /// `net.core.*`
    pub core: Conf<Core>,
    /// Sysctls that are stored; see [`Namespace::kept`].
    pub kept: Mutex<BTreeMap<String, String>, order::Kept>,
    /// For each namespace, those that gave it an id.
    pub nsid_holders: Holders,
}

/// A network namespace; see the module documentation.
pub struct Namespace {
    /// The stack-wide id.
    pub id: NsId,
    links: Mutex<Links, order::Links>,
    /// The devices by index, for the data path. Changes hold `links`.
    devices: SmallHash<u32, Arc<Device>>,
    /// Set when the namespace is being torn down. No new device may enter then.
    closing: AtomicBool,
    /// The number of addresses generated so far; see [`Namespace::random_mac`].
    macs: AtomicU32,
    seed: u64,
    /// The steering of the stack, with the sysctls of it that all namespaces share.
    pub softnet: Arc<Softnet>,
    /// Other state that all namespaces share.
    pub global: Arc<Global>,
    /// Sysctls that are stored but have no effect.
    pub kept: Mutex<BTreeMap<String, String>, order::Kept>,
    /// What modules have here (`net_generic`).
    pub parts: NamespaceParts,
    /// The actions and shared blocks of traffic control.
    pub tc: weir_tc::NetTc,
    /// `net.ipv4.ip_local_port_range`: the first and the last port, 16 bits each.
    local_ports: AtomicU32,
    /// The rtnetlink sockets of the namespace.
    pub subscribers: Subscribers,
    /// The generic netlink sockets of the namespace.
    pub generic: Arc<Subscribers>,
    /// The netfilter sockets of the namespace.
    pub netfilter: Subscribers,
    /// The sockets of the namespace that list sockets (`NETLINK_SOCK_DIAG`).
    pub diagnosis: Subscribers,
    /// The way `vconfig` names VLAN devices (`enum vlan_name_types`); see `/proc/net/vlan/config`.
    pub vlan_names: AtomicU32,
    /// The ids this namespace has assigned to other namespaces (`RTM_NEWNSID`).
    pub nsids: Mutex<Rare<Ids>, order::NsIds>,
}

impl Namespace {
    /// Creates an empty namespace. The stack adds a loopback device to it.
    pub fn new(
        id: NsId,
        domain: &Domain,
        layers: &Layers,
        (budget, handles, softnet, global): (
            &Arc<weir_tc::Budget>,
            &Arc<weir_tc::Handles>,
            &Arc<Softnet>,
            &Arc<Global>,
        ),
        seed: u64,
        inherited: Option<&Inherited>,
    ) -> Self {
        let mut parts = NamespaceParts::default();
        let new = NewNamespace {
            domain,
            seed,
            inherited,
        };
        for fill in layers.modules.iter().filter_map(|module| module.namespace) {
            fill(&mut parts, &new);
        }
        Self {
            id,
            links: Mutex::default(),
            devices: SmallHash::new(domain),
            closing: AtomicBool::new(false),
            macs: AtomicU32::new(0),
            seed,
            softnet: softnet.clone(),
            global: global.clone(),
            kept: Mutex::new(inherited.map_or_else(BTreeMap::new, |from| from.kept.clone())),
            parts,
            tc: weir_tc::NetTc::new(domain, budget, handles).seeded(seed),
            local_ports: AtomicU32::new(32_768 << 16 | 60_999),
            subscribers: Subscribers::default(),
            generic: Arc::default(),
            netfilter: Subscribers::default(),
            diagnosis: Subscribers::default(),
            vlan_names: AtomicU32::new(3), // VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD
            nsids: Mutex::default(),
        }
    }

    /// Returns the range of source ports for locally generated datagrams, both ends inclusive.
    pub fn local_ports(&self) -> (u16, u16) {
        let ports = self.local_ports.load(Relaxed);
        ((ports >> 16) as u16, ports as u16)
    }

    /// Sets the first and the last port own datagrams leave from.
    pub fn set_local_ports(&self, first: u16, last: u16) {
        let ports = u32::from(first) << 16 | u32::from(last);
        self.local_ports.store(ports, Relaxed);
    }

    /// Locks the devices for control code.
    pub fn links(&self) -> MutexGuard<'_, Links, order::Links> {
        self.links.lock()
    }

    /// Returns the device with an index, without taking a lock.
    #[inline]
    pub fn device<'g>(&'g self, ifindex: u32, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.devices.get(&ifindex, guard)
    }

    /// Returns all devices in the order of their indices.
    pub fn all_devices(&self) -> Vec<Arc<Device>> {
        self.links().by_index.values().cloned().collect()
    }

    /// Returns the device with a name or alternative name.
    pub fn device_by_name(&self, name: &str) -> Option<Arc<Device>> {
        self.links().find(name).cloned()
    }

    /// Returns whether the namespace is being torn down.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Marks the namespace as being torn down.
    pub fn close(&self) {
        self.closing.store(true, Relaxed);
    }

    /// Adds a device under `ifindex` and its names. The caller has checked that they are free.
    pub fn enter(&self, guard: &Guard, links: &mut Links, device: &Arc<Device>, ifindex: u32) {
        device.set_ifindex(ifindex);
        links.by_index.insert(ifindex, device.clone());
        {
            let names = device.names();
            for name in names.all() {
                links.by_name.insert(name.into(), device.clone());
            }
        }
        self.devices.insert(ifindex, device.clone(), guard);
        links.generation = links.generation.wrapping_add(1);
        device.set_registered(true);
    }

    /// Removes a device from the tables.
    pub fn leave(&self, guard: &Guard, links: &mut Links, device: &Arc<Device>) {
        device.set_registered(false);
        let ifindex = device.ifindex();
        links.by_index.remove(&ifindex);
        {
            let names = device.names();
            for name in names.all() {
                if links
                    .by_name
                    .get(name)
                    .is_some_and(|other| Arc::ptr_eq(other, device))
                {
                    links.by_name.remove(name);
                }
            }
        }
        self.devices.remove(&ifindex, guard);
        links.generation = links.generation.wrapping_add(1);
    }

    /// Generates a locally administered address from the namespace's seeded generator
    /// (`eth_random_addr`), so that the same script gets the same addresses.
    pub fn random_mac(&self) -> Mac {
        let draw = self.macs.fetch_add(1, Relaxed);
        let bits =
            crate::random::mix(self.seed ^ u64::from(draw).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
        [(a & 0xfe) | 0x02, b, c, d, e, f]
    }
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_begin_again_after_the_last() {
        let mut links = Links {
            last_index: 0x7fff_fffd,
            ..Links::default()
        };
        let next = [(); 4].map(|()| links.new_index());
        assert_eq!(next, [0x7fff_fffe, 0x7fff_ffff, 1, 2]);
    }
}

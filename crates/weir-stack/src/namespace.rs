// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network namespace (Linux's `struct net`): devices by index and by name, tables, sysctls,
//! sockets that listen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use crate::device::{Device, DeviceConf, Mac};
use crate::fib::Fib;
use crate::neigh::Neighbours;
use crate::notify::Subscribers;
use crate::sysctl::{Conf, Core, Ipv4, Ipv4Conf, Ipv6, Ipv6Conf};

/// Names a namespace for as long as the stack lives; never reused. The initial one is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NsId(pub u64);

/// The devices of a namespace, for control code. Guarded by the namespace's link lock, the third in
/// the lock order.
#[derive(Debug, Default)]
pub struct Links {
    /// By index, in the order dumps show them.
    pub by_index: BTreeMap<u32, Arc<Device>>,
    /// By name and by alternative name.
    pub by_name: BTreeMap<String, Arc<Device>>,
    /// Counts changes, for `NLM_F_DUMP_INTR`.
    pub generation: u32,
    last_index: u32,
}

impl Links {
    /// The next free index (`dev_new_index`).
    pub fn new_index(&mut self) -> u32 {
        loop {
            self.last_index = self.last_index.wrapping_add(1) & 0x7fff_ffff;
            if self.last_index != 0 && !self.by_index.contains_key(&self.last_index) {
                return self.last_index;
            }
        }
    }

    /// The device with this name or alternative name.
    pub fn find(&self, name: &str) -> Option<&Arc<Device>> {
        self.by_name.get(name)
    }
}

/// The values of `net.ipv{4,6}.conf.all`.
#[derive(Debug)]
pub struct AllConf {
    /// `net.ipv4.conf.all`
    pub ipv4: Conf<Ipv4Conf>,
    /// `net.ipv6.conf.all`
    pub ipv6: Conf<Ipv6Conf>,
}

impl Default for AllConf {
    fn default() -> Self {
        let conf = Self {
            ipv4: Conf::default(),
            ipv6: Conf::default(),
        };
        // Where `ipv6_devconf` differs from `ipv6_devconf_dflt`.
        conf.ipv6.set(Ipv6Conf::AcceptDad, 0);
        conf
    }
}

/// A network namespace; see the module's head.
pub struct Namespace {
    /// The stack-wide name.
    pub id: NsId,
    links: Mutex<Links>,
    devices: RcuHash<u32, Arc<Device>>,
    /// Set when the namespace is being torn down: no new device may enter.
    closing: AtomicBool,
    /// Draws of the address generator so far; see [`Namespace::random_mac`].
    macs: AtomicU32,
    seed: u64,
    /// `net.core.*`
    pub core: Conf<Core>,
    /// `net.ipv4.*`
    pub ipv4: Conf<Ipv4>,
    /// `net.ipv6.*`
    pub ipv6: Conf<Ipv6>,
    /// `conf/all`
    pub all: AllConf,
    /// `conf/default` and `neigh/default`
    pub default: DeviceConf,
    /// Sysctls that are only kept.
    pub kept: Mutex<BTreeMap<String, String>>,
    /// Routes and rules of both families.
    pub fib: Fib<Arc<Device>>,
    /// IPv4's own state: peers, fragments, limits.
    pub inet: crate::ipv4::Net,
    /// Neighbours of both families.
    pub neighbours: Neighbours,
    /// IPv6's part.
    pub ip6: crate::ipv6::Net,
    /// How many ICMP messages may be sent, both families.
    pub icmp: crate::icmp_limit::Bucket,
    /// Actions and shared blocks of traffic control.
    pub tc: weir_tc::NetTc,
    /// VXLAN's part, made for the first device whose underlay the namespace is.
    pub tunnels: OnceLock<Box<crate::link::vxlan::socket::Tunnels>>,
    /// `net.ipv4.ip_local_port_range`: the first port and the last, 16 bits each.
    local_ports: AtomicU32,
    /// Sockets of the namespace.
    pub subscribers: Subscribers,
    /// Its sockets of generic netlink.
    pub generic: Arc<Subscribers>,
    /// How `vconfig` names VLAN devices (`enum vlan_name_types`); see `/proc/net/vlan/config`.
    pub vlan_names: AtomicU32,
    /// Ids this namespace gave to others (`RTM_NEWNSID`).
    pub nsids: Mutex<BTreeMap<NsId, i32>>,
}

impl Namespace {
    /// An empty namespace; the stack puts a loopback device into it.
    pub fn new(
        id: NsId,
        domain: &Domain,
        shared: (&Arc<weir_tc::Budget>, &Arc<weir_tc::Handles>),
        seed: u64,
    ) -> Self {
        Self {
            id,
            links: Mutex::default(),
            devices: RcuHash::new(domain),
            closing: AtomicBool::new(false),
            macs: AtomicU32::new(0),
            seed,
            core: Conf::default(),
            ipv4: Conf::default(),
            ipv6: Conf::default(),
            all: AllConf::default(),
            default: DeviceConf::default(),
            kept: Mutex::default(),
            fib: Fib::new(domain),
            inet: crate::ipv4::Net::default(),
            neighbours: Neighbours::new(domain),
            ip6: crate::ipv6::Net::new(domain, seed),
            icmp: crate::icmp_limit::Bucket::new(seed),
            tc: weir_tc::NetTc::new(domain, shared.0, shared.1),
            tunnels: OnceLock::new(),
            local_ports: AtomicU32::new(32_768 << 16 | 60_999),
            subscribers: Subscribers::default(),
            generic: Arc::default(),
            vlan_names: AtomicU32::new(3), // VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD
            nsids: Mutex::default(),
        }
    }

    /// The ports own datagrams leave from, the last included.
    pub fn local_ports(&self) -> (u16, u16) {
        let ports = self.local_ports.load(Relaxed);
        ((ports >> 16) as u16, ports as u16)
    }

    pub(crate) fn set_local_ports(&self, first: u16, last: u16) {
        let ports = u32::from(first) << 16 | u32::from(last);
        self.local_ports.store(ports, Relaxed);
    }

    /// Locks the devices for control work.
    pub fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device with an index, without a lock.
    #[inline]
    pub fn device<'g>(&'g self, ifindex: u32, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.devices.get(&ifindex, guard)
    }

    /// All devices in the order of their indices.
    pub fn all_devices(&self) -> Vec<Arc<Device>> {
        self.links().by_index.values().cloned().collect()
    }

    /// The device with a name or alternative name.
    pub fn device_by_name(&self, name: &str) -> Option<Arc<Device>> {
        self.links().find(name).cloned()
    }

    /// Whether the namespace is being torn down.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Relaxed);
    }

    /// Enters a device under `name` and `ifindex`, both known to be free.
    pub(crate) fn enter(
        &self,
        guard: &Guard,
        links: &mut Links,
        device: &Arc<Device>,
        ifindex: u32,
    ) {
        device.set_ifindex(ifindex);
        links.by_index.insert(ifindex, device.clone());
        {
            let names = device.names();
            for name in std::iter::once(&names.name).chain(&names.alt) {
                links.by_name.insert(name.clone(), device.clone());
            }
        }
        self.devices.insert(ifindex, device.clone(), guard);
        links.generation = links.generation.wrapping_add(1);
        device.set_registered(true);
    }

    /// Takes a device out of the tables.
    pub(crate) fn leave(&self, guard: &Guard, links: &mut Links, device: &Arc<Device>) {
        device.set_registered(false);
        let ifindex = device.ifindex();
        links.by_index.remove(&ifindex);
        links.by_name.retain(|_, other| !Arc::ptr_eq(other, device));
        self.devices.remove(&ifindex, guard);
        links.generation = links.generation.wrapping_add(1);
    }

    /// A locally administered address from the namespace's seeded generator
    /// (`eth_random_addr`): the same script gets the same addresses.
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

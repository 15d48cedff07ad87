// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The UDP ports on which the VXLAN devices of a namespace listen, and the device for each
//! identifier (`struct vxlan_sock`, `vxlan_sock_add`, `vxlan_vs_find_vni`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_netlink::{Error, errno};
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard};

use super::Vxlan;
use super::config::Config;
use crate::device::{Device, DeviceKey};

/// A UDP port of one address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// True for IPv6, false for IPv4.
    pub ipv6: bool,
    /// The port number.
    pub port: u16,
}

/// A listening port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// Packets with any identifier go to one device ([`Config::external`]).
    pub external: bool,
    /// Accept packets without UDP checksums over IPv6.
    pub zero_csum6: bool,
    /// Parse the group policy extension.
    pub gbp: bool,
}

/// The VXLAN state of a namespace that has been the underlay of a device.
pub struct Tunnels {
    sockets: RcuHash<Port, Socket>,
    /// The receiving devices by port and identifier; 0 stands for all identifiers.
    receivers: RcuHash<(Port, u32), DeviceKey>,
    /// The number of devices that share each socket.
    users: Mutex<BTreeMap<Port, u32>>,
    /// The devices whose underlay is the namespace, up or down.
    devices: Mutex<Vec<(Weak<Device>, Weak<Vxlan>)>>,
}

impl std::fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

fn ports(conf: &Config) -> impl Iterator<Item = Port> {
    let ipv6 = conf.is_ipv6() || conf.external;
    let ipv4 = !ipv6 || conf.external;
    let port = conf.dst_port;
    let families = [(ipv6, true), (ipv4, false)];
    let families = families.into_iter().filter(|(has, _)| *has);
    families.map(move |(_, ipv6)| Port { ipv6, port })
}

fn vni(conf: &Config) -> u32 {
    if conf.external { 0 } else { conf.vni }
}

impl Tunnels {
    /// Creates an empty state.
    pub fn new(domain: &Domain) -> Self {
        Self {
            sockets: RcuHash::new(domain),
            receivers: RcuHash::new(domain),
            users: Mutex::default(),
            devices: Mutex::default(),
        }
    }

    /// Returns the socket of a port.
    #[inline]
    pub fn socket(&self, port: Port, guard: &Guard) -> Option<Socket> {
        self.sockets.get(&port, guard).copied()
    }

    /// Returns the device that receives packets with an identifier.
    #[inline]
    pub fn receiver(
        &self,
        port: Port,
        socket: Socket,
        vni: u32,
        guard: &Guard,
    ) -> Option<DeviceKey> {
        let vni = if socket.external { 0 } else { vni };
        self.receivers.get(&(port, vni), guard).copied()
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<Port, u32>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the ports of a device that went up, or shares them with devices that have the same
    /// receive flags.
    pub fn listen(&self, conf: &Config, key: DeviceKey) -> Result<(), Error> {
        let guard = self.sockets.domain().pin();
        let socket = Socket {
            external: conf.external,
            zero_csum6: conf.zero_csum6_rx,
            gbp: conf.gbp,
        };
        let mut users = self.users();
        let taken = |port: Port| {
            let other = self.socket(port, &guard);
            other.is_some_and(|other| other != socket)
        };
        if ports(conf).any(taken) {
            return Err(Error::new(errno::EADDRINUSE));
        }
        for port in ports(conf) {
            *users.entry(port).or_default() += 1;
            self.receivers.insert((port, vni(conf)), key, &guard);
            self.sockets.insert(port, socket, &guard);
        }
        Ok(())
    }

    /// Closes the ports of a device that went down.
    pub fn close(&self, conf: &Config, key: DeviceKey) {
        let guard = self.sockets.domain().pin();
        let mut users = self.users();
        for port in ports(conf) {
            let mine = |other: &DeviceKey| *other == key;
            let entry = (port, vni(conf));
            if self.receivers.remove_if(&entry, &guard, mine).is_none() {
                continue;
            }
            if let Some(count) = users.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    users.remove(&port);
                    self.sockets.remove(&port, &guard);
                }
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(Weak<Device>, Weak<Vxlan>)>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the devices whose underlay is the namespace.
    pub fn devices(&self) -> Vec<(Arc<Device>, Arc<Vxlan>)> {
        let all = self.all();
        let both = |(device, vxlan): &(Weak<Device>, Weak<Vxlan>)| {
            let device = device.upgrade().filter(|device| device.is_registered())?;
            Some((device, vxlan.upgrade()?))
        };
        all.iter().filter_map(both).collect()
    }

    pub(super) fn enter(&self, device: &Arc<Device>, vxlan: &Arc<Vxlan>) {
        self.all()
            .push((Arc::downgrade(device), Arc::downgrade(vxlan)));
    }

    pub(super) fn leave(&self, vxlan: &Vxlan) {
        self.all()
            .retain(|(_, other)| !std::ptr::eq(other.as_ptr(), vxlan));
    }
}

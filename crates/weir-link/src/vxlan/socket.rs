// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The UDP ports on which the VXLAN devices of a namespace listen, and the device for each
//! identifier (`struct vxlan_sock`, `vxlan_sock_add`, `vxlan_vs_find_vni`).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use weir_netlink::{Error, errno};
use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard};

use super::Vxlan;
use super::config::Config;
use crate::device::{Device, DeviceKey};
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::udp::{self, Port, Receive};

/// What the devices that share a port agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// Packets with any identifier go to one device ([`Config::external`]).
    pub external: bool,
    /// Accept packets without UDP checksums over IPv6.
    pub zero_csum6: bool,
    /// Parse the group policy extension.
    pub gbp: bool,
}

impl Socket {
    /// As the port's owner is told of it.
    fn to_udp(self, receive: Receive) -> udp::Socket {
        udp::Socket {
            receive,
            zero_csum6: self.zero_csum6,
            data: u32::from(self.external) | u32::from(self.gbp) << 1,
        }
    }

    /// What `to_udp` was made of.
    #[inline]
    pub fn of(socket: &udp::Socket) -> Self {
        Self {
            external: socket.data & 1 != 0,
            zero_csum6: socket.zero_csum6,
            gbp: socket.data & 2 != 0,
        }
    }
}

/// Who gets packets of an identifier.
#[derive(Clone)]
pub struct Receiver {
    /// The device.
    pub key: DeviceKey,
    /// Its own part.
    pub vxlan: Arc<Vxlan>,
}

/// Devices with their own parts.
type Members = Vec<(Weak<Device>, Weak<Vxlan>)>;

/// The VXLAN state of a namespace that has been the underlay of a device.
pub struct Tunnels {
    /// The receiving devices by port and identifier; 0 stands for all identifiers.
    receivers: RcuHash<(Port, u32), Receiver>,
    /// The ports, and how many devices share each.
    users: Mutex<BTreeMap<Port, (Socket, u32)>, order::Ports>,
    /// The devices whose underlay is the namespace, up or down.
    devices: Mutex<Members, order::Tunnels>,
}

/// Made for the first device whose underlay the namespace is.
pub(super) static TUNNELS: Key<OnceBox<Tunnels>, 6> = Key::new();

/// VXLAN's part of a namespace, if it is the underlay of a device.
pub fn tunnels(ns: &Namespace) -> Option<&Tunnels> {
    ns.parts.get(&TUNNELS).get()
}

/// Returns EEXIST if another device of the namespace has the identifier, port and receive flags of
/// a configuration (the end of `vxlan_config_validate`). `own` is the device being changed, if it
/// exists already.
pub fn check_unused(
    ns: &Namespace,
    conf: &Config,
    own: Option<&Arc<Device>>,
    guard: &Guard,
) -> Result<(), Error> {
    let in_use = |tunnels: &Tunnels| {
        tunnels.devices().iter().any(|(device, vxlan)| {
            let other = vxlan.config.load(guard);
            own.is_none_or(|own| !Arc::ptr_eq(own, device))
                && (other.vni, other.dst_port) == (conf.vni, conf.dst_port)
                && other.receive_flags() == conf.receive_flags()
                && other.is_ipv6() == conf.is_ipv6()
        })
    };
    if tunnels(ns).is_some_and(in_use) {
        return Err(Error::msg(
            errno::EEXIST,
            "A VXLAN device with the specified VNI already exists",
        ));
    }
    Ok(())
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
            receivers: RcuHash::new(domain),
            users: Mutex::default(),
            devices: Mutex::default(),
        }
    }

    /// Returns the device that receives packets with an identifier.
    #[inline]
    pub fn receiver<'g>(
        &'g self,
        port: Port,
        socket: Socket,
        vni: u32,
        guard: &'g Guard,
    ) -> Option<&'g Receiver> {
        let vni = if socket.external { 0 } else { vni };
        self.receivers.get(&(port, vni), guard)
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<Port, (Socket, u32)>, order::Ports> {
        self.users.lock()
    }

    /// Opens the ports of a device that went up, or shares them with devices that have the same
    /// receive flags. `receive` takes the datagrams for a port opened here.
    pub fn listen(
        &self,
        conf: &Config,
        ns: &Namespace,
        to: &Receiver,
        receive: Receive,
    ) -> Result<(), Error> {
        let domain = self.receivers.domain();
        let guard = domain.pin();
        let socket = Socket {
            external: conf.external,
            zero_csum6: conf.zero_csum6_rx,
            gbp: conf.gbp,
        };
        let mut users = self.users();
        let taken = |port: Port| {
            let other = users.get(&port);
            other.is_some_and(|(other, _)| *other != socket)
        };
        if ports(conf).any(taken) {
            return Err(Error::new(errno::EADDRINUSE));
        }
        for port in ports(conf) {
            users.entry(port).or_insert((socket, 0)).1 += 1;
            let entry = (port, vni(conf));
            self.receivers.insert(entry, to.clone(), &guard);
            udp::ports(ns).listen(domain, port, socket.to_udp(receive), &guard);
        }
        Ok(())
    }

    /// Closes the ports of a device that went down.
    pub fn close(&self, conf: &Config, ns: &Namespace, key: DeviceKey) {
        let guard = self.receivers.domain().pin();
        let mut users = self.users();
        for port in ports(conf) {
            let mine = |other: &Receiver| other.key == key;
            let entry = (port, vni(conf));
            if self.receivers.remove_if(&entry, &guard, mine).is_none() {
                continue;
            }
            if let Some((_, count)) = users.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    users.remove(&port);
                    udp::ports(ns).close(port, &guard);
                }
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, Members, order::Tunnels> {
        self.devices.lock()
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The UDP ports on which the Geneve devices of a namespace listen, and the device for each identifier and remote
//! (`geneve_sock_add`, `geneve_lookup`, `geneve_find_dev`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use weir_netlink::{Error, errno};
use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use super::Geneve;
use super::config::Config;
use crate::device::{Device, DeviceKey};
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::udp::{self, Port, Receive};

/// Who gets packets.
#[derive(Clone)]
pub struct Receiver {
    /// The device.
    pub key: DeviceKey,
    /// Its own part.
    pub geneve: Arc<Geneve>,
}

/// What a packet needs to reach a device: the port, and the identifier and the source unless the device is external.
type Address = (Port, Option<(u32, IpAddr)>);

/// The devices whose underlay a namespace is, and the number of those that share each port.
#[derive(Default)]
struct Users {
    ports: BTreeMap<Port, u32>,
    devices: Vec<(Weak<Device>, Weak<Geneve>)>,
}

/// The Geneve state of a namespace that has been the underlay of a device.
pub struct Tunnels {
    receivers: RcuHash<Address, Receiver>,
    users: Mutex<Users, order::Geneve>,
}

/// Made for the first device whose underlay the namespace is.
pub(super) static TUNNELS: Key<OnceBox<Tunnels>, 13> = Key::new();

/// Geneve's part of a namespace, if it is the underlay of a device.
pub fn tunnels(ns: &Namespace) -> Option<&Tunnels> {
    ns.parts.get(&TUNNELS).get()
}

impl std::fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

fn ports(conf: &Config) -> impl Iterator<Item = Port> {
    let (port, six) = (conf.port, conf.remote.is_ipv6());
    let families = [(true, six || conf.external), (false, !six || conf.external)];
    let families = families.into_iter().filter(|(_, has)| *has);
    families.map(move |(ipv6, _)| Port { ipv6, port })
}

fn address(port: Port, conf: &Config) -> Address {
    (port, (!conf.external).then_some((conf.vni, conf.remote)))
}

impl Tunnels {
    /// Creates an empty state.
    pub fn new(domain: &Domain) -> Self {
        Self {
            receivers: RcuHash::new(domain),
            users: Mutex::default(),
        }
    }

    /// Returns the device that receives packets with an identifier from an address.
    pub fn receiver<'g>(
        &'g self,
        port: Port,
        external: bool,
        (vni, src): (u32, IpAddr),
        guard: &'g Guard,
    ) -> Option<&'g Receiver> {
        let who = (!external).then_some((vni, src));
        self.receivers.get(&(port, who), guard)
    }

    /// Refuses a configuration that another device has, and one that does not agree with another device about a port
    /// (`geneve_configure`).
    pub fn check_unused(&self, conf: &Config, guard: &Guard) -> Result<(), Error> {
        let (mut same, mut sharing, mut external) = (false, false, false);
        for (_, other) in self.devices() {
            let other = other.config.load(guard);
            if other.port == conf.port {
                sharing = true;
                external |= other.external;
                same |= (other.vni, other.remote) == (conf.vni, conf.remote);
            }
        }
        let refuse = |text| Err(Error::msg(errno::EPERM, text));
        match (same, conf.external) {
            (true, _) => Err(Error::new(errno::EBUSY)),
            (_, true) if sharing => {
                refuse("There can be only one externally controlled device on a destination port")
            }
            (_, false) if external => refuse(
                "There already exists an externally controlled device on this destination port",
            ),
            _ => Ok(()),
        }
    }

    /// Opens the ports of a device that went up, or shares them. `receive` takes their datagrams.
    pub fn listen(
        &self,
        conf: &Config,
        ns: &Namespace,
        to: &Receiver,
        receive: Receive,
    ) -> Result<(), Error> {
        let domain = self.receivers.domain();
        let guard = domain.pin();
        let mut users = self.users.lock();
        for port in ports(conf) {
            let taken = udp::ports(ns).socket(port, &guard).is_some();
            if taken && !users.ports.contains_key(&port) {
                return Err(Error::new(errno::EADDRINUSE));
            }
        }
        for port in ports(conf) {
            *users.ports.entry(port).or_insert(0) += 1;
            self.receivers
                .insert(address(port, conf), to.clone(), &guard);
            let socket = udp::Socket {
                receive,
                zero_csum6: !conf.need_csum6,
                data: conf.external.into(),
            };
            udp::ports(ns).listen(domain, port, socket, &guard);
        }
        Ok(())
    }

    /// Closes the ports of a device that went down.
    pub fn close(&self, conf: &Config, ns: &Namespace, key: DeviceKey) {
        let guard = self.receivers.domain().pin();
        let mut users = self.users.lock();
        for port in ports(conf) {
            let mine = |other: &Receiver| other.key == key;
            let entry = address(port, conf);
            if self.receivers.remove_if(&entry, &guard, mine).is_none() {
                continue;
            }
            if let Some(count) = users.ports.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    users.ports.remove(&port);
                    udp::ports(ns).close(port, &guard);
                }
            }
        }
    }

    /// Follows a device that has another remote, if it is up.
    pub fn moved(&self, old: &Config, new: &Config, to: &Receiver) {
        let guard = self.receivers.domain().pin();
        let _users = self.users.lock();
        for port in ports(old) {
            let mine = |other: &Receiver| other.key == to.key;
            let entry = address(port, old);
            if self.receivers.remove_if(&entry, &guard, mine).is_some() {
                self.receivers
                    .insert(address(port, new), to.clone(), &guard);
            }
        }
    }

    /// Returns the devices whose underlay is the namespace.
    pub fn devices(&self) -> Vec<(Arc<Device>, Arc<Geneve>)> {
        let users = self.users.lock();
        let both = |(device, geneve): &(Weak<Device>, Weak<Geneve>)| {
            let device = device.upgrade().filter(|device| device.is_registered())?;
            Some((device, geneve.upgrade()?))
        };
        users.devices.iter().filter_map(both).collect()
    }

    pub(super) fn enter(&self, device: &Arc<Device>, geneve: &Arc<Geneve>) {
        let both = (Arc::downgrade(device), Arc::downgrade(geneve));
        self.users.lock().devices.push(both);
    }

    pub(super) fn leave(&self, geneve: &Geneve) {
        let mut users = self.users.lock();
        users
            .devices
            .retain(|(_, other)| !std::ptr::eq(other.as_ptr(), geneve));
    }
}

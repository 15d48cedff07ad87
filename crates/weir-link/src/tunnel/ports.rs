// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The UDP ports on which the tunnels of a kind listen in a namespace, and the device for each packet (`struct vxlan_sock`,
//! `struct geneve_sock`).
//!
//! Devices of a kind share a port if they agree on what its listener is told ([`udp::Socket::data`]). Those of another kind
//! do not share it, and a program cannot bind it. Difference from Linux: a device also goes up on a port that a program has.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use weir_netlink::{Error, errno};
use weir_sync::hash::RcuHash;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use crate::device::{Device, DeviceKey};
use crate::namespace::Namespace;
use crate::udp::{self, Port};

/// What a packet must have, beside the port, to reach a device.
pub trait Address: Copy + Hash + Eq + Send + Sync + 'static {}

impl<A: Copy + Hash + Eq + Send + Sync + 'static> Address for A {}

/// Who gets packets.
pub struct Receiver<T> {
    /// The device.
    pub key: DeviceKey,
    /// Its own part.
    pub tunnel: Arc<T>,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            key: self.key,
            tunnel: self.tunnel.clone(),
        }
    }
}

/// The devices whose underlay a namespace is, up or down, and those that share each port.
struct Users<T> {
    ports: BTreeSet<(Port, DeviceKey)>,
    devices: Vec<(Weak<Device>, Weak<T>)>,
}

impl<T> Users<T> {
    /// Returns whether a device has the port.
    fn has(&self, port: Port) -> bool {
        let of = (port, DeviceKey(0))..=(port, DeviceKey(u32::MAX));
        self.ports.range(of).next().is_some()
    }
}

/// A kind's part of a namespace that has been the underlay of a device. `T` is a device's own part.
pub struct Tunnels<A: Address, T: Send + Sync + 'static> {
    receivers: RcuHash<(Port, A), Receiver<T>>,
    users: Mutex<Users<T>, order::Tunnels>,
}

impl<A: Address, T: Send + Sync + 'static> std::fmt::Debug for Tunnels<A, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

/// Returns the entries of a device in the tables: a port over IPv6, over IPv4 or over both.
pub fn entries<A: Copy>(number: u16, (ipv4, ipv6): (bool, bool), address: A) -> Vec<(Port, A)> {
    let families = [(ipv6, true), (ipv4, false)];
    let families = families.into_iter().filter(|(has, _)| *has);
    let entry = |(_, ipv6)| {
        let port = Port { ipv6, port: number };
        (port, address)
    };
    families.map(entry).collect()
}

impl<A: Address, T: Send + Sync + 'static> Tunnels<A, T> {
    /// Creates an empty state.
    pub fn new(domain: &Domain) -> Self {
        Self {
            receivers: RcuHash::new(domain),
            users: Mutex::new(Users {
                ports: BTreeSet::new(),
                devices: Vec::new(),
            }),
        }
    }

    /// Returns the device that receives the packets of a port and address.
    #[inline]
    pub fn receiver<'g>(
        &'g self,
        port: Port,
        address: A,
        guard: &'g Guard,
    ) -> Option<&'g Receiver<T>> {
        self.receivers.get(&(port, address), guard)
    }

    /// Opens the ports of a device that went up, or shares them, and gives it the packets of its entries.
    ///
    /// # Errors
    /// EADDRINUSE if somebody else listens on one of them, or devices of the kind with other properties. None is open then.
    pub fn listen(
        &self,
        ns: &Namespace,
        entries: &[(Port, A)],
        to: &Receiver<T>,
        socket: udp::Socket,
    ) -> Result<(), Error> {
        let ports: Vec<Port> = entries.iter().map(|(port, _)| *port).collect();
        self.hold(ns, &ports, to.key, socket)?;
        self.receive(entries, to);
        Ok(())
    }

    /// Closes the ports of a device that went down, and takes its entries away.
    pub fn close(&self, ns: &Namespace, entries: &[(Port, A)], key: DeviceKey) {
        self.forget(entries, key);
        let ports: Vec<Port> = entries.iter().map(|(port, _)| *port).collect();
        self.release(ns, &ports, key);
    }

    /// Opens ports for a device that went up, or shares them.
    ///
    /// # Errors
    /// Those of [`listen`](Self::listen).
    pub fn hold(
        &self,
        ns: &Namespace,
        ports: &[Port],
        key: DeviceKey,
        socket: udp::Socket,
    ) -> Result<(), Error> {
        let guard = self.receivers.domain().pin();
        let mut users = self.users.lock();
        for (n, port) in ports.iter().enumerate() {
            if let Err(error) = self.open(&users, ns, *port, socket, &guard) {
                for port in ports.iter().take(n) {
                    Self::leave_port(&mut users, ns, *port, key, &guard);
                }
                return Err(error);
            }
            users.ports.insert((*port, key));
        }
        Ok(())
    }

    /// Opens a port, unless it is open.
    fn open(
        &self,
        users: &Users<T>,
        ns: &Namespace,
        port: Port,
        socket: udp::Socket,
        guard: &Guard,
    ) -> Result<(), Error> {
        if !users.has(port) {
            return udp::ports(ns).listen(self.receivers.domain(), port, socket, guard);
        }
        let held = udp::ports(ns).socket(port, guard);
        if held.is_some_and(|held| held.data != socket.data) {
            return Err(Error::new(errno::EADDRINUSE));
        }
        Ok(())
    }

    /// Closes ports of a device, if it has them and nobody else does.
    pub fn release(&self, ns: &Namespace, ports: &[Port], key: DeviceKey) {
        let guard = self.receivers.domain().pin();
        let mut users = self.users.lock();
        for port in ports {
            Self::leave_port(&mut users, ns, *port, key, &guard);
        }
    }

    fn leave_port(users: &mut Users<T>, ns: &Namespace, port: Port, key: DeviceKey, guard: &Guard) {
        if users.ports.remove(&(port, key)) && !users.has(port) {
            udp::ports(ns).close(port, guard);
        }
    }

    /// Gives a device the packets of entries.
    pub fn receive(&self, entries: &[(Port, A)], to: &Receiver<T>) {
        let guard = self.receivers.domain().pin();
        for entry in entries {
            self.receivers.insert(*entry, to.clone(), &guard);
        }
    }

    /// Takes those entries away that a device has.
    pub fn forget(&self, entries: &[(Port, A)], key: DeviceKey) {
        let guard = self.receivers.domain().pin();
        for entry in entries {
            let mine = |other: &Receiver<T>| other.key == key;
            self.receivers.remove_if(entry, &guard, mine);
        }
    }

    /// Follows a device that has another address on the same ports, if it is up.
    pub fn moved(&self, old: &[(Port, A)], new: &[(Port, A)], to: &Receiver<T>) {
        let guard = self.receivers.domain().pin();
        let _users = self.users.lock();
        for (old, new) in old.iter().zip(new) {
            let mine = |other: &Receiver<T>| other.key == to.key;
            if self.receivers.remove_if(old, &guard, mine).is_some() {
                self.receivers.insert(*new, to.clone(), &guard);
            }
        }
    }

    /// Returns the devices whose underlay is the namespace.
    pub fn devices(&self) -> Vec<(Arc<Device>, Arc<T>)> {
        let users = self.users.lock();
        let both = |(device, tunnel): &(Weak<Device>, Weak<T>)| {
            let device = device.upgrade().filter(|device| device.is_registered())?;
            Some((device, tunnel.upgrade()?))
        };
        users.devices.iter().filter_map(both).collect()
    }

    /// Adds a device.
    pub fn enter(&self, device: &Arc<Device>, tunnel: &Arc<T>) {
        let both = (Arc::downgrade(device), Arc::downgrade(tunnel));
        self.users.lock().devices.push(both);
    }

    /// Removes a device.
    pub fn leave(&self, tunnel: &T) {
        let mut users = self.users.lock();
        users
            .devices
            .retain(|(_, other)| !std::ptr::eq(other.as_ptr(), tunnel));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Proxy entries: addresses of others for which the host answers (`struct pneigh_entry`, `ip neigh add
//! proxy`).
//!
//! An entry is of one device, or of all. IPv6 entries need a device, which joins the solicited-node
//! group of the address. A device that goes down loses its entries.

use std::net::IpAddr;

use weir_sync::order::{self, Mutex};

use crate::device::DeviceKey;

/// A proxy entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proxy {
    /// The address.
    pub address: IpAddr,
    /// The device, or none for all.
    pub device: Option<DeviceKey>,
    /// `NTF_*`
    pub flags: u8,
    /// `NDA_PROTOCOL`
    pub protocol: u8,
}

/// The proxy entries of a namespace, of both families, oldest first.
#[derive(Debug, Default)]
pub struct Proxies(Mutex<Vec<Proxy>, order::Neighbour>);

impl Proxies {
    /// Returns the entry of an address for a device (`pneigh_lookup`).
    pub fn find(&self, device: Option<DeviceKey>, address: IpAddr) -> Option<Proxy> {
        let list = self.0.lock();
        let fits = |proxy: &&Proxy| Self::fits(proxy, device, address);
        list.iter().find(fits).copied()
    }

    fn fits(proxy: &Proxy, device: Option<DeviceKey>, address: IpAddr) -> bool {
        proxy.address == address && (proxy.device.is_none() || proxy.device == device)
    }

    /// Adds an entry, or changes the flags of one that serves the device already. Returns whether it was
    /// added.
    pub fn set(&self, proxy: Proxy) -> bool {
        let mut list = self.0.lock();
        let known = list
            .iter_mut()
            .find(|known| Self::fits(known, proxy.device, proxy.address));
        match known {
            Some(known) => {
                (known.flags, known.protocol) = (proxy.flags, proxy.protocol);
                false
            }
            None => {
                list.push(proxy);
                true
            }
        }
    }

    /// Deletes an entry. Returns whether there was one (`pneigh_delete`).
    pub fn remove(&self, device: Option<DeviceKey>, address: IpAddr) -> bool {
        let mut list = self.0.lock();
        let is = |proxy: &Proxy| proxy.address == address && proxy.device == device;
        let at = list.iter().position(is);
        at.map(|at| list.remove(at)).is_some()
    }

    /// Deletes a device's entries of one family, and returns them (`pneigh_ifdown_and_unlock`).
    pub fn device_went(&self, device: DeviceKey, ipv6: bool) -> Vec<Proxy> {
        let mut list = self.0.lock();
        let goes = |proxy: &Proxy| proxy.device == Some(device) && proxy.address.is_ipv6() == ipv6;
        let gone = list.iter().filter(|proxy| goes(proxy)).copied().collect();
        list.retain(|proxy| !goes(proxy));
        gone
    }

    /// Returns all entries.
    pub fn all(&self) -> Vec<Proxy> {
        self.0.lock().clone()
    }
}

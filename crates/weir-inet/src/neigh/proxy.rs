// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Proxy entries: addresses of others for which the host answers (`struct pneigh_entry`, `ip neigh add
//! proxy`).
//!
//! An entry is of one device, or of all. IPv6 entries need a device, which joins the solicited-node
//! group of the address. A device that goes down loses its entries.
//!
//! A question by multicast or broadcast waits for a random time below `proxy_delay` of its device, and is then judged
//! again (`pneigh_enqueue`). At most `proxy_qlen` and one wait at a device. The time is drawn from the stack's seed. All
//! that wait in a namespace are forgotten when one of its devices goes down, as in Linux.

use std::net::IpAddr;
use std::sync::Arc;

use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};

use crate::clock::{Holds, MILLISECOND};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::neigh::WithNeighbours;
use crate::random::{mix, seed_of};
use crate::settings::{Neigh, WithSettings};

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

/// The proxy entries of a namespace, and the questions that wait, once there was one of either.
#[derive(Debug, Default)]
pub struct Proxies(OnceBox<State>);

/// The state of [`Proxies`].
#[derive(Debug, Default)]
struct State {
    /// The entries of both families, oldest first.
    entries: Mutex<Vec<Proxy>, order::Neighbour>,
    /// The questions of ARP and of neighbour discovery, once one has waited.
    waiting: Mutex<Option<Box<[Waiting; 2]>>, order::Neighbour>,
}

/// The questions of one family that wait for their answers.
#[derive(Debug, Default)]
struct Waiting {
    /// How many wait at each device that has some.
    lengths: Vec<(DeviceKey, i32)>,
    /// How often all were forgotten.
    forgotten: u32,
    /// How many random numbers were drawn.
    drawn: u64,
}

impl Waiting {
    /// Counts one more. Returns whether there was room.
    fn enter(&mut self, device: DeviceKey, most: i32) -> bool {
        let at = self.lengths.iter().position(|(key, _)| *key == device);
        match at.map(|at| &mut self.lengths[at].1) {
            Some(length) if *length > most => return false,
            Some(length) => *length += 1,
            None if most < 0 => return false,
            None => self.lengths.push((device, 1)),
        }
        true
    }

    /// Counts one less.
    fn leave(&mut self, device: DeviceKey) {
        for (key, length) in &mut self.lengths {
            *length -= i32::from(*key == device);
        }
        self.lengths.retain(|(_, length)| *length > 0);
    }
}

/// The names of the random numbers.
const CHANCE: [&str; 2] = ["proxy ARP", "proxy ND"];

impl Proxies {
    fn made(&self) -> &State {
        self.0.get_or_make(State::default)
    }

    /// Judges a question to a device once more by `again`, after the delay of answers for others (`pneigh_enqueue`).
    /// Returns whether there was room for it.
    pub fn delay(
        cx: &Cx<'_>,
        device: &Arc<Device>,
        ipv6: bool,
        again: impl FnOnce(&mut Cx<'_>, &Arc<Device>) + Send + 'static,
    ) -> bool {
        let ns = device.namespace(cx.guard);
        let conf = conf(device, ipv6);
        let most = conf.get(Neigh::ProxyQlen);
        let bound = conf.get(Neigh::ProxyDelay).max(0) as u64 * MILLISECOND;
        let mut waiting = ns.neighbours().proxies.made().waiting.lock();
        let queue = &mut waiting.get_or_insert_default()[usize::from(ipv6)];
        if !queue.enter(device.key, most) {
            return false;
        }
        queue.drawn += 1;
        let (id, chance) = (ns.id.0, CHANCE[usize::from(ipv6)]);
        let path = format!("namespace {id}/{}/{chance}", device.name());
        let number = mix(seed_of(cx.stack.config.seed, &path) ^ queue.drawn);
        let delay = ((u128::from(number) * u128::from(bound)) >> 64) as u64;
        let forgotten = queue.forgotten;
        drop(waiting);
        let (device, ns) = (Arc::downgrade(device), Arc::downgrade(ns));
        let job = Box::new(move |cx: &mut Cx<'_>| {
            let (Some(device), Some(ns)) = (device.upgrade(), ns.upgrade()) else {
                return;
            };
            if ns.neighbours().proxies.left(device.key, ipv6, forgotten) && device.is_up() {
                again(cx, &device);
            }
        });
        cx.stack
            .arm(cx.now.saturating_add(delay), Holds::Packet, job);
        true
    }

    /// Takes out a question whose time has come. Returns whether it was not forgotten.
    fn left(&self, device: DeviceKey, ipv6: bool, forgotten: u32) -> bool {
        let mut waiting = self.made().waiting.lock();
        let queue = waiting
            .as_mut()
            .map(|queues| &mut queues[usize::from(ipv6)]);
        let queue = queue.filter(|queue| queue.forgotten == forgotten);
        queue.map(|queue| queue.leave(device)).is_some()
    }

    /// Forgets all questions of one family that wait (`pneigh_queue_purge`).
    pub fn forget(&self, ipv6: bool) {
        let Some(state) = self.0.get() else { return };
        if let Some(queues) = state.waiting.lock().as_mut() {
            let queue = &mut queues[usize::from(ipv6)];
            queue.lengths.clear();
            queue.forgotten = queue.forgotten.wrapping_add(1);
        }
    }

    /// Returns the entry of an address for a device (`pneigh_lookup`).
    pub fn find(&self, device: Option<DeviceKey>, address: IpAddr) -> Option<Proxy> {
        let list = self.0.get()?.entries.lock();
        let fits = |proxy: &&Proxy| Self::fits(proxy, device, address);
        list.iter().find(fits).copied()
    }

    fn fits(proxy: &Proxy, device: Option<DeviceKey>, address: IpAddr) -> bool {
        proxy.address == address && (proxy.device.is_none() || proxy.device == device)
    }

    /// Adds an entry, or changes the flags of one that serves the device already. Returns whether it was
    /// added.
    pub fn set(&self, proxy: Proxy) -> bool {
        let mut list = self.made().entries.lock();
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
        let Some(state) = self.0.get() else {
            return false;
        };
        let mut list = state.entries.lock();
        let is = |proxy: &Proxy| proxy.address == address && proxy.device == device;
        let at = list.iter().position(is);
        at.map(|at| list.remove(at)).is_some()
    }

    /// Deletes a device's entries of one family, and returns them (`pneigh_ifdown_and_unlock`).
    pub fn device_went(&self, device: DeviceKey, ipv6: bool) -> Vec<Proxy> {
        let Some(state) = self.0.get() else {
            return Vec::new();
        };
        let mut list = state.entries.lock();
        let goes = |proxy: &Proxy| proxy.device == Some(device) && proxy.address.is_ipv6() == ipv6;
        let gone = list.iter().filter(|proxy| goes(proxy)).copied().collect();
        list.retain(|proxy| !goes(proxy));
        gone
    }

    /// Returns all entries.
    pub fn all(&self) -> Vec<Proxy> {
        let state = self.0.get();
        state.map_or_else(Vec::new, |state| state.entries.lock().clone())
    }
}

/// Returns the settings of a device's neighbours of one family.
fn conf(device: &Device, ipv6: bool) -> &crate::conf::Conf<Neigh> {
    match ipv6 {
        false => &device.conf().neigh4,
        true => &device.conf().neigh6,
    }
}

/// Returns whether answers of a device for others wait.
pub fn is_delayed(device: &Device, ipv6: bool) -> bool {
    conf(device, ipv6).on(Neigh::ProxyDelay)
}

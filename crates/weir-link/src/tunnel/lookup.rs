// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tunnels of a namespace by their ends and key (`ip_tunnel_lookup`, `ip6_tnl_lookup`, `ip6gre_tunnel_lookup`).
//!
//! A packet goes to the first tunnel that is up and matches: by local address, remote address and key; by remote
//! address and key; by local address and key; by key alone; the one in external mode; the fallback device. Of
//! those, one that is bound to the device the packet came by goes first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};

use weir_netlink::{Error, errno};
use weir_packet::header::Ipv6;
use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use super::isatap::Router;
use super::{IpTunnel, Parms};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::sockets::Report;
use crate::stack::Stack;
use crate::udp::Outer;

/// What distinguishes the tunnels of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Ends {
        local: IpAddr,
        remote: IpAddr,
        key: Option<u32>,
    },
    External,
    Fallback,
}

/// A tunnel that receives packets.
#[derive(Clone)]
pub struct Receiver {
    key: DeviceKey,
    tunnel: Arc<IpTunnel>,
}

impl Receiver {
    /// Returns the tunnel with its device, unless that goes away.
    pub fn parts(&self, stack: &Stack, guard: &Guard) -> Option<(Arc<Device>, Arc<IpTunnel>)> {
        let device = stack.device(self.key, guard)?;
        Some((device.clone(), self.tunnel.clone()))
    }
}

/// Tunnels that share one table: those of one kind, or of one protocol and kind of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the kinds
pub enum Family {
    Ipip,
    Gre,
    Gretap,
    Erspan,
    Sit,
    Ip6Tnl,
    Ip6Gre,
    Ip6Gretap,
    /// Of ip6erspan only the tunnel in external mode; the others are with those of ip6gretap.
    Ip6Erspan,
}

impl Family {
    /// Returns whether the outer packets are IPv6.
    pub fn is_ipv6(self) -> bool {
        matches!(
            self,
            Self::Ip6Tnl | Self::Ip6Gre | Self::Ip6Gretap | Self::Ip6Erspan
        )
    }

    /// Returns whether packets have no keys.
    fn is_keyless(self) -> bool {
        matches!(self, Self::Ipip | Self::Sit | Self::Ip6Tnl)
    }
}

/// Devices with their tunnels.
type Members = Vec<(Weak<Device>, Weak<IpTunnel>)>;

/// The tunnels whose outer packets belong to a namespace.
pub struct Tunnels {
    by_id: RcuHash<(Family, Id), Arc<[Receiver]>>,
    /// All of them. Changes of `by_id` hold the lock as well.
    all: Mutex<Members, order::IpTunnels>,
}

/// Made for the first tunnel of a namespace.
pub(super) static TUNNELS: Key<OnceBox<Tunnels>, 9> = Key::new();

/// The fields of a received packet that choose its tunnel.
#[derive(Debug, Clone, Copy)]
pub struct Sought {
    /// The family.
    pub family: Family,
    /// The packet's destination.
    pub local: IpAddr,
    /// The packet's source.
    pub remote: IpAddr,
    /// The packet's key.
    pub key: Option<u32>,
    /// The index of the device the packet came by.
    pub link: u32,
}

impl Sought {
    /// For a packet with an outer header that came by a device.
    pub fn of(family: Family, outer: &Outer, key: Option<u32>, underlay: &Device) -> Self {
        Self {
            family,
            local: outer.dst,
            remote: outer.src,
            key,
            link: underlay.ifindex(),
        }
    }

    /// For an error about a packet over IPv6 that was sent: the tunnel that would receive the answer to it.
    pub fn of_failed(family: Family, report: &Report<'_>, key: Option<u32>) -> Option<Self> {
        let sent = Ipv6::new(report.quoted)?;
        Some(Self {
            family,
            local: Ipv6Addr::from(sent.src()).into(),
            remote: Ipv6Addr::from(sent.dst()).into(),
            key,
            link: report.device.ifindex(),
        })
    }
}

/// Returns the tunnels of a namespace, if it has ever had one.
pub fn tunnels(ns: &Namespace) -> Option<&Tunnels> {
    ns.parts.get(&TUNNELS).get()
}

fn unspecified(ipv6: bool) -> IpAddr {
    match ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// A device with its tunnel.
pub type Found<'g> = (&'g Arc<Device>, &'g Arc<IpTunnel>);

/// Returns the place in the table of a tunnel that is not a fallback device.
fn place_of(family: Family, parms: &Parms) -> (Family, Id) {
    match (family, parms.external) {
        // There is one for both kinds.
        (Family::Ip6Gretap, true) => (Family::Ip6Gre, Id::External),
        (_, true) => (family, Id::External),
        (_, false) => {
            let id = Id::Ends {
                local: parms.local,
                remote: parms.remote,
                key: match family {
                    Family::Ip6Gre | Family::Ip6Gretap | Family::Ip6Erspan => Some(parms.ikey),
                    _ => parms.input_key(),
                },
            };
            match family {
                Family::Ip6Erspan => (Family::Ip6Gretap, id),
                _ => (family, id),
            }
        }
    }
}

/// Returns the place of a tunnel in the table.
fn own_place(tunnel: &IpTunnel, guard: &Guard) -> (Family, Id) {
    let family = tunnel.flavour.family;
    match tunnel.fallback {
        true => (family, Id::Fallback),
        false => place_of(family, tunnel.parms.load(guard)),
    }
}

impl Tunnels {
    /// Creates an empty state.
    pub fn new(domain: &Domain) -> Self {
        Self {
            by_id: RcuHash::new(domain),
            all: Mutex::default(),
        }
    }

    fn at<'g>(&'g self, family: Family, id: Id, guard: &'g Guard) -> &'g [Receiver] {
        let found = self.by_id.get(&(family, id), guard);
        found.map_or(&[], |found| found)
    }

    /// Finds the tunnel for a packet.
    pub fn receiver<'g>(&'g self, cx: &Cx<'g>, sought: &Sought) -> Option<Found<'g>> {
        self.configured(cx, sought)
            .or_else(|| self.other(cx, sought))
    }

    /// Finds the tunnel for a packet that takes what no configured one does.
    fn other<'g>(&'g self, cx: &Cx<'g>, sought: &Sought) -> Option<Found<'g>> {
        let any = unspecified(sought.local.is_ipv6());
        let ends = Id::Ends {
            local: any,
            remote: any,
            key: None,
        };
        let ends = sought.family.is_keyless().then_some(ends);
        let others = [Some(Id::External), ends, Some(Id::Fallback)];
        let mut others = others.into_iter().flatten();
        others.find_map(|id| self.last(cx, sought.family, id))
    }

    /// Returns the last of the tunnels at a place that is up.
    fn last<'g>(&'g self, cx: &Cx<'g>, family: Family, id: Id) -> Option<Found<'g>> {
        let mut list = self.at(family, id, cx.guard).iter().rev();
        list.find_map(|receiver| {
            let device = cx.device(receiver.key).filter(|device| device.is_up())?;
            Some((device, &receiver.tunnel))
        })
    }

    /// Finds the tunnel of a family that is in external mode.
    pub fn external<'g>(&'g self, cx: &Cx<'g>, family: Family) -> Option<Found<'g>> {
        self.last(cx, family, Id::External)
    }

    /// Finds the fallback device of a family.
    pub fn fallback<'g>(&'g self, cx: &Cx<'g>, family: Family) -> Option<Found<'g>> {
        self.last(cx, family, Id::Fallback)
    }

    /// Finds the tunnel for a packet by its ends and key.
    pub fn configured<'g>(&'g self, cx: &Cx<'g>, sought: &Sought) -> Option<Found<'g>> {
        let guard = cx.guard;
        let any = unspecified(sought.local.is_ipv6());
        let of = |local, remote, key| Id::Ends { local, remote, key };
        let (local, remote, key) = (sought.local, sought.remote, sought.key);
        // ERSPAN of type I has no session.
        let no_keys =
            sought.family.is_keyless() || sought.family == Family::Erspan && key.is_none();
        let by_key = (!no_keys).then_some(of(any, any, Some(key.unwrap_or(0))));
        let without = (!no_keys && key.unwrap_or(0) == 0).then_some(of(any, any, None));
        let (by_remote, by_local) = (of(any, remote, key), of(local, any, key));
        let (second, third) = match sought.family {
            Family::Ip6Tnl => (by_local, by_remote),
            _ => (by_remote, by_local),
        };
        let whole = of(local, remote, key);
        let ids = [Some(whole), Some(second), Some(third), by_key, without];
        let mut candidate = None;
        for id in ids.into_iter().flatten() {
            for receiver in self.at(sought.family, id, guard) {
                let Some(device) = cx.device(receiver.key).filter(|device| device.is_up()) else {
                    continue;
                };
                if receiver.tunnel.parms.load(guard).link == sought.link {
                    return Some((device, &receiver.tunnel));
                }
                candidate = candidate.or(Some((device, &receiver.tunnel)));
            }
        }
        candidate
    }

    /// Returns whether the family has its fallback device.
    pub fn has_fallback(&self, family: Family, guard: &Guard) -> bool {
        !self.at(family, Id::Fallback, guard).is_empty()
    }

    /// Finds the tunnel that has the parameters (`ip_tunnel_find`).
    pub fn same<'g>(
        &'g self,
        family: Family,
        parms: &Parms,
        guard: &'g Guard,
    ) -> Option<&'g Receiver> {
        let (owner, id) = place_of(family, parms);
        let mut found = self.at(owner, id, guard).iter();
        let mut fallback = self.at(family, Id::Fallback, guard).iter();
        let found = found.find(|receiver| {
            parms.external || receiver.tunnel.parms.load(guard).link == parms.link
        });
        found.or_else(|| {
            let plain = !parms.external
                && parms.link == 0
                && parms.local.is_unspecified()
                && parms.remote.is_unspecified()
                && parms.input_key().is_none();
            fallback.next().filter(|_| plain)
        })
    }

    /// Enters a tunnel. Returns EEXIST if another one has its parameters.
    pub fn enter(
        &self,
        device: &Arc<Device>,
        tunnel: &Arc<IpTunnel>,
        guard: &Guard,
    ) -> Result<(), Error> {
        let mut all = self.all.lock();
        let family = tunnel.flavour.family;
        let parms = tunnel.parms.load(guard);
        if !tunnel.fallback && self.same(family, parms, guard).is_some() {
            return Err(Error::new(errno::EEXIST));
        }
        self.insert(device, tunnel, guard);
        all.push((Arc::downgrade(device), Arc::downgrade(tunnel)));
        Ok(())
    }

    fn insert(&self, device: &Device, tunnel: &Arc<IpTunnel>, guard: &Guard) {
        let place = own_place(tunnel, guard);
        let mut list = self.at(place.0, place.1, guard).to_vec();
        let key = device.key;
        let tunnel = tunnel.clone();
        list.push(Receiver { key, tunnel });
        self.by_id.insert(place, list.into(), guard);
    }

    fn take_out(&self, key: DeviceKey, tunnel: &IpTunnel, guard: &Guard) {
        let place = own_place(tunnel, guard);
        let mut list = self.at(place.0, place.1, guard).to_vec();
        list.retain(|receiver| receiver.key != key);
        match list.is_empty() {
            true => {
                self.by_id.remove(&place, guard);
            }
            false => {
                self.by_id.insert(place, list.into(), guard);
            }
        }
    }

    /// Changes the parameters of a tunnel. Returns EEXIST if another one has them.
    pub fn change(
        &self,
        device: &Arc<Device>,
        tunnel: &Arc<IpTunnel>,
        parms: Parms,
        guard: &Guard,
    ) -> Result<(), Error> {
        let _all = self.all.lock();
        let other = self.same(tunnel.flavour.family, &parms, guard);
        if other.is_some_and(|other| other.key != device.key) {
            return Err(Error::new(errno::EEXIST));
        }
        self.take_out(device.key, tunnel, guard);
        tunnel.parms.replace(parms);
        self.insert(device, tunnel, guard);
        Ok(())
    }

    /// Changes the potential routers of a tunnel.
    ///
    /// # Errors
    /// Those of the change, after which the routers are as before.
    pub(crate) fn change_routers(
        &self,
        tunnel: &IpTunnel,
        guard: &Guard,
        change: impl FnOnce(&mut Vec<Router>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _all = self.all.lock();
        let mut routers = tunnel.routers(guard).to_vec();
        change(&mut routers)?;
        tunnel.set_routers(routers);
        Ok(())
    }

    /// Removes a tunnel.
    pub fn leave(&self, device: &Device, tunnel: &IpTunnel, guard: &Guard) {
        let mut all = self.all.lock();
        all.retain(|(_, other)| !std::ptr::eq(other.as_ptr(), tunnel));
        self.take_out(device.key, tunnel, guard);
    }

    /// Returns the tunnel of a device.
    pub fn of(&self, device: &Arc<Device>) -> Option<Arc<IpTunnel>> {
        let all = self.all.lock();
        let key = |other: &Weak<Device>| std::ptr::eq(other.as_ptr(), &**device);
        let found = all.iter().find(|(other, _)| key(other))?;
        found.1.upgrade()
    }

    /// Returns the devices of all tunnels.
    pub fn devices(&self) -> Vec<Arc<Device>> {
        let all = self.all.lock();
        let devices = all.iter().filter_map(|(device, _)| device.upgrade());
        devices.filter(|device| device.is_registered()).collect()
    }
}

impl std::fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnels").finish_non_exhaustive()
    }
}

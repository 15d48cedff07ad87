// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routes that come and go with an address: `fib_add_ifaddr`, `fib_del_ifaddr`,
//! `fib_modify_prefix_metric` of IPv4; `addrconf_f6i_alloc`, `addrconf_prefix_route`,
//! `addrconf_add_mroute` of IPv6.
//!
//! The IPv4 functions make the changes themselves. The IPv6 functions only build the request, to be
//! passed to [`Family::add`](super::Family) or `delete`, because each IPv6 route is independent of
//! the others.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_netlink::{nlm, rta};
use weir_sync::rcu::Guard;

use super::route::{Event, HopConfig, METRIC_ADDRCONF, RouteConfig};
use super::{Family, FibHost, RouteDevice};

/// An IPv4 address of a device (`struct in_ifaddr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ifaddr {
    /// `IFA_LOCAL`
    pub local: Ipv4Addr,
    /// `IFA_ADDRESS`: equal to `local`, or the peer's address.
    pub address: Ipv4Addr,
    /// The prefix length in bits.
    pub prefix_len: u8,
    /// `IFA_BROADCAST`
    pub broadcast: Option<Ipv4Addr>,
    /// `IFA_F_SECONDARY`: the device already had another address with this prefix.
    pub secondary: bool,
    /// `IFA_F_NOPREFIXROUTE`
    pub no_prefix_route: bool,
    /// `IFA_RT_PRIORITY`
    pub metric: u32,
}

impl Ifaddr {
    fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.prefix_len))
            .unwrap_or(0)
    }

    /// Returns the network address of the prefix.
    fn network(&self) -> u32 {
        u32::from(self.address) & self.mask()
    }

    /// Returns the highest address of the prefix.
    fn last(&self) -> u32 {
        u32::from(self.address) | !self.mask()
    }

    fn broadcast(&self) -> u32 {
        self.broadcast.map_or(0, u32::from)
    }

    /// Returns whether the other address has the same prefix (`inet_ifa_match` and the mask).
    fn shares_prefix(&self, other: &Self) -> bool {
        self.prefix_len == other.prefix_len && self.network() == other.network()
    }
}

/// Returns whether an address is in 0.0.0.0/8 (`ipv4_is_zeronet`).
fn is_zeronet(address: u32) -> bool {
    address >> 24 == 0
}

/// Finds the first address with a prefix (`inet_ifa_byprefix`).
fn by_prefix<'a>(all: &'a [Ifaddr], like: &Ifaddr) -> Option<&'a Ifaddr> {
    all.iter().find(|other| other.shares_prefix(like))
}

impl<D: RouteDevice> Family<u32, D> {
    /// Builds the request for one of an address's routes (`fib_magic`).
    fn magic(kind: u8, dst: u32, dst_len: u8, device: &D, prim: &Ifaddr) -> RouteConfig<u32> {
        let unicast = kind == rta::rtn::UNICAST;
        let local = kind == rta::rtn::LOCAL;
        RouteConfig {
            table: match device.l3_table() {
                0 if unicast => rta::table::MAIN,
                0 => rta::table::LOCAL,
                own => own,
            },
            dst,
            dst_len,
            protocol: rta::prot::KERNEL,
            scope: if local {
                rta::scope::HOST
            } else {
                rta::scope::LINK
            },
            kind,
            prefsrc: Some(prim.local.into()),
            hop: HopConfig {
                oif: device.ifindex(),
                ..HopConfig::default()
            },
            nlflags: nlm::F_CREATE | nlm::F_APPEND,
            ..RouteConfig::default()
        }
    }

    fn prefix_kind(device: &D) -> u8 {
        if device.is_loopback() {
            rta::rtn::LOCAL
        } else {
            rta::rtn::UNICAST
        }
    }

    /// Adds the routes of an address that was added or whose device came up. `all` holds the
    /// device's addresses, primary ones first. Existing routes stay as they are.
    pub fn address_came(
        &self,
        device: &D,
        address: &Ifaddr,
        all: &[Ifaddr],
        host: &impl FibHost<D>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) {
        let prim = if address.secondary {
            let Some(prim) = by_prefix(all, address) else {
                return;
            };
            prim
        } else {
            address
        };
        let mut add = |kind, dst, dst_len, metric| {
            let mut config = Self::magic(kind, dst, dst_len, device, prim);
            config.priority = metric;
            // As in Linux, an existing route or a removed device is not an error here.
            let _ = self.add_direct(&config, host, guard, events);
        };
        add(rta::rtn::LOCAL, address.local.into(), 32, 0);
        if !device.is_up() {
            return;
        }
        let broadcast = address.broadcast();
        if broadcast != 0 && broadcast != u32::MAX {
            add(rta::rtn::BROADCAST, broadcast, 32, 0);
        }
        let network = address.network();
        if is_zeronet(network)
            || address.secondary
            || (network == u32::from(address.local) && address.prefix_len == 32)
        {
            return;
        }
        if !address.no_prefix_route {
            add(
                Self::prefix_kind(device),
                network,
                address.prefix_len,
                address.metric,
            );
        }
        if address.prefix_len < 31 {
            add(rta::rtn::BROADCAST, network | !address.mask(), 32, 0);
        }
    }

    /// Removes the routes of an address that was deleted or changes from secondary to primary,
    /// except those that other addresses still need. Then removes the routes that use it as their
    /// source. `rest` holds the remaining addresses. If `promoted` is set, the address itself is
    /// among them and stays, and `promoted` is the deleted primary address. `gone` means that the
    /// device itself is going away (`in_dev->dead`).
    pub fn address_went(
        &self,
        device: &D,
        address: &Ifaddr,
        rest: &[Ifaddr],
        promoted: Option<&Ifaddr>,
        gone: bool,
        events: &mut Vec<Event<u32, D>>,
    ) {
        let guard = &self.domain.pin();
        let (network, last) = (address.network(), address.last());
        let mut subnet = false;
        let mut prim = address;
        let mut drop_route = |kind, dst, dst_len, prim: &Ifaddr| {
            let config = Self::magic(kind, dst, dst_len, device, prim);
            // As in Linux, the route may already have been removed by hand.
            let _ = self.delete(&config, guard, events);
        };
        if address.secondary {
            let found = promoted.or_else(|| by_prefix(rest, address));
            let Some(found) = found else { return };
            prim = found;
        } else if !is_zeronet(network)
            && (network != u32::from(address.local) || address.prefix_len < 32)
        {
            if !address.no_prefix_route {
                drop_route(Self::prefix_kind(device), network, address.prefix_len, prim);
            }
            subnet = true;
        }
        let needed = if gone {
            Needed::default()
        } else {
            Needed::by(rest, address, prim, promoted)
        };
        let broadcast = address.broadcast();
        if !needed.broadcast && broadcast != 0 {
            drop_route(rta::rtn::BROADCAST, broadcast, 32, prim);
        }
        if subnet && address.prefix_len < 31 {
            if !needed.last {
                drop_route(rta::rtn::BROADCAST, last, 32, prim);
            }
            if !needed.network {
                drop_route(rta::rtn::BROADCAST, network, 32, prim);
            }
        }
        if !needed.local {
            drop_route(rta::rtn::LOCAL, address.local.into(), 32, prim);
            let stays = promoted.is_some()
                || self.address_type_on(device, address.local, guard) == rta::rtn::LOCAL;
            if !stays {
                let gone = self.address_lost(device, address.local).into_iter();
                events.extend(gone.map(|route| Event {
                    new: false,
                    flags: 0,
                    route,
                }));
            }
        }
    }

    /// Changes the metric of an address's prefix route.
    pub fn prefix_metric(
        &self,
        device: &D,
        address: &Ifaddr,
        metric: u32,
        host: &impl FibHost<D>,
        guard: &Guard,
        events: &mut Vec<Event<u32, D>>,
    ) {
        let network = address.network();
        if !device.is_up()
            || address.secondary
            || address.no_prefix_route
            || is_zeronet(network)
            || (network == u32::from(address.local) && address.prefix_len == 32)
        {
            return;
        }
        let kind = Self::prefix_kind(device);
        let mut config = Self::magic(kind, network, address.prefix_len, device, address);
        config.priority = metric;
        let _ = self.add_direct(&config, host, guard, events);
        config.priority = address.metric;
        let _ = self.delete(&config, guard, events);
    }
}

/// The routes of a deleted address that other addresses still need.
#[derive(Debug, Default)]
struct Needed {
    local: bool,
    broadcast: bool,
    network: bool,
    last: bool,
}

impl Needed {
    fn by(rest: &[Ifaddr], address: &Ifaddr, prim: &Ifaddr, promoted: Option<&Ifaddr>) -> Self {
        let (network, last, broadcast) = (address.network(), address.last(), address.broadcast());
        let mut needed = Self::default();
        let mut same_source = false;
        let mut owner: Option<&Ifaddr> = None;
        for other in rest {
            if promoted.is_some() && other.local == address.local && other.shares_prefix(address) {
                continue;
            }
            if promoted.is_some_and(|prim| other.shares_prefix(prim)) {
                continue;
            }
            // Only addresses whose routes have the same source count.
            if other.secondary {
                if other.shares_prefix(prim) {
                    owner = Some(prim);
                } else {
                    if !same_source {
                        continue;
                    }
                    if !owner.is_some_and(|owner| other.shares_prefix(owner)) {
                        owner = by_prefix(rest, other);
                    }
                    if owner.is_none_or(|owner| owner.local != prim.local) {
                        continue;
                    }
                }
            } else {
                if prim.local != other.local {
                    continue;
                }
                owner = Some(other);
                same_source |= !std::ptr::eq(prim, other);
            }
            needed.local |= address.local == other.local;
            needed.broadcast |= broadcast == other.broadcast();
            needed.last |= last == other.broadcast();
            needed.network |= network == other.broadcast();
            let owns = owner.is_some_and(|owner| std::ptr::eq(owner, other));
            if owns && other.prefix_len < 31 && !is_zeronet(other.network()) {
                let ends = [other.last(), other.network()];
                needed.broadcast |= ends.contains(&broadcast);
                needed.last |= ends.contains(&last);
                needed.network |= ends.contains(&network);
            }
        }
        needed
    }
}

/// Returns the table of a device's routes: that of its L3 domain, or else `table`.
pub fn table_of<D: RouteDevice>(device: &D, table: u32) -> u32 {
    match device.l3_table() {
        0 => table,
        own => own,
    }
}

fn kernel6<D: RouteDevice>(
    kind: u8,
    table: u32,
    dst: Ipv6Addr,
    dst_len: u8,
    device: &D,
) -> RouteConfig<u128> {
    let ifindex = device.ifindex();
    RouteConfig {
        table: table_of(device, table),
        dst: dst.into(),
        dst_len,
        protocol: rta::prot::KERNEL,
        kind,
        hop: HopConfig {
            oif: ifindex,
            ..HopConfig::default()
        },
        nlflags: nlm::F_CREATE,
        ..RouteConfig::default()
    }
}

/// Builds the route to one of our own IPv6 addresses, or to an anycast address if `anycast` is set.
pub fn local6<D: RouteDevice>(address: Ipv6Addr, device: &D, anycast: bool) -> RouteConfig<u128> {
    let kind = if anycast {
        rta::rtn::ANYCAST
    } else {
        rta::rtn::LOCAL
    };
    let mut config = kernel6(kind, rta::table::LOCAL, address, 128, device);
    config.ignore_down = true;
    config
}

/// Builds the route to the prefix of an IPv6 address. A metric of 0 stands for the default, 256.
/// `expires` is a time of the stack's clock in nanoseconds.
pub fn prefix6<D: RouteDevice>(
    prefix: Ipv6Addr,
    prefix_len: u8,
    device: &D,
    metric: u32,
    expires: Option<u64>,
) -> RouteConfig<u128> {
    let mut config = kernel6(
        rta::rtn::UNICAST,
        rta::table::MAIN,
        prefix,
        prefix_len,
        device,
    );
    config.priority = if metric == 0 { METRIC_ADDRCONF } else { metric };
    config.expires = expires;
    config
}

/// Builds the multicast route that every device has while it is up.
pub fn multicast6<D: RouteDevice>(device: &D) -> RouteConfig<u128> {
    let groups = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);
    let mut config = kernel6(rta::rtn::MULTICAST, rta::table::LOCAL, groups, 8, device);
    config.priority = METRIC_ADDRCONF;
    config
}

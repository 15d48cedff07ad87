// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The route that a socket asks for, and the one by which a multicast router forwards (`ip_route_output_key_hash_rcu`,
//! `__mkroute_output`).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::{errno, rta};
use weir_sync::rcu::Guard;

use super::group::{ALL_HOSTS, is_local};
use super::route::{self, Hop};
use super::{on_either, select};
use crate::device::Device;
use crate::fib::host::{WithRoutes, l3_output};
use crate::fib::lookup::{Flow, LookupFlags};
use crate::ipv4::WithIpv4;
use crate::namespace::Namespace;
use crate::settings::{HasIp, Ipv4Conf};

const LOOPBACK: u32 = 1;
const IPPROTO_IGMP: u8 = 2;

/// What a program's packet needs of a route (`struct flowi4`).
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The source address, if it is given.
    pub src: Option<Ipv4Addr>,
    /// The index of the outgoing device; 0 for any.
    pub oif: u32,
    /// The type of service.
    pub tos: u8,
    /// Firewall mark.
    pub mark: u32,
    /// The protocol.
    pub protocol: u8,
    /// The source and the destination port, 0 without ports.
    pub ports: (u16, u16),
    /// The source need not be ours (`FLOWI_FLAG_ANYSRC`).
    pub any_source: bool,
    /// No gateway is used (`SO_DONTROUTE`).
    pub on_link: bool,
}

/// The route of a program's packet.
#[derive(Debug, Clone, Copy)]
pub struct Way<'g> {
    /// The next hop.
    pub hop: Hop<'g>,
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The hop limit of the route, or 0 if it has none.
    pub hop_limit: u32,
    /// `RTN_*`: unicast, local, broadcast or multicast.
    pub kind: u8,
    /// The host is itself a receiver.
    pub loops: bool,
}

impl Way<'_> {
    /// Returns whether the packet goes to a group.
    pub fn is_multicast(&self) -> bool {
        self.kind == rta::rtn::MULTICAST
    }
}

/// Finds the route of a program's packet.
///
/// # Errors
/// EINVAL for a source that is not ours, ENODEV, ENETUNREACH, or the errno of the route.
pub fn find<'g>(ns: &'g Namespace, wish: &Wish, guard: &'g Guard) -> Result<Way<'g>, i32> {
    let mut wish = *wish;
    let (l3_table, bound) = l3_output(ns, wish.oif, guard);
    let to_group = wish.dst.is_multicast();
    let to_all = wish.dst.is_broadcast();
    let scope = match wish.on_link {
        true => rta::scope::LINK,
        false => rta::scope::UNIVERSE,
    };
    if let Some(src) = wish.src {
        if src.is_multicast() || src.is_broadcast() || src.octets()[0] == 0 {
            return Err(errno::EINVAL);
        }
        let owner = || owner_of(ns, src, guard);
        if wish.oif == 0 && (to_group || to_all) {
            match owner() {
                // No route counts.
                Some(device) => return straight(ns, &wish, device, src, None),
                None if !wish.any_source => return Err(errno::EINVAL),
                None => {}
            }
        } else if !wish.any_source && !is_source(ns, src, l3_table, guard) {
            return Err(errno::EINVAL);
        }
    }
    let device = match wish.oif {
        0 => None,
        oif => {
            let device = ns.device(oif, guard).ok_or(errno::ENODEV)?;
            if !device.is_up() || !device.has_ipv4() {
                return Err(errno::ENETUNREACH);
            }
            Some(device)
        }
    };
    if let Some(device) = device {
        let any = Ipv4Addr::UNSPECIFIED;
        let chosen = |scope| select::select_address(ns, device, any, scope, guard);
        if is_local(wish.dst) || to_all || wish.protocol == IPPROTO_IGMP {
            let src = wish.src.or_else(|| chosen(rta::scope::LINK));
            return straight(ns, &wish, device, src.unwrap_or(any), None);
        }
        wish.src = match wish.src {
            None if to_group => chosen(scope),
            None if wish.dst.is_unspecified() => chosen(rta::scope::HOST),
            src => src,
        };
    }
    if wish.dst.is_unspecified() {
        wish.dst = wish.src.unwrap_or(Ipv4Addr::LOCALHOST);
        wish.src = Some(wish.dst);
        let own = device.and_then(|device| device.l3_master(guard));
        let device = own.or_else(|| ns.device(LOOPBACK, guard));
        let device = device.ok_or(errno::ENETUNREACH)?;
        return Ok(to_us(device, wish.dst, wish.dst, 0));
    }
    let flow = Flow {
        dst: wish.dst.into(),
        src: wish.src.map_or(0, u32::from),
        iif: LOOPBACK,
        oif: bound,
        l3_table,
        mark: wish.mark,
        tos: wish.tos & 0x1c,
        scope,
        proto: wish.protocol,
        sport: wish.ports.0,
        dport: wish.ports.1,
        ..Flow::default()
    };
    let mut found = match ns.fib().v4.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => found,
        Err(error) => {
            return match device {
                // The program knows better: the destination is on the link.
                Some(device) if bound != 0 && (to_group || l3_table == 0) => {
                    let any = Ipv4Addr::UNSPECIFIED;
                    let chosen =
                        || select::select_address(ns, device, any, rta::scope::LINK, guard);
                    let src = wish.src.or_else(chosen).unwrap_or(any);
                    straight(ns, &wish, device, src, None)
                }
                _ => Err(error),
            };
        }
    };
    let hop_limit = found.info.metric(rta::ax::HOPLIMIT);
    if found.info.spec.kind == rta::rtn::LOCAL {
        let prefsrc = match found.info.spec.prefsrc {
            Some(IpAddr::V4(address)) => address,
            _ => wish.dst,
        };
        let named = found.hop.device.as_ref();
        let device = named
            .and_then(|named| named.l3_master(guard))
            .or_else(|| ns.device(LOOPBACK, guard))
            .ok_or(errno::ENETUNREACH)?;
        return Ok(to_us(
            device,
            wish.src.unwrap_or(prefsrc),
            wish.dst,
            hop_limit,
        ));
    }
    if bound == 0 && found.is_multipath() {
        found = found.select(route::flow_hash(ns, &flow));
    }
    let hop = Hop::new(ns, &found, wish.dst, guard).ok_or(errno::ENETUNREACH)?;
    let device = hop.device;
    let chosen = || route::preferred_source(ns, &found, guard);
    let src = wish.src.or_else(chosen).unwrap_or(Ipv4Addr::UNSPECIFIED);
    // The gateway of a default route is none for groups.
    let hop = Some(hop).filter(|_| !to_group || found.dst_len >= 4);
    let mut way = straight(ns, &wish, device, src, hop)?;
    if !to_group && found.info.spec.kind == rta::rtn::BROADCAST {
        (way.kind, way.loops) = (rta::rtn::BROADCAST, true);
    }
    way.hop_limit = hop_limit;
    Ok(way)
}

/// Returns whether an address is ours, in the main domain or in that of a table.
fn is_source(ns: &Namespace, src: Ipv4Addr, l3_table: u32, guard: &Guard) -> bool {
    let in_domain = || ns.fib().v4.address_type(src, l3_table, guard) == rta::rtn::LOCAL;
    route::is_ours(ns, src, guard) || (l3_table != 0 && in_domain())
}

/// Returns the device that has an address (`__ip_dev_find`).
pub fn owner_of<'g>(
    ns: &'g Namespace,
    address: Ipv4Addr,
    guard: &'g Guard,
) -> Option<&'g Arc<Device>> {
    let has = |device: &Arc<Device>| {
        let list = device.ipv4().addresses.list(guard);
        list.iter().any(|one| one.local == address)
            || (address.is_loopback() && device.flags() & iff::LOOPBACK != 0)
    };
    let owner = ns.all_devices().into_iter().find(has)?;
    ns.device(owner.ifindex(), guard)
}

/// The way to an address of ours.
fn to_us(device: &Arc<Device>, src: Ipv4Addr, dst: Ipv4Addr, hop_limit: u32) -> Way<'_> {
    let hop = Hop {
        device,
        next_hop: dst.into(),
        mtu: device.mtu().min(0xffff),
        broadcast: false,
        via: None,
        encap: None,
    };
    Way {
        hop,
        src,
        dst,
        hop_limit,
        kind: rta::rtn::LOCAL,
        loops: false,
    }
}

/// The way through a device, without a gateway if no hop is given (`__mkroute_output`).
fn straight<'g>(
    ns: &Namespace,
    wish: &Wish,
    device: &'g Arc<Device>,
    src: Ipv4Addr,
    hop: Option<Hop<'g>>,
) -> Result<Way<'g>, i32> {
    let to_all = wish.dst.is_broadcast();
    let kind = match wish.dst {
        dst if dst.is_multicast() => rta::rtn::MULTICAST,
        _ if to_all => rta::rtn::BROADCAST,
        _ => rta::rtn::UNICAST,
    };
    let loopback = device.flags() & iff::LOOPBACK != 0;
    if src.is_loopback() && !loopback && !on_either(ns, device, Ipv4Conf::RouteLocalnet) {
        return Err(errno::EINVAL);
    }
    if wish.dst.octets()[0] == 0 {
        return Err(errno::EINVAL);
    }
    let member = || wish.dst == ALL_HOSTS || device.ipv4().groups.has(wish.dst);
    let hop = hop.unwrap_or_else(|| Hop::on_link(device, wish.dst));
    Ok(Way {
        hop,
        src,
        dst: wish.dst,
        hop_limit: 0,
        kind,
        loops: match kind {
            rta::rtn::MULTICAST => member(),
            rta::rtn::BROADCAST => true,
            _ => false,
        },
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own addresses, and which of them to use as a source: default address selection (RFC 6724,
//! `ipv6_dev_get_saddr`), `ipv6_get_lladdr`, `ipv6_chk_mcast_addr`.
//!
//! The rules in order: the destination itself, scope, not deprecated, outgoing device, label
//! ([`super::label`]), not temporary, or temporary if the device's `use_tempaddr` is 2, longest common prefix.
//! Among equals, the first address of the first device is used. Not implemented: optimistic and home addresses,
//! `use_oif_addrs_only`.

use std::net::Ipv6Addr;

use weir_netlink::{ifa, rta};
use weir_packet::header::ndisc::solicited_node;
use weir_sync::rcu::Guard;

use super::address::Address;
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::fib::lookup::{Flow, LookupFlags};
use crate::ipv6::WithIpv6;
use crate::namespace::Namespace;
use crate::settings::Ipv6Conf;
use crate::settings::WithSettings;

/// `IPV6_ADDR_SCOPE_LINKLOCAL`
const LINK: i32 = 2;

/// Returns how far an address reaches (`ipv6_addr_src_scope`): 2 for the link, 5 for the site, 14
/// for everywhere. For a group it is the group's own scope.
pub(super) fn reach(address: Ipv6Addr) -> i32 {
    let [first, ..] = address.segments();
    if address.is_multicast() {
        i32::from(first & 0xf)
    } else if address.is_unspecified() {
        0
    } else if address.is_loopback() || address.is_unicast_link_local() {
        LINK
    } else if first & 0xffc0 == 0xfec0 {
        5
    } else {
        14
    }
}

/// The rating of an address, with the first rule first.
type Score = (bool, i32, bool, bool, bool, bool, u32);

fn score(
    candidate: &Address,
    dst: Ipv6Addr,
    on_device: bool,
    same_label: bool,
    prefers_temporary: bool,
) -> Score {
    let ours = candidate.address;
    let (have, want) = (reach(ours), reach(dst));
    let common = (u128::from(ours) ^ u128::from(dst)).leading_zeros();
    (
        ours == dst,
        if have >= want { -have } else { have - 128 },
        !candidate.has(ifa::f::DEPRECATED),
        on_device,
        same_label,
        candidate.has(ifa::f::TEMPORARY) == prefers_temporary,
        common.min(u32::from(candidate.prefix_len)),
    )
}

/// Selects the source address for packets to `dst` through `device` (`None`: not known yet).
pub fn select_address(
    ns: &Namespace,
    device: Option<&Device>,
    dst: Ipv6Addr,
    guard: &Guard,
) -> Option<Ipv6Addr> {
    let labels = ns.ipv6().labels.table(guard);
    let wanted = labels.label(dst, device.map_or(0, Device::ifindex));
    let mut best: Option<(Score, Ipv6Addr)> = None;
    let mut look = |other: &Device, on_device: bool| {
        let temporary = other.conf().ipv6.get(Ipv6Conf::UseTempaddr) >= 2;
        for candidate in other.ipv6().addresses.list(guard) {
            if candidate.is_tentative() {
                continue;
            }
            let label = labels.label(candidate.address, other.ifindex());
            let score = score(candidate, dst, on_device, label == wanted, temporary);
            if best.is_none_or(|(best, _)| score > best) {
                best = Some((score, candidate.address));
            }
        }
    };
    match device {
        Some(device) if dst.is_multicast() || reach(dst) <= LINK => look(device, true),
        _ => {
            // Addresses of the device's L3 domain count.
            let master = device.map(|device| device.l3_master_index(guard));
            for other in ns.all_devices() {
                if master.is_some_and(|master| other.l3_master_index(guard) != master) {
                    continue;
                }
                let on_device = device.is_none_or(|device| device.key == other.key);
                look(&other, on_device);
            }
        }
    }
    best.map(|(_, address)| address)
}

/// Returns a usable link-local address of a device.
pub fn link_local_of(device: &Device, guard: &Guard) -> Option<Ipv6Addr> {
    let list = device.ipv6().addresses.list(guard);
    let found = list
        .iter()
        .rev()
        .find(|address| address.scope() == rta::scope::LINK && !address.is_tentative());
    found.map(|address| address.address)
}

/// Returns whether an address is one of ours, as `RTN_LOCAL` or `RTN_ANYCAST`. An address valid on
/// one link only must be on `device` (`ipv6_chk_addr`, `ipv6_chk_acast_addr`).
pub fn own_kind(ns: &Namespace, device: &Device, address: Ipv6Addr, guard: &Guard) -> Option<u8> {
    let own = match device.l3_table() {
        0 => rta::table::LOCAL,
        own => own,
    };
    let table = ns.fib().v6.table(own, guard)?;
    let strict = needs_device(address);
    let flow = Flow {
        dst: address.into(),
        oif: if strict { device.ifindex() } else { 0 },
        ..Flow::default()
    };
    let flags = LookupFlags {
        iface: strict,
        ..LookupFlags::default()
    };
    let kind = table.lookup(&flow, flags, guard).ok()?.info.spec.kind;
    matches!(kind, rta::rtn::LOCAL | rta::rtn::ANYCAST).then_some(kind)
}

/// Returns whether an address is meaningful on one link only (`rt6_need_strict`).
#[inline]
pub fn needs_device(address: Ipv6Addr) -> bool {
    address.is_multicast() || address.is_unicast_link_local() || address.is_loopback()
}

/// Returns whether the device is a member of a multicast group (`ipv6_chk_mcast_addr`): all nodes,
/// all routers if it forwards, the solicited-node groups of its addresses, and those that were joined.
pub fn is_member(device: &Device, group: Ipv6Addr, guard: &Guard) -> bool {
    let routes = device.conf().ipv6.on(Ipv6Conf::Forwarding);
    match group.segments() {
        [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1] => true,
        [0xff01 | 0xff02 | 0xff05, 0, 0, 0, 0, 0, 0, 2] if routes => true,
        [0xff02, 0, 0, 0, 0, 1, high, _] if high >> 8 == 0xff => {
            let asks = |address: Ipv6Addr| solicited_node(address.octets()) == group.octets();
            let list = device.ipv6().addresses.list(guard);
            list.iter()
                .any(|own| asks(own.address) || (routes && asks(own.network())))
                || device.ipv6().groups.has(group)
        }
        _ => device.ipv6().groups.has(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, prefix_len: u8) -> Address {
        Address::new(text.parse().unwrap(), prefix_len, 0)
    }

    fn best<'a>(candidates: &'a [(&'a str, u8, bool)], dst: &str) -> &'a str {
        let dst = dst.parse().unwrap();
        let domain = weir_sync::rcu::Domain::new(weir_sync::rcu::Config::default());
        let labels = crate::ipv6::label::Labels::new(&domain);
        let guard = domain.pin();
        let label = |address| labels.table(&guard).label(address, 0);
        let scored = candidates.iter().map(|(text, len, on)| {
            let candidate = address(text, *len);
            let same = label(candidate.address) == label(dst);
            (score(&candidate, dst, *on, same, false), *text)
        });
        let mut best: Option<(Score, &str)> = None;
        for found in scored {
            if best.as_ref().is_none_or(|best| found.0 > best.0) {
                best = Some(found);
            }
        }
        best.unwrap().1
    }

    #[test]
    fn sources_are_chosen_as_rfc_6724_says() {
        // Scope first: no narrower than the destination's, but no wider than necessary.
        let all = [("fe80::1", 64, true), ("2001:db8:1::1", 64, false)];
        assert_eq!(best(&all, "2001:db8:2::2"), "2001:db8:1::1");
        assert_eq!(best(&all, "fe80::2"), "fe80::1");
        // Then the device, the label, the longest common prefix.
        let all = [("2001:db8:1::1", 64, false), ("2001:db8:9::1", 64, true)];
        assert_eq!(best(&all, "2001:db8:1::2"), "2001:db8:9::1");
        let all = [("2001:db8:1::1", 64, true), ("fd00::1", 64, true)];
        assert_eq!(best(&all, "fd00:1::2"), "fd00::1");
        let all = [("2001:db8:1::1", 64, true), ("2001:db8:2::1", 64, true)];
        assert_eq!(best(&all, "2001:db8:2::2"), "2001:db8:2::1");
        assert_eq!(best(&all, "2001:db8:4::2"), "2001:db8:1::1");
    }
}

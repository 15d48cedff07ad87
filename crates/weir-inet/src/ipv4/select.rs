// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source address selection: `inet_select_addr`, `inet_confirm_addr`, `inet_addr_onlink`.

use std::net::Ipv4Addr;

use weir_netlink::rta;
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::namespace::Namespace;
use crate::settings::Ipv4Conf;

/// Returns the cap on the scope of host addresses: link scope where 127.0.0.0/8 is routed
/// (`route_localnet`), else host scope.
fn local_scope(ns: &Namespace, device: &Device) -> u8 {
    if super::on_either(ns, device, Ipv4Conf::RouteLocalnet) {
        rta::scope::LINK
    } else {
        rta::scope::HOST
    }
}

/// Selects a source address on a device for packets to `dst` (unspecified: any), with a scope of at
/// most `scope` (`RT_SCOPE_*`). Prefers an address with the same prefix, then the first address,
/// then one of another device (`inet_select_addr`).
pub fn select_address(
    ns: &Namespace,
    device: &Device,
    dst: Ipv4Addr,
    scope: u8,
    guard: &Guard,
) -> Option<Ipv4Addr> {
    let widest = local_scope(ns, device);
    let mut first = None;
    for address in device.ipv4().addresses.list(guard) {
        if address.is_secondary() || address.scope.min(widest) > scope {
            continue;
        }
        if dst.is_unspecified() || address.contains(dst) {
            return Some(address.local);
        }
        first = first.or(Some(address.local));
    }
    if first.is_some() {
        return first;
    }
    // A VRF takes the place of the loopback device for its ports.
    let master = device.l3_master_index(guard);
    let own = ns.device(master, guard).filter(|_| master != 0);
    if let Some(found) = own.and_then(|own| usable_on(own, scope, guard)) {
        return Some(found);
    }
    let all = ns.all_devices();
    let mut others = all
        .iter()
        .filter(|other| other.l3_master_index(guard) == master);
    others.find_map(|other| usable_on(other, scope, guard))
}

/// Returns the first primary address of a device that packets of other devices may have as their source
/// (`in_dev_select_addr`).
fn usable_on(device: &Device, scope: u8, guard: &Guard) -> Option<Ipv4Addr> {
    let list = device.ipv4().addresses.list(guard);
    let mut primary = list.iter().filter(|a| !a.is_secondary());
    primary
        .find(|a| a.scope != rta::scope::LINK && a.scope <= scope)
        .map(|a| a.local)
}

/// Returns one of a device's addresses that equals `local` (unspecified: any) and shares a prefix
/// with `dst` (unspecified: any) (`confirm_addr_indev`).
fn confirm_on(
    ns: &Namespace,
    device: &Device,
    dst: Ipv4Addr,
    local: Ipv4Addr,
    scope: u8,
    guard: &Guard,
) -> Option<Ipv4Addr> {
    let widest = local_scope(ns, device);
    let (any_dst, any_local) = (dst.is_unspecified(), local.is_unspecified());
    let mut found = None;
    let mut same = false;
    for address in device.ipv4().addresses.list(guard) {
        let fits = address.scope.min(widest) <= scope;
        if found.is_none() && (any_local || local == address.local) && fits {
            found = Some(address.local);
            if same {
                break;
            }
        }
        if !same {
            same = (any_local || address.contains(local)) && (any_dst || address.contains(dst));
            if let Some(ours) = found.filter(|_| same) {
                if !any_local || any_dst || address.contains(ours) {
                    break;
                }
                if fits {
                    found = Some(address.local);
                    break;
                }
                same = false;
            }
        }
    }
    found.filter(|_| same)
}

/// Does the same on one device, or on any device if `device` is `None` (`inet_confirm_addr`).
pub fn confirm_address(
    ns: &Namespace,
    device: Option<&Device>,
    dst: Ipv4Addr,
    local: Ipv4Addr,
    scope: u8,
    guard: &Guard,
) -> Option<Ipv4Addr> {
    match device {
        Some(device) => confirm_on(ns, device, dst, local, scope, guard),
        None => ns
            .all_devices()
            .iter()
            .find_map(|device| confirm_on(ns, device, dst, local, scope, guard)),
    }
}

/// Returns whether `a`, and `b` if given, are in the prefix of one of the device's addresses
/// (`inet_addr_onlink`).
pub fn is_on_link(device: &Device, a: Ipv4Addr, b: Option<Ipv4Addr>, guard: &Guard) -> bool {
    let addresses = device.ipv4().addresses.list(guard);
    addresses
        .iter()
        .any(|address| address.contains(a) && b.is_none_or(|b| address.contains(b)))
}

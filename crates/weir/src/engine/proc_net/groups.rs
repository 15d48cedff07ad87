// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/net/igmp`, `igmp6` and `dev_mcast`: the groups that devices are members of, and the
//! link-layer addresses that they accept for them. Written by the supervisor, `dev_mcast` adds and
//! removes addresses (`SIOCADDMULTI`, `SIOCDELMULTI`).

use std::fmt::Write as _;
use std::sync::Arc;

use weir_intercept::Errno;
use weir_stack::ipv4::{WithIpv4, igmp};
use weir_stack::ipv6::WithIpv6;
use weir_stack::sysctl::WithSettings;
use weir_stack::taken::{self, Reference};
use weir_stack::{Namespace, Stack};

/// One tick of user space in ns (`USER_HZ`).
const CLOCK_TICK: u64 = 10_000_000;

/// Formats `/proc/net/igmp` (`igmp_mc_seq_show`).
pub fn igmp(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let now = stack.clock.now();
    let mut text = String::from("Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n");
    for device in ns.all_devices() {
        let groups = device.ipv4().groups.list(now);
        if !groups.is_empty() {
            let (index, name) = (device.ifindex(), device.name());
            let version = igmp::version(&ns.conf().all.ipv4, &device, now);
            let count = groups.len();
            let _ = writeln!(
                text,
                "{index}\t{name:<10}: {count:5} {:>7}",
                format!("V{version}")
            );
        }
        for group in groups {
            let _ = writeln!(
                text,
                "\t\t\t\t{:08X} {:5} {}:{:08X}\t\t{}",
                super::raw(group.address),
                group.users,
                u8::from(group.wait.is_some()),
                group.wait.unwrap_or(0) / CLOCK_TICK,
                u8::from(group.reported),
            );
        }
    }
    text
}

/// Formats `/proc/net/igmp6` (`igmp6_mc_seq_show`).
pub fn igmp6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let now = stack.clock.now();
    let mut text = String::new();
    for device in ns.all_devices() {
        let (index, name) = (device.ifindex(), device.name());
        for group in device.ipv6().groups.list(now) {
            let _ = writeln!(
                text,
                "{index:<4} {name:<15} {} {:5} {:08X} {}",
                super::hex(group.address),
                group.users,
                group.flags,
                group.wait / CLOCK_TICK,
            );
        }
    }
    text
}

/// Formats `/proc/net/dev_mcast` (`dev_mc_seq_show`).
pub fn dev_mcast(_: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::new();
    for device in ns.all_devices() {
        let (index, name) = (device.ifindex(), device.name());
        for entry in device.taken().multicast.entries() {
            let mac: String = entry
                .mac
                .iter()
                .map(|octet| format!("{octet:02x}"))
                .collect();
            let (users, global) = (entry.users, u8::from(entry.global));
            let _ = writeln!(text, "{index:<4} {name:<15} {users:<5} {global:<5} {mac}");
        }
    }
    text
}

/// Adds (`+`) or removes (`-`) the address of a group, for the supervisor's ioctl. The value is the
/// sign, the address as twelve hexadecimal digits, and the device's name (`dev_ifsioc`).
pub fn write(stack: &Stack, ns: &Namespace, value: &[u8]) -> Result<(), Errno> {
    let invalid = Errno(libc::EINVAL);
    let text = std::str::from_utf8(value).map_err(|_| invalid)?;
    let (mac, name) = text
        .get(1..)
        .unwrap_or_default()
        .split_at_checked(12)
        .ok_or(invalid)?;
    let number = u64::from_str_radix(mac, 16).map_err(|_| invalid)?;
    let [_, _, mac @ ..] = number.to_be_bytes();
    let device = ns.device_by_name(name).ok_or(Errno(libc::ENODEV))?;
    if !device.link.has_filter() {
        return Err(invalid);
    }
    let guard = stack.domain.pin();
    let changed = match text.starts_with('+') {
        true => taken::add_group(stack, &guard, &device, mac, Reference::Global),
        false => taken::remove_group(stack, &guard, &device, mac, Reference::Global),
    };
    changed.map_err(|error| Errno(error.errno))
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which IPv4 settings of a device follow `net.ipv4.conf.default` when that is written later
//! (`devinet_copy_dflt_conf`, `ipv4_devconf_setall`).
//!
//! A setting follows until somebody writes the device's own, and all stop when the device gets its first IPv4 address.
//! Devices made after the first write of a default take over its value and do not follow it any more. Linux keeps a
//! bit for each setting of a device and of the default. Here one table of the stack keeps what addresses do not tell:
//! settings that were written, devices that had an address, and who follows a default that was written. A namespace
//! whose defaults nobody writes has no entry.
//!
//! Not implemented: a namespace does not take over from the initial one which defaults have been written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_sync::order::{self, Mutex};

use super::Ipv4Conf;
use crate::conf::Slot;
use crate::device::{Device, DeviceKey};
use crate::namespace::{Namespace, NsId};
use crate::parts::Key;
use crate::stack::Stack;

/// In a device's bits: none of its settings follows.
const ALL: u64 = 1 << 63;
const _: () = assert!(Ipv4Conf::ALL.len() < 63);

/// The settings that devices do not take over (`ipv4_doint_and_flush`, `devinet_sysctl_forward`).
const NEVER: [Ipv4Conf; 7] = [
    Ipv4Conf::DisablePolicy,
    Ipv4Conf::DisableXfrm,
    Ipv4Conf::DropUnicastInL2Multicast,
    Ipv4Conf::Forwarding,
    Ipv4Conf::McForwarding,
    Ipv4Conf::PromoteSecondaries,
    Ipv4Conf::RouteLocalnet,
];

/// What is kept; see the module.
#[derive(Debug, Default)]
struct Table {
    /// The settings of devices that do not follow, as bits.
    own: BTreeMap<DeviceKey, u64>,
    /// The devices that follow a default that was written.
    followers: BTreeMap<NsId, Vec<(Ipv4Conf, Vec<DeviceKey>)>>,
}

/// The table in the stack.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Whether the table has an entry.
    any: AtomicBool,
    table: Mutex<Table, order::WrittenSettings>,
}

/// The table's place in the stack.
pub(super) static WRITTEN: Key<Written, 11> = Key::new();

fn change<R>(stack: &Stack, change: impl FnOnce(&mut Table) -> R) -> R {
    let written = stack.parts.get(&WRITTEN);
    let mut table = written.table.lock();
    let answer = change(&mut table);
    let any = !table.own.is_empty() || !table.followers.is_empty();
    written.any.store(any, Relaxed);
    answer
}

/// Notes that somebody wrote a setting of the device.
pub(crate) fn written(stack: &Stack, device: &Device, slot: Ipv4Conf) {
    if !NEVER.contains(&slot) {
        change(stack, |table| {
            *table.own.entry(device.key).or_default() |= 1 << slot.index();
        });
    }
}

/// Notes that the device had an address, before it has none.
pub(crate) fn had_address(stack: &Stack, device: &Device) {
    change(stack, |table| table.own.insert(device.key, ALL));
}

/// Forgets a device that leaves its namespace.
pub(crate) fn forget(stack: &Stack, ns: &Namespace, device: &Device) {
    if !stack.parts.get(&WRITTEN).any.load(Relaxed) {
        return;
    }
    change(stack, |table| {
        table.own.remove(&device.key);
        if ns.is_closing() {
            table.followers.remove(&ns.id);
        } else if let Some(lists) = table.followers.get_mut(&ns.id) {
            for (_, followers) in lists {
                followers.retain(|key| *key != device.key);
            }
        }
    });
}

/// Notes that somebody wrote a default. Returns which of `devices`, the namespace's devices without an address, follow.
pub(crate) fn default_written(
    stack: &Stack,
    ns: &Namespace,
    slot: Ipv4Conf,
    mut devices: Vec<Arc<Device>>,
) -> Vec<Arc<Device>> {
    if NEVER.contains(&slot) {
        return Vec::new();
    }
    change(stack, |table| {
        devices.retain(|device| {
            let own = table.own.get(&device.key).copied().unwrap_or(0);
            own & (ALL | 1 << slot.index()) == 0
        });
        let lists = table.followers.entry(ns.id).or_default();
        match lists.iter().find(|(of, _)| *of == slot) {
            Some((_, followers)) => devices.retain(|device| followers.contains(&device.key)),
            None => {
                let keys = devices.iter().map(|device| device.key);
                lists.push((slot, keys.collect()));
            }
        }
        devices
    })
}

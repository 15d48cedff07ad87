// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPLS: `net.mpls.platform_labels`, `ip_ttl_propagate`, `default_ttl`, and `net.mpls.conf.DEV.input` (`mpls_table`,
//! `mpls_dev_table` of net/mpls/af_mpls.c). Linux has them while the module `mpls_router` is loaded. Here they can be
//! read and written at any time; the folder is listed in namespaces that have used MPLS.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno;

use crate::device::Device;
use crate::fib::mpls::{self, MAX_TABLE};
use crate::namespace::Namespace;
use crate::stack::Stack;

/// The folder in `/proc/sys/net`.
pub(super) const FOLDER: &str = "mpls";

/// Returns whether the folder is listed.
pub(super) fn is_used(ns: &Namespace) -> bool {
    mpls::of(ns).is_some()
}

/// A file.
pub(super) enum File {
    /// The size of the label table.
    Labels,
    /// Popped packets take the TTL of the label, and labels that of the packet.
    Propagate,
    /// The TTL of labels if it is not the packet's.
    DefaultTtl,
    /// The device takes labelled packets.
    Input(Arc<Device>),
}

/// Returns all paths, with `*` for a device.
pub(super) fn paths() -> impl Iterator<Item = String> {
    let all = [
        "mpls/platform_labels",
        "mpls/ip_ttl_propagate",
        "mpls/default_ttl",
        "mpls/conf/*/input",
    ];
    all.into_iter().map(str::to_owned)
}

/// Returns the file at a path.
pub(super) fn file(ns: &Namespace, path: &str) -> Option<File> {
    Some(match path.strip_prefix("mpls/")? {
        "platform_labels" => File::Labels,
        "ip_ttl_propagate" => File::Propagate,
        "default_ttl" => File::DefaultTtl,
        path => {
            let name = path.strip_prefix("conf/")?.strip_suffix("/input")?;
            File::Input(device(ns, name)?)
        }
    })
}

/// Returns the device of a directory.
pub(super) fn device(ns: &Namespace, name: &str) -> Option<Arc<Device>> {
    let found = ns.device_by_name(name);
    found.filter(|device| device.name() == name)
}

/// Reads a file.
pub(super) fn read(ns: &Namespace, file: &File) -> i64 {
    let state = mpls::of(ns);
    match file {
        File::Labels => state.map_or(0, |state| state.limit().into()),
        File::Propagate => state
            .is_none_or(|state| state.propagate.load(Relaxed))
            .into(),
        File::DefaultTtl => state.map_or(255, |state| state.default_ttl.load(Relaxed).into()),
        File::Input(device) => state.map_or(0, |state| state.known_input(device).into()),
    }
}

/// Writes a file. The error is an errno.
pub(super) fn write(stack: &Stack, ns: &Namespace, file: &File, value: i32) -> Result<(), i32> {
    let within = |least: i32, most: i32| match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(errno::EINVAL),
    };
    match file {
        File::Labels => within(0, MAX_TABLE)?,
        File::Propagate => within(0, 1)?,
        File::DefaultTtl => within(1, 255)?,
        File::Input(_) => {}
    }
    let (state, guard) = (mpls::make(stack, ns), stack.domain.pin());
    match file {
        File::Labels => {
            let changes = state.resize(ns, value as u32, &guard);
            mpls::tell(stack, ns, &changes);
        }
        File::Propagate => state.propagate.store(value == 1, Relaxed),
        File::DefaultTtl => state.default_ttl.store(value as u8, Relaxed),
        File::Input(device) => {
            if state.set_input(device, value, &guard) {
                mpls::tell_input(stack, ns, device, Some(value));
            }
        }
    }
    Ok(())
}

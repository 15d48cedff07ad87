// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The small text files of a namespace that clients read: `/proc/sys/net`, `/proc/net`,
//! `/sys/class/net`, `/sys/bus/netdevsim`.

use std::sync::Arc;

use weir_intercept::{Errno, Node, Tree};
use weir_netlink::Error;
use weir_stack::link::netdevsim;
use weir_stack::sysctl::tree;
use weir_stack::{Device, Namespace, Stack};
use weir_tc::txq::xps;

use super::proc_net;

const NO_SUCH: Errno = Errno(libc::ENOENT);

/// What stands at `path`.
pub fn lookup(_stack: &Stack, ns: &Namespace, tree: Tree, path: &str) -> Result<Node, Errno> {
    match tree {
        Tree::Sysctl => match tree::lookup(ns, path).ok_or(NO_SUCH)? {
            tree::Node::Directory => Ok(Node::Directory),
            tree::Node::File(true) => Ok(Node::File(0o644)),
            tree::Node::File(false) => Ok(Node::File(0o444)),
            tree::Node::Trigger => Ok(Node::File(0o200)),
        },
        Tree::ProcNet => proc_net::lookup(ns, path).ok_or(NO_SUCH),
        Tree::SysClassNet => {
            let (device, attribute) = path.split_once('/').unwrap_or((path, ""));
            if path.is_empty() {
                return Ok(Node::Directory);
            }
            ns.device_by_name(device).ok_or(NO_SUCH)?;
            if attribute.is_empty() {
                return Ok(Node::Directory);
            }
            if queue_names(ns, path).is_some() {
                return Ok(Node::Directory);
            }
            if xps_queue(ns, path).is_some() {
                return Ok(Node::File(0o644));
            }
            attribute_of(ns, device, attribute).map(|_| Node::File(0o444))
        }
        Tree::SysBusNetdevsim => match path {
            "" => Ok(Node::Directory),
            _ if BUS.iter().any(|(name, _)| *name == path) => Ok(Node::File(0o200)),
            _ => Err(NO_SUCH),
        },
    }
}

/// The attributes of a device in `/sys/class/net`.
const ATTRIBUTES: &[&str] = &["address", "ifindex", "mtu", "tx_queue_len", "flags", "type"];

fn attribute_of(ns: &Namespace, device: &str, attribute: &str) -> Result<String, Errno> {
    let device = ns.device_by_name(device).ok_or(NO_SUCH)?;
    Ok(match attribute {
        "address" => {
            let octets = device.address().map(|octet| format!("{octet:02x}"));
            octets.join(":")
        }
        "ifindex" => device.ifindex().to_string(),
        "mtu" => device.mtu().to_string(),
        "tx_queue_len" => device.txqlen().to_string(),
        "flags" => format!("{:#x}", device.flags()),
        "type" => device.link.hardware_type().to_string(),
        _ => return Err(NO_SUCH),
    } + "\n")
}

/// What a write to a file of the simulated bus does.
type Store = fn(&Stack, &Arc<Namespace>, &[u8]) -> Result<(), Error>;

/// The files of the simulated bus, which are only written.
const BUS: &[(&str, Store)] = &[
    ("del_device", |stack, _, id| {
        netdevsim::del_device(stack, id)
    }),
    ("new_device", netdevsim::new_device),
];

/// The file in the folder of a transmit queue: which CPUs use it.
const XPS_CPUS: &str = "xps_cpus";

/// The device and transmit queue of `DEV/queues/tx-N/xps_cpus`.
fn xps_queue(ns: &Namespace, path: &str) -> Option<(Arc<Device>, u16)> {
    let (folder, file) = path.rsplit_once('/')?;
    let (_, queue) = folder.rsplit_once("/tx-")?;
    let there = file == XPS_CPUS && queue_names(ns, folder).is_some();
    let device = ns.device_by_name(path.split_once('/')?.0)?;
    Some((device, queue.parse().ok()?)).filter(|_| there)
}

/// A device with several transmit queues; others have no such map (`xps_cpus_show`).
fn steered(device: &Device) -> Result<&Device, Errno> {
    Some(device)
        .filter(|device| device.tx_queues() > 1)
        .ok_or(NO_SUCH)
}

/// The names in `DEV/queues`, a folder for each queue, and in those.
fn queue_names(ns: &Namespace, path: &str) -> Option<Vec<String>> {
    let (device, rest) = path.split_once('/')?;
    let rest = rest.strip_prefix("queues")?;
    let device = ns.device_by_name(device)?;
    let names = |what: &'static str, count| (0..count).map(move |n| format!("{what}-{n}"));
    let mut all = names("rx", device.rx_queues()).chain(names("tx", device.tx_queues()));
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(all.collect()),
        None => None,
        Some(queue) => {
            let files = if queue.starts_with("tx-") {
                &[XPS_CPUS][..]
            } else {
                &[]
            };
            let files = files.iter().map(|&name| name.to_owned()).collect();
            all.any(|name| name == queue).then_some(files)
        }
    }
}

/// The names in a directory.
pub fn list(_stack: &Stack, ns: &Namespace, tree: Tree, path: &str) -> Result<Vec<String>, Errno> {
    match tree {
        Tree::Sysctl => tree::list(ns, path).ok_or(NO_SUCH),
        Tree::ProcNet => proc_net::list(ns, path).ok_or(NO_SUCH),
        Tree::SysClassNet if path.is_empty() => Ok(ns
            .all_devices()
            .iter()
            .map(|device| device.name())
            .collect()),
        Tree::SysClassNet if ns.device_by_name(path).is_some() => {
            let all = ATTRIBUTES.iter().chain(&["queues"]);
            Ok(all.map(|&name| name.to_owned()).collect())
        }
        Tree::SysClassNet => queue_names(ns, path).ok_or(NO_SUCH),
        Tree::SysBusNetdevsim if path.is_empty() => {
            Ok(BUS.iter().map(|(name, _)| (*name).to_owned()).collect())
        }
        _ => Err(NO_SUCH),
    }
}

/// The content of a file.
pub fn read(stack: &Stack, ns: &Arc<Namespace>, tree: Tree, path: &str) -> Result<Vec<u8>, Errno> {
    let text = match (tree, path) {
        (Tree::Sysctl, _) => tree::read(ns, path).map_err(Errno)?,
        (Tree::ProcNet, name) => proc_net::read(stack, ns, name).ok_or(NO_SUCH)?,
        (Tree::SysClassNet, _) if let Some((device, queue)) = xps_queue(ns, path) => {
            let cpus = steered(&device)?.tc.xps_cpus(&stack.domain.pin(), queue);
            xps::shown(
                &cpus.map_err(|error| Errno(error.errno))?,
                stack.config.cpus,
            )
        }
        (Tree::SysClassNet, _) => {
            let (device, attribute) = path.split_once('/').ok_or(Errno(libc::EISDIR))?;
            attribute_of(ns, device, attribute)?
        }
        (Tree::SysBusNetdevsim, _) => return Err(Errno(libc::EACCES)),
    };
    Ok(text.into_bytes())
}

/// A write to a file.
pub fn write(
    stack: &Stack,
    ns: &Arc<Namespace>,
    tree: Tree,
    path: &str,
    value: &[u8],
) -> Result<(), Errno> {
    match tree {
        Tree::Sysctl => tree::write(stack, ns, path, value).map_err(Errno),
        Tree::SysClassNet => {
            let (device, queue) = xps_queue(ns, path).ok_or(Errno(libc::EACCES))?;
            let tc = &steered(&device)?.tc;
            let cpus = xps::parsed(value, stack.config.cpus);
            cpus.and_then(|cpus| tc.set_xps_cpus(&stack.domain.pin(), queue, &cpus))
                .map_err(|error| Errno(error.errno))
        }
        Tree::SysBusNetdevsim => {
            let store = BUS.iter().find(|(name, _)| *name == path).ok_or(NO_SUCH)?;
            store.1(stack, ns, value).map_err(|error| Errno(error.errno))
        }
        Tree::ProcNet => proc_net::write(ns, path, value),
    }
}

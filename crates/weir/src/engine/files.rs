// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The small text files of a namespace that clients read: `/proc/sys/net`, `/proc/net`,
//! `/sys/class/net`, `/sys/bus/netdevsim`.

use std::sync::Arc;

use weir_intercept::{Errno, Node, Tree};
use weir_netlink::Error;
use weir_stack::link::netdevsim;
use weir_stack::sysctl::tree;
use weir_stack::{Namespace, Stack};

use super::{modules, proc_net, sys_net};

const NO_SUCH: Errno = Errno(libc::ENOENT);

/// Looks up `path`.
pub fn lookup(stack: &Stack, ns: &Namespace, tree: Tree, path: &str) -> Result<Node, Errno> {
    match tree {
        Tree::Sysctl => match tree::lookup(ns, path).ok_or(NO_SUCH)? {
            tree::Node::Directory => Ok(Node::Directory),
            tree::Node::File(true) => Ok(Node::File(0o644)),
            tree::Node::File(false) => Ok(Node::File(0o444)),
            tree::Node::Trigger => Ok(Node::File(0o200)),
        },
        Tree::ProcNet => proc_net::lookup(ns, path).ok_or(NO_SUCH),
        Tree::SysClassNet => sys_net::lookup(stack, ns, path),
        Tree::Modules => modules::lookup(path).ok_or(NO_SUCH),
        Tree::SysBusNetdevsim => match path {
            "" => Ok(Node::Directory),
            _ if BUS.iter().any(|(name, _)| *name == path) => Ok(Node::File(0o200)),
            _ => match on_bus(stack, ns, path).ok_or(NO_SUCH)? {
                OnBus::Port(path) => sys_net::lookup(stack, ns, path),
                _ => Ok(Node::Directory),
            },
        },
    }
}

/// The handler of a write to a file of the simulated bus.
type Store = fn(&Stack, &Arc<Namespace>, &[u8]) -> Result<(), Error>;

/// The write-only files of the simulated bus.
const BUS: &[(&str, Store)] = &[
    ("del_device", |stack, _, id| {
        netdevsim::del_device(stack, id)
    }),
    ("new_device", netdevsim::new_device),
];

/// A node at or below `devices` on the simulated bus.
enum OnBus<'p> {
    /// `devices`
    Devices,
    /// `devices/netdevsimN`
    Device,
    /// `devices/netdevsimN/net`, with the names of the ports that are in the namespace.
    Ports(Vec<String>),
    /// The node of `/sys/class/net` at this path.
    Port(&'p str),
}

fn on_bus<'p>(stack: &Stack, ns: &Namespace, path: &'p str) -> Option<OnBus<'p>> {
    let Some(rest) = path.strip_prefix("devices/netdevsim") else {
        return (path == "devices").then_some(OnBus::Devices);
    };
    let (id, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let all = netdevsim::devices(stack);
    let (_, ports) = all.into_iter().find(|(known, _)| known.to_string() == id)?;
    let guard = stack.domain.pin();
    let devices = ports.iter().filter_map(|key| stack.device(*key, &guard));
    let here = devices.filter(|device| device.is_in(ns, &guard));
    let names: Vec<String> = here.map(|device| device.name()).collect();
    match rest.split_once('/') {
        None if rest.is_empty() => Some(OnBus::Device),
        None => (rest == "net").then_some(OnBus::Ports(names)),
        Some(("net", path)) => {
            let port = path.split('/').next()?;
            names
                .iter()
                .any(|name| name == port)
                .then_some(OnBus::Port(path))
        }
        Some(_) => None,
    }
}

/// Lists the names in a directory.
pub fn list(stack: &Stack, ns: &Namespace, tree: Tree, path: &str) -> Result<Vec<String>, Errno> {
    match tree {
        Tree::Sysctl => tree::list(ns, path).ok_or(NO_SUCH),
        Tree::ProcNet => proc_net::list(ns, path).ok_or(NO_SUCH),
        Tree::SysClassNet => sys_net::list(stack, ns, path),
        Tree::Modules => modules::list(path).ok_or(NO_SUCH),
        Tree::SysBusNetdevsim if path.is_empty() => {
            let files = BUS.iter().map(|(name, _)| *name);
            Ok(files.chain(["devices"]).map(str::to_owned).collect())
        }
        Tree::SysBusNetdevsim => match on_bus(stack, ns, path).ok_or(NO_SUCH)? {
            OnBus::Devices => {
                let all = netdevsim::devices(stack);
                Ok(all.iter().map(|(id, _)| format!("netdevsim{id}")).collect())
            }
            OnBus::Device => Ok(vec!["net".into()]),
            OnBus::Ports(names) => Ok(names),
            OnBus::Port(path) => sys_net::list(stack, ns, path),
        },
    }
}

/// Returns the content of a file.
pub fn read(stack: &Stack, ns: &Arc<Namespace>, tree: Tree, path: &str) -> Result<Vec<u8>, Errno> {
    let text = match (tree, path) {
        (Tree::Sysctl, _) => tree::read(ns, path).map_err(Errno)?,
        (Tree::ProcNet, name) => proc_net::read(stack, ns, name).ok_or(NO_SUCH)?,
        (Tree::SysClassNet, _) => return sys_net::read(stack, ns, path),
        (Tree::Modules, _) => return modules::read(path).ok_or(NO_SUCH),
        (Tree::SysBusNetdevsim, _) if let Some(OnBus::Port(path)) = on_bus(stack, ns, path) => {
            return sys_net::read(stack, ns, path);
        }
        (Tree::SysBusNetdevsim, _) => return Err(Errno(libc::EACCES)),
    };
    Ok(text.into_bytes())
}

/// Writes to a file.
pub fn write(
    stack: &Stack,
    ns: &Arc<Namespace>,
    tree: Tree,
    path: &str,
    value: &[u8],
) -> Result<(), Errno> {
    match tree {
        Tree::Sysctl => tree::write(stack, ns, path, value).map_err(Errno),
        Tree::SysClassNet => sys_net::write(stack, ns, path, value),
        Tree::SysBusNetdevsim if let Some(OnBus::Port(path)) = on_bus(stack, ns, path) => {
            sys_net::write(stack, ns, path, value)
        }
        Tree::SysBusNetdevsim => {
            let store = BUS.iter().find(|(name, _)| *name == path).ok_or(NO_SUCH)?;
            store.1(stack, ns, value).map_err(|error| Errno(error.errno))
        }
        Tree::ProcNet => proc_net::write(stack, ns, path, value),
        Tree::Modules => Err(Errno(libc::EACCES)),
    }
}

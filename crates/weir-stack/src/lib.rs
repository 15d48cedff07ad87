// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespaces, links, FIB, neighbours, IPv4 and IPv6, the datapath stages, and the rtnetlink and
//! generic netlink servers.
//!
//! # Lock order
//! There is no global lock around requests or packets. A thread takes locks only downwards in this
//! list, and never two locks of the same line unless the line says how:
//! 1. the bus of [`link::netdevsim`]
//! 2. `Stack::namespaces` (the table of namespaces)
//! 3. [`namespace::Namespace::links`]; for two namespaces, the lower id first
//! 4. a device's IPv4 or IPv6 addresses
//! 5. a FIB table or rule list; a neighbour table's shard; a VXLAN device's forwarding table, its
//!    namespace's list of tunnels, and their ports
//! 6. the locks of weir-tc: block, chain, classifier, action table (see its own list)
//! 7. [`device::Device::names`], the additional addresses of a device, `nsids`, `kept`
//! 8. subscribers, then a mailbox
//! 9. posted jobs, timers, the ICMP rate limits
#![deny(unsafe_code)]

mod build;

pub mod connection;
pub mod datapath;
pub mod genl;
pub mod rtnl;
pub mod sysctl;
pub mod tc;

pub use weir_core::{
    clock, conf, cpu, device, drops, kind, layers, measure, namespace, netdev, notify, nsid, parts,
    random, request, stack, stages, trace, wire,
};
pub use weir_inet::{addresses, fib, icmp_limit, ipv4, ipv6, listen, mib, neigh, settings, udp};
pub use weir_link as link;

pub use build::{LAYERS, build};
pub use connection::{Connection, Protocol};
pub use cpu::{Cpu, Cx};
pub use device::Device;
pub use namespace::{Namespace, NsId};
pub use stack::{Config, Stack};

/// The page about embedding, whose program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Embedding;

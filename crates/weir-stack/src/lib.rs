// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespaces, links, FIB, neighbours, IPv4 and IPv6, the datapath stages, and the rtnetlink and
//! generic netlink servers, and netfilter's for connections.
//!
//! # Lock order
//! There is no global lock around requests or packets. [`weir_sync::order`] is the table of the
//! engine's locks, from the bus of netdevsim down to the timers: a thread takes locks only downwards
//! in it, and never two of one rank unless the class nests. Debug builds check this.
#![deny(unsafe_code)]

mod build;

pub mod connection;
pub mod datapath;
pub mod diag;
pub mod genl;
pub mod nfnl;
pub mod rtnl;
pub mod sysctl;
pub mod tc;

pub use weir_core::{
    clock, conf, cpu, device, drops, ethtool, features, kind, layers, measure, name, namespace,
    netdev, notify, nsid, parts, random, raw, request, stack, stages, steer, taken, trace, wire,
};
pub use weir_inet::{
    addresses, autojoin, defrag, fib, fragments, icmp_limit, ipv4, ipv6, listen, mib, mpls,
    multicast, neigh, protocols, settings, sockets, udp,
};
pub use weir_link as link;
pub use weir_socket as socket;

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

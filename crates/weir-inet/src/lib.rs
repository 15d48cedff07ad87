// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routing, neighbours and the protocols of the internet: [`settings`], [`fib`] and [`neigh`] are the lower floor, [`ipv4`],
//! [`ipv6`] and what they share the upper one.
//!
//! The protocols register their receive functions for EtherTypes, resolve neighbours for [`neigh`], and tell listeners of
//! routes, neighbours, addresses and settings ([`fib::host`], [`neigh`], [`listen`]). The lock order is in
//! [`weir_sync::order`].
#![deny(unsafe_code)]

pub mod addresses;
pub mod autojoin;
mod chatter;
pub mod defrag;
pub mod fib;
pub mod fragments;
pub mod icmp_limit;
pub mod ipv4;
pub mod ipv6;
pub mod l3mdev;
mod link_groups;
pub mod listen;
pub mod mib;
pub mod mpls;
pub mod multicast;
pub mod neigh;
pub mod protocols;
mod segments;
pub mod settings;
mod sketch;
pub mod sockets;
mod straight;
pub mod udp;

pub(crate) use weir_core::{
    clock, conf, cpu, device, drops, kind, layers, namespace, parts, random, slots, stack, stages,
    taken, trace,
};

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link kinds: one file each, and one line in [`KINDS`].
//!
//! A [`Kind`] says how to make a device from `IFLA_INFO_DATA`, a [`Link`] is the device's own part. The life
//! of a device that all kinds share is the core's ([`weir_core::netdev`]).
#![deny(unsafe_code)]

use std::sync::Arc;

use weir_core::layers::{Module, NamespaceEvent};
use weir_core::namespace::Namespace;
use weir_core::stack::Stack;

pub mod answer;
pub mod bond;
pub mod bridge;
pub mod dummy;
pub mod geneve;
pub mod gre;
pub mod ifb;
pub mod ip6gre;
pub mod ip6tnl;
pub mod ipip;
pub mod ipvlan;
pub mod loopback;
pub mod macvlan;
pub mod netdevsim;
pub mod nlmon;
pub mod sit;
pub mod tun;
pub mod tunnel;
pub mod tunnel_ioctl;
pub mod veth;
pub mod vlan;
pub mod vrf;
pub mod vxlan;

use weir_core::{
    clock, cpu, device, drops, ethtool, features, kind, layers, namespace, notify, nsid, parts,
    random, request, stack, taken,
};
use weir_inet::{fib, ipv4, ipv6, neigh, protocols, settings, sockets, udp};

pub use weir_core::kind::{Create, Kind, Link, NewLink, Port};
pub use weir_core::netdev::*;
pub use weir_core::wire::{RxHandler, Wire};

/// The link kinds that `ip link add type KIND` accepts, one line each.
pub static KINDS: &[&Kind] = &[
    &bond::KIND,
    &bridge::KIND,
    &dummy::KIND,
    &gre::erspan::KIND,
    &geneve::KIND,
    &gre::KIND,
    &gre::TAP_KIND,
    &ifb::KIND,
    &ip6gre::erspan::KIND,
    &ip6gre::KIND,
    &ip6gre::TAP_KIND,
    &ip6tnl::KIND,
    &ipip::KIND,
    &ipvlan::KIND,
    &macvlan::KIND,
    &netdevsim::KIND,
    &nlmon::KIND,
    &sit::KIND,
    &tun::KIND,
    &veth::KIND,
    &vlan::KIND,
    &vrf::KIND,
    &vxlan::KIND,
];

/// The devices that are there without a request.
pub static MODULE: Module = Module {
    namespace_event: Some(namespace_event),
    ..Module::NONE
};

fn namespace_event(stack: &Stack, ns: &Arc<Namespace>, event: NamespaceEvent) {
    match event {
        NamespaceEvent::Made => loopback::add(stack, ns),
        NamespaceEvent::Closing => netdevsim::leave(stack, ns),
        NamespaceEvent::Emptied => {}
    }
}

/// Finds a kind by name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

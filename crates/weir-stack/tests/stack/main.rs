// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the stack through its public API, in one program, since each program links the whole stack.

mod address;
mod advertised;
mod bond;
mod bridge;
mod bridge_vlan;
mod delete_namespace;
mod dying;
mod early_drop;
mod fragments;
mod full_device;
mod handles;
mod ipv4;
mod ipv6;
mod ipvlan;
mod macvlan;
mod many_devices;
mod netdevsim;
mod nexthop;
mod nlmon;
mod offload;
mod redirected;
mod steer;
mod straight;
mod tcp_metrics;
mod too_long;
mod transmit;
mod tunnels;
mod unread;
mod unused_namespaces;
mod vrf;
#[path = "../world/mod.rs"]
mod world;

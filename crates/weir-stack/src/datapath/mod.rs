// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path of a packet outside layer 3: in through a device ([`receive`]) and out ([`transmit`]).
//!
//! ```text
//! receive: frame checks -> merging -> steering -> observers -> ingress filters -> VLAN device
//!          -> IPv4 | IPv6 | ARP
//! transmit: egress filters -> splitting -> qdisc -> the wire or the kind's transmit, observers
//! ```
//!
//! Each stage is a function over a batch. Packets that a stage removes from the batch are dropped
//! with a reason, consumed, or passed to another device. Mirrors `__netif_receive_skb_core` and
//! `__dev_queue_xmit` of `net/core/dev.c`.

pub mod conntrack;
pub mod early;
mod filter;
mod fragments;
mod offload;
mod queue;
mod receive;
mod transmit;

pub use crate::{measure, raw};
pub use early::EarlyDrop;
pub use offload::split_all;
pub use queue::{completed, rearm_all, restart, run_queue, wake_queue};
pub use receive::{
    receive, receive_all, receive_classified, receive_frames, resume, steered, unhandled,
};
pub use transmit::{send_on_wire, transmit, transmit_all};

/// Returns the kind of a device's root qdisc (`IFLA_QDISC`).
pub fn root_qdisc(device: &crate::device::Device, _guard: &weir_sync::rcu::Guard) -> String {
    device.tc.root_kind().into()
}

/// Fills in the device properties that filters and actions need.
fn describe<'a>(
    device: &'a crate::device::Device,
    guard: &'a weir_sync::rcu::Guard,
    tc: &mut weir_tc::Context<'a, '_>,
) {
    tc.at(device);
    let net = &device.namespace(guard).tc;
    tc.conntrack = net.conntrack_if_used().map(|conntrack| &**conntrack);
    tc.looks_up = net.looks_up();
    tc.tx_queues = weir_tc::Device::tx_queues(device);
    tc.ethernet = device.link.hardware_type() == weir_netlink::ifla::arphrd::ETHER;
}

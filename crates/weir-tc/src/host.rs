// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What traffic control needs from the stack it runs in: devices, listeners, time.
//!
//! Nothing here knows of namespaces or IP. A [`Host`] stands for one network namespace as a request
//! sees it; a [`Device`] for a network device, wherever it is.

use std::sync::Arc;

use crate::device::DeviceTc;
use crate::psample::Hearers;

/// A network device, as traffic control sees it (`struct net_device`).
///
/// The getters are read on the data path: relaxed loads, no locks (but for [`name`](Self::name)).
pub trait Device: Send + Sync + 'static {
    /// Names the device for as long as the stack lives.
    fn key(&self) -> u64;
    /// Index in its namespace.
    fn ifindex(&self) -> u32;
    /// Name in its namespace.
    fn name(&self) -> String;
    /// Whether frames may be sent to it.
    fn is_running(&self) -> bool;
    /// Administratively up (`IFF_UP`).
    fn is_up(&self) -> bool;
    /// Registered, and about to stay in its namespace; `false` forever once it is gone.
    fn is_registered(&self) -> bool;
    /// Octets of the largest network packet.
    fn mtu(&self) -> u32;
    /// Its link-layer address.
    fn address(&self) -> [u8; 6];
    /// Octets of the link-layer header (`hard_header_len`).
    fn header_len(&self) -> u32 {
        14
    }
    /// `tx_queue_len`, packets.
    fn tx_queue_len(&self) -> u32;
    /// Transmit queues it was made with.
    fn tx_queues(&self) -> u32 {
        1
    }
    /// Bits a second its link carries, in units of 10^6 (`ethtool_link_ksettings.base.speed`), if it says.
    fn speed(&self) -> Option<u32> {
        None
    }
    /// Whether its driver is asked for work in hardware (`ndo_setup_tc`), which it refuses.
    fn has_offload_hook(&self) -> bool {
        false
    }
    /// Octets of the largest MTU it can be given; 0 knows no bound.
    fn max_mtu(&self) -> u32 {
        0
    }
    /// Whether it has no queue of its own while it is up (`IFF_NO_QUEUE`).
    fn no_queue(&self) -> bool {
        true
    }
    /// Its qdiscs and filters.
    fn tc(&self) -> &DeviceTc;
}

/// The namespace a request was made in.
pub trait Host {
    /// The device with an index.
    fn device(&self, ifindex: u32) -> Option<Arc<dyn Device>>;
    /// The same, without holding it: for every request, so that they do not meet at its count.
    fn device_ref(&self, ifindex: u32) -> Option<&dyn Device>;
    /// Whether a device stays here.
    fn has(&self, device: &dyn Device) -> bool {
        // In this order: one that has just been moved away is registered, but not here.
        let here = || self.device_ref(device.ifindex());
        device.is_registered() && here().is_some_and(|here| here.key() == device.key())
    }
    /// The device with a name.
    fn device_by_name(&self, name: &str) -> Option<Arc<dyn Device>>;
    /// The first device, in the order of dumps, with an index above `after`.
    fn next_device(&self, after: u32) -> Option<Arc<dyn Device>>;
    /// Whether anybody hears the multicast group (`RTNLGRP_*`); messages nobody hears are not built.
    fn listening(&self, group: u32) -> bool;
    /// Sends a message to all that hear the group, but for the socket with port id `except`.
    fn notify(&self, group: u32, message: &[u8], except: Option<u32>);
    /// Nanoseconds of the stack's clock.
    fn now(&self) -> u64;
    /// The qdisc that devices with a queue of their own begin with (`net.core.default_qdisc`).
    fn default_qdisc(&self) -> &'static str {
        "pfifo_fast"
    }
    /// Nanoseconds since 1970 at the start of the stack's clock.
    fn epoch(&self) -> u64;
    /// The namespace's sockets of generic netlink.
    fn generic(&self) -> Arc<dyn Hearers>;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface to the stack that traffic control runs in: devices, listeners, time.
//!
//! This crate knows nothing of namespaces or IP. A [`Host`] stands for one network namespace as a
//! request sees it; a [`Device`] for a network device, wherever it is.

use std::sync::Arc;

use crate::device::DeviceTc;
use crate::psample::Hearers;

/// A network device from the point of view of traffic control (`struct net_device`).
///
/// The data path calls the getters: they are relaxed loads without locks, except
/// [`name`](Self::name).
pub trait Device: Send + Sync + 'static {
    /// Returns a number that identifies the device for as long as the stack lives.
    fn key(&self) -> u64;
    /// Returns the index in its namespace.
    fn ifindex(&self) -> u32;
    /// Returns the name in its namespace.
    fn name(&self) -> String;
    /// Returns whether frames may be sent to the device.
    fn is_running(&self) -> bool;
    /// Returns whether the device is administratively up (`IFF_UP`).
    fn is_up(&self) -> bool;
    /// Returns whether the device is registered and is not about to leave its namespace. Stays
    /// `false` once the device is gone.
    fn is_registered(&self) -> bool;
    /// Returns the size of the largest network packet in bytes.
    fn mtu(&self) -> u32;
    /// Returns the link-layer address.
    fn address(&self) -> [u8; 6];
    /// Returns the size of the link-layer header in bytes (`hard_header_len`).
    fn header_len(&self) -> u32 {
        14
    }
    /// Returns `tx_queue_len` in packets.
    fn tx_queue_len(&self) -> u32;
    /// Returns the number of transmit queues the device was created with.
    fn tx_queues(&self) -> u32 {
        1
    }
    /// Returns the number of transmit queues in use (`real_num_tx_queues`).
    fn used_tx_queues(&self) -> u32 {
        self.tx_queues()
    }
    /// Returns the link speed in Mbit/s, if known (`ethtool_link_ksettings.base.speed`).
    fn speed(&self) -> Option<u32> {
        None
    }
    /// Returns whether the device has an offload hook (`ndo_setup_tc`). The hook refuses all
    /// requests.
    fn has_offload_hook(&self) -> bool {
        false
    }
    /// Returns the largest MTU that can be set, in bytes; 0 means no limit.
    fn max_mtu(&self) -> u32 {
        0
    }
    /// Returns whether the device has no queue by default (`IFF_NO_QUEUE`).
    fn no_queue(&self) -> bool {
        true
    }
    /// Returns the device's qdiscs and filters.
    fn tc(&self) -> &DeviceTc;
}

/// The namespace a request was made in.
pub trait Host {
    /// Returns the device with an index.
    fn device(&self, ifindex: u32) -> Option<Arc<dyn Device>>;
    /// Returns the device with an index without taking a reference. Every request does this, and
    /// requests on several CPUs should not contend for the reference count.
    fn device_ref(&self, ifindex: u32) -> Option<&dyn Device>;
    /// Returns whether a device is in this namespace and stays there.
    fn has(&self, device: &dyn Device) -> bool {
        // The order matters: a device that has just been moved away is registered, but not found
        // here.
        let here = || self.device_ref(device.ifindex());
        device.is_registered() && here().is_some_and(|here| here.key() == device.key())
    }
    /// Returns the device with a name.
    fn device_by_name(&self, name: &str) -> Option<Arc<dyn Device>>;
    /// Returns the first device, in the order of dumps, with an index above `after`.
    fn next_device(&self, after: u32) -> Option<Arc<dyn Device>>;
    /// Returns whether anybody listens to the multicast group (`RTNLGRP_*`). Messages without
    /// listeners are not built.
    fn listening(&self, group: u32) -> bool;
    /// Sends a message to all listeners of the group, except for the socket with port id `except`.
    fn notify(&self, group: u32, message: &[u8], except: Option<u32>);
    /// Returns the time of the stack's clock in nanoseconds.
    fn now(&self) -> u64;
    /// Returns the default qdisc of devices that have a queue (`net.core.default_qdisc`).
    fn default_qdisc(&self) -> &'static str {
        "pfifo_fast"
    }
    /// Returns the start of the stack's clock, in nanoseconds since 1970.
    fn epoch(&self) -> u64;
    /// Returns the namespace's generic netlink sockets.
    fn generic(&self) -> Arc<dyn Hearers>;
}

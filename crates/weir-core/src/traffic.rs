// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices and sockets as traffic control sees them.

use weir_tc::psample::Hearers;

use crate::device::Device;
use crate::notify::Subscribers;

impl weir_tc::Device for Device {
    fn key(&self) -> u64 {
        u64::from(self.key.0)
    }

    fn ifindex(&self) -> u32 {
        Device::ifindex(self)
    }

    fn name(&self) -> String {
        Device::name(self)
    }

    /// Ignores the carrier: without one, the qdisc drops packets.
    fn is_running(&self) -> bool {
        self.is_up()
    }

    fn is_up(&self) -> bool {
        Device::is_up(self)
    }

    fn is_registered(&self) -> bool {
        Device::is_registered(self) && !self.is_leaving()
    }

    fn mtu(&self) -> u32 {
        Device::mtu(self)
    }

    fn address(&self) -> [u8; 6] {
        Device::address(self)
    }

    fn tx_queue_len(&self) -> u32 {
        self.txqlen()
    }

    fn tx_queues(&self) -> u32 {
        Device::tx_queues(self)
    }

    fn used_tx_queues(&self) -> u32 {
        self.used_queues().0
    }

    fn speed(&self) -> Option<u32> {
        self.link.speed()
    }

    fn has_offload_hook(&self) -> bool {
        self.link.has_offload_hook()
    }

    fn max_mtu(&self) -> u32 {
        self.link.mtu_bounds().1
    }

    fn no_queue(&self) -> bool {
        self.link.no_queue() && !self.has_wire()
    }

    fn tc(&self) -> &weir_tc::DeviceTc {
        &self.tc
    }
}

impl Hearers for Subscribers {
    fn listening(&self, group: u32) -> bool {
        self.anybody(group)
    }

    fn tell(&self, group: u32, message: &[u8]) {
        self.notify(group, message, None);
    }
}

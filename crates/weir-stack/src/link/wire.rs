// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an embedding program puts behind a device ([`Device::connect`]): a socket, a ring, a line with a
//! rate. Unlike a link kind it may have no room.

use std::sync::Arc;

use weir_packet::Packet;

use crate::cpu::Cx;
use crate::device::Device;

/// Takes what leaves a device (the driver's part of `ndo_start_xmit`).
pub trait Wire: Send + Sync {
    /// Takes frames of transmit queue `queue`, from the first on, as many as there is room for, by copying
    /// them; answers how many. When there is room again after it took fewer than all,
    /// [`wake_queue`](crate::datapath::wake_queue) has to be called. The device is up. Called by one CPU at a
    /// time for each qdisc, for one transmit queue or all of them; under `noqueue`, where what finds no room is
    /// dropped, by any.
    fn transmit(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        queue: u16,
        frames: &[Packet],
    ) -> usize;

    /// Whether it tells what has left it ([`completed`](crate::datapath::completed)): then the device is
    /// given no more at once than it needs to be busy (byte queue limits).
    fn completes(&self) -> bool {
        false
    }
}

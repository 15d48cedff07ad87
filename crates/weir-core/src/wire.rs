// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit backend that an embedding program attaches to a device ([`Device::connect`]): a
//! socket, a ring, a rate-limited line. Unlike a link kind, it may run out of room.

use std::sync::Arc;

use weir_packet::{Batch, LongPackets, Packet};

use crate::cpu::Cx;
use crate::device::Device;

/// Takes the outgoing frames of a device (the driver's part of `ndo_start_xmit`).
pub trait Wire: Send + Sync {
    /// Takes frames of transmit queue `queue` in order, as many as there is room for, by copying
    /// them. Returns how many it took. If it took fewer than all,
    /// `datapath::wake_queue` must be called once there is room again. The
    /// device is up. One CPU at a time calls this for a qdisc, which covers one transmit queue or
    /// all of them. Under `noqueue`, any CPU may call it concurrently, and frames without room are
    /// dropped.
    fn transmit(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        queue: u16,
        frames: &[Packet],
    ) -> usize;

    /// Does the same, and removes the frames that it takes from `frames`. A wire that can keep their packets need
    /// not copy them. It calls `goes` with all frames that it takes, in order and perhaps in parts, before it
    /// changes them or gives them away: observers and counters see them then. By default it copies the frames by
    /// [`transmit`](Self::transmit) and then frees them.
    fn take(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        queue: u16,
        frames: &mut Batch,
        goes: &mut dyn FnMut(&Cx<'_>, &[Packet]),
    ) -> usize {
        let taken = self.transmit(cx, device, queue, frames.as_slice());
        let taken = taken.min(frames.len());
        goes(cx, frames.get(..taken).unwrap_or_default());
        let mut spent = Batch::new();
        frames.move_first(taken, &mut spent);
        cx.consume_batch(spent);
        taken
    }

    /// Returns the long packets that the wire takes as they are. Others are split before the qdisc.
    fn long_packets(&self) -> LongPackets {
        LongPackets::NONE
    }

    /// Returns whether the wire reports transmitted frames with
    /// `datapath::completed`. The device is then given no more bytes at once
    /// than it needs to stay busy (byte queue limits).
    fn completes(&self) -> bool {
        false
    }
}

/// Takes the frames that a device receives, in place of layer 3 (`rx_handler` of `net/core/dev.c`).
/// Ingress filters come first, and frames of a VLAN that has a device go to that device. A device has at
/// most one handler.
pub trait RxHandler: Send + Sync {
    /// Consumes or drops every frame of the batch, or passes it on to layer 3
    /// ([`Path::unhandled`](crate::layers::Path)). Frames begin at their Ethernet header; an
    /// accelerated VLAN tag is in their metadata. Called by any CPU.
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch);

    /// Returns the handler to the link kind that it belongs to, if the kind asks for it (`rx_handler_data`).
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// Returns the long packets that the handler takes as they are. Others are split before.
    fn long_packets(&self) -> LongPackets {
        LongPackets::NONE
    }
}

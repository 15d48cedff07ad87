// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long packets (GSO) where layer 3 needs packets of the wire.

use weir_packet::offload::segment_packet;
use weir_packet::{DropReason, Packet};

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;

/// Splits a long packet, which begins at its network header, and passes on each segment. A packet that cannot be
/// split, or for which there is no memory, is dropped and counted at the device.
#[cold]
pub fn each(
    cx: &mut Cx<'_>,
    device: &Device,
    place: Place,
    packet: Packet,
    mut next: impl FnMut(&mut Cx<'_>, Packet),
) {
    let mut segments = Vec::new();
    let whole = {
        let mut cache = cx.state.cache.borrow_mut();
        segment_packet(&packet, &mut cache, |segment| segments.push(segment))
    };
    if !whole {
        return cx.drop(device, place, DropReason::SKB_GSO_SEG, packet);
    }
    for mut segment in segments {
        cx.stack.trace.copied(&mut segment);
        next(cx, segment);
    }
    cx.consume(packet);
}

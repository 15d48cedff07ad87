// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transmit: from layer 3, or a redirecting action, to the device (`__dev_queue_xmit`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason};

use crate::cpu::Cx;
use crate::device::{Device, Direction};
use crate::drops::Place;
use crate::stages::Stage;

/// Transmits that may be nested on one CPU (`XMIT_RECURSION_LIMIT`).
const RECURSION_LIMIT: u32 = 8;

/// Sends frames that begin with a link-layer header: egress filters, then the qdisc.
pub fn transmit(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    cx.state.stages.start();
    if !device.is_up() {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    if cx.state.transmit_depth >= RECURSION_LIMIT {
        return cx.drop_batch(device, Place::Transmit, DropReason::RECURSION_LIMIT, batch);
    }
    cx.state.transmit_depth += 1;
    let (batch, chosen) = super::filter::egress(cx, device, batch);
    if !batch.is_empty() {
        super::queue::enqueue(cx, device, batch, chosen);
    }
    cx.state.transmit_depth -= 1;
}

/// The last step: observers, counters, the kind's transmit (`dev_hard_start_xmit`).
pub fn send_on_wire(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    if !device.is_up() {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    let (count, octets) = (batch.len(), batch.bytes());
    super::receive::observe(cx, device, Direction::Tx, &batch);
    if !device.link.counts_itself() {
        let stats = device.stats(cx.state.id);
        stats.tx_packets.fetch_add(count as u64, Relaxed);
        stats.tx_bytes.fetch_add(octets, Relaxed);
    }
    device.link.transmit(cx, device, batch);
    cx.state.stages.end(Stage::Transmit, count);
}

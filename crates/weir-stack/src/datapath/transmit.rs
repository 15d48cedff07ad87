// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit path, from layer 3 or a redirecting action to the device (`__dev_queue_xmit`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason};

use crate::cpu::Cx;
use crate::device::{Device, Direction};
use crate::drops::Place;
use crate::stages::Stage;
use crate::trace::Step;
use crate::wire::Wire;

/// The maximum nesting depth of transmits on one CPU (`XMIT_RECURSION_LIMIT`).
const RECURSION_LIMIT: u32 = 8;

/// Sends frames that begin with a link-layer header through the egress filters and the qdisc.
pub fn transmit(cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
    cx.state.stages.start();
    if !device.is_up() {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    if cx.state.transmit_depth >= RECURSION_LIMIT {
        return cx.drop_batch(device, Place::Transmit, DropReason::RECURSION_LIMIT, batch);
    }
    let trace = &cx.stack.trace;
    trace.steps(device, cx.now, batch.iter_mut(), Step::Transmit);
    cx.state.transmit_depth += 1;
    let (batch, chosen) = super::filter::egress(cx, device, batch);
    if !batch.is_empty() {
        super::offload::split(cx, device, batch, chosen, super::queue::enqueue);
    }
    cx.state.transmit_depth -= 1;
}

/// Performs the last step: observers, counters, the wire or the kind's transmit
/// (`dev_hard_start_xmit`). Returns the packets the device had no room for.
pub fn send_on_wire(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) -> Batch {
    if !device.is_up() {
        cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        return Batch::new();
    }
    let (count, guard) = (batch.len(), cx.guard);
    let mut rest = Batch::new();
    match device.wire(guard) {
        Some(wire) => rest = onto(cx, device, &**wire, batch),
        None => {
            goes(cx, device, &batch);
            device.link.transmit(cx, device, batch);
        }
    }
    cx.state.stages.end(Stage::Transmit, count);
    rest
}

/// Shows frames that leave the device to the observers and counts them.
fn goes(cx: &Cx<'_>, device: &Device, batch: &Batch) {
    if cx.stack.trace.follows() {
        for packet in batch.iter() {
            cx.stack.trace.step(device, cx.now, packet, Step::Sent);
        }
    }
    super::receive::observe(cx, device, Direction::Tx, batch);
    if !device.link.counts_itself() {
        let stats = device.stats(cx.state.id);
        stats.tx_packets.fetch_add(batch.len() as u64, Relaxed);
        stats.tx_bytes.fetch_add(batch.bytes(), Relaxed);
    }
}

/// Passes frames to a wire in order until one of its queues is full. Returns the rest.
fn onto(cx: &mut Cx<'_>, device: &Arc<Device>, wire: &dyn Wire, mut batch: Batch) -> Batch {
    while let Some(queue) = batch.first().map(|packet| packet.queue) {
        let tx = device.tx.get(usize::from(queue));
        // A qdisc that spans several queues does not know which of them its packets will use.
        let Some(tx) = tx.filter(|tx| tx.gate.room(wire.completes()).is_some()) else {
            return batch;
        };
        let run = batch.iter().take_while(|packet| packet.queue == queue);
        let run = run.count();
        let frames = batch.as_slice().get(..run).unwrap_or_default();
        let mut octets = 0;
        let taken = tx.gate.pass(run, |gone| {
            let frames = frames.get(gone..).unwrap_or_default();
            let taken = wire.transmit(cx, device, queue, frames);
            let lens = frames.iter().take(taken).map(|packet| packet.len() as u32);
            octets += lens.sum::<u32>();
            taken.min(frames.len())
        });
        if wire.completes() && taken > 0 {
            tx.gate.sent(octets);
        }
        let mut sent = Batch::new();
        let mut rest = Batch::new();
        for (n, packet) in batch.drain().enumerate() {
            // There is room: both batches together are no larger than the original one.
            let _ = if n < taken { &mut sent } else { &mut rest }.push(packet);
        }
        goes(cx, device, &sent);
        cx.consume_batch(sent);
        if taken < run {
            return rest;
        }
        batch = rest;
    }
    batch
}

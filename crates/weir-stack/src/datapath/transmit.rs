// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transmit path, from layer 3 or a redirecting action to the device (`__dev_queue_xmit`).

use std::sync::Arc;

use weir_packet::{Batch, DropReason, Packet};

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
    transmit_all(cx, device, &mut batch);
}

/// Does the same and leaves the batch empty.
pub fn transmit_all(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    cx.state.stages.start();
    if !device.is_up() {
        return cx.drop_all(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    if cx.state.transmit_depth >= RECURSION_LIMIT {
        return cx.drop_all(device, Place::Transmit, DropReason::RECURSION_LIMIT, batch);
    }
    let trace = &cx.stack.trace;
    trace.steps(device, cx.now, batch.iter_mut(), Step::Transmit);
    cx.state.transmit_depth += 1;
    let chosen = super::filter::egress(cx, device, batch);
    if !batch.is_empty() {
        super::offload::split(cx, device, batch, chosen, super::queue::enqueue);
    }
    cx.state.transmit_depth -= 1;
}

/// Performs the last step: observers, counters, the wire or the kind's transmit
/// (`dev_hard_start_xmit`). Leaves the packets the device had no room for in the batch.
pub fn send_on_wire(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    if !device.is_up() {
        return cx.drop_all(device, Place::Transmit, DropReason::DEV_READY, batch);
    }
    let (count, guard) = (batch.len(), cx.guard);
    match device.wire(guard) {
        Some(wire) => onto(cx, device, &**wire, batch),
        None => {
            goes(cx, device, batch);
            device.link.transmit(cx, device, batch.take());
        }
    }
    cx.state.stages.end(Stage::Transmit, count);
}

/// Shows frames that leave the device to the observers and counts them.
fn goes(cx: &Cx<'_>, device: &Device, frames: &[Packet]) {
    if cx.stack.trace.follows() {
        for packet in frames {
            cx.stack.trace.step(device, cx.now, packet, Step::Sent);
        }
    }
    super::receive::observe(cx, device, Direction::Tx, frames);
    if !device.link.counts_itself() {
        let stats = device.stats(cx.state.id);
        let octets = frames.iter().map(|packet| packet.len() as u64);
        stats.count_sent(frames.len() as u64, octets.sum());
    }
}

/// Passes frames to a wire in order until one of its queues is full. Leaves the rest in the batch.
fn onto(cx: &mut Cx<'_>, device: &Arc<Device>, wire: &dyn Wire, batch: &mut Batch) {
    while let Some(queue) = batch.first().map(|packet| packet.queue) {
        let tx = device.tx(queue);
        // A qdisc that spans several queues does not know which of them its packets will use.
        let Some(tx) = tx.filter(|tx| tx.gate.room(wire.completes()).is_some()) else {
            return;
        };
        let run = batch.iter().take_while(|packet| packet.queue == queue);
        let run = run.count();
        let mut frames = Batch::new();
        batch.move_first(run, &mut frames);
        let mut octets = 0;
        let taken = tx.gate.pass(run, |_| {
            wire.take(cx, device, queue, &mut frames, &mut |cx, sent| {
                octets += sent.iter().map(|packet| packet.len() as u32).sum::<u32>();
                goes(cx, device, sent);
            })
        });
        if wire.completes() && taken > 0 {
            tx.gate.sent(octets);
        }
        if !frames.is_empty() {
            batch.move_to(&mut frames);
            *batch = frames;
            return;
        }
    }
}

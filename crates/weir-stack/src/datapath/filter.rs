// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters at the edges of a device: applies the verdicts of weir-tc to packets
//! (`sch_handle_ingress`, `sch_handle_egress`).

use std::sync::Arc;

use weir_packet::{Batch, DropReason, Packet};
use weir_tc::{Context, Copy, Received, Target, Whole};

use super::fragments::{self, Reassembled};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::stages::Stage;
use crate::trace::Step;

/// Runs the ingress filters. Leaves the packets that continue to layer 3 in the batch. With the batch comes what is
/// known of it. Returns whether there are filters, which may have changed the packets.
#[inline]
pub fn ingress(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: &mut Batch,
    received: Option<Received>,
) -> bool {
    let filters = device.tc.has_ingress();
    if filters {
        run(cx, device, batch, (true, received));
    }
    filters
}

/// Runs the egress filters. Leaves the packets that continue to the qdisc in the batch, and returns a bitmap of those
/// whose transmit queue has already been selected.
#[inline]
pub fn egress(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) -> u64 {
    match device.tc.has_egress() {
        true => run(cx, device, batch, (false, None)),
        false => 0,
    }
}

fn run(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    batch: &mut Batch,
    (ingress, received): (bool, Option<Received>),
) -> u64 {
    let count = batch.len();
    let mut work = cx.state.filters.take().unwrap_or_default();
    let mut sent = cx.state.spare.pop().unwrap_or_default();
    let mut chosen = 0;
    let reassembled = Reassembled::default();
    let whole;
    {
        let (seed, guard) = (cx.stack.config.seed, cx.guard);
        let mut random = || device.draw(seed, guard);
        let now = cx.now;
        let note = |packet: &mut Packet, text| cx.stack.trace.note(device, now, packet, text);
        let on_the_way = &*cx;
        let defragment = |packet: &mut Packet, zone| {
            fragments::defragment(on_the_way, device, (packet, zone), &reassembled)
        };
        let mut tc = Context::new(
            guard,
            cx.state.id,
            cx.now,
            device.ifindex(),
            &mut random,
            &mut sent,
        );
        super::describe(device, guard, &mut tc);
        tc.memory(&cx.state.cache);
        if cx.stack.trace.is_on() {
            tc.trace(&note);
        }
        tc.defragment = Some(&defragment);
        let (lookup, ended) = (&mut work.lookup, &mut work.ended);
        lookup.time(cx.state.stages.is_timed());
        if ingress {
            device
                .tc
                .ingress_batch(&mut tc, lookup, (batch, received), ended);
        } else {
            chosen = device.tc.egress_batch(&mut tc, lookup, batch, ended);
        }
        whole = tc.whole.take();
    }
    if !reassembled.is_empty() {
        sent = fragments::split(cx, sent, &reassembled, ingress);
    }
    if let Some(table) = device.namespace(cx.guard).tc.conntrack_if_used() {
        super::conntrack::watch(cx.stack, table, cx.now);
    }
    let (place, stage) = if ingress {
        (Place::Ingress, Stage::Ingress)
    } else {
        (Place::Egress, Stage::Egress)
    };
    for copy in sent.iter_mut().filter(|copy| !copy.itself) {
        cx.stack.trace.copied(&mut copy.packet);
    }
    match whole {
        Some(Whole::Dropped(reason)) => cx.drop_all(device, place, reason, batch),
        Some(Whole::Consumed) => cx.free_all(batch),
        _ if work.ended.is_empty() => {}
        _ => cx.end_all(device, place, work.ended.drain(..)),
    }
    let (dissected, cycles) = work.lookup.take_dissected();
    if dissected > 0 {
        let stages = &cx.state.stages;
        stages.carve(Stage::Dissect, dissected as usize, cycles);
    }
    cx.state.filters = Some(work);
    cx.state.stages.end(stage, count);
    forward(cx, sent);
    if let Some(Whole::Redirected(target)) = whole {
        hand_over(cx, target, batch);
    }
    chosen
}

/// Passes redirected and mirrored packets on, in order and in as few batches as possible. Keeps
/// their empty list for reuse.
pub(super) fn forward(cx: &mut Cx<'_>, mut sent: Vec<Copy>) {
    let mut batch = Batch::new();
    let mut to: Option<Target> = None;
    for Copy { packet, target, .. } in sent.drain(..) {
        if let Some(before) = to
            && (before != target || batch.is_full())
        {
            hand_over(cx, before, &mut batch);
        }
        to = Some(target);
        // There is room: a full batch has just been flushed.
        let _ = batch.push(packet);
    }
    if let Some(target) = to {
        hand_over(cx, target, &mut batch);
    }
    cx.state.spare.push(sent);
}

/// Passes packets to their target device, to be received or transmitted by it. Leaves the batch empty.
fn hand_over(cx: &mut Cx<'_>, target: Target, batch: &mut Batch) {
    let device = u32::try_from(target.device).ok();
    let Some(device) = device.and_then(|key| cx.device(DeviceKey(key))) else {
        // The device, and its counters with it, was removed just now.
        let (place, reason) = (Place::Backlog, DropReason::DEV_READY);
        cx.stack.gone.count(place, reason, batch.len() as u64);
        return cx.consume_batch(batch.take());
    };
    let device = device.clone();
    for packet in batch.iter_mut() {
        packet.dev = device.key.0;
        if target.ingress {
            packet.iif = device.ifindex();
        }
    }
    let step = Step::Redirected(target.ingress);
    let trace = &cx.stack.trace;
    trace.steps(&device, cx.now, batch.iter_mut(), step);
    if device.is_bare() {
        // The device expects data that begin at the network header (`tcf_mirred_act`).
        for packet in batch.iter_mut() {
            let _ = packet.data_to_network();
            packet.reset_mac();
        }
    }
    if target.ingress {
        cx.receive_redirected(&device, batch.take());
    } else {
        super::transmit::transmit_all(cx, &device, batch);
    }
}

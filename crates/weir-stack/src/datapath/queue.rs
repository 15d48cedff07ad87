// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qdisc between transmit and the device (`__dev_xmit_skb`, `__qdisc_run`), and the timer at which
//! it is asked again while packets wait and none may leave (`qdisc_watchdog`).

use std::sync::{Arc, PoisonError};

use weir_packet::Batch;
use weir_sync::rcu::Guard;
use weir_tc::Context;
use weir_tc::qdisc::Drops;
use weir_tc::qdisc::root::Worker;

use crate::clock::Holds;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::stack::Shared;
use crate::stages::Stage;

/// Full batches a CPU sends for one device before it looks at its other work (`dev_tx_weight`).
const QUOTA: usize = 16;

/// Gives a batch to the qdisc and, unless another CPU is at work on it, sends what it lets go.
pub fn enqueue(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    if !device.tc.has_queue() {
        return super::send_on_wire(cx, device, batch);
    }
    let count = batch.len();
    let mut drops = std::mem::take(&mut cx.state.drops);
    let worker = device.tc.push(cx.guard, batch, &mut drops);
    end_all(cx, device, &mut drops);
    cx.state.drops = drops;
    match worker {
        Some(worker) => run(cx, device, worker, count),
        None => cx.state.stages.end(Stage::Qdisc, count),
    }
}

/// Sends what the qdisc lets go now.
pub fn run_queue(cx: &mut Cx<'_>, device: &Arc<Device>) {
    cx.state.stages.start();
    if let Some(worker) = device.tc.ask(cx.guard) {
        run(cx, device, worker, 0);
    }
}

/// Arms the timer for the time at which the qdisc wants to be asked again, in place of the one before.
/// That time is asked for while nobody else arms it: the qdisc may be another one than a moment ago.
pub fn rearm(stack: &Shared, device: &Device, guard: &Guard) {
    let mut armed = device
        .watchdog
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let next = device.tc.next_event(guard);
    if armed.map(|timer| timer.time()) == next {
        return;
    }
    if let Some(timer) = armed.take() {
        stack.timers.cancel(timer);
    }
    let key = device.key;
    let job = move |cx: &mut Cx<'_>| {
        if let Some(device) = cx.device(key) {
            *device
                .watchdog
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = None;
            run_queue(cx, device);
        }
    };
    *armed = next.map(|time| stack.arm(time, Holds::Packet, Box::new(job)));
}

fn end_all(cx: &Cx<'_>, device: &Device, drops: &mut Drops) {
    for (packet, reason) in drops.drain(..) {
        cx.drop(device, Place::Qdisc, reason, packet);
    }
}

fn run(cx: &mut Cx<'_>, device: &Arc<Device>, mut worker: Worker<'_>, mut count: usize) {
    for round in 1.. {
        let mut out = Batch::new();
        let mut drops = std::mem::take(&mut cx.state.drops);
        let mut sent = cx.state.spare.pop().unwrap_or_default();
        {
            let (seed, guard) = (cx.stack.config.seed, cx.guard);
            let mut random = || device.draw(seed, guard);
            let mut tc = Context::new(
                guard,
                cx.state.id,
                cx.now,
                device.ifindex(),
                &mut random,
                &mut sent,
            );
            super::describe(device, &mut tc);
            tc.memory(&cx.state.cache);
            worker.round(&mut tc, &mut out, &mut drops);
        }
        end_all(cx, device, &mut drops);
        cx.state.drops = drops;
        cx.state.stages.end(Stage::Qdisc, count);
        count = 0;
        super::filter::forward(cx, sent);
        // What did not fill the batch was all that may leave now.
        let more = out.is_full();
        if !out.is_empty() {
            super::send_on_wire(cx, device, out);
        }
        if !more {
            rearm(cx.stack, device, cx.guard);
            match worker.leave() {
                Some(again) => worker = again,
                None => return,
            }
        }
        if round >= QUOTA {
            match worker.abandon() {
                Some(asked) => worker = asked,
                None => return cx.run_queue_later(device),
            }
        }
    }
}

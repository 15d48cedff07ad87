// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qdisc between transmit and the device (`__dev_xmit_skb`, `__qdisc_run`), and the timer that
//! runs it again while packets wait and none may leave yet (`qdisc_watchdog`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason, Packet};
use weir_sync::rcu::Guard;
use weir_tc::Context;
use weir_tc::qdisc::Drops;
use weir_tc::qdisc::root::{Room, Worker};

use crate::clock::Holds;
use crate::conf::Core;
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::stack::Shared;
use crate::stages::Stage;

use super::fragments::{self, Reassembled};
use crate::measure::{self, Measured};

/// The number of rounds, one batch each, that a CPU works for one qdisc before it does its other
/// work (`__qdisc_run`). The default `net.core.dev_weight` times its bias, 64, gives 16 rounds.
fn quota(device: &Device, guard: &Guard) -> i64 {
    let core = &device.namespace(guard).global.core;
    let of = |slot| i64::from(core.get(slot));
    of(Core::DevWeight) * of(Core::DevWeightTxBias) / 4
}

/// Enqueues packets in the qdiscs of their transmit queues. Drains each qdisc as far as it allows,
/// unless another CPU is already doing so. Bit n of `chosen` means that packet n already has its
/// transmit queue. Leaves the batch empty.
pub fn enqueue(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, chosen: u64) {
    if device.lacks_carrier() {
        // Without a carrier, `noop_qdisc` stands in for every qdisc.
        return cx.drop_all(device, Place::Qdisc, DropReason::QDISC_DROP, batch);
    }
    device
        .tc
        .pick(cx.guard, cx.state.id, device.used_queues().0, batch, chosen);
    if !device.tc.has_queue() {
        super::send_on_wire(cx, device, batch);
        if !batch.is_empty() {
            // Linux logs "Virtual device asks to queue packet!" here.
            let stats = device.stats(cx.state.id);
            stats.tx_dropped.fetch_add(batch.len() as u64, Relaxed);
            cx.drop_all(device, Place::Transmit, DropReason::FULL_RING, batch);
        }
        return;
    }
    if device.tc.roots(cx.guard) == 1 {
        return enqueue_at(cx, device, 0, batch.take());
    }
    while let Some(queue) = batch.first().map(|packet| packet.queue) {
        let mut part = Batch::new();
        batch.split(
            |packet| packet.queue != queue,
            |packet| {
                // There is room: the part is no larger than the batch it is taken from.
                let _ = part.push(packet);
            },
        );
        enqueue_at(cx, device, queue, part);
    }
}

fn enqueue_at(cx: &mut Cx<'_>, device: &Arc<Device>, queue: u16, mut batch: Batch) {
    let count = batch.len();
    if cx.stack.trace.watches_waits() {
        cx.stack.trace.queued(device, batch.iter_mut(), cx.now);
    }
    let measured = Measured::start(cx, device, queue);
    let burst = device
        .namespace(cx.guard)
        .global
        .core
        .get(Core::QdiscMaxBurst);
    let mut drops = std::mem::take(&mut cx.state.drops);
    let patient = cx.state.working == 0 && !cx.stack.config.virtual_time;
    let worker = device.tc.push(
        cx.guard,
        queue.into(),
        &mut batch,
        (burst.max(0) as u32, patient),
        &mut drops,
    );
    end_all(cx, device, &mut drops);
    cx.state.drops = drops;
    match worker {
        Some(worker) => run(cx, device, queue, worker, (batch, count)),
        None => cx.state.stages.end(Stage::Qdisc, count),
    }
    if let Some(measured) = measured {
        measured.end(count);
    }
}

/// Restarts a transmit queue whose device has room again; its qdisc runs on any CPU
/// (`netif_tx_wake_queue`). May be called from any thread.
pub fn wake_queue(stack: &Shared, device: &Device, queue: u16) {
    let tx = device.tx(queue);
    if tx.is_some_and(|tx| tx.gate.wake()) {
        schedule(stack, device.key, queue);
    }
}

/// Reports that packets of `octets` bytes in total have left a device whose wire
/// [`completes`](crate::link::Wire::completes) (`netdev_tx_completed_queue`). May be called from
/// any thread, but not concurrently for the same queue.
pub fn completed(stack: &Shared, device: &Device, queue: u16, octets: u32) {
    let (tx, now) = (device.tx(queue), stack.clock.now());
    if tx.is_some_and(|tx| tx.gate.completed(octets, now)) {
        schedule(stack, device.key, queue);
    }
}

/// Restarts all transmit queues of a device, with room and nothing in flight.
pub fn restart(stack: &Shared, device: &Device) {
    for queue in 0..device.tx_queues() as u16 {
        if let Some(tx) = device.tx(queue) {
            tx.gate.reset(stack.clock.now());
        }
        schedule(stack, device.key, queue);
    }
}

/// Schedules the qdisc of a transmit queue (`__netif_schedule`).
fn schedule(stack: &Shared, key: DeviceKey, queue: u16) {
    stack.post(Box::new(move |cx| {
        if let Some(device) = cx.device(key) {
            let one = device.tc.roots(cx.guard) == 1;
            run_queue(cx, device, if one { 0 } else { queue });
        }
    }));
}

/// Sends the packets that the qdisc of a transmit queue releases now.
pub fn run_queue(cx: &mut Cx<'_>, device: &Arc<Device>, queue: u16) {
    cx.state.stages.start();
    if let Some(worker) = device.tc.ask(cx.guard, usize::from(queue)) {
        run(cx, device, queue, worker, (Batch::new(), 0));
    }
}

/// Arms the timers of all queues after their qdiscs have changed.
pub fn rearm_all(stack: &Shared, device: &Device, guard: &Guard) {
    // Without a qdisc there is no timer to arm, and without state none to cancel: a thread that is about to arm one has
    // made the state before it asks the old qdisc under its lock, which the thread that replaced it has held since.
    if !device.tc.has_queue() && device.tx_made().is_empty() {
        return;
    }
    for queue in 0..device.tx_queues() {
        rearm(stack, device, guard, queue as u16);
    }
}

/// Arms a queue's timer for the time at which the qdisc wants to run again, in place of the
/// previous timer. Reads that time under the lock, so that no other thread arms the timer
/// meanwhile: the qdisc may have been replaced a moment ago.
fn rearm(stack: &Shared, device: &Device, guard: &Guard, queue: u16) {
    let Some(tx) = device.tx(queue) else {
        return;
    };
    let mut armed = tx.watchdog.lock();
    let next = device.tc.next_event(guard, usize::from(queue));
    if armed.map(|timer| timer.time()) == next {
        return;
    }
    if let Some(timer) = armed.take() {
        stack.timers.cancel(timer);
    }
    let key = device.key;
    let job = move |cx: &mut Cx<'_>| {
        if let Some(device) = cx.device(key) {
            if let Some(tx) = device.tx(queue) {
                *tx.watchdog.lock() = None;
            }
            run_queue(cx, device, queue);
        }
    };
    *armed = next.map(|time| stack.arm(time, Holds::Packet, Box::new(job)));
}

fn end_all(cx: &Cx<'_>, device: &Device, drops: &mut Drops) {
    for (packet, reason) in drops.drain(..) {
        cx.drop(device, Place::Qdisc, reason, packet);
    }
}

/// Drains a queue as its worker. `own` holds the packets for the first round and the number of
/// packets the caller enqueued.
fn run(cx: &mut Cx<'_>, device: &Arc<Device>, queue: u16, worker: Worker<'_>, own: (Batch, usize)) {
    cx.state.working += 1;
    work(cx, device, queue, worker, own);
    cx.state.working -= 1;
}

fn work(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    queue: u16,
    mut worker: Worker<'_>,
    (mut batch, mut count): (Batch, usize),
) {
    let limited = device.wire(cx.guard).is_some_and(|wire| wire.completes());
    // A qdisc that spans several transmit queues has no queue of its own.
    let several = device.tx_queues() > 1 && device.tc.roots(cx.guard) == 1;
    let own = (!several).then_some(queue);
    let room = |of: Option<u16>| {
        let tx = of.or(own).and_then(|of| device.tx(of));
        match tx.map_or(Some(u32::MAX), |tx| tx.gate.room(limited)) {
            _ if !device.is_up() || device.lacks_carrier() => Room::Down,
            Some(octets) => Room::Octets(octets),
            None => Room::None,
        }
    };
    let quota = quota(device, cx.guard);
    let watched = cx.stack.trace.watches_waits();
    for round in 1.. {
        // A qdisc's times must never go back, whichever CPU works on it, and the time of this CPU's
        // turn may be old.
        cx.now = cx.stack.clock.now();
        let mut drops = std::mem::take(&mut cx.state.drops);
        let mut sent = cx.state.spare.pop().unwrap_or_default();
        let more;
        let reassembled = Reassembled::default();
        {
            let (seed, guard) = (cx.stack.config.seed, cx.guard);
            let mut random = || device.draw(seed, guard);
            let waits = |packet: &Packet, class| cx.stack.trace.waits_in(packet, class);
            let duplicated = |copy: &mut Packet| cx.stack.trace.copied(copy);
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
            super::describe(device, cx.guard, &mut tc);
            tc.memory(&cx.state.cache);
            tc.defragment = Some(&defragment);
            if watched {
                tc.report_waits(&waits, &duplicated);
            }
            more = worker.round(&mut tc, &room, &mut batch, &mut drops);
        }
        if watched {
            let left = |packet| cx.stack.trace.left(device, packet, cx.now);
            batch.iter().for_each(left);
        }
        measure::batch(cx, device, queue, batch.len());
        end_all(cx, device, &mut drops);
        cx.state.drops = drops;
        cx.state.stages.end(Stage::Qdisc, count);
        count = 0;
        if !reassembled.is_empty() {
            sent = fragments::split(cx, sent, &reassembled, false);
        }
        super::filter::forward(cx, sent);
        if !batch.is_empty() {
            super::send_on_wire(cx, device, &mut batch);
            if !batch.is_empty() {
                let mut drops = std::mem::take(&mut cx.state.drops);
                worker.requeue(&room, &mut batch, &mut drops);
                end_all(cx, device, &mut drops);
                cx.state.drops = drops;
            }
        }
        if !more {
            rearm(cx.stack, device, cx.guard, queue);
            match worker.leave() {
                Some(again) => worker = again,
                None => return,
            }
        }
        if round >= quota {
            match worker.abandon() {
                Some(asked) => worker = asked,
                None => return cx.run_queue_later(device, queue),
            }
        }
    }
}

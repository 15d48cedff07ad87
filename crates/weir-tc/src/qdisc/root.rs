// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The entrance of a root qdisc: a lockless list in front of its lock, and one worker that
//! transmits for all senders.
//!
//! Mirrors Linux's `__dev_xmit_skb` with `defer_list`, and `qdisc_run_begin`. While a worker is
//! active, any other thread appends its packets to the list and returns. A thread that finds no
//! worker becomes the worker. Per round it enqueues a batch from the list, with its own packets
//! last, dequeues packets that may leave, and sends them. It stops when none may leave and the list
//! is empty.
//!
//! Packets therefore leave the device in one order. The lock is free between rounds for requests,
//! and no sender waits for it. A sender gives up the processor for a while only if too many packets
//! wait in the list. A worker that has worked for long enough may leave the rest to the next worker
//! ([`Worker::abandon`]).

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason};
use weir_sync::primitive::Backoff;

use super::{Arrivals, Departures, Drops, Inner, NO_HINT, Node, QueueCx};
use crate::context::Context;

/// The room that a device has at a transmit queue now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The device takes this many bytes at once, not counting the last packet
    /// (`qdisc_avail_bulklimit`).
    Octets(u32),
    /// The queue is stopped (`netif_xmit_frozen_or_stopped`).
    None,
    /// The device is down, and packets must not wait for it (`__QDISC_STATE_DEACTIVATED`).
    Down,
}

/// The exclusive right and duty to transmit for a queue, held until [`leave`](Self::leave) ends it.
#[must_use = "a worker must leave, or nobody sends any more"]
#[derive(Debug)]
pub struct Worker<'g> {
    node: &'g Node,
    /// Some packets were taken from the list and are not enqueued yet.
    more: bool,
}

impl Node {
    /// Puts packets in front of the lock of a root. If the queue has no worker, the caller becomes
    /// the worker, and the packets left in `batch` are for its first [`round`](Worker::round).
    ///
    /// If more than `burst` packets wait already (`net.core.qdisc_max_burst`), a patient caller
    /// waits a while first; then its packets are dropped.
    pub(crate) fn push<'g>(
        &'g self,
        batch: &mut Batch,
        (burst, patient): (u32, bool),
        drops: &mut Drops,
    ) -> Option<Worker<'g>> {
        if self.front.enter() {
            return Some(Worker::new(self));
        }
        let count = batch.len() as u32;
        let room = match patient {
            true => self.front.admit_later(count, burst),
            false => self.front.admit(count, burst),
        };
        if !room {
            self.bursts.fetch_add(count, Relaxed);
            let burst = batch.drain();
            drops.extend(burst.map(|packet| (packet, DropReason::QDISC_BURST_DROP)));
            return None;
        }
        self.front
            .push_all(batch.drain())
            .then(|| Worker::new(self))
    }

    /// Moves the packets in front of the lock of a removed root to `out`. If a worker is active, it
    /// does this itself when it next checks the root.
    pub(super) fn empty_front(&self, out: &mut Drops) {
        let mut worker = self.ask();
        while let Some(mut own) = worker {
            let arrived = self.front.take_all();
            out.extend(arrived.map(|packet| (packet, DropReason::QDISC_DROP)));
            own.more = false;
            worker = own.leave();
        }
    }

    /// Stops a root whose place another one is about to take, and waits for its worker. When this
    /// returns, no thread sends packets of the root any more, so the packets of a flow that the new
    /// root sends leave after those of the old one. In the meantime, packets are dropped
    /// (`dev_deactivate`, which waits by `some_qdisc_is_busy`).
    ///
    /// The worker must not wait for a lock that the caller holds.
    pub(crate) fn stop(&self) {
        self.set_stopped();
        let mut wait = Backoff::new();
        while !self.front.enter() {
            wait.snooze();
        }
        // The packets in front of the lock are dropped when the root is destroyed.
        while !self.front.abandon() {}
    }

    /// Asks a root for packets because some may leave that could not before. The caller becomes the
    /// worker if there is none.
    pub(crate) fn ask(&self) -> Option<Worker<'_>> {
        self.front.ask().then(|| Worker::new(self))
    }
}

/// Number of packets in one lookahead: the state they need together fits the first-level cache.
const AHEAD: usize = 16;

/// Enqueues a batch, with a lookahead if the qdisc wants one.
fn enqueue_batch(inner: &mut Inner, q: &mut QueueCx<'_, '_, '_>, batch: &mut Batch) {
    let (steps, mut arrived) = (inner.qdisc.looks_ahead(), batch.drain());
    while steps > 0 && arrived.len() > 0 {
        let ahead = arrived.as_slice();
        let ahead = &ahead[..ahead.len().min(AHEAD)];
        let (mut hints, count) = ([NO_HINT; AHEAD], ahead.len());
        for step in 0..steps {
            for (packet, hint) in ahead.iter().zip(&mut hints) {
                *hint = inner.qdisc.prefetch(packet, step, *hint);
            }
        }
        inner.enqueue_all(q, Arrivals::new(&mut arrived, count, &hints[..count]));
    }
    let count = arrived.len();
    inner.enqueue_all(q, Arrivals::new(&mut arrived, count, &[]));
}

/// Dequeues packets into `out`, which must be empty, until it is full or `room` is used up. Returns
/// whether more packets may leave.
fn dequeue_batch(
    inner: &mut Inner,
    q: &mut QueueCx<'_, '_, '_>,
    room: &dyn Fn(Option<u16>) -> Room,
    out: &mut Batch,
) -> bool {
    // A packet that the device returned leaves alone, as in Linux. In a batch it could be returned
    // again and again.
    let returned = inner.returned();
    let Room::Octets(octets) = room(returned) else {
        return false;
    };
    if returned.is_some() {
        let packet = inner.take_returned();
        return packet.is_some_and(|packet| out.push(packet).is_ok());
    }
    inner.dequeue_all(q, Departures::new(out, octets))
}

impl<'g> Worker<'g> {
    /// The previous worker may have left packets that were taken from the list and not enqueued.
    fn new(node: &'g Node) -> Self {
        Self { node, more: true }
    }

    /// Enqueues a batch from the list, the worker's own packets in `batch` last, and dequeues
    /// packets that may leave until `batch` is full, all under one lock. Packets are then still in
    /// the cache when they leave, and the queue need not hold everything that many senders have put
    /// in front of it.
    ///
    /// `room` returns the room of the device, either at the transmit queue of a packet it returned
    /// or at the qdisc's own. Returns whether more packets may leave.
    pub fn round(
        &mut self,
        cx: &mut Context<'_, '_>,
        room: &dyn Fn(Option<u16>) -> Room,
        batch: &mut Batch,
        drops: &mut Drops,
    ) -> bool {
        cx.ingress = false;
        let node = self.node;
        let mut inner = node.lock();
        if node.is_gone() {
            // A request removed the qdisc in the meantime.
            self.more = false;
            let arrived = node.front.take_all().chain(batch.drain());
            drops.extend(arrived.map(|packet| (packet, DropReason::QDISC_DROP)));
            return false;
        }
        let mut arrived = std::mem::take(&mut inner.arrived);
        if arrived.is_empty() || !batch.is_empty() {
            arrived.append(node.front.take_all());
        }
        if !arrived.is_empty() {
            // The packets of others in the list came before the worker's own.
            arrived.append(batch.drain().collect());
        }
        // The state is read under the lock. A thread that takes the device down empties the qdisc
        // under the lock afterwards.
        if room(None) == Room::Down {
            self.more = false;
            let arrived = arrived.chain(batch.drain());
            drops.extend(arrived.map(|packet| (packet, DropReason::DEV_READY)));
            return false;
        }
        while !batch.is_full()
            && let Some(packet) = arrived.next()
        {
            let _ = batch.push(packet);
        }
        let mut q = QueueCx::new(cx, drops);
        let mut more = false;
        inner.in_tree(&mut q, |inner, q| {
            enqueue_batch(inner, q, batch);
            q.pass_wakes();
            more = dequeue_batch(inner, q, room, batch);
        });
        self.more = !arrived.is_empty();
        inner.arrived = arrived;
        more || self.more
    }

    /// Puts the packets for which the device had no room back at the head of the queue.
    pub fn requeue(
        &mut self,
        room: &dyn Fn(Option<u16>) -> Room,
        rest: &mut Batch,
        drops: &mut Drops,
    ) {
        let mut inner = self.node.lock();
        let reason = match self.node.is_gone() {
            true => DropReason::QDISC_DROP,
            false if room(None) == Room::Down => DropReason::DEV_READY,
            false => return inner.give_back(rest),
        };
        drops.extend(rest.drain().map(|packet| (packet, reason)));
    }

    /// Ends the work. Returns the worker if there is more to do already.
    pub fn leave(self) -> Option<Self> {
        (self.more || !self.node.front.leave()).then_some(self)
    }

    /// Ends the work although packets may have arrived. The caller must make sure that somebody
    /// asks for the rest. Returns the worker if the qdisc is being removed: nobody can find it any
    /// more, so the packets remain the caller's.
    pub fn abandon(self) -> Option<Self> {
        (self.node.is_gone() || !self.node.front.abandon()).then_some(self)
    }
}

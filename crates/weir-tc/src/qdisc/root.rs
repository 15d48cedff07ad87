// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way into a root qdisc: a lockless list in front of its lock, and one sender at work for all.
//!
//! Linux's `__dev_xmit_skb` with `defer_list`, and `qdisc_run_begin`: while somebody is at work, any thread
//! puts its packets into the list and goes; whoever finds nobody at work enqueues what has come, its own
//! packets last, a batch a round, takes out what may leave and sends it, until nothing may leave and
//! nothing has come. So packets leave the device in one order, the lock is free between rounds for
//! requests, and no sender waits for it; only where too many packets wait in the list does one give the
//! processor away for a while. Who has worked for long enough may leave the rest to whoever is next
//! ([`Worker::abandon`]).

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason};

use super::{Arrivals, Departures, Drops, Inner, NO_HINT, Node, QueueCx};
use crate::context::Context;

/// What a device takes at a transmit queue now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// So many octets together, the last packet not counted (`qdisc_avail_bulklimit`).
    Octets(u32),
    /// None: the queue is stopped (`netif_xmit_frozen_or_stopped`).
    None,
    /// Nothing, and nothing may wait for it: the device is down (`__QDISC_STATE_DEACTIVATED`).
    Down,
}

/// The right, and the duty, to work on a queue until [`leave`](Self::leave) takes it back.
#[must_use = "who is at work has to leave, else nobody sends any more"]
#[derive(Debug)]
pub struct Worker<'g> {
    node: &'g Node,
    /// Taken from the list, and not all enqueued.
    more: bool,
}

impl Node {
    /// Of a root: puts packets in front of the lock. If nobody is at work on the queue, the caller is, and what is
    /// left in the batch is for its first [`round`](Worker::round). Where more than `burst` wait already (`net.core.qdisc_max_burst`), a patient caller waits a while; then
    /// its packets are dropped.
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

    /// Of a root that is gone: what waits in front of the lock goes to `out`, unless somebody is at work,
    /// who then looks again and sees that it is gone.
    pub(super) fn empty_front(&self, out: &mut Drops) {
        let mut worker = self.ask();
        while let Some(mut mine) = worker {
            let come = self.front.take_all();
            out.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
            mine.more = false;
            worker = mine.leave();
        }
    }

    /// Of a root: packets may leave now that could not before. If nobody is at work, the caller is.
    pub(crate) fn ask(&self) -> Option<Worker<'_>> {
        self.front.ask().then(|| Worker::new(self))
    }
}

/// Packets looked at ahead together: what they need together fits the first cache.
const AHEAD: usize = 16;

/// Enqueues packets, with a look ahead where the qdisc wants it.
fn enter_all(inner: &mut Inner, q: &mut QueueCx<'_, '_, '_>, batch: &mut Batch) {
    let (steps, mut come) = (inner.qdisc.looks_ahead(), batch.drain());
    while steps > 0 && come.len() > 0 {
        let ahead = come.as_slice();
        let ahead = &ahead[..ahead.len().min(AHEAD)];
        let (mut hints, count) = ([NO_HINT; AHEAD], ahead.len());
        for step in 0..steps {
            for (packet, hint) in ahead.iter().zip(&mut hints) {
                *hint = inner.qdisc.prefetch(packet, step, *hint);
            }
        }
        inner.enqueue_all(q, Arrivals::new(&mut come, count, &hints[..count]));
    }
    let count = come.len();
    inner.enqueue_all(q, Arrivals::new(&mut come, count, &[]));
}

/// Takes out what may leave until `out`, empty now, is full or `room` is used up; whether more may.
fn take_out(
    inner: &mut Inner,
    q: &mut QueueCx<'_, '_, '_>,
    room: &dyn Fn(Option<u16>) -> Room,
    out: &mut Batch,
) -> bool {
    // What was given back once leaves alone, as in Linux, lest it be given back again and again.
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
    /// The last one may have left something that was taken and not enqueued.
    fn new(node: &'g Node) -> Self {
        Self { node, more: true }
    }

    /// Enqueues a batch of what has come, the worker's own in `batch` last, and takes out what may leave until
    /// `batch` is full, under one lock: so packets are still at hand when they leave, and a queue behind need not
    /// hold all that many senders have put in front. `room`: what the device takes at the transmit queue of a
    /// packet it has given back, or at the qdisc's own. True: more may leave.
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
            // A request has taken the qdisc away meanwhile.
            self.more = false;
            let come = node.front.take_all().chain(batch.drain());
            drops.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
            return false;
        }
        let mut come = std::mem::take(&mut inner.come);
        if come.is_empty() || !batch.is_empty() {
            come.append(node.front.take_all());
        }
        if !come.is_empty() {
            // What others have left in the list came before the worker's own.
            come.append(batch.drain().collect());
        }
        // Seen under the lock: who takes the device down empties the qdisc under it after that.
        if room(None) == Room::Down {
            self.more = false;
            let come = come.chain(batch.drain());
            drops.extend(come.map(|packet| (packet, DropReason::DEV_READY)));
            return false;
        }
        while !batch.is_full()
            && let Some(packet) = come.next()
        {
            let _ = batch.push(packet);
        }
        let mut q = QueueCx::new(cx, drops);
        let mut more = false;
        inner.in_tree(&mut q, |inner, q| {
            enter_all(inner, q, batch);
            q.pass_wakes();
            more = take_out(inner, q, room, batch);
        });
        self.more = !come.is_empty();
        inner.come = come;
        more || self.more
    }

    /// Puts what the device had no room for back at the head of the queue.
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

    /// Gives the right back. Some: there is more to do already.
    pub fn leave(self) -> Option<Self> {
        (self.more || !self.node.front.leave()).then_some(self)
    }

    /// Gives the right back though something may have come; the caller sees to it that somebody asks for
    /// the rest. Some: the qdisc is going, nobody will find it any more to ask, and what has come is
    /// still the caller's.
    pub fn abandon(self) -> Option<Self> {
        (self.node.is_gone() || !self.node.front.abandon()).then_some(self)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way into a root qdisc: a lockless list in front of its lock, and one sender at work for all.
//!
//! Linux's `__dev_xmit_skb` with `defer_list`, and `qdisc_run_begin`: any thread puts packets into the
//! list; whoever finds nobody at work enqueues all that has come as one batch, takes out what may leave
//! and sends it, until nothing may leave and nothing has come. So packets leave the device in one
//! order, the lock is free whenever a request wants it, and no sender waits. Who has worked for long
//! enough may leave the rest to whoever is next ([`Worker::abandon`]).

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason};

use super::{Drops, Node, QueueCx};
use crate::context::Context;

/// Packets that may wait in front of the lock of a qdisc (`net.core.qdisc_max_burst`).
pub const MAX_BURST: u32 = 1000;

/// The right, and the duty, to work on a queue until [`leave`](Self::leave) takes it back.
#[must_use = "who is at work has to leave, else nobody sends any more"]
#[derive(Debug)]
pub struct Worker<'g>(&'g Node);

impl Node {
    /// Of a root: puts packets in front of the lock. If nobody is at work on the queue, the caller is.
    pub(crate) fn push<'g>(&'g self, mut batch: Batch, drops: &mut Drops) -> Option<Worker<'g>> {
        if !self.front.admit(batch.len() as u32, MAX_BURST) {
            self.bursts.fetch_add(batch.len() as u32, Relaxed);
            let burst = batch.drain();
            drops.extend(burst.map(|packet| (packet, DropReason::QDISC_BURST_DROP)));
            return None;
        }
        self.front.push_all(batch.drain()).then_some(Worker(self))
    }

    /// Of a root that is gone: what waits in front of the lock goes to `out`, unless somebody is at work,
    /// who then looks again and sees that it is gone.
    pub(super) fn empty_front(&self, out: &mut Drops) {
        let mut worker = self.ask();
        while let Some(mine) = worker {
            let come = self.front.take_all();
            out.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
            worker = mine.leave();
        }
    }

    /// Of a root: packets may leave now that could not before. If nobody is at work, the caller is.
    pub(crate) fn ask(&self) -> Option<Worker<'_>> {
        self.front.ask().then_some(Worker(self))
    }
}

impl Worker<'_> {
    /// Enqueues what has come, and takes out what may leave until `out` is full, under one lock.
    pub fn round(&mut self, cx: &mut Context<'_, '_>, out: &mut Batch, drops: &mut Drops) {
        cx.ingress = false;
        let come = self.0.front.take_all();
        let mut inner = self.0.lock();
        if self.0.is_gone() {
            // A request has taken the qdisc away meanwhile.
            return drops.extend(come.map(|packet| (packet, DropReason::QDISC_DROP)));
        }
        let mut q = QueueCx::new(cx, drops);
        inner.in_tree(&mut q, |inner, q| {
            for mut packet in come {
                if let Some(stab) = &inner.stab {
                    packet.cb = stab.len(packet.len() as u32);
                }
                inner.enqueue(q, packet);
                while let Some(copy) = q.next_copy() {
                    inner.enqueue(q, copy);
                    q.duplicate = false;
                }
            }
            q.pass_wakes();
            while !out.is_full() {
                let Some(mut packet) = inner.dequeue(q) else {
                    break;
                };
                if inner.stab.is_some() {
                    packet.cb = 0;
                }
                // The batch has room, as just seen.
                let _ = out.push(packet);
            }
        });
    }

    /// Gives the right back. Some: there is more to do already.
    pub fn leave(self) -> Option<Self> {
        (!self.0.front.leave()).then_some(self)
    }

    /// Gives the right back though something may have come; the caller sees to it that somebody asks for
    /// the rest. Some: the qdisc is going, nobody will find it any more to ask, and what has come is
    /// still the caller's.
    pub fn abandon(self) -> Option<Self> {
        (self.0.is_gone() || !self.0.front.abandon()).then_some(self)
    }
}

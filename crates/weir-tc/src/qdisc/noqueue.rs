// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `noqueue`: packets do not wait (`noqueue_qdisc_ops`, net/sched/sch_generic.c).
//!
//! No parameters, no statistics. The root of devices that have no queue of their own; packets go to
//! the device without touching it. It cannot stand under a class.

use weir_netlink::Error;
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx};

/// The kind's line.
pub const OPS: Ops = Ops::new("noqueue", create);

/// The qdisc.
#[derive(Debug)]
pub struct Noqueue;

fn create(_create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(Noqueue))
}

impl Qdisc for Noqueue {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        q.drops.push((packet, DropReason::QDISC_DROP));
        Enqueued::Dropped
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        None
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn reset(&mut self, _out: &mut Drops) {}
}

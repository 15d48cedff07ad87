// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `noqueue`: packets do not wait (`noqueue_qdisc_ops`, net/sched/sch_generic.c).
//!
//! It has no parameters and no statistics. It is the root of devices without a queue; packets go
//! straight to the device and bypass it. It cannot stand under a class.

use weir_netlink::Error;
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops::new("noqueue", create);

/// The state of the qdisc.
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

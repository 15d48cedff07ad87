// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `blackhole`: drops every packet (`blackhole_qdisc_ops`, net/sched/sch_blackhole.c).
//!
//! It has no parameters. A packet counts as dropped (QDISC_DROP) here and in the qdiscs above. It
//! may stand wherever a `pfifo` may, also under a class, which blocks that class.

use weir_netlink::Error;
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops::new("blackhole", create);

/// The state of the qdisc.
#[derive(Debug)]
pub struct Blackhole;

fn create(_create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(Blackhole))
}

impl Qdisc for Blackhole {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        q.drop(packet, DropReason::QDISC_DROP)
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        None
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn reset(&mut self, _out: &mut Drops) {}
}

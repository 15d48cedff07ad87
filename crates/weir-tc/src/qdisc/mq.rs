// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mq`: a root that gives each transmit queue of a device its own qdisc.
//!
//! Mirrors net/sched/sch_mq.c. It has no parameters. Class `n` is transmit queue `n - 1`, with the
//! default qdisc (`net.core.default_qdisc`) under it until another one is grafted. After a deletion
//! the class has no qdisc and the queue drops everything. Packets bypass this qdisc and go to the
//! qdisc of their queue. Its counters are the sums of those of the queues; its rate estimator
//! receives no data. It is the default root of a device that queues and has several transmit
//! queues. It is refused on a device with one queue, and anywhere but at the root.
//!
//! As in Linux, grafting a qdisc to a queue of a device that is up empties all queues.

use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::errno::EOPNOTSUPP;
use weir_netlink::tca::h;
use weir_netlink::{TcMsg, Writer};
use weir_packet::{DropReason, Packet};

use super::bands::Bands;
use super::{ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Qdisc, QueueCx};
use crate::counters::Queue;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    queues: true,
    attach: true,
    ..Ops::new("mq", create)
};

/// The state of the qdisc.
struct Mq {
    queues: Bands,
}

/// Makes the default qdiscs of all transmit queues, for a root over several queues.
pub(super) fn queues(create: &Create<'_>) -> Result<Bands, Error> {
    let count = create.device.tx_queues();
    if create.parent != h::ROOT || count == 1 {
        return Err(Error::new(EOPNOTSUPP));
    }
    Ok(Bands::new(count, |class| create.default_queue(class)))
}

/// Replaces the qdisc of a queue (`mq_graft`). Resets the qdiscs of all queues first if the device
/// is up, as `dev_deactivate` does.
pub(super) fn graft(
    queues: &mut Bands,
    class: u32,
    new: Option<Arc<Node>>,
    create: &Create<'_>,
    gone: &mut Gone,
) -> Option<Arc<Node>> {
    if create.device.is_up() {
        queues.reset(&mut gone.drops);
    }
    queues.graft(class, Leaf::new(new), gone)
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let queues = queues(create)?;
    Ok(Box::new(Mq { queues }))
}

impl Qdisc for Mq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        q.drop(packet, DropReason::QDISC_DROP)
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        None
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn reset(&mut self, out: &mut Drops) {
        self.queues.reset(out);
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        self.queues.slot(class)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        self.queues.slot_mut(class)
    }

    fn graft(
        &mut self,
        class: u32,
        new: Option<Arc<Node>>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        Ok(graft(&mut self.queues, class, new, create, gone))
    }

    fn queues(&self) -> Vec<u32> {
        self.queues.classes()
    }

    fn summed(&self) -> Option<(u64, u64, Queue)> {
        Some(self.queues.sum(0, usize::MAX))
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.parent = h::ROOT;
        tcm.handle |= class;
        tcm.info = self.leaf(class).map_or(0, |leaf| leaf.handle);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        Some(self.queues.class_stats(class))
    }
}

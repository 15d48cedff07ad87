// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ingress` and `clsact`: no queue, only hooks for filters on packets that a device receives and,
//! with `clsact`, on packets that it sends.
//!
//! Mirrors net/sched/sch_ingress.c. Parameters: `ingress_block` and (clsact) `egress_block`, the
//! indices of shared blocks. Filters go under `ffff:fff2` (ingress) and `ffff:fff3` (egress); with
//! `ingress`, under any class of `ffff:`. The statistics count the packets that met a filter list
//! and those that a filter dropped.

use std::sync::Arc;

use weir_netlink::errno::EOPNOTSUPP;
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Writer};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx};
use crate::block::{Block, Owner};

/// The entry of `ingress` in the table of kinds.
pub const INGRESS: Ops = Ops {
    classful: true,
    filters: true,
    ingress: true,
    shares: (true, false),
    ..Ops::new("ingress", create::<false>)
};

/// The entry of `clsact` in the table of kinds.
pub const CLSACT: Ops = Ops {
    classful: true,
    filters: true,
    ingress: true,
    shares: (true, true),
    ..Ops::new("clsact", create::<true>)
};

/// The state of the qdisc. `EGRESS` is true for `clsact`.
pub struct Ingress<const EGRESS: bool> {
    ingress: Arc<Block>,
    egress: Option<Arc<Block>>,
    /// Indices of the requested shared blocks.
    shared: (u32, u32),
}

/// Returns the shared block with an index, or a new block owned by the qdisc if the index is 0.
pub(super) fn block(create: &Create<'_>, index: u32) -> Arc<Block> {
    if index != 0 {
        return create.env.net.own_block(index);
    }
    let owner = Owner {
        device: Arc::downgrade(create.device),
        handle: create.handle,
    };
    Block::new(create.env.net.domain(), 0, Some(owner))
}

fn create<const EGRESS: bool>(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    if create.parent != h::INGRESS {
        return Err(Error::new(EOPNOTSUPP));
    }
    let ingress = block(create, create.ingress_block);
    let beside = !ingress.is_shared() && create.egress_block == 0;
    let egress = EGRESS.then(|| match beside {
        true => Block::beside(&ingress),
        false => block(create, create.egress_block),
    });
    Ok(Box::new(Ingress::<EGRESS> {
        ingress,
        egress,
        shared: (create.ingress_block, create.egress_block),
    }))
}

impl<const EGRESS: bool> Qdisc for Ingress<EGRESS> {
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

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.end(nest);
    }

    fn shared_blocks(&self) -> (u32, u32) {
        self.shared
    }

    fn hooks(&self) -> (Option<Arc<Block>>, Option<Arc<Block>>) {
        (Some(self.ingress.clone()), self.egress.clone())
    }

    fn find(&self, classid: u32) -> u32 {
        let minor = classid & h::MIN_MASK;
        match EGRESS {
            false => minor + 1,
            true if matches!(minor, h::MIN_INGRESS | h::MIN_EGRESS) => minor,
            true => 0,
        }
    }

    fn block(&self, class: u32) -> Option<Arc<Block>> {
        match (EGRESS, class) {
            (false, _) | (true, h::MIN_INGRESS) => Some(self.ingress.clone()),
            (true, h::MIN_EGRESS) => self.egress.clone(),
            _ => None,
        }
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        self.egress.iter().chain([&self.ingress]).cloned().collect()
    }
}

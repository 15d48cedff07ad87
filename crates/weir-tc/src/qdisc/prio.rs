// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `prio`: bands served strictly in order.
//!
//! Mirrors net/sched/sch_prio.c. Parameters: `bands` (2 to 16; default of tc 3), `priomap` (the band of
//! each of the 16 packet priorities; default of tc 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1). Class `n` is band
//! `n - 1`, with a `pfifo` under it until another qdisc is grafted. A packet's band: the class a filter
//! names; the class in its own priority, if that has the qdisc's handle; else by the priomap.
//!
//! Fewer bands drop what waits in those taken away. No offload.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Fixed, TcMsg, TcPrioQopt, Writer};
use weir_packet::Packet;

use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Peek, Qdisc, QueueCx,
    classify,
};
use crate::block::Block;

/// The kind's line.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    filters: true,
    ..Ops::new("prio", create)
};

/// `TCQ_PRIO_BANDS`, `TCQ_MIN_PRIO_BANDS`
const BANDS: std::ops::RangeInclusive<i32> = 2..=16;

/// The qdisc.
pub struct Prio {
    block: Arc<Block>,
    handle: u32,
    priomap: [u8; 16],
    bands: Vec<Leaf>,
    total: Load,
}

fn qopt(create: &Create<'_>) -> Result<TcPrioQopt, Error> {
    let qopt = create
        .options
        .and_then(|options| TcPrioQopt::from_bytes(options.payload));
    let qopt = qopt.ok_or(Error::new(EINVAL))?;
    let fits = qopt
        .priomap
        .iter()
        .all(|&band| i32::from(band) < qopt.bands);
    if !BANDS.contains(&qopt.bands) || !fits {
        return Err(Error::new(EINVAL));
    }
    Ok(qopt)
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let qopt = qopt(create)?;
    let bands = (1..=qopt.bands as u32)
        .map(|class| create.pfifo(class))
        .collect();
    Ok(Box::new(Prio {
        block: create.block(),
        handle: create.handle,
        priomap: qopt.priomap,
        bands,
        total: Load::default(),
    }))
}

impl Prio {
    fn by_priority(&self, priority: u32) -> usize {
        let priority = if priority & h::MAJ_MASK != 0 {
            0
        } else {
            priority & 15
        };
        // The priomap names bands there are.
        usize::from(self.priomap[priority as usize])
    }

    fn by_class(&self, class: u32) -> usize {
        let band = (class & h::MIN_MASK).wrapping_sub(1) as usize;
        if band < self.bands.len() {
            return band;
        }
        self.by_priority(0)
    }
}

impl Qdisc for Prio {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (packet, band) = if packet.priority & h::MAJ_MASK == self.handle {
            let band = self.by_class(packet.priority);
            (packet, band)
        } else {
            match classify(&self.block, q, packet) {
                Ok((packet, Some(class))) => (packet, self.by_class(class)),
                Ok((packet, None)) => {
                    let band = self.by_priority(packet.priority);
                    (packet, band)
                }
                Err(ended) => return ended,
            }
        };
        self.bands[band].enqueue(q, packet, &mut self.total).0
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let mut bands = self.bands.iter();
        bands.find_map(|band| band.dequeue(q, &mut self.total).0)
    }

    fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Peek {
        let mut bands = self.bands.iter();
        Peek::Next(bands.find_map(|band| band.peek(q, &mut self.total)))
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for band in &self.bands {
            band.purge(&mut self.total, out);
        }
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let qopt = qopt(create)?;
        let bands = qopt.bands as usize;
        for band in self.bands.drain(bands.min(self.bands.len())..) {
            band.purge(&mut self.total, &mut gone.drops);
            gone.nodes.extend(band.node());
        }
        for class in self.bands.len() + 1..=bands {
            self.bands.push(create.pfifo(class as u32));
        }
        self.priomap = qopt.priomap;
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let qopt = TcPrioQopt {
            bands: self.bands.len() as i32,
            priomap: self.priomap,
        };
        w.put_fixed(tca::OPTIONS, &qopt);
    }

    fn find(&self, classid: u32) -> u32 {
        match classid & h::MIN_MASK {
            class if (1..=self.bands.len() as u32).contains(&class) => class,
            _ => 0,
        }
    }

    fn leaf(&self, class: u32) -> Option<Arc<Node>> {
        self.bands.get((class as usize).checked_sub(1)?)?.node()
    }

    fn graft(
        &mut self,
        class: u32,
        new: Option<Arc<Node>>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        let band = (class as usize)
            .checked_sub(1)
            .and_then(|band| self.bands.get_mut(band));
        let Some(band) = band else { return Ok(None) };
        let new = new.map_or_else(|| create.pfifo(class), |new| Leaf::new(Some(new)));
        Ok(band.replace(new, &mut self.total, gone))
    }

    fn child_changed(&mut self, _class: u32, before: Load, after: Load) {
        self.total.moved(before, after);
    }

    fn block(&self, class: u32) -> Option<Arc<Block>> {
        (class == 0).then(|| self.block.clone())
    }

    fn classes(&self) -> Vec<u32> {
        (1..=self.bands.len() as u32).collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.handle |= class;
        tcm.info = self.leaf(class).map_or(0, |leaf| leaf.handle);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        Some(self.leaf(class)?.stats().into())
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        vec![self.block.clone()]
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `prio`: bands served strictly in order.
//!
//! Mirrors net/sched/sch_prio.c. Parameters: `bands` (2 to 16; tc's default is 3), `priomap` (the
//! band of each of the 16 packet priorities; tc's default is 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1).
//! Class `n` is band `n - 1`, with a `pfifo` under it until another qdisc is grafted. A packet's
//! band is named by a filter, else by its own priority if that has the qdisc's handle, else by the
//! priomap.
//!
//! If the number of bands is reduced, the packets of the removed bands are dropped. Offload is not
//! supported.

use std::sync::Arc;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Fixed, TcPrioQopt, Writer};
use weir_packet::Packet;

use super::bands::Bands;
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Peek, Qdisc, QueueCx, classify,
};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    refills: true,
    filters: true,
    ..Ops::new("prio", create)
};

/// Permitted numbers of bands (`TCQ_MIN_PRIO_BANDS`, `TCQ_PRIO_BANDS`).
const BANDS: std::ops::RangeInclusive<i32> = 2..=16;

/// The state of the qdisc.
pub struct Prio {
    block: Arc<Block>,
    handle: u32,
    priomap: [u8; 16],
    bands: Bands,
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
    let bands = Bands::new(qopt.bands as u32, |class| create.pfifo(class));
    Ok(Box::new(Prio {
        block: create.block(),
        handle: create.handle,
        priomap: qopt.priomap,
        bands,
    }))
}

impl Prio {
    fn by_priority(&self, priority: u32) -> usize {
        let priority = if priority & h::MAJ_MASK != 0 {
            0
        } else {
            priority & 15
        };
        // The priomap names only existing bands.
        usize::from(self.priomap[priority as usize])
    }

    fn by_class(&self, class: u32) -> usize {
        let band = (class & h::MIN_MASK).wrapping_sub(1) as usize;
        if band < self.bands.count() as usize {
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
        self.bands.enqueue(band, q, packet)
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let mut bands = 0..self.bands.count() as usize;
        bands.find_map(|band| self.bands.dequeue(band, q))
    }

    fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Peek {
        let mut bands = 0..self.bands.count() as usize;
        Peek::Next(bands.find_map(|band| self.bands.front(band, q)))
    }

    fn load(&self) -> Load {
        self.bands.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.bands.reset(out);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let qopt = qopt(create)?;
        let pfifo = |class| create.pfifo(class);
        self.bands.resize(qopt.bands as u32, pfifo, gone);
        self.priomap = qopt.priomap;
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let qopt = TcPrioQopt {
            bands: self.bands.count() as i32,
            priomap: self.priomap,
        };
        w.put_fixed(tca::OPTIONS, &qopt);
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        self.bands.slot(class)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        self.bands.slot_mut(class)
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        Some(self.bands.class_stats(class))
    }
}

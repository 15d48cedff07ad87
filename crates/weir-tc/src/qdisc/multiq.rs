// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `multiq`: a band for each transmit queue of the device, served in turn.
//!
//! Mirrors net/sched/sch_multiq.c. It has no parameters; it shows the bands in use and the largest
//! number of bands. Class `n` is band `n - 1`, with a `pfifo` under it until another qdisc is
//! grafted. A change fills the bands without a qdisc. A packet's band is its queue, which filters
//! may set (`skbedit queue_mapping`); a queue beyond the bands is band 0. It is refused on a device
//! with one transmit queue.
//!
//! Stopped transmit queues are not skipped, because queues do not stop one by one.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca;
use weir_netlink::{Error, Fixed, TcMultiqQopt, Writer};
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
    filters: true,
    ..Ops::new("multiq", create)
};

/// The state of the qdisc.
struct Multiq {
    block: Arc<Block>,
    bands: Bands,
    /// The band served last.
    current: usize,
}

/// Makes the checks of `multiq_tune`.
fn check(create: &Create<'_>) -> Result<(), Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    if create.device.tx_queues() == 1 {
        return Err(Error::new(EOPNOTSUPP));
    }
    match TcMultiqQopt::from_bytes(options.payload) {
        Some(_) => Ok(()),
        None => Err(Error::new(EINVAL)),
    }
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    check(create)?;
    let count = create.device.tx_queues();
    Ok(Box::new(Multiq {
        block: create.block(),
        bands: Bands::new(count, |class| create.pfifo(class)),
        current: 0,
    }))
}

impl Multiq {
    fn after(&self, band: usize) -> usize {
        match band + 1 {
            next if next < self.bands.count() as usize => next,
            _ => 0,
        }
    }
}

impl Qdisc for Multiq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (packet, _) = match classify(&self.block, q, packet) {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let band = usize::from(packet.queue);
        let band = if band < self.bands.count() as usize {
            band
        } else {
            0
        };
        self.bands.enqueue(band, q, packet)
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        (0..self.bands.count()).find_map(|_| {
            self.current = self.after(self.current);
            self.bands.dequeue(self.current, q)
        })
    }

    fn peek(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Peek {
        let mut band = self.current;
        Peek::Next((0..self.bands.count()).find_map(|_| {
            band = self.after(band);
            self.bands.front(band, q)
        }))
    }

    fn load(&self) -> Load {
        self.bands.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.bands.reset(out);
        self.current = 0;
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        check(create)?;
        self.bands.fill(|class| create.pfifo(class));
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let bands = self.bands.count() as u16;
        let qopt = TcMultiqQopt {
            bands,
            max_bands: bands,
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

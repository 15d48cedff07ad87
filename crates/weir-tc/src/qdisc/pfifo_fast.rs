// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pfifo_fast`: three bands by packet priority, each first in, first out. It is the default of
//! devices that queue.
//!
//! Mirrors `pfifo_fast_ops` (net/sched/sch_generic.c). It has no parameters. A band holds as many
//! packets as the device's txqueuelen at the time of creation (a device with a txqueuelen of 0 gets
//! `noqueue`). The bands of priorities 0 to 15 are 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1. A packet over a
//! band's limit is dropped (QDISC_DROP).
//!
//! A change of txqueuelen affects new qdiscs only.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::{Error, TcPrioQopt, Writer, tca};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Front, Load, Ops, Peek, Qdisc, QueueCx, pkt_len};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    ..Ops::new("pfifo_fast", create)
};

const BANDS: usize = 3;
/// The band of each priority (`sch_default_prio2band`).
const PRIO2BAND: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// The state of the qdisc.
#[derive(Debug, Default)]
pub struct PfifoFast {
    bands: [VecDeque<Packet>; BANDS],
    load: Load,
    limit: usize,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let limit = create.device.tx_queue_len() as usize;
    if limit == 0 {
        return Err(Error::new(EINVAL));
    }
    Ok(Box::new(PfifoFast {
        limit,
        ..PfifoFast::default()
    }))
}

impl Qdisc for PfifoFast {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let band = PRIO2BAND[(packet.priority & 15) as usize];
        let band = &mut self.bands[usize::from(band)];
        if band.len() >= self.limit {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        self.load.add(pkt_len(&packet));
        band.push_back(packet);
        Enqueued::Queued
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let packet = self.bands.iter_mut().find_map(VecDeque::pop_front)?;
        self.load.sub(pkt_len(&packet));
        Some(packet)
    }

    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.bands.iter().find_map(VecDeque::front).map(Front::of))
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        self.load = Load::default();
        for packet in self.bands.iter_mut().flat_map(|band| band.drain(..)) {
            out.push((packet, DropReason::QDISC_DROP));
        }
    }

    fn dump(&self, w: &mut Writer) {
        let qopt = TcPrioQopt {
            bands: BANDS as i32,
            priomap: PRIO2BAND,
        };
        w.put_fixed(tca::OPTIONS, &qopt);
    }
}

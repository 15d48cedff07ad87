// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pfifo`, `bfifo`, `pfifo_head_drop`: first in, first out.
//!
//! Mirrors net/sched/sch_fifo.c.
//!
//! Parameter: `limit`, in packets (`pfifo`, `pfifo_head_drop`; default: the device's txqueuelen) or
//! bytes (`bfifo`; default: txqueuelen times the sum of MTU and link-layer header). A packet over
//! the limit is dropped (QDISC_DROP). `pfifo_head_drop` drops the oldest packet instead and
//! enqueues the new one, unless the limit is 0. A change of the limit drops no waiting packet.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::{Error, Fixed, TcFifoQopt, Writer, tca};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Front, Gone, Load, Ops, Peek, Qdisc, QueueCx, pkt_len};

/// The entry of `pfifo` in the table of kinds.
pub const PFIFO: Ops = Ops {
    can_change: true,
    ..Ops::new("pfifo", create::<PACKETS>)
};
/// The entry of `bfifo` in the table of kinds.
pub const BFIFO: Ops = Ops {
    can_change: true,
    ..Ops::new("bfifo", create::<OCTETS>)
};
/// The entry of `pfifo_head_drop` in the table of kinds.
pub const PFIFO_HEAD_DROP: Ops = Ops {
    can_change: true,
    ..Ops::new("pfifo_head_drop", create::<HEAD_DROP>)
};

const PACKETS: u8 = 0;
const OCTETS: u8 = 1;
const HEAD_DROP: u8 = 2;

/// A queue with a limit of kind `KIND`.
#[derive(Debug, Default)]
pub struct Fifo<const KIND: u8> {
    /// The oldest packet. A queue that never holds two packets allocates nothing.
    first: Option<Packet>,
    /// The other packets.
    queue: VecDeque<Packet>,
    load: Load,
    limit: u32,
}

fn limit<const KIND: u8>(create: &Create<'_>) -> Result<u32, Error> {
    match &create.options {
        Some(options) => match TcFifoQopt::from_bytes(options.payload) {
            Some(qopt) => Ok(qopt.limit),
            None => Err(Error::new(EINVAL)),
        },
        None if KIND == OCTETS => {
            let frame = create.device.mtu() + create.device.header_len();
            Ok(create.device.tx_queue_len().wrapping_mul(frame))
        }
        None => Ok(create.device.tx_queue_len()),
    }
}

fn create<const KIND: u8>(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(Fifo::<KIND> {
        limit: limit::<KIND>(create)?,
        ..Fifo::default()
    }))
}

/// Makes an empty `pfifo` with a limit, for the classes of other qdiscs.
pub fn pfifo(limit: u32) -> Box<dyn Qdisc> {
    Box::new(Fifo::<PACKETS> {
        limit,
        ..Fifo::default()
    })
}

/// Makes an empty `bfifo` with a limit, for the classes of other qdiscs.
pub fn bfifo(limit: u32) -> Box<dyn Qdisc> {
    Box::new(Fifo::<OCTETS> {
        limit,
        ..Fifo::default()
    })
}

impl<const KIND: u8> Fifo<KIND> {
    fn pop(&mut self) -> Option<Packet> {
        let packet = std::mem::replace(&mut self.first, self.queue.pop_front())?;
        self.load.sub(pkt_len(&packet));
        Some(packet)
    }
}

impl<const KIND: u8> Qdisc for Fifo<KIND> {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let fits = match KIND {
            OCTETS => {
                let waiting = u64::from(q.waiting(self.load).backlog);
                waiting + u64::from(pkt_len(&packet)) <= u64::from(self.limit)
            }
            _ => q.waiting(self.load).len < self.limit,
        };
        let mut result = Enqueued::Queued;
        if !fits {
            let oldest = if KIND == HEAD_DROP && self.limit > 0 {
                self.pop()
            } else {
                None
            };
            let Some(oldest) = oldest else {
                q.drops.push((packet, DropReason::QDISC_DROP));
                return Enqueued::Dropped;
            };
            q.drops.push((oldest, DropReason::QDISC_DROP));
            result = Enqueued::Congested;
        }
        self.load.add(pkt_len(&packet));
        match self.first {
            None => self.first = Some(packet),
            Some(_) => self.queue.push_back(packet),
        }
        result
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        self.pop()
    }

    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.first.as_ref().map(Front::of))
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        self.load = Load::default();
        out.extend(
            self.first
                .take()
                .into_iter()
                .chain(self.queue.drain(..))
                .map(|packet| (packet, DropReason::QDISC_DROP)),
        );
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        self.limit = limit::<KIND>(create)?;
        Ok(())
    }

    fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    fn dump(&self, w: &mut Writer) {
        w.put_fixed(tca::OPTIONS, &TcFifoQopt { limit: self.limit });
    }
}

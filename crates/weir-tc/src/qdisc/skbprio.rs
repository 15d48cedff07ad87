// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `skbprio`: a queue per priority, the highest first. Over the limit, the lowest one loses its
//! newest packet.
//!
//! Mirrors net/sched/sch_skbprio.c. Parameter: `limit` (packets, default 64). Priorities above 63
//! count as 63. An arriving packet with the lowest priority of all is dropped itself. Drops have
//! the reason QDISC_OVERLIMIT. Class `n` is priority `n - 1`.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, h};
use weir_netlink::{Error, Fixed, TcFifoQopt, TcMsg, Writer};
use weir_packet::{DropReason, Packet};

use super::{ClassStats, Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, pkt_len};
use crate::counters::Queue;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    ..Ops::new("skbprio", create)
};

/// Number of priorities (`SKBPRIO_MAX_PRIORITY`).
const PRIORITIES: usize = 64;

#[derive(Debug, Default)]
struct Band {
    queue: VecDeque<Packet>,
    backlog: u32,
    drops: u32,
}

/// The state of the qdisc.
struct SkbPrio {
    bands: Vec<Band>,
    /// Bit mask of the priorities that have packets.
    used: u64,
    load: Load,
    limit: u32,
}

fn limit(create: &Create<'_>) -> Result<Option<u32>, Error> {
    let Some(options) = create.options else {
        return Ok(None);
    };
    // `struct tc_skbprio_qopt` has only a limit as well.
    let qopt = TcFifoQopt::from_bytes(options.payload);
    let qopt = qopt.filter(|_| options.len() == TcFifoQopt::LEN);
    Ok(Some(qopt.ok_or(Error::new(EINVAL))?.limit))
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(SkbPrio {
        bands: (0..PRIORITIES).map(|_| Band::default()).collect(),
        used: 0,
        load: Load::default(),
        limit: limit(create)?.unwrap_or(64),
    }))
}

impl SkbPrio {
    fn push(&mut self, priority: usize, packet: Packet) {
        let len = pkt_len(&packet);
        let band = &mut self.bands[priority];
        band.queue.push_back(packet);
        band.backlog = band.backlog.wrapping_add(len);
        self.load.add(len);
        self.used |= 1 << priority;
    }

    fn pop(&mut self, priority: usize, newest: bool) -> Option<Packet> {
        let band = &mut self.bands[priority];
        let packet = match newest {
            true => band.queue.pop_back(),
            false => band.queue.pop_front(),
        }?;
        let len = pkt_len(&packet);
        band.backlog = band.backlog.wrapping_sub(len);
        self.load.sub(len);
        if band.queue.is_empty() {
            self.used &= !(1 << priority);
        }
        Some(packet)
    }
}

impl Qdisc for SkbPrio {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let priority = (packet.priority as usize).min(PRIORITIES - 1);
        if q.waiting(self.load).len < self.limit {
            self.push(priority, packet);
            return Enqueued::Queued;
        }
        let lowest = self.used.trailing_zeros() as usize;
        if priority <= lowest {
            self.bands[priority].drops += 1;
            return q.drop(packet, DropReason::QDISC_OVERLIMIT);
        }
        self.push(priority, packet);
        if let Some(newest) = self.pop(lowest, true) {
            self.bands[lowest].drops += 1;
            q.drop(newest, DropReason::QDISC_OVERLIMIT);
        }
        Enqueued::Congested
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let highest = self.used.checked_ilog2()?;
        self.pop(highest as usize, false)
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for band in &mut self.bands {
            let all = std::mem::take(band).queue.into_iter();
            out.extend(all.map(|packet| (packet, DropReason::QDISC_DROP)));
        }
        (self.used, self.load) = (0, Load::default());
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        if let Some(limit) = limit(create)? {
            self.limit = limit;
        }
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        w.put_fixed(tca::OPTIONS, &TcFifoQopt { limit: self.limit });
    }

    fn classes(&self) -> Vec<u32> {
        (1..=PRIORITIES as u32).collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.handle |= class & h::MIN_MASK;
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let band = self.bands.get(class as usize - 1)?;
        Some(ClassStats {
            queue: Queue {
                // Linux never counts the packets of a class.
                qlen: 0,
                backlog: band.backlog,
                drops: band.drops,
                overlimits: band.drops,
                ..Queue::default()
            },
            queue_only: true,
            ..ClassStats::default()
        })
    }
}

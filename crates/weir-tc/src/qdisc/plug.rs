// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plug`: packets wait until a request releases them.
//!
//! Mirrors net/sched/sch_plug.c. Parameter: `limit` (bytes, default txqueuelen times the largest
//! frame). Requests: `block` (packets that arrive from now on wait), `release` (the packets that
//! arrived between the last two blocks leave; creation counts as a block), `release_indefinite`
//! (all packets leave until the next block), `limit`. It starts blocked. A packet over the limit is
//! dropped (QDISC_DROP). It shows no options.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::plug;
use weir_netlink::{Error, Fixed, TcPlugQopt};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, pkt_len};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("plug", create)
};

/// The state of the qdisc.
struct Plug {
    queue: VecDeque<Packet>,
    backlog: u32,
    limit: u32,
    unplugged: bool,
    throttled: bool,
    /// Packets since the last block. `last` counts those of the round before, `to_release` those
    /// released.
    current: u32,
    last: u32,
    to_release: u32,
}

fn qopt(create: &Create<'_>) -> Result<Option<TcPlugQopt>, Error> {
    let Some(options) = create.options else {
        return Ok(None);
    };
    let qopt = TcPlugQopt::from_bytes(options.payload);
    qopt.map(Some).ok_or(Error::new(EINVAL))
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let limit = match qopt(create)? {
        Some(qopt) => qopt.limit,
        None => create
            .device
            .tx_queue_len()
            .wrapping_mul(create.psched_mtu()),
    };
    Ok(Box::new(Plug {
        queue: VecDeque::new(),
        backlog: 0,
        limit,
        unplugged: false,
        throttled: true,
        current: 0,
        last: 0,
        to_release: 0,
    }))
}

impl Qdisc for Plug {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let len = pkt_len(&packet);
        let waiting = u64::from(q.waiting(self.load()).backlog);
        if waiting + u64::from(len) > u64::from(self.limit) {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        if !self.unplugged {
            self.current += 1;
        }
        self.backlog = self.backlog.wrapping_add(len);
        self.queue.push_back(packet);
        Enqueued::Queued
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        if self.throttled {
            return None;
        }
        if !self.unplugged {
            if self.to_release == 0 {
                // All released packets have left. The queue is blocked again.
                self.throttled = true;
                return None;
            }
            self.to_release -= 1;
        }
        let packet = self.queue.pop_front()?;
        self.backlog = self.backlog.wrapping_sub(pkt_len(&packet));
        Some(packet)
    }

    fn load(&self) -> Load {
        Load {
            len: self.queue.len() as u32,
            backlog: self.backlog,
        }
    }

    fn reset(&mut self, out: &mut Drops) {
        let all = self.queue.drain(..);
        out.extend(all.map(|packet| (packet, DropReason::QDISC_DROP)));
        self.backlog = 0;
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let qopt = qopt(create)?.ok_or(Error::new(EINVAL))?;
        match qopt.action {
            plug::BUFFER => {
                self.last = std::mem::take(&mut self.current);
                if self.unplugged {
                    self.throttled = true;
                }
                self.unplugged = false;
            }
            plug::RELEASE_ONE => {
                self.to_release += std::mem::take(&mut self.last);
                (self.throttled, gone.wake) = (false, true);
            }
            plug::RELEASE_INDEFINITE => {
                (self.to_release, self.last, self.current) = (0, 0, 0);
                (self.unplugged, self.throttled, gone.wake) = (true, false, true);
            }
            plug::LIMIT => self.limit = qopt.limit,
            _ => return Err(Error::new(EINVAL)),
        }
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `taprio`: gates of traffic classes that open and close by the clock (IEEE 802.1Qbv), in
//! software.
//!
//! Mirrors net/sched/sch_taprio.c. Parameters:
//!
//! - `num_tc`, `map`, `queues`: as in `mqprio`.
//! - `clockid`: TAI and REALTIME are the wall-clock time of the stack's clock; MONOTONIC and
//!   BOOTTIME are the stack's clock, which starts at 0.
//! - `base-time`: start of the schedule, ns of that clock, default 0.
//! - `cycle-time`: ns, default the sum of the intervals.
//! - `cycle-time-extension`: ns by which the last entry may be stretched to meet the next schedule.
//! - `sched-entry`: a mask of the classes whose gates are open, and the interval in ns.
//! - `max-sdu` of a class.
//! - `flags 1` with `txtime-delay`: txtime-assist.
//!
//! Class `n` is transmit queue `n - 1`, with a `pfifo` under it until another qdisc is grafted. The
//! queues are served strictly in order.
//!
//! All gates are open before the first schedule begins. A packet leaves while the gate of its class
//! is open, if its transmission ends before the entry does and if the entry's byte budget suffices.
//! The budget is the number of bytes that the link carries in the interval at its speed (10 Mbit/s
//! if the device reports none). An attempt that exceeds the budget uses it up all the same. A
//! changed schedule waits as the admin schedule until its base time.
//!
//! Differences from Linux: an interval of zero is refused at creation too; Linux accepts it and may
//! hang. A qdisc grafted to a device that is up does not stop the schedule. Full offload is refused
//! as by a device without a clock.

mod parse;
mod schedule;
#[cfg(test)]
mod tests;
mod txtime;

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, h, taprio as attr};
use weir_netlink::{Error, TcMsg, Writer};
use weir_packet::{DropReason, Packet};

use self::schedule::{Gates, Schedule};
use super::bands::Bands;
use super::{Create, Drops, Enqueued, Front, Gone, Leaf, Load, Node, Ops, Qdisc, QueueCx};
use crate::txq::{CLASSES, TrafficClasses};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    attach: true,
    own_leaves: true,
    ..Ops::new("taprio", create)
};

/// Flag of txtime-assist (`TCA_TAPRIO_ATTR_FLAG_TXTIME_ASSIST`).
const ASSIST: u32 = 1;

/// The state of the qdisc.
struct Taprio {
    queues: Bands,
    classes: TrafficClasses,
    gates: Gates,
    clockid: i32,
    flags: u32,
    /// `txtime-delay`, in ns.
    delay: u32,
    /// Length in bytes of the largest packet of each class without its link-layer header; 0 for no
    /// limit.
    max_sdu: [u32; CLASSES],
    header_len: u32,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let refused = |text: &'static str| Error::msg(EOPNOTSUPP, text);
    if create.parent != h::ROOT {
        return Err(refused("sch_taprio: Can only be attached as root qdisc"));
    }
    let count = create.device.tx_queues();
    if count == 1 {
        return Err(refused("sch_taprio: Multi-queue device is required"));
    }
    if create.options.is_none() {
        return Err(Error::new(EINVAL));
    }
    let request = parse::Request::of(create, None)?;
    let missing = || Error::msg(EINVAL, "'mqprio' configuration is necessary");
    let classes = request.classes.ok_or_else(missing)?;
    let mut taprio = Taprio {
        queues: Bands::new(count, |class| create.shown_pfifo(class)),
        classes,
        gates: Gates::new(parse::offset(request.clockid, create)),
        clockid: request.clockid,
        flags: request.flags,
        delay: 0,
        max_sdu: [0; CLASSES],
        header_len: create.device.header_len(),
    };
    taprio.apply(request, create);
    Ok(Box::new(taprio))
}

impl Taprio {
    /// Applies a request that was checked (the second half of `taprio_change`).
    fn apply(&mut self, request: parse::Request, create: &Create<'_>) {
        self.max_sdu = request.max_sdu;
        self.delay = request.delay.unwrap_or(self.delay);
        self.gates.picos = parse::picos_per_octet(create.device.speed());
        let assist = self.flags & ASSIST != 0;
        self.gates.submit(request.schedule, create.now(), !assist);
    }

    /// Returns whether the gate of the front packet's class is open and the budget suffices for it
    /// to leave.
    fn may_leave(&mut self, front: Front, now: u64) -> bool {
        let class = self.classes.of_priority[front.priority as usize & 15];
        self.gates.admit(class, front.len, now)
    }
}

impl Qdisc for Taprio {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, mut packet: Packet) -> Enqueued {
        if packet.segments().is_some() {
            // A long packet may take longer than any interval.
            return q.enqueue_segments(packet, |q, segment| self.enqueue(q, segment));
        }
        let class = self.classes.of_packet(&packet);
        let sdu = self.max_sdu[usize::from(class) % CLASSES];
        let long = sdu != 0 && packet.len() as u64 > u64::from(sdu) + u64::from(self.header_len);
        let queue = usize::from(packet.queue);
        if long || queue >= self.queues.count() as usize {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        if self.flags & ASSIST != 0 {
            let (len, now) = (super::pkt_len(&packet), q.now());
            let Some(time) = self.gates.transmit_time(class, len, now, self.delay) else {
                return q.drop(packet, DropReason::QDISC_DROP);
            };
            packet.set_departure(Some(time));
        }
        let before = q.drops.len();
        let result = self.queues.enqueue(queue, q, packet);
        q.note().uncounted += (q.drops.len() - before) as u32;
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now();
        let assist = self.flags & ASSIST != 0;
        self.gates.settle(now);
        let closed = !assist && self.gates.mask() == 0;
        let mut waits = false;
        for queue in (0..self.queues.count() as usize).take_while(|_| !closed) {
            if !assist {
                let Some(front) = self.queues.front(queue, q) else {
                    continue;
                };
                if !self.may_leave(front, now) {
                    waits |= self.may_ever_leave(front);
                    continue;
                }
            }
            if let Some(packet) = self.queues.dequeue(queue, q) {
                return Some(packet);
            }
        }
        if closed {
            waits = (0..self.queues.count() as usize).any(|queue| {
                self.queues
                    .front(queue, q)
                    .is_some_and(|front| self.may_ever_leave(front))
            });
        }
        if waits && let Some(time) = self.gates.next(now) {
            q.watchdog(time);
        }
        None
    }

    fn load(&self) -> Load {
        self.queues.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.queues.reset(out);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.gates.settle(create.now());
        let request = parse::Request::of(create, Some(self))?;
        self.apply(request, create);
        gone.wake = true;
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.gates.settle(now);
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_fixed(attr::PRIOMAP, &self.classes.shown());
        w.put_i32(attr::SCHED_CLOCKID, self.clockid);
        if self.flags != 0 {
            w.put_u32(attr::FLAGS, self.flags);
        }
        if self.delay != 0 {
            w.put_u32(attr::TXTIME_DELAY, self.delay);
        }
        for (class, sdu) in (0..).zip(self.max_sdu) {
            let entry = w.nest(attr::TC_ENTRY);
            w.put_u32(attr::TC_ENTRY_INDEX, class);
            w.put_u32(attr::TC_ENTRY_MAX_SDU, sdu);
            w.end(entry);
        }
        if let Some(oper) = &self.gates.oper {
            put(oper, w);
        }
        if let Some(admin) = &self.gates.admin {
            let inside = w.nest_noflag(attr::ADMIN_SCHED);
            put(admin, w);
            w.end(inside);
        }
        w.end(nest);
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
        _create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        Ok(self.queues.graft(class, Leaf::new(new), gone))
    }

    fn traffic_classes(&self) -> Option<&TrafficClasses> {
        Some(&self.classes)
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.parent = h::ROOT;
        tcm.info = tcm.handle;
        tcm.handle |= class;
    }
}

impl Taprio {
    /// Returns whether any gate, now or later, can let the front packet leave.
    fn may_ever_leave(&self, front: Front) -> bool {
        let class = self.classes.of_priority[front.priority as usize & 15];
        self.gates.ever_admits(class, front.len)
    }
}

/// Writes a schedule (`dump_schedule`).
fn put(schedule: &Schedule, w: &mut Writer) {
    w.put_u64_pad(attr::SCHED_BASE_TIME, schedule.base as u64, attr::PAD);
    w.put_u64_pad(attr::SCHED_CYCLE_TIME, schedule.cycle as u64, attr::PAD);
    let extension = schedule.extension as u64;
    w.put_u64_pad(attr::SCHED_CYCLE_TIME_EXTENSION, extension, attr::PAD);
    let list = w.nest_noflag(attr::SCHED_ENTRY_LIST);
    for (index, entry) in (0..).zip(&schedule.entries) {
        let item = w.nest_noflag(attr::SCHED_ENTRY);
        w.put_u32(attr::ENTRY_INDEX, index);
        w.put_u8(attr::ENTRY_CMD, entry.command);
        w.put_u32(attr::ENTRY_GATE_MASK, entry.mask);
        w.put_u32(attr::ENTRY_INTERVAL, entry.interval);
        w.end(item);
    }
    w.end(list);
}

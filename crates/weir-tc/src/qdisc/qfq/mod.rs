// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `qfq`: classes served by weight, almost in the order of an ideal fluid system, at a cost that
//! does not depend on their number.
//!
//! Mirrors net/sched/sch_qfq.c (QFQ+; `schedule.rs`). The qdisc has no parameters. A class has
//! `weight` (1 to 1024, default 1; at most 65536 in total) and `maxpkt` (bytes of its largest
//! packet, 512 to 65536, default the largest frame; raised when a larger packet arrives). A
//! packet's class is named by its priority, else by a filter. A packet without a class is dropped
//! (QDISC_DROP). The qdiscs of classes should be work-conserving.

mod schedule;

use std::sync::Arc;

use weir_netlink::errno::{EBUSY, EINVAL};
use weir_netlink::tca::{self, h, qfq as attr};
use weir_netlink::{Error, Policy, Rule, Strictness, Table, TcMsg, Writer, policy};
use weir_packet::{DropReason, Packet};

use self::schedule::{MAX_LMAX, MAX_WEIGHT, MIN_LMAX, Schedule, rounded_weight};
use super::classes::Classes;
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx, pkt_len, words,
};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    class_rates: Some(["", ""]),
    refills: true,
    filters: true,
    ..Ops::new("qfq", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::WEIGHT => Rule::u32().range(1, MAX_WEIGHT as u64),
    attr::LMAX => Rule::u32().range(MIN_LMAX as u64, MAX_LMAX as u64),
};

struct Class {
    aggregate: u32,
    /// Remaining bytes of its turn. It is compared without a sign, as in Linux.
    deficit: u32,
    active: bool,
    leaf: Leaf,
    bytes: u64,
    packets: u64,
}

/// The state of the qdisc.
struct Qfq {
    block: Arc<Block>,
    handle: u32,
    classes: Classes<Class>,
    schedule: Schedule,
    total: Load,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(Qfq {
        block: create.block(),
        handle: create.handle,
        classes: Classes::default(),
        schedule: Schedule::new(create.device.tx_queue_len()),
        total: Load::default(),
    }))
}

impl Qfq {
    fn deactivate(&mut self, class: u32) {
        if let Some(found) = self.classes.get_mut(class)
            && std::mem::take(&mut found.active)
        {
            self.schedule.deactivate_class(found.aggregate, class);
        }
    }

    /// Moves a class to an aggregate with that weight and packet length (`qfq_change_agg`).
    fn regroup(&mut self, class: u32, weight: u32, lmax: u32) {
        let new = self.schedule.find(weight, lmax);
        self.deactivate(class);
        if let Some(found) = self.classes.get_mut(class) {
            self.schedule.remove_class(found.aggregate);
            found.aggregate = new;
            found.active = found.leaf.load().len > 0;
            self.schedule.add_class(new, class, found.active);
        }
    }

    /// Returns the class whose turn it is in an aggregate, and the length of its next packet.
    /// Removes classes from the aggregate whose queues drop everything when they are peeked.
    fn next(&mut self, aggregate: u32, q: &mut QueueCx<'_, '_, '_>) -> Option<(u32, u32)> {
        let active = &mut self.schedule.get_mut(aggregate).active;
        loop {
            let number = *active.front()?;
            let class = self.classes.get_mut(number)?;
            if let Some(len) = class.leaf.peek(q, &mut self.total) {
                return Some((number, len));
            }
            if class.leaf.load().len > 0 {
                // The queue holds packets back. No other class gets a turn, as in Linux.
                return None;
            }
            class.active = false;
            active.pop_front();
        }
    }
}

impl Qdisc for Qfq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let found = self.classes.of_packet(self.handle, &self.block, q, packet);
        let (packet, class) = match found {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let (len, count) = (pkt_len(&packet), packet.wire_packets());
        let found = class.and_then(|number| Some((number, self.classes.get(number)?.aggregate)));
        let Some((number, aggregate)) = found else {
            return q.drop(packet, DropReason::QDISC_DROP);
        };
        if self.schedule.get(aggregate).lmax < len {
            if len > MAX_LMAX {
                return q.drop(packet, DropReason::QDISC_DROP);
            }
            self.regroup(number, self.schedule.get(aggregate).weight, len);
        }
        let Some(class) = self.classes.get_mut(number) else {
            return q.drop(packet, DropReason::QDISC_DROP);
        };
        let (result, _) = class.leaf.enqueue(q, packet, &mut self.total);
        if result != Enqueued::Queued {
            return result;
        }
        class.bytes = class.bytes.wrapping_add(u64::from(len));
        class.packets = class.packets.wrapping_add(count);
        let aggregate = class.aggregate;
        if class.active {
            // This packet may now be the first of its class, and too long for the rest of its turn.
            let first = class.leaf.peek(q, &mut self.total);
            if first.is_none() && class.leaf.load().len == 0 {
                self.deactivate(number);
                return result;
            }
            let active = &mut self.schedule.get_mut(aggregate).active;
            if first == Some(len) && active.front() == Some(&number) && class.deficit < len {
                active.rotate_left(1);
            }
            return result;
        }
        class.active = true;
        class.deficit = self.schedule.get(aggregate).lmax;
        self.schedule.activate_class(aggregate, number);
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let mut aggregate = self.schedule.in_service?;
        let mut next = self.next(aggregate, q);
        let budget = self.schedule.get(aggregate).budget;
        if next.is_none_or(|(_, len)| budget < len) {
            loop {
                aggregate = self
                    .schedule
                    .next_aggregate(aggregate, self.total.len > 0)?;
                next = self.next(aggregate, q);
                if next.is_some() || !self.schedule.get(aggregate).active.is_empty() {
                    break;
                }
            }
        }
        let (number, len) = next?;
        let class = self.classes.get_mut(number)?;
        let (packet, left) = class.leaf.dequeue(q, &mut self.total);
        let packet = packet?;
        class.deficit = class.deficit.wrapping_sub(len);
        let more = match left.len {
            0 => None,
            _ => class.leaf.peek(q, &mut self.total),
        };
        let found = self.schedule.get_mut(aggregate);
        if more.is_none() && class.leaf.load().len == 0 {
            class.active = false;
            found.active.pop_front();
        } else if class.deficit < more.unwrap_or(0) {
            class.deficit = class.deficit.wrapping_add(found.lmax);
            found.active.rotate_left(1);
        }
        self.schedule.serve(aggregate, len);
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for number in self.classes.numbers() {
            self.deactivate(number);
            if let Some(class) = self.classes.get(number) {
                class.leaf.purge(&mut self.total, out);
            }
        }
    }

    fn find(&self, classid: u32) -> u32 {
        self.classes.find(classid).unwrap_or(0)
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        Some(&self.classes.get(class)?.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let class = self.classes.get_mut(class)?;
        Some((&mut class.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.deactivate(class);
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn classes(&self) -> Vec<u32> {
        self.classes.numbers()
    }

    fn change_class(
        &mut self,
        class: u32,
        (classid, _): (u32, u32),
        tca: &Table<'_>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<u32, Error> {
        let options = tca.get(tca::OPTIONS).ok_or(Error::new(EINVAL))?;
        let tb = options.parse(&POLICY, Strictness::Liberal)?;
        let weight = tb.u32(attr::WEIGHT)?.unwrap_or(1);
        let lmax = match tb.u32(attr::LMAX)? {
            Some(lmax) => lmax,
            None => create.psched_mtu(),
        };
        if !(MIN_LMAX..=MAX_LMAX).contains(&lmax) {
            let message = "sch_qfq: MTU size out of bounds for qfq";
            return Err(Error::msg(EINVAL, message));
        }
        let weight = rounded_weight(weight);
        let old = self.classes.get(class).map(|class| class.aggregate);
        let old_weight = old.map_or(0, |number| self.schedule.get(number).weight);
        if old.is_some_and(|number| self.schedule.get(number).lmax == lmax) && old_weight == weight
        {
            gone.unchanged = true;
            return Ok(class);
        }
        if !self.schedule.fits(old_weight, weight) {
            return Err(Error::new(EINVAL));
        }
        if old.is_some() {
            self.regroup(class, weight, lmax);
            return Ok(class);
        }
        let aggregate = self.schedule.find(weight, lmax);
        let new = Class {
            aggregate,
            deficit: lmax,
            active: false,
            leaf: create.pfifo(classid),
            bytes: 0,
            packets: 0,
        };
        let number = self.classes.insert(classid, new);
        self.schedule.add_class(aggregate, number, false);
        Ok(number)
    }

    fn delete_class(
        &mut self,
        class: u32,
        in_use: bool,
        _create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        if in_use {
            return Err(Error::new(EBUSY));
        }
        self.deactivate(class);
        if let Some(class) = self.classes.remove(class) {
            class.leaf.flush(&mut self.total, gone);
            self.schedule.remove_class(class.aggregate);
            gone.nodes.extend(class.leaf.node());
        }
        Ok(())
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let Some(found) = self.classes.get(class) else {
            return;
        };
        tcm.parent = h::ROOT;
        tcm.handle = self.classes.id(class).unwrap_or(0);
        tcm.info = found.leaf.handle();
        let aggregate = self.schedule.get(found.aggregate);
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_u32(attr::WEIGHT, aggregate.weight);
        w.put_u32(attr::LMAX, aggregate.lmax);
        w.end(nest);
    }

    /// Returns the statistics with `struct tc_qfq_stats`.
    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let class = self.classes.get(class)?;
        let aggregate = self.schedule.get(class.aggregate);
        let (_, _, queue) = class.leaf.stats();
        Some(ClassStats {
            bytes: class.bytes,
            packets: class.packets,
            queue,
            app: Some(words(&[aggregate.weight, aggregate.lmax])),
            ..ClassStats::default()
        })
    }
}

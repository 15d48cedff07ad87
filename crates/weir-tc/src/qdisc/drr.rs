// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `drr`: classes served by deficit round robin.
//!
//! Mirrors net/sched/sch_drr.c. The qdisc has no parameters. A class has `quantum` (bytes per turn,
//! 256 to 1048576; default the largest frame). A packet's class is named by its priority, else by a
//! filter. A packet without a class is dropped (QDISC_DROP).

use std::sync::Arc;

use weir_netlink::errno::{EBUSY, EINVAL};
use weir_netlink::tca::{self, drr as attr, h};
use weir_netlink::{Error, Policy, Rule, Strictness, Table, TcMsg, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::classes::Classes;
use super::rounds::{Rounds, Share, Shares};
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx, pkt_len, words,
};
use crate::block::Block;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    refills: true,
    filters: true,
    class_rates: Some(["Failed to replace estimator"; 2]),
    ..Ops::new("drr", create)
};

static POLICY: Policy = policy! { max attr::MAX; attr::QUANTUM => Rule::u32(), };

struct Class {
    share: Share,
    bytes: u64,
    packets: u64,
}

/// The state of the qdisc.
struct Drr {
    block: Arc<Block>,
    handle: u32,
    classes: Classes<Class>,
    rounds: Rounds,
    total: Load,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    Ok(Box::new(Drr {
        block: create.block(),
        handle: create.handle,
        classes: Classes::default(),
        rounds: Rounds::default(),
        total: Load::default(),
    }))
}

impl Shares for Classes<Class> {
    fn share(&mut self, number: u32) -> Option<&mut Share> {
        Some(&mut self.get_mut(number)?.share)
    }
}

impl Qdisc for Drr {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let found = self.classes.of_packet(self.handle, &self.block, q, packet);
        let (packet, class) = match found {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let Some((number, class)) = class.and_then(|n| Some((n, self.classes.get_mut(n)?))) else {
            return q.drop(packet, DropReason::QDISC_DROP);
        };
        let share = &mut class.share;
        let (result, _) = share.leaf.enqueue(q, packet, &mut self.total);
        if result == Enqueued::Queued {
            self.rounds.activate(number, share, share.quantum);
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let (classes, total) = (&mut self.classes, &mut self.total);
        let (number, packet) = self.rounds.dequeue(classes, q, total)?;
        let class = self.classes.get_mut(number)?;
        class.bytes = class.bytes.wrapping_add(u64::from(pkt_len(&packet)));
        class.packets = class.packets.wrapping_add(packet.wire_packets());
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for class in self.classes.values_mut() {
            class.share.leaf.purge(&mut self.total, out);
        }
        self.rounds.clear(&mut self.classes);
    }

    fn find(&self, classid: u32) -> u32 {
        self.classes.find(classid).unwrap_or(0)
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        Some(&self.classes.get(class)?.share.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let class = self.classes.get_mut(class)?;
        Some((&mut class.share.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.rounds.deactivate(class, &mut self.classes);
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn no_block(&self) -> Option<&'static str> {
        Some("DRR classid must be zero")
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
        _gone: &mut Gone,
    ) -> Result<u32, Error> {
        let message = "DRR options are required for this operation";
        let options = tca.get(tca::OPTIONS).ok_or(Error::msg(EINVAL, message))?;
        let asked = options
            .parse(&POLICY, Strictness::Liberal)?
            .u32(attr::QUANTUM)?;
        if asked == Some(0) {
            return Err(Error::msg(EINVAL, "Specified DRR quantum cannot be zero"));
        }
        let quantum = asked
            .unwrap_or_else(|| create.psched_mtu())
            .clamp(256, 1 << 20);
        if let Some(found) = self.classes.get_mut(class) {
            if asked.is_some() {
                found.share.quantum = quantum;
            }
            return Ok(class);
        }
        let new = Class {
            share: Share::new(create.pfifo(classid), quantum),
            bytes: 0,
            packets: 0,
        };
        Ok(self.classes.insert(classid, new))
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
        self.rounds.deactivate(class, &mut self.classes);
        if let Some(class) = self.classes.remove(class) {
            class.share.leaf.flush(&mut self.total, gone);
            gone.nodes.extend(class.share.leaf.node());
        }
        Ok(())
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let Some(found) = self.classes.get(class) else {
            return;
        };
        tcm.parent = h::ROOT;
        tcm.handle = self.classes.id(class).unwrap_or(0);
        tcm.info = found.share.leaf.handle();
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_u32(attr::QUANTUM, found.share.quantum);
        w.end(nest);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let class = self.classes.get(class)?;
        let (_, _, queue) = class.share.leaf.stats();
        let deficit = if queue.qlen > 0 {
            class.share.deficit
        } else {
            0
        };
        Some(ClassStats {
            bytes: class.bytes,
            packets: class.packets,
            queue,
            app: Some(words(&[deficit])),
            ..ClassStats::default()
        })
    }
}

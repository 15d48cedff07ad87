// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `htb`: a tree of classes, each with a guaranteed rate and a ceiling up to which it may borrow.
//!
//! Mirrors net/sched/sch_htb.c. Parameters: `default` (minor number of the class for packets that
//! no filter names; without it, or if it is an inner class, such packets leave directly), `r2q` (a
//! class's quantum is its rate divided by this; tc's default is 10), `direct_qlen` (packets of the
//! direct queue, default txqueuelen). A class has `rate` and `ceil` (bytes per second, with
//! overhead, mpu and link layer), `burst` and `cburst` (ticks), `prio` (0 to 7, lowest first) and
//! `quantum` (bytes; 1000 to 200000 if computed). There are up to 8 levels.
//!
//! A packet's class is named by its priority, else by the filters, from class to class down to a
//! leaf. Priority or class `MAJOR:0` makes a packet leave directly, before all classes. Classes of
//! one level and priority take turns in the order of their ids. Departures are exact to the
//! nanosecond. A class that a filter names, or that has children, cannot be deleted (EBUSY).
//!
//! Offload is refused.

mod classes;

use std::collections::VecDeque;
use std::sync::Arc;

use weir_netlink::errno::{EBUSY, EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, h, htb as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Table, TcHtbGlob, TcHtbOpt, TcMsg, Writer, policy};
use weir_packet::{DropReason, Packet};

use self::classes::{Class, Tree};
use super::{
    Arrivals, ClassStats, Create, Departures, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc,
    QueueCx, Taker, classify, pkt_len, table, words,
};
use crate::block::Block;
use crate::counters::Queue;
use crate::rate::{self, Rate, TABLE_LEN, ns_to_ticks, ticks_to_ns};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    refills: true,
    filters: true,
    class_rates: Some(["", ""]),
    ..Ops::new("htb", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcHtbOpt::LEN as u16),
    attr::INIT => Rule::unspec(TcHtbGlob::LEN as u16),
    attr::CTAB => Rule::binary(TABLE_LEN as u16),
    attr::RTAB => Rule::binary(TABLE_LEN as u16),
    attr::DIRECT_QLEN => Rule::u32(),
    attr::RATE64 => Rule::u64(),
    attr::CEIL64 => Rule::u64(),
    attr::OFFLOAD => Rule::flag(),
};

/// Version of the interface (`HTB_VER`).
const VERSION: u32 = 0x30011;
/// Number of classes that the nearest cache holds with their queues.
const FEW: usize = 32;
/// Largest number of filter lists that a packet may meet on its way down.
const HOPS: u32 = 1 << 8;

/// The state of the qdisc.
struct Htb {
    block: Arc<Block>,
    handle: u32,
    default: u32,
    rate2quantum: u32,
    direct: VecDeque<Packet>,
    direct_limit: u32,
    direct_packets: u32,
    tree: Tree,
    total: Load,
}

/// The destination of a packet.
enum Destination {
    Direct,
    Class(u32),
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    create.options.ok_or(Error::new(EINVAL))?;
    let tb = table(create.options, &POLICY)?;
    let glob = tb
        .get(attr::INIT)
        .and_then(|init| TcHtbGlob::from_bytes(init.payload));
    let glob = glob.ok_or(Error::new(EINVAL))?;
    if glob.version != VERSION >> 16 {
        return Err(Error::new(EINVAL));
    }
    if tb.has(attr::OFFLOAD) {
        let message = match create.parent {
            h::ROOT => "hw-tc-offload ethtool feature flag must be on",
            _ => "HTB must be the root qdisc to use offload",
        };
        return Err(Error::msg(EOPNOTSUPP, message));
    }
    let direct_limit = tb.u32(attr::DIRECT_QLEN)?;
    Ok(Box::new(Htb {
        block: create.block(),
        handle: create.handle,
        default: glob.defcls,
        rate2quantum: glob.rate2quantum.max(1),
        direct: VecDeque::new(),
        direct_limit: direct_limit.unwrap_or_else(|| create.device.tx_queue_len()),
        direct_packets: 0,
        tree: Tree::default(),
        total: Load::default(),
    }))
}

impl Htb {
    /// Classifies a packet (`htb_classify`).
    fn classify(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> Result<(Packet, Destination), Enqueued> {
        if packet.priority == self.handle {
            return Ok((packet, Destination::Direct));
        }
        let mut block = &self.block;
        if let Some(number) = self.tree.find(packet.priority) {
            let class = self.tree.class(number);
            if class.level == 0 {
                return Ok((packet, Destination::Class(number)));
            }
            block = &class.block;
        }
        let mut packet = packet;
        for _ in 0..HOPS {
            let (back, classid) = classify(block, q, packet)?;
            packet = back;
            let Some(classid) = classid else { break };
            if classid == self.handle {
                return Ok((packet, Destination::Direct));
            }
            let Some(number) = self.tree.find(classid) else {
                break;
            };
            let class = self.tree.class(number);
            if class.level == 0 {
                return Ok((packet, Destination::Class(number)));
            }
            block = &class.block;
        }
        let default = self.handle | (self.default & h::MIN_MASK);
        let leaf = self.tree.find(default);
        let leaf = leaf.filter(|&number| self.tree.class(number).level == 0);
        Ok((packet, leaf.map_or(Destination::Direct, Destination::Class)))
    }

    /// Returns the next packet of a batch and its destination.
    #[inline]
    fn next_destination(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        arrivals: &mut Arrivals<'_, '_>,
    ) -> Option<(Packet, Destination)> {
        loop {
            let packet = arrivals.next(q)?;
            if let Ok(found) = self.classify(q, packet) {
                return Some(found);
            }
        }
    }

    /// Enqueues a packet that leaves before all classes.
    fn enqueue_direct(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if self.direct.len() >= self.direct_limit as usize {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        self.direct_packets = self.direct_packets.wrapping_add(1);
        self.total.add(pkt_len(&packet));
        self.direct.push_back(packet);
        Enqueued::Queued
    }

    /// Dequeues packets into `to`. Returns true if `to` wants no more, false if no packet may
    /// leave.
    fn dequeue_into(&mut self, q: &mut QueueCx<'_, '_, '_>, to: &mut impl Taker) -> bool {
        while let Some(packet) = self.direct.pop_front() {
            self.total.sub(pkt_len(&packet));
            if !to.take(packet) {
                return true;
            }
        }
        match self.tree.dequeue(q, &mut self.total, to) {
            Ok(more) => more,
            Err(next) => {
                q.watchdog(next);
                false
            }
        }
    }

    /// Parses and checks the parameters of a class.
    fn params(&self, tca: &Table<'_>) -> Result<(TcHtbOpt, Rate, Rate), Error> {
        let options = tca.get(tca::OPTIONS).ok_or(Error::new(EINVAL))?;
        let tb = table(Some(options), &POLICY)?;
        let opt = tb
            .get(attr::PARMS)
            .and_then(|opt| TcHtbOpt::from_bytes(opt.payload));
        let mut opt = opt.ok_or(Error::new(EINVAL))?;
        if opt.rate.rate == 0 || opt.ceil.rate == 0 {
            return Err(Error::new(EINVAL));
        }
        for (spec, ty) in [(&mut opt.rate, attr::RTAB), (&mut opt.ceil, attr::CTAB)] {
            if spec.linklayer == tca::linklayer::UNAWARE {
                rate::check_table(spec, tb.get(ty).map(|table| table.payload));
            }
        }
        let rate = Rate::of(&opt.rate, tb.u64(attr::RATE64)?.unwrap_or(0));
        let ceil = Rate::of(&opt.ceil, tb.u64(attr::CEIL64)?.unwrap_or(0));
        Ok((opt, rate, ceil))
    }

    /// Makes a class under `parent`.
    fn new_class(
        &mut self,
        classid: u32,
        parent: u32,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<u32, Error> {
        let parent = match parent {
            h::ROOT => None,
            parent => self.tree.find(parent),
        };
        let wrong = classid == 0 || (classid ^ self.handle) & h::MAJ_MASK != 0;
        if wrong || self.tree.find(classid).is_some() {
            return Err(Error::new(EINVAL));
        }
        let above = parent.and_then(|parent| self.tree.class(parent).parent());
        if above.is_some_and(|above| self.tree.class(above).level < 2) {
            return Err(Error::new(EINVAL));
        }
        if let Some(parent) = parent.filter(|&parent| self.tree.class(parent).level == 0) {
            let leaf = std::mem::take(&mut self.tree.class_mut(parent).leaf);
            leaf.flush(&mut self.total, gone);
            gone.nodes.extend(leaf.node());
            self.tree.leaf_to_inner(parent);
        }
        let class = Class::new(parent, create.block(), create.pfifo(classid), create.now());
        Ok(self.tree.insert(classid, class))
    }
}

impl Qdisc for Htb {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        match self.classify(q, packet) {
            Ok((packet, Destination::Direct)) => self.enqueue_direct(q, packet),
            Ok((packet, Destination::Class(number))) => {
                let class = self.tree.class_mut(number);
                let (result, _) = class.leaf.enqueue(q, packet, &mut self.total);
                self.tree.enqueued(number, result);
                result
            }
            Err(ended) => ended,
        }
    }

    fn enqueue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, arrivals: &mut Arrivals<'_, '_>) {
        let mut next = self.next_destination(q, arrivals);
        while let Some((packet, to)) = next {
            let Destination::Class(number) = to else {
                self.enqueue_direct(q, packet);
                next = self.next_destination(q, arrivals);
                continue;
            };
            // The queue of a class is locked once for consecutive packets of the class.
            let leaf = std::mem::take(&mut self.tree.class_mut(number).leaf);
            let (mut queue, mut packet) = (leaf.open(), packet);
            next = loop {
                let (result, _) = queue.enqueue(q, packet, &mut self.total);
                self.tree.enqueued(number, result);
                match self.next_destination(q, arrivals) {
                    Some((same, Destination::Class(to))) if to == number => packet = same,
                    other => break other,
                }
            };
            drop(queue);
            self.tree.class_mut(number).leaf = leaf;
        }
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let mut packet = None;
        self.dequeue_into(q, &mut packet);
        packet
    }

    fn dequeue_all(&mut self, q: &mut QueueCx<'_, '_, '_>, out: &mut Departures<'_>) -> bool {
        self.dequeue_into(q, out)
    }

    fn looks_ahead(&self) -> u32 {
        // The steps are the class, the node of its queue, and the queue. A few classes are in the
        // cache anyway.
        if self.tree.len() > FEW { 3 } else { 0 }
    }

    fn prefetch(&self, packet: &Packet, step: u32, hint: u32) -> u32 {
        let number = match step {
            0 => self.tree.find(packet.priority).unwrap_or(0),
            _ => hint,
        };
        self.tree.prefetch(number, step);
        number
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for packet in self.direct.drain(..) {
            out.push((packet, DropReason::QDISC_DROP));
        }
        self.tree.reset(out);
        self.total = Load::default();
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        let glob = TcHtbGlob {
            version: VERSION,
            rate2quantum: self.rate2quantum,
            defcls: self.default,
            debug: 0,
            direct_pkts: self.direct_packets,
        };
        w.put_fixed(attr::INIT, &glob);
        w.put_u32(attr::DIRECT_QLEN, self.direct_limit);
        w.end(nest);
    }

    fn find(&self, classid: u32) -> u32 {
        self.tree.find(classid).unwrap_or(0)
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        Some(&self.tree.get(class)?.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let class = self.tree.leaf_mut(class)?;
        Some((&mut class.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.tree.deactivate(class);
    }

    fn block(&self, class: u32) -> Option<Arc<Block>> {
        match class {
            0 => Some(self.block.clone()),
            class => Some(self.tree.get(class)?.block.clone()),
        }
    }

    fn classes(&self) -> Vec<u32> {
        self.tree.numbers()
    }

    fn change_class(
        &mut self,
        class: u32,
        (classid, parent): (u32, u32),
        tca: &Table<'_>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<u32, Error> {
        let (opt, rate, ceil) = self.params(tca)?;
        let is_new = class == 0;
        let number = match class {
            0 => self.new_class(classid, parent, create, gone)?,
            class => class,
        };
        let rate2quantum = u64::from(self.rate2quantum);
        let class = self.tree.class_mut(number);
        (class.rate, class.ceil) = (rate, ceil);
        if class.level == 0 {
            let quantum = (rate.per_second / rate2quantum).min(i32::MAX as u64) as i32;
            class.quantum = match opt.quantum {
                0 => quantum.clamp(1000, 200_000),
                quantum => quantum as i32,
            };
            class.prio = opt.prio.min(7) as u8;
        }
        class.buffer = ticks_to_ns(u64::from(opt.buffer)) as i64;
        class.cbuffer = ticks_to_ns(u64::from(opt.cbuffer)) as i64;
        if is_new {
            (class.tokens, class.ctokens) = (class.buffer, class.cbuffer);
        }
        Ok(number)
    }

    fn delete_class(
        &mut self,
        class: u32,
        in_use: bool,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        if in_use || self.tree.class(class).children > 0 {
            return Err(Error::new(EBUSY));
        }
        let leaf = std::mem::take(&mut self.tree.class_mut(class).leaf);
        leaf.flush(&mut self.total, gone);
        gone.nodes.extend(leaf.node());
        let Some(class) = self.tree.remove(class) else {
            return Ok(());
        };
        let above = class.parent();
        gone.blocks.push(class.block);
        if let Some(parent) = above
            && self.tree.class(parent).children == 0
        {
            let leaf = create.pfifo(self.tree.id(parent));
            self.tree.inner_to_leaf(parent, leaf, create.now());
        }
        Ok(())
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let Some(found) = self.tree.get(class) else {
            return;
        };
        tcm.parent = found
            .parent()
            .map_or(h::ROOT, |parent| self.tree.id(parent));
        tcm.handle = self.tree.id(class);
        tcm.info = found.leaf.handle();
        let nest = w.nest_noflag(tca::OPTIONS);
        let opt = TcHtbOpt {
            rate: found.rate.spec(),
            ceil: found.ceil.spec(),
            buffer: ns_to_ticks(found.buffer as u64) as u32,
            cbuffer: ns_to_ticks(found.cbuffer as u64) as u32,
            quantum: found.quantum as u32,
            level: u32::from(found.level),
            prio: u32::from(found.prio),
        };
        w.put_fixed(attr::PARMS, &opt);
        for (ty, rate) in [(attr::RATE64, &found.rate), (attr::CEIL64, &found.ceil)] {
            if rate.per_second > u64::from(u32::MAX) {
                w.put_u64_pad(ty, rate.per_second, attr::PAD);
            }
        }
        w.end(nest);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let class = self.tree.get(class)?;
        let load = class.leaf.load();
        let ticks = |ns: i64| (ns >> 6).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32;
        let giants = 0;
        Some(ClassStats {
            bytes: class.bytes,
            packets: class.packets,
            queue: Queue {
                qlen: load.len,
                backlog: load.backlog,
                drops: class.drops,
                overlimits: class.overlimits,
                ..Queue::default()
            },
            app: Some(words(&[
                class.lends,
                class.borrows,
                giants,
                ticks(class.tokens),
                ticks(class.ctokens),
            ])),
            ..ClassStats::default()
        })
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        let mut blocks = vec![self.block.clone()];
        blocks.extend(self.tree.values().map(|class| class.block.clone()));
        blocks
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cbq`: class-based queueing. A tree of classes shares a link by rates, priorities and weights.
//!
//! Follows Floyd and Van Jacobson, "Link-sharing and Resource Management Models for Packet
//! Networks" (1995), with Linux's interface (net/sched/sch_cbq.c; Linux 6.1 had it until its
//! maintained versions removed it, so the tests have no recording of a kernel).
//!
//! The options of the qdisc are those of the link, which is its root class: the rate with its table
//! (`bandwidth`), `avpkt`, `ewma` and `maxidle`. A class has
//!
//! - its `rate` with a table of the transmission times by packet size;
//! - `ewma` (weight of the past, a power of two, default the link's), `avpkt` in bytes (only shown;
//!   `tc` computes the next ones from it), `maxidle` (credit for bursts, default the link's),
//!   `minidle` (debt limit, default none) and `offtime` (a longer sleep), in ticks of 64 ns;
//! - `bounded`: it borrows nothing; `isolated`: it does not use its parent's bandwidth, so that the
//!   parent lends it to nobody. A class right under the link is isolated until flags are set;
//! - `prio` 1 to 8, and in turns of one priority `allot` (bytes) times `weight` over the mean weight;
//! - `split` and `defmap`: an ancestor chooses the class for packets of these priorities.
//!
//! A class with a negative average idle time is above its rate. It then borrows from the nearest
//! ancestor below `toplevel` that is within its rate, or sleeps. Leaves and inner classes have a
//! queue (`pfifo`).
//!
//! A packet's class is named by its priority, else by the filters from class to class down the tree,
//! else by the default of the last class reached for the packet's priority; else it is that class.
//!
//! Not implemented: overlimit strategies and policing. Linux 6.1 ignores them at the qdisc and
//! refuses them for classes (EOPNOTSUPP).
//!
//! Deviations: A class is served even if it follows an emptied one in its turn, where Linux may stop
//! until the next packet arrives. Classes deeper than eight levels are woken. A packet that leaves
//! in the same instant as a longer one does not fill the credit of its class. As in Linux, a class
//! that sleeps does not pay its whole debt, so packets of mixed sizes exceed its rate by a few
//! percent.

mod share;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::Arc;

use weir_netlink::errno::{EBUSY, EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, cbq as attr, h, prio};
use weir_netlink::{
    Error, Fixed, Policy, Rule, Strictness, Table as Attrs, TcCbqFopt, TcCbqLssOpt, TcCbqOvl,
    TcCbqPolice, TcCbqWrrOpt, TcMsg, TcRateSpec, Writer, policy,
};
use weir_packet::Packet;

use self::share::{Class, EWMA, PRIOS, Table, Tree};
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx,
    classify_without_restart, words,
};
use crate::block::Block;
use crate::counters::Queue;
use crate::rate::{self, TABLE_LEN};
use crate::verdict::code;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    classful: true,
    refills: true,
    filters: true,
    class_rates: Some([
        "Couldn't create new estimator",
        "Failed to replace specified rate estimator",
    ]),
    ..Ops::new("cbq", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::LSSOPT => Rule::unspec(TcCbqLssOpt::LEN as u16),
    attr::WRROPT => Rule::unspec(TcCbqWrrOpt::LEN as u16),
    attr::FOPT => Rule::unspec(TcCbqFopt::LEN as u16),
    attr::OVL_STRATEGY => Rule::unspec(TcCbqOvl::LEN as u16),
    attr::RATE => Rule::unspec(TcRateSpec::LEN as u16),
    attr::RTAB => Rule::binary(TABLE_LEN as u16),
    attr::POLICE => Rule::unspec(TcCbqPolice::LEN as u16),
};

/// Bits of `tc_cbq_lssopt.change`.
mod change {
    pub const FLAGS: u8 = 1;
    pub const EWMA: u8 = 2;
    pub const MAXIDLE: u8 = 4;
    pub const MINIDLE: u8 = 8;
    pub const OFFTIME: u8 = 16;
    pub const AVPKT: u8 = 32;
}

/// Bits of `tc_cbq_lssopt.flags`.
const BOUNDED: u8 = 1;
const ISOLATED: u8 = 2;

/// The first minor number given to a class that names none.
const GENERATED: u32 = 0x8000;
/// Linux's errno for no free number.
const ENOSR: i32 = 63;

/// The parameters of the qdisc or of a class.
struct Params {
    lss: Option<TcCbqLssOpt>,
    wrr: Option<TcCbqWrrOpt>,
    fopt: Option<TcCbqFopt>,
    rate: Option<TcRateSpec>,
    table: Option<Vec<u8>>,
    /// Whether an overlimit strategy or policing is asked for.
    unserved: bool,
}

impl Params {
    /// Parses the options (`cbq_opt_parse`).
    fn parse(options: Option<weir_netlink::Attr<'_>>) -> Result<Self, Error> {
        let message = "CBQ options are required for this operation";
        let options = options.ok_or(Error::msg(EINVAL, message))?;
        let tb = options.parse(&POLICY, Strictness::Liberal)?;
        let payload = |ty| tb.get(ty).map(|attr| attr.payload);
        let wrr: Option<TcCbqWrrOpt> = payload(attr::WRROPT).and_then(Fixed::from_bytes);
        if wrr.is_some_and(|wrr| usize::from(wrr.priority) > PRIOS) {
            let message = "priority is bigger than TC_CBQ_MAXPRIO";
            return Err(Error::msg(EINVAL, message));
        }
        Ok(Self {
            lss: payload(attr::LSSOPT).and_then(Fixed::from_bytes),
            wrr,
            fopt: payload(attr::FOPT).and_then(Fixed::from_bytes),
            rate: payload(attr::RATE).and_then(Fixed::from_bytes),
            table: payload(attr::RTAB).map(<[u8]>::to_vec),
            unserved: tb.has(attr::OVL_STRATEGY) || tb.has(attr::POLICE),
        })
    }

    /// Returns the rate with its table (`qdisc_get_rtab`).
    fn table(&self) -> Result<Arc<Table>, Error> {
        let spec = self.rate.unwrap_or_default();
        // The link layer detected from the table is neither used nor shown.
        match &self.table {
            Some(table) if rate::check_table(&mut spec.clone(), Some(table)) => {
                Ok(Table::new(spec, table))
            }
            _ => {
                let message = "Invalid rate table parameters for searching";
                Err(Error::msg(EINVAL, message))
            }
        }
    }
}

/// The state of the qdisc.
struct Cbq {
    handle: u32,
    tree: Tree,
    total: Load,
    /// The minor number generated last.
    generated: u32,
    /// `undertime` of the link as shown last; only showing its class updates it.
    link_undertime: Cell<i32>,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let params = Params::parse(create.options)?;
    if params.table.is_none() || params.rate.is_none() {
        let message = "Rate specification missing or incomplete";
        return Err(Error::msg(EINVAL, message));
    }
    let rate = params.table()?;
    let (block, leaf) = (create.block(), create.pfifo(create.handle));
    let allot = create.psched_mtu();
    let mut link = Class::new(0, block, leaf, rate, i64::from(allot));
    link.priority = PRIOS as u8 - 1;
    link.ewma_log = EWMA;
    link.avpkt = allot / 2;
    let mut tree = Tree::new(create.handle, link, create.now());
    let number = tree.link;
    if let Some(lss) = &params.lss {
        set_link_sharing(tree.class_mut(number), lss);
    }
    tree.join_priority(number, create.device.mtu());
    Ok(Box::new(Cbq {
        handle: create.handle,
        tree,
        total: Load::default(),
        generated: 0,
        link_undertime: Cell::new(0),
    }))
}

/// Sets the parameters of link sharing that the request changes (`cbq_set_lss`).
fn set_link_sharing(class: &mut Class, lss: &TcCbqLssOpt) {
    let changes = |bit| lss.change & bit != 0;
    if changes(change::FLAGS) {
        let below = class.parent != 0;
        class.shares = below && lss.flags & ISOLATED == 0;
        class.borrows = below && lss.flags & BOUNDED == 0;
    }
    if changes(change::EWMA) {
        class.ewma_log = lss.ewma_log;
    }
    if changes(change::AVPKT) {
        class.avpkt = lss.avpkt;
    }
    if changes(change::MINIDLE) {
        class.minidle = -i64::from(lss.minidle);
    }
    if changes(change::MAXIDLE) {
        class.maxidle = i64::from(lss.maxidle);
        class.avgidle = class.maxidle;
    }
    if changes(change::OFFTIME) {
        class.offtime = i64::from(lss.offtime);
    }
}

impl Cbq {
    /// Sets the parameters of the turns (`cbq_set_wrr`).
    fn set_turns(&mut self, number: u32, wrr: &TcCbqWrrOpt, mtu: u32) {
        let class = self.tree.class_mut(number);
        if wrr.allot != 0 {
            class.allot = i64::from(wrr.allot);
        }
        if wrr.weight != 0 {
            class.weight = i64::from(wrr.weight);
        }
        if let Some(priority) = wrr.priority.checked_sub(1) {
            class.priority = priority;
        }
        self.tree.join_priority(number, mtu);
    }

    /// Returns the class of a packet (`cbq_classify`).
    fn classify(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        mut packet: Packet,
    ) -> Result<(Packet, u32), Enqueued> {
        let tree = &self.tree;
        if (packet.priority ^ self.handle) & h::MAJ_MASK == 0
            && let Some(number) = tree.classes.find(packet.priority)
        {
            return Ok((packet, number));
        }
        let mut head = tree.link;
        loop {
            let node = tree.class(head);
            let (back, found) = classify_without_restart(&node.block, q, packet)?;
            packet = back;
            let Some((result, id)) = found else { break };
            let number = match id & h::MAJ_MASK {
                0 => [id as usize & 15, prio::BESTEFFORT as usize]
                    .map(|priority| node.defaults[priority])
                    .into_iter()
                    .find(|&number| number != 0),
                _ => tree.classes.find(id),
            };
            let below = number.filter(|&number| tree.class(number).level < node.level);
            let Some(number) = below else { break };
            if result == code::RECLASSIFY {
                return match self.reclassify(number) {
                    Some(number) => Ok((packet, number)),
                    None => Err(q.drop(packet, weir_packet::DropReason::QDISC_DROP)),
                };
            }
            if tree.class(number).level == 0 {
                return Ok((packet, number));
            }
            head = number;
        }
        if packet.priority & h::MAJ_MASK != 0 {
            return Ok((packet, head));
        }
        let defaults = &tree.class(head).defaults;
        let wanted = [packet.priority as usize & 15, prio::BESTEFFORT as usize];
        let mut chosen = wanted.iter().map(|&priority| defaults[priority]);
        let number = chosen.find(|&number| number != 0).unwrap_or(head);
        Ok((packet, number))
    }

    /// Returns the next class above for best effort, for a packet whose filter says `reclassify`
    /// (`cbq_reclassify`).
    fn reclassify(&self, number: u32) -> Option<u32> {
        let mut at = self.tree.class(number).parent;
        while at != 0 {
            let class = self.tree.class(at);
            let default = class.defaults[prio::BESTEFFORT as usize];
            if default != 0 && default != number {
                return Some(default);
            }
            at = class.parent;
        }
        None
    }

    /// Returns the id of a new class: the one asked for, or a free one.
    fn new_id(&mut self, classid: u32) -> Result<u32, Error> {
        if classid != 0 {
            let other = (classid ^ self.handle) & h::MAJ_MASK != 0;
            return match other || self.tree.classes.find(classid).is_some() {
                true => Err(Error::msg(EINVAL, "Specified class not found")),
                false => Ok(classid),
            };
        }
        for _ in 0..GENERATED {
            self.generated = match self.generated + 1 {
                GENERATED.. => 1,
                next => next,
            };
            let id = self.handle | GENERATED | self.generated;
            if self.tree.classes.find(id).is_none() {
                return Ok(id);
            }
        }
        Err(Error::msg(ENOSR, "Unable to generate classid"))
    }

    /// Makes a class.
    fn new_class(
        &mut self,
        (classid, parent): (u32, u32),
        params: &Params,
        create: &Create<'_>,
    ) -> Result<u32, Error> {
        if parent == h::ROOT {
            return Err(Error::new(EINVAL));
        }
        let (Some(wrr), Some(lss), Some(_)) = (&params.wrr, &params.lss, params.rate) else {
            let message =
                "One of the following attributes MUST be specified: WRR, rate or link sharing";
            return Err(Error::msg(EINVAL, message));
        };
        let rate = params.table()?;
        let id = self.new_id(classid)?;
        let link = self.tree.link;
        let parent = match parent {
            0 => link,
            parent => {
                let found = self.tree.classes.find(parent);
                found.ok_or(Error::msg(EINVAL, "Failed to find parentid"))?
            }
        };
        let allot = self.tree.class(parent).allot;
        let mut class = Class::new(parent, create.block(), create.pfifo(id), rate, allot);
        class.shares = parent != link;
        set_link_sharing(&mut class, lss);
        let number = self.tree.insert(id, class);
        self.set_turns(number, wrr, create.device.mtu());
        let link = self.tree.class(link);
        let (ewma_log, maxidle, avpkt) = (link.ewma_log, link.maxidle, link.avpkt);
        let class = self.tree.class_mut(number);
        if class.ewma_log == 0 {
            class.ewma_log = ewma_log;
        }
        if class.maxidle == 0 {
            class.maxidle = maxidle;
        }
        if class.avpkt == 0 {
            class.avpkt = avpkt;
        }
        if let Some(fopt) = &params.fopt {
            let (split, defmap, mask) = (fopt.split, fopt.defmap, fopt.defchange);
            self.tree.change_defaults(number, split, defmap, mask);
        }
        Ok(number)
    }

    /// Writes `TCA_OPTIONS` of a class or of the link (`cbq_dump_attr`).
    fn put(&self, class: &Class, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        let mut flags = 0;
        if !class.borrows {
            flags |= BOUNDED;
        }
        if !class.shares {
            flags |= ISOLATED;
        }
        let lss = TcCbqLssOpt {
            change: u8::MAX,
            flags,
            ewma_log: class.ewma_log,
            level: class.level,
            maxidle: class.maxidle as u32,
            minidle: class.minidle.wrapping_neg() as u32,
            offtime: class.offtime as u32,
            avpkt: class.avpkt,
        };
        w.put_fixed(attr::LSSOPT, &lss);
        w.put_fixed(attr::RATE, &class.rate.spec);
        let wrr = TcCbqWrrOpt {
            priority: class.priority + 1,
            cpriority: class.priority + 1,
            allot: class.allot as u32,
            weight: class.weight as u32,
            ..TcCbqWrrOpt::default()
        };
        w.put_fixed(attr::WRROPT, &wrr);
        if class.split != 0 || class.defmap != 0 {
            let fopt = TcCbqFopt {
                split: self.tree.classes.id(class.split).unwrap_or(0),
                defmap: class.defmap,
                defchange: u32::MAX,
            };
            w.put_fixed(attr::FOPT, &fopt);
        }
        w.end(nest);
    }

    /// Returns `struct tc_cbq_xstats`.
    fn xstats(&self, class: &Class, undertime: i32) -> Vec<u8> {
        words(&[
            class.borrowed,
            class.overactions,
            class.avgidle as u32,
            undertime as u32,
        ])
    }
}

impl Qdisc for Cbq {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (packet, number) = match self.classify(q, packet) {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let class = self.tree.class(number);
        let (result, _) = class.leaf.enqueue(q, packet, &mut self.total);
        match result {
            Enqueued::Queued => {
                self.tree.arrived(number, q.now());
                self.tree.activate(number);
            }
            Enqueued::Dropped | Enqueued::Congested => {
                self.tree.arrived(number, q.now());
                let class = self.tree.class_mut(number);
                class.drops = class.drops.wrapping_add(1);
            }
            Enqueued::Stolen => {}
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        match self.tree.dequeue(q, &mut self.total) {
            Ok(packet) => Some(packet),
            Err(wake) => {
                if q.waiting(self.total).len > 0 {
                    q.note().overlimits += 1;
                    if let Some(wake) = wake {
                        q.watchdog(wake);
                    }
                }
                None
            }
        }
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.tree.reset(&mut self.total, out);
    }

    fn dump(&self, w: &mut Writer) {
        self.put(self.tree.class(self.tree.link), w);
    }

    fn app_stats(&self) -> Option<Vec<u8>> {
        let link = self.tree.class(self.tree.link);
        Some(self.xstats(link, self.link_undertime.get()))
    }

    fn find(&self, classid: u32) -> u32 {
        self.tree.classes.find(classid).unwrap_or(0)
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        Some(&self.tree.classes.get(class)?.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let class = self.tree.classes.get_mut(class)?;
        Some((&mut class.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.tree.deactivate(class);
    }

    fn block(&self, class: u32) -> Option<Arc<Block>> {
        let class = if class == 0 { self.tree.link } else { class };
        Some(self.tree.classes.get(class)?.block.clone())
    }

    fn classes(&self) -> Vec<u32> {
        self.tree.classes.numbers()
    }

    fn change_class(
        &mut self,
        class: u32,
        (classid, parent): (u32, u32),
        tca: &Attrs<'_>,
        create: &Create<'_>,
        _gone: &mut Gone,
    ) -> Result<u32, Error> {
        let params = Params::parse(tca.get(tca::OPTIONS))?;
        if params.unserved {
            let message = "Neither overlimit strategy nor policing attributes can be used for changing class params";
            return Err(Error::msg(EOPNOTSUPP, message));
        }
        if class == 0 {
            return self.new_class((classid, parent), &params, create);
        }
        let above = self.tree.class(class).parent;
        match self.tree.classes.id(above) {
            _ if parent == 0 => {}
            Some(expected) if parent != expected => {
                return Err(Error::msg(EINVAL, "Invalid parent id"));
            }
            None if parent != h::ROOT => {
                return Err(Error::msg(EINVAL, "Parent must be root"));
            }
            _ => {}
        }
        let rate = params.rate.map(|_| params.table()).transpose()?;
        self.tree.deactivate(class);
        let changed = self.tree.class_mut(class);
        if let Some(rate) = rate {
            changed.rate = rate;
        }
        if let Some(lss) = &params.lss {
            set_link_sharing(changed, lss);
        }
        if let Some(wrr) = &params.wrr {
            let mtu = create.device.mtu();
            self.tree.leave_priority(class, mtu);
            self.set_turns(class, wrr, mtu);
        }
        if let Some(fopt) = &params.fopt {
            let (split, defmap, mask) = (fopt.split, fopt.defmap, fopt.defchange);
            self.tree.change_defaults(class, split, defmap, mask);
        }
        if self.tree.class(class).leaf.load().len > 0 {
            self.tree.activate(class);
        }
        Ok(class)
    }

    fn delete_class(
        &mut self,
        class: u32,
        in_use: bool,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        let found = self.tree.class(class);
        if in_use || found.children > 0 || class == self.tree.link {
            return Err(Error::new(EBUSY));
        }
        found.leaf.flush(&mut self.total, gone);
        let prio = usize::from(found.priority);
        if let Some(class) = self.tree.remove(class) {
            gone.nodes.extend(class.leaf.node());
            gone.blocks.push(class.block);
        }
        self.tree.share_quanta(prio, create.device.mtu());
        Ok(())
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let Some(found) = self.tree.classes.get(class) else {
            return;
        };
        tcm.parent = self.tree.classes.id(found.parent).unwrap_or(h::ROOT);
        tcm.handle = self.tree.classes.id(class).unwrap_or(0);
        tcm.info = found.leaf.handle();
        self.put(found, w);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let found = self.tree.classes.get(class)?;
        let undertime = self.tree.undertime(class);
        if class == self.tree.link {
            self.link_undertime.set(undertime);
        }
        let load = found.leaf.load();
        Some(ClassStats {
            bytes: found.bytes,
            packets: found.packets,
            queue: Queue {
                qlen: load.len,
                backlog: load.backlog,
                drops: found.drops,
                overlimits: found.overlimits,
                ..Queue::default()
            },
            app: Some(self.xstats(found, undertime)),
            ..ClassStats::default()
        })
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        let classes = self.tree.classes.values();
        classes.map(|class| class.block.clone()).collect()
    }
}

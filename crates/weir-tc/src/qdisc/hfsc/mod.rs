// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hfsc`: a tree of classes with guaranteed service curves, curves that share the rest, and upper
//! limits.
//!
//! Mirrors net/sched/sch_hfsc.c (Stoica, Zhang and Ng, 1997). Parameter: `default` (minor number of
//! the class for packets that no filter names; without it they are dropped, QDISC_DROP). A class
//! has curves of two pieces (bytes per second for some microseconds, then bytes per second): `rt`
//! is guaranteed, `ls` is its share of the rest, `ul` is its limit; `sc` sets both `rt` and `ls`. A
//! class with children and only an `rt` curve gets an `ls` curve as well.
//!
//! Time is in ticks of 64 ns, as in Linux. A packet's class is named by its priority if that is a
//! leaf, else by the filters, from class to class down the tree. The qdisc itself is the root
//! class.

mod curve;

use std::sync::Arc;

use weir_netlink::errno::{EBUSY, EEXIST, EINVAL, ENOENT};
use weir_netlink::tca::{self, h, hfsc as attr};
use weir_netlink::{
    Error, Fixed, Policy, Rule, Table, TcHfscQopt, TcMsg, TcServiceCurve, Writer, policy,
};
use weir_packet::{DropReason, Packet};

use self::curve::{Curve, Running};
use super::classes::Classes;
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Qdisc, QueueCx, classify,
    pkt_len, table,
};
use crate::block::Block;
use crate::counters::Queue;
use crate::rate::{ns_to_ticks, ticks_to_ns};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    refills: true,
    filters: true,
    class_rates: Some(["", ""]),
    ..Ops::new("hfsc", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::RSC => Rule::unspec(TcServiceCurve::LEN as u16),
    attr::FSC => Rule::unspec(TcServiceCurve::LEN as u16),
    attr::USC => Rule::unspec(TcServiceCurve::LEN as u16),
};

/// Classes sorted by a key. Those with equal keys keep their insertion order.
#[derive(Debug, Default)]
struct Sorted(Vec<(u64, u32)>);

impl Sorted {
    fn insert(&mut self, key: u64, number: u32) {
        let at = self.0.partition_point(|(other, _)| *other <= key);
        self.0.insert(at, (key, number));
    }

    fn remove(&mut self, number: u32) {
        self.0.retain(|(_, other)| *other != number);
    }

    fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|(_, other)| *other == number)
    }
}

struct Class {
    /// Number of the parent, 0 for the root.
    parent: u32,
    level: u32,
    block: Arc<Block>,
    leaf: Leaf,
    /// Children with packets, by virtual time. `by_fit` has them by fit time.
    by_vt: Sorted,
    by_fit: Sorted,
    /// All service in bytes. `cumul` is the service by the real-time curve.
    total: u64,
    cumul: u64,
    deadline_at: u64,
    eligible_at: u64,
    vt: u64,
    fit: u64,
    my_fit: u64,
    children_fit: u64,
    /// Smallest virtual time of the children that fit. `vt_adjust` is the adjustment of its own
    /// virtual time, `vt_offset` the largest virtual time seen among children that became passive.
    vt_min: u64,
    vt_adjust: u64,
    vt_offset: u64,
    real_time: Option<Curve>,
    fair: Option<Curve>,
    upper: Option<Curve>,
    deadline: Running,
    eligible: Running,
    virtual_time: Running,
    limit: Running,
    period: u32,
    parent_period: u32,
    active: u32,
    bytes: u64,
    packets: u64,
    drops: u32,
}

/// The state of the qdisc.
struct Hfsc {
    handle: u32,
    default: u16,
    classes: Classes<Class>,
    root: u32,
    eligible: Sorted,
    total: Load,
}

fn qopt(create: &Create<'_>) -> Result<TcHfscQopt, Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    TcHfscQopt::from_bytes(options.payload).ok_or(Error::new(EINVAL))
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let qopt = qopt(create)?;
    let mut classes = Classes::default();
    let root = Class::new(0, create, create.handle);
    let root = classes.insert(create.handle, root);
    Ok(Box::new(Hfsc {
        handle: create.handle,
        default: qopt.defcls,
        classes,
        root,
        eligible: Sorted::default(),
        total: Load::default(),
    }))
}

impl Class {
    fn new(parent: u32, create: &Create<'_>, id: u32) -> Self {
        Self {
            parent,
            level: 0,
            block: create.block(),
            leaf: create.pfifo(id),
            by_vt: Sorted::default(),
            by_fit: Sorted::default(),
            total: 0,
            cumul: 0,
            deadline_at: 0,
            eligible_at: 0,
            vt: 0,
            fit: 0,
            my_fit: 0,
            children_fit: 0,
            vt_min: 0,
            vt_adjust: 0,
            vt_offset: 0,
            real_time: None,
            fair: None,
            upper: None,
            deadline: Running::default(),
            eligible: Running::default(),
            virtual_time: Running::default(),
            limit: Running::default(),
            period: 0,
            parent_period: 0,
            active: 0,
            bytes: 0,
            packets: 0,
            drops: 0,
        }
    }

    /// Sets the real-time curve (`hfsc_change_rsc`).
    fn set_real_time(&mut self, curve: Curve, now: u64) {
        self.deadline = Running::new(&curve, now, self.cumul);
        self.real_time = Some(curve);
        self.set_eligible(&curve);
    }

    fn set_eligible(&mut self, curve: &Curve) {
        self.eligible = match curve.is_convex() {
            true => self.deadline.second_piece(),
            false => self.deadline,
        };
    }

    /// Sets the link-sharing curve (`hfsc_change_fsc`).
    fn set_fair(&mut self, curve: Curve) {
        self.virtual_time = Running::new(&curve, self.vt, self.total);
        self.fair = Some(curve);
    }

    /// Sets the upper-limit curve (`hfsc_change_usc`).
    fn set_upper(&mut self, curve: Curve, now: u64) {
        self.limit = Running::new(&curve, now, self.total);
        self.upper = Some(curve);
    }

    fn update_deadline(&mut self, next_len: u32) {
        self.deadline_at = self.deadline.time_of(self.cumul + u64::from(next_len));
    }

    /// Resets the class, except for its queue (`hfsc_reset_class`).
    fn reset(&mut self) {
        self.by_vt.0.clear();
        self.by_fit.0.clear();
        (self.total, self.cumul, self.deadline_at, self.eligible_at) = (0, 0, 0, 0);
        (self.vt, self.vt_adjust, self.vt_min, self.vt_offset) = (0, 0, 0, 0);
        (self.period, self.parent_period, self.active) = (0, 0, 0);
        (self.fit, self.my_fit, self.children_fit) = (0, 0, 0);
        if let Some(curve) = &self.real_time {
            self.deadline = Running::new(curve, 0, 0);
        }
        if let Some(curve) = &self.fair {
            self.virtual_time = Running::new(curve, 0, 0);
        }
        if let Some(curve) = &self.upper {
            self.limit = Running::new(curve, 0, 0);
        }
    }
}

impl Hfsc {
    fn class(&self, number: u32) -> &Class {
        self.classes
            .get(number)
            .expect("numbers refer to existing classes")
    }

    fn class_mut(&mut self, number: u32) -> &mut Class {
        self.classes
            .get_mut(number)
            .expect("numbers refer to existing classes")
    }

    /// Starts the real-time curve of a class that becomes active (`init_ed`).
    fn start_real_time(&mut self, number: u32, next_len: u32, now: u64) {
        let class = self.class_mut(number);
        let Some(curve) = class.real_time else { return };
        class.deadline.lower(&curve, now, class.cumul);
        class.set_eligible(&curve);
        self.update_real_time(number, next_len);
    }

    /// Updates the eligible time and the deadline of a class (`update_ed`).
    fn update_real_time(&mut self, number: u32, next_len: u32) {
        let class = self.class_mut(number);
        class.eligible_at = class.eligible.time_of(class.cumul);
        class.update_deadline(next_len);
        let at = class.eligible_at;
        self.eligible.remove(number);
        self.eligible.insert(at, number);
    }

    /// Updates the smallest fit time of a class's children (`update_cfmin`).
    fn update_children_fit(&mut self, number: u32) {
        let class = self.class_mut(number);
        class.children_fit = class.by_fit.0.first().map_or(0, |(fit, _)| *fit);
    }

    /// Updates the fit time of a class in its parent. Returns whether it changed.
    fn update_fit(&mut self, number: u32) -> bool {
        let class = self.class_mut(number);
        let fit = class.my_fit.max(class.children_fit);
        if fit == class.fit {
            return false;
        }
        class.fit = fit;
        let parent = class.parent;
        let by_fit = &mut self.class_mut(parent).by_fit;
        by_fit.remove(number);
        by_fit.insert(fit, number);
        true
    }

    /// Starts link sharing for a class that becomes active, and for its ancestors (`init_vf`).
    fn start_sharing(&mut self, mut number: u32, now: u64) {
        let mut begins = true;
        while self.class(number).parent != 0 {
            let class = self.class_mut(number);
            let parent = class.parent;
            if begins {
                class.active += 1;
                begins = class.active == 1;
            }
            if begins {
                self.enter(number, parent, now);
            }
            self.update_fit(number);
            self.update_children_fit(parent);
            number = parent;
        }
    }

    fn enter(&mut self, number: u32, parent: u32, now: u64) {
        let above = self.class_mut(parent);
        let last = above.by_vt.0.last().map(|(vt, _)| *vt);
        let (offset, vt_min, period) = (above.vt_offset, above.vt_min, above.period);
        let parent_idle = above.active == 0;
        if last.is_none() {
            above.vt_min = 0;
        }
        let class = self.class_mut(number);
        match last {
            Some(last) => {
                let vt = match vt_min {
                    0 => last,
                    min => min.wrapping_add(last) / 2,
                };
                if period != class.parent_period || vt > class.vt {
                    class.vt = vt;
                }
            }
            None => class.vt = offset,
        }
        let fair = class.fair.unwrap_or_default();
        class.virtual_time.lower(&fair, class.vt, class.total);
        class.vt_adjust = 0;
        class.period = class.period.wrapping_add(1);
        class.parent_period = period.wrapping_add(u32::from(parent_idle));
        class.fit = 0;
        if let Some(upper) = class.upper {
            class.limit.lower(&upper, now, class.total);
            class.my_fit = class.limit.time_of(class.total);
        }
        let vt = class.vt;
        let above = self.class_mut(parent);
        above.by_vt.insert(vt, number);
        above.by_fit.insert(0, number);
    }

    /// Updates the virtual times after a class has sent `len` bytes or became empty (`update_vf`).
    fn update_sharing(&mut self, mut number: u32, len: u32) {
        let class = self.class(number);
        let empty = class.leaf.load().len == 0;
        let mut ends = empty && class.fair.is_some() && class.active > 0;
        while self.class(number).parent != 0 {
            let parent = self.class(number).parent;
            let vt_min = self.class(parent).vt_min;
            let class = self.class_mut(number);
            class.total += u64::from(len);
            if class.fair.is_none() || class.active == 0 {
                number = parent;
                continue;
            }
            if ends {
                class.active -= 1;
                ends = class.active == 0;
            }
            class.vt = class
                .virtual_time
                .time_of(class.total)
                .wrapping_add(class.vt_adjust);
            if class.vt < vt_min {
                class.vt_adjust = class.vt_adjust.wrapping_add(vt_min - class.vt);
                class.vt = vt_min;
            }
            let vt = class.vt;
            if !ends && class.upper.is_some() {
                class.my_fit = class.limit.time_of(class.total);
            }
            let above = self.class_mut(parent);
            above.by_vt.remove(number);
            if ends {
                above.vt_offset = above.vt_offset.max(vt);
                above.by_fit.remove(number);
                self.update_children_fit(parent);
            } else {
                above.by_vt.insert(vt, number);
                if self.update_fit(number) {
                    self.update_children_fit(parent);
                }
            }
            number = parent;
        }
    }

    /// Recomputes the levels of a class and its ancestors (`hfsc_adjust_levels`).
    fn adjust_levels(&mut self, mut number: u32) {
        while number != 0 {
            let all = self.classes.values();
            let levels = all.filter(|c| c.parent == number).map(|c| c.level + 1);
            let level = levels.max().unwrap_or(0);
            let class = self.class_mut(number);
            class.level = level;
            number = class.parent;
        }
    }

    /// Returns the eligible class with the earliest deadline (`eltree_get_mindl`).
    fn most_urgent(&self, now: u64) -> Option<u32> {
        let due = self.eligible.0.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, number)| *number)
            .min_by_key(|number| self.class(*number).deadline_at)
    }

    /// Returns the leaf that is next by link sharing, or the root while it has no classes
    /// (`vttree_get_minvt`).
    fn next_share(&mut self, now: u64) -> Option<u32> {
        let mut number = self.root;
        if self.class(number).children_fit > now {
            return None;
        }
        while self.class(number).level > 0 {
            let parent = number;
            let mut children = self.class(parent).by_vt.0.iter();
            number = children.find(|(_, child)| self.class(*child).fit <= now)?.1;
            let vt = self.class(number).vt;
            let above = self.class_mut(parent);
            above.vt_min = above.vt_min.max(vt);
        }
        Some(number)
    }

    /// Deactivates a class that has no packets any more (`hfsc_qlen_notify`).
    fn deactivate(&mut self, number: u32) {
        if self.class(number).active > 0 {
            self.update_sharing(number, 0);
        }
        self.eligible.remove(number);
    }

    fn classify(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> Result<(Packet, u32), Enqueued> {
        let leaf = |id| self.classes.find(id).filter(|n| self.class(*n).level == 0);
        if (packet.priority ^ self.handle) & h::MAJ_MASK == 0
            && let Some(number) = leaf(packet.priority)
        {
            return Ok((packet, number));
        }
        let mut packet = packet;
        let mut head = self.root;
        loop {
            let (back, id) = classify(&self.class(head).block, q, packet)?;
            packet = back;
            let found = id.and_then(|id| self.classes.find(id));
            // A filter may only name a class further down.
            let below = found.filter(|n| self.class(*n).level < self.class(head).level);
            let Some(number) = below else {
                return self.default_class(q, packet);
            };
            if self.class(number).level == 0 {
                return Ok((packet, number));
            }
            head = number;
        }
    }

    fn default_class(
        &self,
        q: &mut QueueCx<'_, '_, '_>,
        packet: Packet,
    ) -> Result<(Packet, u32), Enqueued> {
        let id = self.handle | u32::from(self.default);
        match self.classes.find(id).filter(|n| self.class(*n).level == 0) {
            Some(number) => Ok((packet, number)),
            None => Err(q.drop(packet, DropReason::QDISC_DROP)),
        }
    }
}

impl Qdisc for Hfsc {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (packet, number) = match self.classify(q, packet) {
            Ok(found) => found,
            Err(ended) => return ended,
        };
        let (len, now) = (pkt_len(&packet), ns_to_ticks(q.now()));
        let leaf = self.class(number).leaf.clone();
        let first = leaf.load().len == 0;
        let (result, _) = leaf.enqueue(q, packet, &mut self.total);
        match result {
            Enqueued::Queued => {}
            Enqueued::Dropped | Enqueued::Congested => {
                self.class_mut(number).drops += 1;
                return result;
            }
            Enqueued::Stolen => return result,
        }
        let class = self.class(number);
        let shares = class.fair.is_some() && class.active > 0;
        let guaranteed = class.real_time.is_some();
        if first && !shares && !(guaranteed && self.eligible.contains(number)) {
            let fair = class.fair.is_some();
            if guaranteed {
                self.start_real_time(number, len, now);
            }
            if fair {
                self.start_sharing(number, now);
            }
            if guaranteed {
                // The deadline was computed for this packet. Peeking keeps a drop at
                // the head of the queue from invalidating it before the first dequeue.
                leaf.peek(q, &mut self.total);
            }
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        if self.total.len == 0 {
            return None;
        }
        let now = ns_to_ticks(q.now());
        let urgent = self.most_urgent(now);
        let Some(number) = urgent.or_else(|| self.next_share(now)) else {
            q.note().overlimits += 1;
            let eligible = self.eligible.0.first().map(|(at, _)| *at);
            let fits = Some(self.class(self.root).children_fit).filter(|fit| *fit != 0);
            let next = [eligible.filter(|at| *at != 0), fits]
                .into_iter()
                .flatten()
                .min();
            if let Some(next) = next {
                q.watchdog(ticks_to_ns(next));
            }
            return None;
        };
        let leaf = self.class(number).leaf.clone();
        let (packet, mut left) = leaf.dequeue(q, &mut self.total);
        let Some(packet) = packet else {
            if left.len == 0 {
                self.deactivate(number);
            }
            return None;
        };
        let len = pkt_len(&packet);
        let class = self.class_mut(number);
        class.bytes = class.bytes.wrapping_add(u64::from(len));
        class.packets = class.packets.wrapping_add(packet.wire_packets());
        self.update_sharing(number, len);
        let class = self.class_mut(number);
        if urgent.is_some() {
            class.cumul += u64::from(len);
        }
        if class.real_time.is_some() {
            let mut next_len = None;
            if left.len > 0 {
                // Peeking may drop everything that is left.
                next_len = leaf.peek(q, &mut self.total);
                left = leaf.load();
            }
            if left.len == 0 {
                self.eligible.remove(number);
            } else if urgent.is_some() {
                self.update_real_time(number, next_len.unwrap_or(0));
            } else {
                self.class_mut(number)
                    .update_deadline(next_len.unwrap_or(0));
            }
        }
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        for class in self.classes.values_mut() {
            class.leaf.purge(&mut self.total, out);
            class.reset();
        }
        self.eligible.0.clear();
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        self.default = qopt(create)?.defcls;
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let defcls = self.default;
        w.put_fixed(tca::OPTIONS, &TcHfscQopt { defcls });
    }

    fn find(&self, classid: u32) -> u32 {
        self.classes.find(classid).unwrap_or(0)
    }

    fn leaf(&self, class: u32) -> Option<Arc<Node>> {
        let class = self.classes.get(class)?;
        class.leaf.node().filter(|_| class.level == 0)
    }

    fn slot(&self, class: u32) -> Option<&Leaf> {
        Some(&self.classes.get(class)?.leaf)
    }

    fn slot_mut(&mut self, class: u32) -> Option<(&mut Leaf, &mut Load)> {
        let class = self
            .classes
            .get_mut(class)
            .filter(|class| class.level == 0)?;
        Some((&mut class.leaf, &mut self.total))
    }

    fn became_empty(&mut self, class: u32) {
        self.deactivate(class);
    }

    fn block(&self, class: u32) -> Option<Arc<Block>> {
        let class = if class == 0 { self.root } else { class };
        Some(self.classes.get(class)?.block.clone())
    }

    fn classes(&self) -> Vec<u32> {
        self.classes.numbers()
    }

    fn change_class(
        &mut self,
        class: u32,
        (classid, parent): (u32, u32),
        tca: &Table<'_>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<u32, Error> {
        let options = tca.get(tca::OPTIONS).ok_or(Error::new(EINVAL))?;
        let tb = table(Some(options), &POLICY)?;
        let curve = |ty| {
            let sc = TcServiceCurve::from_bytes(tb.get(ty)?.payload)?;
            (sc.m1 != 0 || sc.m2 != 0).then(|| Curve::new(&sc))
        };
        let (real_time, fair, upper) = (curve(attr::RSC), curve(attr::FSC), curve(attr::USC));
        let now = ns_to_ticks(create.now());
        if class != 0 {
            let above = self.class(class).parent;
            let expected = self.classes.id(above).unwrap_or(h::ROOT);
            if parent != 0 && parent != expected {
                return Err(Error::new(EINVAL));
            }
            self.change_curves(class, [real_time, fair, upper], now);
            return Ok(class);
        }
        if parent == h::ROOT {
            return Err(Error::new(EEXIST));
        }
        let parent = match parent {
            0 => self.root,
            parent => self.classes.find(parent).ok_or(Error::new(ENOENT))?,
        };
        if classid == 0 || (classid ^ self.handle) & h::MAJ_MASK != 0 {
            return Err(Error::new(EINVAL));
        }
        if real_time.is_none() && fair.is_none() {
            return Err(Error::new(EINVAL));
        }
        let mut new = Class::new(parent, create, classid);
        if let Some(curve) = real_time {
            new.set_real_time(curve, 0);
        }
        if let Some(curve) = fair {
            new.set_fair(curve);
        }
        if let Some(curve) = upper {
            new.set_upper(curve, 0);
        }
        let (root, mut total) = (self.root, self.total);
        let above = self.class_mut(parent);
        if above.fair.is_none() && parent != root {
            gone.warning = Some("Forced curve change on parent 'rt' to 'sc'");
            if let Some(curve) = above.real_time {
                above.set_fair(curve);
            }
        }
        if above.level == 0 {
            let leaf = above.leaf.clone();
            leaf.flush(&mut total, gone);
            self.total = total;
            self.deactivate(parent);
        }
        let number = self.classes.insert(classid, new);
        self.adjust_levels(parent);
        Ok(number)
    }

    fn delete_class(
        &mut self,
        class: u32,
        in_use: bool,
        _create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        if in_use || self.class(class).level > 0 || class == self.root {
            return Err(Error::new(EBUSY));
        }
        let leaf = self.class(class).leaf.clone();
        leaf.flush(&mut self.total, gone);
        self.deactivate(class);
        if let Some(class) = self.classes.remove(class) {
            gone.nodes.extend(class.leaf.node());
            gone.blocks.push(class.block);
            self.adjust_levels(class.parent);
        }
        Ok(())
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, w: &mut Writer) {
        let Some(found) = self.classes.get(class) else {
            return;
        };
        tcm.parent = self.classes.id(found.parent).unwrap_or(h::ROOT);
        tcm.handle = self.classes.id(class).unwrap_or(0);
        if found.level == 0 {
            tcm.info = found.leaf.handle();
        }
        let nest = w.nest_noflag(tca::OPTIONS);
        let curves = [
            (attr::RSC, &found.real_time),
            (attr::FSC, &found.fair),
            (attr::USC, &found.upper),
        ];
        for (ty, curve) in curves {
            if let Some(curve) = curve {
                w.put_fixed(ty, &curve.shown());
            }
        }
        w.end(nest);
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let class = self.classes.get(class)?;
        let load = class.leaf.load();
        // The fields of `struct tc_hfsc_stats`.
        let mut app = Vec::new();
        app.extend(class.total.to_ne_bytes());
        app.extend(class.cumul.to_ne_bytes());
        app.extend(class.period.to_ne_bytes());
        app.extend(class.level.to_ne_bytes());
        Some(ClassStats {
            bytes: class.bytes,
            packets: class.packets,
            queue: Queue {
                qlen: load.len,
                backlog: load.backlog,
                drops: class.drops,
                ..Queue::default()
            },
            app: Some(app),
            ..ClassStats::default()
        })
    }

    fn destroy(&mut self) -> Vec<Arc<Block>> {
        self.classes
            .values()
            .map(|class| class.block.clone())
            .collect()
    }
}

impl Hfsc {
    /// Changes the curves of a class that may have packets.
    fn change_curves(&mut self, number: u32, curves: [Option<Curve>; 3], now: u64) {
        let [real_time, fair, upper] = curves;
        let class = self.class_mut(number);
        let (had_real_time, had_fair) = (class.real_time.is_some(), class.fair.is_some());
        if let Some(curve) = real_time {
            class.set_real_time(curve, now);
        }
        if let Some(curve) = fair {
            class.set_fair(curve);
        }
        if let Some(curve) = upper {
            class.set_upper(curve, now);
        }
        let (has_real_time, has_fair) = (class.real_time.is_some(), class.fair.is_some());
        let load = class.leaf.load();
        if load.len == 0 {
            return;
        }
        // The length of the first packet is estimated by the mean, because it is not peeked here.
        let len = load.backlog / load.len;
        match (has_real_time, had_real_time) {
            (true, true) => self.update_real_time(number, len),
            (true, false) => self.start_real_time(number, len, now),
            _ => {}
        }
        match (has_fair, had_fair) {
            (true, true) => self.update_sharing(number, 0),
            (true, false) => self.start_sharing(number, now),
            _ => {}
        }
    }
}

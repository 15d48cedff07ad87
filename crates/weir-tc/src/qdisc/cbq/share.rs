// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree of classes: it estimates from idle times which classes are within their rates, decides
//! which ones borrow, and gives them turns.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_netlink::TcRateSpec;
use weir_packet::Packet;

use crate::block::Block;
use crate::qdisc::classes::Classes;
use crate::qdisc::{Drops, Leaf, Load, QueueCx, pkt_len};
use crate::rate::{TABLE_LEN, ns_to_ticks, ticks_to_ns};

/// Number of priorities (`TC_CBQ_MAXPRIO`).
pub const PRIOS: usize = 8;
/// The level of `toplevel` at which every ancestor may lend (`TC_CBQ_MAXLEVEL`).
pub const TOP: u8 = 8;
/// Default weight of the past in the average of idle times (`TC_CBQ_DEF_EWMA`).
pub const EWMA: u8 = 5;
/// `minidle` of a class without one: no limit in practice.
pub const NO_MINIDLE: i64 = -0x7fff_ffff;
/// The longest idle time in ticks that enters the average. A longer one resets it.
const LONG_IDLE: i64 = 128 << 20;
/// Cells of a rate table.
const CELLS: usize = TABLE_LEN / 4;

/// A rate with its table of transmission times (`struct qdisc_rate_table`).
#[derive(Debug)]
pub struct Table {
    /// The specification as the client sent it.
    pub spec: TcRateSpec,
    ticks: [u32; CELLS],
}

impl Table {
    /// Makes a table from a checked attribute.
    pub fn new(spec: TcRateSpec, cells: &[u8]) -> Arc<Self> {
        let mut ticks = [0; CELLS];
        for (tick, cell) in ticks.iter_mut().zip(cells.as_chunks::<4>().0) {
            *tick = u32::from_ne_bytes(*cell);
        }
        Arc::new(Self { spec, ticks })
    }

    /// Returns the transmission time of a packet of `len` bytes in ticks (`qdisc_l2t`).
    fn time_of(&self, len: u32) -> i64 {
        let offset = i32::from(self.spec.cell_align) + i32::from(self.spec.overhead);
        let slot = (len as i32).wrapping_add(offset).max(0) as u32 >> (self.spec.cell_log & 31);
        let (rounds, slot) = (slot >> 8, slot as usize & (CELLS - 1));
        // Linux also computes with 32 bits that wrap.
        let beyond = self.ticks[CELLS - 1].wrapping_mul(rounds);
        i64::from(beyond.wrapping_add(self.ticks[slot]))
    }
}

/// A class. Times are in ticks of 64 ns.
pub struct Class {
    /// Number of the parent, 0 for the class of the link.
    pub parent: u32,
    /// 0 for a leaf, otherwise one more than the highest level of the children.
    pub level: u8,
    /// Number of children.
    pub children: u32,
    pub block: Arc<Block>,
    pub leaf: Leaf,
    /// Whether it uses the bandwidth of its parent (not `isolated`).
    pub shares: bool,
    /// Whether it borrows from its parent (not `bounded`).
    pub borrows: bool,
    pub rate: Arc<Table>,
    pub ewma_log: u8,
    pub avpkt: u32,
    /// Bounds of the average idle time.
    pub maxidle: i64,
    pub minidle: i64,
    pub offtime: i64,
    pub priority: u8,
    pub allot: i64,
    pub weight: i64,
    pub quantum: i64,
    deficit: i64,
    /// Whether it is in the turns of its priority.
    active: bool,
    /// Whether it was put to sleep since it was last within its rate.
    delayed: bool,
    /// The end of its last packet.
    last: u64,
    /// The time from which it is within its rate; 0 if it is.
    undertime: u64,
    /// The average idle time, scaled by two to the power of `ewma_log`.
    pub avgidle: i64,
    /// The class that chooses this one by priority, 0 for none, and the priorities.
    pub split: u32,
    pub defmap: u32,
    /// The classes chosen here by priority, 0 for none.
    pub defaults: [u32; 16],
    pub bytes: u64,
    pub packets: u64,
    pub drops: u32,
    pub overlimits: u32,
    pub borrowed: u32,
    pub overactions: u32,
}

impl Class {
    /// Makes a class under `parent`, a number (0 for the class of the link itself).
    pub fn new(parent: u32, block: Arc<Block>, leaf: Leaf, rate: Arc<Table>, allot: i64) -> Self {
        Self {
            parent,
            level: 0,
            children: 0,
            block,
            leaf,
            shares: false,
            borrows: parent != 0,
            weight: i64::from(rate.spec.rate),
            rate,
            ewma_log: 0,
            avpkt: 0,
            maxidle: 0,
            minidle: NO_MINIDLE,
            offtime: 0,
            priority: 0,
            allot,
            quantum: allot,
            deficit: 0,
            active: false,
            delayed: false,
            last: 0,
            undertime: 0,
            avgidle: 0,
            split: 0,
            defmap: 0,
            defaults: [0; 16],
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            borrowed: 0,
            overactions: 0,
        }
    }

    fn is_within_rate(&self, now: u64) -> bool {
        self.undertime == 0 || now >= self.undertime
    }

    /// Returns the idle time after which a negative average is zero again.
    fn recovery(&self) -> i64 {
        let debt = self.avgidle.saturating_neg().max(0);
        debt - debt.wrapping_shr(u32::from(self.ewma_log))
    }

    /// Returns the ticks until the class is within its rate, 0 or less if it is.
    fn wait(&self, now: u64) -> i64 {
        self.undertime.wrapping_sub(now) as i64
    }

    /// Counts a packet of `len` bytes, which stands for `count` on the wire and ends at `now` (`cbq_update`). `link` is its time on the
    /// link.
    fn sent(&mut self, (len, count): (u32, u64), now: u64, link: i64) {
        self.bytes = self.bytes.wrapping_add(u64::from(len));
        self.packets = self.packets.wrapping_add(count);
        let own = self.rate.time_of(len);
        // Below 0 if a longer packet left in the same instant. Linux takes that for a long idle time.
        let idle = now.wrapping_sub(self.last) as i64;
        let average = if idle > LONG_IDLE {
            self.maxidle
        } else {
            let past = self.avgidle - self.avgidle.wrapping_shr(u32::from(self.ewma_log));
            past + (idle - own)
        };
        if average <= 0 {
            self.avgidle = average.max(self.minidle);
            // The time on the link is over already at `now`.
            let wait = self.recovery() + own - link;
            self.undertime = now.wrapping_add_signed(wait);
        } else {
            self.avgidle = average.min(self.maxidle);
            self.undertime = 0;
        }
        if idle > 0 {
            self.last = now;
        }
    }
}

/// A packet that left and is not accounted yet.
#[derive(Debug, Clone, Copy)]
struct Sent {
    class: u32,
    /// The class whose bandwidth it used.
    lender: u32,
    len: u32,
    /// The packets on the wire that it stands for.
    count: u64,
}

/// The classes of a qdisc and the state of their scheduler.
pub struct Tree {
    pub classes: Classes<Class>,
    /// The class of the link.
    pub link: u32,
    /// Active classes by priority, in the order of their turns.
    turns: [VecDeque<u32>; PRIOS],
    /// Number of classes and sum of weights by priority.
    counts: [u32; PRIOS],
    weights: [u32; PRIOS],
    sent: Option<Sent>,
    /// The time of the last dequeue.
    now: u64,
    /// The highest level that may lend.
    toplevel: u8,
    /// The ticks until some class may send, if any has to wait.
    wait: Option<i64>,
}

impl Tree {
    /// Makes a tree with the class of the link.
    pub fn new(id: u32, link: Class, now: u64) -> Self {
        let mut classes = Classes::default();
        let link = classes.insert(id, link);
        Self {
            classes,
            link,
            turns: Default::default(),
            counts: [0; PRIOS],
            weights: [0; PRIOS],
            sent: None,
            now: ns_to_ticks(now),
            toplevel: TOP,
            wait: None,
        }
    }

    pub fn class(&self, number: u32) -> &Class {
        self.classes
            .get(number)
            .expect("numbers refer to existing classes")
    }

    pub fn class_mut(&mut self, number: u32) -> &mut Class {
        self.classes
            .get_mut(number)
            .expect("numbers refer to existing classes")
    }

    /// Returns the class that a class borrows from.
    fn lender_of(&self, number: u32) -> Option<u32> {
        let class = self.class(number);
        class.borrows.then_some(class.parent)
    }

    /// Returns the ticks until a class is within its rate, as statistics show them.
    pub fn undertime(&self, number: u32) -> i32 {
        match self.class(number) {
            class if class.undertime == 0 => 0,
            class => class.wait(self.now) as i32,
        }
    }

    // The turns.

    /// Gives a class with packets its turns (`cbq_activate_class`).
    pub fn activate(&mut self, number: u32) {
        let class = self.class_mut(number);
        if !std::mem::replace(&mut class.active, true) {
            let prio = usize::from(class.priority);
            self.turns[prio].push_back(number);
        }
    }

    /// Removes a class from the turns (`cbq_deactivate_class`).
    pub fn deactivate(&mut self, number: u32) {
        let class = self.class_mut(number);
        if std::mem::take(&mut class.active) {
            let prio = usize::from(class.priority);
            self.turns[prio].retain(|&other| other != number);
        }
    }

    /// Notes that a packet arrived in a class (`cbq_mark_toplevel`): the lowest class on its way up
    /// that is within its rate bounds the levels that may lend.
    pub fn arrived(&mut self, mut number: u32, now: u64) {
        let (limit, now) = (self.toplevel, ns_to_ticks(now));
        loop {
            let class = self.class(number);
            if limit <= class.level {
                return;
            }
            if class.undertime < now {
                self.toplevel = class.level;
                return;
            }
            match self.lender_of(number) {
                Some(lender) => number = lender,
                None => return,
            }
        }
    }

    /// Accounts the packet that left last (`cbq_update`).
    fn account(&mut self) {
        let Some(sent) = self.sent.take() else {
            return;
        };
        let Sent {
            class,
            lender,
            len,
            count,
        } = sent;
        let link = self.class(self.link).rate.time_of(len);
        // A device does not say when a packet ends, so its time on the link is added.
        let now = self.now.wrapping_add_signed(link);
        let mut next = Some(class);
        while let Some(number) = next {
            let class = self.class_mut(number);
            class.sent((len, count), now, link);
            next = class.shares.then_some(class.parent);
        }
        if self.toplevel < self.class(lender).level || self.class(class).leaf.load().len <= 1 {
            return;
        }
        let mut next = Some(lender);
        while let Some(number) = next {
            if self.class(number).undertime == 0 {
                self.toplevel = self.class(number).level;
                return;
            }
            next = self.lender_of(number);
        }
    }

    /// Returns the class whose bandwidth a class with packets may use now (`cbq_under_limit`):
    /// itself or an ancestor. Otherwise it notes when to ask again.
    fn lender(&mut self, number: u32) -> Option<u32> {
        let now = self.now;
        let mut at = number;
        while self.class(at).parent != 0 || at != number {
            let class = self.class_mut(at);
            if class.is_within_rate(now) {
                class.delayed = false;
                return Some(at);
            }
            let Some(above) = self.lender_of(at) else {
                let class = self.class_mut(number);
                class.overlimits = class.overlimits.wrapping_add(1);
                self.sleep(number);
                return None;
            };
            if self.class(above).level > self.toplevel {
                if self.toplevel == TOP {
                    // Linux forgets to wake here.
                    self.wake_in(self.class(number).wait(now));
                }
                return None;
            }
            at = above;
        }
        Some(number)
    }

    fn wake_in(&mut self, ticks: i64) {
        let ticks = ticks.max(1);
        self.wait = Some(self.wait.map_or(ticks, |wait| wait.min(ticks)));
    }

    /// Puts a class above its rate to sleep (`cbq_overlimit`).
    fn sleep(&mut self, number: u32) {
        let now = self.now;
        let class = self.class_mut(number);
        if !class.delayed {
            // The average cannot recover in sleep, so the time of its recovery is forgiven.
            let wait = class.wait(now) + class.offtime - class.recovery();
            class.avgidle = class.avgidle.max(class.minidle);
            class.undertime = now.wrapping_add_signed(wait.max(1));
            class.overactions = class.overactions.wrapping_add(1);
            class.delayed = true;
        }
        self.wake_in(self.class(number).wait(now));
        if self.toplevel != TOP {
            return;
        }
        // An ancestor may be able to lend earlier.
        let mut next = self.lender_of(number);
        while let Some(above) = next.filter(|&above| self.class(above).level <= TOP) {
            self.wake_in(self.class(above).wait(now));
            next = self.lender_of(above);
        }
    }

    /// Dequeues the packet whose turn it is in a priority (`cbq_dequeue_prio`).
    fn turn(
        &mut self,
        prio: usize,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
    ) -> Option<Packet> {
        loop {
            // Classes that got a new allotment in this round, and those above their rates.
            let mut refilled: Vec<u32> = Vec::new();
            let mut over: Vec<u32> = Vec::new();
            let mut at = 0;
            while let Some(&number) = self.turns[prio].get(at) {
                let waits = self.class(number).leaf.load().len > 0;
                let before = self.class(number).overlimits;
                let lender = if waits {
                    self.lender(number)
                } else {
                    Some(number)
                };
                if let Some(lender) = lender {
                    let class = self.class_mut(number);
                    if class.deficit <= 0 {
                        class.deficit = class.deficit.saturating_add(class.quantum.max(1));
                        refilled.push(number);
                        at += 1;
                        continue;
                    }
                    let leaf = class.leaf.clone();
                    let (packet, _) = leaf.dequeue(q, total);
                    if let Some(packet) = packet {
                        self.left((prio, at), number, lender, &packet);
                        return Some(packet);
                    }
                } else if self.class(number).overlimits != before {
                    over.push(number);
                }
                if self.class(number).leaf.load().len == 0 {
                    self.turns[prio].remove(at);
                    self.class_mut(number).active = false;
                } else {
                    at += 1;
                }
            }
            if refilled.is_empty() {
                return None;
            }
            self.skip_rounds(&refilled, &over);
        }
    }

    /// Plays the rounds in which classes only get allotments, up to the one before a class may
    /// send. After a packet much larger than its quantum a class needs many rounds.
    fn skip_rounds(&mut self, refilled: &[u32], over: &[u32]) {
        let rounds = |class: &Class| match class.deficit {
            1.. => 0,
            debt => debt.saturating_neg() / class.quantum.max(1) + 1,
        };
        let needed = refilled.iter().map(|&number| rounds(self.class(number)));
        let skipped = needed.min().unwrap_or(0);
        if skipped == 0 {
            return;
        }
        for &number in refilled {
            let class = self.class_mut(number);
            let gain = class.quantum.max(1).saturating_mul(skipped);
            class.deficit = class.deficit.saturating_add(gain);
        }
        for &number in over {
            let class = self.class_mut(number);
            class.overlimits = class.overlimits.wrapping_add(skipped as u32);
        }
    }

    /// Notes that a class sent a packet in turn `at`.
    fn left(&mut self, (prio, at): (usize, usize), number: u32, lender: u32, packet: &Packet) {
        let len = pkt_len(packet);
        let class = self.class_mut(number);
        class.deficit -= i64::from(len);
        let exhausted = class.deficit <= 0;
        self.sent = Some(Sent {
            class: number,
            lender,
            len,
            count: packet.wire_packets(),
        });
        if lender != number {
            for number in [lender, number] {
                let class = self.class_mut(number);
                class.borrowed = class.borrowed.wrapping_add(1);
            }
        }
        if exhausted {
            let turns = &mut self.turns[prio];
            turns.rotate_left(at + 1);
            if let Some(&next) = turns.front() {
                let class = self.class_mut(next);
                class.deficit = class.deficit.saturating_add(class.quantum);
            }
        }
    }

    /// Dequeues the next packet (`cbq_dequeue`). Returns the time in ns at which to ask again if no
    /// packet may leave before.
    pub fn dequeue(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
    ) -> Result<Packet, Option<u64>> {
        self.account();
        self.now = ns_to_ticks(q.now());
        loop {
            self.wait = None;
            for prio in 0..PRIOS {
                if let Some(packet) = self.turn(prio, q, total) {
                    return Ok(packet);
                }
            }
            // If no class may send, every level may lend, and the link is taken to be free.
            let link = self.link;
            if self.toplevel == TOP && self.class(link).undertime == 0 {
                break;
            }
            self.class_mut(link).undertime = 0;
            self.toplevel = TOP;
        }
        let now = self.now;
        let wake = self.wait.map(|wait| now.wrapping_add_signed(wait));
        Err(wake.map(ticks_to_ns))
    }

    /// Removes all packets and forgets all estimates (`cbq_reset`).
    pub fn reset(&mut self, total: &mut Load, out: &mut Drops) {
        self.turns.iter_mut().for_each(VecDeque::clear);
        self.sent = None;
        self.toplevel = TOP;
        for class in self.classes.values_mut() {
            class.leaf.purge(total, out);
            class.active = false;
            class.undertime = 0;
            class.avgidle = class.maxidle;
            class.deficit = class.quantum;
        }
    }

    // Changes of the tree.

    /// Adds a class, without a place in the turns yet.
    pub fn insert(&mut self, id: u32, class: Class) -> u32 {
        let parent = class.parent;
        let number = self.classes.insert(id, class);
        self.class_mut(parent).children += 1;
        self.adjust_levels(parent);
        number
    }

    /// Removes a class without packets and children (`cbq_delete`).
    pub fn remove(&mut self, number: u32) -> Option<Class> {
        self.deactivate(number);
        match &mut self.sent {
            Some(sent) if sent.class == number => self.sent = None,
            Some(sent) if sent.lender == number => sent.lender = sent.class,
            _ => {}
        }
        let class = self.classes.remove(number)?;
        self.class_mut(class.parent).children -= 1;
        self.adjust_levels(class.parent);
        self.forget_default(number, class.split, 0);
        self.set_defaults(class.split);
        let prio = usize::from(class.priority);
        self.uncount(prio, class.weight);
        Some(class)
    }

    /// Recomputes the levels of a class that has or had children, and of its ancestors
    /// (`cbq_adjust_levels`).
    fn adjust_levels(&mut self, mut number: u32) {
        while number != 0 {
            let children = self.classes.values().filter(|c| c.parent == number);
            let level = children.map(|child| child.level).max().unwrap_or(0);
            let class = self.class_mut(number);
            class.level = level.wrapping_add(1);
            number = class.parent;
        }
    }

    fn uncount(&mut self, prio: usize, weight: i64) {
        self.counts[prio] = self.counts[prio].wrapping_sub(1);
        self.weights[prio] = self.weights[prio].wrapping_sub(weight as u32);
    }

    /// Takes the weight of a class out of the sum of its priority (`cbq_rmprio`).
    pub fn leave_priority(&mut self, number: u32, mtu: u32) {
        let class = self.class(number);
        let (prio, weight) = (usize::from(class.priority), class.weight);
        self.uncount(prio, weight);
        self.share_quanta(prio, mtu);
    }

    /// Adds the weight of a class to the sum of its priority (`cbq_addprio`).
    pub fn join_priority(&mut self, number: u32, mtu: u32) {
        let class = self.class(number);
        let (prio, weight) = (usize::from(class.priority), class.weight);
        self.counts[prio] = self.counts[prio].wrapping_add(1);
        self.weights[prio] = self.weights[prio].wrapping_add(weight as u32);
        self.share_quanta(prio, mtu);
    }

    /// Computes the quanta of a priority from weights and allotments (`cbq_normalize_quanta`).
    pub fn share_quanta(&mut self, prio: usize, mtu: u32) {
        let (count, weights) = (self.counts[prio], self.weights[prio]);
        if weights == 0 {
            return;
        }
        for class in self.classes.values_mut() {
            if usize::from(class.priority) == prio {
                // Linux's product also wraps.
                let share = class.weight.wrapping_mul(class.allot);
                class.quantum = share.wrapping_mul(i64::from(count)) / i64::from(weights);
            }
            if class.quantum <= 0 || class.quantum > i64::from(mtu.wrapping_mul(32)) {
                class.quantum = i64::from(mtu / 2) + 1;
            }
        }
    }

    /// Forgets a class as the default of its split node, except for the priorities in `kept`.
    fn forget_default(&mut self, number: u32, split: u32, kept: u32) {
        let Some(split) = self.classes.get_mut(split) else {
            return;
        };
        for (priority, default) in split.defaults.iter_mut().enumerate() {
            if *default == number && kept & 1 << priority == 0 {
                *default = 0;
            }
        }
    }

    /// Fills the empty defaults of a split node with the lowest classes that ask for them.
    fn set_defaults(&mut self, split: u32) {
        let Some(node) = self.classes.get(split) else {
            return;
        };
        let (limit, mut defaults) = (node.level, node.defaults);
        let numbers = self.classes.numbers();
        for (priority, default) in defaults.iter_mut().enumerate() {
            if *default != 0 {
                continue;
            }
            let mut level = limit;
            for &number in &numbers {
                let class = self.class(number);
                let asks = class.split == split && class.defmap & 1 << priority != 0;
                if asks && class.level < level {
                    (*default, level) = (number, class.level);
                }
            }
        }
        self.class_mut(split).defaults = defaults;
    }

    /// Changes the priorities for which an ancestor chooses a class (`cbq_change_defmap`). `id` is
    /// the ancestor's, 0 for the one set before.
    pub fn change_defaults(&mut self, number: u32, id: u32, defmap: u32, mask: u32) {
        let old = self.class(number).split;
        let mut split = match id {
            0 => old,
            id if self.classes.id(old) == Some(id) => old,
            id => {
                let mut at = self.class(number).parent;
                while at != 0 && self.classes.id(at) != Some(id) {
                    at = self.class(at).parent;
                }
                at
            }
        };
        if split == 0 {
            return;
        }
        std::mem::swap(&mut self.class_mut(number).split, &mut split);
        let before = split;
        let class = self.class_mut(number);
        let split = class.split;
        class.defmap = match before == split {
            true => class.defmap & !mask | defmap & mask,
            false => defmap & mask,
        };
        let kept = class.defmap;
        if before != split {
            self.forget_default(number, before, 0);
            self.set_defaults(before);
        }
        self.forget_default(number, split, kept);
        self.set_defaults(split);
    }
}

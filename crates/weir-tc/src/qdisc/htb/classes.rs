// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree of classes: it decides which classes may send, which ones borrow, and the order of
//! their turns.

use std::num::NonZero;
use std::sync::Arc;

use weir_sync::bits::set_bits;

use crate::block::Block;
use crate::qdisc::bits::Bits;
use crate::qdisc::classes::Classes;
use crate::qdisc::heap::Heap;
use crate::qdisc::{Drops, Enqueued, Leaf, Load, Open, QueueCx, Taker, pkt_len};
use crate::rate::Rate;

/// Largest depth of the tree (`TC_HTB_MAXDEPTH`).
pub const LEVELS: usize = 8;
/// Number of priorities (`TC_HTB_NUMPRIO`).
const PRIOS: usize = 8;
/// The longest debt, in ns (`mbuffer`).
const DEBT: i64 = 60_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// Whether a class may send (`enum htb_cmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It may not send, not even by borrowing.
    CannotSend,
    /// It may send by borrowing from an ancestor.
    MayBorrow,
    /// It may send at its own rate.
    CanSend,
}

/// Classes of one priority that take turns, by their minor numbers (`struct htb_prio`).
#[derive(Debug, Default)]
struct Turns {
    set: Bits,
    /// The class whose turn it is.
    at: Option<u16>,
    /// The class whose turn it was when it was removed, 0 for none.
    last: u16,
}

impl Turns {
    /// Moves on to the next class.
    fn advance(&mut self) {
        self.at = self.at.and_then(|at| self.set.after(at));
    }
}

/// A class. It fills three cache lines, because the many classes that send in turn are not in the
/// near caches. State that only inner classes need is stored elsewhere.
#[repr(align(64))]
pub struct Class {
    /// Number of its parent.
    pub parent: Option<NonZero<u32>>,
    /// Number of its children.
    pub children: u16,
    /// Minor number of its id.
    minor: u16,
    /// Level: 0 for a leaf; for an inner class one less than that of its parent.
    pub level: u8,
    /// Guaranteed rate.
    pub rate: Rate,
    /// Rate up to which it may borrow.
    pub ceil: Rate,
    /// Bucket depth of `rate`, in ns.
    pub buffer: i64,
    /// Bucket depth of `ceil`, in ns.
    pub cbuffer: i64,
    /// Credit of `rate`, in ns.
    pub tokens: i64,
    /// Credit of `ceil`, in ns.
    pub ctokens: i64,
    /// Time at which the credit was computed, in ns.
    at: i64,
    /// Priority; the lowest goes first.
    pub prio: u8,
    /// Bytes per turn.
    pub quantum: i32,
    /// Filters of the class.
    pub block: Arc<Block>,
    /// Queue of a leaf.
    pub leaf: Leaf,
    deficit: [i32; LEVELS],
    /// Children of an inner class that borrow, by priority.
    feed: Option<Box<Feed>>,
    mode: Mode,
    /// Bit mask of the priorities in which it has packets.
    activity: u8,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Times it could not send.
    pub overlimits: u32,
    /// Packets sent from its own rate.
    pub lends: u32,
    /// Packets sent by borrowing.
    pub borrows: u32,
}

/// Children that take turns, by priority.
type Feed = [Turns; PRIOS];

impl Class {
    /// Returns the children of a priority that borrow from an inner class.
    fn feed(&mut self, prio: usize) -> &mut Turns {
        &mut self.feed.get_or_insert_default()[prio]
    }

    /// Returns the number of its parent.
    #[inline]
    pub fn parent(&self) -> Option<u32> {
        self.parent.map(NonZero::get)
    }

    /// Makes a leaf.
    pub fn new(parent: Option<u32>, block: Arc<Block>, leaf: Leaf, now: u64) -> Self {
        Self {
            parent: parent.and_then(NonZero::new),
            children: 0,
            minor: 0,
            level: 0,
            rate: Rate::default(),
            ceil: Rate::default(),
            buffer: 0,
            cbuffer: 0,
            tokens: 0,
            ctokens: 0,
            at: now as i64,
            prio: 0,
            quantum: 0,
            block,
            leaf,
            deficit: [0; LEVELS],
            feed: None,
            mode: Mode::CanSend,
            activity: 0,
            bytes: 0,
            packets: 0,
            drops: 0,
            overlimits: 0,
            lends: 0,
            borrows: 0,
        }
    }

    /// Charges for a packet that left at `level` and stands for `count` on the wire. Returns whether this
    /// changes the mode.
    #[inline]
    fn charge(&mut self, now: i64, level: usize, (len, count): (u32, u64)) -> bool {
        self.bytes = self.bytes.wrapping_add(u64::from(len));
        self.packets = self.packets.wrapping_add(count);
        let earned = (now - self.at).min(DEBT);
        let own = usize::from(self.level);
        if own >= level {
            self.lends = self.lends.wrapping_add(u32::from(own == level));
            self.tokens = pay(self.tokens, self.buffer, earned, self.rate.time_of(len));
        } else {
            self.borrows = self.borrows.wrapping_add(1);
            self.tokens += earned;
        }
        self.ctokens = pay(self.ctokens, self.cbuffer, earned, self.ceil.time_of(len));
        self.at = now;
        self.mode_after(0).0 != self.mode
    }

    /// Returns the mode with `diff` ns more credit, and the time in ns until it can change
    /// (`htb_class_mode`).
    fn mode_after(&self, diff: i64) -> (Mode, i64) {
        let ctokens = self.ctokens.wrapping_add(diff);
        if ctokens < 0 {
            return (Mode::CannotSend, -ctokens);
        }
        let tokens = self.tokens.wrapping_add(diff);
        if tokens >= 0 {
            return (Mode::CanSend, diff);
        }
        (Mode::MayBorrow, -tokens)
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Option<Class>>() == 192);

/// Returns the credit after a charge (`htb_accnt_tokens`).
fn pay(tokens: i64, depth: i64, earned: i64, cost: u64) -> i64 {
    let tokens = (tokens + earned).min(depth) - cost as i64;
    if tokens <= -DEBT { 1 - DEBT } else { tokens }
}

/// A level of the tree (`struct htb_level`).
#[derive(Default)]
struct Level {
    /// Classes that wait for a time, in ns.
    waiting: Heap<i64>,
    /// Classes that can send, by priority.
    row: [Turns; PRIOS],
}

/// The classes; see the module documentation.
#[derive(Default)]
pub struct Tree {
    classes: Classes<Class>,
    /// Class numbers by minor number, 0 for none.
    minors: Vec<u32>,
    major: u32,
    levels: [Level; LEVELS],
    /// Bit mask of the rows that are not empty: a bit for each priority of level 0, then of level
    /// 1, and so on.
    busy: u64,
    /// By level, the time at which to check the waiting classes.
    next_events: [i64; LEVELS],
    /// The earliest of `next_events`.
    next_event: i64,
    now: i64,
}

/// A row from which packets are dequeued.
#[derive(Clone, Copy)]
struct Row {
    level: usize,
    prio: usize,
    /// Whether to dequeue only one packet. The rows before this one had none to send, and are tried
    /// again for the next packet.
    single: bool,
}

/// The result of dequeueing from a leaf.
enum Dequeued {
    /// The leaf sent packets. `more` says whether more are wanted.
    Packets { more: bool },
    /// The leaf sends nothing more for now. `left` is its remaining load.
    Nothing { left: Load, sent_some: bool },
}

/// Returns the first bit of a level in [`Tree::busy`].
#[inline]
fn first_bit(level: usize) -> usize {
    level * PRIOS
}

impl Tree {
    /// Returns the number of the class with an id.
    #[inline]
    pub fn find(&self, classid: u32) -> Option<u32> {
        if classid >> 16 != self.major {
            return None;
        }
        let number = *self.minors.get((classid & 0xffff) as usize)?;
        (number != 0).then_some(number)
    }

    /// Returns a class by its number.
    pub fn get(&self, number: u32) -> Option<&Class> {
        self.classes.get(number)
    }

    /// Returns a class by its number if it is a leaf.
    pub fn leaf_mut(&mut self, number: u32) -> Option<&mut Class> {
        let class = self.classes.get_mut(number);
        class.filter(|class| class.level == 0)
    }

    /// Prefetches the state that a packet of a class will use. Each step needs the lines of the
    /// step before.
    #[inline]
    pub fn prefetch(&self, number: u32, step: u32) {
        match (step, self.classes.get(number)) {
            (0, _) => self.classes.prefetch(number),
            (step, Some(class)) => class.leaf.prefetch(step - 1),
            _ => {}
        }
    }

    /// Returns the number of classes.
    #[inline]
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Returns an existing class.
    #[inline]
    pub fn class(&self, number: u32) -> &Class {
        self.classes
            .get(number)
            .expect("numbers refer to existing classes")
    }

    /// Returns an existing class mutably.
    #[inline]
    pub fn class_mut(&mut self, number: u32) -> &mut Class {
        self.classes
            .get_mut(number)
            .expect("numbers refer to existing classes")
    }

    /// Returns the id of a class.
    pub fn id(&self, number: u32) -> u32 {
        self.classes.id(number).unwrap_or(0)
    }

    /// Returns the numbers of all classes in the order of dumps.
    pub fn numbers(&self) -> Vec<u32> {
        self.classes.numbers()
    }

    /// Iterates over all classes.
    pub fn values(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }

    /// Inserts a class and returns its number.
    pub fn insert(&mut self, classid: u32, mut class: Class) -> u32 {
        self.major = classid >> 16;
        class.minor = classid as u16;
        if let Some(parent) = class.parent() {
            self.class_mut(parent).children += 1;
        }
        let number = self.classes.insert(classid, class);
        let minor = (classid & 0xffff) as usize;
        if minor >= self.minors.len() {
            self.minors.resize(minor + 1, 0);
        }
        self.minors[minor] = number;
        number
    }

    /// Removes a class that has no children.
    pub fn remove(&mut self, number: u32) -> Option<Class> {
        self.deactivate(number);
        self.stop_waiting(number);
        let class = self.classes.remove(number)?;
        self.minors[usize::from(class.minor)] = 0;
        if let Some(parent) = class.parent() {
            self.class_mut(parent).children -= 1;
        }
        Some(class)
    }

    fn stop_waiting(&mut self, number: u32) {
        let level = usize::from(self.class(number).level);
        self.levels[level].waiting.remove(number);
    }

    /// Turns a leaf that gets its first child into an inner class.
    pub fn leaf_to_inner(&mut self, number: u32) {
        self.deactivate(number);
        self.stop_waiting(number);
        let above = self.class(number).parent();
        let above = above.map_or(LEVELS as u8, |above| self.class(above).level);
        let class = self.class_mut(number);
        class.mode = Mode::CanSend;
        class.level = above - 1;
        class.feed = None;
    }

    /// Turns a class that lost its last child into a leaf.
    pub fn inner_to_leaf(&mut self, number: u32, leaf: Leaf, now: u64) {
        self.stop_waiting(number);
        let class = self.class_mut(number);
        class.level = 0;
        class.leaf = leaf;
        class.deficit = [0; LEVELS];
        class.feed = None;
        (class.tokens, class.ctokens) = (class.buffer, class.cbuffer);
        class.at = now as i64;
        class.mode = Mode::CanSend;
    }

    /// Removes all waiting packets.
    pub fn reset(&mut self, out: &mut Drops) {
        for class in self.classes.values_mut() {
            class.leaf.purge(&mut Load::default(), out);
            class.feed = None;
            class.activity = 0;
            class.mode = Mode::CanSend;
        }
        self.levels = Default::default();
        (self.busy, self.next_events, self.next_event) = Default::default();
    }

    /// Activates a leaf that has a packet to send (`htb_activate`).
    #[inline]
    pub fn activate(&mut self, number: u32) {
        let class = self.class_mut(number);
        if class.activity != 0 {
            return;
        }
        class.activity = 1 << class.prio;
        match (class.mode, class.minor, class.prio) {
            (Mode::CanSend, minor, prio) => self.enter_row(0, usize::from(prio), minor),
            _ => self.enter(number),
        }
    }

    /// Adds a class that can send to the row of its level.
    #[inline]
    fn enter_row(&mut self, level: usize, prio: usize, minor: u16) {
        self.busy |= 1 << (first_bit(level) + prio);
        self.levels[level].row[prio].set.insert(minor);
    }

    /// Removes a class from the row of its level.
    #[inline]
    fn leave_row(&mut self, level: usize, prio: usize, minor: u16) {
        let row = &mut self.levels[level].row[prio];
        if row.at == Some(minor) {
            row.advance();
        }
        row.set.remove(minor);
        if row.set.is_empty() {
            self.busy &= !(1 << (first_bit(level) + prio));
        }
    }

    /// Deactivates a class that has nothing left to send (`htb_deactivate`).
    #[inline]
    pub fn deactivate(&mut self, number: u32) {
        let class = self.class_mut(number);
        let mask = std::mem::take(&mut class.activity);
        match (class.mode, class.minor, class.level) {
            (Mode::CanSend, minor, 0) => {
                set_bits(mask.into()).for_each(|prio| self.leave_row(0, prio, minor));
            }
            _ => self.withdraw(number, mask),
        }
    }

    /// Adds a class to the feed of its parent while it borrows, and likewise the classes above it;
    /// adds the first class that can send to the row of its level (`htb_activate_prios`).
    fn enter(&mut self, mut number: u32) {
        let mut mask = self.class(number).activity;
        while mask != 0 {
            let class = self.class(number);
            let (mode, minor, level) = (class.mode, class.minor, usize::from(class.level));
            let Some(parent) = class.parent().filter(|_| mode == Mode::MayBorrow) else {
                if mode == Mode::CanSend {
                    set_bits(mask.into()).for_each(|prio| self.enter_row(level, prio, minor));
                }
                return;
            };
            let above = self.class_mut(parent);
            for prio in set_bits(mask.into()) {
                let feed = &mut above.feed(prio).set;
                if !feed.is_empty() {
                    mask &= !(1 << prio);
                }
                feed.insert(minor);
            }
            above.activity |= mask;
            number = parent;
        }
    }

    /// Removes a class from the feeds and rows of the priorities in `mask`, in which it had packets
    /// (`htb_deactivate_prios`).
    fn withdraw(&mut self, mut number: u32, mut mask: u8) {
        while mask != 0 {
            let class = self.class(number);
            let (mode, minor, level) = (class.mode, class.minor, usize::from(class.level));
            let Some(parent) = class.parent().filter(|_| mode == Mode::MayBorrow) else {
                if mode == Mode::CanSend {
                    set_bits(mask.into()).for_each(|prio| self.leave_row(level, prio, minor));
                }
                return;
            };
            let above = self.class_mut(parent);
            for prio in set_bits(mask.into()) {
                let feed = above.feed(prio);
                if feed.at == Some(minor) {
                    (feed.last, feed.at) = (minor, None);
                }
                feed.set.remove(minor);
                if !feed.set.is_empty() {
                    mask &= !(1 << prio);
                }
            }
            above.activity &= !mask;
            number = parent;
        }
    }

    /// Updates the mode of a class. Returns the time in ns until it can change again
    /// (`htb_change_class_mode`).
    fn update(&mut self, q: &mut QueueCx<'_, '_, '_>, number: u32, diff: i64) -> i64 {
        let class = self.class_mut(number);
        let (mode, diff) = class.mode_after(diff);
        if mode == class.mode {
            return diff;
        }
        if mode == Mode::CannotSend {
            class.overlimits = class.overlimits.wrapping_add(1);
            q.note().overlimits += 1;
        }
        let (activity, old) = (class.activity, class.mode);
        if old != Mode::CannotSend {
            self.withdraw(number, activity);
        }
        self.class_mut(number).mode = mode;
        if mode != Mode::CannotSend {
            self.enter(number);
        }
        diff
    }

    /// Lets a class wait for `delay` ns (`htb_add_to_wait_tree`).
    fn wait(&mut self, number: u32, delay: i64) {
        let key = self.now.wrapping_add(delay.max(1));
        let level = usize::from(self.class(number).level);
        self.next_events[level] = self.next_events[level].min(key);
        self.next_event = self.next_event.min(key);
        self.levels[level].waiting.insert(number, key);
    }

    /// Updates the modes of the classes whose time has come. Returns the next such time
    /// (`htb_do_events`).
    fn events(&mut self, q: &mut QueueCx<'_, '_, '_>, level: usize) -> Option<i64> {
        while let Some((key, number)) = self.levels[level].waiting.first() {
            if key > self.now {
                return Some(key);
            }
            self.levels[level].waiting.remove(number);
            let earned = (self.now - self.class(number).at).min(DEBT);
            let wait = self.update(q, number, earned);
            if self.class(number).mode != Mode::CanSend {
                self.wait(number, wait);
            }
        }
        None
    }

    /// Checks the waiting classes of a level if it is time.
    fn check_waiting(&mut self, q: &mut QueueCx<'_, '_, '_>, level: usize) {
        if self.now >= self.next_events[level] {
            let event = self.events(q, level).unwrap_or(self.now + SECOND);
            self.next_events[level] = event;
            self.next_event = self.next_events.into_iter().fold(i64::MAX, i64::min);
        }
    }

    /// Returns the turns of a class's children or of a level's row.
    fn turns(&mut self, of: Option<u32>, level: usize, prio: usize) -> &mut Turns {
        match of {
            Some(number) => self.class_mut(number).feed(prio),
            None => &mut self.levels[level].row[prio],
        }
    }

    /// Returns the leaf whose turn it is (`htb_lookup_leaf`).
    fn leaf_in_turn(&mut self, level: usize, prio: usize) -> Option<u32> {
        let row = &self.levels[level].row[prio];
        if row.set.is_empty() {
            return None;
        }
        if let (Some(minor), 0) = (row.at, row.last) {
            // In most cases the entry of the row is a leaf.
            let number = *self.minors.get(usize::from(minor))?;
            if self.class(number).level == 0 {
                return Some(number);
            }
        }
        let mut path = [None; LEVELS + 1];
        let mut depth = 0;
        for _ in 0..65535 {
            let turns = self.turns(path[depth], level, prio);
            let last = std::mem::take(&mut turns.last);
            if turns.at.is_none() && last != 0 {
                turns.at = turns.set.from(last);
            }
            let Some(minor) = turns.at else {
                // This list is at its end. It starts over, and the list above advances.
                turns.at = turns.set.from(0);
                if depth > 0 {
                    depth -= 1;
                    self.turns(path[depth], level, prio).advance();
                }
                continue;
            };
            let number = *self.minors.get(usize::from(minor))?;
            if self.class(number).level == 0 {
                return Some(number);
            }
            depth += 1;
            path[depth] = Some(number);
        }
        None
    }

    /// Ends the turn of a leaf among those it sends with at `level`.
    fn end_turn(&mut self, number: u32, level: usize, prio: usize) {
        let parent = self.class(number).parent().filter(|_| level > 0);
        self.turns(parent, level, prio).advance();
    }

    /// Updates a leaf after a packet was enqueued to it.
    #[inline]
    pub fn enqueued(&mut self, number: u32, result: Enqueued) {
        match result {
            Enqueued::Queued => self.activate(number),
            Enqueued::Dropped | Enqueued::Congested => {
                let class = self.class_mut(number);
                class.drops = class.drops.wrapping_add(1);
            }
            Enqueued::Stolen => {}
        }
    }

    /// Dequeues packets of a row. Returns `None` if it has none, else whether more are wanted
    /// (`htb_dequeue_tree`).
    fn dequeue_row(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        row: Row,
        to: &mut impl Taker,
    ) -> Option<bool> {
        let mut start = self.leaf_in_turn(row.level, row.prio)?;
        let mut number = start;
        loop {
            let leaf = std::mem::take(&mut self.class_mut(number).leaf);
            let dequeued = self.dequeue_leaf(&mut leaf.open(), q, total, (number, row), to);
            self.class_mut(number).leaf = leaf;
            let (left, sent) = match dequeued {
                Dequeued::Packets { more } => return Some(more),
                Dequeued::Nothing { left, sent_some } => (left, sent_some),
            };
            if sent {
                // The leaf counts as the start of the round, because it sent packets.
                start = number;
            }
            if left.len == 0 {
                self.deactivate(number);
                if self.busy & (1 << (first_bit(row.level) + row.prio)) == 0 {
                    return None;
                }
                let next = self.leaf_in_turn(row.level, row.prio)?;
                if number == start {
                    start = next;
                }
                number = next;
                continue;
            }
            self.end_turn(number, row.level, row.prio);
            number = self.leaf_in_turn(row.level, row.prio)?;
            if number == start {
                return None;
            }
        }
    }

    /// Dequeues from a leaf whose queue is `queue`: one packet or, if the row permits, all packets
    /// that would leave one after the other.
    #[inline]
    fn dequeue_leaf(
        &mut self,
        queue: &mut Open<'_>,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        (number, row): (u32, Row),
        to: &mut impl Taker,
    ) -> Dequeued {
        let (now, level) = (self.now, row.level);
        let mut sent_some = false;
        loop {
            let (packet, left) = queue.dequeue(q, total);
            let Some(packet) = packet else {
                return Dequeued::Nothing { left, sent_some };
            };
            let class = self.class_mut(number);
            let (len, count, parent) = (pkt_len(&packet), packet.wire_packets(), class.parent());
            let changes = class.charge(now, level, (len, count));
            let deficit = &mut class.deficit[level];
            *deficit = deficit.wrapping_sub(len as i32);
            let over = *deficit < 0;
            if over {
                *deficit = deficit.wrapping_add(class.quantum);
                self.end_turn(number, level, row.prio);
            }
            if left.len == 0 {
                self.deactivate(number);
            }
            if changes {
                self.change_mode(q, number);
            }
            let ends =
                self.charge(q, parent, level, (len, count)) || changes || over || left.len == 0;
            let more = to.take(packet);
            if !more || row.single || ends {
                return Dequeued::Packets { more };
            }
            sent_some = true;
        }
    }

    /// Charges a class and its ancestors for a packet that left at `level`. Returns whether a mode
    /// changed (`htb_charge_class`).
    #[inline]
    fn charge(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        mut payer: Option<u32>,
        level: usize,
        packet: (u32, u64),
    ) -> bool {
        let mut changes = false;
        while let Some(number) = payer {
            let now = self.now;
            let class = self.class_mut(number);
            payer = class.parent();
            if class.charge(now, level, packet) {
                self.change_mode(q, number);
                changes = true;
            }
        }
        changes
    }

    /// Applies the changed mode of a class that was charged, and lets it wait if it cannot send.
    #[cold]
    fn change_mode(&mut self, q: &mut QueueCx<'_, '_, '_>, number: u32) {
        let old = self.class(number).mode;
        let wait = self.update(q, number, 0);
        if old != Mode::CanSend {
            self.stop_waiting(number);
        }
        if self.class(number).mode != Mode::CanSend {
            self.wait(number, wait);
        }
    }

    /// Dequeues packets into `to` (`htb_dequeue`). Returns true if `to` wants no more and false if
    /// nothing waits.
    ///
    /// # Errors
    /// The time in ns of the next wakeup, if packets wait but none may leave.
    pub fn dequeue(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        to: &mut impl Taker,
    ) -> Result<bool, u64> {
        self.now = q.now() as i64;
        while total.len > 0 {
            if !self.next(q, total, to)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Dequeues the next packet and those that follow without another scheduling decision. Returns
    /// whether more are wanted.
    #[inline]
    fn next(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        to: &mut impl Taker,
    ) -> Result<bool, u64> {
        // Number of levels whose waiting classes were checked. A level is checked before a packet
        // of that level leaves.
        let mut checked = if self.now < self.next_event {
            LEVELS
        } else {
            0
        };
        let mut rows = u64::MAX;
        loop {
            let row = (self.busy & rows).trailing_zeros() as usize;
            if checked < LEVELS && first_bit(checked) <= row {
                self.check_waiting(q, checked);
                checked += 1;
                continue;
            }
            let (level, prio) = (row / PRIOS, row % PRIOS);
            if level == LEVELS {
                return Err(self.next_event.min(self.now + 5 * SECOND) as u64);
            }
            let turn = Row {
                level,
                prio,
                single: rows != u64::MAX,
            };
            if let Some(more) = self.dequeue_row(q, total, turn, to) {
                return Ok(more);
            }
            rows = (u64::MAX << row) << 1;
        }
    }
}

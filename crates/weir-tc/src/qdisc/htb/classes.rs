// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree of classes: who may send, who borrows from whom, whose turn it is.

use std::num::NonZero;
use std::sync::Arc;

use weir_sync::bits::set_bits;

use crate::block::Block;
use crate::qdisc::bits::Bits;
use crate::qdisc::classes::Classes;
use crate::qdisc::heap::Heap;
use crate::qdisc::{Drops, Enqueued, Leaf, Load, Open, QueueCx, Taker, pkt_len};
use crate::rate::Rate;

/// `TC_HTB_MAXDEPTH`
pub const LEVELS: usize = 8;
/// `TC_HTB_NUMPRIO`
const PRIOS: usize = 8;
/// The longest debt, ns (`mbuffer`).
const DEBT: i64 = 60_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// Whether a class may send (`enum htb_cmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not even by borrowing.
    CannotSend,
    /// From what an ancestor has left.
    MayBorrow,
    /// Of its own rate.
    CanSend,
}

/// Classes of one priority that take turns, by their minor numbers (`struct htb_prio`).
#[derive(Debug, Default)]
struct Turns {
    set: Bits,
    /// Whose turn it is.
    at: Option<u16>,
    /// Whose turn it was when it left, 0 none.
    last: u16,
}

impl Turns {
    /// The next one's turn comes.
    fn advance(&mut self) {
        self.at = self.at.and_then(|at| self.set.after(at));
    }
}

/// A class: three cache lines, for many that send in turn come from far away; what only inner ones need
/// lies elsewhere.
#[repr(align(64))]
pub struct Class {
    /// Its parent's number.
    pub parent: Option<NonZero<u32>>,
    /// How many children it has.
    pub children: u16,
    /// Minor number of its id.
    minor: u16,
    /// 0 of a leaf; an inner one's is one less than its parent's.
    pub level: u8,
    /// What it is sure of.
    pub rate: Rate,
    /// Up to which it may borrow.
    pub ceil: Rate,
    /// Depths of the buckets, ns.
    pub buffer: i64,
    /// See there.
    pub cbuffer: i64,
    /// Credit, ns.
    pub tokens: i64,
    /// See there.
    pub ctokens: i64,
    /// When the credit was computed.
    at: i64,
    /// Lowest first.
    pub prio: u8,
    /// Octets of a turn.
    pub quantum: i32,
    /// Filters.
    pub block: Arc<Block>,
    /// The queue of a leaf.
    pub leaf: Leaf,
    deficit: [i32; LEVELS],
    /// Of an inner one: children that borrow, by priority.
    feed: Option<Box<Feed>>,
    mode: Mode,
    /// Priorities in which it has something to send.
    activity: u8,
    /// Octets that left.
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
    /// Of an inner one: its children of a priority that borrow.
    fn feed(&mut self, prio: usize) -> &mut Turns {
        &mut self.feed.get_or_insert_default()[prio]
    }

    /// Its parent's number.
    #[inline]
    pub fn parent(&self) -> Option<u32> {
        self.parent.map(NonZero::get)
    }

    /// A leaf.
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

    /// Pays for a packet that left at `level`; whether that changes its mode.
    #[inline]
    fn charge(&mut self, now: i64, level: usize, len: u32) -> bool {
        self.bytes = self.bytes.wrapping_add(u64::from(len));
        self.packets = self.packets.wrapping_add(1);
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

    /// `htb_class_mode`: the mode after `diff` ns more of credit, and how long until it can change.
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

/// `htb_accnt_tokens`
fn pay(tokens: i64, depth: i64, earned: i64, cost: u64) -> i64 {
    let tokens = (tokens + earned).min(depth) - cost as i64;
    if tokens <= -DEBT { 1 - DEBT } else { tokens }
}

/// `struct htb_level`, with its place in the caches of the qdisc.
#[derive(Default)]
struct Level {
    /// Classes that wait for a time, ns.
    waiting: Heap<i64>,
    /// Classes that can send, by priority.
    row: [Turns; PRIOS],
}

/// The classes; see the module's head.
#[derive(Default)]
pub struct Tree {
    classes: Classes<Class>,
    /// Numbers by minor number, 0 none.
    minors: Vec<u32>,
    major: u32,
    levels: [Level; LEVELS],
    /// Rows that are not empty: a bit for each priority of level 0, then of level 1, and so on.
    busy: u64,
    /// When to look at those that wait, by level.
    next_events: [i64; LEVELS],
    /// The first of them.
    next_event: i64,
    now: i64,
}

/// A row that is asked for packets.
#[derive(Clone, Copy)]
struct Row {
    level: usize,
    prio: usize,
    /// For one packet: rows that were asked before are asked again for the next one.
    alone: bool,
}

/// What a leaf has given.
enum Given {
    /// What it could; whether more are wanted.
    Packets { more: bool },
    /// Nothing more for now: what is left waits.
    Nothing { left: Load, after_some: bool },
}

/// The first bit of a level in [`Tree::busy`].
#[inline]
fn first_bit(level: usize) -> usize {
    level * PRIOS
}

impl Tree {
    /// The number of the class with an id.
    #[inline]
    pub fn find(&self, classid: u32) -> Option<u32> {
        if classid >> 16 != self.major {
            return None;
        }
        let number = *self.minors.get((classid & 0xffff) as usize)?;
        (number != 0).then_some(number)
    }

    /// A class by its number.
    pub fn get(&self, number: u32) -> Option<&Class> {
        self.classes.get(number)
    }

    /// A class by its number, unless it holds classes.
    pub fn leaf_mut(&mut self, number: u32) -> Option<&mut Class> {
        let class = self.classes.get_mut(number);
        class.filter(|class| class.level == 0)
    }

    /// Brings nearer what the packet of a class will meet: step by step, each of which needs the one
    /// before.
    #[inline]
    pub fn prefetch(&self, number: u32, step: u32) {
        match (step, self.classes.get(number)) {
            (0, _) => self.classes.prefetch(number),
            (step, Some(class)) => class.leaf.prefetch(step - 1),
            _ => {}
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// A class that is there.
    #[inline]
    pub fn class(&self, number: u32) -> &Class {
        self.classes
            .get(number)
            .expect("numbers are of classes there are")
    }

    /// A class that is there, to be changed.
    #[inline]
    pub fn class_mut(&mut self, number: u32) -> &mut Class {
        self.classes
            .get_mut(number)
            .expect("numbers are of classes there are")
    }

    /// A class's id.
    pub fn id(&self, number: u32) -> u32 {
        self.classes.id(number).unwrap_or(0)
    }

    /// All numbers, in the order of dumps.
    pub fn numbers(&self) -> Vec<u32> {
        self.classes.numbers()
    }

    /// All classes.
    pub fn values(&self) -> impl Iterator<Item = &Class> {
        self.classes.values()
    }

    /// Puts a class in.
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

    /// Takes a class out that has no children.
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

    /// A leaf gets its first child.
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

    /// A class has lost its last child.
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

    /// Takes out all that waits.
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

    /// `htb_activate`: the leaf has something to send.
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

    /// A class that can send gets its turns at its level.
    #[inline]
    fn enter_row(&mut self, level: usize, prio: usize, minor: u16) {
        self.busy |= 1 << (first_bit(level) + prio);
        self.levels[level].row[prio].set.insert(minor);
    }

    /// It gets none any more.
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

    /// `htb_deactivate`: it has nothing left.
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

    /// `htb_activate_prios`: puts a class into its parent's feed, and those above likewise as far as they
    /// borrow, or into the row of its level.
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

    /// `htb_deactivate_prios`, with those priorities in which it had something to send.
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

    /// `htb_change_class_mode`: answers how long until the mode can change again.
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

    /// `htb_add_to_wait_tree`
    fn wait(&mut self, number: u32, delay: i64) {
        let key = self.now.wrapping_add(delay.max(1));
        let level = usize::from(self.class(number).level);
        self.next_events[level] = self.next_events[level].min(key);
        self.next_event = self.next_event.min(key);
        self.levels[level].waiting.insert(number, key);
    }

    /// `htb_do_events`: classes whose time has come change their mode; answers the next time.
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

    /// Looks at those of a level that wait, if it is time.
    fn look(&mut self, q: &mut QueueCx<'_, '_, '_>, level: usize) {
        if self.now >= self.next_events[level] {
            let event = self.events(q, level).unwrap_or(self.now + SECOND);
            self.next_events[level] = event;
            self.next_event = self.next_events.into_iter().fold(i64::MAX, i64::min);
        }
    }

    /// The turns of a class's children, or of a level's row.
    fn turns(&mut self, of: Option<u32>, level: usize, prio: usize) -> &mut Turns {
        match of {
            Some(number) => self.class_mut(number).feed(prio),
            None => &mut self.levels[level].row[prio],
        }
    }

    /// `htb_lookup_leaf`: whose turn it is, down to a leaf.
    fn leaf_in_turn(&mut self, level: usize, prio: usize) -> Option<u32> {
        let row = &self.levels[level].row[prio];
        if row.set.is_empty() {
            return None;
        }
        if let (Some(minor), 0) = (row.at, row.last) {
            // Most often a leaf of the row itself.
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
                // At the end: from the start again, and the next one above.
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

    /// The next one's turn comes among those a leaf sends with at `level`.
    fn pass_on(&mut self, number: u32, level: usize, prio: usize) {
        let parent = self.class(number).parent().filter(|_| level > 0);
        self.turns(parent, level, prio).advance();
    }

    /// A packet has come to a leaf.
    #[inline]
    pub fn came(&mut self, number: u32, how: Enqueued) {
        match how {
            Enqueued::Queued => self.activate(number),
            Enqueued::Dropped | Enqueued::Congested => {
                let class = self.class_mut(number);
                class.drops = class.drops.wrapping_add(1);
            }
            Enqueued::Stolen => {}
        }
    }

    /// `htb_dequeue_tree`: gives packets of a row. None: it has none; else whether more are wanted.
    fn dequeue_from(
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
            let given = self.give_from(&mut leaf.open(), q, total, (number, row), to);
            self.class_mut(number).leaf = leaf;
            let (left, gave) = match given {
                Given::Packets { more } => return Some(more),
                Given::Nothing { left, after_some } => (left, after_some),
            };
            if gave {
                // As if it were asked first.
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
            self.pass_on(number, row.level, row.prio);
            number = self.leaf_in_turn(row.level, row.prio)?;
            if number == start {
                return None;
            }
        }
    }

    /// Gives packets of a leaf, whose queue is `queue`: one, or, where the row allows, all that would be given one
    /// after the other.
    #[inline]
    fn give_from(
        &mut self,
        queue: &mut Open<'_>,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        (number, row): (u32, Row),
        to: &mut impl Taker,
    ) -> Given {
        let (now, level) = (self.now, row.level);
        let mut after_some = false;
        loop {
            let (packet, left) = queue.dequeue(q, total);
            let Some(packet) = packet else {
                return Given::Nothing { left, after_some };
            };
            let class = self.class_mut(number);
            let (len, parent) = (pkt_len(&packet), class.parent());
            let changes = class.charge(now, level, len);
            let deficit = &mut class.deficit[level];
            *deficit = deficit.wrapping_sub(len as i32);
            let over = *deficit < 0;
            if over {
                *deficit = deficit.wrapping_add(class.quantum);
                self.pass_on(number, level, row.prio);
            }
            if left.len == 0 {
                self.deactivate(number);
            }
            if changes {
                self.change_mode(q, number);
            }
            let ends = self.charge(q, parent, level, len) || changes || over || left.len == 0;
            let more = to.take(packet);
            if !more || row.alone || ends {
                return Given::Packets { more };
            }
            after_some = true;
        }
    }

    /// `htb_charge_class`: a class and all above it pay for a packet that left at `level`; whether a mode has
    /// changed.
    #[inline]
    fn charge(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        mut payer: Option<u32>,
        level: usize,
        len: u32,
    ) -> bool {
        let mut changes = false;
        while let Some(number) = payer {
            let now = self.now;
            let class = self.class_mut(number);
            payer = class.parent();
            if class.charge(now, level, len) {
                self.change_mode(q, number);
                changes = true;
            }
        }
        changes
    }

    /// A class that has paid waits, or no longer does.
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

    /// `htb_dequeue`: gives what may leave until no more is wanted (true) or nothing waits; or when to ask
    /// again.
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

    /// Gives the next packet, and those that follow without another decision; whether more are wanted.
    #[inline]
    fn next(
        &mut self,
        q: &mut QueueCx<'_, '_, '_>,
        total: &mut Load,
        to: &mut impl Taker,
    ) -> Result<bool, u64> {
        // Levels whose waiting classes have been looked at, before a packet of theirs leaves.
        let mut looked = if self.now < self.next_event {
            LEVELS
        } else {
            0
        };
        let mut rows = u64::MAX;
        loop {
            let row = (self.busy & rows).trailing_zeros() as usize;
            if looked < LEVELS && first_bit(looked) <= row {
                self.look(q, looked);
                looked += 1;
                continue;
            }
            let (level, prio) = (row / PRIOS, row % PRIOS);
            if level == LEVELS {
                return Err(self.next_event.min(self.now + 5 * SECOND) as u64);
            }
            let turn = Row {
                level,
                prio,
                alone: rows != u64::MAX,
            };
            if let Some(more) = self.dequeue_from(q, total, turn, to) {
                return Ok(more);
            }
            rows = (u64::MAX << row) << 1;
        }
    }
}

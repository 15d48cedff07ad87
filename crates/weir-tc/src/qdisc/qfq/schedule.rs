// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The order in which aggregates of classes are served: QFQ+.
//!
//! Mirrors the scheduler of net/sched/sch_qfq.c (Checconi, Rizzo, Valente: "QFQ: Efficient Packet Scheduling
//! with Tight Guarantees", 2013; Valente: "Reducing the Execution Time of Fair-Queueing Schedulers", 2014).
//! Virtual time counts octets divided by weight, in fixed point with 30 bits behind the point. An aggregate
//! has a start and a finish time; aggregates whose budget lasts about as long in virtual time are a group, in
//! which they stand in slots by start time, rounded down. Four bitmaps hold the groups by state, so that the
//! next one is found by a bit scan.
//!
//! Within an aggregate the classes take turns by deficit round robin; that is the caller's.

use std::collections::VecDeque;

const FRACTION_BITS: u32 = 30;
const ONE: u32 = 1 << FRACTION_BITS;
/// `QFQ_MTU_SHIFT`
const MTU_SHIFT: u32 = 16;
/// `QFQ_MAX_INDEX`
const MAX_INDEX: u32 = 24;
const GROUPS: usize = MAX_INDEX as usize + 1;
/// `QFQ_MAX_SLOTS`
const SLOTS: u32 = 32;
/// `QFQ_MAX_AGG_CLASSES`
const MAX_CLASSES: u64 = 8;
/// `QFQ_MAX_WEIGHT`
pub const MAX_WEIGHT: u32 = 1 << 10;
/// `QFQ_MAX_WSUM`
const MAX_WEIGHT_SUM: u32 = 64 * MAX_WEIGHT;
/// `QFQ_MIN_LMAX`
pub const MIN_LMAX: u32 = 512;
/// `QFQ_MAX_LMAX`
pub const MAX_LMAX: u32 = 1 << MTU_SHIFT;

/// States of a group: eligible or not, and whether one with an earlier finish time blocks it.
const ER: usize = 0;
const IR: usize = 1;
const EB: usize = 2;
const IB: usize = 3;

/// A weight as it is kept: what the reciprocal in fixed point makes of it.
pub fn rounded_weight(weight: u32) -> u32 {
    let inverse = ONE / weight.max(1);
    ONE / inverse.max(1)
}

/// Whether `a` is later than `b`, of times that wrap.
fn after(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

fn round_down(time: u64, shift: u32) -> u64 {
    time & !((1 << shift) - 1)
}

/// Bits from `from` on.
fn mask_from(bits: u64, from: usize) -> u64 {
    bits & !((1 << from) - 1)
}

/// Classes with the same weight and largest packet, served as one.
#[derive(Debug, Default)]
pub struct Aggregate {
    start: u64,
    finish: u64,
    group: Option<usize>,
    /// Weight of each of its classes.
    pub weight: u32,
    /// Octets of the largest packet.
    pub lmax: u32,
    inverse: u32,
    budget_max: u32,
    budget_first: u32,
    /// Octets it may still send in this turn.
    pub budget: u32,
    classes: u32,
    /// Classes with packets, in turn.
    pub active: VecDeque<u32>,
}

#[derive(Debug)]
struct Group {
    start: u64,
    finish: u64,
    shift: u32,
    front: u32,
    full: u64,
    /// Aggregates by slot; the newest of a slot is its last, and served first.
    slots: [Vec<u32>; SLOTS as usize],
}

/// Why an aggregate gets new times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Enqueue,
    Requeue,
}

/// The scheduler.
#[derive(Debug)]
pub struct Schedule {
    groups: [Group; GROUPS],
    states: [u64; 4],
    now: u64,
    before: u64,
    weight_sum: u32,
    inverse_sum: u32,
    min_shift: u32,
    max_classes: u32,
    aggregates: Vec<Aggregate>,
    free: Vec<u32>,
    /// Those with room for more classes, the newest last.
    nonfull: Vec<u32>,
    /// The one being served.
    pub in_service: Option<u32>,
}

impl Schedule {
    /// For a device with that queue length (`qfq_init_qdisc`).
    pub fn new(tx_queue_len: u32) -> Self {
        let classes = (u64::from(tx_queue_len) + 1).min(MAX_CLASSES);
        let log = classes.ilog2();
        let min_shift = FRACTION_BITS + MTU_SHIFT + log - MAX_INDEX;
        let group = |index| Group {
            start: 0,
            finish: 0,
            shift: min_shift + index as u32,
            front: 0,
            full: 0,
            slots: Default::default(),
        };
        Self {
            groups: std::array::from_fn(group),
            states: [0; 4],
            now: 0,
            before: 0,
            weight_sum: 0,
            inverse_sum: 0,
            min_shift,
            max_classes: 1 << log,
            aggregates: Vec::new(),
            free: Vec::new(),
            nonfull: Vec::new(),
            in_service: None,
        }
    }

    /// An aggregate.
    pub fn get(&self, number: u32) -> &Aggregate {
        &self.aggregates[number as usize]
    }

    /// An aggregate, to be changed.
    pub fn get_mut(&mut self, number: u32) -> &mut Aggregate {
        &mut self.aggregates[number as usize]
    }

    /// Whether a class may have the weight `new` in place of `old`.
    pub fn fits(&self, old: u32, new: u32) -> bool {
        self.weight_sum.wrapping_add(new.wrapping_sub(old)) <= MAX_WEIGHT_SUM
    }

    /// An aggregate with room for a class, made if there is none (`qfq_find_agg`, `qfq_init_agg`).
    pub fn find(&mut self, weight: u32, lmax: u32) -> u32 {
        let mut nonfull = self.nonfull.iter().rev();
        let same = |number: &&u32| {
            let aggregate = self.get(**number);
            aggregate.lmax == lmax && aggregate.weight == weight
        };
        if let Some(found) = nonfull.find(same) {
            return *found;
        }
        let new = Aggregate {
            weight,
            lmax,
            ..Aggregate::default()
        };
        let number = match self.free.pop() {
            Some(number) => {
                *self.get_mut(number) = new;
                number
            }
            None => {
                self.aggregates.push(new);
                (self.aggregates.len() - 1) as u32
            }
        };
        self.nonfull.push(number);
        number
    }

    /// `qfq_calc_index`
    fn index(&self, inverse: u32, budget: u32) -> usize {
        let size = u64::from(budget) * u64::from(inverse);
        let map = size >> self.min_shift;
        if map == 0 {
            return 0;
        }
        let index = map.ilog2() + 1;
        let exact = size == 1 << (index + self.min_shift - 1);
        ((index - u32::from(exact)) as usize).min(GROUPS - 1)
    }

    /// `qfq_update_agg`
    fn set_classes(&mut self, number: u32, classes: u32) {
        let old = self.get(number).classes;
        if classes == self.max_classes {
            self.nonfull.retain(|&other| other != number);
        }
        if old > classes && classes + 1 == self.max_classes {
            self.nonfull.push(number);
        }
        let aggregate = self.get(number);
        let (weight, budget) = (aggregate.weight, classes * aggregate.lmax);
        let inverse = ONE / (weight * classes).max(1);
        let group = aggregate.group.unwrap_or(self.index(inverse, budget));
        let aggregate = self.get_mut(number);
        aggregate.budget_max = budget;
        aggregate.inverse = inverse;
        aggregate.group = Some(group);
        aggregate.classes = classes;
        let sum = self.weight_sum + weight * classes;
        self.set_weight_sum(sum - weight * old);
    }

    fn set_weight_sum(&mut self, sum: u32) {
        self.weight_sum = sum;
        if let Some(inverse) = ONE.checked_div(sum) {
            self.inverse_sum = inverse;
        }
    }

    /// Puts a class into an aggregate, `waiting` or idle (`qfq_add_to_agg`).
    pub fn add_class(&mut self, number: u32, class: u32, waiting: bool) {
        self.set_classes(number, self.get(number).classes + 1);
        if waiting {
            self.wake_class(number, class);
        }
    }

    /// A class of an aggregate has packets now.
    pub fn wake_class(&mut self, number: u32, class: u32) {
        let active = &mut self.get_mut(number).active;
        active.push_back(class);
        if active.len() == 1 && self.in_service != Some(number) {
            self.activate(number);
        }
    }

    /// A class of an aggregate has no packets any more (`qfq_deactivate_class`).
    pub fn rest_class(&mut self, number: u32, class: u32) {
        let active = &mut self.get_mut(number).active;
        active.retain(|&other| other != class);
        if active.is_empty() {
            self.deactivate(number);
        }
    }

    /// Takes an idle class out of its aggregate (`qfq_rm_from_agg`).
    pub fn remove_class(&mut self, number: u32) {
        let aggregate = self.get(number);
        if aggregate.classes > 1 {
            return self.set_classes(number, aggregate.classes - 1);
        }
        self.set_weight_sum(self.weight_sum - aggregate.weight);
        self.nonfull.retain(|&other| other != number);
        if self.in_service == Some(number) {
            self.in_service = self.choose();
        }
        self.free.push(number);
    }

    /// The aggregate in service leaves it, with its budget filled again; answers the next one. `left`:
    /// packets wait anywhere.
    pub fn turn(&mut self, number: u32, left: bool) -> Option<u32> {
        let aggregate = self.get_mut(number);
        aggregate.charge();
        aggregate.refill();
        if !aggregate.active.is_empty() {
            self.set_times(number, Why::Requeue);
            self.schedule(number);
        } else if !left {
            self.in_service = None;
            return None;
        }
        self.in_service = self.choose();
        self.in_service
    }

    /// A packet left the aggregate in service.
    pub fn serve(&mut self, number: u32, len: u32) {
        let aggregate = self.get_mut(number);
        aggregate.budget = aggregate.budget.saturating_sub(len);
        let passed = u64::from(len) * u64::from(self.inverse_sum);
        self.now = self.now.wrapping_add(passed);
    }

    /// The group's new state by its times (`qfq_calc_state`).
    fn state(&self, index: usize) -> usize {
        let group = &self.groups[index];
        let mut state = usize::from(after(group.start, self.now));
        let others = mask_from(self.states[ER], index);
        if others != 0 && after(group.finish, self.groups[lowest(others)].finish) {
            state |= EB;
        }
        state
    }

    fn move_groups(&mut self, mask: u64, from: usize, to: usize) {
        self.states[to] |= self.states[from] & mask;
        self.states[from] &= !mask;
    }

    fn clear(&mut self, index: usize, states: &[usize]) {
        for &state in states {
            self.states[state] &= !(1 << index);
        }
    }

    /// `qfq_unblock_groups`
    fn unblock(&mut self, index: usize, old_finish: u64) {
        let others = mask_from(self.states[ER], index + 1);
        if others != 0 && !after(self.groups[lowest(others)].finish, old_finish) {
            return;
        }
        let mask = (1 << index) - 1;
        self.move_groups(mask, EB, ER);
        self.move_groups(mask, IB, IR);
    }

    /// `qfq_update_eligible`, `qfq_make_eligible`
    fn update_eligible(&mut self) {
        let ineligible = self.states[IR] | self.states[IB];
        if ineligible == 0 {
            return;
        }
        let start = self.groups[lowest(ineligible)].start;
        if self.states[ER] == 0 && after(start, self.now) {
            self.now = start;
        }
        let (slot, old) = (self.now >> self.min_shift, self.before >> self.min_shift);
        if slot != old {
            // As Linux, which looks at the lower half.
            let flipped = u32::BITS - ((slot ^ old) as u32).leading_zeros();
            let mask = match flipped {
                32.. => u64::MAX,
                flipped => (1 << flipped) - 1,
            };
            self.move_groups(mask, IR, ER);
            self.move_groups(mask, IB, EB);
        }
    }

    /// Takes the next aggregate to serve out of the schedule (`qfq_choose_next_agg`).
    fn choose(&mut self) -> Option<u32> {
        self.update_eligible();
        self.before = self.now;
        if self.states[ER] == 0 {
            return None;
        }
        let index = lowest(self.states[ER]);
        let group = &mut self.groups[index];
        let old_finish = group.finish;
        let slot = &mut group.slots[group.front as usize];
        let chosen = slot.pop()?;
        if slot.is_empty() {
            group.full &= !1;
        }
        match group.scan() {
            None => self.clear(index, &[ER]),
            Some(next) => {
                let start = self.get(next).start;
                let group = &mut self.groups[index];
                let start = round_down(start, group.shift);
                if group.start == start {
                    return Some(chosen);
                }
                group.set_start(start);
                self.clear(index, &[ER]);
                let state = self.state(index);
                self.states[state] |= 1 << index;
            }
        }
        self.unblock(index, old_finish);
        Some(chosen)
    }

    /// The start time of an aggregate that comes back (`qfq_update_start`).
    fn new_start(&self, aggregate: &Aggregate, index: usize) -> u64 {
        let shift = self.groups[index].shift;
        let finish = round_down(aggregate.finish, shift);
        let limit = round_down(self.now, shift).wrapping_add(1 << shift);
        if after(aggregate.finish, self.now) && !after(finish, limit) {
            return aggregate.finish;
        }
        // Stale: from now on, unless that upsets the order of the blocked groups.
        let others = mask_from(self.states[ER], index);
        if others != 0 {
            let next = self.groups[lowest(others)].finish;
            if after(finish, next) {
                return if after(limit, next) { next } else { limit };
            }
        }
        self.now
    }

    /// `qfq_update_agg_ts`
    fn set_times(&mut self, number: u32, why: Why) {
        let aggregate = self.get(number);
        let start = match why {
            Why::Requeue => aggregate.finish,
            Why::Enqueue => self.new_start(aggregate, aggregate.group.unwrap_or(0)),
        };
        let aggregate = self.get_mut(number);
        aggregate.start = start;
        let budget = u64::from(aggregate.budget_max) * u64::from(aggregate.inverse);
        aggregate.finish = start.wrapping_add(budget);
    }

    /// `qfq_activate_agg`
    fn activate(&mut self, number: u32) {
        self.get_mut(number).refill();
        self.set_times(number, Why::Enqueue);
        match self.in_service {
            None => {
                self.in_service = Some(number);
                self.now = self.get(number).start;
                self.before = self.now;
            }
            Some(served) if served != number => self.schedule(number),
            Some(_) => {}
        }
    }

    /// Puts an aggregate into its slot (`qfq_schedule_agg`).
    fn schedule(&mut self, number: u32) {
        let aggregate = &self.aggregates[number as usize];
        let index = aggregate.group.unwrap_or(0);
        let start = aggregate.start;
        let group = &mut self.groups[index];
        let rounded = round_down(start, group.shift);
        let mut moved = true;
        if group.full != 0 {
            moved = after(group.start, start);
            if moved {
                // The slots stay where they are; the front goes back.
                let by = (group.start.wrapping_sub(rounded) >> group.shift) as u32;
                group.full = group.full.wrapping_shl(by);
                group.front = group.front.wrapping_sub(by) % SLOTS;
                self.clear(index, &[IR, IB]);
            }
        } else if self.states[ER] == 0 && after(rounded, self.now) && self.in_service.is_none() {
            self.now = rounded;
        }
        if moved {
            self.groups[index].set_start(rounded);
            let state = self.state(index);
            self.states[state] |= 1 << index;
        }
        self.insert(number, index, rounded);
    }

    /// `qfq_slot_insert`
    fn insert(&mut self, number: u32, index: usize, rounded: u64) {
        let group = &mut self.groups[index];
        let last = u64::from(SLOTS) - 2;
        let past = rounded.wrapping_sub(group.start);
        let mut slot = past >> group.shift;
        if slot > last {
            // Its times were let run ahead by a change of weights, or by a service out of order.
            let back = past.wrapping_sub(last << group.shift);
            let aggregate = &mut self.aggregates[number as usize];
            aggregate.start = aggregate.start.wrapping_sub(back);
            aggregate.finish = aggregate.finish.wrapping_sub(back);
            slot = last;
        }
        let at = (group.front + slot as u32) % SLOTS;
        group.slots[at as usize].push(number);
        group.full |= 1 << slot;
    }

    /// Takes an aggregate out of service, or out of its slot (`qfq_deactivate_agg`).
    fn deactivate(&mut self, number: u32) {
        if self.in_service == Some(number) {
            self.get_mut(number).charge();
            self.in_service = self.choose();
            return;
        }
        let aggregate = &mut self.aggregates[number as usize];
        aggregate.finish = aggregate.start;
        let index = aggregate.group.unwrap_or(0);
        let group = &mut self.groups[index];
        let rounded = round_down(aggregate.start, group.shift);
        let offset = (rounded.wrapping_sub(group.start) >> group.shift) as u32;
        let slot = &mut group.slots[(group.front.wrapping_add(offset) % SLOTS) as usize];
        slot.retain(|&other| other != number);
        if slot.is_empty() {
            group.full &= !(1_u64.wrapping_shl(offset));
        }
        if group.full == 0 {
            self.clear(index, &[IR, EB, IB]);
            let eligible = self.states[ER];
            if eligible & (1 << index) != 0 && mask_from(eligible, index) == 1 << index {
                let below = eligible & ((1 << index) - 1);
                let mask = match below.checked_ilog2() {
                    Some(highest) => !((1 << highest) - 1),
                    None => u64::MAX,
                };
                self.move_groups(mask, EB, ER);
                self.move_groups(mask, IB, IR);
            }
            self.clear(index, &[ER]);
        } else if group.slots[group.front as usize].is_empty()
            && let Some(next) = group.scan()
        {
            let start = round_down(self.get(next).start, self.groups[index].shift);
            if self.groups[index].start != start {
                self.clear(index, &[ER, IR, EB, IB]);
                self.groups[index].set_start(start);
                let state = self.state(index);
                self.states[state] |= 1 << index;
            }
        }
    }
}

fn lowest(bits: u64) -> usize {
    bits.trailing_zeros() as usize
}

impl Aggregate {
    /// The finish time by the service it really had (`charge_actual_service`).
    fn charge(&mut self) {
        let service = self.budget_first.wrapping_sub(self.budget);
        let service = u64::from(service.min(self.budget_max));
        self.finish = self.start.wrapping_add(service * u64::from(self.inverse));
    }

    fn refill(&mut self) {
        self.budget = self.budget_max;
        self.budget_first = self.budget_max;
    }
}

impl Group {
    fn set_start(&mut self, start: u64) {
        self.start = start;
        self.finish = start.wrapping_add(2 << self.shift);
    }

    /// The first aggregate in the first slot that is not empty, which becomes the front
    /// (`qfq_slot_scan`).
    fn scan(&mut self) -> Option<u32> {
        if self.full == 0 {
            return None;
        }
        let ahead = self.full.trailing_zeros();
        self.front = (self.front + ahead) % SLOTS;
        self.full >>= ahead;
        self.slots[self.front as usize].last().copied()
    }
}

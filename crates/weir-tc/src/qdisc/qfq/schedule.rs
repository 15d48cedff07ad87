// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The QFQ+ scheduler: the order in which aggregates of classes are served.
//!
//! Mirrors the scheduler of net/sched/sch_qfq.c (Checconi, Rizzo, Valente: "QFQ: Efficient Packet
//! Scheduling with Tight Guarantees", 2013; Valente: "Reducing the Execution Time of Fair-Queueing
//! Schedulers", 2014). Virtual time counts bytes divided by weight, in fixed point with 30
//! fractional bits. An aggregate has a start and a finish time. Aggregates whose budgets last about
//! equally long in virtual time form a group, which keeps them in slots by rounded-down start time.
//! Four bitmaps hold the groups by state, so that a bit scan finds the next group.
//!
//! Within an aggregate the classes take turns by deficit round robin, which is the caller's task.

use std::collections::VecDeque;

const FRACTION_BITS: u32 = 30;
const ONE: u32 = 1 << FRACTION_BITS;
/// Logarithm of the largest packet length (`QFQ_MTU_SHIFT`).
const MTU_SHIFT: u32 = 16;
/// Largest index of a group (`QFQ_MAX_INDEX`).
const MAX_INDEX: u32 = 24;
const GROUPS: usize = MAX_INDEX as usize + 1;
/// Slots per group (`QFQ_MAX_SLOTS`).
const SLOTS: u32 = 32;
/// Largest number of classes in an aggregate (`QFQ_MAX_AGG_CLASSES`).
const MAX_CLASSES: u64 = 8;
/// Largest weight of a class (`QFQ_MAX_WEIGHT`).
pub const MAX_WEIGHT: u32 = 1 << 10;
/// Largest sum of weights (`QFQ_MAX_WSUM`).
const MAX_WEIGHT_SUM: u32 = 64 * MAX_WEIGHT;
/// Smallest `maxpkt` of a class (`QFQ_MIN_LMAX`).
pub const MIN_LMAX: u32 = 512;
/// Largest `maxpkt` of a class (`QFQ_MAX_LMAX`).
pub const MAX_LMAX: u32 = 1 << MTU_SHIFT;

/// States of a group: eligible (E) or ineligible (I), and ready (R) or blocked (B) by a group with
/// an earlier finish time.
const ER: usize = 0;
const IR: usize = 1;
const EB: usize = 2;
const IB: usize = 3;

/// Returns a weight rounded by the fixed-point reciprocal in which it is stored.
pub fn rounded_weight(weight: u32) -> u32 {
    let inverse = ONE / weight.max(1);
    ONE / inverse.max(1)
}

/// Returns whether time `a` is after time `b`. Times wrap.
fn after(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) > 0
}

fn round_down(time: u64, shift: u32) -> u64 {
    time & !((1 << shift) - 1)
}

/// Returns the bits from bit `from` on.
fn mask_from(bits: u64, from: usize) -> u64 {
    bits & !((1 << from) - 1)
}

/// Classes with the same weight and largest packet, scheduled as one.
#[derive(Debug, Default)]
pub struct Aggregate {
    start: u64,
    finish: u64,
    group: Option<usize>,
    /// Weight of each of its classes.
    pub weight: u32,
    /// Length of the largest packet, in bytes.
    pub lmax: u32,
    inverse: u32,
    budget_max: u32,
    budget_first: u32,
    /// Bytes it may still send in this turn.
    pub budget: u32,
    classes: u32,
    /// Classes with packets, in the order of their turns.
    pub active: VecDeque<u32>,
}

#[derive(Debug)]
struct Group {
    start: u64,
    finish: u64,
    shift: u32,
    front: u32,
    full: u64,
    /// Aggregates by slot. The newest of a slot is its last entry and is served first.
    slots: [Vec<u32>; SLOTS as usize],
}

/// The reason for new times of an aggregate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Enqueue,
    Requeue,
}

/// The scheduler.
#[derive(Debug)]
pub struct Schedule {
    groups: [Group; GROUPS],
    states: [u64; 4],
    now: u64,
    previous_now: u64,
    weight_sum: u32,
    inverse_sum: u32,
    min_shift: u32,
    max_classes: u32,
    aggregates: Vec<Aggregate>,
    free: Vec<u32>,
    /// Aggregates with room for more classes, the newest last.
    nonfull: Vec<u32>,
    /// The aggregate in service.
    pub in_service: Option<u32>,
}

impl Schedule {
    /// Makes a scheduler for a device with a queue length (`qfq_init_qdisc`).
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
            previous_now: 0,
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

    /// Returns an aggregate.
    pub fn get(&self, number: u32) -> &Aggregate {
        &self.aggregates[number as usize]
    }

    /// Returns an aggregate mutably.
    pub fn get_mut(&mut self, number: u32) -> &mut Aggregate {
        &mut self.aggregates[number as usize]
    }

    /// Returns whether a class may change its weight from `old` to `new`.
    pub fn fits(&self, old: u32, new: u32) -> bool {
        self.weight_sum.wrapping_add(new.wrapping_sub(old)) <= MAX_WEIGHT_SUM
    }

    /// Returns an aggregate with room for a class, and makes it if needed (`qfq_find_agg`,
    /// `qfq_init_agg`).
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

    /// Returns the index of the group for a budget (`qfq_calc_index`).
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

    /// Sets the number of classes of an aggregate and updates its budget and weight
    /// (`qfq_update_agg`).
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

    /// Adds a class to an aggregate. `waiting` says whether it has packets (`qfq_add_to_agg`).
    pub fn add_class(&mut self, number: u32, class: u32, waiting: bool) {
        self.set_classes(number, self.get(number).classes + 1);
        if waiting {
            self.activate_class(number, class);
        }
    }

    /// Activates a class that now has packets.
    pub fn activate_class(&mut self, number: u32, class: u32) {
        let active = &mut self.get_mut(number).active;
        active.push_back(class);
        if active.len() == 1 && self.in_service != Some(number) {
            self.activate(number);
        }
    }

    /// Deactivates a class that has no packets any more (`qfq_deactivate_class`).
    pub fn deactivate_class(&mut self, number: u32, class: u32) {
        let active = &mut self.get_mut(number).active;
        active.retain(|&other| other != class);
        if active.is_empty() {
            self.deactivate(number);
        }
    }

    /// Removes an idle class from its aggregate (`qfq_rm_from_agg`).
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

    /// Ends the service of an aggregate, refills its budget and returns the next aggregate. `left`
    /// says whether packets wait anywhere.
    pub fn next_aggregate(&mut self, number: u32, left: bool) -> Option<u32> {
        let aggregate = self.get_mut(number);
        aggregate.charge();
        aggregate.refill();
        if !aggregate.active.is_empty() {
            self.set_times(number, Reason::Requeue);
            self.schedule(number);
        } else if !left {
            self.in_service = None;
            return None;
        }
        self.in_service = self.choose();
        self.in_service
    }

    /// Records that the aggregate in service sent a packet of `len` bytes.
    pub fn serve(&mut self, number: u32, len: u32) {
        let aggregate = self.get_mut(number);
        aggregate.budget = aggregate.budget.saturating_sub(len);
        let passed = u64::from(len) * u64::from(self.inverse_sum);
        self.now = self.now.wrapping_add(passed);
    }

    /// Returns the state of a group according to its times (`qfq_calc_state`).
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

    /// Unblocks the groups below `index` after that group changed its finish time from `old_finish`
    /// (`qfq_unblock_groups`).
    fn unblock(&mut self, index: usize, old_finish: u64) {
        let others = mask_from(self.states[ER], index + 1);
        if others != 0 && !after(self.groups[lowest(others)].finish, old_finish) {
            return;
        }
        let mask = (1 << index) - 1;
        self.move_groups(mask, EB, ER);
        self.move_groups(mask, IB, IR);
    }

    /// Makes groups eligible whose start time has come (`qfq_update_eligible`,
    /// `qfq_make_eligible`).
    fn update_eligible(&mut self) {
        let ineligible = self.states[IR] | self.states[IB];
        if ineligible == 0 {
            return;
        }
        let start = self.groups[lowest(ineligible)].start;
        if self.states[ER] == 0 && after(start, self.now) {
            self.now = start;
        }
        let (slot, old) = (
            self.now >> self.min_shift,
            self.previous_now >> self.min_shift,
        );
        if slot != old {
            // Like Linux, this compares only the lower half.
            let flipped = u32::BITS - ((slot ^ old) as u32).leading_zeros();
            let mask = match flipped {
                32.. => u64::MAX,
                flipped => (1 << flipped) - 1,
            };
            self.move_groups(mask, IR, ER);
            self.move_groups(mask, IB, EB);
        }
    }

    /// Removes the next aggregate to serve from the schedule and returns it
    /// (`qfq_choose_next_agg`).
    fn choose(&mut self) -> Option<u32> {
        self.update_eligible();
        self.previous_now = self.now;
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

    /// Returns the start time of an aggregate that becomes active again (`qfq_update_start`).
    fn new_start(&self, aggregate: &Aggregate, index: usize) -> u64 {
        let shift = self.groups[index].shift;
        let finish = round_down(aggregate.finish, shift);
        let limit = round_down(self.now, shift).wrapping_add(1 << shift);
        if after(aggregate.finish, self.now) && !after(finish, limit) {
            return aggregate.finish;
        }
        // The old finish time is stale. The aggregate starts now unless that violates the order of
        // the blocked groups.
        let others = mask_from(self.states[ER], index);
        if others != 0 {
            let next = self.groups[lowest(others)].finish;
            if after(finish, next) {
                return if after(limit, next) { next } else { limit };
            }
        }
        self.now
    }

    /// Sets the start and finish times of an aggregate (`qfq_update_agg_ts`).
    fn set_times(&mut self, number: u32, reason: Reason) {
        let aggregate = self.get(number);
        let start = match reason {
            Reason::Requeue => aggregate.finish,
            Reason::Enqueue => self.new_start(aggregate, aggregate.group.unwrap_or(0)),
        };
        let aggregate = self.get_mut(number);
        aggregate.start = start;
        let budget = u64::from(aggregate.budget_max) * u64::from(aggregate.inverse);
        aggregate.finish = start.wrapping_add(budget);
    }

    /// Activates an aggregate that now has packets (`qfq_activate_agg`).
    fn activate(&mut self, number: u32) {
        self.get_mut(number).refill();
        self.set_times(number, Reason::Enqueue);
        match self.in_service {
            None => {
                self.in_service = Some(number);
                self.now = self.get(number).start;
                self.previous_now = self.now;
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
                // The slots keep their contents; the front moves back.
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

    /// Inserts an aggregate into a slot (`qfq_slot_insert`).
    fn insert(&mut self, number: u32, index: usize, rounded: u64) {
        let group = &mut self.groups[index];
        let last = u64::from(SLOTS) - 2;
        let past = rounded.wrapping_sub(group.start);
        let mut slot = past >> group.shift;
        if slot > last {
            // A change of weights or service out of order let its times run too far ahead.
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

    /// Removes an aggregate from service or from its slot (`qfq_deactivate_agg`).
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
    /// Sets the finish time according to the actual service (`charge_actual_service`).
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

    /// Moves the front to the first non-empty slot and returns its first aggregate
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How lanes get free nodes.
//!
//! The clock's lanes work outside the lock of the lists. A lane fills a chunk with new entries and hands it over when
//! it is full; it draws the oldest chunk from the lists, evicts the entries of it that were not used as it needs
//! nodes, and promotes the others at the next hand-over. So the lock is held for two links of chunks and a rotation,
//! and no bucket of a victim is waited for under it. The other policies evict under the lock, since where an entry
//! goes depends on the order of evictions.

use super::{Lru, Shard, Spread};
use crate::fifo::{Bag, NONE};
use crate::policy::{Reason, Work};
use crate::shape::Shape;
use crate::table::{Astray, Taken};
use weir_sync::primitive::atomic::Ordering;
use weir_sync::primitive::{CachePadded, prefetch_to_write};
use weir_sync::spin::SpinLock;

/// A CPU's free nodes, new entries and victims.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) free: u32,
    /// Slots that are in no list yet, with the folded hashes of their keys. The clock uses bags.
    pub(super) pending: Vec<(u32, u32)>,
    /// New slots; `full` waits for the next time that the lane takes the lock.
    filling: Bag,
    full: Bag,
    /// Old slots, which may lose their entries.
    drawn: Bag,
    /// Slots whose entries were used, and go to the active list.
    promoted: Vec<u32>,
    /// What evicted entries left in other buckets. Empty between refills.
    astray: Vec<Astray>,
    /// Lost entries that `on_evict` has not seen yet: key, value, reason.
    pub(super) lost: Vec<(Vec<u8>, Vec<u8>, Reason)>,
    /// Evictions of drawn entries, and those by force.
    pub(super) evicted: u64,
    pub(super) forced: u64,
    pub(super) local_hits: u64,
    pub(super) failed: u64,
}

/// The bags of a lane.
pub(super) const BAGS: usize = 3;

/// The number of victims whose buckets are prefetched. With two CPUs half of the buckets come from the other's cache, for
/// which 12 are too few; beyond 32, buckets that come from memory take longer.
const AHEAD: usize = 32;

impl<S: Shape> Lru<S> {
    /// Gets free nodes for a lane, `left` of which will be used soon. Returns whether it has any now.
    #[inline(never)]
    pub(super) fn refill(&self, number: usize, lane: &mut Lane, left: u32) -> bool {
        let own = number % self.shards.len();
        let target = self.target.max(left.min(self.most_local));
        // The clock takes the lock when it has a chunk to hand over.
        let mut shard = (!self.bags).then(|| {
            lane.pending.reserve(2 * target as usize);
            let mut shard = self.shards[own].lock();
            self.admit(&mut shard, &lane.pending);
            lane.pending.clear();
            shard
        });
        lane.free = self.take_free(own, target);
        let mut borrow = false;
        if self.spread == Spread::Borrow && lane.free < target {
            lane.free += self.stocked(own, target - lane.free);
            let fair = self.max_entries / self.shards.len() as u32;
            borrow = self.outside[own].held.load(Ordering::Relaxed) < fair;
        }
        // Nothing is evicted while there are free nodes, however few.
        if lane.free == 0 && !borrow {
            match &mut shard {
                None => self.judge_enough(own, lane, target),
                Some(shard) => lane.free = self.evict(own, shard, &mut lane.lost, target),
            }
        }
        drop(shard);
        if lane.free == 0 && borrow {
            self.take_from_richest(own, lane, target);
        }
        lane.free > 0 || self.refill_from_others(number, lane)
    }

    /// Takes up to `want` free nodes of a shard.
    #[inline(always)]
    fn take_free(&self, number: usize, want: u32) -> u32 {
        let free = &self.outside[number].free;
        if free.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let take = |free: u32| (free > 0).then(|| free.saturating_sub(want));
        free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_or(0, |before| before.min(want))
    }

    /// Takes up to `want` nodes from the common stock.
    fn stocked(&self, own: usize, want: u32) -> u32 {
        let (relaxed, stock) = (Ordering::Relaxed, &self.stock);
        let take = |stock: u32| (stock > 0).then(|| stock.saturating_sub(want));
        match stock.fetch_update(relaxed, relaxed, take) {
            Ok(before) => {
                let got = before.min(want);
                self.outside[own].held.fetch_add(got, relaxed);
                got
            }
            Err(_) => 0,
        }
    }

    /// Puts a new entry's slot into the lane's bag.
    #[inline(always)]
    pub(super) fn fill(&self, number: usize, lane: &mut Lane, slot: u32) {
        lane.filling.push(&self.pool, slot);
        if lane.filling.is_full(&self.pool) {
            self.filled(number, lane);
        }
    }

    /// Puts a full bag aside. Entries that were used already are promoted instead.
    #[inline(never)]
    fn filled(&self, number: usize, lane: &mut Lane) {
        let Lane {
            filling, promoted, ..
        } = lane;
        filling.retain(&self.pool, |slot| {
            let used = self.is_used(slot);
            if used {
                self.promote(promoted, slot);
            }
            !used
        });
        if lane.promoted.len() >= self.pool.size() as usize
            || (filling.is_full(&self.pool) && !lane.full.is_empty())
        {
            // Nodes came without victims, so the lane has not taken the lock for long.
            let mut shard = self.shards[number % self.shards.len()].lock();
            self.hand_over(&mut shard, lane);
            self.rotate(&mut shard);
        }
        if lane.filling.is_full(&self.pool) {
            core::mem::swap(&mut lane.filling, &mut lane.full);
        }
    }

    /// Gives a lane's new and used entries to the lists.
    fn hand_over(&self, shard: &mut Shard, lane: &mut Lane) {
        let lists = shard.lists.clock();
        lists.promote(&self.pool, lane.promoted.drain(..));
        if !lane.full.is_empty() {
            lists.admit_bag(&self.pool, &mut lane.full);
        }
    }

    /// Does a rotation. There is one for each chunk, and it looks at half as many entries unless `nr_scans` is set: a
    /// quarter has a tenth more misses than exact LRU while popularity moves, and the whole more than the kernel's
    /// while it stays.
    fn rotate(&self, shard: &mut Shard) {
        let work = self.work(self.pool.size() / 2, |_, _| ());
        shard.lists.clock().rotate(&work);
    }

    #[inline(always)]
    fn is_used(&self, slot: u32) -> bool {
        self.marks.uses(self.table.reference(slot)) > 0
    }

    #[inline(always)]
    fn promote(&self, promoted: &mut Vec<u32>, slot: u32) {
        self.marks.set(self.table.reference(slot), 0);
        promoted.push(slot);
    }

    /// Evicts entries until a lane has `target` free nodes or has looked at enough entries. If that gets no node, the
    /// oldest entry goes by force.
    fn judge_enough(&self, own: usize, lane: &mut Lane, target: u32) {
        let mut scans = self.scans_for(target);
        if lane.drawn.entries(&self.pool).len() <= (target - lane.free) as usize {
            self.prefetch_shard(own);
        }
        loop {
            self.judge(own, lane, target, &mut scans);
            if lane.free >= target || scans == 0 {
                break;
            }
            if lane.drawn.is_empty() && !self.draw(own, lane) {
                break;
            }
        }
        if lane.drawn.is_empty() && lane.free > 0 {
            // The chunk of another CPU moves here while this one inserts.
            self.draw(own, lane);
        }
        while lane.free == 0 {
            let Some(slot) = self.draw_any(own, lane) else {
                break;
            };
            self.take(own, lane, slot, Reason::Forced);
        }
        for astray in lane.astray.drain(..) {
            self.table.settle(astray);
        }
    }

    /// Hands over what a lane has for the lists and takes their oldest chunk. Returns whether there was any.
    fn draw(&self, own: usize, lane: &mut Lane) -> bool {
        let mut shard = self.shards[own].lock();
        shard.lists.clock().prefetch(&self.pool, &lane.full);
        self.hand_over(&mut shard, lane);
        self.rotate(&mut shard);
        // The chunk that was emptied is the next to be filled.
        let Lane {
            drawn,
            filling,
            full,
            ..
        } = lane;
        drawn.pass_on(&self.pool, [filling, full]);
        let any = shard.lists.clock().draw(&self.pool, &mut lane.drawn);
        lane.drawn.prefetch(&self.pool);
        any
    }

    /// Prefetches a shard's lock and lists, whose lines would come one after the other.
    fn prefetch_shard(&self, number: usize) {
        let shard = &raw const self.shards[number];
        for line in (0..size_of::<CachePadded<SpinLock<Shard>>>()).step_by(64) {
            prefetch_to_write(shard.cast::<u8>().wrapping_add(line));
        }
    }

    /// Evicts drawn entries that were not used until a lane has `target` free nodes, has looked at `scans` entries or
    /// has no more.
    #[inline(always)]
    fn judge(&self, own: usize, lane: &mut Lane, target: u32, scans: &mut u32) {
        let entries = lane.drawn.entries(&self.pool);
        let count = ((target - lane.free).min(*scans) as usize).min(entries.len());
        let entries = &entries[..count];
        for entry in entries.iter().take(AHEAD) {
            self.prefetch_victim(entry.load(Ordering::Relaxed));
        }
        for (at, entry) in entries.iter().enumerate() {
            if let Some(next) = entries.get(at + AHEAD) {
                self.prefetch_victim(next.load(Ordering::Relaxed));
            }
            let slot = entry.load(Ordering::Relaxed);
            if slot == NONE {
                continue;
            }
            if self.is_used(slot) && self.table.is_live(slot) {
                self.promote(&mut lane.promoted, slot);
            } else {
                self.take(own, lane, slot, Reason::Inactive);
            }
        }
        lane.drawn.advance(count as u32);
        *scans -= count as u32;
    }

    #[inline(always)]
    fn prefetch_victim(&self, slot: u32) {
        if slot != NONE {
            self.table.prefetch_slot(slot);
            self.prefetch_owner(slot);
        }
    }

    /// Takes a slot's entry, if it has one, and its node.
    #[inline(always)]
    fn take(&self, own: usize, lane: &mut Lane, slot: u32, reason: Reason) {
        let mut owner = own;
        let (taken, astray) = if self.blind {
            self.table
                .take_unread(slot, |slot| owner = self.owner(slot))
        } else {
            self.table.take_later(slot, |slot| {
                self.keep(&mut lane.lost, slot, reason);
                owner = self.owner(slot);
            })
        };
        lane.astray.extend(astray);
        if taken == Taken::Entry {
            lane.free += u32::from(self.moved(own, owner));
            match reason {
                Reason::Inactive => lane.evicted += 1,
                _ => lane.forced += 1,
            }
        }
    }

    /// Notes that an owner's entry is evicted for a shard. Returns whether the shard gets its node.
    #[inline(always)]
    fn moved(&self, number: usize, owner: usize) -> bool {
        if owner == number {
            return true;
        }
        if self.spread == Spread::PerCpu {
            self.outside[owner].free.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        self.outside[owner].held.fetch_sub(1, Ordering::Relaxed);
        self.outside[number].held.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes the oldest slot that a lane or its lists have.
    #[cold]
    fn draw_any(&self, own: usize, lane: &mut Lane) -> Option<u32> {
        if let Some(slot) = lane.drawn.pop(&self.pool) {
            return Some(slot);
        }
        let mut shard = self.shards[own].lock();
        self.hand_over(&mut shard, lane);
        let lists = shard.lists.clock();
        lists
            .pop(&self.pool)
            .or_else(|| lane.filling.pop(&self.pool))
    }

    /// Adds pending slots to a shard's lists.
    pub(super) fn admit(&self, shard: &mut Shard, pending: &[(u32, u32)]) {
        shard.lists.admit(&self.work(0, |_, _| ()), pending);
    }

    /// Returns the number of entries to look at to get `want` nodes.
    #[inline(always)]
    fn scans_for(&self, want: u32) -> u32 {
        match self.scans {
            0 => want.max(self.target),
            scans => scans,
        }
    }

    /// Returns what a policy works on to get `want` nodes.
    #[inline(always)]
    fn work<F: FnMut(u32, Reason)>(&self, want: u32, lost: F) -> Work<'_, S, F> {
        Work {
            table: &self.table,
            pool: &self.pool,
            marks: self.marks,
            scans: self.scans_for(want),
            lost,
        }
    }

    /// Evicts up to `want` entries of a shard, and returns the number of nodes it got.
    #[inline(always)]
    fn evict(
        &self,
        number: usize,
        shard: &mut Shard,
        lost: &mut Vec<(Vec<u8>, Vec<u8>, Reason)>,
        want: u32,
    ) -> u32 {
        let mut evicted = [0; 3];
        let mut elsewhere = 0;
        let mut work = self.work(want, |slot, reason| {
            match reason {
                Reason::Inactive => evicted[0] += 1,
                Reason::Main => evicted[1] += 1,
                Reason::Forced | Reason::Idle => evicted[2] += 1,
            }
            self.keep(lost, slot, reason);
            elsewhere += u32::from(!self.moved(number, self.owner(slot)));
        });
        let got = shard.lists.evict(&mut work, want);
        for (sum, new) in shard.evicted.iter_mut().zip(evicted) {
            *sum += new;
        }
        got - elsewhere
    }

    /// Evicts entries of the shard that holds most nodes, for a lane of another.
    #[cold]
    fn take_from_richest(&self, own: usize, lane: &mut Lane, target: u32) {
        let held = |at: &usize| self.outside[*at].held.load(Ordering::Relaxed);
        let Some(richest) = (0..self.shards.len()).max_by_key(held) else {
            return;
        };
        self.evict_for(richest, own, lane, target - lane.free);
    }

    /// Evicts up to `want` entries from the lists of a shard for lane `number`, whose own shard gets the nodes.
    #[cold]
    fn evict_for(&self, from: usize, number: usize, lane: &mut Lane, want: u32) {
        let got = {
            let mut shard = self.shards[from].lock();
            self.evict(from, &mut shard, &mut lane.lost, want)
        };
        if self.spread == Spread::Borrow {
            let own = number % self.shards.len();
            self.outside[from].held.fetch_sub(got, Ordering::Relaxed);
            self.outside[own].held.fetch_add(got, Ordering::Relaxed);
        }
        lane.free += got;
    }

    /// Takes all slots of a lane that are in no list.
    fn take_pending(&self, lane: &mut Lane) -> Vec<(u32, u32)> {
        let Lane {
            pending,
            filling,
            full,
            drawn,
            promoted,
            ..
        } = lane;
        let mut slots = core::mem::take(pending);
        for bag in [drawn, full, filling] {
            // The clock does not look at hashes.
            slots.extend(core::iter::from_fn(|| bag.pop(&self.pool)).map(|slot| (slot, 0)));
        }
        for slot in promoted.drain(..) {
            self.mark(self.table.reference(slot));
            slots.push((slot, 0));
        }
        slots
    }

    /// Looks for a node in the other lanes: their pending slots can be evicted, and their free nodes
    /// taken.
    #[cold]
    fn refill_from_others(&self, number: usize, lane: &mut Lane) -> bool {
        for next in 1..self.lanes.len() {
            let next = (number + next) % self.lanes.len();
            if self.spread == Spread::PerCpu && next % self.shards.len() != number {
                continue;
            }
            let Some(mut other) = self.lanes[next].try_lock() else {
                continue;
            };
            let owner = next % self.shards.len();
            let pending = self.take_pending(&mut other);
            let free = core::mem::take(&mut other.free);
            drop(other);
            if self.spread == Spread::Borrow {
                self.outside[owner].held.fetch_sub(free, Ordering::Relaxed);
                let own = number % self.shards.len();
                self.outside[own].held.fetch_add(free, Ordering::Relaxed);
            }
            lane.free += free;
            self.admit(&mut self.shards[owner].lock(), &pending);
            if lane.free == 0 {
                self.evict_for(owner, number, lane, 1);
            }
            if lane.free > 0 {
                return true;
            }
        }
        for owner in 0..self.shards.len() {
            if self.spread == Spread::PerCpu && owner != number {
                continue;
            }
            lane.free += self.take_free(owner, 1);
            if lane.free == 0 {
                self.evict_for(owner, number, lane, 1);
            }
            if lane.free > 0 {
                return true;
            }
        }
        false
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resilient nexthop groups: a table of buckets, each of which belongs to a member of the group
//! (`struct nh_res_table` of `net/ipv4/nexthop.c`).
//!
//! A packet's hash selects a bucket. When the group changes, only the buckets of members that have too
//! many move, and they move when they have been idle for the idle timer, or when the group has been
//! unbalanced for the unbalanced timer. So the flows of the other buckets keep their next hop.
//!
//! Times are in nanoseconds of the stack's clock.

use std::sync::Arc;

use weir_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock::{Clock, SECOND};

/// The idle timer of groups whose request gives none (`NH_RES_DEFAULT_IDLE_TIMER`).
pub const IDLE_TIMER: u64 = 120 * SECOND;

/// The shortest time between two looks at an unbalanced group (`NH_RES_UPKEEP_DW_MINIMUM_INTERVAL`).
const MINIMUM_INTERVAL: u64 = SECOND / 2;

/// The member of a bucket that belongs to none.
const NONE: u16 = u16::MAX;

/// The buckets of a group. A change makes a new table that shares the times of use with the old one.
#[derive(Debug, Clone)]
pub struct Resilient {
    /// The position of each bucket's member in the group.
    members: Box<[u16]>,
    /// When a packet last used each bucket, or when the bucket moved.
    used: Arc<[AtomicU64]>,
    /// When each bucket moved.
    migrated: Box<[u64]>,
    /// The members that have too few buckets; the first one gets the next.
    underweight: Vec<u16>,
    /// When the group became unbalanced.
    since: u64,
    /// `NHA_RES_GROUP_IDLE_TIMER`
    pub idle_timer: u64,
    /// `NHA_RES_GROUP_UNBALANCED_TIMER`; 0 means that buckets in use never move.
    pub unbalanced_timer: u64,
    clock: Arc<Clock>,
}

impl Resilient {
    /// Creates a table of `buckets` empty buckets.
    pub fn new(buckets: u16, idle_timer: u64, unbalanced_timer: u64, clock: Arc<Clock>) -> Self {
        let count = usize::from(buckets);
        Self {
            members: vec![NONE; count].into(),
            used: (0..count).map(|_| AtomicU64::new(0)).collect(),
            migrated: vec![0; count].into(),
            underweight: Vec::new(),
            since: 0,
            idle_timer,
            unbalanced_timer,
            clock,
        }
    }

    /// Returns the number of buckets.
    pub fn buckets(&self) -> u16 {
        self.members.len() as u16
    }

    /// Returns the position in the group of a bucket's member.
    pub fn member(&self, bucket: u16) -> Option<usize> {
        let member = *self.members.get(usize::from(bucket))?;
        (member != NONE).then_some(usize::from(member))
    }

    /// Selects a bucket by a 31-bit hash and marks it as used. Returns the position of its member.
    #[inline]
    pub(super) fn select(&self, hash: u32) -> Option<usize> {
        let bucket = (hash & 0x7fff_ffff) as usize % self.members.len().max(1);
        let used = self.used.get(bucket)?;
        // An odd time differs from that of a move, even at the same moment of virtual time.
        used.store(self.clock.now() | 1, Relaxed);
        self.member(bucket as u16)
    }

    /// Returns the time since a bucket was used or moved.
    pub fn idle(&self, bucket: u16) -> u64 {
        let used = self.used.get(usize::from(bucket));
        let used = used.map_or(0, |used| used.load(Relaxed));
        self.clock.now().saturating_sub(used)
    }

    /// Returns how long the group has been unbalanced, or 0 if it is not.
    pub fn unbalanced(&self) -> u64 {
        match self.underweight.is_empty() {
            true => 0,
            false => self.clock.now().saturating_sub(self.since),
        }
    }

    /// Returns how many buckets each member has.
    fn counts(&self, members: usize) -> Vec<usize> {
        let mut counts = vec![0; members];
        for &member in &self.members {
            if let Some(count) = counts.get_mut(usize::from(member)) {
                *count += 1;
            }
        }
        counts
    }

    /// Returns how many buckets each member shall have (`nh_res_group_rebalance`).
    fn wants(&self, weights: &[u32]) -> Vec<usize> {
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let (mut sum, mut before) = (0, 0);
        let share = |&weight: &u32| {
            sum += u64::from(weight);
            let bound = (self.members.len() as u64 * sum + total / 2) / total.max(1);
            let own = bound - before;
            before = bound;
            own as usize
        };
        weights.iter().map(share).collect()
    }

    /// Adapts the buckets to changed members. `place` returns the new position of a member, given its old
    /// one, or `None` if it has left (`nh_res_table_migrate_buckets`, `nh_res_group_rebalance`).
    pub(super) fn rebalance(&mut self, weights: &[u32], place: impl Fn(usize) -> Option<usize>) {
        for member in &mut self.members {
            if *member != NONE {
                let new = place(usize::from(*member));
                *member = new.and_then(|at| u16::try_from(at).ok()).unwrap_or(NONE);
            }
        }
        let (counts, wants) = (self.counts(weights.len()), self.wants(weights));
        let was_balanced = self.underweight.is_empty();
        let few = |at: &u16| counts[usize::from(*at)] < wants[usize::from(*at)];
        // The member found last is served first.
        self.underweight = (0..weights.len() as u16).rev().filter(few).collect();
        if was_balanced && !self.underweight.is_empty() {
            self.since = self.clock.now();
        }
    }

    /// Moves the buckets that may move (`nh_res_table_upkeep`). Adds those that moved to `moved`, and
    /// returns the time of the next call, if the group is still unbalanced.
    pub(super) fn upkeep(&mut self, weights: &[u32], moved: &mut Vec<u16>) -> Option<u64> {
        let now = self.clock.now();
        let mut deadline = now
            + match self.unbalanced_timer {
                0 => self.idle_timer,
                timer => timer,
            };
        let (mut counts, wants) = (self.counts(weights.len()), self.wants(weights));
        for bucket in 0..self.members.len() {
            let member = usize::from(self.members[bucket]);
            if let (Some(&count), Some(&want)) = (counts.get(member), wants.get(member)) {
                if count <= want {
                    continue;
                }
                let used = self.used[bucket].load(Relaxed);
                let idle_at = match used == self.migrated[bucket] {
                    true => now,
                    false => used.saturating_add(self.idle_timer),
                };
                let forced_at = match self.unbalanced_timer {
                    0 => u64::MAX,
                    timer => self.since.saturating_add(timer),
                };
                if now < idle_at && now <= forced_at {
                    deadline = deadline.min(idle_at).min(forced_at);
                    continue;
                }
            }
            let Some(&new) = self.underweight.first() else {
                continue;
            };
            if let Some(count) = counts.get_mut(member) {
                *count -= 1;
            }
            self.members[bucket] = new;
            self.used[bucket].store(now & !1, Relaxed);
            self.migrated[bucket] = now & !1;
            moved.push(bucket as u16);
            let new = usize::from(new);
            counts[new] += 1;
            if counts[new] == wants[new] {
                self.underweight.remove(0);
            }
        }
        let balanced = self.underweight.is_empty();
        (!balanced).then(|| deadline.max(now + MINIMUM_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(clock: &Arc<Clock>, buckets: u16, idle: u64, unbalanced: u64) -> Resilient {
        Resilient::new(buckets, idle * SECOND, unbalanced * SECOND, clock.clone())
    }

    fn members(table: &Resilient) -> Vec<usize> {
        let member = |bucket| table.member(bucket).unwrap();
        (0..table.buckets()).map(member).collect()
    }

    #[test]
    fn buckets_in_use_move_when_idle_or_when_forced() {
        let clock = Arc::new(Clock::new_virtual());
        let mut table = table(&clock, 8, 5, 0);
        let mut moved = Vec::new();
        table.rebalance(&[1, 1], Some);
        assert_eq!(table.upkeep(&[1, 1], &mut moved), None);
        assert_eq!(members(&table), [1, 1, 1, 1, 0, 0, 0, 0]);
        moved.clear();
        clock.advance(SECOND);
        // Buckets 4 to 7 are in use; the first member now wants two.
        (4..8).for_each(|hash| assert_eq!(table.select(hash), Some(0)));
        table.rebalance(&[1, 3], Some);
        clock.advance(2 * SECOND);
        assert_eq!(table.upkeep(&[1, 3], &mut moved), Some(6 * SECOND + 1));
        assert_eq!((&moved[..], table.unbalanced()), (&[][..], SECOND));
        // One stays in use.
        table.select(4);
        clock.advance(6 * SECOND + 1);
        table.upkeep(&[1, 3], &mut moved);
        assert_eq!(moved, [5, 6]);
        assert_eq!(members(&table), [1, 1, 1, 1, 0, 1, 1, 0]);
        assert_eq!(table.unbalanced(), 0);
        // By force after nine seconds.
        table.unbalanced_timer = 9 * SECOND;
        (0..8).for_each(|hash| assert!(table.select(hash).is_some()));
        table.rebalance(&[1, 1], Some);
        moved.clear();
        let mut at = table.upkeep(&[1, 1], &mut moved);
        while let Some(time) = at {
            clock.advance(time);
            (0..8).for_each(|hash| assert!(table.select(hash).is_some()));
            at = table.upkeep(&[1, 1], &mut moved);
        }
        assert_eq!(members(&table), [0, 0, 1, 1, 0, 1, 1, 0]);
        assert!(clock.now() > 15 * SECOND && clock.now() < 16 * SECOND);
    }

    #[test]
    fn members_that_leave_give_up_their_buckets_at_once() {
        let clock = Arc::new(Clock::new_virtual());
        let mut table = table(&clock, 6, 100, 0);
        table.rebalance(&[1, 1, 1], Some);
        table.upkeep(&[1, 1, 1], &mut Vec::new());
        clock.advance(SECOND);
        (0..6).for_each(|hash| assert!(table.select(hash).is_some()));
        // The second member leaves; the third takes its place.
        table.rebalance(&[1, 1], |at| [Some(0), None, Some(1)][at]);
        let mut moved = Vec::new();
        assert_eq!(table.upkeep(&[1, 1], &mut moved), None);
        assert_eq!(moved, [2, 3]);
        assert_eq!(members(&table), [1, 1, 1, 0, 0, 0]);
    }
}

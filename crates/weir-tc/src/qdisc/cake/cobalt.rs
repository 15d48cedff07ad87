// SPDX-License-Identifier: Apache-2.0 OR MIT
//! COBALT: CoDel for flows that respond to signals, combined with BLUE for those that do not.
//!
//! Mirrors `cobalt_*` of net/sched/sch_cake.c (RFC 8289; Feng and others: "The BLUE active queue
//! management algorithms", 2002). Times are nanoseconds. It differs from `codel` in three points:
//!
//! - The rate of drops decreases as gradually as it increases.
//! - The reciprocal roots of small counts are in a table.
//! - The first drop of a new queue immediately follows the first packet over target, because Linux
//!   starts with a reciprocal root of zero.

use weir_packet::Packet;

use super::super::{ecn, scale};

/// Parameters (`struct cobalt_params`), in ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    /// Time for which a queue may stay over the target before the first signal.
    pub interval: u64,
    /// Target for the sojourn time.
    pub target: u64,
    /// Transmission time of the largest frame.
    pub mtu_time: u64,
}

/// Increment of BLUE's probability, in units of 2^-32.
pub const UP: u32 = 1 << 24;
/// Decrement of BLUE's probability, in units of 2^-32.
pub const DOWN: u32 = 1 << 20;

/// The state of a queue (`struct cobalt_vars`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Vars {
    /// Signals since the dropping state began.
    pub count: u32,
    rec_inv_sqrt: u32,
    /// Time of the next signal, or of the last one.
    pub drop_next: i64,
    /// Time of the last change of BLUE's probability.
    pub blue_timer: i64,
    /// BLUE's drop probability, in units of 2^-32.
    pub p_drop: u32,
    /// Whether the queue is over the target.
    pub dropping: bool,
    /// Whether the last packet was marked.
    pub marked: bool,
}

const CACHED: usize = 16;

/// Makes one step of Newton's iteration for 1 / sqrt(count), in units of 2^-32
/// (`cobalt_newton_step`).
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = ((root as u64 * root as u64) >> 32) as u32;
    let value = (3_u64 << 32).wrapping_sub((count as u64).wrapping_mul(square as u64));
    ((value >> 2).wrapping_mul(root as u64) >> 31) as u32
}

/// Reciprocal roots of small counts (`cobalt_cache_init`).
static ROOTS: [u32; CACHED] = {
    let mut roots = [u32::MAX; CACHED];
    let (mut root, mut count) = (u32::MAX, 1);
    while count < CACHED {
        let mut step = 0;
        while step < 4 {
            root = newton_step(root, count as u32);
            step += 1;
        }
        roots[count] = root;
        count += 1;
    }
    roots
};

impl Vars {
    fn set_root(&mut self) {
        self.rec_inv_sqrt = match ROOTS.get(self.count as usize) {
            Some(root) => *root,
            None => newton_step(self.rec_inv_sqrt, self.count),
        };
    }

    /// Returns the time interval / sqrt(count) after `time` (`cobalt_control`). As in Linux the
    /// interval is cut to 32 bits.
    fn control(&self, time: i64, params: &Params) -> i64 {
        time.wrapping_add(i64::from(scale(params.interval as u32, self.rec_inv_sqrt)))
    }

    /// Increases BLUE's probability because the qdisc was full and this was its longest queue.
    /// Returns whether BLUE became active (`cobalt_queue_full`).
    pub fn full(&mut self, params: &Params, now: i64) -> bool {
        let mut up = false;
        if now.wrapping_sub(self.blue_timer) as u64 > params.target {
            up = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(UP);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        up
    }

    /// Decreases BLUE's probability because the queue was found empty. Returns whether BLUE became
    /// inactive (`cobalt_queue_empty`).
    pub fn empty(&mut self, params: &Params, now: i64) -> bool {
        let mut down = false;
        if self.p_drop != 0 && now.wrapping_sub(self.blue_timer) as u64 > params.target {
            self.p_drop = self.p_drop.saturating_sub(DOWN);
            self.blue_timer = now;
            down = self.p_drop == 0;
        }
        self.dropping = false;
        if self.count != 0 && now >= self.drop_next {
            self.count -= 1;
            self.set_root();
            self.drop_next = self.control(self.drop_next, params);
        }
        down
    }

    /// Marks a packet enqueued at `arrived`, or returns true if it must be dropped
    /// (`cobalt_should_drop`). At the receiving end of a line, `bulk` flows raise the sojourn time
    /// that is tolerated.
    pub fn should_drop(
        &mut self,
        params: &Params,
        now: i64,
        (packet, arrived): (&mut Packet, i64),
        bulk: u64,
        random: impl FnOnce() -> u32,
    ) -> bool {
        let waited = now.wrapping_sub(arrived) as u64;
        let over = waited > params.target
            && waited > params.mtu_time.wrapping_mul(bulk * 2)
            && waited > params.mtu_time.wrapping_mul(4);
        let mut since = now.wrapping_sub(self.drop_next);
        let mut due = self.count != 0 && since >= 0;
        let mut drop = false;
        self.marked = false;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.control(now, params);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            self.marked = ecn::set_ce(packet);
            drop = !self.marked;
            self.count = self.count.saturating_add(1);
            self.set_root();
            self.drop_next = self.control(self.drop_next, params);
            since = now.wrapping_sub(self.drop_next);
        } else {
            while due {
                self.count -= 1;
                self.set_root();
                self.drop_next = self.control(self.drop_next, params);
                since = now.wrapping_sub(self.drop_next);
                due = self.count != 0 && since >= 0;
            }
        }
        if self.p_drop != 0 {
            drop |= random() < self.p_drop;
        }
        if self.count == 0 {
            self.drop_next = now.wrapping_add_unsigned(params.interval);
        } else if since > 0 && !drop {
            self.drop_next = now;
        }
        drop
    }

    /// Returns whether an empty queue has no state left to keep.
    pub fn at_rest(&self, now: i64) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocal_roots_are_close_to_exact() {
        for (count, root) in ROOTS.iter().enumerate().skip(1) {
            let exact = 2_f64.powi(32) / (count as f64).sqrt();
            let wrong = (f64::from(*root) - exact).abs() / exact;
            assert!(wrong < 1e-3, "1 / sqrt({count}) is wrong by {wrong}");
        }
        assert_eq!((ROOTS[0], ROOTS[1] >> 16), (u32::MAX, 0xffff));
        let mut vars = Vars::default();
        for count in 1..5000 {
            vars.count = count;
            vars.set_root();
            let exact = 2_f64.powi(32) / f64::from(count).sqrt();
            let wrong = (f64::from(vars.rec_inv_sqrt) - exact).abs() / exact;
            assert!(wrong < 2e-3, "1 / sqrt({count}) is wrong by {wrong}");
        }
    }

    /// BLUE's probability rises by 1/256 when the queue is full and falls by 1/4096 when it is
    /// empty, each at most once per freeze time.
    #[test]
    fn blue_probability_changes_in_steps() {
        let params = Params {
            interval: 100_000_000,
            target: 5_000_000,
            mtu_time: 0,
        };
        let (mut vars, mut now) = (Vars::default(), 1_000_000_000);
        for step in 1..=300_u64 {
            now += 5_000_001;
            assert_eq!(vars.full(&params, now), step == 1);
            assert!(!vars.full(&params, now + 5_000_000), "too soon");
            let expected = (step << 32 >> 8).min(u64::from(u32::MAX));
            assert_eq!(u64::from(vars.p_drop), expected);
        }
        let mut steps = 0;
        while vars.p_drop != 0 {
            now += 5_000_001;
            steps += 1;
            assert_eq!(vars.empty(&params, now), steps == 4096);
            assert!(!vars.empty(&params, now + 5_000_000), "too soon");
        }
        assert_eq!(
            (steps, vars.empty(&params, now + 10_000_000)),
            (4096, false)
        );
    }
}

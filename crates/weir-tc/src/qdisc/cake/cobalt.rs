// SPDX-License-Identifier: Apache-2.0 OR MIT
//! COBALT: CoDel for flows that heed signals, and BLUE for those that do not, side by side.
//!
//! Mirrors `cobalt_*` of net/sched/sch_cake.c (RFC 8289; Feng and others: "The BLUE active queue management
//! algorithms", 2002). Times are nanoseconds. It differs from `codel` in that the rate of drops falls as
//! gradually as it rises, that small counts have their reciprocal roots in a table, and that a new queue's first drop
//! follows the first packet over target at once: Linux begins with a reciprocal of zero.

use weir_packet::Packet;

use super::super::{ecn, scale};

/// Parameters (`struct cobalt_params`), ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    /// How long a queue may stay over the target before the first signal.
    pub interval: u64,
    /// How long packets may wait.
    pub target: u64,
    /// What the largest frame takes.
    pub mtu_time: u64,
}

/// A step up of BLUE's probability, of 2^32.
pub const UP: u32 = 1 << 24;
/// A step down.
pub const DOWN: u32 = 1 << 20;

/// State of a queue (`struct cobalt_vars`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Vars {
    /// Signals since dropping began.
    pub count: u32,
    rec_inv_sqrt: u32,
    /// When the next signal is due, or the last was.
    pub drop_next: i64,
    /// When BLUE's probability changed last.
    pub blue_timer: i64,
    /// BLUE's probability, of 2^32.
    pub p_drop: u32,
    /// Over the target.
    pub dropping: bool,
    /// The last packet was marked.
    pub marked: bool,
}

const CACHED: usize = 16;

/// One step of Newton's iteration for 1 / sqrt(count), of 2^32 (`cobalt_newton_step`).
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = ((root as u64 * root as u64) >> 32) as u32;
    let value = (3_u64 << 32).wrapping_sub((count as u64).wrapping_mul(square as u64));
    ((value >> 2).wrapping_mul(root as u64) >> 31) as u32
}

/// `cobalt_cache_init`
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

    /// `cobalt_control`: the time interval / sqrt(count) after `time`. As Linux, of an interval of 32 bits.
    fn control(&self, time: i64, params: &Params) -> i64 {
        time.wrapping_add(i64::from(scale(params.interval as u32, self.rec_inv_sqrt)))
    }

    /// The qdisc was full, and this its longest queue; whether BLUE begins to act
    /// (`cobalt_queue_full`).
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

    /// The queue was found empty; whether BLUE ceases to act (`cobalt_queue_empty`).
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

    /// Whether a packet that came at `came` is to be dropped, or marks it (`cobalt_should_drop`). With
    /// `bulk` flows at a line's receiving end, more may wait.
    pub fn should_drop(
        &mut self,
        params: &Params,
        now: i64,
        (packet, came): (&mut Packet, i64),
        bulk: u64,
        random: impl FnOnce() -> u32,
    ) -> bool {
        let waited = now.wrapping_sub(came) as u64;
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

    /// Whether a queue that is empty has nothing left to remember.
    pub fn at_rest(&self, now: i64) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.drop_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocal_roots_are_near_the_exact_ones() {
        for (count, root) in ROOTS.iter().enumerate().skip(1) {
            let exact = 2_f64.powi(32) / (count as f64).sqrt();
            let wrong = (f64::from(*root) - exact).abs() / exact;
            assert!(wrong < 1e-3, "1 / sqrt({count}) is off by {wrong}");
        }
        assert_eq!((ROOTS[0], ROOTS[1] >> 16), (u32::MAX, 0xffff));
        let mut vars = Vars::default();
        for count in 1..5000 {
            vars.count = count;
            vars.set_root();
            let exact = 2_f64.powi(32) / f64::from(count).sqrt();
            let wrong = (f64::from(vars.rec_inv_sqrt) - exact).abs() / exact;
            assert!(wrong < 2e-3, "1 / sqrt({count}) is off by {wrong}");
        }
    }

    /// BLUE: up by 1/256 when full, down by 1/4096 when empty, either at most once in a freeze time.
    #[test]
    fn blue_s_probability_moves_by_its_steps() {
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte queue limits: how many octets a device should have at once, so that it never runs dry and little
//! waits behind what is in it already.
//!
//! Mirrors lib/dynamic_queue_limits.c. The limit grows when the device ran dry though it might have had
//! more, and shrinks by what was never needed for a second. Octet counts wrap.

/// Nanoseconds for which spare octets are watched before the limit shrinks by the least of them.
const HOLD: u64 = 1_000_000_000;

/// `DQL_MAX_LIMIT`, octets.
const MOST: u32 = u32::MAX / 2 - u32::MAX / 16;

/// The state of one queue (`struct dql`).
#[derive(Debug)]
pub(super) struct ByteLimit {
    limit: u32,
    /// Ever given to the device.
    queued: u32,
    /// Ever told to have left.
    completed: u32,
    /// Given together last.
    last: u32,
    /// Of the last completion: what was given until then, with the last of it, and what was beyond the limit.
    before: Before,
    /// The least that was spare since `since`.
    spare: u32,
    since: u64,
}

#[derive(Debug, Default)]
struct Before {
    queued: u32,
    last: u32,
    over: u32,
}

impl Default for ByteLimit {
    fn default() -> Self {
        Self {
            limit: 0,
            queued: 0,
            completed: 0,
            last: 0,
            before: Before::default(),
            spare: u32::MAX,
            since: 0,
        }
    }
}

/// `a - b` of counts that wrap, 0 if that is negative.
fn ahead(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).max(0) as u32
}

impl ByteLimit {
    /// Octets that may still be given; negative: more are on their way than should be.
    pub fn available(&self) -> i32 {
        let allowed = self.limit.wrapping_add(self.completed);
        allowed.wrapping_sub(self.queued) as i32
    }

    /// So many were given to the device.
    pub fn queued(&mut self, octets: u32) {
        self.last = octets;
        self.queued = self.queued.wrapping_add(octets);
    }

    /// So many have left it, of those that were on their way; `now` in ns.
    pub fn completed(&mut self, octets: u32, now: u64) {
        // Some may have been given to it before a reset.
        let octets = octets.min(self.queued.wrapping_sub(self.completed));
        let completed = self.completed.wrapping_add(octets);
        let under_way = self.queued.wrapping_sub(completed);
        let under_way_before = self.before.queued.wrapping_sub(self.completed);
        let all_before_gone = completed.wrapping_sub(self.before.queued) as i32 >= 0;
        let mut over = ahead(self.queued.wrapping_sub(self.completed), self.limit);
        let mut limit = self.limit;
        if (over > 0 && under_way == 0) || (self.before.over > 0 && all_before_gone) {
            // It ran dry, or may have.
            limit = limit
                .wrapping_add(ahead(completed, self.before.queued))
                .wrapping_add(self.before.over);
            self.watch(now);
        } else if under_way > 0 && under_way_before > 0 && !all_before_gone {
            // It was busy all the time.
            let needed = octets.wrapping_mul(2);
            let spare = ahead(limit.wrapping_add(self.before.over), needed);
            let last = match self.before.over {
                0 => 0,
                over => ahead(self.before.last, over),
            };
            self.spare = self.spare.min(spare.max(last));
            if now > self.since + HOLD {
                limit = ahead(limit, self.spare);
                self.watch(now);
            }
        }
        limit = limit.min(MOST);
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.completed = completed;
        self.before = Before {
            queued: self.queued,
            last: self.last,
            over,
        };
    }

    fn watch(&mut self, now: u64) {
        self.spare = u32::MAX;
        self.since = now;
    }

    /// Nothing is on its way, and nothing is known.
    pub fn reset(&mut self, now: u64) {
        *self = Self {
            since: now,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux's own code did at a device that sends at some rate, now and then stalls, and is given as
    /// much as it may be: octets given or completed (negative), ms, then its limit and what it allowed.
    const RECORDED: &str = include_str!("limit.tsv");

    #[test]
    fn limits_are_linux_s() {
        let (mut limit, mut steps) = (ByteLimit::default(), 0);
        for (n, line) in RECORDED.lines().enumerate() {
            let row: Vec<i64> = line.split('\t').map(|word| word.parse().unwrap()).collect();
            match row[0] {
                given @ 1.. => limit.queued(given as u32),
                gone => limit.completed(-gone as u32, row[1] as u64 * 1_000_000),
            }
            let found = (i64::from(limit.limit), i64::from(limit.available()));
            assert_eq!(found, (row[2], row[3]), "line {}", n + 1);
            steps += 1;
        }
        assert!(steps > 500);
    }

    #[test]
    fn a_device_that_sends_steadily_never_runs_dry_and_holds_little() {
        let mut limit = ByteLimit::default();
        // 1,500 octets a packet; each millisecond the device completes 4 packets if it has them.
        let (mut held, mut dry, mut most) = (0u32, 0, 0);
        for ms in 0..5000u64 {
            let gone = held.min(4 * 1500);
            if gone < 4 * 1500 && ms > 100 {
                dry += 1;
            }
            held -= gone;
            if gone > 0 {
                limit.completed(gone, ms * 1_000_000);
            }
            while limit.available() >= 0 {
                limit.queued(1500);
                held += 1500;
            }
            if ms > 3000 {
                most = most.max(held);
            }
        }
        assert_eq!(dry, 0);
        assert!(
            most <= 12 * 1500,
            "{most} octets are held where 6,000 are sent at once"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte queue limits: how many bytes a device should hold at once, so that it never runs dry and
//! its queue stays short.
//!
//! Mirrors lib/dynamic_queue_limits.c. The limit grows when the device ran dry although more
//! packets could have been given to it. It shrinks by the number of bytes that were not needed for
//! a second. Byte counts wrap.

/// Time in ns for which spare bytes are observed before the limit shrinks by the smallest of them.
const HOLD: u64 = 1_000_000_000;

/// `DQL_MAX_LIMIT`, in bytes.
const MAX_LIMIT: u32 = u32::MAX / 2 - u32::MAX / 16;

/// The state of one queue (`struct dql`).
#[derive(Debug)]
pub(super) struct ByteLimit {
    limit: u32,
    /// Bytes ever given to the device.
    queued: u32,
    /// Bytes ever reported as completed.
    completed: u32,
    /// Bytes of the last call of [`queued`](Self::queued).
    last: u32,
    /// State at the last completion.
    previous: Previous,
    /// Smallest number of spare bytes since `since`.
    spare: u32,
    since: u64,
}

#[derive(Debug, Default)]
struct Previous {
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
            previous: Previous::default(),
            spare: u32::MAX,
            since: 0,
        }
    }
}

/// Returns `a - b` of wrapping counts, or 0 if the difference is negative.
fn ahead(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).max(0) as u32
}

impl ByteLimit {
    /// Returns how many bytes may still be given to the device; negative if more are in flight than
    /// allowed.
    pub fn available(&self) -> i32 {
        let allowed = self.limit.wrapping_add(self.completed);
        allowed.wrapping_sub(self.queued) as i32
    }

    /// Records that `octets` bytes were given to the device.
    pub fn queued(&mut self, octets: u32) {
        self.last = octets;
        self.queued = self.queued.wrapping_add(octets);
    }

    /// Records at `now`, in ns, that `octets` of the bytes in flight left the device.
    pub fn completed(&mut self, octets: u32, now: u64) {
        // Some of the bytes may have been given to the device before a reset.
        let octets = octets.min(self.queued.wrapping_sub(self.completed));
        let completed = self.completed.wrapping_add(octets);
        let in_flight = self.queued.wrapping_sub(completed);
        let in_flight_before = self.previous.queued.wrapping_sub(self.completed);
        let all_previous_completed = completed.wrapping_sub(self.previous.queued) as i32 >= 0;
        let mut over = ahead(self.queued.wrapping_sub(self.completed), self.limit);
        let mut limit = self.limit;
        if (over > 0 && in_flight == 0) || (self.previous.over > 0 && all_previous_completed) {
            // The device ran dry, or may have.
            limit = limit
                .wrapping_add(ahead(completed, self.previous.queued))
                .wrapping_add(self.previous.over);
            self.watch(now);
        } else if in_flight > 0 && in_flight_before > 0 && !all_previous_completed {
            // The device was busy the whole time.
            let needed = octets.wrapping_mul(2);
            let spare = ahead(limit.wrapping_add(self.previous.over), needed);
            let last = match self.previous.over {
                0 => 0,
                over => ahead(self.previous.last, over),
            };
            self.spare = self.spare.min(spare.max(last));
            if now > self.since + HOLD {
                limit = ahead(limit, self.spare);
                self.watch(now);
            }
        }
        limit = limit.min(MAX_LIMIT);
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.completed = completed;
        self.previous = Previous {
            queued: self.queued,
            last: self.last,
            over,
        };
    }

    fn watch(&mut self, now: u64) {
        self.spare = u32::MAX;
        self.since = now;
    }

    /// Forgets all history: nothing is in flight.
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

    /// Recording of Linux's own code with a device that sends at some rate, stalls now and then and
    /// is always given as much as allowed. The columns are bytes given or (negative) completed,
    /// time in ms, then the limit and the allowed bytes.
    const RECORDED: &str = include_str!("limit.tsv");

    #[test]
    fn limits_match_linux() {
        let (mut limit, mut steps) = (ByteLimit::default(), 0);
        for (n, line) in RECORDED.lines().enumerate() {
            let row: Vec<i64> = line.split('\t').map(|word| word.parse().unwrap()).collect();
            match row[0] {
                given @ 1.. => limit.queued(given as u32),
                done => limit.completed(-done as u32, row[1] as u64 * 1_000_000),
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
        // Packets have 1,500 bytes. The device completes 4 packets per millisecond if it has them.
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
            "{most} bytes are held although 6,000 are sent at once"
        );
    }
}

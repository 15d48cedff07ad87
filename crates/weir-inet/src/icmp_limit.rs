// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rate limit of all ICMP and ICMPv6 messages that a namespace sends (`icmp_global_allow`).
//!
//! A single token bucket serves both families: `net.ipv4.icmp_msgs_per_sec` tokens per second, up
//! to a burst of `icmp_msgs_burst`. As in Linux, a message randomly takes zero, one or two tokens,
//! as a defence against side channels. The random numbers come from the namespace's seeded
//! generator. (In 6.1 one bucket serves the whole machine.) The caller decides which types are
//! limited; the limit per host is in [`crate::ipv4::peer`].

use crate::clock::SECOND;
use crate::random::Generator;
use crate::settings::{Conf, Ipv4};
use weir_sync::order::{self, Mutex};

#[derive(Debug)]
struct Credit {
    credit: u32,
    /// The time of the last refill, or `None` before the first use.
    stamp: Option<u64>,
    random: Generator,
}

/// The token bucket of a namespace; see the module documentation.
#[derive(Debug)]
pub struct Bucket(Mutex<Credit, order::RateLimit>);

impl Bucket {
    /// Creates a full bucket.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Credit {
            credit: 0,
            stamp: None,
            random: Generator::new(seed, "icmp"),
        }))
    }

    /// Takes tokens for one message and returns whether it may be sent. `now` is a time of the
    /// stack's clock in nanoseconds.
    pub fn take(&self, conf: &Conf<Ipv4>, now: u64) -> bool {
        let mut bucket = self.0.lock();
        let passed = bucket
            .stamp
            .map_or(SECOND, |stamp| now.saturating_sub(stamp).min(SECOND));
        let of = |slot| conf.get(slot).max(0) as u64;
        let mut credit = u64::from(bucket.credit);
        // Refill in steps, so that slow rates are not rounded down to nothing.
        if passed >= SECOND / 50 {
            let more = of(Ipv4::IcmpMsgsPerSec) * passed / SECOND;
            if more > 0 {
                bucket.stamp = Some(now);
            }
            credit += more;
        }
        let credit = credit.min(of(Ipv4::IcmpMsgsBurst)) as u32;
        let taken = if credit > 0 {
            bucket.random.below(3)
        } else {
            0
        };
        bucket.credit = credit.saturating_sub(taken);
        credit > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let (bucket, conf) = (Bucket::new(1), Conf::default());
        let at_once = (0..200).filter(|_| bucket.take(&conf, 0)).count();
        assert!((30..=100).contains(&at_once), "{at_once}");
        let later = (0..200).filter(|_| bucket.take(&conf, SECOND)).count();
        assert!((30..=100).contains(&later), "{later}");
        conf.set(Ipv4::IcmpMsgsPerSec, 0);
        assert!((0..200).filter(|_| bucket.take(&conf, 9 * SECOND)).count() < 100);
        assert!(!bucket.take(&conf, 99 * SECOND));
    }
}

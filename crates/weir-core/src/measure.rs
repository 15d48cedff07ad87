// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of transmits on each queue, counted while enabled
//! ([`Shared::measure_transmit`](crate::stack::Shared::measure_transmit)): how long a transmit call
//! takes, whether it handed its packets to the current worker or did the work for all, and how many
//! packets leave the qdisc together. The counters are per CPU. While disabled, a batch costs two
//! loads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use weir_sync::percpu::PerCpu;

use crate::cpu::Cx;
use crate::device::Device;

/// The number of time buckets. Bucket n holds times below 2^n ns that are in no lower bucket.
pub const TIMES: usize = 40;

/// The number of batch size buckets: 0, 1, 2 to 3, 4 to 7, ..., 64.
pub const SIZES: usize = 8;

/// The counters of one CPU for one queue.
#[derive(Debug)]
pub struct Counts {
    calls: AtomicU64,
    packets: AtomicU64,
    times: [AtomicU64; TIMES],
    batches: [AtomicU64; SIZES],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            calls: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            times: [const { AtomicU64::new(0) }; TIMES],
            batches: [const { AtomicU64::new(0) }; SIZES],
        }
    }
}

/// The sums over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// The number of transmit calls. Each adds packets to the list in front of the lock.
    pub calls: u64,
    /// The packets of these calls.
    pub packets: u64,
    /// Calls by duration.
    pub times: [u64; TIMES],
    /// Batches that left the qdisc, by size.
    pub batches: [u64; SIZES],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            calls: 0,
            packets: 0,
            times: [0; TIMES],
            batches: [0; SIZES],
        }
    }
}

impl Totals {
    /// Adds up counters.
    pub fn of<'a>(all: impl Iterator<Item = &'a Counts>) -> Self {
        let mut totals = Self::default();
        for counts in all {
            totals.calls += counts.calls.load(Relaxed);
            totals.packets += counts.packets.load(Relaxed);
            let times = totals.times.iter_mut().zip(&counts.times);
            times.for_each(|(sum, count)| *sum += count.load(Relaxed));
            let batches = totals.batches.iter_mut().zip(&counts.batches);
            batches.for_each(|(sum, count)| *sum += count.load(Relaxed));
        }
        totals
    }
}

/// Returns the bucket of a number: its bit length, capped at the last of `count` buckets.
fn class(number: u64, count: usize) -> usize {
    ((u64::BITS - number.leading_zeros()) as usize).min(count - 1)
}

impl Counts {
    fn call(&self, packets: usize, ns: u64) {
        self.calls.fetch_add(1, Relaxed);
        self.packets.fetch_add(packets as u64, Relaxed);
        self.times[class(ns, TIMES)].fetch_add(1, Relaxed);
    }

    fn batch(&self, packets: usize) {
        self.batches[class(packets as u64, SIZES)].fetch_add(1, Relaxed);
    }
}

fn counts<'d>(cx: &Cx<'_>, device: &'d Device, queue: u16) -> Option<&'d Counts> {
    if !cx.stack.is_transmit_measured() {
        return None;
    }
    let tx = device.tx(queue)?;
    let counts = tx.counts.get_or_init(|| Box::new(PerCpu::new()));
    Some(counts.get(cx.state.id))
}

/// A call that is being timed.
pub struct Measured<'d> {
    counts: &'d Counts,
    since: Instant,
}

impl<'d> Measured<'d> {
    /// Starts timing if measuring is enabled.
    #[inline]
    pub fn start(cx: &Cx<'_>, device: &'d Device, queue: u16) -> Option<Self> {
        let counts = counts(cx, device, queue)?;
        let since = Instant::now();
        Some(Self { counts, since })
    }

    /// Ends the timing of a call.
    pub fn end(self, packets: usize) {
        let ns = u64::try_from(self.since.elapsed().as_nanos());
        self.counts.call(packets, ns.unwrap_or(u64::MAX));
    }
}

/// Counts a batch that left the qdisc.
#[inline]
pub fn batch(cx: &Cx<'_>, device: &Device, queue: u16, packets: usize) {
    if let Some(counts) = counts(cx, device, queue) {
        counts.batch(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_into_classes_by_their_bits() {
        let counts = Counts::default();
        for ns in [0, 1, 2, 3, 255, 256, u64::MAX] {
            counts.call(2, ns);
        }
        (0..=64).for_each(|packets| counts.batch(packets));
        let totals = Totals::of([&counts, &counts].into_iter());
        assert_eq!((totals.calls, totals.packets), (14, 28));
        let seen: Vec<_> = (0..).zip(totals.times).filter(|(_, n)| *n > 0).collect();
        // In order: 0; 1; 2 and 3; 255; 256; beyond the last bucket.
        assert_eq!(seen, [(0, 2), (1, 2), (2, 4), (8, 2), (9, 2), (39, 2)]);
        assert_eq!(totals.batches, [2, 2, 4, 8, 16, 32, 64, 2]);
    }
}

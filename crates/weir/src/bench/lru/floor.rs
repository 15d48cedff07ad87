// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What any shared table must do to insert and evict: the least that several threads can take.
//!
//! The table is as many cache lines as [`weir_map`]'s has buckets. An insertion takes a random line by
//! compare-and-swap, writes an entry into it, and releases it; an eviction takes another one and marks an entry as
//! gone. Both lines are prefetched for 64 insertions at once. There are no lists, no shared counters and no other locks.
//! Between them a thread computes, so that one thread takes about as long as for an insertion into a map of 10,000 entries.
//! With lines of its own for each thread, the same work shows what the machine's CPUs have to share without a table.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use weir_sync::primitive::prefetch_to_write;

use super::misses::Random;
use super::{LruOptions, Rows, Scale, make, rate};

/// The rounds of computation for an insertion.
const WORK: u32 = 17;
const LOCK: u64 = 1;

#[derive(Default)]
#[repr(align(64))]
struct Line {
    control: AtomicU64,
    entry: [AtomicU64; 7],
}

impl Line {
    /// Changes words of the line under its lock.
    #[inline(always)]
    fn change(&self, words: &[usize], value: u64) {
        let before = loop {
            let control = self.control.load(Relaxed);
            let locked = || {
                self.control
                    .compare_exchange(control, control | LOCK, Acquire, Relaxed)
            };
            if control & LOCK == 0 && locked().is_ok() {
                break control;
            }
            spin_loop();
        };
        for &word in words {
            self.entry[word].store(value, Relaxed);
        }
        self.control.store(before.wrapping_add(2), Release);
    }
}

fn work(lines: &[Line], seed: u64, stop: &AtomicBool) -> u64 {
    let (mut random, mut keys, mut computed) = (Random(seed << 40), 0, seed);
    let mut batch = [(0, 0); weir_map::BATCH];
    while !stop.load(Relaxed) {
        for (home, victim) in &mut batch {
            *home = random.below(lines.len() as u32) as usize;
            *victim = random.below(lines.len() as u32) as usize;
            prefetch_to_write(&raw const lines[*home]);
            prefetch_to_write(&raw const lines[*victim]);
        }
        for &(home, victim) in &batch {
            for _ in 0..WORK {
                computed = computed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (computed >> 7);
            }
            lines[home].change(&[0, 2], keys);
            lines[victim].change(&[4], keys);
            keys += 1;
        }
    }
    black_box(computed);
    keys
}

/// Adds the rows of a size. Weir's column has the figures; they are not Weir's.
pub fn rows(scale: &Scale, entries: u32, rows: &mut Rows) -> Result<(), String> {
    // Four entries in a line.
    let count = make(entries, LruOptions::default())?.slots() as usize / 4;
    let lines = || (0..count).map(|_| Line::default()).collect::<Vec<_>>();
    let tables = [lines(), lines()];
    for threads in [1, 2] {
        let figure = rate(threads, scale.length, |seed, stop| {
            work(&tables[0], seed, stop)
        });
        let id = format!("floor {threads} x {entries}");
        let measure =
            format!("the least that a shared table of {entries} entries does, {threads} threads");
        rows.row(id, measure, "M/s").weir.0.push(figure);
    }
    let figure = rate(2, scale.length, |seed, stop| {
        work(&tables[seed as usize % 2], seed, stop)
    });
    let measure = format!("the same, 2 threads with a table of {entries} entries each");
    let id = format!("floor-own 2 x {entries}");
    rows.row(id, measure, "M/s").weir.0.push(figure);
    Ok(())
}

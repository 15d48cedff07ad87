// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processor time that it takes to move the cache lines of packets to another processor and
//! back, without any queue. A packet whose sender and worker run on different processors costs at
//! least that much more than one whose sender and worker share a processor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use weir_sync::primitive::{CachePadded, prefetch_to_write};

use super::send::{BATCH, processors};

/// The number of batches in flight: about as many packets as `net.core.qdisc_max_burst` admits.
const BATCHES: usize = 32;

/// The line that holds a packet's metadata.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// The batches, and how many each side has passed on.
struct Ring {
    lines: Vec<[Line; BATCH]>,
    sent: CachePadded<AtomicU64>,
    returned: CachePadded<AtomicU64>,
}

impl Ring {
    /// Writes every line of a batch, after all of them were prefetched.
    fn write(&self, batch: u64) {
        let Some(lines) = self.lines.get(batch as usize % BATCHES) else {
            return;
        };
        lines
            .iter()
            .for_each(|line| prefetch_to_write(std::ptr::from_ref(line)));
        for Line(word) in lines {
            word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Waits until `ready` batches are on the other side. Returns `false` once stopped.
    fn wait(counter: &AtomicU64, ready: u64, stop: &AtomicBool) -> bool {
        while counter.load(Acquire) < ready {
            if stop.load(Relaxed) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    fn send(&self, stop: &AtomicBool) {
        for batch in 0.. {
            let room = (batch + 1_u64).saturating_sub(BATCHES as u64);
            if !Self::wait(&self.returned.0, room, stop) {
                return;
            }
            self.write(batch);
            self.sent.0.store(batch + 1, Release);
        }
    }

    fn give_back(&self, stop: &AtomicBool) {
        for batch in 0.. {
            if !Self::wait(&self.sent.0, batch + 1, stop) {
                return;
            }
            self.write(batch);
            self.returned.0.store(batch + 1, Release);
        }
    }
}

/// Runs `work` pinned to a processor.
fn pinned(processor: usize, work: impl FnOnce()) {
    let mut only = CpuSet::new();
    only.set(processor);
    // The process may run there, so this thread may too.
    let _ = sched_setaffinity(None, &only);
    work();
}

/// Returns the processor time per packet, ns: with each side on a processor of its own, and with
/// both in one thread. Returns `None` if there is only one processor.
pub fn moved(length: Duration) -> Option<(f64, f64)> {
    let (first, second) = match processors()[..] {
        [first, second, ..] => (first, second),
        _ => return None,
    };
    let ring = Ring {
        lines: (0..BATCHES).map(|_| Default::default()).collect(),
        sent: CachePadded(AtomicU64::new(0)),
        returned: CachePadded(AtomicU64::new(0)),
    };
    let stop = AtomicBool::new(false);
    let mut apart = 0.0;
    std::thread::scope(|scope| {
        let (ring, stop) = (&ring, &stop);
        scope.spawn(move || pinned(first, || ring.send(stop)));
        scope.spawn(move || pinned(second, || ring.give_back(stop)));
        std::thread::sleep(super::warm_up(length));
        let (start, before) = (Instant::now(), ring.returned.0.load(Relaxed));
        std::thread::sleep(length);
        let packets = (ring.returned.0.load(Relaxed) - before) * BATCH as u64;
        // Both processors are busy all the time.
        apart = 2.0 * start.elapsed().as_nanos() as f64 / packets as f64;
        stop.store(true, Relaxed);
    });
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < length {
        for _ in 0..BATCHES {
            ring.write(batches);
            ring.write(batches);
            batches += 1;
        }
    }
    let together = start.elapsed().as_nanos() as f64 / (batches * BATCH as u64) as f64;
    Some((apart, together))
}

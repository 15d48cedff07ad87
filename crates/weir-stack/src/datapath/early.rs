// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Early drop: the leading drop filters of a device's ingress run on the frames of a port before
//! packets are made of them (`weir_tc::early`).
//!
//! It is on by itself while the filters allow it and nothing but the filters looks at the frames.
//! The counters of the device, its filters and its drops do not tell the difference. If hardly any
//! frame is dropped, the port pauses for some batches, so that the filters do not run twice for
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_packet::{Cache, DropReason};
use weir_tc::{Dropped, Early};

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::stack::Shared;
use crate::stages::Stage;
use weir_sync::rcu::Guard;

/// A judge of frames: returns a bit for each frame that was dropped and counted.
pub type Sieve<'a> = &'a mut dyn FnMut(&[&[u8]]) -> u64;

/// Frames are judged in periods of this many batches.
const PERIOD: u32 = 64;
/// The number of batches that pass unjudged after a period in which fewer than one of [`FEW`] frames
/// was dropped.
const PAUSE: u32 = 1024;
const FEW: u64 = 16;

/// The early drop of a port's queue.
#[derive(Debug, Default)]
pub struct EarlyDrop {
    dropped: AtomicU64,
    /// What one CPU at a time, that of the queue, knows of the current period.
    batches: AtomicU32,
    judged: AtomicU64,
    hits: AtomicU64,
    pause: AtomicU32,
}

/// Returns the reason why no frame of a device is dropped early now.
pub fn why_not(stack: &Shared, device: &Device, guard: &Guard) -> Option<&'static str> {
    if !device.tc.may_drop_early(guard) {
        Some("ingress does not begin with drop filters")
    } else if !device.is_up() {
        Some("the device is down")
    } else if device.link.counts_itself() {
        Some("the device counts by itself")
    } else if !device.observers(guard).is_empty() || !stack.observers(guard).is_empty() {
        Some("the device's frames are captured")
    } else if stack.trace.is_on() {
        Some("packets are traced")
    } else if !stack.drop_observers(guard).is_empty() {
        Some("drops are recorded")
    } else {
        None
    }
}

impl EarlyDrop {
    /// Returns the number of frames dropped early so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Receives for `device`: calls `receive` with the CPU's packet memory, and with the judge of
    /// frames if early drop is on.
    pub fn receive<R>(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        receive: impl FnOnce(&mut Cache, Option<Sieve<'_>>) -> R,
    ) -> R {
        if self.pauses() || why_not(cx.stack, device, cx.guard).is_some() {
            return receive(&mut cx.state.cache.borrow_mut(), None);
        }
        let mut work = cx.state.filters.take().unwrap_or_default();
        let lookup = &mut work.lookup;
        lookup.time(false);
        let mut memory = cx.state.cache.borrow_mut();
        let mut total = Total::default();
        let result = receive(
            &mut memory,
            Some(&mut |frames| {
                let stages = &cx.state.stages;
                stages.inner(Stage::Ingress, frames.len(), || {
                    let early = Early {
                        guard: cx.guard,
                        cpu: cx.state.id,
                        now: cx.now,
                    };
                    let dropped = device.tc.drop_early(early, frames, lookup);
                    total.add(frames.len(), dropped);
                    dropped.which
                })
            }),
        );
        drop(memory);
        cx.state.filters = Some(work);
        total.count(cx, device);
        self.learn(&total);
        result
    }

    fn pauses(&self) -> bool {
        let pause = self.pause.load(Relaxed);
        self.pause.store(pause.saturating_sub(1), Relaxed);
        pause > 0
    }

    fn learn(&self, total: &Total) {
        let add = |counter: &AtomicU64, by: u64| {
            let sum = counter.load(Relaxed) + by;
            counter.store(sum, Relaxed);
            sum
        };
        let (judged, hits) = (
            add(&self.judged, total.judged),
            add(&self.hits, total.packets),
        );
        add(&self.dropped, total.packets);
        let batches = self.batches.load(Relaxed) + 1;
        self.batches.store(batches % PERIOD, Relaxed);
        if batches == PERIOD {
            if hits * FEW < judged {
                self.pause.store(PAUSE, Relaxed);
            }
            self.judged.store(0, Relaxed);
            self.hits.store(0, Relaxed);
        }
    }
}

/// The frames of one call.
#[derive(Default)]
struct Total {
    judged: u64,
    packets: u64,
    bytes: u64,
    multicast: u64,
}

impl Total {
    #[inline]
    fn add(&mut self, judged: usize, dropped: Dropped) {
        self.judged += judged as u64;
        self.packets += u64::from(dropped.which.count_ones());
        self.bytes += dropped.bytes;
        self.multicast += u64::from(dropped.multicast);
    }

    /// Counts dropped frames as `receive` and the ingress filters count them.
    fn count(&self, cx: &Cx<'_>, device: &Device) {
        if self.packets == 0 {
            return;
        }
        let processed = cx.stack.received.get(cx.state.id);
        processed.store(processed.load(Relaxed) + self.packets, Relaxed);
        let stats = device.stats(cx.state.id);
        stats.rx_packets.fetch_add(self.packets, Relaxed);
        stats.rx_bytes.fetch_add(self.bytes, Relaxed);
        if self.multicast > 0 {
            stats.multicast.fetch_add(self.multicast, Relaxed);
        }
        device.count_drops(Place::Ingress, DropReason::TC_INGRESS, self.packets);
    }
}

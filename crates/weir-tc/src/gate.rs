// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a transmit queue of a device takes packets now, and how many octets.
//!
//! Mirrors `netdev_queue.state`: a device without room stops its queue (`netif_tx_stop_queue`) and wakes it
//! when there is some again (`netif_tx_wake_queue`); and byte queue limits (`netdev_tx_sent_queue`,
//! `netdev_tx_completed_queue`), for a device that tells what has left it.
//!
//! Who gives packets away closes the gate and then looks once more; who makes room does so and then looks
//! at the gate. A fence on each side forbids that both miss each other.

mod limit;
#[cfg(all(test, loom))]
mod loom_models;

use weir_sync::primitive::atomic::{AtomicBool, Ordering::*};
use weir_sync::primitive::full_fence;
use weir_sync::spin::SpinLock;

use self::limit::ByteLimit;

/// See the module.
#[derive(Debug, Default)]
pub struct Gate {
    /// The device has no room (`__QUEUE_STATE_DRV_XOFF`).
    full: AtomicBool,
    /// More is on its way than the limit allows (`__QUEUE_STATE_STACK_XOFF`). Changed under the limit's lock.
    over: AtomicBool,
    limit: SpinLock<ByteLimit>,
}

impl Gate {
    /// Octets that may be given to the device together, of which the last packet may exceed them; `None`: the
    /// queue is stopped. `limited`: the device tells what has left it.
    #[inline]
    pub fn room(&self, limited: bool) -> Option<u32> {
        if self.full.load(Relaxed) || self.over.load(Relaxed) {
            return None;
        }
        Some(match limited {
            true => u32::try_from(self.limit.lock().available()).unwrap_or(0),
            false => u32::MAX,
        })
    }

    /// Gives `count` packets to the device: `take` is told how many have gone already, and answers how
    /// many of the others the device took. All together; if fewer, the queue is stopped.
    pub fn pass(&self, count: usize, mut take: impl FnMut(usize) -> usize) -> usize {
        let mut taken = take(0);
        if taken < count {
            self.full.store(true, Relaxed);
            full_fence();
            // Room that has come meanwhile has been told to nobody.
            taken += take(taken);
            if taken == count {
                self.full.store(false, Relaxed);
            }
        }
        taken
    }

    /// The device has room again. True: the queue was stopped; the caller sees to it that its qdisc is asked.
    #[must_use]
    pub fn wake(&self) -> bool {
        full_fence();
        self.full.load(Relaxed) && self.full.swap(false, AcqRel)
    }

    /// Packets of so many octets are on their way.
    pub fn sent(&self, octets: u32) {
        let mut limit = self.limit.lock();
        limit.queued(octets);
        self.over.store(limit.available() < 0, Relaxed);
    }

    /// Packets of so many octets have left the device; `now` in ns. True: as
    /// [`wake`](Self::wake).
    #[must_use]
    pub fn completed(&self, octets: u32, now: u64) -> bool {
        if octets == 0 {
            return false;
        }
        let mut limit = self.limit.lock();
        limit.completed(octets, now);
        limit.available() >= 0 && self.over.swap(false, AcqRel)
    }

    /// Nothing is on its way any more, and there is room: the device goes up (`netdev_tx_reset_queue`,
    /// `netif_tx_start_queue`).
    pub fn reset(&self, now: u64) {
        let mut limit = self.limit.lock();
        limit.reset(now);
        self.over.store(false, Relaxed);
        self.full.store(false, Relaxed);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gate of a transmit queue: whether the device takes packets now, and how many bytes.
//!
//! Mirrors `netdev_queue.state`. A device without room stops its queue (`netif_tx_stop_queue`) and
//! wakes it when there is room again (`netif_tx_wake_queue`). Byte queue limits
//! (`netdev_tx_sent_queue`, `netdev_tx_completed_queue`) apply to a device that reports its
//! completions.
//!
//! The sender closes the gate and then checks the device for room once more. The device makes room
//! and then checks the gate. A full fence on each side ensures that at least one of them sees the
//! other.

mod limit;
#[cfg(all(test, loom))]
mod loom_models;

use weir_sync::primitive::atomic::{AtomicBool, Ordering::*};
use weir_sync::primitive::full_fence;
use weir_sync::spin::SpinLock;

use self::limit::ByteLimit;

/// The gate of one transmit queue; see the module documentation.
#[derive(Debug, Default)]
pub struct Gate {
    /// The device has no room (`__QUEUE_STATE_DRV_XOFF`).
    full: AtomicBool,
    /// More bytes are in flight than the limit allows (`__QUEUE_STATE_STACK_XOFF`). Changed under
    /// the lock of `limit`.
    over: AtomicBool,
    limit: SpinLock<ByteLimit>,
}

impl Gate {
    /// Returns how many bytes the device takes at once; the last packet may exceed that number.
    /// Returns `None` if the queue is stopped. `limited` says whether the device reports its
    /// completions.
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

    /// Gives `count` packets to the device and returns how many it took. Stops the queue if it did
    /// not take all.
    ///
    /// `take` is called with the number of packets taken so far and returns how many of the rest
    /// the device took.
    pub fn pass(&self, count: usize, mut take: impl FnMut(usize) -> usize) -> usize {
        let mut taken = take(0);
        if taken < count {
            self.full.store(true, Relaxed);
            full_fence();
            // The device may have made room before the gate was closed. It did not wake the queue
            // then.
            taken += take(taken);
            if taken == count {
                self.full.store(false, Relaxed);
            }
        }
        taken
    }

    /// Opens the gate because the device has room again. Returns true if the queue was stopped; the
    /// caller must then schedule the qdisc of the queue.
    #[must_use]
    pub fn wake(&self) -> bool {
        full_fence();
        self.full.load(Relaxed) && self.full.swap(false, AcqRel)
    }

    /// Records that packets of `octets` bytes were given to the device.
    pub fn sent(&self, octets: u32) {
        let mut limit = self.limit.lock();
        limit.queued(octets);
        self.over.store(limit.available() < 0, Relaxed);
    }

    /// Records at `now`, in ns, that packets of `octets` bytes left the device. Returns true in the
    /// same case as [`wake`](Self::wake).
    #[must_use]
    pub fn completed(&self, octets: u32, now: u64) -> bool {
        if octets == 0 {
            return false;
        }
        let mut limit = self.limit.lock();
        limit.completed(octets, now);
        limit.available() >= 0 && self.over.swap(false, AcqRel)
    }

    /// Resets the gate when the device goes up: nothing is in flight and there is room
    /// (`netdev_tx_reset_queue`, `netif_tx_start_queue`).
    pub fn reset(&self, now: u64) {
        let mut limit = self.limit.lock();
        limit.reset(now);
        self.over.store(false, Relaxed);
        self.full.store(false, Relaxed);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the ARP monitor knows of a port.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::config::TARGETS;

/// When a port sent and received, in ns of the stack's clock.
#[derive(Default)]
pub struct Times {
    /// The last request (`last_tx`).
    pub sent: AtomicU64,
    /// The last frame that counts (`last_rx`).
    pub received: AtomicU64,
    /// The last reply of each target (`target_last_arp_rx`).
    pub targets: [AtomicU64; TARGETS],
    /// When the link came up or the port became the active one (`last_link_up`).
    pub up: AtomicU64,
}

impl Times {
    /// Sets the times of a new port: it neither sent nor received in the last interval.
    pub fn begin(&self, time: u64) {
        for one in [&self.sent, &self.received]
            .into_iter()
            .chain(&self.targets)
        {
            one.store(time, Relaxed);
        }
    }
}

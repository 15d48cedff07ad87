// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet and its connection: what filters and the actions `connmark` and `ctinfo` ask.

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Conn, Packet};

use crate::connection::{Handle, Origin};
use crate::conntrack::{Conntrack, merge_labels};
use crate::headers::{Headers, family_of};
use crate::status::ipct;
use crate::store::Slot;
use crate::tuple::Direction;

impl Conntrack {
    /// Returns the name of a packet's connection, if the connection is one of this table and still there.
    #[inline]
    pub fn of(&self, conn: Conn) -> Option<Handle> {
        if conn.table != self.number() || !conn.is_entry() {
            return None;
        }
        let handle = Handle {
            index: conn.index,
            generation: conn.generation,
        };
        self.slot(handle).map(|_| handle)
    }

    /// Returns a connection's mark.
    #[inline]
    pub fn mark(&self, handle: Handle) -> Option<u32> {
        let slot = self.slot(handle)?;
        Some(slot.entry.mark.load(Relaxed))
    }

    /// Returns a connection's labels: zeroes if they were never set.
    pub fn labels(&self, handle: Handle) -> Option<[u8; 16]> {
        Some(self.slot(handle)?.labels().unwrap_or_default())
    }

    /// Returns a connection's zone.
    pub fn zone(&self, handle: Handle) -> Option<u16> {
        Some(self.slot(handle)?.zone().id)
    }

    /// Sets the bits of `mask` of a connection's mark.
    pub fn set_mark(&self, handle: Handle, mark: u32, mask: u32, now: u64) {
        self.update(handle, ipct::MARK, now, |slot| {
            let old = slot.entry.mark.load(Relaxed);
            let new = old & !mask | mark & mask;
            slot.entry.mark.store(new, Relaxed);
            old != new
        });
    }

    /// Sets the bits of `mask` of a connection's labels.
    pub fn set_labels(&self, handle: Handle, labels: &[u8; 16], mask: &[u8; 16], now: u64) {
        self.update(handle, ipct::LABEL, now, |slot| {
            merge_labels(slot, labels, mask)
        });
    }

    /// Changes an entry under its lock, and tells the event if `change` returns true.
    fn update(&self, handle: Handle, event: u32, now: u64, change: impl FnOnce(&Slot<'_>) -> bool) {
        let Some(slot) = self.slot(handle) else {
            return;
        };
        let changed = {
            let _lock = slot.lock();
            slot.entry.generation.load(Relaxed) == handle.generation && change(&slot)
        };
        if changed {
            self.tell(event, &slot, Origin::Packet, now);
        }
    }

    /// Finds the connection of a packet by its headers, and the packet's direction. Changes nothing.
    pub fn find_packet(&self, packet: &Packet, zone: u16, now: u64) -> Option<(Handle, Direction)> {
        let network = packet.network();
        let headers = Headers::read(network, family_of(packet)?).ok()?;
        self.find(&headers.tuple(network)?, zone, now)
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Batches of packets that enter or leave a tree of qdiscs: the work per batch and the work per
//! packet.

use weir_packet::{Batch, Drain, Packet};

use super::stab::SizeTable;
use super::{Load, NO_HINT, QueueCx, pkt_len};

/// A batch of packets that enters a root, in order. Each packet is followed by the copies made of
/// it.
pub struct Arrivals<'a, 'b> {
    packets: &'a mut Drain<'b>,
    /// Number of packets of the drain that belong to this batch.
    left: usize,
    /// Lookahead hints for the first packets.
    hints: std::slice::Iter<'a, u32>,
    stab: Option<&'a SizeTable>,
    /// Packets of the root that the kind's own queue does not hold.
    ahead: Load,
}

impl<'a, 'b> Arrivals<'a, 'b> {
    /// Takes the first `count` packets of a drain, with the hints of the lookahead.
    pub(super) fn new(packets: &'a mut Drain<'b>, count: usize, hints: &'a [u32]) -> Self {
        Self {
            packets,
            left: count,
            hints: hints.iter(),
            stab: None,
            ahead: Load::default(),
        }
    }

    /// Adds the size table of the root, and the load that the kind's own queue does not hold.
    pub(super) fn to(self, stab: Option<&'a SizeTable>, ahead: Load) -> Self {
        Self {
            stab,
            ahead,
            ..self
        }
    }

    /// Returns the next packet.
    #[inline]
    pub fn next(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        q.ahead = self.ahead;
        if let Some(copy) = q.next_copy() {
            return Some(copy);
        }
        self.left = self.left.checked_sub(1)?;
        let mut packet = self.packets.next()?;
        q.hint = self.hints.next().copied().unwrap_or(NO_HINT);
        if let Some(stab) = self.stab {
            packet.cb = stab.len(packet.len() as u32);
        } else if packet.segments().is_some() {
            packet.cb = packet.wire_len() as u32;
        }
        Some(packet)
    }
}

/// A sink for dequeued packets.
pub trait Taker {
    /// Takes a packet. Returns whether another one is wanted.
    fn take(&mut self, packet: Packet) -> bool;
}

impl Taker for Option<Packet> {
    #[inline]
    fn take(&mut self, packet: Packet) -> bool {
        *self = Some(packet);
        false
    }
}

/// A batch of packets that leaves a root, limited by the room of the device.
pub struct Departures<'a> {
    batch: &'a mut Batch,
    /// Bytes that the device still takes.
    room: i64,
    /// Bytes, as queues count them, and packets that have left.
    left: (u64, u64),
}

impl<'a> Departures<'a> {
    /// Fills `batch`, which must be empty, with up to `octets` bytes.
    pub(super) fn new(batch: &'a mut Batch, octets: u32) -> Self {
        Self {
            batch,
            room: octets.into(),
            left: (0, 0),
        }
    }

    /// Returns whether another packet fits. The last packet may exceed the remaining room, and so
    /// may a single packet.
    #[inline]
    fn has_room(&self) -> bool {
        !self.batch.is_full() && (self.room > 0 || self.batch.is_empty())
    }

    /// Returns the bytes and packets that have left.
    pub(super) fn left(&self) -> (u64, u64) {
        self.left
    }
}

impl Taker for Departures<'_> {
    #[inline]
    fn take(&mut self, mut packet: Packet) -> bool {
        self.left.0 += u64::from(pkt_len(&packet));
        self.left.1 += packet.wire_packets();
        packet.cb = 0;
        self.room -= packet.len() as i64;
        let _ = self.batch.push(packet);
        self.has_room()
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that come to a tree of qdiscs, and leave it, together: what is done once for all of them, and what
//! for each.

use weir_packet::{Batch, Drain, Packet};

use super::stab::SizeTable;
use super::{Load, NO_HINT, QueueCx, pkt_len};

/// Packets that come to a root together, in order, each followed by the copies it begets.
pub struct Arrivals<'a, 'b> {
    come: &'a mut Drain<'b>,
    /// How many of those it is.
    left: usize,
    /// Guesses at what the first ones will meet.
    hints: std::slice::Iter<'a, u32>,
    stab: Option<&'a SizeTable>,
    /// What waits in the root beside its kind's own part.
    ahead: Load,
}

impl<'a, 'b> Arrivals<'a, 'b> {
    /// The first ones of those that come, and the guesses of the look-ahead.
    pub(super) fn new(come: &'a mut Drain<'b>, count: usize, hints: &'a [u32]) -> Self {
        Self {
            come,
            left: count,
            hints: hints.iter(),
            stab: None,
            ahead: Load::default(),
        }
    }

    /// They come to a root that counts by a size table, and beside whose kind's own part so much waits.
    pub(super) fn to(self, stab: Option<&'a SizeTable>, ahead: Load) -> Self {
        Self {
            stab,
            ahead,
            ..self
        }
    }

    /// The next one.
    #[inline]
    pub fn next(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        q.ahead = self.ahead;
        if let Some(copy) = q.next_copy() {
            return Some(copy);
        }
        self.left = self.left.checked_sub(1)?;
        let mut packet = self.come.next()?;
        q.hint = self.hints.next().copied().unwrap_or(NO_HINT);
        if let Some(stab) = self.stab {
            packet.cb = stab.len(packet.len() as u32);
        }
        Some(packet)
    }
}

/// Who takes packets that leave.
pub trait Taker {
    /// Takes one; whether another is wanted.
    fn take(&mut self, packet: Packet) -> bool;
}

impl Taker for Option<Packet> {
    #[inline]
    fn take(&mut self, packet: Packet) -> bool {
        *self = Some(packet);
        false
    }
}

/// Packets that leave a root together, as many as the device takes.
pub struct Departures<'a> {
    batch: &'a mut Batch,
    /// Octets that the device takes.
    room: i64,
    /// Octets, as queues count them, and packets that have left.
    left: (u64, u64),
}

impl<'a> Departures<'a> {
    /// To a batch, empty now.
    pub(super) fn new(batch: &'a mut Batch, octets: u32) -> Self {
        Self {
            batch,
            room: octets.into(),
            left: (0, 0),
        }
    }

    /// Whether there is room for another; the last one may be longer than what is left, and so may the only one.
    #[inline]
    fn has_room(&self) -> bool {
        !self.batch.is_full() && (self.room > 0 || self.batch.is_empty())
    }

    /// Octets and packets that have left.
    pub(super) fn left(&self) -> (u64, u64) {
        self.left
    }
}

impl Taker for Departures<'_> {
    #[inline]
    fn take(&mut self, mut packet: Packet) -> bool {
        self.left.0 += u64::from(pkt_len(&packet));
        self.left.1 += 1;
        packet.cb = 0;
        self.room -= packet.len() as i64;
        let _ = self.batch.push(packet);
        self.has_room()
    }
}

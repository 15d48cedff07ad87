// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reception writes into a packet's metadata, and whether it is still so.

use std::mem::offset_of;

use super::{Flags, Meta, Packet, PacketType};
use crate::record::{self, DEPARTS};

/// The place and time of a packet's arrival, as the words of its metadata ([`Meta::time`], [`Meta::dev`], [`Meta::iif`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival([u64; 8 - record::INIT_WORDS]);

impl Arrival {
    /// Returns the words of a time in nanoseconds of the stack's clock, the key of a device, and its ifindex.
    #[inline]
    pub fn new(time: u64, dev: u32, iif: u32) -> Self {
        const { assert!(offset_of!(Meta, dev) == offset_of!(Meta, time) + 8) };
        const { assert!(offset_of!(Meta, iif) == offset_of!(Meta, dev) + 4) };
        let ([a, b, c, d], [e, f, g, h]) = (dev.to_ne_bytes(), iif.to_ne_bytes());
        Self([time, u64::from_ne_bytes([a, b, c, d, e, f, g, h])])
    }
}

impl Packet {
    /// Describes a received frame, whose data begin at its link-layer header: sets the MAC header, the network
    /// header `header` bytes behind it, the addressee, the protocol and the place of its arrival, and clears the
    /// departure time.
    #[inline(always)]
    pub fn set_received(
        &mut self,
        arrival: Arrival,
        (ty, protocol): (PacketType, u16),
        header: usize,
    ) {
        let network = self.offset(header);
        let l = self.layout_mut();
        (l.mac, l.network) = (l.data, network);
        (l.marks, l.pkt_type) = (l.marks & !DEPARTS, ty);
        self.protocol = protocol;
        self.set_arrival(arrival);
    }

    /// Sets the place and time of the packet's arrival.
    #[inline(always)]
    pub fn set_arrival(&mut self, Arrival(words): Arrival) {
        // SAFETY: the packet owns its record, whose last words are those of `Arrival`.
        unsafe {
            let last = self.0.cast::<u64>().add(record::INIT_WORDS);
            last.cast::<[u64; 8 - record::INIT_WORDS]>().write(words);
        }
    }

    /// Returns the data of a packet that carries nothing that makes it [`altered`](Self::altered) when it is received
    /// and no departure time, if it is of the frame class.
    #[inline(always)]
    pub fn unladen(&self) -> Option<&[u8]> {
        let (l, meta) = (self.layout(), &self.record().meta);
        let flags = meta.flags.bits() & Flags::SKIP_CLASSIFY.bits();
        let laden = l.marks | meta.nest | flags;
        self.short_data().filter(|_| laden == 0)
    }

    /// Does what [`set_received`](Self::set_received) does for a packet to this host that is [`unladen`](Self::unladen).
    #[inline(always)]
    pub fn set_received_unladen(&mut self, arrival: Arrival, protocol: u16, header: u16) {
        debug_assert!(self.unladen().is_some());
        let l = self.layout_mut();
        // Every offset into a frame of this class fits.
        (l.mac, l.network) = (l.data, l.data.wrapping_add(header));
        l.pkt_type = PacketType::Host;
        self.protocol = protocol;
        self.set_arrival(arrival);
    }

    /// Returns 0 if the packet is as [`set_received`](Self::set_received) left it with a header of this length: its
    /// data begin at the link-layer header, and it has no tag, tunnel, connection, segments or departure time. It is
    /// not redirected and has no flag `SKIP_CLASSIFY`. Results are to be combined by `|`, without branches.
    #[inline(always)]
    pub fn altered(&self, header: usize) -> u32 {
        let (l, meta) = (self.layout(), &self.record().meta);
        let mac = l.mac ^ l.data;
        let network = l.network.wrapping_sub(l.data) ^ header as u16;
        let marks = l.marks | meta.nest | meta.flags.bits() & Flags::SKIP_CLASSIFY.bits();
        u32::from(mac | network | u16::from(marks))
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offloads of frames from the host: `struct virtio_net_hdr` (`include/uapi/linux/virtio_net.h`), which
//! packet sockets and TAP devices put in front of each frame.
//!
//! A sender on the host leaves segmentation and checksums to the device. [`deliver`] does both: it splits a
//! long TCP segment or UDP datagram into frames of the sender's segment size (`gso_size`) and completes the
//! checksum at `csum_start + csum_offset`.

use std::collections::VecDeque;

use weir_packet::checksum::Sum;
use weir_packet::{Batch, Cache, Packet, VlanTag, offload};

use crate::port::Counters;

/// Bytes of the header.
pub(crate) const LEN: usize = 10;
/// The header of a frame that leaves nothing to the receiver.
pub(crate) const NONE: [u8; LEN] = [0; LEN];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_NONE`, and the bit that the others may have besides (`VIRTIO_NET_HDR_GSO_ECN`).
const GSO_NONE: u8 = 0;
const GSO_ECN: u8 = 0x80;
/// `VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6` and `_UDP_L4`.
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// The offsets of the checksum in a TCP and a UDP header, in bytes.
const TCP_CHECK: u16 = 16;
const UDP_CHECK: u16 = 6;

/// The work that a sender left to the device. Offsets count from the start of the frame, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    flags: u8,
    gso_type: u8,
    /// Bytes of payload of a segment.
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Header {
    /// Parses a header. Numbers have the host's byte order.
    pub(crate) fn parse(bytes: [u8; LEN]) -> Self {
        let [flags, gso_type, _, _, s0, s1, c0, c1, o0, o1] = bytes;
        Self {
            flags,
            gso_type,
            gso_size: u16::from_ne_bytes([s0, s1]),
            csum_start: u16::from_ne_bytes([c0, c1]),
            csum_offset: u16::from_ne_bytes([o0, o1]),
        }
    }

    /// Returns true if the frame is to be segmented.
    pub(crate) fn is_long(self) -> bool {
        self.gso_type & !GSO_ECN != GSO_NONE
    }

    /// Returns true if the frame is one packet whose checksum can be completed.
    pub(crate) fn is_of_one(self, frame: &[u8]) -> bool {
        let field = usize::from(self.csum_start) + usize::from(self.csum_offset);
        !self.is_long() && (self.flags & NEEDS_CSUM == 0 || field + 2 <= frame.len())
    }

    /// Completes the checksum of a frame whose checksum field holds the sum of the pseudo header
    /// (`skb_checksum_help`). Returns false if the field lies outside the frame.
    #[must_use]
    fn complete(self, frame: &mut [u8]) -> bool {
        if self.flags & NEEDS_CSUM == 0 {
            return true;
        }
        let Some(segment) = frame.get_mut(usize::from(self.csum_start)..) else {
            return false;
        };
        let at = usize::from(self.csum_offset);
        if at + 2 > segment.len() {
            return false;
        }
        let mut sum = Sum::default();
        sum.add(segment);
        // A checksum of 0 would mean "none" in UDP. The kernel writes 0xffff for every protocol.
        let check = sum.finish_udp();
        if let Some(field) = segment.get_mut(at..at + 2) {
            field.copy_from_slice(&check.to_be_bytes());
        }
        true
    }

    /// Returns true if `head`, the headers of a segment, ends with the transport header to which this header
    /// refers. It does not if the segment is inside a tunnel.
    fn fits(self, head: &[u8]) -> bool {
        let start = usize::from(self.csum_start);
        let Some(transport) = head.get(start..) else {
            return false;
        };
        match self.gso_type & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => {
                let length = transport.get(12).map(|byte| usize::from(byte >> 4) * 4);
                self.csum_offset == TCP_CHECK && length == Some(transport.len())
            }
            GSO_UDP_L4 => self.csum_offset == UDP_CHECK && transport.len() == 8,
            _ => false,
        }
    }
}

/// The destination of received frames: a batch, and a queue for the segments that do not fit.
pub(crate) struct Out<'a> {
    pub(crate) batch: &'a mut Batch,
    pub(crate) waiting: &'a mut VecDeque<Packet>,
}

impl Out<'_> {
    /// Moves waiting segments to the batch. Returns true if none is left.
    pub(crate) fn refill(&mut self) -> bool {
        while !self.batch.is_full() {
            match self.waiting.pop_front() {
                Some(packet) => drop(self.batch.push(packet)),
                None => return true,
            }
        }
        self.waiting.is_empty()
    }

    fn push(&mut self, packet: Packet) {
        match self.waiting.is_empty() {
            true => {
                if let Err(packet) = self.batch.push(packet) {
                    self.waiting.push_back(packet);
                }
            }
            false => self.waiting.push_back(packet),
        }
    }
}

/// Splits a long frame, whose VLAN tag may be in `tag`, and appends the segments. A frame that cannot be
/// split counts in `rx_errors`, and a segment for which there is no memory in `rx_dropped`.
fn deliver_long(
    header: Header,
    frame: &[u8],
    tag: Option<VlanTag>,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    let mut bad = false;
    let mut lost = 0;
    let count = offload::segment(frame, header.gso_size.into(), |head, part| {
        bad = bad || header.flags & NEEDS_CSUM != 0 && !header.fits(head);
        if bad {
            return;
        }
        let Some(mut packet) = memory.alloc(head.len() + part.len()) else {
            lost += 1;
            return;
        };
        let (begin, end) = packet.data_mut().split_at_mut(head.len());
        begin.copy_from_slice(head);
        end.copy_from_slice(part);
        packet.set_vlan(tag);
        out.push(packet);
    });
    Counters::add(&counters.rx_errors, u64::from(bad || count == 0));
    Counters::add(&counters.rx_dropped, lost);
}

/// Appends a received frame, whose VLAN tag may be in `tag`, as one packet or as its segments.
pub(crate) fn deliver(
    header: Header,
    frame: &[u8],
    tag: Option<VlanTag>,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    if header.is_long() {
        return deliver_long(header, frame, tag, memory, out, counters);
    }
    let Some(mut packet) = memory.packet(frame) else {
        let too_long = frame.len() > weir_packet::packet::JUMBO_DATA;
        let counter = if too_long {
            &counters.rx_errors
        } else {
            &counters.rx_dropped
        };
        return Counters::add(counter, 1);
    };
    packet.set_vlan(tag);
    deliver_packet(header, packet, out, counters);
}

/// Appends a received frame that is not to be segmented.
pub(crate) fn deliver_packet(
    header: Header,
    mut packet: Packet,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    match header.complete(packet.data_mut()) {
        true => out.push(packet),
        false => Counters::add(&counters.rx_errors, 1),
    }
}

#[cfg(test)]
mod tests;

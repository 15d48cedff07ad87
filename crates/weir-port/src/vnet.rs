// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offloads of frames from the host: `struct virtio_net_hdr` (`include/uapi/linux/virtio_net.h`), which
//! packet sockets and TAP devices put in front of each frame.
//!
//! A sender on the host leaves segmentation and checksums to the device. [`deliver`] completes the checksum at
//! `csum_start + csum_offset`, and passes a long TCP segment or UDP datagram on as one packet with the sender's
//! segment size (`gso_size`). A long frame inside a tunnel, or without memory for it as a whole, is split.
//!
//! In the other direction [`Outgoing`] leaves the segmentation and the checksums of long packets to the host.

use std::collections::VecDeque;

use weir_packet::checksum::Sum;
use weir_packet::{Batch, Cache, Flags, LongPackets, Packet, SegmentKind, VlanTag, offload};

use crate::port::{Counters, Wired};

/// Bytes of the header.
pub(crate) const LEN: usize = 10;
/// The header of a frame that leaves nothing to the receiver.
const NONE: [u8; LEN] = [0; LEN];
/// The longest frame that the host takes (`GSO_LEGACY_MAX_SIZE`, with a link-layer header).
const LONGEST: u32 = 65_535;

/// Returns the long packets that the host takes with this header. `udp`: UDP segments among them (Linux 6.2 and
/// later).
pub(crate) fn long_packets(udp: bool) -> LongPackets {
    LongPackets {
        max_len: LONGEST,
        udp,
    }
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`.
const DATA_VALID: u8 = 2;
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

    /// Notes that the checksum of a packet is right, if the host says so.
    fn vouch(self, packet: &mut Packet) {
        if self.flags & (NEEDS_CSUM | DATA_VALID) != 0 {
            packet.flags.insert(Flags::CSUM_GOOD);
        }
    }

    /// Makes a frame that is to be segmented a long packet. Returns the packet with its data unchanged if that is
    /// impossible.
    pub(crate) fn whole(self, mut packet: Packet) -> Result<Packet, Packet> {
        let offset = match self.gso_type & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => TCP_CHECK,
            GSO_UDP_L4 => UDP_CHECK,
            _ => return Err(packet),
        };
        // The host checks or computes checksums of segments anyway, so it always leaves that of a long frame.
        let asked = self.flags & NEEDS_CSUM != 0 && self.csum_offset == offset;
        let (size, start) = (self.gso_size.into(), self.csum_start.into());
        if !asked || !offload::describe_segments(&mut packet, size, start) {
            return Err(packet);
        }
        let of_udp = packet
            .segments()
            .is_some_and(|segments| segments.kind == SegmentKind::Udp);
        if of_udp != (offset == UDP_CHECK) || !self.complete(packet.data_mut()) {
            let _ = packet.set_segments(None);
            return Err(packet);
        }
        packet.flags.insert(Flags::CSUM_GOOD);
        Ok(packet)
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

/// Returns whether the kernel knows `VIRTIO_NET_HDR_GSO_UDP_L4` (Linux 6.2 and later).
pub(crate) fn kernel_segments_udp() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(6), Some(2))
}

/// A frame to the host, with its header.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    frame: Wired<'a>,
    header: [u8; LEN],
    /// The offset of the checksum in the frame's last part, and the sum that replaces it.
    check: usize,
    pseudo: [u8; 2],
}

/// The number of parts of a frame to the host.
pub(crate) const PARTS: usize = 6;

impl<'a> Outgoing<'a> {
    pub(crate) fn new(packet: &'a Packet) -> Self {
        let frame = Wired::new(packet);
        let plain = Self {
            header: NONE,
            check: usize::MAX,
            pseudo: [0; 2],
            frame,
        };
        let Some(segments) = packet.segments() else {
            return plain;
        };
        let Some(transport) = offload::transport_of(packet) else {
            return plain;
        };
        let [addresses, tag, _] = plain.frame.parts();
        let (before, added) = (addresses.len(), tag.len());
        let gso_type = match segments.kind {
            SegmentKind::TcpV4 => GSO_TCPV4,
            SegmentKind::TcpV6 => GSO_TCPV6,
            SegmentKind::Udp => GSO_UDP_L4,
        };
        let ecn = if transport.reduced { GSO_ECN } else { 0 };
        let half = |value: usize| (value as u16).to_ne_bytes();
        let [h0, h1] = half(transport.payload + added);
        let [g0, g1] = half(segments.size.into());
        let [s0, s1] = half(transport.start + added);
        let [o0, o1] = half(transport.check - transport.start);
        Self {
            header: [NEEDS_CSUM, gso_type | ecn, h0, h1, g0, g1, s0, s1, o0, o1],
            check: transport.check - before,
            pseudo: transport.pseudo,
            frame: plain.frame,
        }
    }

    /// The header and the parts of the frame in order. Some may be empty.
    pub(crate) fn parts(&self) -> [&[u8]; PARTS] {
        let [addresses, tag, rest] = self.frame.parts();
        let (before, check, after) = match rest.split_at_checked(self.check) {
            Some((before, after)) if after.len() >= 2 => (before, &self.pseudo[..], &after[2..]),
            _ => (rest, &[][..], &[][..]),
        };
        [&self.header, addresses, tag, before, check, after]
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
    if let Some(mut packet) = memory.packet(frame) {
        packet.set_vlan(tag);
        return deliver_packet(header, packet, memory, out, counters);
    }
    if header.is_long() {
        return deliver_long(header, frame, tag, memory, out, counters);
    }
    let too_long = frame.len() > weir_packet::packet::JUMBO_DATA;
    let counter = if too_long {
        &counters.rx_errors
    } else {
        &counters.rx_dropped
    };
    Counters::add(counter, 1);
}

/// Appends a received frame, which is in a packet already, as one packet or as its segments.
pub(crate) fn deliver_packet(
    header: Header,
    packet: Packet,
    memory: &mut Cache,
    out: &mut Out<'_>,
    counters: &Counters,
) {
    if header.is_long() {
        match header.whole(packet) {
            Ok(packet) => out.push(packet),
            Err(packet) => {
                deliver_long(header, packet.data(), packet.vlan(), memory, out, counters);
                memory.free(packet);
            }
        }
        return;
    }
    let mut packet = packet;
    match header.complete(packet.data_mut()) {
        true => {
            header.vouch(&mut packet);
            out.push(packet);
        }
        false => {
            memory.free(packet);
            Counters::add(&counters.rx_errors, 1);
        }
    }
}

#[cfg(test)]
mod tests;

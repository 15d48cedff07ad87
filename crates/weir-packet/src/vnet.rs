// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The work that one side of a device leaves to the other: `struct virtio_net_hdr` (`include/uapi/linux/virtio_net.h`), which
//! packet sockets and TUN and TAP devices have in front of each frame.
//!
//! [`Header`] is read from a frame that comes, and [`Outgoing`] written to one that goes: it leaves the segmentation and the
//! checksum of a long packet to the receiver. [`Wired`] is a frame without such a header.

use crate::checksum::{self, Sum};
use crate::{Flags, Packet, SegmentKind, offload};

/// Bytes of the header.
pub const LEN: usize = 10;
/// The header of a frame that leaves nothing to the receiver.
pub const NONE: [u8; LEN] = [0; LEN];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
pub const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`.
pub const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_NONE`.
pub const GSO_NONE: u8 = 0;
/// The bit that the other kinds may have besides (`VIRTIO_NET_HDR_GSO_ECN`).
pub const GSO_ECN: u8 = 0x80;
/// `VIRTIO_NET_HDR_GSO_TCPV4`.
pub const GSO_TCPV4: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV6`.
pub const GSO_TCPV6: u8 = 4;
/// `VIRTIO_NET_HDR_GSO_UDP_L4`.
pub const GSO_UDP_L4: u8 = 5;
/// The offset of the checksum in a TCP header, in bytes.
pub const TCP_CHECK: u16 = 16;
/// The offset of the checksum in a UDP header, in bytes.
pub const UDP_CHECK: u16 = 6;

/// The work that a sender left to the device. Offsets count from the start of the frame, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    flags: u8,
    gso_type: u8,
    /// Bytes of payload of a segment.
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Header {
    /// Parses a header. Numbers have the host's byte order.
    pub fn parse(bytes: [u8; LEN]) -> Self {
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
    pub fn is_long(self) -> bool {
        self.gso_type & !GSO_ECN != GSO_NONE
    }

    /// Returns the payload of a segment in bytes.
    pub fn gso_size(self) -> u16 {
        self.gso_size
    }

    /// Returns true if the frame is one packet whose checksum can be completed.
    pub fn is_of_one(self, frame: &[u8]) -> bool {
        let field = usize::from(self.csum_start) + usize::from(self.csum_offset);
        !self.is_long() && (self.flags & NEEDS_CSUM == 0 || field + 2 <= frame.len())
    }

    /// Completes the checksum of a frame whose checksum field holds the sum of the pseudo header
    /// (`skb_checksum_help`). Returns false if the field lies outside the frame.
    #[must_use]
    pub fn complete(self, frame: &mut [u8]) -> bool {
        if self.flags & NEEDS_CSUM == 0 {
            return true;
        }
        let (start, at) = (self.csum_start.into(), self.csum_offset.into());
        // A checksum of 0 would mean "none" in UDP. The kernel writes 0xffff for every protocol.
        checksum::complete(frame, start, at, Sum::finish_udp)
    }

    /// Returns whether the sender has left the checksum to the receiver.
    pub fn leaves_checksum(self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// Returns whether the sender says that the checksum is right.
    pub fn vouches(self) -> bool {
        self.flags & (NEEDS_CSUM | DATA_VALID) != 0
    }

    /// Makes a frame that is to be segmented a long packet. Returns the packet with its data unchanged if that is
    /// impossible.
    ///
    /// # Errors
    /// The packet.
    pub fn whole(self, mut packet: Packet) -> Result<Packet, Packet> {
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
    pub fn fits(self, head: &[u8]) -> bool {
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

/// A frame with the header that leaves the work of a long packet to the receiver.
#[derive(Debug)]
pub struct Outgoing<'a> {
    frame: Wired<'a>,
    header: [u8; LEN],
    /// The offset of the checksum in the frame's last part, and the sum that replaces it.
    check: usize,
    pseudo: [u8; 2],
}

/// The number of parts of a frame with its header.
pub const PARTS: usize = 6;

impl<'a> Outgoing<'a> {
    /// Describes a packet. The data begin at the Ethernet header, or at the network header.
    pub fn new(packet: &'a Packet) -> Self {
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
    pub fn parts(&self) -> [&[u8]; PARTS] {
        let [addresses, tag, rest] = self.frame.parts();
        let (before, check, after) = match rest.split_at_checked(self.check) {
            Some((before, after)) if after.len() >= 2 => (before, &self.pseudo[..], &after[2..]),
            _ => (rest, &[][..], &[][..]),
        };
        [&self.header, addresses, tag, before, check, after]
    }
}

/// The parts of a frame on the wire. A VLAN tag in the metadata follows the addresses again.
#[derive(Debug)]
pub struct Wired<'a> {
    addresses: &'a [u8],
    tag: [u8; 4],
    rest: &'a [u8],
}

impl<'a> Wired<'a> {
    /// Describes a packet.
    pub fn new(packet: &'a Packet) -> Self {
        const ADDRESSES: usize = 12;
        let data = packet.data();
        match (packet.vlan(), data.split_at_checked(ADDRESSES)) {
            (Some(tag), Some((addresses, rest))) => {
                let [p0, p1] = tag.proto.to_be_bytes();
                let [t0, t1] = tag.tci.to_be_bytes();
                Self {
                    addresses,
                    tag: [p0, p1, t0, t1],
                    rest,
                }
            }
            _ => Self {
                addresses: &[],
                tag: [0; 4],
                rest: data,
            },
        }
    }

    /// The parts in order. Without a tag the first two are empty.
    pub fn parts(&self) -> [&[u8]; 3] {
        let tag: &[u8] = if self.addresses.is_empty() {
            &[]
        } else {
            &self.tag
        };
        [self.addresses, tag, self.rest]
    }

    /// The length of all parts in bytes.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Returns whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

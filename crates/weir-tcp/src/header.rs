// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TCP header (RFC 9293, 3.1) and segments to send.

use crate::options::Options;

/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push.
pub const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// The urgent pointer counts.
pub const URG: u8 = 0x20;
/// ECN echo (RFC 3168).
pub const ECE: u8 = 0x40;
/// Congestion window reduced.
pub const CWR: u8 = 0x80;

/// The length of a header without options, in bytes.
pub const LENGTH: usize = 20;

/// A TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// The sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// The next sequence number the sender expects.
    pub ack: u32,
    /// [`FIN`], [`SYN`] and so on.
    pub flags: u8,
    /// The window, not scaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// The options.
    pub options: Options,
    /// The packet carried the ECN codepoint CE. Not part of the header; the receiver sets it.
    pub congested: bool,
    /// The packet carried any ECN codepoint but Not-ECT. Not part of the header; the receiver sets it.
    pub ecn_capable: bool,
}

impl Header {
    /// Reads a header. Returns it with its length in bytes, options included, or nothing if it is cut short or
    /// its data offset is wrong. The checksum is not verified.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let fixed: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
        let length = usize::from(fixed[12] >> 4) * 4;
        let options = bytes.get(LENGTH..length)?;
        let be16 = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let be32 = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let flags = fixed[13];
        let header = Self {
            source: be16(0),
            destination: be16(2),
            seq: be32(4),
            ack: be32(8),
            flags,
            window: be16(14),
            urgent: be16(18),
            options: Options::parse(options, flags & SYN != 0),
            congested: false,
            ecn_capable: false,
        };
        Some((header, length))
    }

    /// Returns the length of the header with its options, in bytes.
    pub fn length(&self) -> usize {
        LENGTH + self.options.length()
    }

    /// Writes the header with a checksum of 0. `to` has at least [`Header::length`] bytes.
    pub fn write(&self, to: &mut [u8]) {
        let length = self.length();
        let Some((fixed, options)) = to
            .get_mut(..length)
            .and_then(|to| to.split_at_mut_checked(LENGTH))
        else {
            return;
        };
        fixed[0..2].copy_from_slice(&self.source.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.destination.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.to_be_bytes());
        fixed[12] = (length as u8 / 4) << 4;
        fixed[13] = self.flags;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[16..18].fill(0);
        fixed[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        self.options.write(options);
    }

    /// Returns whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the length in sequence numbers of a segment with `data` bytes.
    #[inline]
    pub fn sequence_length(&self, data: usize) -> u32 {
        (data as u32)
            .wrapping_add(u32::from(self.has(SYN)))
            .wrapping_add(u32::from(self.has(FIN)))
    }

    /// Returns the reset that answers this segment (RFC 9293, 3.5.2), or nothing if it is a reset itself.
    pub fn reset(&self, data: usize) -> Option<Self> {
        if self.has(RST) {
            return None;
        }
        let mut reset = Self {
            source: self.destination,
            destination: self.source,
            flags: RST,
            ..Self::default()
        };
        if self.has(ACK) {
            reset.seq = self.ack;
        } else {
            reset.flags |= ACK;
            reset.ack = self.seq.wrapping_add(self.sequence_length(data));
        }
        Some(reset)
    }
}

/// A segment to send. With more than `mss` bytes of data it stands for several segments, as a packet for a device
/// that segments does (TSO).
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The header; its ports are 0.
    pub header: Header,
    /// The data, in two parts because the buffer is a ring.
    pub data: [&'a [u8]; 2],
    /// The largest data of one segment, in bytes.
    pub mss: u16,
    /// The packet carries ECT(0).
    pub ecn_capable: bool,
}

impl Segment<'_> {
    /// Returns the number of data bytes.
    pub fn length(&self) -> usize {
        self.data[0].len() + self.data[1].len()
    }
}

/// What takes segments to send.
pub trait Output {
    /// Sends a segment.
    fn send(&mut self, segment: &Segment<'_>);
}

impl<F: FnMut(&Segment<'_>)> Output for F {
    fn send(&mut self, segment: &Segment<'_>) {
        self(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_writing_and_reading() {
        let header = Header {
            source: 1,
            destination: 65535,
            seq: 0xdead_beef,
            ack: 3,
            flags: ACK | PSH,
            window: 500,
            urgent: 2,
            options: Options {
                timestamps: Some((1, 2)),
                ..Options::default()
            },
            ..Header::default()
        };
        let mut bytes = [0xff; 60];
        header.write(&mut bytes);
        assert_eq!(Header::parse(&bytes), Some((header, 32)));
        assert_eq!(bytes[16..18], [0, 0]);
        for cut in 0..32 {
            assert_eq!(Header::parse(&bytes[..cut]), None);
        }
        bytes[12] = 0x40;
        assert_eq!(Header::parse(&bytes), None);
    }

    #[test]
    fn a_reset_answers_with_what_the_peer_accepts() {
        let syn = Header {
            source: 5,
            destination: 6,
            seq: 100,
            flags: SYN,
            ..Header::default()
        };
        let reset = syn.reset(0).expect("a SYN is answered");
        assert_eq!((reset.seq, reset.ack, reset.flags), (0, 101, RST | ACK));
        assert_eq!((reset.source, reset.destination), (6, 5));
        let ack = Header {
            ack: 77,
            flags: ACK,
            ..syn
        };
        let reset = ack.reset(3).expect("an ACK is answered");
        assert_eq!((reset.seq, reset.ack, reset.flags), (77, 0, RST));
        assert_eq!(reset.reset(0), None);
    }
}

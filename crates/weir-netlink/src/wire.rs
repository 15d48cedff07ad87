// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Headers and alignment of messages and attributes: the part of the format that readers and
//! writers share.

/// The length of a message header (`NLMSG_HDRLEN`).
pub const HEADER_LEN: usize = 16;

/// `struct nlmsghdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The length of the message including the header, in bytes.
    pub len: u32,
    /// The message type ([`crate::consts::rtm`], [`crate::consts::nlm`]).
    pub ty: u16,
    /// Flags ([`crate::consts::nlm`]`::F_*`).
    pub flags: u16,
    /// The sequence number, which the client chooses and the replies repeat.
    pub seq: u32,
    /// The port id of the sender.
    pub pid: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    #[inline]
    pub fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Self {
        let b = bytes;
        Header {
            len: u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
            ty: u16::from_ne_bytes([b[4], b[5]]),
            flags: u16::from_ne_bytes([b[6], b[7]]),
            seq: u32::from_ne_bytes([b[8], b[9], b[10], b[11]]),
            pid: u32::from_ne_bytes([b[12], b[13], b[14], b[15]]),
        }
    }

    /// Returns the header's bytes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut b = [0; HEADER_LEN];
        b[..4].copy_from_slice(&self.len.to_ne_bytes());
        b[4..6].copy_from_slice(&self.ty.to_ne_bytes());
        b[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        b[8..12].copy_from_slice(&self.seq.to_ne_bytes());
        b[12..].copy_from_slice(&self.pid.to_ne_bytes());
        b
    }

    /// Returns true if all bits of `flags` are set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// The length of an attribute header (`NLA_HDRLEN`).
pub const ATTR_HEADER_LEN: usize = 4;

/// Returns an attribute's header.
#[inline]
pub const fn attr_header(total: usize, ty: u16) -> [u8; ATTR_HEADER_LEN] {
    let ([a, b], [c, d]) = ((total as u16).to_ne_bytes(), ty.to_ne_bytes());
    [a, b, c, d]
}

/// Rounds up to the alignment of attributes and messages, 4.
pub const fn align(len: usize) -> usize {
    (len + 3) & !3
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages: the header, and the walk over a datagram.
//!
//! Mirrors `netlink_rcv_skb` (`net/netlink/af_netlink.c`): a datagram holds several messages, each
//! aligned to 4 bytes; a length under the header or past the datagram ends the walk in silence;
//! only requests are served, and types under `NLMSG_MIN_TYPE` are acknowledged when that is asked
//! and do nothing else.

use crate::attr::{Attrs, align};
use crate::consts::errno::EINVAL;
use crate::consts::nlm;
use crate::error::Error;
use crate::header::Fixed;
use crate::policy::{Policy, Strictness, Table, parse_into};

/// Length of a message header (`NLMSG_HDRLEN`).
pub const HEADER_LEN: usize = 16;

/// `struct nlmsghdr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Length of the message, header included, in bytes.
    pub len: u32,
    /// Message type ([`crate::consts::rtm`], [`nlm`]).
    pub ty: u16,
    /// Flags ([`nlm`]`::F_*`).
    pub flags: u16,
    /// Sequence number, chosen by the client and repeated in the answers.
    pub seq: u32,
    /// Port id of the sender.
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

    /// The header as it goes on the wire.
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

    /// True when every bit of `flags` is set.
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// All of its bytes, header included; as long as the header says.
    pub bytes: &'a [u8],
}

/// The walk over a datagram; see [`messages`].
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

/// Walks the messages of a datagram.
pub fn messages(datagram: &[u8]) -> Messages<'_> {
    Messages { rest: datagram }
}

impl<'a> Messages<'a> {
    /// What is not walked yet; after the end, the broken tail.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let header = Header::from_bytes(self.rest.first_chunk()?);
        let len = header.len as usize;
        if len < HEADER_LEN {
            return None;
        }
        let bytes = self.rest.get(..len)?;
        self.rest = &self.rest[align(len).min(self.rest.len())..];
        Some(Message { header, bytes })
    }
}

impl<'a> Message<'a> {
    /// True for what `netlink_rcv_skb` hands to a family: a request that is no control message.
    /// Everything else is acknowledged when `NLM_F_ACK` asks for it, and otherwise ignored.
    pub fn is_served(&self) -> bool {
        self.header.has(nlm::F_REQUEST) && self.header.ty >= nlm::MIN_TYPE
    }

    /// True when either bit of `NLM_F_DUMP` is set, as `rtnetlink_rcv_msg` tests it.
    pub fn is_dump(&self) -> bool {
        self.header.flags & nlm::F_DUMP != 0
    }

    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// The family byte every rtnetlink message begins with (`rtgenmsg.rtgen_family`); `None` for
    /// an empty payload, which Linux answers like a success that does nothing.
    pub fn family(&self) -> Option<u8> {
        self.payload().first().copied()
    }

    /// The fixed header `T` of the family: EINVAL "Invalid header length" when it is cut.
    #[inline]
    pub fn fixed<T: Fixed>(&self) -> Result<T, Error> {
        T::from_bytes(self.payload()).ok_or_else(bad_header)
    }

    /// The attributes behind a fixed header of type `T`.
    #[inline]
    pub fn attrs<T: Fixed>(&self) -> Attrs<'a> {
        self.attrs_after(T::LEN)
    }

    /// The attributes behind a fixed header of `len` bytes (`nlmsg_attrdata`).
    #[inline]
    pub fn attrs_after(&self, len: usize) -> Attrs<'a> {
        let start = HEADER_LEN + align(len);
        Attrs::new(self.bytes.get(start..).unwrap_or_default(), start as u32)
    }

    /// Fixed header and checked attributes (`nlmsg_parse*`).
    pub fn parse<T: Fixed>(
        &self,
        policy: &'static Policy,
        strictness: Strictness,
    ) -> Result<(T, Table<'a>), Error> {
        let mut table = Table::empty();
        let fixed = self.parse_into(policy, strictness, &mut table)?;
        Ok((fixed, table))
    }

    /// [`parse`](Self::parse) with the attributes into an empty table where it is.
    pub fn parse_into<T: Fixed>(
        &self,
        policy: &'static Policy,
        strictness: Strictness,
        table: &mut Table<'a>,
    ) -> Result<T, Error> {
        let fixed = self.fixed::<T>()?;
        parse_into(self.attrs::<T>(), policy, strictness, table)?;
        Ok(fixed)
    }
}

#[cold]
fn bad_header() -> Error {
    Error::msg(EINVAL, "Invalid header length")
}

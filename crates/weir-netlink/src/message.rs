// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages: the header, and an iterator over a datagram.
//!
//! Mirrors `netlink_rcv_skb` (`net/netlink/af_netlink.c`). A datagram holds several messages, each
//! aligned to 4 bytes. A length that is below the header's or exceeds the datagram silently ends
//! the iteration. Only requests are served. Types below `NLMSG_MIN_TYPE` are acknowledged on
//! request and have no other effect.

use crate::attr::Attrs;
use crate::consts::errno::EINVAL;
use crate::consts::nlm;
use crate::error::Error;
use crate::header::Fixed;
use crate::policy::{Policy, Strictness, Table, parse_into};
use crate::wire::align;

pub use crate::wire::{HEADER_LEN, Header};

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// All bytes of the message including the header. Their number is the length in the header.
    pub bytes: &'a [u8],
}

/// An iterator over a datagram. See [`messages`].
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

/// Iterates over the messages of a datagram.
pub fn messages(datagram: &[u8]) -> Messages<'_> {
    Messages { rest: datagram }
}

impl<'a> Messages<'a> {
    /// Returns the bytes not read yet. At the end these are the trailing bytes that form no
    /// message.
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
    /// Returns true if `netlink_rcv_skb` passes the message to a family: it is a request and not a
    /// control message. Any other message is acknowledged if `NLM_F_ACK` is set, and ignored
    /// otherwise.
    pub fn is_served(&self) -> bool {
        self.header.has(nlm::F_REQUEST) && self.header.ty >= nlm::MIN_TYPE
    }

    /// Returns true if either bit of `NLM_F_DUMP` is set, as `rtnetlink_rcv_msg` tests it.
    pub fn is_dump(&self) -> bool {
        self.header.flags & nlm::F_DUMP != 0
    }

    /// Returns the bytes after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Returns the family byte with which every rtnetlink message begins (`rtgenmsg.rtgen_family`).
    /// Returns `None` for an empty payload, which Linux acknowledges as a success without doing
    /// anything.
    pub fn family(&self) -> Option<u8> {
        self.payload().first().copied()
    }

    /// Reads the family's fixed header `T`. Returns EINVAL "Invalid header length" if it is
    /// truncated.
    #[inline]
    pub fn fixed<T: Fixed>(&self) -> Result<T, Error> {
        T::from_bytes(self.payload()).ok_or_else(bad_header)
    }

    /// Returns the attributes after a fixed header of type `T`.
    #[inline]
    pub fn attrs<T: Fixed>(&self) -> Attrs<'a> {
        self.attrs_after(T::LEN)
    }

    /// Returns the attributes after a fixed header of `len` bytes (`nlmsg_attrdata`).
    #[inline]
    pub fn attrs_after(&self, len: usize) -> Attrs<'a> {
        let start = HEADER_LEN + align(len);
        Attrs::new(self.bytes.get(start..).unwrap_or_default(), start as u32)
    }

    /// Reads the fixed header and checks the attributes (`nlmsg_parse*`).
    pub fn parse<T: Fixed>(
        &self,
        policy: &'static Policy,
        strictness: Strictness,
    ) -> Result<(T, Table<'a>), Error> {
        let mut table = Table::empty();
        let fixed = self.parse_into(policy, strictness, &mut table)?;
        Ok((fixed, table))
    }

    /// Does the same as [`parse`](Self::parse), but stores the attributes in the caller's empty
    /// table.
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

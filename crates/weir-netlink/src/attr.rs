// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes: a single type-length-value, and an iterator over a run of them.
//!
//! Mirrors `nla_for_each_attr`, `nla_ok`, `nla_next` and the `nla_get_*` family of `net/netlink.h`.
//! Nothing is copied or allocated. An attribute knows the offset of its header from the start of
//! its message, so that an [`Error`] can report it (`NLMSGERR_ATTR_OFFS`).
//!
//! Getters read as the kernel's do: they take the first bytes of a payload that is long enough, and
//! ignore any bytes after them. A payload that is too short gives ERANGE, "Attribute failed policy
//! validation", which Linux returns after checking the same attribute against its policy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::consts::errno::{EINVAL, ERANGE};
use crate::consts::nlm::nla;
use crate::error::Error;
use crate::wire::ATTR_HEADER_LEN as HEADER_LEN;

pub use crate::wire::align;

/// The sentence of an attribute with a value that its policy does not allow.
pub(crate) const FAILED: &str = "Attribute failed policy validation";

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// The type without the two flag bits (`nla_type`).
    pub ty: u16,
    /// True if `NLA_F_NESTED` is set.
    pub nested: bool,
    /// True if `NLA_F_NET_BYTEORDER` is set.
    pub net_byteorder: bool,
    /// The offset of the header from the start of the message, in bytes.
    pub offset: u32,
    /// The value, without padding.
    pub payload: &'a [u8],
}

/// An iterator over a run of attributes. See [`attrs`].
#[derive(Clone, Copy, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
    offset: u32,
}

/// Iterates over `bytes` as attributes, with offsets counted from the start of `bytes`.
pub fn attrs(bytes: &[u8]) -> Attrs<'_> {
    Attrs::new(bytes, 0)
}

impl<'a> Attrs<'a> {
    /// Iterates over `bytes`, which begin `offset` bytes into their message.
    pub fn new(bytes: &'a [u8], offset: u32) -> Self {
        Attrs {
            rest: bytes,
            offset,
        }
    }

    /// Returns the bytes not read yet. At the end these are the trailing bytes that form no
    /// attribute.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the offset of [`rest`](Self::rest) from the start of the message.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Returns the type with its flags, and the length with the header, of the next attribute if
    /// there is one.
    #[inline(always)]
    fn header(&self) -> Option<(u16, usize)> {
        // Loads one word, because compilers do not merge loads of single bytes here.
        let word = u32::from_ne_bytes(*self.rest.first_chunk::<HEADER_LEN>()?);
        let (len, ty) = if cfg!(target_endian = "little") {
            (word as u16, (word >> 16) as u16)
        } else {
            ((word >> 16) as u16, word as u16)
        };
        let len = usize::from(len);
        (HEADER_LEN <= len && len <= self.rest.len()).then_some((ty, len))
    }

    /// Returns the type and length of the next attribute without consuming it.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<(u16, usize)> {
        let (ty, len) = self.header()?;
        Some((ty & nla::TYPE_MASK, len))
    }

    /// Skips an attribute of that length.
    #[inline(always)]
    pub(crate) fn pass(&mut self, len: usize) {
        let step = align(len).min(self.rest.len());
        self.rest = &self.rest[step..];
        self.offset = self.offset.wrapping_add(step as u32);
    }

    /// Returns the first attribute of that type (`nla_find`).
    pub fn find_type(mut self, ty: u16) -> Option<Attr<'a>> {
        self.find(|a| a.ty == ty)
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    #[inline]
    fn next(&mut self) -> Option<Attr<'a>> {
        let (ty, len) = self.header()?;
        let attr = Attr {
            ty: ty & nla::TYPE_MASK,
            nested: ty & nla::F_NESTED != 0,
            net_byteorder: ty & nla::F_NET_BYTEORDER != 0,
            offset: self.offset,
            payload: self.rest.get(HEADER_LEN..len)?,
        };
        self.pass(len);
        Some(attr)
    }
}

impl<'a> Attr<'a> {
    /// Returns the nested attributes.
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(self.payload, self.offset.wrapping_add(HEADER_LEN as u32))
    }

    /// Returns the attributes after a fixed part of `len` bytes (`NLA_NESTED_COMPAT` style).
    pub fn attrs_after(&self, len: usize) -> Attrs<'a> {
        let skip = align(len).min(self.payload.len());
        Attrs::new(
            &self.payload[skip..],
            self.offset.wrapping_add((HEADER_LEN + skip) as u32),
        )
    }

    /// Returns the length of the payload (`nla_len`).
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns true if there is no payload.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Returns EINVAL with a sentence and this attribute's offset.
    pub fn invalid(&self, text: &'static str) -> Error {
        Error::msg(EINVAL, text).at(self)
    }

    #[cold]
    fn short(&self) -> Error {
        Error::msg(ERANGE, FAILED).at(self)
    }

    /// Returns the first `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&self) -> Result<[u8; N], Error> {
        match self.payload.first_chunk::<N>() {
            Some(bytes) => Ok(*bytes),
            None => Err(self.short()),
        }
    }

    /// Returns the payload if it is exactly `N` bytes long, and ERANGE otherwise.
    #[inline]
    pub fn exact<const N: usize>(&self) -> Result<[u8; N], Error> {
        match <[u8; N]>::try_from(self.payload) {
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(self.short()),
        }
    }

    /// Reads a `u8` (`nla_get_u8`).
    #[inline]
    pub fn u8(&self) -> Result<u8, Error> {
        self.array::<1>().map(|[b]| b)
    }

    /// Reads a `u16` (`nla_get_u16`).
    #[inline]
    pub fn u16(&self) -> Result<u16, Error> {
        self.array().map(u16::from_ne_bytes)
    }

    /// Reads a `u32` (`nla_get_u32`).
    #[inline]
    pub fn u32(&self) -> Result<u32, Error> {
        self.array().map(u32::from_ne_bytes)
    }

    /// Reads a `u64` (`nla_get_u64`).
    #[inline]
    pub fn u64(&self) -> Result<u64, Error> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Reads an `i32` (`nla_get_s32`).
    #[inline]
    pub fn i32(&self) -> Result<i32, Error> {
        self.array().map(i32::from_ne_bytes)
    }

    /// Reads an `i64` (`nla_get_s64`).
    #[inline]
    pub fn i64(&self) -> Result<i64, Error> {
        self.array().map(i64::from_ne_bytes)
    }

    /// Reads a 16-bit number in network order (`nla_get_be16`). Returns it in host order.
    #[inline]
    pub fn be16(&self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit number in network order (`nla_get_be32`). Returns it in host order.
    #[inline]
    pub fn be32(&self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit number in network order (`nla_get_be64`). Returns it in host order.
    #[inline]
    pub fn be64(&self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a link-layer address of 6 bytes.
    pub fn mac(&self) -> Result<[u8; 6], Error> {
        self.array()
    }

    /// Reads an IPv4 address (`nla_get_in_addr`).
    pub fn ipv4(&self) -> Result<Ipv4Addr, Error> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    /// Reads an IPv6 address (`nla_get_in6_addr`).
    pub fn ipv6(&self) -> Result<Ipv6Addr, Error> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// Reads an address of the family that its length implies. Returns EINVAL for any other length.
    pub fn ip(&self) -> Result<IpAddr, Error> {
        match self.payload.len() {
            4 => self.ipv4().map(IpAddr::V4),
            16 => self.ipv6().map(IpAddr::V6),
            _ => Err(Error::msg(EINVAL, "Invalid address length").at(self)),
        }
    }

    /// Reads a value and its selector (`nla_get_bitfield32`).
    pub fn bitfield32(&self) -> Result<(u32, u32), Error> {
        let b = self.array::<8>()?;
        Ok((
            u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
            u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
        ))
    }

    /// Returns the string as C sees it after `nla_strscpy`: up to the first NUL, or the whole
    /// payload.
    pub fn c_str(&self) -> &'a [u8] {
        let end = self.payload.iter().position(|&b| b == 0);
        &self.payload[..end.unwrap_or(self.payload.len())]
    }

    /// Returns [`c_str`](Self::c_str) as text. Linux accepts any bytes; here invalid UTF-8 gives
    /// EINVAL.
    pub fn str(&self) -> Result<&'a str, Error> {
        match std::str::from_utf8(self.c_str()) {
            Ok(text) => Ok(text),
            Err(_) => Err(self.invalid("String is not UTF-8")),
        }
    }
}

impl Error {
    /// Creates EINVAL for an attribute missing from a nest (`NL_SET_ERR_ATTR_MISS`).
    pub fn missing_in(nest: &Attr<'_>, ty: u16) -> Self {
        Error {
            miss_nest: Some(nest.offset),
            ..Error::missing(ty)
        }
    }

    /// Reports the bad attribute (`NL_SET_BAD_ATTR`).
    #[must_use]
    pub fn at(self, attr: &Attr<'_>) -> Self {
        self.at_offset(attr.offset)
    }
}

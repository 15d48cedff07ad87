// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes of one level by type: the kernel's `tb[]`, without pointers into the message.

use crate::attr::{Attr, Attrs};
use crate::error::Error;
use crate::wire::{ATTR_HEADER_LEN as HEADER_LEN, align};

/// The highest attribute type that a [`Table`] can hold, plus one.
pub const TABLE_SIZE: usize = 128;

/// The maximum length of a level that a [`Table`] can index, in bytes. Linux itself bounds a
/// message by the send buffer, 208 KiB by default.
pub(super) const LEVEL_MAX: usize = 4 * (u16::MAX as usize - 1);

/// The attributes of one level by type: the kernel's `tb[]`.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: u32,
    pub(super) leftover: u32,
    /// For each type, the position in `bytes` divided by 4, plus one; 0 means absent. Attributes
    /// begin at multiples of 4.
    at: [u16; TABLE_SIZE],
}

impl<'a> Table<'a> {
    /// Creates a table without attributes.
    pub const fn empty() -> Self {
        Table {
            bytes: &[],
            offset: 0,
            leftover: 0,
            at: [0; TABLE_SIZE],
        }
    }

    /// Returns the last attribute of a type.
    #[inline]
    pub fn get(&self, ty: u16) -> Option<Attr<'a>> {
        let at = *self.at.get(usize::from(ty))?;
        let at = u32::from(at.checked_sub(1)?) * 4;
        let offset = self.offset.wrapping_add(at);
        Attrs::new(self.bytes.get(at as usize..)?, offset).next()
    }

    /// Returns the payload of the last attribute of a type.
    #[inline]
    pub fn payload(&self, ty: u16) -> Option<&'a [u8]> {
        let at = usize::from(self.at.get(usize::from(ty))?.checked_sub(1)?) * 4;
        let attr = self.bytes.get(at..)?;
        let len = u16::from_ne_bytes(*attr.first_chunk()?);
        attr.get(HEADER_LEN..usize::from(len))
    }

    /// Returns true if there is an attribute of that type (`nla_get_flag`).
    #[inline]
    pub fn has(&self, ty: u16) -> bool {
        self.at.get(usize::from(ty)).is_some_and(|&at| at != 0)
    }

    /// Returns the attribute, or EINVAL that reports its type as missing.
    pub fn require(&self, ty: u16) -> Result<Attr<'a>, Error> {
        self.get(ty).ok_or_else(|| Error::missing(ty))
    }

    /// Returns the number of trailing bytes that form no attribute. Where they pass, Linux still
    /// sets the sentence "bytes leftover after parsing attributes", which a client with extended
    /// acknowledgements sees as a warning.
    pub fn leftover(&self) -> u32 {
        self.leftover
    }

    /// Returns the types that are present, in ascending order.
    pub fn types(&self) -> impl Iterator<Item = u16> + '_ {
        (0..TABLE_SIZE as u16).filter(|&ty| self.has(ty))
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $out:ty;)*) => {
        impl<'a> Table<'a> {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self, ty: u16) -> Result<Option<$out>, Error> {
                self.get(ty).map(|a| a.$name()).transpose()
            })*
        }
    };
}

getters! {
    /// [`Attr::u8`] of the attribute, if it is present.
    u8 -> u8;
    /// [`Attr::u16`] of the attribute, if it is present.
    u16 -> u16;
    /// [`Attr::u32`] of the attribute, if it is present.
    u32 -> u32;
    /// [`Attr::u64`] of the attribute, if it is present.
    u64 -> u64;
    /// [`Attr::i32`] of the attribute, if it is present.
    i32 -> i32;
    /// [`Attr::i64`] of the attribute, if it is present.
    i64 -> i64;
    /// [`Attr::be16`] of the attribute, if it is present.
    be16 -> u16;
    /// [`Attr::be32`] of the attribute, if it is present.
    be32 -> u32;
    /// [`Attr::be64`] of the attribute, if it is present.
    be64 -> u64;
    /// [`Attr::mac`] of the attribute, if it is present.
    mac -> [u8; 6];
    /// [`Attr::ipv4`] of the attribute, if it is present.
    ipv4 -> std::net::Ipv4Addr;
    /// [`Attr::ipv6`] of the attribute, if it is present.
    ipv6 -> std::net::Ipv6Addr;
    /// [`Attr::ip`] of the attribute, if it is present.
    ip -> std::net::IpAddr;
    /// [`Attr::str`] of the attribute, if it is present.
    str -> &'a str;
}

impl Table<'_> {
    /// Indexes the attributes at the start of `rest`, as long as their lengths are among those that
    /// pass.
    #[inline(always)]
    pub(super) fn take(&mut self, rest: &mut Attrs<'_>, passes: &[(u16, u16)]) {
        let mut place = rest.offset().wrapping_sub(self.offset) / 4 + 1;
        while let Some((ty, len)) = rest.peek() {
            let Some(&(least, most)) = passes.get(usize::from(ty)) else {
                return;
            };
            let payload = len - HEADER_LEN;
            if payload < usize::from(least) || payload > usize::from(most) {
                return;
            }
            if let Some(at) = self.at.get_mut(usize::from(ty)) {
                *at = place as u16;
            }
            place += (align(len) / 4) as u32;
            rest.pass(len);
        }
    }

    #[inline]
    pub(super) fn set(&mut self, ty: u16, offset: u32) {
        if let Some(at) = self.at.get_mut(usize::from(ty)) {
            *at = (offset.wrapping_sub(self.offset) / 4 + 1) as u16;
        }
    }
}

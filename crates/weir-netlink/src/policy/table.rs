// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The attributes of one level by type: the kernel's `tb[]`, without pointers into the message.

use crate::attr::{Attr, Attrs, HEADER_LEN, align};
use crate::error::Error;

/// Highest attribute type a [`Table`] can hold, plus one.
pub const TABLE_SIZE: usize = 128;

/// Longest level a [`Table`] can index, in bytes; Linux's own bound on a message is the send
/// buffer, 208 KiB by default.
pub(super) const LEVEL_MAX: usize = 4 * (u16::MAX as usize - 1);

/// The attributes of one level by type: the kernel's `tb[]`.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: u32,
    pub(super) leftover: u32,
    /// Position in `bytes` over 4, plus one; 0 is absent. Attributes begin at multiples of 4.
    at: [u16; TABLE_SIZE],
}

impl<'a> Table<'a> {
    /// A table without attributes.
    pub const fn empty() -> Self {
        Table {
            bytes: &[],
            offset: 0,
            leftover: 0,
            at: [0; TABLE_SIZE],
        }
    }

    /// The last attribute of a type.
    #[inline]
    pub fn get(&self, ty: u16) -> Option<Attr<'a>> {
        let at = *self.at.get(usize::from(ty))?;
        let at = u32::from(at.checked_sub(1)?) * 4;
        let offset = self.offset.wrapping_add(at);
        Attrs::new(self.bytes.get(at as usize..)?, offset).next()
    }

    /// What the last attribute of a type holds.
    #[inline]
    pub fn payload(&self, ty: u16) -> Option<&'a [u8]> {
        let at = usize::from(self.at.get(usize::from(ty))?.checked_sub(1)?) * 4;
        let attr = self.bytes.get(at..)?;
        let len = u16::from_ne_bytes(*attr.first_chunk()?);
        attr.get(HEADER_LEN..usize::from(len))
    }

    /// True when an attribute of that type is there (`nla_get_flag`).
    #[inline]
    pub fn has(&self, ty: u16) -> bool {
        self.at.get(usize::from(ty)).is_some_and(|&at| at != 0)
    }

    /// The attribute, or EINVAL with its type as the missing one.
    pub fn require(&self, ty: u16) -> Result<Attr<'a>, Error> {
        self.get(ty).ok_or_else(|| Error::missing(ty))
    }

    /// Bytes at the end that are no attribute. Where they pass, Linux still sets the sentence
    /// "bytes leftover after parsing attributes", which a client with extended
    /// acknowledgements sees as a warning.
    pub fn leftover(&self) -> u32 {
        self.leftover
    }

    /// The types that are there, ascending.
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
    /// [`Attr::u8`] if it is there.
    u8 -> u8;
    /// [`Attr::u16`] if it is there.
    u16 -> u16;
    /// [`Attr::u32`] if it is there.
    u32 -> u32;
    /// [`Attr::u64`] if it is there.
    u64 -> u64;
    /// [`Attr::i32`] if it is there.
    i32 -> i32;
    /// [`Attr::i64`] if it is there.
    i64 -> i64;
    /// [`Attr::be16`] if it is there.
    be16 -> u16;
    /// [`Attr::be32`] if it is there.
    be32 -> u32;
    /// [`Attr::be64`] if it is there.
    be64 -> u64;
    /// [`Attr::mac`] if it is there.
    mac -> [u8; 6];
    /// [`Attr::ipv4`] if it is there.
    ipv4 -> std::net::Ipv4Addr;
    /// [`Attr::ipv6`] if it is there.
    ipv6 -> std::net::Ipv6Addr;
    /// [`Attr::ip`] if it is there.
    ip -> std::net::IpAddr;
    /// [`Attr::str`] if it is there.
    str -> &'a str;
}

impl Table<'_> {
    /// Takes attributes in, of those that `rest` of this level begins with, as long as their lengths are
    /// among those that pass.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A piece of a message, for objects that are dumped by the million. The buffer is extended once
//! for all attributes of the piece, so each attribute is only a few stores
//! ([`Writer::put_piece`](crate::Writer::put_piece)).
//!
//! An attribute that does not fit leaves the piece unchanged and marks it as *full*. A full piece
//! makes its writer full.

use crate::header::Fixed;
use crate::wire::{ATTR_HEADER_LEN as HEADER_LEN, align, attr_header};

/// Attributes of up to `N` bytes in total.
#[derive(Debug)]
pub struct Piece<'a, const N: usize> {
    bytes: &'a mut [u8; N],
    len: usize,
    full: bool,
}

impl<'a, const N: usize> Piece<'a, N> {
    /// Creates a piece without attributes; its room is zeroed.
    #[inline(always)]
    pub(crate) const fn new(bytes: &'a mut [u8; N]) -> Self {
        Self {
            bytes,
            len: 0,
            full: false,
        }
    }

    /// Returns the number of bytes written, or `None` if an attribute did not fit.
    #[inline(always)]
    pub(crate) fn len(&self) -> Option<usize> {
        (!self.full).then_some(self.len)
    }

    /// Appends an attribute's header and returns the zeroed room for its payload.
    #[inline(always)]
    fn room(&mut self, ty: u16, len: usize) -> Option<&mut [u8]> {
        let total = HEADER_LEN + len;
        let Some(room) = self.bytes.get_mut(self.len..self.len + align(total)) else {
            self.full = true;
            return None;
        };
        self.len += align(total);
        room[..HEADER_LEN].copy_from_slice(&attr_header(total, ty));
        Some(&mut room[HEADER_LEN..total])
    }

    /// Appends complete attributes. `M` is a multiple of 4.
    #[inline(always)]
    pub fn put_made<const M: usize>(&mut self, attributes: &[u8; M]) {
        const { assert!(M.is_multiple_of(4)) };
        match self.bytes.get_mut(self.len..self.len + M) {
            Some(room) => room.copy_from_slice(attributes),
            None => self.full = true,
        }
        self.len += if self.full { 0 } else { M };
    }

    /// Appends the attribute with a name.
    #[inline(always)]
    pub fn put_name(&mut self, name: &Name) {
        let before = self.len;
        self.put_made(&name.bytes);
        if !self.full {
            self.len = before + name.len;
        }
    }

    /// Appends the header of a nest that will be `len` bytes long, including the header.
    #[inline(always)]
    pub fn put_head(&mut self, ty: u16, len: usize) {
        self.put_made(&attr_header(len, ty));
    }

    /// Appends an attribute (`nla_put`).
    #[inline(always)]
    pub fn put<const M: usize>(&mut self, ty: u16, payload: [u8; M]) {
        if let Some(room) = self.room(ty, M) {
            room.copy_from_slice(&payload);
        }
    }

    /// Appends a structure as the payload of an attribute.
    #[inline(always)]
    pub fn put_fixed<T: Fixed>(&mut self, ty: u16, value: &T) {
        if let Some(room) = self.room(ty, T::LEN) {
            value.write(room);
        }
    }
}

/// An attribute with the name of a kind. It is built once and then copied without reading the name
/// again.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; 20],
    /// The number of bytes used.
    len: usize,
}

impl Name {
    /// Builds the attribute `ty` with a name of up to 15 bytes.
    pub const fn new(ty: u16, name: &str) -> Self {
        let name = name.as_bytes();
        // With a NUL, like all string attributes.
        let total = HEADER_LEN + name.len() + 1;
        let mut bytes = [0; 20];
        [bytes[0], bytes[1], bytes[2], bytes[3]] = attr_header(total, ty);
        let mut at = 0;
        while at < name.len() {
            bytes[HEADER_LEN + at] = name[at];
            at += 1;
        }
        let len = align(total);
        Self { bytes, len }
    }
}

/// An attribute of a fixed layout; see [`lay_out`].
#[derive(Clone, Copy, Debug)]
pub enum Laid {
    /// The type of an attribute and the length of its payload in bytes.
    Value(u16, usize),
    /// The type of a nest and the length of its contents in bytes. Its contents follow.
    Nest(u16, usize),
}

/// Builds attributes whose number, types and lengths are always the same, with zeroed values. The
/// caller copies them by [`Writer::put_laid_out`](crate::Writer::put_laid_out) and then stores the
/// values at their offsets. The attributes must fill exactly `N` bytes.
///
/// # Panics
/// If they need more or less. As the value of a constant, that is an error of compilation.
pub const fn lay_out<const N: usize>(attributes: &[Laid]) -> [u8; N] {
    let mut bytes = [0; N];
    let (mut at, mut n) = (0, 0);
    while n < attributes.len() {
        let (ty, inside, step) = match attributes[n] {
            Laid::Value(ty, len) => (ty, len, align(len)),
            Laid::Nest(ty, len) => (ty, len, 0),
        };
        let [a, b, c, d] = attr_header(HEADER_LEN + inside, ty);
        (bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]) = (a, b, c, d);
        at += HEADER_LEN + step;
        n += 1;
    }
    assert!(at == N, "the attributes do not fill the layout");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TcGen, Writer};

    #[test]
    fn a_layout_equals_separate_puts() {
        const MADE: [u8; 28] = lay_out(&[
            Laid::Value(3, 6),
            Laid::Nest(4, 8),
            Laid::Value(5, 4),
            Laid::Nest(6, 0),
        ]);
        let mut w = Writer::new();
        w.put(3, &[1, 2, 3, 4, 5, 6]);
        let nest = w.nest_noflag(4);
        w.put_u32(5, 7);
        w.end(nest);
        let open = w.nest_noflag(6);
        w.put_u32(1, 1);
        w.end(open);
        let put = |limit| {
            let mut w = Writer::with_limit(limit);
            let (open, made) = w.put_laid_out(&MADE);
            if let Some(made) = made {
                made[4..10].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
                made[20..24].copy_from_slice(&7_u32.to_ne_bytes());
            }
            w.put_u32(1, 1);
            w.end(open);
            w
        };
        assert_eq!(put(36).bytes(), w.bytes());
        let none = put(27);
        assert!(none.is_full() && none.is_empty());
    }

    #[test]
    fn a_piece_equals_separate_puts() {
        let general = TcGen {
            index: 7,
            ..TcGen::default()
        };
        let mut w = Writer::new();
        w.put(3, &[1, 2, 3, 4, 5, 6]);
        w.put_fixed(4, &general);
        w.put_str(5, "gact");
        let all = w.len();
        let put = |limit| {
            let mut w = Writer::with_limit(limit);
            w.put_piece::<72>(|piece| {
                piece.put(3, [1, 2, 3, 4, 5, 6]);
                piece.put_fixed(4, &general);
                piece.put_name(&Name::new(5, "gact"));
            });
            w
        };
        assert_eq!(put(all).bytes(), w.bytes());
        let none = put(all - 1);
        assert!(none.is_full() && none.is_empty());
    }

    #[test]
    fn an_attribute_that_does_not_fit_makes_both_full() {
        let mut w = Writer::new();
        w.put_piece::<12>(|piece| {
            piece.put(1, [0; 4]);
            piece.put(2, [0; 4]);
            piece.put_made(&[0; 4]);
        });
        assert!(w.is_full() && w.is_empty());
        // A full writer stays full.
        w.put_piece::<12>(|piece| piece.put(1, [0; 4]));
        assert!(w.is_full() && w.is_empty());
    }
}

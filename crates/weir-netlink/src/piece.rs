// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A piece of a message: the buffer is asked for room once for all its attributes, which are then no more
//! than stores to where they go ([`Writer::put_piece`](crate::Writer::put_piece)).
//!
//! For objects that are shown by the million. What does not fit leaves the piece as it was and makes it
//! *full*; a full piece makes its writer so.

use crate::attr::{HEADER_LEN, align};
use crate::header::Fixed;
use crate::writer::header;

/// Attributes of up to `N` octets together.
#[derive(Debug)]
pub struct Piece<'a, const N: usize> {
    octets: &'a mut [u8; N],
    len: usize,
    full: bool,
}

impl<'a, const N: usize> Piece<'a, N> {
    /// No attributes; the room for them is zeroed.
    #[inline(always)]
    pub(crate) const fn new(octets: &'a mut [u8; N]) -> Self {
        Self {
            octets,
            len: 0,
            full: false,
        }
    }

    /// Octets of what there is; `None` if not all fitted.
    #[inline(always)]
    pub(crate) fn len(&self) -> Option<usize> {
        (!self.full).then_some(self.len)
    }

    /// Room for an attribute, zeroed, with its header; the room behind that is what is answered.
    #[inline(always)]
    fn room(&mut self, ty: u16, len: usize) -> Option<&mut [u8]> {
        let total = HEADER_LEN + len;
        let Some(room) = self.octets.get_mut(self.len..self.len + align(total)) else {
            self.full = true;
            return None;
        };
        self.len += align(total);
        room[..HEADER_LEN].copy_from_slice(&header(total, ty));
        Some(&mut room[HEADER_LEN..total])
    }

    /// Attributes as they are to stand in the message; `M` is a multiple of 4.
    #[inline(always)]
    pub fn put_made<const M: usize>(&mut self, attributes: &[u8; M]) {
        const { assert!(M.is_multiple_of(4)) };
        match self.octets.get_mut(self.len..self.len + M) {
            Some(room) => room.copy_from_slice(attributes),
            None => self.full = true,
        }
        self.len += if self.full { 0 } else { M };
    }

    /// The attribute with a name.
    #[inline(always)]
    pub fn put_name(&mut self, name: &Name) {
        let before = self.len;
        self.put_made(&name.octets);
        if !self.full {
            self.len = before + name.len;
        }
    }

    /// The header of a nest that will have `len` octets, with that.
    #[inline(always)]
    pub fn put_head(&mut self, ty: u16, len: usize) {
        self.put_made(&header(len, ty));
    }

    /// `nla_put`.
    #[inline(always)]
    pub fn put<const M: usize>(&mut self, ty: u16, payload: [u8; M]) {
        if let Some(room) = self.room(ty, M) {
            room.copy_from_slice(&payload);
        }
    }

    /// A structure as the payload of an attribute.
    #[inline(always)]
    pub fn put_fixed<T: Fixed>(&mut self, ty: u16, value: &T) {
        if let Some(room) = self.room(ty, T::LEN) {
            value.write(room);
        }
    }
}

/// An attribute with the name of a kind, made once: it is copied without a look at the name.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    octets: [u8; 20],
    /// How many of these there are.
    len: usize,
}

impl Name {
    /// The attribute `ty`, of a name of up to 15 octets.
    pub const fn new(ty: u16, name: &str) -> Self {
        let name = name.as_bytes();
        // With the NUL, as all strings of attributes.
        let total = HEADER_LEN + name.len() + 1;
        let mut octets = [0; 20];
        [octets[0], octets[1], octets[2], octets[3]] = header(total, ty);
        let mut at = 0;
        while at < name.len() {
            octets[HEADER_LEN + at] = name[at];
            at += 1;
        }
        let len = align(total);
        Self { octets, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TcGen, Writer};

    #[test]
    fn pieces_are_what_is_written_one_by_one() {
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
    fn what_does_not_fit_makes_both_full() {
        let mut w = Writer::new();
        w.put_piece::<12>(|piece| {
            piece.put(1, [0; 4]);
            piece.put(2, [0; 4]);
            piece.put_made(&[0; 4]);
        });
        assert!(w.is_full() && w.is_empty());
        // A full writer stays so.
        w.put_piece::<12>(|piece| piece.put(1, [0; 4]));
        assert!(w.is_full() && w.is_empty());
    }
}

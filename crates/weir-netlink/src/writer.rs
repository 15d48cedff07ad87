// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The writer: appends messages and attributes to a growing buffer with a size limit.
//!
//! Mirrors `nlmsg_put`, `nlmsg_end`, `nlmsg_cancel`, `nla_put*`, `nla_nest_*`. A put that exceeds
//! the limit writes nothing and makes the writer *full*. Further puts do nothing, and
//! [`Writer::finish`] then removes the whole message and returns [`Full`]. So a dump writes
//! messages without checking the size. At the first `Full` it sends the buffer and continues with
//! the same object:
//!
//! ```
//! # use weir_netlink::{Writer, IfInfoMsg, rtm, nlm, ifla};
//! # let names = ["lo", "eth0"]; let mut next = 0;
//! let mut w = Writer::with_limit(8192);
//! while let Some(name) = names.get(next) {
//!     let m = w.message(rtm::NEWLINK, nlm::F_MULTI, 1, 0);
//!     w.fixed(&IfInfoMsg { index: next as i32 + 1, ..Default::default() });
//!     w.put_str(ifla::IFNAME, name);
//!     if w.finish(m).is_err() {
//!         break;
//!     }
//!     next += 1;
//! }
//! # assert_eq!(next, 2);
//! ```
//!
//! A nest that is too long for its 16-bit length also makes the writer full. By default there is no
//! limit, and no padding before 64-bit values, as in Linux on machines with cheap unaligned access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::consts::nlm::nla;
use crate::header::Fixed;
use crate::piece::Piece;
use crate::wire::{ATTR_HEADER_LEN, HEADER_LEN, Header, align, attr_header};

/// The message did not fit and was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A position in the buffer: the start of an open message or nest, or any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Mark {
    at: usize,
    full: bool,
}

/// Writes messages and attributes to a buffer, with an optional size limit.
///
/// A put that does not fit writes nothing and makes the writer *full*. Further puts do nothing, and
/// [`finish`](Self::finish) then removes the whole message and returns [`Full`]. So a dump writes
/// without checking the size, and at the first `Full` sends the buffer and continues with the same
/// object in the next datagram.
#[derive(Clone, Debug)]
pub struct Writer {
    buf: Vec<u8>,
    limit: usize,
    full: bool,
    pad64: bool,
    /// The maximum size of a datagram, in bytes.
    datagram: usize,
    /// The number of further datagrams that may still be begun.
    more: usize,
    /// The completed datagrams.
    done: Vec<Vec<u8>>,
}

/// Memory reserved beyond a datagram, in bytes, for the message that then begins the next one.
const BEHIND: usize = 1024;

/// Structures up to this length are assembled on the stack and appended at once, so that their
/// parts are plain stores.
const SMALL: usize = 64;

/// Returns the payload of `nla_put_bitfield32`.
#[inline]
pub const fn bitfield32(value: u32, selector: u32) -> [u8; 8] {
    let [a, b, c, d] = value.to_ne_bytes();
    let [e, f, g, h] = selector.to_ne_bytes();
    [a, b, c, d, e, f, g, h]
}

impl Default for Writer {
    fn default() -> Self {
        Writer::new()
    }
}

impl Writer {
    /// Creates a writer without a limit.
    pub const fn new() -> Self {
        Writer::with_limit(usize::MAX)
    }

    /// Creates a writer whose buffer holds at most `limit` bytes.
    pub const fn with_limit(limit: usize) -> Self {
        Writer {
            buf: Vec::new(),
            limit,
            full: false,
            pad64: false,
            datagram: limit,
            more: 0,
            done: Vec::new(),
        }
    }

    /// Creates a writer of up to `count` datagrams of at most `size` bytes each. The memory of a
    /// datagram is allocated when it is begun. A message that does not fit in a datagram becomes
    /// the start of the next one, and need not be written again. The other methods refer to the
    /// last datagram; [`into_datagrams`](Self::into_datagrams) returns all of them.
    pub fn with_datagrams(size: usize, count: usize) -> Self {
        Writer {
            buf: Vec::with_capacity(size + BEHIND),
            more: count.saturating_sub(1),
            ..Writer::with_limit(size)
        }
    }

    /// Creates a writer without a limit that appends to `buf`.
    pub fn from_vec(buf: Vec<u8>) -> Self {
        Writer {
            buf,
            ..Writer::new()
        }
    }

    /// Sets the limit. No more datagrams are begun.
    pub fn set_limit(&mut self, limit: usize) {
        (self.limit, self.datagram, self.more) = (limit, limit, 0);
    }

    /// Aligns 64-bit values to 8 bytes of the buffer with a padding attribute, as Linux does where
    /// unaligned access is expensive.
    #[must_use]
    pub fn pad64(mut self, pad: bool) -> Self {
        self.pad64 = pad;
        self
    }

    /// Returns the bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the bytes written so far, mutably.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buf
    }

    /// Returns the buffer.
    pub fn into_vec(self) -> Vec<u8> {
        self.buf
    }

    /// Returns the datagrams in order, except empty ones.
    pub fn into_datagrams(self) -> impl Iterator<Item = Vec<u8>> {
        let all = self.done.into_iter().chain([self.buf]);
        all.filter(|datagram| !datagram.is_empty())
    }

    /// Returns the buffer and leaves an empty one.
    pub fn take(&mut self) -> Vec<u8> {
        self.full = false;
        std::mem::take(&mut self.buf)
    }

    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.full = false;
    }

    /// Returns the number of bytes written so far.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns true if nothing is written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Returns true if a put did not fit since the last mark that was ended or rolled back.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the current position, for [`rollback`](Self::rollback).
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.buf.len(),
            full: self.full,
        }
    }

    /// Removes everything written since the mark, and restores the full state of that time.
    pub fn rollback(&mut self, mark: Mark) {
        self.buf.truncate(mark.at);
        self.full = mark.full;
    }

    /// Returns true if `len` more bytes fit under the limit. Otherwise makes the writer full.
    #[inline]
    fn fits(&mut self, len: usize) -> bool {
        let fits = !self.full && len <= self.limit.saturating_sub(self.buf.len());
        self.full = !fits;
        fits
    }

    /// Appends `len` zero bytes and returns them. If they do not fit, makes the writer full and
    /// returns `None`.
    #[inline]
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.fits(len) {
            return None;
        }
        let start = self.buf.len();
        self.buf.resize(start + len, 0);
        Some(&mut self.buf[start..])
    }

    /// Returns the position of a new message.
    #[inline]
    fn begin(&mut self) -> Mark {
        let mark = self.mark();
        if self.more > 0 {
            // The message may fill a whole datagram. `finish` decides whether it stays in this one
            // or begins the next.
            self.limit = mark.at + self.datagram;
        }
        mark
    }

    /// Opens a message with a copy of `start`: a header and attributes shared with similar
    /// messages, in which the caller may then change values. Returns `None` if it does not fit.
    #[inline]
    pub fn message_copied(&mut self, start: &[u8]) -> (Mark, Option<&mut [u8]>) {
        (self.begin(), self.put_copied(start))
    }

    /// Opens a message (`nlmsg_put`), which [`finish`](Self::finish) or
    /// [`rollback`](Self::rollback) closes.
    pub fn message(&mut self, ty: u16, flags: u16, seq: u32, pid: u32) -> Mark {
        let mark = self.begin();
        let header = Header {
            len: 0,
            ty,
            flags,
            seq,
            pid,
        };
        if self.fits(HEADER_LEN) {
            self.buf.extend_from_slice(&header.to_bytes());
        }
        mark
    }

    /// Closes a message (`nlmsg_end`), or removes it if it did not fit.
    pub fn finish(&mut self, message: Mark) -> Result<(), Full> {
        let len = self.buf.len().saturating_sub(message.at);
        self.room(align(len) - len);
        if self.full || len < HEADER_LEN {
            self.rollback(message);
            return Err(Full);
        }
        self.buf[message.at..message.at + 4].copy_from_slice(&(len as u32).to_ne_bytes());
        if self.buf.len() > self.datagram {
            self.begin_with(message);
        }
        Ok(())
    }

    /// Moves the last message to a new datagram.
    #[cold]
    fn begin_with(&mut self, message: Mark) {
        let mut next = Vec::with_capacity(self.datagram + BEHIND);
        next.extend(self.buf.drain(message.at..));
        self.done.push(std::mem::replace(&mut self.buf, next));
        self.more -= 1;
        self.limit = self.datagram;
    }

    /// Sets flags in the header of a message, whether open or closed.
    pub fn add_flags(&mut self, message: Mark, flags: u16) {
        if let Some(b) = self.buf.get_mut(message.at + 6..message.at + 8) {
            let now = u16::from_ne_bytes([b[0], b[1]]) | flags;
            b.copy_from_slice(&now.to_ne_bytes());
        }
    }

    /// Appends a fixed header or any plain structure, padded to 4 bytes.
    #[inline]
    pub fn fixed<T: Fixed>(&mut self, fixed: &T) {
        if align(T::LEN) > SMALL {
            if let Some(room) = self.room(align(T::LEN)) {
                fixed.write(&mut room[..T::LEN]);
            }
        } else if self.fits(align(T::LEN)) {
            let mut all = [0; SMALL];
            fixed.write(&mut all[..T::LEN]);
            self.buf.extend_from_slice(&all[..align(T::LEN)]);
        }
    }

    /// Appends bytes that are not an attribute, without padding (`nlmsg_append`).
    pub fn raw(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room(bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Pads to 4 bytes from the start of the buffer.
    pub fn pad(&mut self) {
        let len = self.buf.len();
        self.room(align(len) - len);
    }

    /// Appends an attribute with a zeroed payload and returns the payload (`nla_reserve`).
    #[inline]
    pub fn reserve(&mut self, ty: u16, len: usize) -> Option<&mut [u8]> {
        let total = ATTR_HEADER_LEN + len;
        if total > usize::from(u16::MAX) {
            self.full = true;
            return None;
        }
        let room = self.room(align(total))?;
        room[..ATTR_HEADER_LEN].copy_from_slice(&attr_header(total, ty));
        Some(&mut room[ATTR_HEADER_LEN..total])
    }

    /// Appends an attribute (`nla_put`).
    #[inline]
    pub fn put(&mut self, ty: u16, payload: &[u8]) {
        self.put_padded(ty, payload, 0);
    }

    /// Appends two attributes of `N` bytes each at once: both or neither.
    #[inline(always)]
    pub fn put_two<const N: usize>(&mut self, first: u16, one: [u8; N], second: u16, two: [u8; N]) {
        const END: usize = ATTR_HEADER_LEN;
        let (total, each) = (END + N, align(END + N));
        const { assert!(2 * align(END + N) <= SMALL) };
        if self.fits(2 * each) {
            let mut all = [0; SMALL];
            all[..END].copy_from_slice(&attr_header(total, first));
            all[END..total].copy_from_slice(&one);
            all[each..each + END].copy_from_slice(&attr_header(total, second));
            all[each + END..each + total].copy_from_slice(&two);
            self.buf.extend_from_slice(&all[..2 * each]);
        }
    }

    /// Appends attributes of up to `N` bytes in total, all or none.
    #[inline(always)]
    pub fn put_piece<const N: usize>(&mut self, fill: impl FnOnce(&mut Piece<'_, N>)) {
        if self.full {
            return;
        }
        let start = self.buf.len();
        self.buf.extend_from_slice(&[0; N]);
        if let Some(room) = self.buf.last_chunk_mut() {
            let mut piece = Piece::new(room);
            fill(&mut piece);
            if let Some(len) = piece.len()
                && start + len <= self.limit
            {
                return self.buf.truncate(start + len);
            }
        }
        self.buf.truncate(start);
        self.full = true;
    }

    /// Does the same as [`put_piece`](Self::put_piece), and opens the nest whose header is in the
    /// last four bytes of the piece.
    #[inline(always)]
    pub fn put_piece_open<const N: usize>(&mut self, fill: impl FnOnce(&mut Piece<'_, N>)) -> Mark {
        self.put_piece(fill);
        Mark {
            at: self.buf.len().saturating_sub(ATTR_HEADER_LEN),
            full: self.full,
        }
    }

    /// Appends attributes built by [`lay_out`](crate::lay_out), in which the caller may then store
    /// values, or `None` if they do not fit. The mark is that of a nest whose header is in their
    /// last four bytes.
    #[inline(always)]
    pub fn put_laid_out<const N: usize>(
        &mut self,
        attributes: &[u8; N],
    ) -> (Mark, Option<&mut [u8; N]>) {
        const { assert!(N.is_multiple_of(4)) };
        let fits = self.fits(N);
        if fits {
            self.buf.extend_from_slice(attributes);
        }
        let mark = Mark {
            at: self.buf.len().saturating_sub(ATTR_HEADER_LEN),
            full: self.full,
        };
        (mark, self.buf.last_chunk_mut().filter(|_| fits))
    }

    /// Appends a copy of complete attributes, in which the caller may then change values. Returns
    /// `None` if they do not fit.
    #[inline]
    pub fn put_copied(&mut self, attributes: &[u8]) -> Option<&mut [u8]> {
        debug_assert!(attributes.len().is_multiple_of(4), "attributes are padded");
        let start = self.buf.len();
        self.fits(attributes.len()).then(|| {
            self.buf.extend_from_slice(attributes);
            &mut self.buf[start..]
        })
    }

    /// Appends an attribute with a payload and `zeros` zero bytes after it.
    #[inline(always)]
    fn put_padded(&mut self, ty: u16, payload: &[u8], zeros: usize) {
        const END: usize = ATTR_HEADER_LEN;
        let total = END + payload.len() + zeros;
        if total > SMALL {
            self.put_long(ty, payload, zeros);
        } else if self.fits(align(total)) {
            // Most attributes are small: their header, value and padding are appended at once.
            let mut all = [0; SMALL];
            all[..END].copy_from_slice(&attr_header(total, ty));
            all[END..END + payload.len()].copy_from_slice(payload);
            self.buf.extend_from_slice(&all[..align(total)]);
        }
    }

    fn put_long(&mut self, ty: u16, payload: &[u8], zeros: usize) {
        let total = ATTR_HEADER_LEN + payload.len() + zeros;
        if total > usize::from(u16::MAX) {
            self.full = true;
        } else if self.fits(align(total)) {
            self.buf.reserve(align(total));
            self.buf.extend_from_slice(&attr_header(total, ty));
            self.buf.extend_from_slice(payload);
            let behind = align(total) - total + zeros;
            if behind > 0 {
                self.buf.resize(self.buf.len() + behind, 0);
            }
        }
    }

    /// Appends a flag (`nla_put_flag`).
    pub fn put_flag(&mut self, ty: u16) {
        self.put(ty, &[]);
    }

    /// Appends a `u8` (`nla_put_u8`).
    #[inline]
    pub fn put_u8(&mut self, ty: u16, value: u8) {
        self.put(ty, &[value]);
    }

    /// Appends a `u16` (`nla_put_u16`).
    #[inline]
    pub fn put_u16(&mut self, ty: u16, value: u16) {
        self.put(ty, &value.to_ne_bytes());
    }

    /// Appends a `u32` (`nla_put_u32`).
    #[inline]
    pub fn put_u32(&mut self, ty: u16, value: u32) {
        self.put(ty, &value.to_ne_bytes());
    }

    /// Appends a `u64` without alignment (`nla_put_u64`).
    #[inline]
    pub fn put_u64(&mut self, ty: u16, value: u64) {
        self.put(ty, &value.to_ne_bytes());
    }

    /// Appends an `i32` (`nla_put_s32`).
    #[inline]
    pub fn put_i32(&mut self, ty: u16, value: i32) {
        self.put(ty, &value.to_ne_bytes());
    }

    /// Appends a 16-bit number in network order (`nla_put_be16`).
    #[inline]
    pub fn put_be16(&mut self, ty: u16, value: u16) {
        self.put(ty, &value.to_be_bytes());
    }

    /// Appends a 32-bit number in network order (`nla_put_be32`).
    #[inline]
    pub fn put_be32(&mut self, ty: u16, value: u32) {
        self.put(ty, &value.to_be_bytes());
    }

    /// Appends a 64-bit number in network order (`nla_put_be64`).
    #[inline]
    pub fn put_be64(&mut self, ty: u16, value: u64) {
        self.put(ty, &value.to_be_bytes());
    }

    /// Appends an IPv4 address (`nla_put_in_addr`).
    pub fn put_ipv4(&mut self, ty: u16, value: Ipv4Addr) {
        self.put(ty, &value.octets());
    }

    /// Appends an IPv6 address (`nla_put_in6_addr`).
    pub fn put_ipv6(&mut self, ty: u16, value: Ipv6Addr) {
        self.put(ty, &value.octets());
    }

    /// Appends an address of either family.
    pub fn put_ip(&mut self, ty: u16, value: IpAddr) {
        match value {
            IpAddr::V4(value) => self.put_ipv4(ty, value),
            IpAddr::V6(value) => self.put_ipv6(ty, value),
        }
    }

    /// Appends a string with its NUL (`nla_put_string`).
    #[inline]
    pub fn put_str(&mut self, ty: u16, value: &str) {
        self.put_c_str(ty, value.as_bytes());
    }

    /// Appends a string of any bytes with its NUL.
    pub fn put_c_str(&mut self, ty: u16, value: &[u8]) {
        self.put_padded(ty, value, 1);
    }

    /// Appends a value and its selector (`nla_put_bitfield32`).
    #[inline]
    pub fn put_bitfield32(&mut self, ty: u16, value: u32, selector: u32) {
        self.put(ty, &bitfield32(value, selector));
    }

    /// Appends a structure as the payload of an attribute.
    #[inline]
    pub fn put_fixed<T: Fixed>(&mut self, ty: u16, value: &T) {
        let total = ATTR_HEADER_LEN + T::LEN;
        if align(total) > SMALL {
            if let Some(room) = self.reserve(ty, T::LEN) {
                value.write(room);
            }
        } else if self.fits(align(total)) {
            let mut all = [0; SMALL];
            all[..ATTR_HEADER_LEN].copy_from_slice(&attr_header(total, ty));
            value.write(&mut all[ATTR_HEADER_LEN..total]);
            self.buf.extend_from_slice(&all[..align(total)]);
        }
    }

    /// Appends the padding attribute if padding is on (`nla_align_64bit`).
    fn align64(&mut self, pad_ty: u16) {
        if self.pad64 && self.buf.len().is_multiple_of(8) {
            self.put(pad_ty, &[]);
        }
    }

    /// Appends a payload of 64-bit values (`nla_put_64bit`).
    pub fn put_64bit(&mut self, ty: u16, payload: &[u8], pad_ty: u16) {
        self.align64(pad_ty);
        self.put(ty, payload);
    }

    /// Appends a `u64` with padding before it (`nla_put_u64_64bit`).
    pub fn put_u64_pad(&mut self, ty: u16, value: u64, pad_ty: u16) {
        self.put_64bit(ty, &value.to_ne_bytes(), pad_ty);
    }

    /// Appends a structure of 64-bit values.
    pub fn put_fixed_pad<T: Fixed>(&mut self, ty: u16, value: &T, pad_ty: u16) {
        self.align64(pad_ty);
        self.put_fixed(ty, value);
    }

    /// Opens a nest with the nest flag (`nla_nest_start`).
    pub fn nest(&mut self, ty: u16) -> Mark {
        self.nest_noflag(ty | nla::F_NESTED)
    }

    /// Opens a nest without the flag (`nla_nest_start_noflag`).
    #[inline]
    pub fn nest_noflag(&mut self, ty: u16) -> Mark {
        let mark = self.mark();
        self.put(ty, &[]);
        mark
    }

    /// Closes a nest (`nla_nest_end`).
    #[inline]
    pub fn end(&mut self, nest: Mark) {
        if self.full {
            return;
        }
        match u16::try_from(self.buf.len().saturating_sub(nest.at)) {
            Ok(len) => {
                if let Some(b) = self.buf.get_mut(nest.at..nest.at + 2) {
                    b.copy_from_slice(&len.to_ne_bytes());
                }
            }
            Err(_) => self.full = true,
        }
    }

    /// Closes a nest, or removes it if it is empty. Returns true if it was kept.
    pub fn end_or_cancel(&mut self, nest: Mark) -> bool {
        if !self.full && self.buf.len() == nest.at + ATTR_HEADER_LEN {
            self.cancel(nest);
            return false;
        }
        self.end(nest);
        true
    }

    /// Removes a nest (`nla_nest_cancel`), including one that did not fit.
    pub fn cancel(&mut self, nest: Mark) {
        self.rollback(nest);
    }
}

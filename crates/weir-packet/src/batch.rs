// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Batch`: up to 64 packets in an inline array; what stages hand on.
//!
//! A batch never allocates. Order is kept by all operations except
//! [`Batch::swap_remove`]. Dropping a batch drops its packets, returned to their
//! pools in runs.
#![allow(unsafe_code)] // the array is initialised only up to its length

use crate::packet::{Packet, Record};
use crate::pool;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Most packets of a batch.
pub const BATCH: usize = 64;

/// Up to 64 packets.
pub struct Batch {
    len: usize,
    items: [MaybeUninit<Packet>; BATCH],
}

impl Batch {
    /// An empty batch.
    #[inline]
    pub const fn new() -> Batch {
        Batch {
            len: 0,
            items: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Packets in it.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there are 64.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Packets that still fit.
    #[inline]
    pub const fn room(&self) -> usize {
        BATCH - self.len
    }

    /// Appends a packet, or hands it back when full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        match self.items.get_mut(self.len) {
            Some(slot) => {
                slot.write(packet);
                self.len += 1;
                Ok(())
            }
            None => Err(packet),
        }
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        // SAFETY: slots below the old length are initialised; this one is given up.
        Some(unsafe { self.items[self.len].assume_init_read() })
    }

    /// The packets.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) }
    }

    /// The packets, writable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len) }
    }

    /// Over the packets.
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.as_slice().iter()
    }

    /// Over the packets, writable.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.as_mut_slice().iter_mut()
    }

    /// Takes all packets, first to last; what the iterator leaves is dropped.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let len = std::mem::take(&mut self.len);
        Drain {
            batch: self,
            next: 0,
            end: len,
        }
    }

    /// Appends empty packets made of these records, as many as fit.
    ///
    /// # Safety
    /// The caller owns the records and gives up those taken: the first `min(len, room)`.
    #[inline]
    pub(crate) unsafe fn extend_from_records(&mut self, records: &[NonNull<Record>]) {
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        let mut taken = 0;
        for (slot, record) in slots.iter_mut().zip(records) {
            // SAFETY: the record is the caller's, given up to the new packet.
            slot.write(unsafe { Packet::init(*record) });
            taken += 1;
        }
        self.len += taken;
    }

    /// Hands all records to `f` and forgets the packets if it returns true.
    #[inline]
    pub(crate) fn forget_if(&mut self, f: impl FnOnce(&[NonNull<Record>]) -> bool) {
        // SAFETY: a packet is a transparent wrapper of a pointer to its record, and the first `len`
        // slots are initialised.
        let records = unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) };
        if f(records) {
            self.len = 0;
        }
    }

    /// Takes the whole batch, leaving an empty one.
    #[inline]
    pub fn take(&mut self) -> Batch {
        let mut out = Batch::new();
        self.move_to(&mut out);
        out
    }

    /// Moves as many packets as fit to the end of `to`, first ones first; returns how many.
    #[inline]
    pub fn move_to(&mut self, to: &mut Batch) -> usize {
        let n = self.len.min(to.room());
        // SAFETY: `n` initialised slots are moved into `n` free ones of another batch, and what is
        // left here moves to the front, so each packet keeps exactly one owner.
        unsafe {
            let from = self.items.as_mut_ptr();
            std::ptr::copy_nonoverlapping(from, to.items.as_mut_ptr().add(to.len), n);
            std::ptr::copy(from.add(n), from, self.len - n);
        }
        to.len += n;
        self.len -= n;
        n
    }

    /// Takes packet `i`, putting the last one in its place.
    pub fn swap_remove(&mut self, i: usize) -> Option<Packet> {
        if i >= self.len {
            return None;
        }
        let last = self.len - 1;
        self.as_mut_slice().swap(i, last);
        self.pop()
    }

    /// Keeps the packets for which `keep` says true; the others are given to `out`, in order.
    #[inline]
    pub fn split(
        &mut self,
        mut keep: impl FnMut(&mut Packet) -> bool,
        mut out: impl FnMut(Packet),
    ) {
        self.filter_map(|mut p| {
            if keep(&mut p) {
                Some(p)
            } else {
                out(p);
                None
            }
        });
    }

    /// Keeps the packets for which `keep` says true; the others are dropped.
    #[inline]
    pub fn retain(&mut self, keep: impl FnMut(&mut Packet) -> bool) {
        self.split(keep, drop);
    }

    /// Hands each packet to `f`; what it returns stays, in order.
    #[inline]
    pub fn filter_map(&mut self, mut f: impl FnMut(Packet) -> Option<Packet>) {
        // The length is 0 while `f` runs: if it panics, packets leak instead of being dropped twice.
        let len = std::mem::take(&mut self.len);
        let mut kept = 0;
        for i in 0..len {
            // SAFETY: slot `i < len` was initialised and each is read once.
            let packet = unsafe { self.items[i].assume_init_read() };
            if let Some(p) = f(packet) {
                self.items[kept].write(p);
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// Fetches metadata and first data of packet `i` into the cache; nothing past the end.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        if let Some(p) = self.as_slice().get(i) {
            p.prefetch();
        }
    }

    /// Fetches all packets: the first pass of a stage.
    #[inline]
    pub fn prefetch_all(&self) {
        for p in self.as_slice() {
            p.prefetch();
        }
    }

    /// Sum of the packets' lengths, bytes.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|p| p.len() as u64).sum()
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        if self.len != 0 {
            pool::give_back_batch(self);
        }
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = std::slice::IterMut<'a, Packet>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = std::slice::Iter<'a, Packet>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::ops::Deref for Batch {
    type Target = [Packet];
    #[inline]
    fn deref(&self) -> &[Packet] {
        self.as_slice()
    }
}

impl std::ops::DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Packet] {
        self.as_mut_slice()
    }
}

impl From<Packet> for Batch {
    fn from(packet: Packet) -> Batch {
        let mut batch = Batch::new();
        batch.items[0].write(packet);
        batch.len = 1;
        batch
    }
}

impl IntoIterator for Batch {
    type Item = Packet;
    type IntoIter = IntoIter;
    fn into_iter(mut self) -> IntoIter {
        let end = std::mem::take(&mut self.len);
        IntoIter {
            batch: self,
            next: 0,
            end,
        }
    }
}

/// A batch's packets, first to last; what is not taken is dropped.
pub struct IntoIter {
    // Its length is 0: the packets from `next` to `end` belong to the iterator.
    batch: Batch,
    next: usize,
    end: usize,
}

impl Iterator for IntoIter {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.end {
            return None;
        }
        let i = self.next;
        self.next += 1;
        // SAFETY: slots `next..end` are initialised and each is read once.
        Some(unsafe { self.batch.items[i].assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for IntoIter {}

impl Drop for IntoIter {
    fn drop(&mut self) {
        for p in self.by_ref() {
            drop(p);
        }
    }
}

/// Takes a batch's packets, first to last.
pub struct Drain<'a> {
    batch: &'a mut Batch,
    next: usize,
    end: usize,
}

impl Drain<'_> {
    /// Those that are left.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        let left = &self.batch.items[self.next..self.end];
        // SAFETY: slots `next..end` are initialised, and stay so while the slice borrows the iterator.
        unsafe { std::slice::from_raw_parts(left.as_ptr().cast(), left.len()) }
    }
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.end {
            return None;
        }
        let i = self.next;
        self.next += 1;
        // SAFETY: slots `next..end` are initialised and each is read once; the batch's length is 0.
        Some(unsafe { self.batch.items[i].assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        for p in self.by_ref() {
            drop(p);
        }
    }
}

#[cfg(test)]
mod tests;

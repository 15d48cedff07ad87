// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Batch`: up to 64 packets in an inline array, the unit that stages pass on.
//!
//! A batch never allocates. All operations except [`Batch::swap_remove`] keep the order. Dropping a
//! batch drops its packets and returns them to their pools in runs.
#![allow(unsafe_code)] // the array is initialised only up to its length

use crate::depot::{give_back_chain, shared_of};
use crate::packet::Packet;
use crate::record::Record;
use crate::returned::Chain;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use weir_sync::primitive::prefetch_to_write;

/// The maximum number of packets in a batch.
pub const BATCH: usize = 64;

/// Up to 64 packets.
pub struct Batch {
    len: usize,
    items: [MaybeUninit<Packet>; BATCH],
}

impl Batch {
    /// Creates an empty batch.
    #[inline]
    pub const fn new() -> Batch {
        Batch {
            len: 0,
            items: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Returns the number of packets.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no packets.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if there are 64 packets.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Returns the number of packets that still fit.
    #[inline]
    pub const fn room(&self) -> usize {
        BATCH - self.len
    }

    /// Appends a packet, or returns it if the batch is full.
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

    /// Removes and returns the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        // SAFETY: slots below the old length are initialised; this one is now outside the length.
        Some(unsafe { self.items[self.len].assume_init_read() })
    }

    /// Returns the packets.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) }
    }

    /// Returns the packets, mutably.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len) }
    }

    /// Iterates over the packets.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.as_slice().iter()
    }

    /// Iterates over the packets, mutably.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.as_mut_slice().iter_mut()
    }

    /// Removes all packets, first to last. Packets that the iterator does not return are dropped.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let len = std::mem::take(&mut self.len);
        Drain {
            batch: self,
            next: 0,
            end: len,
        }
    }

    /// Appends empty packets made from these records, as many as fit.
    ///
    /// # Safety
    /// The caller owns the records, and gives up the first `min(len, room)` of them.
    #[inline]
    pub(crate) unsafe fn extend_from_records(&mut self, records: &[NonNull<Record>]) {
        let slots = self.items.get_mut(self.len..).unwrap_or_default();
        let mut taken = 0;
        for (slot, record) in slots.iter_mut().zip(records) {
            // SAFETY: the caller owns the record and gives it up to the new packet.
            slot.write(unsafe { Packet::init(*record) });
            taken += 1;
        }
        self.len += taken;
    }

    /// Returns the slots behind the packets.
    #[inline]
    pub(crate) fn free_slots(&mut self) -> &mut [MaybeUninit<Packet>] {
        self.items.get_mut(self.len..).unwrap_or_default()
    }

    /// Takes in packets that were written to the first `count` free slots.
    ///
    /// # Safety
    /// The slots are initialised, and nobody else owns their packets.
    #[inline]
    pub(crate) unsafe fn lengthen(&mut self, count: usize) {
        self.len += count;
    }

    /// Passes all records to `f`, and forgets the packets if it returns true.
    #[inline]
    pub(crate) fn forget_if(&mut self, f: impl FnOnce(&[NonNull<Record>]) -> bool) {
        // SAFETY: a packet is a transparent wrapper of a pointer to its record, and the first `len`
        // slots are initialised.
        let records = unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) };
        if f(records) {
            self.len = 0;
        }
    }

    /// Returns the whole batch and leaves an empty one.
    #[inline]
    pub fn take(&mut self) -> Batch {
        let mut out = Batch::new();
        self.move_to(&mut out);
        out
    }

    /// Moves as many packets as fit to the end of `to`, first to last. Returns how many.
    #[inline]
    pub fn move_to(&mut self, to: &mut Batch) -> usize {
        self.move_first(self.len, to)
    }

    /// Does the same with the first `most` packets at most. The others keep their order.
    #[inline]
    pub fn move_first(&mut self, most: usize, to: &mut Batch) -> usize {
        let n = self.len.min(most).min(to.room());
        // SAFETY: `n` initialised slots are moved into `n` free ones of another batch, and the
        // remaining packets move to the front, so each packet keeps exactly one owner.
        unsafe {
            let from = self.items.as_mut_ptr();
            std::ptr::copy_nonoverlapping(from, to.items.as_mut_ptr().add(to.len), n);
            std::ptr::copy(from.add(n), from, self.len - n);
        }
        to.len += n;
        self.len -= n;
        n
    }

    /// Removes and returns packet `i`, and puts the last packet in its place.
    pub fn swap_remove(&mut self, i: usize) -> Option<Packet> {
        if i >= self.len {
            return None;
        }
        let last = self.len - 1;
        self.as_mut_slice().swap(i, last);
        self.pop()
    }

    /// Keeps the packets for which `keep` returns true, and passes the others to `out`, in order.
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

    /// Removes the packets with a bit in `those` and returns them. Both parts keep their order.
    pub fn split_off(&mut self, those: u64) -> Batch {
        let (mut n, mut part) = (0, Batch::new());
        self.split(
            |_| {
                let stays = those >> n & 1 == 0;
                n += 1;
                stays
            },
            |packet| {
                // There is room: the part is no larger than the batch it is taken from.
                let _ = part.push(packet);
            },
        );
        part
    }

    /// Keeps the packets for which `keep` returns true, and drops the others.
    #[inline]
    pub fn retain(&mut self, keep: impl FnMut(&mut Packet) -> bool) {
        self.split(keep, drop);
    }

    /// Passes each packet to `f` and keeps the packets it returns, in order.
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

    /// Prefetches the metadata and first data of packet `i`. Does nothing past the end.
    #[inline]
    pub fn prefetch(&self, i: usize) {
        if let Some(p) = self.as_slice().get(i) {
            p.prefetch();
        }
    }

    /// Prefetches the metadata and the first data of all packets, which another CPU has written and this one will write.
    /// The lines move once, and all of them at the same time.
    #[inline]
    pub fn take_over(&self) {
        for packet in self.as_slice() {
            prefetch_to_write(packet.as_record().as_ptr());
        }
        for packet in self.as_slice() {
            prefetch_to_write(packet.data().as_ptr());
        }
    }

    /// Prefetches all packets: the first pass of a stage.
    #[inline]
    pub fn prefetch_all(&self) {
        for p in self.as_slice() {
            p.prefetch();
        }
    }

    /// Returns the sum of the packets' lengths, in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.iter().map(|p| p.len() as u64).sum()
    }
}

impl Default for Batch {
    #[inline]
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
            give_back_batch(self);
        }
    }
}

/// Returns all packets of a batch to their pools, one run of packets of the same pool at a time.
pub(crate) fn give_back_batch(batch: &mut Batch) {
    let mut run: Option<Chain> = None;
    while let Some(packet) = batch.pop() {
        let record = packet.into_record();
        // SAFETY: this call owns both records, so their pools live; all records of a chain are of
        // one pool.
        unsafe {
            match &mut run {
                Some(chain) if shared_of(chain.ends().0.cast()) == shared_of(record) => {
                    chain.push(record.cast());
                }
                _ => {
                    if let Some(chain) = run.replace(Chain::new(record.cast())) {
                        give_back_chain(&chain);
                    }
                }
            }
        }
    }
    if let Some(chain) = run {
        // SAFETY: this call owns the chain, whose records are of one pool.
        unsafe { give_back_chain(&chain) };
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = std::slice::IterMut<'a, Packet>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = std::slice::Iter<'a, Packet>;
    #[inline]
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

/// The packets of a batch, first to last. Dropping it drops the packets that are left.
pub struct IntoIter {
    // A batch whose length is 0: the iterator owns the packets from `next` to `end`.
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

/// Removes the packets of a batch, first to last.
pub struct Drain<'a> {
    batch: &'a mut Batch,
    next: usize,
    end: usize,
}

impl Drain<'_> {
    /// Returns the packets that are left.
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Buffers`: up to 64 free frames that are not packets yet.
//!
//! A port takes as many buffers as it has frames, fills them, and gives the rest back. Taking and giving only
//! copies pointers. The metadata of a packet is written once, together with its data ([`Buffers::fill`]).
#![allow(unsafe_code)] // raw records, in an array that is initialised only up to its length

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::arena::RECORD;
use crate::batch::{BATCH, Batch};
use crate::copy::{copy, copy_ends};
use crate::depot::{Shared, give_back_chain};
use crate::packet::Packet;
use crate::record::{self, FRAME_DATA, HEADROOM, Record, short_frame_of};
use crate::returned::Chain;

/// Up to 64 free frames of the frame class, all of one pool. Dropping them returns them to it.
pub struct Buffers {
    len: usize,
    /// The pool of the records, if there are any.
    pool: *const Shared,
    items: [MaybeUninit<NonNull<Record>>; BATCH],
}

// SAFETY: the buffers own their records, and nothing is bound to a thread. The pool's address is only compared.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Creates an empty set.
    #[inline]
    pub const fn new() -> Self {
        Self {
            len: 0,
            pool: std::ptr::null(),
            items: [const { MaybeUninit::uninit() }; BATCH],
        }
    }

    /// Returns the number of buffers.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no buffers.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of buffers that still fit.
    #[inline]
    pub const fn room(&self) -> usize {
        BATCH - self.len
    }

    /// Returns true if all buffers are of a pool.
    #[inline]
    pub(crate) fn are_of(&self, pool: &Shared) -> bool {
        self.is_empty() || std::ptr::eq(self.pool, pool)
    }

    /// Returns the records.
    #[inline]
    pub(crate) fn records(&self) -> &[NonNull<Record>] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) }
    }

    /// Forgets the records, whose ownership has passed to the caller.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.len = 0;
    }

    /// Appends records, at most as many as there is room for.
    ///
    /// # Safety
    /// The caller owns the records, which are free and of the frame class of `pool`, and gives up the first
    /// `min(len, room)` of them. The buffers are of this pool, too.
    #[inline]
    pub(crate) unsafe fn extend(&mut self, pool: &Shared, records: &[NonNull<Record>]) {
        self.pool = pool;
        let count = records.len().min(self.room());
        // SAFETY: there is room for `count` more, and a slot of `MaybeUninit` has the layout of its content.
        unsafe {
            let to = self.items.as_mut_ptr().add(self.len).cast();
            std::ptr::copy_nonoverlapping(records.as_ptr(), to, count);
        }
        self.len += count;
    }

    /// Makes packets of the frames, one buffer each, and appends them to a batch in order. Ends at the first
    /// frame for which there is no buffer, no room in the batch, or that is longer than a packet of the frame
    /// class. The packets' `time`, `dev` and `iif` are not initialised. Returns the number of packets made.
    #[inline]
    pub fn fill<'f>(
        &mut self,
        batch: &mut Batch,
        frames: impl IntoIterator<Item = &'f [u8]>,
    ) -> usize {
        // One index into the records is all that the loop keeps of them.
        let mut records = self.records();
        for (slot, frame) in batch.free_slots().iter_mut().zip(frames) {
            let Some((&record, rest)) = records.split_last() else {
                break;
            };
            let start = if (32..=64).contains(&frame.len()) {
                let start = HEADROOM + line_of(record);
                // SAFETY: as below.
                unsafe { copy_ends::<32>(frame, short_frame_of(record).add(start)) };
                start
            } else if frame.len() <= FRAME_DATA {
                let start = HEADROOM + shift(record, frame.len());
                // SAFETY: the set owns the record. The frame has room for `FRAME_DATA` bytes after its headroom, and
                // `shift` leaves room for these.
                unsafe { copy(frame, short_frame_of(record).add(start)) };
                start
            } else {
                break;
            };
            // SAFETY: the set gives the record up to the packet.
            unsafe {
                record::init_with(record, start as u16, frame.len() as u32);
                slot.write(Packet::from_record(record));
            }
            records = rest;
        }
        let left = records.len();
        let made = self.len - left;
        self.len = left;
        // SAFETY: so many of the free slots have been written, first to last, with packets of the records that the set
        // has just forgotten.
        unsafe { batch.lengthen(made) };
        made
    }
}

/// The lines in which the data of short frames begin.
const LINES: usize = 8;
/// The size of a line, in bytes.
const LINE: usize = 64;

/// Returns how many bytes further on than usual the data of a frame begin. Frames are a power of two of bytes apart,
/// so their first lines share a few sets of the nearest cache, which would not hold those of a batch. Short frames
/// begin in different lines instead.
#[inline(always)]
pub(crate) fn shift(record: NonNull<Record>, len: usize) -> usize {
    match len > FRAME_DATA - LINES * LINE {
        true => 0,
        false => line_of(record),
    }
}

/// Returns the offset of the line in which the data of a short frame begin.
#[inline(always)]
fn line_of(record: NonNull<Record>) -> usize {
    // Odd and even frames differ in their sets.
    record.addr().get() / RECORD / 2 % LINES * LINE
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Buffers").field(&self.len).finish()
    }
}

impl Drop for Buffers {
    #[inline]
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        let mut records = self.records().iter();
        // SAFETY: the set owns the records, which are of one pool, and forgets them below.
        unsafe {
            if let Some(first) = records.next() {
                let mut chain = Chain::new(first.cast());
                records.for_each(|record| chain.push(record.cast()));
                give_back_chain(&chain);
            }
        }
        self.forget();
    }
}

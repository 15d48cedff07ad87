// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shared part of a pool: the depot of free records behind its lock, and the records' way back
//! to it.
//!
//! A record finds its pool through the header of its page. See [`crate::pool`] for the whole.
#![allow(unsafe_code)] // raw records, and the pool's own lifetime

use crate::arena::{Arena, Class, FRAME_FIRST, PAGE, RECORD};
use crate::record::{Record, class_of, page_of};
use crate::returned::{self, Chain, Link, Returned};
use std::ptr::NonNull;
use weir_sync::primitive::CachePadded;
use weir_sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};
use weir_sync::spin::SpinLock;

/// The header at the base of each page.
#[repr(C)]
struct PageHeader {
    shared: *const Shared,
}

/// The state that all handles, magazines and packets of a pool share.
pub(crate) struct Shared {
    /// Packets dropped without a cache. The lines that CPUs write are apart from the fields that all of them read.
    pub(crate) returned: CachePadded<Returned>,
    pub(crate) handles: AtomicUsize,
    pub(crate) refused: AtomicU64,
    /// Address and length of the arena, to tell whether a packet belongs to the pool.
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    /// The start of the arena.
    pub(crate) start: NonNull<u8>,
    /// Bytes of the arena that are usable. It only grows.
    pub(crate) committed: AtomicUsize,
    pub(crate) depot: CachePadded<SpinLock<Depot>>,
}

/// Free records by class, and the arena that provides new ones.
pub(crate) struct Depot {
    pub(crate) arena: Arena,
    /// The pool that contains this depot: written into the headers of new pages, and used to free
    /// the pool.
    pub(crate) shared: *const Shared,
    /// Free records by class. The vectors have capacity for all records, so that freeing never
    /// allocates.
    pub(crate) free: [Vec<NonNull<Record>>; 2],
    pub(crate) total: [usize; 2],
    pub(crate) closed: bool,
}

// SAFETY: the depot owns the records in `free`, and nothing is bound to a thread.
unsafe impl Send for Depot {}

impl Shared {
    /// Moves packets dropped without a cache into the depot.
    pub(crate) fn collect(&self, depot: &mut Depot) {
        if !self.returned.is_empty() && !depot.closed {
            depot.absorb(self.returned.take());
        }
    }

    /// Returns a free record. Grows the arena if necessary.
    pub(crate) fn take(&self, class: Class) -> Option<NonNull<Record>> {
        let mut depot = self.depot.lock();
        if depot.closed {
            return None;
        }
        self.ensure(&mut depot, class, 1);
        let got = depot.free[class as usize].pop();
        if got.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        got
    }

    /// Tries to have `n` free records of a class. Recently freed records are collected first so
    /// that they are reused first: they are still in the CPU caches, unlike records that have been
    /// free for long.
    pub(crate) fn ensure(&self, depot: &mut Depot, class: Class, n: usize) {
        self.collect(depot);
        while depot.free[class as usize].len() < n && !depot.closed {
            if !depot.grow(class) {
                return;
            }
        }
    }

    #[inline]
    pub(crate) fn owns(&self, record: NonNull<Record>) -> bool {
        record.addr().get().wrapping_sub(self.base) < self.bytes
    }

    /// Returns true if all records are of this pool and of the frame class.
    #[inline]
    pub(crate) fn owns_frames(&self, records: &[NonNull<Record>]) -> bool {
        let last = self.bytes.wrapping_sub(1);
        // The sign bits of differences stand for comparisons, which the compiler would not vectorize.
        let others = records.iter().fold(0, |others, record| {
            let at = record.addr().get().wrapping_sub(self.base);
            let jumbo = (at % PAGE).wrapping_sub(FRAME_FIRST * RECORD);
            others | at | last.wrapping_sub(at) | jumbo
        });
        others.cast_signed() >= 0
    }
}

impl Depot {
    /// Adds a chain of free records.
    pub(crate) fn absorb(&mut self, mut chain: Option<NonNull<Link>>) {
        while let Some(link) = chain {
            // SAFETY: the chain was taken as a whole, so this call owns it.
            chain = unsafe { returned::next(link) };
            let record = link.cast();
            self.free[class_of(record) as usize].push(record);
        }
    }

    /// Adds one page of a class. Returns false at the limit.
    pub(crate) fn grow(&mut self, class: Class) -> bool {
        let Some(page) = self.arena.commit() else {
            return false;
        };
        let shared = self.shared;
        // SAFETY: the page is new, zeroed and owned by the depot; the header lies in its first 64
        // bytes, which belong to no record of either class.
        unsafe { page.cast::<PageHeader>().write(PageHeader { shared }) };
        let committed = self.arena.committed() * PAGE;
        // SAFETY: the pool contains this depot, so it exists; the field is atomic.
        unsafe { &(*shared).committed }.store(committed, Ordering::Release);
        let frames = class.frames();
        let free = &mut self.free[class as usize];
        self.total[class as usize] += frames.len();
        free.reserve(self.total[class as usize] - free.len());
        for i in frames.rev() {
            // SAFETY: record `i` lies in the page.
            free.push(unsafe { page.add(i * size_of::<Record>()).cast() });
        }
        true
    }
}

/// Returns a record to its pool.
///
/// # Safety
/// The caller owns the record and does not use it again.
#[inline]
pub(crate) unsafe fn give_back(record: NonNull<Record>) {
    // SAFETY: by contract.
    unsafe { give_back_chain(&Chain::new(record.cast())) };
}

/// Returns the records of a chain to their pool, which is the same for all.
///
/// # Safety
/// The caller owns the records and does not use them again.
#[inline]
pub(crate) unsafe fn give_back_chain(chain: &Chain) {
    let (newest, oldest) = chain.ends();
    // SAFETY: a record lies in a page with a header; the pool lives as long as the record is in
    // use.
    unsafe {
        let shared = shared_of(newest.cast());
        if (*shared).returned.push(newest, oldest) {
            free_shared(shared);
        }
    }
}

/// Returns a free record from the pool of `record`.
///
/// # Safety
/// The caller owns `record`.
pub(crate) unsafe fn alloc_beside(
    record: NonNull<Record>,
    class: Class,
) -> Option<NonNull<Record>> {
    // SAFETY: the caller's record keeps the pool alive during the call.
    let shared = unsafe { &*shared_of(record) };
    shared.take(class)
}

/// Returns the address of the first page of the pool of `record`.
///
/// # Safety
/// The caller owns `record`.
pub(crate) unsafe fn base_of(record: NonNull<Record>) -> usize {
    // SAFETY: the caller's record keeps the pool alive during the call.
    unsafe { (*shared_of(record)).base }
}

/// # Safety
/// `record` is a record of a live arena.
#[inline]
pub(crate) unsafe fn shared_of(record: NonNull<Record>) -> *const Shared {
    // SAFETY: each committed page begins with its header.
    unsafe { page_of(record).cast::<PageHeader>().as_ref().shared }
}

/// # Safety
/// Nothing else can access the pool.
pub(crate) unsafe fn free_shared(shared: *const Shared) {
    // SAFETY: created by `Box::leak` in `Pool::new`, and freed once.
    drop(unsafe { Box::from_raw(shared.cast_mut()) });
}

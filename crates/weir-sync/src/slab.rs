// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An allocator for many objects of one type, with single and bulk operations (Linux's
//! `kmem_cache_alloc_bulk`).
//!
//! Cells come from chunks of 64 KiB, or more for large types. Each stack CPU keeps a magazine of up
//! to 64 free cells behind a lock that in practice only that CPU takes. Magazines exchange half
//! their capacity with a shared depot. So 31 of 32 single operations, and all but one step of a
//! bulk operation, touch nothing that another CPU writes. A cell has no header: a [`SlabBox`] is
//! one word, and finds its slab through the chunk its address lies in.
//!
//! Any thread may allocate, and may drop boxes of any slab. A box's memory goes to the magazine of
//! the CPU that dropped it. The slab returns its memory to the system when its last handle is
//! dropped or, if boxes outlive the handles, when the last box is. Ordering: the next owner of a
//! cell acquires what the previous one released.
//!
//! Lock order: a magazine, then the depot. Neither is held while a value is created or dropped.
#![allow(unsafe_code)] // cells in chunks carved by hand

use crate::percpu::PerCpu;
use crate::primitive::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering, fence};
use crate::primitive::{alloc, dealloc, full_fence};
use crate::spin::{LockStats, SpinLock};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::handle_alloc_error;

/// The minimum size of a chunk. A chunk is aligned to its size.
const CHUNK: usize = if cfg!(loom) { 64 } else { 64 << 10 };
/// The number of cells that a magazine and the depot exchange at a time. A magazine holds up to
/// twice as many.
const BATCH: usize = if cfg!(loom) { 1 } else { 32 };

type Cell<T> = MaybeUninit<T>;

/// The header at the start of a chunk.
struct Header<T> {
    inner: NonNull<Inner<T>>,
}

struct Depot<T> {
    free: Vec<NonNull<Cell<T>>>,
    chunks: Vec<NonNull<Header<T>>>,
}

/// The free cells of one CPU.
struct Magazine<T>(Vec<NonNull<Cell<T>>>);

impl<T> Default for Magazine<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct Inner<T> {
    magazines: PerCpu<SpinLock<Magazine<T>>>,
    depot: SpinLock<Depot<T>>,
    /// The maximum number of cells.
    limit: usize,
    handles: AtomicUsize,
    /// True once no handle is left.
    closed: AtomicBool,
    /// The number of remaining boxes once the slab is closed. Frees before `close` has counted them
    /// take it below zero.
    orphans: AtomicIsize,
}

// SAFETY: cells are raw memory; the cells in magazines and the depot are free and accessed under
// their locks.
unsafe impl<T: Send> Send for Inner<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Inner<T> {}

/// Returns the layout of a chunk, the offset of its first cell, and the number of cells.
const fn shape<T>() -> (Layout, usize, usize) {
    let align = if align_of::<T>() > align_of::<Header<T>>() {
        align_of::<T>()
    } else {
        align_of::<Header<T>>()
    };
    let first = size_of::<Header<T>>().next_multiple_of(align);
    // A chunk has at least eight cells, so that the header's share stays small.
    let cell = if size_of::<T>() == 0 {
        1
    } else {
        size_of::<T>()
    };
    let least = first + if cfg!(loom) { cell } else { 8 * cell };
    let size = if least > CHUNK {
        least.next_power_of_two()
    } else {
        CHUNK
    };
    match Layout::from_size_align(size, size) {
        Ok(layout) => (layout, first, (size - first) / cell),
        Err(_) => panic!("objects of a slab are well below half the address space"),
    }
}

impl<T> Inner<T> {
    /// Allocates a chunk and puts its cells into the depot. Returns false if the limit is reached.
    fn grow(&self, this: NonNull<Self>, depot: &mut Depot<T>) -> bool {
        let (layout, first, cells) = shape::<T>();
        let cells = cells.min(self.limit.saturating_sub(depot.chunks.len() * cells));
        if cells == 0 {
            return false;
        }
        // SAFETY: the size is not zero.
        let Some(chunk) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let header = chunk.cast::<Header<T>>();
        // SAFETY: the header and all cells lie in the chunk and are aligned.
        unsafe {
            header.write(Header { inner: this });
            let first = chunk.add(first).cast::<Cell<T>>();
            // In reverse, so that the lowest address is used first.
            depot
                .free
                .extend((0..cells).rev().map(|cell| first.add(cell)));
        }
        depot.chunks.push(header);
        true
    }

    /// Moves up to `want` free cells to `cells`, from the magazine first.
    fn take(&self, this: NonNull<Self>, want: usize, cells: &mut Vec<NonNull<Cell<T>>>) {
        let mut magazine = self.magazines.local().lock();
        let short = want.saturating_sub(magazine.0.len());
        if short > 0 {
            let mut depot = self.depot.lock();
            let refill = short + BATCH;
            while depot.free.len() < refill && self.grow(this, &mut depot) {}
            let keep = depot.free.len().saturating_sub(refill);
            // The cells that the magazine held before stay on top and are used first.
            let old = core::mem::take(&mut magazine.0);
            magazine.0.extend(depot.free.drain(keep..));
            magazine.0.extend(old);
        }
        let keep = magazine.0.len().saturating_sub(want);
        cells.extend(magazine.0.drain(keep..).rev());
    }

    /// Returns cells to the slab. `this` may be freed by the time it returns.
    fn give(this: NonNull<Self>, cells: impl ExactSizeIterator<Item = NonNull<Cell<T>>>) {
        let many = cells.len();
        {
            // SAFETY: the caller's boxes keep the slab alive until they are counted below.
            let inner = unsafe { this.as_ref() };
            let mut magazine = inner.magazines.local().lock();
            // Pairs with `close`, which sets `closed` and then looks for magazines. Here the
            // magazine is created first and `closed` read second.
            full_fence();
            if !inner.closed.load(Ordering::SeqCst) {
                magazine.0.extend(cells);
                if magazine.0.len() > 2 * BATCH {
                    inner.depot.lock().free.extend(magazine.0.drain(BATCH..));
                }
                return;
            }
        }
        Self::count(this, -(many as isize));
    }

    /// Closes the slab when its last handle is dropped: counts the remaining boxes, and frees
    /// everything if there are none.
    fn close(this: NonNull<Self>) {
        let outstanding = {
            // SAFETY: alive until `count` reaches zero.
            let inner = unsafe { this.as_ref() };
            inner.closed.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // Nothing is added to a magazine after its lock has been taken here.
            let cached: usize = inner.magazines.iter().map(|(_, m)| m.lock().0.len()).sum();
            let depot = inner.depot.lock();
            let total = inner.cells(depot.chunks.len());
            total - depot.free.len() - cached
        };
        Self::count(this, outstanding as isize);
    }

    /// Adds to the number of orphans and frees the slab when the sum reaches zero. The number is
    /// negative until `close` has added its count.
    fn count(this: NonNull<Self>, by: isize) {
        // SAFETY: alive, because this caller's part is not counted yet.
        let before = unsafe { this.as_ref() }
            .orphans
            .fetch_add(by, Ordering::AcqRel);
        if before + by == 0 {
            // SAFETY: every box and handle is counted, so no other thread reaches this point or
            // holds a reference.
            let inner = unsafe { Box::from_raw(this.as_ptr()) };
            let layout = shape::<T>().0;
            for chunk in &inner.depot.lock().chunks {
                // SAFETY: allocated by `grow` with this layout; all its cells are free.
                unsafe { dealloc(chunk.as_ptr().cast(), layout) };
            }
        }
    }

    fn cells(&self, chunks: usize) -> usize {
        (chunks * shape::<T>().2).min(self.limit)
    }
}

/// The statistics of a slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabStats {
    /// Boxes in existence.
    pub live: usize,
    /// Cells, free and taken.
    pub cells: usize,
    /// Bytes of all chunks.
    pub bytes: usize,
    /// The depot's lock: how often magazines had to exchange cells, and how contended that was.
    pub depot: LockStats,
}

/// A handle of a slab. See the module documentation. Cloning copies the handle.
pub struct Slab<T: Send> {
    inner: NonNull<Inner<T>>,
    owns: PhantomData<T>,
}

// SAFETY: hands out cells under locks.
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Slab<T> {}

impl<T: Send> Slab<T> {
    /// Creates an empty slab of up to `limit` cells, some of which may sit in other CPUs'
    /// magazines. Memory is allocated on demand and kept.
    pub fn new(limit: usize) -> Self {
        let inner = Box::new(Inner {
            magazines: PerCpu::new(),
            depot: SpinLock::new(Depot {
                free: Vec::new(),
                chunks: Vec::new(),
            }),
            limit,
            handles: AtomicUsize::new(1),
            closed: AtomicBool::new(false),
            orphans: AtomicIsize::new(0),
        });
        Self {
            inner: NonNull::from(Box::leak(inner)),
            owns: PhantomData,
        }
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: a handle keeps it alive.
        unsafe { self.inner.as_ref() }
    }

    /// Boxes `value`. Returns it as the error if the limit is reached.
    pub fn alloc(&self, value: T) -> Result<SlabBox<T>, T> {
        let popped = self.inner().magazines.local().lock().0.pop();
        let cell = popped.or_else(|| {
            let mut one = Vec::with_capacity(1);
            self.inner().take(self.inner, 1, &mut one);
            one.pop()
        });
        match cell {
            Some(cell) => Ok(SlabBox::fill(cell, value)),
            None => Err(value),
        }
    }

    /// Boxes `many` values made by `make`, or fewer if the limit is reached, and adds them to
    /// `boxes`. Returns how many it added.
    pub fn alloc_bulk(
        &self,
        many: usize,
        boxes: &mut Vec<SlabBox<T>>,
        mut make: impl FnMut() -> T,
    ) -> usize {
        let mut cells = Cells {
            inner: self.inner,
            free: Vec::with_capacity(many),
        };
        self.inner().take(self.inner, many, &mut cells.free);
        let taken = cells.free.len();
        boxes.reserve(taken);
        cells.free.reverse();
        while !cells.free.is_empty() {
            let value = make();
            let cell = cells.free.pop().expect("just found not empty");
            boxes.push(SlabBox::fill(cell, value));
        }
        taken
    }

    /// Drops boxes of this slab and frees their memory in bulk. Boxes of another slab are returned
    /// to their own slab.
    pub fn free_bulk(&self, boxes: impl IntoIterator<Item = SlabBox<T>>) {
        let mut cells = Cells {
            inner: self.inner,
            free: Vec::new(),
        };
        for this in boxes {
            if SlabBox::slab(&this) == self.inner {
                cells.free.push(this.empty());
            }
        }
    }

    /// Returns the statistics. They are exact while no thread uses the slab.
    pub fn stats(&self) -> SlabStats {
        let inner = self.inner();
        let cached: usize = inner.magazines.iter().map(|(_, m)| m.lock().0.len()).sum();
        let depot = inner.depot.lock();
        let (chunks, free) = (depot.chunks.len(), depot.free.len());
        drop(depot);
        let cells = inner.cells(chunks);
        SlabStats {
            live: cells.saturating_sub(free + cached),
            cells,
            bytes: chunks * shape::<T>().0.size(),
            depot: inner.depot.stats(),
        }
    }
}

/// Cells in transit. The drop returns them to the slab, also after a panic.
struct Cells<T> {
    inner: NonNull<Inner<T>>,
    free: Vec<NonNull<Cell<T>>>,
}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        if !self.free.is_empty() {
            Inner::give(self.inner, self.free.drain(..));
        }
    }
}

impl<T: Send> Clone for Slab<T> {
    fn clone(&self) -> Self {
        self.inner().handles.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: self.inner,
            owns: PhantomData,
        }
    }
}

impl<T: Send> Drop for Slab<T> {
    fn drop(&mut self) {
        if self.inner().handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            Inner::close(self.inner);
        }
    }
}

impl<T: Send> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slab").field(&self.stats()).finish()
    }
}

/// A value in a slab, one word in size. It may outlive the slab's handles.
pub struct SlabBox<T> {
    cell: NonNull<Cell<T>>,
    owns: PhantomData<T>,
}

// SAFETY: owns its value, as a box does; the slab to which it returns the cell may be shared.
unsafe impl<T: Send> Send for SlabBox<T> {}
// SAFETY: shares its value, as a box does.
unsafe impl<T: Sync> Sync for SlabBox<T> {}

impl<T> SlabBox<T> {
    fn fill(cell: NonNull<Cell<T>>, value: T) -> Self {
        // SAFETY: a free cell taken from the slab belongs to the caller alone.
        unsafe { cell.write(MaybeUninit::new(value)) };
        Self {
            cell,
            owns: PhantomData,
        }
    }

    fn slab(this: &Self) -> NonNull<Inner<T>> {
        let size = shape::<T>().0.size();
        let header = this.cell.as_ptr().map_addr(|address| address & !(size - 1));
        // SAFETY: chunks are aligned to their size, with the header at the start; a cell's pointer
        // was derived from its chunk's.
        unsafe { (*header.cast::<Header<T>>()).inner }
    }

    /// Drops the value and returns the cell, which the caller must return to the slab.
    fn empty(self) -> NonNull<Cell<T>> {
        // Returns the cell to the slab if dropping the value panics.
        let cells = Cells {
            inner: Self::slab(&self),
            free: vec![self.cell],
        };
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the cell is full as long as the box exists, and the box is forgotten.
        unsafe { this.cell.as_ptr().cast::<T>().drop_in_place() };
        let mut cells = core::mem::ManuallyDrop::new(cells);
        core::mem::take(&mut cells.free);
        this.cell
    }

    /// Moves the value out.
    pub fn into_inner(self) -> T {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the cell is full, and is read once because the box is forgotten.
        let value = unsafe { this.cell.as_ptr().cast::<T>().read() };
        Inner::give(Self::slab(&this), core::iter::once(this.cell));
        value
    }
}

impl<T> Drop for SlabBox<T> {
    fn drop(&mut self) {
        struct Give<T>(NonNull<Inner<T>>, NonNull<Cell<T>>);
        impl<T> Drop for Give<T> {
            fn drop(&mut self) {
                Inner::give(self.0, core::iter::once(self.1));
            }
        }
        // Returns the cell even if dropping the value panics.
        let _give = Give(Self::slab(self), self.cell);
        // SAFETY: the cell is full and its value is dropped once.
        unsafe { self.cell.as_ptr().cast::<T>().drop_in_place() };
    }
}

impl<T> Deref for SlabBox<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the cell is full as long as the box exists.
        unsafe { self.cell.as_ref().assume_init_ref() }
    }
}

impl<T> DerefMut for SlabBox<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the cell is full as long as the box exists, and borrowed exclusively.
        unsafe { self.cell.as_mut().assume_init_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for SlabBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::{Tracked, check};

    #[test]
    fn a_cell_has_one_owner() {
        check(2, || {
            let slab = Slab::new(4);
            let other = {
                let slab = slab.clone();
                loom::thread::spawn(move || {
                    let boxed = slab.alloc(Tracked::new(1)).ok().expect("there are four");
                    assert_eq!(boxed.read(), 1);
                })
            };
            let boxed = slab.alloc(Tracked::new(2)).ok().expect("there are four");
            assert_eq!(boxed.read(), 2);
            drop(boxed);
            other.join().unwrap();
            assert_eq!(slab.stats().live, 0);
        });
    }

    #[test]
    fn the_last_box_or_handle_frees_the_slab() {
        check(3, || {
            let slab = Slab::new(4);
            let boxed = slab.alloc(Tracked::new(1)).ok().expect("there are four");
            let other = loom::thread::spawn(move || {
                // This magazine does not exist yet.
                crate::percpu::bind(1);
                drop(boxed);
            });
            drop(slab);
            other.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stack CPUs and per-CPU data.
//!
//! A *stack CPU* is a worker thread of a stack, numbered from 0; the number is unrelated to the
//! processor it runs on. A worker calls [`bind`] once when it starts. A thread that never did
//! (control connections, tests) counts as CPU 0; structures that many such threads share spread
//! them by [`thread_token`] instead.
//!
//! [`PerCpu<T>`] holds one `T` per CPU, created on first use; an unused one takes 16 bytes. Slots
//! are allocated in blocks (CPU 0; 1; 2-3; 4-7; ...). The slot of CPU 0 is found with one load, and that of
//! another CPU with two. A slot never moves, and lies on cache lines of its own. Several threads may access the same slot (unbound
//! threads, readers that sum up), so `T` must be `Sync`; use relaxed atomics for counters.
//! [`Counters`] holds the counters of very many objects.
#![allow(unsafe_code)] // lazily made blocks behind atomic pointers

mod counters;

pub use counters::{Counters, add_to};

use crate::primitive::CachePadded;
use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

/// The maximum number of stack CPUs: numbers are 0 to 255.
pub const MAX_CPUS: usize = 256;

/// The number of blocks: one for CPU 0, then one for each power of two.
const BLOCKS: usize = MAX_CPUS.trailing_zeros() as usize + 1;

/// The value of `BOUND` in a thread that never called `bind`.
const UNBOUND: u32 = u32::MAX;

#[cfg(not(loom))]
thread_local! {
    static BOUND: Cell<u32> = const { Cell::new(UNBOUND) };
}
#[cfg(loom)]
loom::thread_local! {
    static BOUND: Cell<u32> = Cell::new(UNBOUND);
}

/// Makes the calling thread stack CPU `cpu` (modulo [`MAX_CPUS`]) from now on.
///
/// Two threads may have the same number: data stays correct, but they share its cache lines.
pub fn bind(cpu: usize) {
    let cpu = (cpu % MAX_CPUS) as u32;
    BOUND.with(|bound| bound.set(cpu));
}

/// Undoes [`bind`].
pub fn unbind() {
    BOUND.with(|bound| bound.set(UNBOUND));
}

/// Returns the calling thread's CPU number, if it has one.
#[inline]
pub fn bound() -> Option<usize> {
    let cpu = BOUND.with(Cell::get);
    (cpu != UNBOUND).then_some(cpu as usize)
}

/// Returns the calling thread's CPU number, or 0 for a thread that has none.
#[inline]
pub fn current() -> usize {
    bound().unwrap_or(0)
}

/// Returns a number that differs between threads alive at the same time. It differs from run to
/// run: use it only to spread load, never where it could affect an observable order.
#[inline]
pub fn thread_token() -> usize {
    BOUND.with(|bound| core::ptr::from_ref(bound).addr())
}

/// One `T` for each stack CPU. See the module documentation.
pub struct PerCpu<T> {
    /// The block of CPU 0.
    first: Block<T>,
    /// The other blocks, once one of their CPUs has a slot.
    rest: AtomicPtr<Rest<T>>,
}

/// The start of a block, or null.
type Block<T> = AtomicPtr<CachePadded<T>>;
/// The blocks after that of CPU 0.
type Rest<T> = [Block<T>; BLOCKS - 1];

// SAFETY: the blocks own their values. `get` and `iter` hand out `&T` on any thread (`Sync`), and
// any thread may drop the values (`Send`).
unsafe impl<T: Send + Sync> Sync for PerCpu<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for PerCpu<T> {}

/// Returns a CPU's block and its offset there.
#[inline(always)]
fn place(cpu: usize) -> (usize, usize) {
    // The same as `usize::BITS - cpu.leading_zeros()`, but computed from a number that is not zero.
    let block = ((2 * cpu) | 1).ilog2() as usize;
    (block, cpu - block_start(block))
}

/// Returns the first CPU of a block.
#[inline(always)]
fn block_start(block: usize) -> usize {
    (1 << block) / 2
}

/// Returns the number of CPUs in a block.
fn block_len(block: usize) -> usize {
    block_start(block).max(1)
}

impl<T: Default> PerCpu<T> {
    /// Creates a container without slots.
    pub fn new() -> Self {
        Self {
            first: AtomicPtr::new(core::ptr::null_mut()),
            rest: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Returns the slot of `cpu` (modulo [`MAX_CPUS`]), creating it with `T::default()` if
    /// necessary. Any thread may call it.
    #[inline]
    pub fn get(&self, cpu: usize) -> &T {
        let (block, offset) = place(cpu % MAX_CPUS);
        let start = match self.start(block) {
            Some(start) => start,
            None => self.make(block),
        };
        // SAFETY: a published block stays until `self` is dropped, and `offset` lies in it.
        unsafe { &start.add(offset).as_ref().0 }
    }

    /// Returns the slot of `cpu` (modulo [`MAX_CPUS`]), if it exists. Any thread may call it.
    #[inline(always)]
    pub fn made(&self, cpu: usize) -> Option<&T> {
        let (block, offset) = place(cpu % MAX_CPUS);
        let start = self.start(block)?;
        // SAFETY: as in `get`.
        Some(unsafe { &start.add(offset).as_ref().0 })
    }

    /// Returns the slot of the calling thread's CPU.
    #[inline]
    pub fn local(&self) -> &T {
        self.get(current())
    }

    #[cold]
    fn make(&self, block: usize) -> NonNull<CachePadded<T>> {
        let fresh: Box<[CachePadded<T>]> = (0..block_len(block))
            .map(|_| CachePadded(T::default()))
            .collect();
        let fresh = Box::into_raw(fresh);
        let null = core::ptr::null_mut();
        let slot = match block.checked_sub(1) {
            None => &self.first,
            Some(at) => &self.make_rest()[at],
        };
        match slot.compare_exchange(null, fresh.cast(), Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `fresh` came from a box, so it is not null.
            Ok(_) => unsafe { NonNull::new_unchecked(fresh.cast()) },
            Err(winner) => {
                // SAFETY: `fresh` was never published; `winner` is not null because the exchange
                // failed on it.
                unsafe {
                    drop(Box::from_raw(fresh));
                    NonNull::new_unchecked(winner)
                }
            }
        }
    }
}

impl<T> PerCpu<T> {
    /// Returns the blocks after that of CPU 0, if they exist.
    #[inline(always)]
    fn rest(&self) -> Option<&Rest<T>> {
        // SAFETY: null, or published by `make_rest`, and freed only by the drop of `self`.
        unsafe { self.rest.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the start of a block, if it exists.
    #[inline(always)]
    fn start(&self, block: usize) -> Option<NonNull<CachePadded<T>>> {
        let block = match block.checked_sub(1) {
            None => &self.first,
            Some(at) => &self.rest()?[at],
        };
        NonNull::new(block.load(Ordering::Acquire))
    }

    /// Returns the blocks after that of CPU 0, and makes them if they do not exist.
    fn make_rest(&self) -> &Rest<T> {
        if let Some(rest) = self.rest() {
            return rest;
        }
        let null = core::ptr::null_mut();
        let fresh: Box<Rest<T>> = Box::new(core::array::from_fn(|_| AtomicPtr::new(null)));
        let fresh = Box::into_raw(fresh);
        let null = core::ptr::null_mut();
        let slot = &self.rest;
        match slot.compare_exchange(null, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just published, and freed only by the drop of `self`.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` was never published; the winner is as in `rest`.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    /// Iterates over the existing slots with their CPU, in the order of CPUs. Slots are created in
    /// blocks, so some may exist that were never requested.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        (0..BLOCKS).flat_map(|block| {
            let start = self.start(block);
            let len = start.map_or(0, |_| block_len(block));
            let start = start.unwrap_or(NonNull::dangling());
            (0..len).map(move |offset| {
                // SAFETY: a published block stays until `self` is dropped, and has `len` slots.
                let slot = unsafe { &start.add(offset).as_ref().0 };
                (block_start(block) + offset, slot)
            })
        })
    }
}

impl<T: Default> Default for PerCpu<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        for block in 0..BLOCKS {
            if let Some(start) = self.start(block) {
                let slots = core::ptr::slice_from_raw_parts_mut(start.as_ptr(), block_len(block));
                // SAFETY: created by `make` from a box of this length; exclusive borrow.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
        let rest = self.rest.load(Ordering::Acquire);
        if !rest.is_null() {
            // SAFETY: created by `make_rest` from a box; exclusive borrow.
            drop(unsafe { Box::from_raw(rest) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;
    use crate::primitive::atomic::AtomicUsize;

    #[test]
    fn two_makers_agree_on_one_slot() {
        check(3, || {
            let data = Arc::new(PerCpu::<AtomicUsize>::new());
            let other = {
                let data = data.clone();
                loom::thread::spawn(move || data.get(2).fetch_add(1, Ordering::Relaxed))
            };
            data.get(2).fetch_add(1, Ordering::Relaxed);
            other.join().unwrap();
            assert_eq!(data.get(2).load(Ordering::Relaxed), 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_cpu_has_a_slot_of_its_own() {
        let data = PerCpu::<AtomicUsize>::new();
        assert_eq!((size_of_val(&data), data.iter().count()), (16, 0));
        for cpu in (0..MAX_CPUS).rev() {
            data.get(cpu).store(cpu, Ordering::Relaxed);
        }
        assert!(
            data.iter()
                .all(|(cpu, value)| value.load(Ordering::Relaxed) == cpu)
        );
        assert_eq!(data.iter().count(), MAX_CPUS);
    }

    #[test]
    fn a_thread_is_the_cpu_it_is_bound_to() {
        assert_eq!((bound(), current()), (None, 0));
        bind(MAX_CPUS + 3);
        assert_eq!((bound(), current()), (Some(3), 3));
        assert_eq!(std::thread::spawn(bound).join().unwrap(), None);
        unbind();
        assert_eq!(bound(), None);
    }

    #[test]
    fn stress_slots_are_made_once() {
        for _ in 0..if cfg!(miri) { 5 } else { 200 } {
            let data = PerCpu::<AtomicUsize>::new();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        (0..8).for_each(|cpu| {
                            assert!(data.get(cpu).fetch_add(1, Ordering::Relaxed) < 4)
                        })
                    });
                }
            });
            assert!(
                data.iter()
                    .all(|(_, value)| value.load(Ordering::Relaxed) == 4)
            );
        }
    }
}

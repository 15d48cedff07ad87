// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Per-CPU counters for very many objects: one slot per object in each CPU's blocks.
//!
//! Linux allocates the per-CPU counters of an action from a common area under one lock, which at 24
//! CPUs is most of the cost of inserting a rule. Here an object takes a number from an
//! [`IndexAllocator`], without a lock. Each CPU that counts for the object finds its set of `N`
//! words under that number in blocks of its own, allocated when it first counts there. An object
//! that is never hit costs only its number; one that is hit costs `N` words per CPU. Blocks double
//! in size, so a set is found with two loads and never moves. Their memory comes zeroed from the
//! system, is populated page by page on first access, and is kept until the drop.
//!
//! [`add_to`] is for the CPU's own thread: two CPUs never write the same set, so it uses plain
//! loads and stores. A thread that only stands in for a CPU uses [`Counters::set`] and atomic
//! additions.
#![allow(unsafe_code)] // blocks behind atomic pointers

use super::{MAX_CPUS, PerCpu};
use crate::index::IndexAllocator;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::fmt;
use core::ptr::null_mut;
#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

/// The number of sets in the first block.
const FIRST: u32 = if cfg!(loom) { 1 } else { 64 };
/// The number of blocks, each twice as large as the previous one: enough for 32-bit numbers.
const BLOCKS: usize = (u32::MAX / FIRST).ilog2() as usize + 1;

/// The counters of one object on one CPU.
type Set<const N: usize> = [AtomicU64; N];

/// The blocks of one CPU.
struct Blocks<const N: usize>([AtomicPtr<Set<N>>; BLOCKS]);

impl<const N: usize> Default for Blocks<N> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| AtomicPtr::new(null_mut())))
    }
}

/// Returns a slot's block and its offset there.
#[inline(always)]
fn place(slot: u32) -> (usize, usize) {
    // Counted as if blocks of half the size continued down to a single set before the first block.
    let place = u64::from(slot) + u64::from(FIRST);
    let (size, first) = (place.ilog2(), FIRST.ilog2());
    ((size - first) as usize, (place ^ 1 << size) as usize)
}

fn block_len(block: usize) -> usize {
    (FIRST as usize) << block
}

#[cfg(not(loom))]
fn zeroed<const N: usize>(len: usize) -> *mut Set<N> {
    const { assert!(N > 0, "a set has counters") };
    let layout = Layout::array::<Set<N>>(len).expect("a block is far below the address space");
    // SAFETY: the size is not zero, and zeroed memory is a valid atomic word.
    let sets = unsafe { alloc_zeroed(layout) };
    if sets.is_null() {
        handle_alloc_error(layout)
    }
    sets.cast()
}

#[cfg(loom)]
fn zeroed<const N: usize>(len: usize) -> *mut Set<N> {
    let set = || core::array::from_fn(|_| AtomicU64::new(0));
    Box::into_raw((0..len).map(|_| set()).collect::<Box<[Set<N>]>>()).cast()
}

/// # Safety
/// `sets` came from `zeroed(len)` and is not freed again.
unsafe fn free<const N: usize>(sets: *mut Set<N>, len: usize) {
    // SAFETY: by contract.
    drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(sets, len)) });
}

impl<const N: usize> Blocks<N> {
    #[inline(always)]
    fn get(&self, slot: u32) -> Option<&Set<N>> {
        let (block, offset) = place(slot);
        let sets = self.0.get(block)?.load(Ordering::Acquire);
        // SAFETY: a published block stays until the drop, and `offset` lies in it.
        (!sets.is_null()).then(|| unsafe { &*sets.add(offset) })
    }

    #[cold]
    fn make(&self, slot: u32) -> &Set<N> {
        let (block, offset) = place(slot);
        let fresh = zeroed(block_len(block));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let sets = match self.0[block].compare_exchange(null_mut(), fresh, success, failure) {
            Ok(_) => fresh,
            Err(winner) => {
                // SAFETY: it was never published.
                unsafe { free(fresh, block_len(block)) };
                winner
            }
        };
        // SAFETY: as in `get`.
        unsafe { &*sets.add(offset) }
    }
}

impl<const N: usize> Drop for Blocks<N> {
    fn drop(&mut self) {
        for (block, sets) in self.0.iter().enumerate() {
            let sets = sets.load(Ordering::Acquire);
            if !sets.is_null() {
                // SAFETY: allocated by `make` with this length; exclusive borrow.
                unsafe { free(sets, block_len(block)) };
            }
        }
    }
}

/// Adds to a set that belongs to the calling thread's CPU.
#[inline(always)]
pub fn add_to<const N: usize>(set: &[AtomicU64; N], by: [u64; N]) {
    for (counter, by) in set.iter().zip(by) {
        if by != 0 {
            let sum = counter.load(Ordering::Relaxed).wrapping_add(by);
            counter.store(sum, Ordering::Relaxed);
        }
    }
}

/// Sets of `N` counters by slot and CPU. See the module documentation.
pub struct Counters<const N: usize> {
    slots: IndexAllocator,
    cpus: PerCpu<Blocks<N>>,
}

impl<const N: usize> Counters<N> {
    /// Creates counters without slots or memory.
    pub fn new() -> Self {
        // Leaves out the last block.
        let last = FIRST * ((1 << (BLOCKS - 1)) - 1) - 1;
        Self {
            slots: IndexAllocator::new(0..=last),
            cpus: PerCpu::new(),
        }
    }

    /// Allocates a slot, whose counters are zero. Any thread may call it. Returns `None` if all
    /// slots, about 2·10⁹, are taken.
    pub fn allocate(&self) -> Option<u32> {
        self.slots.allocate()
    }

    /// Frees a slot. No thread may count or read there any more, so this is usually called in a
    /// callback after a grace period.
    pub fn free(&self, slot: u32) {
        for (_, blocks) in self.cpus.iter() {
            for counter in blocks.get(slot).into_iter().flatten() {
                counter.store(0, Ordering::Relaxed);
            }
        }
        self.slots.free(slot);
    }

    /// Returns the set of a CPU (modulo [`MAX_CPUS`]), if it exists.
    #[inline(always)]
    pub fn made(&self, cpu: usize, slot: u32) -> Option<&[AtomicU64; N]> {
        self.cpus.made(cpu)?.get(slot)
    }

    /// Returns the set of a CPU (modulo [`MAX_CPUS`]), creating it if necessary.
    #[inline(always)]
    pub fn set(&self, cpu: usize, slot: u32) -> &[AtomicU64; N] {
        let blocks = self.cpus.get(cpu % MAX_CPUS);
        match blocks.get(slot) {
            Some(set) => set,
            None => blocks.make(slot),
        }
    }

    /// Returns the sums over all CPUs. Any thread may call it; each counter is a value it had at
    /// some time during the call.
    pub fn sum(&self, slot: u32) -> [u64; N] {
        let mut sums = [0u64; N];
        for set in self.cpus.iter().filter_map(|(_, blocks)| blocks.get(slot)) {
            for (sum, counter) in sums.iter_mut().zip(set) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        sums
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Debug for Counters<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = self.slots.iter().map(|slot| (slot, self.sum(slot)));
        f.debug_map().entries(sums).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::check;
    use crate::primitive::Arc;

    /// Two threads that both act as CPU 1 race to create a block.
    #[test]
    fn a_block_is_made_once() {
        check(3, || {
            let counters = Arc::new(Counters::<1>::new());
            let slot = counters.allocate().expect("the first");
            let count = move |counters: &Counters<1>| {
                counters.set(1, slot)[0].fetch_add(1, Ordering::Relaxed);
            };
            let other = {
                let counters = counters.clone();
                loom::thread::spawn(move || count(&counters))
            };
            count(&counters);
            other.join().unwrap();
            assert_eq!(counters.sum(slot), [2]);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Operation {
        Allocate,
        Free(usize),
        Add(usize, usize, [u64; 2]),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            3 => Just(Operation::Allocate),
            1 => any::<usize>().prop_map(Operation::Free),
            6 => (any::<usize>(), 0usize..5, any::<[u64; 2]>())
                .prop_map(|(nth, cpu, by)| Operation::Add(nth, cpu, by)),
        ]
    }

    proptest! {
        #![proptest_config(crate::cases(64))]

        #[test]
        fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..600)) {
            let counters = Counters::<2>::new();
            let mut oracle = BTreeMap::<u32, [u64; 2]>::new();
            let nth = |oracle: &BTreeMap<u32, _>, nth: usize| {
                oracle.keys().nth(nth % oracle.len().max(1)).copied()
            };
            for operation in operations {
                match operation {
                    Operation::Allocate => {
                        let slot = counters.allocate().unwrap();
                        prop_assert_eq!(oracle.insert(slot, [0, 0]), None);
                        prop_assert_eq!(counters.sum(slot), [0, 0]);
                    }
                    Operation::Free(which) => if let Some(slot) = nth(&oracle, which) {
                        oracle.remove(&slot);
                        counters.free(slot);
                    }
                    Operation::Add(which, cpu, by) => if let Some(slot) = nth(&oracle, which) {
                        add_to(counters.set(cpu, slot), by);
                        let sums = oracle.get_mut(&slot).unwrap();
                        *sums = core::array::from_fn(|n| sums[n].wrapping_add(by[n]));
                    }
                }
            }
            for (slot, sums) in oracle {
                prop_assert_eq!(counters.sum(slot), sums);
            }
        }
    }

    #[test]
    fn slots_do_not_overlap() {
        let mut expected = (0, 0);
        for slot in 0..100_000 {
            assert_eq!(place(slot), expected);
            expected.1 += 1;
            if expected.1 == block_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let last = FIRST * ((1 << (BLOCKS - 1)) - 1) - 1;
        assert_eq!(place(last), (BLOCKS - 2, block_len(BLOCKS - 2) - 1));
    }

    #[test]
    fn stress_sums_are_exact() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let counters = Counters::<2>::new();
        let slots: Vec<_> = (0..200).map(|_| counters.allocate().unwrap()).collect();
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let (counters, slots) = (&counters, &slots);
                scope.spawn(move || {
                    for n in 0..rounds {
                        add_to(counters.set(cpu, slots[n % slots.len()]), [1, n as u64]);
                    }
                });
            }
        });
        let total = slots.iter().map(|slot| counters.sum(*slot)[0]).sum::<u64>();
        assert_eq!(total, 4 * rounds as u64);
    }
}

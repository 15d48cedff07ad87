// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Concurrency primitives for the stack. The crate knows nothing about networking.
//!
//! | module | purpose |
//! |---|---|
//! | [`primitive`] | the only source of atomics, cells and threads: std's, or loom's under `cfg(loom)` |
//! | [`bell`] | wakes idle workers; costs nothing while they are awake |
//! | [`bits`] | iteration over the set bits of a word |
//! | [`combine`] | flat combining: a list of work, drained by one of its producers at a time |
//! | [`rcu`] | read-copy-update: domains, readers, guards, published pointers, deferred callbacks |
//! | [`exact`] | lists that take no more memory than their elements |
//! | [`gate`] | admits threads until it is closed for good |
//! | [`handover`] | the input queue of a CPU, and the CPUs of flows, which keep their order when they move |
//! | [`hash`] | a hash table whose readers take no lock, only a guard |
//! | [`index`] | a lock-free bitmap allocator of numbers: allocate any, reserve one, free |
//! | [`lane`] | spreads concurrent threads over separate cache lines |
//! | [`list`] | a lockless list: many producers push, one consumer takes everything, in order |
//! | [`order`] | the lock order as a table of classes, and mutexes that check it in debug builds |
//! | [`percpu`] | binding of threads to stack CPUs; per-CPU data and counters, allocated on first use |
//! | [`progress`] | tells a watcher that no request is in progress on any thread |
//! | [`seen`] | a word that says which owners may have something in a table |
//! | [`sieve`] | a Bloom filter in front of a set: rejects most absent keys without a lookup |
//! | [`once_box`] | a value that is made on first use, behind one word |
//! | [`rare`] | state that nearly every object lacks, of one word until it is first changed |
//! | [`slab`] | an allocator for objects of one type, with bulk operations |
//! | [`small_hash`] | a hash table whose readers take no lock, that is a list while it is small |
//! | [`small_map`] | a sorted map that is a list while it is small |
//! | [`spin`] | a spinlock that counts acquisitions, contention and wait time |
//! | [`turn`] | one of several threads serves an object for all of them |
//! | [`word_or_box`] | a small number that may become a box once, in one word |
//!
//! The crate has no process-global state: each domain, table and allocator belongs to its creator.
//! Nothing reads the wall clock or draws random numbers, so a single-threaded program that uses
//! these types is deterministic.
//!
//! Lock order inside the crate: no code takes a second lock while it holds one, except that a slab
//! takes its depot's lock under a magazine's. No lock is held while a callback or the destructor of
//! a user's value runs.
#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("weir-sync packs tags and counts into 64-bit pointers and words");

pub mod bell;
pub mod bits;
pub mod combine;
pub mod cycles;
pub mod exact;
pub mod gate;
pub mod handover;
pub mod hash;
pub mod index;
pub mod lane;
pub mod list;
#[cfg(loom)]
#[doc(hidden)]
#[allow(unsafe_code)] // a cell that loom watches
pub mod models;
pub mod once_box;
pub mod order;
pub mod percpu;
pub mod primitive;
pub mod progress;
pub mod rare;
pub mod rcu;
pub mod seen;
pub mod sieve;
pub mod slab;
pub mod small_hash;
pub mod small_map;
pub mod spin;
pub mod turn;
pub mod word_or_box;

/// Returns the number of cases for a property test: `many`, or an eighth of it under the sanitizers
/// (`WEIR_TEST_SHORT`).
#[cfg(all(test, not(loom)))]
fn cases(many: u32) -> proptest::prelude::ProptestConfig {
    let cases = if std::env::var_os("WEIR_TEST_SHORT").is_some() {
        many / 8
    } else {
        many
    };
    // `PROPTEST_CASES` overrides both.
    proptest::test_runner::contextualize_config(proptest::prelude::ProptestConfig::with_cases(
        cases,
    ))
}

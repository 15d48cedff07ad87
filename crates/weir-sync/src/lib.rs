// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Concurrency building blocks of the stack: nothing in here knows of networking.
//!
//! | module | what |
//! |---|---|
//! | [`primitive`] | the one door to atomics, cells and threads: std's, or loom's under `cfg(loom)` |
//! | [`bits`] | the bits of a word, one by one |
//! | [`combine`] | a list, and one of its producers at a time at work for all |
//! | [`rcu`] | read-copy-update: domains, readers, guards, published pointers, deferred callbacks |
//! | [`gate`] | lets threads in until it is closed for good |
//! | [`hash`] | a hash table with lock-free readers under a guard |
//! | [`index`] | numbers: allocate any, reserve one, free; a bitmap without locks |
//! | [`lane`] | threads at work beside each other write to different lines |
//! | [`list`] | many producers add, one consumer takes all, in order; no locks |
//! | [`percpu`] | which stack CPU a thread is; data and counters per CPU, made on first use |
//! | [`sieve`] | a filter in front of a set: most keys that are not in it are told so without a look |
//! | [`slab`] | memory for objects of one type, taken and given back in bulk |
//! | [`spin`] | a spinlock that counts how often it was taken, contended, and waited for |
//!
//! Nothing is process-global: domains, tables and allocators belong to who made them. Nothing reads
//! the wall clock or draws random numbers; a program that uses these from one thread is deterministic.
//!
//! Lock order inside the crate: no lock is held while another one is taken (but a slab's magazine, then
//! its depot), and none while a callback or the destructor of a user's value runs.
#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("weir-sync packs tags and counts into 64-bit pointers and words");

pub mod bits;
pub mod combine;
pub mod gate;
pub mod hash;
pub mod index;
pub mod lane;
pub mod list;
#[cfg(all(test, loom))]
#[allow(unsafe_code)] // a cell that loom watches
mod models;
pub mod percpu;
pub mod primitive;
pub mod rcu;
pub mod sieve;
pub mod slab;
pub mod spin;

/// Cases for a property test: fewer where each takes long (sanitizers set `WEIR_TEST_SHORT`).
#[cfg(all(test, not(loom)))]
fn cases(many: u32) -> proptest::prelude::ProptestConfig {
    let cases = if std::env::var_os("WEIR_TEST_SHORT").is_some() {
        many / 8
    } else {
        many
    };
    // `PROPTEST_CASES` has the last word.
    proptest::test_runner::contextualize_config(proptest::prelude::ProptestConfig::with_cases(
        cases,
    ))
}

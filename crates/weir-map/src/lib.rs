// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps with the semantics of Linux's BPF maps, for any Rust program.
//!
//! | map | in Linux |
//! |---|---|
//! | [`HashMap`] | `hash`: a fixed number of entries; a full map refuses new keys |
//! | [`LruHashMap`] | `lru_hash`: a full map evicts |
//! | [`Map`] | any [`Kind`], also arrays, tries and values per CPU, with keys and values as byte strings |
//! | [`MapOfMaps`] | `hash_of_maps`, `array_of_maps` |
//!
//! Readers take no lock. The reference byte of an LRU map's entry is the only write of a look-up, and
//! is not written when it is set. Memory is mapped at creation and used page by page. Operations on
//! batches of 64 keys prefetch what they need.
#![deny(unsafe_code)]

mod array;
pub mod balance;
mod error;
mod fifo;
mod hash;
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a test may stop there")]
mod loom_models;
mod lpm;
mod lru;
mod map;
mod marks;
mod memory;
pub mod model;
mod nested;
mod policy;
mod shape;
mod table;
mod typed;

pub use error::{Error, Update};
pub use lru::{BATCH, LruOptions, LruStats, OnEvict, Spread};
pub use map::{Cursor, Kind, Map, MapOptions};
pub use memory::{Words, Zero};
pub use nested::{MapOfMaps, OuterKind};
pub use policy::{Policy, Reason};
pub use shape::{Of, Plain, Shape, Sizes};
pub use typed::{HashMap, LruHashMap};

#[cfg(all(test, not(loom)))]
mod tests;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A concurrent hash table: readers under a guard never lock, writers lock a shard.
//!
//! # Use
//! [`RcuHash<K, V>`] belongs to a domain. Every operation takes a guard of it, and the references it
//! returns live as long as guard and table. A value that is to be kept longer is an `Arc<T>`, cloned
//! from the reference. Values are never changed in place: replace them, or let them hold atomics.
//!
//! | | |
//! |---|---|
//! | [`RcuHash::get`], [`RcuHash::get_many`] | any thread with a guard; no lock, no write; linearizable |
//! | [`RcuHash::insert`], [`RcuHash::insert_if_absent`], [`RcuHash::remove`], [`RcuHash::compute`] | any thread with a guard; a spinlock of the shard; callbacks are queued, never run |
//! | [`RcuHash::iter`], [`RcuHash::iter_from`] | any thread with a guard; no lock |
//!
//! [`RcuSet<T>`] is the same of shared objects: its slots lead to the objects themselves, found by a hash
//! and a comparison that the caller brings, or in steps through [`RcuSet::reader`].
//!
//! Ordering: finding an entry acquires what its insertion released.
//!
//! # How it is made
//! A root points to shards (one, from 2,048 entries on sixteen); a shard has a lock, a count, and an
//! array of slots with open addressing and linear probing; a slot is one word, the address of a node
//! with 16 bits of the key's hash above it. So a search reads neighbouring words, and touches a node
//! only if the tag agrees: in one case of 65,536 in vain. Nodes never move, whatever grows.
//!
//! *Searches race with changes* without seeing less than is there: an entry's slot never changes while
//! it is in the table; a removed one becomes a tombstone, which searches pass, and an empty slot only
//! where the next one is empty, where no search goes on. Replacing a value swaps the node in its slot.
//! A table that is too full (13 of 16 slots) or too empty (one of 8) is copied to one of another size
//! under the shard's lock and the new one published; a search that is still in the old one finds what
//! was there when it began. Old tables, roots and nodes are retired to the domain.
//!
//! *Memory*: 16 bytes while nothing was ever inserted; then 15-22 bytes of slots an entry, its node and
//! what the allocator adds (8-16). Beside each slot stands the upper half of the hash, which only writers
//! read: a table grows without a look at its entries, and a home depends on that half alone.
//!
//! # Order, cursors, generations
//! A slot's home is proportional to the hash, and so is the shard: all tables, of whatever size, hold
//! their entries in nearly the order of hashes. Iteration makes that exact: it takes a few homes at a
//! time, follows them to the next empty slot, and sorts what it found. The order depends on the keys
//! alone, not on the history of the table. A [`Cursor`] is a place in the order of hashes, so it means
//! the same after any growth, and may be kept without a guard (a dump that goes on with the next
//! request): entries present throughout are seen exactly once, replaced ones once with one of their
//! values, others once or not at all. (Exactly once assumes that no two keys have the same 64-bit hash,
//! should an entry be replaced in the moment a cursor stands between the two.)
//! [`RcuHash::generation`] tells whether anything changed between two looks.

mod hasher;
mod iter;
#[cfg(all(test, loom))]
mod loom_models;
mod map;
mod raw;
mod set;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub use hasher::{FoldHasher, hash_of};
pub use iter::{Cursor, Iter};
pub use map::{Change, RcuHash};
pub use raw::{Reached, Reader, Search};
pub use set::RcuSet;

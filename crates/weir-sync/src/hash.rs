// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A concurrent hash table: readers under a guard take no lock; writers lock a shard.
//!
//! # Use
//! An [`RcuHash<K, V>`] belongs to a domain. Every operation takes a guard of that domain, and the
//! references it returns live as long as the guard and the table. To keep a value longer, store an
//! `Arc<T>` and clone it from the reference. Values are never changed in place: replace them, or
//! give them atomic fields.
//!
//! | operation | may be called by; cost |
//! |---|---|
//! | [`RcuHash::get`], [`RcuHash::get_many`] | any thread with a guard; no lock, no write; linearizable |
//! | [`RcuHash::insert`], [`RcuHash::insert_if_absent`], [`RcuHash::remove`], [`RcuHash::compute`] | any thread with a guard; takes the shard's spinlock; queues callbacks but never runs them |
//! | [`RcuHash::iter`], [`RcuHash::iter_from`] | any thread with a guard; no lock |
//!
//! [`RcuSet<T>`] is the same for shared objects: its slots point to the objects themselves. The
//! caller supplies the hash and the comparison, and can search in steps through [`RcuSet::reader`].
//!
//! Ordering: finding an entry acquires what its insertion released.
//!
//! # Design
//! A root points to the shards: one shard at first, sixteen from 2,048 entries on. A shard has a
//! lock, a count, and an array of slots with open addressing and linear probing. A slot is one
//! word: the address of a node, with 16 bits of the key's hash in the upper bits as a tag. So a
//! search reads adjacent words, and dereferences a node only if the tag matches; a false match
//! happens once in 65,536 comparisons. Nodes never move, even when the table is resized.
//!
//! *Searches run concurrently with changes* and never miss an entry that stays in the table. The
//! slot of an entry does not change while the entry is in the table. Removal turns the slot into a
//! tombstone, which searches skip. It makes the slot empty only if the next slot is empty, because
//! no search continues past that point. Replacing a value swaps the node in its slot. A table that
//! is too full (13 of 16 slots) or too empty (one of 8) is copied into a table of another size
//! under the shard's lock, and the new table is published. A search that is still in the old table
//! finds the entries that were present when it began. Old tables, roots and nodes are retired to
//! the domain.
//!
//! *Memory*: 16 bytes before the first insertion; then, for each entry, 15-22 bytes of slots, the
//! node, and the allocator's overhead (8-16 bytes). Beside each slot lies the upper half of the
//! hash, which only writers read. An entry's home slot depends on that half alone, so a table is
//! resized without reading its entries.
//!
//! # Order, cursors, generations
//! An entry's home slot is proportional to its hash, and so is its shard. Tables of every size
//! therefore hold their entries in nearly the order of their hashes. Iteration makes the order
//! exact: it takes a few home slots at a time, follows them to the next empty slot, and sorts the
//! entries it finds. The order depends on the keys alone, not on the history of the table. A
//! [`Cursor`] is a position in the order of hashes, so it stays valid when the table is resized,
//! and may be kept without a guard, for example for a dump that continues with the next request. An
//! entry that is present throughout is returned exactly once. An entry that is replaced meanwhile
//! is returned once, with one of its values. Any other entry is returned once or not at all. (The
//! "exactly once" assumes that no two keys have the same 64-bit hash if one of them is replaced
//! while a cursor stands between the two.)
//! [`RcuHash::generation`] tells whether anything has changed between two calls.

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

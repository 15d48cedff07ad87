// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Iteration in the order of hashes, and its cursor. [`crate::hash`] explains why the iteration is
//! exact.

use super::hasher::hash_of;
use super::map::{Node, RcuHash};
use super::table::{Table, rest};
use crate::rcu::Guard;
use core::hash::Hash;

/// The number of home slots read per step.
const WINDOW: usize = 32;

/// A position in the order of hashes; the default is the beginning. It is plain data and holds no
/// guard, so it may be kept indefinitely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The least hash that has not been passed.
    hash: u64,
    /// Among the entries with exactly that hash, those at this address or below have been returned.
    /// Zero unless several keys share the hash.
    after: usize,
    /// True once there is nothing left.
    end: bool,
}

impl Cursor {
    /// Returns true at the end.
    pub fn is_end(&self) -> bool {
        self.end
    }

    /// Returns the position just before `hash`, or the end for `None`.
    fn at(hash: Option<u64>) -> Self {
        Self {
            hash: hash.unwrap_or(0),
            after: 0,
            end: hash.is_none(),
        }
    }
}

/// An iterator over keys and values in the order of hashes, created by [`RcuHash::iter`].
pub struct Iter<'g, K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    hash: &'g RcuHash<K, V>,
    guard: &'g Guard,
    /// The sorted entries of the current window, in reverse order.
    found: Vec<(u64, &'g Node<K, V>)>,
    /// Start of the next window.
    next: Cursor,
    /// The position after the last entry returned.
    resume: Cursor,
}

fn address<T>(node: &T) -> usize {
    core::ptr::from_ref(node).addr()
}

impl<'g, K, V> Iter<'g, K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    pub(super) fn new(hash: &'g RcuHash<K, V>, cursor: Cursor, guard: &'g Guard) -> Self {
        Self {
            hash,
            guard,
            found: Vec::new(),
            next: cursor,
            resume: cursor,
        }
    }

    /// Returns the position after the last entry returned, from which [`RcuHash::iter_from`]
    /// continues. Take the cursor before calling `next` to be able to repeat an entry that did not
    /// fit.
    pub fn cursor(&self) -> Cursor {
        self.resume
    }

    /// Reads the next window: puts its entries into `found` and its end into `next`.
    fn refill(&mut self) {
        let from = self.next;
        let Some(root) = self.hash.raw.root(self.guard) else {
            self.next = Cursor::at(None);
            return;
        };
        let index = root.index(from.hash);
        // The first hash of the next shard, if there is one.
        let beyond = ((index as u64 + 1) as u128) << (64 - root.bits);
        let beyond = u64::try_from(beyond).ok();
        let Some(table) = root.shards[index].table() else {
            self.next = Cursor::at(beyond);
            return;
        };
        let start = table.home(rest(from.hash, root.bits));
        let end = start + WINDOW;
        let limit = if end < table.len() {
            let prefix = (index as u64).checked_shl(64 - root.bits).unwrap_or(0);
            let rest = u64::from(table.first_of(end)).div_ceil(1 << root.bits) << 32;
            // Rounding may take it past the shard's last hash.
            prefix.checked_add(rest)
        } else {
            beyond
        };
        self.collect(table, start, from, limit);
        self.next = Cursor::at(limit);
    }

    /// Collects the entries between `from` and `limit`, from slot `start` to the first empty slot
    /// past the window.
    fn collect(
        &mut self,
        table: &'g Table<Node<K, V>>,
        start: usize,
        from: Cursor,
        limit: Option<u64>,
    ) {
        for step in 0..table.len() {
            let at = start + step;
            let at = if at < table.len() {
                at
            } else {
                at - table.len()
            };
            let node = match table.node(at) {
                Ok(Some(node)) => node,
                Ok(None) => continue,
                Err(()) if step < WINDOW => continue,
                Err(()) => break,
            };
            let hash = hash_of(&node.key);
            let seen = hash < from.hash || (hash == from.hash && address(node) <= from.after);
            if !seen && limit.is_none_or(|limit| hash < limit) {
                self.found.push((hash, node));
            }
        }
        self.found
            .sort_unstable_by_key(|(hash, node)| core::cmp::Reverse((*hash, address(*node))));
        // A key that was removed and inserted again during the scan appears twice.
        self.found.dedup_by(|a, b| a.0 == b.0 && a.1.key == b.1.key);
    }
}

impl<'g, K, V> Iterator for Iter<'g, K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            if self.next.end {
                self.resume = self.next;
                return None;
            }
            self.refill();
        }
        let (hash, node) = self.found.pop()?;
        self.resume = match self.found.last() {
            Some((next, _)) if *next == hash => Cursor {
                hash,
                after: address(node),
                end: false,
            },
            _ => Cursor::at(hash.checked_add(1)),
        };
        Some((&node.key, &node.value))
    }
}

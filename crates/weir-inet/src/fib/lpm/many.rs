// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Look-ups of many keys at once.
#![allow(unsafe_code)] // follows the node pointers; the parent module has the argument

use std::ptr::{from_ref, null};

use weir_sync::bits::set_bits;
use weir_sync::primitive::atomic::Ordering;
use weir_sync::primitive::prefetch;
use weir_sync::rcu::Guard;

use super::node::{Child, Entry, Node, Slot};
use super::{Key, Lpm};

/// The maximum number of keys looked up together.
const TOGETHER: usize = 64;

/// The longest prefix that a search has found so far.
enum Best<'g, K, V> {
    None,
    /// The slot of an entry.
    Slot(&'g Slot),
    Entry(&'g Entry<K, V>),
}

impl<K: Key, V: Send + Sync + 'static> Lpm<K, V> {
    /// Looks up many keys as [`longest`](Self::longest) does, level by level for all of them, with
    /// each level prefetched during the one before. Fills `found` up to the shorter of the two
    /// lengths, at most 64.
    pub fn longest_many<'g>(
        &'g self,
        keys: &[K],
        guard: &'g Guard,
        found: &mut [Option<(u8, &'g V)>],
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("lzcnt")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has the features that the function requires.
            return unsafe { self.counting_bits(keys, guard, found) };
        }
        self.level_by_level(keys, guard, found);
    }

    /// Does the same with the processor's instructions that count bits. A search counts those of several bitmaps on
    /// each level, and each count is a dozen instructions without them.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    fn counting_bits<'g>(
        &'g self,
        keys: &[K],
        guard: &'g Guard,
        found: &mut [Option<(u8, &'g V)>],
    ) {
        self.level_by_level(keys, guard, found);
    }

    #[inline(always)]
    fn level_by_level<'g>(
        &'g self,
        keys: &[K],
        guard: &'g Guard,
        found: &mut [Option<(u8, &'g V)>],
    ) {
        guard.check(&self.domain);
        let keys = keys.get(..TOGETHER).unwrap_or(keys);
        // SAFETY: published pointers are read under the guard.
        let index = unsafe { self.index.load(Ordering::Acquire).as_ref() };
        let mut slots: [&Slot; TOGETHER] = [&self.top; TOGETHER];
        if let Some(index) = index {
            for (slot, key) in slots.iter_mut().zip(keys) {
                *slot = &index.slots[key.leading(index.bits)];
                prefetch(from_ref(*slot));
            }
        }
        let mut targets = [null::<u8>(); TOGETHER];
        let mut best = [const { Best::None }; TOGETHER];
        // The searches that go on.
        let mut going = u64::MAX.checked_shr(64 - keys.len() as u32).unwrap_or(0);
        while going != 0 {
            // The slots are there; their targets are fetched.
            for n in set_bits(going) {
                let target = slots[n].load(Ordering::Acquire);
                // The tag bits do not move the address to another cache line.
                prefetch(target.cast_const());
                targets[n] = target;
            }
            // The targets are there; the slots they lead to are fetched.
            for n in set_bits(going) {
                going &= !(1 << n);
                // SAFETY: as above; the pointer is from a child slot or the index.
                let child = unsafe { Node::<K, V>::child_at(targets[n].cast_mut()) };
                let key = keys[n];
                let here = match child {
                    Child::Node(node) => node,
                    Child::Leaf(entry) => {
                        if key.common(entry.key) >= entry.len {
                            best[n] = Best::Entry(entry);
                        }
                        continue;
                    }
                    Child::None => continue,
                };
                // SAFETY: as above.
                let header = unsafe { here.header() };
                if key.common(header.key) < header.pos {
                    continue;
                }
                let chunk = key.chunk(header.pos);
                // SAFETY: as above.
                if let Some(slot) = unsafe { here.longest_slot(chunk) } {
                    prefetch(from_ref(slot));
                    best[n] = Best::Slot(slot);
                }
                // SAFETY: as above.
                if let Some(slot) = unsafe { here.child(chunk) } {
                    prefetch(from_ref(slot));
                    slots[n] = slot;
                    going |= 1 << n;
                }
            }
        }
        for (best, _) in best.iter_mut().zip(keys) {
            if let Best::Slot(slot) = best {
                let entry = slot.load(Ordering::Acquire);
                prefetch(entry.cast_const());
                // SAFETY: as above; an entry's slot holds an entry and is never null.
                *best = Best::Entry(unsafe { &*entry.cast::<Entry<K, V>>() });
            }
        }
        for ((found, best), key) in found.iter_mut().zip(&best).zip(keys) {
            let entry = match best {
                Best::Entry(entry) => Some(*entry),
                // SAFETY: as above. No prefix was found below the index, or no prefix at all.
                _ => unsafe { self.entry(index, *key, K::BITS) },
            };
            *found = entry.map(|entry| (entry.len, &entry.value));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Look-ups of many keys at once.
#![allow(unsafe_code)] // follows the node pointers; the parent module has the argument

use weir_sync::primitive::atomic::Ordering;
use weir_sync::primitive::prefetch;
use weir_sync::rcu::Guard;

use super::node::{Child, Entry, Node, STRIDE, Slot};
use super::{Key, Lpm};

/// The maximum number of keys looked up together.
const TOGETHER: usize = 64;

/// The state of one of many searches.
enum Step<'g, K, V> {
    /// Ended without a prefix.
    None,
    /// To go on at a child's slot, with the slot of the longest prefix so far.
    Child(&'g Slot, Option<&'g Slot>),
    /// The same with the pointer from the child's slot.
    Target(*mut u8, Option<&'g Slot>),
    /// Ended at the slot of an entry.
    Value(&'g Slot),
    /// Ended at an entry.
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
        guard.check(&self.domain);
        let keys = keys.get(..TOGETHER).unwrap_or(keys);
        // SAFETY: published pointers are read under the guard.
        let index = unsafe { self.index.load(Ordering::Acquire).as_ref() };
        let mut steps = [const { Step::None }; TOGETHER];
        match index {
            Some(index) => {
                let slot = |key: &K| &index.slots[key.leading(index.bits)];
                for key in keys {
                    prefetch(std::ptr::from_ref(slot(key)));
                }
                for (step, key) in steps.iter_mut().zip(keys) {
                    *step = Step::Child(slot(key), None);
                }
            }
            None => {
                for (step, _) in steps.iter_mut().zip(keys) {
                    *step = Step::Child(&self.top, None);
                }
            }
        }
        let mut going = true;
        while std::mem::take(&mut going) {
            // The slots are there; their targets are fetched.
            for (step, _) in steps.iter_mut().zip(keys) {
                if let Step::Child(slot, best) = *step {
                    let target = slot.load(Ordering::Acquire);
                    // The tag bits do not move the address to another cache line.
                    prefetch(target.cast_const());
                    *step = Step::Target(target, best);
                }
            }
            // The targets are there; the slots they lead to are fetched.
            for (step, key) in steps.iter_mut().zip(keys) {
                if let Step::Target(target, best) = *step {
                    // SAFETY: as above; the pointer is from a child slot.
                    *step = unsafe { Self::step(target, best, *key) };
                    going |= matches!(*step, Step::Child(..));
                }
            }
        }
        for (step, _) in steps.iter_mut().zip(keys) {
            if let Step::Value(slot) = *step {
                let entry = slot.load(Ordering::Acquire);
                prefetch(entry.cast_const());
                // SAFETY: as above; an entry's slot holds an entry and is never null.
                *step = Step::Entry(unsafe { &*entry.cast::<Entry<K, V>>() });
            }
        }
        for ((found, step), key) in found.iter_mut().zip(steps).zip(keys) {
            let entry = match step {
                Step::Entry(entry) => Some(entry),
                // SAFETY: as above. No prefix was found below the index, or no prefix at all.
                _ => unsafe { self.entry(index, *key, K::BITS) },
            };
            *found = entry.map(|entry| (entry.len, &entry.value));
        }
    }

    /// Takes a step of a search at a child whose memory has been fetched. `best` is the slot of the
    /// longest prefix so far.
    ///
    /// # Safety
    /// The caller holds a guard for `'g`, and the pointer is from a child slot or the index.
    #[inline]
    unsafe fn step<'g>(target: *mut u8, best: Option<&'g Slot>, key: K) -> Step<'g, K, V> {
        // SAFETY: guaranteed by the caller.
        let child = unsafe { Node::<K, V>::child_at(target) };
        let here = match child {
            Child::Leaf(entry) if key.common(entry.key) >= entry.len => return Step::Entry(entry),
            Child::Node(node) => node,
            _ => return best.map_or(Step::None, Step::Value),
        };
        // SAFETY: as above.
        let header = unsafe { here.header() };
        if key.common(header.key) < header.pos {
            return best.map_or(Step::None, Step::Value);
        }
        let chunk = key.chunk(header.pos);
        let best = match header.longest(chunk, STRIDE) {
            // SAFETY: as above.
            Some((len, low)) => unsafe { here.value(len, low) },
            None => best,
        };
        if let Some(slot) = best {
            prefetch(std::ptr::from_ref(slot));
        }
        // SAFETY: as above.
        match unsafe { here.child(chunk) } {
            Some(slot) => {
                prefetch(std::ptr::from_ref(slot));
                Step::Child(slot, best)
            }
            None => best.map_or(Step::None, Step::Value),
        }
    }
}

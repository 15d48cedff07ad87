// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A priority queue of numbered items from which any item can be removed: classes and flows that
//! wait for a time. Items with equal keys keep their insertion order.

/// The heap. It allocates only while it grows to its largest number of items.
#[derive(Debug)]
pub struct Heap<K> {
    entries: Vec<Entry<K>>,
    /// By number: the index among the entries plus one, or 0 if the item is absent.
    places: Vec<u32>,
    seq: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry<K> {
    key: K,
    seq: u64,
    number: u32,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: Vec::new(),
            seq: 0,
        }
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// Returns the first item and its key.
    #[inline]
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().map(|entry| (entry.key, entry.number))
    }

    /// Returns whether an item is present.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.places.get(number as usize).is_some_and(|&p| p != 0)
    }

    /// Inserts an item. An item that is already present moves to the new key.
    pub fn insert(&mut self, number: u32, key: K) {
        if self.contains(number) {
            self.remove(number);
        }
        let index = number as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, 0);
        }
        self.seq += 1;
        let seq = self.seq;
        self.entries.push(Entry { key, seq, number });
        self.rise(self.entries.len() - 1);
    }

    /// Removes an item. Returns `false` if it is absent.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(place) = self.places.get_mut(number as usize) else {
            return false;
        };
        let Some(at) = (std::mem::take(place) as usize).checked_sub(1) else {
            return false;
        };
        self.entries.swap_remove(at);
        if at < self.entries.len() {
            self.sink(at);
            self.rise(at);
        }
        true
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.places.fill(0);
    }

    fn order(&self, at: usize) -> (K, u64) {
        (self.entries[at].key, self.entries[at].seq)
    }

    fn place(&mut self, at: usize) {
        self.places[self.entries[at].number as usize] = at as u32 + 1;
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.order(at) < self.order((at - 1) / 2) {
            let above = (at - 1) / 2;
            self.entries.swap(at, above);
            self.place(at);
            at = above;
        }
        self.place(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for below in [2 * at + 1, 2 * at + 2] {
                if below < self.entries.len() && self.order(below) < self.order(least) {
                    least = below;
                }
            }
            if least == at {
                return self.place(at);
            }
            self.entries.swap(at, least);
            self.place(at);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_agrees_with_a_sorted_map() {
        let (mut heap, mut oracle) = (Heap::default(), BTreeMap::new());
        let (mut seed, mut seq) = (1_u64, 0);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (number, key) = ((seed >> 40) as u32 % 50, (seed >> 33) as u32 % 20);
            let there = oracle.iter().find(|(_, n)| **n == number);
            let there = there.map(|(order, _)| *order);
            assert_eq!(heap.contains(number), there.is_some());
            match there {
                Some(order) => {
                    assert!(heap.remove(number));
                    oracle.remove(&order);
                }
                None => {
                    heap.insert(number, key);
                    seq += 1;
                    oracle.insert((key, seq), number);
                }
            }
            let first = oracle.iter().next().map(|((key, _), n)| (*key, *n));
            assert_eq!(heap.first(), first);
        }
    }
}

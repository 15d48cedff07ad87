// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trie against a linear oracle, its order, its index, and concurrent readers and a writer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use weir_sync::rcu::{Config, Domain};

use super::{Change, Key, Lpm};

/// The specification: try every prefix.
struct Linear<K>(BTreeMap<(K, u8), u32>);

impl<K: Key> Linear<K> {
    fn longest(&self, key: K, limit: u8) -> Option<(u8, u32)> {
        let covers =
            |place: &(&(K, u8), &u32)| place.0.1 <= limit && key.masked(place.0.1) == place.0.0;
        self.0
            .iter()
            .filter(covers)
            .max_by_key(|place| place.0.1)
            .map(|place| (place.0.1, *place.1))
    }
}

#[derive(Clone, Debug)]
enum Operation<K> {
    Insert(K, u8, u32),
    Remove(K, u8),
    Longest(K, u8),
    Walk(K, u8),
}

fn check<K: Key>(operations: Vec<Operation<K>>) {
    let domain = Domain::new(Config::default());
    let table = Lpm::<K, u32>::new(&domain);
    let mut oracle = Linear(BTreeMap::new());
    for operation in operations {
        match operation {
            Operation::Insert(key, len, value) => {
                let new = oracle.0.insert((key.masked(len), len), value).is_none();
                assert_eq!(table.insert(key, len, value), new);
            }
            Operation::Remove(key, len) => {
                let there = oracle.0.remove(&(key.masked(len), len)).is_some();
                assert_eq!(table.remove(key, len), there);
            }
            Operation::Longest(key, limit) => {
                let guard = domain.pin();
                let found = table
                    .longest(key, limit, &guard)
                    .map(|(len, value)| (len, *value));
                assert_eq!(found, oracle.longest(key, limit));
                // The same key among others, level by level.
                let keys = [key, key.filled(limit), key.masked(limit), K::ZERO];
                let mut found = [None; 4];
                table.longest_many(&keys, &guard, &mut found);
                let found = found.map(|found| found.map(|(len, value)| (len, *value)));
                assert_eq!(found, keys.map(|key| oracle.longest(key, K::BITS)));
            }
            Operation::Walk(key, len) => {
                let guard = domain.pin();
                let mut seen = Vec::new();
                let _ = table.walk((key, len), &guard, |key, len, value| {
                    seen.push(((key, len), *value));
                    ControlFlow::<()>::Continue(())
                });
                let expected: Vec<_> = oracle
                    .0
                    .range((key, len)..)
                    .map(|(place, value)| (*place, *value))
                    .collect();
                assert_eq!(seen, expected);
            }
        }
        assert_eq!(table.len(), oracle.0.len());
    }
}

/// Draws keys with few distinct bits, so that prefixes nest and keys match them.
fn narrow_u32() -> impl Strategy<Value = u32> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 127, 128, 255]), 4)
            .prop_map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]])),
        any::<u32>(),
    ]
}

fn narrow_u128() -> impl Strategy<Value = u128> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 128, 255]), 16)
            .prop_map(|b| u128::from_be_bytes(b.try_into().expect("sixteen bytes"))),
        any::<u128>(),
        (0u8..=128).prop_map(|bits| u128::ZERO.filled(128 - bits.min(127)).wrapping_add(1)),
    ]
}

fn operations<K: Key>(
    key: impl Strategy<Value = K> + Clone + 'static,
) -> impl Strategy<Value = Vec<Operation<K>>> {
    let len = 0..=K::BITS;
    let one = prop_oneof![
        4 => (key.clone(), len.clone(), any::<u32>()).prop_map(|(k, l, v)| Operation::Insert(k, l, v)),
        2 => (key.clone(), len.clone()).prop_map(|(k, l)| Operation::Remove(k, l)),
        4 => (key.clone(), len.clone()).prop_map(|(k, l)| Operation::Longest(k, l)),
        2 => key.clone().prop_map(|k| Operation::Longest(k, K::BITS)),
        1 => (key, len).prop_map(|(k, l)| Operation::Walk(k, l)),
    ];
    prop::collection::vec(one, 0..200)
}

proptest! {
    #[test]
    fn as_the_oracle_32(operations in operations(narrow_u32().boxed())) {
        check(operations);
    }

    #[test]
    fn as_the_oracle_128(operations in operations(narrow_u128().boxed())) {
        check(operations);
    }
}

/// A simple generator (splitmix64), so that large runs are reproducible.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Grows through both sizes of the index and shrinks back to none. Checks against masks in a map
/// per length.
#[test]
fn grows_and_shrinks_its_index() {
    let domain = Domain::new(Config::default());
    let table = Lpm::<u32, u32>::new(&domain);
    let mut oracle = BTreeMap::new();
    let mut numbers = Numbers(1);
    let compare =
        |table: &Lpm<u32, u32>, oracle: &BTreeMap<(u32, u8), u32>, numbers: &mut Numbers| {
            let guard = domain.pin();
            let keys: [u32; 64] = std::array::from_fn(|_| numbers.next() as u32 & 0x0fff_ffff);
            let mut together = [None; 64];
            table.longest_many(&keys, &guard, &mut together);
            for (key, together) in keys.iter().zip(together) {
                assert_eq!(together, table.longest(*key, 32, &guard), "key {key:08x}");
            }
            for _ in 0..2_000 {
                let key = numbers.next() as u32 & 0x0fff_ffff;
                let expected = (0..=32u8).rev().find_map(|len| {
                    oracle
                        .get(&(key.masked(len), len))
                        .map(|value| (len, *value))
                });
                let found = table
                    .longest(key, 32, &guard)
                    .map(|(len, value)| (len, *value));
                assert_eq!(found, expected, "key {key:08x}");
            }
        };
    for round in 0..40_000u32 {
        let len = [8, 12, 16, 18, 19, 20, 22, 24, 24, 24, 25, 30, 32][numbers.next() as usize % 13];
        let key = (numbers.next() as u32 & 0x0fff_ffff).masked(len);
        table.insert(key, len, round);
        oracle.insert((key, len), round);
        if round % 10_000 == 999 {
            compare(&table, &oracle, &mut numbers);
        }
    }
    compare(&table, &oracle, &mut numbers);
    let places: Vec<_> = oracle.keys().copied().collect();
    for (number, (key, len)) in places.into_iter().enumerate() {
        assert!(table.remove(key, len));
        oracle.remove(&(key, len));
        if number % 10_000 == 999 {
            compare(&table, &oracle, &mut numbers);
        }
    }
    assert!(table.is_empty());
    compare(&table, &oracle, &mut numbers);
}

#[test]
fn update_sees_the_old_value_and_may_keep_it() {
    let domain = Domain::new(Config::default());
    let table = Lpm::<u32, u32>::new(&domain);
    assert!(table.insert(0x0a00_0000, 8, 1));
    assert!(
        !table.insert(0x0a01_0203, 8, 2),
        "bits past the length do not count"
    );
    let seen = table.update(0x0a00_0000, 8, |old| (Change::Keep, old.copied()));
    assert_eq!(seen, Some(2));
    table.update(0x0a00_0000, 8, |old| {
        (Change::Set(old.map_or(0, |old| old + 1)), ())
    });
    let guard = domain.pin();
    assert_eq!(table.get(0x0a00_0000, 8, &guard), Some(&3));
    assert_eq!(table.get(0x0a00_0000, 9, &guard), None);
    drop(guard);
    assert!(table.remove(0x0a00_0000, 8));
    assert!(!table.remove(0x0a00_0000, 8));
}

/// Readers must always find one of the two prefixes that cover their key, with a value that is
/// still alive, while a writer adds and removes the longer one.
#[test]
fn readers_beside_a_writer() {
    let domain = Domain::new(Config::default());
    let table = Lpm::<u32, Box<u32>>::new(&domain);
    for block in 0..2_000u32 {
        table.insert(block << 12, 16, Box::new(16));
    }
    table.insert(0, 0, Box::new(0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (table, stop, domain) = (&table, &stop, domain.clone());
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                while !stop.load(Ordering::Relaxed) {
                    let guard = domain.pin();
                    for _ in 0..64 {
                        let key = numbers.next() as u32 % (2_000 << 12);
                        let (len, value) = table
                            .longest(key, 32, &guard)
                            .expect("the shorter prefix stays");
                        assert_eq!(u32::from(len), **value);
                        assert!(len == 16 || len == 24);
                    }
                }
            });
        }
        let mut numbers = Numbers(9);
        for _ in 0..20_000 {
            let key = numbers.next() as u32 % (2_000 << 12);
            if numbers.next() & 1 == 0 {
                table.insert(key, 24, Box::new(24));
            } else {
                table.remove(key, 24);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Each value is dropped exactly once: replaced and removed ones after a grace period, the rest
/// with the table.
#[test]
fn values_are_dropped_once() {
    struct Counted(std::sync::Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let domain = Domain::new(Config::default());
    let dropped = std::sync::Arc::new(AtomicUsize::new(0));
    let table = Lpm::<u128, Counted>::new(&domain);
    let mut numbers = Numbers(3);
    let (mut made, rounds) = (0, 5_000);
    for _ in 0..rounds {
        let key = u128::from(numbers.next() & 0xff0f) << 100;
        let len = (numbers.next() % 65) as u8;
        if numbers.next().is_multiple_of(3) {
            table.remove(key, len);
        } else {
            table.insert(key, len, Counted(dropped.clone()));
            made += 1;
        }
    }
    let left = table.len();
    domain.barrier();
    assert_eq!(dropped.load(Ordering::Relaxed), made - left);
    drop(table);
    assert_eq!(dropped.load(Ordering::Relaxed), made);
}

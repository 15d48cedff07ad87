// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the table against an oracle, of cursors during growth, and of readers racing with
//! writers.

use super::*;
use crate::rcu::Domain;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A key whose hash keeps few bits, so that runs, tags and whole hashes collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Clumsy(u16);

impl core::hash::Hash for Clumsy {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (self.0 / 3).hash(state);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u16, u32),
    InsertIfAbsent(u16, u32),
    Remove(u16),
    Get(u16),
    Bump(u16),
    RetainEven,
    Clear,
    Poll,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let key = prop_oneof![0u16..24, 0u16..6000];
    prop_oneof![
        8 => (key.clone(), any::<u32>()).prop_map(|(k, v)| Insert(k, v)),
        4 => (key.clone(), any::<u32>()).prop_map(|(k, v)| InsertIfAbsent(k, v)),
        6 => key.clone().prop_map(Remove),
        4 => key.clone().prop_map(Get),
        2 => key.prop_map(Bump),
        1 => Just(RetainEven),
        1 => Just(Clear),
        2 => Just(Poll),
    ]
}

/// Runs the operations on the table and the oracle, and compares every result.
fn run(operations: &[Operation], preload: u16) {
    let domain = Domain::default();
    let table = RcuHash::<Clumsy, u32>::new(&domain);
    let mut oracle = BTreeMap::new();
    for key in 0..preload {
        table.insert(Clumsy(key), 0, &domain.pin());
        oracle.insert(key, 0);
    }
    for operation in operations {
        let guard = domain.pin();
        let before = table.generation(&guard);
        let mut changes = true;
        match *operation {
            Operation::Insert(key, value) => {
                let old = table.insert(Clumsy(key), value, &guard).copied();
                assert_eq!(old, oracle.insert(key, value));
            }
            Operation::InsertIfAbsent(key, value) => {
                let result = table.insert_if_absent(Clumsy(key), value, &guard);
                let expected = oracle.get(&key).copied();
                changes = expected.is_none();
                assert_eq!(
                    result.copied().map_err(|v| *v),
                    expected.map_or(Ok(value), Err)
                );
                oracle.entry(key).or_insert(value);
            }
            Operation::Remove(key) => {
                let expected = oracle.remove(&key);
                changes = expected.is_some();
                assert_eq!(table.remove(&Clumsy(key), &guard).copied(), expected);
            }
            Operation::Get(key) => {
                changes = false;
                assert_eq!(table.get(&Clumsy(key), &guard), oracle.get(&key));
            }
            Operation::Bump(key) => {
                let bump = |old: Option<&u32>| match old {
                    Some(v) if *v > 1 << 31 => Change::Remove,
                    Some(v) => Change::Put(v * 2 + 1),
                    None => Change::Keep,
                };
                let (old, new) = table.compute(Clumsy(key), &guard, bump);
                changes = old.is_some();
                assert_eq!(old, oracle.get(&key));
                match bump(oracle.get(&key)) {
                    Change::Put(v) => drop(oracle.insert(key, v)),
                    Change::Remove => drop(oracle.remove(&key)),
                    Change::Keep => {}
                }
                assert_eq!(new, oracle.get(&key));
            }
            Operation::RetainEven => {
                let before = oracle.len();
                table.retain(&guard, |_, v| v % 2 == 0);
                oracle.retain(|_, v| *v % 2 == 0);
                changes = oracle.len() != before;
            }
            Operation::Clear => {
                table.clear(&guard);
                oracle.clear();
                continue;
            }
            Operation::Poll => {
                drop(guard);
                domain.poll_all();
                continue;
            }
        }
        assert_eq!(table.generation(&guard) != before, changes, "{operation:?}");
        assert_eq!(table.len(&guard), oracle.len());
    }
    let guard = domain.pin();
    let mut all: Vec<_> = table.iter(&guard).map(|(k, v)| (k.0, *v)).collect();
    assert!(all.is_sorted_by_key(|(k, _)| hash_of(&Clumsy(*k))));
    all.sort_unstable();
    assert_eq!(all, oracle.into_iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(crate::cases(64))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..400)) {
        run(&operations, 0);
    }

    #[test]
    fn agrees_with_the_oracle_when_large(operations in prop::collection::vec(operation(), 1..200)) {
        run(&operations, 2040);
    }

    /// Dumps the table in pieces while it grows, shrinks and splits in between.
    #[test]
    fn a_cursor_sees_remaining_entries_exactly_once(
        stay in prop::collection::btree_set(0u32..100_000, 0..300),
        batches in prop::collection::vec((0usize..3000, any::<bool>(), 1usize..60), 1..12),
    ) {
        let domain = Domain::default();
        let table = RcuHash::<u32, u32>::new(&domain);
        for key in &stay {
            table.insert(*key, 0, &domain.pin());
        }
        let mut seen = BTreeMap::<u32, u32>::new();
        let mut cursor = Cursor::default();
        let mut batches = batches.into_iter().cycle();
        let mut extra = 0;
        while !cursor.is_end() {
            let (noise, add, take) = batches.next().unwrap();
            let guard = domain.pin();
            // Takes at least one in a hundred, because the test would take too long otherwise.
            let mut iter = table.iter_from(cursor, &guard);
            for (key, _) in iter.by_ref().take(take + table.len(&guard) / 8) {
                *seen.entry(*key).or_default() += 1;
            }
            cursor = iter.cursor();
            for n in 0..noise as u32 {
                if add {
                    table.insert(1_000_000 + extra + n, 0, &guard);
                } else {
                    table.remove(&(1_000_000 + extra.saturating_sub(n)), &guard);
                }
            }
            extra = if add { extra + noise as u32 } else { extra.saturating_sub(noise as u32) };
            for key in stay.iter().step_by(3) {
                table.insert(*key, noise as u32, &guard);
            }
        }
        prop_assert!(seen.values().all(|times| *times == 1));
        prop_assert!(stay.iter().all(|key| seen.contains_key(key)));
    }
}

#[test]
fn finds_many() {
    let domain = Domain::default();
    let table = RcuHash::<u64, u64>::new(&domain);
    let guard = domain.pin();
    for key in 0..10_000 {
        table.insert(key * 2, key, &guard);
    }
    let keys: Vec<u64> = (0..100).collect();
    let mut found = vec![None; keys.len()];
    table.get_many(&keys, &guard, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found.copied(), (key % 2 == 0).then_some(key / 2));
    }
}

/// A value that counts its instances.
struct Counted(Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn every_value_is_dropped_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let domain = Domain::default();
    let table = RcuHash::<u32, Counted>::new(&domain);
    let make = || {
        alive.fetch_add(1, Ordering::SeqCst);
        Counted(alive.clone())
    };
    for round in 0..3 {
        let guard = domain.pin();
        for key in 0..5000 {
            table.insert(key, make(), &guard);
        }
        for key in (0..5000).step_by(2 + round) {
            table.remove(&key, &guard);
        }
        if round == 1 {
            table.clear(&guard);
        }
    }
    domain.barrier();
    assert_eq!(alive.load(Ordering::SeqCst), table.len(&domain.pin()));
    drop(table);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn memory_is_bounded() {
    let domain = Domain::default();
    let table = RcuHash::<u32, Arc<u32>>::new(&domain);
    let guard = domain.pin();
    assert!(size_of_val(&table) + table.memory(&guard) <= 16);
    let value = Arc::new(0);
    for key in 0..3 {
        table.insert(key, value.clone(), &guard);
    }
    assert!(table.memory(&guard) < 256);
    for key in 0..100_000u32 {
        table.insert(key, value.clone(), &guard);
        if key > 10_000 && key % 97 == 0 {
            let each = table.memory(&guard) as f64 / f64::from(key + 1);
            assert!(each < 24.8, "{each} bytes of slots at {key} entries");
        }
    }
    for key in 0..100_000 {
        table.remove(&key, &guard);
    }
    assert!(table.memory(&guard) < 6144);
}

/// Readers look up keys that are always present while writers grow, churn and shrink the table.
#[test]
fn stress_readers_find_present_keys() {
    const STAY: u32 = 500;
    let domain = Domain::default();
    let table = RcuHash::<u32, Box<u32>>::new(&domain);
    for key in 0..STAY {
        table.insert(key, Box::new(key), &domain.pin());
    }
    let done = AtomicBool::new(false);
    let rounds: u32 = if cfg!(miri) { 2 } else { 40 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = domain.reader();
                while !done.load(Ordering::Relaxed) {
                    let guard = reader.pin();
                    for key in 0..STAY {
                        let value = table.get(&key, &guard).expect("the key is always present");
                        assert_eq!(**value % 1000, key);
                    }
                    let seen = table.iter(&guard).filter(|(key, _)| **key < STAY).count();
                    assert_eq!(seen, STAY as usize);
                }
            });
        }
        let writers: Vec<_> = (1..3u32)
            .map(|writer| {
                let (domain, table) = (&domain, &table);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let size = if round % 8 == 0 { 3000 } else { 100 };
                        for n in 0..size {
                            let guard = domain.pin();
                            table.insert(writer * 100_000 + n, Box::new(n), &guard);
                            let stay = (n * 7 + writer) % STAY;
                            table.insert(stay, Box::new(round * 1000 + stay), &guard);
                        }
                        for n in 0..size {
                            let key = writer * 100_000 + n;
                            assert!(table.remove(&key, &domain.pin()).is_some());
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(table.len(&domain.pin()), STAY as usize);
}

/// Tests of a set against an oracle: objects with a hash of few bits, compared by their number.
mod set {
    use super::*;

    #[derive(Debug)]
    struct Object {
        number: u16,
        alive: Arc<AtomicUsize>,
    }

    impl Drop for Object {
        fn drop(&mut self) {
            self.alive.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives three numbers each the same position, within two shards' range of upper bits, and tags
    /// that collide.
    fn hash(number: u16) -> u64 {
        let place = hash_of(&(number / 3)) >> 32;
        place << 32 | u64::from(number % 2)
    }

    fn same(a: &Object, b: &Object) -> bool {
        a.number == b.number
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        InsertIfAbsent(u16),
        /// Removes the present object, or an equal one that is not in the set.
        Remove(u16, bool),
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        use Step::*;
        let number = prop_oneof![0u16..24, 0u16..4000];
        prop_oneof![
            6 => number.clone().prop_map(Insert),
            6 => number.clone().prop_map(InsertIfAbsent),
            6 => (number, any::<bool>()).prop_map(|(number, itself)| Remove(number, itself)),
            1 => Just(Clear),
        ]
    }

    fn run(operations: &[Step], preload: u16) {
        let domain = Domain::default();
        let set = RcuSet::<Object>::new(&domain);
        let alive = Arc::new(AtomicUsize::new(0));
        let make = |number| {
            alive.fetch_add(1, Ordering::Relaxed);
            let alive = alive.clone();
            Arc::new(Object { number, alive })
        };
        let mut oracle = BTreeMap::<u16, Arc<Object>>::new();
        let all = (0..preload).map(Step::Insert);
        for operation in all.chain(operations.iter().cloned()) {
            let guard = domain.pin();
            match operation {
                Step::Insert(number) => {
                    let object = make(number);
                    set.insert(hash(number), object.clone(), same, &guard);
                    oracle.insert(number, object);
                }
                Step::InsertIfAbsent(number) => {
                    let object = make(number);
                    let result = set.insert_if_absent(hash(number), object.clone(), same, &guard);
                    match oracle.get(&number) {
                        Some(present) => {
                            assert!(core::ptr::eq(
                                result.expect_err("the object is present"),
                                &**present
                            ))
                        }
                        None => {
                            assert!(result.is_ok());
                            oracle.insert(number, object);
                        }
                    }
                }
                Step::Remove(number, itself) => {
                    let like = make(number);
                    let present = oracle.get(&number).filter(|_| itself).cloned();
                    let removed =
                        set.remove(hash(number), present.as_ref().unwrap_or(&like), &guard);
                    assert_eq!(removed, present.is_some());
                    if removed {
                        oracle.remove(&number);
                    }
                }
                Step::Clear => {
                    set.clear(&guard);
                    oracle.clear();
                }
            }
            assert_eq!(set.len(&guard), oracle.len());
        }
        let guard = domain.pin();
        for number in 0..4000 {
            let found = set.find(hash(number), |object| object.number == number, &guard);
            let reader = set.reader(&guard);
            let search = reader.and_then(|reader| reader.search(hash(number)));
            let reached = search.and_then(|search| search.reach());
            let stepped = reached.and_then(|reached| reached.finish(|o| o.number == number));
            let present = oracle.get(&number).map(Arc::as_ptr);
            assert_eq!(found.map(core::ptr::from_ref), present);
            assert_eq!(stepped.map(core::ptr::from_ref), present);
        }
        let mut numbers: Vec<_> = set.iter(&guard).map(|object| object.number).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().eq(oracle.keys()));
        let mut uppers: Vec<_> = set.uppers(&guard).collect();
        let mut expected: Vec<_> = numbers.iter().map(|&n| (hash(n) >> 32) as u32).collect();
        uppers.sort_unstable();
        expected.sort_unstable();
        assert_eq!(uppers, expected);
        drop((guard, oracle));
        domain.barrier();
        assert_eq!(alive.load(Ordering::Relaxed), numbers.len());
        drop(set);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #![proptest_config(crate::cases(48))]

        #[test]
        fn agrees_with_the_oracle(operations in prop::collection::vec(step(), 1..400)) {
            run(&operations, 0);
        }

        #[test]
        fn agrees_when_large(operations in prop::collection::vec(step(), 1..200)) {
            run(&operations, 3000);
        }
    }
}

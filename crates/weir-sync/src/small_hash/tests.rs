// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table against a map, and with readers during its growth.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone)]
enum Operation {
    Insert(u32, u16),
    Remove(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    // As often fewer keys than fit a list as more.
    let key = prop_oneof![0..8_u32, 0..24_u32];
    prop_oneof![
        (key.clone(), any::<u16>()).prop_map(|(key, value)| Operation::Insert(key, value)),
        key.prop_map(Operation::Remove),
    ]
}

proptest! {
    #![proptest_config(crate::cases(256))]
    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..100)) {
        let domain = Domain::default();
        let (table, mut oracle) = (SmallHash::new(&domain), HashMap::new());
        for operation in operations {
            let guard = domain.pin();
            match operation {
                Operation::Insert(key, value) => {
                    table.insert(key, value, &guard);
                    oracle.insert(key, value);
                }
                Operation::Remove(key) => {
                    table.remove(&key, &guard);
                    oracle.remove(&key);
                }
            }
            for key in 0..24 {
                prop_assert_eq!(table.get(&key, &guard), oracle.get(&key));
            }
        }
    }
}

#[test]
fn a_table_stays_a_list_up_to_eight_entries_and_nothing_leaks() {
    let domain = Domain::default();
    let owner = Arc::new(());
    let table = SmallHash::new(&domain);
    for round in 0..3 {
        for key in 0..8 {
            table.insert(key, owner.clone(), &domain.pin());
        }
        assert!(table.many.get().is_none(), "round {round}");
        (0..8).for_each(|key| table.remove(&key, &domain.pin()));
        assert!(!table.few.is_some());
    }
    for key in 0..9 {
        table.insert(key, owner.clone(), &domain.pin());
    }
    assert!(table.many.get().is_some() && !table.few.is_some());
    table.remove(&3, &domain.pin());
    domain.barrier();
    assert_eq!(Arc::strong_count(&owner), 9);
    drop(table);
    domain.barrier();
    assert_eq!(Arc::strong_count(&owner), 1);
}

/// A reader looks up an entry that is always present while the table grows, and one that comes and goes.
#[test]
fn stress_readers_find_present_keys() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for round in 0..rounds {
        let domain = Domain::default();
        let table = SmallHash::<u32, Arc<u32>>::new(&domain);
        table.insert(0, Arc::new(round), &domain.pin());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let reader = domain.reader();
                    while !done.load(Ordering::Relaxed) {
                        let guard = reader.pin();
                        let value = table.get(&0, &guard).expect("the key is always present");
                        assert_eq!(**value, round);
                        let other = table.get(&9, &guard);
                        assert!(other.is_none_or(|value| **value == 9));
                    }
                });
            }
            for key in 1..20 {
                table.insert(key, Arc::new(key), &domain.pin());
                table.insert(0, Arc::new(round), &domain.pin());
                table.remove(&9, &domain.pin());
                domain.poll();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

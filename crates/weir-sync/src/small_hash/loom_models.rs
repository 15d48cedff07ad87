// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of a reader while the list is replaced, and while it becomes a hash table. Under loom, that is at the second
//! entry.

use super::*;
use crate::models::{Tracked, check};
use crate::primitive::Arc;
use loom::thread;

type Table = Arc<SmallHash<u32, Arc<Tracked>>>;

fn value(number: usize) -> Arc<Tracked> {
    Arc::new(Tracked::new(number))
}

fn table() -> (Domain, Table) {
    let domain = Domain::default();
    let table = Arc::new(SmallHash::new(&domain));
    table.insert(1, value(1), &domain.pin());
    (domain, table)
}

fn read(table: &Table, key: u32, guard: &Guard) -> Option<usize> {
    table.get(&key, guard).map(|value| value.read())
}

#[test]
fn present_keys_are_found_during_growth() {
    check(2, || {
        let (domain, table) = table();
        let reader = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                assert_eq!(read(&table, 1, &guard), Some(1));
                assert!(matches!(read(&table, 2, &guard), None | Some(2)));
            })
        };
        table.insert(2, value(2), &domain.pin());
        domain.poll();
        reader.join().unwrap();
        assert_eq!(read(&table, 2, &domain.pin()), Some(2));
    });
}

#[test]
fn a_removed_entry_does_not_return() {
    check(2, || {
        let (domain, table) = table();
        let reader = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let before = read(&table, 1, &guard);
                assert!(matches!(before, None | Some(1)));
                assert!(before.is_some() || read(&table, 1, &guard).is_none());
            })
        };
        table.insert(2, value(2), &domain.pin());
        table.remove(&1, &domain.pin());
        domain.poll();
        reader.join().unwrap();
        assert_eq!(read(&table, 1, &domain.pin()), None);
    });
}

#[test]
fn a_replaced_value_outlives_its_readers() {
    check(2, || {
        let (domain, table) = table();
        let reader = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let value = table.get(&1, &guard).expect("the entry is replaced");
                let first = value.read();
                assert!(first == 1 || first == 10);
                assert_eq!(value.read(), first);
            })
        };
        table.insert(1, value(10), &domain.pin());
        domain.poll();
        reader.join().unwrap();
    });
}

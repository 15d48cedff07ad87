// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of readers during growth, splits and removal, and of concurrent writers. Under loom a
//! table splits at three entries.

use super::*;
use crate::models::{Tracked, check};
use crate::primitive::Arc;
use crate::rcu::Domain;
use loom::thread;

type Table = Arc<RcuHash<u32, Tracked>>;

fn table(keys: &[u32]) -> (Domain, Table) {
    let domain = Domain::default();
    let table = Arc::new(RcuHash::new(&domain));
    for key in keys {
        table.insert(*key, Tracked::new(*key as usize), &domain.pin());
    }
    (domain, table)
}

fn read(table: &Table, key: u32, guard: &crate::rcu::Guard) -> Option<usize> {
    table.get(&key, guard).map(Tracked::read)
}

#[test]
fn present_keys_are_found_during_a_split() {
    check(2, || {
        let (domain, table) = table(&[1, 2]);
        let reader = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                assert_eq!(read(&table, 1, &guard), Some(1));
                assert!(matches!(read(&table, 3, &guard), None | Some(3)));
            })
        };
        table.insert(3, Tracked::new(3), &domain.pin());
        domain.poll();
        reader.join().unwrap();
        assert_eq!(read(&table, 3, &domain.pin()), Some(3));
    });
}

#[test]
fn a_removed_or_replaced_value_outlives_its_readers() {
    check(2, || {
        let (domain, table) = table(&[1]);
        let reader = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                if let Some(value) = table.get(&1, &guard) {
                    let first = value.read();
                    assert!(first == 1 || first == 10);
                    assert_eq!(value.read(), first);
                }
            })
        };
        table.insert(1, Tracked::new(10), &domain.pin());
        domain.poll();
        assert_eq!(table.remove(&1, &domain.pin()).map(Tracked::read), Some(10));
        domain.poll();
        reader.join().unwrap();
        assert!(table.is_empty(&domain.pin()));
    });
}

#[test]
fn one_of_two_inserters_wins() {
    check(2, || {
        let (domain, table) = table(&[]);
        let insert = |domain: &Domain, table: &Table, value| {
            let guard = domain.pin();
            table
                .insert_if_absent(7, Tracked::new(value), &guard)
                .map(Tracked::read)
                .map_err(Tracked::read)
        };
        let other = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || insert(&domain, &table, 1))
        };
        let results = (insert(&domain, &table, 2), other.join().unwrap());
        assert!(
            matches!(results, (Ok(2), Err(2)) | (Err(1), Ok(1))),
            "{results:?}"
        );
    });
}

#[test]
fn writers_race_with_a_split() {
    check(2, || {
        let (domain, table) = table(&[1, 2]);
        let other = {
            let (domain, table) = (domain.clone(), table.clone());
            thread::spawn(move || {
                table.insert(4, Tracked::new(4), &domain.pin());
            })
        };
        table.insert(3, Tracked::new(3), &domain.pin());
        other.join().unwrap();
        let guard = domain.pin();
        assert_eq!(table.len(&guard), 4);
        assert_eq!(
            table
                .iter(&guard)
                .map(|(_, value)| value.read())
                .sum::<usize>(),
            10
        );
    });
}

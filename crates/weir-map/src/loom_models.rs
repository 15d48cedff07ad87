// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loom models: publication of entries to readers, and the hand-over of pending slots.

use crate::lru::{Lru, LruOptions};
use crate::policy::Policy;
use crate::shape::{Of, bytes_of, bytes_of_mut};
use crate::table::{Placed, Table, Taken};
use crate::{Error, Update};
use weir_sync::models::check;
use weir_sync::primitive::Arc;

type Entries = Table<Of<u32, u64>>;

fn put(table: &Entries, key: u32, value: u64) -> Result<Placed, Error> {
    let hash = crate::shape::hash(bytes_of(&key));
    table.upsert(hash, bytes_of(&key), Update::Any, true, |slot| {
        slot.write(bytes_of(&value));
    })
}

fn get(table: &Entries, key: u32) -> Option<u64> {
    let mut value = 0;
    let hash = crate::shape::hash(bytes_of(&key));
    // As a look-up of a map does it.
    let aim = table.aim(hash);
    if table
        .glance(aim, bytes_of(&key), bytes_of_mut(&mut value))
        .is_some()
        || table
            .glance_beyond(bytes_of(&key), bytes_of_mut(&mut value))
            .is_some()
    {
        return Some(value);
    }
    let found = table.search(hash, bytes_of(&key), |slot| {
        table.read_value(slot, 0, bytes_of_mut(&mut value));
    });
    found.map(|_| value)
}

const OLD: u64 = 0x1111_1111_1111_1111;
const NEW: u64 = 0x2222_2222_2222_2222;

/// A reader sees the old value or the new one, never a part of each.
#[test]
fn a_reader_sees_whole_values() {
    check(2, || {
        let table = Arc::new(Entries::new(Of::NEW, 1).unwrap());
        put(&table, 1, OLD).unwrap();
        let writer = {
            let table = table.clone();
            loom::thread::spawn(move || put(&table, 1, NEW).map(|_| ()))
        };
        let seen = get(&table, 1);
        assert!(matches!(seen, Some(OLD | NEW)), "{seen:x?}");
        writer.join().unwrap().unwrap();
        assert_eq!(get(&table, 1), Some(NEW));
    });
}

/// A slot that is evicted and filled with another key under a reader gives it the old entry or none.
#[test]
fn a_reused_slot_is_noticed() {
    reuse(|table, slot| table.take(slot, |_| ()));
}

/// The same, if the entry is evicted by one compare-and-swap.
#[test]
fn a_slot_that_is_taken_unread_is_noticed() {
    reuse(|table, slot| table.take_unread(slot, |_| ()).0);
}

fn reuse(take: fn(&Entries, u32) -> Taken) {
    check(2, move || {
        let table = Arc::new(Entries::new(Of::NEW, 1).unwrap());
        let Ok(Placed::New(slot)) = put(&table, 1, OLD) else {
            panic!("the table is empty");
        };
        let reader = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert!(matches!(get(&table, 1), None | Some(OLD)));
                assert!(matches!(get(&table, 2), None | Some(NEW)));
            })
        };
        assert_eq!(take(&table, slot), Taken::Entry);
        put(&table, 2, NEW).unwrap();
        reader.join().unwrap();
        assert_eq!((get(&table, 1), get(&table, 2)), (None, Some(NEW)));
    });
}

/// Two insertions of one key make one entry.
#[test]
fn a_key_is_inserted_once() {
    check(2, || {
        let table = Arc::new(Entries::new(Of::NEW, 1).unwrap());
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || put(&table, 1, OLD).unwrap())
        };
        let mine = put(&table, 1, NEW).unwrap();
        let theirs = other.join().unwrap();
        let new = |placed| matches!(placed, Placed::New(_));
        assert!(new(mine) != new(theirs));
        assert!(matches!(get(&table, 1), Some(OLD | NEW)));
    });
}

/// An eviction and a change of the same entry: the change is lost with the entry, or makes a new one.
#[test]
fn a_change_and_an_eviction_exclude_each_other() {
    check(2, || {
        let table = Arc::new(Entries::new(Of::NEW, 1).unwrap());
        let Ok(Placed::New(slot)) = put(&table, 1, OLD) else {
            panic!("the table is empty");
        };
        let writer = {
            let table = table.clone();
            loom::thread::spawn(move || put(&table, 1, NEW).unwrap())
        };
        assert_eq!(table.take_unread(slot, |_| ()).0, Taken::Entry);
        let left = match writer.join().unwrap() {
            Placed::Changed(_) => None,
            _ => Some(NEW),
        };
        assert_eq!(get(&table, 1), left);
    });
}

/// Two lanes that insert into a map of two nodes hand their slots over, and lose no node.
#[test]
fn lanes_hand_their_slots_over() {
    check(1, || {
        let options = LruOptions {
            policy: Policy::Clock,
            cpus: Some(2),
            ..LruOptions::default()
        };
        let map = Arc::new(Lru::new(Of::<u32, u64>::NEW, 2, options, None).unwrap());
        let insert = |map: &Lru<Of<u32, u64>>, cpu: usize| {
            weir_sync::percpu::bind(cpu);
            for key in 0..2 {
                let key = (2 * cpu + key) as u32;
                let value = u64::from(key);
                let result = map.update(bytes_of(&key), Update::Any, |slot| {
                    slot.write(bytes_of(&value));
                });
                // The other lane may hold the second node at that time.
                assert!(matches!(result, Ok(()) | Err(Error::NoMem)));
            }
        };
        let other = {
            let map = map.clone();
            loom::thread::spawn(move || insert(&map, 1))
        };
        insert(&map, 0);
        other.join().unwrap();
        let (free, live) = map.nodes();
        assert_eq!(free + live, 2);
    });
}

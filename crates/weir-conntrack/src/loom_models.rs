// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loom models of the index and of the whole table: connections inserted from both directions at once, removals against look-ups.
//!
//! A number of the models is `2 * connection + direction`. A key is a small integer, kept beside the index as the
//! entries keep it.

use crate::connection::{Change, Create, Handle, Origin};
use crate::conntrack::Conntrack;
use crate::index::Insertion;
use crate::key::{Key, Secret};
use crate::levels::Levels;
use crate::settings::{Setting, Settings};
use crate::status::ips;
use crate::tuple::{Tuple, UDP, Zone};
use weir_sync::models::check;
use weir_sync::primitive::Arc;
use weir_sync::primitive::atomic::{AtomicU32, Ordering::*};

fn hash(key: u32) -> u64 {
    u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn pair<'a>(key: u32, number: u32, keys: &'a [u32]) -> Insertion<impl FnMut(u32) -> bool + 'a> {
    Insertion {
        hash: hash(key),
        number,
        equal: move |number| keys[number as usize] == key,
    }
}

/// Two packets of one connection, one of each direction, begin it at once: one of them enters it.
#[test]
fn one_connection_enters_from_both_directions() {
    const KEYS: [u32; 4] = [1, 2, 2, 1];
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        let enter = |index: &Levels, first: u32| {
            let keys = &KEYS;
            let (a, b) = (keys[first as usize], keys[first as usize + 1]);
            index.insert_pair(pair(a, first, keys), pair(b, first + 1, keys))
        };
        let other = {
            let index = index.clone();
            loom::thread::spawn(move || enter(&index, 2).is_ok())
        };
        let mine = enter(&index, 0).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine != theirs);
        for key in [1, 2] {
            let found = index.find(hash(key), |number| KEYS[number as usize] == key);
            assert_eq!(found.map(|number| number / 2), Some(u32::from(theirs)));
        }
    });
}

/// A look-up during the removal of another connection finds its own, and during its own removal finds it or nothing.
#[test]
fn a_removal_leaves_the_other_connections() {
    const KEYS: [u32; 4] = [1, 2, 3, 4];
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        let keys = &KEYS;
        for first in [0, 2] {
            let (a, b) = (keys[first as usize], keys[first as usize + 1]);
            let entered = index.insert_pair(pair(a, first, keys), pair(b, first + 1, keys));
            assert_eq!(entered, Ok(()));
        }
        let find =
            |index: &Levels, key| index.find(hash(key), |number| KEYS[number as usize] == key);
        let reader = {
            let index = index.clone();
            loom::thread::spawn(move || {
                assert_eq!(find(&index, 3), Some(2));
                assert!(matches!(find(&index, 2), None | Some(1)));
            })
        };
        assert!(index.remove(hash(1), 0));
        assert!(index.remove(hash(2), 1));
        reader.join().unwrap();
        let find = |key| find(&index, key);
        assert_eq!([1, 2, 3, 4].map(find), [None, None, Some(2), Some(3)]);
    });
}

/// An entry that becomes another connection under a look-up is found by its own key alone.
#[test]
fn an_entry_that_is_used_again_is_not_taken_for_its_predecessor() {
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        let key_of = Arc::new(AtomicU32::new(1));
        index.insert(hash(1), 0);
        let writer = {
            let (index, key_of) = (index.clone(), key_of.clone());
            loom::thread::spawn(move || {
                assert!(index.remove(hash(1), 0));
                key_of.store(2, Relaxed);
                index.insert(hash(2), 0);
            })
        };
        let find = |key| index.find(hash(key), |_| key_of.load(Relaxed) == key);
        assert!(matches!(find(2), None | Some(0)));
        assert!(matches!(find(1), None | Some(0)));
        writer.join().unwrap();
        assert_eq!((find(1), find(2)), (None, Some(0)));
    });
}

/// Of two removals of one connection, one succeeds.
#[test]
fn a_connection_is_removed_once() {
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        index.insert(hash(1), 0);
        let other = {
            let index = index.clone();
            loom::thread::spawn(move || index.remove(hash(1), 0))
        };
        let mine = index.remove(hash(1), 0);
        assert!(mine != other.join().unwrap());
        assert_eq!(index.find(hash(1), |_| true), None);
    });
}

/// A look-up that reads a number just before its removal does not take the entry's next key for one of the table.
/// Both keys have one hash, as colliding keys may.
#[test]
fn a_key_that_is_written_after_a_removal_is_not_found() {
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        let key_of = Arc::new(AtomicU32::new(2));
        index.insert(hash(1), 0);
        let writer = {
            let (index, key_of) = (index.clone(), key_of.clone());
            loom::thread::spawn(move || {
                assert!(index.remove(hash(1), 0));
                key_of.store(1, Relaxed);
            })
        };
        assert_eq!(index.find(hash(1), |_| key_of.load(Relaxed) == 1), None);
        writer.join().unwrap();
    });
}

/// Makes the table larger and moves all numbers. The hash of a number is that of the key with the same value.
fn grow(index: &Levels) {
    assert!(index.grow(16, hash));
    while index.is_moving() {
        index.advance(4, hash);
    }
}

/// A look-up while the table grows finds its connection.
#[test]
fn a_connection_that_moves_is_found() {
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        index.insert(hash(1), 1);
        let reader = {
            let index = index.clone();
            loom::thread::spawn(move || index.find(hash(1), |number| number == 1))
        };
        grow(&index);
        assert_eq!(reader.join().unwrap(), Some(1));
        assert!(index.remove(hash(1), 1));
        assert!(index.is_empty());
    });
}

/// A connection that is removed while the table grows is gone afterwards.
#[test]
fn a_connection_that_moves_is_removed() {
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        index.insert(hash(1), 1);
        let remover = {
            let index = index.clone();
            loom::thread::spawn(move || index.remove(hash(1), 1))
        };
        grow(&index);
        assert!(remover.join().unwrap());
        assert!(index.is_empty());
    });
}

/// Of two insertions of one connection while the table grows, one succeeds, and the move leaves nothing behind.
#[test]
fn one_connection_enters_a_table_that_grows() {
    const KEYS: [u32; 4] = [1, 2, 2, 1];
    check(2, || {
        let index = Arc::new(Levels::new(8).unwrap());
        let enter = |index: &Levels, first: u32| {
            let keys = &KEYS;
            let (a, b) = (keys[first as usize], keys[first as usize + 1]);
            index.insert_pair(pair(a, first, keys), pair(b, first + 1, keys))
        };
        let other = {
            let index = index.clone();
            loom::thread::spawn(move || enter(&index, 2).is_ok())
        };
        let hash_of = |number: u32| hash(KEYS[number as usize]);
        assert!(index.grow(16, hash_of));
        index.advance(4, hash_of);
        let mine = enter(&index, 0).is_ok();
        while index.is_moving() {
            index.advance(4, hash_of);
        }
        let theirs = other.join().unwrap();
        assert!(mine != theirs);
        let first = if mine { 0 } else { 2 };
        for number in [first, first + 1] {
            let key = KEYS[number as usize];
            let found = index.find(hash(key), |number| KEYS[number as usize] == key);
            assert_eq!(found, Some(number));
            assert!(index.remove(hash(key), number));
        }
        assert!(index.is_empty());
    });
}

const SECOND: u64 = 1_000_000_000;

/// The seed of the tables' hashes.
const SEED: u64 = 1;

/// A table with room for `most` connections.
fn table(most: u32) -> Arc<Conntrack> {
    let settings = std::sync::Arc::new(Settings::default());
    settings.set(Setting::max, most);
    Arc::new(Conntrack::new(&settings, SEED).unwrap())
}

fn tuple(client: u8) -> Tuple {
    Tuple::v4([10, 0, 0, client], [10, 0, 0, 99], 1, 2, UDP)
}

/// Makes the connection of a client, whose mark is the client's number.
fn create(table: &Conntrack, client: u8) -> Option<Handle> {
    create_of(table, tuple(client), client.into())
}

fn create_of(table: &Conntrack, original: Tuple, mark: u32) -> Option<Handle> {
    let new = Create {
        original,
        reply: original.invert().unwrap(),
        zone: Zone::default(),
        timeout: 100,
        status: 0,
        mark,
        labels: None,
        tcp: None,
        sctp: None,
        dccp: None,
        nat: None,
    };
    table.create(&new, SECOND, Origin::Packet).ok()
}

/// A batch looks for a connection while its entry becomes another connection: it finds the connection under its old
/// name, or nothing.
#[test]
fn a_batch_does_not_take_the_next_connection_for_its_predecessor() {
    check(2, || {
        let table = table(4);
        let old = create(&table, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert!(table.delete(old, SECOND, Origin::Packet));
                create(&table, 2).unwrap()
            })
        };
        let mut found = [None; 2];
        table.find_batch(&[tuple(1), tuple(2)], 0, SECOND, &mut found);
        let new = other.join().unwrap();
        let [first, second] = found.map(|found| found.map(|(handle, _)| handle));
        assert!(first.is_none_or(|handle| handle == old));
        assert!(second.is_none_or(|handle| handle == new));
    });
}

/// A batch looks for the addresses of one connection with the ports of another, while an entry becomes the one after
/// the other: it does not find that mixture, which there never is.
#[test]
fn a_batch_does_not_find_half_of_two_connections() {
    let first = tuple(1);
    let hash = |tuple: &Tuple| Key::new(&Secret::new(SEED), tuple, 0).hash;
    // The number of the first connection is looked at only if the mixture has its tag and its bucket.
    let alike = |mixture: &Tuple| {
        let other = hash(mixture) ^ hash(&first);
        other & 0xfff == 0 && other >> 62 == 0
    };
    let mut clients = (0..1u32 << 20).map(|client| {
        let [_, b, c, d] = client.to_be_bytes();
        Tuple::v4([11, b, c, d], [10, 0, 0, 99], 1, 2, UDP)
    });
    let mixture = clients.find(alike).unwrap();
    let second = Tuple {
        src_port: 3,
        ..mixture
    };
    check(2, move || {
        let table = table(4);
        let old = create_of(&table, first, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert!(table.delete(old, SECOND, Origin::Packet));
                create_of(&table, second, 2).unwrap()
            })
        };
        let mut found = [None; 2];
        table.find_batch(&[first, mixture], 0, SECOND, &mut found);
        assert_eq!(found[1], None);
        assert_eq!(other.join().unwrap().index, old.index);
    });
}

/// A connection is changed by its name while its entry becomes another connection: that one keeps its mark.
#[test]
fn an_old_name_does_not_change_the_next_connection() {
    check(2, || {
        let table = table(4);
        let old = create(&table, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert!(table.delete(old, SECOND, Origin::Packet));
                create(&table, 2).unwrap()
            })
        };
        table.set_mark(old, 7, u32::MAX, SECOND);
        let new = other.join().unwrap();
        assert_eq!(new.index, old.index);
        assert_eq!((table.mark(old), table.mark(new)), (None, Some(2)));
    });
}

/// A copy of a connection whose entry becomes another connection is of one of them, or there is none.
#[test]
fn a_copy_is_of_one_connection() {
    check(2, || {
        let table = table(4);
        let old = create(&table, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || {
                assert!(table.delete(old, SECOND, Origin::Packet));
                create(&table, 2).unwrap();
            })
        };
        if let Some(copy) = table.snapshot(old, SECOND) {
            assert_eq!((copy.original, copy.mark), (tuple(1), 1));
        }
        other.join().unwrap();
        assert_eq!(table.count(), 1);
    });
}

/// Of two removals of one connection, one succeeds, and the entry is free once.
#[test]
fn an_entry_is_freed_once() {
    check(2, || {
        let table = table(4);
        let old = create(&table, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || table.delete(old, SECOND, Origin::Packet))
        };
        let mine = table.delete(old, SECOND, Origin::Packet);
        assert!(mine != other.join().unwrap());
        assert_eq!(table.count(), 0);
        let both = [create(&table, 1).unwrap(), create(&table, 2).unwrap()];
        assert!(both[0].index != both[1].index);
    });
}

/// A connection becomes assured while the full table removes it for another one: one of both is left.
#[test]
fn an_early_removal_meets_an_assured_connection() {
    check(2, || {
        let table = table(1);
        let old = create(&table, 1).unwrap();
        let other = {
            let table = table.clone();
            loom::thread::spawn(move || create(&table, 2).is_some())
        };
        let change = Change {
            status: Some(ips::ASSURED),
            ..Change::default()
        };
        table.change(old, &change, SECOND, Origin::Packet);
        let entered = other.join().unwrap();
        let there = |client| table.find(&tuple(client), 0, SECOND).is_some();
        assert_eq!((there(1), there(2)), (!entered, entered));
        assert_eq!(table.count(), 1);
    });
}

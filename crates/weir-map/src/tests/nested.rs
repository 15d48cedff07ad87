// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps of maps, and iterations, while others change them.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_sync::rcu::Domain;

fn inner(max_entries: u32) -> Arc<Map> {
    let options = MapOptions {
        kind: Kind::Hash,
        key_size: 4,
        value_size: 8,
        max_entries,
        lru: LruOptions::default(),
    };
    Arc::new(Map::new(options).unwrap())
}

#[test]
fn a_replaced_inner_map_lives_until_its_readers_leave() {
    for kind in [OuterKind::Array, OuterKind::Hash] {
        let domain = Domain::default();
        let outer = MapOfMaps::new(&domain, kind, 4, 4, &inner(1)).unwrap();
        let (key, old) = ([1, 0, 0, 0], inner(1));
        outer.update(&key, old.clone(), Update::Any).unwrap();
        let seen = Arc::downgrade(&old);
        drop(old);
        let guard = domain.pin();
        let map = outer.look_up(&key, &guard).unwrap();
        outer.update(&key, inner(1), Update::Any).unwrap();
        domain.poll();
        map.update(&[0; 4], &[7; 8], Update::Any).unwrap();
        assert!(seen.upgrade().is_some());
        drop(guard);
        domain.barrier();
        assert!(seen.upgrade().is_none(), "{kind:?}");
        // A map that was looked up to be kept outlives its entry.
        let kept = outer.get(&key).unwrap();
        outer.delete(&key).unwrap();
        assert_eq!(outer.delete(&key), Err(Error::NoEnt));
        assert_eq!(outer.get(&key).err(), Some(Error::NoEnt));
        domain.barrier();
        assert_eq!(Arc::strong_count(&kept), 1);
        let last = inner(1);
        outer.update(&key, last.clone(), Update::Any).unwrap();
        drop(outer);
        assert_eq!(Arc::strong_count(&last), 1, "{kind:?}");
    }
}

#[test]
fn a_refused_inner_map_is_not_kept() {
    let domain = Domain::default();
    let outer = MapOfMaps::new(&domain, OuterKind::Hash, 4, 1, &inner(1)).unwrap();
    outer.update(&[0; 4], inner(1), Update::Any).unwrap();
    let map = inner(1);
    let again = outer.update(&[0; 4], map.clone(), Update::NoExist);
    assert_eq!(again, Err(Error::Exist));
    let full = outer.update(&[1; 4], map.clone(), Update::Any);
    assert_eq!(full, Err(Error::TooBig));
    let absent = outer.update(&[1; 4], map.clone(), Update::Exist);
    assert_eq!(absent, Err(Error::NoEnt));
    domain.barrier();
    assert_eq!(Arc::strong_count(&map), 1);
}

#[test]
fn readers_of_inner_maps_race_with_their_replacement() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 10_000 };
    for kind in [OuterKind::Array, OuterKind::Hash] {
        let domain = Domain::default();
        let outer = MapOfMaps::new(&domain, kind, 4, 4, &inner(1)).unwrap();
        let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let key = [(round % 4) as u8, 0, 0, 0];
                    let map = inner(1);
                    // Each inner map knows the place that it was made for.
                    map.update(&key, &round.to_ne_bytes(), Update::Any).unwrap();
                    outer.update(&key, map, Update::Any).unwrap();
                    if round % 7 == 0 {
                        outer.delete(&key).unwrap();
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for place in 0..4 {
                        let (key, guard) = ([place, 0, 0, 0], domain.pin());
                        if let Ok(map) = outer.look_up(&key, &guard) {
                            let mut value = [0; 8];
                            map.look_up(&key, &mut value).unwrap();
                            assert_eq!(u64::from_ne_bytes(value) % 4, u64::from(place));
                            seen.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        });
        assert!(cfg!(miri) || seen.into_inner() > 0);
    }
}

/// Entries that are there from the beginning of an iteration to its end are returned once, while
/// threads evict others.
#[test]
fn an_iteration_survives_evictions() {
    const ENTRIES: u32 = if cfg!(miri) { 100 } else { 5_000 };
    for policy in [Policy::Clock, Policy::S3Fifo, Policy::Exact] {
        let map = lru(ENTRIES, policy);
        for key in 0..ENTRIES {
            map.insert(key, u64::from(key)).unwrap();
        }
        let stop = AtomicBool::new(false);
        let mut keys = Vec::new();
        std::thread::scope(|scope| {
            for thread in 1..3 {
                let (map, stop) = (&map, &stop);
                scope.spawn(move || {
                    // New keys for ever; a few of the first ones stay in use.
                    for key in (thread << 28).. {
                        map.insert(key, u64::from(key)).unwrap();
                        map.get(&(key % (ENTRIES / 4)));
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
            }
            for (key, value) in map.iter() {
                assert_eq!(u64::from(key), value);
                keys.push(key);
            }
            stop.store(true, Ordering::Relaxed);
        });
        keys.sort_unstable();
        let len = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), len, "{policy:?}: an entry was returned twice");
        let stayed = (0..ENTRIES).filter(|key| map.peek(key).is_some());
        for key in stayed {
            assert!(keys.binary_search(&key).is_ok(), "{policy:?}: {key}");
        }
    }
}

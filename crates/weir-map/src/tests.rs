// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the maps through their API.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod batches;
mod nested;
mod traces;

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

fn lru(max: u32, policy: Policy) -> LruHashMap<u32, u64> {
    let options = LruOptions {
        policy,
        ..LruOptions::default()
    };
    LruHashMap::new(max, options).unwrap()
}

/// Returns the misses of a trace.
fn misses(map: &LruHashMap<u32, u64>, trace: &[u32]) -> u32 {
    let mut misses = 0;
    for &key in trace {
        if map.get(&key).is_none() {
            misses += 1;
            map.update(key, 1, Update::NoExist).unwrap();
        }
    }
    misses
}

#[test]
fn misses_on_the_zipf_traces() {
    // The figures of exact LRU come from another program with the same traces.
    // The figures of the kernel were measured on Linux 6.18 (`lru_hash`, common list).
    for (exponent, size, exact, kernel) in [
        (1.01, 4000, 343_850, 304_964),
        (1.01, 40_000, 119_502, 114_089),
        (0.9, 4000, 512_426, 457_468),
        (0.9, 40_000, 191_614, 180_300),
    ] {
        let trace = traces::zipf(exponent, 100_000, 1_000_000, 42);
        let of = |policy| misses(&lru(size, policy), &trace);
        assert_eq!(of(Policy::Exact), exact);
        let (clock, s3) = (of(Policy::Clock), of(Policy::S3Fifo));
        assert!(
            s3 < clock && clock <= kernel,
            "{exponent} {size}: s3-fifo {s3}, clock {clock}, exact {exact}"
        );
    }
}

/// No policy has more than 5% more misses than exact LRU where popularity moves, keys are scanned, or
/// the same keys come again and again.
#[test]
#[cfg_attr(miri, ignore)]
fn misses_on_traces_that_change() {
    const COUNT: usize = if cfg!(debug_assertions) {
        200_000
    } else {
        1_000_000
    };
    let zipf = traces::ranks(1.01, 100_000, COUNT, 7);
    let shift = |period| {
        let key = |(at, &rank): (usize, &u32)| {
            ((u64::from(rank) * 7919 + (at / period) as u64 * 12_345) % 100_000) as u32
        };
        zipf.iter().enumerate().map(key).collect::<Vec<_>>()
    };
    let mut scan = zipf.clone();
    let scanned = scan.iter_mut().enumerate().filter(|(at, _)| at % 20 < 6);
    for (key, (_, access)) in scanned.enumerate() {
        *access = 100_000 + key as u32;
    }
    for size in [4_000, 40_000] {
        let cycle = (0..COUNT as u32).map(|at| at % (size / 10 * 11)).collect();
        for (name, trace) in [
            ("scan", &scan),
            ("loop", &cycle),
            ("shift", &shift(100_000)),
            ("fast shift", &shift(20_000)),
        ] {
            let of = |policy| misses(&lru(size, policy), trace);
            let exact = of(Policy::Exact);
            for policy in [Policy::Clock, Policy::S3Fifo] {
                let misses = of(policy);
                let bound = exact + exact / 20;
                assert!(
                    misses <= bound,
                    "{name} {size} {policy:?}: {misses}, exact {exact}"
                );
            }
        }
    }
}

/// One call of a map.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Get(u8),
    Update(u8, u64, Update),
    Delete(u8),
    Take(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let modes = prop_oneof![
        Just(Update::Any),
        Just(Update::NoExist),
        Just(Update::Exist)
    ];
    let key = 0u8..48;
    prop_oneof![
        key.clone().prop_map(Operation::Get),
        (key.clone(), any::<u64>(), modes).prop_map(|(k, v, m)| Operation::Update(k, v, m)),
        key.clone().prop_map(Operation::Delete),
        key.prop_map(Operation::Take),
    ]
}

/// The model: entries, the one used last at the end.
#[derive(Default)]
struct Model(Vec<(u8, u64)>);

impl Model {
    fn find(&self, key: u8) -> Option<usize> {
        self.0.iter().position(|entry| entry.0 == key)
    }

    fn get(&mut self, key: u8) -> Option<u64> {
        let entry = self.0.remove(self.find(key)?);
        self.0.push(entry);
        Some(entry.1)
    }

    fn take(&mut self, key: u8) -> Option<u64> {
        Some(self.0.remove(self.find(key)?).1)
    }

    fn update(&mut self, key: u8, value: u64, mode: Update, max: usize) -> Result<(), Error> {
        match (self.find(key), mode) {
            (Some(_), Update::NoExist) => return Err(Error::Exist),
            (None, Update::Exist) => return Err(Error::NoEnt),
            (Some(at), _) => {
                self.0.remove(at);
            }
            (None, _) if self.0.len() == max => {
                self.0.remove(0);
            }
            _ => {}
        }
        self.0.push((key, value));
        Ok(())
    }
}

fn sorted(entries: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable();
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn every_kind_is_its_model(
        kind in 0..Kind::ALL.len() as u8,
        key_size in prop_oneof![Just(4u8), 1u8..12],
        (value_size, entries, policy) in (1u8..20, 1u8..40, 0u8..9),
        calls in vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = vec![kind, key_size, value_size, entries, policy];
        bytes.extend(calls);
        prop_assert_eq!(model::check(&bytes), Ok(()));
    }

    #[test]
    fn exact_lru_is_its_model(max in 1u32..40, calls in vec(operation(), 1..400)) {
        let map = lru(max, Policy::Exact);
        let mut model = Model::default();
        for call in calls {
            match call {
                Operation::Get(key) => prop_assert_eq!(map.get(&key.into()), model.get(key)),
                Operation::Take(key) => prop_assert_eq!(map.take(&key.into()), model.take(key)),
                Operation::Delete(key) => {
                    let expected = model.take(key).map(|_| ()).ok_or(Error::NoEnt);
                    prop_assert_eq!(map.delete(&key.into()), expected);
                }
                Operation::Update(key, value, mode) => {
                    let expected = model.update(key, value, mode, max as usize);
                    prop_assert_eq!(map.update(key.into(), value, mode), expected);
                }
            }
        }
        let expected = sorted(model.0.iter().map(|&(k, v)| (k.into(), v)));
        prop_assert_eq!(sorted(map.iter()), expected);
    }

    /// A map that evicts may have lost an entry, but never has a wrong one, more than it may hold, or
    /// fewer if none was lost; it tells what it lost.
    #[test]
    fn lru_loses_only_what_it_tells(
        max in 1u32..40,
        s3 in any::<bool>(),
        spread in prop_oneof![Just(Spread::Common), Just(Spread::PerCpu), Just(Spread::Borrow)],
        // The reference bytes of S3-FIFO have no room for the owners of nine CPUs.
        cpus in prop_oneof![Just(3usize), Just(9)],
        calls in vec((operation(), 0usize..3), 1..400),
    ) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = told.clone();
        let policy = if s3 { Policy::S3Fifo } else { Policy::Clock };
        let options = LruOptions { policy, spread, cpus: Some(cpus), ..LruOptions::default() };
        let map = LruHashMap::<u32, u64>::with_callback(max, options, move |key, value, _| {
            tell.lock().unwrap().push((key, value));
        }).unwrap();
        let mut model = Model::default();
        for (call, cpu) in calls {
            weir_sync::percpu::bind(cpu);
            let result = match call {
                Operation::Get(key) => {
                    prop_assert_eq!(map.get(&key.into()), model.get(key));
                    Ok(())
                }
                Operation::Take(key) => {
                    prop_assert_eq!(map.take(&key.into()), model.take(key));
                    Ok(())
                }
                Operation::Delete(key) => {
                    let expected = model.take(key).map(|_| ()).ok_or(Error::NoEnt);
                    prop_assert_eq!(map.delete(&key.into()), expected);
                    Ok(())
                }
                Operation::Update(key, value, mode) => {
                    let there = model.find(key).is_some();
                    let result = map.update(key.into(), value, mode);
                    for (key, value) in told.lock().unwrap().drain(..) {
                        prop_assert_eq!(model.take(key as u8), Some(value));
                        // The update of an existing key evicts nothing.
                        prop_assert!(!there);
                    }
                    match result {
                        Err(Error::NoMem) => prop_assert!(!there),
                        result => prop_assert_eq!(
                            result,
                            model.update(key, value, mode, usize::MAX)
                        ),
                    }
                    result
                }
            };
            prop_assert!(spread != Spread::Common || result != Err(Error::NoMem));
            prop_assert!(model.0.len() <= map.capacity() as usize);
        }
        weir_sync::percpu::unbind();
        let expected = sorted(model.0.iter().map(|&(k, v)| (k.into(), v)));
        prop_assert_eq!(sorted(map.iter()), expected);
    }
}

#[test]
fn a_map_of_no_entries_or_too_many_is_refused() {
    assert_eq!(HashMap::<u32, u64>::new(0).err(), Some(Error::Inval));
    assert_eq!(
        HashMap::<u32, u64>::new(u32::MAX).err(),
        Some(Error::TooBig)
    );
    assert_eq!(HashMap::<[u8; 513], u64>::new(1).err(), Some(Error::TooBig));
    assert_eq!(HashMap::<[u8; 0], u64>::new(1).err(), Some(Error::Inval));
    // Thousands of gigabytes: there is not so much address space.
    let huge = HashMap::<u32, [u64; 1 << 18]>::new(2_000_000_000);
    assert_eq!(huge.err(), Some(Error::NoMem));
}

#[test]
fn an_update_of_an_existing_key_of_a_full_map_keeps_every_entry() {
    for policy in [Policy::Clock, Policy::S3Fifo, Policy::Exact] {
        let map = lru(100, policy);
        for key in 0..1000 {
            map.insert(key, 0).unwrap();
        }
        let before = sorted(map.iter());
        for &(key, _) in &before {
            map.update(key, 1, Update::Exist).unwrap();
            map.update(key, 2, Update::Any).unwrap();
            assert_eq!(map.update(key, 3, Update::NoExist), Err(Error::Exist));
        }
        let after = sorted(map.iter());
        assert!(after.iter().all(|entry| entry.1 == 2));
        assert_eq!(before.len(), after.len(), "{policy:?}");
    }
}

#[test]
fn stress_threads_see_their_values_or_nothing() {
    const ROUNDS: u64 = if cfg!(miri) { 200 } else { 30_000 };
    for policy in [Policy::Clock, Policy::S3Fifo, Policy::Exact] {
        for spread in [Spread::Common, Spread::PerCpu, Spread::Borrow] {
            let options = LruOptions {
                policy,
                spread,
                // The reference bytes of S3-FIFO have no room for the owners of nine CPUs.
                cpus: Some(if policy == Policy::S3Fifo { 9 } else { 2 }),
                ..LruOptions::default()
            };
            let Ok(map) = LruHashMap::<u32, [u64; 3]>::new(256, options) else {
                assert_eq!(policy, Policy::Exact);
                continue;
            };
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let map = &map;
                    scope.spawn(move || {
                        weir_sync::percpu::bind(thread);
                        let mut random = traces::Random(thread as u64);
                        for round in 0..ROUNDS {
                            let key = random.below(600) as u32;
                            let tag = u64::from(key) << 32 | round;
                            match random.below(8) {
                                0 => {
                                    let _ = map.delete(&key);
                                }
                                1..5 => {
                                    let inserted = map.insert(key, [tag, !tag, tag]);
                                    assert!(matches!(inserted, Ok(()) | Err(Error::NoMem)));
                                }
                                _ => {
                                    if let Some([a, b, c]) = map.get(&key) {
                                        assert!(a >> 32 == u64::from(key) && b == !a && c == a);
                                    }
                                }
                            }
                        }
                    });
                }
            });
            let mut keys: Vec<_> = map.iter().map(|entry| entry.0).collect();
            let len = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert!(
                keys.len() == len && len <= 256,
                "{policy:?} {spread:?}: {len}"
            );
            assert!(spread != Spread::Borrow || map.is_balanced(), "{policy:?}");
            // No node was lost or made.
            let (free, live) = map.nodes();
            assert_eq!(
                (free + live, live),
                (map.capacity(), len as u32),
                "{policy:?} {spread:?}"
            );
        }
    }
}

#[test]
fn entries_expire_when_they_are_idle() {
    let lost = Arc::new(Mutex::new(Vec::new()));
    let told = lost.clone();
    let options = LruOptions {
        idle: Some(10),
        count_lookups: true,
        ..LruOptions::default()
    };
    let map = LruHashMap::<u32, u64>::with_callback(100, options, move |key, value, reason| {
        told.lock().unwrap().push((key, value, reason));
    })
    .unwrap();
    map.insert(1, 11).unwrap();
    map.insert(2, 22).unwrap();
    map.set_time(10);
    assert_eq!(map.get(&1), Some(11));
    map.set_time(11);
    // The look-up has renewed the first one.
    assert_eq!((map.get(&1), map.get(&2)), (Some(11), None));
    assert_eq!(sorted(map.iter()), [(1, 11)]);
    assert_eq!(map.update(2, 23, Update::Exist), Err(Error::NoEnt));
    assert_eq!(*lost.lock().unwrap(), [(2, 22, Reason::Idle)]);
    map.update(2, 24, Update::NoExist).unwrap();
    assert_eq!(map.get(&2), Some(24));
    map.set_time(100);
    assert_eq!((map.take(&1), map.delete(&2)), (None, Err(Error::NoEnt)));
    let stats = map.stats();
    assert_eq!((stats.hits, stats.misses, stats.evicted_idle), (3, 1, 1));
}

#[test]
fn what_a_map_does_is_counted() {
    for (policy, main) in [(Policy::Clock, false), (Policy::S3Fifo, true)] {
        let map = lru(1000, policy);
        for key in 0..1000 {
            map.insert(key, 0).unwrap();
        }
        let filled = map.stats();
        // S3-FIFO takes the lock for nodes; the clock, to hand its chunks of entries over.
        let chunks = match policy {
            Policy::S3Fifo => 1000 - filled.local_hits,
            _ => 1000 / 4 - 1,
        };
        assert_eq!(filled.global_locks, chunks, "{policy:?}: {filled:?}");
        assert!(filled.local_hits > 600, "{filled:?}");
        let evicted =
            |stats: LruStats| stats.evicted_inactive + stats.evicted_main + stats.evicted_forced;
        // A map that is not full loses nothing.
        assert_eq!((evicted(filled), map.nodes().1), (0, 1000), "{policy:?}");
        for key in 1000..5000 {
            map.insert(key, 0).unwrap();
            map.get(&(key - 1));
        }
        let stats = map.stats();
        // Each entry more than the map holds has been evicted, and free nodes wait for others.
        let live = map.nodes().1;
        assert_eq!(evicted(stats), u64::from(5000 - live), "{policy:?}");
        assert_eq!(stats.evicted_main > 0, main, "{policy:?}: {stats:?}");
        assert_eq!((stats.hits, stats.failed), (0, 0));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::thread;

/// A filter and the set behind it.
struct Set {
    domain: Domain,
    sieve: Sieve,
    keys: Mutex<BTreeSet<u64>>,
    renewals: AtomicU32,
}

/// Returns a hash that is a sum of products with odd numbers: linear in the key.
fn hash(key: u64) -> u64 {
    (key & 0xffff_ffff) * 0x9216_d5d9 + (key >> 32) * 0xb5f3_1a7b
}

impl Set {
    fn new() -> Self {
        let domain = Domain::default();
        Self {
            sieve: Sieve::new(&domain),
            domain,
            keys: Mutex::default(),
            renewals: AtomicU32::new(0),
        }
    }

    fn add(&self, key: u64) {
        let guard = self.domain.pin();
        let list = |each: Option<&mut dyn FnMut(u64)>| {
            let keys = self.keys.lock().unwrap().clone();
            if let Some(each) = each {
                self.renewals.fetch_add(1, Ordering::Relaxed);
                keys.iter().for_each(|key| each(hash(*key)));
            }
            keys.len()
        };
        let put = || self.keys.lock().unwrap().insert(key);
        self.sieve.add(hash(key), &guard, put, list);
        assert!(self.passes(key));
    }

    fn passes(&self, key: u64) -> bool {
        self.sieve.view(&self.domain.pin()).passes(spot(hash(key)))
    }
}

#[test]
fn every_key_passes_and_few_others_do() {
    for shift in [0, 8, 16, 24, 32] {
        let set = Set::new();
        for n in 0..20_000_u64 {
            set.add(n << shift);
        }
        assert!((0..20_000).all(|n| set.passes(n << shift)));
        let wrong = (20_000..40_000_u64)
            .filter(|n| set.passes(n << shift))
            .count();
        assert!(
            wrong < 1000,
            "shift {shift}: {wrong} of 20000 are false positives"
        );
        assert!(set.renewals.load(Ordering::Relaxed) < 12);
        assert!(set.sieve.memory(&set.domain.pin()) <= 20_000 * 8 + 64);
    }
}

#[test]
fn removed_keys_do_not_fill_the_filter() {
    let set = Set::new();
    for n in 0..100_000_u64 {
        set.add(n);
        if n >= 100 {
            set.keys.lock().unwrap().remove(&(n - 100));
        }
    }
    let wrong = (200_000..210_000_u64).filter(|n| set.passes(*n)).count();
    assert!(wrong < 500, "{wrong} of 10000 are false positives");
    assert!(set.sieve.memory(&set.domain.pin()) < 8192);
}

#[test]
fn concurrent_adds_lose_no_key() {
    let (threads, keys) = if cfg!(miri) { (2, 100) } else { (4, 4000) };
    let set = &Set::new();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for n in 0..keys {
                    set.add(n << 8 | thread);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                // Keys that are in the set pass, whatever other threads do.
                let present: Vec<_> = set.keys.lock().unwrap().iter().copied().collect();
                let guard = set.domain.pin();
                let view = set.sieve.view(&guard);
                let missing = present.iter().filter(|key| !view.passes(spot(hash(**key))));
                // Keys that are being added may be missing from the newest filter.
                assert!(missing.count() <= threads as usize);
            }
        });
    });
    let guard = set.domain.pin();
    let view = set.sieve.view(&guard);
    let keys = set.keys.lock().unwrap();
    assert!(keys.iter().all(|key| view.passes(spot(hash(*key)))));
}

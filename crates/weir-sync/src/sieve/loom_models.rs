// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of adding during a renewal, and of concurrent adds. Under loom a filter is renewed from
//! the third key on.

use super::*;
use crate::models::check;
use crate::primitive::Arc;
use loom::thread;

/// A filter and the set behind it: one slot per key.
struct Set {
    sieve: Sieve,
    keys: [AtomicBool; 4],
}

/// Returns hashes with distinct spots.
fn hash(key: usize) -> u64 {
    (key as u64 + 1) * 0x0123_4567_89ab_cdef
}

impl Set {
    fn new(domain: &Domain) -> Arc<Self> {
        Arc::new(Self {
            sieve: Sieve::new(domain),
            keys: core::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    fn add(&self, key: usize, guard: &Guard) {
        let put = || self.keys[key].store(true, Ordering::Release);
        let list = |each: Option<&mut dyn FnMut(u64)>| {
            if let Some(each) = each {
                for (key, present) in self.keys.iter().enumerate() {
                    if present.load(Ordering::Acquire) {
                        each(hash(key));
                    }
                }
            }
            0
        };
        self.sieve.add(hash(key), guard, put, list);
    }

    fn passes(&self, key: usize, guard: &Guard) -> bool {
        self.sieve.view(guard).passes(spot(hash(key)))
    }
}

#[test]
fn no_key_is_lost_in_a_concurrent_renewal() {
    check(3, || {
        let domain = Domain::default();
        let set = Set::new(&domain);
        set.add(0, &domain.pin());
        set.add(1, &domain.pin());
        let other = {
            let (domain, set) = (domain.clone(), set.clone());
            thread::spawn(move || {
                // One of the two adds the third key, and renews.
                set.add(2, &domain.pin());
                assert!(set.passes(2, &domain.pin()));
            })
        };
        set.add(3, &domain.pin());
        assert!(set.passes(3, &domain.pin()));
        other.join().unwrap();
        domain.poll();
        let guard = domain.pin();
        assert!((0..4).all(|key| set.passes(key, &guard)));
    });
}

#[test]
fn present_keys_pass_during_a_renewal() {
    check(2, || {
        let domain = Domain::default();
        let set = Set::new(&domain);
        set.add(0, &domain.pin());
        set.add(1, &domain.pin());
        let reader = {
            let (domain, set) = (domain.clone(), set.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                assert!(set.passes(0, &guard) && set.passes(1, &guard));
            })
        };
        set.add(2, &domain.pin());
        domain.poll();
        reader.join().unwrap();
    });
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No element is left without a drainer, and there are never two drainers at once.

use super::*;
use crate::list::Entry;
use crate::models::{Tracked, check};
use crate::primitive::Arc;

struct Shared {
    combiner: Combiner<Entry<usize>>,
    /// Accessed by the drainer only.
    drained: Tracked,
    asked: AtomicU32,
}

fn drain(shared: &Shared) {
    drain_with(shared, None);
}

/// Hands over an element as a sender does: without the list if there is no drainer.
fn send(shared: &Shared, value: usize) {
    let mut own = Some(Entry::new(value));
    if shared.combiner.enter() || shared.combiner.push_all(own.take()) {
        drain_with(shared, own);
    }
}

fn drain_with(shared: &Shared, mut own: Option<Entry<usize>>) {
    loop {
        for entry in shared.combiner.take_all().chain(own.take()) {
            shared
                .drained
                .write(shared.drained.read() * 10 + entry.into_inner());
        }
        if shared.asked.swap(0, Ordering::Relaxed) == 1 {
            shared.drained.write(shared.drained.read() * 10 + 9);
        }
        if shared.combiner.leave() {
            return;
        }
    }
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        combiner: Combiner::new(),
        drained: Tracked::new(0),
        asked: AtomicU32::new(0),
    })
}

#[test]
fn no_element_is_left_behind() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                for value in [1, 2] {
                    if shared.combiner.push_all([Entry::new(value)]) {
                        drain(&shared);
                    }
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)]) {
            drain(&shared);
        }
        other.join().unwrap();
        assert!(!shared.combiner.has_some());
        // Each producer's order is kept.
        assert!([123, 132, 312].contains(&shared.drained.read()));
    });
}

#[test]
fn entering_leaves_no_element_behind() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || [1, 2].map(|value| send(&shared, value)))
        };
        send(&shared, 3);
        other.join().unwrap();
        assert!(!shared.combiner.has_some());
        // Each producer's order is kept.
        assert!([123, 132, 312].contains(&shared.drained.read()));
    });
}

#[test]
fn no_request_to_check_again_is_lost() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                shared.asked.fetch_or(1, Ordering::Relaxed);
                if shared.combiner.ask() {
                    drain(&shared);
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)]) {
            drain(&shared);
        }
        other.join().unwrap();
        let drained = shared.drained.read();
        assert!([39, 93].contains(&drained), "{drained}");
    });
}

/// A drainer that abandons its work relies on a call of `ask`, and learns if one has already
/// happened.
#[test]
fn abandoned_elements_are_drained_after_ask() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                if shared.combiner.push_all([Entry::new(1)]) {
                    drain(&shared);
                }
                shared.asked.fetch_or(1, Ordering::Relaxed);
                if shared.combiner.ask() {
                    drain(&shared);
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)])
            && (!shared.combiner.abandon() || shared.combiner.ask())
        {
            drain(&shared);
        }
        other.join().unwrap();
        assert!(!shared.combiner.has_some());
        let drained = shared.drained.read();
        assert!(
            [139, 193, 319, 391, 913, 931].contains(&drained),
            "{drained}"
        );
    });
}

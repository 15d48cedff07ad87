// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is left with nobody to drain it, and two are never at work at once.

use super::*;
use crate::list::Entry;
use crate::models::{Tracked, check};
use crate::primitive::Arc;

struct Shared {
    combiner: Combiner<Entry<usize>>,
    /// Reached by the one at work only.
    drained: Tracked,
    asked: AtomicU32,
}

fn work(shared: &Shared) {
    work_with(shared, None);
}

/// Hands an element over as senders do: without the list if nobody is at work.
fn send(shared: &Shared, value: usize) {
    let mut own = Some(Entry::new(value));
    if shared.combiner.enter() || shared.combiner.push_all(own.take()) {
        work_with(shared, own);
    }
}

fn work_with(shared: &Shared, mut own: Option<Entry<usize>>) {
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
                        work(&shared);
                    }
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)]) {
            work(&shared);
        }
        other.join().unwrap();
        assert!(!shared.combiner.has_some());
        // Order within a producer holds.
        assert!([123, 132, 312].contains(&shared.drained.read()));
    });
}

#[test]
fn who_enters_leaves_no_element_behind() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || [1, 2].map(|value| send(&shared, value)))
        };
        send(&shared, 3);
        other.join().unwrap();
        assert!(!shared.combiner.has_some());
        // Order within a producer holds.
        assert!([123, 132, 312].contains(&shared.drained.read()));
    });
}

#[test]
fn no_question_is_lost() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                shared.asked.fetch_or(1, Ordering::Relaxed);
                if shared.combiner.ask() {
                    work(&shared);
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)]) {
            work(&shared);
        }
        other.join().unwrap();
        let drained = shared.drained.read();
        assert!([39, 93].contains(&drained), "{drained}");
    });
}

/// Who leaves the rest to others sees to it that somebody asks, and is told if somebody has already.
#[test]
fn what_is_abandoned_is_asked_for() {
    check(3, || {
        let shared = shared();
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                if shared.combiner.push_all([Entry::new(1)]) {
                    work(&shared);
                }
                shared.asked.fetch_or(1, Ordering::Relaxed);
                if shared.combiner.ask() {
                    work(&shared);
                }
            })
        };
        if shared.combiner.push_all([Entry::new(3)])
            && (!shared.combiner.abandon() || shared.combiner.ask())
        {
            work(&shared);
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

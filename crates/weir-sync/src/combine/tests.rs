// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the combiner against a queue and with threads.

use super::*;
use crate::list::Entry;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Operation {
    Push(Vec<u8>),
    Enter,
    Ask,
    Take,
    Leave,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..5).prop_map(Push),
        Just(Enter),
        Just(Ask),
        Just(Take),
        Just(Leave),
    ]
}

proptest! {
    #![proptest_config(crate::cases(128))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..100)) {
        let combiner = Combiner::new();
        let (mut queue, mut busy, mut asked) = (VecDeque::new(), false, false);
        for operation in operations {
            match operation {
                Operation::Push(values) => {
                    queue.extend(&values);
                    let mine = combiner.push_all(values.into_iter().map(Entry::new));
                    prop_assert_eq!(mine, !busy);
                    busy = true;
                }
                Operation::Enter => {
                    prop_assert_eq!(combiner.enter(), !busy);
                    busy = true;
                }
                Operation::Ask => {
                    prop_assert_eq!(combiner.ask(), !busy);
                    asked |= busy;
                    busy = true;
                }
                Operation::Take => {
                    let taken: Vec<_> = combiner.take_all().map(Entry::into_inner).collect();
                    prop_assert_eq!(taken, queue.drain(..).collect::<Vec<_>>());
                }
                Operation::Leave if busy => {
                    busy = asked || !queue.is_empty();
                    prop_assert_eq!(combiner.leave(), !busy);
                    asked = false;
                }
                Operation::Leave => {}
            }
            prop_assert_eq!(combiner.has_some(), !queue.is_empty());
        }
    }
}

#[test]
fn admits_up_to_the_limit_behind_the_first() {
    let combiner = Combiner::new();
    assert!(combiner.admit(5, 2), "no element waits");
    assert!(combiner.push_all([Entry::new(0)]));
    assert!(combiner.admit(2, 2));
    assert!(!combiner.admit(1, 2));
    assert!(combiner.abandon());
    assert!(combiner.admit(1, 2), "there is no drainer");
    assert!(combiner.ask() && !combiner.admit(1, 2));
    drop(combiner.take_all());
    assert!(combiner.admit(1, 2));
}

/// Four senders wait while no thread drains: each is refused after some 10 ms. Then a thread
/// drains, and each sender is admitted, on its next attempt at the latest.
#[test]
fn a_sender_sleeps_until_there_is_room() {
    let combiner = Combiner::new();
    assert!(combiner.push_all([Entry::new(0)]));
    assert!(combiner.admit(2, 2));
    let refused = || {
        let start = Instant::now();
        !combiner.admit_later(1, 2) && start.elapsed() >= LONGEST
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(refused)).collect();
        for thread in waiting {
            assert!(thread.join().unwrap());
        }
    });
    assert_eq!(combiner.asleep.load(Ordering::Relaxed), 0);
    std::thread::scope(|scope| {
        let sender = || while !combiner.admit_later(1, 2) {};
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(sender)).collect();
        while waiting.iter().any(|thread| !thread.is_finished()) {
            drop(combiner.take_all());
        }
    });
    assert_eq!(combiner.asleep.load(Ordering::Relaxed), 0);
}

/// Eight threads push their own numbers; whichever is the drainer records them without a lock.
#[test]
fn stress_nothing_is_lost_or_reordered() {
    const THREADS: usize = 8;
    const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
    struct Shared {
        combiner: Combiner<Entry<(usize, usize)>>,
        /// The lock must never be contended: only the drainer takes it.
        seen: std::sync::Mutex<Vec<(usize, usize)>>,
    }
    let shared = Shared {
        combiner: Combiner::new(),
        seen: std::sync::Mutex::default(),
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut own = Some(Entry::new((thread, number)));
                    if !shared.combiner.enter() && !shared.combiner.push_all(own.take()) {
                        continue;
                    }
                    loop {
                        let mut seen = shared.seen.try_lock().expect("two drainers");
                        let batch = shared.combiner.take_all().chain(own.take());
                        seen.extend(batch.map(Entry::into_inner));
                        drop(seen);
                        if shared.combiner.leave() {
                            break;
                        }
                    }
                }
            });
        }
    });
    let seen = shared.seen.into_inner().unwrap();
    assert_eq!(seen.len(), THREADS * EACH);
    for thread in 0..THREADS {
        let own = seen.iter().filter(|(from, _)| *from == thread);
        assert!(own.map(|&(_, number)| number).eq(0..EACH));
    }
}

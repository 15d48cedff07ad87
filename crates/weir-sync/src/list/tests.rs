// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the list against a queue, and of a small transmit path.

use super::*;
use crate::spin::SpinLock;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Operation {
    Push(u8),
    PushAll(Vec<u8>),
    TakeAll,
    TakeSome(usize),
    Append(Vec<u8>, usize, Vec<u8>),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let some = || prop::collection::vec(any::<u8>(), 0..4);
    prop_oneof![
        any::<u8>().prop_map(Push),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(PushAll),
        Just(TakeAll),
        (0usize..4).prop_map(TakeSome),
        (some(), 0usize..4, some())
            .prop_map(|(before, dropped, after)| Append(before, dropped, after)),
    ]
}

proptest! {
    #![proptest_config(crate::cases(128))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..100)) {
        let list = LocklessList::new();
        let mut oracle = VecDeque::new();
        for operation in operations {
            let empty = oracle.is_empty();
            match operation {
                Operation::Push(value) => {
                    oracle.push_back(value);
                    prop_assert_eq!(list.push(Entry::new(value)), empty);
                }
                Operation::PushAll(values) => {
                    oracle.extend(&values);
                    let some = !values.is_empty();
                    let first = list.push_all(values.into_iter().map(Entry::new));
                    prop_assert_eq!(first, empty && some);
                }
                Operation::TakeAll => {
                    let taken: Vec<_> = list.take_all().map(Entry::into_inner).collect();
                    prop_assert_eq!(taken, oracle.drain(..).collect::<Vec<_>>());
                }
                Operation::TakeSome(some) => {
                    let taken: Vec<_> = list.take_all().take(some).map(Entry::into_inner).collect();
                    prop_assert_eq!(taken, oracle.drain(..).take(some).collect::<Vec<_>>());
                }
                Operation::Append(before, dropped, after) => {
                    let chain = |values: &[u8]| -> Taken<Entry<u8>> {
                        values.iter().copied().map(Entry::new).collect()
                    };
                    let mut all = chain(&before);
                    all.by_ref().take(dropped).for_each(drop);
                    all.append(list.take_all());
                    all.append(chain(&after));
                    let appended = oracle.drain(..).chain(after);
                    let expected: Vec<_> = before.into_iter().skip(dropped).chain(appended).collect();
                    prop_assert_eq!(all.len() as usize, expected.len());
                    prop_assert_eq!(all.map(Entry::into_inner).collect::<Vec<_>>(), expected);
                }
            }
            prop_assert_eq!(list.is_empty(), oracle.is_empty());
        }
    }
}

/// A small transmit path: no element is lost or left behind, and each producer's order is kept.
#[test]
fn stress_the_pusher_to_an_empty_list_drains_it() {
    const THREADS: usize = 4;
    let rounds: usize = if cfg!(miri) { 50 } else { 20_000 };
    let list = LocklessList::new();
    let queue = SpinLock::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (list, queue) = (&list, &queue);
            scope.spawn(move || {
                for n in 0..rounds {
                    let batch = (0..n % 3 + 1).map(|k| Entry::new((thread, n, k)));
                    if list.push_all(batch) {
                        let mut queue = queue.lock();
                        queue.extend(list.take_all().map(Entry::into_inner));
                    }
                }
            });
        }
    });
    assert!(list.is_empty());
    // Takes the lock because ThreadSanitizer understands it, but not the end of a scope.
    let queue = queue.lock();
    for thread in 0..THREADS {
        let mine = queue
            .iter()
            .filter(|(of, ..)| *of == thread)
            .map(|(_, n, k)| (*n, *k));
        let expected = (0..rounds).flat_map(|n| (0..n % 3 + 1).map(move |k| (n, k)));
        assert!(mine.eq(expected));
    }
}

/// A node with the addresses recorded in it.
struct Noting {
    link: Link<Noting>,
    number: usize,
    others: Option<Vec<usize>>,
}

struct Noted(Box<Noting>);

// SAFETY: as for `Entry`.
unsafe impl Linked for Noted {
    type Node = Noting;

    fn into_node(self) -> NonNull<Noting> {
        NonNull::from(Box::leak(self.0))
    }

    unsafe fn from_node(node: NonNull<Noting>) -> Self {
        // SAFETY: by contract.
        Self(unsafe { Box::from_raw(node.as_ptr()) })
    }

    unsafe fn link<'a>(node: NonNull<Noting>) -> &'a Link<Noting> {
        // SAFETY: by contract.
        unsafe { &(*node.as_ptr()).link }
    }

    unsafe fn note(node: NonNull<Noting>, others: impl Iterator<Item = NonNull<Noting>>) {
        // SAFETY: by contract; the others are of the same batch.
        unsafe {
            let others = others.map(|other| (*other.as_ptr()).number).collect();
            (*node.as_ptr()).others = Some(others);
        }
    }
}

/// The first node of a walk is the newest of its batch. It records the nodes that follow, up to the
/// maximum.
#[test]
fn a_batch_is_noted_with_its_first_node() {
    let node = |number| {
        let (link, others) = (Link::default(), None);
        Noted(Box::new(Noting {
            link,
            number,
            others,
        }))
    };
    for count in 1..=100 {
        let list = LocklessList::new();
        assert!(list.push(node(1000)));
        list.push_all((0..count).map(node));
        let mut taken: Vec<_> = list.take_all().collect();
        let newest = taken.pop().unwrap().0;
        let next = (0..count - 1).rev().take(NOTED);
        assert_eq!(newest.others, Some(next.collect()));
        assert_eq!(taken.len(), count);
        assert!(taken.iter().all(|node| node.0.others == Some(Vec::new())));
    }
}

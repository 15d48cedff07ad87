// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the allocator against a set, and with threads that race for numbers.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Operation {
    Allocate,
    AllocateIn(u32, u32),
    Reserve(u32),
    Free(u32),
    FreeNth(usize),
    Next(u32),
}

/// Generates numbers near the boundaries of words, leaves and nodes, and near both ends.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        0u32..200,
        4000u32..4200,
        4_194_200u32..4_194_400,
        Just(u32::MAX - 1),
        Just(u32::MAX)
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        8 => Just(Allocate),
        2 => (number(), 0u32..200).prop_map(|(from, len)| AllocateIn(from, from.saturating_add(len))),
        3 => number().prop_map(Reserve),
        2 => number().prop_map(Free),
        4 => any::<usize>().prop_map(FreeNth),
        1 => number().prop_map(Next),
    ]
}

fn lowest_free(oracle: &BTreeSet<u32>, range: RangeInclusive<u32>) -> Option<u32> {
    let mut taken = oracle.range(*range.start()..).copied();
    range.into_iter().find(|index| taken.next() != Some(*index))
}

fn check(range: RangeInclusive<u32>, preload: u32, operations: Vec<Operation>) {
    let indices = IndexAllocator::new(range.clone());
    let mut oracle = BTreeSet::new();
    for _ in 0..preload {
        oracle.extend(indices.allocate());
    }
    for operation in operations {
        match operation {
            Operation::Allocate => {
                let expected = lowest_free(&oracle, range.clone());
                assert_eq!(indices.allocate(), expected);
                oracle.extend(expected);
            }
            Operation::AllocateIn(from, to) => {
                let within = from.max(*range.start())..=to.min(*range.end());
                let none = within.is_empty();
                let expected = if none {
                    None
                } else {
                    lowest_free(&oracle, within)
                };
                assert_eq!(indices.allocate_in(from..=to), expected);
                oracle.extend(expected);
            }
            Operation::Reserve(index) => {
                let expected = range.contains(&index) && oracle.insert(index);
                assert_eq!(indices.reserve(index), expected);
            }
            Operation::Free(index) => assert_eq!(indices.free(index), oracle.remove(&index)),
            Operation::FreeNth(nth) => {
                let index = oracle.iter().nth(nth % oracle.len().max(1)).copied();
                if let Some(index) = index {
                    oracle.remove(&index);
                    assert!(indices.free(index));
                }
            }
            Operation::Next(from) => {
                assert_eq!(indices.next(from), oracle.range(from..).next().copied());
            }
        }
    }
    assert!(indices.iter().eq(oracle));
}

proptest! {
    #![proptest_config(crate::cases(48))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..200)) {
        check(1..=u32::MAX, 0, operations);
    }

    #[test]
    fn agrees_across_leaves(operations in prop::collection::vec(operation(), 1..40)) {
        check(1..=u32::MAX, 8180, operations);
    }

    #[test]
    fn agrees_when_short(operations in prop::collection::vec(operation(), 1..400)) {
        check(60..=130, 0, operations);
    }
}

#[test]
fn counts_up_from_one_and_fills_gaps() {
    let indices = IndexAllocator::new(1..=u32::MAX);
    assert_eq!(
        [(); 3].map(|()| indices.allocate()),
        [Some(1), Some(2), Some(3)]
    );
    assert!(indices.free(2));
    assert_eq!([(); 2].map(|()| indices.allocate()), [Some(2), Some(4)]);
    assert!(!indices.reserve(0) && !indices.reserve(4) && indices.reserve(u32::MAX));
}

#[expect(
    clippy::reversed_empty_ranges,
    reason = "an empty range is what is tested"
)]
#[test]
fn an_empty_range_allocates_nothing() {
    let indices = IndexAllocator::new(5..=4);
    assert_eq!(
        (indices.allocate(), indices.reserve(4), indices.next(0)),
        (None, false, None)
    );
}

#[test]
fn stress_no_number_is_given_twice() {
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    let indices = IndexAllocator::new(1..=4500);
    let taken: Vec<_> = (0..4501)
        .map(|_| std::sync::atomic::AtomicBool::new(false))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (indices, taken) = (&indices, &taken);
            scope.spawn(move || {
                let mut mine = Vec::new();
                for round in 0..rounds {
                    for _ in 0..(round * 7 + thread) % 40 {
                        let index = indices.allocate().expect("there are enough for all");
                        assert!(!taken[index as usize].swap(true, SeqCst), "{index} twice");
                        mine.push(index);
                    }
                    let keep = if round % 64 == 63 {
                        0
                    } else {
                        mine.len() * 3 / 4
                    };
                    for index in mine.split_off(keep) {
                        taken[index as usize].store(false, SeqCst);
                        assert!(indices.free(index));
                    }
                }
                for index in mine {
                    taken[index as usize].store(false, SeqCst);
                    assert!(indices.free(index));
                }
            });
        }
    });
    assert_eq!(indices.iter().count(), 0);
    assert_eq!(indices.allocate(), Some(1));
}

#[test]
fn lanes_allocate_from_separate_lines() {
    let (index, lanes) = (
        IndexAllocator::new(1..=u32::MAX),
        crate::lane::Lanes::default(),
    );
    let take = |many| {
        (0..many)
            .map(|_| index.allocate().unwrap())
            .collect::<Vec<_>>()
    };
    let first = lanes.enter();
    assert_eq!(take(3), [1, 2, 3]);
    let numbers = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _second = lanes.enter();
            take(514)
        });
        thread.join().unwrap()
    });
    // A whole line from its start, then numbers from the next one.
    assert!(numbers.into_iter().eq(512..1026));
    assert_eq!(take(509), (4..512).chain([1026]).collect::<Vec<_>>());
    drop(first);
    let rest = take(4095 - 1026);
    assert_eq!(rest.last(), Some(&4095));
    assert_eq!(take(1), [4096]);
}

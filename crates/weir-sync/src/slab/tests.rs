// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the slab against an oracle, with types of unusual shapes, and with cells that move
//! between threads.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Operation {
    Alloc,
    AllocBulk(usize),
    Free(usize),
    FreeBulk(usize),
    Take(usize),
    Cpu(usize),
    DropHandle,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => Just(Alloc),
        3 => (0usize..200).prop_map(AllocBulk),
        6 => any::<usize>().prop_map(Free),
        3 => (0usize..200).prop_map(FreeBulk),
        2 => any::<usize>().prop_map(Take),
        3 => (0usize..3).prop_map(Cpu),
        1 => Just(DropHandle),
    ]
}

/// Runs the operations. Each value counts itself; the oracle maps addresses to expected values.
fn check(operations: &[Operation], limit: usize) {
    let count = Arc::new(());
    let mut slab = Some(Slab::<(usize, Arc<()>)>::new(limit));
    let mut boxes = Vec::new();
    let mut oracle = BTreeMap::new();
    let mut next = 0;
    let address = |boxed: &SlabBox<(usize, Arc<()>)>| core::ptr::from_ref(&**boxed).addr();
    for operation in operations {
        let before = boxes.len();
        match (operation, &slab) {
            (Operation::Alloc, Some(slab)) => match slab.alloc((next, count.clone())) {
                Ok(boxed) => boxes.push(boxed),
                Err(value) => assert_eq!((value.0, boxes.len()), (next, limit)),
            },
            (Operation::AllocBulk(many), Some(slab)) => {
                let mut value = next;
                let got = slab.alloc_bulk(*many, &mut boxes, || {
                    value += 1;
                    (value - 1, count.clone())
                });
                assert_eq!(
                    (got, boxes.len()),
                    ((*many).min(limit - before), before + got)
                );
            }
            (Operation::Free(nth), _) if before > 0 => {
                oracle.remove(&address(&boxes[nth % before]));
                drop(boxes.swap_remove(nth % before));
            }
            (Operation::FreeBulk(many), Some(slab)) => {
                let from = before.saturating_sub(*many);
                for boxed in &boxes[from..] {
                    oracle.remove(&address(boxed));
                }
                slab.free_bulk(boxes.drain(from..));
            }
            (Operation::Take(nth), _) if before > 0 => {
                let boxed = boxes.swap_remove(nth % before);
                let expected = oracle.remove(&address(&boxed));
                assert_eq!(Some(boxed.into_inner().0), expected);
            }
            // The limit is exact on one CPU only.
            (Operation::Cpu(cpu), _) if limit > 1000 => crate::percpu::bind(*cpu),
            (Operation::DropHandle, _) if operations.len().is_multiple_of(3) => slab = None,
            _ => {}
        }
        for boxed in boxes.iter().skip(before) {
            assert_eq!(boxed.0, next);
            assert_eq!(
                oracle.insert(address(boxed), next),
                None,
                "a cell given twice"
            );
            next += 1;
        }
        assert_eq!(Arc::strong_count(&count), boxes.len() + 1);
        if let Some(slab) = &slab {
            assert_eq!(slab.stats().live, boxes.len());
        }
    }
    assert!(boxes.iter().all(|boxed| oracle[&address(boxed)] == boxed.0));
    crate::percpu::unbind();
}

proptest! {
    #![proptest_config(crate::cases(64))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..150)) {
        check(&operations, usize::MAX);
    }

    #[test]
    fn agrees_with_the_oracle_at_its_limit(operations in prop::collection::vec(operation(), 1..150)) {
        check(&operations, 100);
    }
}

#[test]
fn a_box_is_a_word_and_types_of_all_shapes_fit() {
    #[repr(align(256))]
    struct Wide([u8; 300]);
    assert_eq!(size_of::<SlabBox<u64>>(), 8);
    let wide = Slab::new(100);
    let boxes: Vec<_> = (0..100).map(|n| wide.alloc(Wide([n; 300])).ok()).collect();
    for (n, boxed) in boxes.iter().flatten().enumerate() {
        assert!(boxed.0.iter().all(|byte| usize::from(*byte) == n));
        assert_eq!(core::ptr::from_ref(&**boxed).addr() % 256, 0);
    }
    let large = Slab::new(9);
    assert!(
        large
            .alloc([7u8; 100_000])
            .is_ok_and(|boxed| boxed[99_999] == 7)
    );
    assert!(Slab::new(3).alloc(()).is_ok());
}

#[test]
fn stress_cells_travel_between_threads() {
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    let slab = Slab::<[usize; 4]>::new(usize::MAX);
    let (give, take) = std::sync::mpsc::sync_channel::<Vec<SlabBox<[usize; 4]>>>(8);
    std::thread::scope(|scope| {
        let receiver_slab = slab.clone();
        scope.spawn(move || {
            crate::percpu::bind(1);
            for boxes in take {
                assert!(boxes.iter().all(|boxed| **boxed == [boxed[0]; 4]));
                receiver_slab.free_bulk(boxes);
            }
        });
        for cpu in 2..4 {
            let (slab, give) = (&slab, give.clone());
            scope.spawn(move || {
                crate::percpu::bind(cpu);
                let mut value = cpu;
                for round in 0..rounds {
                    let mut boxes = Vec::new();
                    slab.alloc_bulk(round % 70, &mut boxes, || {
                        value += 2;
                        [value; 4]
                    });
                    let kept = slab.alloc([round; 4]);
                    give.send(boxes).expect("the receiver outlives the senders");
                    assert!(kept.is_ok_and(|boxed| *boxed == [round; 4]));
                }
            });
        }
        drop(give);
    });
    assert_eq!(slab.stats().live, 0);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of the hand-over: nothing is lost, a sleeping owner is woken, and flows keep their order.

use super::*;
use crate::bell::Bell;
use crate::models::{Tracked, check};
use crate::primitive::Arc;
use crate::primitive::atomic::{AtomicBool, AtomicUsize};

/// The owner looks, and sleeps if it finds nothing. It either takes all that was pushed, or it is woken.
#[test]
fn a_sleeping_owner_is_woken() {
    check(3, || {
        let shared = Arc::new((
            Handover::<Tracked>::default(),
            Bell::new(1),
            AtomicUsize::new(0),
        ));
        let producer = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let (queue, bell, woken) = &*shared;
                for value in [1, 2] {
                    assert_eq!(queue.reserve(1, 1), 1);
                    if queue.push(Entry::new(Tracked::new(value))) {
                        bell.wake(0, || {
                            woken.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                }
            })
        };
        let (queue, bell, woken) = &*shared;
        let seen = bell.count();
        let mut taken: Vec<_> = queue.take().map(|one| one.into_inner().read()).collect();
        let sleeps = taken.is_empty() && bell.prepare(0, seen) && queue.is_empty();
        producer.join().unwrap();
        let woken = woken.load(Ordering::Relaxed);
        assert!(woken <= 1, "one wake-up for all");
        if !queue.is_empty() {
            // What is left was pushed to an owner that sleeps, or that looks again.
            assert!(!sleeps || woken == 1);
            taken.extend(queue.take().map(|one| one.into_inner().read()));
        }
        assert_eq!(taken, [1, 2]);
        queue.finish();
        assert!(queue.is_idle());
    });
}

/// Work whose ticket is done has been worked on.
#[test]
fn a_ticket_is_done_after_the_work() {
    check(3, || {
        let shared = Arc::new((
            Handover::<usize>::default(),
            [AtomicBool::new(false), AtomicBool::new(false)],
        ));
        let produce = |shared: &(Handover<usize>, [AtomicBool; 2]), which: usize| {
            let (queue, worked) = shared;
            queue.push(Entry::new(which));
            let ticket = queue.ticket();
            if queue.is_done(ticket) {
                assert!(worked[which].load(Ordering::Relaxed));
            }
            if queue.is_idle() {
                assert!(worked[which].load(Ordering::Relaxed));
            }
        };
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || produce(&shared, 0))
        };
        let owner = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let (queue, worked) = &*shared;
                for _ in 0..2 {
                    for one in queue.take() {
                        worked[one.into_inner()].store(true, Ordering::Relaxed);
                    }
                    queue.finish();
                }
            })
        };
        produce(&shared, 1);
        other.join().unwrap();
        owner.join().unwrap();
    });
}

/// Two threads send a flow each through one place, while the place moves from CPU 0 to CPU 1. A packet
/// goes to CPU 1 only when CPU 0 has worked on all earlier packets of its flow.
#[test]
fn a_flow_moves_after_its_packets() {
    check(2, || {
        struct Shared {
            old: Handover<usize>,
            flows: Flows,
            worked: [AtomicUsize; 2],
        }
        let shared = Arc::new(Shared {
            old: Handover::default(),
            flows: Flows::new(1),
            worked: [AtomicUsize::new(0), AtomicUsize::new(0)],
        });
        let done = |cpu: usize, _: u64| cpu == 0;
        let first = shared.flows.route(0, Some(0), None, done);
        assert_eq!((first.cpu, first.moving), (Some(0), false));
        let produce = |shared: &Shared, me: usize| {
            let done = |_: usize, ticket| shared.old.is_done(ticket);
            for sent in 0..2 {
                let way = shared.flows.route(0, Some(1), None, done);
                if way.cpu == Some(1) {
                    assert_eq!(shared.worked[me].load(Ordering::Relaxed), sent);
                    return;
                }
                shared.old.push(Entry::new(me));
                if way.moving {
                    shared.flows.pushed(0, shared.old.ticket());
                }
            }
        };
        let other = {
            let shared = shared.clone();
            loom::thread::spawn(move || produce(&shared, 0))
        };
        let owner = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                for _ in 0..2 {
                    for one in shared.old.take() {
                        shared.worked[one.into_inner()].fetch_add(1, Ordering::Relaxed);
                    }
                    shared.old.finish();
                }
            })
        };
        produce(&shared, 1);
        other.join().unwrap();
        owner.join().unwrap();
    });
}

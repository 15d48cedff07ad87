// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the contract. The models and stress tests are separate.

use super::*;
use crate::spin::SpinLock;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Box<dyn FnOnce() + Send>) {
    let count = Arc::new(AtomicUsize::new(0));
    let cloned = count.clone();
    let make = move || -> Box<dyn FnOnce() + Send> {
        let count = cloned.clone();
        Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    };
    (count, make)
}

#[test]
fn a_guard_delays_callbacks_until_its_drop() {
    let domain = Domain::default();
    let (ran, callback) = counter();
    let reader = domain.reader();
    let guard = reader.pin();
    domain.defer(callback());
    assert_eq!(domain.poll_all(), 0);
    drop(guard);
    assert_eq!(domain.poll_all(), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn repin_releases_older_callbacks_unless_guards_nest() {
    let domain = Domain::default();
    let (ran, callback) = counter();
    let reader = domain.reader();
    let mut guard = reader.pin();
    domain.defer(callback());
    domain.poll_all();
    let inner = reader.pin();
    guard.repin();
    assert_eq!(domain.poll_all(), 0);
    drop(inner);
    guard.repin();
    assert_eq!(domain.poll_all(), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn published_values_outlive_their_replacement() {
    let domain = Domain::default();
    let published = Published::new(&domain, String::from("one"));
    let guard = domain.pin();
    let one = published.load(&guard);
    published.replace(String::from("two"));
    domain.poll_all();
    assert_eq!(
        (one.as_str(), published.load(&guard).as_str()),
        ("one", "two")
    );
    drop(guard);
    domain.barrier();
    assert_eq!(domain.stats().waiting(), 0);
}

#[test]
fn a_reader_can_keep_a_published_arc() {
    let domain = Domain::default();
    let value = Arc::new(1);
    let published = PublishedArc::new(&domain, Some(value.clone()));
    let kept = published.get(&domain.pin());
    published.replace(Some(Arc::new(2)));
    assert_eq!(published.load(&domain.pin()), Some(&2));
    domain.barrier();
    assert_eq!((kept.as_deref(), Arc::strong_count(&value)), (Some(&1), 2));
    published.replace(None);
    assert_eq!(published.get(&domain.pin()), None);
    drop((published, kept));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
#[should_panic(expected = "a guard of its own domain")]
fn a_guard_of_another_domain_panics() {
    let (ours, other) = (Domain::default(), Domain::default());
    let published = Published::new(&ours, 1);
    published.load(&other.pin());
}

#[test]
#[should_panic(expected = "never waits for its own guard")]
fn waiting_for_itself_panics() {
    let domain = Domain::default();
    let _guard = domain.pin();
    domain.synchronize();
}

#[test]
fn a_guard_may_outlive_reader_and_domain() {
    let domain = Domain::default();
    let reader = domain.reader();
    let (ran, callback) = counter();
    let guard = reader.pin();
    domain.defer(callback());
    drop((reader, domain));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    drop(guard);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn past_the_bound_only_an_unpinned_producer_helps() {
    let config = Config {
        bound: 100,
        mode: CallbackMode::OffloadAll,
        ..Config::default()
    };
    let domain = Domain::new(config);
    let (ran, callback) = counter();
    let guard = domain.pin();
    for _ in 0..300 {
        domain.defer(callback());
    }
    assert_eq!(domain.stats().waiting(), 300);
    drop(guard);
    for _ in 0..300 {
        domain.defer(callback());
        assert!(domain.stats().waiting() <= 300);
    }
    domain.barrier();
    assert_eq!(ran.load(Ordering::SeqCst), 600);
}

#[test]
fn every_mode_runs_everything() {
    for mode in ["in-place", "offload-all", "offload=0,2-3"] {
        let mode: CallbackMode = mode.parse().unwrap();
        let domain = Domain::new(Config {
            mode,
            ..Config::default()
        });
        let (ran, callback) = counter();
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let (domain, callback) = (&domain, &callback);
                let work: Vec<_> = (0..200).map(|_| callback()).collect();
                scope.spawn(move || {
                    crate::percpu::bind(cpu);
                    work.into_iter().for_each(|f| domain.defer(f));
                });
            }
        });
        domain.barrier();
        assert_eq!(ran.load(Ordering::SeqCst), 800);
        assert_eq!(domain.stats().waiting(), 0);
    }
}

#[test]
fn callbacks_may_defer_and_run_in_order() {
    let domain = Domain::default();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    for n in 0..10 {
        let (order, inner) = (order.clone(), domain.clone());
        domain.defer(move || {
            order.lock().unwrap().push(n);
            let order = order.clone();
            inner.defer(move || order.lock().unwrap().push(n + 100));
        });
    }
    domain.barrier();
    domain.barrier();
    let expected: Vec<_> = (0..10).chain(100..110).collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn modes_print_as_they_parse() {
    for text in ["in-place", "offload-all", "offload=1,2,3"] {
        assert_eq!(text.parse::<CallbackMode>().unwrap().to_string(), text);
    }
    for text in [
        "",
        "offload",
        "offload=",
        "offload=3-1",
        "offload=x",
        "offload=999",
    ] {
        assert!(text.parse::<CallbackMode>().is_err(), "{text}");
    }
}

#[test]
fn a_guard_only_queues_callbacks_and_its_drop_runs_them() {
    let domain = Domain::new(Config {
        bound: 200,
        ..Config::default()
    });
    let reader = domain.reader();
    let (ran, callback) = counter();
    for many in [63, 150, 300] {
        let outer = domain.pin();
        let before = ran.load(Ordering::SeqCst);
        for _ in 0..many {
            let _inner = reader.pin();
            domain.defer(callback());
        }
        assert_eq!(ran.load(Ordering::SeqCst), before);
        drop(outer);
        assert_eq!(domain.stats().waiting(), if many == 63 { 63 } else { 0 });
    }
}

/// An operation of a test thread on a domain with three readers and two published values.
#[derive(Clone, Debug)]
enum Operation {
    Pin(usize),
    PinAnyhow,
    Unpin(usize),
    Repin(usize),
    Load(usize, usize),
    Replace(usize),
    Defer,
    Poll,
    PollAll,
    Wait,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let guard = 0usize..4;
    prop_oneof![
        3 => (0usize..3).prop_map(Pin),
        1 => Just(PinAnyhow),
        3 => guard.clone().prop_map(Unpin),
        2 => guard.clone().prop_map(Repin),
        4 => (guard, 0usize..2).prop_map(|(guard, cell)| Load(guard, cell)),
        4 => (0usize..2).prop_map(Replace),
        2 => Just(Defer),
        3 => Just(Poll),
        1 => Just(PollAll),
        1 => Just(Wait),
    ]
}

/// One flag for each object of a run, set once it has been dropped (or called).
type Dropped = Arc<SpinLock<Vec<bool>>>;

struct Object(usize, Dropped);

impl Object {
    fn new(dropped: &Dropped) -> Self {
        let mut all = dropped.lock();
        all.push(false);
        Self(all.len() - 1, dropped.clone())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let was = std::mem::replace(&mut self.1.lock()[self.0], true);
        assert!(!was, "{} dropped twice", self.0);
    }
}

/// A guard with its reader (`None` for a guard with its own slot), and the objects it must keep
/// alive.
struct Held {
    guard: Guard,
    reader: Option<usize>,
    keeps: Vec<usize>,
}

/// Pins, loads and retires according to `operations`. Oracle: an object lives while it is
/// published, and after its retirement as long as any guard that was held then. After that, two
/// polls free it.
fn run_operations(operations: &[Operation], bound: usize) {
    let dropped = Dropped::default();
    let domain = Domain::new(Config {
        bound,
        ..Config::default()
    });
    let readers = [domain.reader(), domain.reader(), domain.reader()];
    let cells = [0, 1].map(|_| Published::new(&domain, Object::new(&dropped)));
    let mut held: Vec<Held> = Vec::new();
    for operation in operations {
        // Everything retired now must outlive every guard held now.
        let retire = |held: &mut Vec<Held>, object: usize| {
            held.iter_mut().for_each(|held| held.keeps.push(object));
        };
        match *operation {
            Operation::Pin(reader) => {
                let guard = readers[reader].pin();
                held.push(Held {
                    guard,
                    reader: Some(reader),
                    keeps: Vec::new(),
                });
            }
            Operation::PinAnyhow => {
                held.push(Held {
                    guard: domain.pin(),
                    reader: None,
                    keeps: Vec::new(),
                });
            }
            Operation::Unpin(nth) if nth < held.len() => drop(held.swap_remove(nth)),
            Operation::Repin(nth) if nth < held.len() => {
                let reader = held[nth].reader;
                let nested = held.iter().filter(|held| held.reader == reader).count() > 1;
                held[nth].guard.repin();
                if reader.is_none() || !nested {
                    held[nth].keeps.clear();
                }
            }
            Operation::Load(nth, cell) if nth < held.len() => {
                let object = cells[cell].load(&held[nth].guard).0;
                assert!(!dropped.lock()[object]);
                held[nth].keeps.push(object);
            }
            Operation::Replace(cell) => {
                let fresh = Object::new(&dropped);
                let old = cells[cell].load(&domain.pin()).0;
                retire(&mut held, old);
                cells[cell].replace(fresh);
            }
            Operation::Defer => {
                let object = Object::new(&dropped);
                retire(&mut held, object.0);
                domain.defer_drop(object);
            }
            Operation::Poll => drop(domain.poll()),
            Operation::PollAll => drop(domain.poll_all()),
            Operation::Wait if held.is_empty() => {
                domain.synchronize();
                domain.barrier();
                assert_eq!(domain.stats().waiting(), 0);
            }
            _ => {}
        }
        for held in &held {
            for object in &held.keeps {
                assert!(!dropped.lock()[*object], "{operation:?} dropped {object}");
            }
        }
        assert_eq!(domain.stats().guards, held.len());
    }
    drop(held);
    while domain.poll_all() > 0 {}
    assert_eq!(domain.stats().waiting(), 0);
    let alive = dropped.lock().iter().filter(|dropped| !**dropped).count();
    assert_eq!(alive, 2);
    drop(cells);
    assert!(dropped.lock().iter().all(|dropped| *dropped));
}

proptest! {
    #![proptest_config(crate::cases(128))]

    #[test]
    fn agrees_with_the_oracle(operations in prop::collection::vec(operation(), 1..200)) {
        run_operations(&operations, 10_000);
    }

    #[test]
    fn agrees_with_the_oracle_past_the_bound(operations in prop::collection::vec(operation(), 1..200)) {
        run_operations(&operations, 3);
    }
}

/// A value that detects accesses after its drop.
struct Canary(AtomicUsize);

const ALIVE: usize = 0x5eed;

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Runs readers of all three kinds against writers, in every mode.
#[test]
fn stress_no_reader_sees_a_freed_value() {
    let rounds = if cfg!(miri) { 20 } else { 4000 };
    for mode in [
        CallbackMode::InPlace,
        CallbackMode::OffloadAll,
        CallbackMode::Offload(vec![1]),
    ] {
        let domain = Domain::new(Config {
            mode,
            bound: 50,
            ..Config::default()
        });
        let cells: Vec<_> = (0..4)
            .map(|_| Published::new(&domain, Canary(AtomicUsize::new(ALIVE))))
            .collect();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let look = |guard: &Guard| {
            for cell in &cells {
                let canary = cell.load(guard);
                std::thread::yield_now();
                assert_eq!(canary.0.load(Ordering::Relaxed), ALIVE);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let reader = domain.reader();
                let mut guard = reader.pin();
                while !stop.load(Ordering::Relaxed) {
                    look(&guard);
                    guard.repin();
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    look(&domain.pin());
                    look(&domain.reader().pin());
                }
            });
            let writers: Vec<_> = (0..2)
                .map(|cpu| {
                    let (domain, cells) = (&domain, &cells);
                    scope.spawn(move || {
                        crate::percpu::bind(cpu);
                        for n in 0..rounds {
                            cells[n % cells.len()].replace(Canary(AtomicUsize::new(ALIVE)));
                            if n % 500 == 499 {
                                domain.synchronize();
                            }
                        }
                        domain.barrier();
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        domain.barrier();
        let stats = domain.stats();
        assert_eq!(
            (stats.deferred, stats.waiting(), stats.guards),
            (2 * rounds as u64, 0, 0)
        );
    }
}

#[test]
fn a_stalled_reader_slows_producers_down() {
    let config = Config {
        bound: 64,
        ..Config::default()
    };
    let domain = Domain::new(config);
    let guard = domain.pin();
    // Taken before the thread starts, which may be done before this one runs again.
    let start = std::time::Instant::now();
    let waiting = std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            for _ in 0..100 {
                domain.defer(|| ());
            }
            domain.stats().waiting()
        });
        let waiting = producer.join().unwrap();
        assert!(start.elapsed() >= 36 * Config::default().patience);
        waiting
    });
    assert_eq!(waiting, 100);
    drop(guard);
    domain.barrier();
}

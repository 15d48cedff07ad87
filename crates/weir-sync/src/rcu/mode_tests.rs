// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Modes that change at run time, lazy callbacks, bounds in bytes, stalls, and a torture test of each
//! mode.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MODES: [&str; 3] = ["in-place", "offload-all", "offload=1"];

fn mode(text: &str) -> CallbackMode {
    text.parse().unwrap()
}

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

/// Waits until `done`, without helping.
fn eventually(what: &str, done: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} never came");
}

#[test]
fn the_offload_thread_takes_over_what_waits_and_finishes_what_it_gives_up() {
    let domain = Domain::default();
    let (ran, callback) = counter();
    let guard = domain.pin();
    for _ in 0..200 {
        domain.defer(callback());
    }
    domain.set_mode(&mode("offload-all")).unwrap();
    assert_eq!(
        (domain.mode(), domain.poll()),
        (CallbackMode::OffloadAll, 0)
    );
    drop(guard);
    eventually("the offload thread", || ran.load(Ordering::SeqCst) == 200);
    assert_eq!(domain.report().runners, [(Runner::Offload, 200)]);

    let guard = domain.pin();
    for _ in 0..10 {
        domain.defer(callback());
    }
    domain.set_mode(&mode("in-place")).unwrap();
    drop(guard);
    eventually("the offload thread", || ran.load(Ordering::SeqCst) == 210);
    // What is deferred from now on waits for its own threads.
    domain.defer(callback());
    assert_eq!(domain.poll(), 1);
    assert_eq!(domain.stats().waiting(), 0);
}

#[test]
fn only_the_cpus_of_the_list_are_offloaded() {
    let domain = Domain::new(Config {
        mode: mode("offload=1"),
        ..Config::default()
    });
    let (ran, callback) = counter();
    std::thread::scope(|scope| {
        for cpu in [0, 1, 64] {
            let (domain, callback) = (&domain, callback());
            scope.spawn(move || {
                crate::percpu::bind(cpu);
                domain.defer(callback);
            });
        }
    });
    eventually("the callback of cpu 1", || ran.load(Ordering::SeqCst) == 1);
    assert_eq!((domain.poll_in_place(), domain.stats().waiting()), (2, 0));
    let cpus = domain.report().cpus;
    let cpus: Vec<_> = cpus
        .iter()
        .map(|cpu| (cpu.cpu, cpu.offloaded, cpu.run))
        .collect();
    assert_eq!(
        cpus,
        [
            (Some(0), false, 1),
            (Some(1), true, 1),
            (Some(64), false, 1)
        ]
    );
}

#[test]
fn lazy_callbacks_wait_for_others_for_pressure_or_for_a_flush() {
    let config = Config {
        mode: mode("offload-all"),
        bound_bytes: 1 << 20,
        ..Config::default()
    };
    let domain = Domain::new(config);
    let (ran, callback) = counter();
    let lazy = || {
        let before = ran.load(Ordering::SeqCst);
        domain.defer_lazy(0, callback());
        // Long enough for a thread that is awake, and far below ten seconds.
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(ran.load(Ordering::SeqCst), before);
    };
    lazy();
    domain.defer(callback());
    eventually("company", || ran.load(Ordering::SeqCst) == 2);
    lazy();
    domain.flush_lazy();
    eventually("a flush", || ran.load(Ordering::SeqCst) == 3);
    lazy();
    domain.barrier();
    assert_eq!(ran.load(Ordering::SeqCst), 4);
    lazy();
    // Half of the bytes that may wait, and as many as go uncounted.
    for _ in 0..10 {
        domain.defer_lazy(64 << 10, callback());
    }
    eventually("pressure", || ran.load(Ordering::SeqCst) == 15);
    assert_eq!(domain.stats().bytes, 0);
}

#[test]
fn waiting_bytes_are_exact() {
    let domain = Domain::default();
    let published = Published::new(&domain, [0u8; 1000]);
    let guard = domain.pin();
    published.replace([1; 1000]);
    domain.defer_bytes(5000, || ());
    let entry = size_of::<deferred::Deferred>() as u64;
    let stats = domain.stats();
    assert_eq!((stats.waiting(), stats.bytes), (2, 6000 + 2 * entry));
    drop(guard);
    domain.barrier();
    assert_eq!(domain.stats().bytes, 0);
}

/// A reader stalls while two writers flood the domain with large objects. Memory stays within the
/// bound, apart from what one object a writer and millisecond adds, and nobody waits after the end
/// of the stall.
#[test]
fn a_stalled_reader_does_not_exhaust_the_memory() {
    const OBJECT: usize = 64 << 10;
    let bound = 16 << 20;
    for name in MODES {
        let domain = Domain::new(Config {
            mode: mode(name),
            bound_bytes: bound,
            ..Config::default()
        });
        let most = AtomicUsize::new(0);
        let guard = domain.pin();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|cpu| {
                    let (domain, most) = (&domain, &most);
                    scope.spawn(move || {
                        crate::percpu::bind(cpu);
                        for _ in 0..150 {
                            domain.defer_bytes(OBJECT, || ());
                            let bytes = domain.stats().bytes as usize;
                            most.fetch_max(bytes, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
        });
        let most = most.load(Ordering::Relaxed) as u64;
        assert!(most > bound, "{name}: {most}");
        let helped = domain.stats().helped;
        assert!((30..=300).contains(&helped), "{name}: {helped}");
        drop(guard);
        domain.barrier();
        assert_eq!((domain.stats().waiting(), domain.stats().bytes), (0, 0));
    }
}

#[test]
fn a_stall_is_reported_once_with_reader_and_place() {
    let domain = Domain::new(Config {
        stall: Duration::from_millis(5),
        ..Config::default()
    });
    let stalls = Arc::new(Mutex::new(Vec::new()));
    let heard = stalls.clone();
    domain.on_stall(move |stall| heard.lock().unwrap().push(stall.clone()));
    let reader = domain.named_reader("cpu 3");
    let (guard, line) = (reader.pin(), line!());
    domain.defer_bytes(100, || ());
    for _ in 0..3 {
        domain.poll();
        std::thread::sleep(Duration::from_millis(10));
    }
    domain.poll();
    let found = stalls.lock().unwrap().clone();
    let [stall] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(stall.reader.name, "cpu 3");
    assert!(
        stall
            .reader
            .place
            .ends_with(&format!("mode_tests.rs:{line}")),
        "{stall}"
    );
    assert!(stall.reader.age >= Duration::from_millis(5));
    assert_eq!((stall.waiting, domain.stats().stalls), (1, 1));
    let report = domain.report();
    assert_eq!(
        report.oldest.map(|oldest| oldest.name).as_deref(),
        Some("cpu 3")
    );
    drop(guard);
    domain.barrier();
    let report = domain.report();
    assert_eq!(report.oldest, None);
    let slowest = report.slowest.unwrap();
    assert!(slowest.name == "cpu 3" && slowest.age >= Duration::from_millis(5));
}

/// An unnamed reader goes by its thread, also when another thread has used its slot before.
#[test]
fn a_reader_without_a_name_goes_by_its_thread() {
    let domain = Domain::default();
    for name in ["first", "second"] {
        let domain = domain.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let _guard = domain.pin();
                domain.report().oldest.unwrap()
            });
        let oldest = thread.unwrap().join().unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(oldest.name, name);
            assert_ne!(oldest.thread, 0);
        }
    }
}

#[test]
fn an_expedited_grace_period_waits_for_readers_as_well() {
    let domain = Domain::default();
    let gone = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = domain.pin();
        let waiter = scope.spawn(|| {
            domain.synchronize_expedited();
            assert!(gone.load(Ordering::SeqCst));
        });
        std::thread::sleep(Duration::from_millis(5));
        gone.store(true, Ordering::SeqCst);
        drop(guard);
        waiter.join().unwrap();
    });
    let stats = domain.stats();
    assert_eq!(stats.expedited, 1);
    assert!(stats.grace_periods >= 1);
}

#[derive(Clone, Debug)]
enum Operation {
    Defer { lazy: bool, bytes: usize },
    Pin,
    Unpin,
    Mode(usize),
    Poll,
    PollInPlace,
    Flush,
    Barrier,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => (any::<bool>(), 0usize..100_000).prop_map(|(lazy, bytes)| Defer { lazy, bytes }),
        2 => Just(Pin),
        2 => Just(Unpin),
        3 => (0..MODES.len()).prop_map(Mode),
        2 => Just(Poll),
        1 => Just(PollInPlace),
        1 => Just(Flush),
        1 => Just(Barrier),
    ]
}

proptest! {
    #![proptest_config(crate::cases(64))]

    /// Whatever changes in between, callbacks run once each and in order, never while a guard that
    /// is older is held, and all of them by the end of a barrier.
    #[test]
    fn no_change_of_mode_loses_or_reorders_a_callback(
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let domain = Domain::new(Config { bound: 20, bound_bytes: 1 << 20, ..Config::default() });
        let order = Arc::new(Mutex::new(Vec::new()));
        let (mut guard, mut deferred) = (None, 0usize);
        let mut held = usize::MAX;
        for operation in operations {
            match operation {
                Operation::Defer { lazy, bytes } => {
                    let (order, number) = (order.clone(), deferred);
                    let run = move || order.lock().unwrap().push(number);
                    if lazy { domain.defer_lazy(bytes, run) } else { domain.defer_bytes(bytes, run) }
                    deferred += 1;
                }
                Operation::Pin if guard.is_none() => {
                    guard = Some(domain.pin());
                    held = deferred;
                }
                Operation::Unpin => (guard, held) = (None, usize::MAX),
                Operation::Mode(nth) => {
                    domain.set_mode(&mode(MODES[nth])).unwrap();
                    prop_assert_eq!(domain.mode(), mode(MODES[nth]));
                }
                Operation::Poll => drop(domain.poll()),
                Operation::PollInPlace => drop(domain.poll_in_place()),
                Operation::Flush => domain.flush_lazy(),
                Operation::Barrier if guard.is_none() => {
                    domain.barrier();
                    prop_assert_eq!(order.lock().unwrap().len(), deferred);
                    prop_assert_eq!(domain.stats().bytes, 0);
                }
                _ => {}
            }
            prop_assert!(order.lock().unwrap().last().is_none_or(|last| *last < held));
        }
        drop(guard);
        domain.barrier();
        prop_assert_eq!(&*order.lock().unwrap(), &(0..deferred).collect::<Vec<_>>());
    }
}

/// A value that detects accesses after its drop. `age` counts the replacements since it was published,
/// as the pipeline of Linux's rcutorture does.
struct Canary {
    alive: AtomicUsize,
}

const ALIVE: usize = 0x5eed;

impl Canary {
    fn new() -> Self {
        Self {
            alive: AtomicUsize::new(ALIVE),
        }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.alive.store(0, Ordering::Relaxed);
    }
}

/// The writers of a torture test, beside readers of all kinds: they replace, defer lazily, wait for
/// grace periods of both kinds and for callbacks. If `changes`, another thread changes the mode all the
/// time.
fn torture(start: &str, changes: bool) {
    let rounds = match (cfg!(miri), std::env::var_os("WEIR_TEST_SHORT")) {
        (true, _) => 20,
        (false, Some(_)) => 1000,
        (false, None) => 8000,
    };
    let domain = Domain::new(Config {
        mode: mode(start),
        bound: 50,
        bound_bytes: 1 << 20,
        ..Config::default()
    });
    let cells: Vec<_> = (0..4)
        .map(|_| Published::new(&domain, Canary::new()))
        .collect();
    let (stop, extra) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let look = |guard: &Guard| {
        for cell in &cells {
            let canary = cell.load(guard);
            assert_eq!(canary.alive.load(Ordering::Relaxed), ALIVE, "{start}");
            std::thread::yield_now();
            assert_eq!(canary.alive.load(Ordering::Relaxed), ALIVE, "{start}");
        }
    };
    /// Ends the readers also when a writer fails.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let reader = domain.named_reader("quiescent");
            let mut guard = reader.pin();
            while !stop.load(Ordering::Relaxed) {
                look(&guard);
                guard.repin();
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let outer = domain.pin();
                look(&domain.reader().pin());
                look(&outer);
            }
        });
        if changes {
            scope.spawn(|| {
                for text in MODES.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    domain.set_mode(&mode(text)).unwrap();
                    std::thread::yield_now();
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|cpu| {
                let (domain, cells, extra) = (&domain, &cells, &extra);
                scope.spawn(move || {
                    crate::percpu::bind(cpu);
                    for n in 0..rounds {
                        cells[(n + cpu) % cells.len()].replace(Canary::new());
                        if n % 16 == 0 {
                            let extra = extra.clone();
                            domain.defer_lazy(100, move || {
                                extra.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                        match n % 1000 {
                            300 => domain.synchronize(),
                            600 => domain.synchronize_expedited(),
                            900 => domain.barrier(),
                            _ => {}
                        }
                    }
                    domain.barrier();
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
    });
    domain.barrier();
    let stats = domain.stats();
    let lazy = rounds.div_ceil(16) * 2;
    assert_eq!(extra.load(Ordering::Relaxed), lazy);
    assert_eq!(
        (stats.deferred, stats.waiting(), stats.bytes, stats.guards),
        ((2 * rounds + lazy) as u64, 0, 0, 0)
    );
    let ran: u64 = domain.report().runners.iter().map(|(_, ran)| ran).sum();
    assert_eq!(ran, stats.run);
}

#[test]
fn torture_in_place() {
    torture("in-place", false);
}

#[test]
fn torture_offload_all() {
    torture("offload-all", false);
}

#[test]
fn torture_offload_list() {
    torture("offload=1", false);
}

#[test]
fn torture_while_the_mode_changes() {
    torture("in-place", true);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of readers against threads that retire, complete and run callbacks, with up to three
//! preemptions. Run with `RUSTFLAGS="--cfg loom" cargo test -p weir-sync --release loom`.

use super::*;
use crate::models::{Tracked, check};
use crate::primitive::Arc;
use crate::primitive::atomic::{AtomicUsize, Ordering};
use loom::thread;

fn domain() -> Domain {
    Domain::new(Config {
        patience: core::time::Duration::ZERO,
        ..Config::default()
    })
}

#[test]
fn a_replaced_value_outlives_its_readers() {
    check(3, || {
        let domain = domain();
        let published = Arc::new(Published::new(&domain, Tracked::new(1)));
        let reader = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let first = published.load(&guard);
                let (first, again) = (first.read(), (published.load(&guard).read(), first.read()));
                assert!(again == (first, first) || again == (2, 1));
            })
        };
        published.replace(Tracked::new(2));
        domain.poll();
        domain.poll();
        reader.join().unwrap();
    });
}

#[test]
fn one_retires_and_another_completes() {
    check(3, || {
        let domain = domain();
        let published = Arc::new(Published::new(&domain, Tracked::new(1)));
        let retirer = {
            let published = published.clone();
            thread::spawn(move || published.replace(Tracked::new(2)))
        };
        let reader = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let value = published.load(&guard);
                assert_eq!(value.read(), value.read());
            })
        };
        domain.poll();
        retirer.join().unwrap();
        reader.join().unwrap();
    });
}

/// A thread frees its object after a grace period that another thread completed for an object of
/// its own, without having seen the first one. Both fences are needed for this.
#[test]
fn a_grace_period_of_another_thread_suffices() {
    check(3, || {
        let domain = domain();
        let published = Arc::new(Published::new(&domain, Tracked::new(1)));
        let retirer = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                crate::percpu::bind(1);
                published.replace(Tracked::new(2));
                domain.poll_completed();
            })
        };
        let reader = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let value = published.load(&guard);
                assert_eq!(value.read(), value.read());
            })
        };
        domain.defer(|| ());
        domain.poll();
        retirer.join().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn a_repinned_reader_is_protected_anew() {
    check(3, || {
        let domain = domain();
        let published = Arc::new(Published::new(&domain, Tracked::new(1)));
        let reader = domain.reader();
        let thread = {
            let published = published.clone();
            thread::spawn(move || {
                let mut guard = reader.pin();
                published.load(&guard).read();
                guard.repin();
                published.load(&guard).read();
                let nested = reader.pin();
                drop(guard);
                published.load(&nested).read();
            })
        };
        published.replace(Tracked::new(2));
        domain.poll();
        thread.join().unwrap();
    });
}

#[test]
fn synchronize_waits_for_existing_guards() {
    check(2, || {
        let domain = domain();
        let current = Arc::new(AtomicUsize::new(0));
        let objects = Arc::new([Tracked::new(0), Tracked::new(1)]);
        let reader = {
            let (domain, current, objects) = (domain.clone(), current.clone(), objects.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                objects[current.load(Ordering::Acquire)].read();
                drop(guard);
            })
        };
        current.store(1, Ordering::Release);
        domain.synchronize();
        // No reader is left; otherwise loom reports a race here.
        objects[0].write(7);
        reader.join().unwrap();
    });
}

#[test]
fn two_retirers_run_each_callback_once() {
    check(2, || {
        let domain = domain();
        let ran = Arc::new(AtomicUsize::new(0));
        let retire = move |domain: &Domain, ran: &Arc<AtomicUsize>| {
            let ran = ran.clone();
            domain.defer(move || {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        };
        let other = {
            let (domain, ran) = (domain.clone(), ran.clone());
            thread::spawn(move || {
                retire(&domain, &ran);
                domain.poll();
            })
        };
        retire(&domain, &ran);
        domain.poll();
        other.join().unwrap();
        domain.barrier();
        assert_eq!(ran.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_barrier_waits_for_earlier_callbacks() {
    check(3, || {
        let domain = domain();
        let ran = Arc::new(AtomicUsize::new(0));
        let reader = {
            let domain = domain.clone();
            thread::spawn(move || drop(domain.pin()))
        };
        let count = ran.clone();
        domain.defer(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        domain.barrier();
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        reader.join().unwrap();
    });
}

#[test]
fn the_last_guard_frees_the_slot() {
    check(3, || {
        let domain = domain();
        let reader = domain.reader();
        let guard = reader.pin();
        let other = thread::spawn(move || drop(reader));
        drop(guard);
        other.join().unwrap();
        let stats = domain.stats();
        assert_eq!((stats.readers, stats.guards), (0, 0));
        drop(domain.pin());
    });
}

fn counted(domain: &Domain, ran: &Arc<AtomicUsize>) {
    let ran = ran.clone();
    domain.defer(move || {
        ran.fetch_add(1, Ordering::Relaxed);
    });
}

/// A callback is deferred while its CPU is handed to the offload thread. It runs once, and is not
/// forgotten: if the producer does not wake the thread, the change has seen the callback.
#[test]
fn a_callback_deferred_during_a_change_of_mode_runs_once() {
    check(3, || {
        let domain = domain();
        let ran = Arc::new(AtomicUsize::new(0));
        let offload = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.set_mode(&CallbackMode::OffloadAll).unwrap();
                domain.offload_turn(false)
            })
        };
        counted(&domain, &ran);
        let left = offload.join().unwrap();
        domain.offload_turn(left);
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    });
}

/// The same while the producer still polls in place.
#[test]
fn a_producer_and_the_offload_thread_run_each_callback_once() {
    check(3, || {
        let domain = domain();
        let ran = Arc::new(AtomicUsize::new(0));
        counted(&domain, &ran);
        let offload = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.set_mode(&CallbackMode::OffloadAll).unwrap();
                domain.offload_turn(false)
            })
        };
        domain.poll();
        let left = offload.join().unwrap();
        domain.offload_turn(left);
        assert_eq!(ran.load(Ordering::Relaxed), 1);
    });
}

/// The offload thread runs what it gives up, without help; the producer runs what comes later.
#[test]
fn callbacks_given_up_by_the_offload_thread_run_once() {
    check(3, || {
        let domain = domain();
        domain.set_mode(&CallbackMode::OffloadAll).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        counted(&domain, &ran);
        let offload = {
            let domain = domain.clone();
            thread::spawn(move || domain.offload_turn(false))
        };
        domain.set_mode(&CallbackMode::InPlace).unwrap();
        let left = offload.join().unwrap();
        domain.offload_turn(left);
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        counted(&domain, &ran);
        assert!(!domain.offload_turn(false));
        domain.poll();
        assert_eq!(ran.load(Ordering::Relaxed), 2);
    });
}

/// A barrier that begins in one mode ends in the other, after all callbacks before it.
#[test]
fn a_barrier_works_across_a_change_of_mode() {
    check(2, || {
        let domain = domain();
        domain.set_mode(&CallbackMode::OffloadAll).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        counted(&domain, &ran);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.set_mode(&CallbackMode::InPlace).unwrap();
                domain.offload_turn(false);
            })
        };
        domain.barrier();
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        other.join().unwrap();
    });
}

/// Both threads free only after the reader is done, in the middle of a change.
#[test]
fn a_reader_is_safe_across_a_change_of_mode() {
    check(2, || {
        let domain = domain();
        let published = Arc::new(Published::new(&domain, Tracked::new(1)));
        let reader = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                let guard = domain.pin();
                let value = published.load(&guard);
                assert_eq!(value.read(), value.read());
            })
        };
        published.replace(Tracked::new(2));
        domain.set_mode(&CallbackMode::OffloadAll).unwrap();
        domain.offload_turn(false);
        domain.set_mode(&CallbackMode::InPlace).unwrap();
        domain.poll();
        reader.join().unwrap();
    });
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of a timer that is armed while CPUs look for timers and fall asleep.

use std::sync::Arc;

use weir_sync::bell::Bell;
use weir_sync::models::check;
use weir_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sync::primitive::thread;

use super::{Holds, SECOND, Timers};

/// When the timer is due.
const DUE: u64 = SECOND;

/// What the CPUs and the thread that arms share: `woken` as their eventfds.
struct Shared {
    timers: Timers<()>,
    bell: Bell,
    woken: [AtomicBool; 2],
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            timers: Timers::default(),
            bell: Bell::new(2),
            woken: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn ring(&self) {
        self.bell
            .ring(|worker| self.woken[worker].store(true, Relaxed));
    }

    fn arm(&self) {
        if self.timers.arm_next(DUE, Holds::Nothing, ()).1 {
            self.ring();
        }
    }

    /// A CPU that finds nothing to do at `now`. Returns until when it sleeps, if it does.
    fn idle(&self, cpu: usize, now: u64) -> Option<u64> {
        let seen = self.bell.count();
        if self.timers.take_due(now).is_some() || !self.bell.prepare(cpu, seen) {
            return None;
        }
        Some(self.timers.sleep(cpu, now, 10 * DUE))
    }

    fn is_woken(&self, cpu: usize) -> bool {
        self.woken[cpu].load(Relaxed)
    }
}

/// A CPU that falls asleep while a timer is armed sleeps until its time at most, or is woken.
#[test]
fn a_timer_ends_a_sleep() {
    check(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let arming = thread::spawn(move || other.arm());
        let until = shared.idle(0, 0);
        arming.join().unwrap();
        let looks = until.is_none_or(|until| until <= DUE) || shared.is_woken(0);
        assert!(looks, "sleeps until {until:?}");
    });
}

/// A timer that is due already is taken, or seen before the sleep, or wakes.
#[test]
fn a_timer_that_is_due_is_not_missed() {
    check(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let arming = thread::spawn(move || other.arm());
        let until = shared.idle(0, DUE);
        arming.join().unwrap();
        let left = shared.timers.take_due(DUE).is_some();
        let looks = until.is_none_or(|until| until <= DUE) || shared.is_woken(0);
        assert!(!left || looks, "sleeps until {until:?}");
    });
}

/// Of two CPUs, one wakes for something else while the other one relies on it and a timer is armed.
#[test]
fn a_sleeper_is_told_that_another_woke() {
    check(2, || {
        let shared = Shared::new();
        let until = [DUE / 2, 10 * DUE].map(Some);
        for (cpu, until) in until.iter().enumerate() {
            assert!(shared.bell.prepare(cpu, 0));
            let longest = until.unwrap_or_default();
            assert_eq!(shared.timers.sleep(cpu, 0, longest), longest);
        }
        let other = shared.clone();
        let waking = thread::spawn(move || {
            other.bell.awake(0);
            if other.timers.awake(0) {
                other.ring();
            }
        });
        shared.arm();
        waking.join().unwrap();
        assert!(shared.is_woken(1));
    });
}

/// A thread that has been told of a timer takes it, although it reads the time of the first one without the lock.
#[test]
fn a_timer_that_was_told_of_is_taken() {
    check(3, || {
        let shared = Shared::new();
        let other = shared.clone();
        let arming = thread::spawn(move || {
            other.timers.arm(DUE, Holds::Nothing, ());
            other.ring();
        });
        let told = shared.bell.count() == 1;
        let taken = shared.timers.take_due(DUE).is_some();
        assert!(taken || !told);
        arming.join().unwrap();
        assert!(taken || shared.timers.take_due(DUE).is_some());
    });
}

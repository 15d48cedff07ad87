// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

#[test]
fn timers_fire_in_order_of_time_then_arming() {
    let timers = Timers::default();
    timers.arm(20, Holds::Nothing, 'c');
    timers.arm(10, Holds::Packet, 'a');
    let gone = timers.arm(10, Holds::Packet, 'x');
    timers.arm(10, Holds::Nothing, 'b');
    assert_eq!(timers.cancel(gone), Some('x'));
    assert_eq!(timers.cancel(gone), None);
    assert!(timers.packets_wait());
    assert_eq!(timers.take_due(9), None);
    assert_eq!(timers.take_due(10), Some((10, 'a')));
    assert!(!timers.packets_wait());
    assert_eq!(timers.take_due(10), Some((10, 'b')));
    assert_eq!(timers.next_time(), Some(20));
    // The first of them goes, and another comes before the rest.
    let first = timers.arm(15, Holds::Nothing, 'f');
    timers.cancel(first);
    assert_eq!(timers.take_due(19), None);
    timers.arm(12, Holds::Nothing, 'e');
    assert_eq!(timers.take_due(19), Some((12, 'e')));
    assert_eq!(timers.take_due(20), Some((20, 'c')));
    assert_eq!(timers.take_due(u64::MAX), None);
    timers.arm(u64::MAX, Holds::Nothing, 'z');
    assert_eq!(timers.take_due(u64::MAX - 1), None);
    assert_eq!(timers.take_due(u64::MAX), Some((u64::MAX, 'z')));
}

#[test]
fn timers_wake_only_those_who_sleep_longer() {
    let timers = Timers::default();
    let wakes = |time| timers.arm_next(time, Holds::Nothing, ()).1;
    // Nobody sleeps: a CPU looks before it does.
    assert!(!wakes(50));
    assert!(!wakes(40));
    assert_eq!(timers.sleep(0, 0, 1000), 40);
    assert!(!wakes(45));
    assert!(!wakes(40));
    let (early, woken) = timers.arm_next(20, Holds::Nothing, ());
    assert!(woken);
    // The sleeper is on its way, and will see it.
    assert!(!wakes(30));
    timers.cancel(early);
    assert!(!wakes(10));
    assert!(!timers.awake(0));
    assert_eq!(timers.sleep(0, 5, 1000), 10);
    // A timer that was cancelled ends one sleep.
    let (early, woken) = timers.arm_next(7, Holds::Nothing, ());
    assert!(woken);
    timers.cancel(early);
    assert_eq!(timers.sleep(0, 6, 1000), 7);
    assert!(!wakes(8));
    assert_eq!(timers.sleep(0, 7, 1000), 8);
    while timers.take_due(60).is_some() {}
    assert_eq!(timers.sleep(0, 60, 1000), 1060);
    assert!(!wakes(1060));
    assert!(wakes(1059));
    assert_eq!(timers.sleep(0, 70, 20), 90);
    assert!(wakes(80));
}

#[test]
fn a_cpu_in_a_long_turn_is_not_awaited() {
    let timers = Timers::default();
    let wakes = |time| timers.arm_next(time, Holds::Nothing, ()).1;
    let late = sleepers::LATE;
    assert_eq!(timers.sleep(1, 0, SECOND), SECOND);
    let (first, woken) = timers.arm_next(100 * MILLISECOND, Holds::Nothing, ());
    assert!(woken, "the other one may take long");
    assert!(!timers.awake(1));
    // The last one sleeps until the timer, the other one looks whether it has run.
    assert_eq!(timers.sleep(1, 0, SECOND), 100 * MILLISECOND + late);
    assert_eq!(timers.sleep(0, 0, SECOND), 100 * MILLISECOND);
    assert!(!wakes(100 * MILLISECOND));
    // A packet wakes the first one, whose turn lasts.
    assert!(!timers.awake(0));
    assert!(!wakes(100 * MILLISECOND), "the other one looks in time");
    assert!(wakes(99 * MILLISECOND));
    assert!(!timers.awake(1));
    assert_eq!(timers.sleep(1, 0, SECOND), 99 * MILLISECOND + late);
    // The time has passed that the first one had told. It counts no longer.
    timers.cancel(first);
    while timers.take_due(110 * MILLISECOND).is_some() {}
    assert!(!timers.awake(1));
    assert_eq!(
        timers.sleep(1, 110 * MILLISECOND, SECOND),
        SECOND + 110 * MILLISECOND
    );
    assert!(wakes(300 * MILLISECOND));
}

#[test]
fn a_cpu_that_wakes_for_something_else_wakes_those_that_relied_on_it() {
    let timers = Timers::default();
    let wakes = |time| timers.arm_next(time, Holds::Nothing, ()).1;
    let (first, _) = timers.arm_next(100 * MILLISECOND, Holds::Nothing, ());
    assert_eq!(
        timers.sleep(1, 0, SECOND),
        100 * MILLISECOND + sleepers::LATE
    );
    timers.cancel(first);
    assert!(!timers.awake(1));
    timers.sleep(0, 150 * MILLISECOND, SECOND);
    assert_eq!(
        timers.sleep(1, 150 * MILLISECOND, 10),
        150 * MILLISECOND + 10
    );
    assert!(!wakes(200 * MILLISECOND), "one of them looks before");
    assert!(timers.awake(1), "the other one sleeps until later");
    assert!(!timers.awake(0));
    assert_eq!(
        timers.sleep(0, 150 * MILLISECOND, SECOND),
        200 * MILLISECOND + sleepers::LATE
    );
    assert_eq!(
        timers.sleep(1, 150 * MILLISECOND, SECOND),
        200 * MILLISECOND
    );
}

/// Whatever CPUs do, a timer is looked for in time: at its time if all of them sleep, otherwise soon after it.
#[test]
fn some_cpu_looks_for_each_timer() {
    const CPUS: usize = 3;
    let seeds = if cfg!(miri) { 5 } else { 500 };
    for seed in 0..seeds {
        let mut state = seed * 2 + 1;
        let mut draw = |below: u64| {
            state = u64::wrapping_mul(state, 6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let timers = Timers::default();
        let mut armed = BTreeMap::new();
        let mut asleep: [Option<u64>; CPUS] =
            std::array::from_fn(|cpu| Some(timers.sleep(cpu, 0, SECOND)));
        let mut now = 0;
        for _ in 0..300 {
            let mut wake = false;
            match draw(6) {
                0 | 1 => {
                    let time = now + draw(20) * MILLISECOND;
                    let (id, wakes) = timers.arm_next(time, Holds::Nothing, ());
                    armed.insert(id, time);
                    wake = wakes;
                }
                2 => {
                    let id = armed.keys().nth(draw(3) as usize).copied();
                    if let Some(id) = id {
                        timers.cancel(id);
                        armed.remove(&id);
                    }
                }
                3 => {
                    let cpu = draw(CPUS as u64) as usize;
                    if asleep[cpu].take().is_some() {
                        wake = timers.awake(cpu);
                    }
                }
                4 => {
                    let cpu = draw(CPUS as u64) as usize;
                    if asleep[cpu].is_none() {
                        while timers.take_due(now).is_some() {}
                        armed.retain(|_, time| *time > now);
                        asleep[cpu] = Some(timers.sleep(cpu, now, SECOND));
                    }
                }
                _ => now += draw(5) * MILLISECOND,
            }
            // Those whose time has come wake by themselves.
            for cpu in 0..CPUS {
                if asleep[cpu].is_some_and(|until| wake || until <= now) {
                    asleep[cpu] = None;
                    if timers.awake(cpu) {
                        asleep.fill(None);
                    }
                }
            }
            if wake {
                asleep.fill(None);
            }
            let late = match asleep.contains(&None) {
                true => sleepers::LATE,
                false => 0,
            };
            if let (Some(first), Some(until)) =
                (armed.values().min(), asleep.iter().flatten().min())
            {
                assert!(*until <= first + late, "seed {seed}: {asleep:?}, {first}");
            }
        }
    }
}

#[test]
fn a_virtual_clock_only_goes_forward() {
    let clock = Clock::new_virtual();
    clock.advance(5 * SECOND);
    clock.advance(SECOND);
    assert_eq!(clock.now(), 5 * SECOND);
    assert_eq!(clock.ticks(), 500);
}

/// A thread that had to wait between the reads of two clocks reads them again.
#[test]
fn clocks_are_read_at_once() {
    let micros = |all: &'static [u64]| {
        let mut reads = all.iter().map(|us| (Duration::from_micros(*us), *us));
        quickest(|| reads.next().unwrap())
    };
    assert_eq!(micros(&[3]), 3);
    assert_eq!(micros(&[3_000, 40, 4]), 4);
    let busy: Vec<u64> = (0..100).map(|n| 1_000 - n).collect();
    assert_eq!(micros(busy.leak()), 981);
}

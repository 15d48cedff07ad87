// SPDX-License-Identifier: Apache-2.0 OR MIT

use proptest::prelude::*;

use super::schedule::{Entry, Gates, Schedule};

fn schedule(base: i64, cycle: i64, extension: i64, entries: &[(u32, u32)]) -> Schedule {
    let entries = entries.iter();
    let entries = entries.map(|&(mask, interval)| Entry::new(0, mask, interval));
    Schedule::new(base, cycle, extension, entries.collect())
}

/// Makes gates on a link with 1000 ps per byte.
fn gates(schedule: Schedule) -> Gates {
    let mut gates = Gates::new(0);
    gates.picos = 1000;
    gates.submit(schedule, 0, true);
    gates
}

/// Returns the masks at the given times.
fn masks<const N: usize>(gates: &mut Gates, times: [u64; N]) -> [u32; N] {
    times.map(|time| {
        gates.settle(time);
        gates.mask()
    })
}

const OPEN: u32 = u32::MAX;

#[test]
fn a_schedule_starts_at_its_base_time_or_the_next_cycle() {
    let entries = [(1, 100), (2, 200)];
    let mut later = gates(schedule(1000, 300, 0, &entries));
    let times = [999, 1000, 1099, 1100, 1299, 1300, 1400];
    assert_eq!(masks(&mut later, times), [OPEN, 1, 1, 2, 2, 1, 2]);
    // If the base time has passed, the schedule starts with the next cycle after now (0).
    let mut past = gates(schedule(-1000, 300, 0, &entries));
    assert_eq!(masks(&mut past, [199, 200, 300, 500]), [OPEN, 1, 2, 1]);
    let mut zero = gates(schedule(0, 300, 0, &entries));
    assert_eq!(masks(&mut zero, [299, 300, 400]), [OPEN, 1, 2]);
}

#[test]
fn attempts_use_up_the_budget_of_an_entry() {
    let mut gates = gates(schedule(1000, 1000, 0, &[(1, 500), (2, 500)]));
    gates.settle(1000);
    // A byte takes a nanosecond. 500 bytes fit, and must be over at 1500.
    assert!(!gates.admit(0, 501, 1000), "it ends too late");
    assert!(!gates.admit(1, 10, 1000), "its gate is closed");
    assert!(gates.admit(0, 400, 1100));
    assert!(!gates.admit(0, 200, 1100), "100 are left");
    assert!(!gates.admit(0, 50, 1100), "the attempt used them up");
    gates.settle(1500);
    assert!(gates.admit(1, 500, 1500));
    gates.settle(2000);
    assert!(gates.admit(0, 100, 2400) && !gates.admit(0, 100, 2401));
}

#[test]
fn a_change_waits_for_its_base_time() {
    let mut gates = gates(schedule(1000, 200, 0, &[(1, 100), (2, 100)]));
    gates.settle(1250);
    gates.submit(schedule(2050, 100, 0, &[(4, 50), (8, 50)]), 1250, true);
    assert!(gates.admin.is_some());
    // As in Linux, all gates are open until the timer expires at the end of the current entry.
    assert_eq!(masks(&mut gates, [1250, 1299, 1300]), [OPEN, OPEN, 2]);
    // An entry that would end after the new base time is replaced at its start: at 2000, because
    // the following end, 2100, is after 2050.
    let times = [1400, 1950, 1999, 2000, 2099, 2100, 2150];
    assert_eq!(masks(&mut gates, times), [1, 2, 2, 4, 4, 8, 4]);
    assert!(gates.admin.is_none());
}

#[test]
fn a_schedule_within_the_extension_replaces_the_last_entry() {
    let with = |extension| {
        let mut gates = gates(schedule(1000, 200, extension, &[(1, 100), (2, 100)]));
        gates.settle(1350);
        gates.submit(schedule(1820, 100, 0, &[(4, 50), (8, 50)]), 1350, true);
        masks(&mut gates, [1650, 1750, 1810, 1860, 1870, 1920])
    };
    // Without an extension, the entry at 1800 is the one that would end after 1820.
    assert_eq!(with(0), [1, 2, 4, 4, 8, 4]);
    // The entry at 1700 ends 20 ns before the new base time, so it is already the first entry of
    // the new schedule.
    assert_eq!(with(20), [1, 4, 4, 4, 8, 4]);
}

#[test]
fn only_packets_that_fit_some_gate_can_ever_leave() {
    let whole = gates(schedule(1000, 300, 0, &[(1, 100), (2, 200)]));
    assert!(whole.ever_admits(0, 100) && !whole.ever_admits(0, 101));
    assert!(whole.ever_admits(1, 200) && !whole.ever_admits(1, 201));
    assert!(!whole.ever_admits(2, 1));
    // The cycle ends within the second entry and before the third.
    let cut = gates(schedule(1000, 150, 0, &[(1, 100), (2, 200), (4, 10)]));
    assert!(cut.ever_admits(0, 100) && cut.ever_admits(1, 50) && !cut.ever_admits(1, 51));
    assert!(!cut.ever_admits(2, 1));
}

#[test]
fn distant_times_are_reached_without_iteration() {
    let mut gates = gates(schedule(0, 2, 0, &[(1, 1), (2, 1)]));
    let year = 31_536_000_000_000_000;
    assert_eq!(masks(&mut gates, [year, year + 1, year + 2]), [1, 2, 1]);
    assert_eq!(gates.next(year + 2), Some(year + 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// At any time the gates are those of the entry that the cycle has reached.
    #[test]
    fn gates_follow_the_cycle(
        intervals in prop::collection::vec(1u32..50, 1..6),
        cut in 0i64..60,
        base in 1i64..500,
        steps in prop::collection::vec(prop_oneof![0u64..20, 0u64..400, 0u64..1_000_000], 1..60),
    ) {
        let sum: i64 = intervals.iter().map(|&i| i64::from(i)).sum();
        let first = i64::from(intervals[0]);
        // The cycle is shorter than the sum of the intervals, but not than the first one, or
        // longer.
        let cycle = (sum + 20 - cut).max(first);
        let period = sum.min(cycle);
        let entries: Vec<_> = (1..).zip(intervals.iter().copied()).collect();
        let mut gates = gates(schedule(base, cycle, 0, &entries));
        let mut now = 0;
        for step in steps {
            now += step;
            gates.settle(now);
            let at = now as i64 - base;
            let mut left = at.rem_euclid(period);
            let oracle = entries.iter().find(|(_, interval)| {
                left -= i64::from(*interval);
                left < 0
            });
            let oracle = if at < 0 { OPEN } else { oracle.unwrap().0 };
            prop_assert_eq!(gates.mask(), oracle, "at {}", now);
        }
    }
}

/// Makes gates with txtime-assist: two classes with half a cycle each from 1000 on. A byte takes a
/// nanosecond.
fn assisted(schedule: Schedule) -> Gates {
    let mut gates = Gates::new(0);
    gates.picos = 1000;
    gates.submit(schedule, 0, false);
    gates
}

#[test]
fn departure_times_fill_the_intervals_of_a_class() {
    let mut gates = assisted(schedule(1000, 1000, 0, &[(1, 500), (2, 500)]));
    assert_eq!(
        gates.transmit_time(0, 100, 30, 5),
        Some(35),
        "all gates are open"
    );
    let mut times = |class, count| -> Vec<_> {
        let time = |_| gates.transmit_time(class, 100, 1050, 50).unwrap();
        (0..count).map(time).collect()
    };
    let first = [1100, 1200, 1300, 1400, 2000, 2100, 2200, 2300, 2400, 3000];
    assert_eq!(times(0, 10), first);
    assert_eq!(times(1, 7), [1500, 1600, 1700, 1800, 1900, 2500, 2600]);
}

#[test]
fn a_packet_that_fits_no_interval_gets_no_time() {
    let mut gates = assisted(schedule(1000, 1000, 0, &[(1, 500), (2, 500)]));
    assert_eq!(gates.transmit_time(0, 501, 1100, 0), None);
    assert_eq!(
        gates.transmit_time(2, 1, 1100, 0),
        None,
        "its gate never opens"
    );
    // The end of the cycle leaves 100 ns of the second interval. Linux would search forever.
    let mut cut = assisted(schedule(1000, 600, 0, &[(1, 500), (2, 500)]));
    assert_eq!(cut.transmit_time(1, 101, 1100, 0), None);
    assert_eq!(cut.transmit_time(1, 100, 1100, 0), Some(1500));
}

#[test]
fn times_after_the_next_base_time_follow_the_next_schedule() {
    let mut gates = assisted(schedule(1000, 1000, 0, &[(1, 500), (2, 500)]));
    gates.submit(schedule(1900, 200, 0, &[(2, 100), (1, 100)]), 1100, false);
    let mut times = |count| -> Vec<_> {
        let time = |_| gates.transmit_time(0, 100, 1299, 0).unwrap();
        (0..count).map(time).collect()
    };
    assert_eq!(times(4), [1299, 1399, 2000, 2200]);
}

proptest! {
    /// For any packets, each is sent while its gate is open, not before it arrives, and with no
    /// overlap.
    #[test]
    fn times_never_overlap_and_gates_are_open(
        entries in prop::collection::vec((1_u32..8, 20_u32..200), 1..5),
        packets in prop::collection::vec((0_u8..3, 1_u32..60, 0_u64..150), 1..60),
    ) {
        let cycle: u32 = entries.iter().map(|(_, interval)| interval).sum();
        let (base, cycle) = (1000_u64, u64::from(cycle));
        let mut gates = assisted(schedule(base as i64, cycle as i64, 0, &entries));
        let (mut now, mut sent) = (base, Vec::new());
        for (class, octets, pause) in packets {
            now += pause;
            let fits = |&(mask, interval): &(u32, u32)| mask >> class & 1 != 0 && octets <= interval;
            let time = gates.transmit_time(class, octets, now, 0);
            prop_assert_eq!(time.is_some(), entries.iter().any(fits));
            let Some(time) = time else { continue };
            prop_assert!(time >= now);
            let mut at = (time - base) % cycle;
            let open = entries.iter().find(|(_, interval)| match at.checked_sub((*interval).into()) {
                Some(rest) => {
                    at = rest;
                    false
                }
                None => true,
            });
            let &(mask, interval) = open.unwrap();
            prop_assert!(mask >> class & 1 != 0, "its gate is closed at {time}");
            prop_assert!(at + u64::from(octets) <= u64::from(interval), "it does not end in time");
            sent.push((time, time + u64::from(octets)));
        }
        sent.sort_unstable();
        prop_assert!(sent.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", sent);
    }
}

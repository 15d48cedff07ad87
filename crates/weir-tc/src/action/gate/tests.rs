// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gates compared with an evaluation of the list entry by entry.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::nlm;

use super::*;
use crate::action::requests::{at_ingress, gen_parms, new_action, options_of};
use crate::testing::{EPOCH, Stack, ipv4};
use crate::verdict::{Verdict, code};

fn put(w: &mut Writer, base: i64, cycle: u64, clockid: i32, entries: &[(bool, u32, i32)]) {
    w.put_fixed(attr::PARMS, &gen_parms(0, code::PIPE));
    w.put_u64(attr::BASE_TIME, base as u64);
    w.put_u64(attr::CYCLE_TIME, cycle);
    w.put_i32(attr::CLOCKID, clockid);
    let list = w.nest(attr::ENTRY_LIST);
    for &(open, interval, max) in entries {
        let nest = w.nest(attr::ONE_ENTRY);
        if open {
            w.put_flag(attr::ENTRY_GATE);
        }
        w.put_u32(attr::ENTRY_INTERVAL, interval);
        w.put_i32(attr::ENTRY_MAX_OCTETS, max);
        w.end(nest);
    }
    w.end(list);
}

/// Returns the beginning of the first entry: the first start of a cycle after `now`.
fn first(base: i64, cycle: u64, now: i64) -> i64 {
    let mut start = i128::from(base);
    let (now, cycle) = (i128::from(now), i128::from(cycle));
    // Large steps first, to keep the number of steps small.
    for step in [1_000_000_000_000, 1_000_000, 1_000, 1] {
        while start + step * cycle <= now {
            start += step * cycle;
        }
    }
    if start <= now {
        start += cycle;
    }
    i64::try_from(start).unwrap()
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(100)))]
    #[test]
    fn each_packet_gets_the_entry_of_its_time(
        entries in prop::collection::vec((any::<bool>(), 1_u32..3000, prop_oneof![Just(-1), 0..200]), 1..6),
        ahead in prop_oneof![Just(0_i64), 0..20_000_i64, -20_000_000..0_i64],
        given_cycle in prop_oneof![Just(0_u64), 1000..9000_u64],
        monotonic: bool,
        gaps in prop::collection::vec(prop_oneof![0..500_u64, 0..40_000_u64, Just(1_000_000_007)], 1..80),
    ) {
        let stack = Stack::default();
        let created = stack.now.load(Relaxed);
        let offset = if monotonic { 0 } else { EPOCH };
        let on_clock = |now: u64| (offset + now) as i64;
        let base = on_clock(created) + ahead;
        let clockid = if monotonic { clock::MONOTONIC } else { clock::TAI };
        for request in at_ingress("gate", |w| put(w, base, given_cycle, clockid, &entries)) {
            stack.request(&request).unwrap();
        }
        let round: i64 = entries.iter().map(|entry| i64::from(entry.1)).sum();
        let cycle = if given_cycle == 0 { round as u64 } else { given_cycle };
        let start = first(base, cycle, on_clock(created));
        let frame = ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2);
        let len = (frame.len() - 14) as i32;
        // Bytes of the current entry, which is identified by its beginning.
        let mut octets = (i64::MIN, 0);
        for gap in gaps {
            let now = stack.now.fetch_add(gap, Relaxed) + gap;
            let passes = match on_clock(now) - start {
                waiting if waiting < 0 => true,
                since => {
                    let (mut at, mut left) = (0, since % round);
                    while left >= i64::from(entries[at].1) {
                        left -= i64::from(entries[at].1);
                        at += 1;
                    }
                    let (open, _, max) = entries[at];
                    let began = on_clock(now) - left;
                    if octets.0 != began {
                        octets = (began, 0);
                    }
                    octets.1 += if open { len } else { 0 };
                    open && (max < 0 || octets.1 <= max)
                }
            };
            let passed = stack.receive(&frame) == Verdict::Pass;
            prop_assert_eq!(passed, passes, "{} ns from the start", on_clock(now) - start);
        }
    }
}

#[test]
fn a_replace_keeps_parameters_it_does_not_give() {
    let stack = Stack::default();
    let entries = [(true, 70, 5), (false, 30, -1)];
    let add = new_action("gate", nlm::F_CREATE | nlm::F_EXCL, |w| {
        put(w, 1000, 0, clock::MONOTONIC, &entries);
    });
    stack.request(&add).unwrap();
    let before = options_of(&stack, "gate", 1);
    let find = |options: &[(u16, Vec<u8>)], ty| {
        let found = options.iter().find(|(other, _)| *other == ty);
        found.unwrap().1.clone()
    };
    assert_eq!(find(&before, attr::CYCLE_TIME), 100_u64.to_ne_bytes());
    assert_eq!(find(&before, attr::PRIORITY), (-1_i32).to_ne_bytes());
    let replace = new_action("gate", nlm::F_CREATE | nlm::F_REPLACE, |w| {
        w.put_fixed(attr::PARMS, &gen_parms(1, code::PIPE));
        w.put_i32(attr::PRIORITY, 4);
    });
    stack.request(&replace).unwrap();
    let after = options_of(&stack, "gate", 1);
    for ty in [
        attr::BASE_TIME,
        attr::CYCLE_TIME,
        attr::CLOCKID,
        attr::ENTRY_LIST,
    ] {
        assert_eq!(find(&before, ty), find(&after, ty));
    }
    assert_eq!(find(&after, attr::PRIORITY), 4_i32.to_ne_bytes());
}

#[test]
fn refused() {
    let stack = Stack::default();
    let refuse = |options: &dyn Fn(&mut Writer)| {
        let request = new_action("gate", nlm::F_CREATE | nlm::F_EXCL, |w| options(w));
        let error = stack.request(&request).unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    let text = |text: &str| (EINVAL, text.to_owned());
    assert_eq!(refuse(&|_| {}), (EINVAL, String::new()));
    let parms = |w: &mut Writer| w.put_fixed(attr::PARMS, &gen_parms(0, code::PIPE));
    assert_eq!(refuse(&parms), text("The entry list is empty"));
    assert_eq!(
        refuse(&|w| put(w, 0, 0, clock::TAI, &[(true, 0, -1)])),
        text("Invalid interval for schedule entry")
    );
    assert_eq!(
        refuse(&|w| put(w, 0, 0, 4, &[(true, 1, -1)])),
        text("Invalid 'clockid'")
    );
    let unflagged = |w: &mut Writer| {
        parms(w);
        let list = w.nest(attr::ENTRY_LIST);
        let nest = w.nest_noflag(attr::ONE_ENTRY);
        w.put_u32(attr::ENTRY_INTERVAL, 1);
        w.end(nest);
        w.end(list);
    };
    assert_eq!(refuse(&unflagged), text("Could not parse nested entry"));
    let first_wrong = |w: &mut Writer| {
        w.put_fixed(attr::PARMS, &gen_parms(0, 77));
        w.put_i32(attr::CLOCKID, 4);
    };
    assert_eq!(refuse(&first_wrong), text("invalid control action"));
    assert!(stack.heard().is_empty(), "nothing was made");
}

#[test]
fn extreme_times_cause_no_loop() {
    for (base, cycle) in [
        (i64::MIN, 1 << 63),
        (-5, u64::MAX),
        (i64::MAX, 1),
        (0, 1 << 62),
    ] {
        let stack = Stack::default();
        for request in at_ingress("gate", |w| {
            put(w, base, cycle, clock::TAI, &[(false, 1, -1)])
        }) {
            stack.request(&request).unwrap();
        }
        for _ in 0..3 {
            stack.now.fetch_add(1 << 40, Relaxed);
            stack.receive(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2));
        }
    }
}

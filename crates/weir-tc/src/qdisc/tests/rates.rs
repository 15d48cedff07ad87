// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rate estimators of classes and policers, compared with the closed form of
//! net/core/gen_estimator.c: with a steady rate R the average after n samples is R * (1 - (1 -
//! 2^-ewma)^n), less rounding.

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::tca::{self, act, matchall, stats};
use weir_netlink::{Attr, Error, Fixed, GnetStatsRateEst, TcMsg, TcStats, Writer, errno, nlm, rtm};

use super::{Arrival, Line, START, tc};
use crate::testing::{Answer, Stack, ipv4, vectors};
use crate::verdict::Verdict;

const QUARTER: u64 = 250_000_000;

/// Returns the average after `n` samples of a steady `rate` for tc's option `250ms 1s` (ewma 2).
fn steady(rate: f64, n: i32) -> f64 {
    rate * (1.0 - 0.75_f64.powi(n))
}

#[track_caller]
fn assert_near(found: u64, expected: f64) {
    assert!(
        (found as f64 - expected).abs() <= 1.0,
        "{found}, not {expected}"
    );
}

/// Returns the last datagram that tc sends for a command.
fn recorded(command: &str) -> Vec<u8> {
    let all = vectors(include_str!("../../../tests/vectors/estimator.vec"));
    let found = all.into_iter().find(|(recorded, _)| recorded == command);
    found.unwrap().1.pop().unwrap()
}

fn request(stack: &Stack, command: &str) -> Result<Vec<Answer>, Error> {
    stack.request(&recorded(command))
}

fn dump(stack: &Stack, ty: u16, parent: u32) -> Vec<Answer> {
    let mut w = Writer::new();
    let mark = w.message(ty, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
    w.fixed(&TcMsg {
        ifindex: 3,
        parent,
        ..TcMsg::default()
    });
    w.finish(mark).unwrap();
    stack.request(w.bytes()).unwrap()
}

/// Returns the averages of the only class in a dump.
fn class_rate(stack: &Stack) -> (u64, u64) {
    let classes = dump(stack, rtm::GETTCLASS, 0);
    let stats = classes[0].message().attrs::<TcMsg>();
    let stats = stats.find_type(tca::STATS).unwrap();
    let stats = TcStats::from_bytes(stats.payload).unwrap();
    (stats.bps.into(), stats.pps.into())
}

/// Returns packets of 1000 bytes, 25 per quarter of a second.
fn ten_ms_apart(count: u64, from: u64) -> Vec<Arrival> {
    let arrival = |n| Arrival {
        time: from + n * 10_000_000,
        len: 1000,
        ..Arrival::default()
    };
    (0..count).map(arrival).collect()
}

fn check_class_rate(commands: &[&str]) {
    let mut line = Line::new(&[]);
    for command in commands {
        request(&line.stack, command).unwrap();
    }
    assert_eq!(class_rate(&line.stack), (0, 0));
    let mut from = START;
    for n in 1..=24 {
        line.run(&ten_ms_apart(25, from));
        from = START + n * QUARTER;
        // The sample is due whether or not packets arrive.
        line.stack.now.store(from, Relaxed);
        let (bytes, packets) = class_rate(&line.stack);
        assert_near(bytes, steady(100_000.0, n as i32));
        assert_near(packets, steady(100.0, n as i32));
    }
}

#[test]
fn a_class_of_drr_has_a_rate() {
    check_class_rate(&[
        "tc qdisc add dev d0 root handle 1: drr",
        "tc class add dev d0 parent 1: classid 1:1 estimator 250ms 1s drr quantum 1500",
        "tc filter add dev d0 parent 1: prio 1 matchall classid 1:1",
    ]);
}

#[test]
fn a_class_of_htb_has_a_rate() {
    check_class_rate(&[
        "tc qdisc replace dev d0 root handle 2: htb",
        "tc class add dev d0 parent 2: classid 2:1 estimator 250ms 1s htb rate 80mbit",
        "tc filter add dev d0 parent 2: prio 1 matchall classid 2:1",
    ]);
}

#[test]
fn a_class_of_qfq_has_a_rate() {
    check_class_rate(&[
        "tc qdisc replace dev d0 root handle 5: qfq",
        "tc class add dev d0 parent 5: classid 5:1 estimator 250ms 1s qfq",
        "tc filter add dev d0 parent 5: prio 1 matchall classid 5:1",
    ]);
}

#[test]
fn a_changed_estimator_starts_from_the_old_average() {
    let change = "tc class change dev d0 parent 1: classid 1:1 estimator 500ms 2s drr quantum 1500";
    let mut line = Line::new(&[]);
    for command in [
        "tc qdisc add dev d0 root handle 1: drr",
        "tc class add dev d0 parent 1: classid 1:1 estimator 250ms 1s drr quantum 1500",
        "tc filter add dev d0 parent 1: prio 1 matchall classid 1:1",
    ] {
        request(&line.stack, command).unwrap();
    }
    line.run(&ten_ms_apart(25 * 4, START));
    line.stack.now.store(START + 4 * QUARTER, Relaxed);
    let before = class_rate(&line.stack);
    assert_near(before.0, steady(100_000.0, 4));
    request(&line.stack, change).unwrap();
    assert_eq!(class_rate(&line.stack), before);
    // Samples are half a second apart from now on. Without packets each reduces the average by a
    // quarter.
    line.stack.now.store(START + 6 * QUARTER - 1, Relaxed);
    assert_eq!(class_rate(&line.stack), before);
    line.stack.now.store(START + 6 * QUARTER, Relaxed);
    assert_near(class_rate(&line.stack).0, 0.75 * steady(100_000.0, 4));
}

#[test]
fn a_wrong_or_unsupported_estimator_is_refused() {
    let stack = Stack::default();
    let class = "tc class add dev d0 parent 1: classid 1:1 estimator 250ms 1s drr quantum 1500";
    request(&stack, "tc qdisc add dev d0 root handle 1: drr").unwrap();
    let mut wrong = recorded(class);
    let rate = [6, 0, 5, 0, 0xfe, 2];
    let at = wrong.windows(6).position(|octets| octets == rate).unwrap();
    for (interval, ewma) in [(-3_i8, 2), (4, 2), (0, 0), (0, 31)] {
        (wrong[at + 4], wrong[at + 5]) = (interval as u8, ewma);
        let error = stack.request(&wrong).unwrap_err();
        assert_eq!(error.errno, errno::EINVAL);
        let text = error.message.as_deref();
        assert_eq!(text, Some("Failed to replace estimator"));
    }
    assert!(dump(&stack, rtm::GETTCLASS, 0).is_empty());
    let ets = "tc qdisc replace dev d0 root handle 4: ets bands 2 quanta 1500 1500";
    request(&stack, ets).unwrap();
    let class = "tc class change dev d0 parent 4: classid 4:1 estimator 250ms 1s ets quantum 1500";
    let error = request(&stack, class).unwrap_err();
    assert_eq!(error.errno, errno::EOPNOTSUPP);
}

/// Sends 100 packets of 500 bytes per quarter of a second: 200,000 bytes per second, twice the
/// bound.
#[test]
fn a_policer_bounds_the_average() {
    const BOUND: f64 = 100_000.0;
    let stack = Stack::default();
    tc(&stack, &[]);
    request(&stack, "tc qdisc add dev d0 clsact").unwrap();
    let filter = "tc filter add dev d0 ingress prio 1 estimator 250ms 1s matchall action police \
                  avrate 800kbit conform-exceed drop/pass";
    request(&stack, filter).unwrap();
    let mut frame = ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2);
    frame.resize(514, 0);
    let mut dropped = 0;
    for n in 0..800 {
        stack.now.store(START + n * 2_500_000, Relaxed);
        let within = steady(200_000.0, (n / 100) as i32) < BOUND;
        assert_eq!(stack.receive(&frame) == Verdict::Pass, within, "packet {n}");
        dropped += u64::from(!within);
    }
    assert_eq!(dropped, 500);
    // Dropped packets count, so the average stays. The 8th sample is due at 2 s.
    let now = START + 8 * QUARTER;
    stack.now.store(now, Relaxed);
    let filters = dump(&stack, rtm::GETTFILTER, 0xffff_fff2);
    let nest = |attr: Attr<'_>, ty| attr.attrs().find_type(ty).map(|a| a.payload.to_vec());
    let action = |answer: &Answer| -> Option<(u64, u32)> {
        let options = answer.message().attrs::<TcMsg>().find_type(tca::OPTIONS)?;
        let list = options.attrs().find_type(matchall::ACT)?;
        let action = list.attrs().next()?;
        let counted = action.attrs().find_type(act::STATS)?;
        let rate = GnetStatsRateEst::from_bytes(&nest(counted, stats::RATE_EST)?)?;
        let options = action.attrs().find_type(act::OPTIONS)?;
        let bound = options.attrs().find_type(tca::police::AVRATE)?;
        Some((rate.bps.into(), bound.u32().unwrap()))
    };
    let (average, bound) = filters.iter().find_map(action).unwrap();
    assert_near(average, steady(200_000.0, 8));
    assert_eq!(f64::from(bound), BOUND);
    // Without packets the average falls below the bound at the third sample: 0.75^3 of nine tenths
    // of it.
    for (samples, within) in [(1, false), (2, false), (3, true)] {
        stack.now.store(now + samples * QUARTER, Relaxed);
        assert_eq!(stack.receive(&frame) == Verdict::Pass, within);
    }
}

#[test]
fn an_average_needs_an_estimator() {
    let stack = Stack::default();
    request(&stack, "tc qdisc add dev d0 clsact").unwrap();
    for command in [
        "tc filter add dev d0 ingress prio 3 matchall action police avrate 800kbit conform-exceed \
         drop/pass",
        "tc actions add action police avrate 800kbit conform-exceed drop index 7",
    ] {
        let error = request(&stack, command).unwrap_err();
        assert_eq!((error.errno, error.message), (errno::EINVAL, None));
    }
    assert!(dump(&stack, rtm::GETTFILTER, 0xffff_fff2).is_empty());
    // Any action created by a filter can have an estimator, including a policer in the old form.
    for command in [
        "tc filter replace dev d0 ingress prio 2 estimator 250ms 1s matchall action drop",
        "tc filter add dev d0 ingress prio 4 estimator 250ms 1s u32 match u32 0 0 police avrate \
         800kbit drop flowid 1:1",
    ] {
        request(&stack, command).unwrap();
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of flows and classes that share a line: fq, sfq, ets, drr, hfsc; also plug.

use super::{Arrival, Line, START, tc};

const TBF: &str = "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000";
const MS: u64 = 1_000_000;

/// Returns packets of 1000 bytes that all arrive at once. `what` returns the flow and the priority
/// of a packet.
fn flood(count: u16, what: impl Fn(u16) -> (u16, u32)) -> Vec<Arrival> {
    let arrival = |i| {
        let (flow, priority) = what(i);
        Arrival {
            time: START,
            len: 1000,
            flow,
            priority,
        }
    };
    (0..count).map(arrival).collect()
}

/// Counts the first `first` packets that left, by kind.
fn shares<const N: usize>(
    line: &Line,
    first: usize,
    kind: impl Fn(&Arrival) -> usize,
) -> [usize; N] {
    let mut shares = [0; N];
    for (_, number) in line.left.iter().take(first) {
        shares[kind(&line.arrivals[*number as usize])] += 1;
    }
    shares
}

#[test]
fn fq_paces_each_flow_to_the_nanosecond() {
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: fq maxrate 400kbit"]);
    line.run(&flood(60, |i| (i % 3, 0)));
    // 400 kbit/s is below the low rate threshold, so each packet waits for the one before it in its
    // flow.
    for flow in 0..3 {
        let of_flow = line.left.iter().filter(|(_, n)| n % 3 == flow);
        let times: Vec<u64> = of_flow.map(|(time, _)| *time).collect();
        let expected: Vec<u64> = (0..20).map(|i| START + i * 20 * MS).collect();
        assert_eq!(times, expected);
    }

    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: fq maxrate 8mbit quantum 1500 initial_quantum 1500",
    ]);
    line.run(&flood(40, |_| (1, 0)));
    // The flow is paced by quantum: it has 1500 bytes of credit, and waits 1.5 ms when they are
    // used up. A packet of 1000 bytes leaves a credit of 500. With that, a second packet leaves and
    // the credit is -500, then -500 + 1500 and so on.
    let (mut credit, mut next, mut expected) = (1500_i64, START, Vec::new());
    for _ in 0..40 {
        if credit <= 0 {
            credit += 1500;
        }
        expected.push(next);
        credit -= 1000;
        if credit <= 0 {
            next += 1500 * 1000;
        }
    }
    assert_eq!(line.departures(), expected);
}

#[test]
fn sfq_serves_flows_in_turn() {
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: sfq limit 100 quantum 1500",
    ]);
    // One flow sends nine times as much as the other.
    line.run(&flood(100, |i| (u16::from(i % 10 == 0), 0)));
    let [heavy, light] = shares(&line, 20, |a| usize::from(a.flow));
    assert!(light >= 8 && heavy >= 10, "{heavy} {light}");
    let [_, all_light] = shares(&line, 100, |a| usize::from(a.flow));
    assert_eq!(all_light, 10, "the longest flow loses packets");
}

#[test]
fn ets_serves_strict_bands_first_and_shares_the_rest() {
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: ets bands 3 strict 1 quanta 4000 1000",
    ]);
    line.run(&flood(300, |i| (0, 0x10_0001 + u32::from(i % 3))));
    let band = |a: &Arrival| (a.priority - 0x10_0001) as usize;
    // Packets that left before the first one of the strict band arrived do not count.
    assert!(shares::<3>(&line, 103, band)[0] >= 100);
    let [strict, most, least] = shares(&line, 200, band);
    assert_eq!(strict, 100);
    assert!(
        (78..=82).contains(&most) && (18..=22).contains(&least),
        "{most} {least}"
    );
}

#[test]
fn drr_shares_by_quantum() {
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: drr",
        "tc class add dev d0 parent 10: classid 10:1 drr quantum 3000",
        "tc class add dev d0 parent 10: classid 10:2 drr quantum 1000",
    ]);
    line.run(&flood(400, |i| (0, 0x10_0001 + u32::from(i % 2))));
    let [most, least] = shares(&line, 200, |a| (a.priority - 0x10_0001) as usize);
    assert!(
        (148..=152).contains(&most) && (48..=52).contains(&least),
        "{most} {least}"
    );
}

#[test]
fn hfsc_keeps_guarantees_and_shares_the_rest() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: hfsc default 12",
        "tc class add dev d0 parent 1: classid 1:1 hfsc sc rate 8mbit ul rate 8mbit",
        "tc class add dev d0 parent 1:1 classid 1:11 hfsc rt m1 8mbit d 10ms m2 1mbit ls rate 2mbit",
        "tc class add dev d0 parent 1:1 classid 1:12 hfsc ls rate 6mbit",
    ]);
    line.run(&flood(800, |i| (0, 0x1_0011 + u32::from(i % 2))));
    let class = |a: &Arrival| (a.priority - 0x1_0011) as usize;
    // The limit of 8 Mbit/s permits a packet per millisecond, except for the initial burst.
    let (first, last) = (line.left[100].0, line.left[400].0);
    assert!((last - first).abs_diff(300 * MS) < MS, "{}", last - first);
    // The guaranteed class gets the first 10 ms, later its share.
    assert!(shares::<2>(&line, 10, class)[0] >= 8);
    let [least, most] = shares(&line, 400, class);
    assert!((95..=125).contains(&least), "{least} {most}");
}

#[test]
fn plug_releases_packets_on_request() {
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: plug limit 100000"]);
    let packet = |line: &Line| line.packet(0, &flood(1, |_| (0, 0))[0]);
    for _ in 0..3 {
        let arrived = packet(&line);
        assert_eq!(line.visit(vec![arrived]), None);
    }
    // The first round ends. The next packet belongs to the second.
    tc(
        &line.stack,
        &["tc qdisc change dev d0 root handle 1: plug block"],
    );
    let arrived = packet(&line);
    line.visit(vec![arrived]);
    tc(
        &line.stack,
        &["tc qdisc change dev d0 root handle 1: plug release"],
    );
    line.visit(Vec::new());
    assert_eq!((line.left.len(), line.root().2.qlen), (3, 1));
    tc(
        &line.stack,
        &["tc qdisc change dev d0 root handle 1: plug release_indefinite"],
    );
    line.run(&[]);
    assert_eq!(line.left.len(), 4);
}

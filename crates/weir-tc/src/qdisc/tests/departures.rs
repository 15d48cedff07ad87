// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fq and etf, to the nanosecond: paces below the low rate, flows told apart by the orphan mask, packets
//! that are late, and packets that bring the time at which they want to leave.

use weir_packet::Packet;

use super::driven::Driven;
use super::{Arrival, Line, START, traffic};
use crate::testing::vectors;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn arrival(len: usize) -> Arrival {
    Arrival {
        time: START,
        len,
        ..Arrival::default()
    }
}

/// A packet that wants to leave at a time, of the flow with a hash.
fn timed(driven: &Driven, number: u32, hash: u32, time: u64) -> Packet {
    let mut packet = driven.packet(number, &arrival(1000));
    packet.hash = hash;
    packet.set_departure(Some(time));
    packet
}

/// Asks the qdisc whenever it wants to be asked: when each packet left.
fn run(driven: &mut Driven, mut now: u64) -> Vec<(u64, u32)> {
    let mut left = Vec::new();
    loop {
        while let Some(packet) = driven.dequeue(now) {
            left.push((now, packet.mark));
        }
        if driven.backlog().0 == 0 {
            return left;
        }
        let next = driven.wake(now).unwrap();
        assert!(next > now);
        now = next;
    }
}

/// At the low rate and below, each packet of a flow waits until the one before has had its time.
#[test]
fn fq_paces_packet_by_packet_below_the_low_rate() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: fq maxrate 8mbit low_rate_threshold 10mbit",
    ]);
    let mut arrivals = traffic(4, 2000, 5 * MS);
    for arrival in &mut arrivals {
        arrival.flow = 1;
    }
    line.run(&arrivals);
    let (mut free, mut expected) = (0, Vec::new());
    for arrival in &arrivals {
        let leaves = arrival.time.max(free);
        // Time lost since the flow was last due makes up for at most half of the next wait.
        let wait = arrival.len as u64 * 1000;
        let late = if free == 0 { 0 } else { leaves - free };
        free = leaves + wait - late.min(wait / 2);
        expected.push(leaves);
    }
    assert_eq!(line.departures(), expected);
}

/// With three bits of mask there are four flows, of those whose hashes agree there.
#[test]
fn fq_tells_flows_apart_by_the_mask() {
    let command = "tc qdisc add dev d0 root handle 1: fq maxrate 400kbit orphan_mask 3";
    let mut driven = Driven::new(command, START, 1);
    for number in 0..40 {
        let mut packet = driven.packet(number, &arrival(1000));
        packet.hash = 0x100 + number;
        driven.enqueue(START, packet);
    }
    // 1000 octets at 400 kbit/s are 20 ms.
    let mut left = run(&mut driven, START);
    left.sort_unstable_by_key(|(_, number)| *number);
    let expected: Vec<_> = (0..40)
        .map(|n| (START + u64::from(n / 4) * 20 * MS, n))
        .collect();
    assert_eq!(left, expected);
}

/// A hundred flows come and are idle. Four seconds later another sends: the idle ones go, until there are fewer
/// than two for a bucket.
#[test]
fn fq_forgets_flows_that_are_idle_for_long() {
    let all = vectors(include_str!("../../../tests/vectors/kinds.vec"));
    let has = |(command, _): &&(String, _)| command.contains("buckets 8 orphan_mask 7");
    let (_, datagrams) = all.iter().find(has).expect("recorded");
    let mut request = datagrams.last().unwrap().clone();
    // `TCA_FQ_ORPHAN_MASK` 7 becomes 255.
    let (old, new) = ([8, 0, 10, 0, 7, 0, 0, 0], [8, 0, 10, 0, 255, 0, 0, 0]);
    let at = request.windows(8).position(|octets| octets == old).unwrap();
    request[at..at + 8].copy_from_slice(&new);
    let mut driven = Driven::bare(START, 1);
    driven.stack.request(&request).unwrap();
    let send = |driven: &mut Driven, now: u64, flow: u32| {
        let mut packet = driven.packet(flow, &arrival(100));
        packet.hash = 0x100 + flow;
        driven.enqueue(now, packet);
        assert!(driven.dequeue(now).is_some());
    };
    // (forgotten, there, idle); the last one is seen to be idle with the next packet.
    let counts = |driven: &Driven| {
        let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
        let stats = root.lock().qdisc.app_stats().unwrap();
        let word = |at: usize| u32::from_ne_bytes(stats[at..at + 4].try_into().unwrap());
        (word(0), word(64), word(68))
    };
    (0..100).for_each(|flow| send(&mut driven, START, flow));
    assert_eq!(counts(&driven), (0, 100, 99));
    // Slower than the flow's rate.
    let later = |driven: &mut Driven, from: u64, count: u64| {
        (0..count).for_each(|n| send(driven, START + (from + 30 * n) * MS, 200));
    };
    later(&mut driven, 2500, 10);
    assert_eq!(counts(&driven), (0, 101, 100), "not long enough");
    later(&mut driven, 4000, 100);
    let (forgotten, there, idle) = counts(&driven);
    assert!(there < 16 && there + 4 >= 16 && idle + 1 == there && forgotten + there == 101);
    // Those that were forgotten come again, as new ones.
    (0..100).for_each(|flow| send(&mut driven, START + 7100 * MS, flow));
    assert_eq!(counts(&driven).1, 101);
}

/// A packet is late once the device takes it more than the threshold after it was due.
#[test]
fn fq_marks_what_is_late() {
    let command = "tc qdisc add dev d0 root handle 1: fq maxrate 8mbit ce_threshold 4ms";
    for (late, marked) in [(4 * MS, false), (4 * MS + 1, true)] {
        let mut driven = Driven::new(command, START, 1);
        let mut packet = driven.packet(0, &arrival(1000));
        packet.data_mut()[15] = 2;
        driven.enqueue(START, packet);
        let packet = driven.dequeue(START + late).unwrap();
        assert_eq!(packet.data()[15] == 3, marked, "{late}");
    }
}

#[test]
fn fq_lets_packets_leave_when_they_want_to() {
    let horizon = 50 * MS;
    for (command, drops) in [
        (
            "tc qdisc add dev d0 root handle 1: fq horizon 50ms horizon_drop",
            true,
        ),
        (
            "tc qdisc add dev d0 root handle 1: fq horizon 50ms horizon_cap",
            false,
        ),
    ] {
        let mut driven = Driven::new(command, START, 1);
        // Two flows, not in the order of their times; the past is now, the far future out of bounds.
        let wants = [
            (0, START + 30 * MS),
            (0, START + 10 * MS),
            (1, START + 20 * MS + 7),
            (0, START + 10 * MS),
            (1, START - 5),
            (1, START + horizon),
            (0, START + horizon + 1),
        ];
        for (number, (flow, time)) in (0..).zip(wants) {
            let packet = timed(&driven, number, flow + 1, time);
            driven.enqueue(START, packet);
        }
        let mut expected = vec![
            (START, 4),
            (START + 10 * MS, 1),
            (START + 10 * MS, 3),
            (START + 20 * MS + 7, 2),
            (START + 30 * MS, 0),
            (START + horizon, 5),
        ];
        if !drops {
            expected.push((START + horizon, 6));
        }
        let dropped: Vec<u32> = driven.drops.iter().map(|(number, _)| *number).collect();
        assert_eq!(dropped, if drops { vec![6] } else { vec![] });
        assert_eq!(run(&mut driven, START), expected);
        // Drops and caps stand last in the statistics.
        let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
        let stats = root.lock().qdisc.app_stats().unwrap();
        let words: Vec<u64> = stats
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(
            words[words.len() - 2..],
            [u64::from(drops), u64::from(!drops)]
        );
    }
}

const ETF: &str = "tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000";

/// Packets leave in the order of their times, as soon as the clock is past time less delta.
#[test]
fn etf_lets_packets_leave_at_their_times() {
    for command in [
        ETF,
        "tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000 skip_sock_check",
    ] {
        let mut driven = Driven::new(command, START, 1);
        let times: Vec<u64> = (0..200_u64).map(|n| START + n * 7919 % 200 * MS).collect();
        for (number, time) in (0..).zip(&times) {
            let packet = timed(&driven, number, 1, *time);
            driven.enqueue(START, packet);
        }
        let mut order: Vec<usize> = (0..200).collect();
        order.sort_by_key(|&number| times[number]);
        let leaves = |&n: &usize| ((times[n] - 200 * US + 1).max(START), n as u32);
        let expected: Vec<(u64, u32)> = order.iter().map(leaves).collect();
        assert_eq!(run(&mut driven, START), expected);
        assert!(driven.drops.is_empty());
    }
}

#[test]
fn etf_drops_what_is_too_late() {
    let mut driven = Driven::new(ETF, START, 1);
    let plain = driven.packet(0, &arrival(1000));
    driven.enqueue(START, plain);
    for (number, time) in [
        (1, START - 1),
        (2, START),
        (3, START + MS),
        (4, START + 2 * MS),
    ] {
        let packet = timed(&driven, number, 1, time);
        driven.enqueue(START, packet);
    }
    let dropped = |driven: &Driven| driven.drops.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    assert_eq!(dropped(&driven), [0, 1], "no time, and one that has passed");
    assert_eq!(driven.dequeue(START).map(|packet| packet.mark), Some(2));
    // Nobody asks until both times have passed by a ns, or are just there.
    assert!(driven.dequeue(START + MS + 1).is_none());
    assert_eq!(dropped(&driven), [0, 1, 3]);
    let packet = driven.dequeue(START + 2 * MS);
    assert_eq!(packet.map(|packet| packet.mark), Some(4));
    // What wants to leave before the last that left comes too late.
    let packet = timed(&driven, 5, 1, START + 2 * MS - 1);
    driven.enqueue(START + MS, packet);
    assert_eq!(dropped(&driven), [0, 1, 3, 5]);
}

/// The time is a deadline: packets leave at once, the earliest deadline first.
#[test]
fn etf_has_a_deadline_mode() {
    let command =
        "tc qdisc add dev d0 root handle 1: etf clockid CLOCK_TAI delta 200000 deadline_mode";
    let mut driven = Driven::new(command, START, 1);
    for (number, time) in [(0, START + 3 * MS), (1, START + MS), (2, START + 2 * MS)] {
        let packet = timed(&driven, number, 1, time);
        driven.enqueue(START, packet);
    }
    for expected in [1, 2, 0] {
        let packet = driven.dequeue(START + 5).unwrap();
        assert_eq!(
            (packet.mark, packet.departure()),
            (expected, Some(START + 5))
        );
    }
}

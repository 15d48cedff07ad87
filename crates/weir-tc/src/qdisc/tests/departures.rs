// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of fq and etf to the nanosecond: pacing below the low rate, flows distinguished by the
//! orphan mask, late packets, and packets with a departure time.

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

/// Makes a packet with a departure time and a flow hash.
fn timed(driven: &Driven, number: u32, hash: u32, time: u64) -> Packet {
    let mut packet = driven.packet(number, &arrival(1000));
    packet.hash = hash;
    packet.set_departure(Some(time));
    packet
}

/// Dequeues at every wakeup the qdisc asks for. Returns the departure times and packets.
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

/// Up to the low rate, each packet of a flow waits for the transmission time of the packet before
/// it.
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
        // Time that passed since the flow was last due shortens the next wait by at most half.
        let wait = arrival.len as u64 * 1000;
        let late = if free == 0 { 0 } else { leaves - free };
        free = leaves + wait - late.min(wait / 2);
        expected.push(leaves);
    }
    assert_eq!(line.departures(), expected);
}

/// With the mask 3 there are four flows. Packets whose hashes agree under the mask share a flow.
#[test]
fn fq_distinguishes_flows_by_the_mask() {
    let command = "tc qdisc add dev d0 root handle 1: fq maxrate 400kbit orphan_mask 3";
    let mut driven = Driven::new(command, START, 1);
    for number in 0..40 {
        let mut packet = driven.packet(number, &arrival(1000));
        packet.hash = 0x100 + number;
        driven.enqueue(START, packet);
    }
    // 1000 bytes at 400 kbit/s take 20 ms.
    let mut left = run(&mut driven, START);
    left.sort_unstable_by_key(|(_, number)| *number);
    let expected: Vec<_> = (0..40)
        .map(|n| (START + u64::from(n / 4) * 20 * MS, n))
        .collect();
    assert_eq!(left, expected);
}

/// A hundred flows send and become idle. Four seconds later another flow sends. The idle flows are
/// forgotten until there are fewer than two per bucket.
#[test]
fn fq_forgets_flows_after_a_long_idle_time() {
    let all = vectors(include_str!("../../../tests/vectors/kinds.vec"));
    let has = |(command, _): &&(String, _)| command.contains("buckets 8 orphan_mask 7");
    let (_, datagrams) = all.iter().find(has).expect("recorded");
    let mut request = datagrams.last().unwrap().clone();
    // Changes `TCA_FQ_ORPHAN_MASK` from 7 to 255.
    let (old, new) = ([8, 0, 10, 0, 7, 0, 0, 0], [8, 0, 10, 0, 255, 0, 0, 0]);
    let at = request.windows(8).position(|octets| octets == old).unwrap();
    request[at..at + 8].copy_from_slice(&new);
    let mut driven = Driven::without_qdisc(START, 1);
    driven.stack.request(&request).unwrap();
    let send = |driven: &mut Driven, now: u64, flow: u32| {
        let mut packet = driven.packet(flow, &arrival(100));
        packet.hash = 0x100 + flow;
        driven.enqueue(now, packet);
        assert!(driven.dequeue(now).is_some());
    };
    // Returns the numbers of (forgotten, present, idle) flows. The last flow becomes idle only with
    // the next packet.
    let counts = |driven: &Driven| {
        let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
        let stats = root.lock().qdisc.app_stats().unwrap();
        let word = |at: usize| u32::from_ne_bytes(stats[at..at + 4].try_into().unwrap());
        (word(0), word(64), word(68))
    };
    (0..100).for_each(|flow| send(&mut driven, START, flow));
    assert_eq!(counts(&driven), (0, 100, 99));
    // Sends slower than the rate of the flow.
    let later = |driven: &mut Driven, from: u64, count: u64| {
        (0..count).for_each(|n| send(driven, START + (from + 30 * n) * MS, 200));
    };
    later(&mut driven, 2500, 10);
    assert_eq!(counts(&driven), (0, 101, 100), "not long enough");
    later(&mut driven, 4000, 100);
    let (forgotten, present, idle) = counts(&driven);
    assert!(present < 16 && present + 4 >= 16 && idle + 1 == present && forgotten + present == 101);
    // The forgotten flows send again, as new flows.
    (0..100).for_each(|flow| send(&mut driven, START + 7100 * MS, flow));
    assert_eq!(counts(&driven).1, 101);
}

/// A packet is late if the device takes it more than the threshold after it was due.
#[test]
fn fq_marks_late_packets() {
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
fn fq_honours_departure_times() {
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
        // Two flows, not in the order of their times. A past time is treated as now. The last time
        // is beyond the horizon.
        let times = [
            (0, START + 30 * MS),
            (0, START + 10 * MS),
            (1, START + 20 * MS + 7),
            (0, START + 10 * MS),
            (1, START - 5),
            (1, START + horizon),
            (0, START + horizon + 1),
        ];
        for (number, (flow, time)) in (0..).zip(times) {
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
        // The last two statistics are the horizon's drops and caps.
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

/// Packets leave in the order of their times, once the clock is past time less delta.
#[test]
fn etf_honours_departure_times() {
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
fn etf_drops_late_packets() {
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
    assert_eq!(
        dropped(&driven),
        [0, 1],
        "one has no time, the time of the other has passed"
    );
    assert_eq!(driven.dequeue(START).map(|packet| packet.mark), Some(2));
    // The qdisc is not asked until one packet is 1 ns too late; the other one is exactly on time
    // when asked.
    assert!(driven.dequeue(START + MS + 1).is_none());
    assert_eq!(dropped(&driven), [0, 1, 3]);
    let packet = driven.dequeue(START + 2 * MS);
    assert_eq!(packet.map(|packet| packet.mark), Some(4));
    // A packet with a time before that of the last packet that left is too late.
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

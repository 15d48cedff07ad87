// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of smaller kinds in front of an 8 Mbit/s line: pie, fq_pie, choke, skbprio, cbs, hhf, sfb.

use super::driven::Driven;
use super::{Arrival, Line, START, tc};
use std::sync::atomic::Ordering::Relaxed;
use weir_packet::DropReason;

const TBF: &str = "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000";
const MS: u64 = 1_000_000;

/// Returns the packets of a flow that sends 1000 bytes every `gap` ns with a priority.
fn flow(flow: u16, count: u64, gap: u64, priority: u32) -> Vec<Arrival> {
    let arrival = |i| Arrival {
        time: START + i * gap,
        len: 1000,
        flow,
        priority,
    };
    (0..count).map(arrival).collect()
}

/// Runs flows over the line and checks that every packet is accounted for. Returns the line.
fn run(command: &str, flows: &[Vec<Arrival>]) -> Line {
    let mut arrivals = flows.concat();
    arrivals.sort_by_key(|arrival| arrival.time);
    let mut line = Line::new(&[TBF, command]);
    line.run(&arrivals);
    assert_eq!(line.left.len() + line.drops.len(), arrivals.len());
    assert_eq!(line.root().2.drops as usize, line.drops.len());
    line
}

/// Returns the mean wait of a flow's packets in the second half, in ns.
fn late_wait(line: &Line, flow: u16) -> u64 {
    let of_flow = line
        .left
        .iter()
        .filter(|(_, n)| line.arrivals[*n as usize].flow == flow);
    let waits: Vec<u64> = of_flow
        .map(|(time, n)| time - line.arrivals[*n as usize].time)
        .collect();
    let late = &waits[waits.len() / 2..];
    late.iter().sum::<u64>() / late.len() as u64
}

fn dropped(line: &Line, flow: u16) -> usize {
    let of_flow = |n: u32| line.arrivals[n as usize].flow == flow;
    line.drops.iter().filter(|(_, n, _)| of_flow(*n)).count()
}

#[test]
fn pie_brings_the_delay_to_its_target() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: pie",
        &[flow(1, 40_000, 800_000, 0)],
    );
    assert!(
        line.drops
            .iter()
            .all(|(_, _, reason)| *reason == DropReason::QDISC_CONGESTED)
    );
    // The load is a fifth too high. The target is 15 ms.
    let wait = late_wait(&line, 1);
    assert!((10 * MS..20 * MS).contains(&wait), "{wait}");
    let share = line.drops.len() as f64 / 40_000.0;
    assert!((0.18..0.22).contains(&share), "{share}");
}

#[test]
fn fq_pie_does_not_drop_the_sparse_flow() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: fq_pie",
        &[flow(1, 10_000, 700_000, 0), flow(2, 300, 20 * MS, 0)],
    );
    assert_eq!(dropped(&line, 2), 0);
    assert!(dropped(&line, 1) > 1000);
    assert!(late_wait(&line, 2) < 4 * MS);
}

#[test]
fn choke_drops_the_unresponsive_flow() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: choke limit 1000 min 20 max 60 burst 30 avpkt 1000 bandwidth 8mbit",
        &[flow(1, 10_000, 700_000, 0), flow(2, 400, 15 * MS, 0)],
    );
    let (heavy, light) = (dropped(&line, 1), dropped(&line, 2));
    assert!(heavy > 2500 && light * 10 < 400 * 4, "{heavy} {light}");
}

#[test]
fn skbprio_drops_the_lowest_priority() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: skbprio",
        &[flow(1, 2000, MS, 5), flow(2, 2000, MS, 1)],
    );
    assert_eq!(dropped(&line, 1), 0);
    assert!(dropped(&line, 2) > 1900);
}

#[test]
fn cbs_sends_at_its_slope() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: cbs hicredit 3000 locredit -10000 sendslope -8000 idleslope 2000",
    ]);
    line.run(&flow(1, 100, 0, 0));
    // A packet costs 800 bytes of credit while it is on the 10 Mbit/s line for 800 us. They are
    // earned back at 250 bytes per millisecond, so one packet leaves every 4 ms, which is 2 Mbit/s.
    let times = line.departures();
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(
        gaps[1..].iter().all(|gap| gap.abs_diff(4 * MS) <= 4000),
        "{gaps:?}"
    );
}

#[test]
fn hhf_gives_heavy_flows_the_smaller_share() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: hhf admit_bytes 20000",
        &[flow(1, 10_000, 700_000, 0), flow(2, 300, 20 * MS, 0)],
    );
    assert_eq!(dropped(&line, 2), 0);
    assert!(late_wait(&line, 2) < 4 * MS && late_wait(&line, 1) > 100 * MS);
}

#[test]
fn sfb_limits_the_unresponsive_flow() {
    let line = run(
        "tc qdisc add dev d0 parent 1:1 handle 10: sfb",
        &[flow(1, 20_000, 500_000, 0), flow(2, 500, 20 * MS, 0)],
    );
    let (heavy, light) = (dropped(&line, 1), dropped(&line, 2));
    assert!(heavy > 9000 && light < 50, "{heavy} {light}");
}

/// Packets that waited while the filters were swapped are removed from the filter that counted
/// them.
#[test]
fn sfb_stops_counting_packets_that_left() {
    let command = "tc qdisc add dev d0 root handle 1: sfb limit 30";
    let mut driven = Driven::new(command, START, 1);
    let arrival = flow(1, 1, 0, 0)[0];
    let longest = |driven: &Driven| {
        let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
        let app = root.lock().qdisc.app_stats().unwrap();
        u32::from_ne_bytes(app[24..28].try_into().unwrap())
    };
    for number in 0..10 {
        driven.arrive(START, number, &arrival);
    }
    assert_eq!(longest(&driven), 10);
    // The filters are used alternately, for ten minutes each.
    for turn in 1..=2 {
        let now = START + turn * 601_000 * MS;
        driven.arrive(now, 0, &arrival);
        assert_eq!(longest(&driven), 1, "turn {turn}");
        while driven.dequeue(now).is_some() {}
        assert_eq!(longest(&driven), 0, "turn {turn}");
    }
}

/// The transmission time of a packet follows from the speed of the device.
#[test]
fn cbs_uses_the_speed_of_its_device() {
    let command = "tc qdisc add dev d0 root handle 1: cbs hicredit 3000 locredit -10000 sendslope -8000 idleslope 2000";
    for (speed, busy, cost) in [(0, 800_000, 800), (10_000, 800, 0)] {
        let mut driven = Driven::without_qdisc(START, 1);
        driven.stack.devices[&3].speed.store(speed, Relaxed);
        tc(&driven.stack, &[command]);
        let arrival = Arrival {
            len: 1000,
            ..Arrival::default()
        };
        for number in 0..2 {
            driven.arrive(START, number, &arrival);
        }
        assert!(driven.dequeue(START).is_some());
        assert_eq!(driven.wake(START), Some(START + busy));
        // The cost is earned back at 250 bytes per millisecond from the end of the transmission on.
        let free = START + busy;
        match cost {
            0 => assert!(driven.dequeue(free).is_some()),
            cost => assert_eq!(driven.wake(free), Some(free + cost * MS / 250)),
        }
    }
}

/// A packet that was peeked by the parent still waits. When another one arrives, the credit is
/// therefore not lost and the port is not free.
#[test]
fn cbs_is_not_empty_while_its_packet_is_peeked() {
    let command = "tc qdisc add dev d0 root handle 1: cbs hicredit 3000 locredit -10000 sendslope -8000 idleslope 2000";
    let (mut driven, later) = (Driven::new(command, START, 1), START + 1000 * MS);
    let arrival = Arrival {
        len: 1000,
        ..Arrival::default()
    };
    for (number, time) in [(0, START), (1, later), (2, later)] {
        driven.arrive(time, number, &arrival);
        if number == 0 {
            assert!(driven.dequeue(time).is_some());
        } else {
            assert!(driven.at(time, |inner, q| inner.peek(q)).is_some());
        }
    }
    assert!(driven.dequeue(later).is_some_and(|packet| packet.mark == 1));
    // 1000 bytes take 800 us.
    assert_eq!(driven.wake(later), Some(later + 800_000));
}

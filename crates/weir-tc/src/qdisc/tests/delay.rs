// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of netem: delays, rates and losses with fixed seeds.

use super::{Arrival, Line, START, traffic};

pub fn steady(count: u64, gap: u64) -> Vec<Arrival> {
    let arrival = |i| Arrival {
        time: START + i * gap,
        len: 100,
        ..Arrival::default()
    };
    (0..count).map(arrival).collect()
}

pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (mean, (square / values.len() as f64).sqrt())
}

/// Returns the delay of each packet, in milliseconds.
pub fn delays(line: &Line) -> Vec<f64> {
    let left = line.departures();
    let pairs = left.iter().zip(&line.arrivals);
    pairs
        .map(|(left, arrival)| (left - arrival.time) as f64 / 1e6)
        .collect()
}

#[test]
fn a_rate_is_exact_to_the_nanosecond() {
    for (command, latency, cells) in [
        (
            "tc qdisc add dev d0 root handle 1: netem rate 8mbit",
            0,
            false,
        ),
        (
            "tc qdisc add dev d0 root handle 1: netem delay 10ms rate 8mbit 20 48 5",
            10_000_000,
            true,
        ),
    ] {
        let arrivals = traffic(3, 900, 4_000_000);
        let mut line = Line::new(&[command]);
        line.run(&arrivals);
        assert!(line.drops.is_empty());
        let mut line_free = 0;
        let leave = |arrival: &Arrival| {
            let len = arrival.len as u64;
            let len = if cells {
                (len + 20).div_ceil(48) * 53
            } else {
                len
            };
            line_free = line_free.max(arrival.time + latency) + len * 1000;
            line_free
        };
        assert_eq!(
            line.departures(),
            arrivals.iter().map(leave).collect::<Vec<_>>()
        );
    }
}

#[test]
pub fn delays_have_their_distribution() {
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: netem delay 10ms 3ms"]);
    line.run(&steady(20_000, 100_000));
    let uniform = delays(&line);
    let (mean, deviation) = mean_and_deviation(&uniform);
    assert!((mean - 10.0).abs() < 0.05, "{mean}");
    assert!((deviation - 3.0 / 3_f64.sqrt()).abs() < 0.05, "{deviation}");
    assert!(uniform.iter().all(|d| (7.0..13.0).contains(d)));

    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: netem delay 10ms 1ms distribution normal"]);
    line.run(&steady(20_000, 100_000));
    let (mean, deviation) = mean_and_deviation(&delays(&line));
    assert!((mean - 10.0).abs() < 0.05, "{mean}");
    assert!((deviation - 1.0).abs() < 0.05, "{deviation}");
    let within = delays(&line)
        .iter()
        .filter(|d| (**d - 10.0).abs() < 1.0)
        .count();
    assert!((13_300..14_000).contains(&within), "68%: {within}");
}

pub fn lost(command: &str, seed: u64) -> Vec<bool> {
    let mut line = Line::new(&[command]).seed(seed);
    line.run(&steady(50_000, 1000));
    let mut lost = vec![false; 50_000];
    for (_, number, _) in &line.drops {
        lost[*number as usize] = true;
    }
    assert_eq!(line.root().2.drops as usize, line.drops.len());
    lost
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// Returns the share of lost packets among those that follow a lost one.
fn lost_after_a_loss(lost: &[bool]) -> f64 {
    let after: Vec<bool> = lost.windows(2).filter(|w| w[0]).map(|w| w[1]).collect();
    share(&after)
}

#[test]
fn losses_follow_their_model() {
    let random = lost(
        "tc qdisc add dev d0 root handle 1: netem loss random 10%",
        1,
    );
    assert!((share(&random) - 0.1).abs() < 0.005, "{}", share(&random));
    assert!(
        (lost_after_a_loss(&random) - 0.1).abs() < 0.015,
        "{}",
        lost_after_a_loss(&random)
    );
    // The model has two states and loses everything in the bad one. The loss is p / (p + r), and a
    // run continues with probability 1 - r. Linux leaves a state before it decides, so the packet
    // during the transition is lost as well.
    let bursts = lost(
        "tc qdisc add dev d0 root handle 1: netem loss gemodel 5% 20%",
        1,
    );
    assert!((share(&bursts) - 0.2).abs() < 0.01, "{}", share(&bursts));
    assert!(
        (lost_after_a_loss(&bursts) - 0.8).abs() < 0.02,
        "{}",
        lost_after_a_loss(&bursts)
    );
    let states = lost(
        "tc qdisc add dev d0 root handle 1: netem loss state 5% 20%",
        1,
    );
    assert!((share(&states) - 0.2).abs() < 0.01, "{}", share(&states));
    assert!(
        (lost_after_a_loss(&states) - 0.8).abs() < 0.02,
        "{}",
        lost_after_a_loss(&states)
    );
}

#[test]
fn the_same_seed_loses_the_same_packets() {
    let command = "tc qdisc add dev d0 root handle 1: netem loss random 10%";
    assert_eq!(lost(command, 5), lost(command, 5));
    assert_ne!(lost(command, 5), lost(command, 6));
}

#[test]
fn packets_are_duplicated_and_corrupted() {
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: netem duplicate 10%"]);
    line.run(&steady(20_000, 1000));
    let more = line.left.len() - 20_000;
    assert!((1850..2150).contains(&more), "{more}");

    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: netem corrupt 10%"]).keep();
    line.run(&steady(5_000, 1000));
    let wrong = |packet: &weir_packet::Packet, clean: &[u8]| {
        let pairs = packet.data().iter().zip(clean);
        pairs.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
    };
    let clean = line.packet(0, &line.arrivals[0]);
    let bits: Vec<u32> = line
        .packets
        .iter()
        .map(|p| wrong(p, clean.data()))
        .collect();
    let corrupt = bits.iter().filter(|bits| **bits == 1).count();
    assert!(
        bits.iter().all(|bits| *bits <= 1) && (430..570).contains(&corrupt),
        "{corrupt}"
    );
}

#[test]
fn some_packets_are_reordered() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: netem delay 10ms reorder 25% gap 5"]);
    line.run(&steady(20_000, 100_000));
    let delays = delays(&line);
    let early = delays.iter().filter(|d| **d == 0.0).count();
    assert!(delays.iter().all(|d| *d == 0.0 || *d == 10.0));
    // After four packets in order, each packet has a chance of one in four: one in 4 + 4.
    assert!((2350..2650).contains(&early), "{early}");
    assert_eq!(line.root().2.requeues as usize, early);
}

#[test]
fn slots_let_packets_leave_in_rounds() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: netem slot 10ms 10ms packets 3"]);
    line.run(&steady(30, 10));
    let mut rounds: Vec<(u64, usize)> = Vec::new();
    for (time, _) in &line.left {
        match rounds.last_mut() {
            Some((at, count)) if at == time => *count += 1,
            _ => rounds.push((*time, 1)),
        }
    }
    assert!(rounds.iter().all(|(_, count)| *count <= 3), "{rounds:?}");
    let gaps = rounds.windows(2).map(|w| w[1].0 - w[0].0);
    assert!(gaps.skip(3).all(|gap| gap == 10_000_000), "{rounds:?}");
}

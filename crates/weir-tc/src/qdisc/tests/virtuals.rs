// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of gred, which has several virtual queues in one, in front of an 8 Mbit/s line. The index
//! of a packet is its flow.

use super::{Arrival, Line, START};
use weir_packet::DropReason;

const TBF: &str = "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000";
const SETUP: &str =
    "tc qdisc add dev d0 parent 1:1 handle 10: gred setup vqs 4 default 0 limit 1000000";
const GRIO: &str =
    "tc qdisc add dev d0 parent 1:1 handle 10: gred setup vqs 4 default 0 grio limit 1000000";
const TIGHT: &str = "tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 1 min 20000 max 60000 avpkt 1000 burst 75 bandwidth 8mbit probability 0.3 prio 2";
const WIDE: &str = "tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 2 min 200000 max 390000 avpkt 1000 burst 270 bandwidth 8mbit probability 0.3 prio 1";
const WIDE_2: &str = "tc qdisc change dev d0 parent 1:1 handle 10: gred limit 400000 DP 2 min 200000 max 390000 avpkt 1000 burst 270 bandwidth 8mbit probability 0.3 prio 2";
const SMALL: &str = "tc qdisc change dev d0 parent 1:1 handle 10: gred limit 5000 DP 1 min 20000 max 60000 avpkt 1000 burst 30 bandwidth 8mbit probability 0.3";

// The bursts give both queues the same weight, 1/128, because Linux adds and shares averages in
// scaled form.

/// Returns packets of 1000 bytes, one per index every `gap` ns.
fn flows(indices: &[u16], count: u64, gap: u64) -> Vec<Arrival> {
    let arrival = |i: u64| {
        indices.iter().map(move |&flow| Arrival {
            time: START + i * gap,
            len: 1000,
            flow,
            priority: 0,
        })
    };
    (0..count).flat_map(arrival).collect()
}

/// Returns the number of drops per index.
fn drops(line: &Line) -> [usize; 4] {
    let mut drops = [0; 4];
    for (_, number, reason) in &line.drops {
        assert_eq!(*reason, DropReason::QDISC_CONGESTED);
        drops[usize::from(line.arrivals[*number as usize].flow)] += 1;
    }
    drops
}

/// Returns the mean wait of the packets of the second half, in ms.
fn wait(line: &Line) -> f64 {
    let late = &line.left[line.left.len() / 2..];
    let waits = late
        .iter()
        .map(|(time, n)| time - line.arrivals[*n as usize].time);
    waits.sum::<u64>() as f64 / late.len() as f64 / 1e6
}

/// The load is a ninth too high, half of it per index. Only one index is dropped early, so it loses
/// a fifth of its packets. With the counter that spaces drops evenly, that is 2p / (1 + p) for a
/// probability p of a ninth, which is reached at 37 percent of the way from 20000 to 60000 bytes.
/// This queue has a share of 0.444 of the backlog; the rest belongs to the other one.
#[test]
fn gred_drops_by_the_average_of_the_virtual_queue() {
    let mut line = Line::new(&[TBF, SETUP, TIGHT, WIDE]);
    let arrivals = flows(&[1, 2], 15_000, 1_800_000);
    line.run(&arrivals);
    let [_, tight, wide, _] = drops(&line);
    assert_eq!(wide, 0);
    let share = tight as f64 / 15_000.0;
    assert!((0.18..0.22).contains(&share), "{share}");
    let wait = wait(&line);
    assert!((65.0..92.0).contains(&wait), "34.8 ms / 0.444: {wait}");
}

/// The worse queue also counts the bytes of the better one. Only the worse queue drops, and it
/// keeps the total backlog where its own average would be.
#[test]
fn gred_adds_the_averages_of_better_queues() {
    let mut line = Line::new(&[TBF, GRIO, WIDE, TIGHT]);
    line.run(&flows(&[1, 2], 15_000, 1_800_000));
    let [_, worse, better, _] = drops(&line);
    assert_eq!(better, 0);
    let share = worse as f64 / 15_000.0;
    assert!((0.18..0.22).contains(&share), "{share}");
    let wait = wait(&line);
    assert!((29.0..42.0).contains(&wait), "34.8 ms: {wait}");
}

/// Queues of the same priority share an average of the total backlog. Each has its own thresholds.
#[test]
fn gred_shares_an_average_among_queues_of_a_priority() {
    let mut line = Line::new(&[TBF, GRIO, TIGHT, WIDE_2]);
    line.run(&flows(&[1, 2], 15_000, 1_800_000));
    let [_, tight, wide, _] = drops(&line);
    assert_eq!(wide, 0, "below its minimum");
    let share = tight as f64 / 15_000.0;
    assert!((0.18..0.22).contains(&share), "{share}");
    let wait = wait(&line);
    assert!((29.0..42.0).contains(&wait), "34.8 ms: {wait}");
}

/// A packet goes to the default queue if its own does not exist. If the default does not exist
/// either, it passes within the limit of the qdisc. A full queue drops.
#[test]
fn gred_passes_unassigned_packets_within_its_limits() {
    let mut line = Line::new(&[TBF, SETUP, SMALL]);
    line.run(&flows(&[0, 1, 7], 12, 0));
    let flow_of = |n: u32| line.arrivals[n as usize].flow;
    assert!(
        line.drops
            .iter()
            .all(|(_, n, reason)| flow_of(*n) == 1 && *reason == DropReason::QDISC_OVERLIMIT)
    );
    // One of the first three packets leaves at once and is no longer counted. Five of the others
    // stay.
    let left = line.left.iter().filter(|(_, n)| flow_of(*n) == 1).count();
    assert!((5..=6).contains(&left), "{left}");
    assert_eq!(line.left.len(), 24 + left);
}

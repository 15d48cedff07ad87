// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of size tables and rate estimators.

use weir_netlink::errno;

use super::{Arrival, Line, START, tc};
use crate::testing::{Stack, vectors};

const STAB: &str =
    "tc qdisc add dev d0 root handle 1: stab overhead 24 tbf rate 8mbit burst 2kb limit 1mb";

/// Returns `count` packets of `len` bytes that arrive at once.
fn burst(count: usize, len: usize, time: u64) -> Vec<Arrival> {
    let arrival = Arrival {
        time,
        len,
        ..Arrival::default()
    };
    vec![arrival; count]
}

fn counted(line: &Line) -> (u64, u64) {
    let (bytes, packets, _) = line.root();
    (bytes, packets)
}

/// At 8 Mbit/s a byte takes a microsecond, so the departures show the size of a packet by the
/// table.
#[test]
fn packets_have_the_size_given_by_the_table() {
    let mut line = Line::new(&[STAB]);
    line.run(&burst(5, 976, START));
    let departures = line.departures();
    // Two packets fit the burst of 2,048. Then one leaves per millisecond.
    assert_eq!(departures[4] - departures[3], 1_000_000);
    assert_eq!(counted(&line), (5_000, 5));
    // A change that names no table removes it.
    tc(
        &line.stack,
        &["tc qdisc change dev d0 root handle 1: tbf rate 8mbit burst 2kb limit 1mb"],
    );
    line.run(&burst(5, 976, START + 1_000_000_000));
    let departures = line.departures();
    assert_eq!(departures[9] - departures[8], 976_000);
    assert_eq!(counted(&line), (9_880, 10));
    // With ATM cells, 100 and 10 bytes take three cells of 48 bytes, which are 53 bytes on the
    // wire.
    tc(
        &line.stack,
        &[
            "tc qdisc change dev d0 root handle 1: stab overhead 10 linklayer atm mtu 2048 tbf rate 8mbit burst 2kb limit 1mb",
        ],
    );
    line.run(&burst(1, 100, START + 2_000_000_000));
    assert_eq!(counted(&line), (9_880 + 159, 11));
    assert!(line.packets.iter().all(|packet| packet.cb == 0));
}

fn refused(stack: &Stack, command: &str) -> weir_netlink::Error {
    let all = vectors(include_str!("../../../tests/vectors/stab.vec"));
    let (_, datagrams) = all.iter().find(|(found, _)| found == command).unwrap();
    stack.request(&datagrams[0]).unwrap_err()
}

#[test]
fn only_a_root_takes_a_table() {
    let stack = Stack::default();
    tc(&stack, &["tc qdisc add dev d0 root handle 1: prio"]);
    let error = refused(
        &stack,
        "tc qdisc add dev d0 parent 1:1 stab overhead 24 pfifo",
    );
    assert_eq!(error.errno, errno::EINVAL);
    assert_eq!(
        error.message.as_deref(),
        Some("STAB not supported on a non root")
    );
    let error = refused(&stack, "tc qdisc add dev d0 estimator 1s 8s clsact");
    assert_eq!(error.errno, errno::EOPNOTSUPP);
}

/// A steady 1,000 bytes every 10 ms are 100,000 bytes and 100 packets per second.
#[test]
fn an_estimator_finds_the_rate() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: estimator 250ms 1s pfifo limit 100"]);
    let rate = |line: &Line, now| {
        let root = line.stack.devices[&3].tc.tree().root.clone().unwrap();
        root.lock().rate(now).unwrap()
    };
    assert_eq!(rate(&line, START), (0, 0));
    let arrivals: Vec<Arrival> = (0..3_000)
        .map(|n| Arrival {
            time: START + n * 10_000_000,
            len: 1000,
            ..Arrival::default()
        })
        .collect();
    line.run(&arrivals);
    let now = START + 30_000_000_000;
    let (bps, pps) = rate(&line, now);
    assert!((99_000..=100_000).contains(&bps), "{bps}");
    assert!((98..=100).contains(&pps), "{pps}");
    // The rate falls to zero without packets.
    assert_eq!(rate(&line, now + 60_000_000_000), (0, 0));
}

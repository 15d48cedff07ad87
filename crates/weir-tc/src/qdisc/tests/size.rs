// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Size tables and rate estimators.

use weir_netlink::errno;

use super::{Arrival, Line, START, tc};
use crate::testing::{Stack, vectors};

const STAB: &str =
    "tc qdisc add dev d0 root handle 1: stab overhead 24 tbf rate 8mbit burst 2kb limit 1mb";

/// `count` packets of `len` octets at once.
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

/// 8 Mbit/s are an octet a microsecond: what a packet counts for shows in when it leaves.
#[test]
fn packets_count_for_what_the_table_says() {
    let mut line = Line::new(&[STAB]);
    line.run(&burst(5, 976, START));
    let departures = line.departures();
    // Two fit the burst of 2,048; then one a millisecond.
    assert_eq!(departures[4] - departures[3], 1_000_000);
    assert_eq!(counted(&line), (5_000, 5));
    // The table goes with the next change that does not name one.
    tc(
        &line.stack,
        &["tc qdisc change dev d0 root handle 1: tbf rate 8mbit burst 2kb limit 1mb"],
    );
    line.run(&burst(5, 976, START + 1_000_000_000));
    let departures = line.departures();
    assert_eq!(departures[9] - departures[8], 976_000);
    assert_eq!(counted(&line), (9_880, 10));
    // ATM cells: 100 and 10 octets are three cells of 48, 53 on the wire.
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

/// A steady 1,000 octets every 10 ms are 100,000 octets and 100 packets a second.
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
    // It comes down in silence.
    assert_eq!(rate(&line, now + 60_000_000_000), (0, 0));
}

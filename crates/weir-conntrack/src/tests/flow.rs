// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flow table of the action.

use super::*;
use crate::settings::Setting;
use crate::status::ips;
use weir_packet::ConnInfo::*;

const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;
const PORTS: (u16, u16) = (4000, 80);

fn bench() -> Bench {
    let bench = Bench::new();
    bench.settings.flow_tables.hold(0);
    bench
}

/// A segment from the client, or from the server.
fn segment(client: bool, flags: u16, seq: u32, ack: u32) -> Vec<u8> {
    let seg = Seg {
        flags,
        seq,
        ack,
        window: 500,
        options: &[],
        len: 0,
    };
    match client {
        true => tcp(CLIENT, SERVER, PORTS, seg),
        false => tcp(SERVER, CLIENT, (PORTS.1, PORTS.0), seg),
    }
}

fn established() -> Bench {
    let mut bench = bench();
    for bytes in [
        segment(true, SYN, 1000, 0),
        segment(false, SYN | ACK, 5000, 1001),
        segment(true, ACK, 1001, 5001),
    ] {
        bench.info(&bytes, &COMMIT);
    }
    bench
}

fn tcp_tuple() -> Tuple {
    Tuple::v4(CLIENT, SERVER, PORTS.0, PORTS.1, TCP)
}

fn udp_tuple() -> Tuple {
    Tuple::v4(CLIENT, SERVER, 4000, 53, UDP)
}

fn is_flow(bench: &Bench, tuple: &Tuple) -> bool {
    let (snapshot, _) = bench.get(tuple).unwrap();
    snapshot.status & ips::OFFLOAD != 0
}

fn left(bench: &Bench, tuple: &Tuple) -> u32 {
    bench.get(tuple).unwrap().0.timeout
}

#[test]
fn a_flow_is_not_checked() {
    let mut bench = established();
    assert!(is_flow(&bench, &tcp_tuple()));
    let far = segment(true, ACK, 9_000_000, 5001);
    assert_eq!(bench.info(&far, &COMMIT), Established);
    let mut wrong = segment(false, ACK, 5001, 1001);
    wrong[36] ^= 1;
    assert_eq!(bench.info(&wrong, &COMMIT), EstablishedReply);
    // What the flow table leaves to the state machine is.
    let mut last_hop = wrong.clone();
    last_hop[8] = 1;
    assert_eq!(bench.info(&last_hop, &COMMIT), Invalid);
    assert!(is_flow(&bench, &tcp_tuple()));
}

#[test]
fn a_flow_ends_by_silence_and_the_connection_stays() {
    let mut bench = established();
    bench.now += 29 * SECOND;
    bench.info(&segment(true, ACK, 1001, 5001), &COMMIT);
    bench.now += 29 * SECOND;
    assert!(is_flow(&bench, &tcp_tuple()));
    bench.now += 2 * SECOND;
    assert!(!is_flow(&bench, &tcp_tuple()));
    // The time-out counts from the handshake, as Linux's does, and is at most the established one less the flow's.
    assert_eq!(left(&bench, &tcp_tuple()), 432_000 - 60);
    // The next segment puts it back.
    bench.info(&segment(true, ACK, 1001, 5001), &COMMIT);
    assert!(is_flow(&bench, &tcp_tuple()));
    // A collection ends flows as look-ups do, and removes no connection.
    bench.now += 40 * SECOND;
    assert_eq!(bench.table.collect(bench.now, 1 << 20).removed, 0);
    assert!(!is_flow(&bench, &tcp_tuple()));
}

#[test]
fn a_short_time_out_is_a_day_in_the_flow_table() {
    let mut bench = bench();
    bench.settings.set(Setting::tcp_timeout_established, 600);
    for bytes in [
        segment(true, SYN, 1000, 0),
        segment(false, SYN | ACK, 5000, 1001),
        segment(true, ACK, 1001, 5001),
    ] {
        bench.info(&bytes, &COMMIT);
    }
    for _ in 0..100 {
        bench.now += 20 * SECOND;
        bench.info(&segment(true, ACK, 1001, 5001), &COMMIT);
    }
    assert!(is_flow(&bench, &tcp_tuple()));
    bench.now += 31 * SECOND;
    assert_eq!(left(&bench, &tcp_tuple()), 600 - 31);
}

#[test]
fn a_reset_ends_the_flow_and_then_the_connection() {
    let mut bench = established();
    assert_eq!(
        bench.info(&segment(true, RST, 1001, 0), &COMMIT),
        Established
    );
    assert!(!is_flow(&bench, &tcp_tuple()));
    assert_eq!(left(&bench, &tcp_tuple()), 10);
}

#[test]
fn datagrams_enter_at_once_and_are_tracked_until_assured() {
    let mut bench = bench();
    let there = udp(CLIENT, SERVER, (4000, 53), b"q");
    let back = udp(SERVER, CLIENT, (53, 4000), b"a");
    assert_eq!(bench.info(&there, &COMMIT), New);
    assert!(is_flow(&bench, &udp_tuple()));
    assert_eq!(bench.info(&back, &COMMIT), EstablishedReply);
    bench.now += 3 * SECOND;
    assert_eq!(bench.info(&there, &COMMIT), Established);
    let (snapshot, _) = bench.get(&udp_tuple()).unwrap();
    assert_eq!(
        snapshot.status & (ips::ASSURED | ips::OFFLOAD),
        ips::ASSURED | ips::OFFLOAD
    );
    bench.now += 31 * SECOND;
    assert_eq!(left(&bench, &udp_tuple()), 120 - 31);
    bench.now += 90 * SECOND;
    assert!(bench.get(&udp_tuple()).is_none());
}

#[test]
fn flows_go_with_the_last_action_of_their_zone() {
    let bench = established();
    bench.settings.flow_tables.hold(0);
    bench.settings.flow_tables.release(0);
    assert!(is_flow(&bench, &tcp_tuple()));
    bench.settings.flow_tables.release(0);
    assert!(!is_flow(&bench, &tcp_tuple()));
}

#[test]
fn a_table_of_unanswered_flows_has_room_for_new_ones() {
    let mut bench = bench();
    bench.settings.set(Setting::max, 64);
    for port in 1..1000u16 {
        let bytes = udp(CLIENT, SERVER, (port, 53), b"q");
        assert_eq!(bench.info(&bytes, &COMMIT), New, "port {port}");
    }
    assert!(bench.table.count() <= 64);
}

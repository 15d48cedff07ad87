// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table against a simple oracle, full tables, bad packets, threads.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use proptest::prelude::*;

use crate::action::Why;
use crate::connection::{Change, Create, CreateError, Event, Handle, Listener, Origin};
use crate::settings::Setting;
use crate::status::{ipct, ips};
use crate::tuple::{ICMP, ICMPV6, Zone};

/// What a table does.
#[derive(Clone, Debug)]
enum Operation {
    Create {
        key: u8,
        v6: bool,
        zone: u16,
        timeout: u8,
    },
    Delete {
        key: u8,
        v6: bool,
        zone: u16,
    },
    Find {
        key: u8,
        v6: bool,
        zone: u16,
        reply: bool,
    },
    Mark {
        key: u8,
        v6: bool,
        zone: u16,
        mark: u32,
        mask: u32,
    },
    Wait {
        seconds: u8,
    },
    Collect {
        most: u8,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = (0u8..24, any::<bool>(), 0u16..3);
    prop_oneof![
        4 => (key.clone(), 1u8..60).prop_map(|((key, v6, zone), timeout)| {
            Operation::Create { key, v6, zone, timeout }
        }),
        2 => key.clone().prop_map(|(key, v6, zone)| Operation::Delete { key, v6, zone }),
        4 => (key.clone(), any::<bool>()).prop_map(|((key, v6, zone), reply)| {
            Operation::Find { key, v6, zone, reply }
        }),
        1 => (key, any::<u32>(), any::<u32>()).prop_map(|((key, v6, zone), mark, mask)| {
            Operation::Mark { key, v6, zone, mark, mask }
        }),
        2 => (0u8..20).prop_map(|seconds| Operation::Wait { seconds }),
        1 => any::<u8>().prop_map(|most| Operation::Collect { most }),
    ]
}

/// Every fourth key is a ping.
fn tuple(key: u8, v6: bool) -> Tuple {
    let ping = key % 4 == 1;
    let (ports, protocol) = match (ping, v6) {
        (true, false) => ((1, 8 << 8), ICMP),
        (true, true) => ((1, 128 << 8), ICMPV6),
        _ => ((1, 2), UDP),
    };
    if v6 {
        // Only the last byte of the addresses differs.
        let address = |last| {
            let mut octets = [0x20; 16];
            octets[15] = last;
            octets
        };
        Tuple::v6(address(key), address(200), ports.0, ports.1, protocol)
    } else {
        Tuple::v4([10, 0, 0, key], [10, 0, 0, 200], ports.0, ports.1, protocol)
    }
}

/// The tuple of replies. Every third key is translated.
fn reply_to(key: u8, v6: bool) -> Tuple {
    let mut reply = tuple(key, v6).invert().unwrap();
    if key.is_multiple_of(3) {
        reply.dst[2] = 77;
    }
    reply
}

/// A connection of the oracle: its end in seconds, and its mark.
type Oracle = BTreeMap<(u8, bool, u16), (u64, u32)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_table_behaves_as_a_list(operations in prop::collection::vec(operation(), 1..200)) {
        let bench = Bench::new();
        let table = &bench.table;
        let mut now = 5_000u64;
        let mut oracle = Oracle::new();
        for operation in operations {
            let ns = now * SECOND;
            let live = |oracle: &Oracle, at: &(u8, bool, u16)| {
                oracle.get(at).is_some_and(|(end, _)| *end > now)
            };
            let find = |key, v6, zone, reply: bool| {
                let tuple = tuple(key, v6);
                let tuple = if reply { reply_to(key, v6) } else { tuple };
                table.find(&tuple, zone, ns)
            };
            match operation {
                Operation::Create { key, v6, zone, timeout } => {
                    let original = tuple(key, v6);
                    let made = table.create(&Create {
                        original,
                        reply: reply_to(key, v6),
                        zone: Zone::new(zone),
                        timeout: timeout.into(),
                        status: 0,
                        mark: key.into(),
                        labels: v6.then_some([key; 16]),
                        tcp: None,
                        sctp: None,
                        dccp: None,
                        nat: None,
                    }, ns, Origin::Packet);
                    let at = (key, v6, zone);
                    prop_assert_eq!(made.is_err(), live(&oracle, &at), "{:?}", at);
                    if made.is_ok() {
                        oracle.insert(at, (now + u64::from(timeout), key.into()));
                    }
                }
                Operation::Delete { key, v6, zone } => {
                    let found = find(key, v6, zone, false);
                    let deleted = found.is_some_and(|(handle, _)| {
                        table.delete(handle, ns, Origin::Packet)
                    });
                    prop_assert_eq!(deleted, live(&oracle, &(key, v6, zone)));
                    oracle.remove(&(key, v6, zone));
                }
                Operation::Find { key, v6, zone, reply } => {
                    let found = find(key, v6, zone, reply);
                    prop_assert_eq!(found.is_some(), live(&oracle, &(key, v6, zone)));
                    if let Some((handle, direction)) = found {
                        prop_assert_eq!(direction == Direction::Reply, reply);
                        let copy = table.snapshot(handle, ns).unwrap();
                        prop_assert_eq!(copy.original, tuple(key, v6));
                        prop_assert_eq!(copy.reply, reply_to(key, v6));
                        prop_assert_eq!(copy.labels, v6.then_some([key; 16]));
                        let (end, mark) = oracle[&(key, v6, zone)];
                        prop_assert_eq!((copy.mark, copy.zone.id), (mark, zone));
                        prop_assert_eq!(u64::from(copy.timeout), end - now);
                    }
                }
                Operation::Mark { key, v6, zone, mark, mask } => {
                    if let Some((handle, _)) = find(key, v6, zone, false) {
                        let change = Change { mark: Some((mark, mask)), ..Change::default() };
                        prop_assert!(table.change(handle, &change, ns, Origin::Packet));
                        let old = &mut oracle.get_mut(&(key, v6, zone)).unwrap().1;
                        *old = *old & !mask | mark & mask;
                    }
                }
                Operation::Wait { seconds } => now += u64::from(seconds),
                Operation::Collect { most } => {
                    table.collect(ns, most.into());
                }
            }
            let mut listed = Vec::new();
            let mut from = 0;
            while let Some(copy) = table.next(from, now * SECOND) {
                from = copy.handle.index + 1;
                let v6 = copy.original.family == Family::V6;
                let key = copy.original.src[if v6 { 15 } else { 3 }];
                listed.push((key, v6, copy.zone.id));
            }
            listed.sort_unstable();
            let expected: Vec<_> = oracle
                .iter()
                .filter(|(_, (end, _))| *end > now)
                .map(|(at, _)| *at)
                .collect();
            prop_assert_eq!(listed, expected);
        }
        // In the end everything expires.
        while table.count() > 0 {
            table.collect((now + 100) * SECOND, 1);
        }
    }
}

#[test]
fn a_connection_is_found_in_the_zone_of_each_direction() {
    let bench = Bench::new();
    for directions in 0..4 {
        let original = tuple(directions, directions & 1 != 0);
        let zone = Zone { id: 9, directions };
        let create = Create {
            original,
            reply: reply_to(directions, directions & 1 != 0),
            zone,
            timeout: 100,
            status: 0,
            mark: 0,
            labels: None,
            tcp: None,
            sctp: None,
            dccp: None,
            nat: None,
        };
        let made = bench.table.create(&create, bench.now, Origin::Packet);
        let handle = made.unwrap();
        assert_eq!(bench.table.snapshot(handle, bench.now).unwrap().zone, zone);
        for (tuple, direction) in [
            (create.original, Direction::Original),
            (create.reply, Direction::Reply),
        ] {
            let there = if directions & (1 << direction as u8) != 0 {
                9
            } else {
                0
            };
            let found = bench.table.find(&tuple, there, bench.now);
            assert_eq!(found, Some((handle, direction)));
            assert_eq!(bench.table.find(&tuple, 9 - there, bench.now), None);
        }
        assert!(bench.table.delete(handle, bench.now, Origin::Packet));
        assert_eq!(bench.table.find(&create.reply, 9, bench.now), None);
        assert_eq!(bench.table.find(&create.original, 0, bench.now), None);
    }
}

fn flow(number: u32) -> (Vec<u8>, Vec<u8>, Tuple) {
    let [_, b, c, d] = number.to_be_bytes();
    let src = [10, b, c, d];
    let out = udp(src, SERVER, (1000, 53), b"?");
    let back = udp(SERVER, src, (53, 1000), b"!");
    (out, back, Tuple::v4(src, SERVER, 1000, 53, UDP))
}

#[test]
fn udp_streams_are_assured_after_two_seconds() {
    let mut bench = Bench::new();
    let (out, back, tuple) = flow(1);
    assert_eq!(bench.info(&out, &COMMIT), ConnInfo::New);
    assert_eq!(bench.get(&tuple).unwrap().0.timeout, 30);
    assert_eq!(bench.info(&back, &COMMIT), ConnInfo::EstablishedReply);
    let (copy, _) = bench.get(&tuple).unwrap();
    assert_eq!(
        (copy.timeout, copy.status),
        (30, ips::CONFIRMED | ips::SEEN_REPLY)
    );
    bench.now += 3 * SECOND;
    assert_eq!(bench.info(&out, &COMMIT), ConnInfo::Established);
    let (copy, _) = bench.get(&tuple).unwrap();
    assert_eq!(copy.timeout, 120);
    assert_ne!(copy.status & ips::ASSURED, 0);
    bench.now += 121 * SECOND;
    assert_eq!(
        bench.info(&back, &COMMIT),
        ConnInfo::New,
        "a connection of its own"
    );
}

#[test]
fn tracking_alone_makes_no_entry() {
    let mut bench = Bench::new();
    let track = Action {
        commit: false,
        ..COMMIT
    };
    let (out, back, _) = flow(1);
    assert_eq!(bench.info(&out, &track), ConnInfo::New);
    assert_eq!(bench.info(&back, &track), ConnInfo::New);
    assert_eq!(bench.table.count(), 0);
    bench.info(&out, &COMMIT);
    assert_eq!(bench.info(&back, &track), ConnInfo::EstablishedReply);
    // Another zone is another network.
    let zone = Action { zone: 9, ..track };
    assert_eq!(bench.info(&back, &zone), ConnInfo::New);
}

#[test]
fn force_turns_the_direction() {
    let mut bench = Bench::new();
    let (out, back, tuple) = flow(1);
    bench.info(&out, &COMMIT);
    let mut packet = bench.packet(&back);
    bench.act(
        &mut packet,
        &Action {
            commit: false,
            ..COMMIT
        },
    );
    assert_eq!(packet.conn().unwrap().info, ConnInfo::EstablishedReply);
    let force = Action {
        force: true,
        ..COMMIT
    };
    bench.act(&mut packet, &force);
    assert_eq!(packet.conn().unwrap().info, ConnInfo::New);
    let (copy, direction) = bench.get(&tuple).unwrap();
    assert_eq!(direction, Direction::Reply);
    assert_eq!(copy.reply, tuple);
    assert_eq!(bench.table.count(), 1);
}

#[test]
fn marks_and_labels_are_set_under_their_masks() {
    let mut bench = Bench::new();
    let (out, _, tuple) = flow(1);
    let mark = Action {
        mark: (0x42, 0xff),
        ..COMMIT
    };
    bench.info(&out, &mark);
    assert_eq!(bench.get(&tuple).unwrap().0.mark, 0x42);
    let mut labels = ([0; 16], [0; 16]);
    (labels.0[3], labels.1[3]) = (0x11, 0xff);
    bench.info(
        &out,
        &Action {
            mark: (0x100, 0xf00),
            labels,
            ..COMMIT
        },
    );
    let (copy, _) = bench.get(&tuple).unwrap();
    assert_eq!((copy.mark, copy.labels), (0x142, Some(labels.0)));
}

#[test]
fn icmp_errors_are_related_to_their_connection() {
    let mut bench = Bench::new();
    let (out, _, _) = flow(1);
    let src = [10, 0, 0, 1];
    let error = |to: [u8; 4], inside: &[u8]| {
        let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&inside[..28.min(inside.len())]);
        let check = weir_packet::checksum::checksum(&message);
        message[2..4].copy_from_slice(&check.to_be_bytes());
        packet_v4([10, 9, 9, 9], to, ICMP, &message)
    };
    assert_eq!(bench.info(&error(src, &out), &COMMIT), ConnInfo::Invalid);
    bench.info(&out, &COMMIT);
    assert_eq!(
        bench.info(&error(src, &out), &COMMIT),
        ConnInfo::RelatedReply
    );
    // It is sent to somebody else than the packet's source.
    assert_eq!(
        bench.info(&error([10, 0, 0, 2], &out), &COMMIT),
        ConnInfo::Invalid
    );
    // The packet inside is truncated in the ports, before the ports, and before its header ends.
    for len in [23, 22, 20, 19, 0] {
        assert_eq!(
            bench.info(&error(src, &out[..len]), &COMMIT),
            ConnInfo::Invalid
        );
    }
    assert_eq!(bench.table.count(), 1);
}

#[test]
fn truncated_packets_are_refused_or_invalid() {
    let mut bench = Bench::new();
    let seg = Seg {
        flags: 2,
        seq: 1,
        ack: 0,
        window: 9,
        options: &[2, 4, 5, 0xb4],
        len: 3,
    };
    let whole = [
        udp(CLIENT, SERVER, (1, 2), b"data"),
        tcp(CLIENT, SERVER, (1, 2), seg),
        packet_v4(CLIENT, SERVER, ICMP, &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]),
    ];
    for bytes in whole {
        let least = bytes.len();
        for len in 1..least {
            match bench.run(&bytes[..len], &COMMIT) {
                Err(done) => assert!(len < 20 && done == Done::Drop(Why::Truncated), "{len}"),
                Ok((_, info)) => assert_eq!(info, ConnInfo::Invalid, "{len}"),
            }
        }
        assert_eq!(bench.info(&bytes, &COMMIT), ConnInfo::New);
        // Padding goes, and a wrong checksum is invalid.
        let mut padded = bytes.clone();
        padded.extend_from_slice(&[0; 9]);
        assert_eq!(bench.run(&padded, &COMMIT).unwrap().0.len(), least);
        let mut wrong = bytes.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(bench.info(&wrong, &COMMIT), ConnInfo::Invalid);
        bench.settings.set(Setting::checksum, 0);
        assert_eq!(bench.info(&wrong, &COMMIT), ConnInfo::New);
        bench.settings.set(Setting::checksum, 1);
        // A fragment.
        let mut fragment = bytes.clone();
        fragment[6] = 0x20;
        assert_eq!(
            bench.run(&fragment, &COMMIT),
            Err(Done::Drop(Why::Fragment))
        );
    }
}

#[test]
fn counters_and_times_are_kept_on_demand() {
    let mut bench = Bench::new();
    bench.settings.set(Setting::acct, 1);
    bench.settings.set(Setting::timestamp, 1);
    let (out, back, tuple) = flow(1);
    let began = bench.now;
    bench.info(&out, &COMMIT);
    bench.info(&back, &COMMIT);
    bench.info(&back, &COMMIT);
    let (copy, _) = bench.get(&tuple).unwrap();
    let [there, back] = copy.counters.unwrap();
    assert_eq!((there.packets, there.bytes), (1, 29));
    assert_eq!((back.packets, back.bytes), (2, 58));
    assert_eq!((copy.started, copy.stopped), (Some(began), None));
    let zero = Change {
        zero_counters: true,
        ..Change::default()
    };
    bench
        .table
        .change(copy.handle, &zero, bench.now, Origin::Packet);
    let (copy, _) = bench.get(&tuple).unwrap();
    assert_eq!(copy.counters.unwrap()[1].packets, 0);
}

/// Remembers events.
#[derive(Default)]
struct Ear(Mutex<Vec<(u32, u16)>>);

impl Listener for Ear {
    fn event(&self, event: &Event<'_>) {
        let port = event.connection.original.src_port;
        self.0.lock().unwrap().push((event.events, port));
    }
}

#[test]
fn events_come_in_order() {
    let mut bench = Bench::new();
    let ear = Arc::new(Ear::default());
    bench.table.listen(Some(ear.clone()));
    let (out, back, tuple) = flow(1);
    bench.info(
        &out,
        &Action {
            mark: (1, u32::MAX),
            ..COMMIT
        },
    );
    bench.info(&back, &COMMIT);
    bench.info(&back, &COMMIT);
    bench.now += 3 * SECOND;
    bench.info(&back, &COMMIT);
    let (handle, _) = bench.table.find(&tuple, 0, bench.now).unwrap();
    bench.table.set_mark(handle, 1, 1, bench.now);
    bench.table.set_mark(handle, 2, 3, bench.now);
    bench.now += 200 * SECOND;
    bench.table.collect(bench.now, 100);
    let heard: Vec<u32> = ear
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|(events, _)| *events)
        .collect();
    let expected = [
        ipct::NEW | ipct::MARK,
        ipct::REPLY,
        ipct::ASSURED,
        ipct::MARK,
        ipct::DESTROY,
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_full_table_refuses_unless_a_connection_can_go() {
    let settings = Settings::default();
    settings.set(Setting::max, 1024);
    let mut bench = Bench::with(settings);
    // All are assured.
    for number in 0..1024 {
        let (out, back, _) = flow(number);
        bench.info(&out, &COMMIT);
        bench.info(&back, &COMMIT);
        bench.now += 3 * SECOND;
        bench.info(&out, &COMMIT);
        bench.now -= 3 * SECOND;
    }
    let (out, _, _) = flow(5000);
    assert_eq!(bench.run(&out, &COMMIT), Err(Done::Drop(Why::TableFull)));
    assert_eq!(bench.table.count(), 1024);
    let original = flow(6000).2;
    let create = Create {
        original,
        reply: original.invert().unwrap(),
        zone: Zone::default(),
        timeout: 1,
        status: 0,
        mark: 0,
        labels: None,
        tcp: None,
        sctp: None,
        dccp: None,
        nat: None,
    };
    let full = bench.table.create(&create, bench.now, Origin::Packet);
    assert_eq!(full, Err(CreateError::Full));
    // One that is not assured goes.
    let (handle, _) = bench.table.find(&flow(77).2, 0, bench.now).unwrap();
    let change = Change {
        status: Some(0),
        ..Change::default()
    };
    bench
        .table
        .change(handle, &change, bench.now, Origin::Packet);
    assert_eq!(bench.info(&out, &COMMIT), ConnInfo::New);
    assert_eq!(bench.table.snapshot(handle, bench.now), None);
    assert_eq!(bench.table.count(), 1024);
}

/// 20,000 established connections in a table of 50,000, and 500,000 SYNs of others.
#[test]
fn a_flood_of_syns_removes_no_established_connection() {
    const ESTABLISHED: u32 = 20_000;
    let settings = Settings::default();
    settings.set(Setting::max, 50_000);
    settings.set(Setting::checksum, 0);
    let mut bench = Bench::with(settings);
    let talk = |number: u32, flags: u16, reply: bool| {
        let [_, b, c, d] = number.to_be_bytes();
        let (src, ports) = ([10, b, c, d], (1000, 80));
        let seg = Seg {
            flags,
            seq: u32::from(flags & 2 == 0),
            ack: u32::from(flags & 16 != 0),
            window: 1000,
            options: &[],
            len: 0,
        };
        match reply {
            false => tcp(src, SERVER, ports, seg),
            true => tcp(SERVER, src, (80, 1000), seg),
        }
    };
    for number in 0..ESTABLISHED {
        bench.info(&talk(number, 2, false), &COMMIT);
        bench.info(&talk(number, 18, true), &COMMIT);
        bench.info(&talk(number, 16, false), &COMMIT);
    }
    let rounds = if cfg!(debug_assertions) {
        200_000
    } else {
        500_000
    };
    for number in 0..rounds {
        bench.now += 200;
        let info = bench.info(&talk(1_000_000 + number, 2, false), &COMMIT);
        assert_eq!(info, ConnInfo::New);
        // Another handshake in the flood: it has the time of a turn of the table to be completed.
        if number % 1000 == 0 {
            let number = 2_000_000 + number;
            bench.info(&talk(number, 2, false), &COMMIT);
            assert_eq!(
                bench.info(&talk(number, 18, true), &COMMIT),
                ConnInfo::EstablishedReply
            );
            assert_eq!(
                bench.info(&talk(number, 16, false), &COMMIT),
                ConnInfo::Established
            );
        }
    }
    assert_eq!(bench.table.count(), 50_000);
    for number in 0..ESTABLISHED {
        assert_eq!(
            bench.info(&talk(number, 16, true), &COMMIT),
            ConnInfo::EstablishedReply
        );
    }
    let early: u32 = bench
        .table
        .statistics()
        .iter()
        .map(|cpu| cpu.early_drop)
        .sum();
    assert!(early >= rounds - 30_000, "{early}");
}

/// Threads make, find and remove the same few connections.
#[test]
fn threads_agree_about_the_connections() {
    let bench = Bench::new();
    let table = &bench.table;
    let now = bench.now;
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            scope.spawn(move || {
                let mut state = thread + 1;
                for _ in 0..60_000 {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let original = flow(state >> 28).2;
                    match state >> 24 & 3 {
                        0 => {
                            let create = Create {
                                original,
                                reply: original.invert().unwrap(),
                                zone: Zone::default(),
                                timeout: 100,
                                status: state >> 20 & ips::ASSURED,
                                mark: original.src[3].into(),
                                labels: None,
                                tcp: None,
                                sctp: None,
                                dccp: None,
                                nat: None,
                            };
                            let _ = table.create(&create, now, Origin::Packet);
                        }
                        1 => {
                            if let Some((handle, _)) = table.find(&original, 0, now) {
                                table.delete(handle, now, Origin::Packet);
                            }
                        }
                        _ => {
                            let reply = original.invert().unwrap();
                            if let Some((handle, way)) = table.find(&reply, 0, now) {
                                assert_eq!(way, Direction::Reply);
                                if let Some(copy) = table.snapshot(handle, now) {
                                    assert_eq!(copy.original, original);
                                    assert_eq!(copy.mark, original.src[3].into());
                                }
                            }
                        }
                    }
                }
            });
        }
    });
    let mut count = 0;
    let mut from = 0;
    while let Some(copy) = table.next(from, now) {
        count += 1;
        from = copy.handle.index + 1;
        let Handle { index, .. } = copy.handle;
        assert_eq!(table.find(&copy.reply, 0, now).unwrap().0.index, index);
    }
    assert_eq!(count, table.count());
    for number in 0..16 {
        if let Some((handle, _)) = table.find(&flow(number).2, 0, now) {
            assert!(table.delete(handle, now, Origin::Packet));
        }
    }
    assert_eq!(table.count(), 0);
}

#[test]
fn a_batch_finds_what_single_searches_find() {
    let mut bench = Bench::new();
    let tuples: Vec<Tuple> = (0..200).map(|number| flow(number).2).collect();
    for number in (0..200).step_by(3) {
        bench.info(&flow(number).0, &COMMIT);
    }
    let mut found = vec![None; tuples.len()];
    bench.table.find_batch(&tuples, 0, bench.now, &mut found);
    for (tuple, found) in tuples.iter().zip(found) {
        assert_eq!(found, bench.table.find(tuple, 0, bench.now));
    }
}

/// A connection that is plain, or peculiar in one way: IPv6, ICMP, translated, one direction outside of its zone, or
/// expired after ten seconds.
fn peculiar(number: u32) -> Create {
    let mut original = flow(number).2;
    let src = original.src;
    let mut zone = Zone::default();
    match number % 6 {
        1 => {
            original = Tuple::v6(src, [0xfd; 16], 1000, 53, UDP);
            original.src[15] = 1;
        }
        2 => {
            let [a, b, c, d, ..] = src;
            original = Tuple::v4([a, b, c, d], SERVER, 7, 8 << 8, ICMP);
        }
        4 => {
            zone = Zone {
                id: 9,
                directions: 1,
            };
        }
        _ => {}
    }
    let mut reply = original.invert().unwrap();
    if number % 6 == 3 {
        reply.dst[0] = 99;
    }
    Create {
        original,
        reply,
        zone,
        timeout: if number % 6 == 5 { 10 } else { 1000 },
        status: 0,
        mark: 0,
        labels: None,
        tcp: None,
        sctp: None,
        dccp: None,
        nat: None,
    }
}

#[test]
fn a_batch_finds_peculiar_connections() {
    let bench = Bench::new();
    bench.settings.set(Setting::max, 1024);
    let table = Conntrack::new(&bench.settings, 7).unwrap();
    // The index is as full as it may be, so that keys lie beyond their home buckets.
    let mut keys = Vec::new();
    for number in 0..1024 {
        let new = peculiar(number);
        let handle = table.create(&new, bench.now, Origin::Packet).unwrap();
        let there = number % 6 != 5;
        for (tuple, direction) in [
            (new.original, Direction::Original),
            (new.reply, Direction::Reply),
        ] {
            let found = there.then_some((handle, direction));
            keys.push((tuple, new.zone.of(direction), found));
        }
        keys.push((flow(1 << 20 | number).2, 0, None));
    }
    let later = bench.now + 11 * SECOND;
    for (round, len) in [1, 5, 13, 64, 100, 700].into_iter().enumerate() {
        for zone in [0, 9] {
            let keys = keys.iter().filter(|(_, of, _)| *of == zone);
            let (tuples, expected): (Vec<_>, Vec<_>) = keys.map(|key| (key.0, key.2)).unzip();
            for (tuples, expected) in tuples.chunks(len).zip(expected.chunks(len)) {
                let mut found = vec![None; tuples.len()];
                table.find_batch(tuples, zone, later, &mut found);
                assert_eq!(found, expected, "round {round}");
                // In the other zone there is nothing.
                table.find_batch(tuples, 9 - zone, later, &mut found);
                assert!(found.iter().all(Option::is_none));
            }
        }
    }
    assert_eq!(table.count(), 1024 - 1024 / 6);
}

#[test]
fn a_table_grows_to_a_limit_that_is_raised_later() {
    let bench = Bench::new();
    bench.settings.set(Setting::max, 1000);
    let table = Conntrack::new(&bench.settings, 7).unwrap();
    let create = |number: u32| {
        let original = flow(number).2;
        let mut reply = original.invert().unwrap();
        reply.dst[0] = 99;
        let create = Create {
            original,
            reply,
            zone: Zone::default(),
            timeout: 100,
            status: ips::ASSURED | ips::SRC_NAT | ips::SRC_NAT_DONE,
            mark: number,
            labels: None,
            tcp: None,
            sctp: None,
            dccp: None,
            nat: None,
        };
        table.create(&create, bench.now, Origin::Packet)
    };
    let buckets = table.buckets();
    for number in 0..1000 {
        create(number).unwrap();
    }
    assert_eq!(create(1000), Err(CreateError::Full));
    bench.settings.set(Setting::max, 30_000);
    for number in 1000..30_000 {
        create(number).unwrap();
        assert_eq!(create(number), Err(CreateError::Exists));
        // Some are found at each moment, and some go.
        let other = number % 997;
        let found = table.find(&flow(other).2, 0, bench.now);
        assert_eq!(found.is_some(), number <= 3000 || other >= 50);
        if number == 3000 {
            for other in 0..50 {
                let (handle, _) = table.find(&flow(other).2, 0, bench.now).unwrap();
                assert!(table.delete(handle, bench.now, Origin::Packet));
            }
        }
    }
    assert!(table.buckets() > 20 * buckets);
    for number in 0..50 {
        create(number).unwrap();
    }
    assert_eq!(create(30_000), Err(CreateError::Full));
    for number in 0..30_000 {
        let original = flow(number).2;
        let (handle, _) = table.find(&original, 0, bench.now).unwrap();
        assert_eq!(table.mark(handle), Some(number));
        let mut same = BTreeSet::new();
        table.same_source(&original, 0, |reply| {
            same.insert(reply.dst);
            false
        });
        assert_eq!(same.len(), 1);
        assert!(table.delete(handle, bench.now, Origin::Packet));
    }
    assert_eq!(table.count(), 0);
    // Without a limit it grows by itself.
    bench.settings.set(Setting::max, 0);
    for number in 0..70_000 {
        create(number).unwrap();
    }
    assert_eq!(table.count(), 70_000);
}

#[test]
fn a_batch_of_connections_is_made_as_one_by_one() {
    let bench = Bench::new();
    let new: Vec<Create> = (0..3000u32)
        .map(|number| {
            let original = flow(number % 2900).2;
            Create {
                original,
                reply: original.invert().unwrap(),
                zone: Zone::default(),
                timeout: 100,
                status: 0,
                mark: number,
                labels: None,
                tcp: None,
                sctp: None,
                dccp: None,
                nat: None,
            }
        })
        .collect();
    let mut made = vec![Err(CreateError::Full); new.len()];
    let table = &bench.table;
    table.create_batch(&new, bench.now, Origin::Packet, &mut made);
    for (number, (new, made)) in new.iter().zip(&made).enumerate() {
        let found = table.find(&new.original, 0, bench.now).unwrap().0;
        let expected = if number < 2900 {
            Ok(found)
        } else {
            Err(CreateError::Exists)
        };
        assert_eq!(*made, expected);
    }
    // Prefetching finds nothing and changes nothing.
    let packets: Vec<Packet> = (2000..4000).map(|n| bench.packet(&flow(n).0)).collect();
    table.prefetch_batch(&packets, 0);
    assert_eq!(table.count(), 2900);
}

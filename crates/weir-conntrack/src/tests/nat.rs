// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translation of packets, to the checksum.

use super::*;
use std::collections::BTreeSet;

use weir_packet::checksum::{Sum, checksum, verify, verify_v4, verify_v6};

use crate::action::{Nat, Why};
use crate::connection::{Create, CreateError, CreateNat, Origin};
use crate::nat::Manip;
use crate::range::Range;
use crate::settings::Setting;
use crate::tuple::{DCCP, ICMP, ICMPV6, SCTP, Zone};

fn wide(octets: [u8; 4]) -> [u8; 16] {
    Tuple::v4(octets, octets, 0, 0, 0).src
}

fn range(first: [u8; 4], last: [u8; 4], ports: Option<(u16, u16)>) -> Range {
    Range {
        addresses: Some((wide(first), wide(last))),
        ports,
    }
}

fn nat(manip: Option<Manip>, range: Range) -> Action {
    Action {
        nat: Some(Nat { manip, range }),
        ..COMMIT
    }
}

const BARE: Action = Action {
    nat: Some(Nat {
        manip: None,
        range: Range {
            addresses: None,
            ports: None,
        },
    }),
    ..COMMIT
};

const OUTSIDE: [u8; 4] = [198, 51, 100, 1];

/// Source, destination and ports, after a check of the sums.
fn ends(bytes: &[u8]) -> ([u8; 4], [u8; 4], u16, u16) {
    let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let (src, dst) = (address(12), address(16));
    assert!(verify(&bytes[..20]), "the header's checksum");
    let segment = &bytes[20..];
    match bytes[9] {
        ICMP => assert!(verify(segment)),
        UDP if segment[6..8] == [0, 0] => {}
        protocol => assert!(verify_v4(src, dst, protocol, segment)),
    }
    let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    (src, dst, port(0), port(2))
}

#[test]
fn sources_are_translated_there_and_back() {
    let mut bench = Bench::new();
    let snat = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2000, 2100))),
    );
    let seg = Seg {
        flags: 2,
        seq: 1,
        ack: 0,
        window: 100,
        options: &[],
        len: 7,
    };
    for bytes in [
        udp(CLIENT, SERVER, (5000, 53), b"query"),
        tcp(CLIENT, SERVER, (5000, 80), seg),
    ] {
        let (there, info) = bench.run(&bytes, &snat).unwrap();
        assert_eq!(info, ConnInfo::New);
        let (src, dst, sport, dport) = ends(&there);
        assert_eq!((src, dst), (OUTSIDE, SERVER));
        assert!((2000..=2100).contains(&sport));
        // The next packet of the connection, with the action alone.
        let (again, _) = bench.run(&bytes, &snat).unwrap();
        assert_eq!(again, there);
        let back = match bytes[9] {
            UDP => udp(SERVER, OUTSIDE, (dport, sport), b"answer"),
            _ => tcp(
                SERVER,
                OUTSIDE,
                (dport, sport),
                Seg {
                    flags: 18,
                    ack: 9,
                    ..seg
                },
            ),
        };
        let (back, info) = bench.run(&back, &BARE).unwrap();
        assert_eq!(info, ConnInfo::EstablishedReply);
        assert_eq!(ends(&back), (SERVER, CLIENT, dport, 5000));
    }
}

#[test]
fn the_reset_of_a_refused_connection_is_translated() {
    let mut bench = Bench::new();
    let snat = nat(Some(Manip::Source), range(OUTSIDE, OUTSIDE, None));
    let seg = Seg {
        flags: 2,
        seq: 1,
        ack: 0,
        window: 100,
        options: &[],
        len: 0,
    };
    let (there, _) = bench
        .run(&tcp(CLIENT, SERVER, (5000, 80), seg), &snat)
        .unwrap();
    let (_, _, sport, _) = ends(&there);
    let reset = Seg {
        flags: 20,
        seq: 0,
        ack: 2,
        ..seg
    };
    let back = tcp(SERVER, OUTSIDE, (80, sport), reset);
    let (back, _) = bench.run(&back, &BARE).unwrap();
    assert_eq!(ends(&back), (SERVER, CLIENT, 80, 5000));
    assert_eq!(bench.table.count(), 0);
}

#[test]
fn destinations_are_translated_there_and_back() {
    let mut bench = Bench::new();
    let inside = [10, 7, 7, 7];
    let dnat = nat(
        Some(Manip::Destination),
        range(inside, inside, Some((8080, 8080))),
    );
    let bytes = udp(CLIENT, OUTSIDE, (5000, 80), b"x");
    let (there, _) = bench.run(&bytes, &dnat).unwrap();
    assert_eq!(ends(&there), (CLIENT, inside, 5000, 8080));
    let back = udp(inside, CLIENT, (8080, 5000), b"y");
    let (back, _) = bench.run(&back, &BARE).unwrap();
    assert_eq!(ends(&back), (OUTSIDE, CLIENT, 80, 5000));
    // To the same service by another address: the source's port changes, so that the answers can be told apart.
    let other = udp(CLIENT, [198, 51, 100, 2], (5000, 80), b"x");
    let (there, _) = bench.run(&other, &dnat).unwrap();
    let (src, dst, sport, dport) = ends(&there);
    assert_eq!((src, dst, dport), (CLIENT, inside, 8080));
    assert_ne!(sport, 5000);
    let back = udp(inside, CLIENT, (8080, sport), b"y");
    let (back, _) = bench.run(&back, &BARE).unwrap();
    assert_eq!(ends(&back), ([198, 51, 100, 2], CLIENT, 80, 5000));
}

#[test]
fn a_source_keeps_its_translation_towards_others() {
    let mut bench = Bench::new();
    let snat = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2000, 9000))),
    );
    let first = udp(CLIENT, SERVER, (777, 53), b"x");
    let (_, _, port, _) = ends(&bench.run(&first, &snat).unwrap().0);
    let second = udp(CLIENT, [192, 0, 2, 81], (777, 53), b"x");
    assert_eq!(ends(&bench.run(&second, &snat).unwrap().0).2, port);
}

#[test]
fn a_range_fills_up_and_drops() {
    let mut bench = Bench::new();
    let snat = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2000, 2063))),
    );
    let mut ports = BTreeSet::new();
    for client in 0..64 {
        let bytes = udp([10, 0, 1, client], SERVER, (777, 53), b"x");
        let (there, _) = bench.run(&bytes, &snat).unwrap();
        assert!(ports.insert(ends(&there).2), "each port once");
    }
    let bytes = udp([10, 0, 1, 200], SERVER, (777, 53), b"x");
    assert_eq!(bench.run(&bytes, &snat), Err(Done::Drop(Why::NoPort)));
    let stats = bench.table.statistics();
    assert_eq!(stats.iter().map(|cpu| cpu.no_port).sum::<u32>(), 1);
    // Towards another service the ports are free.
    let bytes = udp([10, 0, 1, 200], SERVER, (777, 54), b"x");
    assert!(bench.run(&bytes, &snat).is_ok());
    // A range that overlaps the first.
    let wider = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2060, 2070))),
    );
    for client in 0..7 {
        let bytes = udp([10, 0, 2, client], SERVER, (777, 53), b"x");
        let (there, _) = bench.run(&bytes, &wider).unwrap();
        assert!(ports.insert(ends(&there).2));
    }
    let bytes = udp([10, 0, 2, 99], SERVER, (777, 53), b"x");
    assert_eq!(bench.run(&bytes, &wider), Err(Done::Drop(Why::NoPort)));
    // A range of which the end comes first has the ports between them.
    let turned = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2072, 2071))),
    );
    assert!(bench.run(&bytes, &turned).is_ok());
}

#[test]
fn addresses_of_a_range_are_all_used() {
    let mut bench = Bench::new();
    let (first, last) = ([198, 51, 100, 250], [198, 51, 101, 3]);
    let snat = nat(Some(Manip::Source), range(first, last, None));
    let mut used = BTreeSet::new();
    for client in 0..200 {
        let bytes = udp([10, 0, 1, client], SERVER, (777, 53), b"x");
        let (src, _, port, _) = ends(&bench.run(&bytes, &snat).unwrap().0);
        assert!((first..=last).contains(&src));
        assert!((600..=1023).contains(&port) || port == 777);
        used.insert(src);
    }
    assert_eq!(used.len(), 10);
}

#[test]
fn pings_are_translated_by_their_identifier() {
    let mut bench = Bench::new();
    let snat = nat(Some(Manip::Source), range(OUTSIDE, OUTSIDE, None));
    let echo = |kind: u8, id: u16| {
        let mut message = vec![kind, 0, 0, 0, (id >> 8) as u8, id as u8, 0, 1, 1, 2, 3];
        let check = checksum(&message);
        message[2..4].copy_from_slice(&check.to_be_bytes());
        message
    };
    let mut ids = BTreeSet::new();
    for client in 1..4 {
        let src = [10, 0, 0, client];
        let ping = packet_v4(src, SERVER, ICMP, &echo(8, 7));
        let (there, _) = bench.run(&ping, &snat).unwrap();
        assert_eq!(ends(&there).0, OUTSIDE);
        let id = u16::from_be_bytes([there[24], there[25]]);
        assert!(ids.insert(id));
        let pong = packet_v4(SERVER, OUTSIDE, ICMP, &echo(0, id));
        let (back, _) = bench.run(&pong, &BARE).unwrap();
        assert_eq!(ends(&back).1, src);
        assert_eq!(back[20..], echo(0, 7));
    }
    // An answer that nobody asked for.
    let stray = packet_v4(SERVER, OUTSIDE, ICMP, &echo(0, 9999));
    assert_eq!(bench.info(&stray, &BARE), ConnInfo::Invalid);
}

#[test]
fn errors_are_translated_inside_too() {
    let mut bench = Bench::new();
    let snat = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((2000, 2100))),
    );
    let router = [203, 0, 113, 9];
    let query = udp(CLIENT, SERVER, (5000, 53), b"query");
    let (there, _) = bench.run(&query, &snat).unwrap();
    let error = |inside: &[u8]| {
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(inside);
        let check = checksum(&message);
        message[2..4].copy_from_slice(&check.to_be_bytes());
        packet_v4(router, OUTSIDE, ICMP, &message)
    };
    let (back, info) = bench.run(&error(&there), &BARE).unwrap();
    assert_eq!(info, ConnInfo::RelatedReply);
    assert_eq!(ends(&back).1, CLIENT);
    assert_eq!(back[28..], query[..], "the packet as its sender sent it");
    // Only the first 8 bytes of the segment.
    let (back, _) = bench.run(&error(&there[..28]), &BARE).unwrap();
    ends(&back);
    assert_eq!(back[28..], query[..28]);
    // A redirect is dropped.
    let mut redirect = error(&there);
    redirect[20] = 5;
    redirect[22..24].fill(0);
    let check = checksum(&redirect[20..]);
    redirect[22..24].copy_from_slice(&check.to_be_bytes());
    assert!(bench.run(&redirect, &BARE).is_err());
}

#[test]
fn ipv6_is_translated() {
    let mut bench = Bench::new();
    let address = |last: u8| {
        let mut octets = [0u8; 16];
        (octets[0], octets[1], octets[15]) = (0x20, 1, last);
        octets
    };
    let packet = |src: u8, dst: u8, next: u8, segment: &[u8]| {
        let mut segment = segment.to_vec();
        let at = if next == ICMPV6 { 2 } else { 6 };
        segment[at..at + 2].fill(0);
        let check = weir_packet::checksum::transport_v6(address(src), address(dst), next, &segment);
        segment[at..at + 2].copy_from_slice(&check.to_be_bytes());
        let mut bytes = vec![0x60, 0, 0, 0, 0, segment.len() as u8, next, 64];
        bytes.extend_from_slice(&address(src));
        bytes.extend_from_slice(&address(dst));
        bytes.extend_from_slice(&segment);
        bytes
    };
    let look = |bytes: &[u8]| {
        let octets = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap();
        let (src, dst) = (octets(8), octets(24));
        assert!(verify_v6(src, dst, bytes[6], &bytes[40..]));
        (src[15], dst[15])
    };
    let outside = Range {
        addresses: Some((address(0x50), address(0x50))),
        ports: Some((2000, 2001)),
    };
    let snat = nat(Some(Manip::Source), outside);
    let query = packet(1, 2, UDP, &[0x13, 0x88, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let (there, _) = bench.run(&query, &snat).unwrap();
    assert_eq!(look(&there), (0x50, 2));
    assert!(matches!(there[41], 0xd0 | 0xd1), "port 2000 or 2001");
    // The error of a router.
    let mut message = vec![1, 4, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&there);
    let error = packet(9, 0x50, ICMPV6, &message);
    let (back, info) = bench.run(&error, &BARE).unwrap();
    assert_eq!(info, ConnInfo::RelatedReply);
    assert_eq!(look(&back), (9, 1));
    assert_eq!(back[48..], query[..]);
    // Neighbour discovery is not tracked.
    let solicitation = packet(1, 2, ICMPV6, &[135, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bench.info(&solicitation, &snat), ConnInfo::Invalid);
    let echo = packet(1, 2, ICMPV6, &[128, 0, 0, 0, 0, 7, 0, 1]);
    let (there, _) = bench.run(&echo, &snat).unwrap();
    assert_eq!(look(&there), (0x50, 2));
}

#[test]
fn udp_without_a_checksum_stays_so() {
    let mut bench = Bench::new();
    let snat = nat(Some(Manip::Source), range(OUTSIDE, OUTSIDE, None));
    let mut bytes = udp(CLIENT, SERVER, (5000, 53), b"x");
    bytes[26..28].fill(0);
    let (there, _) = bench.run(&bytes, &snat).unwrap();
    assert_eq!(there[26..28], [0, 0]);
    assert_eq!(ends(&there).0, OUTSIDE);
    bench.settings.set(Setting::checksum, 0);
}

/// CRC32c, bit by bit (RFC 9260, appendix A).
fn crc32c(octets: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for octet in octets {
        crc ^= u32::from(*octet);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 * (crc & 1));
        }
    }
    !crc
}

/// An SCTP packet with an INIT chunk.
fn sctp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend([
        1, 0, 0, 20, 0, 0, 0, 10, 0, 0, 255, 255, 0, 1, 0, 1, 0, 0, 0, 1,
    ]);
    let crc = crc32c(&segment).to_le_bytes();
    segment[8..12].copy_from_slice(&crc);
    packet_v4(src, dst, SCTP, &segment)
}

/// Source, destination and ports of an SCTP packet, after a check of the sums.
fn ends_sctp(bytes: &[u8]) -> ([u8; 4], [u8; 4], u16, u16) {
    assert!(verify(&bytes[..20]), "the header's checksum");
    let mut segment = bytes[20..].to_vec();
    let crc: [u8; 4] = segment[8..12].try_into().unwrap();
    segment[8..12].fill(0);
    assert_eq!(u32::from_le_bytes(crc), crc32c(&segment));
    let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap();
    let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    (address(12), address(16), port(0), port(2))
}

#[test]
fn sctp_gets_its_crc_and_ports() {
    let mut bench = Bench::new();
    let source = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((6000, 6000))),
    );
    let bytes = sctp(CLIENT, SERVER, (5000, 36_412));
    let (there, info) = bench.run(&bytes, &source).unwrap();
    assert_eq!(ends_sctp(&there), (OUTSIDE, SERVER, 6000, 36_412));
    assert_eq!(info, ConnInfo::New);
    // INIT ACK
    let mut reply = sctp(SERVER, OUTSIDE, (36_412, 6000));
    reply[20 + 7] = 10;
    reply[20 + 12] = 2;
    reply[28..32].fill(0);
    let crc = crc32c(&reply[20..]).to_le_bytes();
    reply[28..32].copy_from_slice(&crc);
    let (back, info) = bench.run(&reply, &BARE).unwrap();
    assert_eq!(ends_sctp(&back), (SERVER, CLIENT, 36_412, 5000));
    assert_eq!(info, ConnInfo::EstablishedReply);
    // The address alone: the checksum covers the ports, not the address.
    let mut bench = Bench::new();
    let destination = nat(Some(Manip::Destination), range(OUTSIDE, OUTSIDE, None));
    let (there, _) = bench.run(&bytes, &destination).unwrap();
    assert_eq!(ends_sctp(&there), (CLIENT, OUTSIDE, 5000, 36_412));
    assert_eq!(there[20..], bytes[20..]);
}

#[test]
fn dccp_gets_its_checksum_and_ports() {
    let mut bench = Bench::new();
    let request = |src: [u8; 4], dst: [u8; 4], ports: (u16, u16), kind: u8| {
        let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
        let words = if kind == 0 { 5 } else { 7 };
        segment.extend([words, 0, 0, 0, kind << 1 | 1, 0, 0, 0, 0, 0, 3, 232]);
        segment.resize(usize::from(words) * 4, 0);
        if kind == 1 {
            // Acknowledges 1000.
            segment[22..24].copy_from_slice(&[3, 232]);
        }
        let sum = Sum::new()
            .add(&src)
            .add(&dst)
            .add(&[0, DCCP, 0, segment.len() as u8])
            .add(&segment)
            .finish();
        segment[6..8].copy_from_slice(&sum.to_be_bytes());
        packet_v4(src, dst, DCCP, &segment)
    };
    let source = nat(
        Some(Manip::Source),
        range(OUTSIDE, OUTSIDE, Some((6000, 6000))),
    );
    let bytes = request(CLIENT, SERVER, (5000, 7000), 0);
    let (there, info) = bench.run(&bytes, &source).unwrap();
    assert_eq!(ends(&there), (OUTSIDE, SERVER, 6000, 7000));
    assert_eq!(info, ConnInfo::New);
    let reply = request(SERVER, OUTSIDE, (7000, 6000), 1);
    let (back, info) = bench.run(&reply, &BARE).unwrap();
    assert_eq!(ends(&back), (SERVER, CLIENT, 7000, 5000));
    assert_eq!(info, ConnInfo::EstablishedReply);
}

/// `conntrack -I --zone N --src-nat`: the port changes only if the zone of the reply has the key already.
#[test]
fn connections_made_in_zones_choose_their_ports_apart() {
    let bench = Bench::new();
    let make = |src: [u8; 4], id: u16, directions: u8| {
        let create = Create {
            original: Tuple::v4(src, SERVER, 5000, 80, TCP),
            reply: Tuple::v4(SERVER, src, 80, 5000, TCP),
            zone: Zone { id, directions },
            timeout: 100,
            status: 0,
            mark: 0,
            labels: None,
            tcp: None,
            sctp: None,
            dccp: None,
            nat: Some(CreateNat {
                destination: None,
                source: Some(range(OUTSIDE, OUTSIDE, None)),
            }),
        };
        let handle = bench.table.create(&create, bench.now, Origin::Packet)?;
        let made = bench.table.snapshot(handle, bench.now).unwrap();
        assert_eq!(made.reply.dst, wide(OUTSIDE));
        Ok::<u16, CreateError>(made.reply.dst_port)
    };
    assert_eq!(make(CLIENT, 5, 3), Ok(5000));
    assert_eq!(make(CLIENT, 6, 3), Ok(5000));
    assert_eq!(make(CLIENT, 5, 3), Err(CreateError::Exists));
    let port = make([10, 0, 0, 9], 5, 3).unwrap();
    assert!(port >= 1024 && port != 5000, "{port}");
    // The zone of the original direction alone: replies are in zone 0, where the port is free once.
    assert_eq!(make(CLIENT, 7, 1), Ok(5000));
    assert_ne!(make(CLIENT, 8, 1), Ok(5000));
}

#[test]
fn an_error_about_less_than_a_header_is_related_but_not_translated() {
    let mut bench = Bench::new();
    let source = nat(Some(Manip::Source), range(OUTSIDE, OUTSIDE, None));
    let (there, _) = bench
        .run(&udp(CLIENT, SERVER, (5000, 53), b"query"), &source)
        .unwrap();
    for (octets, translated) in [
        (3, None),
        (4, Some(false)),
        (7, Some(false)),
        (8, Some(true)),
    ] {
        let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
        message.extend(&there[..20 + octets]);
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let bytes = packet_v4(SERVER, OUTSIDE, ICMP, &message);
        let found = bench.info(&bytes, &COMMIT);
        let result = bench.run(&bytes, &BARE);
        match translated {
            None => assert_eq!(found, ConnInfo::Invalid),
            Some(true) => assert_eq!(ends(&result.unwrap().0).1, CLIENT),
            Some(false) => {
                assert_eq!(found, ConnInfo::RelatedReply);
                assert_eq!(result, Err(Done::Drop(Why::Untranslatable)));
            }
        }
    }
}

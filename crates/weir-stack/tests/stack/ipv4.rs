// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 end to end: the frames a router sends in response to the frames it receives.

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use crate::world::{Packet, World, device_mac, echo, host_mac, udp};
use weir_netlink::{errno, rta, rtm};
use weir_packet::DropReason as Reason;
use weir_packet::checksum::verify;
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{BROADCAST, ethernet};
use weir_packet::header::transport::{TCP_ACK, TCP_RST, TCP_SYN, fill_check_v4, tcp};
use weir_packet::header::{Arp, Ethernet, Icmp, Ipv4, Tcp};
use weir_stack::drops::Place;

const HOST: [u8; 4] = [10, 0, 1, 2];
const ROUTER: [u8; 4] = [10, 0, 1, 1];

/// Returns the type, code, second word and quoted packet of the ICMP message in a frame.
fn icmp_of(frame: &[u8]) -> (u8, u8, u32, Vec<u8>) {
    let ip = Ipv4::new(&frame[14..]).unwrap();
    assert_eq!(ip.protocol(), 1);
    assert!(verify(&frame[14..34]));
    let message = &frame[34..14 + usize::from(ip.total_len())];
    assert!(verify(message));
    let head = Icmp::new(message).unwrap();
    (
        head.icmp_type(),
        head.code(),
        head.rest(),
        message[8..].to_vec(),
    )
}

#[test]
fn a_packet_is_forwarded() {
    let mut world = World::router();
    let packet = Packet {
        tos: 0x10,
        payload: b"hello",
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (name, frame) = world.one();
    assert_eq!(name, "d2");
    let link = Ethernet::new(&frame).unwrap();
    assert_eq!((link.dst(), link.src()), (host_mac(2), device_mac(2)));
    let expected = Packet { ttl: 63, ..packet };
    assert_eq!(frame[14..], expected.bytes());
}

#[test]
fn an_expired_ttl_is_answered() {
    let mut world = World::router();
    let packet = Packet {
        ttl: 1,
        payload: &[7; 600],
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (name, frame) = world.one();
    assert_eq!((name.as_str(), frame.len()), ("d1", 14 + 576));
    let ip = Ipv4::new(&frame[14..]).unwrap();
    assert_eq!((ip.src(), ip.dst(), ip.tos()), (ROUTER, HOST, 0xc0));
    let (ty, code, rest, quote) = icmp_of(&frame);
    assert_eq!((ty, code, rest), (11, 0, 0));
    assert_eq!(quote, packet.bytes()[..548]);
    assert_eq!(world.dropped("d1", Place::Ipv4Forward, Reason::IP_INHDR), 1);
}

#[test]
fn damaged_and_foreign_packets_end_with_linux_reasons() {
    let mut world = World::router();
    let good = Packet::default().from(1);
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    let mut short = good.clone();
    short.truncate(20);
    let mut cut = Packet {
        payload: &[1; 30],
        ..Packet::default()
    }
    .from(1);
    cut.truncate(40);
    let from = |src| {
        Packet {
            src,
            ..Packet::default()
        }
        .from(1)
    };
    let to = |dst| {
        Packet {
            dst,
            ..Packet::default()
        }
        .from(1)
    };
    let cases = [
        (short, Place::Ipv4In, Reason::IP_INHDR),
        (with(14, 0x65), Place::Ipv4In, Reason::IP_INHDR),
        (with(14, 0x44), Place::Ipv4In, Reason::IP_INHDR),
        (with(24, 1), Place::Ipv4In, Reason::IP_CSUM),
        (cut, Place::Ipv4In, Reason::PKT_TOO_SMALL),
        (with(5, 9), Place::Ipv4In, Reason::OTHERHOST),
        (
            from([224, 0, 0, 9]),
            Place::Ipv4In,
            Reason::IP_INVALID_SOURCE,
        ),
        (from([0, 0, 0, 0]), Place::Ipv4In, Reason::IP_INVALID_SOURCE),
        (from([127, 0, 0, 9]), Place::Ipv4In, Reason::IP_LOCALNET),
        (from([10, 0, 2, 1]), Place::Ipv4In, Reason::IP_LOCAL_SOURCE),
        (to([127, 0, 0, 1]), Place::Ipv4In, Reason::IP_LOCALNET),
        (to([0, 0, 0, 0]), Place::Ipv4In, Reason::IP_INVALID_DEST),
        (to([224, 1, 2, 3]), Place::Ipv4In, Reason::IP_INVALID_DEST),
    ];
    for (frame, place, reason) in cases {
        let before = world.dropped("d1", place, reason);
        world.arrive("d1", std::slice::from_ref(&frame));
        assert_eq!(
            world.dropped("d1", place, reason),
            before + 1,
            "{reason} {frame:?}"
        );
    }
    assert!(world.left().is_empty());
}

#[test]
fn each_refusing_route_kind_has_its_icmp_error() {
    let mut world = World::router();
    world.refuse([10, 8, 0, 0].into(), 16, rta::rtn::PROHIBIT);
    world.refuse([10, 9, 0, 0].into(), 16, rta::rtn::UNREACHABLE);
    world.refuse([10, 7, 0, 0].into(), 16, rta::rtn::BLACKHOLE);
    let cases = [
        ([10, 8, 0, 1], Some((3, 13))),
        ([10, 9, 0, 1], Some((3, 1))),
        ([10, 7, 0, 1], None),
        ([192, 0, 2, 1], Some((3, 0))),
    ];
    for (dst, answer) in cases {
        // Let the rate limits of the previous case expire.
        world.pass(10_000);
        world.arrive(
            "d1",
            &[Packet {
                dst,
                ..Packet::default()
            }
            .from(1)],
        );
        let left = world.left();
        let got = left.first().map(|(_, _, frame)| icmp_of(frame));
        assert_eq!(got.map(|got| (got.0, got.1)), answer, "{dst:?}");
    }
    // A host does not send errors for other hosts' packets.
    world.sysctl("net/ipv4/conf/d1/forwarding", "0");
    world.arrive("d1", &[Packet::default().from(1)]);
    assert!(world.left().is_empty());
    assert_eq!(
        world.dropped("d1", Place::Ipv4In, Reason::IP_INADDRERRORS),
        2
    );
}

#[test]
fn a_link_too_small_for_ipv4_has_none() {
    let mut world = World::router();
    // An ARP broadcast, and packets from the host behind d1 to the other side and to the router.
    let body = arp(ARPOP_REQUEST, host_mac(1), HOST, [0; 6], ROUTER);
    let ask = [&ethernet(BROADCAST, host_mac(1), 0x0806)[..], &body[..]].concat();
    let frames = [
        ask,
        Packet::default().from(1),
        Packet {
            dst: [255; 4],
            ..Packet::default()
        }
        .from(1),
    ];
    world.set_mtu("d1", 67);
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    let dropped = |place| world.dropped("d1", place, Reason::NOT_SPECIFIED);
    assert_eq!((dropped(Place::Arp), dropped(Place::Ipv4In)), (1, 2));
    world.set_mtu("d1", 1500);
    world.address("d1", [10, 0, 1, 1].into(), 24);
    world.arrive("d1", &frames);
    assert_eq!(world.left().len(), 2);
}

#[test]
fn oversized_packets_are_fragmented_or_answered() {
    let mut world = World::router();
    world.set_mtu("d2", 600);
    let payload: Vec<u8> = (0..1400u32).map(|n| n as u8).collect();
    let packet = Packet {
        frag_off: 0x4000,
        payload: &payload,
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (name, frame) = world.one();
    let (ty, code, rest, _) = icmp_of(&frame);
    assert_eq!((name.as_str(), ty, code, rest), ("d1", 3, 4, 600));
    assert_eq!(
        world.dropped("d1", Place::Ipv4Forward, Reason::PKT_TOO_BIG),
        1
    );
    let packet = Packet {
        frag_off: 0,
        ..packet
    };
    world.arrive("d1", &[packet.from(1)]);
    let mut joined = Vec::new();
    let left = world.left();
    assert_eq!(left.len(), 3);
    for (index, (name, _, frame)) in left.iter().enumerate() {
        let ip = Ipv4::new(&frame[14..]).unwrap();
        assert!(name == "d2" && frame.len() <= 614 && verify(&frame[14..34]));
        assert_eq!(ip.fragment_offset(), joined.len());
        assert_eq!((ip.more_fragments(), ip.ttl()), (index < 2, 63));
        joined.extend_from_slice(&frame[34..]);
    }
    assert_eq!(joined, payload);
}

#[test]
fn a_large_echo_comes_back_in_fragments() {
    let mut world = World::router();
    let data: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    let message = echo(7, 1, &data);
    let whole = |more: bool, start: usize, end: usize| {
        let frag_off = u16::from(more) << 13 | (start / 8) as u16;
        Packet {
            dst: ROUTER,
            protocol: 1,
            frag_off,
            payload: &message[start..end],
            ..Packet::default()
        }
        .from(1)
    };
    // Out of order, with one duplicate.
    let frames = [
        whole(false, 2960, 4008),
        whole(true, 0, 1480),
        whole(true, 0, 1480),
    ];
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    assert_eq!(world.dropped("d1", Place::Ipv4Local, Reason::DUP_FRAG), 1);
    world.arrive("d1", &[whole(true, 1480, 2960)]);
    let left = world.left();
    assert_eq!(left.len(), 3);
    let mut joined = Vec::new();
    for (_, _, frame) in &left {
        joined.extend_from_slice(&frame[34..]);
    }
    assert!(verify(&joined));
    assert_eq!((joined[0], &joined[8..]), (0, data.as_slice()));
    // An overlap drops the whole packet. The remaining fragment starts a new queue and times out.
    world.arrive("d1", &[whole(true, 0, 1480), whole(true, 1472, 2960)]);
    assert_eq!(world.dropped("d1", Place::Ipv4Local, Reason::DUP_FRAG), 3);
    world.arrive("d1", &[whole(true, 0, 1480)]);
    world.pass(29_999);
    assert!(world.left().is_empty());
    world.pass(1);
    let (_, frame) = world.one();
    let (ty, code, _, quote) = icmp_of(&frame);
    assert_eq!((ty, code, quote.len()), (11, 1, 548));
    assert_eq!(
        world.dropped("d1", Place::Ipv4Local, Reason::FRAG_REASM_TIMEOUT),
        1
    );
}

#[test]
fn ports_without_sockets_are_answered() {
    let mut world = World::router();
    let segment = udp(HOST, ROUTER, 5000, 53, b"question");
    let packet = Packet {
        dst: ROUTER,
        payload: &segment,
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (ty, code, _, quote) = icmp_of(&world.one().1);
    assert_eq!((ty, code), (3, 3));
    assert_eq!(quote, packet.bytes());
    let mut syn = tcp(5000, 80, 100, 0, TCP_SYN);
    fill_check_v4(HOST, ROUTER, 6, &mut syn);
    let packet = Packet {
        dst: ROUTER,
        protocol: 6,
        payload: &syn,
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (_, frame) = world.one();
    let answer = Tcp::new(&frame[34..]).unwrap();
    assert_eq!((answer.src_port(), answer.dst_port()), (80, 5000));
    assert_eq!(
        (answer.seq(), answer.ack(), answer.flags()),
        (0, 101, TCP_RST | TCP_ACK)
    );
    let packet = Packet {
        protocol: 99,
        ..packet
    };
    world.arrive("d1", &[packet.from(1)]);
    let (ty, code, ..) = icmp_of(&world.one().1);
    assert_eq!((ty, code), (3, 2));
    assert_eq!(world.dropped("d1", Place::Ipv4Local, Reason::NO_SOCKET), 2);
    assert_eq!(world.dropped("d1", Place::Ipv4Local, Reason::IP_NOPROTO), 1);
}

#[test]
fn errors_are_limited() {
    let mut world = World::router();
    let expired = Packet {
        ttl: 1,
        ..Packet::default()
    };
    let frames = vec![expired.from(1); 64];
    world.arrive("d1", &frames);
    // A burst of six to one destination, then one a second.
    assert_eq!(world.left().len(), 6);
    world.pass(2_000);
    world.arrive("d1", &frames);
    assert_eq!(world.left().len(), 2);
    // Other destinations share the namespace's bucket: fifty tokens, of which each message takes 0
    // to 2.
    world.pass(10_000);
    let many: Vec<_> = (0..200)
        .map(|n| {
            Packet {
                src: [10, 0, 1, 3 + n],
                ..expired
            }
            .from(1)
        })
        .collect();
    for n in 0..200 {
        world.neighbour("d1", [10, 0, 1, 3 + n].into(), host_mac(1));
    }
    world.arrive("d1", &many);
    let sent = world.left().len();
    assert!((35..=75).contains(&sent), "{sent}");
    // No error for an error, a later fragment, or a multicast frame.
    world.pass(10_000);
    let error = [3, 3, 0xfc, 0xfc, 0, 0, 0, 0];
    let quiet = [
        Packet {
            protocol: 1,
            payload: &error,
            ..expired
        }
        .from(1),
        Packet {
            frag_off: 5,
            ..expired
        }
        .from(1),
        [&BROADCAST[..], &expired.from(1)[6..]].concat(),
    ];
    world.arrive("d1", &quiet);
    assert!(world.left().is_empty());
}

#[test]
fn an_unknown_neighbour_is_asked_for() {
    let mut world = World::router();
    world.port(3);
    let packet = |id| Packet {
        dst: [10, 0, 3, 9],
        id,
        payload: b"wait",
        ..Packet::default()
    };
    world.arrive("d1", &[packet(1).from(1), packet(2).from(1)]);
    let (name, frame) = world.one();
    assert_eq!((name.as_str(), &frame[..6]), ("d3", &BROADCAST[..]));
    let ask = Arp::new(&frame[14..]).unwrap();
    assert_eq!(
        (ask.op(), ask.sip(), ask.tip()),
        (ARPOP_REQUEST, [10, 0, 3, 1], [10, 0, 3, 9])
    );
    world.pass(500);
    let body = arp(
        ARPOP_REPLY,
        host_mac(3),
        [10, 0, 3, 9],
        device_mac(3),
        [10, 0, 3, 1],
    );
    let reply = [&ethernet(device_mac(3), host_mac(3), 0x0806)[..], &body[..]].concat();
    world.arrive("d3", &[reply]);
    let left = world.left();
    let ids: Vec<_> = left
        .iter()
        .map(|(name, _, frame)| {
            let ip = Ipv4::new(&frame[14..]).unwrap();
            assert_eq!((name.as_str(), &frame[..6]), ("d3", &host_mac(3)[..]));
            (ip.id(), ip.ttl())
        })
        .collect();
    assert_eq!(ids, [(1, 63), (2, 63)]);
}

#[test]
fn a_replaced_gateway_entry_takes_effect() {
    let mut world = World::router();
    world.route([172, 16, 0, 0].into(), 12, [10, 0, 2, 2].into());
    let frames: Vec<_> = (0..8u8)
        .map(|n| {
            let dst = [172, 16, n, 1];
            Packet {
                dst,
                ..Packet::default()
            }
            .from(1)
        })
        .collect();
    let to = |world: &mut World| {
        world.arrive("d1", &frames);
        let left = world.left();
        let mut to: Vec<_> = left
            .iter()
            .map(|(_, _, frame)| frame[..6].to_vec())
            .collect();
        to.dedup();
        to
    };
    assert_eq!(to(&mut world), [host_mac(2)]);
    // The address changes in place.
    world.neighbour("d2", [10, 0, 2, 2].into(), host_mac(7));
    assert_eq!(to(&mut world), [host_mac(7)]);
    // The entry is deleted: the gateway is asked for again.
    world.forget("d2", [10, 0, 2, 2].into());
    assert_eq!(to(&mut world), [BROADCAST]);
    world.neighbour("d2", [10, 0, 2, 2].into(), host_mac(8));
    let left = world.left();
    assert!(left.iter().all(|(_, _, frame)| frame[..6] == host_mac(8)));
    assert_eq!(to(&mut world), [host_mac(8)]);
}

/// Batches of plain packets take a shorter way through the code, which must not show.
#[test]
fn plain_batches_are_forwarded_as_mixed_ones() {
    let mut world = World::router();
    world.port(3);
    world.neighbour("d3", [10, 0, 3, 2].into(), host_mac(3));
    world.route([172, 16, 0, 0].into(), 12, [10, 0, 2, 2].into());
    world.route([172, 16, 128, 0].into(), 17, [10, 0, 3, 2].into());
    let plain: Vec<_> = (0..40u8)
        .map(|n| {
            let packet = Packet {
                // Some destinations are themselves the next hop.
                dst: match n % 5 {
                    4 => [10, 0, 2, 2],
                    _ => [172, 16, n.wrapping_mul(37), n],
                },
                ttl: 2 + n,
                tos: n << 2,
                id: n.into(),
                payload: &[n; 3],
                ..Packet::default()
            };
            packet.from(1)
        })
        .collect();
    let left = |world: &mut World, frames: &[Vec<u8>]| {
        world.arrive("d1", frames);
        let left = world.left().into_iter();
        let left = left.map(|(name, _, frame)| (name, frame));
        left.filter(|(name, _)| name != "d1").collect::<Vec<_>>()
    };
    let expired = Packet {
        ttl: 1,
        ..Packet::default()
    };
    let mut mixed = plain.clone();
    mixed.push(expired.from(1));
    let expected = left(&mut world, &mixed);
    assert_eq!(expected.len(), plain.len());
    assert!(expected.iter().any(|(name, _)| name == "d2"));
    assert!(expected.iter().any(|(name, _)| name == "d3"));
    assert_eq!(left(&mut world, &plain), expected);
    // A lost gateway holds up its own packets only.
    world.forget("d3", [10, 0, 3, 2].into());
    let rest = left(&mut world, &plain);
    let by_d2 = |frames: &[(String, Vec<u8>)]| {
        let by_d2 = frames.iter().filter(|(name, _)| name == "d2");
        by_d2.cloned().collect::<Vec<_>>()
    };
    assert_eq!(by_d2(&rest), by_d2(&expected));
    assert!(
        rest.iter()
            .all(|(name, frame)| name == "d2" || frame[..6] == BROADCAST)
    );
    // Without a route, nothing leaves.
    world.set_up("d2", false);
    assert!(by_d2(&left(&mut world, &plain)).is_empty());
}

#[test]
fn a_silent_neighbour_is_unreachable_after_three_questions() {
    let mut world = World::router();
    world.port(3);
    let packet = Packet {
        dst: [10, 0, 3, 9],
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    world.pass(2_999);
    let questions = world.left();
    assert_eq!(questions.len(), 3);
    assert!(questions.iter().all(|(name, _, _)| name == "d3"));
    world.pass(1);
    let (name, frame) = world.one();
    let (ty, code, _, quote) = icmp_of(&frame);
    assert_eq!((name.as_str(), ty, code), ("d1", 3, 1));
    // The quote is the packet as it was while waiting.
    assert_eq!(quote, Packet { ttl: 63, ..packet }.bytes());
    assert_eq!(
        world.dropped("d3", Place::Neighbour, Reason::NEIGH_FAILED),
        1
    );
}

/// Each request uses the source address of the newest waiting packet (`neigh_probe`).
#[test]
fn the_last_queued_packet_gives_the_source_of_the_solicitation() {
    let mut world = World::router();
    world.port(3);
    let message = echo(1, 1, b"who");
    for dst in [[10, 0, 1, 1], [10, 0, 2, 1]] {
        let packet = Packet {
            src: [10, 0, 3, 9],
            dst,
            protocol: 1,
            payload: &message,
            ..Packet::default()
        };
        world.arrive("d1", &[packet.from(1)]);
    }
    world.pass(1_500);
    let asked: Vec<_> = world
        .left()
        .iter()
        .map(|(_, _, frame)| Arp::new(&frame[14..]).unwrap().sip())
        .collect();
    assert_eq!(asked, [[10, 0, 1, 1], [10, 0, 2, 1]]);
}

#[test]
fn questions_for_our_addresses_are_answered() {
    let mut world = World::router();
    let ask = |target: [u8; 4]| {
        let body = arp(ARPOP_REQUEST, host_mac(1), HOST, [0; 6], target);
        [&ethernet(BROADCAST, host_mac(1), 0x0806)[..], &body[..]].concat()
    };
    world.arrive("d1", &[ask(ROUTER)]);
    let (name, frame) = world.one();
    let reply = Arp::new(&frame[14..]).unwrap();
    assert_eq!((name.as_str(), frame.len()), ("d1", 42));
    assert_eq!(
        (reply.op(), reply.sha(), reply.sip(), reply.tha()),
        (ARPOP_REPLY, device_mac(1), ROUTER, host_mac(1))
    );
    // Requests for another device's address are answered too, unless arp_ignore forbids it;
    // requests for another host never are.
    world.arrive("d1", &[ask([10, 0, 2, 1])]);
    assert_eq!(world.left().len(), 1);
    world.sysctl("net/ipv4/conf/all/arp_ignore", "1");
    world.arrive("d1", &[ask([10, 0, 2, 1]), ask([10, 0, 2, 2])]);
    assert!(world.left().is_empty());
    world.sysctl("net/ipv4/conf/d1/proxy_arp", "1");
    // The answer for another host waits for a random time below 0.8 s.
    world.arrive("d1", &[ask([10, 0, 2, 2])]);
    assert!(world.left().is_empty());
    world.pass(800);
    assert_eq!(world.left().len(), 1);
}

#[test]
fn reverse_paths_are_filtered() {
    let mut world = World::router();
    world.route([172, 16, 0, 0].into(), 16, [10, 0, 2, 2].into());
    let from = |src| {
        Packet {
            src,
            ..Packet::default()
        }
        .from(1)
    };
    let elsewhere = from([172, 16, 0, 1]);
    let nowhere = from([192, 0, 2, 1]);
    let dropped = |world: &World| world.dropped("d1", Place::Ipv4In, Reason::IP_RPFILTER);
    world.arrive("d1", &[elsewhere.clone(), nowhere.clone()]);
    assert_eq!((world.left().len(), dropped(&world)), (2, 0));
    world.sysctl("net/ipv4/conf/d1/rp_filter", "1");
    world.arrive("d1", &[elsewhere.clone(), nowhere.clone(), from(HOST)]);
    assert_eq!((world.left().len(), dropped(&world)), (1, 2));
    world.sysctl("net/ipv4/conf/d1/rp_filter", "2");
    world.arrive("d1", &[elsewhere, nowhere]);
    assert_eq!((world.left().len(), dropped(&world)), (1, 3));
}

#[test]
fn flows_are_spread_over_hops_and_keep_theirs() {
    let mut world = World::router();
    world.port(3);
    world.neighbour("d3", [10, 0, 3, 2].into(), host_mac(3));
    let gateways = [[10, 0, 2, 2].into(), [10, 0, 3, 2].into()];
    world.multipath([172, 16, 0, 0].into(), 12, &gateways);
    let frames: Vec<_> = (0..1000u16)
        .map(|n| {
            let [a, b] = n.to_be_bytes();
            Packet {
                dst: [172, 16, a, b],
                ..Packet::default()
            }
            .from(1)
        })
        .collect();
    world.arrive("d1", &frames);
    let first = world.left();
    let at = |name: &str| first.iter().filter(|frame| frame.0 == name).count();
    assert_eq!(at("d2") + at("d3"), 1000);
    assert!((400..=600).contains(&at("d2")), "{}", at("d2"));
    world.arrive("d1", &frames);
    assert_eq!(
        world
            .left()
            .iter()
            .map(|f| (&f.0, &f.2))
            .collect::<Vec<_>>(),
        first.iter().map(|f| (&f.0, &f.2)).collect::<Vec<_>>()
    );
    // If one device goes down, the other gets all traffic.
    world.set_up("d3", false);
    world.arrive("d1", &frames);
    assert!(world.left().iter().all(|frame| frame.0 == "d2"));
}

#[test]
fn routes_follow_addresses_and_devices() {
    let mut world = World::router();
    let own = std::net::Ipv4Addr::from([10, 0, 1, 1]);
    assert_eq!(
        world.try_address(rtm::NEWADDR, "d1", own.into(), 24),
        errno::EEXIST
    );
    world.set_up("d2", false);
    world.arrive("d1", &[Packet::default().from(1)]);
    let (ty, code, ..) = icmp_of(&world.one().1);
    assert_eq!((ty, code), (3, 0));
    world.set_up("d2", true);
    world.neighbour("d2", [10, 0, 2, 2].into(), host_mac(2));
    world.arrive("d1", &[Packet::default().from(1)]);
    assert_eq!(world.one().0, "d2");
    assert_eq!(
        world.try_address(rtm::DELADDR, "d2", [10, 0, 2, 1].into(), 24),
        0
    );
    world.pass(10_000);
    world.arrive("d1", &[Packet::default().from(1)]);
    let (ty, code, ..) = icmp_of(&world.one().1);
    assert_eq!((ty, code), (3, 0));
}

#[test]
fn options_are_filled_in_or_refused() {
    let mut world = World::router();
    let with_options = |options: &[u8]| {
        let mut bytes = Packet::default().bytes();
        bytes[0] = 0x45 + (options.len() / 4) as u8;
        let total = (bytes.len() + options.len()) as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes.extend_from_slice(options);
        weir_packet::header::ipv4::fill_check(&mut bytes);
        [&ethernet(device_mac(1), host_mac(1), 0x0800)[..], &bytes].concat()
    };
    // Record route with room for one address.
    world.arrive("d1", &[with_options(&[7, 7, 4, 0, 0, 0, 0, 0])]);
    let (name, frame) = world.one();
    assert_eq!(name, "d2");
    assert!(verify(&frame[14..42]));
    assert_eq!(frame[34..42], [7, 7, 8, 10, 0, 2, 1, 0]);
    // An option that extends past the header.
    world.arrive("d1", &[with_options(&[7, 9, 4, 0])]);
    let (ty, code, rest, _) = icmp_of(&world.one().1);
    assert_eq!((ty, code, rest >> 24), (12, 0, 20));
    // A source route.
    world.arrive("d1", &[with_options(&[131, 7, 4, 10, 0, 2, 2, 0])]);
    assert!(world.left().is_empty());
    assert_eq!(world.dropped("d1", Place::Ipv4In, Reason::IP_INHDR), 2);
}

#[test]
fn we_hear_ourselves_by_the_loopback_device() {
    let mut world = World::router();
    let message = echo(1, 1, b"self");
    // A reply to an address of another of our devices goes through lo; nothing leaves.
    let packet = Packet {
        src: [10, 0, 1, 2],
        dst: [10, 0, 2, 1],
        protocol: 1,
        payload: &message,
        ..Packet::default()
    };
    world.arrive("d1", &[packet.from(1)]);
    let (_, frame) = world.one();
    let ip = Ipv4::new(&frame[14..]).unwrap();
    assert_eq!((ip.src(), ip.dst()), ([10, 0, 2, 1], HOST));
    // A broadcast request is ignored because of icmp_echo_ignore_broadcasts.
    let to_all = Packet {
        dst: [10, 0, 1, 255],
        ..packet
    };
    let mut frame = to_all.from(1);
    frame[..6].copy_from_slice(&BROADCAST);
    world.arrive("d1", std::slice::from_ref(&frame));
    assert!(world.left().is_empty());
    world.sysctl("net/ipv4/icmp_echo_ignore_broadcasts", "0");
    world.arrive("d1", &[frame]);
    let (_, frame) = world.one();
    assert_eq!(Ipv4::new(&frame[14..]).unwrap().src(), ROUTER);
}

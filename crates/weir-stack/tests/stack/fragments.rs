// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actions `ct` and `balance` and fragments: reassembly in a zone, tracking and translation of the whole packet, and
//! fragments again where it leaves. And the reasons of what they drop.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{Packet, World, device_mac, host_mac, ip, udp};
use weir_conntrack::Family;
use weir_netlink::tca::{self, ct, matchall, mirred};
use weir_netlink::{TcGen, TcMirred, TcMsg, Writer, nlm, rtm};
use weir_packet::DropReason as Reason;
use weir_packet::checksum::{checksum, verify, verify_v4, verify_v6};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::{Fragment, ipv6};
use weir_packet::header::transport::{fill_check_v6, udp as udp_header};
use weir_packet::header::{Ipv4, Ipv6};
use weir_stack::drops::Place;
use weir_stack::ipv4::WithIpv4;
use weir_stack::ipv6::WithIpv6;
use weir_tc::action::balance::{Ends, Listed, attr, bytes_of};

const SRC: [u8; 4] = [10, 0, 1, 2];
const DST: [u8; 4] = [10, 0, 2, 2];
const SRC6: [u8; 16] = [0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const DST6: [u8; 16] = [0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// `TC_ACT_PIPE`
const PIPE: i32 = 3;
/// `TC_ACT_STOLEN`
const STOLEN: i32 = 4;

/// What the filter does behind `ct`.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Pass,
    /// `mirred egress redirect dev d2`
    Redirect,
    /// `mirred egress mirror dev d2`
    Mirror,
}

/// The parameters of an action `ct commit`.
#[derive(Clone, Copy)]
struct Ct {
    zone: u16,
    /// The source is translated to this address.
    source: Option<[u8; 4]>,
    /// And to a port of this range.
    ports: Option<(u16, u16)>,
    then: Then,
}

/// Adds `matchall action ct commit ...` at the ingress of d1.
fn filter(world: &mut World, what: Ct) {
    filter_at(world, "d1", what);
}

fn filter_at(world: &mut World, name: &str, what: Ct) {
    let (ifindex, to) = (world.device(name).ifindex(), world.device("d2").ifindex());
    clsact(world, ifindex);
    matchall_at(world, ifindex, |out| {
        put_ct(out, what);
        if what.then != Then::Pass {
            put_mirred(out, what.then, to);
        }
    });
}

fn clsact(world: &mut World, ifindex: u32) {
    let clsact = TcMsg {
        ifindex: ifindex as i32,
        handle: 0xffff_0000,
        parent: 0xffff_fff1,
        ..TcMsg::default()
    };
    world.request(rtm::NEWQDISC, nlm::F_CREATE, |out| {
        out.fixed(&clsact);
        out.put_str(tca::KIND, "clsact");
    });
}

/// Adds `matchall` at the ingress of a device that has a clsact.
fn matchall_at(world: &mut World, ifindex: u32, actions: impl Fn(&mut Writer)) {
    let errno = world.request(rtm::NEWTFILTER, nlm::F_CREATE, |out| {
        out.fixed(&TcMsg {
            ifindex: ifindex as i32,
            parent: 0xffff_fff2,
            info: TcMsg::make_info(1, 3),
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, "matchall");
        let options = out.nest(tca::OPTIONS);
        let list = out.nest(matchall::ACT);
        actions(out);
        out.end(list);
        out.end(options);
    });
    assert_eq!(errno, 0);
}

fn put_ct(out: &mut Writer, what: Ct) {
    let action = out.nest(1);
    out.put_str(tca::act::KIND, "ct");
    let inside = out.nest(tca::act::OPTIONS);
    let control = if what.then == Then::Pass { 0 } else { PIPE };
    out.put_fixed(
        ct::PARMS,
        &TcGen {
            action: control,
            ..TcGen::default()
        },
    );
    let nat = match what.source {
        Some(_) => ct::ACT_NAT | ct::ACT_NAT_SRC,
        None => 0,
    };
    out.put(ct::ACTION, &(ct::ACT_COMMIT | nat).to_ne_bytes());
    out.put(ct::ZONE, &what.zone.to_ne_bytes());
    if let Some(address) = what.source {
        out.put(ct::NAT_IPV4_MIN, &address);
    }
    if let Some((first, last)) = what.ports {
        out.put(ct::NAT_PORT_MIN, &first.to_be_bytes());
        out.put(ct::NAT_PORT_MAX, &last.to_be_bytes());
    }
    out.end(inside);
    out.end(action);
}

fn put_mirred(out: &mut Writer, then: Then, ifindex: u32) {
    let action = out.nest(2);
    out.put_str(tca::act::KIND, "mirred");
    let inside = out.nest(tca::act::OPTIONS);
    let (eaction, control) = match then {
        Then::Redirect => (mirred::EGRESS_REDIR, STOLEN),
        _ => (mirred::EGRESS_MIRROR, 0),
    };
    let common = TcGen {
        action: control,
        ..TcGen::default()
    };
    out.put_fixed(
        mirred::PARMS,
        &TcMirred {
            common,
            eaction,
            ifindex,
        },
    );
    out.end(inside);
    out.end(action);
}

/// Splits a datagram into frames of the host behind d1, at these offsets in bytes.
fn pieces(payload: &[u8], at: &[usize], id: u16, dont_fragment: bool) -> Vec<Vec<u8>> {
    let ends = at.iter().skip(1).copied().chain([payload.len()]);
    let piece = |(&start, end): (&usize, usize)| {
        let more = u16::from(end < payload.len()) << 13;
        Packet {
            id,
            frag_off: more | (start / 8) as u16 | u16::from(dont_fragment) << 14,
            payload: &payload[start..end],
            ..Packet::default()
        }
        .from(1)
    };
    at.iter().zip(ends).map(piece).collect()
}

fn datagram(length: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..length as u32).map(|n| n as u8).collect();
    udp(SRC, DST, 5000, 53, &data)
}

/// Checks the headers of frames with fragments of one packet. Returns the lengths of the packets, and the payload.
fn join(frames: &[(String, u64, Vec<u8>)], device: &str) -> (Vec<usize>, Vec<u8>) {
    let (mut lengths, mut joined) = (Vec::new(), Vec::new());
    for (index, (name, _, frame)) in frames.iter().enumerate() {
        assert_eq!(name, device);
        let header = Ipv4::new(&frame[14..]).unwrap();
        assert!(verify(&frame[14..34]));
        assert_eq!(usize::from(header.total_len()) + 14, frame.len());
        assert_eq!(header.fragment_offset(), joined.len());
        assert_eq!(header.more_fragments(), index + 1 < frames.len());
        lengths.push(frame.len() - 14);
        joined.extend_from_slice(&frame[34..]);
    }
    (lengths, joined)
}

fn count(world: &World) -> u32 {
    world
        .ns
        .tc
        .conntrack_if_used()
        .map_or(0, |table| table.count())
}

const REDIRECT: Ct = Ct {
    zone: 5,
    source: None,
    ports: None,
    then: Then::Redirect,
};

#[test]
fn a_redirected_packet_leaves_in_fragments_of_the_original_size() {
    let mut world = World::router();
    filter(&mut world, REDIRECT);
    let payload = datagram(4000);
    let mut frames = pieces(&payload, &[0, 1000, 2000, 3000, 4000], 77, false);
    // The last one comes first, and one comes twice.
    frames.rotate_right(1);
    let last = frames.pop().unwrap();
    frames.push(frames[1].clone());
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    assert_eq!(
        (count(&world), world.ns.ipv4().fragments().held().0),
        (0, 1)
    );
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::DUP_FRAG), 1);
    world.arrive("d1", &[last]);
    let left = world.left();
    let (lengths, joined) = join(&left, "d2");
    // 4,008 bytes of payload in pieces of 1,000.
    assert_eq!(lengths, [1020, 1020, 1020, 1020, 28]);
    assert_eq!(joined, payload);
    for (_, _, frame) in &left {
        assert_eq!(frame[..14], ethernet(device_mac(1), host_mac(1), 0x0800));
        assert_eq!(Ipv4::new(&frame[14..]).unwrap().id(), 77);
    }
    assert_eq!(
        (count(&world), world.ns.ipv4().fragments().held()),
        (1, (0, 0))
    );
}

#[test]
fn fragments_fit_the_device_even_if_the_original_ones_were_longer() {
    let mut world = World::router();
    world.set_mtu("d2", 600);
    filter(&mut world, REDIRECT);
    let payload = datagram(2000);
    world.arrive("d1", &pieces(&payload, &[0, 1480], 7, true));
    let (lengths, joined) = join(&world.left(), "d2");
    assert_eq!(lengths, [596, 596, 596, 300]);
    assert_eq!(joined, payload);
}

#[test]
fn a_forwarded_packet_is_translated_as_a_whole_and_fragmented_again() {
    let mut world = World::router();
    let source = [10, 0, 2, 77];
    filter(
        &mut world,
        Ct {
            zone: 0,
            source: Some(source),
            ports: None,
            then: Then::Pass,
        },
    );
    let payload = datagram(4000);
    // DF on all fragments does not keep the stack from fragmenting again.
    world.arrive("d1", &pieces(&payload, &[0, 1480, 2960], 9, true));
    let left = world.left();
    let (lengths, joined) = join(&left, "d2");
    assert_eq!(lengths, [1500, 1500, 1068]);
    assert_eq!(&left[0].2[26..30], &source);
    assert_eq!(joined[8..], payload[8..]);
    assert!(verify_v4(source, DST, 17, &joined));
}

#[test]
fn a_mirrored_packet_is_fragmented_and_the_original_goes_on() {
    let mut world = World::router();
    filter(
        &mut world,
        Ct {
            then: Then::Mirror,
            ..REDIRECT
        },
    );
    let payload = datagram(1600);
    world.arrive("d1", &pieces(&payload, &[0, 800, 1600], 9, false));
    let left = world.left();
    // The copy in fragments of the original size, then the forwarded packet in those of the MTU.
    let hops: Vec<_> = left.iter().map(|(_, _, frame)| frame[22]).collect();
    assert_eq!(hops, [64, 64, 64, 63, 63]);
    assert_eq!(
        join(&left[..3], "d2"),
        (vec![820, 820, 28], payload.clone())
    );
    assert_eq!(join(&left[3..], "d2"), (vec![1500, 148], payload));
}

#[test]
fn zones_do_not_share_fragments() {
    let mut world = World::router();
    filter(&mut world, REDIRECT);
    filter_at(
        &mut world,
        "d2",
        Ct {
            zone: 6,
            ..REDIRECT
        },
    );
    let payload = datagram(2000);
    let frames = pieces(&payload, &[0, 1000], 3, false);
    world.arrive("d1", &frames[..1]);
    world.arrive("d2", &frames[1..]);
    assert_eq!((world.left().len(), count(&world)), (0, 0));
    assert_eq!(world.ns.ipv4().fragments().held().0, 2);
    world.arrive("d1", &frames[1..]);
    assert_eq!((world.left().len(), count(&world)), (2, 1));
}

#[test]
fn incomplete_packets_end_in_time() {
    let mut world = World::router();
    filter(&mut world, REDIRECT);
    let payload = datagram(2000);
    let mut frames = pieces(&payload, &[0, 1000], 3, false);
    frames.truncate(1);
    let to_us = Packet {
        dst: [10, 0, 1, 1],
        frag_off: 0x2000,
        payload: &payload[..1000],
        ..Packet::default()
    };
    frames.push(to_us.from(1));
    world.arrive("d1", &frames);
    world.pass(29_999);
    assert_eq!(
        (world.left().len(), world.ns.ipv4().fragments().held().0),
        (0, 2)
    );
    world.pass(1);
    // Only the destination of a packet reports it.
    let (name, frame) = world.one();
    assert_eq!((name.as_str(), &frame[34..36]), ("d1", &[11, 1][..]));
    assert_eq!(frame[30..34], SRC);
    assert_eq!(
        world.dropped("d1", Place::Ipv4Local, Reason::FRAG_REASM_TIMEOUT),
        2
    );
    assert_eq!(world.ns.ipv4().fragments().held(), (0, 0));
}

#[test]
fn fragments_take_bounded_memory() {
    let mut world = World::router();
    filter(&mut world, REDIRECT);
    let payload = datagram(2000);
    for id in 0..4000 {
        world.arrive("d1", &pieces(&payload, &[0, 1000], id, false)[..1]);
    }
    let (packets, octets) = world.ns.ipv4().fragments().held();
    assert!(octets <= (4 << 20) + 65_536, "{octets}");
    let refused = world.dropped("d1", Place::Ingress, Reason::NOMEM);
    assert_eq!(packets as u64 + refused, 4000);
    assert!(refused > 0);
}

#[test]
fn malformed_fragments_are_dropped_with_their_reason() {
    let mut world = World::router();
    filter(&mut world, REDIRECT);
    let payload = datagram(2000);
    // The header states more than there is.
    let mut cut = pieces(&payload, &[0, 1000], 1, false).remove(0);
    cut.truncate(200);
    // The fragment ends beyond 65,535 bytes.
    let beyond = Packet {
        frag_off: 0x1fff,
        payload: &payload[..1000],
        ..Packet::default()
    };
    let mut header = beyond.from(1);
    header[14] = 0x4f;
    header.truncate(14 + 30);
    world.arrive("d1", &[cut, beyond.from(1), header]);
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::IP_INHDR), 3);
    assert_eq!(world.ns.ipv4().fragments().held(), (0, 0));
}

/// The fragments of a UDP datagram over IPv6, of `step` bytes each.
fn pieces6(to: [u8; 16], length: usize, step: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let data: Vec<u8> = (0..length as u32).map(|n| n as u8).collect();
    let mut segment = udp_header(5000, 53, data.len()).to_vec();
    segment.extend(&data);
    fill_check_v6(SRC6, to, 17, &mut segment);
    let count = segment.len().div_ceil(step);
    let frame = |(index, part): (usize, &[u8])| {
        let mut frame = ethernet(device_mac(1), host_mac(1), 0x86dd).to_vec();
        frame.extend(ipv6(SRC6, to, 44, 64, 0, 0, 8 + part.len()));
        let offset = (index * step) as u16 | u16::from(index + 1 < count);
        frame.extend([17, 0]);
        frame.extend(offset.to_be_bytes());
        frame.extend([0, 0, 0, 9]);
        frame.extend(part);
        frame
    };
    (
        segment.chunks(step).enumerate().map(frame).collect(),
        segment,
    )
}

fn join6(frames: &[(String, u64, Vec<u8>)]) -> (Vec<usize>, Vec<u8>) {
    let (mut lengths, mut joined) = (Vec::new(), Vec::new());
    for (index, (name, _, frame)) in frames.iter().enumerate() {
        assert_eq!(name, "d2");
        let header = Ipv6::new(&frame[14..]).unwrap();
        assert_eq!(usize::from(header.payload_len()) + 54, frame.len());
        assert_eq!((header.next_header(), frame[54]), (44, 17));
        let fragment = Fragment::new(&frame[54..]).unwrap();
        assert_eq!(fragment.offset(), joined.len());
        assert_eq!(fragment.more(), index + 1 < frames.len());
        lengths.push(frame.len() - 14);
        joined.extend_from_slice(&frame[62..]);
    }
    (lengths, joined)
}

/// A router whose devices have IPv6 addresses.
fn router6() -> World {
    let mut world = World::new();
    world.sysctl("net/ipv6/conf/all/forwarding", "1");
    for n in [1, 2] {
        world.port(n);
        let name = format!("d{n}");
        world.address(&name, ip(&format!("fd0{n}::1")), 64);
        world.neighbour(&name, ip(&format!("fd0{n}::2")), host_mac(n));
    }
    // Addresses are no longer tentative.
    world.pass(5_000);
    world.left();
    world
}

#[test]
fn ipv6_fragments_are_reassembled_and_split_again() {
    let mut world = router6();
    filter(&mut world, REDIRECT);
    let (mut frames, segment) = pieces6(DST6, 3000, 1400);
    frames.reverse();
    world.arrive("d1", &frames);
    let (lengths, joined) = join6(&world.left());
    assert_eq!(lengths, [1448, 1448, 256]);
    assert_eq!((joined, count(&world)), (segment, 1));
    assert_eq!(world.ns.ipv6().tracked_fragments().held(), (0, 0));
}

#[test]
fn a_forwarded_ipv6_packet_is_fragmented_again() {
    let mut world = router6();
    filter(
        &mut world,
        Ct {
            then: Then::Pass,
            ..REDIRECT
        },
    );
    let (frames, segment) = pieces6(DST6, 3000, 1240);
    world.arrive("d1", &frames);
    let (lengths, joined) = join6(&world.left());
    // As many as the MTU of 1,500 allows.
    assert_eq!(lengths, [1496, 1496, 160]);
    assert!(verify_v6(SRC6, DST6, 17, &joined));
    assert_eq!((joined, count(&world)), (segment, 1));
}

#[test]
fn ipv6_fragments_too_long_for_the_device_are_dropped() {
    let mut world = router6();
    world.set_mtu("d2", 1300);
    filter(&mut world, REDIRECT);
    let (frames, _) = pieces6(DST6, 3000, 1400);
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    assert_eq!(world.dropped("d2", Place::Egress, Reason::PKT_TOO_BIG), 1);
}

#[test]
fn what_ct_drops_has_its_reason() {
    let mut world = World::router();
    filter(
        &mut world,
        Ct {
            zone: 0,
            source: Some([10, 0, 2, 77]),
            ports: Some((5000, 5001)),
            then: Then::Pass,
        },
    );
    let from = |n: u8| {
        let src = [10, 0, 1, n];
        let payload = udp(src, DST, 1000, 53, b"question");
        Packet {
            src,
            payload: &payload,
            ..Packet::default()
        }
        .from(1)
    };
    // Two ports serve two sources.
    world.arrive("d1", &[from(2), from(3), from(4)]);
    assert_eq!((world.left().len(), count(&world)), (2, 2));
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::CT_NO_PORT), 1);
    let mut arp = ethernet(device_mac(1), host_mac(1), 0x0806).to_vec();
    arp.extend([0; 46]);
    let mut cut = from(2);
    cut.truncate(14 + 19);
    world.arrive("d1", &[arp, cut]);
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::CT_NOT_IP), 1);
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::HDR_TRUNC), 1);
    assert_eq!(world.dropped("d1", Place::Ingress, Reason::TC_INGRESS), 0);
}

/// The service of the balancer, and its backend, the host behind d2.
const SERVICE: [u8; 4] = [192, 0, 2, 80];
const SERVICE6: [u8; 16] = [0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80];

/// Adds `balance` of UDP to the port 53 of the service over one backend, at the ingress of d1.
fn balance(world: &mut World) {
    let long = |[a, b, c, d]: [u8; 4]| {
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[a, b, c, d]);
        address
    };
    balance_of(world, Family::V4, [long(SERVICE), long(DST)]);
}

fn balance_of(world: &mut World, family: Family, [service, backend]: [[u8; 16]; 2]) {
    let ifindex = world.device("d1").ifindex();
    let ends = |address, port| Ends {
        family,
        protocol: 17,
        address,
        port,
    };
    clsact(world, ifindex);
    matchall_at(world, ifindex, |out| {
        let action = out.nest(1);
        out.put_str(tca::act::KIND, "balance");
        let inside = out.nest(tca::act::OPTIONS);
        out.put_fixed(attr::PARMS, &TcGen::default());
        out.put(attr::SERVICE, &ends(service, 53).to_bytes());
        let list = out.nest(attr::BACKENDS);
        let backend = Listed {
            weight: 1,
            ends: ends(backend, 5353),
        };
        out.put(attr::BACKEND, &bytes_of(&backend));
        out.end(list);
        out.end(inside);
        out.end(action);
    });
}

#[test]
fn a_balanced_packet_in_fragments_goes_to_its_backend_as_a_whole() {
    let mut world = World::router();
    balance(&mut world);
    let data: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    let payload = udp(SRC, SERVICE, 5000, 53, &data);
    let mut frames = pieces(&payload, &[0, 1480, 2960], 9, false);
    for frame in &mut frames {
        readdress(frame, SERVICE);
    }
    // The first one, with the ports, comes last.
    frames.rotate_left(1);
    let first = frames.pop().unwrap();
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    assert_eq!(world.ns.ipv4().fragments().held().0, 1);
    world.arrive("d1", &[first]);
    let left = world.left();
    let (lengths, joined) = join(&left, "d2");
    assert_eq!(lengths, [1500, 1500, 1068]);
    for (_, _, frame) in &left {
        assert_eq!((&frame[26..30], &frame[30..34]), (&SRC[..], &DST[..]));
    }
    assert_eq!(joined[..4], [0x13, 0x88, 0x14, 0xe9]);
    assert_eq!(joined[8..], payload[8..]);
    assert!(verify_v4(SRC, DST, 17, &joined));
    assert_eq!(world.ns.ipv4().fragments().held(), (0, 0));
}

#[test]
fn a_balanced_ipv6_packet_in_fragments_goes_to_its_backend_as_a_whole() {
    let mut world = router6();
    balance_of(&mut world, Family::V6, [SERVICE6, DST6]);
    let (mut frames, segment) = pieces6(SERVICE6, 3000, 1240);
    // The first one, with the ports, comes last.
    let first = frames.remove(0);
    world.arrive("d1", &frames);
    assert!(world.left().is_empty());
    assert_eq!(world.ns.ipv6().tracked_fragments().held().0, 1);
    world.arrive("d1", &[first]);
    let (lengths, joined) = join6(&world.left());
    assert_eq!(lengths, [1496, 1496, 160]);
    assert_eq!(joined[..4], [0x13, 0x88, 0x14, 0xe9]);
    assert_eq!(joined[8..], segment[8..]);
    assert!(verify_v6(SRC6, DST6, 17, &joined));
    assert_eq!(world.ns.ipv6().tracked_fragments().held(), (0, 0));
}

#[test]
fn fragments_of_others_pass_a_balancer_as_they_are() {
    let mut world = World::router();
    balance(&mut world);
    // The host behind d2 is the backend, and this packet goes there directly.
    let frames = pieces(&datagram(2000), &[0, 1480], 7, false);
    world.arrive("d1", &frames);
    let left = world.left();
    let (lengths, joined) = join(&left, "d2");
    assert_eq!((lengths, joined), (vec![1500, 548], datagram(2000)));
    // What comes from a backend's address may be an answer of the service.
    assert_eq!(world.ns.ipv4().fragments().held(), (0, 0));
    let mut answer = frames[0].clone();
    let length = answer.len();
    answer[26..30].copy_from_slice(&DST);
    answer[30..34].copy_from_slice(&[10, 0, 2, 9]);
    fix_header(&mut answer);
    assert_eq!(answer.len(), length);
    world.arrive("d1", &[answer]);
    assert!(world.left().is_empty());
    assert_eq!(world.ns.ipv4().fragments().held().0, 1);
}

/// Gives a frame another destination address.
fn readdress(frame: &mut [u8], to: [u8; 4]) {
    frame[30..34].copy_from_slice(&to);
    fix_header(frame);
}

fn fix_header(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let check = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
}

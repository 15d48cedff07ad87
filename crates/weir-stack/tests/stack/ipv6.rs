// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 end to end: frames in, frames and drops out.
//!
//! ```text
//! 2001:db8:1::2 -- lan0  router  wan0 -- 2001:db8:2::2
//!                  ::1           ::1
//! ```

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::Ipv6Addr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use weir_netlink::{ifa, nda, rta, rtm};
use weir_packet::DropReason;
use weir_packet::checksum::verify_v6;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::{FragmentMut, ipv6};
use weir_packet::header::ndisc::{
    NA_OVERRIDE, NA_ROUTER, NA_SOLICITED, Neighbour, advertisement, dad_solicitation, solicitation,
    solicited_node,
};
use weir_packet::header::transport::{TCP_SYN, fill_check_v6, tcp, udp};
use weir_packet::header::{Ethernet, Icmp, Ipv6, Tcp};
use weir_stack::clock::{MILLISECOND, SECOND};
use weir_stack::drops::{DropObserver, Dropped, Place};
use weir_stack::neigh::WithNeighbours;

type Mac = [u8; 6];

const LAN: Mac = [2, 0, 0, 1, 0, 1];
const HOST: Mac = [2, 0, 0, 1, 0, 2];
const WAN: Mac = [2, 0, 0, 2, 0, 1];
const SERVER: Mac = [2, 0, 0, 2, 0, 2];

/// The host's address on the LAN, the server's on the WAN.
const CLIENT: &str = "2001:db8:1::2";
const FAR: &str = "2001:db8:2::2";
const ROUTER: &str = "2001:db8:1::1";

/// The dropped packets in order: device, place, reason.
#[derive(Default)]
struct Drops(Mutex<Vec<(String, Place, DropReason)>>);

impl DropObserver for Drops {
    fn dropped(&self, dropped: &Dropped<'_>) {
        let drop = (dropped.device.name(), dropped.place, dropped.reason);
        self.0.lock().unwrap().push(drop);
    }
}

/// The router used by these tests.
struct World {
    world: crate::world::World,
    drops: Arc<Drops>,
}

impl Deref for World {
    type Target = crate::world::World;
    fn deref(&self) -> &crate::world::World {
        &self.world
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut crate::world::World {
        &mut self.world
    }
}

impl World {
    fn address(&mut self, name: &str, address: &str, nodad: bool) {
        let flags = if nodad { ifa::f::NODAD } else { 0 };
        let address = crate::world::ip(address);
        let errno = self.address_as(rtm::NEWADDR, name, address, 64, flags);
        assert_eq!(errno, 0);
        self.cpu.settle();
    }

    fn neighbour(&mut self, name: &str, address: &str, mac: Mac) {
        self.world.neighbour(name, crate::world::ip(address), mac);
    }

    fn mtu(&mut self, name: &str, mtu: u32) {
        self.set_mtu(name, mtu);
        self.cpu.settle();
    }

    fn refuse(&mut self, prefix: &str, kind: u8) {
        self.world.refuse(crate::world::ip(prefix), 48, kind);
    }

    fn sysctl(&mut self, path: &str, value: &str) {
        self.world.sysctl(path, value);
        self.cpu.settle();
    }

    fn receive(&mut self, name: &str, frames: &[Vec<u8>]) {
        self.arrive(name, frames);
    }

    fn run(&mut self, ns: u64) {
        self.pass(ns / MILLISECOND);
        self.cpu.settle();
    }

    /// Returns the frames sent since the last call, with their devices.
    fn sent(&mut self) -> Vec<(String, Vec<u8>)> {
        let left = self.left().into_iter();
        left.map(|(device, _, frame)| (device, frame)).collect()
    }

    /// Returns the packets dropped since the last call.
    fn drops(&mut self) -> Vec<(String, Place, DropReason)> {
        std::mem::take(&mut *self.drops.0.lock().unwrap())
    }

    /// Returns the only frame sent since the last call.
    fn one(&mut self, name: &str) -> Vec<u8> {
        let (device, frame) = self.world.one();
        assert_eq!(device, name);
        frame
    }

    /// Returns the state (`NUD_*`) and link-layer address of a neighbour.
    fn neighbour_state(&self, name: &str, address: &str) -> Option<(u8, Option<Mac>)> {
        let guard = self.stack.domain.pin();
        let key = self.device(name).key;
        let entry = self
            .ns
            .neighbours()
            .get(key, crate::world::ip(address), &guard)?;
        Some((entry.state(), entry.mac()))
    }
}

fn router() -> World {
    let world = crate::world::World::new();
    let drops = Arc::new(Drops::default());
    world.stack.observe_drops(drops.clone());
    let mut world = World { world, drops };
    world.sysctl("ipv6/conf/all/forwarding", "1");
    world.dummy("lan0", LAN);
    world.dummy("wan0", WAN);
    world.address("lan0", "2001:db8:1::1", true);
    world.address("wan0", "2001:db8:2::1", true);
    world.neighbour("lan0", CLIENT, HOST);
    world.neighbour("wan0", FAR, SERVER);
    // Wait for duplicate address detection of the link-local addresses to complete.
    world.run(3 * SECOND);
    world.sent();
    world.drops();
    world
}

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Builds a frame with an IPv6 packet; `limit` is its hop limit.
fn frame(to: Mac, from: Mac, src: &str, dst: &str, next: u8, limit: u8, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (ip(src).octets(), ip(dst).octets());
    let header = ipv6(src, dst, next, limit, 0, 0, payload.len());
    [&ethernet(to, from, 0x86dd)[..], &header, payload].concat()
}

/// Builds a frame from the host on the LAN.
fn from_client(dst: &str, next: u8, limit: u8, payload: &[u8]) -> Vec<u8> {
    frame(LAN, HOST, CLIENT, dst, next, limit, payload)
}

fn datagram(src: &str, dst: &str, len: usize) -> Vec<u8> {
    let mut segment = [&udp(4000, 5000, len)[..], &vec![7; len]].concat();
    fill_check_v6(ip(src).octets(), ip(dst).octets(), 17, &mut segment);
    segment
}

fn echo(src: &str, dst: &str, len: usize) -> Vec<u8> {
    let mut message = [&[128, 0, 0, 0, 0, 9, 0, 1][..], &vec![5; len]].concat();
    fill_check_v6(ip(src).octets(), ip(dst).octets(), 58, &mut message);
    message
}

/// The packet in a frame, after checking the properties that all our packets have.
struct Sent<'a> {
    eth: Ethernet<'a>,
    ip: Ipv6<'a>,
    payload: &'a [u8],
}

fn read(frame: &[u8]) -> Sent<'_> {
    let eth = Ethernet::new(frame).unwrap();
    assert_eq!(eth.ethertype(), 0x86dd);
    let ip = Ipv6::new(&frame[14..]).unwrap();
    let payload = &frame[54..];
    assert_eq!(usize::from(ip.payload_len()), payload.len());
    if ip.next_header() == 58 {
        assert!(verify_v6(ip.src(), ip.dst(), 58, payload));
    }
    Sent { eth, ip, payload }
}

/// Returns the type, code, second word and quoted packet of an ICMPv6 error to the client.
fn error(frame: &[u8]) -> (u8, u8, u32, Vec<u8>) {
    let sent = read(frame);
    assert_eq!(sent.eth.dst(), HOST);
    assert_eq!(sent.ip.src(), ip(ROUTER).octets());
    assert_eq!(sent.ip.dst(), ip(CLIENT).octets());
    assert_eq!(sent.ip.hop_limit(), 64);
    let icmp = Icmp::new(sent.payload).unwrap();
    let quote = sent.payload[8..].to_vec();
    (icmp.icmp_type(), icmp.code(), icmp.rest(), quote)
}

#[test]
fn packets_are_forwarded() {
    let mut world = router();
    let segment = datagram(CLIENT, FAR, 100);
    let frames: Vec<_> = (0..70)
        .map(|_| from_client(FAR, 17, 64, &segment))
        .collect();
    world.receive("lan0", &frames);
    let sent = world.sent();
    assert_eq!(sent.len(), 70);
    for (device, frame) in &sent {
        assert_eq!(device, "wan0");
        let sent = read(frame);
        assert_eq!((sent.eth.dst(), sent.eth.src()), (SERVER, WAN));
        assert_eq!((sent.ip.hop_limit(), sent.payload), (63, &segment[..]));
    }
    assert_eq!(world.drops(), []);
    world.sysctl("ipv6/conf/all/forwarding", "0");
    world.receive("lan0", &frames[..1]);
    let dropped = (
        "lan0".into(),
        Place::Ipv6Forward,
        DropReason::IP_INADDRERRORS,
    );
    assert_eq!((world.drops(), world.sent().len()), (vec![dropped], 0));
}

#[test]
fn routers_answer_with_errors() {
    let mut world = router();
    world.refuse("2001:db8:9::", rta::rtn::UNREACHABLE);
    world.refuse("2001:db8:8::", rta::rtn::PROHIBIT);
    world.refuse("2001:db8:7::", rta::rtn::BLACKHOLE);
    world.mtu("wan0", 1300);
    let mut ask = |dst: &str, limit: u8, len: usize| {
        let frame = from_client(dst, 17, limit, &datagram(CLIENT, dst, len));
        world.receive("lan0", std::slice::from_ref(&frame));
        let sent = world.sent();
        let answer = match &sent[..] {
            [] => None,
            [(device, answer)] => {
                assert_eq!(device, "lan0");
                let (ty, code, info, quote) = error(answer);
                let whole = &frame[14..];
                assert_eq!(quote, whole[..whole.len().min(1232)]);
                Some((ty, code, info))
            }
            more => panic!("{more:?}"),
        };
        let drops = world.drops();
        assert_eq!(drops.len(), 1, "{drops:?}");
        (answer, drops[0].1, drops[0].2)
    };
    assert_eq!(
        ask(FAR, 1, 10),
        (Some((3, 0, 0)), Place::Ipv6Forward, DropReason::IP_INHDR)
    );
    assert_eq!(
        ask("2001:db8:9::1", 9, 10),
        (Some((1, 0, 0)), Place::Ipv6In, DropReason::IP_INNOROUTES)
    );
    assert_eq!(
        ask("2001:db8:8::1", 9, 10),
        (Some((1, 1, 0)), Place::Ipv6In, DropReason::IP_INNOROUTES)
    );
    assert_eq!(
        ask("2001:db8:7::1", 9, 10),
        (None, Place::Ipv6In, DropReason::NOT_SPECIFIED)
    );
    assert_eq!(
        ask("2002::1", 9, 10),
        (Some((1, 0, 0)), Place::Ipv6In, DropReason::IP_INNOROUTES)
    );
    assert_eq!(
        ask(FAR, 9, 1400),
        (
            Some((2, 0, 1300)),
            Place::Ipv6Forward,
            DropReason::PKT_TOO_BIG
        )
    );
    assert_eq!(
        ask(ROUTER, 9, 10),
        (Some((1, 4, 0)), Place::Ipv6Local, DropReason::NO_SOCKET)
    );
}

#[test]
fn errors_are_limited() {
    let mut world = router();
    let frame = from_client("2002::1", 17, 9, &datagram(CLIENT, "2002::1", 10));
    world.receive("lan0", &vec![frame.clone(); 20]);
    // A burst of six to one address; a /64 gets four a second.
    assert_eq!(world.sent().len(), 6);
    world.run(249 * MILLISECOND);
    world.receive("lan0", std::slice::from_ref(&frame));
    assert_eq!(world.sent().len(), 0);
    world.run(2 * MILLISECOND);
    world.receive("lan0", &[frame.clone(), frame]);
    assert_eq!(world.sent().len(), 1);
    // "Packet too big" is not limited.
    world.mtu("wan0", 1280);
    let frame = from_client(FAR, 17, 9, &datagram(CLIENT, FAR, 1400));
    world.receive("lan0", &vec![frame; 20]);
    assert_eq!(world.sent().len(), 20);
}

#[test]
fn no_error_answers_an_error_or_a_group() {
    let mut world = router();
    let mut message = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0x60; 40]].concat();
    fill_check_v6(
        ip(CLIENT).octets(),
        ip("2002::1").octets(),
        58,
        &mut message,
    );
    world.receive("lan0", &[from_client("2002::1", 58, 9, &message)]);
    let to_group = datagram(CLIENT, "ff02::1", 4);
    let group = [0x33, 0x33, 0, 0, 0, 1];
    world.receive(
        "lan0",
        &[frame(group, HOST, CLIENT, "ff02::1", 17, 1, &to_group)],
    );
    let unspecified = datagram("::", FAR, 4);
    world.receive("lan0", &[frame(LAN, HOST, "::", FAR, 17, 9, &unspecified)]);
    assert_eq!(world.sent().len(), 0);
    let reasons: Vec<_> = world.drops().into_iter().map(|drop| drop.2).collect();
    use DropReason::{IP_INADDRERRORS, IP_INNOROUTES, NO_SOCKET};
    assert_eq!(reasons, [IP_INNOROUTES, NO_SOCKET, IP_INADDRERRORS]);
}

#[test]
fn link_local_sources_stay_on_their_link() {
    let mut world = router();
    world.neighbour("lan0", "fe80::2", HOST);
    let segment = datagram("fe80::2", FAR, 4);
    world.receive("lan0", &[frame(LAN, HOST, "fe80::2", FAR, 17, 9, &segment)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!(sent.ip.dst(), ip("fe80::2").octets());
    assert_eq!(sent.ip.src(), ip("fe80::ff:fe01:1").octets());
    let icmp = Icmp::new(sent.payload).unwrap();
    assert_eq!((icmp.icmp_type(), icmp.code()), (1, 2));
    assert_eq!(world.drops()[0].2, DropReason::IP_INADDRERRORS);
}

#[test]
fn malformed_headers_are_dropped() {
    let mut world = router();
    let segment = datagram(CLIENT, FAR, 4);
    let good = from_client(FAR, 17, 9, &segment);
    let mut reason = |frame: Vec<u8>| {
        world.receive("lan0", &[frame]);
        assert_eq!(world.sent().len(), 0);
        let drops = world.drops();
        assert_eq!((drops.len(), drops[0].1), (1, Place::Ipv6In));
        drops[0].2
    };
    let edit = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    use DropReason::{IP_INHDR, OTHERHOST, PKT_TOO_SMALL, UNHANDLED_PROTO};
    assert_eq!(reason(edit(14, 0x50)), UNHANDLED_PROTO);
    assert_eq!(reason(edit(19, 200)), PKT_TOO_SMALL, "payload length");
    assert_eq!(reason(good[..50].to_vec()), PKT_TOO_SMALL);
    assert_eq!(reason(edit(5, 9)), OTHERHOST);
    let from = |src: &str, dst: &str| frame(LAN, HOST, src, dst, 17, 9, &segment);
    assert_eq!(reason(from("::1", FAR)), IP_INHDR);
    assert_eq!(reason(from(CLIENT, "::1")), IP_INHDR);
    assert_eq!(reason(from("ff02::1", FAR)), IP_INHDR);
    assert_eq!(reason(from(CLIENT, "ff01::1")), IP_INHDR);
    assert_eq!(reason(from(CLIENT, "ff00::1")), IP_INHDR);
    world.sysctl("ipv6/conf/lan0/disable_ipv6", "1");
    world.sent();
    world.receive("lan0", &[good]);
    assert_eq!(world.drops()[0].2, DropReason::IPV6DISABLED);
}

#[test]
fn echo_requests_are_answered() {
    let mut world = router();
    let request = echo(CLIENT, ROUTER, 20);
    world.receive("lan0", &[from_client(ROUTER, 58, 64, &request)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!(sent.ip.src(), ip(ROUTER).octets());
    assert_eq!((sent.ip.hop_limit(), sent.payload[0]), (64, 129));
    assert_eq!(sent.payload[4..], request[4..]);
    // To an address of another device, and to all nodes, which is answered from an own address.
    let request = echo(CLIENT, "2001:db8:2::1", 0);
    world.receive("lan0", &[from_client("2001:db8:2::1", 58, 64, &request)]);
    let answer = world.one("lan0");
    assert_eq!(read(&answer).ip.src(), ip("2001:db8:2::1").octets());
    let request = echo(CLIENT, "ff02::1", 0);
    let group = [0x33, 0x33, 0, 0, 0, 1];
    let to_group = frame(group, HOST, CLIENT, "ff02::1", 58, 1, &request);
    world.receive("lan0", std::slice::from_ref(&to_group));
    let answer = world.one("lan0");
    assert_eq!(read(&answer).ip.src(), ip(ROUTER).octets());
    world.sysctl("ipv6/icmp/echo_ignore_multicast", "1");
    world.receive("lan0", &[to_group]);
    assert_eq!(world.sent().len(), 0);
    // A wrong checksum.
    let mut request = echo(CLIENT, ROUTER, 20);
    request[9] ^= 1;
    world.drops();
    world.receive("lan0", &[from_client(ROUTER, 58, 64, &request)]);
    assert_eq!(world.drops()[0].2, DropReason::ICMP_CSUM);
}

#[test]
fn tcp_is_reset() {
    let mut world = router();
    let mut segment = tcp(4000, 80, 1000, 0, TCP_SYN).to_vec();
    fill_check_v6(ip(CLIENT).octets(), ip(ROUTER).octets(), 6, &mut segment);
    world.receive("lan0", &[from_client(ROUTER, 6, 64, &segment)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert!(verify_v6(sent.ip.src(), sent.ip.dst(), 6, sent.payload));
    let reset = Tcp::new(sent.payload).unwrap();
    assert_eq!((reset.src_port(), reset.dst_port()), (80, 4000));
    assert_eq!((reset.seq(), reset.ack(), reset.flags()), (0, 1001, 0x14));
    assert_eq!(reset.window(), 0);
}

#[test]
fn extension_headers_are_walked() {
    let mut world = router();
    let mut ask = |next: u8, payload: &[u8]| {
        world.receive("lan0", &[from_client(ROUTER, next, 9, payload)]);
        let sent = world.sent();
        assert!(sent.len() < 2);
        let answer = sent.first().map(|(_, frame)| {
            let (ty, code, info, _) = error(frame);
            (ty, code, info)
        });
        let drops = world.drops();
        assert_eq!(drops.len(), 1, "{drops:?}");
        world.run(SECOND);
        (answer, drops[0].2)
    };
    use DropReason::{
        IP_INHDR, IP_NOPROTO, IPV6_BAD_EXTHDR, NO_SOCKET, NOT_SPECIFIED, UNHANDLED_PROTO,
    };
    let udp = datagram(CLIENT, ROUTER, 4);
    let with = |header: &[u8]| [header, &udp].concat();
    let port = Some((1, 4, 0));
    // Destination options, and a routing header with no segments left.
    assert_eq!(
        ask(60, &with(&[17, 0, 1, 4, 0, 0, 0, 0])),
        (port, NO_SOCKET)
    );
    assert_eq!(
        ask(43, &with(&[17, 0, 0, 0, 0, 0, 0, 0])),
        (port, NO_SOCKET)
    );
    // One with segments left is unknown; mobility and segment routing are off.
    assert_eq!(
        ask(43, &with(&[17, 0, 0, 1, 0, 0, 0, 0])),
        (Some((4, 0, 42)), IP_INHDR)
    );
    assert_eq!(
        ask(43, &with(&[17, 2, 4, 1, 0, 0, 0, 0])),
        (None, IPV6_BAD_EXTHDR)
    );
    // An unknown next header, also behind options; hop-by-hop options in the middle.
    assert_eq!(ask(200, &udp), (Some((4, 1, 6)), IP_NOPROTO));
    assert_eq!(
        ask(60, &with(&[200, 0, 1, 4, 0, 0, 0, 0])),
        (Some((4, 1, 40)), IP_NOPROTO)
    );
    assert_eq!(
        ask(60, &with(&[0, 0, 1, 4, 0, 0, 0, 0])),
        (Some((4, 1, 40)), IP_NOPROTO)
    );
    assert_eq!(ask(59, &[]), (None, NOT_SPECIFIED));
    // Unknown options are handled by their highest bits.
    assert_eq!(
        ask(60, &with(&[17, 0, 0x8a, 4, 0, 0, 0, 0])),
        (Some((4, 2, 42)), UNHANDLED_PROTO)
    );
    assert_eq!(
        ask(60, &with(&[17, 0, 0x4a, 4, 0, 0, 0, 0])),
        (None, UNHANDLED_PROTO)
    );
    // Hop-by-hop: router alert, an unknown option that must be reported, padding that is not zero.
    assert_eq!(ask(0, &with(&[17, 0, 5, 2, 0, 0, 1, 0])), (port, NO_SOCKET));
    assert_eq!(
        ask(0, &with(&[17, 0, 0xca, 4, 0, 0, 0, 0])),
        (Some((4, 2, 42)), UNHANDLED_PROTO)
    );
    assert_eq!(ask(0, &with(&[17, 0, 1, 4, 0, 0, 0, 1])), (None, IP_INHDR));
}

/// Splits a packet into fragments of `size` bytes.
fn fragments(next: u8, id: u32, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let cut = payload.chunks(size).enumerate().map(|(index, part)| {
        let mut header = [0; 8];
        FragmentMut::new(&mut header)
            .unwrap()
            .set_next_header(next)
            .set_frag_off((index * size) as u16 | u16::from(index + 1 < count))
            .set_id(id);
        [&header[..], part].concat()
    });
    cut.map(|fragment| from_client(ROUTER, 44, 64, &fragment))
        .collect()
}

#[test]
fn fragments_are_put_together_and_made() {
    let mut world = router();
    let request = echo(CLIENT, ROUTER, 4000);
    let mut frames = fragments(58, 7, &request, 1448);
    frames.reverse();
    frames.insert(1, frames[0].clone());
    world.receive("lan0", &frames);
    let sent = world.sent();
    assert_eq!(sent.len(), 3);
    let mut whole = Vec::new();
    for (index, (_, frame)) in sent.iter().enumerate() {
        let sent = read(frame);
        assert_eq!(sent.ip.next_header(), 44);
        let field = u16::from_be_bytes([sent.payload[2], sent.payload[3]]);
        assert_eq!(usize::from(field & !7), index * 1448);
        assert_eq!(field & 1, u16::from(index < 2));
        whole.extend(&sent.payload[8..]);
    }
    assert!(verify_v6(
        ip(ROUTER).octets(),
        ip(CLIENT).octets(),
        58,
        &whole
    ));
    assert_eq!((whole[0], &whole[4..]), (129, &request[4..]));
    let drops = world.drops();
    assert_eq!((drops.len(), drops[0].2), (1, DropReason::DUP_FRAG));
    // A datagram in one fragment.
    let request = echo(CLIENT, ROUTER, 40);
    world.receive("lan0", &fragments(58, 8, &request, 1448));
    assert_eq!(read(&world.one("lan0")).payload[0], 129);
}

#[test]
fn bad_fragments_are_refused() {
    let mut world = router();
    let request = echo(CLIENT, ROUTER, 4000);
    let frames = fragments(58, 7, &request, 1448);
    // A partial overlap drops the whole datagram.
    let overlap = fragments(58, 7, &request, 1440);
    world.receive("lan0", &[frames[0].clone(), overlap[1].clone()]);
    let reasons: Vec<_> = world.drops().into_iter().map(|drop| drop.2).collect();
    assert_eq!(reasons, [DropReason::DUP_FRAG; 2]);
    // If a datagram is not complete in time, its sender gets an error.
    world.receive("lan0", &frames[..2]);
    world.run(59 * SECOND);
    assert_eq!((world.sent().len(), world.drops().len()), (0, 0));
    world.run(2 * SECOND);
    let (ty, code, _, quote) = error(&world.one("lan0"));
    assert_eq!((ty, code, quote.len()), (3, 1, 1232));
    let reasons: Vec<_> = world.drops().into_iter().map(|drop| drop.2).collect();
    assert_eq!(reasons, [DropReason::FRAG_REASM_TIMEOUT; 2]);
    // A length that is not a multiple of eight; headers that do not fit into the first fragment.
    let odd = fragments(58, 9, &request, 1448)[0][..14 + 40 + 8 + 1001].to_vec();
    let mut odd = odd;
    odd[14 + 4..14 + 6].copy_from_slice(&1009u16.to_be_bytes());
    world.receive("lan0", &[odd]);
    let (ty, code, info, _) = error(&world.one("lan0"));
    assert_eq!((ty, code, info), (4, 0, 4));
    let short = fragments(6, 10, &request, 16);
    world.receive("lan0", &short[..1]);
    let (ty, code, info, _) = error(&world.one("lan0"));
    assert_eq!((ty, code, info), (4, 3, 0));
}

fn neighbour_message(from: Mac, src: &str, dst: &str, message: &[u8]) -> Vec<u8> {
    let to = match ip(dst).is_multicast() {
        true => weir_packet::header::ethernet::multicast_v6(ip(dst).octets()),
        false => LAN,
    };
    frame(to, from, src, dst, 58, 255, message)
}

#[test]
fn solicitations_are_answered() {
    let mut world = router();
    let group = Ipv6Addr::from(solicited_node(ip(ROUTER).octets())).to_string();
    let asker = "2001:db8:1::77";
    let mac = [2, 0, 0, 9, 9, 9];
    let octets = |text: &str| ip(text).octets();
    let message = solicitation(octets(asker), octets(&group), octets(ROUTER), Some(mac));
    world.receive("lan0", &[neighbour_message(mac, asker, &group, &message)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!((sent.eth.dst(), sent.ip.hop_limit()), (mac, 255));
    assert_eq!(sent.ip.src(), octets(ROUTER));
    let advertised = Neighbour::new(sent.payload).unwrap();
    assert_eq!(advertised.flags(), NA_ROUTER | NA_SOLICITED | NA_OVERRIDE);
    assert_eq!(sent.payload[24..], [2, 1, 2, 0, 0, 1, 0, 1]);
    assert_eq!(
        world.neighbour_state("lan0", asker),
        Some((nda::nud::DELAY as u8, Some(mac)))
    );
    // Sent to us alone: no override, no option.
    let message = solicitation(octets(asker), octets(ROUTER), octets(ROUTER), Some(mac));
    world.receive("lan0", &[neighbour_message(mac, asker, ROUTER, &message)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!(sent.payload.len(), 24);
    let advertised = Neighbour::new(sent.payload).unwrap();
    assert_eq!(advertised.flags(), NA_ROUTER | NA_SOLICITED);
    // Another host detects duplicates of our address.
    let message = dad_solicitation(octets(ROUTER));
    world.receive("lan0", &[neighbour_message(mac, "::", &group, &message)]);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!(sent.ip.dst(), octets("ff02::1"));
    let advertised = Neighbour::new(sent.payload).unwrap();
    assert_eq!(advertised.flags(), NA_ROUTER | NA_OVERRIDE);
    // Invalid messages: another hop limit or code, truncated options, another host's address.
    world.drops();
    let message = solicitation(octets(asker), octets(ROUTER), octets(ROUTER), Some(mac));
    let mut far = neighbour_message(mac, asker, ROUTER, &message);
    far[14 + 7] = 254;
    world.receive("lan0", &[far]);
    let bad = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut message = message.to_vec();
        edit(&mut message);
        fill_check_v6(octets(asker), octets(ROUTER), 58, &mut message);
        neighbour_message(mac, asker, ROUTER, &message)
    };
    world.receive("lan0", &[bad(&|message| message[1] = 1)]);
    world.receive("lan0", &[bad(&|message| message[25] = 0)]);
    world.receive("lan0", &[bad(&|message| message[23] = 99)]);
    let reasons: Vec<_> = world.drops().into_iter().map(|drop| drop.2).collect();
    use DropReason::{
        IPV6_NDISC_BAD_CODE, IPV6_NDISC_BAD_OPTIONS, IPV6_NDISC_HOP_LIMIT, IPV6_NDISC_NS_OTHERHOST,
    };
    assert_eq!(
        reasons,
        [
            IPV6_NDISC_HOP_LIMIT,
            IPV6_NDISC_BAD_CODE,
            IPV6_NDISC_BAD_OPTIONS,
            IPV6_NDISC_NS_OTHERHOST
        ]
    );
    assert_eq!(world.sent().len(), 0);
}

#[test]
fn neighbours_are_asked_for() {
    let mut world = router();
    let wanted = "2001:db8:2::5";
    let octets = |text: &str| ip(text).octets();
    let segment = datagram(CLIENT, wanted, 4);
    world.receive("lan0", &[from_client(wanted, 17, 9, &segment)]);
    let question = world.one("wan0");
    let sent = read(&question);
    assert_eq!(sent.ip.dst(), solicited_node(octets(wanted)));
    assert_eq!(sent.eth.dst(), [0x33, 0x33, 0xff, 0, 0, 5]);
    // The waiting packet's source is not ours, so the link-local address is used.
    assert_eq!(sent.ip.src(), octets("fe80::ff:fe02:1"));
    let asked = Neighbour::new(sent.payload).unwrap();
    assert_eq!(asked.target(), octets(wanted));
    assert_eq!(sent.payload[24..], [1, 1, 2, 0, 0, 2, 0, 1]);
    let mac = [2, 0, 0, 2, 0, 5];
    let (us, flags) = ("fe80::ff:fe02:1", NA_SOLICITED | NA_OVERRIDE);
    let message = advertisement(octets(wanted), octets(us), flags, octets(wanted), Some(mac));
    let answer = frame(WAN, mac, wanted, us, 58, 255, &message);
    world.receive("wan0", &[answer]);
    let forwarded = world.one("wan0");
    assert_eq!(read(&forwarded).eth.dst(), mac);
    assert_eq!(
        world.neighbour_state("wan0", wanted),
        Some((nda::nud::REACHABLE as u8, Some(mac)))
    );
    // A neighbour that does not answer: three solicitations, then the sender gets an error.
    let silent = "2001:db8:2::6";
    let segment = datagram(CLIENT, silent, 4);
    world.receive("lan0", &[from_client(silent, 17, 9, &segment)]);
    world.run(4 * SECOND);
    let sent = world.sent();
    let (questions, answers): (Vec<_>, Vec<_>) =
        sent.iter().partition(|(device, _)| device == "wan0");
    assert_eq!((questions.len(), answers.len()), (3, 1));
    let (ty, code, _, _) = error(&answers[0].1);
    assert_eq!((ty, code), (1, 3));
    let drops = world.drops();
    assert_eq!(
        drops,
        [(
            "wan0".to_owned(),
            Place::Neighbour,
            DropReason::NEIGH_FAILED
        )]
    );
}

#[test]
fn addresses_are_detected_twice() {
    let mut world = router();
    // A dummy device does no duplicate address detection by default.
    world.sysctl("net/ipv6/conf/all/accept_dad", "1");
    let octets = |text: &str| ip(text).octets();
    let wanted = "2001:db8:1::50";
    world.address("lan0", "2001:db8:1::50", false);
    let question = world.one("lan0");
    let sent = read(&question);
    assert_eq!(sent.ip.src(), [0; 16]);
    assert_eq!(sent.ip.dst(), solicited_node(octets(wanted)));
    // A tentative address is not used, and solicitations for it are not answered.
    world.receive(
        "lan0",
        &[from_client(wanted, 58, 64, &echo(CLIENT, wanted, 0))],
    );
    let replied = |world: &mut World| {
        let sent = world.sent();
        sent.iter()
            .filter(|(_, f)| read(f).payload[0] == 129)
            .count()
    };
    assert_eq!(replied(&mut world), 0);
    let mac = [2, 0, 0, 9, 9, 9];
    let message = advertisement(
        octets(wanted),
        octets("ff02::1"),
        NA_OVERRIDE,
        octets(wanted),
        Some(mac),
    );
    world.receive(
        "lan0",
        &[neighbour_message(mac, wanted, "ff02::1", &message)],
    );
    world.run(5 * SECOND);
    world.sent();
    let request = from_client(wanted, 58, 64, &echo(CLIENT, wanted, 0));
    world.receive("lan0", &[request]);
    assert_eq!(replied(&mut world), 0, "another host has it");
    // No other host has the second one.
    let own = "2001:db8:1::51";
    world.address("lan0", "2001:db8:1::51", false);
    world.run(2 * SECOND);
    world.sent();
    let request = from_client(own, 58, 64, &echo(CLIENT, own, 0));
    world.receive("lan0", &[request]);
    assert_eq!(replied(&mut world), 1);
}

#[test]
fn hosts_learn_of_shorter_ways() {
    let mut world = router();
    let octets = |text: &str| ip(text).octets();
    let other = [2, 0, 0, 1, 0, 9];
    world.neighbour("lan0", "fe80::9", other);
    let prefix = crate::world::ip("2001:db8:5::");
    world.route_by(prefix, 48, crate::world::ip("fe80::9"), "lan0");
    let far = "2001:db8:5::5";
    let frame = from_client(far, 17, 9, &datagram(CLIENT, far, 1000));
    world.receive("lan0", &vec![frame.clone(); 10]);
    let sent = world.sent();
    assert_eq!(
        sent.len(),
        16,
        "all are forwarded, with as many redirects as errors are allowed"
    );
    let redirects: Vec<_> = sent
        .iter()
        .filter(|(_, frame)| read(frame).ip.next_header() == 58)
        .collect();
    let told = read(&redirects[0].1);
    assert_eq!(redirects.len(), 6);
    assert_eq!((told.eth.dst(), told.ip.hop_limit()), (HOST, 255));
    assert_eq!(told.ip.src(), octets("fe80::ff:fe01:1"));
    assert_eq!(told.payload[0], 137);
    assert_eq!(told.payload[8..24], octets("fe80::9"));
    assert_eq!(told.payload[24..40], octets(far));
    assert_eq!(told.payload[40..48], [2, 1, 2, 0, 0, 1, 0, 9]);
    let len = usize::from(told.payload[49]) * 8;
    assert_eq!((told.payload[48], len), (4, told.payload.len() - 48));
    assert_eq!(told.payload[56..], frame[14..14 + len - 8]);
    assert_eq!(world.drops(), []);
}

#[test]
fn flows_share_the_hops_of_a_multipath_route() {
    let mut world = router();
    for last in 8..10 {
        let mac = [2, 0, 0, 2, 0, last];
        let gateway = format!("2001:db8:2::{last}");
        world.neighbour("wan0", &gateway, mac);
        world.route(
            crate::world::ip("2001:db8:6::"),
            48,
            crate::world::ip(&gateway),
        );
    }
    let mut ways = std::collections::BTreeMap::new();
    for host in 0..64 {
        let far = format!("2001:db8:6::{host:x}");
        let frame = from_client(&far, 17, 9, &datagram(CLIENT, &far, 4));
        world.receive("lan0", &[frame.clone(), frame]);
        let sent = world.sent();
        let to: Vec<_> = sent
            .iter()
            .map(|(_, frame)| read(frame).eth.dst())
            .collect();
        assert_eq!((to.len(), to[0]), (2, to[1]));
        *ways.entry(to[0]).or_insert(0) += 1;
    }
    assert_eq!(ways.len(), 2);
    assert!(ways.values().all(|flows| *flows > 16), "{ways:?}");
}

#[test]
fn a_link_too_small_for_ipv6_has_none() {
    let mut world = router();
    world.mtu("lan0", 1000);
    let frame = from_client(FAR, 17, 9, &datagram(CLIENT, FAR, 4));
    world.receive("lan0", std::slice::from_ref(&frame));
    assert_eq!(world.drops()[0].2, DropReason::IPV6DISABLED);
    world.mtu("lan0", 1500);
    world.address("lan0", "2001:db8:1::1", true);
    world.run(3 * SECOND);
    world.sent();
    world.receive("lan0", &[frame]);
    assert_eq!(world.sent().len(), 1);
}

#[test]
fn anycast_addresses_are_answered_from_others() {
    let mut world = router();
    let octets = |text: &str| ip(text).octets();
    let (subnet, asker) = ("2001:db8:1::", "2001:db8:1::77");
    let mac = [2, 0, 0, 9, 9, 9];
    world.receive(
        "lan0",
        &[from_client(subnet, 58, 64, &echo(CLIENT, subnet, 0))],
    );
    let answer = world.one("lan0");
    assert_eq!(read(&answer).ip.src(), octets(ROUTER));
    let group = Ipv6Addr::from(solicited_node(octets(subnet))).to_string();
    let message = solicitation(octets(asker), octets(&group), octets(subnet), Some(mac));
    world.receive("lan0", &[neighbour_message(mac, asker, &group, &message)]);
    // The answer waits for a random time below 0.8 s.
    assert_eq!(world.sent().len(), 0);
    world.pass(800);
    let answer = world.one("lan0");
    let sent = read(&answer);
    assert_eq!(sent.ip.src(), octets(ROUTER));
    let advertised = Neighbour::new(sent.payload).unwrap();
    assert_eq!(advertised.target(), octets(subnet));
    assert_eq!(advertised.flags(), NA_ROUTER | NA_SOLICITED);
    world.sysctl("ipv6/icmp/echo_ignore_anycast", "1");
    world.receive(
        "lan0",
        &[from_client(subnet, 58, 64, &echo(CLIENT, subnet, 0))],
    );
    assert_eq!(world.sent().len(), 0);
}

#[test]
fn an_error_to_ourselves_stays_here() {
    let mut world = router();
    let segment = datagram(ROUTER, "2002::1", 4);
    let spoofed = frame(LAN, HOST, ROUTER, "2002::1", 17, 9, &segment);
    world.receive("lan0", &[spoofed]);
    let dropped = ("lan0".into(), Place::Ipv6In, DropReason::IP_INNOROUTES);
    assert_eq!((world.sent().len(), world.drops()), (0, vec![dropped]));
    let totals = world.device("lo").totals();
    assert_eq!((totals.tx_packets, totals.rx_packets), (1, 1));
}

#[test]
fn the_sender_of_a_router_solicitation_becomes_a_neighbour() {
    let mut world = router();
    let octets = |text: &str| ip(text).octets();
    let (asker, mac) = ("fe80::77", [2, 0, 0, 9, 9, 9]);
    let mut message = [133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 9, 9, 9];
    fill_check_v6(octets(asker), octets("ff02::2"), 58, &mut message);
    let frame = neighbour_message(mac, asker, "ff02::2", &message);
    world.receive("lan0", std::slice::from_ref(&frame));
    assert_eq!((world.sent().len(), world.drops().len()), (0, 0));
    assert_eq!(
        world.neighbour_state("lan0", asker),
        Some((nda::nud::STALE as u8, Some(mac)))
    );
    // A host is not a member of the all-routers group.
    world.sysctl("ipv6/conf/all/forwarding", "0");
    world.receive("lan0", &[frame]);
    let dropped = ("lan0".into(), Place::Ipv6In, DropReason::IP_INADDRERRORS);
    assert_eq!(world.drops(), [dropped]);
}

/// A random number generator for [`no_frame_is_too_strange`] (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn no_frame_is_too_strange() {
    let mut world = router();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let udp = datagram(CLIENT, ROUTER, 4);
    let with = |header: &[u8]| [header, &udp].concat();
    let octets = |text: &str| ip(text).octets();
    let asked = solicitation(octets(CLIENT), octets(ROUTER), octets(ROUTER), Some(HOST));
    let mut seeds = fragments(58, 3, &echo(CLIENT, ROUTER, 3000), 1448);
    seeds.extend([
        from_client(FAR, 17, 64, &datagram(CLIENT, FAR, 30)),
        from_client(ROUTER, 58, 64, &echo(CLIENT, ROUTER, 30)),
        from_client(ROUTER, 60, 64, &with(&[17, 0, 0x8a, 4, 0, 0, 0, 0])),
        from_client(
            ROUTER,
            0,
            64,
            &with(&[60, 0, 5, 2, 0, 0, 1, 0, 17, 0, 1, 4, 0, 0, 0, 0]),
        ),
        from_client(ROUTER, 43, 64, &with(&[17, 0, 0, 1, 0, 0, 0, 0])),
        neighbour_message(HOST, CLIENT, ROUTER, &asked),
    ]);
    for _ in 0..100 {
        let mut frames = Vec::new();
        for _ in 0..64 {
            let mut frame = seeds[numbers.below(seeds.len())].clone();
            for _ in 0..numbers.below(4) {
                let at = 14 + numbers.below((frame.len() - 14).min(100));
                frame[at] = numbers.below(256) as u8;
            }
            if numbers.below(4) == 0 {
                frame.truncate(numbers.below(frame.len()));
            }
            frames.push(frame);
        }
        world.receive("lan0", &frames);
        world.run(50 * MILLISECOND);
        world.sent();
    }
    world.run(100 * SECOND);
    // The router still works.
    world.sent();
    let frame = from_client(FAR, 17, 64, &datagram(CLIENT, FAR, 30));
    world.receive("lan0", &[frame]);
    assert_eq!(read(&world.one("wan0")).ip.hop_limit(), 63);
}

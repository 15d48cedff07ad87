// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redirects received: packets of one destination take another gateway.

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::Ipv6Addr;

use crate::world::{Packet, World, host_mac, ip};
use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::icmp::{fill_check_v4, icmp};
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::transport::fill_check_v6;

type Mac = [u8; 6];

/// The link-layer address of the better gateway.
const BETTER: Mac = [2, 0, 0, 9, 0, 9];

/// That of a third one.
const OTHER: Mac = [2, 0, 0, 9, 0, 3];

/// Returns the link-layer addresses that the frames sent since the last call have as their destination.
fn to(world: &World) -> Vec<Mac> {
    let left = world.left().into_iter();
    left.map(|(_, _, frame)| Ethernet::new(&frame).unwrap().dst())
        .collect()
}

/// Returns the gateway of a packet that is forwarded to 192.0.2.N.
fn forwarded(world: &mut World, n: u8) -> Mac {
    let packet = Packet {
        dst: [192, 0, 2, n],
        ..Packet::default()
    };
    world.left();
    world.arrive("d1", &[packet.from(1)]);
    let to = to(world);
    assert_eq!(to.len(), 1);
    to[0]
}

#[test]
fn ipv4_packets_take_the_new_gateway_for_five_minutes() {
    let mut world = World::router();
    world.neighbour("d2", ip("10.0.2.9"), BETTER);
    world.route(ip("192.0.2.0"), 24, ip("10.0.2.2"));
    assert_eq!(forwarded(&mut world, 1), host_mac(2));
    let (own, dst) = ([10, 0, 2, 1], [192, 0, 2, 1]);
    let about = Packet {
        src: own,
        dst,
        protocol: 1,
        payload: &[0; 8],
        ..Packet::default()
    };
    let gateway = u32::from_be_bytes([10, 0, 2, 9]);
    let mut message = [&icmp(5, 1, gateway)[..], &about.bytes()].concat();
    fill_check_v4(&mut message);
    let redirect = |src| Packet {
        src,
        dst: own,
        protocol: 1,
        payload: &message,
        ..Packet::default()
    };
    // A host that is not the gateway has no say.
    world.arrive("d2", &[redirect([10, 0, 2, 77]).from(2)]);
    assert_eq!(forwarded(&mut world, 1), host_mac(2));
    world.arrive("d2", &[redirect([10, 0, 2, 2]).from(2)]);
    assert_eq!(forwarded(&mut world, 1), BETTER);
    assert_eq!(forwarded(&mut world, 2), host_mac(2));
    // An echo reply of ours as well.
    let request = crate::world::echo(1, 1, &[]);
    let request = Packet {
        src: dst,
        dst: own,
        protocol: 1,
        payload: &request,
        ..Packet::default()
    };
    world.left();
    world.arrive("d2", &[request.from(2)]);
    assert_eq!(to(&world), [BETTER]);
    world.pass(299_000);
    assert_eq!(forwarded(&mut world, 1), BETTER);
    world.pass(2_000);
    assert_eq!(forwarded(&mut world, 1), host_mac(2));
    // Another route has none.
    world.arrive("d2", &[redirect([10, 0, 2, 2]).from(2)]);
    assert_eq!(forwarded(&mut world, 1), BETTER);
    world.neighbour("d2", ip("10.0.2.3"), OTHER);
    world.route(ip("192.0.2.0"), 25, ip("10.0.2.3"));
    assert_eq!(forwarded(&mut world, 1), OTHER);
}

const LAN: Mac = [2, 0, 0, 1, 0, 1];
const ROUTER: Mac = [2, 0, 0, 1, 0, 2];
const OWN: &str = "2001:db8:1::1";

fn octets(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

/// Builds a frame with an ICMPv6 message from the router.
fn message(src: &str, limit: u8, message: &[u8]) -> Vec<u8> {
    let (src, dst) = (octets(src), octets(OWN));
    let mut message = message.to_vec();
    fill_check_v6(src, dst, 58, &mut message);
    let header = ipv6(src, dst, 58, limit, 0, 0, message.len());
    [&ethernet(LAN, ROUTER, 0x86dd)[..], &header, &message].concat()
}

/// Returns the first hop of a reply to an address.
fn replied(world: &mut World, far: &str) -> Mac {
    world.left();
    let request = message(far, 64, &[128, 0, 0, 0, 0, 9, 0, 1]);
    world.arrive("lan0", &[request]);
    let to = to(world);
    assert_eq!(to.len(), 1);
    to[0]
}

/// Returns a redirect with the target's link-layer address.
fn redirect(target: &str, destination: &str) -> Vec<u8> {
    let about = ipv6(octets(OWN), octets(destination), 58, 64, 0, 0, 8);
    let mut redirect = vec![137, 0, 0, 0, 0, 0, 0, 0];
    redirect.extend(octets(target));
    redirect.extend(octets(destination));
    redirect.extend([2, 1]);
    redirect.extend(BETTER);
    redirect.extend([4, 7, 0, 0, 0, 0, 0, 0]);
    redirect.extend(about);
    redirect.extend([129, 0, 0, 0, 0, 9, 0, 1]);
    redirect
}

#[test]
fn ipv6_packets_take_the_new_hop_as_long_as_it_is_used() {
    let mut world = World::new();
    world.dummy("lan0", LAN);
    // Nobody answers probes.
    let delay = "net/ipv6/neigh/lan0/delay_first_probe_time";
    world.sysctl(delay, "10000");
    world.address("lan0", ip(OWN), 64);
    world.neighbour("lan0", ip("fe80::1"), ROUTER);
    world.route_by(ip("2001:db8:9::"), 48, ip("fe80::1"), "lan0");
    world.pass(3_000);
    let (far, near) = ("2001:db8:9::1", "2001:db8:9::2");
    assert_eq!(replied(&mut world, far), ROUTER);
    world.arrive(
        "lan0",
        &[message("fe80::5", 255, &redirect("fe80::9", far))],
    );
    assert_eq!(replied(&mut world, far), ROUTER, "it is not the router's");
    world.arrive(
        "lan0",
        &[message("fe80::1", 255, &redirect("fe80::9", far))],
    );
    assert_eq!(replied(&mut world, far), BETTER);
    assert_eq!(replied(&mut world, near), ROUTER);
    world.arrive("lan0", &[message("fe80::1", 255, &redirect(near, near))]);
    assert_eq!(replied(&mut world, near), BETTER, "it is on the link");
    // Each use makes it stay.
    for _ in 0..4 {
        world.pass(50_000);
        assert_eq!(replied(&mut world, far), BETTER);
    }
    assert_eq!(replied(&mut world, near), ROUTER, "nothing was sent to it");
    world.pass(91_000);
    assert_eq!(replied(&mut world, far), ROUTER);
}

#[test]
fn malformed_ipv6_redirects_change_nothing() {
    let mut world = World::new();
    world.dummy("lan0", LAN);
    world.address("lan0", ip(OWN), 64);
    world.neighbour("lan0", ip("fe80::1"), ROUTER);
    world.route_by(ip("2001:db8:9::"), 48, ip("fe80::1"), "lan0");
    world.pass(3_000);
    let far = "2001:db8:9::1";
    let whole = redirect("fe80::9", far);
    // With the first 40 bytes alone it is about the destination and gives no address.
    for len in (1..whole.len()).filter(|len| *len != 40 && *len != 48) {
        world.arrive("lan0", &[message("fe80::1", 255, &whole[..len])]);
        assert_eq!(replied(&mut world, far), ROUTER, "{len} bytes");
    }
    world.arrive("lan0", &[message("fe80::1", 64, &whole)]);
    assert_eq!(
        replied(&mut world, far),
        ROUTER,
        "it has come over a router"
    );
}

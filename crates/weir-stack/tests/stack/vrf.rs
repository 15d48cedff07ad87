// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of VRFs: two domains with the same addresses, routes between tables, and our host's answers.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::net::IpAddr;

use crate::world::{Packet, World, device_mac, echo, host_mac, ip};
use weir_netlink::ifla::vrf;
use weir_netlink::{IfInfoMsg, RtMsg, errno, ifla, nlm, rta, rtm};
use weir_packet::header::icmp::{ICMP_DEST_UNREACH, ICMP_ECHO, ICMP_ECHOREPLY};

fn link(world: &mut World, flags: u16, fill: impl FnOnce(&mut weir_netlink::Writer)) -> i32 {
    world.request(rtm::NEWLINK, flags, |out| {
        out.fixed(&IfInfoMsg::default());
        fill(out);
    })
}

fn add_vrf(world: &mut World, name: &str, table: u32) {
    let added = link(world, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.put_str(ifla::IFNAME, name);
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "vrf");
        let data = out.nest(ifla::info::DATA);
        out.put_u32(vrf::TABLE, table);
        out.end(data);
        out.end(info);
    });
    assert_eq!(added, 0);
    world.set_up(name, true);
}

fn enslave(world: &mut World, name: &str, master: Option<&str>) -> i32 {
    let index = master.map_or(0, |master| world.device(master).ifindex());
    link(world, 0, |out| {
        out.put_str(ifla::IFNAME, name);
        out.put_u32(ifla::MASTER, index);
    })
}

/// Adds a route to `dst` in a table, by a gateway or by a device.
fn route(world: &mut World, table: u32, dst: (&str, u8), gateway: Option<&str>, device: &str) {
    let oif = world.device(device).ifindex();
    let dst_ip = ip(dst.0);
    let added = world.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&RtMsg {
            family: if dst_ip.is_ipv6() { 10 } else { 2 },
            dst_len: dst.1,
            protocol: rta::prot::STATIC,
            scope: if gateway.is_some() {
                0
            } else {
                rta::scope::LINK
            },
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        });
        out.put_u32(rta::TABLE, table);
        out.put_ip(rta::DST, dst_ip);
        if let Some(gateway) = gateway {
            out.put_ip(rta::GATEWAY, ip(gateway));
        }
        out.put_u32(rta::OIF, oif);
    });
    assert_eq!(added, 0, "{dst:?}");
}

/// Makes the VRFs red (table 10) and blue (table 20). Each has two ports, `d1` and `d2`, `d3` and `d4`, with the same
/// addresses 10.0.1.1/24 and 10.0.2.1/24.
fn two_domains() -> World {
    let mut world = World::ipv4_only();
    world.sysctl("net/ipv4/ip_forward", "1");
    add_vrf(&mut world, "red", 10);
    add_vrf(&mut world, "blue", 20);
    for n in 1..=4 {
        let name = format!("d{n}");
        world.dummy(&name, device_mac(n));
        world.sysctl(&format!("net/ipv4/conf/{name}/forwarding"), "1");
        let master = if n < 3 { "red" } else { "blue" };
        assert_eq!(enslave(&mut world, &name, Some(master)), 0);
        let net = (n - 1) % 2 + 1;
        world.address(&name, ip(&format!("10.0.{net}.1")), 24);
        world.neighbour(&name, ip(&format!("10.0.{net}.2")), host_mac(n));
    }
    world.left();
    world
}

fn ping(n: u8, src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
    Packet {
        src,
        dst,
        protocol: 1,
        payload: &echo(7, 1, b"ping"),
        ..Packet::default()
    }
    .from(n)
}

/// Returns the device, the addresses and the ICMP type of a sent IPv4 frame.
fn shape((name, frame): &(String, Vec<u8>)) -> (&str, [u8; 4], [u8; 4], u8) {
    let octets = |at: usize| *frame[at..].first_chunk::<4>().unwrap();
    (name, octets(26), octets(30), frame[34])
}

#[test]
fn the_same_addresses_in_two_domains() {
    let mut world = two_domains();
    for (from, to) in [(1, "d2"), (3, "d4"), (2, "d1"), (4, "d3")] {
        let net = (from - 1) % 2 + 1;
        let (src, dst) = ([10, 0, net, 2], [10, 0, 3 - net, 2]);
        world.arrive(&format!("d{from}"), &[ping(from, src, dst)]);
        assert_eq!(shape(&world.one()), (to, src, dst, ICMP_ECHO));
    }
    // A VRF counts what its ports receive, without the Ethernet header.
    let red = world.device("red").totals();
    assert_eq!((red.rx_packets, red.rx_bytes), (2, 2 * 32));
    // Out of a VRF, the prefix of d2 is in the main table.
    assert_eq!(enslave(&mut world, "d2", None), 0);
    world.left();
    world.arrive("d1", &[ping(1, [10, 0, 1, 2], [10, 0, 2, 2])]);
    let sent = world.one();
    // Without a route of last resort, the search goes on in the main table: there the host behind d2 is asked for.
    assert_eq!((&*sent.0, &sent.1[12..14]), ("d2", &[8, 6][..]));
}

#[test]
fn our_host_answers_in_the_domain_of_the_request() {
    let mut world = two_domains();
    for (n, dst) in [(1, [10, 0, 1, 1]), (3, [10, 0, 1, 1]), (1, [10, 0, 2, 1])] {
        let src = [10, 0, 1, 2];
        world.arrive(&format!("d{n}"), &[ping(n, src, dst)]);
        let name = format!("d{n}");
        assert_eq!(shape(&world.one()), (&*name, dst, src, ICMP_ECHOREPLY));
    }
    // An address of the VRF itself belongs to its ports only.
    world.address("red", ip("10.9.9.9"), 32);
    world.left();
    world.arrive("d1", &[ping(1, [10, 0, 1, 2], [10, 9, 9, 9])]);
    assert_eq!(shape(&world.one()).3, ICMP_ECHOREPLY);
    world.arrive("d3", &[ping(3, [10, 0, 1, 2], [10, 9, 9, 9])]);
    let sent = world.one();
    assert_eq!((shape(&sent).0, shape(&sent).3), ("d3", ICMP_DEST_UNREACH));
}

#[test]
fn arp_answers_for_addresses_of_the_own_domain() {
    let mut world = two_domains();
    world.address("d4", ip("10.0.1.77"), 32);
    world.left();
    let request = |n: u8, to: u8| {
        let mut request = [[0xff; 6], host_mac(n)].concat();
        request.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend_from_slice(&host_mac(n));
        request.extend_from_slice(&[10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 1, to]);
        request.resize(60, 0);
        request
    };
    for (n, to, answered) in [(1, 1, true), (3, 1, true), (3, 77, true), (1, 77, false)] {
        world.arrive(&format!("d{n}"), &[request(n, to)]);
        assert_eq!(!world.left().is_empty(), answered, "d{n} .{to}");
    }
}

#[test]
fn routes_lead_into_a_vrf_and_out_of_it() {
    let mut world = two_domains();
    world.dummy("d5", device_mac(5));
    world.sysctl("net/ipv4/conf/d5/forwarding", "1");
    world.sysctl("net/ipv4/conf/red/forwarding", "1");
    world.address("d5", ip("10.0.5.1"), 24);
    world.neighbour("d5", ip("10.0.5.2"), host_mac(5));
    route(&mut world, 254, ("10.0.2.0", 24), None, "red");
    route(&mut world, 10, ("10.0.5.0", 24), None, "d5");
    route(&mut world, 10, ("10.6.0.0", 16), Some("10.0.2.2"), "d2");
    world.left();
    let (outside, inside) = ([10, 0, 5, 2], [10, 0, 2, 2]);
    world.arrive("d5", &[ping(5, outside, inside)]);
    let sent: Vec<_> = world
        .left()
        .into_iter()
        .map(|(name, _, frame)| (name, frame))
        .collect();
    let names: Vec<_> = sent.iter().map(|sent| &*sent.0).collect();
    assert_eq!(names, ["d2"]);
    assert_eq!(shape(&sent[0]), ("d2", outside, inside, ICMP_ECHO));
    // The TTL was decremented once, and the frame is for the host behind the port.
    assert_eq!((sent[0].1[22], &sent[0].1[..6]), (63, &host_mac(2)[..]));
    world.arrive("d2", &[ping(2, inside, outside)]);
    assert_eq!(shape(&world.one()), ("d5", inside, outside, ICMP_ECHO));
    // A packet from outside to an address of a port.
    world.arrive("d5", &[ping(5, outside, [10, 0, 2, 1])]);
    let (name, _, frame) = world.left().pop().unwrap();
    assert_eq!(
        shape(&(name, frame)),
        ("d5", [10, 0, 2, 1], outside, ICMP_ECHOREPLY)
    );
    // VRFs that lead to each other end the packet.
    route(&mut world, 10, ("10.8.0.0", 16), None, "blue");
    route(&mut world, 20, ("10.8.0.0", 16), None, "red");
    world.arrive("d1", &[ping(1, [10, 0, 1, 2], [10, 8, 0, 1])]);
    let sent = world.left();
    assert!(sent.len() < 100, "{}", sent.len());
}

#[test]
fn ipv6_is_routed_in_the_domain() {
    let mut world = World::router();
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "0");
    world.sysctl("net/ipv6/conf/all/forwarding", "1");
    add_vrf(&mut world, "red", 10);
    for n in [7, 8] {
        let name = format!("d{n}");
        world.dummy(&name, device_mac(n));
        assert_eq!(enslave(&mut world, &name, Some("red")), 0);
        world.sysctl(&format!("net/ipv6/conf/{name}/forwarding"), "1");
        world.sysctl(&format!("net/ipv6/conf/{name}/accept_dad"), "0");
        world.address(&name, ip(&format!("fd00:{n}::1")), 64);
        world.neighbour(&name, ip(&format!("fd00:{n}::2")), host_mac(n));
    }
    world.pass(5_000);
    world.left();
    let packet = |to: IpAddr| {
        let IpAddr::V6(to) = to else { panic!() };
        let IpAddr::V6(from) = ip("fd00:7::2") else {
            panic!()
        };
        let payload = [9, 9, 9, 9];
        let header = weir_packet::header::ipv6::ipv6(
            from.octets(),
            to.octets(),
            253,
            64,
            0,
            0,
            payload.len(),
        );
        let mut frame = [device_mac(7), host_mac(7)].concat();
        frame.extend_from_slice(&[0x86, 0xdd]);
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&payload);
        frame
    };
    world.arrive("d7", &[packet(ip("fd00:8::2"))]);
    assert_eq!(world.one().0, "d8");
    let table = world.device("red").l3_table();
    assert_eq!(table, 10);
    assert_eq!(enslave(&mut world, "red", Some("red")), errno::EINVAL);
    assert_eq!(enslave(&mut world, "lo", Some("red")), errno::EOPNOTSUPP);
}

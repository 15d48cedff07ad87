// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast and broadcast.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at};
use libc::{
    AF_INET, AF_INET6, EACCES, EADDRINUSE, EADDRNOTAVAIL, EINVAL, ENODEV, SOL_IP, SOL_IPV6,
    SOL_SOCKET,
};

fn mreq(group: [u8; 4], own: [u8; 4]) -> Vec<u8> {
    [group, own].concat()
}

#[test]
fn members_of_an_ipv4_group_get_its_datagrams() {
    let mut world = World::new();
    let member = world.udp(1, AF_INET);
    world.bind(&member, &at("0.0.0.0", 5000)).unwrap();
    let stranger = world.udp(1, AF_INET);
    world
        .set_int(&member, SOL_SOCKET, libc::SO_REUSEADDR, 1)
        .unwrap();
    world
        .set_int(&stranger, SOL_SOCKET, libc::SO_REUSEADDR, 1)
        .unwrap();
    world.bind(&stranger, &at("0.0.0.0", 5000)).unwrap();
    world
        .set_int(&stranger, SOL_IP, libc::IP_MULTICAST_ALL, 0)
        .unwrap();
    let join = libc::IP_ADD_MEMBERSHIP;
    let ours = mreq([239, 1, 1, 1], [10, 0, 0, 2]);
    assert_eq!(
        world.set(&member, SOL_IP, join, &mreq([10, 0, 0, 9], [0; 4])),
        Err(EINVAL)
    );
    assert_eq!(world.set(&member, SOL_IP, join, &ours[..7]), Err(EINVAL));
    assert_eq!(
        world.set(&member, SOL_IP, join, &mreq([239, 1, 1, 1], [9; 4])),
        Err(ENODEV)
    );
    world.set(&member, SOL_IP, join, &ours).unwrap();
    assert_eq!(world.set(&member, SOL_IP, join, &ours), Err(EADDRINUSE));
    let client = world.udp(0, AF_INET);
    world
        .set(&client, SOL_IP, libc::IP_MULTICAST_IF, &[10, 0, 0, 1])
        .unwrap();
    world
        .send_to(&client, &at("239.1.1.1", 5000), b"all")
        .unwrap();
    world.pass(10);
    let got = member.one();
    assert_eq!(
        (&got.from[4..8], &got.data[..]),
        (&[10, 0, 0, 1][..], &b"all"[..])
    );
    assert!(stranger.got().is_empty());
    world
        .set(&member, SOL_IP, libc::IP_DROP_MEMBERSHIP, &ours)
        .unwrap();
    assert_eq!(
        world.set(&member, SOL_IP, libc::IP_DROP_MEMBERSHIP, &ours),
        Err(EADDRNOTAVAIL)
    );
    world
        .send_to(&client, &at("239.1.1.1", 5000), b"none")
        .unwrap();
    world.pass(10);
    assert!(member.got().is_empty());
}

#[test]
fn a_sender_that_is_a_member_gets_a_copy() {
    let mut world = World::new();
    for (family, group) in [(AF_INET, "239.1.1.1"), (AF_INET6, "ff02::99")] {
        let socket = world.udp(0, family);
        let v6 = family == AF_INET6;
        world
            .bind(&socket, &at(if v6 { "::" } else { "0.0.0.0" }, 5000))
            .unwrap();
        let index = world.index(0, "v0");
        let bytes = index.to_ne_bytes();
        if v6 {
            let mut join = at(group, 0)[8..24].to_vec();
            join.extend(bytes);
            world
                .set(&socket, SOL_IPV6, libc::IPV6_ADD_MEMBERSHIP, &join)
                .unwrap();
            world
                .set(&socket, SOL_IPV6, libc::IPV6_MULTICAST_IF, &bytes)
                .unwrap();
        } else {
            let mut join = vec![239, 1, 1, 1, 0, 0, 0, 0];
            join.extend(bytes);
            world
                .set(&socket, SOL_IP, libc::IP_ADD_MEMBERSHIP, &join)
                .unwrap();
            world
                .set(&socket, SOL_IP, libc::IP_MULTICAST_IF, &[10, 0, 0, 1])
                .unwrap();
        }
        world.send_to(&socket, &at(group, 5000), b"me too").unwrap();
        world.pass(10);
        assert_eq!(socket.one().data, b"me too", "{group}");
        match v6 {
            true => world
                .set_int(&socket, SOL_IPV6, libc::IPV6_MULTICAST_LOOP, 0)
                .unwrap(),
            false => world
                .set_int(&socket, SOL_IP, libc::IP_MULTICAST_LOOP, 0)
                .unwrap(),
        }
        world.send_to(&socket, &at(group, 5000), b"not me").unwrap();
        world.pass(10);
        assert!(socket.got().is_empty(), "{group}");
        world.close(&socket);
    }
}

#[test]
fn sources_are_selected() {
    let mut world = World::new();
    world.address(0, "v0", [10, 0, 0, 3].into(), 24);
    let member = world.udp(1, AF_INET);
    world.bind(&member, &at("239.1.1.1", 5000)).unwrap();
    // struct ip_mreq_source: group, device, source.
    let join = [[239, 1, 1, 1], [10, 0, 0, 2], [10, 0, 0, 3]].concat();
    world
        .set(&member, SOL_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &join)
        .unwrap();
    for (source, expected) in [("10.0.0.1", 0), ("10.0.0.3", 1)] {
        let client = world.udp(0, AF_INET);
        world.bind(&client, &at(source, 0)).unwrap();
        world
            .send_to(&client, &at("239.1.1.1", 5000), b"x")
            .unwrap();
        world.pass(10);
        assert_eq!(member.got().len(), expected, "{source}");
    }
}

#[test]
fn broadcasts_need_leave_and_reach_all() {
    let mut world = World::new();
    let servers: Vec<_> = (0..2)
        .map(|host| {
            let server = world.udp(host, AF_INET);
            world.bind(&server, &at("0.0.0.0", 67)).unwrap();
            server
        })
        .collect();
    let client = world.udp(0, AF_INET);
    for to in ["10.0.0.255", "255.255.255.255"] {
        world
            .set_int(&client, SOL_SOCKET, libc::SO_BROADCAST, 0)
            .unwrap();
        world
            .set(&client, SOL_SOCKET, libc::SO_BINDTODEVICE, b"v0")
            .unwrap();
        assert_eq!(
            world.send_to(&client, &at(to, 67), b"x"),
            Err(EACCES),
            "{to}"
        );
        world
            .set_int(&client, SOL_SOCKET, libc::SO_BROADCAST, 1)
            .unwrap();
        world.send_to(&client, &at(to, 67), b"x").unwrap();
        world.pass(10);
        for server in &servers {
            assert_eq!(server.got().len(), 1, "{to}");
        }
    }
}

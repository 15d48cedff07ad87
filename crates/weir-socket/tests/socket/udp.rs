// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP sockets of two hosts.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at, port_of};
use libc::{
    AF_INET, AF_INET6, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, ECONNREFUSED, EDESTADDRREQ, EINVAL,
    EMSGSIZE, ENETUNREACH,
};
use weir_socket::Ready;
use weir_stack::mib::{Datagram, Udp, WithMib};

#[test]
fn datagrams_cross_a_veth_both_ways() {
    let mut world = World::new();
    for (family, a, b) in [
        (AF_INET, "10.0.0.1", "10.0.0.2"),
        (AF_INET6, "fd00::1", "fd00::2"),
    ] {
        let server = world.udp(1, family);
        world
            .bind(
                &server,
                &at(if family == AF_INET { "0.0.0.0" } else { "::" }, 53),
            )
            .unwrap();
        let client = world.udp(0, family);
        assert_eq!(world.send(&client, b"x"), Err(EDESTADDRREQ));
        assert_eq!(world.send_to(&client, &at(b, 53), b"question"), Ok(8));
        world.pass(10);
        let question = server.one();
        assert_eq!(question.data, b"question");
        let port = port_of(&client.socket.local_address());
        assert!((32_768..=60_999).contains(&port), "{port}");
        assert_eq!(question.from, at(a, port));
        world.send_to(&server, &question.from, b"answer").unwrap();
        world.pass(10);
        let answer = client.one();
        assert_eq!((answer.from, answer.data), (at(b, 53), b"answer".to_vec()));
        world.close(&server);
        world.close(&client);
    }
    assert!(weir_socket::all(&world.hosts[0].ns).is_empty());
}

#[test]
fn a_closed_port_refuses() {
    let mut world = World::new();
    for (family, b) in [
        (AF_INET, "10.0.0.2"),
        (AF_INET6, "fd00::2"),
        (AF_INET, "127.0.0.1"),
    ] {
        let client = world.udp(0, family);
        world.connect(&client, &at(b, 9)).unwrap();
        client.woken();
        world.send(&client, b"x").unwrap();
        world.pass(10);
        assert_eq!(client.woken() & Ready::ERR, Ready::ERR);
        // The next call has the error, and the one after that has not.
        assert_eq!(world.send(&client, b"x"), Err(ECONNREFUSED), "{b}");
        assert_eq!(client.socket.take_error(), 0);
        // A socket without a peer is not told.
        let other = world.udp(0, family);
        world.send_to(&other, &at(b, 9), b"x").unwrap();
        world.pass(10);
        assert_eq!(other.socket.take_error(), 0);
    }
}

#[test]
fn the_best_socket_gets_a_datagram() {
    let mut world = World::new();
    let any = world.udp(1, AF_INET);
    let own = world.udp(1, AF_INET);
    let peer = world.udp(1, AF_INET);
    for socket in [&any, &own, &peer] {
        world
            .set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
            .unwrap();
    }
    world.bind(&any, &at("0.0.0.0", 53)).unwrap();
    world.bind(&own, &at("10.0.0.2", 53)).unwrap();
    world.bind(&peer, &at("10.0.0.2", 53)).unwrap();
    world.connect(&peer, &at("10.0.0.1", 4000)).unwrap();
    let client = world.udp(0, AF_INET);
    world.bind(&client, &at("0.0.0.0", 4000)).unwrap();
    let stranger = world.udp(0, AF_INET);
    let ask = |world: &mut World, from: &crate::world::Open, to: &str| {
        world.send_to(from, &at(to, 53), b"x").unwrap();
        world.pass(10);
        [&any, &own, &peer].map(|socket| socket.got().len())
    };
    assert_eq!(ask(&mut world, &client, "10.0.0.2"), [0, 0, 1]);
    assert_eq!(ask(&mut world, &stranger, "10.0.0.2"), [0, 1, 0]);
    world.address(1, "v1", [10, 0, 0, 22].into(), 24);
    assert_eq!(ask(&mut world, &stranger, "10.0.0.22"), [1, 0, 0]);
}

#[test]
fn ports_conflict_as_in_linux() {
    let mut world = World::new();
    let first = world.udp(0, AF_INET);
    world.bind(&first, &at("0.0.0.0", 53)).unwrap();
    let second = world.udp(0, AF_INET);
    assert_eq!(world.bind(&second, &at("10.0.0.1", 53)), Err(EADDRINUSE));
    assert_eq!(world.bind(&first, &at("0.0.0.0", 54)), Err(EINVAL));
    // An IPv6 socket with all addresses also takes IPv4.
    let third = world.udp(0, AF_INET6);
    assert_eq!(world.bind(&third, &at("::", 53)), Err(EADDRINUSE));
    world
        .set_int(&third, libc::SOL_IPV6, libc::IPV6_V6ONLY, 1)
        .unwrap();
    world.bind(&third, &at("::", 53)).unwrap();
    world.close(&first);
    world.bind(&second, &at("10.0.0.1", 53)).unwrap();
    // Sockets of a group share the port.
    let group: Vec<_> = (0..4).map(|_| world.udp(0, AF_INET)).collect();
    for socket in &group {
        world
            .set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
            .unwrap();
        world.bind(socket, &at("10.0.0.1", 80)).unwrap();
    }
    assert_eq!(
        world.bind(&crate::world::Open { ..second.clone() }, &at("0.0.0.0", 80)),
        Err(EINVAL)
    );
    let other = world.udp(1, AF_INET);
    for port in 2000..2064 {
        let client = world.udp(1, AF_INET);
        world.bind(&client, &at("10.0.0.2", port)).unwrap();
        world.send_to(&client, &at("10.0.0.1", 80), b"x").unwrap();
        world.pass(10);
        world.close(&client);
    }
    let shares: Vec<_> = group.iter().map(|socket| socket.got().len()).collect();
    assert_eq!(shares.iter().sum::<usize>(), 64);
    assert!(shares.iter().all(|share| *share > 4), "{shares:?}");
    world.close(&other);
}

#[test]
fn an_ipv6_socket_speaks_ipv4() {
    let mut world = World::new();
    let server = world.udp(1, AF_INET6);
    world.bind(&server, &at("::", 53)).unwrap();
    let client = world.udp(0, AF_INET);
    world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
    world.pass(10);
    let question = server.one();
    let port = port_of(&client.socket.local_address());
    assert_eq!(question.from, at("::ffff:10.0.0.1", port));
    world.send_to(&server, &question.from, b"y").unwrap();
    world.pass(10);
    assert_eq!(client.one().from, at("10.0.0.2", 53));
    // The address of the other family too.
    world.send_to(&server, &at("10.0.0.1", port), b"z").unwrap();
    world.pass(10);
    assert_eq!(client.one().data, b"z");
    let only = world.udp(1, AF_INET6);
    world
        .set_int(&only, libc::SOL_IPV6, libc::IPV6_V6ONLY, 1)
        .unwrap();
    assert_eq!(
        world.send_to(&only, &at("::ffff:10.0.0.1", 5), b"x"),
        Err(ENETUNREACH)
    );
}

#[test]
fn addresses_are_judged() {
    let mut world = World::new();
    let socket = world.udp(0, AF_INET);
    assert_eq!(world.bind(&socket, &at("10.0.0.9", 1)), Err(EADDRNOTAVAIL));
    assert_eq!(world.bind(&socket, &at("0.0.0.0", 1)[..15]), Err(EINVAL));
    assert_eq!(world.bind(&socket, &[]), Err(EINVAL));
    assert_eq!(world.bind(&socket, &at("::", 1)), Err(EAFNOSUPPORT));
    assert_eq!(world.send_to(&socket, &at("10.0.0.2", 0), b""), Err(EINVAL));
    assert_eq!(
        world.send_to(&socket, &at("10.0.0.2", 1)[..8], b""),
        Err(EINVAL)
    );
    assert_eq!(
        world.send_to(&socket, &at("::1", 1), b""),
        Err(EAFNOSUPPORT)
    );
    assert_eq!(
        world.send_to(&socket, &at("11.0.0.2", 1), b""),
        Err(ENETUNREACH)
    );
    assert_eq!(world.connect(&socket, &at("11.0.0.2", 1)), Err(ENETUNREACH));
    assert_eq!(world.connect(&socket, &[1]), Err(EINVAL));
    assert_eq!(
        world.send_to(&socket, &at("10.0.0.2", 1), &[0; 65_536]),
        Err(EMSGSIZE)
    );
    assert_eq!(
        world.send_to(&socket, &at("10.0.0.2", 1), &[0; 65_508]),
        Err(EMSGSIZE)
    );
    assert_eq!(
        world.send_to(&socket, &at("10.0.0.2", 1), &[0; 65_507]),
        Ok(65_507)
    );
    let socket = world.udp(0, AF_INET6);
    assert_eq!(world.bind(&socket, &at("fe80::1", 1)), Err(EINVAL));
    assert_eq!(world.bind(&socket, &at("fd00::9", 1)), Err(EADDRNOTAVAIL));
    assert_eq!(world.bind(&socket, &at("fd00::1", 1)[..23]), Err(EINVAL));
    assert_eq!(world.connect(&socket, &at("fe80::9", 1)), Err(EINVAL));
    assert_eq!(world.bind(&socket, &at("fe80::1%99", 1)), Err(libc::ENODEV));
}

#[test]
fn long_datagrams_arrive_in_fragments() {
    let mut world = World::new();
    for (family, b, most) in [(AF_INET, "10.0.0.2", 65_507), (AF_INET6, "fd00::2", 65_527)] {
        let server = world.udp(1, family);
        world
            .bind(
                &server,
                &at(if family == AF_INET { "0.0.0.0" } else { "::" }, 53),
            )
            .unwrap();
        let client = world.udp(0, family);
        let data: Vec<u8> = (0..most).map(|n| (n % 251) as u8).collect();
        world.send_to(&client, &at(b, 53), b"first").unwrap();
        world.pass(100);
        server.got();
        world.send_to(&client, &at(b, 53), &data).unwrap();
        world.pass(10);
        assert_eq!(server.one().data, data);
        let (level, name) = match family {
            AF_INET => (libc::SOL_IP, libc::IP_MTU_DISCOVER),
            _ => (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        world
            .set_int(&client, level, name, libc::IP_PMTUDISC_DO)
            .unwrap();
        assert_eq!(world.send_to(&client, &at(b, 53), &data), Err(EMSGSIZE));
        world.close(&server);
    }
}

#[test]
fn a_full_program_loses_datagrams_that_are_counted() {
    let mut world = World::new();
    let server = world.udp(1, AF_INET);
    world.bind(&server, &at("0.0.0.0", 53)).unwrap();
    let client = world.udp(0, AF_INET);
    server.set_full(true);
    world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
    world.pass(10);
    let count = |counter| world.hosts[1].ns.mib().datagrams(Datagram::Udp, counter);
    assert_eq!((count(Udp::RcvbufErrors), count(Udp::InErrors)), (1, 1));
    assert_eq!(count(Udp::InDatagrams), 0);
    server.set_full(false);
    world
        .set_int(&server, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
        .unwrap();
    world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
    world.pass(10);
    let drops = (
        libc::SOL_SOCKET,
        libc::SO_RXQ_OVFL,
        1u32.to_ne_bytes().to_vec(),
    );
    assert_eq!(server.one().messages(), [drops]);
}

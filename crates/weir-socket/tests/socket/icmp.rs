// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ping and raw sockets, and the error queue.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at, port_of};
use libc::{
    AF_INET, AF_INET6, ECONNREFUSED, EHOSTUNREACH, EINVAL, EMSGSIZE, EOPNOTSUPP, EPROTONOSUPPORT,
    ESOCKTNOSUPPORT, SOCK_DGRAM, SOCK_RAW, SOL_IP, SOL_IPV6,
};
use weir_packet::checksum;
use weir_socket::{Outgoing, Ready};

/// An echo request whose identifier and checksum are still to be filled in.
fn request(v6: bool, sequence: u16) -> Vec<u8> {
    let mut message = vec![if v6 { 128 } else { 8 }, 0, 0, 0, 0, 0];
    message.extend(sequence.to_be_bytes());
    message.extend(b"payload");
    message
}

#[test]
fn kinds_that_are_not_served_have_linux_errnos() {
    let mut world = World::bare();
    for (family, kind, protocol, errno) in [
        (AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMPV6, EPROTONOSUPPORT),
        (AF_INET, SOCK_DGRAM, 6, EPROTONOSUPPORT),
        (AF_INET, SOCK_RAW, 0, EPROTONOSUPPORT),
        (AF_INET, libc::SOCK_SEQPACKET, 0, ESOCKTNOSUPPORT),
        (AF_INET, 99, 0, EINVAL),
        (AF_INET, SOCK_DGRAM, -1, EINVAL),
        (AF_INET, SOCK_DGRAM, 1000, EINVAL),
        (77, SOCK_DGRAM, 0, libc::EAFNOSUPPORT),
        (libc::AF_PACKET, libc::SOCK_STREAM, 0, ESOCKTNOSUPPORT),
    ] {
        assert_eq!(
            world.try_open(0, family, kind, protocol).err(),
            Some(errno),
            "{family} {kind} {protocol}"
        );
    }
}

#[test]
fn a_ping_socket_gets_its_replies() {
    let mut world = World::new();
    for (family, protocol, b) in [
        (AF_INET, libc::IPPROTO_ICMP, "10.0.0.2"),
        (AF_INET, libc::IPPROTO_ICMP, "127.0.0.1"),
        (AF_INET6, libc::IPPROTO_ICMPV6, "fd00::2"),
        (AF_INET6, libc::IPPROTO_ICMPV6, "::1"),
    ] {
        let v6 = family == AF_INET6;
        let ping = world.open(0, family, SOCK_DGRAM, protocol);
        let other = world.open(0, family, SOCK_DGRAM, protocol);
        world.send_to(&other, &at(b, 0), &request(v6, 7)).unwrap();
        world.pass(10);
        other.got();
        match v6 {
            false => world.set_int(&ping, SOL_IP, libc::IP_RECVTTL, 1).unwrap(),
            true => world
                .set_int(&ping, SOL_IPV6, libc::IPV6_RECVHOPLIMIT, 1)
                .unwrap(),
        }
        assert_eq!(world.send_to(&ping, &at(b, 0), &request(v6, 1)), Ok(15));
        world.pass(10);
        let reply = ping.one();
        assert_eq!(reply.from, at(b, 0), "{b}");
        assert_eq!(reply.data[0], if v6 { 129 } else { 0 });
        assert_eq!(&reply.data[6..], &request(v6, 1)[6..]);
        let ident = port_of(&ping.socket.local_address());
        assert_eq!(reply.data[4..6], ident.to_be_bytes());
        let (level, ty) = if v6 {
            (SOL_IPV6, libc::IPV6_HOPLIMIT)
        } else {
            (SOL_IP, libc::IP_TTL)
        };
        assert_eq!(
            reply.messages(),
            [(level, ty, 64i32.to_ne_bytes().to_vec())]
        );
        assert!(other.got().is_empty());
        let mut reply = request(v6, 1);
        reply[0] = 0;
        assert_eq!(world.send_to(&ping, &at(b, 0), &reply), Err(EINVAL));
        assert_eq!(world.send_to(&ping, &at(b, 0), &[8, 0, 0]), Err(EINVAL));
        let taken = world.open(0, family, SOCK_DGRAM, protocol);
        let any = if v6 { "::" } else { "0.0.0.0" };
        assert_eq!(world.bind(&taken, &at(any, ident)), Err(libc::EADDRINUSE));
    }
}

#[test]
fn a_raw_socket_gets_copies_and_sends() {
    let mut world = World::new();
    let raw = world.open(1, AF_INET, SOCK_RAW, libc::IPPROTO_ICMP);
    let ping = world.open(0, AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP);
    world
        .send_to(&ping, &at("10.0.0.2", 0), &request(false, 1))
        .unwrap();
    world.pass(10);
    let copy = raw.one();
    assert_eq!(copy.from, at("10.0.0.1", 0));
    assert_eq!((copy.data[0], copy.data[20]), (0x45, 8));
    assert_eq!(ping.got().len(), 1);
    // A filter of echo requests.
    world
        .set(&raw, libc::SOL_RAW, 1, &(1u32 << 8).to_ne_bytes())
        .unwrap();
    world
        .send_to(&ping, &at("10.0.0.2", 0), &request(false, 2))
        .unwrap();
    world.pass(10);
    assert!(raw.got().is_empty());
    let other = world.open(1, AF_INET, SOCK_RAW, 99);
    assert_eq!(
        world.set(&other, libc::SOL_RAW, 1, &[0; 4]),
        Err(EOPNOTSUPP)
    );
    // A protocol that nobody else knows is taken without an error to its sender.
    let sender = world.open(0, AF_INET, SOCK_RAW, 99);
    world.set_int(&sender, SOL_IP, libc::IP_TTL, 9).unwrap();
    world.send_to(&sender, &at("10.0.0.2", 0), b"data").unwrap();
    world.pass(10);
    let got = other.one();
    assert_eq!(
        (&got.data[20..], got.data[8], got.data[9]),
        (&b"data"[..], 9, 99)
    );
    // A header of its own.
    let own = world.open(0, AF_INET, SOCK_RAW, libc::IPPROTO_RAW);
    let mut packet = vec![
        0x45, 0, 0, 0, 0, 0, 0, 0, 3, 99, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ];
    packet.extend(b"x");
    world.send_to(&own, &at("10.0.0.2", 0), &packet).unwrap();
    world.pass(10);
    let got = other.one();
    assert_eq!((got.data[8], got.data.len()), (3, 21));
    assert_eq!(got.data[12..16], [10, 0, 0, 1]);
    assert!(checksum::verify(&got.data[..20]));
    assert_eq!(
        world.send_to(&own, &at("10.0.0.2", 0), &packet[..19]),
        Err(EINVAL)
    );
    assert_eq!(
        world.send_to(&own, &at("10.0.0.2", 0), &[0x45; 1501]),
        Err(EMSGSIZE)
    );
}

#[test]
fn a_raw_socket_over_ipv6_has_checksums() {
    let mut world = World::new();
    let server = world.open(1, AF_INET6, SOCK_RAW, 89);
    let client = world.open(0, AF_INET6, SOCK_RAW, 89);
    for socket in [&server, &client] {
        assert_eq!(socket.option(SOL_IPV6, libc::IPV6_CHECKSUM), Ok(-1));
        assert_eq!(
            world.set_int(socket, SOL_IPV6, libc::IPV6_CHECKSUM, 3),
            Err(EINVAL)
        );
        world
            .set_int(socket, SOL_IPV6, libc::IPV6_CHECKSUM, 2)
            .unwrap();
    }
    world
        .send_to(&client, &at("fd00::2", 0), &[1, 2, 9, 9, 5, 6])
        .unwrap();
    world.pass(10);
    let got = server.one();
    assert_eq!(got.from, at("fd00::1", 0));
    assert_eq!((&got.data[..2], &got.data[4..]), (&[1, 2][..], &[5, 6][..]));
    assert_ne!(got.data[2..4], [9, 9]);
    world
        .set_int(&client, SOL_IPV6, libc::IPV6_CHECKSUM, -1)
        .unwrap();
    world
        .send_to(&client, &at("fd00::2", 0), &[1, 2, 9, 9, 5, 6])
        .unwrap();
    world.pass(10);
    assert!(server.got().is_empty());
}

#[test]
fn errors_wait_in_the_queue() {
    let mut world = World::new();
    for (family, b, level, option, own) in [
        (AF_INET, "10.0.0.2", SOL_IP, libc::IP_RECVERR, 2),
        (AF_INET6, "fd00::2", SOL_IPV6, libc::IPV6_RECVERR, 3),
    ] {
        let client = world.udp(0, family);
        world.set_int(&client, level, option, 1).unwrap();
        world.send_to(&client, &at(b, 9), b"lost").unwrap();
        world.pass(10);
        assert_eq!(client.woken() & Ready::ERR, Ready::ERR);
        let error = client.error().unwrap();
        assert_eq!(error.from, at(b, 9));
        assert_eq!(error.data, b"lost");
        assert_eq!(error.flags, libc::MSG_ERRQUEUE);
        let [(at_level, ty, value)] = &error.messages()[..] else {
            panic!("{error:?}");
        };
        assert_eq!((*at_level, *ty), (level, option));
        let errno = i32::from_ne_bytes(value[..4].try_into().unwrap());
        let (icmp, code) = if family == AF_INET { (3, 3) } else { (1, 4) };
        assert_eq!(
            (errno, &value[4..8]),
            (ECONNREFUSED, &[own, icmp, code, 0][..])
        );
        assert_eq!(value[16..], at(b, 0));
        assert_eq!(client.error(), None);
        assert_eq!(client.socket.take_error(), 0);
        // A packet that is too long for the path.
        let (discover, mtu) = match family {
            AF_INET => (libc::IP_MTU_DISCOVER, libc::IP_MTU),
            _ => (libc::IPV6_MTU_DISCOVER, libc::IPV6_MTU),
        };
        world
            .set_int(&client, level, discover, libc::IP_PMTUDISC_DO)
            .unwrap();
        assert_eq!(world.send_to(&client, &at(b, 9), &[0; 1500]), Err(EMSGSIZE));
        let error = client.error().unwrap();
        let value = &error.messages()[0].2;
        assert_eq!((value[4], &value[8..12]), (1, &1500u32.to_ne_bytes()[..]));
        assert_eq!(client.option(level, mtu), Err(libc::ENOTCONN));
        world.connect(&client, &at(b, 9)).unwrap();
        assert_eq!(client.option(level, mtu), Ok(1500));
    }
}

#[test]
fn a_neighbour_that_is_missing_or_a_time_to_live_that_ends() {
    let mut world = World::new();
    world.sysctl(1, "ipv4/ip_forward", "1");
    let probe = world.udp(0, AF_INET);
    world.set_int(&probe, SOL_IP, libc::IP_RECVERR, 1).unwrap();
    world.set_int(&probe, SOL_IP, libc::IP_TTL, 1).unwrap();
    // Host 1 routes to a network behind it.
    world.address(1, "lo", [10, 9, 9, 1].into(), 24);
    let index = world.index(0, "v0");
    world.accepted(
        0,
        weir_netlink::rtm::NEWROUTE,
        weir_netlink::nlm::F_CREATE,
        |out| {
            out.fixed(&weir_netlink::RtMsg {
                family: 2,
                dst_len: 16,
                table: 254,
                protocol: 3,
                ty: 1,
                ..weir_netlink::RtMsg::default()
            });
            out.put_ip(weir_netlink::rta::DST, [10, 8, 0, 0].into());
            out.put_ip(weir_netlink::rta::GATEWAY, [10, 0, 0, 2].into());
            out.put_u32(weir_netlink::rta::OIF, index);
        },
    );
    world.accepted(
        1,
        weir_netlink::rtm::NEWROUTE,
        weir_netlink::nlm::F_CREATE,
        |out| {
            out.fixed(&weir_netlink::RtMsg {
                family: 2,
                dst_len: 16,
                table: 254,
                protocol: 3,
                ty: 1,
                ..weir_netlink::RtMsg::default()
            });
            out.put_ip(weir_netlink::rta::DST, [10, 8, 0, 0].into());
            out.put_ip(weir_netlink::rta::GATEWAY, [10, 0, 0, 1].into());
        },
    );
    world
        .send_to(&probe, &at("10.8.0.1", 33434), b"hop")
        .unwrap();
    world.pass(10);
    let error = probe.error().unwrap();
    let value = &error.messages()[0].2;
    assert_eq!(
        i32::from_ne_bytes(value[..4].try_into().unwrap()),
        EHOSTUNREACH
    );
    // Time exceeded, from the router.
    assert_eq!(
        (&value[4..7], &value[16..]),
        (&[2, 11, 0][..], &at("10.0.0.2", 0)[..])
    );
    assert_eq!(error.from, at("10.8.0.1", 33434));
}

#[test]
fn control_messages_choose_and_tell() {
    let mut world = World::new();
    world.address(0, "v0", [10, 0, 0, 77].into(), 24);
    let server = world.udp(1, AF_INET);
    world.bind(&server, &at("0.0.0.0", 53)).unwrap();
    for option in [libc::IP_PKTINFO, libc::IP_RECVTTL, libc::IP_RECVTOS] {
        world.set_int(&server, SOL_IP, option, 1).unwrap();
    }
    let client = world.udp(0, AF_INET);
    let mut control = Vec::new();
    let mut put = |ty: i32, data: &[u8]| {
        control.extend((16 + data.len() as u64).to_ne_bytes());
        control.extend(SOL_IP.to_ne_bytes());
        control.extend(ty.to_ne_bytes());
        control.extend(data);
        control.resize(control.len().next_multiple_of(8), 0);
    };
    put(libc::IP_TTL, &3i32.to_ne_bytes());
    put(libc::IP_TOS, &0x10i32.to_ne_bytes());
    put(libc::IP_PKTINFO, &[0, 0, 0, 0, 10, 0, 0, 77, 0, 0, 0, 0]);
    let message = Outgoing {
        to: &at("10.0.0.2", 53),
        control: &control,
        data: b"x",
        flags: 0,
    };
    world.with(|cx| client.socket.send(cx, &message)).unwrap();
    world.pass(10);
    let got = server.one();
    assert_eq!(&got.from[4..8], &[10, 0, 0, 77]);
    let mut info = world.index(1, "v1").to_ne_bytes().to_vec();
    info.extend([10, 0, 0, 2, 10, 0, 0, 2]);
    assert_eq!(
        got.messages(),
        [
            (SOL_IP, libc::IP_PKTINFO, info),
            (SOL_IP, libc::IP_TTL, 3i32.to_ne_bytes().to_vec()),
            (SOL_IP, libc::IP_TOS, vec![0x10]),
        ]
    );
}

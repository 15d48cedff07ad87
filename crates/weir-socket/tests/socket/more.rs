// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets in a VRF, times, and datagrams made of several calls or several of one.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, at};
use libc::{AF_INET, EINVAL, SOL_SOCKET, SOL_UDP};
use weir_netlink::ifla::vrf;
use weir_netlink::{IfInfoMsg, ifla, nlm, rtm};
use weir_socket::Outgoing;

#[test]
fn a_vrf_has_sockets_of_its_own() {
    let mut world = World::new();
    world.accepted(1, rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "red");
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "vrf");
        let data = out.nest(ifla::info::DATA);
        out.put_u32(vrf::TABLE, 10);
        out.end(data);
        out.end(info);
    });
    world.set_up(1, "red");
    let master = world.index(1, "red");
    world.accepted(1, rtm::NEWLINK, 0, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "v1");
        out.put_u32(ifla::MASTER, master);
    });
    world.pass(5000);
    let outside = world.udp(1, AF_INET);
    world.bind(&outside, &at("0.0.0.0", 53)).unwrap();
    let client = world.udp(0, AF_INET);
    for device in ["red", "v1"] {
        let inside = world.udp(1, AF_INET);
        let option = libc::SO_BINDTODEVICE;
        world
            .set(&inside, SOL_SOCKET, option, device.as_bytes())
            .unwrap();
        world.bind(&inside, &at("10.0.0.2", 54)).unwrap();
        world
            .send_to(&client, &at("10.0.0.2", 54), b"question")
            .unwrap();
        world.pass(1500);
        let got = inside.one();
        world.send_to(&inside, &got.from, b"answer").unwrap();
        world.pass(1500);
        assert_eq!(client.one().data, b"answer", "{device}");
        world.close(&inside);
    }
    for (accept, count) in [("0", 0), ("1", 1)] {
        world.sysctl(1, "ipv4/udp_l3mdev_accept", accept);
        world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
        world.pass(1500);
        assert_eq!(outside.got().len(), count, "{accept}");
    }
}

#[test]
fn datagrams_have_the_time_of_the_stack() {
    let mut world = World::new();
    let server = world.udp(1, AF_INET);
    world.bind(&server, &at("0.0.0.0", 53)).unwrap();
    let client = world.udp(0, AF_INET);
    world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
    world.pass(10);
    server.got();
    for (option, fraction) in [(libc::SO_TIMESTAMP, 1000), (libc::SO_TIMESTAMPNS, 1)] {
        world.set_int(&server, SOL_SOCKET, option, 1).unwrap();
        world.pass(1234);
        let now = world.stack.clock.now();
        world.send_to(&client, &at("10.0.0.2", 53), b"x").unwrap();
        world.pass(10);
        let got = server.one();
        let clock = &world.stack.clock;
        let wall = clock.wall_ns() - clock.now() + now;
        assert_eq!(got.time, wall);
        let mut value = (wall / 1_000_000_000).to_ne_bytes().to_vec();
        value.extend((wall % 1_000_000_000 / fraction).to_ne_bytes());
        assert_eq!(got.messages(), [(SOL_SOCKET, option, value)]);
    }
}

#[test]
fn calls_are_joined_and_split() {
    let mut world = World::new();
    let server = world.udp(1, AF_INET);
    world.bind(&server, &at("0.0.0.0", 53)).unwrap();
    let client = world.udp(0, AF_INET);
    world.connect(&client, &at("10.0.0.2", 53)).unwrap();
    world.send(&client, b"first").unwrap();
    world.pass(10);
    server.got();
    world.set_int(&client, SOL_UDP, 1, 1).unwrap();
    world.send(&client, b"one ").unwrap();
    world.send(&client, b"two").unwrap();
    world.pass(10);
    assert!(server.got().is_empty());
    world.set_int(&client, SOL_UDP, 1, 0).unwrap();
    world.pass(10);
    assert_eq!(server.one().data, b"one two");
    let more = Outgoing {
        data: b"a",
        flags: libc::MSG_MORE,
        ..Outgoing::default()
    };
    world.with(|cx| client.socket.send(cx, &more)).unwrap();
    world.send(&client, b"b").unwrap();
    world.pass(10);
    assert_eq!(server.one().data, b"ab");
    // UDP_SEGMENT
    world.set_int(&client, SOL_UDP, 103, 4).unwrap();
    assert_eq!(world.send(&client, b"aaaabbbbc"), Ok(9));
    world.pass(10);
    let data: Vec<_> = server.got().into_iter().map(|got| got.data).collect();
    assert_eq!(data, [&b"aaaa"[..], b"bbbb", b"c"]);
    assert_eq!(world.send(&client, &[0; 4 * 64 + 1]), Err(EINVAL));
    assert_eq!(client.option(SOL_UDP, 103), Ok(4));
    world.set_int(&client, SOL_UDP, 104, 1).unwrap();
    assert_eq!(client.option(SOL_UDP, 104), Ok(1));
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of a bridge: learning, flooding, ageing, the flags of ports, and the bridge's own address.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::{IfInfoMsg, af, ifla, nlm, rtm};
use weir_packet::DropReason;
use weir_stack::drops::Place;

const BROADCAST: [u8; 6] = [0xff; 6];
const BRIDGE: [u8; 6] = [2, 0, 0, 0, 9, 9];

/// Makes a bridge `br0` with the ports `d1`, `d2` and `d3`, all up.
fn bridged() -> World {
    let mut world = World::ipv4_only();
    for n in 1..=3 {
        world.dummy(&format!("d{n}"), device_mac(n));
    }
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "br0");
        out.put(ifla::ADDRESS, &BRIDGE);
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "bridge");
        out.end(nest);
    });
    assert_eq!(made, 0);
    let master = world.device("br0").ifindex();
    for n in 1..=3 {
        let index = world.device(&format!("d{n}")).ifindex() as i32;
        let done = world.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
            out.put_u32(ifla::MASTER, master);
        });
        assert_eq!(done, 0);
    }
    world.set_up("br0", true);
    world.left();
    world
}

/// Sets a flag of a port.
fn flag(world: &mut World, name: &str, ty: u16, on: u8) {
    let index = world.device(name).ifindex() as i32;
    let done = world.request(rtm::SETLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            family: af::BRIDGE,
            index,
            ..IfInfoMsg::default()
        });
        let nest = out.nest(ifla::PROTINFO);
        out.put_u8(ty, on);
        out.end(nest);
    });
    assert_eq!(done, 0);
}

fn frame(dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.resize(60, 7);
    frame
}

/// Receives a frame and returns the ports by which it left.
fn through(world: &mut World, name: &str, dst: [u8; 6], src: [u8; 6]) -> Vec<String> {
    let sent = frame(dst, src);
    world.arrive(name, std::slice::from_ref(&sent));
    let left = world.left().into_iter().map(|(name, _, frame)| {
        assert_eq!(frame, sent);
        name
    });
    left.collect()
}

#[test]
fn an_unknown_address_is_flooded_and_a_learned_one_is_not() {
    let mut world = bridged();
    // The newest port comes first, as in Linux.
    assert_eq!(
        through(&mut world, "d1", host_mac(2), host_mac(1)),
        ["d3", "d2"]
    );
    assert_eq!(through(&mut world, "d2", host_mac(1), host_mac(2)), ["d1"]);
    assert_eq!(through(&mut world, "d1", host_mac(2), host_mac(1)), ["d2"]);
    assert_eq!(
        through(&mut world, "d1", BROADCAST, host_mac(1)),
        ["d3", "d2"]
    );
    // The host moves to another port.
    assert_eq!(through(&mut world, "d3", host_mac(1), host_mac(2)), ["d1"]);
    assert_eq!(through(&mut world, "d1", host_mac(2), host_mac(1)), ["d3"]);
    // A host behind the port of arrival.
    assert!(through(&mut world, "d3", host_mac(2), host_mac(3)).is_empty());
    flag(&mut world, "d3", ifla::brport::MODE, 1);
    assert_eq!(through(&mut world, "d3", host_mac(2), host_mac(3)), ["d3"]);
}

#[test]
fn an_entry_ages() {
    let mut world = bridged();
    through(&mut world, "d2", BROADCAST, host_mac(2));
    world.pass(299_000);
    assert_eq!(through(&mut world, "d1", host_mac(2), host_mac(1)), ["d2"]);
    world.pass(2_000);
    assert_eq!(
        through(&mut world, "d1", host_mac(2), host_mac(1)),
        ["d3", "d2"]
    );
}

#[test]
fn a_large_table_ages_in_steps() {
    let mut world = bridged();
    let host = |n: u16| {
        let [high, low] = n.to_be_bytes();
        [2, 1, 0, 0, high, low]
    };
    let learn = |world: &mut World, hosts: std::ops::Range<u16>| {
        let frames: Vec<_> = hosts.map(|n| frame(BROADCAST, host(n))).collect();
        world.arrive("d2", &frames);
        world.left();
    };
    learn(&mut world, 0..5000);
    world.pass(200_000);
    // Some are heard of again.
    learn(&mut world, 0..1000);
    world.pass(101_000);
    let ports = |world: &mut World, n| through(world, "d1", host(n), host_mac(1)).len();
    for n in [0, 999] {
        assert_eq!(ports(&mut world, n), 1, "{n}");
    }
    for n in (1000..5000).step_by(97) {
        assert_eq!(ports(&mut world, n), 2, "{n}");
    }
    world.pass(200_000);
    assert_eq!(ports(&mut world, 999), 2);
}

#[test]
fn flags_restrict_ports() {
    let mut world = bridged();
    flag(&mut world, "d3", ifla::brport::UNICAST_FLOOD, 0);
    assert_eq!(through(&mut world, "d1", host_mac(2), host_mac(1)), ["d2"]);
    assert_eq!(
        through(&mut world, "d1", BROADCAST, host_mac(1)),
        ["d3", "d2"]
    );
    flag(&mut world, "d3", ifla::brport::BCAST_FLOOD, 0);
    assert_eq!(through(&mut world, "d1", BROADCAST, host_mac(1)), ["d2"]);
    let group = [1, 0, 0x5e, 1, 2, 3];
    assert_eq!(through(&mut world, "d1", group, host_mac(1)), ["d3", "d2"]);
    flag(&mut world, "d3", ifla::brport::MCAST_FLOOD, 0);
    assert_eq!(through(&mut world, "d1", group, host_mac(1)), ["d2"]);
    for port in ["d1", "d2"] {
        flag(&mut world, port, ifla::brport::ISOLATED, 1);
    }
    assert!(through(&mut world, "d1", group, host_mac(1)).is_empty());
    flag(&mut world, "d2", ifla::brport::ISOLATED, 0);
    flag(&mut world, "d2", ifla::brport::LEARNING, 0);
    through(&mut world, "d2", BROADCAST, host_mac(7));
    flag(&mut world, "d2", ifla::brport::UNICAST_FLOOD, 0);
    assert!(through(&mut world, "d1", host_mac(7), host_mac(1)).is_empty());
}

#[test]
fn reserved_groups_and_bad_sources_are_not_forwarded() {
    let mut world = bridged();
    for (last, left) in [(0, 2), (1, 0), (2, 0), (0xe, 0), (0x10, 2)] {
        let group = [1, 0x80, 0xc2, 0, 0, last];
        let out = through(&mut world, "d1", group, host_mac(1));
        assert_eq!(out.len(), left, "{last:#x}");
    }
    assert!(through(&mut world, "d1", host_mac(2), BROADCAST).is_empty());
    let bad = DropReason::MAC_INVALID_SOURCE;
    assert_eq!(world.dropped("d1", Place::Receive, bad), 1);
    flag(&mut world, "d1", ifla::brport::STATE, 0);
    assert!(through(&mut world, "d1", BROADCAST, host_mac(1)).is_empty());
    let state = DropReason::BRIDGE_INGRESS_STP_STATE;
    assert_eq!(world.dropped("d1", Place::Receive, state), 1);
}

#[test]
fn the_bridge_answers_arp_and_echo_at_its_own_address() {
    let mut world = bridged();
    world.address("br0", ip("10.0.1.1"), 24);
    let mut request = [BROADCAST, host_mac(2)].concat();
    request.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request.extend_from_slice(&host_mac(2));
    request.extend_from_slice(&[10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
    request.resize(60, 0);
    world.arrive("d2", std::slice::from_ref(&request));
    let left = world.left();
    let names: Vec<_> = left.iter().map(|(name, _, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["d3", "d1", "d2"],
        "two copies, and the answer to where the host is"
    );
    let answer = &left[2].2;
    assert_eq!(
        (&answer[..6], &answer[6..12]),
        (&host_mac(2)[..], &BRIDGE[..])
    );
    assert_eq!(answer[20..22], [0, 2]);
}

#[test]
fn a_port_that_leaves_takes_its_entries_along() {
    let mut world = bridged();
    through(&mut world, "d2", BROADCAST, host_mac(2));
    let index = world.device("d2").ifindex() as i32;
    let done = world.request(rtm::DELLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index,
            ..IfInfoMsg::default()
        });
    });
    assert_eq!(done, 0);
    assert_eq!(through(&mut world, "d1", host_mac(2), host_mac(1)), ["d3"]);
    let index = world.device("br0").ifindex() as i32;
    let done = world.request(rtm::DELLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index,
            ..IfInfoMsg::default()
        });
    });
    assert_eq!(done, 0);
    assert!(through(&mut world, "d1", BROADCAST, host_mac(1)).is_empty());
    let guard = world.stack.domain.pin();
    assert!(world.device("d1").master(&guard).is_none());
    assert_eq!(world.device("d1").promiscuity(), 0);
}

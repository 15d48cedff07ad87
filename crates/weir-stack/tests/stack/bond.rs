// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bonds under virtual time: failover, delays of the MII monitor, gratuitous ARP, counters.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::{World, device_mac, host_mac, ip};
use weir_netlink::ifla::{bond, iff};
use weir_netlink::{IfInfoMsg, Writer, errno, ifa, ifla, nlm, rtm};
use weir_packet::DropReason;
use weir_stack::Config;
use weir_stack::drops::Place;

const MAC: [u8; 6] = [2, 0, 0, 0, 9, 1];

/// Adds `bond0` with options. Returns the errno.
fn add(world: &mut World, options: impl FnOnce(&mut Writer)) -> i32 {
    world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "bond0");
        out.put(ifla::ADDRESS, &MAC);
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "bond");
        let data = out.nest(ifla::info::DATA);
        options(out);
        out.end(data);
        out.end(info);
    })
}

/// Sends a request about one device.
fn set(world: &mut World, name: &str, fill: impl FnOnce(&mut Writer)) -> i32 {
    let index = world.device(name).ifindex() as i32;
    world.request(rtm::SETLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index,
            ..IfInfoMsg::default()
        });
        fill(out);
    })
}

fn enslave(world: &mut World, name: &str) -> i32 {
    let master = world.device("bond0").ifindex();
    set(world, name, |out| out.put_u32(ifla::MASTER, master))
}

fn carrier(world: &mut World, name: &str, on: bool) {
    assert_eq!(
        set(world, name, |out| out.put_u8(ifla::CARRIER, u8::from(on))),
        0
    );
}

/// A bond of mode active-backup with the ports `d1` and `d2`, its MII monitor every 100 ms, and the address
/// 10.0.9.1/24.
fn pair(options: impl FnOnce(&mut Writer)) -> World {
    pair_in(World::ipv4_only(), options)
}

fn pair_in(mut world: World, options: impl FnOnce(&mut Writer)) -> World {
    let made = add(&mut world, |out| {
        out.put_u8(bond::MODE, 1);
        out.put_u32(bond::MIIMON, 100);
        options(out);
    });
    assert_eq!(made, 0);
    for n in [1, 2] {
        let name = format!("d{n}");
        world.dummy(&name, device_mac(n));
        assert_eq!(enslave(&mut world, &name), errno::EPERM, "it is up");
        world.set_up(&name, false);
        assert_eq!(enslave(&mut world, &name), 0);
    }
    world.set_up("bond0", true);
    world.address("bond0", ip("10.0.9.1"), 24);
    world.neighbour("bond0", ip("10.0.9.2"), host_mac(9));
    world.pass(150);
    world.left();
    world
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<_> = world.left().into_iter().map(|(name, ..)| name).collect();
    names.retain(|name| name != "bond0");
    names
}

/// An ICMP echo request from the host behind the bond.
fn ping() -> Vec<u8> {
    let mut frame = [MAC, host_mac(9)].concat();
    frame.extend_from_slice(&[8, 0]);
    let echo = crate::world::echo(1, 1, b"data");
    frame.extend(weir_packet::header::ipv4::ipv4(
        [10, 0, 9, 2],
        [10, 0, 9, 1],
        1,
        64,
        0,
        0,
        0,
        echo.len(),
    ));
    frame.extend(echo);
    frame
}

#[test]
fn the_active_port_takes_and_sends() {
    let mut world = pair(|_| {});
    world.arrive("d1", &[ping()]);
    assert_eq!(names(&world), ["d1"]);
    world.arrive("d2", &[ping()]);
    assert!(names(&world).is_empty());
    assert_eq!(
        world.dropped("d2", Place::Receive, DropReason::UNHANDLED_PROTO),
        1
    );
    assert_eq!(world.device("d2").flags() & iff::SLAVE, iff::SLAVE);
}

#[test]
fn a_failover_is_announced_by_the_new_port() {
    let mut world = pair(|out| out.put_u8(bond::NUM_PEER_NOTIF, 3));
    carrier(&mut world, "d1", false);
    world.pass(350);
    let arps: Vec<_> = world
        .left()
        .into_iter()
        .filter(|(name, ..)| name != "bond0")
        .collect();
    assert_eq!(arps.len(), 3);
    for (name, _, frame) in &arps {
        assert_eq!(name, "d2");
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[6..12], MAC);
        assert_eq!(frame[12..14], [8, 6]);
    }
    assert_eq!(arps[1].1 - arps[0].1, 100_000_000);
    world.arrive("d2", &[ping()]);
    assert_eq!(names(&world), ["d2"]);
    // Without another priority the first port with a link is the best one, but nobody asks.
    carrier(&mut world, "d1", true);
    world.pass(350);
    world.left();
    world.arrive("d2", &[ping()]);
    assert_eq!(names(&world), ["d2"]);
}

/// After a failover the new port reports the groups, `resend_igmp` times.
#[test]
fn a_failover_reports_the_groups_again() {
    for (count, expected) in [(0, 0), (3, 3)] {
        let mut world = World::with(Config {
            link_chatter: true,
            ..Config::default()
        });
        world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        let mut world = pair_in(world, |out| out.put_u32(bond::RESEND_IGMP, count));
        let joined = world.address_as(
            rtm::NEWADDR,
            "bond0",
            ip("239.1.1.1"),
            32,
            ifa::f::MCAUTOJOIN,
        );
        assert_eq!(joined, 0);
        world.pass(20_000);
        world.left();
        carrier(&mut world, "d1", false);
        world.pass(2_000);
        let mut sent = world.left();
        sent.retain(|(name, _, frame)| {
            name != "bond0" && frame[12..14] == [8, 0] && frame[23] == 2
        });
        assert_eq!(sent.len(), expected);
        // Reports of IGMPv3 with a record of 239.1.1.1, MODE_IS_EXCLUDE.
        for (name, _, frame) in &sent {
            assert_eq!((&**name, frame[38], frame[46]), ("d2", 0x22, 2));
            assert_eq!(frame[50..54], [239, 1, 1, 1]);
        }
        let gaps = sent.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps.into_iter().all(|gap| gap == 200_000_000));
    }
}

#[test]
fn delays_are_kept() {
    let mut world = pair(|out| {
        out.put_u32(bond::DOWNDELAY, 300);
        out.put_u8(bond::NUM_PEER_NOTIF, 0);
    });
    carrier(&mut world, "d1", false);
    world.pass(200);
    carrier(&mut world, "d1", true);
    world.pass(500);
    // The link came back in time.
    world.left();
    world.arrive("d1", &[ping()]);
    assert_eq!(names(&world), ["d1"]);
    carrier(&mut world, "d1", false);
    world.pass(500);
    world.left();
    world.arrive("d2", &[ping()]);
    assert_eq!(names(&world), ["d2"]);
}

#[test]
fn without_a_link_there_is_no_carrier() {
    let mut world = pair(|_| {});
    let lower_up = |world: &World| {
        let device = world.device("bond0");
        device.link.carrier(&world.stack, &device)
    };
    assert!(lower_up(&world));
    carrier(&mut world, "d1", false);
    carrier(&mut world, "d2", false);
    world.pass(150);
    assert!(!lower_up(&world));
    carrier(&mut world, "d2", true);
    world.pass(150);
    assert!(lower_up(&world));
}

#[test]
fn modes_that_are_not_served_are_refused() {
    let mut world = World::ipv4_only();
    for mode in [5, 6] {
        let refused = add(&mut world, |out| out.put_u8(bond::MODE, mode));
        assert_eq!(refused, errno::EOPNOTSUPP);
    }
    assert_eq!(
        add(&mut world, |out| out.put_u8(bond::MODE, 7)),
        errno::EINVAL
    );
    assert_eq!(add(&mut world, |_| {}), 0);
}

#[test]
fn a_bond_has_16_queues_unless_a_request_says_how_many() {
    for (asked, expected) in [(None, (16, 16)), (Some(1), (1, 16)), (Some(4), (4, 16))] {
        let mut world = World::ipv4_only();
        let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&IfInfoMsg::default());
            out.put_str(ifla::IFNAME, "bond0");
            if let Some(asked) = asked {
                out.put_u32(ifla::NUM_TX_QUEUES, asked);
            }
            let info = out.nest(ifla::LINKINFO);
            out.put_str(ifla::info::KIND, "bond");
            out.end(info);
        });
        assert_eq!(made, 0);
        let bond = world.device("bond0");
        assert_eq!((bond.tx_queues(), bond.rx_queues()), expected);
    }
}

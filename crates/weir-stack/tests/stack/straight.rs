// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight way of a batch through a router does what the full path does. A policy rule that changes nothing forces
//! the full path on one of two equal routers.

#![allow(clippy::unwrap_used)] // Tests may panic.

use std::net::Ipv6Addr;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use weir_netlink::{RtMsg, af, ifa, nlm, rta, rtm};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv4::{fill_check, ipv4};
use weir_packet::header::ipv6::ipv6;
use weir_stack::mib::WithMib;

use crate::world::{World, device_mac, host_mac, ip};

/// Adds a rule for the main table in front of that table's own.
fn rule(world: &mut World, family: u8) {
    let errno = world.request(rtm::NEWRULE, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&RtMsg {
            family,
            table: rta::table::MAIN as u8,
            // FR_ACT_TO_TBL
            ty: 1,
            ..RtMsg::default()
        });
        // FRA_PRIORITY
        out.put_u32(6, 30_000);
    });
    assert_eq!(errno, 0);
}

/// Two hosts behind each of three devices; the third has a small MTU.
fn router(full: bool) -> World {
    let mut world = World::new();
    world.sysctl("net/ipv4/ip_forward", "1");
    world.sysctl("net/ipv6/conf/all/forwarding", "1");
    for n in 1..=3 {
        world.port(n);
        let name = format!("d{n}");
        let address = ip(&format!("2001:db8:{n}::1"));
        assert_eq!(
            world.address_as(rtm::NEWADDR, &name, address, 64, ifa::f::NODAD),
            0
        );
        for host in [2, 3] {
            world.neighbour(&name, [10, 0, n, host].into(), host_mac(n));
            let address = ip(&format!("2001:db8:{n}::{host}"));
            world.neighbour(&name, address, host_mac(n));
        }
    }
    world.set_mtu("d3", 1280);
    world.route(ip("2001:db8:9::"), 48, ip("2001:db8:2::2"));
    world.refuse(ip("2001:db8:8::"), 48, rta::rtn::BLACKHOLE);
    world.route([10, 9, 0, 0].into(), 16, [10, 0, 2, 2].into());
    if full {
        rule(&mut world, af::INET);
        rule(&mut world, af::INET6);
    }
    // Duplicate address detection of the link-local addresses ends.
    world.pass(3_000);
    world.left();
    world
}

/// What a test changes in a packet.
#[derive(Debug, Clone)]
struct Shape {
    src: usize,
    dst: usize,
    limit: u8,
    class: u8,
    len: usize,
    /// Bytes of padding behind the packet; fewer than none cut it short.
    padding: i8,
    /// The next header, or the protocol.
    next: u8,
    to_us: bool,
}

/// Mostly packets that a router forwards as they are.
fn shape() -> impl Strategy<Value = Shape> {
    let often = |usual: usize, all: usize| prop_oneof![30 => 0..usual, 1 => 0..all];
    (
        (often(2, 6), often(5, 10)),
        prop_oneof![30 => Just(64_u8), 1 => 0..3_u8],
        any::<u8>(),
        prop_oneof![30 => 0..1200_usize, 1 => 1200..1400_usize],
        prop_oneof![30 => Just(0_i8), 1 => -9..9_i8],
        prop_oneof![30 => Just(17_u8), 1 => Just(0), 1 => Just(44)],
        prop::bool::weighted(0.98),
    )
        .prop_map(
            |((src, dst), limit, class, len, padding, next, to_us)| Shape {
                src,
                dst,
                limit,
                class,
                len,
                padding,
                next,
                to_us,
            },
        )
}

const SOURCES: [&str; 6] = [
    "2001:db8:1::2",
    "2001:db8:1::3",
    "fd00::1",
    "fe80::2",
    "::1",
    "ff02::1",
];
const DESTINATIONS: [&str; 10] = [
    "2001:db8:2::2",
    "2001:db8:2::3",
    "2001:db8:3::2",
    "2001:db8:9::9",
    "2001:db8:2::2",
    "2001:db8:1::3",
    "2001:db8:2::1",
    "2001:db8:8::1",
    "2001:db8:2::77",
    "ff0e::1",
];

fn frame6(shape: &Shape) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let (src, dst) = (octets(SOURCES[shape.src]), octets(DESTINATIONS[shape.dst]));
    let header = ipv6(src, dst, shape.next, shape.limit, shape.class, 7, shape.len);
    framed(shape, 0x86dd, &header)
}

fn frame4(shape: &Shape) -> Vec<u8> {
    const SOURCES: [[u8; 4]; 6] = [
        [10, 0, 1, 2],
        [10, 0, 1, 3],
        [10, 0, 2, 1],
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [224, 0, 0, 1],
    ];
    const DESTINATIONS: [[u8; 4]; 10] = [
        [10, 0, 2, 2],
        [10, 0, 2, 3],
        [10, 0, 3, 2],
        [10, 9, 9, 9],
        [10, 0, 2, 2],
        [10, 0, 1, 3],
        [10, 0, 2, 1],
        [10, 200, 0, 1],
        [10, 0, 2, 77],
        [224, 0, 0, 9],
    ];
    let (src, dst) = (SOURCES[shape.src], DESTINATIONS[shape.dst]);
    let mut header = ipv4(
        src,
        dst,
        shape.next,
        shape.limit,
        shape.class,
        1,
        0,
        shape.len,
    );
    if shape.next != 0 {
        fill_check(&mut header);
    }
    framed(shape, 0x0800, &header)
}

fn framed(shape: &Shape, protocol: u16, header: &[u8]) -> Vec<u8> {
    let to = if shape.to_us {
        device_mac(1)
    } else {
        [2, 9, 9, 9, 9, 9]
    };
    let payload = vec![shape.class; shape.len];
    let mut frame = [&ethernet(to, host_mac(1), protocol)[..], header, &payload].concat();
    let len = frame.len().saturating_add_signed(shape.padding.into());
    frame.resize(len.max(14), 0);
    frame
}

/// What can be seen of a router from outside.
fn seen(world: &World) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let mut frames: Vec<_> = world
        .left()
        .into_iter()
        .map(|(name, _, frame)| (name, frame))
        .collect();
    // The order counts on each device.
    frames.sort_by(|(a, _), (b, _)| a.cmp(b));
    let of = |name: &str| {
        let device = world.device(name);
        format!(
            "{name} {:?} {:?} {:?}",
            device.drops(),
            device.totals(),
            device.mib()
        )
    };
    let mut counters: Vec<_> = ["d1", "d2", "d3"].into_iter().map(of).collect();
    counters.push(format!("{:?}", world.ns.mib()));
    (frames, counters)
}

fn compare(frames: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let (mut straight, mut full) = (router(false), router(true));
    for world in [&mut straight, &mut full] {
        world.arrive("d1", frames);
    }
    let (a, b) = (seen(&straight), seen(&full));
    prop_assert_eq!(a.0, b.0);
    for (a, b) in a.1.iter().zip(&b.1) {
        prop_assert_eq!(a, b);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn ipv6_packets_are_treated_alike(shapes in prop::collection::vec(shape(), 1..64)) {
        compare(&shapes.iter().map(frame6).collect::<Vec<_>>())?;
    }

    #[test]
    fn ipv4_packets_are_treated_alike(shapes in prop::collection::vec(shape(), 1..64)) {
        compare(&shapes.iter().map(frame4).collect::<Vec<_>>())?;
    }
}

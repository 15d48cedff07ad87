// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding by nexthop objects: groups by weight, gateways that do not answer, resilient groups, blackholes, replaced
//! and deleted objects.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::BTreeMap;

use crate::world::{Packet, World, host_mac, ip};
use weir_netlink::nexthop::{self as nha, res_group};
use weir_netlink::{Fixed, NextHopGrp, NhMsg, RtMsg, af, nlm, rta, rtm};

const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;
const REPLACE: u16 = nlm::F_CREATE | nlm::F_REPLACE;

/// Adds or replaces a next hop; without a gateway it is a blackhole.
fn hop(world: &mut World, flags: u16, id: u32, gateway: Option<(&str, &str)>) {
    let oif = gateway.map(|(_, device)| world.device(device).ifindex());
    let address = gateway.map(|(gateway, _)| ip(gateway));
    let ipv6 = address.is_some_and(|address| address.is_ipv6());
    let done = world.request(rtm::NEWNEXTHOP, flags, |out| {
        out.fixed(&NhMsg {
            family: if ipv6 { af::INET6 } else { af::INET },
            ..NhMsg::default()
        });
        out.put_u32(nha::ID, id);
        match (address, oif) {
            (Some(address), Some(oif)) => {
                out.put_u32(nha::OIF, oif);
                out.put_ip(nha::GATEWAY, address);
            }
            _ => out.put_flag(nha::BLACKHOLE),
        }
    });
    assert_eq!(done, 0, "{id}");
}

/// Adds or replaces a group of (id, weight), resilient if a number of buckets and the idle timer in seconds are given.
fn group(world: &mut World, flags: u16, id: u32, of: &[(u32, u8)], buckets: Option<(u16, u32)>) {
    let done = world.request(rtm::NEWNEXTHOP, flags, |out| {
        out.fixed(&NhMsg::default());
        out.put_u32(nha::ID, id);
        let entry = |&(id, weight): &(u32, u8)| {
            NextHopGrp {
                id,
                weight: weight - 1,
                ..NextHopGrp::default()
            }
            .to_vec()
        };
        let entries: Vec<u8> = of.iter().flat_map(entry).collect();
        out.put(nha::GROUP, &entries);
        if let Some((buckets, idle)) = buckets {
            out.put_u16(nha::GROUP_TYPE, nha::GRP_TYPE_RES);
            let nest = out.nest(nha::RES_GROUP);
            out.put_u16(res_group::BUCKETS, buckets);
            out.put_u32(res_group::IDLE_TIMER, idle * 100);
            out.end(nest);
        }
    });
    assert_eq!(done, 0, "{id}");
}

fn delete(world: &mut World, id: u32) {
    let done = world.request(rtm::DELNEXTHOP, 0, |out| {
        out.fixed(&NhMsg::default());
        out.put_u32(nha::ID, id);
    });
    assert_eq!(done, 0, "{id}");
}

/// Adds a route by an object.
fn route(world: &mut World, dst: (&str, u8), id: u32) {
    let address = ip(dst.0);
    let done = world.request(rtm::NEWROUTE, ADD, |out| {
        out.fixed(&RtMsg {
            family: if address.is_ipv6() {
                af::INET6
            } else {
                af::INET
            },
            dst_len: dst.1,
            protocol: rta::prot::STATIC,
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        });
        out.put_ip(rta::DST, address);
        out.put_u32(rta::NH_ID, id);
    });
    assert_eq!(done, 0, "{dst:?}");
}

/// A router with devices d1, d2 and d3 and the objects 2 and 3 by their hosts.
fn router() -> World {
    let mut world = World::router();
    world.port(3);
    world.neighbour("d3", [10, 0, 3, 2].into(), host_mac(3));
    hop(&mut world, ADD, 2, Some(("10.0.2.2", "d2")));
    hop(&mut world, ADD, 3, Some(("10.0.3.2", "d3")));
    world
}

/// Sends a packet of each of the flows through the router. Returns the device that each one left by.
fn flows(world: &mut World, flows: u16) -> BTreeMap<[u8; 4], String> {
    let frames: Vec<_> = (0..flows)
        .map(|n| {
            let [a, b] = n.to_be_bytes();
            let dst = [172, 16, a, b];
            let packet = Packet {
                dst,
                ..Packet::default()
            };
            packet.from(1)
        })
        .collect();
    world.arrive("d1", &frames);
    let left = world.left().into_iter();
    left.filter_map(|(name, _, frame)| {
        let dst: [u8; 4] = frame.get(30..34)?.try_into().ok()?;
        (dst[0] == 172).then_some((dst, name))
    })
    .collect()
}

fn by(flows: &BTreeMap<[u8; 4], String>, name: &str) -> usize {
    flows.values().filter(|device| *device == name).count()
}

#[test]
fn groups_share_by_weight_and_follow_their_members() {
    let mut world = router();
    group(&mut world, ADD, 10, &[(2, 3), (3, 1)], None);
    route(&mut world, ("172.16.0.0", 12), 10);
    let first = flows(&mut world, 1000);
    assert_eq!(by(&first, "d2") + by(&first, "d3"), 1000);
    assert!(
        (700..=800).contains(&by(&first, "d2")),
        "{}",
        by(&first, "d2")
    );
    assert!(flows(&mut world, 1000) == first);
    group(&mut world, REPLACE, 10, &[(3, 1)], None);
    assert_eq!(by(&flows(&mut world, 100), "d3"), 100);
    // A replaced member changes the group's routes.
    hop(&mut world, REPLACE, 3, Some(("10.0.2.2", "d2")));
    assert_eq!(by(&flows(&mut world, 100), "d2"), 100);
    hop(&mut world, REPLACE, 3, None);
    assert!(flows(&mut world, 100).is_empty());
    hop(&mut world, REPLACE, 3, Some(("10.0.3.2", "d3")));
    group(&mut world, REPLACE, 10, &[(2, 1), (3, 1)], None);
    delete(&mut world, 2);
    assert_eq!(by(&flows(&mut world, 100), "d3"), 100);
    // The route goes with the last member.
    world.set_up("d3", false);
    assert!(flows(&mut world, 100).is_empty());
    world.set_up("d3", true);
    assert!(flows(&mut world, 100).is_empty());
}

#[test]
fn a_gateway_that_does_not_answer_is_avoided() {
    let mut world = router();
    hop(&mut world, REPLACE, 3, Some(("10.0.3.9", "d3")));
    group(&mut world, ADD, 10, &[(3, 1), (2, 1)], None);
    route(&mut world, ("172.16.0.0", 12), 10);
    // The first packet asks for 10.0.3.9, which never answers.
    flows(&mut world, 100);
    world.pass(5_000);
    world.left();
    assert_eq!(by(&flows(&mut world, 100), "d2"), 100);
}

#[test]
fn flows_keep_their_hop_in_resilient_groups() {
    let mut world = router();
    group(&mut world, ADD, 10, &[(2, 1)], Some((64, 20)));
    route(&mut world, ("172.16.0.0", 12), 10);
    group(&mut world, REPLACE, 10, &[(2, 1), (3, 1)], Some((64, 20)));
    let first = flows(&mut world, 500);
    assert!(
        (200..=300).contains(&by(&first, "d2")),
        "{}",
        by(&first, "d2")
    );
    // All buckets are in use: a changed weight moves none, until they have been idle.
    group(&mut world, REPLACE, 10, &[(2, 3), (3, 1)], Some((64, 20)));
    world.pass(10_000);
    assert!(flows(&mut world, 500) == first);
    world.pass(15_000);
    assert!(flows(&mut world, 500) == first);
    world.pass(25_000);
    let later = flows(&mut world, 500);
    assert!(
        (330..=420).contains(&by(&later, "d2")),
        "{}",
        by(&later, "d2")
    );
    let moved = first.iter().filter(|(dst, name)| later[*dst] != **name);
    assert!(moved.clone().all(|(_, name)| name == "d3"));
    // Only the flows of a member that goes move.
    delete(&mut world, 2);
    assert_eq!(by(&flows(&mut world, 500), "d3"), 500);
}

#[test]
fn ipv6_and_ipv4_by_ipv6() {
    let mut world = World::new();
    world.sysctl("net/ipv6/conf/all/accept_dad", "0");
    world.sysctl("net/ipv6/conf/default/accept_dad", "0");
    world.sysctl("net/ipv6/conf/all/forwarding", "1");
    world.sysctl("net/ipv4/ip_forward", "1");
    for n in 1..=3 {
        world.port(n);
        let name = format!("d{n}");
        world.address(&name, ip(&format!("fd00:{n}::1")), 64);
        world.neighbour(&name, ip(&format!("fd00:{n}::2")), host_mac(n));
    }
    world.pass(5_000);
    world.left();
    hop(&mut world, ADD, 2, Some(("fd00:2::2", "d2")));
    hop(&mut world, ADD, 3, Some(("fd00:3::2", "d3")));
    group(&mut world, ADD, 10, &[(2, 1), (3, 1)], None);
    route(&mut world, ("172.16.0.0", 12), 10);
    route(&mut world, ("fd16::", 16), 10);
    let by_v4 = flows(&mut world, 400);
    assert_eq!(by_v4.len(), 400);
    assert!((150..=250).contains(&by(&by_v4, "d2")));
    let frames: Vec<Vec<u8>> = (0..400u16)
        .map(|n| {
            let mut frame = crate::world::device_mac(1).to_vec();
            frame.extend(host_mac(1));
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64]);
            for text in ["fd00:1::2", "fd16::"] {
                let std::net::IpAddr::V6(address) = ip(text) else {
                    unreachable!()
                };
                frame.extend(address.octets());
            }
            let end = frame.len();
            frame[end - 2..].copy_from_slice(&n.to_be_bytes());
            frame
        })
        .collect();
    world.arrive("d1", &frames);
    let left = world.left();
    let at = |name: &str| left.iter().filter(|frame| frame.0 == name).count();
    assert_eq!(at("d2") + at("d3"), 400);
    assert!((150..=250).contains(&at("d2")), "{}", at("d2"));
    delete(&mut world, 10);
    world.arrive("d1", &frames[..1]);
    assert_eq!(world.one().0, "d1", "an error goes back");
}

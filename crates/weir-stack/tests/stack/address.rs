// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of both families: order, secondary addresses, lifetimes, duplicate address detection,
//! routes. The expected lists are those of Linux 6.1.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::world::World;
use weir_netlink::{IfAddrMsg, IfaCacheInfo, af, errno, ifa, nlm, rtm};
use weir_stack::fib::host::WithRoutes;
use weir_stack::ipv4::WithIpv4;
use weir_stack::ipv6::WithIpv6;
use weir_stack::layers::Site;

fn v4(last: [u8; 2]) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, last[0], last[1])
}

/// Returns the IPv4 addresses of a device: last two octets, flags, label.
fn list4(world: &World, name: &str) -> Vec<([u8; 2], u32, String)> {
    let guard = world.stack.domain.pin();
    let device = world.device(name);
    let all = device.ipv4().addresses.list(&guard).iter();
    all.map(|address| {
        let [_, _, c, d] = address.local.octets();
        ([c, d], address.flags, address.label.clone())
    })
    .collect()
}

fn list6(world: &World, name: &str) -> Vec<(String, u32)> {
    let guard = world.stack.domain.pin();
    let device = world.device(name);
    let all = device.ipv6().addresses.list(&guard).iter();
    all.map(|address| (address.address.to_string(), address.flags))
        .collect()
}

fn add6(world: &mut World, name: &str, address: Ipv6Addr, flags: u32, lives: (u32, u32)) -> i32 {
    let index = world.device(name).ifindex();
    world.request(rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfAddrMsg {
            family: af::INET6,
            prefixlen: 64,
            index,
            ..IfAddrMsg::default()
        });
        out.put_ipv6(ifa::LOCAL, address);
        out.put_ipv6(ifa::ADDRESS, address);
        out.put_u32(ifa::FLAGS, flags);
        out.put_fixed(
            ifa::CACHEINFO,
            &IfaCacheInfo {
                preferred: lives.0,
                valid: lives.1,
                ..IfaCacheInfo::default()
            },
        );
    })
}

/// Returns the IPv4 routes ordered by prefix: (prefix, length, source).
fn routes4(world: &World, table: u32) -> Vec<(Ipv4Addr, u8, String)> {
    let guard = world.stack.domain.pin();
    let mut found = Vec::new();
    if let Some(table) = world.ns.fib().v4.table(table, &guard) {
        let _ = table.dump(None, &guard, |key, len, leaf| {
            for alias in leaf.iter() {
                let src = alias.info.spec.prefsrc.map(|src| src.to_string());
                found.push((Ipv4Addr::from(key), len, src.unwrap_or_default()));
            }
            std::ops::ControlFlow::<()>::Continue(())
        });
    }
    found
}

const PERMANENT: u32 = ifa::f::PERMANENT;
const SECONDARY: u32 = ifa::f::PERMANENT | ifa::f::SECONDARY;

#[test]
fn secondary_addresses_go_with_the_first_or_follow_it() {
    for promote in [false, true] {
        let mut world = World::ipv4_only();
        world.dummy("d1", crate::world::device_mac(1));
        for last in [[1, 1], [1, 2], [2, 1], [1, 3]] {
            world.address("d1", v4(last).into(), 24);
        }
        let flags: Vec<_> = list4(&world, "d1").iter().map(|a| (a.0, a.1)).collect();
        assert_eq!(
            flags,
            [
                ([1, 1], PERMANENT),
                ([2, 1], PERMANENT),
                ([1, 2], SECONDARY),
                ([1, 3], SECONDARY)
            ]
        );
        world.sysctl(
            "net/ipv4/conf/d1/promote_secondaries",
            if promote { "1" } else { "0" },
        );
        assert_eq!(
            world.try_address(rtm::DELADDR, "d1", v4([1, 1]).into(), 24),
            0
        );
        let flags: Vec<_> = list4(&world, "d1").iter().map(|a| (a.0, a.1)).collect();
        let main = routes4(&world, 254);
        if promote {
            assert_eq!(
                flags,
                [
                    ([2, 1], PERMANENT),
                    ([1, 2], PERMANENT),
                    ([1, 3], SECONDARY)
                ]
            );
            assert_eq!(
                main,
                [
                    (v4([1, 0]), 24, "10.0.1.2".to_owned()),
                    (v4([2, 0]), 24, "10.0.2.1".to_owned())
                ]
            );
            let local = routes4(&world, 255);
            assert!(local.contains(&(v4([1, 3]), 32, "10.0.1.2".to_owned())));
            assert!(!local.iter().any(|route| route.0 == v4([1, 1])));
        } else {
            assert_eq!(flags, [([2, 1], PERMANENT)]);
            assert_eq!(main, [(v4([2, 0]), 24, "10.0.2.1".to_owned())]);
        }
    }
}

#[test]
fn refusals_are_linux_ones_and_change_nothing() {
    let mut world = World::ipv4_only();
    world.dummy("d1", crate::world::device_mac(1));
    world.address("d1", v4([1, 1]).into(), 24);
    let cases = [
        (rtm::NEWADDR, v4([1, 1]), 24, errno::EEXIST),
        (rtm::NEWADDR, v4([1, 9]), 33, errno::EINVAL),
        (rtm::DELADDR, v4([1, 9]), 24, errno::EADDRNOTAVAIL),
        (rtm::DELADDR, v4([1, 1]), 25, errno::EADDRNOTAVAIL),
    ];
    for (ty, address, len, errno) in cases {
        assert_eq!(world.try_address(ty, "d1", address.into(), len), errno);
    }
    assert_eq!(list4(&world, "d1").len(), 1);
    // As in Linux, 0.0.0.0 is accepted and does nothing.
    let none = Ipv4Addr::UNSPECIFIED;
    assert_eq!(world.try_address(rtm::NEWADDR, "d1", none.into(), 24), 0);
    assert_eq!(list4(&world, "d1").len(), 1);
    let other = "2001:db8::1".parse().unwrap();
    let forever = (u32::MAX, u32::MAX);
    assert_eq!(add6(&mut world, "d1", other, 0, forever), errno::EACCES);
}

#[test]
fn the_loopback_device_has_its_own() {
    let world = World::new();
    assert_eq!(list4(&world, "lo"), [([0, 1], PERMANENT, "lo".to_owned())]);
    assert_eq!(list6(&world, "lo"), [("::1".to_owned(), PERMANENT)]);
    let local = routes4(&world, 255);
    let prefixes: Vec<_> = local.iter().map(|route| (route.0, route.1)).collect();
    assert_eq!(
        prefixes,
        [
            (Ipv4Addr::new(127, 0, 0, 0), 8),
            (Ipv4Addr::new(127, 0, 0, 1), 32),
            (Ipv4Addr::new(127, 255, 255, 255), 32)
        ]
    );
}

#[test]
fn addresses_end_on_their_second() {
    let mut world = World::new();
    world.dummy("d1", crate::world::device_mac(1));
    let address = "2001:db8::1".parse().unwrap();
    assert_eq!(add6(&mut world, "d1", address, ifa::f::NODAD, (5, 10)), 0);
    let flags = |world: &World| {
        let list = list6(world, "d1");
        let found = list.iter().find(|a| a.0 == "2001:db8::1");
        found.map(|found| found.1)
    };
    assert_eq!(flags(&world), Some(ifa::f::NODAD));
    world.pass(4_999);
    assert_eq!(flags(&world), Some(ifa::f::NODAD));
    world.pass(1);
    assert_eq!(flags(&world), Some(ifa::f::NODAD | ifa::f::DEPRECATED));
    world.pass(4_999);
    assert!(flags(&world).is_some());
    world.pass(1);
    assert_eq!(flags(&world), None);
}

#[test]
fn an_address_is_tentative_until_nobody_objects() {
    let mut world = World::new();
    // A dummy device does no duplicate address detection by default.
    world.sysctl("net/ipv6/conf/all/accept_dad", "1");
    world.dummy("d1", crate::world::device_mac(1));
    let link_local = "fe80::ff:fe00:101";
    let tentative = PERMANENT | ifa::f::TENTATIVE;
    assert_eq!(list6(&world, "d1"), [(link_local.to_owned(), tentative)]);
    world.pass(999);
    assert_eq!(list6(&world, "d1")[0].1, tentative);
    world.pass(1);
    assert_eq!(list6(&world, "d1")[0].1, PERMANENT);
    // The newest come first among those of the same scope. No detection where it is not wanted.
    let forever = (u32::MAX, u32::MAX);
    let name = |n: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n);
    assert_eq!(add6(&mut world, "d1", name(1), 0, forever), 0);
    assert_eq!(add6(&mut world, "d1", name(2), ifa::f::NODAD, forever), 0);
    assert_eq!(add6(&mut world, "d1", name(2), 0, forever), errno::EEXIST);
    assert_eq!(
        list6(&world, "d1"),
        [
            ("2001:db8::2".to_owned(), PERMANENT | ifa::f::NODAD),
            ("2001:db8::1".to_owned(), tentative),
            (link_local.to_owned(), PERMANENT)
        ]
    );
    // Another host claims the address.
    let device = world.device("d1");
    let guard = world.stack.domain.pin();
    device.ipv6().addresses.duplicate(
        &Site {
            stack: &world.stack,
            guard: &guard,
            ns: &world.ns,
            device: &device,
        },
        name(1),
    );
    drop(guard);
    world.pass(5_000);
    let failed = tentative | ifa::f::DADFAILED;
    assert_eq!(list6(&world, "d1")[1].1, failed);
    // Going down removes all addresses. Coming up brings back the link-local one, tentative again.
    world.set_up("d1", false);
    assert!(list6(&world, "d1").is_empty());
    world.set_up("d1", true);
    assert_eq!(list6(&world, "d1"), [(link_local.to_owned(), tentative)]);
}

#[test]
fn permanent_addresses_stay_where_that_is_asked_for() {
    let mut world = World::new();
    world.dummy("d1", crate::world::device_mac(1));
    world.sysctl("net/ipv6/conf/d1/keep_addr_on_down", "1");
    let forever = (u32::MAX, u32::MAX);
    let address = "2001:db8::1".parse().unwrap();
    assert_eq!(add6(&mut world, "d1", address, 0, forever), 0);
    world.pass(2_000);
    world.set_up("d1", false);
    assert_eq!(list6(&world, "d1").len(), 1);
    world.set_up("d1", true);
    world.pass(2_000);
    let flags: Vec<_> = list6(&world, "d1").iter().map(|a| a.1).collect();
    assert_eq!(flags, [PERMANENT, PERMANENT]);
}

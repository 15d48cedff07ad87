// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What routers advertise lasts as long as they say, under virtual time.

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::Ipv6Addr;

use crate::world::World;
use weir_netlink::ifa;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::transport::fill_check_v6;
use weir_stack::Config;
use weir_stack::fib::host::WithRoutes;
use weir_stack::ipv6::WithIpv6;
use weir_stack::layers::Site;
use weir_stack::settings::{Ipv6Conf, WithSettings};

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0xff, 0xfe00, 0x10);

/// Returns an advertisement of a default router and of the prefix of [`ADDRESS`], with lifetimes in
/// seconds.
fn advertisement(router: u16, valid: u32, preferred: u32) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0];
    message.extend(router.to_be_bytes());
    message.extend([0; 8]);
    message.extend([3, 4, 64, 0xc0]);
    message.extend(valid.to_be_bytes());
    message.extend(preferred.to_be_bytes());
    message.extend([0; 4]);
    message.extend(&ADDRESS.octets()[..8]);
    message.extend([0; 8]);
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets();
    fill_check_v6(ROUTER.octets(), all, 58, &mut message);
    let header = ipv6(ROUTER.octets(), all, 58, 255, 0, 0, message.len());
    let eth = ethernet([0x33, 0x33, 0, 0, 0, 1], [2, 0, 0, 0, 0, 1], 0x86dd);
    [&eth[..], &header, &message].concat()
}

fn host() -> World {
    let mut world = World::new();
    world.dummy("d0", HOST);
    world.pass(3000);
    world
}

/// Returns the flags and the remaining preferred and valid lifetimes of the address.
fn address(world: &World) -> Option<(u32, (u32, u32))> {
    let guard = world.stack.domain.pin();
    let device = world.device("d0");
    let address = device.ipv6().addresses.get(ADDRESS, &guard)?;
    let flags = address.flags & (ifa::f::DEPRECATED | ifa::f::TENTATIVE);
    Some((flags, address.rest(world.stack.clock.now())))
}

/// Returns whether there is a route of a prefix in the main table.
fn has_route(world: &World, prefix: u128, len: u8) -> bool {
    let guard = world.stack.domain.pin();
    let table = weir_netlink::rta::table::MAIN;
    let fib = &world.ns.fib().v6;
    fib.route_of((table, prefix, len), |_| true, &guard)
        .is_some()
}

#[test]
fn lifetimes_are_counted_down() {
    let mut world = host();
    let prefix = u128::from(ADDRESS) >> 64 << 64;
    world.arrive("d0", &[advertisement(30, 60, 20)]);
    world.pass(5000);
    assert_eq!(address(&world), Some((0, (15, 55))));
    assert!(has_route(&world, 0, 0) && has_route(&world, prefix, 64));
    world.pass(16_000);
    assert_eq!(address(&world), Some((ifa::f::DEPRECATED, (0, 39))));
    world.pass(10_000);
    assert!(!has_route(&world, 0, 0) && has_route(&world, prefix, 64));
    world.pass(30_000);
    assert_eq!(address(&world), None);
    assert!(!has_route(&world, prefix, 64));
}

#[test]
fn an_advertisement_renews_them() {
    let mut world = host();
    for _ in 0..40 {
        world.arrive("d0", &[advertisement(30, 60, 20)]);
        world.pass(15_000);
        assert_eq!(address(&world), Some((0, (5, 45))));
        assert!(has_route(&world, 0, 0));
    }
    world.pass(50_000);
    assert_eq!(address(&world), None);
    assert!(!has_route(&world, 0, 0));
}

/// Two hours are the least that an unauthenticated advertisement leaves of a longer lifetime.
#[test]
fn a_long_lifetime_ends_no_sooner_than_in_two_hours() {
    let mut world = host();
    world.arrive("d0", &[advertisement(30, 100_000, 90_000)]);
    world.pass(5000);
    world.arrive("d0", &[advertisement(30, 10, 0)]);
    world.pass(1);
    assert_eq!(address(&world), Some((ifa::f::DEPRECATED, (0, 7200))));
}

/// A temporary address: itself, its flags, its remaining preferred and valid lifetimes.
type Temporary = (Ipv6Addr, u32, (u32, u32));

/// Returns the temporary addresses, the newest first.
fn temporary(world: &World) -> Vec<Temporary> {
    let guard = world.stack.domain.pin();
    let device = world.device("d0");
    let now = world.stack.clock.now();
    let list = device.ipv6().addresses.list(&guard);
    let temporary = list.iter().filter(|a| a.has(ifa::f::TEMPORARY));
    temporary
        .map(|a| (a.address, a.flags & !ifa::f::TEMPORARY, a.rest(now)))
        .collect()
}

fn private(settings: &[(&str, &str)], seed: u64) -> World {
    let mut world = World::with(Config {
        seed,
        ..Config::default()
    });
    world.dummy("d0", HOST);
    // It was made without ARP, and so without detection.
    let detects = [("accept_dad", "1"), ("use_tempaddr", "1")];
    for (name, value) in [&detects, settings].concat() {
        world.sysctl(&format!("net/ipv6/conf/d0/{name}"), value);
    }
    world.pass(3000);
    world
}

const SHORT: [(&str, &str); 3] = [
    ("max_desync_factor", "0"),
    ("temp_prefered_lft", "20"),
    ("temp_valid_lft", "39"),
];

/// RFC 8981, 3.4 and 3.5: `regen_max_retry` (3) solicitations, a second apart, are left for the successor.
#[test]
fn a_temporary_address_has_a_successor_before_it_is_deprecated() {
    let mut world = private(&SHORT, 1);
    world.arrive("d0", &[advertisement(30, 1000, 500)]);
    assert_eq!(temporary(&world)[0].1, ifa::f::TENTATIVE);
    world.pass(5000);
    let [first] = temporary(&world)[..] else {
        panic!("{:?}", temporary(&world));
    };
    assert_eq!((first.1, first.2), (0, (15, 34)));
    assert_eq!(first.0.segments()[..4], ADDRESS.segments()[..4]);
    world.pass(11_999);
    assert_eq!(temporary(&world).len(), 1);
    world.pass(1001);
    let [second, old] = temporary(&world)[..] else {
        panic!("{:?}", temporary(&world));
    };
    assert_eq!((old.0, old.1, old.2), (first.0, 0, (2, 21)));
    assert_eq!((second.1, second.2), (0, (19, 38)));
    world.pass(2000);
    assert_eq!(temporary(&world)[1].1, ifa::f::DEPRECATED);
    // The next one is made at 34 s; the first one ends at 39 s.
    world.pass(18_999);
    assert_eq!(temporary(&world).len(), 3);
    world.pass(1);
    let left: Vec<_> = temporary(&world).iter().map(|one| one.1).collect();
    assert_eq!(left, [0, ifa::f::DEPRECATED]);
    // An advertisement renews them no longer than their own lifetimes.
    world.arrive("d0", &[advertisement(30, 1000, 500)]);
    let left: Vec<_> = temporary(&world).iter().map(|one| one.2).collect();
    assert_eq!(left, [(15, 34), (0, 17)]);
    world.arrive("d0", &[advertisement(30, 0, 0)]);
    let left: Vec<_> = temporary(&world).iter().map(|one| one.2).collect();
    assert_eq!(left, [(0, 34), (0, 17)]);
}

/// Another host may have an address; after three attempts there are no more (`regen_max_retry`).
#[test]
fn duplicate_temporary_addresses_are_replaced_a_few_times() {
    let mut world = private(&SHORT, 1);
    world.arrive("d0", &[advertisement(30, 1000, 500)]);
    let mut seen = Vec::new();
    while let [one] = temporary(&world)[..] {
        seen.push(one.0);
        assert_eq!(one.1, ifa::f::TENTATIVE);
        let (guard, device) = (world.stack.domain.pin(), world.device("d0"));
        let site = Site::new(&world.stack, &guard, &world.ns, &device);
        device.ipv6().addresses.duplicate(&site, one.0);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
    let device = world.device("d0");
    assert_eq!(device.conf().ipv6.get(Ipv6Conf::UseTempaddr), -1);
    world.pass(5000);
    assert_eq!((temporary(&world), address(&world).unwrap().0), (vec![], 0));
}

#[test]
fn temporary_addresses_follow_from_the_seed() {
    let made = |seed| {
        let mut world = private(&[], seed);
        world.arrive("d0", &[advertisement(30, 1 << 20, 1 << 20)]);
        world.pass(5000);
        let [one] = temporary(&world)[..] else {
            panic!("{:?}", temporary(&world));
        };
        // A day less the delay, which is below ten minutes; a week.
        assert!((86_400 - 605..=86_395).contains(&one.2.0), "{one:?}");
        assert_eq!(one.2.1, 604_795);
        (one.0, one.2.0)
    };
    assert_eq!(made(1), made(1));
    let all: std::collections::BTreeSet<_> = (1..20).map(made).collect();
    assert_eq!(all.len(), 19);
    let delays: std::collections::BTreeSet<_> = all.iter().map(|one| one.1).collect();
    assert!(delays.len() > 10, "{delays:?}");
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What routers advertise lasts as long as they say, under virtual time.

#![allow(clippy::unwrap_used)] // Test helpers may panic.

use std::net::Ipv6Addr;

use crate::world::World;
use weir_netlink::ifa;
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::ipv6;
use weir_packet::header::transport::fill_check_v6;
use weir_stack::fib::host::WithRoutes;
use weir_stack::ipv6::WithIpv6;

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

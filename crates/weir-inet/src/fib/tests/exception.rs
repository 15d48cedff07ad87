// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exceptions of routes.

use std::net::IpAddr;

use super::super::exception::{INTERVAL, MOST};
use super::super::lookup::{Flow, Found, LookupFlags};
use super::{ADD, Dev, V0, World, at, route};

fn gateway(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([10, 0, 0, last]))
}

fn with_route() -> World {
    let world = World::with_addresses();
    world
        .add(ADD, route::<u32>("20.0.0.0/8", "10.0.0.98", 0))
        .unwrap();
    world
}

/// Calls `work` with the route of an address.
fn with<R>(world: &World, dst: u32, work: impl FnOnce(Found<'_, u32, Dev>) -> R) -> R {
    let guard = world.domain.pin();
    let flow = Flow {
        dst,
        ..Flow::default()
    };
    let found = world.fib.v4.lookup(&flow, LookupFlags::default(), &guard);
    work(found.unwrap())
}

/// Returns the gateway of an address's exception.
fn found(world: &World, dst: u32) -> Option<IpAddr> {
    let guard = world.domain.pin();
    with(world, dst, |found| {
        let one = world.fib.v4.exceptions.find(dst, &found, &guard)?;
        one.gateway
    })
}

fn set(world: &World, dst: u32, last: u8, expires: Option<u64>) {
    with(world, dst, |found| {
        let v4 = &world.fib.v4;
        v4.set_exception(dst, &found, gateway(last), expires);
    });
}

const DST: u32 = 0x1400_0001;

#[test]
fn an_exception_is_of_one_destination_and_is_replaced() {
    let world = with_route();
    assert_eq!(found(&world, DST), None);
    set(&world, DST, 7, None);
    assert_eq!(found(&world, DST), gateway(7));
    assert_eq!(found(&world, DST + 1), None);
    set(&world, DST, 8, None);
    assert_eq!(found(&world, DST), gateway(8));
    assert_eq!(world.fib.v4.exceptions.all().len(), 1);
    assert_eq!(world.fib.v4.remove_exceptions(|one| one.dst == DST), 1);
    assert_eq!(found(&world, DST), None);
    assert!(!world.fib.v4.exceptions.any());
}

#[test]
fn an_exception_ends_with_its_route() {
    let world = with_route();
    set(&world, DST, 7, None);
    let same = route::<u32>("20.0.0.0/8", "10.0.0.98", 0);
    world
        .fib
        .v4
        .delete(&same, &world.domain.pin(), &mut Vec::new())
        .unwrap();
    world.add(ADD, same).unwrap();
    assert_eq!(found(&world, DST), None);
    assert!(world.fib.v4.exceptions.all().is_empty());
    let guard = world.domain.pin();
    assert!(world.fib.v4.has_gateway(V0, [10, 0, 0, 98].into(), &guard));
    assert!(!world.fib.v4.has_gateway(V0, [10, 0, 0, 99].into(), &guard));
    assert_eq!(at(V0).0.ifindex, V0);
}

#[test]
fn exceptions_expire_or_go_unused() {
    let world = with_route();
    set(&world, DST, 7, Some(100));
    set(&world, DST + 1, 7, None);
    let look = |now| world.fib.v4.look_after_exceptions(now, |_| false);
    assert_eq!(look(100), Some(101));
    assert_eq!(found(&world, DST), gateway(7));
    assert_eq!(look(101), Some(101 + INTERVAL));
    assert_eq!(found(&world, DST), None);
    assert_eq!(found(&world, DST + 1), gateway(7));
    // That was a use.
    assert!(look(102).is_some() && look(103).is_some());
    assert_eq!(look(104), None);
    assert!(!world.fib.v4.exceptions.any());
}

#[test]
fn the_oldest_makes_way() {
    let world = with_route();
    for n in 0..MOST as u32 {
        set(&world, DST + n, 7, None);
    }
    // One that is set again is young.
    set(&world, DST + 3, 8, None);
    for n in 0..10 {
        set(&world, DST + MOST as u32 + n, 7, None);
    }
    let all = world.fib.v4.exceptions.all();
    assert_eq!(all.len(), MOST);
    assert!(all.is_sorted_by_key(|one| one.dst));
    assert_eq!(found(&world, DST + 3), gateway(8));
    assert_eq!(found(&world, DST + 10), None);
    assert_eq!(found(&world, DST + 11), gateway(7));
}

#[test]
fn an_exception_is_of_one_route() {
    let world = with_route();
    world
        .add(ADD, route::<u32>("20.0.0.0/16", "10.0.0.99", 0))
        .unwrap();
    set(&world, DST, 7, None);
    let narrow = route::<u32>("20.0.0.0/16", "10.0.0.99", 0);
    world
        .fib
        .v4
        .delete(&narrow, &world.domain.pin(), &mut Vec::new())
        .unwrap();
    // The wider route has its own.
    assert_eq!(found(&world, DST), None);
    set(&world, DST, 8, None);
    assert_eq!(found(&world, DST), gateway(8));
    let shown = world.fib.v4.exceptions.all();
    let gateways: Vec<_> = shown.iter().map(|one| one.gateway).collect();
    assert_eq!(gateways, [gateway(8)]);
}

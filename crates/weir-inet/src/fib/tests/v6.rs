// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 routes.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;

use weir_netlink::{Error, errno, nlm, rta};

use super::super::FibHost;
use super::super::address::{local6, multicast6, prefix6};
use super::super::lookup::{Flow, HashPolicy, LookupFlags};
use super::super::route::{HopConfig, RouteConfig};
use super::super::sequence::tests::STEPS;
use super::super::sync::Loss;
use super::{ADD, V0, V1, World, at, route, v6};

fn world6() -> World {
    let world = World::new();
    let kernel = |config: RouteConfig<u128>| {
        let flags = config.nlflags;
        world.add6(flags, config).unwrap();
    };
    kernel(local6(Ipv6Addr::LOCALHOST, &at(1), false));
    for (index, net) in [(V0, "2001:db8:0::"), (V1, "2001:db8:1::")] {
        let net: Ipv6Addr = net.parse().unwrap();
        let address = Ipv6Addr::from(u128::from(net) + 1);
        kernel(local6(address, &at(index), false));
        kernel(prefix6(net, 64, &at(index), 0, None));
        kernel(prefix6("fe80::".parse().unwrap(), 64, &at(index), 0, None));
        kernel(multicast6(&at(index)));
    }
    world
}

#[test]
fn ipv6_dumps_longer_prefixes_first() {
    let world = world6();
    world.add6(ADD, route("::/0", "fe80::1", V0)).unwrap();
    world
        .add6(ADD, route("2001:db8::/32", "fe80::1", V0))
        .unwrap();
    assert_eq!(
        world.show6(rta::table::MAIN),
        [
            "2001:db8::/64 dev 2 metric 256",
            "2001:db8:1::/64 dev 3 metric 256",
            "2001:db8::/32 via fe80::1 dev 2 metric 1024",
            "fe80::/64 dev 2 metric 256",
            "fe80::/64 dev 3 metric 256",
            "::/0 via fe80::1 dev 2 metric 1024",
        ]
    );
    assert_eq!(
        world.show6(rta::table::LOCAL),
        [
            "local ::1/128 dev 1",
            "local 2001:db8::1/128 dev 2",
            "local 2001:db8:1::1/128 dev 3",
            "multicast ff00::/8 dev 2 metric 256",
            "multicast ff00::/8 dev 3 metric 256",
        ]
    );
}

#[test]
fn ipv6_gateway_routes_of_one_metric_are_siblings() {
    let world = world6();
    let prefix = "2001:db8:f::/48";
    let first = route(prefix, "2001:db8::9", 0);
    assert_eq!(
        world.add6(ADD, first.clone()).unwrap(),
        ["2001:db8:f::/48 via 2001:db8::9 dev 2 metric 1024"]
    );
    let second = route(prefix, "2001:db8:1::9", 0);
    assert_eq!(
        world.add6(ADD, second.clone()).unwrap_err().errno,
        errno::EEXIST
    );
    let append = nlm::F_CREATE | nlm::F_APPEND;
    assert_eq!(
        world.add6(append, first.clone()).unwrap_err().errno,
        errno::EEXIST
    );
    assert_eq!(
        world.add6(append, second.clone()).unwrap(),
        ["2001:db8:f::/48 via 2001:db8:1::9 dev 3 via 2001:db8::9 dev 2 metric 1024"]
    );
    let both = "2001:db8:f::/48 via 2001:db8::9 dev 2 via 2001:db8:1::9 dev 3 metric 1024";
    assert_eq!(world.show6(rta::table::MAIN)[2], both);
    // Shares by hash.
    let guard = world.domain.pin();
    let mut by = [0u32; 4];
    for port in 0..2_000u16 {
        let flow = Flow {
            dst: v6("2001:db8:f::5"),
            sport: port,
            ..Flow::default()
        };
        let found = world
            .fib
            .v6
            .lookup(&flow, LookupFlags::default(), &guard)
            .unwrap();
        assert!(found.is_multipath());
        by[found.select(HashPolicy::Layer4.hash(&flow)).hop.oif as usize] += 1;
    }
    assert!(
        (900..1_100).contains(&by[2]) && by[2] + by[3] == 2_000,
        "{by:?}"
    );
    drop(guard);
    // A replace replaces both siblings.
    let replace = nlm::F_CREATE | nlm::F_REPLACE;
    world
        .add6(replace, route(prefix, "2001:db8::a", 0))
        .unwrap();
    assert_eq!(
        world.show6(rta::table::MAIN)[2],
        "2001:db8:f::/48 via 2001:db8::a dev 2 metric 1024"
    );
    // A multipath request replaces the single route.
    let hop = |gateway: &str| HopConfig {
        gateway: Some(gateway.parse().unwrap()),
        ..HopConfig::default()
    };
    let multipath = RouteConfig {
        multipath: Some(vec![hop("2001:db8::9"), hop("2001:db8:1::9")]),
        ..route(prefix, "", 0)
    };
    assert_eq!(world.add6(replace, multipath.clone()).unwrap(), [both]);
    // With one device down, its share is dead. With both down, the route is removed.
    let mut events = Vec::new();
    world.fib.v6.device_lost(V0, Loss::Down, &mut events);
    assert!(
        world.show6(rta::table::MAIN).contains(
            &"2001:db8:f::/48 via 2001:db8::9 dev 2 dead linkdown via 2001:db8:1::9 dev 3 metric 1024"
                .to_owned()
        )
    );
    assert!(events.iter().all(|event| !event.new));
    world.fib.v6.device_lost(V1, Loss::Down, &mut events);
    assert!(world.show6(rta::table::MAIN).is_empty());
}

#[test]
fn ipv6_refuses_as_linux() {
    let world = world6();
    let refused = |config: RouteConfig<u128>| {
        let error = world.add6(ADD, config).unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    let text = |errno: i32, text: &str| (errno, text.to_owned());
    assert_eq!(
        refused(route("2001::/16", "2001:dead::1", 0)),
        text(errno::EHOSTUNREACH, "")
    );
    assert_eq!(
        refused(route("2001::/16", "fe80::1", 0)),
        text(errno::EINVAL, "Egress device not specified")
    );
    assert_eq!(
        refused(route("2001::/16", "2001:db8::1", V0)),
        text(errno::EINVAL, "Gateway can not be a local address")
    );
    assert_eq!(
        refused(route("2001::/16", "ff02::1", V0)),
        text(errno::EINVAL, "Invalid gateway address")
    );
    let multipath = RouteConfig {
        multipath: Some(vec![HopConfig {
            oif: V0,
            ..HopConfig::default()
        }]),
        ..route("2001::/16", "", 0)
    };
    assert_eq!(
        refused(multipath),
        text(
            errno::EINVAL,
            "Device only routes can not be added for IPv6 using the multipath API."
        )
    );
    let config = RouteConfig {
        nlflags: nlm::F_REPLACE,
        ..route("2001::/16", "fe80::1", V0)
    };
    assert_eq!(
        world.add6(nlm::F_REPLACE, config).unwrap_err(),
        Error::msg(errno::ENOENT, "Can not replace route - no match found")
    );
    world
        .device(V0)
        .unwrap()
        .0
        .up
        .store(false, Ordering::Relaxed);
    assert_eq!(
        refused(route("2001::/16", "", V0)),
        text(errno::ENETDOWN, "Nexthop device is not up")
    );
}

#[test]
fn ipv6_errors_and_lapsing() {
    let world = world6();
    let get = |dst: &str, now| {
        let guard = world.domain.pin();
        let flow = Flow {
            dst: v6(dst),
            iif: 1,
            now,
            ..Flow::default()
        };
        let found = world.fib.v6.lookup(&flow, LookupFlags::default(), &guard);
        found.map(|found| (found.table, found.hop.oif))
    };
    assert_eq!(get("::1", 0), Ok((rta::table::LOCAL, 1)));
    assert_eq!(get("2001:db8::5", 0), Ok((rta::table::MAIN, V0)));
    assert_eq!(get("2002::1", 0), Err(errno::ENETUNREACH));
    for (kind, error) in [
        (rta::rtn::UNREACHABLE, errno::EHOSTUNREACH),
        (rta::rtn::PROHIBIT, errno::EACCES),
        (rta::rtn::BLACKHOLE, errno::EINVAL),
        (rta::rtn::THROW, errno::ENETUNREACH),
    ] {
        let config = RouteConfig {
            kind,
            ..route(&format!("2003:{kind}::/32"), "", 0)
        };
        world.add6(ADD, config).unwrap();
        assert_eq!(get(&format!("2003:{kind}::1"), 0), Err(error));
    }
    let lapsing = RouteConfig {
        expires: Some(1_000),
        ..route("2004::/16", "", V0)
    };
    world.add6(ADD, lapsing).unwrap();
    assert!(get("2004::1", 999).is_ok());
    assert_eq!(get("2004::1", 1_001), Err(errno::ENETUNREACH));
    let mut events = Vec::new();
    assert_eq!(world.fib.v6.expire(500, &mut events), Some(1_000));
    assert!(events.is_empty());
    assert_eq!(world.fib.v6.expire(2_000, &mut events), None);
    assert_eq!(events.len(), 1);
    // Deletes: the whole multipath route without a gateway, one hop with a gateway.
    let delete = route::<u128>("2001:db8::/64", "", V0);
    let config = RouteConfig {
        priority: 0,
        protocol: 0,
        ..delete
    };
    world
        .fib
        .v6
        .delete(&config, &world.domain.pin(), &mut events)
        .unwrap();
    assert_eq!(
        world
            .fib
            .v6
            .delete(&config, &world.domain.pin(), &mut events),
        Err(Error::new(errno::ESRCH))
    );
}

/// Every device of a namespace has a route to `fe80::/64` and one to `ff00::/8`. The steps to add and to
/// delete one do not grow with their number, and the lists are as those of few.
#[test]
fn a_prefix_with_a_route_by_each_of_many_devices() {
    const DEVICES: u32 = 5_000;
    let world = World::of(DEVICES);
    let link = |device| prefix6("fe80::".parse().unwrap(), 64, &at(device), 0, None);
    let mut most = 0;
    for device in 1..=DEVICES {
        for config in [link(device), multicast6(&at(device))] {
            STEPS.set(0);
            let flags = config.nlflags;
            let added = world.add6(flags, config.clone()).unwrap();
            most = most.max(STEPS.get());
            let new = format!("dev {device} metric 256");
            assert!(added.len() == 1 && added[0].ends_with(&new), "{added:?}");
            // A second one is refused, and an exclusive one as well.
            for flags in [nlm::F_CREATE, nlm::F_CREATE | nlm::F_EXCL] {
                let again = world.add6(flags, config.clone());
                assert_eq!(again.unwrap_err().errno, errno::EEXIST);
            }
        }
    }
    assert!(most <= 500, "{most} steps to add a route");
    // One of a lower metric comes first, one of a higher metric last, and one of their own among them.
    let by = |priority, device| RouteConfig {
        priority,
        ..link(device)
    };
    for (priority, device) in [(1024, 8), (5, 7), (300, 9)] {
        world.add6(nlm::F_CREATE, by(priority, device)).unwrap();
    }
    let shown = world.show6(rta::table::MAIN);
    let line = |priority, device| format!("fe80::/64 dev {device} metric {priority}");
    let mut expected: Vec<_> = (1..=DEVICES).map(|device| line(256, device)).collect();
    expected.insert(0, line(5, 7));
    expected.extend([line(300, 9), line(1024, 8)]);
    assert_eq!(shown, expected);
    // A device goes away: its routes of all metrics go, in order.
    let mut events = Vec::new();
    world.fib.v6.device_lost(9, Loss::Gone, &mut events);
    assert_eq!(events.len(), 3);
    expected.retain(|line| !line.contains("dev 9 "));
    assert_eq!(world.show6(rta::table::MAIN), expected);
    let mut most = 0;
    for device in (1..=DEVICES).rev().filter(|device| device % 3 != 0) {
        STEPS.set(0);
        world
            .fib
            .v6
            .delete(&link(device), &world.domain.pin(), &mut events)
            .unwrap();
        most = most.max(STEPS.get());
        let gone = Error::new(errno::ESRCH);
        if events.len() < 20 {
            assert_eq!(
                world
                    .fib
                    .v6
                    .delete(&link(device), &world.domain.pin(), &mut events),
                Err(gone)
            );
        }
    }
    assert!(most <= 500, "{most} steps to delete a route");
    // A device that goes away takes its routes without a look at those of others.
    for device in [3, 6, 12, 2_997] {
        STEPS.set(0);
        let before = events.len();
        world.fib.v6.device_lost(device, Loss::Gone, &mut events);
        assert_eq!(events.len(), before + 2);
        assert!(STEPS.get() <= 2_000, "{} steps", STEPS.get());
        expected.retain(|line| !line.contains(&format!("dev {device} ")));
    }
    expected.retain(|line| {
        let device: Vec<_> = line.split(' ').collect();
        !line.ends_with(" 256") || device[2].parse::<u32>().unwrap().is_multiple_of(3)
    });
    assert_eq!(world.show6(rta::table::MAIN), expected);
}

/// Routes that share an info come while their device goes down and takes them with it: none stays.
#[test]
fn stress_no_route_by_a_device_that_went_down_stays() {
    let world = World::of(3);
    let up = &world.devices[V0 as usize - 1].0.up;
    for _ in 0..300 {
        up.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for prefix in ["2001:db8:a::/48", "2001:db8:b::/48"] {
                let world = &world;
                scope.spawn(move || {
                    for _ in 0..20 {
                        // It exists already, or its device is down.
                        let _ = world.add6(ADD, route(prefix, "", V0));
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20 {
                    world.fib.v6.device_lost(V0, Loss::Down, &mut Vec::new());
                }
                up.store(false, Ordering::SeqCst);
                world.fib.v6.device_lost(V0, Loss::Down, &mut Vec::new());
            });
        });
        assert_eq!(world.show6(rta::table::MAIN), [""; 0]);
    }
}

/// The prefixes of a device in a table of many are found as in a table of few, and go in the order of
/// dumps, whatever was added, replaced and deleted before.
#[test]
fn a_lost_device_takes_its_routes_from_a_table_of_many_prefixes() {
    let world = World::of(4);
    let mut events = Vec::new();
    for n in 0..200 {
        let device = 2 + n % 3;
        let prefix = format!("2001:db8:{n:x}::/48");
        world.add6(ADD, route(&prefix, "", device)).unwrap();
        if n % 5 == 0 {
            world
                .add6(ADD, route(&format!("2001:db8:{n:x}::/64"), "", 4))
                .unwrap();
        }
        if n % 7 == 0 {
            let flags = nlm::F_CREATE | nlm::F_REPLACE;
            world.add6(flags, route(&prefix, "", 2)).unwrap();
        }
        if n % 11 == 0 {
            let gone = route::<u128>(&prefix, "", 0);
            world
                .fib
                .v6
                .delete(&gone, &world.domain.pin(), &mut events)
                .unwrap();
        }
    }
    for device in [4, 2] {
        let before = world.show6(rta::table::MAIN);
        let by = format!(" dev {device} ");
        let (lost, kept): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|line| line.contains(&by));
        events.clear();
        world.fib.v6.device_lost(device, Loss::Gone, &mut events);
        let told: Vec<_> = events
            .iter()
            .map(|event| super::show(&event.route))
            .collect();
        assert!(told.len() > 20 && told == lost, "{told:#?}");
        assert_eq!(world.show6(rta::table::MAIN), kept);
    }
}

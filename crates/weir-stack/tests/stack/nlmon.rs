// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What nlmon devices get, beside what `crates/weir/tests/linux/nlmon.sh` compares with Linux: the bound on copies that
//! wait, namespaces, and that nothing is copied without a device that is up.
#![allow(clippy::unwrap_used)] // Tests may panic.

use crate::world::World;
use weir_netlink::{IfInfoMsg, ifla, nlm, rtm};
use weir_stack::Connection;
use weir_stack::connection::NoPeer;
use weir_stack::link::nlmon;

fn watched() -> World {
    let mut world = World::ipv4_only();
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "nlmon0");
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "nlmon");
        out.end(nest);
    });
    assert_eq!(made, 0);
    world
}

/// Returns the packets and drops that the device counts.
fn counts(world: &mut World) -> (u64, u64) {
    world.cpu.settle();
    let device = world.device("nlmon0");
    let mut stats = weir_netlink::LinkStats64::default();
    device.link.add_stats(&mut stats);
    (device.totals().rx_packets, stats.rx_dropped)
}

#[test]
fn only_a_device_that_is_up_gets_the_messages_of_its_own_namespace() {
    let mut world = watched();
    world.set_mtu("lo", 60_000);
    assert!(!nlmon::waits(&world.stack));
    assert_eq!(counts(&mut world), (0, 0));
    world.set_up("nlmon0", true);
    // The answer to the request that set it up.
    assert!(nlmon::waits(&world.stack));
    assert_eq!(counts(&mut world), (1, 0));
    world.set_mtu("lo", 50_000);
    assert_eq!(counts(&mut world), (3, 0));
    // The stack's own requests have port id 0.
    let other = world.stack.add_namespace();
    let other = world.stack.namespace(other).unwrap();
    for (ns, portid) in [(&other, 1), (&world.ns, 0)] {
        let mut client = Connection::new(&world.stack, ns, portid, Box::new(NoPeer), None);
        let mut out = weir_netlink::Writer::new();
        let message = out.message(rtm::GETLINK, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        out.fixed(&IfInfoMsg::default());
        out.finish(message).unwrap();
        client.request(out.bytes());
        assert!(client.mailbox().octets() > 0);
    }
    assert!(!nlmon::waits(&world.stack));
    world.set_up("nlmon0", false);
    let before = counts(&mut world);
    world.set_mtu("lo", 40_000);
    assert_eq!(counts(&mut world), before);
    world.set_up("nlmon0", true);
    // The device goes while copies wait for it.
    let deleted = world.request(rtm::DELLINK, 0, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "nlmon0");
    });
    assert!(deleted == 0 && nlmon::waits(&world.stack));
    world.cpu.settle();
    world.set_mtu("lo", 30_000);
    assert!(!nlmon::waits(&world.stack));
}

#[test]
fn copies_that_no_cpu_takes_are_bounded() {
    let mut world = watched();
    world.set_up("nlmon0", true);
    assert_eq!(counts(&mut world), (1, 0));
    let each = 1 << 16;
    let request = {
        let mut out = weir_netlink::Writer::new();
        let message = out.message(rtm::GETLINK, nlm::F_REQUEST, 1, 0);
        out.fixed(&IfInfoMsg::default());
        out.put(ifla::ADDRESS, &vec![0; each - 64]);
        out.finish(message).unwrap();
        out.bytes().to_vec()
    };
    let mut client = Connection::new(&world.stack, &world.ns, 9, Box::new(NoPeer), None);
    let rounds = 2 * nlmon::WAITING / request.len();
    for _ in 0..rounds {
        client.request(&request);
        while client.mailbox().take().is_some() {}
    }
    let (taken, dropped) = counts(&mut world);
    assert!(dropped > 0, "{taken}");
    // Each request and its answer; a copy was taken or dropped.
    assert_eq!(taken - 1 + dropped, 2 * rounds as u64);
    let fit = (nlmon::WAITING / request.len()) as u64;
    assert!((fit..=2 * fit + 2).contains(&taken), "{taken} of {fit}");
    // There is room again.
    client.request(&request);
    let (again, still) = counts(&mut world);
    assert_eq!((again, still), (taken + 2, dropped));
}

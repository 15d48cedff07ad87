// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated bus: writes to its files and their effect, and its devices when their namespace is
//! removed.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::sync::Arc;

use crate::world::World;
use weir_netlink::errno::{EINVAL, ENOENT, ENOSPC};
use weir_stack::Namespace;
use weir_stack::link::netdevsim;

fn new(world: &World, ns: &Arc<Namespace>, text: &str) -> i32 {
    let done = netdevsim::new_device(&world.stack, ns, text.as_bytes());
    done.err().map_or(0, |error| error.errno)
}

fn del(world: &World, text: &str) -> i32 {
    let done = netdevsim::del_device(&world.stack, text.as_bytes());
    done.err().map_or(0, |error| error.errno)
}

/// Returns the devices of a namespace except `lo`: name and number of transmit queues.
fn devices(ns: &Namespace) -> Vec<(String, u32)> {
    let devices = ns.all_devices().into_iter().skip(1);
    devices
        .map(|device| (device.name(), device.tx_queues()))
        .collect()
}

fn names(ns: &Namespace) -> Vec<String> {
    devices(ns).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn writes_to_the_bus_create_and_delete_devices() {
    let world = World::new();
    let ns = &world.ns;
    assert_eq!(new(&world, ns, "1 2 4\n"), 0);
    assert_eq!(devices(ns), [("eth0".into(), 4), ("eth1".into(), 4)]);
    assert_eq!(new(&world, ns, "7"), 0);
    assert_eq!(new(&world, ns, "2147483647 1"), 0);
    assert_eq!(devices(ns)[2..], [("eth2".into(), 1), ("eth3".into(), 1)]);
    assert_eq!(ns.device_by_name("eth1").unwrap().rx_queues(), 4);
    for text in ["", "x", "-1", "2147483648", "4294967295 1 1", "\n"] {
        assert_eq!(new(&world, ns, text), EINVAL, "{text:?}");
        assert_eq!(del(&world, text), EINVAL, "{text:?}");
    }
    // Numbers wrap: these are 1 and 7.
    for text in ["1", "4294967297 1 4", "7 0", "7 x"] {
        assert_eq!(new(&world, ns, text), ENOSPC, "{text:?}");
    }
    assert_eq!(del(&world, "2"), ENOENT);
    assert_eq!(names(ns).len(), 4);
    assert_eq!(del(&world, " 7 what follows"), 0);
    assert_eq!(del(&world, "7"), ENOENT);
    assert_eq!(names(ns), ["eth0", "eth1", "eth3"]);
    // The name and the id are free again.
    assert_eq!(new(&world, ns, "7 1 2"), 0);
    assert_eq!(ns.device_by_name("eth2").unwrap().tx_queues(), 2);
}

#[test]
fn a_device_whose_ports_cannot_be_made_has_none() {
    let world = World::new();
    for text in [
        "1 0",
        "2 1 0",
        "3 1 65536",
        "4 40000",
        "5 4294967295 1",
        "6 17 65535",
    ] {
        assert_eq!(new(&world, &world.ns, text), 0, "{text}");
    }
    assert_eq!(names(&world.ns), [""; 0]);
    for id in ["1", "2", "3", "4", "5", "6"] {
        assert_eq!(new(&world, &world.ns, id), ENOSPC);
        assert_eq!(del(&world, id), 0);
    }
    assert_eq!(new(&world, &world.ns, "1 1 65535"), 0);
    assert_eq!(devices(&world.ns), [("eth0".into(), 65_535)]);
}

#[test]
fn a_deleted_namespace_returns_its_ports() {
    let world = World::new();
    let (initial, stack) = (&world.ns, &world.stack);
    let other = stack.create_namespace();
    assert_eq!(new(&world, initial, "1 1"), 0);
    assert_eq!(new(&world, &other, "2 2 3"), 0);
    assert_eq!(names(&other), ["eth0", "eth1"]);
    assert_eq!(new(&world, initial, "2"), ENOSPC);
    let before = initial.device_by_name("eth0").unwrap();
    assert!(stack.remove_namespace(other.id));
    assert_eq!(names(&other), [""; 0]);
    let there = [("eth0".into(), 1), ("eth1".into(), 3), ("eth2".into(), 3)];
    assert_eq!(devices(initial), there);
    assert!(Arc::ptr_eq(
        &before,
        &initial.device_by_name("eth0").unwrap()
    ));
    assert_eq!(del(&world, "2"), 0);
    assert_eq!(names(initial), ["eth0"]);

    // Nor does one in a namespace that has already been removed.
    assert_eq!(new(&world, &other, "2"), 0);
    assert_eq!(names(&other), [""; 0]);
    assert_eq!(del(&world, "2"), 0);
}

#[test]
fn a_moved_port_returns_to_its_namespace() {
    let world = World::new();
    let (initial, stack) = (&world.ns, &world.stack);
    let (first, second) = (stack.create_namespace(), stack.create_namespace());
    // One device of the initial namespace is moved into the second; one of the second is moved into
    // the first.
    assert_eq!(new(&world, initial, "1 2"), 0);
    assert_eq!(new(&world, &second, "2 1"), 0);
    let moved = |device: &Arc<weir_stack::Device>, to: &Arc<Namespace>, name| {
        let guard = stack.domain.pin();
        weir_stack::netdev::move_to(stack, &guard, device, to, name, 0).unwrap();
    };
    let port = initial.device_by_name("eth1").unwrap();
    moved(&port, &second, "");
    moved(&second.device_by_name("eth0").unwrap(), &first, "far0");
    let index = port.ifindex();
    assert_eq!(names(&second), ["eth1"]);
    assert_eq!(names(&first), ["far0"]);
    // The second namespace is removed: its own device is created again in the initial namespace,
    // wherever it was, and takes the name of the other one, which gets a name made from its index.
    assert!(stack.remove_namespace(second.id));
    assert_eq!(names(&first), [""; 0]);
    let mut there = names(initial);
    there.sort();
    assert_eq!(there, [format!("dev{index}"), "eth0".into(), "eth1".into()]);
    assert!(port.is_registered());
    assert_eq!(del(&world, "1"), 0);
    assert_eq!(names(initial), ["eth1"]);
    assert!(!port.is_registered());
    assert_eq!(del(&world, "2"), 0);
}

#[test]
fn a_stack_ends_with_devices_on_its_bus() {
    let world = World::new();
    let other = world.stack.create_namespace();
    assert_eq!(new(&world, &world.ns, "1 2 4"), 0);
    assert_eq!(new(&world, &other, "2 2 4"), 0);
    let all = [&world.ns, &other].map(|ns| ns.all_devices());
    let left: Vec<_> = all.iter().flatten().map(Arc::downgrade).collect();
    drop(all);
    drop((world, other));
    assert!(left.iter().all(|device| device.strong_count() == 0));
}

/// A move of a device begins, waits, and goes on after another one has taken the device elsewhere. The device is in one
/// namespace then.
#[test]
fn a_move_follows_a_device_that_another_has_moved() {
    let world = World::new();
    let (initial, stack) = (&world.ns, &world.stack);
    let [first, second] = [0; 2].map(|_| stack.create_namespace());
    assert_eq!(new(&world, initial, "1"), 0);
    let device = &initial.all_devices()[1];
    let go = |to| {
        let guard = stack.domain.pin();
        weir_stack::netdev::move_to(stack, &guard, device, to, "", 0)
    };
    let (held, holding) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let second = &second;
        scope.spawn(move || {
            let _links = second.links();
            held.send(()).unwrap();
            released.recv().unwrap();
        });
        holding.recv().unwrap();
        let slow = scope.spawn(|| go(second).is_ok());
        // It waits for the tables of its target.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(go(&first).is_ok());
        release.send(()).unwrap();
        assert!(slow.join().unwrap());
    });
    assert_eq!(names(initial), [""; 0]);
    assert_eq!(names(&first), [""; 0]);
    assert_eq!(names(&second), ["eth0"]);
    assert_eq!(del(&world, "1"), 0);
    assert_eq!(names(&second), [""; 0]);
}

/// Namespaces with devices of the bus are removed while other threads create, move and delete
/// devices. Each device must be in some namespace or gone.
#[test]
fn stress_namespaces_go_beside_the_bus() {
    let world = World::new();
    let (initial, stack) = (&world.ns, &world.stack);
    let rounds = match std::env::var_os("WEIR_TEST_SHORT") {
        Some(_) => 20,
        None => 1000,
    };
    let work = &|id: u32| {
        for _ in 0..rounds {
            let ns = stack.create_namespace();
            netdevsim::new_device(stack, &ns, format!("{id} 2").as_bytes()).unwrap();
            let guard = stack.domain.pin();
            for device in initial.all_devices().iter().skip(1) {
                // This fails if the device is being removed meanwhile or if its name is taken.
                let _ = weir_stack::netdev::move_to(stack, &guard, device, &ns, "", 0);
            }
            drop(guard);
            assert!(stack.remove_namespace(ns.id));
            assert_eq!(names(&ns), [""; 0]);
            netdevsim::del_device(stack, format!("{id}").as_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for id in 1..=4 {
            scope.spawn(move || work(id));
        }
    });
    assert_eq!(names(initial), [""; 0]);
    assert_eq!(stack.all_namespaces().len(), 1);
}

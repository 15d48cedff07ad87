// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many CPUs send through one device's qdisc concurrently while requests replace it.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Barrier, Mutex};

use crate::world::World;
use weir_netlink::{TcMsg, nlm, rtm, tca};
use weir_packet::Batch;
use weir_stack::device::{Direction, Observer, Tap};
use weir_stack::drops::Place;
use weir_stack::link::netdevsim;
use weir_stack::{Config, Cpu, Device, Stack, datapath};

const SENDERS: usize = 8;

/// The numbers of the sent frames, by sender.
#[derive(Default)]
struct Left(Mutex<BTreeMap<u8, Vec<u32>>>);

impl Observer for Left {
    fn frame(&self, tap: &Tap<'_>) {
        if tap.direction == Direction::Tx {
            let data = tap.packet.data();
            let number = u32::from_be_bytes(*data[15..].first_chunk().unwrap());
            let mut left = self.0.lock().unwrap();
            left.entry(data[14]).or_default().push(number);
        }
    }
}

/// Runs `tc qdisc replace dev d1 root pfifo limit LIMIT`, or `tc qdisc del dev d1 root` without a
/// limit.
fn set_root(world: &mut World, limit: Option<u32>) {
    let ifindex = world.device("d1").ifindex() as i32;
    let (ty, flags) = match limit {
        Some(_) => (rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE),
        None => (rtm::DELQDISC, 0),
    };
    let errno = world.request(ty, flags, |out| {
        out.fixed(&TcMsg {
            ifindex,
            parent: tca::h::ROOT,
            ..TcMsg::default()
        });
        if let Some(limit) = limit {
            out.put_str(tca::KIND, "pfifo");
            out.put(tca::OPTIONS, &limit.to_ne_bytes());
        }
    });
    assert_eq!(errno, 0);
}

fn send(cpu: &mut Cpu, device: &Arc<Device>, sender: u8, numbers: &[u32]) {
    let mut batch = Batch::new();
    cpu.with(|cx| {
        cx.stack.pool.cache().alloc_bulk(&mut batch, numbers.len());
        for (packet, number) in batch.iter_mut().zip(numbers) {
            assert!(packet.append(&[0x02; 12]) && packet.append(&[0x88, 0xb5, sender]));
            assert!(packet.append(&number.to_be_bytes()) && packet.append(&[0; 41]));
        }
        datapath::transmit(cx, device, batch);
    });
    cpu.settle();
}

fn dropped_at(device: &Device) -> usize {
    let drops = device.drops().into_iter();
    drops
        .filter(|(place, ..)| matches!(place, Place::Qdisc | Place::Transmit))
        .map(|(_, _, count)| count as usize)
        .sum()
}

fn dropped(world: &World) -> usize {
    dropped_at(&world.device("d1"))
}

fn each() -> u32 {
    if std::env::var_os("WEIR_TEST_SHORT").is_some() {
        4_000
    } else {
        40_000
    }
}

/// Every packet is either sent or counted as dropped, and the frames of a sender stay in order.
fn stress(replace: bool) {
    let mut world = World::with(Config {
        cpus: SENDERS + 1,
        ..Config::default()
    });
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    world.dummy("d1", crate::world::device_mac(1));
    set_root(&mut world, Some(100_000));
    let left = Arc::new(Left::default());
    {
        let guard = world.stack.domain.pin();
        world.device("d1").observe(&guard, left.clone());
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (1..=SENDERS)
            .map(|id| {
                let (stack, device) = (world.stack.clone(), world.device("d1"));
                scope.spawn(move || {
                    let mut cpu = Cpu::new(&stack, id);
                    let numbers: Vec<u32> = (0..each()).collect();
                    for chunk in numbers.chunks(7) {
                        send(&mut cpu, &device, id as u8, chunk);
                    }
                })
            })
            .collect();
        let requests = scope.spawn(|| {
            while replace && !done.load(Relaxed) {
                set_root(&mut world, None);
                set_root(&mut world, Some(100_000));
            }
        });
        for sender in senders {
            sender.join().unwrap();
        }
        done.store(true, Relaxed);
        requests.join().unwrap();
    });
    let left = left.0.lock().unwrap();
    let count: usize = left.values().map(Vec::len).sum();
    assert_eq!(count + dropped(&world), SENDERS * each() as usize);
    if !replace {
        for numbers in left.values() {
            assert!(numbers.is_sorted(), "frames of one sender were reordered");
        }
    }
    let device = world.device("d1");
    assert_eq!(device.totals().tx_packets as usize, count);
}

#[test]
fn stress_senders_take_turns() {
    stress(false);
}

#[test]
fn stress_a_qdisc_is_replaced_under_load() {
    stress(true);
}

/// Gives a device a qdisc that holds all its packets.
fn plug(world: &mut World, name: &str) {
    let ifindex = world.device(name).ifindex() as i32;
    let errno = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_REPLACE, |out| {
        out.fixed(&TcMsg {
            ifindex,
            parent: tca::h::ROOT,
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, "plug");
    });
    assert_eq!(errno, 0);
}

/// Runs `act` while all senders send 20 packets each.
fn beside_senders(stack: &Stack, device: &Arc<Device>, act: impl FnOnce()) {
    let started = Barrier::new(SENDERS + 1);
    std::thread::scope(|scope| {
        for id in 1..=SENDERS {
            let started = &started;
            scope.spawn(move || {
                let mut cpu = Cpu::new(stack, id);
                started.wait();
                for number in 0..20 {
                    send(&mut cpu, device, id as u8, &[number]);
                }
            });
        }
        started.wait();
        act();
    });
}

/// The device goes down and up while senders are active. In the end it is down, and no packet waits
/// for it forever.
#[test]
fn stress_a_device_goes_down_under_load() {
    let mut world = World::with(Config {
        cpus: SENDERS + 1,
        ..Config::default()
    });
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    world.dummy("d1", crate::world::device_mac(1));
    let device = world.device("d1");
    plug(&mut world, "d1");
    let rounds = each() / 400;
    for _ in 0..rounds {
        world.set_up("d1", true);
        let stack = world.stack.clone();
        beside_senders(&stack, &device, || world.set_up("d1", false));
        let (_, packets, queue) = device.tc.root_stats().unwrap();
        assert_eq!((packets, queue.qlen, queue.backlog), (0, 0, 0));
    }
    assert_eq!(dropped(&world), SENDERS * 20 * rounds as usize);
}

/// A device of the simulated bus is removed with packets waiting while senders are active. Nothing
/// of it may remain.
#[test]
fn stress_a_simulated_device_goes_under_load() {
    let mut world = World::with(Config {
        cpus: SENDERS + 1,
        ..Config::default()
    });
    world.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    let (mut all, mut counted) = (Vec::new(), 0);
    let rounds = each() / 400;
    for round in 0..rounds {
        netdevsim::new_device(&world.stack, &world.ns, b"1 1 4").unwrap();
        let device = world.device("eth0");
        // Half of the qdiscs hold their packets, half release them.
        if round % 2 == 0 {
            plug(&mut world, "eth0");
        }
        world.set_up("eth0", true);
        let stack = &world.stack;
        beside_senders(stack, &device, || {
            netdevsim::del_device(stack, b"1").unwrap();
        });
        counted += device.totals().tx_packets as usize + dropped_at(&device);
        all.push(Arc::downgrade(&device));
    }
    assert_eq!(counted, SENDERS * 20 * rounds as usize);
    assert_eq!(world.ns.all_devices().len(), 1, "only lo remains");
    world.stack.domain.barrier();
    assert!(all.iter().all(|device| device.strong_count() == 0));
    let stats = world.stack.pool.stats();
    assert_eq!(stats.frames, stats.frames_free);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A warm datapath allocates nothing and takes no lock of the packet pool. Also tests packets in
//! the backlog of a CPU whose device is removed, and a device's receive handler.
#![allow(unsafe_code)] // an allocator that counts
#![allow(clippy::unwrap_used)] // Tests may panic.

mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use weir_netlink::{IfInfoMsg, TcMsg, TcNetemQopt, TcNetemReorder, Writer, ifla, nlm, rtm, tca};
use weir_packet::header::transport::{fill_check_v4, tcp};
use weir_packet::{Batch, DropReason};
use weir_stack::cpu::Cx;
use weir_stack::drops::Place;
use weir_stack::features::bit;
use weir_stack::link::{RxHandler, update_features};
use weir_stack::{Device, datapath};
use world::{Packet, World, device_mac, host_mac};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a per-thread allocation counter.
struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The counter may already be gone in a thread that is ending.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: guaranteed by the contract of this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the contract of this method.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Adds a device of a kind without an observer, as VLAN 5 of `on` if that is given.
fn link(world: &mut World, kind: &str, name: &str, mac: [u8; 6], on: Option<&str>) {
    let lower = on.map(|on| world.device(on).ifindex());
    let errno = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, name);
        out.put(ifla::ADDRESS, &mac);
        if let Some(lower) = lower {
            out.put_u32(ifla::LINK, lower);
        }
        let info = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, kind);
        if lower.is_some() {
            let data = out.nest(ifla::info::DATA);
            out.put(ifla::vlan::ID, &5_u16.to_ne_bytes());
            out.end(data);
        }
        out.end(info);
    });
    assert_eq!(errno, 0, "{name}");
    world.set_flags(name, ifla::iff::UP, ifla::iff::UP | ifla::iff::NOARP);
}

/// Adds a clsact filter to a device that matches one destination and has one action.
fn filter(world: &mut World, name: &str, parent: u32, dst: [u8; 4], kind: &str, parms: &[u8]) {
    let ifindex = world.device(name).ifindex() as i32;
    let flags = nlm::F_CREATE | nlm::F_EXCL;
    let errno = world.request(rtm::NEWTFILTER, flags, |out| {
        out.fixed(&TcMsg {
            ifindex,
            parent,
            info: TcMsg::make_info(1, 0x0800),
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, "flower");
        let options = out.nest(tca::OPTIONS);
        out.put_be16(tca::flower::KEY_ETH_TYPE, 0x0800);
        out.put(tca::flower::KEY_IPV4_DST, &dst);
        action(out, kind, parms);
        out.end(options);
    });
    assert_eq!(errno, 0, "{kind}");
}

fn action(out: &mut Writer, kind: &str, parms: &[u8]) {
    let actions = out.nest(tca::flower::ACT);
    let action = out.nest(1);
    out.put_str(tca::act::KIND, kind);
    let options = out.nest(tca::act::OPTIONS);
    out.put(2, parms);
    out.end(options);
    out.end(action);
    out.end(actions);
}

fn clsact(world: &mut World, name: &str) {
    let ifindex = world.device(name).ifindex() as i32;
    let errno = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&TcMsg {
            ifindex,
            handle: 0xffff_0000,
            parent: 0xffff_fff1,
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, "clsact");
    });
    assert_eq!(errno, 0);
}

/// Returns a UDP datagram from the host behind device 1, on VLAN 5 if `tagged` is set.
fn frame(dst: [u8; 4], tagged: bool) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(device_mac(1));
    frame.extend(host_mac(1));
    if tagged {
        frame.extend([0x81, 0, 0, 5]);
    }
    frame.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0]);
    let ip = frame.len() - 12;
    frame.extend([10, 0, 1, 2]);
    frame.extend(dst);
    frame.extend([0, 9, 0, 9, 0, 40, 0, 0]);
    frame.extend([0; 32]);
    let check = weir_packet::checksum::checksum(&frame[ip..ip + 20]);
    frame[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
    frame
}

/// Receives frames, using the CPU's own packet memory.
fn receive(world: &mut World, device: &Arc<Device>, frames: &[Vec<u8>]) {
    world.cpu.with(|cx| {
        let mut batch = Batch::new();
        let got = cx
            .state
            .cache
            .borrow_mut()
            .alloc_bulk(&mut batch, frames.len());
        assert_eq!(got, frames.len());
        for (packet, frame) in batch.iter_mut().zip(frames) {
            assert!(packet.append(frame));
        }
        datapath::receive(cx, device, batch);
    });
    world.cpu.settle();
}

#[test]
fn a_warm_path_allocates_nothing_and_takes_no_lock() {
    let mut world = World::ipv4_only();
    world.sysctl("net/ipv4/ip_forward", "1");
    link(&mut world, "dummy", "in", device_mac(1), None);
    link(&mut world, "dummy", "out", device_mac(2), None);
    link(&mut world, "dummy", "sink", device_mac(3), None);
    link(&mut world, "vlan", "in5", device_mac(1), Some("in"));
    link(&mut world, "vlan", "out5", device_mac(4), Some("out"));
    for (name, net) in [("in", 1), ("out", 2), ("in5", 3), ("out5", 4)] {
        world.address(name, [10, 0, net, 1].into(), 24);
    }
    for (name, net) in [("out", 2), ("out5", 4)] {
        world.neighbour(name, [10, 0, net, 2].into(), host_mac(net));
        world.route([20, 0, net, 0].into(), 24, [10, 0, net, 2].into());
    }
    clsact(&mut world, "in");
    clsact(&mut world, "out");
    // struct tc_gen (index, capab, action, counts), followed by struct tc_mirred (action, target).
    let generic = |action: i32| [0, 0, action, 0, 0].map(i32::to_ne_bytes).concat();
    let sink = world.device("sink").ifindex() as i32;
    let mirred = |action, what: i32| [generic(action), [what, sink].map(i32::to_ne_bytes).concat()];
    let (ingress, egress) = (0xffff_fff2, 0xffff_fff3);
    filter(
        &mut world,
        "in",
        ingress,
        [20, 0, 2, 66],
        "gact",
        &generic(2),
    );
    let mirror = mirred(3, 2).concat();
    filter(&mut world, "in", ingress, [20, 0, 2, 67], "mirred", &mirror);
    let redirect = mirred(4, 1).concat();
    filter(
        &mut world,
        "in",
        ingress,
        [20, 0, 2, 68],
        "mirred",
        &redirect,
    );
    filter(
        &mut world,
        "out",
        egress,
        [20, 0, 2, 69],
        "gact",
        &generic(2),
    );
    let frames: Vec<_> = (0..64)
        .map(|n: u8| frame([20, 0, 2 + n / 32 * 2, 50 + n % 32], n % 8 > 4))
        .collect();
    let device = world.device("in");
    for _ in 0..20 {
        receive(&mut world, &device, &frames);
    }
    let before = (
        ALLOCATIONS.get(),
        world.stack.pool.stats().lock.acquisitions,
    );
    let sent = |world: &World, name: &str| world.device(name).totals().tx_packets;
    let (out, out5) = (sent(&world, "out"), sent(&world, "out5"));
    for _ in 0..100 {
        receive(&mut world, &device, &frames);
    }
    // Reading the counters takes the lock once itself.
    let after = (
        ALLOCATIONS.get(),
        world.stack.pool.stats().lock.acquisitions - 1,
    );
    assert_eq!(before, after, "allocations and acquisitions");
    let (out, out5) = (sent(&world, "out") - out, sent(&world, "out5") - out5);
    assert!(out5 == 3200 && (6000..6400).contains(&out), "{out}, {out5}");
    assert!(sent(&world, "sink") > 120);
    let drops: Vec<_> = [("in", Place::Ingress), ("out", Place::Egress)]
        .map(|(name, place)| world.device(name).drops()[0].0 == place)
        .into();
    assert_eq!(drops, [true, true]);
}

/// Long packets, which arrive as segments and are merged, are split by a qdisc into memory that is used again.
#[test]
fn qdiscs_split_long_packets_without_allocations() {
    for kind in ["cake", "netem"] {
        let mut world = World::ipv4_only();
        world.sysctl("net/ipv4/ip_forward", "1");
        link(&mut world, "dummy", "in", device_mac(1), None);
        link(&mut world, "dummy", "out", device_mac(2), None);
        for (name, net) in [("in", 1), ("out", 2)] {
            world.address(name, [10, 0, net, 1].into(), 24);
        }
        world.neighbour("out", [10, 0, 2, 2].into(), host_mac(2));
        let device = world.device("in");
        device.features.want(bit::GRO, bit::GRO);
        update_features(&world.stack, &world.stack.domain.pin(), &device);
        let ifindex = world.device("out").ifindex() as i32;
        let errno = world.request(rtm::NEWQDISC, nlm::F_CREATE | nlm::F_EXCL, |out| {
            out.fixed(&TcMsg {
                ifindex,
                parent: tca::h::ROOT,
                ..TcMsg::default()
            });
            out.put_str(tca::KIND, kind);
            if kind == "netem" {
                // Each packet is corrupted, so each long packet is split.
                let nest = out.nest(tca::OPTIONS);
                out.fixed(&TcNetemQopt {
                    limit: 1000,
                    ..TcNetemQopt::default()
                });
                let corrupt = TcNetemReorder {
                    probability: u32::MAX,
                    correlation: 0,
                };
                out.put_fixed(tca::netem::CORRUPT, &corrupt);
                out.end(nest);
            }
        });
        assert_eq!(errno, 0, "{kind}");
        let frames: Vec<_> = (0..20_u32).map(segment).collect();
        for _ in 0..20 {
            receive(&mut world, &device, &frames);
        }
        let sent = |world: &World| world.device("out").totals().tx_packets;
        let (before, packets) = (ALLOCATIONS.get(), sent(&world));
        for _ in 0..100 {
            receive(&mut world, &device, &frames);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{kind}");
        assert_eq!(sent(&world) - packets, 2000, "{kind}");
        assert_eq!(device.drops(), []);
    }
}

/// Segment `n` of a TCP flow to the host behind device 2.
fn segment(n: u32) -> Vec<u8> {
    let base = Packet {
        dst: [10, 0, 2, 2],
        protocol: 6,
        id: 40 + n as u16,
        ..Packet::default()
    };
    let mut segment = tcp(4000, 80, 7 + n * 1000, 9, 0x10).to_vec();
    segment.extend([5; 1000]);
    fill_check_v4(base.src, base.dst, 6, &mut segment);
    Packet {
        payload: &segment,
        ..base
    }
    .from(1)
}

#[test]
fn backlog_frames_of_a_deleted_device_are_counted() {
    let mut world = World::ipv4_only();
    world.port(1);
    let device = world.device("d1");
    let packet = || {
        world
            .stack
            .pool
            .packet(&frame([10, 0, 1, 1], false))
            .unwrap()
    };
    let mut batch = Batch::from(packet());
    batch.push(packet()).unwrap();
    world.cpu.with(|cx| cx.receive_later(&device, batch));
    let index = device.ifindex() as i32;
    let errno = world.request(rtm::DELLINK, 0, |out| {
        out.fixed(&IfInfoMsg {
            index,
            ..IfInfoMsg::default()
        });
    });
    assert_eq!(errno, 0);
    world.cpu.settle();
    let gone = world.stack.gone.totals();
    assert_eq!(gone, [(Place::Backlog, DropReason::DEV_READY, 2)]);
}

/// Records the VLAN tags of the frames it gets.
#[derive(Default)]
struct Handler(Mutex<Vec<Option<u16>>>);

impl RxHandler for Handler {
    fn receive(&self, cx: &mut Cx<'_>, _: &Arc<Device>, batch: Batch) {
        let tags = batch
            .iter()
            .map(|packet| packet.vlan().map(|tag| tag.vid()));
        self.0.lock().unwrap().extend(tags);
        cx.consume_batch(batch);
    }
}

#[test]
fn a_handler_gets_the_frames_that_no_vlan_device_takes() {
    let mut world = World::ipv4_only();
    link(&mut world, "dummy", "d1", device_mac(1), None);
    link(&mut world, "vlan", "d1.5", device_mac(1), Some("d1"));
    let device = world.device("d1");
    let handler = Arc::new(Handler::default());
    device.set_rx_handler(Some(handler.clone()));
    let tagged = |vid: u8| {
        let mut frame = frame([10, 0, 1, 1], true);
        frame[15] = vid;
        frame
    };
    let frames = [frame([10, 0, 1, 1], false), tagged(5), tagged(6), tagged(5)];
    receive(&mut world, &device, &frames);
    assert_eq!(*handler.0.lock().unwrap(), [None, Some(6)]);
    let upper = world.device("d1.5");
    let received = upper.stats(0).rx_packets.load(Ordering::Relaxed);
    assert_eq!(received, 2);
}

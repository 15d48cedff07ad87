// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that has no room: its queue stops, the frames it did not take stay at the head of the
//! queue, and sending continues when there is room.
#![allow(clippy::unwrap_used)] // Tests may panic.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::world::World;
use weir_netlink::{IfInfoMsg, TcMsg, ifla, nlm, rtm, tca};
use weir_packet::{Batch, Packet};
use weir_stack::clock::Holds;
use weir_stack::device::{Observer, Tap};
use weir_stack::link::Wire;
use weir_stack::{Cx, Device, datapath};

/// The length of a frame in bytes.
const LEN: usize = 125;
const MS: u64 = 1_000_000;

/// A 1 Mbit/s line behind a ring for each transmit queue. A frame of [`LEN`] bytes takes 1 ms.
struct Line {
    places: usize,
    completes: bool,
    queues: Vec<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    ring: VecDeque<u32>,
    most: usize,
    /// The time at which each frame was sent completely, and its number.
    left: Vec<(u64, u32)>,
}

impl Line {
    fn new(places: usize, queues: usize, completes: bool) -> Arc<Self> {
        Arc::new(Self {
            places,
            completes,
            queues: (0..queues).map(|_| Mutex::default()).collect(),
        })
    }

    fn left(&self, queue: usize) -> Vec<(u64, u32)> {
        self.queues[queue].lock().unwrap().left.clone()
    }
}

/// The line as seen by the device.
struct End(Arc<Line>);

fn through(line: Arc<Line>, device: Arc<Device>, queue: u16) -> impl FnOnce(&mut Cx<'_>) + Send {
    move |cx| {
        let more = {
            let mut at = line.queues[usize::from(queue)].lock().unwrap();
            let number = at.ring.pop_front().unwrap();
            at.left.push((cx.now, number));
            !at.ring.is_empty()
        };
        if more {
            start(cx, line.clone(), device.clone(), queue);
        }
        if line.completes {
            datapath::completed(cx.stack, &device, queue, LEN as u32);
        }
        datapath::wake_queue(cx.stack, &device, queue);
    }
}

fn start(cx: &mut Cx<'_>, line: Arc<Line>, device: Arc<Device>, queue: u16) {
    let job = Box::new(through(line, device, queue));
    cx.stack.arm(cx.now + MS, Holds::Packet, job);
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(*packet.data()[15..].first_chunk().unwrap())
}

impl Wire for End {
    fn transmit(
        &self,
        cx: &mut Cx<'_>,
        device: &Arc<Device>,
        queue: u16,
        frames: &[Packet],
    ) -> usize {
        let line = &self.0;
        let mut at = line.queues[usize::from(queue)].lock().unwrap();
        let idle = at.ring.is_empty();
        let taken = frames.len().min(line.places - at.ring.len());
        at.ring.extend(frames[..taken].iter().map(number));
        at.most = at.most.max(at.ring.len());
        drop(at);
        if idle && taken > 0 {
            start(cx, line.clone(), device.clone(), queue);
        }
        taken
    }

    fn completes(&self) -> bool {
        self.0.completes
    }
}

/// Creates a device `q0` with a line behind it.
fn device(world: &mut World, line: &Arc<Line>) -> Arc<Device> {
    let made = world.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
        out.fixed(&IfInfoMsg::default());
        out.put_str(ifla::IFNAME, "q0");
        out.put_u32(ifla::NUM_TX_QUEUES, line.queues.len() as u32);
        let nest = out.nest(ifla::LINKINFO);
        out.put_str(ifla::info::KIND, "dummy");
        out.end(nest);
    });
    assert_eq!(made, 0);
    let device = world.device("q0");
    device.connect(&world.stack, Some(Arc::new(End(line.clone()))));
    world.set_up("q0", true);
    device
}

/// `tc qdisc replace dev q0 root KIND`
fn root(world: &mut World, kind: &str) {
    let ifindex = world.device("q0").ifindex() as i32;
    let flags = nlm::F_CREATE | nlm::F_REPLACE;
    let errno = world.request(rtm::NEWQDISC, flags, |out| {
        out.fixed(&TcMsg {
            ifindex,
            parent: tca::h::ROOT,
            ..TcMsg::default()
        });
        out.put_str(tca::KIND, kind);
    });
    assert_eq!(errno, 0);
}

/// Sends frames with these numbers at once, frame `n` on transmit queue `n % queues`.
fn send(world: &mut World, numbers: std::ops::Range<u32>) {
    let device = world.device("q0");
    let queues = device.tx_queues();
    let numbers: Vec<_> = numbers.collect();
    for numbers in numbers.chunks(64) {
        let mut batch = Batch::new();
        world.cpu.with(|cx| {
            cx.stack.pool.cache().alloc_bulk(&mut batch, numbers.len());
            for (packet, number) in batch.iter_mut().zip(numbers) {
                assert!(packet.append(&[0x02; 12]) && packet.append(&[0x88, 0xb5, 0]));
                assert!(packet.append(&number.to_be_bytes()) && packet.append(&[0; LEN - 19]));
                // The queue as recorded on receive, counted from 1.
                packet.queue = (number % queues) as u16 + 1;
            }
            datapath::transmit(cx, &device, batch);
        });
    }
    world.cpu.settle();
}

/// Returns the counters of the root qdisc: sent, backlog, drops, requeues (in packets).
fn counted(device: &Device) -> (u64, u32, u32, u32) {
    let (_, packets, queue) = device.tc.root_stats().unwrap();
    (packets, queue.qlen, queue.drops, queue.requeues)
}

/// A wire that keeps up to 8 packets and overwrites them.
#[derive(Default)]
struct Keeper(Mutex<Vec<Packet>>);

impl Wire for Keeper {
    fn transmit(&self, _: &mut Cx<'_>, _: &Arc<Device>, _: u16, _: &[Packet]) -> usize {
        0
    }

    fn take(
        &self,
        cx: &mut Cx<'_>,
        _: &Arc<Device>,
        _: u16,
        frames: &mut Batch,
        goes: &mut dyn FnMut(&Cx<'_>, &[Packet]),
    ) -> usize {
        let mut kept = self.0.lock().unwrap();
        let count = frames.len().min(8 - kept.len());
        goes(cx, &frames[..count]);
        let mut part = Batch::new();
        assert_eq!(frames.move_first(count, &mut part), count);
        kept.extend(part.drain().map(|mut packet| {
            packet.data_mut().fill(0xff);
            packet
        }));
        count
    }
}

/// The numbers of the frames that an observer sees.
#[derive(Default)]
struct Seen(Mutex<Vec<u32>>);

impl Observer for Seen {
    fn frame(&self, tap: &Tap<'_>) {
        self.0.lock().unwrap().push(number(tap.packet));
    }
}

#[test]
fn frames_are_seen_before_a_wire_keeps_their_packets() {
    let mut world = World::ipv4_only();
    let device = device(&mut world, &Line::new(1, 1, false));
    let (keeper, seen) = (Arc::new(Keeper::default()), Arc::new(Seen::default()));
    device.connect(&world.stack, Some(keeper.clone()));
    device.observe(&world.stack.domain.pin(), seen.clone());
    send(&mut world, 0..20);
    assert_eq!(counted(&device), (20, 12, 0, 12));
    for first in [8, 16] {
        let mut kept = std::mem::take(&mut *keeper.0.lock().unwrap());
        assert_eq!(kept.len(), 8);
        assert!(kept.iter().all(|packet| packet.data() == [0xff; LEN]));
        kept.clear();
        assert_eq!(*seen.0.lock().unwrap(), (0..first).collect::<Vec<_>>());
        datapath::wake_queue(&world.stack, &device, 0);
        world.cpu.settle();
    }
    assert_eq!(*seen.0.lock().unwrap(), (0..20).collect::<Vec<_>>());
    let totals = device.totals();
    assert_eq!((totals.tx_packets, totals.tx_bytes), (20, 20 * LEN as u64));
    assert_eq!(keeper.0.lock().unwrap().len(), 4);
}

#[test]
fn a_full_ring_stops_the_queue_and_what_is_left_keeps_its_place() {
    let mut world = World::ipv4_only();
    let line = Line::new(8, 1, false);
    let device = device(&mut world, &line);
    assert_eq!(device.tc.root_kind(), "pfifo_fast");
    send(&mut world, 0..128);
    // The qdisc dequeued 64 packets, of which the device took 8.
    assert_eq!(counted(&device), (64, 120, 0, 56));
    assert_eq!(device.totals().tx_packets, 8);
    world.cpu.run_until(None);
    let expected: Vec<_> = (0..128).map(|n| (u64::from(n + 1) * MS, n)).collect();
    assert_eq!(line.left(0), expected);
    // Every ms there is room for one more, and one packet too many is tried as long as there is
    // one: 55 of the first 64, then all of the next at once, then 63 of these.
    assert_eq!(counted(&device), (128, 0, 0, 56 + 55 + 64 + 63));
    let totals = device.totals();
    assert_eq!(
        (totals.tx_packets, totals.tx_bytes),
        (128, 128 * LEN as u64)
    );
    assert_eq!(totals.tx_dropped, 0);
}

#[test]
fn byte_limits_keep_a_line_busy_with_little() {
    let mut world = World::ipv4_only();
    let line = Line::new(1000, 1, true);
    let device = device(&mut world, &line);
    send(&mut world, 0..900);
    world.cpu.run_until(None);
    let expected: Vec<_> = (0..900).map(|n| (u64::from(n + 1) * MS, n)).collect();
    assert_eq!(line.left(0), expected, "the line is always busy");
    assert_eq!(counted(&device), (900, 0, 0, 0));
    let most = line.queues[0].lock().unwrap().most;
    assert!(most <= 4, "{most} frames in a ring of 1000");
}

#[test]
fn a_stopped_queue_stops_no_other_under_mq() {
    let mut world = World::ipv4_only();
    let line = Line::new(2, 2, false);
    let device = device(&mut world, &line);
    assert_eq!(device.tc.root_kind(), "mq");
    send(&mut world, 0..20);
    world.cpu.run_until(None);
    for queue in 0..2 {
        let expected: Vec<_> = (0..10)
            .map(|n| (u64::from(n + 1) * MS, 2 * n + queue))
            .collect();
        assert_eq!(line.left(queue as usize), expected);
    }
    let (packets, qlen, drops, requeues) = counted(&device);
    assert_eq!((packets, qlen, drops), (20, 0, 0));
    assert!(requeues > 0);
}

#[test]
fn one_qdisc_over_several_queues_waits_for_the_one_that_is_stopped() {
    let mut world = World::ipv4_only();
    let line = Line::new(2, 2, false);
    let device = device(&mut world, &line);
    root(&mut world, "pfifo");
    send(&mut world, 0..20);
    world.cpu.run_until(None);
    for queue in 0..2 {
        let numbers: Vec<_> = line.left(queue).into_iter().map(|(_, n)| n).collect();
        let expected: Vec<_> = (0..10).map(|n| 2 * n + queue as u32).collect();
        assert_eq!(numbers, expected);
    }
    let (packets, qlen, drops, _) = counted(&device);
    assert_eq!((packets, qlen, drops), (20, 0, 0));
}

#[test]
fn without_a_queue_what_finds_no_room_is_dropped() {
    let mut world = World::ipv4_only();
    let line = Line::new(8, 1, false);
    let device = device(&mut world, &line);
    root(&mut world, "noqueue");
    send(&mut world, 0..20);
    world.cpu.run_until(None);
    assert_eq!(line.left(0).len(), 8);
    let drops: Vec<_> = device.drops();
    use weir_packet::DropReason;
    use weir_stack::drops::Place;
    assert_eq!(drops, [(Place::Transmit, DropReason::FULL_RING, 12)]);
    assert_eq!(device.totals().tx_dropped, 12);
}

#[test]
fn a_new_wire_gets_the_frames_that_waited_for_the_old_one() {
    let mut world = World::ipv4_only();
    let (first, second) = (Line::new(8, 1, true), Line::new(100, 1, false));
    let device = device(&mut world, &first);
    send(&mut world, 0..30);
    device.connect(&world.stack, Some(Arc::new(End(second.clone()))));
    world.cpu.settle();
    let (packets, qlen, drops, _) = counted(&device);
    assert_eq!((packets, qlen, drops), (30, 0, 0));
    let waits = |line: &Line| line.queues[0].lock().unwrap().ring.clone();
    let all: Vec<_> = waits(&first).into_iter().chain(waits(&second)).collect();
    assert_eq!(all, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_device_that_goes_down_drops_its_stopped_queue() {
    use weir_packet::DropReason;
    use weir_stack::drops::Place;

    let mut world = World::ipv4_only();
    let line = Line::new(8, 1, false);
    let device = device(&mut world, &line);
    send(&mut world, 0..128);
    assert_eq!(counted(&device), (64, 120, 0, 56));
    world.set_up("q0", false);
    // No qdisc counts them as dropped.
    assert_eq!(counted(&device), (64, 0, 0, 56));
    let waited = (Place::Qdisc, DropReason::QDISC_DROP, 120);
    assert_eq!(device.drops(), [waited]);
    send(&mut world, 128..130);
    let late = (Place::Transmit, DropReason::DEV_READY, 2);
    let mut drops = device.drops();
    drops.sort_by_key(|(_, _, count)| *count);
    assert_eq!(drops, [late, waited]);
    world.cpu.run_until(None);
    assert_eq!(
        line.left(0).len(),
        8,
        "the frames in the ring belong to the line"
    );
    world.set_up("q0", true);
    assert_eq!(device.tc.root_kind(), "pfifo_fast");
    let now = world.stack.clock.now();
    send(&mut world, 130..150);
    world.cpu.run_until(None);
    let expected: Vec<_> = (0..20)
        .map(|n| (now + u64::from(n + 1) * MS, 130 + n))
        .collect();
    assert_eq!(line.left(0)[8..], expected);
}

#[test]
fn a_device_that_goes_down_drops_the_queued_frames() {
    let mut world = World::ipv4_only();
    let line = Line::new(1000, 2, false);
    let device = device(&mut world, &line);
    root(&mut world, "plug");
    send(&mut world, 0..10);
    assert_eq!(counted(&device).1, 10);
    world.set_up("q0", false);
    assert_eq!(counted(&device).1, 0);
    world.cpu.run_until(None);
    assert_eq!((line.left(0).len(), line.left(1).len()), (0, 0));
}

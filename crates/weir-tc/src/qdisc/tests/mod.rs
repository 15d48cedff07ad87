// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of qdiscs made by tc and fed with packets under virtual time. The departures are compared
//! with closed forms and slow oracles.

mod aqm;
mod cakes;
mod change;
mod delay;
mod departures;
mod driven;
mod fair;
mod limits;
mod network;
mod oracle_codel;
mod oracle_early;
mod pool;
mod rates;
mod shape;
mod size;
mod smaller;
mod virtuals;
mod weights;

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, DropReason, Packet};

use crate::context::Context;
use crate::counters::Queue;
use crate::qdisc::root::Room;
use crate::qdisc::{Drops, QueueCx};
use crate::testing::{Stack, ipv4, vectors};

/// Sends the requests that tc sends for commands.
pub fn tc(stack: &Stack, commands: &[&str]) {
    let mut all = vectors(include_str!("../../../tests/vectors/qdisc.vec"));
    all.extend(vectors(include_str!("../../../tests/vectors/stab.vec")));
    all.extend(vectors(include_str!("../../../tests/vectors/exact.vec")));
    all.extend(vectors(include_str!("../../../tests/vectors/storm.vec")));
    all.extend(vectors(include_str!("../../../tests/vectors/cbq.vec")));
    for command in commands {
        let found = all.iter().find(|(recorded, _)| recorded == command);
        let (_, datagrams) = found.unwrap_or_else(|| panic!("not recorded: {command}"));
        for bytes in datagrams {
            stack
                .request(bytes)
                .unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
}

/// A packet that arrives: time in ns, length in bytes, flow and priority. The flow is also the
/// traffic control index; its upper byte distinguishes hosts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrival {
    pub time: u64,
    pub len: usize,
    pub flow: u16,
    pub priority: u32,
}

/// A packet that left: time in ns, and number of its arrival.
pub type Departure = (u64, u32);

/// Device d0 as a line: packets arrive, and the queue is asked at every wakeup it wants.
pub struct Line {
    pub stack: Stack,
    pub arrivals: Vec<Arrival>,
    pub left: Vec<Departure>,
    pub packets: Vec<Packet>,
    pub drops: Vec<(u64, u32, DropReason)>,
    seed: u64,
    keep: bool,
    one_by_one: bool,
}

impl Line {
    pub fn new(commands: &[&str]) -> Self {
        let stack = Stack::default();
        tc(&stack, commands);
        Self {
            stack,
            arrivals: Vec::new(),
            left: Vec::new(),
            packets: Vec::new(),
            drops: Vec::new(),
            seed: 1,
            keep: false,
            one_by_one: false,
        }
    }

    /// Makes packets enter and leave the tree of qdiscs one by one instead of in batches.
    pub fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    /// Sets the seed of the device's generator.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Keeps the packets that left.
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    pub fn now(&self) -> u64 {
        self.stack.now.load(Relaxed)
    }

    /// Returns the counters of the root.
    pub fn root(&self) -> (u64, u64, Queue) {
        let root = self.stack.devices[&3].tc.tree().root.clone().unwrap();
        root.stats()
    }

    fn packet(&self, number: u32, arrival: &Arrival) -> Packet {
        let host = (arrival.flow >> 8) as u8;
        let mut frame = ipv4(17, [10, 0, host, 1], [10, 0, 0, 2], arrival.flow, 9);
        frame.resize(arrival.len, 0);
        let mut packet = self.stack.packet(&frame);
        assert!(packet.data_to_mac());
        (packet.priority, packet.mark) = (arrival.priority, number);
        packet.tc_index = arrival.flow;
        packet
    }

    /// Enqueues packets now and dequeues those that may leave. Returns the next wakeup.
    fn visit(&mut self, arrived: Vec<Packet>) -> Option<u64> {
        let now = self.now();
        let guard = self.stack.domain.pin();
        let (mut copies, mut drops) = (Vec::new(), Drops::new());
        let seed = &mut self.seed;
        let mut random = || {
            *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z >> 32) as u32
        };
        let mut cx = Context::new(&guard, 0, now, 3, &mut random, &mut copies);
        let tc = &self.stack.devices[&3].tc;
        let mut arrived = arrived.into_iter();
        // As in the stack, packets are enqueued and dequeued batch by batch.
        loop {
            let mut batch = Batch::new();
            while !batch.is_full()
                && let Some(packet) = arrived.next()
            {
                batch.push(packet).unwrap();
            }
            let last = arrived.len() == 0;
            if self.one_by_one {
                let root = tc.tree().root.clone().unwrap();
                let mut q = QueueCx::new(&mut cx, &mut drops);
                root.lock().in_tree(&mut q, |inner, q| {
                    for packet in batch.drain() {
                        inner.enqueue(q, packet);
                        while let Some(copy) = q.next_copy() {
                            inner.enqueue(q, copy);
                        }
                    }
                    q.pass_wakes();
                    while let Some(packet) = inner.dequeue(q) {
                        self.left.push((now, packet.mark));
                    }
                });
                match last {
                    true => break,
                    false => continue,
                }
            }
            let mut worker = tc.push(&guard, 0, &mut batch, (1000, false), &mut drops);
            while let Some(mut active) = worker.take() {
                let room = |_| Room::Octets(u32::MAX);
                worker = match active.round(&mut cx, &room, &mut batch, &mut drops) {
                    true => Some(active),
                    false => active.leave(),
                };
                for packet in batch.drain() {
                    self.left.push((now, packet.mark));
                    if self.keep {
                        self.packets.push(packet);
                    }
                }
            }
            if last {
                break;
            }
        }
        let drops = drops
            .into_iter()
            .map(|(packet, reason)| (now, packet.mark, reason));
        self.drops.extend(drops);
        let next = tc.next_event(&guard, 0);
        assert!(next.is_none_or(|next| next >= now));
        next
    }

    /// Plays arrivals and runs until no packet waits.
    pub fn run(&mut self, arrivals: &[Arrival]) {
        let base = self.arrivals.len() as u32;
        self.arrivals.extend(arrivals);
        let mut upcoming = (base..).zip(arrivals).peekable();
        let mut next = self.visit(Vec::new());
        loop {
            let arrival = upcoming.peek().map(|(_, arrival)| arrival.time);
            let Some(time) = [arrival, next].into_iter().flatten().min() else {
                break;
            };
            self.stack.now.store(time, Relaxed);
            let mut arrived = Vec::new();
            while let Some((number, arrival)) = upcoming.next_if(|(_, a)| a.time == time) {
                arrived.push(self.packet(number, arrival));
            }
            next = self.visit(arrived);
        }
        let (_, _, queue) = self.root();
        assert_eq!((queue.qlen, queue.backlog), (0, 0), "packets still wait");
        assert!(self.left.is_sorted_by_key(|(time, _)| *time));
    }

    /// Returns the departure time of each arrival, in the order of arrivals.
    pub fn departures(&self) -> Vec<u64> {
        let mut left = self.left.clone();
        left.sort_by_key(|(_, number)| *number);
        left.into_iter().map(|(time, _)| time).collect()
    }
}

/// Start of the test stack's clock.
pub const START: u64 = 1_000_000_000;

/// A generator of pseudorandom numbers.
pub struct Draws(pub u64);

impl Draws {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Generates packets in bursts and pauses.
pub fn traffic(seed: u64, count: usize, longest_pause: u64) -> Vec<Arrival> {
    let mut draws = Draws(seed);
    let mut time = START;
    let arrival = |_| {
        if draws.below(3) == 0 {
            time += draws.below(longest_pause);
        }
        Arrival {
            time,
            len: 60 + draws.below(1455) as usize,
            flow: draws.below(40) as u16,
            priority: 0,
        }
    };
    (0..count).map(arrival).collect()
}

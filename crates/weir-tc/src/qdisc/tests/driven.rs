// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root qdisc driven packet by packet by a test and compared with an oracle.

use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{DropReason, Packet};

use super::{Arrival, Draws, tc};
use crate::context::Context;
use crate::qdisc::{Drops, Inner, QueueCx};
use crate::testing::{Stack, ipv4};

/// The generator of the device. An oracle has its own with the same seed.
#[derive(Debug, Clone, Copy)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }
}

/// The root qdisc with its stack.
pub struct Driven {
    pub stack: Stack,
    pub random: Random,
    pub drops: Vec<(u32, DropReason)>,
}

impl Driven {
    /// Makes the qdisc at `now` by a recorded command.
    pub fn new(command: &str, now: u64, seed: u64) -> Self {
        let driven = Self::without_qdisc(now, seed);
        tc(&driven.stack, &[command]);
        driven
    }

    /// Makes a stack without a qdisc.
    pub fn without_qdisc(now: u64, seed: u64) -> Self {
        let stack = Stack::default();
        stack.now.store(now, Relaxed);
        Self {
            stack,
            random: Random(seed),
            drops: Vec::new(),
        }
    }

    pub fn packet(&self, number: u32, arrival: &Arrival) -> Packet {
        let mut frame = ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], arrival.flow, 9);
        frame.resize(arrival.len, 0);
        let mut packet = self.stack.packet(&frame);
        assert!(packet.data_to_mac());
        (packet.priority, packet.mark) = (arrival.priority, number);
        packet
    }

    /// Calls `work` on the qdisc at `now`.
    pub fn at<T>(
        &mut self,
        now: u64,
        work: impl FnOnce(&mut Inner, &mut QueueCx<'_, '_, '_>) -> T,
    ) -> T {
        self.stack.now.store(now, Relaxed);
        let root = self.stack.devices[&3].tc.tree().root.clone().unwrap();
        let guard = self.stack.domain.pin();
        let (mut copies, mut drops) = (Vec::new(), Drops::new());
        let random = &mut self.random;
        let mut draw = || random.next();
        let mut cx = Context::new(&guard, 0, now, 3, &mut draw, &mut copies);
        let result = work(&mut root.lock(), &mut QueueCx::new(&mut cx, &mut drops));
        self.drops
            .extend(drops.iter().map(|(packet, reason)| (packet.mark, *reason)));
        result
    }

    pub fn enqueue(&mut self, now: u64, packet: Packet) {
        self.at(now, |inner, q| inner.enqueue(q, packet));
    }

    /// Enqueues the packet of an arrival.
    pub fn arrive(&mut self, now: u64, number: u32, arrival: &Arrival) {
        let packet = self.packet(number, arrival);
        self.enqueue(now, packet);
    }

    pub fn dequeue(&mut self, now: u64) -> Option<Packet> {
        self.at(now, |inner, q| inner.dequeue(q))
    }

    /// Dequeues, which must return nothing, and returns the next wakeup of the qdisc.
    pub fn wake(&mut self, now: u64) -> Option<u64> {
        self.at(now, |inner, q| {
            assert!(inner.qdisc.dequeue(q).is_none());
            q.take_notes()?.wake
        })
    }

    pub fn backlog(&self) -> (u32, u32) {
        let root = self.stack.devices[&3].tc.tree().root.clone().unwrap();
        let load = root.lock().load();
        (load.len, load.backlog)
    }
}

/// A queue implemented as in its paper. Packets are identified by their number. Dropped packets go
/// to `drops`.
pub trait Oracle: std::fmt::Debug {
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>);
    fn dequeue(&mut self, now: u64, drops: &mut Vec<u32>) -> Option<u32>;
}

/// Generates packets for a line of 8 Mbit/s in phases of low load and overload. Some of the flows
/// send more than others.
pub fn varying_load(
    seed: u64,
    start: u64,
    count: usize,
    flows: u32,
    loads: [u64; 5],
) -> Vec<Arrival> {
    let mut draws = Draws(seed);
    let (mut time, mut load) = (start, 100);
    let arrival = |number| {
        if number % 300 == 0 {
            load = loads[draws.below(5) as usize];
        }
        time += draws.below(2 * 787_000 * 100 / load);
        let flow = draws
            .below(u64::from(flows))
            .min(draws.below(u64::from(flows))) as u32;
        Arrival {
            time,
            len: 60 + draws.below(1455) as usize,
            flow: flow as u16,
            priority: 0x1_0001 + flow,
        }
    };
    (0..count).map(arrival).collect()
}

/// Sends packets through the qdisc and the oracle, which must send and drop the same packets at the
/// same times. Returns the numbers of packets dropped by congestion and for other reasons.
pub fn lockstep(driven: &mut Driven, oracle: &mut impl Oracle, arrivals: &[Arrival]) -> [usize; 2] {
    let (mut free, mut next) = (arrivals[0].time, 0);
    let mut compared = 0;
    loop {
        let mut drops = Vec::new();
        let mut idle = false;
        let now = match arrivals.get(next) {
            Some(arrival) if arrival.time <= free => {
                driven.arrive(arrival.time, next as u32, arrival);
                oracle.enqueue(arrival.time, next as u32, arrival, &mut drops);
                next += 1;
                arrival.time
            }
            upcoming => {
                let packet = driven.dequeue(free).map(|packet| packet.mark);
                let expected = oracle.dequeue(free, &mut drops);
                assert_eq!(packet, expected, "leaves at {free}: {oracle:?}");
                let now = free;
                match (packet, upcoming) {
                    (Some(number), _) => free += arrivals[number as usize].len as u64 * 1000,
                    (None, Some(arrival)) => free = arrival.time,
                    (None, None) => idle = true,
                }
                now
            }
        };
        let ours: Vec<u32> = driven.drops[compared..]
            .iter()
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(ours, drops, "dropped at {now}: {oracle:?}");
        compared = driven.drops.len();
        if idle {
            break;
        }
    }
    assert_eq!(driven.backlog(), (0, 0));
    let dropped_for = |wanted: DropReason| {
        driven
            .drops
            .iter()
            .filter(|(_, reason)| *reason == wanted)
            .count()
    };
    let congested = dropped_for(DropReason::QDISC_CONGESTED);
    [congested, driven.drops.len() - congested]
}

/// Returns the request of a recorded command.
pub fn recorded(command: &str) -> Vec<u8> {
    let all = crate::testing::vectors(include_str!("../../../tests/vectors/exact.vec"));
    let (_, datagrams) = all.iter().find(|(found, _)| found == command).unwrap();
    datagrams.last().unwrap().clone()
}

/// Returns the contents of `TCA_OPTIONS` of a recorded command.
pub fn recorded_options(command: &str) -> Vec<u8> {
    attribute(&recorded(command)[36..], 2)
}

/// Returns the payload of the first attribute of a type.
pub fn attribute(mut bytes: &[u8], wanted: u16) -> Vec<u8> {
    loop {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let ty = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff;
        if ty == wanted {
            return bytes[4..len].to_vec();
        }
        bytes = &bytes[len.next_multiple_of(4)..];
    }
}

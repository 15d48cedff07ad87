// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Oracle tests of codel and fq_codel: every decision is compared with RFC 8289 and RFC 8290.
//!
//! The oracles are the pseudo-code of the RFCs, except where Linux differs. Time is in units of
//! 1024 ns. Linux compares with "after" where RFC 8289 has "not before". 1 / sqrt(count) is
//! computed by one Newton step on 16 bits per drop. In fq_codel, the check for more than one
//! waiting packet counts the bytes of all flows.

use std::collections::VecDeque;

use super::Arrival;
use super::driven::{Driven, Oracle, lockstep, varying_load};

const MTU: u64 = 1514;
/// The test starts shortly before 2^32 units, so that 32-bit times wrap.
const START: u64 = (1 << 42) - 3_000_000_000;

/// The control law of RFC 8289, section 5. The caller provides the queue.
#[derive(Debug, Clone, Default)]
struct Law {
    first_above: Option<u64>,
    drop_next: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
    /// 1 / sqrt(count), in units of 2^-16.
    root: u64,
}

const TARGET: u64 = 4_000_000 >> 10;
const INTERVAL: u64 = 50_000_000 >> 10;

/// A waiting packet: its number, its bytes, and its time of arrival in units.
type Waiting = (u32, u64, u64);

impl Law {
    /// Computes x (3 - count x^2) / 2 in 64 bits as Linux does. It wraps if the count has jumped.
    fn newton(&mut self) {
        let less = self.count.wrapping_mul(self.root * self.root);
        let factor = (3_u64 << 32).wrapping_sub(less) / 4;
        self.root = (factor.wrapping_mul(self.root << 16) >> 47) & 0xffff;
    }

    fn control(&self, time: u64) -> u64 {
        time + ((INTERVAL * self.root) >> 16)
    }

    /// Returns the next packet and whether it may be dropped (`dodequeue`).
    fn next(
        &mut self,
        now: u64,
        queue: &mut VecDeque<Waiting>,
        backlog: &mut u64,
    ) -> (Option<Waiting>, bool) {
        let Some(packet) = queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        *backlog -= packet.1;
        if now - packet.2 < TARGET || *backlog <= MTU {
            self.first_above = None;
            return (Some(packet), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + INTERVAL);
                (Some(packet), false)
            }
            Some(first) => (Some(packet), now > first),
        }
    }

    /// Dequeues a packet under the control law (`dequeue`).
    fn dequeue(
        &mut self,
        now: u64,
        queue: &mut VecDeque<Waiting>,
        backlog: &mut u64,
        drops: &mut Vec<u32>,
    ) -> Option<Waiting> {
        let now = now >> 10;
        let (mut packet, mut may_drop) = self.next(now, queue, backlog);
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                drops.extend(packet.map(|packet| packet.0));
                self.count += 1;
                self.newton();
                (packet, may_drop) = self.next(now, queue, backlog);
                if may_drop {
                    self.drop_next = self.control(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if may_drop {
            drops.extend(packet.map(|packet| packet.0));
            packet = self.next(now, queue, backlog).0;
            self.dropping = true;
            let delta = self.count - self.last_count;
            if delta > 1 && now.saturating_sub(self.drop_next) < 16 * INTERVAL {
                self.count = delta;
                self.newton();
            } else {
                self.count = 1;
                self.root = 0xffff;
            }
            self.last_count = self.count;
            self.drop_next = self.control(now);
        }
        packet
    }
}

#[derive(Debug, Default)]
struct Codel {
    law: Law,
    queue: VecDeque<Waiting>,
    backlog: u64,
}

impl Oracle for Codel {
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        if self.queue.len() == 200 {
            return drops.push(number);
        }
        self.queue
            .push_back((number, arrival.len as u64, now >> 10));
        self.backlog += arrival.len as u64;
    }

    fn dequeue(&mut self, now: u64, drops: &mut Vec<u32>) -> Option<u32> {
        let (law, queue) = (&mut self.law, &mut self.queue);
        let packet = law.dequeue(now, queue, &mut self.backlog, drops);
        packet.map(|packet| packet.0)
    }
}

#[test]
fn codel_follows_the_rfc() {
    let command = "tc qdisc add dev d0 root handle 1: codel limit 200 target 4ms interval 50ms";
    for seed in 1..4 {
        let mut driven = Driven::new(command, START, seed);
        let arrivals = varying_load(seed, START, 8_000, 1, [50, 95, 105, 130, 250]);
        let [law, limit] = lockstep(&mut driven, &mut Codel::default(), &arrivals);
        assert!(
            law > 100 && limit > 0,
            "{law} by the law, {limit} by the limit"
        );
    }
}

const FLOWS: usize = 16;
const QUANTUM: i64 = 700;

#[derive(Debug, Default)]
struct FqCodel {
    flows: [(Law, VecDeque<Waiting>, i64); FLOWS],
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    backlog: u64,
}

fn octets(queue: &VecDeque<Waiting>) -> u64 {
    queue.iter().map(|packet| packet.1).sum()
}

impl Oracle for FqCodel {
    /// Enqueues as in RFC 8290, section 4.1.
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        let flow = (arrival.priority & 0xffff) as usize - 1;
        self.flows[flow]
            .1
            .push_back((number, arrival.len as u64, now >> 10));
        self.backlog += arrival.len as u64;
        if !self.new.contains(&flow) && !self.old.contains(&flow) {
            self.flows[flow].2 = QUANTUM;
            self.new.push_back(flow);
        }
        if self.flows.iter().map(|flow| flow.1.len()).sum::<usize>() <= 120 {
            return;
        }
        // The first flow with the largest backlog loses half of it, or 8 packets.
        let most = self.flows.iter().map(|flow| octets(&flow.1)).max().unwrap();
        let largest = self.flows.iter_mut().find(|flow| octets(&flow.1) == most);
        let (law, queue, _) = largest.unwrap();
        let mut dropped = 0;
        for _ in 0..8 {
            let packet = queue.pop_front().unwrap();
            drops.push(packet.0);
            dropped += packet.1;
            law.count += 1;
            if dropped >= most / 2 {
                break;
            }
        }
        self.backlog -= dropped;
    }

    /// Dequeues as in RFC 8290, section 4.2.
    fn dequeue(&mut self, now: u64, drops: &mut Vec<u32>) -> Option<u32> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = list.pop_front()?;
            let (law, queue, credit) = &mut self.flows[flow];
            if *credit <= 0 {
                *credit += QUANTUM;
                self.old.push_back(flow);
                continue;
            }
            match law.dequeue(now, queue, &mut self.backlog, drops) {
                Some((number, len, _)) => {
                    *credit -= len as i64;
                    list.push_front(flow);
                    return Some(number);
                }
                None if is_new && !self.old.is_empty() => self.old.push_back(flow),
                None => {}
            }
        }
    }
}

#[test]
fn fq_codel_follows_the_rfc() {
    let command = "tc qdisc add dev d0 root handle 1: fq_codel limit 120 flows 16 quantum 700 target 4ms interval 50ms drop_batch 8 noecn";
    for seed in 1..4 {
        let mut driven = Driven::new(command, super::START, seed);
        let arrivals = varying_load(seed, super::START, 8_000, 16, [50, 95, 105, 130, 250]);
        let [law, limit] = lockstep(&mut driven, &mut FqCodel::default(), &arrivals);
        assert!(
            law > 100 && limit > 50,
            "{law} by the law, {limit} by the limit"
        );
    }
}

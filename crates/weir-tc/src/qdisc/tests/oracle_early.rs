// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Oracle tests of early drops and fair queues, where every decision is compared: red (Floyd and
//! Jacobson, 1993; adaptive: Floyd, Gummadi and Shenker, 2001), sfq (McKenney, 1990) with and
//! without RED in its flows, pie (RFC 8033), fq_pie.
//!
//! An oracle has its own generator with the seed of the device's.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use super::driven::{
    Driven, Oracle, Random, attribute, lockstep, recorded, recorded_options, varying_load,
};
use super::{Arrival, START, tc};

/// The average and the decision of RED. As in Linux, the average is an integer scaled by the
/// weight, which is a power of two, as section 11 of the paper proposes.
#[derive(Debug, Clone)]
struct Red {
    min: u64,
    max: u64,
    weight_log: u32,
    /// Probability at `max`, in units of 2^-32. `slope` is the same divided by the distance of the
    /// thresholds.
    max_p: u64,
    slope: u64,
    average: u64,
    /// Packets since the last marked one; `None` below the minimum.
    count: Option<u64>,
    /// R, in units of 2^-32, and the slope of p_b when it was drawn.
    drawn: (u64, u64),
}

#[derive(PartialEq)]
enum Verdict {
    Pass,
    Early,
    Forced,
}

impl Red {
    /// Reads the words of a request: min, max, then the logarithms of weight and probability.
    fn new(words: &[u8], max_p: u64) -> Self {
        let word = |at: usize| u64::from(u32::from_ne_bytes(words[at..at + 4].try_into().unwrap()));
        Self {
            slope: (max_p / (word(4) - word(0))).max(1),
            min: word(0),
            max: word(4),
            weight_log: u32::from(words[8]),
            max_p,
            average: 0,
            count: None,
            drawn: (0, 1),
        }
    }

    fn update(&mut self, backlog: u64) {
        self.average = self.average + backlog - (self.average >> self.weight_log);
    }

    fn draw(&mut self, random: &mut Random) {
        self.drawn = (u64::from(random.next()), self.slope);
    }

    /// Decides by the second method of section 7. R is drawn once for each gap. A packet is marked
    /// when count times p_b has reached R, where p_b is max_p (avg - min) / (max - min). Integers
    /// are rounded as in Linux.
    fn decide(&mut self, random: &mut Random) -> Verdict {
        if self.average < self.min << self.weight_log {
            self.count = None;
            return Verdict::Pass;
        }
        if self.average >= self.max << self.weight_log {
            self.count = None;
            return Verdict::Forced;
        }
        let Some(count) = self.count else {
            self.count = Some(0);
            self.draw(random);
            return Verdict::Pass;
        };
        let count = count + 1;
        let above = (self.average - (self.min << self.weight_log)) >> self.weight_log;
        let (drawn, slope) = self.drawn;
        if (count * above + 1) * slope <= drawn {
            self.count = Some(count);
            return Verdict::Pass;
        }
        self.count = Some(0);
        self.draw(random);
        Verdict::Early
    }
}

/// A queue under RED.
#[derive(Debug)]
struct RedQueue {
    red: Red,
    random: Random,
    limit: u64,
    cell_log: u32,
    /// The shift of the average for each cell of idle time, as sent by tc.
    shifts: Vec<u8>,
    idle_since: Option<u64>,
    /// Time of the next adaptation of the probability.
    adapt: Option<u64>,
    queue: VecDeque<(u32, u64)>,
}

impl RedQueue {
    fn new(command: &str, seed: u64, adaptive: bool) -> Self {
        let options = recorded_options(command);
        let parms = attribute(&options, 1);
        let max_p = attribute(&options, 3);
        let max_p = u64::from(u32::from_ne_bytes(max_p.try_into().unwrap()));
        Self {
            red: Red::new(&parms[4..], max_p),
            random: Random(seed),
            limit: u64::from(u32::from_ne_bytes(parms[..4].try_into().unwrap())),
            cell_log: u32::from(parms[14]),
            shifts: attribute(&options, 2),
            idle_since: Some(START),
            adapt: adaptive.then_some(START + 500_000_000),
            queue: VecDeque::new(),
        }
    }

    /// Returns the average after an idle time, reduced by the packets that could have left (section
    /// 11).
    fn idle_average(&self, now: u64) -> u64 {
        let Some(since) = self.idle_since else {
            return self.red.average;
        };
        let idle = ((now - since) / 1000).min(255 << self.cell_log);
        match self.shifts[(idle >> self.cell_log) as usize] {
            0 => {
                let less = (self.red.average * idle) >> self.cell_log;
                let half = self.red.average / 2;
                if less < half {
                    self.red.average - less
                } else {
                    half
                }
            }
            shift => self.red.average >> shift,
        }
    }

    /// Adaptive RED, figure 1: every half second the probability is adapted to bring the average to
    /// the middle fifth between the thresholds. It increases by a quarter or a hundredth and
    /// decreases by a tenth.
    fn adapt(&mut self, now: u64) {
        while let Some(due) = self.adapt.filter(|due| *due <= now) {
            let average = self.idle_average(due) >> self.red.weight_log;
            let hundredth = ((1_u64 << 32) + 50) / 100;
            let red = &mut self.red;
            let fifth = (red.max - red.min) / 5;
            if average > red.min + 3 * fifth && red.max_p <= 50 * hundredth {
                red.max_p += hundredth.min(red.max_p / 4);
            } else if average < red.min + 2 * fifth && red.max_p >= hundredth {
                red.max_p = red.max_p / 10 * 9;
            }
            // The slope is rounded to the nearest here, and down where it is first set.
            let distance = red.max - red.min;
            red.slope = ((red.max_p + distance / 2) / distance).max(1);
            self.adapt = Some(due + 500_000_000);
        }
    }
}

impl Oracle for RedQueue {
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        self.adapt(now);
        let backlog: u64 = self.queue.iter().map(|packet| packet.1).sum();
        match self.idle_since {
            Some(_) => self.red.average = self.idle_average(now),
            None => self.red.update(backlog),
        }
        self.idle_since = None;
        let len = arrival.len as u64;
        let dropped = self.red.decide(&mut self.random) != Verdict::Pass;
        match dropped || backlog + len > self.limit {
            true => drops.push(number),
            false => self.queue.push_back((number, len)),
        }
    }

    fn dequeue(&mut self, now: u64, _drops: &mut Vec<u32>) -> Option<u32> {
        self.adapt(now);
        let packet = self.queue.pop_front();
        if packet.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        packet.map(|packet| packet.0)
    }
}

const RED: &str = "tc qdisc add dev d0 root handle 1: red limit 90000 min 10000 max 40000 avpkt 700 burst 20 bandwidth 8mbit probability 0.05";
const ADAPTIVE: &str = "tc qdisc add dev d0 root handle 1: red limit 90000 min 10000 max 40000 avpkt 700 burst 20 bandwidth 8mbit probability 0.02 adaptive";

#[test]
fn red_follows_the_paper() {
    for seed in 1..4 {
        let mut driven = Driven::new(RED, START, seed);
        let arrivals = varying_load(seed, START, 8_000, 1, [60, 95, 105, 115, 200]);
        let mut oracle = RedQueue::new(RED, seed, false);
        let [early, _] = lockstep(&mut driven, &mut oracle, &arrivals);
        assert!(early > 100, "{early}");
    }
}

/// Uses the request of an older tc, with the flags in the structure. With tc 6.1, which sends an
/// attribute of flags, Linux does not adapt anything.
#[test]
fn red_adapts_only_with_flags_in_the_structure() {
    let mut request = recorded(ADAPTIVE);
    let nest = request.len() - recorded_options(ADAPTIVE).len() - 4;
    request.truncate(request.len() - 12);
    for at in [0, nest] {
        let len = u16::from_ne_bytes([request[at], request[at + 1]]) - 12;
        request[at..at + 2].copy_from_slice(&len.to_ne_bytes());
    }
    // The first attribute's payload ends with the flags.
    request[nest + 4 + 4 + 15] = 4;
    for seed in 1..4 {
        for adaptive in [true, false] {
            let mut driven = match adaptive {
                true => Driven::without_qdisc(START, seed),
                false => Driven::new(ADAPTIVE, START, seed),
            };
            if adaptive {
                driven.stack.request(&request).unwrap();
            }
            let mut oracle = RedQueue::new(ADAPTIVE, seed, adaptive);
            let first = oracle.red.max_p;
            let arrivals = varying_load(seed, START, 6_000, 1, [60, 95, 105, 115, 200]);
            let [early, _] = lockstep(&mut driven, &mut oracle, &arrivals);
            assert!(early > 100, "{early}");
            assert_eq!(oracle.red.max_p != first, adaptive);
        }
    }
}

/// A flow of sfq.
#[derive(Debug, Default)]
struct Flow {
    queue: VecDeque<(u32, u64)>,
    credit: i64,
    /// Time of the last change of its length. Among the longest flows, the one that changed last
    /// loses a packet.
    changed: u64,
    red: Option<Red>,
}

#[derive(Debug)]
struct Sfq {
    flows: Vec<Flow>,
    turns: VecDeque<usize>,
    limit: usize,
    depth: usize,
    head_drop: bool,
    red: Option<Red>,
    random: Random,
    changes: u64,
}

impl Sfq {
    fn new(command: &str, seed: u64) -> Self {
        let options = recorded_options(command);
        let word = |at: usize| u32::from_ne_bytes(options[at..at + 4].try_into().unwrap());
        let red = command.contains("redflowlimit");
        Self {
            flows: (0..word(12)).map(|_| Flow::default()).collect(),
            turns: VecDeque::new(),
            limit: word(8) as usize,
            depth: word(20) as usize,
            head_drop: word(24) != 0,
            red: red.then(|| Red::new(&options[32..], u64::from(word(44)))),
            random: Random(seed),
            changes: 0,
        }
    }

    fn changed(&mut self, flow: usize) {
        self.changes += 1;
        self.flows[flow].changed = self.changes;
    }
}

const QUANTUM: i64 = 700;

impl Oracle for Sfq {
    fn enqueue(&mut self, _now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        let at = (arrival.priority & 0xffff) as usize - 1;
        let packet = (number, arrival.len as u64);
        let flow = &mut self.flows[at];
        if flow.queue.is_empty() {
            flow.red = self.red.clone();
            flow.credit = QUANTUM;
            self.turns.push_back(at);
        } else {
            let early = flow.red.as_mut().is_some_and(|red| {
                red.update(flow.queue.iter().map(|packet| packet.1).sum());
                red.decide(&mut self.random) != Verdict::Pass
            });
            if early || flow.queue.len() == self.depth {
                if !self.head_drop {
                    return drops.push(number);
                }
                drops.extend(flow.queue.pop_front().map(|packet| packet.0));
                flow.queue.push_back(packet);
                return;
            }
        }
        flow.queue.push_back(packet);
        self.changed(at);
        if self
            .flows
            .iter()
            .map(|flow| flow.queue.len())
            .sum::<usize>()
            <= self.limit
        {
            return;
        }
        let longest = (0..self.flows.len())
            .max_by_key(|at| (self.flows[*at].queue.len(), self.flows[*at].changed));
        let mut longest = longest.unwrap();
        if self.flows[longest].queue.len() == 1 {
            // All flows have one packet. The one with the next turn loses it.
            longest = self.turns.pop_front().unwrap();
        }
        let queue = &mut self.flows[longest].queue;
        let lost = match self.head_drop {
            true => queue.pop_front(),
            false => queue.pop_back(),
        };
        drops.extend(lost.map(|packet| packet.0));
        self.changed(longest);
    }

    fn dequeue(&mut self, _now: u64, _drops: &mut Vec<u32>) -> Option<u32> {
        let at = loop {
            let at = *self.turns.front()?;
            if self.flows[at].credit > 0 {
                break at;
            }
            self.flows[at].credit += QUANTUM;
            self.turns.rotate_left(1);
        };
        let flow = &mut self.flows[at];
        let (number, len) = flow.queue.pop_front()?;
        if flow.queue.is_empty() {
            self.turns.pop_front();
        } else {
            flow.credit -= len as i64;
        }
        self.changed(at);
        Some(number)
    }
}

#[test]
fn sfq_follows_the_paper() {
    for (command, flows) in [
        (
            "tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700",
            16,
        ),
        (
            "tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700 headdrop",
            16,
        ),
        // With so few flows, one of them reaches its depth.
        (
            "tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700",
            2,
        ),
        (
            "tc qdisc add dev d0 root handle 1: sfq limit 60 depth 20 divisor 16 quantum 700 headdrop",
            2,
        ),
    ] {
        for seed in 1..4 {
            let mut driven = Driven::new(command, START, seed);
            let arrivals = varying_load(seed, START, 5_000, flows, [50, 95, 105, 130, 250]);
            let [_, limit] = lockstep(&mut driven, &mut Sfq::new(command, seed), &arrivals);
            assert!(limit > 100, "{limit}");
        }
    }
}

#[test]
fn sfq_has_red_in_its_flows() {
    for command in [
        "tc qdisc add dev d0 root handle 1: sfq limit 400 depth 100 divisor 16 quantum 700 redflowlimit 60000 min 3000 max 9000 avpkt 600 burst 7 probability 0.1",
        "tc qdisc add dev d0 root handle 1: sfq limit 400 depth 100 divisor 16 quantum 700 headdrop redflowlimit 60000 min 3000 max 9000 avpkt 600 burst 7 probability 0.1",
    ] {
        for seed in 1..4 {
            let mut driven = Driven::new(command, START, seed);
            let arrivals = varying_load(seed, START, 5_000, 6, [60, 95, 105, 115, 200]);
            let [early, _] = lockstep(&mut driven, &mut Sfq::new(command, seed), &arrivals);
            assert!(early > 100, "{early}");
        }
    }
}

/// RFC 8033 in floating point, with times in ticks of 64 ns. It follows Linux in these points: the
/// time between departures uses up the burst allowance, the delay is that of the last departure,
/// the probability decays by 1/64 and is not limited to 1, and there is no adaptation during the
/// first half second.
#[derive(Debug)]
struct Pie {
    queue: VecDeque<(u32, u64, u64)>,
    by_bytes: bool,
    delay: u64,
    old_delay: u64,
    burst: u64,
    departed: Option<u64>,
    p: f64,
    sum: f64,
    adapt: u64,
    period: u64,
}

const TICKS: u64 = 1_000_000_000 / 64;
const TARGET: u64 = TICKS / 100;
const BURST: u64 = TICKS * 15 / 100;

impl Pie {
    fn new(by_bytes: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            by_bytes,
            delay: 0,
            old_delay: 0,
            burst: BURST,
            departed: None,
            p: 0.0,
            sum: 0.0,
            adapt: START + 500_000_000,
            period: 15_000_000,
        }
    }

    fn backlog(&self) -> u64 {
        self.queue.iter().map(|packet| packet.1).sum()
    }

    /// Adapts the probability (section 4.2).
    fn adapt(&mut self, now: u64) {
        while self.adapt <= now {
            self.adapt += self.period;
            let seconds = |ticks: u64| ticks as f64 / TICKS as f64;
            let (delay, old) = (seconds(self.delay), seconds(self.old_delay));
            let mut change = 0.125 * (delay - seconds(TARGET)) + 1.25 * (delay - old);
            change /= match self.p {
                p if p < 0.000_001 => 2048.0,
                p if p < 0.000_01 => 512.0,
                p if p < 0.000_1 => 128.0,
                p if p < 0.001 => 32.0,
                p if p < 0.01 => 8.0,
                p if p < 0.1 => 2.0,
                _ => 1.0,
            };
            if self.p >= 0.1 {
                change = change.min(0.02);
            }
            if self.delay > TICKS / 4 {
                change += 0.02;
            }
            self.p = (self.p + change).max(0.0);
            if self.delay == 0 && self.old_delay == 0 && self.queue.is_empty() {
                self.p -= self.p / 64.0;
            }
            let low = TARGET / 2;
            if self.delay < low && self.old_delay < low && self.p == 0.0 {
                (self.burst, self.departed, self.sum) = (BURST, None, 0.0);
            }
            self.old_delay = self.delay;
        }
    }

    /// Returns whether to drop a packet (sections 4.1 and 5.4).
    fn early(&mut self, len: u64, random: &mut Random) -> bool {
        let low = self.delay < TARGET / 2 && self.p < 0.2;
        if self.burst > 0 || low || self.backlog() < 2 * 1514 {
            return false;
        }
        let p = match self.by_bytes {
            true => self.p * len as f64 / 1514.0,
            false => self.p,
        };
        self.sum = if p == 0.0 { 0.0 } else { self.sum + p };
        if self.sum < 0.85 {
            return false;
        }
        if self.sum >= 8.5 {
            return true;
        }
        let high = f64::from(random.next()) * 2_f64.powi(32);
        (high + f64::from(random.next())) / 2_f64.powi(64) < p
    }

    /// Enqueues a packet. Returns whether it was accepted.
    fn enqueue(&mut self, packet: (u64, u32, u64), full: bool, random: &mut Random) -> bool {
        let (now, number, len) = packet;
        let accepted = !full && !self.early(len, random);
        match accepted {
            true => self.queue.push_back((number, len, now >> 6)),
            false => self.sum = 0.0,
        }
        accepted
    }

    /// Dequeues a packet. Returns its number and length.
    fn dequeue(&mut self, now: u64) -> Option<(u32, u64)> {
        let (number, len, arrived) = self.queue.pop_front()?;
        let now = now >> 6;
        self.delay = if self.queue.is_empty() {
            0
        } else {
            now - arrived
        };
        let since = self.departed.replace(now).map_or(0, |before| now - before);
        self.burst = self.burst.saturating_sub(since);
        Some((number, len))
    }
}

impl Oracle for (Pie, Random) {
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        let (pie, random) = self;
        pie.adapt(now);
        let full = pie.queue.len() == 300;
        if !pie.enqueue((now, number, arrival.len as u64), full, random) {
            drops.push(number);
        }
    }

    fn dequeue(&mut self, now: u64, _drops: &mut Vec<u32>) -> Option<u32> {
        self.0.adapt(now);
        self.0.dequeue(now).map(|(number, _)| number)
    }
}

/// Probabilities in Linux are integers in units of 2^-56. A decision could differ if a random
/// number is within 10^-5 of the probability, or a sum that close to the threshold. That does not
/// happen with these seeds.
#[test]
fn pie_follows_the_rfc() {
    for (command, by_bytes) in [
        (
            "tc qdisc add dev d0 root handle 1: pie limit 300 target 10ms tupdate 15ms",
            false,
        ),
        (
            "tc qdisc add dev d0 root handle 1: pie limit 300 target 10ms tupdate 15ms bytemode",
            true,
        ),
    ] {
        for seed in 1..4 {
            let mut driven = Driven::new(command, START, seed);
            let arrivals = varying_load(seed, START, 8_000, 1, [60, 95, 105, 130, 200]);
            let mut oracle = (Pie::new(by_bytes), Random(seed));
            let [early, _] = lockstep(&mut driven, &mut oracle, &arrivals);
            assert!(early > 100, "{early}");
        }
    }
}

/// A queue under PIE for each flow, within one limit. Deficit round robin (Shreedhar and Varghese,
/// 1995) serves them, new flows first (RFC 8290, section 4.2). All controllers run at the same
/// times.
#[derive(Debug)]
struct FqPie {
    flows: Vec<(Pie, i64)>,
    /// New and old flows.
    turns: [VecDeque<usize>; 2],
    limit: usize,
    random: Random,
}

impl FqPie {
    fn new(by_bytes: bool, seed: u64) -> Self {
        Self {
            flows: (0..16).map(|_| (Pie::new(by_bytes), 0)).collect(),
            turns: Default::default(),
            limit: 300,
            random: Random(seed),
        }
    }

    fn adapt(&mut self, now: u64) {
        for (pie, _) in &mut self.flows {
            pie.adapt(now);
        }
    }

    fn waiting(&self) -> usize {
        self.flows.iter().map(|(pie, _)| pie.queue.len()).sum()
    }
}

impl Oracle for FqPie {
    fn enqueue(&mut self, now: u64, number: u32, arrival: &Arrival, drops: &mut Vec<u32>) {
        self.adapt(now);
        let full = self.waiting() >= self.limit;
        let at = (arrival.priority & 0xffff) as usize - 1;
        let (pie, credit) = &mut self.flows[at];
        if !pie.enqueue((now, number, arrival.len as u64), full, &mut self.random) {
            return drops.push(number);
        }
        if !self.turns.iter().any(|turns| turns.contains(&at)) {
            *credit = QUANTUM;
            self.turns[0].push_back(at);
        }
    }

    fn dequeue(&mut self, now: u64, _drops: &mut Vec<u32>) -> Option<u32> {
        self.adapt(now);
        loop {
            let list = usize::from(self.turns[0].is_empty());
            let at = self.turns[list].pop_front()?;
            let (pie, credit) = &mut self.flows[at];
            if *credit <= 0 {
                *credit += QUANTUM;
                self.turns[1].push_back(at);
                continue;
            }
            if let Some((number, len)) = pie.dequeue(now) {
                *credit -= len as i64;
                self.turns[list].push_front(at);
                return Some(number);
            }
            if list == 0 && !self.turns[1].is_empty() {
                self.turns[1].push_back(at);
            }
        }
    }
}

const FQ_PIE: &str = "tc qdisc add dev d0 root handle 1: fq_pie limit 300 flows 16 target 10ms tupdate 15ms quantum 700 memory_limit 200000";
const FQ_PIE_BYTES: &str = "tc qdisc add dev d0 root handle 1: fq_pie limit 300 flows 16 target 10ms tupdate 15ms quantum 700 memory_limit 200000 ecn ecn_prob 5 bytemode";

#[test]
fn fq_pie_is_pie_in_fair_queues() {
    for (command, by_bytes, flows) in [(FQ_PIE, false, 8), (FQ_PIE_BYTES, true, 3)] {
        for seed in 1..4 {
            let mut driven = Driven::new(command, START, seed);
            let mut oracle = FqPie::new(by_bytes, seed);
            let arrivals = varying_load(seed, START, 8_000, flows, [60, 95, 105, 130, 200]);
            let [early, _] = lockstep(&mut driven, &mut oracle, &arrivals);
            assert!(early > 100, "{early}");
            // A reset restarts the burst allowance. The learnt state of the queue stays.
            let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
            root.lock().reset(&mut Vec::new());
            assert!(oracle.flows.iter().any(|(pie, _)| pie.p > 0.0));
            for (pie, _) in &mut oracle.flows {
                (pie.burst, pie.departed, pie.sum) = (BURST, None, 0.0);
            }
            // A new period starts at the next run of the controllers.
            tc(
                &driven.stack,
                &["tc qdisc change dev d0 root handle 1: fq_pie tupdate 40ms"],
            );
            for (pie, _) in &mut oracle.flows {
                pie.period = 40_000_000;
            }
            driven.drops.clear();
            let later = driven.stack.now.load(Relaxed) + 1_000_000;
            let arrivals = varying_load(seed + 9, later, 4_000, flows, [60, 95, 105, 130, 200]);
            let [early, _] = lockstep(&mut driven, &mut oracle, &arrivals);
            assert!(early > 100, "{early}");
        }
    }
}

/// Packets over a lowered limit are dequeued, starting with the peeked one, and count as sent.
#[test]
fn fq_pie_counts_packets_over_a_lowered_limit_as_sent() {
    let mut driven = Driven::new(FQ_PIE, START, 1);
    let mut oracle = FqPie::new(false, 1);
    for (number, arrival) in varying_load(1, START, 60, 5, [100; 5]).iter().enumerate() {
        driven.arrive(START, number as u32, arrival);
        oracle.enqueue(START, number as u32, arrival, &mut Vec::new());
    }
    let all = driven.backlog();
    assert_eq!(all.0, 60);
    assert!(driven.at(START, |inner, q| inner.peek(q)).is_some());
    tc(
        &driven.stack,
        &["tc qdisc change dev d0 root handle 1: fq_pie limit 20"],
    );
    for _ in 0..40 {
        oracle.dequeue(START, &mut Vec::new());
    }
    let kept = driven.backlog();
    assert_eq!(kept.0, 20);
    let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
    let (octets, packets, queue) = root.stats();
    assert_eq!((octets, packets), (u64::from(all.1 - kept.1), 40));
    assert_eq!(queue.drops, 0);
    while let Some(packet) = driven.dequeue(START) {
        let expected = oracle.dequeue(START, &mut Vec::new());
        assert_eq!(Some(packet.mark), expected);
    }
    assert_eq!(oracle.waiting(), 0);
}

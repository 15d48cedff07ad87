// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the shapers tbf and htb.

use super::{Arrival, Departure, Draws, Line, START, traffic};

/// Nanoseconds per byte at 8 Mbit/s.
const BYTE_NS: u64 = 1000;

/// Computes the departures of token buckets packet by packet. A rate is ns per byte and bucket
/// depth in ns.
fn bucket(arrivals: &[Arrival], rates: &[(u64, i64)]) -> Vec<u64> {
    let mut credit: Vec<i64> = rates.iter().map(|(_, depth)| *depth).collect();
    let (mut at, mut free) = (START, START);
    let mut leave = |arrival: &Arrival| {
        let mut time = arrival.time.max(free);
        for ((byte_ns, depth), credit) in rates.iter().zip(&credit) {
            let available = (credit + (time - at) as i64).min(*depth);
            let missing = (arrival.len as u64 * byte_ns) as i64 - available;
            time += missing.max(0) as u64;
        }
        for ((byte_ns, depth), credit) in rates.iter().zip(&mut credit) {
            let available = (*credit + (time - at) as i64).min(*depth);
            *credit = available - (arrival.len as u64 * byte_ns) as i64;
            assert!(*credit >= 0);
        }
        (at, free) = (time, time);
        time
    };
    arrivals.iter().map(&mut leave).collect()
}

#[test]
fn tbf_sends_when_the_bucket_holds_a_packet() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 3000 limit 100000"]);
    let arrivals = traffic(7, 3000, 4_000_000);
    line.run(&arrivals);
    let fits: Vec<_> = line
        .left
        .iter()
        .map(|(_, n)| arrivals[*n as usize])
        .collect();
    assert!(line.drops.len() < 1000 && fits.len() > 2000);
    // Credit is kept in ticks of 64 ns: 3000 bytes are 46875 ticks.
    assert_eq!(line.departures(), bucket(&fits, &[(BYTE_NS, 3_000_000)]));
    let (bytes, packets, queue) = line.root();
    assert_eq!(packets as usize, fits.len());
    assert_eq!(bytes as usize, fits.iter().map(|a| a.len).sum::<usize>());
    assert_eq!(queue.drops as usize, line.drops.len());
}

#[test]
fn tbf_obeys_the_peak_rate_as_well() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 20000 limit 100000 peakrate 16mbit mtu 2000",
    ]);
    let arrivals = traffic(8, 2000, 8_000_000);
    line.run(&arrivals);
    let fits: Vec<_> = line
        .left
        .iter()
        .map(|(_, n)| arrivals[*n as usize])
        .collect();
    let rates = [(BYTE_NS, 20_000_000), (BYTE_NS / 2, 1_000_000)];
    assert_eq!(line.departures(), bucket(&fits, &rates));
}

#[test]
fn tbf_with_a_backlog_sends_at_its_rate() {
    let mut line =
        Line::new(&["tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 3000 limit 100000"]);
    let arrival = Arrival {
        time: START,
        len: 1000,
        ..Arrival::default()
    };
    line.run(&[arrival; 50]);
    // Three packets leave at once, then one per millisecond.
    let expected: Vec<u64> = (0..50_u64)
        .map(|i| START + i.saturating_sub(2) * 1_000_000)
        .collect();
    assert_eq!(line.departures(), expected);
    assert_eq!(line.root().2.overlimits, 47);
}

/// A class of the oracle.
#[derive(Clone)]
struct Class {
    parent: Option<usize>,
    level: u64,
    /// Nanoseconds per byte at the rate and at the ceiling. `depth` has the bucket depths in ns.
    cost: [u64; 2],
    depth: [i64; 2],
    credit: [i64; 2],
    at: u64,
    prio: u64,
    queue: Vec<usize>,
}

const DEBT: i64 = 60_000_000_000;

impl Class {
    fn credit_at(&self, time: u64) -> [i64; 2] {
        let earned = ((time - self.at) as i64).min(DEBT);
        self.credit.map(|credit| credit + earned)
    }

    /// Returns 0 if the class cannot send, 1 if it may borrow, 2 if it can send, and the time at
    /// which that can change.
    fn mode(&self, time: u64) -> (u8, u64) {
        match self.credit_at(time) {
            [_, ceil] if ceil < 0 => (0, time + (-ceil) as u64),
            [rate, _] if rate < 0 => (1, time + (-rate) as u64),
            _ => (2, u64::MAX),
        }
    }
}

/// HTB by its description: examines every class at each time. Priorities differ, so classes do not
/// take turns.
fn htb(classes: &mut [Class], arrivals: &[(Arrival, usize)]) -> Vec<Departure> {
    let (mut time, mut next, mut left) = (START, 0, Vec::new());
    loop {
        while next < arrivals.len() && arrivals[next].0.time <= time {
            classes[arrivals[next].1].queue.push(next);
            next += 1;
        }
        let mut best = None;
        let mut wake = arrivals.get(next).map_or(u64::MAX, |(a, _)| a.time);
        for leaf in 0..classes.len() {
            if classes[leaf].queue.is_empty() {
                continue;
            }
            let mut at = Some(leaf);
            while let Some(number) = at {
                let class = &classes[number];
                let (mode, change) = class.mode(time);
                wake = wake.min(change);
                match mode {
                    2 => {
                        let key = (class.level, classes[leaf].prio, leaf);
                        best = best.min(Some(key)).or(Some(key));
                        break;
                    }
                    1 => at = class.parent,
                    _ => break,
                }
            }
        }
        let Some((level, _, leaf)) = best else {
            if wake == u64::MAX {
                return left;
            }
            time = wake;
            continue;
        };
        let number = classes[leaf].queue.remove(0);
        left.push((time, number as u32));
        let len = arrivals[number].0.len as u64;
        let mut at = Some(leaf);
        while let Some(number) = at {
            let class = &mut classes[number];
            let mut credit = class.credit_at(time);
            let own = class.level >= level;
            for (which, credit) in credit.iter_mut().enumerate() {
                if which == 1 || own {
                    *credit = (*credit).min(class.depth[which]);
                    *credit -= (len * class.cost[which]) as i64;
                    *credit = (*credit).max(1 - DEBT);
                }
            }
            class.credit = credit;
            class.at = time;
            at = class.parent;
        }
    }
}

const HTB: [&str; 5] = [
    "tc qdisc add dev d0 root handle 1: htb default 12",
    "tc class add dev d0 parent 1: classid 1:1 htb rate 10mbit burst 1600 cburst 1600",
    "tc class add dev d0 parent 1:1 classid 1:11 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0",
    "tc class add dev d0 parent 1:1 classid 1:12 htb rate 5mbit ceil 8mbit burst 3000 cburst 1600 prio 1",
    "tc class add dev d0 parent 1:1 classid 1:13 htb rate 1mbit ceil 10mbit burst 1600 cburst 5000 prio 2",
];

#[test]
fn htb_matches_a_slow_oracle_to_the_nanosecond() {
    // Depths are whole ticks of 64 ns, as tc rounds them.
    let ticks = |ns: u64| (ns / 64 * 64) as i64;
    let class = |parent, level, cost: [u64; 2], octets: [u64; 2], prio| {
        let depth = [ticks(cost[0] * octets[0]), ticks(cost[1] * octets[1])];
        Class {
            parent,
            level,
            cost,
            depth,
            credit: depth,
            at: START,
            prio,
            queue: Vec::new(),
        }
    };
    for seed in 1..6 {
        let mut classes = [
            class(None, 7, [800, 800], [1600, 1600], 0),
            class(Some(0), 0, [4000, 800], [1600, 1600], 0),
            class(Some(0), 0, [1600, 1000], [3000, 1600], 1),
            class(Some(0), 0, [8000, 800], [1600, 5000], 2),
        ];
        let mut arrivals = traffic(seed, 3000, 3_000_000);
        for arrival in &mut arrivals {
            arrival.priority = 0x1_0011 + u32::from(arrival.flow % 3);
        }
        let mut line = Line::new(&HTB);
        line.run(&arrivals);
        assert!(line.drops.is_empty());
        let to_class = |a: &Arrival| (*a, (a.priority - 0x1_0010) as usize);
        let expected = htb(
            &mut classes,
            &arrivals.iter().map(to_class).collect::<Vec<_>>(),
        );
        assert_eq!(line.left.len(), expected.len());
        for (at, (ours, oracle)) in line.left.iter().zip(&expected).enumerate() {
            assert_eq!(ours, oracle, "packet {at} to leave, seed {seed}");
        }
    }
}

#[test]
fn htb_shares_turns_by_quantum() {
    let mut commands = HTB.to_vec();
    commands.push("tc class add dev d0 parent 1:1 classid 1:14 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0 quantum 1000");
    let mut line = Line::new(&commands);
    // Both classes always have packets. The quantum of the first is 2 Mbit/s divided by r2q, 25000
    // bytes.
    let arrivals: Vec<_> = (0..1600)
        .map(|i| Arrival {
            time: START,
            len: 1000,
            flow: i % 2,
            priority: if i % 2 == 0 { 0x1_0011 } else { 0x1_0014 },
        })
        .collect();
    line.run(&arrivals);
    // Each class has its guaranteed 2 Mbit/s. The rest of the parent's 10 Mbit/s is shared 25 to 1.
    let first: Vec<_> = line.left.iter().take(800).map(|(_, n)| n % 2).collect();
    let second = first.iter().filter(|n| **n == 1).count();
    assert!((180..230).contains(&second), "{second} of 800");
}

#[test]
fn htb_sends_packets_that_name_the_qdisc_directly() {
    let mut line = Line::new(&HTB);
    let mut arrivals = [Arrival {
        time: START,
        len: 1000,
        priority: 0x1_0013,
        ..Arrival::default()
    }; 20];
    for arrival in &mut arrivals[10..] {
        arrival.priority = 0x1_0000;
    }
    line.run(&arrivals);
    let direct: Vec<u32> = line.left.iter().take(10).map(|(_, n)| *n).collect();
    assert_eq!(
        direct,
        (10..20).collect::<Vec<_>>(),
        "direct packets leave first and at once"
    );
    assert!(line.left[9].0 == START && line.left[19].0 > START);
}

/// Returns all counters of an htb, its classes and the qdiscs below, as text.
fn counted(line: &Line) -> String {
    let root = line.stack.devices[&3].tc.tree().root.clone().unwrap();
    let stats = root.stats();
    let inner = root.lock();
    let classes: Vec<_> = inner
        .qdisc
        .classes()
        .into_iter()
        .map(|class| (inner.qdisc.class_stats(class), inner.qdisc.leaf(class)))
        .map(|(class, leaf)| (class, leaf.map(|leaf| leaf.stats())))
        .collect();
    format!("{stats:?} {classes:?}")
}

#[test]
fn htb_treats_a_batch_like_single_packets() {
    let mut commands = HTB.to_vec();
    commands.extend([
        "tc class add dev d0 parent 1:1 classid 1:14 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0 quantum 1000",
        "tc qdisc add dev d0 parent 1:11 handle 11: tbf rate 800kbit burst 2000 limit 30000",
        "tc qdisc add dev d0 parent 1:12 handle 12: netem limit 50 delay 1ms duplicate 30%",
        "tc qdisc add dev d0 parent 1:13 handle 13: pfifo limit 8",
        "tc qdisc add dev d0 parent 1:14 handle 14: tbf rate 1600kbit burst 9000 limit 30000",
    ]);
    let mut lost = 0;
    for seed in 0..40 {
        // The arrivals are runs of packets of one class or of the direct queue.
        let mut draws = Draws(seed);
        let mut arrivals = traffic(seed, 600, 3_000_000);
        let mut priority = 0;
        for arrival in &mut arrivals {
            if draws.below(4) == 0 {
                priority =
                    [0x1_0011, 0x1_0012, 0x1_0013, 0x1_0014, 0x1_0000][draws.below(5) as usize];
            }
            arrival.priority = priority;
        }
        let mut batched = Line::new(&commands).seed(seed);
        let mut single = Line::new(&commands).seed(seed).one_by_one();
        batched.run(&arrivals);
        single.run(&arrivals);
        assert_eq!(batched.left, single.left);
        assert_eq!(batched.drops, single.drops);
        assert_eq!(counted(&batched), counted(&single));
        lost += batched.drops.len();
    }
    assert!(lost > 100);
}

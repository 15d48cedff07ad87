// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of qfq: the order in which Linux sends packets, and the bounds of the papers.

use super::{Arrival, Draws, Line, START, tc};

const LINUX: &str = include_str!("../../../tests/order/qfq.txt");

#[test]
fn qfq_sends_packets_in_the_order_of_linux() {
    let mut orders = 0;
    for case in LINUX.split("\n# ").skip(1) {
        let (name, steps) = case.split_once('\n').unwrap();
        let mut line = Line::new(&[]);
        let (mut number, mut seen) = (0, 0);
        for step in steps.lines() {
            let (sign, what) = step.split_once(' ').unwrap();
            match sign {
                "$" => tc(&line.stack, &[what]),
                ">" => {
                    let what = if what == "kick" { "1 60" } else { what };
                    let (class, octets) = what.split_once(' ').unwrap();
                    let arrival = Arrival {
                        time: START,
                        len: octets.parse().unwrap(),
                        flow: 0,
                        priority: 0x10_0000 | class.parse::<u32>().unwrap(),
                    };
                    let packet = line.packet(number, &arrival);
                    line.visit(vec![packet]);
                    number += 1;
                }
                _ => {
                    line.run(&[]);
                    let numbers = line.left[seen..].iter().map(|(_, number)| *number);
                    let ours: Vec<String> = numbers.map(|number| number.to_string()).collect();
                    let expected: Vec<&str> = what.split(' ').collect();
                    let at = ours.iter().zip(&expected).position(|(a, b)| a != b);
                    assert_eq!(at.map(|at| (at, &ours[at], expected[at])), None, "{name}");
                    assert_eq!(ours.len(), expected.len(), "{name}");
                    seen = line.left.len();
                    orders += 1;
                }
            }
        }
    }
    assert_eq!(orders, 6);
}

/// Returns by how many bytes a class may lag behind its share in any interval in which it always
/// has packets.
///
/// An aggregate of m classes has a budget of m * lmax, which takes the place of a packet in plain
/// QFQ. QFQ serves it at most 3 slots and 2 packets late (Checconi, Rizzo, Valente 2013, theorem
/// 2). A slot is less than twice a budget in its virtual time. A class gets its part of that, minus
/// a turn and a packet of deficit round robin on either side (Shreedhar, Varghese 1996).
fn largest_lag(lmax: usize, share: f64) -> f64 {
    9.0 * lmax as f64 + 2.0 * share * 1514.0
}

fn check_shares(commands: &[&str], classes: &[(f64, usize)], arrivals: &[Arrival]) {
    let mut line = Line::new(commands);
    line.run(arrivals);
    let sum: f64 = classes.iter().map(|(weight, _)| weight).sum();
    let class = |n: u32| (arrivals[n as usize].priority & 0xffff) as usize - 1;
    let mut left = vec![0; classes.len()];
    for arrival in arrivals {
        left[(arrival.priority & 0xffff) as usize - 1] += 1;
    }
    // For each class, `lead` is its service minus its share and `most` is the maximum of that.
    let (mut lead, mut most) = (vec![0.0; classes.len()], vec![0.0_f64; classes.len()]);
    let mut served = 0;
    for (_, number) in &line.left {
        let (number, len) = (*number, arrivals[*number as usize].len as f64);
        for (at, (weight, lmax)) in classes.iter().enumerate() {
            let share = weight / sum;
            lead[at] += if class(number) == at { len } else { 0.0 } - share * len;
            most[at] = most[at].max(lead[at]);
            let lag = most[at] - lead[at];
            assert!(
                lag <= largest_lag(*lmax, share),
                "class {at} is {lag} bytes behind after {served} packets"
            );
        }
        served += 1;
        left[class(number)] -= 1;
        if left[class(number)] == 0 {
            break;
        }
    }
    assert!(
        served > 300,
        "a class ran out of packets too early: {served}"
    );
}

/// Returns packets of all classes that arrive at once, as many per class as it may need.
fn mixed_arrivals(seed: u64, count: u64, classes: &[(f64, usize)]) -> Vec<Arrival> {
    let mut draws = Draws(seed);
    let sum: f64 = classes.iter().map(|(weight, _)| weight).sum();
    let mut all = Vec::new();
    for (at, (weight, lmax)) in classes.iter().enumerate() {
        let packets = (count as f64 * weight / sum) as u64 + 8;
        for _ in 0..packets {
            let arrival = Arrival {
                time: START,
                len: 60 + draws.below(*lmax as u64 - 59) as usize,
                flow: 0,
                priority: 0x10_0001 + at as u32,
            };
            all.insert(draws.below(all.len() as u64 + 1) as usize, arrival);
        }
    }
    all
}

const LINE_AND_QFQ: [&str; 2] = [
    "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000",
    "tc qdisc add dev d0 parent 1:1 handle 10: qfq",
];

#[test]
fn qfq_keeps_each_class_within_the_bound_of_the_theorem() {
    let mut commands = LINE_AND_QFQ.to_vec();
    commands.extend([
        "tc class add dev d0 parent 10: classid 10:1 qfq weight 1",
        "tc class add dev d0 parent 10: classid 10:2 qfq weight 10",
        "tc class add dev d0 parent 10: classid 10:3 qfq weight 100",
        "tc class add dev d0 parent 10: classid 10:4 qfq weight 1000",
    ]);
    let classes = [(1.0, 1514), (10.0, 1514), (100.0, 1514), (1000.0, 1514)];
    for seed in 1..4 {
        // A class holds at most 1000 packets.
        check_shares(&commands, &classes, &mixed_arrivals(seed, 1000, &classes));
    }
}

#[test]
fn qfq_shares_among_the_classes_of_an_aggregate() {
    let names: Vec<String> = (1..=12)
        .map(|n| {
            format!("tc class add dev d0 parent 10: classid 10:{n:x} qfq weight 10 maxpkt 1500")
        })
        .collect();
    let mut commands = LINE_AND_QFQ.to_vec();
    commands.extend(names.iter().map(String::as_str));
    // Eight classes form an aggregate, four another.
    let classes = [(10.0, 1500); 12];
    for seed in 1..4 {
        check_shares(&commands, &classes, &mixed_arrivals(seed, 2000, &classes));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qfq: the order in which Linux lets packets go, and the bounds of the papers.

use super::{Arrival, Draws, Line, START, tc};

const LINUX: &str = include_str!("../../../tests/order/qfq.txt");

#[test]
fn qfq_lets_packets_go_in_linux_s_order() {
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
                    let wanted: Vec<&str> = what.split(' ').collect();
                    let at = ours.iter().zip(&wanted).position(|(a, b)| a != b);
                    assert_eq!(at.map(|at| (at, &ours[at], wanted[at])), None, "{name}");
                    assert_eq!(ours.len(), wanted.len(), "{name}");
                    seen = line.left.len();
                    orders += 1;
                }
            }
        }
    }
    assert_eq!(orders, 6);
}

/// Octets by which a class may be behind its share in any interval in which it always has packets.
///
/// An aggregate of m classes has a budget of m * lmax, which is what a packet is to plain QFQ; that serves
/// it at most 3 slots and 2 packets late (Checconi, Rizzo, Valente 2013, theorem 2), a slot being less than
/// twice a budget of its virtual time. A class gets its part of that, less a turn and a packet of deficit
/// round robin on either side (Shreedhar, Varghese 1996).
fn behind(lmax: usize, share: f64) -> f64 {
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
    // For each class, its service less its share: the most it had so far, and how far it fell from there.
    let (mut lead, mut most) = (vec![0.0; classes.len()], vec![0.0_f64; classes.len()]);
    let mut served = 0;
    for (_, number) in &line.left {
        let (number, len) = (*number, arrivals[*number as usize].len as f64);
        for (at, (weight, lmax)) in classes.iter().enumerate() {
            let share = weight / sum;
            lead[at] += if class(number) == at { len } else { 0.0 } - share * len;
            most[at] = most[at].max(lead[at]);
            let behind_by = most[at] - lead[at];
            assert!(
                behind_by <= behind(*lmax, share),
                "class {at} is {behind_by} octets behind after {served} packets"
            );
        }
        served += 1;
        left[class(number)] -= 1;
        if left[class(number)] == 0 {
            break;
        }
    }
    assert!(served > 300, "all have packets for long: {served}");
}

/// Packets of all classes, each with as many as it may need, that all come at once.
fn crowd(seed: u64, count: u64, classes: &[(f64, usize)]) -> Vec<Arrival> {
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

const HOLD: [&str; 2] = [
    "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000",
    "tc qdisc add dev d0 parent 1:1 handle 10: qfq",
];

#[test]
fn qfq_keeps_each_class_within_the_theorem_s_bound_of_its_share() {
    let mut commands = HOLD.to_vec();
    commands.extend([
        "tc class add dev d0 parent 10: classid 10:1 qfq weight 1",
        "tc class add dev d0 parent 10: classid 10:2 qfq weight 10",
        "tc class add dev d0 parent 10: classid 10:3 qfq weight 100",
        "tc class add dev d0 parent 10: classid 10:4 qfq weight 1000",
    ]);
    let classes = [(1.0, 1514), (10.0, 1514), (100.0, 1514), (1000.0, 1514)];
    for seed in 1..4 {
        // A class holds 1000 packets at most.
        check_shares(&commands, &classes, &crowd(seed, 1000, &classes));
    }
}

#[test]
fn qfq_shares_among_the_classes_of_an_aggregate() {
    let names: Vec<String> = (1..=12)
        .map(|n| {
            format!("tc class add dev d0 parent 10: classid 10:{n:x} qfq weight 10 maxpkt 1500")
        })
        .collect();
    let mut commands = HOLD.to_vec();
    commands.extend(names.iter().map(String::as_str));
    // Eight of them are an aggregate, four another.
    let classes = [(10.0, 1500); 12];
    for seed in 1..4 {
        check_shares(&commands, &classes, &crowd(seed, 2000, &classes));
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits also count waiting packets that the kind's own queue does not hold, as Linux's `sch->q`
//! does.

use weir_packet::Batch;

use super::driven::Driven;
use super::{Arrival, START};
use crate::qdisc::KINDS;

/// Length of each packet, in bytes.
const LEN: usize = 300;

/// Options after `tc qdisc add dev d0 root handle 1:`, and the number of packets that fit.
const WITH: [(&str, u32); 16] = [
    ("pfifo limit 20", 20),
    ("bfifo limit 9000", 30),
    ("pfifo_head_drop limit 20", 20),
    ("netem limit 30", 30),
    ("codel limit 200 target 4ms interval 50ms", 200),
    (
        "fq_codel limit 120 flows 16 quantum 700 target 4ms interval 50ms drop_batch 8 noecn",
        120,
    ),
    ("fq limit 30", 30),
    ("sfq limit 60 depth 20 divisor 16 quantum 700", 60),
    ("gred setup vqs 4 default 0 limit 9000", 30),
    ("plug limit 100000", 333),
    ("pie limit 300 target 10ms tupdate 15ms", 300),
    ("fq_pie limit 30", 30),
    (
        "choke limit 30 min 20 max 29 burst 60 avpkt 500 bandwidth 8mbit",
        30,
    ),
    ("skbprio limit 30", 30),
    ("hhf limit 30", 30),
    ("sfb limit 30", 30),
];

/// Kinds without a limit, or with a limit on a part of the waiting packets, on memory, or on a
/// queue below.
const WITHOUT: [&str; 21] = [
    "noqueue",
    "blackhole",
    "pfifo_fast",
    "prio",
    "tbf",
    "htb",
    "hfsc",
    "cbq",
    "cake",
    "red",
    "ets",
    "drr",
    "qfq",
    "cbs",
    "etf",
    "mq",
    "multiq",
    "mqprio",
    "taprio",
    "ingress",
    "clsact",
];

#[test]
fn limits_count_packets_returned_by_the_device() {
    for (command, fit) in WITH {
        let command = format!("tc qdisc add dev d0 root handle 1: {command}");
        let mut driven = Driven::new(&command, START, 1);
        let arrival = |number: u32| Arrival {
            time: START,
            len: LEN,
            flow: number as u16,
            priority: 0x1_0001 + number % 16,
        };
        let mut back = Batch::new();
        back.push(driven.packet(0, &arrival(0))).unwrap();
        let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
        root.lock().give_back(&mut back);
        for number in 1..=fit {
            assert_eq!(driven.backlog(), (number, number * LEN as u32), "{command}");
            assert!(driven.drops.is_empty(), "{command}");
            driven.arrive(START, number, &arrival(number));
        }
        assert!(!driven.drops.is_empty(), "{command}");
    }
}

#[test]
fn every_kind_is_listed_with_or_without_a_limit() {
    for ops in KINDS {
        let limited = WITH
            .iter()
            .any(|(command, _)| command.split(' ').next() == Some(ops.kind));
        let unlimited = WITHOUT.contains(&ops.kind);
        assert!(limited != unlimited, "{ops:?}");
    }
}

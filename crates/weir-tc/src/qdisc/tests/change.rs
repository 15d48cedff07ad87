// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of classes and queues while packets wait in them.

use super::{Arrival, Line, START, tc};

const HTB: [&str; 4] = [
    "tc qdisc add dev d0 root handle 1: htb default 12",
    "tc class add dev d0 parent 1: classid 1:1 htb rate 10mbit burst 1600 cburst 1600",
    "tc class add dev d0 parent 1:1 classid 1:11 htb rate 2mbit ceil 10mbit burst 1600 cburst 1600 prio 0",
    "tc class add dev d0 parent 1:1 classid 1:12 htb rate 5mbit ceil 8mbit burst 3000 cburst 1600 prio 1",
];

fn enqueue(line: &mut Line, priority: u32, count: usize) -> (u32, u32) {
    let arrival = Arrival {
        time: START,
        len: 1000,
        priority,
        ..Arrival::default()
    };
    for _ in 0..count {
        let packet = line.packet(0, &arrival);
        line.visit(vec![packet]);
    }
    let queue = line.root().2;
    (queue.qlen, queue.backlog)
}

#[test]
fn shortening_a_queue_updates_all_qdiscs_above() {
    let mut line = Line::new(&HTB);
    tc(
        &line.stack,
        &["tc qdisc add dev d0 parent 1:12 handle 12: codel limit 100"],
    );
    // Three packets leave at once within the burst.
    let (qlen, backlog) = enqueue(&mut line, 0x1_0012, 10);
    assert!(qlen > 4 && backlog == qlen * 1000);
    tc(
        &line.stack,
        &["tc qdisc change dev d0 parent 1:12 handle 12: codel limit 2"],
    );
    let queue = line.root().2;
    assert_eq!((queue.qlen, queue.backlog), (2, 2000));
    assert_eq!(
        queue.drops,
        qlen - 2,
        "the root counts the same drops as the queue below"
    );
    line.run(&[]);
}

#[test]
fn removing_a_queue_removes_its_packets() {
    let mut line = Line::new(&HTB);
    tc(
        &line.stack,
        &["tc qdisc add dev d0 parent 1:12 handle 12: pfifo limit 3"],
    );
    enqueue(&mut line, 0x1_0012, 10);
    tc(&line.stack, &["tc qdisc del dev d0 parent 1:12"]);
    assert_eq!(line.root().2.qlen, 0);
    // The class and the rest of the tree still work.
    enqueue(&mut line, 0x1_0011, 4);
    enqueue(&mut line, 0x1_0012, 4);
    line.run(&[]);
}

#[test]
fn deleting_a_class_under_traffic_drops_its_packets() {
    let mut line = Line::new(&HTB);
    enqueue(&mut line, 0x1_0012, 6);
    let (before, _) = enqueue(&mut line, 0x1_0011, 6);
    tc(&line.stack, &["tc class del dev d0 classid 1:11"]);
    let after = line.root().2.qlen;
    assert!(after > 0 && after < before);
    line.run(&[]);
    let left = line.left.len() as u32;
    assert_eq!(left, 12 - (before - after));
}

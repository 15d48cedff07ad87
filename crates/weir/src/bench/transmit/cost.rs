// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of enqueueing and dequeueing a packet in a qdisc, as counted by the qdisc stage of one
//! CPU.

use std::time::{Duration, Instant};

use weir_packet::Batch;
use weir_stack::datapath;
use weir_stack::stages::Stage;

use super::send::{Bed, build};
use crate::report::stages;

/// The way in which packets differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// By source address and hash.
    Flows,
    /// By the class in their priority.
    Classes,
}

/// Returns the `tc` commands of an htb with classes 1:1 to 1:`classes` under one parent.
pub fn htb(classes: u32) -> String {
    format!(
        "tc qdisc add dev d0 root handle 1: htb && {{ \
         echo class add dev d0 parent 1: classid 1:fffe htb rate 30gbit burst 10mb cburst 10mb; \
         for n in $(seq {classes}); do \
         printf 'class add dev d0 parent 1:fffe classid 1:%x htb rate 10mbit ceil 30gbit burst 10mb cburst 10mb quantum 1514\\n' $n; \
         done; }} | tc -b -"
    )
}

/// Returns nanoseconds per packet when `count` flows or classes send in turn.
pub fn of(root: &str, count: u32, spread: Spread, length: Duration) -> Result<f64, String> {
    let bed = Bed::new(root, 1)?;
    let mut cpu = bed.cpu(1);
    let mut cache = cpu.with(|cx| cx.stack.pool.cache());
    // A sequence that visits all and looks random, so that flows are not visited in the order of
    // memory.
    let (mut at, step) = (0u32, coprime(count));
    let mut send = |cpu: &mut weir_stack::Cpu| {
        let mut batch = Batch::new();
        cache.alloc_bulk(&mut batch, 64);
        for packet in batch.iter_mut() {
            at = (at + step) % count;
            build(packet, at, 0);
            match spread {
                Spread::Flows => packet.hash = at.wrapping_mul(0x9e37_79b1) | 1,
                Spread::Classes => packet.priority = 0x1_0001 + at,
            }
        }
        cpu.with(|cx| datapath::transmit(cx, &bed.device, batch));
        cpu.turn();
    };
    let warm = Instant::now();
    let mut sent = 0;
    while sent < count || warm.elapsed() < length / 4 {
        send(&mut cpu);
        sent += 64;
    }
    let before = stages::of(&cpu.state().stages);
    let (start, dropped) = (Instant::now(), bed.device.totals().tx_packets);
    let mut packets = 0u64;
    while start.elapsed() < length {
        for _ in 0..16 {
            send(&mut cpu);
            packets += 64;
        }
    }
    let left = bed.device.totals().tx_packets - dropped;
    if left * 2 < packets {
        return Err(format!("only {left} of {packets} packets left"));
    }
    let since = stages::of(&cpu.state().stages).since(&before);
    Ok(since.of(Stage::Qdisc).1 / packets as f64)
}

/// Returns a step that visits all of `count`, about 0.618 of it.
fn coprime(count: u32) -> u32 {
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let first = (f64::from(count) * 0.618) as u32 | 1;
    (first..).find(|&step| gcd(step, count) == 1).unwrap_or(1)
}

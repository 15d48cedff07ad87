// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames into the data path of a [`router`].
//!
//! The input is a sequence of frames, each preceded by its length in two bytes, little-endian. The
//! top bit of the length means that the frame arrives at `d1` instead of `d0`. The next bit means
//! that half a second passes before the frame arrives.
//!
//! Invariant: every packet is sent, delivered or dropped within a minute of the stack's time, so
//! that all frames are back in the pool.

use weir_packet::Batch;
use weir_stack::{Config, Cpu, Stack};

use crate::router;

/// Maximum number of frames used from one input.
const FRAMES: usize = 128;
const SECOND: u64 = 1_000_000_000;

/// Feeds the frames to a new router.
pub fn run(bytes: &[u8]) {
    let stack = weir_stack::build(Config {
        trace: true,
        ..Config::default()
    });
    router::set_up(&stack);
    let namespace = stack
        .namespace(Stack::INITIAL)
        .expect("a stack has an initial namespace");
    let ports = ["d0", "d1"].map(|name| namespace.device_by_name(name));
    let mut cpu = Cpu::new(&stack, 0);
    cpu.settle();
    for (head, frame) in frames(bytes).take(FRAMES) {
        if head & 0x4000 != 0 {
            cpu.run_until(Some(stack.clock.now() + SECOND / 2));
        }
        let Some(port) = &ports[usize::from(head >> 15)] else {
            continue;
        };
        let mut batch = Batch::new();
        if let Some(packet) = stack.pool.packet(frame) {
            batch.push(packet).expect("an empty batch has room");
        }
        cpu.with(|cx| cx.receive_later(port, batch));
        cpu.settle();
    }
    cpu.run_until(Some(stack.clock.now() + 60 * SECOND));
    // A CPU caches some free frames.
    drop(cpu);
    let stats = stack.pool.stats();
    assert_eq!(stats.frames, stats.frames_free, "leaked frames");
    assert_eq!(stats.jumbos, stats.jumbos_free, "leaked frames");
}

/// Iterates over the frames of an input, each with its two-byte length word; the last one may be
/// short.
fn frames(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, more) = rest.split_first_chunk()?;
        let head = u16::from_le_bytes(*head);
        let (frame, more) = more.split_at(usize::from(head & 0x3fff).min(more.len()));
        rest = more;
        Some((head, frame))
    })
}

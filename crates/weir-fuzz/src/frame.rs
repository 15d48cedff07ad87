// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames into the data path of a [`router`].
//!
//! The input is a row of frames, each behind its length in two bytes, little-endian; the top bit says
//! that it arrives at `d1` instead of `d0`, the next one that half a second passes first.
//!
//! What must hold: every packet comes to an end within a minute of the stack's time, so that all
//! frames are back in the pool.

use weir_packet::Batch;
use weir_stack::{Config, Cpu, Stack};

use crate::router;

/// Frames taken of one input.
const FRAMES: usize = 128;
const SECOND: u64 = 1_000_000_000;

/// Feeds the frames to a router of their own.
pub fn run(bytes: &[u8]) {
    let stack = Stack::new(Config {
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
    // A CPU keeps some free frames at hand.
    drop(cpu);
    let stats = stack.pool.stats();
    assert_eq!(
        stats.frames, stats.frames_free,
        "frames that never came back"
    );
    assert_eq!(
        stats.jumbos, stats.jumbos_free,
        "frames that never came back"
    );
}

/// The frames of an input, each with its two bytes; the last one may be short.
fn frames(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, more) = rest.split_first_chunk()?;
        let head = u16::from_le_bytes(*head);
        let (frame, more) = more.split_at(usize::from(head & 0x3fff).min(more.len()));
        rest = more;
        Some((head, frame))
    })
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames into the rings of a capture whose reader writes anything.
//!
//! Invariants: every frame is pushed or lost, and a reader that maps the rings anew after that finds
//! their shape unchanged and reads records or reports an error.

use std::fs::File;
use std::os::unix::fs::FileExt;

use weir_port::ring::{Consumer, Ends, MIN_RING, Meta, Pieces, Producer, What};

/// Maximum number of steps of one input.
const STEPS: usize = 2_000;

/// Runs the steps that `bytes` describe: four bytes each, and eight more for a word of the reader.
pub fn run(mut bytes: &[u8]) {
    let Ok((producer, Ends([rings, words, socket]))) = Producer::new(2, MIN_RING, 4096) else {
        return;
    };
    let Ok(words) = words.try_clone().map(|file| (file, words)) else {
        return;
    };
    let (file, frame) = (File::from(words.0), [0; 8192]);
    let mut pushed = 0;
    for _ in 0..STEPS {
        let Some(([what, cpu, low, high], rest)) = bytes.split_first_chunk() else {
            break;
        };
        bytes = rest;
        let (cpu, length) = (
            usize::from(*cpu % 3),
            usize::from(*low) + 256 * usize::from(*high),
        );
        match what % 4 {
            0 | 1 => {
                let meta = Meta {
                    time_ns: pushed,
                    device: length as u32,
                    what: What::Dropped(u16::from(*low), u16::from(*high)),
                };
                let frame = frame.get(..length % 8192).unwrap_or_default();
                producer.push(cpu, meta, Pieces([frame, &[], frame]));
                // There is no third CPU.
                pushed += u64::from(cpu < 2);
            }
            2 => producer.publish(cpu),
            _ => {
                let (word, rest) = bytes.split_first_chunk().unwrap_or((&[0xff; 8], &[]));
                bytes = rest;
                // The first words of the file: the sleeper and the tails.
                let at = 64 * (length as u64 % 3);
                assert!(file.write_all_at(word, at).is_ok(), "the reader's words");
            }
        }
    }
    let (frames, lost) = producer.counts();
    assert_eq!(frames + lost, pushed, "frames pushed and lost");
    producer.publish(0);
    producer.publish(1);
    let consumer = Consumer::new(Ends([rings, words.1, socket]));
    let mut consumer = consumer.expect("the shape of the rings is unchanged");
    // It begins at the start of the rings, which may be overwritten.
    let mut records = Vec::new();
    let _ = consumer.read(usize::MAX, &mut records);
    for record in records {
        assert!(
            record.data.len() <= record.original as usize,
            "a record longer than its frame"
        );
    }
}

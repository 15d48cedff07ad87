// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn meta(device: u32, time_ns: u64) -> Meta {
    Meta {
        time_ns,
        device,
        what: What::Received,
    }
}

/// Pushes a frame of one piece.
fn push(producer: &Producer, cpu: usize, meta: Meta, frame: &[u8]) -> bool {
    producer.push(cpu, meta, Pieces([frame, &[], &[]]))
}

/// Returns the frames that are there.
fn read(consumer: &mut Consumer) -> Vec<Record> {
    let mut records = Vec::new();
    while consumer.read(1000, &mut records).unwrap() {}
    records
}

#[test]
fn frames_arrive_in_order_with_what_is_known_of_them() {
    let (producer, ends) = Producer::new(2, MIN_RING, 10).unwrap();
    let mut consumer = Consumer::new(ends).unwrap();
    let sent = Meta {
        what: What::Sent,
        ..meta(7, 30)
    };
    let dropped = Meta {
        what: What::Dropped(15, 80),
        ..meta(u32::MAX, 20)
    };
    let pieces = Pieces([b"abcd", b"ef", b"ghijklmn"]);
    assert!(producer.push(0, meta(1, 10), pieces));
    assert!(producer.push(0, sent, Pieces([b"xyz", b"", b""])));
    assert!(producer.push(1, dropped, Pieces::default()));
    assert!(read(&mut consumer).is_empty(), "not published yet");
    producer.publish(0);
    producer.publish(1);
    let records = read(&mut consumer);
    let seen: Vec<_> = records
        .iter()
        .map(|one| (one.meta, &one.data[..], one.original))
        .collect();
    let expected: [(Meta, &[u8], u32); 3] = [
        (meta(1, 10), b"abcdefghij", 14),
        (dropped, b"", 0),
        (sent, b"xyz", 3),
    ];
    assert_eq!(seen, expected);
    assert_eq!((producer.counts(), consumer.counts()), ((3, 0), (3, 0)));
}

#[test]
fn a_full_ring_loses_frames_and_counts_them() {
    let (producer, ends) = Producer::new(1, MIN_RING, 1 << 20).unwrap();
    let mut consumer = Consumer::new(ends).unwrap();
    // The head and the frame fill 1/64 of the ring.
    let frame = [9; MIN_RING / 64 - HEADER];
    for round in 0..5 {
        for n in 0..70 {
            let fits = push(&producer, 0, meta(n % 2, 0), &frame);
            assert_eq!(fits, n < 64, "round {round}, frame {n}");
        }
        producer.publish(0);
        assert_eq!(read(&mut consumer).len(), 64);
    }
    assert_eq!(consumer.counts(), (320, 30));
    assert_eq!(
        consumer.lost().into_iter().collect::<Vec<_>>(),
        [(0, 15), (1, 15)]
    );
    // More devices than the table has room for: the sum stays exact.
    while push(&producer, 0, meta(0, 0), &frame) {}
    for device in 0..400 {
        push(&producer, 0, meta(device, 0), &frame);
    }
    assert_eq!(consumer.lost().len(), 256);
    assert_eq!(consumer.counts().1, 30 + 1 + 400);
    // A frame longer than the ring is cut.
    read(&mut consumer);
    producer.publish(0);
    read(&mut consumer);
    assert!(push(&producer, 0, meta(0, 0), &[1; 3 * MIN_RING]));
    producer.publish(0);
    let records = read(&mut consumer);
    assert_eq!(records[0].original, 3 * MIN_RING as u32);
    assert_eq!(records[0].data.len(), MIN_RING / 2 - HEADER);
}

#[test]
fn a_reader_cannot_write_the_rings() {
    let (_producer, Ends([rings, words, _socket])) = Producer::new(1, MIN_RING, 100).unwrap();
    assert!(memory::Map::new(&rings, PAGE, true).is_err());
    let rings = File::from(rings);
    assert!(rings.write_at(&[1], 0).is_err());
    assert!(rings.set_len(0).is_err() && rings.set_len(1 << 30).is_err());
    let words = File::from(words);
    assert!(words.set_len(0).is_err() && words.set_len(1 << 30).is_err());
    // The words are the reader's.
    assert!(words.write_at(&[1; 8], 64).is_ok());
}

#[test]
fn ends_that_are_no_ring_are_refused() {
    let (_producer, Ends([rings, words, socket])) = Producer::new(1, MIN_RING, 100).unwrap();
    let swapped = Ends([words, rings, socket]);
    assert!(Consumer::new(swapped).is_err());
    for (cpus, ring) in [
        (0, MIN_RING),
        (257, MIN_RING),
        (1, 4096),
        (1, 100_000),
        (1, 1 << 31),
    ] {
        assert!(Producer::new(cpus, ring, 100).is_err(), "{cpus} {ring}");
    }
}

#[test]
fn a_sleeping_reader_wakes_and_either_end_notices_the_other() {
    let (producer, ends) = Producer::new(1, MIN_RING, 100).unwrap();
    let mut consumer = Consumer::new(ends).unwrap();
    let long = Duration::from_secs(60);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut count = 0;
            while count < 100 {
                assert!(consumer.wait(long).unwrap());
                count += read(&mut consumer).len();
            }
            assert!(!consumer.wait(long).unwrap(), "the stack is gone");
        });
        for n in 0..100 {
            assert!(push(&producer, 0, meta(0, n), b"frame"));
            producer.publish(0);
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_millis(20));
        producer.finish();
        reader.join().unwrap();
    });
    assert!(start.elapsed() < long, "a wake-up was lost");
    let (producer, ends) = Producer::new(1, MIN_RING, 100).unwrap();
    assert!(!producer.wait_gone(Duration::ZERO));
    drop(ends);
    assert!(producer.wait_gone(long));
}

#[test]
fn a_reader_that_never_wakes_does_not_stop_the_stack() {
    let (producer, Ends([_rings, words, _socket])) = Producer::new(1, MIN_RING, 100).unwrap();
    let words = File::from(words);
    for n in 0..20_000_u64 {
        // It always claims to sleep and to have read everything, and never empties its socket.
        words.write_at(&1_u64.to_ne_bytes(), 0).unwrap();
        let tail = (n + 1) * (HEADER as u64 + 8);
        push(&producer, 0, meta(0, n), b"frame");
        words.write_at(&tail.to_ne_bytes(), 64).unwrap();
        producer.publish(0);
    }
    assert_eq!(producer.counts(), (20_000, 0));
}

#[test]
fn frames_of_two_threads_arrive_whole() {
    let (producer, ends) = Producer::new(2, MIN_RING, 1 << 16).unwrap();
    let mut consumer = Consumer::new(ends).unwrap();
    let each = 30_000_u64;
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            let producer = &producer;
            scope.spawn(move || {
                for n in 0..each {
                    let frame = vec![n as u8; (n % 1500) as usize];
                    push(producer, cpu, meta(cpu as u32, n), &frame);
                    if n % 32 == 31 {
                        producer.publish(cpu);
                    }
                }
                producer.publish(cpu);
            });
        }
        let (mut count, mut next) = (0, [0; 2]);
        loop {
            let mut records = Vec::new();
            consumer.read(256, &mut records).unwrap();
            for one in records {
                let cpu = one.meta.device as usize;
                assert!(one.meta.time_ns >= next[cpu], "out of order");
                next[cpu] = one.meta.time_ns + 1;
                assert_eq!(one.data.len() as u64, one.meta.time_ns % 1500);
                assert!(one.data.iter().all(|byte| *byte == one.meta.time_ns as u8));
                count += 1;
            }
            let (frames, lost) = consumer.counts();
            if count == frames && frames + lost == 2 * each {
                break;
            }
        }
    });
}

proptest! {
    /// Whatever a reader writes, the stack goes on, and every frame is counted once.
    #[test]
    fn a_hostile_reader_loses_only_its_own_frames(
        steps in prop::collection::vec((0..9u8, any::<u64>(), 0..5_000usize), 1..200),
    ) {
        let (producer, Ends([_rings, words, _socket])) = Producer::new(2, MIN_RING, 4096).unwrap();
        let words = File::from(words);
        let write = |at, value: u64| words.write_all_at(&value.to_ne_bytes(), at).unwrap();
        let mut pushed = 0;
        for (what, value, length) in steps {
            let cpu = length % 2;
            match what {
                0..=4 => {
                    push(&producer, cpu, meta(value as u32, 0), &vec![0; length]);
                    pushed += 1;
                }
                5 => producer.publish(cpu),
                6 => write(64 + 64 * cpu as u64, value),
                7 => write(64 + 64 * cpu as u64, value % 200_000),
                _ => write(0, value),
            }
        }
        let (frames, lost) = producer.counts();
        prop_assert_eq!(frames + lost, pushed);
    }
}

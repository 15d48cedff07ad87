// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that written files read back the same, and that files of other programs are understood.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use common::{Blocks, CLASSIC, NEXT, gzipped, read, read_whole, samples, written};
use proptest::prelude::*;
use weir_port::pcap::{Format, Reader, Writer};
use weir_port::{Direction, Frame, Sink, Source};

#[test]
fn pcapng_keeps_everything() {
    let file = written(NEXT, &["lan0", "edge/wan0"], &samples());
    assert_eq!(read_whole(&file), samples());
    let mut reader = Reader::new("test", std::io::Cursor::new(file)).unwrap();
    let mut frame = Frame::default();
    while reader.read(&mut frame).unwrap() {}
    let names: Vec<_> = reader
        .interfaces()
        .iter()
        .map(|i| i.name.as_deref())
        .collect();
    assert_eq!(names, [Some("lan0"), Some("edge/wan0")]);
    assert_eq!(reader.frames(), 5);
}

#[test]
fn pcap_keeps_bytes_and_nanoseconds() {
    let expected: Vec<_> = samples()
        .into_iter()
        .map(|frame| Frame {
            interface: 0,
            direction: Direction::Unknown,
            comment: None,
            ..frame
        })
        .collect();
    assert_eq!(read_whole(&written(CLASSIC, &[], &samples())), expected);
}

#[test]
fn gzip_is_recognised_by_its_first_bytes() {
    for format in [CLASSIC, NEXT] {
        let plain = written(format, &["a", "b"], &samples());
        let packed = written(
            Format {
                gzip: true,
                ..format
            },
            &["a", "b"],
            &samples(),
        );
        assert_eq!(packed[..2], [0x1f, 0x8b]);
        assert_eq!(read_whole(&packed), read_whole(&plain));
        // Several gzip members, as `cat a.gz b.gz` produces.
        let (head, tail) = plain.split_at(plain.len() / 2);
        assert_eq!(
            read_whole(&[gzipped(head), gzipped(tail)].concat()),
            read_whole(&plain)
        );
    }
}

#[test]
fn same_frames_give_same_bytes() {
    for format in [CLASSIC, NEXT, Format { gzip: true, ..NEXT }] {
        let devices = ["lan0", "wan0"];
        let once = written(format, &devices, &samples());
        assert_eq!(once, written(format, &devices, &samples()));
        // The fields for the time and the operating system in the gzip header must be empty.
        assert!(!format.gzip || once[3..10] == [0, 0, 0, 0, 0, 0, 0xff]);
    }
}

#[test]
fn pcap_of_either_order_and_unit() {
    for (magic, unit) in [(0xa1b2_c3d4_u32, 1_000), (0xa1b2_3c4d, 1)] {
        for big in [false, true] {
            let words = [magic, 0, 0, 0, 65_535, 1, 1_700_000_000, 999_999, 3, 64].map(|word| {
                if big {
                    word.to_be_bytes()
                } else {
                    word.to_le_bytes()
                }
            });
            let mut file = words.concat();
            file[4..8].copy_from_slice(if big { &[0, 2, 0, 4] } else { &[2, 0, 4, 0] });
            file.extend_from_slice(&[7, 8, 9]);
            let frames = read_whole(&file);
            assert_eq!(frames.len(), 1);
            assert_eq!(
                frames[0].time_ns,
                1_700_000_000_000_000_000 + 999_999 * unit
            );
            assert_eq!(
                (frames[0].orig_len, &frames[0].data[..]),
                (64, &[7, 8, 9][..])
            );
        }
    }
}

#[test]
fn pcap_with_check_sequences() {
    let mut file = written(CLASSIC, &[], &[Frame::new(1, vec![5; 64])]);
    // A frame check sequence is present: two units of two bytes.
    file[20..24].copy_from_slice(&0x2400_0001_u32.to_le_bytes());
    let frames = read_whole(&file);
    assert_eq!((frames[0].orig_len, frames[0].data.len()), (60, 60));
}

#[test]
fn other_link_types_are_refused_by_name() {
    let mut file = written(CLASSIC, &[], &samples());
    file[20] = 101;
    let error = read(&file).1.unwrap();
    assert_eq!(
        error.to_string(),
        "test: offset 20: link type 101 (RAW) is not supported, only Ethernet is"
    );
    // In pcapng, an unused interface is no obstacle.
    let mut blocks = Blocks::new(false);
    blocks
        .interface(1, 0, &[])
        .interface(113, 0, &[])
        .packet(0, 5, &[1; 20]);
    assert_eq!(read_whole(&blocks.bytes).len(), 1);
    let offset = blocks.bytes.len();
    blocks.packet(1, 5, &[1; 20]);
    let (frames, error) = read(&blocks.bytes);
    assert_eq!(frames.len(), 1);
    assert_eq!(
        error.unwrap().to_string(),
        format!(
            "test: offset {offset}: link type 113 (LINUX_SLL) is not supported, only Ethernet is \
             (the 1 frame before it is kept)"
        )
    );
}

#[test]
fn pcapng_with_sections_interfaces_and_unknown_blocks() {
    for big in [false, true] {
        let mut blocks = Blocks::new(big);
        let options = [
            blocks.option(2, b"eth0"),
            blocks.option(9, &[3]),
            blocks.option(
                14,
                &if big {
                    100_i64.to_be_bytes()
                } else {
                    100_i64.to_le_bytes()
                },
            ),
            blocks.option(0, &[]),
        ];
        let length = blocks.u32(6);
        blocks
            .interface(1, 0, &options)
            .block(0x0bad_cafe, &[b"what is this"])
            .packet(0, 1_500, &[1; 61])
            .interface(1, 5, &[])
            .block(5, &[&[0; 12]])
            .packet(1, 2_000_000, &[2; 14])
            .block(3, &[&length, b"simple"]);
        // A second section of the other byte order, whose interfaces count from 0 again.
        blocks.big = !big;
        let check = [blocks.option(13, &[4]), blocks.option(9, &[0x8a])];
        blocks
            .section()
            .interface(1, 0, &check)
            .packet(0, 2_048, &[3; 64]);
        let frames = read_whole(&blocks.bytes);
        let seen: Vec<_> = frames
            .iter()
            .map(|f| (f.interface, f.time_ns, f.orig_len, f.data.len()))
            .collect();
        assert_eq!(
            seen,
            [
                (0, 101_500_000_000, 61, 61),
                (1, 2_000_000_000, 14, 14),
                (0, 2_000_000_000, 6, 6),
                (2, 2_000_000_000, 60, 60),
            ]
        );
    }
}

#[test]
fn the_obsolete_packet_block_is_read() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 0, &[]);
    let words = [7_u32 << 16, 0, 9, 4, 80]
        .map(|word| blocks.u32(word))
        .concat();
    let options = blocks.option(2, &blocks.u32(2));
    blocks.block(2, &[&words, &[1, 2, 3, 4], &options]);
    let frames = read_whole(&blocks.bytes);
    assert_eq!(frames[0].time_ns, 9_000);
    assert_eq!(
        (frames[0].orig_len, frames[0].direction),
        (80, Direction::Out)
    );
}

#[test]
fn a_simple_packet_is_cut_at_the_snapshot_length() {
    let mut blocks = Blocks::new(true);
    blocks.interface(1, 5, &[]);
    let length = blocks.u32(1_500);
    blocks.block(3, &[&length, b"12345"]);
    let frames = read_whole(&blocks.bytes);
    assert_eq!(
        (frames[0].orig_len, &frames[0].data[..]),
        (1_500, &b"12345"[..])
    );
}

#[test]
fn stamps_of_every_resolution() {
    let times = |resolution: u8, stamp: u64| {
        let mut blocks = Blocks::new(false);
        let option = blocks.option(9, &[resolution]);
        blocks.interface(1, 0, &[option]).packet(0, stamp, &[0; 14]);
        let (frames, error) = read(&blocks.bytes);
        frames
            .first()
            .map(|frame| frame.time_ns)
            .ok_or_else(|| error.unwrap().to_string())
    };
    assert_eq!(times(0, 18), Ok(18_000_000_000));
    assert_eq!(times(9, u64::MAX), Ok(u64::MAX));
    assert_eq!(times(12, 1_999), Ok(1));
    assert_eq!(times(127, u64::MAX), Ok(0));
    assert_eq!(times(0x80, 3), Ok(3_000_000_000));
    assert_eq!(times(0x81, 3), Ok(1_500_000_000));
    assert_eq!(times(0xff, u64::MAX), Ok(0));
    assert_eq!(
        times(6, u64::MAX).unwrap_err(),
        "test: offset 68: time stamp 18446744073709551615 does not fit 64 bits of nanoseconds \
         since 1970"
    );
}

#[test]
fn long_comments_are_cut_between_characters() {
    let frame = Frame {
        comment: Some("ü".repeat(40_000)),
        ..Frame::new(0, vec![0; 14])
    };
    let frames = read_whole(&written(NEXT, &["a"], &[frame]));
    assert_eq!(frames[0].comment.as_deref(), Some(&*"ü".repeat(32_767)));
}

#[test]
fn devices_may_be_announced_late() {
    let shared = common::Shared::default();
    let mut writer = Writer::new("test", NEXT, shared.clone()).unwrap();
    assert_eq!(writer.interface("a").unwrap(), 0);
    writer.write(&Frame::new(1, vec![0; 14])).unwrap();
    let late = Frame {
        interface: 1,
        ..Frame::new(2, vec![0; 14])
    };
    let error = writer.write(&late).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test: a frame of interface 1, which was not announced"
    );
    assert_eq!(writer.interface("b").unwrap(), 1);
    writer.write(&late).unwrap();
    // A live reader sees it now.
    writer.flush().unwrap();
    assert_eq!(read_whole(&shared.bytes()).len(), 2);
    let summary = writer.finish().unwrap();
    assert_eq!((summary.frames, summary.bytes, summary.lost), (2, 28, 1));
}

#[test]
fn the_shipped_captures_are_intact() {
    for (name, device) in [("lan", "lan0"), ("wan", "wan0")] {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge-router/");
        let mut reader = Reader::open(&format!("{example}{name}.pcapng.gz")).unwrap();
        let (mut frame, mut before) = (Frame::default(), 0);
        while reader.read(&mut frame).unwrap() {
            assert!(frame.is_complete() && frame.data.len() <= 1_518);
            assert_eq!(frame.direction, Direction::In);
            assert!(frame.time_ns >= before);
            before = frame.time_ns;
        }
        assert!(reader.frames() > 500);
        assert_eq!(reader.interfaces()[0].name.as_deref(), Some(device));
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    (
        any::<u64>(),
        prop::collection::vec(any::<u8>(), 0..200),
        0..2_000_u32,
        0..3_u32,
        prop::option::of(".{0,40}"),
        prop::sample::select(&[Direction::Unknown, Direction::In, Direction::Out][..]),
    )
        .prop_map(
            |(time_ns, data, more, interface, comment, direction)| Frame {
                time_ns,
                orig_len: data.len() as u32 + more,
                data,
                interface,
                direction,
                comment,
            },
        )
}

proptest! {
    #[test]
    fn any_frames_read_back(frames in prop::collection::vec(frame(), 0..20), gzip: bool) {
        let file = written(Format { gzip, ..NEXT }, &["a", "b", "c"], &frames);
        prop_assert_eq!(read_whole(&file), frames);
    }
}

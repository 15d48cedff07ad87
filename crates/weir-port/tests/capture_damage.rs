// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of damaged, truncated and malicious files, and of outputs that fail.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use common::{Blocks, CLASSIC, NEXT, gzipped, read, read_whole, samples, written};
use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_port::pcap::{Format, Reader, Writer};
use weir_port::{Frame, Sink, Source};

/// Returns the end of each frame in `file`.
fn ends(file: &[u8]) -> Vec<u64> {
    let mut reader = Reader::new("test", std::io::Cursor::new(file.to_vec())).unwrap();
    let mut frame = Frame::default();
    let mut ends = Vec::new();
    while reader.read(&mut frame).unwrap() {
        ends.push(reader.offset());
    }
    ends
}

#[test]
fn truncated_anywhere() {
    for format in [CLASSIC, NEXT] {
        let file = written(format, &["a", "b"], &samples());
        let whole = read_whole(&file);
        let ends = ends(&file);
        // A file may end between two records or blocks. For pcapng, the block lengths give these
        // positions.
        let mut borders = vec![24];
        if !format.classic {
            borders.clear();
            let mut at = 0;
            while at < file.len() {
                at += u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap()) as usize;
                borders.push(at);
            }
        }
        borders.extend(ends.iter().map(|end| *end as usize));
        for cut in 0..file.len() {
            let (frames, error) = read(&file[..cut]);
            let kept = ends.iter().filter(|end| **end <= cut as u64).count();
            assert_eq!(frames, whole[..kept], "cut at {cut}");
            match error {
                None => assert!(borders.contains(&cut), "cut at {cut} unnoticed"),
                Some(error) => {
                    assert!(!borders.contains(&cut), "{error}");
                    let offset = error.offset.expect("an offset");
                    assert!(offset <= cut as u64, "{error}");
                    if cut > 4 {
                        let text = error.to_string();
                        assert!(text.contains(" is truncated: "), "{text}");
                        assert_eq!(error.frames.unwrap_or(0), kept as u64);
                    }
                }
            }
        }
    }
}

#[test]
fn gzip_truncated_anywhere() {
    let packed = gzipped(&written(NEXT, &["a", "b"], &samples()));
    for cut in 3..packed.len() {
        let (frames, error) = read(&packed[..cut]);
        assert_eq!(frames, samples()[..frames.len()]);
        let error = error.unwrap().to_string();
        assert!(
            error.contains("the gzip stream is truncated"),
            "cut at {cut}: {error}"
        );
    }
}

#[test]
fn gzip_with_a_wrong_checksum_or_trailing_garbage() {
    let mut packed = gzipped(&written(NEXT, &["a", "b"], &samples()));
    packed.extend_from_slice(b"garbage after the last member");
    let (frames, error) = read(&packed);
    assert_eq!(frames, samples());
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("the gzip stream is corrupt")
    );
    packed.truncate(packed.len() - b"garbage after the last member".len());
    let checksum = packed.len() - 8;
    packed[checksum] ^= 1;
    let (frames, error) = read(&packed);
    assert_eq!(frames, samples());
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("the gzip stream is corrupt")
    );
}

#[test]
fn errors_report_offset_and_cause() {
    let message = |bytes: &[u8]| read(bytes).1.unwrap().to_string();
    assert_eq!(message(b""), "test: offset 0: is empty, not a capture file");
    assert_eq!(
        message(b"#!/bin/sh"),
        "test: offset 0: is neither pcap nor pcapng: it begins with 23 21 2f 62"
    );
    assert_eq!(
        message(b"ab"),
        "test: offset 0: the first word is truncated: 2 of 4 bytes are present"
    );
    assert_eq!(
        message(&[0x28, 0xb5, 0x2f, 0xfd, 0]),
        "test: is compressed with zstd; only gzip is supported"
    );

    let file = written(CLASSIC, &[], &samples());
    let mut broken = file.clone();
    broken[4] = 3;
    assert_eq!(
        message(&broken),
        "test: offset 4: pcap version 3.4 is not supported, only 2 is"
    );
    let mut broken = file.clone();
    // The captured length of the second record; the first record takes 16 + 60 bytes.
    broken[24 + 76 + 8..24 + 76 + 12].copy_from_slice(&1_000_000_u32.to_le_bytes());
    assert_eq!(
        message(&broken),
        "test: offset 108: the record claims 1000000 bytes, more than 262144 \
         (the 1 frame before it is kept)"
    );
    assert_eq!(
        message(&file[..24 + 76 + 16 + 10]),
        "test: offset 116: the frame is truncated: 10 of 61 bytes are present \
         (the 1 frame before it is kept)"
    );

    let mut blocks = Blocks::new(false);
    blocks.packet(3, 0, &[0; 14]);
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 36: interface 3 is not described; the section describes 0"
    );
    let mut blocks = Blocks::new(false);
    blocks.block(1, &[&[1, 0, 0, 0]]);
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 36: interface description of 16 bytes has no room for its header: 8 bytes, \
         4 left"
    );
    let mut blocks = Blocks::new(false);
    blocks.block(99, &[&[1, 0, 0, 0]]);
    blocks.bytes[32] = 8;
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 32: block length 8 is too short"
    );
    blocks.bytes[32] = 17;
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 32: block length 17 is not a multiple of 4"
    );
    blocks.bytes[32] = 16;
    blocks.bytes[40] = 20;
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 40: block ends with length 20, but it began with 16"
    );
    let mut blocks = Blocks::new(true);
    blocks.bytes[8] = 0;
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 8: 002b3c4d is not a byte-order magic"
    );
    let mut blocks = Blocks::new(true);
    blocks.bytes[13] = 2;
    assert_eq!(
        message(&blocks.bytes),
        "test: offset 12: pcapng version 2.0 is not supported, only 1 is"
    );
}

#[test]
fn a_huge_block_length_needs_no_memory() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 0, &[]).packet(0, 0, &[0; 14]);
    let start = blocks.bytes.len();
    blocks.block(0x0bad_cafe, &[&[0; 64]]);
    blocks.bytes[start + 4..start + 8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    let (frames, error) = read(&blocks.bytes);
    assert_eq!(frames.len(), 1);
    let error = error.unwrap().to_string();
    assert!(
        error.contains("block is truncated: 68 of 4294967280 bytes are present"),
        "{error}"
    );
}

#[test]
fn missing_and_forbidden_files() {
    let error = Reader::open("/nonexistent/a.pcap").unwrap_err().to_string();
    assert!(
        error.starts_with("/nonexistent/a.pcap: cannot be opened: No such file"),
        "{error}"
    );
    let error = Reader::open("/").unwrap_err().to_string();
    assert!(
        error.starts_with("/: cannot be read: Is a directory"),
        "{error}"
    );
    let error = Writer::create("/nonexistent/a.pcap")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nonexistent/a.pcap: cannot be created: No such file"),
        "{error}"
    );
}

#[test]
fn a_full_disk_is_reported_once() {
    for format in [CLASSIC, NEXT, Format { gzip: true, ..NEXT }] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut writer = Writer::new("/dev/full", format, full).unwrap();
        writer.interface("lan0").unwrap();
        let mut errors = Vec::new();
        let mut noise = 1_u32;
        for n in 0..1_000 {
            // Random data, so that compression does not hide the failure.
            let data = std::iter::repeat_with(|| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            });
            if let Err(error) = writer.write(&Frame::new(n, data.take(1_500).collect())) {
                errors.push((n, error.to_string()));
            }
        }
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(
            errors[0].1,
            "/dev/full: cannot be written: No space left on device (os error 28)"
        );
        writer.flush().unwrap();
        let summary = writer.finish().unwrap();
        assert_eq!(summary.frames, errors[0].0);
        assert_eq!(summary.frames + summary.lost, 1_000);
    }
}

#[test]
fn a_full_disk_is_reported_at_the_end_of_a_short_file() {
    for format in [CLASSIC, NEXT, Format { gzip: true, ..NEXT }] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut writer = Writer::new("/dev/full", format, full).unwrap();
        writer.interface("lan0").unwrap();
        writer.write(&Frame::new(0, vec![0; 60])).unwrap();
        assert!(
            writer
                .finish()
                .unwrap_err()
                .to_string()
                .contains("No space left on device")
        );
        assert!(writer.finish().is_ok());
    }
}

#[test]
fn a_closed_pipe_is_distinguished() {
    let (reader, pipe) = std::io::pipe().unwrap();
    drop(reader);
    let mut writer = Writer::new("-", NEXT, pipe).unwrap();
    writer.interface("lan0").unwrap();
    assert!(writer.flush().unwrap_err().is_broken_pipe());
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(2000)))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn intact_files_with_changed_bytes(
        format in prop::sample::select(&[CLASSIC, NEXT, Format { gzip: true, ..NEXT }][..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = written(format, &["a", "b"], &samples());
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        let (frames, error) = read(&file);
        prop_assert!(frames.iter().all(|frame| frame.data.len() <= frame.orig_len as usize));
        if let Some(error) = error {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn blocks_of_any_content(
        big: bool,
        kinds in prop::collection::vec(
            (0..8_u32, prop::collection::vec(any::<u8>(), 0..60)), 0..8),
    ) {
        let mut blocks = Blocks::new(big);
        blocks.interface(1, 0, &[]);
        for (kind, body) in &kinds {
            blocks.block(*kind, &[body]);
        }
        read(&blocks.bytes);
    }
}

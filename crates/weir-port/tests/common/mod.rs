// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers shared by the tests of capture files.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use weir_port::pcap::{Format, Reader, Writer};
use weir_port::{Direction, Error, Frame, Sink};

pub const CLASSIC: Format = Format {
    classic: true,
    gzip: false,
};
pub const NEXT: Format = Format {
    classic: false,
    gzip: false,
};

/// An output that can be read back.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

/// Returns a file with `frames`, which belong to `devices`.
pub fn written(format: Format, devices: &[&str], frames: &[Frame]) -> Vec<u8> {
    let shared = Shared::default();
    let mut writer = Writer::new("test", format, shared.clone()).unwrap();
    for device in devices {
        writer.interface(device).unwrap();
    }
    for frame in frames {
        writer.write(frame).unwrap();
    }
    assert_eq!(writer.finish().unwrap().frames, frames.len() as u64);
    shared.bytes()
}

/// Returns all frames of `file`, and the error that ended it.
pub fn read(file: &[u8]) -> (Vec<Frame>, Option<Error>) {
    let mut frames = Vec::new();
    match Reader::new("test", io::Cursor::new(file.to_vec())) {
        Err(error) => (frames, Some(error)),
        Ok(reader) => {
            for frame in reader {
                match frame {
                    Ok(frame) => frames.push(frame),
                    Err(error) => return (frames, Some(error)),
                }
            }
            (frames, None)
        }
    }
}

/// Returns all frames of a file that must be intact.
#[track_caller]
pub fn read_whole(file: &[u8]) -> Vec<Frame> {
    let (frames, error) = read(file);
    assert!(error.is_none(), "{}", error.unwrap());
    frames
}

/// Returns a few different frames of two devices.
pub fn samples() -> Vec<Frame> {
    let mut frames = Vec::new();
    for n in 0..5_u32 {
        frames.push(Frame {
            time_ns: 1_700_000_000_000_000_000 + u64::from(n) * 1_234_567_891,
            orig_len: 60 + n * 10,
            data: (0..60 + n as u8).collect(),
            interface: n % 2,
            direction: [Direction::Unknown, Direction::In, Direction::Out][n as usize % 3],
            comment: (n % 2 == 1).then(|| format!("flower hit {n}\nsecond line ü")),
        });
    }
    frames
}

/// Returns `bytes` compressed with gzip.
pub fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds a pcapng file in either byte order by hand.
pub struct Blocks {
    pub bytes: Vec<u8>,
    pub big: bool,
}

impl Blocks {
    pub fn new(big: bool) -> Blocks {
        let mut blocks = Blocks {
            bytes: Vec::new(),
            big,
        };
        blocks.section();
        blocks
    }

    pub fn u16(&self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    pub fn u32(&self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    pub fn block(&mut self, kind: u32, parts: &[&[u8]]) -> &mut Blocks {
        let mut body = parts.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = self.u32(body.len() as u32 + 12);
        self.bytes.extend_from_slice(&self.u32(kind));
        self.bytes.extend_from_slice(&total);
        self.bytes.extend_from_slice(&body);
        self.bytes.extend_from_slice(&total);
        self
    }

    pub fn section(&mut self) -> &mut Blocks {
        let (magic, major, minor) = (self.u32(0x1a2b_3c4d), self.u16(1), self.u16(0));
        self.block(0x0a0d_0d0a, &[&magic, &major, &minor, &[0xff; 8]])
    }

    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.u16(code), self.u16(value.len() as u16)].concat();
        option.extend_from_slice(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    pub fn interface(&mut self, link: u16, snapshot_len: u32, options: &[Vec<u8>]) -> &mut Blocks {
        let (link, snapshot_len) = (self.u16(link), self.u32(snapshot_len));
        self.block(1, &[&link, &[0, 0], &snapshot_len, &options.concat()])
    }

    pub fn packet(&mut self, interface: u32, stamp: u64, data: &[u8]) -> &mut Blocks {
        let words = [
            interface,
            (stamp >> 32) as u32,
            stamp as u32,
            data.len() as u32,
        ];
        let mut header = words.map(|word| self.u32(word)).concat();
        header.extend_from_slice(&self.u32(data.len() as u32));
        self.block(6, &[&header, data])
    }
}

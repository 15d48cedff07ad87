// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of a capture file into the reader.
//!
//! Invariants: every frame the reader yields before it ends or gives up fits the limits, and
//! writing the frames as pcapng and reading them again yields the same frames.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use weir_port::pcap::{Format, MAX_CAPTURED, Reader, Writer};
use weir_port::{Frame, Sink};

/// Maximum number of frames used from one input: a small gzip file may hold millions of them.
const FRAMES: usize = 1_000;
/// Maximum number of bytes of frames used from one input.
const BYTES: usize = 1 << 20;

/// Reads `bytes` as a capture file, writes the frames and reads them again.
pub fn run(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new("fuzz", Cursor::new(bytes.to_vec())) else {
        return;
    };
    let (mut frames, mut total) = (Vec::new(), 0);
    while let Some(Ok(frame)) = reader.next() {
        assert!(
            frame.data.len() <= MAX_CAPTURED as usize,
            "a frame over the limit"
        );
        let interface = usize::try_from(frame.interface).expect("32 bits fit a usize");
        assert!(
            interface < reader.interfaces().len(),
            "a frame of an interface not described"
        );
        total += frame.data.len();
        frames.push(frame);
        if frames.len() == FRAMES || total > BYTES {
            break;
        }
    }
    let again = read(&written(&frames, reader.interfaces().len()));
    assert_eq!(frames, again, "written and read again");
}

/// A writer whose output can be read afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn with<R>(&self, work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        work(
            &mut self
                .0
                .lock()
                .expect("no writer panics while it holds the bytes"),
        )
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|all| all.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(frames: &[Frame], interfaces: usize) -> Vec<u8> {
    let shared = Shared::default();
    let format = Format {
        classic: false,
        gzip: false,
    };
    let mut writer =
        Writer::new("fuzz", format, shared.clone()).expect("writing to memory cannot fail");
    for index in 0..interfaces {
        writer
            .interface(&format!("if{index}"))
            .expect("writing to memory cannot fail");
    }
    for frame in frames {
        writer
            .write(frame)
            .expect("a frame that was read can be written");
    }
    writer.finish().expect("writing to memory cannot fail");
    shared.with(std::mem::take)
}

fn read(bytes: &[u8]) -> Vec<Frame> {
    Reader::new("fuzz", Cursor::new(bytes.to_vec()))
        .expect("the written file has a header")
        .map(|frame| frame.expect("the written file is valid"))
        .collect()
}

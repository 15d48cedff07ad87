// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The writer of capture files.
//!
//! A pcapng file has a section header, an interface description with name and nanosecond stamps for
//! each device, and an enhanced packet block with direction and comment for each frame. A pcap file
//! has nanosecond stamps; interfaces, directions and comments are omitted because the format cannot
//! hold them. Its header has the link type of the first interface, and an interface of another one is
//! refused. Both are always little-endian, so every machine writes the same bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::{fmt, mem};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{ETHERNET, MAGIC_NANOS, MAX_CAPTURED, SECTION_HEADER, SECTION_ORDER};
use crate::{Direction, Error, Frame, Result, Sink, Summary};

const BUFFER: usize = 64 * 1024;

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// True for the classic format, false for pcapng.
    pub classic: bool,
    /// True if the file is compressed with gzip.
    pub gzip: bool,
}

impl Format {
    /// Returns the format for a file name: `.pcap` gives the classic format, anything else pcapng.
    /// A `.gz` suffix adds compression; `-` is uncompressed pcapng.
    pub fn of(name: &str) -> Format {
        let (stem, gzip) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        Format {
            classic: stem.ends_with(".pcap"),
            gzip,
        }
    }
}

/// Writes frames to a capture file. The module documentation describes the content.
pub struct Writer {
    output: Output,
    file: String,
    format: Format,
    interfaces: u32,
    /// The most bytes of a frame that interfaces are described with; 0 for no limit.
    snaplen: u32,
    block: Vec<u8>,
    /// The link type in the header of a classic file, which is written with the first interface.
    link_type: Option<u16>,
    summary: Summary,
    state: State,
}

enum Output {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write + Send>>>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A write failed and the error was returned.
    Failed,
    Finished,
}

impl Writer {
    /// Creates or truncates the file `name`; `-` is standard output. The name selects the
    /// [`Format`].
    pub fn create(name: &str) -> Result<Writer> {
        let format = Format::of(name);
        if name == "-" {
            let file = "standard output";
            // Does not use `std::io::stdout`, which flushes at every newline byte and treats a
            // closed descriptor as success.
            let output = io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|cause| Error::io(file, "cannot be opened", cause))?;
            return Writer::new(file, format, File::from(output));
        }
        let output =
            File::create(name).map_err(|cause| Error::io(name, "cannot be created", cause))?;
        Writer::new(name, format, output)
    }

    /// Writes to `output`, named `name` in errors.
    pub fn new(name: &str, format: Format, output: impl Write + Send + 'static) -> Result<Writer> {
        let output = BufWriter::with_capacity(BUFFER, Box::new(output) as Box<dyn Write + Send>);
        let mut writer = Writer {
            output: match format.gzip {
                false => Output::Plain(output),
                true => Output::Gzip(GzEncoder::new(output, Compression::default())),
            },
            file: name.to_owned(),
            format,
            interfaces: 0,
            snaplen: 0,
            block: Vec::new(),
            link_type: None,
            summary: Summary::default(),
            state: State::Open,
        };
        if !format.classic {
            block(&mut writer.block, SECTION_HEADER, |body| {
                word(body, SECTION_ORDER);
                half(body, 1);
                half(body, 0);
                // The section's length is not known in advance.
                body.extend_from_slice(&[0xff; 8]);
                option(body, 4, b"weir");
                word(body, 0);
            });
            writer.put()?;
        }
        Ok(writer)
    }

    /// Announces a device with frames of a link type (`LINKTYPE_*`), as [`Sink::interface`] does one of Ethernet.
    pub fn interface_of(&mut self, name: &str, link_type: u16) -> Result<u32> {
        let number = self.interfaces;
        self.interfaces += 1;
        if self.state != State::Open {
            return Ok(number);
        }
        if self.format.classic {
            self.header(link_type)?;
            if self.link_type != Some(link_type) {
                let what = format!("{name} has another link type: a pcapng file can hold both");
                return Err(Error::new(&self.file, what));
            }
            return Ok(number);
        }
        let snaplen = self.snaplen;
        block(&mut self.block, 1, |body| {
            half(body, link_type);
            half(body, 0);
            word(body, snaplen);
            option(body, 2, name.as_bytes());
            option(body, 9, &[9]);
            word(body, 0);
        });
        self.put()?;
        Ok(number)
    }

    /// Writes the header of a classic file, once.
    fn header(&mut self, link_type: u16) -> Result<()> {
        if !self.format.classic || self.link_type.is_some() {
            return Ok(());
        }
        self.link_type = Some(link_type);
        let header = &mut self.block;
        word(header, MAGIC_NANOS);
        half(header, 2);
        half(header, 4);
        word(header, 0);
        word(header, 0);
        word(header, MAX_CAPTURED);
        word(header, u32::from(link_type));
        self.put()
    }

    /// Returns the name in error messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Sets the most bytes of a frame that interfaces announced from now on are described with; 0
    /// for no limit. It does not cut frames.
    pub fn set_snaplen(&mut self, snaplen: u32) {
        self.snaplen = snaplen;
    }

    /// Writes the statistics of an interface at a time in nanoseconds: the frames captured, and
    /// those lost for want of room. The classic format has no place for them.
    pub fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        (captured, lost): (u64, u64),
    ) -> Result<()> {
        if self.state != State::Open || self.format.classic {
            return Ok(());
        }
        block(&mut self.block, 5, |body| {
            word(body, interface);
            word(body, (time_ns >> 32) as u32);
            word(body, time_ns as u32);
            // isb_ifrecv, isb_ifdrop, isb_usrdeliv
            for (code, value) in [(4, captured + lost), (5, lost), (8, captured)] {
                option(body, code, &value.to_le_bytes());
            }
            word(body, 0);
        });
        self.put()
    }

    /// Returns what has been written so far.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Writes the assembled block.
    fn put(&mut self) -> Result<()> {
        let block = mem::take(&mut self.block);
        let done = match &mut self.output {
            Output::Plain(output) => output.write_all(&block),
            Output::Gzip(output) => output.write_all(&block),
        };
        self.block = block;
        self.block.clear();
        self.check(done)
    }

    /// Converts the first failure to an error and records it.
    fn check(&mut self, done: io::Result<()>) -> Result<()> {
        done.map_err(|cause| {
            self.state = State::Failed;
            Error::io(&self.file, "cannot be written", cause)
        })
    }
}

impl Sink for Writer {
    fn interface(&mut self, name: &str) -> Result<u32> {
        self.interface_of(name, ETHERNET)
    }

    fn write(&mut self, frame: &Frame) -> Result<()> {
        if self.state != State::Open {
            self.summary.lost += 1;
            return Ok(());
        }
        if frame.interface >= self.interfaces && !self.format.classic {
            self.summary.lost += 1;
            let what = format!(
                "a frame of interface {}, which was not announced",
                frame.interface
            );
            return Err(Error::new(&self.file, what));
        }
        self.header(ETHERNET)?;
        let data = &frame.data[..frame.data.len().min(MAX_CAPTURED as usize)];
        // At most `MAX_CAPTURED`.
        let captured = data.len() as u32;
        let whole = frame
            .orig_len
            .max(u32::try_from(frame.data.len()).unwrap_or(u32::MAX));
        if self.format.classic {
            let record = &mut self.block;
            // The format ends in 2106, so later stamps are clamped.
            word(
                record,
                u32::try_from(frame.time_ns / 1_000_000_000).unwrap_or(u32::MAX),
            );
            word(record, (frame.time_ns % 1_000_000_000) as u32);
            word(record, captured);
            word(record, whole);
            record.extend_from_slice(data);
        } else {
            block(&mut self.block, 6, |body| {
                word(body, frame.interface);
                word(body, (frame.time_ns >> 32) as u32);
                word(body, frame.time_ns as u32);
                word(body, captured);
                word(body, whole);
                body.extend_from_slice(data);
                pad(body, data.len());
                let direction: u32 = match frame.direction {
                    Direction::Unknown => 0,
                    Direction::In => 1,
                    Direction::Out => 2,
                };
                if direction != 0 {
                    option(body, 2, &direction.to_le_bytes());
                }
                if let Some(comment) = &frame.comment {
                    option(body, 1, whole_characters(comment, 65_535).as_bytes());
                }
                if direction != 0 || frame.comment.is_some() {
                    word(body, 0);
                }
            });
        }
        match self.put() {
            Ok(()) => {
                self.summary.frames += 1;
                self.summary.bytes += u64::from(captured);
                Ok(())
            }
            Err(error) => {
                self.summary.lost += 1;
                Err(error)
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.state != State::Open {
            return Ok(());
        }
        self.header(ETHERNET)?;
        let done = match &mut self.output {
            Output::Plain(output) => output.flush(),
            Output::Gzip(output) => output.flush(),
        };
        self.check(done)
    }

    fn finish(&mut self) -> Result<Summary> {
        if self.state == State::Open {
            self.header(ETHERNET)?;
            let done = match &mut self.output {
                Output::Plain(output) => output.flush(),
                Output::Gzip(output) => output.try_finish().and_then(|()| output.get_mut().flush()),
            };
            self.check(done)?;
            self.state = State::Finished;
        }
        Ok(self.summary)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("file", &self.file)
            .field("format", &self.format)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

fn half(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn word(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Pads a field of `len` bytes to a multiple of four.
fn pad(bytes: &mut Vec<u8>, len: usize) {
    bytes.extend_from_slice(&[0; 3][..len.wrapping_neg() & 3]);
}

/// Appends an option. A value too long for its length field is truncated.
fn option(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(65_535)];
    half(bytes, code);
    half(bytes, value.len() as u16);
    bytes.extend_from_slice(value);
    pad(bytes, value.len());
}

/// Returns the longest prefix of `text` that fits into `limit` bytes without splitting a character.
fn whole_characters(text: &str, limit: usize) -> &str {
    let end = (0..=text.len().min(limit))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Appends a block, with its length before and after the content that `fill` appends.
fn block(bytes: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    word(bytes, kind);
    word(bytes, 0);
    fill(bytes);
    // Bounded by the longest frame and a few options.
    let total = (bytes.len() - start + 4) as u32;
    bytes[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    word(bytes, total);
}

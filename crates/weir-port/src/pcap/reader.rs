// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reader of all capture formats.

use std::fmt;
use std::io::Read;

use super::classic::Classic;
use super::input::Input;
use super::next::{Next, Stamps};
use super::{ETHERNET, SECTION_HEADER};
use crate::{Frame, Result, Source};

/// Reads frames from a capture file. The [module](super) lists the supported formats.
pub struct Reader {
    input: Input,
    format: Format,
    interfaces: Vec<Interface>,
    frames: u64,
    done: bool,
}

enum Format {
    Classic(Classic),
    Next(Next),
}

/// An interface described in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `if_name`, if present.
    pub name: Option<String>,
    /// The link type number. Only frames of type 1, Ethernet, are accepted.
    pub link_type: u16,
    /// The maximum number of bytes captured per frame; 0 for no limit.
    pub snapshot_len: u32,
    /// The length of the frame check sequence at the end of a frame, in bytes. The reader removes
    /// it.
    pub fcs_len: u32,
    pub(super) stamps: Stamps,
}

impl Reader {
    /// Opens the file `name`, or standard input for `-`, and reads its header.
    pub fn open(name: &str) -> Result<Reader> {
        Reader::from_input(Input::open(name)?)
    }

    /// Reads from `input`, named `name` in errors.
    pub fn new(name: &str, input: impl Read + Send + 'static) -> Result<Reader> {
        Reader::from_input(Input::new(name, input)?)
    }

    fn from_input(mut input: Input) -> Result<Reader> {
        if input.at_end()? {
            return Err(input.error(0, "is empty, not a capture file"));
        }
        let magic: [u8; 4] = input.array("the first word")?;
        let mut interfaces = Vec::new();
        let format = if let Some(order) = Classic::recognise(magic) {
            let classic = Classic::open(&mut input, magic, order)?;
            interfaces.push(Interface {
                name: None,
                link_type: classic.link_type,
                snapshot_len: 0,
                fcs_len: 0,
                stamps: Stamps::default(),
            });
            Format::Classic(classic)
        } else if u32::from_le_bytes(magic) == SECTION_HEADER {
            Format::Next(Next::open(&mut input)?)
        } else {
            let [a, b, c, d] = magic;
            let what = format!(
                "is neither pcap nor pcapng: it begins with {a:02x} {b:02x} {c:02x} {d:02x}"
            );
            return Err(input.error(0, what));
        };
        debug_assert!(
            interfaces
                .iter()
                .all(|interface| interface.link_type == ETHERNET)
        );
        Ok(Reader {
            input,
            format,
            interfaces,
            frames: 0,
            done: false,
        })
    }

    /// Returns the name in error messages.
    pub fn file(&self) -> &str {
        self.input.file()
    }

    /// Returns the interfaces described so far, which [`Frame::interface`] indexes. A pcap file has
    /// one, without a name.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns the number of uncompressed bytes read so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }
}

impl Source for Reader {
    fn read(&mut self, frame: &mut Frame) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let found = match &mut self.format {
            Format::Classic(classic) => classic.read(&mut self.input, frame),
            Format::Next(next) => next.read(&mut self.input, &mut self.interfaces, frame),
        };
        match found {
            Ok(true) => self.frames += 1,
            _ => self.done = true,
        }
        found.map_err(|mut error| {
            error.frames = Some(self.frames);
            error
        })
    }

    fn frames(&self) -> u64 {
        self.frames
    }
}

/// Iterates over the frames, each in buffers of its own. An error is the last item.
impl Iterator for Reader {
    type Item = Result<Frame>;

    fn next(&mut self) -> Option<Result<Frame>> {
        let mut frame = Frame::default();
        match self.read(&mut frame) {
            Ok(true) => Some(Ok(frame)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("file", &self.file())
            .field("offset", &self.offset())
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

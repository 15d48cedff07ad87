// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame outside the stack: an Ethernet frame without its check sequence, and its time stamp.

/// An Ethernet frame with the metadata of a capture file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time_ns: u64,
    /// The length on the wire in bytes. It exceeds the length of `data` if the capture truncated
    /// the frame.
    pub orig_len: u32,
    /// The bytes from the destination address on, without the frame check sequence.
    pub data: Vec<u8>,
    /// The number of the interface within its source or sink, from 0.
    pub interface: u32,
    /// The direction in which the frame passed the interface.
    pub direction: Direction,
    /// A comment attached to the frame (pcapng only). Several comments are joined by newlines.
    pub comment: Option<String>,
}

impl Frame {
    /// Creates a complete frame of `data` at `time_ns` on interface 0.
    pub fn new(time_ns: u64, data: Vec<u8>) -> Frame {
        Frame {
            time_ns,
            orig_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data,
            ..Frame::default()
        }
    }

    /// Removes the bytes after the first `most`.
    pub fn cut(&mut self, most: usize) {
        self.data.truncate(most);
    }

    /// Returns true if the capture holds the whole frame.
    pub fn is_complete(&self) -> bool {
        self.data.len() as u64 >= u64::from(self.orig_len)
    }
}

/// The direction in which a frame passed an interface, according to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The file does not specify it.
    #[default]
    Unknown,
    /// Received.
    In,
    /// Sent.
    Out,
}

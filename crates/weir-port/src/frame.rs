// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A frame outside the stack: an Ethernet frame without its check sequence, and when it passed.

/// An Ethernet frame with what a capture file knows about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time_ns: u64,
    /// Length on the wire in bytes; more than `data` holds if the capture cut the frame short.
    pub orig_len: u32,
    /// From the destination address on, without the frame check sequence.
    pub data: Vec<u8>,
    /// Which interface of its source or sink, counted from 0.
    pub interface: u32,
    /// Which way it passed the interface.
    pub direction: Direction,
    /// Text that travels with the frame (pcapng only; several comments are joined by newlines).
    pub comment: Option<String>,
}

impl Frame {
    /// A frame of `data`, complete, at `time_ns`, on interface 0.
    pub fn new(time_ns: u64, data: Vec<u8>) -> Frame {
        Frame {
            time_ns,
            orig_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data,
            ..Frame::default()
        }
    }

    /// Whether the capture holds the whole frame.
    pub fn is_complete(&self) -> bool {
        self.data.len() as u64 >= u64::from(self.orig_len)
    }
}

/// Which way a frame passed an interface, as the file tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received.
    In,
    /// Sent.
    Out,
}

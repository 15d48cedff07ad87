// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames through shared memory, from the CPUs of a stack to one reader in another process.
//!
//! A [`Producer`] makes two files in memory (`memfd_create`) and a pair of sockets, and gives the
//! [`Ends`] to the reader, which makes a [`Consumer`] of them:
//!
//! - *the rings*, one for each CPU, with its head and its counters. Only the stack writes there.
//!   The file is sealed, so the kernel refuses a mapping that could write, and a change of its length.
//! - *the reader's words*: one tail for each CPU, and whether the reader sleeps.
//! - *the socket* wakes the reader, and its end of file tells each side that the other is gone. An
//!   eventfd would not do: its reader can clear `O_NONBLOCK` of the common description and fill
//!   the counter, and a write by the stack would then block. The stack sends with `MSG_DONTWAIT`.
//!
//! A CPU writes a frame by one copy of at most the snap length. There is no lock, no allocation and
//! no system call on the way, except for one wake-up per batch if the reader sleeps. A frame that
//! finds no room is not copied and counts as lost, so a slow reader never stops a CPU.
//!
//! The stack never reads what it wrote, and of the reader's words it takes only tails. A tail that
//! is ahead of the head or further behind than the ring is long means that there is no room. A
//! reader that writes nonsense thus loses its own frames and does nothing else.
//!
//! A record is a header of [`HEADER`] bytes and the frame, padded to 8 bytes; it may wrap around.

mod consumer;
mod memory;
mod producer;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;

pub use consumer::{Consumer, Record};
pub use producer::{Pieces, Producer};

/// The first word of the rings.
const MAGIC: u64 = u64::from_le_bytes(*b"weirring");
/// The version of the layout.
const VERSION: u64 = 1;
/// A page, and the length of the first part of the rings: magic, version, CPUs, bytes of a ring.
const PAGE: usize = 4096;
/// The length of a CPU's own words: head, frames, lost, then pairs of a device and what it lost.
const WORDS: usize = 2 * PAGE;
/// The positions of the words of a CPU, in bytes.
const HEAD: usize = 0;
const FRAMES: usize = 64;
const LOST: usize = 72;
const LOST_AT: usize = 128;
/// The number of devices whose lost frames are counted one by one.
const DEVICES: usize = 256;
/// The length of a cache line, which each tail has for itself.
const LINE: usize = 64;
/// The length of a record's header in bytes.
pub const HEADER: usize = 32;
/// The shortest ring of a CPU in bytes.
pub const MIN_RING: usize = 64 << 10;
/// The longest ring of a CPU in bytes.
pub const MAX_RING: usize = 1 << 30;
/// The largest number of CPUs.
pub const MAX_CPUS: usize = 256;

/// What happened to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The device received it.
    Received,
    /// The device sent it.
    Sent,
    /// It was dropped. Holds the numbers of the place and of the reason.
    Dropped(u16, u16),
}

/// What is known of a frame besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time_ns: u64,
    /// The number of the device.
    pub device: u32,
    /// What happened to it.
    pub what: What,
}

/// The descriptors that the reader gets, in this order: the rings, the reader's words, the socket.
#[derive(Debug)]
pub struct Ends(pub [OwnedFd; 3]);

impl Ends {
    /// Takes descriptors as received from another process.
    pub fn from_vec(files: Vec<OwnedFd>) -> io::Result<Self> {
        let files = <[OwnedFd; 3]>::try_from(files);
        files
            .map(Self)
            .map_err(|_| io::ErrorKind::InvalidInput.into())
    }
}

/// The shape of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    cpus: usize,
    /// The bytes of a ring, a power of two.
    ring: usize,
}

impl Shape {
    fn new(cpus: usize, ring: usize) -> io::Result<Self> {
        let fits = (1..=MAX_CPUS).contains(&cpus)
            && (MIN_RING..=MAX_RING).contains(&ring)
            && ring.is_power_of_two()
            && cpus.checked_mul(ring).is_some();
        let shape = Self { cpus, ring };
        fits.then_some(shape)
            .ok_or(io::ErrorKind::InvalidInput.into())
    }

    /// Returns where a CPU's words begin.
    fn words(&self, cpu: usize) -> usize {
        PAGE + cpu * WORDS
    }

    /// Returns where a CPU's ring begins.
    fn ring(&self, cpu: usize) -> usize {
        PAGE + self.cpus * WORDS + cpu * self.ring
    }

    /// Returns the bytes of the rings' file.
    fn bytes(&self) -> usize {
        self.ring(self.cpus)
    }

    /// Returns the bytes of the reader's file: the line of the sleeper, then the tails.
    fn reader_bytes(&self) -> usize {
        (LINE + self.cpus * LINE).next_multiple_of(PAGE)
    }

    /// Returns where the tail of a CPU is.
    fn tail(&self, cpu: usize) -> usize {
        LINE + cpu * LINE
    }
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    captured: u32,
    original: u32,
    meta: Meta,
}

impl Head {
    /// Returns the bytes of the record: header, frame, padding.
    fn record(&self) -> usize {
        HEADER + (self.captured as usize).next_multiple_of(8)
    }

    #[inline]
    fn to_bytes(self) -> [u8; HEADER] {
        let (kind, place, reason) = match self.meta.what {
            What::Received => (0, 0, 0),
            What::Sent => (1, 0, 0),
            What::Dropped(place, reason) => (2, u64::from(place), u64::from(reason)),
        };
        let words = [
            u64::from(self.captured) | u64::from(self.original) << 32,
            self.meta.time_ns,
            u64::from(self.meta.device) | kind << 32,
            place | reason << 16,
        ];
        let mut bytes = [0; HEADER];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; HEADER]) -> Option<Self> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(from.try_into().ok()?);
        }
        let [lengths, time_ns, device, dropped] = words;
        let what = match device >> 32 {
            0 => What::Received,
            1 => What::Sent,
            2 => What::Dropped(dropped as u16, (dropped >> 16) as u16),
            _ => return None,
        };
        Some(Self {
            captured: lengths as u32,
            original: (lengths >> 32) as u32,
            meta: Meta {
                time_ns,
                device: device as u32,
                what,
            },
        })
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capture files, read and written as a stream.
//!
//! **Reading** ([`Reader`]): pcap with microsecond or nanosecond stamps and pcapng, both in either
//! byte order, either of them gzipped, told apart by their first bytes; `-` is standard input. A
//! frame's bytes and one file buffer are all that is held. Mirrors draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng:
//!
//! - section header: any number of sections; interface numbers go on counting across them;
//! - interface description: name, snapshot length, `if_tsresol`, `if_tsoffset`, `if_fcslen`;
//! - enhanced, simple and (obsolete) packet blocks with their comments and direction; a simple
//!   packet has no stamp and gets that of the frame before it;
//! - every other block, and every option not named here, is skipped.
//!
//! Ethernet is the only link type; another one is refused with its name when a frame of it turns
//! up. A frame check sequence is cut off. A broken or cut-off file yields all whole frames before
//! the damage, then one [`Error`](crate::Error) with the offset.
//!
//! **Writing** ([`Writer`]): the name picks the format, see there. Same frames give same bytes:
//! nothing of the machine, the time or the path goes into the file.
//!
//! Not implemented: link types other than Ethernet, other compressions, name resolution, statistics
//! and decryption blocks (skipped), the modified pcap of Linux 2.2's distributions (refused).
//!
//! Why not `pcap-parser` or `pcap-file`: neither reports where in the file it stopped, and both
//! parse from memory or drop the offending block; the two formats are small.

mod classic;
mod input;
mod link;
mod next;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use link::link_type_name;
pub use reader::{Interface, Reader};
pub use writer::{Format, Writer};

/// No frame is longer; what claims to be is damage (libpcap's `MAXIMUM_SNAPLEN`).
pub const MAX_CAPTURED: u32 = 262_144;

/// The link type of Ethernet (`LINKTYPE_ETHERNET`).
const ETHERNET: u16 = 1;

/// First word of a pcap file with microseconds.
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// First word of a pcap file with nanoseconds.
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// First word of a pcapng file in either byte order, and the type of its section header blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Tells the byte order of a pcapng section.
const SECTION_ORDER: u32 = 0x1a2b_3c4d;

/// The byte order of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The `index`th word of `bytes`.
    fn word(self, bytes: &[u8], index: usize) -> u32 {
        match bytes.get(index * 4..).and_then(|rest| rest.first_chunk()) {
            Some(word) => self.u32(*word),
            None => 0,
        }
    }
}

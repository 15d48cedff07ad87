// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Capture files, read and written as streams.
//!
//! **Reading** ([`Reader`]): pcap with microsecond or nanosecond stamps, and pcapng, both in either
//! byte order and optionally gzipped. The format is recognised by the first bytes; `-` is standard
//! input. The reader holds only one frame and one file buffer. It follows draft-ietf-opsawg-pcap
//! and draft-ietf-opsawg-pcapng:
//!
//! - section header: any number of sections; interface numbers continue across them;
//! - interface description: name, snapshot length, `if_tsresol`, `if_tsoffset`, `if_fcslen`;
//! - enhanced, simple and (obsolete) packet blocks with their comments and direction; a simple
//!   packet has no stamp and gets that of the previous frame;
//! - all other blocks and options are skipped.
//!
//! Ethernet is the only supported link type. A frame of another link type is refused with the name
//! of its type. Frame check sequences are removed. A damaged or truncated file yields all complete
//! frames before the damage, then one [`Error`](crate::Error) with the offset.
//!
//! **Writing** ([`Writer`]): the file name selects the format, see there. The same frames give the
//! same bytes: nothing about the machine, the time or the path is written to the file.
//!
//! Not implemented: link types other than Ethernet, other compressions, name resolution, statistics
//! and decryption blocks (skipped), the modified pcap of Linux 2.2 distributions (refused).
//!
//! The crates `pcap-parser` and `pcap-file` are not used because neither reports where in the file
//! it stopped, and both parse from memory or drop the offending block. The two formats are small.

mod classic;
mod input;
mod link;
mod next;
mod playlist;
mod port;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use link::link_type_name;
pub use port::KIND;
pub use reader::{Interface, Reader};
pub use writer::{Format, Writer};

/// The maximum length of a frame (libpcap's `MAXIMUM_SNAPLEN`). A longer one means that the file is
/// damaged.
pub const MAX_CAPTURED: u32 = 262_144;

/// The link type of Ethernet (`LINKTYPE_ETHERNET`).
pub const ETHERNET: u16 = weir_packet::tagged::Framing::Ethernet.link_type();

/// The first word of a pcap file with microseconds.
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// The first word of a pcap file with nanoseconds.
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// The first word of a pcapng file in either byte order, and the type of its section header blocks.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// The word that determines the byte order of a pcapng section.
const SECTION_ORDER: u32 = 0x1a2b_3c4d;

/// The byte order of the input.
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

    /// Returns the `index`th word of `bytes`.
    fn word(self, bytes: &[u8], index: usize) -> u32 {
        match bytes.get(index * 4..).and_then(|rest| rest.first_chunk()) {
            Some(word) => self.u32(*word),
            None => 0,
        }
    }
}

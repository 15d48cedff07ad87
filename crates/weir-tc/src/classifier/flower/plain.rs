// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The half-words of the keys of plain packets, read from their headers at fixed places.
//!
//! Most packets are plain ([`Plain`]). Their keys need no dissection: each half-word that the masks read is one
//! load. The result is that of [`dissect`](weir_packet::dissect).

use std::mem::offset_of;

use weir_packet::dissect::ADDR_IPV4;
use weir_packet::header::ethernet::ETH_P_IP;
use weir_packet::header::ipv4::IPPROTO_TCP;
use weir_packet::header::{Ethernet, Ipv4, Tcp};
use weir_packet::{FlowKeys, Used};

use crate::early::{PLAIN_BITS, Plain};

/// The number of packets whose headers are read together.
pub const TOGETHER: usize = super::lanes::STRIDE;

/// One half-word of each packet's key, as far as they are read together.
type Part = [u32; TOGETHER];
/// The headers of the packets, [`NONE`] for those that are not plain.
pub type Heads<'a> = [&'a Plain; TOGETHER];
/// Stands for the headers of a packet that is not plain. What is read from them is not used.
pub static NONE: Plain = [0; size_of::<Plain>()];

/// The place of a half-word of the keys in the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Four bytes at an offset, as they are.
    Octets(u8),
    /// `n_proto`, `ip_proto` and `addr_type`.
    Protocols,
    /// `tos` and `ttl`.
    Service,
    /// `src_port` and `dst_port`.
    Ports,
    /// `tcp_flags`.
    Flags,
    /// The packet has no such field.
    Zero,
}

/// The groups that plain packets have.
const GROUPS: Used = Used::FIVE_TUPLE
    .with(Used::ETH)
    .with(Used::IP)
    .with(Used::TCP)
    .with(Used::ICMP);

/// The offsets of the headers of IP and of the protocol above it.
pub const IP: usize = Ethernet::LEN;
pub const L4: usize = IP + Ipv4::LEN;

impl Load {
    /// Returns where the half-word at a place of the keys is found, if `used` has no groups that plain packets
    /// do not have in their headers.
    pub fn of(place: u8, used: Used) -> Option<Self> {
        if !GROUPS.has(used) {
            return None;
        }
        let at = usize::from(place) * 4;
        let in_field = |field: usize, len: usize, from: usize| {
            let within = at.checked_sub(field).filter(|within| within + 4 <= len)?;
            Some(Self::Octets((from + within) as u8))
        };
        let found = match at {
            0 => Self::Protocols,
            4 => Self::Service,
            8 => Self::Ports,
            12 => Self::Flags,
            _ => in_field(offset_of!(FlowKeys, eth_dst), 12, 0)
                .or_else(|| in_field(offset_of!(FlowKeys, src), 4, IP + 12))
                .or_else(|| in_field(offset_of!(FlowKeys, dst), 4, IP + 16))
                .unwrap_or(Self::Zero),
        };
        Some(found)
    }

    /// Reads the half-word of each packet into its lane of a column, as far as it has one of `bits`.
    #[inline(always)]
    pub fn fill(self, heads: &Heads<'_>, bits: u32, column: &mut Part) {
        match self {
            Self::Octets(at) => {
                // The masks keep the offset in the headers without a test.
                let at = usize::from(at) % L4;
                each(heads, bits, column, |head| octets(head, at));
            }
            Self::Protocols => each(heads, bits, column, |head| {
                let [n0, n1] = ETH_P_IP.to_ne_bytes();
                u32::from_ne_bytes([n0, n1, head[IP + 9], ADDR_IPV4])
            }),
            Self::Service => each(heads, bits, column, |head| {
                u32::from_ne_bytes([head[IP + 1], head[IP + 8], 0, 0])
            }),
            Self::Ports => each(heads, bits, column, |head| {
                let [s1, s0, d1, d0] = octets(head, L4).to_ne_bytes();
                halves(u16::from_be_bytes([s1, s0]), u16::from_be_bytes([d1, d0]))
            }),
            Self::Flags => each(heads, bits, column, |head| {
                let tcp = Tcp::new(&head[L4..]);
                let tcp = tcp.filter(|_| head[IP + 9] == IPPROTO_TCP);
                let tcp = tcp.filter(|tcp| tcp.header_len() >= Tcp::LEN);
                halves(tcp.map_or(0, |tcp| tcp.flags()), 0)
            }),
            Self::Zero => each(heads, bits, column, |_| 0),
        }
    }
}

/// The bits of plain headers that decide the half-words of their keys, and whether headers are plain.
#[derive(Debug)]
pub struct Deciding(Plain);

impl Deciding {
    /// Returns the bits for half-words, each with the bits that the masks read of it.
    pub fn of(loads: impl Iterator<Item = (Load, u32)>) -> Self {
        let mut bits: Plain = [0; size_of::<Plain>()];
        let mut add = |at: usize, more: &[u8]| {
            let places = bits.iter_mut().skip(at);
            places.zip(more).for_each(|(to, more)| *to |= more);
        };
        PLAIN_BITS.iter().for_each(|(at, more)| add(*at, more));
        for (load, read) in loads {
            let read = read.to_ne_bytes();
            match load {
                Load::Octets(at) => add(usize::from(at), &read),
                // The bits that make headers plain include them.
                Load::Protocols | Load::Zero => {}
                Load::Service => {
                    add(IP + 1, &read[..1]);
                    add(IP + 8, &read[1..2]);
                }
                Load::Ports => add(L4, &[0xff; 4]),
                // The flags, and the header's length in front.
                Load::Flags => add(L4 + 12, &[0xff; 2]),
            }
        }
        Self(bits)
    }

    /// Returns whether two headers agree in these bits.
    #[inline(always)]
    pub fn agree(&self, differ: impl Differ, a: &Plain, b: &Plain) -> bool {
        !differ(a, b, &self.0)
    }
}

/// Returns whether two headers differ in any of the given bits.
pub trait Differ: Fn(&Plain, &Plain, &Plain) -> bool + Copy {}

impl<F: Fn(&Plain, &Plain, &Plain) -> bool + Copy> Differ for F {}

/// Compares headers word by word.
#[inline(always)]
pub fn differ(a: &Plain, b: &Plain, bits: &Plain) -> bool {
    let part = |n: usize| (word(a, n) ^ word(b, n)) & word(bits, n);
    const { assert!(size_of::<Plain>().div_ceil(8) == 7) };
    part(0) | part(1) | part(2) | part(3) | part(4) | part(5) | part(6) != 0
}

/// Returns a word of headers. The last one overlaps the one before.
#[inline(always)]
fn word(head: &Plain, n: usize) -> u64 {
    let at = (n * 8).min(size_of::<Plain>() - 8);
    let octets = head.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_ne_bytes(octets.copied().unwrap_or_default())
}

#[inline(always)]
fn octets(head: &Plain, at: usize) -> u32 {
    let octets = head.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_ne_bytes(octets.copied().unwrap_or_default())
}

/// Returns the half-word of two fields of two bytes each.
#[inline(always)]
fn halves(first: u16, second: u16) -> u32 {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u32::from_ne_bytes([a, b, c, d])
}

#[inline(always)]
fn each(heads: &Heads<'_>, bits: u32, column: &mut Part, half: impl Fn(&Plain) -> u32) {
    for (to, head) in column.iter_mut().zip(heads) {
        *to = half(head) & bits;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use weir_packet::dissect_frame;

    use crate::early::is_plain;

    use super::*;

    proptest! {
        #[test]
        fn the_keys_of_plain_packets_are_those_of_the_dissector(
            mut octets in proptest::array::uniform32(any::<u8>()),
            more in proptest::array::uniform32(any::<u8>()),
            tcp in any::<bool>(),
        ) {
            // Makes the random bytes a plain frame.
            (octets[12], octets[13], octets[14]) = (0x08, 0x00, 0x45);
            (octets[20], octets[21]) = (octets[20] & 0x40, 0);
            octets[23] = if tcp { 6 } else { 17 };
            let frame = [octets, more].concat();
            let head: &Plain = frame.first_chunk().unwrap();
            let mut heads: Heads<'_> = [&NONE; TOGETHER];
            heads[3] = head;
            let mut keys = FlowKeys::EMPTY;
            dissect_frame(&frame, GROUPS, &mut keys);
            for (place, half) in keys.halves().iter().enumerate() {
                let load = Load::of(place as u8, GROUPS).unwrap();
                let mut column = [7; TOGETHER];
                load.fill(&heads, 0xffff_ff0f, &mut column);
                prop_assert_eq!(column[3], half & 0xffff_ff0f, "half-word {}", place);
            }
        }
    }

    /// All half-words, as loads with the bits that are read.
    fn everything(bits: u32) -> impl Iterator<Item = (Load, u32)> {
        let places = 0..FlowKeys::EMPTY.halves().len() as u8;
        places.filter_map(move |place| Some((Load::of(place, GROUPS)?, bits)))
    }

    proptest! {
        #[test]
        fn headers_that_agree_have_the_same_keys(
            mut octets in proptest::array::uniform32(any::<u8>()),
            more in proptest::array::uniform32(any::<u8>()),
            at in 0..54_usize,
            bit in 0..8_u8,
            tcp in any::<bool>(),
            read in any::<u32>(),
        ) {
            (octets[12], octets[13], octets[14]) = (0x08, 0x00, 0x45);
            (octets[20], octets[21]) = (octets[20] & 0x40, 0);
            octets[23] = if tcp { 6 } else { 17 };
            let one = [octets, more].concat();
            let mut other = one.clone();
            other[at] ^= 1_u8 << bit;
            let deciding = Deciding::of(everything(read));
            let head = |frame: &[u8]| *frame.first_chunk::<54>().unwrap();
            prop_assert!(deciding.agree(differ, &head(&one), &head(&one)));
            let [mut a, mut b] = [FlowKeys::EMPTY; 2];
            dissect_frame(&one, GROUPS, &mut a);
            dissect_frame(&other, GROUPS, &mut b);
            let same = a.halves().iter().zip(b.halves()).all(|(a, b)| (a ^ b) & read == 0);
            // Ports and flags count as a whole.
            if deciding.agree(differ, &head(&one), &head(&other)) {
                prop_assert!(same && is_plain(&head(&other)));
            } else {
                let plain = is_plain(&head(&other)) && other[12..14] == [0x08, 0x00];
                prop_assert!(!same || !plain || (34..38).contains(&at) || (46..48).contains(&at) || at == 23);
            }
        }
    }

    #[test]
    fn keys_from_metadata_are_not_in_the_headers() {
        assert_eq!(Load::of(0, Used::META), None);
        assert_eq!(Load::of(0, Used::TUNNEL.with(Used::ETH)), None);
        assert_eq!(Load::of(0, Used::BASIC), Some(Load::Protocols));
    }
}

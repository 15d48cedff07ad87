// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The half-words of the keys of plain packets, read from their headers at fixed places.
//!
//! Most packets are plain ([`Plain`]). Their keys need no dissection: each half-word that the masks read is one
//! load. The result is that of [`dissect`](weir_packet::dissect).

use std::mem::offset_of;

use weir_packet::batch::BATCH;
use weir_packet::dissect::ADDR_IPV4;
use weir_packet::header::ethernet::ETH_P_IP;
use weir_packet::header::ipv4::IPPROTO_TCP;
use weir_packet::header::{Ethernet, Ipv4, Tcp};
use weir_packet::{FlowKeys, Used};

use crate::early::Plain;

/// The number of packets whose headers are read together.
pub const TOGETHER: usize = 16;
const _: () = assert!(BATCH.is_multiple_of(TOGETHER));

/// One half-word of each packet's key, as far as they are read together.
type Part = [u32; TOGETHER];
/// The headers of the packets that are plain.
type Heads<'a> = [Option<&'a Plain>; TOGETHER];

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

const IP: usize = Ethernet::LEN;
const L4: usize = IP + Ipv4::LEN;

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

    /// Reads the half-word of each packet that is plain into its lane of a column, as far as it has one of `bits`.
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
        if let Some(head) = head {
            *to = half(head) & bits;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use weir_packet::dissect_frame;

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
            let mut heads = [None; TOGETHER];
            heads[3] = Some(head);
            let mut keys = FlowKeys::EMPTY;
            dissect_frame(&frame, GROUPS, &mut keys);
            for (place, half) in keys.halves().iter().enumerate() {
                let load = Load::of(place as u8, GROUPS).unwrap();
                let mut column = [7; TOGETHER];
                load.fill(&heads, 0xffff_ff0f, &mut column);
                prop_assert_eq!(column[3], half & 0xffff_ff0f, "half-word {}", place);
                prop_assert_eq!(column[4], 7);
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation of single packets, without a connection: for actions that choose the other end themselves.
//!
//! Packets towards a service get another destination, and those of its answers another source. ICMP errors are
//! translated with the packet inside, in both directions, as `nf_nat_icmp_reply_translation` does for a connection.

use crate::headers::{Headers, Malformed, is_error};
use crate::nat::{Manip, translate, translate_error};
use crate::status::ips;
use crate::tuple::{Direction, Family, Tuple};

/// What [`Seen`] needs of a connection's status: its destination is translated, and nothing else.
const STATUS: u32 = ips::DST_NAT | ips::NAT_DONE_MASK;

/// The ends of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    headers: Headers,
    /// The packet is an ICMP error about another one.
    is_error: bool,
    flow: Tuple,
}

/// Returns the source and the destination of a fragment that begins at its network header. `None` if it is no fragment.
/// An IPv4 address is in the first 4 bytes, and the others are 0.
pub fn ends_of_fragment(packet: &[u8], family: Family) -> Option<([u8; 16], [u8; 16])> {
    if Headers::read(packet, family).err()? != Malformed::Fragment {
        return None;
    }
    let (first, length) = match family {
        Family::V4 => (12, 4),
        Family::V6 => (8, 16),
    };
    let address = |at: usize| {
        let mut address = [0; 16];
        let octets = packet.get(at..at + length)?;
        address.get_mut(..length)?.copy_from_slice(octets);
        Some(address)
    };
    Some((address(first)?, address(first + length)?))
}

impl Seen {
    /// Reads a packet that begins at its network header. `None` if it is truncated or a fragment, or an ICMP error about
    /// such a packet.
    pub fn read(packet: &[u8], family: Family) -> Option<Self> {
        let headers = Headers::read(packet, family).ok()?;
        let own = headers.tuple(packet)?;
        let is_error = own.icmp().is_some_and(|(kind, ..)| is_error(family, kind));
        let flow = if is_error {
            let inside = headers.segment(packet).get(8..)?;
            let inner = Headers::read(inside, family).ok()?;
            inner.tuple(inside)?.invert()?
        } else {
            own
        };
        Some(Self {
            headers,
            is_error,
            flow,
        })
    }

    /// Returns the ends in the direction of the packet. Those of an ICMP error are the inverse of those of the packet that
    /// it is about, so an error goes where an answer to that packet would go.
    pub fn flow(&self) -> &Tuple {
        &self.flow
    }

    /// Translates the packet that was read to another destination. Returns false if that is not possible: an ICMP redirect,
    /// or an error about a packet of which too little is there.
    pub fn send_to(&self, packet: &mut [u8], address: [u8; 16], port: u16) -> bool {
        let target = Tuple {
            dst: address,
            dst_port: port,
            ..self.flow
        };
        if !self.is_error {
            translate(packet, &self.headers, &target, Manip::Destination);
            return true;
        }
        let Some(reply) = target.invert() else {
            return false;
        };
        let tuples = [&self.flow, &reply];
        let (direction, manip) = (Direction::Original, Manip::Destination);
        translate_error(packet, &self.headers, tuples, STATUS, direction, manip).is_ok()
    }

    /// Translates the packet that was read to another source. Returns false as [`send_to`](Self::send_to) does.
    pub fn send_from(&self, packet: &mut [u8], address: [u8; 16], port: u16) -> bool {
        let target = Tuple {
            src: address,
            src_port: port,
            ..self.flow
        };
        if !self.is_error {
            translate(packet, &self.headers, &target, Manip::Source);
            return true;
        }
        let Some(original) = target.invert() else {
            return false;
        };
        let tuples = [&original, &self.flow];
        let (direction, manip) = (Direction::Reply, Manip::Source);
        translate_error(packet, &self.headers, tuples, STATUS, direction, manip).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_fragments_are_read_in_both_families() {
        let mut four = [0; 28];
        four[0] = 0x45;
        four[2..4].copy_from_slice(&28u16.to_be_bytes());
        four[9] = 17;
        four[12..16].copy_from_slice(&[10, 0, 0, 1]);
        four[16..20].copy_from_slice(&[10, 0, 0, 2]);
        assert_eq!(ends_of_fragment(&four, Family::V4), None);
        // The first fragment, and one in the middle.
        for offset in [0x2000u16, 0x2010] {
            four[6..8].copy_from_slice(&offset.to_be_bytes());
            let mut expected = ([0; 16], [0; 16]);
            expected.0[..4].copy_from_slice(&[10, 0, 0, 1]);
            expected.1[..4].copy_from_slice(&[10, 0, 0, 2]);
            assert_eq!(ends_of_fragment(&four, Family::V4), Some(expected));
        }
        assert_eq!(ends_of_fragment(&four[..19], Family::V4), None);
        let mut six = [0; 56];
        six[0] = 0x60;
        six[4..6].copy_from_slice(&16u16.to_be_bytes());
        six[6] = 44;
        (six[8], six[24]) = (0xfd, 0xfe);
        // A header of fragments, with UDP behind it.
        (six[40], six[43]) = (17, 1);
        let ends = ends_of_fragment(&six, Family::V6).map(|(src, dst)| (src[0], dst[0]));
        assert_eq!(ends, Some((0xfd, 0xfe)));
        six[6] = 17;
        assert_eq!(ends_of_fragment(&six, Family::V6), None);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The headers that tracking goes by, and the tuple of a packet (`nf_ct_get_tuple`).

use weir_packet::Packet;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::header::ipv6::{NEXTHDR_FRAGMENT, NEXTHDR_NONE};
use weir_packet::header::ipv6_ext::extensions;

use crate::tuple::{DCCP, Family, GRE, ICMP, ICMPV6, SCTP, TCP, Tuple, UDP, UDPLITE};

/// The headers of a packet that begins at its network header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(crate) family: Family,
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
    pub(crate) protocol: u8,
    /// The offset of the transport header, in bytes.
    pub(crate) transport: usize,
    /// The length according to the network header, at most that of the packet.
    pub(crate) len: usize,
}

/// Why a packet has no headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// The network header is truncated.
    Truncated,
    /// The packet is a fragment.
    Fragment,
    /// There is no transport header.
    NoTransport,
}

fn widen(octets: &[u8]) -> [u8; 16] {
    let mut wide = [0; 16];
    for (to, from) in wide.iter_mut().zip(octets) {
        *to = *from;
    }
    wide
}

impl Headers {
    /// Reads the headers. A packet inside an ICMP error may be shorter than its network header says.
    #[inline]
    pub(crate) fn read(packet: &[u8], family: Family) -> Result<Self, Malformed> {
        match family {
            Family::V4 => Self::v4(packet),
            Family::V6 => Self::v6(packet),
        }
    }

    #[inline]
    fn v4(packet: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; 20] = packet.first_chunk().ok_or(Malformed::Truncated)?;
        let header = usize::from(head[0] & 0xf) * 4;
        if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
            return Err(Malformed::Fragment);
        }
        let stated = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let len = stated.min(packet.len());
        if header < 20 || header > len {
            return Err(Malformed::NoTransport);
        }
        Ok(Self {
            family: Family::V4,
            src: widen(&head[12..16]),
            dst: widen(&head[16..20]),
            protocol: head[9],
            transport: header,
            len,
        })
    }

    fn v6(packet: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; 40] = packet.first_chunk().ok_or(Malformed::Truncated)?;
        let stated = usize::from(u16::from_be_bytes([head[4], head[5]])) + 40;
        let len = stated.min(packet.len());
        let mut all = extensions(packet.get(..len).unwrap_or_default());
        for extension in all.by_ref() {
            let extension = extension.map_err(|_| Malformed::NoTransport)?;
            if extension.kind == NEXTHDR_FRAGMENT {
                return Err(Malformed::Fragment);
            }
        }
        let (protocol, transport) = all.upper();
        if transport > len || protocol == NEXTHDR_NONE {
            return Err(Malformed::NoTransport);
        }
        Ok(Self {
            family: Family::V6,
            src: widen(&head[8..24]),
            dst: widen(&head[24..40]),
            protocol,
            transport,
            len,
        })
    }

    /// Returns the transport header and what follows it.
    #[inline]
    pub(crate) fn segment<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        packet.get(self.transport..self.len).unwrap_or_default()
    }

    /// Returns the tuple. `None` if the transport header is too short for its ports.
    #[inline]
    pub(crate) fn tuple(&self, packet: &[u8]) -> Option<Tuple> {
        let segment = self.segment(packet);
        let half = |at: usize| {
            let octets = segment.get(at..).and_then(|rest| rest.first_chunk());
            octets.map(|octets| u16::from_be_bytes(*octets))
        };
        let (src_port, dst_port) = match (self.protocol, self.family) {
            (TCP | UDP | UDPLITE | SCTP | DCCP, _) => (half(0)?, half(2)?),
            (ICMP, Family::V4) | (ICMPV6, Family::V6) => {
                segment.get(..8)?;
                (half(4)?, half(0)?)
            }
            (GRE, _) => (0, gre_key(segment)?),
            _ => (0, 0),
        };
        Some(Tuple {
            src: self.src,
            dst: self.dst,
            src_port,
            dst_port,
            protocol: self.protocol,
            family: self.family,
        })
    }
}

/// Returns the key of a GRE packet: the call of version 1, which PPTP uses (`gre_pkt_to_tuple`). The other direction's
/// is known only to a helper. `None` for version 1 that does not carry PPP.
fn gre_key(segment: &[u8]) -> Option<u16> {
    match *segment {
        [_, version, a, b, _, _, c, d, ..] if version & 7 == 1 => {
            ([a, b] == [0x88, 0x0b]).then_some(u16::from_be_bytes([c, d]))
        }
        _ => Some(0),
    }
}

/// Whether a message of the family's ICMP is about another packet.
pub(crate) fn is_error(family: Family, kind: u8) -> bool {
    match family {
        Family::V4 => matches!(kind, 3 | 4 | 5 | 11 | 12),
        Family::V6 => kind < 128,
    }
}

/// Returns the family of a packet by its EtherType.
pub(crate) fn family_of(packet: &Packet) -> Option<Family> {
    match packet.protocol {
        ETH_P_IP => Some(Family::V4),
        ETH_P_IPV6 => Some(Family::V6),
        _ => None,
    }
}

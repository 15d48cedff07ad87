// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key of a connection in one direction (`struct nf_conntrack_tuple`), and zones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `IPPROTO_ICMP`
pub const ICMP: u8 = 1;
/// `IPPROTO_TCP`
pub const TCP: u8 = 6;
/// `IPPROTO_UDP`
pub const UDP: u8 = 17;
/// `IPPROTO_ICMPV6`
pub const ICMPV6: u8 = 58;
/// `IPPROTO_DCCP`
pub const DCCP: u8 = 33;
/// `IPPROTO_GRE`
pub const GRE: u8 = 47;
/// `IPPROTO_SCTP`
pub const SCTP: u8 = 132;
/// `IPPROTO_UDPLITE`
pub const UDPLITE: u8 = 136;

/// The family of the addresses; the values are those of `AF_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Family {
    /// `AF_INET`
    V4 = 2,
    /// `AF_INET6`
    V6 = 10,
}

/// The direction of a packet within its connection (`enum ip_conntrack_dir`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Direction {
    /// That of the connection's first packet.
    Original = 0,
    /// The other.
    Reply = 1,
}

impl Direction {
    /// Returns the opposite direction.
    #[inline]
    pub const fn other(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// The key of a connection in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tuple {
    /// The source address. An IPv4 address is in the first 4 bytes, and the others are 0.
    pub src: [u8; 16],
    /// The destination address, in the same form.
    pub dst: [u8; 16],
    /// The source port; for ICMP the identifier; for GRE the key, which no packet has; 0 for protocols without ports.
    pub src_port: u16,
    /// The destination port; for ICMP the type in the upper byte and the code in the lower one; for GRE of version 1 the
    /// call (`key`).
    pub dst_port: u16,
    /// The protocol number.
    pub protocol: u8,
    /// The family of the addresses.
    pub family: Family,
}

const fn widen(address: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = address;
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

impl Tuple {
    /// Makes an IPv4 tuple.
    pub const fn v4(
        src: [u8; 4],
        dst: [u8; 4],
        src_port: u16,
        dst_port: u16,
        protocol: u8,
    ) -> Self {
        Self {
            src: widen(src),
            dst: widen(dst),
            src_port,
            dst_port,
            protocol,
            family: Family::V4,
        }
    }

    /// Makes an IPv6 tuple.
    pub const fn v6(
        src: [u8; 16],
        dst: [u8; 16],
        src_port: u16,
        dst_port: u16,
        protocol: u8,
    ) -> Self {
        Self {
            src,
            dst,
            src_port,
            dst_port,
            protocol,
            family: Family::V6,
        }
    }

    fn address(&self, octets: &[u8; 16]) -> IpAddr {
        match self.family {
            Family::V4 => {
                let [a, b, c, d, ..] = *octets;
                Ipv4Addr::new(a, b, c, d).into()
            }
            Family::V6 => Ipv6Addr::from(*octets).into(),
        }
    }

    /// Returns the source address.
    pub fn source(&self) -> IpAddr {
        self.address(&self.src)
    }

    /// Returns the destination address.
    pub fn destination(&self) -> IpAddr {
        self.address(&self.dst)
    }

    /// Returns whether the protocol is that of the family's ICMP.
    #[inline]
    pub const fn is_icmp(&self) -> bool {
        matches!(
            (self.protocol, self.family),
            (ICMP, Family::V4) | (ICMPV6, Family::V6)
        )
    }

    /// Returns type, code and identifier, if the protocol is the family's ICMP.
    pub const fn icmp(&self) -> Option<(u8, u8, u16)> {
        if self.is_icmp() {
            Some((
                (self.dst_port >> 8) as u8,
                self.dst_port as u8,
                self.src_port,
            ))
        } else {
            None
        }
    }

    /// Returns the tuple of the opposite direction, `None` for an ICMP type that has no answer
    /// (`nf_ct_invert_tuple`).
    #[inline]
    pub fn invert(&self) -> Option<Self> {
        let ports = u32::from(self.src_port) << 16 | u32::from(self.dst_port);
        let ports = invert_ports(ports, self.protocol, self.family)?;
        Some(Self {
            src: self.dst,
            dst: self.src,
            src_port: (ports >> 16) as u16,
            dst_port: ports as u16,
            ..*self
        })
    }
}

/// Returns the ports of the opposite direction. The upper half is the source's. `None` for an ICMP type that has no
/// answer.
#[inline(always)]
pub(crate) const fn invert_ports(ports: u32, protocol: u8, family: Family) -> Option<u32> {
    if !matches!(
        (protocol, family),
        (ICMP, Family::V4) | (ICMPV6, Family::V6)
    ) {
        return Some(ports.rotate_left(16));
    }
    match answer(family, (ports >> 8) as u8) {
        Some(answer) => Some(ports & 0xffff_00ff | (answer as u32) << 8),
        None => None,
    }
}

/// Returns the ICMP type that answers `kind` and the reverse (`invmap`).
const fn answer(family: Family, kind: u8) -> Option<u8> {
    Some(match (family, kind) {
        (Family::V4, 8) => 0,
        (Family::V4, 0) => 8,
        (Family::V4, 13) => 14,
        (Family::V4, 14) => 13,
        (Family::V4, 15) => 16,
        (Family::V4, 16) => 15,
        (Family::V4, 17) => 18,
        (Family::V4, 18) => 17,
        (Family::V6, 128) => 129,
        (Family::V6, 129) => 128,
        (Family::V6, 139) => 140,
        (Family::V6, 140) => 139,
        _ => return None,
    })
}

/// A zone: a part of the key, so that equal addresses in different networks are different connections
/// (`struct nf_conntrack_zone`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Zone {
    /// The number.
    pub id: u16,
    /// The directions whose key has the number: bit 0 the original one, bit 1 the reply. The key of the other
    /// direction is in zone 0.
    pub directions: u8,
}

impl Zone {
    /// Both directions (`NF_CT_DEFAULT_ZONE_DIR`).
    pub const BOTH: u8 = 3;

    /// Makes the zone of both directions.
    pub const fn new(id: u16) -> Self {
        Self {
            id,
            directions: Self::BOTH,
        }
    }

    /// Returns the number in the key of a direction (`nf_ct_zone_id`).
    #[inline]
    pub const fn of(self, direction: Direction) -> u16 {
        if self.directions & (1 << direction as u8) != 0 {
            self.id
        } else {
            0
        }
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_inverted_twice_is_itself() {
        let tcp = Tuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 1000, 80, TCP);
        let back = Tuple::v4([10, 0, 0, 2], [10, 0, 0, 1], 80, 1000, TCP);
        assert_eq!(tcp.invert(), Some(back));
        assert_eq!(back.invert(), Some(tcp));
        let ping = Tuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 7, 0x0800, ICMP);
        let pong = ping.invert().unwrap();
        assert_eq!(pong.icmp(), Some((0, 0, 7)));
        assert_eq!(pong.invert(), Some(ping));
        // A router advertisement has no answer. ICMPv6 over IPv4 is a protocol without ports.
        assert_eq!(
            Tuple::v6([1; 16], [2; 16], 0, 134 << 8, ICMPV6).invert(),
            None
        );
        assert!(
            Tuple::v4([1; 4], [2; 4], 0, 134 << 8, ICMPV6)
                .invert()
                .is_some()
        );
    }

    #[test]
    fn a_zone_of_one_direction_leaves_the_other_in_zone_0() {
        let zone = Zone {
            id: 9,
            directions: 1,
        };
        assert_eq!(
            (zone.of(Direction::Original), zone.of(Direction::Reply)),
            (9, 0)
        );
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnel metadata: how to encapsulate a packet, or the encapsulation it was received in.
//!
//! Mirrors `struct ip_tunnel_info` (include/net/ip_tunnels.h). A rule creates it once, or a tunnel
//! device creates it for a flow. It is immutable and shared: a packet refers to it
//! ([`crate::Packet::tunnel`]), so attaching it to a packet neither copies nor allocates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum number of bytes of options (`IP_TUNNEL_OPTS_MAX`).
pub const OPTIONS_MAX: usize = 255;

/// The kind of the options, which determines the layout of their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptionKind {
    /// Geneve. Each option has its class (2 bytes), type, length in units of four bytes, and data.
    Geneve,
    /// VXLAN: the group policy, 4 bytes in host order.
    Vxlan,
    /// ERSPAN: `struct erspan_metadata`, 12 bytes.
    Erspan,
    /// GTP: PDU type and QoS flow identifier, one byte each.
    Gtp,
}

impl OptionKind {
    /// Returns the kind's bit in `tun_flags` (`TUNNEL_GENEVE_OPT` and so on), in host order.
    pub const fn bit(self) -> u16 {
        match self {
            OptionKind::Geneve => 0x0800,
            OptionKind::Vxlan => 0x1000,
            OptionKind::Erspan => 0x4000,
            OptionKind::Gtp => 0x8000,
        }
    }

    /// Returns the kind with the given bit.
    pub fn of_bit(bit: u16) -> Option<OptionKind> {
        use OptionKind::*;
        [Geneve, Vxlan, Erspan, Gtp]
            .into_iter()
            .find(|kind| kind.bit() == bit)
    }
}

/// The options of a tunnel header.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Their kind.
    pub kind: OptionKind,
    /// Their bytes, at most [`OPTIONS_MAX`].
    pub octets: Box<[u8]>,
}

/// The end points of a tunnel. Only the short variant is inline, because most rules are IPv4.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ends {
    /// Source and destination.
    V4([u8; 4], [u8; 4]),
    /// Source and destination.
    V6(Box<([u8; 16], [u8; 16])>),
}

impl Ends {
    /// Creates the end points. Returns `None` if the addresses are of different families.
    pub fn new(src: IpAddr, dst: IpAddr) -> Option<Ends> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Ends::V4(src.octets(), dst.octets())),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(Ends::V6(Box::new((src.octets(), dst.octets()))))
            }
            _ => None,
        }
    }

    /// Returns the source address.
    pub fn src(&self) -> IpAddr {
        match self {
            Ends::V4(src, _) => Ipv4Addr::from(*src).into(),
            Ends::V6(ends) => Ipv6Addr::from(ends.0).into(),
        }
    }

    /// Returns the destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            Ends::V4(_, dst) => Ipv4Addr::from(*dst).into(),
            Ends::V6(ends) => Ipv6Addr::from(ends.1).into(),
        }
    }
}

/// The metadata. See the module documentation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tunnel {
    /// Source and destination.
    pub ends: Ends,
    /// Options.
    pub options: Option<Box<Options>>,
    /// The key, such as a VXLAN network identifier; 0 if there is none.
    pub id: u32,
    /// UDP source port; 0 if the sender chooses it.
    pub src_port: u16,
    /// UDP destination port; 0 for the device's.
    pub dst_port: u16,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit; 0 for the route's.
    pub ttl: u8,
    /// True if there is a key (`TUNNEL_KEY`).
    pub has_id: bool,
    /// True if the UDP checksum must be computed (`TUNNEL_CSUM`).
    pub checksum: bool,
    /// True if the packet may not be fragmented (`TUNNEL_DONT_FRAGMENT`).
    pub dont_fragment: bool,
    /// True if the metadata is for sending (`IP_TUNNEL_INFO_TX`) and not from a received packet.
    pub transmit: bool,
    /// True if only the key counts, and the table of the device has the rest (`IP_TUNNEL_INFO_BRIDGE`).
    pub bridge: bool,
    /// True if it only says where the next hop of the packet's route is, for a tunnel without a remote of its own: no
    /// rule has set it, and none sees it.
    pub hop: bool,
}

// A million rules have one each. With the reference counts it takes 56 bytes, for which malloc uses
// 64.
const _: () = assert!(size_of::<Tunnel>() <= 40);

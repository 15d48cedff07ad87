// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnel metadata: what a packet is to be encapsulated with, or was decapsulated from.
//!
//! Mirrors `struct ip_tunnel_info` (include/net/ip_tunnels.h). It is made once (by a rule, or by a
//! tunnel device for a flow), never changed, and shared: a packet refers to it
//! ([`crate::Packet::tunnel`]), so that giving it to a packet copies and allocates nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most octets of options (`IP_TUNNEL_OPTS_MAX`).
pub const OPTIONS_MAX: usize = 255;

/// Which options there are, and how their octets are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OptionKind {
    /// Geneve: for each option its class (2 octets), type, length in units of four octets, and data.
    Geneve,
    /// VXLAN: the group policy, 4 octets in host order.
    Vxlan,
    /// ERSPAN: `struct erspan_metadata`, 12 octets.
    Erspan,
    /// GTP: PDU type and QoS flow identifier, an octet each.
    Gtp,
}

impl OptionKind {
    /// The bit in `tun_flags` (`TUNNEL_GENEVE_OPT` and so on), host order.
    pub const fn bit(self) -> u16 {
        match self {
            OptionKind::Geneve => 0x0800,
            OptionKind::Vxlan => 0x1000,
            OptionKind::Erspan => 0x4000,
            OptionKind::Gtp => 0x8000,
        }
    }

    /// The kind with a bit.
    pub fn of_bit(bit: u16) -> Option<OptionKind> {
        use OptionKind::*;
        [Geneve, Vxlan, Erspan, Gtp]
            .into_iter()
            .find(|kind| kind.bit() == bit)
    }
}

/// Options of the tunnel header.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// Their kind.
    pub kind: OptionKind,
    /// Their octets, at most [`OPTIONS_MAX`].
    pub octets: Box<[u8]>,
}

/// Where a tunnel begins and ends. Only the short case is inline: most rules are IPv4.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ends {
    /// Source and destination.
    V4([u8; 4], [u8; 4]),
    /// Source and destination.
    V6(Box<([u8; 16], [u8; 16])>),
}

impl Ends {
    /// Source and destination of one family; `None` if they are not.
    pub fn new(src: IpAddr, dst: IpAddr) -> Option<Ends> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Ends::V4(src.octets(), dst.octets())),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(Ends::V6(Box::new((src.octets(), dst.octets()))))
            }
            _ => None,
        }
    }

    /// Source address.
    pub fn src(&self) -> IpAddr {
        match self {
            Ends::V4(src, _) => Ipv4Addr::from(*src).into(),
            Ends::V6(ends) => Ipv6Addr::from(ends.0).into(),
        }
    }

    /// Destination address.
    pub fn dst(&self) -> IpAddr {
        match self {
            Ends::V4(_, dst) => Ipv4Addr::from(*dst).into(),
            Ends::V6(ends) => Ipv6Addr::from(ends.1).into(),
        }
    }
}

/// The metadata; see the module's head.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tunnel {
    /// Source and destination.
    pub ends: Ends,
    /// Options.
    pub options: Option<Box<Options>>,
    /// Key: a VXLAN network identifier and the like; 0 if there is none.
    pub id: u32,
    /// UDP source port; 0 where the sender chooses.
    pub src_port: u16,
    /// UDP destination port; 0: the device's.
    pub dst_port: u16,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit; 0: the route's.
    pub ttl: u8,
    /// There is a key (`TUNNEL_KEY`).
    pub has_id: bool,
    /// Compute the UDP checksum (`TUNNEL_CSUM`).
    pub checksum: bool,
    /// May not be fragmented (`TUNNEL_DONT_FRAGMENT`).
    pub dont_fragment: bool,
    /// For sending (`IP_TUNNEL_INFO_TX`), not from a packet received.
    pub transmit: bool,
}

// A million rules have one each: with the counts of its references 56 octets, which malloc gives 64.
const _: () = assert!(size_of::<Tunnel>() <= 40);

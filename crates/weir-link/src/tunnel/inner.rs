// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tunnels read and change in inner packets: the fields that the outer header inherits, the ECN bits, and the
//! metadata that ends with a tunnel.

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::dissect::{dissect_network, hash_bytes};
use weir_packet::header::{
    ETH_P_8021AD, ETH_P_8021Q, ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv4Mut, Ipv6, Ipv6Mut,
};
use weir_packet::tunnel::Tunnel;
use weir_packet::{FlowKeys, Packet, Used, checksum, dissect_frame};
use weir_sync::rcu::{Domain, Guard, PublishedArc};

use crate::cpu::Cx;

/// The fields of the inner packet that encapsulation uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inner {
    /// The EtherType behind all tags.
    pub protocol: u16,
    /// The EtherType in the frame's own header; without one, as `protocol`.
    pub first: u16,
    /// The type of service or traffic class, 0 if the packet is not IP.
    pub tos: u8,
    /// The time to live or hop limit, 0 if the packet is not IP.
    pub ttl: u8,
    /// The packet is IPv4 and has DF.
    pub df: bool,
    /// The packet is IPv4 or IPv6 with a complete header.
    pub ip: bool,
    /// The number of bytes in front of the network header, including a tag that came from the metadata.
    pub link: usize,
}

impl Inner {
    /// Parses a frame; `tagged` says whether its outer tag came from the metadata. As in Linux, the
    /// IP header of a frame with more tags is looked up at the wrong offset.
    pub fn of(frame: &[u8], tagged: bool) -> Self {
        let ethertype = |at: usize| {
            let octets = frame.get(at..).and_then(|rest| rest.first_chunk());
            octets.map_or(0, |octets| u16::from_be_bytes(*octets))
        };
        let first = ethertype(12);
        let (mut protocol, mut at) = (first, 12);
        while matches!(protocol, ETH_P_8021Q | ETH_P_8021AD) {
            at += 4;
            protocol = ethertype(at);
        }
        let link = Ethernet::LEN + if tagged { 4 } else { 0 };
        let network = frame.get(link..).unwrap_or_default();
        Self {
            first,
            link,
            ..Self::of_packet(network, protocol)
        }
    }

    /// Parses a packet that begins with its network header.
    pub fn of_packet(network: &[u8], protocol: u16) -> Self {
        let none = Self {
            protocol,
            first: protocol,
            ..Self::default()
        };
        let found = match protocol {
            ETH_P_IP => Ipv4::new(network).map(|ip| Self {
                tos: ip.tos(),
                ttl: ip.ttl(),
                df: ip.dont_fragment(),
                ip: true,
                ..none
            }),
            ETH_P_IPV6 => Ipv6::new(network).map(|ip| Self {
                tos: ip.traffic_class(),
                ttl: ip.hop_limit(),
                ip: true,
                ..none
            }),
            _ => None,
        };
        found.unwrap_or(none)
    }

    /// Returns the outer type of service: that of the tunnel with the inner packet's ECN bits, except that CE
    /// becomes ECT(0) (`INET_ECN_encapsulate`).
    pub fn ecn(&self, tos: u8) -> u8 {
        let ecn = if self.tos & 3 == 3 { 2 } else { self.tos & 3 };
        tos & !3 | ecn
    }
}

/// Returns the outer source port for a frame, by the hash of its flow, from a range whose end is exclusive
/// (`udp_flow_src_port`).
pub fn flow_port((min, max): (u16, u16), hash: u32) -> u16 {
    let hash = hash ^ hash << 16;
    let range = u64::from(max.saturating_sub(min));
    min + ((u64::from(hash) * range) >> 32) as u16
}

/// Returns the hash of a frame's flow, or of its addresses if it has none.
pub fn flow_hash(cx: &Cx<'_>, packet: &Packet) -> u32 {
    let mut keys = FlowKeys::default();
    dissect_frame(packet.data(), Used::FIVE_TUPLE, &mut keys);
    let addresses = packet.data().get(..12).unwrap_or_default();
    hash_of(&keys, addresses, cx.stack.config.seed)
}

/// Does the same for a packet that begins with its network header.
pub fn bare_flow_hash(cx: &Cx<'_>, packet: &Packet) -> u32 {
    let mut keys = FlowKeys::default();
    let protocol = packet.protocol;
    dissect_network(packet.data(), protocol, None, Used::FIVE_TUPLE, &mut keys);
    hash_of(&keys, &[], cx.stack.config.seed)
}

fn hash_of(keys: &FlowKeys, addresses: &[u8], seed: u64) -> u32 {
    if keys.addr_type != 0 {
        weir_packet::flow_hash(keys, seed)
    } else {
        hash_bytes(addresses, seed)
    }
}

/// Propagates the outer ECN bits to the inner header (`INET_ECN_decapsulate`). Returns `false` if
/// the outer header carries a congestion mark but the inner packet does not support ECN.
pub fn decapsulate_ecn(outer: u8, protocol: u16, network: &mut [u8]) -> bool {
    const ECT_1: u8 = 1;
    const CE: u8 = 3;
    let inner = match protocol {
        ETH_P_IP => Ipv4::new(network).map(|ip| ip.tos()),
        ETH_P_IPV6 => Ipv6::new(network).map(|ip| ip.traffic_class()),
        _ => None,
    };
    let Some(inner) = inner else {
        return true;
    };
    let outer = outer & 3;
    if inner & 3 == 0 {
        return outer != CE;
    }
    let marked = match outer {
        CE => CE,
        // A marked packet stays marked.
        ECT_1 if inner & 3 == 2 => ECT_1,
        _ => return true,
    };
    set_tos(inner & !3 | marked, protocol, network);
    true
}

/// Copies the outer DSCP to the inner header (`IP6_TNL_F_RCV_DSCP_COPY`).
pub fn set_dscp(outer: u8, protocol: u16, network: &mut [u8]) {
    let inner = Inner::of_packet(network, protocol);
    if inner.ip {
        set_tos(outer & !3 | inner.tos & 3, protocol, network);
    }
}

/// Changes the type of service or the traffic class of a packet, with its checksum.
fn set_tos(tos: u8, protocol: u16, network: &mut [u8]) {
    if protocol == ETH_P_IP {
        let Some(mut ip) = Ipv4Mut::new(network) else {
            return;
        };
        let before = ip.view().tos();
        let check = checksum::update_u16(ip.view().check(), u16::from(before), u16::from(tos));
        ip.set_tos(tos).set_check(check);
    } else if let Some(mut ip) = Ipv6Mut::new(network) {
        let word = ip.view().version_class_flow();
        ip.set_version_class_flow(word & !(0xff << 20) | u32::from(tos) << 20);
    }
}

/// The number of cached metadata entries. The cache lets the packets of a flow share one.
const REMEMBERED: usize = 64;

/// A cache of the metadata of recently received packets, indexed by hash.
#[derive(Debug)]
pub struct Remembered(Vec<PublishedArc<Tunnel>>);

impl Remembered {
    /// Creates an empty cache.
    pub fn new(domain: &Domain) -> Self {
        let slots = (0..REMEMBERED).map(|_| PublishedArc::new(domain, None));
        Self(slots.collect())
    }

    /// Returns the shared copy of `tunnel`.
    pub fn share(&self, tunnel: Tunnel, guard: &Guard) -> Arc<Tunnel> {
        let mut key = [0; 24];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in key.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        match tunnel.ends.src() {
            IpAddr::V4(src) => {
                put(0, &src.octets());
                if let IpAddr::V4(dst) = tunnel.ends.dst() {
                    put(4, &dst.octets());
                }
            }
            IpAddr::V6(src) => put(0, &src.octets()),
        }
        put(16, &tunnel.id.to_be_bytes());
        put(20, &tunnel.src_port.to_be_bytes());
        let hash = hash_bytes(&key, 0) as usize;
        let Some(slot) = self.0.get(hash % REMEMBERED) else {
            return Arc::new(tunnel);
        };
        if let Some(present) = slot.get(guard)
            && *present == tunnel
        {
            return present;
        }
        let tunnel = Arc::new(tunnel);
        slot.replace(Some(tunnel.clone()));
        tunnel
    }
}

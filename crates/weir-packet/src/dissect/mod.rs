// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dissection: parses a packet's headers into [`FlowKeys`].
//!
//! Mirrors `__skb_flow_dissect` (net/core/flow_dissector.c, Linux 6.1) as flower calls it, with
//! `STOP_BEFORE_ENCAP`. It goes through VLAN tags (the one in the metadata first), PPPoE, HSR, MPLS
//! and IPv6 extension headers to the transport header, but not into IP-in-IP or GRE. It follows
//! flower of 6.1 exactly:
//! - a fragment has no ports; the first fragment's TCP flags and ICMP type are read only with
//!   [`Used::FIRST_FRAGMENT`];
//! - ESP and AH count as having ports: the two halves of the SPI;
//! - ARP keys are read only for requests and replies of IPv4 over Ethernet;
//! - `n_proto` is the last protocol reached, known or not;
//! - padding behind the IP packet counts as data.
//!
//! Parameters: [`Used`] selects the groups of keys to dissect. Other groups keep their previous
//! values in the target, so a target that began as [`FlowKeys::EMPTY`] keeps zeros there. Not
//! implemented: TIPC, FCoE, batman-adv and 1588 (no keys of flower), connection tracking, BPF.

mod hash;
mod keys;

pub use hash::{flow_hash, hash_bytes, l3_hash};
pub use keys::*;

use crate::Packet;
use crate::header::ethernet::{
    ETH_P_8021AD, ETH_P_8021Q, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, ETH_P_MPLS_MC, ETH_P_MPLS_UC,
    ETH_P_PPP_SES, ETH_P_RARP,
};
use crate::header::ipv4::{
    IP_MF, IP_OFFSET, IPPROTO_AH, IPPROTO_DCCP, IPPROTO_ESP, IPPROTO_ICMP, IPPROTO_L2TP,
    IPPROTO_SCTP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE,
};
use crate::header::ipv6::{
    Fragment, IPPROTO_ICMPV6, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ROUTING,
};
use crate::header::{Arp, Ethernet, Icmp, Ipv4, Ipv6, Tcp, Vlan};
use crate::packet::VlanTag;
use crate::tunnel::{Ends, OPTIONS_MAX, Tunnel};

/// The maximum number of headers parsed (`MAX_FLOW_DISSECT_HDRS`).
const MAX_HEADERS: u32 = 15;
const ETH_P_PRP: u16 = 0x88fb;
const ETH_P_HSR: u16 = 0x892f;
const IPPROTO_MPLS: u8 = 137;
const PPP_IP: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS_UC: u16 = 0x0281;
const PPP_MPLS_MC: u16 = 0x0283;

/// The groups of keys to dissect. `n_proto`, `ip_proto`, `addr_type` and `ip_flags` are always
/// dissected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Used(u32);

impl Used {
    /// Protocols and fragment flags only.
    pub const BASIC: Used = Used(0);
    /// `eth_src`, `eth_dst`.
    pub const ETH: Used = Used(1 << 0);
    /// `vlan`, `num_of_vlans`.
    pub const VLAN: Used = Used(1 << 1);
    /// `cvlan`.
    pub const CVLAN: Used = Used(1 << 2);
    /// `src`, `dst`.
    pub const ADDRS: Used = Used(1 << 3);
    /// `tos`, `ttl`.
    pub const IP: Used = Used(1 << 4);
    /// `src_port`, `dst_port`.
    pub const PORTS: Used = Used(1 << 5);
    /// `tcp_flags`.
    pub const TCP: Used = Used(1 << 6);
    /// `icmp_type`, `icmp_code`.
    pub const ICMP: Used = Used(1 << 7);
    /// `arp_*`.
    pub const ARP: Used = Used(1 << 8);
    /// `mpls`, `mpls_used`.
    pub const MPLS: Used = Used(1 << 9);
    /// `pppoe_sid`, `ppp_proto`.
    pub const PPPOE: Used = Used(1 << 10);
    /// `l2tpv3_sid`, `spi`.
    pub const SESSION: Used = Used(1 << 11);
    /// `flow_label`.
    pub const FLOW_LABEL: Used = Used(1 << 12);
    /// `ingress_ifindex`, `hash`, from the metadata.
    pub const META: Used = Used(1 << 13);
    /// `enc_*`, from the packet's tunnel metadata.
    pub const TUNNEL: Used = Used(1 << 14);
    /// `ct_*`, which the dissector leaves alone: the caller knows the packet's connection.
    pub const CT: Used = Used(1 << 15);
    /// Not a key: dissect beyond the IP header of a first fragment (`PARSE_1ST_FRAG`).
    pub const FIRST_FRAGMENT: Used = Used(1 << 31);
    /// The groups of a five-tuple.
    pub const FIVE_TUPLE: Used = Used(Used::ADDRS.0 | Used::PORTS.0);
    /// All keys.
    pub const ALL: Used = Used((1 << 16) - 1);

    /// Returns true if all groups of `other` are included.
    #[inline]
    pub const fn has(self, other: Used) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if any group of `other` is included.
    #[inline]
    pub const fn any(self, other: Used) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both.
    #[inline]
    pub const fn with(self, other: Used) -> Used {
        Used(self.0 | other.0)
    }

    /// Returns `self` without `other`.
    #[inline]
    pub const fn without(self, other: Used) -> Used {
        Used(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Used {
    type Output = Used;
    fn bitor(self, other: Used) -> Used {
        self.with(other)
    }
}

impl std::ops::BitOrAssign for Used {
    fn bitor_assign(&mut self, other: Used) {
        *self = self.with(other);
    }
}

/// The extent of a dissection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dissected {
    /// False if a header was truncated, malformed, or of an unknown protocol. The keys found before
    /// it are set all the same.
    pub good: bool,
    /// The number of bytes from the network header to the point where dissection ended, which is
    /// the transport header if `good` is set. Never past the end.
    pub transport: usize,
}

/// Dissects a packet whose MAC and network headers are set, into `keys`.
#[inline]
pub fn dissect(packet: &Packet, used: Used, keys: &mut FlowKeys) -> Dissected {
    if used.any(Used::ETH.with(Used::META).with(Used::TUNNEL)) {
        if used.has(Used::ETH) {
            match Ethernet::new(packet.mac()) {
                Some(eth) if packet.mac_len() >= Ethernet::LEN => {
                    keys.set_ethernet(eth.dst(), eth.src());
                }
                _ => keys.set_ethernet([0; 6], [0; 6]),
            }
        }
        if used.has(Used::META) {
            (keys.ingress_ifindex, keys.hash) = (packet.iif, packet.hash);
        }
        if used.has(Used::TUNNEL) {
            tunnel(packet.tunnel().map(|tunnel| &**tunnel), keys);
        }
    }
    dissect_network(packet.network(), packet.protocol, packet.vlan(), used, keys)
}

/// Returns the flow hash of a packet whose network header is set, never 0: [`flow_hash`] of what [`dissect`] finds of
/// its five-tuple.
#[inline]
pub fn five_tuple_hash(packet: &Packet, seed: u64) -> u32 {
    if packet.protocol == ETH_P_IP
        && let Some((ip, l4)) = plain_v4(packet.network())
        && let Some(ports) = Tcp::new(l4)
    {
        let src = (ip.src(), ports.src_port());
        let dst = (ip.dst(), ports.dst_port());
        return hash::flow_hash_v4(src, dst, ip.protocol(), seed);
    }
    hash_of_keys(packet, seed)
}

/// Does the same for any packet.
#[inline(never)]
fn hash_of_keys(packet: &Packet, seed: u64) -> u32 {
    let mut keys = FlowKeys::EMPTY;
    dissect(packet, Used::FIVE_TUPLE, &mut keys);
    flow_hash(&keys, seed)
}

/// Sets the keys of tunnel metadata (`skb_flow_dissect_tunnel_info`).
#[cold]
fn tunnel(tunnel: Option<&Tunnel>, keys: &mut FlowKeys) {
    (keys.enc_src, keys.enc_dst, keys.enc_addr_type) = ([0; 16], [0; 16], ADDR_NONE);
    (keys.enc_key_id, keys.enc_src_port, keys.enc_dst_port) = (0, 0, 0);
    (keys.enc_tos, keys.enc_ttl) = (0, 0);
    (keys.enc_opts_len, keys.enc_opts_type) = (0, 0);
    keys.enc_opts = [0; OPTS_ROOM];
    let Some(tunnel) = tunnel.filter(|tunnel| !tunnel.hop) else {
        return;
    };
    match &tunnel.ends {
        Ends::V4(src, dst) => {
            (keys.enc_src, keys.enc_dst) = (pad4(*src), pad4(*dst));
            keys.enc_addr_type = ADDR_IPV4;
        }
        Ends::V6(ends) => {
            (keys.enc_src, keys.enc_dst) = **ends;
            keys.enc_addr_type = ADDR_IPV6;
        }
    }
    keys.enc_key_id = tunnel.id;
    (keys.enc_src_port, keys.enc_dst_port) = (tunnel.src_port, tunnel.dst_port);
    (keys.enc_tos, keys.enc_ttl) = (tunnel.tos, tunnel.ttl);
    if let Some(options) = &tunnel.options {
        let octets = options.octets.iter().take(OPTIONS_MAX);
        keys.enc_opts_len = octets.len() as u8;
        keys.enc_opts_type = options.kind.bit();
        for (to, from) in keys.enc_opts.iter_mut().zip(octets) {
            *to = *from;
        }
    }
}

/// Dissects a whole Ethernet frame.
pub fn dissect_frame(frame: &[u8], used: Used, keys: &mut FlowKeys) -> Dissected {
    let eth = Ethernet::new(frame);
    if used.has(Used::ETH) {
        (keys.eth_dst, keys.eth_src) = eth.map_or(([0; 6], [0; 6]), |e| (e.dst(), e.src()));
    }
    let protocol = eth.map_or(0, |e| e.ethertype());
    let payload = frame.get(Ethernet::LEN..).unwrap_or_default();
    dissect_network(payload, protocol, None, used, keys)
}

enum Next {
    Good,
    Bad,
    Proto(u16),
    Transport(u8),
}

/// Dissects from the network header on. `protocol` is that of `data`, and `tag` is the VLAN tag in
/// the metadata.
#[inline]
pub fn dissect_network(
    data: &[u8],
    protocol: u16,
    tag: Option<VlanTag>,
    used: Used,
    keys: &mut FlowKeys,
) -> Dissected {
    if used.any(RARE) {
        clear(used, keys);
    }
    let done = match protocol {
        ETH_P_IP => fast_path_v4(data, used, keys),
        ETH_P_IPV6 => fast_path_v6(data, used, keys),
        _ => None,
    };
    let Some(done) = done else {
        return slow_path(data, protocol, tag, used, keys);
    };
    if let Some(tag) = tag
        && used.has(Used::VLAN)
    {
        (keys.vlan, keys.num_of_vlans) = (vlan_key(tag, protocol), 1);
    }
    done
}

#[inline]
fn vlan_key(tag: VlanTag, eth_type: u16) -> VlanKey {
    VlanKey {
        id: tag.vid(),
        priority: tag.priority(),
        dei: (tag.tci >> 12 & 1) as u8,
        tpid: tag.proto,
        eth_type,
    }
}

/// Returns the headers of the most common packets: IPv4 without options or fragments, with TCP or UDP.
#[inline(always)]
fn plain_v4(data: &[u8]) -> Option<(Ipv4<'_>, &[u8; Tcp::LEN])> {
    let (head, l4) = data.split_first_chunk::<{ Ipv4::LEN }>()?;
    let (ip, l4) = (Ipv4::new(head)?, l4.first_chunk::<{ Tcp::LEN }>()?);
    let plain = ip.version_ihl() & 0x0f == 5 && ip.frag_off() & (IP_MF | IP_OFFSET) == 0;
    (plain && matches!(ip.protocol(), IPPROTO_TCP | IPPROTO_UDP)).then_some((ip, l4))
}

/// Dissects the packets of [`plain_v4`]. Gives the same result as [`slow_path`], or `None` for other packets.
#[inline]
fn fast_path_v4(data: &[u8], used: Used, keys: &mut FlowKeys) -> Option<Dissected> {
    let (ip, l4) = plain_v4(data)?;
    if used.has(Used::ADDRS) {
        keys.set_src_v4(ip.src());
        keys.set_dst_v4(ip.dst());
    }
    let of_ip = (ETH_P_IP, ip.protocol(), ADDR_IPV4, ip.tos(), ip.ttl());
    fast_path(of_ip, l4, used, keys);
    Some(Dissected {
        good: true,
        transport: Ipv4::LEN,
    })
}

/// Does the same for IPv6 without extension headers.
#[inline]
fn fast_path_v6(data: &[u8], used: Used, keys: &mut FlowKeys) -> Option<Dissected> {
    let (head, l4) = data.split_first_chunk::<{ Ipv6::LEN }>()?;
    let (ip, l4) = (Ipv6::new(head)?, l4.first_chunk::<{ Tcp::LEN }>()?);
    if !matches!(ip.next_header(), IPPROTO_TCP | IPPROTO_UDP) {
        return None;
    }
    if used.has(Used::ADDRS) {
        (keys.src, keys.dst) = (ip.src(), ip.dst());
    }
    if used.has(Used::FLOW_LABEL) {
        keys.flow_label = ip.flow_label();
    }
    let (tos, ttl) = (ip.traffic_class(), ip.hop_limit());
    let of_ip = (ETH_P_IPV6, ip.next_header(), ADDR_IPV6, tos, ttl);
    fast_path(of_ip, l4, used, keys);
    Some(Dissected {
        good: true,
        transport: Ipv6::LEN,
    })
}

#[inline]
fn fast_path(
    (n_proto, ip_proto, addr_type, tos, ttl): (u16, u8, u8, u8, u8),
    l4: &[u8; Tcp::LEN],
    used: Used,
    keys: &mut FlowKeys,
) {
    let (tos, ttl) = if used.has(Used::IP) {
        (tos, ttl)
    } else {
        (0, 0)
    };
    let (mut ports, mut tcp_flags) = ((0, 0), 0);
    if let Some(tcp) = Tcp::new(l4) {
        if used.has(Used::PORTS) {
            ports = (tcp.src_port(), tcp.dst_port());
        }
        if used.has(Used::TCP) && ip_proto == IPPROTO_TCP && tcp.header_len() >= Tcp::LEN {
            tcp_flags = tcp.flags();
        }
    }
    keys.set_short(n_proto, [ip_proto, addr_type, tos, ttl], ports, tcp_flags);
}

/// Dissects header by header.
#[inline(never)]
fn slow_path(
    data: &[u8],
    protocol: u16,
    tag: Option<VlanTag>,
    used: Used,
    keys: &mut FlowKeys,
) -> Dissected {
    (keys.addr_type, keys.ip_flags) = (ADDR_NONE, 0);
    (keys.tos, keys.ttl, keys.num_of_vlans) = (0, 0, 0);
    (keys.src_port, keys.dst_port, keys.tcp_flags) = (0, 0, 0);
    (keys.icmp_type, keys.icmp_code) = (0, 0);
    if used.has(Used::ADDRS) {
        (keys.src, keys.dst) = ([0; 16], [0; 16]);
    }
    let mut walk = Walk {
        data,
        at: 0,
        ip_proto: 0,
        vlans: 0,
        labels: 0,
        used,
        keys,
    };
    let mut protocol = protocol;
    let mut again = 0;
    if let Some(tag) = tag {
        walk.tag(tag, protocol);
        again = 1;
    }
    let mut next = walk.network(protocol);
    if let Next::Transport(p) = next {
        next = walk.transport(p, protocol);
    }
    let good = loop {
        next = match next {
            Next::Good => break true,
            Next::Bad => break false,
            Next::Proto(p) => {
                protocol = p;
                again += 1;
                if again > MAX_HEADERS {
                    break true;
                }
                match walk.network(p) {
                    Next::Transport(p) => walk.transport(p, protocol),
                    next => next,
                }
            }
            Next::Transport(p) => {
                again += 1;
                if again > MAX_HEADERS {
                    break true;
                }
                walk.transport(p, protocol)
            }
        };
    };
    walk.keys.n_proto = protocol;
    walk.keys.ip_proto = walk.ip_proto;
    Dissected {
        good,
        transport: walk.at.min(data.len()),
    }
}

/// Groups that few packets have. They are zeroed when they are wanted.
const RARE: Used = Used::ALL.without(Used(
    Used::FIVE_TUPLE.0
        | Used::ETH.0
        | Used::META.0
        | Used::TUNNEL.0
        | Used::IP.0
        | Used::TCP.0
        | Used::ICMP.0,
));

/// Zeroes the rare groups that will be dissected.
#[inline]
fn clear(used: Used, keys: &mut FlowKeys) {
    if used.has(Used::VLAN) {
        keys.vlan = VlanKey::default();
    }
    if used.has(Used::CVLAN) {
        keys.cvlan = VlanKey::default();
    }
    if used.has(Used::FLOW_LABEL) {
        keys.flow_label = 0;
    }
    if used.has(Used::ARP) {
        (keys.arp_sip, keys.arp_tip, keys.arp_op) = ([0; 4], [0; 4], 0);
        (keys.arp_sha, keys.arp_tha) = ([0; 6], [0; 6]);
    }
    if used.has(Used::MPLS) {
        (keys.mpls, keys.mpls_used) = ([MplsLse::default(); MPLS_MAX], 0);
    }
    if used.has(Used::PPPOE) {
        (keys.pppoe_sid, keys.ppp_proto) = (0, 0);
    }
    if used.has(Used::SESSION) {
        (keys.l2tpv3_sid, keys.spi) = (0, 0);
    }
}

struct Walk<'a> {
    data: &'a [u8],
    at: usize,
    ip_proto: u8,
    vlans: u8,
    labels: usize,
    used: Used,
    keys: &'a mut FlowKeys,
}

impl Walk<'_> {
    #[inline]
    fn rest(&self) -> &[u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn network(&mut self, protocol: u16) -> Next {
        match protocol {
            ETH_P_IP => self.ipv4(),
            ETH_P_IPV6 => self.ipv6(),
            ETH_P_8021Q | ETH_P_8021AD => self.vlan(protocol),
            _ => self.other(protocol),
        }
    }

    #[inline(never)]
    fn other(&mut self, protocol: u16) -> Next {
        match protocol {
            ETH_P_ARP | ETH_P_RARP => self.arp(),
            ETH_P_MPLS_UC | ETH_P_MPLS_MC => self.mpls(protocol),
            ETH_P_PPP_SES => self.pppoe(),
            ETH_P_PRP | ETH_P_HSR => {
                let Some(tag) = self.rest().first_chunk::<6>() else {
                    return Next::Bad;
                };
                let next = u16::from_be_bytes([tag[4], tag[5]]);
                self.at += 6;
                Next::Proto(next)
            }
            _ => Next::Bad,
        }
    }

    #[inline]
    fn ipv4(&mut self) -> Next {
        let Some(ip) = Ipv4::new(self.rest()) else {
            return Next::Bad;
        };
        if ip.header_len() < Ipv4::LEN {
            return Next::Bad;
        }
        let (len, protocol, frag) = (ip.header_len(), ip.protocol(), ip.frag_off());
        let (src, dst, tos, ttl) = (ip.src(), ip.dst(), ip.tos(), ip.ttl());
        self.at += len;
        self.ip_proto = protocol;
        if self.used.has(Used::ADDRS) {
            self.keys.set_src_v4(src);
            self.keys.set_dst_v4(dst);
        }
        self.keys.addr_type = ADDR_IPV4;
        if self.used.has(Used::IP) {
            (self.keys.tos, self.keys.ttl) = (tos, ttl);
        }
        if frag & (IP_MF | IP_OFFSET) != 0 {
            self.keys.ip_flags |= IS_FRAGMENT;
            if frag & IP_OFFSET != 0 {
                return Next::Good;
            }
            self.keys.ip_flags |= FIRST_FRAGMENT;
            if !self.used.has(Used::FIRST_FRAGMENT) {
                return Next::Good;
            }
        }
        Next::Transport(protocol)
    }

    #[inline]
    fn ipv6(&mut self) -> Next {
        let Some(ip) = Ipv6::new(self.rest()) else {
            return Next::Bad;
        };
        let (next, src, dst) = (ip.next_header(), ip.src(), ip.dst());
        let (class, ttl, label) = (ip.traffic_class(), ip.hop_limit(), ip.flow_label());
        self.at += Ipv6::LEN;
        self.ip_proto = next;
        if self.used.has(Used::ADDRS) {
            (self.keys.src, self.keys.dst) = (src, dst);
        }
        self.keys.addr_type = ADDR_IPV6;
        if self.used.has(Used::IP) {
            (self.keys.tos, self.keys.ttl) = (class, ttl);
        }
        if self.used.has(Used::FLOW_LABEL) {
            self.keys.flow_label = label;
        }
        Next::Transport(next)
    }

    fn tag(&mut self, tag: VlanTag, eth_type: u16) {
        let key = vlan_key(tag, eth_type);
        match self.vlans {
            0 if self.used.has(Used::VLAN) => self.keys.vlan = key,
            1 if self.used.has(Used::CVLAN) => self.keys.cvlan = key,
            _ => {}
        }
        self.vlans = self.vlans.saturating_add(1);
        if self.used.has(Used::VLAN) {
            self.keys.num_of_vlans = self.vlans;
        }
    }

    fn vlan(&mut self, tpid: u16) -> Next {
        let Some(vlan) = Vlan::new(self.rest()) else {
            return Next::Bad;
        };
        let (tci, eth_type) = (vlan.tci(), vlan.ethertype());
        self.at += Vlan::LEN;
        self.tag(VlanTag { proto: tpid, tci }, eth_type);
        Next::Proto(eth_type)
    }

    fn arp(&mut self) -> Next {
        if !self.used.has(Used::ARP) {
            return Next::Good;
        }
        let Some(arp) = Arp::new(self.rest()) else {
            return Next::Bad;
        };
        if !arp.is_ethernet_ipv4() || !matches!(arp.op(), 1 | 2) {
            return Next::Bad;
        }
        let (op, sip, tip, sha, tha) = (arp.op(), arp.sip(), arp.tip(), arp.sha(), arp.tha());
        self.keys.arp_op = op as u8;
        (self.keys.arp_sip, self.keys.arp_tip) = (sip, tip);
        (self.keys.arp_sha, self.keys.arp_tha) = (sha, tha);
        Next::Good
    }

    fn mpls(&mut self, protocol: u16) -> Next {
        if !self.used.has(Used::MPLS) || self.labels >= MPLS_MAX {
            return Next::Good;
        }
        let Some(entry) = self.rest().first_chunk::<4>() else {
            return Next::Bad;
        };
        let entry = u32::from_be_bytes(*entry);
        let lse = MplsLse {
            label: entry >> 12,
            tc: (entry >> 9 & 7) as u8,
            bos: (entry >> 8 & 1) as u8,
            ttl: entry as u8,
            pad: 0,
        };
        if let Some(slot) = self.keys.mpls.get_mut(self.labels) {
            *slot = lse;
            self.keys.mpls_used |= 1 << self.labels;
        }
        self.labels += 1;
        self.at += 4;
        if lse.bos == 1 {
            Next::Good
        } else {
            Next::Proto(protocol)
        }
    }

    fn pppoe(&mut self) -> Next {
        // Version and type, code, session id and length, then the PPP protocol.
        let Some(&[0x11, 0, s0, s1, _, _, p0, p1]) = self.rest().first_chunk::<8>() else {
            return Next::Bad;
        };
        let protocol = u16::from_be_bytes([p0, p1]);
        self.at += 8;
        let next = match protocol {
            PPP_IP => Next::Proto(ETH_P_IP),
            PPP_IPV6 => Next::Proto(ETH_P_IPV6),
            PPP_MPLS_UC => Next::Proto(ETH_P_MPLS_UC),
            PPP_MPLS_MC => Next::Proto(ETH_P_MPLS_MC),
            // In a PPP protocol number the lowest bit is 1, and the lowest bit of the first byte is
            // 0.
            p if p & 0x0101 == 1 => Next::Good,
            _ => return Next::Bad,
        };
        if self.used.has(Used::PPPOE) {
            self.keys.pppoe_sid = u16::from_be_bytes([s0, s1]);
            self.keys.ppp_proto = protocol;
        }
        next
    }

    #[inline]
    fn transport(&mut self, ip_proto: u8, protocol: u16) -> Next {
        let mut next = Next::Good;
        match ip_proto {
            IPPROTO_TCP if self.used.has(Used::TCP) => {
                let flags = Tcp::new(self.rest()).filter(|t| t.header_len() >= Tcp::LEN);
                self.keys.tcp_flags = flags.map_or(0, |t| t.flags());
            }
            IPPROTO_TCP | IPPROTO_UDP => {}
            IPPROTO_ICMP | IPPROTO_ICMPV6 if self.used.has(Used::ICMP) => {
                let icmp = Icmp::new(self.rest()).map(|i| (i.icmp_type(), i.code()));
                (self.keys.icmp_type, self.keys.icmp_code) = icmp.unwrap_or_default();
            }
            NEXTHDR_HOP | NEXTHDR_ROUTING | NEXTHDR_DEST if protocol == ETH_P_IPV6 => {
                let Some(&[n, len]) = self.rest().first_chunk() else {
                    return Next::Bad;
                };
                self.ip_proto = n;
                self.at += (usize::from(len) + 1) * 8;
                next = Next::Transport(n);
            }
            NEXTHDR_FRAGMENT if protocol == ETH_P_IPV6 => {
                let Some(f) = Fragment::new(self.rest()) else {
                    return Next::Bad;
                };
                let (n, first) = (f.next_header(), f.offset() == 0);
                self.keys.ip_flags |= IS_FRAGMENT;
                self.at += Fragment::LEN;
                self.ip_proto = n;
                if first {
                    self.keys.ip_flags |= FIRST_FRAGMENT;
                    if self.used.has(Used::FIRST_FRAGMENT) {
                        return Next::Transport(n);
                    }
                }
                return Next::Good;
            }
            IPPROTO_MPLS => next = Next::Proto(ETH_P_MPLS_UC),
            IPPROTO_L2TP | IPPROTO_ESP | IPPROTO_AH => self.session(ip_proto),
            _ => {}
        }
        if self.used.has(Used::PORTS) && self.keys.ip_flags & IS_FRAGMENT == 0 {
            self.ports(ip_proto);
        }
        next
    }

    #[inline]
    fn ports(&mut self, ip_proto: u8) {
        let skip = match ip_proto {
            IPPROTO_TCP | IPPROTO_UDP | IPPROTO_DCCP | IPPROTO_ESP | IPPROTO_SCTP
            | IPPROTO_UDPLITE => 0,
            IPPROTO_AH => 4,
            _ => return,
        };
        if let Some(&[a, b, c, d]) = self
            .data
            .get(self.at + skip..)
            .and_then(|d| d.first_chunk())
        {
            self.keys.src_port = u16::from_be_bytes([a, b]);
            self.keys.dst_port = u16::from_be_bytes([c, d]);
        }
    }

    #[inline(never)]
    fn session(&mut self, ip_proto: u8) {
        if !self.used.has(Used::SESSION) {
            return;
        }
        let skip = if ip_proto == IPPROTO_AH { 4 } else { 0 };
        let word = self.rest().get(skip..).and_then(|r| r.first_chunk());
        let word = word.map_or(0, |w| u32::from_be_bytes(*w));
        if ip_proto == IPPROTO_L2TP {
            self.keys.l2tpv3_sid = word;
        } else {
            self.keys.spi = word;
        }
    }
}

#[cfg(test)]
mod tests;

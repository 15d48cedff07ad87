// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `FlowKeys`: the result of dissection in one flat structure.
//!
//! The structure is made for matching under a mask: it has a fixed size, no padding, and is
//! readable as words ([`FlowKeys::words`]). Keys that a packet does not have are 0. Numbers are in
//! host order and addresses are arrays; an IPv4 address occupies the first 4 bytes of its 16.
//! Mirrors `struct fl_flow_key` of net/sched/cls_flower.c (Linux 6.1).
#![allow(unsafe_code)] // the view as words

use crate::tunnel::OPTIONS_MAX;

/// A VLAN tag as flower matches it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct VlanKey {
    /// VLAN id, 12 bits.
    pub id: u16,
    /// Priority, 3 bits.
    pub priority: u8,
    /// Drop eligible.
    pub dei: u8,
    /// The tag's own protocol: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// The encapsulated ethertype.
    pub eth_type: u16,
}

/// One entry of an MPLS label stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct MplsLse {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub tc: u8,
    /// Bottom of stack, 1 bit.
    pub bos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Always 0.
    pub pad: u8,
}

/// The maximum number of label stack entries that are read (`FLOW_DIS_MPLS_MAX`).
pub const MPLS_MAX: usize = 7;

/// [`FlowKeys::addr_type`]: no addresses.
pub const ADDR_NONE: u8 = 0;
/// [`FlowKeys::addr_type`]: IPv4 addresses.
pub const ADDR_IPV4: u8 = 4;
/// [`FlowKeys::addr_type`]: IPv6 addresses.
pub const ADDR_IPV6: u8 = 6;

/// [`FlowKeys::ip_flags`]: a fragment (`FLOW_DIS_IS_FRAGMENT`).
pub const IS_FRAGMENT: u8 = 1;
/// [`FlowKeys::ip_flags`]: the first fragment (`FLOW_DIS_FIRST_FRAG`).
pub const FIRST_FRAGMENT: u8 = 2;
/// [`FlowKeys::ip_flags`]: the packet is an encapsulation (`FLOW_DIS_ENCAPSULATION`).
pub const ENCAPSULATION: u8 = 4;

/// All keys of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C, align(8))]
pub struct FlowKeys {
    /// Ethertype behind all VLAN tags (and PPPoE).
    pub n_proto: u16,
    /// IP protocol behind IPv6 extension headers.
    pub ip_proto: u8,
    /// [`ADDR_NONE`], [`ADDR_IPV4`] or [`ADDR_IPV6`].
    pub addr_type: u8,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// [`IS_FRAGMENT`] and the like.
    pub ip_flags: u8,
    /// Number of VLAN tags, including the one in the metadata.
    pub num_of_vlans: u8,

    /// Source port (TCP, UDP, SCTP, DCCP, UDP-Lite).
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TCP flags, 12 bits.
    pub tcp_flags: u16,
    /// ICMP or ICMPv6 type.
    pub icmp_type: u8,
    /// ICMP or ICMPv6 code.
    pub icmp_code: u8,

    /// Source IP address.
    pub src: [u8; 16],
    /// Destination IP address.
    pub dst: [u8; 16],

    /// Destination MAC address.
    pub eth_dst: [u8; 6],
    /// Source MAC address.
    pub eth_src: [u8; 6],
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,

    /// Outer VLAN tag.
    pub vlan: VlanKey,
    /// Inner VLAN tag (QinQ).
    pub cvlan: VlanKey,

    /// ARP sender address.
    pub arp_sip: [u8; 4],
    /// ARP target address.
    pub arp_tip: [u8; 4],
    /// ARP sender MAC address.
    pub arp_sha: [u8; 6],
    /// ARP target MAC address.
    pub arp_tha: [u8; 6],
    /// ARP operation, 8 bits as flower matches it.
    pub arp_op: u8,
    /// Bit `i` is set if label stack entry `i` was found.
    pub mpls_used: u8,
    /// PPPoE session id.
    pub pppoe_sid: u16,
    /// PPP protocol inside PPPoE.
    pub ppp_proto: u16,
    /// The kind of the tunnel options ([`crate::tunnel::OptionKind::bit`]).
    pub enc_opts_type: u16,
    /// SPI of ESP or AH. Not a key of Linux 6.1.
    pub spi: u32,
    /// L2TPv3 session id.
    pub l2tpv3_sid: u32,
    /// ifindex of the device the packet arrived on (`indev`).
    pub ingress_ifindex: u32,
    /// Flow hash of the packet (`hash`); 0 if there is none.
    pub hash: u32,

    /// MPLS label stack, outermost first.
    pub mpls: [MplsLse; MPLS_MAX],

    /// Tunnel metadata: key (`enc_key_id`).
    pub enc_key_id: u32,
    /// Tunnel source port.
    pub enc_src_port: u16,
    /// Tunnel destination port.
    pub enc_dst_port: u16,
    /// Tunnel source address.
    pub enc_src: [u8; 16],
    /// Tunnel destination address.
    pub enc_dst: [u8; 16],
    /// Family of the tunnel addresses, as `addr_type`.
    pub enc_addr_type: u8,
    /// Tunnel type of service.
    pub enc_tos: u8,
    /// Tunnel time to live.
    pub enc_ttl: u8,
    /// The number of bytes used in [`enc_opts`](Self::enc_opts).
    pub enc_opts_len: u8,
    /// Reserved: connection tracking state bits.
    pub ct_state: u16,
    /// Reserved: connection tracking zone.
    pub ct_zone: u16,
    /// Reserved: connection mark.
    pub ct_mark: u32,
    /// Reserved: connection labels.
    pub ct_labels: [u8; 16],

    /// The bytes of the tunnel's options, in the layout of their kind. The last byte is always 0.
    pub enc_opts: [u8; OPTS_ROOM],
}

/// The size of [`FlowKeys::enc_opts`] in bytes: the maximum length of options, in whole words.
pub const OPTS_ROOM: usize = (OPTIONS_MAX + 1).next_multiple_of(8);

const WORDS: usize = size_of::<FlowKeys>() / 8;

// There is no padding: the sizes of the fields add up to the size of the structure, so every byte
// is written.
const _: () = {
    let fields = 8 + 8 + 2 * 16 + 2 * 6 + 4 + 2 * size_of::<VlanKey>() + 2 * 4 + 2 * 6 + 2 + 3 * 2;
    let fields = fields + 4 * 4 + MPLS_MAX * size_of::<MplsLse>();
    let fields = fields + 4 + 2 * 2 + 2 * 16 + 4 + 2 * 2 + 4 + 16 + OPTS_ROOM;
    assert!(size_of::<FlowKeys>() == fields && size_of::<FlowKeys>() == WORDS * 8);
    assert!(size_of::<VlanKey>() == 8 && size_of::<MplsLse>() == 8);
};

impl FlowKeys {
    /// The length of [`words`](Self::words).
    pub const WORDS: usize = WORDS;

    /// Keys that are all 0.
    pub const EMPTY: FlowKeys = FlowKeys {
        n_proto: 0,
        ip_proto: 0,
        addr_type: 0,
        tos: 0,
        ttl: 0,
        ip_flags: 0,
        num_of_vlans: 0,
        src_port: 0,
        dst_port: 0,
        tcp_flags: 0,
        icmp_type: 0,
        icmp_code: 0,
        src: [0; 16],
        dst: [0; 16],
        eth_dst: [0; 6],
        eth_src: [0; 6],
        flow_label: 0,
        vlan: VlanKey {
            id: 0,
            priority: 0,
            dei: 0,
            tpid: 0,
            eth_type: 0,
        },
        cvlan: VlanKey {
            id: 0,
            priority: 0,
            dei: 0,
            tpid: 0,
            eth_type: 0,
        },
        arp_sip: [0; 4],
        arp_tip: [0; 4],
        arp_sha: [0; 6],
        arp_tha: [0; 6],
        arp_op: 0,
        mpls_used: 0,
        pppoe_sid: 0,
        ppp_proto: 0,
        enc_opts_type: 0,
        spi: 0,
        l2tpv3_sid: 0,
        ingress_ifindex: 0,
        hash: 0,
        mpls: [MplsLse {
            label: 0,
            tc: 0,
            bos: 0,
            ttl: 0,
            pad: 0,
        }; MPLS_MAX],
        enc_key_id: 0,
        enc_src_port: 0,
        enc_dst_port: 0,
        enc_src: [0; 16],
        enc_dst: [0; 16],
        enc_addr_type: 0,
        enc_tos: 0,
        enc_ttl: 0,
        enc_opts_len: 0,
        ct_state: 0,
        ct_zone: 0,
        ct_mark: 0,
        ct_labels: [0; 16],
        enc_opts: [0; OPTS_ROOM],
    };

    /// Returns the structure as 64-bit words in memory order, for matching and hashing under a
    /// mask.
    #[inline]
    pub fn words(&self) -> &[u64; WORDS] {
        // SAFETY: `repr(C, align(8))` without padding (asserted above): every byte is initialised,
        // and any bytes are a valid word.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Returns the structure as mutable words. All fields are integers, so any words are valid.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
        // SAFETY: as above; every field takes any bit pattern.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }

    /// Returns the halves of the words, in memory order.
    #[inline(always)]
    pub fn halves(&self) -> &[u32; 2 * WORDS] {
        // SAFETY: as above, and a word is aligned as its halves are.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Returns the halves of the words, mutably.
    #[inline(always)]
    pub fn halves_mut(&mut self) -> &mut [u32; 2 * WORDS] {
        // SAFETY: as above; every field takes any bit pattern.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }

    /// Returns the structure as bytes.
    #[inline(always)]
    pub fn octets(&self) -> &[u8; 8 * WORDS] {
        // SAFETY: as above: initialised, and without padding.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Returns the structure as mutable bytes.
    #[inline(always)]
    pub fn octets_mut(&mut self) -> &mut [u8; 8 * WORDS] {
        // SAFETY: as above; every field takes any bit pattern.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }

    /// Sets the first two words: `n_proto`; `ip_proto`, `addr_type`, `tos` and `ttl`; the ports;
    /// `tcp_flags`. Sets the other fields in them to 0. Each word is one store: a load of the word
    /// soon afterwards would otherwise have to wait until several smaller stores have reached the
    /// cache.
    #[inline(always)]
    pub(super) fn set_short(
        &mut self,
        n_proto: u16,
        [ip_proto, addr_type, tos, ttl]: [u8; 4],
        (src_port, dst_port): (u16, u16),
        tcp_flags: u16,
    ) {
        let [n0, n1] = n_proto.to_ne_bytes();
        let [s0, s1] = src_port.to_ne_bytes();
        let [d0, d1] = dst_port.to_ne_bytes();
        let [f0, f1] = tcp_flags.to_ne_bytes();
        let [first, second, ..] = self.words_mut();
        *first = u64::from_ne_bytes([n0, n1, ip_proto, addr_type, tos, ttl, 0, 0]);
        *second = u64::from_ne_bytes([s0, s1, d0, d1, f0, f1, 0, 0]);
    }

    /// Sets both Ethernet addresses. They are stored as one, for the reason given at `set_short`.
    #[inline(always)]
    pub(super) fn set_ethernet(&mut self, dst: [u8; 6], src: [u8; 6]) {
        const AT: usize = std::mem::offset_of!(FlowKeys, eth_dst);
        const { assert!(std::mem::offset_of!(FlowKeys, eth_src) == AT + 6) };
        let [a, b, c, d, e, f] = dst;
        let [g, h, i, j, k, l] = src;
        if let Some(both) = self
            .octets_mut()
            .get_mut(AT..)
            .and_then(|rest| rest.first_chunk_mut())
        {
            *both = [a, b, c, d, e, f, g, h, i, j, k, l];
        }
    }

    /// Returns the IPv4 source address.
    #[inline]
    pub fn src_v4(&self) -> [u8; 4] {
        [self.src[0], self.src[1], self.src[2], self.src[3]]
    }

    /// Returns the IPv4 destination address.
    #[inline]
    pub fn dst_v4(&self) -> [u8; 4] {
        [self.dst[0], self.dst[1], self.dst[2], self.dst[3]]
    }

    /// Sets the IPv4 source address.
    #[inline]
    pub fn set_src_v4(&mut self, to: [u8; 4]) {
        self.src = pad4(to);
    }

    /// Sets the IPv4 destination address.
    #[inline]
    pub fn set_dst_v4(&mut self, to: [u8; 4]) {
        self.dst = pad4(to);
    }
}

impl Default for FlowKeys {
    fn default() -> FlowKeys {
        FlowKeys::EMPTY
    }
}

#[inline]
pub(super) fn pad4([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

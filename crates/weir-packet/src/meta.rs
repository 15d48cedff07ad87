// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Meta`: the public part of a packet's metadata, and the types of its fields.
//!
//! It takes 48 of the 64 bytes of a packet's cache line; the other 16 are accessed through the
//! methods of [`crate::Packet`]. Names and meanings are those of `struct sk_buff`.

/// The addressee according to the link-layer address; the values of `PACKET_*` in
/// linux/if_packet.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum PacketType {
    /// This host.
    #[default]
    Host = 0,
    /// All hosts.
    Broadcast = 1,
    /// A multicast group.
    Multicast = 2,
    /// Another host.
    OtherHost = 3,
    /// The packet originates from this host.
    Outgoing = 4,
    /// A looped back multicast or broadcast.
    Loopback = 5,
}

/// Flags of a packet, like the bits of `struct sk_buff`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Flags(u8);

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags(0);
    /// `tc_at_ingress`: the packet is at the ingress hook.
    pub const AT_INGRESS: Flags = Flags(1);
    /// `redirected`: mirred sent it here.
    pub const REDIRECTED: Flags = Flags(2);
    /// `from_ingress`: redirected out of an ingress hook.
    pub const FROM_INGRESS: Flags = Flags(4);
    /// `tc_skip_classify`: the next tc hook passes the packet without classification.
    pub const SKIP_CLASSIFY: Flags = Flags(8);
    /// The transport checksum is known to be correct (`CHECKSUM_UNNECESSARY`).
    pub const CSUM_GOOD: Flags = Flags(16);
    /// The packet was created by this stack, not received.
    pub const LOCAL: Flags = Flags(32);
    /// The packet is being forwarded between devices.
    pub const FORWARDED: Flags = Flags(64);
    /// The packet was reassembled from fragments.
    pub const REASSEMBLED: Flags = Flags(128);

    /// Returns true if all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets the bits of `other`.
    #[inline]
    pub const fn insert(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Clears the bits of `other`.
    #[inline]
    pub const fn remove(&mut self, other: Flags) {
        self.0 &= !other.0;
    }

    /// Returns the raw bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flags({:#04x})", self.0)
    }
}

/// What a tunnel knows of the sender of a packet, by which neighbour discovery judges its messages (`ndisc_nodetype`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum NodeType {
    /// Nothing.
    #[default]
    Unspecified = 0,
    /// It is a host.
    Host = 1,
    /// It is a router that is no default router.
    NoDefault = 2,
    /// It is a default router.
    Default = 3,
}

/// A VLAN tag: protocol (0x8100 or 0x88a8) and control information (PCP, DEI, VID).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag {
    /// `ETH_P_8021Q` or `ETH_P_8021AD`.
    pub proto: u16,
    /// Priority (3 bits), DEI (1), VLAN id (12).
    pub tci: u16,
}

impl VlanTag {
    /// Returns the VLAN id, 12 bits.
    #[inline]
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }

    /// Returns the priority, 3 bits.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }
}

/// How a long packet is to be split into segments (`gso_size`, `gso_segs` and `gso_type` of
/// `struct skb_shared_info`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segments {
    /// Bytes of payload of each segment but the last, at least 1.
    pub size: u16,
    /// The number of segments, at least 2.
    pub count: u16,
    /// Bytes of the network and the transport header.
    pub headers: u16,
    /// The protocol.
    pub kind: SegmentKind,
    /// The segments have the same IPv4 identification (`SKB_GSO_TCP_FIXEDID`). Otherwise it grows by 1 from
    /// one to the next.
    pub fixed_id: bool,
}

/// The protocol of a long packet (`SKB_GSO_TCPV4`, `SKB_GSO_TCPV6`, `SKB_GSO_UDP_L4`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SegmentKind {
    /// TCP over IPv4.
    TcpV4 = 0,
    /// TCP over IPv6.
    TcpV6 = 1,
    /// UDP over IPv4 or IPv6.
    Udp = 2,
}

/// The long packets that a receiver takes as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LongPackets {
    /// The longest packet, in bytes from the link-layer header on. 0 takes none.
    pub max_len: u32,
    /// Datagrams (`SKB_GSO_UDP_L4`) besides TCP segments.
    pub udp: bool,
}

impl LongPackets {
    /// No long packet.
    pub const NONE: LongPackets = LongPackets {
        max_len: 0,
        udp: false,
    };

    /// Returns whether a packet of `len` bytes that stands for these segments is among them.
    #[inline]
    pub fn takes(self, len: usize, segments: Segments) -> bool {
        len as u64 <= u64::from(self.max_len) && (self.udp || segments.kind != SegmentKind::Udp)
    }
}

impl Segments {
    /// Returns the length of the longest segment from its network header on, in bytes.
    #[inline]
    pub fn longest(self) -> usize {
        usize::from(self.headers) + usize::from(self.size)
    }

    pub(crate) fn pack(self) -> u64 {
        u64::from(self.size)
            | u64::from(self.count) << 16
            | u64::from(self.headers) << 32
            | (self.kind as u64) << 48
            | u64::from(self.fixed_id) << 56
    }

    pub(crate) fn unpack(word: u64) -> Self {
        Self {
            size: word as u16,
            count: (word >> 16) as u16,
            headers: (word >> 32) as u16,
            kind: match (word >> 48) as u8 {
                0 => SegmentKind::TcpV4,
                1 => SegmentKind::TcpV6,
                _ => SegmentKind::Udp,
            },
            fixed_id: word >> 56 != 0,
        }
    }
}

/// The public part of a packet's metadata.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Meta {
    /// `skb->mark`. Set to 0 by allocation.
    pub mark: u32,
    /// `skb->priority`: the class for classful qdiscs. Set to 0 by allocation.
    pub priority: u32,
    /// The id of a trace record, or 0 for none. Set to 0 by allocation.
    pub trace: u32,
    /// `skb->hash`: the cached flow hash, or 0 if it is not computed. Set to 0 by allocation.
    pub hash: u32,
    /// `skb->tc_index`. Set to 0 by allocation.
    pub tc_index: u16,
    /// Flags. Cleared by allocation.
    pub flags: Flags,
    /// The depth of mirred redirections. Set to 0 by allocation.
    pub nest: u8,
    /// The ethertype of the payload, in host order, after the tag in [`crate::Packet::vlan`]. Set
    /// to 0 by allocation.
    pub protocol: u16,
    /// `skb->queue_mapping`. Set to 0 by allocation.
    pub queue: u16,
    /// The tc chain to continue with after a miss. Set to 0 by allocation and by passing through a
    /// lockless list.
    pub chain: u32,
    /// Scratch space of the stage that holds the packet. Set to 0 by allocation and by passing
    /// through a lockless list.
    pub cb: u32,
    /// Time stamp, in nanoseconds of the stack's clock. `alloc_bulk` does not initialise it.
    pub time: u64,
    /// The key of the device the packet is on. `alloc_bulk` does not initialise it; passing through
    /// a lockless list sets it to 0.
    pub dev: u32,
    /// The ifindex of the device that received the packet (`skb->skb_iif`), or 0 for a local
    /// packet. `alloc_bulk` does not initialise it.
    pub iif: u32,
}

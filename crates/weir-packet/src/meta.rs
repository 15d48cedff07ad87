// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Meta`: the public part of a packet's metadata, and the types in it.
//!
//! 48 of the 64 bytes of a packet's cache line; the other 16 are behind the
//! methods of [`crate::Packet`]. Names and meanings are those of `struct sk_buff`.

/// Whom the link-layer address names; the values of `PACKET_*` in linux/if_packet.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// To all.
    Broadcast = 1,
    /// To a group.
    Multicast = 2,
    /// To someone else.
    OtherHost = 3,
    /// Originated here.
    Outgoing = 4,
    /// Looped back multicast or broadcast.
    Loopback = 5,
}

/// Marks on a packet's way, as the bits of `struct sk_buff`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Flags(u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// `tc_at_ingress`: the ingress hook runs.
    pub const AT_INGRESS: Flags = Flags(1);
    /// `redirected`: mirred sent it here.
    pub const REDIRECTED: Flags = Flags(2);
    /// `from_ingress`: redirected out of an ingress hook.
    pub const FROM_INGRESS: Flags = Flags(4);
    /// `tc_skip_classify`: the next tc hook lets it pass unclassified.
    pub const SKIP_CLASSIFY: Flags = Flags(8);
    /// Transport checksum known to be good (`CHECKSUM_UNNECESSARY`).
    pub const CSUM_GOOD: Flags = Flags(16);
    /// Made by this stack, not received.
    pub const LOCAL: Flags = Flags(32);
    /// Forwarded between devices.
    pub const FORWARDED: Flags = Flags(64);
    /// Reassembled from fragments.
    pub const REASSEMBLED: Flags = Flags(128);

    /// Whether all bits of `other` are set.
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

    /// The raw bits.
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

/// A VLAN tag: protocol (0x8100 or 0x88a8) and control information (PCP, DEI, VID).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlanTag {
    /// `ETH_P_8021Q` or `ETH_P_8021AD`.
    pub proto: u16,
    /// Priority (3 bits), DEI (1), VLAN id (12).
    pub tci: u16,
}

impl VlanTag {
    /// VLAN id, 12 bits.
    #[inline]
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }

    /// Priority, 3 bits.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }
}

/// The public part of a packet's metadata.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Meta {
    /// `skb->mark`; allocation: 0.
    pub mark: u32,
    /// `skb->priority`: class for classful qdiscs; allocation: 0.
    pub priority: u32,
    /// Id of a trace record, 0 none; allocation: 0.
    pub trace: u32,
    /// `skb->hash`: cached flow hash, 0 not computed; allocation: 0.
    pub hash: u32,
    /// `skb->tc_index`; allocation: 0.
    pub tc_index: u16,
    /// Marks; allocation: none.
    pub flags: Flags,
    /// Depth of mirred redirections; allocation: 0.
    pub nest: u8,
    /// Ethertype of the payload, host order, after the tag in [`crate::Packet::vlan`]; allocation: 0.
    pub protocol: u16,
    /// `skb->queue_mapping`; allocation: 0.
    pub queue: u16,
    /// Chain to go on with after a miss (tc); allocation and a stay in a lockless list: 0.
    pub chain: u32,
    /// Scratch of the stage that holds the packet; allocation and a stay in a lockless list: 0.
    pub cb: u32,
    /// Time stamp, ns of the stack's clock. Not initialised by `alloc_bulk`.
    pub time: u64,
    /// Key of the device the packet is on. Not initialised by `alloc_bulk`; a stay in a
    /// lockless list: 0.
    pub dev: u32,
    /// ifindex the packet was received on (`skb->skb_iif`), 0 local. Not initialised by `alloc_bulk`.
    pub iif: u32,
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields that flower can match, as one flat key, and masks over it.
//!
//! Mirrors `struct fl_flow_key` and `struct fl_flow_mask` (net/sched/cls_flower.c). A [`Key`]
//! consists of the packet's [`FlowKeys`] and one word for ranges of ports, which is zero in a
//! packet's key. Fields that a packet does not have are zero, as after Linux's dissection: a filter
//! for value 0 also matches packets without the header.
//!
//! A [`Mask`] stores only the half-words with a bit set. A filter stores its key under its mask,
//! one half-word for each of those ([`Mask::pack`]).

use std::mem::{offset_of, size_of};
use std::ops::Deref;

use weir_packet::dissect::MplsLse;
use weir_packet::{FlowKeys, Packet, Used, dissect};

/// The representation of a field's value in an attribute and in the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A byte string, the same in both.
    Octets,
    /// A number: network order in the attribute, host order in the key.
    Network,
    /// A number in host order in both.
    Host,
}

/// The position of a field in a key. Its length is 1, 2, 4, 6 or 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    at: usize,
    len: usize,
    order: Order,
}

impl Field {
    /// Returns the length in bytes.
    pub fn width(self) -> usize {
        self.len
    }

    /// Iterates over the positions in a key of the bytes of an attribute's value.
    pub fn places(self) -> impl Iterator<Item = usize> {
        let turned = self.order == Order::Network && cfg!(target_endian = "little");
        let last = self.len - 1;
        (0..self.len).map(move |i| self.at + if turned { last - i } else { i })
    }
}

/// The positions of all fields.
pub mod field {
    #![allow(missing_docs)] // The names are those of the attributes.
    use super::*;

    macro_rules! fields {
        ($($(#[$doc:meta])* $name:ident: $order:ident $len:literal $($path:ident).+;)*) => {
            $($(#[$doc])* pub const $name: Field = {
                let order = Order::$order;
                assert!(!matches!(order, Order::Network) || $len == 2 || $len == 4);
                Field { at: offset_of!(FlowKeys, $($path).+), len: $len, order }
            };)*
        };
    }

    fields! {
        /// Ethertype of the innermost protocol dissected (`basic.n_proto`).
        N_PROTO: Network 2 n_proto;
        IP_PROTO: Octets 1 ip_proto;
        NUM_OF_VLANS: Octets 1 num_of_vlans;
        /// The kind of addresses in the key.
        ADDR_TYPE: Octets 1 addr_type;
        /// `control.flags`: the bits of `TCA_FLOWER_KEY_FLAGS`.
        FLAGS: Octets 1 ip_flags;
        IP_TOS: Octets 1 tos;
        IP_TTL: Octets 1 ttl;
        ETH_DST: Octets 6 eth_dst;
        ETH_SRC: Octets 6 eth_src;
        VLAN_ID: Host 2 vlan.id;
        VLAN_PRIO: Octets 1 vlan.priority;
        VLAN_TPID: Network 2 vlan.tpid;
        VLAN_ETH_TYPE: Network 2 vlan.eth_type;
        CVLAN_ID: Host 2 cvlan.id;
        CVLAN_PRIO: Octets 1 cvlan.priority;
        CVLAN_TPID: Network 2 cvlan.tpid;
        CVLAN_ETH_TYPE: Network 2 cvlan.eth_type;
        IPV4_SRC: Octets 4 src;
        IPV4_DST: Octets 4 dst;
        IPV6_SRC: Octets 16 src;
        IPV6_DST: Octets 16 dst;
        PORT_SRC: Network 2 src_port;
        PORT_DST: Network 2 dst_port;
        TCP_FLAGS: Network 2 tcp_flags;
        ICMP_TYPE: Octets 1 icmp_type;
        ICMP_CODE: Octets 1 icmp_code;
        ARP_SIP: Octets 4 arp_sip;
        ARP_TIP: Octets 4 arp_tip;
        ARP_OP: Octets 1 arp_op;
        ARP_SHA: Octets 6 arp_sha;
        ARP_THA: Octets 6 arp_tha;
        /// The label stack entries present, one bit each.
        MPLS_USED: Octets 1 mpls_used;
        PPPOE_SID: Network 2 pppoe_sid;
        PPP_PROTO: Network 2 ppp_proto;
        L2TPV3_SID: Network 4 l2tpv3_sid;
        INDEV: Host 4 ingress_ifindex;
        HASH: Host 4 hash;
        /// The kind of addresses in the tunnel's key.
        ENC_ADDR_TYPE: Octets 1 enc_addr_type;
        ENC_IPV4_SRC: Octets 4 enc_src;
        ENC_IPV4_DST: Octets 4 enc_dst;
        ENC_IPV6_SRC: Octets 16 enc_src;
        ENC_IPV6_DST: Octets 16 enc_dst;
        ENC_KEY_ID: Network 4 enc_key_id;
        ENC_SRC_PORT: Network 2 enc_src_port;
        ENC_DST_PORT: Network 2 enc_dst_port;
        ENC_TOS: Octets 1 enc_tos;
        ENC_TTL: Octets 1 enc_ttl;
        ENC_OPTS_TYPE: Host 2 enc_opts_type;
        CT_STATE: Host 2 ct_state;
        CT_ZONE: Host 2 ct_zone;
        CT_MARK: Host 4 ct_mark;
        CT_LABELS: Octets 16 ct_labels;
    }

    const fn lse(index: usize, at: usize, len: usize) -> Field {
        let start = offset_of!(FlowKeys, mpls) + index * size_of::<MplsLse>();
        Field {
            at: start + at,
            len,
            order: Order::Host,
        }
    }
    /// Returns the label of label stack entry 0 to 6.
    pub const fn mpls_label(index: usize) -> Field {
        lse(index, offset_of!(MplsLse, label), 4)
    }
    pub const fn mpls_tc(index: usize) -> Field {
        lse(index, offset_of!(MplsLse, tc), 1)
    }
    pub const fn mpls_bos(index: usize) -> Field {
        lse(index, offset_of!(MplsLse, bos), 1)
    }
    pub const fn mpls_ttl(index: usize) -> Field {
        lse(index, offset_of!(MplsLse, ttl), 1)
    }

    const fn range(index: usize) -> Field {
        Field {
            at: size_of::<FlowKeys>() + 2 * index,
            len: 2,
            order: Order::Network,
        }
    }
    pub const PORT_DST_MIN: Field = range(0);
    pub const PORT_DST_MAX: Field = range(1);
    pub const PORT_SRC_MIN: Field = range(2);
    pub const PORT_SRC_MAX: Field = range(3);
}

/// The number of words of a key: those of [`FlowKeys`] and the word of the ranges.
pub const WORDS: usize = FlowKeys::WORDS + 1;

/// A flat key; see the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Key {
    /// The fields of a packet.
    pub flow: FlowKeys,
    /// Lower and upper bound of the destination port, and of the source port.
    ranges: [u16; 4],
}

/// The bytes of a field.
pub struct Octets {
    octets: [u8; 16],
    len: usize,
}

impl Deref for Octets {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

/// Converts a value between the representations in keys and in attributes. Numbers have two or four
/// bytes.
#[inline(always)]
fn turned<const N: usize>(mut octets: [u8; N], order: Order) -> [u8; N] {
    if (N == 2 || N == 4) && order == Order::Network && cfg!(target_endian = "little") {
        octets.reverse();
    }
    octets
}

fn ranges_word(ranges: [u16; 4]) -> u64 {
    let mut octets = [0; 8];
    for (to, from) in octets.chunks_exact_mut(2).zip(ranges) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    u64::from_ne_bytes(octets)
}

/// Splits a word into ranges of ports, in the order of the key.
fn ranges_of(word: u64) -> [u16; 4] {
    let o = word.to_ne_bytes();
    std::array::from_fn(|i| u16::from_ne_bytes([o[2 * i], o[2 * i + 1]]))
}

impl Key {
    /// Returns a word, in memory order.
    #[inline]
    fn word(&self, index: usize) -> u64 {
        match self.flow.words().get(index) {
            Some(&word) => word,
            None => ranges_word(self.ranges),
        }
    }

    fn set_word(&mut self, index: usize, word: u64) {
        match self.flow.words_mut().get_mut(index) {
            Some(place) => *place = word,
            None => self.ranges = ranges_of(word),
        }
    }

    /// Returns the bytes of a field, padded with zeros. For a field known to the compiler, as most
    /// are, this is one or two loads.
    #[inline(always)]
    fn octets(&self, field: Field) -> [u8; 16] {
        let mut octets = [0; 16];
        let all = self.flow.octets();
        if field.at < all.len() {
            octets[..field.len].copy_from_slice(&all[field.at..field.at + field.len]);
        } else {
            let range = self.ranges[(field.at - all.len()) / 2];
            octets[..2].copy_from_slice(&range.to_ne_bytes());
        }
        octets
    }

    /// Returns the value of a field as in attributes.
    #[inline(always)]
    pub fn get(&self, field: Field) -> Octets {
        let mut out = Octets {
            octets: self.octets(field),
            len: field.len,
        };
        if field.order == Order::Network && cfg!(target_endian = "little") {
            out.octets[..field.len].reverse();
        }
        out
    }

    /// Returns the bytes of a field of `N` bytes.
    #[inline(always)]
    fn array_of<const N: usize>(&self, field: Field) -> [u8; N] {
        let mut octets = [0; N];
        let all = self.flow.octets();
        if let Some(place) = all.get(field.at..).and_then(|place| place.first_chunk()) {
            octets = *place;
        } else if let Some(octets) = octets.first_chunk_mut() {
            *octets = self.ranges[(field.at - all.len()) / 2].to_ne_bytes();
        }
        octets
    }

    /// Returns the value of a field of `N` bytes as in attributes.
    #[inline(always)]
    pub fn array<const N: usize>(&self, field: Field) -> [u8; N] {
        turned(self.array_of(field), field.order)
    }

    /// Sets a field from the value of an attribute. A short value is padded with zeros, as by
    /// `nla_memcpy` into a cleared key.
    #[inline(always)]
    pub fn set(&mut self, field: Field, value: &[u8]) {
        // With a length known to the compiler each case is a load and a store.
        match field.len {
            1 => self.set_from::<1>(field, value),
            2 => self.set_from::<2>(field, value),
            4 => self.set_from::<4>(field, value),
            6 => self.set_from::<6>(field, value),
            _ => self.set_from::<16>(field, value),
        }
    }

    /// Does the same as [`set`](Self::set) for a field of `N` bytes.
    #[inline(always)]
    pub fn set_from<const N: usize>(&mut self, field: Field, value: &[u8]) {
        let mut octets = [0; N];
        match value.first_chunk() {
            Some(value) => octets = *value,
            None => octets[..value.len()].copy_from_slice(value),
        }
        self.put(field, turned(octets, field.order));
    }

    /// Sets a field of `N` bytes to bytes in the representation of keys.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, field: Field, octets: [u8; N]) {
        let all = self.flow.octets_mut();
        let len = all.len();
        let place = all.get_mut(field.at..);
        if let Some(place) = place.and_then(|place| place.first_chunk_mut()) {
            *place = octets;
        } else if let Some(octets) = octets.first_chunk() {
            self.ranges[(field.at - len) / 2] = u16::from_ne_bytes(*octets);
        }
    }

    /// Sets all bytes of a field to the same value.
    #[inline(always)]
    fn set_all(&mut self, field: Field, octet: u8) {
        match field.len {
            1 => self.put(field, [octet; 1]),
            2 => self.put(field, [octet; 2]),
            4 => self.put(field, [octet; 4]),
            6 => self.put(field, [octet; 6]),
            _ => self.put(field, [octet; 16]),
        }
    }

    /// Sets all bits of a field.
    #[inline(always)]
    pub fn fill(&mut self, field: Field) {
        self.set_all(field, 0xff);
    }

    /// Clears a field.
    #[inline(always)]
    pub fn clear(&mut self, field: Field) {
        self.set_all(field, 0);
    }

    /// Returns whether no bit of a field is set.
    #[inline(always)]
    pub fn is_zero(&self, field: Field) -> bool {
        u128::from_ne_bytes(self.octets(field)) == 0
    }

    /// Returns a field of one byte.
    #[inline(always)]
    pub fn u8(&self, field: Field) -> u8 {
        self.octets(field)[0]
    }

    /// Returns a field of two bytes that attributes hold in network order.
    #[inline(always)]
    pub fn u16(&self, field: Field) -> u16 {
        let [a, b, ..] = self.get(field).octets;
        u16::from_be_bytes([a, b])
    }

    /// Returns the bits of `self` that are set in `other`.
    #[must_use]
    pub fn and(&self, other: &Key) -> Key {
        let mut out = Key::default();
        for i in 0..WORDS {
            out.set_word(i, self.word(i) & other.word(i));
        }
        out
    }

    /// Returns whether a bit is set that is not set in `other`.
    pub fn exceeds(&self, other: &Key) -> bool {
        let words = self.flow.words().iter().zip(other.flow.words());
        let exceeding = words.fold(0, |bits, (a, b)| bits | a & !b);
        exceeding | self.ranges() & !other.ranges() != 0
    }

    /// Returns whether a bit of a field of `N` bytes is set that is not set in `other`.
    #[inline(always)]
    pub fn exceeds_in<const N: usize>(&self, field: Field, other: &Key) -> bool {
        let (here, there) = (self.array_of::<N>(field), other.array_of::<N>(field));
        let both = here.into_iter().zip(there);
        both.fold(0, |bits, (a, b)| bits | a & !b) != 0
    }

    /// Returns whether the keys are equal. Compares all words at once.
    pub fn is(&self, other: &Key) -> bool {
        self.ranges == other.ranges && self.flow.words() == other.flow.words()
    }

    /// Returns the word of the ranges.
    pub fn ranges(&self) -> u64 {
        ranges_word(self.ranges)
    }
}

/// Returns the half-word at a position; 0 beyond the last.
#[inline(always)]
pub fn half(halves: &[u32], place: u8) -> u32 {
    halves.get(usize::from(place)).copied().unwrap_or_default()
}

/// Splits the word of the ranges into half-words.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The bits of a key that are compared; see the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// All words, for dumps and comparison.
    pub key: Key,
    /// The half-words with a bit set, by position, with their bits. Those of the ranges are not
    /// included.
    halves: Box<[(u8, u32)]>,
    /// The bits of the ranges; 0 if there are no ranges.
    pub ranges: u64,
    /// The number of half-words of a packed key.
    pub width: usize,
    /// The parts of a packet that must be dissected.
    pub used: Used,
}

impl Mask {
    /// Creates the mask with the bits of `key`.
    pub fn new(key: Key) -> Self {
        let halves: Box<[_]> = (0..)
            .zip(*key.flow.halves())
            .filter(|&(_, bits)| bits != 0)
            .collect();
        let ranges = key.ranges();
        Self {
            width: halves.len() + if ranges == 0 { 0 } else { 2 },
            halves,
            ranges,
            used: used(&key),
            key,
        }
    }

    /// Returns the key under the mask, with one half-word for each of the mask's.
    pub fn pack(&self, key: &Key) -> Packed {
        let flow = key.flow.halves();
        let masked = self.halves.iter();
        let masked = masked.map(|&(place, bits)| half(flow, place) & bits);
        let ranges = (self.ranges != 0).then(|| halves(key.ranges() & self.ranges));
        masked.chain(ranges.into_iter().flatten()).collect()
    }

    /// Returns the position in a packed key of a byte of the key, or `None` if the mask has no bit
    /// in its half-word.
    pub fn place_in_packed(&self, at: usize) -> Option<usize> {
        let here = |&(place, _): &(u8, u32)| usize::from(place) == at / 4;
        Some(self.halves.iter().position(here)? * 4 + at % 4)
    }

    /// Returns the half-words with a bit set, by position, with their bits.
    pub fn halves(&self) -> &[(u8, u32)] {
        &self.halves
    }

    /// Returns the hash of a packed key without its ranges.
    pub fn sum(&self, packed: &[u32]) -> u64 {
        hash(packed.iter().take(self.halves.len()).copied())
    }

    /// Returns the hash of a packet's key under the mask, without ranges.
    #[inline]
    pub fn sum_of(&self, flow: &FlowKeys) -> u64 {
        let flow = flow.halves();
        let masked = self.halves.iter();
        hash(masked.map(|&(place, bits)| half(flow, place) & bits))
    }

    /// Returns the contribution of the word `ranges` to the hash.
    #[inline]
    pub fn sum_of_ranges(&self, ranges: u64) -> u64 {
        if self.ranges == 0 {
            return 0;
        }
        let [low, high] = halves(ranges);
        let at = self.halves.len();
        part(at, low).wrapping_add(part(at + 1, high))
    }

    /// Returns the ranges of a packed key; 0 if there are none.
    pub fn ranges_of(&self, packed: &[u32]) -> u64 {
        match packed.get(self.halves.len()..) {
            Some(&[low, high]) => u64::from(low) | u64::from(high) << 32,
            _ => 0,
        }
    }

    /// Returns the key that a packed one represents. Bits outside the mask are zero.
    pub fn unpack(&self, packed: &[u32]) -> Key {
        let mut key = Key::default();
        let flow = key.flow.halves_mut();
        for (&(place, _), &half) in self.halves.iter().zip(packed) {
            if let Some(there) = flow.get_mut(usize::from(place)) {
                *there = half;
            }
        }
        key.ranges = ranges_of(self.ranges_of(packed));
        key
    }

    /// Returns whether a packet's ports are in the ranges of a word, for those ranges that the mask
    /// has.
    #[inline]
    pub fn in_range(&self, ranges: u64, flow: &FlowKeys) -> bool {
        let [dst_counts, _, src_counts, _] = ranges_of(self.ranges);
        let [dst_min, dst_max, src_min, src_max] = ranges_of(ranges);
        (dst_counts == 0 || (dst_min..=dst_max).contains(&flow.dst_port))
            && (src_counts == 0 || (src_min..=src_max).contains(&flow.src_port))
    }

    /// Returns a packet's key under the mask, with `ranges` as its ranges.
    #[inline]
    pub fn masked<'a>(&'a self, flow: &'a FlowKeys, ranges: u64) -> Masked<'a> {
        Masked {
            mask: self,
            flow,
            ranges,
        }
    }
}

/// A packet's key under a mask, which can be compared without being stored.
#[derive(Debug, Clone, Copy)]
pub struct Masked<'a> {
    mask: &'a Mask,
    flow: &'a FlowKeys,
    ranges: u64,
}

impl Masked<'_> {
    /// Returns whether the key equals `packed`.
    #[inline]
    pub fn is(&self, packed: &[u32]) -> bool {
        let flow = self.flow.halves();
        let mut differ = 0;
        for (&(place, bits), &packed) in self.mask.halves.iter().zip(packed) {
            differ |= (half(flow, place) & bits) ^ packed;
        }
        differ == 0 && self.mask.ranges_of(packed) == self.ranges
    }
}

/// Numbers without a pattern: the first 512 bits of the fraction of pi, made odd.
const FACTORS: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2f_0370_7345,
    0xa409_3823_299f_31d1,
    0x082e_fa99_ec4e_6c89,
    0x4528_21e7_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

/// Returns the factor of half-word `index` of a packed key.
#[inline(always)]
pub fn factor(index: usize) -> u32 {
    let both = FACTORS[index / 2 % FACTORS.len()];
    let both = both.rotate_left(2 * (index / 2 / FACTORS.len()) as u32);
    (both >> (32 * (index % 2))) as u32 | 1
}

/// Returns the contribution of a half-word to the hash of a key. The contributions of all
/// half-words are added, so none depends on another. A half-word of zero contributes nothing. The
/// factors have 32 bits because vector instructions can multiply 32 by 32 bits.
#[inline(always)]
pub fn part(index: usize, half: u32) -> u64 {
    u64::from(half) * u64::from(factor(index))
}

/// The number of half-words that a packed key holds without allocating.
pub const INLINE: usize = 8;

/// A key under its mask before it is stored in a filter: only the masked half-words.
#[derive(Debug, Clone)]
pub struct Packed(Halves);

#[derive(Debug, Clone)]
enum Halves {
    Few(u8, [u32; INLINE]),
    Many(Box<[u32]>),
}

impl FromIterator<u32> for Packed {
    fn from_iter<I: IntoIterator<Item = u32>>(halves: I) -> Self {
        let mut rest = halves.into_iter();
        let (mut few, mut len) = ([0; INLINE], 0);
        while let Some(half) = rest.next() {
            let Some(place) = few.get_mut(len) else {
                let mut many = Vec::with_capacity(INLINE + 1 + rest.size_hint().0);
                many.extend(few);
                many.push(half);
                many.extend(rest);
                return Self(Halves::Many(many.into()));
            };
            *place = half;
            len += 1;
        }
        Self(Halves::Few(len as u8, few))
    }
}

impl Deref for Packed {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match &self.0 {
            Halves::Few(len, halves) => &halves[..usize::from(*len).min(INLINE)],
            Halves::Many(halves) => halves,
        }
    }
}

/// Returns the hash of a packed key.
pub fn sum(packed: &[u32]) -> u64 {
    hash(packed.iter().copied())
}

#[inline(always)]
fn hash(halves: impl Iterator<Item = u32>) -> u64 {
    halves
        .enumerate()
        .fold(0, |sum, (i, half)| sum.wrapping_add(part(i, half)))
}

/// Returns the groups that a mask needs from the dissector.
fn used(mask: &Key) -> Used {
    use field as f;
    let groups: &[(Used, &[Field])] = &[
        (Used::ETH, &[f::ETH_DST, f::ETH_SRC]),
        (
            Used::VLAN,
            &[
                f::NUM_OF_VLANS,
                f::VLAN_ID,
                f::VLAN_PRIO,
                f::VLAN_TPID,
                f::VLAN_ETH_TYPE,
            ],
        ),
        (
            Used::CVLAN,
            &[f::CVLAN_ID, f::CVLAN_PRIO, f::CVLAN_TPID, f::CVLAN_ETH_TYPE],
        ),
        (Used::ADDRS, &[f::ADDR_TYPE, f::IPV6_SRC, f::IPV6_DST]),
        (Used::IP, &[f::IP_TOS, f::IP_TTL]),
        (
            Used::PORTS,
            &[f::PORT_SRC, f::PORT_DST, f::PORT_SRC_MIN, f::PORT_DST_MIN],
        ),
        (Used::TCP, &[f::TCP_FLAGS]),
        (Used::ICMP, &[f::ICMP_TYPE, f::ICMP_CODE]),
        (
            Used::ARP,
            &[f::ARP_SIP, f::ARP_TIP, f::ARP_OP, f::ARP_SHA, f::ARP_THA],
        ),
        (Used::MPLS, &[f::MPLS_USED]),
        (Used::PPPOE, &[f::PPPOE_SID, f::PPP_PROTO]),
        (Used::SESSION, &[f::L2TPV3_SID]),
        (Used::META, &[f::INDEV, f::HASH]),
        (
            Used::CT,
            &[f::CT_STATE, f::CT_ZONE, f::CT_MARK, f::CT_LABELS],
        ),
        (
            Used::TUNNEL,
            &[
                f::ENC_ADDR_TYPE,
                f::ENC_KEY_ID,
                f::ENC_SRC_PORT,
                f::ENC_DST_PORT,
                f::ENC_TOS,
                f::ENC_TTL,
                f::ENC_OPTS_TYPE,
            ],
        ),
    ];
    let mut used = Used::BASIC;
    for (group, fields) in groups {
        if fields.iter().any(|&field| !mask.is_zero(field)) {
            used |= *group;
        }
    }
    // The dissector can only tell the second tag from the first if it looks at both.
    if used.has(Used::CVLAN) {
        used |= Used::VLAN;
    }
    used
}

/// Dissects a packet as flower does, at least into the groups `used`. Groups that are not requested
/// keep the values of previous packets.
#[inline]
pub fn keys_of(packet: &Packet, used: Used, keys: &mut FlowKeys) {
    dissect(packet, used, keys);
}

/// The cached dissection of a packet.
#[derive(Debug, Default)]
pub struct Flow {
    keys: FlowKeys,
    used: Option<Used>,
}

impl Flow {
    /// Invalidates the cache because the packet has changed, or because another one follows.
    #[inline]
    pub fn forget(&mut self) {
        self.used = None;
    }

    /// Sets the keys of the packet's connection, after [`of`](Self::of).
    #[inline]
    pub fn connection(&mut self, state: u16, zone: u16, mark: u32, labels: [u8; 16]) -> &FlowKeys {
        let keys = &mut self.keys;
        (keys.ct_state, keys.ct_zone) = (state, zone);
        (keys.ct_mark, keys.ct_labels) = (mark, labels);
        keys
    }

    /// Returns the keys of `packet` with at least the groups in `used`.
    #[inline]
    pub fn of(&mut self, packet: &Packet, used: Used) -> &FlowKeys {
        match self.used {
            Some(have) if have.has(used) => {}
            have => {
                let used = used | have.unwrap_or(Used::BASIC);
                keys_of(packet, used, &mut self.keys);
                self.used = Some(used);
            }
        }
        &self.keys
    }
}

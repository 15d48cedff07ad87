// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tuple in the form in which the table stores and compares it, and its hash.

use crate::tuple::{Direction, Family, Tuple, Zone};

/// The secret of a table's hashes, so that nobody can aim connections at one bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret([u64; 2]);

/// Multiplies to 128 bits and folds them.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product as u64) ^ (product >> 64) as u64
}

impl Secret {
    pub(crate) fn new(seed: u64) -> Self {
        let first = fold(seed ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9);
        let second = fold(first ^ 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93);
        Self([first | 1, second | 1])
    }

    /// Hashes two words.
    #[inline(always)]
    pub(crate) fn hash(&self, a: u64, b: u64) -> u64 {
        let once = fold(a ^ self.0[0], b ^ self.0[1]);
        fold(once ^ self.0[1], 0x9e37_79b9_7f4a_7c15)
    }

    /// The hashes of an IPv6 tuple's addresses.
    #[inline(never)]
    fn addresses(&self, tuple: &Tuple) -> (u32, u32) {
        let [src, dst] = [&tuple.src, &tuple.dst].map(|octets| {
            let word = u128::from_be_bytes(*octets);
            self.hash(word as u64, (word >> 64) as u64) as u32
        });
        (src, dst)
    }
}

/// The key of a direction as an entry holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Words {
    /// The source in the lower half and the destination in the upper one, their bytes as in the packet. For IPv6 these
    /// are hashes of the addresses.
    pub(crate) addresses: u64,
    /// The source port in the lower half and the destination port in the upper one.
    pub(crate) ports: u32,
    /// Zone, protocol and family; see [`meta`].
    pub(crate) meta: u32,
}

/// A tuple to be looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) tuple: &'a Tuple,
    pub(crate) words: Words,
    pub(crate) hash: u64,
}

/// The bit of [`meta`] that says IPv6.
pub(crate) const IPV6: u32 = 1 << 24;

/// Packs zone, protocol and family.
#[inline(always)]
pub(crate) fn meta(zone: u16, protocol: u8, family: Family) -> u32 {
    let meta = u32::from(zone) | u32::from(protocol) << 16;
    match family {
        Family::V4 => meta,
        Family::V6 => meta | IPV6,
    }
}

impl Words {
    #[inline(always)]
    fn new(secret: &Secret, tuple: &Tuple, zone: u16) -> Self {
        let first = |octets: &[u8; 16]| {
            let [a, b, c, d, ..] = *octets;
            u32::from_ne_bytes([a, b, c, d])
        };
        let (src, dst) = match tuple.family {
            Family::V4 => (first(&tuple.src), first(&tuple.dst)),
            Family::V6 => secret.addresses(tuple),
        };
        Self {
            addresses: u64::from(src) | u64::from(dst) << 32,
            ports: u32::from(tuple.src_port) | u32::from(tuple.dst_port) << 16,
            meta: meta(zone, tuple.protocol, tuple.family),
        }
    }

    /// Hashes the words.
    #[inline(always)]
    pub(crate) fn hash(self, secret: &Secret) -> u64 {
        let rest = u64::from(self.ports) | u64::from(self.meta) << 32;
        secret.hash(self.addresses, rest)
    }
}

impl<'a> Key<'a> {
    #[inline(always)]
    pub(crate) fn new(secret: &Secret, tuple: &'a Tuple, zone: u16) -> Self {
        let words = Words::new(secret, tuple, zone);
        let hash = words.hash(secret);
        Self { tuple, words, hash }
    }

    #[inline]
    pub(crate) fn of(secret: &Secret, tuple: &'a Tuple, zone: Zone, direction: Direction) -> Self {
        Self::new(secret, tuple, zone.of(direction))
    }
}

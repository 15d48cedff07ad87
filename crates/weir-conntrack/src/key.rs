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
    pub(crate) fn hash(self, a: u64, b: u64) -> u64 {
        let once = fold(a ^ self.0[0], b ^ self.0[1]);
        fold(once ^ self.0[1], 0x9e37_79b9_7f4a_7c15)
    }

    fn address(self, octets: &[u8; 16]) -> u32 {
        let word = u128::from_be_bytes(*octets);
        self.hash(word as u64, (word >> 64) as u64) as u32
    }
}

/// The words of an entry that hold a direction's tuple: source, destination, and both ports. For IPv6 the first
/// two are hashes of the addresses.
pub(crate) type Words3 = [u32; 3];

/// A tuple to be looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) tuple: &'a Tuple,
    pub(crate) words: Words3,
    /// Zone, protocol and family; see [`meta`].
    pub(crate) meta: u32,
    pub(crate) hash: u64,
}

/// Packs zone, protocol and family.
#[inline(always)]
pub(crate) fn meta(zone: u16, protocol: u8, family: Family) -> u32 {
    let v6 = (family as u32) >> 3;
    u32::from(zone) | u32::from(protocol) << 16 | v6 << 24
}

/// Returns the words of a tuple.
#[inline(always)]
pub(crate) fn words(secret: Secret, tuple: &Tuple) -> Words3 {
    let ports = u32::from(tuple.src_port) << 16 | u32::from(tuple.dst_port);
    let first = |octets: &[u8; 16]| {
        let [a, b, c, d, ..] = *octets;
        u32::from_be_bytes([a, b, c, d])
    };
    match tuple.family {
        Family::V4 => [first(&tuple.src), first(&tuple.dst), ports],
        Family::V6 => [
            secret.address(&tuple.src),
            secret.address(&tuple.dst),
            ports,
        ],
    }
}

/// Returns the hash of a tuple's words in a zone.
#[inline(always)]
pub(crate) fn hash(secret: Secret, words: Words3, meta: u32) -> u64 {
    secret.hash(
        u64::from(words[0]) | u64::from(words[1]) << 32,
        u64::from(words[2]) | u64::from(meta) << 32,
    )
}

impl<'a> Key<'a> {
    #[inline]
    pub(crate) fn new(secret: Secret, tuple: &'a Tuple, zone: u16) -> Self {
        let words = words(secret, tuple);
        let meta = meta(zone, tuple.protocol, tuple.family);
        Self {
            tuple,
            words,
            meta,
            hash: hash(secret, words, meta),
        }
    }

    #[inline]
    pub(crate) fn of(secret: Secret, tuple: &'a Tuple, zone: Zone, direction: Direction) -> Self {
        Self::new(secret, tuple, zone.of(direction))
    }
}

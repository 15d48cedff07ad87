// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stable, semantically opaque interface identifiers (RFC 7217; `ipv6_generate_stable_address`).
//!
//! The identifier is the beginning of the SHA-1 state after one block: the secret, the prefix, the
//! device's permanent address (zeros, as devices of link kinds have none), and a counter. Identifiers
//! that RFC 5453 reserves are passed over.

use std::net::Ipv6Addr;

/// The number of identifiers to try (`idgen_retries`).
const RETRIES: u8 = 3;

/// Returns the address in a prefix of 64 bits that belongs to a secret.
pub(super) fn derive(secret: Ipv6Addr, prefix: Ipv6Addr) -> Option<Ipv6Addr> {
    (0..=RETRIES).find_map(|count| {
        let mut block = [0; 64];
        let parts = secret
            .octets()
            .into_iter()
            .chain(prefix.octets().into_iter().take(8));
        for (to, from) in block.iter_mut().zip(parts) {
            *to = from;
        }
        block[56] = count;
        let state = sha1_block(&block);
        // Linux copies the words as they lie in the memory of a little-endian machine.
        let low = u64::from(state[0].swap_bytes()) << 32 | u64::from(state[1].swap_bytes());
        let address = u128::from(prefix) >> 64 << 64 | u128::from(low);
        (!is_reserved(low)).then(|| address.into())
    })
}

/// Returns whether an identifier is reserved (`ipv6_reserved_interfaceid`).
pub(super) fn is_reserved(id: u64) -> bool {
    id == 0
        || id >> 32 == 0x0200_5eff
        || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&id)
}

/// Returns the state of SHA-1 after one block (FIPS 180-4, 6.1.2).
fn sha1_block(block: &[u8; 64]) -> [u32; 5] {
    let start = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0_u32,
    ];
    let mut words = [0_u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..80 {
        words[at] =
            (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = start;
    for (round, word) in words.iter().enumerate() {
        let (mix, constant) = match round {
            0..20 => (b & c | !b & d, 0x5a82_7999),
            20..40 => (b ^ c ^ d, 0x6ed9_eba1),
            40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = [mix, e, constant, *word]
            .into_iter()
            .fold(a.rotate_left(5), u32::wrapping_add);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    let mut state = start;
    for (sum, more) in state.iter_mut().zip([a, b, c, d, e]) {
        *sum = sum.wrapping_add(more);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_of_sha1() {
        // "abc" with its padding (FIPS 180-1, appendix A).
        let mut block = [0; 64];
        block[..4].copy_from_slice(b"abc\x80");
        block[63] = 24;
        let expected = [
            0xa999_3e36,
            0x4706_816a,
            0xba3e_2571,
            0x7850_c26c,
            0x9cd0_d89d,
        ];
        assert_eq!(sha1_block(&block), expected);
    }
}

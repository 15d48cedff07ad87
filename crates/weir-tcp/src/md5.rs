// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP MD5 signatures (RFC 2385) with the digest of RFC 1321. The digest protects BGP sessions against blind resets where
//! peers know nothing better; it is no good for anything else.

use std::net::IpAddr;

/// `floor(2^32 * abs(sin(i + 1)))`
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];
/// By how much the four rounds rotate.
const ROTATE: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];
const BLOCK: usize = 64;
/// The length of a digest, in bytes.
pub const DIGEST: usize = 16;

/// A digest in the making.
#[derive(Debug, Clone)]
pub struct Md5 {
    state: [u32; 4],
    /// Bytes so far.
    length: u64,
    block: [u8; BLOCK],
}

impl Default for Md5 {
    fn default() -> Self {
        Self {
            state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
            length: 0,
            block: [0; BLOCK],
        }
    }
}

impl Md5 {
    /// Takes bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = self.length as usize % BLOCK;
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - filled));
            self.block[filled..filled + now.len()].copy_from_slice(now);
            self.length += now.len() as u64;
            bytes = rest;
            if self.length.is_multiple_of(BLOCK as u64) {
                self.round();
            }
        }
    }

    /// Returns the digest.
    pub fn finish(mut self) -> [u8; DIGEST] {
        let bits = self.length.wrapping_mul(8).to_le_bytes();
        let padding = BLOCK - (self.length as usize + 8) % BLOCK;
        let mut tail = [0; BLOCK];
        tail[0] = 0x80;
        self.update(&tail[..padding]);
        self.update(&bits);
        let mut digest = [0; DIGEST];
        for (place, word) in digest.chunks_exact_mut(4).zip(self.state) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    fn round(&mut self) {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(4)) {
            *word = bytes.try_into().map_or(0, u32::from_le_bytes);
        }
        let [mut a, mut b, mut c, mut d] = self.state;
        for (i, sine) in SINES.iter().enumerate() {
            let (mixed, index) = match i / 16 {
                0 => (b & c | !b & d, i),
                1 => (d & b | !d & c, 5 * i + 1),
                2 => (b ^ c ^ d, 3 * i + 5),
                _ => (c ^ (b | !d), 7 * i),
            };
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(*sine)
                .wrapping_add(words[index % 16]);
            let next = b.wrapping_add(sum.rotate_left(ROTATE[i / 16][i % 4]));
            (a, d, c, b) = (d, c, b, next);
        }
        for (state, word) in self.state.iter_mut().zip([a, b, c, d]) {
            *state = state.wrapping_add(word);
        }
    }
}

/// Returns the signature of a segment: `header` is its header with options, of which only the fixed part counts, with
/// whatever checksum.
pub fn sign(key: &[u8], from: IpAddr, to: IpAddr, header: &[u8], data: &[u8]) -> [u8; DIGEST] {
    let mut md5 = Md5::default();
    let length = header.len() + data.len();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            md5.update(&from.octets());
            md5.update(&to.octets());
            md5.update(&[0, 6]);
            md5.update(&(length as u16).to_be_bytes());
        }
        (from, to) => {
            for ip in [from, to] {
                match ip {
                    IpAddr::V4(ip) => md5.update(&ip.to_ipv6_mapped().octets()),
                    IpAddr::V6(ip) => md5.update(&ip.octets()),
                }
            }
            md5.update(&(length as u32).to_be_bytes());
            md5.update(&6u32.to_be_bytes());
        }
    }
    md5.update(header.get(..16).unwrap_or(header));
    md5.update(&[0, 0]);
    md5.update(header.get(18..20).unwrap_or_default());
    md5.update(data);
    md5.update(key);
    md5.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn digest(bytes: &[u8]) -> String {
        let mut md5 = Md5::default();
        md5.update(bytes);
        hex(&md5.finish())
    }

    /// The test suite of RFC 1321, A.5.
    #[test]
    fn digests_are_those_of_the_rfc() {
        let vectors = [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ];
        for (text, expected) in vectors {
            assert_eq!(digest(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn pieces_give_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..200).collect();
        for cut in 0..200 {
            let mut md5 = Md5::default();
            md5.update(&bytes[..cut]);
            md5.update(&bytes[cut..]);
            assert_eq!(hex(&md5.finish()), digest(&bytes));
        }
    }

    #[test]
    fn a_signature_depends_on_all_but_checksum_and_options() {
        let (from, to) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let header = [1; 40];
        let signed = |header: &[u8], data: &[u8], key: &[u8]| sign(key, from, to, header, data);
        let first = signed(&header, b"data", b"key");
        let mut other = header;
        other[16..18].fill(7);
        other[25] = 9;
        assert_eq!(signed(&other, b"data", b"key"), first);
        other[18] = 0;
        assert_ne!(signed(&other, b"data", b"key"), first);
        assert_ne!(signed(&header, b"date", b"key"), first);
        assert_ne!(signed(&header, b"data", b"kez"), first);
        assert_ne!(sign(b"key", to, from, &header, b"data"), first);
    }
}

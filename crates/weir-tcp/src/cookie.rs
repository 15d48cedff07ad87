// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYN cookies (RFC 4987; `net/ipv4/syncookies.c`): the listener's sequence number is a keyed hash of the addresses, and
//! contains the peer's MSS. The other options are in the low bits of the timestamp.

use crate::options::Options;

/// The values of the MSS that a cookie can express.
const MSS_TABLE: [u16; 4] = [536, 1300, 1440, 1460];
/// Bits of the hash below the counter.
const BITS: u32 = 24;
const MASK: u32 = (1 << BITS) - 1;
/// For how many minutes a cookie counts.
const MAX_AGE: u32 = 2;
/// Bits of the timestamp that carry options.
const OPTION_BITS: u32 = 6;
const MINUTE: u64 = 60 * crate::time::SECOND;

/// The key of a namespace's cookies and sequence numbers.
#[derive(Debug, Clone, Copy)]
pub struct Secret(pub [u64; 4]);

/// What the timestamp of a cookie remembers of the SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remembered {
    /// The peer's window scale.
    pub window_scale: Option<u8>,
    /// The peer understands SACK.
    pub sack: bool,
    /// The peer asked for ECN.
    pub ecn: bool,
}

impl Secret {
    /// A keyed hash of `bytes` (SipHash-2-4). `which` is 0 or 1: two independent keys.
    pub fn hash(&self, which: usize, bytes: &[u8]) -> u64 {
        let at = (which & 1) * 2;
        siphash(self.0[at], self.0[at + 1], bytes)
    }

    fn cookie_hash(&self, which: usize, tuple: &[u8], count: u32) -> u32 {
        let mut bytes = Vec::with_capacity(tuple.len() + 4);
        bytes.extend_from_slice(tuple);
        bytes.extend_from_slice(&count.to_le_bytes());
        self.hash(which, &bytes) as u32
    }

    /// Makes a cookie for a SYN with sequence number `irs` and the peer's `mss`. `tuple` is the addresses and ports.
    pub fn make(&self, now: u64, tuple: &[u8], irs: u32, mss: u16) -> u32 {
        let index = MSS_TABLE.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
        let count = (now / MINUTE) as u32;
        let hash = self.cookie_hash(1, tuple, count);
        self.cookie_hash(0, tuple, 0)
            .wrapping_add(irs)
            .wrapping_add(count << BITS)
            .wrapping_add(hash.wrapping_add(index) & MASK)
    }

    /// Returns the MSS of a cookie that this listener made, not too long ago.
    pub fn check(&self, now: u64, tuple: &[u8], irs: u32, cookie: u32) -> Option<u16> {
        let count = (now / MINUTE) as u32;
        let value = cookie
            .wrapping_sub(self.cookie_hash(0, tuple, 0))
            .wrapping_sub(irs);
        let age = count.wrapping_sub(value >> BITS) & (u32::MAX >> BITS);
        if age >= MAX_AGE {
            return None;
        }
        let hash = self.cookie_hash(1, tuple, count.wrapping_sub(age));
        let index = value.wrapping_sub(hash) & MASK;
        MSS_TABLE.get(index as usize).copied()
    }
}

/// The timestamp, not after `clock` (ms), whose low bits remember options (`cookie_init_timestamp`).
pub fn timestamp(clock: u32, remembered: &Remembered) -> u32 {
    let mut bits = u32::from(remembered.window_scale.unwrap_or(15) & 15);
    bits |= u32::from(remembered.sack) << 4;
    bits |= u32::from(remembered.ecn) << 5;
    let value = clock >> OPTION_BITS << OPTION_BITS | bits;
    if value > clock {
        value.wrapping_sub(1 << OPTION_BITS)
    } else {
        value
    }
}

/// What the echoed timestamp remembers (`cookie_timestamp_decode`).
pub fn remembered(options: &Options) -> Remembered {
    match options.timestamps {
        None => Remembered::default(),
        Some((_, echo)) => Remembered {
            window_scale: Some((echo & 15) as u8).filter(|&scale| scale != 15),
            sack: echo & 16 != 0,
            ecn: echo & 32 != 0,
        },
    }
}

/// SipHash-2-4.
pub(crate) fn siphash(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    fn round(v: &mut [u64; 4]) {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
    let mut chunks = bytes.chunks_exact(8);
    let mut take = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    for chunk in &mut chunks {
        take(chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    let mut last = [0; 8];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    take(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the SipHash paper.
    #[test]
    fn siphash_matches_its_paper() {
        let key: Vec<u8> = (0..16).collect();
        let k0 = u64::from_le_bytes(key[..8].try_into().expect("8 bytes"));
        let k1 = u64::from_le_bytes(key[8..].try_into().expect("8 bytes"));
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(k0, k1, &message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn a_cookie_returns_the_mss_for_two_minutes() {
        let secret = Secret([1, 2, 3, 4]);
        let now = 1000 * MINUTE + 5;
        let cookie = secret.make(now, b"tuple", 77, 1450);
        assert_eq!(secret.check(now, b"tuple", 77, cookie), Some(1440));
        assert_eq!(secret.check(now + MINUTE, b"tuple", 77, cookie), Some(1440));
        assert_eq!(secret.check(now + 2 * MINUTE, b"tuple", 77, cookie), None);
        assert_eq!(secret.check(now, b"other", 77, cookie), None);
        assert_eq!(secret.check(now, b"tuple", 1000, cookie), None);
        assert_eq!(secret.check(now, b"tuple", 77, cookie ^ 1 << 20), None);
    }

    #[test]
    fn timestamps_remember_and_stay_in_the_past() {
        for clock in [100_000, 100_031, 100_063] {
            let what = Remembered {
                window_scale: Some(7),
                sack: true,
                ecn: false,
            };
            let value = timestamp(clock, &what);
            assert!(value <= clock && clock - value < 128);
            let options = Options {
                timestamps: Some((0, value)),
                ..Options::default()
            };
            assert_eq!(remembered(&options), what);
        }
    }
}

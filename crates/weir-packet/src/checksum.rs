// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The internet checksum (RFC 1071), pseudo headers and incremental updates (RFC 1624).
//!
//! [`Sum`] accumulates. [`Sum::finish`] returns the 16-bit value to store in a header, as a number
//! to be written in big-endian order. A block verifies if the sum over it, including the checksum
//! field, finishes to 0.
//!
//! [`crc32c`] is SCTP's checksum.
//!
//! UDP: a computed 0 is sent as 0xffff ([`Sum::finish_udp`]); over IPv4 a stored 0 means "no
//! checksum" and verifies.

/// A running ones-complement sum of 16-bit big-endian words.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum {
    // The sum in native byte order; RFC 1071 makes it independent of byte order, so it is swapped
    // once at the end.
    acc: u64,
}

#[inline]
fn fold(mut acc: u64) -> u16 {
    acc = (acc & 0xffff_ffff) + (acc >> 32);
    acc = (acc & 0xffff_ffff) + (acc >> 32);
    let mut acc = acc as u32;
    acc = (acc & 0xffff) + (acc >> 16);
    acc = (acc & 0xffff) + (acc >> 16);
    acc as u16
}

#[inline]
fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

impl Sum {
    /// Creates a sum of zero.
    #[inline]
    pub const fn new() -> Sum {
        Sum { acc: 0 }
    }

    /// Adds bytes. An odd last byte is padded with a zero byte, so only the last block may have an
    /// odd length.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) -> &mut Sum {
        let mut acc = self.acc;
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut high = 0u64;
        for block in blocks {
            // 32-bit words in a 64-bit sum leave no carry to propagate, and the compiler can
            // vectorise the loop.
            let (words, _) = block.as_chunks::<4>();
            let mut part = 0u64;
            for w in words {
                part += u64::from(u32::from_ne_bytes(*w));
            }
            high += part;
        }
        acc = add_carry(acc, high);
        let (words, rest) = rest.as_chunks::<8>();
        for w in words {
            acc = add_carry(acc, u64::from_ne_bytes(*w));
        }
        let (words, rest) = rest.as_chunks::<4>();
        let mut low = 0u64;
        for w in words {
            low += u64::from(u32::from_ne_bytes(*w));
        }
        let (halves, rest) = rest.as_chunks::<2>();
        for h in halves {
            low += u64::from(u16::from_ne_bytes(*h));
        }
        if let [last] = rest {
            low += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        self.acc = add_carry(acc, low);
        self
    }

    /// Adds a 16-bit number (host order).
    #[inline]
    pub fn add_u16(&mut self, v: u16) -> &mut Sum {
        self.acc = add_carry(self.acc, u64::from(v.to_be()));
        self
    }

    /// Adds a 32-bit number (host order).
    #[inline]
    pub fn add_u32(&mut self, v: u32) -> &mut Sum {
        self.acc = add_carry(self.acc, u64::from(v.to_be()));
        self
    }

    /// Adds the IPv4 pseudo header (RFC 793): addresses, protocol, transport length in bytes.
    #[inline]
    pub fn add_pseudo_v4(&mut self, src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> &mut Sum {
        self.add(&src)
            .add(&dst)
            .add_u16(u16::from(proto))
            .add_u16(len)
    }

    /// Adds the IPv6 pseudo header (RFC 8200, 8.1): addresses, next header, transport length in bytes.
    #[inline]
    pub fn add_pseudo_v6(&mut self, src: [u8; 16], dst: [u8; 16], proto: u8, len: u32) -> &mut Sum {
        self.add(&src)
            .add(&dst)
            .add_u32(len)
            .add_u16(u16::from(proto))
    }

    /// Returns the folded sum, not complemented.
    #[inline]
    pub fn folded(&self) -> u16 {
        u16::from_be(fold(self.acc))
    }

    /// Returns the checksum: the complement of the folded sum.
    #[inline]
    pub fn finish(&self) -> u16 {
        !self.folded()
    }

    /// Returns the checksum for UDP, which is never 0.
    #[inline]
    pub fn finish_udp(&self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            c => c,
        }
    }
}

/// Completes the checksum of the bytes from `start` on, whose field, `at` bytes behind that, holds the sum of a pseudo header
/// (`skb_checksum_help`). `finish` makes the checksum of the sum. Returns false if the field lies outside the frame.
#[must_use]
pub fn complete(frame: &mut [u8], start: usize, at: usize, finish: fn(&Sum) -> u16) -> bool {
    let Some(segment) = frame.get_mut(start..).filter(|all| at + 2 <= all.len()) else {
        return false;
    };
    let check = finish(Sum::new().add(segment));
    if let Some(field) = segment.get_mut(at..at + 2) {
        field.copy_from_slice(&check.to_be_bytes());
    }
    true
}

/// Returns the checksum of one block.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().add(bytes).finish()
}

/// Returns true if a block that includes its checksum verifies.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    checksum(bytes) == 0
}

/// Returns a transport checksum over IPv4 (TCP, UDP, ...). The checksum field in `segment` must be
/// 0.
#[inline]
pub fn transport_v4(src: [u8; 4], dst: [u8; 4], proto: u8, segment: &[u8]) -> u16 {
    let mut sum = Sum::new();
    sum.add_pseudo_v4(src, dst, proto, segment.len() as u16)
        .add(segment);
    if proto == 17 {
        sum.finish_udp()
    } else {
        sum.finish()
    }
}

/// Returns a transport checksum over IPv6 (TCP, UDP, ICMPv6, ...). The checksum field in `segment`
/// must be 0.
#[inline]
pub fn transport_v6(src: [u8; 16], dst: [u8; 16], proto: u8, segment: &[u8]) -> u16 {
    let mut sum = Sum::new();
    sum.add_pseudo_v6(src, dst, proto, segment.len() as u32)
        .add(segment);
    if proto == 17 {
        sum.finish_udp()
    } else {
        sum.finish()
    }
}

/// Returns true if a transport segment over IPv4 verifies. A UDP checksum of 0 means none and is
/// accepted.
#[inline]
pub fn verify_v4(src: [u8; 4], dst: [u8; 4], proto: u8, segment: &[u8]) -> bool {
    if proto == 17 && segment.get(6..8) == Some(&[0, 0]) {
        return true;
    }
    Sum::new()
        .add_pseudo_v4(src, dst, proto, segment.len() as u16)
        .add(segment)
        .finish()
        == 0
}

/// Returns true if a transport segment over IPv6 verifies. A UDP checksum of 0 is rejected (RFC
/// 8200, 8.1).
#[inline]
pub fn verify_v6(src: [u8; 16], dst: [u8; 16], proto: u8, segment: &[u8]) -> bool {
    if proto == 17 && segment.get(6..8) == Some(&[0, 0]) {
        return false;
    }
    Sum::new()
        .add_pseudo_v6(src, dst, proto, segment.len() as u32)
        .add(segment)
        .finish()
        == 0
}

/// Returns true if a block of 20 bytes verifies: an IPv4 header without options.
#[inline]
pub fn verify_plain(header: &[u8; 20]) -> bool {
    let word = |at: usize| {
        let word = header.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from(u32::from_ne_bytes(*word)))
    };
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    // Folding keeps the remainder and leaves 0xffff of a multiple that is not zero. The division is a multiplication.
    sum.is_multiple_of(0xffff) && sum != 0
}

/// Returns the checksum after a 16-bit word of the block changed (RFC 1624, equation 3).
#[inline]
pub const fn update_u16(check: u16, old: u16, new: u16) -> u16 {
    let mut sum = !check as u32 + !old as u32 + new as u32;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Returns the checksum after a byte at an even offset of the block, which was not 0, has been decremented: the result of
/// [`update_u16`].
#[inline]
pub const fn after_decrement(check: u16) -> u16 {
    check.wrapping_add(0x100 + (check >= 0xfeff) as u16)
}

/// Returns the checksum after a 32-bit word of the block changed.
#[inline]
pub const fn update_u32(check: u16, old: u32, new: u32) -> u16 {
    let check = update_u16(check, (old >> 16) as u16, (new >> 16) as u16);
    update_u16(check, old as u16, new as u16)
}

/// Returns the checksum after bytes at an even offset of the block changed. Blocks of unequal
/// length are compared up to the end of the shorter one.
pub fn update_bytes(mut check: u16, old: &[u8], new: &[u8]) -> u16 {
    let n = old.len().min(new.len());
    let (Some(old), Some(new)) = (old.get(..n), new.get(..n)) else {
        return check;
    };
    for (o, n) in old.chunks(2).zip(new.chunks(2)) {
        let word = |b: &[u8]| match b {
            [a, b] => u16::from_be_bytes([*a, *b]),
            [a] => u16::from_be_bytes([*a, 0]),
            _ => 0,
        };
        check = update_u16(check, word(o), word(n));
    }
    check
}

/// Returns the checksum after a 32-bit word of the block changed, as Linux computes it
/// (`csum_replace4`). Unlike [`update_u32`] it never returns 0xffff.
#[inline]
pub const fn replace_u32(check: u16, old: u32, new: u32) -> u16 {
    let mut sum = 0xffff + !check as u32;
    sum += (!old >> 16) + (!old & 0xffff);
    sum += (new >> 16) + (new & 0xffff);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Returns SCTP's CRC (RFC 9260, appendix A), which is stored with its lowest byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let (mut crc, mut bit) = (i as u32, 0);
            while bit < 8 {
                crc = crc >> 1 ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

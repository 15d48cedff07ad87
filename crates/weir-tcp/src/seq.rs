// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arithmetic of sequence numbers modulo 2^32 (RFC 9293, 3.4).

/// Returns whether `a` is earlier than `b`.
#[inline]
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns whether `a` is later than `b`.
#[inline]
pub fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Returns whether `seq` is within `low..=high`.
#[inline]
pub fn between(seq: u32, low: u32, high: u32) -> bool {
    high.wrapping_sub(low) >= seq.wrapping_sub(low)
}

/// Returns the later of two sequence numbers.
#[inline]
pub fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

/// Returns the earlier of two sequence numbers.
#[inline]
pub fn earlier(a: u32, b: u32) -> u32 {
    if before(a, b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_wraps_around() {
        assert!(before(u32::MAX, 0));
        assert!(after(5, u32::MAX - 5));
        assert!(!before(7, 7) && !after(7, 7));
        assert!(between(2, u32::MAX, 4) && !between(5, u32::MAX, 4));
        assert_eq!(later(u32::MAX, 1), 1);
        assert_eq!(earlier(u32::MAX, 1), u32::MAX);
    }
}

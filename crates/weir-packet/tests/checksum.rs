// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of checksums against the definition of RFC 1071, and of updates against recomputation.

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_packet::checksum::{
    Sum, after_decrement, checksum, crc32c, replace_u32, transport_v4, transport_v6, update_bytes,
    update_u16, update_u32, verify, verify_plain, verify_v4, verify_v6,
};

/// Adds word by word and folds at each step.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u32::from(*b));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Compares two checksums: +0 and -0 are the same number in ones' complement.
fn same(a: u16, b: u16) -> bool {
    a % 0xffff == b % 0xffff
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(if cfg!(miri) { 10 } else { 1000 })))]

    #[test]
    fn agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..3000), cut in 0usize..1500) {
        prop_assert_eq!(checksum(&bytes), naive(&bytes));
        let (a, b) = bytes.split_at((cut * 2).min(bytes.len()));
        prop_assert_eq!(Sum::new().add(a).add(b).finish(), naive(&bytes));
    }

    #[test]
    fn extremes(byte in prop_oneof![Just(0u8), Just(0xff)], n in 0usize..70000) {
        let bytes = vec![byte; n];
        prop_assert_eq!(checksum(&bytes), naive(&bytes));
    }

    #[test]
    fn transport_verifies(src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), proto in prop_oneof![Just(6u8), Just(17), Just(58)], seg in proptest::collection::vec(any::<u8>(), 20..200), flip in any::<prop::sample::Index>()) {
        let mut seg = seg;
        let at = match proto { 6 => 16, 17 => 6, _ => 2 };
        let (s4, d4) = ([src[0], src[1], src[2], src[3]], [dst[0], dst[1], dst[2], dst[3]]);
        for v6 in [false, true] {
            seg[at..at + 2].fill(0);
            let c = if v6 { transport_v6(src, dst, proto, &seg) } else { transport_v4(s4, d4, proto, &seg) };
            seg[at..at + 2].copy_from_slice(&c.to_be_bytes());
            let good = |seg: &[u8]| if v6 { verify_v6(src, dst, proto, seg) } else { verify_v4(s4, d4, proto, seg) };
            prop_assert!(good(&seg));
            let mut bad = seg.clone();
            bad[flip.index(seg.len())] ^= 0x10;
            let none = proto == 17 && bad[6..8] == [0, 0];
            prop_assert!(!good(&bad) || none);
        }
    }

    #[test]
    fn plain_headers_verify_as_blocks_do(mut header in proptest::array::uniform20(any::<u8>()), sound in any::<bool>()) {
        if sound {
            (header[10], header[11]) = (0, 0);
            let check = checksum(&header).to_be_bytes();
            (header[10], header[11]) = (check[0], check[1]);
        }
        prop_assert_eq!(verify_plain(&header), verify(&header));
        prop_assert!(!sound || verify_plain(&header) || header == [0; 20]);
    }

    #[test]
    fn updates(bytes in proptest::collection::vec(any::<u8>(), 40..80), at in 0usize..10, new in any::<[u8; 7]>()) {
        let mut bytes = bytes;
        let c = checksum(&bytes);
        let old16 = u16::from_be_bytes([bytes[at * 2], bytes[at * 2 + 1]]);
        let old32 = u32::from_be_bytes([bytes[at * 2], bytes[at * 2 + 1], bytes[at * 2 + 2], bytes[at * 2 + 3]]);
        let old = bytes[at * 2..at * 2 + 6].to_vec();
        let mut b = bytes.clone();
        b[at * 2..at * 2 + 2].copy_from_slice(&new[..2]);
        prop_assert!(same(update_u16(c, old16, u16::from_be_bytes([new[0], new[1]])), checksum(&b)));
        let mut b = bytes.clone();
        b[at * 2..at * 2 + 4].copy_from_slice(&new[..4]);
        prop_assert!(same(update_u32(c, old32, u32::from_be_bytes([new[0], new[1], new[2], new[3]])), checksum(&b)));
        bytes[at * 2..at * 2 + 6].copy_from_slice(&new[..6]);
        prop_assert!(same(update_bytes(c, &old, &new[..6]), checksum(&bytes)));
    }
}

#[test]
fn a_decrement_updates_every_checksum() {
    for check in 0..=0xffff {
        // The word of TTL 1 before and after.
        assert_eq!(after_decrement(check), update_u16(check, 0x100, 0));
    }
}

/// The example of RFC 1624, section 4: 0x5555 becomes 0x3285, the checksum 0xdd2f becomes 0x0000.
#[test]
fn rfc1624_example() {
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    assert!(verify(&[
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
        0xc7
    ]));
}

#[test]
fn crc32c_of_known_blocks() {
    // RFC 3720, B.4, and the check value of CRC-32C.
    let ascending: Vec<u8> = (0..32).collect();
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc32c(&ascending), 0x46dd_794e);
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn replace_equals_update_except_for_the_sign_of_zero() {
    let words = [
        0,
        1,
        0xffff,
        0x1_0000,
        0xffff_ffff,
        0xc000_0201,
        0x0a01_0203,
    ];
    for check in [0, 1, 0x1234, 0xfffe, 0xffff] {
        for old in words {
            for new in words {
                let [a, b] = [replace_u32(check, old, new), update_u32(check, old, new)];
                assert!(a == b || (a, b) == (0, 0xffff), "{check:x} {old:x} {new:x}");
            }
        }
    }
}

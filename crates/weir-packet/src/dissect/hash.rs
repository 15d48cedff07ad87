// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow hashes, which are the same for both directions and on every machine.
//!
//! Each end (address and port) is mixed on its own and the two results are added, so their order
//! does not matter. As in Linux, a hash is never 0. The mixing is a folded 64 x 64 bit
//! multiplication. Seeds come from the stack's seeded generator.

use super::keys::pad4;
use super::{ADDR_IPV4, FlowKeys};

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;
const K2: u64 = 0xa076_1d64_78bd_642f;

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[inline]
fn end(addr: &[u8; 16], port: u16, seed: u64) -> u64 {
    let wide = u128::from_ne_bytes(*addr).to_le();
    let (low, high) = (wide as u64, (wide >> 64) as u64);
    mix(
        low ^ seed ^ K0,
        high ^ u64::from(port) << 48 ^ u64::from(port) ^ K1,
    )
}

#[inline]
fn finish(sum: u64, more: u64, seed: u64) -> u32 {
    let h = mix(sum ^ K2, more ^ seed ^ K1);
    let h = (h ^ h >> 32) as u32;
    if h == 0 { 1 } else { h }
}

/// Returns a symmetric hash of addresses, ports and protocol. Never returns 0.
#[inline]
pub fn flow_hash(keys: &FlowKeys, seed: u64) -> u32 {
    let a = end(&keys.src, keys.src_port, seed);
    let b = end(&keys.dst, keys.dst_port, seed);
    let more = u64::from(keys.ip_proto) | u64::from(keys.addr_type) << 8;
    finish(a.wrapping_add(b), more, seed)
}

/// Returns [`flow_hash`] for IPv4 addresses.
#[inline]
pub(super) fn flow_hash_v4(
    (src, src_port): ([u8; 4], u16),
    (dst, dst_port): ([u8; 4], u16),
    ip_proto: u8,
    seed: u64,
) -> u32 {
    let a = end(&pad4(src), src_port, seed);
    let b = end(&pad4(dst), dst_port, seed);
    let more = u64::from(ip_proto) | u64::from(ADDR_IPV4) << 8;
    finish(a.wrapping_add(b), more, seed)
}

/// Returns a symmetric hash of the addresses alone (`fib_multipath_hash_policy` 0). Never returns
/// 0.
#[inline]
pub fn l3_hash(src: &[u8; 16], dst: &[u8; 16], seed: u64) -> u32 {
    finish(end(src, 0, seed).wrapping_add(end(dst, 0, seed)), 0, seed)
}

/// Returns a hash of any bytes, which is not symmetric. Never returns 0.
pub fn hash_bytes(bytes: &[u8], seed: u64) -> u32 {
    let mut h = seed ^ K0;
    let (blocks, rest) = bytes.as_chunks::<8>();
    for b in blocks {
        h = mix(h ^ u64::from_le_bytes(*b), K1);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    h = mix(h ^ u64::from_le_bytes(last), K2);
    finish(h, bytes.len() as u64, seed)
}

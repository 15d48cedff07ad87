// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the common 8 bytes, types, codes, and the limits on how
//! much of an offending packet an error may quote.

use crate::checksum;
use crate::header::transport;

/// ICMP: echo reply.
pub const ICMP_ECHOREPLY: u8 = 0;
/// ICMP: destination unreachable.
pub const ICMP_DEST_UNREACH: u8 = 3;
/// ICMP: source quench.
pub const ICMP_SOURCE_QUENCH: u8 = 4;
/// ICMP: redirect.
pub const ICMP_REDIRECT: u8 = 5;
/// ICMP: echo request.
pub const ICMP_ECHO: u8 = 8;
/// ICMP: time exceeded.
pub const ICMP_TIME_EXCEEDED: u8 = 11;
/// ICMP: parameter problem.
pub const ICMP_PARAMETERPROB: u8 = 12;
/// ICMP: time stamp request.
pub const ICMP_TIMESTAMP: u8 = 13;
/// ICMP: time stamp reply.
pub const ICMP_TIMESTAMPREPLY: u8 = 14;

/// Unreachable: network.
pub const ICMP_NET_UNREACH: u8 = 0;
/// Unreachable: host.
pub const ICMP_HOST_UNREACH: u8 = 1;
/// Unreachable: protocol.
pub const ICMP_PROT_UNREACH: u8 = 2;
/// Unreachable: port.
pub const ICMP_PORT_UNREACH: u8 = 3;
/// Unreachable: fragmentation needed.
pub const ICMP_FRAG_NEEDED: u8 = 4;
/// Unreachable: source route failed.
pub const ICMP_SR_FAILED: u8 = 5;
/// Unreachable: administratively prohibited (packet filtered).
pub const ICMP_PKT_FILTERED: u8 = 13;
/// Time exceeded: TTL.
pub const ICMP_EXC_TTL: u8 = 0;
/// Time exceeded: reassembly.
pub const ICMP_EXC_FRAGTIME: u8 = 1;

/// ICMPv6: destination unreachable.
pub const ICMPV6_DEST_UNREACH: u8 = 1;
/// ICMPv6: packet too big.
pub const ICMPV6_PKT_TOOBIG: u8 = 2;
/// ICMPv6: time exceeded.
pub const ICMPV6_TIME_EXCEED: u8 = 3;
/// ICMPv6: parameter problem.
pub const ICMPV6_PARAMPROB: u8 = 4;
/// ICMPv6: echo request.
pub const ICMPV6_ECHO_REQUEST: u8 = 128;
/// ICMPv6: echo reply.
pub const ICMPV6_ECHO_REPLY: u8 = 129;

/// Unreachable: no route.
pub const ICMPV6_NOROUTE: u8 = 0;
/// Unreachable: administratively prohibited.
pub const ICMPV6_ADM_PROHIBITED: u8 = 1;
/// Unreachable: beyond the source's scope.
pub const ICMPV6_NOT_NEIGHBOUR: u8 = 2;
/// Unreachable: address.
pub const ICMPV6_ADDR_UNREACH: u8 = 3;
/// Unreachable: port.
pub const ICMPV6_PORT_UNREACH: u8 = 4;
/// Time exceeded: hop limit.
pub const ICMPV6_EXC_HOPLIMIT: u8 = 0;
/// Time exceeded: reassembly.
pub const ICMPV6_EXC_FRAGTIME: u8 = 1;
/// Parameter problem: header field.
pub const ICMPV6_HDR_FIELD: u8 = 0;
/// Parameter problem: unknown next header.
pub const ICMPV6_UNK_NEXTHDR: u8 = 1;
/// Parameter problem: unknown option.
pub const ICMPV6_UNK_OPTION: u8 = 2;

header! {
    /// The first 8 bytes of an ICMP or ICMPv6 message.
    Icmp, IcmpMut, 8 {
        /// Type.
        icmp_type, set_icmp_type: u8 = 0;
        /// Code.
        code, set_code: u8 = 1;
        /// Checksum.
        check, set_check: u16 = 2;
        /// Identifier of an echo.
        id, set_id: u16 = 4;
        /// Sequence number of an echo; next-hop MTU of "fragmentation needed".
        sequence, set_sequence: u16 = 6;
        /// The second word as a whole: MTU or pointer of ICMPv6, gateway of a redirect.
        rest, set_rest: u32 = 4;
    }
}

/// Returns true if an ICMP type is an error message, to which no error may be sent (RFC 1122,
/// 3.2.2).
#[inline]
pub const fn is_error_v4(icmp_type: u8) -> bool {
    matches!(
        icmp_type,
        ICMP_DEST_UNREACH
            | ICMP_SOURCE_QUENCH
            | ICMP_REDIRECT
            | ICMP_TIME_EXCEEDED
            | ICMP_PARAMETERPROB
    )
}

/// Returns true if an ICMPv6 type is an error message: below 128.
#[inline]
pub const fn is_error_v6(icmp_type: u8) -> bool {
    icmp_type < 128
}

/// Builds the first 8 bytes of a message, with checksum 0.
pub fn icmp(icmp_type: u8, code: u8, rest: u32) -> [u8; 8] {
    let mut b = [0; 8];
    if let Some(mut h) = IcmpMut::new(&mut b) {
        h.set_icmp_type(icmp_type).set_code(code).set_rest(rest);
    }
    b
}

/// The maximum number of bytes of an offending IPv4 packet that an error quotes. The reply,
/// including the IP header, is at most 576 bytes (RFC 1812, 4.3.2.3).
pub const QUOTE_V4: usize = 576 - 20 - 8;
/// The maximum number of bytes of an offending IPv6 packet that an error quotes. The reply is at
/// most the minimum MTU (RFC 4443, 3).
pub const QUOTE_V6: usize = 1280 - 40 - 8;

/// Computes and stores the checksum of an ICMP message. Returns false if it is truncated.
pub fn fill_check_v4(message: &mut [u8]) -> bool {
    match IcmpMut::new(message) {
        Some(mut h) => h.set_check(0),
        None => return false,
    };
    let check = checksum::checksum(message);
    if let Some(mut h) = IcmpMut::new(message) {
        h.set_check(check);
    }
    true
}

/// Computes and stores the checksum of an ICMPv6 message. Returns false if it is truncated.
pub fn fill_check_v6(src: [u8; 16], dst: [u8; 16], message: &mut [u8]) -> bool {
    transport::fill_check_v6(src, dst, 58, message)
}

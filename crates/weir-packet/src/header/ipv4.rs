// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 header (RFC 791) and its options.

use crate::checksum;

/// Don't fragment.
pub const IP_DF: u16 = 0x4000;
/// More fragments.
pub const IP_MF: u16 = 0x2000;
/// Fragment offset, in units of 8 bytes.
pub const IP_OFFSET: u16 = 0x1fff;

/// ICMP.
pub const IPPROTO_ICMP: u8 = 1;
/// IGMP.
pub const IPPROTO_IGMP: u8 = 2;
/// IPv4 in IP.
pub const IPPROTO_IPIP: u8 = 4;
/// TCP.
pub const IPPROTO_TCP: u8 = 6;
/// UDP.
pub const IPPROTO_UDP: u8 = 17;
/// DCCP.
pub const IPPROTO_DCCP: u8 = 33;
/// IPv6 in IP.
pub const IPPROTO_IPV6: u8 = 41;
/// GRE.
pub const IPPROTO_GRE: u8 = 47;
/// Encapsulating Security Payload.
pub const IPPROTO_ESP: u8 = 50;
/// Authentication Header.
pub const IPPROTO_AH: u8 = 51;
/// L2TP over IP.
pub const IPPROTO_L2TP: u8 = 115;
/// SCTP.
pub const IPPROTO_SCTP: u8 = 132;
/// UDP-Lite.
pub const IPPROTO_UDPLITE: u8 = 136;
/// Protocol independent multicast, which IPv6 has as well.
pub const IPPROTO_PIM: u8 = 103;

header! {
    /// IPv4 header without options.
    Ipv4, Ipv4Mut, 20 {
        /// Version (4 bits) and header length in 32-bit words (4 bits).
        version_ihl, set_version_ihl: u8 = 0;
        /// Type of service: DSCP (6 bits) and ECN (2).
        tos, set_tos: u8 = 1;
        /// Total length, bytes.
        total_len, set_total_len: u16 = 2;
        /// Identification.
        id, set_id: u16 = 4;
        /// Flags (3 bits) and fragment offset (13 bits, units of 8 bytes).
        frag_off, set_frag_off: u16 = 6;
        /// Time to live.
        ttl, set_ttl: u8 = 8;
        /// Protocol.
        protocol, set_protocol: u8 = 9;
        /// Header checksum.
        check, set_check: u16 = 10;
        /// Source address.
        src, set_src: [u8; 4] = 12;
        /// Destination address.
        dst, set_dst: [u8; 4] = 16;
    }
}

impl Ipv4<'_> {
    /// Returns the version, normally 4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl() >> 4
    }

    /// Returns the header length with options, in bytes. A value below 20 is malformed.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl() & 0x0f) * 4
    }

    /// Returns true if the packet is a fragment (`ip_is_fragment`).
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.frag_off() & (IP_MF | IP_OFFSET) != 0
    }

    /// Returns the fragment offset, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.frag_off() & IP_OFFSET) * 8
    }

    /// Returns true if more fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.frag_off() & IP_MF != 0
    }

    /// Returns true if the packet must not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.frag_off() & IP_DF != 0
    }
}

/// Returns the complete header with options, if `packet` begins with one: version 4, length at
/// least 20, not truncated. Does not check the checksum.
#[inline]
pub fn whole_header(packet: &[u8]) -> Option<&[u8]> {
    let h = Ipv4::new(packet)?;
    if h.version() != 4 || h.header_len() < 20 {
        return None;
    }
    packet.get(..h.header_len())
}

/// Computes and stores the header checksum (`ip_send_check`). Returns false if `packet` has no
/// complete header.
pub fn fill_check(packet: &mut [u8]) -> bool {
    let Some(len) = whole_header(packet).map(<[u8]>::len) else {
        return false;
    };
    let Some(header) = packet.get_mut(..len) else {
        return false;
    };
    if let Some(mut h) = Ipv4Mut::new(header) {
        h.set_check(0);
    }
    let check = checksum::checksum(header);
    if let Some(mut h) = Ipv4Mut::new(header) {
        h.set_check(check);
    }
    true
}

/// Builds a header without options, including the checksum. `payload_len` is in bytes; `frag_off`
/// takes flags such as [`IP_DF`].
#[allow(clippy::too_many_arguments)] // the fields of a header
pub fn ipv4(
    src: [u8; 4],
    dst: [u8; 4],
    protocol: u8,
    ttl: u8,
    tos: u8,
    id: u16,
    frag_off: u16,
    payload_len: usize,
) -> [u8; 20] {
    let mut b = [0; 20];
    if let Some(mut h) = Ipv4Mut::new(&mut b) {
        h.set_version_ihl(0x45)
            .set_tos(tos)
            .set_total_len((20 + payload_len).min(0xffff) as u16)
            .set_id(id)
            .set_frag_off(frag_off)
            .set_ttl(ttl)
            .set_protocol(protocol)
            .set_src(src)
            .set_dst(dst);
    }
    fill_check(&mut b);
    b
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP (RFC 768) and TCP (RFC 9293) headers, TCP options, and their checksums.
//!
//! The `fill_*` functions take the whole segment, from its header to its end, and do not check its
//! length field. Only the dissector knows SCTP and DCCP.

use crate::checksum;

header! {
    /// UDP header.
    Udp, UdpMut, 8 {
        /// Source port.
        src_port, set_src_port: u16 = 0;
        /// Destination port.
        dst_port, set_dst_port: u16 = 2;
        /// Length including this header, in bytes.
        length, set_length: u16 = 4;
        /// Checksum; 0 means none (IPv4).
        check, set_check: u16 = 6;
    }
}

header! {
    /// TCP header without options.
    Tcp, TcpMut, 20 {
        /// Source port.
        src_port, set_src_port: u16 = 0;
        /// Destination port.
        dst_port, set_dst_port: u16 = 2;
        /// Sequence number.
        seq, set_seq: u32 = 4;
        /// Acknowledgement number.
        ack, set_ack: u32 = 8;
        /// Data offset (4 bits, 32-bit words), reserved and flags (12 bits).
        offset_flags, set_offset_flags: u16 = 12;
        /// Window.
        window, set_window: u16 = 14;
        /// Checksum.
        check, set_check: u16 = 16;
        /// Urgent pointer.
        urgent, set_urgent: u16 = 18;
    }
}

impl Tcp<'_> {
    /// Returns the header length with options, in bytes. A value below 20 is malformed.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.offset_flags() >> 12) * 4
    }

    /// Returns the flags, 12 bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128, ...
    #[inline]
    pub fn flags(&self) -> u16 {
        self.offset_flags() & 0x0fff
    }
}

/// TCP flag: no more data from the sender.
pub const TCP_FIN: u16 = 1;
/// TCP flag: synchronise.
pub const TCP_SYN: u16 = 2;
/// TCP flag: reset.
pub const TCP_RST: u16 = 4;
/// TCP flag: push.
pub const TCP_PSH: u16 = 8;
/// TCP flag: the acknowledgement number is valid.
pub const TCP_ACK: u16 = 16;
/// TCP flag: the urgent pointer is valid.
pub const TCP_URG: u16 = 32;
/// TCP flag: congestion experienced (echo).
pub const TCP_ECE: u16 = 64;
/// TCP flag: congestion window reduced.
pub const TCP_CWR: u16 = 128;

/// Builds a UDP header with checksum 0. `payload_len` is in bytes.
pub fn udp(src_port: u16, dst_port: u16, payload_len: usize) -> [u8; 8] {
    let mut b = [0; 8];
    if let Some(mut h) = UdpMut::new(&mut b) {
        h.set_src_port(src_port)
            .set_dst_port(dst_port)
            .set_length((8 + payload_len).min(0xffff) as u16);
    }
    b
}

/// Builds a TCP header without options, with window 65535 and checksum 0.
pub fn tcp(src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: u16) -> [u8; 20] {
    let mut b = [0; 20];
    if let Some(mut h) = TcpMut::new(&mut b) {
        h.set_src_port(src_port)
            .set_dst_port(dst_port)
            .set_seq(seq)
            .set_ack(ack)
            .set_offset_flags(0x5000 | flags & 0x0fff)
            .set_window(0xffff);
    }
    b
}

/// Returns the offset of the checksum in a transport header, in bytes, or `None` for other
/// protocols.
const fn check_at(protocol: u8) -> Option<usize> {
    match protocol {
        6 => Some(16),
        17 => Some(6),
        58 => Some(2),
        _ => None,
    }
}

fn fill(segment: &mut [u8], protocol: u8, sum: impl FnOnce(&[u8]) -> u16) -> bool {
    let Some(at) = check_at(protocol) else {
        return false;
    };
    match segment.get_mut(at..at + 2) {
        Some(check) => check.fill(0),
        None => return false,
    }
    let check = sum(segment).to_be_bytes();
    if let Some(slot) = segment.get_mut(at..at + 2) {
        slot.copy_from_slice(&check);
    }
    true
}

/// Computes and stores the checksum of a TCP or UDP segment over IPv4. Returns false for other
/// protocols or if the segment is truncated.
pub fn fill_check_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, segment: &mut [u8]) -> bool {
    protocol != 58
        && fill(segment, protocol, |s| {
            checksum::transport_v4(src, dst, protocol, s)
        })
}

/// Computes and stores the checksum of a TCP, UDP or ICMPv6 segment over IPv6. Returns false for
/// other protocols or if the segment is truncated.
pub fn fill_check_v6(src: [u8; 16], dst: [u8; 16], protocol: u8, segment: &mut [u8]) -> bool {
    fill(segment, protocol, |s| {
        checksum::transport_v6(src, dst, protocol, s)
    })
}

/// TCP option: maximum segment size.
pub const TCPOPT_MSS: u8 = 2;
/// TCP option: window scale.
pub const TCPOPT_WINDOW: u8 = 3;
/// TCP option: selective acknowledgements permitted.
pub const TCPOPT_SACK_PERM: u8 = 4;
/// TCP option: selective acknowledgements.
pub const TCPOPT_SACK: u8 = 5;
/// TCP option: time stamps.
pub const TCPOPT_TIMESTAMP: u8 = 8;

/// Iterates over the options of a TCP header (with its options), as kind and body. Ends at a
/// malformed option.
pub fn tcp_options(segment: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let len = Tcp::new(segment).map_or(0, |t| t.header_len());
    let mut rest = segment.get(Tcp::LEN..len).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let (kind, tail) = rest.split_first()?;
            match kind {
                0 => return None,
                1 => rest = tail,
                kind => {
                    let (len, _) = tail.split_first()?;
                    let (option, next) = rest.split_at_checked(usize::from(*len))?;
                    let body = option.get(2..)?;
                    rest = next;
                    return Some((*kind, body));
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_verify() {
        let mut s = [&udp(1, 2, 5)[..], b"hello"].concat();
        assert!(fill_check_v4([1; 4], [2; 4], 17, &mut s));
        assert!(checksum::verify_v4([1; 4], [2; 4], 17, &s));
        let mut s = tcp(1, 2, 3, 4, TCP_SYN).to_vec();
        assert!(fill_check_v6([1; 16], [2; 16], 6, &mut s));
        assert!(checksum::verify_v6([1; 16], [2; 16], 6, &s));
        assert_eq!(
            Tcp::new(&s).map(|t| (t.header_len(), t.flags())),
            Some((20, TCP_SYN))
        );
        assert!(!fill_check_v4([0; 4], [0; 4], 6, &mut [0; 17]));
        assert!(!fill_check_v4([0; 4], [0; 4], 1, &mut [0; 40]));
    }

    #[test]
    fn tcp_options_end_where_they_break() {
        let mut s = tcp(1, 2, 3, 4, 0).to_vec();
        s[12] = 0x80;
        s.extend([2, 4, 5, 0xb4, 1, 3, 3, 7, 1, 1, 4, 9]);
        let all: Vec<_> = tcp_options(&s).collect();
        assert_eq!(all, [(2, &[5, 0xb4][..]), (3, &[7])]);
        assert_eq!(tcp_options(&s[..25]).count(), 0, "cut off");
    }
}

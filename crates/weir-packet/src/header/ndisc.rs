// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbour discovery (RFC 4861): solicitations, advertisements and their options.
//!
//! This module only encodes and decodes messages. The stack decides whether a message is acceptable
//! (hop limit 255, code 0, target not multicast).

use crate::header::icmp;

/// Router solicitation.
pub const NDISC_ROUTER_SOLICITATION: u8 = 133;
/// Router advertisement.
pub const NDISC_ROUTER_ADVERTISEMENT: u8 = 134;
/// Neighbour solicitation.
pub const NDISC_NEIGHBOUR_SOLICITATION: u8 = 135;
/// Neighbour advertisement.
pub const NDISC_NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Redirect.
pub const NDISC_REDIRECT: u8 = 137;

/// Option: source link-layer address.
pub const ND_OPT_SOURCE_LL_ADDR: u8 = 1;
/// Option: target link-layer address.
pub const ND_OPT_TARGET_LL_ADDR: u8 = 2;
/// Option: prefix information.
pub const ND_OPT_PREFIX_INFO: u8 = 3;
/// Option: redirected header.
pub const ND_OPT_REDIRECT_HDR: u8 = 4;
/// Option: MTU.
pub const ND_OPT_MTU: u8 = 5;
/// Option: nonce (RFC 3971).
pub const ND_OPT_NONCE: u8 = 14;

/// Advertisement: the sender is a router.
pub const NA_ROUTER: u32 = 0x8000_0000;
/// Advertisement: sent in reply to a solicitation.
pub const NA_SOLICITED: u32 = 0x4000_0000;
/// Advertisement: overrides the cached entry.
pub const NA_OVERRIDE: u32 = 0x2000_0000;

header! {
    /// Neighbour solicitation or advertisement, from the ICMPv6 type on, without options.
    Neighbour, NeighbourMut, 24 {
        /// Type: 135 or 136.
        icmp_type, set_icmp_type: u8 = 0;
        /// Code: 0.
        code, set_code: u8 = 1;
        /// Checksum.
        check, set_check: u16 = 2;
        /// Flags of an advertisement ([`NA_ROUTER`] and the like), else 0.
        flags, set_flags: u32 = 4;
        /// Target address.
        target, set_target: [u8; 16] = 8;
    }
}

header! {
    /// Router solicitation, from the ICMPv6 type on, without options.
    RouterSolicitation, RouterSolicitationMut, 8 {
        /// Type: 133.
        icmp_type, set_icmp_type: u8 = 0;
        /// Code: 0.
        code, set_code: u8 = 1;
        /// Checksum.
        check, set_check: u16 = 2;
    }
}

header! {
    /// Router advertisement, from the ICMPv6 type on, without options.
    RouterAdvertisement, RouterAdvertisementMut, 16 {
        /// Type: 134.
        icmp_type, set_icmp_type: u8 = 0;
        /// Code: 0.
        code, set_code: u8 = 1;
        /// Checksum.
        check, set_check: u16 = 2;
        /// Hop limit to use; 0 if unspecified.
        hop_limit, set_hop_limit: u8 = 4;
        /// Managed (0x80), other (0x40), home agent (0x20), preference (0x18).
        flags, set_flags: u8 = 5;
        /// Seconds for which the sender is a default router.
        lifetime, set_lifetime: u16 = 6;
        /// Milliseconds for which a neighbour counts as reachable; 0 if unspecified.
        reachable, set_reachable: u32 = 8;
        /// Milliseconds between solicitations; 0 if unspecified.
        retransmit, set_retransmit: u32 = 12;
    }
}

header! {
    /// Redirect, from the ICMPv6 type on, without options.
    Redirect, RedirectMut, 40 {
        /// Type: 137.
        icmp_type, set_icmp_type: u8 = 0;
        /// Code: 0.
        code, set_code: u8 = 1;
        /// Checksum.
        check, set_check: u16 = 2;
        /// The better first hop.
        target, set_target: [u8; 16] = 8;
        /// The redirected destination.
        destination, set_destination: [u8; 16] = 24;
    }
}

/// A solicitation or advertisement: the fixed part, and a link-layer address option if it has one.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourMessage {
    bytes: [u8; Neighbour::LEN + 8],
    has_option: bool,
}

impl std::ops::Deref for NeighbourMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.split_at(self.len_of()).0
    }
}

impl NeighbourMessage {
    fn len_of(&self) -> usize {
        Neighbour::LEN + if self.has_option { 8 } else { 0 }
    }

    fn new(
        icmp_type: u8,
        [src, dst]: [[u8; 16]; 2],
        flags: u32,
        target: [u8; 16],
        mac: Option<[u8; 6]>,
    ) -> Self {
        let mut message = Self {
            bytes: [0; Neighbour::LEN + 8],
            has_option: mac.is_some(),
        };
        if let Some(mut h) = NeighbourMut::new(&mut message.bytes) {
            h.set_icmp_type(icmp_type)
                .set_flags(flags)
                .set_target(target);
        }
        let kind = if icmp_type == NDISC_NEIGHBOUR_SOLICITATION {
            ND_OPT_SOURCE_LL_ADDR
        } else {
            ND_OPT_TARGET_LL_ADDR
        };
        if let (Some([m0, m1, m2, m3, m4, m5]), Some(option)) =
            (mac, message.bytes.last_chunk_mut())
        {
            *option = [kind, 1, m0, m1, m2, m3, m4, m5];
        }
        let len = message.len_of();
        icmp::fill_check_v6(src, dst, message.bytes.split_at_mut(len).0);
        message
    }
}

/// Builds a neighbour solicitation, with the sender's link-layer address if given, including the
/// checksum.
pub fn solicitation(
    src: [u8; 16],
    dst: [u8; 16],
    target: [u8; 16],
    mac: Option<[u8; 6]>,
) -> NeighbourMessage {
    NeighbourMessage::new(NDISC_NEIGHBOUR_SOLICITATION, [src, dst], 0, target, mac)
}

/// Builds a neighbour advertisement, with the target's link-layer address if given, including the
/// checksum. `flags` takes [`NA_SOLICITED`] and the like.
pub fn advertisement(
    src: [u8; 16],
    dst: [u8; 16],
    flags: u32,
    target: [u8; 16],
    mac: Option<[u8; 6]>,
) -> NeighbourMessage {
    NeighbourMessage::new(
        NDISC_NEIGHBOUR_ADVERTISEMENT,
        [src, dst],
        flags,
        target,
        mac,
    )
}

/// Builds the solicitation of duplicate address detection: from the unspecified address to the
/// solicited-node group, without an option (RFC 4862, 5.4.2), including the checksum.
pub fn dad_solicitation(target: [u8; 16]) -> NeighbourMessage {
    solicitation([0; 16], solicited_node(target), target, None)
}

/// One option: its type and its body (the bytes after type and length).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NdOption<'a> {
    /// Type.
    pub kind: u8,
    /// Body, `8 * n - 2` bytes.
    pub body: &'a [u8],
}

impl NdOption<'_> {
    /// Returns the Ethernet address of a link-layer address option.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.body.first_chunk().copied()
    }
}

/// An iterator over options. An `Err` item means that the rest is malformed, and is the last one.
#[derive(Clone, Debug)]
pub struct NdOptions<'a>(&'a [u8]);

/// Iterates over the options in `bytes`, the bytes after the fixed part of a message.
pub fn options(bytes: &[u8]) -> NdOptions<'_> {
    NdOptions(bytes)
}

/// The error of a malformed option: its length is 0 or exceeds the remaining bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let (Some(&kind), Some(&len)) = (bytes.first(), bytes.get(1)) else {
            return Some(Err(Malformed));
        };
        let len = usize::from(len) * 8;
        let Some((option, rest)) = bytes.split_at_checked(len) else {
            return Some(Err(Malformed));
        };
        match option.get(2..) {
            Some(body) => {
                self.0 = rest;
                Some(Ok(NdOption { kind, body }))
            }
            None => Some(Err(Malformed)),
        }
    }
}

/// The group of all nodes on a link (RFC 4291, 2.7.1).
pub const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Returns the solicited-node multicast address of a unicast address (RFC 4291, 2.7.1).
pub const fn solicited_node(ip: [u8; 16]) -> [u8; 16] {
    [
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, ip[13], ip[14], ip[15],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::verify_v6;

    #[test]
    fn messages_verify_and_read_back() {
        let (a, b) = ([0xfe; 16], [0x20; 16]);
        let na = advertisement(
            a,
            b,
            NA_SOLICITED | NA_OVERRIDE,
            a,
            Some([1, 2, 3, 4, 5, 6]),
        );
        assert!(verify_v6(a, b, 58, &na));
        let view = Neighbour::new(&na).unwrap();
        assert_eq!(
            (view.icmp_type(), view.flags(), view.target()),
            (136, 0x6000_0000, a)
        );
        let all: Vec<_> = options(&na[Neighbour::LEN..]).collect();
        assert_eq!(all.len(), 1);
        let option = all[0].unwrap();
        assert_eq!((option.kind, option.mac()), (2, Some([1, 2, 3, 4, 5, 6])));
        assert_eq!(solicitation(a, b, a, Some([0; 6]))[24], 1);
        assert_eq!(advertisement(a, b, 0, a, None).len(), Neighbour::LEN);
        let dad = dad_solicitation(a);
        assert!(verify_v6([0; 16], solicited_node(a), 58, &dad));
    }

    #[test]
    fn malformed_options_end_the_walk() {
        assert_eq!(
            options(&[1, 0, 0, 0, 0, 0, 0, 0]).collect::<Vec<_>>(),
            [Err(Malformed)]
        );
        assert_eq!(
            options(&[1, 2, 0, 0, 0, 0, 0, 0]).collect::<Vec<_>>(),
            [Err(Malformed)]
        );
        assert_eq!(options(&[1]).collect::<Vec<_>>(), [Err(Malformed)]);
        assert_eq!(options(&[]).count(), 0);
    }
}

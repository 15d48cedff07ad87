// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 header and extension headers (RFC 8200).

/// Hop-by-hop options.
pub const NEXTHDR_HOP: u8 = 0;
/// Routing header.
pub const NEXTHDR_ROUTING: u8 = 43;
/// Fragment header.
pub const NEXTHDR_FRAGMENT: u8 = 44;
/// Authentication header.
pub const NEXTHDR_AUTH: u8 = 51;
/// ICMPv6.
pub const NEXTHDR_ICMP: u8 = 58;
/// No next header.
pub const NEXTHDR_NONE: u8 = 59;
/// Destination options.
pub const NEXTHDR_DEST: u8 = 60;
/// Mobility header.
pub const NEXTHDR_MOBILITY: u8 = 135;
/// ICMPv6, as a protocol number.
pub const IPPROTO_ICMPV6: u8 = 58;

header! {
    /// IPv6 header.
    Ipv6, Ipv6Mut, 40 {
        /// Version (4 bits), traffic class (8), flow label (20).
        version_class_flow, set_version_class_flow: u32 = 0;
        /// Length of the payload, in bytes.
        payload_len, set_payload_len: u16 = 4;
        /// Next header.
        next_header, set_next_header: u8 = 6;
        /// Hop limit.
        hop_limit, set_hop_limit: u8 = 7;
        /// Source address.
        src, set_src: [u8; 16] = 8;
        /// Destination address.
        dst, set_dst: [u8; 16] = 24;
    }
}

impl Ipv6<'_> {
    /// Returns the version, normally 6.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow() >> 28) as u8
    }

    /// Returns the traffic class: DSCP (6 bits) and ECN (2).
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow() >> 20) as u8
    }

    /// Returns the flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow() & 0x000f_ffff
    }
}

header! {
    /// Fragment header.
    Fragment, FragmentMut, 8 {
        /// Next header.
        next_header, set_next_header: u8 = 0;
        /// Offset (13 bits, units of 8 bytes), reserved (2), more fragments (1).
        frag_off, set_frag_off: u16 = 2;
        /// Identification.
        id, set_id: u32 = 4;
    }
}

impl Fragment<'_> {
    /// Returns the fragment offset, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.frag_off() & !7)
    }

    /// Returns true if more fragments follow.
    #[inline]
    pub fn more(&self) -> bool {
        self.frag_off() & 1 != 0
    }
}

/// Builds a header. `payload_len` is in bytes.
pub fn ipv6(
    src: [u8; 16],
    dst: [u8; 16],
    next_header: u8,
    hop_limit: u8,
    traffic_class: u8,
    flow_label: u32,
    payload_len: usize,
) -> [u8; 40] {
    let mut b = [0; 40];
    if let Some(mut h) = Ipv6Mut::new(&mut b) {
        h.set_version_class_flow(
            6 << 28 | u32::from(traffic_class) << 20 | (flow_label & 0x000f_ffff),
        )
        .set_payload_len(payload_len.min(0xffff) as u16)
        .set_next_header(next_header)
        .set_hop_limit(hop_limit)
        .set_src(src)
        .set_dst(dst);
    }
    b
}

/// The end of a walk over the extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper {
    /// The upper-layer protocol.
    pub protocol: u8,
    /// The offset of the upper-layer header from the start of the IPv6 header, in bytes.
    pub offset: usize,
    /// The offset of the fragment header, if there is one.
    pub fragment: Option<usize>,
    /// True for a fragment other than the first, which has no upper-layer header.
    pub later_fragment: bool,
}

/// Returns true if the number is that of an extension header (`ipv6_ext_hdr`).
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        NEXTHDR_HOP
            | NEXTHDR_ROUTING
            | NEXTHDR_FRAGMENT
            | NEXTHDR_AUTH
            | NEXTHDR_NONE
            | NEXTHDR_DEST
    )
}

/// Walks over the extension headers of an IPv6 packet (`ipv6_skip_exthdr`). Returns `None` if the
/// packet ends within them or declares "no next header".
pub fn upper_layer(packet: &[u8]) -> Option<Upper> {
    let h = Ipv6::new(packet)?;
    let mut up = Upper {
        protocol: h.next_header(),
        offset: Ipv6::LEN,
        fragment: None,
        later_fragment: false,
    };
    while is_extension(up.protocol) {
        if up.protocol == NEXTHDR_NONE {
            return None;
        }
        let rest = packet.get(up.offset..)?;
        let [next, len] = *rest.first_chunk::<2>()?;
        let bytes = match up.protocol {
            NEXTHDR_FRAGMENT => {
                let f = Fragment::new(rest)?;
                up.fragment = Some(up.offset);
                if f.offset() != 0 {
                    up.protocol = next;
                    up.offset += Fragment::LEN;
                    up.later_fragment = true;
                    return Some(up);
                }
                Fragment::LEN
            }
            NEXTHDR_AUTH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        up.protocol = next;
        up.offset += bytes;
    }
    Some(up)
}

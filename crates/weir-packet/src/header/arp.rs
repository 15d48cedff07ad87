// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP for IPv4 over Ethernet (RFC 826). Packets with other hardware or protocol lengths are not
//! supported.

/// Request.
pub const ARPOP_REQUEST: u16 = 1;
/// Reply.
pub const ARPOP_REPLY: u16 = 2;

header! {
    /// ARP packet, Ethernet and IPv4.
    Arp, ArpMut, 28 {
        /// Hardware type: 1 Ethernet.
        hardware, set_hardware: u16 = 0;
        /// Protocol type: 0x0800.
        protocol, set_protocol: u16 = 2;
        /// Bytes of a hardware address: 6.
        hlen, set_hlen: u8 = 4;
        /// Bytes of a protocol address: 4.
        plen, set_plen: u8 = 5;
        /// Operation: request 1, reply 2.
        op, set_op: u16 = 6;
        /// Sender's hardware address.
        sha, set_sha: [u8; 6] = 8;
        /// Sender's protocol address.
        sip, set_sip: [u8; 4] = 14;
        /// Target's hardware address.
        tha, set_tha: [u8; 6] = 18;
        /// Target's protocol address.
        tip, set_tip: [u8; 4] = 24;
    }
}

impl Arp<'_> {
    /// Returns true if the types and lengths are those of IPv4 over Ethernet.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.hardware() == 1 && self.protocol() == 0x0800 && self.hlen() == 6 && self.plen() == 4
    }
}

/// Builds an ARP packet.
pub fn arp(op: u16, sha: [u8; 6], sip: [u8; 4], tha: [u8; 6], tip: [u8; 4]) -> [u8; 28] {
    let mut b = [0; 28];
    if let Some(mut h) = ArpMut::new(&mut b) {
        h.set_hardware(1)
            .set_protocol(0x0800)
            .set_hlen(6)
            .set_plen(4)
            .set_op(op)
            .set_sha(sha)
            .set_sip(sip)
            .set_tha(tha)
            .set_tip(tip);
    }
    b
}

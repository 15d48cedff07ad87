// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet II (IEEE 802.3) and VLAN tags (802.1Q, 802.1ad); ethertypes of linux/if_ether.h.

/// IPv4.
pub const ETH_P_IP: u16 = 0x0800;
/// ARP.
pub const ETH_P_ARP: u16 = 0x0806;
/// Reverse ARP.
pub const ETH_P_RARP: u16 = 0x8035;
/// VLAN tag, 802.1Q.
pub const ETH_P_8021Q: u16 = 0x8100;
/// IPv6.
pub const ETH_P_IPV6: u16 = 0x86dd;
/// MPLS unicast.
pub const ETH_P_MPLS_UC: u16 = 0x8847;
/// MPLS multicast.
pub const ETH_P_MPLS_MC: u16 = 0x8848;
/// PPPoE session.
pub const ETH_P_PPP_SES: u16 = 0x8864;
/// Service VLAN tag, 802.1ad.
pub const ETH_P_8021AD: u16 = 0x88a8;
/// Transparent Ethernet bridging (inner frame of GRE).
pub const ETH_P_TEB: u16 = 0x6558;
/// A network service header (RFC 8300).
pub const ETH_P_NSH: u16 = 0x894f;
/// Any protocol: a pseudo type of sockets and filters.
pub const ETH_P_ALL: u16 = 0x0003;
/// Pseudo type: frame with an 802.2 header.
pub const ETH_P_802_2: u16 = 0x0004;
/// Pseudo type: raw 802.3 frame (Novell).
pub const ETH_P_802_3: u16 = 0x0001;
/// Values below are lengths (802.3), not types.
pub const ETH_P_802_3_MIN: u16 = 0x0600;

/// A MAC address.
pub type Mac = [u8; 6];

/// The broadcast address.
pub const BROADCAST: Mac = [0xff; 6];

header! {
    /// Ethernet II header.
    Ethernet, EthernetMut, 14 {
        /// Destination address.
        dst, set_dst: [u8; 6] = 0;
        /// Source address.
        src, set_src: [u8; 6] = 6;
        /// Type, or length below 0x0600.
        ethertype, set_ethertype: u16 = 12;
    }
}

header! {
    /// The part of a VLAN tag behind its ethertype: control information and the next ethertype.
    Vlan, VlanMut, 4 {
        /// Priority (3 bits), DEI (1), VLAN id (12).
        tci, set_tci: u16 = 0;
        /// Ethertype of what follows.
        ethertype, set_ethertype: u16 = 2;
    }
}

/// Builds an Ethernet header.
#[inline]
pub fn ethernet(dst: Mac, src: Mac, ethertype: u16) -> [u8; 14] {
    let mut b = [0; 14];
    if let Some(mut h) = EthernetMut::new(&mut b) {
        h.set_dst(dst).set_src(src).set_ethertype(ethertype);
    }
    b
}

/// Returns true if the address is a group address (multicast or broadcast).
#[inline]
pub const fn is_multicast(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// Returns true if a station can have this address: it is neither a group address nor zero.
#[inline]
pub fn is_valid(mac: Mac) -> bool {
    !is_multicast(mac) && mac != [0; 6]
}

/// Returns true if the ethertype announces a VLAN tag (`eth_type_vlan`).
#[inline]
pub const fn is_vlan(ethertype: u16) -> bool {
    ethertype == ETH_P_8021Q || ethertype == ETH_P_8021AD
}

/// Returns the group address for an IPv4 multicast address (RFC 1112).
pub const fn multicast_v4(ip: [u8; 4]) -> Mac {
    [0x01, 0x00, 0x5e, ip[1] & 0x7f, ip[2], ip[3]]
}

/// Returns the group address for an IPv6 multicast address (RFC 2464).
pub const fn multicast_v6(ip: [u8; 16]) -> Mac {
    [0x33, 0x33, ip[12], ip[13], ip[14], ip[15]]
}

/// Returns the protocol of a frame whose type field is `ethertype` and whose payload begins with
/// `payload` (`eth_type_trans`): the type, or one of the pseudo types for 802.3 frames.
#[inline]
pub fn protocol(ethertype: u16, payload: &[u8]) -> u16 {
    if ethertype >= ETH_P_802_3_MIN {
        ethertype
    } else if payload.starts_with(&[0xff, 0xff]) {
        ETH_P_802_3
    } else {
        ETH_P_802_2
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Header edits: VLAN tags, Ethernet headers, MPLS labels, TTL and hop limit, ECN.
//!
//! The VLAN edits mirror `skb_vlan_push`, `skb_vlan_pop` and `__skb_vlan_pop` (net/core/skbuff.c).
//! The outermost tag is in the metadata. A further push first moves that tag into the data. A pop
//! removes the tag from the metadata and then moves the next one from the data into the metadata.
//! `eth_push` and `eth_pop` mirror `skb_eth_push` and `skb_eth_pop`, and `mpls_push` and `mpls_pop`
//! mirror theirs.
//!
//! The MAC header must be set. If the data begins at the MAC header, it still does so after the
//! edit. If it begins after the MAC header, as at ingress, it begins at the network header
//! afterwards. The network header does not move, so pushed headers become part of the MAC header
//! (`skb->mac_len` grows).

use crate::Packet;
use crate::checksum;
use crate::header::ethernet::{ethernet, is_vlan, protocol};
use crate::header::{Ethernet, Ipv4, Ipv4Mut, Ipv6, Ipv6Mut, Vlan};
use crate::packet::VlanTag;

/// The reason why an edit failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditError {
    /// There is no headroom for the header (-ENOMEM).
    NoRoom,
    /// The frame is too short, has no MAC header, or is of a kind this edit does not apply to
    /// (-EINVAL, -EPROTO).
    Malformed,
}

/// Runs an edit with the data at the MAC header.
pub fn at_mac<R>(
    packet: &mut Packet,
    edit: impl FnOnce(&mut Packet) -> Result<R, EditError>,
) -> Result<R, EditError> {
    let pulled = packet.pulled_from_mac().ok_or(EditError::Malformed)?;
    if !packet.data_to_mac() {
        return Err(EditError::Malformed);
    }
    let result = edit(packet);
    // A frame that ends before its network header becomes empty.
    if pulled > 0 && !packet.data_to_network() {
        let emptied = packet.pull(packet.len());
        debug_assert!(emptied, "pulls exactly the data");
    }
    result
}

/// Moves the tag from the metadata, if there is one, into the data, after the MAC addresses
/// (`__vlan_insert_tag`).
pub fn vlan_to_data(packet: &mut Packet) -> Result<(), EditError> {
    let Some(tag) = packet.vlan() else {
        return Ok(());
    };
    at_mac(packet, |packet| {
        if packet.len() < Ethernet::LEN {
            return Err(EditError::Malformed);
        }
        packet.push(Vlan::LEN).ok_or(EditError::NoRoom)?;
        // Opens a gap after the addresses by moving them towards the front.
        let data = packet.data_mut();
        data.copy_within(4..16, 0);
        if let Some(gap) = data.get_mut(12..16) {
            let ([a, b], [c, d]) = (tag.proto.to_be_bytes(), tag.tci.to_be_bytes());
            gap.copy_from_slice(&[a, b, c, d]);
        }
        packet.shift_mac(-4);
        packet.protocol = tag.proto;
        packet.set_vlan(None);
        Ok(())
    })
}

/// Pushes a VLAN tag into the metadata, after moving any tag there into the data (`skb_vlan_push`).
pub fn vlan_push(packet: &mut Packet, proto: u16, tci: u16) -> Result<(), EditError> {
    vlan_to_data(packet)?;
    packet.set_vlan(Some(VlanTag { proto, tci }));
    Ok(())
}

/// Removes the tag from the metadata, or else the outermost one from the data. Returns `None` if
/// the packet's protocol is not that of a VLAN tag.
pub fn vlan_take(packet: &mut Packet) -> Result<Option<VlanTag>, EditError> {
    let proto = packet.protocol;
    if let Some(tag) = packet.vlan() {
        packet.set_vlan(None);
        return Ok(Some(tag));
    }
    if !is_vlan(proto) {
        return Ok(None);
    }
    let tci = at_mac(packet, lift)?;
    Ok(Some(VlanTag { proto, tci }))
}

/// Pops the outermost VLAN tag (`skb_vlan_pop`) and returns it, or returns `None` if the frame has
/// none. The next tag, if there is one, moves from the data into the metadata. If that tag is
/// truncated, the first one is removed all the same.
pub fn vlan_pop(packet: &mut Packet) -> Result<Option<VlanTag>, EditError> {
    let Some(first) = vlan_take(packet)? else {
        return Ok(None);
    };
    let next = vlan_take(packet)?;
    packet.set_vlan(next);
    Ok(Some(first))
}

/// Moves the outer tag of a received frame into the metadata (`skb_vlan_untag`), sets the protocol
/// to the encapsulated one and returns it. Leaves the packet unchanged if the metadata already has
/// a tag, or if the frame's ethertype is not that of a tag. Returns `None` if the frame is
/// truncated. The data begins at the MAC header.
pub fn untag(packet: &mut Packet) -> Option<u16> {
    let proto = Ethernet::new(packet.mac())?.ethertype();
    if packet.vlan().is_some() || !is_vlan(proto) {
        return Some(packet.protocol);
    }
    packet.set_network(Ethernet::LEN);
    let tci = at_mac(packet, lift).ok()?;
    packet.set_vlan(Some(VlanTag { proto, tci }));
    Some(packet.protocol)
}

/// Removes the outermost tag from the data, which begins at the MAC header (`__skb_vlan_pop`).
fn lift(packet: &mut Packet) -> Result<u16, EditError> {
    let tag = packet.data().get(12..18).and_then(|b| b.first_chunk());
    let [_, _, t0, t1, n0, n1] = *tag.ok_or(EditError::Malformed)?;
    packet.data_mut().copy_within(0..12, 4);
    let moved = packet.pull(4);
    debug_assert!(moved, "the frame has 18 bytes");
    packet.shift_mac(4);
    let payload = packet.data().get(Ethernet::LEN..).unwrap_or_default();
    packet.protocol = protocol(u16::from_be_bytes([n0, n1]), payload);
    if packet.network_offset().is_none_or(|at| at < Ethernet::LEN) {
        packet.set_network(Ethernet::LEN);
    }
    Ok(u16::from_be_bytes([t0, t1]))
}

/// Removes the Ethernet header of a frame without tags (`skb_eth_pop`). The MAC header is empty
/// afterwards.
pub fn eth_pop(packet: &mut Packet) -> Result<(), EditError> {
    at_mac(packet, |packet| {
        let tagged = packet.vlan().is_some() || is_vlan(packet.protocol);
        let whole = packet.network_offset() >= Some(Ethernet::LEN);
        if tagged || !whole || !packet.pull(Ethernet::LEN) {
            return Err(EditError::Malformed);
        }
        packet.reset_mac();
        Ok(())
    })
}

/// Pushes an Ethernet header in front of a packet that has none (`skb_eth_push`).
pub fn eth_push(packet: &mut Packet, dst: [u8; 6], src: [u8; 6]) -> Result<(), EditError> {
    at_mac(packet, |packet| {
        if packet.network_offset() != Some(0) || packet.vlan().is_some() {
            return Err(EditError::Malformed);
        }
        let header = ethernet(dst, src, packet.protocol);
        let room = packet.push(Ethernet::LEN).ok_or(EditError::NoRoom)?;
        room.copy_from_slice(&header);
        packet.reset_mac();
        Ok(())
    })
}

/// Returns true if an ethertype is that of MPLS (`eth_p_mpls`).
#[inline]
pub const fn is_mpls(ethertype: u16) -> bool {
    matches!(ethertype, 0x8847 | 0x8848)
}

/// Inserts a label stack entry after the first `mac_len` bytes of the frame (`skb_mpls_push`). The
/// entry becomes the network header, and the ethertype, where there is one, is set to match.
pub fn mpls_push(
    packet: &mut Packet,
    entry: u32,
    ethertype: u16,
    mac_len: usize,
    ethernet: bool,
) -> Result<(), EditError> {
    at_mac(packet, |packet| {
        if !is_mpls(ethertype) || mac_len > packet.len() {
            return Err(EditError::Malformed);
        }
        packet.push(4).ok_or(EditError::NoRoom)?;
        let data = packet.data_mut();
        data.copy_within(4..4 + mac_len, 0);
        if let Some(to) = data.get_mut(mac_len..mac_len + 4) {
            to.copy_from_slice(&entry.to_be_bytes());
        }
        packet.reset_mac();
        packet.set_network(mac_len);
        if ethernet && mac_len >= Ethernet::LEN {
            set_ethertype(packet, 12, ethertype);
        }
        packet.protocol = ethertype;
        Ok(())
    })
}

/// Removes the label stack entry after the first `mac_len` bytes of the frame and sets the
/// ethertype to that of the payload (`skb_mpls_pop`). Does nothing to a packet of another protocol.
pub fn mpls_pop(
    packet: &mut Packet,
    ethertype: u16,
    mac_len: usize,
    ethernet: bool,
) -> Result<(), EditError> {
    if !is_mpls(packet.protocol) {
        return Ok(());
    }
    at_mac(packet, |packet| {
        if mac_len + 4 > packet.len() {
            return Err(EditError::Malformed);
        }
        packet.data_mut().copy_within(0..mac_len, 4);
        let pulled = packet.pull(4);
        debug_assert!(pulled, "the entry exists");
        packet.reset_mac();
        packet.set_network(mac_len);
        if ethernet && mac_len >= Ethernet::LEN {
            set_ethertype(packet, mac_len - 2, ethertype);
        }
        packet.protocol = ethertype;
        Ok(())
    })
}

fn set_ethertype(packet: &mut Packet, at: usize, ethertype: u16) {
    if let Some(to) = packet.data_mut().get_mut(at..at + 2) {
        to.copy_from_slice(&ethertype.to_be_bytes());
    }
}

/// Sets congestion experienced on an ECN-capable IPv4 packet and updates the checksum
/// (`IP_ECN_set_ce`). Returns true if the packet is marked afterwards.
pub fn ipv4_set_ce(header: &mut [u8]) -> bool {
    let Some(mut h) = Ipv4Mut::new(header) else {
        return false;
    };
    let v: Ipv4<'_> = h.view();
    let (tos, check) = (v.tos(), v.check());
    let ecn = tos.wrapping_add(1) & 3;
    if ecn & 2 == 0 {
        return ecn == 0;
    }
    let (sum, carry) = check.overflowing_add(0xfffb + u16::from(ecn));
    h.set_tos(tos | 3).set_check(sum + u16::from(carry));
    true
}

/// Sets congestion experienced on an ECN-capable IPv6 packet (`IP6_ECN_set_ce`). Returns true if
/// the packet is marked afterwards.
pub fn ipv6_set_ce(header: &mut [u8]) -> bool {
    let Some([_, low]) = header.first_chunk_mut::<2>() else {
        return false;
    };
    let may = *low & 0x30 != 0;
    if may {
        *low |= 0x30;
    }
    may
}

/// Decrements the TTL of an IPv4 header, updates the checksum (`ip_decrease_ttl`) and returns the
/// new TTL. Returns `None`, leaving the bytes unchanged, if there is no header or the TTL is
/// already 0.
#[inline]
pub fn ipv4_decrement_ttl(header: &mut [u8]) -> Option<u8> {
    let mut h = Ipv4Mut::new(header)?;
    let v: Ipv4<'_> = h.view();
    let (ttl, check) = (v.ttl(), v.check());
    let new = ttl.checked_sub(1)?;
    // The TTL is the high byte of its word.
    h.set_ttl(new).set_check(checksum::after_decrement(check));
    Some(new)
}

/// Decrements the hop limit of an IPv6 header and returns the new value. Returns `None`, leaving
/// the bytes unchanged, if there is no header or the hop limit is already 0.
#[inline]
pub fn ipv6_decrement_hop_limit(header: &mut [u8]) -> Option<u8> {
    let mut h = Ipv6Mut::new(header)?;
    let v: Ipv6<'_> = h.view();
    let new = v.hop_limit().checked_sub(1)?;
    h.set_hop_limit(new);
    Some(new)
}

#[cfg(test)]
mod tests;

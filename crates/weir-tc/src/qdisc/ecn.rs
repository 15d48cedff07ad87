// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ECN and DS fields of a packet (include/net/inet_ecn.h, include/net/dsfield.h).

use weir_packet::Packet;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};

const CE: u8 = 3;

/// Returns the traffic class of the network header if it is IPv4 or IPv6 (`skb_get_dsfield`).
pub fn ds_field(packet: &Packet) -> Option<u8> {
    let header = packet.network();
    match (packet.protocol, header) {
        (ETH_P_IP, [_, tos, ..]) => Some(*tos),
        (ETH_P_IPV6, [first, second, ..]) => Some((first << 4) | (second >> 4)),
        _ => None,
    }
}

/// Sets CE if the sender supports ECN (`INET_ECN_set_ce`). Returns whether the packet is marked.
pub fn set_ce(packet: &mut Packet) -> bool {
    let Some(old) = ds_field(packet) else {
        return false;
    };
    match old & CE {
        0 => return false,
        CE => return true,
        _ => {}
    }
    set_ds_field(packet, old | CE);
    true
}

/// Writes the traffic class and updates the IPv4 checksum (`ipv4_change_dsfield`,
/// `ipv6_change_dsfield`).
pub fn set_ds_field(packet: &mut Packet, new: u8) {
    let (protocol, Some(old)) = (packet.protocol, ds_field(packet)) else {
        return;
    };
    let header = packet.network_mut();
    if protocol == ETH_P_IPV6 {
        header[0] = (header[0] & 0xf0) | (new >> 4);
        header[1] = (header[1] & 0x0f) | (new << 4);
        return;
    }
    header[1] = new;
    if let Some(sum) = header.get_mut(10..12) {
        // RFC 1624, equation 3.
        let check = u32::from(!u16::from_be_bytes([sum[0], sum[1]]));
        let check = check + u32::from(!u16::from(old)) + u32::from(new);
        let check = (check & 0xffff) + (check >> 16);
        let check = (check & 0xffff) + (check >> 16);
        sum.copy_from_slice(&(!(check as u16)).to_be_bytes());
    }
}

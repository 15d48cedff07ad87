// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offsets in a packet as Linux sees them at a hook.
//!
//! Linux's actions compute with `skb->data`, which is the network header at ingress and the MAC
//! header at egress. Here all offsets count in bytes from the MAC header, wherever the packet's
//! data begin.

use weir_packet::Packet;
use weir_packet::header::ethernet::is_vlan;

use crate::context::Context;

/// `VLAN_MAX_DEPTH`
const VLAN_MAX_DEPTH: usize = 8;

/// Offsets in a packet, in bytes from the MAC header.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// `skb->data`
    pub data: usize,
    /// `skb_network_header`
    pub network: usize,
    /// The end of the packet.
    pub end: usize,
}

impl Place {
    /// Returns the offsets of a packet at the hook that runs.
    pub fn of(packet: &Packet, cx: &Context<'_, '_>) -> Self {
        let network = packet.mac_len();
        Self {
            data: if cx.ingress { network } else { 0 },
            network,
            end: packet.mac().len(),
        }
    }

    /// Returns whether the packet has at least `len` bytes from its network header on.
    pub fn has_network(&self, len: usize) -> bool {
        self.network + len <= self.end
    }

    /// Returns the protocol inside the packet's VLAN tags (`skb_protocol(skb, true)`), or 0 if the
    /// packet is truncated. At ingress Linux looks for tags in the data at the wrong offset, and so
    /// does this function.
    pub fn protocol(&self, packet: &Packet) -> u16 {
        let mut protocol = packet.protocol;
        let mut at = self.data
            + match self.network {
                0 => 14,
                network => network.saturating_sub(4),
            };
        for _ in 1..VLAN_MAX_DEPTH {
            if !is_vlan(protocol) {
                return protocol;
            }
            let tag = packet.mac().get(at..).and_then(|b| b.first_chunk());
            let Some([_, _, a, b]) = tag else {
                return 0;
            };
            protocol = u16::from_be_bytes([*a, *b]);
            at += 4;
        }
        if is_vlan(protocol) { 0 } else { protocol }
    }
}

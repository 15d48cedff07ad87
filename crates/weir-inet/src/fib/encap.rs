// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation by routes (`net/core/lwtunnel.c`, `net/ipv4/ip_tunnel_core.c`): packets that take the route carry
//! the metadata of a tunnel, with which an `external` device encapsulates them.
//!
//! Served: `encap ip` and `encap ip6` without options. Not implemented: the other kinds, options of tunnels, and
//! encapsulation by nexthop objects. The netlink handler refuses them.

use std::sync::Arc;

use weir_packet::Packet;
use weir_packet::tunnel::Tunnel;

/// The encapsulation of a hop (`struct lwtunnel_state`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Encap {
    /// What packets carry.
    pub tunnel: Arc<Tunnel>,
    /// The whole key of 64 bits, of which tunnels use the lower half (`LWTUNNEL_IP_ID`).
    pub id: u64,
    /// `LWTUNNEL_IP_FLAGS` in host order.
    pub flags: u16,
}

/// Bytes at the start of a frame that the reference to the metadata needs.
const REFERENCE: usize = 8;

/// Has a packet carry the metadata of the hop that it takes, if there is one.
#[inline]
pub fn attach(encap: Option<&Arc<Encap>>, packet: &mut Packet) {
    if let Some(encap) = encap {
        let tunnel = || Some(encap.tunnel.clone());
        if !packet.set_tunnel(tunnel()) {
            // The frame has no headroom left, so the packet is copied to another frame.
            if let Some(mut wider) = packet.copy_with_headroom(REFERENCE) {
                wider.set_tunnel(tunnel());
                *packet = wider;
            }
        }
    }
}

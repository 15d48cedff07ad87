// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation by routes (`net/core/lwtunnel.c`, `net/ipv4/ip_tunnel_core.c`, `net/mpls/mpls_iptunnel.c`): packets that
//! take the route carry the metadata of a tunnel, with which an `external` device encapsulates them, or get MPLS labels.
//!
//! Served: `encap ip` and `encap ip6` without options, `encap mpls`. Not implemented: the other kinds, options of
//! tunnels, and encapsulation by nexthop objects. The netlink handler refuses them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::ethernet::ETH_P_MPLS_UC;
use weir_packet::header::{Ethernet, Ipv4, Ipv6};
use weir_packet::tunnel::Tunnel;
use weir_packet::{DropReason, Packet};
use weir_sync::rcu::Guard;

use super::mpls::{self, SHIM, counter};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;

/// The encapsulation of a hop (`struct lwtunnel_state`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Encap {
    /// `encap ip` and `encap ip6`
    Tunnel {
        /// What packets carry.
        tunnel: Arc<Tunnel>,
        /// The whole key of 64 bits, of which tunnels use the lower half (`LWTUNNEL_IP_ID`).
        id: u64,
        /// `LWTUNNEL_IP_FLAGS` in host order.
        flags: u16,
    },
    /// `encap mpls`
    Mpls {
        /// The labels, outermost first.
        labels: Box<[u32]>,
        /// The TTL of the labels; 0 is that of the packet. Without one, `net.mpls.ip_ttl_propagate` decides.
        ttl: Option<u8>,
    },
}

impl Encap {
    /// Returns the number of bytes by which packets have to be shorter (`lwtunnel_headroom`).
    #[inline]
    pub fn headroom(encap: Option<&Arc<Self>>) -> u32 {
        match encap.map(|encap| &**encap) {
            Some(Self::Mpls { labels, .. }) => (labels.len() * SHIM) as u32,
            _ => 0,
        }
    }

    /// Returns whether packets get labels.
    #[inline]
    pub fn is_mpls(encap: Option<&Arc<Self>>) -> bool {
        matches!(encap.map(|encap| &**encap), Some(Self::Mpls { .. }))
    }
}

/// Bytes at the start of a frame that the reference to the metadata needs.
const REFERENCE: usize = 8;

/// Has a packet, which begins with its network header, carry the metadata of the hop that it takes, or the labels. A packet
/// for which there is no memory is dropped at the hop's device, and counted at a place.
#[inline]
pub fn attach(
    encap: Option<&Arc<Encap>>,
    cx: &Cx<'_>,
    (out, place): (&Device, Place),
    mut packet: Packet,
) -> Option<Packet> {
    if let Some(encap) = encap
        && !attach_some(encap, out, cx.guard, &mut packet)
    {
        cx.drop(out, place, DropReason::NOMEM, packet);
        return None;
    }
    Some(packet)
}

fn attach_some(encap: &Encap, out: &Device, guard: &Guard, packet: &mut Packet) -> bool {
    match encap {
        Encap::Tunnel { tunnel, .. } => {
            let tunnel = || Some(tunnel.clone());
            if packet.set_tunnel(tunnel()) {
                return true;
            }
            // The frame has no headroom left, so the packet is copied to another frame.
            let Some(wider) = packet.copy_with_headroom(REFERENCE) else {
                return false;
            };
            *packet = wider;
            packet.set_tunnel(tunnel())
        }
        Encap::Mpls { labels, ttl } => {
            let data = packet.data();
            let own = match data.first().map(|first| first >> 4) {
                Some(4) => Ipv4::new(data).map_or(0, |ip| ip.ttl()),
                _ => Ipv6::new(data).map_or(0, |ip| ip.hop_limit()),
            };
            let ttl = match *ttl {
                Some(0) => own,
                Some(ttl) => ttl,
                None => match mpls::of(out.namespace(guard)) {
                    Some(state) if !state.propagate.load(Relaxed) => {
                        state.default_ttl.load(Relaxed)
                    }
                    _ => own,
                },
            };
            let pushed = push_labels(packet, labels, ttl, true);
            if let Some(state) = mpls::of(out.namespace(guard)) {
                let len = packet.len() as u64;
                let left = [(counter::TX_PACKETS, 1), (counter::TX_BYTES, len)];
                let amounts: &[_] = match pushed {
                    true => &left,
                    false => &[(counter::TX_ERRORS, 1)],
                };
                state.count(out.key, amounts, guard);
            }
            pushed
        }
    }
}

/// Returns the entries of a stack of labels (`mpls_entry_encode`), the last of which may be the bottom.
pub fn entries(labels: &[u32], ttl: u8, bottom: bool) -> impl Iterator<Item = [u8; SHIM]> {
    labels.iter().enumerate().map(move |(n, label)| {
        let last = bottom && n + 1 == labels.len();
        (label << 12 | u32::from(last) << 8 | u32::from(ttl)).to_be_bytes()
    })
}

/// Pushes labels on a packet, which becomes a labelled one; `bottom` says that it was none before. Returns `false` if there
/// is no memory.
pub fn push_labels(packet: &mut Packet, labels: &[u32], ttl: u8, bottom: bool) -> bool {
    let len = labels.len() * SHIM;
    if packet.headroom() < len + Ethernet::LEN {
        match packet.copy_with_headroom(len + Ethernet::LEN) {
            Some(wider) => *packet = wider,
            None => return false,
        }
    }
    let Some(room) = packet.push(len) else {
        return false;
    };
    let entries = entries(labels, ttl, bottom);
    for (to, entry) in room.chunks_exact_mut(SHIM).zip(entries) {
        to.copy_from_slice(&entry);
    }
    packet.set_network(0);
    packet.unset_transport();
    packet.protocol = ETH_P_MPLS_UC;
    true
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments on the way through the action `ct`: reassembly in a zone (`tcf_ct_handle_fragments`, net/sched/act_ct.c),
//! and fragmentation where the packet is sent to a device (`sch_fragment`, net/sched/sch_frag.c).
//!
//! Linux keeps the fragments of a packet as they came. It sends the same ones if all of them fit and nothing else holds
//! the packet; otherwise it splits at the length of the largest one. Here the packet is one piece of memory, and
//! [`Lengths`] tell where its fragments ended.

use std::sync::Arc;

use weir_packet::header::ipv4::IP_DF;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ipv4, Ipv4Mut, Ipv6};
use weir_packet::{DropReason, Packet};

use crate::cpu::Cx;
use crate::device::Device;
use crate::fragments::{Gathered, Lengths, User};
use crate::ipv4::{self, route::To};
use crate::ipv6::{self, WithIpv6};

/// The longest link-layer header of a packet that is fragmented, in bytes: Ethernet with a tag (`VLAN_ETH_HLEN`).
const LONGEST_LINK: usize = 18;

/// Adds a fragment whose network offset is set and whose EtherType is `protocol`. The whole packet has the link-layer
/// header of its first fragment, and its data begin as far in front of the network header as those of this fragment.
pub fn add(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    protocol: u16,
    mut packet: Packet,
    zone: u16,
) -> Gathered {
    let front = packet.network_offset().unwrap_or(0);
    if !packet.data_to_network() {
        return Gathered::Dropped(packet, DropReason::PKT_TOO_SMALL);
    }
    let stated = match protocol {
        ETH_P_IP => Ipv4::new(packet.data()).map(|header| {
            let len = usize::from(header.total_len());
            (len, header.header_len())
        }),
        ETH_P_IPV6 => Ipv6::new(packet.data())
            .map(|header| (Ipv6::LEN + usize::from(header.payload_len()), Ipv6::LEN)),
        _ => None,
    };
    let Some((len, header)) = stated else {
        return Gathered::Dropped(packet, DropReason::PKT_TOO_SMALL);
    };
    if header < 20 || header > len || len > packet.len() {
        return Gathered::Dropped(packet, DropReason::IP_INHDR);
    }
    packet.trim(len);
    let gathered = match protocol {
        ETH_P_IP => {
            let ns = device.namespace(cx.guard);
            ipv4::reassembly::gather(cx, device, ns, packet, To::Us, User::Conntrack(zone))
        }
        _ => ipv6::reassembly::gather(cx, device, packet, zone),
    };
    match gathered {
        Gathered::Whole(mut packet, lengths) => {
            packet.hash = 0;
            match packet.push(front).is_some() {
                true => Gathered::Whole(packet, lengths),
                false => Gathered::Dropped(packet, DropReason::NOMEM),
            }
        }
        other => other,
    }
}

/// Splits a packet that was reassembled into fragments no longer than the largest original one, for a device of that MTU.
/// They are the original ones if `same` (the packet is not a copy) and all of them fit. None has DF. The packet's data
/// begin at the link-layer header.
///
/// # Errors
/// The packet, and why it is dropped.
pub fn split(
    cx: &Cx<'_>,
    device: &Device,
    mut packet: Packet,
    lengths: &Lengths,
    same: bool,
) -> Result<Vec<Packet>, (Packet, DropReason)> {
    let link = packet.network_offset().unwrap_or(0);
    if link > LONGEST_LINK {
        return Err((packet, DropReason::NOT_SPECIFIED));
    }
    let head: Vec<u8> = packet.data().get(..link).unwrap_or_default().to_vec();
    let mtu = usize::try_from(device.mtu()).unwrap_or(usize::MAX);
    if !packet.data_to_network() {
        return Err((packet, DropReason::NOT_SPECIFIED));
    }
    let pool = &cx.stack.pool;
    let size = usize::from(lengths.largest);
    let none = Lengths::default();
    let lengths = if same { lengths } else { &none };
    if packet.data().first().is_some_and(|first| first >> 4 == 4)
        && let Some(mut header) = Ipv4Mut::new(packet.data_mut())
    {
        let flags = header.view().frag_off();
        header.set_frag_off(flags & !IP_DF);
    }
    let fragments = match packet.data().first().map(|first| first >> 4) {
        Some(4) => ipv4::fragment::split_again(&packet, mtu.min(size), lengths, pool),
        Some(6) if size <= mtu => {
            let id = device.namespace(cx.guard).ipv6().next_ident();
            let least = ipv6::output::MIN_MTU as usize;
            ipv6::fragment::split_again(&packet, least.max(size), id, lengths, pool)
        }
        Some(6) => return Err((packet, DropReason::PKT_TOO_BIG)),
        _ => return Err((packet, DropReason::NOT_SPECIFIED)),
    };
    let Some(mut fragments) = fragments else {
        return Err((packet, DropReason::NOMEM));
    };
    for fragment in &mut fragments {
        let Some(room) = fragment.push(head.len()) else {
            return Err((packet, DropReason::NOMEM));
        };
        room.copy_from_slice(&head);
        fragment.reset_mac();
        fragment.set_vlan(packet.vlan());
        let _ = fragment.set_tunnel(packet.tunnel().cloned());
        cx.stack.trace.copied(fragment);
    }
    cx.consume(packet);
    Ok(fragments)
}

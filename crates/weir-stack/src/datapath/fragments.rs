// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments at the hooks of a device: reassembly for the action `ct`, and fragmentation of what filters send to
//! another device (`sch_frag_xmit_hook`).

use std::sync::Arc;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{DropReason, Packet};
use weir_tc::{Copy, Defragmented};

use crate::cpu::Cx;
use crate::defrag;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fragments::Gathered;

/// Adds a fragment to those of a zone; see [`weir_tc::Context::defragment`].
pub(super) fn defragment(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    packet: &mut Packet,
    zone: u16,
) -> Defragmented {
    // A tag in front of the header may hide its EtherType.
    let protocol = match packet.network().first().map(|first| first >> 4) {
        Some(4) => ETH_P_IP,
        _ => ETH_P_IPV6,
    };
    let Some(empty) = cx.stack.pool.alloc(0) else {
        return Defragmented::Dropped(DropReason::NOMEM);
    };
    let fragment = std::mem::replace(packet, empty);
    match defrag::add(cx, device, protocol, fragment, zone) {
        Gathered::Waits => Defragmented::Waits,
        Gathered::Whole(whole, size) => {
            *packet = whole;
            Defragmented::Whole(size)
        }
        Gathered::Dropped(fragment, reason) => {
            *packet = fragment;
            // The hook's packets begin in front of the network header.
            let _ = packet.data_to_mac();
            Defragmented::Dropped(reason)
        }
    }
}

/// Splits the packets that were reassembled and leave for another device.
pub(super) fn split(cx: &Cx<'_>, sent: Vec<Copy>) -> Vec<Copy> {
    let mut all = Vec::with_capacity(sent.len());
    for mut copy in sent {
        let size = std::mem::take(&mut copy.packet.cb) as u16;
        let device = u32::try_from(copy.target.device).ok();
        let device = device.and_then(|key| cx.device(DeviceKey(key)));
        let link = copy.packet.network_offset().unwrap_or(0);
        let fits = size == 0 || copy.packet.len() - link <= size.into();
        let Some(device) = device.filter(|_| !fits && !copy.target.ingress) else {
            all.push(copy);
            continue;
        };
        if !copy.itself {
            cx.stack.trace.copied(&mut copy.packet);
        }
        let target = copy.target;
        match defrag::split(cx, device, copy.packet, size) {
            Ok(fragments) => all.extend(fragments.into_iter().map(|packet| Copy {
                packet,
                target,
                itself: true,
            })),
            Err((packet, reason)) => cx.drop(device, Place::Egress, reason, packet),
        }
    }
    all
}

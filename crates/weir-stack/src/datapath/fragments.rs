// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragments at the hooks and in the qdiscs of a device: reassembly for the action `ct`, and fragmentation of what filters send to
//! another device (`sch_frag_xmit_hook`).

use std::cell::RefCell;
use std::sync::Arc;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{DropReason, Packet};
use weir_tc::{Copy, Defragmented};

use crate::cpu::Cx;
use crate::defrag;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fragments::{Gathered, Lengths};

/// The packets that were reassembled while a hook or a qdisc ran; the number of one is its position, plus 1.
#[derive(Debug, Default)]
pub(super) struct Reassembled(RefCell<Vec<Lengths>>);

impl Reassembled {
    fn add(&self, lengths: Lengths) -> u32 {
        let mut all = self.0.borrow_mut();
        all.push(lengths);
        all.len() as u32
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// Adds a fragment to those of a zone; see [`weir_tc::Context::defragment`].
pub(super) fn defragment(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    (packet, zone): (&mut Packet, u16),
    reassembled: &Reassembled,
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
        Gathered::Whole(whole, lengths) => {
            *packet = whole;
            Defragmented::Whole(reassembled.add(lengths))
        }
        Gathered::Dropped(fragment, reason) => {
            *packet = fragment;
            // The hook's packets begin in front of the network header.
            let _ = packet.data_to_mac();
            Defragmented::Dropped(reason)
        }
    }
}

/// Splits the packets that were reassembled and leave for the egress of another device (`sch_frag_xmit_hook`). `same`:
/// Linux sends packets that are redirected there themselves; otherwise copies of them.
pub(super) fn split(
    cx: &Cx<'_>,
    sent: Vec<Copy>,
    reassembled: &Reassembled,
    same: bool,
) -> Vec<Copy> {
    let all_lengths = reassembled.0.borrow();
    let mut all = Vec::with_capacity(sent.len());
    for mut copy in sent {
        let number = (copy.reassembled as usize).checked_sub(1);
        let lengths = number.and_then(|at| all_lengths.get(at));
        let device = u32::try_from(copy.target.device).ok();
        let device = device.and_then(|key| cx.device(DeviceKey(key)));
        let link = copy.packet.network_offset().unwrap_or(0);
        let len = copy.packet.len() - link;
        let lengths = lengths.filter(|lengths| len > lengths.largest.into());
        let (Some(device), Some(lengths)) = (device.filter(|_| !copy.target.ingress), lengths)
        else {
            all.push(copy);
            continue;
        };
        if !copy.itself {
            cx.stack.trace.copied(&mut copy.packet);
        }
        let (target, same) = (copy.target, same && copy.itself);
        match defrag::split(cx, device, copy.packet, lengths, same) {
            Ok(fragments) => all.extend(fragments.into_iter().map(|packet| Copy {
                packet,
                target,
                itself: true,
                reassembled: 0,
            })),
            Err((packet, reason)) => cx.drop(device, Place::Egress, reason, packet),
        }
    }
    all
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last step of layer 3, from next hop to link-layer header (`neigh_output`,
//! `neigh_resolve_output`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::header::ethernet::{ethernet, multicast_v4, multicast_v6};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{Batch, DropReason, Packet};

use super::{Neighbour, nud};
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::neigh::WithNeighbours;
use crate::stages::Stage;

/// Returns the link-layer address of a multicast or broadcast address.
pub(super) fn group_address(address: IpAddr, device: &Device) -> Option<Mac> {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() => Some(multicast_v4(v4.octets())),
        IpAddr::V4(v4) if v4.is_broadcast() => Some(device.broadcast()),
        IpAddr::V6(v6) if v6.is_multicast() => Some(multicast_v6(v6.octets())),
        _ => None,
    }
}

/// Sends packets that begin with their network header to one next hop on a device. `broadcast`
/// means that, according to the route, the next hop is the subnet's broadcast address.
pub fn output(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    next_hop: IpAddr,
    broadcast: bool,
    mut batch: Batch,
) {
    let count = batch.len();
    let group = if broadcast {
        Some(device.broadcast())
    } else {
        group_address(next_hop, device)
    };
    let ready = match group {
        Some(mac) => {
            let mac = remember_group(cx, device, next_hop).unwrap_or(mac);
            let source = device.address();
            batch.filter_map(|packet| with_header(cx, device, mac, source, packet));
            batch
        }
        None => resolve(cx, device, next_hop, batch),
    };
    cx.state.stages.end(Stage::Neighbour, count);
    if !ready.is_empty() {
        cx.transmit(device, ready);
    }
}

/// Makes an entry of a group or a broadcast address that a packet goes to, as Linux does for all of
/// them. Returns its link-layer address. A stack without
/// [`link_chatter`](crate::stack::Config::link_chatter) has no such entries.
fn remember_group(cx: &Cx<'_>, device: &Arc<Device>, next_hop: IpAddr) -> Option<Mac> {
    if !cx.stack.config.link_chatter {
        return None;
    }
    let table = device.namespace(cx.guard).neighbours();
    let entry = table.get_or_make(cx.stack, device, next_hop, cx.guard)?;
    entry.touch(cx.now);
    entry.mac()
}

/// Adds headers to the packets if their neighbour is known. Otherwise the packets wait or are
/// dropped.
fn resolve(cx: &mut Cx<'_>, device: &Arc<Device>, next_hop: IpAddr, mut batch: Batch) -> Batch {
    let ns = device.namespace(cx.guard);
    let entry = match ns.neighbours().get(device.key, next_hop, cx.guard) {
        Some(entry) => entry.clone(),
        None => match ns
            .neighbours()
            .get_or_make(cx.stack, device, next_hop, cx.guard)
        {
            Some(entry) => entry,
            None => {
                cx.drop_batch(
                    device,
                    Place::Neighbour,
                    DropReason::NEIGH_CREATEFAIL,
                    batch,
                );
                return Batch::new();
            }
        },
    };
    entry.touch(cx.now);
    let source = device.address();
    if entry.state() & (nud::CONNECTED | nud::DELAY | nud::PROBE) != 0
        && let Some(mac) = entry.mac()
    {
        batch.filter_map(|packet| with_header(cx, device, mac, source, packet));
        return batch;
    }
    let mut ready = Batch::new();
    for packet in batch {
        if let Some(packet) = entry.wait(cx, device, packet)
            && let Some(mac) = entry.mac()
            && let Some(packet) = with_header(cx, device, mac, source, packet)
        {
            // There is room: `ready` is no larger than the original batch.
            let _ = ready.push(packet);
        }
    }
    ready
}

/// Sends a packet that was waiting for `entry`.
pub(super) fn send_resolved(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    entry: &Neighbour,
    packet: Packet,
) {
    let Some(mac) = entry.mac() else {
        return cx.drop(device, Place::Neighbour, DropReason::NEIGH_FAILED, packet);
    };
    if let Some(packet) = with_header(cx, device, mac, device.address(), packet) {
        let mut batch = Batch::new();
        let _ = batch.push(packet);
        cx.transmit(device, batch);
    }
}

/// Prepends the Ethernet header (`dev_hard_header`).
#[inline]
pub fn with_header(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    to: Mac,
    from: Mac,
    mut packet: Packet,
) -> Option<Packet> {
    let protocol = match packet.data().first().map(|first| first >> 4) {
        Some(4) => ETH_P_IP,
        Some(6) => ETH_P_IPV6,
        _ => packet.protocol,
    };
    let Some(room) = packet.push(14) else {
        cx.drop(
            device,
            Place::Neighbour,
            DropReason::NEIGH_HH_FILLFAIL,
            packet,
        );
        return None;
    };
    room.copy_from_slice(&ethernet(to, from, protocol));
    packet.protocol = protocol;
    packet.reset_mac();
    packet.set_network(14);
    Some(packet)
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last step of layer 3, from next hop to link-layer header (`neigh_output`,
//! `neigh_resolve_output`).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_packet::batch::BATCH;
use weir_packet::header::ethernet::{ETH_P_MPLS_UC, ethernet, multicast_v4, multicast_v6};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet};
use weir_packet::{Batch, DropReason, Packet};
use weir_sync::bits::set_bits;

use super::{Key, Neighbour, entry_address};
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::fib::route::NextHop;
use crate::neigh::WithNeighbours;
use crate::stages::Stage;

/// Returns the link-layer address of broadcasts: on a device without neighbours its own (`arp_constructor`).
fn broadcast_address(device: &Device) -> Mac {
    match device.flags() & (iff::NOARP | iff::LOOPBACK) {
        0 => device.broadcast(),
        _ => device.address(),
    }
}

/// Returns the link-layer address of a multicast or broadcast address.
pub(super) fn group_address(address: IpAddr, device: &Device) -> Option<Mac> {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() => Some(multicast_v4(v4.octets())),
        IpAddr::V4(v4) if v4.is_broadcast() => Some(broadcast_address(device)),
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
    output_all(cx, device, next_hop, broadcast, &mut batch);
}

/// Does the same and leaves the batch empty.
pub fn output_all(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    next_hop: IpAddr,
    broadcast: bool,
    batch: &mut Batch,
) {
    let run = Run {
        next_hop,
        broadcast,
        count: batch.len(),
        via: None,
    };
    output_run(cx, device, &run, batch);
}

/// Sends the packets of a batch, all to one next hop, and leaves the batch empty.
fn output_run(cx: &mut Cx<'_>, device: &Arc<Device>, run: &Run<'_>, batch: &mut Batch) {
    if device.is_bare() {
        return send_bare(cx, device, [(run.next_hop, run.count)], batch);
    }
    let mut via = run.via.filter(|_| !run.broadcast);
    if let Some(entry) = via.and_then(|hop| hop.neighbour(cx.guard)) {
        if let Some(mac) = use_entry(cx, entry) {
            return send_to(cx, device, mac, batch);
        }
        via = None;
    }
    let group = if run.broadcast {
        Some(broadcast_address(device))
    } else {
        group_address(run.next_hop, device)
    };
    match group {
        Some(mac) => {
            let mac = remember_group(cx, device, run.next_hop).unwrap_or(mac);
            send_to(cx, device, mac, batch);
        }
        None => resolve(cx, device, run.next_hop, via, batch),
    }
}

/// Sends packets that begin with their network header to one link-layer address.
fn send_to(cx: &mut Cx<'_>, device: &Arc<Device>, to: Mac, batch: &mut Batch) {
    let source = device.address();
    let mut whole = true;
    for packet in batch.iter_mut() {
        whole &= prepend(packet, to, source);
    }
    send(cx, device, batch, whole);
}

/// Sends packets on a device without a link-layer header: there is nobody to resolve. `hops` are the next hops, each with
/// the number of its packets.
fn send_bare(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    hops: impl IntoIterator<Item = (IpAddr, usize)>,
    batch: &mut Batch,
) {
    let mut packets = batch.iter_mut();
    for (next_hop, count) in hops {
        let to = device.link.next_hop(cx.guard, next_hop);
        for packet in packets.by_ref().take(count) {
            packet.protocol = protocol_of(packet);
            packet.reset_mac();
            packet.set_network(0);
            if to.is_some() && !packet.has_tunnel() {
                packet.set_tunnel(to.clone());
            }
        }
    }
    cx.state.stages.end(Stage::Neighbour, batch.len());
    cx.transmit_all(device, batch);
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
    entry.touch(cx.time_of_use());
    entry.mac()
}

/// Consecutive packets of a batch that go to one next hop.
#[derive(Debug, Clone, Copy)]
pub struct Run<'g> {
    /// The next hop.
    pub next_hop: IpAddr,
    /// According to the route, the next hop is the subnet's broadcast address.
    pub broadcast: bool,
    /// The number of packets.
    pub count: usize,
    /// The hop of the route whose gateway is the next hop.
    pub via: Option<&'g NextHop<Arc<Device>>>,
}

/// Does the same as [`output_all`] for packets to several next hops on a device, and sends them as one
/// batch in their order. The runs together are the batch.
pub fn output_runs(cx: &mut Cx<'_>, device: &Arc<Device>, runs: &[Run<'_>], batch: &mut Batch) {
    if let [run] = runs {
        return output_run(cx, device, run, batch);
    }
    if device.is_bare() {
        let hops = runs.iter().map(|run| (run.next_hop, run.count));
        return send_bare(cx, device, hops, batch);
    }
    let mut macs = [None; BATCH];
    find(cx, device, runs, &mut macs);
    if !macs.iter().zip(runs).all(|(mac, _)| mac.is_some()) {
        return one_by_one(cx, device, runs, batch);
    }
    let source = device.address();
    let mut packets = batch.iter_mut();
    let mut whole = true;
    for (run, mac) in runs.iter().zip(macs) {
        let to = mac.unwrap_or_default();
        for packet in packets.by_ref().take(run.count) {
            whole &= prepend(packet, to, source);
        }
    }
    send(cx, device, batch, whole);
}

/// Sends packets of an EtherType to neighbours that need no verification, whose link-layer addresses the caller has
/// read. `to` has an entry for each packet of the batch, which is left empty.
pub fn output_to<'a>(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    protocol: u16,
    to: impl Iterator<Item = (&'a Neighbour, Mac)>,
    batch: &mut Batch,
) {
    if device.is_bare() {
        let hops = to.map(|(entry, _)| (entry.key.address, 1));
        return send_bare(cx, device, hops, batch);
    }
    let now = cx.time_of_use();
    // What follows the destination is the same for all.
    let [_, _, _, _, _, _, rest @ ..] = ethernet([0; 6], device.address(), protocol);
    // As a number it is stored at once.
    let rest = u64::from_ne_bytes(rest);
    let mut whole = true;
    for (packet, (entry, mac)) in batch.iter_mut().zip(to) {
        entry.touch(now);
        packet.protocol = protocol;
        let header = packet.push_link_header::<{ Ethernet::LEN }>();
        whole &= header.is_some();
        let header = header.and_then(|header| header.split_first_chunk_mut());
        if let Some((to, after)) = header {
            *to = mac;
            after.copy_from_slice(&rest.to_ne_bytes());
        }
    }
    send(cx, device, batch, whole);
}

/// Sends packets with their link-layer headers. Unless the batch is `whole`, those without one are
/// dropped.
fn send(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, whole: bool) {
    let count = batch.len();
    if !whole {
        let mut short = Batch::new();
        batch.split(
            |packet| packet.has_mac(),
            |packet| {
                // There is room: at most one batch comes out of a batch.
                let _ = short.push(packet);
            },
        );
        cx.drop_batch(
            device,
            Place::Neighbour,
            DropReason::NEIGH_HH_FILLFAIL,
            short,
        );
    }
    cx.state.stages.end(Stage::Neighbour, count);
    if !batch.is_empty() {
        cx.transmit_all(device, batch);
    }
}

/// Finds the link-layer addresses of the next hops that need no verification.
#[inline]
fn find(cx: &Cx<'_>, device: &Device, runs: &[Run<'_>], macs: &mut [Option<Mac>; BATCH]) {
    // With entries of groups, a group is like any other next hop.
    let groups = !cx.stack.config.link_chatter;
    let mut unknown = 0_u64;
    for ((n, run), mac) in runs.iter().enumerate().zip(macs.iter_mut()) {
        let via = run.via.filter(|_| !run.broadcast);
        if let Some(entry) = via.and_then(|hop| hop.neighbour(cx.guard)) {
            *mac = use_entry(cx, entry);
        } else if groups && run.broadcast {
            *mac = Some(broadcast_address(device));
        } else {
            *mac = match groups {
                true => group_address(run.next_hop, device),
                false => None,
            };
            if mac.is_none() {
                unknown |= 1 << n;
            }
        }
    }
    if unknown != 0 {
        search(cx, device, runs, unknown, macs);
    }
}

/// Searches the table for the next hops of the runs in the bit map `wanted`.
fn search(
    cx: &Cx<'_>,
    device: &Device,
    runs: &[Run<'_>],
    wanted: u64,
    macs: &mut [Option<Mac>; BATCH],
) {
    let first = Key {
        device: device.key,
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let mut keys = [first; BATCH];
    let places = || set_bits(wanted).filter_map(|n| runs.get(n).map(|run| (n, run)));
    let mut count = 0;
    for (key, (_, run)) in keys.iter_mut().zip(places()) {
        key.address = entry_address(device, run.next_hop);
        count += 1;
    }
    let mut found = [None; BATCH];
    let keys = keys.get(..count).unwrap_or_default();
    let table = &device.namespace(cx.guard).neighbours().table;
    table.get_many(keys, cx.guard, &mut found);
    for entry in found.iter().take(count).flatten() {
        entry.prefetch();
    }
    for ((n, run), entry) in places().zip(found) {
        if let (Some(entry), Some(mac)) = (entry, macs.get_mut(n)) {
            *mac = use_entry(cx, entry);
            if let Some(hop) = run.via.filter(|_| !run.broadcast) {
                hop.remember(entry);
            }
        }
    }
}

/// Returns the link-layer address of an entry that needs no verification, and records its use.
#[inline]
fn use_entry(cx: &Cx<'_>, entry: &Neighbour) -> Option<Mac> {
    let mac = entry.ready()?;
    entry.touch(cx.time_of_use());
    Some(mac)
}

/// Sends each run as a batch of its own. Neighbours may be unknown.
#[cold]
fn one_by_one(cx: &mut Cx<'_>, device: &Arc<Device>, runs: &[Run<'_>], batch: &mut Batch) {
    let mut packets = batch.drain();
    for run in runs {
        let mut part = Batch::new();
        for packet in packets.by_ref().take(run.count) {
            // There is room: the part is no larger than the batch it is taken from.
            let _ = part.push(packet);
        }
        output(cx, device, run.next_hop, run.broadcast, part);
    }
}

/// Sends packets if their neighbour is known. Otherwise the packets wait or are dropped. The hop `via` remembers the entry.
fn resolve(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    next_hop: IpAddr,
    via: Option<&NextHop<Arc<Device>>>,
    batch: &mut Batch,
) {
    let count = batch.len();
    let table = device.namespace(cx.guard).neighbours();
    let address = entry_address(device, next_hop);
    let made;
    let entry = match table.get(device.key, address, cx.guard) {
        Some(entry) => {
            if let Some(hop) = via {
                hop.remember(entry);
            }
            entry
        }
        None => match table.get_or_make(cx.stack, device, next_hop, cx.guard) {
            Some(entry) => {
                made = entry;
                &made
            }
            None => {
                cx.drop_all(
                    device,
                    Place::Neighbour,
                    DropReason::NEIGH_CREATEFAIL,
                    batch,
                );
                return cx.state.stages.end(Stage::Neighbour, count);
            }
        },
    };
    entry.touch(cx.time_of_use());
    if let Some(mac) = entry.ready() {
        return send_to(cx, device, mac, batch);
    }
    let source = device.address();
    let mut ready = Batch::new();
    for packet in batch.drain() {
        if let Some(packet) = entry.wait(cx, device, packet)
            && let Some(mac) = entry.mac()
            && let Some(packet) = with_header(cx, device, mac, source, packet)
        {
            // There is room: `ready` is no larger than the original batch.
            let _ = ready.push(packet);
        }
    }
    cx.state.stages.end(Stage::Neighbour, count);
    if !ready.is_empty() {
        cx.transmit(device, ready);
    }
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

/// Prepends the Ethernet header (`dev_hard_header`). Drops a packet without room for it.
#[inline]
pub fn with_header(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    to: Mac,
    from: Mac,
    mut packet: Packet,
) -> Option<Packet> {
    if prepend(&mut packet, to, from) {
        return Some(packet);
    }
    let reason = DropReason::NEIGH_HH_FILLFAIL;
    cx.drop(device, Place::Neighbour, reason, packet);
    None
}

/// Returns the EtherType of a packet that begins with its network header.
#[inline(always)]
fn protocol_of(packet: &Packet) -> u16 {
    match packet.data().first().map(|first| first >> 4) {
        // The first bits of a label may be any.
        _ if packet.protocol == ETH_P_MPLS_UC => ETH_P_MPLS_UC,
        Some(4) => ETH_P_IP,
        Some(6) => ETH_P_IPV6,
        _ => packet.protocol,
    }
}

/// Prepends the Ethernet header. Returns `false`, and unsets the MAC header, if there is no room.
#[inline(always)]
fn prepend(packet: &mut Packet, to: Mac, from: Mac) -> bool {
    packet.protocol = protocol_of(packet);
    let header = ethernet(to, from, packet.protocol);
    packet.push_link_header().map(|to| *to = header).is_some()
}

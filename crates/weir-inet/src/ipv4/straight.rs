// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight way through a router, for a whole batch: unicast packets without options that fit
//! the MTU, whose routes have a single gateway with a known link-layer address. Most packets of a
//! router are of this kind.
//!
//! [`plan`] changes nothing. If any packet of the batch needs more, all of them take the full path
//! of [`super::input`], so that packets of a flow stay in order. Both ways treat a packet of this
//! kind alike.

use std::sync::Arc;

use weir_packet::batch::BATCH;
use weir_packet::header::Ipv4;
use weir_packet::{Batch, Flags, PacketType, edit};
use weir_sync::rcu::Guard;

use super::output;
use super::route::Input;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::fib::exception::Exceptions;
use crate::fib::lookup::Hint;
use crate::mib::{Count, Ip};
use crate::namespace::Namespace;
use crate::neigh::{self, Neighbour};
use crate::settings::{Ipv4 as Conf, WithSettings};
use crate::stages::Stage;

/// The most devices that the packets of a batch may leave by.
const DEVICES: usize = 4;

/// The way of each packet of a batch.
pub(super) struct Plan<'g> {
    /// The gateways' entries and link-layer addresses.
    to: [Option<(&'g Neighbour, Mac)>; BATCH],
    /// The devices, in order of first use, and the device of each packet.
    devices: [Option<&'g Arc<Device>>; DEVICES],
    whose: [u8; BATCH],
}

/// Returns whether an address is unicast and neither loopback nor in network 0. Its other special
/// meanings are those of the local table.
#[inline]
fn is_plain(address: u32) -> bool {
    let octet = address >> 24;
    octet.wrapping_sub(1) < 223 && octet != 127
}

/// Plans the way of the packets, which have passed the header checks, or returns `None` if one of
/// them needs the full path. `exceptions` are those of the namespace. `hint` returns the result of a look-ahead for the
/// packet with a number and a destination.
#[inline]
pub(super) fn plan<'g>(
    input: &Input<'g>,
    exceptions: &Exceptions<u32, Arc<Device>>,
    batch: &Batch,
    guard: &'g Guard,
    mut hint: impl FnMut(usize, u32) -> Hint<'g, Arc<Device>>,
) -> Option<Plan<'g>> {
    let local = input.straight()?;
    let mut plan = Plan {
        to: [None; BATCH],
        devices: [None; DEVICES],
        whose: [0; BATCH],
    };
    let mut last = (0, 0, 0);
    let slots = plan.to.iter_mut().zip(&mut plan.whose).enumerate();
    let mut before = None;
    for (packet, (n, (to, whose))) in batch.iter().zip(slots) {
        let header = Ipv4::new(packet.data())?;
        if packet.pkt_type() != PacketType::Host
            || header.header_len() != Ipv4::LEN
            || header.ttl() <= 1
        {
            return None;
        }
        let (src, dst) = (
            u32::from_be_bytes(header.src()),
            u32::from_be_bytes(header.dst()),
        );
        if (src, dst) != (last.0, last.1) || before.is_none() {
            let own = |address| local.is_some_and(|local| local.covers(address, guard));
            // Packets of one source often follow each other.
            let known = before.is_some() && src == last.0;
            if !known && (!is_plain(src) || own(src)) || !is_plain(dst) || own(dst) {
                return None;
            }
            let (_, leaf) = hint(n, dst)?;
            let (info, hop) = leaf.only_hop()?;
            if exceptions.of(dst, info, hop, guard).is_some() {
                return None;
            }
            let device = hop.device.as_ref()?;
            let entry = hop.neighbour(guard)?;
            let place = plan
                .devices
                .iter()
                .position(|slot| slot.is_none_or(|slot| Arc::ptr_eq(slot, device)))?;
            *plan.devices.get_mut(place)? = Some(device);
            if device.ifindex() == input.ifindex() {
                return None;
            }
            let mtu = match info.mtu() {
                0 => device.mtu().min(0xffff),
                mtu => mtu,
            };
            last = (src, dst, mtu);
            before = Some(((entry, entry.ready()?), place as u8));
        }
        if packet.network_len() > last.2 as usize {
            return None;
        }
        let (entry, place) = before?;
        (*to, *whose) = (Some(entry), place);
    }
    Some(plan)
}

/// Forwards the packets of a batch as planned.
pub(super) fn forward(cx: &mut Cx<'_>, ns: &Namespace, mut batch: Batch, plan: &Plan<'_>) {
    let count = batch.len();
    cx.state.stages.end(Stage::Ipv4In, count);
    let prioritise = ns.conf().ipv4.on(Conf::ForwardUpdatePriority);
    let mut octets = 0;
    for packet in batch.iter_mut() {
        octets += packet.len() as u64;
        edit::ipv4_decrement_ttl(packet.data_mut());
        packet.flags.insert(Flags::FORWARDED);
        if prioritise {
            let tos = packet.data().get(1).copied().unwrap_or_default();
            packet.priority = output::priority(tos);
        }
    }
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutForwDatagrams, count as u64);
    mib.ip.add(Ip::OutRequests, count as u64);
    mib.ip.add(Ip::OutOctets, 2 * octets);
    cx.state.stages.end(Stage::Forward, count);
    if let [Some(device), None, ..] = plan.devices {
        return neigh::output_to(cx, device, &plan.to, batch);
    }
    let mut parts: [Batch; DEVICES] = std::array::from_fn(|_| Batch::new());
    let mut to = [[None; BATCH]; DEVICES];
    for ((packet, entry), place) in batch.into_iter().zip(plan.to).zip(plan.whose) {
        let place = usize::from(place);
        if let (Some(part), Some(to)) = (parts.get_mut(place), to.get_mut(place)) {
            if let Some(slot) = to.get_mut(part.len()) {
                *slot = entry;
            }
            // There is room: the part is no larger than the batch it is taken from.
            let _ = part.push(packet);
        }
    }
    let parts = parts.into_iter().zip(to);
    for (device, (part, to)) in plan.devices.into_iter().flatten().zip(parts) {
        neigh::output_to(cx, device, &to, part);
    }
}

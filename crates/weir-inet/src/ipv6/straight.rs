// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight way through a router, for a whole batch: unicast packets of global or unique local addresses without
//! hop-by-hop options that fit the MTU, whose next hop is the only one of their route and has a known link-layer address.
//!
//! [`plan`] changes nothing. If any packet of the batch needs more, all of them take the full path of [`super::input`],
//! so that packets of a flow stay in order. Both ways treat a packet of this kind alike.

use std::sync::Arc;

use weir_packet::edit::ipv6_decrement_hop_limit;
use weir_packet::header::ipv6::NEXTHDR_HOP;
use weir_packet::header::{ETH_P_IPV6, Ipv6};
use weir_packet::{Batch, Flags, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::forward::Hop;
use super::input::{self, route};
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::mib::Count;
use crate::mib::{Ip, Received};
use crate::namespace::Namespace;
use crate::neigh::WithNeighbours;
use crate::settings::HasIp;
use crate::settings::Ipv6Conf;
use crate::settings::WithSettings;
use crate::stages::Stage;
use crate::straight::{Plan, Way};

/// Returns whether an address is of 2000::/3 or fc00::/7, whose unicast addresses mean the same on every link.
#[inline]
fn is_plain([first, ..]: &[u8; 16]) -> bool {
    first & 0xe0 == 0x20 || first & 0xfe == 0xfc
}

/// Returns the header of a packet that passes the checks of [`super::input`] and those of forwarding, without
/// hop-by-hop options, its destination, and the length of the packet in bytes.
#[inline]
fn plain(packet: &Packet) -> Option<(&[u8; Ipv6::LEN], [u8; 16], usize)> {
    if packet.pkt_type() != PacketType::Host {
        return None;
    }
    let bytes = packet.network();
    let header: &[u8; Ipv6::LEN] = bytes.first_chunk()?;
    let ip = Ipv6::new(header)?;
    let len = Ipv6::LEN + usize::from(ip.payload_len());
    let passes = ip.version() == 6
        && ip.next_header() != NEXTHDR_HOP
        && ip.hop_limit() > 1
        && len <= bytes.len();
    let dst = ip.dst();
    (passes && is_plain(&ip.src()) && is_plain(&dst)).then_some((header, dst, len))
}

/// Plans the way of the packets of a batch, which `device` has received, or returns `None` if one of them needs the full
/// path.
pub(super) fn plan<'g>(
    cx: &Cx<'g>,
    ns: &'g Namespace,
    device: &'g Arc<Device>,
    batch: &Batch,
    guard: &'g Guard,
) -> Option<Plan<'g>> {
    if !ns.conf().all.ipv6.on(Ipv6Conf::Forwarding)
        || ns.fib().v6.rules().are_changed(guard)
        || cx.stack.trace.follows()
        || Packet::any_is_long(batch)
    {
        return None;
    }
    let mut plan = Plan::new();
    // The decision for the packet before, whose destination many packets share.
    let mut last: Option<([u8; 16], Way<'g>)> = None;
    for packet in batch.iter() {
        let (header, dst, len) = plain(packet)?;
        let way = match last {
            Some((before, way)) if before == dst => way,
            _ => {
                // Only a decision that is the same for all packets to the destination is remembered.
                let mut single = None;
                let input::Way::Forward(hop) =
                    route(ns, device, packet, header, &mut single, guard)
                else {
                    return None;
                };
                single?;
                let way = leave(&hop, device, guard, |device| plan.exits.place(device))?;
                last = Some((dst, way));
                way
            }
        };
        if len > way.mtu as usize {
            return None;
        }
        plan.ways.push(way);
    }
    Some(plan)
}

/// Returns the way by a next hop on another device than `from`, if its link-layer address is known.
#[inline]
fn leave<'g>(
    hop: &Hop<'g>,
    from: &Arc<Device>,
    guard: &'g Guard,
    place: impl FnOnce(&'g Arc<Device>) -> Option<u8>,
) -> Option<Way<'g>> {
    let device = hop.device;
    let able = device.has_ipv6() && !device.conf().ipv6.on(Ipv6Conf::DisableIpv6);
    if Arc::ptr_eq(device, from) || hop.encap.is_some() || !able {
        return None;
    }
    let neighbours = device.namespace(guard).neighbours();
    let entry = neighbours.get(device.key, hop.next_hop.into(), guard)?;
    Some(Way {
        to: (entry, entry.ready()?),
        place: place(device)?,
        mtu: hop.mtu,
    })
}

/// Forwards the packets of a batch as planned, and leaves the batch empty.
pub(super) fn forward(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch, plan: &Plan<'_>) {
    let count = batch.len();
    let mut received = Received {
        packets: count as u64,
        ..Received::default()
    };
    for packet in batch.iter_mut() {
        // It was found there by `plan`.
        let _ = packet.data_to_network();
        received.octets += packet.len() as u64;
        let Some(header) = packet.head_mut::<{ Ipv6::LEN }>() else {
            continue;
        };
        let (class, payload) = match Ipv6::new(header) {
            Some(ip) => (ip.traffic_class(), ip.payload_len()),
            None => (0, 0),
        };
        received.ecn[usize::from(class & 3)] += 1;
        ipv6_decrement_hop_limit(header);
        packet.trim(Ipv6::LEN + usize::from(payload));
        packet.set_transport(Ipv6::LEN);
        packet.flags.insert(Flags::FORWARDED);
    }
    let mib = cx.mib6(device);
    received.flush(|counter, by| mib.ip(counter, by));
    cx.state.stages.end(Stage::Ipv6In, count);
    plan.send(cx, ETH_P_IPV6, batch, |cx, out, part| {
        let mib = cx.mib6(out);
        mib.ip(Ip::OutForwDatagrams, part.len() as u64);
        mib.ip(Ip::OutOctets, part.bytes());
        part.iter_mut().for_each(|packet| packet.dev = out.key.0);
        cx.state.stages.end(Stage::Forward, part.len());
    });
}

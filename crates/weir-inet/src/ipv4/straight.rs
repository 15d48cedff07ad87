// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The straight way through a router, for a whole batch: unicast packets without options that fit
//! the MTU, whose next hop is the only one of their route and has a known link-layer address. Most packets of a
//! router are of this kind.
//!
//! [`plan`] changes nothing. If any packet of the batch needs more, all of them take the full path
//! of [`super::input`], so that packets of a flow stay in order. Both ways treat a packet of this
//! kind alike.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_packet::header::{ETH_P_IP, Ipv4};
use weir_packet::{Batch, Flags, edit};
use weir_sync::rcu::Guard;

use super::output;
use super::route::Input;
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::WithRoutes;
use crate::fib::lookup::Hint;
use crate::fib::route::NextHop;
use crate::mib::{Count, Ip};
use crate::namespace::Namespace;
use crate::neigh::{Neighbour, WithNeighbours};
use crate::settings::{Ipv4 as Conf, WithSettings};
use crate::stages::Stage;
use crate::straight::{Exits, Plan, Way};

/// The addresses of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) src: u32,
    pub(super) dst: u32,
}

/// A device that packets leave by.
#[derive(Clone, Copy)]
struct Exit<'g> {
    device: &'g Arc<Device>,
    /// Its place among the devices of the plan.
    place: u8,
    /// The longest packet that it takes, in bytes.
    mtu: u32,
}

impl<'g> Exit<'g> {
    /// Returns `None` if there are too many devices, or if packets came in by this one.
    fn new(exits: &mut Exits<'g>, device: &'g Arc<Device>, input: &Input<'_>) -> Option<Self> {
        if device.ifindex() == input.ifindex() {
            return None;
        }
        Some(Self {
            device,
            place: exits.place(device)?,
            mtu: device.mtu().min(0xffff),
        })
    }
}

/// Returns whether an address is unicast and neither loopback nor in network 0. Its other special
/// meanings are those of the local table.
#[inline]
fn is_plain(address: u32) -> bool {
    let octet = address >> 24;
    octet.wrapping_sub(1) < 223 && octet != 127
}

/// Returns the entry of the only hop of a route to `dst`: the gateway's if packets have used it, or that of the
/// destination itself.
#[inline]
fn next_hop<'g>(
    hop: &'g NextHop<Arc<Device>>,
    device: &'g Device,
    dst: u32,
    guard: &'g Guard,
) -> Option<&'g Neighbour> {
    if hop.gateway.is_some() {
        return hop.neighbour(guard);
    }
    let neighbours = device.namespace(guard).neighbours();
    let entry = neighbours.get(device.key, Ipv4Addr::from(dst).into(), guard)?;
    Some(entry)
}

/// Plans the way of packets with these addresses, which have passed the header checks and are simple, or returns `None`
/// if one of them needs the full path. `hint` returns the result of a look-ahead for the packet with a number and a
/// destination.
#[inline]
pub(super) fn plan<'g>(
    input: &Input<'g>,
    ns: &Namespace,
    (batch, pairs): (&Batch, impl Iterator<Item = Pair>),
    guard: &'g Guard,
    mut hint: impl FnMut(usize, u32) -> Hint<'g, Arc<Device>>,
) -> Option<Plan<'g>> {
    let local = input.straight()?;
    let exceptions = &ns.fib().v4.exceptions;
    let exceptions = exceptions.any().then_some(exceptions);
    let mut plan = Plan::new();
    let own = |address| local.is_some_and(|local| local.covers(address, guard));
    // The decision for the packet before, whose addresses many packets share.
    let mut last: Option<(Pair, Way<'g>)> = None;
    // The device of the packet before, by which many packets leave.
    let mut exit: Option<Exit<'g>> = None;
    for (n, (packet, pair)) in batch.iter().zip(pairs).enumerate() {
        let way = match last {
            Some((before, way)) if before == pair => way,
            _ => {
                // Packets of one source often follow each other.
                let known = last.is_some_and(|(before, _)| before.src == pair.src);
                let Pair { src, dst } = pair;
                if !known && (!is_plain(src) || own(src)) || !is_plain(dst) || own(dst) {
                    return None;
                }
                let (_, leaf) = hint(n, dst)?;
                let (info, hop) = leaf.only_hop()?;
                let excepted = exceptions.and_then(|all| all.of(dst, info, hop, guard));
                if excepted.is_some() {
                    return None;
                }
                let device = hop.device.as_ref()?;
                let entry = next_hop(hop, device, dst, guard)?;
                let exit = match exit {
                    Some(exit) if Arc::ptr_eq(exit.device, device) => exit,
                    _ => *exit.insert(Exit::new(&mut plan.exits, device, input)?),
                };
                let mtu = match info.mtu() {
                    0 => exit.mtu,
                    mtu => mtu,
                };
                let way = Way {
                    to: (entry, entry.ready()?),
                    place: exit.place,
                    mtu,
                };
                last = Some((pair, way));
                way
            }
        };
        if packet.network_len() > way.mtu as usize {
            return None;
        }
        plan.ways.push(way);
    }
    Some(plan)
}

/// Forwards the packets of a batch as planned, and leaves the batch empty.
pub(super) fn forward(cx: &mut Cx<'_>, ns: &Namespace, batch: &mut Batch, plan: &Plan<'_>) {
    let count = batch.len();
    cx.state.stages.end(Stage::Ipv4In, count);
    let prioritise = ns.conf().ipv4.on(Conf::ForwardUpdatePriority);
    let mut octets = 0;
    for packet in batch.iter_mut() {
        octets += packet.len() as u64;
        let Some(header) = packet.head_mut::<{ Ipv4::LEN }>() else {
            continue;
        };
        let tos = header[1];
        edit::ipv4_decrement_ttl(header);
        packet.flags.insert(Flags::FORWARDED);
        if prioritise {
            packet.priority = output::priority(tos);
        }
    }
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutForwDatagrams, count as u64);
    mib.ip.add(Ip::OutRequests, count as u64);
    mib.ip.add(Ip::OutOctets, 2 * octets);
    cx.state.stages.end(Stage::Forward, count);
    plan.send(cx, ETH_P_IP, batch, |_, _, _| ());
}

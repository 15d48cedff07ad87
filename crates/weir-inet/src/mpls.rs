// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPLS forwarding (RFC 3031, RFC 3032, `mpls_forward`): a labelled packet is sent on by the route of its first label,
//! which is popped or swapped, with others pushed on top.
//!
//! A packet whose last label is popped goes to the route's neighbour without a look at the routing table, with the TTL
//! of the label or its own. A device takes labelled packets if `net.mpls.conf.DEV.input` is set. Packets that do not fit
//! the outgoing device, or whose TTL ends, are dropped without an answer, as in Linux.
//!
//! Not implemented: multicast labels (ETH_P_MPLS_MC).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::ethernet::ETH_P_MPLS_UC;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ipv4, Ipv6};
use weir_packet::{Batch, DropReason, Packet, PacketType, checksum, jhash2};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::fib::encap::{entries, push_labels};
use crate::fib::mpls::{
    self, ENTROPY, FIRST_UNRESERVED, Hop, Mpls, Payload, Route, SHIM, Via, counter,
};
use crate::layers::{Module, PacketType as Registered};
use crate::neigh;

/// MPLS in the stack.
pub static MODULE: Module = Module {
    packet_types: &[Registered {
        protocol: ETH_P_MPLS_UC,
        receive,
    }],
    ..Module::NONE
};

/// The number of labels that the choice of a path looks at (`MAX_MP_SELECT_LABELS`).
const LOOKED_AT: usize = 4;

/// An entry of a label stack.
#[derive(Debug, Clone, Copy)]
struct Entry {
    label: u32,
    bottom: bool,
    ttl: u8,
}

fn entry_at(data: &[u8], at: usize) -> Option<Entry> {
    let octets = data.get(at..)?.first_chunk()?;
    let word = u32::from_be_bytes(*octets);
    Some(Entry {
        label: word >> 12,
        bottom: word >> 8 & 1 == 1,
        ttl: word as u8,
    })
}

/// Receives labelled packets of a device.
fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, batch: &mut Batch) {
    let guard = cx.guard;
    let reason = DropReason::NOT_SPECIFIED;
    let Some(state) = mpls::of(device.namespace(guard)) else {
        return cx.drop_all(device, Place::Mpls, reason, batch);
    };
    let packets = batch.len() as u64;
    let octets = batch
        .iter()
        .map(|packet| packet.network().len() as u64)
        .sum();
    let arrived = [(counter::RX_PACKETS, packets), (counter::RX_BYTES, octets)];
    state.count(device.key, &arrived, guard);
    if state.input(device.key, guard) == 0 {
        state.count(device.key, &[(counter::RX_DROPPED, packets)], guard);
        return cx.drop_all(device, Place::Mpls, reason, batch);
    }
    let mut run = Run::default();
    for packet in batch.drain() {
        if let Err((at, reason, packet)) = forward(cx, state, &mut run, packet) {
            let counted = match reason {
                DropReason::IP_INNOROUTES => Some(counter::RX_NOROUTE),
                // The outgoing device has counted it.
                DropReason::DEV_READY | DropReason::PKT_TOO_BIG | DropReason::NOMEM => None,
                _ => Some(counter::RX_ERRORS),
            };
            if let Some(counter) = counted {
                state.count(device.key, &[(counter, 1)], guard);
            }
            cx.drop(at.unwrap_or(device), Place::Mpls, reason, packet);
        }
    }
    run.flush(cx);
    run.count(state, None, guard);
}

/// Consecutive packets to one neighbour.
#[derive(Default)]
struct Run<'g> {
    to: Option<(&'g Arc<Device>, IpAddr)>,
    batch: Batch,
    /// The labelled packets and octets that left by a device and are not counted yet.
    labelled: Option<(DeviceKey, [u64; 2])>,
}

impl<'g> Run<'g> {
    /// Counts what has left so far, unless the next packet leaves by the same device, and the next packet.
    fn count(&mut self, state: &Mpls, next: Option<(DeviceKey, u64)>, guard: &Guard) {
        let device = next.map(|(key, _)| key);
        if let Some((key, [packets, octets])) =
            self.labelled.take_if(|(key, _)| Some(*key) != device)
        {
            let left = [(counter::TX_PACKETS, packets), (counter::TX_BYTES, octets)];
            state.count(key, &left, guard);
        }
        if let Some((key, len)) = next {
            let (_, [packets, octets]) = self.labelled.get_or_insert((key, [0; 2]));
            (*packets, *octets) = (*packets + 1, *octets + len);
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, device: &'g Arc<Device>, to: IpAddr, packet: Packet) {
        let same =
            |(other, address): (&Arc<Device>, IpAddr)| Arc::ptr_eq(other, device) && address == to;
        if !self.to.is_some_and(same) || self.batch.is_full() {
            self.flush(cx);
        }
        self.to = Some((device, to));
        // There is room: a full batch has just been flushed.
        let _ = self.batch.push(packet);
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some((device, to)) = self.to.take() {
            neigh::output(cx, device, to, false, self.batch.take());
        }
    }
}

/// Where to count a packet that is dropped: at the outgoing device, or where it arrived; the reason.
type Refused<'g> = (Option<&'g Arc<Device>>, DropReason, Packet);

/// Sends one packet on (`mpls_forward`).
fn forward<'a, 'g: 'a>(
    cx: &mut Cx<'g>,
    state: &'a Mpls,
    run: &mut Run<'a>,
    mut packet: Packet,
) -> Result<(), Refused<'a>> {
    let guard = cx.guard;
    let refuse = |reason, packet| Err((None, reason, packet));
    if packet.pkt_type() != PacketType::Host {
        return refuse(DropReason::OTHERHOST, packet);
    }
    if !packet.data_to_network() {
        return refuse(DropReason::PKT_TOO_SMALL, packet);
    }
    let Some(first) = entry_at(packet.data(), 0) else {
        return refuse(DropReason::PKT_TOO_SMALL, packet);
    };
    let Some(route) = state.route(first.label, cx.guard) else {
        return refuse(DropReason::IP_INNOROUTES, packet);
    };
    let Some(hop) = route.select(|| hash(packet.data())) else {
        return refuse(DropReason::IP_OUTNOROUTES, packet);
    };
    if first.ttl <= 1 {
        return refuse(DropReason::IP_INHDR, packet);
    }
    let out = hop.device.and_then(|(key, _)| cx.device(key));
    let fails = |key| state.count(key, &[(counter::TX_ERRORS, 1)], guard);
    let Some(out) = out.filter(|out| out.is_up() && !out.lacks_carrier()) else {
        if let Some((key, _)) = hop.device {
            fails(key);
        }
        return refuse(DropReason::DEV_READY, packet);
    };
    let popped = packet.pull(SHIM);
    debug_assert!(popped, "the entry was read");
    if packet.len() + hop.labels.len() * SHIM > out.mtu() as usize {
        fails(out.key);
        return Err((Some(out), DropReason::PKT_TOO_BIG, packet));
    }
    packet.set_vlan(None);
    packet.set_tunnel(None);
    packet.set_conn(None);
    packet.set_network(0);
    packet.unset_transport();
    packet.dev = out.key.0;
    let ttl = first.ttl - 1;
    if hop.labels.is_empty() && first.bottom {
        let propagate = route.propagate;
        let propagate = propagate.unwrap_or_else(|| state.propagate.load(Relaxed));
        if !pop_last(&mut packet, route, propagate.then_some(ttl)) {
            return refuse(DropReason::UNHANDLED_PROTO, packet);
        }
    } else {
        if !push_labels(&mut packet, &hop.labels, ttl, first.bottom) {
            fails(out.key);
            return refuse(DropReason::NOMEM, packet);
        }
        run.count(state, Some((out.key, packet.len() as u64)), guard);
    }
    send(cx, out, hop, run, packet);
    Ok(())
}

/// Sends a packet to the neighbour of a hop (`neigh_xmit`).
fn send<'g>(cx: &mut Cx<'_>, out: &'g Arc<Device>, hop: &Hop, run: &mut Run<'g>, packet: Packet) {
    let to = match &hop.via {
        Via::V4(address) => return run.push(cx, out, IpAddr::V4(*address), packet),
        Via::V6(address) => return run.push(cx, out, IpAddr::V6(*address), packet),
        Via::Link(address) => address.first_chunk().copied().unwrap_or_default(),
        Via::Device => out.address(),
    };
    run.flush(cx);
    if out.is_bare() {
        // There is no header, so the neighbour does not matter.
        return neigh::output(cx, out, IpAddr::from([0; 4]), false, Batch::from(packet));
    }
    if let Some(packet) = neigh::with_header(cx, out, to, out.address(), packet) {
        cx.transmit(out, Batch::from(packet));
    }
}

/// Makes an IP packet of what is below the last label (`mpls_egress`). Its TTL becomes `ttl`, or one less.
fn pop_last(packet: &mut Packet, route: &Route, ttl: Option<u8>) -> bool {
    if packet.len() < 12 {
        return false;
    }
    let version = packet.data().first().map_or(0, |first| first >> 4);
    let data = packet.data_mut();
    let six = match (route.payload, version) {
        (Payload::V4, _) | (Payload::Unspecified, 4) => false,
        (Payload::V6, _) | (Payload::Unspecified, 6) => true,
        _ => return false,
    };
    if six {
        if let Some(limit) = data.get_mut(7) {
            *limit = ttl.unwrap_or(limit.saturating_sub(1));
        }
        packet.protocol = ETH_P_IPV6;
        return true;
    }
    if let &mut [
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        ref mut old,
        protocol,
        ref mut c0,
        ref mut c1,
        ..,
    ] = data
    {
        let new = ttl.unwrap_or(old.saturating_sub(1));
        let word = |ttl: u8| u16::from_be_bytes([ttl, protocol]);
        let check = u16::from_be_bytes([*c0, *c1]);
        [*c0, *c1] = checksum::update_u16(check, word(*old), word(new)).to_be_bytes();
        *old = new;
    }
    packet.protocol = ETH_P_IP;
    true
}

/// Returns the hash of a packet with nothing but labels, for `ip route get`.
pub fn hash_of(labels: &[u32]) -> u32 {
    let entries = entries(labels, 1, true).flatten();
    hash(&entries.collect::<Vec<_>>())
}

/// Returns the hash that chooses among several hops (`mpls_multipath_hash`).
fn hash(data: &[u8]) -> u32 {
    let (mut hash, mut entropy) = (0, false);
    for n in 0..LOOKED_AT {
        let Some(entry) = entry_at(data, n * SHIM) else {
            break;
        };
        if entry.label >= FIRST_UNRESERVED {
            hash = jhash2(&[entry.label], hash);
            if entropy {
                break;
            }
        } else if entry.label == ENTROPY {
            entropy = true;
        }
        if !entry.bottom {
            continue;
        }
        let inner = data.get((n + 1) * SHIM..).unwrap_or_default();
        if let Some(ip) = Ipv4::new(inner).filter(|_| inner.first().is_some_and(|b| b >> 4 == 4)) {
            let [src, dst] = [ip.src(), ip.dst()].map(u32::from_be_bytes);
            hash = jhash2(&[src, dst, ip.protocol().into()], hash);
        } else if let Some(ip) = Ipv6::new(inner) {
            for address in [ip.src(), ip.dst()] {
                hash = address_hash(address, hash);
            }
            hash = jhash2(&[ip.next_header().into()], hash);
        }
        break;
    }
    hash
}

/// `__ipv6_addr_jhash`
fn address_hash(address: [u8; 16], start: u32) -> u32 {
    let mut words = [0; 4];
    for (word, octets) in words.iter_mut().zip(address.chunks_exact(4)) {
        *word = octets
            .first_chunk()
            .map_or(0, |octets| u32::from_ne_bytes(*octets));
    }
    jhash2(&words, start)
}

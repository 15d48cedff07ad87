// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding (`ip6_forward`).
//!
//! The order of the checks is that of Linux: forwarding enabled (`net.ipv6.conf.all.forwarding`),
//! frame addressed to us, hop limit, redirect or source scope, MTU. Not implemented: IPsec policy,
//! messages of neighbour discovery to proxied neighbours themselves (they are forwarded). Packets to groups are routed by
//! [`super::multicast`].

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_packet::edit::ipv6_decrement_hop_limit;
use weir_packet::header::Ipv6;
use weir_packet::header::icmp::{
    ICMPV6_DEST_UNREACH, ICMPV6_EXC_HOPLIMIT, ICMPV6_NOT_NEIGHBOUR, ICMPV6_PKT_TOOBIG,
    ICMPV6_TIME_EXCEED,
};
use weir_packet::packet::Flags;
use weir_packet::{Batch, DropReason, Packet, PacketType};

use super::icmp::send_error;
use super::{nd, output};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::encap::{self, Encap};
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::settings::HasIp;
use crate::settings::Ipv6Conf;
use crate::settings::WithSettings;
use crate::stages::Stage;

/// The next hop of a forwarded packet.
#[derive(Clone, Copy)]
pub struct Hop<'g> {
    /// The outgoing device.
    pub device: &'g Arc<Device>,
    /// The gateway, or the destination itself.
    pub next_hop: Ipv6Addr,
    /// Whether `next_hop` is a gateway.
    pub gateway: bool,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The encapsulation of packets.
    pub encap: Option<&'g Arc<Encap>>,
}

impl Hop<'_> {
    fn is_same(&self, other: &Hop<'_>) -> bool {
        self.next_hop == other.next_hop && Arc::ptr_eq(self.device, other.device)
    }
}

/// Packets to one next hop, collected to be sent together.
#[derive(Default)]
pub struct Run<'g> {
    hop: Option<Hop<'g>>,
    batch: Batch,
}

impl<'g> Run<'g> {
    /// Adds a packet. Packets to a different next hop are sent first.
    #[inline]
    pub fn push(&mut self, cx: &mut Cx<'_>, hop: Hop<'g>, packet: Packet) {
        let place = Place::Ipv6Out;
        if Encap::is_mpls(hop.encap) && packet.segments().is_some() {
            // Labels go on packets of the wire.
            return crate::segments::each(cx, hop.device, place, packet, |cx, segment| {
                self.push(cx, hop, segment);
            });
        }
        let Some(packet) = encap::attach(hop.encap, cx, (hop.device, place), packet) else {
            return;
        };
        if self.hop.is_some_and(|before| !before.is_same(&hop)) || self.batch.is_full() {
            self.flush(cx);
        }
        self.hop = Some(hop);
        // There is room: a full batch has just been flushed.
        let _ = self.batch.push(packet);
    }

    /// Sends the collected packets.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some(hop) = self.hop.take() else {
            return;
        };
        let batch = &mut self.batch;
        let mib = cx.mib6(hop.device);
        mib.ip(Ip::OutForwDatagrams, batch.len() as u64);
        mib.ip(Ip::OutOctets, batch.bytes());
        cx.state.stages.end(Stage::Forward, batch.len());
        crate::neigh::output_all(cx, hop.device, hop.next_hop.into(), false, batch);
    }
}

/// Checks and edits a packet that begins with its IPv6 header. Returns `None` if it was dropped.
#[inline]
pub fn forward(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    device: &Arc<Device>,
    hop: &Hop<'_>,
    mut packet: Packet,
) -> Option<Packet> {
    let ended = |cx: &mut Cx<'_>, reason, packet| {
        match reason {
            DropReason::IP_INADDRERRORS => cx.mib6(device).ip(Ip::InAddrErrors, 1),
            DropReason::IP_INHDR => cx.mib6(device).ip(Ip::InHdrErrors, 1),
            _ => {}
        }
        cx.drop(device, Place::Ipv6Forward, reason, packet);
        None
    };
    if !ns.conf().all.ipv6.on(Ipv6Conf::Forwarding) {
        return ended(cx, DropReason::IP_INADDRERRORS, packet);
    }
    if packet.pkt_type() != PacketType::Host {
        return ended(cx, DropReason::NOT_SPECIFIED, packet);
    }
    let Some(header) = Ipv6::new(packet.data()) else {
        return ended(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let (limit, src) = (header.hop_limit(), Ipv6Addr::from(header.src()));
    if limit <= 1 {
        let code = ICMPV6_EXC_HOPLIMIT;
        send_error(cx, device, &packet, ICMPV6_TIME_EXCEED, code, 0);
        return ended(cx, DropReason::IP_INHDR, packet);
    }
    if Arc::ptr_eq(hop.device, device) {
        nd::redirect(cx, device, hop, &packet);
    } else if src.is_unspecified() || src.is_multicast() || src.is_loopback() {
        return ended(cx, DropReason::IP_INADDRERRORS, packet);
    } else if src.is_unicast_link_local() {
        let code = ICMPV6_NOT_NEIGHBOUR;
        send_error(cx, device, &packet, ICMPV6_DEST_UNREACH, code, 0);
        return ended(cx, DropReason::IP_INADDRERRORS, packet);
    }
    // What connection tracking has reassembled is fragmented again (`ignore_df`).
    if packet.network_len() > hop.mtu as usize && !packet.flags.contains(Flags::REASSEMBLED) {
        send_error(cx, hop.device, &packet, ICMPV6_PKT_TOOBIG, 0, hop.mtu);
        cx.mib6(device).ip(Ip::InTooBigErrors, 1);
        cx.mib6(hop.device).ip(Ip::FragFails, 1);
        return ended(cx, DropReason::PKT_TOO_BIG, packet);
    }
    if hop.device.conf().ipv6.on(Ipv6Conf::DisableIpv6) || !hop.device.has_ipv6() {
        let mib = cx.mib6(hop.device);
        mib.ip(Ip::OutForwDatagrams, 1);
        mib.ip(Ip::OutOctets, packet.len() as u64);
        mib.ip(Ip::OutDiscards, 1);
        cx.drop(hop.device, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
        return None;
    }
    ipv6_decrement_hop_limit(packet.data_mut());
    packet.flags.insert(Flags::FORWARDED);
    packet.dev = hop.device.key.0;
    Some(packet)
}

/// Sends a forwarded packet in fragments that fit the next hop.
#[cold]
pub fn fragments(cx: &mut Cx<'_>, ns: &Namespace, hop: &Hop<'_>, packet: Packet) {
    let mib = cx.mib6(hop.device);
    mib.ip(Ip::OutForwDatagrams, 1);
    mib.ip(Ip::OutOctets, packet.len() as u64);
    let way = (hop.device, hop.device, hop.next_hop);
    output::fragment(cx, ns, way, hop.encap, hop.mtu as usize, packet);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 forwarding (`ip_forward`): TTL, MTU, priority.
//!
//! Not implemented: path MTU from exceptions (`ip_forward_use_pmtu`).

use std::sync::Arc;

use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_EXC_TTL, ICMP_FRAG_NEEDED, ICMP_TIME_EXCEEDED,
};
use weir_packet::header::{Ipv4, ipv4_options};
use weir_packet::{DropReason, Flags, Packet, PacketType, edit};

use super::icmp;
use super::output::{self, Groups};
use super::route::Hop;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::settings::Ipv4 as Conf;
use crate::settings::WithSettings;

/// Forwards a packet that begins with its validated header. Returns its length in bytes, or 0 if it was dropped.
#[inline]
pub fn forward<'g>(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    mut packet: Packet,
    hop: &Hop<'g>,
    options: Option<&ipv4_options::Compiled>,
    groups: &mut Groups<'g>,
) -> usize {
    // A unicast packet in a multicast or broadcast frame is not forwarded.
    if packet.pkt_type() != PacketType::Host {
        let reason = DropReason::UNICAST_IN_L2_MULTICAST;
        cx.drop(device, Place::Ipv4Forward, reason, packet);
        return 0;
    }
    let Some(header) = Ipv4::new(packet.data()) else {
        cx.drop(device, Place::Ipv4Forward, DropReason::IP_INHDR, packet);
        return 0;
    };
    let (ttl, tos, dont_fragment) = (header.ttl(), header.tos(), header.dont_fragment());
    if ttl <= 1 {
        cx.mib(ns).ip.add(Ip::InHdrErrors, 1);
        icmp::error(
            cx,
            device,
            &packet,
            ICMP_TIME_EXCEEDED,
            ICMP_EXC_TTL,
            0,
            false,
        );
        cx.drop(device, Place::Ipv4Forward, DropReason::IP_INHDR, packet);
        return 0;
    }
    let octets = packet.len();
    // What connection tracking has reassembled is fragmented again (`ignore_df`).
    let keeps = dont_fragment && !packet.flags.contains(Flags::REASSEMBLED);
    if packet.network_len() > hop.mtu as usize && keeps {
        cx.mib(ns).ip.add(Ip::FragFails, 1);
        icmp::error(
            cx,
            device,
            &packet,
            ICMP_DEST_UNREACH,
            ICMP_FRAG_NEEDED,
            hop.mtu & 0xffff,
            false,
        );
        cx.drop(device, Place::Ipv4Forward, DropReason::PKT_TOO_BIG, packet);
        return 0;
    }
    edit::ipv4_decrement_ttl(packet.data_mut());
    packet.flags.insert(Flags::FORWARDED);
    if Arc::ptr_eq(hop.device, device) {
        super::redirect::send(cx, device, ns, &packet, hop);
    }
    if ns.conf().ipv4.on(Conf::ForwardUpdatePriority) {
        packet.priority = output::priority(tos);
    }
    if let Some(options) = options {
        output::record_out(cx, ns, &mut packet, hop, options);
    }
    output::push_fitting(cx, device, ns, hop, packet, groups);
    octets
}

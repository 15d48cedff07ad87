// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locally generated packets: route, source address, hop limit, fragments
//! (`ip6_route_output_flags`, `ip6_dst_hoplimit`, `ip6_finish_output`, `ip6_fragment`).
//!
//! Path MTUs learned from "packet too big" are those of [`super::path_mtu`]. Not implemented: extension
//! headers in front of a fragment header, which nothing here creates.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::rta;
use weir_packet::header::icmp::ICMPV6_PKT_TOOBIG;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, ipv6};
use weir_packet::header::{ETH_P_IPV6, Ipv6};
use weir_packet::packet::Flags;
use weir_packet::{Batch, DropReason, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::select::{needs_device, select_address};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::encap::{self, Encap};
use crate::fib::host::{WithRoutes, l3_output};
use crate::fib::lookup::{Flow, Found, LookupFlags};
use crate::fib::route::RouteInfo;
use crate::ipv6::WithIpv6;
use crate::l3mdev;
use crate::mib::Count;
use crate::mib::{Icmp, Ip, Way};
use crate::namespace::Namespace;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::settings::{Ipv6 as Slot, Ipv6Conf};
use crate::stages::Stage;

/// The minimum MTU of a link (RFC 8200, 5).
pub const MIN_MTU: u32 = crate::settings::IPV6_MIN_MTU;
/// The index of the loopback device.
pub(super) const LOOPBACK: u32 = 1;

/// The route of a packet.
#[derive(Clone, Copy)]
pub struct Route<'g> {
    /// The outgoing device; the loopback device for our own addresses.
    pub device: &'g Arc<Device>,
    /// The gateway, or the destination itself.
    pub next_hop: Ipv6Addr,
    /// `RTN_*`
    pub kind: u8,
    /// The prefix length of the route in bits.
    pub dst_len: u8,
    /// The device named by the route.
    pub named: &'g Arc<Device>,
    /// The metrics and the preferred source.
    pub info: &'g RouteInfo<Arc<Device>>,
    /// The encapsulation of packets.
    pub encap: Option<&'g Arc<Encap>>,
    /// The path MTU in bytes, if it is not that of the route or the device.
    path_mtu: Option<u32>,
}

/// Routes packets from `src` (unspecified: not selected yet) to `dst`, through the device `oif` (0:
/// any) if possible (`ip6_route_output_flags`).
///
/// # Errors
/// The positive errno of the route, or of its absence.
pub fn route<'g>(
    ns: &'g Namespace,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    oif: u32,
    guard: &'g Guard,
) -> Result<Route<'g>, i32> {
    route_by(ns, src, dst, oif, &Key::default(), guard)
}

/// What rules may ask about a packet beside its addresses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Key {
    /// Firewall mark.
    pub mark: u32,
    /// The protocol.
    pub proto: u8,
    /// The source and the destination port.
    pub ports: (u16, u16),
    /// Only routes through the given device count: a socket is bound to it.
    pub strict: bool,
}

/// Routes packets like [`route`], also by mark, protocol and ports.
///
/// # Errors
/// As [`route`].
pub fn route_by<'g>(
    ns: &'g Namespace,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    oif: u32,
    key: &Key,
    guard: &'g Guard,
) -> Result<Route<'g>, i32> {
    let found = find(ns, src, dst, oif, key, guard)?;
    through(ns, &found, dst, guard)
}

/// Returns the route of packets to `dst`, which may be an exception of the one found.
///
/// # Errors
/// ENETUNREACH without a device.
pub(super) fn through<'g>(
    ns: &'g Namespace,
    found: &Found<'g, u128, Arc<Device>>,
    dst: Ipv6Addr,
    guard: &'g Guard,
) -> Result<Route<'g>, i32> {
    let named = found
        .hop
        .device
        .as_ref()
        .ok_or(weir_netlink::errno::ENETUNREACH)?;
    let kind = found.info.spec.kind;
    let device = if matches!(kind, rta::rtn::LOCAL | rta::rtn::ANYCAST) {
        own_device(ns, named, dst, guard)
    } else {
        named
    };
    let exception = ns.fib().v6.exceptions.find(dst.into(), found, guard);
    let next_hop = match exception.map_or(found.hop.gateway, |one| one.gateway) {
        Some(IpAddr::V6(gateway)) => gateway,
        _ => dst,
    };
    Ok(Route {
        device,
        next_hop,
        kind,
        dst_len: found.dst_len,
        named,
        info: found.info,
        encap: found.info.encap_of(found.hop),
        path_mtu: exception.and_then(|one| one.mtu),
    })
}

/// Finds the route of packets, without its exceptions.
pub(super) fn find<'g>(
    ns: &'g Namespace,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    oif: u32,
    key: &Key,
    guard: &'g Guard,
) -> Result<Found<'g, u128, Arc<Device>>, i32> {
    let (l3_table, bound) = l3_output(ns, oif, guard);
    // A VRF has no link (`vrf_link_scope_lookup`).
    let of_link = dst.is_multicast() || dst.is_unicast_link_local();
    if l3_table != 0 && bound == 0 && of_link {
        return Err(weir_netlink::errno::ENETUNREACH);
    }
    let flow = Flow {
        dst: dst.into(),
        src: src.into(),
        iif: LOOPBACK,
        oif: bound,
        l3_table,
        mark: key.mark,
        proto: key.proto,
        sport: key.ports.0,
        dport: key.ports.1,
        ..Flow::default()
    };
    let flags = LookupFlags {
        iface: key.strict || needs_device(dst) || (oif != 0 && src.is_unspecified()),
        ..LookupFlags::default()
    };
    let mut found = ns.fib().v6.lookup(&flow, flags, guard)?;
    if found.is_multipath_of(bound) {
        found = found.select(super::input::multipath_hash(ns, &flow, None));
    }
    Ok(found)
}

/// Returns the device of packets to an address of `named`: its VRF or, without one, the loopback device
/// (`ip6_rt_get_dev_rcu`).
pub fn own_device<'g>(
    ns: &'g Namespace,
    named: &'g Arc<Device>,
    dst: Ipv6Addr,
    guard: &'g Guard,
) -> &'g Arc<Device> {
    match named.l3_master(guard) {
        Some(_) if needs_device(dst) => named,
        Some(master) => master,
        None => ns.device(LOOPBACK, guard).unwrap_or(named),
    }
}

/// Returns a route's metric (`RTAX_*`), or 0 if it is not set.
#[inline]
pub(super) fn metric(info: &RouteInfo<Arc<Device>>, metric: u16) -> u32 {
    let metrics = info.spec.metrics.as_ref();
    metrics.map_or(0, |metrics| metrics.get(metric))
}

impl Route<'_> {
    /// Returns the path MTU in bytes (`ip6_mtu`).
    pub fn mtu(&self) -> u32 {
        let kept = self.path_mtu;
        let mtu = match kept.unwrap_or_else(|| metric(self.info, rta::ax::MTU)) {
            0 => mtu_of(self.device),
            mtu => mtu.max(MIN_MTU),
        };
        mtu.saturating_sub(Encap::headroom(self.encap))
    }

    /// Takes no more than `mtu` bytes for the path MTU.
    pub fn limit(&mut self, mtu: u32) {
        let mtu = mtu.min(self.mtu());
        self.path_mtu = Some(mtu + Encap::headroom(self.encap));
    }

    /// Returns the default hop limit (`ip6_dst_hoplimit`).
    pub fn hop_limit(&self) -> u8 {
        let limit = match metric(self.info, rta::ax::HOPLIMIT) {
            0 => self.device.conf().ipv6.get(Ipv6Conf::HopLimit),
            limit => limit as i32,
        };
        limit.clamp(0, 255) as u8
    }

    /// Returns the default source address (`ip6_route_get_saddr`).
    pub fn source(&self, ns: &Namespace, dst: Ipv6Addr, guard: &Guard) -> Option<Ipv6Addr> {
        match self.info.spec.prefsrc {
            Some(IpAddr::V6(source)) => Some(source),
            _ => select_address(ns, Some(self.named), dst, guard),
        }
    }

    /// Returns whether the destination is one of our own addresses.
    pub fn is_local(&self) -> bool {
        matches!(self.kind, rta::rtn::LOCAL | rta::rtn::ANYCAST)
    }
}

/// Returns the IPv6 MTU of a device in bytes (`net.ipv6.conf.DEV.mtu`). It follows the device's MTU
/// and may be set to less.
#[inline]
pub(super) fn mtu_of(device: &Device) -> u32 {
    (device.conf().ipv6.get(Ipv6Conf::Mtu).max(0) as u32).max(MIN_MTU)
}

/// Returns the flow label of locally generated packets, which is the same for all packets of a flow
/// (`ip6_make_flowlabel`), or 0 if `auto_flowlabels` is off.
pub fn flow_label(ns: &Namespace, src: Ipv6Addr, dst: Ipv6Addr, protocol: u8) -> u32 {
    if !matches!(ns.conf().ipv6.get(Slot::AutoFlowlabels), 1 | 3) {
        return 0;
    }
    let seed = ns.ipv6().seed ^ u64::from(protocol);
    weir_packet::dissect::l3_hash(&src.octets(), &dst.octets(), seed) & 0xf_ffff
}

/// The fields of a header that we generate.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    /// The source address.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
    /// The next header.
    pub protocol: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub class: u8,
    /// The flow label.
    pub label: u32,
}

/// Prepends an IPv6 header to a packet that begins with its payload.
pub(super) fn with_header(mut packet: Packet, head: &Head) -> Result<Packet, Packet> {
    let payload = packet.len();
    let Some(room) = packet.push(Ipv6::LEN) else {
        return Err(packet);
    };
    room.copy_from_slice(&ipv6(
        head.src.octets(),
        head.dst.octets(),
        head.protocol,
        head.hop_limit,
        head.class,
        head.label,
        payload,
    ));
    packet.set_network(0);
    packet.set_transport(Ipv6::LEN);
    packet.protocol = ETH_P_IPV6;
    Ok(packet)
}

/// Resets the metadata of a received packet so that it can be sent as our own, as if newly
/// allocated.
pub(super) fn renew(cx: &Cx<'_>, packet: &mut Packet) {
    cx.stack.trace.end(packet);
    packet.set_pkt_type(PacketType::Host);
    packet.set_vlan(None);
    packet.unset_mac();
    packet.flags = Flags::NONE;
    (packet.mark, packet.priority, packet.hash, packet.trace) = (0, 0, 0, 0);
    (packet.tc_index, packet.nest, packet.queue) = (0, 0, 0);
    (packet.chain, packet.cb, packet.iif) = (0, 0, 0);
}

/// Sends a packet that begins with its payload: adds the header, fragments it if necessary, and
/// passes it to the next hop (`ip6_output`).
pub fn send(cx: &mut Cx<'_>, ns: &Namespace, route: &Route<'_>, head: &Head, packet: Packet) {
    let device = route.device;
    let mib = cx.mib6(route.named);
    mib.ip(Ip::OutRequests, 1);
    mib.ip(Ip::OutOctets, (Ipv6::LEN + packet.len()) as u64);
    if head.protocol == IPPROTO_ICMPV6 {
        mib.icmp(Icmp::OutMsgs);
        mib.message(Way::Out, packet.data().first().copied().unwrap_or(0));
    }
    let mut packet = match with_header(packet, head) {
        Ok(packet) => packet,
        Err(packet) => return cx.drop(device, Place::Ipv6Out, DropReason::NOMEM, packet),
    };
    packet.flags.insert(Flags::LOCAL);
    packet.time = cx.now;
    packet.dev = device.key.0;
    if device.conf().ipv6.on(Ipv6Conf::DisableIpv6) || !device.has_ipv6() {
        mib.ip(Ip::OutDiscards, 1);
        return cx.drop(device, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
    }
    let Some(packet) = l3mdev::divert(cx, device, packet, stays_on_link) else {
        return;
    };
    cx.state.stages.end(Stage::Local, 0);
    let mtu = route.mtu() as usize;
    if packet.network_len() > mtu {
        let way = (route.named, device, route.next_hop);
        return fragment(cx, ns, way, route.encap, mtu, packet);
    }
    let Some(packet) = encap::attach(route.encap, cx, (device, Place::Ipv6Out), packet) else {
        return;
    };
    let batch = Batch::from(packet);
    count_multicast(cx, route.named, head.dst, &batch);
    crate::neigh::output(cx, device, route.next_hop.into(), false, batch);
}

/// Returns whether a packet is to an address of a link or a group.
fn stays_on_link(packet: &Packet) -> bool {
    Ipv6::new(packet.data()).is_none_or(|header| needs_device(header.dst().into()))
}

/// Counts outgoing packets if they are multicast (`ip6_finish_output2`).
pub(super) fn count_multicast(cx: &Cx<'_>, device: &Device, dst: Ipv6Addr, batch: &Batch) {
    if dst.is_multicast() {
        let mib = cx.mib6(device);
        mib.ip(Ip::OutMcastPkts, batch.len() as u64);
        mib.ip(Ip::OutMcastOctets, batch.bytes());
    }
}

/// Like [`send`], for a tunnel's packet, which is never fragmented (`ip6tunnel_xmit`). If it does not fit the path, this
/// host tells itself, and so the tunnel (`ip6_fragment`).
pub fn send_tunnelled(cx: &mut Cx<'_>, route: &Route<'_>, head: &Head, packet: Packet) {
    let device = route.device;
    let mut packet = match with_header(packet, head) {
        Ok(packet) => packet,
        Err(packet) => return cx.drop(device, Place::Ipv6Out, DropReason::NOMEM, packet),
    };
    packet.dev = device.key.0;
    let mtu = route.mtu();
    if packet.len() > mtu as usize {
        cx.mib6(route.named).ip(Ip::FragFails, 1);
        super::icmp::send_error(cx, device, &packet, ICMPV6_PKT_TOOBIG, 0, mtu);
        return cx.drop(device, Place::Ipv6Out, DropReason::PKT_TOO_BIG, packet);
    }
    let Some(packet) = l3mdev::divert(cx, device, packet, stays_on_link) else {
        return;
    };
    let Some(packet) = encap::attach(route.encap, cx, (device, Place::Ipv6Out), packet) else {
        return;
    };
    let batch = Batch::from(packet);
    count_multicast(cx, route.named, head.dst, &batch);
    crate::neigh::output(cx, device, route.next_hop.into(), false, batch);
}

/// Sends a packet in fragments of at most `mtu` bytes to the next hop at a device (`ip6_fragment`). Counts at `named`.
pub fn fragment(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    (named, device, next_hop): (&Arc<Device>, &Arc<Device>, Ipv6Addr),
    encap: Option<&Arc<Encap>>,
    mtu: usize,
    packet: Packet,
) {
    let mib = cx.mib6(named);
    let dst = Ipv6::new(packet.data()).map_or(Ipv6Addr::UNSPECIFIED, |header| header.dst().into());
    let id = ns.ipv6().next_ident();
    let Some(fragments) = super::fragment::split(&packet, mtu, id, &cx.stack.pool) else {
        mib.ip(Ip::FragFails, 1);
        return cx.drop(device, Place::Ipv6Out, DropReason::NOMEM, packet);
    };
    mib.ip(Ip::FragCreates, fragments.len() as u64);
    mib.ip(Ip::FragOKs, 1);
    cx.consume(packet);
    let mut batch = Batch::new();
    for mut fragment in fragments {
        cx.stack.trace.copied(&mut fragment);
        let Some(fragment) = encap::attach(encap, cx, (device, Place::Ipv6Out), fragment) else {
            continue;
        };
        if let Err(fragment) = batch.push(fragment) {
            let full = std::mem::replace(&mut batch, Batch::from(fragment));
            count_multicast(cx, named, dst, &full);
            crate::neigh::output(cx, device, next_hop.into(), false, full);
        }
    }
    count_multicast(cx, named, dst, &batch);
    crate::neigh::output(cx, device, next_hop.into(), false, batch);
}

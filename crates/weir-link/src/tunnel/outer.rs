// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outer headers of IP tunnels (`ip_tunnel_xmit`, `ip_md_tunnel_xmit`, `iptunnel_xmit`, `tnl_update_pmtu`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace. A packet that does not
//! fit is answered with "fragmentation needed" or "packet too big" if it has been routed to the tunnel, and
//! dropped. Differences from Linux: the MTU of the underlay is not stored with the inner route; packets dropped
//! behind the tunnel are counted there and not as errors of the tunnel.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EAFNOSUPPORT, ELOOP};
use weir_packet::header::icmp::{ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, ICMPV6_PKT_TOOBIG};
use weir_packet::header::ipv4::IP_DF;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::{DropReason, Flags, Packet, PacketType, checksum};

use super::inner::Inner;
use super::{Errors, IpTunnel, Parms};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::{self, route::Wanted};
use crate::ipv6;
use crate::namespace::Namespace;
use crate::settings::{Ipv4 as Slot, WithSettings};

/// The longest tunnel header in bytes.
const LONGEST: usize = 24;
/// The number of bytes in front of a tunnel's headers: the outer IP header, and an Ethernet header with a tag.
const IN_FRONT: usize = Ipv6::LEN + Ethernet::LEN + 4;
/// The smallest MTU of IPv6 in bytes.
const IPV6_MIN_MTU: usize = 1280;

/// The header between the outer IP header and the inner packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    octets: [u8; LONGEST],
    len: usize,
    /// Where the checksum over the header and the inner packet goes.
    check: Option<usize>,
}

impl Header {
    /// Appends bytes. What exceeds the longest header is cut.
    pub fn push(&mut self, octets: &[u8]) {
        let rest = self.octets.iter_mut().skip(self.len);
        rest.zip(octets).for_each(|(to, from)| *to = *from);
        self.len = (self.len + octets.len()).min(LONGEST);
    }

    /// Appends a checksum of two bytes, which is computed with the whole packet.
    pub fn push_checksum(&mut self) {
        self.check = Some(self.len);
        self.push(&[0, 0]);
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no header.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the header to the room for it `at` bytes into a packet.
    pub fn write(&self, packet: &mut Packet, at: usize) {
        let Some(data) = packet.data_mut().get_mut(at..) else {
            return;
        };
        let room = data.iter_mut().take(self.len);
        room.zip(&self.octets).for_each(|(to, from)| *to = *from);
        if let Some(at) = self.check {
            let check = checksum::checksum(data).to_be_bytes();
            let field = data.iter_mut().skip(at);
            field.zip(check).for_each(|(to, from)| *to = from);
        }
    }
}

/// The parameters for sending a packet.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The outer source, or unspecified if the route selects it.
    pub src: IpAddr,
    /// The outer destination.
    pub dst: IpAddr,
    /// The protocol of the outer packet's payload.
    pub protocol: u8,
    /// The outer TTL, or 0 to copy the inner packet's.
    pub ttl: u8,
    /// The type of service without what is copied from the ECN bits.
    pub tos: u8,
    /// Set DF in the outer header.
    pub df: bool,
    /// Copy DF from the inner packet.
    pub inherit_df: bool,
    /// The mark of the outer packet's route.
    pub mark: u32,
    /// The index of the underlay device, or 0 for any.
    pub link: u32,
}

impl Way {
    /// The way of a tunnel that has its own remote. Returns `None` if it has none.
    pub fn of(parms: &Parms, inner: &Inner, protocol: u8) -> Option<Self> {
        Self::to(parms.remote, parms, inner, protocol)
    }

    /// The way of a tunnel that has no remote of its own, unless it does, by the next hop of the packet.
    pub fn of_packet(packet: &Packet, parms: &Parms, inner: &Inner, protocol: u8) -> Option<Self> {
        let remote = match parms.remote.is_unspecified() {
            true => next_hop(packet)?,
            false => parms.remote,
        };
        Self::to(remote, parms, inner, protocol)
    }

    /// The way to a remote. Returns `None` if it is unspecified.
    pub fn to(remote: IpAddr, parms: &Parms, inner: &Inner, protocol: u8) -> Option<Self> {
        if remote.is_unspecified() {
            return None;
        }
        Some(Self {
            src: parms.local,
            dst: remote,
            protocol,
            ttl: parms.ttl,
            tos: inherited(parms.tos, inner),
            df: parms.df,
            inherit_df: !parms.ignore_df,
            mark: parms.fwmark,
            link: parms.link,
        })
    }

    /// The way that the packet's metadata give, if they are for sending by the address family.
    pub fn by_metadata(packet: &Packet, inner: &Inner, protocol: u8, ipv6: bool) -> Option<Self> {
        let tunnel = packet.tunnel().filter(|tunnel| tunnel.transmit)?;
        let (src, dst) = (tunnel.ends.src(), tunnel.ends.dst());
        let tos = match tunnel.tos {
            1 => inner.tos,
            tos => tos,
        };
        (dst.is_ipv6() == ipv6).then_some(Self {
            src,
            dst,
            protocol,
            ttl: tunnel.ttl,
            tos,
            df: tunnel.dont_fragment,
            inherit_df: false,
            mark: packet.mark,
            link: 0,
        })
    }
}

/// Returns where the next hop of a packet's route is, if the device has asked for that ([`crate::Link::next_hop`]);
/// unspecified if the address of the next hop does not say it.
pub fn next_hop(packet: &Packet) -> Option<IpAddr> {
    let tunnel = packet.tunnel().filter(|tunnel| tunnel.hop)?;
    Some(tunnel.ends.dst())
}

/// Returns the type of service of a tunnel, of which bit 0 says to copy the inner packet's.
pub fn inherited(tos: u8, inner: &Inner) -> u8 {
    match tos & 1 {
        0 => tos,
        _ if inner.ip => inner.tos,
        _ => tos & !1,
    }
}

/// Drops a packet that could not be sent and counts the error (`tx_error`).
pub fn fail(errors: &Errors, cx: &Cx<'_>, device: &Device, errno: i32, packet: Packet) {
    let reason = match errno {
        ELOOP => {
            errors.collisions.fetch_add(1, Relaxed);
            DropReason::RECURSION_LIMIT
        }
        _ => {
            errors.tx_carrier.fetch_add(1, Relaxed);
            DropReason::IP_OUTNOROUTES
        }
    };
    error(cx, device, reason, packet);
}

/// Drops a packet and counts an error of the device.
pub fn error(cx: &Cx<'_>, device: &Device, reason: DropReason, packet: Packet) {
    let stats = device.stats(cx.state.id);
    stats.tx_errors.fetch_add(1, Relaxed);
    cx.drop(device, Place::Transmit, reason, packet);
}

/// Drops a packet and counts it as dropped by the device.
pub fn discard(cx: &Cx<'_>, device: &Device, reason: DropReason, packet: Packet) {
    let stats = device.stats(cx.state.id);
    stats.tx_dropped.fetch_add(1, Relaxed);
    cx.drop(device, Place::Transmit, reason, packet);
}

/// Returns whether the packet fits the MTU in bytes of what the tunnel carries. One that does not is answered and
/// returned as an error.
fn fit(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    inner: &Inner,
    mtu: usize,
    mut packet: Packet,
) -> Result<Packet, ()> {
    let size = packet.len().saturating_sub(inner.link);
    let too_big = match inner.protocol {
        ETH_P_IP => inner.df && mtu < size,
        ETH_P_IPV6 => mtu >= IPV6_MIN_MTU && mtu < size,
        _ => false,
    };
    if !too_big {
        return Ok(packet);
    }
    let routed =
        packet.flags.contains(Flags::FORWARDED) && !packet.flags.contains(Flags::REDIRECTED);
    if routed {
        let kind = Kind {
            v4: (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED),
            v6: (ICMPV6_PKT_TOOBIG, 0),
        };
        answer(cx, device, inner, &kind, mtu as u32, &mut packet);
    }
    error(cx, device, DropReason::PKT_TOO_BIG, packet);
    Err(())
}

/// The type and code of an error, of ICMP and of ICMPv6.
pub struct Kind {
    /// Of ICMP.
    pub v4: (u8, u8),
    /// Of ICMPv6.
    pub v6: (u8, u8),
}

/// Sends an error about a packet to its sender. The packet's data begin with its network header thereafter.
pub fn answer(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    inner: &Inner,
    kind: &Kind,
    info: u32,
    packet: &mut Packet,
) {
    if !packet.pull(inner.link) {
        return;
    }
    packet.set_network(0);
    packet.set_pkt_type(PacketType::Host);
    let came_by = device.namespace(cx.guard).device(packet.iif, cx.guard);
    let came_by = came_by.unwrap_or(device);
    if inner.protocol == ETH_P_IP {
        let (ty, code) = kind.v4;
        ipv4::icmp::error(cx, came_by, packet, ty, code, info, false);
    } else {
        let (ty, code) = kind.v6;
        ipv6::icmp::send_error(cx, came_by, packet, ty, code, info);
    }
}

/// Makes room for a tunnel's headers, `len` bytes, in front of a packet, and clears the metadata that belongs to its path
/// so far. A packet for which there is no memory is dropped.
pub fn make_room(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    len: usize,
    mut packet: Packet,
) -> Option<Packet> {
    packet.set_tunnel(None);
    packet.set_conn(None);
    if packet.headroom() < len + IN_FRONT {
        let Some(wider) = packet.copy_with_headroom(len + IN_FRONT) else {
            discard(cx, device, DropReason::NOMEM, packet);
            return None;
        };
        packet = wider;
    }
    if packet.push(len).is_none() {
        discard(cx, device, DropReason::NOMEM, packet);
        return None;
    }
    packet.unset_mac();
    packet.flags = Flags::LOCAL;
    packet.set_pkt_type(PacketType::Outgoing);
    (packet.iif, packet.queue, packet.time) = (0, 0, cx.now);
    let elsewhere = !std::ptr::eq(Arc::as_ptr(device.namespace(cx.guard)), net);
    if elsewhere {
        packet.mark = 0;
    }
    Some(packet)
}

/// Returns the TTL of outer packets that take a route and have none of their own.
pub fn default_ttl(net: &Namespace, route: &ipv4::route::Output<'_>) -> u8 {
    let ttl = match route.hop_limit {
        0 => net.conf().ipv4.get(Slot::DefaultTtl).clamp(1, 255) as u32,
        limit => limit.clamp(1, 255),
    };
    ttl as u8
}

/// Sends one packet over IPv4 (`ip_tunnel_xmit`).
pub fn send_v4(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (way, inner, header): (&Way, &Inner, &Header),
    packet: Packet,
) {
    let guard = cx.guard;
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (way.src, way.dst) else {
        return fail(&tunnel.errors, cx, device, EAFNOSUPPORT, packet);
    };
    let wanted = Wanted {
        dst,
        src: (!src.is_unspecified()).then_some(src),
        tos: way.tos & 0x1e,
        mark: way.mark,
        proto: way.protocol,
    };
    let route = match ipv4::route::output_by(net, &wanted, way.link, guard) {
        Ok(route) if Arc::ptr_eq(route.hop.device, device) => {
            return fail(&tunnel.errors, cx, device, ELOOP, packet);
        }
        Ok(route) => route,
        Err(errno) => return fail(&tunnel.errors, cx, device, errno, packet),
    };
    let df = way.df || way.inherit_df && inner.df;
    let overhead = Ipv4::LEN + header.len() + ethernet_len(tunnel);
    let mtu = match df {
        true => (route.hop.mtu as usize).saturating_sub(overhead),
        false => device.mtu() as usize,
    };
    let Ok(packet) = fit(cx, device, inner, mtu, packet) else {
        return;
    };
    let octets = packet.len().saturating_sub(inner.link);
    let Some(mut packet) = make_room(cx, device, net, header.len(), packet) else {
        return;
    };
    header.write(&mut packet, 0);
    let ttl = match way.ttl {
        0 if inner.ip => inner.ttl,
        0 => default_ttl(net, &route),
        ttl => ttl,
    };
    let head = ipv4::output::Header {
        protocol: way.protocol,
        tos: inner.ecn(way.tos),
        frag_off: if df { IP_DF } else { 0 },
        dst: dst.octets(),
        mark: packet.mark,
    };
    device.stats(cx.state.id).count_sent(1, octets as u64);
    ipv4::output::send_tunnelled(cx, device, net, &route, &head, ttl, packet);
}

/// Returns the length of the Ethernet header that the tunnel's own frames have.
pub fn ethernet_len(tunnel: &IpTunnel) -> usize {
    match tunnel.flavour.ethernet {
        true => Ethernet::LEN,
        false => 0,
    }
}

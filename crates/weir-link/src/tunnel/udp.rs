// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tunnels of Ethernet frames in UDP datagrams share: vxlan and geneve (`udp_tunnel_xmit_skb`,
//! `udp_tunnel6_xmit_skb`, `udp_tun_rx_dst`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EAFNOSUPPORT, ELOOP, ENETUNREACH};
use weir_packet::header::ipv4::{IP_DF, IPPROTO_UDP};
use weir_packet::header::transport::{fill_check_v4, fill_check_v6, udp};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6, Udp};
use weir_packet::tunnel::{Options, Tunnel};
use weir_packet::{Batch, DropReason, Packet};
use weir_sync::rcu::Guard;

use super::Errors;
use super::inner::{Inner, decapsulate_ecn};
use super::{outer, receive};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::{self, route::Wanted};
use crate::ipv6;
use crate::namespace::Namespace;
use crate::settings::{Ipv6Conf, WithSettings};
use crate::udp::Outer;

/// The length in bytes of the header between the UDP header and the frame, without options.
pub const HEADER_LEN: usize = 8;

/// The parameters for sending a frame.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The outer source, or unspecified if the route selects it.
    pub src: IpAddr,
    /// The outer destination.
    pub dst: IpAddr,
    /// The outer TTL; nothing: the route's.
    pub ttl: Option<u8>,
    /// The type of service, with its own ECN bits still in place.
    pub tos: u8,
    /// Set DF in the outer header.
    pub df: bool,
    /// The datagram has a checksum.
    pub checksum: bool,
    /// The flow label of IPv6.
    pub label: u32,
    /// The index of the underlay device, or 0 for any.
    pub link: u32,
}

/// The route of a datagram.
pub enum Route<'g> {
    /// IPv4: the route, and the destination.
    V4(ipv4::route::Output<'g>, Ipv4Addr),
    /// IPv6: the route, the source, and the destination.
    V6(ipv6::output::Route<'g>, Ipv6Addr, Ipv6Addr),
}

impl<'g> Route<'g> {
    /// Finds the route of a frame that `device` sends.
    ///
    /// # Errors
    /// ELOOP if it leads back to the device, EAFNOSUPPORT if the addresses are of different families, and those of routing.
    pub fn find(
        device: &Arc<Device>,
        net: &'g Namespace,
        way: &Way,
        mark: u32,
        guard: &'g Guard,
    ) -> Result<Self, i32> {
        let no_loop = |out: &Arc<Device>| match Arc::ptr_eq(out, device) {
            true => Err(ELOOP),
            false => Ok(()),
        };
        match (way.src, way.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) if dst.is_multicast() => {
                let wish = ipv4::egress::Wish {
                    dst,
                    src: (!src.is_unspecified()).then_some(src),
                    oif: way.link,
                    tos: way.tos & 0x1e,
                    mark,
                    protocol: IPPROTO_UDP,
                    ports: (0, 0),
                    any_source: false,
                    on_link: false,
                };
                let found = ipv4::egress::find(net, &wish, guard)?;
                no_loop(found.hop.device)?;
                let route = ipv4::route::Output {
                    hop: found.hop,
                    src: found.src,
                    hop_limit: found.hop_limit,
                };
                Ok(Self::V4(route, dst))
            }
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let wanted = Wanted {
                    dst,
                    src: (!src.is_unspecified()).then_some(src),
                    tos: way.tos & 0x1e,
                    mark,
                    proto: IPPROTO_UDP,
                };
                let route = ipv4::route::output_by(net, &wanted, way.link, guard)?;
                no_loop(route.hop.device)?;
                Ok(Self::V4(route, dst))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let route = ipv6::output::route(net, src, dst, way.link, guard)?;
                no_loop(route.device)?;
                let src = match src.is_unspecified() {
                    true => route.source(net, dst, guard).ok_or(ENETUNREACH)?,
                    false => src,
                };
                Ok(Self::V6(route, src, dst))
            }
            _ => Err(EAFNOSUPPORT),
        }
    }

    /// Returns whether the destination is this host.
    pub fn is_local(&self, net: &Namespace, guard: &Guard) -> bool {
        match self {
            Self::V4(_, dst) => ipv4::route::is_ours(net, *dst, guard),
            Self::V6(route, ..) => route.is_local(),
        }
    }
}

/// What a datagram has in front of the frame.
pub struct Front<'a> {
    /// The source and the destination port.
    pub ports: (u16, u16),
    /// The tunnel's header.
    pub header: [u8; HEADER_LEN],
    /// The options behind it.
    pub options: &'a [u8],
}

/// Sends one frame of a device by its route. Returns whether there was memory for the headers.
pub fn send(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (way, route): (&Way, &Route<'_>),
    (front, inner): (&Front<'_>, &Inner),
    packet: Packet,
) -> bool {
    let octets = packet.len().saturating_sub(inner.link);
    let Some(mut packet) = encapsulate(cx, device, net, front, packet) else {
        return false;
    };
    let tos = inner.ecn(way.tos);
    match route {
        Route::V4(route, dst) => {
            if way.checksum {
                let (src, dst) = (route.src.octets(), dst.octets());
                fill_check_v4(src, dst, IPPROTO_UDP, packet.data_mut());
            }
            let ttl = way.ttl.unwrap_or_else(|| outer::default_ttl(net, route));
            let header = ipv4::output::Header {
                protocol: IPPROTO_UDP,
                tos,
                frag_off: if way.df { IP_DF } else { 0 },
                dst: dst.octets(),
                mark: packet.mark,
            };
            device.stats(cx.state.id).count_sent(1, octets as u64);
            ipv4::output::send_tunnelled(cx, device, net, route, &header, ttl, packet);
        }
        Route::V6(route, src, dst) => {
            if way.checksum {
                fill_check_v6(src.octets(), dst.octets(), IPPROTO_UDP, packet.data_mut());
            }
            let head = ipv6::output::Head {
                src: *src,
                dst: *dst,
                protocol: IPPROTO_UDP,
                hop_limit: way.ttl.unwrap_or_else(|| route.hop_limit()),
                class: tos,
                label: way.label,
            };
            device.stats(cx.state.id).count_sent(1, octets as u64);
            if route.device.conf().ipv6.on(Ipv6Conf::DisableIpv6) {
                cx.drop(device, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
                return true;
            }
            ipv6::output::send_tunnelled(cx, route, &head, packet);
        }
    }
    true
}

/// Prepends the UDP header, with a checksum of 0, and the tunnel's.
fn encapsulate(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    front: &Front<'_>,
    packet: Packet,
) -> Option<Packet> {
    let len = packet.len() + HEADER_LEN + front.options.len();
    let room = Udp::LEN + HEADER_LEN + front.options.len();
    let mut packet = outer::make_room(cx, device, net, room, packet)?;
    let (head, rest) = packet.data_mut().split_at_mut_checked(Udp::LEN)?;
    head.copy_from_slice(&udp(front.ports.0, front.ports.1, len));
    let (head, rest) = rest.split_at_mut_checked(HEADER_LEN)?;
    head.copy_from_slice(&front.header);
    let options = rest.get_mut(..front.options.len())?;
    options.copy_from_slice(front.options);
    Some(packet)
}

/// Returns the metadata of a received datagram.
pub fn metadata(outer: &Outer, udp: &Udp<'_>, id: u32, options: Option<Box<Options>>) -> Tunnel {
    Tunnel {
        options,
        id,
        has_id: true,
        src_port: udp.src_port(),
        dst_port: udp.dst_port(),
        checksum: udp.check() != 0,
        ..receive::metadata(outer)
    }
}

/// Passes a frame that came out of a datagram to its device. Returns one that is refused, with its errors counted.
pub fn deliver(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    errors: &Errors,
    tos: u8,
    packet: Packet,
) -> Result<(), (DropReason, Packet)> {
    let protocol = Ethernet::new(packet.data()).map(|eth| eth.ethertype());
    let Some(protocol) = protocol else {
        return Err((DropReason::PKT_TOO_SMALL, packet));
    };
    deliver_packet(cx, device, errors, tos, (protocol, Ethernet::LEN), packet)
}

/// Passes a packet that came out of a datagram, of this protocol and with its network header at `network`, to its device.
/// Returns one that is refused, with its errors counted.
pub fn deliver_packet(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    errors: &Errors,
    tos: u8,
    (protocol, network): (u16, usize),
    mut packet: Packet,
) -> Result<(), (DropReason, Packet)> {
    let stats = device.stats(cx.state.id);
    let least = match protocol {
        ETH_P_IP => Ipv4::LEN,
        ETH_P_IPV6 => Ipv6::LEN,
        _ => 0,
    };
    if packet.len() < network + least {
        errors.rx_length.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return Err((DropReason::PKT_TOO_SMALL, packet));
    }
    let header = packet.data_mut().get_mut(network..);
    if !header.is_none_or(|header| decapsulate_ecn(tos, protocol, header)) {
        errors.rx_frame.fetch_add(1, Relaxed);
        stats.rx_errors.fetch_add(1, Relaxed);
        return Err((DropReason::IP_TUNNEL_ECN, packet));
    }
    if !device.is_up() {
        stats.rx_dropped.fetch_add(1, Relaxed);
        return Err((DropReason::DEV_READY, packet));
    }
    let octets = packet.len().saturating_sub(network);
    pass(cx, device, octets, packet);
    Ok(())
}

/// Counts a frame and passes it to the device.
pub fn pass(cx: &mut Cx<'_>, device: &Arc<Device>, octets: usize, packet: Packet) {
    let stats = device.stats(cx.state.id);
    stats.rx_packets.fetch_add(1, Relaxed);
    stats.rx_bytes.fetch_add(octets as u64, Relaxed);
    cx.receive_later(device, Batch::from(packet));
}

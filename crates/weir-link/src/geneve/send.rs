// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation (`geneve_xmit`, `geneve_xmit_skb`, `geneve6_xmit_skb`, `geneve_build_skb`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace. The source port, 1 to
//! 65534, comes from a seeded hash of the inner flow.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::{EAFNOSUPPORT, ELOOP, ENETUNREACH};
use weir_packet::header::ipv4::{IP_DF, IPPROTO_UDP};
use weir_packet::header::transport::{fill_check_v4, fill_check_v6, udp};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::tunnel::{OptionKind, Tunnel};
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};

use super::config::{Config, DF_INHERIT, DF_SET};
use super::{ETH_P_TEB, Geneve, HEADER_LEN, UDP_LEN};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::{self, route::Wanted};
use crate::ipv6;
use crate::namespace::Namespace;
use crate::settings::{Ipv4 as Slot, Ipv6Conf, WithSettings};
use crate::tunnel::inner::{Inner, flow_port};

/// The outer source ports, the second exclusive.
const SOURCE_PORTS: (u16, u16) = (1, u16::MAX);

/// The parameters for sending a frame.
struct Way<'a> {
    src: IpAddr,
    dst: IpAddr,
    vni: u32,
    ttl: u8,
    /// A TTL of 0 is the route's. With metadata it is 0, as in Linux.
    by_route: bool,
    tos: u8,
    df: bool,
    checksum: bool,
    label: u32,
    options: &'a [u8],
}

/// Sends frames that begin with their Ethernet header.
pub fn transmit(geneve: &Arc<Geneve>, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    let conf = geneve.config.load(cx.guard);
    let Some(net) = geneve.net.upgrade() else {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    };
    for mut packet in batch {
        let tagged = packet.vlan().is_some();
        if tagged && weir_packet::edit::vlan_to_data(&mut packet).is_err() {
            cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
            continue;
        }
        let metadata = packet.tunnel().filter(|tunnel| tunnel.transmit).cloned();
        if conf.external && metadata.is_none() {
            device.stats(cx.state.id).tx_dropped.fetch_add(1, Relaxed);
            cx.drop(device, Place::Transmit, DropReason::TUNNEL_TXINFO, packet);
            continue;
        }
        let Some(inner) = inner(packet.data()) else {
            fail(geneve, cx, device, 0, packet);
            continue;
        };
        match metadata.filter(|_| conf.external) {
            Some(metadata) => one(
                geneve,
                cx,
                device,
                &net,
                &by_metadata(&metadata),
                &inner,
                packet,
            ),
            None => one(geneve, cx, device, &net, &of(conf, &inner), &inner, packet),
        }
    }
}

/// Parses the frame, behind all its tags. Returns nothing for a frame that ends in its IP header
/// (`skb_vlan_inet_prepare`).
fn inner(frame: &[u8]) -> Option<Inner> {
    let first = Ethernet::new(frame)?.ethertype();
    let (mut link, mut protocol) = (Ethernet::LEN, first);
    while weir_packet::header::ethernet::is_vlan(protocol) {
        let octets = frame.get(link + 2..).and_then(|rest| rest.first_chunk());
        match octets {
            Some(octets) => (link, protocol) = (link + 4, u16::from_be_bytes(*octets)),
            // A frame that ends in its tags is no IP packet.
            None => (link, protocol) = (Ethernet::LEN, 0),
        }
    }
    let network = frame.get(link..)?;
    let least = match protocol {
        ETH_P_IP => Ipv4::LEN,
        ETH_P_IPV6 => Ipv6::LEN,
        _ => 0,
    };
    (network.len() >= least).then(|| Inner {
        first,
        link,
        ..Inner::of_packet(network, protocol)
    })
}

/// The way that the device's configuration gives.
fn of(conf: &Config, inner: &Inner) -> Way<'static> {
    Way {
        src: match conf.remote {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        },
        dst: conf.remote,
        vni: conf.vni,
        ttl: match conf.ttl_inherit {
            true => inner.ttl,
            false => conf.ttl,
        },
        by_route: true,
        tos: match conf.tos {
            1 => inner.tos,
            tos => tos,
        },
        df: match conf.df {
            DF_SET => true,
            DF_INHERIT => inner.first == ETH_P_IPV6 || inner.first == ETH_P_IP && inner.df,
            _ => false,
        },
        checksum: conf.checksum,
        label: conf.label,
        options: &[],
    }
}

/// The way that the packet's metadata give.
fn by_metadata(tunnel: &Tunnel) -> Way<'_> {
    let options = tunnel.options.as_ref();
    let options = options.filter(|options| options.kind == OptionKind::Geneve);
    Way {
        src: tunnel.ends.src(),
        dst: tunnel.ends.dst(),
        vni: tunnel.id & 0xff_ffff,
        ttl: tunnel.ttl,
        by_route: false,
        tos: tunnel.tos,
        df: tunnel.dont_fragment,
        checksum: tunnel.checksum,
        label: 0,
        options: options.map_or(&[], |options| &options.octets),
    }
}

/// Drops a frame that could not be sent and counts the error.
fn fail(geneve: &Geneve, cx: &Cx<'_>, device: &Arc<Device>, errno: i32, packet: Packet) {
    let reason = match errno {
        ELOOP => {
            geneve.errors.collisions.fetch_add(1, Relaxed);
            DropReason::RECURSION_LIMIT
        }
        0 => DropReason::PKT_TOO_SMALL,
        _ => {
            geneve.errors.tx_carrier.fetch_add(1, Relaxed);
            DropReason::IP_OUTNOROUTES
        }
    };
    device.stats(cx.state.id).tx_errors.fetch_add(1, Relaxed);
    cx.drop(device, Place::Transmit, reason, packet);
}

/// Sends one frame.
fn one(
    geneve: &Arc<Geneve>,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    way: &Way<'_>,
    inner: &Inner,
    packet: Packet,
) {
    let guard = cx.guard;
    let source = flow_port(cx, SOURCE_PORTS, &packet);
    let tos = inner.ecn(way.tos);
    let octets = packet.len().saturating_sub(inner.link);
    match (way.src, way.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let wanted = Wanted {
                dst,
                src: (!src.is_unspecified()).then_some(src),
                tos: way.tos & 0x1e,
                mark: packet.mark,
                proto: IPPROTO_UDP,
            };
            let route = match ipv4::route::output_by(net, &wanted, 0, guard) {
                Ok(route) if Arc::ptr_eq(route.hop.device, device) => {
                    return fail(geneve, cx, device, ELOOP, packet);
                }
                Ok(route) => route,
                Err(_) => return fail(geneve, cx, device, ENETUNREACH, packet),
            };
            let Some(mut packet) = encapsulate(cx, device, geneve, way, source, packet) else {
                return;
            };
            if way.checksum {
                let (src, dst) = (route.src.octets(), dst.octets());
                fill_check_v4(src, dst, IPPROTO_UDP, packet.data_mut());
            }
            let ttl = match (way.ttl, route.hop_limit) {
                (0, _) if !way.by_route => 0,
                (0, 0) => net.conf().ipv4.get(Slot::DefaultTtl).clamp(1, 255) as u8,
                (0, limit) => limit.clamp(1, 255) as u8,
                (ttl, _) => ttl,
            };
            let header = ipv4::output::Header {
                protocol: IPPROTO_UDP,
                tos,
                frag_off: if way.df { IP_DF } else { 0 },
                dst: dst.octets(),
                mark: packet.mark,
            };
            device.stats(cx.state.id).count_sent(1, octets as u64);
            ipv4::output::send_tunnelled(cx, device, net, &route, &header, ttl, packet);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let route = match ipv6::output::route(net, src, dst, 0, guard) {
                Ok(route) if Arc::ptr_eq(route.device, device) => {
                    return fail(geneve, cx, device, ELOOP, packet);
                }
                Ok(route) => route,
                Err(_) => return fail(geneve, cx, device, ENETUNREACH, packet),
            };
            let chosen = match src.is_unspecified() {
                true => route.source(net, dst, guard),
                false => Some(src),
            };
            let Some(src) = chosen else {
                return fail(geneve, cx, device, ENETUNREACH, packet);
            };
            let Some(mut packet) = encapsulate(cx, device, geneve, way, source, packet) else {
                return;
            };
            if way.checksum {
                fill_check_v6(src.octets(), dst.octets(), IPPROTO_UDP, packet.data_mut());
            }
            let head = ipv6::output::Head {
                src,
                dst,
                protocol: IPPROTO_UDP,
                hop_limit: match way.ttl {
                    0 if way.by_route => route.hop_limit(),
                    ttl => ttl,
                },
                class: tos,
                label: way.label,
            };
            device.stats(cx.state.id).count_sent(1, octets as u64);
            if route.device.conf().ipv6.on(Ipv6Conf::DisableIpv6) {
                return cx.drop(device, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
            }
            ipv6::output::send_tunnelled(cx, &route, &head, packet);
        }
        _ => fail(geneve, cx, device, EAFNOSUPPORT, packet),
    }
}

/// Prepends the Geneve and UDP headers, with a checksum of 0, and clears the metadata that belongs to the packet's path
/// so far.
fn encapsulate(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    geneve: &Geneve,
    way: &Way<'_>,
    source: u16,
    mut packet: Packet,
) -> Option<Packet> {
    packet.set_tunnel(None);
    packet.set_conn(None);
    let options = way.options.len() & !3;
    let needed = UDP_LEN + HEADER_LEN + options + Ipv6::LEN + Ethernet::LEN + 4;
    if packet.headroom() < needed {
        let Some(wider) = packet.copy_with_headroom(needed) else {
            device.stats(cx.state.id).tx_dropped.fetch_add(1, Relaxed);
            cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
            return None;
        };
        packet = wider;
    }
    let conf = geneve.config.load(cx.guard);
    let len = packet.len() + HEADER_LEN + options;
    let room = packet.push(UDP_LEN + HEADER_LEN + options)?;
    let (outer, rest) = room.split_at_mut_checked(UDP_LEN)?;
    outer.copy_from_slice(&udp(source, conf.port, len));
    let (head, tail) = rest.split_at_mut_checked(HEADER_LEN)?;
    let ([p0, p1], [_, v0, v1, v2]) = (ETH_P_TEB.to_be_bytes(), way.vni.to_be_bytes());
    head.copy_from_slice(&[(options / 4) as u8, 0, p0, p1, v0, v1, v2, 0]);
    tail.copy_from_slice(way.options.get(..options)?);
    packet.unset_mac();
    packet.flags = Flags::LOCAL;
    packet.set_pkt_type(PacketType::Outgoing);
    (packet.iif, packet.queue, packet.time) = (0, 0, cx.now);
    let elsewhere = !std::ptr::eq(Arc::as_ptr(device.namespace(cx.guard)), geneve.net.as_ptr());
    if elsewhere {
        packet.mark = 0;
    }
    Some(packet)
}

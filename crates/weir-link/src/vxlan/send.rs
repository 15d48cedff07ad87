// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation (`vxlan_xmit`, `vxlan_xmit_one`, `vxlan_build_skb`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace. The
//! source port comes from a seeded hash of the inner flow. Linux's hash has a random key, so equal
//! ports require a range of one (`srcport P P+1`). Differences from Linux: a route to the remote
//! does not learn the remaining MTU (`skb_tunnel_check_pmtu`); packets dropped behind this device
//! are counted there and not as transmit errors of this device.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::errno::ELOOP;
use weir_packet::header::ipv4::{IP_DF, IPPROTO_UDP};
use weir_packet::header::transport::{fill_check_v4, fill_check_v6, udp};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::tunnel::OptionKind;
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};

use super::config::{Config, DF_INHERIT, DF_SET};
use super::fdb::{ALL_ZEROS, Remote};
use super::socket::{Socket, tunnels};
use super::{GBP_FLAG, GBP_MASK, HEADER_LEN, VNI_FLAG, Vxlan};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::{self, route::Wanted};
use crate::ipv6;
use crate::namespace::Namespace;
use crate::settings::WithSettings;
use crate::settings::{Ipv4 as Slot, Ipv6Conf};
use crate::tunnel::inner::{Inner, flow_port};
use crate::udp::{self, Port};

/// The length of the outer UDP header in bytes.
const UDP_LEN: usize = 8;
/// The maximum number of bytes an outer packet needs in front of the inner frame, including its own
/// Ethernet header.
const HEADROOM: usize = HEADER_LEN + UDP_LEN + Ipv6::LEN + 14 + 4;

/// The parameters for sending a frame.
#[derive(Debug, Clone, Copy)]
struct Way {
    src: IpAddr,
    dst: IpAddr,
    port: u16,
    vni: u32,
    ttl: u8,
    /// The TOS, with its own ECN bits still in place.
    tos: u8,
    df: bool,
    checksum: bool,
    gbp: u32,
    label: u32,
    ifindex: u32,
    /// The parameters come from the frame's own metadata.
    external: bool,
}

/// Sends frames that begin with their Ethernet header.
pub fn transmit(vxlan: &Arc<Vxlan>, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    let guard = cx.guard;
    let conf = vxlan.config.load(guard);
    let Some(net) = vxlan.net.upgrade() else {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    };
    for mut packet in batch {
        let tagged = packet.vlan().is_some();
        if tagged && weir_packet::edit::vlan_to_data(&mut packet).is_err() {
            cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
            continue;
        }
        let inner = Inner::of(packet.data(), tagged);
        if conf.external {
            match by_metadata(conf, &packet) {
                Ok(way) => one(vxlan, cx, device, &net, conf, &way, inner, packet),
                Err(reason) => cx.drop(device, Place::Transmit, reason, packet),
            }
            continue;
        }
        let to = Ethernet::new(packet.data()).map_or(ALL_ZEROS, |eth| eth.dst());
        let entry = vxlan.fdb.find(to, 0, cx.now, guard);
        let entry = entry.or_else(|| vxlan.fdb.find(ALL_ZEROS, 0, cx.now, guard));
        let remotes = entry.map_or(&[][..], |entry| entry.remotes(guard));
        let Some((first, others)) = remotes.split_first() else {
            if conf.l2miss && to[0] & 1 == 0 {
                vxlan.site(cx.stack, guard, device).miss(to);
            }
            count_drop(cx, device);
            cx.drop(device, Place::Transmit, DropReason::VXLAN_NO_REMOTE, packet);
            continue;
        };
        // As in Linux, the copies for the other remotes leave first.
        for remote in others {
            if let Some(mut copy) = packet.copy() {
                cx.stack.trace.copied(&mut copy);
                to_remote(vxlan, cx, device, &net, conf, remote, inner, copy);
            }
        }
        to_remote(vxlan, cx, device, &net, conf, first, inner, packet);
    }
}

/// Returns whether the inner packet may not be fragmented. That of a tagged frame may.
fn keeps_whole(inner: &Inner) -> bool {
    inner.first == ETH_P_IP && inner.df || inner.first == ETH_P_IPV6 && inner.ip
}

fn count_drop(cx: &Cx<'_>, device: &Device) {
    let stats = device.stats(cx.state.id);
    stats.tx_dropped.fetch_add(1, Relaxed);
}

/// Returns the parameters given by the packet's metadata.
fn by_metadata(conf: &Config, packet: &Packet) -> Result<Way, DropReason> {
    let tunnel = packet.tunnel().filter(|tunnel| tunnel.transmit);
    let tunnel = tunnel.ok_or(DropReason::TUNNEL_TXINFO)?;
    let gbp = tunnel
        .options
        .as_ref()
        .filter(|options| options.kind == OptionKind::Vxlan);
    let gbp = gbp.and_then(|options| options.octets.first_chunk());
    Ok(Way {
        src: tunnel.ends.src(),
        dst: tunnel.ends.dst(),
        port: if tunnel.dst_port != 0 {
            tunnel.dst_port
        } else {
            conf.dst_port
        },
        vni: tunnel.id & 0xff_ffff,
        ttl: tunnel.ttl,
        tos: tunnel.tos,
        df: tunnel.dont_fragment,
        checksum: tunnel.checksum,
        gbp: gbp.map_or(0, |octets| u32::from_ne_bytes(*octets)),
        label: 0,
        ifindex: 0,
        external: true,
    })
}

/// Sends a frame to one remote of an entry.
#[allow(clippy::too_many_arguments)] // the context of one frame
fn to_remote(
    vxlan: &Arc<Vxlan>,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    conf: &Config,
    remote: &Remote,
    inner: Inner,
    packet: Packet,
) {
    if remote.ip.is_unspecified() {
        count_drop(cx, device);
        return cx.drop(device, Place::Transmit, DropReason::VXLAN_NO_REMOTE, packet);
    }
    let way = Way {
        src: conf.local,
        dst: remote.ip,
        port: if remote.port != 0 {
            remote.port
        } else {
            conf.dst_port
        },
        vni: if remote.vni != 0 {
            remote.vni
        } else {
            conf.vni
        },
        ttl: if conf.ttl_inherit {
            inner.ttl
        } else {
            conf.ttl
        },
        tos: if conf.tos == 1 { inner.tos } else { conf.tos },
        df: conf.df == DF_SET || conf.df == DF_INHERIT && keeps_whole(&inner),
        checksum: if remote.ip.is_ipv4() {
            conf.udp_csum
        } else {
            !conf.zero_csum6_tx
        },
        gbp: packet.mark,
        label: conf.label,
        ifindex: remote.ifindex,
        external: false,
    };
    one(vxlan, cx, device, net, conf, &way, inner, packet);
}

/// Drops a frame that could not be sent and counts the error (`tx_error`).
fn fail(vxlan: &Vxlan, cx: &Cx<'_>, device: &Arc<Device>, errno: i32, packet: Packet) {
    let stats = device.stats(cx.state.id);
    let reason = if errno == ELOOP {
        vxlan.errors.collisions.fetch_add(1, Relaxed);
        DropReason::RECURSION_LIMIT
    } else {
        vxlan.errors.tx_carrier.fetch_add(1, Relaxed);
        DropReason::IP_OUTNOROUTES
    };
    stats.tx_errors.fetch_add(1, Relaxed);
    cx.drop(device, Place::Transmit, reason, packet);
}

/// Sends one frame to one destination (`vxlan_xmit_one`).
#[allow(clippy::too_many_arguments)] // the context of one frame
fn one(
    vxlan: &Arc<Vxlan>,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    conf: &Config,
    way: &Way,
    inner: Inner,
    packet: Packet,
) {
    let guard = cx.guard;
    let ports = match conf.ports {
        (min, max) if min < max => (min, max),
        _ => net.local_ports(),
    };
    let source = flow_port(cx, ports, &packet);
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
            let route = match ipv4::route::output_by(net, &wanted, way.ifindex, guard) {
                Ok(route) if Arc::ptr_eq(route.hop.device, device) => {
                    return fail(vxlan, cx, device, ELOOP, packet);
                }
                Ok(route) => route,
                Err(errno) => return fail(vxlan, cx, device, errno, packet),
            };
            if !way.external && ipv4::route::is_ours(net, dst, guard) {
                return bypass(cx, device, net, way, packet);
            }
            let Some(mut packet) = encapsulate(cx, device, vxlan, way, source, packet) else {
                return;
            };
            if way.checksum {
                let (src, dst) = (route.src.octets(), dst.octets());
                fill_check_v4(src, dst, IPPROTO_UDP, packet.data_mut());
            }
            let ttl = match (way.ttl, route.hop_limit) {
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
            let route = match ipv6::output::route(net, src, dst, way.ifindex, guard) {
                Ok(route) if Arc::ptr_eq(route.device, device) => {
                    return fail(vxlan, cx, device, ELOOP, packet);
                }
                Ok(route) => route,
                Err(errno) => return fail(vxlan, cx, device, errno, packet),
            };
            let chosen = if src.is_unspecified() {
                route.source(net, dst, guard)
            } else {
                Some(src)
            };
            let Some(src) = chosen else {
                return fail(vxlan, cx, device, weir_netlink::errno::ENETUNREACH, packet);
            };
            if !way.external && route.is_local() {
                return bypass(cx, device, net, way, packet);
            }
            let Some(mut packet) = encapsulate(cx, device, vxlan, way, source, packet) else {
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
                    0 => route.hop_limit(),
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
        _ => fail(vxlan, cx, device, weir_netlink::errno::EAFNOSUPPORT, packet),
    }
}

/// Prepends the VXLAN and UDP headers, with a checksum of 0, and clears the metadata that belongs
/// to the packet's path so far.
fn encapsulate(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    vxlan: &Vxlan,
    way: &Way,
    source: u16,
    mut packet: Packet,
) -> Option<Packet> {
    packet.set_tunnel(None);
    packet.set_conn(None);
    if packet.headroom() < HEADROOM {
        let Some(wider) = packet.copy_with_headroom(HEADROOM) else {
            count_drop(cx, device);
            cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
            return None;
        };
        packet = wider;
    }
    let mut flags = VNI_FLAG;
    if vxlan.config.load(cx.guard).gbp && way.gbp != 0 {
        flags |= GBP_FLAG | way.gbp & GBP_MASK;
    }
    let len = packet.len() + HEADER_LEN;
    let room = packet.push(HEADER_LEN + UDP_LEN)?;
    let (head, rest) = room.split_at_mut_checked(UDP_LEN)?;
    head.copy_from_slice(&udp(source, way.port, len));
    let (first, second) = rest.split_at_mut_checked(4)?;
    first.copy_from_slice(&flags.to_be_bytes());
    second.copy_from_slice(&(way.vni << 8).to_be_bytes());
    packet.unset_mac();
    packet.flags = Flags::LOCAL;
    packet.set_pkt_type(PacketType::Outgoing);
    (packet.iif, packet.queue, packet.time) = (0, 0, cx.now);
    let elsewhere = !std::ptr::eq(Arc::as_ptr(device.namespace(cx.guard)), vxlan.net.as_ptr());
    if elsewhere {
        packet.mark = 0;
    }
    Some(packet)
}

/// Passes a frame directly to the receiving device, since the remote is this host
/// (`vxlan_encap_bypass`).
fn bypass(cx: &mut Cx<'_>, device: &Arc<Device>, net: &Namespace, way: &Way, packet: Packet) {
    let guard = cx.guard;
    let port = Port {
        ipv6: way.dst.is_ipv6(),
        port: way.port,
    };
    let receiver = tunnels(net).and_then(|tunnels| {
        let socket = udp::ports(net).socket(port, guard)?;
        let to = tunnels.receiver(port, Socket::of(&socket), way.vni, guard)?;
        Some((cx.device(to.key)?, &to.vxlan))
    });
    let Some((receiver, vxlan)) = receiver else {
        let stats = device.stats(cx.state.id);
        stats.tx_errors.fetch_add(1, Relaxed);
        return cx.drop(
            device,
            Place::Transmit,
            DropReason::VXLAN_VNI_NOT_FOUND,
            packet,
        );
    };
    let mut packet = packet;
    packet.flags = Flags::NONE;
    if vxlan.config.load(guard).learning
        && let Some(eth) = Ethernet::new(packet.data())
    {
        let loopback = match way.dst {
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let site = vxlan.site(cx.stack, guard, receiver);
        // The result is deliberately ignored here.
        let _ = super::fdb::snoop(&site, cx.now, loopback, eth.src(), 0, way.vni);
    }
    device.stats(cx.state.id).count_sent(1, packet.len() as u64);
    let octets = packet.len();
    super::receive::deliver(cx, receiver, octets, packet);
}

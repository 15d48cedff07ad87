// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation (`vxlan_xmit`, `vxlan_xmit_one`, `vxlan_build_skb`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace. The
//! source port comes from a seeded hash of the inner flow. Linux's hash has a random key, so equal
//! ports require a range of one (`srcport P P+1`). Differences from Linux: a route to the remote
//! does not learn the remaining MTU (`skb_tunnel_check_pmtu`); packets dropped behind this device
//! are counted there and not as transmit errors of this device; the datagram of a tunnel inside has its own checksum
//! with `remcsumtx`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet};
use weir_packet::offload::transport_of;
use weir_packet::tunnel::OptionKind;
use weir_packet::{Batch, DropReason, Flags, Packet};

use super::config::{Config, DF_INHERIT, DF_SET};
use super::fdb::{ALL_ZEROS, Missed, Nexthop, Remote};
use super::proxy;
use super::shortcut;
use super::socket::{Socket, tunnels};
use super::vnis::Count;
use super::{
    GBP_FLAG, GBP_MASK, GPE_NEXT, NEXT_PROTOCOLS, RCO_FLAG, RCO_MAX_START, RCO_UDP, RCO_UDP_CHECK,
    VNI_FLAG, Vxlan,
};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::features::bit;
use crate::namespace::Namespace;
use crate::tunnel::inner::{Inner, bare_flow_hash, flow_hash, flow_port};
use crate::tunnel::outer;
use crate::tunnel::udp::{self, Front, Route};
use crate::udp::{Port, ports};

/// The parameters for sending a frame.
#[derive(Debug, Clone, Copy)]
struct Way {
    outer: udp::Way,
    port: u16,
    vni: u32,
    gbp: u32,
    /// The parameters come from the frame's own metadata.
    external: bool,
}

/// Sends frames that begin with their Ethernet header, or packets of a device without.
pub fn transmit(vxlan: &Arc<Vxlan>, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    let guard = cx.guard;
    let conf = vxlan.config.load(guard);
    let Some(net) = vxlan.net.upgrade() else {
        return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
    };
    for mut packet in batch {
        let tag = packet.vlan();
        let tagged = tag.is_some() && !vxlan.bare;
        if tagged && weir_packet::edit::vlan_to_data(&mut packet).is_err() {
            cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
            continue;
        }
        let inner = match vxlan.bare {
            // A tag is a protocol that the generic protocol extension lacks.
            true => match tag {
                Some(tag) => Inner::of_packet(&[], tag.proto),
                None => Inner::of_packet(packet.data(), packet.protocol),
            },
            false => Inner::of(packet.data(), tagged),
        };
        let id = match packet.tunnel() {
            Some(tunnel) if !vxlan.bare && tunnel.bridge && tunnel.transmit && conf.external => {
                Some(tunnel.id)
            }
            _ => None,
        };
        if conf.external && id.is_none() {
            match by_metadata(conf, &packet) {
                Ok(way) => one(vxlan, cx, device, &net, conf, &way, inner, packet),
                Err(reason) => cx.drop(device, Place::Transmit, reason, packet),
            }
            continue;
        }
        let dst = |packet: &Packet| Ethernet::new(packet.data()).map_or(ALL_ZEROS, |eth| eth.dst());
        let mut to = dst(&packet);
        let now = cx.time_of_use();
        let key = id.unwrap_or(0);
        let mut packet = match conf.proxy {
            true => match proxy::answer(vxlan, cx, device, (conf, key), packet) {
                Some(packet) => packet,
                None => continue,
            },
            false => packet,
        };
        let mut entry = vxlan.fdb.find(to, key, now, guard);
        let by_router = conf.rsc && to[0] & 1 == 0 && entry.is_some_and(|entry| entry.is_router());
        let shortcut = by_router && shortcut::take(vxlan, cx, device, conf, &mut packet);
        if shortcut {
            to = dst(&packet);
            entry = vxlan.fdb.find(to, key, now, guard);
        }
        let by = (conf, id, shortcut);
        let entry = entry.or_else(|| vxlan.fdb.find(ALL_ZEROS, key, now, guard));
        if let Some(object) = entry.and_then(|entry| entry.object(guard)) {
            match chosen(cx, object, &packet) {
                Some(remote) => to_remote(vxlan, cx, device, &net, by, &remote, inner, packet),
                None => {
                    vxlan.count(id.unwrap_or(conf.vni), Count::SendDropped, guard);
                    outer::discard(cx, device, DropReason::VXLAN_NO_REMOTE, packet);
                }
            }
            continue;
        }
        let remotes = entry.map_or(&[][..], |entry| entry.remotes(guard));
        let Some((first, others)) = remotes.split_first() else {
            if conf.l2miss && to[0] & 1 == 0 {
                vxlan.site(cx.stack, guard, device).miss(Missed::Mac(to));
            }
            vxlan.count(key, Count::SendDropped, guard);
            outer::discard(cx, device, DropReason::VXLAN_NO_REMOTE, packet);
            continue;
        };
        // As in Linux, the copies for the other remotes leave first.
        for remote in others {
            if let Some(mut copy) = packet.copy() {
                cx.stack.trace.copied(&mut copy);
                to_remote(vxlan, cx, device, &net, by, remote, inner, copy);
            }
        }
        to_remote(vxlan, cx, device, &net, by, first, inner, packet);
    }
}

/// Returns the remote that the hash of a frame's flow chooses from those of a nexthop object
/// (`vxlan_fdb_nh_path_select`). Port and identifier are the device's.
fn chosen(cx: &Cx<'_>, object: &Nexthop, packet: &Packet) -> Option<Remote> {
    let hop = object
        .state(cx.guard)?
        .select(flow_hash(cx, packet) >> 1, cx.guard)?;
    Some(Remote {
        ip: hop.gateway?,
        port: 0,
        vni: 0,
        ifindex: 0,
    })
}

/// Returns whether the inner packet may not be fragmented. That of a tagged frame may.
fn keeps_whole(inner: &Inner) -> bool {
    inner.first == ETH_P_IP && inner.df || inner.first == ETH_P_IPV6 && inner.ip
}

/// A TTL of 0 is the route's.
fn given(ttl: u8) -> Option<u8> {
    (ttl != 0).then_some(ttl)
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
        outer: udp::Way {
            src: tunnel.ends.src(),
            dst: tunnel.ends.dst(),
            ttl: given(tunnel.ttl),
            tos: tunnel.tos,
            df: tunnel.dont_fragment,
            checksum: tunnel.checksum,
            label: 0,
            link: 0,
        },
        port: if tunnel.dst_port != 0 {
            tunnel.dst_port
        } else {
            conf.dst_port
        },
        vni: tunnel.id & 0xff_ffff,
        gbp: gbp.map_or(0, |octets| u32::from_ne_bytes(*octets)),
        external: true,
    })
}

/// Sends a frame to one remote of an entry. `id` is the identifier that a bridge has given it, and `shortcut` says that
/// it was for a router (`rsc`).
#[allow(clippy::too_many_arguments)] // the context of one frame
fn to_remote(
    vxlan: &Arc<Vxlan>,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (conf, id, shortcut): (&Config, Option<u32>, bool),
    remote: &Remote,
    inner: Inner,
    packet: Packet,
) {
    if remote.ip.is_unspecified() && shortcut {
        // The host is on this side.
        let back = (device, vxlan);
        let vni = id.unwrap_or(conf.vni);
        return across(cx, device, back, conf.is_ipv6(), vni, packet);
    }
    if remote.ip.is_unspecified() {
        return outer::discard(cx, device, DropReason::VXLAN_NO_REMOTE, packet);
    }
    let ttl = match conf.ttl {
        _ if conf.ttl_inherit => inner.ttl,
        0 if remote.ip.is_multicast() => 1,
        ttl => ttl,
    };
    let way = Way {
        outer: udp::Way {
            src: match (conf.local, remote.ip) {
                // The remote of an identifier may be of the other family.
                (IpAddr::V6(_), IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
                (IpAddr::V4(_), IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
                (local, _) => local,
            },
            dst: remote.ip,
            ttl: given(ttl),
            tos: if conf.tos == 1 { inner.tos } else { conf.tos },
            df: id.is_none() && (conf.df == DF_SET || conf.df == DF_INHERIT && keeps_whole(&inner)),
            checksum: if remote.ip.is_ipv4() {
                conf.udp_csum
            } else {
                !conf.zero_csum6_tx
            },
            label: conf.label,
            link: remote.ifindex,
        },
        port: if remote.port != 0 {
            remote.port
        } else {
            conf.dst_port
        },
        vni: if remote.vni != 0 {
            remote.vni
        } else {
            id.unwrap_or(conf.vni)
        },
        gbp: packet.mark,
        external: id.is_some(),
    };
    one(vxlan, cx, device, net, conf, &way, inner, packet);
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
    mut packet: Packet,
) {
    let route = match Route::find(device, net, &way.outer, packet.mark, cx.guard) {
        Ok(route) => route,
        Err(errno) => {
            vxlan.count(way.vni, Count::SendError, cx.guard);
            return outer::fail(&vxlan.errors, cx, device, errno, packet);
        }
    };
    if !way.external && route.is_local(net, cx.guard) {
        return bypass(cx, device, net, way, packet);
    }
    let ports = match conf.ports {
        (min, max) if min < max => (min, max),
        _ => net.local_ports(),
    };
    let mut flags = VNI_FLAG;
    if conf.gbp && way.gbp != 0 {
        flags |= GBP_FLAG | way.gbp & GBP_MASK;
    }
    if conf.gpe {
        let mut all = NEXT_PROTOCOLS.iter();
        let Some((next, _)) = all.find(|(_, protocol)| *protocol == inner.protocol) else {
            vxlan.count(way.vni, Count::SendError, cx.guard);
            return outer::error(cx, device, DropReason::UNHANDLED_PROTO, packet);
        };
        flags |= GPE_NEXT | u32::from(*next);
    }
    let mut low = 0;
    if conf.remcsum_tx
        && let Some(rest) = leave_checksum(device, &mut packet)
    {
        flags |= RCO_FLAG;
        low = rest;
    }
    let header = u64::from(flags) << 32 | u64::from(way.vni) << 8 | u64::from(low);
    let hash = match vxlan.bare {
        true => bare_flow_hash(cx, &packet),
        false => flow_hash(cx, &packet),
    };
    let front = Front {
        ports: (flow_port(ports, hash), way.port),
        header: header.to_be_bytes(),
        options: &[],
    };
    let octets = packet.len();
    let sent = udp::send(
        cx,
        device,
        net,
        (&way.outer, &route),
        (&front, &inner),
        packet,
    );
    let count = match sent {
        true => Count::Sent(octets),
        false => Count::SendError,
    };
    vxlan.count(way.vni, count, cx.guard);
}

/// Leaves the checksum of a frame to the receiver, if it is one that Linux would still have to compute (`CHECKSUM_PARTIAL`):
/// a sender on this host vouches for it, or GRO does, and the device has checksum offload. Returns what the header says
/// about it (`vxlan_compute_rco`).
fn leave_checksum(device: &Device, packet: &mut Packet) -> Option<u8> {
    let left = device.features.active() & bit::HW_CSUM != 0;
    if !left || !packet.flags.contains(Flags::CSUM_GOOD) {
        return None;
    }
    let transport = transport_of(packet)?;
    let start = transport.start;
    if start > RCO_MAX_START || start & 1 != 0 {
        return None;
    }
    let field = packet.data_mut().get_mut(transport.check..)?;
    *field.first_chunk_mut()? = transport.pseudo;
    let of_udp = match transport.check - start {
        RCO_UDP_CHECK => RCO_UDP,
        _ => 0,
    };
    Some((start >> 1) as u8 | of_udp)
}

/// Passes a frame directly to the receiving device, since the remote is this host.
fn bypass(cx: &mut Cx<'_>, device: &Arc<Device>, net: &Namespace, way: &Way, packet: Packet) {
    let guard = cx.guard;
    let port = Port {
        ipv6: way.outer.dst.is_ipv6(),
        port: way.port,
    };
    let receiver = tunnels(net).and_then(|tunnels| {
        let socket = Socket::of(&ports(net).socket(port, guard)?);
        let to = tunnels.receiver(port, socket.address(way.vni), guard)?;
        Some((cx.device(to.key)?, &to.tunnel))
    });
    let Some((receiver, vxlan)) = receiver else {
        return outer::error(cx, device, DropReason::VXLAN_VNI_NOT_FOUND, packet);
    };
    across(
        cx,
        device,
        (receiver, vxlan),
        way.outer.dst.is_ipv6(),
        way.vni,
        packet,
    );
}

/// Passes a frame from a device to another one of this host, or back to the same (`vxlan_encap_bypass`).
fn across(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    (receiver, vxlan): (&Arc<Device>, &Arc<Vxlan>),
    ipv6: bool,
    vni: u32,
    mut packet: Packet,
) {
    packet.flags = Flags::NONE;
    if vxlan.config.load(cx.guard).learning
        && let Some(eth) = Ethernet::new(packet.data())
    {
        let loopback = match ipv6 {
            false => std::net::Ipv4Addr::LOCALHOST.into(),
            true => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let site = vxlan.site(cx.stack, cx.guard, receiver);
        // The result is deliberately ignored here.
        let _ = super::fdb::snoop(&site, cx.now, loopback, eth.src(), 0, vni);
    }
    device.stats(cx.state.id).count_sent(1, packet.len() as u64);
    let octets = packet.len();
    udp::pass(cx, receiver, octets, packet);
}

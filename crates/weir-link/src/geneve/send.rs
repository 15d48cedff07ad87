// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encapsulation (`geneve_xmit`, `geneve_xmit_skb`, `geneve6_xmit_skb`, `geneve_build_skb`).
//!
//! The outer packet uses the routes, fragmentation and neighbours of the underlay namespace. The source port, 1 to
//! 65534, comes from a seeded hash of the inner flow.

use std::net::IpAddr;
use std::sync::Arc;

use weir_packet::header::ethernet::{ETH_P_TEB, is_vlan};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::tunnel::{OptionKind, Tunnel};
use weir_packet::{Batch, DropReason, Packet};

use super::Geneve;
use super::config::{Config, DF_INHERIT, DF_SET};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::namespace::Namespace;
use crate::tunnel::inner::{Inner, flow_hash, flow_port};
use crate::tunnel::outer;
use crate::tunnel::udp::{self, Front, Route};

/// The outer source ports, the second exclusive.
const SOURCE_PORTS: (u16, u16) = (1, u16::MAX);

/// The parameters for sending a frame.
struct Way<'a> {
    outer: udp::Way,
    vni: u32,
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
        let metadata = packet.tunnel().filter(|tunnel| tunnel.transmit);
        let metadata = metadata.filter(|_| conf.external).cloned();
        if conf.external && metadata.is_none() {
            outer::discard(cx, device, DropReason::TUNNEL_TXINFO, packet);
            continue;
        }
        let Some(inner) = inner(packet.data()) else {
            outer::error(cx, device, DropReason::PKT_TOO_SMALL, packet);
            continue;
        };
        let way = match &metadata {
            Some(metadata) => by_metadata(metadata),
            None => of(conf, &inner),
        };
        one(geneve, cx, device, (&net, conf.port), &way, &inner, packet);
    }
}

/// Parses the frame, behind all its tags. Returns nothing for a frame that ends in its IP header
/// (`skb_vlan_inet_prepare`).
fn inner(frame: &[u8]) -> Option<Inner> {
    let first = Ethernet::new(frame)?.ethertype();
    let (mut link, mut protocol) = (Ethernet::LEN, first);
    while is_vlan(protocol) {
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

/// The way that the device's configuration gives. A TTL of 0 is the route's.
fn of(conf: &Config, inner: &Inner) -> Way<'static> {
    let ttl = match conf.ttl_inherit {
        true => inner.ttl,
        false => conf.ttl,
    };
    let outer = udp::Way {
        src: match conf.remote {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        },
        dst: conf.remote,
        ttl: (ttl != 0).then_some(ttl),
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
        link: 0,
    };
    Way {
        outer,
        vni: conf.vni,
        options: &[],
    }
}

/// The way that the packet's metadata give. A TTL of 0 stays 0, as in Linux.
fn by_metadata(tunnel: &Tunnel) -> Way<'_> {
    let options = tunnel.options.as_ref();
    let options = options.filter(|options| options.kind == OptionKind::Geneve);
    let options = options.map_or(&[][..], |options| &options.octets);
    let outer = udp::Way {
        src: tunnel.ends.src(),
        dst: tunnel.ends.dst(),
        ttl: Some(tunnel.ttl),
        tos: tunnel.tos,
        df: tunnel.dont_fragment,
        checksum: tunnel.checksum,
        label: 0,
        link: 0,
    };
    Way {
        outer,
        vni: tunnel.id & 0xff_ffff,
        // The header counts words of four bytes.
        options: options.get(..options.len() & !3).unwrap_or_default(),
    }
}

/// Sends one frame.
fn one(
    geneve: &Geneve,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    (net, port): (&Namespace, u16),
    way: &Way<'_>,
    inner: &Inner,
    packet: Packet,
) {
    let route = match Route::find(device, net, &way.outer, packet.mark, cx.guard) {
        Ok(route) => route,
        Err(errno) => return outer::fail(&geneve.errors, cx, device, errno, packet),
    };
    let ([p0, p1], [_, v0, v1, v2]) = (ETH_P_TEB.to_be_bytes(), way.vni.to_be_bytes());
    let words = (way.options.len() / 4) as u8;
    let front = Front {
        ports: (flow_port(SOURCE_PORTS, flow_hash(cx, &packet)), port),
        header: [words, 0, p0, p1, v0, v1, v2, 0],
        options: way.options,
    };
    udp::send(
        cx,
        device,
        net,
        (&way.outer, &route),
        (&front, inner),
        packet,
    );
}

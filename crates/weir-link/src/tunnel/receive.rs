// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decapsulation by IP tunnels (`ip_tunnel_rcv`, `__ip6_tnl_rcv`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::tunnel::{Ends, OptionKind, Options, Tunnel};
use weir_packet::{Batch, DropReason, Packet};

use super::inner::{decapsulate_ecn, set_dscp};
use super::ip6::flag;
use super::parms::{GRE_CSUM, GRE_KEY, GRE_SEQ};
use super::{IpTunnel, Parms};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::protocols::scrub;
use crate::udp::Outer;

/// What the header between the outer and the inner packet says (`struct tnl_ptk_info`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Info {
    /// `GRE_CSUM`, `GRE_KEY` and `GRE_SEQ` of the packet.
    pub flags: u16,
    /// The EtherType of the payload.
    pub protocol: u16,
    /// The key, or 0.
    pub key: u32,
    /// The sequence number, or 0.
    pub seq: u32,
    /// The version and the metadata of an ERSPAN header (`struct erspan_md2`, or an index).
    pub erspan: Option<(u8, [u8; 8])>,
}

impl Info {
    /// Returns the key, if there is one.
    pub fn key(&self) -> Option<u32> {
        (self.flags & GRE_KEY != 0).then_some(self.key)
    }
}

/// Returns the metadata of a received packet with an outer header, without a key.
pub fn metadata(outer: &Outer) -> Tunnel {
    Tunnel {
        tos: outer.tos,
        ttl: outer.ttl,
        ..between(Ends::new(outer.src, outer.dst).unwrap_or(Ends::V4([0; 4], [0; 4])))
    }
}

/// Returns metadata with nothing but these ends.
pub fn between(ends: Ends) -> Tunnel {
    Tunnel {
        ends,
        options: None,
        id: 0,
        has_id: false,
        src_port: 0,
        dst_port: 0,
        tos: 0,
        ttl: 0,
        checksum: false,
        dont_fragment: false,
        transmit: false,
        bridge: false,
        hop: false,
    }
}

/// Returns the options that describe an ERSPAN header (`struct erspan_metadata`).
fn erspan_options((version, metadata): (u8, [u8; 8])) -> Box<Options> {
    let version = u32::from(version).to_ne_bytes();
    Box::new(Options {
        kind: OptionKind::Erspan,
        octets: [&version[..], &metadata].concat().into(),
    })
}

/// Returns the place at which packets with an outer header are dropped.
fn place_of(outer: &Outer) -> Place {
    match outer.dst.is_ipv6() {
        true => Place::Ipv6Local,
        false => Place::Ipv4Local,
    }
}

/// Checks whether the packet has the checksum and the sequence number that the tunnel asks for.
fn check(tunnel: &IpTunnel, parms: &Parms, info: &Info) -> Result<(), DropReason> {
    if (info.flags ^ parms.iflags) & GRE_CSUM != 0 {
        tunnel.errors.rx_crc.fetch_add(1, Relaxed);
        return Err(DropReason::NOT_SPECIFIED);
    }
    if parms.iflags & GRE_SEQ != 0 {
        let expected = tunnel.expected.load(Relaxed);
        let old = expected != 0 && (info.seq.wrapping_sub(expected) as i32) < 0;
        if info.flags & GRE_SEQ == 0 || old {
            tunnel.errors.rx_fifo.fetch_add(1, Relaxed);
            return Err(DropReason::NOT_SPECIFIED);
        }
        tunnel.expected.store(info.seq.wrapping_add(1), Relaxed);
    }
    Ok(())
}

/// Passes an IP packet whose outer header ends at `at` to the device of its tunnel, if that takes `number`
/// (`IPPROTO_*`), whose EtherType is `protocol`. Returns the packet if there is no tunnel.
pub fn deliver_ip(
    cx: &mut Cx<'_>,
    to: Option<(&Arc<Device>, &Arc<IpTunnel>)>,
    (underlay, outer): (&Arc<Device>, &Outer),
    at: usize,
    (number, protocol): (u8, u16),
    mut packet: Packet,
) -> Option<Packet> {
    let Some((device, tunnel)) = to else {
        return Some(packet);
    };
    let taken = tunnel.parms.load(cx.guard).proto;
    if (taken != 0 && taken != number) || !packet.pull(at) {
        let reason = DropReason::NOT_SPECIFIED;
        cx.drop(underlay, place_of(outer), reason, packet);
        return None;
    }
    let info = Info {
        protocol,
        ..Info::default()
    };
    deliver(cx, (device, tunnel), (underlay, outer), &info, packet);
    None
}

/// Passes a packet to the device of its tunnel. Data begin at the payload; `underlay` is the device it came by.
pub fn deliver(
    cx: &mut Cx<'_>,
    (device, tunnel): (&Arc<Device>, &Arc<IpTunnel>),
    (underlay, outer): (&Arc<Device>, &Outer),
    info: &Info,
    mut packet: Packet,
) {
    let guard = cx.guard;
    let place = place_of(outer);
    let stats = device.stats(cx.state.id);
    let parms = tunnel.parms.load(guard);
    let refuse = |cx: &Cx<'_>, reason, packet| {
        stats.rx_errors.fetch_add(1, Relaxed);
        cx.drop(underlay, place, reason, packet);
    };
    let (protocol, network) = match tunnel.flavour.ethernet {
        true => match Ethernet::new(packet.data()) {
            Some(header) => (header.ethertype(), Ethernet::LEN),
            None => {
                return cx.drop(underlay, place, DropReason::PKT_TOO_SMALL, packet);
            }
        },
        false => (info.protocol, 0),
    };
    if let Err(reason) = check(tunnel, parms, info) {
        return refuse(cx, reason, packet);
    }
    let least = match protocol {
        ETH_P_IP => Ipv4::LEN,
        ETH_P_IPV6 => Ipv6::LEN,
        _ => 0,
    };
    if packet.len() < network + least {
        // `pskb_inet_may_pull`
        tunnel.errors.rx_length.fetch_add(1, Relaxed);
        return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
    }
    if matches!(protocol, ETH_P_IP | ETH_P_IPV6) {
        let network = packet.data_mut().get_mut(network..);
        let fits = network.is_none_or(|network| {
            if parms.flags & flag::RCV_DSCP_COPY != 0 {
                set_dscp(outer.tos, protocol, network);
            }
            decapsulate_ecn(outer.tos, protocol, network)
        });
        if !fits {
            tunnel.errors.rx_frame.fetch_add(1, Relaxed);
            return refuse(cx, DropReason::IP_TUNNEL_ECN, packet);
        }
    }
    stats.rx_packets.fetch_add(1, Relaxed);
    // Over IPv6, Linux counts a frame without its header.
    let uncounted = if outer.dst.is_ipv6() { network } else { 0 };
    let octets = packet.len().saturating_sub(uncounted);
    stats.rx_bytes.fetch_add(octets as u64, Relaxed);
    let elsewhere = !Arc::ptr_eq(underlay.namespace(guard), device.namespace(guard));
    scrub(cx, &mut packet, elsewhere);
    if parms.external {
        let metadata = Tunnel {
            id: info.key,
            has_id: info.flags & GRE_KEY != 0,
            checksum: info.flags & GRE_CSUM != 0,
            options: info.erspan.map(erspan_options),
            ..metadata(outer)
        };
        packet.set_tunnel(Some(tunnel.remembered().share(metadata, guard)));
    }
    packet.protocol = protocol;
    cx.receive_later(device, Batch::from(packet));
}

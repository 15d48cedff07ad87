// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP (`net/ipv4/udp.c`, `net/ipv6/udp.c`).
//!
//! A socket gets the datagrams of its port that fit it best: an address before all addresses, then a peer, then a device
//! (`compute_score`). Sockets that share a port with `SO_REUSEPORT` share its flows. Datagrams to groups and to all go to
//! every socket that takes them.
//!
//! `UDP_SEGMENT` splits the data of one call into datagrams. `UDP_GRO` reads back, but datagrams are never joined. A
//! datagram counts as received (`InDatagrams`) when its owner takes it; Linux counts it when the program reads it.
//!
//! Not served: UDP-Lite, `UDP_ENCAP`.

use std::net::IpAddr;
use std::sync::Arc;

use weir_core::device::Device;
use weir_core::features::bit;
use weir_inet::mib::{self, Count};
use weir_inet::sockets::{Arrived, Report};
use weir_netlink::errno;
use weir_packet::Packet;
use weir_packet::header::transport::{fill_check_v4, fill_check_v6, udp};
use weir_packet::header::{Ipv4, Ipv6, Udp};

use crate::Outgoing;
use crate::abi::{IPPROTO_UDP, MSG_MORE, MSG_PROBE, udp as opt};
use crate::address::Address;
use crate::cpu::Cx;
use crate::error;
use crate::group;
use crate::options::{int, of_int};
use crate::outgoing::{self, Prepared};
use crate::ports::{Entry, Target, Which, tables};
use crate::receive::{self, Head};
use crate::socket::Socket;

const PROTOCOL: u8 = IPPROTO_UDP as u8;
/// The most datagrams that `UDP_SEGMENT` makes of one call (`UDP_MAX_SEGMENTS`).
const SEGMENTS: usize = 64;
/// The sysctl that gives sockets without a device the datagrams of VRFs.
const ACCEPT: &str = "ipv4/udp_l3mdev_accept";

/// The options of `SOL_UDP`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    pub cork: bool,
    /// The payload of each datagram, or 0.
    pub segment: u16,
    pub gro: bool,
    pub no_check_tx: bool,
    pub no_check_rx: bool,
}

/// Data that wait for the end of their datagram (`UDP_CORK`, `MSG_MORE`).
#[derive(Debug)]
pub struct Corked {
    prepared: Prepared,
    data: Vec<u8>,
}

/// Sets an option of `SOL_UDP`. The end of `UDP_CORK` sends what was collected.
pub fn set_option(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    let val = int(value)?;
    let on = val != 0;
    let mut state = socket.state();
    match name {
        opt::CORK => {
            state.udp.cork = on;
            if !on && let Some(corked) = state.corked.take() {
                drop(state);
                emit(socket, cx, &corked.prepared, (&corked.data, true))?;
            }
        }
        opt::NO_CHECK6_TX => state.udp.no_check_tx = on,
        opt::NO_CHECK6_RX => state.udp.no_check_rx = on,
        opt::SEGMENT => {
            state.udp.segment = u16::try_from(val).map_err(|_| errno::EINVAL)?;
        }
        opt::GRO => state.udp.gro = on,
        opt::ENCAP if on => return Err(errno::ENOPROTOOPT),
        opt::ENCAP => {}
        _ => return Err(errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Returns an option of `SOL_UDP`.
pub fn option(socket: &Socket, name: i32) -> Result<Vec<u8>, i32> {
    let settings = socket.state().udp;
    Ok(of_int(match name {
        opt::CORK => settings.cork.into(),
        opt::ENCAP => 0,
        opt::NO_CHECK6_TX => settings.no_check_tx.into(),
        opt::NO_CHECK6_RX => settings.no_check_rx.into(),
        opt::SEGMENT => settings.segment.into(),
        opt::GRO => settings.gro.into(),
        _ => return Err(errno::ENOPROTOOPT),
    }))
}

/// Sends a datagram (`udp_sendmsg`, `udpv6_sendmsg`).
pub fn send(socket: &Socket, cx: &mut Cx<'_>, message: &Outgoing<'_>) -> Result<usize, i32> {
    let len = message.data.len();
    let (corked, corking) = {
        let mut state = socket.state();
        let corking = state.udp.cork || message.flags & MSG_MORE != 0;
        (state.corked.take(), corking)
    };
    let (prepared, data) = match corked {
        // The first part has decided where the datagram goes.
        Some(mut corked) => {
            outgoing::pending(socket)?;
            if corked.data.len() + len > 0xffff {
                return Err(errno::EMSGSIZE);
            }
            corked.data.extend_from_slice(message.data);
            {
                let Corked { prepared, data } = *corked;
                (prepared, Some(data))
            }
        }
        None => (outgoing::prepare(socket, message)?, None),
    };
    if corking {
        let data = data.unwrap_or_else(|| message.data.to_vec());
        socket.state().corked = Some(Box::new(Corked { prepared, data }));
        return Ok(len);
    }
    if message.flags & MSG_PROBE != 0 && data.is_none() {
        return Ok(len);
    }
    let corked = data.is_some();
    let data = data.as_deref().unwrap_or(message.data);
    emit(socket, cx, &prepared, (data, corked))?;
    Ok(len)
}

/// Returns whether a device computes the checksums of datagrams.
fn has_offload(device: &Device) -> bool {
    device.features.active() & bit::HW_CSUM != 0
}

/// Sends the data of one call or of several that are `corked`, as one datagram or as several (`udp_send_skb`).
fn emit(
    socket: &Socket,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    (data, corked): (&[u8], bool),
) -> Result<(), i32> {
    let settings = socket.state().udp;
    let segment = usize::from(prepared.choice.segment.unwrap_or(settings.segment));
    if segment == 0 || data.len() <= segment {
        return emit_one(socket, cx, prepared, (settings, !corked), data);
    }
    if data.len() > segment * SEGMENTS {
        return Err(errno::EINVAL);
    }
    data.chunks(segment)
        .try_for_each(|part| emit_one(socket, cx, prepared, (settings, true), part))
}

/// Sends one datagram. Linux leaves its checksum to the device if `left`, the datagram needs no fragments and the device
/// computes checksums.
fn emit_one(
    socket: &Socket,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    (settings, left): (Settings, bool),
    data: &[u8],
) -> Result<(), i32> {
    let header = udp(prepared.port, prepared.to.port, data.len());
    let len = Udp::LEN + data.len();
    let ns = socket.ns();
    let v6 = prepared.to.ip.is_ipv6();
    let counted = match v6 {
        true => mib::Datagram::Udp6,
        false => mib::Datagram::Udp,
    };
    if v6 {
        let way = prepared.route_v6(socket, cx, PROTOCOL)?;
        outgoing::pending(socket)?;
        let head = prepared.head_v6(socket, cx, &way, PROTOCOL, len)?;
        if len > 0xffff {
            return Err(errno::EMSGSIZE);
        }
        let mut segment = [&header, data].concat();
        if !settings.no_check_tx {
            fill_check_v6(way.src.octets(), way.dst.octets(), PROTOCOL, &mut segment);
        }
        let fits = Ipv6::LEN + len <= way.route.mtu() as usize;
        let checked = left && fits && !settings.no_check_tx && has_offload(way.route.device);
        prepared.send_v6(socket, cx, &way, &head, (&segment, checked))?;
    } else {
        if data.len() > 0xffff {
            return Err(errno::EMSGSIZE);
        }
        let way = prepared.route_v4(socket, cx, PROTOCOL)?;
        outgoing::pending(socket)?;
        let mut head = prepared.head_v4(socket, cx, &way, PROTOCOL, len)?;
        let fits = Ipv4::LEN + head.options.len() + len <= way.hop.mtu as usize;
        head.checked = left && fits && !prepared.options.no_check && has_offload(way.hop.device);
        let mut segment = [&header, data].concat();
        if !prepared.options.no_check {
            fill_check_v4(way.src.octets(), way.dst.octets(), PROTOCOL, &mut segment);
        }
        weir_inet::ipv4::egress::send(cx, ns, &way, &head, &[&segment])?;
    }
    let counters = cx.mib(ns).datagrams(counted);
    counters.add(mib::Udp::OutDatagrams, 1);
    Ok(())
}

/// Takes a datagram (`__udp4_lib_rcv`, `__udp6_lib_rcv`).
pub fn receive(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: Packet) -> Option<Packet> {
    let (Some(head), Some(header)) = (
        Head::of(arrived.ipv6, packet.data()),
        Udp::new(packet.data().get(arrived.at..).unwrap_or_default()),
    ) else {
        return Some(packet);
    };
    let (from_port, port) = (header.src_port(), header.dst_port());
    let target = receive::target(cx, arrived, &head, from_port, ACCEPT);
    let table = tables(arrived.ns).table(Which::Udp);
    let guard = cx.guard;
    let taken = if arrived.group {
        let mut taken = false;
        for entry in table.of(port, guard) {
            if takes_group(entry, &target) {
                taken = true;
                deliver(
                    &entry.socket,
                    cx,
                    arrived,
                    &head,
                    (from_port, port),
                    &packet,
                );
            }
        }
        taken
    } else {
        let hash = || flow_hash(&head, from_port, port);
        match table.find(port, &target, hash, guard) {
            Some(entry) => {
                deliver(
                    &entry.socket,
                    cx,
                    arrived,
                    &head,
                    (from_port, port),
                    &packet,
                );
                true
            }
            None => false,
        }
    };
    if !taken {
        return Some(packet);
    }
    cx.consume(packet);
    None
}

/// Returns whether a socket takes a datagram to a group or to all (`__udp_is_mcast_sock`, `__udp_v6_is_mcast_sock`).
fn takes_group(entry: &Entry, target: &Target) -> bool {
    if entry.score(target).is_none() {
        return false;
    }
    let state = entry.socket.state();
    let all = match target.local {
        IpAddr::V4(_) => state.options.mc_all,
        IpAddr::V6(_) => state.options.mc_all6,
    };
    !target.local.is_multicast() || group::takes(&state.groups, all, target)
}

/// Hashes a flow, to choose among sockets that share a port (`udp_ehashfn`).
fn flow_hash(head: &Head, from_port: u16, port: u16) -> u32 {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => ip.into(),
    };
    let mix = weir_core::random::mix;
    let fold = |state: u64, value: u128| mix(mix(state ^ value as u64) ^ (value >> 64) as u64);
    let ports = u128::from(from_port) << 16 | u128::from(port);
    let hash = [bits(head.src), bits(head.dst), ports]
        .into_iter()
        .fold(0, fold);
    (hash >> 32) as u32
}

fn deliver(
    socket: &Arc<Socket>,
    cx: &Cx<'_>,
    arrived: &Arrived<'_>,
    head: &Head,
    (from_port, port): (u16, u16),
    packet: &Packet,
) {
    let from = Address::new(head.src, from_port);
    let data = packet
        .data()
        .get(arrived.at + Udp::LEN..)
        .unwrap_or_default();
    let taken = receive::pass(
        socket,
        cx,
        arrived,
        head,
        (&from, port),
        (packet, arrived.at),
        data,
    );
    let counters = cx.mib(arrived.ns).datagrams(match arrived.ipv6 {
        true => mib::Datagram::Udp6,
        false => mib::Datagram::Udp,
    });
    if taken {
        counters.add(mib::Udp::InDatagrams, 1);
    } else {
        counters.add(mib::Udp::InErrors, 1);
        counters.add(mib::Udp::RcvbufErrors, 1);
    }
}

/// Tells the socket of an ICMP error about its datagram (`__udp4_lib_err`, `__udp6_lib_err`).
pub fn report(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let quoted = report.quoted;
    let (Some(head), Some(header)) = (
        Head::of(report.ipv6, quoted),
        Udp::new(quoted.get(report.at..).unwrap_or_default()),
    ) else {
        return false;
    };
    let arrived = Arrived {
        device: report.device,
        ns: report.ns,
        ipv6: report.ipv6,
        at: report.at,
        group: false,
    };
    // The quoted packet went the other way.
    let theirs = Head {
        src: head.dst,
        dst: head.src,
        ..head
    };
    let target = receive::target(cx, &arrived, &theirs, header.dst_port(), ACCEPT);
    let hash = || flow_hash(&theirs, header.dst_port(), header.src_port());
    let table = tables(report.ns).table(Which::Udp);
    let Some(entry) = table.find(header.src_port(), &target, hash, cx.guard) else {
        return false;
    };
    let to = Address::new(head.dst, header.dst_port());
    let payload = quoted.get(report.at + Udp::LEN..).unwrap_or_default();
    let socket = entry.socket.clone();
    error::icmp(&socket, cx, report, to, payload);
    true
}

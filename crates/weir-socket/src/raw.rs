// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Raw sockets (`net/ipv4/raw.c`, `net/ipv6/raw.c`): each gets a copy of every packet of its protocol, over IPv4 with the
//! IP header, over IPv6 without. A program that makes the header itself (`IP_HDRINCL`, `IPPROTO_RAW`) sends whole packets.
//!
//! Options: `ICMP_FILTER`, `ICMP6_FILTER`, `IPV6_CHECKSUM`.

use std::net::IpAddr;
use std::sync::Arc;

use weir_inet::mib::{self, Count, Way};
use weir_inet::sockets::{Arrived, Report};
use weir_netlink::errno;
use weir_packet::Packet;
use weir_packet::checksum::{Sum, transport_v6};
use weir_packet::header::{Ipv4, Ipv6};

use crate::Outgoing;
use crate::abi::{IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_RAW, SOL_ICMPV6, SOL_IPV6, SOL_RAW, ipv6};
use crate::address::Address;
use crate::cpu::Cx;
use crate::error;
use crate::group;
use crate::options::{int, of_int};
use crate::outgoing::{self, Prepared};
use crate::ports::{Which, tables};
use crate::receive::{self, Head};
use crate::socket::Socket;

/// `ICMP_FILTER` and `ICMPV6_FILTER`
const FILTER: i32 = 1;
const ACCEPT: &str = "ipv4/raw_l3mdev_accept";
/// Mobility (RFC 6275).
const IPPROTO_MH: i32 = 135;

/// The options of a raw socket.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The ICMP types that the program does not want, one bit each.
    icmp: u32,
    /// The same for ICMPv6.
    icmp6: [u32; 8],
    /// The offset of the checksum that is computed and checked.
    checksum: Option<usize>,
}

impl Settings {
    /// Returns the defaults of a new socket (`rawv6_init_sk`).
    pub fn new(ipv6: bool, protocol: i32) -> Self {
        Self {
            icmp: 0,
            icmp6: [0; 8],
            checksum: match protocol {
                IPPROTO_ICMPV6 if ipv6 => Some(2),
                IPPROTO_MH if ipv6 => Some(4),
                _ => None,
            },
        }
    }
}

/// Enters a new socket into the table of its protocol (`raw_hash_sk`).
pub fn opened(socket: &Arc<Socket>, cx: &Cx<'_>) {
    let mut state = socket.state();
    let number = socket.protocol() as u16;
    // `/proc/net/raw` shows the protocol as the local port.
    state.local.port = number;
    state.bound = Some((Which::Raw, number));
    socket.publish_locked(&state, cx);
}

/// Sets an option of `SOL_RAW` or `SOL_ICMPV6`.
pub fn set_option(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Result<(), i32> {
    let mut state = socket.state();
    let raw = state.raw.as_mut().ok_or(errno::ENOPROTOOPT)?;
    match (level, name) {
        (SOL_RAW, FILTER) if !socket.is_v6() => {
            if socket.protocol() != IPPROTO_ICMP {
                return Err(errno::EOPNOTSUPP);
            }
            let mut filter = [0; 4];
            let len = value.len().min(4);
            let (Some(place), Some(bytes)) = (filter.get_mut(..len), value.get(..len)) else {
                return Err(errno::EINVAL);
            };
            place.copy_from_slice(bytes);
            raw.icmp = u32::from_ne_bytes(filter);
        }
        (SOL_ICMPV6, FILTER) if socket.is_v6() => {
            if socket.protocol() != IPPROTO_ICMPV6 {
                return Err(errno::EOPNOTSUPP);
            }
            let (words, _) = value.as_chunks::<4>();
            for (place, word) in raw.icmp6.iter_mut().zip(words) {
                *place = u32::from_ne_bytes(*word);
            }
        }
        (SOL_RAW | SOL_IPV6, ipv6::CHECKSUM) if socket.is_v6() => {
            let offset = int(value)?;
            // The checksum of ICMPv6 is not the program's.
            if socket.protocol() == IPPROTO_ICMPV6 && level == SOL_IPV6 {
                return Err(errno::EINVAL);
            }
            raw.checksum = match offset {
                ..0 => None,
                offset if offset & 1 != 0 => return Err(errno::EINVAL),
                offset => Some(offset as usize),
            };
        }
        _ => return Err(errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Returns an option of `SOL_RAW` or `SOL_ICMPV6`.
pub fn option(socket: &Socket, level: i32, name: i32) -> Result<Vec<u8>, i32> {
    let settings = socket.state().raw.as_deref().copied();
    let settings = settings.ok_or(errno::ENOPROTOOPT)?;
    match (level, name) {
        (SOL_RAW, FILTER) if !socket.is_v6() => match socket.protocol() {
            IPPROTO_ICMP => Ok(settings.icmp.to_ne_bytes().to_vec()),
            _ => Err(errno::EOPNOTSUPP),
        },
        (SOL_ICMPV6, FILTER) if socket.is_v6() => match socket.protocol() {
            IPPROTO_ICMPV6 => Ok(settings
                .icmp6
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect()),
            _ => Err(errno::EOPNOTSUPP),
        },
        (SOL_RAW | SOL_IPV6, ipv6::CHECKSUM) if socket.is_v6() => {
            Ok(of_int(settings.checksum.map_or(-1, |at| at as i32)))
        }
        _ => Err(errno::ENOPROTOOPT),
    }
}

/// Sends a packet (`raw_sendmsg`, `rawv6_sendmsg`).
pub fn send(socket: &Socket, cx: &mut Cx<'_>, message: &Outgoing<'_>) -> Result<usize, i32> {
    let mut prepared = outgoing::prepare(socket, message)?;
    let own = socket.protocol();
    let mut protocol = own as u8;
    if socket.is_v6() {
        // The port of an address is a protocol.
        match i32::from(prepared.to.port) {
            0 => {}
            port if port > 255 || (port != own && own != IPPROTO_RAW) => {
                return Err(errno::EINVAL);
            }
            port => protocol = port as u8,
        }
    }
    (prepared.port, prepared.to.port) = (0, 0);
    match socket.is_v6() {
        true => send_v6(socket, cx, &prepared, protocol, message.data)?,
        false => send_v4(socket, cx, &prepared, protocol, message.data)?,
    }
    Ok(message.data.len())
}

fn send_v4(
    socket: &Socket,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    protocol: u8,
    data: &[u8],
) -> Result<(), i32> {
    let ns = socket.ns();
    let options = &prepared.options;
    let included = options.hdrincl;
    // Not even with options that are none.
    if included && (Ipv4::new(data).is_none() || options.ip_options.is_some()) {
        return Err(errno::EINVAL);
    }
    let routed = if included {
        IPPROTO_RAW as u8
    } else {
        protocol
    };
    let way = prepared.route_v4(socket, cx, routed)?;
    if included {
        outgoing::pending(socket)?;
        if data.len() > way.hop.mtu as usize {
            error::too_long(socket, cx, prepared.to, false, way.hop.mtu);
            return Err(errno::EMSGSIZE);
        }
        let mark = prepared.choice.mark.unwrap_or(options.mark);
        let looped = options.mc_loop;
        return weir_inet::ipv4::egress::send_included(
            cx,
            ns,
            &way,
            (mark, options.priority),
            looped,
            data,
        );
    }
    let head = prepared.head_v4(socket, cx, &way, protocol, data.len())?;
    if protocol == IPPROTO_ICMP as u8
        && let Some(ty) = data.first()
    {
        let counters = cx.mib(ns);
        counters.icmp.add(mib::Icmp::OutMsgs, 1);
        counters.message(Way::Out, *ty);
    }
    weir_inet::ipv4::egress::send(cx, ns, &way, &head, &[data])
}

fn send_v6(
    socket: &Socket,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    protocol: u8,
    data: &[u8],
) -> Result<(), i32> {
    let way = prepared.route_v6(socket, cx, protocol)?;
    if prepared.options.hdrincl {
        outgoing::pending(socket)?;
        return send_included(socket, cx, prepared, &way, data);
    }
    let head = prepared.head_v6(socket, cx, &way, protocol, data.len())?;
    let checksum = socket.state().raw.as_ref().and_then(|raw| raw.checksum);
    let Some(at) = checksum else {
        return prepared.send_v6(socket, cx, &way, &head, (data, false));
    };
    let mut bytes = data.to_vec();
    let place = bytes.get_mut(at..at + 2).ok_or(errno::EINVAL)?;
    place.copy_from_slice(&[0, 0]);
    let sum = match transport_v6(way.src.octets(), way.dst.octets(), protocol, &bytes) {
        0 => 0xffff,
        sum => sum,
    };
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    prepared.send_v6(socket, cx, &way, &head, (&bytes, false))
}

/// Sends a packet with the IPv6 header that the program has made (`rawv6_send_hdrinc`).
fn send_included(
    socket: &Socket,
    cx: &mut Cx<'_>,
    prepared: &Prepared,
    way: &weir_inet::ipv6::egress::Way<'_>,
    data: &[u8],
) -> Result<(), i32> {
    let header = Ipv6::new(data).ok_or(errno::EINVAL)?;
    let mtu = way.route.mtu();
    if data.len() > mtu as usize {
        error::too_long(socket, cx, prepared.to, true, mtu);
        return Err(errno::EMSGSIZE);
    }
    let head = weir_inet::ipv6::output::Head {
        src: header.src().into(),
        dst: header.dst().into(),
        protocol: header.next_header(),
        hop_limit: header.hop_limit(),
        class: header.traffic_class(),
        label: header.flow_label(),
    };
    let payload = data.get(Ipv6::LEN..).unwrap_or_default();
    prepared.send_v6(socket, cx, way, &head, (payload, false))
}

/// Gives copies of a packet to the sockets of its protocol (`raw_v4_input`, `ipv6_raw_deliver`).
pub fn receive(cx: &mut Cx<'_>, arrived: &Arrived<'_>, protocol: u8, packet: &Packet) -> bool {
    let guard = cx.guard;
    let list = tables(arrived.ns)
        .table(Which::Raw)
        .of(protocol.into(), guard);
    if list.is_empty() {
        return false;
    }
    let Some(head) = Head::of(arrived.ipv6, packet.data()) else {
        return false;
    };
    let target = receive::target(cx, arrived, &head, 0, ACCEPT);
    let message = packet.data().get(arrived.at..).unwrap_or_default();
    let mut taken = false;
    for entry in list.iter().filter(|entry| entry.ipv6 == arrived.ipv6) {
        let mut entry = entry.clone();
        // The port of a peer means nothing here.
        if let Some(peer) = &mut entry.peer {
            peer.1 = 0;
        }
        if entry.score(&target).is_none() {
            continue;
        }
        let socket = entry.socket;
        let (settings, wanted) = {
            let state = socket.state();
            let all = match arrived.ipv6 {
                true => state.options.mc_all6,
                false => state.options.mc_all,
            };
            let wanted = !head.dst.is_multicast() || group::takes(&state.groups, all, &target);
            (state.raw.as_deref().copied(), wanted)
        };
        let (true, Some(settings)) = (wanted, settings) else {
            continue;
        };
        taken = true;
        let ty = message.first().copied().unwrap_or(0);
        let filtered = match (arrived.ipv6, i32::from(protocol)) {
            (false, IPPROTO_ICMP) => ty < 32 && settings.icmp >> ty & 1 == 1,
            (true, IPPROTO_ICMPV6) => {
                let word = settings.icmp6.get(usize::from(ty >> 5)).copied();
                word.unwrap_or(0) >> (ty & 31) & 1 == 1
            }
            _ => false,
        };
        if filtered {
            continue;
        }
        if let (IpAddr::V6(src), IpAddr::V6(dst), Some(_)) = (head.src, head.dst, settings.checksum)
        {
            let mut sum = Sum::new();
            sum.add_pseudo_v6(src.octets(), dst.octets(), protocol, message.len() as u32);
            if sum.add(message).finish() != 0 {
                receive::dropped(&socket);
                continue;
            }
        }
        let data = if arrived.ipv6 { message } else { packet.data() };
        let filtered = if arrived.ipv6 { arrived.at } else { 0 };
        let from = Address::new(head.src, 0);
        let passed = (packet, filtered);
        receive::pass(&socket, cx, arrived, &head, (&from, 0), passed, data);
    }
    taken
}

/// Tells the sockets of a protocol of an ICMP error (`raw_icmp_error`, `raw6_icmp_error`).
pub fn report(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let guard = cx.guard;
    let list = tables(report.ns)
        .table(Which::Raw)
        .of(report.protocol.into(), guard);
    if list.is_empty() {
        return false;
    }
    let Some(head) = Head::of(report.ipv6, report.quoted) else {
        return false;
    };
    let mut taken = false;
    for entry in list.iter().filter(|entry| entry.ipv6 == report.ipv6) {
        let local = entry.local.is_unspecified() || entry.local == head.src;
        let peer = entry.peer.is_none_or(|(ip, _)| ip == head.dst);
        if !local || !peer {
            continue;
        }
        taken = true;
        let socket = entry.socket.clone();
        let included = socket.state().options.hdrincl;
        let at = if included { 0 } else { report.at };
        let payload = report.quoted.get(at..).unwrap_or_default();
        error::icmp(&socket, cx, report, Address::new(head.dst, 0), payload);
    }
    taken
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of programs on their way out, of which groups and broadcasts send a copy back to the host (`ip_mc_output`).

use weir_netlink::errno;
use weir_netlink::ifla::iff;
use weir_packet::header::ipv4::{IP_DF, fill_check, ipv4};
use weir_packet::header::{ETH_P_IP, Ipv4, Ipv4Mut};
use weir_packet::{Flags, Packet, PacketType};

use super::group::is_local;
use super::route::To;
pub use super::ways::{Way, Wish, find, owner_of};
use super::{forwards_multicast, local, multicast, output};
use crate::cpu::Cx;
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::namespace::Namespace;
use crate::settings::{Ipv4 as Conf, WithSettings};

/// The header fields that a program chooses.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The protocol of the payload.
    pub protocol: u8,
    /// The type of service.
    pub tos: u8,
    /// The time to live; `None` for that of the route or the namespace.
    pub ttl: Option<u8>,
    /// The packet must not be fragmented.
    pub df: bool,
    /// IP options, as [`Chosen`](weir_packet::header::ipv4_options::Chosen) has them.
    pub options: &'a [u8],
    /// Firewall mark.
    pub mark: u32,
    /// The packet's priority (`skb->priority`).
    pub priority: u32,
    /// A copy of a packet to a group is delivered to the host (`IP_MULTICAST_LOOP`).
    pub looped: bool,
    /// The checksum of the payload is known to be right (`CHECKSUM_PARTIAL`).
    pub checked: bool,
}

/// Makes an IPv4 header and sends a program's packet, whose payload is the concatenation of `parts`
/// (`ip_push_pending_frames`).
///
/// # Errors
/// EMSGSIZE if it is longer than 65,535 bytes, ENOBUFS without memory.
pub fn send(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    head: &Head<'_>,
    parts: &[&[u8]],
) -> Result<(), i32> {
    let packet = make(cx, ns, way, head, parts)?;
    send_made(cx, ns, way, head, packet);
    Ok(())
}

/// Sends a transport segment that is a packet, by itself or for several (`SKB_GSO_TCPV4`). Its checksum is complete, and it
/// has the headroom of a new packet. [`Head::options`] is empty.
///
/// # Errors
/// Those of [`send`].
pub fn send_packet(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    head: &Head<'_>,
    mut packet: Packet,
) -> Result<(), i32> {
    let header = header(ns, way, head, packet.len())?;
    let room = packet.push(header.len()).ok_or(errno::ENOBUFS)?;
    room.copy_from_slice(&header);
    send_made(cx, ns, way, head, packet);
    Ok(())
}

/// Sends a packet that begins with the header made from `head`.
fn send_made(cx: &mut Cx<'_>, ns: &Namespace, way: &Way<'_>, head: &Head<'_>, mut packet: Packet) {
    if head.checked {
        packet.flags.insert(Flags::CSUM_GOOD);
    }
    send_whole(cx, ns, way, (head.mark, head.priority), head.looped, packet);
}

/// Makes the header of a packet with so many bytes behind its options.
fn header(
    ns: &Namespace,
    way: &Way<'_>,
    head: &Head<'_>,
    payload: usize,
) -> Result<[u8; Ipv4::LEN], i32> {
    if Ipv4::LEN + head.options.len() + payload > 0xffff {
        return Err(errno::EMSGSIZE);
    }
    let ttl = match (head.ttl, way.hop_limit) {
        (Some(ttl), _) => i32::from(ttl),
        (None, 0) => ns.conf().ipv4.get(Conf::DefaultTtl),
        (None, limit) => limit as i32,
    };
    let (frag_off, id) = match head.df {
        true => (IP_DF, 0),
        false => (0, ns.ipv4().next_id(ns)),
    };
    Ok(ipv4(
        way.src.octets(),
        way.dst.octets(),
        head.protocol,
        ttl.clamp(0, 255) as u8,
        head.tos,
        id,
        frag_off,
        head.options.len() + payload,
    ))
}

fn make(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    head: &Head<'_>,
    parts: &[&[u8]],
) -> Result<Packet, i32> {
    let payload: usize = parts.iter().map(|part| part.len()).sum();
    let total = Ipv4::LEN + head.options.len() + payload;
    let header = header(ns, way, head, payload)?;
    let mut packet = room(cx, total).ok_or(errno::ENOBUFS)?;
    let written = packet.append(&header)
        && packet.append(head.options)
        && parts.iter().all(|part| packet.append(part));
    if !written {
        return Err(errno::ENOBUFS);
    }
    output::finish_options(cx, ns, &mut packet, head.options.len());
    Ok(packet)
}

/// Returns an empty packet with room for `len` bytes.
fn room(cx: &Cx<'_>, len: usize) -> Option<Packet> {
    let mut packet = cx.stack.pool.alloc(0)?;
    if packet.tailroom() < len {
        packet = cx.stack.pool.alloc(len)?;
        packet.trim(0);
    }
    Some(packet)
}

/// Sends a program's packet with the header that it has made (`raw_send_hdrinc`). Fills in the total length, the
/// checksum, and the source and the identification where they are zero.
///
/// # Errors
/// EMSGSIZE if it does not fit the link, EINVAL without a whole header, ENOBUFS without memory.
pub fn send_included(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    (mark, priority): (u32, u32),
    looped: bool,
    bytes: &[u8],
) -> Result<(), i32> {
    if bytes.len() > way.hop.mtu as usize {
        return Err(errno::EMSGSIZE);
    }
    let header = Ipv4::new(bytes).ok_or(errno::EINVAL)?;
    let len = header.header_len();
    if len > bytes.len() {
        return Err(errno::EINVAL);
    }
    let mut packet = room(cx, bytes.len()).ok_or(errno::ENOBUFS)?;
    if !packet.append(bytes) {
        return Err(errno::ENOBUFS);
    }
    if len >= Ipv4::LEN {
        let id = ns.ipv4().next_id(ns);
        if let Some(mut fields) = Ipv4Mut::new(packet.data_mut()) {
            if header.src() == [0; 4] {
                fields.set_src(way.src.octets());
            }
            if header.id() == 0 {
                fields.set_id(id);
            }
            fields.set_total_len(bytes.len() as u16);
        }
        fill_check(packet.data_mut());
    }
    send_whole(cx, ns, way, (mark, priority), looped, packet);
    Ok(())
}

/// Sends a packet that begins with its header (`ip_local_out`, `ip_mc_output`).
fn send_whole(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    (mark, priority): (u32, u32),
    looped: bool,
    mut packet: Packet,
) {
    let device = way.hop.device;
    let len = Ipv4::new(packet.data()).map_or(Ipv4::LEN, |header| header.header_len());
    packet.set_network(0);
    packet.set_transport(len);
    packet.protocol = ETH_P_IP;
    (packet.mark, packet.priority) = (mark, priority);
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    packet.iif = 0;
    packet.dev = device.key.0;
    let to_loopback = device.flags() & iff::LOOPBACK != 0;
    let wanted = looped || !way.is_multicast();
    let routed = way.is_multicast() && !is_local(way.dst) && forwards_multicast(ns, device);
    if (way.loops && !to_loopback || routed) && wanted {
        loop_back(cx, ns, way, routed, &packet);
    }
    let ttl = Ipv4::new(packet.data()).map_or(0, |header| header.ttl());
    if way.is_multicast() && ttl == 0 {
        return cx.consume(packet);
    }
    output::send(cx, device, ns, &way.hop, packet);
}

/// Delivers a copy of a packet that the host has sent to a group or to all, and has it routed like a received one
/// (`ip_mc_finish_output`).
fn loop_back(cx: &mut Cx<'_>, ns: &Namespace, way: &Way<'_>, routed: bool, packet: &Packet) {
    let device = way.hop.device;
    let Some(mut copy) = packet.copy() else {
        return device.count_drop(Place::Ipv4Local, weir_packet::DropReason::NOMEM);
    };
    let to = match way.is_multicast() {
        true => To::Group,
        false => To::All,
    };
    local::come_back(cx, device, ns, &mut copy, to);
    let ours = match routed {
        true => multicast::looped(cx, device, copy, way.loops),
        false => Some(copy),
    };
    if let Some(copy) = ours {
        local::deliver(cx, device, ns, copy, to);
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive offload (GRO): merges consecutive segments of a flow into a long packet that
//! [`crate::offload::segment_packet`] splits into the same segments.
//!
//! Mirrors `inet_gro_receive`, `ipv6_gro_receive`, `tcp_gro_receive` and `udp_gro_receive_segment` of Linux
//! 6.1. Segments are merged if only sequence numbers, IPv4 identifications, checksums and lengths differ, and
//! PSH and FIN of the last one. A segment that is shorter than the first or has PSH or FIN is the last. IPv4
//! packets with options, IPv6 packets with extension headers, fragments, padded frames and frames with a wrong
//! checksum are not merged.
//!
//! Differences from Linux: a frame that cannot be merged ends all flows of the batch and not only its own, and
//! the urgent pointer must not differ. The long packet has a complete checksum.

use crate::batch::Batch;
use crate::checksum::Sum;
use crate::header::ipv4::{IPPROTO_TCP, IPPROTO_UDP, fill_check};
use crate::header::{Ipv4, Ipv4Mut, Ipv6, Ipv6Mut};
use crate::meta::{SegmentKind, Segments};
use crate::offload::{Headers, complete_checksum};
use crate::packet::{FRAME_DATA, Flags, Packet};
use crate::pool::Cache;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;
/// The most datagrams in a long UDP packet (`UDP_GRO_CNT_MAX`).
const DATAGRAMS: u16 = 64;
/// The most flows at once.
const FLOWS: usize = 8;
/// The length that no long packet reaches (`GRO_LEGACY_MAX_SIZE`).
const LONGEST: usize = 65_536;
/// Bytes of headroom that the description of the segments takes.
const ROOM: usize = 16;

/// The settings of a device.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A long packet stays shorter than this, in bytes from its network header on (`gro_max_size`).
    pub max_size: usize,
    /// Datagrams of UDP are merged (`rx-udp-gro-forwarding`).
    pub udp: bool,
}

/// A flow whose first segment is at `at` in the output.
struct Flow {
    at: usize,
    headers: Headers,
    /// Bytes of payload of the first segment.
    size: usize,
    /// Segments so far.
    count: u16,
    /// Bytes of payload so far.
    payload: usize,
    fixed_id: bool,
    open: bool,
}

/// Merges the segments of a batch of received frames. Passes the packets whose payload went into others to
/// `merged`. Keeps the order of the packets of a flow.
pub fn merge(
    mut batch: Batch,
    limits: Limits,
    memory: &mut Cache,
    mut merged: impl FnMut(Packet),
) -> Batch {
    let mut out = Batch::new();
    let mut flows: [Option<Flow>; FLOWS] = std::array::from_fn(|_| None);
    let mut oldest = 0;
    for packet in batch.drain() {
        let Some(headers) = candidate(&packet, limits.udp) else {
            flows
                .iter_mut()
                .flatten()
                .for_each(|flow| flow.open = false);
            // There is room: the output is no larger than the input.
            let _ = out.push(packet);
            continue;
        };
        let flow = flows.iter_mut().flatten().find(|flow| {
            let first = out.as_slice().get(flow.at);
            flow.open
                && first.is_some_and(|first| same_flow(first, &flow.headers, &packet, &headers))
        });
        if let Some(flow) = flow {
            let first = out.as_mut_slice().get_mut(flow.at);
            if first.is_some_and(|first| append(first, flow, &packet, limits, memory)) {
                merged(packet);
                continue;
            }
            flow.open = false;
        }
        let size = packet.len() - headers.payload;
        if begins(&packet, &headers) {
            let free = flows.iter().position(|flow| {
                flow.as_ref()
                    .is_none_or(|flow| !flow.open && flow.count == 1)
            });
            let place = match free {
                Some(place) => place,
                None => {
                    oldest = (oldest + 1) % FLOWS;
                    oldest
                }
            };
            let new = Flow {
                at: out.len(),
                headers,
                size,
                count: 1,
                payload: size,
                fixed_id: false,
                open: true,
            };
            if let Some(before) = flows.get_mut(place).and_then(|place| place.replace(new)) {
                finish(&mut out, &before);
            }
        }
        let _ = out.push(packet);
    }
    for flow in flows.iter().flatten() {
        finish(&mut out, flow);
    }
    out
}

/// Returns the headers of a frame that may be part of a long packet.
fn candidate(packet: &Packet, udp: bool) -> Option<Headers> {
    let frame = packet.data();
    if packet.segments().is_some()
        || packet.tunnel().is_some()
        || packet.conn().is_some()
        || packet.headroom() < ROOM
    {
        return None;
    }
    let headers = Headers::of(frame)?;
    let ip = frame.get(headers.network..)?;
    let exact = match headers.ipv6 {
        true => {
            let header = Ipv6::new(ip)?;
            headers.transport - headers.network == Ipv6::LEN
                && usize::from(header.payload_len()) + Ipv6::LEN == ip.len()
        }
        false => {
            let header = ip.first_chunk::<20>()?;
            let mut sum = Sum::default();
            sum.add(header);
            headers.transport - headers.network == 20
                && usize::from(Ipv4::new(ip)?.total_len()) == ip.len()
                && sum.finish() == 0
        }
    };
    let transport = frame.get(headers.transport..)?;
    let suits = match headers.protocol {
        IPPROTO_TCP => true,
        IPPROTO_UDP => {
            let length = u16::from_be_bytes([*transport.get(4)?, *transport.get(5)?]);
            udp && transport.get(6..8)? != [0, 0] && usize::from(length) == transport.len()
        }
        _ => false,
    };
    if !exact || !suits || frame.len() == headers.payload {
        return None;
    }
    if !packet.flags.contains(Flags::CSUM_GOOD) {
        let mut sum = headers.pseudo(frame, transport.len())?;
        sum.add(transport);
        if sum.finish() != 0 {
            return None;
        }
    }
    Some(headers)
}

fn flags(packet: &Packet, headers: &Headers) -> u8 {
    let at = headers.transport + 13;
    packet.data().get(at).copied().unwrap_or(0)
}

/// Returns whether a segment may be the first of a long packet.
fn begins(packet: &Packet, headers: &Headers) -> bool {
    headers.protocol == IPPROTO_UDP || flags(packet, headers) & (URG | PSH | RST | SYN | FIN) == 0
}

/// Returns whether two frames belong to the same flow: link-layer header, tag, addresses and ports.
fn same_flow(one: &Packet, of_one: &Headers, other: &Packet, of_other: &Headers) -> bool {
    let (a, b) = (one.data(), other.data());
    let part = |from: usize, to: usize| a.get(from..to) == b.get(from..to);
    let (network, transport) = (of_one.network, of_one.transport);
    let addresses = if of_one.ipv6 { (8, 40) } else { (12, 20) };
    of_one.protocol == of_other.protocol
        && of_one.ipv6 == of_other.ipv6
        && network == of_other.network
        && one.vlan() == other.vlan()
        && part(0, network)
        && part(network + addresses.0, network + addresses.1)
        && part(transport, transport + 4)
}

fn be16(frame: &[u8], at: usize) -> u16 {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk::<2>());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

fn be32(frame: &[u8], at: usize) -> u32 {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Appends the payload of a frame of the same flow. Returns false and changes nothing if it is not the next
/// segment. Ends the flow after a last segment.
fn append(
    first: &mut Packet,
    flow: &mut Flow,
    next: &Packet,
    limits: Limits,
    memory: &mut Cache,
) -> bool {
    let (a, b) = (first.data(), next.data());
    let Headers {
        network,
        transport,
        payload,
        ..
    } = flow.headers;
    let part = |from: usize, to: usize| a.get(from..to) == b.get(from..to);
    let Some(new) = b.get(payload..).filter(|new| !new.is_empty()) else {
        return false;
    };
    let long = payload - network + flow.payload + new.len();
    if new.len() > flow.size || long >= limits.max_size.min(LONGEST) {
        return false;
    }
    let mut fixed_id = flow.fixed_id;
    if flow.headers.ipv6 {
        if !part(network, network + 4) || !part(network + 6, network + 8) {
            return false;
        }
    } else {
        // Version, type of service, fragmentation flags, time to live and protocol.
        if !part(network, network + 2) || !part(network + 6, network + 10) {
            return false;
        }
        let dont_fragment = a.get(network + 6).is_some_and(|byte| byte & 0x40 != 0);
        let step = be16(b, network + 4).wrapping_sub(be16(a, network + 4));
        match step {
            step if step == flow.count && !fixed_id => {}
            0 if dont_fragment && (flow.count == 1 || fixed_id) => fixed_id = true,
            _ => return false,
        }
    }
    let tcp = flow.headers.protocol == IPPROTO_TCP;
    let mut last = new.len() < flow.size;
    let mut added = 0;
    if tcp {
        let (old, now) = (be32(a, transport + 12), be32(b, transport + 12));
        let may_differ = u32::from(CWR | FIN | PSH) << 16;
        added = (now >> 16) as u8;
        let sequence = be32(a, transport + 4).wrapping_add(flow.payload as u32);
        if (old ^ now) & !may_differ != 0
            || added & CWR != 0
            || be32(b, transport + 4) != sequence
            || !part(transport + 8, transport + 12)
            || !part(transport + 18, payload)
        {
            return false;
        }
        last |= added & (URG | PSH | RST | SYN | FIN) != 0;
    } else {
        last |= flow.count + 1 >= DATAGRAMS;
    }
    if first.tailroom() < new.len() {
        // A frame of the longer class has room for the longest packet.
        let Some(longer) = memory.alloc(FRAME_DATA + 1) else {
            return false;
        };
        if longer.capacity() - first.end() < new.len() {
            return false;
        }
        *first = first.copy_to(longer);
    }
    if !first.append(new) {
        return false;
    }
    if tcp && let Some(flags) = first.data_mut().get_mut(transport + 13) {
        *flags |= added & (PSH | FIN);
    }
    flow.count += 1;
    flow.payload += new.len();
    flow.fixed_id = fixed_id;
    flow.open = !last;
    true
}

/// Completes the headers of a long packet and describes its segments (`tcp_gro_complete`,
/// `udp_gro_complete`, `inet_gro_complete`).
fn finish(out: &mut Batch, flow: &Flow) {
    let Some(packet) = out.as_mut_slice().get_mut(flow.at) else {
        return;
    };
    if flow.count < 2 {
        return;
    }
    let Headers {
        network,
        transport,
        payload,
        protocol,
        ipv6,
    } = flow.headers;
    let frame = packet.data_mut();
    let length = frame.len();
    if let Some(ip) = frame.get_mut(network..) {
        if ipv6 {
            if let Some(mut header) = Ipv6Mut::new(ip) {
                header.set_payload_len((length - network - Ipv6::LEN) as u16);
            }
        } else {
            if let Some(mut header) = Ipv4Mut::new(ip) {
                header.set_total_len((length - network) as u16);
            }
            fill_check(ip);
        }
    }
    if protocol == IPPROTO_UDP
        && let Some(field) = frame.get_mut(transport + 4..transport + 6)
    {
        field.copy_from_slice(&((length - transport) as u16).to_be_bytes());
    }
    complete_checksum(frame);
    packet.flags.insert(Flags::CSUM_GOOD);
    let described = packet.set_segments(Some(Segments {
        size: flow.size as u16,
        count: flow.count,
        headers: (payload - network) as u16,
        kind: match (protocol, ipv6) {
            (IPPROTO_UDP, _) => SegmentKind::Udp,
            (_, false) => SegmentKind::TcpV4,
            (_, true) => SegmentKind::TcpV6,
        },
        fixed_id: flow.fixed_id,
    }));
    debug_assert!(described, "a candidate has room in front");
}

#[cfg(test)]
mod tests;

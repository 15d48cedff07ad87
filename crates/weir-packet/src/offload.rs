// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The offloads of a network device in software: checksums (`skb_checksum_help`) and segmentation
//! (`skb_gso_segment`, `tcp_gso_segment`, `__udp_gso_segment`).
//!
//! Frames begin at their Ethernet header and may have up to two VLAN tags. The functions handle TCP and
//! UDP over IPv4 and IPv6.

use crate::checksum::Sum;
use crate::header::ethernet::is_vlan;
use crate::header::ipv4::{IPPROTO_TCP, IPPROTO_UDP, fill_check, whole_header};
use crate::header::ipv6::upper_layer;
use crate::header::transport::{fill_check_v4, fill_check_v6};
use crate::header::{Ethernet, Ipv4, Ipv4Mut, Ipv6, Ipv6Mut, Vlan};
use crate::meta::{SegmentKind, Segments};
use crate::packet::Packet;
use crate::pool::Cache;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_MPLS_UC: u16 = 0x8847;
const ETH_P_MPLS_MC: u16 = 0x8848;
/// Bytes of an MPLS label, and the bit of its third byte that marks the last.
const LABEL: usize = 4;
const BOTTOM: u8 = 1;
/// Bytes of headers for which no memory is allocated: without many extension headers, all.
const SHORT: usize = 256;
/// Bytes of a UDP header.
const UDP: usize = 8;
/// TCP flags that only the last segment keeps: FIN, PSH.
const LAST_ONLY: u8 = 0x09;
/// The TCP flag that only the first segment keeps: CWR.
const FIRST_ONLY: u8 = 0x80;

/// The offsets of a frame's headers, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) network: usize,
    pub(crate) transport: usize,
    pub(crate) payload: usize,
    pub(crate) protocol: u8,
    pub(crate) ipv6: bool,
}

impl Headers {
    /// Returns `None` if the frame has no complete TCP or UDP header or is a fragment.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let mut ethertype = Ethernet::new(frame)?.ethertype();
        let mut network = Ethernet::LEN;
        for _ in 0..2 {
            if is_vlan(ethertype) {
                let tag = frame.get(network..)?.first_chunk::<{ Vlan::LEN }>()?;
                ethertype = u16::from_be_bytes([tag[2], tag[3]]);
                network += Vlan::LEN;
            }
        }
        Self::behind(frame, network, ethertype)
    }

    /// Does the same for a frame with MPLS labels behind the Ethernet header (`mpls_gso_segment`).
    fn labelled(frame: &[u8]) -> Option<Self> {
        let header = Ethernet::new(frame)?;
        if !matches!(header.ethertype(), ETH_P_MPLS_UC | ETH_P_MPLS_MC) {
            return None;
        }
        let labels = frame.get(Ethernet::LEN..)?.chunks_exact(LABEL);
        let count = labels.take_while(|label| label[2] & BOTTOM == 0).count() + 1;
        let network = Ethernet::LEN + count * LABEL;
        let ethertype = match frame.get(network)? >> 4 {
            6 => ETH_P_IPV6,
            _ => ETH_P_IP,
        };
        Self::behind(frame, network, ethertype)
    }

    /// Does the same for a packet's data, which begin at the Ethernet header or at the network header.
    fn of_packet(packet: &Packet) -> Option<Self> {
        let data = packet.data();
        if packet.network_offset() != Some(0) {
            return Self::of(data);
        }
        let ethertype = match data.first()? >> 4 {
            6 => ETH_P_IPV6,
            _ => ETH_P_IP,
        };
        Self::behind(data, 0, ethertype)
    }

    /// Does the same for a frame with its network header at an offset.
    fn behind(frame: &[u8], network: usize, ethertype: u16) -> Option<Self> {
        let packet = frame.get(network..)?;
        let (protocol, offset, ipv6) = match ethertype {
            ETH_P_IP => {
                let header = whole_header(packet)?;
                let ip = Ipv4::new(header).filter(|ip| !ip.is_fragment())?;
                (ip.protocol(), header.len(), false)
            }
            ETH_P_IPV6 => {
                let upper = upper_layer(packet).filter(|upper| upper.fragment.is_none())?;
                (upper.protocol, upper.offset, true)
            }
            _ => return None,
        };
        let transport = network + offset;
        let segment = frame.get(transport..)?;
        let length = match protocol {
            IPPROTO_TCP => usize::from(*segment.get(12)? >> 4) * 4,
            IPPROTO_UDP => UDP,
            _ => return None,
        };
        if protocol == IPPROTO_TCP && length < 20 || segment.len() < length {
            return None;
        }
        Some(Self {
            network,
            transport,
            payload: transport + length,
            protocol,
            ipv6,
        })
    }

    /// Returns the end of the IP packet, behind which a frame may have padding.
    fn end(&self, frame: &[u8]) -> Option<usize> {
        let packet = frame.get(self.network..)?;
        let len = match self.ipv6 {
            true => Ipv6::LEN + usize::from(Ipv6::new(packet)?.payload_len()),
            false => Ipv4::new(packet)?.total_len().into(),
        };
        Some(frame.len().min(self.network + len))
    }

    /// Returns the sum over the pseudo header of a segment of `len` bytes.
    pub(crate) fn pseudo(&self, frame: &[u8], len: usize) -> Option<Sum> {
        let mut sum = Sum::default();
        let packet = frame.get(self.network..)?;
        match self.ipv6 {
            true => {
                let ip = Ipv6::new(packet)?;
                sum.add_pseudo_v6(ip.src(), ip.dst(), self.protocol, len as u32);
            }
            false => {
                let ip = Ipv4::new(packet)?;
                sum.add_pseudo_v4(ip.src(), ip.dst(), self.protocol, len as u16);
            }
        }
        Some(sum)
    }
}

/// Computes and stores the TCP or UDP checksum that the sender of a frame left to the device. Padding
/// after the IP packet does not count. Returns `false` and changes nothing for other frames.
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    let Some(headers) = Headers::of(frame) else {
        return false;
    };
    let end = headers.end(frame).unwrap_or_default();
    let Some((before, segment)) = frame
        .get_mut(..end)
        .and_then(|frame| frame.split_at_mut_checked(headers.transport))
    else {
        return false;
    };
    let packet = before.get(headers.network..).unwrap_or_default();
    match headers.ipv6 {
        true => Ipv6::new(packet)
            .is_some_and(|ip| fill_check_v6(ip.src(), ip.dst(), headers.protocol, segment)),
        false => Ipv4::new(packet)
            .is_some_and(|ip| fill_check_v4(ip.src(), ip.dst(), headers.protocol, segment)),
    }
}

/// Splits a long TCP segment or UDP datagram into frames with at most `size` bytes of payload each.
/// Calls `emit` for each in order, with the headers, whose lengths, sequence numbers and checksums are
/// updated, and the payload. Returns the number of frames, or 0 if the frame cannot be split.
pub fn segment(frame: &[u8], size: usize, emit: impl FnMut(&[u8], &[u8])) -> usize {
    let headers = Headers::of(frame).filter(|_| size > 0);
    headers.map_or(0, |headers| split(frame, headers, size, false, emit))
}

/// Describes a frame with more than `size` bytes of TCP or UDP payload as a long packet with segments of that
/// size. Returns false and changes nothing if the frame is not one that [`segment_packet`] splits, if its transport
/// header, at offset `transport` of the frame, is inside a tunnel, or if its IP length is not its length.
#[must_use]
pub fn describe_segments(packet: &mut Packet, size: usize, transport: usize) -> bool {
    let frame = packet.data();
    let described = || {
        let headers =
            Headers::of_packet(packet).filter(|headers| headers.transport == transport)?;
        let ip = frame.get(headers.network..)?;
        let len = match headers.ipv6 {
            true => Ipv6::LEN + usize::from(Ipv6::new(ip)?.payload_len()),
            false => Ipv4::new(ip)?.total_len().into(),
        };
        let payload = frame.len() - headers.payload;
        if len != ip.len() || size == 0 || payload <= size {
            return None;
        }
        Some(Segments {
            size: u16::try_from(size).ok()?,
            count: u16::try_from(payload.div_ceil(size)).ok()?,
            headers: (headers.payload - headers.network) as u16,
            kind: match (headers.protocol, headers.ipv6) {
                (IPPROTO_UDP, _) => SegmentKind::Udp,
                (_, false) => SegmentKind::TcpV4,
                (_, true) => SegmentKind::TcpV6,
            },
            fixed_id: false,
        })
    };
    let described = described();
    described.is_some() && packet.set_segments(described)
}

/// The transport header of a long packet, for a device that segments and completes checksums itself. Offsets
/// count from the start of the frame, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The transport header.
    pub start: usize,
    /// The checksum.
    pub check: usize,
    /// The payload.
    pub payload: usize,
    /// The sum of the pseudo header, as such a device wants it in place of the checksum.
    pub pseudo: [u8; 2],
    /// The TCP segment has the flag CWR (`SKB_GSO_TCP_ECN`).
    pub reduced: bool,
}

/// Returns where the transport header of a packet with TCP or UDP is. The data begin at the Ethernet header or at the network
/// header.
pub fn transport_of(packet: &Packet) -> Option<Transport> {
    let frame = packet.data();
    let headers = Headers::of_packet(packet)?;
    let len = headers.end(frame)?.checked_sub(headers.transport)?;
    let sum = headers.pseudo(frame, len)?;
    let tcp = headers.protocol == IPPROTO_TCP;
    let flags = frame.get(headers.transport + 13).copied();
    Some(Transport {
        start: headers.transport,
        check: headers.transport + if tcp { 16 } else { 6 },
        payload: headers.payload,
        pseudo: (!sum.finish()).to_be_bytes(),
        reduced: tcp && flags.is_some_and(|flags| flags & FIRST_ONLY != 0),
    })
}

/// Splits a long packet into its segments, which inherit its metadata, and passes each to `emit`
/// (`__skb_gso_segment`). The data begins at the Ethernet header or at the network header. Returns false, having
/// emitted fewer than all segments, if the packet cannot be split or there is no memory.
#[must_use]
pub fn segment_packet(packet: &Packet, memory: &mut Cache, mut emit: impl FnMut(Packet)) -> bool {
    let Some(segments) = packet.segments() else {
        return false;
    };
    let frame = packet.data();
    let network = packet.network_offset() == Some(0);
    let headers = match network {
        true => Headers::of_packet(packet),
        false => Headers::of(frame).or_else(|| Headers::labelled(frame)),
    };
    let Some(headers) = headers.filter(|_| segments.size > 0) else {
        return false;
    };
    let mut whole = true;
    let count = split(
        frame,
        headers,
        segments.size.into(),
        segments.fixed_id,
        |head, part| {
            let segment = memory.alloc(head.len() + part.len());
            match segment.filter(|_| whole) {
                Some(mut segment) => {
                    let (begin, end) = segment.data_mut().split_at_mut(head.len());
                    begin.copy_from_slice(head);
                    end.copy_from_slice(part);
                    packet.describe(&mut segment);
                    emit(segment);
                }
                None => whole = false,
            }
        },
    );
    whole && count > 0
}

fn split(
    frame: &[u8],
    headers: Headers,
    size: usize,
    fixed_id: bool,
    mut emit: impl FnMut(&[u8], &[u8]),
) -> usize {
    let Some((head, payload)) = frame.split_at_checked(headers.payload) else {
        return 0;
    };
    let flags = head
        .get(headers.transport + 13)
        .copied()
        .unwrap_or_default();
    let (mut short, mut long) = ([0; SHORT], Vec::new());
    let space = match short.get_mut(..head.len()) {
        Some(space) => space,
        None => {
            long.resize(head.len(), 0);
            &mut *long
        }
    };
    space.copy_from_slice(head);
    let head = space;
    let count = payload.len().div_ceil(size);
    for (n, part) in payload.chunks(size).enumerate() {
        let mut flags = flags;
        if n > 0 {
            flags &= !FIRST_ONLY;
        }
        if n + 1 < count {
            flags &= !LAST_ONLY;
        }
        let step = if n == 0 { 0 } else { size as u32 };
        let grows = u16::from(n > 0 && !fixed_id);
        let Some(()) = rewrite(head, &headers, part, (step, flags, grows)) else {
            return n;
        };
        emit(head, part);
    }
    count
}

/// Turns the headers of one segment into those of the next one, whose payload `part` begins `step` bytes
/// later, whose TCP flags are `flags` and whose identification is greater by `grows`.
fn rewrite(
    head: &mut [u8],
    headers: &Headers,
    part: &[u8],
    (step, flags, grows): (u32, u8, u16),
) -> Option<()> {
    let length = headers.payload - headers.transport + part.len();
    let packet = head.get_mut(headers.network..)?;
    match headers.ipv6 {
        true => {
            let extensions = headers.transport - headers.network - Ipv6::LEN;
            Ipv6Mut::new(packet)?.set_payload_len((extensions + length) as u16);
        }
        false => {
            let total = headers.transport - headers.network + length;
            let id = Ipv4::new(packet)?.id().wrapping_add(grows);
            Ipv4Mut::new(packet)?.set_total_len(total as u16).set_id(id);
            fill_check(packet);
        }
    }
    let transport = head.get_mut(headers.transport..)?;
    let check = match headers.protocol {
        IPPROTO_TCP => {
            let sequence = transport.get_mut(4..8)?.first_chunk_mut::<4>()?;
            *sequence = u32::from_be_bytes(*sequence)
                .wrapping_add(step)
                .to_be_bytes();
            *transport.get_mut(13)? = flags;
            16
        }
        _ => {
            transport
                .get_mut(4..6)?
                .copy_from_slice(&(length as u16).to_be_bytes());
            6
        }
    };
    transport.get_mut(check..check + 2)?.fill(0);
    let mut sum = headers.pseudo(head, length)?;
    sum.add(head.get(headers.transport..)?).add(part);
    let value = match headers.protocol {
        IPPROTO_UDP => sum.finish_udp(),
        _ => sum.finish(),
    };
    let transport = head.get_mut(headers.transport..)?;
    transport
        .get_mut(check..check + 2)?
        .copy_from_slice(&value.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests;

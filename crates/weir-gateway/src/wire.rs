// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames: reading those of the namespace, and writing those of the gateway.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::{checksum, transport_v4, transport_v6, verify, verify_v4, verify_v6};
use weir_packet::header::ipv6::upper_layer;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const ETH_P_IP: u16 = 0x0800;
const ETH_P_ARP: u16 = 0x0806;
const ETH_P_IPV6: u16 = 0x86dd;
/// Protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;
/// The hop limit of the gateway's packets (`ip_default_ttl`).
const HOPS: u8 = 64;
/// The most bytes of a packet that an ICMP error returns, so that the error fits into the smallest MTU of IPv4 (RFC 1812,
/// 4.3.2.3) and of IPv6 (RFC 4443, 2.4).
const QUOTE_V4: usize = 576 - IPV4 - 8;
const QUOTE_V6: usize = MTU_V6 - IPV6 - 8;
/// The MTU that every path of IPv6 has (RFC 8200, 5).
const MTU_V6: usize = 1280;
/// The gateway's Ethernet address: locally administered, then `weir`.
pub const MAC: [u8; 6] = [0x02, 0x00, b'w', b'e', b'i', b'r'];

/// A frame, and what stands beside its bytes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes from the Ethernet header on.
    pub data: Vec<u8>,
    /// Bytes of payload of each TCP segment, if the frame stands for several; otherwise 0.
    pub segment: u16,
    /// The checksum above IP is known to be right or need not be there.
    pub checked: bool,
}

/// An IP packet for the gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub hops: u8,
    /// The type of service or the traffic class.
    pub tos: u8,
    /// The upper-layer header and what follows.
    pub payload: &'a [u8],
    /// All of it, for ICMP errors.
    pub whole: &'a [u8],
}

/// A fragment of an IP packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub id: u32,
    pub protocol: u8,
    pub hops: u8,
    pub tos: u8,
    /// Where the data belong in the packet, in bytes.
    pub offset: usize,
    pub more: bool,
    pub data: &'a [u8],
}

/// What a frame contains.
#[derive(Debug)]
pub(crate) enum Input<'a> {
    /// A request for the Ethernet address of `target`, from the owner of `sender`.
    Arp {
        target: Ipv4Addr,
        sender: Ipv4Addr,
        mac: [u8; 6],
    },
    Packet(Packet<'a>),
    Fragment(Fragment<'a>),
    /// Something that is not for the gateway.
    Other,
    /// Cut short, or with a wrong checksum.
    Malformed,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..at + 2)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

fn v4(bytes: &[u8], at: usize) -> Ipv4Addr {
    be32(bytes, at).into()
}

fn v6(bytes: &[u8], at: usize) -> Ipv6Addr {
    let bytes: [u8; 16] = bytes
        .get(at..at + 16)
        .and_then(|b| b.try_into().ok())
        .unwrap_or_default();
    bytes.into()
}

/// The Ethernet address of a frame's sender.
pub(crate) fn sender(frame: &[u8]) -> Option<[u8; 6]> {
    frame.get(6..12)?.try_into().ok()
}

/// Reads a frame. `checked`: the checksum above IP need not be verified.
pub(crate) fn read(frame: &[u8], checked: bool) -> Input<'_> {
    let Some(packet) = frame.get(ETHERNET..) else {
        return Input::Malformed;
    };
    match be16(frame, 12) {
        ETH_P_ARP => arp(packet),
        ETH_P_IP => ipv4(packet, checked).unwrap_or(Input::Malformed),
        ETH_P_IPV6 => ipv6(packet, checked).unwrap_or(Input::Malformed),
        _ => Input::Other,
    }
}

fn arp(packet: &[u8]) -> Input<'_> {
    let Some(packet) = packet.get(..28) else {
        return Input::Malformed;
    };
    // Ethernet and IPv4, a request.
    if packet[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return Input::Other;
    }
    let mut mac = [0; 6];
    mac.copy_from_slice(&packet[8..14]);
    Input::Arp {
        target: v4(packet, 24),
        sender: v4(packet, 14),
        mac,
    }
}

fn ipv4(packet: &[u8], checked: bool) -> Option<Input<'_>> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    let length = usize::from(be16(packet, 2));
    if first >> 4 != 4 || header < IPV4 || length < header || !verify(packet.get(..header)?) {
        return None;
    }
    let whole = packet.get(..length)?;
    let payload = &whole[header..];
    let (src, dst, protocol, hops, tos) =
        (v4(whole, 12), v4(whole, 16), whole[9], whole[8], whole[1]);
    let place = be16(whole, 6);
    if place & 0x3fff != 0 {
        return Some(Input::Fragment(Fragment {
            src: src.into(),
            dst: dst.into(),
            id: be16(whole, 4).into(),
            protocol,
            hops,
            tos,
            offset: usize::from(place & 0x1fff) * 8,
            more: place & 0x2000 != 0,
            data: payload,
        }));
    }
    let right = match protocol {
        TCP | UDP => checked || verify_v4(src.octets(), dst.octets(), protocol, payload),
        ICMP => verify(payload),
        _ => true,
    };
    right.then_some(Input::Packet(Packet {
        src: src.into(),
        dst: dst.into(),
        protocol,
        hops,
        tos,
        payload,
        whole,
    }))
}

fn ipv6(packet: &[u8], checked: bool) -> Option<Input<'_>> {
    let header = packet.get(..IPV6)?;
    let length = IPV6 + usize::from(be16(header, 4));
    if header[0] >> 4 != 6 {
        return None;
    }
    let whole = packet.get(..length)?;
    let upper = upper_layer(whole)?;
    let (src, dst, hops) = (v6(header, 8), v6(header, 24), header[7]);
    let tos = (be16(header, 0) >> 4) as u8;
    if let Some(at) = upper.fragment {
        let fragment = whole.get(at..at + 8)?;
        let place = be16(fragment, 2);
        return Some(Input::Fragment(Fragment {
            src: src.into(),
            dst: dst.into(),
            id: be32(fragment, 4),
            // Headers behind the fragment header are not served.
            protocol: fragment[0],
            hops,
            tos,
            offset: usize::from(place & 0xfff8),
            more: place & 1 != 0,
            data: whole.get(at + 8..)?,
        }));
    }
    let payload = whole.get(upper.offset..)?;
    let protocol = upper.protocol;
    let right = match protocol {
        TCP | UDP => checked || verify_v6(src.octets(), dst.octets(), protocol, payload),
        ICMPV6 => verify_v6(src.octets(), dst.octets(), protocol, payload),
        _ => true,
    };
    right.then_some(Input::Packet(Packet {
        src: src.into(),
        dst: dst.into(),
        protocol,
        hops,
        tos,
        payload,
        whole,
    }))
}

/// Returns whether the checksum of a reassembled packet is right.
pub(crate) fn verify_upper(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> bool {
    match (src, dst, protocol) {
        (IpAddr::V4(src), IpAddr::V4(dst), TCP | UDP) => {
            verify_v4(src.octets(), dst.octets(), protocol, payload)
        }
        (IpAddr::V4(_), IpAddr::V4(_), ICMP) => verify(payload),
        (IpAddr::V6(src), IpAddr::V6(dst), TCP | UDP | ICMPV6) => {
            verify_v6(src.octets(), dst.octets(), protocol, payload)
        }
        _ => true,
    }
}

/// Where the checksum of a protocol is in its header.
fn check_offset(protocol: u8) -> usize {
    match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    }
}

/// Reasons of ICMP errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreachable {
    Net,
    Host,
    Port,
    Prohibited,
    /// Time exceeded: the packet has passed too many routers.
    Hops,
}

impl Unreachable {
    /// Type and code in ICMP.
    fn v4(self) -> [u8; 2] {
        match self {
            Self::Net => [3, 0],
            Self::Host => [3, 1],
            Self::Port => [3, 3],
            Self::Prohibited => [3, 13],
            Self::Hops => [11, 0],
        }
    }

    /// Type and code in ICMPv6.
    fn v6(self) -> [u8; 2] {
        match self {
            Self::Net => [1, 0],
            Self::Host => [1, 3],
            Self::Port => [1, 4],
            Self::Prohibited => [1, 1],
            Self::Hops => [3, 0],
        }
    }
}

/// Frames on their way to the namespace.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub frames: VecDeque<Frame>,
    pub bytes: usize,
    /// Buffers of frames that have gone.
    spare: Vec<Vec<u8>>,
    /// The Ethernet address of the namespace's device.
    pub mac: [u8; 6],
    mtu: usize,
    /// The identification of the next fragmented packet.
    id: u32,
    /// Frames for which there was no room.
    pub lost: u64,
}

/// The most bytes that wait.
const LIMIT: usize = 8 << 20;
/// The most buffers that are kept, and the largest.
const SPARE: usize = 256;

impl Outbox {
    pub(crate) fn new(mac: [u8; 6], mtu: u32) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            mac,
            mtu: mtu as usize,
            id: 1,
            lost: 0,
        }
    }

    /// Takes the oldest frame.
    pub(crate) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.data.len();
        Some(frame)
    }

    /// Gets back the buffer of a frame.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Returns whether a frame would be lost.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= LIMIT
    }

    fn push(&mut self, data: Vec<u8>, segment: u16) {
        if self.is_full() {
            self.lost += 1;
            return self.recycle(data);
        }
        self.bytes += data.len();
        self.frames.push_back(Frame {
            data,
            segment,
            checked: true,
        });
    }

    fn start(&mut self, to: [u8; 6], ethertype: u16) -> Vec<u8> {
        let mut data = self.spare.pop().unwrap_or_default();
        data.extend(to);
        data.extend(MAC);
        data.extend(ethertype.to_be_bytes());
        data
    }

    /// Answers a request for an Ethernet address.
    pub(crate) fn arp_reply(&mut self, target: Ipv4Addr, sender: Ipv4Addr, mac: [u8; 6]) {
        let mut data = self.start(mac, ETH_P_ARP);
        data.extend([0, 1, 8, 0, 6, 4, 0, 2]);
        data.extend(MAC);
        data.extend(target.octets());
        data.extend(mac);
        data.extend(sender.octets());
        self.push(data, 0);
    }

    /// Sends a packet. `fill` appends the upper-layer header, with a checksum of 0, and the data. `segment`: the payload of
    /// each TCP segment that the packet stands for, or 0. A packet longer than the MTU is fragmented.
    pub(crate) fn packet(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        segment: u16,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        self.packet_with_hops(src, dst, protocol, segment, HOPS, fill);
    }

    fn packet_with_hops(
        &mut self,
        src: IpAddr,
        dst: IpAddr,
        protocol: u8,
        segment: u16,
        hops: u8,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        let mac = self.mac;
        let (mut data, header) = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut data = self.start(mac, ETH_P_IP);
                // A datagram may be fragmented on its way; a segment of TCP may not.
                let flags = if protocol == TCP { 0x40 } else { 0 };
                data.extend([0x45, 0, 0, 0, 0, 0, flags, 0, hops, protocol, 0, 0]);
                data.extend(src.octets());
                data.extend(dst.octets());
                (data, IPV4)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut data = self.start(mac, ETH_P_IPV6);
                data.extend([0x60, 0, 0, 0, 0, 0, protocol, hops]);
                data.extend(src.octets());
                data.extend(dst.octets());
                (data, IPV6)
            }
            _ => return,
        };
        fill(&mut data);
        let payload = ETHERNET + header;
        let length = data.len() - payload;
        if length + header > usize::from(u16::MAX) {
            self.lost += 1;
            return self.recycle(data);
        }
        let upper = &data[payload..];
        let check = match (src, dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if protocol == ICMP => checksum(upper),
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                transport_v4(src.octets(), dst.octets(), protocol, upper)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                transport_v6(src.octets(), dst.octets(), protocol, upper)
            }
            _ => 0,
        };
        let at = payload + check_offset(protocol);
        if let Some(place) = data.get_mut(at..at + 2) {
            place.copy_from_slice(&check.to_be_bytes());
        }
        // A router on the way could not fragment a datagram of IPv6, so it leaves in pieces that pass everywhere.
        let most = match header {
            IPV6 if protocol != TCP => self.mtu.min(MTU_V6),
            _ => self.mtu,
        };
        if segment == 0 && length + header > most {
            self.fragments(&data, header, protocol, most);
            return self.recycle(data);
        }
        finish(&mut data, header);
        self.push(data, segment);
    }

    /// Sends the fragments of a packet (RFC 791, 3.2; RFC 8200, 4.5).
    fn fragments(&mut self, whole: &[u8], header: usize, protocol: u8, mtu: usize) {
        let (head, payload) = whole.split_at(ETHERNET + header);
        let is_v6 = header == IPV6;
        let extra = if is_v6 { 8 } else { 0 };
        let room = (mtu - header - extra) & !7;
        let id = self.id;
        self.id = self.id.wrapping_add(1).max(1);
        for (number, part) in payload.chunks(room).enumerate() {
            let offset = number * room;
            let more = offset + part.len() < payload.len();
            let mut data = self.spare.pop().unwrap_or_default();
            data.extend(head);
            if is_v6 {
                data[ETHERNET + 6] = FRAGMENT;
                let place = offset as u16 | u16::from(more);
                data.extend([protocol, 0]);
                data.extend(place.to_be_bytes());
                data.extend(id.to_be_bytes());
            } else {
                let place = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
                data[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&(id as u16).to_be_bytes());
                data[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&place.to_be_bytes());
            }
            data.extend(part);
            finish(&mut data, header);
            self.push(data, 0);
        }
    }

    /// Answers a packet, of which `whole` are the IP header and what follows, with an ICMP error from `from`.
    pub(crate) fn unreachable(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        reason: Unreachable,
        whole: &[u8],
    ) {
        let (protocol, kind, most) = match from {
            IpAddr::V4(_) => (ICMP, reason.v4(), QUOTE_V4),
            IpAddr::V6(_) => (ICMPV6, reason.v6(), QUOTE_V6),
        };
        let quote = whole.get(..most).unwrap_or(whole);
        self.packet(from, to, protocol, 0, |data| {
            data.extend(kind);
            data.extend([0; 6]);
            data.extend(quote);
        });
    }

    /// Answers an echo request with its own identifier, sequence number and data (`rest`).
    pub(crate) fn echo_reply(&mut self, from: IpAddr, to: IpAddr, rest: &[u8]) {
        let (protocol, kind) = match from {
            IpAddr::V4(_) => (ICMP, 0),
            IpAddr::V6(_) => (ICMPV6, 129),
        };
        self.packet(from, to, protocol, 0, |data| {
            data.extend([kind, 0, 0, 0]);
            data.extend(rest);
        });
    }

    /// Answers a neighbour solicitation (RFC 4861, 4.4): solicited, override, with the target's link-layer address. Only
    /// the highest hop limit is valid.
    pub(crate) fn advertisement(&mut self, target: Ipv6Addr, to: Ipv6Addr) {
        self.packet_with_hops(target.into(), to.into(), ICMPV6, 0, 255, |data| {
            data.extend([136, 0, 0, 0, 0x60, 0, 0, 0]);
            data.extend(target.octets());
            data.extend([2, 1]);
            data.extend(MAC);
        });
    }
}

/// Writes the packet that was reassembled, for an ICMP error.
pub(crate) fn rebuild(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Outbox::new(MAC, u32::from(u16::MAX));
    out.packet(src, dst, protocol, 0, |data| data.extend(payload));
    out.pop().map_or_else(Vec::new, |frame| {
        frame.data.get(ETHERNET..).unwrap_or_default().to_vec()
    })
}

/// Writes the length and the checksum of an IP header.
fn finish(data: &mut [u8], header: usize) {
    let length = data.len() - ETHERNET;
    let ip = &mut data[ETHERNET..];
    if header == IPV6 {
        ip[4..6].copy_from_slice(&((length - IPV6) as u16).to_be_bytes());
        return;
    }
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    let check = checksum(&ip[..IPV4]);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn addresses(v6: bool) -> (IpAddr, IpAddr) {
        match v6 {
            false => (
                Ipv4Addr::new(192, 0, 2, 1).into(),
                Ipv4Addr::new(10, 0, 2, 15).into(),
            ),
            true => ("2001:db8::1".parse().unwrap(), "fd00::15".parse().unwrap()),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for v6 in [false, true] {
            let (src, dst) = addresses(v6);
            let mut out = Outbox::new(IN, 1500);
            out.packet(src, dst, UDP, 0, |data| {
                data.extend([0, 53, 1, 2, 0, 12, 0, 0, b'd', b'a', b't', b'a'])
            });
            let frame = out.pop().unwrap();
            assert_eq!(
                (&frame.data[..6], sender(&frame.data)),
                (&IN[..], Some(MAC))
            );
            let Input::Packet(packet) = read(&frame.data, false) else {
                panic!("a packet");
            };
            assert_eq!((packet.src, packet.dst, packet.protocol), (src, dst, UDP));
            assert_eq!(&packet.payload[8..], b"data");
            let mut wrong = frame.data.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert!(matches!(read(&wrong, false), Input::Malformed));
            assert!(matches!(read(&wrong, true), Input::Packet(_)));
            for cut in 0..frame.data.len() {
                assert!(matches!(
                    read(&frame.data[..cut], true),
                    Input::Malformed | Input::Other
                ));
            }
        }
    }

    #[test]
    fn a_long_datagram_leaves_in_fragments_that_fit() {
        for v6 in [false, true] {
            let (src, dst) = addresses(v6);
            let mut out = Outbox::new(IN, 1500);
            let datagram: Vec<u8> = (0..4000_u32).map(|n| n as u8).collect();
            out.packet(src, dst, UDP, 0, |data| data.extend(&datagram));
            let mut next = 0;
            let mut all: Vec<u8> = Vec::new();
            while let Some(frame) = out.pop() {
                assert!(frame.data.len() <= 1514);
                let Input::Fragment(fragment) = read(&frame.data, false) else {
                    panic!("a fragment");
                };
                assert_eq!((fragment.src, fragment.offset), (src, next));
                next += fragment.data.len();
                assert_eq!(fragment.more, next < datagram.len());
                all.extend(fragment.data);
            }
            assert_eq!(all.len(), datagram.len());
            assert_eq!(all[8..], datagram[8..]);
        }
    }
}

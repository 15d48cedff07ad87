// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames: reading those of the namespace, and writing those of the gateway.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::checksum::{verify, verify_v4, verify_v6};
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, ethernet};
use weir_packet::header::icmp::{self, ICMP_ECHOREPLY, ICMPV6_ECHO_REPLY, QUOTE_V4, QUOTE_V6};
use weir_packet::header::ipv4::{IP_DF, IP_MF, ipv4, whole_header};
use weir_packet::header::ipv6::{FragmentMut, NEXTHDR_FRAGMENT, ipv6, upper_layer};
use weir_packet::header::ndisc::{self, NA_OVERRIDE, NA_SOLICITED};
use weir_packet::header::{Arp, Ethernet, Ipv4, Ipv6, ipv6 as header6, transport};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = Ethernet::LEN;
/// Protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
/// The hop limit of the gateway's packets (`ip_default_ttl`).
const HOPS: u8 = 64;
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

/// The Ethernet address of a frame's sender.
pub(crate) fn sender(frame: &[u8]) -> Option<[u8; 6]> {
    Ethernet::new(frame).map(|header| header.src())
}

/// Reads a frame. `checked`: the checksum above IP need not be verified.
pub(crate) fn read(frame: &[u8], checked: bool) -> Input<'_> {
    let (Some(header), Some(packet)) = (Ethernet::new(frame), frame.get(ETHERNET..)) else {
        return Input::Malformed;
    };
    match header.ethertype() {
        ETH_P_ARP => read_arp(packet),
        ETH_P_IP => read_v4(packet, checked).unwrap_or(Input::Malformed),
        ETH_P_IPV6 => read_v6(packet, checked).unwrap_or(Input::Malformed),
        _ => Input::Other,
    }
}

/// Reads a packet that was put together.
pub(crate) fn read_whole(packet: &[u8]) -> Input<'_> {
    let read = match packet.first().map(|first| first >> 4) {
        Some(4) => read_v4(packet, false),
        _ => read_v6(packet, false),
    };
    read.unwrap_or(Input::Malformed)
}

fn read_arp(packet: &[u8]) -> Input<'_> {
    match Arp::new(packet) {
        None => Input::Malformed,
        Some(arp) if arp.is_ethernet_ipv4() && arp.op() == ARPOP_REQUEST => Input::Arp {
            target: arp.tip().into(),
            sender: arp.sip().into(),
            mac: arp.sha(),
        },
        Some(_) => Input::Other,
    }
}

fn read_v4(packet: &[u8], checked: bool) -> Option<Input<'_>> {
    let header = whole_header(packet).filter(|header| verify(header))?;
    let ip = Ipv4::new(header)?;
    let whole = packet.get(..ip.total_len().into())?;
    let payload = whole.get(header.len()..)?;
    let (src, dst, protocol) = (ip.src(), ip.dst(), ip.protocol());
    if ip.is_fragment() {
        return Some(Input::Fragment(Fragment {
            src: src.into(),
            dst: dst.into(),
            id: ip.id().into(),
            protocol,
            hops: ip.ttl(),
            tos: ip.tos(),
            offset: ip.fragment_offset(),
            more: ip.more_fragments(),
            data: payload,
        }));
    }
    let right = match protocol {
        TCP | UDP => checked || verify_v4(src, dst, protocol, payload),
        ICMP => verify(payload),
        _ => true,
    };
    right.then_some(Input::Packet(Packet {
        src: src.into(),
        dst: dst.into(),
        protocol,
        hops: ip.ttl(),
        tos: ip.tos(),
        payload,
        whole,
    }))
}

fn read_v6(packet: &[u8], checked: bool) -> Option<Input<'_>> {
    let ip = Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
    let whole = packet.get(..Ipv6::LEN + usize::from(ip.payload_len()))?;
    let upper = upper_layer(whole)?;
    let (src, dst) = (ip.src(), ip.dst());
    if let Some(at) = upper.fragment {
        let rest = whole.get(at..)?;
        let fragment = header6::Fragment::new(rest)?;
        return Some(Input::Fragment(Fragment {
            src: src.into(),
            dst: dst.into(),
            id: fragment.id(),
            // Headers behind the fragment header are not served.
            protocol: fragment.next_header(),
            hops: ip.hop_limit(),
            tos: ip.traffic_class(),
            offset: fragment.offset(),
            more: fragment.more(),
            data: rest.get(header6::Fragment::LEN..)?,
        }));
    }
    let payload = whole.get(upper.offset..)?;
    let protocol = upper.protocol;
    let right = match protocol {
        TCP | UDP => checked || verify_v6(src, dst, protocol, payload),
        ICMPV6 => verify_v6(src, dst, protocol, payload),
        _ => true,
    };
    right.then_some(Input::Packet(Packet {
        src: src.into(),
        dst: dst.into(),
        protocol,
        hops: ip.hop_limit(),
        tos: ip.traffic_class(),
        payload,
        whole,
    }))
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
    frames: VecDeque<Frame>,
    bytes: usize,
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

    /// The bytes of frames that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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

    fn push(&mut self, data: Vec<u8>, segment: u16) {
        if self.bytes >= LIMIT {
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
        data.extend(ethernet(to, MAC, ethertype));
        data
    }

    /// Answers a request for an Ethernet address.
    pub(crate) fn arp_reply(&mut self, target: Ipv4Addr, sender: Ipv4Addr, mac: [u8; 6]) {
        let mut data = self.start(mac, ETH_P_ARP);
        data.extend(arp(ARPOP_REPLY, MAC, target.octets(), mac, sender.octets()));
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
        let (ethertype, header) = match src {
            IpAddr::V4(_) => (ETH_P_IP, Ipv4::LEN),
            IpAddr::V6(_) => (ETH_P_IPV6, Ipv6::LEN),
        };
        let mut data = self.start(self.mac, ethertype);
        // The length of what follows is not known yet.
        data.resize(ETHERNET + header, 0);
        fill(&mut data);
        let (head, upper) = data.split_at_mut(ETHERNET + header);
        let length = upper.len();
        if header + length > usize::from(u16::MAX) {
            self.lost += 1;
            return self.recycle(data);
        }
        match (src, dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if protocol == ICMP => icmp::fill_check_v4(upper),
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                transport::fill_check_v4(src.octets(), dst.octets(), protocol, upper)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                transport::fill_check_v6(src.octets(), dst.octets(), protocol, upper)
            }
            _ => return,
        };
        // A router on the way could not fragment a datagram of IPv6, so it leaves in pieces that pass everywhere.
        let most = match src {
            IpAddr::V6(_) if protocol != TCP => self.mtu.min(MTU_V6),
            _ => self.mtu,
        };
        if segment == 0 && header + length > most {
            self.fragments(src, dst, protocol, upper, most);
            return self.recycle(data);
        }
        // A datagram may be fragmented on its way; a segment of TCP may not.
        let place = if protocol == TCP { IP_DF } else { 0 };
        let ip = head.get_mut(ETHERNET..).unwrap_or_default();
        put_ip(ip, (src, dst), protocol, hops, 0, place, length);
        self.push(data, segment);
    }

    /// Sends the fragments of a packet, of which `payload` is what follows the IP header (RFC 791, 3.2; RFC 8200, 4.5).
    fn fragments(&mut self, src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8], mtu: usize) {
        let (ethertype, header, extra, next) = match src {
            IpAddr::V4(_) => (ETH_P_IP, Ipv4::LEN, 0, protocol),
            IpAddr::V6(_) => {
                let extra = header6::Fragment::LEN;
                (ETH_P_IPV6, Ipv6::LEN, extra, NEXTHDR_FRAGMENT)
            }
        };
        let room = (mtu - header - extra) & !7;
        let id = self.id;
        self.id = self.id.wrapping_add(1).max(1);
        for (number, part) in payload.chunks(room).enumerate() {
            let offset = number * room;
            let more = offset + part.len() < payload.len();
            let mut data = self.start(self.mac, ethertype);
            data.resize(ETHERNET + header + extra, 0);
            let (ip, rest) = data
                .get_mut(ETHERNET..)
                .unwrap_or_default()
                .split_at_mut(header);
            let place = (offset / 8) as u16 | if more { IP_MF } else { 0 };
            let length = extra + part.len();
            put_ip(ip, (src, dst), next, HOPS, id as u16, place, length);
            // There is one in IPv6 only.
            if let Some(mut header) = FragmentMut::new(rest) {
                header
                    .set_next_header(protocol)
                    .set_frag_off(offset as u16 | u16::from(more))
                    .set_id(id);
            }
            data.extend(part);
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
        let (protocol, [kind, code], most) = match from {
            IpAddr::V4(_) => (ICMP, reason.v4(), QUOTE_V4),
            IpAddr::V6(_) => (ICMPV6, reason.v6(), QUOTE_V6),
        };
        let quote = whole.get(..most).unwrap_or(whole);
        self.packet(from, to, protocol, 0, |data| {
            data.extend(icmp::icmp(kind, code, 0));
            data.extend(quote);
        });
    }

    /// Answers an echo request with its own identifier, sequence number and data (`rest`).
    pub(crate) fn echo_reply(&mut self, from: IpAddr, to: IpAddr, rest: &[u8]) {
        let (protocol, kind) = match from {
            IpAddr::V4(_) => (ICMP, ICMP_ECHOREPLY),
            IpAddr::V6(_) => (ICMPV6, ICMPV6_ECHO_REPLY),
        };
        self.packet(from, to, protocol, 0, |data| {
            data.extend([kind, 0, 0, 0]);
            data.extend(rest);
        });
    }

    /// Answers a neighbour solicitation (RFC 4861, 4.4): solicited, override, with the target's link-layer address. Only
    /// the highest hop limit is valid.
    pub(crate) fn advertisement(&mut self, target: Ipv6Addr, to: Ipv6Addr) {
        let (source, flags) = (target.octets(), NA_SOLICITED | NA_OVERRIDE);
        let message = ndisc::advertisement(source, to.octets(), flags, source, Some(MAC));
        self.packet_with_hops(target.into(), to.into(), ICMPV6, 0, 255, |data| {
            data.extend_from_slice(&message);
        });
    }
}

/// Writes the header of a packet between `ends` with `length` bytes behind it. `id` and `place`, the flags and the offset of
/// a fragment, are those of IPv4.
fn put_ip(
    out: &mut [u8],
    ends: (IpAddr, IpAddr),
    protocol: u8,
    hops: u8,
    id: u16,
    place: u16,
    length: usize,
) {
    match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (src, dst) = (src.octets(), dst.octets());
            let header = ipv4(src, dst, protocol, hops, 0, id, place, length);
            out.copy_from_slice(&header);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6(src.octets(), dst.octets(), protocol, hops, 0, 0, length);
            out.copy_from_slice(&header);
        }
        // No packet has ends of both families.
        _ => {}
    }
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

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of segments out (`ip_queue_xmit`, `inet6_csk_xmit`). Segments are collected while the connection is locked,
//! and sent after that.

use std::cell::Cell;
use std::net::IpAddr;

use weir_inet::mib::{Count, Tcp as Mib};
use weir_inet::{ipv4, ipv6};
use weir_netlink::errno;
use weir_packet::header::Ipv6;
use weir_packet::header::transport::{fill_check_v4, fill_check_v6};
use weir_packet::meta::{SegmentKind, Segments};
use weir_tcp::{Header, Output, Path, Segment};

use super::signature::Key;
use super::tuple::Tuple;
use crate::abi::{IPPROTO_TCP, pmtudisc};
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::options::Options;

const PROTOCOL: u8 = IPPROTO_TCP as u8;
/// The ECN codepoint ECT(0).
const ECT: u8 = 2;

/// What of the socket's options decides about its packets.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The device that the socket is bound to, or 0.
    pub device: u32,
    tos: u8,
    class: u8,
    ttl: i32,
    hops: i32,
    mark: u32,
    priority: u32,
    transparent: bool,
    on_link: bool,
    discover: u8,
    uc_device: u32,
    uc_device6: u32,
}

impl Choice {
    /// Takes them from a socket's options.
    pub fn of(options: &Options, device: u32) -> Self {
        Self {
            device,
            tos: options.tos & !3,
            class: options.tclass & !3,
            ttl: options.ttl,
            hops: options.hops,
            mark: options.mark,
            priority: options.priority,
            transparent: options.transparent,
            on_link: options.dontroute,
            discover: options.pmtudisc,
            uc_device: options.uc_device,
            uc_device6: options.uc_device6,
        }
    }

    fn wish_v4(
        &self,
        dst: std::net::Ipv4Addr,
        src: Option<std::net::Ipv4Addr>,
        ports: (u16, u16),
    ) -> ipv4::egress::Wish {
        ipv4::egress::Wish {
            dst,
            src,
            oif: match self.device {
                0 => self.uc_device,
                device => device,
            },
            tos: self.tos,
            mark: self.mark,
            protocol: PROTOCOL,
            ports,
            any_source: self.transparent,
            on_link: self.on_link,
        }
    }

    fn wish_v6(
        &self,
        dst: std::net::Ipv6Addr,
        src: Option<std::net::Ipv6Addr>,
        ports: (u16, u16),
    ) -> ipv6::egress::Wish {
        ipv6::egress::Wish {
            dst,
            src,
            oif: match self.device {
                0 => self.uc_device6,
                device => device,
            },
            mark: self.mark,
            protocol: PROTOCOL,
            ports,
        }
    }

    /// Finds the way to a peer. Returns the source address and the path.
    ///
    /// # Errors
    /// Those of the route; ENETUNREACH for groups and broadcasts.
    pub fn path(
        &self,
        cx: &Cx<'_>,
        ns: &Namespace,
        src: Option<IpAddr>,
        remote: IpAddr,
        ports: (u16, u16),
    ) -> Result<(IpAddr, Path), i32> {
        match remote {
            IpAddr::V4(dst) => {
                let src = match src {
                    Some(IpAddr::V4(src)) => Some(src),
                    _ => None,
                };
                let way = ipv4::egress::find(ns, &self.wish_v4(dst, src, ports), cx.guard)?;
                if !matches!(
                    way.kind,
                    weir_netlink::rta::rtn::UNICAST | weir_netlink::rta::rtn::LOCAL
                ) {
                    return Err(errno::ENETUNREACH);
                }
                let path = Path {
                    paced: paces(way.hop.device),
                    metrics: known(ns, way.src.into(), remote),
                    ..Path::ipv4(way.hop.mtu)
                };
                Ok((way.src.into(), path))
            }
            IpAddr::V6(dst) => {
                if dst.is_multicast() {
                    return Err(errno::ENETUNREACH);
                }
                let src = match src {
                    Some(IpAddr::V6(src)) => Some(src),
                    _ => None,
                };
                let way = ipv6::egress::find(ns, &self.wish_v6(dst, src, ports), cx.guard)?;
                let mtu = way.route.mtu().min(65575);
                let path = Path {
                    paced: paces(way.route.device),
                    metrics: known(ns, way.src.into(), remote),
                    ..Path::ipv6(mtu)
                };
                Ok((way.src.into(), path))
            }
        }
    }
}

/// What earlier connections have learned about a peer.
fn known(ns: &Namespace, local: IpAddr, remote: IpAddr) -> weir_tcp::Metrics {
    let entry = crate::ports::tables(ns)
        .tcp_connections
        .metrics()
        .get(local, remote);
    entry.map(|entry| entry.values).unwrap_or_default()
}

/// Whether flows through a device are paced: its root qdisc is `fq` when the connection begins. Linux's `fq` paces the
/// packets of a socket; here the connection itself sends them at that rate.
fn paces(device: &Device) -> bool {
    device.tc.root_kind() == "fq"
}

/// A segment in an outbox.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Where it ends.
    at: usize,
    /// The length of its header.
    header: usize,
    /// The data of each packet.
    size: u16,
    /// Its packet is ECN-capable.
    ecn: bool,
}

/// Segments to send.
#[derive(Debug)]
pub struct Outbox {
    tuple: Tuple,
    buffers: Buffers,
    resets: u64,
}

/// The bytes of segments, and where each ends.
#[derive(Debug, Default)]
struct Buffers {
    bytes: Vec<u8>,
    ends: Vec<End>,
}

thread_local! {
    /// The buffers of the last outbox: an ACK costs no allocation.
    static SPARE: Cell<Buffers> = const { Cell::new(Buffers { bytes: Vec::new(), ends: Vec::new() }) };
}

impl Outbox {
    /// An empty one for a connection.
    pub fn new(tuple: Tuple) -> Self {
        Self {
            tuple,
            buffers: SPARE.take(),
            resets: 0,
        }
    }

    /// Adds a header without data.
    pub fn header(&mut self, header: Header) {
        self.send(&Segment {
            header,
            data: [&[], &[]],
            mss: u16::MAX,
            ecn_capable: false,
        });
    }

    /// The peer.
    pub fn remote(&self) -> IpAddr {
        self.tuple.remote
    }

    /// Signs the segments that have room for a signature.
    pub fn sign(&mut self, key: &Key) {
        let mut start = 0;
        let Buffers { bytes, ends } = &mut self.buffers;
        for end in &*ends {
            // The option comes first.
            if let Some(segment) = bytes.get_mut(start..end.at)
                && segment.get(20..24) == Some(&[1, 1, 19, 18])
            {
                key.sign(self.tuple.local, self.tuple.remote, end.header, segment);
            }
            start = end.at;
        }
    }

    /// Sends all.
    pub fn flush(mut self, cx: &mut Cx<'_>, ns: &Namespace, choice: &Choice) {
        if self.buffers.ends.is_empty() {
            return;
        }
        let counters = &cx.mib(ns).tcp;
        counters.add(Mib::OutSegs, self.packets());
        counters.add(Mib::OutRsts, self.resets);
        match (self.tuple.local, self.tuple.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.flush_v4(cx, ns, choice, src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.flush_v6(cx, ns, choice, src, dst),
            _ => {}
        }
    }

    /// The number of segments on the wire.
    fn packets(&self) -> u64 {
        let mut start = 0;
        let mut count = 0;
        for end in &self.buffers.ends {
            let data = (end.at - start).saturating_sub(end.header);
            count += data.div_ceil(usize::from(end.size.max(1))).max(1);
            start = end.at;
        }
        count as u64
    }

    fn flush_v4(
        &mut self,
        cx: &mut Cx<'_>,
        ns: &Namespace,
        choice: &Choice,
        src: std::net::Ipv4Addr,
        dst: std::net::Ipv4Addr,
    ) {
        let ports = (self.tuple.port, self.tuple.remote_port);
        let wish = choice.wish_v4(dst, Some(src), ports);
        let Ok(way) = ipv4::egress::find(ns, &wish, cx.guard) else {
            return;
        };
        let mut start = 0;
        let Buffers { bytes, ends } = &mut self.buffers;
        for &end in &*ends {
            let Some(segment) = bytes.get_mut(start..end.at) else {
                break;
            };
            start = end.at;
            fill_check_v4(src.octets(), dst.octets(), PROTOCOL, segment);
            let head = ipv4::egress::Head {
                protocol: PROTOCOL,
                tos: choice.tos | if end.ecn { ECT } else { 0 },
                ttl: u8::try_from(choice.ttl).ok(),
                df: !matches!(choice.discover, pmtudisc::DONT | pmtudisc::OMIT),
                options: &[],
                mark: choice.mark,
                priority: choice.priority,
                looped: true,
            };
            // Without memory the segment is lost, and sent again later.
            let size = (end.header, end.size);
            let _ = ipv4::egress::send_long(cx, ns, &way, &head, segment, size);
        }
    }

    fn flush_v6(
        &mut self,
        cx: &mut Cx<'_>,
        ns: &Namespace,
        choice: &Choice,
        src: std::net::Ipv6Addr,
        dst: std::net::Ipv6Addr,
    ) {
        let ports = (self.tuple.port, self.tuple.remote_port);
        let wish = choice.wish_v6(dst, Some(src), ports);
        let Ok(way) = ipv6::egress::find(ns, &wish, cx.guard) else {
            return;
        };
        let label = ipv6::output::flow_label(ns, src, dst, PROTOCOL);
        let hop_limit = u8::try_from(choice.hops).unwrap_or_else(|_| way.route.hop_limit());
        let mut start = 0;
        let Buffers { bytes, ends } = &mut self.buffers;
        for &end in &*ends {
            let Some(segment) = bytes.get_mut(start..end.at) else {
                break;
            };
            start = end.at;
            fill_check_v6(src.octets(), dst.octets(), PROTOCOL, segment);
            let Some(mut packet) = cx.stack.pool.packet(segment) else {
                break;
            };
            packet.mark = choice.mark;
            packet.priority = choice.priority;
            let data = segment.len().saturating_sub(end.header);
            let count = data.div_ceil(usize::from(end.size.max(1)));
            if count > 1 {
                packet.set_segments(Some(Segments {
                    size: end.size,
                    count: count as u16,
                    headers: (Ipv6::LEN + end.header) as u16,
                    kind: SegmentKind::TcpV6,
                    fixed_id: false,
                }));
            }
            let head = ipv6::output::Head {
                src,
                dst,
                protocol: PROTOCOL,
                hop_limit,
                class: choice.class | if end.ecn { ECT } else { 0 },
                label,
            };
            ipv6::egress::send(cx, ns, &way, &head, true, packet);
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.bytes.clear();
        buffers.ends.clear();
        SPARE.set(buffers);
    }
}

impl Output for Outbox {
    fn send(&mut self, segment: &Segment<'_>) {
        let mut header = segment.header;
        header.source = self.tuple.port;
        header.destination = self.tuple.remote_port;
        self.resets += u64::from(header.has(weir_tcp::header::RST));
        let start = self.buffers.bytes.len();
        self.buffers.bytes.resize(start + header.length(), 0);
        if let Some(place) = self.buffers.bytes.get_mut(start..) {
            header.write(place);
        }
        self.buffers.bytes.extend_from_slice(segment.data[0]);
        self.buffers.bytes.extend_from_slice(segment.data[1]);
        self.buffers.ends.push(End {
            at: self.buffers.bytes.len(),
            header: header.length(),
            size: segment.mss,
            ecn: segment.ecn_capable,
        });
    }
}

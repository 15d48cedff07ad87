// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of segments out (`ip_queue_xmit`, `inet6_csk_xmit`). Segments are collected while the connection is locked,
//! and sent after that.

use std::cell::Cell;
use std::net::IpAddr;

use weir_inet::mib::{Count, Tcp as Mib};
use weir_inet::{ipv4, ipv6};
use weir_netlink::errno;
use weir_packet::header::transport::{fill_check_v4, fill_check_v6};
use weir_packet::header::{Ipv4, Ipv6};
use weir_packet::meta::{SegmentKind, Segments};
use weir_packet::{Flags, Packet};
use weir_tcp::{Header, Output, Path, Segment};

use super::signature::Key;
use super::tuple::Tuple;
use crate::abi::{IPPROTO_TCP, pmtudisc};
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::options::Options;
use weir_core::stack::Stack;

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
#[derive(Debug)]
struct Ready {
    /// Its header and data.
    packet: Packet,
    /// The length of its header.
    header: usize,
    /// The data of each packet.
    size: u16,
    /// Its packet is ECN-capable.
    ecn: bool,
}

impl Ready {
    /// The number of segments on the wire.
    fn count(&self) -> usize {
        let data = self.packet.len().saturating_sub(self.header);
        data.div_ceil(usize::from(self.size.max(1))).max(1)
    }
}

/// Segments to send.
#[derive(Debug)]
pub struct Outbox<'g> {
    stack: &'g Stack,
    tuple: Tuple,
    segments: Vec<Ready>,
    resets: u64,
}

thread_local! {
    /// The list of the last outbox: an ACK costs no allocation for it.
    static SPARE: Cell<Vec<Ready>> = const { Cell::new(Vec::new()) };
}

impl<'g> Outbox<'g> {
    /// An empty one for a connection.
    pub fn new(stack: &'g Stack, tuple: Tuple) -> Self {
        Self {
            stack,
            tuple,
            segments: SPARE.take(),
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
        let Tuple { local, remote, .. } = self.tuple;
        for segment in &mut self.segments {
            let bytes = segment.packet.data_mut();
            // The option comes first.
            if bytes.get(20..24) == Some(&[1, 1, 19, 18]) {
                key.sign(local, remote, segment.header, bytes);
            }
        }
    }

    /// Sends all.
    pub fn flush(mut self, cx: &mut Cx<'_>, ns: &Namespace, choice: &Choice) {
        if self.segments.is_empty() {
            return;
        }
        let counters = &cx.mib(ns).tcp;
        let count: usize = self.segments.iter().map(Ready::count).sum();
        counters.add(Mib::OutSegs, count as u64);
        counters.add(Mib::OutRsts, self.resets);
        match (self.tuple.local, self.tuple.remote) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.flush_v4(cx, ns, choice, src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.flush_v6(cx, ns, choice, src, dst),
            _ => {}
        }
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
        for segment in self.segments.drain(..) {
            let count = segment.count();
            let mut packet = segment.packet;
            fill_check_v4(src.octets(), dst.octets(), PROTOCOL, packet.data_mut());
            if count > 1 {
                packet.set_segments(Some(Segments {
                    size: segment.size,
                    count: count as u16,
                    headers: (Ipv4::LEN + segment.header) as u16,
                    kind: SegmentKind::TcpV4,
                    fixed_id: false,
                }));
            }
            let head = ipv4::egress::Head {
                protocol: PROTOCOL,
                tos: choice.tos | if segment.ecn { ECT } else { 0 },
                ttl: u8::try_from(choice.ttl).ok(),
                df: !matches!(choice.discover, pmtudisc::DONT | pmtudisc::OMIT),
                options: &[],
                mark: choice.mark,
                priority: choice.priority,
                looped: true,
                checked: true,
            };
            // A segment that is lost is sent again later.
            let _ = ipv4::egress::send_packet(cx, ns, &way, &head, packet);
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
        for segment in self.segments.drain(..) {
            let count = segment.count();
            let mut packet = segment.packet;
            fill_check_v6(src.octets(), dst.octets(), PROTOCOL, packet.data_mut());
            packet.flags.insert(Flags::CSUM_GOOD);
            packet.mark = choice.mark;
            packet.priority = choice.priority;
            if count > 1 {
                packet.set_segments(Some(Segments {
                    size: segment.size,
                    count: count as u16,
                    headers: (Ipv6::LEN + segment.header) as u16,
                    kind: SegmentKind::TcpV6,
                    fixed_id: false,
                }));
            }
            let head = ipv6::output::Head {
                src,
                dst,
                protocol: PROTOCOL,
                hop_limit,
                class: choice.class | if segment.ecn { ECT } else { 0 },
                label,
            };
            ipv6::egress::send(cx, ns, &way, &head, true, packet);
        }
    }
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        SPARE.set(segments);
    }
}

impl Output for Outbox<'_> {
    /// Makes the packet: data are copied once, from the send buffer to the frame. Without memory the segment is lost.
    fn send(&mut self, segment: &Segment<'_>) {
        let mut header = segment.header;
        header.source = self.tuple.port;
        header.destination = self.tuple.remote_port;
        self.resets += u64::from(header.has(weir_tcp::header::RST));
        let [first, second] = segment.data;
        let length = header.length();
        let Some(mut packet) = self.stack.pool.alloc(length + first.len() + second.len()) else {
            return;
        };
        let Some((head, data)) = packet.data_mut().split_at_mut_checked(length) else {
            return;
        };
        header.write(head);
        data[..first.len()].copy_from_slice(first);
        data[first.len()..].copy_from_slice(second);
        self.segments.push(Ready {
            packet,
            header: length,
            size: segment.mss,
            ecn: segment.ecn_capable,
        });
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ip6tnl`: IPv6 and IPv4 packets in IPv6 packets (RFC 2473, `net/ipv6/ip6_tunnel.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `mode` | `ip6ip6` (default), `ipip6` or `any`: what is sent and received; `any` also MPLS |
//! | `remote`, `local` | outer addresses; without either, nothing is sent |
//! | `dev` | underlay device; the MTU is that of the route to the remote minus 40, and minus 8 with a limit |
//! | `encaplimit` | how often packets may be encapsulated again, default 4; `none` sends no limit |
//! | `hoplimit` | hop limit of the outer header, default 64; 0 copies that of the inner packet |
//! | `tclass`, `flowlabel` | fields of the outer header; `inherit` copies those of the inner packet |
//! | `dscp inherit` | received packets get the DSCP of the outer header |
//! | `fwmark` | mark for the outer packet's route; `inherit` takes the packet's |
//! | `allow-localremote` | the remote address may be one of the namespace's |
//! | `external` | sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive |
//!
//! Errors about outer packets are told to the inner sender, and path MTUs are kept ([`path_mtu`]). What is not implemented
//! is in [`crate::tunnel`].

use std::sync::Arc;

use weir_netlink::ifla::arphrd;
use weir_netlink::{Attr, Error, Table};
use weir_packet::header::ethernet::ETH_P_MPLS_UC;
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, ICMP_HOST_UNREACH, ICMPV6_ADDR_UNREACH,
    ICMPV6_DEST_UNREACH, ICMPV6_EXC_HOPLIMIT, ICMPV6_HDR_FIELD, ICMPV6_PARAMPROB,
    ICMPV6_PKT_TOOBIG, ICMPV6_TIME_EXCEED,
};
use weir_packet::header::ipv4::{IPPROTO_IPIP, IPPROTO_IPV6};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ipv4, Ipv6};
use weir_packet::{DropReason, Packet, PacketType};

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipip::IPPROTO_MPLS;
use crate::ipv4::{self, route::Wanted};
use crate::ipv6::{self, output, path_mtu};
use crate::namespace::Namespace;
use crate::protocols::{Failed, Protocol, Receive};
use crate::sockets::Report;
use crate::tunnel::inner::Inner;
use crate::tunnel::ip6::{self, Way};
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::Header;
use crate::tunnel::parms::{self, Parms};
use crate::tunnel::receive;
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::udp::Outer;

/// The `ip6tnl` link kind.
pub static KIND: Kind = Kind {
    name: "ip6tnl",
    pattern: "ip6tnl%d",
    create: Ok(|ctl, new| tunnel::create(&FLAVOUR, ctl, new)),
    validate: Some(validate),
};

/// The kind of tunnel.
pub static FLAVOUR: Flavour = Flavour {
    name: "ip6tnl",
    family: Family::Ip6Tnl,
    hardware: arphrd::TUNNEL6,
    ethernet: false,
    protocol: IPPROTO_IPV6,
    mtu: (68, 65_535),
    parse,
    fill: parms::fill_ip6tnl,
    header_len: |_| 0,
    send,
    fallbacks: &[(&FLAVOUR, "ip6tnl0", fallback)],
    receivers: RECEIVERS,
};

/// A protocol above IPv6, with its receiver and who is told of errors.
const fn over_ipv6(
    number: u8,
    receive: Receive,
    failed: Option<Failed>,
) -> (Protocol, Receive, Option<Failed>) {
    (Protocol { ipv6: true, number }, receive, failed)
}

const RECEIVERS: tunnel::Receivers = &[
    over_ipv6(IPPROTO_IPV6, receive_ipv6, Some(failed)),
    over_ipv6(IPPROTO_IPIP, receive_ipv4, Some(failed)),
    over_ipv6(IPPROTO_MPLS, receive_mpls, None),
];

/// The parameters of the fallback device.
pub fn fallback() -> Parms {
    let mut parms = Parms::new(true);
    parms.proto = IPPROTO_IPV6;
    parms
}

/// `ip6_tnl_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let table = parms::ip6tnl_table(parms::data(attrs))?;
    parms::check_iptun_proto(&table, &[0, IPPROTO_IPV6, IPPROTO_IPIP])
}

fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    parms::ip6tnl(&parms::ip6tnl_table(data)?, data.is_some())
}

/// `ip6_tnl_start_xmit`, `ipxip6_tnl_xmit`
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    inner: &Inner,
    packet: Packet,
) {
    let parms = tunnel.parms.load(cx.guard);
    let refuse = |cx: &Cx<'_>, packet| {
        ip6::refuse(cx, device, DropReason::UNHANDLED_PROTO, packet);
    };
    let protocol = match inner.protocol {
        ETH_P_IP if inner.ip => IPPROTO_IPIP,
        ETH_P_IPV6 if inner.ip && !ip6::is_from_remote(parms, packet.data()) => IPPROTO_IPV6,
        ETH_P_MPLS_UC => IPPROTO_MPLS,
        _ => return refuse(cx, packet),
    };
    if parms.proto != 0 && parms.proto != protocol {
        return refuse(cx, packet);
    }
    let way = match parms.external {
        true => match Way::by_metadata(&packet, protocol) {
            Some(way) => way,
            None => return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet),
        },
        false => match Way::of(parms, inner, &packet, protocol) {
            Ok(way) => way,
            Err(at) => return ip6::refuse_limit(cx, device, inner, at, packet),
        },
    };
    if !ip6::may_send(net, parms, cx.guard) {
        return ip6::unreachable(tunnel, cx, device, inner, packet);
    }
    let class = match inner.ip {
        true => inner.ecn(way.class),
        false => Inner {
            tos: way.class,
            ..*inner
        }
        .ecn(way.class),
    };
    let way = Way { class, ..way };
    ip6::send(
        tunnel,
        cx,
        device,
        net,
        (&way, inner, &Header::default()),
        packet,
    );
}

fn receive_ipv6(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let what = (IPPROTO_IPV6, ETH_P_IPV6, Ipv6::LEN);
    receive(cx, underlay, outer, at, what, packet)
}

fn receive_ipv4(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let what = (IPPROTO_IPIP, ETH_P_IP, Ipv4::LEN);
    receive(cx, underlay, outer, at, what, packet)
}

fn receive_mpls(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let what = (IPPROTO_MPLS, ETH_P_MPLS_UC, Ipv6::LEN);
    receive(cx, underlay, outer, at, what, packet)
}

/// Receives a packet of a protocol with its EtherType and its least length in bytes (`tunnel6_rcv`, `ipxip6_rcv`).
fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    (number, protocol, least): (u8, u16, usize),
    packet: Packet,
) -> Option<Packet> {
    let sought = Sought::of(Family::Ip6Tnl, outer, None, underlay);
    let ns = underlay.namespace(cx.guard);
    let to = tunnels(ns).and_then(|all| all.receiver(cx, &sought));
    let may = |parms| ip6::may_receive(ns, parms, (outer.dst, outer.src), cx.guard);
    let refused = to.is_some_and(|(_, tunnel)| !may(tunnel.parms.load(cx.guard)));
    if refused || packet.len() < at + least {
        let reason = DropReason::NOT_SPECIFIED;
        cx.drop(underlay, Place::Ipv6Local, reason, packet);
        return None;
    }
    receive::deliver_ip(cx, to, (underlay, outer), at, (number, protocol), packet)
}

/// What the inner sender is told.
enum Told {
    Unreachable,
    TooBig(u32),
}

/// Tells the inner sender of an error about an outer packet (`ip6_tnl_err`, `ip4ip6_err`, `ip6ip6_err`).
fn failed(cx: &mut Cx<'_>, report: &Report<'_>) {
    let sought = Sought::of_failed(Family::Ip6Tnl, report, None);
    let to = sought.and_then(|sought| tunnels(report.ns)?.receiver(cx, &sought));
    let (Some((_, tunnel)), Some(outer)) = (to, Ipv6::new(report.quoted)) else {
        return;
    };
    let taken = tunnel.parms.load(cx.guard).proto;
    if taken != 0 && taken != report.protocol {
        return;
    }
    let told = match (report.ty, report.code) {
        (ICMPV6_DEST_UNREACH, _) | (ICMPV6_TIME_EXCEED, ICMPV6_EXC_HOPLIMIT) => Told::Unreachable,
        (ICMPV6_PARAMPROB, ICMPV6_HDR_FIELD) => {
            let at = ip6::encap_limit(report.quoted);
            let at = at.filter(|at| report.info == *at as u32 + 2);
            let limit = at.and_then(|at| report.quoted.get(at + 2));
            match limit {
                Some(0) => Told::Unreachable,
                _ => return,
            }
        }
        (ICMPV6_PKT_TOOBIG, _) => {
            path_mtu::learn(cx, report);
            let mtu = report.info.saturating_sub(report.at as u32);
            let mtu = mtu.max(output::MIN_MTU);
            match Ipv6::LEN as u32 + u32::from(outer.payload_len()) > mtu {
                true => Told::TooBig(mtu),
                false => return,
            }
        }
        _ => return,
    };
    let inner = report.quoted.get(report.at..).unwrap_or_default();
    let Some(mut packet) = cx.stack.pool.packet(inner) else {
        return;
    };
    packet.set_network(0);
    packet.set_pkt_type(PacketType::Host);
    match report.protocol {
        IPPROTO_IPIP => tell_ipv4(cx, report, &told, packet),
        _ => tell_ipv6(cx, report, &told, packet),
    }
}

/// Tells the sender of an IPv6 packet.
fn tell_ipv6(cx: &mut Cx<'_>, report: &Report<'_>, told: &Told, packet: Packet) {
    let Some(ip) = Ipv6::new(packet.data()) else {
        return cx.consume(packet);
    };
    let any = std::net::Ipv6Addr::UNSPECIFIED;
    let route = output::route(report.ns, any, ip.src().into(), 0, cx.guard);
    // The device that the packet probably came by.
    let device = route.map_or(report.device, |route| route.named);
    let (ty, code, info) = match told {
        Told::Unreachable => (ICMPV6_DEST_UNREACH, ICMPV6_ADDR_UNREACH, 0),
        Told::TooBig(mtu) => (ICMPV6_PKT_TOOBIG, 0, *mtu),
    };
    ipv6::icmp::send_error(cx, device, &packet, ty, code, info);
    cx.consume(packet);
}

/// Tells the sender of an IPv4 packet, if its destination is behind a tunnel over IPv6.
fn tell_ipv4(cx: &mut Cx<'_>, report: &Report<'_>, told: &Told, packet: Packet) {
    let Some(ip) = Ipv4::new(packet.data()) else {
        return cx.consume(packet);
    };
    let to = |dst: [u8; 4]| {
        let wanted = Wanted {
            dst: dst.into(),
            src: None,
            tos: ip.tos() & 0x1e,
            mark: 0,
            proto: IPPROTO_IPIP,
        };
        ipv4::route::output_by(report.ns, &wanted, 0, cx.guard).ok()
    };
    let (Some(back), Some(on)) = (to(ip.src()), to(ip.dst())) else {
        return cx.consume(packet);
    };
    if on.hop.device.link.hardware_type() != arphrd::TUNNEL6 {
        return cx.consume(packet);
    }
    let (code, info) = match told {
        Told::Unreachable => (ICMP_HOST_UNREACH, 0),
        Told::TooBig(mtu) if *mtu > on.hop.mtu => return cx.consume(packet),
        Told::TooBig(mtu) => (ICMP_FRAG_NEEDED, *mtu),
    };
    let device = back.hop.device.clone();
    ipv4::icmp::error(cx, &device, &packet, ICMP_DEST_UNREACH, code, info, false);
    cx.consume(packet);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sit`: IPv6 packets in IPv4 packets (6in4, RFC 4213, `net/ipv6/sit.c`), and IPv4 packets in them.
//!
//! | attribute | meaning |
//! |---|---|
//! | `remote`, `local` | outer addresses |
//! | `dev` | underlay device; the MTU is its MTU minus 20 (1480 without), at least 1280 |
//! | `ttl`, `tos` | fields of the outer header; 0 and bit 0 copy those of the inner packet, like `inherit` |
//! | `[no]pmtudisc` | set DF in the outer header, default on |
//! | `mode` | `ip6ip`, `ipip` or `any`: what is received; both are sent, as in Linux |
//! | `fwmark` | mark for the outer packet's route |
//!
//! | `isatap` | ISATAP (RFC 5214), below; only for a new tunnel |
//!
//! An IPv6 packet goes to the tunnel's remote, to the IPv4 address in its 6to4 destination (RFC 3056), or to that in its
//! IPv4-compatible next hop. Without a remote, packets whose 6to4 addresses do not fit the outer ones are dropped and
//! counted as errors (`packet_is_spoofed`).
//!
//! With ISATAP it goes to the IPv4 address in its next hop, which is one of ISATAP (`::[2]00:5efe:a.b.c.d`), as are those
//! that the device generates. A sender is a potential router (`ip tunnel prl`) or a host whose address is on the link and
//! has its outer address; others are dropped. Neighbour discovery hears of it ([`NodeType`]).
//!
//! Refused, besides what [`crate::tunnel`] lists: 6rd, MPLS. Difference from Linux: the outer route belongs to the packet,
//! not to the first packet of the tunnel. Not implemented: the IPv4-compatible addresses of a tunnel without a remote.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{arphrd, iff, iptun};
use weir_netlink::{Attr, Error, Table, Writer};
use weir_packet::header::ipv4::{IPPROTO_IPIP, IPPROTO_IPV6};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ipv6};
use weir_packet::{DropReason, NodeType, Packet};
use weir_sync::rcu::Guard;

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipip::IPPROTO_MPLS;
use crate::ipv6::WithIpv6;
use crate::ipv6::address::masked;
use crate::namespace::Namespace;
use crate::protocols::Protocol;
use crate::tunnel::inner::Inner;
use crate::tunnel::isatap::{ISATAP, PRL_DEFAULT, in_6to4, in_isatap};
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::{self, Header, Way};
use crate::tunnel::parms::{self, Parms};
use crate::tunnel::receive;
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::udp::Outer;

/// The TTL of the fallback device's outer packets.
const FALLBACK_TTL: u8 = 64;
/// The prefix length in bits of 6to4 (`only_dnatted`).
const SITE: u8 = 48;

/// The `sit` link kind.
pub static KIND: Kind = Kind {
    name: "sit",
    pattern: "sit%d",
    create: Ok(|ctl, new| tunnel::create(&FLAVOUR, ctl, new)),
    validate: Some(validate),
};

/// The kind of tunnel.
pub(crate) static FLAVOUR: Flavour = Flavour {
    name: "sit",
    family: Family::Sit,
    hardware: arphrd::SIT,
    ethernet: false,
    protocol: IPPROTO_IPV6,
    mtu: (1280, 65_555),
    parse,
    fill,
    header_len: |_| 0,
    send,
    fallbacks: &[(&FLAVOUR, "sit0", fallback)],
    receivers: &[
        (
            Protocol {
                ipv6: false,
                number: IPPROTO_IPV6,
            },
            receive,
            None,
        ),
        (
            Protocol {
                ipv6: false,
                number: IPPROTO_IPIP,
            },
            crate::ipip::receive,
            None,
        ),
    ],
};

fn fallback() -> Parms {
    let mut parms = Parms::new(false);
    (parms.ttl, parms.proto) = (FALLBACK_TTL, IPPROTO_IPV6);
    parms
}

/// `ipip6_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let table = parms::iptun_table(parms::data(attrs))?;
    parms::check_iptun_proto(&table, &[0, IPPROTO_IPV6, IPPROTO_IPIP, IPPROTO_MPLS])
}

/// `ipip6_netlink_parms`
fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    let table = parms::iptun_table(data)?;
    let found = Parms {
        isatap: table.u16(iptun::FLAGS)?.unwrap_or(0) & ISATAP != 0,
        ..parms::iptun(&table, data.is_some())?
    };
    if found.proto == IPPROTO_MPLS {
        return Err(Error::unsupported("MPLS in IPv4 is not supported"));
    }
    let sixrd = [
        iptun::IPTUN_6RD_PREFIX,
        iptun::IPTUN_6RD_RELAY_PREFIX,
        iptun::IPTUN_6RD_PREFIXLEN,
        iptun::IPTUN_6RD_RELAY_PREFIXLEN,
    ];
    if sixrd.into_iter().any(|ty| table.has(ty)) {
        return Err(Error::unsupported("6rd is not supported"));
    }
    Ok(found)
}

/// `ipip6_fill_info`
fn fill(parms: &Parms, out: &mut Writer) {
    parms::fill_iptun_start(parms, out);
    out.put_u8(iptun::TOS, parms.tos);
    out.put_u8(iptun::PMTUDISC, u8::from(parms.df));
    out.put_u16(iptun::FLAGS, if parms.isatap { ISATAP } else { 0 });
    out.put_u8(iptun::PROTO, parms.proto);
    out.put_u32(iptun::FWMARK, parms.fwmark);
    parms::fill_no_encap(out, parms::IPTUN_ENCAP);
}

/// `sit_tunnel_xmit`
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    inner: &Inner,
    packet: Packet,
) {
    let parms = tunnel.parms.load(cx.guard);
    let protocol = match inner.protocol {
        ETH_P_IPV6 => IPPROTO_IPV6,
        _ => IPPROTO_IPIP,
    };
    if !matches!(inner.protocol, ETH_P_IP | ETH_P_IPV6) || !inner.ip {
        return outer::error(cx, device, DropReason::UNHANDLED_PROTO, packet);
    }
    let way = match protocol {
        IPPROTO_IPV6 => remote(parms, &packet).and_then(|to| Way::to(to, parms, inner, protocol)),
        _ => Way::of_packet(&packet, parms, inner, protocol),
    };
    let Some(way) = way else {
        return match protocol {
            IPPROTO_IPV6 => outer::error(cx, device, DropReason::TUNNEL_TXINFO, packet),
            _ => tunnel.no_way(cx, device, packet),
        };
    };
    outer::send_v4(
        tunnel,
        cx,
        device,
        net,
        (&way, inner, &Header::default()),
        packet,
    );
}

/// Returns where an IPv6 packet goes.
fn remote(parms: &Parms, packet: &Packet) -> Option<IpAddr> {
    if parms.isatap {
        return outer::next_hop(packet);
    }
    if !parms.remote.is_unspecified() {
        return Some(parms.remote);
    }
    let to = Ipv6::new(packet.data())?.dst();
    let site = in_6to4(to.into()).filter(|to| !to.is_unspecified());
    site.map(IpAddr::V4).or_else(|| outer::next_hop(packet))
}

/// Returns what a tunnel knows of the sender of an IPv6 packet, or `None` for a false one (`packet_is_spoofed`).
fn judge(
    (device, tunnel): (&Device, &IpTunnel),
    outer: &Outer,
    inner: &Ipv6<'_>,
    guard: &Guard,
) -> Option<NodeType> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (outer.src, outer.dst) else {
        return None;
    };
    let (src, dst) = (Ipv6Addr::from(inner.src()), Ipv6Addr::from(inner.dst()));
    // `ipv6_chk_custom_prefix`, `ipv6_chk_prefix`
    let on_link = |address: Ipv6Addr, len: Option<u8>| {
        let mut own = device.ipv6().addresses.list(guard).iter();
        own.any(|own| {
            let len = len.unwrap_or(own.prefix_len);
            masked(own.address, len) == masked(address, len)
        })
    };
    if tunnel.parms.load(guard).isatap {
        let mut routers = tunnel.routers(guard).iter();
        return match routers.find(|router| router.address == from) {
            Some(router) if router.flags & PRL_DEFAULT != 0 => Some(NodeType::Default),
            Some(_) => Some(NodeType::NoDefault),
            None => (in_isatap(src) == Some(from) && on_link(src, None)).then_some(NodeType::Host),
        };
    }
    let fits = |address, end| in_6to4(address).is_none_or(|found| found == end);
    let is_true = device.flags() & iff::POINTOPOINT != 0
        || fits(src, from) && (fits(dst, to) || on_link(dst, Some(SITE)));
    is_true.then_some(NodeType::Unspecified)
}

/// `ipip6_rcv`
fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    mut packet: Packet,
) -> Option<Packet> {
    let sought = Sought::of(Family::Sit, outer, None, underlay);
    let to = tunnels(underlay.namespace(cx.guard)).and_then(|all| all.receiver(cx, &sought));
    // `tunnel64_rcv`
    let Some(inner) = packet.data().get(at..).and_then(Ipv6::new) else {
        let reason = DropReason::PKT_TOO_SMALL;
        cx.drop(underlay, Place::Ipv4Local, reason, packet);
        return None;
    };
    if let Some((device, tunnel)) = to
        && matches!(tunnel.parms.load(cx.guard).proto, 0 | IPPROTO_IPV6)
    {
        match judge((device, tunnel), outer, &inner, cx.guard) {
            Some(sender) => packet.set_node_type(sender),
            None => {
                let errors = &device.stats(cx.state.id).rx_errors;
                errors.fetch_add(1, Relaxed);
                cx.drop(
                    underlay,
                    Place::Ipv4Local,
                    DropReason::NOT_SPECIFIED,
                    packet,
                );
                return None;
            }
        }
    }
    receive::deliver_ip(
        cx,
        to,
        (underlay, outer),
        at,
        (IPPROTO_IPV6, ETH_P_IPV6),
        packet,
    )
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ip6gre` and `ip6gretap`: packets of any protocol, or Ethernet frames, in GRE over IPv6 (RFC 2784, RFC 2890,
//! `net/ipv6/ip6_gre.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `remote`, `local` | outer addresses; without either, nothing is sent |
//! | `dev` | underlay device; the MTU is that of the route to the remote minus the headers |
//! | `key`, `ikey`, `okey` | key, of received and of sent packets; no key is key 0 |
//! | `csum`, `icsum`, `ocsum` | checksum: received packets must have it, sent packets get it |
//! | `seq`, `iseq`, `oseq` | sequence numbers: received packets must not be older than the last |
//! | `encaplimit`, `hoplimit`, `tclass`, `flowlabel`, `dscp`, `fwmark` | as of [`crate::ip6tnl`]; ECN bits are not copied to the outer header unless the traffic class is |
//! | `external` | sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive; one device of either kind |
//!
//! A tunnel that hears that its remote cannot be reached tells the senders of as many of the next packets, and it keeps path
//! MTUs ([`path_mtu`]). `dscp inherit`
//! of ip6gretap changes the header of the IP packet in the frame; Linux 6.1 takes IPv4 headers for IPv6 ones there. Not
//! implemented, besides what [`crate::tunnel`] lists: WCCP. [`erspan`] is the third kind of this module.

pub mod erspan;

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::ifla::{self, arphrd, gre as attr};
use weir_netlink::{Attr, Error, Table, errno};
use weir_packet::header::ethernet::ETH_P_TEB;
use weir_packet::header::icmp::{
    ICMPV6_DEST_UNREACH, ICMPV6_EXC_HOPLIMIT, ICMPV6_PKT_TOOBIG, ICMPV6_PORT_UNREACH,
    ICMPV6_TIME_EXCEED,
};
use weir_packet::header::ipv4::IPPROTO_GRE;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{DropReason, Packet};

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::gre::{self, ETH_P_ERSPAN, ETH_P_ERSPAN2};
use crate::ipv6::path_mtu;
use crate::kind::check_mac;
use crate::namespace::Namespace;
use crate::protocols::Protocol;
use crate::sockets::Report;
use crate::tunnel::inner::Inner;
use crate::tunnel::ip6::{self, Way};
use crate::tunnel::lookup::{Family, Found, Sought, tunnels};
use crate::tunnel::outer;
use crate::tunnel::parms::{self, GRE_CSUM, GRE_KEY, Parms};
use crate::tunnel::receive;
use crate::tunnel::{self, Fallback, Flavour, IpTunnel};
use crate::udp::Outer;

/// The `ip6gre` link kind.
pub static KIND: Kind = Kind {
    name: "ip6gre",
    pattern: "ip6gre%d",
    create: Ok(|ctl, new| tunnel::create(&IP6GRE, ctl, new)),
    validate: Some(validate),
};

/// The `ip6gretap` link kind.
pub static TAP_KIND: Kind = Kind {
    name: "ip6gretap",
    pattern: "ip6gretap%d",
    create: Ok(|ctl, new| tunnel::create(&IP6GRETAP, ctl, new)),
    validate: Some(validate_tap),
};

/// The kind of tunnel.
pub(crate) static IP6GRE: Flavour = Flavour {
    name: "ip6gre",
    family: Family::Ip6Gre,
    hardware: arphrd::IP6GRE,
    ethernet: false,
    protocol: IPPROTO_GRE,
    mtu: (0, 0),
    parse,
    fill: parms::fill_ip6gre,
    header_len: |parms| gre::header_len(parms.oflags) as u32,
    send: |tunnel, cx, device, net, inner, packet| {
        let protocol = packet.protocol;
        send(tunnel, cx, device, net, (inner, protocol), packet);
    },
    fallbacks: FALLBACKS,
    receivers: RECEIVERS,
};

static IP6GRETAP: Flavour = Flavour {
    name: "ip6gretap",
    family: Family::Ip6Gretap,
    hardware: arphrd::ETHER,
    ethernet: true,
    protocol: IPPROTO_GRE,
    mtu: (68, 0),
    parse,
    fill: parms::fill_ip6gre,
    header_len: |parms| gre::header_len(parms.oflags) as u32,
    send: |tunnel, cx, device, net, inner, packet| {
        send(tunnel, cx, device, net, (inner, ETH_P_TEB), packet);
    },
    fallbacks: FALLBACKS,
    receivers: RECEIVERS,
};

/// The module needs that of ip6tnl.
static FALLBACKS: &[Fallback] = &[
    (&crate::ip6tnl::FLAVOUR, "ip6tnl0", crate::ip6tnl::fallback),
    (&IP6GRE, "ip6gre0", fallback),
];

fn fallback() -> Parms {
    Parms::new(true)
}

const RECEIVERS: tunnel::Receivers = &[(
    Protocol {
        ipv6: true,
        number: IPPROTO_GRE,
    },
    receive,
    Some(failed),
)];

/// `ip6gre_tunnel_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let table = parms::ip6gre_table(parms::data(attrs))?;
    parms::gre_flags(&table).map(|_| ())
}

/// `ip6gre_tap_validate`
fn validate_tap(attrs: &Table<'_>) -> Result<(), Error> {
    if let Some(address) = attrs.get(ifla::ADDRESS) {
        let mac = address.exact::<6>();
        check_mac(&mac.map_err(|_| Error::new(errno::EINVAL))?)?;
    }
    let table = parms::ip6gre_table(parms::data(attrs))?;
    if let Some(remote) = table.get(attr::REMOTE)
        && remote.ipv6()?.is_unspecified()
    {
        return Err(Error::new(errno::EINVAL));
    }
    parms::gre_flags(&table).map(|_| ())
}

fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    parms::ip6gre(&parms::ip6gre_table(data)?, data.is_some())
}

/// Sends a packet (`ip6gre_tunnel_xmit`, `__gre6_xmit`).
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (inner, protocol): (&Inner, u16),
    packet: Packet,
) {
    let parms = tunnel.parms.load(cx.guard);
    if matches!(inner.first, ETH_P_IP | ETH_P_IPV6) && !inner.ip {
        return ip6::refuse(cx, device, DropReason::PKT_TOO_SMALL, packet);
    }
    let network = packet.data().get(inner.link..).unwrap_or_default();
    let loops = inner.protocol == ETH_P_IPV6 && ip6::is_from_remote(parms, network);
    if loops || !ip6::may_send(net, parms, cx.guard) {
        return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet);
    }
    let (way, flags, key) = if parms.external {
        let metadata = packet.tunnel().filter(|tunnel| tunnel.transmit);
        let Some(metadata) = metadata else {
            return outer::discard(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags = flag(metadata.checksum, GRE_CSUM) | flag(metadata.has_id, GRE_KEY);
        let key = metadata.id;
        let Some(way) = Way::by_metadata(&packet, IPPROTO_GRE) else {
            return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        // The route selects the source.
        let src = Ipv6Addr::UNSPECIFIED;
        (Way { src, ..way }, flags, key)
    } else {
        match Way::of(parms, inner, &packet, IPPROTO_GRE) {
            Ok(way) => (way, parms.oflags, parms.okey),
            Err(at) => return ip6::refuse_limit(cx, device, inner, at, packet),
        }
    };
    let header = gre::header(flags, protocol, key, gre::next_seq(tunnel, flags));
    ip6::send(tunnel, cx, device, net, (&way, inner, &header), packet);
}

/// Finds the tunnel of a packet with this payload (`ip6gre_tunnel_lookup`), sought among those of [`Family::Ip6Gre`].
fn find<'g>(ns: &'g Namespace, cx: &Cx<'g>, sought: &Sought, protocol: u16) -> Option<Found<'g>> {
    let all = tunnels(ns)?;
    let family = Family::Ip6Gretap;
    let mirrored = matches!(protocol, ETH_P_ERSPAN | ETH_P_ERSPAN2);
    let frames = mirrored || protocol == ETH_P_TEB;
    let tap = frames.then(|| all.configured(cx, &Sought { family, ..*sought }));
    let tap = tap.flatten();
    if mirrored {
        return tap
            .or_else(|| all.configured(cx, sought))
            .or_else(|| all.external(cx, Family::Ip6Erspan))
            .or_else(|| all.fallback(cx, Family::Ip6Gre));
    }
    tap.or_else(|| all.receiver(cx, sought))
}

/// `gre_rcv`, `ip6gre_rcv`
fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    mut packet: Packet,
) -> Option<Packet> {
    let refuse = |cx: &Cx<'_>, packet| {
        let reason = DropReason::NOT_SPECIFIED;
        cx.drop(underlay, Place::Ipv6Local, reason, packet);
        None
    };
    let segment = packet.data().get(at..).unwrap_or_default();
    let Some((mut info, mut len)) = gre::parse_header(segment) else {
        return refuse(cx, packet);
    };
    let ns = underlay.namespace(cx.guard);
    let sought = Sought::of(Family::Ip6Gre, outer, Some(info.key), underlay);
    let Some(to) = find(ns, cx, &sought, info.protocol) else {
        return Some(packet);
    };
    if matches!(info.protocol, ETH_P_ERSPAN | ETH_P_ERSPAN2) {
        // There is no type I over IPv6.
        let header = segment.get(len..).unwrap_or_default();
        let Some(more) = gre::erspan::parse(header, &mut info) else {
            return Some(packet);
        };
        len += more;
    }
    if !packet.pull(at + len) {
        return refuse(cx, packet);
    }
    receive::deliver(cx, to, (underlay, outer), &info, packet);
    None
}

/// Remembers that a remote cannot be reached, or how much fits the path to it (`ip6gre_err`).
fn failed(cx: &mut Cx<'_>, report: &Report<'_>) {
    let is_lasting = match (report.ty, report.code) {
        (ICMPV6_DEST_UNREACH, code) => code != ICMPV6_PORT_UNREACH,
        (ICMPV6_TIME_EXCEED, code) => code == ICMPV6_EXC_HOPLIMIT,
        _ => false,
    };
    let segment = report.quoted.get(report.at..).unwrap_or_default();
    let header = gre::parse_start(segment);
    let Some((info, _)) = header else {
        return;
    };
    let sought = Sought::of_failed(Family::Ip6Gre, report, Some(info.key));
    let to = sought.and_then(|sought| find(report.ns, cx, &sought, info.protocol));
    let Some((_, tunnel)) = to else {
        return;
    };
    if is_lasting {
        ip6::remember_failure(tunnel, cx.now);
    } else if report.ty == ICMPV6_PKT_TOOBIG {
        path_mtu::learn(cx, report);
    }
}

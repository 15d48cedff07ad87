// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ip6erspan`: mirrored Ethernet frames in GRE over IPv6 (`net/ipv6/ip6_gre.c`, `include/net/erspan.h`).
//!
//! The attributes are those of [`crate::gre::erspan`] without version 0 and those of [`super`] for the outer header.
//! A tunnel shares its ends and key with no ip6gretap. One device is `external`. Frames that are neither IPv4 nor
//! IPv6, which include tagged ones, go without an encapsulation limit, a traffic class and a mark. As in Linux,
//! frames are cut only where they exceed the MTU by more than the outer headers; longer ones than the path takes are
//! dropped.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::ifla::{arphrd, gre as attr};
use weir_netlink::{Attr, Error, Table, Writer, errno};
use weir_packet::header::ipv4::IPPROTO_GRE;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::{DropReason, Packet};

use super::{FALLBACKS, RECEIVERS, validate_tap};
use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::gre::erspan::{self, Session};
use crate::gre::{ETH_P_ERSPAN, ETH_P_ERSPAN2, next_seq};
use crate::namespace::Namespace;
use crate::tunnel::inner::Inner;
use crate::tunnel::ip6::{self, Way, flag};
use crate::tunnel::lookup::Family;
use crate::tunnel::outer::Header;
use crate::tunnel::parms::{self, Erspan, GRE_SEQ, Parms};
use crate::tunnel::{self, Flavour, IpTunnel};

/// The length in bytes of the GRE header.
const GRE: usize = 8;

/// The `ip6erspan` link kind.
pub static KIND: Kind = Kind {
    name: "ip6erspan",
    pattern: "ip6erspan%d",
    create: Ok(|ctl, new| tunnel::create(&FLAVOUR, ctl, new)),
    validate: Some(validate),
};

static FLAVOUR: Flavour = Flavour {
    name: "ip6erspan",
    family: Family::Ip6Erspan,
    hardware: arphrd::ETHER,
    ethernet: true,
    protocol: IPPROTO_GRE,
    mtu: (68, 0),
    parse,
    fill,
    header_len: |parms| (GRE + parms.erspan.header_len()) as u32,
    send,
    fallbacks: FALLBACKS,
    receivers: RECEIVERS,
};

/// `ip6erspan_tap_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let Some(data) = parms::data(attrs) else {
        return Ok(());
    };
    validate_tap(attrs)?;
    let table = parms::ip6gre_table(Some(data))?;
    erspan::check_session(&table)?;
    // An index without a version is not checked.
    match table.u8(attr::ERSPAN_VER)? {
        None => Ok(()),
        Some(1 | 2) => erspan::parameters(&table, Erspan::default()).map(|_| ()),
        Some(_) => Err(Error::new(errno::EINVAL)),
    }
}

/// `ip6gre_netlink_parms`, `ip6erspan_set_version`
fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    let table = parms::ip6gre_table(data)?;
    let mut parms = parms::ip6gre(&table, data.is_some())?;
    if data.is_some() {
        let version = table.u8(attr::ERSPAN_VER)?.unwrap_or(1);
        parms.erspan.version = version;
        match version {
            1 => parms.erspan.index = table.u32(attr::ERSPAN_INDEX)?.unwrap_or(0),
            _ => {
                parms.erspan.dir = table.u8(attr::ERSPAN_DIR)?.unwrap_or(0);
                parms.erspan.hwid = table.u16(attr::ERSPAN_HWID)?.unwrap_or(0);
            }
        }
    }
    Ok(parms)
}

/// `ip6gre_fill_info`
fn fill(parms: &Parms, out: &mut Writer) {
    match parms.erspan.version {
        1 | 2 => parms::fill_ip6gre(&erspan::fill_version(parms, out), out),
        _ => parms::fill_ip6gre(parms, out),
    }
}

/// Returns the outer header of a frame by the tunnel's parameters, or the offset of an encapsulation limit that
/// forbids one.
fn way(parms: &Parms, inner: &Inner, packet: &Packet) -> Result<Way, usize> {
    if matches!(inner.first, ETH_P_IP | ETH_P_IPV6) {
        return Way::of(parms, inner, packet, IPPROTO_GRE);
    }
    let other = Inner {
        protocol: inner.first,
        ..Inner::default()
    };
    let way = Way::of(parms, &other, packet, IPPROTO_GRE)?;
    Ok(Way {
        class: 0,
        encap_limit: None,
        mark: 0,
        ..way
    })
}

/// Sends a frame (`ip6erspan_tunnel_xmit`).
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    inner: &Inner,
    mut packet: Packet,
) {
    let parms = tunnel.parms.load(cx.guard);
    if matches!(inner.first, ETH_P_IP | ETH_P_IPV6) && !inner.ip {
        return ip6::refuse(cx, device, DropReason::PKT_TOO_SMALL, packet);
    }
    if !ip6::may_send(net, parms, cx.guard) {
        return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet);
    }
    // A device that can send counts the headers in front of its frames (`ip6gre_tnl_link_config_route`).
    let outer = match parms.flags & flag::CAP_XMIT {
        0 => 0,
        _ => Ipv6::LEN + GRE + parms.erspan.header_len(),
    };
    let cut = erspan::cut(device, Ethernet::LEN + outer, &mut packet);
    let cut = cut | erspan::is_cut(&packet, inner);
    let network = packet.data().get(inner.link..).unwrap_or_default();
    let tos = match network.first_chunk::<2>() {
        // The fields of an IPv6 header, whatever the packet is.
        Some([first, second]) => first << 4 | second >> 4,
        None => 0,
    };
    let mut session = Session {
        erspan: parms.erspan,
        id: parms.okey,
        cut,
        tos,
    };
    let way = if parms.external {
        let metadata = packet.tunnel().filter(|tunnel| tunnel.transmit);
        let Some(metadata) = metadata else {
            return tunnel::outer::discard(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        let way = Way::by_metadata(&packet, IPPROTO_GRE);
        let (Some(way), Some(erspan)) = (way, erspan::of_metadata(metadata)) else {
            return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        (session.erspan, session.id) = (erspan, metadata.id);
        // The route selects the source.
        let src = Ipv6Addr::UNSPECIFIED;
        Way { src, ..way }
    } else {
        let loops = inner.first == ETH_P_IPV6 && ip6::is_from_remote(parms, network);
        if loops || !matches!(parms.erspan.version, 1 | 2) {
            return ip6::refuse(cx, device, DropReason::TUNNEL_TXINFO, packet);
        }
        match way(parms, inner, &packet) {
            Ok(way) => way,
            Err(at) => return ip6::refuse_limit(cx, device, inner, at, packet),
        }
    };
    let protocol = match session.erspan.version {
        1 => ETH_P_ERSPAN,
        _ => ETH_P_ERSPAN2,
    };
    let mut header = Header::default();
    header.push(&GRE_SEQ.to_be_bytes());
    header.push(&protocol.to_be_bytes());
    header.push(&next_seq(tunnel, GRE_SEQ).to_be_bytes());
    erspan::build(cx, &mut header, packet.data(), &session);
    ip6::send(tunnel, cx, device, net, (&way, inner, &header), packet);
}

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
//! Refused, besides what [`crate::tunnel`] lists: ISATAP, 6rd, MPLS. Not implemented: 6to4 and IPv4-compatible
//! addresses as remotes.

use std::sync::Arc;

use weir_netlink::ifla::{arphrd, iptun};
use weir_netlink::{Attr, Error, Table, Writer};
use weir_packet::header::ipv4::{IPPROTO_IPIP, IPPROTO_IPV6};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{DropReason, Packet};

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipip::IPPROTO_MPLS;
use crate::namespace::Namespace;
use crate::protocols::Protocol;
use crate::tunnel::inner::Inner;
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::{self, Header, Way};
use crate::tunnel::parms::{self, Parms};
use crate::tunnel::receive;
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::udp::Outer;

/// The TTL of the fallback device's outer packets.
const FALLBACK_TTL: u8 = 64;
/// `SIT_ISATAP`
const ISATAP: u16 = 1;

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
    let found = parms::iptun(&table, data.is_some())?;
    if found.proto == IPPROTO_MPLS {
        return Err(Error::unsupported("MPLS in IPv4 is not supported"));
    }
    if table.be16(iptun::FLAGS)?.unwrap_or(0) & ISATAP != 0 {
        return Err(Error::unsupported("ISATAP is not supported"));
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
    out.put_be16(iptun::FLAGS, 0);
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
    let Some(way) = Way::of(parms, inner, protocol) else {
        return outer::error(cx, device, DropReason::TUNNEL_TXINFO, packet);
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

/// `ipip6_rcv`
fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let sought = Sought::of(Family::Sit, outer, None, underlay);
    let to = tunnels(underlay.namespace(cx.guard)).and_then(|all| all.receiver(cx, &sought));
    receive::deliver_ip(
        cx,
        to,
        (underlay, outer),
        at,
        (IPPROTO_IPV6, ETH_P_IPV6),
        packet,
    )
}

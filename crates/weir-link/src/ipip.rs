// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ipip`: IPv4 packets in IPv4 packets (RFC 2003, `net/ipv4/ipip.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `remote`, `local` | outer addresses |
//! | `dev` | underlay device; the MTU is its MTU minus 20 (1480 without) |
//! | `ttl`, `tos` | fields of the outer header; 0 and bit 0 copy those of the inner packet, like `inherit` |
//! | `[no]pmtudisc` | set DF in the outer header, default on |
//! | `fwmark` | mark for the outer packet's route |
//! | `external` | sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive |
//!
//! What is not implemented is in [`crate::tunnel`]. MPLS in IPv4 is refused (`mode mplsip`).

use std::sync::Arc;

use weir_netlink::ifla::arphrd;
use weir_netlink::{Attr, Error, Table};
use weir_packet::header::ETH_P_IP;
use weir_packet::header::ipv4::IPPROTO_IPIP;
use weir_packet::{DropReason, Packet};

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::protocols::Protocol;
use crate::tunnel::inner::Inner;
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::{self, Header, Way};
use crate::tunnel::parms::{self, Parms};
use crate::tunnel::receive;
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::udp::Outer;

/// `IPPROTO_MPLS`
pub const IPPROTO_MPLS: u8 = 137;

/// The `ipip` link kind.
pub static KIND: Kind = Kind {
    name: "ipip",
    pattern: "tunl%d",
    create: Ok(|ctl, new| tunnel::create(&FLAVOUR, ctl, new)),
    validate: Some(validate),
};

/// The kind of tunnel.
pub(crate) static FLAVOUR: Flavour = Flavour {
    name: "ipip",
    family: Family::Ipip,
    hardware: arphrd::TUNNEL,
    ethernet: false,
    protocol: IPPROTO_IPIP,
    mtu: (0, 0),
    parse,
    fill: parms::fill_iptun,
    header_len: |_| 0,
    send,
    fallbacks: &[(&FLAVOUR, "tunl0", fallback)],
    receivers: &[(
        Protocol {
            ipv6: false,
            number: IPPROTO_IPIP,
        },
        receive,
        None,
    )],
};

fn fallback() -> Parms {
    Parms::new(false)
}

/// `ipip_tunnel_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let table = parms::iptun_table(parms::data(attrs))?;
    parms::check_iptun_proto(&table, &[0, IPPROTO_IPIP, IPPROTO_MPLS])
}

fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    let table = parms::iptun_table(data)?;
    let mut found = parms::iptun(&table, data.is_some())?;
    if found.proto == IPPROTO_MPLS {
        return Err(Error::unsupported("MPLS in IPv4 is not supported"));
    }
    if data.is_none() {
        found.proto = IPPROTO_IPIP;
    }
    Ok(found)
}

/// `ipip_tunnel_xmit`
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    inner: &Inner,
    packet: Packet,
) {
    let parms = tunnel.parms.load(cx.guard);
    let fits = matches!(parms.proto, 0 | IPPROTO_IPIP);
    if inner.protocol != ETH_P_IP || !inner.ip || !fits {
        return outer::error(cx, device, DropReason::UNHANDLED_PROTO, packet);
    }
    let way = match parms.external {
        true => Way::by_metadata(&packet, inner, IPPROTO_IPIP, false),
        false => Way::of_packet(&packet, parms, inner, IPPROTO_IPIP),
    };
    let Some(way) = way else {
        return tunnel.no_way(cx, device, packet);
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

/// `ipip_tunnel_rcv`, and `ipip_rcv` of sit
pub fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    packet: Packet,
) -> Option<Packet> {
    let sought = Sought::of(Family::Ipip, outer, None, underlay);
    let to = tunnels(underlay.namespace(cx.guard)).and_then(|all| {
        all.receiver(cx, &sought).or_else(|| {
            let family = Family::Sit;
            all.receiver(cx, &Sought { family, ..sought })
        })
    });
    receive::deliver_ip(
        cx,
        to,
        (underlay, outer),
        at,
        (IPPROTO_IPIP, ETH_P_IP),
        packet,
    )
}

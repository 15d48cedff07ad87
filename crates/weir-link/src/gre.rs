// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gre` and `gretap`: packets of any protocol, or Ethernet frames, in GRE over IPv4 (RFC 2784, RFC 2890,
//! `net/ipv4/ip_gre.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `remote`, `local` | outer addresses |
//! | `dev` | underlay device; the MTU is its MTU minus the headers |
//! | `key`, `ikey`, `okey` | key, of received and of sent packets |
//! | `csum`, `icsum`, `ocsum` | checksum: received packets must have it, sent packets get it |
//! | `seq`, `iseq`, `oseq` | sequence numbers: received packets must not be older than the last |
//! | `ttl`, `tos` | fields of the outer header; 0 and bit 0 copy those of the inner packet, like `inherit` |
//! | `[no]pmtudisc`, `[no]ignore-df` | set DF in the outer header, default on; do not copy it from the inner packet |
//! | `fwmark` | mark for the outer packet's route |
//! | `external` | sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive |
//!
//! [`erspan`] is the third kind of this module. Not implemented, besides what [`crate::tunnel`] lists: WCCP, keepalives.

pub mod erspan;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{arphrd, gre as attr};
use weir_netlink::{Attr, Error, Table, errno};
use weir_packet::header::ethernet::ETH_P_TEB;
use weir_packet::header::ipv4::IPPROTO_GRE;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{DropReason, Packet, checksum};

use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::namespace::Namespace;
use crate::protocols::Protocol;
use crate::tunnel::inner::Inner;
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::{self, Header, Way};
use crate::tunnel::parms::{self, GRE_CSUM, GRE_KEY, GRE_ROUTING, GRE_SEQ, GRE_VERSION, Parms};
use crate::tunnel::receive::{self, Info};
use crate::tunnel::{self, Fallback, Flavour, IpTunnel};
use crate::udp::Outer;

/// `ETH_P_ERSPAN`: ERSPAN of type I or II.
pub const ETH_P_ERSPAN: u16 = 0x88be;
/// `ETH_P_ERSPAN2`: ERSPAN of type III.
pub const ETH_P_ERSPAN2: u16 = 0x22eb;
/// The length of the header without options, in bytes.
const BASE: usize = 4;
/// The length in bytes of the shortest packet that is received.
const LEAST: usize = 12;
/// The length of an option in bytes.
const OPTION: usize = 4;

/// The `gre` link kind.
pub static KIND: Kind = Kind {
    name: "gre",
    pattern: "gre%d",
    create: Ok(|ctl, new| tunnel::create(&GRE, ctl, new)),
    validate: Some(validate),
};

/// The `gretap` link kind.
pub static TAP_KIND: Kind = Kind {
    name: "gretap",
    pattern: "gretap%d",
    create: Ok(|ctl, new| tunnel::create(&GRETAP, ctl, new)),
    validate: Some(validate_tap),
};

/// The kind of tunnel.
pub(crate) static GRE: Flavour = Flavour {
    name: "gre",
    family: Family::Gre,
    hardware: arphrd::IPGRE,
    ethernet: false,
    protocol: IPPROTO_GRE,
    mtu: (0, 0),
    parse,
    fill: parms::fill_gre,
    header_len: |parms| header_len(parms.oflags) as u32,
    send: |tunnel, cx, device, net, inner, packet| {
        let protocol = packet.protocol;
        send(tunnel, cx, device, net, (inner, protocol), packet);
    },
    fallbacks: &FALLBACKS,
    receivers: RECEIVERS,
};

static GRETAP: Flavour = Flavour {
    name: "gretap",
    family: Family::Gretap,
    hardware: arphrd::ETHER,
    ethernet: true,
    protocol: IPPROTO_GRE,
    mtu: (68, 0),
    parse,
    fill: parms::fill_gre,
    header_len: |parms| header_len(parms.oflags) as u32,
    send: |tunnel, cx, device, net, inner, packet| {
        send(tunnel, cx, device, net, (inner, ETH_P_TEB), packet);
    },
    fallbacks: &FALLBACKS,
    receivers: RECEIVERS,
};

static FALLBACKS: [Fallback; 3] = [
    (&GRE, "gre0", fallback),
    (&GRETAP, "gretap0", fallback),
    (&erspan::FLAVOUR, "erspan0", erspan::fallback),
];

fn fallback() -> Parms {
    Parms::new(false)
}

const RECEIVERS: tunnel::Receivers = &[(
    Protocol {
        ipv6: false,
        number: IPPROTO_GRE,
    },
    receive,
    None,
)];

/// `ipgre_tunnel_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let data = parms::data(attrs);
    parms::gre(&parms::gre_table(data)?, data.is_some()).map(|_| ())
}

/// `ipgre_tap_validate`
fn validate_tap(attrs: &Table<'_>) -> Result<(), Error> {
    let table = parms::gre_table(parms::data(attrs))?;
    if let Some(remote) = table.get(attr::REMOTE)
        && remote.ipv4()?.is_unspecified()
    {
        return Err(Error::new(errno::EINVAL));
    }
    validate(attrs)
}

fn parse(data: Option<Attr<'_>>, _: Option<&Parms>) -> Result<Parms, Error> {
    parms::gre(&parms::gre_table(data)?, data.is_some())
}

/// Returns the length of the header with the options that the flags stand for, in bytes (`gre_calc_hlen`).
pub fn header_len(flags: u16) -> usize {
    let options = [GRE_CSUM, GRE_KEY, GRE_SEQ].into_iter();
    BASE + OPTION * options.filter(|option| flags & option != 0).count()
}

/// Returns a header (`gre_build_header`).
pub fn header(flags: u16, protocol: u16, key: u32, seq: u32) -> Header {
    let mut header = Header::default();
    header.push(&flags.to_be_bytes());
    header.push(&protocol.to_be_bytes());
    if flags & GRE_CSUM != 0 {
        header.push_checksum();
        header.push(&[0, 0]);
    }
    if flags & GRE_KEY != 0 {
        header.push(&key.to_be_bytes());
    }
    if flags & GRE_SEQ != 0 {
        header.push(&seq.to_be_bytes());
    }
    header
}

/// Returns the sequence number of the next packet if the flags ask for one, else 0.
pub fn next_seq(tunnel: &IpTunnel, flags: u16) -> u32 {
    match flags & GRE_SEQ {
        0 => 0,
        _ => tunnel.sent.fetch_add(1, Relaxed),
    }
}

/// Sends a packet (`__gre_xmit`, `gre_fb_xmit`).
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (inner, protocol): (&Inner, u16),
    packet: Packet,
) {
    if matches!(inner.first, ETH_P_IP | ETH_P_IPV6) && !inner.ip {
        // `pskb_inet_may_pull`
        return outer::discard(cx, device, DropReason::PKT_TOO_SMALL, packet);
    }
    let parms = tunnel.parms.load(cx.guard);
    let (way, flags, key) = if parms.external {
        let Some(way) = Way::by_metadata(&packet, inner, IPPROTO_GRE, false) else {
            return outer::discard(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        let metadata = packet.tunnel();
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags = metadata.map_or(0, |metadata| {
            flag(metadata.checksum, GRE_CSUM) | flag(metadata.has_id, GRE_KEY)
        });
        (way, flags, metadata.map_or(0, |metadata| metadata.id))
    } else {
        let Some(way) = Way::of(parms, inner, IPPROTO_GRE) else {
            return tunnel.no_way(cx, device, packet);
        };
        (way, parms.oflags, parms.okey)
    };
    let header = header(flags, protocol, key, next_seq(tunnel, flags));
    outer::send_v4(tunnel, cx, device, net, (&way, inner, &header), packet);
}

/// Parses a header whose checksum is right (`gre_parse_header`). Returns its length as well.
pub fn parse_header(segment: &[u8]) -> Option<(Info, usize)> {
    let parsed = parse_start(segment)?;
    match parsed.0.flags & GRE_CSUM != 0 && !checksum::verify(segment) {
        true => None,
        false => Some(parsed),
    }
}

/// Parses a header behind which the packet may be cut, whatever its checksum. Returns its length as well.
pub fn parse_start(segment: &[u8]) -> Option<(Info, usize)> {
    let [f0, f1, p0, p1] = *segment.first_chunk()?;
    let flags = u16::from_be_bytes([f0, f1]);
    if flags & (GRE_VERSION | GRE_ROUTING) != 0 {
        return None;
    }
    let len = header_len(flags);
    segment.get(..len)?;
    let mut at = BASE;
    let mut option = |flag: u16| {
        if flags & flag == 0 {
            return 0;
        }
        let word = segment.get(at..).and_then(|rest| rest.first_chunk());
        at += OPTION;
        word.map_or(0, |word| u32::from_be_bytes(*word))
    };
    let _ = option(GRE_CSUM);
    let mut info = Info {
        flags: flags & (GRE_CSUM | GRE_KEY | GRE_SEQ),
        protocol: u16::from_be_bytes([p0, p1]),
        key: option(GRE_KEY),
        seq: option(GRE_SEQ),
        erspan: None,
    };
    if info.protocol == ETH_P_ERSPAN2 || info.protocol == ETH_P_ERSPAN && len != BASE {
        // The session stands for the key.
        info.key = erspan::session(segment.get(len..)?)?;
    }
    Some((info, len))
}

/// `gre_rcv`, `ipgre_rcv`
fn receive(
    cx: &mut Cx<'_>,
    underlay: &Arc<Device>,
    outer: &Outer,
    at: usize,
    mut packet: Packet,
) -> Option<Packet> {
    let refuse = |cx: &Cx<'_>, packet| {
        cx.drop(
            underlay,
            Place::Ipv4Local,
            DropReason::NOT_SPECIFIED,
            packet,
        );
        None
    };
    let segment = packet.data().get(at..).unwrap_or_default();
    // Shorter packets are not looked at (`gre_rcv`).
    let header = (segment.len() >= LEAST).then(|| parse_header(segment));
    let Some((info, len)) = header.flatten() else {
        return refuse(cx, packet);
    };
    if matches!(info.protocol, ETH_P_ERSPAN | ETH_P_ERSPAN2) {
        return erspan::receive(cx, (underlay, outer), (at, len), info, packet);
    }
    let sought = |family| Sought::of(family, outer, info.key(), underlay);
    let family = match info.protocol {
        ETH_P_TEB => Family::Gretap,
        _ => Family::Gre,
    };
    let all = tunnels(underlay.namespace(cx.guard))?;
    let to = all.receiver(cx, &sought(family)).or_else(|| {
        // Tunnels of packets in external mode take frames as well.
        let other = (family == Family::Gretap).then(|| all.receiver(cx, &sought(Family::Gre)));
        other.flatten()
    });
    let Some(to) = to else {
        return Some(packet);
    };
    if !packet.pull(at + len) {
        return refuse(cx, packet);
    }
    receive::deliver(cx, to, (underlay, outer), &info, packet);
    None
}

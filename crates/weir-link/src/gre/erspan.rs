// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `erspan`: mirrored Ethernet frames in GRE over IPv4, with a header that names the session and the port
//! (`net/ipv4/ip_gre.c`, `include/net/erspan.h`, draft-foschiano-erspan).
//!
//! | attribute | meaning |
//! |---|---|
//! | `erspan_ver` | 0: type I, without a header of its own; 1: type II, the default; 2: type III, with a timestamp |
//! | `erspan` | version 1: the index of the mirrored port, 20 bits |
//! | `erspan_dir` | version 2: `ingress` (0) or `egress` (1) |
//! | `erspan_hwid` | version 2: the engine that mirrors, 6 bits |
//! | `key`, `ikey`, `okey` | the session, 10 bits; of received and of sent frames |
//! | `seq`, `iseq`, `oseq` | sequence numbers, which versions 1 and 2 must have in one direction at least |
//! | `remote`, `local`, `dev`, `ttl`, `tos`, `[no]pmtudisc`, `[no]ignore-df`, `fwmark` | as of [`super`] |
//! | `external` | sends by each packet's tunnel metadata with `erspan_opts` of version 1 or 2, and sets them on receive |
//!
//! Frames that exceed the MTU are cut and marked. A frame whose session no tunnel has is answered with "port
//! unreachable". The timestamp counts 100 µs of the stack's clock. Differences from Linux: a changed version changes
//! the length of the header at once; a checksum that version 0 is asked for is left out, where Linux overwrites the
//! GRE header with it; the flags of version 0 are shown as they were set after a frame has been sent, too.
//!
//! The header, from high to low bits:
//!
//! | version 1 and 2 | version 1 | version 2 |
//! |---|---|---|
//! | version 4, VLAN 12, class 3, tag or size 2, cut 1, session 10 | 0 12, index 20 | timestamp 32, group 16, frame 1, type 5, engine 6, direction 1, granularity 2, 0 1 |

use std::sync::Arc;

use weir_netlink::ifla::{arphrd, gre as attr};
use weir_netlink::{Attr, Error, Table, Writer, errno};
use weir_packet::header::ipv4::IPPROTO_GRE;
use weir_packet::header::ipv6::upper_layer;
use weir_packet::header::{ETH_P_8021Q, ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::tunnel::{OptionKind, Tunnel};
use weir_packet::{DropReason, Packet};

use super::{BASE, ETH_P_ERSPAN, ETH_P_ERSPAN2, FALLBACKS, RECEIVERS, next_seq, validate_tap};
use crate::Kind;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::namespace::Namespace;
use crate::tunnel::inner::Inner;
use crate::tunnel::lookup::{Family, Sought, tunnels};
use crate::tunnel::outer::{self, Header, Way};
use crate::tunnel::parms::{self, Erspan, GRE_KEY, GRE_SEQ, Parms};
use crate::tunnel::receive::{self, Info};
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::udp::Outer;

/// `ID_MASK`: the bits of a session.
const SESSION: u32 = 0x3ff;
/// `INDEX_MASK`: the bits of an index.
const INDEX: u32 = 0xf_ffff;
/// The bits of the engine's number.
const HWID: u16 = 0x3f;
/// The length in bytes of a GRE header with a sequence number.
const NUMBERED: usize = 8;
/// The length in bytes of the base of an ERSPAN header.
const START: usize = 4;
/// The shortest and the longest frame in bytes that is neither short nor oversized.
const SHORTEST: usize = 60;
const LONGEST: usize = 1514;
/// The unit of timestamps in nanoseconds.
const GRANULARITY: u64 = 100_000;

/// The `erspan` link kind.
pub static KIND: Kind = Kind {
    name: "erspan",
    pattern: "erspan%d",
    create: Ok(|ctl, new| tunnel::create(&FLAVOUR, ctl, new)),
    validate: Some(validate),
};

/// The kind of tunnel.
pub(super) static FLAVOUR: Flavour = Flavour {
    name: "erspan",
    family: Family::Erspan,
    hardware: arphrd::ETHER,
    ethernet: true,
    protocol: IPPROTO_GRE,
    mtu: (68, 0),
    parse: parse_data,
    fill,
    header_len: |parms| match parms.erspan.version {
        0 => BASE as u32,
        _ => (NUMBERED + parms.erspan.header_len()) as u32,
    },
    send,
    fallbacks: &FALLBACKS,
    receivers: RECEIVERS,
};

/// The parameters without attributes.
const DEFAULT: Erspan = Erspan {
    version: 1,
    index: 0,
    dir: 0,
    hwid: 0,
};

/// Returns the parameters of the fallback device.
pub(super) fn fallback() -> Parms {
    Parms {
        erspan: DEFAULT,
        ..Parms::new(false)
    }
}

fn invalid<T>() -> Result<T, Error> {
    Err(Error::new(errno::EINVAL))
}

/// Checks the flags and the sessions of versions 1 and 2.
pub fn check_session(table: &Table<'_>) -> Result<(), Error> {
    let flags = |ty| Ok::<u16, Error>(table.be16(ty)?.unwrap_or(0));
    let flags = flags(attr::IFLAGS)? | flags(attr::OFLAGS)?;
    if !table.has(attr::COLLECT_METADATA) && flags != GRE_SEQ | GRE_KEY {
        return invalid();
    }
    for ty in [attr::IKEY, attr::OKEY] {
        if table.be32(ty)?.unwrap_or(0) & !SESSION != 0 {
            return invalid();
        }
    }
    Ok(())
}

/// `erspan_validate`
fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    let Some(data) = parms::data(attrs) else {
        return Ok(());
    };
    validate_tap(attrs)?;
    let table = parms::gre_table(Some(data))?;
    match table.u8(attr::ERSPAN_VER)? {
        Some(0) => Ok(()),
        _ => check_session(&table),
    }
}

/// Returns the parameters that a request gives instead of these (`erspan_netlink_parms`). EINVAL for a version above
/// 2, and for an index, a direction or an engine that has too many bits for its version.
pub fn parameters(table: &Table<'_>, before: Erspan) -> Result<Erspan, Error> {
    let mut erspan = before;
    if let Some(version) = table.u8(attr::ERSPAN_VER)? {
        erspan.version = version;
    }
    match erspan.version {
        0 => {}
        1 => erspan.index = table.u32(attr::ERSPAN_INDEX)?.unwrap_or(erspan.index),
        2 => {
            erspan.dir = table.u8(attr::ERSPAN_DIR)?.unwrap_or(erspan.dir);
            erspan.hwid = table.u16(attr::ERSPAN_HWID)?.unwrap_or(erspan.hwid);
        }
        _ => return invalid(),
    }
    match erspan.index & !INDEX == 0 && erspan.dir & !1 == 0 && erspan.hwid & !HWID == 0 {
        true => Ok(erspan),
        false => invalid(),
    }
}

fn parse_data(data: Option<Attr<'_>>, before: Option<&Parms>) -> Result<Parms, Error> {
    let table = parms::gre_table(data)?;
    let before = before.map_or(DEFAULT, |parms| parms.erspan);
    Ok(Parms {
        erspan: parameters(&table, before)?,
        ..parms::gre(&table, data.is_some())?
    })
}

/// Writes the version and what belongs to it. Returns the parameters as they are shown beside it.
pub fn fill_version(parms: &Parms, out: &mut Writer) -> Parms {
    let erspan = &parms.erspan;
    out.put_u8(attr::ERSPAN_VER, erspan.version);
    match erspan.version {
        1 => out.put_u32(attr::ERSPAN_INDEX, erspan.index),
        2 => {
            out.put_u8(attr::ERSPAN_DIR, erspan.dir);
            out.put_u16(attr::ERSPAN_HWID, erspan.hwid);
        }
        _ => {}
    }
    let mut shown = parms.clone();
    if erspan.version != 0 && !parms.external {
        shown.oflags |= GRE_KEY;
    }
    shown
}

/// `erspan_fill_info`
fn fill(parms: &Parms, out: &mut Writer) {
    parms::fill_gre(&fill_version(parms, out), out);
}

/// What a header says that is not in the frame.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// The version and the mirrored port.
    pub erspan: Erspan,
    /// The session.
    pub id: u32,
    /// The frame has been cut.
    pub cut: bool,
    /// The type of service or traffic class, of which a class is made.
    pub tos: u8,
}

/// Appends the header of a frame (`erspan_build_header`, `erspan_build_header_v2`).
pub fn build(cx: &Cx<'_>, header: &mut Header, frame: &[u8], session: &Session) {
    let word = |at: usize| {
        let octets = frame.get(at..).and_then(|rest| rest.first_chunk());
        octets.map_or(0, |octets| u16::from_be_bytes(*octets))
    };
    let tagged = word(12) == ETH_P_8021Q;
    let vlan = if tagged { word(14) & 0xfff } else { 0 };
    let Erspan {
        version,
        index,
        dir,
        hwid,
    } = session.erspan;
    let kind = match (version, frame.len()) {
        // The tag is in the frame.
        (1, _) => 3 * u32::from(tagged),
        (_, len) if len < SHORTEST => 1,
        (_, len) if len > LONGEST => 2,
        _ => 0,
    };
    let start = u32::from(version) << 28
        | u32::from(vlan) << 16
        | u32::from(session.tos >> 5) << 13
        | kind << 11
        | u32::from(session.cut) << 10
        | session.id & SESSION;
    header.push(&start.to_be_bytes());
    if version == 1 {
        header.push(&(index & INDEX).to_be_bytes());
    } else {
        let time = (cx.stack.clock.wall_ns() / GRANULARITY) as u32;
        header.push(&time.to_be_bytes());
        let last = 0x8000 | (hwid & HWID) << 4 | u16::from(dir & 1) << 3;
        header.push(&u32::from(last).to_be_bytes());
    }
}

/// Cuts a frame to the device's MTU and `header` bytes (`hard_header_len`). Returns whether it was longer.
pub fn cut(device: &Device, header: usize, packet: &mut Packet) -> bool {
    let most = device.mtu() as usize + header;
    let longer = packet.len() > most;
    packet.trim(most);
    longer
}

/// Returns whether an IP packet in a frame is shorter than its header says.
pub fn is_cut(packet: &Packet, inner: &Inner) -> bool {
    let frame = packet.data();
    let network = frame.get(inner.link..).unwrap_or_default();
    match inner.first {
        ETH_P_IP => {
            Ipv4::new(network).is_some_and(|ip| usize::from(ip.total_len()) > network.len())
        }
        ETH_P_IPV6 => {
            // Linux counts from behind the extension headers, which the sender's stack has found.
            let upper = upper_layer(network).map_or(Ipv6::LEN, |upper| upper.offset);
            let at = packet.transport_offset().unwrap_or(inner.link + upper);
            let rest = frame.len().saturating_sub(at);
            Ipv6::new(network).is_some_and(|ip| usize::from(ip.payload_len()) > rest)
        }
        _ => false,
    }
}

/// Returns what the options of a packet's metadata say of ERSPAN, if they are of a version that is sent.
pub fn of_metadata(metadata: &Tunnel) -> Option<Erspan> {
    let options = metadata.options.as_ref()?;
    let octets = options.octets.first_chunk::<12>();
    let octets = octets.filter(|_| options.kind == OptionKind::Erspan)?;
    let [v0, v1, v2, v3, i0, i1, i2, i3, _, _, upper, lower] = *octets;
    let version = match u32::from_ne_bytes([v0, v1, v2, v3]) {
        1 => 1,
        2 => 2,
        _ => return None,
    };
    Some(Erspan {
        version,
        index: u32::from_be_bytes([i0, i1, i2, i3]),
        dir: lower >> 3 & 1,
        hwid: u16::from_be_bytes([upper & 3, lower]) >> 4,
    })
}

/// Sends a frame (`erspan_xmit`, `erspan_fb_xmit`).
fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    inner: &Inner,
    mut packet: Packet,
) {
    if matches!(inner.first, ETH_P_IP | ETH_P_IPV6) && !inner.ip {
        // `pskb_inet_may_pull`
        return outer::discard(cx, device, DropReason::PKT_TOO_SMALL, packet);
    }
    let parms = tunnel.parms.load(cx.guard);
    let mut session = Session {
        erspan: parms.erspan,
        id: parms.okey,
        cut: cut(device, Ethernet::LEN, &mut packet),
        tos: packet.data().get(inner.link + 1).copied().unwrap_or(0),
    };
    let (way, flags) = if parms.external {
        let way = Way::by_metadata(&packet, inner, IPPROTO_GRE, false);
        let metadata = packet.tunnel();
        let erspan = metadata.and_then(|metadata| of_metadata(metadata));
        let (Some(way), Some(erspan)) = (way, erspan) else {
            return outer::discard(cx, device, DropReason::TUNNEL_TXINFO, packet);
        };
        session.erspan = erspan;
        session.id = metadata.map_or(0, |metadata| metadata.id);
        session.cut |= is_cut(&packet, inner);
        (way, GRE_SEQ)
    } else {
        let Some(way) = Way::of(parms, inner, IPPROTO_GRE) else {
            return tunnel.no_way(cx, device, packet);
        };
        (way, parms.oflags & GRE_SEQ)
    };
    let (flags, protocol) = match session.erspan.version {
        0 => (0, ETH_P_ERSPAN),
        1 => (flags, ETH_P_ERSPAN),
        _ => (flags, ETH_P_ERSPAN2),
    };
    let mut header = Header::default();
    header.push(&flags.to_be_bytes());
    header.push(&protocol.to_be_bytes());
    if session.erspan.version != 0 {
        header.push(&next_seq(tunnel, flags).to_be_bytes());
        build(cx, &mut header, packet.data(), &session);
    }
    outer::send_v4(tunnel, cx, device, net, (&way, inner, &header), packet);
}

/// Returns the session that the ERSPAN header begins with.
pub fn session(header: &[u8]) -> Option<u32> {
    let start = header.first_chunk::<START>()?;
    Some(u32::from_be_bytes(*start) & SESSION)
}

/// Returns eight bytes of an ERSPAN header behind its base. Bytes that are not there are 0.
fn metadata(header: &[u8], len: usize) -> [u8; 8] {
    let mut octets = [0; 8];
    let rest = header.iter().skip(START).take(len);
    octets
        .iter_mut()
        .zip(rest)
        .for_each(|(to, from)| *to = *from);
    octets
}

/// Parses the header in front of a frame. Returns its length in bytes, or `None` if the packet ends in it.
pub fn parse(header: &[u8], info: &mut Info) -> Option<usize> {
    let version = header.first().map_or(0, |first| first >> 4);
    let len = Erspan {
        version,
        ..Erspan::default()
    };
    let len = len.header_len();
    let whole = header.get(..len)?;
    // Without a header, Linux takes them from the frame.
    let from = if version == 0 { header } else { whole };
    info.erspan = Some((version, metadata(from, if version == 1 { 4 } else { 8 })));
    info.flags |= GRE_KEY;
    Some(len)
}

/// Receives a packet whose GRE header is `at` bytes into it and `len` bytes long (`erspan_rcv`). Returns one that no
/// tunnel takes.
pub(super) fn receive(
    cx: &mut Cx<'_>,
    (underlay, outer): (&Arc<Device>, &Outer),
    (at, len): (usize, usize),
    mut info: Info,
    mut packet: Packet,
) -> Option<Packet> {
    let first = len == BASE;
    let key = (!first).then_some(info.key);
    let sought = Sought::of(Family::Erspan, outer, key, underlay);
    let all = tunnels(underlay.namespace(cx.guard))?;
    let Some(to) = all.receiver(cx, &sought) else {
        return Some(packet);
    };
    let header = packet.data().get(at + len..).unwrap_or_default();
    let more = if first {
        (info.key, info.flags) = (0, info.flags | GRE_KEY);
        info.erspan = Some((0, metadata(header, 8)));
        0
    } else {
        let Some(more) = parse(header, &mut info) else {
            return Some(packet);
        };
        more
    };
    if !packet.pull(at + len + more) {
        let reason = DropReason::NOT_SPECIFIED;
        cx.drop(underlay, Place::Ipv4Local, reason, packet);
        return None;
    }
    receive::deliver(cx, to, (underlay, outer), &info, packet);
    None
}

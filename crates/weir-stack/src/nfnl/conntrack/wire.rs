// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections as attributes: tuples and zones in both directions, and the description of a connection.

use weir_conntrack::tuple::{DCCP, GRE, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE};
use weir_conntrack::{Direction, Family, Range, Snapshot, Tuple, Zone, ips};
use weir_netlink::{
    Attr, Error, NfGenMsg, Policy, Rule, Strictness, Table, Writer, cta, errno, policy,
};

use cta::filter_flag as flag;

/// The largest shift of a window (`TCP_MAX_WSCALE`).
const MAX_SCALE: u64 = 14;

/// `ct_nla_policy`
pub(super) static POLICY: Policy = policy! { max cta::MAX;
    cta::TUPLE_ORIG => Rule::nested_any(),
    cta::TUPLE_REPLY => Rule::nested_any(),
    cta::STATUS => Rule::u32(),
    cta::PROTOINFO => Rule::nested_any(),
    cta::HELP => Rule::nested_any(),
    cta::NAT_SRC => Rule::nested_any(),
    cta::TIMEOUT => Rule::u32(),
    cta::MARK => Rule::u32(),
    cta::ID => Rule::u32(),
    cta::NAT_DST => Rule::nested_any(),
    cta::TUPLE_MASTER => Rule::nested_any(),
    cta::SEQ_ADJ_ORIG => Rule::nested_any(),
    cta::SEQ_ADJ_REPLY => Rule::nested_any(),
    cta::ZONE => Rule::u16(),
    cta::MARK_MASK => Rule::u32(),
    cta::LABELS => Rule::binary(16),
    cta::LABELS_MASK => Rule::binary(16),
    cta::FILTER => Rule::nested_any(),
    cta::STATUS_MASK => Rule::u32(),
};

/// `tuple_nla_policy`
static TUPLE: Policy = policy! { max cta::tuple::MAX;
    cta::tuple::IP => Rule::nested_any(),
    cta::tuple::PROTO => Rule::nested_any(),
    cta::tuple::ZONE => Rule::u16(),
};

/// `cta_ip_nla_policy`
static IP: Policy = policy! { max cta::ip::MAX;
    cta::ip::V4_SRC => Rule::u32(),
    cta::ip::V4_DST => Rule::u32(),
    cta::ip::V6_SRC => Rule::unspec(16),
    cta::ip::V6_DST => Rule::unspec(16),
};

/// `proto_nla_policy`, and the policies of the protocols.
static PROTO: Policy = policy! { max cta::proto::MAX;
    cta::proto::NUM => Rule::u8(),
    cta::proto::SRC_PORT => Rule::u16(),
    cta::proto::DST_PORT => Rule::u16(),
    cta::proto::ICMP_ID => Rule::u16(),
    cta::proto::ICMP_TYPE => Rule::u8(),
    cta::proto::ICMP_CODE => Rule::u8(),
    cta::proto::ICMPV6_ID => Rule::u16(),
    cta::proto::ICMPV6_TYPE => Rule::u8(),
    cta::proto::ICMPV6_CODE => Rule::u8(),
};

/// `protoinfo_policy`
pub(super) static PROTOINFO: Policy = policy! { max cta::protoinfo::MAX;
    cta::protoinfo::TCP => Rule::nested_any(),
    cta::protoinfo::DCCP => Rule::nested_any(),
    cta::protoinfo::SCTP => Rule::nested_any(),
};

/// `tcp_nla_policy`
pub(super) static TCP_INFO: Policy = policy! { max cta::tcp::MAX;
    cta::tcp::STATE => Rule::u8().max(9),
    cta::tcp::WSCALE_ORIGINAL => Rule::u8().max(MAX_SCALE),
    cta::tcp::WSCALE_REPLY => Rule::u8().max(MAX_SCALE),
    cta::tcp::FLAGS_ORIGINAL => Rule::unspec(2),
    cta::tcp::FLAGS_REPLY => Rule::unspec(2),
};

/// `sctp_nla_policy`
pub(super) static SCTP_INFO: Policy = policy! { max cta::sctp::MAX;
    cta::sctp::STATE => Rule::u8().max(8),
    cta::sctp::VTAG_ORIGINAL => Rule::u32(),
    cta::sctp::VTAG_REPLY => Rule::u32(),
};

/// `dccp_nla_policy`
pub(super) static DCCP_INFO: Policy = policy! { max cta::dccp::MAX;
    cta::dccp::STATE => Rule::u8(),
    cta::dccp::ROLE => Rule::u8(),
    cta::dccp::HANDSHAKE_SEQ => Rule::u64(),
};

/// `nat_nla_policy`
static NAT: Policy = policy! { max cta::nat::MAX;
    cta::nat::V4_MINIP => Rule::u32(),
    cta::nat::V4_MAXIP => Rule::u32(),
    cta::nat::PROTO => Rule::nested_any(),
    cta::nat::V6_MINIP => Rule::unspec(16),
    cta::nat::V6_MAXIP => Rule::unspec(16),
};

/// `protonat_nla_policy`
static PROTONAT: Policy = policy! { max cta::protonat::MAX;
    cta::protonat::PORT_MIN => Rule::u16(),
    cta::protonat::PORT_MAX => Rule::u16(),
};

/// `help_nla_policy`
pub(super) static HELP: Policy = policy! { max cta::help::MAX;
    cta::help::NAME => Rule::nul_string(15),
};

/// Which tuple of a connection an attribute holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Original,
    Reply,
}

impl Side {
    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::Original => Direction::Original,
            Self::Reply => Direction::Reply,
        }
    }
}

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

/// Reads `CTA_ZONE` (`ctnetlink_parse_zone`).
pub(crate) fn zone(attr: Option<Attr<'_>>) -> Result<Zone, Error> {
    match attr {
        Some(attr) => Ok(Zone::new(attr.be16()?)),
        None => Ok(Zone::default()),
    }
}

/// Reads all parts of a tuple (`ctnetlink_parse_tuple`).
pub(crate) fn tuple(
    attr: &Attr<'_>,
    family: u8,
    side: Side,
    zone: &mut Zone,
) -> Result<Tuple, Error> {
    tuple_parts(attr, family, side, zone, u32::MAX)
}

/// Reads the parts of a tuple that `flags` name (`ctnetlink_parse_tuple_filter`). The others are 0.
pub(super) fn tuple_parts(
    attr: &Attr<'_>,
    family: u8,
    side: Side,
    zone: &mut Zone,
    flags: u32,
) -> Result<Tuple, Error> {
    let tb = attr.parse(&TUPLE, Strictness::Liberal)?;
    let mut tuple = match family {
        2 => Tuple::v4([0; 4], [0; 4], 0, 0, 0),
        10 => Tuple::v6([0; 16], [0; 16], 0, 0, 0),
        _ => return Err(Error::new(errno::EOPNOTSUPP)),
    };
    if flags & (flag::IP_SRC | flag::IP_DST) != 0 {
        let attr = tb.get(cta::tuple::IP).ok_or_else(invalid)?;
        addresses(&attr, &mut tuple, flags)?;
    }
    if flags & flag::PROTO_NUM != 0 {
        let attr = tb.get(cta::tuple::PROTO).ok_or_else(invalid)?;
        protocol(&attr, &mut tuple, flags)?;
    } else if flags & flag::ALL & !(flag::IP_SRC | flag::IP_DST | flag::TUPLE_ZONE) != 0 {
        return Err(invalid());
    }
    if flags & flag::TUPLE_ZONE != 0
        && let Some(attr) = tb.get(cta::tuple::ZONE)
    {
        if zone.id != 0 {
            return Err(invalid());
        }
        *zone = Zone {
            id: attr.be16()?,
            directions: 1 << side.direction() as u8,
        };
    }
    Ok(tuple)
}

/// `ctnetlink_parse_tuple_ip`
fn addresses(attr: &Attr<'_>, tuple: &mut Tuple, flags: u32) -> Result<(), Error> {
    let tb = attr.parse(&IP, Strictness::Liberal)?;
    let (src, dst) = match tuple.family {
        Family::V4 => (cta::ip::V4_SRC, cta::ip::V4_DST),
        Family::V6 => (cta::ip::V6_SRC, cta::ip::V6_DST),
    };
    let length = if tuple.family == Family::V4 { 4 } else { 16 };
    for (wanted, ty, to) in [
        (flag::IP_SRC, src, &mut tuple.src),
        (flag::IP_DST, dst, &mut tuple.dst),
    ] {
        if flags & wanted != 0 {
            let octets = tb.payload(ty).and_then(|octets| octets.get(..length));
            to[..length].copy_from_slice(octets.ok_or_else(invalid)?);
        }
    }
    Ok(())
}

/// `ctnetlink_parse_tuple_proto`
fn protocol(attr: &Attr<'_>, tuple: &mut Tuple, flags: u32) -> Result<(), Error> {
    let tb = attr.parse(&PROTO, Strictness::Liberal)?;
    tuple.protocol = tb.get(cta::proto::NUM).ok_or_else(invalid)?.u8()?;
    let port = |wanted, ty| match flags & wanted {
        0 => Ok(0),
        _ => tb.get(ty).ok_or_else(invalid)?.be16(),
    };
    let octet = |wanted, ty| match flags & wanted {
        0 => Ok(0),
        _ => tb.get(ty).ok_or_else(invalid)?.u8(),
    };
    match tuple.protocol {
        TCP | UDP | UDPLITE | SCTP | DCCP | GRE => {
            tuple.src_port = port(flag::PROTO_SRC_PORT, cta::proto::SRC_PORT)?;
            tuple.dst_port = port(flag::PROTO_DST_PORT, cta::proto::DST_PORT)?;
        }
        ICMP => {
            let kind = octet(flag::PROTO_ICMP_TYPE, cta::proto::ICMP_TYPE)?;
            if flags & flag::PROTO_ICMP_TYPE != 0 && !matches!(kind, 0 | 8 | 13..=18) {
                return Err(invalid());
            }
            let code = octet(flag::PROTO_ICMP_CODE, cta::proto::ICMP_CODE)?;
            tuple.dst_port = u16::from_be_bytes([kind, code]);
            tuple.src_port = port(flag::PROTO_ICMP_ID, cta::proto::ICMP_ID)?;
        }
        ICMPV6 => {
            let kind = octet(flag::PROTO_ICMPV6_TYPE, cta::proto::ICMPV6_TYPE)?;
            if flags & flag::PROTO_ICMPV6_TYPE != 0 && !matches!(kind, 128 | 129 | 139 | 140) {
                return Err(invalid());
            }
            let code = octet(flag::PROTO_ICMPV6_CODE, cta::proto::ICMPV6_CODE)?;
            tuple.dst_port = u16::from_be_bytes([kind, code]);
            tuple.src_port = port(flag::PROTO_ICMPV6_ID, cta::proto::ICMPV6_ID)?;
        }
        _ => {}
    }
    Ok(())
}

/// Reads what a connection is translated to (`nfnetlink_parse_nat`).
pub(super) fn range(attr: &Attr<'_>, family: Family) -> Result<Range, Error> {
    let tb = attr.parse(&NAT, Strictness::Liberal)?;
    let (length, first, last) = match family {
        Family::V4 => (4, cta::nat::V4_MINIP, cta::nat::V4_MAXIP),
        Family::V6 => (16, cta::nat::V6_MINIP, cta::nat::V6_MAXIP),
    };
    let address = |ty| {
        let octets = tb.payload(ty)?.get(..length)?;
        let mut wide = [0; 16];
        wide.get_mut(..length)?.copy_from_slice(octets);
        Some(wide)
    };
    let addresses = address(first).map(|min| (min, address(last).unwrap_or(min)));
    let mut range = Range {
        addresses,
        ports: None,
    };
    if let Some(attr) = tb.get(cta::nat::PROTO) {
        let tb = attr.parse(&PROTONAT, Strictness::Liberal)?;
        let port = |ty| tb.get(ty).map(|attr| attr.be16()).transpose();
        let (min, max) = (
            port(cta::protonat::PORT_MIN)?,
            port(cta::protonat::PORT_MAX)?,
        );
        if min.is_some() || max.is_some() {
            let min = min.unwrap_or(0);
            range.ports = Some((min, max.unwrap_or(min)));
        }
    }
    Ok(range)
}

/// Reads the tuple that names a connection: the original one, or else the reply (`ctnetlink_get_conntrack`).
pub(super) fn named(
    tb: &Table<'_>,
    family: u8,
    zone: &mut Zone,
) -> Result<Option<(Tuple, Side)>, Error> {
    for (ty, side) in [
        (cta::TUPLE_ORIG, Side::Original),
        (cta::TUPLE_REPLY, Side::Reply),
    ] {
        if let Some(attr) = tb.get(ty) {
            return Ok(Some((tuple(&attr, family, side, zone)?, side)));
        }
    }
    Ok(None)
}

/// Writes the header of a message about a connection of a family, or about none.
pub(super) fn header(w: &mut Writer, family: u8, resource: u16) {
    w.fixed(&NfGenMsg {
        family,
        version: weir_netlink::nfnl::V0,
        res_id: resource.to_be_bytes(),
    });
}

fn put_tuple(w: &mut Writer, ty: u16, tuple: &Tuple, zone: Option<u16>) {
    let nest = w.nest(ty);
    let ip = w.nest(cta::tuple::IP);
    let (length, src, dst) = match tuple.family {
        Family::V4 => (4, cta::ip::V4_SRC, cta::ip::V4_DST),
        Family::V6 => (16, cta::ip::V6_SRC, cta::ip::V6_DST),
    };
    w.put(src, &tuple.src[..length]);
    w.put(dst, &tuple.dst[..length]);
    w.end(ip);
    let proto = w.nest(cta::tuple::PROTO);
    w.put_u8(cta::proto::NUM, tuple.protocol);
    let [kind, code] = tuple.dst_port.to_be_bytes();
    match tuple.protocol {
        TCP | UDP | UDPLITE | SCTP | DCCP | GRE => {
            w.put_be16(cta::proto::SRC_PORT, tuple.src_port);
            w.put_be16(cta::proto::DST_PORT, tuple.dst_port);
        }
        ICMP => {
            w.put_be16(cta::proto::ICMP_ID, tuple.src_port);
            w.put_u8(cta::proto::ICMP_TYPE, kind);
            w.put_u8(cta::proto::ICMP_CODE, code);
        }
        ICMPV6 => {
            w.put_be16(cta::proto::ICMPV6_ID, tuple.src_port);
            w.put_u8(cta::proto::ICMPV6_TYPE, kind);
            w.put_u8(cta::proto::ICMPV6_CODE, code);
        }
        _ => {}
    }
    w.end(proto);
    if let Some(zone) = zone {
        w.put_be16(cta::tuple::ZONE, zone);
    }
    w.end(nest);
}

/// Writes header, tuples and zone.
pub(super) fn put_identity(w: &mut Writer, connection: &Snapshot) {
    header(w, connection.original.family as u8, 0);
    let Zone { id, directions } = connection.zone;
    // `ctnetlink_dump_zone_id`
    let of = |bits| (id != 0 && directions == bits).then_some(id);
    put_tuple(w, cta::TUPLE_ORIG, &connection.original, of(1));
    put_tuple(w, cta::TUPLE_REPLY, &connection.reply, of(2));
    if let Some(id) = of(Zone::BOTH) {
        w.put_be16(cta::ZONE, id);
    }
}

/// Writes the state of the protocol; of a connection that ends, less of it (`ctnetlink_dump_protoinfo`).
pub(super) fn put_protocol(w: &mut Writer, connection: &Snapshot, ends: bool) {
    if let Some(sctp) = &connection.sctp {
        let nest = w.nest(cta::PROTOINFO);
        let inner = w.nest(cta::protoinfo::SCTP);
        w.put_u8(cta::sctp::STATE, sctp.state as u8);
        if !ends {
            w.put_be32(cta::sctp::VTAG_ORIGINAL, sctp.tags[0]);
            w.put_be32(cta::sctp::VTAG_REPLY, sctp.tags[1]);
        }
        w.end(inner);
        return w.end(nest);
    }
    if let Some(dccp) = &connection.dccp {
        let nest = w.nest(cta::PROTOINFO);
        let inner = w.nest(cta::protoinfo::DCCP);
        w.put_u8(cta::dccp::STATE, dccp.state as u8);
        if !ends {
            w.put_u8(cta::dccp::ROLE, dccp.reversed.into());
            w.put_be64(cta::dccp::HANDSHAKE_SEQ, dccp.handshake);
        }
        w.end(inner);
        return w.end(nest);
    }
    let Some(tcp) = &connection.tcp else {
        return;
    };
    let nest = w.nest(cta::PROTOINFO);
    let inner = w.nest(cta::protoinfo::TCP);
    w.put_u8(cta::tcp::STATE, tcp.state as u8);
    if !ends {
        w.put_u8(cta::tcp::WSCALE_ORIGINAL, tcp.scale[0]);
        w.put_u8(cta::tcp::WSCALE_REPLY, tcp.scale[1]);
        w.put(cta::tcp::FLAGS_ORIGINAL, &[tcp.flags[0], 0]);
        w.put(cta::tcp::FLAGS_REPLY, &[tcp.flags[1], 0]);
    }
    w.end(inner);
    w.end(nest);
}

/// Writes the counters, if there are any (`ctnetlink_dump_acct`).
pub(super) fn put_counters(w: &mut Writer, connection: &Snapshot) {
    let Some(counters) = &connection.counters else {
        return;
    };
    for (ty, counters) in [cta::COUNTERS_ORIG, cta::COUNTERS_REPLY]
        .into_iter()
        .zip(counters)
    {
        let nest = w.nest(ty);
        w.put_be64(cta::counters::PACKETS, counters.packets);
        w.put_be64(cta::counters::BYTES, counters.bytes);
        w.end(nest);
    }
}

/// Writes the times of begin and end, if they are kept (`ctnetlink_dump_timestamp`). `epoch` is the time of day in
/// nanoseconds at which the stack's clock was 0.
pub(super) fn put_times(w: &mut Writer, connection: &Snapshot, epoch: u64) {
    let Some(started) = connection.started else {
        return;
    };
    let nest = w.nest(cta::TIMESTAMP);
    w.put_be64(cta::timestamp::START, epoch + started);
    if let Some(stopped) = connection.stopped {
        w.put_be64(cta::timestamp::STOP, epoch + stopped);
    }
    w.end(nest);
}

/// Writes the labels, if there are any (`ctnetlink_dump_labels`).
pub(super) fn put_labels(w: &mut Writer, connection: &Snapshot) {
    if let Some(labels) = connection.labels.filter(|labels| *labels != [0; 16]) {
        w.put(cta::LABELS, &labels);
    }
}

/// Describes a connection in an answer (`ctnetlink_fill_info`). `uses` is the number of references that Linux would
/// report: the table's, and that of a request which looked the connection up.
pub(super) fn put_connection(w: &mut Writer, connection: &Snapshot, epoch: u64, uses: u32) {
    put_identity(w, connection);
    w.put_be32(cta::STATUS, connection.status);
    w.put_be32(cta::MARK, connection.mark);
    w.put_be32(cta::ID, connection.id);
    w.put_be32(cta::USE, uses);
    if connection.status & ips::OFFLOAD == 0 {
        w.put_be32(cta::TIMEOUT, connection.timeout);
        put_protocol(w, connection, false);
    }
    put_counters(w, connection);
    put_times(w, connection, epoch);
    put_labels(w, connection);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of addresses, routes, rules, neighbours and the rest of IP control.

use std::fmt::Write;

use super::{Family, Printer, family};
use crate::attr::{Attr, Attrs, align};
use crate::header::*;

pub(super) static NONE: Family = Family {
    kind: 0,
    attrs: &[],
};

family! { pub(super) ACK in nlm::err;
    MSG Str, OFFS U32, COOKIE Hex, POLICY Nest(&POLICY), MISS_TYPE U32, MISS_NEST U32,
}

family! { POLICY in nlm::policy;
    TYPE U32, MIN_VALUE_S U64, MAX_VALUE_S U64, MIN_VALUE_U U64, MAX_VALUE_U U64, MIN_LENGTH U32,
    MAX_LENGTH U32, BITFIELD32_MASK X32, MASK U64,
}

family! { pub(super) ADDR in ifa;
    ADDRESS Ip, LOCAL Ip, LABEL Str, BROADCAST Ip, ANYCAST Ip,
    CACHEINFO Struct(as_struct::<IfaCacheInfo>), MULTICAST Ip, FLAGS X32, RT_PRIORITY U32,
    TARGET_NETNSID I32, PROTO U8,
}

family! { pub(super) ROUTE in rta;
    DST Ip, SRC Ip, IIF U32, OIF U32, GATEWAY Ip, PRIORITY U32, PREFSRC Ip, METRICS Nest(&METRICS),
    MULTIPATH Own(multipath), FLOW U32, CACHEINFO Struct(as_struct::<RtaCacheInfo>), TABLE U32,
    MARK X32, VIA Struct(via), PREF U8, ENCAP_TYPE U16, ENCAP Hex, EXPIRES U32, UID U32,
    TTL_PROPAGATE U8, IP_PROTO U8, SPORT Be16, DPORT Be16, NH_ID U32,
}

family! { METRICS in rta::ax;
    LOCK X32, MTU U32, WINDOW U32, RTT U32, RTTVAR U32, SSTHRESH U32, CWND U32, ADVMSS U32,
    REORDERING U32, HOPLIMIT U32, INITCWND U32, FEATURES X32, RTO_MIN U32, INITRWND U32,
    QUICKACK U32, CC_ALGO Str, FASTOPEN_NO_COOKIE U32,
}

/// Formats `struct rtvia`: a family, then an address up to the end.
fn via(bytes: &[u8]) -> Option<String> {
    let family = u16::get(bytes.get(..2)?);
    let octets = bytes.get(2..)?;
    let address = match octets.len() {
        4 => std::net::Ipv4Addr::from(u32::get(octets).to_be()).to_string(),
        16 => std::net::Ipv6Addr::from(super::u128_be(octets)).to_string(),
        _ => format!("{octets:02x?}"),
    };
    Some(format!("family {family} {address}"))
}

/// Prints a run of `rtnexthop`, each with its attributes.
fn multipath(p: &mut Printer<'_>, attr: &Attr<'_>) {
    p.out.push('\n');
    p.depth += 1;
    let (mut rest, mut offset) = (attr.payload, attr.offset.wrapping_add(4));
    while let Some(hop) = RtNextHop::from_bytes(rest) {
        let len = usize::from(hop.len);
        let Some(inside) = rest.get(RtNextHop::LEN..len) else {
            break;
        };
        let _ = writeln!(p.out, "{:1$}{hop:?}", "", p.depth * 2);
        p.depth += 1;
        let inside = Attrs::new(inside, offset.wrapping_add(RtNextHop::LEN as u32));
        p.attrs(inside, &ROUTE);
        p.depth -= 1;
        let step = align(len).min(rest.len());
        rest = &rest[step..];
        offset = offset.wrapping_add(step as u32);
    }
    if !rest.is_empty() {
        let _ = write!(p.out, "{:1$}leftover ", "", p.depth * 2);
        p.hex(rest);
        p.out.push('\n');
    }
    p.depth -= 1;
}

family! { pub(super) NEIGH in nda;
    DST Ip, LLADDR Mac, CACHEINFO Struct(as_struct::<NdaCacheInfo>), PROBES U32, VLAN U16,
    PORT Be16, VNI U32, IFINDEX U32, MASTER U32, LINK_NETNSID I32, SRC_VNI U32, PROTOCOL U8,
    NH_ID U32, FDB_EXT_ATTRS Hex, FLAGS_EXT X32,
}

family! { pub(super) NEIGHTBL in nda::tbl;
    NAME Str, THRESH1 U32, THRESH2 U32, THRESH3 U32, CONFIG Struct(as_struct::<NdtConfig>),
    PARMS Nest(&PARMS), STATS Struct(as_struct::<NdtStats>), GC_INTERVAL U64,
}

family! { PARMS in nda::parms;
    IFINDEX U32, REFCNT U32, REACHABLE_TIME U64, BASE_REACHABLE_TIME U64, RETRANS_TIME U64,
    GC_STALETIME U64, DELAY_PROBE_TIME U64, QUEUE_LEN U32, APP_PROBES U32, UCAST_PROBES U32,
    MCAST_PROBES U32, ANYCAST_DELAY U64, PROXY_DELAY U64, PROXY_QLEN U32, LOCKTIME U64,
    QUEUE_LENBYTES U32, MCAST_REPROBES U32, INTERVAL_PROBE_TIME_MS U64,
}

family! { pub(super) RULE in fra;
    DST Ip, SRC Ip, IIFNAME Str, GOTO U32, PRIORITY U32, FWMARK X32, FLOW U32, TUN_ID Be64,
    SUPPRESS_IFGROUP I32, SUPPRESS_PREFIXLEN I32, TABLE U32, FWMASK X32, OIFNAME Str, L3MDEV U8,
    UID_RANGE Struct(as_struct::<FibRuleUidRange>), PROTOCOL U8, IP_PROTO U8,
    SPORT_RANGE Struct(as_struct::<FibRulePortRange>),
    DPORT_RANGE Struct(as_struct::<FibRulePortRange>),
}

family! { pub(super) NSID in netnsa;
    NSID I32, PID U32, FD U32, TARGET_NSID I32, CURRENT_NSID I32,
}

family! { pub(super) NETCONF in netconf;
    IFINDEX I32, FORWARDING I32, RP_FILTER I32, MC_FORWARDING I32, PROXY_NEIGH I32,
    IGNORE_ROUTES_WITH_LINKDOWN I32, INPUT I32, BC_FORWARDING I32,
}

family! { pub(super) ADDRLABEL in addrlabel; ADDRESS Ip, LABEL U32 }

family! { pub(super) PREFIX in prefix;
    ADDRESS Ip, CACHEINFO Struct(as_struct::<PrefixCacheInfo>),
}

family! { pub(super) NEXTHOP in nexthop;
    ID U32, GROUP Struct(group), GROUP_TYPE U16, BLACKHOLE Flag, OIF U32, GATEWAY Ip, ENCAP_TYPE U16,
    ENCAP Hex, GROUPS Flag, MASTER U32, FDB Flag, RES_GROUP Nest(&RES_GROUP), RES_BUCKET Hex,
}

family! { RES_GROUP in nexthop::res_group;
    BUCKETS U16, IDLE_TIMER U32, UNBALANCED_TIMER U32, UNBALANCED_TIME U64,
}

/// Formats `NHA_GROUP`, an array of `nexthop_grp`.
fn group(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    for entry in bytes.chunks(NextHopGrp::LEN) {
        let entry = NextHopGrp::from_bytes(entry)?;
        let _ = write!(text, "{}x{} ", entry.id, u32::from(entry.weight) + 1);
    }
    text.pop();
    Some(text)
}

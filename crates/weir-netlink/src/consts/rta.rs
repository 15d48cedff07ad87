// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes: attributes (`RTA_*`), types, protocols, scopes, tables, metrics, nexthops, light tunnels.
//!
//! Names and values are those of Linux 6.1 (`linux/lwtunnel.h`, `linux/rtnetlink.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const DST: u16 = 1;
pub const SRC: u16 = 2;
pub const IIF: u16 = 3;
pub const OIF: u16 = 4;
pub const GATEWAY: u16 = 5;
pub const PRIORITY: u16 = 6;
pub const PREFSRC: u16 = 7;
pub const METRICS: u16 = 8;
pub const MULTIPATH: u16 = 9;
pub const PROTOINFO: u16 = 10;
pub const FLOW: u16 = 11;
pub const CACHEINFO: u16 = 12;
pub const SESSION: u16 = 13;
pub const MP_ALGO: u16 = 14;
pub const TABLE: u16 = 15;
pub const MARK: u16 = 16;
pub const MFC_STATS: u16 = 17;
pub const VIA: u16 = 18;
pub const NEWDST: u16 = 19;
pub const PREF: u16 = 20;
pub const ENCAP_TYPE: u16 = 21;
pub const ENCAP: u16 = 22;
pub const EXPIRES: u16 = 23;
pub const PAD: u16 = 24;
pub const UID: u16 = 25;
pub const TTL_PROPAGATE: u16 = 26;
pub const IP_PROTO: u16 = 27;
pub const SPORT: u16 = 28;
pub const DPORT: u16 = 29;
pub const NH_ID: u16 = 30;
pub const MAX: u16 = 30;

/// Route types (`RTN_*`).
pub mod rtn {
    pub const UNSPEC: u8 = 0;
    pub const UNICAST: u8 = 1;
    pub const LOCAL: u8 = 2;
    pub const BROADCAST: u8 = 3;
    pub const ANYCAST: u8 = 4;
    pub const MULTICAST: u8 = 5;
    pub const BLACKHOLE: u8 = 6;
    pub const UNREACHABLE: u8 = 7;
    pub const PROHIBIT: u8 = 8;
    pub const THROW: u8 = 9;
    pub const NAT: u8 = 10;
    pub const XRESOLVE: u8 = 11;
    pub const MAX: u8 = 11;
}

/// Route origins (`RTPROT_*`).
pub mod prot {
    pub const UNSPEC: u8 = 0;
    pub const REDIRECT: u8 = 1;
    pub const KERNEL: u8 = 2;
    pub const BOOT: u8 = 3;
    pub const STATIC: u8 = 4;
    pub const GATED: u8 = 8;
    pub const RA: u8 = 9;
    pub const MRT: u8 = 10;
    pub const ZEBRA: u8 = 11;
    pub const BIRD: u8 = 12;
    pub const DNROUTED: u8 = 13;
    pub const XORP: u8 = 14;
    pub const NTK: u8 = 15;
    pub const DHCP: u8 = 16;
    pub const MROUTED: u8 = 17;
    pub const KEEPALIVED: u8 = 18;
    pub const BABEL: u8 = 42;
    pub const OPENR: u8 = 99;
    pub const BGP: u8 = 186;
    pub const ISIS: u8 = 187;
    pub const OSPF: u8 = 188;
    pub const RIP: u8 = 189;
    pub const EIGRP: u8 = 192;
}

/// Route scopes (`RT_SCOPE_*`).
pub mod scope {
    pub const UNIVERSE: u8 = 0;
    pub const SITE: u8 = 200;
    pub const LINK: u8 = 253;
    pub const HOST: u8 = 254;
    pub const NOWHERE: u8 = 255;
}

/// Reserved tables (`RT_TABLE_*`).
pub mod table {
    pub const UNSPEC: u32 = 0;
    pub const COMPAT: u32 = 252;
    pub const DEFAULT: u32 = 253;
    pub const MAIN: u32 = 254;
    pub const LOCAL: u32 = 255;
    pub const MAX: u32 = 0xffffffff;
}

/// Metrics, nested in `RTA_METRICS` (`RTAX_*`).
pub mod ax {
    pub const UNSPEC: u16 = 0;
    pub const LOCK: u16 = 1;
    pub const MTU: u16 = 2;
    pub const WINDOW: u16 = 3;
    pub const RTT: u16 = 4;
    pub const RTTVAR: u16 = 5;
    pub const SSTHRESH: u16 = 6;
    pub const CWND: u16 = 7;
    pub const ADVMSS: u16 = 8;
    pub const REORDERING: u16 = 9;
    pub const HOPLIMIT: u16 = 10;
    pub const INITCWND: u16 = 11;
    pub const FEATURES: u16 = 12;
    pub const RTO_MIN: u16 = 13;
    pub const INITRWND: u16 = 14;
    pub const QUICKACK: u16 = 15;
    pub const CC_ALGO: u16 = 16;
    pub const FASTOPEN_NO_COOKIE: u16 = 17;
    pub const MAX: u16 = 17;
}

/// `RTAX_FEATURES` bits.
pub mod feature {
    pub const ECN: u32 = 1;
    pub const SACK: u32 = 2;
    pub const TIMESTAMP: u32 = 4;
    pub const ALLFRAG: u32 = 8;
    pub const MASK: u32 = 15;
}

/// Nexthop flags (`RTNH_F_*`).
pub mod nh {
    pub const F_DEAD: u8 = 0x1;
    pub const F_PERVASIVE: u8 = 0x2;
    pub const F_ONLINK: u8 = 0x4;
    pub const F_OFFLOAD: u8 = 0x8;
    pub const F_LINKDOWN: u8 = 0x10;
    pub const F_UNRESOLVED: u8 = 0x20;
    pub const F_TRAP: u8 = 0x40;
    pub const COMPARE_MASK: u8 = 89;
}

/// Light tunnel kinds for `RTA_ENCAP_TYPE`.
pub mod encap {
    pub const NONE: u16 = 0;
    pub const MPLS: u16 = 1;
    pub const IP: u16 = 2;
    pub const ILA: u16 = 3;
    pub const IP6: u16 = 4;
    pub const SEG6: u16 = 5;
    pub const BPF: u16 = 6;
    pub const SEG6_LOCAL: u16 = 7;
    pub const RPL: u16 = 8;
    pub const IOAM6: u16 = 9;
    pub const XFRM: u16 = 10;
    pub const MAX: u16 = 10;
}

/// `RTA_ENCAP` of kind ip.
pub mod encap_ip {
    pub const UNSPEC: u16 = 0;
    pub const ID: u16 = 1;
    pub const DST: u16 = 2;
    pub const SRC: u16 = 3;
    pub const TTL: u16 = 4;
    pub const TOS: u16 = 5;
    pub const FLAGS: u16 = 6;
    pub const PAD: u16 = 7;
    pub const MAX: u16 = 8;
}

/// `RTA_ENCAP` of kind ip6.
pub mod encap_ip6 {
    pub const UNSPEC: u16 = 0;
    pub const ID: u16 = 1;
    pub const DST: u16 = 2;
    pub const SRC: u16 = 3;
    pub const HOPLIMIT: u16 = 4;
    pub const TC: u16 = 5;
    pub const FLAGS: u16 = 6;
    pub const PAD: u16 = 7;
    pub const OPTS: u16 = 8;
    pub const MAX: u16 = 8;
}

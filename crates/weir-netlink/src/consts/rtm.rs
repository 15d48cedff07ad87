// SPDX-License-Identifier: Apache-2.0 OR MIT
//! rtnetlink message types (`RTM_*`), multicast groups and routing attribute families.
//!
//! Names and values are those of Linux 6.1 (`linux/rtnetlink.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const BASE: u16 = 16;
pub const NEWLINK: u16 = 16;
pub const DELLINK: u16 = 17;
pub const GETLINK: u16 = 18;
pub const SETLINK: u16 = 19;
pub const NEWADDR: u16 = 20;
pub const DELADDR: u16 = 21;
pub const GETADDR: u16 = 22;
pub const NEWROUTE: u16 = 24;
pub const DELROUTE: u16 = 25;
pub const GETROUTE: u16 = 26;
pub const NEWNEIGH: u16 = 28;
pub const DELNEIGH: u16 = 29;
pub const GETNEIGH: u16 = 30;
pub const NEWRULE: u16 = 32;
pub const DELRULE: u16 = 33;
pub const GETRULE: u16 = 34;
pub const NEWQDISC: u16 = 36;
pub const DELQDISC: u16 = 37;
pub const GETQDISC: u16 = 38;
pub const NEWTCLASS: u16 = 40;
pub const DELTCLASS: u16 = 41;
pub const GETTCLASS: u16 = 42;
pub const NEWTFILTER: u16 = 44;
pub const DELTFILTER: u16 = 45;
pub const GETTFILTER: u16 = 46;
pub const NEWACTION: u16 = 48;
pub const DELACTION: u16 = 49;
pub const GETACTION: u16 = 50;
pub const NEWPREFIX: u16 = 52;
pub const GETMULTICAST: u16 = 58;
pub const GETANYCAST: u16 = 62;
pub const NEWNEIGHTBL: u16 = 64;
pub const GETNEIGHTBL: u16 = 66;
pub const SETNEIGHTBL: u16 = 67;
pub const NEWNDUSEROPT: u16 = 68;
pub const NEWADDRLABEL: u16 = 72;
pub const DELADDRLABEL: u16 = 73;
pub const GETADDRLABEL: u16 = 74;
pub const GETDCB: u16 = 78;
pub const SETDCB: u16 = 79;
pub const NEWNETCONF: u16 = 80;
pub const DELNETCONF: u16 = 81;
pub const GETNETCONF: u16 = 82;
pub const NEWMDB: u16 = 84;
pub const DELMDB: u16 = 85;
pub const GETMDB: u16 = 86;
pub const NEWNSID: u16 = 88;
pub const DELNSID: u16 = 89;
pub const GETNSID: u16 = 90;
pub const NEWSTATS: u16 = 92;
pub const GETSTATS: u16 = 94;
pub const SETSTATS: u16 = 95;
pub const NEWCACHEREPORT: u16 = 96;
pub const NEWCHAIN: u16 = 100;
pub const DELCHAIN: u16 = 101;
pub const GETCHAIN: u16 = 102;
pub const NEWNEXTHOP: u16 = 104;
pub const DELNEXTHOP: u16 = 105;
pub const GETNEXTHOP: u16 = 106;
pub const NEWLINKPROP: u16 = 108;
pub const DELLINKPROP: u16 = 109;
pub const GETLINKPROP: u16 = 110;
pub const NEWVLAN: u16 = 112;
pub const DELVLAN: u16 = 113;
pub const GETVLAN: u16 = 114;
pub const NEWNEXTHOPBUCKET: u16 = 116;
pub const DELNEXTHOPBUCKET: u16 = 117;
pub const GETNEXTHOPBUCKET: u16 = 118;
pub const NEWTUNNEL: u16 = 120;
pub const DELTUNNEL: u16 = 121;
pub const GETTUNNEL: u16 = 122;
pub const MAX: u16 = 123;

/// Flags of `rtmsg.flags` (`RTM_F_*`).
pub mod f {
    pub const NOTIFY: u32 = 0x100;
    pub const CLONED: u32 = 0x200;
    pub const EQUALIZE: u32 = 0x400;
    pub const PREFIX: u32 = 0x800;
    pub const LOOKUP_TABLE: u32 = 0x1000;
    pub const FIB_MATCH: u32 = 0x2000;
    pub const OFFLOAD: u32 = 0x4000;
    pub const TRAP: u32 = 0x8000;
    pub const OFFLOAD_FAILED: u32 = 0x20000000;
}

/// Multicast groups by number (`RTNLGRP_*`).
pub mod grp {
    pub const NONE: u32 = 0;
    pub const LINK: u32 = 1;
    pub const NOTIFY: u32 = 2;
    pub const NEIGH: u32 = 3;
    pub const TC: u32 = 4;
    pub const IPV4_IFADDR: u32 = 5;
    pub const IPV4_MROUTE: u32 = 6;
    pub const IPV4_ROUTE: u32 = 7;
    pub const IPV4_RULE: u32 = 8;
    pub const IPV6_IFADDR: u32 = 9;
    pub const IPV6_MROUTE: u32 = 10;
    pub const IPV6_ROUTE: u32 = 11;
    pub const IPV6_IFINFO: u32 = 12;
    pub const DECNET_IFADDR: u32 = 13;
    pub const DECNET_ROUTE: u32 = 15;
    pub const DECNET_RULE: u32 = 16;
    pub const IPV6_PREFIX: u32 = 18;
    pub const IPV6_RULE: u32 = 19;
    pub const ND_USEROPT: u32 = 20;
    pub const PHONET_IFADDR: u32 = 21;
    pub const PHONET_ROUTE: u32 = 22;
    pub const DCB: u32 = 23;
    pub const IPV4_NETCONF: u32 = 24;
    pub const IPV6_NETCONF: u32 = 25;
    pub const MDB: u32 = 26;
    pub const MPLS_ROUTE: u32 = 27;
    pub const NSID: u32 = 28;
    pub const MPLS_NETCONF: u32 = 29;
    pub const IPV4_MROUTE_R: u32 = 30;
    pub const IPV6_MROUTE_R: u32 = 31;
    pub const NEXTHOP: u32 = 32;
    pub const BRVLAN: u32 = 33;
    pub const MCTP_IFADDR: u32 = 34;
    pub const TUNNEL: u32 = 35;
    pub const STATS: u32 = 36;
    pub const NOP2: u32 = 14;
    pub const NOP4: u32 = 17;
    pub const MAX: u32 = 36;
}

/// The old multicast group bits of `sockaddr_nl.nl_groups` (`RTMGRP_*`).
pub mod mgrp {
    pub const LINK: u32 = 0x1;
    pub const NOTIFY: u32 = 0x2;
    pub const NEIGH: u32 = 0x4;
    pub const TC: u32 = 0x8;
    pub const IPV4_IFADDR: u32 = 0x10;
    pub const IPV4_MROUTE: u32 = 0x20;
    pub const IPV4_ROUTE: u32 = 0x40;
    pub const IPV4_RULE: u32 = 0x80;
    pub const IPV6_IFADDR: u32 = 0x100;
    pub const IPV6_MROUTE: u32 = 0x200;
    pub const IPV6_ROUTE: u32 = 0x400;
    pub const IPV6_IFINFO: u32 = 0x800;
    pub const DECNET_IFADDR: u32 = 0x1000;
    pub const DECNET_ROUTE: u32 = 0x4000;
    pub const IPV6_PREFIX: u32 = 0x20000;
}

/// `IFLA_EXT_MASK` bits (`RTEXT_FILTER_*`).
pub mod ext_filter {
    pub const VF: u32 = 1;
    pub const BRVLAN: u32 = 2;
    pub const BRVLAN_COMPRESSED: u32 = 4;
    pub const SKIP_STATS: u32 = 8;
    pub const MRP: u32 = 16;
    pub const CFM_CONFIG: u32 = 32;
    pub const CFM_STATUS: u32 = 64;
    pub const MST: u32 = 128;
}

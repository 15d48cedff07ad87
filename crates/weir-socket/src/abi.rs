// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of Linux's socket interface (`include/uapi/linux/{in,in6,udp,if_packet,errqueue}.h`,
//! `include/uapi/asm-generic/socket.h`).
#![allow(missing_docs, dead_code)] // the names are Linux's, and each list is whole

pub const AF_INET: u16 = 2;
pub const AF_INET6: u16 = 10;
pub const AF_PACKET: u16 = 17;

pub const SOCK_STREAM: i32 = 1;
pub const SOCK_DGRAM: i32 = 2;
pub const SOCK_RAW: i32 = 3;
/// The number of types of sockets (`SOCK_MAX`).
pub const SOCK_MAX: i32 = 11;

pub const IPPROTO_IP: i32 = 0;
pub const IPPROTO_ICMP: i32 = 1;
pub const IPPROTO_IGMP: u8 = 2;
pub const IPPROTO_TCP: i32 = 6;
pub const IPPROTO_UDP: i32 = 17;
pub const IPPROTO_ICMPV6: i32 = 58;
pub const IPPROTO_RAW: i32 = 255;

pub const SOL_IP: i32 = 0;
pub const SOL_SOCKET: i32 = 1;
pub const SOL_TCP: i32 = 6;
pub const SOL_UDP: i32 = 17;
pub const SOL_IPV6: i32 = 41;
pub const SOL_ICMPV6: i32 = 58;
pub const SOL_RAW: i32 = 255;
pub const SOL_PACKET: i32 = 263;

pub const MSG_OOB: i32 = 1;
pub const MSG_DONTROUTE: i32 = 4;
pub const MSG_PROBE: i32 = 0x10;
pub const MSG_MORE: i32 = 0x8000;
pub const MSG_ERRQUEUE: i32 = 0x2000;

/// `MRT_*`
pub mod mrt {
    pub const INIT: i32 = 200;
    pub const DONE: i32 = 201;
    pub const ADD_VIF: i32 = 202;
    pub const DEL_VIF: i32 = 203;
    pub const ADD_MFC: i32 = 204;
    pub const DEL_MFC: i32 = 205;
    pub const VERSION: i32 = 206;
    pub const ASSERT: i32 = 207;
    pub const PIM: i32 = 208;
    pub const TABLE: i32 = 209;
    pub const ADD_MFC_PROXY: i32 = 210;
    pub const DEL_MFC_PROXY: i32 = 211;
    pub const FLUSH: i32 = 212;
    pub const MAX: i32 = 212;
}

/// `SO_*`
pub mod so {
    pub const DEBUG: i32 = 1;
    pub const REUSEADDR: i32 = 2;
    pub const TYPE: i32 = 3;
    pub const ERROR: i32 = 4;
    pub const DONTROUTE: i32 = 5;
    pub const BROADCAST: i32 = 6;
    pub const SNDBUF: i32 = 7;
    pub const RCVBUF: i32 = 8;
    pub const KEEPALIVE: i32 = 9;
    pub const OOBINLINE: i32 = 10;
    pub const NO_CHECK: i32 = 11;
    pub const PRIORITY: i32 = 12;
    pub const LINGER: i32 = 13;
    pub const BSDCOMPAT: i32 = 14;
    pub const REUSEPORT: i32 = 15;
    pub const PASSCRED: i32 = 16;
    pub const PEERCRED: i32 = 17;
    pub const RCVLOWAT: i32 = 18;
    pub const SNDLOWAT: i32 = 19;
    pub const RCVTIMEO_OLD: i32 = 20;
    pub const SNDTIMEO_OLD: i32 = 21;
    pub const BINDTODEVICE: i32 = 25;
    pub const ATTACH_FILTER: i32 = 26;
    pub const DETACH_FILTER: i32 = 27;
    pub const TIMESTAMP_OLD: i32 = 29;
    pub const ACCEPTCONN: i32 = 30;
    pub const SNDBUFFORCE: i32 = 32;
    pub const RCVBUFFORCE: i32 = 33;
    pub const PASSSEC: i32 = 34;
    pub const TIMESTAMPNS_OLD: i32 = 35;
    pub const MARK: i32 = 36;
    pub const TIMESTAMPING_OLD: i32 = 37;
    pub const PROTOCOL: i32 = 38;
    pub const DOMAIN: i32 = 39;
    pub const RXQ_OVFL: i32 = 40;
    pub const PEEK_OFF: i32 = 42;
    pub const NOFCS: i32 = 43;
    pub const LOCK_FILTER: i32 = 44;
    pub const SELECT_ERR_QUEUE: i32 = 45;
    pub const BUSY_POLL: i32 = 46;
    pub const MAX_PACING_RATE: i32 = 47;
    pub const BPF_EXTENSIONS: i32 = 48;
    pub const INCOMING_CPU: i32 = 49;
    pub const MEMINFO: i32 = 55;
    pub const INCOMING_NAPI_ID: i32 = 56;
    pub const COOKIE: i32 = 57;
    pub const BINDTOIFINDEX: i32 = 62;
    pub const TIMESTAMP_NEW: i32 = 63;
    pub const TIMESTAMPNS_NEW: i32 = 64;
    pub const TIMESTAMPING_NEW: i32 = 65;
    pub const RCVTIMEO_NEW: i32 = 66;
    pub const SNDTIMEO_NEW: i32 = 67;
    pub const NETNS_COOKIE: i32 = 71;
    pub const BUF_LOCK: i32 = 72;
    pub const TXREHASH: i32 = 74;
    pub const RCVMARK: i32 = 75;
}

/// `IP_*`
pub mod ip {
    pub const TOS: i32 = 1;
    pub const TTL: i32 = 2;
    pub const HDRINCL: i32 = 3;
    pub const OPTIONS: i32 = 4;
    pub const ROUTER_ALERT: i32 = 5;
    pub const RECVOPTS: i32 = 6;
    pub const RETOPTS: i32 = 7;
    pub const PKTINFO: i32 = 8;
    pub const MTU_DISCOVER: i32 = 10;
    pub const RECVERR: i32 = 11;
    pub const RECVTTL: i32 = 12;
    pub const RECVTOS: i32 = 13;
    pub const MTU: i32 = 14;
    pub const FREEBIND: i32 = 15;
    pub const PASSSEC: i32 = 18;
    pub const TRANSPARENT: i32 = 19;
    pub const RECVORIGDSTADDR: i32 = 20;
    pub const MINTTL: i32 = 21;
    pub const NODEFRAG: i32 = 22;
    pub const CHECKSUM: i32 = 23;
    pub const BIND_ADDRESS_NO_PORT: i32 = 24;
    pub const RECVFRAGSIZE: i32 = 25;
    pub const RECVERR_RFC4884: i32 = 26;
    pub const MULTICAST_IF: i32 = 32;
    pub const MULTICAST_TTL: i32 = 33;
    pub const MULTICAST_LOOP: i32 = 34;
    pub const ADD_MEMBERSHIP: i32 = 35;
    pub const DROP_MEMBERSHIP: i32 = 36;
    pub const UNBLOCK_SOURCE: i32 = 37;
    pub const BLOCK_SOURCE: i32 = 38;
    pub const ADD_SOURCE_MEMBERSHIP: i32 = 39;
    pub const DROP_SOURCE_MEMBERSHIP: i32 = 40;
    pub const MULTICAST_ALL: i32 = 49;
    pub const UNICAST_IF: i32 = 50;
}

/// `MCAST_*`, which both families have.
pub mod mcast {
    pub const JOIN_GROUP: i32 = 42;
    pub const BLOCK_SOURCE: i32 = 43;
    pub const UNBLOCK_SOURCE: i32 = 44;
    pub const LEAVE_GROUP: i32 = 45;
    pub const JOIN_SOURCE_GROUP: i32 = 46;
    pub const LEAVE_SOURCE_GROUP: i32 = 47;
}

/// `IPV6_*`
pub mod ipv6 {
    pub const ADDRFORM: i32 = 1;
    pub const PKTINFO_2292: i32 = 2;
    pub const CHECKSUM: i32 = 7;
    pub const HOPLIMIT_2292: i32 = 8;
    pub const FLOWINFO: i32 = 11;
    pub const UNICAST_HOPS: i32 = 16;
    pub const MULTICAST_IF: i32 = 17;
    pub const MULTICAST_HOPS: i32 = 18;
    pub const MULTICAST_LOOP: i32 = 19;
    pub const JOIN_GROUP: i32 = 20;
    pub const LEAVE_GROUP: i32 = 21;
    pub const ROUTER_ALERT: i32 = 22;
    pub const MTU_DISCOVER: i32 = 23;
    pub const MTU: i32 = 24;
    pub const RECVERR: i32 = 25;
    pub const V6ONLY: i32 = 26;
    pub const JOIN_ANYCAST: i32 = 27;
    pub const LEAVE_ANYCAST: i32 = 28;
    pub const MULTICAST_ALL: i32 = 29;
    pub const RECVERR_RFC4884: i32 = 31;
    pub const FLOWINFO_SEND: i32 = 33;
    pub const HDRINCL: i32 = 36;
    pub const RECVPKTINFO: i32 = 49;
    pub const PKTINFO: i32 = 50;
    pub const RECVHOPLIMIT: i32 = 51;
    pub const HOPLIMIT: i32 = 52;
    pub const RECVHOPOPTS: i32 = 53;
    pub const RECVRTHDR: i32 = 56;
    pub const RECVDSTOPTS: i32 = 58;
    pub const RECVPATHMTU: i32 = 60;
    pub const PATHMTU: i32 = 61;
    pub const DONTFRAG: i32 = 62;
    pub const RECVTCLASS: i32 = 66;
    pub const TCLASS: i32 = 67;
    pub const AUTOFLOWLABEL: i32 = 70;
    pub const ADDR_PREFERENCES: i32 = 72;
    pub const MINHOPCOUNT: i32 = 73;
    pub const RECVORIGDSTADDR: i32 = 74;
    pub const TRANSPARENT: i32 = 75;
    pub const UNICAST_IF: i32 = 76;
    pub const RECVFRAGSIZE: i32 = 77;
    pub const FREEBIND: i32 = 78;
}

/// `UDP_*`
pub mod udp {
    pub const CORK: i32 = 1;
    pub const ENCAP: i32 = 100;
    pub const NO_CHECK6_TX: i32 = 101;
    pub const NO_CHECK6_RX: i32 = 102;
    pub const SEGMENT: i32 = 103;
    pub const GRO: i32 = 104;
}

/// `IP_PMTUDISC_*`, with the same values for IPv6.
pub mod pmtudisc {
    pub const DONT: u8 = 0;
    pub const WANT: u8 = 1;
    pub const DO: u8 = 2;
    pub const PROBE: u8 = 3;
    pub const INTERFACE: u8 = 4;
    pub const OMIT: u8 = 5;
}

/// `SO_EE_ORIGIN_*`
pub mod origin {
    pub const LOCAL: u8 = 1;
    pub const ICMP: u8 = 2;
    pub const ICMP6: u8 = 3;
}

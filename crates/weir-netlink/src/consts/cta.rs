// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of connections (`CTA_*`). All integers are in network byte order.
//!
//! Names and values are those of Linux 6.1 (`linux/netfilter/nfnetlink_conntrack.h`) without their
//! prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const TUPLE_ORIG: u16 = 1;
pub const TUPLE_REPLY: u16 = 2;
pub const STATUS: u16 = 3;
pub const PROTOINFO: u16 = 4;
pub const HELP: u16 = 5;
pub const NAT_SRC: u16 = 6;
pub const TIMEOUT: u16 = 7;
pub const MARK: u16 = 8;
pub const COUNTERS_ORIG: u16 = 9;
pub const COUNTERS_REPLY: u16 = 10;
pub const USE: u16 = 11;
pub const ID: u16 = 12;
pub const NAT_DST: u16 = 13;
pub const TUPLE_MASTER: u16 = 14;
pub const SEQ_ADJ_ORIG: u16 = 15;
pub const SEQ_ADJ_REPLY: u16 = 16;
pub const SECMARK: u16 = 17;
pub const ZONE: u16 = 18;
pub const SECCTX: u16 = 19;
pub const TIMESTAMP: u16 = 20;
pub const MARK_MASK: u16 = 21;
pub const LABELS: u16 = 22;
pub const LABELS_MASK: u16 = 23;
pub const SYNPROXY: u16 = 24;
pub const FILTER: u16 = 25;
pub const STATUS_MASK: u16 = 26;
pub const MAX: u16 = 26;

/// In `TUPLE_*` (`CTA_TUPLE_*`).
pub mod tuple {
    pub const IP: u16 = 1;
    pub const PROTO: u16 = 2;
    pub const ZONE: u16 = 3;
    pub const MAX: u16 = 3;
}

/// In `tuple::IP` (`CTA_IP_*`).
pub mod ip {
    pub const V4_SRC: u16 = 1;
    pub const V4_DST: u16 = 2;
    pub const V6_SRC: u16 = 3;
    pub const V6_DST: u16 = 4;
    pub const MAX: u16 = 4;
}

/// In `tuple::PROTO` (`CTA_PROTO_*`).
pub mod proto {
    pub const NUM: u16 = 1;
    pub const SRC_PORT: u16 = 2;
    pub const DST_PORT: u16 = 3;
    pub const ICMP_ID: u16 = 4;
    pub const ICMP_TYPE: u16 = 5;
    pub const ICMP_CODE: u16 = 6;
    pub const ICMPV6_ID: u16 = 7;
    pub const ICMPV6_TYPE: u16 = 8;
    pub const ICMPV6_CODE: u16 = 9;
    pub const MAX: u16 = 9;
}

/// In `PROTOINFO` (`CTA_PROTOINFO_*`).
pub mod protoinfo {
    pub const TCP: u16 = 1;
    pub const DCCP: u16 = 2;
    pub const SCTP: u16 = 3;
    pub const MAX: u16 = 3;
}

/// In `protoinfo::DCCP` (`CTA_PROTOINFO_DCCP_*`).
pub mod dccp {
    pub const STATE: u16 = 1;
    pub const ROLE: u16 = 2;
    pub const HANDSHAKE_SEQ: u16 = 3;
    pub const MAX: u16 = 4;
}

/// In `protoinfo::SCTP` (`CTA_PROTOINFO_SCTP_*`).
pub mod sctp {
    pub const STATE: u16 = 1;
    pub const VTAG_ORIGINAL: u16 = 2;
    pub const VTAG_REPLY: u16 = 3;
    pub const MAX: u16 = 3;
}

/// In `protoinfo::TCP` (`CTA_PROTOINFO_TCP_*`).
pub mod tcp {
    pub const STATE: u16 = 1;
    pub const WSCALE_ORIGINAL: u16 = 2;
    pub const WSCALE_REPLY: u16 = 3;
    pub const FLAGS_ORIGINAL: u16 = 4;
    pub const FLAGS_REPLY: u16 = 5;
    pub const MAX: u16 = 5;
}

/// In `COUNTERS_*` (`CTA_COUNTERS_*`).
pub mod counters {
    pub const PACKETS: u16 = 1;
    pub const BYTES: u16 = 2;
}

/// In `TIMESTAMP` (`CTA_TIMESTAMP_*`).
pub mod timestamp {
    pub const START: u16 = 1;
    pub const STOP: u16 = 2;
}

/// In `HELP` (`CTA_HELP_*`).
pub mod help {
    pub const NAME: u16 = 1;
    pub const INFO: u16 = 2;
    pub const MAX: u16 = 2;
}

/// In `NAT_SRC` and `NAT_DST` (`CTA_NAT_*`).
pub mod nat {
    pub const V4_MINIP: u16 = 1;
    pub const V4_MAXIP: u16 = 2;
    pub const PROTO: u16 = 3;
    pub const V6_MINIP: u16 = 4;
    pub const V6_MAXIP: u16 = 5;
    pub const MAX: u16 = 5;
}

/// In `nat::PROTO` (`CTA_PROTONAT_*`).
pub mod protonat {
    pub const PORT_MIN: u16 = 1;
    pub const PORT_MAX: u16 = 2;
    pub const MAX: u16 = 2;
}

/// In `FILTER` (`CTA_FILTER_*`), in host byte order.
pub mod filter {
    pub const ORIG_FLAGS: u16 = 1;
    pub const REPLY_FLAGS: u16 = 2;
    pub const MAX: u16 = 2;
}

/// Bits of `filter::ORIG_FLAGS` and `filter::REPLY_FLAGS` (`CTA_FILTER_F_*`).
pub mod filter_flag {
    pub const IP_SRC: u32 = 1;
    pub const IP_DST: u32 = 1 << 1;
    pub const TUPLE_ZONE: u32 = 1 << 2;
    pub const PROTO_NUM: u32 = 1 << 3;
    pub const PROTO_SRC_PORT: u32 = 1 << 4;
    pub const PROTO_DST_PORT: u32 = 1 << 5;
    pub const PROTO_ICMP_TYPE: u32 = 1 << 6;
    pub const PROTO_ICMP_CODE: u32 = 1 << 7;
    pub const PROTO_ICMP_ID: u32 = 1 << 8;
    pub const PROTO_ICMPV6_TYPE: u32 = 1 << 9;
    pub const PROTO_ICMPV6_CODE: u32 = 1 << 10;
    pub const PROTO_ICMPV6_ID: u32 = 1 << 11;
    pub const ALL: u32 = (1 << 12) - 1;
}

/// Of a CPU's counters (`CTA_STATS_*`).
pub mod stats {
    pub const SEARCHED: u16 = 1;
    pub const FOUND: u16 = 2;
    pub const NEW: u16 = 3;
    pub const INVALID: u16 = 4;
    pub const IGNORE: u16 = 5;
    pub const DELETE: u16 = 6;
    pub const DELETE_LIST: u16 = 7;
    pub const INSERT: u16 = 8;
    pub const INSERT_FAILED: u16 = 9;
    pub const DROP: u16 = 10;
    pub const EARLY_DROP: u16 = 11;
    pub const ERROR: u16 = 12;
    pub const SEARCH_RESTART: u16 = 13;
    pub const CLASH_RESOLVE: u16 = 14;
    pub const CHAIN_TOOLONG: u16 = 15;
}

/// Of the table's counters (`CTA_STATS_GLOBAL_*`).
pub mod stats_global {
    pub const ENTRIES: u16 = 1;
    pub const MAX_ENTRIES: u16 = 2;
}

/// Of the expectations' counters (`CTA_STATS_EXP_*`).
pub mod stats_exp {
    pub const NEW: u16 = 1;
    pub const CREATE: u16 = 2;
    pub const DELETE: u16 = 3;
}

/// Of expectations (`CTA_EXPECT_*`).
pub mod expect {
    pub const MASTER: u16 = 1;
    pub const TUPLE: u16 = 2;
    pub const MASK: u16 = 3;
    pub const TIMEOUT: u16 = 4;
    pub const ID: u16 = 5;
    pub const HELP_NAME: u16 = 6;
    pub const ZONE: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const CLASS: u16 = 9;
    pub const NAT: u16 = 10;
    pub const FN: u16 = 11;
    pub const MAX: u16 = 11;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours: attributes (`NDA_*`), states, flags, tables.
//!
//! Names and values are those of Linux 6.1 (`linux/neighbour.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const DST: u16 = 1;
pub const LLADDR: u16 = 2;
pub const CACHEINFO: u16 = 3;
pub const PROBES: u16 = 4;
pub const VLAN: u16 = 5;
pub const PORT: u16 = 6;
pub const VNI: u16 = 7;
pub const IFINDEX: u16 = 8;
pub const MASTER: u16 = 9;
pub const LINK_NETNSID: u16 = 10;
pub const SRC_VNI: u16 = 11;
pub const PROTOCOL: u16 = 12;
pub const NH_ID: u16 = 13;
pub const FDB_EXT_ATTRS: u16 = 14;
pub const FLAGS_EXT: u16 = 15;
pub const NDM_STATE_MASK: u16 = 16;
pub const NDM_FLAGS_MASK: u16 = 17;
pub const MAX: u16 = 17;

/// Entry flags of `ndmsg.flags` (`NTF_*`).
pub mod ntf {
    pub const USE: u8 = 0x1;
    pub const SELF: u8 = 0x2;
    pub const MASTER: u8 = 0x4;
    pub const PROXY: u8 = 0x8;
    pub const EXT_LEARNED: u8 = 0x10;
    pub const OFFLOADED: u8 = 0x20;
    pub const STICKY: u8 = 0x40;
    pub const ROUTER: u8 = 0x80;
}

/// Extended flags for `NDA_FLAGS_EXT`.
pub mod ntf_ext {
    pub const LEARNED: u32 = 0x10;
    pub const MANAGED: u32 = 0x1;
}

/// Entry states (`NUD_*`).
pub mod nud {
    pub const NONE: u16 = 0x0;
    pub const INCOMPLETE: u16 = 0x1;
    pub const REACHABLE: u16 = 0x2;
    pub const STALE: u16 = 0x4;
    pub const DELAY: u16 = 0x8;
    pub const PROBE: u16 = 0x10;
    pub const FAILED: u16 = 0x20;
    pub const NOARP: u16 = 0x40;
    pub const PERMANENT: u16 = 0x80;
}

/// Table attributes (`NDTA_*`).
pub mod tbl {
    pub const UNSPEC: u16 = 0;
    pub const NAME: u16 = 1;
    pub const THRESH1: u16 = 2;
    pub const THRESH2: u16 = 3;
    pub const THRESH3: u16 = 4;
    pub const CONFIG: u16 = 5;
    pub const PARMS: u16 = 6;
    pub const STATS: u16 = 7;
    pub const GC_INTERVAL: u16 = 8;
    pub const PAD: u16 = 9;
    pub const MAX: u16 = 9;
}

/// Table parameters, nested in `NDTA_PARMS` (`NDTPA_*`).
pub mod parms {
    pub const UNSPEC: u16 = 0;
    pub const IFINDEX: u16 = 1;
    pub const REFCNT: u16 = 2;
    pub const REACHABLE_TIME: u16 = 3;
    pub const BASE_REACHABLE_TIME: u16 = 4;
    pub const RETRANS_TIME: u16 = 5;
    pub const GC_STALETIME: u16 = 6;
    pub const DELAY_PROBE_TIME: u16 = 7;
    pub const QUEUE_LEN: u16 = 8;
    pub const APP_PROBES: u16 = 9;
    pub const UCAST_PROBES: u16 = 10;
    pub const MCAST_PROBES: u16 = 11;
    pub const ANYCAST_DELAY: u16 = 12;
    pub const PROXY_DELAY: u16 = 13;
    pub const PROXY_QLEN: u16 = 14;
    pub const LOCKTIME: u16 = 15;
    pub const QUEUE_LENBYTES: u16 = 16;
    pub const MCAST_REPROBES: u16 = 17;
    pub const PAD: u16 = 18;
    pub const INTERVAL_PROBE_TIME_MS: u16 = 19;
    pub const MAX: u16 = 19;
}

/// Nested in `NDA_FDB_EXT_ATTRS` (`NFEA_*`).
pub mod fdb_ext {
    pub const UNSPEC: u16 = 0;
    pub const ACTIVITY_NOTIFY: u16 = 1;
    pub const DONT_REFRESH: u16 = 2;
    pub const MAX: u16 = 2;
}

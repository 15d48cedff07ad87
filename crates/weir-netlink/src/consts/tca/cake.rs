// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `cake`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PAD: u16 = 1;
pub const BASE_RATE64: u16 = 2;
pub const DIFFSERV_MODE: u16 = 3;
pub const ATM: u16 = 4;
pub const FLOW_MODE: u16 = 5;
pub const OVERHEAD: u16 = 6;
pub const RTT: u16 = 7;
pub const TARGET: u16 = 8;
pub const AUTORATE: u16 = 9;
pub const MEMORY: u16 = 10;
pub const NAT: u16 = 11;
pub const RAW: u16 = 12;
pub const WASH: u16 = 13;
pub const MPU: u16 = 14;
pub const INGRESS: u16 = 15;
pub const ACK_FILTER: u16 = 16;
pub const SPLIT_GSO: u16 = 17;
pub const FWMARK: u16 = 18;
pub const MAX: u16 = 18;

/// Nested in the statistics of `cake`.
pub mod stats {
    pub const PAD: u16 = 1;
    pub const CAPACITY_ESTIMATE64: u16 = 2;
    pub const MEMORY_LIMIT: u16 = 3;
    pub const MEMORY_USED: u16 = 4;
    pub const AVG_NETOFF: u16 = 5;
    pub const MIN_NETLEN: u16 = 6;
    pub const MAX_NETLEN: u16 = 7;
    pub const MIN_ADJLEN: u16 = 8;
    pub const MAX_ADJLEN: u16 = 9;
    pub const TIN_STATS: u16 = 10;
    pub const DEFICIT: u16 = 11;
    pub const COBALT_COUNT: u16 = 12;
    pub const DROPPING: u16 = 13;
    pub const DROP_NEXT_US: u16 = 14;
    pub const P_DROP: u16 = 15;
    pub const BLUE_TIMER_US: u16 = 16;
    pub const MAX: u16 = 16;
}

/// Statistics of one tin.
pub mod tin_stats {
    pub const PAD: u16 = 1;
    pub const SENT_PACKETS: u16 = 2;
    pub const SENT_BYTES64: u16 = 3;
    pub const DROPPED_PACKETS: u16 = 4;
    pub const DROPPED_BYTES64: u16 = 5;
    pub const ACKS_DROPPED_PACKETS: u16 = 6;
    pub const ACKS_DROPPED_BYTES64: u16 = 7;
    pub const ECN_MARKED_PACKETS: u16 = 8;
    pub const ECN_MARKED_BYTES64: u16 = 9;
    pub const BACKLOG_PACKETS: u16 = 10;
    pub const BACKLOG_BYTES: u16 = 11;
    pub const THRESHOLD_RATE64: u16 = 12;
    pub const TARGET_US: u16 = 13;
    pub const INTERVAL_US: u16 = 14;
    pub const WAY_INDIRECT_HITS: u16 = 15;
    pub const WAY_MISSES: u16 = 16;
    pub const WAY_COLLISIONS: u16 = 17;
    pub const PEAK_DELAY_US: u16 = 18;
    pub const AVG_DELAY_US: u16 = 19;
    pub const BASE_DELAY_US: u16 = 20;
    pub const SPARSE_FLOWS: u16 = 21;
    pub const BULK_FLOWS: u16 = 22;
    pub const UNRESPONSIVE_FLOWS: u16 = 23;
    pub const MAX_SKBLEN: u16 = 24;
    pub const FLOW_QUANTUM: u16 = 25;
    pub const MAX: u16 = 25;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `fq`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PLIMIT: u16 = 1;
pub const FLOW_PLIMIT: u16 = 2;
pub const QUANTUM: u16 = 3;
pub const INITIAL_QUANTUM: u16 = 4;
pub const RATE_ENABLE: u16 = 5;
pub const FLOW_DEFAULT_RATE: u16 = 6;
pub const FLOW_MAX_RATE: u16 = 7;
pub const BUCKETS_LOG: u16 = 8;
pub const FLOW_REFILL_DELAY: u16 = 9;
pub const ORPHAN_MASK: u16 = 10;
pub const LOW_RATE_THRESHOLD: u16 = 11;
pub const CE_THRESHOLD: u16 = 12;
pub const TIMER_SLACK: u16 = 13;
pub const HORIZON: u16 = 14;
pub const HORIZON_DROP: u16 = 15;
pub const MAX: u16 = 15;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `fq_codel`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const XSTATS_QDISC: u16 = 0;
pub const TARGET: u16 = 1;
pub const XSTATS_CLASS: u16 = 1;
pub const LIMIT: u16 = 2;
pub const INTERVAL: u16 = 3;
pub const ECN: u16 = 4;
pub const FLOWS: u16 = 5;
pub const QUANTUM: u16 = 6;
pub const CE_THRESHOLD: u16 = 7;
pub const DROP_BATCH_SIZE: u16 = 8;
pub const MEMORY_LIMIT: u16 = 9;
pub const CE_THRESHOLD_SELECTOR: u16 = 10;
pub const CE_THRESHOLD_MASK: u16 = 11;
pub const MAX: u16 = 11;

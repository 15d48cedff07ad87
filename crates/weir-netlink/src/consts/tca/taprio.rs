// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `taprio`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const FLAG_TXTIME_ASSIST: u16 = 1;
pub const PRIOMAP: u16 = 1;
pub const FLAG_FULL_OFFLOAD: u16 = 2;
pub const SCHED_ENTRY_LIST: u16 = 2;
pub const SCHED_BASE_TIME: u16 = 3;
pub const SCHED_SINGLE_ENTRY: u16 = 4;
pub const SCHED_CLOCKID: u16 = 5;
pub const PAD: u16 = 6;
pub const ADMIN_SCHED: u16 = 7;
pub const SCHED_CYCLE_TIME: u16 = 8;
pub const SCHED_CYCLE_TIME_EXTENSION: u16 = 9;
pub const FLAGS: u16 = 10;
pub const TXTIME_DELAY: u16 = 11;
pub const TC_ENTRY: u16 = 12;
pub const MAX: u16 = 12;

/// In `SCHED_ENTRY_LIST`.
pub const SCHED_ENTRY: u16 = 1;

/// In `SCHED_ENTRY`.
pub const ENTRY_INDEX: u16 = 1;
pub const ENTRY_CMD: u16 = 2;
pub const ENTRY_GATE_MASK: u16 = 3;
pub const ENTRY_INTERVAL: u16 = 4;
pub const ENTRY_MAX: u16 = 4;

/// In `TC_ENTRY`.
pub const TC_ENTRY_INDEX: u16 = 1;
pub const TC_ENTRY_MAX_SDU: u16 = 2;
pub const TC_ENTRY_MAX: u16 = 2;

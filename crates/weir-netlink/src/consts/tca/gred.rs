// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `gred`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const VQ_ENTRY_UNSPEC: u16 = 0;
pub const VQ_UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const VQ_ENTRY: u16 = 1;
pub const VQ_ENTRY_MAX: u16 = 1;
pub const VQ_PAD: u16 = 1;
pub const STAB: u16 = 2;
pub const VQ_DP: u16 = 2;
pub const DPS: u16 = 3;
pub const VQ_STAT_BYTES: u16 = 3;
pub const MAX_P: u16 = 4;
pub const VQ_STAT_PACKETS: u16 = 4;
pub const LIMIT: u16 = 5;
pub const VQ_STAT_BACKLOG: u16 = 5;
pub const VQ_LIST: u16 = 6;
pub const VQ_STAT_PROB_DROP: u16 = 6;
pub const VQ_STAT_PROB_MARK: u16 = 7;
pub const VQ_STAT_FORCED_DROP: u16 = 8;
pub const VQ_STAT_FORCED_MARK: u16 = 9;
pub const VQ_STAT_PDROP: u16 = 10;
pub const VQ_STAT_OTHER: u16 = 11;
pub const VQ_FLAGS: u16 = 12;
pub const VQ_MAX: u16 = 12;
pub const MAX: u16 = 6;

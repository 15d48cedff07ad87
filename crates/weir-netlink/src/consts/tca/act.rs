// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes common to all actions (`TCA_ACT_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const KIND: u16 = 1;
pub const OPTIONS: u16 = 2;
pub const INDEX: u16 = 3;
pub const STATS: u16 = 4;
pub const PAD: u16 = 5;
pub const COOKIE: u16 = 6;
pub const FLAGS: u16 = 7;
pub const HW_STATS: u16 = 8;
pub const USED_HW_STATS: u16 = 9;
pub const IN_HW_COUNT: u16 = 10;
pub const MAX: u16 = 11;

// Flags.
pub const FLAGS_NO_PERCPU_STATS: u32 = 0x1;
pub const FLAGS_SKIP_HW: u32 = 0x2;
pub const FLAGS_SKIP_SW: u32 = 0x4;
pub const HW_STATS_IMMEDIATE: u32 = 1;
pub const HW_STATS_DELAYED: u32 = 2;
pub const MAX_PRIO: u32 = 32;
pub const BIND: u32 = 1;
pub const NOBIND: u32 = 0;
pub const UNBIND: u32 = 1;
pub const NOUNBIND: u32 = 0;
pub const REPLACE: u32 = 1;
pub const NOREPLACE: u32 = 0;

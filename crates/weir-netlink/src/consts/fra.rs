// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy rules: attributes (`FRA_*`), flags and actions.
//!
//! Names and values are those of Linux 6.1 (`linux/fib_rules.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const DST: u16 = 1;
pub const SRC: u16 = 2;
pub const IFNAME: u16 = 3;
pub const IIFNAME: u16 = 3;
pub const GOTO: u16 = 4;
pub const UNUSED2: u16 = 5;
pub const PRIORITY: u16 = 6;
pub const UNUSED3: u16 = 7;
pub const UNUSED4: u16 = 8;
pub const UNUSED5: u16 = 9;
pub const FWMARK: u16 = 10;
pub const FLOW: u16 = 11;
pub const TUN_ID: u16 = 12;
pub const SUPPRESS_IFGROUP: u16 = 13;
pub const SUPPRESS_PREFIXLEN: u16 = 14;
pub const TABLE: u16 = 15;
pub const FWMASK: u16 = 16;
pub const OIFNAME: u16 = 17;
pub const PAD: u16 = 18;
pub const L3MDEV: u16 = 19;
pub const UID_RANGE: u16 = 20;
pub const PROTOCOL: u16 = 21;
pub const IP_PROTO: u16 = 22;
pub const SPORT_RANGE: u16 = 23;
pub const DPORT_RANGE: u16 = 24;
pub const MAX: u16 = 24;

/// Rule flags (`FIB_RULE_*`).
pub mod f {
    pub const PERMANENT: u32 = 1;
    pub const INVERT: u32 = 2;
    pub const UNRESOLVED: u32 = 4;
    pub const IIF_DETACHED: u32 = 8;
    pub const DEV_DETACHED: u32 = 8;
    pub const OIF_DETACHED: u32 = 16;
    pub const FIND_SADDR: u32 = 0x10000;
}

/// Rule actions (`FR_ACT_*`).
pub mod act {
    pub const UNSPEC: u8 = 0;
    pub const TO_TBL: u8 = 1;
    pub const GOTO: u8 = 2;
    pub const NOP: u8 = 3;
    pub const RES3: u8 = 4;
    pub const RES4: u8 = 5;
    pub const BLACKHOLE: u8 = 6;
    pub const UNREACHABLE: u8 = 7;
    pub const PROHIBIT: u8 = 8;
    pub const MAX: u8 = 8;
}

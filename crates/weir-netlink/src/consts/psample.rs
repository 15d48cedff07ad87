// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic netlink family `psample`.
//!
//! Names and values are those of Linux 6.1 (`linux/psample.h`) without the prefixes `PSAMPLE_` and
//! `PSAMPLE_ATTR_`.
#![allow(missing_docs)] // The names are Linux's.

pub const GENL_NAME: &str = "psample";
pub const GENL_VERSION: u8 = 1;
pub const NL_MCGRP_CONFIG_NAME: &str = "config";
pub const NL_MCGRP_SAMPLE_NAME: &str = "packets";

pub const CMD_SAMPLE: u8 = 0;
pub const CMD_GET_GROUP: u8 = 1;
pub const CMD_NEW_GROUP: u8 = 2;
pub const CMD_DEL_GROUP: u8 = 3;

pub const IIFINDEX: u16 = 0;
pub const OIFINDEX: u16 = 1;
pub const ORIGSIZE: u16 = 2;
pub const SAMPLE_GROUP: u16 = 3;
pub const GROUP_SEQ: u16 = 4;
pub const SAMPLE_RATE: u16 = 5;
pub const DATA: u16 = 6;
pub const GROUP_REFCOUNT: u16 = 7;
pub const TUNNEL: u16 = 8;
pub const PAD: u16 = 9;
pub const OUT_TC: u16 = 10;
pub const OUT_TC_OCC: u16 = 11;
pub const LATENCY: u16 = 12;
pub const TIMESTAMP: u16 = 13;
pub const PROTO: u16 = 14;
pub const MAX: u16 = 14;

/// In `TUNNEL` (`PSAMPLE_TUNNEL_KEY_ATTR_*`).
pub mod tunnel_key {
    pub const ID: u16 = 0;
    pub const IPV4_SRC: u16 = 1;
    pub const IPV4_DST: u16 = 2;
    pub const TOS: u16 = 3;
    pub const TTL: u16 = 4;
    pub const DONT_FRAGMENT: u16 = 5;
    pub const CSUM: u16 = 6;
    pub const OAM: u16 = 7;
    pub const GENEVE_OPTS: u16 = 8;
    pub const TP_SRC: u16 = 9;
    pub const TP_DST: u16 = 10;
    pub const VXLAN_OPTS: u16 = 11;
    pub const IPV6_SRC: u16 = 12;
    pub const IPV6_DST: u16 = 13;
    pub const PAD: u16 = 14;
    pub const ERSPAN_OPTS: u16 = 15;
    pub const IPV4_INFO_BRIDGE: u16 = 16;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Per-device settings reported by `RTM_NEWNETCONF` (`NETCONFA_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/netconf.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const IFINDEX: u16 = 1;
pub const FORWARDING: u16 = 2;
pub const RP_FILTER: u16 = 3;
pub const MC_FORWARDING: u16 = 4;
pub const PROXY_NEIGH: u16 = 5;
pub const IGNORE_ROUTES_WITH_LINKDOWN: u16 = 6;
pub const INPUT: u16 = 7;
pub const BC_FORWARDING: u16 = 8;
pub const ALL: u16 = 65535;
pub const MAX: u16 = 8;

// Interface indices that stand for all devices and for the default.
pub const IFINDEX_ALL: i32 = -1;
pub const IFINDEX_DEFAULT: i32 = -2;

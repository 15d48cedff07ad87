// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `gate`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_gate.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const ENTRY_UNSPEC: u16 = 0;
pub const ONE_ENTRY_UNSPEC: u16 = 0;
pub const UNSPEC: u16 = 0;
pub const ENTRY_INDEX: u16 = 1;
pub const ONE_ENTRY: u16 = 1;
pub const ONE_ENTRY_MAX: u16 = 1;
pub const TM: u16 = 1;
pub const ENTRY_GATE: u16 = 2;
pub const PARMS: u16 = 2;
pub const ENTRY_INTERVAL: u16 = 3;
pub const PAD: u16 = 3;
pub const ENTRY_IPV: u16 = 4;
pub const PRIORITY: u16 = 4;
pub const ENTRY_MAX_OCTETS: u16 = 5;
pub const ENTRY_MAX: u16 = 5;
pub const ENTRY_LIST: u16 = 5;
pub const BASE_TIME: u16 = 6;
pub const CYCLE_TIME: u16 = 7;
pub const CYCLE_TIME_EXT: u16 = 8;
pub const FLAGS: u16 = 9;
pub const CLOCKID: u16 = 10;
pub const MAX: u16 = 10;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `ctinfo`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_ctinfo.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PAD: u16 = 1;
pub const TM: u16 = 2;
pub const ACT: u16 = 3;
pub const ZONE: u16 = 4;
pub const PARMS_DSCP_MASK: u16 = 5;
pub const PARMS_DSCP_STATEMASK: u16 = 6;
pub const PARMS_CPMARK_MASK: u16 = 7;
pub const STATS_DSCP_SET: u16 = 8;
pub const STATS_DSCP_ERROR: u16 = 9;
pub const STATS_CPMARK_SET: u16 = 10;
pub const MAX: u16 = 10;

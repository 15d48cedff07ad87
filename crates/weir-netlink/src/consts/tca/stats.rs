// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nested in `TCA_STATS2` (`TCA_STATS_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/gen_stats.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const BASIC: u16 = 1;
pub const RATE_EST: u16 = 2;
pub const QUEUE: u16 = 3;
pub const APP: u16 = 4;
pub const RATE_EST64: u16 = 5;
pub const PAD: u16 = 6;
pub const BASIC_HW: u16 = 7;
pub const PKT64: u16 = 8;
pub const MAX: u16 = 8;

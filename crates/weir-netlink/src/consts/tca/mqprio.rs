// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `mqprio`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const MODE: u16 = 1;
pub const SHAPER: u16 = 2;
pub const MIN_RATE64: u16 = 3;
pub const MAX_RATE64: u16 = 4;
pub const MAX: u16 = 4;

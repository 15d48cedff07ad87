// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `codel`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TARGET: u16 = 1;
pub const LIMIT: u16 = 2;
pub const INTERVAL: u16 = 3;
pub const ECN: u16 = 4;
pub const CE_THRESHOLD: u16 = 5;
pub const MAX: u16 = 5;

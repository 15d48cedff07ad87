// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `netem`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const CORR: u16 = 1;
pub const DELAY_DIST: u16 = 2;
pub const REORDER: u16 = 3;
pub const CORRUPT: u16 = 4;
pub const LOSS: u16 = 5;
pub const RATE: u16 = 6;
pub const ECN: u16 = 7;
pub const RATE64: u16 = 8;
pub const PAD: u16 = 9;
pub const LATENCY64: u16 = 10;
pub const JITTER64: u16 = 11;
pub const SLOT: u16 = 12;
pub const SLOT_DIST: u16 = 13;
pub const MAX: u16 = 13;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `htb`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const INIT: u16 = 2;
pub const CTAB: u16 = 3;
pub const RTAB: u16 = 4;
pub const DIRECT_QLEN: u16 = 5;
pub const RATE64: u16 = 6;
pub const CEIL64: u16 = 7;
pub const PAD: u16 = 8;
pub const OFFLOAD: u16 = 9;
pub const MAX: u16 = 9;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `red`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const STAB: u16 = 2;
pub const MAX_P: u16 = 3;
pub const FLAGS: u16 = 4;
pub const EARLY_DROP_BLOCK: u16 = 5;
pub const MARK_BLOCK: u16 = 6;
pub const MAX: u16 = 6;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `hhf`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const BACKLOG_LIMIT: u16 = 1;
pub const QUANTUM: u16 = 2;
pub const HH_FLOWS_LIMIT: u16 = 3;
pub const RESET_TIMEOUT: u16 = 4;
pub const ADMIT_BYTES: u16 = 5;
pub const EVICT_TIMEOUT: u16 = 6;
pub const NON_HH_WEIGHT: u16 = 7;
pub const MAX: u16 = 7;

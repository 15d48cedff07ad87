// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `fq_pie`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const LIMIT: u16 = 1;
pub const FLOWS: u16 = 2;
pub const TARGET: u16 = 3;
pub const TUPDATE: u16 = 4;
pub const ALPHA: u16 = 5;
pub const BETA: u16 = 6;
pub const QUANTUM: u16 = 7;
pub const MEMORY_LIMIT: u16 = 8;
pub const ECN_PROB: u16 = 9;
pub const ECN: u16 = 10;
pub const BYTEMODE: u16 = 11;
pub const DQ_RATE_ESTIMATOR: u16 = 12;
pub const MAX: u16 = 12;

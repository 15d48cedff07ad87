// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `qfq`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const WEIGHT: u16 = 1;
pub const LMAX: u16 = 2;
pub const MAX: u16 = 2;

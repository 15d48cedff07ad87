// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `ets`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const NBANDS: u16 = 1;
pub const NSTRICT: u16 = 2;
pub const QUANTA: u16 = 3;
pub const QUANTA_BAND: u16 = 4;
pub const PRIOMAP: u16 = 5;
pub const PRIOMAP_BAND: u16 = 6;
pub const MAX: u16 = 6;

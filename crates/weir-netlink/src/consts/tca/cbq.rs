// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `cbq`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const LSSOPT: u16 = 1;
pub const WRROPT: u16 = 2;
pub const FOPT: u16 = 3;
pub const OVL_STRATEGY: u16 = 4;
pub const RATE: u16 = 5;
pub const RTAB: u16 = 6;
pub const POLICE: u16 = 7;
pub const MAX: u16 = 7;

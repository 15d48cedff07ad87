// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `atm`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const FD: u16 = 1;
pub const PTR: u16 = 2;
pub const HDR: u16 = 3;
pub const EXCESS: u16 = 4;
pub const ADDR: u16 = 5;
pub const STATE: u16 = 6;
pub const MAX: u16 = 6;

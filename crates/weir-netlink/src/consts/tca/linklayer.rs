// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of `tc_ratespec.linklayer`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNAWARE: u8 = 0;
pub const ETHERNET: u8 = 1;
pub const ATM: u8 = 2;
pub const MASK: u8 = 15;

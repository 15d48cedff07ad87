// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet priorities (`TC_PRIO_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const BESTEFFORT: u32 = 0;
pub const FILLER: u32 = 1;
pub const BULK: u32 = 2;
pub const INTERACTIVE_BULK: u32 = 4;
pub const INTERACTIVE: u32 = 6;
pub const CONTROL: u32 = 7;
pub const MAX: u32 = 15;

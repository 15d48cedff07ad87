// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `nat`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_nat.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const FLAG_EGRESS: u16 = 1;
pub const TM: u16 = 2;
pub const PAD: u16 = 3;
pub const MAX: u16 = 3;

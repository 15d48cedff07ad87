// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of `tcamsg` messages.
//!
//! Names and values are those of Linux 6.1 (`linux/rtnetlink.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TAB: u16 = 1;
pub const FLAGS: u16 = 2;
pub const COUNT: u16 = 3;
pub const TIME_DELTA: u16 = 4;
pub const EXT_WARN_MSG: u16 = 5;
pub const MAX: u16 = 5;

// `TCA_ROOT_FLAGS` bits.
pub const FLAG_LARGE_DUMP_ON: u32 = 0x1;
pub const ACT_FLAG_LARGE_DUMP_ON: u32 = 0x1;
pub const ACT_FLAG_TERSE_DUMP: u32 = 0x2;

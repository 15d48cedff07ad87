// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `skbedit`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_skbedit.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const PRIORITY: u16 = 3;
pub const QUEUE_MAPPING: u16 = 4;
pub const MARK: u16 = 5;
pub const PAD: u16 = 6;
pub const PTYPE: u16 = 7;
pub const MASK: u16 = 8;
pub const FLAGS: u16 = 9;
pub const QUEUE_MAPPING_MAX: u16 = 10;
pub const MAX: u16 = 10;

// Bits of `TCA_SKBEDIT_FLAGS`.
pub const SKBEDIT_F_PRIORITY: u32 = 0x1;
pub const SKBEDIT_F_QUEUE_MAPPING: u32 = 0x2;
pub const SKBEDIT_F_MARK: u32 = 0x4;
pub const SKBEDIT_F_PTYPE: u32 = 0x8;
pub const SKBEDIT_F_MASK: u32 = 0x10;
pub const SKBEDIT_F_INHERITDSFIELD: u32 = 0x20;
pub const SKBEDIT_F_TXQ_SKBHASH: u32 = 0x40;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verdicts (`TC_ACT_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: i32 = -1;
pub const OK: i32 = 0;
pub const RECLASSIFY: i32 = 1;
pub const SHOT: i32 = 2;
pub const PIPE: i32 = 3;
pub const STOLEN: i32 = 4;
pub const QUEUED: i32 = 5;
pub const REPEAT: i32 = 6;
pub const REDIRECT: i32 = 7;
pub const TRAP: i32 = 8;
pub const VALUE_MAX: i32 = 8;
pub const JUMP: i32 = 0x10000000;
pub const GOTO_CHAIN: i32 = 0x20000000;

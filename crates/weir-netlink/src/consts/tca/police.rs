// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `police`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TBF: u16 = 1;
pub const RATE: u16 = 2;
pub const PEAKRATE: u16 = 3;
pub const AVRATE: u16 = 4;
pub const RESULT: u16 = 5;
pub const TM: u16 = 6;
pub const PAD: u16 = 7;
pub const RATE64: u16 = 8;
pub const PEAKRATE64: u16 = 9;
pub const PKTRATE64: u16 = 10;
pub const PKTBURST64: u16 = 11;
pub const MAX: u16 = 11;

// Verdicts of `police`.
pub const OK: i32 = 0;
pub const RECLASSIFY: i32 = 1;
pub const SHOT: i32 = 2;
pub const PIPE: i32 = 3;

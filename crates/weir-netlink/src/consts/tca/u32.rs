// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `u32`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const CLASSID: u16 = 1;
pub const HASH: u16 = 2;
pub const LINK: u16 = 3;
pub const DIVISOR: u16 = 4;
pub const SEL: u16 = 5;
pub const POLICE: u16 = 6;
pub const ACT: u16 = 7;
pub const INDEV: u16 = 8;
pub const PCNT: u16 = 9;
pub const MARK: u16 = 10;
pub const FLAGS: u16 = 11;
pub const PAD: u16 = 12;
pub const MAX: u16 = 12;

// Flags of `tc_u32_sel`.
pub const ROOT: u32 = 0xfff00000;
pub const TERMINAL: u32 = 1;
pub const OFFSET: u32 = 2;
pub const VAROFFSET: u32 = 4;
pub const EAT: u32 = 8;
pub const MAXDEPTH: u32 = 8;

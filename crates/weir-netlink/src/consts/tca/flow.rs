// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `flow`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const KEYS: u16 = 1;
pub const MODE: u16 = 2;
pub const BASECLASS: u16 = 3;
pub const RSHIFT: u16 = 4;
pub const ADDEND: u16 = 5;
pub const MASK: u16 = 6;
pub const XOR: u16 = 7;
pub const DIVISOR: u16 = 8;
pub const ACT: u16 = 9;
pub const POLICE: u16 = 10;
pub const EMATCHES: u16 = 11;
pub const PERTURB: u16 = 12;
pub const MAX: u16 = 12;

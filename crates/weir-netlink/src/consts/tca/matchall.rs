// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `matchall`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const CLASSID: u16 = 1;
pub const ACT: u16 = 2;
pub const FLAGS: u16 = 3;
pub const PCNT: u16 = 4;
pub const PAD: u16 = 5;
pub const MAX: u16 = 5;

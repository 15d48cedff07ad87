// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `sample`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_sample.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const RATE: u16 = 3;
pub const TRUNC_SIZE: u16 = 4;
pub const PSAMPLE_GROUP: u16 = 5;
pub const PAD: u16 = 6;
pub const MAX: u16 = 6;

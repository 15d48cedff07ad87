// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `simple`.
//!
//! Names and values are those of Linux 6.1 (`TCA_DEF_*` of `linux/tc_act/tc_defact.h`) without their
//! prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const DATA: u16 = 3;
pub const PAD: u16 = 4;
pub const MAX: u16 = 4;

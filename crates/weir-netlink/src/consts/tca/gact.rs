// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `gact`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_gact.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const PROB: u16 = 3;
pub const PAD: u16 = 4;
pub const MAX: u16 = 4;

// Kinds of randomness (`PGACT_*`).
pub const PGACT_NONE: u16 = 0;
pub const PGACT_NETRAND: u16 = 1;
pub const PGACT_DETERM: u16 = 2;

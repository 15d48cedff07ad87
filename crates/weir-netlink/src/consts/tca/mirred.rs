// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `mirred`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_mirred.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const PAD: u16 = 3;
pub const MAX: u16 = 3;

// Values of `tc_mirred.eaction`.
pub const EGRESS_REDIR: i32 = 1;
pub const EGRESS_MIRROR: i32 = 2;
pub const INGRESS_REDIR: i32 = 3;
pub const INGRESS_MIRROR: i32 = 4;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `dsmark`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const INDICES: u16 = 1;
pub const DEFAULT_INDEX: u16 = 2;
pub const SET_TC_INDEX: u16 = 3;
pub const MASK: u16 = 4;
pub const VALUE: u16 = 5;
pub const MAX: u16 = 5;

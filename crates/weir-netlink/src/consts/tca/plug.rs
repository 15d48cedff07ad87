// SPDX-License-Identifier: Apache-2.0 OR MIT
//! qdisc `plug`: actions (`TCQ_PLUG_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const BUFFER: i32 = 0;
pub const RELEASE_ONE: i32 = 1;
pub const RELEASE_INDEFINITE: i32 = 2;
pub const LIMIT: i32 = 3;

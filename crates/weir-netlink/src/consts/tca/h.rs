// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles (`TC_H_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_sched.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const MAJ_MASK: u32 = 0xffff0000;
pub const MIN_MASK: u32 = 65535;
pub const UNSPEC: u32 = 0;
pub const ROOT: u32 = 0xffffffff;
pub const INGRESS: u32 = 0xfffffff1;
pub const CLSACT: u32 = 0xfffffff1;
pub const MIN_PRIORITY: u32 = 65504;
pub const MIN_INGRESS: u32 = 65522;
pub const MIN_EGRESS: u32 = 65523;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of a filter's own flags attribute (`TCA_CLS_FLAGS_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const SKIP_HW: u32 = 0x1;
pub const SKIP_SW: u32 = 0x2;
pub const IN_HW: u32 = 0x4;
pub const NOT_IN_HW: u32 = 0x8;
pub const VERBOSE: u32 = 0x10;

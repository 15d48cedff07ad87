// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of a verdict with an operand.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const VAL_MASK: i32 = 0xfffffff;
pub const OPCODE_MAX: i32 = 0x20000000;

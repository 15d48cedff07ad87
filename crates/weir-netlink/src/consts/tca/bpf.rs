// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `bpf`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const ACT: u16 = 1;
pub const POLICE: u16 = 2;
pub const CLASSID: u16 = 3;
pub const OPS_LEN: u16 = 4;
pub const OPS: u16 = 5;
pub const FD: u16 = 6;
pub const NAME: u16 = 7;
pub const FLAGS: u16 = 8;
pub const FLAGS_GEN: u16 = 9;
pub const TAG: u16 = 10;
pub const ID: u16 = 11;
pub const MAX: u16 = 11;

// Flags.
pub const FLAG_ACT_DIRECT: u32 = 0x1;

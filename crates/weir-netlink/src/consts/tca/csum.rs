// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `csum`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_csum.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const TM: u16 = 2;
pub const PAD: u16 = 3;
pub const MAX: u16 = 3;

// Bits of `tc_csum.update_flags`.
pub const UPDATE_FLAG_IPV4HDR: u32 = 0x1;
pub const UPDATE_FLAG_ICMP: u32 = 0x2;
pub const UPDATE_FLAG_IGMP: u32 = 0x4;
pub const UPDATE_FLAG_TCP: u32 = 0x8;
pub const UPDATE_FLAG_UDP: u32 = 0x10;
pub const UPDATE_FLAG_UDPLITE: u32 = 0x20;
pub const UPDATE_FLAG_SCTP: u32 = 0x40;

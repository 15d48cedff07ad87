// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `mpls`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_mpls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const PAD: u16 = 3;
pub const PROTO: u16 = 4;
pub const LABEL: u16 = 5;
pub const TC: u16 = 6;
pub const TTL: u16 = 7;
pub const BOS: u16 = 8;
pub const MAX: u16 = 8;

// Values of `tc_mpls.m_action`.
pub const ACT_POP: i32 = 1;
pub const ACT_PUSH: i32 = 2;
pub const ACT_MODIFY: i32 = 3;
pub const ACT_DEC_TTL: i32 = 4;
pub const ACT_MAC_PUSH: i32 = 5;

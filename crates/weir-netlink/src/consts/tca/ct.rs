// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `ct`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_ct.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const TM: u16 = 2;
pub const ACTION: u16 = 3;
pub const ZONE: u16 = 4;
pub const MARK: u16 = 5;
pub const MARK_MASK: u16 = 6;
pub const LABELS: u16 = 7;
pub const LABELS_MASK: u16 = 8;
pub const NAT_IPV4_MIN: u16 = 9;
pub const NAT_IPV4_MAX: u16 = 10;
pub const NAT_IPV6_MIN: u16 = 11;
pub const NAT_IPV6_MAX: u16 = 12;
pub const NAT_PORT_MIN: u16 = 13;
pub const NAT_PORT_MAX: u16 = 14;
pub const PAD: u16 = 15;
pub const MAX: u16 = 15;

// Bits of `TCA_CT_ACTION`.
pub const ACT_COMMIT: u16 = 1;
pub const ACT_FORCE: u16 = 2;
pub const ACT_CLEAR: u16 = 4;
pub const ACT_NAT: u16 = 8;
pub const ACT_NAT_SRC: u16 = 16;
pub const ACT_NAT_DST: u16 = 32;

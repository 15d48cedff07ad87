// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `vlan`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_vlan.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const PUSH_VLAN_ID: u16 = 3;
pub const PUSH_VLAN_PROTOCOL: u16 = 4;
pub const PAD: u16 = 5;
pub const PUSH_VLAN_PRIORITY: u16 = 6;
pub const PUSH_ETH_DST: u16 = 7;
pub const PUSH_ETH_SRC: u16 = 8;
pub const MAX: u16 = 8;

// Values of `tc_vlan.v_action`.
pub const ACT_POP: i32 = 1;
pub const ACT_PUSH: i32 = 2;
pub const ACT_MODIFY: i32 = 3;
pub const ACT_POP_ETH: i32 = 4;
pub const ACT_PUSH_ETH: i32 = 5;

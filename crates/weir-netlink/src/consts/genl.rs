// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generic netlink and its controller family.
//!
//! Names and values are those of Linux 6.1 (`linux/genetlink.h`); `CTRL_` is kept where Linux has it.
#![allow(missing_docs)] // The names are Linux's.

/// The type of the controller's messages (`GENL_ID_CTRL`), and its multicast group.
pub const ID_CTRL: u16 = 0x10;
/// The first type assigned to a family that requests none (`GENL_START_ALLOC`).
pub const START_ALLOC: u16 = 0x13;

pub const CTRL_CMD_NEWFAMILY: u8 = 1;
pub const CTRL_CMD_DELFAMILY: u8 = 2;
pub const CTRL_CMD_GETFAMILY: u8 = 3;
pub const CTRL_CMD_GETPOLICY: u8 = 10;

pub const CTRL_ATTR_FAMILY_ID: u16 = 1;
pub const CTRL_ATTR_FAMILY_NAME: u16 = 2;
pub const CTRL_ATTR_VERSION: u16 = 3;
pub const CTRL_ATTR_HDRSIZE: u16 = 4;
pub const CTRL_ATTR_MAXATTR: u16 = 5;
pub const CTRL_ATTR_OPS: u16 = 6;
pub const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
pub const CTRL_ATTR_POLICY: u16 = 8;
pub const CTRL_ATTR_OP_POLICY: u16 = 9;
pub const CTRL_ATTR_OP: u16 = 10;
pub const CTRL_ATTR_MAX: u16 = 10;

pub const CTRL_ATTR_OP_ID: u16 = 1;
pub const CTRL_ATTR_OP_FLAGS: u16 = 2;

pub const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
pub const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;

// Capabilities of a command (`GENL_CMD_CAP_*`).
pub const CMD_CAP_DO: u32 = 2;
pub const CMD_CAP_DUMP: u32 = 4;
pub const CMD_CAP_HASPOL: u32 = 8;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netlink message header: control message types (`NLMSG_*`) and flags (`NLM_F_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/netlink.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const NOOP: u16 = 1;
pub const ERROR: u16 = 2;
pub const DONE: u16 = 3;
pub const OVERRUN: u16 = 4;
pub const MIN_TYPE: u16 = 16;

// Flags of the message header.
pub const F_REQUEST: u16 = 0x1;
pub const F_MULTI: u16 = 0x2;
pub const F_ACK: u16 = 0x4;
pub const F_ECHO: u16 = 0x8;
pub const F_DUMP_INTR: u16 = 0x10;
pub const F_DUMP_FILTERED: u16 = 0x20;
pub const F_ROOT: u16 = 0x100;
pub const F_MATCH: u16 = 0x200;
pub const F_ATOMIC: u16 = 0x400;
pub const F_DUMP: u16 = 0x300;
pub const F_REPLACE: u16 = 0x100;
pub const F_EXCL: u16 = 0x200;
pub const F_CREATE: u16 = 0x400;
pub const F_APPEND: u16 = 0x800;
pub const F_NONREC: u16 = 0x100;
pub const F_BULK: u16 = 0x200;
pub const F_CAPPED: u16 = 0x100;
pub const F_ACK_TLVS: u16 = 0x200;

/// Flag bits of an attribute type.
pub mod nla {
    pub const F_NESTED: u16 = 0x8000;
    pub const F_NET_BYTEORDER: u16 = 0x4000;
    pub const TYPE_MASK: u16 = 16383;
}

/// Extended acknowledgement attributes (`NLMSGERR_ATTR_*`).
pub mod err {
    pub const UNUSED: u16 = 0;
    pub const MSG: u16 = 1;
    pub const OFFS: u16 = 2;
    pub const COOKIE: u16 = 3;
    pub const POLICY: u16 = 4;
    pub const MISS_TYPE: u16 = 5;
    pub const MISS_NEST: u16 = 6;
    pub const MAX: u16 = 6;
}

/// Socket options of level `SOL_NETLINK`.
pub mod opt {
    pub const ADD_MEMBERSHIP: i32 = 1;
    pub const DROP_MEMBERSHIP: i32 = 2;
    pub const PKTINFO: i32 = 3;
    pub const BROADCAST_ERROR: i32 = 4;
    pub const NO_ENOBUFS: i32 = 5;
    pub const LISTEN_ALL_NSID: i32 = 8;
    pub const LIST_MEMBERSHIPS: i32 = 9;
    pub const CAP_ACK: i32 = 10;
    pub const EXT_ACK: i32 = 11;
    pub const GET_STRICT_CHK: i32 = 12;
}

/// Attributes that describe a policy in an extended acknowledgement.
pub mod policy {
    pub const UNSPEC: u16 = 0;
    pub const TYPE: u16 = 1;
    pub const MIN_VALUE_S: u16 = 2;
    pub const MAX_VALUE_S: u16 = 3;
    pub const MIN_VALUE_U: u16 = 4;
    pub const MAX_VALUE_U: u16 = 5;
    pub const MIN_LENGTH: u16 = 6;
    pub const MAX_LENGTH: u16 = 7;
    pub const POLICY_IDX: u16 = 8;
    pub const POLICY_MAXTYPE: u16 = 9;
    pub const BITFIELD32_MASK: u16 = 10;
    pub const PAD: u16 = 11;
    pub const MASK: u16 = 12;
    pub const MAX: u16 = 12;
}

/// Attribute types as reported in a policy description.
pub mod attr_type {
    pub const INVALID: u32 = 0;
    pub const FLAG: u32 = 1;
    pub const U8: u32 = 2;
    pub const U16: u32 = 3;
    pub const U32: u32 = 4;
    pub const U64: u32 = 5;
    pub const S8: u32 = 6;
    pub const S16: u32 = 7;
    pub const S32: u32 = 8;
    pub const S64: u32 = 9;
    pub const BINARY: u32 = 10;
    pub const STRING: u32 = 11;
    pub const NUL_STRING: u32 = 12;
    pub const NESTED: u32 = 13;
    pub const NESTED_ARRAY: u32 = 14;
    pub const BITFIELD32: u32 = 15;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended matches.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const TREE_UNSPEC: u16 = 0;
pub const TREE_HDR: u16 = 1;
pub const TREE_LIST: u16 = 2;
pub const TREE_MAX: u16 = 2;

/// Kinds of extended match (`TCF_EM_*`).
pub mod kind {
    pub const CONTAINER: u16 = 0;
    pub const CMP: u16 = 1;
    pub const NBYTE: u16 = 2;
    pub const U32: u16 = 3;
    pub const META: u16 = 4;
    pub const TEXT: u16 = 5;
    pub const VLAN: u16 = 6;
    pub const CANID: u16 = 7;
    pub const IPSET: u16 = 8;
    pub const IPT: u16 = 9;
    pub const MAX: u16 = 9;
}

/// Flags: the relation of a match to the next one.
pub mod flag {
    pub const REL_END: u16 = 0;
    pub const REL_AND: u16 = 1;
    pub const REL_OR: u16 = 2;
    pub const INVERT: u16 = 4;
    pub const SIMPLE: u16 = 8;
    pub const REL_MASK: u16 = 3;
}

/// Comparisons of `cmp`.
pub mod opnd {
    pub const EQ: u8 = 0;
    pub const GT: u8 = 1;
    pub const LT: u8 = 2;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended match `meta`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_ematch/tc_em_meta.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const HDR: u16 = 1;
pub const LVALUE: u16 = 2;
pub const RVALUE: u16 = 3;
pub const MAX: u16 = 3;

/// Types of values (`TCF_META_TYPE_*`).
pub mod ty {
    pub const VAR: u16 = 0;
    pub const INT: u16 = 1;
    pub const MAX: u16 = 1;
}

/// Values (`TCF_META_ID_*`).
pub mod id {
    pub const VALUE: u16 = 0;
    pub const RANDOM: u16 = 1;
    pub const LOADAVG_0: u16 = 2;
    pub const LOADAVG_1: u16 = 3;
    pub const LOADAVG_2: u16 = 4;
    pub const DEV: u16 = 5;
    pub const PRIORITY: u16 = 6;
    pub const PROTOCOL: u16 = 7;
    pub const PKTTYPE: u16 = 8;
    pub const PKTLEN: u16 = 9;
    pub const DATALEN: u16 = 10;
    pub const MACLEN: u16 = 11;
    pub const NFMARK: u16 = 12;
    pub const TCINDEX: u16 = 13;
    pub const RTCLASSID: u16 = 14;
    pub const RTIIF: u16 = 15;
    pub const SK_FAMILY: u16 = 16;
    pub const SK_BOUND_IF: u16 = 19;
    pub const SK_ROUTE_CAPS: u16 = 35;
    pub const SK_WRITE_PENDING: u16 = 45;
    pub const VLAN_TAG: u16 = 46;
    pub const RXHASH: u16 = 47;
    pub const MAX: u16 = 47;
}

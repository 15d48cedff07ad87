// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast routing tables, their VIFs, and reports to a daemon (`IPMRA_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/mroute.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

/// A table (`IPMRA_TABLE_*`).
pub mod table {
    pub const ID: u16 = 1;
    pub const CACHE_RES_QUEUE_LEN: u16 = 2;
    pub const MROUTE_REG_VIF_NUM: u16 = 3;
    pub const MROUTE_DO_ASSERT: u16 = 4;
    pub const MROUTE_DO_PIM: u16 = 5;
    pub const VIFS: u16 = 6;
    pub const MROUTE_DO_WRVIFWHOLE: u16 = 7;
}

/// One of the VIFs.
pub const VIF: u16 = 1;

/// A VIF (`IPMRA_VIFA_*`).
pub mod vifa {
    pub const IFINDEX: u16 = 1;
    pub const VIF_ID: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const BYTES_IN: u16 = 4;
    pub const BYTES_OUT: u16 = 5;
    pub const PACKETS_IN: u16 = 6;
    pub const PACKETS_OUT: u16 = 7;
    pub const LOCAL_ADDR: u16 = 8;
    pub const REMOTE_ADDR: u16 = 9;
    pub const PAD: u16 = 10;
}

/// A report (`IPMRA_CREPORT_*`).
pub mod creport {
    pub const MSGTYPE: u16 = 1;
    pub const VIF_ID: u16 = 2;
    pub const SRC_ADDR: u16 = 3;
    pub const DST_ADDR: u16 = 4;
    pub const PKT: u16 = 5;
    pub const TABLE: u16 = 6;
}

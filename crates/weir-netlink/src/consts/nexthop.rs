// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nexthop objects (`NHA_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/nexthop.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const ID: u16 = 1;
pub const GROUP: u16 = 2;
pub const GROUP_TYPE: u16 = 3;
pub const BLACKHOLE: u16 = 4;
pub const OIF: u16 = 5;
pub const GATEWAY: u16 = 6;
pub const ENCAP_TYPE: u16 = 7;
pub const ENCAP: u16 = 8;
pub const GROUPS: u16 = 9;
pub const MASTER: u16 = 10;
pub const FDB: u16 = 11;
pub const RES_GROUP: u16 = 12;
pub const RES_BUCKET: u16 = 13;
pub const MAX: u16 = 13;

// Group types (`NEXTHOP_GRP_TYPE_*`).
pub const GRP_TYPE_MPATH: u16 = 0;
pub const GRP_TYPE_RES: u16 = 1;
pub const GRP_TYPE_MAX: u16 = 1;

/// Nested in `NHA_RES_GROUP`.
pub mod res_group {
    pub const UNSPEC: u16 = 0;
    pub const PAD: u16 = 0;
    pub const BUCKETS: u16 = 1;
    pub const IDLE_TIMER: u16 = 2;
    pub const UNBALANCED_TIMER: u16 = 3;
    pub const UNBALANCED_TIME: u16 = 4;
    pub const MAX: u16 = 4;
}

/// Nested in `NHA_RES_BUCKET`.
pub mod res_bucket {
    pub const UNSPEC: u16 = 0;
    pub const PAD: u16 = 0;
    pub const INDEX: u16 = 1;
    pub const IDLE_TIME: u16 = 2;
    pub const NH_ID: u16 = 3;
    pub const MAX: u16 = 3;
}

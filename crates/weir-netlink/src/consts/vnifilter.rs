// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VNIs of VXLAN devices: `RTM_NEWTUNNEL` and its kin.
//!
//! Names and values are those of Linux 6.1 (`linux/if_link.h`) without the prefix `VXLAN_VNIFILTER_`.
#![allow(missing_docs)] // The names are Linux's.

/// Flag of `struct tunnel_msg` (`TUNNEL_MSG_FLAG_STATS`).
pub const FLAG_STATS: u8 = 1;

pub const ENTRY: u16 = 1;
pub const MAX: u16 = 1;

/// Nested in [`ENTRY`] (`VXLAN_VNIFILTER_ENTRY_*`).
pub mod entry {
    pub const START: u16 = 1;
    pub const END: u16 = 2;
    pub const GROUP: u16 = 3;
    pub const GROUP6: u16 = 4;
    pub const STATS: u16 = 5;
    pub const MAX: u16 = 5;
}

/// Nested in [`entry::STATS`] (`VNIFILTER_ENTRY_STATS_*`).
pub mod stats {
    pub const RX_BYTES: u16 = 1;
    pub const RX_PKTS: u16 = 2;
    pub const RX_DROPS: u16 = 3;
    pub const RX_ERRORS: u16 = 4;
    pub const TX_BYTES: u16 = 5;
    pub const TX_PKTS: u16 = 6;
    pub const TX_DROPS: u16 = 7;
    pub const TX_ERRORS: u16 = 8;
    pub const PAD: u16 = 9;
}

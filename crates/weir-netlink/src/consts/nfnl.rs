// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netfilter's netlink family: subsystems, messages, groups.
//!
//! Names and values are those of Linux 6.1 (`linux/netfilter/nfnetlink.h`,
//! `linux/netfilter/nfnetlink_conntrack.h`) without the prefixes `NFNL_`, `NFNLGRP_` and `IPCTNL_`.
#![allow(missing_docs)] // The names are Linux's.

/// `NETLINK_NETFILTER`
pub const PROTOCOL: i32 = 12;
/// `NFNETLINK_V0`
pub const V0: u8 = 0;

pub const SUBSYS_CTNETLINK: u8 = 1;
pub const SUBSYS_CTNETLINK_EXP: u8 = 2;
pub const SUBSYS_QUEUE: u8 = 3;
pub const SUBSYS_ULOG: u8 = 4;
pub const SUBSYS_OSF: u8 = 5;
pub const SUBSYS_IPSET: u8 = 6;
pub const SUBSYS_ACCT: u8 = 7;
pub const SUBSYS_CTNETLINK_TIMEOUT: u8 = 8;
pub const SUBSYS_CTHELPER: u8 = 9;
pub const SUBSYS_NFTABLES: u8 = 10;
pub const SUBSYS_NFT_COMPAT: u8 = 11;
pub const SUBSYS_HOOK: u8 = 12;

/// `NFNL_MSG_BATCH_BEGIN`
pub const MSG_BATCH_BEGIN: u16 = 0x10;
/// `NFNL_MSG_BATCH_END`
pub const MSG_BATCH_END: u16 = 0x11;

pub const MSG_CT_NEW: u8 = 0;
pub const MSG_CT_GET: u8 = 1;
pub const MSG_CT_DELETE: u8 = 2;
pub const MSG_CT_GET_CTRZERO: u8 = 3;
pub const MSG_CT_GET_STATS_CPU: u8 = 4;
pub const MSG_CT_GET_STATS: u8 = 5;
pub const MSG_CT_GET_DYING: u8 = 6;
pub const MSG_CT_GET_UNCONFIRMED: u8 = 7;

pub const MSG_EXP_NEW: u8 = 0;
pub const MSG_EXP_GET: u8 = 1;
pub const MSG_EXP_DELETE: u8 = 2;
pub const MSG_EXP_GET_STATS_CPU: u8 = 3;

/// Multicast groups (`NFNLGRP_*`).
pub mod group {
    pub const CONNTRACK_NEW: u32 = 1;
    pub const CONNTRACK_UPDATE: u32 = 2;
    pub const CONNTRACK_DESTROY: u32 = 3;
    pub const CONNTRACK_EXP_NEW: u32 = 4;
    pub const CONNTRACK_EXP_UPDATE: u32 = 5;
    pub const CONNTRACK_EXP_DESTROY: u32 = 6;
    pub const NFTABLES: u32 = 7;
    pub const ACCT_QUOTA: u32 = 8;
    pub const NFTRACE: u32 = 9;
}

/// Returns the message type of a subsystem's message (`nfnl_msg_type`).
pub const fn msg_type(subsystem: u8, message: u8) -> u16 {
    (subsystem as u16) << 8 | message as u16
}

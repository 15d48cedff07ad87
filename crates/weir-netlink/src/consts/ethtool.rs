// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic netlink family `ethtool`.
//!
//! Names and values are those of Linux 6.1 (`linux/ethtool_netlink.h`) without the prefixes `ETHTOOL_` and
//! `ETHTOOL_A_`.
#![allow(missing_docs)] // The names are Linux's.

pub const MSG_STRSET_GET: u8 = 1;
pub const MSG_LINKINFO_GET: u8 = 2;
pub const MSG_LINKINFO_SET: u8 = 3;
pub const MSG_LINKMODES_GET: u8 = 4;
pub const MSG_LINKMODES_SET: u8 = 5;
pub const MSG_LINKSTATE_GET: u8 = 6;
pub const MSG_DEBUG_GET: u8 = 7;
pub const MSG_DEBUG_SET: u8 = 8;
pub const MSG_WOL_GET: u8 = 9;
pub const MSG_WOL_SET: u8 = 10;
pub const MSG_FEATURES_GET: u8 = 11;
pub const MSG_FEATURES_SET: u8 = 12;
pub const MSG_PRIVFLAGS_GET: u8 = 13;
pub const MSG_PRIVFLAGS_SET: u8 = 14;
pub const MSG_RINGS_GET: u8 = 15;
pub const MSG_RINGS_SET: u8 = 16;
pub const MSG_CHANNELS_GET: u8 = 17;
pub const MSG_CHANNELS_SET: u8 = 18;
pub const MSG_COALESCE_GET: u8 = 19;
pub const MSG_COALESCE_SET: u8 = 20;
pub const MSG_PAUSE_GET: u8 = 21;
pub const MSG_PAUSE_SET: u8 = 22;
pub const MSG_EEE_GET: u8 = 23;
pub const MSG_EEE_SET: u8 = 24;
pub const MSG_TSINFO_GET: u8 = 25;
pub const MSG_CABLE_TEST_ACT: u8 = 26;
pub const MSG_CABLE_TEST_TDR_ACT: u8 = 27;
pub const MSG_TUNNEL_INFO_GET: u8 = 28;
pub const MSG_FEC_GET: u8 = 29;
pub const MSG_FEC_SET: u8 = 30;
pub const MSG_MODULE_EEPROM_GET: u8 = 31;
pub const MSG_STATS_GET: u8 = 32;
pub const MSG_PHC_VCLOCKS_GET: u8 = 33;
pub const MSG_MODULE_GET: u8 = 34;
pub const MSG_MODULE_SET: u8 = 35;
pub const MSG_PSE_GET: u8 = 36;
pub const MSG_PSE_SET: u8 = 37;

// Messages to the client.
pub const MSG_STRSET_GET_REPLY: u8 = 1;
pub const MSG_LINKINFO_GET_REPLY: u8 = 2;
pub const MSG_LINKMODES_GET_REPLY: u8 = 4;
pub const MSG_LINKSTATE_GET_REPLY: u8 = 6;
pub const MSG_FEATURES_GET_REPLY: u8 = 11;
pub const MSG_FEATURES_SET_REPLY: u8 = 12;
pub const MSG_FEATURES_NTF: u8 = 13;
pub const MSG_CHANNELS_GET_REPLY: u8 = 18;
pub const MSG_CHANNELS_NTF: u8 = 19;
pub const MSG_TSINFO_GET_REPLY: u8 = 26;
pub const MSG_STATS_GET_REPLY: u8 = 33;
pub const MSG_PHC_VCLOCKS_GET_REPLY: u8 = 34;
pub const MSG_MODULE_GET_REPLY: u8 = 35;

/// The header of every message but `STATS`.
pub const HEADER: u16 = 1;

/// In a header (`ETHTOOL_A_HEADER_*`).
pub mod header {
    pub const DEV_INDEX: u16 = 1;
    pub const DEV_NAME: u16 = 2;
    pub const FLAGS: u16 = 3;
}

/// The flags of a request (`ETHTOOL_FLAG_*`).
pub mod flag {
    pub const COMPACT_BITSETS: u64 = 1;
    pub const OMIT_REPLY: u64 = 2;
    pub const STATS: u64 = 4;
}

/// Sets of bits (`ETHTOOL_A_BITSET_*`).
pub mod bitset {
    pub const NOMASK: u16 = 1;
    pub const SIZE: u16 = 2;
    pub const BITS: u16 = 3;
    pub const VALUE: u16 = 4;
    pub const MASK: u16 = 5;
    pub const BITS_BIT: u16 = 1;
    pub const BIT_INDEX: u16 = 1;
    pub const BIT_NAME: u16 = 2;
    pub const BIT_VALUE: u16 = 3;
}

/// Sets of strings (`ETHTOOL_A_STRSET_*` and within).
pub mod strset {
    pub const STRINGSETS: u16 = 2;
    pub const COUNTS_ONLY: u16 = 3;
    pub const STRINGSET: u16 = 1;
    pub const ID: u16 = 1;
    pub const COUNT: u16 = 2;
    pub const STRINGS: u16 = 3;
    pub const STRING: u16 = 1;
    pub const INDEX: u16 = 1;
    pub const VALUE: u16 = 2;
}

pub mod linkinfo {
    pub const PORT: u16 = 2;
    pub const PHYADDR: u16 = 3;
    pub const TP_MDIX: u16 = 4;
    pub const TP_MDIX_CTRL: u16 = 5;
    pub const TRANSCEIVER: u16 = 6;
}

pub mod linkmodes {
    pub const AUTONEG: u16 = 2;
    pub const OURS: u16 = 3;
    pub const SPEED: u16 = 5;
    pub const DUPLEX: u16 = 6;
    pub const RATE_MATCHING: u16 = 10;
}

pub mod linkstate {
    pub const LINK: u16 = 2;
}

pub mod features {
    pub const HW: u16 = 2;
    pub const WANTED: u16 = 3;
    pub const ACTIVE: u16 = 4;
    pub const NOCHANGE: u16 = 5;
}

pub mod channels {
    pub const RX_MAX: u16 = 2;
    pub const TX_MAX: u16 = 3;
    pub const RX_COUNT: u16 = 6;
    pub const TX_COUNT: u16 = 7;
    pub const OTHER_COUNT: u16 = 8;
    pub const COMBINED_COUNT: u16 = 9;
}

pub mod tsinfo {
    pub const TIMESTAMPING: u16 = 2;
}

/// The standard statistics (`ETHTOOL_A_STATS_*` and within).
pub mod stats {
    pub const HEADER: u16 = 2;
    pub const GROUPS: u16 = 3;
    pub const GRP: u16 = 4;
    pub const GRP_ID: u16 = 2;
    pub const GRP_SS_ID: u16 = 3;
}

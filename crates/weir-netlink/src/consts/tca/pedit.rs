// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `pedit`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_pedit.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const CMD_MAX: u16 = 1;
pub const PARMS: u16 = 2;
pub const PAD: u16 = 3;
pub const PARMS_EX: u16 = 4;
pub const KEYS_EX: u16 = 5;
pub const HDR_TYPE_MAX: u16 = 5;
pub const KEY_EX: u16 = 6;
pub const MAX: u16 = 6;

/// Nested in `TCA_PEDIT_KEY_EX`.
pub mod key_ex {
    pub const HTYPE: u16 = 1;
    pub const CMD: u16 = 2;
    pub const MAX: u16 = 2;
}

/// Values of `TCA_PEDIT_KEY_EX_HTYPE`.
pub mod htype {
    pub const NETWORK: u16 = 0;
    pub const ETH: u16 = 1;
    pub const IP4: u16 = 2;
    pub const IP6: u16 = 3;
    pub const TCP: u16 = 4;
    pub const UDP: u16 = 5;
}

/// Values of `TCA_PEDIT_KEY_EX_CMD`.
pub mod cmd {
    pub const SET: u16 = 0;
    pub const ADD: u16 = 1;
}

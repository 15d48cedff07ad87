// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `tunnel_key`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_tunnel_key.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const ENC_IPV4_SRC: u16 = 3;
pub const ENC_IPV4_DST: u16 = 4;
pub const ENC_IPV6_SRC: u16 = 5;
pub const ENC_IPV6_DST: u16 = 6;
pub const ENC_KEY_ID: u16 = 7;
pub const PAD: u16 = 8;
pub const ENC_DST_PORT: u16 = 9;
pub const NO_CSUM: u16 = 10;
pub const ENC_OPTS: u16 = 11;
pub const ENC_TOS: u16 = 12;
pub const ENC_TTL: u16 = 13;
pub const MAX: u16 = 13;

// Values of `tc_tunnel_key.t_action`.
pub const ACT_SET: i32 = 1;
pub const ACT_RELEASE: i32 = 2;

/// Nested in `TCA_TUNNEL_KEY_ENC_OPTS`.
pub mod enc_opts {
    pub const UNSPEC: u16 = 0;
    pub const GENEVE: u16 = 1;
    pub const VXLAN: u16 = 2;
    pub const ERSPAN: u16 = 3;
    pub const MAX: u16 = 3;
}

/// Geneve options.
pub mod geneve {
    pub const UNSPEC: u16 = 0;
    pub const CLASS: u16 = 1;
    pub const TYPE: u16 = 2;
    pub const DATA: u16 = 3;
    pub const MAX: u16 = 3;
}

/// VXLAN options.
pub mod vxlan {
    pub const UNSPEC: u16 = 0;
    pub const GBP: u16 = 1;
    pub const MAX: u16 = 1;
}

/// ERSPAN options.
pub mod erspan {
    pub const UNSPEC: u16 = 0;
    pub const VER: u16 = 1;
    pub const INDEX: u16 = 2;
    pub const DIR: u16 = 3;
    pub const HWID: u16 = 4;
    pub const MAX: u16 = 4;
}

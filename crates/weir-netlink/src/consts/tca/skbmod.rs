// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `skbmod`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_skbmod.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const TM: u16 = 1;
pub const PARMS: u16 = 2;
pub const DMAC: u16 = 3;
pub const SMAC: u16 = 4;
pub const ETYPE: u16 = 5;
pub const PAD: u16 = 6;
pub const MAX: u16 = 6;

// Bits of `tc_skbmod.flags`.
pub const SKBMOD_F_DMAC: u64 = 0x1;
pub const SKBMOD_F_SMAC: u64 = 0x2;
pub const SKBMOD_F_ETYPE: u64 = 0x4;
pub const SKBMOD_F_SWAPMAC: u64 = 0x8;
pub const SKBMOD_F_ECN: u64 = 0x10;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Action `ife`.
//!
//! Names and values are those of Linux 6.1 (`linux/tc_act/tc_ife.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const PARMS: u16 = 1;
pub const TM: u16 = 2;
pub const DMAC: u16 = 3;
pub const SMAC: u16 = 4;
pub const TYPE: u16 = 5;
pub const METALST: u16 = 6;
pub const PAD: u16 = 7;
pub const MAX: u16 = 7;

/// The flag for encoding; without it the action decodes.
pub const ENCODE: u16 = 1;

// Metadata (`IFE_META_*`).
pub const META_SKBMARK: u16 = 1;
pub const META_HASHID: u16 = 2;
pub const META_PRIO: u16 = 3;
pub const META_QMAP: u16 = 4;
pub const META_TCINDEX: u16 = 5;
pub const META_MAX: u16 = 5;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 prefix notifications (`PREFIX_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/rtnetlink.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const ADDRESS: u16 = 1;
pub const CACHEINFO: u16 = 2;
pub const MAX: u16 = 2;

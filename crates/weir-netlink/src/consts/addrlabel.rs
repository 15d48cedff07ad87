// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6 address labels (`IFAL_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/if_addrlabel.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const ADDRESS: u16 = 1;
pub const LABEL: u16 = 2;
pub const MAX: u16 = 2;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespace ids: attributes (`NETNSA_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/net_namespace.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const NONE: u16 = 0;
pub const NSID: u16 = 1;
pub const PID: u16 = 2;
pub const FD: u16 = 3;
pub const TARGET_NSID: u16 = 4;
pub const CURRENT_NSID: u16 = 5;
pub const MAX: u16 = 5;

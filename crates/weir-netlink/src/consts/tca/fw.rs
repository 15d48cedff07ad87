// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `fw`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const CLASSID: u16 = 1;
pub const POLICE: u16 = 2;
pub const INDEV: u16 = 3;
pub const ACT: u16 = 4;
pub const MASK: u16 = 5;
pub const MAX: u16 = 5;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ioctls of `/dev/net/tun` (`include/uapi/linux/if_tun.h`).
#![allow(missing_docs)] // The names are Linux's, without `TUN`.

pub const SETNOCSUM: u32 = 0x4004_54c8;
pub const SETDEBUG: u32 = 0x4004_54c9;
pub const SETIFF: u32 = 0x4004_54ca;
pub const SETPERSIST: u32 = 0x4004_54cb;
pub const SETOWNER: u32 = 0x4004_54cc;
pub const SETLINK: u32 = 0x4004_54cd;
pub const SETGROUP: u32 = 0x4004_54ce;
pub const GETFEATURES: u32 = 0x8004_54cf;
pub const SETOFFLOAD: u32 = 0x4004_54d0;
pub const SETTXFILTER: u32 = 0x4004_54d1;
pub const GETIFF: u32 = 0x8004_54d2;
pub const GETSNDBUF: u32 = 0x8004_54d3;
pub const SETSNDBUF: u32 = 0x4004_54d4;
pub const ATTACHFILTER: u32 = 0x4010_54d5;
pub const DETACHFILTER: u32 = 0x4010_54d6;
pub const GETVNETHDRSZ: u32 = 0x8004_54d7;
pub const SETVNETHDRSZ: u32 = 0x4004_54d8;
pub const SETQUEUE: u32 = 0x4004_54d9;
pub const SETIFINDEX: u32 = 0x4004_54da;
pub const GETFILTER: u32 = 0x8010_54db;
pub const SETVNETLE: u32 = 0x4004_54dc;
pub const GETVNETLE: u32 = 0x8004_54dd;
pub const SETVNETBE: u32 = 0x4004_54de;
pub const GETVNETBE: u32 = 0x8004_54df;
pub const SETSTEERINGEBPF: u32 = 0x8004_54e0;
pub const SETFILTEREBPF: u32 = 0x8004_54e1;
pub const SETCARRIER: u32 = 0x4004_54e2;
pub const GETDEVNETNS: u32 = 0x54e3;

/// The requests with a number that the caller writes, and those with one that it reads.
pub(crate) const WRITES: std::ops::RangeInclusive<u32> = SETNOCSUM..=0x4004_54ff;
pub(crate) const READS: std::ops::RangeInclusive<u32> = GETFEATURES..=0x8004_54ff;
/// The other requests.
pub(crate) const OTHERS: &[u32] = &[ATTACHFILTER, DETACHFILTER, GETFILTER, GETDEVNETNS];

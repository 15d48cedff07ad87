// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses: attributes (`IFA_*`), flags (`IFA_F_*`) and origins.
//!
//! Names and values are those of Linux 6.1 (`linux/if_addr.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const ADDRESS: u16 = 1;
pub const LOCAL: u16 = 2;
pub const LABEL: u16 = 3;
pub const BROADCAST: u16 = 4;
pub const ANYCAST: u16 = 5;
pub const CACHEINFO: u16 = 6;
pub const MULTICAST: u16 = 7;
pub const FLAGS: u16 = 8;
pub const RT_PRIORITY: u16 = 9;
pub const TARGET_NETNSID: u16 = 10;
pub const PROTO: u16 = 11;
pub const MAX: u16 = 11;

/// Address flags (`IFA_F_*`).
pub mod f {
    pub const SECONDARY: u32 = 0x1;
    pub const TEMPORARY: u32 = 0x1;
    pub const NODAD: u32 = 0x2;
    pub const OPTIMISTIC: u32 = 0x4;
    pub const DADFAILED: u32 = 0x8;
    pub const HOMEADDRESS: u32 = 0x10;
    pub const DEPRECATED: u32 = 0x20;
    pub const TENTATIVE: u32 = 0x40;
    pub const PERMANENT: u32 = 0x80;
    pub const MANAGETEMPADDR: u32 = 0x100;
    pub const NOPREFIXROUTE: u32 = 0x200;
    pub const MCAUTOJOIN: u32 = 0x400;
    pub const STABLE_PRIVACY: u32 = 0x800;
}

/// Address origins for `IFA_PROTO` (`IFAPROT_*`).
pub mod prot {
    pub const UNSPEC: u8 = 0;
    pub const KERNEL_LO: u8 = 1;
    pub const KERNEL_RA: u8 = 2;
    pub const KERNEL_LL: u8 = 3;
}

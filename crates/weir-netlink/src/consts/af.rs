// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Address families (`AF_*`) as carried by rtnetlink headers, in one byte.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u8 = 0;
pub const UNIX: u8 = 1;
pub const INET: u8 = 2;
pub const BRIDGE: u8 = 7;
pub const INET6: u8 = 10;
pub const NETLINK: u8 = 16;
pub const PACKET: u8 = 17;
pub const MPLS: u8 = 28;
/// `RTNL_FAMILY_IPMR`: multicast routing cache entries of IPv4.
pub const IPMR: u8 = 128;
/// `RTNL_FAMILY_IP6MR`: multicast routing cache entries of IPv6.
pub const IP6MR: u8 = 129;

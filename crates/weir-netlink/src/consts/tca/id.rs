// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers of the action kinds (`TCA_ID_*`).
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const POLICE: u16 = 1;
pub const GACT: u16 = 5;
pub const IPT: u16 = 6;
pub const PEDIT: u16 = 7;
pub const MIRRED: u16 = 8;
pub const NAT: u16 = 9;
pub const XT: u16 = 10;
pub const SKBEDIT: u16 = 11;
pub const VLAN: u16 = 12;
pub const BPF: u16 = 13;
pub const CONNMARK: u16 = 14;
pub const SKBMOD: u16 = 15;
pub const CSUM: u16 = 16;
pub const TUNNEL_KEY: u16 = 17;
pub const SIMP: u16 = 22;
pub const IFE: u16 = 25;
pub const SAMPLE: u16 = 26;
pub const CTINFO: u16 = 27;
pub const MPLS: u16 = 28;
pub const CT: u16 = 29;
pub const GATE: u16 = 30;
pub const MAX: u16 = 255;

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters that link messages carry as arrays.
//!
//! Names and values are those of Linux 6.1 (`linux/snmp.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

/// Indices of the counters in `IFLA_INET6_STATS` (`IPSTATS_MIB_*`).
pub mod ip {
    pub const NUM: u16 = 0;
    pub const INPKTS: u16 = 1;
    pub const INOCTETS: u16 = 2;
    pub const INDELIVERS: u16 = 3;
    pub const OUTFORWDATAGRAMS: u16 = 4;
    pub const OUTPKTS: u16 = 5;
    pub const OUTOCTETS: u16 = 6;
    pub const INHDRERRORS: u16 = 7;
    pub const INTOOBIGERRORS: u16 = 8;
    pub const INNOROUTES: u16 = 9;
    pub const INADDRERRORS: u16 = 10;
    pub const INUNKNOWNPROTOS: u16 = 11;
    pub const INTRUNCATEDPKTS: u16 = 12;
    pub const INDISCARDS: u16 = 13;
    pub const OUTDISCARDS: u16 = 14;
    pub const OUTNOROUTES: u16 = 15;
    pub const REASMTIMEOUT: u16 = 16;
    pub const REASMREQDS: u16 = 17;
    pub const REASMOKS: u16 = 18;
    pub const REASMFAILS: u16 = 19;
    pub const FRAGOKS: u16 = 20;
    pub const FRAGFAILS: u16 = 21;
    pub const FRAGCREATES: u16 = 22;
    pub const INMCASTPKTS: u16 = 23;
    pub const OUTMCASTPKTS: u16 = 24;
    pub const INBCASTPKTS: u16 = 25;
    pub const OUTBCASTPKTS: u16 = 26;
    pub const INMCASTOCTETS: u16 = 27;
    pub const OUTMCASTOCTETS: u16 = 28;
    pub const INBCASTOCTETS: u16 = 29;
    pub const OUTBCASTOCTETS: u16 = 30;
    pub const CSUMERRORS: u16 = 31;
    pub const NOECTPKTS: u16 = 32;
    pub const ECT1PKTS: u16 = 33;
    pub const ECT0PKTS: u16 = 34;
    pub const CEPKTS: u16 = 35;
    pub const REASM_OVERLAPS: u16 = 36;
}

/// Indices of the counters in `IFLA_INET6_ICMP6STATS` (`ICMP6_MIB_*`).
pub mod icmp6 {
    pub const NUM: u16 = 0;
    pub const INMSGS: u16 = 1;
    pub const INERRORS: u16 = 2;
    pub const OUTMSGS: u16 = 3;
    pub const OUTERRORS: u16 = 4;
    pub const CSUMERRORS: u16 = 5;
    pub const RATELIMITHOST: u16 = 6;
}

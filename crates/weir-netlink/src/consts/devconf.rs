// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device settings that link messages carry as arrays.
//!
//! Names and values are those of Linux 6.1 (`linux/ip.h`, `linux/ipv6.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

/// Indices of the settings in `IFLA_INET_CONF` (`IPV4_DEVCONF_*`). The array's first element
/// has index 1.
pub mod v4 {
    pub const FORWARDING: u16 = 1;
    pub const MC_FORWARDING: u16 = 2;
    pub const PROXY_ARP: u16 = 3;
    pub const ACCEPT_REDIRECTS: u16 = 4;
    pub const SECURE_REDIRECTS: u16 = 5;
    pub const SEND_REDIRECTS: u16 = 6;
    pub const SHARED_MEDIA: u16 = 7;
    pub const RP_FILTER: u16 = 8;
    pub const ACCEPT_SOURCE_ROUTE: u16 = 9;
    pub const BOOTP_RELAY: u16 = 10;
    pub const LOG_MARTIANS: u16 = 11;
    pub const TAG: u16 = 12;
    pub const ARPFILTER: u16 = 13;
    pub const MEDIUM_ID: u16 = 14;
    pub const NOXFRM: u16 = 15;
    pub const NOPOLICY: u16 = 16;
    pub const FORCE_IGMP_VERSION: u16 = 17;
    pub const ARP_ANNOUNCE: u16 = 18;
    pub const ARP_IGNORE: u16 = 19;
    pub const PROMOTE_SECONDARIES: u16 = 20;
    pub const ARP_ACCEPT: u16 = 21;
    pub const ARP_NOTIFY: u16 = 22;
    pub const ACCEPT_LOCAL: u16 = 23;
    pub const SRC_VMARK: u16 = 24;
    pub const PROXY_ARP_PVLAN: u16 = 25;
    pub const ROUTE_LOCALNET: u16 = 26;
    pub const IGMPV2_UNSOLICITED_REPORT_INTERVAL: u16 = 27;
    pub const IGMPV3_UNSOLICITED_REPORT_INTERVAL: u16 = 28;
    pub const IGNORE_ROUTES_WITH_LINKDOWN: u16 = 29;
    pub const DROP_UNICAST_IN_L2_MULTICAST: u16 = 30;
    pub const DROP_GRATUITOUS_ARP: u16 = 31;
    pub const BC_FORWARDING: u16 = 32;
    pub const ARP_EVICT_NOCARRIER: u16 = 33;
    pub const MAX: u16 = 33;
}

/// Indices of the settings in `IFLA_INET6_CONF` (`DEVCONF_*`).
pub mod v6 {
    pub const FORWARDING: u16 = 0;
    pub const HOPLIMIT: u16 = 1;
    pub const MTU6: u16 = 2;
    pub const ACCEPT_RA: u16 = 3;
    pub const ACCEPT_REDIRECTS: u16 = 4;
    pub const AUTOCONF: u16 = 5;
    pub const DAD_TRANSMITS: u16 = 6;
    pub const RTR_SOLICITS: u16 = 7;
    pub const RTR_SOLICIT_INTERVAL: u16 = 8;
    pub const RTR_SOLICIT_DELAY: u16 = 9;
    pub const USE_TEMPADDR: u16 = 10;
    pub const TEMP_VALID_LFT: u16 = 11;
    pub const TEMP_PREFERED_LFT: u16 = 12;
    pub const REGEN_MAX_RETRY: u16 = 13;
    pub const MAX_DESYNC_FACTOR: u16 = 14;
    pub const MAX_ADDRESSES: u16 = 15;
    pub const FORCE_MLD_VERSION: u16 = 16;
    pub const ACCEPT_RA_DEFRTR: u16 = 17;
    pub const ACCEPT_RA_PINFO: u16 = 18;
    pub const ACCEPT_RA_RTR_PREF: u16 = 19;
    pub const RTR_PROBE_INTERVAL: u16 = 20;
    pub const ACCEPT_RA_RT_INFO_MAX_PLEN: u16 = 21;
    pub const PROXY_NDP: u16 = 22;
    pub const OPTIMISTIC_DAD: u16 = 23;
    pub const ACCEPT_SOURCE_ROUTE: u16 = 24;
    pub const MC_FORWARDING: u16 = 25;
    pub const DISABLE_IPV6: u16 = 26;
    pub const ACCEPT_DAD: u16 = 27;
    pub const FORCE_TLLAO: u16 = 28;
    pub const NDISC_NOTIFY: u16 = 29;
    pub const MLDV1_UNSOLICITED_REPORT_INTERVAL: u16 = 30;
    pub const MLDV2_UNSOLICITED_REPORT_INTERVAL: u16 = 31;
    pub const SUPPRESS_FRAG_NDISC: u16 = 32;
    pub const ACCEPT_RA_FROM_LOCAL: u16 = 33;
    pub const USE_OPTIMISTIC: u16 = 34;
    pub const ACCEPT_RA_MTU: u16 = 35;
    pub const STABLE_SECRET: u16 = 36;
    pub const USE_OIF_ADDRS_ONLY: u16 = 37;
    pub const ACCEPT_RA_MIN_HOP_LIMIT: u16 = 38;
    pub const IGNORE_ROUTES_WITH_LINKDOWN: u16 = 39;
    pub const DROP_UNICAST_IN_L2_MULTICAST: u16 = 40;
    pub const DROP_UNSOLICITED_NA: u16 = 41;
    pub const KEEP_ADDR_ON_DOWN: u16 = 42;
    pub const RTR_SOLICIT_MAX_INTERVAL: u16 = 43;
    pub const SEG6_ENABLED: u16 = 44;
    pub const SEG6_REQUIRE_HMAC: u16 = 45;
    pub const ENHANCED_DAD: u16 = 46;
    pub const ADDR_GEN_MODE: u16 = 47;
    pub const DISABLE_POLICY: u16 = 48;
    pub const ACCEPT_RA_RT_INFO_MIN_PLEN: u16 = 49;
    pub const NDISC_TCLASS: u16 = 50;
    pub const RPL_SEG_ENABLED: u16 = 51;
    pub const RA_DEFRTR_METRIC: u16 = 52;
    pub const IOAM6_ENABLED: u16 = 53;
    pub const IOAM6_ID: u16 = 54;
    pub const IOAM6_ID_WIDE: u16 = 55;
    pub const NDISC_EVICT_NOCARRIER: u16 = 56;
    pub const ACCEPT_UNTRACKED_NA: u16 = 57;
    pub const ACCEPT_RA_MIN_LFT: u16 = 58;
    pub const MAX: u16 = 59;
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: attributes (`IFLA_*`), per-kind data, statistics, flags, device types.
//!
//! Names and values are those of Linux 6.1 (`linux/if.h`, `linux/if_arp.h`, `linux/if_bridge.h`, `linux/if_link.h`, `linux/if_tunnel.h`, `linux/if_vlan.h`, `linux/netdevice.h`, `linux/veth.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const ADDRESS: u16 = 1;
pub const BROADCAST: u16 = 2;
pub const IFNAME: u16 = 3;
pub const MTU: u16 = 4;
pub const LINK: u16 = 5;
pub const QDISC: u16 = 6;
pub const COST: u16 = 8;
pub const PRIORITY: u16 = 9;
pub const MASTER: u16 = 10;
pub const WIRELESS: u16 = 11;
pub const PROTINFO: u16 = 12;
pub const TXQLEN: u16 = 13;
pub const MAP: u16 = 14;
pub const WEIGHT: u16 = 15;
pub const OPERSTATE: u16 = 16;
pub const LINKMODE: u16 = 17;
pub const LINKINFO: u16 = 18;
pub const NET_NS_PID: u16 = 19;
pub const IFALIAS: u16 = 20;
pub const NUM_VF: u16 = 21;
pub const VFINFO_LIST: u16 = 22;
pub const STATS64: u16 = 23;
pub const AF_SPEC: u16 = 26;
pub const GROUP: u16 = 27;
pub const NET_NS_FD: u16 = 28;
pub const EXT_MASK: u16 = 29;
pub const PROMISCUITY: u16 = 30;
pub const NUM_TX_QUEUES: u16 = 31;
pub const NUM_RX_QUEUES: u16 = 32;
pub const CARRIER: u16 = 33;
pub const PHYS_PORT_ID: u16 = 34;
pub const CARRIER_CHANGES: u16 = 35;
pub const PHYS_SWITCH_ID: u16 = 36;
pub const LINK_NETNSID: u16 = 37;
pub const PHYS_PORT_NAME: u16 = 38;
pub const PROTO_DOWN: u16 = 39;
pub const GSO_MAX_SEGS: u16 = 40;
pub const GSO_MAX_SIZE: u16 = 41;
pub const PAD: u16 = 42;
pub const XDP: u16 = 43;
pub const EVENT: u16 = 44;
pub const NEW_NETNSID: u16 = 45;
pub const IF_NETNSID: u16 = 46;
pub const TARGET_NETNSID: u16 = 46;
pub const CARRIER_UP_COUNT: u16 = 47;
pub const CARRIER_DOWN_COUNT: u16 = 48;
pub const NEW_IFINDEX: u16 = 49;
pub const MIN_MTU: u16 = 50;
pub const MAX_MTU: u16 = 51;
pub const PROP_LIST: u16 = 52;
pub const ALT_IFNAME: u16 = 53;
pub const PERM_ADDRESS: u16 = 54;
pub const PROTO_DOWN_REASON: u16 = 55;
pub const PARENT_DEV_NAME: u16 = 56;
pub const PARENT_DEV_BUS_NAME: u16 = 57;
pub const GRO_MAX_SIZE: u16 = 58;
pub const TSO_MAX_SIZE: u16 = 59;
pub const TSO_MAX_SEGS: u16 = 60;
pub const ALLMULTI: u16 = 61;
pub const MAX: u16 = 61;

// Names that share their prefix with a nest.
pub const STATS: u16 = 7;
pub const VF_PORTS: u16 = 24;
pub const PORT_SELF: u16 = 25;

/// Nested in `IFLA_LINKINFO` (`IFLA_INFO_*`).
pub mod info {
    pub const UNSPEC: u16 = 0;
    pub const KIND: u16 = 1;
    pub const DATA: u16 = 2;
    pub const XSTATS: u16 = 3;
    pub const SLAVE_KIND: u16 = 4;
    pub const SLAVE_DATA: u16 = 5;
    pub const MAX: u16 = 5;
}

/// `vlan` data.
pub mod vlan {
    pub const UNSPEC: u16 = 0;
    pub const ID: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const EGRESS_QOS: u16 = 3;
    pub const INGRESS_QOS: u16 = 4;
    pub const PROTOCOL: u16 = 5;
    pub const MAX: u16 = 5;
}

/// `IFLA_VLAN_FLAGS` bits.
pub mod vlan_flag {
    pub const REORDER_HDR: u32 = 0x1;
    pub const GVRP: u32 = 0x2;
    pub const LOOSE_BINDING: u32 = 0x4;
    pub const MVRP: u32 = 0x8;
    pub const BRIDGE_BINDING: u32 = 0x10;
}

/// `veth` data (`VETH_INFO_*`).
pub mod veth {
    pub const UNSPEC: u16 = 0;
    pub const PEER: u16 = 1;
    pub const MAX: u16 = 1;
}

/// `bridge` data.
pub mod br {
    pub const UNSPEC: u16 = 0;
    pub const FORWARD_DELAY: u16 = 1;
    pub const HELLO_TIME: u16 = 2;
    pub const MAX_AGE: u16 = 3;
    pub const AGEING_TIME: u16 = 4;
    pub const STP_STATE: u16 = 5;
    pub const PRIORITY: u16 = 6;
    pub const VLAN_FILTERING: u16 = 7;
    pub const VLAN_PROTOCOL: u16 = 8;
    pub const GROUP_FWD_MASK: u16 = 9;
    pub const ROOT_ID: u16 = 10;
    pub const BRIDGE_ID: u16 = 11;
    pub const ROOT_PORT: u16 = 12;
    pub const ROOT_PATH_COST: u16 = 13;
    pub const TOPOLOGY_CHANGE: u16 = 14;
    pub const TOPOLOGY_CHANGE_DETECTED: u16 = 15;
    pub const HELLO_TIMER: u16 = 16;
    pub const TCN_TIMER: u16 = 17;
    pub const TOPOLOGY_CHANGE_TIMER: u16 = 18;
    pub const GC_TIMER: u16 = 19;
    pub const GROUP_ADDR: u16 = 20;
    pub const FDB_FLUSH: u16 = 21;
    pub const MCAST_ROUTER: u16 = 22;
    pub const MCAST_SNOOPING: u16 = 23;
    pub const MCAST_QUERY_USE_IFADDR: u16 = 24;
    pub const MCAST_QUERIER: u16 = 25;
    pub const MCAST_HASH_ELASTICITY: u16 = 26;
    pub const MCAST_HASH_MAX: u16 = 27;
    pub const MCAST_LAST_MEMBER_CNT: u16 = 28;
    pub const MCAST_STARTUP_QUERY_CNT: u16 = 29;
    pub const MCAST_LAST_MEMBER_INTVL: u16 = 30;
    pub const MCAST_MEMBERSHIP_INTVL: u16 = 31;
    pub const MCAST_QUERIER_INTVL: u16 = 32;
    pub const MCAST_QUERY_INTVL: u16 = 33;
    pub const MCAST_QUERY_RESPONSE_INTVL: u16 = 34;
    pub const MCAST_STARTUP_QUERY_INTVL: u16 = 35;
    pub const NF_CALL_IPTABLES: u16 = 36;
    pub const NF_CALL_IP6TABLES: u16 = 37;
    pub const NF_CALL_ARPTABLES: u16 = 38;
    pub const VLAN_DEFAULT_PVID: u16 = 39;
    pub const PAD: u16 = 40;
    pub const VLAN_STATS_ENABLED: u16 = 41;
    pub const MCAST_STATS_ENABLED: u16 = 42;
    pub const MCAST_IGMP_VERSION: u16 = 43;
    pub const MCAST_MLD_VERSION: u16 = 44;
    pub const VLAN_STATS_PER_PORT: u16 = 45;
    pub const MULTI_BOOLOPT: u16 = 46;
    pub const MCAST_QUERIER_STATE: u16 = 47;
    pub const MAX: u16 = 47;
}

/// Bridge port data.
pub mod brport {
    pub const UNSPEC: u16 = 0;
    pub const STATE: u16 = 1;
    pub const PRIORITY: u16 = 2;
    pub const COST: u16 = 3;
    pub const MODE: u16 = 4;
    pub const GUARD: u16 = 5;
    pub const PROTECT: u16 = 6;
    pub const FAST_LEAVE: u16 = 7;
    pub const LEARNING: u16 = 8;
    pub const UNICAST_FLOOD: u16 = 9;
    pub const PROXYARP: u16 = 10;
    pub const LEARNING_SYNC: u16 = 11;
    pub const PROXYARP_WIFI: u16 = 12;
    pub const ROOT_ID: u16 = 13;
    pub const BRIDGE_ID: u16 = 14;
    pub const DESIGNATED_PORT: u16 = 15;
    pub const DESIGNATED_COST: u16 = 16;
    pub const ID: u16 = 17;
    pub const NO: u16 = 18;
    pub const TOPOLOGY_CHANGE_ACK: u16 = 19;
    pub const CONFIG_PENDING: u16 = 20;
    pub const MESSAGE_AGE_TIMER: u16 = 21;
    pub const FORWARD_DELAY_TIMER: u16 = 22;
    pub const HOLD_TIMER: u16 = 23;
    pub const FLUSH: u16 = 24;
    pub const MULTICAST_ROUTER: u16 = 25;
    pub const PAD: u16 = 26;
    pub const MCAST_FLOOD: u16 = 27;
    pub const MCAST_TO_UCAST: u16 = 28;
    pub const VLAN_TUNNEL: u16 = 29;
    pub const BCAST_FLOOD: u16 = 30;
    pub const GROUP_FWD_MASK: u16 = 31;
    pub const NEIGH_SUPPRESS: u16 = 32;
    pub const ISOLATED: u16 = 33;
    pub const BACKUP_PORT: u16 = 34;
    pub const MRP_RING_OPEN: u16 = 35;
    pub const MRP_IN_OPEN: u16 = 36;
    pub const MCAST_EHT_HOSTS_LIMIT: u16 = 37;
    pub const MCAST_EHT_HOSTS_CNT: u16 = 38;
    pub const LOCKED: u16 = 39;
    pub const MAX: u16 = 39;
}

/// Groups of bridges (`MDBA_*`, `MDBE_*`).
pub mod mdb {
    pub const MDB: u16 = 1;
    pub const ROUTER: u16 = 2;
    pub const ENTRY: u16 = 1;
    pub const ENTRY_INFO: u16 = 1;
    pub const EATTR_TIMER: u16 = 1;
    pub const EATTR_SRC_LIST: u16 = 2;
    pub const EATTR_GROUP_MODE: u16 = 3;
    pub const EATTR_SOURCE: u16 = 4;
    pub const EATTR_RTPROT: u16 = 5;
    pub const SRCLIST_ENTRY: u16 = 1;
    pub const SRCATTR_ADDRESS: u16 = 1;
    pub const SRCATTR_TIMER: u16 = 2;
    pub const ROUTER_PORT: u16 = 1;
    pub const ROUTER_TIMER: u16 = 1;
    pub const ROUTER_TYPE: u16 = 2;
    pub const ROUTER_INET_TIMER: u16 = 3;
    pub const ROUTER_INET6_TIMER: u16 = 4;
    pub const ROUTER_VID: u16 = 5;
    pub const SET_ENTRY: u16 = 1;
    pub const SET_ENTRY_ATTRS: u16 = 2;
    pub const SET_ENTRY_MAX: u16 = 2;
    pub const ATTR_SOURCE: u16 = 1;
    pub const ATTR_MAX: u16 = 1;
}

/// `bond` data.
pub mod bond {
    pub const UNSPEC: u16 = 0;
    pub const MODE: u16 = 1;
    pub const ACTIVE_SLAVE: u16 = 2;
    pub const MIIMON: u16 = 3;
    pub const UPDELAY: u16 = 4;
    pub const DOWNDELAY: u16 = 5;
    pub const USE_CARRIER: u16 = 6;
    pub const ARP_INTERVAL: u16 = 7;
    pub const ARP_IP_TARGET: u16 = 8;
    pub const ARP_VALIDATE: u16 = 9;
    pub const ARP_ALL_TARGETS: u16 = 10;
    pub const PRIMARY: u16 = 11;
    pub const PRIMARY_RESELECT: u16 = 12;
    pub const FAIL_OVER_MAC: u16 = 13;
    pub const XMIT_HASH_POLICY: u16 = 14;
    pub const RESEND_IGMP: u16 = 15;
    pub const NUM_PEER_NOTIF: u16 = 16;
    pub const ALL_SLAVES_ACTIVE: u16 = 17;
    pub const MIN_LINKS: u16 = 18;
    pub const LP_INTERVAL: u16 = 19;
    pub const PACKETS_PER_SLAVE: u16 = 20;
    pub const AD_LACP_RATE: u16 = 21;
    pub const AD_SELECT: u16 = 22;
    pub const AD_INFO: u16 = 23;
    pub const AD_ACTOR_SYS_PRIO: u16 = 24;
    pub const AD_USER_PORT_KEY: u16 = 25;
    pub const AD_ACTOR_SYSTEM: u16 = 26;
    pub const TLB_DYNAMIC_LB: u16 = 27;
    pub const PEER_NOTIF_DELAY: u16 = 28;
    pub const AD_LACP_ACTIVE: u16 = 29;
    pub const MISSED_MAX: u16 = 30;
    pub const NS_IP6_TARGET: u16 = 31;
    pub const COUPLED_CONTROL: u16 = 32;
    pub const MAX: u16 = 32;
}

/// `vxlan` data.
pub mod vxlan {
    pub const UNSPEC: u16 = 0;
    pub const ID: u16 = 1;
    pub const GROUP: u16 = 2;
    pub const LINK: u16 = 3;
    pub const LOCAL: u16 = 4;
    pub const TTL: u16 = 5;
    pub const TOS: u16 = 6;
    pub const LEARNING: u16 = 7;
    pub const AGEING: u16 = 8;
    pub const LIMIT: u16 = 9;
    pub const PORT_RANGE: u16 = 10;
    pub const PROXY: u16 = 11;
    pub const RSC: u16 = 12;
    pub const L2MISS: u16 = 13;
    pub const L3MISS: u16 = 14;
    pub const PORT: u16 = 15;
    pub const GROUP6: u16 = 16;
    pub const LOCAL6: u16 = 17;
    pub const UDP_CSUM: u16 = 18;
    pub const UDP_ZERO_CSUM6_TX: u16 = 19;
    pub const UDP_ZERO_CSUM6_RX: u16 = 20;
    pub const REMCSUM_TX: u16 = 21;
    pub const REMCSUM_RX: u16 = 22;
    pub const GBP: u16 = 23;
    pub const REMCSUM_NOPARTIAL: u16 = 24;
    pub const COLLECT_METADATA: u16 = 25;
    pub const LABEL: u16 = 26;
    pub const GPE: u16 = 27;
    pub const TTL_INHERIT: u16 = 28;
    pub const DF: u16 = 29;
    pub const VNIFILTER: u16 = 30;
    pub const MAX: u16 = 30;
}

/// `geneve` data.
pub mod geneve {
    pub const UNSPEC: u16 = 0;
    pub const ID: u16 = 1;
    pub const REMOTE: u16 = 2;
    pub const TTL: u16 = 3;
    pub const TOS: u16 = 4;
    pub const PORT: u16 = 5;
    pub const COLLECT_METADATA: u16 = 6;
    pub const REMOTE6: u16 = 7;
    pub const UDP_CSUM: u16 = 8;
    pub const UDP_ZERO_CSUM6_TX: u16 = 9;
    pub const UDP_ZERO_CSUM6_RX: u16 = 10;
    pub const LABEL: u16 = 11;
    pub const TTL_INHERIT: u16 = 12;
    pub const DF: u16 = 13;
    pub const INNER_PROTO_INHERIT: u16 = 14;
    pub const MAX: u16 = 14;
}

/// `macvlan` data.
pub mod macvlan {
    pub const UNSPEC: u16 = 0;
    pub const MODE: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const MACADDR_MODE: u16 = 3;
    pub const MACADDR: u16 = 4;
    pub const MACADDR_DATA: u16 = 5;
    pub const MACADDR_COUNT: u16 = 6;
    pub const BC_QUEUE_LEN: u16 = 7;
    pub const BC_QUEUE_LEN_USED: u16 = 8;
    pub const MAX: u16 = 8;
}

/// `ipvlan` data.
pub mod ipvlan {
    pub const UNSPEC: u16 = 0;
    pub const MODE: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const MAX: u16 = 2;
}

/// `vrf` data.
pub mod vrf {
    pub const UNSPEC: u16 = 0;
    pub const TABLE: u16 = 1;
    pub const MAX: u16 = 1;
}

/// GRE tunnel data.
pub mod gre {
    pub const UNSPEC: u16 = 0;
    pub const LINK: u16 = 1;
    pub const IFLAGS: u16 = 2;
    pub const OFLAGS: u16 = 3;
    pub const IKEY: u16 = 4;
    pub const OKEY: u16 = 5;
    pub const LOCAL: u16 = 6;
    pub const REMOTE: u16 = 7;
    pub const TTL: u16 = 8;
    pub const TOS: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const ENCAP_LIMIT: u16 = 11;
    pub const FLOWINFO: u16 = 12;
    pub const FLAGS: u16 = 13;
    pub const ENCAP_TYPE: u16 = 14;
    pub const ENCAP_FLAGS: u16 = 15;
    pub const ENCAP_SPORT: u16 = 16;
    pub const ENCAP_DPORT: u16 = 17;
    pub const COLLECT_METADATA: u16 = 18;
    pub const IGNORE_DF: u16 = 19;
    pub const FWMARK: u16 = 20;
    pub const ERSPAN_INDEX: u16 = 21;
    pub const ERSPAN_VER: u16 = 22;
    pub const ERSPAN_DIR: u16 = 23;
    pub const ERSPAN_HWID: u16 = 24;
    pub const MAX: u16 = 24;
}

/// IP tunnel data.
pub mod iptun {
    pub const UNSPEC: u16 = 0;
    pub const LINK: u16 = 1;
    pub const LOCAL: u16 = 2;
    pub const REMOTE: u16 = 3;
    pub const TTL: u16 = 4;
    pub const TOS: u16 = 5;
    pub const ENCAP_LIMIT: u16 = 6;
    pub const FLOWINFO: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const PROTO: u16 = 9;
    pub const PMTUDISC: u16 = 10;
    pub const IPTUN_6RD_PREFIX: u16 = 11;
    pub const IPTUN_6RD_RELAY_PREFIX: u16 = 12;
    pub const IPTUN_6RD_PREFIXLEN: u16 = 13;
    pub const IPTUN_6RD_RELAY_PREFIXLEN: u16 = 14;
    pub const ENCAP_TYPE: u16 = 15;
    pub const ENCAP_FLAGS: u16 = 16;
    pub const ENCAP_SPORT: u16 = 17;
    pub const ENCAP_DPORT: u16 = 18;
    pub const COLLECT_METADATA: u16 = 19;
    pub const FWMARK: u16 = 20;
    pub const MAX: u16 = 20;
}

/// AF_INET inside `IFLA_AF_SPEC`.
pub mod inet {
    pub const UNSPEC: u16 = 0;
    pub const CONF: u16 = 1;
    pub const MAX: u16 = 1;
}

/// AF_INET6 inside `IFLA_AF_SPEC`.
pub mod inet6 {
    pub const UNSPEC: u16 = 0;
    pub const FLAGS: u16 = 1;
    pub const CONF: u16 = 2;
    pub const STATS: u16 = 3;
    pub const MCAST: u16 = 4;
    pub const CACHEINFO: u16 = 5;
    pub const ICMP6STATS: u16 = 6;
    pub const TOKEN: u16 = 7;
    pub const ADDR_GEN_MODE: u16 = 8;
    pub const RA_MTU: u16 = 9;
    pub const MAX: u16 = 9;
}

/// Values of `IFLA_INET6_ADDR_GEN_MODE`.
pub mod addr_gen {
    pub const EUI64: u8 = 0;
    pub const NONE: u8 = 1;
    pub const STABLE_PRIVACY: u8 = 2;
    pub const RANDOM: u8 = 3;
}

/// Nested in `IFLA_XDP`.
pub mod xdp {
    pub const UNSPEC: u16 = 0;
    pub const FD: u16 = 1;
    pub const ATTACHED: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const PROG_ID: u16 = 4;
    pub const DRV_PROG_ID: u16 = 5;
    pub const SKB_PROG_ID: u16 = 6;
    pub const HW_PROG_ID: u16 = 7;
    pub const EXPECTED_FD: u16 = 8;
    pub const MAX: u16 = 8;
}

/// Nested in `IFLA_VF_INFO`.
pub mod vf {
    pub const UNSPEC: u16 = 0;
    pub const PORT_UNSPEC: u16 = 0;
    pub const INFO: u16 = 1;
    pub const MAC: u16 = 1;
    pub const VLAN_INFO: u16 = 1;
    pub const PORT: u16 = 1;
    pub const PORT_MAX: u16 = 1;
    pub const VLAN: u16 = 2;
    pub const TX_RATE: u16 = 3;
    pub const SPOOFCHK: u16 = 4;
    pub const LINK_STATE: u16 = 5;
    pub const RATE: u16 = 6;
    pub const RSS_QUERY_EN: u16 = 7;
    pub const STATS: u16 = 8;
    pub const TRUST: u16 = 9;
    pub const IB_NODE_GUID: u16 = 10;
    pub const IB_PORT_GUID: u16 = 11;
    pub const VLAN_LIST: u16 = 12;
    pub const BROADCAST: u16 = 13;
    pub const MAX: u16 = 13;
}

/// Attributes of `RTM_GETSTATS` (`IFLA_STATS_*`).
pub mod stats {
    pub const UNSPEC: u16 = 0;
    pub const GETSET_UNSPEC: u16 = 0;
    pub const LINK_64: u16 = 1;
    pub const GET_FILTERS: u16 = 1;
    pub const LINK_XSTATS: u16 = 2;
    pub const SET_OFFLOAD_XSTATS_L3_STATS: u16 = 2;
    pub const GETSET_MAX: u16 = 2;
    pub const LINK_XSTATS_SLAVE: u16 = 3;
    pub const LINK_OFFLOAD_XSTATS: u16 = 4;
    pub const AF_SPEC: u16 = 5;
    pub const MAX: u16 = 5;

    /// Nested in `LINK_OFFLOAD_XSTATS` (`IFLA_OFFLOAD_XSTATS_*`).
    pub mod offload {
        pub const CPU_HIT: u16 = 1;
        pub const HW_S_INFO: u16 = 2;
        pub const L3_STATS: u16 = 3;

        // Nested in an entry of `HW_S_INFO`.
        pub const INFO_REQUEST: u16 = 1;
        pub const INFO_USED: u16 = 2;
    }
}

/// Values of `IFLA_EVENT`.
pub mod event {
    pub const NONE: u32 = 0;
    pub const REBOOT: u32 = 1;
    pub const FEATURES: u32 = 2;
    pub const BONDING_FAILOVER: u32 = 3;
    pub const NOTIFY_PEERS: u32 = 4;
    pub const IGMP_RESEND: u32 = 5;
    pub const BONDING_OPTIONS: u32 = 6;
}

/// Device flags (`IFF_*`).
pub mod iff {
    pub const UP: u32 = 0x1;
    pub const BROADCAST: u32 = 0x2;
    pub const DEBUG: u32 = 0x4;
    pub const LOOPBACK: u32 = 0x8;
    pub const POINTOPOINT: u32 = 0x10;
    pub const NOTRAILERS: u32 = 0x20;
    pub const RUNNING: u32 = 0x40;
    pub const NOARP: u32 = 0x80;
    pub const PROMISC: u32 = 0x100;
    pub const ALLMULTI: u32 = 0x200;
    pub const MASTER: u32 = 0x400;
    pub const SLAVE: u32 = 0x800;
    pub const MULTICAST: u32 = 0x1000;
    pub const PORTSEL: u32 = 0x2000;
    pub const AUTOMEDIA: u32 = 0x4000;
    pub const DYNAMIC: u32 = 0x8000;
    pub const LOWER_UP: u32 = 0x10000;
    pub const DORMANT: u32 = 0x20000;
    pub const ECHO: u32 = 0x40000;
    pub const VOLATILE: u32 = 0x70c5a;
}

/// RFC 2863 operational states (`IF_OPER_*`).
pub mod oper {
    pub const UNKNOWN: u8 = 0;
    pub const NOTPRESENT: u8 = 1;
    pub const DOWN: u8 = 2;
    pub const LOWERLAYERDOWN: u8 = 3;
    pub const TESTING: u8 = 4;
    pub const DORMANT: u8 = 5;
    pub const UP: u8 = 6;
}

/// Values of `IFLA_LINKMODE`.
pub mod link_mode {
    pub const DEFAULT: u8 = 0;
    pub const DORMANT: u8 = 1;
    pub const TESTING: u8 = 2;
}

/// Device types (`ARPHRD_*`).
pub mod arphrd {
    pub const NETROM: u16 = 0;
    pub const ETHER: u16 = 1;
    pub const EETHER: u16 = 2;
    pub const AX25: u16 = 3;
    pub const PRONET: u16 = 4;
    pub const CHAOS: u16 = 5;
    pub const IEEE802: u16 = 6;
    pub const ARCNET: u16 = 7;
    pub const APPLETLK: u16 = 8;
    pub const DLCI: u16 = 15;
    pub const ATM: u16 = 19;
    pub const METRICOM: u16 = 23;
    pub const IEEE1394: u16 = 24;
    pub const EUI64: u16 = 27;
    pub const INFINIBAND: u16 = 32;
    pub const SLIP: u16 = 256;
    pub const CSLIP: u16 = 257;
    pub const SLIP6: u16 = 258;
    pub const CSLIP6: u16 = 259;
    pub const RSRVD: u16 = 260;
    pub const ADAPT: u16 = 264;
    pub const ROSE: u16 = 270;
    pub const X25: u16 = 271;
    pub const HWX25: u16 = 272;
    pub const CAN: u16 = 280;
    pub const MCTP: u16 = 290;
    pub const PPP: u16 = 512;
    pub const CISCO: u16 = 513;
    pub const HDLC: u16 = 513;
    pub const LAPB: u16 = 516;
    pub const DDCMP: u16 = 517;
    pub const RAWHDLC: u16 = 518;
    pub const RAWIP: u16 = 519;
    pub const TUNNEL: u16 = 768;
    pub const TUNNEL6: u16 = 769;
    pub const FRAD: u16 = 770;
    pub const SKIP: u16 = 771;
    pub const LOOPBACK: u16 = 772;
    pub const LOCALTLK: u16 = 773;
    pub const FDDI: u16 = 774;
    pub const BIF: u16 = 775;
    pub const SIT: u16 = 776;
    pub const IPDDP: u16 = 777;
    pub const IPGRE: u16 = 778;
    pub const PIMREG: u16 = 779;
    pub const HIPPI: u16 = 780;
    pub const ASH: u16 = 781;
    pub const ECONET: u16 = 782;
    pub const IRDA: u16 = 783;
    pub const FCPP: u16 = 784;
    pub const FCAL: u16 = 785;
    pub const FCPL: u16 = 786;
    pub const FCFABRIC: u16 = 787;
    pub const IEEE802_TR: u16 = 800;
    pub const IEEE80211: u16 = 801;
    pub const IEEE80211_PRISM: u16 = 802;
    pub const IEEE80211_RADIOTAP: u16 = 803;
    pub const IEEE802154: u16 = 804;
    pub const IEEE802154_MONITOR: u16 = 805;
    pub const PHONET: u16 = 820;
    pub const PHONET_PIPE: u16 = 821;
    pub const CAIF: u16 = 822;
    pub const IP6GRE: u16 = 823;
    pub const NETLINK: u16 = 824;
    pub const ARPHRD_6LOWPAN: u16 = 825;
    pub const VSOCKMON: u16 = 826;
    pub const NONE: u16 = 65534;
    pub const VOID: u16 = 65535;
}

/// `NET_NAME_*`, `NET_ADDR_*`.
pub mod netdev {
    pub const NAME_UNKNOWN: u8 = 0;
    pub const NAME_ENUM: u8 = 1;
    pub const NAME_PREDICTABLE: u8 = 2;
    pub const NAME_USER: u8 = 3;
    pub const NAME_RENAMED: u8 = 4;
    pub const ADDR_PERM: u8 = 0;
    pub const ADDR_RANDOM: u8 = 1;
    pub const ADDR_STOLEN: u8 = 2;
    pub const ADDR_SET: u8 = 3;
}

/// Nested in `IFLA_BOND_AD_INFO`.
pub mod bond_ad_info {
    pub const UNSPEC: u16 = 0;
    pub const AGGREGATOR: u16 = 1;
    pub const NUM_PORTS: u16 = 2;
    pub const ACTOR_KEY: u16 = 3;
    pub const PARTNER_KEY: u16 = 4;
    pub const PARTNER_MAC: u16 = 5;
    pub const MAX: u16 = 5;
}

/// Bond port data.
pub mod bond_slave {
    pub const UNSPEC: u16 = 0;
    pub const STATE: u16 = 1;
    pub const MII_STATUS: u16 = 2;
    pub const LINK_FAILURE_COUNT: u16 = 3;
    pub const PERM_HWADDR: u16 = 4;
    pub const QUEUE_ID: u16 = 5;
    pub const AD_AGGREGATOR_ID: u16 = 6;
    pub const AD_ACTOR_OPER_PORT_STATE: u16 = 7;
    pub const AD_PARTNER_OPER_PORT_STATE: u16 = 8;
    pub const PRIO: u16 = 9;
    pub const ACTOR_PORT_PRIO: u16 = 10;
    pub const AD_CHURN_ACTOR_STATE: u16 = 11;
    pub const AD_CHURN_PARTNER_STATE: u16 = 12;
    pub const MAX: u16 = 12;
}

/// VRF port data.
pub mod vrf_port {
    pub const UNSPEC: u16 = 0;
    pub const TABLE: u16 = 1;
    pub const MAX: u16 = 1;
}

/// Nested in the QoS maps of `vlan`.
pub mod vlan_qos {
    pub const UNSPEC: u16 = 0;
    pub const MAPPING: u16 = 1;
    pub const MAX: u16 = 1;
}

/// Nested in `IFLA_PROTO_DOWN_REASON`.
pub mod proto_down_reason {
    pub const UNSPEC: u16 = 0;
    pub const MASK: u16 = 1;
    pub const VALUE: u16 = 2;
    pub const MAX: u16 = 2;
}

/// `vti` data.
pub mod vti {
    pub const UNSPEC: u16 = 0;
    pub const LINK: u16 = 1;
    pub const IKEY: u16 = 2;
    pub const OKEY: u16 = 3;
    pub const LOCAL: u16 = 4;
    pub const REMOTE: u16 = 5;
    pub const FWMARK: u16 = 6;
    pub const MAX: u16 = 6;
}

/// `xfrm` data.
pub mod xfrm {
    pub const UNSPEC: u16 = 0;
    pub const LINK: u16 = 1;
    pub const IF_ID: u16 = 2;
    pub const COLLECT_METADATA: u16 = 3;
    pub const MAX: u16 = 3;
}

/// `macsec` data.
pub mod macsec {
    pub const UNSPEC: u16 = 0;
    pub const SCI: u16 = 1;
    pub const PORT: u16 = 2;
    pub const ICV_LEN: u16 = 3;
    pub const CIPHER_SUITE: u16 = 4;
    pub const WINDOW: u16 = 5;
    pub const ENCODING_SA: u16 = 6;
    pub const ENCRYPT: u16 = 7;
    pub const PROTECT: u16 = 8;
    pub const INC_SCI: u16 = 9;
    pub const ES: u16 = 10;
    pub const SCB: u16 = 11;
    pub const REPLAY_PROTECT: u16 = 12;
    pub const VALIDATION: u16 = 13;
    pub const PAD: u16 = 14;
    pub const OFFLOAD: u16 = 15;
    pub const MAX: u16 = 15;
}

/// `hsr` data.
pub mod hsr {
    pub const UNSPEC: u16 = 0;
    pub const SLAVE1: u16 = 1;
    pub const SLAVE2: u16 = 2;
    pub const MULTICAST_SPEC: u16 = 3;
    pub const SUPERVISION_ADDR: u16 = 4;
    pub const SEQ_NR: u16 = 5;
    pub const VERSION: u16 = 6;
    pub const PROTOCOL: u16 = 7;
    pub const INTERLINK: u16 = 8;
    pub const MAX: u16 = 8;
}

/// `gtp` data.
pub mod gtp {
    pub const UNSPEC: u16 = 0;
    pub const FD0: u16 = 1;
    pub const FD1: u16 = 2;
    pub const PDP_HASHSIZE: u16 = 3;
    pub const ROLE: u16 = 4;
    pub const CREATE_SOCKETS: u16 = 5;
    pub const RESTART_COUNT: u16 = 6;
    pub const MAX: u16 = 6;
}

/// `bareudp` data.
pub mod bareudp {
    pub const UNSPEC: u16 = 0;
    pub const PORT: u16 = 1;
    pub const ETHERTYPE: u16 = 2;
    pub const SRCPORT_MIN: u16 = 3;
    pub const MULTIPROTO_MODE: u16 = 4;
    pub const MAX: u16 = 4;
}

/// `tun` data.
pub mod tun {
    pub const UNSPEC: u16 = 0;
    pub const OWNER: u16 = 1;
    pub const GROUP: u16 = 2;
    pub const TYPE: u16 = 3;
    pub const PI: u16 = 4;
    pub const VNET_HDR: u16 = 5;
    pub const PERSIST: u16 = 6;
    pub const MULTI_QUEUE: u16 = 7;
    pub const NUM_QUEUES: u16 = 8;
    pub const NUM_DISABLED_QUEUES: u16 = 9;
    pub const MAX: u16 = 9;
}

/// `rmnet` data.
pub mod rmnet {
    pub const UNSPEC: u16 = 0;
    pub const MUX_ID: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const MAX: u16 = 2;
}

/// Values of `IFLA_MACVLAN_MODE`.
pub mod macvlan_mode {
    pub const PRIVATE: u32 = 1;
    pub const VEPA: u32 = 2;
    pub const BRIDGE: u32 = 4;
    pub const PASSTHRU: u32 = 8;
    pub const SOURCE: u32 = 16;
}

/// Inside `IFLA_AF_SPEC` of AF_BRIDGE.
pub mod bridge {
    pub const FLAGS: u16 = 0;
    pub const MODE: u16 = 1;
    pub const VLAN_INFO: u16 = 2;
    pub const VLAN_TUNNEL_INFO: u16 = 3;
    // Nested in `VLAN_TUNNEL_INFO`.
    pub const VLAN_TUNNEL_ID: u16 = 1;
    pub const VLAN_TUNNEL_VID: u16 = 2;
    pub const VLAN_TUNNEL_FLAGS: u16 = 3;
    pub const VLAN_TUNNEL_MAX: u16 = 3;
    pub const MRP: u16 = 4;
    pub const CFM: u16 = 5;
    pub const MST: u16 = 6;
    // Nested in `MST` (`IFLA_BRIDGE_MST_ENTRY`), and in that.
    pub const MST_ENTRY: u16 = 1;
    pub const MST_ENTRY_MSTI: u16 = 1;
    pub const MST_ENTRY_STATE: u16 = 2;
    pub const MAX: u16 = 6;

    // Flags of `bridge_vlan_info`.
    pub const VLAN_INFO_MASTER: u16 = 1;
    pub const VLAN_INFO_PVID: u16 = 2;
    pub const VLAN_INFO_UNTAGGED: u16 = 4;
    pub const VLAN_INFO_RANGE_BEGIN: u16 = 8;
    pub const VLAN_INFO_RANGE_END: u16 = 16;
    pub const VLAN_INFO_BRENTRY: u16 = 32;
    pub const VLAN_INFO_ONLY_OPTS: u16 = 64;
}

/// Attributes of `RTM_NEWVLAN` (`BRIDGE_VLANDB_*`).
pub mod vlandb {
    pub const ENTRY: u16 = 1;
    pub const GLOBAL_OPTIONS: u16 = 2;
    pub const MAX: u16 = 2;

    // Of a request for all (`BRIDGE_VLANDB_DUMP_*`).
    pub const DUMP_FLAGS: u16 = 1;
    pub const DUMP_MAX: u16 = 1;
    pub const DUMPF_STATS: u32 = 1;
    pub const DUMPF_GLOBAL: u32 = 2;

    // Nested in `ENTRY`.
    pub const ENTRY_INFO: u16 = 1;
    pub const ENTRY_RANGE: u16 = 2;
    pub const ENTRY_STATE: u16 = 3;
    pub const ENTRY_TUNNEL_INFO: u16 = 4;
    pub const ENTRY_STATS: u16 = 5;
    pub const ENTRY_MCAST_ROUTER: u16 = 6;

    // Nested in `ENTRY_TUNNEL_INFO` (`BRIDGE_VLANDB_TINFO_*`).
    pub const TINFO_ID: u16 = 1;
    pub const TINFO_CMD: u16 = 2;
    pub const TINFO_MAX: u16 = 2;

    // Nested in `ENTRY_STATS`.
    pub const STATS_RX_BYTES: u16 = 1;
    pub const STATS_RX_PACKETS: u16 = 2;
    pub const STATS_TX_BYTES: u16 = 3;
    pub const STATS_TX_PACKETS: u16 = 4;
    pub const STATS_PAD: u16 = 5;

    /// Nested in `GLOBAL_OPTIONS` (`BRIDGE_VLANDB_GOPTS_*`).
    pub mod gopts {
        pub const ID: u16 = 1;
        pub const RANGE: u16 = 2;
        pub const MCAST_SNOOPING: u16 = 3;
        pub const MCAST_IGMP_VERSION: u16 = 4;
        pub const MCAST_MLD_VERSION: u16 = 5;
        pub const MCAST_LAST_MEMBER_CNT: u16 = 6;
        pub const MCAST_STARTUP_QUERY_CNT: u16 = 7;
        pub const MCAST_LAST_MEMBER_INTVL: u16 = 8;
        pub const PAD: u16 = 9;
        pub const MCAST_MEMBERSHIP_INTVL: u16 = 10;
        pub const MCAST_QUERIER_INTVL: u16 = 11;
        pub const MCAST_QUERY_INTVL: u16 = 12;
        pub const MCAST_QUERY_RESPONSE_INTVL: u16 = 13;
        pub const MCAST_STARTUP_QUERY_INTVL: u16 = 14;
        pub const MCAST_QUERIER: u16 = 15;
        pub const MCAST_ROUTER_PORTS: u16 = 16;
        pub const MCAST_QUERIER_STATE: u16 = 17;
        pub const MSTI: u16 = 18;
    }
}

/// Nested in `LINK_XSTATS_TYPE_BOND` (`BOND_XSTATS_*`), and the padding within (`BOND_3AD_STAT_PAD`).
pub mod bond_xstats {
    pub const AD: u16 = 1;
    pub const PAD: u16 = 9;
}

/// Nested in `LINK_XSTATS_TYPE_BRIDGE` (`BRIDGE_XSTATS_*`).
pub mod bridge_xstats {
    pub const VLAN: u16 = 1;
    pub const MCAST: u16 = 2;
    pub const PAD: u16 = 3;
    pub const STP: u16 = 4;
}

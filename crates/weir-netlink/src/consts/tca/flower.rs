// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifier `flower`.
//!
//! Names and values are those of Linux 6.1 (`linux/pkt_cls.h`) without their prefix.
#![allow(missing_docs)] // The names are Linux's.

pub const UNSPEC: u16 = 0;
pub const CLASSID: u16 = 1;
pub const MASK_FLAGS_RANGE: u16 = 1;
pub const INDEV: u16 = 2;
pub const ACT: u16 = 3;
pub const KEY_ETH_DST: u16 = 4;
pub const KEY_ETH_DST_MASK: u16 = 5;
pub const KEY_ETH_SRC: u16 = 6;
pub const KEY_ETH_SRC_MASK: u16 = 7;
pub const KEY_ETH_TYPE: u16 = 8;
pub const KEY_IP_PROTO: u16 = 9;
pub const KEY_IPV4_SRC: u16 = 10;
pub const KEY_IPV4_SRC_MASK: u16 = 11;
pub const KEY_IPV4_DST: u16 = 12;
pub const KEY_IPV4_DST_MASK: u16 = 13;
pub const KEY_IPV6_SRC: u16 = 14;
pub const KEY_IPV6_SRC_MASK: u16 = 15;
pub const KEY_IPV6_DST: u16 = 16;
pub const KEY_IPV6_DST_MASK: u16 = 17;
pub const KEY_TCP_SRC: u16 = 18;
pub const KEY_TCP_DST: u16 = 19;
pub const KEY_UDP_SRC: u16 = 20;
pub const KEY_UDP_DST: u16 = 21;
pub const FLAGS: u16 = 22;
pub const KEY_VLAN_ID: u16 = 23;
pub const KEY_VLAN_PRIO: u16 = 24;
pub const KEY_VLAN_ETH_TYPE: u16 = 25;
pub const KEY_ENC_KEY_ID: u16 = 26;
pub const KEY_ENC_IPV4_SRC: u16 = 27;
pub const KEY_ENC_IPV4_SRC_MASK: u16 = 28;
pub const KEY_ENC_IPV4_DST: u16 = 29;
pub const KEY_ENC_IPV4_DST_MASK: u16 = 30;
pub const KEY_ENC_IPV6_SRC: u16 = 31;
pub const KEY_ENC_IPV6_SRC_MASK: u16 = 32;
pub const KEY_ENC_IPV6_DST: u16 = 33;
pub const KEY_ENC_IPV6_DST_MASK: u16 = 34;
pub const KEY_TCP_SRC_MASK: u16 = 35;
pub const KEY_TCP_DST_MASK: u16 = 36;
pub const KEY_UDP_SRC_MASK: u16 = 37;
pub const KEY_UDP_DST_MASK: u16 = 38;
pub const KEY_SCTP_SRC_MASK: u16 = 39;
pub const KEY_SCTP_DST_MASK: u16 = 40;
pub const KEY_SCTP_SRC: u16 = 41;
pub const KEY_SCTP_DST: u16 = 42;
pub const KEY_ENC_UDP_SRC_PORT: u16 = 43;
pub const KEY_ENC_UDP_SRC_PORT_MASK: u16 = 44;
pub const KEY_ENC_UDP_DST_PORT: u16 = 45;
pub const KEY_ENC_UDP_DST_PORT_MASK: u16 = 46;
pub const KEY_FLAGS: u16 = 47;
pub const KEY_ICMPV4_CODE: u16 = 49;
pub const KEY_ICMPV4_CODE_MASK: u16 = 50;
pub const KEY_ICMPV4_TYPE: u16 = 51;
pub const KEY_ICMPV4_TYPE_MASK: u16 = 52;
pub const KEY_ICMPV6_CODE: u16 = 53;
pub const KEY_ICMPV6_CODE_MASK: u16 = 54;
pub const KEY_ICMPV6_TYPE: u16 = 55;
pub const KEY_ICMPV6_TYPE_MASK: u16 = 56;
pub const KEY_ARP_SIP: u16 = 57;
pub const KEY_ARP_SIP_MASK: u16 = 58;
pub const KEY_ARP_TIP: u16 = 59;
pub const KEY_ARP_TIP_MASK: u16 = 60;
pub const KEY_ARP_OP: u16 = 61;
pub const KEY_ARP_OP_MASK: u16 = 62;
pub const KEY_ARP_SHA: u16 = 63;
pub const KEY_ARP_SHA_MASK: u16 = 64;
pub const KEY_ARP_THA: u16 = 65;
pub const KEY_ARP_THA_MASK: u16 = 66;
pub const KEY_TCP_FLAGS: u16 = 71;
pub const KEY_TCP_FLAGS_MASK: u16 = 72;
pub const KEY_IP_TOS: u16 = 73;
pub const KEY_IP_TOS_MASK: u16 = 74;
pub const KEY_IP_TTL: u16 = 75;
pub const KEY_IP_TTL_MASK: u16 = 76;
pub const KEY_CVLAN_ID: u16 = 77;
pub const KEY_CVLAN_PRIO: u16 = 78;
pub const KEY_CVLAN_ETH_TYPE: u16 = 79;
pub const KEY_ENC_IP_TOS: u16 = 80;
pub const KEY_ENC_IP_TOS_MASK: u16 = 81;
pub const KEY_ENC_IP_TTL: u16 = 82;
pub const KEY_ENC_IP_TTL_MASK: u16 = 83;
pub const KEY_ENC_OPTS: u16 = 84;
pub const IN_HW_COUNT: u16 = 86;
pub const KEY_PORT_SRC_MIN: u16 = 87;
pub const KEY_PORT_SRC_MAX: u16 = 88;
pub const KEY_PORT_DST_MIN: u16 = 89;
pub const KEY_PORT_DST_MAX: u16 = 90;
pub const KEY_CT_STATE: u16 = 91;
pub const KEY_CT_STATE_MASK: u16 = 92;
pub const KEY_CT_ZONE: u16 = 93;
pub const KEY_CT_ZONE_MASK: u16 = 94;
pub const KEY_CT_MARK: u16 = 95;
pub const KEY_CT_MARK_MASK: u16 = 96;
pub const KEY_CT_LABELS: u16 = 97;
pub const KEY_CT_LABELS_MASK: u16 = 98;
pub const KEY_HASH: u16 = 100;
pub const KEY_HASH_MASK: u16 = 101;
pub const KEY_NUM_OF_VLANS: u16 = 102;
pub const KEY_PPPOE_SID: u16 = 103;
pub const KEY_PPP_PROTO: u16 = 104;
pub const KEY_L2TPV3_SID: u16 = 105;
pub const MAX: u16 = 105;

// Names that share a prefix with a nest.
pub const KEY_FLAGS_MASK: u16 = 48;
pub const KEY_MPLS_TTL: u16 = 67;
pub const KEY_MPLS_BOS: u16 = 68;
pub const KEY_MPLS_TC: u16 = 69;
pub const KEY_MPLS_LABEL: u16 = 70;
pub const KEY_ENC_OPTS_MASK: u16 = 85;
pub const KEY_MPLS_OPTS: u16 = 99;

// Bits of `TCA_FLOWER_KEY_CT_STATE`.
pub const KEY_CT_FLAGS_NEW: u16 = 1;
pub const KEY_CT_FLAGS_ESTABLISHED: u16 = 2;
pub const KEY_CT_FLAGS_RELATED: u16 = 4;
pub const KEY_CT_FLAGS_TRACKED: u16 = 8;
pub const KEY_CT_FLAGS_INVALID: u16 = 16;
pub const KEY_CT_FLAGS_REPLY: u16 = 32;

// Bits of `TCA_FLOWER_KEY_FLAGS` and mask bits.
pub const KEY_FLAGS_IS_FRAGMENT: u32 = 0x1;
pub const KEY_FLAGS_FRAG_IS_FIRST: u32 = 0x2;

/// Nested in `TCA_FLOWER_KEY_ENC_OPTS`.
pub mod enc_opts {
    pub const UNSPEC: u16 = 0;
    pub const GENEVE: u16 = 1;
    pub const VXLAN: u16 = 2;
    pub const ERSPAN: u16 = 3;
    pub const GTP: u16 = 4;
    pub const MAX: u16 = 4;
}

/// Geneve options.
pub mod enc_geneve {
    pub const UNSPEC: u16 = 0;
    pub const CLASS: u16 = 1;
    pub const TYPE: u16 = 2;
    pub const DATA: u16 = 3;
    pub const MAX: u16 = 3;
}

/// VXLAN options.
pub mod enc_vxlan {
    pub const UNSPEC: u16 = 0;
    pub const GBP: u16 = 1;
    pub const MAX: u16 = 1;
}

/// ERSPAN options.
pub mod enc_erspan {
    pub const UNSPEC: u16 = 0;
    pub const VER: u16 = 1;
    pub const INDEX: u16 = 2;
    pub const DIR: u16 = 3;
    pub const HWID: u16 = 4;
    pub const MAX: u16 = 4;
}

/// GTP options.
pub mod enc_gtp {
    pub const UNSPEC: u16 = 0;
    pub const PDU_TYPE: u16 = 1;
    pub const QFI: u16 = 2;
    pub const MAX: u16 = 2;
}

/// Nested in `TCA_FLOWER_KEY_MPLS_OPTS`.
pub mod mpls_opts {
    pub const UNSPEC: u16 = 0;
    pub const LSE: u16 = 1;
    pub const MAX: u16 = 1;
}

/// Nested in one label stack entry.
pub mod mpls_lse {
    pub const UNSPEC: u16 = 0;
    pub const DEPTH: u16 = 1;
    pub const TTL: u16 = 2;
    pub const BOS: u16 = 3;
    pub const TC: u16 = 4;
    pub const LABEL: u16 = 5;
    pub const MAX: u16 = 5;
}

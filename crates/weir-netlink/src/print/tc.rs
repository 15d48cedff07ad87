// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attributes of traffic control.

use std::fmt::Write;

use super::{Family, family};
use crate::consts::tca;
use crate::header::*;

family! { pub(super) TC in tca, kind tca::KIND;
    KIND Str, OPTIONS Kind(options), STATS Struct(as_struct::<TcStats>), XSTATS Hex,
    RATE Struct(as_struct::<GnetEstimator>), STATS2 Nest(&STATS2), STAB Nest(&STAB), CHAIN U32,
    HW_OFFLOAD U8, INGRESS_BLOCK U32, EGRESS_BLOCK U32, DUMP_FLAGS Bits, EXT_WARN_MSG Str,
}

family! { STAB in tca::stab; BASE Struct(as_struct::<TcSizeSpec>), DATA Hex }

family! { STATS2 in tca::stats;
    BASIC Struct(as_struct::<GnetStatsBasic>), RATE_EST Struct(as_struct::<GnetStatsRateEst>),
    QUEUE Struct(as_struct::<GnetStatsQueue>), APP Hex,
    RATE_EST64 Struct(as_struct::<GnetStatsRateEst64>), BASIC_HW Struct(as_struct::<GnetStatsBasic>),
    PKT64 U64,
}

family! { pub(super) ROOT in tca::root;
    TAB List(&ACTION), FLAGS Bits, COUNT U32, TIME_DELTA U32, EXT_WARN_MSG Str,
}

family! { ACTION in tca::act, kind tca::act::KIND;
    KIND Str, OPTIONS Kind(action), INDEX U32, STATS Nest(&STATS2), COOKIE Hex, FLAGS Bits,
    HW_STATS Bits, USED_HW_STATS Bits, IN_HW_COUNT U32,
}

/// Returns the options of qdiscs, classes and filters by kind. Options of other kinds are shown as
/// bytes.
fn options(kind: &str) -> Option<&'static Family> {
    Some(match kind {
        "flower" => &FLOWER,
        "matchall" => &MATCHALL,
        "u32" => &U32,
        "basic" => &BASIC,
        "bpf" => &BPF,
        "fw" => &FW,
        "flow" => &FLOW,
        "tbf" => &TBF,
        "htb" => &HTB,
        "cbq" => &CBQ,
        "fq" => &FQ,
        "fq_codel" => &FQ_CODEL,
        "codel" => &CODEL,
        "red" => &RED,
        _ => return None,
    })
}

/// Returns the options of actions by kind.
fn action(kind: &str) -> Option<&'static Family> {
    Some(match kind {
        "gact" => &GACT,
        "mirred" => &MIRRED,
        "vlan" => &VLAN,
        "skbedit" => &SKBEDIT,
        "tunnel_key" => &TUNNEL_KEY,
        "pedit" => &PEDIT,
        "csum" => &CSUM,
        "police" => &POLICE,
        "nat" => &NAT,
        "ct" => &CT,
        "mpls" => &MPLS,
        "sample" => &SAMPLE,
        "skbmod" => &SKBMOD,
        "connmark" => &CONNMARK,
        _ => return None,
    })
}

family! { MATCHALL in tca::matchall;
    CLASSID Handle, ACT List(&ACTION), FLAGS X32, PCNT Hex,
}

family! { U32 in tca::u32;
    CLASSID Handle, HASH X32, LINK X32, DIVISOR U32, SEL Struct(u32_sel), POLICE Hex,
    ACT List(&ACTION), INDEV Str, PCNT Hex, MARK Struct(as_struct::<TcU32Mark>), FLAGS X32,
}

/// Formats `tc_u32_sel` and its keys.
fn u32_sel(bytes: &[u8]) -> Option<String> {
    let mut text = super::as_struct::<TcU32Sel>(bytes)?;
    for key in bytes[TcU32Sel::LEN..].chunks(TcU32Key::LEN) {
        let _ = write!(text, " {:?}", TcU32Key::from_bytes(key)?);
    }
    Some(text)
}

family! { BASIC in tca::basic; CLASSID Handle, EMATCHES Hex, ACT List(&ACTION), POLICE Hex }

family! { BPF in tca::bpf;
    ACT List(&ACTION), POLICE Hex, CLASSID Handle, OPS_LEN U16, OPS Hex, FD U32, NAME Str, FLAGS X32,
    FLAGS_GEN X32, TAG Hex, ID U32,
}

family! { FW in tca::fw; CLASSID Handle, POLICE Hex, INDEV Str, ACT List(&ACTION), MASK X32 }

family! { FLOW in tca::flow;
    KEYS X32, MODE U32, BASECLASS Handle, RSHIFT U32, ADDEND U32, MASK X32, XOR X32, DIVISOR U32,
    ACT List(&ACTION), PERTURB U32,
}

family! { FLOWER in tca::flower;
    CLASSID Handle, INDEV Str, ACT List(&ACTION), KEY_ETH_DST Mac, KEY_ETH_DST_MASK Mac,
    KEY_ETH_SRC Mac, KEY_ETH_SRC_MASK Mac, KEY_ETH_TYPE XBe16, KEY_IP_PROTO U8, KEY_IPV4_SRC Ip,
    KEY_IPV4_SRC_MASK Ip, KEY_IPV4_DST Ip, KEY_IPV4_DST_MASK Ip, KEY_IPV6_SRC Ip,
    KEY_IPV6_SRC_MASK Ip, KEY_IPV6_DST Ip, KEY_IPV6_DST_MASK Ip, KEY_TCP_SRC Be16, KEY_TCP_DST Be16,
    KEY_UDP_SRC Be16, KEY_UDP_DST Be16, FLAGS X32, KEY_VLAN_ID U16, KEY_VLAN_PRIO U8,
    KEY_VLAN_ETH_TYPE XBe16, KEY_ENC_KEY_ID Be32, KEY_ENC_IPV4_SRC Ip, KEY_ENC_IPV4_SRC_MASK Ip,
    KEY_ENC_IPV4_DST Ip, KEY_ENC_IPV4_DST_MASK Ip, KEY_ENC_IPV6_SRC Ip, KEY_ENC_IPV6_SRC_MASK Ip,
    KEY_ENC_IPV6_DST Ip, KEY_ENC_IPV6_DST_MASK Ip, KEY_TCP_SRC_MASK XBe16, KEY_TCP_DST_MASK XBe16,
    KEY_UDP_SRC_MASK XBe16, KEY_UDP_DST_MASK XBe16, KEY_SCTP_SRC_MASK XBe16,
    KEY_SCTP_DST_MASK XBe16, KEY_SCTP_SRC Be16, KEY_SCTP_DST Be16, KEY_ENC_UDP_SRC_PORT Be16,
    KEY_ENC_UDP_SRC_PORT_MASK XBe16, KEY_ENC_UDP_DST_PORT Be16, KEY_ENC_UDP_DST_PORT_MASK XBe16,
    KEY_FLAGS Hex, KEY_FLAGS_MASK Hex, KEY_ICMPV4_CODE U8, KEY_ICMPV4_CODE_MASK U8,
    KEY_ICMPV4_TYPE U8, KEY_ICMPV4_TYPE_MASK U8, KEY_ICMPV6_CODE U8, KEY_ICMPV6_CODE_MASK U8,
    KEY_ICMPV6_TYPE U8, KEY_ICMPV6_TYPE_MASK U8, KEY_ARP_SIP Ip, KEY_ARP_SIP_MASK Ip, KEY_ARP_TIP Ip,
    KEY_ARP_TIP_MASK Ip, KEY_ARP_OP U8, KEY_ARP_OP_MASK U8, KEY_ARP_SHA Mac, KEY_ARP_SHA_MASK Mac,
    KEY_ARP_THA Mac, KEY_ARP_THA_MASK Mac, KEY_MPLS_TTL U8, KEY_MPLS_BOS U8, KEY_MPLS_TC U8,
    KEY_MPLS_LABEL U32, KEY_TCP_FLAGS XBe16, KEY_TCP_FLAGS_MASK XBe16, KEY_IP_TOS U8,
    KEY_IP_TOS_MASK U8, KEY_IP_TTL U8, KEY_IP_TTL_MASK U8, KEY_CVLAN_ID U16, KEY_CVLAN_PRIO U8,
    KEY_CVLAN_ETH_TYPE XBe16, KEY_ENC_IP_TOS U8, KEY_ENC_IP_TOS_MASK U8, KEY_ENC_IP_TTL U8,
    KEY_ENC_IP_TTL_MASK U8, KEY_ENC_OPTS Nest(&ENC_OPTS), KEY_ENC_OPTS_MASK Nest(&ENC_OPTS),
    IN_HW_COUNT U32, KEY_PORT_SRC_MIN Be16, KEY_PORT_SRC_MAX Be16, KEY_PORT_DST_MIN Be16,
    KEY_PORT_DST_MAX Be16, KEY_CT_STATE U16, KEY_CT_STATE_MASK U16, KEY_CT_ZONE U16,
    KEY_CT_ZONE_MASK U16, KEY_CT_MARK X32, KEY_CT_MARK_MASK X32, KEY_CT_LABELS Hex,
    KEY_CT_LABELS_MASK Hex, KEY_MPLS_OPTS Nest(&MPLS_OPTS), KEY_HASH X32, KEY_HASH_MASK X32,
    KEY_NUM_OF_VLANS U8, KEY_PPPOE_SID Be16, KEY_PPP_PROTO XBe16, KEY_L2TPV3_SID Be32,
}

family! { ENC_OPTS in tca::flower::enc_opts;
    GENEVE Nest(&ENC_GENEVE), VXLAN Nest(&ENC_VXLAN), ERSPAN Nest(&ENC_ERSPAN), GTP Nest(&ENC_GTP),
}
family! { ENC_GENEVE in tca::flower::enc_geneve; CLASS XBe16, TYPE U8, DATA Hex }
family! { ENC_VXLAN in tca::flower::enc_vxlan; GBP X32 }
family! { ENC_ERSPAN in tca::flower::enc_erspan; VER U8, INDEX Be32, DIR U8, HWID U8 }
family! { ENC_GTP in tca::flower::enc_gtp; PDU_TYPE U8, QFI U8 }
family! { MPLS_OPTS in tca::flower::mpls_opts; LSE Nest(&MPLS_LSE) }
family! { MPLS_LSE in tca::flower::mpls_lse; DEPTH U8, TTL U8, BOS U8, TC U8, LABEL U32 }

family! { GACT in tca::gact;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcGen>), PROB Struct(as_struct::<TcGactP>),
}

family! { MIRRED in tca::mirred; TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcMirred>) }

family! { VLAN in tca::vlan;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcVlan>), PUSH_VLAN_ID U16,
    PUSH_VLAN_PROTOCOL XBe16, PUSH_VLAN_PRIORITY U8, PUSH_ETH_DST Mac, PUSH_ETH_SRC Mac,
}

family! { SKBEDIT in tca::skbedit;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcGen>), PRIORITY Handle,
    QUEUE_MAPPING U16, MARK X32, PTYPE U16, MASK X32, FLAGS U64, QUEUE_MAPPING_MAX U16,
}

family! { TUNNEL_KEY in tca::tunnel_key;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcTunnelKey>), ENC_IPV4_SRC Ip,
    ENC_IPV4_DST Ip, ENC_IPV6_SRC Ip, ENC_IPV6_DST Ip, ENC_KEY_ID Be32, ENC_DST_PORT Be16,
    NO_CSUM U8, ENC_OPTS Nest(&TUNNEL_OPTS), ENC_TOS U8, ENC_TTL U8,
}
family! { TUNNEL_OPTS in tca::tunnel_key::enc_opts; GENEVE Nest(&TUNNEL_GENEVE), VXLAN Hex, ERSPAN Hex }
family! { TUNNEL_GENEVE in tca::tunnel_key::geneve; CLASS XBe16, TYPE U8, DATA Hex }

family! { PEDIT in tca::pedit;
    TM Struct(as_struct::<TcfT>), PARMS Struct(pedit_sel), PARMS_EX Struct(pedit_sel),
    KEYS_EX Nest(&PEDIT_KEYS),
}
family! { PEDIT_KEYS in tca::pedit; KEY_EX Nest(&PEDIT_KEY) }
family! { PEDIT_KEY in tca::pedit::key_ex; HTYPE U16, CMD U16 }

/// Formats `tc_pedit_sel` and its keys.
fn pedit_sel(bytes: &[u8]) -> Option<String> {
    let mut text = super::as_struct::<TcPeditSel>(bytes)?;
    for key in bytes[TcPeditSel::LEN..].chunks(TcPeditKey::LEN) {
        let _ = write!(text, " {:?}", TcPeditKey::from_bytes(key)?);
    }
    Some(text)
}

family! { CSUM in tca::csum; TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcCsum>) }

family! { POLICE in tca::police;
    TBF Struct(as_struct::<TcPolice>), RATE Hex, PEAKRATE Hex, AVRATE U32, RESULT I32,
    TM Struct(as_struct::<TcfT>), RATE64 U64, PEAKRATE64 U64, PKTRATE64 U64, PKTBURST64 U64,
}

family! { NAT in tca::nat; PARMS Struct(as_struct::<TcNat>), TM Struct(as_struct::<TcfT>) }

family! { CT in tca::ct;
    PARMS Struct(as_struct::<TcGen>), TM Struct(as_struct::<TcfT>), ACTION U16, ZONE U16, MARK X32,
    MARK_MASK X32, LABELS Hex, LABELS_MASK Hex, NAT_IPV4_MIN Ip, NAT_IPV4_MAX Ip, NAT_IPV6_MIN Ip,
    NAT_IPV6_MAX Ip, NAT_PORT_MIN Be16, NAT_PORT_MAX Be16,
}

family! { MPLS in tca::mpls;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcMpls>), PROTO XBe16, LABEL U32, TC U8,
    TTL U8, BOS U8,
}

family! { SAMPLE in tca::sample;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcGen>), RATE U32, TRUNC_SIZE U32,
    PSAMPLE_GROUP U32,
}

family! { SKBMOD in tca::skbmod;
    TM Struct(as_struct::<TcfT>), PARMS Struct(as_struct::<TcSkbMod>), DMAC Mac, SMAC Mac,
    ETYPE XBe16,
}

family! { CONNMARK in tca::connmark; PARMS Struct(as_struct::<TcConnMark>), TM Struct(as_struct::<TcfT>) }

family! { TBF in tca::tbf;
    PARMS Struct(as_struct::<TcTbfQopt>), RTAB Hex, PTAB Hex, RATE64 U64, PRATE64 U64, BURST U32,
    PBURST U32,
}

family! { HTB in tca::htb;
    PARMS Struct(as_struct::<TcHtbOpt>), INIT Struct(as_struct::<TcHtbGlob>), CTAB Hex, RTAB Hex,
    DIRECT_QLEN U32, RATE64 U64, CEIL64 U64, OFFLOAD Flag,
}

family! { CBQ in tca::cbq;
    LSSOPT Struct(as_struct::<TcCbqLssOpt>), WRROPT Struct(as_struct::<TcCbqWrrOpt>),
    FOPT Struct(as_struct::<TcCbqFopt>), OVL_STRATEGY Struct(as_struct::<TcCbqOvl>),
    RATE Struct(as_struct::<TcRateSpec>), RTAB Hex, POLICE Struct(as_struct::<TcCbqPolice>),
}

family! { FQ in tca::fq;
    PLIMIT U32, FLOW_PLIMIT U32, QUANTUM U32, INITIAL_QUANTUM U32, RATE_ENABLE U32,
    FLOW_DEFAULT_RATE U32, FLOW_MAX_RATE U32, BUCKETS_LOG U32, FLOW_REFILL_DELAY U32,
    ORPHAN_MASK X32, LOW_RATE_THRESHOLD U32, CE_THRESHOLD U32, TIMER_SLACK U32, HORIZON U32,
    HORIZON_DROP U8,
}

family! { FQ_CODEL in tca::fq_codel;
    TARGET U32, LIMIT U32, INTERVAL U32, ECN U32, FLOWS U32, QUANTUM U32, CE_THRESHOLD U32,
    DROP_BATCH_SIZE U32, MEMORY_LIMIT U32, CE_THRESHOLD_SELECTOR U8, CE_THRESHOLD_MASK U8,
}

family! { CODEL in tca::codel; TARGET U32, LIMIT U32, INTERVAL U32, ECN U32, CE_THRESHOLD U32 }

family! { RED in tca::red;
    PARMS Struct(as_struct::<TcRedQopt>), STAB Hex, MAX_P X32, FLAGS Bits,
}

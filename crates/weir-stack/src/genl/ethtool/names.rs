// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of bits and counters that clients read from the stack (net/ethtool/common.c and stats.c).

/// `link_mode_names`
pub static LINK_MODES: &[&str] = &[
    "10baseT/Half",
    "10baseT/Full",
    "100baseT/Half",
    "100baseT/Full",
    "1000baseT/Half",
    "1000baseT/Full",
    "Autoneg",
    "TP",
    "AUI",
    "MII",
    "FIBRE",
    "BNC",
    "10000baseT/Full",
    "Pause",
    "Asym_Pause",
    "2500baseX/Full",
    "Backplane",
    "1000baseKX/Full",
    "10000baseKX4/Full",
    "10000baseKR/Full",
    "10000baseR_FEC",
    "20000baseMLD2/Full",
    "20000baseKR2/Full",
    "40000baseKR4/Full",
    "40000baseCR4/Full",
    "40000baseSR4/Full",
    "40000baseLR4/Full",
    "56000baseKR4/Full",
    "56000baseCR4/Full",
    "56000baseSR4/Full",
    "56000baseLR4/Full",
    "25000baseCR/Full",
    "25000baseKR/Full",
    "25000baseSR/Full",
    "50000baseCR2/Full",
    "50000baseKR2/Full",
    "100000baseKR4/Full",
    "100000baseSR4/Full",
    "100000baseCR4/Full",
    "100000baseLR4_ER4/Full",
    "50000baseSR2/Full",
    "1000baseX/Full",
    "10000baseCR/Full",
    "10000baseSR/Full",
    "10000baseLR/Full",
    "10000baseLRM/Full",
    "10000baseER/Full",
    "2500baseT/Full",
    "5000baseT/Full",
    "None",
    "RS",
    "BASER",
    "50000baseKR/Full",
    "50000baseSR/Full",
    "50000baseCR/Full",
    "50000baseLR_ER_FR/Full",
    "50000baseDR/Full",
    "100000baseKR2/Full",
    "100000baseSR2/Full",
    "100000baseCR2/Full",
    "100000baseLR2_ER2_FR2/Full",
    "100000baseDR2/Full",
    "200000baseKR4/Full",
    "200000baseSR4/Full",
    "200000baseLR4_ER4_FR4/Full",
    "200000baseDR4/Full",
    "200000baseCR4/Full",
    "100baseT1/Full",
    "1000baseT1/Full",
    "400000baseKR8/Full",
    "400000baseSR8/Full",
    "400000baseLR8_ER8_FR8/Full",
    "400000baseDR8/Full",
    "400000baseCR8/Full",
    "LLRS",
    "100000baseKR/Full",
    "100000baseSR/Full",
    "100000baseLR_ER_FR/Full",
    "100000baseCR/Full",
    "100000baseDR/Full",
    "200000baseKR2/Full",
    "200000baseSR2/Full",
    "200000baseLR2_ER2_FR2/Full",
    "200000baseDR2/Full",
    "200000baseCR2/Full",
    "400000baseKR4/Full",
    "400000baseSR4/Full",
    "400000baseLR4_ER4_FR4/Full",
    "400000baseDR4/Full",
    "400000baseCR4/Full",
    "100baseFX/Half",
    "100baseFX/Full",
    "10baseT1L/Full",
];

/// `rss_hash_func_strings`
pub static HASH_FUNCTIONS: &[&str] = &["toeplitz", "xor", "crc32"];

/// `tunable_strings`
pub static TUNABLES: &[&str] = &[
    "Unspec",
    "rx-copybreak",
    "tx-copybreak",
    "pfc-prevention-tout",
    "tx-copybreak-buf-size",
];

/// `phy_tunable_strings`
pub static PHY_TUNABLES: &[&str] = &[
    "Unspec",
    "phy-downshift",
    "phy-fast-link-down",
    "phy-energy-detect-power-down",
];

/// `netif_msg_class_names`
pub static MESSAGE_CLASSES: &[&str] = &[
    "drv",
    "probe",
    "link",
    "timer",
    "ifdown",
    "ifup",
    "rx_err",
    "tx_err",
    "tx_queued",
    "intr",
    "tx_done",
    "rx_status",
    "pktdata",
    "hw",
    "wol",
];

/// `wol_mode_names`
pub static WAKE_MODES: &[&str] = &[
    "phy",
    "ucast",
    "mcast",
    "bcast",
    "arp",
    "magic",
    "magicsecure",
    "filter",
];

/// `sof_timestamping_names`
pub static TIME_STAMPS: &[&str] = &[
    "hardware-transmit",
    "software-transmit",
    "hardware-receive",
    "software-receive",
    "software-system-clock",
    "hardware-legacy-clock",
    "hardware-raw-clock",
    "option-id",
    "sched-transmit",
    "ack-transmit",
    "option-cmsg",
    "option-tsonly",
    "option-stats",
    "option-pktinfo",
    "option-tx-swhw",
    "bind-phc",
];

/// `ts_tx_type_names`
pub static STAMP_TYPES: &[&str] = &["off", "on", "onestep-sync", "onestep-p2p"];

/// `ts_rx_filter_names`
pub static STAMP_FILTERS: &[&str] = &[
    "none",
    "all",
    "some",
    "ptpv1-l4-event",
    "ptpv1-l4-sync",
    "ptpv1-l4-delay-req",
    "ptpv2-l4-event",
    "ptpv2-l4-sync",
    "ptpv2-l4-delay-req",
    "ptpv2-l2-event",
    "ptpv2-l2-sync",
    "ptpv2-l2-delay-req",
    "ptpv2-event",
    "ptpv2-sync",
    "ptpv2-delay-req",
    "ntp-all",
];

/// `udp_tunnel_type_names`
pub static TUNNEL_TYPES: &[&str] = &["vxlan", "geneve", "vxlan-gpe"];

/// `stats_std_names`
pub static STATS: &[&str] = &["eth-phy", "eth-mac", "eth-ctrl", "rmon"];

/// `stats_eth_phy_names`
pub static PHY_STATS: &[&str] = &["SymbolErrorDuringCarrier"];

/// `stats_eth_mac_names`
pub static MAC_STATS: &[&str] = &[
    "FramesTransmittedOK",
    "SingleCollisionFrames",
    "MultipleCollisionFrames",
    "FramesReceivedOK",
    "FrameCheckSequenceErrors",
    "AlignmentErrors",
    "OctetsTransmittedOK",
    "FramesWithDeferredXmissions",
    "LateCollisions",
    "FramesAbortedDueToXSColls",
    "FramesLostDueToIntMACXmitError",
    "CarrierSenseErrors",
    "OctetsReceivedOK",
    "FramesLostDueToIntMACRcvError",
    "MulticastFramesXmittedOK",
    "BroadcastFramesXmittedOK",
    "FramesWithExcessiveDeferral",
    "MulticastFramesReceivedOK",
    "BroadcastFramesReceivedOK",
    "InRangeLengthErrors",
    "OutOfRangeLengthField",
    "FrameTooLongErrors",
];

/// `stats_eth_ctrl_names`
pub static CONTROL_STATS: &[&str] = &[
    "MACControlFramesTransmitted",
    "MACControlFramesReceived",
    "UnsupportedOpcodesReceived",
];

/// `stats_rmon_names`
pub static RMON_STATS: &[&str] = &[
    "etherStatsUndersizePkts",
    "etherStatsOversizePkts",
    "etherStatsFragments",
    "etherStatsJabbers",
];

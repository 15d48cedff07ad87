// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links and their statistics.

use super::fixed;

fixed! {
    /// `struct ifinfomsg`: `RTM_*LINK`.
    IfInfoMsg(16) {
        family: u8,
        pad: u8,
        ty: u16,
        index: i32,
        flags: u32,
        change: u32,
    }

    /// `struct if_stats_msg`: `RTM_*STATS`.
    IfStatsMsg(12) { family: u8, pad1: u8, pad2: u16, ifindex: u32, filter_mask: u32 }

    /// `struct rtnl_link_stats`: `IFLA_STATS`.
    LinkStats(96) {
        rx_packets: u32,
        tx_packets: u32,
        rx_bytes: u32,
        tx_bytes: u32,
        rx_errors: u32,
        tx_errors: u32,
        rx_dropped: u32,
        tx_dropped: u32,
        multicast: u32,
        collisions: u32,
        rx_length_errors: u32,
        rx_over_errors: u32,
        rx_crc_errors: u32,
        rx_frame_errors: u32,
        rx_fifo_errors: u32,
        rx_missed_errors: u32,
        tx_aborted_errors: u32,
        tx_carrier_errors: u32,
        tx_fifo_errors: u32,
        tx_heartbeat_errors: u32,
        tx_window_errors: u32,
        rx_compressed: u32,
        tx_compressed: u32,
        rx_nohandler: u32,
    }

    /// `struct rtnl_link_stats64`: `IFLA_STATS64`.
    LinkStats64(200) {
        rx_packets: u64,
        tx_packets: u64,
        rx_bytes: u64,
        tx_bytes: u64,
        rx_errors: u64,
        tx_errors: u64,
        rx_dropped: u64,
        tx_dropped: u64,
        multicast: u64,
        collisions: u64,
        rx_length_errors: u64,
        rx_over_errors: u64,
        rx_crc_errors: u64,
        rx_frame_errors: u64,
        rx_fifo_errors: u64,
        rx_missed_errors: u64,
        tx_aborted_errors: u64,
        tx_carrier_errors: u64,
        tx_fifo_errors: u64,
        tx_heartbeat_errors: u64,
        tx_window_errors: u64,
        rx_compressed: u64,
        tx_compressed: u64,
        rx_nohandler: u64,
        rx_otherhost_dropped: u64,
    }

    /// `struct rtnl_link_ifmap`: `IFLA_MAP`.
    LinkIfMap(32) {
        mem_start: u64,
        mem_end: u64,
        base_addr: u64,
        irq: u16,
        dma: u8,
        port: u8,
        pad: u32,
    }

    /// `struct ifla_cacheinfo`: `IFLA_INET6_CACHEINFO`.
    IflaCacheInfo(16) {
        max_reasm_len: u32,
        /// Time of the last change in 1/100 s since boot.
        tstamp: u32,
        /// Milliseconds.
        reachable_time: u32,
        /// Milliseconds.
        retrans_time: u32,
    }

    /// `struct bridge_vlan_info`.
    BridgeVlanInfo(4) { flags: u16, vid: u16 }

    /// `struct ifla_vlan_flags`.
    IflaVlanFlags(8) { flags: u32, mask: u32 }

    /// `struct ifla_vlan_qos_mapping`.
    IflaVlanQosMapping(8) { from: u32, to: u32 }
}

impl From<&LinkStats64> for LinkStats {
    /// Takes the low halves, as `copy_rtnl_link_stats` does.
    fn from(s: &LinkStats64) -> Self {
        LinkStats {
            rx_packets: s.rx_packets as u32,
            tx_packets: s.tx_packets as u32,
            rx_bytes: s.rx_bytes as u32,
            tx_bytes: s.tx_bytes as u32,
            rx_errors: s.rx_errors as u32,
            tx_errors: s.tx_errors as u32,
            rx_dropped: s.rx_dropped as u32,
            tx_dropped: s.tx_dropped as u32,
            multicast: s.multicast as u32,
            collisions: s.collisions as u32,
            rx_length_errors: s.rx_length_errors as u32,
            rx_over_errors: s.rx_over_errors as u32,
            rx_crc_errors: s.rx_crc_errors as u32,
            rx_frame_errors: s.rx_frame_errors as u32,
            rx_fifo_errors: s.rx_fifo_errors as u32,
            rx_missed_errors: s.rx_missed_errors as u32,
            tx_aborted_errors: s.tx_aborted_errors as u32,
            tx_carrier_errors: s.tx_carrier_errors as u32,
            tx_fifo_errors: s.tx_fifo_errors as u32,
            tx_heartbeat_errors: s.tx_heartbeat_errors as u32,
            tx_window_errors: s.tx_window_errors as u32,
            rx_compressed: s.rx_compressed as u32,
            tx_compressed: s.tx_compressed as u32,
            rx_nohandler: s.rx_nohandler as u32,
        }
    }
}

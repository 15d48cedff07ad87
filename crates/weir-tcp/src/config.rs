// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings `net.ipv4.tcp_*` of a namespace.

use crate::congestion::Algorithm;
use crate::time::{MS, SECOND};

/// What `net.ipv4.tcp_*` sets. Times are in nanoseconds, buffers in bytes; the defaults are those of Linux 6.1 on a
/// machine with plenty of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `tcp_sack`: offer and accept SACK.
    pub sack: bool,
    /// `tcp_dsack`: report duplicates in SACK blocks.
    pub dsack: bool,
    /// `tcp_timestamps`: offer and accept timestamps.
    pub timestamps: bool,
    /// `tcp_window_scaling`
    pub window_scaling: bool,
    /// `tcp_ecn`: 0 never, 1 requested and accepted, 2 accepted.
    pub ecn: u8,
    /// `tcp_ecn_fallback`: a SYN that is sent again does not ask for ECN.
    pub ecn_fallback: bool,
    /// `tcp_rmem`: smallest, first and largest receive buffer.
    pub rmem: [u32; 3],
    /// `tcp_wmem`: smallest, first and largest send buffer.
    pub wmem: [u32; 3],
    /// `net.core.rmem_max`, which takes part in the choice of the window scale.
    pub rmem_max: u32,
    /// `tcp_moderate_rcvbuf`: the receive buffer grows with the flow.
    pub moderate_rcvbuf: bool,
    /// `tcp_adv_win_scale`: how much of the buffer is window, as Linux encodes it.
    pub adv_win_scale: i8,
    /// `tcp_syn_retries`
    pub syn_retries: u8,
    /// `tcp_synack_retries`
    pub synack_retries: u8,
    /// `tcp_retries1`
    pub retries1: u8,
    /// `tcp_retries2`
    pub retries2: u8,
    /// `tcp_orphan_retries`; 0 stands for 8.
    pub orphan_retries: u8,
    /// `tcp_keepalive_time`
    pub keepalive_time: u64,
    /// `tcp_keepalive_intvl`
    pub keepalive_interval: u64,
    /// `tcp_keepalive_probes`
    pub keepalive_probes: u8,
    /// `tcp_fin_timeout`
    pub fin_timeout: u64,
    /// `tcp_reordering`: packets.
    pub reordering: u32,
    /// `tcp_max_reordering`: packets.
    pub max_reordering: u32,
    /// The smallest RTO (`rto_min` of the route; `TCP_RTO_MIN`).
    pub rto_min: u64,
    /// `tcp_slow_start_after_idle`
    pub slow_start_after_idle: bool,
    /// `tcp_early_retrans` of 3 or 4: tail loss probes.
    pub loss_probe: bool,
    /// `tcp_frto`
    pub frto: bool,
    /// `tcp_recovery`: 1 RACK, 2 static reordering window, 4 no duplicate threshold.
    pub recovery: u8,
    /// `tcp_abort_on_overflow`
    pub abort_on_overflow: bool,
    /// `tcp_syncookies`: 0 never, 1 when the queue is full, 2 always.
    pub syncookies: u8,
    /// `tcp_max_syn_backlog`: requests of a listener that may wait where cookies are off.
    pub max_syn_backlog: u32,
    /// `tcp_invalid_ratelimit`: the shortest time between answers to segments out of the window.
    pub invalid_ratelimit: u64,
    /// `tcp_rfc1337`: resets do not end TIME_WAIT.
    pub rfc1337: bool,
    /// `tcp_tw_reuse`: 0 never, 1 always, 2 on loopback.
    pub tw_reuse: u8,
    /// `tcp_limit_output_bytes`
    pub limit_output_bytes: u32,
    /// `tcp_min_tso_segs`
    pub min_tso_segs: u32,
    /// `tcp_tso_rtt_log`
    pub tso_rtt_log: u8,
    /// `tcp_pacing_ss_ratio`: per cent.
    pub pacing_ss_ratio: u32,
    /// `tcp_pacing_ca_ratio`: per cent.
    pub pacing_ca_ratio: u32,
    /// `tcp_notsent_lowat`
    pub notsent_lowat: u32,
    /// `tcp_fastopen`: bits of [`crate::fast_open::enable`].
    pub fast_open: u32,
    /// `tcp_no_metrics_save`: connections leave nothing behind.
    pub no_metrics_save: bool,
    /// `tcp_no_ssthresh_metrics_save`: they leave no threshold behind.
    pub no_ssthresh_metrics_save: bool,
    /// `tcp_comp_sack_nr`: the most ACKs of early data that are saved in a row.
    pub comp_sack_count: u32,
    /// `tcp_comp_sack_delay_ns`: the longest delay of such an ACK, in ns.
    pub comp_sack_delay: u64,
    /// `tcp_congestion_control`
    pub congestion: Algorithm,
    /// The first congestion window, in packets (`initcwnd` of the route).
    pub initial_cwnd: u32,
    /// `tcp_thin_linear_timeouts`
    pub thin_linear_timeouts: bool,
    /// `tcp_retrans_collapse`: kept for the value only; segments are cut from a stream of bytes anyway.
    pub retrans_collapse: bool,
    /// `tcp_workaround_signed_windows`
    pub workaround_signed_windows: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            sack: true,
            dsack: true,
            timestamps: true,
            window_scaling: true,
            ecn: 2,
            ecn_fallback: true,
            rmem: [4096, 131_072, 6_291_456],
            wmem: [4096, 16384, 4_194_304],
            rmem_max: 212_992,
            moderate_rcvbuf: true,
            adv_win_scale: 1,
            syn_retries: 6,
            synack_retries: 5,
            retries1: 3,
            retries2: 15,
            orphan_retries: 0,
            keepalive_time: 7200 * SECOND,
            keepalive_interval: 75 * SECOND,
            keepalive_probes: 9,
            fin_timeout: 60 * SECOND,
            reordering: 3,
            max_reordering: 300,
            rto_min: 200 * MS,
            slow_start_after_idle: true,
            loss_probe: true,
            frto: true,
            recovery: 1,
            abort_on_overflow: false,
            syncookies: 1,
            max_syn_backlog: 4096,
            invalid_ratelimit: 500 * MS,
            rfc1337: false,
            tw_reuse: 2,
            limit_output_bytes: 1_048_576,
            min_tso_segs: 2,
            tso_rtt_log: 9,
            pacing_ss_ratio: 200,
            pacing_ca_ratio: 120,
            notsent_lowat: u32::MAX,
            fast_open: crate::fast_open::enable::CLIENT,
            no_metrics_save: false,
            no_ssthresh_metrics_save: true,
            comp_sack_count: 44,
            comp_sack_delay: MS,
            congestion: Algorithm::Cubic,
            initial_cwnd: 10,
            thin_linear_timeouts: false,
            retrans_collapse: true,
            workaround_signed_windows: false,
        }
    }
}

impl Config {
    /// Returns how much of a receive buffer is window (`tcp_win_from_space`), in bytes.
    pub fn window_from_space(&self, space: u32) -> u32 {
        let scale = self.adv_win_scale;
        if scale <= 0 {
            space
                .checked_shr(u32::from(scale.unsigned_abs()))
                .unwrap_or(0)
        } else {
            space
                - space
                    .checked_shr(u32::from(scale.unsigned_abs()))
                    .unwrap_or(0)
        }
    }

    /// Returns the buffer of which `window` is the window (`tcp_space_from_win`), in bytes.
    pub fn space_from_window(&self, window: u32) -> u32 {
        match self.adv_win_scale {
            1 => window.saturating_mul(2),
            scale if scale <= 0 => window
                .checked_shl(u32::from(scale.unsigned_abs()))
                .unwrap_or(u32::MAX),
            _ => window.saturating_add(window / 2),
        }
    }

    /// Returns the window of a SYN and the scale it offers, for a receive buffer of `space` bytes of window and
    /// segments of `mss` bytes (`tcp_select_initial_window`).
    pub fn initial_window(&self, space: u32, clamp: u32, mss: u32) -> (u32, u8) {
        let clamp = if clamp == 0 { 65535 << 14 } else { clamp };
        let mut space = space.min(clamp);
        if mss > 0 && space > mss {
            space -= space % mss;
        }
        let window = if self.workaround_signed_windows {
            space.min(32767)
        } else {
            space
        };
        let mut scale = 0;
        if self.window_scaling {
            let most = space.max(self.rmem[2]).max(self.rmem_max).min(clamp);
            scale = (most.max(1).ilog2().saturating_sub(15)).min(14) as u8;
        }
        (window, scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows that `tcpdump` shows of Linux: 64240 and 65160 on Ethernet, 65495 on loopback.
    #[test]
    fn the_first_window_is_that_of_linux() {
        let config = Config::default();
        let space = config.window_from_space(config.rmem[1]);
        assert_eq!(config.initial_window(space, 0, 1460), (64240, 7));
        assert_eq!(config.initial_window(space, 0, 1448), (65160, 7));
        assert_eq!(config.initial_window(space, 0, 65495), (65495, 7));
    }
}

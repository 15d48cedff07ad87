// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a connection leaves for the next one to the same peer (`tcp_update_metrics`, `tcp_init_metrics`).

/// What is known of a path. 0 for what is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The round-trip time in microseconds.
    pub rtt: u32,
    /// Its variance in microseconds.
    pub rtt_var: u32,
    /// The slow-start threshold, in packets.
    pub ssthresh: u32,
    /// The window, in packets.
    pub cwnd: u32,
    /// The reordering, in packets.
    pub reordering: u32,
}

impl Metrics {
    /// Nothing is known.
    pub const NONE: Self = Self {
        rtt: 0,
        rtt_var: 0,
        ssthresh: 0,
        cwnd: 0,
        reordering: 0,
    };
}

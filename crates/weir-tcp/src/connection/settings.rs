// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a socket's options set, and what the path to the peer is like.

use std::sync::{Arc, LazyLock};

use crate::congestion::Algorithm;
use crate::metrics::Metrics;

/// The options of a socket that TCP follows. Times are in ns, sizes in bytes; nothing set means the namespace's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `TCP_NODELAY`: small segments do not wait for acknowledgements.
    pub nodelay: bool,
    /// `TCP_CORK`: small segments wait for more data.
    pub cork: bool,
    /// `SO_KEEPALIVE`
    pub keepalive: bool,
    /// `TCP_MAXSEG`; 0 for none.
    pub max_segment: u16,
    /// `TCP_KEEPIDLE`
    pub keep_idle: Option<u64>,
    /// `TCP_KEEPINTVL`
    pub keep_interval: Option<u64>,
    /// `TCP_KEEPCNT`
    pub keep_count: Option<u8>,
    /// `TCP_SYNCNT`
    pub syn_retries: Option<u8>,
    /// `TCP_USER_TIMEOUT`; 0 for none.
    pub user_timeout: u64,
    /// `TCP_LINGER2`; `Some(0)` for a negative value: no FIN_WAIT2 after close.
    pub linger2: Option<u64>,
    /// `TCP_WINDOW_CLAMP`; 0 for none.
    pub window_clamp: u32,
    /// `SO_SNDBUF`, doubled as Linux does.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, doubled as Linux does.
    pub receive_buffer: Option<u32>,
    /// `SO_RCVLOWAT`
    pub receive_low: u32,
    /// `TCP_NOTSENT_LOWAT`; 0 for the namespace's.
    pub notsent_low: u32,
    /// `TCP_QUICKACK` is off when the connection begins.
    pub slow_ack: bool,
    /// `TCP_CONGESTION`
    pub congestion: Option<Algorithm>,
    /// `SO_MAX_PACING_RATE`: bytes per second; `u64::MAX` for none.
    pub max_pacing_rate: u64,
    /// Segments have room for an MD5 signature (`TCP_MD5SIG`).
    pub signed: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodelay: false,
            cork: false,
            keepalive: false,
            max_segment: 0,
            keep_idle: None,
            keep_interval: None,
            keep_count: None,
            syn_retries: None,
            user_timeout: 0,
            linger2: None,
            window_clamp: 0,
            send_buffer: None,
            receive_buffer: None,
            receive_low: 1,
            notsent_low: 0,
            slow_ack: false,
            congestion: None,
            max_pacing_rate: u64::MAX,
            signed: false,
        }
    }
}

impl Settings {
    /// The settings of a socket without options, which such sockets share.
    pub fn shared() -> Arc<Self> {
        static DEFAULT: LazyLock<Arc<Settings>> = LazyLock::new(Arc::default);
        DEFAULT.clone()
    }
}

/// The path to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The MTU, in bytes.
    pub mtu: u32,
    /// The length of the IP header with its options, in bytes.
    pub ip_header: u8,
    /// The largest TSO-sized segment, headers included, in bytes; at most 65535. 0 for none.
    pub gso: u32,
    /// The MSS that the route advertises; 0 for that of the MTU.
    pub advmss: u16,
    /// The first congestion window of the route; 0 for the namespace's.
    pub initial_cwnd: u32,
    /// Packets of the path may carry ECN (the route's feature or `tcp_ecn`).
    pub ecn: bool,
    /// The device's qdisc paces flows (`fq`).
    pub paced: bool,
    /// What earlier connections have learned.
    pub metrics: Metrics,
}

impl Path {
    /// An Ethernet of IPv4.
    pub const fn ipv4(mtu: u32) -> Self {
        Self {
            mtu,
            ip_header: 20,
            gso: 65535,
            advmss: 0,
            initial_cwnd: 0,
            ecn: false,
            paced: false,
            metrics: Metrics::NONE,
        }
    }

    /// The same of IPv6.
    pub const fn ipv6(mtu: u32) -> Self {
        Self {
            ip_header: 40,
            ..Self::ipv4(mtu)
        }
    }

    /// The MSS that the MTU allows (`ipv4_default_advmss`).
    pub fn mss(&self) -> u16 {
        if self.advmss != 0 {
            return self.advmss;
        }
        let headers = u32::from(self.ip_header) + 20;
        self.mtu.saturating_sub(headers).clamp(48, 65535 - headers) as u16
    }
}

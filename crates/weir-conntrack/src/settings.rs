// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a namespace (`net.netfilter.nf_conntrack_*`, `nf_flowtable_*`) with the defaults of Linux 6.1.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::flow_tables::FlowTables;
use crate::status::TcpState;

macro_rules! settings {
    ($($name:ident = $default:literal, $kind:ident: $text:literal;)*) => {
        /// A setting; its file is `net/netfilter/nf_conntrack_*` or `net/netfilter/nf_flowtable_*`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(non_camel_case_types)] // the kernel's names, unchanged
        #[repr(u8)]
        pub enum Setting {
            $(#[doc = $text] $name,)*
        }

        impl Setting {
            /// All settings.
            pub const ALL: &[Setting] = &[$(Setting::$name,)*];

            /// Returns the name of the file, such as `nf_conntrack_max`.
            pub const fn file(self) -> &'static str {
                match self {
                    Setting::flowtable_tcp_timeout => "nf_flowtable_tcp_timeout",
                    Setting::flowtable_udp_timeout => "nf_flowtable_udp_timeout",
                    $(#[allow(unreachable_patterns)] Setting::$name => concat!("nf_conntrack_", stringify!($name)),)*
                }
            }

            /// Returns Linux's default.
            pub const fn default_value(self) -> u32 {
                match self { $(Setting::$name => $default,)* }
            }

            /// Returns which values the file accepts.
            pub const fn kind(self) -> Kind {
                match self { $(Setting::$name => Kind::$kind,)* }
            }
        }
    };
}

/// Which values a setting's file accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An `int` (`proc_dointvec`).
    Int,
    /// 0 or 1 (`proc_dou8vec_minmax`).
    Flag,
    /// 0 to 255 (`proc_dou8vec_minmax`).
    Byte,
    /// Seconds (`proc_dointvec_jiffies`).
    Seconds,
}

settings! {
    max = 262_144, Int: "The largest number of connections.";
    checksum = 1, Flag: "Checksums of received packets are verified, and packets with wrong ones are invalid.";
    log_invalid = 0, Byte: "The protocol whose invalid packets are logged. Kept; nothing is logged.";
    expect_max = 1024, Int: "The largest number of expectations. Kept; there are no helpers that expect connections.";
    acct = 0, Flag: "Packets and bytes of each connection are counted.";
    events = 2, Byte: "Events are sent: 0 never, 1 always, 2 while somebody listens.";
    timestamp = 0, Flag: "The times at which connections begin and end are kept.";
    generic_timeout = 600, Seconds: "Other protocols.";
    tcp_timeout_syn_sent = 120, Seconds: "TCP, SYN_SENT.";
    tcp_timeout_syn_recv = 60, Seconds: "TCP, SYN_RECV.";
    tcp_timeout_established = 432_000, Seconds: "TCP, ESTABLISHED.";
    tcp_timeout_fin_wait = 120, Seconds: "TCP, FIN_WAIT.";
    tcp_timeout_close_wait = 60, Seconds: "TCP, CLOSE_WAIT.";
    tcp_timeout_last_ack = 30, Seconds: "TCP, LAST_ACK.";
    tcp_timeout_time_wait = 120, Seconds: "TCP, TIME_WAIT.";
    tcp_timeout_close = 10, Seconds: "TCP, CLOSE.";
    tcp_timeout_max_retrans = 300, Seconds: "TCP, after `tcp_max_retrans` retransmissions without an answer.";
    tcp_timeout_unacknowledged = 300, Seconds: "TCP, while data are not acknowledged.";
    tcp_loose = 1, Flag: "Connections whose beginning was not seen are picked up.";
    tcp_be_liberal = 0, Flag: "Only resets outside of the window are invalid.";
    tcp_ignore_invalid_rst = 0, Flag: "Resets outside of the window are not invalid.";
    tcp_max_retrans = 3, Byte: "Retransmissions without an answer until the time-out becomes shorter.";
    udp_timeout = 30, Seconds: "UDP without a reply.";
    udp_timeout_stream = 120, Seconds: "UDP streams.";
    icmp_timeout = 30, Seconds: "ICMP.";
    icmpv6_timeout = 30, Seconds: "ICMPv6.";
    sctp_timeout_closed = 10, Seconds: "SCTP, CLOSED.";
    sctp_timeout_cookie_wait = 3, Seconds: "SCTP, COOKIE_WAIT.";
    sctp_timeout_cookie_echoed = 3, Seconds: "SCTP, COOKIE_ECHOED.";
    sctp_timeout_established = 210, Seconds: "SCTP, ESTABLISHED.";
    sctp_timeout_shutdown_sent = 3, Seconds: "SCTP, SHUTDOWN_SENT.";
    sctp_timeout_shutdown_recd = 3, Seconds: "SCTP, SHUTDOWN_RECD.";
    sctp_timeout_shutdown_ack_sent = 3, Seconds: "SCTP, SHUTDOWN_ACK_SENT.";
    sctp_timeout_heartbeat_sent = 30, Seconds: "SCTP, HEARTBEAT_SENT.";
    dccp_timeout_request = 240, Seconds: "DCCP, REQUEST.";
    dccp_timeout_respond = 480, Seconds: "DCCP, RESPOND.";
    dccp_timeout_partopen = 480, Seconds: "DCCP, PARTOPEN.";
    dccp_timeout_open = 43_200, Seconds: "DCCP, OPEN.";
    dccp_timeout_closereq = 64, Seconds: "DCCP, CLOSEREQ.";
    dccp_timeout_closing = 64, Seconds: "DCCP, CLOSING.";
    dccp_timeout_timewait = 240, Seconds: "DCCP, TIMEWAIT.";
    dccp_loose = 1, Flag: "DCCP connections whose beginning was not seen are picked up.";
    gre_timeout = 30, Seconds: "GRE without a reply.";
    gre_timeout_stream = 180, Seconds: "GRE with packets in both directions.";
    flowtable_tcp_timeout = 30, Seconds: "A flow of TCP in the flow table.";
    flowtable_udp_timeout = 30, Seconds: "A flow of UDP in the flow table.";
}

impl Setting {
    /// Returns whether the setting holds for all namespaces. Linux keeps it in a global variable.
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::max | Self::expect_max)
    }
}

/// The settings of a namespace, and what its actions want.
#[derive(Debug)]
pub struct Settings {
    values: [AtomicU32; Setting::ALL.len()],
    /// The zones of the namespace's actions.
    pub flow_tables: FlowTables,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            values: std::array::from_fn(|at| AtomicU32::new(Setting::ALL[at].default_value())),
            flow_tables: FlowTables::default(),
        }
    }
}

impl Settings {
    /// Returns the settings of a new namespace, whose shared ones are those of `other`.
    pub fn sharing(other: &Settings) -> Self {
        let new = Self::default();
        for setting in Setting::ALL.iter().filter(|setting| setting.is_shared()) {
            new.set(*setting, other.get(*setting));
        }
        new
    }

    /// Returns a value.
    #[inline]
    pub fn get(&self, setting: Setting) -> u32 {
        self.values[setting as usize].load(Relaxed)
    }

    /// Sets a value. The caller has checked it against the setting's [`Kind`].
    pub fn set(&self, setting: Setting, value: u32) {
        self.values[setting as usize].store(value, Relaxed);
    }

    /// Returns whether a flag is set.
    #[inline]
    pub(crate) fn is(&self, setting: Setting) -> bool {
        self.get(setting) != 0
    }

    /// Returns the time-out of a TCP state in seconds (`tcp_timeouts`).
    #[inline]
    pub(crate) fn tcp_timeout(&self, state: TcpState) -> u32 {
        use Setting::*;
        self.get(match state {
            TcpState::None | TcpState::SynSent | TcpState::SynSent2 => tcp_timeout_syn_sent,
            TcpState::SynRecv => tcp_timeout_syn_recv,
            TcpState::Established => tcp_timeout_established,
            TcpState::FinWait => tcp_timeout_fin_wait,
            TcpState::CloseWait => tcp_timeout_close_wait,
            TcpState::LastAck => tcp_timeout_last_ack,
            TcpState::TimeWait => tcp_timeout_time_wait,
            TcpState::Close => tcp_timeout_close,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_begins_with_its_default() {
        let settings = Settings::default();
        assert_eq!(settings.get(Setting::tcp_timeout_established), 432_000);
        assert_eq!(Setting::udp_timeout.file(), "nf_conntrack_udp_timeout");
        settings.set(Setting::max, 7);
        assert_eq!(settings.get(Setting::max), 7);
        assert_eq!(settings.get(Setting::checksum), 1);
    }
}

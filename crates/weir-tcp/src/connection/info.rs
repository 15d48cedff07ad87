// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `TCP_INFO` (`tcp_get_info`).

use super::{Connection, NEVER, Timer, ecn};
use crate::time::MS;

/// `struct tcp_info` of Linux 6.18. The fields after `tcpi_rcv_wnd` are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Info {
    /// The state, as `TCP_ESTABLISHED` and so on.
    pub state: u8,
    /// `enum tcp_ca_state`
    pub ca_state: u8,
    /// Unanswered retransmissions.
    pub retransmits: u8,
    /// Unanswered probes.
    pub probes: u8,
    /// The exponent of the time-out.
    pub backoff: u8,
    /// `TCPI_OPT_*`
    pub options: u8,
    /// The peer's window scale.
    pub snd_wscale: u8,
    /// This end's window scale.
    pub rcv_wscale: u8,
    /// The delivery rate was limited by the program.
    pub app_limited: bool,
    /// The `u32` fields from `tcpi_rto` to `tcpi_total_retrans`, in their order.
    pub words: [u32; 24],
    /// Bytes per second; `u64::MAX` for none.
    pub pacing_rate: u64,
    /// Bytes per second; `u64::MAX` for none.
    pub max_pacing_rate: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Bytes not sent yet.
    pub notsent: u32,
    /// The smallest round-trip time in microseconds.
    pub min_rtt: u32,
    /// Segments with data received.
    pub data_segs_in: u32,
    /// Segments with data sent.
    pub data_segs_out: u32,
    /// Bytes per second.
    pub delivery_rate: u64,
    /// Packets delivered.
    pub delivered: u32,
    /// Packets delivered with ECN marks.
    pub delivered_ce: u32,
    /// Bytes sent, again included.
    pub bytes_sent: u64,
    /// Bytes sent again.
    pub bytes_retrans: u64,
    /// Duplicates that the peer reported.
    pub dsack_dups: u32,
    /// How often reordering was seen.
    pub reord_seen: u32,
    /// Segments that arrived early.
    pub rcv_ooopack: u32,
    /// The peer's window in bytes.
    pub snd_wnd: u32,
    /// This end's window in bytes.
    pub rcv_wnd: u32,
}

impl Info {
    /// The length of the structure, in bytes.
    pub const LENGTH: usize = 280;

    /// Returns the structure in native byte order.
    pub fn bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let mut at = 0;
        let mut put = |value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        let scales = if cfg!(target_endian = "little") {
            self.snd_wscale | self.rcv_wscale << 4
        } else {
            self.snd_wscale << 4 | self.rcv_wscale
        };
        put(&[
            self.state,
            self.ca_state,
            self.retransmits,
            self.probes,
            self.backoff,
            self.options,
            scales,
            u8::from(self.app_limited),
        ]);
        for word in self.words {
            put(&word.to_ne_bytes());
        }
        for long in [
            self.pacing_rate,
            self.max_pacing_rate,
            self.bytes_acked,
            self.bytes_received,
        ] {
            put(&long.to_ne_bytes());
        }
        for word in [
            self.segs_out,
            self.segs_in,
            self.notsent,
            self.min_rtt,
            self.data_segs_in,
            self.data_segs_out,
        ] {
            put(&word.to_ne_bytes());
        }
        for long in [self.delivery_rate, 0, 0, 0] {
            put(&long.to_ne_bytes());
        }
        for word in [self.delivered, self.delivered_ce] {
            put(&word.to_ne_bytes());
        }
        for long in [self.bytes_sent, self.bytes_retrans] {
            put(&long.to_ne_bytes());
        }
        for word in [
            self.dsack_dups,
            self.reord_seen,
            self.rcv_ooopack,
            self.snd_wnd,
            self.rcv_wnd,
        ] {
            put(&word.to_ne_bytes());
        }
        bytes
    }
}

impl Connection {
    /// The timer that `/proc/net/tcp` and `ss` show: 1 retransmission, 2 keep-alive, 4 window probe, 0 none; when it expires
    /// in ns, and how often it has.
    pub fn timer(&self) -> (u8, u64, u8) {
        match self.timer {
            Timer::WindowProbe => (4, self.timer_at, self.probes),
            Timer::Retransmit | Timer::LossProbe | Timer::Reordering => {
                (1, self.timer_at, self.retransmits)
            }
            Timer::None if self.keep_at != NEVER => (2, self.keep_at, self.probes),
            Timer::None => (0, 0, 0),
        }
    }

    /// The sizes of the receive and of the send buffer, in bytes (`SO_RCVBUF`, `SO_SNDBUF`).
    pub fn buffers(&self) -> (u32, u32) {
        (self.rcvbuf, self.sndbuf)
    }

    /// Fills in `TCP_INFO`.
    pub fn info(&self, now: u64) -> Info {
        let ms = |since: u64| (now.saturating_sub(since) / MS) as u32;
        let us = |ns: u64| (ns / 1000) as u32;
        let options = u8::from(self.timestamps_ok)
            | u8::from(self.sack_ok) << 1
            | u8::from(self.scaling_ok) << 2
            | u8::from(self.ecn & ecn::OK != 0) << 3
            | u8::from(self.ecn & ecn::SEEN != 0) << 4
            | u8::from(self.syn_data) << 5;
        let delivery = &self.delivery;
        let rate = match delivery.rate_us {
            0 => 0,
            us => u64::from(delivery.rate_count) * u64::from(self.mss) * 1_000_000 / u64::from(us),
        };
        Info {
            state: self.state as u8,
            ca_state: self.phase as u8,
            retransmits: self.retransmits,
            probes: self.probes,
            backoff: self.rtt.backoff,
            options,
            snd_wscale: self.snd_scale,
            rcv_wscale: if self.scaling_ok { self.rcv_scale } else { 0 },
            app_limited: delivery.rate_app_limited,
            words: [
                us(self.rtt.rto()),
                us(self.ack.ato),
                u32::from(self.mss),
                u32::from(self.ack.mss),
                self.sent.packets - self.early_syn_ack(),
                self.sent.sacked,
                self.sent.lost,
                self.sent.retrans,
                0,
                ms(self.last_sent),
                0,
                ms(self.ack.last_data),
                ms(self.last_ack),
                self.path.mtu,
                self.rcv_ssthresh,
                self.rtt.srtt8 >> 3,
                self.rtt.mdev4 >> 2,
                self.window.ssthresh,
                self.window.cwnd,
                u32::from(self.advmss),
                self.reordering,
                self.tuning.rtt8 >> 3,
                self.tuning.space,
                self.totals.retrans,
            ],
            pacing_rate: self.pacing_rate,
            max_pacing_rate: self.settings.max_pacing_rate,
            bytes_acked: self.totals.bytes_acked,
            bytes_received: self.totals.bytes_received,
            segs_out: self.totals.segs_out,
            segs_in: self.totals.segs_in,
            notsent: self.write_seq().wrapping_sub(self.nxt),
            min_rtt: self.rtt.min,
            data_segs_in: self.totals.data_segs_in,
            data_segs_out: self.totals.data_segs_out,
            delivery_rate: rate,
            delivered: delivery.count,
            delivered_ce: delivery.count_ce,
            bytes_sent: self.totals.bytes_sent,
            bytes_retrans: self.totals.bytes_retrans,
            dsack_dups: self.totals.dsack_dups,
            reord_seen: self.totals.reord_seen,
            rcv_ooopack: self.totals.early,
            snd_wnd: self.wnd,
            rcv_wnd: self.rcv_wnd,
        }
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a connection (`struct tcp_sock`).

mod ack;
mod counter;
pub mod info;
mod input;
mod output;
mod past;
mod receive;
mod recovery;
mod sack;
pub mod settings;
mod timer;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buffer::Ring;
use crate::config::Config;
use crate::congestion::{Congestion, INFINITE, Window};
use crate::early::Early;
use crate::error;
use crate::fast_open::{Client, Learned};
use crate::options::FastOpen;
pub use crate::phase::Phase;
use crate::rtt::Rtt;
use crate::sent::Queue;
use crate::seq::{after, before, later};
use crate::time::MS;
pub use counter::{Counter, Counts};
pub use output::Part;
use settings::{Path, Settings};

/// The states of RFC 9293, with Linux's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Data flow both ways.
    Established = 1,
    /// A SYN was sent.
    SynSent = 2,
    /// A SYN was received and answered.
    SynReceived = 3,
    /// This end has closed; its FIN is not acknowledged.
    FinWait1 = 4,
    /// This end has closed, the peer has not.
    FinWait2 = 5,
    /// Both have closed; old segments die out.
    TimeWait = 6,
    /// There is no connection (any more).
    Closed = 7,
    /// The peer has closed, this end has not.
    CloseWait = 8,
    /// The peer has closed first; this end's FIN is not acknowledged.
    LastAck = 9,
    /// Both have closed at once; this end's FIN is not acknowledged.
    Closing = 11,
}

/// What a segment demands beyond what [`Connection::poll`] sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// A reset that answers the segment ([`crate::Header::reset`]).
    Reset,
}

/// What the program should be told. A set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events(pub u8);

impl Events {
    /// The handshake is complete.
    pub const ESTABLISHED: u8 = 1;
    /// There are data to read.
    pub const READABLE: u8 = 2;
    /// There is room to send again.
    pub const WRITABLE: u8 = 4;
    /// The peer has closed its direction.
    pub const PEER_CLOSED: u8 = 8;
    /// The connection has ended with an error.
    pub const ERROR: u8 = 16;
    /// The connection has ended.
    pub const CLOSED: u8 = 32;
    /// The connection is in TIME_WAIT: it can be replaced by a [`crate::TimeWait`].
    pub const TIME_WAIT: u8 = 64;

    /// Returns whether a bit is set.
    pub fn has(self, event: u8) -> bool {
        self.0 & event != 0
    }
}

/// The timer that runs while data are outstanding or wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    None,
    Retransmit,
    LossProbe,
    Reordering,
    WindowProbe,
}

/// Work for the next call of `poll`.
pub(crate) mod pending {
    pub const ACK: u16 = 1;
    pub const SYN: u16 = 2;
    pub const HEAD: u16 = 4;
    pub const TAIL: u16 = 8;
    pub const PROBE: u16 = 16;
    pub const KEEP: u16 = 32;
    pub const RESET: u16 = 64;
    /// Only new data, no retransmissions: F-RTO.
    pub const NEW_ONLY: u16 = 128;
    /// Delayed ACK wanted.
    pub const ACK_LATER: u16 = 256;
    /// Send what there is although it is small: the cork was taken off.
    pub const PUSH: u16 = 512;
}

/// RACK (RFC 8985).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rack {
    /// When the newest delivered packet was sent, in ns.
    pub time: u64,
    pub end: u32,
    /// Its round-trip time in microseconds.
    pub rtt: u32,
    pub last_delivered: u32,
    pub steps: u8,
    pub persist: u8,
    pub dsack: bool,
    pub advanced: bool,
}

/// Delivered packets and their rate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delivery {
    pub count: u32,
    pub count_ce: u32,
    pub time: u64,
    pub first_time: u64,
    /// Packets to be delivered until the flow is limited by the window again; 0 for not limited.
    pub app_limited: u32,
    pub rate_count: u32,
    pub rate_us: u32,
    pub rate_app_limited: bool,
}

/// The receiver's delayed acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AckState {
    pub deadline: u64,
    /// The time-out in ns; 0 before data.
    pub ato: u64,
    pub last_data: u64,
    pub quick: u8,
    pub pingpong: bool,
    pub mss: u16,
    pub last_segment: u16,
    /// ACKs of early data that were saved since the last ACK, and that were sent for the same hole.
    pub saved: u32,
    pub duplicates: u8,
    pub hole: u32,
    /// When the next of them is due, in ns; 0 for none.
    pub saved_until: u64,
}

/// The auto-tuning of the receive buffer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tuning {
    /// Eight times the round-trip time, in microseconds.
    pub rtt8: u32,
    pub rtt_seq: u32,
    pub rtt_time: u64,
    pub rtt_echo: u32,
    pub space: u32,
    pub seq: u32,
    pub time: u64,
}

/// Figures for `TCP_INFO`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub retrans: u32,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub early: u32,
}

pub(crate) mod ecn {
    pub const OK: u8 = 1;
    pub const QUEUE_CWR: u8 = 2;
    pub const DEMAND_CWR: u8 = 4;
    pub const SEEN: u8 = 8;
}

/// How a connection begins.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The namespace's settings.
    pub config: Arc<Config>,
    /// The socket's options.
    pub settings: Arc<Settings>,
    /// The path to the peer.
    pub path: Path,
    /// The first sequence number; the owner draws it (RFC 6528).
    pub isn: u32,
    /// What is added to timestamps, in ms.
    pub timestamp_offset: u32,
    /// Data may be sent in the SYN, or a cookie be asked for.
    pub fast_open: Option<Client>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) path: Path,
    pub(crate) state: State,
    pub(crate) phase: Phase,
    pub(crate) pending: u16,
    pub(crate) events: u8,
    pub(crate) counts: u64,
    pub(crate) error: i32,
    pub(crate) soft_error: i32,

    pub(crate) sack_ok: bool,
    pub(crate) timestamps_ok: bool,
    pub(crate) scaling_ok: bool,
    pub(crate) snd_scale: u8,
    pub(crate) rcv_scale: u8,
    pub(crate) ecn: u8,
    /// The program has closed the socket.
    pub(crate) orphan: bool,
    pub(crate) shut_receive: bool,
    pub(crate) shut_send: bool,
    /// A program waits for room to send.
    pub(crate) no_space: bool,

    // Sequence numbers of this end.
    pub(crate) iss: u32,
    pub(crate) una: u32,
    pub(crate) nxt: u32,
    pub(crate) wnd: u32,
    pub(crate) wl1: u32,
    pub(crate) max_wnd: u32,
    /// The sequence number of the first byte in `send`.
    pub(crate) base: u32,
    pub(crate) fin_queued: bool,
    pub(crate) sml: u32,
    /// The end of the data that the program has pushed: those written without `MSG_MORE`.
    pub(crate) pushed: u32,
    /// The last write said that more follows (`MSG_MORE`).
    pub(crate) more: bool,
    /// Ends of records (`MSG_EOR`), oldest first: no segment goes beyond one.
    #[expect(
        clippy::box_collection,
        reason = "8 bytes where there are none, not 32"
    )]
    pub(crate) records: Option<Box<VecDeque<u32>>>,
    pub(crate) send: Ring,
    pub(crate) sent: Queue,
    pub(crate) mss: u16,
    pub(crate) mss_clamp: u16,
    pub(crate) advmss: u16,
    pub(crate) sndbuf: u32,

    // Congestion control and recovery.
    pub(crate) rtt: Rtt,
    pub(crate) window: Window,
    pub(crate) congestion: Congestion,
    pub(crate) high_seq: u32,
    pub(crate) prior_cwnd: u32,
    pub(crate) prior_ssthresh: u32,
    pub(crate) prr_delivered: u32,
    pub(crate) prr_out: u32,
    pub(crate) undo_marker: Option<u32>,
    pub(crate) undo_retrans: i32,
    pub(crate) retrans_stamp: u64,
    pub(crate) reordering: u32,
    pub(crate) fack: u32,
    pub(crate) rack: Rack,
    pub(crate) tlp_high: Option<u32>,
    pub(crate) tlp_retrans: bool,
    pub(crate) frto: bool,
    pub(crate) cwnd_limited: bool,
    pub(crate) max_packets_out: u32,
    pub(crate) cwnd_usage_seq: u32,
    pub(crate) cwnd_used: u32,
    pub(crate) cwnd_stamp: u64,
    pub(crate) delivery: Delivery,
    pub(crate) pacing_rate: u64,
    /// When the next segment may go, in ns; 0 for at once.
    pub(crate) pacing_at: u64,
    /// When the last segment was to go: what was not used of the time counts for the next.
    pub(crate) paced_to: u64,

    // The receiving side.
    pub(crate) irs: u32,
    pub(crate) rcv_nxt: u32,
    pub(crate) rcv_wup: u32,
    pub(crate) rcv_wnd: u32,
    /// The sequence number of the first byte in `receive`.
    pub(crate) copied: u32,
    pub(crate) rcv_ssthresh: u32,
    pub(crate) window_clamp: u32,
    pub(crate) rcvbuf: u32,
    pub(crate) receive: Ring,
    pub(crate) early: Option<Box<Early>>,
    pub(crate) dsack: Option<(u32, u32)>,
    pub(crate) ack: AckState,
    pub(crate) tuning: Tuning,
    pub(crate) ts_offset: u32,
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: u64,
    /// The echoed timestamp of the segment at hand.
    pub(crate) ts_echo: u32,
    pub(crate) last_oow: u64,

    // Fast Open.
    pub(crate) fast_open: Option<Box<Client>>,
    pub(crate) learned: Option<Box<Learned>>,
    /// The data of the SYN were acknowledged, or taken.
    pub(crate) syn_data: bool,
    /// The passive end of Fast Open: data flow before the handshake is complete.
    pub(crate) passive: bool,
    pub(crate) deferred: bool,
    /// A program waits for the handshake to send what did not fit into the SYN.
    pub(crate) writer: bool,
    pub(crate) ended_well: bool,
    /// The cookie in the first SYN-ACK.
    pub(crate) syn_ack_cookie: Option<Box<FastOpen>>,

    // Times and timers.
    pub(crate) last_sent: u64,
    pub(crate) last_ack: u64,
    pub(crate) timer: Timer,
    pub(crate) timer_at: u64,
    pub(crate) keep_at: u64,
    pub(crate) release_at: u64,
    pub(crate) probe_start: u64,
    pub(crate) retransmits: u8,
    pub(crate) probes: u8,
    pub(crate) totals: Totals,
}

/// ACKs that are sent at once after something unusual (`TCP_MAX_QUICKACKS`).
pub(crate) const MAX_QUICK: u8 = 16;
/// The shortest delay of an ACK (`TCP_DELACK_MIN`, `TCP_ATO_MIN`).
pub(crate) const DELAY_MIN: u64 = 40 * MS;
/// The shortest time-out: two ticks of a clock of 250 Hz (`TCP_TIMEOUT_MIN`).
pub(crate) const TIMEOUT_MIN: u64 = 8 * MS;
/// Empty buffers are freed after a pause of this length.
pub(crate) const RELEASE: u64 = 1000 * MS;
/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

impl Connection {
    /// A connection in the state CLOSED.
    pub(crate) fn new(now: u64, opening: Opening) -> Self {
        let Opening {
            config,
            settings,
            path,
            isn,
            timestamp_offset,
            fast_open,
        } = opening;
        let mut advmss = path.mss();
        if settings.max_segment != 0 {
            advmss = advmss.min(settings.max_segment);
        }
        let rcvbuf = settings.receive_buffer.unwrap_or(config.rmem[1]);
        let sndbuf = settings.send_buffer.unwrap_or(config.wmem[1]);
        let clamp = settings.window_clamp;
        let (rcv_wnd, rcv_scale) =
            config.initial_window(config.window_from_space(rcvbuf), clamp, u32::from(advmss));
        let algorithm = settings.congestion.unwrap_or(config.congestion);
        let congestion = Congestion::new(algorithm, now, isn, advmss);
        let reordering = config.reordering;
        Self {
            state: State::Closed,
            phase: Phase::Open,
            pending: 0,
            events: 0,
            counts: 0,
            error: 0,
            soft_error: 0,
            sack_ok: false,
            timestamps_ok: false,
            scaling_ok: false,
            snd_scale: 0,
            rcv_scale,
            ecn: 0,
            orphan: false,
            shut_receive: false,
            shut_send: false,
            no_space: false,
            iss: isn,
            una: isn,
            nxt: isn,
            wnd: 0,
            wl1: 0,
            max_wnd: 0,
            base: isn.wrapping_add(1),
            fin_queued: false,
            sml: isn,
            pushed: isn.wrapping_add(1),
            more: false,
            records: None,
            send: Ring::default(),
            sent: Queue::default(),
            mss: 536,
            mss_clamp: if settings.max_segment != 0 {
                settings.max_segment
            } else {
                u16::MAX
            },
            advmss,
            sndbuf,
            rtt: Rtt::default(),
            window: Window {
                cwnd: config.initial_cwnd,
                ssthresh: INFINITE,
                count: 0,
                clamp: u32::MAX,
            },
            congestion,
            high_seq: isn,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            undo_marker: None,
            undo_retrans: 0,
            retrans_stamp: 0,
            reordering,
            fack: isn,
            rack: Rack {
                steps: 1,
                ..Rack::default()
            },
            tlp_high: None,
            tlp_retrans: false,
            frto: false,
            cwnd_limited: false,
            max_packets_out: 0,
            cwnd_usage_seq: isn,
            cwnd_used: 0,
            cwnd_stamp: now,
            delivery: Delivery::default(),
            pacing_rate: u64::MAX,
            pacing_at: 0,
            paced_to: 0,
            irs: 0,
            rcv_nxt: 0,
            rcv_wup: 0,
            rcv_wnd,
            copied: 0,
            rcv_ssthresh: rcv_wnd,
            window_clamp: if clamp != 0 {
                clamp
            } else {
                65535 << rcv_scale
            },
            rcvbuf,
            receive: Ring::default(),
            early: None,
            dsack: None,
            ack: AckState {
                deadline: NEVER,
                pingpong: settings.slow_ack,
                ..AckState::default()
            },
            tuning: Tuning::default(),
            ts_offset: timestamp_offset,
            ts_recent: 0,
            ts_recent_at: 0,
            ts_echo: 0,
            last_oow: 0,
            fast_open: fast_open.map(Box::new),
            learned: None,
            syn_data: false,
            passive: false,
            deferred: false,
            writer: false,
            ended_well: false,
            syn_ack_cookie: None,
            last_sent: now,
            last_ack: now,
            timer: Timer::None,
            timer_at: NEVER,
            keep_at: NEVER,
            release_at: NEVER,
            probe_start: 0,
            retransmits: 0,
            probes: 0,
            totals: Totals::default(),
            config,
            settings,
            path,
        }
    }

    /// Begins a handshake (`tcp_connect`): the next [`Connection::poll`] sends the SYN.
    pub fn connect(now: u64, opening: Opening) -> Self {
        let mut connection = Self::new(now, opening);
        connection.state = State::SynSent;
        connection.sync_mss();
        connection.initialize_rcv_mss();
        connection.pending |= pending::SYN;
        connection
    }

    /// How many bytes a SYN of Fast Open has room for; 0 if it carries none.
    pub fn syn_room(&self) -> usize {
        match self.sent.is_empty() {
            true => self.syn_space(),
            false => 0,
        }
    }

    pub(crate) fn syn_space(&self) -> usize {
        let Some(client) = &self.fast_open else {
            return 0;
        };
        if self.state != State::SynSent || !client.carries_data() {
            return 0;
        }
        let headers = u32::from(self.path.ip_header) + 20;
        let mut mss = self
            .path
            .mtu
            .saturating_sub(headers)
            .min(self.mss_clamp.into());
        if client.mss != 0 {
            mss = mss.min(client.mss.into());
        }
        // The longest options are left free, lest middleboxes drop the SYN for those they add.
        mss.saturating_sub(40) as usize
    }

    /// The SYN waits for data (`TCP_FASTOPEN_CONNECT`): they are sent in it.
    pub fn defer(&mut self) {
        self.deferred = self.state == State::SynSent;
    }

    /// The SYN waits no longer.
    pub fn undefer(&mut self) {
        self.deferred = false;
    }

    /// A program waits for the handshake with more data than the SYN carries: the ACK of the SYN-ACK goes with them
    /// (`sk_write_pending`).
    pub fn expect_data(&mut self) {
        self.writer = self.state == State::SynSent;
    }

    /// Whether the SYN waits for data.
    pub fn is_deferred(&self) -> bool {
        self.deferred && self.state == State::SynSent
    }

    /// Whether the connection was made from the data of a SYN, and its handshake is not complete.
    pub fn is_early(&self) -> bool {
        self.passive && self.state != State::Closed
    }

    /// Takes what the SYN-ACK told about Fast Open.
    pub fn take_learned(&mut self) -> Option<Learned> {
        self.learned.take().map(|learned| *learned)
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Events {
        Events(std::mem::take(&mut self.events))
    }

    /// Takes the counters that rose since the last call.
    pub fn take_counts(&mut self) -> Counts {
        Counts(std::mem::take(&mut self.counts))
    }

    /// Returns how many segments were sent again in all.
    pub fn retransmitted(&self) -> u32 {
        self.totals.retrans
    }

    /// Takes the pending error, a positive errno, or 0.
    pub fn take_error(&mut self) -> i32 {
        std::mem::take(&mut self.error)
    }

    /// Returns the pending error without clearing it.
    pub fn error(&self) -> i32 {
        self.error
    }

    /// The socket's options as the connection follows them.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Changes options of the socket.
    pub fn set(&mut self, now: u64, settings: impl Into<Arc<Settings>>) {
        let old = std::mem::replace(&mut self.settings, settings.into());
        if old.signed != self.settings.signed {
            self.sync_mss();
        }
        if old.cork && !self.settings.cork || !old.nodelay && self.settings.nodelay {
            self.pending |= pending::PUSH;
        }
        if let Some(buffer) = self.settings.send_buffer
            && old.send_buffer != Some(buffer)
        {
            self.sndbuf = buffer;
        }
        if let Some(buffer) = self.settings.receive_buffer
            && old.receive_buffer != Some(buffer)
        {
            self.rcvbuf = buffer;
        }
        if self.settings.window_clamp != 0 && old.window_clamp != self.settings.window_clamp {
            self.window_clamp = self.settings.window_clamp;
            self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp.max(self.rcv_wnd));
        }
        if let Some(algorithm) = self.settings.congestion
            && algorithm != self.congestion.algorithm()
        {
            self.congestion = Congestion::new(algorithm, now, self.iss, self.mss);
            self.first_pacing_rate();
        }
        if old.keepalive != self.settings.keepalive || old.keep_idle != self.settings.keep_idle {
            self.arm_keepalive(now);
        }
    }

    /// `TCP_QUICKACK`: acknowledge at once from now on, or delay.
    pub fn set_quick_ack(&mut self, on: bool) {
        self.ack.pingpong = !on;
        if on && self.pending & pending::ACK_LATER != 0 {
            self.pending |= pending::ACK;
        }
    }

    /// Returns whether ACKs are not delayed (`TCP_QUICKACK`).
    pub fn quick_ack(&self) -> bool {
        !self.ack.pingpong
    }

    /// The MSS of data segments, in bytes.
    pub fn mss(&self) -> u16 {
        self.mss
    }

    /// The congestion control in use.
    pub fn congestion(&self) -> crate::Algorithm {
        self.congestion.algorithm()
    }

    /// What the congestion control shows of itself (`TCP_CC_INFO`): BBR's `struct tcp_bbr_info`, nothing of others.
    pub fn congestion_info(&self) -> Option<[u8; 20]> {
        match &self.congestion {
            Congestion::Bbr(bbr) => Some(bbr.shown().bytes()),
            _ => None,
        }
    }

    /// Returns whether data may be queued.
    pub fn may_send(&self) -> bool {
        !self.shut_send
            && !self.fin_queued
            && matches!(
                self.state,
                State::Established | State::CloseWait | State::SynSent | State::SynReceived
            )
    }

    /// Returns how many bytes there is room for.
    pub fn send_room(&self) -> usize {
        let queued = self.send.len();
        let mut room = self.sndbuf.saturating_sub(queued);
        let low = match self.settings.notsent_low {
            0 => self.config.notsent_lowat,
            low => low,
        };
        if low != u32::MAX {
            let unsent = self.data_end().wrapping_sub(later(self.nxt, self.base));
            room = room.min(low.saturating_sub(unsent));
        }
        room as usize
    }

    /// Returns whether a program that polls may send (`sk_stream_is_writeable`): a third of the buffer is free.
    pub fn is_writable(&self) -> bool {
        self.send_room() as u32 >= self.sndbuf / 3
    }

    /// Returns whether both directions are closed.
    pub fn is_shut(&self) -> bool {
        self.shut_send && self.shut_receive
    }

    /// The path's MTU, in bytes.
    pub fn mtu(&self) -> u32 {
        self.path.mtu
    }

    /// Returns whether a sequence number is of something sent and not acknowledged.
    pub fn is_outstanding(&self, seq: u32) -> bool {
        !before(seq, self.una) && before(seq, self.nxt)
    }

    /// Returns how many bytes wait to be read.
    pub fn readable(&self) -> usize {
        self.receive.len() as usize
    }

    /// Returns how many bytes the peer has not acknowledged (`SIOCOUTQ`).
    pub fn unacknowledged(&self) -> u32 {
        self.write_seq().wrapping_sub(self.una)
    }

    /// Returns the data that wait to be read, in two parts.
    pub fn received(&self) -> [&[u8]; 2] {
        self.receive.slices(0, self.receive.len())
    }

    /// Returns whether the peer will send no more: after the data, a read returns the end.
    pub fn at_end(&self) -> bool {
        self.shut_receive || matches!(self.state, State::Closed | State::TimeWait)
    }

    /// Sends no more data after those queued (`tcp_shutdown`).
    pub fn shutdown_send(&mut self) {
        self.shut_send = true;
        match self.state {
            State::Established | State::SynReceived => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            State::SynSent => {
                self.finish(0);
                return;
            }
            _ => return,
        }
        self.fin_queued = true;
    }

    /// Reads no more data.
    pub fn shutdown_receive(&mut self) {
        self.shut_receive = true;
        self.events |= Events::READABLE;
    }

    /// The program closes the socket (`tcp_close`). Data that it has not read, or `linger_zero`, reset the connection;
    /// otherwise what is queued is sent, then a FIN.
    pub fn close(&mut self, now: u64, linger_zero: bool) {
        self.orphan = true;
        self.shut_receive = true;
        let unread = !self.receive.is_empty();
        self.copied = self.copied.wrapping_add(self.receive.len());
        self.receive.consume(self.receive.len());
        match self.state {
            State::Closed | State::TimeWait => {}
            State::SynSent => self.finish(0),
            _ if unread => {
                self.count(Counter::AbortOnClose);
                self.abort(error::ECONNRESET);
            }
            _ if linger_zero => {
                self.count(Counter::AbortOnData);
                self.abort(error::ECONNRESET);
            }
            _ => {
                if !self.fin_queued {
                    self.shutdown_send();
                }
                if self.state == State::FinWait2 {
                    self.arm_fin_wait(now);
                }
            }
        }
    }

    /// Ends the connection with a reset to the peer.
    pub fn abort(&mut self, error: i32) {
        let reset = !matches!(self.state, State::Closed | State::SynSent | State::TimeWait);
        self.finish(error);
        if reset {
            self.pending |= pending::RESET;
        }
    }

    /// Ends the connection at once (`tcp_done`).
    pub(crate) fn finish(&mut self, error: i32) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.count(Counter::AttemptFails);
        } else if matches!(self.state, State::Established | State::CloseWait) && error != 0 {
            self.count(Counter::EstabResets);
        }
        if error != 0 {
            self.error = error;
            self.events |= Events::ERROR;
        }
        self.state = State::Closed;
        self.shut_send = true;
        self.shut_receive = true;
        self.send.clear();
        self.base = self.nxt;
        self.fin_queued = false;
        self.sent.clear();
        self.early = None;
        self.receive.forget_early();
        self.pending = 0;
        self.timer = Timer::None;
        self.timer_at = NEVER;
        self.keep_at = NEVER;
        self.release_at = NEVER;
        self.pacing_at = 0;
        self.ack.deadline = NEVER;
        self.ack.saved_until = 0;
        self.events |= Events::CLOSED;
    }

    /// Enters TIME_WAIT.
    pub(crate) fn time_wait(&mut self, now: u64) {
        self.state = State::TimeWait;
        self.ack.saved_until = 0;
        self.ended_well = true;
        self.shut_send = true;
        self.send.clear();
        self.base = self.nxt;
        self.fin_queued = false;
        self.sent.clear();
        self.early = None;
        self.receive.forget_early();
        self.timer = Timer::None;
        self.timer_at = NEVER;
        self.pacing_at = 0;
        self.release_at = NEVER;
        self.keep_at = now.saturating_add(crate::time::TIME_WAIT);
        self.events |= Events::TIME_WAIT;
    }

    /// An ICMP error for a segment with sequence number `seq` (`tcp_v4_err`). `error` is the errno that Linux maps it to.
    /// A handshake fails at a hard error; an established connection only notes it.
    pub fn icmp_error(&mut self, seq: u32, error: i32, hard: bool) {
        if self.state == State::Closed || before(seq, self.una) || after(seq, self.nxt) {
            return;
        }
        match self.state {
            State::SynSent | State::SynReceived if hard => self.finish(error),
            _ => self.soft_error = error,
        }
    }

    /// The path's MTU has changed, in bytes (`tcp_v4_mtu_reduced`): what was larger is sent again.
    pub fn set_mtu(&mut self, mtu: u32) {
        let mtu = mtu.max(68);
        let smaller = mtu < self.path.mtu;
        self.path.mtu = mtu;
        let old = self.mss;
        self.sync_mss();
        if self.state == State::SynSent {
            // SYN and data are two entries of the queue: the packet that was too large was both.
            if smaller && self.sent.len() > 1 {
                self.pending |= pending::HEAD;
            }
            return;
        }
        if smaller && self.mss < old && self.state != State::Closed {
            self.simple_retransmit();
        }
    }

    /// Timestamps are milliseconds (`tcp_time_stamp_raw`).
    pub(crate) fn timestamp(&self, now: u64) -> u32 {
        ((now / MS) as u32).wrapping_add(self.ts_offset)
    }

    /// The sequence number after the queued data.
    pub(crate) fn data_end(&self) -> u32 {
        self.base.wrapping_add(self.send.len())
    }

    /// The sequence number after everything queued, a FIN included.
    pub(crate) fn write_seq(&self) -> u32 {
        self.data_end().wrapping_add(u32::from(self.fin_queued))
    }

    /// The end of the peer's window. Before the SYN-ACK is acknowledged, the window of the SYN is for the data after it.
    pub(crate) fn wnd_end(&self) -> u32 {
        let syn = u32::from(self.passive && self.una == self.iss);
        self.una.wrapping_add(syn).wrapping_add(self.wnd)
    }

    pub(crate) fn count(&mut self, counter: Counter) {
        self.counts |= 1 << counter as u8;
    }

    /// The number of unacknowledged bytes, early ranges and so on that the connection's buffers hold memory for.
    pub fn memory(&self) -> usize {
        self.send.capacity() + self.receive.capacity()
    }
}

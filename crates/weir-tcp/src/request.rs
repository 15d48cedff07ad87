// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A half-open connection of the passive side (`struct request_sock`, `tcp_conn_request`, `tcp_check_req`).

use std::sync::Arc;

use crate::config::Config;
use crate::connection::settings::{Path, Settings};
use crate::connection::{Answer, Connection, Opening, State, ecn, pending};
use crate::header::{ACK, CWR, ECE, FIN, Header, RST, SYN, Segment};
use crate::options::{FastOpen, LONGEST, Options};
use crate::rtt::{RTO_INITIAL, RTO_MAX};
use crate::seq::{after, before};
use crate::time::{MS, SECOND};

/// A SYN that was answered, and whose ACK is awaited.
#[derive(Debug, Clone)]
pub struct Request {
    isn: u32,
    irs: u32,
    ts_recent: u32,
    ts_offset: u32,
    mss: u16,
    advmss: u16,
    window: u32,
    snd_scale: u8,
    rcv_scale: u8,
    scaling: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// Made from a cookie: nothing was kept of the SYN.
    cookie: bool,
    /// Segments are signed.
    signed: bool,
    /// The Fast Open option of the first SYN-ACK.
    fast_open: Option<FastOpen>,
    /// The handshake waits for data until that many time-outs have passed (`TCP_DEFER_ACCEPT`).
    defer: u8,
    /// An ACK without data has come meanwhile.
    acked: bool,
    /// How often the SYN-ACK was due again.
    resent: u8,
    retries: u8,
    sent_at: u64,
    due: u64,
    last_oow: u64,
}

/// What a segment for a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is dropped.
    Drop,
    /// The SYN-ACK is sent again: [`Request::syn_ack`].
    SynAck,
    /// An ACK is sent: [`Request::ack`].
    Ack,
    /// The handshake is complete: [`Request::accept`].
    Complete,
    /// The ACK is remembered, and the handshake waits for data.
    Wait,
    /// The request ends without an answer.
    End,
    /// The request ends, and the segment is answered with a reset.
    Reset,
}

/// What a time-out of a request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The SYN-ACK is sent again.
    SynAck,
    /// The request waits on.
    Nothing,
    /// The request has ended.
    End,
}

/// How many time-outs of a SYN-ACK take `seconds` (`secs_to_retrans`).
pub fn timeouts_of(seconds: u32) -> u8 {
    if seconds == 0 {
        return 0;
    }
    let (mut count, mut wait, mut sum) = (1, 1, 1);
    while seconds > sum && count < u8::MAX {
        count += 1;
        wait = (wait * 2).min((RTO_MAX / SECOND) as u32);
        sum += wait;
    }
    count
}

/// How many seconds so many time-outs take (`retrans_to_secs`).
pub fn seconds_of(timeouts: u8) -> u32 {
    let (mut wait, mut sum) = (1, 0);
    for _ in 0..timeouts {
        sum += wait;
        wait = (wait * 2).min((RTO_MAX / SECOND) as u32);
    }
    sum
}

impl Request {
    /// Takes a SYN at the time `now`. `isn` and `ts_offset` are drawn by the owner; `settings` are the listener's.
    pub fn new(
        now: u64,
        config: &Config,
        settings: &Settings,
        path: &Path,
        syn: &Header,
        isn: u32,
        ts_offset: u32,
    ) -> Self {
        let options = &syn.options;
        let timestamps = options.timestamps.filter(|_| config.timestamps);
        let mut advmss = path.mss();
        let mut mss = options.mss.unwrap_or(536);
        if settings.max_segment != 0 {
            advmss = advmss.min(settings.max_segment);
            mss = mss.min(settings.max_segment);
        }
        let (window, rcv_scale) = Self::window(
            config,
            settings,
            advmss,
            timestamps.is_some(),
            options.window_scale.is_some(),
        );
        let wants_ecn = syn.flags & (ECE | CWR) == ECE | CWR;
        Self {
            isn,
            irs: syn.seq,
            ts_recent: timestamps.map_or(0, |(value, _)| value),
            ts_offset,
            mss,
            advmss,
            window,
            snd_scale: options
                .window_scale
                .filter(|_| config.window_scaling)
                .unwrap_or(0),
            rcv_scale,
            scaling: options.window_scale.is_some() && config.window_scaling,
            sack: options.sack_permitted && config.sack,
            // A signature leaves no room for SACK and timestamps.
            timestamps: timestamps.is_some()
                && !(settings.signed && options.sack_permitted && config.sack),
            ecn: wants_ecn && !syn.ecn_capable && (config.ecn != 0 || path.ecn),
            cookie: false,
            signed: settings.signed,
            defer: 0,
            acked: false,
            fast_open: None,
            resent: 0,
            retries: settings.syn_retries.unwrap_or(config.synack_retries),
            sent_at: now,
            due: now + RTO_INITIAL,
            last_oow: 0,
        }
    }

    fn window(
        config: &Config,
        settings: &Settings,
        advmss: u16,
        timestamps: bool,
        scaling: bool,
    ) -> (u32, u8) {
        let buffer = settings.receive_buffer.unwrap_or(config.rmem[1]);
        let mss = u32::from(advmss) - if timestamps { 12 } else { 0 };
        let (window, scale) =
            config.initial_window(config.window_from_space(buffer), settings.window_clamp, mss);
        (window, if scaling { scale } else { 0 })
    }

    /// Makes a request from the ACK that returned a cookie: what the cookie and the timestamp remember.
    #[expect(clippy::too_many_arguments, reason = "what a cookie remembers")]
    pub fn from_cookie(
        now: u64,
        config: &Config,
        settings: &Settings,
        path: &Path,
        ack: &Header,
        mss: u16,
        remembered: crate::cookie::Remembered,
        ts_offset: u32,
    ) -> Self {
        let options = Options {
            mss: Some(mss),
            window_scale: remembered.window_scale,
            sack_permitted: remembered.sack,
            timestamps: ack.options.timestamps,
            ..Options::default()
        };
        let syn = Header {
            seq: ack.seq.wrapping_sub(1),
            flags: SYN | if remembered.ecn { ECE | CWR } else { 0 },
            options,
            ..Header::default()
        };
        let isn = ack.ack.wrapping_sub(1);
        let mut request = Self::new(now, config, settings, path, &syn, isn, ts_offset);
        request.cookie = true;
        request
    }

    /// The listener answers with this sequence number: a cookie in place of the drawn one.
    pub fn set_isn(&mut self, isn: u32) {
        self.isn = isn;
    }

    /// Remembers the options in the timestamp, for a cookie.
    pub fn remember_in_timestamp(&mut self, now: u64) {
        if self.timestamps {
            let value = crate::cookie::timestamp(
                (now / MS) as u32,
                &crate::cookie::Remembered {
                    window_scale: self.scaling.then_some(self.snd_scale),
                    sack: self.sack,
                    ecn: self.ecn,
                },
            );
            self.ts_offset = value.wrapping_sub((now / MS) as u32);
        } else {
            self.scaling = false;
            self.sack = false;
            self.ecn = false;
            self.rcv_scale = 0;
        }
    }

    /// The first SYN-ACK carries this cookie.
    pub fn set_fast_open(&mut self, cookie: FastOpen) {
        self.fast_open = Some(cookie);
    }

    /// Makes the connection from the SYN of a client that has shown its address by a cookie, and takes the data of the SYN
    /// (`tcp_fastopen_create_child`). The next [`Connection::poll`] sends the SYN-ACK.
    pub fn accept_early(
        &self,
        now: u64,
        config: &Arc<Config>,
        settings: &Arc<Settings>,
        path: Path,
        syn: &Header,
        data: &[u8],
    ) -> Connection {
        let mut c = self.connection(now, config, settings, path);
        c.nxt = self.isn;
        c.una = self.isn;
        c.sml = self.isn;
        c.wnd = u32::from(syn.window);
        c.max_wnd = c.wnd;
        c.wl1 = syn.seq;
        c.establish(now);
        c.passive = true;
        c.syn_ack_cookie = self.fast_open.map(Box::new);
        c.pending |= pending::SYN;
        if !data.is_empty() || syn.has(FIN) {
            c.syn_data = true;
            let rest = Header {
                seq: syn.seq.wrapping_add(1),
                flags: syn.flags & !SYN,
                ..*syn
            };
            let ack = c.ack;
            c.data(now, &rest, data);
            // They are no sign yet of how data will come (`tcp_fastopen_add_skb`).
            c.ack = ack;
        }
        c
    }

    /// The peer's MSS.
    pub fn mss(&self) -> u16 {
        self.mss
    }

    /// The peer's first sequence number.
    pub fn irs(&self) -> u32 {
        self.irs
    }

    /// When the SYN-ACK is due again, in ns.
    pub fn deadline(&self) -> u64 {
        self.due
    }

    /// How often the SYN-ACK was sent again.
    pub fn resent(&self) -> u8 {
        self.resent
    }

    fn timestamp(&self, now: u64) -> u32 {
        ((now / MS) as u32).wrapping_add(self.ts_offset)
    }

    /// The SYN-ACK.
    pub fn syn_ack(&self, now: u64) -> Segment<'static> {
        let mut flags = SYN | ACK;
        if self.ecn {
            flags |= ECE;
        }
        self.control(
            flags,
            self.isn,
            self.window.min(65535) as u16,
            Options {
                mss: Some(self.advmss),
                window_scale: self.scaling.then_some(self.rcv_scale),
                sack_permitted: self.sack,
                timestamps: self
                    .timestamps
                    .then(|| (self.timestamp(now), self.ts_recent)),
                fast_open: self.fast_open.filter(|_| self.resent == 0),
                ..Options::default()
            },
        )
    }

    /// The ACK that answers a segment out of the window.
    pub fn ack(&self, now: u64) -> Segment<'static> {
        self.control(
            ACK,
            self.isn.wrapping_add(1),
            (self.window >> self.rcv_scale).min(65535) as u16,
            Options {
                timestamps: self
                    .timestamps
                    .then(|| (self.timestamp(now), self.ts_recent)),
                ..Options::default()
            },
        )
    }

    fn control(&self, flags: u8, seq: u32, window: u16, mut options: Options) -> Segment<'static> {
        options.md5 = self.signed.then_some([0; 16]);
        if options.length() > LONGEST {
            options.fast_open = None;
        }
        Segment {
            header: Header {
                seq,
                ack: self.irs.wrapping_add(1),
                flags,
                window,
                options,
                ..Header::default()
            },
            data: [&[], &[]],
            mss: self.mss,
            ecn_capable: false,
        }
    }

    /// Takes a segment (`tcp_check_req`).
    pub fn segment(
        &mut self,
        now: u64,
        config: &Config,
        header: &Header,
        length: usize,
    ) -> Verdict {
        let flags = header.flags & (RST | SYN | ACK);
        let old = self.timestamps
            && header
                .options
                .timestamps
                .is_some_and(|(value, _)| self.ts_recent != 0 && before(value, self.ts_recent));
        if header.seq == self.irs && flags == SYN && !old {
            // The peer did not get the answer.
            if self.limited(now, config) {
                return Verdict::Drop;
            }
            self.due = now + self.wait();
            return Verdict::SynAck;
        }
        if flags & ACK != 0 && header.ack != self.isn.wrapping_add(1) {
            return if header.has(RST) {
                Verdict::Drop
            } else {
                Verdict::Reset
            };
        }
        let end = header.seq.wrapping_add(header.sequence_length(length));
        let first = self.irs.wrapping_add(1);
        let in_window = !before(end, first) && !after(header.seq, first.wrapping_add(self.window));
        if old || !in_window {
            if header.has(RST) || self.limited(now, config) {
                return Verdict::Drop;
            }
            return Verdict::Ack;
        }
        if self.timestamps
            && let Some((value, _)) = header.options.timestamps
            && !after(header.seq, first)
        {
            self.ts_recent = value;
        }
        if flags & RST != 0 {
            return if header.seq == first || header.seq == self.irs {
                Verdict::End
            } else {
                Verdict::Drop
            };
        }
        if flags & SYN != 0 {
            return Verdict::Reset;
        }
        if flags & ACK == 0 {
            return Verdict::Drop;
        }
        if self.resent < self.defer && end == first {
            self.acked = true;
            return Verdict::Wait;
        }
        Verdict::Complete
    }

    fn limited(&mut self, now: u64, config: &Config) -> bool {
        if self.last_oow != 0 && now.saturating_sub(self.last_oow) < config.invalid_ratelimit {
            return true;
        }
        self.last_oow = now.max(1);
        false
    }

    fn wait(&self) -> u64 {
        (RTO_INITIAL << self.resent.min(20)).min(RTO_MAX)
    }

    /// The handshake waits for data until `timeouts` have passed.
    pub fn defer(&mut self, timeouts: u8) {
        self.defer = timeouts;
    }

    /// The SYN-ACK is due again (`syn_ack_recalc`).
    pub fn timeout(&mut self, now: u64) -> Due {
        let waits = self.acked && self.resent < self.defer;
        if self.resent >= self.retries && !waits {
            return Due::End;
        }
        // An ACK has come: the peer is reminded of it only at the end of the wait.
        let resend = self.defer == 0 || !self.acked || self.resent >= self.defer - 1;
        self.resent += 1;
        self.due = now + self.wait();
        match resend {
            true => Due::SynAck,
            false => Due::Nothing,
        }
    }

    /// Makes the connection from the ACK that completes the handshake, and passes it that segment
    /// (`tcp_v4_syn_recv_sock`, `tcp_child_process`).
    pub fn accept(
        &self,
        now: u64,
        config: &Arc<Config>,
        settings: &Arc<Settings>,
        path: Path,
        header: &Header,
        data: &[u8],
    ) -> (Connection, Answer) {
        let mut c = self.connection(now, config, settings, path);
        if self.resent == 0 && !self.cookie {
            c.handshake_rtt(now, self.sent_at);
        }
        // The SYN-ACK (`tcp_rcv_state_process`).
        c.delivery.count = 1;
        let answer = c.segment(now, header, data);
        (c, answer)
    }

    /// The connection before the ACK.
    fn connection(
        &self,
        now: u64,
        config: &Arc<Config>,
        settings: &Arc<Settings>,
        path: Path,
    ) -> Connection {
        let mut c = Connection::new(
            now,
            Opening {
                config: config.clone(),
                settings: settings.clone(),
                path,
                isn: self.isn,
                timestamp_offset: self.ts_offset,
                fast_open: None,
            },
        );
        c.state = State::SynReceived;
        c.nxt = self.isn.wrapping_add(1);
        c.una = c.nxt;
        c.sml = c.nxt;
        c.fack = c.nxt;
        c.high_seq = c.nxt;
        c.cwnd_usage_seq = c.nxt;
        c.irs = self.irs;
        c.rcv_nxt = self.irs.wrapping_add(1);
        c.rcv_wup = c.rcv_nxt;
        c.copied = c.rcv_nxt;
        c.rcv_wnd = self.window;
        c.rcv_ssthresh = self.window;
        c.sack_ok = self.sack;
        c.scaling_ok = self.scaling;
        c.snd_scale = self.snd_scale;
        c.rcv_scale = self.rcv_scale;
        c.timestamps_ok = self.timestamps;
        c.ts_recent = self.ts_recent;
        c.ts_recent_at = now;
        if self.timestamps {
            c.advmss = c.advmss.saturating_sub(12);
        }
        if !self.scaling {
            c.window_clamp = c.window_clamp.min(65535);
        }
        if self.ecn {
            c.ecn = ecn::OK;
        }
        c.mss_clamp = c.mss_clamp.min(self.mss).max(48);
        c.retransmits = self.resent;
        c.sync_mss();
        c
    }
}

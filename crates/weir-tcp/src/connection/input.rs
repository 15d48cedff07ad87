// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments that arrive: whether they are acceptable, and what they do to the state (`tcp_rcv_state_process`,
//! `tcp_validate_incoming`; RFC 9293, 3.10.7; RFC 5961).

use super::ack::Acked;
use super::receive::DELAY_MAX;
use super::{Answer, Connection, Counter, Events, MAX_QUICK, State, ecn, pending};
use crate::error;
use crate::fast_open::Learned;
use crate::header::{ACK, CWR, ECE, FIN, Header, RST, SYN};
use crate::sent::LOST;
use crate::seq::{after, before};
use crate::time::SECOND;

/// How long a timestamp counts (RFC 7323, 5.5).
const TIMESTAMP_LIFE: u64 = 24 * 24 * 3600 * SECOND;

impl Connection {
    /// Takes a segment with `data` at the time `now`. Its checksum is right, and its addresses and ports are those of
    /// the connection. Call [`Connection::poll`] afterwards.
    pub fn segment(&mut self, now: u64, header: &Header, data: &[u8]) -> Answer {
        self.totals.segs_in = self.totals.segs_in.wrapping_add(1);
        match self.state {
            State::Closed => {
                return if header.has(RST) {
                    Answer::None
                } else {
                    Answer::Reset
                };
            }
            State::SynSent => return self.in_syn_sent(now, header, data),
            State::TimeWait => return self.in_time_wait(now, header, data),
            _ => {}
        }
        if self.passive && header.flags & (SYN | ACK | RST) == SYN && header.seq == self.irs {
            // The client did not get the SYN-ACK (`tcp_check_req`).
            if !self.limited(now, header, 0) {
                self.pending |= pending::HEAD;
            }
            return Answer::None;
        }
        if !self.validate(now, header, data.len()) || !header.has(ACK) {
            return Answer::None;
        }
        match self.acknowledge(now, header, data.len()) {
            Acked::Ok => {
                if self.passive && self.una != self.iss {
                    self.complete(now, header);
                }
            }
            Acked::Old | Acked::Unsent if self.state == State::SynReceived => return Answer::Reset,
            Acked::Old => return Answer::None,
            Acked::Unsent => {
                if self.state != State::Established {
                    self.challenge(now);
                }
                return Answer::None;
            }
        }
        if self.state != State::Established
            && let Some(answer) = self.advance_state(now, header, data.len())
        {
            return answer;
        }
        self.note_timestamp(now, header);
        if header.has(SYN) {
            // It repeats the peer's SYN.
            self.count(Counter::DelayedAckLost);
            self.report_duplicate(header.seq, header.seq.wrapping_add(1));
            self.enter_quick_ack(MAX_QUICK);
            self.pending |= pending::ACK;
            return Answer::None;
        }
        if !data.is_empty() || header.has(FIN) {
            self.data(now, header, data);
            self.schedule_ack(now);
        }
        Answer::None
    }

    /// The ACK of a SYN-ACK whose connection already carries data (`tcp_rcv_synrecv_state_fastopen`).
    fn complete(&mut self, now: u64, header: &Header) {
        self.passive = false;
        self.retransmits = 0;
        self.retrans_stamp = 0;
        self.wnd = u32::from(header.window) << self.snd_scale;
        self.wl1 = header.seq;
        self.max_wnd = self.max_wnd.max(self.wnd);
        self.sync_mss();
        self.update_pacing_rate();
        self.first_pacing_rate();
        if self.state == State::SynReceived {
            self.state = State::Established;
            self.events |= Events::WRITABLE;
        }
        self.arm_keepalive(now);
        self.rearm_retransmit(now);
    }

    /// What an acceptable ACK does outside ESTABLISHED. Returns an answer if the segment ends here.
    fn advance_state(&mut self, now: u64, header: &Header, length: usize) -> Option<Answer> {
        let all_acked = self.una == self.write_seq();
        match self.state {
            State::SynReceived => {
                self.wnd = u32::from(header.window) << self.snd_scale;
                self.wl1 = header.seq;
                self.max_wnd = self.max_wnd.max(self.wnd);
                self.state = State::Established;
                self.establish(now);
                if self.fin_queued {
                    self.state = State::FinWait1;
                }
            }
            State::FinWait1 if all_acked => {
                self.state = State::FinWait2;
                self.shut_send = true;
                if self.orphan {
                    if self.brings_new(header, length) {
                        self.count(Counter::AbortOnData);
                        self.finish(error::ECONNRESET);
                        return Some(Answer::Reset);
                    }
                    self.arm_fin_wait(now);
                } else {
                    self.events |= Events::WRITABLE;
                }
            }
            State::Closing if all_acked => {
                self.time_wait(now);
                return Some(Answer::None);
            }
            State::LastAck if all_acked => {
                self.ended_well = true;
                self.finish(0);
                return Some(Answer::None);
            }
            _ => {}
        }
        match self.state {
            // The peer has sent its FIN: nothing can follow.
            State::CloseWait | State::Closing | State::LastAck
                if !before(header.seq, self.rcv_nxt) =>
            {
                Some(Answer::None)
            }
            // Data after the FIN, or for a program that reads no more.
            State::CloseWait
            | State::Closing
            | State::LastAck
            | State::FinWait1
            | State::FinWait2
                if self.shut_receive && self.brings_new(header, length) =>
            {
                self.count(Counter::AbortOnData);
                self.finish(error::ECONNRESET);
                Some(Answer::Reset)
            }
            _ => None,
        }
    }

    /// The segment has data that were not received yet.
    fn brings_new(&self, header: &Header, length: usize) -> bool {
        length > 0 && after(header.seq.wrapping_add(length as u32), self.rcv_nxt)
    }

    /// The handshake is complete (`tcp_init_transfer`).
    pub(crate) fn establish(&mut self, now: u64) {
        let initial = match self.path.initial_cwnd {
            0 => self.config.initial_cwnd,
            cwnd => cwnd,
        };
        self.window.cwnd = if self.retransmits > 1 { 1 } else { initial };
        self.retransmits = 0;
        self.cwnd_stamp = now;
        self.last_sent = now;
        self.last_ack = now;
        self.ack.last_data = now;
        self.high_seq = self.nxt;
        self.initialize_buffers(now);
        self.sync_mss();
        self.initialize_rcv_mss();
        self.begin_with_metrics();
        self.update_pacing_rate();
        self.first_pacing_rate();
        self.arm_keepalive(now);
        self.events |= Events::ESTABLISHED | Events::WRITABLE;
    }

    fn in_syn_sent(&mut self, now: u64, header: &Header, data: &[u8]) -> Answer {
        if header.has(ACK) {
            if !after(header.ack, self.una) || after(header.ack, self.nxt) {
                return if header.has(RST) {
                    Answer::None
                } else {
                    Answer::Reset
                };
            }
            if let Some((_, echo)) = header.options.timestamps
                && self.config.timestamps
                && echo != 0
                && after(echo, self.timestamp(now))
            {
                return if header.has(RST) {
                    Answer::None
                } else {
                    Answer::Reset
                };
            }
            if header.has(RST) {
                self.finish(error::ECONNREFUSED);
                return Answer::None;
            }
            if !header.has(SYN) {
                return Answer::None;
            }
            if self.ecn & ecn::OK != 0 && header.flags & (ECE | CWR) != ECE {
                self.ecn = 0;
            }
            self.wl1 = header.seq;
            self.peer_syn(now, header);
            let resent = self.retransmits;
            let delivered = self.delivery.count;
            self.acknowledge(now, header, 0);
            let unacknowledged = self.learn(header, delivered);
            self.retransmits = resent;
            self.wnd = u32::from(header.window);
            self.max_wnd = self.wnd;
            self.state = State::Established;
            self.establish(now);
            self.wnd = u32::from(header.window);
            // Data in a SYN-ACK.
            if !data.is_empty() || header.has(FIN) {
                let rest = Header {
                    seq: header.seq.wrapping_add(1),
                    flags: header.flags & !SYN,
                    ..*header
                };
                self.data(now, &rest, data);
            }
            let waits = std::mem::take(&mut self.writer) || self.ack.pingpong;
            if waits && !unacknowledged {
                // The data that the program sends next acknowledge it (`tcp_rcv_synsent_state_process`).
                self.pending |= pending::ACK_LATER;
                self.enter_quick_ack(MAX_QUICK);
                self.ack.deadline = now.saturating_add(DELAY_MAX);
            } else if !unacknowledged {
                self.pending |= pending::ACK;
            }
            return Answer::None;
        }
        if header.has(RST) || !header.has(SYN) {
            return Answer::None;
        }
        // Both ends open at once.
        self.state = State::SynReceived;
        self.fast_open = None;
        if self.ecn & ecn::OK != 0 && header.flags & (ECE | CWR) != ECE | CWR {
            self.ecn = 0;
        }
        self.peer_syn(now, header);
        self.wnd = u32::from(header.window);
        self.wl1 = header.seq;
        self.max_wnd = self.wnd;
        self.sync_mss();
        self.initialize_rcv_mss();
        self.pending |= pending::SYN;
        Answer::None
    }

    /// What a SYN-ACK says about Fast Open (`tcp_rcv_fastopen_synack`). Returns whether data of the SYN are left, which are
    /// sent again at once.
    fn learn(&mut self, header: &Header, delivered: u32) -> bool {
        let Some(client) = self.fast_open.take() else {
            return false;
        };
        // A cookie that was not asked for is not kept.
        let cookie = header
            .options
            .fast_open
            .filter(|open| open.length > 0 && client.option.is_some());
        let left = !self.sent.is_empty();
        let resent = self.totals.retrans > 0;
        let data = self.nxt != self.iss.wrapping_add(1);
        self.learned = Some(Box::new(Learned {
            cookie,
            mss: header.options.mss.unwrap_or(536),
            dropped: resent && cookie.is_none() && left,
            ignored: client
                .option
                .filter(|open| !resent && cookie.is_none() && !data && open.length == 0)
                .map(|open| open.experimental),
        }));
        if left {
            for index in 0..self.sent.len() {
                self.sent.mark(index, LOST, 0);
            }
            self.count(Counter::FastOpenActiveFail);
            return true;
        }
        if data {
            self.syn_data = true;
            self.count(Counter::FastOpenActive);
            // SYN and data were one segment.
            if self.delivery.count.wrapping_sub(delivered) > 1 {
                self.delivery.count = self.delivery.count.wrapping_sub(1);
            }
        }
        false
    }

    /// Takes the peer's sequence number and its options.
    fn peer_syn(&mut self, now: u64, header: &Header) {
        let options = &header.options;
        self.irs = header.seq;
        self.rcv_nxt = header.seq.wrapping_add(1);
        self.rcv_wup = self.rcv_nxt;
        self.copied = self.rcv_nxt;
        self.sack_ok = self.config.sack && options.sack_permitted;
        match options.window_scale.filter(|_| self.config.window_scaling) {
            Some(scale) => {
                self.scaling_ok = true;
                self.snd_scale = scale;
            }
            None => {
                self.snd_scale = 0;
                self.rcv_scale = 0;
                self.window_clamp = self.window_clamp.min(65535);
            }
        }
        if let Some((value, _)) = options.timestamps.filter(|_| self.config.timestamps) {
            self.timestamps_ok = true;
            self.ts_recent = value;
            self.ts_recent_at = now;
            self.advmss = self.advmss.saturating_sub(12);
        }
        self.mss_clamp = self.mss_clamp.min(options.mss.unwrap_or(536)).max(48);
    }

    /// Old segments while the connection waits for its [`crate::TimeWait`] to be made.
    fn in_time_wait(&mut self, now: u64, header: &Header, data: &[u8]) -> Answer {
        if header.has(RST) {
            return Answer::None;
        }
        let length = header.sequence_length(data.len());
        if length > 0 || header.seq != self.rcv_nxt {
            self.pending |= pending::ACK;
            if header.has(FIN) {
                self.keep_at = now.saturating_add(crate::time::TIME_WAIT);
            }
        }
        Answer::None
    }

    /// Whether an answer to a segment out of the window must wait (`tcp_oow_rate_limited`).
    pub(crate) fn limited(&mut self, now: u64, header: &Header, length: usize) -> bool {
        if length > 0 && !header.has(SYN) {
            return false;
        }
        if self.last_oow != 0 && now.saturating_sub(self.last_oow) < self.config.invalid_ratelimit {
            return true;
        }
        self.last_oow = now.max(1);
        false
    }

    /// Sends a challenge ACK (RFC 5961).
    pub(crate) fn challenge(&mut self, now: u64) {
        if self.last_oow != 0 && now.saturating_sub(self.last_oow) < self.config.invalid_ratelimit {
            return;
        }
        self.last_oow = now.max(1);
        self.count(Counter::ChallengeAck);
        self.pending |= pending::ACK;
    }

    /// Checks timestamp, sequence number, RST and SYN. Returns whether the segment goes on.
    fn validate(&mut self, now: u64, header: &Header, length: usize) -> bool {
        let end = header.seq.wrapping_add(header.sequence_length(length));
        if self.timestamps_ok
            && let Some((value, _)) = header.options.timestamps
            && !header.has(RST)
            && self.timestamp_is_old(now, value)
            && !self.is_reordered_ack(header, length, value)
        {
            self.count(Counter::PawsEstab);
            if !self.limited(now, header, length) {
                self.duplicate_ack(header.seq, end);
            }
            return false;
        }
        let window_end = self.rcv_nxt.wrapping_add(self.receive_window());
        if before(end, self.rcv_wup) || after(header.seq, window_end) {
            if header.has(RST) {
                // The FIN that was received counts as the place of a reset, too.
                if self.is_reset_after_fin(header) {
                    self.reset_by_peer();
                }
            } else if header.has(SYN) {
                self.count(Counter::SynChallenge);
                self.challenge(now);
            } else if !self.limited(now, header, length) {
                self.duplicate_ack(header.seq, end);
            }
            return false;
        }
        if header.has(RST) {
            let exact = header.seq == self.rcv_nxt
                || self.is_reset_after_fin(header)
                || self
                    .early
                    .as_ref()
                    .and_then(|early| early.newest_end())
                    .is_some_and(|newest| newest == header.seq);
            if exact {
                self.reset_by_peer();
            } else {
                self.challenge(now);
            }
            return false;
        }
        if header.has(SYN) && self.completes_crossing(header, length) {
            return true;
        }
        if header.has(SYN) {
            // A SYN-ACK that was sent again because the ACK was lost is answered alike.
            self.count(Counter::SynChallenge);
            self.challenge(now);
            return false;
        }
        true
    }

    /// A SYN-ACK after the peer's SYN: both ends have opened at once, and it answers this end's SYN.
    fn completes_crossing(&self, header: &Header, length: usize) -> bool {
        self.state == State::SynReceived
            && !self.passive
            && header.has(ACK)
            && header.sequence_length(length) == 1
            && header.seq.wrapping_add(1) == self.rcv_nxt
            && header.ack == self.nxt
    }

    fn is_reset_after_fin(&self, header: &Header) -> bool {
        header.seq == self.rcv_nxt.wrapping_sub(1)
            && matches!(
                self.state,
                State::CloseWait | State::LastAck | State::Closing
            )
    }

    /// The peer has reset the connection (`tcp_reset`).
    fn reset_by_peer(&mut self) {
        let error = match self.state {
            State::CloseWait => error::EPIPE,
            _ => error::ECONNRESET,
        };
        self.finish(error);
    }

    /// PAWS (RFC 7323, 5).
    fn timestamp_is_old(&self, now: u64, value: u32) -> bool {
        self.ts_recent != 0
            && before(value, self.ts_recent)
            && now.saturating_sub(self.ts_recent_at) < TIMESTAMP_LIFE
    }

    /// A pure ACK that was overtaken by others passes PAWS (`tcp_disordered_ack`).
    fn is_reordered_ack(&self, header: &Header, length: usize, value: u32) -> bool {
        header.has(ACK)
            && length == 0
            && header.sequence_length(0) == 0
            && header.seq == self.rcv_nxt
            && header.ack == self.una
            && u32::from(header.window) << self.snd_scale == self.wnd
            && self.ts_recent.wrapping_sub(value)
                <= (self.rtt.rto() / 1_000_000) as u32 * 1200 / 1000
    }

    /// Notes the peer's timestamp if the segment begins where the last ACK ended (RFC 7323, 4.3).
    fn note_timestamp(&mut self, now: u64, header: &Header) {
        if self.timestamps_ok
            && let Some((value, _)) = header.options.timestamps
            && !after(header.seq, self.rcv_wup)
            && (!before(value, self.ts_recent)
                || now.saturating_sub(self.ts_recent_at) >= TIMESTAMP_LIFE)
        {
            self.ts_recent = value;
            self.ts_recent_at = now;
        }
    }

    /// Answers old data at once, and reports them as a duplicate (`tcp_send_dupack`).
    pub(crate) fn duplicate_ack(&mut self, seq: u32, end: u32) {
        if end != seq && before(seq, self.rcv_nxt) {
            self.count(Counter::DelayedAckLost);
            self.enter_quick_ack(MAX_QUICK);
            if self.sack_ok && self.config.dsack {
                let high = if after(end, self.rcv_nxt) {
                    self.rcv_nxt
                } else {
                    end
                };
                self.report_duplicate(seq, high);
            }
        }
        self.pending |= pending::ACK;
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receiving: reassembly (`tcp_data_queue`), delayed acknowledgements (`__tcp_ack_snd_check`), the window that is
//! advertised (`__tcp_select_window`) and the growth of the receive buffer (`tcp_rcv_space_adjust`).

use super::{
    Connection, Counter, DELAY_MIN, Events, MAX_QUICK, NEVER, RELEASE, State, ecn, pending,
};
use crate::early::Inserted;
use crate::header::{CWR, FIN, Header};
use crate::seq::{after, before, between};
use crate::time::MS;

/// The longest (`TCP_DELACK_MAX`).
pub(crate) const DELAY_MAX: u64 = 200 * MS;

impl Connection {
    /// How much of the advertised window is left, in bytes.
    pub(crate) fn receive_window(&self) -> u32 {
        let window = self
            .rcv_wup
            .wrapping_add(self.rcv_wnd)
            .wrapping_sub(self.rcv_nxt);
        if (window as i32) < 0 { 0 } else { window }
    }

    /// The window that the whole buffer allows.
    fn full_space(&self) -> u32 {
        self.config.window_from_space(self.rcvbuf)
    }

    /// The window that the free part of the buffer allows.
    fn free_space(&self) -> u32 {
        self.full_space().saturating_sub(self.receive.len())
    }

    /// Takes data and a FIN (`tcp_data_queue`).
    pub(crate) fn data(&mut self, now: u64, header: &Header, data: &[u8]) {
        if self.ecn & ecn::OK != 0 && header.has(CWR) {
            self.ecn &= !ecn::DEMAND_CWR;
            if !data.is_empty() {
                self.pending |= pending::ACK;
            }
        }
        if !data.is_empty() {
            self.totals.data_segs_in = self.totals.data_segs_in.wrapping_add(1);
        }
        let mut seq = header.seq;
        let mut data = data;
        let mut fin = header.has(FIN);
        let end = seq
            .wrapping_add(data.len() as u32)
            .wrapping_add(u32::from(fin));
        self.pending |= pending::ACK_LATER;
        if !after(end, self.rcv_nxt) {
            // All of it was received before.
            self.count(Counter::DelayedAckLost);
            self.enter_quick_ack(MAX_QUICK);
            self.report_duplicate(seq, end);
            self.pending |= pending::ACK;
            return;
        }
        let window = self.receive_window();
        let limit = self.rcv_nxt.wrapping_add(window);
        if !(before(seq, limit) || fin && data.is_empty() && seq == self.rcv_nxt) {
            self.count(Counter::ZeroWindowDrop);
            self.enter_quick_ack(MAX_QUICK);
            self.pending |= pending::ACK;
            return;
        }
        if before(seq, self.rcv_nxt) {
            self.report_duplicate(seq, self.rcv_nxt);
            let old = self.rcv_nxt.wrapping_sub(seq) as usize;
            data = data.get(old..).unwrap_or(&[]);
            seq = self.rcv_nxt;
        }
        let room = limit.wrapping_sub(seq) as usize;
        if data.len() > room {
            data = &data[..room];
            fin = false;
        }
        if seq == self.rcv_nxt {
            self.in_order(now, header, data, fin);
        } else {
            self.out_of_order(now, header, seq, data, fin);
        }
    }

    fn in_order(&mut self, now: u64, header: &Header, data: &[u8], fin: bool) {
        let length = data.len() as u32;
        if length > 0 {
            let offset = self.receive.len();
            self.receive.write(offset, data);
            self.receive.advance(length);
            self.totals.bytes_received += u64::from(length);
            self.rcv_nxt = self.rcv_nxt.wrapping_add(length);
            self.data_received(now, header, data.len());
            self.events |= Events::READABLE;
            self.release_at = NEVER;
        }
        if let Some(early) = &mut self.early {
            let had = !early.is_empty();
            let next = early.advance(self.rcv_nxt);
            let more = next.wrapping_sub(self.rcv_nxt);
            let fin_reached = early.fin.is_some_and(|at| !after(at, next));
            let left = !early.is_empty() && !fin_reached;
            if early.is_empty() || fin_reached {
                self.early = None;
            }
            if more > 0 {
                self.receive.advance(more);
                self.rcv_nxt = next;
                self.totals.bytes_received += u64::from(more);
            }
            if had && !left {
                // The hole is filled: the sender learns it at once.
                self.ack.pingpong = false;
                self.pending |= pending::ACK;
            } else if left {
                self.pending |= pending::ACK;
            }
            if fin_reached {
                self.fin(now);
                return;
            }
        }
        if fin {
            self.fin(now);
        }
    }

    fn out_of_order(&mut self, now: u64, header: &Header, seq: u32, data: &[u8], fin: bool) {
        self.count(Counter::OfoQueue);
        self.totals.early = self.totals.early.wrapping_add(1);
        let end = seq.wrapping_add(data.len() as u32);
        let early = self.early.get_or_insert_default();
        if fin {
            early.fin = Some(end);
        }
        if !data.is_empty() {
            match early.insert(seq, end) {
                Some(Inserted::New) => {
                    let offset = self
                        .receive
                        .len()
                        .wrapping_add(seq.wrapping_sub(self.rcv_nxt));
                    self.receive.write(offset, data);
                    self.data_received(now, header, data.len());
                    self.release_at = NEVER;
                }
                Some(Inserted::Duplicate) => self.report_duplicate(seq, end),
                None => {}
            }
        }
        if !self.saves_ack(now) {
            self.pending |= pending::ACK;
        }
    }

    /// Whether the ACK of early data is saved: after three for the same hole, the next ones wait for a twentieth of a round
    /// trip, and one stands for all (`__tcp_ack_snd_check`).
    fn saves_ack(&mut self, now: u64) -> bool {
        if !self.sack_ok
            || self.ack.quick > 0 && !self.ack.pingpong
            || self.dsack.is_some()
            || self.ack.saved >= self.config.comp_sack_count
        {
            return false;
        }
        if self.ack.hole != self.rcv_nxt {
            self.ack.hole = self.rcv_nxt;
            self.ack.duplicates = 0;
        }
        if self.ack.duplicates < 3 {
            self.ack.duplicates += 1;
            return false;
        }
        self.ack.saved += 1;
        if self.ack.saved_until == 0 {
            let mut rtt8 = self.tuning.rtt8;
            if self.rtt.srtt8 != 0 {
                rtt8 = rtt8.min(self.rtt.srtt8);
            }
            let wait = (u64::from(rtt8) * (1000 >> 3) / 20).min(self.config.comp_sack_delay);
            self.ack.saved_until = now.saturating_add(wait).max(1);
        }
        true
    }

    /// The peer has sent all (`tcp_fin`).
    fn fin(&mut self, now: u64) {
        self.rcv_nxt = self.rcv_nxt.wrapping_add(1);
        self.shut_receive = true;
        self.events |= Events::PEER_CLOSED | Events::READABLE;
        self.early = None;
        self.receive.forget_early();
        match self.state {
            State::SynReceived | State::Established => {
                self.state = State::CloseWait;
                self.ack.pingpong = true;
            }
            State::FinWait1 => {
                self.pending |= pending::ACK;
                self.state = State::Closing;
            }
            State::FinWait2 => {
                self.time_wait(now);
                self.pending |= pending::ACK;
            }
            _ => {}
        }
    }

    /// Remembers a duplicate for the next ACK (RFC 2883).
    pub(crate) fn report_duplicate(&mut self, start: u32, end: u32) {
        if !self.sack_ok || !self.config.dsack {
            return;
        }
        if before(start, self.rcv_nxt) {
            self.count(Counter::DsackOldSent);
        } else {
            self.count(Counter::DsackOfoSent);
        }
        self.dsack = Some((start, end));
    }

    /// The next ACKs are sent at once.
    pub(crate) fn enter_quick_ack(&mut self, most: u8) {
        self.quicken(most);
        self.ack.pingpong = false;
        self.ack.ato = DELAY_MIN;
    }

    fn quicken(&mut self, most: u8) {
        let mss = u32::from(self.ack.mss).max(1);
        let count = (self.rcv_wnd / (2 * mss)).max(2).min(u32::from(most)) as u8;
        self.ack.quick = self.ack.quick.max(count);
    }

    /// Follows the rhythm of data (`tcp_event_data_recv`).
    fn data_received(&mut self, now: u64, header: &Header, length: usize) {
        self.measure_mss(length);
        self.measure_rtt(now);
        if self.ack.ato == 0 {
            self.quicken(MAX_QUICK);
            self.ack.ato = DELAY_MIN;
        } else {
            let gap = now.saturating_sub(self.ack.last_data);
            if gap <= DELAY_MIN / 2 {
                self.ack.ato = self.ack.ato / 2 + DELAY_MIN / 2;
            } else if gap < self.ack.ato {
                self.ack.ato = (self.ack.ato / 2 + gap).min(self.rtt.rto());
            } else if gap > self.rtt.rto() {
                // The sender pauses: it may have to restart slowly.
                self.quicken(MAX_QUICK);
            }
        }
        self.ack.last_data = now;
        if self.ecn & ecn::OK != 0 {
            if header.congested {
                if self.ecn & ecn::DEMAND_CWR == 0 {
                    self.enter_quick_ack(2);
                    self.ecn |= ecn::DEMAND_CWR;
                }
                self.ecn |= ecn::SEEN;
            } else if header.ecn_capable {
                self.ecn |= ecn::SEEN;
            } else if self.ecn & ecn::SEEN != 0 {
                self.enter_quick_ack(2);
            }
        }
        if length >= 128 {
            self.grow_window(length);
        }
    }

    /// Estimates the peer's segment size (`tcp_measure_rcv_mss`). Larger pieces were joined by GRO.
    fn measure_mss(&mut self, length: usize) {
        let length = length.min(usize::from(self.advmss)) as u16;
        if length >= self.ack.mss {
            self.ack.mss = length;
        } else if length >= 536 {
            // Twice the same smaller length: the path's MTU has shrunk.
            if length == self.ack.last_segment {
                self.ack.mss = length;
            }
            self.ack.last_segment = length;
        }
    }

    pub(crate) fn initialize_rcv_mss(&mut self) {
        let hint = self.advmss.min(self.mss);
        let hint = u32::from(hint).min(self.rcv_wnd / 2).clamp(88, 536);
        self.ack.mss = hint as u16;
    }

    /// Measures the round-trip time at the receiver (`tcp_rcv_rtt_measure`).
    fn measure_rtt(&mut self, now: u64) {
        let tuning = &mut self.tuning;
        if self.timestamps_ok {
            if self.ts_echo != tuning.rtt_echo {
                tuning.rtt_echo = self.ts_echo;
                let clock = ((now / MS) as u32).wrapping_add(self.ts_offset);
                let ms = clock.wrapping_sub(self.ts_echo);
                if ms < 1 << 20 {
                    Self::update_rtt(&mut tuning.rtt8, (ms * 1000).max(1), false);
                }
            }
            return;
        }
        if tuning.rtt_time != 0 && before(self.rcv_nxt, tuning.rtt_seq) {
            return;
        }
        if tuning.rtt_time != 0 {
            let us = (now.saturating_sub(tuning.rtt_time) / 1000).clamp(1, 1 << 27) as u32;
            Self::update_rtt(&mut tuning.rtt8, us, true);
        }
        tuning.rtt_seq = self.rcv_nxt.wrapping_add(self.rcv_wnd);
        tuning.rtt_time = now.max(1);
    }

    fn update_rtt(rtt8: &mut u32, us: u32, by_window: bool) {
        let sample = us << 3;
        if *rtt8 == 0 {
            *rtt8 = sample;
        } else if by_window {
            *rtt8 = (*rtt8).min(sample);
        } else {
            *rtt8 = *rtt8 - (*rtt8 >> 3) + us;
        }
    }

    fn grow_window(&mut self, length: usize) {
        let room = self
            .window_clamp
            .min(self.free_space())
            .saturating_sub(self.rcv_ssthresh);
        if room == 0 {
            return;
        }
        let step = (2 * u32::from(self.advmss)).max(2 * length as u32);
        self.rcv_ssthresh += room.min(step);
    }

    /// Buffers at the start of a connection (`tcp_init_buffer_space`).
    pub(crate) fn initialize_buffers(&mut self, now: u64) {
        if self.settings.send_buffer.is_none() {
            self.expand_send_buffer();
        }
        let space = self.full_space();
        let advmss = u32::from(self.advmss);
        self.tuning.space = self.rcv_ssthresh.min(self.rcv_wnd).min(10 * advmss);
        self.tuning.seq = self.copied;
        self.tuning.time = now;
        if self.window_clamp >= space {
            self.window_clamp = space;
        }
        self.rcv_ssthresh = self.rcv_ssthresh.min(self.window_clamp);
    }

    /// The program has read `count` bytes of [`Connection::received`]: the window opens.
    pub fn consume(&mut self, now: u64, count: usize) {
        let count = (count as u32).min(self.receive.len());
        if count == 0 {
            return;
        }
        self.receive.consume(count);
        self.copied = self.copied.wrapping_add(count);
        self.adjust_space(now);
        self.window_may_open();
        if self.receive.capacity() > 0 {
            self.release_at = now.saturating_add(RELEASE);
        }
    }

    /// Grows the buffer with what was read in a round trip (`tcp_rcv_space_adjust`).
    fn adjust_space(&mut self, now: u64) {
        let tuning = self.tuning;
        let elapsed = now.saturating_sub(tuning.time) / 1000;
        if tuning.rtt8 == 0 || elapsed < u64::from(tuning.rtt8 >> 3) {
            return;
        }
        let copied = self.copied.wrapping_sub(tuning.seq);
        if copied > tuning.space {
            if self.config.moderate_rcvbuf && self.settings.receive_buffer.is_none() {
                let advmss = u64::from(self.advmss);
                let mut window = 2 * u64::from(copied) + 16 * advmss;
                // A round trip of hours lets a program read gigabytes in it.
                let grow = window.saturating_mul(u64::from(copied - tuning.space))
                    / u64::from(tuning.space.max(1));
                window = window
                    .saturating_add(grow.saturating_mul(2))
                    .min(u64::from(u32::MAX / 2));
                let buffer = self
                    .config
                    .space_from_window(window as u32)
                    .min(self.config.rmem[2]);
                if buffer > self.rcvbuf {
                    self.rcvbuf = buffer;
                    self.window_clamp = self.full_space();
                }
            }
            self.tuning.space = copied;
        }
        self.tuning.seq = self.copied;
        self.tuning.time = now;
    }

    /// Sends an ACK if reading has opened the window much (`tcp_cleanup_rbuf`).
    fn window_may_open(&mut self) {
        if !matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        ) {
            return;
        }
        if self.pending & pending::ACK_LATER != 0
            && (self.rcv_nxt.wrapping_sub(self.rcv_wup) > u32::from(self.ack.mss)
                || self.receive.is_empty() && self.ack.quick > 0 && !self.ack.pingpong)
        {
            self.pending |= pending::ACK;
            return;
        }
        if self.shut_receive {
            return;
        }
        let now = self.receive_window();
        if 2 * u64::from(now) <= u64::from(self.window_clamp) {
            let new = self.window_to_offer();
            if new > 0 && u64::from(new) >= 2 * u64::from(now) {
                self.pending |= pending::ACK;
            }
        }
    }

    /// Decides when to acknowledge (`__tcp_ack_snd_check`).
    pub(crate) fn schedule_ack(&mut self, now: u64) {
        if self.pending & pending::ACK != 0 || self.pending & pending::ACK_LATER == 0 {
            return;
        }
        let unacked = self.rcv_nxt.wrapping_sub(self.rcv_wup);
        if unacked > u32::from(self.ack.mss)
            && (self.receive.len() < self.settings.receive_low
                || self.window_to_offer() >= self.rcv_wnd)
            || self.ack.quick > 0 && !self.ack.pingpong
        {
            self.pending |= pending::ACK;
            return;
        }
        if self.early.as_ref().is_some_and(|early| early.has_data()) {
            self.pending |= pending::ACK;
            return;
        }
        let mut ato = self.ack.ato;
        if ato > DELAY_MIN {
            let mut most = DELAY_MAX * 5 / 2;
            if self.ack.pingpong {
                most = DELAY_MAX;
            }
            if self.rtt.srtt8 > 0 {
                most = most.min(self.rtt.srtt().max(DELAY_MIN));
            }
            ato = ato.min(most);
        }
        if ato == 0 {
            // No data have come yet: the timer expires at once.
            self.pending |= pending::ACK;
            return;
        }
        let at = now.saturating_add(ato);
        if self.ack.deadline != NEVER {
            if self.ack.deadline <= now.saturating_add(ato / 4) {
                self.pending |= pending::ACK;
                return;
            }
            self.ack.deadline = self.ack.deadline.min(at);
        } else {
            self.ack.deadline = at;
        }
    }

    /// The window to offer (`__tcp_select_window`), with Clark's avoidance of silly windows.
    pub(crate) fn window_to_offer(&self) -> u32 {
        let full = self.window_clamp.min(self.full_space());
        let mss = u32::from(self.ack.mss).min(full);
        if mss == 0 {
            return 0;
        }
        let mut free = self.free_space();
        let scale = self.rcv_scale;
        if free < full / 2 {
            free = free >> scale << scale;
            if free < self.full_space() >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(self.rcv_ssthresh);
        if scale > 0 {
            free.next_multiple_of(1 << scale)
        } else {
            let window = self.rcv_wnd;
            if window <= free.saturating_sub(mss) || window > free {
                free - free % mss
            } else if mss == full && free > window + full / 2 {
                free
            } else {
                window
            }
        }
    }

    /// Chooses the window of a segment (`tcp_select_window`): returns the field of the header.
    pub(crate) fn select_window(&mut self) -> u16 {
        let old = self.rcv_wnd;
        let current = self.receive_window();
        let mut new = self.window_to_offer();
        if new < current {
            // A window never shrinks.
            new = current.next_multiple_of(1 << self.rcv_scale);
        }
        let most = if self.rcv_scale == 0 && self.config.workaround_signed_windows {
            32767
        } else {
            65535 << self.rcv_scale
        };
        new = new.min(most);
        self.rcv_wnd = new;
        self.rcv_wup = self.rcv_nxt;
        let field = new >> self.rcv_scale;
        if field == 0 && old > 0 {
            self.count(Counter::ToZeroWindow);
        } else if field > 0 && old == 0 {
            self.count(Counter::FromZeroWindow);
        }
        field as u16
    }

    /// Whether a sequence number is within the window: for resets.
    pub fn in_window(&self, seq: u32) -> bool {
        between(
            seq,
            self.rcv_nxt,
            self.rcv_nxt.wrapping_add(self.receive_window()),
        )
    }
}

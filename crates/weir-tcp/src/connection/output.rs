// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`, `tcp_send_ack`): what may go, and in which pieces.

use super::{AckState, Connection, Counter, NEVER, Phase, State, Timer, ecn, pending};
use crate::buffer::copy_from;
use crate::congestion::Congestion;
use crate::header::{ACK, CWR, ECE, FIN, Header, Output, PSH, RST, SYN, Segment};
use crate::options::{LONGEST, MD5, Options};
use crate::sent::{EVER_RETRANS, LOST, PUSHED, RETRANS, SACKED, SYN as SENT_SYN, Sent};
use crate::seq::{after, before, later};

/// Nothing, or one packet beyond the window, may be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Normal,
    /// Small segments go, too.
    Push,
    /// One packet in any case: a tail loss probe.
    Probe,
}

/// A segment of an established connection.
struct Piece {
    seq: u32,
    flags: u8,
    /// Where its data begin in the send buffer.
    offset: u32,
    length: u32,
    mss: u16,
    /// It was sent before.
    again: bool,
}

impl Piece {
    /// A segment without data.
    fn control(seq: u32, mss: u16) -> Self {
        Self {
            seq,
            flags: 0,
            offset: 0,
            length: 0,
            mss,
            again: false,
        }
    }
}

/// What a program says of data that it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// More will follow, so a short segment waits for it (`MSG_MORE`).
    pub more: bool,
    /// A record ends here, and no segment goes beyond (`MSG_EOR`).
    pub ends: bool,
}

impl Connection {
    /// Queues data to send. Returns how many bytes there was room for; 0 also once nothing more may be sent.
    pub fn send(&mut self, now: u64, data: &[u8]) -> usize {
        self.send_with(now, data.len(), Part::default(), &mut copy_from(data))
    }

    /// As [`send`](Self::send) of `want` bytes, which `fill` writes in their place. It gets as much room as there is, in
    /// two parts, and returns how many bytes it has written. Without room it is not called. `part` counts if all bytes
    /// find room.
    pub fn send_with(
        &mut self,
        now: u64,
        want: usize,
        part: Part,
        fill: &mut dyn FnMut([&mut [u8]; 2]) -> usize,
    ) -> usize {
        if !self.may_send() {
            return 0;
        }
        let most = want.min(self.send_room());
        let mut count = 0;
        if most > 0 {
            self.idle_check(now);
            count = fill(self.send.space(most as u32)).min(most);
            self.send.advance(count as u32);
        }
        if count > 0 {
            let part = if count == want { part } else { Part::default() };
            let end = self.data_end();
            self.release_at = NEVER;
            self.more = part.more;
            if !part.more {
                self.pushed = end;
            }
            if part.ends {
                self.records.get_or_insert_default().push_back(end);
            }
        }
        if most < want {
            self.no_space = true;
        }
        count
    }

    /// Sends what Nagle's algorithm or a cork holds back (`TCP_NODELAY` set again).
    pub fn push(&mut self) {
        self.pending |= pending::PUSH;
    }

    /// Sends what may be sent at the time `now`.
    pub fn poll(&mut self, now: u64, output: &mut impl Output) {
        if self.is_deferred() {
            return;
        }
        let work = self.pending;
        match self.state {
            State::Closed => {
                if work & pending::RESET != 0 {
                    self.send_reset(now, output);
                }
                self.pending = 0;
                return;
            }
            State::TimeWait => {
                if work & pending::ACK != 0 {
                    self.send_ack(now, output, self.nxt);
                }
                self.pending = 0;
                return;
            }
            _ => {}
        }
        if work & pending::SYN != 0 {
            self.pending &= !(pending::SYN | pending::ACK);
            self.send_syn(now, output);
        }
        if self.state == State::SynSent || self.state == State::SynReceived && !self.passive {
            if work & pending::HEAD != 0 {
                self.pending &= !pending::HEAD;
                self.resend(now, output, 0);
            } else if self.pending & pending::ACK != 0 && self.state == State::SynReceived {
                self.send_ack(now, output, self.nxt);
            }
            return;
        }
        self.pending &= pending::ACK | pending::ACK_LATER;
        if work & pending::HEAD != 0 {
            self.resend_front(now, output);
        }
        if work & pending::TAIL != 0 {
            self.send_loss_probe(now, output);
        }
        if work & pending::NEW_ONLY == 0 && self.sent.lost > self.sent.retrans {
            self.resend_lost(now, output);
        }
        let mode = if work & pending::PUSH != 0 {
            Mode::Push
        } else {
            Mode::Normal
        };
        self.send_new(now, output, mode);
        if work & pending::PROBE != 0 {
            self.send_window_probe(now, output);
        }
        if work & pending::KEEP != 0 {
            self.send_probe(now, output);
        }
        if self.pending & pending::ACK != 0 {
            let seq = self.acceptable_seq();
            self.send_ack(now, output, seq);
        }
        if self.timer == Timer::None && self.sent.is_empty() && before(self.nxt, self.write_seq()) {
            self.arm_window_probe(now);
        }
    }

    /// Returns whether [`Connection::poll`] has anything to do: a cheap test.
    pub fn wants_poll(&self) -> bool {
        self.pending & !pending::ACK_LATER != 0
            || self.nxt != self.write_seq()
            || self.sent.lost > self.sent.retrans
    }

    /// The MSS for the path's MTU, the peer's limit and half its window (`tcp_sync_mss`).
    pub(crate) fn sync_mss(&mut self) {
        let headers = u32::from(self.path.ip_header) + 20;
        let mut mss = self.path.mtu.saturating_sub(headers).min(65535);
        mss = mss.min(u32::from(self.mss_clamp)).max(48);
        if self.timestamps_ok {
            mss = mss.saturating_sub(12);
        }
        if self.settings.signed {
            mss = mss.saturating_sub(MD5 as u32);
        }
        let limit = if self.max_wnd > 536 {
            self.max_wnd >> 1
        } else {
            self.max_wnd
        };
        if limit > 0 && mss > limit {
            mss = limit.max(48);
        }
        self.mss = mss.max(36) as u16;
    }

    /// A sequence number that the peer accepts (`tcp_acceptable_seq`).
    fn acceptable_seq(&self) -> u32 {
        let end = self.wnd_end();
        if before(end, self.nxt) && after(self.nxt, end.wrapping_add(1 << self.snd_scale)) {
            end
        } else {
            self.nxt
        }
    }

    /// The options of a segment of an established connection.
    fn options(&self, now: u64) -> Options {
        let mut options = Options {
            md5: self.signature(),
            ..Options::default()
        };
        if self.timestamps_ok {
            options.timestamps = Some((self.timestamp(now), self.ts_recent));
        }
        let room = self.block_room();
        if let Some(block) = self.dsack.filter(|_| room > 0) {
            options.sack[0] = block;
            options.sack_count = 1;
        }
        if self.sack_ok
            && let Some(early) = &self.early
        {
            early.blocks(&mut options, room);
        }
        options
    }

    /// Room for the signature, if segments are signed.
    fn signature(&self) -> Option<[u8; 16]> {
        self.settings.signed.then_some([0; 16])
    }

    /// How many SACK blocks fit beside the other options.
    fn block_room(&self) -> usize {
        match (self.settings.signed, self.timestamps_ok) {
            (false, false) => 4,
            (false, true) => 3,
            (true, false) => 2,
            (true, true) => 0,
        }
    }

    /// Fills in what all segments have, and sends one.
    fn emit(&mut self, now: u64, output: &mut impl Output, piece: Piece) {
        let Piece {
            seq,
            mut flags,
            offset,
            length,
            mss,
            again,
        } = piece;
        let options = self.options(now);
        self.dsack = None;
        let window = self.select_window();
        if length > u32::from(mss) {
            // A receiver's GRO passes a burst on at once (`__tcp_transmit_skb`).
            flags |= PSH;
        }
        let mut ecn_capable = false;
        if self.ecn & ecn::OK != 0 {
            if self.ecn & ecn::DEMAND_CWR != 0 {
                flags |= ECE;
            }
            if length > 0 && !again {
                ecn_capable = true;
                if self.ecn & ecn::QUEUE_CWR != 0 {
                    self.ecn &= !ecn::QUEUE_CWR;
                    flags |= CWR;
                }
            }
        }
        let segment = Segment {
            header: Header {
                seq,
                ack: self.rcv_nxt,
                flags: flags | ACK,
                window,
                options,
                ..Header::default()
            },
            data: self.send.slices(offset, length),
            mss,
            ecn_capable,
        };
        output.send(&segment);
        let packets = length.div_ceil(u32::from(mss).max(1)).max(1);
        self.ack_sent(packets);
        self.totals.segs_out = self.totals.segs_out.wrapping_add(packets);
        if length > 0 {
            self.totals.data_segs_out = self.totals.data_segs_out.wrapping_add(packets);
            self.totals.bytes_sent += u64::from(length);
            if again {
                self.totals.bytes_retrans += u64::from(length);
            }
            // Data right after data: the program answers, so ACKs can ride along.
            if now.saturating_sub(self.ack.last_data) < self.ack.ato {
                self.ack.pingpong = true;
            }
            self.last_sent = now;
        }
    }

    /// A segment with an ACK was sent.
    fn ack_sent(&mut self, packets: u32) {
        self.pending &= !(pending::ACK | pending::ACK_LATER);
        if self.ack.quick > 0 {
            let left = u32::from(self.ack.quick).saturating_sub(packets);
            self.ack.quick = left as u8;
            if left == 0 {
                self.ack.ato = super::DELAY_MIN;
            }
        }
        if self.ack.saved > 0 {
            self.count(Counter::AckCompressed);
        }
        self.ack = AckState {
            deadline: NEVER,
            saved: 0,
            saved_until: 0,
            ..self.ack
        };
    }

    fn send_ack(&mut self, now: u64, output: &mut impl Output, seq: u32) {
        self.emit(now, output, Piece::control(seq, self.mss));
    }

    fn send_reset(&mut self, now: u64, output: &mut impl Output) {
        let mut options = Options {
            md5: self.signature(),
            ..Options::default()
        };
        if self.timestamps_ok {
            options.timestamps = Some((self.timestamp(now), self.ts_recent));
        }
        let window = self.select_window();
        output.send(&Segment {
            header: Header {
                seq: self.acceptable_seq(),
                ack: self.rcv_nxt,
                flags: RST | ACK,
                window,
                options,
                ..Header::default()
            },
            data: [&[], &[]],
            mss: self.mss,
            ecn_capable: false,
        });
        self.totals.segs_out = self.totals.segs_out.wrapping_add(1);
    }

    /// The SYN, or the SYN-ACK of a simultaneous open.
    fn send_syn(&mut self, now: u64, output: &mut impl Output) {
        let answer = self.state != State::SynSent;
        if self.sent.is_empty() {
            let stamp = self.stamp(now);
            self.nxt = self.iss.wrapping_add(1);
            self.sent.push(Sent {
                seq: self.iss,
                end: self.nxt,
                time: now,
                delivered: stamp.delivered,
                mss: self.mss,
                flags: SENT_SYN,
                app_limited: false,
                delivered_time: stamp.delivered_time,
                first_time: stamp.first_time,
            });
            self.high_seq = self.nxt;
            if self.config.ecn == 1 || self.path.ecn {
                self.ecn |= ecn::OK;
            }
            self.rearm_retransmit(now);
            self.add_syn_data(now);
        }
        self.emit_syn(now, output, answer, false);
    }

    /// The data of a SYN of Fast Open are a packet of their own: if only the SYN is acknowledged, they are sent again
    /// (`tcp_send_syn_data`).
    fn add_syn_data(&mut self, now: u64) {
        if self.state != State::SynSent || self.fast_open.is_none() {
            return;
        }
        let room = self.syn_space();
        let length = self.send.len().min(room as u32);
        if length == 0 {
            return;
        }
        let stamp = self.stamp(now);
        let seq = self.nxt;
        self.nxt = seq.wrapping_add(length);
        self.sent.push(Sent {
            seq,
            end: self.nxt,
            time: now,
            delivered: stamp.delivered,
            mss: self.mss_clamp.clamp(1, self.path.mss()),
            flags: PUSHED,
            app_limited: false,
            delivered_time: stamp.delivered_time,
            first_time: stamp.first_time,
        });
        self.high_seq = self.nxt;
        self.totals.bytes_sent += u64::from(length);
        self.totals.data_segs_out = self.totals.data_segs_out.wrapping_add(1);
    }

    fn emit_syn(&mut self, now: u64, output: &mut impl Output, answer: bool, again: bool) {
        let mut flags = SYN;
        let mut data = 0;
        let mut options = Options {
            mss: Some(self.syn_mss()),
            md5: self.signature(),
            ..Options::default()
        };
        if answer {
            flags |= ACK;
            options.sack_permitted = self.sack_ok;
            if self.scaling_ok {
                options.window_scale = Some(self.rcv_scale);
            }
            if self.timestamps_ok {
                options.timestamps = Some((self.timestamp(now), self.ts_recent));
            }
            if self.ecn & ecn::OK != 0 {
                flags |= ECE;
            }
            if !again {
                options.fast_open = self.syn_ack_cookie.take().map(|cookie| *cookie);
            }
            self.ack_sent(1);
            self.rcv_wup = self.rcv_nxt;
        } else {
            options.sack_permitted = self.config.sack;
            if self.config.window_scaling {
                options.window_scale = Some(self.rcv_scale);
            }
            if let Some(client) = self.fast_open.as_ref().filter(|_| !again) {
                options.fast_open = client.option;
                data = self.nxt.wrapping_sub(self.iss.wrapping_add(1));
            }
            // With a signature there is no room for both.
            if self.config.timestamps && !self.settings.signed {
                options.timestamps = Some((self.timestamp(now), 0));
            }
            if self.ecn & ecn::OK != 0 {
                if again && self.config.ecn_fallback {
                    self.ecn = 0;
                } else {
                    flags |= ECE | CWR;
                }
            }
        }
        if options.length() > LONGEST {
            options.fast_open = None;
        }
        output.send(&Segment {
            header: Header {
                seq: self.iss,
                ack: if answer { self.rcv_nxt } else { 0 },
                flags,
                window: self.rcv_wnd.min(65535) as u16,
                options,
                ..Header::default()
            },
            data: self.send.slices(0, data),
            mss: u16::MAX,
            ecn_capable: false,
        });
        self.totals.segs_out = self.totals.segs_out.wrapping_add(1);
    }

    /// The MSS that a SYN advertises: without the room that timestamps take.
    fn syn_mss(&self) -> u16 {
        let mss = self.path.mss();
        match self.settings.max_segment {
            0 => mss,
            most => mss.min(most),
        }
    }

    // --- new data ---

    fn send_new(&mut self, now: u64, output: &mut impl Output, mode: Mode) -> bool {
        let before_packets = self.sent.packets;
        let mut sent_any = false;
        let mut limited = false;
        let write_seq = self.write_seq();
        // SACK blocks take room from the data.
        let mss = self.current_mss();
        while before(self.nxt, write_seq) {
            if self.paced(now) {
                break;
            }
            let flight = self.flight();
            let mut quota = self.window.cwnd.saturating_sub(flight);
            if quota == 0 {
                if mode == Mode::Probe && !sent_any {
                    quota = 1;
                } else {
                    limited = true;
                    break;
                }
            } else {
                quota = quota.min((self.window.cwnd >> 1).max(1));
            }
            let Some((length, fin)) = self.next_piece(quota, mss, mode) else {
                break;
            };
            self.send_piece(now, output, length, fin, mss);
            sent_any = true;
            if mode == Mode::Probe {
                break;
            }
        }
        if sent_any {
            if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
                self.prr_out += self.sent.packets.saturating_sub(before_packets);
            }
            limited |= self.flight() >= self.window.cwnd;
            if mode != Mode::Probe {
                self.schedule_loss_probe(now, false);
            }
            self.validate_window(now, limited);
        }
        if !before(self.nxt, write_seq) && self.sent.in_flight() < self.window.cwnd {
            // Nothing more to send: rates from now on say little about the path.
            let mark = self.delivery.count.wrapping_add(self.sent.in_flight());
            self.delivery.app_limited = mark.max(1);
        }
        sent_any
    }

    /// Packets in the network, without the SYN-ACK of an early connection: Linux does not count it either.
    fn flight(&self) -> u32 {
        self.sent.in_flight().saturating_sub(self.early_syn_ack())
    }

    /// 1 while the SYN-ACK of an early connection is not acknowledged.
    pub(crate) fn early_syn_ack(&self) -> u32 {
        u32::from(self.passive && self.una == self.iss && !self.sent.is_empty())
    }

    /// The end of the first record that ends after a sequence number.
    fn record_after(&self, seq: u32) -> Option<u32> {
        let mut records = self.records.iter().flat_map(|records| records.iter());
        records.find(|end| after(**end, seq)).copied()
    }

    /// How much goes into the next segment, and whether the FIN goes along.
    fn next_piece(&self, quota: u32, mss: u16, mode: Mode) -> Option<(u32, bool)> {
        let all = self.data_end().wrapping_sub(self.nxt);
        let record = self.record_after(self.nxt);
        let unsent = record.map_or(all, |end| all.min(end.wrapping_sub(self.nxt)));
        // A record with data behind it waits for nothing.
        let mode = if unsent < all && mode == Mode::Normal {
            Mode::Push
        } else {
            mode
        };
        let mss = u32::from(mss);
        let window = self.wnd_end().wrapping_sub(self.nxt);
        let window = if (window as i32) < 0 { 0 } else { window };
        if unsent == 0 {
            // A FIN alone: the window does not hold it back.
            return Some((0, true));
        }
        let fin_queued = self.fin_queued && unsent == all;
        let first = unsent.min(mss);
        if first > window {
            return None;
        }
        let most = self.burst(mss) / mss * mss;
        let mut length = unsent
            .min(quota.saturating_mul(mss))
            .min(most.max(mss))
            .min(window);
        if length < unsent || length > mss {
            // Whole segments, unless these are the last data.
            let part = length % mss;
            if part != 0
                && length > mss
                && (length < unsent || self.holds_back(mode, length > part))
            {
                length -= part;
            } else if part != 0 && length < unsent {
                // The window ends within a segment.
                if length < mss {
                    return None;
                }
            }
        }
        if length < mss && self.holds_back(mode, false) && !(fin_queued && length == unsent) {
            return None;
        }
        Some((length, fin_queued && length == unsent))
    }

    /// Nagle's algorithm with Minshall's change, and the cork (`tcp_nagle_check`).
    fn holds_back(&self, mode: Mode, after_others: bool) -> bool {
        if mode != Mode::Normal || self.fin_queued {
            return false;
        }
        if self.settings.cork || self.more {
            return true;
        }
        if self.settings.nodelay {
            return false;
        }
        let small_out = after(self.sml, self.una) && !after(self.sml, self.nxt);
        (self.sent.packets > 0 || after_others) && small_out
    }

    /// The most data of one TSO-sized segment (`tcp_tso_autosize`).
    fn burst(&self, mss: u32) -> u32 {
        // Each segment has a signature of its own.
        if self.settings.signed {
            return mss;
        }
        let headers = u32::from(self.path.ip_header) + 60;
        let most = self.path.gso.min(65535).saturating_sub(headers);
        if most <= mss {
            return mss;
        }
        let rate = (self.pacing_rate >> 10).min(u64::from(most)) as u32;
        let by_rtt = match self.rtt.min >> self.config.tso_rtt_log.min(31) {
            shift @ 0..32 => most >> shift,
            _ => 0,
        };
        let bytes = rate.saturating_add(by_rtt).min(most);
        bytes.max(mss * self.config.min_tso_segs.max(1)).min(most)
    }

    fn send_piece(&mut self, now: u64, output: &mut impl Output, length: u32, fin: bool, mss: u16) {
        let stamp = self.stamp(now);
        let seq = self.nxt;
        let end = seq.wrapping_add(length).wrapping_add(u32::from(fin));
        let offset = seq.wrapping_sub(self.base);
        let mut flags = 0;
        if fin {
            flags |= FIN;
        }
        let last = seq.wrapping_add(length) == self.data_end() && self.pushed == self.data_end();
        // No segment goes beyond the first record.
        let record = self.record_after(seq) == Some(seq.wrapping_add(length));
        let forced = after(end, self.sml.wrapping_add(self.max_wnd >> 1));
        if length > 0 && (last || record || forced) {
            flags |= PSH;
        }
        if fin && length == 0 {
            flags &= !PSH;
        }
        let first = self.sent.packets == 0;
        self.nxt = end;
        if let Some(records) = &mut self.records {
            while records.front().is_some_and(|at| !after(*at, end)) {
                records.pop_front();
            }
        }
        self.sent.push(Sent {
            seq,
            end,
            time: now,
            delivered: stamp.delivered,
            mss,
            flags: if flags & PSH != 0 { PUSHED } else { 0 },
            app_limited: stamp.app_limited,
            delivered_time: stamp.delivered_time,
            first_time: stamp.first_time,
        });
        if !length.is_multiple_of(u32::from(mss)) {
            self.sml = end;
        }
        let piece = Piece {
            seq,
            flags,
            offset,
            length,
            mss,
            again: false,
        };
        self.emit(now, output, piece);
        if first || self.timer == Timer::LossProbe {
            self.rearm_retransmit(now);
        }
        self.pace(now, length);
    }

    fn current_mss(&self) -> u16 {
        let blocks = match &self.early {
            Some(early) if self.sack_ok && early.has_data() => {
                let mut options = Options::default();
                early.blocks(&mut options, self.block_room());
                match options.sack_count {
                    0 => 0,
                    count => 4 + 8 * u16::from(count),
                }
            }
            _ => 0,
        };
        let dsack = if self.dsack.is_some() && blocks == 0 && self.block_room() > 0 {
            12
        } else {
            0
        };
        self.mss.saturating_sub(blocks + dsack).max(8)
    }

    fn paced(&self, now: u64) -> bool {
        self.needs_pacing() && self.pacing_at > now
    }

    /// Segments leave one after the other at the pacing rate: with `SO_MAX_PACING_RATE`, for BBR, and where the device's
    /// qdisc is `fq` (`sk_pacing_status`).
    pub(crate) fn needs_pacing(&self) -> bool {
        self.settings.max_pacing_rate != u64::MAX || self.congestion.decides() || self.path.paced
    }

    fn pace(&mut self, now: u64, length: u32) {
        let rate = self.pacing_rate;
        // The first segments leave as they are (`tcp_update_skb_after_send`).
        if !self.needs_pacing() || rate == 0 || rate == u64::MAX || self.totals.data_segs_out < 10 {
            return;
        }
        let wait = u64::from(length) * 1_000_000_000 / rate;
        // A late timer does not make the flow slower.
        let start = now.max(self.paced_to);
        let credit = start - self.paced_to;
        self.paced_to = start + wait - credit.min(wait / 2);
        self.pacing_at = self.paced_to;
    }

    /// Notes how much of the window was used (`tcp_cwnd_validate`).
    fn validate_window(&mut self, now: u64, limited: bool) {
        if !before(self.una, self.cwnd_usage_seq)
            || limited
            || !self.cwnd_limited && self.sent.packets > self.max_packets_out
        {
            self.cwnd_limited = limited;
            self.max_packets_out = self.sent.packets;
            self.cwnd_usage_seq = self.nxt;
        }
        let used = self.cwnd_limited
            || self.window.in_slow_start() && self.window.cwnd < 2 * self.max_packets_out;
        if used {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
        } else {
            self.cwnd_used = self.cwnd_used.max(self.sent.packets);
            if self.config.slow_start_after_idle
                && !self.congestion.decides()
                && now.saturating_sub(self.cwnd_stamp) >= self.rtt.rto()
            {
                self.application_limited(now);
            }
        }
    }

    /// The program does not fill the window: it decays (RFC 2861, `tcp_cwnd_application_limited`).
    fn application_limited(&mut self, now: u64) {
        if self.phase == Phase::Open {
            let used = self.cwnd_used.max(self.config.initial_cwnd);
            if used < self.window.cwnd {
                let cwnd = self.window.cwnd;
                self.window.ssthresh = self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2));
                self.window.cwnd = (cwnd + used) >> 1;
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp = now;
    }

    /// Slow start after a pause (`tcp_slow_start_after_idle_check`).
    pub(crate) fn idle_check(&mut self, now: u64) {
        if self.sent.packets > 0 || self.nxt != self.data_end() || self.state == State::SynSent {
            return;
        }
        self.congestion.resumed(now, self.last_sent);
        if let Congestion::Bbr(bbr) = &mut self.congestion
            && let Some(rate) = bbr.resumed(now, self.delivery.app_limited != 0)
        {
            self.pacing_rate = rate.min(self.settings.max_pacing_rate);
        }
        let mut idle = now.saturating_sub(self.last_sent);
        if !self.config.slow_start_after_idle || self.congestion.decides() || idle <= self.rtt.rto()
        {
            return;
        }
        let cwnd = self.window.cwnd;
        let restart = self.config.initial_cwnd.min(cwnd);
        let mut new = cwnd;
        self.window.ssthresh = self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2));
        let rto = self.rtt.rto();
        while idle > rto && new > restart {
            new >>= 1;
            idle -= rto;
        }
        self.window.cwnd = new.max(restart);
        self.cwnd_stamp = now;
        self.cwnd_used = 0;
    }

    // --- retransmission ---

    /// Sends the oldest packet again, whatever the window says: after a time-out.
    fn resend_front(&mut self, now: u64, output: &mut impl Output) {
        if let Some(&front) = self.sent.front() {
            if front.packets() > 1 {
                self.sent
                    .split(0, front.seq.wrapping_add(u32::from(front.mss)));
            }
            self.resend(now, output, 0);
        }
    }

    /// Sends what is lost again, as far as the window allows (`tcp_xmit_retransmit_queue`).
    fn resend_lost(&mut self, now: u64, output: &mut impl Output) {
        let mut index = 0;
        while let Some(&entry) = self.sent.get(index) {
            if self.sent.lost <= self.sent.retrans {
                break;
            }
            if !entry.is(LOST) || entry.is(SACKED | RETRANS) {
                index += 1;
                continue;
            }
            let quota = self.window.cwnd.saturating_sub(self.sent.in_flight());
            if quota == 0 || self.paced(now) {
                break;
            }
            if entry.seq != self.una && !before(entry.seq, self.wnd_end()) {
                break;
            }
            let most = quota.min((self.burst(u32::from(entry.mss)) / u32::from(entry.mss)).max(1));
            if entry.packets() > most {
                let bytes = most * u32::from(entry.mss);
                self.sent.split(index, entry.seq.wrapping_add(bytes));
            }
            let packets = self.sent.get(index).map_or(0, Sent::packets);
            self.resend(now, output, index);
            if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
                self.prr_out += packets;
            }
            if index == 0 && self.timer != Timer::Reordering {
                self.rearm_retransmit(now);
            }
            index += 1;
        }
    }

    /// Sends an entry again.
    fn resend(&mut self, now: u64, output: &mut impl Output, index: usize) {
        let Some(&entry) = self.sent.get(index) else {
            return;
        };
        let stamp = self.stamp(now);
        self.totals.retrans = self.totals.retrans.wrapping_add(entry.packets());
        if self.retrans_stamp == 0 {
            self.retrans_stamp = now.max(1);
        }
        if self.undo_retrans < 0 {
            self.undo_retrans = 0;
        }
        self.undo_retrans += entry.packets() as i32;
        self.sent.sent_again(index, now, stamp);
        if entry.is(SENT_SYN) {
            let answer = self.state != State::SynSent;
            self.emit_syn(now, output, answer, true);
            return;
        }
        let start = later(entry.seq, self.base);
        let end = crate::seq::earlier(entry.end, self.data_end());
        let length = end.wrapping_sub(start);
        let length = if (length as i32) < 0 { 0 } else { length };
        let mut flags = 0;
        if self.fin_queued && entry.end == self.write_seq() {
            flags |= FIN;
        }
        if entry.is(PUSHED) && length > 0 {
            flags |= PSH;
        }
        let mss = entry.mss.min(self.mss.max(8));
        if mss < entry.mss {
            // The peer or the path takes smaller packets than when it was sent (`__tcp_retransmit_skb`).
            self.sent.resize(index, mss);
        }
        let piece = Piece {
            seq: start,
            flags,
            offset: start.wrapping_sub(self.base),
            length,
            mss,
            again: true,
        };
        self.emit(now, output, piece);
        self.pace(now, length);
    }

    /// A tail loss probe: new data if there are some, or the last packet again (`tcp_send_loss_probe`).
    fn send_loss_probe(&mut self, now: u64, output: &mut impl Output) {
        if self.tlp_high.is_some() || self.sent.is_empty() {
            self.rearm_retransmit(now);
            return;
        }
        self.tlp_retrans = false;
        let mut done = false;
        if before(self.nxt, self.write_seq()) {
            done = self.send_new(now, output, Mode::Probe);
        }
        if !done {
            let index = self.sent.len() - 1;
            let Some(&last) = self.sent.back() else {
                return;
            };
            if last.is(EVER_RETRANS) && last.is(RETRANS) {
                self.rearm_retransmit(now);
                return;
            }
            let mut index = index;
            if last.packets() > 1 {
                let whole = (last.packets() - 1) * u32::from(last.mss);
                if self.sent.split(index, last.seq.wrapping_add(whole)) {
                    index += 1;
                }
            }
            self.resend(now, output, index);
            self.tlp_retrans = true;
        }
        self.tlp_high = Some(self.nxt);
        self.count(Counter::LossProbes);
        self.timer = Timer::None;
        self.rearm_retransmit(now);
    }

    // --- probes ---

    /// Probes a closed window (`tcp_write_wakeup`).
    fn send_window_probe(&mut self, now: u64, output: &mut impl Output) {
        let window = self.wnd_end().wrapping_sub(self.nxt);
        let unsent = self.data_end().wrapping_sub(self.nxt);
        if (window as i32) > 0 && unsent > 0 && self.sent.is_empty() {
            // Less than a segment fits: silly, but it makes the peer talk.
            let length = window.min(unsent).min(u32::from(self.mss));
            self.send_piece(
                now,
                output,
                length,
                self.fin_queued && length == unsent,
                self.mss,
            );
            return;
        }
        self.send_probe(now, output);
        self.count(Counter::WindowProbe);
    }

    /// An ACK with a sequence number that the peer has: it answers (`tcp_xmit_probe_skb`).
    fn send_probe(&mut self, now: u64, output: &mut impl Output) {
        let piece = Piece::control(self.una.wrapping_sub(1), self.mss);
        self.emit(now, output, piece);
    }
}

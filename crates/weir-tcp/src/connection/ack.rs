// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acknowledgements (`tcp_ack`): what left the network, samples of the round-trip time and of the delivery rate, the
//! growth of the window.

use super::{Connection, Counter, Events, NEVER, Phase, State, Timer, ecn};
use crate::congestion::bbr::Delivered;
use crate::congestion::{Congestion, INFINITE, Sample};
use crate::header::{ECE, Header, SYN};
use crate::sent::{LOST, RETRANS, SACKED, SYN as SENT_SYN, Sent, Stamp};
use crate::seq::{after, before, later};
use crate::time::MS;

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acked {
    Ok,
    /// So old that the segment is dropped.
    Old,
    /// Of data that were not sent.
    Unsent,
}

/// What an acknowledgement told (`FLAG_*`, `struct tcp_sacktag_state`, `struct rate_sample`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub advanced: bool,
    pub data_acked: bool,
    pub syn_acked: bool,
    pub data_sacked: bool,
    pub retrans_acked: bool,
    pub orig_sacked: bool,
    pub window_update: bool,
    pub ece: bool,
    pub dsack: bool,
    pub lost_retrans: bool,
    pub carries_data: bool,
    pub set_timer: bool,
    /// The lowest sequence number acknowledged after a higher one.
    pub reord: Option<u32>,
    pub first_sacked: u64,
    pub last_sacked: u64,
    pub prior_una: u32,
    pub prior_flight: u32,
    /// A sample of the round-trip time in microseconds.
    pub rtt: Option<u32>,
    /// Packets and microseconds of the sample of the delivery rate.
    pub rate: Option<(u32, u32)>,
    pub delivered: u32,
    pub lost: u32,
    // The packet of the rate sample.
    pub sample: Option<Sent>,
}

impl Round {
    /// Neither new data nor a new window: possibly a duplicate.
    pub fn is_not_duplicate(&self) -> bool {
        self.carries_data || self.window_update || self.data_acked || self.syn_acked
    }
}

impl Connection {
    pub(crate) fn acknowledge(&mut self, now: u64, header: &Header, length: usize) -> Acked {
        // `MSG_MORE` holds data back until something happens.
        self.more = false;
        let ack = header.ack;
        let prior_una = self.una;
        let mut round = Round {
            prior_una,
            prior_flight: self.sent.in_flight(),
            ..Round::default()
        };
        let prior_delivered = self.delivery.count;
        let prior_ce = self.delivery.count_ce;
        if after(ack, self.nxt) {
            return Acked::Unsent;
        }
        if let Some((_, echo)) = header.options.timestamps.filter(|_| self.timestamps_ok) {
            self.ts_echo = echo;
        } else {
            self.ts_echo = 0;
        }
        if before(ack, prior_una) {
            if before(ack, prior_una.wrapping_sub(self.max_wnd)) {
                // Blind injection (RFC 5961, 5.2).
                self.challenge(now);
                return Acked::Old;
            }
            if header.options.sack_count > 0 && self.sack_ok {
                self.tag_sacked(now, header, &mut round);
                self.judge(now, &mut round, ack, false);
                round.delivered = self.delivery.count.wrapping_sub(prior_delivered);
                self.after_recovery(&mut round);
            }
            return Acked::Ok;
        }
        round.advanced = after(ack, prior_una);
        round.carries_data = length > 0;
        if round.advanced {
            self.retransmits = if self.state == State::SynSent {
                self.retransmits
            } else {
                0
            };
            self.soft_error = 0;
        }
        self.update_window(header, ack, &mut round);
        let prior_packets = self.sent.packets;
        let prior_fack = if self.sent.sacked > 0 && self.sack_ok {
            self.fack
        } else {
            prior_una
        };
        if self.sack_ok && header.options.sack_count > 0 {
            self.tag_sacked(now, header, &mut round);
        }
        if header.has(ECE) && !header.has(SYN) && self.ecn & ecn::OK != 0 {
            round.ece = true;
        }
        self.probes = 0;
        self.probe_start = 0;
        self.last_ack = now;
        if prior_packets == 0 {
            self.una = ack;
            self.fack = later(self.fack, ack);
            if round.dsack {
                self.judge(now, &mut round, ack, false);
            }
            self.ack_probe(now);
            return Acked::Ok;
        }
        self.clean(now, ack, prior_fack, &mut round);
        if round.ece {
            let fresh = self.delivery.count.wrapping_sub(prior_delivered);
            self.delivery.count_ce = prior_ce.wrapping_add(fresh);
        }
        self.update_reordering_window();
        if self.tlp_high.is_some() {
            self.process_tlp(&round, ack);
        }
        let dubious = !(round.is_not_duplicate())
            || round.data_sacked
            || round.ece
            || self.phase != Phase::Open;
        if dubious {
            let duplicate = !round.advanced && !round.is_not_duplicate();
            self.judge(now, &mut round, ack, duplicate);
        }
        if round.set_timer {
            self.set_transmit_timer(now);
        }
        round.delivered = self.delivery.count.wrapping_sub(prior_delivered);
        self.rate(&mut round);
        self.control(now, &round, ack);
        self.free_space_event();
        Acked::Ok
    }

    fn update_window(&mut self, header: &Header, ack: u32, round: &mut Round) {
        let mut window = u32::from(header.window);
        if !header.has(SYN) {
            window <<= self.snd_scale;
        }
        if after(ack, self.una)
            || after(header.seq, self.wl1)
            || header.seq == self.wl1 && (window > self.wnd || window == 0)
        {
            round.window_update = true;
            self.wl1 = header.seq;
            if self.wnd != window {
                self.wnd = window;
                if window > self.max_wnd {
                    self.max_wnd = window;
                    self.sync_mss();
                }
            } else {
                round.window_update = false;
            }
        }
        // A window that did not change is no news, but a first ACK of new data is (`FLAG_WIN_UPDATE`).
        if round.advanced {
            round.window_update = true;
        }
    }

    /// Removes what is acknowledged (`tcp_clean_rtx_queue`).
    fn clean(&mut self, now: u64, ack: u32, prior_fack: u32, round: &mut Round) {
        let mut first: Option<u64> = None;
        let mut last = 0;
        let mut reord = prior_fack;
        let mut acked = 0;
        while let Some(&entry) = self.sent.front() {
            let part = if after(entry.end, ack) {
                if !after(ack, entry.seq) {
                    break;
                }
                self.sent.cut(ack)
            } else {
                self.sent.pop()
            };
            let Some(part) = part else { break };
            let packets = part.packets();
            acked += packets;
            if part.is(RETRANS) {
                round.retrans_acked = true;
            } else if !part.is(SACKED) {
                last = part.time;
                first.get_or_insert(part.time);
                if before(part.seq, reord) {
                    reord = part.seq;
                }
                if !after(part.end, self.high_seq) {
                    round.orig_sacked = true;
                }
            }
            if !part.is(SACKED) {
                if self.sack_ok {
                    self.delivery.count = self.delivery.count.wrapping_add(packets);
                    self.advance_rack(now, &part);
                }
                self.note_delivered(&part, round);
            }
            if part.is(SENT_SYN) {
                round.syn_acked = true;
                self.retrans_stamp = 0;
            } else {
                round.data_acked = true;
            }
            if after(entry.end, ack) {
                break;
            }
        }
        self.una = ack;
        self.fack = later(self.fack, ack);
        let data = crate::seq::earlier(ack, self.data_end()).wrapping_sub(self.base);
        if (data as i32) > 0 {
            self.send.consume(data);
            self.base = self.base.wrapping_add(data);
        }
        self.totals.bytes_acked += u64::from(ack.wrapping_sub(round.prior_una));
        if acked > 0 || first.is_some() {
            self.finish_clean(now, acked, first, last, reord, prior_fack, round);
        } else if self.sack_ok && round.first_sacked != 0 {
            // Only SACK blocks: they give samples, too.
            self.take_rtt(now, None, None, round);
        }
        if self.sent.is_empty() {
            self.timer = Timer::None;
            self.timer_at = NEVER;
            // After a handshake there are no buffers to free later.
            match self.memory() {
                0 => self.sent.release(),
                _ => self.release_at = now.saturating_add(super::RELEASE),
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one step of the above, apart for its length"
    )]
    fn finish_clean(
        &mut self,
        now: u64,
        acked: u32,
        first: Option<u64>,
        last: u64,
        reord: u32,
        prior_fack: u32,
        round: &mut Round,
    ) {
        round.set_timer = true;
        let rtt = first.filter(|_| !round.retrans_acked);
        self.take_rtt(now, rtt, rtt.map(|_| last), round);
        if self.sack_ok {
            if before(reord, prior_fack) {
                self.check_reordering(reord);
            }
        } else {
            // Without SACK duplicate ACKs are counted; what is acknowledged takes them along.
            self.delivery.count = self
                .delivery
                .count
                .wrapping_add(acked.saturating_sub(self.sent.sacked));
            self.sent.sacked = if acked > 1 {
                self.sent.sacked.saturating_sub(acked - 1)
            } else {
                self.sent.sacked
            };
            self.limit_duplicates();
        }
    }

    /// Takes samples of the round-trip time (`tcp_ack_update_rtt`).
    fn take_rtt(&mut self, now: u64, first: Option<u64>, last: Option<u64>, round: &mut Round) {
        let us = |time: u64| (now.saturating_sub(time) / 1000).clamp(1, 1 << 27) as u32;
        let mut sample = first.map(us);
        let mut control = last.map(us);
        if round.first_sacked != 0 {
            sample = sample.or(Some(us(round.first_sacked)));
            control = control.or(Some(us(round.last_sacked)));
        }
        if sample.is_none() && self.ts_echo != 0 && (round.data_acked || round.syn_acked) {
            let ms = self.timestamp(now).wrapping_sub(self.ts_echo);
            if ms < 1 << 17 {
                let value = (ms * 1000).max((MS / 1000) as u32);
                sample = Some(value);
                control = control.or(Some(value));
            }
        }
        let Some(sample) = sample else { return };
        let control = control.unwrap_or(sample);
        round.rtt = Some(control);
        self.rtt.sample_min(control, now);
        self.rtt
            .sample(sample, self.una, self.nxt, self.config.rto_min);
        if matches!(self.phase, Phase::Open | Phase::Disorder) {
            let before = self.window.ssthresh;
            self.congestion.rtt(
                &mut self.window,
                &Sample {
                    now,
                    rtt: control,
                    una: self.una,
                    nxt: self.nxt,
                },
            );
            if before == INFINITE && self.window.ssthresh != INFINITE {
                self.count(Counter::Hystart);
            }
        }
    }

    /// The first round-trip time of the passive side, measured by the request.
    pub(crate) fn handshake_rtt(&mut self, now: u64, sent: u64) {
        let us = (now.saturating_sub(sent) / 1000).clamp(1, 1 << 27) as u32;
        self.rtt.sample_min(us, now);
        self.rtt.sample(us, self.una, self.nxt, self.config.rto_min);
    }

    /// The state of delivery for a packet that is sent now (`tcp_rate_skb_sent`).
    pub(crate) fn stamp(&mut self, now: u64) -> Stamp {
        if self.sent.packets == 0 {
            self.delivery.first_time = now;
            self.delivery.time = now;
        }
        Stamp {
            delivered: self.delivery.count,
            delivered_time: self.delivery.time,
            first_time: self.delivery.first_time,
            app_limited: self.delivery.app_limited != 0,
        }
    }

    /// A packet was delivered (`tcp_rate_skb_delivered`).
    pub(crate) fn note_delivered(&mut self, part: &Sent, round: &mut Round) {
        let newer = match &round.sample {
            None => true,
            Some(old) => part.time > old.time || part.time == old.time && after(part.end, old.end),
        };
        if newer {
            round.sample = Some(*part);
            self.delivery.first_time = part.time;
        }
    }

    /// The delivery rate (`tcp_rate_gen`).
    fn rate(&mut self, round: &mut Round) {
        let delivery = &mut self.delivery;
        if delivery.app_limited != 0 && after(delivery.count, delivery.app_limited) {
            delivery.app_limited = 0;
        }
        if round.delivered > 0 {
            delivery.time = self.last_ack;
        }
        let Some(sample) = round.sample else { return };
        let count = delivery.count.wrapping_sub(sample.delivered);
        let send = sample.time.saturating_sub(sample.first_time);
        let acked = self.last_ack.saturating_sub(sample.delivered_time);
        let us = (send.max(acked) / 1000) as u32;
        if us < self.rtt.min || us == 0 {
            return;
        }
        round.rate = Some((count, us));
        let better = u64::from(count) * u64::from(delivery.rate_us)
            >= u64::from(delivery.rate_count) * u64::from(us);
        if !sample.app_limited || better {
            delivery.rate_count = count;
            delivery.rate_us = us;
            delivery.rate_app_limited = sample.app_limited;
        }
    }

    /// The window after an acknowledgement (`tcp_cong_control`).
    fn control(&mut self, now: u64, round: &Round, ack: u32) {
        if self.congestion.decides() {
            self.let_decide(now, round, ack);
        } else if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            self.reduce_window(round.delivered, round.lost, round.advanced);
        } else {
            let may_raise = if self.reordering > self.config.reordering {
                round.data_acked || round.data_sacked
            } else {
                round.data_acked
            };
            if may_raise && round.delivered > 0 && self.is_cwnd_limited() {
                self.congestion
                    .acked(&mut self.window, round.delivered, now, ack, self.nxt);
                self.cwnd_stamp = now;
            }
        }
        if round.delivered > 0 && self.settings.send_buffer.is_none() {
            self.expand_send_buffer();
        }
        self.update_pacing_rate();
    }

    /// The algorithm sets window and rate.
    fn let_decide(&mut self, now: u64, round: &Round, ack: u32) {
        let advance = ack.wrapping_sub(round.prior_una);
        let figures = Delivered {
            now,
            sample: round.rate,
            prior: round.sample.map_or(0, |sample| sample.delivered),
            app_limited: round.sample.is_some_and(|sample| sample.app_limited),
            rtt: round.rtt,
            delayed: round.delivered == 1
                && advance < u32::from(self.mss)
                && !round.data_sacked
                && !round.syn_acked,
            acked: round.delivered,
            lost: round.lost,
            flight: (round.prior_flight, self.sent.in_flight()),
            total: self.delivery.count,
            time: self.delivery.time,
            phase: self.phase,
            mss: self.mss.into(),
            srtt: self.rtt.srtt8 >> 3,
            initial: self.config.initial_cwnd,
        };
        let Congestion::Bbr(bbr) = &mut self.congestion else {
            return;
        };
        let decision = bbr.acked(&mut self.window, &figures);
        if let Some(rate) = decision.rate {
            self.pacing_rate = rate.min(self.settings.max_pacing_rate);
        }
        if decision.limited {
            let mark = self.delivery.count.wrapping_add(self.sent.in_flight());
            self.delivery.app_limited = mark.max(1);
        }
        self.cwnd_stamp = now;
    }

    /// The rate before the first sample, of an algorithm that sets it itself.
    pub(crate) fn first_pacing_rate(&mut self) {
        if let Congestion::Bbr(bbr) = &mut self.congestion {
            let rate = bbr.first_rate(self.window.cwnd, self.rtt.srtt8 >> 3);
            self.pacing_rate = rate.min(self.settings.max_pacing_rate);
        }
    }

    fn after_recovery(&mut self, round: &mut Round) {
        if round.delivered > 0
            && matches!(self.phase, Phase::Cwr | Phase::Recovery)
            && !self.congestion.decides()
        {
            self.reduce_window(round.delivered, round.lost, false);
        }
    }

    /// Whether the window limits the flow (`tcp_is_cwnd_limited`).
    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            || self.window.in_slow_start() && self.window.cwnd < 2 * self.max_packets_out
    }

    /// How fast the flow would be paced (`tcp_update_pacing_rate`), in bytes per second.
    pub(crate) fn update_pacing_rate(&mut self) {
        if self.congestion.decides() {
            return;
        }
        let srtt_us = u64::from(self.rtt.srtt8 >> 3);
        let ratio = if self.window.cwnd < self.window.ssthresh / 2 {
            self.config.pacing_ss_ratio
        } else {
            self.config.pacing_ca_ratio
        };
        let packets = u64::from(self.window.cwnd.max(self.sent.packets));
        let rate = u64::from(self.mss) * packets * u64::from(ratio) * 10_000;
        self.pacing_rate = match srtt_us {
            0 => self.settings.max_pacing_rate,
            us => (rate / us).min(self.settings.max_pacing_rate),
        };
    }

    /// The send buffer grows with the window (`tcp_sndbuf_expand`).
    pub(crate) fn expand_send_buffer(&mut self) {
        let per =
            (u32::from(self.mss.max(self.mss_clamp.min(1460))) + 640).next_power_of_two() + 256;
        let packets = self
            .window
            .cwnd
            .max(10)
            .max(self.reordering.saturating_add(1));
        let times = if self.congestion.decides() { 3 } else { 2 };
        let wanted = u64::from(packets) * times * u64::from(per);
        if wanted > u64::from(self.sndbuf) {
            self.sndbuf = wanted.min(u64::from(self.config.wmem[2])) as u32;
        }
    }

    /// Tells a waiting program that there is room again.
    fn free_space_event(&mut self) {
        if self.no_space && self.is_writable() {
            self.no_space = false;
            self.events |= Events::WRITABLE;
        }
    }

    /// Without SACK the number of duplicates stays below that of packets.
    pub(crate) fn limit_duplicates(&mut self) {
        let holes = self.sent.lost.max(1).min(self.sent.packets);
        if self.sent.sacked + holes > self.sent.packets {
            self.sent.sacked = self.sent.packets - holes;
        }
    }

    /// Forgets loss marks: used where an estimate was wrong.
    pub(crate) fn unmark_lost(&mut self) {
        for index in 0..self.sent.len() {
            self.sent.mark(index, 0, LOST);
        }
    }
}

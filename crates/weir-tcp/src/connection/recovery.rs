// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loss recovery: RACK (RFC 8985), tail loss probes, PRR (RFC 6937), F-RTO (RFC 5682), undo by timestamps (RFC 3522) and
//! by DSACK (`tcp_fastretrans_alert`, `tcp_enter_loss`, `net/ipv4/tcp_recovery.c`).

use super::ack::Round;
use super::{Connection, Counter, NEVER, Phase, Timer, ecn, pending};
use crate::congestion::{Congestion, INFINITE};
use crate::sent::{EVER_RETRANS, LOST, RETRANS, SACKED, Sent};
use crate::seq::{after, before};

/// How many recoveries a wider reordering window lasts (`TCP_RACK_RECOVERY_THRESH`).
const PERSIST: u8 = 16;

impl Connection {
    // --- RACK ---

    /// A packet was delivered: it may be the newest one (`tcp_rack_advance`).
    pub(crate) fn advance_rack(&mut self, now: u64, part: &Sent) {
        let rtt = (now.saturating_sub(part.time) / 1000).min(1 << 27) as u32;
        if rtt < self.rtt.min && part.is(EVER_RETRANS) {
            // Most likely the first transmission was acknowledged, not this one.
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt = rtt;
        if sent_after(part.time, part.end, self.rack.time, self.rack.end) {
            self.rack.time = part.time;
            self.rack.end = part.end;
        }
    }

    /// The reordering window follows DSACKs (`tcp_rack_update_reo_wnd`).
    pub(crate) fn update_reordering_window(&mut self) {
        let rack = &mut self.rack;
        if self.config.recovery & 2 != 0 {
            return;
        }
        // One step a round trip.
        if before(self.delivery.count, rack.last_delivered) {
            rack.dsack = false;
        }
        if rack.dsack {
            rack.steps = rack.steps.saturating_add(1);
            rack.dsack = false;
            rack.last_delivered = self.delivery.count.wrapping_add(self.sent.packets);
            rack.persist = PERSIST;
        } else if rack.persist == 0 {
            rack.steps = 1;
        }
    }

    fn reordering_window(&self) -> u64 {
        if self.totals.reord_seen == 0 {
            if self.phase >= Phase::Recovery {
                return 0;
            }
            if self.sent.sacked >= self.reordering && self.config.recovery & 4 == 0 {
                return 0;
            }
        }
        let quarter = u64::from(self.rtt.min >> 2) * u64::from(self.rack.steps);
        quarter.min(u64::from(self.rtt.srtt8 >> 3)) * 1000
    }

    /// Marks what was sent long enough before the newest delivered packet. Returns after how many ns to look again.
    fn detect_loss(&mut self, now: u64, round: &mut Round) -> u64 {
        let window = self.reordering_window();
        let mut wait = 0;
        let rtt = u64::from(self.rack.rtt) * 1000;
        for index in 0..self.sent.len() {
            let Some(&entry) = self.sent.get(index) else {
                break;
            };
            if entry.is(SACKED) || entry.is(LOST) && !entry.is(RETRANS) {
                continue;
            }
            if !sent_after(self.rack.time, self.rack.end, entry.time, entry.end) {
                if !entry.is(EVER_RETRANS) && self.sent.retrans == 0 {
                    // Nothing behind was sent earlier.
                    break;
                }
                continue;
            }
            let deadline = entry.time + rtt + window;
            if deadline <= now {
                if entry.is(RETRANS) {
                    round.lost_retrans = true;
                }
                round.lost += entry.packets();
                self.sent.mark(index, LOST, RETRANS);
            } else {
                wait = wait.max(deadline - now);
            }
        }
        wait
    }

    fn mark_lost(&mut self, now: u64, round: &mut Round) {
        if !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        let wait = self.detect_loss(now, round);
        if wait > 0 {
            self.timer = Timer::Reordering;
            self.timer_at = now + wait + 1_000_000;
            round.set_timer = false;
        }
    }

    /// The reordering timer has expired (`tcp_rack_reo_timeout`).
    pub(crate) fn reordering_timeout(&mut self, now: u64) {
        let mut round = Round::default();
        let flight = self.sent.in_flight();
        let wait = self.detect_loss(now, &mut round);
        if flight != self.sent.in_flight() && self.phase != Phase::Recovery {
            self.enter_recovery(false);
        }
        self.timer = Timer::None;
        if wait > 0 {
            self.timer = Timer::Reordering;
            self.timer_at = now + wait + 1_000_000;
        } else {
            self.rearm_retransmit(now);
        }
    }

    /// Without SACK: the first packet is lost (`tcp_newreno_mark_lost`).
    fn mark_front(&mut self, round: &mut Round) {
        let enough = self.phase < Phase::Recovery && self.sent.sacked >= self.reordering;
        if !(enough || self.phase == Phase::Recovery && round.advanced) {
            return;
        }
        let Some(&front) = self.sent.front() else {
            return;
        };
        if front.is(LOST) {
            return;
        }
        if front.packets() > 1 {
            self.sent
                .split(0, front.seq.wrapping_add(u32::from(front.mss)));
        }
        self.sent.mark(0, LOST, RETRANS);
        round.lost += 1;
    }

    fn identify_loss(&mut self, now: u64, round: &mut Round) {
        if self.sent.is_empty() {
            return;
        }
        if self.sack_ok {
            self.mark_lost(now, round);
        } else {
            self.mark_front(round);
        }
    }

    // --- the state machine ---

    /// Acts on a suspicious acknowledgement (`tcp_fastretrans_alert`).
    pub(crate) fn judge(&mut self, now: u64, round: &mut Round, ack: u32, duplicate: bool) {
        if self.sent.packets == 0 {
            self.sent.sacked = 0;
        }
        if round.ece {
            self.prior_ssthresh = 0;
        }
        if self.sack_ok && self.sent.front().is_some_and(|front| front.is(SACKED)) {
            // The peer has dropped what it had: its blocks no longer count.
            self.count(Counter::SackReneging);
            for index in 0..self.sent.len() {
                self.sent.mark(index, 0, SACKED);
            }
            self.enter_loss(now);
            return;
        }
        if self.phase == Phase::Open {
            self.retrans_stamp = 0;
        } else if !before(self.una, self.high_seq) {
            match self.phase {
                Phase::Cwr if ack != self.high_seq => {
                    self.end_reduction();
                    self.phase = Phase::Open;
                }
                Phase::Recovery => {
                    if !self.sack_ok {
                        self.sent.sacked = 0;
                    }
                    if self.try_undo_recovery() {
                        return;
                    }
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.phase {
            Phase::Recovery => {
                if round.advanced {
                    if self.try_undo_partial(round) {
                        return;
                    }
                } else if !self.sack_ok && duplicate {
                    self.add_duplicate();
                }
                if self.try_undo_dsack() {
                    self.try_to_open(round);
                }
                self.identify_loss(now, round);
                if self.phase == Phase::Recovery {
                    return;
                }
            }
            Phase::Loss => {
                self.process_loss(round, duplicate);
                if self.phase != Phase::Loss {
                    self.try_to_open(round);
                } else {
                    self.identify_loss(now, round);
                    return;
                }
                self.identify_loss(now, round);
            }
            _ => {
                if !self.sack_ok {
                    if round.advanced {
                        self.sent.sacked = 0;
                    }
                    if duplicate {
                        self.add_duplicate();
                    }
                }
                if self.phase <= Phase::Disorder {
                    self.try_undo_dsack();
                }
                self.identify_loss(now, round);
            }
        }
        let lost = self.sent.lost > 0 || !self.sack_ok && self.sent.sacked > self.reordering;
        if !lost {
            self.try_to_open(round);
            return;
        }
        self.enter_recovery(round.ece);
    }

    /// Without SACK a duplicate ACK counts as a packet delivered (`tcp_add_reno_sack`).
    fn add_duplicate(&mut self) {
        self.sent.sacked += 1;
        let before = self.sent.sacked;
        self.limit_duplicates();
        if self.sent.sacked == before {
            self.delivery.count = self.delivery.count.wrapping_add(1);
        }
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.una);
        self.undo_retrans = match self.sent.retrans {
            0 => -1,
            count => count as i32,
        };
    }

    fn current_ssthresh(&self) -> u32 {
        if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            self.window.ssthresh
        } else {
            let cwnd = self.window.cwnd;
            self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2))
        }
    }

    fn init_reduction(&mut self) {
        self.high_seq = self.nxt;
        self.tlp_high = None;
        self.window.count = 0;
        self.prior_cwnd = self.window.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.window.ssthresh = self.congestion.after_loss(&self.window);
        if self.ecn & ecn::OK != 0 {
            self.ecn |= ecn::QUEUE_CWR;
        }
    }

    fn enter_recovery(&mut self, ece: bool) {
        self.count(if self.sack_ok {
            Counter::SackRecovery
        } else {
            Counter::RenoRecovery
        });
        self.prior_ssthresh = 0;
        self.init_undo();
        if !matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            if !ece {
                self.prior_ssthresh = self.current_ssthresh();
            }
            self.init_reduction();
        }
        self.phase = Phase::Recovery;
        self.rack.persist = self.rack.persist.saturating_sub(1);
    }

    /// Reduces the window because of ECN or a tail loss (`tcp_enter_cwr`).
    pub(crate) fn enter_cwr(&mut self) {
        self.prior_ssthresh = 0;
        if self.phase < Phase::Cwr {
            self.undo_marker = None;
            self.init_reduction();
            self.phase = Phase::Cwr;
        }
    }

    fn end_reduction(&mut self) {
        if self.congestion.decides() {
            return;
        }
        if self.window.ssthresh < INFINITE
            && (self.undo_marker.is_some() || self.phase == Phase::Cwr)
        {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// PRR: the window while it is reduced (`tcp_cwnd_reduction`).
    pub(crate) fn reduce_window(&mut self, delivered: u32, lost: u32, advanced: bool) {
        if delivered == 0 || self.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered = self.prr_delivered.saturating_add(delivered);
        let flight = self.sent.in_flight();
        let ssthresh = self.window.ssthresh;
        let mut count = if flight > ssthresh {
            let share = (u64::from(ssthresh) * u64::from(self.prr_delivered))
                .div_ceil(u64::from(self.prior_cwnd));
            (share as i64 - i64::from(self.prr_out)).max(0) as u32
        } else {
            let room = ssthresh - flight;
            let mut count = self
                .prr_delivered
                .saturating_sub(self.prr_out)
                .max(delivered);
            if advanced && lost == 0 {
                count += 1;
            }
            room.min(count)
        };
        // A fast retransmission goes out in any case.
        count = count.max(u32::from(self.prr_out == 0));
        self.window.cwnd = (flight + count).max(1);
    }

    fn left_out(&self) -> u32 {
        self.sent.sacked + self.sent.lost
    }

    fn try_keep_open(&mut self) {
        let suspicious = self.left_out() > 0 || self.sent.retrans > 0 || self.undo_marker.is_some();
        let phase = if suspicious {
            Phase::Disorder
        } else {
            Phase::Open
        };
        if self.phase != phase {
            self.phase = phase;
            self.high_seq = self.nxt;
        }
    }

    fn try_to_open(&mut self, round: &Round) {
        if self.sent.retrans == 0 && !self.any_retransmitted() {
            self.retrans_stamp = 0;
        }
        if round.ece {
            self.enter_cwr();
        }
        if self.phase != Phase::Cwr {
            self.try_keep_open();
        }
    }

    fn any_retransmitted(&self) -> bool {
        self.sent
            .front()
            .is_some_and(|front| front.is(EVER_RETRANS))
    }

    // --- undo ---

    /// The acknowledgement echoes a time before the first retransmission.
    fn packet_delayed(&self) -> bool {
        self.retrans_stamp != 0
            && self.ts_echo != 0
            && self.timestamps_ok
            && before(self.ts_echo, self.timestamp(self.retrans_stamp))
    }

    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.packet_delayed())
    }

    fn undo(&mut self, unmark: bool) {
        if unmark {
            self.unmark_lost();
        }
        if self.prior_ssthresh != 0 {
            if let Congestion::Bbr(bbr) = &mut self.congestion {
                bbr.undone();
            } else {
                self.window.cwnd = self.window.cwnd.max(self.prior_cwnd);
            }
            if self.prior_ssthresh > self.window.ssthresh {
                self.window.ssthresh = self.prior_ssthresh;
                self.ecn &= !ecn::QUEUE_CWR;
            }
        }
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self) -> bool {
        if self.may_undo() {
            self.count(if self.phase == Phase::Loss {
                Counter::LossUndo
            } else {
                Counter::FullUndo
            });
            self.undo(false);
        }
        if self.una == self.high_seq && !self.sack_ok {
            // Duplicates of the recovery may still arrive: no second recovery because of them.
            return true;
        }
        self.end_of_recovery();
        false
    }

    fn end_of_recovery(&mut self) {
        self.end_reduction();
        self.phase = Phase::Open;
        self.undo_marker = None;
        if !self.any_retransmitted() {
            self.retrans_stamp = 0;
        }
    }

    fn try_undo_dsack(&mut self) -> bool {
        if self.undo_marker.is_some() && self.undo_retrans == 0 {
            self.rack.persist = PERSIST.min(self.rack.persist.saturating_add(1));
            self.undo(false);
            return true;
        }
        false
    }

    /// A partial acknowledgement of something that was only delayed (`tcp_try_undo_partial`).
    fn try_undo_partial(&mut self, round: &mut Round) -> bool {
        if self.undo_marker.is_none() || !self.packet_delayed() {
            return false;
        }
        self.check_reordering(round.prior_una);
        if self.sent.retrans > 0 {
            return true;
        }
        if !self.any_retransmitted() {
            self.retrans_stamp = 0;
        }
        self.count(Counter::PartialUndo);
        self.undo(true);
        self.try_keep_open();
        false
    }

    fn try_undo_loss(&mut self, frto: bool) -> bool {
        if !frto && !self.may_undo() {
            return false;
        }
        self.count(Counter::LossUndo);
        if frto {
            self.count(Counter::SpuriousRtos);
        }
        self.undo(true);
        self.retransmits = 0;
        if frto || self.sack_ok {
            self.phase = Phase::Open;
        }
        true
    }

    /// Acknowledgements after a time-out (`tcp_process_loss`).
    fn process_loss(&mut self, round: &mut Round, duplicate: bool) {
        let recovered = !before(self.una, self.high_seq);
        if round.advanced && self.try_undo_loss(false) {
            return;
        }
        if self.frto {
            // An original transmission was delivered: the time-out was spurious.
            if round.orig_sacked && self.try_undo_loss(true) {
                return;
            }
            if after(self.nxt, self.high_seq) {
                if round.data_sacked || duplicate {
                    self.frto = false;
                }
            } else if round.advanced && !recovered {
                self.high_seq = self.nxt;
                if before(self.nxt, self.data_end()) && after(self.wnd_end(), self.nxt) {
                    self.pending |= pending::NEW_ONLY;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        if !self.sack_ok {
            if after(self.nxt, self.high_seq) && duplicate {
                self.add_duplicate();
            } else if round.advanced {
                self.sent.sacked = 0;
            }
        }
    }

    /// A retransmission time-out: everything is deemed lost (`tcp_enter_loss`).
    pub(crate) fn enter_loss(&mut self, now: u64) {
        let reneged = self.sent.front().is_some_and(|front| front.is(SACKED));
        if reneged {
            self.count(Counter::SackReneging);
        }
        if !self.sack_ok {
            self.sent.sacked = 0;
        }
        let rtt = u64::from(self.rack.rtt) * 1000 + self.reordering_window();
        for index in 0..self.sent.len() {
            if reneged {
                self.sent.mark(index, 0, SACKED);
            }
            let Some(&entry) = self.sent.get(index) else {
                break;
            };
            if entry.is(SACKED) {
                continue;
            }
            // With RACK, what was sent only just now is not lost.
            if self.sack_ok && index > 0 && entry.time + rtt > now && !reneged {
                continue;
            }
            self.sent.mark(index, LOST, RETRANS);
        }
        let new = self.phase < Phase::Recovery;
        if self.phase <= Phase::Disorder
            || !after(self.high_seq, self.una)
            || self.phase == Phase::Loss && self.retransmits == 0
        {
            self.prior_ssthresh = self.current_ssthresh();
            self.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.congestion.after_loss(&self.window);
            self.congestion.timed_out(now, self.una, self.nxt);
            self.init_undo();
        }
        self.window.cwnd = self.sent.in_flight() + 1;
        self.window.count = 0;
        self.cwnd_stamp = now;
        if self.phase <= Phase::Disorder && self.sent.sacked >= self.config.reordering {
            self.reordering = self.reordering.min(self.config.reordering);
        }
        self.phase = Phase::Loss;
        self.high_seq = self.nxt;
        self.tlp_high = None;
        if self.ecn & ecn::OK != 0 {
            self.ecn |= ecn::QUEUE_CWR;
        }
        self.frto = self.config.frto && (new || self.retransmits > 0);
    }

    /// The MTU has shrunk: what was too large is lost without a sign of congestion (`tcp_simple_retransmit`).
    pub(crate) fn simple_retransmit(&mut self) {
        let mss = self.mss;
        let mut marked = false;
        for index in 0..self.sent.len() {
            let Some(&entry) = self.sent.get(index) else {
                break;
            };
            if entry.mss > mss {
                let large = entry.end.wrapping_sub(entry.seq) > u32::from(mss);
                self.sent.resize(index, mss);
                if large && !entry.is(SACKED) {
                    self.sent.mark(index, LOST, RETRANS);
                    marked = true;
                }
            }
        }
        if !marked {
            return;
        }
        if !self.sack_ok {
            self.limit_duplicates();
        }
        if self.phase != Phase::Loss {
            self.high_seq = self.nxt;
            self.window.ssthresh = self.current_ssthresh();
            self.prior_ssthresh = 0;
            self.undo_marker = None;
            self.phase = Phase::Loss;
            self.frto = false;
        }
    }

    // --- tail loss probes ---

    /// Arms a probe instead of the time-out (`tcp_schedule_loss_probe`). Returns whether it did.
    pub(crate) fn schedule_loss_probe(&mut self, now: u64, advancing: bool) -> bool {
        if !self.config.loss_probe
            || self.sent.packets == 0
            || self.passive
            || !self.sack_ok
            || !matches!(self.phase, Phase::Open | Phase::Cwr)
        {
            return false;
        }
        let mut wait = if self.rtt.srtt8 > 0 {
            let extra = if self.sent.packets == 1 {
                self.config.rto_min
            } else {
                super::TIMEOUT_MIN
            };
            2 * self.rtt.srtt() + extra
        } else {
            crate::rtt::RTO_INITIAL
        };
        // Never later than the time-out would be.
        let rto = if advancing || self.timer == Timer::None {
            self.rtt.rto()
        } else {
            let head = self.sent.front().map_or(now, |front| front.time);
            (head + self.rtt.rto()).saturating_sub(now)
        };
        if rto > 0 {
            wait = wait.min(rto);
        }
        self.timer = Timer::LossProbe;
        self.timer_at = now + wait;
        true
    }

    /// Acknowledgements after a probe (`tcp_process_tlp_ack`).
    pub(crate) fn process_tlp(&mut self, round: &Round, ack: u32) {
        let Some(high) = self.tlp_high else { return };
        if before(ack, high) {
            return;
        }
        if !self.tlp_retrans || round.dsack {
            // The probe was new data, or the peer has both copies.
            self.tlp_high = None;
        } else if after(ack, high) {
            // The probe has repaired a loss.
            self.tlp_high = None;
            self.init_reduction();
            self.phase = Phase::Cwr;
            self.end_reduction();
            self.try_keep_open();
            self.count(Counter::LossProbeRecovery);
        } else if !round.advanced && !round.is_not_duplicate() && !round.data_sacked {
            self.tlp_high = None;
        }
    }

    /// After an acknowledgement of new data (`tcp_set_xmit_timer`).
    pub(crate) fn set_transmit_timer(&mut self, now: u64) {
        if self.timer == Timer::Reordering && self.timer_at != NEVER && !self.sent.is_empty() {
            return;
        }
        if !self.schedule_loss_probe(now, true) {
            self.rearm_retransmit(now);
        }
    }
}

/// Whether one packet was sent after another (`tcp_rack_sent_after`).
fn sent_after(time: u64, end: u32, other: u64, other_end: u32) -> bool {
    time > other || time == other && after(end, other_end)
}

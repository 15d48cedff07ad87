// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time-outs (`net/ipv4/tcp_timer.c`): retransmission, probes of closed windows, delayed ACKs, keep-alive, FIN_WAIT2.

use super::{Connection, Counter, NEVER, Phase, State, Timer, pending};
use crate::error;
use crate::rtt::RTO_MAX;
use crate::seq::before;
use crate::time::MS;

impl Connection {
    /// When [`Connection::timeout`] is due, in ns; nothing while no timer runs.
    pub fn deadline(&self) -> Option<u64> {
        let mut at = self
            .timer_at
            .min(self.ack.deadline)
            .min(self.keep_at)
            .min(self.release_at);
        if self.ack.saved_until > 0 {
            at = at.min(self.ack.saved_until);
        }
        if self.pacing_at > 0
            && self.needs_pacing()
            && (self.nxt != self.write_seq() || self.sent.lost > self.sent.retrans)
        {
            at = at.min(self.pacing_at);
        }
        (at != NEVER).then_some(at)
    }

    /// Does what is due at the time `now`. Call [`Connection::poll`] afterwards.
    pub fn timeout(&mut self, now: u64) {
        if self.ack.deadline <= now {
            self.delayed_ack();
        }
        if self.ack.saved_until > 0 && self.ack.saved_until <= now {
            self.ack.saved_until = 0;
            self.pending |= pending::ACK;
        }
        if self.timer_at <= now {
            let timer = self.timer;
            self.timer_at = NEVER;
            match timer {
                Timer::None => {}
                Timer::Retransmit => self.retransmit_timeout(now),
                Timer::LossProbe => self.pending |= pending::TAIL,
                Timer::Reordering => self.reordering_timeout(now),
                Timer::WindowProbe => self.probe_timeout(now),
            }
        }
        if self.keep_at <= now {
            self.keep_at = NEVER;
            self.keepalive_timeout(now);
        }
        if self.release_at <= now {
            self.release_at = NEVER;
            self.release();
        }
        if self.pacing_at <= now {
            self.pacing_at = 0;
        }
    }

    /// Frees the memory of empty buffers.
    pub fn release(&mut self) {
        if self.send.is_empty() {
            self.send.release();
        }
        if self.early.is_none() {
            self.receive.release();
        }
        self.sent.release();
    }

    fn delayed_ack(&mut self) {
        self.ack.deadline = NEVER;
        if self.pending & pending::ACK_LATER != 0 {
            if self.ack.pingpong {
                // The program did not answer: no more delays for its sake.
                self.ack.pingpong = false;
                self.ack.ato = super::DELAY_MIN;
            } else {
                self.ack.ato = (self.ack.ato << 1).min(self.rtt.rto());
            }
            self.pending |= pending::ACK;
            self.count(Counter::DelayedAcks);
        }
    }

    /// Arms the retransmission timer for the oldest packet (`tcp_rearm_rto`).
    pub(crate) fn rearm_retransmit(&mut self, now: u64) {
        if self.sent.is_empty() {
            self.timer = Timer::None;
            self.timer_at = NEVER;
            return;
        }
        let mut wait = self.rtt.rto();
        if matches!(self.timer, Timer::Reordering | Timer::LossProbe) {
            // Those timers took the place of this one: the time since the transmission counts.
            let head = self.sent.front().map_or(now, |front| front.time);
            wait = (head + wait).saturating_sub(now).max(MS);
        }
        self.timer = Timer::Retransmit;
        self.timer_at = now.saturating_add(wait);
    }

    /// Whether `retries` retransmissions take less time than passed since the first (`retransmits_timed_out`).
    fn timed_out(&self, now: u64, retries: u8, limit: u64) -> bool {
        if self.retransmits == 0 || self.retrans_stamp == 0 {
            return false;
        }
        let limit = if limit == 0 {
            self.model_timeout(retries)
        } else {
            limit
        };
        now.saturating_sub(self.retrans_stamp) >= limit
    }

    /// How long `retries` retransmissions take with the shortest time-out (`tcp_model_timeout`).
    fn model_timeout(&self, retries: u8) -> u64 {
        let base = self.config.rto_min;
        let doublings = (RTO_MAX / base.max(1)).max(1).ilog2();
        let retries = u32::from(retries);
        if retries <= doublings {
            ((2u64 << retries) - 1) * base
        } else {
            ((2u64 << doublings) - 1) * base + u64::from(retries - doublings) * RTO_MAX
        }
    }

    fn orphan_retries(&self) -> u8 {
        let retries = self.config.orphan_retries;
        if self.soft_error != 0 && self.retransmits > 0 {
            return 0;
        }
        if retries == 0 { 8 } else { retries }
    }

    fn give_up(&mut self) {
        let error = match std::mem::take(&mut self.soft_error) {
            0 => error::ETIMEDOUT,
            error => error,
        };
        self.count(Counter::AbortOnTimeout);
        self.finish(error);
    }

    /// Gives up if the peer did not answer for too long (`tcp_write_timeout`).
    fn write_timeout(&mut self, now: u64) -> bool {
        let expired = if matches!(self.state, State::SynSent | State::SynReceived) {
            let retries = match self.state {
                State::SynSent => self.settings.syn_retries.unwrap_or(self.config.syn_retries),
                _ => self.config.synack_retries,
            };
            self.retransmits >= retries
                || self.settings.user_timeout != 0
                    && self.timed_out(now, 0, self.settings.user_timeout)
        } else {
            let mut retries = self.config.retries2;
            if self.orphan {
                let alive = self.rtt.rto() < RTO_MAX;
                retries = self.orphan_retries();
                if !alive {
                    retries = retries.min(1);
                }
            }
            self.timed_out(now, retries, self.settings.user_timeout)
        };
        if expired {
            self.give_up();
        }
        expired
    }

    /// The retransmission time-out (`tcp_retransmit_timer`).
    fn retransmit_timeout(&mut self, now: u64) {
        if self.sent.is_empty() {
            self.timer = Timer::None;
            return;
        }
        let handshake = matches!(self.state, State::SynSent | State::SynReceived);
        if self.wnd == 0 && !self.orphan && !handshake {
            // The peer has shrunk its window: it is probed with the oldest packet.
            if now.saturating_sub(self.last_ack) > RTO_MAX {
                self.give_up();
                return;
            }
            self.enter_loss(now);
            self.retransmit_later(now);
            return;
        }
        self.count(Counter::Timeouts);
        if self.write_timeout(now) {
            return;
        }
        if self.retransmits == 0 && self.phase >= Phase::Recovery {
            self.count(Counter::RecoveryFailures);
        }
        if handshake {
            self.sent.mark(0, crate::sent::LOST, crate::sent::RETRANS);
        } else {
            self.enter_loss(now);
        }
        self.retransmit_later(now);
    }

    fn retransmit_later(&mut self, now: u64) {
        self.retransmits = self.retransmits.saturating_add(1);
        self.pending |= pending::HEAD;
        self.rtt.back_off();
        self.timer = Timer::Retransmit;
        self.timer_at = now.saturating_add(self.rtt.rto());
    }

    // --- closed windows ---

    /// An acknowledgement without anything outstanding (`tcp_ack_probe`).
    pub(crate) fn ack_probe(&mut self, now: u64) {
        if !before(self.nxt, self.write_seq()) {
            return;
        }
        let first = self
            .data_end()
            .wrapping_sub(self.nxt)
            .min(u32::from(self.mss));
        if !before(self.wnd_end(), self.nxt.wrapping_add(first)) {
            self.rtt.backoff = 0;
            if self.timer == Timer::WindowProbe {
                self.timer = Timer::None;
                self.timer_at = NEVER;
            }
        } else {
            self.arm_window_probe(now);
        }
    }

    /// Arms the timer for probes of the window, if it holds data back.
    pub(crate) fn arm_window_probe(&mut self, now: u64) {
        let window = self.wnd_end().wrapping_sub(self.nxt) as i32;
        let unsent = self.data_end().wrapping_sub(self.nxt);
        if unsent == 0 || window > 0 && window as u32 >= unsent.min(u32::from(self.mss)) {
            // The cork or Nagle's algorithm holds it back, not the window: a cork lasts 200 ms.
            if !(self.settings.cork && unsent > 0) {
                return;
            }
        }
        self.timer = Timer::WindowProbe;
        self.timer_at = now.saturating_add(self.rtt.rto().max(self.config.rto_min));
    }

    fn probe_timeout(&mut self, now: u64) {
        self.timer = Timer::None;
        if !self.sent.is_empty() || !before(self.nxt, self.write_seq()) {
            self.probes = 0;
            self.probe_start = 0;
            return;
        }
        if self.settings.cork && self.wnd_end().wrapping_sub(self.nxt) as i32 > 0 {
            self.pending |= pending::PUSH;
            return;
        }
        if self.probe_start == 0 {
            self.probe_start = now.max(1);
        } else if self.settings.user_timeout != 0
            && now.saturating_sub(self.probe_start) >= self.settings.user_timeout
        {
            self.give_up();
            return;
        }
        let most = if self.orphan {
            self.orphan_retries()
        } else {
            self.config.retries2
        };
        if self.probes >= most {
            self.give_up();
            return;
        }
        self.pending |= pending::PROBE;
        self.probes += 1;
        if self.rtt.backoff < self.config.retries2 {
            self.rtt.back_off();
        }
        self.timer = Timer::WindowProbe;
        self.timer_at = now.saturating_add(self.rtt.rto().max(self.config.rto_min));
    }

    // --- keep-alive ---

    fn keep_idle(&self) -> u64 {
        self.settings
            .keep_idle
            .unwrap_or(self.config.keepalive_time)
    }

    fn keep_interval(&self) -> u64 {
        self.settings
            .keep_interval
            .unwrap_or(self.config.keepalive_interval)
    }

    /// Arms or stops the keep-alive timer.
    pub(crate) fn arm_keepalive(&mut self, now: u64) {
        if matches!(
            self.state,
            State::FinWait2 | State::TimeWait | State::Closed
        ) {
            return;
        }
        self.keep_at = if self.settings.keepalive && self.state != State::SynSent {
            let idle = now.saturating_sub(self.ack.last_data.max(self.last_ack));
            now.saturating_add(self.keep_idle().saturating_sub(idle))
        } else {
            NEVER
        };
    }

    /// The program has closed, the peer has not: the connection ends after a while.
    pub(crate) fn arm_fin_wait(&mut self, now: u64) {
        let wait = self.settings.linger2.unwrap_or(self.config.fin_timeout);
        if self.settings.linger2 == Some(0) {
            self.count(Counter::AbortOnLinger);
            self.abort(0);
            return;
        }
        self.keep_at = now.saturating_add(wait);
    }

    fn keepalive_timeout(&mut self, now: u64) {
        match self.state {
            State::TimeWait => {
                self.finish(0);
                return;
            }
            State::FinWait2 if self.orphan => {
                self.finish(0);
                return;
            }
            State::Closed | State::SynSent => return,
            _ => {}
        }
        if !self.settings.keepalive {
            return;
        }
        if !self.sent.is_empty() || before(self.nxt, self.write_seq()) {
            self.keep_at = now.saturating_add(self.keep_idle());
            return;
        }
        let idle = now.saturating_sub(self.ack.last_data.max(self.last_ack));
        if idle < self.keep_idle() {
            self.keep_at = now.saturating_add(self.keep_idle() - idle);
            return;
        }
        let expired = match self.settings.user_timeout {
            0 => {
                self.probes
                    >= self
                        .settings
                        .keep_count
                        .unwrap_or(self.config.keepalive_probes)
            }
            limit => idle >= limit && self.probes > 0,
        };
        if expired {
            self.count(Counter::AbortOnTimeout);
            let error = match std::mem::take(&mut self.soft_error) {
                0 => error::ETIMEDOUT,
                error => error,
            };
            self.abort(error);
            return;
        }
        self.probes = self.probes.saturating_add(1);
        self.count(Counter::KeepAlive);
        self.pending |= pending::KEEP;
        self.keep_at = now.saturating_add(self.keep_interval());
    }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00; `net/ipv4/tcp_bbr.c`): the rate follows the largest
//! delivery rate of the last ten round trips, the window is twice the product of rate and smallest round-trip time.
//! Loss alone does not slow it down. The flow is paced.
//!
//! Gains are in 256ths, rates in packets per microsecond times 2^24. The window allows for acknowledgements that come in
//! bursts (`bbr_update_ack_aggregation`). Not implemented: the detection of policers by long-term rates (`bbr_lt_bw`).

use super::Window;
use crate::phase::Phase;
use crate::time::{MS, SECOND};

/// One, of a gain.
const UNIT: u32 = 256;
/// One packet per microsecond.
const RATE: u64 = 1 << 24;
/// 2/ln(2): the rate doubles each round trip.
const HIGH: u32 = UNIT * 2885 / 1000 + 1;
/// Its inverse: the queue of the start drains in one round trip.
const DRAIN: u32 = UNIT * 1000 / 2885;
/// The window beyond the product of rate and round-trip time.
const WINDOW: u32 = UNIT * 2;
/// The gains of a cycle: one round trip probes for more, the next drains what that queued.
const CYCLE: [u32; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
/// For how many round trips a rate counts.
const RATE_ROUNDS: u32 = 10;
/// For how long a round-trip time counts, in ns.
const RTT_TIME: u64 = 10 * SECOND;
/// How long the window stays small to find the round-trip time, in ns.
const PROBE_TIME: u64 = 200 * MS;
/// The smallest window, in packets.
const LEAST: u32 = 4;
/// The pipe is full if the rate did not grow by a quarter in three round trips.
const FULL_ROUNDS: u8 = 3;
/// For how many round trips bursts of acknowledgements count.
const BURST_ROUNDS: u8 = 5;
/// The longest burst that counts, in microseconds.
const BURST_MOST: u64 = 100_000;
/// After so many packets an epoch of acknowledgements ends.
const EPOCH_MOST: u32 = 1 << 20;
/// Below this rate (bytes per second) segments are sent one by one.
const ONE_BY_ONE: u64 = 150_000;
/// The headers of a TSO-sized packet, as Linux reserves them (`MAX_TCP_HEADER`).
const HEADERS: u64 = 320;

/// What the flow does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// The rate grows exponentially.
    #[default]
    Startup,
    /// The queue of the start drains.
    Drain,
    /// The rate is probed in cycles.
    ProbeBw,
    /// The window is small, to measure the round-trip time.
    ProbeRtt,
}

/// The three best samples of a sliding window (`lib/win_minmax.c`): (round, rate).
#[derive(Debug, Clone, Copy, Default)]
struct Max([(u32, u64); 3]);

impl Max {
    fn best(&self) -> u64 {
        self.0[0].1
    }

    fn add(&mut self, round: u32, value: u64) {
        let new = (round, value);
        let s = &mut self.0;
        if value >= s[0].1 || round.wrapping_sub(s[2].0) > RATE_ROUNDS {
            *s = [new; 3];
            return;
        }
        if value >= s[1].1 {
            s[1] = new;
            s[2] = new;
        } else if value >= s[2].1 {
            s[2] = new;
        }
        let age = round.wrapping_sub(s[0].0);
        if age > RATE_ROUNDS {
            *s = [s[1], s[2], new];
            if round.wrapping_sub(s[0].0) > RATE_ROUNDS {
                *s = [s[1], s[2], new];
            }
        } else if s[1].0 == s[0].0 && age > RATE_ROUNDS / 4 {
            s[1] = new;
            s[2] = new;
        } else if s[2].0 == s[1].0 && age > RATE_ROUNDS / 2 {
            s[2] = new;
        }
    }
}

/// What an acknowledgement told of the delivery (`struct rate_sample`).
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// The time, in ns.
    pub now: u64,
    /// Packets delivered in the interval, and the interval in microseconds; no interval without a sample.
    pub sample: Option<(u32, u32)>,
    /// Packets that were delivered when the newest delivered one was sent.
    pub prior: u32,
    /// The sample is limited by what the program sent.
    pub app_limited: bool,
    /// The round-trip time in microseconds, if there is a sample.
    pub rtt: Option<u32>,
    /// The acknowledgement was probably delayed.
    pub delayed: bool,
    /// Packets newly acknowledged, by SACK too.
    pub acked: u32,
    /// Packets newly deemed lost.
    pub lost: u32,
    /// Packets in flight before and after the acknowledgement.
    pub flight: (u32, u32),
    /// Packets delivered in all.
    pub total: u32,
    /// When the last of them was, in ns.
    pub time: u64,
    /// The state of the recovery.
    pub phase: Phase,
    /// The data of a packet, in bytes.
    pub mss: u32,
    /// The smoothed round-trip time in microseconds; 0 without one.
    pub srtt: u32,
    /// The first window, in packets.
    pub initial: u32,
}

/// What BBR decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The rate to pace at, in bytes per second, if it changes.
    pub rate: Option<u64>,
    /// The flow is limited by BBR itself: rates say little about the path.
    pub limited: bool,
}

/// What `TCP_CC_INFO` and `ss -i` show (`struct tcp_bbr_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The estimated rate, in bytes per second.
    pub rate: u64,
    /// The smallest round-trip time in microseconds.
    pub min_rtt: u32,
    /// The gain of the rate, in 256ths.
    pub pacing_gain: u32,
    /// The gain of the window, in 256ths.
    pub window_gain: u32,
}

impl Shown {
    /// The structure in native byte order: 20 bytes.
    pub fn bytes(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let words = [
            self.rate as u32,
            (self.rate >> 32) as u32,
            self.min_rtt,
            self.pacing_gain,
            self.window_gain,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// The state of a flow.
#[derive(Debug, Clone)]
pub struct Bbr {
    mode: Mode,
    max: Max,
    rounds: u32,
    next_round: u32,
    round_start: bool,
    min_rtt: u32,
    min_rtt_at: u64,
    probe_done: Option<u64>,
    probe_round_done: bool,
    phase: Phase,
    conserve: bool,
    idle_restart: bool,
    seen_rtt: bool,
    prior_window: u32,
    cycle: usize,
    cycle_at: u64,
    full: u64,
    full_count: u8,
    full_reached: bool,
    pacing_gain: u32,
    window_gain: u32,
    /// The rate to pace at, in bytes per second.
    pacing: u64,
    epoch_at: u64,
    epoch_acked: u32,
    extra: [u32; 2],
    extra_index: usize,
    extra_rounds: u8,
    mss: u32,
    /// Where in a cycle probing begins is random.
    random: u32,
}

impl Bbr {
    /// Starts at the time `now`, in ns. `seed` decides where cycles begin.
    pub fn new(now: u64, seed: u32, mss: u32) -> Self {
        Self {
            mode: Mode::Startup,
            max: Max::default(),
            rounds: 0,
            next_round: 0,
            round_start: false,
            min_rtt: u32::MAX,
            min_rtt_at: now,
            probe_done: None,
            probe_round_done: false,
            phase: Phase::Open,
            conserve: false,
            idle_restart: false,
            seen_rtt: false,
            prior_window: 0,
            cycle: 0,
            cycle_at: 0,
            full: 0,
            full_count: 0,
            full_reached: false,
            pacing_gain: HIGH,
            window_gain: HIGH,
            pacing: 0,
            epoch_at: now,
            epoch_acked: 0,
            extra: [0; 2],
            extra_index: 0,
            extra_rounds: 0,
            mss,
            random: seed | 1,
        }
    }

    /// The rate of the first round trip (`bbr_init_pacing_rate_from_rtt`), in bytes per second; `srtt` is in microseconds,
    /// 0 without a sample.
    pub fn first_rate(&mut self, window: u32, srtt: u32) -> u64 {
        self.seen_rtt |= srtt > 0;
        let us = if srtt > 0 { srtt } else { 1000 };
        let rate = u64::from(window) * RATE / u64::from(us);
        self.pacing = self.bytes(rate, HIGH);
        self.pacing
    }

    /// A rate in bytes per second, one per cent below so that no queue builds up.
    fn bytes(&self, rate: u64, gain: u32) -> u64 {
        let bytes = u128::from(rate) * u128::from(self.mss) * u128::from(gain) * 990_000;
        (bytes >> 32) as u64
    }

    /// The product of rate and round-trip time times a gain, in packets (`bbr_bdp`).
    fn product(&self, rate: u64, gain: u32, initial: u32) -> u32 {
        if self.min_rtt == u32::MAX {
            return initial;
        }
        let product = (u128::from(rate) * u128::from(self.min_rtt) * u128::from(gain)) >> 8;
        product.div_ceil(u128::from(RATE)).min(1 << 20) as u32
    }

    /// Room for the segments of a TSO-sized packet (`bbr_quantization_budget`).
    fn quantized(&self, window: u32) -> u32 {
        let bytes = (self.pacing >> 10).min(65535 - HEADERS);
        let least = if self.pacing < ONE_BY_ONE { 1 } else { 2 };
        let goal = (bytes / u64::from(self.mss.max(1))).clamp(least, 0x7f) as u32;
        let window = (window + 3 * goal + 1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle == 0 {
            window + 2
        } else {
            window
        }
    }

    fn inflight(&self, rate: u64, gain: u32, initial: u32) -> u32 {
        self.quantized(self.product(rate, gain, initial))
    }

    /// Takes an acknowledgement (`bbr_main`).
    pub fn acked(&mut self, window: &mut Window, round: &Delivered) -> Decision {
        self.mss = round.mss;
        self.update_rate(round);
        self.update_bursts(window, round);
        self.update_cycle(round);
        self.check_full(round);
        self.check_drain(window, round);
        let limited = self.update_rtt(window, round);
        self.update_gains();
        let rate = self.max.best();
        Decision {
            rate: self.set_rate(window, round, rate),
            limited: {
                self.set_window(window, round, rate);
                limited
            },
        }
    }

    fn update_rate(&mut self, round: &Delivered) {
        self.round_start = false;
        let Some((delivered, us)) = round.sample else {
            return;
        };
        if (round.prior.wrapping_sub(self.next_round) as i32) >= 0 {
            self.next_round = round.total;
            self.rounds = self.rounds.wrapping_add(1);
            self.round_start = true;
            self.conserve = false;
        }
        let rate = u64::from(delivered) * RATE / u64::from(us.max(1));
        if !round.app_limited || rate >= self.max.best() {
            self.max.add(self.rounds, rate);
        }
    }

    /// How many more packets than expected are acknowledged at once.
    fn update_bursts(&mut self, window: &Window, round: &Delivered) {
        if round.acked == 0 || round.sample.is_none() {
            return;
        }
        if self.round_start {
            self.extra_rounds += 1;
            if self.extra_rounds >= BURST_ROUNDS {
                self.extra_rounds = 0;
                self.extra_index ^= 1;
                self.extra[self.extra_index] = 0;
            }
        }
        let us = round.time.saturating_sub(self.epoch_at) / 1000;
        let mut expected =
            (u128::from(self.max.best()) * u128::from(us) / u128::from(RATE)).min(1 << 30) as u32;
        if self.epoch_acked <= expected || self.epoch_acked + round.acked >= EPOCH_MOST {
            self.epoch_acked = 0;
            self.epoch_at = round.time;
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + round.acked).min(0xf_ffff);
        let extra = self.epoch_acked.saturating_sub(expected).min(window.cwnd);
        let place = &mut self.extra[self.extra_index];
        *place = (*place).max(extra);
    }

    fn update_cycle(&mut self, round: &Delivered) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let over = round.time.saturating_sub(self.cycle_at) / 1000 > u64::from(self.min_rtt);
        let rate = self.max.best();
        let next = match self.pacing_gain {
            UNIT => over,
            gain if gain > UNIT => {
                over && (round.lost > 0
                    || round.flight.0 >= self.inflight(rate, gain, round.initial))
            }
            _ => over || round.flight.0 <= self.inflight(rate, UNIT, round.initial),
        };
        if next {
            self.advance_cycle(round.time);
        }
    }

    fn advance_cycle(&mut self, now: u64) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = now;
    }

    fn check_full(&mut self, round: &Delivered) {
        if self.full_reached || !self.round_start || round.app_limited {
            return;
        }
        let rate = self.max.best();
        if rate >= self.full * 5 / 4 {
            self.full = rate;
            self.full_count = 0;
            return;
        }
        self.full_count += 1;
        self.full_reached = self.full_count >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, window: &mut Window, round: &Delivered) {
        let rate = self.max.best();
        if self.mode == Mode::Startup && self.full_reached {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(rate, UNIT, round.initial);
        }
        if self.mode == Mode::Drain && round.flight.1 <= self.inflight(rate, UNIT, round.initial) {
            self.probe_bandwidth(round.time);
        }
    }

    /// Begins cycles, anywhere but in the draining part.
    fn probe_bandwidth(&mut self, now: u64) {
        self.mode = Mode::ProbeBw;
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.cycle = CYCLE.len() - 1 - (self.random >> 16) as usize % 7;
        self.advance_cycle(now);
    }

    fn save_window(&mut self, window: &Window) {
        self.prior_window = if self.phase < Phase::Recovery && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_window.max(window.cwnd)
        };
    }

    /// Follows the smallest round-trip time. Returns whether BBR limits the flow to measure it.
    fn update_rtt(&mut self, window: &mut Window, round: &Delivered) -> bool {
        let expired = round.now > self.min_rtt_at.saturating_add(RTT_TIME);
        if let Some(rtt) = round.rtt
            && (rtt < self.min_rtt || expired && !round.delayed)
        {
            self.min_rtt = rtt;
            self.min_rtt_at = round.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(window);
            self.mode = Mode::ProbeRtt;
            self.probe_done = None;
        }
        let limited = self.mode == Mode::ProbeRtt;
        if limited {
            match self.probe_done {
                None if round.flight.1 <= LEAST => {
                    self.probe_done = Some(round.now + PROBE_TIME);
                    self.probe_round_done = false;
                    self.next_round = round.total;
                }
                None => {}
                Some(_) => {
                    self.probe_round_done |= self.round_start;
                    if self.probe_round_done {
                        self.end_probe(window, round.now, round.time);
                    }
                }
            }
        }
        if round.sample.is_some_and(|(delivered, _)| delivered > 0) {
            self.idle_restart = false;
        }
        limited
    }

    fn end_probe(&mut self, window: &mut Window, now: u64, delivered: u64) {
        if self.probe_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_window);
        if self.full_reached {
            self.probe_bandwidth(delivered);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH, HIGH),
            Mode::Drain => (DRAIN, HIGH),
            Mode::ProbeBw => (CYCLE[self.cycle], WINDOW),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    fn set_rate(&mut self, window: &Window, round: &Delivered, rate: u64) -> Option<u64> {
        if !self.seen_rtt && round.srtt > 0 {
            self.first_rate(window.cwnd, round.srtt);
        }
        let bytes = self.bytes(rate, self.pacing_gain);
        if self.full_reached || bytes > self.pacing {
            self.pacing = bytes;
        }
        Some(self.pacing)
    }

    fn set_window(&mut self, window: &mut Window, round: &Delivered, rate: u64) {
        if round.acked > 0 && !self.recover(window, round) {
            let mut target = self.product(rate, self.window_gain, round.initial);
            if self.full_reached {
                let most = (u128::from(rate) * u128::from(BURST_MOST) / u128::from(RATE))
                    .min(1 << 20) as u32;
                target += self.extra[0].max(self.extra[1]).min(most);
            }
            let target = self.quantized(target);
            let more = window.cwnd + round.acked;
            if self.full_reached {
                window.cwnd = more.min(target);
            } else if window.cwnd < target || round.total < round.initial {
                window.cwnd = more;
            }
            window.cwnd = window.cwnd.max(LEAST);
        }
        window.cwnd = window.cwnd.min(window.clamp).max(1);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(LEAST);
        }
    }

    /// Packet conservation in the first round of a recovery, and the old window after it. Returns whether that decides.
    fn recover(&mut self, window: &mut Window, round: &Delivered) -> bool {
        let before = self.phase;
        let mut cwnd = window.cwnd;
        if round.lost > 0 {
            cwnd = cwnd.saturating_sub(round.lost).max(1);
        }
        if round.phase == Phase::Recovery && before != Phase::Recovery {
            self.conserve = true;
            self.next_round = round.total;
            cwnd = round.flight.1 + round.acked;
        } else if before >= Phase::Recovery && round.phase < Phase::Recovery {
            cwnd = cwnd.max(self.prior_window);
            self.conserve = false;
        }
        self.phase = round.phase;
        window.cwnd = if self.conserve {
            cwnd.max(round.flight.1 + round.acked)
        } else {
            cwnd
        };
        self.conserve
    }

    /// A reduction begins: the window is kept for afterwards. The threshold does not change.
    pub fn after_loss(&mut self, window: &Window) -> u32 {
        self.save_window(window);
        window.ssthresh
    }

    /// A retransmission time-out.
    pub fn timed_out(&mut self) {
        self.phase = Phase::Loss;
        self.full = 0;
        self.round_start = true;
    }

    /// A reduction was wrong.
    pub fn undone(&mut self) {
        self.full = 0;
        self.full_count = 0;
    }

    /// The first packet after a pause; `app_limited` if the program had nothing to send. Returns the rate to pace at, if it
    /// changes.
    pub fn resumed(&mut self, now: u64, app_limited: bool) -> Option<u64> {
        if !app_limited {
            return None;
        }
        self.idle_restart = true;
        self.epoch_at = now;
        self.epoch_acked = 0;
        if self.mode != Mode::ProbeBw {
            return None;
        }
        let bytes = self.bytes(self.max.best(), UNIT);
        self.pacing = bytes;
        Some(bytes)
    }

    /// What is shown of the flow.
    pub fn shown(&self) -> Shown {
        let rate = self.max.best();
        Shown {
            rate: ((u128::from(rate) * u128::from(self.mss) * 1_000_000) >> 24) as u64,
            min_rtt: self.min_rtt,
            pacing_gain: self.pacing_gain,
            window_gain: self.window_gain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_sample_leaves_after_ten_rounds() {
        let mut max = Max::default();
        max.add(1, 100);
        for round in 2..=11 {
            max.add(round, 50);
            assert_eq!(max.best(), 100, "{round}");
        }
        max.add(12, 50);
        assert_eq!(max.best(), 50);
        max.add(13, 200);
        assert_eq!(max.best(), 200);
    }

    #[test]
    fn the_gains_are_those_of_the_draft() {
        let mut bbr = Bbr::new(0, 1, 1448);
        assert_eq!((HIGH, DRAIN), (739, 88));
        // 10 packets in 100 ms, times 2.89, less one per cent.
        let rate = bbr.first_rate(10, 100_000);
        assert!((405_000..=415_000).contains(&rate), "{rate}");
        bbr.min_rtt = 100_000;
        assert_eq!(bbr.product(RATE / 1000, UNIT, 10), 100);
        assert_eq!(bbr.shown().bytes()[12..16], HIGH.to_ne_bytes());
    }
}

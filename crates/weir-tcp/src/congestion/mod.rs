// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control: how the window grows and to what it shrinks (`struct tcp_congestion_ops`).

pub mod bbr;
pub mod cubic;
pub mod reno;

use bbr::Bbr;
use cubic::Cubic;

/// The slow-start threshold of a flow that has not seen a loss (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE: u32 = 0x7fff_ffff;

/// The name of an algorithm, as `TCP_CONGESTION` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// NewReno (RFC 5681).
    Reno,
    /// CUBIC with HyStart (RFC 9438).
    #[default]
    Cubic,
    /// BBR, version 1.
    Bbr,
}

impl Algorithm {
    /// All algorithms (`tcp_available_congestion_control`).
    pub const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    /// The algorithm of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name() == name)
    }
}

/// The congestion window, in packets.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The window.
    pub cwnd: u32,
    /// Where slow start ends.
    pub ssthresh: u32,
    /// Acknowledged packets that count towards the next increase.
    pub count: u32,
    /// The largest window.
    pub clamp: u32,
}

impl Window {
    /// The window is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (`tcp_slow_start`): returns the packets left for congestion avoidance.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let to = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (to - self.cwnd);
        self.cwnd = to.min(self.clamp);
        left
    }

    /// One more packet per `every` packets acknowledged (`tcp_cong_avoid_ai`).
    pub fn increase(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        if self.count >= every {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        if self.count >= every {
            let more = self.count / every;
            self.count -= more * every;
            self.cwnd += more;
        }
        self.cwnd = self.cwnd.min(self.clamp);
    }
}

/// An algorithm and its state.
#[derive(Debug, Clone)]
pub enum Congestion {
    /// NewReno
    Reno,
    /// CUBIC
    Cubic(Cubic),
    /// BBR
    Bbr(Box<Bbr>),
}

impl Congestion {
    /// Starts an algorithm at the time `now` (ns). `seed` decides where BBR's cycles begin; `mss` is in bytes.
    pub fn new(algorithm: Algorithm, now: u64, seed: u32, mss: u16) -> Self {
        match algorithm {
            Algorithm::Reno => Self::Reno,
            Algorithm::Cubic => Self::Cubic(Cubic::default()),
            Algorithm::Bbr => Self::Bbr(Box::new(Bbr::new(now, seed, mss.into()))),
        }
    }

    /// Which algorithm it is.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Reno => Algorithm::Reno,
            Self::Cubic(_) => Algorithm::Cubic,
            Self::Bbr(_) => Algorithm::Bbr,
        }
    }

    /// The threshold after a loss.
    pub fn after_loss(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno => reno::after_loss(window),
            Self::Cubic(cubic) => cubic.after_loss(window),
            Self::Bbr(bbr) => bbr.after_loss(window),
        }
    }

    /// `acked` packets were acknowledged at `now` (ns) while the window was the limit; `una` and `nxt` are the first
    /// unacknowledged and the next sequence number.
    pub fn acked(&mut self, window: &mut Window, acked: u32, now: u64, una: u32, nxt: u32) {
        match self {
            Self::Reno => reno::acked(window, acked),
            Self::Cubic(cubic) => cubic.acked(window, acked, now, una, nxt),
            // It decides by itself, at each acknowledgement.
            Self::Bbr(_) => {}
        }
    }

    /// The algorithm sets window and pacing rate itself, in recovery too (`cong_control`).
    pub fn decides(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    /// A sample of the round-trip time, in microseconds.
    pub fn rtt(&mut self, window: &mut Window, sample: &Sample) {
        if let Self::Cubic(cubic) = self {
            cubic.rtt(window, sample);
        }
    }

    /// A retransmission time-out: the flow starts anew.
    pub fn timed_out(&mut self, now: u64, una: u32, nxt: u32) {
        match self {
            Self::Reno => {}
            Self::Cubic(cubic) => cubic.reset(now, una, nxt),
            Self::Bbr(bbr) => bbr.timed_out(),
        }
    }

    /// The first packet after a pause that began at `since`, both in ns.
    pub fn resumed(&mut self, now: u64, since: u64) {
        if let Self::Cubic(cubic) = self {
            cubic.resumed(now, since);
        }
    }
}

/// What an acknowledgement tells about the path.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The time, in ns.
    pub now: u64,
    /// The round-trip time, in microseconds.
    pub rtt: u32,
    /// The first unacknowledged sequence number.
    pub una: u32,
    /// The next sequence number.
    pub nxt: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of(algorithm.name()), Some(algorithm));
            assert_eq!(
                Congestion::new(algorithm, 0, 1, 1460).algorithm(),
                algorithm
            );
        }
        assert_eq!(Algorithm::of("vegas"), None);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut window = Window {
            cwnd: 10,
            ssthresh: 15,
            count: 0,
            clamp: u32::MAX,
        };
        assert_eq!(window.slow_start(3), 0);
        assert_eq!(window.slow_start(10), 8);
        assert_eq!(window.cwnd, 15);
    }
}

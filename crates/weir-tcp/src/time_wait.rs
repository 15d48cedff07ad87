// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What remains of a connection in TIME_WAIT (`struct tcp_timewait_sock`, `tcp_timewait_state_process`).

use crate::config::Config;
use crate::connection::{Connection, State};
use crate::header::{ACK, FIN, Header, RST, SYN, Segment};
use crate::options::Options;
use crate::seq::{after, before};
use crate::time::{MS, TIME_WAIT};

/// The rest of a connection.
#[derive(Debug, Clone)]
pub struct TimeWait {
    snd_nxt: u32,
    rcv_nxt: u32,
    rcv_wnd: u32,
    ts_recent: u32,
    ts_recent_at: u64,
    ts_offset: u32,
    rcv_scale: u8,
    timestamps: bool,
    signed: bool,
    expires: u64,
    last_oow: u64,
}

/// What a segment means to TIME_WAIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is dropped.
    Drop,
    /// It is acknowledged: [`TimeWait::ack`].
    Ack,
    /// It is a new SYN: the state ends, and a listener may take it with at least this sequence number of its own.
    Syn(u32),
    /// The state ends.
    End,
    /// It is answered with a reset.
    Reset,
}

impl TimeWait {
    /// Takes what is needed of a connection in TIME_WAIT; nothing in another state.
    pub fn new(now: u64, connection: &Connection) -> Option<Self> {
        (connection.state() == State::TimeWait).then(|| Self {
            snd_nxt: connection.nxt,
            rcv_nxt: connection.rcv_nxt,
            rcv_wnd: connection.receive_window(),
            ts_recent: connection.ts_recent,
            ts_recent_at: connection.ts_recent_at,
            ts_offset: connection.ts_offset,
            rcv_scale: connection.rcv_scale,
            timestamps: connection.timestamps_ok,
            signed: connection.settings.signed,
            expires: now.saturating_add(TIME_WAIT),
            last_oow: 0,
        })
    }

    /// When it ends, in ns.
    pub fn deadline(&self) -> u64 {
        self.expires
    }

    /// Whether a new connection of this end may take the addresses (`tcp_twsk_unique`): its timestamps are later.
    /// Returns the sequence number to begin with.
    pub fn reuse(&self, now: u64) -> Option<u32> {
        (self.timestamps && now.saturating_sub(self.ts_recent_at) > crate::time::SECOND)
            .then(|| self.snd_nxt.wrapping_add(65535 + 2).max(1))
    }

    /// The last timestamp of the peer and when it came, for a connection that reuses the addresses.
    pub fn timestamp(&self) -> Option<(u32, u64)> {
        self.timestamps
            .then_some((self.ts_recent, self.ts_recent_at))
    }

    /// Takes a segment.
    pub fn segment(
        &mut self,
        now: u64,
        config: &Config,
        header: &Header,
        length: usize,
    ) -> Outcome {
        let end = header.seq.wrapping_add(header.sequence_length(length));
        let stamp = header.options.timestamps.filter(|_| self.timestamps);
        let old =
            stamp.is_some_and(|(value, _)| self.ts_recent != 0 && before(value, self.ts_recent));
        if !old && header.seq == self.rcv_nxt && (header.seq == end || header.has(RST)) {
            if header.has(RST) {
                if !config.rfc1337 {
                    return Outcome::End;
                }
            } else if header.has(ACK) {
                self.expires = now.saturating_add(TIME_WAIT);
            }
            if let Some((value, _)) = stamp {
                self.ts_recent = value;
                self.ts_recent_at = now;
            }
            return Outcome::Drop;
        }
        if header.has(SYN)
            && !header.has(RST)
            && !header.has(ACK)
            && !old
            && (after(header.seq, self.rcv_nxt)
                || stamp.is_some_and(|(value, _)| after(value, self.ts_recent)))
        {
            return Outcome::Syn(self.snd_nxt.wrapping_add(65535 + 2).max(1));
        }
        if header.has(RST) {
            return Outcome::Drop;
        }
        if old || header.has(ACK) {
            self.expires = now.saturating_add(TIME_WAIT);
        }
        if length == 0 && !header.has(FIN) {
            if self.last_oow != 0 && now.saturating_sub(self.last_oow) < config.invalid_ratelimit {
                return Outcome::Drop;
            }
            self.last_oow = now.max(1);
        }
        Outcome::Ack
    }

    /// The ACK that answers an old segment.
    pub fn ack(&self, now: u64) -> Segment<'static> {
        Segment {
            header: Header {
                seq: self.snd_nxt,
                ack: self.rcv_nxt,
                flags: ACK,
                window: (self.rcv_wnd >> self.rcv_scale).min(65535) as u16,
                options: Options {
                    md5: self.signed.then_some([0; 16]),
                    timestamps: self.timestamps.then(|| {
                        (
                            ((now / MS) as u32).wrapping_add(self.ts_offset),
                            self.ts_recent,
                        )
                    }),
                    ..Options::default()
                },
                ..Header::default()
            },
            data: [&[], &[]],
            mss: 536,
            ecn_capable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    fn waiting() -> TimeWait {
        TimeWait {
            snd_nxt: 1000,
            rcv_nxt: 500,
            rcv_wnd: 64000,
            ts_recent: 77,
            ts_recent_at: 0,
            ts_offset: 0,
            rcv_scale: 0,
            timestamps: true,
            signed: false,
            expires: TIME_WAIT,
            last_oow: 0,
        }
    }

    #[test]
    fn a_repeated_fin_is_acknowledged_and_extends_the_wait() {
        let mut wait = waiting();
        let fin = Header {
            seq: 499,
            ack: 1000,
            flags: FIN | ACK,
            ..Header::default()
        };
        let outcome = wait.segment(SECOND, &Config::default(), &fin, 0);
        assert_eq!(outcome, Outcome::Ack);
        assert_eq!(wait.deadline(), TIME_WAIT + SECOND);
        let ack = wait.ack(SECOND).header;
        assert_eq!((ack.seq, ack.ack, ack.flags), (1000, 500, ACK));
    }

    #[test]
    fn a_later_syn_takes_over() {
        let mut wait = waiting();
        let config = Config::default();
        let mut syn = Header {
            seq: 400,
            flags: SYN,
            ..Header::default()
        };
        assert_eq!(wait.segment(0, &config, &syn, 0), Outcome::Ack);
        syn.options.timestamps = Some((80, 0));
        assert!(matches!(wait.segment(0, &config, &syn, 0), Outcome::Syn(_)));
        syn.options.timestamps = None;
        syn.seq = 600;
        assert!(matches!(wait.segment(0, &config, &syn, 0), Outcome::Syn(_)));
    }

    #[test]
    fn resets_end_it_unless_rfc1337_says_otherwise() {
        let rst = Header {
            seq: 500,
            flags: RST,
            ..Header::default()
        };
        let mut config = Config::default();
        assert_eq!(waiting().segment(0, &config, &rst, 0), Outcome::End);
        config.rfc1337 = true;
        assert_eq!(waiting().segment(0, &config, &rst, 0), Outcome::Drop);
        assert_eq!(waiting().reuse(0), None);
        assert_eq!(waiting().reuse(2 * SECOND), Some(1000 + 65537));
    }
}

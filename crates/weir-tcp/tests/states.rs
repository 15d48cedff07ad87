// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states, segment by segment.

mod common;

use std::sync::Arc;

use common::opening;
use weir_tcp::header::{ACK, FIN, PSH, RST, SYN};
use weir_tcp::time::{MS, SECOND};
use weir_tcp::{
    Answer, Config, Connection, Events, Header, Options, Path, Request, Segment, Settings, State,
    TimeWait, error,
};

/// One end, and the test as its peer. Sequence numbers are relative: ours begin at 1000, the peer's at 5000.
struct Peer {
    now: u64,
    end: Connection,
}

type Sent = (u8, u32, u32, usize);

impl Peer {
    fn connect(config: Config, settings: Settings) -> Self {
        let now = SECOND;
        let opening = opening(&Arc::new(config), &settings, Path::ipv4(1500), 1000);
        Self {
            now,
            end: Connection::connect(now, opening),
        }
    }

    fn established_with(config: Config, settings: Settings) -> Self {
        let mut peer = Self::connect(config, settings);
        peer.poll();
        peer.input_with(
            SYN | ACK,
            5000,
            1001,
            b"",
            Options {
                mss: Some(1460),
                ..Options::default()
            },
        );
        assert_eq!(peer.poll(), [(ACK, 1001, 5001, 0)]);
        assert_eq!(peer.end.state(), State::Established);
        assert!(peer.end.take_events().has(Events::ESTABLISHED));
        peer
    }

    fn established() -> Self {
        Self::established_with(Config::default(), Settings::default())
    }

    fn poll(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        self.end.poll(self.now, &mut |segment: &Segment<'_>| {
            let h = &segment.header;
            sent.push((h.flags, h.seq, h.ack, segment.length()));
        });
        sent
    }

    fn input_with(
        &mut self,
        flags: u8,
        seq: u32,
        ack: u32,
        data: &[u8],
        options: Options,
    ) -> Answer {
        let header = Header {
            seq,
            ack,
            flags,
            window: 60000,
            options,
            ..Header::default()
        };
        self.end.segment(self.now, &header, data)
    }

    fn input(&mut self, flags: u8, seq: u32, ack: u32, data: &[u8]) -> Answer {
        self.input_with(flags, seq, ack, data, Options::default())
    }

    /// Lets the time pass until the next time-out, and returns how long that took, in ms.
    fn timeout(&mut self) -> u64 {
        let at = self.end.deadline().expect("a timer runs");
        let passed = at.saturating_sub(self.now) / MS;
        self.now = at;
        self.end.timeout(at);
        passed
    }
}

/// `TCP_QUICKACK` that is off before `connect` (`tcp_rcv_synsent_state_process`): the end of the handshake goes with the
/// data, or after 200 ms. From then on ACKs are quick.
#[test]
fn slow_acks_before_connect_delay_the_end_of_the_handshake() {
    let settings = Settings {
        slow_ack: true,
        ..Settings::default()
    };
    let syn_ack = |peer: &mut Peer| {
        peer.poll();
        assert!(!peer.end.quick_ack());
        peer.input(SYN | ACK, 5000, 1001, b"");
        assert_eq!(peer.poll(), []);
        assert!(peer.end.quick_ack());
    };
    let mut peer = Peer::connect(Config::default(), settings.clone());
    syn_ack(&mut peer);
    peer.end.send(peer.now, b"data");
    assert_eq!(peer.poll(), [(ACK | PSH, 1001, 5001, 4)]);
    let mut peer = Peer::connect(Config::default(), settings);
    syn_ack(&mut peer);
    assert_eq!(peer.timeout(), 200);
    assert_eq!(peer.poll(), [(ACK, 1001, 5001, 0)]);
}

#[test]
fn a_syn_is_repeated_with_doubled_times_and_gives_up() {
    let mut peer = Peer::connect(Config::default(), Settings::default());
    assert_eq!(peer.poll(), [(SYN, 1000, 0, 0)]);
    let mut times = Vec::new();
    while peer.end.state() != State::Closed {
        times.push(peer.timeout() / 1000);
        let sent = peer.poll();
        assert!(sent.is_empty() || sent == [(SYN, 1000, 0, 0)]);
    }
    assert_eq!(times, [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(peer.end.take_error(), error::ETIMEDOUT);
}

#[test]
fn a_reset_refuses() {
    let mut peer = Peer::connect(Config::default(), Settings::default());
    peer.poll();
    // The wrong acknowledgement number: not for this SYN.
    peer.input(RST | ACK, 0, 1000, b"");
    assert_eq!(peer.end.state(), State::SynSent);
    assert_eq!(peer.input(SYN | ACK, 5000, 1002, b""), Answer::Reset);
    peer.input(RST | ACK, 0, 1001, b"");
    assert_eq!(peer.end.state(), State::Closed);
    assert_eq!(peer.end.take_error(), error::ECONNREFUSED);
    assert_eq!(peer.input(ACK, 1, 1, b""), Answer::Reset);
}

#[test]
fn an_icmp_error_ends_a_handshake_but_not_a_connection() {
    let mut peer = Peer::connect(Config::default(), Settings::default());
    peer.poll();
    peer.end.icmp_error(999, 113, true);
    assert_eq!(peer.end.state(), State::SynSent);
    peer.end.icmp_error(1000, 113, true);
    assert_eq!(peer.end.take_error(), 113);
    let mut peer = Peer::established();
    peer.end.icmp_error(1001, 113, true);
    assert_eq!(peer.end.state(), State::Established);
}

#[test]
fn both_open_at_once() {
    let mut peer = Peer::connect(Config::default(), Settings::default());
    peer.poll();
    peer.input(SYN, 5000, 0, b"");
    assert_eq!(peer.end.state(), State::SynReceived);
    assert_eq!(peer.poll(), [(SYN | ACK, 1000, 5001, 0)]);
    peer.input(ACK, 5001, 1001, b"");
    assert_eq!(peer.end.state(), State::Established);
    assert_eq!(peer.end.send(peer.now, b"hello"), 5);
    assert_eq!(peer.poll(), [(ACK | PSH, 1001, 5001, 5)]);
}

#[test]
fn this_end_closes_first() {
    let mut peer = Peer::established();
    peer.end.shutdown_send();
    assert_eq!(peer.poll(), [(FIN | ACK, 1001, 5001, 0)]);
    assert_eq!(peer.end.state(), State::FinWait1);
    peer.input(ACK, 5001, 1002, b"");
    assert_eq!(peer.end.state(), State::FinWait2);
    // The other direction is still open.
    peer.input(ACK | PSH, 5001, 1002, b"late");
    assert_eq!(peer.end.received()[0], b"late");
    peer.input(FIN | ACK, 5005, 1002, b"");
    assert_eq!(peer.end.state(), State::TimeWait);
    assert_eq!(peer.poll(), [(ACK, 1002, 5006, 0)]);
    assert!(peer.end.take_events().has(Events::TIME_WAIT));
    assert!(TimeWait::new(peer.now, &peer.end).is_some());
}

#[test]
fn the_peer_closes_first() {
    let mut peer = Peer::established();
    peer.input(FIN | ACK | PSH, 5001, 1001, b"bye");
    assert_eq!(peer.end.state(), State::CloseWait);
    assert!(peer.end.take_events().has(Events::PEER_CLOSED));
    assert!(peer.end.at_end());
    peer.poll();
    assert_eq!(peer.end.send(peer.now, b"answer"), 6);
    peer.end.consume(peer.now, 3);
    peer.end.close(peer.now, false);
    assert_eq!(peer.end.state(), State::LastAck);
    assert_eq!(peer.poll(), [(FIN | ACK | PSH, 1001, 5005, 6)]);
    peer.input(ACK, 5005, 1008, b"");
    assert_eq!(peer.end.state(), State::Closed);
    assert_eq!(peer.end.take_error(), 0);
}

#[test]
fn both_close_at_once() {
    let mut peer = Peer::established();
    peer.end.close(peer.now, false);
    peer.poll();
    peer.input(FIN | ACK, 5001, 1001, b"");
    assert_eq!(peer.end.state(), State::Closing);
    assert_eq!(peer.poll(), [(ACK, 1002, 5002, 0)]);
    peer.input(ACK, 5002, 1002, b"");
    assert_eq!(peer.end.state(), State::TimeWait);
}

#[test]
fn unread_data_and_linger_reset() {
    let mut peer = Peer::established();
    peer.input(ACK | PSH, 5001, 1001, b"unread");
    peer.poll();
    peer.end.close(peer.now, false);
    assert_eq!(peer.poll(), [(RST | ACK, 1001, 5007, 0)]);
    let mut peer = Peer::established();
    peer.end.close(peer.now, true);
    assert_eq!(peer.poll(), [(RST | ACK, 1001, 5001, 0)]);
    assert_eq!(peer.end.state(), State::Closed);
}

#[test]
fn data_after_close_are_answered_with_a_reset() {
    let mut peer = Peer::established();
    peer.end.close(peer.now, false);
    peer.poll();
    peer.input(ACK, 5001, 1002, b"");
    assert_eq!(peer.end.state(), State::FinWait2);
    assert_eq!(peer.input(ACK, 5001, 1002, b"x"), Answer::Reset);
    assert_eq!(peer.end.state(), State::Closed);
}

#[test]
fn an_orphan_in_fin_wait2_ends_after_a_minute() {
    let mut peer = Peer::established();
    peer.end.close(peer.now, false);
    peer.poll();
    peer.input(ACK, 5001, 1002, b"");
    let start = peer.now;
    while peer.end.state() != State::Closed {
        peer.timeout();
    }
    assert_eq!(peer.now - start, 60 * SECOND);
}

/// RFC 5961: only the exact sequence number resets; others in the window, and SYNs, are challenged.
#[test]
fn blind_resets_and_syns_are_challenged() {
    let mut peer = Peer::established();
    peer.input(RST, 5002, 0, b"");
    assert_eq!(peer.poll(), [(ACK, 1001, 5001, 0)]);
    peer.now += SECOND;
    peer.input(SYN, 5001, 0, b"");
    assert_eq!(peer.poll(), [(ACK, 1001, 5001, 0)]);
    // Not twice within half a second.
    peer.input(RST, 5003, 0, b"");
    assert_eq!(peer.poll(), []);
    // Out of the window: nothing at all.
    peer.now += SECOND;
    peer.input(RST, 5001 + 100_000_000, 0, b"");
    assert_eq!(peer.poll(), []);
    assert_eq!(peer.end.state(), State::Established);
    peer.input(RST, 5001, 0, b"");
    assert_eq!(peer.end.state(), State::Closed);
    assert_eq!(peer.end.take_error(), error::ECONNRESET);
}

#[test]
fn acks_of_the_future_and_the_far_past_are_ignored() {
    let mut peer = Peer::established();
    peer.input(ACK | PSH, 5001, 2000, b"inject");
    assert_eq!(peer.end.readable(), 0);
    peer.input(
        ACK | PSH,
        5001,
        1001u32.wrapping_sub(100_000_000),
        b"inject",
    );
    assert_eq!(peer.end.readable(), 0);
    assert_eq!(peer.poll(), [(ACK, 1001, 5001, 0)]);
}

#[test]
fn nagle_and_cork_hold_small_segments_back() {
    let mut peer = Peer::established();
    peer.end.send(peer.now, b"a");
    assert_eq!(peer.poll(), [(ACK | PSH, 1001, 5001, 1)]);
    peer.end.send(peer.now, b"b");
    assert_eq!(peer.poll(), []);
    peer.end.send(peer.now, b"c");
    peer.input(ACK, 5001, 1002, b"");
    assert_eq!(peer.poll(), [(ACK | PSH, 1002, 5001, 2)]);
    let settings = Settings {
        nodelay: true,
        ..Settings::default()
    };
    peer.end.set(peer.now, settings);
    peer.end.send(peer.now, b"d");
    assert_eq!(peer.poll(), [(ACK | PSH, 1004, 5001, 1)]);
    let settings = Settings {
        cork: true,
        ..Settings::default()
    };
    peer.input(ACK, 5001, 1005, b"");
    peer.end.set(peer.now, settings);
    peer.end.send(peer.now, b"e");
    assert_eq!(peer.poll(), []);
    peer.end.set(peer.now, Settings::default());
    assert_eq!(peer.poll(), [(ACK | PSH, 1005, 5001, 1)]);
}

#[test]
fn the_first_acks_are_quick_and_later_ones_delayed() {
    let mut peer = Peer::established();
    let mut seq = 5001;
    let mut delayed = 0;
    for _ in 0..40 {
        peer.input(ACK | PSH, seq, 1001, b"0123456789");
        seq += 10;
        if peer.poll().is_empty() {
            delayed += 1;
            assert_eq!(peer.timeout(), 40);
            assert_eq!(peer.poll(), [(ACK, 1001, seq, 0)]);
        }
        peer.end.consume(peer.now, 10);
    }
    assert!((15..40).contains(&delayed), "{delayed}");
}

/// Retransmission after 200 ms more than the round trip, doubled each time, and the end at the first
/// time-out later than 924.6 s after the first retransmission (`tcp_retries2` of 15).
#[test]
fn data_are_sent_again_until_the_connection_times_out() {
    let config = Config {
        loss_probe: false,
        ..Config::default()
    };
    let mut peer = Peer::established_with(config, Settings::default());
    peer.end.send(peer.now, b"x");
    peer.poll();
    let mut times = Vec::new();
    while peer.end.state() != State::Closed {
        times.push(peer.timeout());
        let sent = peer.poll();
        assert!(
            sent.is_empty() || sent == [(ACK | PSH, 1001, 5001, 1)],
            "{sent:?}"
        );
    }
    assert_eq!(times[..6], [200, 400, 800, 1600, 3200, 6400]);
    assert_eq!(times.last(), Some(&120_000));
    assert_eq!(times.len(), 17);
    assert_eq!(peer.end.take_error(), error::ETIMEDOUT);
}

#[test]
fn keep_alive_probes_and_gives_up() {
    let settings = Settings {
        keepalive: true,
        keep_idle: Some(10 * SECOND),
        keep_interval: Some(2 * SECOND),
        keep_count: Some(3),
        ..Settings::default()
    };
    let mut peer = Peer::established_with(Config::default(), settings);
    let start = peer.now;
    while peer.poll() != [(ACK, 1000, 5001, 0)] {
        peer.timeout();
    }
    assert_eq!(peer.now - start, 10 * SECOND);
    // The peer is there.
    peer.input(ACK, 5001, 1001, b"");
    let mut probes = 0;
    while peer.end.state() != State::Closed {
        peer.timeout();
        probes += usize::from(peer.poll() == [(ACK, 1000, 5001, 0)]);
    }
    assert_eq!(probes, 3);
    assert_eq!(peer.end.take_error(), error::ETIMEDOUT);
}

#[test]
fn a_user_timeout_ends_sooner() {
    let settings = Settings {
        user_timeout: 3 * SECOND,
        ..Settings::default()
    };
    let mut peer = Peer::established_with(Config::default(), settings);
    peer.end.send(peer.now, b"x");
    peer.poll();
    let start = peer.now;
    while peer.end.state() != State::Closed {
        peer.timeout();
        peer.poll();
    }
    assert!((3 * SECOND..7 * SECOND).contains(&(peer.now - start)));
    assert_eq!(peer.end.take_error(), error::ETIMEDOUT);
}

#[test]
fn early_data_are_reported_and_joined() {
    let config = Config::default();
    let mut peer = Peer::connect(config, Settings::default());
    peer.poll();
    let options = Options {
        mss: Some(1460),
        sack_permitted: true,
        ..Options::default()
    };
    peer.input_with(SYN | ACK, 5000, 1001, b"", options);
    peer.poll();
    peer.input(ACK, 5004, 1001, b"def");
    let mut blocks = Vec::new();
    peer.end.poll(peer.now, &mut |segment: &Segment<'_>| {
        blocks.extend_from_slice(segment.header.options.sack_blocks());
    });
    assert_eq!(blocks, [(5004, 5007)]);
    peer.input(FIN | ACK, 5009, 1001, b"");
    peer.input(ACK, 5001, 1001, b"abc");
    assert_eq!(peer.poll(), [(ACK, 1001, 5007, 0)]);
    assert_eq!(peer.end.state(), State::Established);
    peer.input(ACK, 5005, 1001, b"efgh");
    assert_eq!(peer.end.received().concat(), b"abcdefgh");
    assert_eq!(peer.end.state(), State::CloseWait);
    assert_eq!(peer.poll(), [(ACK, 1001, 5010, 0)]);
}

#[test]
fn old_timestamps_are_rejected() {
    let mut peer = Peer::connect(Config::default(), Settings::default());
    peer.poll();
    let stamps = |value| Options {
        timestamps: Some((value, 0)),
        ..Options::default()
    };
    peer.input_with(SYN | ACK, 5000, 1001, b"", stamps(100));
    peer.poll();
    peer.input_with(ACK, 5001, 1001, b"new", stamps(200));
    peer.poll();
    peer.input_with(ACK, 5004, 1001, b"old", stamps(150));
    assert_eq!(peer.end.readable(), 3);
    assert_eq!(peer.poll(), [(ACK, 1001, 5004, 0)]);
}

#[test]
fn a_request_checks_the_ack() {
    let config = Arc::new(Config::default());
    let settings = Settings::shared();
    let path = Path::ipv4(1500);
    let syn = Header {
        seq: 5000,
        flags: SYN,
        window: 64240,
        options: Options {
            mss: Some(1460),
            sack_permitted: true,
            timestamps: Some((7, 0)),
            window_scale: Some(7),
            ..Options::default()
        },
        ..Header::default()
    };
    let mut request = Request::new(SECOND, &config, &settings, &path, &syn, 1000, 0);
    let answer = request.syn_ack(SECOND).header;
    assert_eq!(
        (answer.seq, answer.ack, answer.flags),
        (1000, 5001, SYN | ACK)
    );
    assert_eq!(answer.window, 65160);
    assert_eq!(answer.options.mss, Some(1460));
    assert_eq!(answer.options.window_scale, Some(7));
    assert_eq!(answer.options.timestamps, Some((1000, 7)));
    let mut ack = Header {
        seq: 5001,
        ack: 1002,
        flags: ACK,
        window: 502,
        options: Options {
            timestamps: Some((8, 1000)),
            ..Options::default()
        },
        ..Header::default()
    };
    use weir_tcp::request::Verdict;
    assert_eq!(request.segment(SECOND, &config, &ack, 0), Verdict::Reset);
    ack.ack = 1001;
    assert_eq!(request.segment(SECOND, &config, &ack, 5), Verdict::Complete);
    let (end, answer) = request.accept(SECOND, &config, &settings, path, &ack, b"first");
    assert_eq!(answer, Answer::None);
    assert_eq!(end.state(), State::Established);
    assert_eq!(end.received()[0], b"first");
    assert_eq!(end.mss(), 1448);
    assert_eq!(end.info(SECOND).snd_wnd, 502 << 7);
}

#[test]
fn buffers_are_freed_when_the_connection_is_idle() {
    let mut peer = Peer::established();
    peer.end.send(peer.now, &[0; 1000]);
    peer.poll();
    peer.input(ACK | PSH, 5001, 2001, &[0; 1000]);
    peer.poll();
    peer.end.consume(peer.now, 1000);
    assert!(peer.end.memory() > 0);
    while peer.end.deadline().is_some() {
        peer.timeout();
        peer.poll();
    }
    assert_eq!(peer.end.memory(), 0);
    assert!(
        size_of::<Connection>() <= 1400,
        "{}",
        size_of::<Connection>()
    );
}

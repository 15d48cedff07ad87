// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP conversations, and the table of states.

use super::*;
use crate::settings::Setting;
use crate::status::{TcpState, ips};
use crate::tcp::{Next, STATES};
use weir_packet::ConnInfo::*;

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

const PORTS: (u16, u16) = (4000, 80);
/// Maximum segment size, selective acknowledgements, window scale 7.
const OPTIONS: &[u8] = &[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0];

/// Who sends.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    C,
    S,
}
use Side::{C, S};

struct Talk {
    bench: Bench,
    /// What each side has sent, without the initial number.
    initial: [u32; 2],
}

impl Talk {
    fn new() -> Self {
        Self {
            bench: Bench::new(),
            initial: [0xffff_f000, 7_000_000],
        }
    }

    /// Sends a segment with relative numbers, after a tenth of a second.
    fn send(&mut self, from: Side, flags: u16, seq: u32, ack: u32, len: usize) -> ConnInfo {
        self.send_window(from, flags, (seq, ack), len, 500)
    }

    fn send_window(
        &mut self,
        from: Side,
        flags: u16,
        (seq, ack): (u32, u32),
        len: usize,
        window: u16,
    ) -> ConnInfo {
        self.bench.now += SECOND / 10;
        let (me, you) = if from == C { (0, 1) } else { (1, 0) };
        let seg = Seg {
            flags,
            seq: self.initial[me].wrapping_add(seq),
            ack: if flags & ACK != 0 {
                self.initial[you].wrapping_add(ack)
            } else {
                0
            },
            window,
            options: if flags & SYN != 0 { OPTIONS } else { &[] },
            len,
        };
        let bytes = match from {
            C => tcp(CLIENT, SERVER, PORTS, seg),
            S => tcp(SERVER, CLIENT, (PORTS.1, PORTS.0), seg),
        };
        self.bench.info(&bytes, &COMMIT)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let tuple = Tuple::v4(CLIENT, SERVER, PORTS.0, PORTS.1, TCP);
        self.bench.get(&tuple).map(|(snapshot, _)| snapshot)
    }

    fn state(&self) -> (TcpState, u32) {
        let snapshot = self.snapshot().unwrap();
        (snapshot.tcp.unwrap().state, snapshot.timeout)
    }

    fn open(&mut self) {
        assert_eq!(self.send(C, SYN, 0, 0, 0), New);
        assert_eq!(self.send(S, SYN | ACK, 0, 1, 0), EstablishedReply);
        assert_eq!(self.send(C, ACK, 1, 1, 0), Established);
    }

    fn status(&self) -> u32 {
        self.snapshot().unwrap().status
    }
}

/// The table, as the kernel's module `nf_conntrack` of Linux 6.1 has it (`tcp_conntracks`).
const LINUX: &str = "\
SS SS IG IG IG IG IG SS SS S2
IV IV SR IV IV IV IV IV IV SR
IV IV FW FW LA LA LA TW CL IV
ES IV ES ES CW CW TW TW CL IV
IV CL CL CL CL CL CL CL CL CL
IV IV IV IV IV IV IV IV IV IV
IV S2 IV IV IV IV IV SS IV S2
IV SR IG IG IG IG IG IG IG SR
IV IV FW FW LA LA LA TW CL IV
IV IG SR ES CW CW TW TW CL IG
IV CL CL CL CL CL CL CL CL CL
IV IV IV IV IV IV IV IV IV IV
";

#[test]
fn the_table_of_states_is_linuxs() {
    let short = |next: &Next| match next {
        Next::Invalid => "IV",
        Next::Ignore => "IG",
        Next::To(state) => {
            ["NO", "SS", "SR", "ES", "FW", "CW", "LA", "TW", "CL", "S2"][*state as usize]
        }
    };
    let ours: String = STATES
        .iter()
        .flatten()
        .map(|row| row.iter().map(short).collect::<Vec<_>>().join(" ") + "\n")
        .collect();
    assert_eq!(ours, LINUX);
}

#[test]
fn an_orderly_close_by_the_client() {
    use TcpState::{CloseWait, FinWait, LastAck, SynRecv, SynSent, TimeWait};
    let mut talk = Talk::new();
    assert_eq!(talk.send(C, SYN, 0, 0, 0), ConnInfo::New);
    assert_eq!(talk.state(), (SynSent, 120));
    assert_eq!(talk.send(S, SYN | ACK, 0, 1, 0), EstablishedReply);
    assert_eq!(talk.state(), (SynRecv, 60));
    assert_eq!(talk.status(), ips::CONFIRMED | ips::SEEN_REPLY);
    talk.send(C, ACK, 1, 1, 0);
    assert_eq!(talk.state(), (TcpState::Established, 432_000));
    assert_eq!(
        talk.status(),
        ips::CONFIRMED | ips::SEEN_REPLY | ips::ASSURED
    );
    assert_eq!(talk.snapshot().unwrap().tcp.unwrap().scale, [7, 7]);
    // Data that is not acknowledged yet has the shorter time-out.
    assert_eq!(talk.send(C, ACK, 1, 1, 100), ConnInfo::Established);
    assert_eq!(talk.state(), (TcpState::Established, 300));
    assert_eq!(talk.send(S, ACK, 1, 101, 0), EstablishedReply);
    assert_eq!(talk.state(), (TcpState::Established, 432_000));
    talk.send(S, ACK, 1, 101, 1000);
    talk.send(C, ACK, 101, 1001, 0);
    talk.send(C, FIN | ACK, 101, 1001, 0);
    assert_eq!(talk.state(), (FinWait, 120));
    talk.send(S, ACK, 1001, 102, 0);
    assert_eq!(talk.state(), (CloseWait, 60));
    talk.send(S, FIN | ACK, 1001, 102, 0);
    assert_eq!(talk.state(), (LastAck, 30));
    talk.send(C, ACK, 102, 1002, 0);
    assert_eq!(talk.state(), (TimeWait, 120));
    // A retransmitted last acknowledgement stays there, and the connection expires.
    talk.send(C, ACK, 102, 1002, 0);
    assert_eq!(talk.state(), (TimeWait, 120));
    talk.bench.now += 120 * SECOND;
    assert_eq!(talk.snapshot(), None);
    assert_eq!(talk.bench.table.count(), 0);
}

#[test]
fn ports_are_reused_in_time_wait() {
    let mut talk = Talk::new();
    talk.open();
    talk.send(C, FIN | ACK, 1, 1, 0);
    talk.send(S, FIN | ACK, 1, 2, 0);
    talk.send(C, ACK, 2, 2, 0);
    assert_eq!(talk.state().0, TcpState::TimeWait);
    let before = talk.snapshot().unwrap().handle;
    talk.initial[0] = 99;
    assert_eq!(talk.send(C, SYN, 0, 0, 0), New);
    assert_eq!(talk.state(), (TcpState::SynSent, 120));
    assert_ne!(talk.snapshot().unwrap().handle, before);
    assert_eq!(talk.bench.table.count(), 1);
}

#[test]
fn a_reset_closes() {
    let mut talk = Talk::new();
    talk.open();
    talk.send(S, ACK, 1, 1, 10);
    talk.send(C, ACK, 1, 11, 0);
    // Behind the acknowledged data, but not exactly there: the connection stays, and for a challenge.
    assert_eq!(talk.send(S, RST, 15, 0, 0), EstablishedReply);
    assert_eq!(talk.state(), (TcpState::Established, 10));
    // Before it: invalid.
    assert_eq!(talk.send(S, RST, 5, 0, 0), Invalid);
    talk.send(C, ACK, 1, 11, 0);
    assert_eq!(talk.send(S, RST, 11, 0, 0), EstablishedReply);
    assert_eq!(talk.state(), (TcpState::Close, 10));
    let mut talk = Talk::new();
    talk.bench.settings.set(Setting::tcp_ignore_invalid_rst, 1);
    talk.open();
    talk.send(S, ACK, 1, 1, 10);
    talk.send(C, ACK, 1, 11, 0);
    assert_eq!(talk.send(S, RST, 5, 0, 0), EstablishedReply);
}

#[test]
fn a_refused_connection_is_forgotten_at_once() {
    let mut talk = Talk::new();
    talk.send(C, SYN, 0, 0, 0);
    // The answer of a closed port: no connection is left.
    assert_eq!(talk.send(S, RST | ACK, 0, 1, 0), EstablishedReply);
    assert_eq!(talk.snapshot(), None);
}

#[test]
fn opened_from_both_sides() {
    let mut talk = Talk::new();
    assert_eq!(talk.send(C, SYN, 0, 0, 0), New);
    assert_eq!(talk.send(S, SYN, 0, 0, 0), EstablishedReply);
    // A SYN without an answer before it does not renew the time-out.
    assert_eq!(talk.state(), (TcpState::SynSent2, 119));
    assert_eq!(talk.send(C, SYN | ACK, 0, 1, 0), Established);
    assert_eq!(talk.state().0, TcpState::SynRecv);
    assert_eq!(talk.send(S, SYN | ACK, 0, 1, 0), EstablishedReply);
    assert_eq!(talk.send(C, ACK, 1, 1, 0), Established);
    assert_eq!(talk.state(), (TcpState::Established, 432_000));
}

#[test]
fn a_retransmitted_syn_does_not_renew_the_timeout() {
    let mut talk = Talk::new();
    talk.send(C, SYN, 0, 0, 0);
    talk.bench.now += 50 * SECOND;
    assert_eq!(talk.send(C, SYN, 0, 0, 0), New);
    assert_eq!(talk.state(), (TcpState::SynSent, 69));
}

#[test]
fn retransmissions_without_an_answer_shorten_the_timeout() {
    let mut talk = Talk::new();
    talk.open();
    talk.send(S, ACK, 1, 1, 0);
    for _ in 0..4 {
        talk.send(C, ACK, 1, 1, 0);
    }
    assert_eq!(talk.state(), (TcpState::Established, 300));
    talk.send(C, ACK, 1, 1, 1);
    talk.send(S, ACK, 1, 2, 0);
    assert_eq!(talk.state(), (TcpState::Established, 432_000));
}

#[test]
fn segments_outside_of_the_window_are_invalid() {
    let mut talk = Talk::new();
    talk.open();
    // The server's window: 500 unscaled in the SYN, and 500 << 7 from its first segment on.
    talk.send(S, ACK, 1, 1, 0);
    let window = 500 << 7;
    assert_eq!(talk.send(C, ACK, window + 1, 1, 10), Established);
    // A little too much is ignored, and much is invalid.
    assert_eq!(talk.send(C, ACK, window + 20, 1, 10), Established);
    assert_eq!(talk.send(C, ACK, 3 * window, 1, 10), Invalid);
    // Old data, and old acknowledgements.
    assert_eq!(
        talk.send(C, ACK, 0u32.wrapping_sub(window), 1, 1),
        Established
    );
    assert_eq!(
        talk.send(C, ACK, 1, 0u32.wrapping_sub(200_000), 0),
        Established
    );
    assert_eq!(talk.state().0, TcpState::Established);
    // Acknowledges bytes that nobody sent.
    assert_eq!(talk.send(C, ACK, 1, 2, 0), Invalid);
    talk.bench.settings.set(Setting::tcp_be_liberal, 1);
    assert_eq!(talk.send(C, ACK, 1, 2, 0), Established);
    // Too short a header, and impossible flags.
    let seg = |flags| Seg {
        flags,
        seq: 1,
        ack: 1,
        window: 1,
        options: &[],
        len: 0,
    };
    for flags in [0, FIN, SYN | FIN, SYN | RST, FIN | RST | ACK] {
        let bytes = tcp(CLIENT, SERVER, PORTS, seg(flags));
        assert_eq!(talk.bench.info(&bytes, &COMMIT), Invalid, "{flags:#x}");
    }
    let mut bytes = tcp(CLIENT, SERVER, PORTS, seg(ACK));
    bytes[20 + 12] = 0x40;
    assert_eq!(talk.bench.info(&bytes, &COMMIT), Invalid);
}

#[test]
fn ends_outside_of_the_window_shorten_the_timeout() {
    let mut talk = Talk::new();
    talk.open();
    talk.send(S, ACK, 1, 1, 0);
    assert_eq!(talk.send(C, FIN | ACK, 1_000_000, 1, 0), Invalid);
    assert_eq!(talk.state(), (TcpState::Established, 431_999));
    assert_eq!(talk.send(S, FIN | ACK, 1_000_000, 1, 0), Invalid);
    assert_eq!(talk.state(), (TcpState::Established, 300));
}

#[test]
fn a_connection_is_picked_up_in_the_middle() {
    let mut talk = Talk::new();
    assert_eq!(talk.send(C, ACK, 1000, 500, 100), New);
    assert_eq!(talk.state(), (TcpState::Established, 300));
    assert_eq!(talk.send(S, ACK, 500, 1100, 0), EstablishedReply);
    assert_eq!(talk.state(), (TcpState::Established, 300));
    assert_eq!(talk.send(C, ACK, 1100, 500, 0), Established);
    assert_eq!(talk.state(), (TcpState::Established, 432_000));
    assert_ne!(talk.status() & ips::ASSURED, 0);
    let mut talk = Talk::new();
    talk.bench.settings.set(Setting::tcp_loose, 0);
    assert_eq!(talk.send(C, ACK, 1000, 500, 100), Invalid);
    assert_eq!(talk.send(S, SYN | ACK, 0, 1, 0), Invalid);
    assert_eq!(talk.bench.table.count(), 0);
}

#[test]
fn an_ignored_syn_brings_the_tracker_back_in_step() {
    let mut talk = Talk::new();
    talk.open();
    // The client has restarted, and begins with the same ports and another number.
    talk.initial[0] = 5;
    assert_eq!(talk.send(C, SYN, 0, 0, 0), Established);
    assert_eq!(talk.state().0, TcpState::Established);
    talk.initial[1] = 77;
    assert_eq!(talk.send(S, SYN | ACK, 0, 1, 0), EstablishedReply);
    assert_eq!(talk.state().0, TcpState::SynRecv);
    assert_eq!(talk.send(C, ACK, 1, 1, 0), Established);
    assert_eq!(talk.state().0, TcpState::Established);
}

#[test]
fn a_half_open_connection_is_reset() {
    let mut talk = Talk::new();
    talk.send(C, SYN, 0, 0, 0);
    // The server still has the old connection, and answers with a challenge.
    talk.initial[1] = 123_456;
    assert_eq!(talk.send(S, ACK, 0, 88, 0), EstablishedReply);
    assert_eq!(talk.state().0, TcpState::SynSent);
    // The client resets it.
    assert_eq!(talk.send(C, RST, 88, 0, 0), Established);
    assert_eq!(talk.state(), (TcpState::Close, 10));
}

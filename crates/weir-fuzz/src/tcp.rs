// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments, calls and time into the connections, requests, SYN cookies and TIME_WAIT of weir-tcp.
//!
//! The first two bytes choose options and the side that opens. Each step begins with a byte that says what happens; the
//! bytes after it are its arguments. A segment's numbers are given relative to what the connection expects, or its whole
//! header comes from the input. All segments carry data that tell their sequence number.
//!
//! Invariants: what the program reads is in order and without gaps, and what is sent is what the program has written;
//! headers fit in 60 bytes; a poll ends; memory is bounded; a timer that has fired is not due at the same time for ever.

use crate::input::Input;
use std::sync::Arc;

use weir_tcp::cookie::{self, Secret};
use weir_tcp::header::{ACK, SYN};
use weir_tcp::listener::{Admission, Listener};
use weir_tcp::request::Verdict;
use weir_tcp::time::{MS, SECOND};
use weir_tcp::time_wait::Outcome;
use weir_tcp::{
    Algorithm, Answer, Config, Connection, Header, Opening, Options, Path, Request, Segment,
    Settings, State, TimeWait,
};

/// Maximum number of steps of one input.
const STEPS: usize = 1_000;
/// The most segments of one poll.
const MOST_SENT: usize = 20_000;
/// More than the largest buffers, twice.
const MOST_MEMORY: usize = 32 << 20;
/// How often a timer may fire at one time.
const MOST_FIRED: usize = 64;

/// A number near `base`: exactly it, a little more or less, much more or less, or any.
fn near(input: &mut Input<'_>, base: u32) -> u32 {
    match input.byte() % 8 {
        0..=2 => base,
        3 => base.wrapping_add(input.byte().into()),
        4 => base.wrapping_sub(input.byte().into()),
        5 => base.wrapping_add(input.word() % 100_000),
        6 => base.wrapping_sub(input.word() % 100_000),
        _ => input.word(),
    }
}

/// The byte at a sequence number, of either direction.
fn byte_at(seq: u32) -> u8 {
    (seq ^ seq >> 8 ^ seq >> 16) as u8
}

fn data_at(seq: u32, length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|n| byte_at(seq.wrapping_add(n)))
        .collect()
}

struct Bench {
    now: u64,
    config: Arc<Config>,
    settings: Settings,
    path: Path,
    secret: Secret,
    listener: Listener<u8, ()>,
    end: Option<Connection>,
    rest: Option<TimeWait>,
    /// This end's first sequence number.
    isn: u32,
    /// The program has written so many bytes, and read so many.
    written: u32,
    read: u32,
    /// The sequence number of the first byte to be read, once it is known.
    first: Option<u32>,
    /// The program has closed the connection: it reads no more.
    closed: bool,
    /// What the peer knows: the next sequence number it sends, and the last header it saw.
    peer: u32,
    seen: Header,
}

/// Runs the steps that `bytes` describe.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (options, role) = (input.byte(), input.byte());
    let config = Arc::new(Config {
        ecn: options % 3,
        sack: options & 4 == 0,
        timestamps: options & 8 == 0,
        window_scaling: options & 16 == 0,
        congestion: Algorithm::ALL[usize::from(options >> 5) % Algorithm::ALL.len()],
        syncookies: role >> 2 & 3,
        ..Config::default()
    });
    let settings = Settings {
        nodelay: role & 16 != 0,
        keepalive: role & 32 != 0,
        max_pacing_rate: if role & 64 != 0 { 100_000 } else { u64::MAX },
        user_timeout: if role & 128 != 0 { SECOND } else { 0 },
        ..Settings::default()
    };
    let mut bench = Bench {
        now: 10 * SECOND,
        settings,
        path: Path::ipv4(1500),
        secret: Secret([1, 2, 3, 4]),
        listener: Listener::new(2),
        end: None,
        rest: None,
        isn: 0xffff_f000,
        written: 0,
        read: 0,
        first: None,
        closed: false,
        peer: 0x7fff_ff00,
        seen: Header::default(),
        config,
    };
    if role & 3 == 0 {
        bench.connect();
    }
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        bench.step(&mut input);
        bench.settle();
    }
}

impl Bench {
    fn opening(&self) -> Opening {
        Opening {
            config: self.config.clone(),
            settings: Arc::new(self.settings.clone()),
            path: self.path,
            isn: self.isn,
            timestamp_offset: 77,
            fast_open: None,
        }
    }

    fn connect(&mut self) {
        self.end = Some(Connection::connect(self.now, self.opening()));
        self.settle();
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        if what < 160 {
            let (header, length) = self.arriving(what, input);
            return self.arrive(header, length);
        }
        let now = self.now;
        match what {
            160..=175 => self.pass(u64::from(input.byte()) * MS),
            176..=180 => self.pass(u64::from(input.byte()) * SECOND),
            181..=190 => {
                let due = self.end.as_ref().and_then(Connection::deadline);
                let due = due.or_else(|| self.listener.deadline());
                self.pass(due.map_or(0, |due| due.saturating_sub(now)));
            }
            _ => self.call(what, input),
        }
    }

    /// A call of the program, or news of the path.
    fn call(&mut self, what: u8, input: &mut Input<'_>) {
        let now = self.now;
        let (isn, written) = (self.isn, self.written);
        let Some(end) = &mut self.end else { return };
        match what {
            191..=210 => {
                let length = usize::from(input.byte()) << (input.byte() % 10);
                let start = isn.wrapping_add(1).wrapping_add(written);
                let count = end.send(now, &data_at(start, length));
                self.written = self.written.wrapping_add(count as u32);
            }
            211..=225 => self.take(usize::from(input.byte()) << (input.byte() % 10)),
            226 | 227 => end.shutdown_send(),
            228 => end.shutdown_receive(),
            229 => {
                end.close(now, input.byte() & 1 == 1);
                self.closed = true;
            }
            230 => end.abort(104),
            231..=234 => {
                let seq = near(input, self.seen.seq);
                end.icmp_error(seq, 113, input.byte() & 1 == 1);
            }
            235..=238 => end.set_mtu(input.word() % 70_000),
            239..=246 => {
                let bits = input.byte();
                self.settings.cork = bits & 1 != 0;
                self.settings.nodelay = bits & 2 != 0;
                self.settings.keepalive = bits & 4 != 0;
                self.settings.window_clamp = if bits & 8 != 0 { input.word() } else { 0 };
                self.settings.notsent_low = if bits & 16 != 0 { input.word() } else { 0 };
                let rate = u64::from(input.byte()) << 12 | 1;
                self.settings.max_pacing_rate = if bits & 32 != 0 { rate } else { u64::MAX };
                self.settings.send_buffer = (bits & 64 != 0).then_some(4608);
                self.settings.receive_buffer = (bits & 128 != 0).then_some(2304);
                end.set(now, self.settings.clone());
            }
            247 => end.set_quick_ack(input.byte() & 1 == 1),
            _ => {
                let all = Algorithm::ALL;
                self.settings.congestion = Some(all[usize::from(input.byte()) % all.len()]);
                end.set(now, self.settings.clone());
            }
        }
    }

    /// The header of a segment that arrives, and how many data it has.
    fn arriving(&mut self, what: u8, input: &mut Input<'_>) -> (Header, usize) {
        if what < 16 {
            // Any header.
            let length = usize::from(input.byte());
            if let Some((header, _)) = Header::parse(input.bytes(length)) {
                return (header, usize::from(input.byte()));
            }
        }
        let expected = self.seen.seq.wrapping_add(u32::from(self.seen.has(SYN)));
        let flags = match what % 4 {
            0 => input.byte(),
            1 if self.end.is_none() && self.listener.half_open() == 0 => SYN,
            1 if self.seen.flags & (SYN | ACK) == SYN => SYN | ACK,
            _ => ACK,
        };
        let mut header = Header {
            seq: near(input, self.peer),
            ack: near(input, expected),
            flags,
            window: u16::from(input.byte()) << (what >> 2 & 8),
            congested: what & 32 != 0,
            ecn_capable: what & 64 != 0,
            ..Header::default()
        };
        let bits = input.byte();
        if bits & 1 != 0 {
            let length = usize::from(input.byte() % 41);
            header.options = Options::parse(input.bytes(length), header.has(SYN));
        } else {
            if bits & 2 != 0 {
                let (value, echo) = (
                    (self.now / MS) as u32,
                    self.seen.options.timestamps.map_or(0, |stamps| stamps.0),
                );
                header.options.timestamps = Some((near(input, value), near(input, echo)));
            }
            if header.has(SYN) {
                header.options.mss = (bits & 4 != 0).then_some(1460);
                header.options.window_scale = (bits & 8 != 0).then_some(7);
                header.options.sack_permitted = bits & 16 != 0;
            } else if bits & 4 != 0 {
                header.options.sack_count = 1 + (bits >> 3) % 4;
                for block in &mut header.options.sack {
                    let start = near(input, expected);
                    *block = (start, start.wrapping_add(u32::from(input.byte()) * 100));
                }
            }
        }
        let length = match bits >> 6 {
            0 => 0,
            1 => usize::from(input.byte()),
            2 => 1448,
            _ => usize::from(input.byte()) << 5,
        };
        if header.seq == self.peer && bits & 32 == 0 {
            self.peer = self.peer.wrapping_add(header.sequence_length(length));
        }
        (header, length)
    }

    fn arrive(&mut self, header: Header, length: usize) {
        let data = data_at(header.seq.wrapping_add(header.has(SYN).into()), length);
        if let Some(end) = &mut self.end {
            let answer = end.segment(self.now, &header, &data);
            let reset = header.reset(length);
            assert!(answer == Answer::None || reset.is_some() || header.has(4));
            if self.first.is_none()
                && !self.closed
                && header.has(SYN)
                && end.state() != State::SynSent
            {
                self.first = Some(header.seq.wrapping_add(1));
            }
            return;
        }
        if let Some(rest) = &mut self.rest {
            let outcome = rest.segment(self.now, &self.config, &header, length);
            self.seen = rest.ack(self.now).header;
            match outcome {
                Outcome::Syn(isn) => {
                    self.rest = None;
                    self.isn = isn;
                }
                Outcome::End => return self.rest = None,
                _ => return,
            }
        }
        self.listen(&header, &data);
    }

    /// A segment for the listener (`tcp_v4_rcv`).
    fn listen(&mut self, header: &Header, data: &[u8]) {
        let (now, key) = (self.now, (header.source % 3) as u8);
        let tuple = [key; 36];
        let mut complete = None;
        if let Some(request) = self.listener.request(&key) {
            match request.segment(now, &self.config, header, data.len()) {
                Verdict::SynAck => self.seen = request.syn_ack(now).header,
                Verdict::Ack => self.seen = request.ack(now).header,
                Verdict::Complete => complete = self.listener.remove(&key),
                Verdict::End => drop(self.listener.remove(&key)),
                Verdict::Drop | Verdict::Wait | Verdict::Reset => {}
            }
        } else if header.has(ACK) {
            let irs = header.seq.wrapping_sub(1);
            let isn = header.ack.wrapping_sub(1);
            if let Some(mss) = self.secret.check(now, &tuple, irs, isn) {
                let remembered = cookie::remembered(&header.options);
                complete = Some(Request::from_cookie(
                    now,
                    &self.config,
                    &self.settings,
                    &self.path,
                    header,
                    mss,
                    remembered,
                    0,
                ));
                self.isn = isn;
            }
        } else if header.has(SYN) {
            let admission = self.listener.admit(&self.config);
            if admission == Admission::Drop {
                return;
            }
            let mut request = Request::new(
                now,
                &self.config,
                &self.settings,
                &self.path,
                header,
                self.isn,
                5,
            );
            if admission == Admission::Cookie {
                request.set_isn(self.secret.make(now, &tuple, header.seq, request.mss()));
                request.remember_in_timestamp(now);
            }
            self.seen = request.syn_ack(now).header;
            if admission == Admission::Queue {
                self.listener.insert(key, request);
            }
        }
        if let Some(request) = complete {
            self.first = Some(request.irs().wrapping_add(1));
            let (end, _) = request.accept(
                now,
                &self.config,
                &Arc::new(self.settings.clone()),
                self.path,
                header,
                data,
            );
            (self.written, self.read) = (0, 0);
            self.end = Some(end);
        }
    }

    /// Reads at most `most` bytes, and checks them.
    fn take(&mut self, most: usize) {
        let closed = self.closed;
        let Some(end) = self.end.as_mut().filter(|_| !closed) else {
            return;
        };
        let mut count = 0;
        for part in end.received() {
            let part = part.get(..most - count).unwrap_or(part);
            if let Some(first) = self.first {
                for (n, byte) in part.iter().enumerate() {
                    let seq = first
                        .wrapping_add(self.read)
                        .wrapping_add((count + n) as u32);
                    assert_eq!(*byte, byte_at(seq), "data out of order");
                }
            }
            count += part.len();
        }
        self.read = self.read.wrapping_add(count as u32);
        end.consume(self.now, count);
    }

    /// Lets time pass, and fires the timers in between.
    fn pass(&mut self, time: u64) {
        let until = self.now.saturating_add(time.min(200 * SECOND));
        let mut last = (0, 0);
        loop {
            let due = match &self.end {
                Some(end) => end.deadline(),
                None => self.listener.deadline(),
            };
            let Some(due) = due.filter(|due| *due <= until) else {
                break;
            };
            self.now = self.now.max(due);
            last = if last.0 == self.now {
                (self.now, last.1 + 1)
            } else {
                (self.now, 0)
            };
            assert!(last.1 < MOST_FIRED, "a timer does not stop");
            let now = self.now;
            match &mut self.end {
                Some(end) => end.timeout(now),
                None => drop(self.listener.timeout(now, |_, request| {
                    assert!(request.syn_ack(now).header.length() <= 60);
                })),
            }
            self.settle();
        }
        self.now = until;
    }

    /// Sends what there is to send, and looks at it.
    fn settle(&mut self) {
        let (now, isn, written) = (self.now, self.isn, self.written);
        let Some(end) = &mut self.end else { return };
        let mut sent = 0;
        let seen = &mut self.seen;
        end.poll(now, &mut |segment: &Segment<'_>| {
            sent += 1;
            assert!(segment.header.length() <= 60, "the header is too long");
            let mut seq = segment
                .header
                .seq
                .wrapping_add(segment.header.has(SYN).into());
            for byte in segment.data.iter().copied().flatten() {
                assert_eq!(*byte, byte_at(seq), "other data than were written");
                assert!(seq.wrapping_sub(isn) <= written, "more than was written");
                seq = seq.wrapping_add(1);
            }
            *seen = segment.header;
            seen.seq = seq;
            seen.flags &= !if segment.header.has(SYN) { 0 } else { SYN };
            if segment.header.has(SYN) {
                seen.seq = segment.header.seq;
            }
        });
        assert!(sent < MOST_SENT, "a poll does not end");
        assert!(end.memory() < MOST_MEMORY, "unbounded memory");
        let _ = (end.info(now).bytes(), end.timer(), end.take_counts());
        let events = end.take_events();
        if events.has(weir_tcp::Events::TIME_WAIT) {
            self.take(usize::MAX);
            self.rest = self.end.as_ref().and_then(|end| TimeWait::new(now, end));
            self.end = None;
            self.first = None;
            self.closed = false;
        }
    }
}

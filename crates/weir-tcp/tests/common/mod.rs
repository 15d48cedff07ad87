// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two connections and a link between them that delays, loses, reorders and duplicates, in virtual time.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_tcp::request::{Due, Verdict};
use weir_tcp::time::MS;
use weir_tcp::{
    Answer, Config, Connection, Header, Opening, Path, Request, Segment, Settings, State,
};

/// A small generator of random numbers (xorshift64*).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// True with a probability in thousandths.
    pub fn chance(&mut self, thousandths: u64) -> bool {
        self.next() % 1000 < thousandths
    }
}

/// What the link does to packets: probabilities in thousandths, times in ns.
#[derive(Clone, Copy)]
pub struct Link {
    pub delay: u64,
    pub jitter: u64,
    pub loss: u64,
    pub duplicate: u64,
    /// Marks instead of losing.
    pub mark: u64,
    /// The time a packet of 1500 bytes takes; 0 for none.
    pub serialize: u64,
}

impl Link {
    pub const fn clean(delay: u64) -> Self {
        Self {
            delay,
            jitter: 0,
            loss: 0,
            duplicate: 0,
            mark: 0,
            serialize: 0,
        }
    }
}

/// A packet as the receiver sees it.
#[derive(Clone, Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub ce: bool,
    pub ect: bool,
    pub mss: u16,
}

impl Packet {
    pub fn of(segment: &Segment<'_>) -> Self {
        let mut bytes = vec![0; segment.header.length()];
        segment.header.write(&mut bytes);
        bytes.extend_from_slice(segment.data[0]);
        bytes.extend_from_slice(segment.data[1]);
        Self {
            bytes,
            ce: false,
            ect: segment.ecn_capable,
            mss: segment.mss,
        }
    }

    pub fn header(&self) -> (Header, &[u8]) {
        let (mut header, at) = Header::parse(&self.bytes).expect("a header");
        header.congested = self.ce;
        header.ecn_capable = self.ect;
        (header, &self.bytes[at..])
    }
}

/// Cuts a TSO-sized segment into packets.
pub fn cut(segment: &Segment<'_>) -> Vec<Packet> {
    let data: Vec<u8> = segment.data.concat();
    let mss = usize::from(segment.mss).max(1);
    if data.len() <= mss {
        return vec![Packet::of(segment)];
    }
    let pieces = data.chunks(mss).count();
    data.chunks(mss)
        .enumerate()
        .map(|(index, piece)| {
            let mut header = segment.header;
            header.seq = header.seq.wrapping_add((index * mss) as u32);
            if index + 1 < pieces {
                header.flags &= !(weir_tcp::header::FIN | weir_tcp::header::PSH);
            }
            if index > 0 {
                header.flags &= !weir_tcp::header::CWR;
            }
            Packet::of(&Segment {
                header,
                data: [piece, &[]],
                ..*segment
            })
        })
        .collect()
}

pub enum End {
    Listening(Arc<Config>, Settings, Path),
    Half(Arc<Config>, Settings, Path, Request),
    Open(Box<Connection>),
}

impl End {
    pub fn open(&mut self) -> &mut Connection {
        match self {
            Self::Open(connection) => connection,
            _ => panic!("the connection is not open"),
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }
}

pub struct Net {
    pub now: u64,
    pub ends: [End; 2],
    pub links: [Link; 2],
    pub random: Random,
    /// Packets under way, by arrival and order: to which end.
    pub queue: BTreeMap<(u64, u64), (usize, Packet)>,
    pub free_at: [u64; 2],
    pub serial: u64,
    pub sent: [u64; 2],
    pub lost: u64,
    pub resets: u64,
}

pub fn opening(config: &Arc<Config>, settings: &Settings, path: Path, isn: u32) -> Opening {
    Opening {
        config: config.clone(),
        settings: Arc::new(settings.clone()),
        path,
        isn,
        timestamp_offset: isn ^ 0x5555_5555,
        fast_open: None,
    }
}

impl Net {
    pub fn new(config: Config, settings: Settings, path: Path, link: Link, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let config = Arc::new(config);
        let now = 1_000_000_000;
        let isn = random.next() as u32;
        let client = Connection::connect(now, opening(&config, &settings, path, isn));
        let mut net = Self {
            now,
            ends: [
                End::Open(Box::new(client)),
                End::Listening(config, settings, path),
            ],
            links: [link; 2],
            random,
            queue: BTreeMap::new(),
            free_at: [0; 2],
            serial: 0,
            sent: [0; 2],
            lost: 0,
            resets: 0,
        };
        net.flush(0);
        net
    }

    /// Puts a packet on the link.
    pub fn transmit(&mut self, from: usize, mut packet: Packet) {
        self.sent[from] += 1;
        let link = self.links[from];
        if self.random.chance(link.loss) {
            self.lost += 1;
            return;
        }
        if packet.ect && self.random.chance(link.mark) {
            packet.ce = true;
        }
        let copies = 1 + u64::from(self.random.chance(link.duplicate));
        for _ in 0..copies {
            let start = self.now.max(self.free_at[from]);
            self.free_at[from] = start + link.serialize * packet.bytes.len() as u64 / 1500;
            let mut at = self.free_at[from] + link.delay;
            if link.jitter > 0 {
                at += self.random.next() % link.jitter;
            }
            self.serial += 1;
            self.queue
                .insert((at, self.serial), (1 - from, packet.clone()));
        }
    }

    /// Sends what an end has to send.
    pub fn flush(&mut self, end: usize) {
        let mut packets = Vec::new();
        if let End::Open(connection) = &mut self.ends[end] {
            connection.poll(self.now, &mut |segment: &Segment<'_>| {
                packets.extend(cut(segment))
            });
        }
        for packet in packets {
            self.transmit(end, packet);
        }
    }

    fn deliver(&mut self, to: usize, packet: &Packet) {
        let now = self.now;
        let (header, data) = packet.header();
        let mut answer = Answer::None;
        let mut reply = None;
        let mut next = None;
        match &mut self.ends[to] {
            End::Open(connection) => answer = connection.segment(now, &header, data),
            End::Listening(config, settings, path) => {
                if header.flags & 0x17 == weir_tcp::header::SYN {
                    let isn = self.random.next() as u32;
                    let request = Request::new(now, config, settings, path, &header, isn, isn);
                    reply = Some(Packet::of(&request.syn_ack(now)));
                    next = Some(End::Half(config.clone(), settings.clone(), *path, request));
                } else {
                    answer = Answer::Reset;
                }
            }
            End::Half(config, settings, path, request) => {
                match request.segment(now, config, &header, data.len()) {
                    Verdict::Drop | Verdict::Wait => {}
                    Verdict::SynAck => reply = Some(Packet::of(&request.syn_ack(now))),
                    Verdict::Ack => reply = Some(Packet::of(&request.ack(now))),
                    Verdict::Reset => answer = Answer::Reset,
                    Verdict::End => {
                        next = Some(End::Listening(config.clone(), settings.clone(), *path));
                    }
                    Verdict::Complete => {
                        let (connection, a) = request.accept(
                            now,
                            config,
                            &Arc::new(settings.clone()),
                            *path,
                            &header,
                            data,
                        );
                        answer = a;
                        next = Some(End::Open(Box::new(connection)));
                    }
                }
            }
        }
        if let Some(next) = next {
            self.ends[to] = next;
        }
        if let Some(reply) = reply {
            self.transmit(to, reply);
        }
        if answer == Answer::Reset
            && let Some(reset) = header.reset(data.len())
        {
            self.resets += 1;
            self.transmit(
                to,
                Packet::of(&Segment {
                    header: reset,
                    data: [&[], &[]],
                    mss: 536,
                    ecn_capable: false,
                }),
            );
        }
        self.flush(to);
    }

    fn deadline(&self, end: usize) -> Option<u64> {
        match &self.ends[end] {
            End::Open(connection) => connection.deadline(),
            End::Half(_, _, _, request) => Some(request.deadline()),
            End::Listening(..) => None,
        }
    }

    /// Advances to the next event. Returns false if there is none before `limit`.
    pub fn step(&mut self, limit: u64) -> bool {
        let packet = self.queue.keys().next().map(|key| key.0);
        let due = [packet, self.deadline(0), self.deadline(1)];
        let Some(at) = due.into_iter().flatten().min().filter(|&at| at <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(at);
        if packet == Some(at) {
            if let Some((_, (to, packet))) = self.queue.pop_first() {
                self.deliver(to, &packet);
            }
            return true;
        }
        for end in 0..2 {
            if self.deadline(end).is_some_and(|at| at <= self.now) {
                self.fire(end);
            }
        }
        true
    }

    fn fire(&mut self, end: usize) {
        let now = self.now;
        match &mut self.ends[end] {
            End::Open(connection) => connection.timeout(now),
            End::Half(config, settings, path, request) => match request.timeout(now) {
                Due::SynAck => {
                    let packet = Packet::of(&request.syn_ack(now));
                    self.transmit(end, packet);
                }
                Due::Nothing => {}
                Due::End => {
                    self.ends[end] = End::Listening(config.clone(), settings.clone(), *path);
                }
            },
            End::Listening(..) => {}
        }
        self.flush(end);
    }

    /// Runs for a time.
    pub fn run(&mut self, time: u64) {
        let limit = self.now + time;
        while self.step(limit) {}
    }

    /// Runs until both ends are established.
    pub fn establish(&mut self) {
        let limit = self.now + 300_000 * MS;
        while !(self.ends[1].is_open() && self.ends[0].open().state() == State::Established) {
            assert!(self.step(limit), "the handshake does not end");
        }
    }

    /// Queues data at an end. Returns how many bytes.
    pub fn write(&mut self, end: usize, data: &[u8]) -> usize {
        let now = self.now;
        let count = self.ends[end].open().send(now, data);
        self.flush(end);
        count
    }

    /// Reads all that has arrived at an end.
    pub fn read(&mut self, end: usize, to: &mut Vec<u8>) {
        let now = self.now;
        let connection = self.ends[end].open();
        let [a, b] = connection.received();
        let count = a.len() + b.len();
        to.extend_from_slice(a);
        to.extend_from_slice(b);
        connection.consume(now, count);
        self.flush(end);
    }

    /// Sends `data` from one end to the other and checks that it arrives. Returns the time it took, in ns.
    pub fn transfer(&mut self, from: usize, data: &[u8]) -> u64 {
        let start = self.now;
        let limit = start + 100_000_000 * MS;
        let mut queued = 0;
        let mut got = Vec::with_capacity(data.len());
        loop {
            if queued < data.len() {
                queued += self.write(from, &data[queued..]);
            }
            if self.ends[1 - from].is_open() {
                self.read(1 - from, &mut got);
            }
            if got.len() >= data.len() {
                break;
            }
            assert!(
                self.step(limit),
                "stuck at {} of {}: {:?}",
                got.len(),
                data.len(),
                self.ends[from].open().info(self.now)
            );
        }
        assert!(got == data, "the data differ");
        self.now - start
    }
}

/// Bytes that tell their place.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
